"""Whole sessions lose no more than they are charged, on pairs of small neighbouring tables.

With DPNB_LONG=1 these are all of that size.
"""

from __future__ import annotations

import os

import pytest

from dpnb.privacy.definition import PURE, ZCDP
from tests.audit.whole import (
    DEFECTS,
    EXPLANATIONS,
    ON_IDS,
    ON_ROWS,
    PLAIN,
    ROWS,
    UNIT,
    id_tables,
    pairs_of,
    row_tables,
    worst,
)

CLOSE = 1e-9
LONG = os.environ.get("DPNB_LONG") == "1"
ALIKE = ("a count", "a mean", "a filter", "CASE", "arithmetic", "disjoint parts")
"""In a pure session others draw the same way: sums, several aggregates, parts that are refined in turn."""
FOUR = ((0, 1, 2, 3), (0, 2, 3, 3), (0, 2, 2, 3), (0, 1, 1, 2), (1, 1, 3, 3))
"""Places in ``PLAIN``: all four rows, three of them, two of them; the first lose the most."""


@pytest.fixture
def few(size):
    """Whether some of all tables will do."""
    return size(1) == 1


def check(tables, audited, privacy=ZCDP):
    script, least = audited
    found, charged = worst(tables, script, privacy)
    assert least * charged * (1 - 1e-6) <= found <= charged * (1 + CLOSE)


@pytest.mark.parametrize("name", ON_ROWS)
def test_rows(name, few):
    check(row_tables(ROWS, 2, few=few), ON_ROWS[name])


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_explanations(name, few):
    tables = pairs_of(PLAIN, FOUR) if few else row_tables(PLAIN, 4)
    check(tables, EXPLANATIONS[name])


@pytest.mark.parametrize("name", ON_IDS)
def test_ids(name, few):
    check(id_tables(2, UNIT, few=few), ON_IDS[name])


@pytest.mark.parametrize(
    "name", ON_ROWS if LONG else [name for name in ON_ROWS if name not in ALIKE]
)
def test_rows_of_a_pure_session(name):
    check(row_tables(ROWS, 1), ON_ROWS[name], PURE)


@pytest.mark.parametrize("name", ON_IDS)
def test_ids_of_a_pure_session(name):
    check(id_tables(1, UNIT), ON_IDS[name], PURE)


@pytest.mark.parametrize(
    ("defect", "script", "privacy"),
    [(one, name, unit) for one in DEFECTS for name in one.scripts for unit in one.definitions],
)
def test_defects_are_caught(defect, script, privacy):
    found, charged = defect.worst(script, privacy)
    assert found > charged * (1 + CLOSE)
