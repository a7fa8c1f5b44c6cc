"""A document as LaTeX: a ``tabular`` for each table, which needs no package."""

from __future__ import annotations

from dpnb.display.document import Document, Facts, Note, Table, Track, Words, plain
from dpnb.display.text import lines_of
from dpnb.errors import printable

_ESCAPED = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "<": r"\textless{}", ">": r"\textgreater{}", "∞": r"$\infty$", "|": r"\textbar{}",
    **{one: "\\" + one for one in "&%$#_{}"},
}  # fmt: skip


def latex(value: str) -> str:
    """Return a text escaped for LaTeX."""
    return "".join(_ESCAPED.get(character, character) for character in printable(value))


def document_latex(shown: Document) -> str:
    """Return a result as LaTeX."""
    blocks = [rf"\textbf{{{latex(banner.text)}}}" for banner in shown.banners]
    blocks += [latex(shown.kind), rf"\textbf{{{latex(plain(shown.title))}}}"]
    blocks += [_sentence(one.words) for one in shown.findings]
    for part in shown.parts:
        match part:
            case Table():
                blocks += [latex(part.name), _tabular(part)]
            case Facts():
                blocks += [f"{latex(name)}: {_sentence(said)}" for name, said in part.pairs]
            case Track() | Note():
                blocks.append(_sentence(part.words))
    foot = shown.foot
    sentences = () if foot is None else (foot.cost, foot.left.words, foot.sure)
    blocks += [_sentence(one) for one in (*sentences, *shown.fine)]
    return "\n\n".join(block for block in blocks if block)


def _tabular(table: Table) -> str:
    places = "".join("r" if column.end else "l" for column in table.columns)
    lines = [[column.head for column in table.columns], *lines_of(table)]
    head, *body = (" & ".join(map(latex, line)) + r" \\" for line in lines)
    return "\n".join([rf"\begin{{tabular}}{{{places}}}", head, r"\hline", *body, r"\end{tabular}"])


def _sentence(words: Words) -> str:
    return "".join(
        rf"\textbf{{{latex(span.text)}}}" if span.style == "strong" else latex(span.text)
        for span in words
    )
