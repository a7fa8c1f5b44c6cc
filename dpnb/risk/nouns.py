"""The word for the privacy units of a profile: rows, or ids of a column."""

from __future__ import annotations


def noun(ids: str, count: int = 2) -> str:
    """Return the word for ``count`` rows, or for ``count`` ids of the column ``ids``.

    Examples
    --------
    >>> noun(""), noun("customer_id"), noun("customer_id", 1)
    ('rows', 'customer_id values', 'customer_id')
    """
    if ids:
        return ids if count == 1 else f"{ids} values"
    return "row" if count == 1 else "rows"
