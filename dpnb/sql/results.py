"""Results that a statement combines: queries over the same rows that it joins, as one query.

``FROM (SELECT k, COUNT(*) AS n FROM t WHERE c GROUP BY k) a JOIN (SELECT k, COUNT(*) AS m FROM t GROUP
BY k) b USING (k)`` is ``SELECT k, COUNT(*) FILTER (WHERE c) AS n, COUNT(*) AS m FROM t GROUP BY k``. All
declared groups are on both sides, so that no join leaves one out. ``SELECT COUNT(*) / (SELECT COUNT(*)
FROM t) FROM t WHERE c`` is the same without groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import expressions as exp

from dpnb.schema.table import Table
from dpnb.sql.conjuncts import conjunction, conjuncts
from dpnb.sql.grouped import CLOSED, alike, columns_of, key_of, outside, replaced
from dpnb.sql.members import ids_of
from dpnb.sql.names import folded
from dpnb.sql.source import Node, Source, bare, others
from dpnb.sql.spellings import is_key, marked, unaliased

_SIDE = ("expressions", "from_", "joins", "where", "group", "having", "order")
_FLAT = ("expressions", "from_", "joins", "where", "order", "limit", "offset", "with_")
_NUMBER = ("expressions", "from_", "joins", "where")


@dataclass(slots=True)
class _Side:
    """One of the queries that are joined: its results by name, and the conditions of its HAVING."""

    name: str
    written: exp.Select
    query: exp.Select
    keys: list[Node]
    columns: dict[str, Node]
    tests: list[Node] = field(default_factory=list)

    def place(self, node: Node) -> int | None:
        """Return the place of the key that a column is, or None."""
        value = self.columns.get(folded(node.name))
        found = (i for i, key in enumerate(self.keys) if value is not None and alike(key, value))
        return next(found, None)


def combined(source: Source, tables: Mapping[str, Table], tree: Node) -> Node:
    """Write joins of results over the same rows as one query; changes the tree.

    Raises
    ------
    SqlError
        If they are of different tables or groups, with the statements to write.
    """
    clause = tree.args.get("with_")
    if any(one is not clause for one in tree.find_all(exp.With)):
        return tree
    reader = _Reader(source, tables, tree)
    # queries before those that read them
    for select in reversed([*tree.find_all(exp.Select)]):
        reader.join(select)
        reader.fill(select)
    reader.leave_out()
    return tree


class _Reader:
    """Reader of all SELECTs of one statement."""

    def __init__(self, source: Source, tables: Mapping[str, Table], tree: Node) -> None:
        self.source = source
        self.refuse = source.refuse
        self.tables = {name.casefold(): table for name, table in tables.items()}
        self.tree = tree
        clause = tree.args.get("with_")
        self.queries = {folded(one.alias): one for one in (clause.expressions if clause else ())}
        self.ids = ids_of(tables)
        self.used: set[str] = set()

    # queries of FROM

    def join(self, select: exp.Select) -> None:
        """Write a join of results as one query."""
        start, joins = select.args.get("from_"), select.args.get("joins") or []
        if start is None:
            return
        entries = [start.this, *(join.this for join in joins)]
        queries = [query for query in map(self._query, entries) if query is not None]
        if not joins or len(queries) < len(entries):
            return
        sides = [self._side(*pair) for pair in zip(entries, queries, strict=True)]
        for entry, side in zip(entries[1:], sides[1:], strict=True):
            self._check_alike(sides[0], side, entry)
        where = select.args.get("where")
        tests = [] if where is None else conjuncts(where.this)
        for place, join in enumerate(joins, start=1):
            tests = self._joined(sides[:place], sides[place], join, tests)
        self._merge(select, sides, tests)

    def _query(self, entry: Node) -> exp.Select | None:
        """Return the query with results that an entry of FROM is; None for tables, persons and public ones."""
        query: Node = entry
        if isinstance(entry, exp.Table):
            found = self.queries.get(folded(entry.name))
            if found is None or found.args["alias"].columns:
                return None
            query = found.this
            later = [*self.queries][[*self.queries].index(folded(entry.name)) :]
            if any(folded(table.name) in later for table in query.find_all(exp.Table)):
                return None
        elif not isinstance(entry, exp.Subquery) or others(entry.args, "this", "alias"):
            return None
        alias = entry.args.get("alias")
        if alias is not None and alias.columns:
            return None
        while isinstance(query, exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select) or not self._is_private(query):
            return None
        keys = self._keys(query)
        if any(isinstance(key, exp.Column) and folded(key.name) in self.ids for key in keys):
            return None
        counted = any(item.find(exp.AggFunc) is not None for item in query.expressions)
        return query if keys or counted else None

    def _is_private(self, node: Node) -> bool:
        """Return whether a query reads a sensitive table."""
        for table in node.find_all(exp.Table):
            query = self.queries.get(folded(table.name))
            known = self.tables.get(table.name.casefold())
            # a CTE that has the name of a table reads that table
            if query is not None and query is not table.find_ancestor(exp.CTE):
                if self._is_private(query.this):
                    return True
            elif known is not None and not known.public:
                return True
        return False

    def _keys(self, query: exp.Select) -> list[Node]:
        group = query.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            return [unaliased(item) for item in query.expressions if is_key(item)]
        columns = columns_of(query, self.tables, self.queries)
        return [key_of(self.source, query, columns, bare(key)) for key in group.expressions]

    def _side(self, entry: Node, written: exp.Select) -> _Side:
        for name in others(written.args, *_SIDE):
            value = written.args[name]
            self.refuse(
                f"{name.strip('_').upper()} in a query that is joined is not supported",
                "Write it after the join.",
                value[0] if isinstance(value, list) else value,
            )
        if isinstance(entry, exp.Table):
            self.used.add(folded(entry.name))
        query = _unqualified(written, written)
        columns: dict[str, Node] = {}
        for item in query.expressions:
            value = unaliased(item)
            name = item.alias_or_name or value.sql(dialect="duckdb")
            columns.setdefault(folded(name), value)
        keys = [_unqualified(key, written) for key in self._keys(written)]
        side = _Side(folded(entry.alias_or_name), written, query, keys, columns)
        having = query.args.get("having")
        for test in [] if having is None else conjuncts(having.this):
            side.tests.append(test.transform(lambda part: self._result(side, part)))
        return side

    @staticmethod
    def _result(side: _Side, node: Node) -> Node:
        """Return what a name in HAVING stands for: a result of the SELECT list, or a column."""
        value = side.columns.get(folded(node.name)) if isinstance(node, exp.Column) else None
        counted = value is not None and not node.table and value.find(exp.AggFunc) is not None
        return exp.Paren(this=value.copy()) if value is not None and counted else node

    def _check_alike(self, first: _Side, side: _Side, entry: Node) -> None:
        """Refuse sides over different rows or groups."""
        if not _same_rows(first.query, side.query):
            what = "results of different tables cannot be joined in one statement"
        elif len(first.keys) != len(side.keys):
            what = "results of different groups cannot be joined in one statement"
        else:
            return
        one, other = (self.source.written(each.written) for each in (first, side))
        hint = (
            f"Ask {one} in one cell, and {other} in another. Then merge the frames of the answers."
        )
        if first.keys and not side.keys:
            one, other = other, one
        if bool(first.keys) != bool(side.keys):
            hint = f"Ask {one} in a cell of its own. Then ask {other}, and write :number for what you saw."  # fmt: skip
        self.refuse(what, hint, entry)

    def _joined(
        self, before: Sequence[_Side], side: _Side, join: exp.Join, tests: Sequence[Node]
    ) -> list[Node]:
        """Return the conditions of WHERE that are left when a join has taken the equalities of its keys."""
        kind = str(join.args.get("side") or "").upper()
        method = str(join.args.get("method") or "").upper()
        if method or others(join.args, "this", "on", "using", "side", "kind"):
            self.refuse("this join of results is not supported", "Write JOIN and USING.", join.this)
        kept = {"": (), "LEFT": (side,), "RIGHT": before}.get(kind, (*before, side))
        if any(one.tests for one in kept):
            self.refuse(
                f"a {kind} JOIN keeps groups that HAVING leaves out",
                "Write JOIN.",
                join.this,
            )
        wanted = set(range(len(side.keys)))
        on = join.args.get("on")
        pairs = [(column, column) for column in join.args.get("using") or ()]
        given = [(test, self._compared(before, side, test)) for test in _tests(on)]
        given += [(pair[0], self._equal(before, side, *pair)) for pair in pairs]
        for test, found in given:
            if not found:
                self.refuse(
                    "results are joined where the same groups are equal",
                    "Compare all columns of GROUP BY, and write other conditions in WHERE.",
                    test,
                )
            wanted -= found
        left: list[Node] = []
        for test in tests:
            found = self._compared(before, side, test)
            wanted -= found
            if not found:
                left.append(test)
        if wanted:
            self.refuse(
                f"this join does not compare {side.keys[min(wanted)].sql(dialect='duckdb')!r}",
                "Write USING with all columns of GROUP BY.",
                join.this,
            )
        return left

    def _compared(self, before: Sequence[_Side], side: _Side, test: Node) -> set[int]:
        """Return the place of the key of a side that a condition compares with one before."""
        if not isinstance(test, exp.EQ):
            return set()
        pair = bare(test.this), bare(test.expression)
        if not all(isinstance(one, exp.Column) for one in pair):
            return set()
        return self._equal(before, side, *pair)

    @staticmethod
    def _equal(before: Sequence[_Side], side: _Side, one: Node, other: Node) -> set[int]:
        def is_of(node: Node, owner: _Side) -> bool:
            table = node.table if isinstance(node, exp.Column) else ""
            return not table or folded(table) == owner.name

        for left, right in ((one, other), (other, one)):
            place = side.place(right) if is_of(right, side) else None
            if place is None:
                continue
            for earlier in before:
                mine = earlier.place(left) if is_of(left, earlier) else None
                if mine is not None and alike(earlier.keys[mine], side.keys[place]):
                    return {place}
        return set()

    # one query

    def _merge(self, select: exp.Select, sides: Sequence[_Side], tests: Sequence[Node]) -> None:
        """Put one query in place of FROM; without clauses that go over its lines, they are one SELECT."""
        shared, rests = _shared([side.query for side in sides])
        self._check_groups(sides, rests)
        for side, rest in zip(sides, rests, strict=True):
            side.columns = {name: _filtered(one, rest) for name, one in side.columns.items()}
            side.tests = [_filtered(test, rest) for test in side.tests]
        query = exp.Select(
            **{name: _copy(sides[0].query.args.get(name)) for name in ("from_", "joins")},
            where=_clause(exp.Where, shared),
            group=exp.Group(expressions=[key.copy() for key in sides[0].keys]) if sides[0].keys else None,
        )  # fmt: skip
        own = [test for side in sides for test in side.tests]
        items = [one for item in select.expressions for one in self._starred(item, sides)]
        clauses = [*items, *tests, *filter(None, [select.args.get("order")])]
        if others(select.args, *_FLAT) or any(one.find(exp.AggFunc) for one in clauses):
            query.set("having", _clause(exp.Having, own))
            query.set("expressions", self._listed(sides))
            alias = exp.TableAlias(this=exp.to_identifier("results", quoted=True))
            select.set("from_", exp.From(this=exp.Subquery(this=query, alias=alias)))
            select.set("joins", None)
            select.set("where", _clause(exp.Where, [self._resolved(one, sides) for one in tests]))
        else:
            own += [self._resolved(one, sides) for one in tests]
            query.set("having", _clause(exp.Having, own))
            for name in ("from_", "joins", "where", "group", "having"):
                select.set(name, query.args.get(name))
        aliases = {folded(item.alias) for item in items if isinstance(item, exp.Alias)}
        for name in ("group", "qualify", "order", "distinct"):
            value = select.args.get(name)
            if isinstance(value, exp.Expression):
                kept = aliases if name in ("order", "qualify") else frozenset[str]()
                select.set(name, self._resolved(value, sides, kept))
        select.set("expressions", [self._item(item, sides) for item in items])

    def _check_groups(self, sides: Sequence[_Side], rests: Sequence[Sequence[Node]]) -> None:
        """Refuse a condition on groups that only some sides have: a group would be in one side alone."""
        keys = {name for key in sides[0].keys for name in _names(key)}
        for rest in rests:
            for test in rest:
                if not _names(test).isdisjoint(keys):
                    self.refuse(
                        "this condition leaves groups out of one of the queries that are joined",
                        "Write it in each of them, or after the join.",
                        test,
                    )

    def _listed(self, sides: Sequence[_Side]) -> list[Node]:
        """Return all columns of the sides under names of their own, by which they go from here on."""
        listed: list[Node] = []
        for side in sides:
            for name, value in side.columns.items():
                unique = exp.to_identifier(f"{side.name}.{name}", quoted=True)
                listed.append(exp.Alias(this=value, alias=unique))
                side.columns[name] = exp.column(unique.copy())
        return listed

    def _starred(self, item: Node, sides: Sequence[_Side]) -> Iterator[Node]:
        """Yield the columns that an entry of the SELECT list stands for."""
        star = item.this if isinstance(item, exp.Column) else item
        if not isinstance(star, exp.Star):
            yield item
            return
        if isinstance(item, exp.Column) and folded(item.table) not in {one.name for one in sides}:
            self.refuse(
                f"unknown table {item.table!r}",
                "Name one of the queries in FROM.",
                item,
                item.table,
            )
        if others(star.args):
            self.refuse("this form of * is not supported", "Name the columns.", item)
        shown: set[int] = set()
        for side in sides:
            if not isinstance(item, exp.Column) or folded(item.table) == side.name:
                for name in side.columns:
                    column = exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(side.name, quoted=True))  # fmt: skip
                    place = side.place(column)
                    if place is None or place not in shown:
                        yield column
                    shown |= set() if place is None else {place}

    def _item(self, item: Node, sides: Sequence[_Side]) -> Node:
        """Return an entry of the SELECT list under the name that it had."""
        value = self._resolved(item, sides)
        if isinstance(item, exp.Column):
            return exp.Alias(this=value, alias=exp.to_identifier(item.name, quoted=True))
        return value

    def _resolved(
        self, node: Node, sides: Sequence[_Side], kept: Collection[str] = frozenset()
    ) -> Node:
        """Return an expression with what the columns of the sides stand for, but for names that are kept."""

        def put(part: Node) -> Node:
            if not isinstance(part, exp.Column) or isinstance(part.this, exp.Star):
                return part
            if not part.table and folded(part.name) in kept:
                return part
            named = [side for side in sides if not part.table or side.name == folded(part.table)]
            found = [side for side in named if folded(part.name) in side.columns]
            if len(found) > 1 and any(side.place(part) is None for side in found):
                self.refuse(f"several queries have a column {part.name!r}", f"Write {found[0].name}.{part.name}.", part)  # fmt: skip
            if not found and part.table:
                self.refuse(f"unknown column {part.sql(dialect='duckdb')!r}", "Name a column of a query in FROM.", part)  # fmt: skip
            if not found:
                return part
            value = found[0].columns[folded(part.name)].copy()
            value = value if isinstance(value, exp.Column | exp.Func | exp.Filter) else exp.Paren(this=value)  # fmt: skip
            return marked(value, self.source.span(part))

        return node.transform(put)

    def leave_out(self) -> None:
        """Leave out the CTEs that nobody reads any more."""
        clause = self.tree.args.get("with_")
        if clause is None or not self.used:
            return
        read = {folded(table.name) for table in self.tree.find_all(exp.Table)}
        left = [one for one in clause.expressions if folded(one.alias) not in self.used - read]
        self.tree.set("with_", exp.With(**{**clause.args, "expressions": left}) if left else None)

    # subqueries of the SELECT list

    def fill(self, select: exp.Select) -> None:
        """Write aggregates over the same rows in place of subqueries in the SELECT list."""
        if select.args.get("group") is not None:
            return
        parts = [part for item in select.expressions for part in outside(item)]
        inner = [part for part in parts if isinstance(part, exp.Subquery) and self._is_number(part)]
        has_rows = select.args.get("from_") is not None
        base = select if has_rows else inner[0].this if inner else None
        counted = any(isinstance(part, exp.AggFunc | exp.Filter) for part in parts)
        if base is None or not inner or (has_rows and not counted):
            return
        if not all(_same_rows(base, node.this) for node in inner):
            return
        queries = [select] * has_rows + [node.this for node in inner]
        shared, rests = _shared([_unqualified(query, query) for query in queries])
        own = rests.pop(0) if has_rows else []
        values = [_filtered(_unqualified(unaliased(node.this.expressions[0]), node.this), rest) for node, rest in zip(inner, rests, strict=True)]  # fmt: skip
        for name in ("from_", "joins"):
            select.set(name, _copy(base.args.get(name)))
        places = {id(node): value for node, value in zip(inner, values, strict=True)}
        for name in ("expressions", "having", "order") if has_rows else ("expressions",):
            value = select.args.get(name)
            if isinstance(value, list):
                select.set(name, [_filtered(one, own, places) for one in value])
            elif value is not None:
                select.set(name, _filtered(value, own, places))
        select.set("where", _clause(exp.Where, shared))

    def _is_number(self, node: Node) -> bool:
        """Return whether a subquery is one aggregate over a sensitive table."""
        query = node.this
        return (
            isinstance(query, exp.Select)
            and not others(query.args, *_NUMBER)
            and len(query.expressions) == 1
            and query.expressions[0].find(exp.AggFunc) is not None
            and self._is_private(query)
        )


def _tests(on: Node | None) -> list[Node]:
    """Return the conditions of ON."""
    return [] if on is None or on == exp.true() else conjuncts(on)


def _copy(value: Node) -> Node:
    """Return a copy of an argument of a node."""
    if isinstance(value, list):
        return [one.copy() for one in value]
    return None if value is None else value.copy()


def _clause(kind: type, tests: Sequence[Node]) -> Node | None:
    """Return WHERE or HAVING with some conditions; None without any."""
    condition = conjunction([test.copy() for test in tests])
    return None if condition is None else kind(this=condition)


def _names(node: Node) -> set[str]:
    return {folded(column.name) for column in node.find_all(exp.Column)}


def _unqualified(node: Node, select: exp.Select) -> Node:
    """Return a copy of a part of a SELECT over one table, whose columns are named without it."""
    start = select.args.get("from_")
    if start is None or select.args.get("joins"):
        return node.copy()
    own = folded(start.this.alias_or_name)

    def put(part: Node) -> Node:
        if isinstance(part, exp.Column) and part.table and folded(part.table) == own:
            part.set("table", None)
        return part

    return node.transform(put)


def _same_rows(one: exp.Select, other: exp.Select) -> bool:
    """Return whether two queries read the same rows, apart from WHERE."""
    first, second = one.args.get("from_"), other.args.get("from_")
    joins = [query.args.get("joins") or [] for query in (one, other)]
    if first is None or second is None:
        return False
    tables = [start.this for start in (first, second)]
    if any(joins) or not all(isinstance(table, exp.Table) for table in tables):
        return bool(first == second and joins[0] == joins[1])
    plain = not any(others(table.args, "this", "alias") for table in tables)
    return plain and folded(tables[0].name) == folded(tables[1].name)


def _shared(queries: Sequence[exp.Select]) -> tuple[list[Node], list[list[Node]]]:
    """Return the conditions of WHERE that all queries have, and the others of each."""
    wheres = [query.args.get("where") for query in queries]
    tests = [[] if where is None else conjuncts(where.this) for where in wheres]

    def among(test: Node, listed: Sequence[Node]) -> bool:
        return any(alike(test, one) for one in listed)

    shared = [test for test in tests[0] if all(among(test, listed) for listed in tests[1:])]
    return shared, [[test for test in listed if not among(test, shared)] for listed in tests]


def _filtered(node: Node, tests: Sequence[Node], places: Mapping[int, Node] | None = None) -> Node:
    """Return a copy of an expression whose aggregates count only rows that satisfy some conditions.

    ``places`` are nodes to be put in place of parts of the expression itself, by the identity of
    those.
    """

    def new(part: Node) -> Node | None:
        if places and id(part) in places:
            return exp.Paren(this=places[id(part)])
        if not tests or isinstance(part, exp.Query) or not isinstance(part, CLOSED):
            return None
        inner = [part.expression.this] if isinstance(part, exp.Filter) else []
        value = part.this if isinstance(part, exp.Filter) else part
        return exp.Filter(this=value.copy(), expression=_clause(exp.Where, [*inner, *tests]))

    return replaced(node if places else node.copy(), new)
