"""The number line of a condition: its threshold, and the groups nearest to it.

The drawing needs a style sheet, which an untrusted notebook drops. Text and tables therefore
contain everything that the drawing shows. Marks differ in shape as well as in colour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpnb.decide.decision import VERDICTS
from dpnb.display import elements
from dpnb.display.marks import GREY, Scale, round_scale
from dpnb.errors import printable
from dpnb.formats import ends_text, figure, percent

if TYPE_CHECKING:
    from dpnb.decide.decision import Decision, Test

LANES = 16
"""Most groups drawn for one condition: those nearest to its threshold."""
MARKS = {1: "✓", 0: "?", -1: "✗"}
"""Mark of each verdict, shown beside its words."""
CLASSES = {1: "dpnb-yes", 0: "dpnb-doubt", -1: "dpnb-no"}
_REACH = 8.0
"""Reach of the line to either side of the threshold, in margins of error or uncertain regions."""
_NAME = 60
"""Longest name of a group in the drawing, in characters."""


@dataclass(frozen=True, slots=True)
class NumberLine:
    """The number line of one condition, in units of its reading.

    Attributes
    ----------
    test : Test
    own : bool
        Whether groups have their own thresholds: values are then distances from these.
    limit, moved : float
        The threshold, and the one that values were tested against.
    groups : tuple of int
        The drawn groups, highest value first.
    verdicts : tuple of int
        Their verdicts on this condition alone: 1 surely yes, -1 surely no, 0 unknown.
    places : tuple of (low, value, high)
        Their values and confidence intervals.
    below, above : int
        Number of groups that are not drawn, below and above the threshold.
    """

    test: Test
    own: bool
    limit: float
    moved: float
    groups: tuple[int, ...]
    verdicts: tuple[int, ...]
    places: tuple[tuple[float, float, float], ...]
    below: int
    above: int

    def axis(self) -> Scale:
        """Return a scale in round numbers that covers the thresholds and the drawn groups."""
        reach = _REACH * max([self.test.u, *self.margins_of_error()])
        ends = [self.limit, self.moved]
        for place in self.places:
            ends += [min(max(x, self.limit - reach), self.limit + reach) for x in place]
        return round_scale(min(ends), max(ends), 4)

    def margins_of_error(self) -> list[float]:
        """Return half the widths of the finite confidence intervals."""
        halves = [(high - low) / 2 for low, _, high in self.places]
        return [half for half in halves if math.isfinite(half)]


def number_line(made: Decision, test: Test, most: int = LANES) -> NumberLine:
    """Return the number line of a condition: its threshold, and the groups nearest to it."""
    reading = made.readings[test.reading]
    own, limit = _own(test), _limit(test)

    def place(group: int) -> tuple[float, float, float]:
        off = test.limits[group] if own else 0.0
        ends = reading.ends(group)
        return ends[0] - off, ends[1] - off, ends[2] - off

    gaps = [value - at for value, at in zip(reading.values, test.limits, strict=True)]
    nearest = sorted(range(len(gaps)), key=lambda group: abs(gaps[group]))[:most]
    halves = sorted((reading.high[g] - reading.low[g]) / 2 for g in nearest)
    typical = (
        halves[len(halves) // 2] if halves and math.isfinite(halves[len(halves) // 2]) else 0.0
    )
    reach = _REACH * max(test.u, typical)
    groups = sorted((g for g in nearest if abs(gaps[g]) <= reach), key=lambda g: -gaps[g])
    shown = set(groups)
    rest = [gap for group, gap in enumerate(gaps) if group not in shown]
    return NumberLine(
        test, own, limit, limit - test.sign * test.u * is_tested(made), tuple(groups),
        tuple(verdict_of(made, test, group) for group in groups), tuple(map(place, groups)),
        sum(gap < 0 for gap in rest), sum(gap >= 0 for gap in rest),
    )  # fmt: skip


def verdict_of(made: Decision, test: Test, group: int) -> int:
    """Return a group's verdict on one condition, from its confidence interval.

    If there is only one condition, this is the verdict of the decision.
    """
    if len(made.tests) == 1:
        return made.verdicts[group]
    reading, limit = made.readings[test.reading], test.limits[group]
    # a decision that protects against false positives tests the complement
    sign = test.sign if made.protect == "fnr" else -test.sign
    low, _, high = reading.ends(group)
    if low > limit:
        return sign
    return -sign if high < limit else 0


def exact(number: float) -> str:
    """Return a number as it was given, with thousands separators."""
    return f"{number:,.12g}"


def region_text(test: Test, factor: float = 1.0) -> str:
    """Return an uncertain region as text; for AVG in its own unit, with the rows it assumes.

    Parameters
    ----------
    test : Test
    factor : float
        Multiplies the uncertain region.
    """
    u = factor * test.u / test.rows
    region = figure(u, u)
    return region if test.rows == 1 else f"{region} in the average of {exact(test.rows)} rows"


def is_tested(made: Decision) -> bool:
    """Return whether noisy values were tested; if not, intervals of past answers decided."""
    return bool(made.taken) or not made.past


def threshold_sentence(made: Decision, test: Test) -> str:
    """Return, in words, a condition's threshold and what values were tested against."""
    about = made.readings[test.reading].about
    sentence = f"The threshold is {exact(_limit(test))}."
    if about is not None:
        sentence = (
            f"Values are sums of distances from the threshold {exact(about)}. A sum above 0 means an "
            f"average above {exact(about)}."
        )
    elif _own(test):
        sentence = "Each group has its own threshold."
    return f"{sentence} {_tested_sentence(made, test, about)}"


def _tested_sentence(made: Decision, test: Test, about: float | None) -> str:
    if not is_tested(made):
        return "Groups were judged by the confidence intervals of past answers."
    region = region_text(test)
    if _own(test):
        sentence = (
            f"Noisy values were tested against it, shifted by the uncertain region of {region}."
        )
    else:
        moved = figure(_limit(test) - test.sign * test.u, test.u)
        name = "the threshold" if about is None else "0"
        sentence = (
            f"Noisy values were tested against {moved}: {name}, shifted by the uncertain region of "
            f"{region}."
        )
    if made.past:
        sentence += " The test used only noise drawn for this decision. The values shown also use past answers."
    return sentence


def limit_label(made: Decision, line: NumberLine) -> str:
    """Return the label of the threshold in the drawing."""
    about = made.readings[line.test.reading].about
    if about is not None:
        return f"0: average at {exact(about)}"
    return "0: at its threshold" if line.own else f"threshold {exact(line.limit)}"


def drawn_sentence(line: NumberLine) -> str:
    """Return which groups are drawn, and how; '' if all groups are, with their own values."""
    counts = ((line.below, "lower"), (line.above, "higher"))
    beyond = " and ".join(
        f"{count:,} {'lies' if count == 1 else 'lie'} {where}" for count, where in counts if count
    )
    note = "Drawn as distances from each group's threshold. " if line.own else ""
    if not beyond:
        return note.strip()
    number = len(line.groups)
    nearest = f"the {number} groups nearest to the threshold" if number else "no group"
    return f"{note}Drawn: {nearest}; {beyond}."


def _own(test: Test) -> bool:
    return len(set(test.limits)) > 1


def _limit(test: Test) -> float:
    """Return the threshold to draw: 0 if groups have their own thresholds."""
    return 0.0 if _own(test) or not test.limits else test.limits[0]


def lane_sentence(made: Decision, test: Test, group: int) -> str:
    """Return one group's value, confidence interval and verdict for one condition, in words."""
    reading = made.readings[test.reading]
    low, value, high = reading.ends(group)
    half = (high - low) / 2
    number, interval = figure(value, half), ends_text(low, high, half)
    selection = "selected" if made.chosen[group] else "not selected"
    alone = (
        "" if len(made.tests) == 1 else f"{test.text}: {VERDICTS[verdict_of(made, test, group)]}. "
    )
    return printable(
        f"{made.group_label(group)}: noisy value {number}, confidence interval {interval}. {alone}"
        f"Overall: {made.verdict_text(group)}, {selection}."
    )


def line_html(made: Decision, index: int) -> str:
    """Return a condition with its number line; without styles, only its sentences are visible."""
    line = number_line(made, made.tests[index])
    sentences = f"{threshold_sentence(made, line.test)} {drawn_sentence(line)}".strip()
    return (
        f'<div class="dpnb-cond"><p><strong>{elements.text(line.test.text)}</strong> '
        f'<span class="dpnb-effect">{elements.text(sentences)}</span></p>{_drawing(made, line)}</div>'
    )


def legend_html(made: Decision) -> str:
    """Return the legend of the marks; hidden when the drawing is."""
    entries = ((1, "surely yes"), (0, "unknown"), (-1, "surely no"))
    marks = "".join(f"<span>{mark_html(verdict)} {words}</span> " for verdict, words in entries)
    which = "verdict on the whole condition"
    if len(made.tests) > 1:
        which = "on a line: for its condition alone; in the table: for the whole condition"
    return (
        f'<p class="dpnb-legend" style="display:none">{marks}'
        f"<span>({which})</span> "
        f"<span>lines: confidence intervals, which all hold at once, with {percent(made.confidence)} "
        "confidence</span></p>"
    )


def mark_html(verdict: int) -> str:
    """Return the mark of a verdict, which is shown beside its words."""
    return f'<span class="dpnb-glyph {CLASSES[verdict]}" aria-hidden="true">{MARKS[verdict]}</span>'


def _drawing(made: Decision, line: NumberLine) -> str:
    start, end, step = line.axis()

    def x(at: float) -> float:
        return 100 * (min(max(at, start), end) - start) / (end - start)

    frame = _frame(x(line.limit), x(line.moved))
    lanes = "".join(
        _lane(made, line, group, verdict, frame, [x(at) for at in place])
        for group, verdict, place in zip(line.groups, line.verdicts, line.places, strict=True)
    )
    at, moved = x(line.limit), x(line.moved)
    heads = _label(at, limit_label(made, line), frame=frame, left=line.moved > line.limit)
    if line.moved != line.limit:
        name = f"tested against {figure(line.moved, line.test.u)}"
        heads = _label(moved, name, frame=_moved(moved), left=line.moved < line.limit) + heads
    ends = "".join(f"<span>{figure(at, 10 * step)}</span> " for at in (start, end))
    return (
        '<div class="dpnb-lanes" style="display:none">'
        f'{heads}<ul role="list">{lanes}</ul><div class="dpnb-ends dpnb-foot">{ends.rstrip()}</div>'
        "</div>"
    )


def _frame(limit: float, moved: float) -> str:
    """Return the background of every lane: both thresholds, and the region between them."""
    left, width = min(limit, moved), abs(limit - moved)
    return (
        f'<rect class="dpnb-between" x="{left:.2f}%" width="{width:.2f}%" height="100%" '
        f'fill="{GREY}" fill-opacity=".15"/>{_moved(moved)}'
        f'<line class="dpnb-limit" x1="{limit:.2f}%" x2="{limit:.2f}%" y2="100%" stroke="{GREY}" '
        'stroke-width="2"/>'
    )


def _moved(at: float) -> str:
    return (
        f'<line class="dpnb-moved" x1="{at:.2f}%" x2="{at:.2f}%" y2="100%" stroke="{GREY}" '
        'stroke-dasharray="3 3"/>'
    )


def _lane(
    made: Decision, line: NumberLine, group: int, verdict: int, frame: str, at: list[float]
) -> str:
    name = printable(made.group_label(group))
    name = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
    sentence = elements.text(lane_sentence(made, line.test, group))
    low, value, high = at
    return (
        # the filter uses the verdict on the whole condition, not the one drawn here
        f'<li data-verdict="{made.verdicts[group]}" data-chosen="{int(made.chosen[group])}">'
        f'<span class="dpnb-name" aria-hidden="true" title="{elements.text(name)}">{elements.text(name)}</span>'
        f'<svg class="{CLASSES[verdict]}" width="100%" height="22" role="img" aria-label="{sentence}">'
        f'{frame}<line class="dpnb-span" x1="{low:.2f}%" x2="{high:.2f}%" y1="11" y2="11" '
        f'stroke="{GREY}" stroke-width="3"/>'
        f'<text x="{value:.2f}%" y="16" text-anchor="middle">{MARKS[verdict]}</text></svg></li>'
    )


def _label(at: float, text: str, *, frame: str, left: bool) -> str:
    """Return the label of a threshold beside its line; ``left`` prefers the left side."""
    anchor, shift = ("end", -6) if at > (40 if left else 70) else ("start", 6)
    return (
        '<div class="dpnb-top"><span class="dpnb-name"></span>'
        f'<svg width="100%" height="20" aria-hidden="true">{frame}<text x="{at:.2f}%" dx="{shift}" '
        f'y="14" text-anchor="{anchor}">{elements.text(text)}</text></svg></div>'
    )
