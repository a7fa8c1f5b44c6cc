"""Spark answers random statements as DuckDB does, with the same noise."""

from __future__ import annotations

from itertools import count

import pytest

from tests.fuzz import whole
from tests.fuzz.grammar import DECLARED
from tests.fuzz.run import BLOCK, Report, examine, frames_of

pytestmark = pytest.mark.spark

SEED = 3
COMPARED = 15


def test_spark_answers_alike(classic, tmp_path):
    report = Report()
    for block in count():
        numbers = range(block * BLOCK, (block + 1) * BLOCK)
        report.add(examine(SEED, numbers, spark=frames_of(classic, tmp_path)))
        if report.failures or report.counts["compared with Spark"] >= COMPARED:
            break
    assert report.failures == []


def test_spark_has_the_numbers_of_duckdb_for_the_whole_grammar(classic, tmp_path):
    frame = frames_of(classic, tmp_path)
    counts, failures = whole.examine(
        SEED, range(40), lambda name, rows: rows if DECLARED[name].key else frame(rows)
    )
    assert not failures
    assert counts["compared"] > COMPARED
