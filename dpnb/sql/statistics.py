"""Variances and quantiles of the SELECT list, read from their trees.

Both are computed from released vectors: a variance from AVG(x) and a sum of squares, a quantile
from the counts of the declared bins of a column. So there is nothing more to measure or to charge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from sqlglot import expressions as exp

from dpnb.schema.partition import declared
from dpnb.schema.predicates import EVERY, And, Predicate
from dpnb.sql.contributions import Contributions
from dpnb.sql.expressions import Arguments
from dpnb.sql.formulas import Applied, Formula, Quantile, Variance
from dpnb.sql.functions import Function
from dpnb.sql.narrowing import bounds_within
from dpnb.sql.query import MAX_CELLS, Aggregate, Key
from dpnb.sql.source import Node, others
from dpnb.sql.values import Arithmetic, Column, Number, Value, bounds_of

Place: TypeAlias = Callable[[Aggregate], int]
"""Function that returns the position of an aggregate among the leaves of a formula."""

_VARIANCES: dict[type, tuple[str, bool, bool]] = {
    exp.VariancePop: ("VAR_POP", False, False),
    exp.Variance: ("VARIANCE", True, False),
    exp.Stddev: ("STDDEV", True, True),
    exp.StddevSamp: ("STDDEV", True, True),
    exp.StddevPop: ("STDDEV_POP", False, True),
}
"""Name, whether the divisor is n - 1, and whether to take the square root."""
_QUANTILES = (exp.Median, exp.Quantile, exp.ApproxQuantile, exp.PercentileDisc, exp.PercentileCont)
_QUANTILE_SHAPE = (
    "Write MEDIAN(x), QUANTILE(x, 0.9) or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."
)


def is_statistic(node: Node) -> bool:
    """Return whether a node is a variance or a quantile, with or without FILTER."""
    inner = node.this if isinstance(node, exp.Filter) else node
    if isinstance(inner, exp.WithinGroup):
        inner = inner.this
    return isinstance(inner, (*_VARIANCES, *_QUANTILES))


@dataclass(frozen=True, slots=True)
class Asked:
    """A variance or quantile as written: its name, the node of its column, and its parameters."""

    name: str
    argument: Node
    share: Fraction | None
    sample: bool = False
    root: bool = False


class Statistics:
    """Reader of a statement's variances and quantiles; ``keys`` are what it groups by."""

    def __init__(
        self, arguments: Arguments, contributions: Contributions, keys: Sequence[Key] = ()
    ) -> None:
        self.arguments = arguments
        self.contributions = contributions
        self.schema = arguments.schema
        self.refuse = arguments.refuse
        self.keys = tuple(keys)

    def name(self, node: Node) -> tuple[str, Value | None]:
        """Return the function and the argument of a statistic, for its default name."""
        inner, condition = self._parts(node)
        statistic = self._asked(inner)
        return statistic.name, self._value(statistic, condition)

    def formula(self, node: Node, place: Place) -> Formula:
        """Read a statistic; ``place`` gives the positions of its aggregates."""
        inner, condition = self._parts(node)
        self.contributions.settle(inner, self.arguments)
        statistic = self._asked(inner)
        value = self._value(statistic, condition)
        if statistic.share is None:
            variance: Formula = self._variance(statistic, value, condition, place)
            return Applied("SQRT", variance) if statistic.root else variance
        cells = Aggregate(
            Function.CELLS, value, condition, f"cells_{'_'.join(sorted(value.columns))}"
        )
        return Quantile(place(cells), statistic.share)

    def _parts(self, node: Node) -> tuple[Node, Predicate]:
        """Return a statistic and the condition of its FILTER."""
        if not isinstance(node, exp.Filter):
            return node, EVERY
        if not isinstance(node.expression, exp.Where):
            self.refuse("FILTER needs a condition", "Write FILTER (WHERE ...).", node)
        return node.this, self.arguments.conditions.predicate(node.expression.this)

    def _asked(self, node: Node) -> Asked:
        if type(node) in _VARIANCES:
            name, sample, root = _VARIANCES[type(node)]
            self._alone(node, name, "this")
            return Asked(name, node.this, None, sample, root)
        if isinstance(node, exp.WithinGroup):
            return self._within(node)
        if isinstance(node, exp.Median):
            self._alone(node, "MEDIAN", "this")
            return Asked("MEDIAN", node.this, Fraction(1, 2))
        share = node.args.get("quantile") or node.args.get("expression")
        if share is None or others(node.args, "this", "quantile", "expression"):
            self.refuse(
                "QUANTILE takes a column and a number between 0 and 1", _QUANTILE_SHAPE, node
            )
        self._alone(node, "QUANTILE", "this", "quantile", "expression")
        return Asked("QUANTILE", node.this, self._share(share))

    def _alone(self, node: Node, name: str, *argument_names: str) -> None:
        if isinstance(node.this, exp.Distinct):
            self.refuse("DISTINCT is not supported", "Leave DISTINCT out.", node)
        if others(node.args, *argument_names) or node.this is None:
            self.refuse(f"{name} takes one column", f"Write {name}(x).", node)

    def _within(self, node: Node) -> Asked:
        order = node.expression
        terms = order.expressions if isinstance(order, exp.Order) else []
        if (
            not isinstance(node.this, (exp.PercentileCont, exp.PercentileDisc))
            or others(node.this.args, "this")
            or len(terms) != 1
        ):
            self.refuse("this expression is not supported", _QUANTILE_SHAPE, node)
        (term,) = terms
        column = term.this if isinstance(term, exp.Ordered) else term
        if term.args.get("desc"):
            self.refuse(
                "WITHIN GROUP takes no DESC", "Write 1 - q instead of q, without DESC.", node
            )
        return Asked("QUANTILE", column, self._share(node.this.this))

    def _share(self, node: Node) -> Fraction:
        if not isinstance(node, (exp.Literal, exp.Neg, exp.Placeholder)):
            self.refuse("the second argument of a quantile must be a number", _QUANTILE_SHAPE, node)
        share = self.arguments.number(node)
        if not 0 < share < 1:
            self.refuse(
                "a quantile must lie between 0 and 1; at the ends one row decides",
                "Write QUANTILE(x, 0.99).", node,
            )  # fmt: skip
        return share

    def _value(self, statistic: Asked, condition: Predicate) -> Value:
        if statistic.share is None:
            return self.arguments.value(Function.AVG, statistic.argument, condition)
        return self._candidates(statistic)

    def _candidates(self, statistic: Asked) -> Column:
        """Return the column of a quantile; check that it has declared bins, but not too many."""
        node = statistic.argument
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column):
            self.refuse(f"{statistic.name} takes one column", _QUANTILE_SHAPE, statistic.argument)
        name = self.arguments.conditions.column(node)
        kind = self.schema[name]
        if not kind.numeric:
            self.refuse(
                f"{name!r} is not a numeric column",
                "Quantiles need an Integer or Real column; count categories instead.", node,
            )  # fmt: skip
        bins = declared(name, self.schema)
        if any(key.partition == bins for key in self.keys):
            self.refuse(
                f"{name!r} is a column of GROUP BY",
                "Take a quantile of another column.",
                node,
            )
        cells = bins.size
        if cells == 0:
            self.refuse(
                f"{name!r} has no bins among which a quantile can lie",
                "Declare bins for it in the schema.", node,
            )  # fmt: skip
        for key in self.keys:
            cells *= key.partition.size
        if cells > MAX_CELLS:
            self.refuse(
                f"this needs {cells:,} bins in all groups together, more than {MAX_CELLS:,}",
                f"Declare wider bins for {name}, or group by fewer columns.", node,
            )  # fmt: skip
        if bins.numbers.support != ((kind.scale.low, kind.scale.high),):
            self.refuse(
                f"the bins of {name!r} leave out some of its values",
                "Declare bins from its lower to its upper bound.", node,
            )  # fmt: skip
        return Column(name)

    def _variance(
        self, statistic: Asked, value: Value, condition: Predicate, place: Place
    ) -> Variance:
        """Return a variance from AVG(x) and SUM((x - origin)^2 - shift).

        The origin is the middle of the bounds and H is half their width, so squares lie in [0,
        H^2]. Subtracting H^2 / 2 from each gives the sum sensitivity H^2 / 2, at most a quarter of
        that of SUM(x * x) (docs/methods/estimation.md, theorem 12).
        """
        rows = And((self.arguments.rows, condition))
        bounds = bounds_within(value, self.schema, rows)
        if bounds.is_narrow:
            bounds = bounds_of(value, self.schema)
        # floats hold these numbers exactly, so every engine computes with the same ones
        origin = Fraction(float((bounds.low + bounds.high) / 2))
        half = max(bounds.high - origin, origin - bounds.low)
        # a float holds it: values are within 1e150
        shift = Fraction(float(half * half / 2))
        if bounds.integral and origin.denominator == 1:
            shift = Fraction(shift.__floor__())
        distance = value if origin == 0 else Arithmetic("-", value, Number(origin))
        square: Value = Arithmetic("*", distance, distance)
        centred = square if shift == 0 else Arithmetic("-", square, Number(shift))
        self.arguments.check(Function.SUM, centred, statistic.argument)
        mean = place(Aggregate(Function.AVG, value, condition, "mean"))
        squares = place(Aggregate(Function.SUM, centred, condition, "squares"))
        return Variance(mean, squares, origin, shift, half, statistic.sample)
