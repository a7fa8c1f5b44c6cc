"""FROM and JOIN: the table whose rows are measured, and the tables looked up from its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import expressions as exp

from dpnb.errors import SchemaError, nearest
from dpnb.schema.joins import ITSELF, MOST_JOINS, PRESENT, Join, chained, lookup
from dpnb.schema.persons import origin
from dpnb.schema.predicates import Within
from dpnb.schema.table import Table
from dpnb.sql.computed import ComputedKey
from dpnb.sql.conjuncts import conjunction, conjuncts
from dpnb.sql.features import Linked, Persons
from dpnb.sql.links import SHAPE, Entry, Link, Side, check_join, is_column
from dpnb.sql.quoting import as_written
from dpnb.sql.source import Node, Source, others


@dataclass(frozen=True, slots=True)
class Relation:
    """One table of FROM.

    ``names`` can qualify its columns, case-folded; ``shown`` is the name in the statement. The rows
    of a table without ``join`` are measured. With ``paired`` these are pairs of its rows with rows
    of another table, and ``paired`` is the table of the pairs. For a query in FROM, ``results`` has
    the columns of ``table`` by its own case-folded names, and ``ids`` its names of the id.
    """

    table: Table
    names: frozenset[str]
    shown: str
    join: Join | None = None
    inner: bool = True
    paired: Table | None = None
    results: Mapping[str, str] | None = None
    ids: frozenset[str] = frozenset()
    persons: Persons | None = None
    linked: Linked | None = None
    line: str = ""

    def find(self, name: str) -> str | None:
        """Return the internal name of a column, or None if there is no such column."""
        own = self.results
        column = self.table.schema.find(name) if own is None else own.get(name.casefold())
        if column is None or self.join is not None:
            return None if column is None or self.join is None else self.join.attribute(column)
        return f"{self.table.name}[].{column}" if self.paired else column

    def has(self, name: str) -> bool:
        """Return whether a column is declared or is the id column."""
        return self.find(name) is not None or self.identifies(name)

    def declared(self, name: str) -> str:
        """Return the name in ``table`` of a column of a query in FROM; other names stay."""
        unit = self.table.unit
        if self.results is None or unit is None:
            return name
        return unit.column if self.identifies(name) else self.results.get(name.casefold(), name)

    def identifies(self, name: str) -> bool:
        """Return whether a column is the id column of the privacy unit."""
        unit = self.table.unit
        if self.results is not None:
            return name.casefold() in self.ids
        return unit is not None and unit.column.casefold() == name.casefold()


@dataclass(frozen=True, slots=True)
class Scope:
    """All tables of FROM, the measured one first; ``merged`` are the case-folded USING columns.

    ``condition`` is what ON and WHERE ask for besides the joins.
    """

    relations: tuple[Relation, ...]
    merged: frozenset[str]
    base: Table
    condition: Node | None = None

    @property
    def present(self) -> list[Within]:
        """The conditions of joins that drop rows without a match."""
        scale = PRESENT.scale
        names = [
            relation.line or (relation.join.name if relation.join is not None else "")
            for relation in self.relations
            if relation.inner
        ]
        return [Within(name, ((scale.low, scale.high),)) for name in names if name]

    def of(self, qualifier: str | None) -> list[Relation]:
        """Return the tables that a qualifier names, or all tables if there is none."""
        if qualifier is None:
            return list(self.relations)
        return [relation for relation in self.relations if qualifier.casefold() in relation.names]

    def find(self, name: str, qualifier: str | None) -> list[tuple[Relation, str]]:
        """Return the columns that a name can mean."""
        candidates = ((relation, relation.find(name)) for relation in self.of(qualifier))
        found = [(relation, column) for relation, column in candidates if column is not None]
        return found[:1] if qualifier is None and name.casefold() in self.merged else found

    def spelled(self, column: str) -> str:
        """Return the name that the statement gives to a column of a query in FROM."""
        results = self.relations[0].results or {}
        return next((name for name, own in results.items() if own == column), column)

    def computed(self, column: str) -> ComputedKey | None:
        """Return the key of persons that a column is, if it is an expression."""
        persons = self.relations[0].persons
        keys = () if persons is None else persons.computed
        return next((key for key in keys if key.name == column), None)

    def is_unit(self, name: str, qualifier: str | None) -> bool:
        """Return whether a column holds the ids of the measured table.

        It is the table's own id column, or that of a table joined to it by ids.
        """
        return any(
            relation.identifies(name)
            for relation in self.of(qualifier)
            if (
                relation.inner or not relation.line
                if relation.join is None
                else relation.join.ids
                and relation.inner
                and (qualifier is not None or self.relations[0].persons is not None)
            )
        )


def read_from(
    source: Source,
    tables: Mapping[str, Table],
    select: exp.Select,
    derived: Callable[[Node], Relation | None],
) -> Scope:
    """Read FROM and JOIN; ``derived`` reads a query in FROM that groups, and returns None for others."""
    return _From(source, tables, derived).read(select)


class _From:
    """Reader of FROM and its joins."""

    def __init__(
        self,
        source: Source,
        tables: Mapping[str, Table],
        derived: Callable[[Node], Relation | None],
    ) -> None:
        self.refuse = source.refuse
        self.source = source
        self.derived = derived
        # tables of pairs have names that are not identifiers
        self.tables = {name: table for name, table in tables.items() if name.isidentifier()}
        self.merged: set[str] = set()

    def read(self, select: exp.Select) -> Scope:
        source, where = select.args.get("from_"), select.args.get("where")
        first = self.relation(None if source is None else source.this, "FROM", alone=True)
        condition = None if where is None else where.this
        joins = select.args.get("joins") or []
        if not joins:
            return Scope((first,), frozenset(), first.table, condition)
        if len(joins) > MOST_JOINS:
            self.refuse(
                f"there are {len(joins)} joins, more than {MOST_JOINS}", "Join fewer tables.",
                joins[MOST_JOINS].this,
            )  # fmt: skip
        entries = [Entry(first, source)]
        for node in joins:
            inner = check_join(self.source, node)
            new_relation = self.relation(node.this, "JOIN", alone=False)
            used_names = {name for entry in entries for name in entry.relation.names}
            if new_relation.names & used_names:
                if new_relation.table is first.table:
                    # another name would not help
                    self.refuse(*ITSELF, node.this)
                self.refuse(
                    f"two tables are called {new_relation.shown!r}", "Name them with AS.", node.this
                )
            entries.append(Entry(replace(new_relation, inner=inner), node))
        return self.linked(entries, [] if condition is None else conjuncts(condition))

    def linked(self, entries: Sequence[Entry], written: Sequence[Node]) -> Scope:
        """Find the equalities by which tables are looked up, and the table that is measured."""
        tests = list(written)
        for place, entry in enumerate(entries):
            test = entry.node.args.get("on")
            if test is not None and entry.relation.inner:
                tests += conjuncts(test)
            elif test is not None:
                entry.links.append(self.on(entry, entries[: place + 1]))
            if entry.node.args.get("using"):
                entry.links.append(self.using(entry, entries[:place]))
        links = {id(test): link for test in tests if (link := self.link(test, entries))}
        for link in links.values():
            for place in (link.sides[0][0], link.sides[1][0]):
                if entries[place].relation.inner:
                    entries[place].links.append(link)
        used: list[Link] = []
        relations: list[Relation] = []
        for place, link in self.order(entries):
            entry = entries[place]
            if link is None and relations:
                link = self.on(entry, entries[: place + 1])
            if link is None:
                relations.append(entry.relation)
                continue
            used.append(link)
            (old, column), key = link.other(place), link.of(place)
            names = [relation.names for relation in relations]
            before = names.index(entries[old].relation.names)
            relations = self.joined(relations, entry, before, column, key)
        left = [test for test in tests if id(test) not in links or links[id(test)] not in used]
        base = relations[0].paired or relations[0].table
        return Scope(tuple(relations), frozenset(self.merged), base, conjunction(left))

    def order(self, entries: Sequence[Entry]) -> list[tuple[int, Link | None]]:
        """Return the tables in an order in which each can be looked up, the measured one first.

        If there is none, return the order in which they are written, for the error.
        """
        for base, entry in enumerate(entries):
            placed: dict[int, Link | None] = {base: None}
            while entry.relation.inner:
                found = self.following(entries, placed)
                if found is None:
                    break
                placed[found[0]] = found[1]
            if len(placed) == len(entries):
                return list(placed.items())
        return [(0, None), *((i, self.earlier(entries, i)) for i in range(1, len(entries)))]

    def following(
        self, entries: Sequence[Entry], placed: Mapping[int, Link | None]
    ) -> tuple[int, Link] | None:
        """Return a table that can be looked up from one of those placed, and how."""
        for place, entry in enumerate(entries):
            for link in entry.links if place not in placed else ():
                old, column = link.other(place)
                if old in placed and old != place:
                    if self.is_foreign(entry.relation, entries[old].relation):
                        continue
                    found = self.lookup(
                        entries[old].relation, column, entry.relation, link.of(place)
                    )
                    if isinstance(found, Join):
                        return place, link
        return None

    @staticmethod
    def is_foreign(persons: Relation, other: Relation) -> bool:
        """Return whether lines of persons are those of another table's rows."""
        names = persons.table.name, other.table.name
        return persons.persons is not None and origin(names[0]) != origin(names[1])

    @staticmethod
    def earlier(entries: Sequence[Entry], place: int) -> Link | None:
        """Return how a table is joined with one written before it."""
        return next((link for link in entries[place].links if link.other(place)[0] < place), None)

    def relation(self, node: Node | None, word: str, *, alone: bool) -> Relation:
        derived = self.derived(node) if isinstance(node, exp.Subquery) else None
        if derived is not None:
            return derived
        if not isinstance(node, exp.Table):
            if node is None:
                self.refuse("there is no FROM", f"Add FROM {next(iter(self.tables), 't')}.")
            self.refuse(
                f"only a declared table can follow {word}",
                f"Tables: {', '.join(self.tables)}.",
                node,
            )
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

    def joined(
        self, listed: Sequence[Relation], entry: Entry, place: int, column: str, key: str
    ) -> list[Relation]:
        """Add one table to those of FROM, the measured one first."""
        old, new, node, inner = listed[place], entry.relation, entry.node, entry.relation.inner
        if old.paired:
            self.refuse(
                "this join makes pairs of rows, and no third table can be joined",
                "Join two tables, or declare max_rows=1 for the one that is looked up.", node.this,
            )  # fmt: skip
        base = listed[0]
        if old.table is new.table and self.by_ids(old, column, new, key):
            own, table = as_written(key), as_written(new.table.name)
            self.refuse(
                "a table cannot be joined with itself",
                "Make one row for each id, and compute with its counts and sums. The number of all pairs is "
                f"SELECT SUM(n * n) AS pairs FROM (SELECT {own}, COUNT(*) AS n FROM {table} GROUP BY {own}) AS p.",
                node.this,
            )  # fmt: skip
        lines = self.with_lines(listed, place, column, key, entry)
        if lines is not None:
            return lines
        if old.join is not None and old.join.ids and old.identifies(column):
            if not old.inner:
                self.refuse(
                    f"{old.shown!r} has no {column} where no row is found",
                    f"Join {new.shown} with {base.shown}.", node.this,
                )  # fmt: skip
            # every row has the id of the first table
            column, old = old.join.column, base
        if old.join is not None and new.table.name in (base.table.name, *old.join.path):
            self.refuse(
                f"{new.table.name!r} is looked up by a column of its own",
                f"Join {new.shown} with {base.shown}.", node.this,
            )  # fmt: skip
        link = self.lookup(old, column, new, key)
        if old.join is not None and isinstance(link, Join):
            link = self.chain(old.join, link)
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
        measured = old if old.join is None else base
        if link.name in measured.table.obstacles:
            self.refuse(*measured.table.obstacles[link.name], node.this)
        if link.name not in measured.table.joins:
            self.refuse(
                "these tables were not opened together", "Open both in one Curator.", node.this
            )
        if any(link == other.join for other in listed):
            self.refuse(
                f"{new.table.name!r} is joined twice on {column!r}", "Join it once.", node.this
            )
        return [measured, *listed[1:], replace(new, join=link)]

    def with_lines(
        self, listed: Sequence[Relation], place: int, column: str, key: str, entry: Entry
    ) -> list[Relation] | None:
        """Add the lines of persons to the rows of the table that they are made of, or None."""
        old, new, node = listed[place], entry.relation, entry.node
        if not self.by_ids(old, column, new, key):
            return None
        if origin(old.table.name) != origin(new.table.name):
            if self.is_foreign(new, old):
                self.refuse_foreign(old, new, node)
            return None
        if new.persons is None and len(listed) == 1 and new.inner:
            old, new = new, old
        if new.persons is None or (old is not listed[0] and new is not listed[0]):
            return None
        if new.table.unit is None or new.table.unit.max_rows > 1:
            self.refuse(
                f"{new.shown!r} may have several rows of one id",
                "Group it by the id alone.", node.this,
            )  # fmt: skip
        known = old.linked or Linked(old.table, ())
        linked, number = Linked(known.base, (*known.lines, new.persons)), len(known.lines)
        try:
            table = linked.table()
        except ValueError:
            self.refuse("two columns have one name", "Rename one of them.", node.this)
        results = {name: linked.column(number, own) for name, own in (new.results or {}).items()}
        base = replace(old, table=table, linked=linked)
        return [base, *listed[1:], replace(new, results=results, line=linked.present(number))]

    def refuse_foreign(self, old: Relation, new: Relation, node: Node) -> NoReturn:
        """Refuse to look up the lines of persons of another table."""
        rows, others = origin(new.table.name), origin(old.table.name)
        listed = not new.shown.isidentifier()
        single = old.table.unit is not None and old.table.unit.max_rows == 1
        if listed and not new.inner:
            hint = "Count those in the list with IN, count all, and subtract."
        elif listed:
            hint = f"Join {rows} on the id, or list ids of {others}."
        elif single and not new.inner:
            hint = (
                f"Write JOIN, which leaves out those without rows in {rows}: they add 0 to a sum."
            )
        else:
            hint = f"Group the rows of {others}, or look up {others} from {new.shown}."
        lines = "these are ids" if listed else f"{new.shown!r} has lines"
        self.refuse(
            f"{lines} of {rows!r}, which cannot be looked up from {others!r}", hint, node.this
        )

    def lookup(self, base: Relation, column: str, other: Relation, key: str) -> Join | SchemaError:
        try:
            return lookup(base.table, base.declared(column), other.table, other.declared(key))
        except SchemaError as error:
            return error

    @staticmethod
    def chain(join: Join, link: Join) -> Join | SchemaError:
        try:
            return chained(join, link)
        except SchemaError as error:
            return error

    @staticmethod
    def by_ids(base: Relation, column: str, other: Relation, key: str) -> bool:
        return base.identifies(column) and other.identifies(key)

    def using(self, entry: Entry, before: Sequence[Entry]) -> Link:
        columns = entry.node.args["using"]
        if len(columns) != 1 or not isinstance(columns[0], exp.Identifier):
            self.refuse("USING takes one column", f"Write USING ({columns[0].name}).", columns[-1])
        name = str(columns[0].this)
        places = [place for place, other in enumerate(before) if other.relation.has(name)]
        self.merged.add(name.casefold())
        return Link(((places[0] if places else 0, name), (len(before), name)))

    def link(self, test: Node, entries: Sequence[Entry]) -> Link | None:
        """Return the equality of columns of two tables that a condition is, if it is one."""
        if not isinstance(test, exp.EQ):
            return None
        sides: list[Side] = []
        for node in (test.this, test.expression):
            if not is_column(node):
                return None
            places = self.places(node, entries)
            if len(places) != 1:
                return None
            sides.append((places[0], str(node.name)))
        return Link((min(sides), max(sides))) if sides[0][0] != sides[1][0] else None

    @staticmethod
    def places(node: Node, entries: Sequence[Entry]) -> list[int]:
        """Return the tables that a column can belong to; other code checks that it is declared."""
        qualified = node.args.get("table") is not None
        return [
            place
            for place, entry in enumerate(entries)
            if (
                node.table.casefold() in entry.relation.names
                if qualified
                else entry.relation.has(str(node.name))
            )
        ]

    def on(self, entry: Entry, entries: Sequence[Entry]) -> Link:
        """Return the equality that ON must be, with a column of the new table, the last of some."""
        test, new = entry.node.args.get("on"), len(entries) - 1
        if test is None:
            self.refuse("a join needs a condition", SHAPE, entry.node.this)
        while isinstance(test, exp.Paren):
            test = test.this
        if not isinstance(test, exp.EQ):
            self.refuse("ON takes one equality of two columns", SHAPE, test)
        sides = [self.side(side, entries) for side in (test.this, test.expression)]
        if [place for place, _ in sides].count(new) != 1:
            self.refuse(
                f"ON compares a column of {entry.relation.shown!r} with one of another table",
                SHAPE, test,
            )  # fmt: skip
        return Link((sides[0], sides[1]))

    def side(self, node: Node, entries: Sequence[Entry]) -> Side:
        """Return the table and column of one side of ON."""
        if not is_column(node):
            self.refuse("ON takes one equality of two columns", SHAPE, node)
        name, qualified = str(node.name), node.args.get("table") is not None
        places = self.places(node, entries)
        relations = [entry.relation for entry in entries]
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
