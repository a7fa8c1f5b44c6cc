"""How a level is chosen: by a public rule, by private selection, or by a look at exact values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import RequestError
from dpnb.privacy.calibrate import law
from dpnb.privacy.loss import PickedRational, PrivacyLoss, amount, floor_digits, is_picked
from dpnb.privacy.path import LEAST_LEVEL
from dpnb.risk import preferences
from dpnb.risk.choice import Choice, RiskHistogram, Source
from dpnb.risk.indicator import limit
from dpnb.risk.preferences import Preference, descending, largest_within, threshold
from dpnb.risk.request import Drawn
from dpnb.risk.selection import STEPS, Counts, Mechanism, Moments, Quantile, Tail

if TYPE_CHECKING:
    from dpnb.risk.profile import RiskProfile
    from dpnb.waiting import Progress

Cost: TypeAlias = tuple[Fraction, bool]
"""An amount in the session's currency, and whether it was picked by looking at the data."""
POLICIES = ("cumulative", "alone", "paper-dynamic")
METHODS = ("quantile", "tail", "variance")


def suggest(
    profile: RiskProfile, tau: object, policy: str, candidates: Sequence[object] | None
) -> Choice:
    """Apply the public rule (spec/rdr.md 3.5, S0); see :meth:`RiskProfile.suggest`."""
    _one_of(policy, POLICIES, "policy")
    least = threshold(tau)
    most = limit(least, profile.currency, profile.form)
    spent = profile.budget.spent.level(profile.currency)
    if policy == "cumulative":
        most = profile.desk.affordable(most - float(spent))
    if policy == "paper-dynamic" or candidates is not None or math.isinf(most):
        listed = descending(candidates)
        if policy == "paper-dynamic":
            listed = tuple(c for c in listed if c > spent)
        chosen = largest_within(listed, most)
    else:
        # what rounding leaves of a rule that is used up is no level
        chosen = floor_digits(most) if most >= LEAST_LEVEL else None
    # what is spent may itself have been picked
    picked = is_picked(candidates, tau) or (policy != "alone" and profile.desk.conditional)
    return choice(profile, chosen, "rule", "public", least, {"policy": policy}, picked=picked)


def by_preference(
    profile: RiskProfile,
    tau: object,
    preference: str | Preference,
    p: object,
    candidates: Sequence[object] | None,
) -> Choice:
    """Choose by exact values: RDR, Algorithm 1, but for the release (spec/rdr.md 3.2)."""
    wanted = preferences.read(preference, tau, p=p)
    name = preference if isinstance(preference, str) else type(preference).__name__
    chosen = profile.search(wanted, descending(candidates))
    return choice(profile, chosen, "data", name, wanted.threshold, {})


def selected(
    profile: RiskProfile,
    tau: object,
    method: str,
    cost: Cost,
    p: object,
    most: object,
    candidates: Sequence[object] | None,
    progress: Progress | None,
) -> Choice:
    """Choose by a private selection: S1, S2 or S4 of spec/rdr.md 3.5."""
    _one_of(method, METHODS, "method")
    if profile.cumulative:
        raise RequestError(
            "private choices look at this statement alone",
            "Leave cumulative=True out of curator.risk.",
        )
    listed = descending(candidates)
    least = preferences.positive(tau, "tau") if method == "variance" else threshold(tau)
    mechanism: Mechanism
    if method == "quantile":
        mechanism = quantile = Quantile(_proportion(p))
        drawn = profile.spend(mechanism, cost, progress)
        level = quantile.level(drawn.values, least, profile.currency, profile.form)
        chosen = largest_within(listed, level)
    elif method == "tail":
        mechanism = Tail(listed, least, _whole(most, "most", 0, 2**40), profile.form)
        drawn = profile.spend(mechanism, cost, progress)
        chosen = listed[drawn.values[0]] if drawn.values[0] >= 0 else None
    else:
        mechanism = moments = Moments()
        drawn = profile.spend(mechanism, cost, progress)
        level = moments.level(drawn.values, least, cost[0], profile.currency)
        chosen = largest_within(listed, level)
    detail = {**mechanism.definition(), "drawn": list(drawn.values)}
    picked = is_picked(candidates, tau, p, most)
    return choice(profile, chosen, "private", method, least, detail, drawn, picked=picked)


def choice(
    profile: RiskProfile,
    level: Fraction | None,
    source: Source,
    method: str,
    tau: float,
    detail: Mapping[str, Any],
    drawn: Drawn | None = None,
    *,
    picked: bool = False,
) -> Choice:
    """Return a choice with what it cost; ``picked`` when one of its terms came from a look at data."""
    budget, stored = profile.budget, drawn is not None and not drawn.fresh
    conditional = (
        (source == "data" and not profile.public)
        or picked
        or (drawn is not None and drawn.charge.conditional)
    )
    if level is not None:
        level = PickedRational(level) if conditional else Fraction(level)
    return Choice(
        sql=profile.sql.strip(),
        level=level,
        currency=profile.currency,
        delta=budget.delta,
        source=source,
        method=method,
        tau=tau,
        detail=detail,
        affordable=level is None or _affordable(profile, Fraction(level)),
        spent=PrivacyLoss.none() if drawn is None or stored else drawn.charge.spent,
        remaining=budget.remaining,
        cap=budget.cap,
        stored=stored,
        kept=budget.kept,
        stamp=profile.stamp,
        conditional=conditional,
        ledger=profile.ledger,
        ids=profile.ids,
    )


def shared(profile: RiskProfile, bins: int, cost: Cost, progress: Progress | None) -> RiskHistogram:
    """Release the histogram of contributions with noise on each count (spec/rdr.md 9.7)."""
    mechanism = Counts(bins)
    drawn = profile.spend(mechanism, cost, progress)
    budget = profile.budget
    # whole numbers lie further out than a quantile t of the continuous law no oftener once t is
    # rounded up: the sum of their law beyond m is at most the integral beyond m
    half = math.floor(law(cost[0], 1.0, profile.currency).quantile(0.05 / (bins + 1))) + 1
    return RiskHistogram(
        sql=profile.sql.strip(),
        edges=(0.0, *(STEPS * (i + 1) // bins / STEPS for i in range(bins))),
        counts=tuple(float(value) for value in drawn.values),
        low=tuple(max(0.0, value - half) for value in drawn.values),
        high=tuple(max(0.0, value + half) for value in drawn.values),
        confidence=0.95,
        currency=profile.currency,
        delta=budget.delta,
        spent=drawn.charge.spent if drawn.fresh else PrivacyLoss.none(),
        remaining=budget.remaining,
        cap=budget.cap,
        stored=not drawn.fresh,
        kept=budget.kept,
        stamp=profile.stamp,
        conditional=drawn.charge.conditional,
        ledger=profile.ledger,
        ids=profile.ids,
    )


def _affordable(profile: RiskProfile, level: Fraction) -> bool:
    """Return whether an answer at a level can be bought; some are beyond any noise."""
    try:
        return profile.price(level).affordable
    except RequestError:
        return False


def _one_of(value: object, known: tuple[str, ...], name: str) -> None:
    if not isinstance(value, str) or value not in known:
        raise RequestError(f"there is no {name} {value!r}", f"Use {', '.join(known)}.")


def _whole(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RequestError(f"{name} is no whole number from {low} to {high}", f"Give {name}={low}.")
    return value


def _proportion(p: object) -> Fraction:
    share = amount(p, "p")
    if not share < 1:
        raise RequestError("p is not between 0 and 1", "Give p=0.99.")
    if share.denominator > 10**6:
        raise RequestError("p has too many digits", "Give 6 at most, such as p=0.99.")
    return share
