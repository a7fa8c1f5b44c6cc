"""What is shown of disclosure risks: all of it live, and nothing of it in what is kept."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from fractions import Fraction
from statistics import NormalDist
from unittest import mock

import ipywidgets
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import dpnb
from dpnb.display.cards import risk_widget as picker_module
from dpnb.display.cards.risk import NOTICE, REVEALED, choice_sentences, risk_html
from dpnb.display.cards.risk_tables import named
from dpnb.display.cards.risk_widget import RiskPicker, display_picker
from dpnb.display.text import EXACT
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import is_picked
from dpnb.risk import frames, offers
from dpnb.risk.exact import SHARE
from dpnb.risk.frames import coarse
from dpnb.risk.rows import Rows
from tests.kit.html import Reading, compare
from tests.kit.streams import entries

MOST, SECOND = 73_519, 1_237
SQL = "SELECT SUM(gain) AS total FROM people"
SCHEMA = dpnb.Schema({"gain": dpnb.Integer(0, MOST), "sex": dpnb.Category(["F", "M", "X"])})
NASTY = (
    "</script><b>bold</b>",
    'it\'s "quoted" & `ticked`',
    "\u202egnp.exe\u2066\x1b[31m",
    "日本語 $x$",
)


class ZeroNoise:
    """No noise; answers are stamped NOT PRIVATE."""

    def gaussian(self, exact, sigma):
        return list(exact)


def people(rows=None, *, public=False):
    """Three rows with the largest possible value, seven with a small one, ninety with none."""
    if rows is None:
        rows = [*[(MOST, "F")] * 3, *[(SECOND, "M")] * 7, *[(0, "M")] * 40, *[(0, "F")] * 50]
    frame = pd.DataFrame(rows, columns=["gain", "sex"])
    return dpnb.Table("people", frame.astype({"gain": "int64"}), SCHEMA, public=public)


def curated(table, **options):
    budget = options.pop("budget", dpnb.Budget(rho=1, delta=1e-6))
    return dpnb.Curator([table], budget=budget, **options)


@pytest.fixture
def curator():
    return curated(people())


@pytest.fixture
def profile(curator):
    return curator.risk(SQL, by="sex")


@pytest.fixture
def open_profile():
    """The same of a public table."""
    return curated(people(public=True)).risk(SQL, by="sex")


@pytest.fixture
def shown(profile):
    return frames.frames(profile, coarse(ZCDP), 55.0)


class Talk:
    """A view's side of the conversation with a picker."""

    def __init__(self, picker):
        self.picker, self.heard = picker, []
        picker.send = self.heard.append

    def say(self, **content):
        """Send a message as a view does; returns what was answered."""
        before = len(self.heard)
        self.picker._handle_custom_msg(content, [])
        return self.heard[before:]

    def opened(self):
        [answer] = self.say(ask="frames")
        return answer

    def looked(self):
        """Open, and look: exact values from then on."""
        self.opened()
        [answer] = self.say(way="look")
        return answer


@pytest.fixture
def picker(profile):
    return profile.widget()


@pytest.fixture
def talk(picker):
    return Talk(picker)


class TestFrames:
    """Everything a view needs is computed once, and is what the profile says."""

    def test_guesses_and_indicators_are_those_of_the_profile(self, profile, shown):
        for level, rho in zip(shown["levels"], coarse(ZCDP), strict=True):
            found = profile.rdr(rho=rho)
            wanted = 100 * NormalDist().cdf((2 * float(rho)) ** 0.5 / 2)
            assert level["guesses"] == pytest.approx(wanted, rel=1e-12)
            assert level["guesses"] == pytest.approx(found.guesses.max(), rel=1e-12)
            assert float(level["indicator"]) == pytest.approx(
                found.maximum / found.floor, rel=0.005
            )
            assert level["sentence"] == profile.sentence(rho=rho, reveal=True)

    def test_rows_above_each_limit_are_counted(self, profile, shown):
        for level, rho in zip(shown["levels"], coarse(ZCDP), strict=True):
            found = profile.guesses(rho=rho).to_frame()
            for limit, told in zip(shown["thresholds"], level["beyond"], strict=True):
                count = found["rows"][found["guesses"] > limit["guesses"] * (1 + 1e-12)].sum()
                assert told == ("none" if count == 0 else f"{count} ({count} %)")

    def test_every_row_is_in_one_bin_and_the_axis_ends_at_certainty(self, shown):
        for level in shown["levels"]:
            assert level["floor"] == 90
            assert level["floor"] + sum(level["counts"]) == 100
            assert level["most"] == "3 rows (3 %)"
            assert len(level["counts"]) == 25
            # bins of 2 guesses, right-closed
            place = math.ceil((level["guesses"] - 50) / 2) - 1
            assert level["counts"][place] >= 3
            assert sum(level["counts"][place + 1 :]) == 0

    def test_groups_are_told_apart_as_the_profile_does(self, profile, shown):
        groups = shown["groups"]
        assert groups["names"] == ["F", "M"]  # no row is an X
        assert groups["rows"] == ["53", "47"]
        for at, rho in enumerate(coarse(ZCDP)):
            found = profile.by_group(rho=rho).to_frame()[:2]
            assert [float(text) for text in groups["indicator"][at]] == pytest.approx(
                list(found["largest"]), rel=0.005
            )
            assert [float(text) for text in groups["guesses"][at]] == pytest.approx(
                list(found["guesses"]), abs=0.51
            )
        # at rho 0.1, 58.9 guesses, above a limit of 55 but not of 60
        assert groups["beyond"][6][1:3] == [["3", "none"], ["none", "none"]]

    def test_top_contributions_have_their_multiplicity_and_share(self, shown):
        top = shown["top"]
        assert top["head"] == ["total", "sex", SHARE, "rows"]
        assert top["rows"][0] == ["73,519", "F", "100 %", "3"]
        assert top["rows"][1] == ["1,237", "M", "1.68 %", "7"]

    def test_it_starts_at_the_largest_level_that_keeps_to_the_limit(self, shown):
        # 55 allows rho 0.0316
        assert shown["levels"][shown["at"]]["name"] == "rho 0.02"

    def test_it_starts_at_the_smallest_level_where_none_does(self, profile):
        shown = frames.frames(profile, (Fraction(1), Fraction(2)), 55.0)
        assert shown["at"] == 0

    def test_an_unusual_limit_stands_beside_the_presets(self, profile, shown):
        assert [limit["guesses"] for limit in shown["thresholds"]] == [50.5, 55, 60, 70, 80]
        own = frames.frames(profile, coarse(ZCDP), 56.53)
        assert [limit["name"] for limit in own["thresholds"]] == [
            "yours 57", "50.5", "55", "60", "70", "80",
        ]  # fmt: skip
        assert own["first"] == 0
        assert frames.frames(profile, coarse(ZCDP), 60.0)["first"] == 2

    def test_it_is_small_and_plain(self, shown):
        assert len(json.dumps(shown, allow_nan=False)) < 16_000

    def test_of_a_closed_profile_there_is_none(self, profile):
        profile.close()
        with pytest.raises(dpnb.DpnbError, match="closed"):
            frames.frames(profile, coarse(ZCDP), 55.0)

    def test_medians_of_groups_are_those_of_the_rows(self):
        random = np.random.default_rng(5)
        for _ in range(50):
            count = int(random.integers(0, 30))
            rows = mock.Mock(
                cells=random.integers(-1, 4, count), counts=random.integers(1, 5, count)
            )
            found = random.integers(1, 6, count).astype(float)
            sizes = np.zeros(4, dtype=np.int64)
            np.add.at(sizes, rows.cells[rows.cells >= 0], rows.counts[rows.cells >= 0])
            found_sizes, medians, _ = Rows.by_cell(rows, found, 4)
            assert list(found_sizes) == list(sizes)
            for cell in range(4):
                inside = rows.cells == cell
                each = np.sort(np.repeat(found[inside], rows.counts[inside]))
                wanted = each[(len(each) - 1) // 2] if len(each) else 1.0
                assert medians[cell] == wanted


class TestTexts:
    @pytest.mark.parametrize(
        ("count", "total", "text"),
        [(0, 0, "none"), (1, 1, "the only row"), (50, 50, "all 50 rows"), (1, 32561, "1 row (less than 0.1 %)"),
         (32560, 32561, "32,560 rows (more than 99.9 %)"), (99, 1000, "99 rows (9.9 %)")],
    )  # fmt: skip
    def test_rows_are_told_with_their_share(self, count, total, text):
        assert frames.rows_text(count, total, "row") == text

    def test_the_button_says_what_is_spent(self, profile):
        cheap, dear = (profile.price(Fraction(level)) for level in ("0.05", "5"))
        assert offers.offer_text(Fraction("0.05"), cheap) == (
            "Answer at rho 0.05: costs rho 0.05 of the 1 left"
        )
        assert offers.offer_text(Fraction(5), dear) == "rho 5 would cost rho 5, but only 1 is left"
        profile.answer(Fraction("0.05"))
        assert offers.offer_text(Fraction("0.05"), profile.price(Fraction("0.05"))) == (
            "Answer at rho 0.05: free now"
        )

    def test_accuracy_is_told_for_each_aggregate(self, curator, profile):
        [told] = offers.accuracy_texts(profile.price(Fraction(1)))
        assert re.fullmatch(r"± [\d,]+", told)
        both = curator.risk("SELECT COUNT(*) AS n, AVG(gain) AS mean FROM people")
        assert [text.split(" ±")[0] for text in offers.accuracy_texts(both.price(Fraction(1)))] == [
            "n", "mean",
        ]  # fmt: skip
        assert offers.accuracy_texts(both.price(Fraction(1)))[1].endswith("on 100 rows")


class TestNothingIsKept:
    """Front ends and batch runs store a widget's state; it holds code and styles, nothing else."""

    def test_the_state_has_no_data_and_no_position(self, picker, talk):
        talk.looked()
        talk.say(limit=3)
        talk.say(at=7)
        talk.say(answer=3, known=True)
        talk.say(way="counts")
        assert picker.answer is not None
        state = dict(picker.get_state())
        for code in ("_esm", "_css"):
            text = state.pop(code)
            assert str(MOST) not in text
            assert "FROM" not in text
        layout = state.pop("layout")
        assert layout.startswith("IPY_MODEL_")
        assert set(state) == {
            "_anywidget_id", "_dom_classes", "_model_module", "_model_module_version", "_model_name",
            "_view_count", "_view_module", "_view_module_version", "_view_name", "tabbable", "tooltip",
        }  # fmt: skip
        values = [value for value in state.values() if value not in (None, (), [])]
        assert all(isinstance(value, str) for value in values)
        assert not re.search(r"\d{3}", " ".join(values))

    def test_the_state_is_the_same_whatever_the_data_are(self):
        states = []
        for rows in ([(MOST, "F")], [(0, "M")] * 12):
            state = dict(curated(people(rows)).risk(SQL).widget().get_state())
            states.append({**state, "layout": ""})
        assert states[0] == states[1]

    def test_the_manager_keeps_no_more(self, picker, talk):
        talk.looked()
        kept = json.dumps(ipywidgets.Widget.get_manager_state()["state"][picker.model_id])
        assert str(MOST) not in kept
        assert SQL not in kept

    def test_it_shows_nothing_of_itself(self, picker):
        assert "owner" in repr(picker)
        assert not re.search(r"\d", repr(picker))
        data, _ = picker._repr_mimebundle_()
        assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json"}

    def test_it_cannot_be_pickled_nor_copied(self, picker):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(picker)
        with pytest.raises((TypeError, NotImplementedError)):
            copy.copy(picker)

    def test_nothing_is_sent_before_a_view_asks(self, profile):
        with mock.patch.object(RiskPicker, "send") as send:
            profile.widget()
        send.assert_not_called()

    def test_closed_it_forgets_and_is_silent(self, picker, talk):
        talk.looked()
        talk.say(answer=3, known=True)
        picker.close()
        assert talk.say(ask="frames") == []
        assert picker._answered is None
        assert picker._prices == []

    def test_of_a_closed_profile_it_sends_nothing_but_words(self, picker, talk):
        picker.profile.close()
        answer = talk.opened()
        assert set(answer) == {"failed"}
        assert "closed" in answer["failed"]


class TestPicking:
    """What is picked in the view is known in Python, and the other way round."""

    def test_a_view_gets_everything_by_one_message(self, picker, talk):
        answer = talk.looked()
        assert answer["token"] == picker.token
        assert answer["frames"]["at"] == picker.at == 4
        assert len(answer["offers"]) == len(picker.candidates) == 12
        json.dumps(answer, allow_nan=False)

    def test_a_move_in_the_view_is_seen_and_not_told_back(self, picker, talk):
        talk.looked()
        seen = []
        picker.observe(lambda change: seen.append(change.new), "at")
        assert talk.say(at=7) == []
        assert picker.at == 7
        assert seen == [7]

    def test_a_move_in_python_is_told_to_the_view(self, picker, talk):
        picker.at = 2
        assert talk.heard == [{"at": 2}]
        assert talk.opened()["frames"]["at"] == 2

    @pytest.mark.parametrize("at", [-1, 12])
    def test_what_is_no_candidate_is_refused(self, picker, at):
        picker.at = 5
        with pytest.raises(dpnb.DpnbError, match="no candidate"):
            picker.at = at
        assert picker.at == 5

    @pytest.mark.parametrize(
        "content",
        [{"at": 12}, {"at": "3"}, {"at": True}, {"at": 3}, {"answer": 0}, {"answer": -2}, {"limit": 5},
         {"limit": -1}, {"way": "nope"}, {"count": 0}, {}, []],
    )  # fmt: skip
    def test_what_no_view_sends_is_ignored(self, picker, talk, content):
        """Levels are picked after a look only."""
        picker._handle_custom_msg(content, [])
        assert talk.heard == []
        assert picker.at == -1
        assert picker.answer is None

    def test_the_numbers_are_those_of_the_choice(self, picker):
        picker.at = 5
        assert picker.level == Fraction(1, 20)
        assert picker.rho == picker.choice.rho == 0.05
        assert picker.epsilon == picker.choice.epsilon == pytest.approx(1.472, abs=1e-3)
        picker.at = 0
        assert picker.rho == 0.001

    def test_of_a_sensitive_table_they_are_marked_as_picked(self, picker, open_profile):
        picker.at = 5
        assert is_picked(picker.rho)
        assert is_picked(picker.epsilon)
        assert picker.choice.conditional
        free = open_profile.widget()
        assert free.at == 4
        assert not is_picked(free.rho, free.epsilon)
        assert not free.choice.conditional

    def test_in_a_pure_session_epsilon_is_the_level(self):
        picker = curated(people(), budget=dpnb.Budget(epsilon=1)).risk(SQL).widget()
        assert picker.candidates == coarse(PURE)
        assert picker.epsilon == float(picker.level) == pytest.approx(0.200671, abs=1e-6)
        shown = Talk(picker).looked()["frames"]["levels"]
        assert {level["delta"] for level in shown} == {""}
        assert named(shown[0]) == "epsilon 0.01"

    def test_candidates_may_be_named_in_any_order(self, profile):
        picker = profile.widget(candidates=["0.3", 0.1, 0.2, 0.1])
        assert [float(level) for level in picker.candidates] == [0.1, 0.2, 0.3]

    @pytest.mark.parametrize(
        "options", [{"tau": 1.5}, {"guesses": 49}, {"candidates": []}, {"candidates": [-1]}]
    )
    def test_what_is_out_of_range_is_refused(self, profile, options):
        with pytest.raises(dpnb.DpnbError):
            RiskPicker(profile, **options)

    def test_it_can_be_boxed(self, picker):
        assert picker in ipywidgets.VBox([picker]).children


class TestLimitFirst:
    """It opens without an exact figure; what is settled before a look is not marked (C, J)."""

    def test_before_a_look_nothing_exact_is_sent(self):
        """The same messages for every table, but for the token."""
        told = []
        for rows in ([(MOST, "F")], [(0, "M")] * 12, None):
            talk = Talk(curated(people(rows)).risk(SQL, by="sex").widget())
            talk.opened()
            talk.say(limit=3)
            talk.say(way="rule")
            talk.say(answer=-1)
            del talk.heard[-1]["answered"]  # the answer's cost; its numbers are not here
            told.append([{**one, "token": ""} for one in talk.heard])
        assert told[0] == told[1] == told[2]
        assert told[0][0]["frames"] is None
        assert "73,519" not in json.dumps(told)
        assert "No exact value is shown yet" in told[0][0]["body"]

    def test_it_opens_at_the_rule_of_its_limit(self, picker, talk, profile):
        answer = talk.opened()
        assert picker.guesses == 55
        assert picker.choice == profile.suggest(guesses=55)
        assert answer["settled"]["way"] == "rule"
        assert "guessed right at most 55 times in 100" in answer["settled"]["lines"][0]
        assert not answer["settled"]["marked"]

    def test_the_limit_that_a_view_sets_is_known_in_python(self, picker, talk):
        talk.opened()
        for which, guesses, tau in ((4, 80, 0.511), (2, 60, 0.892), (0, 50.5, 0.9998)):
            [told] = talk.say(limit=which)
            assert told["which"] == which
            assert picker.guesses == guesses
            assert picker.tau == pytest.approx(tau, abs=5e-4)
            assert picker.choice.guesses == guesses
        own = Talk(picker.profile.widget(tau=0.95))
        own.opened()
        assert own.picker.tau == 0.95
        own.say(limit=5)
        assert own.picker.tau == pytest.approx(0.511, abs=5e-4)
        own.say(limit=0)
        assert own.picker.tau == 0.95

    def test_without_a_limit_every_level_keeps_to_it(self, profile):
        talk = Talk(profile.widget(tau=0))
        assert talk.opened()["limits"][0]["name"] == "yours over 99"
        assert talk.looked()["frames"]["at"] == len(coarse(ZCDP)) - 1
        assert talk.picker.tau == 0
        [told] = talk.say(way="counts")
        assert "need a limit below 100" in told["failed"]

    def test_the_rule_is_answered_without_a_mark(self, curator, picker, talk):
        talk.opened()
        [said] = talk.say(answer=-1)
        assert said["answered"]["text"].startswith("Answered. Privacy cost: rho 0.03159")
        # exact losses of single rows are for those who have looked
        assert said["answered"]["losses"] == ""
        assert not picker.answer.conditional
        assert curator.budget.spent.rho == picker.profile.suggest(guesses=55).level

    def test_after_a_look_the_rule_at_the_limit_set_before_stays(self, picker, talk):
        talk.opened()
        talk.say(limit=2)
        talk.say(way="look")
        assert picker.choice.conditional
        talk.say(way="rule")
        assert picker.at == -1
        assert not picker.choice.conditional
        # another limit may have been chosen by what was seen
        [told] = talk.say(limit=3)
        assert picker.choice.conditional
        assert told["settled"]["marked"]
        (failed,) = talk.say(answer=-1)
        assert failed["failed"] == "Tick the box first."

    def test_a_look_is_in_the_ledger_without_a_figure_and_marks_what_other_kernels_do(
        self, tmp_path
    ):
        path = tmp_path / "ledger"
        first = curated(people(), ledger=path)
        talk = Talk(first.risk(SQL).widget(guesses=60))
        talk.opened()
        before = entries(path)
        talk.say(way="look")
        talk.say(way="look")
        talk.say(at=4)
        (written,) = entries(path)[len(before) :]
        assert written["kind"] == "look"
        assert set(written) == {"kind", "statement", "settled"}
        assert not re.search(f"{MOST}|{SECOND}", json.dumps(written))
        assert first.budget.spent.rho == 0
        first.close()
        second = curated(people(), ledger=path)
        profile = second.risk(SQL)
        assert not profile.suggest(guesses=60).conditional
        assert profile.suggest(guesses=70).conditional
        assert not second.risk("SELECT COUNT(*) AS n FROM people").suggest(guesses=70).conditional
        second.close()

    def test_safe_counts_are_bought_and_a_level_is_picked_from_them(self, curator, picker, talk):
        opened = talk.opened()
        assert opened["target"] == "costs rho 0.00402 of the 1 left"
        assert opened["buyable"]
        [told] = talk.say(way="counts")
        assert told["settled"]["way"] == "counts"
        assert "people above 55 of 100, at most" in Reading(told["counts"]["html"]).text
        assert "frames" not in told
        assert told["at"] == -1
        assert told["target"] == "already paid for"
        assert told["buyable"]
        spent = curator.budget.spent.rho
        assert spent == picker.counts.spent.rho > 0
        [told] = talk.say(count=1)
        assert told["counts"]["at"] == 1
        assert picker.level == picker.counts.levels[1].level
        assert not picker.choice.conditional
        # another limit reads the same counts
        talk.say(limit=3)
        assert curator.budget.spent.rho == spent
        assert picker.counts.limit == 70

    def test_counts_that_are_bought_after_a_look_are_marked(self, picker, talk):
        talk.looked()
        talk.say(way="counts")
        assert picker.choice.conditional

    def test_what_does_not_work_is_told(self, curator, talk):
        talk.opened()
        curator.session().query(SQL, rho="0.9999")
        [told] = talk.say(way="counts")
        assert "Your limit allows" in told["failed"]

    def test_where_the_limit_is_used_up_no_answer_can_be_bought(self, curator, picker, talk):
        curator.session().query("SELECT COUNT(*) AS n FROM people", rho="0.3")
        talk.opened()
        [told] = talk.say(way="rule")
        assert picker.level is None
        assert told["settled"]["lines"] == [
            "Your limit allows a total of rho 0.03158, and 0.3 is spent. Raise the limit or reuse answers."
        ]
        assert not told["settled"]["offer"]["affordable"]
        [said] = talk.say(answer=-1)
        assert "0.3 is spent" in said["failed"]

    @pytest.mark.parametrize(
        ("spent", "reason"),
        [
            ("0.02", None),
            ("0.03", "your limit allows a total of rho 0.03158, but 0.03 is spent and the counts cost "
             "0.00402"),
            ("0.3", "your limit allows a total of rho 0.03158, but 0.3 is spent and the counts cost "
             "0.00402"),
            ("0.999", "your limit allows a total of rho 0.03158, but 0.999 is spent and the counts cost "
             "0.00402"),
        ],
    )  # fmt: skip
    def test_counts_are_offered_where_they_can_be_bought(self, curator, talk, spent, reason):
        curator.session().query("SELECT COUNT(*) AS n FROM people", rho=spent)
        opened = talk.opened()
        assert opened["buyable"] == (reason is None)
        assert reason is None or opened["target"] == reason
        [told] = talk.say(way="counts")
        assert ("failed" in told) == (not opened["buyable"])

    def test_counts_are_offered_again_once_the_limit_is_raised(self, curator, talk):
        curator.session().query("SELECT COUNT(*) AS n FROM people", rho="0.1")
        opened = talk.opened()
        assert not opened["buyable"]
        [told] = talk.say(limit=[one["guesses"] for one in opened["limits"]].index(60))
        assert told["buyable"]
        [told] = talk.say(way="counts")
        assert "failed" not in told

    @pytest.mark.parametrize(
        ("rho", "reason"),
        [("0.999", "rho 0.00402 is needed, but only 0.001 is left"),
         ("0.98", "the counts could not change the choice, whatever they say: the next level, rho 29.81, costs more than is left after them")],
    )  # fmt: skip
    def test_counts_that_the_budget_does_not_allow_are_not_offered(self, curator, rho, reason):
        curator.session().query("SELECT COUNT(*) AS n FROM people", rho=rho)
        talk = Talk(curator.risk(SQL).widget(guesses=98))
        opened = talk.opened()
        assert (opened["target"], opened["buyable"]) == (reason, False)
        [told] = talk.say(way="counts")
        assert "failed" in told

    def test_counts_are_not_offered_with_earlier_answers(self, curator):
        curator.session().query(SQL, rho="0.001")
        talk = Talk(curator.risk(SQL, cumulative=True).widget())
        opened = talk.opened()
        assert opened["target"] == "private choices cannot include earlier answers"
        assert not opened["buyable"]
        [told] = talk.say(way="counts")
        assert "failed" in told


class TestLaterCells:
    """An open picker repaints itself when a later cell buys something."""

    @pytest.fixture
    def shell(self):
        events = mock.Mock()
        with mock.patch.object(picker_module, "get_ipython", return_value=mock.Mock(events=events)):
            yield events

    def test_offers_and_rule_follow_what_was_spent(self, shell, curator, picker, talk):
        talk.looked()
        ((name, repaint),) = [call.args for call in shell.register.call_args_list]
        assert name == "post_run_cell"
        talk.heard.clear()
        repaint(None)
        assert talk.heard == []  # nothing has changed
        curator.session().query(SQL, rho=0.05)
        repaint(None)
        [told] = talk.heard
        assert told["offers"][5]["text"] == "Answer at rho 0.05: free now"
        assert told["offers"][6]["text"] == "Answer at rho 0.1: costs rho 0.05 of the 0.95 left"
        assert "0.05 is spent" in told["settled"]["lines"][0]
        # and what is shown may be bought at once
        [said] = talk.say(answer=6, known=True)
        assert "Privacy cost: rho 0.05" in said["answered"]["text"]

    def test_a_view_that_opens_after_a_later_cell_says_one_thing(self, curator, picker, talk):
        curator.session().query(SQL, rho=0.05)
        opened = talk.opened()
        assert "0.05 is spent" in opened["settled"]["lines"][0]
        assert "0.05 is spent" in opened["target"]

    def test_closed_or_gone_it_stops(self, shell, profile):
        picker = profile.widget()
        Talk(picker).opened()
        repaint = shell.register.call_args.args[1]
        picker.close()
        repaint(None)
        shell.unregister.assert_called_once_with("post_run_cell", repaint)


class TestAnswering:
    """The button releases an answer in the kernel, and says what it cost."""

    def test_of_a_sensitive_table_the_box_must_be_ticked(self, curator, picker, talk):
        talk.looked()
        for known in (False, None, "true", 1):
            (told,) = talk.say(answer=5, known=known)
            assert told["failed"] == "Tick the box first."
            assert len(told["offers"]) == 12
        assert picker.answer is None
        assert curator.budget.spent.rho == 0

    def test_nothing_is_bought_before_a_price_was_shown(self, curator, picker, talk):
        picker.at = 5  # without a view
        (told,) = talk.say(answer=5, known=True)
        assert "privacy cost has changed" in told["failed"]
        assert curator.budget.spent.rho == 0
        (told,) = talk.say(answer=5, known=True)
        assert told["answered"]["text"].startswith("Answered.")

    def test_a_closed_profile_buys_and_tells_nothing(self, curator, picker, talk):
        talk.looked()
        picker.profile.close()
        (told,) = talk.say(answer=5, known=True)
        assert "the profile is closed" in told["failed"].casefold()
        assert curator.budget.spent.rho == 0
        assert "closed" in repr(picker.profile)

    def test_losses_are_those_of_the_finest_answer_held(self, curator, picker, talk):
        curator.session().query(SQL, rho="0.3")
        talk.looked()
        (told,) = talk.say(answer=2, known=True)
        assert "rho 0.3" in told["answered"]["losses"]
        assert "rho 0.005" not in told["answered"]["losses"]

    def test_a_cumulative_picker_says_that_it_has_not_counted_its_own_answer(self, curator):
        curator.session().query(SQL, rho="0.001")
        picker = curator.risk(SQL, cumulative=True).widget()
        talk = Talk(picker)
        talk.looked()
        (told,) = talk.say(answer=2, known=True)
        assert "to include it" in told["answered"]["text"]

    def test_marks_of_candidates_stay(self, profile, open_profile):
        """Also where a public table's picker takes them over."""
        assert is_picked(profile.widget().candidates)
        assert not is_picked(open_profile.widget().candidates)
        taken = open_profile.widget(candidates=profile.widget().candidates)
        assert is_picked(taken.level, taken.rho)
        assert taken.choice.conditional
        assert open_profile.answer(taken.level).conditional

    def test_the_answer_is_charged_marked_and_kept_in_the_picker(self, curator, picker, talk):
        talk.looked()
        [said] = talk.say(answer=5, known=True)
        assert picker.answer.conditional
        assert curator.budget.spent.rho == Fraction(1, 20)
        assert said["answered"]["text"] == (
            "Answered. Privacy cost: rho 0.05 (epsilon 1.472 at delta 1e-6). Left: rho 0.95 of 1 (95 %). "
            "The answer is in picker.answer."
        )
        assert curator.session().query(SQL, rho=0.05).to_frame().equals(picker.answer.to_frame())

    def test_of_a_public_table_no_box_is_needed(self, open_profile):
        picker = open_profile.widget()
        talk = Talk(picker)
        talk.looked()
        [said] = talk.say(answer=2)
        assert "Answered." in said["answered"]["text"]
        assert not picker.answer.conditional

    def test_then_offers_are_priced_anew_and_the_same_answer_is_free(self, curator, talk):
        talk.looked()
        [said] = talk.say(answer=5, known=True)
        assert said["offers"][5]["text"] == "Answer at rho 0.05: free now"
        assert [offer["held"] for offer in said["offers"]] == [True] * 6 + [False] * 6
        assert said["offers"][6]["text"] == "Answer at rho 0.1: costs rho 0.05 of the 0.95 left"
        [again] = talk.say(answer=5, known=True)
        assert "already released: no privacy cost" in again["answered"]["text"]
        assert curator.budget.spent.rho == Fraction(1, 20)

    def test_the_signed_losses_stand_below_it(self, profile, talk):
        talk.looked()
        [said] = talk.say(answer=8, known=True)
        reading = Reading(said["answered"]["losses"])
        assert reading.captions == ["By the answer at rho 0.5"]
        assert reading.cells[:3] == ["total", "rows", "loss"]
        losses = profile.signed_losses(talk.picker.answer).to_frame()
        told = [float(cell) for cell in reading.cells[5::3]]
        assert told == pytest.approx(list(losses["loss"]), rel=0.01)

    def test_only_the_ends_of_many_losses_are_shown(self):
        rows = [(100 * x, "F") for x in range(40)]
        talk = Talk(curated(people(rows)).risk(SQL).widget())
        talk.looked()
        [said] = talk.say(answer=8, known=True)
        assert said["answered"]["losses"].count("<tr>") == 1 + 5 + 1 + 5
        assert "30 lines between these" in Reading(said["answered"]["losses"]).text

    def test_a_view_opened_later_shows_it_again(self, talk):
        talk.looked()
        [said] = talk.say(answer=5, known=True)
        assert talk.opened()["answered"] == said["answered"]

    def test_beyond_the_budget_it_is_refused_in_words(self, curator, picker, talk):
        talk.looked()
        assert not talk.opened()["offers"][11]["affordable"]
        [said] = talk.say(answer=11, known=True)
        assert said["failed"].startswith("This costs rho 5, but 1 is left.")
        assert picker.answer is None
        assert curator.budget.spent.rho == 0

    def test_a_price_that_changed_meanwhile_is_shown_before_it_is_paid(self, curator, picker, talk):
        talk.looked()
        curator.session().query(SQL, rho=0.03)
        [said] = talk.say(answer=5, known=True)
        assert "privacy cost has changed" in said["failed"]
        assert said["offers"][5]["text"].startswith(
            "Answer at rho 0.05: costs rho 0.02 of the 0.97"
        )
        assert picker.answer is None
        [said] = talk.say(answer=5, known=True)
        assert "Privacy cost: rho 0.02" in said["answered"]["text"]

    def test_an_interrupt_is_told(self, talk):
        talk.looked()
        with mock.patch.object(type(talk.picker.profile), "answer", side_effect=KeyboardInterrupt):
            [said] = talk.say(answer=5, known=True)
        assert said["failed"].startswith("Interrupted.")

    def test_an_unknown_failure_leaves_no_view_waiting(self, talk):
        talk.looked()
        failure = mock.patch.object(
            type(talk.picker.profile), "answer", side_effect=ValueError(MOST)
        )
        with failure, mock.patch("ipywidgets.widgets.widget.Widget.log"):
            [said] = talk.say(answer=5, known=True)
        assert str(MOST) not in said["failed"]

    def test_test_noise_is_stamped(self):
        picker = curated(people(), noise=ZeroNoise()).risk(SQL).widget()
        assert "NOT PRIVATE" in Talk(picker).opened()["body"]


class TestDisplay:
    """One cell shows what may be kept, and in a front end the picker after it."""

    @pytest.fixture
    def outputs(self):
        with mock.patch.object(picker_module, "display") as display:
            yield lambda: [call.args[0] for call in display.call_args_list]

    def test_of_a_sensitive_table_a_notice_is_kept(self, picker, outputs):
        display_picker(picker, "widget")
        notice, live = outputs()
        assert Reading(notice["text/html"]).text == NOTICE
        assert notice["text/plain"] == repr(picker)
        assert str(MOST) not in json.dumps(notice)
        assert live["text/plain"] == ""
        assert set(live) == {"application/vnd.jupyter.widget-view+json", "text/plain"}

    def test_without_a_front_end_the_notice_is_all(self, picker, outputs):
        display_picker(picker)
        [notice] = outputs()
        assert Reading(notice["text/html"]).text == NOTICE

    def test_of_a_public_table_the_tables_are_kept(self, open_profile, outputs):
        picker = open_profile.widget(candidates=[0.3, 0.7])
        display_picker(picker, "static")
        [record] = outputs()
        assert "rho 0.3" in record["text/html"]
        assert "rho 0.05" not in record["text/html"]
        assert "73,519" in record["text/html"]
        assert "73,519" in record["text/plain"]

    def test_another_mode_is_refused(self, picker):
        with pytest.raises(dpnb.DpnbError, match="no display mode"):
            display_picker(picker, "live")


class TestStatic:
    """Tables without scripts and styles, for public data and for pages that the owner asks for."""

    def test_it_looks_like_its_golden_file(self, open_profile, regenerate):
        compare("risk.html", risk_html(open_profile), regenerate)

    def test_of_a_sensitive_table_there_is_a_notice(self, profile):
        assert Reading(profile._repr_html_()).text == NOTICE
        assert not re.search(r"\d", repr(profile))

    def test_every_level_and_its_facts_are_told(self, open_profile):
        text = Reading(open_profile._repr_html_()).text
        shown = frames.frames(open_profile, coarse(ZCDP), 55.0)
        for level in shown["levels"]:
            assert level["name"] in text
            assert level["guesses_text"] in text
        assert shown["levels"][shown["at"]]["sentence"] in text
        for part in (repr(open_profile), text):
            assert "✓ within" in part
            assert "✗ above" in part
            assert "73,519" in part

    def test_the_tables_have_captions_and_scoped_heads(self, open_profile):
        reading = Reading(open_profile._repr_html_())
        assert reading.captions == [
            "What an answer would expose at each privacy cost",
            "How easily rows are guessed, at rho 0.02 (epsilon 0.9 at delta 1e-6)",
            "Largest contributions to the answer",
            "How easily rows are guessed, by sex",
        ]
        assert all(attrs.get("scope") for tag, attrs in reading.tags if tag == "th")

    def test_there_are_no_ids_and_no_addresses(self, open_profile):
        for _, attrs in Reading(risk_html(open_profile, 55.0, "token")).tags:
            assert not {"id", "src", "href", "onclick"} & set(attrs)

    def test_bars_lie_where_the_indicators_do(self, open_profile):
        html = risk_html(open_profile)
        shown = frames.frames(open_profile, coarse(ZCDP), 55.0)
        bars = re.findall(r'--dpnb-limit:([\d.]+)%">.*?dpnb-mark.*?[;"]width:([\d.]+)%', html)
        assert len(bars) == 12
        for (place, width), level in zip(bars, shown["levels"], strict=True):
            beyond = level["guesses"] > 55
            assert (float(width) > float(place)) == beyond

    def test_a_page_of_a_sensitive_table_must_be_asked_for_and_is_stamped(self, profile, tmp_path):
        path = tmp_path / "risk.html"
        with pytest.raises(dpnb.DpnbError, match="exact facts"):
            profile.to_html(str(path))
        assert not path.exists()
        assert profile.to_html(str(path), reveal=True) == REVEALED
        text = Reading(path.read_text(encoding="utf-8")).text
        assert text.index(EXACT) < text.index("73,519")
        assert "saved in the notebook" not in text

    def test_a_page_of_a_public_table_needs_no_stamp(self, open_profile, tmp_path):
        path = tmp_path / "risk.html"
        open_profile.to_html(str(path))
        assert EXACT not in path.read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        "rows", [[], [(7, "F")], [(7, "F")] * 50, [(0, "M")] * 50, [(MOST, "F")]],
        ids=["empty", "one row", "all alike", "none adds", "the largest"],
    )  # fmt: skip
    def test_odd_tables_can_be_shown(self, rows, tmp_path):
        odd = curated(people(rows, public=True)).risk(SQL, by="sex")
        assert "nan" not in Reading(risk_html(odd)).text
        assert "What an answer would expose" in Reading(risk_html(odd)).text
        assert repr(odd)
        assert odd.to_html(str(tmp_path / "odd.html"))
        answer = Talk(odd.widget()).opened()
        json.dumps(answer, allow_nan=False)
        plt.close(odd.plot().figure)

    @pytest.mark.parametrize("form", ["bound", "exact", "linear"])
    @pytest.mark.parametrize("budget", [{"rho": 1}, {"epsilon": 1}])
    def test_every_form_and_currency_can_be_shown(self, form, budget):
        table = people(public=True)
        made = curated(table, budget=dpnb.Budget(**budget)).risk(SQL, form=form)
        assert "73,519" in Reading(risk_html(made)).text

    def test_earlier_answers_and_rounding_are_told(self):
        open_curator = curated(people(public=True))
        open_curator.session().query("SELECT COUNT(*) AS n FROM people", rho=0.1)
        made = open_curator.risk(SQL, cumulative=True)
        assert "Earlier answers are included" in Reading(risk_html(made)).text
        many = [(x, "F") for x in range(5000)]
        rounded = curated(people(many, public=True)).risk(SQL)
        assert "rounded up" in Reading(risk_html(rounded)).text

    def test_names_cannot_open_tags(self):
        frame = pd.DataFrame({"kind": NASTY, "x": [1, 2, 3, 4]})
        schema = dpnb.Schema({"kind": dpnb.Category(NASTY), "x": dpnb.Integer(0, 9)})
        table = dpnb.Table("t", frame, schema, public=True)
        made = curated(table).risk('SELECT SUM(x) AS "<i>n</i>" FROM t', by="kind")
        answer = Talk(made.widget()).opened()
        for html in (risk_html(made), answer["body"]):
            assert {tag for tag, _ in Reading(html).tags} <= {
                "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "p", "br",
                "strong", "details", "summary", "code",
            }  # fmt: skip
            assert "<i>n</i>" in Reading(html).text
            assert not set(Reading(html).text) & {"\u202e", "\u2066", "\x1b"}

    def test_names_cannot_add_attributes(self):
        name = 'a" onclick="alert(1)'
        frame = pd.DataFrame({name: ["b"], "x": [1]})
        schema = dpnb.Schema({name: dpnb.Category(["b"]), "x": dpnb.Integer(0, 9)})
        table = dpnb.Table("t", frame, schema, public=True)
        html = risk_html(curated(table).risk("SELECT SUM(x) AS n FROM t", by=[name]))
        assert 'data-head="a&quot; onclick=' in html
        assert not any("onclick" in dict(found) for _, found in Reading(html).tags)


class TestChoice:
    def test_its_stamps_come_first_then_the_sentence(self, profile):
        choice = profile.choose(0.9, private=False)
        text = Reading(choice._repr_html_()).text
        assert text.startswith("DATA-DEPENDENT")
        assert text.index("DATA-DEPENDENT") < text.index(choice.sentence)
        for sentence in choice_sentences(choice):
            assert sentence in text

    def test_what_needs_no_stamp_has_none(self, profile):
        assert 'dpnb-stamp"' not in profile.suggest()._repr_html_()


class TestFigure:
    @pytest.fixture(autouse=True)
    def _close(self):
        yield
        plt.close("all")

    def test_the_bins_are_drawn_and_those_who_add_nothing_apart(self, open_profile):
        ax = open_profile.plot()
        heights = [bar.get_height() for bar in ax.patches]
        assert heights[0] == 90
        assert sum(heights) == 100
        assert ax.get_yscale() == "log"

    def test_of_a_sensitive_table_it_must_be_asked_for_and_is_stamped(self, profile):
        with pytest.raises(dpnb.DpnbError, match="exact facts"):
            profile.plot()
        assert profile.plot(reveal=True).get_title(loc="left") == EXACT

    def test_the_axes_given_are_used(self, open_profile):
        _, ax = plt.subplots()
        assert open_profile.plot(ax=ax) is ax
