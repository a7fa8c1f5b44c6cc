"""Spending over time as a step chart: the total against the cap, and each analyst.

The style sheet draws all labels from attributes, so without styles nothing of the chart is left.
The sentence above it and the table of charges contain the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from dpnb.display import elements
from dpnb.display.cards.provenance_words import TOGETHER, rounds_down, timeline_sentence
from dpnb.display.marks import round_scale
from dpnb.privacy.loss import amount_text
from dpnb.results import format_time

if TYPE_CHECKING:
    from dpnb.owner.report import Provenance, Spending

MOST_DRAWN = 6
"""Most analysts drawn: those to whom most was released."""
_STEPS = 400
_GAP = 10.5
"""Smallest distance of two labels, in percent of the height."""
_FAR = 0.3
"""If spending stays below this share of the cap, the axis ends before the cap."""


def timeline(provenance: Provenance) -> str:
    """Return the chart below a sentence with the same facts; the sentence alone without charges."""
    above = f"{elements.section('How the budget was spent')}{elements.notes(timeline_sentence(provenance))}"
    names, steps = course(provenance)
    if not steps:
        return above
    cap, highest = float(provenance.cap.level(provenance.privacy)), max(map(max, steps))
    far = highest < _FAR * cap
    start, end, step = round_scale(0.0, max(highest, 0.0 if far else cap), 4)
    if far and highest > 0.9 * end:
        end += step

    def place(value: float) -> float:
        return 100 - 100 * (value - start) / (end - start)

    paths = "".join(
        f'<path class="dpnb-prov-line dpnb-prov-line-{i}" d="{path([place(point[i]) for point in steps])}"'
        f' fill="none" stroke="currentColor" vector-effect="non-scaling-stroke"/>'
        for i in reversed(range(len(names)))
    )
    limit = f"budget {amount_text(cap, left=rounds_down(provenance, provenance.remaining))}"
    labels = [(place(steps[-1][i]), name, f"dpnb-prov-line-{i}") for i, name in enumerate(names)]
    labels.append((0.0, f"↑ {limit}", "") if far else (place(cap), limit, ""))
    marks = "" if far else f'<i class="dpnb-prov-cap" style="top:{place(cap):.2f}%"></i>'
    count = round((end - start) / step)
    ticks = "".join(
        f'<i class="dpnb-prov-tick" style="top:{100 - 100 * i / count:.2f}%" '
        f'data-label="{amount_text(start + i * step)}"></i>'
        for i in range(count + 1)
    )
    charges = [point for point in provenance.timeline if _paid(provenance, point)]
    return (
        f'{above}<div class="dpnb-prov-figure" aria-hidden="true">'
        f'<div class="dpnb-prov-plot" data-unit="{provenance.privacy.parameter}">{ticks}{marks}'
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">'
        f"{paths}</svg>{_labels(labels)}</div>"
        f'<div class="dpnb-prov-foot"><i data-label="{format_time(charges[0].time)}"></i>'
        '<i data-label="charges in order →"></i>'
        f'<i data-label="{format_time(charges[-1].time)} UTC"></i></div></div>'
    )


def course(provenance: Provenance) -> tuple[list[str], list[list[float]]]:
    """Return the names of the drawn lines, all together first, and their totals after each charge.

    The first point is before the first charge. Of many charges only some are drawn, always
    including the last one.
    """
    privacy = provenance.privacy
    rows = sorted(provenance.rows, key=lambda row: -row.known.level(privacy))
    names = [row.name for row in rows if row.known.level(privacy)][:MOST_DRAWN]
    totals: Mapping[str, float] = dict.fromkeys(names, 0.0)
    total, points = 0.0, [[0.0] * (1 + len(names))]
    for charge in provenance.timeline:
        if _paid(provenance, charge):
            total += float(charge.table.level(privacy))
            if charge.row in totals:
                totals = {
                    **totals,
                    charge.row: totals[charge.row] + float(charge.own.level(privacy)),
                }
            points.append([total, *totals.values()])
    if len(points) == 1:
        return [], []
    every = -(-(len(points) - 1) // _STEPS)
    sample = [*points[:-1:every], points[-1]]
    return [TOGETHER, *names], sample


def path(places: Sequence[float]) -> str:
    """Return steps of equal width as an SVG path, each at the total after a charge."""
    width = 100 / max(1, len(places) - 1)
    commands, last = [f"M0 {places[0]:.2f}"], places[0]
    for i, place in enumerate(places[1:], 1):
        if place != last:
            commands.append(f"H{(i - 0.5) * width:.2f}V{place:.2f}")
            last = place
    return f"{''.join(commands)}H100"


def spread(places: Sequence[float], gap: float = _GAP) -> list[float]:
    """Return positions from 0 to 100, moved at least ``gap`` apart, in the same order."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    positions = list(places)
    for before, after in pairwise(order):
        positions[after] = max(positions[after], positions[before] + gap)
    limit = 100.0
    for i in reversed(order):
        positions[i] = min(positions[i], limit)
        limit = positions[i] - gap
    return positions


def _labels(labels: Sequence[tuple[float, str, str]]) -> str:
    places = spread([place for place, _, _ in labels])
    return "".join(
        f'<i class="dpnb-prov-label {name}" style="top:{place:.2f}%" data-label="{elements.text(text)}"></i>'
        for place, (_, text, name) in zip(places, labels, strict=True)
    )


def _paid(provenance: Provenance, charge: Spending) -> bool:
    privacy = provenance.privacy
    return bool(charge.own.level(privacy) or charge.table.level(privacy))
