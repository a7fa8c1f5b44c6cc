"""The table of functions in docs/sql.md, from the reader's own list.

python -m tests.kit.functions       writes it anew
"""

from __future__ import annotations

import re
from pathlib import Path

from dpnb.sql.functions import WRITTEN

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
_TABLE = re.compile(r"(?<=\n\| about \| write \|\n\|---\|---\|\n)(\|.*\n)+")
CONSTANTS = {
    "any column": "'a'",
    "booleans": "TRUE",
    "numbers": "2",
    "texts": "'a'",
    "dates": "'2024-01-31'",
    "times": "'2024-01-31 08:00'",
}


def example(text: str, subject: str) -> str:
    """Return an example with a constant in it."""
    return text.replace(":value", CONSTANTS[subject])


def table() -> str:
    """Return the lines of the table."""
    rows = []
    for subject, texts in WRITTEN.items():
        shown = [example(text, subject).replace("|", "\\|") for text in texts]
        subject += " (and those of dates)" if subject == "times" else ""
        rows.append(f"| {subject} | {', '.join(f'`{text}`' for text in shown)} |\n")
    return "".join(rows)


def page(text: str) -> str:
    """Return the page with the table as it should be."""
    return _TABLE.sub(lambda _: table(), text, count=1)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
