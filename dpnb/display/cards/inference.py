"""Inference from past answers, as text and as HTML: a table, its guarantee, and its sources.

The table works without scripts and styles. Where scripts run, ``static/inference.js`` shows the
confidence interval at every confidence; with a kernel it also shows the probability of a claim.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from dpnb.display import elements
from dpnb.display.cards import Card, words
from dpnb.display.cards.inference_curve import (
    axis,
    curve,
    density_at,
    has_curve,
    has_levels,
    levels,
)
from dpnb.display.html import aggregate_cells, aggregate_head
from dpnb.display.marks import GREY, Scale, bar_mark, interval_marks, scale
from dpnb.display.text import MAX_ROWS, aligned, group_cells, stamps
from dpnb.errors import printable
from dpnb.formats import ends_text, figure, label_text, percent, share_text, whole
from dpnb.results import InfoTable
from dpnb.schema.persons import shown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.inference import Inference
    from dpnb.answers.inferred import Inferred, Source
    from dpnb.display.cards.inference_widget import InferenceWidget

ORIGIN = "Past answers used"
MAX_SOURCES = 20
"""Most past answers shown; the rest is only counted, and ``sources`` has them all."""
TEXT_SOURCES = 5
"""The same limit in text."""
MOST_SURE = 0.9999
"""A confidence above this is shown as 'more than' this one."""
_WIDTH, _HEIGHT = 480, 84
_NARROW = 60
"""Longest statement in a terminal, in characters."""


def inference_cells(inference: Inference) -> tuple[list[str], list[list[str]]]:
    """Return the header and the shown lines of an inference's table as texts."""
    return group_cells(inference, inference.aggregates, sure_text(inference))


def inference_sentences(inference: Inference) -> list[str]:
    """Return the sentences about an inference, the same in every rendering."""
    sentences = [interval_sentence(inference), cost_sentence(inference), *notes(inference)]
    hidden = len(inference.rows) - MAX_ROWS
    if hidden > 0:
        sentences.insert(0, words.rest_sentence(hidden))
    return [sentence for sentence in sentences if sentence]


def sure_text(inference: Inference) -> str:
    """Return the confidence as shown."""
    most = inference.confidence > MOST_SURE
    return f"more than {percent(MOST_SURE)}" if most else percent(inference.confidence)


def interval_sentence(inference: Inference) -> str:
    """Return what the intervals guarantee."""
    if inference.look == 1:
        return _promise(inference)
    return (
        f"{_promise(inference)} Look {inference.look} of this answer: this assumes that past answers were "
        "refined to accuracies chosen before the first look."
    )


def _promise(inference: Inference) -> str:
    sure, number = sure_text(inference), inference.asked * len(inference.aggregates)
    if inference.method == "guaranteed":
        lie = "All values lie within their" if number > 1 else "The value lies within its"
        return (
            f"{lie} bounds, with {sure} confidence, however you chose the question. "
            "This assumes that no past question was chosen by looking at such bounds."
        )
    meaning = words.interval_sentence(
        sure, number, each=inference.intervals == "each", credible=inference.informed
    )
    if inference.informed:
        meaning += " The probability is an average over the prior."
    if inference.chosen == "any":
        return (
            f"{meaning} This holds for any question that past answers determine, even one chosen by "
            "looking at them. It assumes that no past question was chosen by looking at such intervals."
        )
    if inference.chosen != 1:
        return (
            f"{meaning} This holds if you picked the question from {inference.chosen:,} after seeing their "
            "answers. It assumes that no past question was chosen by looking at answers."
        )
    return (
        f"{meaning} This assumes that neither this question nor a past one was chosen by looking at "
        "answers."
    )


def cost_sentence(inference: Inference) -> str:
    """Return where the numbers come from, and that they cost nothing."""
    # with a prior, and for bounds, all linked releases count; otherwise only those with a weight
    weighted = inference.method == "blue" and inference.prior is None
    linked = {name.rpartition("/")[0] for name in inference.joint.names}
    number = len(inference.joint.used if weighted else linked)
    if not number:
        return "No past answer helps here. No privacy cost."
    past = "one past answer" if number == 1 else f"{number} past answers"
    return f"Computed from {past}, without reading the data. No privacy cost."


def notes(inference: Inference) -> tuple[str, ...]:
    """Return further notes, one sentence each."""
    sentences = []
    if inference.consistency.alarmed:
        sentences.append(
            "The past answers disagree more than noise explains: was one changed, rounded, or entered twice?"
        )
    if inference.missing:
        sentences.append("Past answers do not determine every value.")
    sentences += [query.statement for query in inference.missing[:3]]
    if inference.left_out:
        sentences.append(f"Left out for lack of room: {'; '.join(inference.left_out[:5])}.")
    if inference.prior is not None:
        from dpnb.estimation.prior import prior_text

        sentences.append(f"Prior: {prior_text(inference.prior)}.")
    if inference.met is not None:
        sentences.append(
            "The target margin of error is reached."
            if inference.met
            else "The target margin of error is not reached."
        )
    return tuple(sentences)


def inference_text(inference: Inference) -> str:
    """Return an inference for a terminal: the table, its guarantee, and its main sources."""
    above = [f"{stamp}\n" for stamp in stamps(inference.stamp, inference.conditional)]
    lines = aligned(*inference_cells(inference), range(len(inference.keys)))
    sentences = map(printable, inference_sentences(inference))
    parts = [*above, *lines, "", *sentences]
    if inference.sources:
        parts += ["", repr(_sources(inference, TEXT_SOURCES, _NARROW))]
    return "\n".join(parts)


def inference_html(inference: Inference, token: str = "") -> str:
    """Return an inference as a table that needs no script.

    Parameters
    ----------
    inference : Inference
    token : str
        Names the live widget that this HTML accompanies. While the widget is alive, the HTML is
        folded to one line.
    """
    state = {"data": inference_data(inference), "at": 0}
    script = elements.script("inference.js", state, token)
    return elements.framed(f"<style>{inference_css()}</style>{inference_body(inference)}{script}")


def inference_body(inference: Inference) -> str:
    """Return an inference without styles and scripts."""
    rows, aggregates = inference.rows[:MAX_ROWS], inference.aggregates
    bounds = inference.method == "guaranteed"
    axes = [scale(aggregate, rows, bounds=bounds) for aggregate in aggregates]
    alone = len(aggregates) == 1
    heads = "".join(elements.head(key) for key in inference.keys or ("",)) + "".join(
        aggregate_head(aggregate, index, sure_text(inference), axis, alone=alone)
        for index, (aggregate, axis) in enumerate(zip(aggregates, axes, strict=True))
    )
    body = "".join(
        "<tr>"
        + "".join(
            elements.row_head(label_text(key)) for key in inference.groups[row] or ("all rows",)
        )
        + "".join(
            aggregate_cells(
                aggregate, index, row, axis, drawn=_drawn(aggregate, row, axis), alone=alone
            )
            for index, (aggregate, axis) in enumerate(zip(aggregates, axes, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    names = " and ".join(aggregate.alias for aggregate in aggregates)
    by = f" by {', '.join(inference.keys)}" if inference.keys else ""
    caption = elements.caption(
        f"{names}{by}, from past answers about {shown_name(inference.table)}"
    )
    stamped = elements.stamped(inference.stamp, inference.conditional)
    return (
        f'<div class="dpnb-body dpnb-infer">{stamped}<table class="dpnb-table">{caption}'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{_density(inference)}"
        f"{elements.notes(*inference_sentences(inference))}{_origin(inference)}</div>"
    )


def inference_data(inference: Inference) -> dict[str, Any]:
    """Return the script's data: the shown values, and their intervals at every confidence.

    Returns
    -------
    dict
        ``groups`` and ``aggregates``: names; ``points``: a list for each aggregate and, within it,
        each shown group, whose points have a confidence and an interval as texts, and the start and
        the end of the interval on the axis of the curve, in thousandths; ``start``: index of the
        point with the inference's own confidence; ``note``.
    """
    rows = inference.rows[:MAX_ROWS]
    pairs = [(aggregate, row) for aggregate in inference.aggregates for row in rows]
    points = [_points(inference, aggregate, row) for aggregate, row in pairs]
    level, longest = percent(inference.confidence), max(points, key=len, default=[])
    start = next((place for place, point in enumerate(longest) if point[0] == level), 0)
    alone = len(inference.groups) * len(inference.aggregates) == 1
    return {
        "groups": [printable(inference.group_label(row)) for row in rows],
        "aggregates": [printable(aggregate.alias) for aggregate in inference.aggregates],
        "points": points,
        "start": start,
        "note": "" if alone else "of this value on its own",
    }


def value_name(inference: Inference, found: Inferred, row: int) -> str:
    """Return the name of one group's value: 'n of Male'."""
    return printable(
        f"{found.alias} of {inference.group_label(row)}" if inference.keys else found.alias
    )


@cache
def inference_css() -> str:
    """Return the styles of inferences, which add to those of every result."""
    return (elements.STATIC / "inference.css").read_text(encoding="utf-8")


def _points(inference: Inference, aggregate: Inferred, row: int) -> list[list[str | int]]:
    if not has_levels(inference, aggregate, row):
        return []
    start, end = axis(inference, aggregate, row)
    times = 1000 / (end - start) if end > start else 0.0
    points: list[list[str | int]] = []
    for level, low, high in levels(inference, aggregate, row):
        half = (high - low) / 2
        half = whole(half) if aggregate.function.is_count else half
        text = ends_text(low, high, half, counts=aggregate.function.is_count)
        places = [min(max(round(times * (x - start)), 0), 1000) for x in (low, high)]
        points.append([percent(level), text, *places])
    return points


def _drawn(aggregate: Inferred, row: int, axis: Scale) -> str:
    """Return an interval with its estimate, or bounds without an estimate as a hollow bar."""
    low, high = aggregate.low[row], aggregate.high[row]
    if aggregate.estimate[row] is None and not aggregate.places[row] and math.isfinite(high - low):
        return bar_mark(low, high, axis, opened=True)
    return interval_marks(aggregate, row, axis)


def _density(inference: Inference) -> str:
    """Return the curve of a single value with its interval shaded; the table has the same facts."""
    [aggregate, *others] = inference.aggregates
    if others or len(inference.groups) != 1 or not has_curve(inference, aggregate, 0):
        return ""
    points = curve(inference, aggregate, 0)
    value = aggregate.estimate[0]
    top = max((density for _, density in points), default=0.0)
    if value is None or not top > 0:
        return ""
    start, end = points[0][0], points[-1][0]

    def x(at: float) -> str:
        return f"{_WIDTH * (min(max(at, start), end) - start) / (end - start):.1f}"

    def y(density: float) -> str:
        return f"{_HEIGHT - (_HEIGHT - 4) * density / top:.1f}"

    line = " ".join(f"{x(at)},{y(density)}" for at, density in points)
    low, high = max(aggregate.low[0], start), min(aggregate.high[0], end)
    inside = [(at, density) for at, density in points if low < at < high]
    shaded = [(low, density_at(points, low)), *inside, (high, density_at(points, high))]
    area = " ".join(f"{x(at)},{y(density)}" for at, density in shaded)
    half = (end - start) / 2
    marks = start, (start + end) / 2, end
    ends = "".join(f"<span>{figure(at, half)}</span> " for at in marks)
    # an untrusted notebook drops styles and drawing; display:none then hides the caption, too
    return (
        '<div class="dpnb-density" style="max-width:520px;display:none">'
        "<p>How likely each value is, given the past answers. The confidence interval is shaded.</p>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true" '
        f'width="100%" height="{_HEIGHT}" focusable="false">'
        f'<polygon class="dpnb-within" fill="{GREY}" fill-opacity=".4" '
        f'points="{x(low)},{_HEIGHT} {area} {x(high)},{_HEIGHT}"/>'
        f'<polyline class="dpnb-outline" fill="none" stroke="{GREY}" stroke-width="2" '
        f'vector-effect="non-scaling-stroke" points="{line}"/>'
        f'<path class="dpnb-at" stroke="{GREY}" vector-effect="non-scaling-stroke" '
        f'd="M{x(value)} 0V{_HEIGHT}"/>'
        f'<path class="dpnb-ground" stroke="{GREY}" vector-effect="non-scaling-stroke" '
        f'd="M0 {_HEIGHT}H{_WIDTH}"/></svg>'
        '<div class="dpnb-ends" style="display:flex;justify-content:space-between">'
        f"{ends.rstrip()}</div></div>"
    )


def _origin(inference: Inference) -> str:
    """Return the past answers behind an inference, in a collapsible section."""
    info = _sources(inference, MAX_SOURCES)
    if not info.rows:
        return ""
    first, _, *heads = info.header
    head = elements.head(first) + "".join(_right('th scope="col"', name) for name in heads)
    rows = "".join(
        '<tr><th scope="row" style="text-align:left;font-weight:normal">'
        f"{elements.one_line(statement)}"
        f'<span class="dpnb-effect" style="display:block">{elements.text(group)}</span></th>'
        + "".join(_right("td", cell) for cell in cells)
        + '<td class="dpnb-plot" style="text-align:left;white-space:nowrap">'
        + f"{bar_mark(0.0, source.share, (0.0, 1.0, 1.0), opened=False)}</td></tr>"
        for source, (statement, group, *cells) in zip(inference.sources, info.rows, strict=False)
    )
    title = info.caption.removeprefix(f"{ORIGIN}: ")
    return (
        f'<details><summary data-lm-suppress-shortcuts="true">{ORIGIN}</summary>'
        f'<table class="dpnb-table dpnb-past">'
        f'<caption style="text-align:left">{elements.text(title[:1].upper() + title[1:])}</caption>'
        f'<thead><tr>{head}<td class="dpnb-plot" style="min-width:70px"></td></tr></thead>'
        f"<tbody>{rows}</tbody></table></details>"
    )


def _right(tag: str, value: str) -> str:
    return f'<{tag} style="text-align:right">{elements.text(value)}</{tag[:2]}>'


def _sources(inference: Inference, most: int, narrow: int | None = None) -> InfoTable:
    """Return a table of the most important past answers, with weights for a single value."""
    sources = inference.sources
    single = len(inference.shares) == 1
    shares = "share of the variance" if single else "largest share of the variance"
    header = ("past answer", "group", "released", *(("weight",) if single else ()), shares)
    rows = tuple(_source_cells(source, narrow, single=single) for source in sources[:most])
    caption = f"{ORIGIN}: "
    if single:
        caption += "the value is the sum of weight × released."
    else:
        caption += "each with the value that it contributes most to."
    hidden = len(sources) - most
    if hidden > 0:
        caption += f" {hidden:,} more: see .sources."
    return InfoTable(caption, header, rows)


def _source_cells(source: Source, narrow: int | None, *, single: bool) -> tuple[str, ...]:
    statement = " ".join(source.statement.split())
    if narrow is not None and len(statement) > narrow:
        statement = f"{statement[: narrow - 3]}..."
    released = f"{figure(source.value, source.sd)} ± {figure(source.sd, source.sd)}"
    weight = (_weight(source.weight),) if single else ()
    return statement, source.group, released, *weight, share_text(source.share)


def _weight(weight: float) -> str:
    return f"{weight:.3g}" if math.isfinite(weight) else "unknown"


def _plot(inference: Inference, ax: Axes | None) -> Axes:
    from dpnb.display.cards.inference_figure import plot_inference

    return plot_inference(inference, ax)


def _widget(inference: Inference, token: str = "") -> InferenceWidget:
    from dpnb.display.cards.inference_widget import InferenceWidget

    return InferenceWidget(inference, token=token)


INFERENCE = Card(inference_text, inference_html, plot=_plot, widget=_widget)
