"""Conditions that hold together, and the condition that some others hold."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType

from sqlglot import expressions as exp

from dpnb.sql.source import Node, bare


def conjuncts(node: Node) -> list[Node]:
    """Return conditions that all hold where one does; what all parts of OR ask for comes first.

    Examples
    --------
    >>> import sqlglot
    >>> tree = sqlglot.parse_one("(a = b AND c > 1) OR (a = b AND d > 2)")
    >>> [test.sql() for test in conjuncts(tree)]
    ['a = b', '(c > 1) OR (d > 2)']
    """
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [test for part in node.flatten(unnest=False) for test in conjuncts(part)]
    if not isinstance(node, exp.Or):
        return [node]
    parts = [conjuncts(part) for part in node.flatten(unnest=False)]
    shared = [test for test in parts[0] if all(test in part for part in parts[1:])]
    if not shared:
        return [node]
    rests = [conjunction([test for test in part if test not in shared]) for part in parts]
    if None in rests:
        return shared
    result: Node = None
    for rest in rests:
        rest = exp.Paren(this=rest)
        result = rest if result is None else exp.Or(this=result, expression=rest)
    return [*shared, result]


def alternative(node: Node) -> tuple[Node, Node] | None:
    """Return the condition and the value of a CASE that is NULL otherwise; None for others.

    Examples
    --------
    >>> import sqlglot
    >>> [part.sql() for part in alternative(sqlglot.parse_one("CASE WHEN y > 3 THEN x END"))]
    ['y > 3', 'x']
    """
    inner = bare(node)
    if not isinstance(inner, exp.Case | exp.If):
        return None
    branches, last = branches_of(inner)
    if len(branches) != 1 or not isinstance(bare(last), exp.Null | NoneType):
        return None
    ((test, value),) = branches
    return test, bare(value)


def branches_of(node: Node) -> tuple[list[tuple[Node, Node]], Node | None]:
    """Return the conditions of a CASE or IF, each with its result, and the result of other rows."""
    if isinstance(node, exp.If):
        return [(node.this, node.args["true"])], node.args.get("false")
    tests = (branch.this for branch in node.args["ifs"])
    if node.this is not None:
        tests = (exp.EQ(this=node.this.copy(), expression=test.copy()) for test in tests)
    results = (branch.args["true"] for branch in node.args["ifs"])
    return list(zip(tests, results, strict=True)), node.args.get("default")


def conjunction(tests: Sequence[Node]) -> Node | None:
    """Return the condition that some others hold; None without any."""
    result: Node = None
    for test in tests:
        part = exp.Paren(this=test) if isinstance(test, exp.Or) and len(tests) > 1 else test
        result = part if result is None else exp.And(this=result, expression=part)
    return result
