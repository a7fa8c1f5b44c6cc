"""Results as plain text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpnb.answers.answer import Answer
    from dpnb.answers.listing import Listing

MAX_ROWS = 40
"""Rows shown before the rest is only counted; ``to_frame`` has them all."""
NOT_PRIVATE = "NOT PRIVATE: made with test noise."


def table_cells(answer: Answer) -> tuple[list[str], list[list[str]]]:
    """Return header and shown rows of an answer as texts."""
    header = list(answer.keys)
    for found in answer.estimates:
        header += [found.alias, "interval"]
    rows = []
    for row in answer.rows[:MAX_ROWS]:
        cells = [str(value) for value in answer.groups[row]]
        for found in answer.estimates:
            cells += [found.text(row), found.interval_text(row)]
        rows.append(cells)
    return header, rows


def sentences(answer: Answer) -> list[str]:
    """Return what is said about an answer, the same in every rendering."""
    said = [answer.interval_sentence(), answer.cost_sentence(), answer.note()]
    hidden = len(answer.rows) - MAX_ROWS
    if hidden > 0:
        said.insert(0, f"{hidden:,} more rows: see to_frame().")
    if not answer.private:
        said.insert(0, NOT_PRIVATE)
    return [sentence for sentence in said if sentence]


def plain(value: str) -> str:
    """Control characters would move the terminal's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value)


def _grid(header: list[str], rows: list[list[str]], keys: int) -> list[str]:
    lines = [[plain(cell) for cell in line] for line in [header, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if i < keys else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def answer_text(answer: Answer) -> str:
    """Return an answer for a terminal."""
    header, rows = table_cells(answer)
    return "\n".join([*_grid(header, rows, len(answer.keys)), "", *sentences(answer)])


def answer_markdown(answer: Answer) -> str:
    """Return an answer as a Markdown table, its sentences below."""
    header, rows = table_cells(answer)
    keys = len(answer.keys)
    rule = [":--" if i < keys else "--:" for i in range(len(header))]
    lines = [header, rule, *rows]
    table = "\n".join(f"| {' | '.join(_markdown(cell) for cell in line)} |" for line in lines)
    return "\n\n".join([table, *(_markdown(sentence) for sentence in sentences(answer))])


def _markdown(value: str) -> str:
    escaped = plain(value).replace("&", "&amp;").replace("<", "&lt;")
    for character in "\\`*_[]|$!#":
        escaped = escaped.replace(character, "\\" + character)
    return escaped


def listing_text(listing: Listing) -> str:
    """Return a listing for a terminal."""
    rows = [[" ".join(cell.split()) for cell in row] for row in listing.rows]
    grid = _grid(list(listing.header), rows, 1)
    if any(len(line) > 160 for line in grid):
        grid = [line if len(line) <= 160 else line[:157] + "..." for line in grid]
    return "\n".join([listing.caption, "", *grid])
