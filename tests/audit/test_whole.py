"""Whole sessions lose no more than they are charged, on every pair of small neighbouring tables."""

from __future__ import annotations

import pytest

from tests.audit.whole import (
    DEFECTS,
    EXPLANATIONS,
    ON_IDS,
    ON_ROWS,
    PLAIN,
    ROWS,
    UNIT,
    id_tables,
    row_tables,
    worst,
)

CLOSE = 1e-9


def check(tables, audited, currency="zcdp"):
    script, least = audited
    found, charged = worst(tables, script, currency)
    assert least * charged * (1 - 1e-6) <= found <= charged * (1 + CLOSE)


@pytest.mark.parametrize("name", ON_ROWS)
def test_rows(name):
    check(row_tables(ROWS, 2), ON_ROWS[name])


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_explanations(name):
    check(row_tables(PLAIN, 4), EXPLANATIONS[name])


@pytest.mark.parametrize("name", ON_IDS)
def test_ids(name):
    check(id_tables(2, UNIT), ON_IDS[name])


@pytest.mark.parametrize("name", ON_ROWS)
def test_rows_of_a_pure_session(name):
    check(row_tables(ROWS, 1), ON_ROWS[name], "pure")


@pytest.mark.parametrize("name", ON_IDS)
def test_ids_of_a_pure_session(name):
    check(id_tables(1, UNIT), ON_IDS[name], "pure")


@pytest.mark.parametrize(
    ("defect", "script", "currency"),
    [(one, name, unit) for one in DEFECTS for name in one.scripts for unit in one.currencies],
)
def test_defects_are_caught(defect, script, currency):
    found, charged = defect.worst(script, currency)
    assert found > charged * (1 + CLOSE)
