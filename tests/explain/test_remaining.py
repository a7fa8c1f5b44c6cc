"""What remains without some rows: true of the table itself, in all questions of the paper."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.display.cards.explanation_words import effect_text
from dpnb.explain.explanation import Row
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
        assert {w.split()[0] for w in words} == {"widens", "lowers", "reverses"}

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


def said(made):
    """Return what is said of the first row."""
    return effect_text(made, made.rows[0])


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
        assert re.fullmatch(r"reverses the difference, to -\S+ or less", said(made))
        unsure = replace(made, question=replace(made.question, joint_low=-0.01))
        assert made.rows[0].left_high < 0
        assert re.fullmatch(r"leaves a difference of -\S+ or less", said(unsure))
        nearly = sample.explanation(rows=(sample.row("a = 1", 0.9, 1.2, 1, 2),))
        assert re.fullmatch(
            r"lowers the difference to 0\.\S+ or less, or reverses it", said(nearly)
        )

    @pytest.mark.parametrize(
        ("joint", "influence", "ends", "words"),
        [
            ((0.1, 0.3), (1, 2), (None, 0.0), "lowers the difference to 0.00 or less, or reverses it"),
            ((0.1, 0.3), (1, 2), (None, -0.1), "reverses the difference, to -0.10 or less"),
            ((0.1, math.inf), (1, 2), (None, None), "lowers the difference, or reverses it"),
            ((0.1, 0.3), (-2, -1), (0.2, None), "widens the difference to 0.20 or more"),
            ((-0.3, -0.1), (1, 2), (None, -0.2), "widens the difference to -0.20 or less"),
            ((-0.3, -0.1), (-2, -1), (-0.1, None), "narrows the difference to -0.10 or more, or reverses it"),
            ((-0.3, -0.1), (-2, -1), (0.1, None), "reverses the difference, to 0.10 or more"),
            ((-math.inf, -0.1), (-2, -1), (None, None), "narrows the difference, or reverses it"),
            ((-0.1, 0.3), (-2, -1), (0.1, None), "leaves a difference of 0.10 or more"),
            ((-0.1, math.inf), (1, 2), (None, None), "lets the difference fall"),
            ((-math.inf, 0.1), (-2, -1), (None, None), "lets the difference rise"),
            ((0.1, 0.3), (-1, 2), (None, None), "could be noise"),
        ],
    )  # fmt: skip
    def test_each_case_has_its_words(self, joint, influence, ends, words):
        row = Row("a = 1", {}, sum(influence) / 2, *influence, *ends, 1, 2)
        asked = sample.question(joint_low=joint[0], joint_high=joint[1], smallest_high=100.0)
        made = sample.explanation(rows=(row,), question=asked, scale=1.0, margin_of_error=0.5)
        assert said(made) == words


def random_table(seed):
    """Two or three groups of odd sizes, an attribute of few values, and a number for each row."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 60, 2 + seed % 2)
    rate, kind = rng.uniform(0, 4, 3), rng.dirichlet(np.full(3, 0.7), len(sizes))
    frames = []
    for group, size in enumerate(sizes):
        x = rng.choice(3, size, p=kind[group])
        v = rng.poisson(rate[x] + 0.3 * group).clip(0, 6)
        frames.append(pd.DataFrame({"g": "ABC"[group], "x": np.array([*"uwz"])[x], "v": v}))
    return pd.concat(frames, ignore_index=True)


def simpson():
    """Stones of two sizes: the second treatment is better over all, and worse for each size."""
    counts = {("first", "small"): (87, 81), ("first", "large"): (263, 192)}
    counts |= {("second", "small"): (270, 234), ("second", "large"): (80, 55)}
    cells = [
        (treatment, size, int(i < cured))
        for (treatment, size), (patients, cured) in counts.items()
        for i in range(patients)
    ]
    return pd.DataFrame(cells, columns=["g", "x", "v"])


def influence(frame, function, question, value):
    """The exact influence of x = value, by definition 1 of docs/methods/dpxplain.md."""
    groups = [frame[frame["g"] == name] for (name,) in question.groups]
    rest = [group[group["x"] != value] for group in groups]
    fewest, largest = min(map(len, rest)), 1 + max(map(len, groups))
    if not fewest:
        return 0.0
    changes = [
        fewest * (all_["v"].mean() - left["v"].mean())
        if function == "AVG(v)"
        else fewest / largest * (len(all_) - len(left) if function == "COUNT(*)" else all_["v"].sum() - left["v"].sum())
        for all_, left in zip(groups, rest, strict=True)
    ]  # fmt: skip
    return sum(w * change for w, change in zip(question.weights, changes, strict=True))


def explained_table(frame, function, weights, rhos, noise):
    """Explain at each rho, and yield each sentence, what is true, and whether its intervals hold."""
    names, values = sorted(frame["g"].unique()), sorted(frame["x"].unique())
    kinds = {"g": dpnb.Category(names), "x": dpnb.Category(values), "v": dpnb.Integer(0, 6)}
    table = dpnb.Table("t", frame, dpnb.Schema(kinds))
    sql = f"SELECT g, {function} AS m FROM t GROUP BY g"
    options = {"predicates": [f"x = '{value}'" for value in values], "k": len(values)}
    with dpnb.Session(table, budget=dpnb.Budget(rho=10**7), noise=noise) as session:
        questions = [session.query(sql, rho=rho).compare(weights) for rho in rhos]
        made = [
            session.explain(question, rho=rho, anyway=True, **options)
            for question, rho in zip(questions, rhos, strict=True)
        ]
    before, *rests = differences(
        duckdb.from_df(frame), "g", "*" if function == "COUNT(*)" else "v", questions[0],
        options["predicates"],
    )  # fmt: skip
    after = dict(zip(options["predicates"], rests, strict=True))
    sizes = frame["g"].value_counts()[[name for (name,) in questions[0].groups]]
    for question, found in zip(questions, made, strict=True):
        holds = question.joint_low <= before <= question.joint_high and (
            question.smallest_high is None
            or (sizes.min() <= question.smallest_high and sizes.max() >= question.largest_low)
        )
        for row in found.rows:
            exact = influence(frame, function, question, row.predicate.split("'")[1])
            inside = row.influence_low <= exact / found.scale <= row.influence_high
            yield effect_text(found, row), before, after[row.predicate], holds and inside


class TestRandomTables:
    """Whenever the exact values lie in their intervals, what is said is true of the table."""

    @pytest.mark.parametrize("function", ["COUNT(*)", "SUM(v)", "AVG(v)"])
    def test_each_sentence(self, function, fast):
        said, reversals = Counter(), 0
        for seed in range(10):
            weights = [{"A": 1, "B": -1}, {"A": -1, "B": 1}, {"A": 2, "B": -1}][seed % 3]
            lines = explained_table(
                random_table(seed), function, weights, (0.5, 20, SURE), fast(seed)
            )
            for words, before, rest, holds in lines:
                if not holds:
                    continue
                assert is_true(words, before, rest), (seed, words, before, rest)
                said[words.split()[0]] += 1
                if rest is not None and before * rest < 0 and words != "could be noise":
                    reversals += 1
                    assert "revers" in words or "leaves" in words
        assert said["lowers"] >= 5
        assert said["widens"] >= 5
        assert said["narrows"] >= 5
        assert reversals >= 3

    @pytest.mark.parametrize("seed", range(3))
    def test_a_reversal_within_each_value_is_never_said_to_be_a_smaller_difference(
        self, seed, fast
    ):
        """Without either value the order turns round, so each line says that it does or may."""
        weights, rhos = {"second": 1, "first": -1}, (20, 1_000, SURE)
        lines = list(explained_table(simpson(), "AVG(v)", weights, rhos, fast(seed)))
        for words, before, rest, _ in lines:
            assert rest < 0 < before
            assert words == "could be noise" or "revers" in words or "leaves" in words
        assert sum("revers" in words for words, *_ in lines) >= 2
