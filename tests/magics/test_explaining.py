"""``%%dpexplain`` as a user types it, in an in-process shell."""

from __future__ import annotations

import builtins
from fractions import Fraction

import pytest
from IPython.core.completer import provisionalcompleter

import dpnb
from dpnb.display.text import CONDITIONAL
from dpnb.errors import DpnbError
from dpnb.explain.price import ExplanationPrice
from dpnb.privacy.loss import Picked

SQL = "SELECT marital_status, AVG(high_income) AS share, COUNT(*) AS n FROM adult GROUP BY 1"
REAL = "'Married-civ-spouse' > 'Never-married'"


@pytest.fixture
def asked(shell):
    """A shell that holds the answer ``income``."""
    assert shell.run("%dpopen adult --rho 2 --delta 1e-6").error is None
    ran = shell.run(f"%%dpquery --rho 0.1 -q -o income\n{SQL.replace('1', 'marital_status')}")
    assert ran.error is None
    return shell


class TestExplain:
    def test_shows_and_returns_the_explanation(self, asked):
        ran = asked.run(f"%%dpexplain income --rho 0.2\n{REAL}")
        assert ran.error is None
        assert isinstance(ran.result, dpnb.Explanation)
        assert len(ran.result.to_frame()) == 5
        assert ran.result.spent.rho == Fraction(1, 5)
        assert "not what causes what" in ran.stdout

    @pytest.mark.parametrize("line", ["income --rho 0.2 -o why", "why << income --rho 0.2"])
    def test_binds_and_shows(self, asked, line):
        ran = asked.run(f"%%dpexplain {line}\n{REAL}")
        assert asked.names["why"] is ran.result

    def test_quiet_binds_only(self, asked):
        ran = asked.run(f"%%dpexplain income -q -o why --rho 0.2\n{REAL}")
        assert ran.result is None
        assert ran.stdout == ""
        assert isinstance(asked.names["why"], dpnb.Explanation)

    def test_the_same_cell_again_is_free(self, asked):
        first = asked.run(f"%%dpexplain income --rho 0.2\n{REAL}").result
        again = asked.run(f"%%dpexplain income --rho 0.2\n{REAL}").result
        assert again.rows == first.rows
        assert again.spent.rho == 0

    def test_costs_a_fifth_of_what_is_left_when_nothing_is_said(self, asked):
        priced = asked.run(f"%%dpexplain income --dry-run\n{REAL}")
        assert "it would use a fifth of what is left" in priced.stdout
        ran = asked.run(f"%%dpexplain income\n{REAL}")
        assert ran.result.spent.rho == priced.result.spent.rho == Fraction("0.38")
        again = asked.run(f"%%dpexplain income\n{REAL}").result
        assert again.spent.rho == 0
        assert again.rows == ran.result.rows

    def test_the_share_of_the_lower_ends_of_ranks(self, asked):
        narrow, wide = (
            asked.run(f"%%dpexplain income --rho 0.2 --lower {share}\n{REAL}").result.record()
            for share in ("0.5", "0.1")
        )
        assert (narrow["lower"], wide["lower"]) == ("1/2", "1/10")
        sigmas = [made["noise"]["ranks"]["lower"]["sigma"] for made in (narrow, wide)]
        assert sigmas[1] / sigmas[0] == pytest.approx(5**0.5)

    def test_another_aggregate_weights_and_a_constant(self, asked):
        ran = asked.run(
            "%%dpexplain income --of n --rho 0.2\n"
            "0.5*'Never-married' + 0.5*'Divorced' > 'Widowed' + 1000"
        )
        assert ran.result.question.weights == (0.5, 0.5, -1.0)
        assert ran.result.question.constant == 1000
        assert ran.result.question.aggregate == "n"

    def test_a_question_is_explained_as_it_stands(self, asked):
        asked.run("q = income.compare('Married-civ-spouse', 'Never-married')")
        ran = asked.run("%dpexplain q --rho 0.2")
        assert ran.error is None
        assert ran.result.question == asked.names["q"]

    def test_options_on_candidates(self, asked):
        ran = asked.run(
            f"%%dpexplain income --rho 0.2 --attributes age,sex --length 2 --k 3\n{REAL}"
        )
        assert ran.result.candidates == 16
        assert len(ran.result.rows) == 3
        ran = asked.run(f"%%dpexplain income --rho 0.2 --exclude native_country\n{REAL}")
        assert ran.result.candidates == 61
        asked.names["parts"] = ["age > 40", "age <= 40"]
        ran = asked.run(f"%%dpexplain income --rho 0.2 --predicates parts --k 1\n{REAL}")
        assert ran.result.candidates == 2

    def test_budgets_by_name_and_the_papers_mode(self, asked):
        ran = asked.run(
            f"%%dpexplain income --mode paper --rho topk=0.05,influence=0.05,rank=0.1\n{REAL}"
        )
        assert ran.result.mode == "paper"
        assert ran.result.question.mode == "paper"
        assert dict(ran.result.rho) == {"topk": "1/20", "influence": "1/20", "rank": "1/10"}

    @pytest.mark.parametrize(
        "option",
        ["--rho :cost", "--epsilon :cost", "--rho topk=0.1,influence=0.1,rank=:cost"],
    )
    def test_a_cost_may_be_a_variable_and_a_picked_one_stays_one(self, asked, option):
        asked.names["cost"] = Picked(0.2)
        ran = asked.run(f"%%dpexplain income --yes {option}\n{REAL}")
        assert ran.error is None
        assert ran.result.conditional
        assert CONDITIONAL in ran.stdout
        asked.names["cost"] = 0.1
        assert not asked.run(f"%%dpexplain income --yes --rho :cost\n{REAL}").result.conditional

    def test_a_width_instead_of_a_cost(self, asked):
        ran = asked.run(f"%%dpexplain income --error 2%\n{REAL}")
        assert ran.result.margin_of_error == pytest.approx(0.02, rel=1e-6)


def test_who_pays_is_not_guessed(shell):
    """Two analysts in one kernel: the answer does not say whose it is."""
    curator = dpnb.Curator(
        [dpnb.datasets.census(500, 1)], budget=dpnb.Budget(rho=9), analysts={"alice": 1, "bob": 1}
    )
    shell.names.update({name: curator.session(name) for name in ("alice", "bob")})
    sql = "SELECT sex, COUNT(*) AS n FROM census GROUP BY sex"
    for name in ("alice", "bob"):
        shell.names["found"] = shell.names[name].query(sql, rho=1)
    asked = "--rho 0.3 --anyway\n'Female' > 'Male'"
    ran = shell.run(f"%%dpexplain found {asked}")
    assert "--on NAME" in str(ran.error)
    assert shell.names["alice"].budget.spent.rho == 1
    ran = shell.run(f"%%dpexplain found --on bob {asked}")
    assert ran.error is None
    assert shell.names["alice"].budget.spent.rho == 1
    assert shell.names["bob"].budget.spent.rho == Fraction("1.3")


class TestPrice:
    def test_dry_run_prices_and_spends_nothing(self, asked):
        ran = asked.run(f"%%dpexplain income --dry-run --rho 0.2\n{REAL}")
        assert isinstance(ran.result, ExplanationPrice)
        assert "Nothing was spent" in ran.stdout
        assert "103 predicates" in ran.stdout
        assert asked.run("%dpbudget").result.spent.rho == Fraction(1, 10)

    def test_a_wanted_width_is_priced(self, asked):
        narrow = asked.run(f"%%dpexplain income --dry-run --error 1%\n{REAL}").result
        wide = asked.run(f"%%dpexplain income --dry-run --error 0.02\n{REAL}").result
        assert narrow.spent.rho / wide.spent.rho == pytest.approx(4, rel=1e-6)

    def test_large_spending_asks(self, asked, monkeypatch):
        said = []
        monkeypatch.setattr(builtins, "input", lambda text: said.append(text) or "")
        ran = asked.run(f"%%dpexplain income --rho 1\n{REAL}")
        assert "53 % of what is left" in said[0]
        assert "not confirmed" in str(ran.error)
        assert asked.run("%dpbudget").result.spent.rho == Fraction(1, 10)


class TestDoubt:
    def test_what_noise_may_explain_is_shown_but_not_explained(self, asked):
        cell = "'Married-AF-spouse' > 'Married-civ-spouse'"
        priced = asked.run(f"%%dpexplain income --dry-run\n{cell}")
        assert "The difference itself could be noise" in priced.stdout
        assert not priced.result.valid
        ran = asked.run(f"%%dpexplain income\n{cell}")
        assert ran.error is None
        assert isinstance(ran.result, dpnb.Question)
        assert "Nothing was spent." in ran.stdout
        assert "--anyway" in ran.stdout
        assert "The difference could be noise" in ran.stdout
        assert asked.run("%dpbudget").result.spent.rho == Fraction(1, 10)

    def test_the_other_way_round_is_offered(self, asked):
        ran = asked.run("%%dpexplain income\n'Never-married' > 'Married-civ-spouse'")
        assert isinstance(ran.result, dpnb.Question)
        assert "Swap the groups" in ran.stdout

    def test_the_default_is_not_spent_on_noise(self, asked):
        assert (
            asked.run("%%dpquery --yes --rho 1.89\nSELECT COUNT(*) AS n FROM adult").error is None
        )
        cell = "'Divorced' > 'Never-married'"
        for line in ("%%dpexplain income", "%%dpexplain income --yes"):
            ran = asked.run(f"{line}\n{cell}")
            assert "margin of error would be" in str(ran.error)
            assert "--rho ..., or --error 0.2 for a margin" in str(ran.error)
        assert "mostly noise" in asked.run(f"%%dpexplain income --dry-run\n{cell}").stdout
        for option in ("--rho 0.002", "--yes --anyway"):
            assert asked.run(f"%%dpexplain income --k 1 {option}\n{cell}").error is None

    def test_anyway_explains_with_a_warning(self, asked):
        ran = asked.run(
            "%%dpexplain income --anyway --rho 0.2\n'Married-AF-spouse' > 'Married-civ-spouse'"
        )
        assert not ran.result.relative
        assert "may be meaningless" in ran.stdout


MISTAKES = [
    (f"%%dpexplain nobody\n{REAL}", "there is no answer named 'nobody'. Declared: income."),
    ("%%dpexplain income\n ", "the cell is empty below %%dpexplain"),
    ("%%dpexplain income\n'Divorced'", ""),
    ("%%dpexplain income\n'Divorced' > 'Widow'", "Did you mean 'Widowed'?"),
    ("%%dpexplain income\n'Divorced' > 'Divorced'", "twice"),
    ("%%dpexplain income\n'Divorced' = 'Widowed'", ""),
    ("%%dpexplain income --of sahre\n'Divorced' > 'Widowed'", "Did you mean share?"),
    (f"%%dpexplain income --k many\n{REAL}", "k must be a whole number from 1 to 100, got 'many'"),
    (f"%%dpexplain income --k 2.5\n{REAL}", "k must be a whole number from 1 to 100, got 2.5"),
    (f"%%dpexplain income --error wide\n{REAL}", "error must be a finite number, got 'wide'"),
    (f"%%dpexplain income --rho 3 --yes\n{REAL}", "is left"),
    (f"%%dpexplain income --rho topk=1\n{REAL}", "must name exactly topk, influence, rank"),
    (f"%%dpexplain income --rho :cost\n{REAL}", "--rho :cost has no value"),
    (f"%%dpexplain income --epsilon :cost\n{REAL}", "--epsilon :cost has no value"),
    (f"%%dpexplain income --confidence 1\n{REAL}", "between 0 and 1, got 1"),
    (f"%%dpexplain income --mode loose\n{REAL}", "mode"),
    (f"%%dpexplain income --predicates nothing\n{REAL}", "no list named 'nothing'"),
    (f"%%dpexplain income --attributes hours_per_week\n{REAL}", "no declared values"),
    (f"%%dpexplain income --exclude ag\n{REAL}", "there is no column 'ag'"),
    (f"%%dpexplain income --length 4\n{REAL}", "from 1 to 3, got 4"),
    (f"%%dpexplain income --on nobody\n{REAL}", "no session 'nobody'"),
    (f"%%dpexplain\n{REAL}", "arguments are required"),
]


def test_mistakes_fail_with_one_line_and_cost_nothing(asked):
    for cell, words in MISTAKES:
        ran = asked.run(cell)
        assert isinstance(ran.error, DpnbError), cell
        assert words in str(ran.error), cell
        assert "Traceback" not in ran.stdout + ran.stderr, cell
        assert asked.run("%dpbudget").result.spent.rho == Fraction(1, 10), cell


class TestCompletion:
    @pytest.mark.parametrize(
        ("cell", "expected"),
        [
            ("%%dpexplain inc", "income"),
            ("%%dpexplain income --an", "--anyway"),
            ("%%dpexplain income\n'Married-c", "Married-civ-spouse"),
            ("%%dpexplain income\n'Divorced' > 'Nev", "Never-married"),
        ],
    )
    def test_offers_answers_options_and_groups(self, asked, cell, expected):
        asked.ip.Completer.use_jedi = False
        with provisionalcompleter():
            found = [c.text for c in asked.ip.Completer.completions(cell, len(cell))]
        assert any(expected.endswith(text) for text in found)

    def test_help_has_an_example(self, shell):
        assert "Example" in shell.ip.find_cell_magic("dpexplain").__doc__


@pytest.mark.parametrize("line", ["q --of n", "q --planned"])
def test_options_of_a_comparison_do_not_fit_a_question(asked, line):
    asked.run("q = income.compare('Married-civ-spouse', 'Never-married')")
    assert "is already a question" in str(asked.run(f"%dpexplain {line}").error)


def test_a_part_named_twice_is_refused(asked):
    ran = asked.run(f"%%dpexplain income --rho topk=0.1,topk=0.2,influence=0.1,rank=0.1\n{REAL}")
    assert "names a part twice" in str(ran.error)
