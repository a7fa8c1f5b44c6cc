"""The parts of the provenance table as HTML tables; text is escaped here.

Each table works without scripts and styles. A line under the number in a cell shows its share of
the limit; styles add a tint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpnb.display import elements
from dpnb.display.cards.provenance_words import (
    MAX_COLUMNS,
    RULES,
    TOGETHER,
    Coalition,
    Head,
    Line,
    cell,
    coalitions,
    heads,
    known_of,
    lines,
    more,
    more_rules,
    rounds_down,
    rule_lines,
    share,
    share_text,
)
from dpnb.display.marks import GREY
from dpnb.display.text import MAX_ROWS
from dpnb.ledger.accounts import OWNER
from dpnb.ledger.mechanism import NONE
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.results import format_time

if TYPE_CHECKING:
    from dpnb.owner.report import Provenance, Row

MOST_LISTED = 300
"""Most columns and charges listed in full below the tables."""
_LONG = 14
"""Names with more characters than this get a wide column."""
_LEFT, _RIGHT = "text-align:left", "text-align:right"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit for privacy losses: its name, the conversion of a loss, and whether the ledger's own."""

    name: str
    of: Callable[[PrivacyLoss], float]
    own: bool = True

    def text(self, loss: PrivacyLoss, *, limit: bool = False) -> str:
        """Return a loss as an amount; a limit is rounded as in :func:`dpnb.formats.loss_text`."""
        return amount_text(self.of(loss), left=limit and self.own)

    def share(self, loss: PrivacyLoss, limit: PrivacyLoss) -> float:
        """Return a loss as a share of a limit; if the limit is 0, a positive loss gives 1."""
        level, most = self.of(loss), self.of(limit)
        return level / most if most else float(level > 0)


def units(provenance: Provenance) -> list[Unit]:
    """Return the ledger's own unit, and also epsilon if the ledger counts rho and has a delta."""
    privacy, delta = provenance.privacy, provenance.delta
    choices = [Unit(privacy.parameter, lambda loss: float(loss.level(privacy)))]
    if privacy.counts_rho and delta is not None:
        choices.append(
            Unit(
                "epsilon", lambda loss: loss.epsilon_at(delta, privacy) if loss.rho else 0.0, False
            )
        )
    return choices


def analysts(provenance: Provenance) -> str:
    """Return limit, spent, left and answers: a line for each account, and all together below."""
    unit, *others = units(provenance)
    beside = (
        f" (ε: epsilon at delta {amount_text(provenance.delta)})"
        if provenance.delta and others
        else ""
    )
    titles = ("analyst", "privilege", "spent", "of the limit", "limit", "left", "answers")
    body = "".join(
        _analyst(provenance, line) for line in lines(provenance)[:MAX_ROWS] if line.row is not None
    )
    body += "".join(
        _together(provenance, line.label, line.known, cap=False)
        for line in lines(provenance)
        if line.row is None
    )
    hidden = more(len(provenance.rows), MAX_ROWS, "analysts")
    foot = _together(provenance, TOGETHER, provenance.spent, cap=True)
    caption = elements.caption(f"Analysts, in {unit.name}{beside}", part=True)
    return (
        f'<table class="dpnb-table dpnb-prov-rows">{caption}<thead><tr>{_titles(titles)}</tr></thead>'
        f"<tbody>{body}</tbody><tfoot>{foot}</tfoot></table>{elements.notes(*hidden)}"
    )


def heat_map(provenance: Provenance, shown: Unit | None = None) -> str:
    """Return a table of releases by analyst and column, which scrolls sideways."""
    columns = heads(provenance)
    if not columns:
        return ""
    shown = shown or units(provenance)[0]
    groups = [[column] for column in columns[:MAX_COLUMNS]]
    if len(columns) > MAX_COLUMNS:
        groups.append(columns[MAX_COLUMNS:])
    top = "".join(_column_head(group) for group in groups)
    body = "".join(
        _heat_row(provenance, line, groups, shown) for line in lines(provenance)[:MAX_ROWS]
    )
    foot = _heat_foot(provenance, groups, shown)
    name = f"Released, by view and analyst, in {shown.name}"
    total_head = '<th scope="col" style="text-align:right">total</th>'
    return (
        f'<div class="dpnb-scroll" role="group" tabindex="0" data-lm-suppress-shortcuts="true" '
        f'aria-label="{elements.text(name)}" style="overflow-x:auto">'
        f'<table class="dpnb-table dpnb-prov-heat">{elements.caption(name, part=True)}'
        f'<thead><tr><th scope="col" style="{_LEFT}">analyst</th>{total_head}{top}</tr></thead>'
        f"<tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def heat_note(provenance: Provenance, shown: Unit) -> str:
    """Return a note on how to read the cells."""
    adds = "" if shown.name == provenance.privacy.parameter else " Epsilons do not add up."
    return (
        f"Shade and line: the share of the analyst's limit; for {TOGETHER}, of the view's limit or the "
        f"total budget. Columns with most released come first.{adds}"
    )


def column_list(provenance: Provenance) -> str:
    """Return all columns in full, with what was released to whom, in a collapsible section."""
    columns = heads(provenance)
    if not columns:
        return ""
    unit = units(provenance)[0]
    labels = {line.name: line.label for line in lines(provenance)}
    recipients: dict[str, list[str]] = {}
    for (row, column), loss in provenance.cells.items():
        recipients.setdefault(column, []).append(f"{labels.get(row, row)} {unit.text(loss)}")
    rows = [
        (str(head.number), head.kind, head.name, unit.text(head.column.known),
         "total budget" if head.column.limit is None else unit.text(head.column.limit),
         ", ".join(recipients.get(head.column.id, ["nobody"])))
        for head in columns[:MOST_LISTED]
    ]  # fmt: skip
    titles = ("", "kind", "column", "released", "limit", "released to")
    hidden = [
        f"{len(columns) - MOST_LISTED:,} more columns: see to_frame(cells=True)."
        for _ in range(len(columns) > MOST_LISTED)
    ]
    listing = _listed(f"In {unit.name}, largest first", titles, rows, (3, 4))
    return elements.opened(
        f"All {len(columns):,} columns in full", listing + elements.notes(*hidden)
    )


def charge_list(provenance: Provenance) -> str:
    """Return the charges, newest first, in a collapsible section."""
    unit = units(provenance)[0]
    total, rows = NONE, []
    for charge in provenance.timeline:
        total = total + charge.table
        name = "you" if charge.row == OWNER else charge.row
        rows.append(
            (
                format_time(charge.time),
                name,
                unit.text(charge.own),
                unit.text(charge.table),
                unit.text(total),
            )
        )
    if not rows:
        return ""
    titles = ("UTC", "analyst", "added to the analyst", "added to the total", "total")
    hidden = [
        f"{len(rows) - MOST_LISTED:,} older charges: see to_dict()."
        for _ in range(len(rows) > MOST_LISTED)
    ]
    listing = _listed(
        f"In {unit.name}, newest first", titles, rows[::-1][:MOST_LISTED], (2, 3, 4)
    )  # fmt: skip
    return elements.opened("The charges as a table", listing + elements.notes(*hidden))


def rule_list(provenance: Provenance) -> str:
    """Return the owner's decisions in a collapsible section; '' if there are none."""
    rows = rule_lines(provenance, MOST_LISTED)
    if not rows:
        return ""
    listing = _listed("Oldest first", ("UTC", "kind", "rule"), rows, ())
    return elements.opened(RULES, listing + elements.notes(*more_rules(provenance, MOST_LISTED)))


def coalition_table(provenance: Provenance) -> str:
    """Return a table of what was released to analysts together; '' if there is only one."""
    groups = coalitions(provenance)
    body = "".join(_coalition(provenance, coalition) for coalition in groups)
    if not groups:
        return ""
    heading = _titles(("who", "released, at most", "of the total budget"))
    return (
        f'<table class="dpnb-table dpnb-prov-groups">{elements.caption("Released to them together", part=True)}'
        f"<thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"
    )


def _titles(titles: Iterable[str]) -> str:
    words = {"analyst", "who", "of the limit", "of the total budget"}
    return "".join(
        f'<th scope="col" style="{_LEFT if title in words else _RIGHT}">{title}</th>'
        for title in titles
    )


def _amount(
    provenance: Provenance, loss: PrivacyLoss, *, left: bool = False, limit: bool = False
) -> str:
    """Return a loss in the ledger's unit, with the corresponding epsilon below, as `loss_text`."""
    unit, *others = units(provenance)
    epsilon = f"ε {amount_text(others[0].of(loss), left=left)}" if others and loss.rho else ""
    return amount_text(unit.of(loss), left=left or limit) + _small(epsilon)


def _small(value: str) -> str:
    if not value:
        return ""
    return f'<span class="dpnb-unit" style="display:block;font-weight:normal">{elements.text(value)}</span>'


def _analyst(provenance: Provenance, line: Line) -> str:
    row: Row = line.row  # type: ignore[assignment]
    name = elements.text(row.name)
    if not row.active:
        name += ' <span class="dpnb-prov-off">✗ disabled</span>'
    release_note = ""
    if row.spent != row.known:
        unit = units(provenance)[0]
        release_note = _small(f"released {amount_text(unit.of(row.known))}")
    part = share(provenance, row.spent, row.limit)
    word = (
        "✗ used up"
        if row.remaining.level(provenance.privacy) == 0
        else share_text(provenance, row.spent, row.limit)
    )
    cells = (
        ("privilege", str(row.privilege)),
        ("spent", _amount(provenance, row.spent) + release_note),
        ("of the limit", elements.meter(part) + f"<span>{word}</span>"),
        ("limit", _amount(provenance, row.limit, limit=rounds_down(provenance, row.remaining))),
        ("left", _amount(provenance, row.remaining, left=True)),
        ("answers", f"{row.answered:,}"),
    )
    off = "" if row.active else ' class="dpnb-prov-gone"'
    return f'<tr{off}><th scope="row" style="{_LEFT};font-weight:normal">{name}</th>{_cells(cells)}</tr>'


def _together(provenance: Provenance, label: str, loss: PrivacyLoss, *, cap: bool) -> str:
    """Return the line for all together, or for what the owner released."""
    part = share(provenance, loss, provenance.cap)
    word = share_text(provenance, loss, provenance.cap)
    some = rounds_down(provenance, provenance.remaining)
    releases = sum(charge.row == OWNER for charge in provenance.timeline)
    answered = sum(row.answered for row in provenance.rows) if cap else releases
    cells = (
        ("privilege", ""),
        ("spent", _amount(provenance, loss)),
        ("of the total budget", elements.meter(part) + f"<span>{word}</span>"),
        ("limit", _amount(provenance, provenance.cap, limit=some) if cap else ""),
        ("left", _amount(provenance, provenance.remaining, left=True) if cap else ""),
        ("answers", f"{answered:,}"),
    )
    weight = "bold" if cap else "normal"
    return (
        f'<tr><th scope="row" style="{_LEFT};font-weight:{weight}">{elements.text(label)}</th>'
        f"{_cells(cells)}</tr>"
    )


def _cells(cells: Iterable[tuple[str, str]]) -> str:
    """Return cells that carry their column heads, for narrow pages."""
    return "".join(
        f'<td data-head="{head}" style="{_LEFT if head.startswith("of ") else _RIGHT}">{content}</td>'
        for head, content in cells
    )


def _column_head(group: Sequence[Head]) -> str:
    first = group[0]
    if len(group) > 1:
        kind, name, full = "", f"and {len(group):,} more, at most", "See the list of all columns."
    else:
        kind, name, full = first.kind, first.short, first.name
    long = ' class="dpnb-prov-long"' if len(name) > _LONG else ""
    return (
        f'<th scope="col"{long} style="{_RIGHT};vertical-align:bottom" title="{elements.text(full)}">'
        f"{_small(kind)}<span>{elements.text(name)}</span></th>"
    )


def _heat_cell(shown: Unit, loss: PrivacyLoss, limit: PrivacyLoss) -> str:
    if loss == NONE:
        return f'<td class="dpnb-few" style="{_RIGHT}">0</td>'
    part = 100 * min(1.0, shown.share(loss, limit))
    line = (
        f"background:linear-gradient(to right,{GREY} {part:.1f}%,transparent {part:.1f}%) "
        f"no-repeat 0 100%;background-size:100% 3px;--dpnb-share:{part:.1f}"
    )
    return f'<td class="dpnb-heat" style="{_RIGHT};{line}">{shown.text(loss)}</td>'


def _heat_row(
    provenance: Provenance, line: Line, groups: Sequence[Sequence[Head]], shown: Unit
) -> str:
    cells = "".join(
        _heat_cell(shown, cell(provenance, line.name, group), line.limit) for group in groups
    )
    total_cell = _heat_cell(shown, line.known, line.limit)
    return f"<tr>{elements.row_head(line.label)}{total_cell}{cells}</tr>"


def _heat_foot(provenance: Provenance, groups: Sequence[Sequence[Head]], shown: Unit) -> str:
    """Return the line for all together, and a line of limits if any column has one."""
    limits = [group[0].column.limit if len(group) == 1 else None for group in groups]
    cells = "".join(
        _heat_cell(shown, known_of(group), limit or provenance.cap)
        for group, limit in zip(groups, limits, strict=True)
    )
    total_cell = _heat_cell(shown, provenance.spent, provenance.cap)
    foot = f"<tr>{_strong(TOGETHER)}{total_cell}{cells}</tr>"
    if not any(limits):
        return foot
    limit_cells = "".join(
        f'<td style="{_RIGHT}">{"total budget" if limit is None else shown.text(limit, limit=True)}</td>'
        for limit in limits
    )
    some = rounds_down(provenance, provenance.remaining)
    cap = f'<td style="{_RIGHT}">{shown.text(provenance.cap, limit=some)}</td>'
    return f"{foot}<tr>{_strong('limit')}{cap}{limit_cells}</tr>"


def _strong(name: str) -> str:
    return f'<th scope="row" style="{_LEFT};font-weight:bold">{name}</th>'


def _coalition(provenance: Provenance, coalition: Coalition) -> str:
    part = share(provenance, coalition.known, provenance.cap)
    word = share_text(provenance, coalition.known, provenance.cap)
    bar = f'<td data-head="of the total budget" style="{_LEFT}">{elements.meter(part)}<span>{word}</span></td>'
    amount = f'<td data-head="released, at most" style="{_RIGHT}">{_amount(provenance, coalition.known)}</td>'
    return f"<tr>{elements.row_head(coalition.label)}{amount}{bar}</tr>"


def _listed(
    caption: str, titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]
) -> str:
    sides = [_RIGHT if i in numbers else _LEFT for i in range(len(titles))]
    top = "".join(
        f'<th scope="col" style="{side}">{title}</th>' if title else "<td></td>"
        for title, side in zip(titles, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{side}">{elements.text(value)}</td>'
            for value, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        '<div class="dpnb-scroll" role="group" tabindex="0" data-lm-suppress-shortcuts="true" '
        f'aria-label="{caption}" style="overflow-x:auto">'
        f'<table class="dpnb-table dpnb-listing">{elements.caption(caption, part=True)}'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )
