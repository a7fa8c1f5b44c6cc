"""Formulas over released values: their value, and an interval that holds whenever the leaves' do.

Interval arithmetic always gives a superset of the formula's image of the box of the leaves'
confidence intervals. So the exact value is inside whenever all leaves' exact values are inside
theirs (DPXPlain, appendix C.4; docs/methods/estimation.md, theorem 7). There is no optimiser,
because one that stops early would lose coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dpnb.estimation.intervals import Pair
from dpnb.sql.formulas import Applied, Combined, Constant, Formula, Leaf, Quantile, Variance
from dpnb.sql.values import Operator

REALS: Pair = (-math.inf, math.inf)
_SYMBOLS = {"+": 1, "-": 1, "*": 2, "/": 2}


def value(formula: Formula, leaves: Sequence[float]) -> float | None:
    """Return a formula's value; None if it is not defined or not finite.

    Examples
    --------
    >>> from dpnb.sql.formulas import Combined, Leaf
    >>> value(Combined("/", Leaf(0), Leaf(1)), [1.0, 4.0])
    0.25
    """
    try:
        number = _value(formula, leaves)
    except (ArithmeticError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _value(formula: Formula, leaves: Sequence[float]) -> float:
    if isinstance(formula, Leaf):
        return leaves[formula.place]
    if isinstance(formula, Constant):
        return float(formula.value)
    if isinstance(formula, Applied):
        return _FUNCTIONS[formula.function](_value(formula.argument, leaves))
    if not isinstance(formula, Combined):
        raise TypeError("statistics are settled before formulas are worked out")
    return _OPERATIONS[formula.operator](
        _value(formula.left, leaves), _value(formula.right, leaves)
    )


_FUNCTIONS = {"EXP": math.exp, "LN": math.log, "SQRT": math.sqrt}
_OPERATIONS: dict[Operator, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


def interval(formula: Formula, leaves: Sequence[Pair]) -> Pair:
    """Return an interval that contains the formula's value for all leaves in their intervals.

    All reals if the formula is not defined on the whole box: a divisor's interval contains 0, a
    logarithm's reaches 0, or a square root's reaches below it. Ends are rounded outwards.

    Parameters
    ----------
    formula : Formula
    leaves : sequence of (low, high)

    Returns
    -------
    (low, high)

    Examples
    --------
    >>> from dpnb.sql.formulas import Combined, Leaf
    >>> ratio = Combined("/", Leaf(0), Leaf(1))
    >>> low, high = interval(ratio, [(1.0, 2.0), (4.0, 8.0)])
    >>> low <= 0.125 <= 0.5 <= high
    True
    >>> interval(ratio, [(1.0, 2.0), (-1.0, 8.0)])
    (-inf, inf)
    """
    if isinstance(formula, Leaf):
        return leaves[formula.place]
    if isinstance(formula, Constant):
        number = float(formula.value)
        return (number, number) if number == formula.value else widened(number, number)
    if isinstance(formula, Applied):
        return applied(formula.function, interval(formula.argument, leaves))
    if not isinstance(formula, Combined):
        raise TypeError("statistics are settled before formulas are worked out")
    left, right = interval(formula.left, leaves), interval(formula.right, leaves)
    if REALS in (left, right):
        # all reals also mean "not defined", and no later operation defines it
        return REALS
    return combined(formula.operator, left, right)


def combined(operator: Operator, left: Pair, right: Pair) -> Pair:
    """Return an interval that contains a sum, difference, product or quotient; see :func:`interval`."""
    if operator == "+":
        return widened(left[0] + right[0], left[1] + right[1])
    if operator == "-":
        return widened(left[0] - right[1], left[1] - right[0])
    if operator == "/" and right[0] <= 0 <= right[1]:
        return REALS
    corners = [_corner(operator, a, b) for a in left for b in right]
    if any(math.isnan(corner) for corner in corners):
        return REALS
    # prefer -0 to +0: it may be a product below 0 that was rounded to 0
    return widened(min(corners, key=lambda at: (at, math.copysign(1.0, at))), max(corners))


def _corner(operator: Operator, left: float, right: float) -> float:
    """Return a product or quotient; an exact 0, from an operand 0, is returned as +0."""
    corner = _OPERATIONS[operator](left, right)
    return 0.0 if corner == 0 and 0 in (left, right) else corner


def applied(function: str, argument: Pair) -> Pair:
    """Return an interval that contains EXP, LN or SQRT of a number; see :func:`interval`."""
    low, high = argument
    if argument == REALS:
        return REALS
    if function == "LN":
        if low <= 0:
            return REALS
        return widened(math.log(low), math.log(high), steps=2)
    if function == "SQRT":
        if low < 0:
            return REALS
        root = widened(math.sqrt(low), math.sqrt(high))
        return max(root[0], 0.0), root[1]
    ends = widened(_exp(low), _exp(high), steps=2)
    return max(ends[0], 0.0), ends[1]


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def widened(low: float, high: float, steps: int = 1) -> Pair:
    """Widen an interval by the rounding error of its ends.

    + - * / and square roots are rounded to nearest, so one float outward suffices; the C library's
    exp and log are within one unit in the last place, so two suffice.
    """
    if math.isnan(low) or math.isnan(high):
        return REALS
    # rounding keeps signs, also that of 0: a value rounded to +0 is not below 0
    least = 0.0 if math.copysign(1.0, low) > 0 else -math.inf
    for _ in range(steps):
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return max(low, least), high


def text(formula: Formula, leaves: Sequence[str], strength: int = 0) -> str:
    """Return a formula as displayed, with the names of its leaves.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from dpnb.sql.formulas import Combined, Constant, Leaf
    >>> text(Combined("*", Constant(Fraction(100)), Combined("+", Leaf(0), Leaf(1))), ["a", "b"])
    '100 * (a + b)'
    """
    if isinstance(formula, Leaf):
        return leaves[formula.place]
    if isinstance(formula, Constant):
        return f"{float(formula.value):g}"
    if isinstance(formula, Applied):
        return f"{formula.function}({text(formula.argument, leaves)})"
    if isinstance(formula, Quantile):
        return f"QUANTILE({leaves[formula.cells]}, {float(formula.share):g})"
    if isinstance(formula, Variance):
        return _variance_text(formula, leaves, strength)
    precedence = _SYMBOLS[formula.operator]
    left = text(formula.left, leaves, precedence)
    right = text(formula.right, leaves, precedence + (formula.operator in "-/"))
    expression = f"{left} {formula.operator} {right}"
    return f"({expression})" if precedence < strength else expression


def _variance_text(formula: Variance, leaves: Sequence[str], strength: int) -> str:
    """Return a variance as mean of squares minus square of the mean; n is the mean's count."""
    mean, squares = leaves[formula.mean], leaves[formula.square]
    origin, shift = float(formula.origin), float(formula.shift)
    distance = f"({mean} - {origin:g})" if origin else mean
    expression = f"{squares} / n + {shift:g} - {distance}^2"
    if formula.sample:
        expression = f"({expression}) * n / (n - 1)"
    return f"({expression})" if strength > (2 if formula.sample else 1) else expression
