"""Which score is largest after Gumbel noise, decided as if the noise had infinitely many digits.

A Gumbel variable is G = -ln(-ln(1 - V)) with V uniform on (0, 1). Only the first bits of each V are
drawn, which bounds G by an interval. More bits are drawn only if intervals overlap, and then the
arithmetic is decimal with as many digits as needed. So the choice has exactly the distribution of
the exponential mechanism, and no low-order bit of a float can leak anything (Mironov 2012 shows
that such bits can; the idea of lazy digits is in Canonne, Kamath and Steinke 2020 and in OpenDP,
whose own selection takes 10 to 100 times as long on scores that differ much).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpnb.privacy.loss import plain_context

BITS = 53
_MORE = 64
_SLACK = 2.0**-44
"""Relative error allowed for float logarithms and sums: some 2**8 units in the last place."""

Entropy = Callable[[int], bytes]
"""Returns as many independent, uniform bytes as requested."""


def largest(scores: npt.NDArray[np.int64], scale: float, entropy: Entropy) -> int:
    """Return the index of the largest ``score + scale * G``.

    Parameters
    ----------
    scores : int64 array, shape (n,), n >= 1
    scale : float
        Above 0; used as the exact rational value of the float.
    entropy : callable
    """
    words = np.frombuffer(entropy(8 * len(scores)), dtype="<u8") >> np.uint64(64 - BITS)
    low, high = _intervals(scores, scale, words)
    # only these may still be the largest
    rivals = np.flatnonzero(high >= low.max())
    draws = [(int(words[i]), BITS) for i in rivals]
    while len(rivals) > 1:
        draws = [
            (word << _MORE | int.from_bytes(entropy(_MORE // 8), "little"), bits + _MORE)
            for word, bits in draws
        ]
        ends = [
            _refined(int(scores[i]), scale, word, bits)
            for i, (word, bits) in zip(rivals, draws, strict=True)
        ]
        best = max(end[0] for end in ends)
        survivors = [place for place, end in enumerate(ends) if end[1] >= best]
        rivals = rivals[survivors]
        draws = [draws[place] for place in survivors]
    return int(rivals[0])


def _intervals(
    scores: npt.NDArray[np.int64], scale: float, words: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Bound score / scale + G for V in [word, word + 1] / 2**BITS, by floats with a wide slack."""
    first = words.astype(np.float64) * 2.0**-BITS
    with np.errstate(divide="ignore"):
        low = -np.log(-np.log1p(-(first + 2.0**-BITS)))
        high = -np.log(-np.log1p(-first))
    shift = scores / scale
    for ends, sign in ((low, -1.0), (high, 1.0)):
        finite = np.isfinite(ends)
        slack = _SLACK * (1 + np.abs(shift) + np.where(finite, np.abs(ends), 0.0))
        ends += shift + sign * slack
    return low, high


def _refined(score: int, scale: float, word: int, bits: int) -> tuple[Any, Any]:
    """Bound score / scale + G for V in [word, word + 1] / 2**bits, by decimals.

    With p digits, 1 - V is exact to 10^-p. As -ln(1 - V) >= 2^-bits, its relative error is at most
    10^-p 2^bits. p is chosen so that this stays far below the slack, which shrinks with the bits.
    """
    shift = Fraction(score) / Fraction(scale)
    digits = int(0.31 * bits)
    context = plain_context(2 * digits + len(str(abs(int(shift)))) + 40, ROUND_HALF_EVEN)
    slack = Decimal((0, (1,), -(digits + 20)))
    decimal_shift = context.divide(Decimal(shift.numerator), Decimal(shift.denominator))
    divisor = Decimal(1 << bits)

    def gumbel(place: int) -> Decimal:
        rest = context.subtract(Decimal(1), context.divide(Decimal(place), divisor))
        # not unary minus, which rounds to the thread's 28 digits
        return context.minus(context.ln(context.minus(context.ln(rest))))

    low = Decimal("-Infinity") if word + 1 == 1 << bits else gumbel(word + 1)
    high = Decimal("Infinity") if word == 0 else gumbel(word)
    return (
        context.subtract(context.add(decimal_shift, low), slack),
        context.add(context.add(decimal_shift, high), slack),
    )
