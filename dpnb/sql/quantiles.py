"""Lists of quantiles: ``QUANTILE(x, [0.25, 0.5])`` is a result for each, named by its per cent.

``APPROX_QUANTILES(x, 4)`` and ``ANON_QUANTILES(x, 4)`` are the quantiles between the ends: one row
decides the least and the greatest value, which have no private answer.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import expressions as exp

if TYPE_CHECKING:
    from dpnb.sql.source import Node, Source

_SHARES: dict[type, str] = {
    exp.Quantile: "quantile", exp.ApproxQuantile: "quantile", exp.ApproxQuantiles: "expression",
    exp.PercentileCont: "expression", exp.PercentileDisc: "expression",
}  # fmt: skip
"""The argument of a quantile that is a share, or a list of them."""
_FIRST = {"OFFSET": 0, "ORDINAL": 1}
"""The number of the first element of a list, by how its elements are counted."""
_MOST = 100
_SHARE = re.compile("0?[.][0-9]{0,9}[1-9][0-9]{0,9}")
_SHAPE = "Write QUANTILE(x, [0.25, 0.5, 0.75])."


class _Place(NamedTuple):
    """A quantile in a result, and the name of the argument that holds its shares."""

    node: Node
    argument: str


def spread(source: Source, results: list[Node]) -> list[Node]:
    """Return the SELECT list with one result for each quantile of a list.

    Raises
    ------
    SqlError
        For a list without shares, or with too many.
    """
    return [one for node in results for one in _results(source, node)]


def element(source: Source, node: Node) -> Node:
    """Return ``APPROX_QUANTILES(x, 100)[OFFSET(50)]`` as the one quantile that it is."""
    place = node.expressions[0] if len(node.expressions) == 1 else node
    word = str(place.this).upper() if isinstance(place, exp.Anonymous) else ""
    first = _FIRST.get(word.removeprefix("SAFE_"))
    number, count = next(iter(place.expressions), None), node.this.args.get("expression")
    if first is None or not (
        isinstance(number, exp.Literal) and isinstance(count, exp.Literal)
        and number.is_int and count.is_int
    ):  # fmt: skip
        source.refuse("this element of a list is not known", "Write QUANTILE(x, 0.5).", node)
    share = Decimal(number.this) - first, Decimal(count.this)
    if not 0 < share[0] < share[1]:
        source.refuse(
            "a quantile must lie between 0 and 1; at the ends one row decides",
            f"Write QUANTILE({source.written(node.this.this)}, 0.99).", node,
        )  # fmt: skip
    return exp.Quantile(
        this=node.this.this, quantile=exp.Literal.number(f"{share[0] / share[1]:f}")
    )


def _results(source: Source, node: Node) -> list[Node]:
    inner = node.this if isinstance(node, exp.Alias) else node
    place = _place(inner)
    if place is None:
        return [node]
    shares = _shares(source, place)
    if shares is None:
        return [node]
    column = inner.find(exp.Column)
    name = node.alias or f"quantile_{column.name if column else ''}"
    results = []
    for share in shares:
        one = inner.copy()
        asked = _place(one)
        if asked is None:
            continue
        if isinstance(asked.node, exp.ApproxQuantiles):
            quantile = exp.Quantile(this=asked.node.this, quantile=share)
            one = quantile if asked.node is one else asked.node.replace(quantile).root()
        else:
            asked.node.set(asked.argument, share.copy())
        results.append(exp.Alias(this=one, alias=exp.to_identifier(f"{name}_{_per_cent(share)}")))
    return results


def _place(node: Node) -> _Place | None:
    """Return the quantile of a result, with or without FILTER and WITHIN GROUP."""
    while isinstance(node, exp.Paren | exp.Filter):
        node = node.this
    if isinstance(node, exp.WithinGroup):
        return _Place(node.this, "this")
    return _Place(node, _SHARES[type(node)]) if type(node) in _SHARES else None


def _shares(source: Source, place: _Place) -> list[Node] | None:
    """Return the shares of a list, or None if there is one share alone."""
    given = place.node.args.get(place.argument)
    if isinstance(place.node, exp.ApproxQuantiles):
        return _even(source, place.node, given)
    if not isinstance(given, exp.Array | exp.List):
        return None
    shares = list(given.expressions)
    if not shares or not all(
        isinstance(s, exp.Literal) and not s.is_string and _SHARE.fullmatch(s.this) for s in shares
    ):
        source.refuse(
            "a list of quantiles takes numbers between 0 and 1; at the ends one row decides",
            _SHAPE, place.node,
        )  # fmt: skip
    if len({Decimal(share.this) for share in shares}) < len(shares):
        source.refuse("a quantile is twice in the list", "Write it once.", place.node)
    if len(shares) > _MOST:
        source.refuse(f"a list has at most {_MOST} quantiles", "Ask for fewer.", place.node)
    return shares


def _even(source: Source, node: Node, count: Node) -> list[Node]:
    """Return the shares between the ends of so many equal parts."""
    text = str(count.this) if isinstance(count, exp.Literal) and not count.is_string else ""
    parts = int(text) if text.isdecimal() and text.isascii() and len(text) < len("1000") else 0
    if not 2 <= parts <= _MOST or 10**6 % parts:
        source.refuse(
            "this takes 2, 4, 5, 8, 10, 16, 20, 25, 32, 40, 50, 64, 80 or 100 equal parts", _SHAPE, node
        )  # fmt: skip
    return [exp.Literal.number(str(Decimal(i) / parts)) for i in range(1, parts)]


def _per_cent(share: Node) -> str:
    """Return a share as per cent, as part of a name.

    Examples
    --------
    >>> _per_cent(exp.Literal.number("0.25")), _per_cent(exp.Literal.number("0.999"))
    ('25', '99_9')
    """
    text = format(Decimal(str(share.this)) * 100, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace(".", "_")
