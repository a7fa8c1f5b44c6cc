"""The meaning of one statement: immutable, checked against the schema, without any data in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dpnb.scale import Interval


@dataclass(frozen=True, slots=True)
class Within:
    """True for rows whose normalised value of ``column`` lies in one of the intervals of codes.

    Missing values satisfy it only when ``null`` is true (``IS NULL``).
    """

    column: str
    intervals: tuple[Interval, ...]
    null: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """True when every part is true; ``And(())`` is always true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True when some part is true; ``Or(())`` is never true."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Within | And | Or
"""A two-valued predicate in negation normal form.

SQL's three-valued logic keeps exactly the rows where the normal form is true: NOT moves inwards by
De Morgan's laws, which hold with NULL, and each atom names the non-missing values that satisfy it.
"""

EVERY = And(())
NONE = Or(())

Function: TypeAlias = Literal["COUNT", "SUM", "AVG"]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of the SELECT list.

    ``column`` is None for ``COUNT(*)``. ``filter`` is the predicate of FILTER (WHERE ...).
    """

    function: Function
    column: str | None
    filter: Predicate
    alias: str


@dataclass(frozen=True, slots=True)
class Key:
    """One GROUP BY column and the name under which it is shown."""

    column: str
    alias: str


@dataclass(frozen=True, slots=True)
class Order:
    """One ORDER BY term: the alias of a key or aggregate."""

    alias: str
    descending: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """One HAVING condition: an aggregate compared with a constant (int or float)."""

    aggregate: Aggregate
    operator: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Junction:
    """AND, OR or NOT of HAVING conditions."""

    operator: Literal["AND", "OR", "NOT"]
    parts: tuple[Having, ...]


Having: TypeAlias = Compare | Junction


@dataclass(frozen=True, slots=True)
class Query:
    """One validated statement over one table.

    ``order`` and ``limit`` act on released rows and cost nothing; ``having`` is meaning only and
    is not answered by ``query``.
    """

    table: str
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    where: Predicate = EVERY
    having: Having | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
