"""The magics as a user types them, in an in-process shell."""

from __future__ import annotations

import builtins
import functools
import os
import signal
import threading
from types import SimpleNamespace

import pytest
from IPython.core.completer import provisionalcompleter

import dpnb
from dpnb.answers.answer import Answer
from dpnb.answers.price import Price
from dpnb.display.text import CONDITIONAL
from dpnb.errors import DpnbError
from dpnb.magics.completion import candidates
from dpnb.privacy.loss import Picked
from dpnb.releases.runner import Runner
from tests.kit.inside import runner

SQL = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"


class TestLoading:
    def test_loading_twice_registers_once(self, shell):
        shell.run("%load_ext dpnb")
        shell.run("%reload_ext dpnb")
        assert sum(type(c).__name__ == "Dpnb" for c in shell.ip.configurables) == 1
        assert sum(hasattr(m, "dpnb") for m in shell.ip.Completer.custom_matchers) == 1

    def test_unloading_leaves_no_trace(self, bare_shell):
        def traces():
            manager = bare_shell.ip.magics_manager
            return [
                *(name for kind in ("line", "cell") for name in manager.magics[kind]),
                *manager.registry,
                *(type(c).__name__ for c in bare_shell.ip.configurables),
                *(m.__name__ for m in bare_shell.ip.Completer.custom_matchers),
                *("dp" for t in bare_shell.ip.input_transformers_post if hasattr(t, "dpnb")),
                *("dp" for t in bare_shell.ip.ast_transformers if hasattr(t, "dpnb")),
            ]

        bare_shell.run("%load_ext dpnb")
        assert any(name.lower().startswith("dp") for name in traces())
        bare_shell.run("%unload_ext dpnb")
        assert not any(name.lower().startswith("dp") for name in traces())

    def test_reloading_keeps_sessions_options_and_what_was_spent(self, opened):
        opened.names["other"] = other = dpnb.Session(
            dpnb.datasets.adult(), budget=dpnb.Budget(rho=1)
        )
        opened.run("%config Dpnb.ask_above = 0.01")
        assert "Add --yes" in str(opened.run(f"%%dpquery --rho 0.01\n{SQL}").error)
        assert opened.run(f"%%dpquery --rho 0.01 --yes\n{SQL}").error is None
        opened.run("%reload_ext dpnb")
        assert "Add --yes" in str(opened.run(f"%%dpquery --rho 0.02\n{SQL}").error)
        assert opened.run(f"%%dpquery --rho 0.02 --yes\n{SQL}").error is None
        assert other.budget.spent.rho == 0
        assert float(opened.run("%dpbudget").result.spent.rho) == pytest.approx(0.02)
        reopened = opened.run("%dpopen adult --epsilon 3 --delta 1e-6").stdout
        assert "This is another budget: the rho 0.02 (" in reopened
        opened.run("%reload_ext dpnb")
        assert opened.run("%dpopen adult --rho 1").stdout.count("spent on adult before") == 1

    def test_after_unloading_no_variable_is_taken_for_a_session_that_was_open(self, opened):
        assert opened.run(f"%%dpquery --rho 0.01\n{SQL}").error is None
        opened.names["other"] = other = dpnb.Session(
            dpnb.datasets.adult(), budget=dpnb.Budget(rho=1)
        )
        opened.run("%unload_ext dpnb")
        opened.run("%load_ext dpnb")
        ran = opened.run(f"%%dpquery --rho 0.01\n{SQL}")
        assert "the sessions were closed when dpnb was unloaded" in str(ran.error)
        assert other.budget.spent.rho == 0
        assert opened.run(f"%%dpquery --on other --rho 0.01\n{SQL}").error is None
        assert "spent on adult before" in opened.run("%dpopen adult --rho 1").stdout
        assert opened.run(f"%%dpquery --rho 0.01\n{SQL}").error is None


class TestOpening:
    def test_says_what_is_left_and_that_nothing_is_kept(self, shell):
        ran = shell.run("%dpopen adult --epsilon 3 --delta 1e-6")
        assert "Opened adult: rho 0.185 (epsilon 3 at delta 1e-6) left." in ran.stdout
        assert "in this kernel only" in ran.stdout

    def test_with_a_ledger_file_nothing_needs_saying(self, shell, tmp_path):
        ran = shell.run(f"%dpopen adult --rho 0.5 --ledger {tmp_path / 'a.ledger'}")
        assert "in this kernel only" not in ran.stdout
        again = shell.run(f"%dpopen adult --ledger {tmp_path / 'a.ledger'}")
        assert again.error is None
        assert "rho 0.5 left" in again.stdout

    def test_as_binds_a_session_for_python(self, shell):
        shell.run("%dpopen adult --as people --rho 0.5")
        assert isinstance(shell.names["people"], dpnb.Session)
        assert shell.run(f"%%dpquery --on people --rho 0.01\n{SQL}").error is None

    def test_opens_a_table_a_session_a_curator_and_a_file(self, shell, tmp_path):
        (tmp_path / "t.csv").write_text("sex\nMale\nFemale\n")
        (tmp_path / "t.toml").write_text(
            'source = "t.csv"\n[budget]\nrho = 0.5\n'
            '[columns.sex]\ntype = "category"\nvalues = ["Female", "Male"]\n'
        )
        shell.names["held"] = dpnb.datasets.adult()
        shell.names["mine"] = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(rho=1))
        shell.names["owner"] = dpnb.Curator(dpnb.datasets.adult(), budget=dpnb.Budget(rho=1))
        for line in (f"{tmp_path / 't.toml'}", "held --rho 1", "mine", "owner"):
            assert shell.run(f"%dpopen {line}").error is None, line

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("adult", "needs a budget"),
            ("nobody --rho 1", "no table 'nobody'"),
            (
                "https://example.org --rho 1",
                "--rho is set by the owner of a service. Leave it out.",
            ),
            ("missing.toml --rho 1", "cannot be read"),
            (
                "adult --rho 0",
                "rho must be above 0, got '0'. Give rho as a positive number, such as 0.1.",
            ),
            ("adult --rho 1 --epsilon 1", "either rho or epsilon"),
            ("adult --bogus", "unrecognized arguments"),
            ("", "arguments are required"),
        ],
    )
    def test_bad_lines_fail_with_one_line(self, shell, line, words):
        ran = shell.run(f"%dpopen {line}")
        assert isinstance(ran.error, DpnbError)
        assert words in str(ran.error)
        assert "Traceback" not in ran.stdout + ran.stderr


class TestQuery:
    def test_shows_and_returns_the_answer(self, opened):
        ran = opened.run(f"%%dpquery --rho 0.01\n{SQL};")
        assert isinstance(ran.result, Answer)
        assert "with 95 % confidence" in ran.stdout

    @pytest.mark.parametrize("line", ["--rho 0.01 -o kept", "kept << --rho 0.01"])
    def test_binds_and_shows(self, opened, line):
        ran = opened.run(f"%%dpquery {line}\n{SQL}")
        assert opened.names["kept"] is ran.result

    def test_quiet_binds_only(self, opened):
        ran = opened.run(f"%%dpquery -q -o kept --rho 0.01\n{SQL}")
        assert ran.result is None
        assert ran.stdout == ""
        assert isinstance(opened.names["kept"], Answer)

    def test_line_form(self, opened):
        ran = opened.run(f"kept = %dpquery --rho 0.01 {SQL}")
        assert ran.error is None
        assert isinstance(opened.names["kept"], Answer)

    def test_parameters_come_from_the_namespace_as_values(self, opened):
        opened.names["who"] = "Male' OR '1'='1"
        ran = opened.run("%%dpquery --rho 0.01\nSELECT COUNT(*) FROM adult WHERE sex = :who")
        assert "is not a declared category" in str(ran.error)
        opened.names["who"] = "Male"
        ran = opened.run("%%dpquery --rho 0.01\nSELECT COUNT(*) AS n FROM adult WHERE sex = :who")
        assert 21_000 < ran.result.estimates[0].estimate[0] < 22_500

    @pytest.mark.parametrize("option", ["--rho :level", "--epsilon :level"])
    def test_a_level_may_be_a_variable(self, opened, option):
        opened.names["level"] = 0.01
        assert not opened.run(f"%%dpquery {option}\n{SQL}").result.conditional

    @pytest.mark.parametrize("option", ["--rho", "--epsilon"])
    def test_a_picked_level_stays_one(self, opened, option):
        opened.names["level"] = Picked(0.05)
        ran = opened.run(f"%%dpquery {option} :level --yes -o kept\n{SQL}")
        assert ran.result.conditional
        assert CONDITIONAL in ran.stdout
        opened.run("asked = kept.compare('Male', 'Female')")
        assert opened.names["asked"].conditional
        assert "data-dependent" in opened.run("%dphistory").stdout

    def test_dry_run_prices_and_spends_nothing(self, opened):
        ran = opened.run(f"%%dpquery --dry-run --rho 0.01\n{SQL}")
        assert isinstance(ran.result, Price)
        assert "Nothing was spent" in ran.stdout
        assert "spent" not in opened.run("%dphistory").stdout

    def test_error_options(self, opened):
        ran = opened.run(f"%%dpquery --error 40 --confidence 0.9 --each\n{SQL}")
        found = ran.result.estimates[0]
        assert found.margin_of_error(0) == pytest.approx(40, rel=1e-6)
        ran = opened.run(f"%%dpquery --error n=30 --any-look\n{SQL}")
        assert ran.result.looks == "any"

    def test_the_same_cell_again_is_free(self, opened):
        first = opened.run(f"%%dpquery --rho 0.01\n{SQL}").result
        again = opened.run(f"%%dpquery --rho 0.01\n{SQL}").result
        assert again.estimates == first.estimates
        assert again.spent.rho == 0

    @pytest.mark.parametrize(
        ("cell", "words"),
        [
            (f"%%dpquery --rhoo 1\n{SQL}", "unrecognized arguments"),
            (f"%%dpquery --rho 'x\n{SQL}", "a quote is not closed"),
            (
                f"%%dpquery --rows many --rho 1\n{SQL}",
                "rows must be a whole number from 1 up, got 'many'",
            ),
            (f"%%dpquery\n{SQL}", "needs a privacy cost or a margin of error"),
            (f"%%dpquery --rho 99\n{SQL}", "is left"),
            (f"%%dpquery --rho :level\n{SQL}", "--rho :level has no value"),
            (f"%%dpquery --epsilon :\n{SQL}", "Define it in the notebook, or write a number"),
            (f"%%dpquery --on nobody --rho 0.01\n{SQL}", "no session 'nobody'"),
            (f"%%dpquery -o 1x --rho 0.01\n{SQL}", "is not a variable name"),
            ("%%dpquery --rho 0.01\nSELECT sx FROM adult", "unknown column 'sx' (line 1, column 8"),
            ("%%dpquery --rho 0.01\n;", "only SELECT is supported"),
        ],
    )
    def test_mistakes_fail_with_one_line_and_cost_nothing(self, opened, cell, words):
        ran = opened.run(cell)
        assert isinstance(ran.error, DpnbError)
        assert words in str(ran.error)
        assert "Traceback" not in ran.stdout + ran.stderr
        assert opened.run("%dpbudget").result.spent.rho == 0

    def test_a_cell_that_fails_leaves_its_variable_alone(self, opened):
        opened.run(f"%%dpquery --rho 0.01 -o kept\n{SQL}")
        kept = opened.names["kept"]
        assert "is left" in str(opened.run(f"%%dpquery --rho 99 -o kept\n{SQL}").error)
        assert opened.names["kept"] is kept

    def test_variables_are_not_pasted_into_a_statement(self, opened):
        opened.names["who"] = "Male"
        for pasted in ("{who}", "$who"):
            ran = opened.run(
                f"%dpquery --rho 0.01 SELECT COUNT(*) AS n FROM adult WHERE sex = '{pasted}'"
            )
            assert "is not a declared category" in str(ran.error)

    def test_without_a_session_says_how_to_open_one(self, shell):
        ran = shell.run(f"%%dpquery --rho 0.01\n{SQL}")
        assert "%dpopen" in str(ran.error)

    def test_past_answers_can_be_left_aside(self, opened, monkeypatch):
        real, given = dpnb.Session.query, []

        @functools.wraps(real)
        def query(*args, **options):
            given.append(options)
            return real(*args, **options)

        monkeypatch.setattr(dpnb.Session, "query", query)
        assert opened.run(f"%%dpquery --error 60 --yes\n{SQL}").error is None
        assert opened.run(f"%%dpquery --error 50 --no-history --yes\n{SQL}").error is None
        assert given[0]["history"] is True
        assert given[1]["history"] is False


class TestSeveralStatements:
    CELL = f"{SQL};\nSELECT COUNT(*) AS n FROM adult WHERE workclass = '?' OR occupation = '?';\n"

    def test_are_answered_one_after_the_other(self, opened):
        ran = opened.run(f"%%dpquery --error 60 -o both\n{self.CELL}")
        assert ran.error is None
        assert [len(one.groups) for one in opened.names["both"]] == [2, 1]
        assert ran.result is opened.names["both"][-1]
        assert len(opened.run("%dphistory").result) == 2

    @pytest.mark.parametrize(
        "cell",
        [
            f"{SQL} -- before: ; SELECT COUNT(*) AS n FROM adult",
            f"{SQL}\n--; SELECT COUNT(*) AS n FROM adult",
            f"-- don't; SELECT 'x\n{SQL}",
            f"/* ; {SQL}; */ {SQL}",
            f"/* one /* ; */ two; {SQL} */ {SQL}",
            f"{SQL}; -- done",
            f'{SQL};\n-- it\'s "done"\n/* ; */',
            f"; {SQL}",
            SQL.replace("sex", "sex /* ; '*/", 1) + ' -- " ;',
        ],
    )
    def test_what_stands_in_a_comment_is_not_run(self, opened, cell):
        ran = opened.run(f"%%dpquery --rho 0.01\n{cell}")
        assert ran.error is None, ran.error
        assert len(ran.result.groups) == 2
        assert len(opened.run("%dphistory").result) == 1

    def test_comments_may_stand_between_them(self, opened):
        both = f"{SQL}; -- and ;\n/* 'then */ {SQL.replace('sex', 'race')} -- ' ; {SQL}"
        assert opened.run(f"%%dpquery --rho 0.01 -o both\n{both}").error is None
        assert [len(one.groups) for one in opened.names["both"]] == [2, 5]
        assert len(opened.run("%dphistory").result) == 2

    def test_are_priced_as_a_whole(self, opened):
        ran = opened.run(f"%%dpquery --dry-run --error 60\n{self.CELL}")
        found = [
            opened.run(f"%%dpquery --dry-run --error 60\n{one}")
            for one in self.CELL.split(";\n", 1)
        ]
        assert [alias for alias, _, _ in ran.result.widths] == ["1: n", "2: n"]
        whole = sum(one.result.spent.rho for one in found)
        assert found[0].result.spent.rho < ran.result.spent.rho <= whole

    def test_are_confirmed_as_a_whole(self, opened, monkeypatch):
        asked = []
        monkeypatch.setattr(builtins, "input", lambda text: asked.append(text) or "n")
        ran = opened.run(f"%%dpquery --rho 0.06\n{SQL};\n{SQL.replace('sex', 'race')}")
        assert "not confirmed" in str(ran.error)
        assert len(asked) == 1
        assert opened.run("%dpbudget").result.spent.rho == 0

    def test_are_confirmed_by_what_they_cost_together(self, opened, monkeypatch):
        """Neither of them costs a quarter of what is left, but both do."""
        asked = []
        monkeypatch.setattr(builtins, "input", lambda text: asked.append(text) or "n")
        both = [SQL, SQL.replace("sex", "race")]
        ran = opened.run(f"%%dpquery --rho 0.03\n{both[0]};\n{both[1]}")
        assert "not confirmed" in str(ran.error)
        assert opened.run("%dpbudget").result.spent.rho == 0
        for one in both:
            assert opened.run(f"%%dpquery --rho 0.03\n{one}").error is None
        assert len(asked) == 1

    def test_none_is_asked_unless_all_can_be_paid(self, opened):
        ran = opened.run(f"%%dpquery --yes --rho 0.15\n{SQL};\n{SQL.replace('sex', 'race')}")
        assert "these statements cost" in str(ran.error)
        assert opened.run("%dpbudget").result.spent.rho == 0


class TestAsking:
    def test_large_spending_asks(self, opened, monkeypatch):
        asked = []
        monkeypatch.setattr(builtins, "input", lambda text: asked.append(text) or "y")
        assert opened.run(f"%%dpquery --rho 0.1\n{SQL}").error is None
        assert "55 % of what is left" in asked[0]

    def test_no_means_no(self, opened, monkeypatch):
        monkeypatch.setattr(builtins, "input", lambda text: "")
        ran = opened.run(f"%%dpquery --rho 0.1\n{SQL}")
        assert "not confirmed" in str(ran.error)
        assert opened.run("%dpbudget").result.spent.rho == 0

    def test_where_nobody_can_answer_it_is_refused(self, opened, monkeypatch):
        def nobody(text):
            raise EOFError

        monkeypatch.setattr(builtins, "input", nobody)
        ran = opened.run(f"%%dpquery --rho 0.1\n{SQL}")
        assert "Add --yes" in str(ran.error)

    def test_yes_and_a_higher_limit_do_not_ask(self, opened, monkeypatch):
        monkeypatch.setattr(builtins, "input", lambda text: pytest.fail("asked"))
        assert opened.run(f"%%dpquery --yes --rho 0.05\n{SQL}").error is None
        opened.run("%config Dpnb.ask_above = 1.0")
        assert opened.run(f"%%dpquery --rho 0.15\n{SQL}").error is None

    def test_small_and_free_requests_do_not_ask(self, opened, monkeypatch):
        monkeypatch.setattr(builtins, "input", lambda text: pytest.fail("asked"))
        assert opened.run(f"%%dpquery --rho 0.01\n{SQL}").error is None
        assert opened.run(f"%%dpquery --rho 0.01\n{SQL}").error is None


class TestOptions:
    def test_python_twin_of_config(self, shell):
        assert dpnb.options(display="static", ask_above=0.5) == {
            "display": "static",
            "ask_above": 0.5,
        }
        assert "Current: 'static'" in shell.run("%config Dpnb").stdout

    @pytest.mark.parametrize("bad", [{"display": "loud"}, {"ask_above": 2.0}])
    def test_bad_values_are_refused(self, shell, bad):
        with pytest.raises(DpnbError):
            dpnb.options(**bad)

    def test_without_the_extension_says_so(self, bare_shell):
        with pytest.raises(DpnbError, match="load_ext"):
            dpnb.options()


class TestProgressAndInterrupt:
    def test_elapsed_time_is_shown_on_slow_requests_and_goes_away(self, opened, monkeypatch):
        import dpnb.interrupt as sessions

        monkeypatch.setattr(sessions, "_QUIET_SECONDS", 0.0)
        monkeypatch.setattr(sessions, "_TICK_SECONDS", 0.01)
        engine = runner(next(iter(opened.ip.configurables[-1].sessions.values()))).engines["adult"]
        measure = type(engine).measure

        def slow(self, scan):
            threading.Event().wait(0.1)
            return measure(self, scan)

        monkeypatch.setattr(type(engine), "measure", slow)
        ran = opened.run(f"%%dpquery --rho 0.01\n{SQL}")
        assert "Working: 0 s" in ran.stdout
        assert isinstance(ran.result, Answer)

    @pytest.mark.parametrize("committed", [False, True])
    def test_an_interrupt_says_whether_anything_was_charged(self, opened, monkeypatch, committed):
        import dpnb.interrupt as sessions

        session = next(iter(opened.ip.configurables[-1].sessions.values()))
        engine = runner(session).engines["adult"]
        entered, interrupted = threading.Event(), threading.Event()
        measure = type(engine).measure

        def waiting_measure(self, scan):
            exact = measure(self, scan)
            if not committed:
                entered.set()
                interrupted.wait(5)
            return exact

        commit = Runner._commit

        def waiting_commit(self, *args):
            if committed:
                entered.set()
                interrupted.wait(5)
            return commit(self, *args)

        def press_stop():
            entered.wait(10)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press_stop, daemon=True).start()
        monkeypatch.setattr(type(engine), "measure", waiting_measure)
        monkeypatch.setattr(Runner, "_commit", waiting_commit)
        monkeypatch.setattr(Runner, "interrupt", lambda self, thread: interrupted.set())
        monkeypatch.setattr(sessions, "_TICK_SECONDS", 0.01)
        ran = opened.run(f"%%dpquery --rho 0.01\n{SQL}")
        assert type(ran.error).__name__ == "InterruptedRequestError"
        charged = opened.run("%dpbudget").result.spent.rho > 0
        assert charged == committed
        expected = (
            "Run the same cell again to see it: that is free."
            if committed
            else "Nothing was charged"
        )
        assert expected in str(ran.error)


class TestStatus:
    def test_budget_tables_history(self, opened):
        opened.run(f"%%dpquery --rho 0.01\n{SQL}")
        assert "left" in opened.run("%dpbudget").stdout
        assert "marital_status" in opened.run("%dptables").stdout
        assert "SELECT sex" in opened.run("%dphistory").stdout

    @pytest.mark.parametrize("magic", ["%%dpquery", "%%dpinfer", "%dpopen", "%dpbudget"])
    def test_help_has_an_example(self, shell, magic):
        name = magic.strip("%")
        text = shell.ip.find_cell_magic(name) if magic[:2] == "%%" else shell.ip.find_magic(name)
        assert "Example" in text.__doc__


def completions(shell, text):
    shell.ip.Completer.use_jedi = False
    with provisionalcompleter():
        return [found.text for found in shell.ip.Completer.completions(text, len(text))]


class TestCompletion:
    @pytest.mark.parametrize(
        ("cell", "expected"),
        [
            ("%%dpquery --dr", "--dry-run"),
            ("%%dpquery --no-h", "--no-history"),
            ("%%dpinfer --gua", "--guaranteed"),
            ("%%dpinfer\nSELECT COUNT(*) FROM adult WHERE sex = 'Fem", "Female"),
            ("%%dpquery --rho 1\nSELECT marital_s", "marital_status"),
            ("%%dpquery --rho 1\nSELECT COUNT(*) FROM ad", "adult"),
            ("%%dpquery\nSELECT COUNT(*) FROM adult WHERE marital_status = 'Married-c", "Married-civ-spouse"),
            ("%%dpquery\nSELECT COUNT(*) FROM adult WHERE sex IN ('Male', 'Fe", "Female"),
            ("%%dpquery\n-- don't\nSELECT COUNT(*) FROM adult WHERE sex = 'Fe", "Female"),
            ("%%dpquery\n-- don't\nSELECT marital_s", "marital_status"),
            ("%%dpquery\nSELECT COUNT(*) FROM adult WHERE native_country = 'Trinadad", "Trinadad&Tobago"),
        ],
    )  # fmt: skip
    def test_offers_public_names(self, opened, cell, expected):
        assert any(expected.endswith(text) for text in completions(opened, cell))

    def test_functions_fit_the_kinds_of_the_columns(self):
        kinds = {
            "a": dpnb.Schema({"day": dpnb.Date("2024-01-01", "2024-12-31")}),
            "b": dpnb.Schema({"city": dpnb.Category(["Bern", "Paris"])}),
        }
        tables = {name: SimpleNamespace(schema=schema) for name, schema in kinds.items()}
        sessions = {"x": SimpleNamespace(_backend=SimpleNamespace(tables=tables))}
        head = "%%dpquery\n"
        offered = {
            before: {*candidates(head + before, sessions)}
            for before in (
                "SELECT ", "FROM a SELECT ", "SELECT COUNT(*) FROM b GROUP\nBY ", "SELECT COUNT(*) FROM a ORDER BY ",
                "SELECT COUNT(*) FROM b WHERE city = '",
            )
        }  # fmt: skip
        both, dates, texts, order, values = offered.values()
        assert {"DATE_TRUNC(", "UPPER("} <= both
        functions = {"DATE_TRUNC(", "UPPER("}
        assert (functions & dates, functions & texts) == ({"DATE_TRUNC("}, {"UPPER("})
        assert not {"DATE_TRUNC(", "UPPER("} & order
        assert values == {"Bern", "Paris"}

    def test_stays_out_of_other_cells(self, opened):
        assert "marital_status" not in completions(opened, "mari")
