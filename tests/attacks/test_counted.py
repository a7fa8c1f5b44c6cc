"""Numbers of people in groups: what they count, how much one person changes them, and what is said.

Each person counts in every group where they have a kept row, unless the owner declares fewer groups. Counts,
groups and sentences are worked out again from the kept rows and the declared values.
"""

from __future__ import annotations

import itertools
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, Integer, Schema, Table, Unit
from dpnb.curator import Curator
from dpnb.display.cards import answer as answer_card
from dpnb.display.cards import decision as decision_card
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.schema.joins import pair
from dpnb.sql.parser import parse
from dpnb.views.view import scan_of, views_of
from tests.kit.noise import ContinuousNoise, NoNoise
from tests.kit.streams import LONG

A, B = range(7), "xyz"
SCHEMA = Schema({"a": Integer(0, 6), "b": Category([*B]), "v": Integer(0, 9)})
CONDITIONS = {
    "": lambda a, b: True,
    "a IN (2, 5)": lambda a, b: a in (2, 5),
    "b = 'x'": lambda a, b: b == "x",
    "a < 3 AND b <> 'z'": lambda a, b: a < 3 and b != "z",
    "(a = 1 OR b = 'y')": lambda a, b: a == 1 or b == "y",
    "v > 4": lambda a, b: True,
    "(v > 4 AND a >= 5)": lambda a, b: a >= 5,
}
"""Conditions, and which groups they can match."""


def crowd():
    """Person 0 has a row in each of the 21 cells, the others in one to ten."""
    rng = np.random.default_rng(5)
    cells = list(itertools.product(A, B))
    places = [range(21), *(rng.choice(21, rng.integers(1, 11), replace=False) for _ in range(24))]
    rows = [(who, *cells[place]) for who, found in enumerate(places) for place in found]
    frame = pd.DataFrame(rows, columns=["id", "a", "b"])
    return frame.assign(v=rng.integers(0, 10, len(frame)))


FRAME = crowd()


def sql_of(keys, where, inside):
    conditions = f" WHERE {where}" if where else ""
    counted = f"COUNT(DISTINCT id){f' FILTER (WHERE {inside})' if inside else ''} AS n"
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, counted])} FROM t{conditions}{grouped}"


def matched(keys, where, inside):
    """How many groups of some keys the conditions can match."""
    tests = CONDITIONS[where], CONDITIONS[inside]
    cells = [dict(zip("ab", cell, strict=True)) for cell in itertools.product(A, B)]
    inside_both = [cell for cell in cells if all(test(**cell) for test in tests)]
    return len({tuple(cell[key] for key in keys) for cell in inside_both})


def some(seed):
    """A statement and bounds at random."""
    rng = np.random.default_rng(seed)
    keys = [(), ("a",), ("b",), ("a", "b")][rng.integers(4)]
    where, inside = (str(one) for one in rng.choice([*CONDITIONS], 2))
    most = [None, 1, 2, 3, 5, 30][rng.integers(6)]
    return keys, where, inside, Unit("id", int(rng.choice([1, 3, 8, 30])), most)


@pytest.fixture(scope="module")
def engines():
    """For each number of kept rows: the engines of the crowd, and of the crowd without person 0."""
    lent = {}
    for most in (1, 3, 8, 30):
        pair_of = []
        for frame in (FRAME, FRAME[FRAME["id"] != 0]):
            engine = DuckDBEngine(Table("t", frame, SCHEMA, Unit("id", most)))
            engine.bound(b"one key")
            pair_of.append(engine)
        lent[most] = pair_of
    yield lent
    for engine in itertools.chain(*lent.values()):
        engine.close()


class TestOnePerson:
    """Exact vectors of neighbours differ by no more than the noise is made for, and by all of it."""

    def test_changes_no_more_counts_than_are_paid(self, engines):
        reached = []
        for seed in range(2_000 if LONG else 120):
            keys, where, inside, unit = some(seed)
            table = Table("t", None, SCHEMA, unit)
            query = parse(sql_of(keys, where, inside), {"t": table})
            (view,) = views_of(query.aggregates[0], query, 1).values()
            scan = scan_of(query.where, {"": view})
            pair_of = [engine.measure(scan).reveal(0) for engine in engines[unit.max_rows]]
            gaps = np.abs(np.subtract(*pair_of))
            assert set(gaps) <= {0, 1}
            changed = int(gaps.sum())
            # as few as the bounds and the declared groups allow, and the noise is made for them
            found = matched(keys, where, inside)
            groups = max(1, found)
            bound = min(unit.max_rows, unit.max_groups or groups, groups)
            # a condition on several columns may be taken for wider than it is, never for narrower
            assert view.measure.groups >= bound >= changed, (seed, unit)
            if found and "OR" not in where + inside:
                assert view.measure.groups == bound
            for privacy, norm in ((PURE, changed), (ZCDP, changed**0.5)):
                assert norm * view.scale <= view.lattice_sensitivity(privacy)
            reached.append(changed / bound)
        assert np.mean(np.array(reached) == 1) > 0.4

    @pytest.mark.parametrize(
        ("bounds", "most"),
        [((None, None), None), ((2, None), 2), ((None, 5), 5), ((3, 2), 2)],
    )
    def test_pairs_count_in_as_many_groups_as_they_are_in(self, bounds, most):
        schema = Schema({"a": Integer(0, 6)})
        tables = [
            Table(name, None, schema, Unit("id", 3, groups))
            for name, groups in zip("pq", bounds, strict=True)
        ]
        pairs = pair(*tables)
        assert (pairs.unit.max_rows, pairs.unit.max_groups) == (9, most)


@pytest.mark.parametrize(
    "unit", [Unit("id", 30), Unit("id", 8), Unit("id", 30, 2), Unit("id", 8, 7)]
)
class TestWords:
    """The sentence stands where an owner's limit can lower a number, and nowhere else."""

    STATEMENTS = (
        (("a",), "", ""),
        (("b",), "", ""),
        (("a", "b"), "", "v > 4"),
        (("a",), "a IN (2, 5)", ""),
        ((), "a < 3 AND b <> 'z'", ""),
    )

    def test_prices_answers_and_decisions_say_where_numbers_are_too_low(self, unit):
        table = Table("t", FRAME, SCHEMA, unit)
        with closing(Curator(table, budget=dpnb.Budget(rho=1_000), noise=NoNoise())) as curator:
            session = curator.session()
            connection = curator._runner.engines["t"]._connection
            kept = connection.execute("SELECT u AS id, c0 AS a, c1 AS b, c2 AS v FROM rows").df()
            said = []
            for keys, where, inside in self.STATEMENTS:
                sql = sql_of(keys, where, inside)
                few = unit.max_groups or 30
                low = few < min(unit.max_rows, matched(keys, where, inside))
                early = ", picked before any condition" if where or inside else ""
                sentence = (
                    f"Each person counts in at most {few} group{'s' * (few > 1)}{early}; the "
                    "numbers are too low where people are in more."
                )
                price, answer = session.price(sql, rho=1), session.query(sql, rho=1)
                shown = [str(price), price._repr_html_(), str(answer), answer._repr_html_()]
                shown.append(answer_card.answer_markdown(answer))
                if keys:
                    only = f" FILTER (WHERE {inside})" if inside else ""
                    having = f"{sql} HAVING COUNT(DISTINCT id){only} > 4"
                    plan = session.price(having, u=2, beta=0.1)
                    decision = session.decide(having, u=2, steps=1, beta=0.1)
                    shown += [str(plan), plan._repr_html_(), str(decision)]
                    shown += [decision_card.decision_markdown(decision), decision._repr_html_()]
                for text in shown:
                    assert text.count("numbers are too low") == low, (sql, text)
                    assert (sentence in text) == low, text
                said.append(low)
                # and it is true: without it the numbers are those of SQL
                codes = kept.assign(b=kept["b"].map(dict(enumerate(B))))
                for condition in filter(None, (where, inside)):
                    plain = condition.replace(" AND ", " and ").replace("<>", "!=")
                    codes = codes.query(
                        plain.replace("IN (2, 5)", "in (2, 5)").replace(" = ", " == ")
                    )
                true = codes.groupby([*keys])["id"].nunique() if keys else codes["id"].nunique()
                found = answer.to_frame()
                if keys:
                    labels = [codes[key].isin(found[key].unique()) for key in keys]
                    assert all(column.all() for column in labels)
                    exact = [
                        true.get(tuple(group) if len(keys) > 1 else group[0], 0)
                        for group in found[[*keys]].itertuples(index=False, name=None)
                    ]
                else:
                    exact = [true]
                assert (found["n"] <= exact).all()
                assert (found["n"].tolist() == exact) or low
            assert any(said) == (unit.max_groups is not None)
            assert not all(said)

    def test_beside_other_numbers_it_names_which_are_too_low(self, unit):
        with dpnb.Session(
            Table("t", FRAME, SCHEMA, unit), budget=dpnb.Budget(rho=9), ledger=None
        ) as session:
            for more in ("COUNT(*) AS m", "COUNT(*) / COUNT(DISTINCT id) AS m"):
                sql = f"SELECT a, b, COUNT(DISTINCT id) AS n, {more} FROM t GROUP BY a, b"
                for text in (str(session.price(sql, rho=1)), str(session.query(sql, rho=1))):
                    named = f"In COUNT(DISTINCT id), each person counts in at most {unit.max_groups} groups;"
                    assert (named in text) == (unit.max_groups is not None)
                    assert "Each person" not in text

    @pytest.mark.parametrize("mode", ["rr", "hybrid", "certified"])
    def test_randomised_response_says_how_often_it_counts(self, unit, mode):
        """It counts an id in one group by default, so it may contradict every other number."""
        sql = "SELECT a FROM t GROUP BY a HAVING COUNT(*) > 4"
        few = unit.max_groups or 1
        said = (
            f"Randomised response counts each person in at most {few} group{'s' * (few > 1)} and "
            "leaves out their other rows, so counts are too low where people are in more."
        )
        cut = few < min(unit.max_rows, 7)
        with dpnb.Session(
            Table("t", FRAME, SCHEMA, unit), budget=dpnb.Budget(rho=900), ledger=None
        ) as session:
            plan, decision = (
                session.price(sql, mode=mode, u=30),
                session.decide(sql, mode=mode, u=30),
            )
            for text in (str(plan), plan._repr_html_(), str(decision), decision._repr_html_()):
                assert (said in text) == cut
                assert "numbers are too low" not in text


class TestDays:
    """People who come on several days: the numbers of each day are what SQL would say."""

    SCHEMA = Schema({"day": Date("2024-01-01", "2024-01-31")})
    SQL = "SELECT day, COUNT(DISTINCT person) AS n FROM t GROUP BY day"

    def frame(self):
        rng = np.random.default_rng(1)
        days = pd.date_range("2024-01-01", "2024-01-31")
        visits = [(who, days[i]) for who in range(450) for i in rng.choice(31, 8, replace=False)]
        return pd.DataFrame(visits, columns=["person", "day"])

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_answers_and_decisions_are_about_everybody(self, privacy):
        frame = self.frame()
        budget = dpnb.Budget(**{"rho" if privacy == ZCDP else "epsilon": 1_000})
        table = Table("t", frame, self.SCHEMA, Unit("person", 8))
        true = frame.groupby("day")["person"].nunique().to_numpy()
        assert true.min() > 90
        with closing(Curator(table, budget=budget, noise=ContinuousNoise(2))) as curator:
            session = curator.session()
            answer = session.query(self.SQL, error=9).to_frame()
            assert ((answer["n_low"] <= true) & (true <= answer["n_high"])).all()
            threshold = float(np.median(true)) + 0.5
            made = session.decide(f"{self.SQL} HAVING COUNT(DISTINCT person) > {threshold}", u=12)
            chosen, verdicts = np.array(made.chosen), np.array(made.verdicts)
            assert (verdicts[true > threshold] >= 0).all()
            assert (verdicts[true < threshold] <= 0).all()
            assert chosen[true > threshold + 6].all()
            assert not chosen[true < threshold - 20].any()
            assert (verdicts != 0).sum() > 10
