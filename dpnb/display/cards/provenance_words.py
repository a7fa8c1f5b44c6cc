"""The provenance table in words: sentences for every rendering, and all of it for terminals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dpnb.display.text import MAX_ROWS
from dpnb.errors import printable
from dpnb.formats import loss_text, part_text
from dpnb.ledger.accounts import OWNER
from dpnb.ledger.mechanism import NONE
from dpnb.privacy.definition import BASIC
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.results import InfoTable, format_time

if TYPE_CHECKING:
    from dpnb.owner.report import Column, Provenance, Row

MAX_COLUMNS = 30
"""Most columns shown; the rest is folded into one."""
PAIRED = 5
"""Each pair of analysts is shown if there are at most so many analysts."""
MOST_ALONE = 10
"""Most single analysts in the table of coalitions."""
KINDS = {"declared": "view", "statement": "statement", "release": "one-off"}
TOGETHER = "all together"
OWN = "you (the owner)"
RULES = "Your decisions"

_NAME = 72
"""Longest name above a column, in characters."""
_MECHANISMS = {
    "path": "All answers from one view share their noise. Together they reveal what the most accurate of "
    "them reveals.",
    "additive": "All answers from one view are made from one noisy version of it. Together they reveal at "
    "most what that version reveals.",
    "vanilla": "Each answer has its own noise, so what they reveal adds up.",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One table line as shown: an analyst's account, or what the owner released."""

    name: str
    label: str
    limit: PrivacyLoss
    known: PrivacyLoss
    row: Row | None


@dataclass(frozen=True, slots=True)
class Head:
    """One column as shown: its rank by size, its kind, its name in full and shortened."""

    number: int
    kind: str
    name: str
    short: str
    column: Column


@dataclass(frozen=True, slots=True)
class Coalition:
    """Some analysts, and what was released to them together."""

    label: str
    known: PrivacyLoss


def said(
    provenance: Provenance, loss: PrivacyLoss, *, epsilon: bool = True, limit: bool = False
) -> str:
    """Return a loss in the ledger's privacy definition, with its epsilon if there is a delta."""
    return loss_text(loss, provenance.privacy, provenance.delta if epsilon else None, limit=limit)


def share(provenance: Provenance, loss: PrivacyLoss, limit: PrivacyLoss) -> float:
    """Return a loss as a share of a limit; if the limit is 0, a positive loss gives 1."""
    level, most = (quantity.level(provenance.privacy) for quantity in (loss, limit))
    return float(level / most) if most else float(level > 0)


def share_text(provenance: Provenance, loss: PrivacyLoss, limit: PrivacyLoss) -> str:
    """Return a loss as a share of a limit in percent, rounded up as all that is spent."""
    level, most = (quantity.level(provenance.privacy) for quantity in (loss, limit))
    return part_text(level, most) if level else "0 %"


def rounds_down(provenance: Provenance, remaining: PrivacyLoss) -> bool:
    """Return whether a limit is rounded down: unless nothing is left of it."""
    return remaining.level(provenance.privacy) > 0


def lines(provenance: Provenance) -> list[Line]:
    """Return a line for each account, and one for the owner's releases if there are any."""
    table_lines = [
        Line(
            row.name,
            row.name if row.active else f"{row.name} (disabled)",
            row.limit,
            row.known,
            row,
        )
        for row in provenance.rows
    ]
    if any(row == OWNER for row, _ in provenance.cells) and OWNER not in {
        line.name for line in table_lines
    }:
        loss = provenance.together([OWNER])
        table_lines.append(Line(OWNER, OWN, provenance.cap, loss, None))
    return table_lines


def heads(provenance: Provenance) -> list[Head]:
    """Return the columns, those with the largest privacy loss first."""
    ranking = sorted(
        provenance.columns, key=lambda column: -column.known.level(provenance.privacy)
    )  # fmt: skip
    times, occurrences = Counter(column.name for column in ranking), Counter[str]()
    column_heads = []
    for number, column in enumerate(ranking, 1):
        name = " ".join(printable(column.name.replace("\n", " ").replace("\t", " ")).split())
        occurrences[column.name] += 1
        kind = KINDS[column.kind]
        if times[column.name] > 1:
            kind += f" ({occurrences[column.name]} of {times[column.name]})"
        short = name if len(name) <= _NAME else f"{name[: _NAME - 1].rstrip()}…"
        column_heads.append(Head(number, kind, name, short, column))
    return column_heads


def cell(provenance: Provenance, row: str, heads: Sequence[Head]) -> PrivacyLoss:
    """Return an upper bound on what was released to an account from some columns."""
    return sum((provenance.cells.get((row, head.column.id), NONE) for head in heads), NONE)


def known_of(heads: Sequence[Head]) -> PrivacyLoss:
    """Return an upper bound on what was released from some columns to all together."""
    return sum((head.column.known for head in heads), NONE)


def coalitions(provenance: Provenance) -> list[Coalition]:
    """Return single analysts (the largest of many), each pair of a few, and all together."""
    names = list(dict.fromkeys(row.analyst for row in provenance.rows))
    if len(names) < 2:
        return []
    singles = [_coalition(provenance, name) for name in names]
    if len(singles) > MOST_ALONE:
        singles = _largest_first(provenance, singles)[:MOST_ALONE]
    pairs = combinations(names, 2) if 2 < len(names) <= PAIRED else ()
    pairings = _largest_first(provenance, [_coalition(provenance, *pair) for pair in pairs])
    everyone = "both" if len(names) == 2 else f"all {len(names)}"
    return [*singles, *pairings, Coalition(f"{everyone} together", provenance.coalition(*names))]


def _coalition(provenance: Provenance, *names: str) -> Coalition:
    return Coalition(" + ".join(names), provenance.coalition(*names))


def _largest_first(provenance: Provenance, groups: list[Coalition]) -> list[Coalition]:
    return sorted(groups, key=lambda group: -group.known.level(provenance.privacy))


def summary_sentences(provenance: Provenance) -> list[str]:
    """Return what was released to all together, the total budget, and what is left."""
    whose = "all analysts together" if len(provenance.rows) > 1 else "the analyst"
    if any(line.row is None for line in lines(provenance)):
        whose = "all analysts and to you, together"
    cap = said(provenance, provenance.cap, limit=rounds_down(provenance, provenance.remaining))
    left = loss_text(provenance.remaining, provenance.privacy, None, left=True)
    if provenance.spent == NONE:
        return [f"Nothing was released to {whose} so far.", f"Total budget: {cap}."]
    part = _of_cap(provenance, provenance.spent)
    return [
        f"Released to {whose}: at most {said(provenance, provenance.spent)}, {part}.",
        f"Total budget: {cap}. Left: {left}.",
    ]


def _of_cap(provenance: Provenance, loss: PrivacyLoss) -> str:
    if loss.exceeds(provenance.cap, provenance.privacy):
        return "more than the total budget, which was lowered"
    return f"{share_text(provenance, loss, provenance.cap)} of the total budget"


_RULES = {
    "rdp": "Renyi DP",
    "zcdp": "zCDP, sharp",
    "gdp": "Gaussian DP, exact",
    "basic": "sum of the epsilons",
    "kov": "optimal, for charges fixed in advance",
}


def reading_sentences(provenance: Provenance) -> list[str]:
    """Return how to read the tables."""
    sentences = [_MECHANISMS[provenance.mechanism], _meaning(provenance)]
    if any(row.spent != row.known for row in provenance.rows):
        sentences.append(
            "Spent is what counts against an analyst's limit. Released is what the analyst was shown. They "
            "differ where one analyst used a grant of another."
        )
    sentences.append(sharing_sentence(provenance))
    if provenance.privacy.counts_rho and provenance.delta is not None:
        sentences.append(
            "Rho adds up. Epsilon (ε) is what a rho means at the delta, and does not add up."
        )
    if totals := provenance.epsilons:
        rules = "; ".join(f"{_RULES[name]} {amount_text(value)}" for name, value in totals.items())
        sentences.append(f"Total epsilon by different composition rules: {rules}.")
    sentences.append(
        "Columns: you declared a view. A statement makes its own views, several if it counts or sums "
        "several things. A one-off is a single release, such as an explanation."
    )
    return [sentence for sentence in sentences if sentence]


def sharing_sentence(provenance: Provenance) -> str:
    """Return why the total can be less than the sum of the columns; '' if it is the sum."""
    if provenance.privacy is BASIC or len(provenance.columns) < 2:
        return ""
    return (
        "A row pays only for the views that cover it. The total is that of the row that is affected most, "
        "so it can be less than the sum of the columns."
    )


def _meaning(provenance: Provenance) -> str:
    """Return what the spent epsilon means for one person."""
    if provenance.spent == NONE:
        return ""
    delta = provenance.delta
    if not provenance.privacy.counts_rho:
        epsilon = float(provenance.spent.level(provenance.privacy))
        delta = float(provenance.spent.delta)
    elif delta is None:
        return ""
    else:
        epsilon = provenance.spent.epsilon_at(delta, provenance.privacy)
        delta += float(provenance.spent.delta)
    if epsilon > 20:
        return ""
    beside = f", plus at most {amount_text(delta)}" if delta else ""
    return (
        "For one person this means: being in the table changes the probability of anything that the "
        f"analysts saw by a factor of at most {amount_text(math.exp(epsilon))} (e to the epsilon)"
        f"{beside}. A person is one row, or all rows of one id if the table has a privacy unit."
    )


def fairness_sentences(provenance: Provenance) -> list[str]:
    """Return how far answers went to privileged analysts, and how to read that."""
    fairness, ends, even = provenance.ndcfg, provenance.ndcfg_range, provenance.ndcfg_even
    if fairness is None or ends is None or even is None:
        return ["There are no answers to compare yet."]
    low, high = (f(row.privilege for row in provenance.rows) for f in (min, max))
    if low == high:
        return [f"All analysts have privilege {low}, so there is nothing to compare."]
    if abs(fairness - even) < 0.005:
        comparison = "analysts with more privilege got as many answers as the others"
    else:
        comparison = f"analysts with more privilege got {'more' if fairness > even else 'fewer'} answers than the others"
    return [
        f"Fairness (nDCFG): {fairness:.2f}, on a scale from {ends[0]:.2f} (only privilege {low} got answers) to "
        f"{ends[1]:.2f} (only privilege {high} did).",
        f"Equal numbers of answers would give {even:.2f}, so {comparison}. Only the number of answers counts, "
        "not their accuracy.",
    ]


def coalition_sentence(provenance: Provenance) -> str:
    """Return what an account's limit guarantees, and what it does not."""
    exactness = "upper bounds" if provenance.privacy is BASIC else "exact"
    several = len({row.analyst for row in provenance.rows}) < len(provenance.rows)
    rows = (
        "An analyst with several privileges has the largest of their limits in total. "
        if several
        else ""
    )
    return (
        "A limit bounds what is released to its analyst, as long as no one else asks for them. "
        f"{rows}For analysts who share their answers, the numbers here are {exactness}."
    )


def coalition_text(provenance: Provenance, names: Sequence[str]) -> str:
    """Return what was released to some analysts together, and its share of the total budget."""
    loss = provenance.coalition(*names)
    who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    both = "" if len(names) == 1 else " together"
    if loss == NONE:
        return f"Nothing was released to {who}{both} so far."
    part = _of_cap(provenance, loss)
    return f"Released to {who}{both}: at most {said(provenance, loss)}, {part}."


def timeline_sentence(provenance: Provenance) -> str:
    """Return the course of spending in words."""
    charges = [
        charge for charge in provenance.timeline if charge.own != NONE or charge.table != NONE
    ]
    if not charges:
        return "Nothing was spent yet."
    largest = max(charges, key=lambda charge: charge.table.level(provenance.privacy))
    name = OWN if largest.row == OWNER else largest.row
    free = len(provenance.timeline) - len(charges)
    some = rounds_down(provenance, provenance.remaining)
    cap = amount_text(provenance.cap.level(provenance.privacy), left=some)
    text = (
        f"{_times(len(charges))}, {span(charges[0].time, charges[-1].time)}. The total rose to "
        f"{said(provenance, provenance.spent, epsilon=False)} of "
        f"{cap}. The largest increment was "
        f"{amount_text(largest.table.level(provenance.privacy))}, by {name}."
    )
    return f"{text} {free:,} more {'was' if free == 1 else 'were'} free." if free else text


def span(first: str, last: str) -> str:
    """Return a period in UTC; the second time has no date if the day is the same."""
    start, end = format_time(first), format_time(last)
    if start == end:
        return f"at {start} UTC"
    return f"{start} to {end[11:] if start[:10] == end[:10] else end} UTC"


def _times(count: int) -> str:
    return "1 charge" if count == 1 else f"{count:,} charges"


def rule_lines(provenance: Provenance, most: int) -> list[tuple[str, str, str]]:
    """Return the owner's newest decisions, oldest first, each with its time, kind and text."""
    return [(format_time(rule.time), rule.kind, rule.text) for rule in provenance.rules[-most:]]


def more_rules(provenance: Provenance, most: int) -> list[str]:
    """Return how many older rules are not shown, as a list of at most one sentence."""
    hidden = len(provenance.rules) - most
    what = "rule" if hidden == 1 else "rules"
    return [f"{hidden:,} older {what}: see to_frame(rules=True)."] if hidden > 0 else []


def more(count: int, shown: int, what: str) -> list[str]:
    """Return how many are not shown, as a list of at most one sentence."""
    return [f"{count - shown:,} more {what}: see to_frame()."] if count > shown else []


def provenance_text(provenance: Provenance) -> str:
    """Return the provenance table for a terminal."""
    name, privacy = provenance.privacy.parameter, provenance.privacy

    def amount(loss: PrivacyLoss, *, left: bool = False) -> str:
        return amount_text(loss.level(privacy), left=left)

    differ = any(row.spent != row.known for row in provenance.rows)
    head = (
        "analyst",
        "privilege",
        "limit",
        "spent",
        *(("released",) if differ else ()),
        "left",
        "answers",
    )
    rows = tuple(
        (
            row.name if row.active else f"{row.name} (disabled)",
            str(row.privilege), amount(row.limit, left=rounds_down(provenance, row.remaining)), amount(row.spent),
            *((amount(row.known),) if differ else ()), amount(row.remaining, left=True), f"{row.answered:,}",
        )
        for row in provenance.rows[:MAX_ROWS]
    )  # fmt: skip
    parts = [
        *summary_sentences(provenance), "",
        repr(InfoTable(f"Analysts, in {name}", head, rows)),
        *more(len(provenance.rows), MAX_ROWS, "analysts"),
    ]  # fmt: skip
    columns = heads(provenance)
    if columns:
        table_lines = [one for one in lines(provenance) if one.known != NONE][:MAX_ROWS]
        column_rows = tuple(
            (one.short, one.kind, amount(one.column.known),
             *(amount(cell(provenance, line.name, [one])) for line in table_lines))
            for one in columns[:MAX_COLUMNS]
        )  # fmt: skip
        titles = ("column", "kind", TOGETHER, *(line.name for line in table_lines))
        parts += [
            "", repr(InfoTable(f"Released, by view and analyst, in {name}", titles, column_rows)),
            *more(len(columns), MAX_COLUMNS, "columns"), *filter(None, [sharing_sentence(provenance)]),
        ]  # fmt: skip
    if len(provenance.rows) > 1:
        parts += ["", *fairness_sentences(provenance)]
    groups = coalitions(provenance)
    if groups:
        coalition_rows = tuple(
            (one.label, said(provenance, one.known), share_text(provenance, one.known, provenance.cap))
            for one in groups
        )  # fmt: skip
        info = InfoTable(
            "Released to them together", ("who", "at most", "of the total budget"), coalition_rows
        )
        parts += ["", repr(info), coalition_sentence(provenance)]
    if provenance.rules:
        info = InfoTable(RULES, ("UTC", "kind", "rule"), tuple(rule_lines(provenance, MAX_ROWS)))
        parts += ["", repr(info), *more_rules(provenance, MAX_ROWS)]
    return "\n".join(parts)
