"""Aggregates that have no private answer, and what to write instead.

One row decides the least value of a column, and stands in a list of its values. What people want to
know is often a quantile, a number of rows, or the rows of each value: the messages write that out,
so that it runs as it stands.
"""

from __future__ import annotations

from sqlglot import expressions as exp

from dpnb.schema.partition import declared
from dpnb.sql.conditions import Conditions, example
from dpnb.sql.query import MAX_CELLS
from dpnb.sql.source import Node

_LONGEST = 200
"""Most letters of a statement in a message."""
_SHOWN = ("having", "qualify", "windows", "order", "limit", "offset", "distinct")
"""Clauses on what a statement shows."""
_LISTS = (exp.GroupConcat, exp.ArrayAgg)
_ONE_ROW = (
    exp.AnyValue, exp.First, exp.Last, exp.ArgMax, exp.ArgMin, exp.FirstValue, exp.LastValue,
)  # fmt: skip
_OF_TWO: dict[type, str] = {
    exp.CovarPop: "AVG({0} * {1}) - AVG({0}) * AVG({1})",
    exp.CovarSamp: "AVG({0} * {1}) - AVG({0}) * AVG({1})",
    exp.Corr: "(AVG({0} * {1}) - AVG({0}) * AVG({1})) / (STDDEV_POP({0}) * STDDEV_POP({1}))",
    exp.RegrSlope: "(AVG({0} * {1}) - AVG({0}) * AVG({1})) / VAR_POP({1})",
}  # fmt: skip
"""Aggregates of two numbers, as formulas."""
_BY_VALUE = ("MODE", "HISTOGRAM", "ENTROPY", "APPROX_TOP_K", "APPROX_TOP_COUNT", "ARBITRARY")


def check_answer(conditions: Conditions, node: Node) -> None:
    """Refuse an aggregate that has no private answer, and say what to write instead."""
    name = conditions.written(node).partition("(")[0].strip().upper()
    inner = node
    while isinstance(inner, exp.IgnoreNulls | exp.Filter):
        inner = inner.this
    argument = _argument(inner)
    if argument is None:
        return
    text = conditions.written(argument)
    if isinstance(inner, exp.Min | exp.Max):
        conditions.refuse(
            "MIN and MAX cannot be answered: one row decides them",
            _near_end(conditions, inner, argument, text),
            node,
        )
    if isinstance(inner, exp.LogicalAnd | exp.LogicalOr):
        every = isinstance(inner, exp.LogicalAnd)
        conditions.refuse(
            f"{'BOOL_AND' if every else 'BOOL_OR'} cannot be answered: one row decides it",
            f"Count the rows: COUNT_IF({f'NOT ({text})' if every else text}).",
            node,
        )
    if isinstance(inner, _LISTS):
        conditions.refuse(
            f"{name} would list the values of single rows",
            _by_value(conditions, node, argument),
            node,
        )
    if isinstance(inner, _ONE_ROW):
        conditions.refuse(
            f"{name} would show the value of one row", _by_value(conditions, node, argument), node
        )
    if type(inner) in _OF_TWO and inner.expression is not None:
        formula = _OF_TWO[type(inner)].format(text, conditions.written(inner.expression))
        conditions.refuse(f"{name} is not supported", f"Write {formula}.", node)
    if name in _BY_VALUE:
        conditions.refuse(f"{name} is not supported", _by_value(conditions, node, argument), node)


def _argument(node: Node) -> Node | None:
    """Return the first argument of an aggregate, without DISTINCT and ORDER BY."""
    argument = node.this
    if isinstance(node, exp.Anonymous):
        argument = node.expressions[0] if node.expressions else None
    while isinstance(argument, exp.Distinct | exp.Order):
        argument = argument.expressions[0] if isinstance(argument, exp.Distinct) else argument.this
    return argument if isinstance(argument, exp.Expression) else None


def _near_end(conditions: Conditions, node: Node, argument: Node, text: str) -> str:
    """Return what tells of the least or the greatest values."""
    low = isinstance(node, exp.Min)
    if isinstance(argument, exp.Column):
        name = conditions.column(argument)
        kind = conditions.schema[name]
        if kind.numeric and 0 < declared(name, conditions.schema).size <= MAX_CELLS:
            return f"Use a quantile: QUANTILE({text}, {'0.01' if low else '0.99'})."
        if kind.numeric:
            return f"Count the rows: COUNT_IF({text} {'<=' if low else '>='} {example(kind)})."
    return _by_value(conditions, node, argument)


def _by_value(conditions: Conditions, node: Node, argument: Node) -> str:
    """Return how to count the rows of each value."""
    select = node.find_ancestor(exp.Select)
    if select is None or not conditions.is_expression(argument):
        return "Count the rows: COUNT(*)."
    name = conditions.column(next(argument.find_all(exp.Column)))
    if not 0 < declared(name, conditions.schema).size <= MAX_CELLS:
        numeric = conditions.schema[name].numeric and isinstance(argument, exp.Column)
        return f"Use an average: AVG({argument.name})." if numeric else "Count the rows: COUNT(*)."
    keys = [] if select.args.get("group") is None else select.args["group"].expressions
    text = counted(select, *keys, argument, most=isinstance(node, exp.Mode))
    if len(text) > _LONGEST:
        return f"Count the rows of each: COUNT(*), with GROUP BY {conditions.written(argument)}."
    return f"Ask {text}."


def counted(select: Node, *keys: Node, most: bool = False) -> str:
    """Return the statement that counts the rows of a statement's groups, or of the largest."""
    result = select.copy()
    for clause in _SHOWN:
        result.set(clause, None)
    count = exp.Alias(this=exp.Count(this=exp.Star()), alias=exp.to_identifier("n"))
    result.set("expressions", [*(key.copy() for key in keys), count])
    result.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    if most and len(keys) == 1:
        result = result.order_by("n DESC").limit(1)
    return str(result.sql(dialect="duckdb"))
