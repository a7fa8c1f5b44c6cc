"""A document as Markdown."""

from __future__ import annotations

from dpnb.display.document import Document, Facts, Note, Table, Track, Words, plain
from dpnb.display.text import lines_of, markdown, markdown_table, strong


def document_markdown(shown: Document) -> str:
    """Return a result as Markdown."""
    blocks = [*(strong(banner.text) for banner in shown.banners), markdown(shown.kind)]
    blocks.append(strong(plain(shown.title)))
    blocks.append("\n".join(f"- {_sentence(one.words)}" for one in shown.findings))
    for part in shown.parts:
        match part:
            case Table():
                header = [column.head for column in part.columns]
                left = [place for place, column in enumerate(part.columns) if not column.end]
                blocks += [markdown(part.name), markdown_table(header, lines_of(part), left)]
            case Facts():
                pairs = (f"- {markdown(name)}: {_sentence(said)}" for name, said in part.pairs)
                blocks.append("\n".join(pairs))
            case Track() | Note():
                blocks.append(_sentence(part.words))
    foot = shown.foot
    sentences = () if foot is None else (foot.cost, foot.left.words, foot.sure)
    blocks += [_sentence(one) for one in (*sentences, *shown.fine)]
    return "\n\n".join(block for block in blocks if block)


def _sentence(words: Words) -> str:
    return "".join(
        strong(span.text) if span.style == "strong" else markdown(span.text) for span in words
    )
