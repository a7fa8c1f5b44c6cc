"""The meaning of one statement: immutable, checked against the schema, without any data in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from dpnb.scale import Interval

if TYPE_CHECKING:
    from dpnb.sql.formulas import Formula
    from dpnb.sql.values import Value


@dataclass(frozen=True, slots=True)
class Within:
    """True for rows whose normalised value of ``column`` lies in one of the intervals of codes.

    Missing values satisfy it only when ``null`` is true (``IS NULL``).
    """

    column: str
    intervals: tuple[Interval, ...]
    null: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """The columns in use."""
        return frozenset((self.column,))


@dataclass(frozen=True, slots=True)
class And:
    """True when every part is true; ``And(())`` is always true."""

    parts: tuple[Predicate, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns in use."""
        return frozenset[str]().union(*(part.columns for part in self.parts))


@dataclass(frozen=True, slots=True)
class Or:
    """True when some part is true; ``Or(())`` is never true."""

    parts: tuple[Predicate, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns in use."""
        return frozenset[str]().union(*(part.columns for part in self.parts))


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
    """One aggregate.

    ``value`` is what it aggregates, None for ``COUNT(*)``. ``filter`` is the predicate of FILTER
    (WHERE ...).
    """

    function: Function
    value: Value | None
    filter: Predicate
    alias: str

    @property
    def columns(self) -> frozenset[str]:
        """The columns of ``value``, those in CASE conditions included; not those of ``filter``."""
        return frozenset() if self.value is None else self.value.columns

    def means(self, other: Aggregate) -> bool:
        """Whether two aggregates are the same but for their names."""
        own = (self.function, self.value, self.filter)
        return own == (other.function, other.value, other.filter)


@dataclass(frozen=True, slots=True)
class Derived:
    """One column of the SELECT list that is computed from aggregates.

    ``formula`` names its aggregates by their place in ``leaves``, which are all different; ``place``
    is the column's own place among the aggregates and derived columns of the statement.
    """

    formula: Formula
    leaves: tuple[Aggregate, ...]
    alias: str
    place: int


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

    ``aggregates`` and ``derived`` are the columns of the SELECT list. ``order`` and ``limit`` act on released rows and cost nothing; ``having`` is meaning only and
    is not answered by ``query``.
    """

    table: str
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    where: Predicate = EVERY
    having: Having | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    derived: tuple[Derived, ...] = ()

    @property
    def outputs(self) -> tuple[Aggregate | Derived, ...]:
        """Aggregates and derived columns in the order of the SELECT list."""
        found: list[Aggregate | Derived] = list(self.aggregates)
        for column in self.derived:
            found.insert(column.place, column)
        return tuple(found)

    @property
    def measured(self) -> tuple[Aggregate, ...]:
        """All aggregates that are measured: those shown, then those only in derived columns."""
        found = list(self.aggregates)
        for column in self.derived:
            found += [
                leaf for leaf in column.leaves if not any(leaf.means(other) for other in found)
            ]
        return tuple(found)
