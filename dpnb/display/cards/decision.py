"""Decisions and their plans, as text and as HTML: the groups, the bounds on errors, the cost.

Tables and sentences work without scripts and styles. Where scripts run, ``static/decision.js``
filters groups and shows what other uncertain regions would cost; with a kernel it also takes the
next step.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dpnb.decide.options import STUDY_MODES, TWO_PHASES
from dpnb.display import elements
from dpnb.display.cards import Card, decision_words, words
from dpnb.display.cards.decision_line import (
    legend_html,
    line_html,
    mark_html,
    region_text,
    threshold_sentence,
)
from dpnb.display.cards.decision_offers import offers
from dpnb.display.html import aggregate_cells, aggregate_head, info_table_element
from dpnb.display.marks import GREY, interval_marks, scale
from dpnb.display.text import (
    MAX_ROWS,
    aligned,
    markdown,
    markdown_table,
    stamps,
    strong,
)
from dpnb.errors import printable
from dpnb.estimation.estimates import Intervals
from dpnb.formats import label_text, loss_text, part_text, percent
from dpnb.privacy.loss import amount_text
from dpnb.results import InfoTable
from dpnb.schema.persons import shown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpnb.decide.decision import Decision, Test
    from dpnb.decide.price import DecisionPrice
    from dpnb.display.cards.decision_widget import DecisionWidget

SIMULATED = "NOT PRIVATE: a published method, simulated on public data."
MAX_LINES = 6
"""Most conditions with a drawn number line; the others are given in words."""
_BORDERS = {
    "bound": f"3px solid {GREY}",
    "certificate": f"3px double {GREY}",
    "estimate": f"2px dashed {GREY}",
    "none": f"2px dotted {GREY}",
}
"""Border around the kind of a statement."""


# which groups are shown


def told_groups(made: Decision) -> list[int]:
    """Return the groups that are selected or in doubt: selected ones first, sure before unsure."""
    groups = [
        group
        for group, chosen in enumerate(made.chosen)
        if chosen or (made.verdicts[group] == 0 and made.readings)
    ]
    return sorted(groups, key=lambda group: (not made.chosen[group], -made.verdicts[group]))


def rest_sentences(made: Decision) -> list[str]:
    """Return sentences about the groups that are not shown."""
    groups = told_groups(made)
    shown = set(groups)
    rest = [verdict for group, verdict in enumerate(made.verdicts) if group not in shown]
    sentences = []
    if len(groups) > MAX_ROWS:
        sentences.append(
            f"{len(groups) - MAX_ROWS:,} more groups are selected or in doubt: see to_frame()."
        )
    if rest:
        breakdown = ""
        if made.readings:
            kinds = [(-1, "surely no"), (1, "surely yes, but left out")]
            counts = [(rest.count(verdict), name) for verdict, name in kinds]
            breakdown = ": " + ", ".join(f"{count:,} {name}" for count, name in counts if count)
        others = f"{'other ' if groups else ''}{'group is' if len(rest) == 1 else 'groups are'}"
        sentences.append(f"{len(rest):,} {others} not selected{breakdown}.")
    return sentences


def selected_text(made: Decision, group: int) -> str:
    """Return whether a group is selected, and whether by randomised response."""
    selection = "yes" if made.chosen[group] else "no"
    return f"{selection}, randomised" if made.responded[group] else selection


def stamps_of(made: Decision) -> list[str]:
    """Return the stamps of a decision."""
    study = [SIMULATED] if made.mode in STUDY_MODES else []
    return [*study, *stamps(made.stamp, made.conditional)]


def readings_of(made: Decision) -> list[Intervals]:
    """Return the noisy values and their confidence intervals, for result tables."""
    return [
        reading.shown(name)
        for name, reading in zip(made.reading_names(shown=True), made.readings, strict=True)
    ]


def decision_cells(made: Decision) -> tuple[list[str], list[list[str]]]:
    """Return the header and the shown lines of a decision's table as texts."""
    readings = readings_of(made)
    header = [*(made.keys or ("group",)), "selected", *(["verdict"] if readings else [])]
    for reading in readings:
        header += [reading.alias, "interval"]
    rows = []
    for group in told_groups(made)[:MAX_ROWS]:
        cells = [*map(label_text, made.groups[group] or ("all rows",)), selected_text(made, group)]
        if readings:
            cells.append(made.verdict_text(group))
        for reading in readings:
            cells += [reading.text(group), reading.interval_text(group)]
        rows.append(cells)
    return header, rows


# facts as tables


def overview(made: Decision) -> InfoTable:
    """Return a table of both errors in numbers: bounded, certified, or only estimated."""
    return InfoTable("Both errors in numbers", *decision_words.overview(made))


def steps_info_table(made: Decision) -> InfoTable | None:
    """Return a table of the steps taken; None if there is none, or if at most one is possible."""
    if made.steps < 2 or not made.taken:
        return None
    header = (
        "step", "privacy cost", "wrong on the list, certified", "false negatives, certified",
        "groups in doubt",
    )  # fmt: skip
    rows = tuple(
        (
            f"{step.number} of {made.steps}",
            loss_text(step.spent, made.privacy, None),
            decision_words.at_most(step.wrong),
            decision_words.at_most(step.missed),
            f"{step.unknown:,}",
        )
        for step in made.taken
    )
    return InfoTable("Steps taken", header, rows)


def charged_sentence(made: Decision) -> str:
    """Return the total cost of the decision, also as a share of the whole budget."""
    cap = made.cap.level(made.privacy)
    charge = made.charged.level(made.privacy)
    share = part_text(charge, cap) if cap else "all"
    cost = loss_text(made.charged, made.privacy, made.delta)
    total = amount_text(cap, left=charge < cap)
    return f"Total privacy cost of this decision: {cost}, {share} of the budget of {total}."


def after_sentences(made: Decision) -> list[str]:
    """Return sentences on the next step, warnings, and notes."""
    reason = made.reason if made.status in ("partial", "not certified") else ""
    sentences = [
        decision_words.next_sentence(made),
        *made.warnings,
        reason,
        words.ledger_note(made.bill),
    ]
    return [sentence for sentence in sentences if sentence]


def cost_sentences(made: Decision) -> list[str]:
    """Return sentences on the cost, followed by :func:`after_sentences`."""
    return [decision_words.cost_sentence(made), charged_sentence(made), *after_sentences(made)]


# text and Markdown


def decision_text(made: Decision) -> str:
    """Return a decision for a terminal."""
    header, rows = decision_cells(made)
    lines = [f"{stamp}\n" for stamp in stamps_of(made)]
    lines += [printable(decision_words.headline(made)), ""]
    if rows:
        lines += [*aligned(header, rows, range(max(len(made.keys), 1) + 2)), ""]
    lines += [*rest_sentences(made), "", *condition_sentences(made)]
    lines += ["", repr(overview(made)), ""]
    lines += [
        f"{name}: {printable(sentence)}" for name, sentence in decision_words.statements(made)
    ]
    steps = steps_info_table(made)
    if steps is not None:
        lines += ["", repr(steps)]
    return "\n".join([*lines, "", *map(printable, cost_sentences(made))])


def condition_sentences(made: Decision) -> list[str]:
    """Return each condition with its thresholds."""
    if not made.readings:
        return [printable(test.text) for test in made.tests]
    return [printable(f"{test.text}: {threshold_sentence(made, test)}") for test in made.tests]


def decision_markdown(made: Decision) -> str:
    """Return the groups that are selected or in doubt as a Markdown table, with the statements."""
    header, rows = decision_cells(made)
    paragraphs = [*map(strong, stamps_of(made)), strong(decision_words.headline(made))]
    if rows:
        paragraphs.append(markdown_table(header, rows, range(max(len(made.keys), 1) + 2)))
    paragraphs += map(markdown, [*rest_sentences(made), *condition_sentences(made)])
    errors = overview(made)
    paragraphs.append(markdown_table(list(errors.header), list(map(list, errors.rows)), range(4)))
    paragraphs += [
        f"{strong(name)}: {markdown(sentence)}"
        for name, sentence in decision_words.statements(made)
    ]
    return "\n\n".join([*paragraphs, *map(markdown, cost_sentences(made))])


# HTML


def decision_html(made: Decision, token: str = "") -> str:
    """Return a decision as tables that need no script.

    Parameters
    ----------
    made : Decision
    token : str
        Names the live widget that this HTML accompanies. While the widget is alive, the HTML is
        folded to one line.
    """
    state = {"data": decision_data(made), **START}
    script = elements.script("decision.js", state, token)
    return elements.framed(f"<style>{decision_css()}</style>{decision_body(made)}{script}")


START: dict[str, Any] = {"condition": 0, "show": "all", "at": 6}
"""Initial state of a view: the first condition, all groups, unchanged uncertain regions."""


def decision_data(made: Decision) -> dict[str, Any]:
    """Return the script's data: the conditions, and the effect of other uncertain regions.

    Returns
    -------
    dict
        ``tests``: the drawn conditions; ``offers``: pairs of a multiple of the uncertain regions
        and its effect, as texts.
    """
    conditions = made.tests[:MAX_LINES] if made.readings else ()
    return {"tests": [printable(test.text) for test in conditions], "offers": offers(made)}


@cache
def decision_css() -> str:
    """Return the styles of decisions, which add to those of every result."""
    return (elements.STATIC / "decision.css").read_text(encoding="utf-8")


def decision_body(made: Decision) -> str:
    """Return a decision without styles and scripts."""
    steps = steps_info_table(made)
    return (
        f'<div class="dpnb-body dpnb-decide">{"".join(map(elements.boxed, stamps_of(made)))}'
        f"{elements.strong(decision_words.headline(made))}"
        f"{_groups(made)}{elements.notes(*rest_sentences(made))}{_lines(made)}{_errors(made)}"
        f"{info_table_element(steps, part=True) if steps else ''}{elements.notes(decision_words.cost_sentence(made))}{_ledger(made)}"
        f"{elements.notes(*after_sentences(made))}</div>"
    )


def _groups(made: Decision) -> str:
    """Return the table of the groups that are selected or in doubt; '' if there are none."""
    groups, readings = told_groups(made)[:MAX_ROWS], readings_of(made)
    if not groups:
        return ""
    axis = scale(readings[0], tuple(groups)) if len(readings) == 1 else None
    heads = "".join(map(elements.head, (*(made.keys or ("group",)), "selected")))
    heads += elements.head("verdict") if readings else ""
    for index, reading in enumerate(readings):
        if axis is not None:
            heads += aggregate_head(reading, index, percent(made.confidence), axis, alone=True)
        else:
            heads += elements.head(f"{reading.alias}, {percent(made.confidence)} interval")
    rows = "".join(_row(made, group, readings, axis) for group in groups)
    caption = elements.caption(f"{shown_name(made.table)}: groups with {made.condition}")
    return (
        f'<table class="dpnb-table">{caption}<thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _row(made: Decision, group: int, readings: Sequence[Intervals], axis: Any) -> str:
    verdict, left = made.verdicts[group], '<td style="text-align:left">'
    cells = "".join(
        elements.row_head(label_text(key)) for key in made.groups[group] or ("all rows",)
    )
    cells += f"{left}{selected_text(made, group)}</td>"
    if readings:
        cells += f"{left}{mark_html(verdict)} {made.verdict_text(group)}</td>"
    for index, reading in enumerate(readings):
        if axis is not None:
            marks = interval_marks(reading, group, axis)
            cells += aggregate_cells(reading, index, group, axis, drawn=marks, alone=True)
        else:
            cells += (
                f"{left}{reading.text(group)} "
                f'<span class="dpnb-effect">{reading.interval_text(group)}</span></td>'
            )
    return f'<tr data-verdict="{verdict}" data-chosen="{int(made.chosen[group])}">{cells}</tr>'


def _lines(made: Decision) -> str:
    """Return each condition with its number line."""
    if not made.readings:
        return elements.notes(*(f"Condition: {test.text}" for test in made.tests))
    number_lines = "".join(line_html(made, index) for index in range(len(made.tests[:MAX_LINES])))
    rest = condition_sentences(made)[MAX_LINES:]
    return f'<div class="dpnb-lines">{number_lines}{elements.notes(*rest)}{legend_html(made)}</div>'


def _errors(made: Decision) -> str:
    """Return which error is bounded, certified or estimated: in numbers, then in words."""
    definitions = "".join(
        f'<dt style="margin-top:8px"><strong>{elements.text(error)}</strong> '
        f'<span class="dpnb-kind dpnb-{kind}" style="border:{_BORDERS[kind]};padding:0 6px">'
        f"{elements.text(what)}</span></dt>"
        f'<dd style="margin-left:16px">{elements.text(text)}</dd>'
        for kind, (error, _, what), text in (
            (kind, name.partition(", "), text)
            for kind, (name, text) in zip(
                decision_words.kinds(made), decision_words.statements(made), strict=True
            )
        )
    )
    return f'<div class="dpnb-errors">{info_table_element(overview(made), part=True)}<dl>{definitions}</dl></div>'


def _ledger(made: Decision) -> str:
    """Return the budget as a bar: this decision, other spending, and what is left."""
    cap, charge = (loss.level(made.privacy) for loss in (made.cap, made.charged))
    left = made.remaining.level(made.privacy)
    legend = elements.notes(
        charged_sentence(made), "Filled: this decision. Striped: other requests."
    )
    if not cap:
        return legend
    return elements.meter(float(charge / cap), float((cap - left - charge) / cap)) + legend


# the plan


def plan_tables(price: DecisionPrice) -> list[InfoTable]:
    """Return a plan's conditions with their uncertain regions, and its costs by step, as tables."""
    bound = price.beta if price.protect == "fnr" else price.alpha
    name = "beta" if price.protect == "fnr" else "alpha"
    phase = " in phase one" if price.mode in TWO_PHASES else ""
    tables = [
        InfoTable(
            f"Plan (mode {price.mode}): {price.condition}, for {price.groups:,} groups",
            ("condition", "first uncertain region", f"share of the error bound {name} ({decision_words.rate(bound)}){phase}"),
            tuple((test.text, region_text(test), _share(test)) for test in price.tests),
        )
    ]  # fmt: skip
    if price.costs:
        rows = tuple(
            (str(step), loss_text(cost, price.privacy, None))
            for step, cost in enumerate(price.costs, start=1)
        )
        tables.append(InfoTable("Privacy cost by step", ("step", "total so far"), rows))
    return tables


def _share(test: Test) -> str:
    return decision_words.rate(test.share)


def ways_sentences(price: DecisionPrice) -> list[str]:
    """Return, in words, the smallest sets of conditions that make the whole condition true."""
    ways = [" and ".join(price.tests[i].text for i in implicant) for implicant in price.implicants]
    if not ways:
        return []
    if len(ways) == 1:
        return [f"The condition holds when {ways[0]}."] if len(price.tests) > 1 else []
    alternatives = "; or ".join(ways)
    return [
        f"The condition holds when {alternatives}. In each of these {len(ways)} ways, the shares of all "
        "steps add up to at most the bound."
    ]


def price_text(price: DecisionPrice) -> str:
    """Return a plan for a terminal."""
    lines = [line for table in plan_tables(price) for line in (repr(table), "")]
    above = [f"{stamp}\n" for stamp in stamps(price.stamp, False)]
    return "\n".join(
        [
            *above,
            *lines,
            *map(printable, [*ways_sentences(price), *decision_words.plan_sentences(price)]),
        ]
    )


def price_html(price: DecisionPrice) -> str:
    """Return a plan as tables with sentences below."""
    conditions, *costs = (
        info_table_element(table, part=place > 0) for place, table in enumerate(plan_tables(price))
    )
    details = f"{elements.notes(*ways_sentences(price))}{''.join(costs)}{elements.notes(*decision_words.plan_sentences(price))}"
    css = f"<style>{decision_css()}</style>"
    body = f"{elements.stamped(price.stamp, False)}{conditions}{details}"
    return elements.framed(f'{css}<div class="dpnb-body dpnb-decide">{body}</div>')


def _plot(made: Decision, ax: Axes | None) -> Axes:
    from dpnb.display.cards.decision_figure import plot_decision

    return plot_decision(made, ax)


def _widget(made: Decision, token: str = "") -> DecisionWidget:
    from dpnb.display.cards.decision_widget import DecisionWidget

    return DecisionWidget(made, token=token)


DECISION = Card(decision_text, decision_html, decision_markdown, _plot, _widget)
PRICE = Card(price_text, price_html)
