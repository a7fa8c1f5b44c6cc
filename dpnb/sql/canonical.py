"""One spelling for each meaning: merge and sort predicates, then write them as plain data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpnb.codes import read_steps
from dpnb.schema import partition, predicates
from dpnb.schema.joins import own_name
from dpnb.schema.partition import column_of
from dpnb.schema.predicates import plain
from dpnb.schema.schema import Schema
from dpnb.sql.formulas import plain_formula, read_formula
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate, Derived, Key, Query
from dpnb.sql.values import Arithmetic, Call, Case, Column, Mapped, Number, Value


def plain_value(value: Value | None) -> Any:
    """Return the argument of an aggregate as plain data (JSON); a bare column is its name.

    None stands for the rows themselves, and inside CASE for a missing value.
    """
    if value is None or isinstance(value, Column):
        return None if value is None else value.name
    if isinstance(value, Number):
        return {"number": str(value.value)}
    if isinstance(value, Mapped):
        null = value.numbers.null
        return {
            "map": [value.column, value.numbers.plain(str), None if null is None else str(null)]
        }
    if isinstance(value, Arithmetic):
        return {value.operator: [plain_value(value.left), plain_value(value.right)]}
    if isinstance(value, Call):
        return {value.function: [plain_value(part) for part in value.parts]}
    branches = [[plain(condition), plain_value(result)] for condition, result in value.branches]
    return {"case": [*branches, plain_value(value.default)]}


def read_value(data: Any) -> Value | None:
    """Build the argument of an aggregate from the data of :func:`plain_value`."""
    if data is None or isinstance(data, str):
        return None if data is None else Column(data)
    ((word, parts),) = data.items()
    if word == "number":
        return Number(Fraction(parts))
    if word == "map":
        column, pieces, null = parts
        return Mapped(
            column, read_steps(pieces, Fraction, None if null is None else Fraction(null))
        )
    if word == "case":
        *branches, default = parts
        cases = tuple((predicates.read(test), read_value(result)) for test, result in branches)
        return Case(cases, read_value(default))
    operands = tuple(read_value(part) for part in parts)
    known = tuple(part for part in operands if part is not None)
    if len(known) != len(operands):
        raise ValueError("an operand of a number is missing")
    if word in ("ABS", "LEAST", "GREATEST"):
        return Call(word, known)
    left, right = known
    return Arithmetic(word, left, right)


def default_alias(function: str, value: Value | None) -> str:
    """Return the name of an aggregate without an alias: its function and its columns."""
    if isinstance(value, Column):
        return f"{function.lower()}_{own_name(value.name)}"
    return alias_of(function, () if value is None else value.columns)


def alias_of(function: str, columns: Iterable[str]) -> str:
    """Return the name of an aggregate of an expression: its function and its columns."""
    return "_".join([function.lower(), *sorted(map(own_name, columns))])[:60]


def describe(query: Query) -> dict[str, Any]:
    """Return a query as plain data; statements with equal meaning give equal data."""
    described = {
        "table": query.table,
        "keys": [key.partition.plain() for key in query.keys],
        "aggregates": [_plain_aggregate(aggregate) for aggregate in query.aggregates],
        "where": plain(query.where),
    }
    names = [_plain_labels(key) for key in query.keys]
    if any(names):
        described["labels"] = names
    if query.derived:
        described["derived"] = [
            [plain_formula(d.formula), [_plain_aggregate(leaf) for leaf in d.leaves], d.place]
            for d in query.derived
        ]
    return described


def read(described: Mapping[str, Any], schema: Schema) -> Query:
    """Build a query from the data of :func:`describe`, with generated names; its exact inverse.

    ``describe(read(describe(query), query.schema)) == describe(query)``. A description does not
    contain names, HAVING, ORDER BY or LIMIT.
    """
    keys: list[Key] = []
    for data, called in itertools.zip_longest(described["keys"], described.get("labels", ())):
        key = _read_key(data, called, schema)
        same = sum(key.partition.column == other.partition.column for other in keys)
        keys.append(replace(key, alias=f"{key.alias}_{same + 1}") if same else key)
    names = {key.alias.casefold() for key in keys}
    aggregates = tuple(_read_aggregate(data, names) for data in described["aggregates"])
    derived = tuple(
        Derived(
            read_formula(formula),
            _read_leaves(leaves),
            unused("formula", names),
            place,
        )
        for formula, leaves, place in described.get("derived", ())
    )
    where = predicates.read(described["where"])
    return Query(described["table"], tuple(keys), aggregates, where, derived=derived, schema=schema)


def _plain_labels(key: Key) -> list[list[Any]] | None:
    """Return the labels of groups, each with its number, in order; None for a column's own."""
    own = key.partition
    if own.declared and repr(key.labels) == repr(partition.labels(own.kind)):
        return None
    return [list(pair) for pair in zip(key.labels, key.order, strict=True)]


def _read_key(data: Any, called: Sequence[Sequence[Any]] | None, schema: Schema) -> Key:
    column = column_of(data)
    if called is None:
        return Key.of(column, column, schema)
    names, order = zip(*called, strict=True)
    return Key(partition.read(data, schema), column, names, order, column)


def _plain_aggregate(aggregate: Aggregate) -> list[Any]:
    return [aggregate.function, plain_value(aggregate.value), plain(aggregate.filter)]


def _read_aggregate(data: Sequence[Any], names: set[str]) -> Aggregate:
    function = Function(data[0])
    if function is Function.FORMULA:
        raise ValueError("a formula is not an aggregate")
    value, condition = read_value(data[1]), predicates.read(data[2])
    alias = unused(default_alias(function, value), names)
    return Aggregate(function, value, condition, alias)


def _read_leaves(data: Sequence[Any]) -> tuple[Aggregate, ...]:
    names: set[str] = set()
    return tuple(_read_aggregate(leaf, names) for leaf in data)


def unused(alias: str, names: set[str]) -> str:
    """Return a variant of ``alias`` whose result columns are not in ``names``; add them there."""
    endings = ("", "_low", "_high")
    for number in itertools.count(1):
        name = alias if number == 1 else f"{alias}_{number}"
        results = {f"{name}{ending}".casefold() for ending in endings}
        if not results & names:
            names |= results
            return name
    raise AssertionError
