"""Windows over released lines: ``function(...) OVER (...)``, read from trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.errors import nearest
from dpnb.sql.scalars import Scalars, counted
from dpnb.sql.shown import Expression, Kind, Literal, Term, Window, kind_of
from dpnb.sql.source import Node, others

TOTALS: dict[type, str] = {
    exp.Avg: "AVG", exp.Count: "COUNT", exp.Max: "MAX", exp.Min: "MIN", exp.Sum: "SUM",
}  # fmt: skip
_RANKS: dict[type, str] = {
    exp.CumeDist: "CUME_DIST", exp.DenseRank: "DENSE_RANK", exp.PercentRank: "PERCENT_RANK",
    exp.Rank: "RANK", exp.RowNumber: "ROW_NUMBER",
}  # fmt: skip
_TILES: dict[type, str] = {exp.Ntile: "NTILE"}
_NEIGHBOURS: dict[type, str] = {exp.Lag: "LAG", exp.Lead: "LEAD"}
_ENDS: dict[type, str] = {exp.FirstValue: "FIRST_VALUE", exp.LastValue: "LAST_VALUE"}
_HINT = (
    "Write SUM, AVG, COUNT, MIN, MAX, LAG, LEAD, FIRST_VALUE, LAST_VALUE, ROW_NUMBER, RANK, DENSE_RANK, "
    "PERCENT_RANK, CUME_DIST or NTILE with OVER (PARTITION BY ... ORDER BY ...)."
)
_FRAME = "Write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW."


def read_window(scalars: Scalars, node: Node, named: Mapping[str, Node]) -> Window:
    """Read a window; ``named`` are those of the WINDOW clause."""
    inner, depth = node.this, 1
    function = {**TOTALS, **_RANKS, **_TILES, **_NEIGHBOURS, **_ENDS}.get(type(inner))
    if function is None or others(inner.args, "this", "big_int", "offset", "default"):
        scalars.refuse("this window function is not supported", _HINT, node)
    partition, order, spec = _over(scalars, node, named)
    arguments: tuple[Expression, ...] = ()
    if function not in _RANKS.values():
        arguments = _arguments(scalars, inner, function, depth)
    terms = tuple(
        Term(
            scalars.read(term.this if isinstance(term, exp.Ordered) else term),
            bool(term.args.get("desc")),
        )
        for term in order
    )
    ordered = *_RANKS.values(), *_TILES.values(), *_NEIGHBOURS.values()
    if not terms and function in ordered:
        scalars.refuse(
            f"{function} needs an order", f"Write {function}(...) OVER (ORDER BY n DESC).", node
        )
    kind = kind_of(arguments[0]) if arguments and function not in ("COUNT", "SUM", "AVG") else None
    return Window(
        function,
        arguments,
        tuple(map(scalars.read, partition)),
        terms,
        None if spec is None else _rows(scalars, spec, node),
        kind or Kind.NUMBER,
    )


def _arguments(scalars: Scalars, inner: Node, function: str, depth: int) -> tuple[Expression, ...]:
    if isinstance(inner.this, exp.Star):
        return ()
    if function == "NTILE":
        return (_whole(scalars, inner, "NTILE takes a number of parts", "Write NTILE(4).", 1),)
    if isinstance(inner.this, exp.Distinct) or inner.this is None:
        scalars.refuse(f"{function} takes one value here", _HINT, inner)
    first = scalars.number(inner.this) if function in ("SUM", "AVG") else scalars.read(inner.this)
    if function == "COUNT":
        return (counted(first),)
    if function not in _NEIGHBOURS.values():
        return (first,)
    steps: Expression = Literal(Fraction(1))
    if inner.args.get("offset") is not None:
        what, hint = f"{function} takes a whole number of lines", f"Write {function}(x, 1)."
        steps = _whole(scalars, inner, what, hint, argument="offset")
    default = inner.args.get("default")
    return first, steps, Literal(None) if default is None else scalars.read(default)


def _whole(
    scalars: Scalars,
    inner: Node,
    what: str,
    hint: str,
    least: float = -math.inf,
    *,
    argument: str = "this",
) -> Literal:
    """Read an argument that is a whole number."""
    node = inner.args.get(argument)
    found = None if node is None else scalars.number(node)
    value = found.value if isinstance(found, Literal) else None
    if not isinstance(value, Fraction) or value.denominator > 1 or value < least:
        scalars.refuse(what, hint, inner)
    return Literal(value)


def _over(
    scalars: Scalars, node: Node, named: Mapping[str, Node]
) -> tuple[list[Node], list[Node], Node | None]:
    """Return PARTITION BY, ORDER BY and the frame of a window, also of a named one."""
    partition = list(node.args.get("partition_by") or [])
    order = node.args.get("order")
    spec = node.args.get("spec")
    if others(node.args, "this", "partition_by", "order", "spec", "over", "alias"):
        scalars.refuse("this window is not supported", _HINT, node)
    name = node.args.get("alias")
    if name is not None:
        base = named.get(name.name.casefold())
        if base is None:
            scalars.refuse(f"the window {name.name!r} is not defined", _ordered(node, named), node)
        partition = partition or list(base.args.get("partition_by") or [])
        order = order or base.args.get("order")
        spec = spec or base.args.get("spec")
    return partition, [] if order is None else list(order.expressions), spec


def _ordered(node: Node, named: Mapping[str, Node]) -> str:
    """Return what to write instead of a window that is not defined."""
    select = node.find_ancestor(exp.Select)
    if named or select is None:
        return nearest(node.args["alias"].name, [*named]).replace("Declared", "Windows")
    first = next((item for item in select.expressions if not item.find(exp.Window)), None)
    by = "" if first is None else f"ORDER BY {first.alias or first.sql(dialect='duckdb')}"
    return f"Write {node.this.sql(dialect='duckdb')} OVER ({by})."


def _rows(scalars: Scalars, spec: Node, node: Node) -> tuple[int | None, int | None] | None:
    """Return how many lines before and after the own one a frame covers."""
    if others(spec.args, "kind", "start", "start_side", "end", "end_side"):
        scalars.refuse("EXCLUDE is not supported", "Subtract it: SUM(n) OVER () - n.", node)
    ends: list[int | None] = []
    for name, unbounded in (("start", "PRECEDING"), ("end", "FOLLOWING")):
        end, side = spec.args.get(name), spec.args.get(f"{name}_side")
        if end == "CURRENT ROW" or (name == "end" and end is None):
            ends.append(0)
        elif end == "UNBOUNDED" and side == unbounded:
            ends.append(None)
        elif (
            isinstance(end, exp.Literal)
            and str(end.this).isdigit()
            and side in ("PRECEDING", "FOLLOWING")
        ):
            number = int(end.this)
            ends.append(number if side == unbounded else -number)
        else:
            scalars.refuse("this frame is not supported", _FRAME, node)
    kind = str(spec.args.get("kind") or "")
    if kind == "RANGE" and ends == [None, 0]:
        return None
    if kind != "ROWS" and ends != [None, None]:
        scalars.refuse("frames of values are not supported", _FRAME, node)
    return ends[0], ends[1]
