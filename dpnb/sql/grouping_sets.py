"""GROUPING SETS, ROLLUP and CUBE: one SELECT for each set of keys, combined as by UNION ALL.

A key that a set leaves out is NULL in whatever is computed from it. Where it is shown, a mark takes
its place, which no group has (``dpnb.sql.union``). ``GROUPING`` is a constant in each SELECT.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import expressions as exp

from dpnb.errors import SqlError
from dpnb.schema.table import Table
from dpnb.sql.conjuncts import conjunction, conjuncts
from dpnb.sql.constants import Constants, is_constant
from dpnb.sql.grouped import CLOSED, alike, columns_of, key_of, outside, replaced
from dpnb.sql.names import folded, own_nodes
from dpnb.sql.quoting import MOST_LETTERS, expression_name
from dpnb.sql.source import Node, Source, bare
from dpnb.sql.spellings import marked, positioned, unaliased

MOST_SETS = 20
"""Largest number of sets of keys in one statement."""
PLACE = "place"
"""What a column of ORDER BY says in its ``meta``: the place of the column of the lines that it means."""
_MARKS = (exp.Grouping, exp.GroupingId)
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_CLAUSES = {
    "distinct": ("DISTINCT drops equal lines", "Leave DISTINCT out."),
    "qualify": ("QUALIFY does not go over several sets of keys", "Write one statement for each set."),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupingSets:
    """The SELECTs of a statement, one for each set of keys; a statement without sets is its only one.

    Attributes
    ----------
    selects : tuple of Select
    whole : Select
        Has the ORDER BY, LIMIT and OFFSET of all lines together.
    dropped : tuple of frozenset of int
        For each SELECT, the places of the columns that are keys which its set leaves out.
    unshown : int
        How many columns at the end only ORDER BY needs.
    """

    selects: tuple[exp.Select, ...]
    whole: exp.Select
    dropped: tuple[frozenset[int], ...] = (frozenset(),)
    unshown: int = 0


def grouping_sets(
    source: Source, tables: Mapping[str, Table], select: exp.Select, constants: Constants
) -> GroupingSets:
    """Return one SELECT for each set of keys that GROUP BY asks for.

    Raises
    ------
    SqlError
        If there are too many, or a clause compares their lines with each other.
    """
    group = select.args.get("group")
    if group is not None and group.args.get("rollup"):
        source.refuse("WITH ROLLUP is not supported", "Write GROUP BY ROLLUP (a, b).", group, "ROLLUP")  # fmt: skip
    keys = [] if group is None else group.expressions
    if not any(isinstance(key, _SETS) for key in keys) and not any(_marks(select)):
        return GroupingSets((select,), select)
    return _Reader(source, tables, select, constants).read(keys)


def _marks(select: exp.Select) -> Iterator[Node]:
    """Yield the GROUPINGs of a SELECT, without those of queries in it."""
    clauses = (select.args.get(name) for name in ("having", "order", "qualify"))
    for clause in (*select.expressions, *clauses):
        if clause is not None:
            yield from (node for node in own_nodes(clause) if isinstance(node, _MARKS))


class _Reader:
    """Reader of one SELECT that groups by several sets."""

    def __init__(
        self,
        source: Source,
        tables: Mapping[str, Table],
        select: exp.Select,
        constants: Constants,
    ) -> None:
        self.source = source
        self.refuse = source.refuse
        self.select = select
        self.constants = constants
        self.columns = columns_of(select, tables, {})
        self.items: list[Node] = list(select.expressions)
        self.keys: list[Node] = []

    def read(self, grouped: Sequence[Node]) -> GroupingSets:
        sets = [self._places(one) for one in self._product(grouped)]
        left = [frozenset(range(len(self.keys))) - one for one in sets]
        having = [self._having(one) for one in left]
        kept = [(one, tests) for one, tests in zip(left, having, strict=True) if tests is not None]
        if not kept:
            self.refuse("HAVING leaves no set of keys", "Leave its condition on them out.", self.select.args["having"])  # fmt: skip
        if len(kept) == 1 and not kept[0][0]:
            select = self._select(*kept[0])
            if select.args.get("order"):
                select.set("order", self._order(select.args["order"]))
            return GroupingSets((select,), select)
        self._check()
        shown = [part for item in self.items for part in outside(unaliased(item))]
        hidden = [key for key in self.keys if self._place(key, shown) is None]
        self.items = [*(key.copy() for key in hidden), *self.items]
        listed = len(self.items)
        whole = self._whole(len(hidden))
        selects: list[exp.Select] = []
        dropped: list[frozenset[int]] = []
        for places, tests in kept:
            select = self._select(places, tests)
            for clause in ("order", "limit", "offset"):
                select.set(clause, None)
            selects.append(select)
            found = (p for p, item in enumerate(self.items) if self._is_dropped(item, places))
            dropped.append(frozenset(found))
        return GroupingSets(tuple(selects), whole, tuple(dropped), len(self.items) - listed)

    def _check(self) -> None:
        """Refuse what compares the lines of several sets with each other."""
        for name, refusal in _CLAUSES.items():
            if self.select.args.get(name):
                self.refuse(*refusal, self.select.args[name], name.upper())
        for clause in (*self.items, self.select.args.get("order")):
            window = None if clause is None else clause.find(exp.Window)
            if window is not None:
                self.refuse(
                    "windows do not go over several sets of keys",
                    "Write one statement for each set of keys.",
                    window,
                )

    # sets of keys

    def _product(self, grouped: Sequence[Node]) -> list[list[Node]]:
        """Return the sets of all entries of GROUP BY: each of one with each of the others."""
        lists = [self._sets(node) for node in grouped]
        self._limit(math.prod(map(len, lists)), grouped[0] if grouped else self.select)
        return [[key for part in parts for key in part] for parts in itertools.product(*lists)]

    def _sets(self, node: Node) -> list[list[Node]]:
        """Return the sets that one entry of GROUP BY stands for."""
        if isinstance(node, exp.GroupingSets):
            return [one for part in node.expressions for one in self._sets(part)]
        if isinstance(node, exp.Rollup):
            parts = [self._keys(part) for part in node.expressions]
            self._limit(len(parts) + 1, node)
            return [[key for part in parts[:end] for key in part] for end in range(len(parts), -1, -1)]  # fmt: skip
        if isinstance(node, exp.Cube):
            parts = [self._keys(part) for part in node.expressions]
            self._limit(2 ** len(parts), node)
            return [
                [key for part in some for key in part]
                for size in range(len(parts), -1, -1)
                for some in itertools.combinations(parts, size)
            ]
        return [self._keys(node)]

    def _keys(self, node: Node) -> list[Node]:
        """Return the keys of one entry: of brackets those in them."""
        node = bare(node)
        nodes = node.expressions if isinstance(node, exp.Tuple) else [node]
        return [self._key(bare(one)) for one in nodes]

    def _key(self, node: Node) -> Node:
        return key_of(self.source, self.select, self.columns, node)

    def _places(self, keys: Sequence[Node]) -> frozenset[int]:
        """Return the places of a set's keys among all keys, to which new ones are added."""
        places: set[int] = set()
        for key in keys:
            place = self._place(key, self.keys)
            if place is None:
                place = len(self.keys)
                self.keys.append(key)
            places.add(place)
        return frozenset(places)

    @staticmethod
    def _place(node: Node, among: Sequence[Node]) -> int | None:
        return next((place for place, one in enumerate(among) if alike(node, one)), None)

    def _limit(self, count: int, node: Node) -> None:
        if count > MOST_SETS:
            self.refuse(
                f"this makes {count:,} sets of keys, more than {MOST_SETS}",
                "Write GROUPING SETS ((a, b), (a), ()) with the sets that you need.",
                node,
            )

    def _grouping(self, mark: Node, left: Collection[int]) -> int:
        """Return the value of GROUPING: a bit for each argument, 1 for a key that is left out."""
        value = 0
        for one in mark.expressions:
            place = self._place(one, self.keys)
            if place is None:
                self.refuse("GROUPING takes group columns", "Name a column of GROUP BY.", one)
            value = 2 * value + (place in left)
        return value

    # one SELECT

    def _select(self, left: Collection[int], having: Sequence[Node]) -> exp.Select:
        """Return the SELECT of a set that leaves some keys out."""
        result: exp.Select = self.select.copy()
        group = [key.copy() for place, key in enumerate(self.keys) if place not in left]
        result.set("expressions", [self._item(item, left) for item in self.items])
        result.set("group", exp.Group(expressions=group) if group else None)
        result.set("having", exp.Having(this=conjunction(having)) if having else None)
        return result

    def _order(self, order: Node) -> Node | None:
        """Return the ORDER BY of a single set, without what is the same for all groups."""
        terms = [
            self._without(term, (), {})
            for term in order.expressions
            if not isinstance(term.this, _MARKS)
        ]
        return exp.Order(expressions=terms) if terms else None

    def _is_dropped(self, item: Node, left: Collection[int]) -> bool:
        return self._place(unaliased(item), self.keys) in left

    def _item(self, item: Node, left: Collection[int]) -> Node:
        """Return an entry of the SELECT list; a key that is left out is NULL."""
        value = self._without(item, left, {})
        if not self._is_dropped(item, left) or isinstance(item, exp.Alias):
            return value
        key = unaliased(item)
        text = (
            key.name
            if isinstance(key, exp.Column)
            else expression_name(key, alone=not self.select.args.get("joins"))[:MOST_LETTERS]
        )
        return exp.Alias(this=value, alias=exp.to_identifier(text, quoted=True))

    def _without(self, node: Node, left: Collection[int], aliases: Mapping[str, Node]) -> Node:
        """Return a copy of an expression with NULL for keys that are left out.

        ``aliases`` are names that may stand for keys, with what they name.
        """

        def new(part: Node) -> Node | None:
            if isinstance(part, _MARKS):
                return self._in_place_of(part, exp.Literal.number(self._grouping(part, left)))
            place = self._place(part, self.keys)
            if place is None and isinstance(part, exp.Column) and not part.table:
                place = self._place(aliases.get(folded(part.name), part), self.keys)
            return self._in_place_of(part, exp.Null()) if place in left else None

        result = exp.Paren(this=replaced(node.copy(), new))
        # operators on NULL are NULL: parts before what they are parts of
        for part in reversed([*outside(result.this)]):
            if is_constant(part) and part.find(exp.Null):
                part.replace(exp.Null())
        return result.this

    def _in_place_of(self, node: Node, found: Node) -> Node:
        """Return a node that errors show where another one was written."""
        return marked(found, self.source.span(node))

    def _having(self, left: Collection[int]) -> list[Node] | None:
        """Return what HAVING asks of the lines of a set; None if none can satisfy it."""
        having = self.select.args.get("having")
        if having is None:
            return []
        names = {folded(item.alias): unaliased(item) for item in self.items if isinstance(item, exp.Alias)}  # fmt: skip
        kept: list[Node] = []
        for part in conjuncts(having.this):
            test = self._without(part, left, names)
            if test.find(exp.Column, exp.AggFunc) is None:
                try:
                    truth = self._truth(test)
                except SqlError:
                    pass
                else:
                    if not truth:
                        return None
                    continue
            kept.append(test)
        return kept

    def _truth(self, test: Node) -> bool | None:
        """Return whether a condition without columns holds; None if it is NULL.

        Raises
        ------
        SqlError
            If it is not made of constants alone.
        """
        if isinstance(test, exp.Paren):
            return self._truth(test.this)
        if isinstance(test, exp.Not):
            inverse = self._truth(test.this)
            return None if inverse is None else not inverse
        if isinstance(test, exp.And | exp.Or):
            parts = {self._truth(part) for part in (test.this, test.expression)}
            decisive = isinstance(test, exp.Or)
            return decisive if decisive in parts else None if None in parts else not decisive
        if isinstance(test, exp.Is) and isinstance(test.expression, exp.Null):
            return isinstance(bare(test.this), exp.Null)
        if isinstance(test, exp.In) and test.expressions:
            parts = {self._truth(exp.EQ(this=test.this.copy(), expression=one.copy())) for one in test.expressions}  # fmt: skip
            return True if True in parts else None if None in parts else False
        return self.constants.truth(test)

    # the lines of all sets

    def _whole(self, added: int) -> exp.Select:
        """Return the order and the limits of all lines, after some keys are added to the columns."""
        order = self.select.args.get("order")
        clauses = {name: self.select.args.get(name) for name in ("limit", "offset")}
        result = exp.Select(expressions=[exp.Star()], **clauses)
        terms: list[Node] = []
        listed = len(self.items)
        for term in order.expressions if order is not None else ():
            inner = term.this
            item = positioned(self.source, self.select.expressions, inner, "ORDER BY")
            if isinstance(inner, exp.Var) and inner.name.upper() == "ALL":
                meant = [self._line(place) for place in range(added, listed)]
            elif item is not None:
                meant = [self._line(int(inner.this) - 1 + added)]
            else:
                meant = [replaced(inner.copy(), self._of_line)]
            for one in meant:
                copy = term.copy()
                copy.set("this", one)
                terms.append(copy)
        if terms:
            result.set("order", exp.Order(expressions=terms))
        return result

    @staticmethod
    def _line(place: int) -> Node:
        """Return the name of a column of the lines, which is known when they are read."""
        column = exp.column(exp.to_identifier("line", quoted=True))
        column.meta[PLACE] = place
        return column

    def _of_line(self, node: Node) -> Node | None:
        """Return the column of the lines that a part of ORDER BY means, which may be a new one."""
        if is_constant(node):
            return None
        if isinstance(node, exp.Column) and not node.table:
            for place, item in enumerate(self.items):
                if isinstance(item, exp.Alias) and folded(item.alias) == folded(node.name):
                    return self._in_place_of(node, self._line(place))
        found = self._place(node, [unaliased(item) for item in self.items])
        if found is None and isinstance(node, exp.Column | CLOSED):
            found = len(self.items)
            self.items.append(node.copy())
        return None if found is None else self._in_place_of(node, self._line(found))
