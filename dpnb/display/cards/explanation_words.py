"""An explanation in words: what its table means, and what may be concluded from it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpnb.display.cards import words
from dpnb.explain.influence import RELATIVE_UNIT
from dpnb.explain.remaining import factor
from dpnb.explain.unbinned import unbinned_sentence
from dpnb.formats import end_text, figure, percent
from dpnb.privacy.loss import amount_text

if TYPE_CHECKING:
    from dpnb.explain.explanation import Explanation, Row


def influence_text(explanation: Explanation, row: Row) -> str:
    """Return the confidence interval of a predicate's influence as shown."""
    return f"{_amount(explanation, row.influence_low, -1)} to {_amount(explanation, row.influence_high, 1)}"


def rank_text(explanation: Explanation, row: Row) -> str:
    """Return the confidence interval of a predicate's rank as shown."""
    if row.rank_low == row.rank_high:
        return f"{row.rank_low:,}"
    return f"{row.rank_low:,} to {row.rank_high:,}"


def effect_text(explanation: Explanation, row: Row) -> str:
    """Return, in words, the effect of leaving out the rows of a predicate.

    Only one side of what remains is bounded (docs/methods/dpxplain.md, theorem 15). So a smaller
    gap may also be one the other way round, unless that is certain.
    """
    bound = _left(explanation, row)
    to = f" to {bound}" if bound else ""
    match explanation.effect(row):
        case "noise":
            return "could be noise"
        case "reverses":
            return f"reverses the difference,{to}"
        case "widens":
            return f"widens the difference{to}"
        case "lowers" | "narrows" as verb:
            return f"{verb} the difference{to}, or reverses it"
        case "leaves":
            falls = "fall" if row.influence_low > 0 else "rise"
            return f"leaves a difference of {bound}" if bound else f"lets the difference {falls}"


def _left(explanation: Explanation, row: Row) -> str:
    """Return the bound on the difference without some rows; '' if there is none."""
    side = 1 if row.influence_low > 0 else -1
    end = row.left_high if side > 0 else row.left_low
    if end is None:
        return ""
    question = explanation.question
    sharp = explanation.margin_of_error * explanation.scale / factor(question)
    half = sharp + (question.joint_high - question.joint_low) / 2
    return f"{end_text(end, half, side)} or {'less' if side > 0 else 'more'}"


def _amount(explanation: Explanation, value: float, side: int = 0) -> str:
    """Return an influence as shown; with side -1 or 1, an end of an interval, rounded outward."""
    times, unit = (100, " %") if explanation.relative else (1, "")
    amounts = times * value, times * explanation.margin_of_error
    return (end_text(*amounts, side) if side else figure(*amounts)) + unit


def influence_unit(explanation: Explanation) -> str:
    """Return the unit of influences."""
    name, function = explanation.question.aggregate, explanation.question.function
    if explanation.relative:
        return RELATIVE_UNIT
    if function.is_mean:
        return f"{name} × rows left"
    return f"{'rows' if function.is_count else name} × share of rows left"


def meaning_sentences(explanation: Explanation) -> tuple[str, ...]:
    """Return the meaning of the columns, in plain words."""
    question = explanation.question
    share = " (as a share of the released difference)" if explanation.relative else ""
    group = "smallest" if question.function.is_mean else "largest"
    part = f" as a share of the {group} group,"
    if question.function.is_mean and not explanation.relative:
        part = ""
    return (
        f"The difference is how far {question.left} is above {question.right} in "
        f"{question.aggregate}; a negative one means that it is below.",
        f"Influence: how much the difference falls without the rows of a predicate{share}. This is "
        f"multiplied by the rows left in the group that keeps the fewest,{part} so the difference "
        "itself can fall by far more. A negative influence means that the difference rises.",
        f"Rank: the position by influence among {_candidates(explanation)}; rank 1 has the largest.",
    )


def caution_sentence(explanation: Explanation) -> str:
    """Return what may not be concluded from the table."""
    sums = "Percentages do not add up. " if explanation.relative else f"{explanation.reason} "
    return f"{sums}This tells what goes together in the data, not what causes what."


def row_sentence(explanation: Explanation, row: Row) -> str:
    """Return what may be concluded from one table line, for a reader who knows no statistics."""
    influence, ranks = influence_text(explanation, row), rank_text(explanation, row)
    if explanation.effect(row) == "noise":
        return (
            f"No conclusion about {row.predicate}: leaving out its rows could lower or raise "
            f"the difference (influence {influence})."
        )
    sentence = (
        f"Leaving out the rows with {row.predicate} {effect_text(explanation, row)}: "
        f"influence {influence}, rank {ranks} of {explanation.candidates:,}."
    )
    return (
        f"{sentence} Many predicates may rank above it." if explanation.unranked(row) else sentence
    )


def _candidates(explanation: Explanation) -> str:
    if not explanation.attributes:
        return f"the {explanation.candidates:,} listed predicates"
    size = {1: "", 2: " of two attributes", 3: " of three attributes"}[explanation.length]
    names = ", ".join(explanation.attributes)
    return f"all {explanation.candidates:,} predicates{size} on {names}"


def level_sentence(explanation: Explanation) -> str:
    """Return what the confidence intervals guarantee."""
    sure = percent(explanation.confidence)
    if explanation.joint and len(explanation.rows) > 1:
        sentence = (
            f"All {len(explanation.rows)} confidence intervals of influence hold at once, with {sure} "
            "confidence. Separately, the same holds for those of rank."
        )
    else:
        # each table line has two intervals: influence and rank
        sentence = words.interval_sentence(sure, 2 * len(explanation.rows), each=True)
    ends = [end for row in explanation.rows for end in (row.left_low, row.left_high)]
    if all(end is None for end in ends):
        return sentence
    question = explanation.question
    lesser = percent(min(explanation.confidence, question.confidence))
    picked = question.planned or question.mode == "paper"
    before = ", if the groups were picked before seeing the answer" if picked else ""
    return (
        f"{sentence} Each bound on the difference without the rows holds on its own, with {lesser} "
        f"confidence{before}. It is on one side only, so a smaller difference may also be one the "
        "other way round."
    )


def noise_sentence(explanation: Explanation) -> str:
    """Return how many influences may be 0 and how many ranks are uncertain; '' if none is."""
    rows = explanation.rows
    silent = sum(explanation.effect(row) == "noise" for row in rows)
    ranks = sum(map(explanation.unranked, rows))
    sentences = []
    if silent:
        which = _part_of(silent, len(rows), "predicate")
        whose = "its influence" if silent == 1 else "their influences"
        sentences.append(f"{which} too uncertain for a conclusion: {whose} could be 0.")
    if ranks:
        which = _part_of(ranks, len(rows), "rank")
        sentences.append(
            f"{which} uncertain: {'it' if ranks == 1 else 'they'} could be in either half of all candidates."
        )
    return " ".join(sentences)


def _part_of(count: int, total: int, noun: str) -> str:
    """Return how many of some things, with a verb: 'All ranks are', '1 of 5 ranks is'."""
    if count == total:
        return f"The {noun} is" if total == 1 else f"All {noun}s are"
    return f"{count} of {total} {noun}s {'is' if count == 1 else 'are'}"


def advice_sentence(explanation: Explanation) -> str:
    """Return what limits the precision and what would help; '' if no predicate is too uncertain."""
    if not noise_sentence(explanation):
        return ""
    rows = explanation.rows
    vague = sum(explanation.effect(row) == "noise" for row in rows)
    uncertain = sum(explanation.effect(row) == "noise" or explanation.unranked(row) for row in rows)
    part = "influence" if 2 * vague >= uncertain else "rank"
    margin = explanation.margin_of_error if part == "influence" else explanation.resolution
    amount = _amount(explanation, margin)
    what = {
        "influence": f"Influences are the weakest part: their margin of error is about {amount}.",
        "rank": f"Ranks are the weakest part: they separate influences that differ by {amount}.",
    }[part]
    ways = ["four times the rho makes them twice as precise"]
    if len(explanation.rows) > 1:
        fewer = max(1, len(explanation.rows) // 2)
        gain = (len(explanation.rows) / fewer) ** 0.5
        ways.append(f"k={fewer} makes them {gain:.1f} times as precise at no extra cost")
    if explanation.sharper[part] > 1.05:
        ways.append(
            f"mode='tight' makes them {explanation.sharper[part]:.1f} times as precise at no extra cost"
        )
    if not explanation.question.function.is_count:
        ways.append("narrower declared bounds help in proportion")
    return f"{what} What helps: {'; '.join(ways)}."


def cost_sentence(explanation: Explanation) -> str:
    """Return what was spent, how it was split, and what is left."""
    parts = {"topk": "selection", "influence": "influences", "rank": "ranks"}
    split = ", ".join(f"{amount_text(Fraction(explanation.rho[n]))} {w}" for n, w in parts.items())
    text = words.cost_text(explanation.bill)
    return text if explanation.spent.rho == 0 else f"{text} Split: {split}."


def doubt_sentence(explanation: Explanation) -> str:
    """Return a warning if the difference itself may be noise or goes the other way; else ''."""
    if explanation.question.valid:
        return ""
    if explanation.reversed:
        return f"The answer shows the opposite: {explanation.question.left} is below, not above."
    return "The difference itself could be noise, so this explanation may be meaningless."


def sentences(explanation: Explanation) -> tuple[str, ...]:
    """Return the sentences below the table, in order; the same in every rendering."""
    texts = (
        doubt_sentence(explanation),
        noise_sentence(explanation),
        caution_sentence(explanation),
        *meaning_sentences(explanation),
        level_sentence(explanation),
        unbinned_sentence(explanation.unbinned),
        advice_sentence(explanation),
        cost_sentence(explanation),
        words.ledger_note(explanation.bill),
    )
    return tuple(sentence for sentence in texts if sentence)


def title(explanation: Explanation) -> str:
    """Return the explained question, as a caption."""
    question = explanation.question
    return f"Why is {question.left} above {question.right} in {question.aggregate}?"
