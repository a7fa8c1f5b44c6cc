"""A document in a language of marked-up text; each language says how it writes the pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpnb.display.document import Document, Facts, Note, Table, Track, Words, plain


@dataclass(frozen=True, slots=True)
class Language:
    """How a language writes a text, a text in bold, a table, and sentences below each other."""

    text: Callable[[str], str]
    strong: Callable[[str], str]
    table: Callable[[Table], str]
    listed: Callable[[Sequence[str]], str]

    def sentence(self, words: Words) -> str:
        """Return a sentence with its styles."""
        return "".join(
            (self.strong if span.style == "strong" else self.text)(span.text) for span in words
        )

    def document(self, shown: Document) -> str:
        """Return a result as paragraphs."""
        blocks = [*(self.strong(one.text) for one in shown.banners), self.text(shown.kind)]
        blocks.append(self.strong(plain(shown.title)))
        blocks.append(self.listed([self.sentence(one.words) for one in shown.findings]))
        for part in shown.parts:
            match part:
                case Table():
                    blocks += [self.text(part.name), self.table(part)]
                case Facts():
                    facts = [
                        f"{self.text(name)}: {self.sentence(said)}" for name, said in part.pairs
                    ]
                    blocks.append(self.listed(facts))
                case Track() | Note():
                    blocks.append(self.sentence(part.words))
        foot = shown.foot
        strip = () if foot is None else (foot.cost, foot.left.words, foot.sure)
        blocks += map(self.sentence, (*strip, *shown.fine))
        return "\n\n".join(block for block in blocks if block)
