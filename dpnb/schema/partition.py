"""Public groups of the codes of a column: its declared values, bins or codes, or those of an expression.

A group is a list of intervals of codes, and perhaps the missing values. Groups are numbered from 0
by their least codes. Nothing else reads the groups of a column.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.codes import Code, Interval, Periodic, StepFunction, Steps, read_steps
from dpnb.errors import SchemaError
from dpnb.schema.columns import Category, Kind, Real
from dpnb.schema.predicates import Within
from dpnb.schema.timestamps import Date, Timestamp, code_of, text_of
from dpnb.schema.types import Boolean

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]

Label: TypeAlias = str | int | float | bool
"""What a group is called in results."""


@dataclass(frozen=True)
class Partition:
    """Groups of the codes of one column.

    Two partitions of a column are equal if they have the same groups, whatever these are called.

    Parameters
    ----------
    column : str
        A column of the schema, declared or looked up.
    steps : StepFunction, Periodic or None
        From a code to the number of its group; a code without output is in none. None stands for
        the column's own groups: its declared values, its bins, or else each code.
    kind : Kind
        The kind of the column.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> age = declared("age", {"age": Integer(17, 90, bins=[17, 30, 90])})
    >>> age.size, age.within(1)
    (2, Within(column='age', intervals=((31, 90),), null=False, period=None))
    """

    column: str
    steps: Steps[int] | None
    kind: Kind = field(compare=False, repr=False)

    @property
    def declared(self) -> bool:
        """Whether the groups are the column's own."""
        return self.steps is None

    @cached_property
    def numbers(self) -> StepFunction[int]:
        """From a code to the number of its group, each repetition written out."""
        if self.steps is not None:
            return self.steps.over(self.kind.scale)
        return StepFunction(
            (low, high, number) for number, (low, high) in enumerate(_intervals(self.kind))
        )

    @property
    def null(self) -> int | None:
        """The number of the group of missing values; None if they are in none."""
        return None if self.steps is None else self.steps.null

    @property
    def is_total(self) -> bool:
        """Whether every value that is not missing is in a group."""
        scale = self.kind.scale
        return (self.numbers if self.steps is None else self.steps).covers(scale)

    @cached_property
    def size(self) -> int:
        """Number of groups; 0 if none are declared."""
        if self.steps is None:
            return _count(self.kind)
        return 1 + max([-1 if self.null is None else self.null, *self.steps.outputs])

    @cached_property
    def groups(self) -> tuple[tuple[Interval, ...], ...]:
        """The intervals of codes of each group."""
        groups: list[list[Interval]] = [[] for _ in range(self.size)]
        for low, high, number in self.numbers.pieces:
            groups[number].append((low, high))
        return tuple(map(tuple, groups))

    def within(self, number: int) -> Within:
        """Return the condition that a row is in a group."""
        if isinstance(self.steps, Periodic):
            codes = self.steps.steps.where(number)
            return Within(self.column, codes, self.null == number, self.steps.period)
        return Within(self.column, self.groups[number], self.null == number)

    @property
    def order(self) -> Any:
        """By what the partitions of a view are sorted."""
        if self.steps is None:
            return self.column, 0, (), -1
        null = -1 if self.steps.null is None else self.steps.null
        if isinstance(self.steps, Periodic):
            return self.column, self.steps.period, self.steps.steps.pieces, null
        return self.column, 0, self.steps.pieces, null

    @cached_property
    def arrays(self) -> tuple[Any, Any, Ints]:
        """Least code, greatest code and group of each interval, shape (pieces,), ascending."""
        import numpy as np

        pieces = self.numbers.pieces
        lows, highs, numbers = zip(*pieces, strict=True) if pieces else ((), (), ())
        return np.array(lows), np.array(highs), np.array(numbers, np.int64)

    def of(self, codes: npt.NDArray[Any]) -> Ints:
        """Return the group of each code, -1 for none."""
        return self._in_one(codes, codes)[0]

    def _in_one(self, starts: npt.NDArray[Any], stops: npt.NDArray[Any]) -> tuple[Ints, bool]:
        """Return the group that each interval meets, -1 for none, and whether a group ends in one."""
        import numpy as np

        lows, highs, numbers = self.arrays
        if not len(lows):
            return np.full(len(starts), -1, np.int64), False
        first = np.minimum(np.searchsorted(highs, starts), len(highs) - 1)
        met = (lows[first] <= stops) & (highs[first] >= starts)
        cut = met & ((lows[first] > starts) | (highs[first] < stops))
        return np.where(met, numbers[first], -1), bool(cut.any())

    def finer(self, other: Partition) -> Ints | None:
        """Return the group of another partition of the column that each group lies in.

        -1 stands for none of them. The result is None if a group lies in several, or only a part of
        it in one.
        """
        import numpy as np

        starts, stops, numbers = self.arrays
        found, cut = other._in_one(starts, stops)
        if cut:
            return None
        if self.null is not None:
            numbers = np.append(numbers, self.null)
            found = np.append(found, -1 if other.null is None else other.null)
        result = np.full(self.size, -1, np.int64)
        result[numbers] = found
        return result if (result[numbers] == found).all() else None

    def plain(self) -> Any:
        """Return the groups as plain data (JSON): the column's name if they are its own.

        Others are ``[column, [[low, high, number], ...]]``, with the number of the group of missing
        values at the end if there is one. Groups that repeat are ``{"period": ..., "pieces": ...}``,
        whose codes are remainders.
        """
        if self.steps is None:
            return self.column
        null = [] if self.steps.null is None else [self.steps.null]
        return [self.column, self.steps.plain(int), *null]


def declared(column: str, kinds: Mapping[str, Kind]) -> Partition:
    """Return a column's own groups."""
    return _declared(column, kinds[column])


@lru_cache(maxsize=512)
def _declared(column: str, kind: Kind) -> Partition:
    return Partition(column, None, kind)


def grouped(column: str, kinds: Mapping[str, Kind], outputs: Steps[Any]) -> Partition:
    """Return the groups of codes with equal outputs, numbered by their least codes.

    A code without output is in no group. Groups that are the column's own are these.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> kinds = {"n": Integer(0, 3)}
    >>> grouped("n", kinds, StepFunction([(0, 0, "a"), (1, 2, "b"), (3, 3, "a")])).plain()
    ['n', [[0, 0, 0], [1, 2, 1], [3, 3, 0]]]
    >>> grouped("n", kinds, StepFunction([(n, n, n % 9) for n in range(4)])).plain()
    'n'
    """
    seen: list[Hashable] = [*outputs.outputs]
    if outputs.null is not None:
        seen.append(outputs.null)
    numbers = {output: number for number, output in enumerate(dict.fromkeys(seen))}
    return _partition(column, kinds, outputs.then(numbers.__getitem__))


def read(data: Any, kinds: Mapping[str, Kind]) -> Partition:
    """Build a partition from the data of :meth:`Partition.plain`."""
    if isinstance(data, str):
        return declared(data, kinds)
    column, steps, *null = data
    return _partition(str(column), kinds, read_steps(steps, int, *(null or [None])))


def _partition(column: str, kinds: Mapping[str, Kind], steps: Steps[int]) -> Partition:
    made = Partition(column, steps, kinds[column])
    if isinstance(steps, Periodic):
        # a column's own groups do not repeat
        return made
    own = declared(column, kinds)
    return own if own.size == made.size > 0 and own.numbers == steps else made


def column_of(data: Any) -> str:
    """Return the column of a partition from the data of :meth:`Partition.plain`."""
    return data if isinstance(data, str) else str(data[0])


def present(data: Any) -> list[Any]:
    """Return the condition, in plain form, that a row is in a group of a partition in plain form.

    Of a column's own groups, and of those that repeat, it says only that the value is not missing.
    """
    if isinstance(data, str):
        return [data, [[-math.inf, math.inf]], False]
    column, pieces, *null = data
    if isinstance(pieces, dict):
        return [column, [[-math.inf, math.inf]], bool(null)]
    covered = StepFunction((low, high, True) for low, high, _ in pieces)
    return [column, covered.where(True), bool(null)]


@lru_cache(maxsize=512)
def labels(kind: Kind) -> tuple[Label, ...]:
    """Return what a column's own groups are called, in order.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> labels(Integer(17, 90, bins=[17, 30, 90])), labels(Integer(1, 3))
    (('[17, 30]', '(30, 90]'), (1, 2, 3))
    """
    if isinstance(kind, Category | Boolean):
        return kind.values
    if kind.bins is not None:
        pairs = enumerate(itertools.pairwise(kind.bins))
        return tuple(f"{'(' if i else '['}{low}, {high}]" for i, (low, high) in pairs)
    first, last = _whole(kind)
    if isinstance(kind, Date | Timestamp):
        return tuple(text_of(kind, code) for code in range(first, last + 1))
    return tuple(range(first, last + 1))


def _intervals(kind: Kind) -> Sequence[Interval]:
    """Return the codes of each of a column's own groups."""
    if isinstance(kind, Category) or kind.bins is None:
        first, last = _whole(kind)
        return [(code, code) for code in range(first, last + 1)]
    edges: Sequence[Code] = (
        [code_of(kind, edge) for edge in kind.bins]
        if isinstance(kind, Date | Timestamp)
        else kind.bins
    )
    # right-closed; the first bin includes its left end
    starts = [edges[0], *map(kind.scale.next, edges[1:-1])]
    return list(zip(starts, edges[1:], strict=True))


def _whole(kind: Kind) -> tuple[int, int]:
    if isinstance(kind, Real):
        raise SchemaError("a Real column has no groups without bins", "Declare bins=[...] for it.")
    return int(kind.scale.low), int(kind.scale.high)


def _count(kind: Kind) -> int:
    """Return the number of a column's own groups, without listing them."""
    if not isinstance(kind, Category) and kind.bins is not None:
        return len(kind.bins) - 1
    if isinstance(kind, Real):
        return 0
    first, last = _whole(kind)
    return last - first + 1
