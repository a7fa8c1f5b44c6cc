from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dpnb.answers.listing import Listing
from dpnb.display.html import answer_html, listing_html, question_html
from dpnb.display.text import MAX_ROWS, plain, sentences, table_cells

GOLDEN = Path(__file__).parent / "golden"
BLOB = re.compile(r'"([A-Za-z0-9+/]{40,}={0,2})"')


class Reading(HTMLParser):
    """What a reader gets: the text of each cell, all text, and every tag with its attributes."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.captions, self.tags, self.text, self._open = [], [], [], "", None
        self.feed(re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th", "caption"):
            self._open = self.captions if tag == "caption" else self.cells
            self._open.append("")

    def handle_endtag(self, tag):
        if tag in ("td", "th", "caption"):
            self._open = None

    def handle_data(self, data):
        self.text += data
        if self._open is not None:
            self._open[-1] += data


def packed(html):
    return json.loads(base64.b64decode(BLOB.findall(html)[-1]))


def readable(html):
    """Leave out what has tests of its own, and break lines, so that a golden file can be reviewed."""
    html = re.sub(r"<style>.*?</style>", "<style>…</style>", html, flags=re.DOTALL)
    html = re.sub(r"base64,[A-Za-z0-9+/=]+", "base64,…", html)
    html = BLOB.sub(lambda m: json.dumps(json.loads(base64.b64decode(m[1])), indent=1), html)
    return re.sub(r"(?=<(?:tr|th|td|p|div|caption|tbody|script))", "\n", html).lstrip() + "\n"


@pytest.mark.parametrize("name", ["answer", "not_private", "nasty", "single"])
def test_an_answer_looks_like_its_golden_file(name, request, regenerate):
    compare(f"{name}.html", answer_html(request.getfixturevalue(name)), regenerate)


def test_a_question_looks_like_its_golden_file(answer, regenerate):
    question = answer.compare("Separated", "Widowed")
    compare("question.html", question_html(question), regenerate)


def test_a_budget_looks_like_its_golden_file(adult, not_private, regenerate):
    compare("budget.html", adult.budget._repr_html_(), regenerate)


def test_a_listing_looks_like_its_golden_file(regenerate):
    listing = Listing("Two <things>.", ("", "what"), (("1", "a & b"), ("2", "\u202ec")))
    compare("listing.html", listing_html(listing), regenerate)


def compare(name, html, regenerate):
    if regenerate:
        (GOLDEN / name).write_text(readable(html), encoding="utf-8")
    assert readable(html) == (GOLDEN / name).read_text(encoding="utf-8")


class TestFacts:
    """HTML says what the text says."""

    @pytest.mark.parametrize("name", ["answer", "not_private", "nasty", "single", "laplace"])
    def test_every_cell_and_sentence_of_the_text_is_in_the_html(self, name, request):
        answer = request.getfixturevalue(name)
        reading = Reading(answer_html(answer))
        _, rows = table_cells(answer)
        for row in rows:
            for cell in row:
                assert plain(cell) in reading.cells
        for sentence in sentences(answer):
            assert plain(sentence) in reading.text

    def test_the_verdict_of_a_question_is_said(self, answer):
        question = answer.compare("Separated", "Widowed")
        assert question.sentence in Reading(question_html(question)).text

    def test_test_noise_is_stamped_and_real_noise_is_not(self, answer, not_private):
        assert "NOT PRIVATE" in Reading(answer_html(not_private)).text
        assert "NOT PRIVATE" not in answer_html(answer)
        question = not_private.compare("Separated", "Widowed")
        assert "NOT PRIVATE" in Reading(question_html(question)).text

    def test_more_rows_than_fit_are_counted(self, answer):
        long = replace(answer, rows=answer.rows * 10)
        html = answer_html(long)
        assert html.count("<tr>") == 1 + MAX_ROWS
        assert f"{70 - MAX_ROWS} more rows: see to_frame()." in Reading(html).text
        assert len(packed(html)["data"]["groups"]) == MAX_ROWS

    def test_too_few_rows_to_tell_is_said_and_draws_nothing(self, nasty):
        html = answer_html(nasty)
        assert "too few rows to tell" in Reading(html).cells
        last = html[html.rindex("<tr>") :]
        drawn = re.findall(r'<td data-agg="1" class="dpnb-plot"[^>]*>(.*?)</td>', last)
        assert drawn == [""]


class TestStructure:
    """The table stands without scripts, styles and the network."""

    def test_the_table_has_a_caption_and_scoped_heads(self, answer):
        reading = Reading(answer_html(answer))
        assert reading.captions == ["n and rich by marital_status, from adult"]
        scopes = [attrs["scope"] for tag, attrs in reading.tags if tag == "th"]
        assert scopes.count("row") == 7
        assert scopes.count("col") == 7

    def test_there_are_no_ids_and_no_addresses(self, answer):
        html = answer_html(answer, "token")
        for _, attrs in Reading(html).tags:
            assert not {"id", "src", "href", "onclick"} & set(attrs)
        plain = html + "".join(
            base64.b64decode(blob).decode()
            for blob in re.findall(r"base64,([A-Za-z0-9+/=]+)", html)
        )
        assert not re.search(r"https?:|@import|url\(", plain)

    def test_scaled_marks_stay_inside_their_cell(self, answer, nasty, laplace):
        for shown in (answer, nasty, laplace):
            for cell in re.findall(r"<td [^>]*dpnb-plot[^>]*>(.*?)</td>", answer_html(shown)):
                widths = [float(width) for width in re.findall(r"width:([\d.-]+)%", cell)]
                assert all(width >= 0 for width in widths)
                assert sum(widths) <= 100.02


class TestEscaping:
    """Names may look like markup; they stay names."""

    def test_names_and_aliases_cannot_open_tags(self, nasty):
        reading = Reading(answer_html(nasty))
        assert {tag for tag, _ in reading.tags} <= {
            "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "p", "br", "i",
            "strong",
        }  # fmt: skip
        assert "</script><b>bold</b>" in reading.cells
        assert "<i>n</i>" in reading.cells

    def test_nothing_ends_the_script_early(self, nasty):
        assert answer_html(nasty).count("</script>") == 1

    def test_control_and_direction_characters_are_replaced(self, nasty):
        html = unescape(answer_html(nasty))
        names = packed(html)["data"]["names"]
        for text in (html, *names):
            assert not set(text) & {"\u202e", "\u2066", "\x1b"}
        assert "\N{REPLACEMENT CHARACTER}gnp.exe" in names[2]

    def test_a_question_and_a_listing_are_escaped(self, nasty):
        first, second, *_ = nasty.groups
        html = question_html(nasty.compare(first, second))
        assert "<b>" not in html
        assert "&lt;/script&gt;&lt;b&gt;" in html
        assert "<i>" not in listing_html(Listing("<i>", ("<i>",), (("<i>",),)))


def test_names_with_dollar_signs_are_not_typeset(nasty):
    _, attrs = Reading(answer_html(nasty)).tags[0]
    assert {"mathjax_ignore", "tex2jax_ignore"} <= set(attrs["class"].split())


def test_a_statement_over_several_lines_is_listed_on_one():
    html = listing_html(Listing("", ("", "statement"), (("1", "SELECT\n  1"),)))
    assert "SELECT 1" in Reading(html).cells


def test_a_page_is_whole_and_declares_its_characters(answer, tmp_path):
    path = tmp_path / "answer.html"
    answer.to_html(str(path))
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in page
    assert '<html lang="en">' in page
    assert answer_html(answer) in page
    assert page.rstrip().endswith("</html>")


def test_a_token_reaches_the_record_only(answer):
    assert packed(answer_html(answer, "abc"))["token"] == "abc"
    assert packed(answer_html(answer))["token"] == ""
