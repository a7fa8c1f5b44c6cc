"""Functions of released numbers: their value, and an interval that contains their image.

As in ``dpnb.estimation.formula``, the image of a box of intervals that hold at once holds with them.
Monotone functions give it exactly, up to rounding outward; others a superset.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpnb.estimation.formula import REALS, applied, combined, widened
from dpnb.estimation.intervals import Pair
from dpnb.sql.values import Operator

_OPERATORS: dict[str, Operator] = {"+": "+", "-": "-", "*": "*", "/": "/"}


def value(function: str, *numbers: float) -> float | None:
    """Return a function of numbers; None if it is not defined or not finite.

    Examples
    --------
    >>> value("ROUND", 2.5, 0), value("ROUND", -1234.5, -2), value("/", 1, 0)
    (3.0, -1200.0, None)
    """
    try:
        result = _VALUES[function](*numbers)
    except (ArithmeticError, ValueError):
        return None
    # a negative number to a broken power is complex
    return float(result) if isinstance(result, float | int) and math.isfinite(result) else None


def image(function: str, *pairs: Pair) -> Pair:
    """Return an interval that contains a function's values for all numbers in their intervals.

    All reals if it is not defined for all of them.

    Examples
    --------
    >>> image("ROUND", (1.2, 3.7), (0.0, 0.0))
    (1.0, 4.0)
    >>> image("ABS", (-3.0, 2.0))
    (0.0, 3.0)
    """
    if REALS in pairs:
        return REALS
    if function in _OPERATORS:
        return combined(_OPERATORS[function], *pairs)
    if function in ("EXP", "LN", "SQRT"):
        return applied(function, *pairs)
    return _IMAGES[function](*pairs)


def halves_away(number: float, digits: float = 0) -> float:
    """Return a number rounded to so many digits; halves go away from 0, as in SQL."""
    return _truncated(number, digits, up_from=0.5)


def _truncated(number: float, digits: float = 0, *, up_from: float = 1.0) -> float:
    """Cut a number off after so many digits; a rest of at least ``up_from`` counts as a whole."""
    power = float(10.0 ** abs(digits))
    scaled = number * power if digits >= 0 else number / power
    if not math.isfinite(scaled):
        return number
    whole = float(math.trunc(scaled))
    if abs(scaled - whole) >= up_from:
        whole += math.copysign(1.0, scaled)
    return whole / power if digits >= 0 else whole * power


def _whole(rounding: Callable[[float], int]) -> Callable[[float], float]:
    return lambda number: float(rounding(number)) if math.isfinite(number) else number


def _sign(number: float) -> float:
    return float((number > 0) - (number < 0))


def _quotient(number: float, divisor: float) -> float:
    return float(math.trunc(number / divisor))


_STEPS: dict[str, Callable[..., float]] = {
    "CEIL": _whole(math.ceil), "FLOOR": _whole(math.floor), "INTEGER": _whole(round),
    "ROUND": halves_away, "SIGN": _sign, "TRUNC": _truncated,
}  # fmt: skip
"""Functions that never fall, without rounding errors that matter to an interval."""


def _stepped(function: str) -> Callable[..., Pair]:
    step = _STEPS[function]
    return lambda number, *digits: (
        step(number[0], *(low for low, _ in digits)),
        step(number[1], *(low for low, _ in digits)),
    )


def _absolute(number: Pair) -> Pair:
    low, high = number
    if low >= 0:
        return number
    return (-high, -low) if high <= 0 else (0.0, max(-low, high))


def _power(base: Pair, exponent: Pair) -> Pair:
    """Return the image of a power: monotone in each operand where the base is positive."""
    (low, high), (least, most) = base, exponent
    if least == most and least.is_integer():
        if least < 0:
            return combined("/", (1.0, 1.0), _power(base, (-least, -least)))
        if least % 2 == 0:
            low, high = _absolute(base)
        return widened(_raised(low, least), _raised(high, least), steps=2)
    if low < 0 or (low == 0 and least <= 0):
        return REALS
    corners = [_raised(x, y) for x in base for y in exponent]
    ends = widened(min(corners), max(corners), steps=2)
    return max(ends[0], 0.0), ends[1]


def _raised(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf if base > 0 or exponent % 2 == 0 else -math.inf


def _logarithm(base: Pair, number: Pair) -> Pair:
    return combined("/", applied("LN", number), applied("LN", base))


def _remainder(number: Pair, divisor: Pair) -> Pair:
    """Return the image of a remainder, which has the sign of the number, as in SQL."""
    (low, high), (least, most) = number, divisor
    if least <= 0 <= most or not math.isfinite(low + high):
        return REALS
    largest = max(abs(least), abs(most))
    if least == most and math.trunc(low / most) == math.trunc(high / most) and low * high >= 0:
        return math.fmod(low, most), math.fmod(high, most)
    return (0.0 if low >= 0 else -largest), (0.0 if high <= 0 else largest)


def _divided(number: Pair, divisor: Pair) -> Pair:
    """Return the image of a division without a rest, which cuts towards 0, as in SQL."""
    quotient = combined("/", number, divisor)
    return REALS if quotient == REALS else _IMAGES["TRUNC"](quotient)


_VALUES: dict[str, Callable[..., float]] = {
    **_STEPS,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": math.fmod,
    "//": _quotient,
    "ABS": abs,
    "EXP": math.exp,
    "GREATEST": lambda *numbers: max(numbers),
    "LEAST": lambda *numbers: min(numbers),
    "LN": math.log,
    "LOG": lambda base, number: math.log(number) / math.log(base),
    "POWER": math.pow,
    "SQRT": math.sqrt,
}
_IMAGES: dict[str, Callable[..., Pair]] = {
    **{name: _stepped(name) for name in _STEPS},
    "%": _remainder,
    "//": _divided,
    "ABS": _absolute,
    "GREATEST": lambda *pairs: (max(low for low, _ in pairs), max(high for _, high in pairs)),
    "LEAST": lambda *pairs: (min(low for low, _ in pairs), min(high for _, high in pairs)),
    "LOG": _logarithm,
    "POWER": _power,
}
