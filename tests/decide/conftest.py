"""Conditions from SQL, and from letters for conditions that have nothing to do with each other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from dpnb import Category, Integer, Real, Schema, Table
from dpnb.decide.conditions import Atom, Condition, Node, Tree, condition_of, read_condition
from dpnb.schema.predicates import EVERY
from dpnb.sql.functions import Function
from dpnb.sql.parser import parse
from dpnb.sql.query import Aggregate
from dpnb.sql.values import Column
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.noise import DiscreteNoise
from tests.kit.one_database import one_database  # noqa: F401

SCHEMA = Schema(
    {
        "k": Category(["a", "b", "c"]),
        "x": Real(-30, 120),
        "y": Real(0, 100),
        "z": Real(-5, 0),
        "id": Integer(0, 1000),
    }
)
ROWS = pa.table({"k": ["a"], "x": [1.0], "y": [1.0], "z": [-1.0], "id": [1]})
TABLES = {"t": Table("t", ROWS, SCHEMA)}


@pytest.fixture(scope="session")
def read() -> Callable[..., Condition]:
    """What a HAVING over the columns k, x, y, z and id means."""

    def having(text: str, select: str = "k", thresholds: Sequence[str] = ()) -> Condition:
        query = parse(
            f"SELECT {select} FROM t GROUP BY k HAVING {text}",
            TABLES,
            deciding=True,
            thresholds=thresholds,
        )
        return read_condition(query.having, SCHEMA)

    return having


@pytest.fixture(scope="session")
def unrelated() -> Callable[[int], list[Atom]]:
    """Conditions on so many different aggregates, each above 0."""

    def made(count: int) -> list[Atom]:
        aggregates = [
            Aggregate(Function.SUM, Column(f"x{i}"), EVERY, f"s{i}") for i in range(count)
        ]
        return [Atom(aggregate, 1, Fraction(0), True) for aggregate in aggregates]

    return made


@pytest.fixture(scope="session")
def seeded() -> Callable[[int], DiscreteNoise]:
    """A source of repeatable noise."""
    return DiscreteNoise


def tree_of(node: Any) -> Tree:
    """The tree of a Python expression over single letters; a is condition 0."""
    if isinstance(node, ast.Name):
        return ord(node.id) - ord("a")
    operator = "AND" if isinstance(node.op, ast.And) else "OR"
    return Node(operator, tuple(tree_of(part) for part in node.values))


@pytest.fixture(scope="session")
def formula(unrelated: Callable[[int], list[Atom]]) -> Callable[[str], Condition]:
    """The condition of a text such as ``a or (b and c)``, over unrelated conditions."""

    def made(text: str) -> Condition:
        names = {one for one in text.replace("and", "").replace("or", "") if one.isalpha()}
        tree = tree_of(ast.parse(text, mode="eval").body)
        return condition_of(unrelated(len(names)), tree)

    return made
