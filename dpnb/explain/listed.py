"""Candidate predicates that an analyst lists as conditions, as in WHERE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from dpnb.errors import RequestError, SqlError, given
from dpnb.schema.predicates import Predicate, plain
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.sql.parser import parse
from dpnb.sql.shown import PLAIN

MAX_LISTED = 1_000
"""Largest number of conditions in a list."""


def read_listed(texts: Sequence[str], table: Table) -> tuple[tuple[str, Predicate], ...]:
    """Read a list of conditions; return each as text and as predicate.

    Raises
    ------
    RequestError
        For an empty or too long list, a condition that cannot be read, or one listed twice.
    """
    if not texts:
        raise RequestError(
            "predicates must be a list of conditions",
            'Give a list of strings, such as ["age > 40"].',
        )
    if len(texts) > MAX_LISTED:
        raise RequestError(
            f"{len(texts):,} predicates are more than the {MAX_LISTED:,} that are allowed",
            "List fewer.",
        )
    return _read_listed(tuple(texts), table.name, table.schema)


# one explanation is planned several times, and parsing takes longer than the scan
@lru_cache(maxsize=4)
def _read_listed(
    texts: tuple[str, ...], name: str, schema: Schema
) -> tuple[tuple[str, Predicate], ...]:
    # the name of a pair of tables is not an identifier
    table = Table(name if name.isidentifier() else "pairs", None, schema)
    conditions: list[tuple[str, Predicate]] = []
    meanings: set[str] = set()
    for text in texts:
        predicate = condition(text, table)
        meaning = json.dumps(plain(predicate), sort_keys=True)
        if meaning in meanings:
            raise RequestError(
                f"the predicate {given(text)} is listed twice", "Remove one of them."
            )
        meanings.add(meaning)
        conditions.append((" ".join(text.split()), predicate))
    return tuple(conditions)


def condition(text: str, table: Table) -> Predicate:
    """Read one condition as in WHERE."""
    prefix = f'SELECT COUNT(*) FROM "{table.name}" WHERE\n'
    try:
        query = parse(prefix + text, {table.name: table})
    except SqlError as error:
        raise RequestError(
            f"the predicate {given(text)} cannot be used: {error.what}", error.hint
        ) from None
    extra = query.keys or query.shown != PLAIN
    if extra or text.rstrip().endswith(";"):
        raise RequestError(
            f"the predicate {given(text)} is more than a condition",
            "Write only what would follow WHERE.",
        )
    return query.where
