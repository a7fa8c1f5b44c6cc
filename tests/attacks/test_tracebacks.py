"""Nothing exact is left in a traceback: opening runs in a thread of its own, and an error leaves it alone."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pytest
from IPython.core.ultratb import VerboseTB

import dpnb
from dpnb import Category, DpnbError, Integer, Real, Schema, Table, Unit
from dpnb.engines import duckdb as ducks
from dpnb.engines import sources, summary
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import InterruptedRequestError, SchemaError
from dpnb.interrupt import checkpoint
from dpnb.releases.runner import Runner
from tests.kit.prose import ROOT

SECRETS = "Zaphod", "77123."
"""In texts, and in numbers."""
ROWS = 20
FRAME = pd.DataFrame(
    {
        "id": [f"{SECRETS[0]} {i}" for i in range(ROWS)],
        "a": pd.Series([SECRETS[0], None] * (ROWS // 2), dtype=object),
        "m": [float(f"{SECRETS[1]}{i}") for i in range(ROWS)],
    }
)
SCHEMA = Schema({"a": Category(["x", "y"]), "m": Real(0, 1)})
UNIT = Unit("id", max_rows=2)
READING = {"duckdb.py", "sources.py", "runner.py", "summary.py", "normaliser.py"}
"""Files whose frames hold rows."""


@pytest.fixture(scope="module", params=["frame", "csv", "parquet"])
def source(request, tmp_path_factory) -> Any:
    path = tmp_path_factory.mktemp("rows") / f"rows.{request.param}"
    if request.param == "frame":
        return FRAME
    FRAME.to_csv(path, index=False) if request.param == "csv" else FRAME.to_parquet(path)
    return path


def opened(source: Any, schema: Schema = SCHEMA, **options: Any) -> dpnb.Curator:
    table = Table("t", source, schema, UNIT)
    return dpnb.Curator(table, budget=dpnb.Budget(rho=1), **options)


def frames_of(error: BaseException | None) -> Iterator[FrameType]:
    """All frames that an error keeps, with those of its cause and context, but those of this file."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename != __file__:
                yield trace.tb_frame
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


def names_of(error: BaseException) -> set[str]:
    """The files of all frames that an error keeps."""
    return {Path(frame.f_code.co_filename).name for frame in frames_of(error)}


def leaks(error: BaseException) -> list[str]:
    """Where a tool that prints variables would print rows."""
    shown = [f"{error!r}"]
    for frame in frames_of(error):
        for name, value in list(frame.f_locals.items()):
            try:
                text = repr(value)
            except Exception as failure:  # noqa: BLE001 - as a tool would
                text = repr(failure)
            shown.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {name} = {text}")
    return [text for text in shown if any(secret in text for secret in SECRETS)]


class Interrupting:
    """A trace that interrupts the first or a later line of the package, whichever thread runs it."""

    def __init__(self, at: int, main: bool = False) -> None:
        self.left, self.main, self.fired = at, main, False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(str(ROOT / "dpnb")):
            return None
        mine = threading.current_thread() is threading.main_thread()
        if event == "line" and not self.fired and (mine or not self.main):
            self.left -= 1
            if self.left == 0:
                self.fired = True
                raise KeyboardInterrupt
        return self

    def caught(self, work: Callable[[], Any]) -> BaseException | None:
        before = sys.gettrace()
        threading.settrace(self)
        sys.settrace(self)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - whatever comes out
            return error
        finally:
            sys.settrace(before)
            threading.settrace(before)  # type: ignore[arg-type]
        return None


class TestInterrupts:
    # a share of all lines, which take minutes
    @pytest.mark.parametrize(("main", "by"), [(True, 5), (False, 211)])
    def test_no_line_of_opening_leaves_rows_behind(self, source, main, by):
        table = Table("t", source, SCHEMA, UNIT)

        made: list[dpnb.Curator] = []

        def work() -> None:
            made.append(dpnb.Curator(table, budget=dpnb.Budget(rho=1)))

        work()
        at, struck = 1, 0
        while True:
            trace = Interrupting(at, main)
            error = trace.caught(work)
            if not trace.fired:
                break
            at, struck = at + by, struck + 1
            # an interrupt of the last lines may come too late to matter
            if error is not None:
                assert leaks(error) == []
                assert READING.isdisjoint(names_of(error))
        for curator in made:
            curator.close()
        assert struck > (20 if main else 8)

    def test_a_verbose_traceback_shows_no_rows(self, source, monkeypatch):
        def fail(*_: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(ducks, "find_column", fail)
        table = Table("t", source, SCHEMA, UNIT)
        with pytest.raises(KeyboardInterrupt) as caught:
            dpnb.Curator(table, budget=dpnb.Budget(rho=1))
        text = VerboseTB(include_vars=True, long_header=True).text(
            caught.type, caught.value, caught.tb.tb_next
        )
        assert "dpnb" in text
        assert not any(secret in text for secret in SECRETS)

    def test_it_stops_the_opening_and_leaves_nothing_open(self, monkeypatch, tmp_path):
        path, closed = tmp_path / "rows.csv", []
        FRAME.to_csv(path, index=False)
        load, close = DuckDBEngine._load, Runner.close

        def struck(self: Any, table: Table) -> None:
            _thread.interrupt_main()
            # here the scan stops, or the next statement does not begin
            while True:
                checkpoint()
            load(self, table)

        def noted(self: Runner) -> None:
            closed.append(self)
            close(self)

        with monkeypatch.context() as patch:
            patch.setattr(DuckDBEngine, "_load", struck)
            patch.setattr(Runner, "close", noted)
            with pytest.raises(InterruptedRequestError, match="Nothing was charged") as caught:
                opened(path, ledger=tmp_path / "l")
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert len(closed) == 1
        with closing(opened(path, ledger=tmp_path / "l")) as curator:
            assert curator.budget.spent.rho == 0

    def test_a_running_statement_is_stopped(self, monkeypatch):
        """DuckDB would count for minutes."""
        run = DuckDBEngine._run

        def long(self: Any, statement: str) -> Any:
            if statement.startswith("DESCRIBE"):
                threading.Timer(0.01, _thread.interrupt_main).start()
                statement = "SELECT COUNT(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 1"
            return run(self, statement)

        monkeypatch.setattr(DuckDBEngine, "_run", long)
        with pytest.raises(InterruptedRequestError, match="Nothing was charged"):
            opened(FRAME)

    def test_what_does_not_stop_is_left_behind_and_closes_itself(self, monkeypatch, tmp_path):
        monkeypatch.setattr("dpnb.interrupt._QUIET_SECONDS", 0.01)
        monkeypatch.setattr("dpnb.interrupt._TICK_SECONDS", 0.01)
        let, closed = threading.Event(), threading.Event()
        load, close = DuckDBEngine._load, Runner.close

        def deaf(self: Any, table: Table) -> None:
            _thread.interrupt_main()
            let.wait(60)
            load(self, table)

        def noted(self: Runner) -> None:
            close(self)
            closed.set()

        with monkeypatch.context() as patch:
            patch.setattr(DuckDBEngine, "_load", deaf)
            patch.setattr(Runner, "close", noted)
            with pytest.raises(InterruptedRequestError):
                opened(FRAME, ledger=tmp_path / "l")
            assert not closed.is_set()
            let.set()
            assert closed.wait(10)


WRONG: dict[str, Callable[[Any], Any]] = {
    "a missing column": lambda source: opened(source, Schema({"b": Integer(0, 1)})),
    "days as ids": lambda _: dpnb.Curator(
        Table("t", FRAME.assign(t=pd.Timestamp("2026-11-28")), SCHEMA, Unit("t", max_rows=1)),
        budget=dpnb.Budget(rho=1),
    ),
    "an id that is none": lambda source: dpnb.Curator(
        Table("t", source, SCHEMA, Unit("nobody", max_rows=1)), budget=dpnb.Budget(rho=1)
    ),
    "an undeclared column": lambda source: opened(source, Schema(dict(SCHEMA), undeclared=["b"])),
    "a name": lambda source: Table("1", source, SCHEMA),
    "a schema": lambda source: Table("t", source, {"a": 1}),
    "a unit": lambda source: Table("t", source, SCHEMA, "id"),
    "an argument": lambda source: Table("t", source, SCHEMA, keys="a"),
    "places": lambda source: Table("t", source, SCHEMA, None, True, "a"),
    "a draft's name": lambda source: dpnb.draft_schema(source, "no name"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_no_refusal_leaves_rows_behind(wrong, source):
    with pytest.raises(DpnbError) as caught:
        wrong(source)
    assert leaks(caught.value) == []
    assert READING.isdisjoint(names_of(caught.value))


def test_what_went_before_is_gone_as_well(monkeypatch):
    """An error that was raised while another one was handled keeps the other one."""

    def fail(*_: Any, **__: Any) -> Any:
        rows = FRAME
        try:
            raise ValueError(str(rows))
        except ValueError as error:
            raise SchemaError("a refusal", "Do something.") from error

    for module in (sources, ducks):
        monkeypatch.setattr(module, "frame_source", fail)
    with pytest.raises(SchemaError, match="a refusal") as caught:
        opened(FRAME)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert leaks(caught.value) == []


def test_a_draft_leaves_no_rows_behind(source, monkeypatch):
    def fail(*_: Any, **__: Any) -> Any:
        rows = FRAME
        if len(rows):
            raise KeyboardInterrupt

    monkeypatch.setattr(summary, "_column", fail)
    with pytest.raises(KeyboardInterrupt) as caught:
        dpnb.draft_schema(source)
    assert leaks(caught.value) == []
    assert names_of(caught.value) == {"draft.py", "interrupt.py"}
