"""``%dprehearse``: the same cell, on generated data, with one option more."""

from __future__ import annotations

import pytest

import dpnb
from dpnb.errors import RequestError
from dpnb.magics.completion import candidates
from tests.kit.inside import runner

pytestmark = pytest.mark.fast

SQL = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"
WORDS = "GENERATED DATA: nothing here is real."


class TestOpening:
    def test_says_what_it_is_and_how_to_ask_it(self, opened):
        ran = opened.run("%dprehearse")
        assert ran.error is None
        assert ran.stdout == (
            f"{WORDS} Opened adult-rehearsal with generated data: 10,000 rows in each table, "
            "rho 0.185 (epsilon 3 at delta 1e-6) to spend. Add --on adult-rehearsal to a cell to use "
            "it. Other cells spend the real budget, as before.\n"
        )

    def test_needs_a_session(self, shell):
        assert "no session is open" in str(shell.run("%dprehearse").error)

    def test_as_binds_it_for_python(self, opened):
        opened.run("%dprehearse --as trial --rows 300 --seed 4")
        trial = opened.names["trial"]
        assert isinstance(trial, dpnb.Session)
        assert len(runner(trial).own["adult"].source) == 300
        assert WORDS in opened.run(f"%%dpquery --on trial --rho 0.01\n{SQL}").stdout

    def test_of_another_session_by_name(self, opened):
        opened.run("%dpopen adult --as second --rho 0.7")
        opened.run("%dpopen adult --as third --rho 0.9")
        assert "Opened second-rehearsal" in opened.run("%dprehearse --on second --rows 20").stdout
        assert "rho 0.7" in repr(opened.run("%dpbudget --on second-rehearsal").result)
        assert "rho 0.9" in repr(opened.run("%dpbudget").result)

    def test_of_a_variable(self, shell):
        shell.names["mine"] = dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(rho=1))
        assert "Opened mine-rehearsal" in shell.run("%dprehearse --rows 20").stdout
        assert WORDS not in repr(shell.run("%dpbudget").result)
        shell.names["owner"] = dpnb.Curator(dpnb.datasets.adult(), budget=dpnb.Budget(rho=1))
        assert "Opened owner-rehearsal" in shell.run("%dprehearse --on owner --rows 20").stdout

    def test_dpopen_makes_it_the_default_and_says_what_it_is(self, opened):
        opened.run("%dprehearse --as trial --rows 50")
        assert opened.run("%dpopen trial").stdout.startswith(f"{WORDS} Using trial: ")
        assert WORDS in opened.run(f"%%dpquery --rho 0.01\n{SQL}").stdout

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("--rows -1", "rows must be a whole number, got -1. Give one from 0 to 10,000,000."),
            ("--rows many", "--rows 'many' is not a number"),
            ("--seed 0.5", "--seed '0.5' is not a whole number"),
            ("--as adult", "'adult' is the name of the real session. Choose another name."),
            ("--as 2nd", "'2nd' is not a variable name. Use letters, digits and underscores."),
            ("--on nowhere", "there is no session 'nowhere'"),
            ("--budget 3", "%dprehearse"),
        ],
    )
    def test_refusals(self, opened, line, words):
        error = opened.run(f"%dprehearse {line}").error
        assert isinstance(error, RequestError)
        assert words in str(error)


class TestCells:
    def test_a_cell_runs_unchanged_with_one_option_more(self, opened):
        opened.run("%dprehearse")
        cells = [
            f"%%dpquery --rho 0.01 -o answer {{}}\n{SQL}",
            "%%dpexplain answer --rho 0.01 --anyway {}\n'Male' > 'Female'",
            f"%%dpdecide --most 0.01 {{}}\n{SQL} HAVING COUNT(*) > 100",
            "%%dpinfer {}\nSELECT COUNT(*) AS n FROM adult",
            f"%%dpquery --rho 0.02 --dry-run {{}}\n{SQL}",
        ]
        for on, stamped in (("--on adult-rehearsal", True), ("", False)):
            for cell in cells:
                ran = opened.run(cell.format(on))
                assert ran.error is None, cell
                assert repr(ran.result).startswith(WORDS) == stamped, cell

    def test_nothing_of_the_session_is_spent(self, opened):
        opened.run("%dprehearse")
        opened.run(f"%%dpquery --rho 0.1 --on adult-rehearsal --yes\n{SQL}")
        assert len(opened.run("%dphistory").result) == 0
        assert opened.run("%dpbudget").result.spent.rho == 0
        assert len(opened.run("%dphistory --on adult-rehearsal").result) == 1

    def test_a_question_finds_its_rehearsal(self, opened):
        opened.run("%dprehearse")
        opened.run(f"%%dpquery --rho 0.01 -o answer --on adult-rehearsal\n{SQL}")
        ran = opened.run("%%dpexplain answer --rho 0.01 --anyway\n'Male' > 'Female'")
        assert repr(ran.result).startswith(WORDS)
        assert opened.run("%dpbudget").result.spent.rho == 0

    def test_again_is_a_new_one(self, opened):
        for _ in range(2):
            opened.run("%dprehearse --rows 50")
            assert opened.run("%dpbudget --on adult-rehearsal").result.spent.rho == 0
            opened.run(f"%%dpquery --rho 0.01 --on adult-rehearsal\n{SQL}")
        assert WORDS not in repr(opened.run("%dpbudget").result)

    def test_completion_offers_it(self, opened):
        opened.run("%dprehearse --rows 50")
        sessions = opened.ip.magics_manager.registry["Dpnb"].sessions
        assert candidates("%%dpquery --on ", sessions) == ["adult-rehearsal", "adult"]
