from __future__ import annotations

import json
import re
from dataclasses import replace
from unittest import mock

import ipywidgets
import pytest
from matplotlib import pyplot as plt

import dpnb
from dpnb.display import widgets
from dpnb.display.cards import explanation_words
from dpnb.display.cards.explanation import (
    explanation_cells,
    explanation_html,
    explanation_sentences,
)
from dpnb.display.cards.explanation_widget import ExplanationWidget
from dpnb.display.text import CONDITIONAL, MAX_ROWS, stamps
from dpnb.display.widgets import display_result
from dpnb.errors import printable
from dpnb.explain.explanation import Explanation
from dpnb.private import STAMPS
from dpnb.results import rebilled
from tests.kit import explanations as sample
from tests.kit.html import Reading, compare, packed

pytestmark = pytest.mark.fast

MADE = {
    "explanation": sample.explanation,
    "explanation_absolute": sample.absolute,
    "explanation_nasty": sample.hostile,
}


@pytest.fixture
def explanation():
    return sample.explanation()


@pytest.fixture(params=MADE)
def made(request):
    return MADE[request.param]()


def cells(html):
    return [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in Reading(html).cells]


@pytest.mark.parametrize("name", MADE)
def test_it_looks_like_its_golden_file(name, regenerate):
    compare(f"{name}.html", explanation_html(MADE[name]()), regenerate)


@pytest.mark.parametrize("name", MADE)
def test_it_reads_like_its_golden_file(name, regenerate):
    made = MADE[name]()
    texts = f"{made!r}\n\n---\n\n{made.to_markdown()}\n"
    compare(f"{name}.txt", texts, regenerate)


class TestFacts:
    """HTML, text and Markdown say the same."""

    def test_every_cell_and_sentence_is_in_every_rendering(self, made):
        html, text = made._repr_html_(), repr(made)
        _, rows = explanation_cells(made)
        shown = cells(html)
        for predicate, influence, rank, effect in rows:
            assert printable(predicate + effect) in shown
            assert influence in shown
            assert rank in shown
            assert all(printable(cell) in text for cell in (predicate, influence, rank, effect))
        reading = Reading(html).text
        for sentence in (made.question.sentence, *explanation_sentences(made)):
            assert printable(sentence) in reading
            assert printable(sentence) in text

    def test_the_verdict_comes_first_then_the_table_then_what_it_means(self, explanation):
        text = Reading(explanation._repr_html_()).text
        order = [
            explanation.question.sentence,
            explanation_words.title(explanation),
            explanation.rows[0].predicate,
            explanation_words.noise_sentence(explanation),
            explanation_words.caution_sentence(explanation),
            explanation_words.meaning_sentences(explanation)[0],
            explanation_words.cost_sentence(explanation),
        ]
        places = [text.index(part) for part in order]
        assert places == sorted(places)

    def test_a_doubtful_question_is_doubted_before_the_table(self):
        text = Reading(sample.hostile()._repr_html_()).text
        assert text.index("may be meaningless") < text.index("predicate")

    def test_rows_due_to_noise_are_told_in_words_and_in_shape(self, explanation):
        *told, silent = re.findall(r"<tr><th.*?</tr>", explanation._repr_html_())
        assert "could be noise" in silent
        assert silent.count("dpnb-open") == 2
        assert "opacity" in silent
        for row in told:
            assert "noise" not in row
            assert "dpnb-open" not in row
            assert "opacity" not in row

    def test_test_noise_is_stamped_and_real_noise_is_not(self, explanation):
        fake = rebilled(explanation, stamp="test")
        for rendered in (fake._repr_html_(), repr(fake), fake.to_markdown()):
            assert "NOT PRIVATE" in rendered
        for rendered in (explanation._repr_html_(), repr(explanation), explanation.to_markdown()):
            assert "NOT PRIVATE" not in rendered

    def test_a_picked_level_is_stamped_above_everything(self, explanation):
        for stamp in STAMPS:
            marked = rebilled(explanation, stamp=stamp, conditional=True)
            wanted = stamps(stamp, True)
            for rendered in (
                Reading(marked._repr_html_()).text,
                repr(marked),
                marked.to_markdown(),
            ):
                places = [rendered.index(stamp) for stamp in wanted]
                assert places == sorted(places)
                assert places[-1] < rendered.index(marked.question.sentence)
                assert places[-1] < rendered.index(explanation_words.title(marked))
            assert marked.widget().data["body"].count("dpnb-stamp") == len(wanted)

    def test_more_rows_than_fit_are_counted(self, explanation):
        long = replace(explanation, rows=explanation.rows * 10)
        html = long._repr_html_()
        assert html.count("<tr>") == 1 + MAX_ROWS
        assert len(packed(html)["data"]["said"]) == MAX_ROWS
        for text in (Reading(html).text, repr(long)):
            assert f"{50 - MAX_ROWS} more rows: see to_frame()." in text

    def test_after_a_round_trip_through_json_it_reads_the_same(self, made):
        again = Explanation.from_dict(json.loads(json.dumps(made.to_dict())))
        assert again._repr_html_() == made._repr_html_()
        assert repr(again) == repr(made)
        assert again.to_markdown() == made.to_markdown()


class TestRowSentence:
    """What may be concluded from one row."""

    def said(self, low, high, best=1, worst=9):
        made = sample.explanation(rows=(sample.row("a = 1", low, high, best, worst),))
        return explanation_words.row_sentence(made, made.rows[0])

    def test_a_row_above_0_lowers_the_difference(self):
        said = "Leaving out the rows with a = 1 lowers the difference to 0.390 or less, or reverses it: "
        assert self.said(0.03, 0.1) == f"{said}influence 3.0 % to 10.0 %, rank 1 to 9 of 103."

    def test_an_end_that_is_not_0_does_not_look_like_it(self):
        assert "influence 0.040 % to 7.0 %" in self.said(0.0004, 0.07)

    def test_a_row_below_0_widens_it(self):
        said = "Leaving out the rows with a = 1 widens the difference to 0.411 or more: "
        assert self.said(-0.1, -0.03, 90, 103).startswith(said)

    def test_a_row_around_0_says_nothing(self):
        assert self.said(-0.01, 0.06).startswith("No conclusion about a = 1: leaving out")

    def test_a_row_of_any_rank_says_only_that_of_its_rank(self):
        said = self.said(0.01, 0.06, 2, 96)
        assert said.startswith("Leaving out the rows with a = 1 lowers the difference")
        assert said.endswith("rank 2 to 96 of 103. Many predicates may rank above it.")

    def test_only_the_rank_is_grey_where_only_the_rank_is_uncertain(self):
        made = sample.explanation(rows=(sample.row("a = 1", 0.01, 0.06, 2, 96),))
        grey = re.findall(r'<span class="dpnb-faint"[^>]*>([^<]*)', made._repr_html_())
        assert grey == ["2 to 96"]
        assert "The rank is uncertain: it could be in either half of all candidates." in repr(made)
        assert "too uncertain for a conclusion" not in repr(made)


class TestStructure:
    """The table stands without scripts, styles and the network."""

    def test_the_table_has_a_caption_and_scoped_heads(self, made):
        reading = Reading(made._repr_html_())
        assert reading.captions == [printable(explanation_words.title(made))]
        scopes = [attrs["scope"] for tag, attrs in reading.tags if tag == "th"]
        assert scopes == ["col"] * 5 + ["row"] * len(made.rows)

    def test_there_are_no_ids_and_no_addresses(self, made):
        html = explanation_html(made, "token")
        for _, attrs in Reading(html).tags:
            assert not {"id", "src", "href", "onclick"} & set(attrs)

    def test_bars_stay_inside_their_cell_and_lie_where_the_numbers_do(self, explanation):
        html = explanation._repr_html_()
        signed = re.findall(r"--dpnb-zero:([\d.]+)%\">(.*?)</td>", html)
        assert len(signed) == 5
        for (zero, bar), row in zip(signed, explanation.rows, strict=True):
            left, width = (float(part) for part in re.findall(r"[;\"]width:([\d.]+)%", bar))
            assert (left < float(zero)) == (row.influence_low < 0)
            assert left + width > float(zero)
            assert left + width <= 100
        for bar in re.findall(
            r'<td class="dpnb-plot dpnb-ranks" style="[^"]*">(<span.*?)</td>', html
        ):
            left, width = (float(part) for part in re.findall(r"[;\"]width:([\d.]+)%", bar))
            assert 0 <= left <= left + max(width, 3) <= 100

    def test_the_longer_meanings_open_without_scripts(self, explanation):
        html = explanation._repr_html_()
        opened = re.findall(r"<details>.*?</details>", html)
        assert [
            plain in opened[0] for plain in explanation_words.meaning_sentences(explanation)
        ] == [True] * 3
        assert "What helps" in opened[1]

    def test_a_page_of_its_own_is_whole(self, explanation, tmp_path):
        path = tmp_path / "explanation.html"
        explanation.to_html(str(path))
        assert explanation._repr_html_() in path.read_text(encoding="utf-8")


class TestEscaping:
    """Predicates may look like markup; they stay text."""

    @pytest.fixture
    def html(self):
        hostile = sample.hostile()
        return replace(hostile, relative=False, reason="<i>why</i>")._repr_html_()

    def test_predicates_and_aliases_cannot_open_tags(self, html):
        assert {tag for tag, _ in Reading(html).tags} <= {
            "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "p", "br", "i",
            "strong", "details", "summary",
        }  # fmt: skip
        text = Reading(html).text
        assert "<i>n</i> × rows left" in text
        assert "<i>why</i>" in text
        assert "<img src=x onerror=alert(1)>" in text
        assert html.count("</script>") == 1

    def test_control_and_direction_characters_are_replaced(self, html):
        hostile = sample.hostile()
        data = json.dumps(packed(html), ensure_ascii=False)
        for text in (Reading(html).text, data, repr(hostile), hostile.to_markdown()):
            assert not set(text) & {"\u202e", "\u2066", "\x1b"}

    def test_pipes_do_not_split_a_row_of_markdown(self):
        rows = sample.hostile().to_markdown().split("\n\n")[3].split("\n")
        assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {5}


class TestWidget:
    """What was picked in the view is known in Python."""

    @pytest.fixture
    def widget(self, explanation):
        return explanation.widget()

    def test_no_row_is_picked_at_first(self, widget):
        assert widget.selected == -1
        assert widget.row is None

    def test_the_picked_row_is_known(self, widget, explanation):
        widget.set_state({"selected": 2})
        assert widget.row is explanation.rows[2]

    @pytest.mark.parametrize("selected", [5, -2])
    def test_another_index_is_refused(self, widget, selected):
        with pytest.raises(dpnb.DpnbError, match="selected must be a shown row"):
            widget.selected = selected
        assert widget.row is None

    def test_its_state_is_what_the_record_shows(self, widget, explanation):
        data = widget.get_state()["data"]
        html = explanation._repr_html_()
        assert data.pop("body") in html
        assert data == packed(html)["data"]
        assert data["said"] == [
            explanation_words.row_sentence(explanation, row) for row in explanation.rows
        ]

    def test_it_reads_as_the_explanation(self, widget, explanation):
        assert isinstance(widget, ExplanationWidget)
        assert repr(widget) == repr(explanation)


class TestDisplay:
    """One cell shows the record, and in a front end the widget after it."""

    @pytest.fixture
    def outputs(self):
        with mock.patch.object(widgets, "display") as display:
            yield lambda: [call.args[0] for call in display.call_args_list]

    def test_static_is_the_record_alone(self, explanation, outputs):
        display_result(explanation, "static")
        html = explanation._repr_html_()
        assert outputs() == [{"text/plain": repr(explanation), "text/html": html}]

    def test_widget_is_two_outputs_that_know_each_other(self, explanation, outputs):
        display_result(explanation, "widget")
        record, live = outputs()
        assert set(record) == {"text/plain", "text/html"}
        shown = live["application/vnd.jupyter.widget-view+json"]
        state = ipywidgets.Widget.get_manager_state()["state"][shown["model_id"]]["state"]
        assert state["token"] == packed(record["text/html"])["token"] != ""


class TestFigure:
    """Intervals with 0 marked, and ranks beside them."""

    @pytest.fixture(autouse=True)
    def _close(self):
        yield
        plt.close("all")

    def test_one_interval_in_percent_for_each_row_and_0(self, explanation):
        ax = explanation.plot()
        drawn = [list(line.get_xdata()) for line in ax.lines]
        ends = [[100 * row.influence_low, 100 * row.influence_high] for row in explanation.rows]
        assert drawn == [*ends, [0, 0]]
        assert ax.get_ylim()[0] > ax.get_ylim()[1]

    def test_ranks_and_effects_are_said(self, explanation):
        ax = explanation.plot()
        ranks = [
            f"rank {explanation_words.rank_text(explanation, row)}" for row in explanation.rows
        ]
        assert [text.get_text() for text in ax.texts] == ranks
        names = [tick.get_text() for tick in ax.get_yticklabels()]
        assert (
            names[0]
            == "occupation = 'Exec-managerial'\nlowers the difference to 0.389 or less, or reverses it"
        )

    def test_rows_due_to_noise_are_grey_and_dashed(self, explanation):
        ax = explanation.plot()
        colors = [line.get_color() for line in ax.lines[:5]]
        assert colors == ["C0"] * 4 + ["grey"]
        assert [line.is_dashed() for line in ax.lines[:5]] == [False] * 4 + [True]

    def test_the_axes_given_are_used(self, explanation):
        _, ax = plt.subplots()
        assert explanation.plot(ax=ax) is ax

    def test_test_noise_is_stamped_and_dollars_are_no_formula(self):
        ax = sample.hostile().plot()
        assert ax.get_title(loc="left").startswith("NOT PRIVATE")
        marked = sample.explanation(conditional=True).plot()
        assert marked.get_title(loc="left").replace("\n", " ") == CONDITIONAL
        assert r"\$x\$" in ax.get_yticklabels()[3].get_text()

    def test_units_are_said_when_there_are_no_shares(self):
        assert "in rich × rows left" in sample.absolute().plot().get_xlabel()
