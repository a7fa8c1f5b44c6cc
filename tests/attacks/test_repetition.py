"""Asking again, differently or often buys nothing that was not paid for.

Promised: what means the same is drawn once and paid once, whatever its spelling, level, session, kernel or
opening of the ledger; an average of all of it is the one answer. Whatever is free (prices, inferences,
bootstraps, rehearsals) has no new noise about the data to average.
"""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.sql.parser import parse

SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "age": Integer(17, 90, bins=[17, 40, 90]),
        "wage": Real(0, 100, bins=[0, 50, 100]),
    }
)


def table(rows=400, seed=2):
    generator = np.random.default_rng(seed)
    return Table(
        "t",
        pd.DataFrame(
            {
                "sex": generator.choice(["F", "M"], rows),
                "age": generator.integers(17, 91, rows),
                "wage": generator.uniform(0, 100, rows),
            }
        ),
        SCHEMA,
    )


BUDGETS = {ZCDP: {"rho": 1}, PURE: {"epsilon": 10}}
LEVEL = {ZCDP: "rho", PURE: "epsilon"}
SQL = "SELECT sex, COUNT(*) AS n, AVG(wage) AS m FROM t GROUP BY sex"


@pytest.fixture(params=[ZCDP, PURE])
def session(request):
    with dpnb.Session(table(), budget=dpnb.Budget(**BUDGETS[request.param])) as found:
        found.level = LEVEL[request.param]
        yield found


def numbers(answer):
    return [(e.total, e.count) for e in answer.estimates]


def test_many_repetitions_give_one_set_of_numbers(session, size):
    first = session.query(SQL, **{session.level: 0.1})
    spent = session.budget.spent
    for _ in range(size(100)):
        again = session.query(SQL, **{session.level: 0.1})
        assert numbers(again) == numbers(first)
        assert again.spent.level(again.privacy) == 0
        assert again.stored
    assert session.budget.spent == spent
    assert len(session.history) == 1


def test_no_variation_of_a_request_draws_the_same_vectors_anew(session):
    first = session.query(SQL, **{session.level: 0.4})
    spent = session.budget.spent
    cheaper = [
        {"confidence": 0.8},
        {"confidence": 0.999999},
        {"looks": "any"},
        {"intervals": "each"},
        {"confidence": 0.9, "looks": "any", "intervals": "each"},
    ]
    texts = [
        SQL,
        SQL + ";",
        SQL.lower(),
        SQL + " ORDER BY n DESC LIMIT 1",
        "SELECT AVG(wage) AS average, COUNT(*) AS rows, sex AS who FROM t GROUP BY sex",
        SQL.replace("FROM t", "FROM t WHERE age >= 17 OR age IS NULL"),
        "SELECT sex, COUNT(*) AS n, AVG(wage) AS m FROM t AS x WHERE NOT (1 > x.age) OR age IS NULL "
        "GROUP BY x.sex",
        "SELECT sex, COUNT(*) FILTER (WHERE age < 99 OR age IS NULL) AS n, AVG(wage) AS m FROM t "
        "GROUP BY sex",
    ]
    found = {}
    for text, options in itertools.product(texts, cheaper):
        answer = session.query(text, **{session.level: 0.4}, **options)
        assert answer.spent.level(answer.privacy) == 0
        for estimate in answer.estimates:
            key = estimate.function
            found.setdefault(key, set()).add((estimate.total, estimate.count))
    assert {k: len(v) for k, v in found.items()} == {"COUNT": 1, "AVG": 1}
    assert found["COUNT"] == {(None, first.estimates[0].count)}
    assert session.budget.spent == spent


def test_lower_levels_and_larger_errors_show_the_finest_numbers_held(session):
    first = session.query(SQL, **{session.level: 0.8})
    for level in (0.4, 0.2, 0.1):
        assert numbers(session.query(SQL, **{session.level: level})) == numbers(first)
    for error in (30, 100, 1_000):
        answer = session.query(SQL, error=error, rows=100)
        assert numbers(answer) == numbers(first)
        assert answer.spent.level(answer.privacy) == 0


def test_vectors_shared_between_statements_are_paid_and_drawn_once(session):
    one = session.query("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex", **{session.level: 0.2})
    spent = session.budget.spent
    other = session.query(
        "SELECT sex AS s, COUNT(*) AS k FROM t GROUP BY sex ORDER BY k", **{session.level: 0.2}
    )
    assert other.estimates[0].count == one.estimates[0].count
    assert session.budget.spent == spent
    swapped = session.query("SELECT COUNT(*) FROM t GROUP BY sex, age", **{session.level: 0.2})
    before = session.budget.spent
    back = session.query("SELECT COUNT(*) FROM t GROUP BY age, sex", **{session.level: 0.2})
    assert session.budget.spent == before
    assert sorted(swapped.estimates[0].count) == sorted(back.estimates[0].count)


def test_refining_in_many_small_steps_costs_what_one_step_costs():
    with dpnb.Session(table(), budget=dpnb.Budget(rho=1)) as session:
        for step in range(1, 21):
            session.query(SQL, rho=Fraction(step, 100))
        assert session.budget.spent.rho == Fraction(20, 100)


def test_averaging_refinements_gains_nothing_beyond_what_was_paid():
    """The finest version is the best linear use of all versions: no combination beats it."""
    groups, rows = 1_500, 3
    schema = Schema({"g": Integer(0, groups - 1)})
    source = Table("t", pd.DataFrame({"g": np.repeat(range(groups), rows)}), schema)
    with dpnb.Session(source, budget=dpnb.Budget(rho=1)) as session:
        seen = [
            session.query("SELECT g, COUNT(*) AS n FROM t GROUP BY g", rho=Fraction(step, 10))
            .estimates[0]
            .count
            for step in range(1, 9)
        ]
    errors = np.array(seen) - rows
    # with independent draws at these levels the mean would have variance 0.21, the finest 0.625
    assert np.var(errors[-1]) == pytest.approx(0.625, rel=0.2)
    assert np.var(errors.mean(axis=0)) > 0.8 * np.var(errors[-1])
    # the best of all combinations, by the covariance of the versions
    assert 1 / np.linalg.inv(errors @ errors.T / groups).sum() > 0.8 * np.var(errors[-1])


def test_differences_of_requests_are_charged_like_two_requests():
    with dpnb.Session(table(), budget=dpnb.Budget(rho=1)) as session:
        session.query("SELECT COUNT(*) AS n FROM t", rho=0.1)
        session.query("SELECT COUNT(*) AS n FROM t WHERE age <> 40 OR age IS NULL", rho=0.1)
        assert session.budget.spent.rho == Fraction(1, 5)


def test_many_narrow_views_of_one_row_add_up(session):
    step = {"rho": 0.1, "epsilon": 1.0}[session.level]
    refused = 0
    for age in range(18, 60):
        before = session.budget.spent.level(session.budget.privacy)
        try:
            session.query(f"SELECT COUNT(*) FROM t WHERE age <> {age}", **{session.level: step})
        except dpnb.DpnbError as error:
            refused += 1
            assert "left" in str(error)
            assert session.budget.spent.level(session.budget.privacy) == before
    assert refused >= 30
    assert session.budget.spent.level(session.budget.privacy) <= session.budget.cap.level(
        session.budget.privacy
    )


def test_threads_asking_the_same_are_charged_once():
    with dpnb.Session(table(), budget=dpnb.Budget(rho=1)) as session:
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(session.query(SQL, rho=0.5)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 8
        assert len({repr(numbers(answer)) for answer in answers}) == 1
        assert session.budget.spent.rho == Fraction(1, 2)
        assert sum(answer.spent.rho for answer in answers) == Fraction(1, 2)


def test_threads_racing_for_the_last_of_the_budget_never_pass_the_cap():
    with dpnb.Session(table(), budget=dpnb.Budget(rho=1)) as session:
        outcomes = []

        def ask(age):
            try:
                session.query(f"SELECT COUNT(*) FROM t WHERE age >= {age}", rho=0.4)
                outcomes.append(True)
            except dpnb.DpnbError:
                outcomes.append(False)

        threads = [threading.Thread(target=ask, args=(age,)) for age in range(20, 28)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [False] * 6 + [True] * 2
        assert session.budget.spent.rho == Fraction(4, 5)


class TestOpenings:
    def test_a_ledger_opened_again_and_again_gives_one_set_of_numbers(self, tmp_path):
        data, seen = table(), set()
        for number in range(12):
            budget = dpnb.Budget(rho=1) if number == 0 else None
            with dpnb.Session(data, budget=budget, ledger=tmp_path / "l") as session:
                for level in ("0.4", "0.1"):
                    seen.add(repr(numbers(session.query(SQL, rho=level))))
                assert session.budget.spent.rho == Fraction(2, 5)
                assert len(session.history) == 2
        assert len(seen) == 1

    def test_sessions_that_stay_open_beside_one_another_give_one_set_of_numbers(self, tmp_path):
        data = table()
        sessions = [dpnb.Session(data, budget=dpnb.Budget(rho=1), ledger=tmp_path / "l")]
        sessions += [dpnb.Session(data, ledger=tmp_path / "l") for _ in range(4)]
        for level in ("0.1", "0.3", "0.2"):
            found = {repr(numbers(session.query(SQL, rho=level))) for session in sessions}
            assert len(found) == 1
        assert {session.budget.spent.rho for session in sessions} == {Fraction(3, 10)}
        for session in sessions:
            session.close()

    @pytest.mark.parametrize("mechanism", ["path", "additive", "vanilla"])
    def test_sessions_and_privileges_of_one_analyst(self, mechanism):
        """A row for each privilege: with noise of its own each, both are paid, and she is one coalition."""
        curator = dpnb.Curator(
            table(), budget=dpnb.Budget(epsilon=4, delta=1e-6, accountant="gdp"),
            analysts={"a": (4, 2)}, policy=dpnb.Policy(mechanism=mechanism),
        )  # fmt: skip
        found = {
            privilege: {
                repr(numbers(curator.session("a", privilege).query(SQL, rho="0.03")))
                for _ in range(5)
            }
            for privilege in (4, 2)
        }
        assert {len(one) for one in found.values()} == {1}
        again = found[4] != found[2]
        assert again == (mechanism == "vanilla")
        assert curator.coalition("a").rho == Fraction(3, 100) * (2 if again else 1)
        curator.close()


class TestFree:
    """What costs nothing draws nothing about the data, however often it is asked for."""

    def test_what_is_worked_out_from_one_answer_is_the_same_every_time(self, session):
        answer = session.query(SQL, **{session.level: 0.2})
        spent = session.budget.spent
        asked = {
            "infer": lambda: session.infer(SQL).to_dict(),
            "price": lambda: repr(session.price(SQL, **{session.level: 0.7})),
            "compare": lambda: answer.compare("F", "M", "n").to_dict(),
            "bootstrap": lambda: repr(answer.bootstrap(draws=100)),
            "stored": lambda: session.query(SQL, **{session.level: 0.2}).to_dict()["estimates"],
        }
        for name, work in asked.items():
            assert len({repr(work()) for _ in range(5)}) == 1, name
        assert session.budget.spent == spent

    def test_bootstraps_of_any_seed_rest_on_the_answer_alone(self):
        """Their noise is drawn around what was released, so they are as many as one likes."""
        with dpnb.Session(table(60), budget=dpnb.Budget(rho=1)) as session:
            answer = session.query("SELECT AVG(wage) AS m FROM t", rho="0.05")
        held = dpnb.answers.answer.Answer.from_dict(answer.to_dict())
        for seed in range(5):
            drawn = answer.bootstrap(draws=100, seed=seed)
            assert held.bootstrap(draws=100, seed=seed) == drawn

    def test_rehearsals_average_to_generated_rows_whatever_the_data(self):
        counts = []
        for rows in (400, 0):
            with dpnb.Session(table(rows), budget=dpnb.Budget(rho=1)) as session:
                found = []
                for _ in range(4):
                    with session.rehearse(rows=100) as rehearsal:
                        answer = rehearsal.query("SELECT COUNT(*) AS n FROM t", rho=1)
                        found.append(answer.estimates[0].count[0])
                assert session.budget.spent.rho == 0
            counts.append(np.mean(found))
        assert counts == pytest.approx([100, 100], abs=5)


class TestLattice:
    STATEMENTS = (
        "SELECT COUNT(*) AS n FROM t",
        "SELECT SUM(age) AS n FROM t",
        "SELECT AVG(age) AS n FROM t",
        "SELECT SUM(wage) AS n FROM t",
        "SELECT sex, AVG(wage) AS n, COUNT(wage) FROM t GROUP BY sex",
    )

    @pytest.mark.parametrize("sql", STATEMENTS)
    def test_released_numbers_are_integers_on_a_public_lattice(self, sql, session):
        query = parse(sql, {"t": table(0)})
        planned = plan(query, read_accuracy(query, ZCDP, None, rho=1), 1, ZCDP)
        answer = session.query(sql, **{session.level: 0.2})
        for part, estimate in zip(planned.parts, answer.estimates, strict=True):
            for view, vector in ((part.sum, estimate.total), (part.count, estimate.count)):
                if view is None:
                    continue
                unit = view.granularity
                assert (unit.numerator * unit.denominator).bit_count() == 1
                assert unit <= view.measure.sensitivity * view.measure.step / 2**20
                assert all((Fraction(value) / unit).denominator == 1 for value in vector)

    def test_every_residue_of_the_lattice_occurs_whatever_the_data(self):
        # noise on a coarser grid than the lattice would leave gaps between the residues
        schema = Schema({"n": Integer(0, 499)})
        source = Table("t", pd.DataFrame({"n": [1, 1, 7]}), schema)
        with dpnb.Session(source, budget=dpnb.Budget(rho=10)) as session:
            answer = session.query("SELECT n, COUNT(*) AS k FROM t GROUP BY n", rho=5)
        seen = {int(value * 2**22) % 4 for value in answer.estimates[0].count}
        assert seen == {0, 1, 2, 3}
