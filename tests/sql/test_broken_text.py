"""Whatever is written in a cell, only a DpnbError comes out, and the process lives.

``DPNB_LONG=1`` tries ten times as many texts and more; so does tests/fuzz.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import re

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnb import Category, Date, DpnbError, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import EngineError
from dpnb.privacy.definition import ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.sql import dataless, slips
from dpnb.sql.canonical import describe, read
from dpnb.sql.parser import parse

LONG = os.environ.get("DPNB_LONG") == "1"
SCHEMA = Schema(
    {
        "c": Category(["a", "b"]),
        "i": Integer(0, 9, bins=[0, 5, 9]),
        "r": Real(0, 1, bins=[0, 1]),
        "d": Date("2024-01-01", "2024-01-31"),
    }
)
TABLE = Table(
    "t",
    pd.DataFrame(
        {
            "c": ["a", "b", None],
            "i": [1, 2, 3],
            "r": [0.5, float("nan"), 1.0],
            "d": pd.to_datetime(["2024-01-05", None, "2024-01-07"]),
        }
    ),
    SCHEMA,
)
VALID = [
    "SELECT c, COUNT(*) AS n, AVG(r) FROM t WHERE i > 3 AND c = 'a' GROUP BY c ORDER BY n LIMIT 5",
    "SELECT COUNT(i) FILTER (WHERE d < DATE '2024-01-07'), SUM(r) s FROM t AS u WHERE NOT u.i IN (1, 2)",
    "SELECT i, d, SUM(i) FROM t WHERE r BETWEEN 0.1 AND .9 OR c IS NOT NULL GROUP BY i, d",
    "SELECT c, COUNT(*) n FROM t GROUP BY c HAVING n > 5 AND NOT (AVG(r) <= 1e-3);",
    "SELECT SUM(2*i - r/4) s, AVG(CASE WHEN i > 3 AND c = 'a' THEN r WHEN r IS NULL THEN -1 ELSE 0 END) FROM t",
    "SELECT 100 * COUNT(*) FILTER (WHERE i > 3) / COUNT(*) AS q, EXP(LN(AVG(r)) - -1) e FROM t",
]
TOKENS = re.findall(r"'[^']*'|\"[^\"]*\"|:?\w+|[^\s\w]", " ".join(VALID))
INSERTED = [
    *TOKENS,
    *"( ) [ ] { } , ; . * + - / % = < > <> != == := :: : ? $ @ # & | ^ ~ ! \\ ' \" ` \x00".split(
        " "
    ),
    *"DISTINCT UNION ALL EXISTS CASE WHEN THEN ELSE END OVER PARTITION WITHIN LATERAL JOIN ON".split(),
    *"USING NATURAL VALUES TABLESAMPLE PIVOT UNPIVOT WITH RECURSIVE INTO OFFSET FETCH QUALIFY".split(),
    *"CAST AS INT DATE TIMESTAMP INTERVAL ARRAY STRUCT MAP NULL TRUE FALSE DEFAULT IS LIKE".split(),
    *"ESCAPE SIMILAR COLLATE AT ZONE EXTRACT TRIM OVERLAY POSITION GROUPING SETS CUBE ROLLUP".split(),
    *":p :i 1e5 -1 0x1F 1_000 '' '''' E'x' N'x' $$x$$ -- /* */ /*+ {{ }} {% %} \ufeff é ☃ 😀".split(),
]


@pytest.fixture(scope="module")
def engine():
    found = DuckDBEngine(TABLE)
    yield found
    found.close()


def attempt(text, engine):
    """Parse, and when that works, plan and measure: the engine must manage whatever was accepted."""
    try:
        query = parse(text, {"t": TABLE}, {"p": 1, "i": "a"})
    except DpnbError as error:
        assert error.what
        assert len(str(error)) < 1_000
        return False
    # parameters are $name there
    duckdb.extract_statements(re.sub(r"(?<![:\w]):(?=\w)", "$", text))
    assert describe(read(describe(query), query.schema)) == describe(query)
    planned = plan(query, read_accuracy(query, ZCDP, None, rho=1), 1, ZCDP)
    engine.measure(planned.scan(planned.views))
    return True


@pytest.mark.parametrize("seed", range(80 if LONG else 4))
def test_mutilated_statements(seed, engine, caplog, capfd):
    generator = random.Random(seed)  # noqa: S311
    accepted = 0
    for _ in range(300):
        tokens = re.findall(r"'[^']*'|\"[^\"]*\"|:?\w+|\s+|[^\s\w]", generator.choice(VALID))
        for _ in range(generator.choice([1, 1, 1, 2, 3, 8])):
            place = generator.randrange(len(tokens)) if tokens else 0
            change = generator.randrange(5)
            if change == 0 and tokens:
                del tokens[place]
            elif change == 1:
                tokens.insert(place, f" {generator.choice(INSERTED)} ")
            elif change == 2 and tokens:
                tokens[place] = f" {generator.choice(INSERTED)} "
            elif change == 3 and tokens:
                other = generator.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
            elif change == 4:
                tokens = tokens[:place] + tokens[place:] * generator.choice([1, 2])
        accepted += attempt("".join(tokens), engine)
    assert accepted
    assert all(record.levelno < logging.WARNING for record in caplog.records)
    assert capfd.readouterr() == ("", "")


def test_clauses_have_one_order(engine):
    clauses = "WHERE i > 3", "GROUP BY c", "HAVING n > 5", "ORDER BY n", "LIMIT 5"
    accepted = [
        order
        for order in itertools.permutations(clauses)
        if attempt(f"SELECT c, COUNT(*) AS n FROM t {' '.join(order)}", engine)
    ]
    assert accepted == [clauses]


@given(st.text(max_size=200))
@settings(deadline=None, max_examples=2_000 if LONG else 100)
def test_any_text(engine, text):
    attempt(text, engine)


@given(st.lists(st.sampled_from(INSERTED), max_size=40))
@settings(deadline=None, max_examples=3_000 if LONG else 120)
def test_any_sequence_of_words(engine, words):
    attempt(f"SELECT {' '.join(words)}", engine)


@given(st.lists(st.sampled_from(INSERTED), max_size=12), st.integers(0, 6))
@settings(deadline=None, max_examples=3_000 if LONG else 120)
def test_any_words_inside_a_statement(engine, words, place):
    inserted = " ".join(words)
    attempt(
        [
            f"SELECT COUNT(*) FROM t WHERE {inserted}",
            f"SELECT COUNT(*) {inserted} FROM t",
            f"SELECT COUNT(*) FROM t {inserted}",
            f"SELECT COUNT({inserted}) FROM t GROUP BY {inserted}",
            f"SELECT SUM(i {inserted} r) FROM t",
            f"SELECT AVG(CASE {inserted} END) FROM t",
            f"SELECT COUNT(*) {inserted} SUM(i) AS n FROM t",
        ][place],
        engine,
    )


@given(st.characters(exclude_categories=()), st.integers(0, len(VALID[0])))
@settings(deadline=None, max_examples=3_000 if LONG else 120)
def test_any_character_anywhere(engine, character, place):
    attempt(VALID[0][:place] + character + VALID[0][place:], engine)


@pytest.mark.parametrize("cut", range(len(VALID[1])))
def test_every_beginning_of_a_statement(engine, cut):
    attempt(VALID[1][:cut], engine)


def test_a_parser_without_memory_says_one_fixed_text(monkeypatch):
    def parser():
        raise duckdb.OutOfMemoryException("could not allocate 1 GiB")

    monkeypatch.setattr(dataless, "connection", parser)
    with pytest.raises(EngineError) as refused:
        slips.slip("SELECT 1", ())
    assert str(refused.value) == (
        "the statement could not be parsed. Nothing was charged. Free some memory, and try again."
    )
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
