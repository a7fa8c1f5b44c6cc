"""Prose in Markdown files and notebooks: its sentences, how long they are, its links, the time it takes.

``python -m tests.kit.prose [FILE ...]`` prints the mean length and the longest sentences of each file, and how long a
notebook takes; without a file, of all that a reader meets.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATTERNS = ("*.md", "docs/**/*.md", "notebooks/*.ipynb")
_NOT_PROSE = re.compile(r"^\s*(#|\||<|!\[|>\s*\||\$\$|---|-----)")
_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
# an abbreviation or a decimal point does not end a sentence
_END = re.compile(r"(?<=[.!?])[\"')*_`]*\s+(?=[\"'(*_`\[]*[A-Z0-9])")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")


def markdown_of(path: Path) -> str:
    """Return the prose of a Markdown file or of a notebook's Markdown cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def sentences(markdown: str) -> list[str]:
    """Return the sentences of Markdown, without code blocks, tables, headings and formulas."""
    markdown = re.sub(r"^(```|~~~).*?^\1", "", markdown, flags=re.DOTALL | re.MULTILINE)
    markdown = re.sub(r"\$\$.*?\$\$", "", markdown, flags=re.DOTALL)
    markdown = re.sub(r"<!--.*?-->|<[^>\n]+>", "", markdown, flags=re.DOTALL)
    found = []
    for block in _blocks(markdown):
        text = _LINK.sub(lambda m: m[0][m[0].index("[") + 1 : m[0].index("]")], block)
        found += [part.strip() for part in _END.split(text) if _words(part) > 1]
    return found


def _blocks(markdown: str) -> Iterator[str]:
    """Yield paragraphs and list items, each on one line."""
    lines: list[str] = []
    for line in [*markdown.split("\n"), ""]:
        code = line.startswith("    ") and not lines
        if lines and (not line.strip() or _NOT_PROSE.match(line) or _ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if line.strip() and not code and not _NOT_PROSE.match(line):
            lines.append(_ITEM.sub("", line).strip().removeprefix("> "))


def _words(sentence: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def mean_length(markdown: str) -> float:
    """Return the mean number of words of a sentence."""
    found = sentences(markdown)
    return sum(map(_words, found)) / max(1, len(found))


def links(markdown: str) -> list[str]:
    """Return the targets of the links and pictures of Markdown, outside of code blocks."""
    markdown = re.sub(r"^(```|~~~).*?^\1", "", markdown, flags=re.DOTALL | re.MULTILINE)
    return _LINK.findall(markdown) + re.findall(r'(?:src|srcset|href)="([^"]+)"', markdown)


def words(path: Path) -> int:
    """Return the number of words in a Markdown file or a notebook's Markdown cells, without targets of links."""
    return _words(
        _LINK.sub(lambda m: m[0][m[0].index("[") + 1 : m[0].index("]")], markdown_of(path))
    )


def minutes(path: Path) -> float:
    """Return how long a lesson takes: 180 words a minute, 4 seconds a line of code, 1.5 minutes an exercise.

    The code of checks is folded away and does not count.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    tags = [cell["metadata"].get("tags", []) for cell in code]
    shown = [cell for cell, tag in zip(code, tags, strict=True) if "check" not in tag]
    lines = sum(
        bool(line.strip()) for cell in shown for line in "".join(cell["source"]).split("\n")
    )
    return words(path) / 180 + lines * 4 / 60 + 1.5 * sum("exercise" in tag for tag in tags)


def files() -> list[Path]:
    """Return what a reader meets: README and its like, docs, lessons."""
    return sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))


def main() -> None:
    """Print the mean length of each file's sentences, and its five longest."""
    for path in [Path(name) for name in sys.argv[1:]] or files():
        text = markdown_of(path)
        found = sentences(text)
        print(f"{path}: {len(found)} sentences, {mean_length(text):.1f} words each")
        if path.suffix == ".ipynb":
            print(f"  {words(path)} words, {minutes(path):.1f} minutes")
        for sentence in sorted(found, key=_words, reverse=True)[:5]:
            print(f"  {_words(sentence)}: {sentence}")


if __name__ == "__main__":
    main()
