"""A decision in words: which error is bounded, which is certified, which is estimated.

These are three different claims (docs/methods/probe.md, definition 3): a bound that holds for every
group in advance, whatever the data and the result; a certificate for this particular result; and an
estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from dpnb.decide.options import STUDY_MODES
from dpnb.display.cards import words
from dpnb.formats import loss_text, percent, rounded_up, share_text
from dpnb.privacy.definition import GDP
from dpnb.schema.schema import kept_note

if TYPE_CHECKING:
    from dpnb.decide.decision import Decision
    from dpnb.decide.price import DecisionPrice

MISS, ALARM = "False negatives", "False positives"

Kind: TypeAlias = Literal["bound", "certificate", "estimate", "none"]
"""Kind of a statement: a bound in advance, a certificate for this result, an estimate, or none."""


def rate(value: float) -> str:
    """Return a share as a percentage with two digits.

    Examples
    --------
    >>> rate(0.05), rate(0.0833333), rate(0.0)
    ('5 %', '8.3 %', '0 %')
    """
    percentage = f"{100 * value:.2g}"
    return f"{float(percentage):g} %"


def rate_up(value: float) -> str:
    """Return a bound as a percentage with two digits, rounded up.

    Examples
    --------
    >>> rate_up(0.05), rate_up(0.0833333), rate_up(1 / 3), rate_up(0.0), rate_up(1.0)
    ('5 %', '8.4 %', '34 %', '0 %', '100 %')
    """
    return f"{min(rounded_up(100 * value, 2), 100.0):g} %" if value > 0 else "0 %"


def about(share: float) -> str:
    """Return an estimated share in words, without digits that mean nothing.

    Examples
    --------
    >>> about(0.1834), about(1e-9)
    ('about 18 %', 'less than 0.1 %')
    >>> about(0.996), about(0.9999)
    ('about 99.6 %', 'more than 99.9 %')
    """
    text = share_text(share)
    return text if "than" in text else f"about {text}"


def at_most(share: float) -> str:
    """Return a bound on a share in words.

    Examples
    --------
    >>> at_most(0.25), at_most(0.0), at_most(1.0)
    ('at most 25 %', 'none', 'an unknown share')
    """
    if share <= 0:
        return "none"
    return f"at most {rate_up(share)}" if share < 1 else "an unknown share"


def headline(made: Decision) -> str:
    """Return the result in one sentence."""
    total, chosen = len(made.groups), sum(made.chosen)
    sure = sum(1 for verdict in made.verdicts if verdict == 1)
    doubt = sum(1 for verdict in made.verdicts if verdict == 0)
    text = f"{chosen:,} of {total:,} groups {'is' if chosen == 1 else 'are'} selected"
    if not chosen:
        text = f"None of the {total:,} groups is selected" if total else "No group is selected"
    if made.mode == "rr":
        return f"{text}, by randomised response."
    if made.mode in STUDY_MODES:
        text = "No group was judged" if made.status == "DENIED_PLAN" else text
        return f"{text}. {made.reason}"
    if chosen:
        text += f". {sure:,} surely {'satisfies' if sure == 1 else 'satisfy'} the condition"
        text += f" ({percent(made.confidence)} confidence)"
    doubtful = f"{doubt:,} {'is' if doubt == 1 else 'are'}" if doubt else "none is"
    text += f", and {doubtful} in doubt."
    text += kept_note(made.unit)
    if made.status == "not certified":
        return f"{text} Not certified: {_unsure(made)}."
    return f"{text} Part of the decision was not paid for." if made.status == "partial" else text


def _unsure(made: Decision) -> str:
    """Return why a list is not certified."""
    wrong, chosen = made.wrong_at_most, sum(made.chosen)
    if wrong / max(chosen, 1) > made.alpha:
        return f"{wrong:,} of the {chosen:,} selected groups may be wrong"
    return f"more than {rate(made.beta)} of the groups that satisfy it may be missing"


def statements(made: Decision) -> tuple[tuple[str, str], ...]:
    """Return a name and a sentence for each statement about an error.

    A name is the error, a comma, and the kind of statement; :func:`kinds` returns the kinds for
    programs.
    """
    claims = [_beforehand(made)]
    if made.readings:
        claims += [_certified(made), _estimated(made)]
    return tuple(claims)


def kinds(made: Decision) -> tuple[Kind, ...]:
    """Return the kind of each statement."""
    first: Kind = "none" if _beforehand(made)[0].endswith(_UNBOUNDED) else "bound"
    if not made.readings:
        return (first,)
    return first, "certificate", "none" if made.estimate is None else "estimate"


def overview(made: Decision) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the header and lines of a small table of both errors, in numbers.

    A bound in advance limits the chance of each group; a certificate limits how much of the list
    may be wrong, and which share may be missing.
    """
    misses, alarms = _bounds(made)
    if not made.readings:
        return ("error", _BEFOREHAND), ((MISS, misses), (ALARM, alarms))
    sure = f"certified for this result, {percent(made.confidence)} confidence"
    guess = "not estimated" if made.estimate is None else f"share {about(made.estimate)}"
    return ("error", _BEFOREHAND, sure, "only estimated"), (
        (MISS, misses, _share(made.missed), "not estimated"),
        (ALARM, alarms, _listed(made), guess),
    )


def _listed(made: Decision) -> str:
    wrong, chosen = made.wrong_at_most, sum(made.chosen)
    return f"at most {wrong:,} of {chosen:,} selected" if wrong else "none"


def _share(share: float) -> str:
    if share <= 0:
        return "none"
    return f"share {at_most(share)}" if share < 1 else "no useful bound"


_BEFOREHAND = "bounded in advance"
_UNBOUNDED = "not bounded in advance"
_NONE = "not bounded"


def _bounds(made: Decision) -> tuple[str, str]:
    """Return the bounds on false negatives and false positives that every group had in advance."""
    misses, alarms = (f"chance at most {rate_up(bound)}" for bound in (made.beta, made.alpha))
    if made.status == "partial" and made.mode == "hybrid":
        return f"chance at most {rate_up(made.beta / 2)}", _NONE
    if made.mode in ("rr", "hybrid"):
        return misses, alarms
    if (made.fnr_bound if made.protect == "fnr" else made.fpr_bound) is None:
        return _NONE, _NONE
    if made.protect == "fpr":
        return _NONE, alarms
    far = f"{alarms} beyond the grey width" if made.mode == "margin" else _NONE
    return misses, far


def _beforehand(made: Decision) -> tuple[str, str]:
    name, text = _promised(made)
    return name, text if name.endswith(_UNBOUNDED) else text + _rounded(made)


def _rounded(made: Decision) -> str:
    """Return, in words, the rounding of values in conditions on sums of rounded values; else ''."""
    tests: dict[float, list[str]] = {}
    for test in made.tests:
        if test.rounding:
            tests.setdefault(test.rounding, []).append(test.text)
    return "".join(
        f" In this bound, values in {' and '.join(texts)} are rounded to the nearest {to:.2g}."
        for to, texts in tests.items()
    )


def _promised(made: Decision) -> tuple[str, str]:
    protected, other = (MISS, ALARM) if made.protect == "fnr" else (ALARM, MISS)
    bound = made.beta if made.protect == "fnr" else made.alpha
    name = f"{protected}, {_BEFOREHAND}"
    if made.status == "partial" and made.mode == "hybrid":
        return name, (
            f"Each group that satisfies the condition had a chance of at most {rate_up(bound / 2)} of "
            f"being left out, whatever the data. {ALARM} are not bounded: that part was not paid for."
        )
    if made.mode in ("rr", "hybrid"):
        return f"Both errors, {_BEFOREHAND}", (
            f"Each group that satisfies the condition had a chance of at most {rate_up(made.beta)} of "
            f"being left out, and each other group one of at most {rate_up(made.alpha)} of being "
            "selected, whatever the data."
        )
    if (made.fnr_bound if made.protect == "fnr" else made.fpr_bound) is None:
        return f"Both errors, {_UNBOUNDED}", _why_unbounded(made)
    fate = "left out" if made.protect == "fnr" else "selected"
    groups = "satisfies" if made.protect == "fnr" else "does not satisfy"
    text = (
        f"Each group that {groups} the condition had a chance of at most {rate_up(bound)} of being "
        f"{fate}, whatever the data. This is the chance before the noise is drawn, for each group on "
        "its own. "
    )
    if made.mode == "margin":
        return name, text + (
            "A group whose false conditions all fail by at least the grey width (the u you gave) had "
            f"a chance of at most {rate_up(made.alpha)} of being selected. Closer to the thresholds, "
            f"{other.lower()} are not bounded."
        )
    return name, f"{text}{other} have no such bound."


def _why_unbounded(made: Decision) -> str:
    if made.status == "DENIED_PLAN":
        return "The method did not run, so no group was judged. None is selected, but that says nothing about them."
    if not made.past:
        return "This method does not bound them."
    return (
        "The decision uses values that were released before you wrote the statement. You may have "
        "chosen the statement because of their noise. The certificate below still holds."
    )


def _certified(made: Decision) -> tuple[str, str]:
    sure = percent(made.confidence)
    text = (
        f"With {sure} confidence, {_certified_list(made)}, and {at_most(made.missed)} of the groups that "
        "satisfy it are left out."
    )
    if made.past and made.taken:
        text += " Only this claim uses values released earlier."
    if made.status == "not certified":
        text += f" The list would be certified with at most {rate(made.alpha)} of it in doubt"
        text += f" and at most {rate(made.beta)} missing." if made.protect == "fpr" else "."
    return "Both errors, certified for this result", text


def _certified_list(made: Decision) -> str:
    """Return how many groups of the list may be wrong."""
    wrong, chosen = made.wrong_at_most, sum(made.chosen)
    if not chosen:
        return "no group is selected wrongly"
    if not wrong:
        one = "the selected group satisfies"
        return f"{one if chosen == 1 else f'all {chosen:,} selected groups satisfy'} the condition"
    rest = f" (at most {rate_up(made.false)} of all that do not)" if made.false < 1 else ""
    verb = "does" if wrong == 1 else "do"
    return f"at most {wrong:,} of the {chosen:,} selected groups {verb} not satisfy the condition{rest}"


def _estimated(made: Decision) -> tuple[str, str]:
    if made.estimate is None:
        return f"{ALARM}, not estimated", "There is no estimate."
    return f"{ALARM}, only estimated", (
        f"{about(made.estimate).capitalize()} of the groups that do not satisfy the condition are selected, if "
        "true values spread evenly around the noisy ones. This may be far off, and is not guaranteed."
    )


def cost_sentence(made: Decision) -> str:
    """Return what was spent and what is left."""
    if made.mode in STUDY_MODES:
        return "No privacy cost: this is a simulation on public data."
    return words.cost_text(made.bill)


def next_sentence(made: Decision) -> str:
    """Return the cost of one more step, and the cost of randomised response."""
    parts = []
    if made.next_cost is not None:
        cost = loss_text(made.next_cost, made.privacy, None)
        next_step = "One more step would halve the uncertain regions and cost"
        first_step = (
            "This decision used past answers only. A first step with a bound in advance would cost"
        )
        parts.append(f"{next_step if made.taken else first_step} {cost}.")
    # GDP allows Gaussian releases only, so no randomised response
    if made.mode != "rr" and made.mode not in STUDY_MODES and made.privacy is not GDP:
        parts.append(_ceiling(loss_text(made.ceiling, made.privacy, None)))
    return " ".join(parts)


def _ceiling(cost: str) -> str:
    return (
        f"Randomised response would bound both errors of every group for {cost}, with any number of "
        "conditions."
    )


def plan_sentences(price: DecisionPrice) -> list[str]:
    """Return a plan in words."""
    goal = f"at most {rate(price.beta)} of the groups that satisfy it can be missing"
    if price.protect == "fnr":
        share = rate(price.alpha)
        goal = (
            f"at most {share} of the list can be wrong, or at most {share} of the groups that do not "
            "satisfy it can be selected"
        )

    def cost(index: int) -> str:
        return loss_text(price.costs[index], price.privacy, None)

    sentences = []
    if price.mode in STUDY_MODES:
        return [
            "A published method, simulated on public data: nothing is charged.",
            *price.warnings,
        ]
    if price.free:
        sentences.append("No privacy cost: past answers settle this decision.")
    elif price.mode == "certified" and len(price.costs) > 1:
        sentences.append(
            f"The first step costs {cost(0)}. Up to {len(price.costs) - 1} more steps follow, each with half the "
            f"uncertainty, until {goal}. The total is {cost(1)} after the second step and {cost(-1)} after "
            "the last."
        )
    elif price.costs:
        sentences.append(f"Privacy cost: {cost(0)}.")
    if price.response is not None and price.mode == "hybrid":
        more = loss_text(price.response, price.privacy, None)
        sentences.append(
            f"Groups in doubt are then decided by randomised response, for a total of {more}."
        )
    if price.mode == "rr":
        sentences.append("Both errors of every group are bounded, with any number of conditions.")
    elif price.privacy is not GDP:
        sentences.append(_ceiling(loss_text(price.ceiling, price.privacy, None)))
    if not price.affordable:
        larger = "" if price.mode == "rr" else "a larger u, or "
        sentences.append(
            f"The next part would be refused now: {price.refusal}. Less costs a decision with "
            f"{larger}larger errors (beta, alpha)."
        )
    return [*sentences, *price.warnings, *_called(price), "Nothing was spent."]


def _called(price: DecisionPrice) -> list[str]:
    """Return the aliases that options need for aggregates that are shown as SQL."""
    texts = {
        price.readings[test.reading][0]: test.text
        for test in reversed(price.tests)
        if len(price.readings) > 1
    }
    aliases = [
        f"{alias} in {text}"
        for alias, text in reversed(texts.items())
        if not text.startswith(f"{alias} ")
    ]
    return [f"Use these aliases in options: {', '.join(aliases)}."] if aliases else []
