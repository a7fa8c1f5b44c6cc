"""Statements of the whole grammar have the numbers, groups and order of DuckDB.

The long form is ``python -m tests.fuzz.whole --statements 100000``.
"""

from __future__ import annotations

import os

from tests.fuzz.whole import examine, statement, unlike

STATEMENTS = 3_000 if os.environ.get("DPNB_ALL") else 30


def test_statements_of_the_whole_grammar_are_as_in_duckdb():
    counts, failures = examine(7, range(STATEMENTS))
    assert not failures
    assert counts["compared"] > 0.6 * STATEMENTS
    assert counts["not by DuckDB"] < 0.05 * STATEMENTS


def test_a_number_makes_its_statement_again():
    assert statement(5, 123) == statement(5, 123)
    assert len({statement(5, number).text for number in range(50)}) > 45


def test_what_differs_is_noticed():
    lines = [("a", 1.0), ("b", None)]
    assert not unlike(lines, [("b", None), ("a", 1)], ordered=False)
    assert unlike(lines, [("b", None), ("a", 1)], ordered=True)
    assert unlike(lines, [("a", 1), ("b", 2)], ordered=False)
    assert unlike(lines, [("a", 1)], ordered=False)
