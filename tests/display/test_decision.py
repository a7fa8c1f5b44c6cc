from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from unittest import mock

import pytest
from matplotlib import pyplot as plt

import dpnb
from dpnb.display import widgets
from dpnb.display.cards import decision_line, decision_widget, decision_words
from dpnb.display.cards.decision import (
    cost_sentences,
    decision_body,
    decision_cells,
    decision_html,
    price_html,
    told_groups,
)
from dpnb.display.cards.decision_line import LANES, number_line, threshold_sentence
from dpnb.display.cards.decision_offers import MULTIPLES, cost_at, expected_doubt, offers
from dpnb.display.cards.decision_widget import DecisionWidget, step_offer
from dpnb.display.cards.decision_words import kinds, rate_up
from dpnb.display.text import CONDITIONAL, MAX_ROWS, NOT_PRIVATE
from dpnb.display.widgets import display_result
from dpnb.errors import RequestError, printable
from dpnb.results import rebilled
from tests.kit import decisions as sample
from tests.kit.html import Reading, compare, packed

pytestmark = pytest.mark.fast

MADE = {
    "decision": sample.decision,
    "decision_refined": sample.refined,
    "decision_conditions": sample.two_conditions,
    "decision_past": sample.mirrored,
    "decision_response": sample.response,
    "decision_nasty": sample.hostile,
}


@pytest.fixture(params=MADE)
def made(request):
    return MADE[request.param]()


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", MADE)
def test_it_looks_like_its_golden_file(name, regenerate):
    compare(f"{name}.html", decision_html(MADE[name]()), regenerate)


@pytest.mark.parametrize("name", MADE)
def test_it_reads_like_its_golden_file(name, regenerate):
    compare(f"{name}.txt", f"{MADE[name]()!r}\n", regenerate)


def test_a_plan_looks_and_reads_like_its_golden_files(regenerate):
    compare("decision_price.html", price_html(sample.price()), regenerate)
    compare("decision_price.txt", f"{sample.price()!r}\n", regenerate)


class TestFacts:
    """HTML and Markdown say what the text says."""

    def test_every_cell_and_sentence_is_in_the_html(self, made):
        reading = Reading(decision_html(made))
        text = " ".join(reading.text.split())
        for cell in (cell for row in decision_cells(made)[1] for cell in row):
            assert printable(cell) in text
        said = [
            decision_words.headline(made),
            *(words for _, words in decision_words.statements(made)),
            *cost_sentences(made),
        ]
        for sentence in said:
            assert printable(sentence) in text
            assert printable(sentence) in repr(made)

    def test_markdown_has_the_statements_and_is_not_broken_by_names(self):
        shown = sample.hostile().to_markdown()
        assert "**False negatives, bounded in advance**: " in shown
        assert "a\\|b" in shown
        assert "<" not in shown

    def test_selected_groups_come_first_and_of_these_the_sure_ones(self):
        cells = decision_cells(sample.refined())[1]
        assert [row[0] for row in cells] == ["ATL", "BOS", "DEN", "EWR", "HNL", "LAX", "IAD", "JAX"]
        assert [row[1:3] for row in cells[-3:]] == [
            ["yes", "surely yes"], ["yes", "unknown"], ["no", "unknown"],
        ]  # fmt: skip

    def test_the_others_are_counted(self):
        assert "4 other groups are not selected: 4 surely no." in repr(sample.refined())
        left_out = replace(sample.refined(), chosen=(False,) * 12)
        assert "10 other groups are not selected: 4 surely no, 6 surely yes, but left out." in repr(
            left_out
        )

    def test_none_selected_says_so(self):
        none = replace(sample.decision(), chosen=(False,) * 12, verdicts=(-1,) * 12)
        told = "None of the 12 groups is selected, and none is in doubt."
        assert told in repr(none)
        body = decision_body(none)
        assert told in body
        assert '<p class="dpnb-notes">12 groups are not selected: 12 surely no.</p>' in body
        assert 'dpnb-table">' not in body

    def test_stamps_stand_above_everything(self):
        for text in (decision_html(sample.hostile()), repr(sample.hostile())):
            assert text.index(NOT_PRIVATE) < text.index(CONDITIONAL) < text.index("are selected")
        assert 'dpnb-stamp"' not in decision_html(sample.decision())

    def test_a_sum_of_distances_says_what_it_is(self):
        two = sample.two_conditions()
        said = threshold_sentence(two, two.tests[1])
        assert said == (
            "Values are sums of distances from the threshold 10. A sum above 0 means an average above 10. "
            "Noisy values were tested against -1,000: 0, shifted by the uncertain region of 5.0 in the "
            "average of 200 rows."
        )
        assert said in Reading(decision_html(two)).text
        assert said in repr(two)

    def test_infinite_intervals_are_never_printed(self):
        first = sample.decision()
        ends = {"low": (-float("inf"),) * 12, "high": (float("inf"),) * 12}
        open_ = replace(first, readings=(replace(first.readings[0], **ends),), verdicts=(0,) * 12)
        html = decision_html(open_)
        for text in (repr(open_), Reading(html).text, json.dumps(packed(html))):
            assert not re.search(r"\b(inf|infinity|nan)\b|∞", text, re.IGNORECASE)
        assert "about 12 of 12 groups in doubt" in json.dumps(packed(html))

    def test_what_it_cost_stands_in_its_order(self):
        text = Reading(decision_html(rebilled(sample.hostile(), kept=False))).text
        places = [text.index(words) for words in (
            "Privacy cost: epsilon", "Total privacy cost", "One more step would halve", "warned", "One step was",
            "in this kernel only",
        )]  # fmt: skip
        assert places == sorted(places)


class TestErrors:
    """Which error is bounded, which is certified and which only estimated can be told apart."""

    def test_labels_differ_in_words_and_in_their_borders(self):
        body = decision_body(sample.decision())
        found = re.findall(r'dpnb-kind dpnb-(\w+)" style="border:(\w+ \w+) [^>]*>([^<]*)<', body)
        assert found == [
            ("bound", "3px solid", "bounded in advance"),
            ("certificate", "3px double", "certified for this result"),
            ("estimate", "2px dashed", "only estimated"),
        ]

    def test_figures_say_what_has_no_bound(self):
        cells = Reading(decision_html(sample.decision())).cells
        at = cells.index("False positives")
        assert cells[at : at + 4] == [
            "False positives", "not bounded", "at most 5 of 10 selected", "share about 18 %",
        ]  # fmt: skip

    def test_a_share_of_all_groups_is_no_bound(self):
        shown = replace(sample.decision(), false=1.0)
        cells = Reading(decision_html(shown)).cells
        assert cells[cells.index("False positives") + 2] == "at most 5 of 10 selected"
        said = dict(decision_words.statements(shown))["Both errors, certified for this result"]
        assert "at most 5 of the 10 selected groups do not satisfy the condition, and" in said
        assert "100 %" not in said

    def test_nothing_is_bounded_by_values_seen_before(self):
        past = sample.mirrored()
        assert kinds(past)[0] == "none"
        assert dict(decision_words.statements(past))[
            "Both errors, not bounded in advance"
        ].startswith("The decision uses values that were released before")
        cells = Reading(decision_html(past)).cells
        assert cells[cells.index("False negatives") + 1] == "not bounded"

    def test_randomised_response_bounds_both(self):
        assert kinds(sample.response()) == ("bound",)
        assert "chance at most 10 %" in Reading(decision_html(sample.response())).cells

    def test_false_alarms_may_be_the_error_that_is_bounded(self):
        shown = replace(sample.decision(), protect="fpr")
        names = [name for name, _ in decision_words.statements(shown)]
        assert names[0] == "False positives, bounded in advance"
        assert "False negatives have no such bound." in repr(shown)
        assert "Not certified: 5 of the 10 selected groups may be wrong." in (
            decision_words.headline(shown)
        )
        few = replace(shown, alpha=0.5, missed=0.2)
        assert "Not certified: more than 5 % of the groups that satisfy it may be missing." in (
            decision_words.headline(few)
        )

    @pytest.mark.parametrize("mode", ["margin", "hybrid", "naive"])
    def test_other_modes_say_what_they_bound(self, mode):
        shown = replace(sample.decision(), mode=mode, status="answered")
        first = decision_words.statements(shown)[0][1]
        assert ("10 %" in first) == (mode != "naive")
        assert decision_words.statements(replace(shown, fnr_bound=None, mode="naive"))[0][1] == (
            "This method does not bound them."
        )

    def test_what_was_not_paid_for_is_not_claimed(self):
        shown = replace(sample.decision(), mode="hybrid", status="partial")
        cells = Reading(decision_html(shown)).cells
        at = cells.index("False negatives")
        assert (cells[at + 1], cells[at + 5]) == ("chance at most 2.5 %", "not bounded")

    def test_no_estimate_is_said(self):
        shown = replace(sample.decision(), estimate=None)
        assert kinds(shown)[-1] == "none"
        assert decision_words.statements(shown)[-1] == (
            "False positives, not estimated",
            "There is no estimate.",
        )

    @pytest.mark.parametrize(
        ("share", "shown"),
        [(0.05, "5 %"), (0.0501, "5.1 %"), (1 / 3, "34 %"), (0.999, "100 %"), (1e-6, "0.0001 %")],
    )
    def test_bounds_are_rounded_up(self, share, shown):
        assert rate_up(share) == shown

    def test_steps_are_listed_where_there_can_be_several(self):
        reading = Reading(decision_html(sample.refined()))
        assert "Steps taken" in reading.captions
        at = reading.cells.index("2 of 6")
        assert reading.cells[at : at + 5] == [
            "2 of 6",
            "epsilon 0.0683",
            "at most 38 %",
            "none",
            "3",
        ]
        for none in ({"steps": 1}, {"taken": ()}):
            assert "Steps taken" not in decision_html(replace(sample.refined(), **none))


class TestNumberLine:
    """A line for each condition, its threshold and the groups nearest to it."""

    def test_groups_are_placed_by_value(self):
        made = sample.decision()
        line = number_line(made, made.tests[0])
        assert [made.group_label(group) for group in line.groups] == [
            "ATL", "DEN", "LAX", "EWR", "BOS", "HNL", "IAD", "JAX", "CLE", "GRR", "FAR", "KOA",
        ]  # fmt: skip
        assert (line.limit, line.moved, line.below, line.above) == (200, 140, 0, 0)
        assert line.axis() == (-500, 1000, 500)

    def test_the_nearest_are_drawn_and_the_others_counted(self):
        made = sample.many(1000)
        line = number_line(made, made.tests[0])
        assert len(line.groups) == LANES
        assert line.below + line.above == 1000 - LANES
        said = Reading(decision_html(made)).text
        assert (
            f"Drawn: the {LANES} groups nearest to the threshold; {line.below:,} lie lower" in said
        )

    def test_far_groups_do_not_squeeze_the_others(self):
        made = sample.decision()
        far = replace(made.readings[0], values=(1e9, *made.readings[0].values[1:]))
        far = replace(made, readings=(far,))
        assert number_line(far, far.tests[0]).above == 1
        assert number_line(far, far.tests[0]).axis()[1] <= 1000

    def test_a_threshold_from_below_is_moved_up(self):
        made = sample.mirrored()
        made = replace(made, taken=sample.decision().taken)
        assert number_line(made, made.tests[0]).moved == 260
        assert "tested against 260" in decision_html(made)
        assert "The values shown also use past answers" in repr(made)

    def test_what_past_answers_decide_was_not_tested(self):
        made = sample.mirrored()
        line = number_line(made, made.tests[0])
        assert line.moved == line.limit == 200
        assert "Groups were judged by the confidence intervals of past answers." in repr(made)
        assert "tested against" not in decision_html(made)
        assert "This decision used past answers only. A first step" in repr(made)
        assert len(made.plot().get_legend().get_texts()) == 4

    def test_groups_with_their_own_thresholds_are_drawn_by_distance(self):
        made = sample.decision()
        limits = tuple(value - 5 for value in made.readings[0].values)
        own = replace(made, tests=(replace(made.tests[0], limits=limits),))
        line = number_line(own, own.tests[0])
        assert {value for _, value, _ in line.places} == {5.0}
        assert "Each group has its own threshold" in repr(own)
        assert "distances from each group&#x27;s threshold" in decision_html(own)

    def test_marks_differ_and_stand_beside_words(self):
        assert len(set(decision_line.MARKS.values())) == 3
        html = decision_html(sample.decision())
        assert '<text x="' in html
        cells = Reading(html).cells
        assert {"✓ surely yes", "? unknown"} <= set(cells)

    def test_drawings_are_named_and_hidden_where_styles_are_dropped(self):
        body = decision_body(sample.decision())
        drawn = re.findall(r'<svg class="dpnb-(?:yes|doubt|no)"[^>]*aria-label="([^"]*)"', body)
        assert drawn[0] == (
            "ATL: noisy value 742, confidence interval 664 to 820. Overall: surely yes, selected."
        )
        assert body.count('class="dpnb-lanes" style="display:none"') == 1

    def test_of_several_conditions_each_line_marks_its_own(self):
        """A group far above the threshold that is drawn has no cross there, whatever the others say."""
        made = sample.two_conditions()
        den, cle = (made.groups.index((name,)) for name in ("DEN", "CLE"))
        made = replace(
            made, verdicts=tuple(-1 if g == den else v for g, v in enumerate(made.verdicts))
        )
        line = number_line(made, made.tests[0])
        own = dict(zip(line.groups, line.verdicts, strict=True))
        assert (own[den], own[cle], made.verdicts[den]) == (1, 0, -1)
        body = decision_body(made)
        assert (
            "DEN: noisy value 655, confidence interval 577 to 733. flights &gt; 200: surely yes. "
            "Overall: surely no, " in body
        )
        assert "on a line: for its condition alone; in the table: for the whole condition" in body
        ax = made.plot()
        labels = {text.get_text() for text in ax.get_legend().get_texts()}
        assert {"flights > 200: surely yes", "flights > 200: unknown"} <= labels
        assert {line.get_marker() for line in ax.lines[1::2][:2]} == {"o"}

    def test_a_mark_is_on_the_side_where_values_lie(self):
        """Of < and of what protects from false alarms, which tests the complement, too."""
        low = replace(sample.two_conditions().tests[0], text="flights <= 200", sign=-1)
        made = sample.two_conditions()
        below = replace(made, tests=(low, made.tests[1]))
        turned = replace(below, protect="fpr", tests=(replace(low, sign=1), made.tests[1]))
        for one in (below, turned):
            line = number_line(one, one.tests[0])
            for verdict, (low_end, _, high_end) in zip(line.verdicts, line.places, strict=True):
                assert verdict == (-1 if low_end > 200 else 1 if high_end < 200 else 0)
        assert set(line.verdicts) == {1, 0, -1}

    def test_conditions_beyond_a_few_are_told_in_words(self):
        made = sample.decision()
        tests = tuple(replace(made.tests[0], text=f"flights > {i}") for i in range(9))
        html = decision_html(replace(made, tests=tests))
        assert html.count('class="dpnb-cond"') == 6
        assert "flights &gt; 8: The threshold is" in html


class TestStructure:
    """Tables stand without scripts, styles and the network."""

    def test_tables_have_captions_and_scoped_heads(self, made):
        reading = Reading(decision_html(made))
        assert len(reading.captions) == sum(tag == "table" for tag, _ in reading.tags)
        assert {attrs.get("scope") for tag, attrs in reading.tags if tag == "th"} == {"col", "row"}

    def test_nothing_can_break_out(self):
        html = decision_html(sample.hostile())
        body = html[: html.rindex("<script>")]
        for text in ("<b>", "<i>n</i>", "<img", "</script>", '" onload'):
            assert text not in body
        assert html.count("</script>") == 1
        assert not set(html) & {"\u202e", "\u2066", "\x1b"}
        plan = price_html(sample.price(condition="<b>", warnings=("<script>",)))
        assert "<b>" not in plan
        assert "<script" not in plan

    def test_there_is_no_id_and_no_address(self, made):
        html = decision_html(made)
        names = {name for _, attrs in Reading(html).tags for name in attrs}
        assert not names & {"id", "src", "href"}
        assert not re.search(r"https?:", html)

    def test_ten_thousand_groups_are_shown_quickly_and_briefly(self, seconds):
        made = sample.many()
        decision_html(sample.decision())  # what is imported late
        start = time.perf_counter()
        html = decision_html(made)
        taken = time.perf_counter() - start
        assert taken < seconds(2)
        assert len(html) < 400_000
        assert len(decision_cells(made)[1]) == MAX_ROWS
        assert "more groups are selected or in doubt: see to_frame()." in html
        assert len(json.dumps(made.widget().get_state(["data"]))) < 200_000

    def test_one_group_without_keys(self):
        made = replace(
            sample.decision(), keys=(), groups=((),), chosen=(True,), verdicts=(0,),
            responded=(False,), tests=(sample.test_of(1),), readings=(sample.reading((210,), 78.0),),
        )  # fmt: skip
        assert decision_cells(made)[1] == [["all rows", "yes", "unknown", "210", "132 to 288"]]
        assert "all rows" in decision_html(made)
        assert made.plot()

    def test_no_groups(self):
        made = replace(
            sample.decision(), groups=(), chosen=(), verdicts=(), responded=(),
            tests=(sample.test_of(0),), readings=(sample.reading((), 78.0),),
        )  # fmt: skip
        assert told_groups(made) == []
        assert "No group is selected, and none is in doubt." in decision_html(made)
        assert made.widget()
        assert made.plot()

    def test_a_page_of_its_own(self, tmp_path):
        sample.decision().to_html(str(tmp_path / "page.html"))
        assert decision_html(sample.decision()) in (tmp_path / "page.html").read_text("utf-8")


class TestPlan:
    """What a decision would look at, and what it costs; nothing was spent."""

    def test_regions_shares_and_costs_are_listed(self):
        cells = Reading(price_html(sample.price())).cells
        at = cells.index("delay > 10")
        assert cells[at : at + 3] == ["delay > 10", "5.0 in the average of 200 rows", "0.53 %"]
        assert cells[-2:] == ["6", "epsilon 5.12"]

    def test_ways_to_be_true_are_said(self):
        assert "The condition holds when flights > 200 and delay > 10; or late > 50." in repr(
            sample.price()
        )
        assert "The condition holds when flights > 200 and delay > 10 and late > 50." in repr(
            sample.price(implicants=((0, 1, 2),))
        )

    def test_one_condition_and_no_noise_need_few_words(self):
        price = sample.price()
        few = replace(price, tests=price.tests[:1], implicants=((0,),), costs=(), mode="rr")
        assert "whole" not in repr(few)
        assert "Privacy cost by step" not in repr(few)


class TestOffers:
    """What other uncertain regions would cost, from released values alone."""

    def test_costs_go_with_the_noise(self):
        assert [cost_at(1, times, pure=True) for times in (0.5, 1, 8)] == [2, 1, 1 / 8]
        assert [cost_at(1, times, pure=False) for times in (0.5, 1, 8)] == [4, 1, 1 / 64]

    def test_they_reach_from_an_eighth_to_eight_times(self):
        found = offers(sample.decision())
        assert (found[0][0], found[6][0], found[-1][0]) == ("× 0.125", "× 1", "× 8")
        assert found[6][1] == (
            "Uncertain regions: flights > 200 by 60. A first step would cost epsilon 0.0683 and leave "
            "about 5 of 12 groups in doubt."
        )

    def test_the_first_step_is_what_they_multiply(self):
        refined = offers(sample.refined())[6][1]
        assert refined.startswith(
            "Uncertain regions: flights > 200 by 60. A first step would cost "
        )
        assert "epsilon 0.0683" in refined

    def test_finer_regions_leave_fewer_in_doubt(self):
        doubts = [expected_doubt(sample.decision(), times) for times in MULTIPLES]
        assert doubts == sorted(doubts)
        assert doubts[0] < 3
        assert doubts[-1] > 11

    def test_more_than_is_left_is_said(self):
        found = offers(rebilled(sample.decision(), remaining=sample.loss(0.1)))
        assert "epsilon 0.1366 (more than is left)" in found[4][1]

    def test_of_several_conditions_it_is_an_upper_estimate(self):
        said = offers(sample.two_conditions())[6][1]
        assert said.endswith("leave at most about 8 of 12 groups in doubt.")

    def test_a_grey_width_is_told_by_its_multiple(self):
        said = offers(replace(sample.decision(), mode="margin"))[4][1]
        assert said.startswith("Grey widths: 0.5 times those you gave. A first step")

    def test_there_are_none_without_noise_or_price(self):
        assert offers(sample.response()) == []
        assert offers(replace(sample.decision(), first_cost=sample.loss(0))) == []


class TestFigure:
    def test_verdicts_differ_by_marker_and_colour_and_are_named(self):
        ax = sample.decision().plot()
        markers = {line.get_marker(): line.get_color() for line in ax.lines[1::2][:12]}
        assert markers == {"o": "C0", "D": "C1", "X": "grey"}
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [
            "surely yes", "unknown", "surely no", "threshold 200", "tested against 140",
        ]  # fmt: skip
        assert [tick.get_text() for tick in ax.get_yticklabels()][:2] == ["ATL", "DEN"]

    def test_what_is_drawn_is_named(self):
        assert sample.decision().plot().get_xlabel() == "flights, 95 % confidence intervals"
        made = sample.two_conditions()
        turned = replace(made, tests=made.tests[::-1])
        assert turned.plot().get_xlabel().startswith("delay: sum of distances from 10")

    def test_the_axes_given_are_used_and_stamps_shown(self):
        _, ax = plt.subplots()
        assert sample.hostile().plot(ax) is ax
        assert ax.get_title(loc="left").startswith("NOT PRIVATE")
        ax.figure.canvas.draw()  # names with dollar signs are no formulas

    def test_randomised_response_has_nothing_to_draw(self):
        with pytest.raises(RequestError, match="no noisy values"):
            sample.response().plot()


class TestWidget:
    """The next step is taken once its price was seen."""

    @pytest.fixture
    def further(self):
        return mock.Mock(return_value=sample.refined())

    @pytest.fixture
    def widget(self, further):
        widget = sample.decision(further=further).widget()
        with mock.patch.object(widget, "send") as send:
            widget.said = lambda: [call.args[0] for call in send.call_args_list]
            yield widget

    def hear(self, widget, content):
        widget._handle_custom_msg(content, [])

    def test_a_confirmed_step_is_taken_and_shown(self, widget, further):
        self.hear(widget, {"refine": 1})
        further.assert_called_once_with(2)
        assert widget.decision == sample.refined()
        assert "7 of 12 groups" in widget.data["body"]
        [said] = widget.said()
        assert said["refined"].startswith("Done. Privacy cost: epsilon 0.1366.")

    def test_a_step_whose_price_is_out_of_date_is_not(self, widget, further):
        self.hear(widget, {"refine": 1})
        self.hear(widget, {"refine": 1})
        assert further.call_count == 1
        assert "already taken" in widget.said()[1]["failed"]

    @pytest.mark.parametrize(
        "content", [None, [], {}, {"refine": True}, {"refine": "1"}, {"go": 1}]
    )
    def test_what_no_view_sends_is_ignored(self, widget, further, content):
        self.hear(widget, content)
        assert not further.called
        assert widget.said() == []

    @pytest.mark.parametrize(
        ("failure", "words"),
        [
            (RequestError("the budget is spent", "Stop."), "The budget is spent"),
            (KeyboardInterrupt(), "Interrupted."),
        ],
    )
    def test_failures_are_told_and_change_nothing(self, widget, further, failure, words):
        further.side_effect = failure
        self.hear(widget, {"refine": 1})
        assert widget.said()[0]["failed"].startswith(words)
        assert widget.decision.taken == sample.decision().taken

    def test_what_nobody_foresaw_is_raised_but_told_first(self, widget, further):
        further.side_effect = ZeroDivisionError
        with pytest.raises(ZeroDivisionError):
            widget._hear(widget, {"refine": 1}, [])
        assert "Check the budget" in widget.said()[0]["failed"]

    def test_why_there_is_no_step_is_said(self, further):
        first = sample.decision(further=further)
        assert step_offer(first)["closed"] == ""
        assert step_offer(sample.refined())["closed"] == "This decision has no more steps."
        assert "session" in step_offer(sample.decision())["closed"]
        poor = rebilled(first, remaining=sample.loss("0.01"))
        assert step_offer(poor)["closed"] == (
            "One more step costs epsilon 0.0683, but only epsilon 0.01 is left."
        )

    @pytest.mark.parametrize(
        ("name", "value"),
        [("condition", 1), ("condition", -1), ("at", 13), ("show", "everything")],
    )
    def test_what_makes_no_sense_is_refused(self, widget, name, value):
        with pytest.raises(dpnb.DpnbError):
            setattr(widget, name, value)

    def test_its_state_holds_what_is_shown_and_no_session(self, widget):
        state = widget.get_state()
        assert set(state["data"]) == {"tests", "offers", "step", "body"}
        json.dumps(state["data"], allow_nan=False)
        assert "0011" not in json.dumps(state["data"])
        assert repr(widget) == repr(widget.decision)


class TestDisplay:
    """One cell shows the record, and in a front end the widget after it."""

    def test_the_record_and_its_widget_know_each_other(self):
        with (
            mock.patch.object(widgets, "display") as display,
            mock.patch.object(decision_widget, "DecisionWidget", wraps=DecisionWidget) as made,
        ):
            display_result(sample.decision(), "widget")
        record, live = (call.args[0] for call in display.call_args_list)
        assert packed(record["text/html"])["token"] == made.call_args.kwargs["token"]
        assert live["text/plain"] == ""

    def test_static_is_the_record_alone(self):
        made = sample.decision()
        with mock.patch.object(widgets, "display") as display:
            display_result(made, "static")
        [call] = display.call_args_list
        assert call.args[0] == {"text/plain": repr(made), "text/html": made._repr_html_()}
