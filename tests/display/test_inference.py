from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import stats

import dpnb
from dpnb.answers.inferred import Source
from dpnb.answers.price import Origin
from dpnb.display import widgets
from dpnb.display.cards import inference_widget
from dpnb.display.cards.answer import EACH, answer_html, origin_sentence, view_data
from dpnb.display.cards.inference import (
    inference_body,
    inference_cells,
    inference_data,
    inference_html,
    inference_sentences,
)
from dpnb.display.cards.inference_curve import LEVELS, curve, has_levels, levels
from dpnb.display.cards.inference_widget import InferenceWidget, number_text
from dpnb.display.text import CONDITIONAL, MAX_ROWS, NOT_PRIVATE
from dpnb.display.widgets import display_result
from dpnb.errors import printable
from dpnb.formats import share_text
from dpnb.privacy.loss import PrivacyLoss
from tests.kit import inferences as past
from tests.kit.html import Reading, compare, packed

pytestmark = pytest.mark.fast

ALONE = "Given past answers alone, the probability that "
MADE = {
    "inference": past.inference,
    "inference_groups": past.groups,
    "inference_bounds": past.guaranteed,
    "inference_nasty": past.hostile,
}


@pytest.fixture(params=MADE)
def made(request):
    return MADE[request.param]()


@pytest.fixture
def single():
    return past.inference()


@pytest.fixture
def groups():
    return past.groups()


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", MADE)
def test_it_looks_like_its_golden_file(name, regenerate):
    compare(f"{name}.html", inference_html(MADE[name]()), regenerate)


@pytest.mark.parametrize("name", MADE)
def test_it_reads_like_its_golden_file(name, regenerate):
    compare(f"{name}.txt", f"{MADE[name]()!r}\n", regenerate)


class TestFacts:
    """HTML says what the text says."""

    def test_every_cell_and_sentence_of_the_text_is_in_the_html(self, made):
        reading = Reading(inference_html(made))
        for row in inference_cells(made)[1]:
            for cell in row:
                assert printable(cell) in reading.cells
        for sentence in inference_sentences(made):
            assert printable(sentence) in reading.text

    def test_infinite_ends_are_never_printed(self, made):
        html = inference_html(made)
        for text in (repr(made), Reading(html).text, json.dumps(packed(html))):
            assert not re.search(r"\b(inf|infinity|nan)\b|∞", text, re.IGNORECASE)

    def test_what_past_answers_do_not_determine_is_not_told(self, groups):
        _, rows = inference_cells(groups)
        assert rows[3] == [
            "Never-married",
            "not determined",
            "not determined",
            "not determined",
            "0.00 to 1.00",
        ]
        assert rows[2][3] == "too few rows to tell"
        html = inference_html(groups)
        last = html[html.index("Never-married</th>") :]
        assert last.startswith(
            'Never-married</th><td data-agg="0" class="dpnb-few" style="text-align:right">'
            "<i>not determined</i></td>"
        )
        assert "Enough would be: COUNT(*) WHERE marital_status = " in Reading(html).text

    def test_bounds_without_an_estimate_are_drawn_hollow(self):
        body = inference_body(past.guaranteed())
        drawn = re.findall(r'<td data-agg="0" class="dpnb-plot"[^>]*>(.*?)</td>', body)
        assert "dpnb-open" in drawn[0]
        assert drawn[1] == ""
        assert "dpnb-open" not in drawn[2]

    def test_stamps_stand_above_everything(self):
        for text in (inference_html(past.hostile()), repr(past.hostile())):
            assert text.index(NOT_PRIVATE) < text.index(CONDITIONAL) < text.index("marital_status")
        assert 'dpnb-stamp"' not in inference_html(past.inference())

    def test_more_rows_than_fit_are_counted(self, groups):
        long = replace(groups, rows=groups.rows * 20)
        html = inference_html(long)
        assert f"{80 - MAX_ROWS} more groups: see to_frame()." in Reading(html).text
        assert len(packed(html)["data"]["groups"]) == MAX_ROWS


class TestOrigin:
    """Where the numbers come from is folded away, and can be opened without scripts."""

    def test_a_single_value_is_the_weighted_sum_of_its_sources(self, single):
        reading = Reading(inference_html(single))
        assert "The value is the sum of weight × released." in reading.captions
        cells = reading.cells[reading.cells.index("past answer") :]
        assert cells[:10] == [
            "past answer", "released", "weight", "share of the variance", "",
            "COUNT(*) GROUP BY sexMale", "32,649 ± 10", "1", "50 %", "",
        ]  # fmt: skip

    def test_weights_of_several_values_are_not_mixed(self, groups):
        reading = Reading(inference_html(groups))
        assert "weight" not in reading.cells
        assert "largest share of the variance" in reading.cells
        assert "weight" not in repr(groups)

    def test_it_is_closed_and_its_line_keeps_its_keys(self, single):
        tags = Reading(inference_html(single)).tags
        assert ("details", {}) in tags
        assert ("summary", {"data-lm-suppress-shortcuts": "true"}) in tags

    def test_shares_are_drawn_as_bars(self, single):
        shares = (
            replace(single.shares[0][0], share=0.25),
            replace(single.shares[0][1], share=0.75),
        )
        html = inference_html(replace(single, shares=(shares,)))
        assert re.findall(r"width:(\d+\.\d\d)%;background", html.split("<details>")[1]) == [
            "25.00", "75.00",
        ]  # fmt: skip

    def test_many_are_counted(self, single):
        many = tuple(Source("COUNT(*)", f"g{i}", 1.0, 1.0, 1.0, 0.01) for i in range(100))
        shown = replace(single, shares=(many,))
        assert "95 more: see .sources." in repr(shown)
        assert "80 more: see .sources." in Reading(inference_html(shown)).text

    def test_nothing_to_show_shows_nothing(self):
        assert "<details>" not in inference_html(past.guaranteed())

    def test_long_statements_are_cut_in_text_only(self, single):
        source = replace(single.shares[0][0], statement="COUNT(*)\n WHERE " + "x " * 100)
        shown = replace(single, shares=((source,),))
        assert max(map(len, repr(shown).splitlines())) <= 160
        assert "x " * 99 in Reading(inference_html(shown)).text


class TestCurve:
    """The density of one value, and the interval at every confidence."""

    def test_it_is_the_density_of_the_noise(self, single):
        points = curve(single, single.aggregates[0], 0)
        at = np.array([value for value, _ in points])
        assert [density for _, density in points] == pytest.approx(
            stats.norm(48841.6, math.sqrt(200)).pdf(at), rel=2e-3, abs=1e-5
        )
        assert at[30] == pytest.approx(48841.6)
        assert at[-1] - at[0] == pytest.approx(8 * math.sqrt(200))

    def test_of_laplace_noise_too(self, single):
        laplace = replace(single, joint=past.joint([5.0], [[1.0]], 3.0, "laplace"))
        found = replace(laplace.aggregates[0], estimate=(5.0,))
        points = curve(replace(laplace, aggregates=(found,)), found, 0)
        values, densities = zip(*points, strict=True)
        assert densities == pytest.approx(stats.laplace(5, 3).pdf(values), rel=0.07)

    def test_of_a_mean_its_area_is_one(self, groups):
        found = groups.aggregates[1]
        for row in (0, 1):
            points = curve(groups, found, row)
            step = points[1][0] - points[0][0]
            assert sum(density for _, density in points) * step == pytest.approx(1, abs=1e-3)

    def test_a_prior_changes_it(self, single):
        anything = ((-math.inf, math.inf),)
        found = replace(single.aggregates[0], estimate=(5.0,), possible=anything)
        near = replace(single, aggregates=(found,), joint=past.joint([5.0], [[1.0]]))
        assert min(curve(near, found, 0))[1] > 0
        assert min(curve(replace(near, prior="nonnegative"), found, 0))[1] == 0

    def test_the_interval_is_shaded(self, single):
        drawing = re.search(r"<svg.*?</svg>", inference_html(single), re.DOTALL)
        assert drawing is not None
        assert 'aria-hidden="true"' in drawing[0]
        assert re.sub("<[^>]*>", "", drawing[0]) == ""
        ends = [float(at) for at in re.findall(r"([\d.]+),84 ", drawing[0] + " ")[:1]]
        assert ends[0] == pytest.approx(480 * (4 - 27.6 / math.sqrt(200)) / 8, abs=0.2)

    def test_only_single_values_by_a_law_have_one(self, groups, single):
        assert "<svg" not in inference_html(groups)
        assert "<svg" not in inference_html(replace(single, method="guaranteed"))
        quiet = replace(single, joint=past.joint([48841.6], [[0.0]]))
        assert "<svg" not in inference_html(quiet)

    def test_levels_hold_the_interval_that_is_shown(self, single, groups):
        found = single.aggregates[0]
        shown = {level: (low, high) for level, low, high in levels(single, found, 0)}
        assert set(shown) == set(LEVELS)
        assert shown[0.95] == (48814.0, 48869.0)
        for inference, one in ((single, found), (groups, groups.aggregates[1])):
            ends = levels(inference, one, 0)
            assert all(a[1] >= b[1] and a[2] <= b[2] for a, b in itertools.pairwise(ends))

    def test_one_of_many_that_were_looked_at_is_wider(self, single):
        chosen = replace(single, chosen=20)
        wide = {level: high for level, _, high in levels(chosen, single.aggregates[0], 0)}
        alone = {level: high for level, _, high in levels(single, single.aggregates[0], 0)}
        assert wide[0.9] == alone[0.995]

    def test_the_confidence_that_was_found_is_among_them(self, single):
        found = replace(single, confidence=0.8765)
        data = inference_data(found)
        assert data["points"][0][data["start"]][0] == "87.65 %"
        assert inference_data(replace(single, confidence=1.0))["points"][0]

    @pytest.mark.parametrize("changes", [{"prior": "nonnegative"}, {"method": "mc"},
                                         {"method": "guaranteed"}, {"chosen": "any"}])  # fmt: skip
    def test_what_rests_on_more_than_the_noise_has_none(self, single, changes):
        changed = replace(single, **changes)
        assert not has_levels(changed, changed.aggregates[0], 0)
        assert inference_data(changed)["points"] == [[]]

    def test_points_are_plain_and_bars_lie_in_the_widest(self, groups):
        data = json.loads(json.dumps(inference_data(groups), allow_nan=False))
        assert [len(points) > 0 for points in data["points"]] == [
            True, True, True, False, True, True, False, False,
        ]  # fmt: skip
        for points in filter(None, data["points"]):
            assert points[-1][2:] != points[0][2:]
            assert all(0 <= low <= high <= 1000 for _, _, low, high in points)

    def test_bars_lie_under_the_shaded_part_of_the_curve(self, single):
        found, data = single.aggregates[0], inference_data(single)
        points = curve(single, found, 0)
        start, end = points[0][0], points[-1][0]
        wanted = [1000 * (at - start) / (end - start) for at in (found.low[0], found.high[0])]
        assert data["points"][0][data["start"]][2:] == pytest.approx(wanted, abs=4)


class TestStructure:
    """The table stands without scripts, styles and the network."""

    def test_the_table_has_a_caption_and_scoped_heads(self, groups):
        reading = Reading(inference_html(groups))
        assert reading.captions[0] == "n and rich by marital_status, from past answers about adult"
        scopes = [attrs.get("scope") for tag, attrs in reading.tags if tag == "th"]
        assert set(scopes) == {"col", "row"}

    def test_nothing_can_break_out(self):
        html = inference_html(past.hostile())
        body = html[: html.rindex("<script>")]
        for text in ("<b>", "<i>n</i>", "<img", "</script>"):
            assert text not in body
        assert html.count("</script>") == 1
        assert not set(html) & {"\u202e", "\u2066", "\x1b"}

    def test_there_is_no_id_and_no_address(self, made):
        html = inference_html(made)
        names = {name for _, attrs in Reading(html).tags for name in attrs}
        assert not names & {"id", "src", "href"}
        assert not re.search(r"https?:", html)

    def test_a_token_reaches_the_record_only(self, single):
        assert packed(inference_html(single, "abc"))["token"] == "abc"
        assert "abc" not in inference_body(single)

    def test_a_page_of_its_own(self, single, tmp_path):
        single.to_html(str(tmp_path / "page.html"))
        assert inference_html(single) in (tmp_path / "page.html").read_text("utf-8")


class TestFigure:
    def test_a_single_value_has_a_curve_and_a_shaded_interval(self, single):
        ax = single.plot()
        assert ax.lines[1].get_xdata()[0] == 48841.6
        low, high = ax.collections[0].get_paths()[0].get_extents().intervalx
        assert (low, high) == pytest.approx((48814.0, single.high))
        assert ax.get_xlabel() == "n from past answers, 95 % confidence interval shaded"

    def test_groups_have_intervals_and_what_is_not_told_says_so(self, groups):
        ax = groups.plot()
        assert [tick.get_text() for tick in ax.get_yticklabels()] == [
            "Married", "Divorced", "Widowed", "Never-married (not determined)",
        ]  # fmt: skip
        assert list(ax.lines[0].get_xdata()) == [22352.0, 22408.0]

    def test_bounds_are_drawn_without_an_estimate(self):
        ax = past.guaranteed().plot()
        drawn = [list(map(float, line.get_xdata())) for line in ax.lines]
        assert drawn == [[120, 480], [0, 40], [12.5], [0, 0]]

    def test_the_axes_given_are_used_and_stamps_shown(self):
        _, ax = plt.subplots()
        assert past.hostile().plot(ax) is ax
        assert ax.get_title(loc="left").startswith("NOT PRIVATE")


class TestWidget:
    """A claim is picked in the view, and its probability reckoned here."""

    def test_it_tells_how_likely_a_claim_is(self, single):
        widget = single.widget()
        assert widget.number == 48840
        widget.number = 48850.0
        assert widget.probability == single.probability(">", 48850.0)
        assert widget.said == ALONE + "n is above 48,850 is 28 %."
        widget.operator = "<"
        assert widget.said == ALONE + "n is below 48,850 is 72 %."

    def test_nothing_is_certain_beside_noise(self, single):
        widget = single.widget()
        widget.number = 0.0
        assert widget.said == ALONE + "n is above 0 is more than 99.9 %."
        widget.operator = "<"
        assert widget.said == ALONE + "n is below 0 is less than 0.1 %."

    def test_a_message_from_the_front_end_is_answered(self, groups):
        widget = groups.widget()
        widget.set_state({"at": 5, "number": 0.1})
        assert widget.probability == groups.probability(">", 0.1, "Divorced", "rich")
        assert widget.said.startswith(ALONE + "rich of Divorced is above 0.1 is ")

    def test_what_is_not_told_says_so(self, groups):
        widget = groups.widget()
        widget.at = 3
        assert widget.probability is None
        assert widget.said == (
            "Past answers do not determine n of Never-married: ask for it with a query."
        )

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("at", 8, "at must be a shown value"),
            ("at", -1, "at must be a shown value"),
            ("operator", "=", "no comparison"),
            ("number", math.inf, "a finite number is expected"),
            ("number", math.nan, "a finite number is expected"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, groups, name, value, words):
        widget = groups.widget()
        with pytest.raises(dpnb.DpnbError, match=words):
            setattr(widget, name, value)

    def test_its_state_holds_what_is_shown_and_no_distribution(self, groups):
        state = json.dumps(groups.widget().get_state())
        assert "weights" not in state
        assert groups.ledger not in json.loads(state)["data"]

    def test_it_starts_with_bounds_alone_too(self):
        widget = past.guaranteed().widget()
        assert widget.said.startswith("Past answers do not determine n of Female")
        assert repr(widget) == repr(past.guaranteed())

    def test_probabilities_and_numbers_in_words(self):
        chances = [0.0, 1e-9, 0.0012, 0.5, 0.9994, 1.0]
        assert [share_text(chance) for chance in chances] == [
            "0 %", "less than 0.1 %", "0.1 %", "50 %", "more than 99.9 %", "100 %",
        ]  # fmt: skip
        assert [number_text(x) for x in (1e6, -2.5, 0.0)] == ["1,000,000", "-2.5", "0"]


class TestDisplay:
    """One cell shows the record, and in a front end the widget after it."""

    @pytest.fixture
    def outputs(self):
        with mock.patch.object(widgets, "display") as display:
            yield lambda: [call.args[0] for call in display.call_args_list]

    def test_static_is_the_record_alone(self, single, outputs):
        display_result(single, "static")
        assert outputs() == [{"text/plain": repr(single), "text/html": single._repr_html_()}]

    def test_widget_is_two_outputs_that_know_each_other(self, single, outputs):
        with mock.patch.object(inference_widget, "InferenceWidget", wraps=InferenceWidget) as made:
            display_result(single, "widget")
        record, live = outputs()
        assert packed(record["text/html"])["token"] == made.call_args.kwargs["token"]
        assert live["text/plain"] == ""


class TestAnswers:
    """Answers that past ones helped with."""

    def origin(self, answer, way):
        alone = PrivacyLoss(rho=answer.spent.rho + Fraction(1, 50))
        return replace(answer, origin=Origin(way, alone, 3))

    @pytest.mark.parametrize("way", ["history", "refined", "new"])
    def test_how_they_were_come_by_is_said_after_the_cost(self, answer, way):
        shown = self.origin(answer, way)
        for text in (repr(shown), Reading(answer_html(shown)).text, shown.to_markdown()):
            said = origin_sentence(shown).split(";")[0]
            assert said
            assert text.index("Left: rho") < text.index(said)
        assert origin_sentence(answer) == ""

    def worked_out(self, answer, **changes):
        """The same numbers with intervals alone, as those that were worked out have."""
        bare = [
            replace(found, total=None, count=None, total_distribution=None, count_distribution=None)
            for found in answer.estimates
        ]
        return replace(answer, estimates=tuple(bare), **changes)

    def test_intervals_without_a_law_are_shown_and_subtracted_by_their_ends(self, answer):
        shown = self.worked_out(answer)
        assert shown._repr_html_()
        [counts, _] = view_data(shown)["aggregates"]
        assert counts["low"] == [answer.estimates[0].low[row] for row in answer.rows]
        assert "half" not in counts
        assert shown.widget().data["aggregates"][0] == counts

    def test_which_tell_nothing_of_differences_where_each_holds_on_its_own(self, answer):
        [counts, _] = view_data(self.worked_out(answer, intervals="each"))["aggregates"]
        assert counts["note"] == EACH
