"""A document says the same in every medium."""

from __future__ import annotations

import re
from html import unescape

import pytest

from dpnb.display import latex, markdown, page, text
from dpnb.display.document import (
    Banner,
    Column,
    Document,
    Facts,
    Finding,
    Foot,
    Note,
    Table,
    Track,
    plain,
    strong,
    words,
)
from tests.kit.html import Reading

pytestmark = pytest.mark.fast

NASTY = "[<b>&amp; 100 % of $x_1$ ~ {a}\\ |\n  `tick` *star* #1 ± 3 ∞ ^]"
SENTENCE = words("Privacy cost ", strong("rho 0.02"), ", epsilon 0.9 at delta 1e-6")
TABLE = Table(
    (
        Column("", ("1", "2")),
        Column("town", ("Ulm", NASTY)),
        Column("people", ("1,234", "5"), end=True),
    ),
    "Towns",
)
WHOLE = Document(
    kind="Private answer from people",
    title=words("Two towns, ", strong("for certain")),
    banners=(Banner("GENERATED DATA: nothing here is real.", generated=True),),
    findings=(
        Finding(words("Most people: ", strong("Ulm")), certain=True),
        Finding(words("Least people: the noise hides which"), certain=False),
    ),
    parts=(
        TABLE,
        Facts((("spent", words(strong("rho 0.02"))),)),
        Track(0.25, 0.5, words(strong("25 %"), " left of the large one")),
        Note(words("A sentence of the body.")),
    ),
    foot=Foot(SENTENCE, Track(0.1, 0.2, words(strong("70 %"), " left")), words("Both hold.")),
    fine=(words("Fine print."),),
)
MEDIA = {
    "text": text.document_text,
    "Markdown": markdown.document_markdown,
    "LaTeX": latex.document_latex,
    "HTML": page.document_html,
}


def read(medium, shown):
    """Return what a reader gets of a document, on one line."""
    found = MEDIA[medium](shown)
    if medium == "HTML":
        found = Reading(found).text
    if medium == "Markdown":
        found = unescape(re.sub(r"\\(.)", r"\1", found.replace("**", "")))
    if medium == "LaTeX":
        found = re.sub(r"\\textbf\{([^{}]*)\}", r"\1", found)
        names = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^"}
        names |= {"textless": "<", "textgreater": ">", "textbar": "|"}
        found = re.sub(r"\\(text\w+)\{\}", lambda match: names[match[1]], found)
        found = found.replace(r"$\pm$", "±").replace(r"$\infty$", "∞")
        found = re.sub(r"\{([\[*])\}", r"\1", found)
        found = re.sub(r"\\([&%$#_{}])", r"\1", found)
    return " ".join(found.split())


@pytest.mark.parametrize("medium", MEDIA)
def test_every_part_is_said(medium):
    found = read(medium, WHOLE)
    sentences = (WHOLE.title, *(one.words for one in WHOLE.findings), SENTENCE, *WHOLE.fine)
    sentences = [plain(one) for one in sentences]
    cells = [cell for column in TABLE.columns for cell in (column.head, *column.values)]
    rest = ["Towns", "25 % left of the large one", "A sentence of the body.", "70 % left"]
    for said in (
        *sentences,
        *cells,
        *rest,
        "GENERATED DATA",
        "Private answer from people",
        "Both hold",
    ):
        assert " ".join(said.split()) in found, said
    assert found.index("GENERATED DATA") < found.index("Two towns") < found.index("Ulm")
    assert found.index("Ulm") < found.index("70 % left") < found.index("Fine print")


@pytest.mark.parametrize("medium", MEDIA)
def test_nothing_is_said_of_what_is_not_there(medium):
    found = MEDIA[medium](Document(title=words("Alone")))
    assert read(medium, Document(title=words("Alone"))) == "Alone"
    assert "\n\n\n" not in found.replace(page.styles(), "")


def test_html_is_escaped_and_keeps_numbers_on_one_line():
    found = page.document_html(WHOLE)
    assert "<b>&amp;" not in found
    assert '<span class="dp-short">1e-6</span>' in found
    assert "100&nbsp;%" in found
    assert 'class="dp mathjax_ignore tex2jax_ignore dp-fake"' in found
    plainly = page.document_html(Document(title=words("Alone")))
    assert "dp-fake" not in plainly.replace(page.styles(), "")


def test_lines_are_named_by_their_first_column():
    tags = [tag for tag, _ in Reading(page.document_html(WHOLE)).tags]
    assert tags.count("td") == 7
    headed = Document(title=words("x"), parts=(Table(TABLE.columns[1:]),))
    heads = [held for tag, held in Reading(page.document_html(headed)).tags if tag == "th"]
    assert [head["scope"] for head in heads] == ["col", "col", "row", "row"]


def test_a_column_of_numbers_ends_at_the_right():
    *_, head, first, second = text.document_text(
        Document(title=words("x"), parts=(Table((Column("a", ("b", "c")), TABLE.columns[2])),))
    ).splitlines()
    assert (head, first, second) == ("a  people", "b   1,234", "c       5")


def test_a_small_card_is_small():
    shown = Document(title=words("x"), parts=(Table((Column("a", ("b",)),)),))
    assert len(page.document_html(shown)) - len(page.styles()) < 600
    assert len(page.styles()) < 10_000
