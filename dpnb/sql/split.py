"""The split of a statement: its keys and results, which are released, and what it shows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import expressions as exp

from dpnb.errors import nearest
from dpnb.schema.partition import declared
from dpnb.sql.aggregates import Aggregates, holds_result, is_result, same
from dpnb.sql.canonical import unused
from dpnb.sql.keys import Keys, kind_of_labels
from dpnb.sql.listing import Listing
from dpnb.sql.query import MAX_CELLS, Aggregate, Derived, Key
from dpnb.sql.quoting import as_written
from dpnb.sql.scalars import Scalars
from dpnb.sql.shown import Column, Expression, Field, Kind, OuterPart, is_label, parts
from dpnb.sql.source import Node, bare
from dpnb.sql.statistics import is_statistic
from dpnb.sql.unanswered import counted
from dpnb.sql.windows import read_window

_INTERVAL_ENDS = ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH")


@dataclass(slots=True)
class _Result:
    """A released result, and the name that the SELECT list gives it, or its column."""

    output: Aggregate | Derived
    alias: str = ""
    named: bool = False
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """A statement in two parts: what is released, and what is shown of it."""

    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    derived: tuple[Derived, ...]
    shown: OuterPart


class Splitter:
    """Reader of the SELECT list, HAVING, ORDER BY, LIMIT and OFFSET of one statement.

    A decision (``deciding``) computes nothing from results, and has a HAVING of its own. A query in
    FROM (``inner``) shows what it lists, and no other group columns.
    """

    def __init__(
        self, aggregates: Aggregates, keys: Keys, *, deciding: bool = False, inner: bool = False
    ) -> None:
        self.inner = inner
        self.aggregates = aggregates
        self.conditions = aggregates.conditions
        self.refuse = aggregates.refuse
        self.grouped, self.place, self.determined = keys.keys, keys.place, keys.determined
        self.deciding = deciding
        self.results: list[_Result] = []
        self.keys: dict[int, str] = {}
        """The names of the keys in the result, by their places."""
        self.clause = "SELECT"
        self.entries: list[Node] = []
        self.scalars = Scalars(self.conditions, aggregates.arguments, self._leaf)
        self.listing = Listing(self.scalars)

    def read(self, select: exp.Select) -> Split:
        """Read a statement whose FROM and GROUP BY are read."""
        self.listing.define(select)
        self.entries = select.expressions
        for node in self.entries:
            self._entry(node)
        self.clause = "HAVING"
        having = None if self.deciding else self.listing.condition(select.args.get("having"))
        self.clause = "QUALIFY"
        qualify = self.listing.condition(select.args.get("qualify"))
        self.clause = "ORDER BY"
        order = tuple(self.listing.terms(select.args.get("order")))
        distinct = self.listing.distinct(select.args.get("distinct"), allowed=not self.deciding)
        keys = {} if distinct or self.inner else self._all_keys(select)
        shown = OuterPart(
            columns=self._columns(keys),
            having=having,
            qualify=qualify,
            distinct=distinct,
            order=order,
            limit=self.listing.whole(select.args.get("limit"), "LIMIT"),
            offset=self.listing.whole(select.args.get("offset"), "OFFSET") or 0,
        )
        outputs = self._outputs()
        return Split(
            tuple(
                replace(key, alias=self.keys.get(place, key.alias))
                for place, key in enumerate(self.grouped)
            ),
            tuple(output for output in outputs if isinstance(output, Aggregate)),
            tuple(output for output in outputs if isinstance(output, Derived)),
            shown,
        )

    # the SELECT list

    def _entry(self, node: Node) -> None:
        """Read one entry of the SELECT list."""
        inner, alias = self.listing.entry(node)
        if isinstance(inner, exp.Star) or (
            isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
        ):
            self._refuse_rows(node)
        if self._is_end(inner, alias):
            return
        place = self.place(inner)
        if place is not None and not self._is_alias(inner):
            self._key(place, alias, node)
        elif isinstance(inner, exp.Column) and not self._is_alias(inner):
            name = alias or inner.name
            self.listing.show(
                name, self.determined(inner) or self._field(self._grouped(inner)), node
            )
        elif self.deciding or is_result(inner):
            self._result(inner, alias, node)
        else:
            self._computed(inner, alias, node)

    def _is_end(self, node: Node, alias: str) -> bool:
        """Return whether a column is an end of the interval of another, which is shown anyway."""
        if not isinstance(node, exp.Anonymous) or str(node.this).upper() not in _INTERVAL_ENDS:
            return False
        (result,) = node.expressions if len(node.expressions) == 1 else (None,)
        name = result.name.casefold() if isinstance(result, exp.Column) else ""
        column = self.listing.columns.get(name)
        if column is None and result is not None and is_result(result):
            # what an alias stands for
            value = self.scalars.read(result)
            listed = self.listing.columns.values()
            column = next((one for one in listed if one.expression == value), None)
        if column is None or is_label(column.expression):
            self.refuse(
                f"{str(node.this).upper()} takes the name of a result that is listed before",
                "Leave it out: every result has its columns _low and _high.",
                node,
            )
        if alias:
            self.refuse(
                "the ends of an interval have names",
                f"Leave AS out: they are {column.alias}_low and {column.alias}_high.",
                node,
            )
        return True

    def _is_alias(self, node: Node) -> bool:
        """Return whether a name is that of an earlier column of the SELECT list, and no column's."""
        return (
            not self.deciding
            and isinstance(node, exp.Column)
            and not node.table
            and node.name.casefold() in self.listing.columns
            and not self.conditions.scope.find(node.name, None)
        )

    def _key(self, place: int, alias: str, node: Node) -> None:
        key = self.grouped[place]
        name = alias or key.alias
        if place in self.keys and name.casefold() == self.keys[place].casefold():
            # written twice
            return
        if place in self.keys and self.deciding:
            self.refuse(f"{key.text!r} is in the SELECT list twice", "Write it once.", node)
        self.keys.setdefault(place, name)
        self.listing.show(name, self._field(place), node)

    def _grouped(self, node: Node) -> int:
        """Return the place of the key that a node names."""
        column, place = self.conditions.column(node), self.place(node)
        if place is None:
            if not self.grouped and not any(map(holds_result, self.entries)):
                self._refuse_rows(node)
            self.refuse(
                f"{column!r} is not in GROUP BY",
                f"Add it to GROUP BY, or aggregate it: COUNT({self.conditions.written(node)}).",
                node,
            )
        return place

    def _refuse_rows(self, node: Node) -> NoReturn:
        """Refuse a statement that would list the rows."""
        schema = self.conditions.schema
        listed = [item.this if isinstance(item, exp.Alias) else item for item in self.entries]
        columns = [exp.column(exp.to_identifier(name)) for name in schema]
        keys = [one for one in listed if self._has_groups(one)]
        keys = keys or [one for one in columns if self._has_groups(one)][:1]
        self.refuse(
            "rows cannot be listed",
            f"Count them: {counted(node.find_ancestor(exp.Select), *keys)}."
            if keys
            else "Name group columns and aggregates.",
            node,
        )

    def _has_groups(self, node: Node) -> bool:
        """Return whether a node is a column with groups, or an expression of one."""
        if not self.conditions.is_expression(node):
            return False
        name = self.conditions.column(next(node.find_all(exp.Column)))
        return 0 < declared(name, self.conditions.schema).size <= MAX_CELLS

    def _field(self, place: int) -> Field:
        return Field(place, kind_of_labels(self.grouped[place].labels), released=False)

    def _result(self, inner: Node, alias: str, node: Node) -> None:
        """Read a result that is shown as it is released."""
        output = self.aggregates.output(inner, alias, len(self.results))
        name = alias or unused(output.alias, {*self.listing.names})
        result = None if self.deciding else self._equal(output, listed=False)
        if result is None:
            result = self._add(output)
        result.alias, result.named, result.listed = name, bool(alias), True
        self.listing.show(name, self._released(result), node)

    def _computed(self, inner: Node, alias: str, node: Node) -> None:
        """Read a column that is computed from released results and labels."""
        earlier = len(self.results)
        expression = self.scalars.read(inner)
        places = {
            part.place for part in parts(expression) if isinstance(part, Field) and part.released
        }
        only = self.results[places.pop() - len(self.grouped)] if len(places) == 1 else None
        name = "formula" if only is None else only.output.alias
        self.listing.show(alias or unused(name, {*self.listing.names}), expression, node)
        if only is not None and not only.alias and only in self.results[earlier:]:
            only.alias, only.named = alias, bool(alias)

    def _all_keys(self, select: exp.Select) -> dict[int, str]:
        """Return the names of all keys that are shown, in the order of GROUP BY.

        A group column that is not in the SELECT list is shown, too, unless a label takes its name.
        """
        names: dict[int, str] = {}
        for place, key in enumerate(self.grouped):
            name = self.keys.get(place)
            if name is None:
                if self._is_used(place):
                    continue
                name = key.alias
                taken = self.listing.columns.get(name.casefold())
                if (
                    taken is not None
                    and is_label(taken.expression)
                    and not isinstance(taken.expression, Field)
                ):
                    continue
                node = self.listing.names.setdefault(name.casefold(), select.args["group"])
                if node is not select.args["group"] or name in names.values():
                    self.refuse(f"two results are called {name!r}", "Name them with AS.", node)
            names[place] = name
        return names

    def _is_used(self, place: int) -> bool:
        """Return whether a key is an expression, and a label of the SELECT list is made of it."""
        key = self.grouped[place]
        return key.text != key.partition.column and any(
            is_label(column.expression) and self._field(place) in parts(column.expression)
            for column in self.listing.columns.values()
        )

    def _columns(self, keys: Mapping[int, str]) -> tuple[Column, ...] | None:
        """Return the columns of the result; None if they are the keys and results as released."""
        fields = {place: self._field(place) for place in range(len(self.grouped))}
        if (not keys and fields) or self.inner:
            return tuple(self.listing.columns.values())
        names = [name.casefold() for name in keys.values()]
        others_listed = [
            column
            for name, column in self.listing.columns.items()
            if name not in names or column.expression not in fields.values()
        ]
        results = [self._released(result) for result in self.results]
        as_released = len(keys) == len(fields) and results == [
            column.expression for column in others_listed
        ]
        if as_released:
            return None
        named = (Column(name, fields[place]) for place, name in keys.items())
        return (*named, *others_listed)

    # results

    def _equal(self, output: Aggregate | Derived, *, listed: bool | None = None) -> _Result | None:
        """Return the result that means the same, in the SELECT list or not."""
        return next(
            (
                result
                for result in self.results
                if listed in (None, result.listed) and same(result.output, output)
            ),
            None,
        )

    def _add(self, output: Aggregate | Derived) -> _Result:
        result = _Result(output)
        self.results.append(result)
        return result

    def _released(self, result: _Result) -> Field:
        place = next(i for i, one in enumerate(self.results) if one is result)
        return Field(len(self.grouped) + place, Kind.NUMBER, released=True)

    def _outputs(self) -> list[Aggregate | Derived]:
        """Return the results with their names; those that are not shown get unused ones."""
        names = {name for result in self.results if result.alias for name in _ends(result.alias)}
        outputs: list[Aggregate | Derived] = []
        for result in self.results:
            alias = result.alias or unused(result.output.alias, names)
            output = replace(result.output, alias=alias)
            if isinstance(output, Aggregate):
                output = replace(output, named=result.named)
            outputs.append(output)
        return outputs

    def _leaf(self, node: Node) -> Expression | None:
        """Return what a name, a key or an aggregate stands for in an expression of results."""
        if isinstance(node, exp.Column):
            return self._name(node)
        place = self.place(node)
        if place is not None:
            return self._field(place)
        determined = self.determined(node)
        if determined is not None:
            return determined
        if isinstance(node, exp.Window):
            if self.clause == "HAVING":
                self.refuse("windows are computed after HAVING", "Write QUALIFY instead.", node)
            return read_window(self.scalars, node, self.listing.windows)
        if not is_result(node):
            if isinstance(node, exp.AggFunc | exp.Filter):
                self.aggregates.aggregate(node, "")
            return None
        output = self.aggregates.output(node, "", len(self.results))
        result = self._equal(output)
        if result is None and not self._is_released(node, output):
            return None
        return self._released(result or self._add(output))

    def _is_released(self, node: Node, output: Aggregate | Derived) -> bool:
        """Return whether a part of an expression is released as one result, not taken apart.

        Arithmetic on one aggregate needs nothing else released; nor do conditions and orders.
        """
        if isinstance(output, Aggregate) or is_statistic(bare(node)):
            return True
        return self.clause == "SELECT" and len(output.leaves) > 1

    def _name(self, node: Node) -> Expression:
        """Return the group column or the column of the SELECT list that a name means."""
        listed = None if node.table else self.listing.columns.get(node.name.casefold())
        found = self.conditions.scope.find(node.name, node.table or None)
        is_key = self.place(node) is not None
        if listed is not None and (self.clause in ("QUALIFY", "ORDER BY") or not is_key):
            return listed.expression
        named = [
            place
            for place, key in enumerate(self.grouped)
            if self.keys.get(place, key.alias).casefold() == node.name.casefold()
        ]
        if not node.table and len(named) == 1:
            return self._field(named[0])
        if not found and not node.table and self.listing.columns:
            self.refuse(
                f"{node.name!r} is neither a group column nor a result of this statement",
                nearest(
                    node.name,
                    [*self.listing.columns, *(key.alias for key in self.grouped)],
                    shown=as_written,
                ),
                node,
            )
        determined = None if is_key else self.determined(node)
        return determined or self._field(self._grouped(node))


def _ends(alias: str) -> tuple[str, str, str]:
    return alias.casefold(), f"{alias}_low".casefold(), f"{alias}_high".casefold()
