"""One spelling for each meaning: predicates are merged and sorted, then written as plain data."""

from __future__ import annotations

from typing import Any

from dpnb.schema import Schema
from dpnb.sql.query import EVERY, NONE, And, Predicate, Query, Within


def simplify(predicate: Predicate, schema: Schema) -> Predicate:
    """Flatten, merge atoms on one column, drop what is always or never true, sort the parts."""
    if isinstance(predicate, Within):
        return _atom(predicate, schema)
    conjunction = isinstance(predicate, And)
    neutral, absorbing = (EVERY, NONE) if conjunction else (NONE, EVERY)
    atoms: dict[str, Within] = {}
    others: list[Predicate] = []
    stack = [simplify(part, schema) for part in reversed(predicate.parts)]
    while stack:
        part = stack.pop()
        if part == absorbing:
            return absorbing
        if part == neutral:
            continue
        if type(part) is type(predicate):
            stack.extend(reversed(part.parts))
        elif isinstance(part, Within):
            seen = atoms.get(part.column)
            atoms[part.column] = part if seen is None else _merge(seen, part, schema, conjunction)
        else:
            others.append(part)
    merged = [_atom(atom, schema) for atom in atoms.values()]
    if absorbing in merged:
        return absorbing
    parts = {*(part for part in merged if part != neutral), *others}
    ordered = tuple(sorted(parts, key=str))
    if len(ordered) == 1:
        return ordered[0]
    return type(predicate)(ordered)


def _atom(atom: Within, schema: Schema) -> Predicate:
    scale = schema[atom.column].scale
    intervals = scale.intersection(atom.intervals, ((scale.low, scale.high),))
    if atom.null and intervals == ((scale.low, scale.high),):
        return EVERY
    if not atom.null and not intervals:
        return NONE
    return Within(atom.column, intervals, atom.null)


def _merge(left: Within, right: Within, schema: Schema, conjunction: bool) -> Within:
    scale = schema[left.column].scale
    if conjunction:
        both = scale.intersection(left.intervals, right.intervals)
        return Within(left.column, both, left.null and right.null)
    either = scale.union([*left.intervals, *right.intervals])
    return Within(left.column, either, left.null or right.null)


def plain(predicate: Predicate) -> Any:
    """Return a predicate as plain data (JSON): ``[column, intervals, null]`` or ``{op: parts}``."""
    if isinstance(predicate, Within):
        return [predicate.column, [list(pair) for pair in predicate.intervals], predicate.null]
    word = "and" if isinstance(predicate, And) else "or"
    return {word: [plain(part) for part in predicate.parts]}


def describe(query: Query) -> dict[str, Any]:
    """Return a query as plain data: equal for statements of equal meaning."""
    return {
        "table": query.table,
        "keys": [key.column for key in query.keys],
        "aggregates": [
            [aggregate.function, aggregate.column, plain(aggregate.filter)]
            for aggregate in query.aggregates
        ],
        "where": plain(query.where),
    }
