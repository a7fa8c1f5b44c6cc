"""What a statement groups by: columns, and expressions of one column."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

from sqlglot import expressions as exp

from dpnb.codes import Interval, Steps
from dpnb.errors import SqlError
from dpnb.schema.columns import Kind
from dpnb.schema.joins import own_name
from dpnb.schema.partition import Label, Partition, declared, grouped
from dpnb.schema.predicates import EVERY, Predicate
from dpnb.sql import shown
from dpnb.sql.conditions import Conditions
from dpnb.sql.domains import coarser
from dpnb.sql.narrowing import codes_of
from dpnb.sql.outputs import Plain
from dpnb.sql.query import MAX_CELLS, Key
from dpnb.sql.quoting import MOST_LETTERS, expression_name
from dpnb.sql.shown import Field, Renamed
from dpnb.sql.source import Node, bare, others

Outputs: TypeAlias = Steps[Plain]
Groups: TypeAlias = tuple[str, Partition, Sequence[Label], Sequence[int]]
"""A column, groups of it, what they are called in order, and the number of each of these."""


class Keys:
    """The keys of one statement, in the order of GROUP BY; each has its default name.

    ``rows`` is the condition of WHERE.
    """

    def __init__(self, conditions: Conditions, group: Node | None, rows: Predicate = EVERY) -> None:
        self._conditions, self._refuse, self._rows = conditions, conditions.refuse, rows
        self._functions: list[tuple[str, Outputs] | None] = []
        """The column and the outputs of each key that is an expression."""
        self._written: list[tuple[str, Outputs | None]] = []
        """The column and the outputs of all that GROUP BY names; None for columns."""
        self.keys: tuple[Key, ...] = ()
        if group is not None:
            self._read(group)

    def _read(self, group: Node) -> None:
        if others(group.args, "expressions"):
            self._refuse("GROUP BY takes columns and expressions", "Write GROUP BY a, b.", group)
        for node in group.expressions:
            if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                word = node.key.upper().replace("GROUPINGSETS", "GROUPING SETS")
                self._refuse(
                    f"{word} is not supported in FROM",
                    "Write it in the outermost SELECT, or one statement for each set of columns.",
                    node,
                    word,
                )
            if self.place(node) is not None:
                # SQL allows to name a key twice
                continue
            key = self._column(node) if isinstance(node, exp.Column) else self._expression(node)
            column, outputs = self._functions[-1] or (key.partition.column, None)
            self._written.append((column, outputs))
            if any(_follows(key, other) for other in self.keys):
                self._functions.pop()
                continue
            self._leave_out([_follows(other, key) for other in self.keys])
            self.keys = (*self.keys, key)
            cells = math.prod(one.partition.size for one in self.keys)
            self._limit(cells, group)

    def _leave_out(self, gone: Sequence[bool]) -> None:
        """Leave out keys that a later one determines."""
        left = [place for place, drop in enumerate(gone) if not drop]
        self.keys = tuple(self.keys[place] for place in left)
        self._functions = [self._functions[place] for place in (*left, -1)]

    def _codes(self, column: str) -> Sequence[Interval]:
        """Return codes that contain a column's in the rows that satisfy WHERE."""
        return codes_of(self._rows, column, self._conditions.schema[column])

    def _limit(self, size: int, node: Node, column: str = "") -> None:
        if size > MAX_CELLS:
            wider = "x // 10"
            if column:
                wider = coarser(self._conditions.schema[column], str(node.sql(dialect="duckdb")))
            self._refuse(
                f"this makes {size:,} groups, more than {MAX_CELLS:,}",
                f"Group by fewer columns, or make groups wider: declare bins, or write {wider}.",
                node,
            )

    def _column(self, node: Node) -> Key:
        column = self._conditions.column(node)
        if self._conditions.scope.computed(column) is not None:
            self._functions.append(None)
            return self._own(column)
        size = declared(column, self._conditions.schema).size
        if size == 0:
            made = coarser(self._conditions.schema[column], str(node.sql(dialect="duckdb")))
            self._refuse(
                f"{self._conditions.scope.spelled(column)!r} has no declared groups",
                f"Declare bins for it in the schema, or write {made}.",
                node,
            )
        self._limit(size, node, column)
        self._functions.append(None)
        return self._own(column)

    def _own(self, column: str) -> Key:
        """Return the key of a column's own groups."""
        computed = self._conditions.scope.computed(column)
        if computed is None:
            return Key.of(column, own_name(column), self._conditions.schema)
        groups = _groups(column, computed.kind, computed.own)
        return Key(groups[0], own_name(column), *groups[1:], column)

    def _expression(self, node: Node) -> Key:
        if not self._conditions.is_expression(node):
            self._conditions.check_names(node)
            self._refuse(
                "GROUP BY takes columns and expressions of one column",
                "Compute from one column: FLOOR(age / 10), CASE WHEN age < 30 THEN 'young' END.",
                node,
            )
        column, outputs, _ = self._conditions.domains.outputs(node, self._codes)
        kind, alone = self._conditions.schema[column], len(self._conditions.scope.relations) == 1
        text = expression_name(node, alone=alone)
        partition, labels, order = _groups(column, kind, outputs)
        if not labels:
            self._refuse("this is NULL for every value", "Write another expression.", node)
        self._functions.append((column, outputs))
        return Key(partition, text[:MOST_LETTERS], labels, order, text)

    def place(self, node: Node) -> int | None:
        """Return the place of the key that a node is, or None.

        A node is a key that is an expression if it has the same outputs.
        """
        node = bare(node)
        if isinstance(node, exp.Column):
            named = {name for _, name in self._conditions.scope.find(node.name, node.table or None)}
            for place, key in enumerate(self.keys):
                if self._functions[place] is None and {key.partition.column} == named:
                    return place
            return None
        found = self._outputs(node, [one[0] for one in self._functions if one is not None])
        for place, other in enumerate(self._functions):
            if found is not None and other == found and _types(other[1]) == _types(found[1]):
                return place
        return None

    def _outputs(self, node: Node, columns: Collection[str]) -> tuple[str, Outputs] | None:
        """Return one of some columns and the outputs of an expression of it; None for others."""
        if not columns or not self._conditions.is_expression(node):
            return None
        named = self._conditions.columns(node)
        if not named <= {*columns} or node.find(exp.AggFunc, exp.Window, exp.Query) is not None:
            return None
        try:
            column, outputs, _ = self._conditions.domains.outputs(node, self._codes)
        except SqlError:
            return None
        return column, outputs

    def _named(self, node: Node) -> Groups | None:
        """Return the groups of a column that GROUP BY names, or of an expression of one; None for others."""
        if isinstance(node, exp.Column):
            columns = self._conditions.columns(node)
            if len(columns) != 1 or (*columns, None) not in self._written:
                return None
            own = self._own(*columns)
            return own.partition.column, own.partition, own.labels, own.order
        found = self._outputs(node, [column for column, _ in self._written])
        if found is None:
            return None
        column, outputs = found
        if (column, None) not in self._written and found not in self._written:
            return None
        return column, *_groups(column, self._conditions.schema[column], outputs)

    def determined(self, node: Node) -> Renamed | None:
        """Return what an expression of what GROUP BY names is in each group of a key.

        None if it has several values in a group, or GROUP BY names neither it nor its column.
        """
        named = self._named(bare(node))
        if named is None:
            return None
        column, partition, labels, order = named
        names = dict(zip(order, labels, strict=True))
        for place, key in enumerate(self.keys):
            into = key.partition.finer(partition) if key.partition.column == column else None
            if into is not None and labels:
                values = {
                    label: names.get(int(into[number]))
                    for label, number in zip(key.labels, key.order, strict=True)
                }
                return Renamed(
                    Field(place, kind_of_labels(key.labels), False), values, kind_of_labels(labels)
                )
        return None


def _types(outputs: Outputs) -> tuple[type, ...]:
    return (*map(type, outputs.outputs), type(outputs.null))


def _follows(key: Key, other: Key) -> bool:
    """Return whether each group of another key lies in one group of a key, and in no other."""
    if key.partition.column != other.partition.column:
        return False
    into = other.partition.finer(key.partition)
    return into is not None and bool((into >= 0).all())


def kind_of_labels(labels: Sequence[Label]) -> shown.Kind:
    """Return what labels are: truths, numbers or texts."""
    if all(isinstance(label, bool) for label in labels):
        return shown.Kind.TRUTH
    numbers = all(isinstance(label, int | float) for label in labels)
    return shown.Kind.NUMBER if numbers else shown.Kind.TEXT


def _groups(
    column: str, kind: Kind, outputs: Outputs
) -> tuple[Partition, tuple[Label, ...], tuple[int, ...]]:
    """Return the groups of equal outputs, their labels in SQL's order, and the number of each."""
    # 1 equals TRUE, and is called otherwise
    return _typed_groups(column, kind, outputs, _types(outputs))


@lru_cache(maxsize=64)
def _typed_groups(
    column: str, kind: Kind, outputs: Outputs, types: tuple[type, ...]
) -> tuple[Partition, tuple[Label, ...], tuple[int, ...]]:
    null = () if outputs.null is None else (outputs.null,)
    different = tuple(dict.fromkeys((*outputs.outputs, *null)))
    order = tuple(sorted(range(len(different)), key=different.__getitem__))
    labels = _labels([different[number] for number in order])
    return grouped(column, {column: kind}, outputs), labels, order


def _labels(outputs: Sequence[Plain]) -> tuple[Label, ...]:
    """Return outputs as labels: whole numbers without decimals, dates as texts."""
    if all(isinstance(one, bool) for one in outputs):
        return tuple(map(bool, outputs))
    numbers = [one for one in outputs if isinstance(one, int | float | Decimal)]
    if len(numbers) == len(outputs):
        whole = all(float(number).is_integer() for number in numbers)
        return tuple(map(int if whole else float, numbers))
    return tuple(map(str, outputs))
