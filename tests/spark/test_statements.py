"""Spark answers random statements as DuckDB does, with the same noise."""

from __future__ import annotations

from itertools import count

import pytest

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
