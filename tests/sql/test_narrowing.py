"""Bounds in the rows that conditions leave: never too narrow, and narrow where that is sharp."""

from __future__ import annotations

import itertools
from contextlib import closing
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.schema.predicates import EVERY, Within
from dpnb.sql.parser import parse
from dpnb.sql.values import Column
from dpnb.views.definitions import read_view
from dpnb.views.measures import Scan, Sum, sum_of
from dpnb.views.view import views_of

SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "wage": Integer(0, 200),
        "net": Integer(-3, 3),
        "debt": Real(-5, 0),
        "pay": Real(0, 200),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}


def measure(text, where=""):
    query = parse(f"SELECT {text} AS r FROM t{where and f' WHERE {where}'}", TABLES)
    return views_of(query.measured[0], query, 1)["sum"].measure


def reach(text, where=""):
    found = measure(text, where)
    return float(found.sensitivity * found.step)


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        ("SUM(wage)", "", 200),
        ("SUM(wage)", "wage <= 20", 20),
        ("SUM(wage) FILTER (WHERE wage <= 20)", "", 20),
        ("SUM(wage) FILTER (WHERE wage <= 20 OR sex = 'F')", "", 200),
        ("SUM(wage) FILTER (WHERE wage <= 20 OR wage IS NULL)", "", 20),
        ("SUM(wage) FILTER (WHERE wage <= 20 OR wage BETWEEN 50 AND 60)", "", 60),
        ("SUM(wage) FILTER (WHERE wage <= 50)", "wage <= 20 OR wage >= 40", 50),
        ("SUM(wage) FILTER (WHERE NOT wage > 20)", "", 20),
        ("SUM(CASE WHEN wage <= 20 THEN wage ELSE 20 END)", "", 20),
        ("SUM(CASE WHEN wage <= 20 THEN wage ELSE 0 END)", "", 20),
        ("SUM(CASE WHEN wage <= 20 THEN 0 ELSE wage END)", "wage <= 30", 30),
        ("SUM(CASE WHEN wage > 20 THEN 0 WHEN sex = 'F' THEN wage ELSE -wage END)", "", 20),
        ("SUM(CASE WHEN wage > 20 AND sex = 'F' THEN 0 ELSE wage END)", "", 200),
        ("SUM(CASE WHEN wage > 20 OR sex = 'F' THEN 0 ELSE wage END)", "", 20),
        ("SUM(2 * wage - 5)", "wage BETWEEN 10 AND 20", 35),
        ("AVG(wage)", "wage <= 20", 10),
        ("SUM(debt)", "debt > -1", 1),
        ("SUM(wage * net)", "wage <= 20 AND net > 0", 60),
    ],
)  # fmt: skip
def test_bounds_follow_from_conditions(text, where, expected):
    assert reach(text, where) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("SUM(wage)", "wage IS NULL"), ("SUM(wage) FILTER (WHERE wage < 3)", "wage > 5"), ("SUM(wage)", "wage = 0"),
        ("SUM(CASE WHEN wage > 3 THEN 200 END)", "wage < 3"), ("AVG(wage)", "wage IS NULL"),
    ],
)  # fmt: skip
def test_a_sum_of_nothing_keeps_the_bounds_of_all_rows(text, where):
    assert reach(text, where) in (100, 200)


def test_the_mean_of_one_value_is_about_all_of_them():
    assert reach("AVG(wage)", "wage = 7") == 100


PARTS = ("wage", "net", "2 * net", "CASE WHEN net > 0 THEN net ELSE wage END", "net * net",
         "CASE WHEN wage > 1 THEN net WHEN sex = 'F' THEN wage END")  # fmt: skip
CONDITIONS = ("net >= 2", "net < 0 OR wage = 1", "NOT (net > 0 AND sex = 'F')", "wage IS NOT NULL",
              "sex = 'F' OR net = 1", "net IN (-3, 2)", "NOT net BETWEEN -1 AND 3")  # fmt: skip
SMALL = {"sex": Category(["F", "M"]), "wage": Integer(0, 2), "net": Integer(-3, 3)}
ROWS = pd.DataFrame(
    list(itertools.product(["F", "M", None], [0, 1, 2, None], [*range(-3, 4), None])),
    columns=["sex", "wage", "net"],
).astype({"wage": "Int64", "net": "Int64"})


@pytest.mark.parametrize("in_memory", [(), None], ids=["sql", "arrays"])
def test_no_row_changes_a_sum_by_more_than_it_claims(in_memory):
    """Every row there can be, each of them alone: the largest change is at most the claim."""
    rows = ROWS.assign(row=range(len(ROWS)))
    schema = Schema({**SMALL, "row": Integer(0, len(ROWS) - 1)}, complete=["row"])
    table = Table("t", rows, schema, in_memory=in_memory)
    tables, sharp = {"t": table}, 0
    with closing(DuckDBEngine(table)) as engine:
        engine.bound(bytes(32))
        assert (engine._arrays is not None) == (in_memory is None)
        for part, condition in itertools.product(PARTS, CONDITIONS):
            sql = f"SELECT row, SUM({part}) AS r FROM t WHERE {condition} GROUP BY row"
            query = parse(sql, tables)
            view = views_of(query.aggregates[0], query, 1)["sum"]
            scan = Scan(view.keys, view.where, ((view.measure, EVERY),))
            changes = [abs(change) for change in engine.measure(scan).reveal(0)]
            assert len(changes) == len(ROWS)
            assert max(changes) <= view.measure.sensitivity, (part, condition)
            sharp += max(changes) == view.measure.sensitivity
    assert sharp >= 25


@pytest.mark.parametrize("kind", [Integer(0, 200), Real(0, 200)], ids=["whole", "real"])
@pytest.mark.parametrize("in_memory", [(), ("x",)], ids=["sql", "arrays"])
@pytest.mark.parametrize("rows", [5, 3000])
@pytest.mark.parametrize("centred", [False, True])
def test_the_engine_clamps_to_the_narrower_bounds_last(kind, in_memory, rows, centred):
    """Even if a condition let other rows through, none of them would count for more."""
    schema = Schema({"x": kind})
    narrow = sum_of(Column("x"), schema, Within("x", ((50, 60),)), centred=centred)
    frame = pd.DataFrame({"x": np.full(rows, 200.0)})
    engine = DuckDBEngine(Table("t", frame, schema, in_memory=in_memory))
    engine.bound(bytes(32))
    try:
        for measured in (narrow, sum_of(Column("x"), schema, centred=centred)):
            scan = Scan((), EVERY, ((measured, EVERY),))
            assert engine.measure(scan).reveal(0)[0] == rows * measured.greatest
    finally:
        engine.close()


def test_views_of_old_ledgers_keep_the_bounds_of_their_definition():
    query = parse("SELECT SUM(wage) AS r FROM t WHERE wage <= 20", TABLES)
    view = views_of(query.aggregates[0], query, 1)["sum"]
    for measured in (view.measure, sum_of(Column("wage"), SCHEMA, centred=False)):
        definition = {**view.definition(), "measure": measured.definition()}
        again = read_view(definition, SCHEMA)
        assert again.measure == measured
        assert again.definition() == definition
    with pytest.raises(ValueError, match="fits no declared column"):
        read_view({**view.definition(), "measure": ["sum", "wage", "0", "1", 0, 300]}, SCHEMA)


@pytest.mark.parametrize(
    "text", ["SUM(pay)", "AVG(pay)", "SUM(wage)", "AVG(wage)", "SUM(wage * debt)"]
)
@pytest.mark.parametrize("where", ["", "wage <= 20", "pay < 33.3 AND debt > -1"])
def test_sums_are_read_back_from_their_definition(text, where):
    found = measure(text, where)
    view = views_of(parse(f"SELECT {text} AS r FROM t", TABLES).aggregates[0],
                    parse(f"SELECT {text} AS r FROM t", TABLES), 1)["sum"]  # fmt: skip
    assert isinstance(found, Sum)
    assert read_view({**view.definition(), "measure": found.definition()}, SCHEMA).measure == found


def test_a_narrower_sum_is_dearer_for_nobody_and_more_exact():
    frame = pd.DataFrame({"wage": np.arange(1000) % 201, "sex": ["F", "M"] * 500})
    schema = Schema({"sex": Category(["F", "M"]), "wage": Integer(0, 200)})
    with dpnb.Session(Table("t", frame, schema), budget=dpnb.Budget(rho=1)) as session:
        wide = session.price("SELECT SUM(wage) AS s FROM t", rho=0.01)
        narrow = session.price("SELECT SUM(wage) FILTER (WHERE wage <= 20) AS s FROM t", rho=0.01)
        clipped = session.price(
            "SELECT SUM(CASE WHEN wage <= 20 THEN wage ELSE 20 END) AS s FROM t", rho=0.01
        )
        assert wide.widths[0][2] == pytest.approx(10 * narrow.widths[0][2], rel=1e-3)
        assert clipped.widths[0][2] == narrow.widths[0][2]


def test_sums_in_other_rows_combine_in_inference():
    """Their bounds differ; what they add up does not."""
    frame = pd.DataFrame({"wage": np.arange(1000) % 201, "sex": ["F", "M"] * 500})
    schema = Schema({"sex": Category(["F", "M"]), "wage": Integer(0, 200)})
    exact = int(frame.wage.sum())
    with dpnb.Session(Table("t", frame, schema), budget=dpnb.Budget(rho=1e9)) as session:
        session.query("SELECT SUM(wage) AS s FROM t WHERE wage <= 20", rho=1e5)
        session.query("SELECT SUM(wage) AS s FROM t WHERE wage > 20", rho=1e5)
        found = session.infer("SELECT SUM(wage) AS s FROM t")
        assert found.estimate == pytest.approx(exact, abs=2)


def test_the_condition_of_a_branch_excludes_those_before_it():
    query = parse("SELECT SUM(CASE WHEN net > 0 THEN 0 ELSE net END) AS r FROM t", TABLES)
    found = views_of(query.aggregates[0], query, 1)["sum"].measure
    assert (found.least, found.greatest) == (-3, 0)
    assert found.bounds == (Fraction(-3), Fraction(0))
