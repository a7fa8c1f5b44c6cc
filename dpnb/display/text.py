"""Results as plain text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.answers.words import rest_sentence
from dpnb.errors import printable
from dpnb.formats import percent
from dpnb.privacy.loss import PICKED
from dpnb.private import STAMPS, Stamp

if TYPE_CHECKING:
    from collections.abc import Container

    from dpnb.answers.answer import Answer
    from dpnb.answers.listing import Listing
    from dpnb.answers.question import Question
    from dpnb.explain.explanation import Explanation

MAX_ROWS = 40
"""Rows shown before the rest is only counted; ``to_frame`` has them all."""
NOT_PRIVATE = STAMPS["test"]
EXACT = "Exact values: as secret as the data."
"""Stands on what the owner of a sensitive table asked to see."""
CONDITIONAL = f"DATA-DEPENDENT: {PICKED}."

_MOST_WIDTH = 160
"""Letters in a line of a listing."""
_LEAST_WIDTH = 20


def stamps(stamp: Stamp, conditional: bool) -> list[str]:
    """Return what stands in strong lines at the top of a result, the same in every rendering."""
    marks = (STAMPS[stamp], CONDITIONAL if conditional else "")
    return [mark for mark in marks if mark]


def table_cells(answer: Answer) -> tuple[list[str], list[list[str]]]:
    """Return header and shown rows of an answer as texts."""
    header = list(answer.keys)
    for found in answer.estimates:
        header += [found.alias, f"{percent(answer.confidence)} interval"]
    rows = []
    for row in answer.rows[:MAX_ROWS]:
        cells = [str(value) for value in answer.groups[row]]
        for found in answer.estimates:
            cells += [found.text(row), found.interval_text(row)]
        rows.append(cells)
    return header, rows


def sentences(answer: Answer) -> list[str]:
    """Return what is said about an answer, the same in every rendering."""
    said = [
        answer.interval_sentence(), answer.cost_sentence(), answer.origin_sentence(), answer.note(),
    ]  # fmt: skip
    more = rest_sentence(len(answer.rows) - MAX_ROWS)
    return [sentence for sentence in (more, *said) if sentence]


def aligned(header: list[str], rows: list[list[str]], left: Container[int]) -> list[str]:
    """Return the lines of a table in columns; those in ``left`` start at the left."""
    lines = [[printable(cell) for cell in line] for line in [header, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def question_text(question: Question) -> str:
    """Return a question's verdict for a terminal."""
    return " ".join([*stamps(question.stamp, question.conditional), printable(question.sentence)])


def answer_text(answer: Answer) -> str:
    """Return an answer for a terminal."""
    header, rows = table_cells(answer)
    above = [f"{stamp}\n" for stamp in stamps(answer.stamp, answer.conditional)]
    grid = aligned(header, rows, range(len(answer.keys)))
    return "\n".join([*above, *grid, "", *sentences(answer)])


def answer_markdown(answer: Answer) -> str:
    """Return an answer as a Markdown table, its sentences below."""
    header, rows = table_cells(answer)
    table = markdown_table(header, rows, range(len(answer.keys)))
    above = map(strong, stamps(answer.stamp, answer.conditional))
    return "\n\n".join([*above, table, *map(markdown, sentences(answer))])


def explanation_cells(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    """Return header and shown rows of an explanation as texts."""
    rows = [
        [row.predicate, explanation.influence_text(row), explanation.rank_text(row),
         explanation.effect_text(row)]
        for row in explanation.rows[:MAX_ROWS]
    ]  # fmt: skip
    return ["predicate", "influence", "rank", "effect"], rows


def more_rows(explanation: Explanation) -> str:
    """Return how many rows are not shown; empty when all are."""
    return rest_sentence(len(explanation.rows) - MAX_ROWS, "rows")


def explanation_sentences(explanation: Explanation) -> list[str]:
    """Return what is said below an explanation, the same in every rendering."""
    said = (more_rows(explanation), *explanation.sentences())
    return [sentence for sentence in said if sentence]


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation for a terminal: the verdict, the table, and what it means."""
    above = [f"{stamp}\n" for stamp in stamps(explanation.stamp, explanation.conditional)]
    above += [printable(explanation.title), printable(explanation.question.sentence), ""]
    grid = aligned(*explanation_cells(explanation), (0, 3))
    return "\n".join([*above, *grid, "", *map(printable, explanation_sentences(explanation))])


def explanation_markdown(explanation: Explanation) -> str:
    """Return an explanation as a Markdown table, its verdict above and its sentences below."""
    stamped = stamps(explanation.stamp, explanation.conditional)
    above = [*map(strong, [*stamped, explanation.title]), markdown(explanation.question.sentence)]
    table = markdown_table(*explanation_cells(explanation), (0, 3))
    said = map(markdown, explanation_sentences(explanation))
    return "\n\n".join([*above, table, *said])


def markdown_table(header: list[str], rows: list[list[str]], left: Container[int]) -> str:
    """Return a table in Markdown; columns in ``left`` start at the left."""
    rule = [":--" if i in left else "--:" for i in range(len(header))]
    lines = [[markdown(cell) for cell in line] for line in [header, *rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def markdown(value: str) -> str:
    """Return a text as Markdown that reads as that text."""
    escaped = printable(value).replace("&", "&amp;").replace("<", "&lt;")
    for character in "\\`*_[]|$!#":
        escaped = escaped.replace(character, "\\" + character)
    return escaped


def strong(value: str) -> str:
    """Return a text as strong Markdown."""
    return f"**{markdown(value)}**"


def listing_text(listing: Listing) -> str:
    """Return a listing for a terminal."""
    above = [f"{stamp}\n" for stamp in stamps(listing.stamp, False)]
    lines = [*above, printable(listing.caption)]
    if listing.rows:
        rows = [[" ".join(cell.split()) for cell in row] for row in listing.rows]
        rows = _narrowed(list(listing.header), rows)
        grid = aligned(list(listing.header), rows, range(len(listing.header)))
        lines += ["", *(_cut(line, _MOST_WIDTH) for line in grid)]
    if listing.notes:
        lines += ["", *map(printable, listing.notes)]
    return "\n".join(lines)


def _narrowed(header: list[str], rows: list[list[str]]) -> list[list[str]]:
    """Return rows with the widest column cut, so that no other one is pushed over the edge."""
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
