"""PostgreSQL has the numbers of DuckDB for statements of the whole grammar."""

from __future__ import annotations

import pytest

from tests.engines.test_postgres import Place
from tests.fuzz.grammar import DECLARED
from tests.fuzz.whole import examine

pytestmark = pytest.mark.postgres


def test_its_numbers_are_those_of_duckdb(postgres):
    place = Place(postgres)
    counts, failures = examine(
        5, range(120), lambda name, rows: rows if DECLARED[name].key else place.keep(rows)
    )
    # PostgreSQL joins in views alone
    assert [one for one in failures if "cannot be joined" not in one[2]] == []
    assert counts["compared"] > 40
