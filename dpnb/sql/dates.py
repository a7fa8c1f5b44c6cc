"""Moves and differences of dates in the spelling of other systems, written in ours.

Weeks, which begin on another day elsewhere, stay what they are and are refused.
"""

from __future__ import annotations

from sqlglot import expressions as exp

from dpnb.sql.functions import UNITS
from dpnb.sql.source import Node

_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY")


def date_function(name: str, parts: list[Node]) -> Node | None:
    """Return what a function that sqlglot does not know is written as here; None for others.

    Examples
    --------
    >>> from sqlglot import parse_one
    >>> for text in ("DATEADD(month, -3, '2024-06-01')", "DATEPART(month, day)"):
    ...     call = parse_one(text, read="duckdb")
    ...     print(date_function(call.name, call.expressions).sql(dialect="duckdb"))
    (CAST('2024-06-01' AS DATE) - INTERVAL '3' MONTH)
    DATE_PART('MONTH', day)
    """
    if name == "DATEADD" and len(parts) == 3:
        unit, number = _unit(parts[0]), parts[1]
        return None if unit is None else _moved(parts[2], number, unit, forward=True)
    if name in ("DATE_SUB", "DATE_ADD") and len(parts) == 2:
        forward = name == "DATE_ADD"
        if isinstance(parts[1], exp.Interval):
            operator = exp.Add if forward else exp.Sub
            return exp.Paren(this=operator(this=_date(parts[0]), expression=parts[1]))
        return _moved(parts[0], parts[1], "DAY", forward=forward)
    if name == "TO_DATE" and len(parts) == 1:
        return _date(parts[0]) if _is_text(parts[0]) else None
    if name == "DATEPART" and len(parts) == 2 and (unit := _unit(parts[0])):
        return exp.Anonymous(this="DATE_PART", expressions=[exp.Literal.string(unit), parts[1]])
    return None


def turned_difference(node: exp.DateDiff) -> Node | None:
    """Return DATE_DIFF with the unit last as it is written here; None for others."""
    unit, end = _unit(node.this), node.args.get("unit")
    if unit is None or (isinstance(end, exp.Var) and end.name.upper() in UNITS):
        return None
    if isinstance(end, exp.Var):
        end = exp.column(exp.to_identifier(end.name))
    start, part = node.expression, exp.var(unit)
    return exp.DateDiff(this=end, expression=start, unit=part, date_part_boundary=True)


def _unit(node: Node) -> str | None:
    """Return the part of a date that a word or a text names, or None."""
    word = str(node.name).upper() if isinstance(node, exp.Column | exp.Literal) else ""
    return word if word in _UNITS and not getattr(node, "table", "") else None


def _is_text(node: Node) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _date(node: Node) -> Node:
    """Return a date; a text is one."""
    return exp.cast(node, exp.DataType.Type.DATE) if _is_text(node) else node


def _moved(start: Node, number: Node, unit: str, *, forward: bool) -> Node | None:
    """Return a date and a whole number of units before or after it."""
    if isinstance(number, exp.Neg):
        number, forward = number.this, not forward
    if not isinstance(number, exp.Literal) or not str(number.this).isdecimal():
        return None
    step = exp.Interval(this=exp.Literal.string(str(number.this)), unit=exp.var(unit))
    return exp.Paren(this=(exp.Add if forward else exp.Sub)(this=_date(start), expression=step))
