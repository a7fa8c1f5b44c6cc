"""``%%dpdecide`` as a user types it, in an in-process shell."""

from __future__ import annotations

import builtins
import os
import re
import signal
import threading
from fractions import Fraction
from types import SimpleNamespace

import pytest
from IPython.core.completer import provisionalcompleter

import dpnb
from dpnb.decide.decision import Decision
from dpnb.decide.options import OPTIONS
from dpnb.decide.price import DecisionPrice
from dpnb.errors import DpnbError, InterruptedRequestError
from dpnb.magics.lines import confirm
from dpnb.privacy.loss import Picked
from tests.kit.inside import runner

GROUPS = "SELECT education, COUNT(*) AS n, AVG(age) AS mean FROM adult GROUP BY education"
SQL = f"{GROUPS} HAVING COUNT(*) > 800 AND AVG(age) > 40"
MEN = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex HAVING COUNT(*) > 20000"
QUOTA = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex HAVING COUNT(*) > :quota"


def spent(shell):
    return shell.run("%dpbudget").result.spent.rho


class TestDecide:
    def test_shows_and_returns_the_decision(self, opened):
        ran = opened.run(f"%%dpdecide --yes\n{SQL}")
        assert ran.error is None
        assert isinstance(ran.result, Decision)
        assert ran.result.keys == ("education",)
        assert len(ran.result.groups) == 16
        assert ran.result.spent.rho == spent(opened) > 0
        assert re.search(r"groups? (is|are) selected", ran.stdout)

    @pytest.mark.parametrize("line", ["-o men", "men <<", "men << --beta 0.02"])
    def test_binds_and_shows(self, opened, line):
        ran = opened.run(f"%%dpdecide {line} --u 1000\n{MEN}")
        assert ran.error is None
        assert opened.names["men"] is ran.result
        assert opened.names["men"].selected == ["Male"]

    def test_quiet_binds_only(self, opened):
        ran = opened.run(f"%%dpdecide -q -o men\n{MEN}")
        assert (ran.result, ran.stdout) == (None, "")
        assert isinstance(opened.names["men"], Decision)

    def test_line_form(self, opened):
        assert opened.run(f"men = %dpdecide --u 1000 {MEN}").error is None
        assert opened.names["men"].selected == ["Male"]

    def test_the_same_cell_again_is_free(self, opened):
        first = opened.run(f"%%dpdecide\n{MEN}").result
        again = opened.run(f"%%dpdecide\n{MEN}").result
        assert again.stored
        assert again.spent.rho == 0
        assert again.chosen == first.chosen

    def test_one_more_step_from_the_next_cell(self, opened):
        first = opened.run(f"%%dpdecide --steps 1 --u 3000 -o men\n{MEN}").result
        ran = opened.run("men.refine()")
        assert ran.error is None
        assert len(ran.result.taken) == 2
        assert spent(opened) == first.spent.rho + ran.result.spent.rho

    def test_thresholds_for_each_group_come_from_a_variable(self, opened):
        opened.names["limits"] = {"quota": {"Female": 5_000, "Male": 40_000}}
        ran = opened.run(f"%%dpdecide --u 2000 --thresholds limits\n{QUOTA}")
        assert ran.error is None
        assert ran.result.selected == ["Female"]

    def test_parameters_come_from_the_namespace(self, opened):
        opened.names["quota"] = 20_000
        assert opened.run(f"%%dpdecide --u 1000\n{QUOTA}").result.selected == ["Male"]

    def test_a_further_step_is_of_the_values_that_they_had(self, opened):
        opened.names["quota"] = 20_000
        made = opened.run(f"%%dpdecide --yes --steps 1 --u 3000\n{QUOTA}").result
        before, opened.names["quota"] = spent(opened), 10_000
        more = made.refine()
        assert more.taken[:1] == made.taken
        assert spent(opened) - before == made.next_cost.rho
        assert "20,000" in repr(more)

    def test_a_cost_may_be_a_variable_and_a_picked_one_stays_one(self, opened):
        opened.names["cost"] = Picked(0.05)
        assert opened.run(f"%%dpdecide --most :cost\n{MEN}").result.conditional

    def test_a_widget_when_asked_for(self, opened):
        ran = opened.run(f"%%dpdecide --widget\n{MEN}")
        assert ran.error is None
        assert ran.result is None
        assert "application/vnd.jupyter.widget-view+json" in ran.shown[1].data
        assert opened.run(f"%%dpdecide --static\n{MEN}").result is not None

    def test_of_a_session_by_name(self, opened):
        opened.run("%dpopen adult --as other --rho 0.5")
        assert opened.run(f"%%dpdecide --on adult\n{MEN}").error is None
        assert spent(opened) == 0

    def test_a_query_with_having_points_here(self, opened):
        ran = opened.run(f"%%dpquery --rho 0.01\n{MEN}")
        assert ran.error is None
        assert "HAVING hides 1 of 2 groups" in ran.stdout or "HAVING hides" in repr(ran.result)
        assert "dpdecide" in repr(ran.result)


class TestPrice:
    def test_dry_run_prices_each_step_and_spends_nothing(self, opened):
        ran = opened.run(f"%%dpdecide --dry-run\n{SQL}")
        assert isinstance(ran.result, DecisionPrice)
        assert len(ran.result.costs) == 6
        assert "The first step costs" in ran.stdout
        assert spent(opened) == 0
        assert opened.run(f"%%dpdecide --dry-run --steps 1\n{SQL}").error is None

    def test_a_dry_run_stays_one_beside_yes(self, opened):
        ran = opened.run(f"%%dpdecide --dry-run --yes\n{MEN}")
        assert isinstance(ran.result, DecisionPrice)
        assert spent(opened) == 0

    def test_the_price_is_that_of_the_cell(self, opened):
        price = opened.run(f"%%dpdecide --dry-run --steps 1 --u 3000\n{MEN}").result
        made = opened.run(f"%%dpdecide --yes --steps 1 --u 3000\n{MEN}").result
        assert made.spent == price.spent == price.costs[0]

    def test_large_spending_asks(self, opened, monkeypatch):
        said = []
        monkeypatch.setattr(builtins, "input", lambda text: said.append(text) or "n")
        opened.run("%config Dpnb.ask_above = 0")
        ran = opened.run(f"%%dpdecide --steps 1 --u 3000\n{MEN}")
        assert "This may spend up to rho" in said[0]
        assert "not confirmed" in str(ran.error)
        assert spent(opened) == 0

    def test_what_may_take_all_says_so(self, opened, monkeypatch):
        said = []
        monkeypatch.setattr(builtins, "input", lambda text: said.append(text) or "n")
        opened.run(f"%%dpdecide\n{SQL}")
        assert "This may spend all that is left, rho" in said[0]

        def nobody(text):
            raise EOFError

        monkeypatch.setattr(builtins, "input", nobody)
        ran = opened.run(f"%%dpdecide\n{SQL}")
        assert "--most" in str(ran.error)
        assert "Nothing was charged" in str(ran.error)
        assert spent(opened) == 0
        assert opened.run(f"%%dpdecide --most 0.02\n{SQL}").error is None
        assert 0 < spent(opened) <= Fraction(1, 50)

    def test_confirmed_it_decides(self, opened, monkeypatch):
        monkeypatch.setattr(builtins, "input", lambda text: "y")
        opened.run("%config Dpnb.ask_above = 0")
        assert opened.run(f"%%dpdecide --steps 1 --u 3000\n{MEN}").error is None

    def test_yes_never_asks(self, opened, monkeypatch):
        def never(text):
            raise AssertionError(text)

        monkeypatch.setattr(builtins, "input", never)
        opened.run("%config Dpnb.ask_above = 0")
        assert opened.run(f"%%dpdecide --yes\n{MEN}").error is None


class TestOptions:
    @pytest.fixture
    def given(self, opened, monkeypatch):
        """What the session was asked, by the options of a line."""
        seen = []

        def decide(session, sql, **options):
            options.pop("params")
            options.pop("progress")
            seen.append(options)
            return sql

        monkeypatch.setattr(dpnb.Session, "decide", decide)
        opened.names.update(limits={"quota": {"Male": 1}}, cost=0.25)

        def run(line):
            ran = opened.run(f"%%dpdecide --yes {line}\n{MEN}")
            assert ran.error is None
            return seen[-1]

        return run

    PLAIN = {option.name: option.default for option in OPTIONS}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("line", "options"),
        [
            ("", {}),
            ("--beta 0.01 --alpha 0.2", {"beta": 0.01, "alpha": 0.2}),
            ("--confidence 0.99", {"confidence": 0.99}),
            ("--mode hybrid", {"mode": "hybrid"}),
            ("--protect fpr", {"protect": "fpr"}),
            ("--u 50", {"u": 50.0}),
            ("--u n=100,mean=2", {"u": {"n": 100.0, "mean": 2.0}}),
            ("--ranges n=1600", {"ranges": {"n": 1600.0}}),
            ("--rows 200", {"rows": 200.0}),
            ("--rows mean=200", {"rows": {"mean": 200.0}}),
            ("--steps 3", {"steps": 3}),
            ("--most 0.1", {"most": "0.1"}),
            ("--most :cost", {"most": 0.25}),
            ("--thresholds limits", {"thresholds": {"quota": {"Male": 1}}}),
            ("--no-history", {"history": False}),
        ],
    )
    def test_are_those_of_the_session(self, given, line, options):
        assert given(line) == {**self.PLAIN, **options}

    @pytest.mark.parametrize(
        ("cell", "words"),
        [
            (f"%%dpdecide --rho 1\n{MEN}", "unrecognized arguments"),
            (f"%%dpdecide --beta rare\n{MEN}", "beta must be a number, got 'rare'"),
            (f"%%dpdecide --beta 0.7\n{MEN}", "below 0.5, got 0.7"),
            (f"%%dpdecide --alpha 0\n{MEN}", "between 0 and 1, got 0"),
            (f"%%dpdecide --confidence 1\n{MEN}", "between 0 and 1, got 1"),
            (f"%%dpdecide --mode loose\n{MEN}", "there is no mode 'loose'"),
            (f"%%dpdecide --protect all\n{MEN}", "'fpr', got 'all'"),
            (f"%%dpdecide --protect fpr --mode rr\n{MEN}", "--mode certified"),
            (f"%%dpdecide --u near\n{MEN}", "u must be a number, got 'near'"),
            (f"%%dpdecide --u n=near\n{MEN}", "u of n must be a number, got 'near'"),
            (f"%%dpdecide --u n=\n{MEN}", "u of n must be a number, got ''"),
            (f"%%dpdecide --u n=1,n=2\n{MEN}", "--u names an aggregate twice"),
            (
                f"%%dpdecide --u m=5\n{MEN}",
                "u is given for 'm', but the statement has no such aggregate",
            ),
            (f"%%dpdecide --u 50\n{SQL}", "one number, but there are 2 aggregates"),
            (f"%%dpdecide --u 0\n{MEN}", "u must be above 0, got 0"),
            (f"%%dpdecide --ranges 1:5\n{MEN}", "ranges must be a number, got '1:5'"),
            (f"%%dpdecide --steps 1.5\n{MEN}", "steps must be a whole number from 1 to 6, got 1.5"),
            (f"%%dpdecide --steps 9\n{MEN}", "6, got 9"),
            (f"%%dpdecide --most much\n{MEN}", "most"),
            (f"%%dpdecide --most :cost\n{MEN}", "--most :cost has no value"),
            (
                f"%%dpdecide --thresholds nothing\n{MEN}",
                "there is no dict named 'nothing'. Declared: Out, limits.",
            ),
            (
                f"%%dpdecide --thresholds number\n{MEN}",
                "there is no dict named 'number'. Declared: Out, limits.",
            ),
            (f"%%dpdecide --thresholds limit\n{MEN}", "Did you mean limits?"),
            (f"%%dpdecide --u 9 --thresholds limits\n{QUOTA}", "no threshold 'quota'"),
            (f"%%dpdecide --on nobody\n{MEN}", "no session 'nobody'"),
            (
                f"%%dpdecide -o 2x\n{MEN}",
                "'2x' is not a variable name. Use letters, digits and underscores.",
            ),
            (f"%%dpdecide\n{GROUPS}", "HAVING"),
            (f"%%dpdecide\n{GROUPS} HAVING COUNT(*) = 5", "="),
            (f"%%dpdecide\n{GROUPS.replace('COUNT(*) AS n, ', '')} HAVING AVG(age) > 40", "rows"),
            (f"%%dpdecide\n{MEN} LIMIT 1", "LIMIT"),
            (f"%%dpdecide\n{MEN}; {MEN}", ""),
            ("%%dpdecide\n ", ""),
            (f"%%dpdecide --u 0.001\n{MEN}", ""),
        ],
    )
    def test_mistakes_fail_with_one_line_and_cost_nothing(self, opened, cell, words):
        opened.names.update(number=3, limits={"quota": {"Male": 1}})
        for line in (" ", " --yes ", " --dry-run "):
            ran = opened.run(cell.replace("%%dpdecide", f"%%dpdecide{line}", 1))
            if line == " --dry-run " and ran.error is None:
                # that it cannot be paid, or what to bind it to, is no mistake yet
                assert isinstance(ran.result, DecisionPrice)
                continue
            assert isinstance(ran.error, DpnbError)
            assert words in str(ran.error)
            assert "Traceback" not in ran.stdout + ran.stderr
        assert spent(opened) == 0


class TestHelp:
    def test_shows_an_example_and_every_option(self, opened):
        magic = opened.ip.find_cell_magic("dpdecide")
        shown = opened.ip.inspector.info(magic)["docstring"]
        assert "HAVING COUNT(*) > 800 AND AVG(age) > 40" in shown
        assert "dpdecide" in shown
        assert "30% of it" in shown

    @pytest.mark.parametrize(
        ("cell", "expected"),
        [
            ("%%dpdecide --bet", "--beta"),
            ("%%dpdecide --prot", "--protect"),
            ("%%dpdecide --thresholds lim", "limits"),
            ("%%dpdecide --on ad", "adult"),
            ("%%dpdecide\nSELECT educ", "education"),
            ("%%dpdecide\nSELECT sex FROM adult GROUP BY sex HAV", "HAVING"),
            ("%%dpdecide\nSELECT COUNT(*) FROM adult WHERE sex = 'Fem", "Female"),
        ],
    )
    def test_is_offered_while_typing(self, opened, cell, expected):
        opened.ip.Completer.use_jedi = False
        opened.names["limits"] = {"quota": {}}
        with provisionalcompleter():
            found = [one.text for one in opened.ip.Completer.completions(cell, len(cell))]
        assert any(expected.endswith(text) for text in found)

    def test_offers_no_options_of_others(self, opened):
        opened.ip.Completer.use_jedi = False
        with provisionalcompleter():
            found = {
                one.text.strip("-") for one in opened.ip.Completer.completions("%%dpdecide --", 13)
            }
        assert {"beta", "alpha", "most", "dry-run"} <= found
        assert not found & {"rho", "epsilon", "anyway"}


class TestConfirm:
    def price(self, opened, line=""):
        return opened.run(f"%%dpdecide --dry-run --steps 1 --u 3000 {line}\n{MEN}").result

    def test_says_up_to(self, opened, monkeypatch):
        said = []
        monkeypatch.setattr(builtins, "input", lambda text: said.append(text) or "yes")
        confirm(self.price(opened), 0.0)
        assert said[0].startswith("This may spend up to ")

    def test_is_not_asked_for_what_is_refused_anyway(self, monkeypatch):
        monkeypatch.setattr(builtins, "input", lambda text: pytest.fail(text))
        confirm(SimpleNamespace(share=lambda: 9.0, affordable=False), 0.25)


class TestInterrupt:
    def test_before_a_step_nothing_is_charged(self, opened, monkeypatch):
        session = next(iter(opened.ip.configurables[-1].sessions.values()))
        engine = runner(session).engines["adult"]
        entered, interrupted = threading.Event(), threading.Event()
        measure = type(engine).measure

        def waiting_measure(self, scan):
            exact = measure(self, scan)
            entered.set()
            interrupted.wait(5)
            return exact

        def press_stop():
            entered.wait(10)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press_stop, daemon=True).start()
        monkeypatch.setattr(type(engine), "measure", waiting_measure)
        monkeypatch.setattr(
            "dpnb.releases.runner.Runner.interrupt", lambda self, thread: interrupted.set()
        )
        monkeypatch.setattr("dpnb.interrupt._TICK_SECONDS", 0.01)
        ran = opened.run(f"%%dpdecide --yes\n{MEN}")
        assert isinstance(ran.error, InterruptedRequestError)
        assert "Nothing was charged" in str(ran.error)
        assert spent(opened) == 0
