"""The table of speeds is written and read as one, and every benchmark in it is there."""

from __future__ import annotations

import pytest

from tests.benchmarks import guard, run
from tests.kit import verdicts

pytestmark = pytest.mark.fast


def test_what_benchmarks_print_is_what_the_guard_reads(capsys, monkeypatch):
    monkeypatch.setattr(verdicts, "_verdicts", [])
    verdicts.at_most(1.234, 1.5, "10M rows, AVG(x): CPU over plain DuckDB")
    verdicts.at_most(17.25, 4, "32,561 rows: CPU above plain DuckDB", "ms")
    verdicts.at_least(391.4, 450, "stored answers over HTTP", "a second")
    verdicts.must(True, "beside figures: all statements hold")
    with pytest.raises(SystemExit) as left:
        verdicts.finish()
    assert left.value.code == 1
    found = guard.read(capsys.readouterr().out)
    assert found == [
        guard.Figure("10M rows, AVG(x): CPU over plain DuckDB", "1.23", "at most 1.5", True),
        guard.Figure("32,561 rows: CPU above plain DuckDB", "17.2 ms", "at most 4", False),
        guard.Figure("stored answers over HTTP", "391 a second", "at least 450", False),
    ]


def test_figures_of_the_last_time_stand_beside_those_of_today():
    first = [
        guard.Figure("a", "1.2", "at most 1", False),
        guard.Figure("b", "3 ms", "at most 4", True),
    ]
    written = guard.table(first, {})
    assert guard.last(written) == {"a": "1.2", "b": "3 ms"}
    again = guard.table([guard.Figure("a", "0.9", "at most 1", True)], guard.last(written))
    assert "| a | at most 1 | 1.2 | 0.9 |" in again


def test_the_page_holds_figures_of_each_benchmark_that_is_watched():
    assert {name.replace(".", "/") for name in guard.WATCHED} <= set(run.scripts())
    page = guard.PAGE.read_text("utf-8")
    assert page.count(guard.START) == page.count(guard.END) == 1
    shown = guard.last(page)
    assert len(shown) >= 25
    for word in (
        "import dpnb",
        "over HTTP",
        "10M rows",
        "32,561 rows",
        "explanation",
        "inference",
        "risk",
    ):
        assert any(word in name for name in shown), word
