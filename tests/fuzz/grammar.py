"""Random statements of the whole grammar, each with what DuckDB is to be asked in its place.

A statement is written twice at once. The first text is for the reader: expressions as keys, conditions
and arguments, subqueries, rows of persons, HAVING, windows, queries around results. The second one
asks DuckDB for the same over the normalised tables: what is released is a query that is joined to the
declared groups, and what is shown is a query over that.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dpnb import Category, Date, Integer, Real, Schema, Unit
from tests.fuzz.statements import Declared, some

FIRST = datetime.date(2024, 1, 28)
DAYS = 40
MOST = 4
"""Most rows of a person."""
CITIES = ["Paris", "Pisa", "Rome", "ulm", "it's 1"]
VISITS = Schema(
    {
        "age": Integer(-2, 20),
        "wage": Integer(-5, 12),
        "hours": Integer(0, 9, bins=[0, 3, 6, 9]),
        "city": Category([*CITIES, "other"], other="other"),
        "day": Date(FIRST, FIRST + datetime.timedelta(DAYS)),
        "score": Real(-1, 2.5, bins=[-1, 0, 0.5, 2.5]),
        "shop": Integer(0, 6),
        "step": Integer(0, 30),
    },
    complete=["step"],
)
SHOPS = Schema(
    {"shop": Integer(0, 6), "kind": Category(["food", "tool"]), "maker": Category(["a", "b", "c"]),
     "price": Integer(0, 8)}
)  # fmt: skip
MAKERS = Schema({"maker": Category(["a", "b", "c"]), "land": Category(["Peru", "Mali"])})
PEOPLE = Schema({"born": Integer(0, 9), "sex": Category(["f", "m"])})
DECLARED = {
    "visits": Declared(VISITS, Unit("id", MOST)),
    "people": Declared(PEOPLE, Unit("id", 1)),
    "sales": Declared(VISITS),
    "shops": Declared(SHOPS, key="shop"),
    "makers": Declared(MAKERS, key="maker"),
}


def rows_of(seed: int, number: int) -> dict[str, pa.Table]:
    """Return the rows of all tables."""
    rng = np.random.default_rng([seed, number])
    made = {}
    for name in ("visits", "sales"):
        rows = int(rng.choice([0, 3, 40, 80], p=[0.05, 0.1, 0.4, 0.45]))
        ids = np.repeat(np.arange(rows), rng.integers(1, MOST + 1, rows))[:rows]
        days = [FIRST + datetime.timedelta(n) for n in range(-2, DAYS + 3)]
        inf = float("inf")

        def column(
            values: Sequence[Any], odd: Sequence[Any], kind: pa.DataType,
            rng: np.random.Generator = rng, rows: int = rows,
        ) -> pa.Array:  # fmt: skip
            return pa.array(some(rng, rows, values, odd, 0.15), kind)

        columns = {
            "age": column([*range(-2, 21)], [-9, 2**40], pa.int64()),
            "wage": column([*range(-5, 13)], [-6.0, 1e300, float("nan")], pa.float64()),
            "hours": column([*range(10)], [-1, 99], pa.int32()),
            "city": column(CITIES, ["", "Bonn", "ULM"], pa.string()),
            "day": column(days, [datetime.date(1, 1, 1)], pa.date32()),
            "score": column([-1.0, 0.0, 0.25, 0.5, 2.5], [inf, 1e-305, -7.0], pa.float64()),
            "shop": column([*range(7)], [-1, 8], pa.int64()),
            # no person has one twice
            "step": pa.array(
                [int(n) for n in rng.permutation(max(rows, 1))[:rows] % 31], pa.int64()
            ),
        }
        if name == "visits":
            columns["id"] = pa.array([int(one) for one in ids], pa.int64())
            places = [int(n) * 5 % 31 for n in range(rows)]
            columns["step"] = pa.array(places, pa.int64())
        made[name] = pa.table(columns)
    known = int(rng.integers(0, 25))
    made["people"] = pa.table(
        {
            "id": pa.array([int(n) for n in rng.permutation(30)[:known]], pa.int64()),
            "born": pa.array(some(rng, known, range(10), [77], 0.2), pa.int64()),
            "sex": pa.array(some(rng, known, "fm", ["x"], 0.2), pa.string()),
        }
    )
    shops = [int(n) for n in rng.permutation(7)[: rng.integers(2, 8)]]
    made["shops"] = pa.table(
        {
            "shop": pa.array(shops, pa.int64()),
            "kind": pa.array(some(rng, len(shops), ["food", "tool"], ["?"], 0.2), pa.string()),
            "maker": pa.array(some(rng, len(shops), "abc", ["z"], 0.2), pa.string()),
            "price": pa.array(some(rng, len(shops), range(9), [99], 0.2), pa.int64()),
        }
    )
    made["makers"] = pa.table({"maker": ["a", "b"], "land": pa.array(["Peru", None])})
    return made


class Pair(NamedTuple):
    """A part of a statement as it is asked, and as DuckDB is asked."""

    text: str
    ref: str


def same(text: str) -> Pair:
    """Return a text that means the same to both."""
    return Pair(text, text)


def put(form: str, *parts: Pair) -> Pair:
    """Fill a form with parts."""
    return Pair(form.format(*(p.text for p in parts)), form.format(*(p.ref for p in parts)))


@dataclass(frozen=True)
class Column:
    """A column that may be named: how, what it holds, and the declared columns that it is made of.

    ``bins`` is the text of its group in DuckDB, where a bare name as key means bins.
    """

    name: str
    holds: str
    base: frozenset[str]
    listed: bool = True
    """Whether its values can be listed, so that any expression of it is known."""
    bins: str = ""
    declared: bool = False
    """Whether it is a column of a table as it is, whose different values may be counted."""


@dataclass
class Scope:
    """FROM, the WITH before it, and the columns that it shows."""

    source: Pair
    columns: list[Column]
    ctes: list[Pair] = field(default_factory=list)
    ids: str = ""
    """The name of the id, if rows have one that may be counted."""
    persons: bool = False
    unit: bool = False
    where: str = ""
    """A condition that must be there, such as that of a join."""


@dataclass(frozen=True)
class Result:
    """A released number: how it is asked for, and the name and the value of it for DuckDB.

    ``whole`` numbers are released exactly, so that conditions may test them.
    """

    text: str
    ref: str
    alias: str
    whole: bool
    nothing: str
    """Its value in a group without rows."""


@dataclass(frozen=True)
class Shown:
    """A column that is shown."""

    alias: str
    ref: str
    holds: str
    whole: bool


@dataclass(frozen=True)
class Asked:
    """A statement.

    ``released`` and ``nothing`` are to be filled with the groups, which are named k0, k1, ...;
    ``domains`` are the declared groups of a key, where DuckDB can say them from the schema.
    """

    text: str
    keys: tuple[str, ...]
    released: str
    nothing: tuple[tuple[str, str], ...]
    shown: str
    aliases: tuple[str, ...]
    ordered: bool
    features: frozenset[str]
    binned: tuple[bool, ...] = ()


def bin_label(name: str, edges: Sequence[Any]) -> str:
    """Return the label of a value's bin, in SQL."""
    pairs = [*itertools.pairwise(edges)]
    tests = [
        f"WHEN {name} {'>' if place else '>='} {low} AND {name} <= {high} "
        f"THEN '{'(' if place else '['}{low}, {high}]'"
        for place, (low, high) in enumerate(pairs)
    ]
    return f"CASE {' '.join(tests)} END"


def columns_of(table: str, label: str = "", out: Sequence[str] = ()) -> list[Column]:
    """Return the columns of a declared table, by a label."""
    found = []
    for name, kind in DECLARED[table].schema.items():
        if name in out:
            continue
        shown = f"{label}.{name}" if label else name
        holds = {"integer": "number", "real": "real", "category": "text", "date": "date"}[kind.kind]
        bins = getattr(kind, "bins", None)
        found.append(
            Column(
                shown, holds, frozenset({f"{label or table}.{name}"}), not isinstance(kind, Real),
                bin_label(shown, bins) if bins else "", kind.kind != "real",
            )
        )  # fmt: skip
    return found


class Expressions:
    """Writes expressions of one column, as conditions, numbers, texts and dates."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.features = rng, set[str]()

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, options: Sequence[Any]) -> Any:
        return self.rng.choice(options)

    def form(self, kind: str, options: Sequence[str]) -> str:
        """Choose one of some forms, and note it."""
        form = self.pick(options)
        self.features.add(f"{kind}: {form}")
        return str(form)

    def day(self) -> str:
        return (FIRST + datetime.timedelta(self.rng.randrange(-3, DAYS + 4))).isoformat()

    def number(self, column: Column, depth: int = 0) -> str:
        """Return a number for each value of a column."""
        x, k = column.name, self.pick([1, 2, 3, 4, 7])
        if column.holds == "text":
            form = self.form(
                "number of a text",
                ["LENGTH({x})", "POSITION('i' IN {x})", "CASE WHEN {c} THEN 1 ELSE 2 END",
                 "CASE {x} WHEN 'Pisa' THEN 1 WHEN 'tool' THEN 4 END", "LENGTH({t})",
                 "COALESCE(LENGTH({x}), 9)", "IF({c}, 3, NULL)"],
            )  # fmt: skip
            return form.format(x=x, c=self.test(column, depth + 1), t=self.text(column, depth + 1))
        if column.holds == "date":
            form = self.form(
                "number of a date",
                ["YEAR({x})", "MONTH({x})", "DAY({x})", "DAYOFWEEK({x})", "EXTRACT(week FROM {x})",
                 "DATE_PART('quarter', {x})", "DATE_DIFF('day', DATE '2024-02-01', {x})",
                 "DATEDIFF('month', {x}, DATE '2024-06-01')", "{x} - DATE '2024-02-10'",
                 "DAYOFYEAR({x}) % 5", "ISODOW({x})", "DAY(LAST_DAY({x}))",
                 "CASE WHEN {c} THEN 1 ELSE 0 END", "DAY({x} + INTERVAL 1 MONTH)"],
            )  # fmt: skip
            return form.format(x=x, c=self.test(column, depth + 1))
        if column.holds == "real":
            form = self.form("number of a real", ["LEAST({x}, 1)", "GREATEST({x}, 0)", "COALESCE({x}, 1)", "ABS({x})"])  # fmt: skip
            return form.format(x=x)
        inner = x if depth > 1 or self.chance(0.6) else f"({self.number(column, depth + 1)})"
        form = self.form(
            "number",
            ["{i} + {k}", "{i} - {k}", "{i} * {k}", "-{i}", "{i} // {k}", "{i} % {k}", "MOD({i}, {k})",
             "ABS({i} - {k})", "SIGN({i})", "FLOOR({i} / {k})", "CEIL({i} / {k})", "TRUNC({i} / {k})",
             "ROUND({i} / {k}, 1)", "ROUND({i} / 4)", "SQRT(ABS({i}))", "LEAST({i}, {k})",
             "GREATEST({i}, {k})", "COALESCE({i}, {k})", "IFNULL({i}, 0)", "NULLIF({i}, {k})",
             "IF({i} > {k}, 1, 0)", "CASE WHEN {c} THEN {k} ELSE {x} END", "{i}::DOUBLE / 2",
             "CASE WHEN {c} THEN {x} WHEN {x} IS NULL THEN 5 END", "CASE {x} WHEN {k} THEN 1 ELSE 2 END",
             "CAST(CAST({x} AS VARCHAR) AS INTEGER)", "CAST({i} AS DECIMAL(10, 2)) * 3", "POWER({x}, 2)",
             "TRY_CAST({x} AS SMALLINT)", "{x} ^ 2", "LN(ABS({x}) + 1)", "EXP({x} / 100)", "({c})::INT",
             "LENGTH(CAST({x} AS VARCHAR))", "10 // NULLIF({x}, 0)", "CAST({i} AS BIGINT)"],
        )  # fmt: skip
        return form.format(i=inner, x=x, k=k, c=self.test(column, depth + 1))

    def text(self, column: Column, depth: int = 0) -> str:
        """Return a text for each value of a column."""
        x = column.name
        if column.holds == "date":
            form = self.form("text of a date", ["STRFTIME({x}, '%Y-%m')", "DAYNAME({x})", "MONTHNAME({x})", "CAST({x} AS VARCHAR)"])  # fmt: skip
            return form.format(x=x)
        if column.holds == "number":
            form = self.form("text of a number", ["CAST({x} AS VARCHAR)", "{x}::VARCHAR || '!'", "CASE WHEN {c} THEN 'yes' ELSE 'no' END"])  # fmt: skip
            return form.format(x=x, c=self.test(column, depth + 1))
        inner = x if depth or self.chance(0.7) else self.text(column, depth + 1)
        form = self.form(
            "text",
            ["UPPER({i})", "LOWER({i})", "SUBSTR({i}, 1, 2)", "LEFT({i}, 1)", "RIGHT({i}, 2)", "{i} || '!'",
             "REPLACE({i}, 'i', 'u')", "TRIM({i}, 'P')", "REVERSE({i})", "CONCAT({i}, '-')",
             "SPLIT_PART({i}, 'i', 1)", "COALESCE({i}, 'none')", "NULLIF({i}, 'Rome')",
             "regexp_extract({i}, '[a-z]+')", "CASE WHEN {c} THEN 'one' ELSE {i} END",
             "CASE WHEN {c} THEN 'one' END", "LEAST({i}, 'Q')", "SUBSTR({i}, 2)", "LTRIM({i}, 'o')"],
        )  # fmt: skip
        return form.format(i=inner, c=self.test(column, depth + 1))

    def date(self, column: Column) -> str:
        """Return a day for each value of a column of days."""
        form = self.form(
            "date",
            ["DATE_TRUNC('month', {x})", "DATE_TRUNC('week', {x})", "{x} + INTERVAL 1 MONTH",
             "LAST_DAY({x})", "{x} - INTERVAL '2' DAY", "COALESCE({x}, DATE '2024-02-02')",
             "GREATEST({x}, DATE '2024-02-20')", "CAST({x} AS TIMESTAMP)"],
        )  # fmt: skip
        return form.format(x=column.name)

    def test(self, column: Column, depth: int = 0) -> str:
        """Return a condition on one column."""
        x = column.name
        if depth < 2 and self.chance(0.12):
            form = self.form("condition", ["({a} AND {b})", "({a} OR {b})", "NOT {a}", "({a}) IS TRUE", "({a}) IS NOT TRUE"])  # fmt: skip
            return form.format(a=self.test(column, depth + 1), b=self.test(column, depth + 1))
        if self.chance(0.07):
            return f"{x} IS {self.pick(['', 'NOT '])}NULL"
        sign = self.form("condition", ["<", "<=", ">", ">=", "=", "<>"])
        if column.holds == "real":
            return f"{x} {sign} {self.pick(['0', '0.5', '-.25', '2.5', '0.1 + 0.2', '1e-305'])}"
        if column.holds == "date":
            form = self.form(
                "condition on a date",
                ["{x} {s} DATE '{d}'", "{x} {s} '{d}'", "{x} BETWEEN '{d}' AND '{e}'", "{n} {s} {k}",
                 "{y} {s} DATE '{d}'", "MONTH({x}) IN (1, 3)", "{x} {s} DATE '{d}' - INTERVAL '10' DAY",
                 "{x} IS DISTINCT FROM DATE '{d}'"],
            )  # fmt: skip
            days = sorted([self.day(), self.day()])
            number = self.number(column, 2) if depth < 2 else f"DAY({x})"
            return form.format(x=x, s=sign, d=days[0], e=days[1], n=number, y=self.date(column), k=self.rng.randrange(-5, 32))  # fmt: skip
        if column.holds == "text":
            form = self.form(
                "condition on a text",
                ["{x} LIKE 'P%'", "{x} NOT LIKE '%i%'", "{x} ILIKE 'u_m'", "{x} SIMILAR TO '(P|R).*'",
                 "regexp_matches({x}, '[sm]')", "STARTS_WITH({x}, 'P')", "CONTAINS({x}, 'o')",
                 "{x} IN ('Pisa', 'Rome', 'tool')", "{x} LIKE '%''s%'", "{t} {s} 'P'", "LENGTH({x}) {s} 4",
                 "{x} NOT IN ('Paris', 'a', 'f')", "{x} LIKE 'o%'", "regexp_full_match({x}, 'P.*s')",
                 "{x} IS NOT DISTINCT FROM NULL", "ENDS_WITH(LOWER({x}), 'e')", "{x} BETWEEN 'Paris' AND 'Q'"],
            )  # fmt: skip
            text = self.text(column, 2) if depth < 2 else f"UPPER({x})"
            return form.format(x=x, s=sign, t=text)
        form = self.form(
            "condition on a number",
            ["{x} {s} {k}", "{n} {s} {k}", "{x} BETWEEN {k} AND {l}", "{x} IN ({k}, {l}, 3)", "{x} % 2 = {m}",
             "{x} NOT IN ({k}, {l})", "{x} = {k} IS TRUE", "{x} IS DISTINCT FROM {k}",
             "CAST({x} AS VARCHAR) LIKE '1%'", "{n} IS NULL", "{x} {s} {k} + 0.5", "{x} NOT BETWEEN {k} AND {l}"],
        )  # fmt: skip
        low = self.rng.randrange(-4, 14)
        number = self.number(column, depth + 1) if depth < 2 else f"ABS({x})"
        return form.format(x=x, s=sign, n=f"({number})", k=low, l=low + self.rng.randrange(1, 7), m=self.pick([0, 1]))  # fmt: skip
