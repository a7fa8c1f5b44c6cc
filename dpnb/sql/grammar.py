"""What expressions may contain: the nodes, types and functions of the examples that docs/sql.md lists."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import expressions as exp

from dpnb.sql.functions import UNITS, WRITTEN
from dpnb.sql.source import Node, others

NUMBER = 41
"""Most letters of a number or a time that is written as a text."""


@lru_cache(maxsize=1)
def _grammar() -> tuple[dict[type, set[str]], set[Any], set[str]]:
    """Return the classes of nodes with their arguments, types of CAST, and unknown functions."""
    classes: dict[type, set[str]] = {}
    types: set[Any] = set()
    names: set[str] = set()
    for examples in WRITTEN.values():
        for example in examples:
            for node in sqlglot.parse_one(example, read="duckdb").walk():
                classes.setdefault(type(node), set()).update(others(node.args))
                if isinstance(node, exp.DataType):
                    types.add(node.this)
                elif isinstance(node, exp.Anonymous):
                    names.add(node.name.upper())
    return classes, types, names


def is_written(node: Node) -> bool:
    """Return whether a node, apart from what it contains, is one that expressions may contain."""
    classes, types, names = _grammar()
    if type(node) not in classes or others(node.args, *classes[type(node)]):
        return False
    if isinstance(node, exp.DataType):
        return node.this in types
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in names
    if isinstance(node, exp.Var):
        return node.name.upper() in UNITS
    return not isinstance(node, exp.Is) or isinstance(node.expression, exp.Null | exp.Boolean)


def longest(node: Node, column: int) -> int:
    """Return an upper bound on the letters of any text that an expression makes."""
    if isinstance(node, exp.Column):
        return column
    if isinstance(node, exp.Literal):
        return len(str(node.this))
    parts = [longest(part, column) for part in node.iter_expressions()]
    if isinstance(node, exp.Replace):
        return parts[0] * max(1, parts[-1])
    if isinstance(node, exp.RegexpReplace):
        # each letter, and the end, may match; a part of the match is named by a backslash
        text, new = parts[0], node.args["replacement"]
        named = str(new.this).count("\\") if isinstance(new, exp.Literal) else parts[2]
        return (text + 1) * (1 + parts[2] + named * text)
    if isinstance(node, exp.DPipe | exp.Concat):
        return sum(parts)
    # a part of a format is written in at most 32 letters
    return max([NUMBER, *parts]) * (32 if isinstance(node, exp.TimeToStr) else 1)
