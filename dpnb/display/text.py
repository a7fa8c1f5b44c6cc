"""Results as plain text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.display.document import Document, Facts, Note, Table, Track, plain
from dpnb.errors import printable
from dpnb.formats import label_text
from dpnb.privacy.loss import PICKED
from dpnb.private import STAMPS, Stamp

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from dpnb.answers.answer import Answer
    from dpnb.answers.inference import Inference
    from dpnb.answers.postprocessing import ShownTable
    from dpnb.estimation.estimates import Intervals


SHORT = 18
"""Longest text of a cell that stays on one line, in characters."""
MAX_ROWS = 40
"""Most table lines shown; the rest is only counted, and ``to_frame`` has them all."""
NOT_PRIVATE = STAMPS["test"]
EXACT = "Exact values: as secret as the data."
"""Stamp of exact values that the owner of a sensitive table asked to see."""
CONDITIONAL = f"DATA-DEPENDENT: {PICKED}."

_MOST_WIDTH = 160
"""Longest table line, in characters."""
_LEAST_WIDTH = 20


def stamps(stamp: Stamp, conditional: bool) -> list[str]:
    """Return the stamps at the top of a result, the same in every rendering."""
    marks = (STAMPS[stamp], CONDITIONAL if conditional else "")
    return [mark for mark in marks if mark]


def document_text(shown: Document) -> str:
    """Return a result for a terminal."""
    blocks = [printable(banner.text) for banner in shown.banners]
    heads = [
        printable(shown.kind),
        plain(shown.title),
        *(plain(one.words) for one in shown.findings),
    ]
    blocks.append("\n".join(head for head in heads if head))
    for part in shown.parts:
        match part:
            case Table():
                blocks.append("\n".join(_table_lines(part)))
            case Facts():
                names = max((len(name) for name, _ in part.pairs), default=0)
                lines = (
                    f"{printable(name).ljust(names)}  {plain(said)}" for name, said in part.pairs
                )
                blocks.append("\n".join(lines))
            case Track() | Note():
                blocks.append(plain(part.words))
    foot = shown.foot
    sentences = [] if foot is None else [foot.cost, foot.left.words, foot.sure]
    strip = " ".join(f"{plain(one).removesuffix('.')}." for one in sentences if one)
    below = [*([strip] if strip else []), *map(plain, shown.fine)]
    return "\n\n".join([*blocks, *(["\n".join(below)] if below else [])])


def _table_lines(table: Table) -> list[str]:
    header = [column.head for column in table.columns]
    rows = lines_of(table)
    left = [place for place, column in enumerate(table.columns) if not column.end]
    grid = aligned(header, _narrowed(header, rows), left)
    named = [printable(table.name)] if table.name else []
    return [*named, *(_cut(line, _MOST_WIDTH) for line in grid)]


def lines_of(table: Table) -> list[list[str]]:
    """Return the lines of a table, each with a text on one line for each column."""
    rows = zip(*(column.values for column in table.columns), strict=True)
    return [[" ".join(cell.split()) for cell in row] for row in rows]


def group_cells(
    result: Answer | Inference | ShownTable, found: Sequence[Intervals], sure: str
) -> tuple[list[str], list[list[str]]]:
    """Return the header and the shown lines of values by group as texts, with their intervals."""
    header = list(result.keys)
    for aggregate in found:
        header += [aggregate.alias, f"{sure} interval"]
    rows = []
    for row in result.rows[:MAX_ROWS]:
        cells = [label_text(value) for value in result.groups[row]]
        for aggregate in found:
            cells += [aggregate.text(row), aggregate.interval_text(row)]
        rows.append(cells)
    return header, rows


def aligned(header: list[str], rows: list[list[str]], left: Container[int]) -> list[str]:
    """Return the lines of a table in columns; columns in ``left`` are left-aligned."""
    lines = [[printable(cell) for cell in line] for line in [header, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def markdown_table(header: list[str], rows: list[list[str]], left: Container[int]) -> str:
    """Return a table in Markdown; columns in ``left`` are left-aligned."""
    rule = [":--" if i in left else "--:" for i in range(len(header))]
    lines = [[markdown(cell) for cell in line] for line in [header, *rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def markdown(value: str) -> str:
    """Return a text escaped for Markdown."""
    escaped = printable(value).replace("&", "&amp;").replace("<", "&lt;")
    for character in "\\`*_[]|$!#":
        escaped = escaped.replace(character, "\\" + character)
    return escaped


def strong(value: str) -> str:
    """Return a text as bold Markdown."""
    return f"**{markdown(value)}**"


def _narrowed(header: list[str], rows: list[list[str]]) -> list[list[str]]:
    """Return lines with the widest column cut, so that the others fit into the line."""
    widths = [max(len(printable(line[i])) for line in [header, *rows]) for i in range(len(header))]
    over = sum(widths) + 2 * (len(widths) - 1) - _MOST_WIDTH
    if over <= 0:
        return rows
    widest = widths.index(max(widths))
    width = max(widths[widest] - over, len(header[widest]), _LEAST_WIDTH)
    return [
        [_cut(cell, width) if i == widest else cell for i, cell in enumerate(row)] for row in rows
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
