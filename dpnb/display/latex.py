"""A document as LaTeX: a ``tabular`` for each table, which needs no package."""

from __future__ import annotations

from dpnb.display.document import Document, Table
from dpnb.display.text import lines_of
from dpnb.display.writing import Language
from dpnb.errors import printable

_ESCAPED = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "<": r"\textless{}", ">": r"\textgreater{}", "∞": r"$\infty$", "|": r"\textbar{}",
    # at the start of a line they would belong to the line before
    "[": "{[}", "*": "{*}",
    **{one: "\\" + one for one in "&%$#_{}"},
}  # fmt: skip


def latex(value: str) -> str:
    """Return a text escaped for LaTeX."""
    return "".join(_ESCAPED.get(character, character) for character in printable(value))


def _tabular(table: Table) -> str:
    places = "".join("r" if column.end else "l" for column in table.columns)
    lines = [[column.head for column in table.columns], *lines_of(table)]
    head, *body = (" & ".join(map(latex, line)) + r" \\" for line in lines)
    return "\n".join([rf"\begin{{tabular}}{{{places}}}", head, r"\hline", *body, r"\end{tabular}"])


def _strong(value: str) -> str:
    return rf"\textbf{{{latex(value)}}}"


_LATEX = Language(latex, _strong, _tabular, "\n\n".join)


def document_latex(shown: Document) -> str:
    """Return a result as LaTeX."""
    return _LATEX.document(shown)
