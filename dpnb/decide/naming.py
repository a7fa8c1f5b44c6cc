"""Aggregates and conditions as shown: under the statement's alias, or else in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from dpnb.schema.schema import Schema
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate
from dpnb.views.text import predicate_text, value_text

if TYPE_CHECKING:
    from dpnb.decide.conditions import Atom

MOST_LETTERS = 72
"""Longest aggregate shown in SQL; a longer one is cut."""


def aggregate_text(aggregate: Aggregate, schema: Schema) -> str:
    """Return an aggregate in SQL."""
    inside = "*" if aggregate.value is None else value_text(aggregate.value, schema)
    match aggregate.function:
        case Function.COUNT | Function.SUM | Function.AVG | Function.CELLS:
            text = f"{aggregate.function}({inside})"
        case Function.DISTINCT:
            text = f"COUNT(DISTINCT {inside})"
        case Function.UNITS:
            text = f"COUNT(DISTINCT {'id' if schema.unit is None else schema.unit.column})"
        case _:
            assert_never(aggregate.function)
    where = predicate_text(aggregate.filter, schema)
    return text + (f" FILTER (WHERE {where})" if where else "")


def name_of(aggregate: Aggregate, schema: Schema) -> str:
    """Return an aggregate's display name; a name that is cut ends with its alias."""
    if aggregate.named:
        return aggregate.alias
    text = aggregate_text(aggregate, schema)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}… ({aggregate.alias})"


def atom_text(atom: Atom, schema: Schema) -> str:
    """Return a condition as shown, such as ``flights > 200``."""
    limit = atom.threshold
    limit_text = f":{limit}" if isinstance(limit, str) else f"{float(limit):,.10g}"
    return f"{name_of(atom.aggregate, schema)} {atom.operator} {limit_text}"


def atom_sql(atom: Atom, schema: Schema) -> str:
    """Return a condition as written in HAVING, without thousands separators."""
    limit = atom.threshold
    limit_text = f":{limit}" if isinstance(limit, str) else f"{float(limit):.10g}"
    return f"{name_of(atom.aggregate, schema)} {atom.operator} {limit_text}"
