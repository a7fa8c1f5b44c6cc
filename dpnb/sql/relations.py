"""FROM and JOIN: the table whose rows are measured, and the tables looked up from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import expressions as exp

from dpnb.errors import SchemaError, nearest
from dpnb.schema.joins import ITSELF, MOST_JOINS, PRESENT, Join, lookup
from dpnb.schema.predicates import Within
from dpnb.schema.table import Table
from dpnb.sql.source import Node, Source, others

Side: TypeAlias = tuple[int, str]
"""One side of ON: the position of a table in FROM, and the column as written."""

_SHAPE = "Write FROM a JOIN b ON a.x = b.x."


@dataclass(frozen=True, slots=True)
class Relation:
    """One table of FROM.

    ``names`` can qualify its columns, case-folded; ``shown`` is the name in the statement. The rows
    of a table without ``join`` are measured. With ``paired`` these are pairs of its rows with rows
    of another table, and ``paired`` is the table of the pairs.
    """

    table: Table
    names: frozenset[str]
    shown: str
    join: Join | None = None
    inner: bool = True
    paired: Table | None = None

    def find(self, name: str) -> str | None:
        """Return the internal name of a column, or None if there is no such column."""
        column = self.table.schema.find(name)
        if column is None or self.join is not None:
            return None if column is None or self.join is None else self.join.attribute(column)
        return f"{self.table.name}[].{column}" if self.paired else column

    def has(self, name: str) -> bool:
        """Return whether a column is declared or is the id column."""
        return self.table.schema.find(name) is not None or self.identifies(name)

    def identifies(self, name: str) -> bool:
        """Return whether a column is the id column of the privacy unit."""
        unit = self.table.unit
        return unit is not None and unit.column.casefold() == name.casefold()


@dataclass(frozen=True, slots=True)
class Scope:
    """All tables of FROM, the measured one first; ``merged`` are the case-folded USING columns."""

    relations: tuple[Relation, ...]
    merged: frozenset[str]
    base: Table

    @property
    def present(self) -> list[Within]:
        """The conditions of joins that drop rows without a match."""
        scale = PRESENT.scale
        return [
            Within(relation.join.name, ((scale.low, scale.high),))
            for relation in self.relations
            if relation.join is not None and relation.inner
        ]

    def of(self, qualifier: str | None) -> list[Relation]:
        """Return the tables that a qualifier names, or all tables if there is none."""
        if qualifier is None:
            return list(self.relations)
        return [relation for relation in self.relations if qualifier.casefold() in relation.names]

    def find(self, name: str, qualifier: str | None) -> list[tuple[Relation, str]]:
        """Return the columns that a name can mean."""
        relations = self.of(qualifier)
        if qualifier is None and name.casefold() in self.merged:
            relations = relations[:1]
        candidates = ((relation, relation.find(name)) for relation in relations)
        return [(relation, column) for relation, column in candidates if column is not None]

    def is_unit(self, name: str, qualifier: str | None) -> bool:
        """Return whether a column holds the ids of the measured table.

        It is the table's own id column, or that of a table joined to it by ids.
        """
        return any(
            relation.identifies(name)
            for relation in self.of(qualifier)
            if relation.join is None
            or (relation.join.ids and relation.inner and qualifier is not None)
        )


def read_from(source: Source, tables: Mapping[str, Table], select: exp.Select) -> Scope:
    """Read FROM and JOIN."""
    return _From(source, tables).read(select)


class _From:
    """Reader of FROM and its joins."""

    def __init__(self, source: Source, tables: Mapping[str, Table]) -> None:
        self.refuse = source.refuse
        # tables of pairs have names that are not identifiers
        self.tables = {name: table for name, table in tables.items() if name.isidentifier()}
        self.merged: set[str] = set()

    def read(self, select: exp.Select) -> Scope:
        source = select.args.get("from_")
        relations = [self.relation(None if source is None else source.this, "FROM", alone=True)]
        joins = select.args.get("joins") or []
        if len(joins) > MOST_JOINS:
            self.refuse(
                f"there are {len(joins)} joins, more than {MOST_JOINS}", "Join fewer tables.",
                joins[MOST_JOINS].this,
            )  # fmt: skip
        for node in joins:
            inner = self.kind(node)
            new_relation = self.relation(node.this, "JOIN", alone=False)
            used_names = {name for other in relations for name in other.names}
            if new_relation.names & used_names:
                if new_relation.table is relations[0].table:
                    # another name would not help
                    self.refuse(*ITSELF, node.this)
                self.refuse(
                    f"two tables are called {new_relation.shown!r}", "Name them with AS.", node.this
                )
            relations = self.joined(relations, new_relation, node, inner=inner)
        base = relations[0].paired or relations[0].table
        return Scope(tuple(relations), frozenset(self.merged), base)

    def relation(self, node: Node | None, word: str, *, alone: bool) -> Relation:
        if not isinstance(node, exp.Table):
            what = f"only a declared table can follow {word}"
            if node is None:
                what = "there is no FROM"
            self.refuse(what, f"Tables: {', '.join(self.tables)}.", node)
        if not isinstance(node.this, exp.Identifier):
            self.refuse("table functions are not supported", "Name a declared table.", node)
        alias = node.args.get("alias")
        plain = alias is None or (
            not others(alias.args, "this") and isinstance(alias.this, exp.Identifier)
        )
        if others(node.args, "this", "alias") or not plain:
            self.refuse(
                f"only a declared table can follow {word}",
                "Write only the name of the table.",
                node,
            )
        names = {name.casefold(): name for name in self.tables}
        name = names.get(node.name.casefold())
        if name is None:
            self.refuse(f"unknown table {node.name!r}", nearest(node.name, list(self.tables)), node)
        label = name if alias is None else str(node.alias)
        qualifiers = {label.casefold(), name.casefold()} if alone else {label.casefold()}
        return Relation(self.tables[name], frozenset(qualifiers), label)

    def kind(self, node: Node) -> bool:
        """Return whether the join drops rows without a match; refuse unsupported joins."""
        side, kind, method = (
            str(node.args.get(n) or "").upper() for n in ("side", "kind", "method")
        )
        if isinstance(node.this, exp.Lateral):
            self.refuse("LATERAL is not supported", _SHAPE, node.this)
        hint = "Name the other table first, and write LEFT JOIN." if side == "RIGHT" else _SHAPE
        is_supported = (side, kind) in (("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER"))
        if not is_supported or method:
            word = " ".join(filter(None, (method, side, kind)))
            self.refuse(f"{word} JOIN is not supported", hint, node.this)
        if others(node.args, "this", "on", "using", "side", "kind"):
            self.refuse("this join is not supported", _SHAPE, node.this)
        if not node.args.get("on") and not node.args.get("using"):
            self.refuse("a join needs a condition", _SHAPE, node.this)
        return not side

    def joined(
        self, listed: Sequence[Relation], new: Relation, node: Node, *, inner: bool
    ) -> list[Relation]:
        """Add one table to those of FROM, the measured one first."""
        condition = self.using if node.args.get("using") else self.on
        place, column, key = condition(node, listed, new)
        old = listed[place]
        if old.paired:
            self.refuse(
                "this join makes pairs of rows, and no third table can be joined",
                "Join two tables, or declare max_rows=1 for the one that is looked up.", node.this,
            )  # fmt: skip
        if place:
            self.refuse(
                "each further table must be joined with the first one",
                f"Join {new.shown} with {listed[0].shown}.", node.this,
            )  # fmt: skip
        link = self.lookup(old, column, new, key)
        if len(listed) == 1 and isinstance(link, SchemaError):
            reverse = self.lookup(new, key, old, column)
            if isinstance(reverse, Join) and not inner:
                self.refuse(
                    f"this LEFT JOIN keeps the rows of {old.shown!r}, which is the table that is looked up",
                    f"Write FROM {new.shown} LEFT JOIN {old.shown}, or JOIN.", node.this,
                )  # fmt: skip
            # if both directions fail, report the error of the one that was probably meant
            likely_reversed = old.table.public and old.table.unit is None and not new.table.public
            if isinstance(reverse, Join) or likely_reversed:
                link, old, new = reverse, new, old
        pair_table = old.table.pairs.get(new.table.name)
        if (
            isinstance(link, SchemaError)
            and pair_table is not None
            and self.by_ids(old, column, new, key)
        ):
            if isinstance(pair_table, SchemaError):
                self.refuse(pair_table.what, pair_table.hint, node.this)
            if inner and len(listed) == 1:
                return [replace(old, paired=pair_table), replace(new, paired=pair_table)]
            self.refuse(
                f"both tables may hold several rows of one {column}",
                "Join these two tables alone with JOIN, or declare max_rows=1 for the one that is "
                "looked up.", node.this,
            )  # fmt: skip
        if isinstance(link, SchemaError):
            self.refuse(link.what, link.hint, node.this)
        if link.name in old.table.obstacles:
            self.refuse(*old.table.obstacles[link.name], node.this)
        if link.name not in old.table.joins:
            self.refuse(
                "these tables were not opened together", "Open both in one Curator.", node.this
            )
        if any(link == other.join for other in listed):
            self.refuse(
                f"{new.table.name!r} is joined twice on {column!r}", "Join it once.", node.this
            )
        return [old, *listed[1:], replace(new, join=link, inner=inner)]

    def lookup(self, base: Relation, column: str, other: Relation, key: str) -> Join | SchemaError:
        try:
            return lookup(base.table, column, other.table, key)
        except SchemaError as error:
            return error

    @staticmethod
    def by_ids(base: Relation, column: str, other: Relation, key: str) -> bool:
        return base.identifies(column) and other.identifies(key)

    def using(self, node: Node, listed: Sequence[Relation], new: Relation) -> tuple[int, str, str]:
        columns = node.args["using"]
        if len(columns) != 1 or not isinstance(columns[0], exp.Identifier):
            self.refuse("USING takes one column", _SHAPE, node.this)
        name = str(columns[0].this)
        self.merged.add(name.casefold())
        return 0, name, name

    def on(self, node: Node, listed: Sequence[Relation], new: Relation) -> tuple[int, str, str]:
        """Return the position of the table that the new one is joined with, and both columns."""
        test = node.args["on"]
        while isinstance(test, exp.Paren):
            test = test.this
        if not isinstance(test, exp.EQ):
            self.refuse("ON takes one equality of two columns", _SHAPE, test)
        new_columns: list[str] = []
        rest: list[Side] = []
        for side in (test.this, test.expression):
            place, name = self.side(side, [*listed, new])
            if place == len(listed):
                new_columns.append(name)
            else:
                rest.append((place, name))
        if len(new_columns) != 1:
            self.refuse(
                f"ON compares a column of {new.shown!r} with one of another table", _SHAPE, test
            )
        return (*rest[0], new_columns[0])

    def side(self, node: Node, relations: Sequence[Relation]) -> Side:
        """Return the table and column of one side of ON; other code checks that it is declared."""
        if (
            not isinstance(node, exp.Column)
            or not isinstance(node.this, exp.Identifier)
            or others(node.args, "this", "table")
        ):
            self.refuse("ON takes one equality of two columns", _SHAPE, node)
        name, qualified = str(node.name), node.args.get("table") is not None
        places = [
            place
            for place, relation in enumerate(relations)
            if (node.table.casefold() in relation.names if qualified else relation.has(name))
        ]
        if not places and qualified:
            self.refuse(
                f"{node.table!r} is not a table of FROM",
                nearest(node.table, [relation.shown for relation in relations]), node,
            )  # fmt: skip
        if not places:
            columns = [column for relation in relations for column in relation.table.schema]
            self.refuse(f"unknown column {name!r}", nearest(name, columns), node)
        if len(places) > 1:
            self.refuse(
                f"several tables have a column {name!r}",
                f"Write {relations[places[0]].shown}.{name}.", node,
            )  # fmt: skip
        return places[0], name
