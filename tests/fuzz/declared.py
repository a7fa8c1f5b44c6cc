"""Asks random statements of random declarations: what is added up is whole, and the same in both engines.

    python -m tests.fuzz.declared --tables 1000 [--first K] [--seed N]

Bounds are small, large, fractional and far from 0. Of each measure that a statement needs, the values in
ticks are compared between arrays in memory and SQL, and with what its sensitivity claims. Leaves with 1
where they differ, or where one engine raises.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import Any

import pandas as pd

from dpnb import Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import DpnbError
from dpnb.schema.predicates import EVERY
from dpnb.sql.narrowing import bounds_within
from dpnb.sql.parser import parse
from dpnb.views.measures import Scan, Sum
from dpnb.views.view import View, views_of

NAMES = "abc"
ROWS = 30
STATEMENTS = 12
LARGEST = 2**31
"""Most ticks of one value, so that those of 2**31 rows fit 64 bits."""
LOWS = {"whole": (0, -3, 1, 5, 10**6, -(10**9), 2**40), "real": (0.0, -0.5, 0.3, 3.2, -1e-3, 1e6 + 0.25, 16e9, -16e9)}  # fmt: skip
WIDTHS = {"whole": (1, 2, 9, 400, 10**6), "real": (0.7, 2.5, 20.0, 1e5)}
FORMS = (
    "({} + {})", "({} - {})", "({} * {})", "LEAST({}, {})", "GREATEST({}, {})", "COALESCE({}, {})", "ABS({})", "ABS({})",
    "(CASE WHEN {} < {} THEN {} ELSE {} END)",
)  # fmt: skip
STEPS = ("FLOOR({})", "ROUND({})", "FLOOR({} / 2.5)", "FLOOR({} * 3) * 1234567", "CEIL({} / 20)")


class Writer:
    """Random kinds, rows and statements."""

    def __init__(self, rng: random.Random) -> None:
        self.pick, self.chance, self.within = rng.choice, rng.random, rng.uniform

    def kind(self) -> Integer | Real:
        sort = self.pick(["whole", "real"])
        low, width = self.pick(LOWS[sort]), self.pick(WIDTHS[sort])
        # bounds that are closer together for their size are refused
        width = width if abs(low) < 1e7 else max(width, type(width)(20))
        return Integer(low, low + width) if sort == "whole" else Real(low, low + width)

    def column(self, kind: Integer | Real) -> Any:
        low, high = float(kind.low), float(kind.high)
        near = [low, high, low - 5, high + 5, *(self.within(low, high) for _ in range(6))]
        values = [None if self.chance() < 0.1 else self.pick(near) for _ in range(ROWS)]
        if isinstance(kind, Real):
            return pd.array(values, dtype="Float64")
        return pd.array([None if one is None else round(one) for one in values], dtype="Int64")

    def number(self, depth: int = 0) -> str:
        if depth > 1 or self.chance() < 0.4:
            return self.pick(NAMES)
        if self.chance() < 0.15:
            return self.pick(["1", "2.5", "0", "-3", "7"])
        if self.chance() < 0.25:
            return self.pick(STEPS).format(self.pick(NAMES))
        form = self.pick(FORMS)
        return form.format(*(self.number(depth + 1) for _ in range(form.count("{}"))))

    def test(self, depth: int = 0) -> str:
        one, other = self.pick(NAMES), self.pick(NAMES)
        order = self.pick(["<", "<=", ">", ">=", "=", "<>"])
        if depth < 2 and self.chance() < 0.25:
            return f"({self.test(depth + 1)}) {self.pick(['AND', 'OR'])} ({self.test(depth + 1)})"
        form = self.pick(["{} {} {}", "{} {} {}", "NOT {} {} {}", "{} + 1 {} {}"])
        return form.format(one, order, other)

    def statement(self) -> str:
        where = f" WHERE {self.test()}" if self.chance() < 0.7 else ""
        group = f" GROUP BY {self.pick(STEPS).format(self.pick(NAMES))}"
        function = self.pick(["SUM", "AVG", "SUM", "AVG", "COUNT"])
        return f"SELECT {function}({self.number()}) AS y FROM t{where}{group if self.chance() < 0.3 else ''}"


def problems_of(view: View, found: list[Any]) -> Iterable[str]:
    """Yield what is wrong with what two engines measure for a view."""
    measure = view.measure
    if isinstance(measure, Sum):
        bounds = bounds_within(measure.value, view.schema, view.where)
        if bounds.integral and {bounds.low.denominator, bounds.high.denominator} != {1}:
            yield f"bounds {bounds.low} to {bounds.high} of whole numbers"
        if measure.sensitivity > LARGEST:
            yield f"{measure.sensitivity} ticks for one value"
        if any(abs(one) > ROWS * measure.sensitivity for vector in found if isinstance(vector, list) for one in vector):  # fmt: skip
            yield f"more than {measure.sensitivity} ticks for one row"
    if found[0] != found[1] or not all(isinstance(vector, list) for vector in found):
        yield (
            f"{found[0]:.300} in SQL, {found[1]:.300} in memory"
            if isinstance(found[0], str)
            else f"{found}"[:600]
        )


def measured(engine: DuckDBEngine, view: View) -> Any:
    """Return a view's vector in ticks, or the text of an error."""
    try:
        return engine.measure(Scan(view.keys, view.where, ((view.measure, EVERY),))).reveal(0)
    except DpnbError as error:
        return str(error)


def examine(seed: int, numbers: Iterable[int]) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """Return what was measured, and the number of the table, the statement and the problem of each failure."""
    counts: Counter[str] = Counter()
    failures: list[tuple[int, str, str]] = []
    for number in numbers:
        writer = Writer(random.Random(seed << 64 | number))  # noqa: S311
        schema = Schema({name: writer.kind() for name in NAMES})
        rows = pd.DataFrame({name: writer.column(schema[name]) for name in NAMES})
        tables = {"t": Table("t", None, schema)}
        with ExitStack() as stack:
            engines = []
            for in_memory in ((), None):
                table = Table("t", rows, schema, in_memory=in_memory)
                engines.append(stack.enter_context(closing(DuckDBEngine(table))))
                engines[-1].bound(bytes(32))
            for text in [writer.statement() for _ in range(STATEMENTS)]:
                try:
                    query = parse(text, tables)
                    views = [
                        view
                        for one in query.aggregates
                        for view in views_of(one, query, 1).values()
                    ]
                except DpnbError:
                    counts["refused"] += 1
                    continue
                for view in views:
                    counts["measured"] += 1
                    counts["by group"] += bool(view.keys)
                    found = [measured(engine, view) for engine in engines]
                    failures += [
                        (number, f"{text}  {schema}", one) for one in problems_of(view, found)
                    ]
    return counts, failures


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--tables", type=int, default=100)
    reader.add_argument("--first", type=int, default=0)
    reader.add_argument("--seed", type=int, default=0)
    given = reader.parse_args()
    counts, failures = examine(given.seed, range(given.first, given.first + given.tables))
    for number, text, problem in failures:
        print(f"FAILED --seed {given.seed} --first {number} --tables 1: {problem}\n    {text}")
    print("\n".join(f"{count:>10,}  {name}" for name, count in sorted(counts.items())))
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
