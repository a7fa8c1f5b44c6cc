"""Functions of other systems, as DuckDB writes them.

``SAFE_`` functions of BigQuery are NULL where others raise an error. What could overflow is refused
here before it is computed, so they are the plain operators; a division by 0 is NULL in both.
"""

from __future__ import annotations

from sqlglot import expressions as exp

from dpnb.sql.source import Node

_OPERATORS = {exp.SafeAdd: exp.Add, exp.SafeSubtract: exp.Sub, exp.SafeMultiply: exp.Mul}


def synonym(node: Node) -> Node | None:
    """Return what a function of another system is written as here; None for other nodes.

    Examples
    --------
    >>> import sqlglot
    >>> for text in ("SAFE_DIVIDE(x, y)", "NVL2(x, 1, 0)", "ZEROIFNULL(x)"):
    ...     print(synonym(sqlglot.parse_one(text, read="duckdb")).sql(dialect="duckdb"))
    (x / NULLIF(y, 0))
    CASE WHEN NOT x IS NULL THEN 1 ELSE 0 END
    COALESCE(x, 0)
    """
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        return exp.Paren(this=operator(this=_part(node.this), expression=_part(node.expression)))
    if isinstance(node, exp.SafeNegate):
        return exp.Paren(this=exp.Neg(this=_part(node.this)))
    if isinstance(node, exp.SafeDivide):
        divisor = exp.Nullif(this=node.expression, expression=exp.Literal.number(0))
        return exp.Paren(this=exp.Div(this=_part(node.this), expression=divisor))
    if isinstance(node, exp.Nvl2):
        present = exp.Not(this=exp.Is(this=_part(node.this), expression=exp.Null()))
        branch = exp.If(this=present, true=node.args["true"])
        return exp.Case(ifs=[branch], default=node.args.get("false"))
    if isinstance(node, exp.UnixDate):
        start = exp.cast(exp.Literal.string("1970-01-01"), exp.DataType.Type.DATE)
        return exp.DateDiff(
            this=node.this, expression=start, unit=exp.var("DAY"), date_part_boundary=True
        )
    if isinstance(node, exp.DataType) and str(node.args.get("kind") or "").upper() == "FLOAT64":
        return exp.DataType(this=exp.DataType.Type.DOUBLE, nested=False)
    if isinstance(node, exp.Anonymous):
        return _named(str(node.this).upper(), node.expressions)
    return None


def _named(name: str, parts: list[Node]) -> Node | None:
    """Return what a function that sqlglot does not know is written as here."""
    if name == "ZEROIFNULL" and len(parts) == 1:
        return exp.Coalesce(this=parts[0], expressions=[exp.Literal.number(0)])
    if name == "SQUARE" and len(parts) == 1:
        return exp.Paren(this=exp.Mul(this=_part(parts[0]), expression=_part(parts[0].copy())))
    if name == "REGEXP_CONTAINS" and len(parts) == 2:
        return exp.RegexpLike(this=parts[0], expression=parts[1])
    return None


def _part(node: Node) -> Node:
    """Return a node as a part of an operator, in brackets unless it needs none."""
    if isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Func):
        return node
    return exp.Paren(this=node)
