"""One spelling for functions, CASE and aggregates, before names are known.

``SAFE_`` functions of BigQuery are NULL where others raise an error. What could overflow is refused
here before it is computed, so they are the plain operators; a division by 0 is NULL in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import expressions as exp

from dpnb.sql.constants import WHOLE, is_constant
from dpnb.sql.dates import date_function, turned_difference
from dpnb.sql.quantiles import element
from dpnb.sql.source import MAX_NODES, Node, Source, Span, bare, others
from dpnb.sql.times import in_duckdb

_CONDITIONS = (exp.Predicate, exp.Connector, exp.Not)
"""Nodes that are true or false, or NULL."""
_AGGREGATES: dict[str, type] = {
    "MEAN": exp.Avg,
    "VAR": exp.Variance, "VARP": exp.VariancePop, "VARIANCE_POP": exp.VariancePop,
    "STD": exp.Stddev, "STDEV": exp.Stddev, "STDEVP": exp.StddevPop, "STD_POP": exp.StddevPop,
}  # fmt: skip
"""Names of aggregates that DuckDB or sqlglot does not know."""
_QUANTILES = ("APPROX_PERCENTILE", "PERCENTILE_APPROX", "PERCENTILE")
_OPERATORS = {exp.SafeAdd: exp.Add, exp.SafeSubtract: exp.Sub, exp.SafeMultiply: exp.Mul}


def spelled(source: Source, select: Node) -> Node:
    """Write functions and CASE in one spelling, before names are known; changes the tree."""
    # parts before what they are parts of
    for node in reversed([*select.walk()]):
        if isinstance(node, exp.Select):
            _group_all(node)
        new = _spelled(source, node)
        if new is not None:
            node.replace(marked(new, source.span(node)))
    return select


def _group_all(select: exp.Select) -> None:
    """Write GROUP BY ALL as what of the SELECT list is neither an aggregate nor a constant."""
    group = select.args.get("group")
    if group is not None and group.args.get("all") and not others(group.args, "all"):
        keys = [unaliased(item).copy() for item in select.expressions if is_key(item)]
        select.set("group", exp.Group(expressions=keys) if keys else None)


def _spelled(source: Source, node: Node) -> Node | None:
    """Return what a node is written as, or None if it stays."""
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        kind = _AGGREGATES.get(str(node.this).upper())
        if kind is not None:
            return kind(this=node.expressions[0])
    if isinstance(node, exp.Bracket) and isinstance(node.this, exp.ApproxQuantiles):
        return element(source, node)
    if isinstance(node, exp.ApproxDistinct) and not others(node.args, "this"):
        return exp.Count(this=exp.Distinct(expressions=[node.this]))
    if isinstance(node, exp.If) and node.arg_key != "ifs":
        branch = exp.If(this=node.this, true=node.args.get("true"))
        return exp.Case(ifs=[branch], default=node.args.get("false"))
    if isinstance(node, exp.Case) and node.this is not None:
        return _compared(source, node)
    if (
        isinstance(node, exp.Cast)
        and node.to.this.name in WHOLE
        and isinstance(bare(node.this), _CONDITIONS)
    ):
        return _indicator(node.this)
    if isinstance(node, exp.Sum | exp.Avg | exp.Count):
        return _aggregate(node, bare(node.this))
    if isinstance(node, exp.Extract) and node.this.name.upper() == "DAYOFWEEK":
        _check_weekday(source, node)
    return synonym(node) or _of_times(source, node)


def _check_weekday(source: Source, node: exp.Extract) -> None:
    """Refuse a day of the week in a statement of GoogleSQL, which counts from 1."""
    if source.clause.word:
        source.refuse(
            "DAYOFWEEK is 1 to 7 in GoogleSQL, and 0 to 6 here",
            f"Write DAYOFWEEK({source.written(node.expression)}) + 1: Sunday is 1.", node,
        )  # fmt: skip


def _of_times(source: Source, node: Node) -> Node | None:
    """Return a function of a time as DuckDB writes it; None for others."""
    # only what cuts times down depends on its name
    cuts = isinstance(node, exp.TimestampTrunc | exp.DatetimeTrunc)
    return in_duckdb(node, source.written(node).partition("(")[0].strip() if cuts else "")


def _compared(source: Source, node: Node) -> Node:
    """Return CASE x WHEN a THEN as CASE WHEN x = a THEN."""
    branches = node.args["ifs"]
    if len(branches) * sum(1 for _ in node.this.walk()) > MAX_NODES:
        source.refuse(f"the statement has more than {MAX_NODES:,} parts", "Make it shorter.", node)
    tests = [
        exp.If(this=exp.EQ(this=node.this.copy(), expression=branch.this), true=branch.args["true"])
        for branch in branches
    ]
    return exp.Case(ifs=tests, default=node.args.get("default"))


def _aggregate(node: Node, argument: Node | None) -> Node | None:
    """Return an aggregate of a condition, or of what is never missing, as it is written."""
    if isinstance(argument, _CONDITIONS):
        return type(node)(**{**node.args, "this": _indicator(node.this)})
    if argument is None:
        nothing = isinstance(node, exp.Count) and not node.expressions
        return count_of_rows() if nothing else None
    if not is_constant(argument) or argument.find(exp.Null, exp.Placeholder) is not None:
        return None
    if isinstance(node, exp.Count):
        return count_of_rows()
    one = exp.Literal.number(1)
    if isinstance(node, exp.Sum) and argument == one:
        listed = isinstance(node.parent, exp.Select)
        return exp.alias_(count_of_rows(), "sum") if listed else count_of_rows()
    return None


def count_of_rows() -> Node:
    """Return COUNT(*)."""
    return exp.Count(this=exp.Star(), big_int=True)


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
    if isinstance(node, exp.DateDiff):
        return turned_difference(node)
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
    if name == "ISNULL" and len(parts) == 2:
        return exp.Coalesce(this=parts[0], expressions=[parts[1]])
    if name == "IFF" and len(parts) == 3:
        return exp.Case(ifs=[exp.If(this=parts[0], true=parts[1])], default=parts[2])
    if name in _QUANTILES and len(parts) == 2:
        return exp.Quantile(this=parts[0], quantile=parts[1])
    return date_function(name, parts)


def _part(node: Node) -> Node:
    """Return a node as a part of an operator, in brackets unless it needs none."""
    if isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Func):
        return node
    return exp.Paren(this=node)


def _indicator(condition: Node) -> Node:
    """Return 1 where a condition is true, 0 where it is false, NULL where it is NULL."""
    inverse = exp.Not(this=exp.Paren(this=condition.copy()))
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    return exp.Case(ifs=[exp.If(this=condition, true=one), exp.If(this=inverse, true=zero)])


def marked(new: Node, span: Span | None) -> Node:
    """Give a node the place of what was written in its stead; its parts keep theirs."""
    if span is not None:
        new.meta.update(start=span[0], end=span[1])
    return new


def unaliased(item: Node) -> Node:
    """Return an entry of the SELECT list without its alias."""
    return bare(item.this if isinstance(item, exp.Alias) else item)


def positioned(source: Source, items: Sequence[Node], node: Node, clause: str) -> Node | None:
    """Return the entry of the SELECT list whose position a node is; None if it is none."""
    inner = bare(node)
    if inner is not node or not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    text = str(inner.this)
    if not text.isdecimal() or not 1 <= int(text) <= len(items):
        source.refuse(
            f"{clause} {text} is not a position in the SELECT list",
            f"It has {len(items)} columns: write 1 to {len(items)}."
            if len(items) > 1
            else "It has 1 column: write 1.",
            node,
        )
    return items[int(text) - 1]


def is_key(item: Node) -> bool:
    """Return whether an entry of the SELECT list is neither an aggregate nor a constant."""
    value = unaliased(item)
    aggregates = value.find(exp.AggFunc, exp.Window, exp.Star, exp.Query)
    return aggregates is None and value.find(exp.Column) is not None
