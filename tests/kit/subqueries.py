"""Generated statements with CTEs, subqueries in FROM and joins, for tables ``sales`` and ``items``."""

from __future__ import annotations

import random

import duckdb

from dpnb import Category, Integer, Schema, Table, Unit
from dpnb.schema.joins import joined

SALES = Schema(
    {"a": Integer(0, 9), "b": Integer(0, 9), "k": Integer(0, 4), "c": Category(["x", "y"])}
)
ITEMS = Schema({"k": Integer(0, 4), "price": Integer(0, 9), "a": Integer(0, 9)})
TABLES = joined(
    {
        "sales": Table("sales", None, SALES, Unit("id", 9)),
        "items": Table("items", None, ITEMS, public=True, key="k"),
    },
    lambda name, join: None,
)
COLUMNS = {"sales": ["a", "b", "k", "id"], "items": ["k", "price", "a"]}
NAMES = ["a", "b", "k", "v", "w", "x", "price", "sales", "items"]


def database() -> duckdb.DuckDBPyConnection:
    """Return a few rows of both tables."""
    choose = random.Random(1)  # noqa: S311
    connection = duckdb.connect()
    connection.execute("CREATE TABLE sales(a INT, b INT, k INT, c VARCHAR, id INT)")
    connection.execute("CREATE TABLE items(k INT, price INT, a INT)")
    connection.executemany(
        "INSERT INTO sales VALUES (?, ?, ?, ?, ?)",
        [
            (
                choose.choice([None, *range(10)]),
                choose.randrange(10),
                choose.choice([None, *range(5)]),
                choose.choice(["x", "y", None]),
                choose.randrange(6),
            )
            for _ in range(9)
        ],
    )
    items = [(key, choose.randrange(10), choose.randrange(10)) for key in range(3)]
    connection.executemany("INSERT INTO items VALUES (?, ?, ?)", items)
    return connection


Column = tuple[str, str]
"""What can qualify a column in a statement, and its name."""


class Statements:
    """Writes statements, most of which DuckDB accepts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.count = 0
        self.ordered = False

    def name(self) -> str:
        self.count += 1
        return self.random.choice([*NAMES, f"n{self.count}"])

    def cased(self, name: str) -> str:
        return self.random.choice([name, name.upper(), f'"{name}"'])

    def column(self, columns: list[Column]) -> str:
        qualifier, name = self.random.choice(columns)
        several = sum(other == name for _, other in columns) > 1
        if qualifier and (several or self.random.random() < 0.5):
            return f"{self.cased(qualifier)}.{self.cased(name)}"
        return self.cased(name)

    def expression(self, columns: list[Column], depth: int = 0) -> str:
        share = self.random.random()
        if share < 0.55 or depth > 1:
            return self.column(columns)
        if share < 0.65 and depth:
            return str(self.random.randrange(5))
        one, other = (self.expression(columns, depth + 1) for _ in range(2))
        condition = self.condition(columns, depth + 1)
        return self.random.choice(
            [
                f"{one} + {other}",
                f"{one} - {other}",
                f"{one} * 2",
                f"ABS({one} - 3)",
                f"COALESCE({one}, 1)",
                f"CASE WHEN {condition} THEN {one} ELSE {other} END",
                f"LEAST({one}, 4)",
                f"-{one}",
                f"({one} + 1) % 3",
            ]
        )

    def condition(self, columns: list[Column], depth: int = 0) -> str:
        share, pick = self.random.random(), self.random.randrange
        if share < 0.25 and depth < 2:
            one, other = (self.condition(columns, depth + 1) for _ in range(2))
            return self.random.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT {one}"])
        value = self.expression(columns, 1)
        if share < 0.35:
            return f"{value} IS {self.random.choice(['', 'NOT '])}NULL"
        if share < 0.45:
            return f"{value} IN ({pick(5)}, {pick(9)})"
        if share < 0.55:
            return f"{value} BETWEEN {pick(3)} AND {pick(3, 9)}"
        return f"{value} {self.random.choice(['<', '<=', '>', '>=', '=', '<>'])} {pick(6)}"

    def listed(self, names: list[str], letter: str) -> tuple[str, list[str]]:
        """Return a list of other names for the first columns, in brackets, or nothing."""
        if not self.ordered or self.random.random() > 0.15:
            return "", names
        new = [f"{letter}{i}" for i in range(self.random.randint(1, len(names)))]
        return f"({', '.join(new)})", new + names[len(new) :]

    def source(self, queries: dict[str, list[str]], depth: int) -> tuple[str, str, list[str]]:
        """Return an entry of FROM, the name that qualifies its columns, and these."""
        share = self.random.random()
        if queries and share < 0.4:
            name = self.random.choice(list(queries))
            alias = self.name() if self.random.random() < 0.4 else ""
            return f"{self.cased(name)} {alias and f'AS {alias}'}", alias or name, queries[name]
        if depth < 2 and share < 0.65:
            text, columns = self.query(queries, depth + 1)
            alias = self.name()
            new, columns = self.listed(columns, "z")
            return f"({text}) AS {alias}{new}", alias, columns
        table = "sales" if share < 0.9 else "items"
        if table in queries:
            return table, table, queries[table]
        alias = self.name() if self.random.random() < 0.3 else ""
        return f"{table} {alias}", alias or table, COLUMNS[table]

    def tables(self, queries: dict[str, list[str]], depth: int) -> tuple[str, list[Column]]:
        """Return FROM and the columns that it shows."""
        text, name, own = self.source(queries, depth)
        columns, ordered = [(name, column) for column in own], self.ordered
        joined, other, further = self.source(queries, depth)
        share, choose = self.random.random(), self.random.choice
        if share > 0.35 or other.lower() == name.lower():
            self.ordered = ordered
            return text, columns
        self.ordered = False
        every = columns + [(other, column) for column in further]
        equal = f"{self.cased(name)}.{self.cased(choose(own))} = {other}.{choose(further)}"
        shared = [c for c in own if own.count(c) == 1 and further.count(c) == 1]
        if share < 0.1:
            return f"{text} JOIN {joined} ON {equal}", every
        if share < 0.15:
            return f"{text} JOIN {joined} ON {equal} AND {self.condition(every)}", every
        if share < 0.2:
            return f"{text} LEFT JOIN {joined} ON {equal}", every
        if share < 0.25 and shared:
            same = choose(shared)
            merged = [("" if c == same else q, c) for q, c in columns]
            merged += [(other, c) for c in further if c != same]
            return f"{text} {choose(['', 'LEFT'])} JOIN {joined} USING ({same})", merged
        return f"{text}, {joined}", every

    def query(self, queries: dict[str, list[str]], depth: int) -> tuple[str, list[str]]:
        """Return a query that filters and computes, and the names of its columns."""
        text, columns = self.tables(queries, depth)
        chance = self.random.random
        end = f" WHERE {self.condition(columns)}" if chance() < 0.5 else ""
        end += f" ORDER BY {self.expression(columns, 2)}" if chance() < 0.1 else ""
        names = [name for _, name in columns]
        if chance() < 0.3 and len({*names}) == len(names):
            star = "*"
            if chance() < 0.3 and len(names) > 1:
                out = self.random.choice(names)
                names.remove(out)
                star += f" EXCLUDE ({out})"
            if chance() < 0.3:
                names.append(f"e{self.count}")
                star += f", {self.expression(columns)} AS e{self.count}"
            self.ordered = False
            return f"SELECT {star} FROM {text}{end}", names
        names = [*dict.fromkeys(self.name() for _ in range(self.random.randint(1, 4)))]
        items = [f"{self.expression(columns)} AS {name}" for name in names]
        self.ordered = True
        return f"SELECT {', '.join(items)} FROM {text}{end}", names

    def statement(self) -> str:
        """Return a statement with an aggregate."""
        queries: dict[str, list[str]] = {}
        parts = []
        for i in range(self.random.randint(0, 3)):
            name = self.random.choice([f"q{i}", "sales", "items", f"q{i}"])
            if name not in queries:
                text, columns = self.query(queries, 1)
                new, queries[name] = self.listed(columns, "y")
                parts.append(f"{name}{new} AS ({text})")
        text, columns = self.tables(queries, 0)
        chance, shown = self.random.random, []
        for i in range(self.random.randint(1, 3)):
            value, test = self.expression(columns), self.condition(columns)
            forms = ["COUNT(*)", f"SUM({value})", f"COUNT({value})", f"SUM({value}) FILTER (WHERE {test})"]  # fmt: skip
            shown.append(f"{self.random.choice(forms)} AS r{i}")
        end = f" WHERE {self.condition(columns)}" if chance() < 0.5 else ""
        if chance() < 0.5:
            key = self.expression(columns)
            end += f" GROUP BY {key}"
            if chance() < 0.5:
                shown.insert(0, f"{key} AS {self.name()}")
            end += " HAVING COUNT(*) > 1" if chance() < 0.3 else ""
        end += " ORDER BY r0" if chance() < 0.2 else ""
        start = f"WITH {', '.join(parts)} " if parts else ""
        return f"{start}SELECT {', '.join(shown)} FROM {text}{end}"
