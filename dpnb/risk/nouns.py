"""The word for those whose contributions are looked at."""

from __future__ import annotations


def noun(ids: str, count: int = 2) -> str:
    """Return the word for so many rows, or for so many ids of a column.

    Examples
    --------
    >>> noun(""), noun("customer_id"), noun("customer_id", 1)
    ('rows', 'customer_id values', 'customer_id')
    """
    if ids:
        return ids if count == 1 else f"{ids} values"
    return "row" if count == 1 else "rows"
