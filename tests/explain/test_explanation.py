"""Explanations end to end: what they cost, what they refuse, and what they hold."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import sqlite3
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table, verbs
from dpnb.display.cards import explanation_words
from dpnb.errors import BudgetError, DpnbError, LedgerError, RequestError
from dpnb.explain.explanation import Explanation
from dpnb.explain.price import scale_of
from dpnb.explain.unbinned import remedy, unbinned_sentence
from dpnb.ledger.accountant import Accountant
from dpnb.privacy.budget import Budget
from dpnb.privacy.loss import Picked, PrivacyLoss, rho_of_epsilon
from dpnb.schema.partition import labels
from dpnb.sql.functions import Function
from tests.kit.html import Reading
from tests.kit.inside import ask, runner

SCHEMA = Schema(
    {
        "g": Category(["north", "south", "west"]),
        "job": Category(["a", "b", "c", "d"]),
        "work": Category(["A", "B", "C", "D"]),
        "age": Integer(0, 90, bins=[0, 20, 40, 60, 90]),
        "pay": Integer(0, 10),
        "wage": Real(0, 10),
    },
    aliases=[["job", "work"]],
)
SQL = "SELECT g, AVG(pay) AS m, COUNT(*) AS n, SUM(pay) AS s, AVG(pay) - 1 AS f FROM t GROUP BY g"


def people(rows=2_000, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "g": rng.choice(["north", "south"], rows, p=[0.6, 0.4]),
            "job": rng.choice(list("abcd"), rows),
            "age": rng.integers(0, 91, rows),
        }
    )
    frame["work"] = frame["job"].str.upper()
    high = (frame["g"] == "north") & (frame["job"] == "a")
    frame["pay"] = np.where(high, 9, rng.integers(0, 5, rows))
    frame["wage"] = frame["pay"].astype(float)
    return frame


@pytest.fixture(scope="module")
def table():
    return Table("t", people(), SCHEMA)


@pytest.fixture
def opened(table, fast):
    """Open sessions; all are closed afterwards."""
    sessions = []

    def open_(source=table, noise=None, ledger=None, analysts=None, **budget):
        cap = Budget(**budget) if budget else None
        noise = fast(1) if noise is None else noise
        given = {"budget": cap, "noise": noise, "ledger": ledger}
        if analysts is None:
            sessions.append(dpnb.Session(source, **given))
        else:
            sessions.append(dpnb.Curator(source, analysts=analysts, **given))
        return sessions[-1]

    yield open_
    for session in sessions:
        session.close()


@pytest.fixture
def session(opened):
    return opened(rho=100, delta=1e-6)


@pytest.fixture
def question(session):
    return session.query(SQL, rho=1).compare("north", "south", "m")


def drawn(explanation):
    return [(r.predicate, r.influence, r.rank_low, r.rank_high) for r in explanation.rows]


class TestBudget:
    """Charges and what is free."""

    def test_totals(self):
        paper = Fraction("0.1") + Fraction("0.5") + Fraction("0.5") + 1
        assert paper == Fraction("2.1")

    def test_a_third_charge_beyond_the_cap_is_refused_without_a_draw(self, opened, fast):
        noise = fast(1)
        session = opened(noise=noise, rho="1.1")
        answer = session.query(SQL.replace(", AVG(pay) - 1 AS f", ""), rho="0.1")
        question = answer.compare("north", "south", "m")
        for k in (1, 2):
            session.explain(question, k=k, rho="0.4", anyway=True)
        draws = len(noise.gaussians), len(noise.selections)
        with pytest.raises(BudgetError, match=r"costs rho 0\.3, but 0\.2 is left"):
            session.explain(question, k=3, rho="0.3", anyway=True)
        assert (len(noise.gaussians), len(noise.selections)) == draws
        assert session.budget.spent.rho == Fraction("0.9")
        assert len(session.history) == 3

    def test_the_whole_is_charged_or_nothing(self, opened, fast):
        noise = fast(1)
        session = opened(noise=noise, rho="0.35")
        question = session.query(SQL, rho="0.1").compare("north", "south", "m")
        draws = len(noise.gaussians)
        # selection and influences alone would fit
        parts = {"topk": "0.1", "influence": "0.1", "rank": "0.1"}
        with pytest.raises(BudgetError):
            session.explain(question, rho=parts, anyway=True)
        assert session.budget.spent.rho == Fraction("0.1")
        assert len(noise.gaussians) == draws
        assert noise.selections == []
        session.explain(question, rho=parts | {"rank": "0.05"}, anyway=True)
        assert session.budget.remaining.rho == 0

    def test_asking_again_is_free_and_equal(self, session, question):
        first = session.explain(question, k=2, rho="0.2")
        spent = session.budget.spent
        assert first.spent == PrivacyLoss(rho=Fraction("0.2"))
        assert not first.stored
        for _ in range(50):
            again = session.explain(question, k=2, rho=0.2)
            assert again.stored
            assert again.spent.rho == 0
            assert drawn(again) == drawn(first)
        assert session.budget.spent == spent

    def test_questions_and_prices_are_free(self, session, question):
        spent = session.budget.spent
        answer = session.query(SQL, rho=1)
        for _ in range(200):
            answer.compare("north", "south", "m")
        for rho in ("0.1", "0.5", 1000):
            session.price(question, rho=rho)
        assert session.budget.spent == spent

    def test_a_price_is_what_is_paid(self, session, question):
        price = session.price(question, k=3, rho="0.25")
        found = session.explain(question, k=3, rho="0.25")
        assert price.spent == found.spent
        assert (price.margin_of_error, price.resolution) == (
            found.margin_of_error,
            found.resolution,
        )
        assert price.candidates == found.candidates == 8
        assert session.price(question, k=3, rho="0.25").spent.rho == 0

    def test_epsilon_is_the_rho_that_means_it(self, session, question):
        found = session.explain(question, epsilon=1)
        assert found.spent.rho == rho_of_epsilon(Fraction(1), Fraction(1, 10**6))

    def test_an_error_is_what_is_shown(self, session, question):
        found = session.explain(question, error="0.05")
        assert found.relative
        assert found.margin_of_error == pytest.approx(0.05, rel=1e-9)
        assert found.margin_of_error <= 0.05


class TestOneRelease:
    """Other words for the same explanation are the same release."""

    def test_spellings(self, session):
        answer = session.query(SQL, rho=1)
        weights = [
            ({"north": 1, "south": 1, "west": -2}, {"attributes": ["job", "age"]}),
            ({"west": "-2.00", "south": "1.0", "north": 1.0}, {"attributes": ["AGE", "Job"]}),
            ({"south": 1, "west": -2, "north": Fraction(2, 2)}, {"exclude": []}),
        ]
        found = [
            session.explain(answer.compare(w, aggregate="m"), k=2, anyway=True, **options)
            for w, options in weights
        ]
        assert [e.stored for e in found] == [False, True, True]
        assert len({str(drawn(e)) for e in found}) == 1

    def test_where_spelled_otherwise(self, session):
        texts = ["WHERE age > 20 AND job <> 'd'", "WHERE NOT (job = 'd' OR age <= 20)"]
        found = []
        for text in texts:
            answer = session.query(f"SELECT g, COUNT(*) AS k FROM t {text} GROUP BY g", rho=1)
            found.append(session.explain(answer.compare("north", "south"), k=1))
        assert found[1].stored
        assert drawn(found[0]) == drawn(found[1])

    def test_other_names_for_the_aggregate(self, session):
        found = []
        for sql in (SQL, "SELECT g, AVG(pay) AS mean FROM t GROUP BY g"):
            answer = session.query(sql, rho=1)
            alias = "m" if sql == SQL else "mean"
            found.append(session.explain(answer.compare("north", "south", alias), k=2))
        assert found[1].stored
        assert found[1].question.aggregate == "mean"
        for a, b in zip(*(e.rows for e in found), strict=True):
            # divided by the difference of another answer
            assert a.influence * found[0].scale == pytest.approx(b.influence * found[1].scale)
            assert (a.predicate, a.rank_low, a.rank_high) == (b.predicate, b.rank_low, b.rank_high)

    def test_a_finer_answer_changes_the_divisor_not_the_release(self, session, question):
        first = session.explain(question, k=2)
        finer = session.query(SQL, rho=4).compare("north", "south", "m")
        second = session.explain(finer, k=2)
        assert second.stored
        for a, b in zip(first.rows, second.rows, strict=True):
            assert a.influence * first.scale == pytest.approx(b.influence * second.scale)

    def test_listed_conditions_in_other_words(self, session, question):
        one = session.explain(question, k=1, predicates=["job = 'a'", "age > 40"])
        two = session.explain(question, k=1, predicates=["job IN ('a')", "NOT age <= 40"])
        assert (one.stored, two.stored) == (False, True)
        assert [row[1:] for row in drawn(one)] == [row[1:] for row in drawn(two)]
        # one release, and to everybody in their own words: what others wrote is not told
        own = {"job = 'a'": "job IN ('a')", "age > 40": "NOT age <= 40"}
        assert [own[row.predicate] for row in one.rows] == [row.predicate for row in two.rows]

    def test_other_options_are_other_releases_and_paid_for(self, session, question):
        spent = session.budget.spent.rho
        variants = [
            {}, {"k": 2}, {"mode": "paper"}, {"joint": True}, {"confidence": 0.9}, {"lower": "0.2"},
            {"exclude": ["age"], "k": 2}, {"length": 2}, {"length": 2, "connective": "or"},
            {"ranges": True},
        ]  # fmt: skip
        for variant in variants:
            assert not session.explain(question, rho="0.1", **variant).stored
        assert session.budget.spent.rho - spent == len(variants) * Fraction("0.1")


class TestShown:
    def test_rows_are_sorted_by_the_upper_end_then_by_rank(self, session, question):
        found = session.explain(question, k=8, rho="0.5")
        keys = [(-r.influence_high, r.rank_high) for r in found.rows]
        assert keys == sorted(keys)
        assert found.rows[0].predicate == "job = 'a'"
        assert found.to_frame().columns.tolist() == [
            "predicate", "influence_low", "influence_high", "rank_low", "rank_high", "left_low",
            "left_high",
        ]  # fmt: skip
        assert found.candidates == 8
        assert found.attributes == ("job", "age")

    def test_influences_are_shares_of_the_released_difference(self, session, question):
        found = session.explain(question, k=1, rho=5)
        assert found.relative
        assert found.scale == pytest.approx(abs(question.estimate) * question.rows)
        count = session.query(SQL, rho=1).compare("north", "south", "n")
        assert session.explain(count, k=1).scale == pytest.approx(abs(count.estimate))

    def test_they_are_absolute_where_the_difference_may_be_0_or_groups_too_small(self, session):
        answer = session.query(
            "SELECT g, COUNT(*) AS n, AVG(pay) AS m FROM t GROUP BY g", rho=0.001
        )
        for pair in (("west", "south"), ("north", "west")):
            question = answer.compare(*pair, "m")
            found = session.explain(question, k=2, anyway=True)
            assert not found.relative
            assert found.scale == 1
            assert found.reason

    def test_a_difference_whose_interval_reaches_0_divides_nothing(self, question):
        """Large groups, whose difference is estimated far from 0, but not for certain."""
        for low, high in ((-1.0, 9.0), (0.0, 9.0), (-9.0, 0.0)):
            unsure = replace(question, low=low, high=high, valid=low > 0, enough=True)
            scale, reason = scale_of(unsure)
            assert scale is None
            assert reason.endswith("may be 0.")

    def test_plain_data_and_back(self, session, question):
        for options in (
            {},
            {"length": 2, "connective": "or"},
            {"predicates": ["age > 3 OR job = 'a'"]},
        ):
            found = session.explain(question, k=1, **options)
            text = json.dumps(found.to_dict(), allow_nan=False)
            assert Explanation.from_dict(json.loads(text)) == found
            assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301

    def test_the_record_recomputes_the_intervals(self, session, question):
        found = session.explain(question, k=3, rho="0.3")
        record = json.loads(json.dumps(found.record(), allow_nan=False))
        half = 1.959963984540054 * record["noise"]["sigma"] / record["scale"]
        for row in record["rows"]:
            assert row["influence_high"] - row["influence"] == pytest.approx(half)
        assert record["rho"] == {"topk": "3/40", "influence": "3/40", "rank": "3/20"}
        assert record["stamp"] == "test"

    def test_groups_without_rows_and_constant_columns_are_answered_as_usual(self, opened, table):
        frame = people(60).assign(job=None, age=None, g="north")
        frame = frame.astype({"job": "string", "age": "Int64"})
        for rows in (frame, frame.iloc[:0], people(60).assign(pay=3, job="a", age=5)):
            session = opened(Table("t", rows, SCHEMA), rho=100)
            answer = session.query(SQL, rho=1)
            for aggregate in ("m", "n", "s"):
                question = answer.compare("north", "west", aggregate)
                assert len(session.explain(question, anyway=True).rows) == 5


class TestDoubt:
    def test_what_noise_may_explain_is_not_explained_unasked(self, opened):
        session = opened(rho=1)
        answer = session.query(
            "SELECT g, COUNT(*) AS n FROM t WHERE age < 0 GROUP BY g", rho="0.01"
        )
        question = answer.compare("north", "south")
        assert not question.valid
        spent = session.budget.spent
        with pytest.raises(RequestError, match="Nothing was charged"):
            session.explain(question)
        assert session.budget.spent == spent
        assert explanation_words.doubt_sentence(session.explain(question, anyway=True))

    def test_what_points_the_other_way_is_not_either(self, session):
        question = session.query(SQL, rho=1).compare("south", "north", "n")
        with pytest.raises(RequestError, match="flipped"):
            session.explain(question)
        assert session.explain(question.flipped()).rows


class TestPicked:
    """What rests on an amount that was picked by looking at the data says so."""

    def test_an_ordinary_explanation_is_not_marked(self, session, question):
        found = session.explain(question, k=1)
        assert not found.conditional
        assert found.record()["guarantee"] == "unconditional"

    @pytest.mark.parametrize(
        "cost",
        [
            {"rho": Picked(0.3)},
            {"epsilon": Picked(1)},
            {"rho": {"topk": 0.1, "influence": 0.1, "rank": Picked(0.1)}},
            {"error": Picked(0.05)},
        ],
    )
    def test_one_at_a_picked_cost_is(self, cost, opened, tmp_path):
        session = opened(ledger=tmp_path / "l", rho=100, delta=1e-6)
        question = session.query(SQL, rho=10).compare("north", "south", "m")
        found = session.explain(question, k=1, **cost)
        assert found.conditional
        assert not found.question.conditional
        assert found.record()["guarantee"].startswith("conditional: epsilon was picked")
        assert Explanation.from_dict(json.loads(json.dumps(found.to_dict()))) == found
        assert [entry["conditional"] for entry in entries(tmp_path / "l")[-2:]] == [False, True]
        assert "data-dependent" in list(session.history)[-1][3]

    def test_one_of_a_conditional_answer_is(self, session):
        question = session.query(SQL, rho=Picked(1)).compare("north", "south", "m")
        assert question.conditional
        found = session.explain(question, k=1, rho=0.3)
        assert found.conditional
        hidden = session.explain(replace(question, conditional=False), k=2, rho=0.3)
        assert hidden.conditional

    def test_one_of_a_view_that_was_released_conditionally_is(self, session):
        session.query(SQL, rho=Picked(1))
        question = session.query(SQL, rho=2).compare("north", "south", "m")
        assert session.explain(question, k=1, rho=0.3).conditional

    def test_a_release_stays_what_it_was_and_is_paid_for_once(self, session, question):
        cost = {"k": 1, "rho": 0.3}
        first = session.explain(question, **cost)
        picked = session.explain(question, k=1, rho=Picked(0.3))
        again = session.explain(question, **cost)
        assert [f.conditional for f in (first, picked, again)] == [False, True, False]
        assert picked.spent.rho == 0
        session.explain(question, k=2, rho=Picked(0.3))
        assert session.explain(question, k=2, rho=0.3).conditional

    def test_whoever_else_asks_for_a_release_is_told(self, opened):
        curator = opened(rho=100, analysts={"alice": 1, "bob": 1})
        first, second = (curator.session(name) for name in ("alice", "bob"))
        first.explain(first.query(SQL, rho=1).compare("north", "south", "m"), k=1, rho=Picked(0.3))
        own = second.query(SQL, rho=1).compare("north", "south", "m")
        assert not own.conditional
        before = curator.budget.spent
        assert second.explain(own, k=1, rho=0.3).conditional
        assert curator.budget.spent == before
        assert verbs.history(runner(curator), "bob")[-1].conditional

    def test_the_ledger_knows_it_for_good(self, opened, tmp_path):
        first = opened(ledger=tmp_path / "l", rho=10)
        question = first.query(SQL, rho=1).compare("north", "south", "m")
        first.explain(question, k=1, rho=Picked(0.5))
        first.close()
        again = opened(ledger=tmp_path / "l").explain(question, k=1, rho=0.5)
        assert (again.stored, again.conditional) == (True, True)


class TestForgedQuestions:
    """A Question is plain data that anyone may write: what it says is worked out anew."""

    @pytest.mark.parametrize(
        "change",
        [
            {"ledger": "0" * 16},
            {"request": "0" * 32},
            {"index": -1},
            {"index": 5},
            {"index": 4},
            {"index": "0"},
            {"index": None},
            {"groups": (("north",), ("atlantis",))},
            {"groups": (("north",), ("north",))},
            {"groups": (("north",),)},
            {"groups": (("north", "a"), ("south", "b"))},
            {"groups": ((), ())},
            {"groups": ()},
            {"groups": (("north",), ("south",), ("west",))},
            {"weights": (1.0,)},
            {"weights": ()},
            {"weights": (1.0, 0.0)},
            {"weights": (1.0, -1.0, 1.0)},
            {"weights": (math.nan, -1.0)},
            {"weights": (math.inf, -1.0)},
            {"weights": (1.0, 1e300)},
            {"weights": ("1e999999999", -1.0)},
            {"weights": (None, -1.0)},
            {"weights": (True, -1.0)},
        ],
    )
    def test_each_is_refused_and_nothing_is_charged(self, change, session, question, fast):
        spent = session.budget.spent
        with pytest.raises(RequestError) as caught:
            session.explain(replace(question, **change), anyway=True)
        assert caught.value.hint
        with pytest.raises(RequestError):
            session.price(replace(question, **change))
        assert session.budget.spent == spent

    def test_a_question_about_an_explanation(self, session, question):
        session.explain(question, k=1)
        (request,) = runner(session).store.accountant.releases
        with pytest.raises(RequestError):
            session.explain(replace(question, request=request), anyway=True)

    def test_another_table_of_the_session_with_narrower_bounds(self, opened):
        """Bounds of one table would make the noise for values of another."""
        narrow = Schema({**SCHEMA, "pay": Integer(0, 1)}, SCHEMA.aliases)
        session = opened([Table("t", people(), SCHEMA), Table("u", people(), narrow)], rho=10)
        question = session.query(SQL, rho=1).compare("north", "south", "s")
        other = session.query(SQL.replace(" t ", " u "), rho=1).compare("north", "south", "s")
        for forged, honest in (
            (replace(question, table="u"), question), (replace(question, request=other.request), other),
            (replace(other, table="t"), other),
        ):  # fmt: skip
            assert session.explain(forged, anyway=True, rho="0.3").question == honest
        half = [
            session.explain(q, anyway=True, rho="0.3").margin_of_error * abs(q.estimate)
            for q in (question, other)
        ]
        assert half[0] == pytest.approx(10 * half[1], rel=1e-4)

    @pytest.mark.parametrize(
        "change",
        [
            {"estimate": 0.0}, {"estimate": None}, {"estimate": math.nan}, {"estimate": math.inf},
            {"rows": math.inf}, {"rows": -5.0}, {"enough": False}, {"low": -math.inf},
            {"left": "", "right": "<b>"}, {"table": 3}, {"version": 9}, {"conditional": True},
            {"stamp": ""}, {"sentence": "<b>"}, {"note": "<b>"}, {"function": Function.SUM}, {"valid": False},
        ],
    )  # fmt: skip
    def test_what_was_changed_by_hand_is_not_believed(self, change, session, question):
        found = session.explain(replace(question, **change), k=1, anyway=True)
        assert found.question == question
        assert all(math.isfinite(row.influence) for row in found.rows)

    def test_a_name_is_shown_as_it_was_given(self, session, question):
        named = replace(question, aggregate="x" * 500)
        assert session.explain(named, k=1, anyway=True).question.aggregate == "x" * 500

    def test_a_constant_is_part_of_the_question(self, session, question):
        found = session.explain(replace(question, constant=7.0), k=1, anyway=True)
        assert found.question.estimate == pytest.approx(question.estimate - 7)
        assert found.question.right == f"{question.right} + 7"


class TestOtherSessions:
    def test_a_question_of_another_session(self, opened, question):
        other = opened(rho=1)
        other.query(SQL, rho=0.1)
        with pytest.raises(RequestError, match="another session"):
            other.explain(question)

    def test_a_question_of_an_older_data_version(self, opened, tmp_path, fast):
        first = opened(ledger=tmp_path / "l", rho=10)
        question = first.query(SQL, rho=1).compare("north", "south", "m")
        first.close()
        newer = dpnb.Session(
            Table("t", people(seed=2), SCHEMA),
            ledger=tmp_path / "l",
            new_version=True,
            noise=fast(2),
        )
        with newer:
            said = set()
            nobody = replace(question, request="0" * 32)
            for asked in (question, nobody):
                with pytest.raises(RequestError, match="older version of the table") as caught:
                    newer.explain(asked)
                said.add(str(caught.value))
            assert len(said) == 1
            assert newer.budget.spent.rho == 1

    def test_a_derived_column(self, session):
        question = session.query(SQL, rho=1).compare("north", "south", "f")
        with pytest.raises(RequestError, match="'f' is a formula, which cannot be explained"):
            session.explain(question, anyway=True)

    def test_a_pure_session(self, opened, question):
        pure = dpnb.Session(Table("t", people(50), SCHEMA), budget=Budget(epsilon=1))
        with pure, pytest.raises(RequestError, match="the default for a budget with a delta"):
            pure.explain(question, anyway=True)

    @pytest.mark.parametrize("thing", [None, "north > south", 5, {"groups": ()}])
    def test_no_question_at_all(self, thing, session):
        with pytest.raises(RequestError, match="needs a question"):
            session.explain(thing)


BAD = [
    {"k": 0}, {"k": True}, {"k": 2.5}, {"k": 101}, {"k": None}, {"k": "3"},
    {"confidence": 0}, {"confidence": 1}, {"confidence": 2}, {"confidence": math.nan},
    {"confidence": "95%"},
    {"rho": 0}, {"rho": -1}, {"rho": math.nan}, {"rho": math.inf}, {"rho": "x"}, {"rho": True},
    {"rho": {"topk": 0.1, "rank": 0.1}}, {"rho": {"topk": 0.1, "influence": 0, "rank": 0.1}},
    {"rho": 0.1, "epsilon": 1}, {"rho": 0.1, "error": 0.1}, {"epsilon": 1, "error": 0.1},
    {"epsilon": -1}, {"error": 0}, {"error": math.nan}, {"error": 1e-300}, {"error": 1e-17},
    {"attributes": ["wage"]}, {"attributes": ["nope"]}, {"attributes": ["g"]},
    {"attributes": ["pay"]}, {"attributes": ["age", "AGE"]}, {"attributes": "age"},
    {"attributes": []}, {"attributes": 3}, {"exclude": ["job", "work", "age"]}, {"exclude": "age"},
    {"exclude": ["nope"]}, {"length": 0}, {"length": 4}, {"length": True}, {"length": 3},
    {"connective": "xor"}, {"mode": "fast"}, {"lower": 0}, {"lower": 1}, {"lower": "x"},
    {"predicates": []}, {"predicates": ["job = 'z'"]}, {"predicates": "job = 'a'"},
    {"predicates": ["job = 'a'", "job IN ('a')"]}, {"predicates": ["job = 'a' GROUP BY g"]},
    {"predicates": ["job = 'a';"]}, {"predicates": [7]},
    {"predicates": [f"pay > {i / 1000}" for i in range(1_001)]},
    {"predicates": ["job = 'a'"], "length": 2},
]  # fmt: skip


class TestBadOptions:
    @pytest.mark.parametrize("options", BAD, ids=lambda o: str(o)[:60])
    def test_each_is_refused_in_words_and_free(self, options, session, question):
        spent, draws = session.budget.spent, len(runner(session).noise.gaussians)
        with pytest.raises(RequestError) as caught:
            session.explain(question, **({"k": 1} | options))
        assert caught.value.what
        assert caught.value.hint
        assert caught.value.__cause__ is None
        assert session.budget.spent == spent
        assert len(runner(session).noise.gaussians) == draws
        assert runner(session).noise.selections == []

    def test_an_epsilon_needs_a_delta(self, opened):
        session = opened(rho=1)
        question = session.query(SQL, rho="0.1").compare("north", "south", "m")
        with pytest.raises(RequestError, match="no delta"):
            session.explain(question, epsilon=1, anyway=True)

    def test_numbers_of_numpy_are_numbers(self, session, question):
        found = session.explain(
            question, k=np.int64(2), rho=np.float64(0.25), confidence=np.float32(0.5)
        )
        assert len(found.rows) == 2


class TestLedger:
    def test_it_outlives_the_kernel(self, opened, tmp_path):
        first = opened(ledger=tmp_path / "l", rho=10)
        question = first.query(SQL, rho=1).compare("north", "south", "m")
        found = first.explain(question, k=3, length=2, rho="0.3")
        first.close()
        second = opened(ledger=tmp_path / "l")
        again = second.explain(
            second.query(SQL, rho=1).compare("north", "south", "m"), k=3, length=2
        )
        assert again.stored
        assert drawn(again) == drawn(found)
        assert [row.condition for row in again.rows] == [row.condition for row in found.rows]
        assert second.budget.spent.rho == Fraction("1.3")

    def test_two_kernels_on_one_ledger_pay_once(self, opened, tmp_path):
        one = opened(ledger=tmp_path / "l", rho=10)
        two = opened(ledger=tmp_path / "l")
        question = one.query(SQL, rho=1).compare("north", "south", "m")
        first, second = one.explain(question), two.explain(question)
        assert second.stored
        assert drawn(first) == drawn(second)
        assert one.budget.spent == two.budget.spent == PrivacyLoss(rho=Fraction("2.8"))
        assert len(one.history) == len(two.history) == 2

    def test_a_second_analyst_gets_the_same_numbers_and_adds_nothing(self, opened):
        """Her own row pays in full, all together nothing more (design 7)."""
        curator = opened(rho=10, analysts={"alice": 1, "bob": 1, "carol": 1})
        answer = {}
        for name in ("alice", "bob"):
            accuracy = {"rho": 1}
            answer[name] = ask(curator, name, "query", SQL, accuracy)
        spent = curator.budget.spent
        found = {
            name: ask(
                curator,
                name,
                "explain",
                answer[name].compare("north", "south", "m"),
                {"rho": "0.3"},
            )
            for name in ("alice", "bob")
        }
        assert drawn(found["alice"]) == drawn(found["bob"])
        assert found["alice"].spent.rho == found["bob"].spent.rho == Fraction("0.3")
        assert curator.budget.spent.rho == spent.rho + Fraction("0.3")
        for together in (("alice",), ("bob",), ("alice", "bob")):
            assert curator.coalition(*together).rho == Fraction("1.3")
        with pytest.raises(RequestError, match="another session"):
            ask(
                curator,
                "carol",
                "explain",
                answer["bob"].compare("north", "south", "m"),
                {"rho": "0.3"},
            )

    @pytest.mark.parametrize("step", ["release", "append"])
    def test_a_failure_before_the_commit_charges_nothing(self, step, opened, tmp_path, monkeypatch):
        session = opened(ledger=tmp_path / "l", rho=10)
        question = session.query(SQL, rho=1).compare("north", "south", "m")
        before = entries(tmp_path / "l")
        with monkeypatch.context() as patched:

            def fail(*_, **__):
                raise ZeroDivisionError("48611 rows")

            if step == "release":
                patched.setattr(type(runner(session).noise), "largest", fail)
            else:
                patched.setattr(json, "dumps", fail)
            with pytest.raises((DpnbError, ZeroDivisionError)) as caught:
                session.explain(question)
            if step == "release":
                assert "48611" not in str(caught.value)
                assert caught.value.__context__ is None
        assert entries(tmp_path / "l") == before
        assert session.budget.spent.rho == 1
        assert not session.explain(question).stored


def entries(path):
    connection = sqlite3.connect(path)
    found = [
        json.loads(body) for (body,) in connection.execute("SELECT body FROM entry ORDER BY seq")
    ]
    connection.close()
    return found


def rewrite(path, change):
    """Change the last entry and mend the hash chain, as the holder of the file could."""
    import hashlib

    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT seq, body, hash FROM entry ORDER BY seq").fetchall()
    sequence, body, _ = rows[-1]
    entry = json.loads(body)
    change(entry)
    text = json.dumps(entry, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(f"{rows[-2][2]}\n{text}".encode()).hexdigest()
    connection.execute(
        "UPDATE entry SET body = ?, hash = ? WHERE seq = ?", (text, digest, sequence)
    )
    connection.commit()
    connection.close()


CHANGES = {
    "a smaller charge": lambda e: e["spent"].update(rho="1/10"),
    "a smaller row": lambda e: e["row"].update(rho="1/10"),
    "no charge": lambda e: e.update(spent=PrivacyLoss.none().to_dict()),
    "a larger charge": lambda e: e["spent"].update(rho="1/2"),
    "another price": lambda e: e["query"]["rho"].update(topk="1/10"),
    "nothing drawn": lambda e: e.update(drawn=None),
    "no draw at all": lambda e: e.pop("drawn"),
    "beyond the cap": lambda e: (e["spent"].update(rho="50"), e["query"].update(rho={"a": "50"})),
    "a negative charge": lambda e: (
        e["spent"].update(rho="-1"),
        e["query"].update(rho={"a": "-1"}),
    ),
    "a negative part": lambda e: e["query"].update(rho={"a": "1", "b": "-7/10"}),
    "no parts": lambda e: (e["spent"].update(rho="0"), e["query"].update(rho={})),
    "no price": lambda e: e["query"].pop("rho"),
    "no request": lambda e: e.pop("request"),
    "a price in words": lambda e: e["query"].update(rho="free"),
    "draws of another kind": lambda e: e.update(drawn=[1, 2]),
    "another kind": lambda e: e.update(kind="gift"),
}


class TestEntries:
    @pytest.mark.parametrize("name", CHANGES)
    def test_what_does_not_add_up_is_refused_when_read(self, name, opened, tmp_path):
        session = opened(ledger=tmp_path / "l", rho=10)
        session.explain(session.query(SQL, rho=1).compare("north", "south", "m"))
        session.close()
        rewrite(tmp_path / "l", CHANGES[name])
        with pytest.raises(LedgerError) as caught:
            opened(ledger=tmp_path / "l")
        assert caught.value.hint

    def test_drawn_twice_is_refused(self):
        entry = {
            "kind": "release", "analyst": "a", "time": "", "request": "r", "sql": "", "version": 1,
            "query": {"rho": {"a": "0.04", "b": "0.06"}}, "drawn": {"x": 1},
            **dict.fromkeys(("spent", "row"), PrivacyLoss(rho=Fraction("0.1")).to_dict()),
        }  # fmt: skip
        accountant = Accountant(Budget(rho=1))
        accountant.apply_release(1, entry)
        free = PrivacyLoss.none().to_dict()
        for again in (entry, {**entry, "spent": free}, {**entry, "analyst": "b"},
                      {**entry, "analyst": "b", "spent": free},
                      {**entry, "analyst": "b", "spent": free, "drawn": None,
                       "query": {"rho": {"a": "0.04"}}},
                      {**entry, "analyst": "b", "spent": free, "row": free,
                       "drawn": None}):  # fmt: skip
            with pytest.raises(LedgerError):
                accountant.apply_release(2, again)
        accountant.apply_release(2, {**entry, "analyst": "b", "spent": free, "drawn": None})
        assert accountant.spent.rho == Fraction("0.1")

    def test_charges_of_0_4_0_4_and_0_3_against_a_cap_of_1(self):
        accountant = Accountant(Budget(rho=1))
        for i in range(2):
            loss = PrivacyLoss(rho=Fraction("0.4")).to_dict()
            accountant.apply_release(i + 1, {
                "analyst": "a", "time": "", "request": f"r{i}", "sql": "", "version": 1,
                "query": {"rho": {"a": "0.4"}}, "spent": loss, "row": loss, "drawn": {},
            })  # fmt: skip
        with pytest.raises(BudgetError):
            accountant.check(PrivacyLoss(rho=Fraction("0.3")))
        assert accountant.spent.rho == Fraction("0.8")
        accountant.check(PrivacyLoss(rho=Fraction("0.2")))

    def test_they_hold_no_noisy_scores_and_no_exact_ones(self, opened, tmp_path):
        session = opened(ledger=tmp_path / "l", rho=10)
        found = session.explain(session.query(SQL, rho=1).compare("north", "south", "m"), k=3)
        entry = entries(tmp_path / "l")[-1]
        assert set(entry) == {
            "kind", "analyst", "time", "request", "sql", "query", "version", "spent", "row",
            "drawn", "conditional",
        }  # fmt: skip
        assert set(entry["drawn"]) == {"predicates", "influences", "ranks", "noise"}
        assert len(entry["drawn"]["influences"]) == len(found.rows) == 3


def test_a_stored_explanation_is_read_as_it_was_drawn(opened, tmp_path, monkeypatch):
    from dpnb.explain import influence

    session = opened(ledger=tmp_path / "l", rho=10)
    question = session.query(SQL, rho=1).compare("north", "south", "m")
    first = session.explain(question, k=2, rho=1)
    monkeypatch.setattr(influence, "LATTICE_BITS", influence.LATTICE_BITS + 2)
    again = session.explain(question, k=2, rho=1)
    assert again.stored
    assert again.rows == first.rows


def test_the_words_follow_the_difference_that_there_is(opened):
    session = opened(rho=10)
    answer = session.query(SQL, rho=1)
    question = answer.compare("north", "south", "n")
    question = question if question.valid else question.flipped()
    found = session.explain(question, k=3, rho=1)
    other = session.explain(question.flipped(), k=3, rho=1, anyway=True)
    assert other.reversed
    assert "The answer shows the opposite" in explanation_words.doubt_sentence(other)
    for row in other.rows:
        words = explanation_words.effect_text(other, row)
        if row.influence_low > 0:
            assert "widens" in words
        elif row.influence_high < 0:
            assert "narrows" in words or "reverses" in words
    assert not found.reversed
    said = f"how far {question.right} is above {question.left} in n"
    assert said in explanation_words.meaning_sentences(other)[0]


class TestLimits:
    @pytest.mark.parametrize("confidence", [5e-324, 1e-17, 1e-7])
    def test_a_confidence_next_to_0_is_refused_before_the_charge(self, opened, confidence):
        session = opened(rho=10)
        question = session.query(SQL, rho=1).compare("north", "south", "m")
        with pytest.raises(RequestError, match="too close to 0 or 1"):
            session.explain(question, confidence=confidence)
        assert session.budget.spent.rho == 1

    @pytest.mark.parametrize("options", [{"k": 5}, {"anyway": True}, {"progress": print}])
    def test_the_price_of_a_statement_takes_no_options_of_others(self, opened, options):
        with pytest.raises(RequestError, match="unknown option"):
            opened(rho=10).price(SQL, rho=1, **options)

    @pytest.mark.parametrize(
        "changes",
        [
            {"groups": 5}, {"groups": ("north", "south")}, {"constant": ""}, {"request": ["r"]},
            {"aggregate": "\ud800"}, {"ledger": 3}, {"weights": ("1", "-1")}, {"weights": (1e300, -1.0)},
            {"weights": (True, -1.0)}, {"planned": "0"}, {"mode": ["paper"]}, {"index": True},
            {"groups": ((None,), ("south",))}, {"weights": 5}, {"constant": 1e300},
        ],
    )  # fmt: skip
    def test_a_question_of_no_answer_is_refused(self, opened, changes):
        session = opened(rho=10)
        question = session.query(SQL, rho=1).compare("north", "south", "m")
        with pytest.raises(RequestError):
            session.explain(replace(question, **changes), anyway=True)
        assert session.budget.spent.rho == 1

    def test_test_noise_is_said_in_every_text(self, opened):
        session = opened(rho=10)
        question = session.query(SQL, rho=1).compare("north", "south", "m")
        found = session.explain(question, rho=1)
        for text in (repr(question), repr(found), question._repr_html_(), found._repr_html_()):
            assert "NOT PRIVATE" in text


class TestDefault:
    """What an explanation costs when nobody says what it may cost."""

    def test_the_session_of_the_readme_can_explain(self, opened):
        session = opened(epsilon=3, delta=1e-6)
        question = session.query(SQL, rho="0.1").compare("north", "south", "m")
        left = session.budget.remaining.rho
        price = session.price(question)
        assert price.affordable
        assert price.unsaid
        assert "You gave no privacy cost: it would use a fifth of what is left." in repr(price)
        assert left / 6 < price.spent.rho <= left / 5
        assert session.explain(question).spent == price.spent

    def test_it_leaves_something_however_often(self, opened):
        session = opened(rho=1)
        question = session.query(SQL, rho="0.1").compare("north", "south", "m")
        costs = [session.explain(question, k=k).spent.rho for k in range(1, 8)]
        assert costs[:3] == [Fraction("0.18"), Fraction("0.14"), Fraction("0.11")]
        assert all(later < earlier for earlier, later in itertools.pairwise(costs))

    def test_what_was_released_before_costs_nothing_again(
        self, session, question, opened, tmp_path
    ):
        """Also at a cost that was named, and the finest of several; also after a restart."""
        first = opened(ledger=tmp_path / "l", rho=10)
        asked = first.query(SQL, rho=1).compare("north", "south", "m")
        for rho in ("0.2", "0.4", "0.3"):
            first.explain(asked, k=2, rho=rho)
        first.close()
        again = opened(ledger=tmp_path / "l")
        price = again.price(asked, k=2)
        assert price.spent.rho == 0
        assert "already released to you" in repr(price)
        found = again.explain(asked, k=2)
        assert found.stored
        assert sum(map(Fraction, found.rho.values())) == Fraction("0.4")
        assert not again.explain(asked, k=3).stored

    def test_a_cost_that_is_named_is_not_the_default(self, session, question):
        price = session.price(question, rho="0.2")
        assert not price.unsaid
        assert "No cost" not in repr(price)

    def test_each_analyst_has_her_own_fifth(self, opened):
        curator = opened(rho=10, analysts={"alice": 1, "bob": 1})
        alice, bob = curator.session("alice"), curator.session("bob")
        mine = alice.query(SQL, rho=1).compare("north", "south", "m")
        hers = bob.query(SQL, rho=2).compare("north", "south", "m")
        for session, asked in ((alice, mine), (bob, hers)):
            left = session.budget.remaining.rho
            assert left / 6 < session.explain(asked).spent.rho <= left / 5

    def test_it_rests_on_what_was_picked_before(self, opened):
        """What is left tells what was spent, so the default of a picked spending is picked, too."""
        session = opened(rho=10)
        session.query("SELECT COUNT(*) AS n FROM t WHERE age > 40", rho=Picked(1))
        question = session.query(SQL, rho=1).compare("north", "south", "m")
        assert not question.conditional
        assert not session.explain(question, rho="0.3", k=2).conditional
        assert session.explain(question, k=1).conditional
        assert not session.explain(question, k=2).conditional

    def test_a_budget_that_is_used_up_is_said_to_be(self, opened):
        session = opened(rho=1)
        question = session.query(SQL, rho=1).compare("north", "south", "m")
        assert not session.price(question).affordable
        with pytest.raises(BudgetError, match="0 is left"):
            session.explain(question)


class TestColumnsWithoutBins:
    def test_they_are_named_with_the_line_to_write(self, session, question):
        answer = session.query("SELECT g, COUNT(*) AS n FROM t GROUP BY g", rho=1)
        counted = answer.compare("north", "south")
        line = '"wage": dpnb.Real(0, 10, bins=[0, 2.5, 5, 7.5, 10])'
        for made in (session.price(counted, rho=1), session.explain(counted, rho=1)):
            assert set(made.unbinned) == {"pay", "wage"}
            assert "pay, wage have no bins and are left out." in repr(made)
            assert line in repr(made)
            assert line in Reading(made._repr_html_()).text
        # pay is what the question is about
        assert set(session.price(question, rho=1).unbinned) == {"wage"}

    @pytest.mark.parametrize(
        "options",
        [{"attributes": ["job"]}, {"exclude": ["pay", "wage"]}, {"predicates": ["age > 40"]}],
    )
    def test_nothing_is_said_of_what_was_left_out_on_purpose(self, options, session):
        answer = session.query("SELECT g, COUNT(*) AS n FROM t GROUP BY g", rho=1)
        found = session.explain(answer.compare("north", "south"), k=1, rho=1, **options)
        assert found.unbinned == {}
        assert "no bins" not in repr(found)

    @pytest.mark.parametrize(
        "kind",
        [
            Integer(0, 10), Integer(0, 2), Integer(-(2**53), 2**53), Real(0, 10), Real(-0.1, 1e100),
            Real(1e-12, 3e-12), dpnb.Date("2024-01-01", "2024-01-03"),
        ],
    )  # fmt: skip
    def test_each_line_is_a_declaration_with_the_same_bounds(self, kind):
        made = eval(f"{{{remedy('x', kind)}}}", {"dpnb": dpnb})["x"]  # noqa: S307
        assert (made.low, made.high) == (kind.low, kind.high)
        assert 2 <= len(labels(made)) <= 4
        assert (made.bins[0], made.bins[-1]) == (kind.low, kind.high)

    def test_what_has_two_values_is_listed(self):
        assert remedy("x", Integer(4, 5)) == "x > 4"
        assert 'list conditions as predicates, such as ["x > 4"]' in unbinned_sentence(
            {"x": "x > 4"}
        )
