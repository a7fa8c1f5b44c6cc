"""How a level is chosen: by a public rule, by private selection, or by a look at exact values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import RequestError
from dpnb.privacy.calibrate import law
from dpnb.privacy.loss import PrivacyLoss, amount, floor_digits
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
    if policy not in POLICIES:
        raise RequestError(f"there is no policy {policy!r}", f"Use {', '.join(POLICIES)}.")
    least = threshold(tau)
    most = limit(least, profile.currency, profile.form)
    spent = profile.budget.spent.level(profile.currency)
    if policy == "cumulative":
        most = max(0.0, most - float(spent))
    if policy == "paper-dynamic" or candidates is not None or math.isinf(most):
        listed = descending(candidates)
        if policy == "paper-dynamic":
            listed = tuple(c for c in listed if c > spent)
        chosen = largest_within(listed, most)
    else:
        # what rounding leaves of a rule that is used up is no level
        chosen = floor_digits(most) if most >= LEAST_LEVEL else None
    return choice(profile, chosen, "rule", "public", least, {"policy": policy})


def by_preference(
    profile: RiskProfile,
    tau: object,
    preference: str | Preference,
    p: object,
    candidates: Sequence[object] | None,
) -> Choice:
    """Choose by exact values: RDR, Algorithm 1, but for the release (spec/rdr.md 3.2)."""
    if isinstance(preference, str):
        wanted, name = preferences.by_name(preference, tau, p=p), preference
    else:
        wanted, name = preference, type(preference).__name__
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
    if method not in METHODS:
        raise RequestError(f"there is no method {method!r}", f"Use {', '.join(METHODS)}.")
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
        if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most < 2**40:
            raise RequestError("most is no number of rows", "Give 0 or more.")
        mechanism = Tail(listed, least, most, profile.form)
        drawn = profile.spend(mechanism, cost, progress)
        chosen = listed[drawn.values[0]] if drawn.values[0] >= 0 else None
    else:
        mechanism = moments = Moments()
        drawn = profile.spend(mechanism, cost, progress)
        level = moments.level(drawn.values, least, cost[0], profile.currency)
        chosen = largest_within(listed, level)
    detail = {**mechanism.definition(), "drawn": list(drawn.values)}
    return choice(profile, chosen, "private", method, least, detail, drawn, picked=cost[1])


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
    """Return a choice with what it cost; ``picked`` when its cost came from a look at the data."""
    budget, stored = profile.budget, drawn is not None and not drawn.fresh
    return Choice(
        sql=profile.sql.strip(),
        level=level,
        currency=profile.currency,
        delta=budget.delta,
        source=source,
        method=method,
        tau=tau,
        detail=detail,
        spent=PrivacyLoss.none() if drawn is None or stored else drawn.charge.spent,
        remaining=budget.remaining,
        cap=budget.cap,
        stored=stored,
        kept=budget.kept,
        private=profile.private_noise,
        conditional=(source == "data" and not profile.public) or picked,
        ledger=profile.ledger,
    )


def shared(profile: RiskProfile, bins: int, cost: Cost, progress: Progress | None) -> RiskHistogram:
    """Release the histogram of contributions with noise on each count (spec/rdr.md 9.7)."""
    mechanism = Counts(bins)
    drawn = profile.spend(mechanism, cost, progress)
    budget = profile.budget
    half = law(cost[0], 1.0, profile.currency).quantile(0.05 / (bins + 1))
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
        private=profile.private_noise,
        ledger=profile.ledger,
    )


def _proportion(p: object) -> Fraction:
    share = amount(p, "p")
    if not share < 1 or share.denominator > 10**6:
        raise RequestError("p is not between 0 and 1", "Give p=0.99, with 6 digits at most.")
    return share
