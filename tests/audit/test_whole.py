"""Whole sessions lose no more than they are charged, on every pair of small neighbouring tables."""

from __future__ import annotations

import pytest
from audit.whole import (
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

from dpnb.privacy import path
from dpnb.provenance.views import View

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


class TestDefects:
    """Each is seen by the same audit."""

    def caught(self, tables, audited, currency="zcdp"):
        found, charged = worst(tables, audited[0], currency)
        return found > charged * (1 + CLOSE)

    @pytest.mark.parametrize("name", ["a sum", "several aggregates", "refined", "disjoint parts"])
    def test_less_noise(self, name, monkeypatch):
        right = path.safe_scale
        monkeypatch.setattr(path, "safe_scale", lambda *given: right(*given) * 0.99)
        assert self.caught(row_tables(ROWS, 1), ON_ROWS[name])

    @pytest.mark.parametrize("currency", ["zcdp", "pure"])
    @pytest.mark.parametrize("name", ["a count", "ids of groups", "refined"])
    def test_rows_of_an_id_that_are_not_counted(self, name, currency, monkeypatch):
        right = View.lattice_sensitivity
        monkeypatch.setattr(
            View, "lattice_sensitivity", lambda view, currency: right(view, currency) // 2
        )
        assert self.caught(id_tables(1, UNIT), ON_IDS[name], currency)
