"""Secret, repeatable orders: which rows of an id are kept, and in which groups it is counted.

The order of an id's rows depends only on these rows and the ledger's secret. Adding or removing a
person changes nothing for the others, and the kept table is the same each time. The order uses
whole-number arithmetic that gives the same result in every engine: a secret linear form mixes a
row's codes modulo a prime, and the result is multiplied by a mix of the id, so that different
people keep different rows. Privacy rests on the bound, not on the secret: at most ``max_rows`` rows
of an id are kept, whatever the order.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from dpnb.schema.columns import Category, Kind, Real

Spelling: TypeAlias = "Callable[[int], str]"
"""How the text of a statement writes a secret number."""

Term: TypeAlias = tuple[str, int]
"""The SQL of a whole number from 0, and the largest that it can be."""

PRIME = 2**31 - 1
"""The product of two mixes fits in 64 bits."""
_SECOND = 2**31 - 19
_COEFFICIENT = 2**26
_TERMS = 32
"""The sum of this many products of a coefficient and a term below 2**31 is below 2**63."""


def coefficient(key: bytes, name: str) -> int:
    """Return a secret number from 1 to 2**26."""
    return 1 + int.from_bytes(hmac.digest(key, name.encode(), "sha256")[:4], "big") % _COEFFICIENT


def _terms(kind: Kind, column: str) -> list[Term]:
    """Return whole numbers that distinguish the codes of a column.

    Values of a Real are distinguished down to 2**-60 of its bounds.
    """
    integer = f"CAST({column} AS BIGINT)"
    if isinstance(kind, Real):
        largest = max(abs(kind.low), abs(kind.high), 2.0**-900)
        exponent = 30 - math.frexp(largest)[1]
        scaled = f"({column} * CAST('{2.0**exponent!r}' AS DOUBLE))"
        if exponent < 0:
            # some engines raise an error if a product underflows; in the others it is 0
            small = f"abs({column}) <= CAST('{2.0 ** (-1075 - exponent)!r}' AS DOUBLE)"
            scaled = f"(CASE WHEN {small} THEN CAST('0.0' AS DOUBLE) ELSE {scaled} END)"
        high = f"CAST(FLOOR({scaled}) AS BIGINT)"
        rest = f"(({scaled} - FLOOR({scaled})) * CAST('{2.0**30!r}' AS DOUBLE))"
        low = f"CAST(FLOOR({rest}) AS BIGINT)"
        return [
            (f"COALESCE({high} + {2**30}, {2**32})", 2**32),
            (f"COALESCE({low}, {2**32})", 2**32),
        ]
    if isinstance(kind, Category):
        return [(f"COALESCE({integer}, {len(kind.values)})", len(kind.values))]
    scale = kind.scale
    least, most = int(scale.low), int(scale.high)
    if most - least < 2**35:
        size = most - least + 1
        return [(f"COALESCE({integer} - ({least}), {size})", size)]
    # residues modulo two primes distinguish all whole numbers of a column
    return [
        (f"COALESCE({integer} % {prime} + {prime}, {2**33})", 2**33) for prime in (PRIME, _SECOND)
    ]


def _linear(terms: Sequence[Term], key: bytes, name: str, secret: Spelling) -> str:
    """Return the SQL of a secret linear form modulo the prime."""
    # remainders take most of the time; so many terms of this size need none of their own
    small = 2**36 // min(max(1, len(terms)), _TERMS)
    parts = [
        f"{term if most <= small else f'({term} % {PRIME})'} * {secret(coefficient(key, f'{name} {number}'))}"
        for number, (term, most) in enumerate(terms)
    ]
    sums = [" + ".join(parts[start : start + _TERMS]) for start in range(0, len(parts), _TERMS)]
    total = sums[0] if len(sums) == 1 else " + ".join(f"(({each}) % {PRIME})" for each in sums)
    return f"(({total} + {secret(coefficient(key, f'{name} constant'))}) % {PRIME})"


def mix_of_id(number: str, key: bytes, name: str, secret: Spelling = str) -> str:
    """Return the SQL that mixes an id; ``number`` is the SQL of a BIGINT that is not missing."""
    # the remainder of a negative number is negative
    return _linear([(f"({number} % {PRIME} + {PRIME})", 2 * PRIME)], key, f"{name} id", secret)


def order_of_rows(
    columns: Mapping[str, Kind],
    number: str,
    key: bytes,
    texts: Sequence[str] = (),
    secret: Spelling = str,
) -> str:
    """Return the SQL of a row's position within its id: smaller ones are kept first.

    Parameters
    ----------
    columns : mapping of str to Kind
        SQL names of the columns of codes, with their kinds. They also break ties between positions.
    number : str
        SQL of the id as a whole number.
    texts : sequence of str
        SQL of whole numbers, from 0 to below 2**48 or missing, that stand for texts.
    secret : callable
        Returns the SQL of a secret number.
    """
    terms = [term for name, kind in columns.items() for term in _terms(kind, name)]
    terms += [(f"COALESCE({text}, {2**48})", 2**48) for text in texts]
    mix, form = mix_of_id(number, key, "row", secret), _linear(terms, key, "row", secret)
    return f"({mix} * {form}) % {PRIME}"


def order_of_cells(cell: str, number: str, key: bytes, secret: Spelling = str) -> str:
    """Return the SQL of a group's position within an id, which counts in the first few of them.

    ``cell`` is the SQL of the group's number.
    """
    mix, form = (
        mix_of_id(number, key, "cell", secret),
        _linear([(cell, 2**63)], key, "cell", secret),
    )
    return f"({mix} * {form}) % {PRIME}"
