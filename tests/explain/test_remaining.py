"""What remains without some rows: true of the table itself, in all questions of the paper."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import dpnb
from dpnb.display.cards.explanation_words import effect_text
from dpnb.explain.remaining import factor, remaining
from dpnb.sql.functions import Function
from tests.kit import explanations as sample
from tests.kit.sentences import differences, is_true

DATA = Path(__file__).parents[1] / "data"
SURE = 10**5
"""A rho at which intervals are narrow, so that nearly all is said that can be."""

CENSUS = {
    "I1": ("sex", "Male", "Female"),
    "I2": ("household_relation", "In group quarters", "Grandchild 18+ never marr not in subfamily"),
    "I3": ("household_relation", "Householder", "Spouse of householder"),
    "I4": ("education", "Bachelors degree(BA AB BS)", "High school graduate"),
    "I5": ("education", "1st 2nd 3rd or 4th grade", "Less than 1st grade"),
}
CREDIT = {
    "G1": ("status", "A14", "A11"),
    "G2": ("purpose", "A41", "A40"),
    "G3": ("purpose", "A49", "A46"),
    "G4": ("residence_since", "1", "4"),
    "G5": ("residence_since", "3", "2"),
}
ADULT = {
    "A1a": ("marital_status", "Married-civ-spouse", "Never-married"),
    "A1b": ("marital_status", "Married-civ-spouse", "Married-AF-spouse"),
}


@pytest.fixture(scope="module")
def credit():
    frame = duckdb.sql(
        "SELECT * EXCLUDE (credit_risk), (2 - credit_risk)::TINYINT AS good "
        f"FROM '{DATA / 'german_credit.csv'}'"
    ).df()
    bins = {
        "duration_months": [0, 12, 48, 84, 120],
        "credit_amount": [0, 500, 2_500, 5_000, 10_000, 20_000],
        "age": [0, 10, 20, 30, 40, 50, 60, 70, 80],
    }
    kinds = {
        name: dpnb.Integer(bins[name][0], bins[name][-1], bins=bins[name])
        if name in bins
        else dpnb.Category(sorted({str(value) for value in frame[name].unique()}))
        for name in frame.columns
    }
    return dpnb.Table("credit", frame, dpnb.Schema({**kinds, "good": dpnb.Integer(0, 1)}))


@pytest.fixture(scope="module")
def census():
    return dpnb.Table.load(DATA / "census_income.toml")


@pytest.fixture(scope="module")
def sessions(census, credit, adult, fast):
    budget = dpnb.Budget(rho=10**7)
    opened = {
        name: (dpnb.Session(table, budget=budget, noise=fast(scale=0)), rows)
        for name, table, rows in (
            ("I", census, duckdb.read_parquet(str(census.source))),
            ("G", credit, duckdb.from_df(credit.source)),
            ("A", adult, duckdb.from_df(adult.source)),
        )
    }
    yield opened
    for session, _ in opened.values():
        session.close()


def explained(session, sql, left, right, **options):
    """Explain the difference in the direction that the table has."""
    question = session.query(sql, rho=SURE).compare(left, right)
    question = question if question.estimate > 0 else question.flipped()
    return session.explain(question, rho=SURE, anyway=True, **options)


@pytest.mark.parametrize("name", [*CENSUS, *CREDIT, *ADULT])
class TestThePapersQuestions:
    def test_each_sentence_is_true_of_the_table(self, name, sessions):
        key, left, right = {**CENSUS, **CREDIT, **ADULT}[name]
        session, rows = sessions[name[0]]
        value = "good" if name[0] == "G" else "high_income"
        (table,) = session._backend.tables
        sql = f"SELECT {key}, AVG({value}) AS m FROM {table} GROUP BY {key}"
        found = explained(session, sql, left, right, k=40)
        words = [effect_text(found, row) for row in found.rows]
        before, *after = differences(
            rows, key, value, found.question, [row.predicate for row in found.rows]
        )
        wrong = [
            (row.predicate, said, before, rest)
            for row, said, rest in zip(found.rows, words, after, strict=True)
            if not is_true(said, before, rest)
        ]
        assert not wrong
        assert sum("lowers" in said or "reverses" in said for said in words) >= 5
        if name in ("G3", "G4", "G5"):
            assert words[0].startswith("reverses")
            assert after[0] < 0 < before


class TestCountsAndSums:
    def test_few_rows_of_a_small_group_stand_for_much_of_a_difference(self, fast):
        """A country of few invoice lines beside a large one: the influence says next to nothing."""
        path = str(DATA / "online_retail.parquet")
        hours = dpnb.Integer(6, 21, bins=[6, 9, 12, 15, 18, 21])
        schema = dpnb.Schema(
            {"country": dpnb.Category(["United Kingdom", "Germany"]), "hour": hours}
        )
        sql = "SELECT country, COUNT(*) AS n FROM shop GROUP BY country"
        table = dpnb.Table("shop", path, schema)
        with dpnb.Session(table, budget=dpnb.Budget(rho=10**7), noise=fast(scale=0)) as session:
            found = explained(session, sql, "United Kingdom", "Germany", k=5)
        predicates = [row.predicate for row in found.rows]
        before, *after = differences(
            duckdb.read_parquet(path), "country", "*", found.question, predicates
        )
        for row, rest in zip(found.rows, after, strict=True):
            assert is_true(effect_text(found, row), before, rest)
        first = found.rows[0]
        assert first.influence_high < 0.01
        assert after[0] < 0.7 * before
        assert first.left_high < 0.75 * before

    def test_a_weighted_count_of_the_taxi_case(self, fast):
        table = dpnb.Table.load(DATA / "nyc_taxi.toml")
        rows = duckdb.read_parquet(str(DATA / "nyc_taxi.parquet"))
        near, far = "(1.0, 2.0]", "(15.0, 500.0]"
        zones = [f"pickup_location = {z} OR dropoff_location = {z}" for z in (132, 138, 161, 237)]
        sql = "SELECT trip_distance, COUNT(*) AS n FROM taxi GROUP BY trip_distance"
        with dpnb.Session(table, budget=dpnb.Budget(rho=10**7), noise=fast(scale=0)) as session:
            question = session.query(sql, rho=SURE).compare({near: 1, far: -10})
            found = session.explain(question, rho=SURE, predicates=zones, k=4)
        label = (
            f"CASE WHEN trip_distance > 1 AND trip_distance <= 2 THEN '{near}' "
            f"WHEN trip_distance > 15 THEN '{far}' END"
        )
        before, *after = differences(rows, label, "*", question, [r.predicate for r in found.rows])
        words = [effect_text(found, row) for row in found.rows]
        assert all(is_true(w, before, rest) for w, rest in zip(words, after, strict=True))
        assert {w.split()[0] for w in words} == {"raises", "lowers", "reverses"}

    @pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(v)", "AVG(v)"])
    @pytest.mark.parametrize("weights", [{"A": 1, "B": -1}, {"A": 1, "B": 1, "C": -2}, {"A": 2}])
    def test_twelve_rows(self, aggregate, weights, twelve, fast):
        """Tiny groups, weights that do not cancel, values on either side: exact, or nothing is said."""
        sql = f"SELECT g, {aggregate} AS m FROM t GROUP BY g"
        with dpnb.Session(twelve, budget=dpnb.Budget(rho=10**7), noise=fast(scale=0)) as session:
            question = session.query(sql, rho=SURE).compare(weights, constant="0.5")
            found = session.explain(
                question, rho=SURE, k=2, predicates=["x = 'u'", "x = 'w'"], anyway=True
            )
        value = "*" if aggregate == "COUNT(*)" else "v"
        predicates = [row.predicate for row in found.rows]
        before, *after = differences(
            duckdb.from_df(twelve.source), "g", value, question, predicates
        )
        for row, rest in zip(found.rows, after, strict=True):
            assert is_true(effect_text(found, row), before, rest)


class TestWhatFollows:
    """From the interval of an influence and of its question to an end of what remains."""

    def test_the_most_rows_that_may_remain(self):
        asked = sample.question(smallest_high=120.0, largest_low=599.0)
        assert factor(asked) == 120
        assert factor(replace(asked, function=Function.COUNT)) == 0.2
        assert factor(replace(asked, function=Function.COUNT, largest_low=0.0)) == 1
        assert (
            factor(replace(asked, function=Function.SUM, smallest_high=None, largest_low=None)) == 1
        )

    @pytest.mark.parametrize("rows", [0.0, -3.0, 0.5, math.nan])
    def test_where_there_is_an_influence_a_row_remains(self, rows):
        assert factor(sample.question(smallest_high=rows)) == 1

    def test_one_end_follows_from_an_influence_of_known_sign(self):
        asked = sample.question(joint_low=0.2, joint_high=0.4, smallest_high=100.0)
        assert remaining(asked, 10.0, 30.0) == (None, pytest.approx(0.3))
        assert remaining(asked, -30.0, -10.0) == (pytest.approx(0.3), None)
        assert remaining(asked, -1.0, 30.0) == (None, None)
        assert remaining(replace(asked, joint_high=math.inf), 10.0, 30.0) == (None, None)

    def test_only_what_is_proved_is_said_to_reverse(self):
        """More than 100 % for certain, but the difference itself is not above 0 for certain."""
        made = sample.explanation(rows=(sample.row("a = 1", 1.1, 1.2, 1, 2),))
        assert effect_text(made, made.rows[0]).startswith("reverses the difference, to -")
        unsure = replace(made, question=replace(made.question, joint_low=-0.01))
        assert made.rows[0].left_high < 0
        assert effect_text(unsure, made.rows[0]).startswith("lowers the difference to -")
        nearly = sample.explanation(rows=(sample.row("a = 1", 0.9, 1.2, 1, 2),))
        assert effect_text(nearly, nearly.rows[0]).startswith("lowers the difference to 0.")
