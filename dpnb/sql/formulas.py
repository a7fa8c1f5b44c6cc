"""Formulas of the SELECT list: arithmetic on aggregates, without any data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpnb.sql.values import Operator


@dataclass(frozen=True, slots=True)
class Leaf:
    """An aggregate, by its position among the leaves of the formula."""

    place: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Combined:
    """``left operator right``."""

    operator: Operator
    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Applied:
    """The exponential, the natural logarithm or the square root of a formula."""

    function: Literal["EXP", "LN", "SQRT"]
    argument: Formula


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of x from two leaves: AVG(x), and SUM((x - origin)^2 - shift).

    x lies within ``half`` of ``origin``. The divisor is n, the row count, or n - 1 with ``sample``.
    """

    mean: int
    square: int
    origin: Fraction
    shift: Fraction
    half: Fraction
    sample: bool


@dataclass(frozen=True, slots=True)
class Quantile:
    """The smallest x with at least ``share`` of the rows at or below it.

    It is computed from a leaf with the counts of bins.
    """

    cells: int
    share: Fraction


Statistic: TypeAlias = Variance | Quantile
"""A result whose confidence interval is computed from released vectors, not from that of leaves."""
Formula: TypeAlias = Leaf | Constant | Combined | Applied | Variance | Quantile
"""Arithmetic on the leaves of a derived column, and statistics of them."""


def nodes(formula: Formula) -> Iterator[Formula]:
    """Return a formula and all its subformulas."""
    yield formula
    if isinstance(formula, Combined):
        yield from nodes(formula.left)
        yield from nodes(formula.right)
    elif isinstance(formula, Applied):
        yield from nodes(formula.argument)


def linear(formula: Formula) -> tuple[Fraction, dict[int, Fraction]] | None:
    """Return a formula as a constant and a factor for each leaf; None if it is not linear.

    Examples
    --------
    >>> linear(Combined("-", Combined("*", Constant(Fraction(2)), Leaf(0)), Constant(Fraction(10))))
    (Fraction(-10, 1), {0: Fraction(2, 1)})
    """
    if isinstance(formula, Leaf):
        return Fraction(0), {formula.place: Fraction(1)}
    if isinstance(formula, Constant):
        return formula.value, {}
    if not isinstance(formula, Combined):
        return None
    left, right = linear(formula.left), linear(formula.right)
    if left is None or right is None:
        return None
    if formula.operator in "+-":
        return _sum(left, right, Fraction(1 if formula.operator == "+" else -1))
    if formula.operator == "/":
        return None if right[1] or not right[0] else _scaled(left, 1 / right[0])
    if right[1]:
        left, right = right, left
    return None if right[1] else _scaled(left, right[0])


def _scaled(
    form: tuple[Fraction, dict[int, Fraction]], factor: Fraction
) -> tuple[Fraction, dict[int, Fraction]]:
    return form[0] * factor, {place: weight * factor for place, weight in form[1].items()}


def _sum(
    left: tuple[Fraction, dict[int, Fraction]],
    right: tuple[Fraction, dict[int, Fraction]],
    sign: Fraction,
) -> tuple[Fraction, dict[int, Fraction]]:
    constant, weights = _scaled(right, sign)
    both = {
        place: left[1].get(place, Fraction(0)) + weights.get(place, Fraction(0))
        for place in sorted(left[1] | weights)
    }
    return left[0] + constant, {place: weight for place, weight in both.items() if weight}


def statistics_of(formula: Formula) -> tuple[Statistic, ...]:
    """Return the different statistics of a formula."""
    statistics = (node for node in nodes(formula) if isinstance(node, Variance | Quantile))
    return tuple(dict.fromkeys(statistics))


def settled(formula: Formula, statistics: Sequence[Statistic], first: int) -> Formula:
    """Replace the statistics of a formula by leaves, numbered from ``first`` on."""
    if isinstance(formula, Variance | Quantile):
        return Leaf(first + statistics.index(formula))
    if isinstance(formula, Applied):
        return Applied(formula.function, settled(formula.argument, statistics, first))
    if isinstance(formula, Combined):
        left, right = (settled(part, statistics, first) for part in (formula.left, formula.right))
        return Combined(formula.operator, left, right)
    return formula


def plain_formula(formula: Formula) -> Any:
    """Return a formula as plain data: a position, a number as text, or ``[operator, *arguments]``.

    The arguments of a statistic are its fields.
    """
    if isinstance(formula, Leaf):
        return formula.place
    if isinstance(formula, Constant):
        return str(formula.value)
    if isinstance(formula, Applied):
        return [formula.function, plain_formula(formula.argument)]
    if isinstance(formula, Quantile):
        return ["QUANTILE", formula.cells, str(formula.share)]
    if isinstance(formula, Variance):
        numbers = [str(number) for number in (formula.origin, formula.shift, formula.half)]
        return ["VARIANCE", formula.mean, formula.square, *numbers, formula.sample]
    return [formula.operator, plain_formula(formula.left), plain_formula(formula.right)]


def read_formula(data: Any) -> Formula:
    """Build a formula from the data of :func:`plain_formula`."""
    if isinstance(data, int):
        return Leaf(data)
    if isinstance(data, str):
        return Constant(Fraction(data))
    operator, *arguments = data
    if operator == "QUANTILE":
        return Quantile(arguments[0], Fraction(arguments[1]))
    if operator == "VARIANCE":
        mean, square, *numbers, sample = arguments
        origin, shift, half = map(Fraction, numbers)
        return Variance(mean, square, origin, shift, half, sample)
    parts = [read_formula(part) for part in arguments]
    if len(parts) == 1:
        return Applied(operator, parts[0])
    return Combined(operator, *parts)
