"""A boolean of one row changes no word, no price and no refusal, whatever is asked and however."""

from __future__ import annotations

import pandas as pd
import pytest

import dpnb
from dpnb import Boolean, Budget, Category, DpnbError, Integer, Schema, Table, Unit
from tests.engines.test_reading import csv_file, objects, parquet, relation

STATEMENTS = [
    "SELECT x, COUNT(*) AS n FROM t GROUP BY x",
    "SELECT NOT x AS y, AVG(x) AS m FROM t GROUP BY NOT x",
    "SELECT COUNT(*) AS n FROM t WHERE x",
    "SELECT COUNT(*) AS n FROM t WHERE x IS NOT TRUE OR x = 'no'",
    "SELECT SUM(CAST(x AS INTEGER)) AS s, COUNT_IF(x) AS n FROM t",
    "SELECT SUM(x + 1) AS s FROM t",
    "SELECT SUM(x * CAST(x AS INTEGER)) AS s FROM t",
    "SELECT COUNT(*) AS n FROM t WHERE x = 2",
    "SELECT COUNT(*) AS n FROM t WHERE x = 'maybe'",
    "SELECT COUNT(*) AS n FROM t WHERE x LIKE 't%'",
    "SELECT BOOL_AND(x) AS b FROM t",
    "SELECT MEDIAN(x) AS q FROM t",
]
OF_PERSONS = [
    "SELECT b, COUNT(*) AS n FROM (SELECT i, BOOL_OR(x) AS b FROM t GROUP BY i) AS p GROUP BY b",
    "SELECT AVG(CAST(b AS INTEGER)) AS m FROM (SELECT i, BOOL_AND(x) AS b FROM t GROUP BY i) AS p WHERE b OR b IS NULL",
    "SELECT SUM(b + 1) AS s FROM (SELECT i, BOOL_AND(x) AS b FROM t GROUP BY i) AS p",
]
VALUES = ["True", "False", "yes", "", "2", "0.5", "1e400", "nan", "NULL", "2024-01-01", "\u0661"]


def said(source, unit):
    """What a session says about a table, without the numbers of its answers."""
    schema = Schema({"x": Boolean()})
    words = []
    with dpnb.Session(Table("t", source, schema, unit), budget=Budget(rho=100)) as session:
        for sql in [*STATEMENTS, *(OF_PERSONS if unit else ())]:
            try:
                words.append(session.price(sql, rho="0.1").to_dict())
                answer = session.query(sql, rho="0.1")
                words.append((answer.groups, [str(key) for key in answer.keys], str(answer.spent)))
            except DpnbError as error:
                words.append((type(error).__name__, str(error)))
        words.append(repr(session.tables))
    return words


@pytest.mark.parametrize("unit", [None, Unit("i", max_rows=2)], ids=["rows", "persons"])
def test_neighbours_hear_the_same(unit, tmp_path):
    rest = ["True", "False", "true", "1"]
    usual = said(csv_file(rest, tmp_path), unit)
    assert said(csv_file([*rest, *VALUES], tmp_path), unit) == usual


def test_an_object_of_any_type_says_nothing():
    usual = said(objects([True, False]), None)
    for value in (2, "yes", [1]):
        assert said(objects([True, False, value]), None) == usual


def test_a_label_that_is_proposed_is_found():
    frame = pd.DataFrame({"x": [True, False] * 20})
    with dpnb.Session(
        Table("t", frame, Schema({"x": Boolean()})), budget=Budget(rho=10)
    ) as session:
        answer = session.query("SELECT x, COUNT(*) AS n FROM t GROUP BY x", rho=1)
        assert answer.groups == ((False,), (True,))
        assert answer.to_frame()["x"].dtype == bool
        with pytest.raises(DpnbError) as refused:
            answer.compare("true", "FALSE")
        assert refused.value.hint == "Did you mean 'TRUE'?"
        named = [("TRUE", "FALSE"), ("True", "False"), (True, False)]
        assert len({str(answer.compare(*names).low) for names in named}) == 1


def test_explanations_name_booleans_as_sql_does():
    frame = pd.DataFrame({"x": [True, False] * 50, "g": ["a", "a", "a", "b"] * 25, "n": [1] * 100})
    schema = Schema({"x": Boolean(), "g": Category(["a", "b"]), "n": Integer(0, 9)})
    with dpnb.Session(Table("t", frame, schema), budget=Budget(rho=1e6)) as session:
        question = session.query("SELECT g, COUNT(*) AS c FROM t GROUP BY g", rho=1e3).compare(
            "a", "b"
        )
        found = session.explain(question, k=2, rho=1e3).to_frame()["predicate"]
        assert set(found) == {"x = TRUE", "x = FALSE"}
        for condition in found:
            session.price(f"SELECT COUNT(*) FROM t WHERE {condition}", rho=1)


def test_every_door_reads_a_boolean(tmp_path):
    values = [True, False, None, True]
    asked = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"
    for source in (objects(values), parquet(values, tmp_path), relation(values)):
        with dpnb.Session(
            Table("t", source, Schema({"x": Boolean()})), budget=Budget(rho=1e9)
        ) as session:
            assert session.query(asked, rho=1e8).to_frame()["n"].round().tolist() == [1, 2]
