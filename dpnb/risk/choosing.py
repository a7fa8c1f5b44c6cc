"""Ways to choose a level: a public rule, a private selection, or a look at exact values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import RequestError, given
from dpnb.privacy.calibrate import distribution
from dpnb.privacy.loss import (
    PickedRational,
    PrivacyLoss,
    amount,
    amount_text,
    floor_digits,
    is_picked,
)
from dpnb.privacy.path import LEAST_LEVEL
from dpnb.risk import preferences
from dpnb.risk.choice import Choice, RiskHistogram, Source
from dpnb.risk.guesses import LIMIT, guesses_within, level_of_guesses, read_guesses
from dpnb.risk.indicator import limit
from dpnb.risk.preferences import Preference, descending, largest_within, threshold
from dpnb.risk.request import DEFAULT_COST, Drawn
from dpnb.risk.safe_counts import (
    AT_MOST,
    BINS,
    FAILURE,
    CountedLevel,
    CountsTarget,
    Histogram,
    SafeCounts,
    bounds,
    growth,
    price,
)
from dpnb.risk.selection import STEPS, Counts, Mechanism, Moments, Quantile, Tail

if TYPE_CHECKING:
    from dpnb.interrupt import Progress
    from dpnb.risk.profile import RiskProfile

Cost: TypeAlias = tuple[Fraction, bool]
"""An amount of the session's privacy definition, and whether a look at the data picked it."""
POLICIES = ("cumulative", "alone", "paper-dynamic")
METHODS = ("quantile", "tail", "variance")
"""Private choices of ``mode='paper'``, with no promise that the result meets the limit."""
TAU = 0.95
"""Default threshold."""
PART = 10
"""Unless their cost is given, safe counts take at most 1/PART of the remaining budget."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How easily people may be guessed: tau, the total level it allows, guesses right of 100."""

    tau: float
    level: float
    guesses: float


def read_limit(profile: RiskProfile, tau: object, guesses: object) -> Limit:
    """Return the limit that tau or a number of guesses means, set before looking at the data."""
    if guesses is not None:
        if tau != TAU:
            raise RequestError("give tau or guesses, not both", "Give one limit: guesses=60.")
        guess_limit = read_guesses(guesses)
        return Limit(0.0, level_of_guesses(guess_limit, profile.privacy), guess_limit)
    least = threshold(tau)
    most = limit(least, profile.privacy, profile.form)
    return Limit(least, most, guesses_within(most, profile.privacy))


def shown_limit(profile: RiskProfile, tau: object, guesses: object) -> Limit:
    """Return the limit for a picker or page; the default is 55 guesses right of 100."""
    if tau is None:
        return read_limit(profile, TAU, LIMIT if guesses is None else guesses)
    if guesses is not None:
        raise RequestError("give tau or guesses, not both", "Give one limit: guesses=60.")
    return read_limit(profile, tau, None)


def suggest(
    profile: RiskProfile,
    tau: object,
    guesses: object,
    policy: str,
    candidates: Sequence[object] | None,
) -> Choice:
    """Apply the public rule (docs/methods/rdr.md, theorem 16); see :meth:`RiskProfile.suggest`."""
    picked = is_picked(tau, guesses)
    return by_rule(profile, read_limit(profile, tau, guesses), policy, candidates, picked=picked)


def by_rule(
    profile: RiskProfile,
    wanted: Limit,
    policy: str = "cumulative",
    candidates: Sequence[object] | None = None,
    *,
    picked: bool = False,
) -> Choice:
    """Apply the public rule at a limit."""
    _one_of(policy, POLICIES, "policy")
    rounded = None if candidates is None else descending(candidates)
    late = not profile.context.settle("rule", wanted, policy, rounded)
    spent = profile.budget.spent.level(profile.privacy)
    most = _within(profile, wanted, policy)
    if policy == "paper-dynamic" or candidates is not None or math.isinf(most):
        levels = descending(candidates)
        if policy == "paper-dynamic":
            # compare the charge: a pure session may charge less than the candidate
            levels = tuple(c for c in levels if profile.context.charged(c) > spent)
        chosen_level = largest_within(levels, most)
    else:
        chosen_level = _usable(most)
    # the amounts already spent may themselves have been picked
    picked = picked or late or is_picked(candidates)
    picked = picked or (policy != "alone" and profile.context.conditional)
    left = Fraction(0) if math.isinf(most) else floor_digits(max(most, 0.0))
    detail = {
        "policy": policy,
        "limit": None if math.isinf(wanted.level) else str(floor_digits(wanted.level)),
        "left": str(left),
        "total": str(spent),
    }
    return choice(profile, chosen_level, "rule", "public", wanted, detail, picked=picked)


def _within(profile: RiskProfile, risk_limit: Limit, policy: str) -> float:
    """Return the largest level within a limit, by the public rule."""
    if policy != "cumulative":
        return risk_limit.level
    spent = float(profile.budget.spent.level(profile.privacy))
    return min(risk_limit.level, profile.context.affordable(risk_limit.level - spent))


def _usable(level: float) -> Fraction | None:
    """Return a level as an exact amount; None below LEAST_LEVEL, where it is a rounding error."""
    return floor_digits(level) if level >= LEAST_LEVEL else None


def by_preference(
    profile: RiskProfile,
    tau: object,
    guesses: object,
    preference: str | Preference,
    p: object,
    candidates: Sequence[object] | None,
) -> Choice:
    """Choose by exact values: RDR, Algorithm 1, without the release."""
    if guesses is not None:
        risk_limit = read_limit(profile, tau, guesses)
        criterion: Preference = preferences.MaxLoss(risk_limit.level)
        name = "max_loss"
    else:
        criterion = preferences.read(preference, tau, p=p)
        name = preference if isinstance(preference, str) else type(preference).__name__
        risk_limit = Limit(criterion.threshold, math.inf, 100.0)
    chosen_level = profile.search(criterion, descending(candidates))
    return choice(profile, chosen_level, "data", name, risk_limit, {})


def read_counts_target(
    profile: RiskProfile, at_most: object, p: object, rho: object, epsilon: object
) -> CountsTarget:
    """Read a target for safe counts and find its privacy cost, from public facts only."""
    if at_most is not None and p is not None:
        raise RequestError(
            "give at_most or p, not both", "Give a number of people, or a share of them."
        )
    share = None if p is None else 1 - _proportion(p)
    count = None
    if share is None:
        count = AT_MOST if at_most is None else _people(at_most)
        if count == 0:
            raise RequestError(
                "noisy counts cannot show that nobody is above the limit",
                "Leave at_most out: the rule promises that for free.",
            )
    explicit = rho is not None or epsilon is not None
    paid_cost = profile.context.bought(Histogram())
    if explicit:
        cost = profile.cost(rho, epsilon)[0]
        return CountsTarget(
            count, _float(share), cost, profile.privacy, explicit, paid_cost == cost
        )
    cost = DEFAULT_COST[profile.privacy] if count is None else price(count, profile.privacy)
    # counts already paid for serve any target that needs no higher cost
    enough = paid_cost >= cost
    return CountsTarget(
        count, _float(share), paid_cost if enough else cost, profile.privacy, explicit, enough
    )


def released(
    profile: RiskProfile,
    wanted: Limit,
    target: CountsTarget,
    policy: str = "cumulative",
    progress: Progress | None = None,
    *,
    picked: bool = False,
) -> SafeCounts:
    """Settle the limit and the target, and release the histogram for them."""
    terms = (wanted, target.at_most, target.share, target.asked and target.cost, policy)
    late = not profile.context.settle("safe counts", *terms)
    return counted(profile, wanted, target, policy, picked or late, progress)


def counted(
    profile: RiskProfile,
    risk_limit: Limit,
    target: CountsTarget,
    policy: str,
    picked: bool,
    progress: Progress | None,
    listed: Sequence[Fraction] | None = None,
) -> SafeCounts:
    """Release the histogram, or take it from the ledger, and derive the safe counts.

    Algorithm 20 of docs/methods/rdr.md.
    """
    check_counts(profile, risk_limit, target, policy, listed)
    draw = profile.spend(Histogram(), (target.cost, picked), progress)
    counts, upper, least = bounds(draw.values, target.cost, profile.privacy)
    counts_cost = float(target.cost) if policy == "alone" else 0.0
    first = _usable(_within(profile, risk_limit, policy) - counts_cost)
    conditional = picked or draw.charge.conditional
    kind = PickedRational if conditional else Fraction
    levels = []
    for k in range(BINS + 1 if first is not None else 0):
        level = Fraction(first or 0) * growth(profile.privacy) ** k
        people = upper[k - 1] if k else 0
        share = min(1.0, people / least) if least else None
        ceiling = guesses_within(float(level), profile.privacy)
        levels.append(CountedLevel(kind(level), people, 0.0 if k == 0 else share, ceiling))
    return SafeCounts(
        sql=profile.sql.strip(),
        limit=risk_limit.guesses,
        counts=counts,
        upper=upper,
        least_n=least,
        confidence=1 - FAILURE,
        levels=tuple(levels),
        **_released(profile, draw, conditional=conditional),
    )


def check_counts(
    profile: RiskProfile,
    risk_limit: Limit,
    target: CountsTarget,
    policy: str = "cumulative",
    listed: Sequence[Fraction] | None = None,
) -> None:
    """Refuse counts that could hardly show anything, or would change nothing, before any draw.

    Public numbers decide: bound 21 of docs/methods/rdr.md. ``listed`` are the only levels that may
    be chosen, if there are any.
    """
    _one_of(policy, POLICIES[:2], "policy")
    if math.isinf(risk_limit.level):
        raise RequestError("safe counts need a limit below 100", "Give guesses=60.")
    if profile.cumulative:
        raise RequestError(
            "private choices cannot include earlier answers",
            "Leave cumulative=True out of curator.risk.",
        )
    if target.held:
        return
    name, budget = profile.privacy.parameter, profile.budget
    if target.at_most is not None and target.at_most < 2 * target.noise * (1 - 1e-9):
        cost, enough = price(target.at_most, profile.privacy), math.ceil(2 * target.noise)
        raise RequestError(
            f"at this privacy cost the noise is about {target.noise:,.0f} people, too much to show that "
            f"at most {target.at_most:,} are above the limit",
            f"That would cost {name} {amount_text(cost)}. Allow {enough:,} people or more, or use the "
            "rule for free.",
        )
    spent = budget.spent.level(profile.privacy) if policy == "cumulative" else Fraction(0)
    if not math.isinf(risk_limit.level) and float(spent + target.cost) >= risk_limit.level:
        raise RequestError(
            f"your limit allows a total of {name} {amount_text(risk_limit.level, left=True)}, but "
            f"{amount_text(spent)} is spent and the counts cost {amount_text(target.cost)}",
            "Raise the limit, allow more people, or use the rule for free."
            if float(spent) < risk_limit.level
            else "Raise the limit or reuse answers.",
        )
    _check_change(profile, risk_limit, target, policy, listed)
    left = budget.remaining.level(profile.privacy)
    if not target.asked and target.cost * PART > left and target.cost <= left:
        raise RequestError(
            f"these counts cost {name} {amount_text(target.cost)}, more than a tenth of the "
            f"{amount_text(left, left=True)} left",
            f"Confirm with {name}={amount_text(target.cost)}, allow more people, or use the rule for free.",
        )


def _check_change(
    profile: RiskProfile,
    risk_limit: Limit,
    target: CountsTarget,
    policy: str,
    listed: Sequence[Fraction] | None,
) -> None:
    """Refuse counts after which the rule's level is the only one to choose, whatever they say."""
    budget, privacy = profile.budget, profile.privacy
    if target.cost > budget.remaining.level(privacy):
        return
    cost = float(target.cost)
    if policy == "cumulative":
        spent = float(budget.spent.level(privacy))
        left = profile.context.affordable(risk_limit.level - spent - cost)
        rule = _usable(min(risk_limit.level, left))
    else:
        rule = _usable(risk_limit.level - cost)
    levels = [rule * growth(privacy) ** k for k in range(BINS + 1)] if rule is not None else []
    choices = [
        level if listed is None else largest_within(listed, float(level)) for level in levels
    ]
    others = [choice for choice in choices[1:] if choice is not None and choice != choices[0]]
    if any(_affordable(profile, choice, target.cost) for choice in others):
        return
    why = "no listed level is above the rule's"
    if others:
        least = f"{privacy.parameter} {amount_text(min(others))}"
        why = f"the next level, {least}, costs more than is left after them"
    raise RequestError(
        f"the counts could not change the choice, whatever they say: {why}",
        "Use the rule for free, which gives the same level, or set a lower limit.",
    )


def privately(
    profile: RiskProfile,
    tau: object,
    guesses: object,
    at_most: object,
    p: object,
    cost: tuple[object, object],
    policy: str,
    candidates: Sequence[object] | None,
    progress: Progress | None,
) -> Choice:
    """Choose the largest level at which safe counts meet the target, or else the rule's level."""
    risk_limit, target = (
        read_limit(profile, tau, guesses),
        read_counts_target(profile, at_most, p, *cost),
    )
    levels = None if candidates is None else descending(candidates)
    late = not profile.context.settle(
        "counts", risk_limit, target.at_most, target.share, cost, policy, levels
    )
    safe_counts = counted(
        profile, risk_limit, target, policy, late or is_picked(cost, at_most, p), progress, levels
    )
    k = best(profile, safe_counts, target)
    picked = late or is_picked(candidates, tau, guesses, at_most, p)
    return from_counts(profile, safe_counts, target, k, risk_limit, policy, levels, picked=picked)


def from_counts(
    profile: RiskProfile,
    found: SafeCounts,
    target: CountsTarget,
    k: int,
    wanted: Limit,
    policy: str = "cumulative",
    listed: Sequence[Fraction] | None = None,
    *,
    picked: bool = False,
) -> Choice:
    """Build the choice of the k-th level of safe counts."""
    counted_level = found.levels[k] if found.levels else None
    level = None if counted_level is None else counted_level.level
    chosen_level = (
        level if level is None or listed is None else largest_within(listed, float(level))
    )
    if policy == "cumulative":
        picked = picked or profile.context.conditional
    detail = {
        **Histogram().definition(),
        "policy": policy,
        "k": k,
        "too_dear": None if k else _too_dear(found, target),
        "at_most": target.at_most,
        "share": target.share,
        "people": 0 if counted_level is None else counted_level.at_most,
        "people_share": 0.0 if counted_level is None else counted_level.share,
        "ceiling": 50.0 if counted_level is None else counted_level.ceiling,
        "confidence": found.confidence,
        "counts": list(found.counts),
        "upper": list(found.upper),
        "least_n": found.least_n,
        "limit": str(floor_digits(wanted.level)),
        "total": str(profile.budget.spent.level(profile.privacy)),
        "left": str(level or 0),
    }
    return choice(
        profile, chosen_level, "private", "safe counts", wanted, detail, found, picked=picked
    )


def best(profile: RiskProfile, found: SafeCounts, target: CountsTarget) -> int:
    """Return the index of the largest affordable level that meets a target; 0 is the rule's."""
    for k in reversed(range(1, len(found.levels))):
        if target.met(found.levels[k].at_most, found.least_n) and _affordable(
            profile, found.levels[k].level
        ):
            return k
    return 0


def _too_dear(found: SafeCounts, target: CountsTarget) -> str | None:
    """Return the least level above the rule's that meets a target, as plain data."""
    shown = found.levels[1:2]
    if not shown or not target.met(shown[0].at_most, found.least_n):
        return None
    return str(shown[0].level)


def on_paper(
    profile: RiskProfile,
    tau: object,
    method: str,
    cost: Cost,
    p: object,
    most: object,
    candidates: Sequence[object] | None,
    progress: Progress | None,
) -> Choice:
    """Choose by S1, S2 or S4 of docs/methods/rdr.md: private and charged, but without a margin."""
    _one_of(method, METHODS, "method")
    if profile.cumulative:
        raise RequestError(
            "private choices cannot include earlier answers",
            "Leave cumulative=True out of curator.risk.",
        )
    levels = descending(candidates)
    least = preferences.positive(tau, "tau") if method == "variance" else threshold(tau)
    mechanism: Mechanism
    if method == "quantile":
        mechanism = quantile = Quantile(_proportion("0.99" if p is None else p))
        draw = profile.spend(mechanism, cost, progress)
        level = quantile.level(draw.values, least, profile.privacy, profile.form)
        chosen_level = largest_within(levels, level)
    elif method == "tail":
        count = _people(0 if most is None else most)
        mechanism = Tail(levels, least, count, profile.form)
        draw = profile.spend(mechanism, cost, progress)
        chosen_level = levels[draw.values[0]] if draw.values[0] >= 0 else None
    else:
        mechanism = moments = Moments()
        draw = profile.spend(mechanism, cost, progress)
        level = moments.level(draw.values, least, cost[0], profile.privacy)
        chosen_level = largest_within(levels, level)
    detail = {**mechanism.definition(), "drawn": list(draw.values), "mode": "paper"}
    picked = is_picked(candidates, tau, p, most) or not profile.context.settle(
        "paper", method, least, cost, str(p), str(most), levels
    )
    return choice(
        profile,
        chosen_level,
        "private",
        method,
        Limit(least, math.inf, 100.0),
        detail,
        draw,
        picked=picked,
    )


def choice(
    profile: RiskProfile,
    level: Fraction | None,
    source: Source,
    method: str,
    wanted: Limit,
    detail: Mapping[str, Any],
    bought: Drawn | SafeCounts | None = None,
    *,
    picked: bool = False,
) -> Choice:
    """Build a choice with its bill; ``picked`` if one of its terms came from a look at the data."""
    budget, spent, stored = profile.budget, PrivacyLoss.none(), False
    conditional = (source == "data" and not profile.public) or picked
    if isinstance(bought, Drawn):
        conditional = conditional or bought.charge.conditional
        spent, stored = bought.charge.spent if bought.fresh else spent, not bought.fresh
    elif bought is not None:
        conditional = conditional or bought.conditional
        spent, stored = bought.spent, bought.stored
    if level is not None:
        level = PickedRational(level) if conditional else Fraction(level)
    return Choice(
        sql=profile.sql.strip(),
        level=level,
        bill=budget.charged(spent, stored=stored, conditional=conditional),
        source=source,
        method=method,
        tau=wanted.tau,
        guesses=wanted.guesses,
        detail=detail,
        affordable=level is None or _affordable(profile, Fraction(level)),
        ledger=profile.ledger,
        ids=profile.ids,
    )


def shared(profile: RiskProfile, bins: int, cost: Cost, progress: Progress | None) -> RiskHistogram:
    """Release the histogram of contributions with noise (docs/methods/rdr.md, theorem 22)."""
    mechanism = Counts(bins)
    draw = profile.spend(mechanism, cost, progress)
    # the quantile of the continuous distribution, rounded up to m, is safe for whole-number noise:
    # the sum of its distribution beyond m is at most the integral of the continuous one beyond m
    half = math.floor(distribution(cost[0], 1.0, profile.privacy).quantile(0.05 / (bins + 1))) + 1
    return RiskHistogram(
        sql=profile.sql.strip(),
        edges=(0.0, *(STEPS * (i + 1) // bins / STEPS for i in range(bins))),
        counts=tuple(float(count) for count in draw.values),
        low=tuple(max(0.0, count - half) for count in draw.values),
        high=tuple(max(0.0, count + half) for count in draw.values),
        confidence=0.95,
        **_released(profile, draw, conditional=draw.charge.conditional),
    )


def _released(profile: RiskProfile, draw: Drawn, *, conditional: bool) -> dict[str, Any]:
    """Return the fields that every released result has."""
    spent = draw.charge.spent if draw.fresh else PrivacyLoss.none()
    bill = profile.budget.charged(spent, stored=not draw.fresh, conditional=conditional)
    return {"bill": bill, "ledger": profile.ledger, "ids": profile.ids}


def _affordable(profile: RiskProfile, level: Fraction, before: Fraction = Fraction(0)) -> bool:
    """Return whether the budget pays for an answer at a level; False if no noise fits the level.

    ``before`` is what would be spent before it.
    """
    try:
        price = profile.price(level)
    except RequestError:
        return False
    left = profile.budget.remaining.level(profile.privacy) - before
    return price.affordable and price.spent.level(profile.privacy) <= left


def _one_of(value: object, choices: tuple[str, ...], name: str) -> None:
    if not isinstance(value, str) or value not in choices:
        raise RequestError(f"there is no {name} {given(value)}", f"Use {', '.join(choices)}.")


def _people(value: object) -> int:
    most = 2**40
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise RequestError(
            f"at_most must be a whole number from 0 to {most}", f"Give at_most={AT_MOST}."
        )
    return value


def _float(share: Fraction | None) -> float | None:
    return None if share is None else float(share)


def _proportion(p: object) -> Fraction:
    share = amount(p, "p")
    if not share < 1:
        raise RequestError("p must be between 0 and 1", "Give p=0.99.")
    if share.denominator > 10**6:
        raise RequestError("p has more than 6 digits", "Give p=0.99.")
    return share
