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
from dpnb.schema.predicates import EVERY
from dpnb.schema.table import Table
from dpnb.sql.canonical import read
from dpnb.sql.functions import Function


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

    A question about a SUM has no counts. They follow from the analyst's other answers, or from the sum itself
    where each value is known to be at least some number above 0.
    """
    if question.smallest_high is not None:
        return question.smallest_high
    query = read(
        charge_of(store, tables, analyst, question.reference).query, tables[question.table].schema
    )
    aggregate = target.aggregate
    count = replace(aggregate, function=Function.COUNT, alias="valued")
    rows = replace(count, value=None, alias="rows")
    sought = [count, rows, replace(rows, filter=EVERY, alias="all")]
    low, high = (float(end * target.step) for end in target.bounds)
    least = max(low, -high)
    if least > 0:
        sought.append(replace(aggregate, alias="total"))
    known = replace(query, aggregates=tuple(sought), derived=())
    try:
        inferred = infer("", known, read_options({}), cache.known(store, [analyst], query.table))
    except RequestError:
        return None
    places = [inferred.groups.index(group) for group in question.groups]
    most = math.inf
    for numbers in inferred.aggregates:
        sizes = [max(0.0, -numbers.low[i], numbers.high[i]) for i in places]
        most = min(most, min(sizes) / (least if numbers.alias == "total" else 1.0))
    return most if math.isfinite(most) else None
