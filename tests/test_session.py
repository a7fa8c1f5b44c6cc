"""A session from opening to reopening: answers, prices, the ledger, refusals, interrupts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, DpnbError, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import (
    BudgetError,
    EngineError,
    InterruptedRequestError,
    LedgerError,
    RequestError,
    SchemaError,
    SqlError,
)
from dpnb.ledger.ledger import Ledger
from dpnb.privacy.loss import Picked
from dpnb.privacy.path import grid
from dpnb.releases.runner import Runner
from tests.kit.inside import ask, runner
from tests.kit.one_database import one_database  # noqa: F401

MARITAL = "SELECT marital_status, AVG(high_income) AS m FROM adult GROUP BY marital_status"
SEXES = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"
EXACT = {"Female": 10_771, "Male": 21_790}


@pytest.fixture(scope="module")
def adult():
    return dpnb.datasets.adult()


@pytest.fixture(scope="module")
def rich(adult):
    """A session with more budget than the tests that share it use."""
    with dpnb.Session(adult, budget=dpnb.Budget(rho=100, delta=1e-6)) as session:
        yield session


SCHEMA = Schema({"sex": Category(["F", "M"]), "n": Integer(0, 9), "x": Real(0, 1, bins=[0, 1])})


def small(rows=60, **changes):
    frame = pd.DataFrame({"sex": ["F", "M"] * rows, "n": [3, 5] * rows, "x": [0.25, 0.5] * rows})
    return Table("t", frame.assign(**changes), SCHEMA)


def opened(ledger=None, **options):
    options = {"budget": dpnb.Budget(rho=1), **options}
    return dpnb.Session(options.pop("table", small()), ledger=ledger, **options)


def released(answer):
    return [(e.total, e.count) for e in answer.estimates]


COUNT = "SELECT COUNT(*) AS k FROM t"
BY_SEX = "SELECT sex, COUNT(*) AS k, AVG(x) AS m FROM t GROUP BY sex"


class TestAdult:
    def test_counts_lie_within_their_intervals(self, rich):
        frame = rich.query(SEXES, rho=10, confidence=1 - 1e-9).to_frame()
        assert list(frame.columns) == ["sex", "n", "n_low", "n_high"]
        for row in frame.itertuples():
            assert row.n_low <= EXACT[row.sex] <= row.n_high
            assert row.n_high - row.n_low < 10

    def test_means_and_sums_lie_within_their_intervals(self, rich, adult):
        data = pd.read_parquet(adult.source)
        answer = rich.query(
            "SELECT sex, AVG(age) AS a, SUM(hours_per_week) AS h FROM adult WHERE age > 30 GROUP BY sex",
            rho=5,
            confidence=1 - 1e-9,
        )
        exact = data[data["age"] > 30].groupby("sex", observed=True)
        for row in answer.to_frame().itertuples():
            assert row.a_low <= exact["age"].mean()[row.sex] <= row.a_high
            assert row.h_low <= exact["hours_per_week"].sum()[row.sex] <= row.h_high

    def test_declared_groups_are_always_shown_present_or_not(self, rich):
        frame = rich.query(
            "SELECT workclass, sex, COUNT(*) AS n FROM adult WHERE age > 89 GROUP BY sex, workclass",
            rho=0.01,
        ).to_frame()
        assert len(frame) == 18
        assert list(frame.columns) == ["sex", "workclass", "n", "n_low", "n_high"]

    def test_groups_of_whole_numbers_are_the_declared_bins(self, rich):
        frame = rich.query("SELECT age, COUNT(*) AS n FROM adult GROUP BY age", rho=1).to_frame()
        assert list(frame["age"])[:2] == ["[17, 20]", "(20, 30]"]
        assert abs(frame["n"].sum() - 32_561) < 50

    def test_order_and_limit_act_on_released_rows(self, rich):
        everything = rich.query(MARITAL, rho=0.5)
        top = rich.query(MARITAL + " ORDER BY m DESC LIMIT 2", rho=0.5)
        assert top.spent.rho == 0
        best = everything.to_frame().sort_values("m", ascending=False)
        assert list(top.to_frame()["m"]) == list(best["m"])[:2]

    def test_a_question_about_two_groups(self, rich):
        answer = rich.query(MARITAL, rho=0.5)
        question = answer.compare("Married-civ-spouse", "Never-married")
        assert question.valid
        assert 0.2 < question.low < question.high < 0.6

    def test_parameters_are_bound(self, rich):
        sql = "SELECT COUNT(*) AS n FROM adult WHERE age > :age AND sex = :sex"
        bound = rich.query(sql, rho=0.1, params={"age": np.int64(40), "sex": "Male"})
        written = rich.query(sql.replace(":age", "40").replace(":sex", "'Male'"), rho=0.1)
        assert written.spent.rho == 0
        assert released(written) == released(bound)

    def test_census_has_any_size(self):
        table = dpnb.datasets.census(2_000, seed=3)
        with dpnb.Session(table, budget=dpnb.Budget(rho=1)) as session:
            frame = session.query("SELECT COUNT(*) AS n FROM census", rho=0.9).to_frame()
        assert abs(frame["n"][0] - 2_000) < 10


class TestSpending:
    def test_a_repeated_request_costs_nothing_and_shows_the_same_numbers(self):
        with opened() as session:
            first = session.query(BY_SEX, rho=0.1)
            again = session.query(BY_SEX, rho=0.1)
            assert (first.spent.rho, first.stored) == (Fraction(1, 10), False)
            assert (again.spent.rho, again.stored) == (0, True)
            assert released(again) == released(first)
            assert session.budget.spent.rho == Fraction(1, 10)

    def test_the_stored_answer_is_the_one_that_another_kernel_shows(self, tmp_path):
        with opened(ledger=tmp_path / "t.ledger") as session:
            first = session.query(BY_SEX, rho=0.1)
            plain = first.to_dict()
            # whatever its owner does to an answer is not seen by others
            first.levels.clear()
            next(iter(first.definitions.values())).clear()
            again = session.query(BY_SEX, rho=0.1)
        with opened(ledger=tmp_path / "t.ledger") as session:
            assert session.query(BY_SEX, rho=0.1).to_dict() == again.to_dict()
        shown = again.to_dict()
        assert {name for name in plain if plain[name] != shown[name]} == {"spent", "stored"}

    def test_a_coarser_request_gets_the_finest_numbers_held(self):
        with opened() as session:
            fine = session.query(BY_SEX, rho=0.2)
            coarse = session.query(BY_SEX, rho=0.1)
            assert coarse.spent.rho == 0
            assert released(coarse) == released(fine)

    def test_a_finer_request_costs_the_difference(self):
        with opened() as session:
            session.query(BY_SEX, rho=0.1)
            finer = session.query(BY_SEX, rho="0.25")
            assert finer.spent.rho == Fraction(15, 100)
            assert finer.look == 2
            old = session.query(BY_SEX, rho=0.1)
            assert old.stored
            assert old.finer
            assert session.budget.spent.rho == Fraction(1, 4)

    def test_ten_times_a_tenth_is_the_whole_budget(self):
        with opened() as session:
            for n in range(10):
                session.query(f"SELECT COUNT(*) FROM t WHERE n >= {n}", rho=0.1)
            assert session.budget.remaining.rho == 0
            with pytest.raises(BudgetError):
                session.query("SELECT COUNT(*) FROM t WHERE x > 0.5", rho="1e-8")

    def test_accuracy_first_meets_its_error(self):
        with opened(budget=dpnb.Budget(rho=100)) as session:
            answer = session.query(BY_SEX, error={"k": 3, "m": 0.1}, rows=50)
            frame = answer.to_frame()
            assert ((frame["k_high"] - frame["k_low"]) / 2 <= 3 + 1e-9).all()
            assert ((frame["m_high"] - frame["m_low"]) / 2 <= 0.1 + 1e-9).all()

    def test_epsilon_needs_a_delta_in_a_zcdp_session(self):
        with opened() as session, pytest.raises(RequestError, match="no delta"):
            session.query(COUNT, epsilon=0.1)
        with opened(budget=dpnb.Budget(epsilon=3, delta=1e-6)) as session:
            assert session.query(COUNT, epsilon=0.5).spent.epsilon_at(1e-6) <= 0.5 * (1 + 1e-9)

    def test_history_lists_what_was_paid(self):
        with opened() as session:
            assert len(session.history) == 0
            session.query(COUNT, rho=0.1)
            session.query(COUNT, rho=0.1)
            session.query(COUNT, rho=0.3)
            assert [row[3] for row in session.history] == ["rho 0.1", "rho 0.2"]


class TestPrice:
    @pytest.mark.parametrize(
        "accuracy",
        [{"rho": 0.1}, {"error": 20, "rows": 10}, {"rho": 0.2, "looks": "any"}],
        ids=str,
    )
    def test_it_is_what_the_request_then_costs(self, accuracy):
        with opened(budget=dpnb.Budget(rho=3)) as session:
            for sql in (COUNT, BY_SEX, BY_SEX, "SELECT n, SUM(x) FROM t GROUP BY n"):
                price = session.price(sql, **accuracy)
                before = session.budget.spent.rho
                answer = session.query(sql, **accuracy)
                assert answer.spent.rho == price.spent.rho
                assert session.budget.spent.rho - before == price.spent.rho

    def test_it_spends_nothing_and_says_what_is_affordable(self):
        with opened() as session:
            assert session.price(COUNT, rho=1).affordable
            assert not session.price(COUNT, rho="1.0001").affordable
            assert session.budget.spent.rho == 0
            assert len(session.history) == 0

    def test_widths_are_those_of_the_answer(self):
        with opened() as session:
            price = session.price(COUNT, rho=0.5)
            frame = session.query(COUNT, rho=0.5).to_frame()
            width = (frame["k_high"][0] - frame["k_low"][0]) / 2
            assert price.widths[0][2] == pytest.approx(width)

    def test_a_list_is_priced_as_if_asked_in_turn(self):
        with opened() as session:
            asked = [COUNT, COUNT, BY_SEX, COUNT + " WHERE n = 3"]
            prices = session.price(asked, rho=0.4)
            assert [price.affordable for price in prices] == [True, True, True, False]
            spent = [session.query(sql, rho=0.4).spent.rho for sql in asked[:3]]
            assert spent == [price.spent.rho for price in prices[:3]]
            with pytest.raises(BudgetError):
                session.query(asked[3], rho=0.4)
            assert isinstance(session.price([COUNT], rho=0.1), list)

    def test_bad_statements_are_refused_by_price_too(self):
        with opened() as session, pytest.raises(SqlError):
            session.price([COUNT, "SELECT MIN(n) FROM t"], rho=0.1)


class TestPure:
    def test_levels_lie_on_the_public_grid_and_differences_are_charged(self):
        with opened(budget=dpnb.Budget(epsilon=4)) as session:
            first = session.query(COUNT, epsilon=0.3)
            assert first.spent.epsilon in grid()
            assert first.spent.epsilon <= Fraction(3, 10)
            second = session.query(COUNT, epsilon=1)
            assert first.spent.epsilon + second.spent.epsilon in grid()
            assert session.budget.spent.epsilon == first.spent.epsilon + second.spent.epsilon
            again = session.query(COUNT, epsilon=0.3)
            assert released(again) == released(first)

    def test_rho_is_refused(self):
        with (
            opened(budget=dpnb.Budget(epsilon=4)) as session,
            pytest.raises(RequestError, match="this ledger counts epsilon"),
        ):
            session.query(COUNT, rho=0.1)

    def test_every_aggregate_is_answered(self):
        with opened(budget=dpnb.Budget(epsilon=60)) as session:
            answer = session.query(
                "SELECT sex, COUNT(*) AS k, AVG(x) AS m, SUM(n) AS s FROM t GROUP BY sex",
                epsilon=30,
                confidence=1 - 1e-9,
            )
            frame = answer.to_frame()
            for name, exact in (("k", [60, 60]), ("m", [0.25, 0.5]), ("s", [180, 300])):
                assert (frame[f"{name}_low"] <= np.array(exact) + 1e-9).all()
                assert (frame[f"{name}_high"] >= np.array(exact) - 1e-9).all()

    def test_price_and_cap(self):
        with opened(budget=dpnb.Budget(epsilon=1)) as session:
            price = session.price(COUNT, epsilon=0.9)
            assert session.query(COUNT, epsilon=0.9).spent == price.spent
            with pytest.raises(BudgetError, match="epsilon"):
                session.query(BY_SEX, epsilon=1)


class TestPicked:
    """What rests on an amount that was picked by looking at the data says so."""

    def test_an_ordinary_answer_is_not_marked(self):
        with opened() as session:
            assert not session.query(BY_SEX, rho=0.1).conditional
            assert "onditional" not in repr(session.history)

    @pytest.mark.parametrize("name", ["rho", "epsilon"])
    def test_an_answer_at_a_picked_level_is(self, name):
        with opened(budget=dpnb.Budget(rho=1, delta=1e-6)) as session:
            found = session.query(BY_SEX, **{name: Picked(0.1)})
            assert found.conditional
            assert session.query(BY_SEX, **{name: Picked(0.1)}).conditional

    def test_later_versions_of_its_views_are_too(self):
        with opened() as session:
            session.query(BY_SEX, rho=Picked(0.1))
            finer = session.query(BY_SEX, rho=0.2)
            coarser = session.query(BY_SEX, rho=0.05)
            assert (finer.conditional, coarser.conditional) == (True, True)
            assert finer.spent.rho == Fraction(1, 10)

    def test_another_statement_is_when_it_shares_a_view(self):
        with opened() as session:
            session.query(BY_SEX, rho=Picked(0.1))
            shared = session.query("SELECT sex, COUNT(x) AS c FROM t GROUP BY sex", rho=0.1)
            apart = session.query(f"{COUNT} WHERE n > 3", rho=0.1)
            assert (shared.conditional, apart.conditional) == (True, False)

    def test_and_then_all_views_of_that_statement_are(self):
        total = "SELECT sex, SUM(n) AS s FROM t GROUP BY sex"
        with opened() as session:
            session.query(BY_SEX, rho=Picked(0.1))
            assert session.query(total.replace("SUM", "COUNT(*) AS k, SUM"), rho=0.1).conditional
            assert session.query(total, rho=0.1).conditional

    def test_numbers_stored_before_stay_as_they_were(self):
        with opened() as session:
            first = session.query(BY_SEX, rho=0.1)
            assert session.query(BY_SEX, rho=Picked(0.2)).conditional
            again = session.query(BY_SEX, rho=0.1)
            assert again.stored
            assert not again.conditional
            assert released(again) == released(first)

    def test_the_same_level_picked_or_not_are_two_requests_at_one_price(self):
        with opened() as session:
            first = session.query(BY_SEX, rho=0.1)
            picked = session.query(BY_SEX, rho=Picked(0.1))
            assert (first.conditional, picked.conditional) == (False, True)
            assert picked.spent.rho == 0
            assert released(picked) == released(first)

    def test_in_a_pure_session(self):
        with opened(budget=dpnb.Budget(epsilon=4)) as session:
            assert session.query(COUNT, epsilon=Picked(0.3)).conditional
            assert session.query(COUNT, epsilon=1).conditional

    def test_the_ledger_knows_it_for_good(self, tmp_path):
        with opened(tmp_path / "ledger") as session, opened(tmp_path / "ledger") as other:
            session.query(BY_SEX, rho=Picked(0.1))
            assert other.query(BY_SEX, rho=0.2).conditional
        with opened(tmp_path / "ledger") as session:
            again = session.query(BY_SEX, rho=Picked(0.1))
            assert (again.stored, again.conditional) == (True, True)
            assert session.query(BY_SEX, rho=0.3).conditional
            assert not session.query(COUNT, rho=0.1).conditional

    def test_a_new_data_version_starts_anew(self, tmp_path):
        with opened(tmp_path / "ledger") as session:
            session.query(BY_SEX, rho=Picked(0.1))
        with opened(tmp_path / "ledger", table=small(61), new_version=True) as session:
            assert not session.query(BY_SEX, rho=0.1).conditional

    def test_history_marks_its_cost(self):
        with opened() as session:
            session.query(COUNT, rho=0.1)
            session.query(BY_SEX, rho=Picked(0.2))
            costs = [row[3] for row in session.history]
            assert costs == ["rho 0.1", "rho 0.2, data-dependent"]
            assert "epsilon was picked by looking at the data" in repr(session.history)

    def test_a_price_is_the_same(self):
        with opened() as session:
            price = session.price(BY_SEX, rho=Picked(0.1))
            assert price == session.price(BY_SEX, rho=0.1)


REOPEN = """
import json, sys
import pandas as pd, dpnb
from tests.kit.loaded import loaded_once  # noqa: F401
frame = pd.DataFrame({"sex": ["F", "M"] * 60, "n": [3, 5] * 60, "x": [0.25, 0.5] * 60})
schema = dpnb.Schema({"sex": dpnb.Category(["F", "M"]), "n": dpnb.Integer(0, 9),
                      "x": dpnb.Real(0, 1, bins=[0, 1])})
with dpnb.Session(dpnb.Table("t", frame[::-1].copy(), schema), ledger=sys.argv[1]) as session:
    answer = session.query("SELECT sex, COUNT(*) AS k, AVG(x) AS m FROM t GROUP BY sex", rho=0.1)
    print(json.dumps([[[e.total, e.count] for e in answer.estimates], str(answer.spent.rho)]))
"""


class TestLedgerFile:
    def test_another_process_gets_the_same_answers_for_nothing(self, tmp_path):
        with opened(tmp_path / "ledger") as session:
            first = session.query(BY_SEX, rho=0.1)
        done = subprocess.run(
            [sys.executable, "-c", REOPEN, str(tmp_path / "ledger"), os.getcwd()],  # noqa: PTH109
            capture_output=True,
            text=True,
            check=True,
        )
        numbers, spent = json.loads(done.stdout)
        assert numbers == json.loads(json.dumps([list(pair) for pair in released(first)]))
        assert spent == "0"
        assert done.stderr == ""

    def test_two_sessions_see_each_other(self, tmp_path):
        with opened(tmp_path / "ledger") as one, opened(tmp_path / "ledger") as two:
            first = one.query(COUNT, rho=0.6)
            assert two.budget.remaining.rho == Fraction(4, 10)
            again = two.query(COUNT, rho=0.6)
            assert again.spent.rho == 0
            assert released(again) == released(first)
            with pytest.raises(BudgetError):
                two.query(BY_SEX, rho=0.5)
            two.query(BY_SEX, rho=0.4)
            with pytest.raises(BudgetError):
                one.query(COUNT, rho=0.7)

    @pytest.mark.parametrize(
        ("options", "part"),
        [
            ({"table": small(61)}, "has other data"),
            ({"table": small(x=0.26)}, "has other data"),
            (
                {"table": Table("t", small().source, Schema({**SCHEMA, "n": Integer(0, 8)}))},
                "has another schema",
            ),
            ({"table": Table("u", small().source, SCHEMA)}, "not to 'u'"),
            ({"budget": dpnb.Budget(rho=2)}, "was opened with Budget(rho=1)"),
            ({"budget": dpnb.Budget(epsilon=1)}, "was opened with Budget(rho=1)"),
        ],
        ids=["rows", "cell", "schema", "table", "budget", "privacy"],
    )
    def test_another_table_or_budget_is_refused(self, options, part, tmp_path):
        with opened(tmp_path / "ledger") as session:
            session.query(COUNT, rho=0.1)
        before = (tmp_path / "ledger").read_bytes()
        with pytest.raises(LedgerError) as caught:
            opened(tmp_path / "ledger", **options)
        assert part in str(caught.value)
        assert (tmp_path / "ledger").read_bytes() == before
        with opened(tmp_path / "ledger") as session:
            assert session.query(COUNT, rho=0.1).spent.rho == 0

    def test_a_new_version_keeps_what_was_spent_and_closes_old_answers(self, tmp_path):
        with opened(tmp_path / "ledger") as session:
            first = session.query(COUNT, rho=0.1)
        with opened(tmp_path / "ledger", table=small(61), new_version=True) as session:
            assert session.budget.spent.rho == Fraction(1, 10)
            second = session.query(COUNT, rho=0.1)
            assert second.spent.rho == Fraction(1, 10)
            assert (first.version, second.version) == (1, 2)
            assert released(second) != released(first)
            assert session.budget.spent.rho == Fraction(2, 10)
        with pytest.raises(LedgerError, match="other data"):
            opened(tmp_path / "ledger")
        with opened(tmp_path / "ledger", table=small(61), new_version=True) as session:
            assert session.query(COUNT, rho=0.1).spent.rho == 0

    def test_a_session_on_an_old_version_is_told_to_reopen(self, tmp_path):
        with opened(tmp_path / "ledger") as old:
            old.query(COUNT, rho=0.1)
            with opened(tmp_path / "ledger", table=small(61), new_version=True) as new:
                new.query(COUNT, rho=0.1)
            with pytest.raises(LedgerError, match="newer version of table"):
                old.query(COUNT, rho=0.2)

    def test_a_version_opened_at_the_same_moment_is_not_taken_for_its_own(
        self, tmp_path, monkeypatch
    ):
        """Another kernel writes right after the opening, before this one reads on."""
        place, once = tmp_path / "ledger", [True]
        with opened(place) as first:
            first.query(COUNT, rho=0.1)
        transaction = Ledger.transaction

        @contextlib.contextmanager
        def then_another(ledger):
            with transaction(ledger) as append:
                yield append
            if once:
                once.pop()
                opened(place, table=small(61), new_version=True).close()

        monkeypatch.setattr(Ledger, "transaction", then_another)
        # its rows are those of version 1, whose noise must not meet the rows of version 2
        with pytest.raises(LedgerError, match="newer version of table"), opened(place) as old:
            old.query(COUNT, rho=0.2)
        assert not once

    def test_the_order_of_rows_is_no_other_data(self, tmp_path):
        with opened(tmp_path / "ledger") as session:
            session.query(COUNT, rho=0.1)
        shuffled = Table("t", small().source.sample(frac=1, random_state=1), SCHEMA)
        with opened(tmp_path / "ledger", table=shuffled) as session:
            assert session.query(COUNT, rho=0.1).spent.rho == 0

    def test_a_new_ledger_needs_a_budget(self, tmp_path):
        with pytest.raises(RequestError, match="a new ledger needs a budget"):
            opened(tmp_path / "ledger", budget=None)
        with opened(tmp_path / "ledger") as session:
            session.query(COUNT, rho=0.1)

    def test_a_restored_older_copy_is_refused_with_an_anchor(self, tmp_path):
        ledger, anchor = tmp_path / "ledger", tmp_path / "anchor"
        with opened(ledger, anchor=anchor) as session:
            session.query(COUNT, rho=0.1)
            old = ledger.read_bytes()
            session.query(COUNT, rho=0.5)
        ledger.write_bytes(old)
        with pytest.raises(LedgerError, match="older than its anchor"):
            opened(ledger, anchor=anchor)


def edit(statement):
    def apply(path):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()

    return apply


def cut(path):
    path.write_bytes(path.read_bytes()[:2_000])


DAMAGE = {
    "truncated": cut,
    "overwritten": lambda path: path.write_bytes(b"Mallory was here" * 500),
    "a text": lambda path: path.write_text("budget: 5"),
    "an entry removed": edit("DELETE FROM entry WHERE seq = 3"),
    "the last two exchanged": edit("UPDATE entry SET seq = 99 WHERE seq = 3"),
    "a charge made smaller": edit("UPDATE entry SET body = replace(body, '1/5', '1/9')"),
    "a number changed": edit("UPDATE entry SET body = replace(body, '1', '2') WHERE seq = 4"),
    "the budget raised": edit(
        'UPDATE entry SET body = replace(body, \'"rho": "1"\', \'"rho": "9"\')'
    ),
    "a hash changed": edit("UPDATE entry SET hash = 'x' WHERE seq = 2"),
    "an entry without a chain": edit("INSERT INTO entry VALUES (5, '{\"kind\": \"answer\"}', 'x')"),
    "broken JSON": edit("UPDATE entry SET body = '{' WHERE seq = 4"),
}


class TestDamagedLedger:
    @pytest.mark.parametrize("name", DAMAGE)
    def test_it_is_refused(self, name, tmp_path):
        path = tmp_path / "ledger"
        with opened(path) as session:
            session.query(COUNT, rho=0.2)
            session.query(BY_SEX, rho=0.2)
        DAMAGE[name](path)
        with pytest.raises(LedgerError) as caught:
            opened(path)
        assert caught.value.hint
        assert str(path) in str(caught.value) or "does not add up" in str(caught.value)

    def test_damage_is_noticed_by_an_open_session_too(self, tmp_path):
        path = tmp_path / "ledger"
        with opened(path) as session:
            session.query(COUNT, rho=0.2)
            edit("INSERT INTO entry VALUES (4, '{\"kind\": \"answer\"}', 'x')")(path)
            with pytest.raises(LedgerError, match="changed after it was written"):
                session.query(BY_SEX, rho=0.2)

    @pytest.mark.parametrize(
        "body",
        [
            "{}",
            "[]",
            '{"kind": "open"}',
            '{"kind": "answer", "analyst": "x"}',
            "not JSON",
            '{"kind": 5}',
        ],
    )
    def test_well_chained_entries_of_an_unknown_shape_are_refused_too(self, body, tmp_path):
        from dpnb.ledger.ledger import _digest

        path = tmp_path / "ledger"
        opened(path).close()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            last = connection.execute("SELECT hash FROM entry ORDER BY seq DESC").fetchone()[0]
            connection.execute("INSERT INTO entry VALUES (3, ?, ?)", (body, _digest(last, body)))
            connection.commit()
        with pytest.raises(LedgerError):
            opened(path)

    def test_a_locked_ledger_says_so_and_charges_nothing(self, tmp_path, monkeypatch):
        path = tmp_path / "ledger"
        with opened(path) as session:
            session.query(COUNT, rho=0.1)
            runner(session).store.ledger._storage._connection.execute("PRAGMA busy_timeout = 50")
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                with pytest.raises(LedgerError, match="in use by another kernel"):
                    session.query(BY_SEX, rho=0.1)
                other.execute("ROLLBACK")
            assert session.budget.spent.rho == Fraction(1, 10)
            assert session.query(BY_SEX, rho=0.1).spent.rho == Fraction(1, 10)

    def test_a_ledger_that_cannot_be_written_says_so(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = folder / "ledger"
            opened(path).close()
            path.chmod(0o444)
            folder.chmod(0o555)
            root = os.geteuid() == 0
            if root:
                os.seteuid(65_534)
            try:
                with pytest.raises(LedgerError, match="cannot be written"):
                    opened(path)
                with pytest.raises(LedgerError, match="cannot be"):
                    opened(folder / "new")
            finally:
                if root:
                    os.seteuid(0)
                folder.chmod(0o755)

    def test_a_missing_folder_says_so(self, tmp_path):
        with pytest.raises(LedgerError, match="Check that the folder exists, and name a file"):
            opened(tmp_path / "none" / "ledger")
        with pytest.raises(LedgerError):
            opened(tmp_path)


BAD_REQUESTS = [
    ({}, "needs a privacy cost or a margin of error"),
    ({"rho": 0.1, "error": 5}, "cannot be given together"),
    ({"rho": 0}, "rho must be above 0, got 0. Give rho as a positive number, such as 0.1."),
    ({"rho": -1}, "rho must be above 0, got -1. Give rho as a positive number, such as 0.1."),
    ({"rho": float("nan")}, "rho must be a finite number, got"),
    ({"rho": float("inf")}, "rho must be a finite number, got"),
    ({"rho": "much"}, "rho must be a finite number, got"),
    ({"rho": True}, "rho must be a number, got"),
    ({"rho": [1]}, "rho must be a number, got"),
    ({"rho": 10**400}, "rho must be between 1e-18 and 1e18. Give rho as a positive number,"),
    ({"rho": 2}, "this costs rho 2, but 1 is left"),
    ({"epsilon": 0}, "epsilon must be above 0, got 0. Give epsilon as a positive number,"),
    ({"epsilon": 1e-17}, "out of range"),
    ({"error": 0}, "error must be above 0, got 0"),
    ({"error": -1}, "error must be above 0, got -1"),
    ({"error": float("nan")}, "error is out of range"),
    ({"error": float("inf")}, "error is out of range"),
    ({"error": "x"}, "error must be a number"),
    ({"error": {}}, "must name each result"),
    ({"error": {"k": 1, "m": 2}}, "must name each result"),
    ({"error": 0.01}, "is left"),
    ({"error": 1e-200}, "out of range"),
    ({"error": 1e20}, "out of range"),
    ({"error": 1e300}, "out of range"),
    ({"rho": "1e-18"}, "out of range"),
    ({"rho": "1e999999999"}, "rho must be between 1e-18 and 1e18."),
    ({"rho": 0.1, "confidence": 0}, "confidence must be between 0 and 1, got 0"),
    ({"rho": 0.1, "confidence": 1}, "confidence must be between 0 and 1, got 1"),
    ({"rho": 0.1, "confidence": 95}, "confidence must be between 0 and 1, got 95"),
    ({"rho": 0.1, "confidence": float("nan")}, "confidence is out of range"),
    ({"rho": 0.1, "confidence": "high"}, "confidence must be a number"),
    ({"rho": 0.1, "looks": 2}, "looks must be 1 or 'any', got 2"),
    ({"rho": 0.1, "intervals": "both"}, "intervals must be 'simultaneous' or 'each', got 'both'"),
    ({"rho": 0.1, "split": 0}, "split must be above 0, got 0."),
    ({"rho": 0.1, "split": 1}, "split must be between 0.001 and 0.999, got"),
    ({"rho": 0.1, "rows": 0}, "rows must be a whole number from 1 up, got"),
    ({"rho": 0.1, "rows": 1.5}, "rows must be a whole number from 1 up, got"),
]


@pytest.fixture(scope="module")
def session():
    """One session for all refusals: they must leave it as it was."""
    with opened(budget=dpnb.Budget(rho=1, delta=1e-6)) as found:
        yield found


class TestBadRequests:
    @pytest.mark.parametrize(("options", "part"), BAD_REQUESTS, ids=lambda value: str(value)[:30])
    def test_each_is_refused_with_its_hint_and_charges_nothing(self, options, part, session):
        for asking in (session.price, session.query):
            if asking == session.price and "left" in part:
                continue
            with pytest.raises(DpnbError) as caught:
                asking(COUNT, **options)
            assert part in str(caught.value)
            assert caught.value.hint
        assert session.budget.spent.rho == 0
        assert len(session.history) == 0

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT",
            "",
            "SELECT COUNT(*) FROM u",
            "SELECT COUNT(y) FROM t",
            "SELECT COUNT(*) FROM t WHERE sex = 'X'",
            "SELECT COUNT(*) FROM t JOIN t u ON TRUE",
            "SELECT COUNT(*) FROM t; SELECT 1",
            "SELECT COUNT(*) FROM t WHERE x",
            "SELECT MIN(n) FROM t",
            "SELECT SUM(sex) FROM t",
            "SELECT COUNT(*) FROM t" + " " * 20_000,
            "SELECT COUNT(*) FROM t WHERE " + "(" * 500 + "n = 1" + ")" * 500,
            None,
        ],
        ids=lambda sql: str(sql)[:40],
    )
    def test_bad_statements_charge_nothing(self, sql, session):
        with pytest.raises(SqlError):
            session.query(sql, rho=0.1)
        assert session.budget.spent.rho == 0

    def test_an_avg_by_error_needs_a_number_of_rows(self, session):
        with pytest.raises(RequestError, match="Add rows=100"):
            session.query("SELECT AVG(x) FROM t", error=0.1)

    @pytest.mark.parametrize(
        "options",
        [
            {"rho": np.array([0.1, 0.2])},
            {"rho": pd.Series([0.1, 0.2])},
            {"error": np.array([1, 2])},
            {"rho": 0.1, "rows": float("inf")},
            {"rho": 0.1, "confidence": np.array([0.5, 0.6])},
            {"rho": 0.1, "looks": np.array([1, 1])},
        ],
        ids=str,
    )
    def test_odd_values_are_refused_in_words(self, options, session):
        with pytest.raises(DpnbError):
            session.query(COUNT, **options)

    def test_the_session_is_usable_afterwards(self, session):
        assert session.query(COUNT, rho=0.1).spent.rho == Fraction(1, 10)


class TestOpening:
    def test_what_is_no_value_of_any_kind_is_refused_by_type(self):
        with pytest.raises(
            SchemaError, match="column 'n' is declared as integer but holds INTERVAL values"
        ):
            opened(table=small(n=pd.Timedelta(1)))

    def test_a_missing_file_is_refused(self, tmp_path):
        with pytest.raises(SchemaError, match="no such file"):
            opened(table=Table("t", tmp_path / "none.parquet", SCHEMA))

    def test_a_refused_opening_leaves_a_new_ledger_usable(self, tmp_path):
        with pytest.raises(SchemaError):
            opened(tmp_path / "ledger", table=small(n=pd.Timedelta(1)))
        with opened(tmp_path / "ledger") as session:
            session.query(COUNT, rho=0.1)

    @pytest.mark.parametrize("tables", [[], None, 5, "t", [small(), 5]], ids=str)
    def test_what_is_no_table(self, tables):
        with pytest.raises((DpnbError, TypeError)):
            dpnb.Session(tables, budget=dpnb.Budget(rho=1))

    def test_two_tables_of_one_name(self):
        with pytest.raises(SchemaError, match="two tables have the same name"):
            dpnb.Session([small(), Table("T", small().source, SCHEMA)], budget=dpnb.Budget(rho=1))

    def test_what_is_no_budget(self):
        with pytest.raises(RequestError, match="the budget must be a dpnb.Budget, got 1"):
            opened(budget=1)

    def test_two_tables_share_one_budget(self):
        other = Table("u", pd.DataFrame({"n": [1]}), Schema({"n": Integer(0, 9)}))
        with dpnb.Session([small(), other], budget=dpnb.Budget(rho=1)) as session:
            session.query(COUNT, rho=0.5)
            session.query("SELECT COUNT(*) FROM u", rho=0.5)
            with pytest.raises(BudgetError):
                session.query("SELECT SUM(n) FROM u", rho=0.01)

    def test_odd_names_and_values_from_end_to_end(self):
        odd = ['a "quoted" name', "größe", "<img src=x onerror=alert(1)>"]
        frame = pd.DataFrame({odd[0]: ["<script>", "'; --"], odd[1]: [1, 2], odd[2]: [0.5, 1.0]})
        schema = Schema(
            {
                odd[0]: Category(["<script>", "'; --", "年"]),
                odd[1]: Integer(0, 9),
                odd[2]: Real(0, 1),
            }
        )
        with dpnb.Session(Table("t", frame, schema), budget=dpnb.Budget(rho=1)) as session:
            answer = session.query(
                'SELECT "a ""quoted"" name", AVG("<img src=x onerror=alert(1)>") AS "<b>", SUM(größe) '
                'FROM t GROUP BY "a ""quoted"" name"',
                rho=0.5,
            )
            assert list(answer.to_frame()[odd[0]]) == ["<script>", "'; --", "年"]
            assert "<script>" not in answer.to_markdown()


class TestInterrupt:
    def interrupt_when(self, event):
        def send():
            event.wait(10)
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=send, daemon=True).start()

    def test_during_the_scan_nothing_is_charged(self, monkeypatch):
        begun, stopped = threading.Event(), threading.Event()

        def scan(self, plan):
            begun.set()
            stopped.wait(10)
            raise EngineError("interrupted inside")

        with opened() as session:
            with monkeypatch.context() as patch:
                patch.setattr(DuckDBEngine, "measure", scan)
                patch.setattr(DuckDBEngine, "interrupt", lambda self, thread: stopped.set())
                self.interrupt_when(begun)
                with pytest.raises(InterruptedRequestError, match="Nothing was charged"):
                    session.query(COUNT, rho=0.1)
            assert session.budget.spent.rho == 0
            assert session.query(COUNT, rho=0.1).spent.rho == Fraction(1, 10)

    def test_after_the_commit_the_answer_is_kept(self, monkeypatch):
        begun, stopped = threading.Event(), threading.Event()
        original = Runner._commit

        def commit(self, *arguments):
            answer = original(self, *arguments)
            begun.set()
            stopped.wait(10)
            return answer

        with opened() as session:
            with monkeypatch.context() as patch:
                patch.setattr(Runner, "_commit", commit)
                patch.setattr(DuckDBEngine, "interrupt", lambda self, thread: stopped.set())
                self.interrupt_when(begun)
                with pytest.raises(InterruptedRequestError, match="after the answer was charged"):
                    session.query(COUNT, rho=0.1)
            assert session.budget.spent.rho == Fraction(1, 10)
            assert session.query(COUNT, rho=0.1).spent.rho == 0

    def test_before_the_commit_of_what_needs_no_scan_nothing_is_charged(self):
        """The noise of all finer levels is drawn at first use."""
        cancel, finer = threading.Event(), {"epsilon": "0.5"}
        with opened(budget=dpnb.Budget(epsilon=1)) as session:
            session.query(COUNT, epsilon="0.1")
            before = session.budget.spent
            cancel.set()
            with pytest.raises(InterruptedRequestError, match="interrupted") as refusal:
                ask(session, "analyst", "query", COUNT, finer, cancel)
            assert refusal.value.hint == "Nothing was charged."
            assert session.budget.spent == before
            cancel.clear()
            assert ask(session, "analyst", "query", COUNT, finer, cancel).spent.epsilon > 0

    def test_while_the_request_starts_nothing_is_charged(self, monkeypatch):
        original, measure = threading.Thread.start, DuckDBEngine.measure

        def slow(self, scan):
            time.sleep(0.3)
            return measure(self, scan)

        def start(thread):
            if thread.name == "dpnb request":
                original(thread)
                raise KeyboardInterrupt
            original(thread)

        with opened() as session:
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", start)
                patch.setattr(DuckDBEngine, "measure", slow)
                with pytest.raises(InterruptedRequestError, match="Nothing was charged"):
                    session.query(COUNT, rho=0.1)
            assert session.budget.spent.rho == 0

    def test_a_request_that_never_starts_does_not_hang(self, monkeypatch):
        import dpnb.interrupt as module

        def start(thread):
            raise KeyboardInterrupt

        with opened() as session:
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", start)
                patch.setattr(module, "_QUIET_SECONDS", 0.01)
                with pytest.raises(InterruptedRequestError, match="Nothing was charged"):
                    session.query(COUNT, rho=0.1)
            assert session.budget.spent.rho == 0

    def test_progress_is_elapsed_time_and_only_after_a_second(self, monkeypatch):
        ticks = []
        original = DuckDBEngine.measure

        def slow(self, scan):
            time.sleep(1.6)
            return original(self, scan)

        with opened() as session:
            session.query(COUNT, rho=0.1, progress=ticks.append)
            assert ticks == []
            monkeypatch.setattr(DuckDBEngine, "measure", slow)
            session.query(BY_SEX, rho=0.1, progress=ticks.append)
            assert ticks
            assert all(isinstance(tick, float) and tick > 1 for tick in ticks)
