"""Influences: how a difference changes without some rows, times a factor for the rows that remain.

For predicate p and group t of the question: n1, s1 are count and sum of the group's rows that
satisfy p, and n0, s0 those of the rows that do not. With f = min n0 and G = max (n1 + n0) + 1 over
the groups,

    COUNT, SUM:  I(p) = (sum of w_t times the group's n1 or s1) * f / G
    AVG:         I(p) = f * sum of w_t (mean of the group - mean of its rows that do not satisfy p)

(DPXPlain, Equation 3 and Definition C.2; docs/methods/dpxplain.md, definition 1). Values are exact
rationals until they are rounded to a public lattice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpnb.sql.functions import Function

Mode: TypeAlias = Literal["tight", "paper"]
Vector: TypeAlias = npt.NDArray[np.int64]

RELATIVE_UNIT = "% of the released difference × share of rows left"
"""Unit of influences that are divided by the released difference."""
LATTICE_BITS = 20
_BLOCK = 2**15


def sensitivity(
    function: Function, weights: Sequence[Fraction], low: Fraction, high: Fraction, mode: Mode
) -> Fraction:
    """Return the largest change of one predicate's influence between neighbouring tables.

    Parameters
    ----------
    function : Function
        COUNT, SUM or AVG.
    weights : sequence of Fraction
        Of the groups of the question, none zero.
    low, high : Fraction
        Bounds of one row's value; ignored by COUNT.
    mode : {'tight', 'paper'}
        The exact supremum Delta* (docs/methods/dpxplain.md, theorem 3), or the published
        bound (DPXPlain, Proposition 4.4 and Theorem C.3), which is 4 to 8 times as large.
    """
    norm = sum(map(abs, weights), Fraction(0))
    largest = max(abs(low), abs(high))
    if mode == "paper":
        if function.is_count:
            return 2 * norm
        return (8 if function.is_mean else 2) * norm * largest
    if function.is_mean:
        return (high - low) * norm
    if function.is_count:
        low = high = Fraction(1)
    up = sum((max(Fraction(0), w * low, w * high) for w in weights), Fraction(0))
    down = sum((max(Fraction(0), -w * low, -w * high) for w in weights), Fraction(0))
    return max(up, down)


def spread(
    function: Function, weights: Sequence[Fraction], low: Fraction, high: Fraction, mode: Mode
) -> Fraction:
    """Return the largest change of the difference of two predicates' influences.

    It also bounds the change of I(p) - I(t-th largest). It is at most twice the sensitivity, and
    less where that is proven (docs/methods/dpxplain.md, theorem 4). Parameters as in
    :func:`sensitivity`.
    """
    twice = 2 * sensitivity(function, weights, low, high, mode)
    if mode == "paper" or function is Function.SUM:
        return twice
    norm = sum(map(abs, weights), Fraction(0))
    if function.is_mean:
        return (high - low) * (norm + max(map(abs, weights)))
    return min(twice, max(_count_spread(w, weights, norm) for w in weights))


def _count_spread(weight: Fraction, weights: Sequence[Fraction], norm: Fraction) -> Fraction:
    """Bound the spread if the added or removed row belongs to the group of ``weight``."""
    a = abs(weight)
    if len(weights) == 1:
        return a
    same = sum((abs(w) for w in weights if (w > 0) == (weight > 0)), Fraction(0))
    other = norm - same
    u = same if a >= other else max(same, (a + other) ** 2 / (4 * other))
    v = max(same / 4, other - a)
    return max(norm - a, u + v)


@dataclass(frozen=True, slots=True)
class Lattice:
    """A public grid on which influences become whole numbers.

    ``unit`` is a power of two at most Delta / 2**20, in units of the influence. Rounding moves an
    influence by at most ``terms`` half units (one for each exact term that is rounded), so its
    change between neighbouring tables grows by at most ``terms`` units and a spread's by twice
    that; one more unit pays for a rounded shift of scores (``privacy.one_off.top_k``).
    """

    unit: Fraction
    sensitivity: int
    spread: int

    @classmethod
    def of(cls, largest: Fraction, spread: Fraction, terms: int) -> Lattice:
        """Choose the unit for a sensitivity and a spread above 0."""
        # 2**floor(log2) of a rational, exactly
        ratio = largest / 2**LATTICE_BITS
        exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        unit = Fraction(2) ** exponent
        unit = unit / 2 if unit > ratio else unit
        return cls(
            unit, math.ceil(largest / unit) + terms, math.ceil(spread / unit) + 2 * terms + 1
        )


@dataclass(frozen=True, slots=True)
class Cells:
    """Exact count and sum of the rows that each of several predicates selects, by group.

    ``index``: int64 (a,), the predicates, ascending. ``count``, ``total``: int64 (a, m), number and
    sum of each group's rows that satisfy the predicate. Predicates not in ``index`` select no row.
    """

    index: Vector
    count: Vector
    total: Vector

    def __repr__(self) -> str:
        return "Cells(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def influences(
    function: Function,
    weights: Sequence[Fraction],
    cells: Cells,
    count: Sequence[int],
    total: Sequence[int],
    unit: Fraction,
) -> Vector:
    """Return the influence of each predicate of ``cells`` in lattice units, rounded.

    Parameters
    ----------
    function : Function
        COUNT, SUM or AVG.
    weights : sequence of Fraction, length m
    cells : Cells
    count, total : sequences of int, length m
        Rows and sum of each group. Any common shift of the values cancels in AVG.
    unit : Fraction
        Unit of the lattice.

    Returns
    -------
    int64 array, shape (a,)
    """
    common = math.lcm(*(w.denominator for w in weights))
    integer_weights = [int(w * common) for w in weights]
    result = np.zeros(len(cells.index), dtype=np.int64)
    for start in range(0, len(result), _BLOCK):
        part = slice(start, start + _BLOCK)
        n1 = cells.count[part]
        n0 = np.asarray(count, dtype=np.int64) - n1
        # Python integers from here on, because products may exceed 64 bits
        f = n0.min(axis=1).astype(object)
        if function.is_mean:
            remaining = n0.astype(object)
            s0 = (np.asarray(total, dtype=np.int64) - cells.total[part]).astype(object)
            terms = [
                _rounded(
                    f * weight * (total[t] * remaining[:, t] - s0[:, t] * count[t]),
                    remaining[:, t] * count[t] * common,
                    unit,
                )
                for t, weight in enumerate(integer_weights)
            ]
            result[part] = np.sum(terms, axis=0).astype(np.int64)
        else:
            measured = (n1 if function.is_count else cells.total[part]).astype(object)
            shift = sum(weight * measured[:, t] for t, weight in enumerate(integer_weights))
            result[part] = _rounded(shift * f, (max(count) + 1) * common, unit).astype(np.int64)
    return result


def _rounded(numerator: Any, denominator: Any, unit: Fraction) -> Any:
    """Round numerator / (denominator unit) to the nearest whole number; 0 if a denominator is 0."""
    top = numerator * unit.denominator
    bottom = denominator * unit.numerator
    # f = 0 wherever a group is empty or fully selected, so the numerator is 0 there as well
    bottom = np.where(bottom == 0, 1, bottom) if isinstance(bottom, np.ndarray) else bottom
    return (2 * top + bottom) // (2 * bottom)
