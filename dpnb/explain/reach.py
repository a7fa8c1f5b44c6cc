"""How large influences can be: a bound from public and released numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from dpnb.answers.infer import infer
from dpnb.answers.options import read_options
from dpnb.answers.question import Question
from dpnb.answers.recall import charge_of
from dpnb.errors import RequestError
from dpnb.explain.target import Target
from dpnb.ledger.store import Store
from dpnb.releases.held import ReleaseCache
from dpnb.schema.table import Table
from dpnb.sql.canonical import read
from dpnb.sql.functions import Function
from dpnb.sql.query import EVERY, Aggregate, Query


def largest_influence(target: Target, rows: float) -> float:
    """Return a bound on every predicate's influence if the smallest group has at most ``rows`` rows.

    docs/methods/dpxplain.md, bound 16.
    """
    return rows * target.largest_per_row


def smallest_rows(
    question: Question,
    target: Target,
    analyst: str,
    store: Store,
    tables: Mapping[str, Table],
    cache: ReleaseCache,
) -> float | None:
    """Return the most rows that the smallest compared group may have; None if nobody counted.

    A question about a SUM has no counts. They follow from her other answers, or from the sum itself
    where each value is known to be at least some number above 0.
    """
    if question.smallest_high is not None:
        return question.smallest_high
    query = read(
        charge_of(store, tables, analyst, question.reference).query, tables[question.table].schema
    )
    counts = [
        Aggregate(Function.COUNT, target.aggregate.value, target.aggregate.filter, "valued"),
        Aggregate(Function.COUNT, None, target.aggregate.filter, "rows"),
        Aggregate(Function.COUNT, None, EVERY, "all"),
    ]
    found = [_most(question, query, count, analyst, store, cache) for count in counts]
    low, high = (float(end * target.step) for end in target.bounds)
    least = max(low, -high)
    if least > 0:
        total = replace(target.aggregate, alias="total")
        found.append(_most(question, query, total, analyst, store, cache) / least)
    most = min(found)
    return most if math.isfinite(most) else None


def _most(
    question: Question,
    query: Query,
    aggregate: Aggregate,
    analyst: str,
    store: Store,
    cache: ReleaseCache,
) -> float:
    """Return the largest size of an aggregate in the compared group where that is smallest."""
    asked = replace(query, aggregates=(aggregate,), derived=(), having=None, order=(), limit=None)
    try:
        inferred = infer("", asked, read_options({}), cache.known(store, [analyst], query.table))
    except RequestError:
        return math.inf
    (numbers,) = inferred.aggregates
    places = [inferred.groups.index(group) for group in question.groups]
    return min(max(0.0, -numbers.low[i], numbers.high[i]) for i in places)
