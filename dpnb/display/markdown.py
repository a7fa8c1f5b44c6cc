"""A document as Markdown."""

from __future__ import annotations

from dpnb.display.document import Document, Table
from dpnb.display.text import lines_of, markdown, markdown_table, strong
from dpnb.display.writing import Language


def _table(table: Table) -> str:
    left = [place for place, column in enumerate(table.columns) if not column.end]
    return markdown_table([column.head for column in table.columns], lines_of(table), left)


_MARKDOWN = Language(markdown, strong, _table, lambda lines: "\n".join(f"- {one}" for one in lines))


def document_markdown(shown: Document) -> str:
    """Return a result as Markdown."""
    return _MARKDOWN.document(shown)
