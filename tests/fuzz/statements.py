"""Random statements over some schemas: valid ones with their trees, broken ones, and random tables.

A statement depends on its seed and number alone. What a valid one means is told by its tree, which is
made together with the text and never read from it; see reference.py.
"""

from __future__ import annotations

import datetime
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dpnb import Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.schema.columns import Kind

LARGE = 2**53
FIRST, LAST = datetime.date(2024, 1, 1), datetime.date(2024, 1, 9)


# tables


@dataclass(frozen=True)
class Declared:
    """The public facts of a table."""

    schema: Schema
    unit: Unit | None = None
    key: str | None = None


@dataclass(frozen=True)
class Relation:
    """One table of FROM; ``on`` are the column of the first table and the own one that are equal."""

    shown: str
    table: str
    on: tuple[str, str] | None = None
    inner: bool = True


class Ref(NamedTuple):
    """A column of FROM: its relation's place, its name, its kind, and all ways to write it."""

    place: int
    name: str
    kind: Kind
    texts: tuple[str, ...]


@dataclass(frozen=True)
class From:
    """A FROM clause: its texts, its relations, and the columns that may be named."""

    texts: tuple[str, ...]
    relations: tuple[Relation, ...]
    refs: tuple[Ref, ...]
    ids: tuple[str, ...] = ()
    rows: int = 1
    """Most rows of one privacy unit."""

    def of(self, *kinds: type) -> list[Ref]:
        return [ref for ref in self.refs if isinstance(ref.kind, kinds)]


@dataclass(frozen=True)
class World:
    """Tables that are opened together, and the FROM clauses over them."""

    name: str
    declared: dict[str, Declared]
    sources: tuple[From, ...]
    make: Callable[[np.random.Generator], dict[str, pa.Table]] = field(repr=False)

    def tables(self, rows: dict[str, Any], *, in_memory: bool = False) -> list[Table]:
        return [
            Table(
                name, rows[name], one.schema, one.unit, public=one.key is not None, key=one.key,
                in_memory=None if in_memory else (),
            )
            for name, one in self.declared.items()
        ]  # fmt: skip


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def spelled(name: str) -> tuple[str, ...]:
    """Return the spellings of a name that mean it."""
    plain = name.isidentifier() and name.isascii()
    bare = (name, name.upper(), name.lower()) if plain else ()
    return (*bare, quoted(name), quoted(name.swapcase()))


def source_of(
    texts: Sequence[str],
    relations: Sequence[Relation],
    declared: dict[str, Declared],
    *,
    ids: Sequence[str] = (),
    rows: int = 1,
    merged: str = "",
) -> From:
    """Return a FROM clause with its columns: bare where only one relation has the name."""
    names = [name for one in relations for name in declared[one.table].schema]
    refs = []
    for place, one in enumerate(relations):
        for name, kind in declared[one.table].schema.items():
            if name == merged and place:
                continue
            alone = names.count(name) == 1 or name == merged
            bare = spelled(name) if alone else ()
            shown = one.shown, one.shown.upper()
            texts_ = (*bare, *(f"{by}.{text}" for by in shown for text in spelled(name)[:3]))
            refs.append(Ref(place, name, kind, texts_))
    return From(tuple(texts), tuple(relations), tuple(refs), tuple(ids), rows)


PLAIN = {
    "t": Declared(
        Schema(
            {
                "c": Category(["a", "b", "it's", "<b>"]),
                "O": Category(["x", "y", "rest"], other="rest"),
                "k": Category(["u", "v"]),
                "b": Category(["true", "false"]),
                "i": Integer(-3, 7, bins=[-3, 0, 2, 7]),
                "j": Integer(0, 5),
                "part": Integer(0, 100, bins=[10, 20, 50]),
                "big": Integer(-LARGE, LARGE),
                "wide": Integer(0, 2**31),
                "r": Real(-1, 2.5, bins=[-1, 0, 0.5, 2.5]),
                "f": Real(0, 1e6),
                'the "day"': Date(FIRST, LAST),
                "d": Date(FIRST, LAST, bins=[FIRST, datetime.date(2024, 1, 4), LAST]),
            },
            complete=["k"],
        )
    )
}
SALES = {
    "sales": Declared(
        Schema(
            {
                "item": Integer(0, 9),
                "shop": Category(["x", "y", "z"]),
                "amount": Integer(0, 20, bins=[0, 5, 20]),
                "paid": Real(-10, 100),
            }
        )
    ),
    "items": Declared(
        Schema(
            {
                "item": Integer(0, 9, bins=[0, 4, 9]),
                "sort": Category(["p", "q", "else"], other="else"),
                "price": Real(0, 64, bins=[0, 8, 16, 64]),
            }
        ),
        key="item",
    ),
    "shops": Declared(
        Schema({"shop": Category(["x", "y", "z"]), "city": Category(["Ulm", "Bonn"])}), key="shop"
    ),
}
PEOPLE = {
    "orders": Declared(
        Schema({"n": Integer(0, 9), "sum": Real(0, 50, bins=[0, 10, 50])}), Unit("person", 4)
    ),
    "people": Declared(
        Schema({"age": Integer(0, 99, bins=[0, 30, 60, 99]), "sex": Category(["f", "m"])}),
        Unit("person", 1),
    ),
    "visits": Declared(
        Schema({"day": Integer(1, 7), "place": Category(["in", "out"])}, complete=["place"]),
        Unit("person", 3),
    ),
}


def some(
    rng: np.random.Generator, rows: int, values: Sequence[Any], odd: Sequence[Any], share: float
) -> list[Any]:
    """Return values, a share of which is odd or missing."""
    picked = [values[i] for i in rng.integers(0, len(values), rows)]
    for place in np.flatnonzero(rng.random(rows) < share):
        picked[place] = [*odd, None][rng.integers(0, len(odd) + 1)]
    return picked


def size(rng: np.random.Generator) -> int:
    return int(rng.choice([0, 1, 2, 7, 40, 90], p=[0.03, 0.04, 0.05, 0.18, 0.4, 0.3]))


def plain_rows(rng: np.random.Generator) -> dict[str, pa.Table]:
    rows, share = size(rng), float(rng.choice([0.0, 0.1, 0.3, 1.0], p=[0.1, 0.5, 0.35, 0.05]))
    inf, near = math.inf, math.nextafter(0.5, 1)
    days = [FIRST + datetime.timedelta(n) for n in range(-1, 11)]

    def made(values: Sequence[Any], odd: Sequence[Any], type_: pa.DataType) -> pa.Array:
        return pa.array(some(rng, rows, values, odd, share), type_)

    whole = [-3.0, -0.5, 0.0, 0.5, 1.5, 2.0, 2.4999, 3.0, 7.0, 7.49, math.nextafter(0.5, 0)]
    reals = [-1.0, -0.0, 0.0, 0.1, 0.5, near, 2.0, 2.5, 1 / 3, *rng.uniform(-1, 2.5, 8).tolist()]
    return {
        "t": pa.table(
            {
                "c": made(["a", "b", "it's", "<b>"], ["A", "", "stranger"], pa.string()),
                "O": made(["x", "y", "rest"], ["X", "", "stranger"], pa.string()),
                "k": made(["u", "v"], ["w"], pa.string()),
                "b": made([True, False], [], pa.bool_()),
                "i": made(whole, [math.nan, inf, -inf, -4.0, 8.0, 1e300], pa.float64()),
                "j": made([0, 1, 2, 3, 5], [-1, 6, 2**31 - 1], pa.int32()),
                "part": made([0, 10, 11, 20, 21, 50, 51, 100], [-7, 2**62], pa.int64()),
                "big": made([LARGE, LARGE - 1, 1 - LARGE, 3], [2**63 - 1, -(2**63)], pa.int64()),
                "wide": made([2**31, 2**31 - 1, 65_536, 0], [-1, 2**40], pa.int64()),
                "r": made(reals, [math.nan, inf, -inf, 3.0, -2.0, 5e-324], pa.float64()),
                "f": made(rng.uniform(0, 1e6, 9).tolist(), [-1.0, 2e6, math.nan], pa.float64()),
                'the "day"': made(days, [datetime.date(1, 1, 1)], pa.date32()),
                "d": made(days, [datetime.date(9999, 12, 31)], pa.date32()),
            }
        )
    }


def sales_rows(rng: np.random.Generator) -> dict[str, pa.Table]:
    rows, keys = size(rng), rng.permutation(12)[: rng.integers(0, 11)].tolist()
    kept = [key for key in keys if key <= 9]
    number = len(kept) + 1
    return {
        "sales": pa.table(
            {
                "item": pa.array(some(rng, rows, range(10), [-1, 30], 0.1), pa.int64()),
                "shop": pa.array(some(rng, rows, "xyz", ["closed"], 0.1), pa.string()),
                "amount": pa.array(some(rng, rows, range(21), [-5, 99], 0.1), pa.int32()),
                "paid": pa.array(
                    some(rng, rows, [0.0, -10.0, 7.5, 1 / 3, 99.5], [math.nan, 1e9], 0.1),
                    pa.float64(),
                ),
            }
        ),
        # the last one has no key
        "items": pa.table(
            {
                "item": pa.array([*kept, None], pa.int64()),
                "sort": pa.array(some(rng, number, "pq", ["strange", "else"], 0.3), pa.string()),
                "price": pa.array(
                    some(rng, number, [0.0, 8.0, 8.5, 16.0, 64.0], [-3.0, 70.0], 0.2), pa.float64()
                ),
            }
        ),
        "shops": pa.table({"shop": ["x", "y", "gone"], "city": ["Ulm", "Bonn", "Ulm"]}),
    }


def ids(rng: np.random.Generator, most: int) -> list[Any]:
    """Return ids of a table's rows: none has more than ``most``, some rows have none."""
    rows, counted = min(size(rng), 40), dict.fromkeys(range(20), 0)
    found: list[Any] = []
    for picked in rng.integers(0, 20, rows).tolist():
        counted[picked] += 1
        found.append(picked - 5 if counted[picked] <= most else None)
    return found


def people_rows(rng: np.random.Generator) -> dict[str, pa.Table]:
    ordering, known, visiting = ids(rng, 4), ids(rng, 1), ids(rng, 3)
    return {
        "orders": pa.table(
            {
                "person": pa.array(ordering, pa.int64()),
                "n": pa.array(some(rng, len(ordering), range(10), [-4, 12], 0.15), pa.int64()),
                "sum": pa.array(
                    some(rng, len(ordering), [0.0, 10.0, 10.5, 1 / 3, 50.0], [60.0], 0.1),
                    pa.float64(),
                ),
            }
        ),
        "people": pa.table(
            {
                "person": pa.array(known, pa.int64()),
                "age": pa.array(some(rng, len(known), range(0, 100, 10), [130], 0.1), pa.int64()),
                "sex": pa.array(some(rng, len(known), "fm", ["x"], 0.1), pa.string()),
            }
        ),
        "visits": pa.table(
            {
                "person": pa.array(visiting, pa.int64()),
                "day": pa.array(some(rng, len(visiting), range(1, 8), [0, 9], 0.1), pa.int64()),
                "place": pa.array(
                    some(rng, len(visiting), ["in", "out"], ["far"], 0.2), pa.string()
                ),
            }
        ),
    }


def plain_world() -> World:
    alone = source_of(["t", "T", '"t"'], [Relation("t", "t")], PLAIN)
    named = source_of(["t AS u", "T u"], [Relation("u", "t")], PLAIN)
    return World("plain", PLAIN, (alone, alone, alone, named), plain_rows)


def sales_world() -> World:
    base = Relation("s", "sales")

    def items(*, inner: bool, shown: str = "p") -> Relation:
        return Relation(shown, "items", ("item", "item"), inner)

    def shops(*, inner: bool) -> Relation:
        return Relation("h", "shops", ("shop", "shop"), inner)

    shapes = [
        source_of(["sales s", "sales AS S"], [base], SALES),
        source_of(
            ["sales s JOIN items p ON s.item = p.item", "items AS p JOIN sales s ON p.item = s.item",
             "sales s INNER JOIN items p ON (p.item = S.ITEM)"],
            [base, items(inner=True)], SALES,
        ),
        source_of(
            ["sales s LEFT JOIN items p ON s.item = p.item",
             "sales s LEFT OUTER JOIN items p ON p.item = s.item"],
            [base, items(inner=False)], SALES,
        ),
        source_of(
            ["sales s LEFT JOIN items p USING (item)"], [base, items(inner=False)], SALES,
            merged="item",
        ),
        source_of(
            ["sales s JOIN items p ON s.item = p.item LEFT JOIN shops h ON s.shop = h.shop"],
            [base, items(inner=True), shops(inner=False)], SALES,
        ),
    ]  # fmt: skip
    return World("sales", SALES, tuple(shapes), sales_rows)


def people_world() -> World:
    def shape(texts: Sequence[str], *relations: Relation, rows: int) -> From:
        named = [f"{one.shown}.person" for one in relations[:1]]
        bare = ["person", '"PERSON"'] if len(relations) == 1 else []
        return source_of(texts, relations, PEOPLE, ids=[*named, *bare], rows=rows)

    on = "person", "person"
    orders = Relation("o", "orders")
    shapes = [
        shape(["orders o"], orders, rows=4),
        shape(["people p"], Relation("p", "people"), rows=1),
        shape(
            ["orders o JOIN people p ON o.person = p.person",
             "people p JOIN orders o ON p.person = o.person"],
            orders, Relation("p", "people", on), rows=4,
        ),
        shape(
            ["orders o LEFT JOIN people p ON o.person = p.person"],
            orders, Relation("p", "people", on, inner=False), rows=4,
        ),
        shape(
            ["orders o JOIN visits w ON o.person = w.person",
             "visits w JOIN orders o ON o.person = w.person"],
            orders, Relation("w", "visits", on), rows=12,
        ),
    ]  # fmt: skip
    return World("people", PEOPLE, tuple(shapes), people_rows)


WORLDS = (plain_world(), plain_world(), plain_world(), sales_world(), people_world())
"""One after the other; the first is the richest."""


# trees


class Node(NamedTuple):
    """A part of a statement: how it is written, how strongly it binds, and what it means."""

    text: str
    strength: int
    op: str
    parts: tuple[Any, ...] = ()


ATOM = 9


class Output(NamedTuple):
    """A column of the SELECT list that is no group column; ``alias`` is None for the default one."""

    formula: Node
    alias: str | None


@dataclass(slots=True)
class Statement:
    """A statement: valid ones have a tree, ``having`` is a valid one with HAVING.

    ``marks`` say of the others what is wrong with them.
    """

    kind: str
    text: str
    source: From | None = None
    keys: Sequence[tuple[Ref, str]] = ()
    outputs: Sequence[Output] = ()
    where: Node | None = None
    order: Sequence[tuple[str, bool]] = ()
    limit: int | None = None
    marks: Sequence[tuple[str, ...]] = ()


NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "0.5",
    ".1",
    "1e3",
    "-2",
    "10",
    "2.5e-1",
    "1.",
    "-0.25",
    "65536",
]
HUGE = ["9007199254740993", "1e300", "-1e400", "123456789012345678901234567890.5", "1e-320", "-0"]
BETWEEN_WHOLE = ["-4", "-3", "0", "1", "2", "2.5", "3", "5", "7", "8", "1e0", "20", "25e-1", "007"]
OF_REAL = ["-1", "0", "0.1", "0.5", "-.5", "2.", "2.5", "1E1", "0.30000000000000004", "8", "16.0"]
FLIPPED = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
ALIASES = [
    "a",
    "rows",
    "total",
    "Mean",
    '"odd name"',
    '"ü ☃"',
    '"select"',
    "_x",
    "v1",
    '"A""b"',
    "zz",
]
STATISTICS = {
    "VARIANCE": (True, False), "VAR_SAMP": (True, False), "VAR_POP": (False, False),
    "STDDEV": (True, True), "STDDEV_SAMP": (True, True), "STDDEV_POP": (False, True),
}  # fmt: skip
"""Whether the divisor is n - 1, and whether it is the root."""


class Writer:
    """Writes one statement."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self.rng = rng
        self.world = world
        self.source = rng.choice(world.sources)
        self.casing = rng.choice((str.upper, str.upper, str.upper, str.lower, self.mixed))
        self.gap = rng.choice((" ", " ", " ", " ", "\n", "\t", "  \r\n "))
        self.numbers = self.source.of(Integer, Real)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def mixed(self, word: str) -> str:
        return "".join(self.rng.choice((c.upper(), c.lower())) for c in word)

    def name(self, ref: Ref) -> str:
        texts = ref.texts
        return texts[0] if self.chance(0.7) else self.rng.choice(texts)

    def bracket(self, node: Node, strength: int) -> str:
        """Return the text of a node where something binds with a strength."""
        if node.strength < strength or self.chance(0.06):
            return f"({node.text})"
        return node.text

    # conditions

    def constant(self, ref: Ref) -> tuple[str, Any]:
        """Return the SQL of a constant, and what it is: a text, a date, or the text of a number."""
        rng, kind = self.rng, ref.kind
        if isinstance(kind, Category):
            value = rng.choice(kind.values)
            return "'" + value.replace("'", "''") + "'", value
        if isinstance(kind, Date):
            day = FIRST + datetime.timedelta(rng.randrange(-2, 12))
            form = rng.choice(("'{}'", "DATE '{}'", "CAST('{}' AS DATE)", "'{}'::DATE"))
            return form.format(day.isoformat()), day
        if self.chance(0.03):
            text = rng.choice(HUGE)
        elif isinstance(kind, Real):
            text = rng.choice(OF_REAL)
        elif kind.high == LARGE:
            text = rng.choice(("9007199254740991", "9007199254740992", "-9007199254740991", "3"))
        else:
            text = rng.choice(BETWEEN_WHOLE)
        return (f"({text})" if self.chance(0.05) else text), text

    def member(self, ref: Ref) -> tuple[str, Any]:
        """Return a constant that a value of the column may equal."""
        while True:
            text, value = self.constant(ref)
            kind = ref.kind
            if isinstance(kind, Category):
                return text, value
            number = value if isinstance(kind, Date) else Fraction(value)
            whole = not isinstance(kind, Integer) or number.denominator == 1
            if kind.low <= number <= kind.high and whole:
                return text, value

    def atom(self) -> Node:
        rng = self.rng
        ref = rng.choice(self.source.refs)
        name, category = self.name(ref), isinstance(ref.kind, Category)
        form = rng.randrange(10)
        negated = self.chance(0.4)
        word = self.casing("NOT ") if negated else ""
        if form < 2:
            text = f"{name} {self.casing('IS')} {word}{self.casing('NULL')}"
            return Node(text, 4, "null", (ref, negated))
        if form < 4:
            listed = [self.member(ref) for _ in range(rng.randrange(1, 4))]
            inside = ", ".join(text for text, _ in listed)
            text = f"{name} {word}{self.casing('IN')} ({inside})"
            return Node(text, 4, "in", (ref, [value for _, value in listed], negated))
        if form < 6 and not category:
            (low, least), (high, most) = self.constant(ref), self.constant(ref)
            text = f"{name} {word}{self.casing('BETWEEN')} {low} {self.casing('AND')} {high}"
            return Node(text, 4, "between", (ref, least, most, negated))
        operator = rng.choice(("=", "<>", "!=") if category else tuple(FLIPPED))
        text, value = self.member(ref) if operator in ("=", "<>", "!=") else self.constant(ref)
        space = rng.choice((" ", " ", " ", ""))
        if space == "" and (text.startswith(("-", "D", "C")) or not name[-1].isalnum()):
            space = " "
        written = (
            f"{text} {FLIPPED[operator]} {name}"
            if self.chance(0.2)
            else f"{name}{space}{operator}{space}{text}"
        )
        node = Node(written, 4, "compare", (ref, operator, value))
        if negated and self.chance(0.5):
            return Node(f"{word}{self.bracket(node, 3)}", 3, "not", (node,))
        return node

    def condition(self, depth: int = 2) -> Node:
        if depth == 0 or self.chance(0.5):
            return self.atom()
        if self.chance(0.25):
            inner = self.condition(depth - 1)
            return Node(f"{self.casing('NOT')} {self.bracket(inner, 3)}", 3, "not", (inner,))
        op, strength = self.rng.choice((("and", 2), ("or", 1)))
        parts = tuple(self.condition(depth - 1) for _ in range(self.rng.choice((2, 2, 2, 3))))
        word = f" {self.casing(op)} "
        return Node(
            word.join(self.bracket(part, strength) for part in parts), strength, op, parts
        )  # fmt: skip

    # what is aggregated

    def number(self) -> Node:
        text = self.rng.choice(NUMBERS)
        return Node(text, 7 if text[0] == "-" else ATOM, "number", (text,))

    def column(self) -> Node:
        ref = self.rng.choice(self.numbers)
        return Node(self.name(ref), ATOM, "column", (ref,))

    def combined(self, op: str, left: Node, right: Node) -> Node:
        own = 5 if op in "+-" else 6
        text = f"{self.bracket(left, own)} {op} {self.bracket(right, own + 1)}"
        return Node(text, own, op, (left, right))

    def minus(self, inner: Node) -> Node:
        text = self.bracket(inner, 8)
        return Node(f"-{text}", 7, "neg", (inner,))

    def argument(self, depth: int) -> Node:
        """Return an expression; what is the same in every row is refused, so it is rare."""
        node = self.expression(depth)
        return self.column() if node.op == "number" and self.chance(0.9) else node

    def expression(self, depth: int) -> Node:
        if depth == 0 or self.chance(0.3):
            return self.column() if self.chance(0.75) else self.number()
        form = self.rng.randrange(8)
        if form < 5:
            op = self.rng.choice("++--**/")
            right = self.expression(depth - 1)
            if op == "/":
                text = self.rng.choice(("2", "-0.5", "3e0", "7"))
                right = Node(text, 7 if text[0] == "-" else ATOM, "number", (text,))
            return self.combined(op, self.expression(depth - 1), right)
        if form == 5:
            return self.minus(self.expression(depth - 1))
        return self.case(depth)

    def case(self, depth: int) -> Node:
        branches: list[tuple[Node, Node]] = []
        text = self.casing("CASE")
        for _ in range(self.rng.choice((1, 1, 2))):
            test, value = self.condition(1), self.expression(depth - 1)
            if self.chance(0.08):
                value = Node(self.casing("NULL"), ATOM, "missing")
            branches.append((test, value))
            text += f" {self.casing('WHEN')} {test.text} {self.casing('THEN')} {value.text}"
        default = self.expression(depth - 1) if self.chance(0.6) else None
        if default is not None:
            text += f" {self.casing('ELSE')} {default.text}"
        text += f" {self.casing('END')}"
        return Node(text, ATOM, "case", (tuple(branches), default))

    # aggregates and formulas

    def filtered(self, text: str) -> tuple[str, Node | None]:
        if not self.chance(0.2):
            return text, None
        condition = self.condition(1)
        word, where = self.casing("FILTER"), self.casing("WHERE")
        return f"{text} {word} ({where} {condition.text})", condition

    def aggregate(self) -> Node:
        rng = self.rng
        function = rng.choice(("COUNT", "COUNT", "SUM", "SUM", "AVG", "AVG", "STATISTIC"))
        if self.source.ids and self.chance(0.15):
            function, inside = "UNITS", rng.choice(self.source.ids)
            text = f"{self.casing('COUNT')}({self.casing('DISTINCT')} {inside})"
            text, condition = self.filtered(text)
            return Node(text, ATOM, "UNITS", (None, condition))
        if function == "STATISTIC":
            return self.statistic()
        argument: Node | None = None
        if function == "COUNT" and self.chance(0.5):
            inside = "*"
        elif function == "COUNT" and self.chance(0.6):
            ref = rng.choice(self.source.refs)
            argument = Node(self.name(ref), ATOM, "column", (ref,))
            inside = argument.text
        else:
            argument = self.column() if self.chance(0.45) else self.argument(2)
            inside = argument.text
        text, condition = self.filtered(f"{self.casing(function)}({inside})")
        return Node(text, ATOM, function, (argument, condition))

    def statistic(self) -> Node:
        rng = self.rng
        if self.chance(0.5) or not self.ranked:
            word = rng.choice(tuple(STATISTICS))
            argument = self.column() if self.chance(0.6) else self.argument(1)
            text, condition = self.filtered(f"{self.casing(word)}({argument.text})")
            return Node(text, ATOM, "VARIANCE", (argument, condition, *STATISTICS[word]))
        ref = rng.choice(self.ranked)
        name, share = self.name(ref), rng.choice(("0.5", "0.25", ".9", "0.01", "1e-1", "0.75"))
        forms = (
            f"{self.casing('MEDIAN')}({name})",
            f"{self.casing('QUANTILE')}({name}, {share})",
            f"{self.casing('QUANTILE_CONT')}({name}, {share})",
            f"{self.casing('PERCENTILE_CONT')}({share}) {self.casing('WITHIN GROUP')} "
            f"({self.casing('ORDER BY')} {name})",
            f"PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY {name})",
        )
        picked = rng.randrange(len(forms))
        text, condition = self.filtered(forms[picked])
        return Node(text, ATOM, "QUANTILE", (ref, condition, "0.5" if picked == 0 else share))

    def formula(self, depth: int) -> Node:
        if depth == 0 or self.chance(0.35):
            return self.aggregate()
        form = self.rng.randrange(8)
        if form < 6:
            left = self.formula(depth - 1)
            right = self.formula(depth - 1) if self.chance(0.6) else self.number()
            if right.op == "number" and self.chance(0.4):
                left, right = right, left
            return self.combined(self.rng.choice("+-*/"), left, right)
        inner = self.formula(depth - 1)
        if form == 6:
            return self.minus(inner)
        op = self.rng.choice(("EXP", "LN", "SQRT"))
        return Node(f"{self.casing(op)}({inner.text})", ATOM, op, (inner,))

    # statements

    def groups(self) -> list[Ref]:
        """Return group columns: few cells in all."""
        found: list[Ref] = []
        cells = 1
        for _ in range(self.rng.choice((0, 0, 1, 1, 1, 2, 2, 3))):
            ref = self.rng.choice(self.source.refs)
            number = cells_of(ref.kind)
            known = {(one.place, one.name) for one in found}
            if number and cells * number <= 200 and (ref.place, ref.name) not in known:
                cells *= number
                found.append(ref)
        return found

    def statement(self) -> Statement:
        rng, casing, gap = self.rng, self.casing, self.gap
        keys = self.groups()
        self.ranked = [
            ref for ref in self.numbers
            if covered(ref.kind) and all(ref[:2] != key[:2] for key in keys)
        ]  # fmt: skip
        names = rng.sample(ALIASES, 6)
        shown: list[str] = []
        own: list[tuple[Ref, str]] = []
        taken: set[str] = set()
        for ref in keys:
            alias = ref.name
            if self.chance(0.25) or ref.name.casefold() in taken:
                written = names.pop()
                alias = unquoted(written)
                shown.append(f"{self.name(ref)} {casing('AS')} {written}")
            elif self.chance(0.85):
                shown.append(self.name(ref))
            taken.add(alias.casefold())
            own.append((ref, alias))
        # a column that is not shown goes by its name, which must be free
        outputs: list[Output] = []
        number = rng.choice((1, 1, 1, 2, 2, 3))
        for place in range(number):
            node = self.aggregate() if self.chance(0.75) else self.formula(2)
            written = names.pop() if place < 3 and names else f"v{place}x"
            # unnamed it goes by the name of its function, which a column of a group may have
            if number == 1 and self.chance(0.15) and "sum" not in taken:
                outputs.append(Output(node, None))
                shown.append(self.bracket(node, 1))
                continue
            word = f"{casing('AS')} " if self.chance(0.8) else ""
            outputs.append(Output(node, unquoted(written)))
            shown.append(f"{self.bracket(node, 1)} {word}{written}")
        where = self.condition(3) if self.chance(0.55) else None
        parts = [f"{casing('SELECT')} {', '.join(shown)}",
                 f"{casing('FROM')} {rng.choice(self.source.texts)}"]  # fmt: skip
        if where is not None:
            parts.append(f"{casing('WHERE')} {where.text}")
        if keys:
            parts.append(f"{casing('GROUP BY')} {', '.join(map(self.name, keys))}")
        kind = "valid"
        if self.chance(0.04):
            kind = "having"
            parts.append(f"{casing('HAVING')} COUNT(*) {rng.choice('<>')} {rng.randrange(9)}")
        order = self.ordering(own, outputs)
        if order:
            terms = ", ".join(text for text, _, _ in order)
            parts.append(f"{casing('ORDER BY')} {terms}")
        limit = rng.choice((0, 1, 2, 5, 100)) if self.chance(0.15) else None
        if limit is not None:
            parts.append(f"{casing('LIMIT')} {limit}")
        text = gap.join(parts) + rng.choice(("", "", "", ";", " ;", "\n"))
        terms_ = [(alias, descending) for _, alias, descending in order]
        return Statement(kind, text, self.source, own, outputs, where, terms_, limit)

    def ordering(
        self, keys: Sequence[tuple[Ref, str]], outputs: Sequence[Output]
    ) -> list[tuple[str, str, bool]]:
        known = [alias for _, alias in keys] + [one.alias for one in outputs if one.alias]
        if not known or not self.chance(0.25):
            return []
        found = []
        for alias in self.rng.sample(known, min(len(known), self.rng.choice((1, 1, 2)))):
            descending = self.chance(0.4)
            text = alias if alias.isidentifier() and alias.isascii() else quoted(alias)
            text = quoted(alias) if alias == "select" else text
            word = " DESC" if descending else self.rng.choice(("", "", " ASC"))
            found.append((f"{text}{self.casing(word)}", alias, descending))
        return found


def unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def cells_of(kind: Kind) -> int:
    """Return how many groups are declared; 0 for none, and for very many."""
    if isinstance(kind, Category):
        return len(kind.values)
    if kind.bins is not None:
        return len(kind.bins) - 1
    if isinstance(kind, Real):
        return 0
    low, high = (
        (kind.low.toordinal(), kind.high.toordinal())
        if isinstance(kind, Date)
        else (kind.low, kind.high)
    )
    return high - low + 1 if high - low < 200 else 0


def covered(kind: Kind) -> bool:
    """Whether quantiles can be asked for: cells from the lower to the upper bound."""
    if not isinstance(kind, Integer | Real) or not cells_of(kind):
        return False
    return kind.bins is None or (kind.bins[0], kind.bins[-1]) == (kind.low, kind.high)


# broken statements

REFUSED = [
    "SELECT COUNT(*) AS result FROM (SELECT * FROM {t} LIMIT 3) AS q",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} IN (SELECT {x} FROM nowhere)",
    "SELECT COUNT(*) AS result FROM {t} WHERE EXISTS (SELECT 1 FROM nowhere)",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} > (SELECT AVG({x}) FROM nowhere)",
    "SELECT (SELECT COUNT(*) FROM {t}) AS result FROM {t}",
    "SELECT SUM((SELECT 1)) AS result FROM {t}",
    "WITH q AS (SELECT * FROM {t} USING SAMPLE 3) SELECT COUNT(*) AS result FROM q",
    "WITH q AS (SELECT 1) SELECT COUNT(*) AS result FROM q",
    "WITH RECURSIVE q AS (SELECT {x} FROM {t}) SELECT COUNT(*) AS result FROM q",
    "SELECT COUNT(*) OVER () AS result FROM {t}",
    "SELECT SUM({x}) OVER (ORDER BY {x}) AS result FROM {t}",
    "SELECT ROW_NUMBER() OVER (PARTITION BY {x}) AS result FROM {t}",
    "SELECT COUNT(*) AS result FROM {t} QUALIFY NTILE(2) OVER () > 1",
    "SELECT COUNT(*) AS result FROM {t} UNION ALL SELECT COUNT(*) FROM {t}",
    "SELECT COUNT(*) AS result FROM {t} EXCEPT SELECT 1",
    "(SELECT COUNT(*) AS result FROM {t}) INTERSECT (SELECT 1)",
    "SELECT MIN({x}) AS result FROM {t}",
    "SELECT MAX({x}) AS result FROM {t}",
    "SELECT ANY_VALUE({x}) AS result FROM {t}",
    "SELECT STRING_AGG(CAST({x} AS VARCHAR), ',') AS result FROM {t}",
    "SELECT LIST({x}) AS result FROM {t}",
    "SELECT HISTOGRAM({x}) AS result FROM {t}",
    "SELECT CORR({x}, {x}) AS result FROM {t}",
    "SELECT SUM(DISTINCT {x}) AS result FROM {t}",
    "SELECT COUNT(DISTINCT {x}, {x}) AS result FROM {t}",
    "SELECT SUM({x} / {x}) AS result FROM {t}",
    "SELECT SUM(RANDOM()) AS result FROM {t}",
    "SELECT CBRT(SUM({x})) AS result FROM {t}",
    "SELECT SUM({x}) + {x} AS result FROM {t}",
    "SELECT SUM(SUM({x})) AS result FROM {t}",
    "SELECT SUM({x}) / 0 AS result FROM {t}",
    "SELECT SUM({x} / 0) AS result FROM {t}",
    "SELECT LN(0) * COUNT(*) AS result FROM {t}",
    "SELECT QUANTILE({x}, 1) AS result FROM {t}",
    "SELECT QUANTILE({x}, 0) AS result FROM {t}",
    "SELECT MEDIAN({x} + 1) AS result FROM {t}",
    "SELECT SUM('1') AS result FROM {t}",
    "SELECT SUM(NULL) AS result FROM {t}",
    "SELECT AVG(3) AS result FROM {t}",
    "SELECT SUM({x} * 1e200) AS result FROM {t}",
    "SELECT COUNT(*) AS result FROM {t} WHERE ABS({x}) > RANDOM()",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} + RANDOM() > 2",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} > GETENV('HOME')",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} = NULL",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} = 'missing'",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} LIKE CURRENT_USER",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} IS TRUE",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} IS DISTINCT FROM NOW()",
    "SELECT COUNT(*) AS result FROM {t} WHERE 1 = 'a'",
    "SELECT COUNT(*) AS result FROM {t} WHERE 'a'",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x}",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} = :missing",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} = ?",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} = $1",
    "SELECT COUNT(*) AS result FROM {t} WHERE nowhere > 3",
    "SELECT COUNT(*) AS result FROM {t} WHERE rowid = 0",
    "SELECT COUNT(*) AS result FROM {t} WHERE other.{x} > 3",
    "SELECT COUNT(*) AS result FROM {t} WHERE {x} IS NULL AND (COUNT(*) > 3)",
    "SELECT COUNT(*) AS result FROM nowhere",
    "SELECT COUNT(*) AS result FROM {t}, {t}",
    "SELECT COUNT(*) AS result FROM {t} CROSS JOIN {t} AS q",
    "SELECT COUNT(*) AS result FROM {t} NATURAL JOIN {t} AS q",
    "SELECT COUNT(*) AS result FROM {t} FULL JOIN {t} AS q ON TRUE",
    "SELECT COUNT(*) AS result FROM {t} JOIN {t} AS q ON 1 = 1",
    "SELECT COUNT(*) AS result FROM read_csv('/etc/passwd')",
    "SELECT COUNT(*) AS result FROM '/etc/passwd'",
    "SELECT COUNT(*) AS result FROM rows",
    "SELECT COUNT(*) AS result FROM codes",
    "SELECT COUNT(*) AS result FROM information_schema.tables",
    "SELECT COUNT(*) AS result FROM duckdb_tables()",
    "SELECT COUNT(*) AS result FROM range(10)",
    "SELECT COUNT(*) AS result FROM main.{t}",
    "SELECT COUNT(*) AS result FROM {t} TABLESAMPLE 10 PERCENT",
    "SELECT COUNT(*) AS result FROM {t} USING SAMPLE 3",
    "SELECT COUNT(*) AS result FROM {t}, LATERAL (SELECT 1)",
    "SELECT COUNT(*) AS result FROM {t} LIMIT 1 OFFSET 0.5",
    "SELECT COUNT(*) AS result FROM {t} LIMIT 50%",
    "SELECT COUNT(*) AS result FROM {t} LIMIT (1 + 0.5)",
    "SELECT COUNT(*) AS result FROM {t} LIMIT -1",
    "SELECT COUNT(*) AS result FROM {t} ORDER BY 2",
    "SELECT COUNT(*) AS result FROM {t} ORDER BY {x}",
    "SELECT COUNT(*) AS result FROM {t} ORDER BY result NULLS FIRST",
    "SELECT COUNT(*) AS result FROM {t} GROUP BY ALL, {x}",
    "SELECT COUNT(*) AS result FROM {t} GROUP BY 1",
    "SELECT COUNT(*) AS result FROM {t} GROUP BY {x} + RANDOM()",
    "SELECT COUNT(*) AS result FROM {t} GROUP BY ROLLUP ({x})",
    "SELECT COUNT(*) AS result FROM {t} GROUP BY GROUPING SETS (({x}), ())",
    "SELECT {x}, COUNT(*) AS result FROM {t}",
    "SELECT * FROM {t}",
    "SELECT {x} FROM {t}",
    "SELECT DISTINCT ON (1) COUNT(*) AS result FROM {t}",
    "SELECT COUNT(*) AS result, COUNT(*) AS RESULT FROM {t}",
    "SELECT COUNT(*) AS result FROM {t}; SELECT COUNT(*) AS result FROM {t}",
    "SELECT COUNT(*) AS result FROM {t}; DROP TABLE {t}",
    "SELECT COUNT(*) AS result INTO q FROM {t}",
    "SELECT 1",
    "SELECT",
    "VALUES (1)",
    "DROP TABLE {t}",
    "CREATE TABLE q AS SELECT * FROM {t}",
    "INSERT INTO {t} VALUES (1)",
    "UPDATE {t} SET {x} = 1",
    "DELETE FROM {t}",
    "ATTACH 'file.db'",
    "COPY {t} TO 'file.csv'",
    "PRAGMA database_list",
    "SET threads = 1",
    "EXPLAIN SELECT COUNT(*) FROM {t}",
    "DESCRIBE {t}",
    "SHOW TABLES",
    "CALL pragma_version()",
    "INSTALL httpfs",
    "PIVOT {t} ON {x} USING COUNT(*)",
    "SUMMARIZE {t}",
    "FROM {t}",
]
"""What is never answered: ``{t}`` is a table, ``{x}`` a column of it, a numeric one if there is any."""

INSERTED = (
    "( ) [ ] { } , ; . * + - / % = < > <> != == := :: : ? $ @ # & | ^ ~ ! \\ ' \" ` -- /* */ "
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT DISTINCT UNION ALL EXISTS CASE WHEN THEN ELSE "
    "END OVER PARTITION WITHIN LATERAL JOIN LEFT ON USING NATURAL VALUES PIVOT WITH RECURSIVE "
    "INTO OFFSET FETCH QUALIFY CAST AS INT DATE TIMESTAMP INTERVAL ARRAY STRUCT MAP NULL TRUE "
    "FALSE DEFAULT IS NOT AND OR IN LIKE BETWEEN ESCAPE COLLATE EXTRACT TRIM GROUPING CUBE "
    "COUNT SUM AVG MEDIAN QUANTILE STDDEV VARIANCE EXP LN SQRT FILTER COUNT(*) SUM(1) MIN(i) "
    "i r c k d t s p o person item n sum age :p 1e5 -1 0 1 2.5 0x1F 1_000 1e99999 '' '''' 'a' "
    "E'x' N'x' $$x$$ {{ }} {% %} \ufeff é ☃ 😀 \u202e ß İ ﬀ"
).split(" ")
CHARACTERS = " '\"();,.*-+/<>=!%:\x00\n\t\\`$?#@0a_é☃😀\ud800\u200b\u2028\ufeff"


def tokens(text: str) -> list[str]:
    """Split a text at blanks and signs; the parts add up to it."""
    found: list[str] = []
    word = ""
    for character in text:
        if character.isalnum() or character == "_":
            word += character
            continue
        if word:
            found.append(word)
            word = ""
        found.append(character)
    return [*found, word] if word else found


CHANGES = ("deleted", "inserted", "replaced", "exchanged", "doubled", "cut off", "copied")
CLAUSES = re.compile(r"\b(?:SELECT|FROM|WHERE|GROUP|HAVING|ORDER|LIMIT)\b", re.IGNORECASE)


def clause(text: str) -> str:
    """Return the clause in which a text ends."""
    found = CLAUSES.findall(text)
    return str(found[-1]).upper() if found else ""


def mutated(rng: random.Random, text: str) -> Statement:
    """Change a text in some places, by characters or by tokens."""
    by_character = rng.random() < 0.35
    parts: list[str] = list(text) if by_character else tokens(text)
    changes = rng.choice((1, 1, 1, 2, 3, 8))
    marks: list[tuple[str, ...]] = []
    unit = "character" if by_character else "word"
    for _ in range(changes):
        place = rng.randrange(len(parts)) if parts else 0
        change = rng.randrange(7)
        new = rng.choice(CHARACTERS) if by_character else f" {rng.choice(INSERTED)} "
        here, what = clause("".join(parts[:place])), CHANGES[change]
        # of several changes the statement is refused for one, whatever the others are
        marks.append((what, unit, here if changes == 1 else "among others"))
        if change in (1, 2) and changes == 1:
            marks.append((new, here))
        if change == 0:
            del parts[place : place + 1]
        elif change == 1:
            parts.insert(place, new)
        elif change == 2:
            parts[place : place + 1] = [new]
        elif change == 3 and parts:
            other = rng.randrange(len(parts))
            parts[place], parts[other] = parts[other], parts[place]
        elif change == 4:
            parts[place:place] = parts[place : place + rng.choice((1, 2, 5))]
        elif change == 5 and rng.random() < 0.3:
            del parts[place:]
        elif change == 6 and parts:
            other = rng.randrange(len(parts))
            parts[place:place] = parts[other : other + 4]
    return Statement("mutated", "".join(parts), marks=marks)


def excessive(rng: random.Random, text: str, name: str) -> Statement:
    """Return a statement that goes far in one way: depth, length, or the size of numbers."""
    many = rng.choice((5, 19, 21, 100, 1_000, 5_000))
    nested = "CASE WHEN k IS NULL THEN 1 ELSE "
    forms = (
        f"SELECT SUM({'(' * many}{name}{')' * many}) AS n FROM t",
        f"SELECT COUNT(*) AS n FROM t WHERE {'NOT ' * many}{name} > 1",
        f"SELECT COUNT(*) AS n FROM t WHERE {name} IN ({', '.join(map(str, range(many)))})",
        f"SELECT COUNT(*) AS n FROM t WHERE {f'{name} > 1 OR ' * many}{name} < 0",
        f"SELECT SUM({f'{name} + ' * many}1) AS n FROM t",
        f"SELECT SUM({'- ' * many}{name}) AS n FROM t",
        f"SELECT {'COUNT(*) + ' * many}1 AS n FROM t",
        f"SELECT {'EXP(' * many}COUNT(*){')' * many} AS n FROM t",
        f"SELECT SUM({nested * many}{name}{' END' * many}) AS n FROM t",
        f"SELECT COUNT(*) AS {'x' * many} FROM t",
        f"SELECT COUNT(*) AS n FROM {'t' * many}",
        f"SELECT COUNT(*) AS n FROM t WHERE {'x' * many} = 1",
        f"SELECT COUNT(*) AS n FROM t WHERE {name} < {'9' * many}",
        f"SELECT COUNT(*) AS n FROM t WHERE {name} < 0.{'1' * many}",
        f"SELECT COUNT(*) AS n FROM t WHERE {name} < 1e{many}",
        f"SELECT COUNT(*) AS n FROM t WHERE {name} < -1e-{many}",
        f"SELECT SUM({name} * 1e{many}) AS n FROM t",
        f"SELECT SUM({' * '.join([name] * min(many, 100))}) AS n FROM t",
        f"SELECT COUNT(*) AS n FROM t LIMIT {'9' * many}",
        f"SELECT COUNT(*) AS n FROM t WHERE c = '{'x' * many}'",
        f"SELECT COUNT(*) AS n FROM t{' ' * many}",
        f"SELECT {', '.join(f'COUNT(*) AS n{i}' for i in range(min(many, 60)))} FROM t",
        text + ";" * many,
        text * min(many, 100),
        "(" * many + text + ")" * many,
    )
    form = rng.randrange(len(forms))
    return Statement("excessive", forms[form], marks=[(f"form {form}", f"{many} times")])


def garbage(rng: random.Random) -> Statement:
    """Return random characters, or random words."""
    form = rng.randrange(3)
    if form == 2:
        start = rng.choice(
            ("", "SELECT ", "SELECT COUNT(*) FROM t ", "SELECT COUNT(*) FROM t WHERE ")
        )
        words = [rng.choice(INSERTED) for _ in range(rng.randrange(20))]
        marks = [(start, word) for word in words]
        return Statement("garbage", start + " ".join(words), marks=marks)
    most, end = ((0x250, 60), (0x110000, 30))[form]
    letters = [chr(rng.randrange(1 - form, most)) for _ in range(rng.randrange(end))]
    marks = [("a letter of", hex(ord(letter) // 64 * 64 % 2**12)) for letter in letters]
    return Statement("garbage", "".join(letters), marks=marks)


BLOCK = 64
"""So many statements in a row are asked of the same tables."""


def world_of(number: int) -> World:
    """Return the tables that the statement of a number is about."""
    return WORLDS[number // BLOCK % len(WORLDS)]


def rows_of(seed: int, number: int, twin: int = 0) -> dict[str, pa.Table]:
    """Return the rows of these tables; ``twin`` makes others of the same types."""
    generator = np.random.default_rng([seed, number // BLOCK, twin])
    return world_of(number).make(generator)


def statement(seed: int, number: int) -> Statement:
    """Return the statement of a number."""
    rng = random.Random(seed << 64 | number)  # noqa: S311
    writer = Writer(rng, world_of(number))
    share = rng.random()
    if share < 0.36:
        return writer.statement()
    if share < 0.51:
        name = rng.choice(tuple(writer.world.declared))
        columns = writer.world.declared[name].schema
        numeric = [column for column, kind in columns.items() if kind.numeric]
        form = rng.choice(REFUSED)
        text = form.format(t=name, x=rng.choice(numeric or list(columns)))
        case = "as it is" if rng.random() < 0.7 else "lower case"
        marks = [(form, name), (form, case)]
        return Statement("refused", text if case == "as it is" else text.lower(), marks=marks)
    if share < 0.92:
        return mutated(rng, writer.statement().text)
    if share < 0.93:
        name = writer.name(rng.choice(writer.numbers))
        return excessive(rng, writer.statement().text, name)
    return garbage(rng)
