from __future__ import annotations

import base64
import math
import re
from dataclasses import replace
from html import unescape

import pytest

from dpnb.display.cards.answer import answer_html, sentences, table_cells, view_data
from dpnb.display.cards.question import question_html
from dpnb.display.marks import round_scale
from dpnb.display.text import CONDITIONAL, MAX_ROWS, stamps
from dpnb.errors import printable
from dpnb.private import STAMPS
from dpnb.results import InfoTable, rebilled
from dpnb.sql.functions import Function
from tests.kit.html import Reading, compare, packed

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", ["answer", "not_private", "nasty", "single"])
def test_an_answer_looks_like_its_golden_file(name, request, regenerate):
    compare(f"{name}.html", answer_html(request.getfixturevalue(name)), regenerate)


def test_a_question_looks_like_its_golden_file(answer, regenerate):
    question = answer.compare("Separated", "Widowed")
    compare("question.html", question_html(question), regenerate)


def test_a_budget_looks_like_its_golden_file(adult, not_private, regenerate):
    compare("budget.html", adult.budget._repr_html_(), regenerate)


def test_a_listing_looks_like_its_golden_file(regenerate):
    listing = InfoTable("Two <things>.", ("", "what"), (("1", "a & b"), ("2", "\u202ec")))
    compare("listing.html", listing._repr_html_(), regenerate)


class TestFacts:
    """HTML says what the text says."""

    @pytest.mark.parametrize("name", ["answer", "not_private", "nasty", "single", "laplace"])
    def test_every_cell_and_sentence_of_the_text_is_in_the_html(self, name, request):
        answer = request.getfixturevalue(name)
        reading = Reading(answer_html(answer))
        _, rows = table_cells(answer)
        for row in rows:
            for cell in row:
                assert printable(cell) in reading.cells
        for sentence in sentences(answer):
            assert printable(sentence) in reading.text

    def test_the_verdict_of_a_question_is_said(self, answer):
        question = answer.compare("Separated", "Widowed")
        assert question.sentence in Reading(question_html(question)).text

    def test_a_question_of_any_form_names_both_sides(self, answer):
        question = answer.compare({"Separated": 0.5, "Divorced": 0.5}, "Widowed", constant=100)
        text = Reading(question_html(question)).text
        assert question.sentence in text
        assert "0.5 Separated + 0.5 Divorced is higher" in text
        assert "Widowed + 100 is higher" in text

    @pytest.mark.parametrize(
        ("low", "high", "start", "end"),
        [
            (-math.inf, math.inf, 0, 100),
            (-math.inf, -1.1, 0, 4.545),
            (1.0, math.inf, 95.455, 100),
            (0.0, 0.0, 50, 50),
            (-11.0, 5.5, 4.545, 72.727),
        ],
    )
    def test_intervals_are_drawn_within_the_line(self, answer, low, high, start, end):
        question = replace(answer.compare("Separated", "Widowed"), low=low, high=high)
        [(left, width)] = re.findall(r"left:([\d.]+)%;width:([\d.]+)%", question_html(question))
        assert float(left) == pytest.approx(start, abs=0.01)
        assert float(left) + float(width) == pytest.approx(end, abs=0.02)

    def test_formulas_without_bounds_are_plain_data(self, answer):
        infinite = (-math.inf, *answer.estimates[0].low[1:])
        found = replace(
            answer.estimates[0], function=Function.FORMULA, total=None, count=None, low=infinite
        )
        shown = replace(answer, estimates=(found,), rows=(0, 1))
        [data] = view_data(shown)["aggregates"]
        assert data["low"] == ["-Infinity", found.low[1]]
        assert data["high"] == [found.high[0], found.high[1]]
        [each] = view_data(replace(shown, intervals="each"))["aggregates"]
        assert (each["low"], each["high"]) == (["-Infinity"] * 2, ["Infinity"] * 2)
        assert "intervals='simultaneous'" in each["note"]

    def test_test_noise_is_stamped_and_real_noise_is_not(self, answer, not_private):
        assert "NOT PRIVATE" in Reading(answer_html(not_private)).text
        assert "NOT PRIVATE" not in answer_html(answer)
        question = not_private.compare("Separated", "Widowed")
        assert "NOT PRIVATE" in Reading(question_html(question)).text

    @pytest.mark.parametrize("stamp", STAMPS)
    def test_a_picked_level_is_stamped_above_everything(self, answer, stamp):
        marked = rebilled(answer, stamp=stamp, conditional=True)
        question = marked.compare("Separated", "Widowed")
        boxes = [f'padding:2px 8px">{stamp}</strong>' for stamp in stamps(stamp, True)]
        for html, rest in (
            (answer_html(marked), "<table "),
            (question_html(question), '<p class="dpnb-said">'),
            (marked.widget().data["body"], "<table "),
            (question.widget().value, '<p class="dpnb-said">'),
        ):
            places = [html.index(box) for box in boxes]
            assert places == sorted(places)
            assert places[-1] < html.index(rest)
        for text in (repr(marked), marked.to_markdown()):
            assert CONDITIONAL in text[: text.index("Married-civ-spouse")]

    def test_an_ordinary_level_is_not(self, answer):
        for shown in (answer, answer.compare("Separated", "Widowed")):
            assert 'dpnb-stamp"' not in shown._repr_html_()
            assert CONDITIONAL not in repr(shown)

    def test_more_rows_than_fit_are_counted(self, answer):
        long = replace(answer, rows=answer.rows * 10)
        html = answer_html(long)
        assert html.count("<tr>") == 1 + MAX_ROWS
        assert f"{70 - MAX_ROWS} more groups: see to_frame()." in Reading(html).text
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


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.2), (-3.3, 10.1), (99.0, 101.4), (5.0, 5.0)])
def test_an_axis_reaches_beyond_what_is_drawn_on_it(low, high):
    start, end, _ = round_scale(low, high, 4)
    assert start <= low <= high <= end
    assert start < end


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
        assert "<i>" not in InfoTable("<i>", ("<i>",), (("<i>",),))._repr_html_()


def test_names_with_dollar_signs_are_not_typeset(nasty):
    _, attrs = Reading(answer_html(nasty)).tags[0]
    assert {"mathjax_ignore", "tex2jax_ignore"} <= set(attrs["class"].split())


def test_a_statement_over_several_lines_is_listed_on_one():
    html = InfoTable("", ("", "statement"), (("1", "SELECT\n  1"),))._repr_html_()
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
