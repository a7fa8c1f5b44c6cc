"""What statements mean, worked out from their trees with NumPy alone, row by row and group by group.

The declared facts are applied here anew: values are clamped, unknown categories are OTHER or missing,
rows that lack what is never missing are left out, groups without rows have a count and a sum of 0.

A text without a tree is answered by DuckDB itself over the normalised tables, where it is accepted.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import expressions as exp

from dpnb import Category, Date, Integer, Real
from dpnb.schema.columns import Kind
from tests.fuzz.statements import Declared, From, Node, Ref, Statement

Array: TypeAlias = np.ndarray[Any, Any]
BEYOND = 2**62
"""Larger than every whole number of a column."""
UNITS = 2.0**-18
"""What merging versions of a vector may round off, as a share of its sensitivity: some units of 2**-21."""
NOISE = 1e-3
"""What noise at the level in use could be at most, as a share of the sensitivity."""
TICKS = 2.0**-22
"""Half of the grid to which values in sums are rounded, as a share of the largest one."""


# values


def normal(kind: Kind, value: Any) -> Any:
    """Return the normalised value: a text, a whole number, a float, a day; None where it is missing."""
    if value is None:
        return None
    if isinstance(kind, Category):
        text = str(value).lower() if isinstance(value, bool) else value
        return text if text in kind.values else kind.other
    if isinstance(kind, Date):
        return min(max(value, kind.low), kind.high)
    if not math.isfinite(value):
        return None
    if isinstance(kind, Integer):
        return min(max(math.floor(Fraction(value) + Fraction(1, 2)), kind.low), kind.high)
    return min(max(float(value), kind.low), kind.high)


def coded(kind: Kind, value: Any) -> Any:
    """Return a number that stands for a normalised value."""
    if value is None:
        return 0
    if isinstance(kind, Category):
        return kind.values.index(value)
    return value.toordinal() if isinstance(kind, Date) else value


@dataclass(frozen=True)
class Column:
    """The codes of a column, whether they are present, and the groups they fall into; -1 is none."""

    codes: Array
    present: Array
    groups: Array

    @classmethod
    def of(cls, kind: Kind, values: Sequence[Any]) -> Column:
        present = np.array([value is not None for value in values], dtype=bool)
        numbers = [coded(kind, value) for value in values]
        codes = np.array(numbers, dtype=np.float64 if isinstance(kind, Real) else np.int64)
        groups = np.where(present, group_numbers(kind, codes), -1)
        return cls(codes, present, groups)

    def take(self, places: Array) -> Column:
        """Return the values at some places; -1 takes none."""
        if not len(self.codes):
            nothing = np.zeros(len(places), dtype=np.int64)
            return Column(nothing.astype(self.codes.dtype), nothing > 0, nothing - 1)
        found = places >= 0
        groups = np.where(found, self.groups[places], -1)
        return Column(self.codes[places], self.present[places] & found, groups)


def group_numbers(kind: Kind, codes: Array) -> Array:
    """Return the number of the declared group of each code: bins are right-closed, the first is closed."""
    if isinstance(kind, Category):
        return codes
    edges = kind.bins
    if edges is None:
        low = kind.low.toordinal() if isinstance(kind, Date) else kind.low
        return np.zeros(len(codes), np.int64) if isinstance(kind, Real) else codes - low
    ends = np.array([coded(kind, edge) for edge in edges])
    found = np.searchsorted(ends, codes, side="left") - 1
    found[codes == ends[0]] = 0
    found[(codes < ends[0]) | (codes > ends[-1])] = -1
    return found


def labels(kind: Kind) -> list[str | int]:
    """Return the names of the declared groups."""
    if isinstance(kind, Category):
        return list(kind.values)
    if kind.bins is not None:
        pairs = enumerate(itertools.pairwise(kind.bins))
        return [f"{'(' if place else '['}{low}, {high}]" for place, (low, high) in pairs]
    if isinstance(kind, Date):
        days = (kind.high - kind.low).days + 1
        return [(kind.low + datetime.timedelta(n)).isoformat() for n in range(days)]
    return list(range(int(kind.low), int(kind.high) + 1))


@dataclass(frozen=True)
class Normal:
    """A normalised table: its columns, and the ids of its rows."""

    columns: dict[str, Column]
    ids: Array | None
    rows: list[dict[str, Any]]


def normalised(declared: Declared, rows: pa.Table) -> Normal:
    """Return a table as statements see it."""
    schema, unit = declared.schema, declared.unit
    needed = {*schema.complete, *([declared.key] if declared.key else [])}
    kept = []
    for row in rows.to_pylist():
        made = {name: normal(kind, row[name]) for name, kind in schema.items()}
        if unit is not None:
            made[unit.column] = row[unit.column]
        whole = needed | ({unit.column} if unit is not None else set())
        if all(made[name] is not None for name in whole):
            kept.append(made)
    columns = {
        name: Column.of(kind, [row[name] for row in kept]) for name, kind in schema.items()
    }  # fmt: skip
    own = None if unit is None else np.array([row[unit.column] for row in kept], dtype=np.int64)
    return Normal(columns, own, kept)


@dataclass(frozen=True)
class Rows:
    """The rows of a FROM clause."""

    columns: dict[tuple[int, str], Column]
    ids: Array | None
    size: int


def joined(source: From, tables: dict[str, Normal]) -> Rows:
    """Return the rows of a FROM clause, by looking at each pair of rows."""
    first, *others = source.relations
    base = tables[first.table]
    places = [(place,) for place in range(len(base.rows))]
    for one in others:
        assert one.on is not None
        column, key = one.on
        found: dict[Any, list[int]] = {}
        for place, row in enumerate(tables[one.table].rows):
            found.setdefault(row[key], []).append(place)
        longer = []
        for path in places:
            value = base.rows[path[0]][column]
            matches = [] if value is None else found.get(value, [])
            longer += [(*path, match) for match in matches or ([] if one.inner else [-1])]
        places = longer
    indices = np.array(places, dtype=np.int64).reshape(-1, len(source.relations))
    columns = {
        (place, name): column.take(indices[:, place])
        for place, one in enumerate(source.relations)
        for name, column in tables[one.table].columns.items()
    }
    ids = None if base.ids is None else base.ids[indices[:, 0]]
    return Rows(columns, ids, len(places))


@dataclass(frozen=True)
class Numbers:
    """The value of an expression in each row, its bounds, and whether it is made of whole numbers."""

    values: Array
    present: Array
    low: float
    high: float
    whole: bool

    @property
    def reach(self) -> float:
        return max(-self.low, self.high)


# what is released


@dataclass(frozen=True)
class Released:
    """What an output may be in each group, and what a formula of it may be taken to be.

    ``low..high`` holds the exact value and what rounding may make of it; ``least..most`` also what noise
    could. ``missing`` are groups with too few rows to tell. A quantile is promised as an interval only:
    ``points`` are the values that the interval must hold.
    """

    low: Array
    high: Array
    least: Array
    most: Array
    missing: Array
    points: tuple[Array, ...] = ()


class Evaluation:
    """One statement over the rows of its FROM clause."""

    def __init__(self, statement: Statement, rows: Rows) -> None:
        assert statement.source is not None
        self.rows = rows
        self.most = statement.source.rows
        kinds = [ref.kind for ref, _ in statement.keys]
        self.sizes = [len(labels(kind)) for kind in kinds]
        self.size = math.prod(self.sizes)
        cells = np.zeros(rows.size, dtype=np.int64)
        inside = np.ones(rows.size, dtype=bool)
        for (ref, _), size in zip(statement.keys, self.sizes, strict=True):
            groups = self.column(ref).groups
            cells, inside = cells * size + groups, inside & (groups >= 0)
        self.cells = cells
        self.kept = inside if statement.where is None else inside & self.test(statement.where)[0]

    def column(self, ref: Ref) -> Column:
        return self.rows.columns[ref.place, ref.name]

    # conditions: where they are true, and where they are false

    def test(self, node: Node) -> tuple[Array, Array]:
        if node.op == "not":
            true, false = self.test(node.parts[0])
            return false, true
        if node.op in ("and", "or"):
            parts = [self.test(part) for part in node.parts]
            every = np.logical_and.reduce([part[node.op == "or"] for part in parts])
            some = np.logical_or.reduce([part[node.op == "and"] for part in parts])
            return (every, some) if node.op == "and" else (some, every)
        ref = node.parts[0]
        column = self.column(ref)
        if node.op == "null":
            absent = ~column.present
            return (~absent, absent) if node.parts[1] else (absent, ~absent)
        if node.op == "compare":
            found, negated = compared(ref.kind, column.codes, *node.parts[1:]), False
        elif node.op == "in":
            listed = [compared(ref.kind, column.codes, "=", value) for value in node.parts[1]]
            found, negated = np.logical_or.reduce(listed), node.parts[2]
        else:
            least, most, negated = node.parts[1:]
            found = compared(ref.kind, column.codes, ">=", least)
            found = found & compared(ref.kind, column.codes, "<=", most)
        found = ~found if negated else found
        return found & column.present, ~found & column.present

    # expressions

    def numbers(self, node: Node) -> Numbers:
        size = self.rows.size
        if node.op == "column":
            column, kind = self.column(node.parts[0]), node.parts[0].kind
            values, whole = column.codes.astype(np.float64), isinstance(kind, Integer)
            return Numbers(values, column.present, float(kind.low), float(kind.high), whole)
        if node.op == "number":
            value = Fraction(node.parts[0])
            number = float(value)
            ones = np.ones(size, dtype=bool)
            return Numbers(
                np.full(size, number), ones, number, number, value.denominator == 1
            )  # fmt: skip
        if node.op == "case":
            return self.case(*node.parts)
        if node.op == "neg":
            inner = self.numbers(node.parts[0])
            return Numbers(-inner.values, inner.present, -inner.high, -inner.low, inner.whole)
        left, right = (self.numbers(part) for part in node.parts)
        work = OPERATIONS[node.op]
        corners = [work(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = min(corners), max(corners)
        whole = left.whole and right.whole and node.op != "/" and max(-low, high) <= 2**53
        present = left.present & right.present
        return Numbers(work(left.values, right.values), present, low, high, whole)

    def case(self, branches: Sequence[tuple[Node, Node]], default: Node | None) -> Numbers:
        """Return the value of the first branch whose condition is true; a missing one has no bounds."""
        values, present = np.zeros(self.rows.size), np.zeros(self.rows.size, dtype=bool)
        left = np.ones(self.rows.size, dtype=bool)
        parts: list[Numbers] = []
        every = np.ones(self.rows.size, dtype=bool)
        last = [] if default is None else [(every, default)]
        for true, node in [*((self.test(test)[0], node) for test, node in branches), *last]:
            here = left & true
            left = left & ~true
            if node.op == "missing":
                continue
            part = self.numbers(node)
            parts.append(part)
            values, present = (
                np.where(here, part.values, values),
                np.where(here, part.present, present),
            )
        low = min((part.low for part in parts), default=0.0)
        high = max((part.high for part in parts), default=0.0)
        return Numbers(values, present, low, high, all(part.whole for part in parts))

    # aggregates

    def added(self, rows: Array, values: Array | None = None) -> Array:
        """Return the number of some rows in each group, or the sum of their values."""
        weights = None if values is None else values[rows]
        return np.bincount(self.cells[rows], weights, self.size).astype(np.float64)

    def aggregate(self, node: Node) -> Released:
        argument, condition = node.parts[0], node.parts[1]
        kept = self.kept if condition is None else self.kept & self.test(condition)[0]
        if node.op == "UNITS":
            return self.units(kept)
        if node.op == "QUANTILE":
            return self.quantile(argument, kept, Fraction(node.parts[2]))
        if node.op == "COUNT":
            return self.count(argument, kept)
        numbers = self.numbers(argument)
        kept = kept & numbers.present
        if node.op == "SUM":
            return self.sum(numbers, kept)
        rows = self.added(kept)
        mean = self.added(kept, numbers.values) / np.maximum(rows, 1)
        if node.op == "AVG":
            reach = numbers.high - numbers.low
            slack = reach * (TICKS + UNITS * self.most) + 1e-12 * numbers.reach
            return self.around(mean, slack, reach * NOISE * self.most, rows == 0)
        sample, root = node.parts[2:]
        apart = np.where(kept, numbers.values - mean[self.cells * kept], 0.0)
        divisor = np.maximum(rows - sample, 1)
        half = (numbers.high - numbers.low) / 2
        slack = half**2 * (8 * TICKS * np.maximum(rows, 1) / divisor + 5 * UNITS * self.most)
        slack = slack + 1e-10 * half * numbers.reach
        noise = half**2 * 10 * NOISE * self.most
        found = self.around(
            self.added(kept, apart**2) / divisor, slack, noise, rows <= sample, least=0.0
        )
        return applied("SQRT", found) if root else found

    def around(
        self,
        values: Array,
        slack: float | Array,
        noise: float,
        missing: Array | None = None,
        least: float = -math.inf,
    ) -> Released:
        low, high = np.maximum(values - slack, least), values + slack
        below = np.maximum(low - noise, least)
        absent = np.zeros(self.size, dtype=bool) if missing is None else missing
        return Released(low, high, below, high + noise, absent)

    def count(self, argument: Node | None, kept: Array) -> Released:
        if argument is not None:
            column = argument.op == "column"
            present = self.column(argument.parts[0]) if column else self.numbers(argument)
            kept = kept & present.present
        return self.around(self.added(kept), UNITS * self.most, NOISE * self.most)

    def sum(self, numbers: Numbers, kept: Array) -> Released:
        reach = numbers.reach
        exact = numbers.whole and reach <= 2**30
        rows = self.added(kept)
        slack = rows * (0.0 if exact else reach * TICKS) + UNITS * reach * self.most
        slack = slack + 1e-13 * reach * rows
        return self.around(self.added(kept, numbers.values), slack, NOISE * reach * self.most)

    def units(self, kept: Array) -> Released:
        assert self.rows.ids is not None
        pairs = set(zip(self.cells[kept].tolist(), self.rows.ids[kept].tolist(), strict=True))
        found = np.zeros(self.size)
        for cell, _ in pairs:
            found[cell] += 1
        return self.around(found, UNITS * 12, NOISE * 12)

    def quantile(self, ref: Ref, kept: Array, share: Fraction) -> Released:
        """Return between which ends of cells a quantile is promised to be told.

        Told are whole cells: those that hold the quantile, and neighbours less than one row away.
        """
        column, kind = self.column(ref), ref.kind
        kept = kept & column.present
        ends = edges(kind)
        low, high = np.full(self.size, ends[0][0]), np.full(self.size, ends[-1][1])
        least, most = low.copy(), high.copy()
        rows = self.added(kept)
        exact = np.full((2, self.size), math.nan)
        room = NOISE * self.most
        for group in np.flatnonzero(rows):
            own = kept & (self.cells == group)
            values = np.sort(column.codes[own]).astype(np.float64)
            number = len(values)
            exact[0, group] = values[math.ceil(share * number) - 1]
            exact[1, group] = np.quantile(values, float(share))
            upto = np.cumsum(np.bincount(column.groups[own], minlength=len(ends)))
            rank = float(share) * (number - 1)
            first = int(np.argmax(upto >= rank - room))
            before = np.concatenate(([0], upto[:-1]))
            last = int(np.flatnonzero(before <= rank + 1 + room)[-1])
            low[group], high[group] = ends[first][0], ends[last][1]
            least[group], most[group] = low[group], high[group]
        return Released(low, high, least, most, rows == 0, tuple(exact))

    # formulas

    def output(self, node: Node) -> Released:
        """Return what a column of the SELECT list may be."""
        if node.op == "number":
            values = np.full(self.size, float(Fraction(node.parts[0])))
            return self.around(values, 0.0, 0.0)
        if node.op in ("EXP", "LN", "SQRT", "neg"):
            return applied(node.op, self.output(node.parts[0]))
        if node.op in OPERATIONS:
            return combined(node.op, *(self.output(part) for part in node.parts))
        return self.aggregate(node)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


def compared(kind: Kind, codes: Array, operator: str, value: Any) -> Array:
    """Return where codes compare so with a constant."""
    if isinstance(kind, Integer):
        number = Fraction(value)
        floor = max(min(math.floor(number), BEYOND), -BEYOND)
        ceiling = max(min(math.ceil(number), BEYOND), -BEYOND)
        if operator in ("=", "<>", "!="):
            found = (codes == floor) & (floor == ceiling)
            return found if operator == "=" else ~found
        ends = {"<": ceiling, ">=": ceiling, "<=": floor, ">": floor}
        constant: Any = ends[operator]
    elif isinstance(kind, Real):
        constant = float(value)
    else:
        constant = coded(kind, value)
    compare = {
        "=": np.equal, "<>": np.not_equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
        ">": np.greater, ">=": np.greater_equal,
    }  # fmt: skip
    return np.asarray(compare[operator](codes, constant))


def edges(kind: Kind) -> list[tuple[float, float]]:
    """Return the least and the greatest value of each declared group of a column of numbers."""
    assert isinstance(kind, Integer | Real)
    if kind.bins is None:
        return [(float(n), float(n)) for n in range(int(kind.low), int(kind.high) + 1)]
    pairs = list(itertools.pairwise(kind.bins))
    above = isinstance(kind, Integer)
    return [
        (float(low + (above and place > 0)), float(high)) for place, (low, high) in enumerate(pairs)
    ]


def _image(op: str, left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the range of an operation on intervals; NaN where it is not defined throughout."""
    if op in "+-":
        a, b = right if op == "+" else (-right[1], -right[0])
        return left[0] + a, left[1] + b
    corners = np.stack([OPERATIONS[op](a, b) for a in left for b in right])
    low, high = corners.min(axis=0), corners.max(axis=0)
    if op == "/":
        across = (right[0] <= 0) & (right[1] >= 0)
        low, high = np.where(across, math.nan, low), np.where(across, math.nan, high)
    return low, high


def _function(op: str, low: Array, high: Array) -> tuple[Array, Array]:
    if op == "neg":
        return -high, -low
    work = {"EXP": np.exp, "LN": np.log, "SQRT": np.sqrt}[op]
    undefined = low <= 0 if op == "LN" else low < 0 if op == "SQRT" else np.isnan(low)
    low, high = np.where(undefined, math.nan, low), np.where(undefined, math.nan, high)
    return work(low), work(high)


def _rounded(low: Array, high: Array) -> tuple[Array, Array]:
    """Return an interval with room for the rounding of floats."""
    room = 1e-9 * np.maximum(np.abs(low), np.abs(high))
    return low - room, high + room


def applied(op: str, inner: Released) -> Released:
    """Return a function of a formula."""
    with np.errstate(all="ignore"):
        low, high = _rounded(*_function(op, inner.low, inner.high))
        least, most = _rounded(*_function(op, inner.least, inner.most))
    return Released(low, high, least, most, inner.missing)


def combined(op: str, left: Released, right: Released) -> Released:
    """Return an operation on formulas."""
    with np.errstate(all="ignore"):
        low, high = _rounded(*_image(op, (left.low, left.high), (right.low, right.high)))
        least, most = _rounded(*_image(op, (left.least, left.most), (right.least, right.most)))
    return Released(low, high, least, most, left.missing | right.missing)


# comparison


def differences(statement: Statement, rows: Rows, answer: Any) -> list[str]:
    """Return in words where an answer is not what the statement means."""
    evaluation = Evaluation(statement, rows)
    found = []
    kinds = [ref.kind for ref, _ in statement.keys]
    if answer.keys != tuple(alias for _, alias in statement.keys):
        found.append(f"keys are called {answer.keys}")
    if list(answer.groups) != list(itertools.product(*map(labels, kinds))):
        found.append(f"groups are {answer.groups[:5]}")
    if len(answer.estimates) != len(statement.outputs):
        return [*found, f"{len(answer.estimates)} outputs"]
    for output, told in zip(statement.outputs, answer.estimates, strict=True):
        if output.alias is not None and told.alias != output.alias:
            found.append(f"{output.alias!r} is called {told.alias!r}")
        released = evaluation.output(output.formula)
        formula = output.formula.op != "QUANTILE"
        found += [
            f"{told.alias}, group {group}: {text}"
            for group, text in disagreements(released, told, formula=formula)
        ]
    if not shown(statement, evaluation, answer):
        found.append(f"rows {answer.rows[:9]} are shown")
    return found


def disagreements(released: Released, told: Any, *, formula: bool) -> list[tuple[int, str]]:
    """Return the groups in which an estimate, or its interval, cannot be.

    None is told where there are no rows, and where noise could make a formula undefined. The interval
    holds the exact value; of a quantile, that of every common definition.
    """
    found = []
    for group in range(len(released.low)):
        # where the printed interval is everything that is possible, only the uncut estimate is told
        estimate, least, most = told.uncut.estimate[group], told.low[group], told.high[group]
        low, high = float(released.low[group]), float(released.high[group])
        unsure = not math.isfinite(released.least[group]) or not math.isfinite(released.most[group])
        if estimate is None:
            if not released.missing[group] and not unsure:
                found.append((group, f"nothing is told of {low}..{high}"))
            continue
        if released.missing[group]:
            found.append((group, f"{estimate} is told of nothing"))
            continue
        if math.isnan(low) or math.isnan(high):
            continue
        if not low <= estimate <= high:
            found.append((group, f"{estimate} is not within {low}..{high}"))
        if formula and not (least <= high and most >= low):
            found.append((group, f"the interval {least}..{most} misses {low}..{high}"))
        if released.points:
            if not (low <= least <= most <= high):
                found.append((group, f"cells {least}..{most} are not within {low}..{high}"))
            found += [
                (group, f"cells {least}..{most} miss {point[group]}")
                for point in released.points
                if not least <= point[group] <= most
            ]
    return found


def shown(statement: Statement, evaluation: Evaluation, answer: Any) -> bool:
    """Whether the right groups are shown: in order of the shown values, unknown ones last.

    Groups may be left out that WHERE can leave no row, so none with rows, and none without a condition
    on a key.
    """
    sizes = evaluation.sizes
    rows = list(range(math.prod(sizes)))
    columns: dict[str, list[Any]] = {one.alias: list(one.estimate) for one in answer.estimates}
    uncut = {one.alias: one.uncut.estimate for one in answer.estimates}
    for place, (_, alias) in enumerate(statement.keys):
        inner = math.prod(sizes[place + 1 :])
        columns[alias] = [row // inner % sizes[place] for row in rows]

    def rank(row: int) -> list[tuple[bool, float]]:
        # what is shown alike comes in the order of uncut values
        values = [
            (numbers[alias][row], descending)
            for numbers in (columns, {**columns, **uncut})
            for alias, descending in statement.order
        ]
        return [(v is None, 0.0 if v is None else -v if down else v) for v, down in values]

    rows.sort(key=rank)
    keys = {ref[:2] for ref, _ in statement.keys}
    free = statement.where is not None and not keys.isdisjoint(refs(statement.where))
    filled = set(evaluation.cells[evaluation.kept]) if free else set(rows)
    left = iter(answer.rows)
    expected, most = next(left, None), statement.limit
    for row in rows[: None if free else most]:
        if row == expected:
            expected = next(left, None)
        elif row in filled and (expected is not None or len(answer.rows) != most):
            return False
    return expected is None and (most is None or len(answer.rows) <= most)


def refs(node: Node) -> set[tuple[int, str]]:
    """Return the columns in a condition, as relation and name."""
    if node.op in ("not", "and", "or"):
        return set().union(*map(refs, node.parts))
    return {node.parts[0][:2]}


# texts without a tree

_TYPES: dict[type, pa.DataType] = {
    Category: pa.string(), Date: pa.date32(), Integer: pa.int64(), Real: pa.float64(),
}  # fmt: skip
_GROUP = "group of "


class Database:
    """The normalised tables in a DuckDB, with the groups of each column beside it."""

    def __init__(self, declared: dict[str, Declared], tables: dict[str, Normal]) -> None:
        self.connection = duckdb.connect(config={"threads": 1, "enable_external_access": False})
        for name, table in tables.items():
            schema, unit = declared[name].schema, declared[name].unit
            columns = {
                column: pa.array([row[column] for row in table.rows], _TYPES[type(kind)])
                for column, kind in schema.items()
            }
            for column, one in table.columns.items():
                columns[_GROUP + column] = pa.array(one.groups, mask=one.groups < 0)
            if unit is not None:
                columns[unit.column] = pa.array(table.ids)
            self.connection.register("handed_over", pa.table(columns))
            self.connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM handed_over')
            self.connection.unregister("handed_over")

    def close(self) -> None:
        self.connection.close()

    def disagreements(self, text: str, answer: Any, sizes: Sequence[int]) -> list[str] | None:
        """Return in words where an answer is not what DuckDB says; None where DuckDB says nothing.

        Only what noise could not make differ is compared: the text has no bounds of its own.
        """
        tree = next(filter(None, sqlglot.parse(text, read="duckdb")))
        if any(tree.find_all(exp.ApproxQuantile)) or answer.shown is not None:
            return None
        keys, outputs, grouped = _taken_apart(tree)
        statement = f"SELECT {', '.join([*keys, *outputs])} FROM {grouped}"
        nothing = f"SELECT {', '.join(outputs)} FROM {tree.args['from_'].this.sql('duckdb')}"
        joins = " ".join(join.sql("duckdb") for join in tree.args.get("joins") or [])
        try:
            found = {
                row[: len(keys)]: row[len(keys) :]
                for row in self.connection.execute(statement).fetchall()
            }
            empty = self.connection.execute(f"{nothing} {joins} WHERE FALSE").fetchone()
        except duckdb.Error:
            return None
        problems = []
        groups = list(itertools.product(*map(range, sizes)))
        # results that HAVING or ORDER BY names come after those that are shown
        for place, (told, output) in enumerate(zip(answer.estimates, outputs, strict=False)):
            quantile = _is_quantile(output)
            for number, group in enumerate(groups):
                exact = found.get(group, empty)[place]
                problem = _apart(told, number, exact, quantile=quantile)
                if problem:
                    problems.append(f"{told.alias}, group {number}: {problem}")
        if not keys and not tree.args.get("order") and answer.rows:
            problems += self.read_otherwise(text, found.get((), empty))
        return problems

    def read_otherwise(self, text: str, exact: Sequence[Any]) -> list[str]:
        """Return a difference between a text as it is and its tree, where DuckDB reads the text."""
        try:
            (found,) = self.connection.execute(text).fetchall()
        except (duckdb.Error, ValueError):
            return []
        pairs = zip(found, exact, strict=True)
        if all(one is None or _alike(float(one), float(other)) for one, other in pairs):
            return []
        return [f"DuckDB reads {found}, not {exact}"]


def _alike(one: float, other: float) -> bool:
    """Return whether two sums are the same but for the order of their terms."""
    return repr(one) == repr(other) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)


def _taken_apart(tree: Any) -> tuple[list[str], list[str], str]:
    """Return the group numbers and the outputs of a statement in SQL, and what comes after FROM."""
    group = tree.args.get("group")
    columns = [] if group is None else group.expressions
    keys = [
        exp.column(exp.to_identifier(_GROUP + one.name, quoted=True), table=one.args.get("table"))
        for one in columns
    ]
    keys = [key.sql("duckdb") for key in keys]
    outputs = []
    for one in tree.expressions:
        output = exp.Paren(this=one.unalias().copy())
        if isinstance(one.unalias(), exp.Column):
            continue
        for total in list(output.find_all(exp.Sum)):
            # a sum of nothing is 0
            whole = total.parent if isinstance(total.parent, exp.Filter) else total
            whole.replace(exp.Coalesce(this=whole.copy(), expressions=[exp.Literal.number(0)]))
        outputs.append(output.sql("duckdb"))
    after = tree.args["from_"].this.sql("duckdb")
    after += "".join(f" {join.sql('duckdb')}" for join in tree.args.get("joins") or [])
    if tree.args.get("where"):
        after += f" {tree.args['where'].sql('duckdb')}"
    return keys, outputs, f"{after} GROUP BY {', '.join(keys)}" if keys else after


def _is_quantile(output: str) -> bool:
    return any(word in output.upper() for word in ("MEDIAN", "QUANTILE", "PERCENTILE"))


def _apart(told: Any, group: int, exact: Any, *, quantile: bool) -> str:
    """Return in words how an estimate is too far from an exact value; '' where it is not."""
    estimate, low, high = told.uncut.estimate[group], told.low[group], told.high[group]
    if not math.isfinite(low) or not math.isfinite(high) or (exact is None and estimate is None):
        return ""
    if exact is None or not math.isfinite(exact):
        # a quantile of nothing, and so on: what DuckDB does not define
        return "" if exact is not None or quantile else f"{estimate} is told of nothing"
    exact = float(exact)
    if estimate is None:
        # divided by an EXP that floats do not hold
        vanishing = max(abs(low), abs(high)) < 1e-290
        return "" if vanishing else f"nothing is told of {exact}"
    room = (1 if quantile else 20) * (high - low) + 1e-6 * abs(exact) + 1e-9
    return "" if abs(estimate - exact) <= room else f"{estimate} is far from {exact}"
