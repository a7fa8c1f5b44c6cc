"""CTEs and subqueries in FROM, put where they are used.

A query in FROM that filters, projects, renames or computes is merged into the SELECT that reads it:
its conditions become part of WHERE, its columns stand where they are named, and its order is
dropped. What is left is one SELECT over declared tables. A query that groups, counts or lists
distinct values stays in FROM, flat in the same way. Names are resolved as DuckDB does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import expressions as exp

from dpnb.errors import nearest
from dpnb.schema.table import Table
from dpnb.sql.conjuncts import conjunction, conjuncts
from dpnb.sql.constants import Constants
from dpnb.sql.lines import split
from dpnb.sql.links import check_join
from dpnb.sql.members import ids_of, members
from dpnb.sql.merging import ROWS, is_merged, is_plain, missing
from dpnb.sql.names import (
    LARGE,
    ORDER,
    Level,
    Named,
    Names,
    Result,
    Visible,
    base_column,
    folded,
    is_ordered,
    open_of,
    rename,
    show,
)
from dpnb.sql.public import Evaluate, PublicResults, PublicSubqueries
from dpnb.sql.rows import check_row
from dpnb.sql.source import MAX_NODES, Node, Source, others

_RESULT = "\0"
"""Beginning of the table of columns that stand for those of a public query."""
_SHAPE = "Write FROM (SELECT ... FROM table WHERE ...) AS name."

Queries: TypeAlias = Mapping[str, "Defined"]


@dataclass(frozen=True, slots=True)
class Defined:
    """A CTE, and those that it can name."""

    node: exp.CTE
    others: Queries


def substituted(
    source: Source,
    tables: Mapping[str, Table],
    tree: Node,
    evaluate: Evaluate | None = None,
    params: Mapping[str, object] | None = None,
) -> Node:
    """Return a statement whose FROM has only tables, and queries that aggregate.

    Parameters
    ----------
    source : Source
        For positions in error messages.
    tables : mapping of str to Table
        The catalogue; only declarations are used.
    tree : sqlglot.Expression
        A SELECT, or several with UNION.
    evaluate : callable, optional
        Returns the rows of a subquery over public tables, in whose place they stand.
    params : mapping, optional
        Values of parameters in such subqueries.

    Returns
    -------
    sqlglot.Expression
        The same tree if there is nothing to put anywhere.
    """
    ids = ids_of(tables)
    single = {
        folded(name) for name, t in tables.items() if t.unit is not None and t.unit.max_rows == 1
    }
    single -= {folded(query.alias) for query in tree.find_all(exp.CTE)}
    tree = members(tree, ids, single)
    queries = tree.find_all(exp.With, exp.Subquery, exp.CTE)
    nested = (node for node in tree.find_all(exp.Table) if node.args.get("joins"))
    in_from = (q for q in queries if isinstance(q, exp.With) or _reads(q))
    substitution = _Substitution(
        source, tables, evaluate, ids, single, Constants(source, params or {})
    )
    if next(in_from, None) is None and next(nested, None) is None:
        return substitution.public.within(tree, {})
    result = substitution.query(tree, {})
    if sum(1 for _ in result.walk()) > MAX_NODES:
        source.refuse(*LARGE)
    return result


_UNNAMED = ("expressions", "from_", "joins", "where", "group")
"""Clauses that do not name columns of the SELECT list."""


def _value(item: Node) -> Node:
    """Return an entry of the SELECT list without its alias."""
    return item.this if isinstance(item, exp.Alias) else item


def _names(query: Node) -> list[str]:
    """Return the names of a query's results; "" for those without."""
    while isinstance(query, exp.SetOperation):
        query = query.this
    return ["" if item.is_star else item.alias_or_name for item in query.expressions]


def _reads(node: Node) -> bool:
    """Return whether a subquery stands in FROM."""
    return isinstance(node.parent, exp.From | exp.Join | exp.Subquery | exp.Lateral)


class _Substitution:
    """Puts the queries of one statement where they are used."""

    def __init__(
        self,
        source: Source,
        tables: Mapping[str, Table],
        evaluate: Evaluate | None,
        ids: Collection[str],
        single: Collection[str],
        constants: Constants,
    ) -> None:
        self.refuse = source.refuse
        self.source = source
        self.tables = {name: table for name, table in tables.items() if name.isidentifier()}
        self.ids, self.single = ids, single
        self.names = Names(source)
        self.public = PublicSubqueries(source, self.tables, self.names, evaluate, constants)
        self.results = PublicResults(source, self.names)
        self.labels: set[str] = set()
        self.joined, self.count = False, 0

    # one SELECT

    def query(self, node: Node, queries: Queries) -> Node:
        """Return a query with nothing left to put into it."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this, queries)
        queries = self.defined(node, queries)
        node = self.public.within(node, queries)
        outer, self.labels = self.labels, set()
        result = node.copy()
        result.set("with_", None)
        if isinstance(node, exp.SetOperation):
            for side in ("this", "expression"):
                result.set(side, self.query(node.args[side], queries))
        elif isinstance(node, exp.Select):
            self.select(node, result, queries)
        else:
            self.refuse("only SELECT is supported here", _SHAPE, node)
        self.labels = outer
        return result

    def select(self, node: Node, result: Node, queries: Queries) -> None:
        """Rewrite the copy of a SELECT."""
        level, aliases = self.level(node, queries), dict[str, Node]()
        names = {folded(item.alias_or_name) for item in node.expressions} - {""}
        result.set("expressions", [self.shown(item, level, aliases) for item in node.expressions])
        tests = [*level.conditions, *self.where(node, level, aliases)]
        if level.results:
            tests = [part for test in tests for part in conjuncts(test)]
            tests = self.results.settle(level.results, tests, inner=True)
        condition = conjunction(tests)
        result.set("where", None if condition is None else exp.Where(this=condition))
        if not level.tables:
            bare = next(
                (one for one in node.find_all(exp.Select) if not one.args.get("from_")), None
            )
            self.refuse(
                "FROM names no table",
                f"Add FROM {next(iter(self.tables), 't')}.",
                bare or node,
            )
        result.set("from_", exp.From(this=level.tables[0]))
        result.set(
            "joins",
            [*(exp.Join(this=table, kind="CROSS") for table in level.tables[1:]), *level.left],
        )
        group = node.args.get("group")
        keys = set() if group is None else {folded(key.name) for key in group.expressions}
        for clause in ("group", "distinct", "windows"):
            self.clause(result, clause, level, aliases, frozenset())
        for clause in ("having", "qualify", "order"):
            kept = names if clause == "order" else names - keys
            self.clause(result, clause, level, aliases, frozenset(kept))
        if level.results:
            self.results.fill(result, level.results)

    def clause(
        self, result: Node, name: str, level: Level, aliases: Mapping[str, Node], kept: frozenset[str]
    ) -> None:  # fmt: skip
        """Resolve the names of a clause, but for those of results that are ``kept``."""
        value = result.args.get(name)
        if isinstance(value, list):
            result.set(name, [self.names.resolved(part, level, aliases, kept) for part in value])
        elif isinstance(value, exp.Expression):
            result.set(name, self.names.resolved(value, level, aliases, kept))

    def level(self, select: Node, queries: Queries) -> Level:
        """Read FROM and its joins."""
        source, joins = select.args.get("from_"), select.args.get("joins") or []
        outer, self.joined = self.joined, bool(joins)
        level = Level() if source is None else self.item(source.this, queries)
        for join in joins:
            self.join(level, join, queries)
        self.joined = outer
        return level

    def where(self, select: Node, level: Level, aliases: Mapping[str, Node]) -> list[Node]:
        node = select.args.get("where")
        return [] if node is None else [self.names.resolved(node.this, level, aliases)]

    def shown(self, item: Node, level: Level, aliases: dict[str, Node]) -> Node:
        """Return one column of the SELECT list, under the name that it had."""
        inner = item.this if isinstance(item, exp.Alias) else item
        of_table = isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
        if isinstance(inner, exp.Star) or of_table:
            return item.copy()
        value = self.names.resolved(inner, level, aliases)
        alias = item.alias if isinstance(item, exp.Alias) else ""
        same = (
            folded(value.name) == folded(inner.name) and not value.table.startswith(_RESULT)
            if isinstance(value, exp.Column)
            else False
        )
        if isinstance(inner, exp.Column) and not alias and not same:
            alias = inner.name
        if not alias:
            return value
        aliases.setdefault(folded(alias), value)
        return self.names.placed(
            exp.Alias(this=value, alias=exp.to_identifier(alias, quoted=True)), item
        )

    # FROM

    def defined(self, node: Node, queries: Queries) -> Queries:
        """Return the queries that the body of a statement can name: its WITH shadows outer ones."""
        clause = node.args.get("with_")
        if clause is None:
            return queries
        if clause.args.get("recursive"):
            self.refuse(
                "recursive CTEs are not supported", "Write a query that does not read itself.",
                clause, "RECURSIVE",
            )  # fmt: skip
        for query in clause.expressions:
            if not isinstance(query.this, exp.Query):
                self.refuse("only SELECT can follow AS in WITH", "Write WITH name AS (SELECT ...).", query.args["alias"])  # fmt: skip
            if others(query.args, "this", "alias", "materialized"):
                self.refuse("this form of WITH is not supported", "Write WITH name AS (SELECT ...).", query.args["alias"])  # fmt: skip
            # a query that nobody reads is checked, too
            if not self.public.reads(query.this, queries):
                outer, self.labels = self.labels, set()
                self.derived(query.this, queries, query.alias, query.args["alias"].columns)
                self.labels = outer
            queries = {**queries, folded(query.alias): Defined(query, queries)}
        return queries

    def item(self, node: Node, queries: Queries) -> Level:
        """Read one entry of FROM."""
        if isinstance(node, exp.Table):
            level = self.table(node, queries)
        elif isinstance(node, exp.Subquery):
            self.only(node, "this", "alias", "joins")
            level = self.subquery(node, queries)
        else:
            self.refuse(f"{node.key.upper()} is not supported in FROM", _SHAPE, node)
        for join in node.args.get("joins") or []:
            self.join(level, join, queries)
        return level

    def subquery(self, node: Node, queries: Queries) -> Level:
        alias = node.args.get("alias")
        inner = node.this
        if isinstance(inner, exp.Query) and not isinstance(inner, exp.Subquery):
            return self.derived(inner, queries, node.alias, () if alias is None else alias.columns)
        level = self.item(inner, queries)
        if alias is not None:
            rename(self.source, level, node.alias, alias.columns)
        return level

    def only(self, node: Node, *known: str) -> None:
        """Refuse what else stands at an entry of FROM."""
        for name in others(node.args, *known):
            what, hint = ROWS.get(name, (f"{name.strip('_').upper()} is not supported in FROM", "Leave it out."))  # fmt: skip
            if name in ("pivots", "sample"):
                what = "sampling is not supported" if name == "sample" else "PIVOT is not supported"
            self.refuse(what, hint, node)

    def table(self, node: Node, queries: Queries) -> Level:
        """Read a declared table or a CTE."""
        if not isinstance(node.this, exp.Identifier):
            self.refuse("table functions are not supported", "Name a declared table.", node)
        self.only(node, "this", "alias", "joins", "db", "catalog")
        if others(node.args, "this", "alias", "joins"):
            self.refuse("only a declared table can follow FROM", "Write only the name of the table.", node)  # fmt: skip
        alias = node.args.get("alias")
        listed = () if alias is None else alias.columns
        query = queries.get(folded(node.name))
        if query is not None:
            own = query.node.args["alias"].columns
            level = self.derived(query.node.this, query.others, node.name, own)
            if alias is not None:
                rename(self.source, level, node.alias, listed)
            return level
        names = {name.casefold(): name for name in self.tables}
        name = names.get(node.name.casefold())
        if name is None:
            known = [*self.tables, *(query.node.alias for query in queries.values())]
            self.refuse(f"unknown table {node.name!r}", nearest(node.name, known), node)
        if listed:
            self.refuse(*ORDER, node)
        spelled = node.alias or name
        label = self.label(spelled)
        table = exp.Table(this=exp.to_identifier(name, quoted=True))
        if label != name:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(label, quoted=True)))
        columns = self.tables[name].columns
        found = {folded(column): (column, base_column(column, label)) for column in columns}
        visible = Visible(folded(spelled), found, ordered=False)
        return Level([self.names.placed(table, node)], visible=[visible])

    def label(self, name: str) -> str:
        """Return a name that no other table of the statement has."""
        label, number = name, 1
        while folded(label) in self.labels:
            number += 1
            label = f"{name}_{number}"
        self.labels.add(folded(label))
        return label

    def join(self, level: Level, node: Node, queries: Queries) -> None:
        """Add a joined entry of FROM to those before it."""
        inner = check_join(self.source, node)
        new = self.item(node.this, queries)
        taken = {visible.name for visible in level.visible} - {""}
        for name in sorted(taken & {visible.name for visible in new.visible}):
            self.refuse(f"two tables are called {name!r}", "Name them with AS.", node.this)
        if not inner and not new.results and (len(new.tables) != 1 or new.conditions):
            new = self.evaluated(node.this, queries, new) or self.refuse(
                "a LEFT JOIN with a subquery that joins or filters is not supported",
                "Join its table, and write its conditions in WHERE or with CASE.",
                node.this,
            )
        before = level.visible
        level.visible = before + new.visible
        tests = [self.using(column, before, new, level) for column in node.args.get("using") or []]
        if node.args.get("on") is not None:
            tests.append(self.names.resolved(node.args["on"], level, {}))
        level.results |= new.results
        if not inner and new.results:
            if self.results.settle(new.results, tests, inner=False):
                self.refuse("ON takes one equality of two columns", "Write FROM a LEFT JOIN b ON a.x = b.x.", node.this)  # fmt: skip
        elif inner:
            level.conditions += [*new.conditions, *tests]
            level.tables += new.tables
        else:
            test = conjunction(tests)
            level.visible = before + missing(self.source, new, test, node)
            level.left.append(exp.Join(this=new.tables[0], side="LEFT", on=test))
        level.left += new.left

    def evaluated(self, node: Node, queries: Queries, level: Level) -> Level | None:
        """Return an entry of FROM as the rows of a public query, with the columns that it shows."""
        query = node.this
        if isinstance(node, exp.Table):
            found = queries.get(folded(node.name))
            if found is None:
                return None
            query, queries = found.node.this, found.others
        (visible,) = level.visible
        names = [spelled for spelled, _ in visible.columns.values()]
        return self.result(query, queries, names, visible.name)

    def result(
        self, query: Node, queries: Queries, names: Sequence[str], name: str
    ) -> Level | None:  # fmt: skip
        """Return a public query of FROM as its rows."""
        rows = self.public.rows(query, queries, names)
        if rows is None:
            return None
        self.count += 1
        label = f"{_RESULT}{self.count}"
        columns = {folded(spelled): (spelled, base_column(spelled, label)) for spelled in names}
        return Level(
            visible=[Visible(folded(name), columns)], results={label: Result([*names], rows)}
        )

    def using(self, column: Node, before: Sequence[Visible], new: Level, level: Level) -> Node:
        """Return the equality that USING stands for, and merge both columns."""
        if not isinstance(column, exp.Identifier):
            self.refuse("USING takes names of columns", "Write USING (column).", column)
        name = folded(column.name)
        left = [level.merged[name]] if name in level.merged else [v.columns[name] for v in before if name in v.columns]  # fmt: skip
        right = [visible.columns[name] for visible in new.visible if name in visible.columns]
        if len(left) != 1 or len(right) != 1:
            what = f"unknown column {column.name!r}" if not (left and right) else f"several tables have a column {column.name!r}"  # fmt: skip
            self.refuse(what, "Write ON a.x = b.x.", column)
        level.merged[name] = left[0]
        sides = (self.names.placed(side.copy(), column) for _, side in (left[0], right[0]))
        return self.names.placed(exp.EQ(this=next(sides), expression=next(sides)), column)

    # queries of FROM

    def derived(
        self, query: Node, queries: Queries, name: str, columns: Sequence[Node]
    ) -> Level:  # fmt: skip
        """Merge a query of FROM, or keep one that aggregates."""
        queries = self.defined(query, queries)
        query = self.public.within(query, queries)
        query = split(members(query, self.ids, self.single), self.ids, self.taken(query, queries))
        if self.joined and not is_plain(query):
            names = _names(query)
            result = self.result(query, queries, names, name) if all(names) else None
            if result is not None:
                if columns:
                    rename(self.source, result, name, columns)
                return result
        if not is_merged(self.source, query):
            return self.kept(query, queries, name, columns)
        level, aliases = self.level(query, queries), dict[str, Node]()
        shown: list[Named] = []
        ordered, open_ = True, ""
        for item in query.expressions:
            inner = item.this if isinstance(item, exp.Alias) else item
            star = inner.this if isinstance(inner, exp.Column) else inner
            if isinstance(star, exp.Star):
                ordered = ordered and is_ordered(level)
                open_ = open_ or open_of(level)
                shown += self.star(inner, star, level, aliases)
                continue
            check_row(self.source, inner)
            value = self.names.resolved(inner, level, aliases)
            spelled = item.alias if isinstance(item, exp.Alias) else inner.name if isinstance(inner, exp.Column) else ""  # fmt: skip
            shown.append((spelled, value))
            if isinstance(item, exp.Alias):
                aliases.setdefault(folded(spelled), value)
        level.conditions += self.where(query, level, aliases)
        for term in query.args["order"].expressions if query.args.get("order") else ():
            check_row(self.source, term.this)
            if folded(term.this.name) != "all":
                self.names.resolved(
                    term.this, level, {**{folded(n): v for n, v in shown}, **aliases}
                )
        show(self.source, level, name, columns, shown, ordered, open_)
        return level

    def taken(self, query: Node, queries: Queries) -> set[str]:
        """Return names that columns of the tables in a query's FROM may have."""
        nodes = [query, *(other.node for other in queries.values())]
        named = {folded(table.name) for node in nodes for table in node.find_all(exp.Table)}
        columns = {
            folded(c) for n, t in self.tables.items() if folded(n) in named for c in t.columns
        }
        inner = (select for node in nodes for select in node.find_all(exp.Select))
        return columns.union(*(map(folded, _names(one)) for one in inner if one is not query))

    def star(
        self, node: Node, star: Node, level: Level, aliases: Mapping[str, Node]
    ) -> Iterator[Named]:  # fmt: skip
        """Yield the columns that ``*`` or ``t.*`` stands for."""
        left_out = {folded(column.name) for column in star.args.get("except_") or ()}
        renamed = {folded(entry.this.name): entry.alias for entry in star.args.get("rename") or ()}
        replaced = {folded(entry.alias): entry.this for entry in star.args.get("replace") or ()}
        if others(star.args, "except_", "rename", "replace"):
            self.refuse("this form of * is not supported", "Name the columns.", node)
        columns = level.columns()
        if isinstance(node, exp.Column):
            (visible,) = self.names.among(node, level)
            columns = iter(visible.columns.values())
        every = {folded(spelled): (spelled, value) for spelled, value in columns}
        for name in sorted((left_out | renamed.keys() | replaced.keys()) - every.keys()):
            self.refuse(f"unknown column {name!r}", nearest(name, [c for c, _ in every.values()]), node)  # fmt: skip
        for name, (spelled, value) in every.items():
            if name in replaced:
                check_row(self.source, replaced[name])
                yield spelled, self.names.resolved(replaced[name], level, aliases)
            elif name not in left_out:
                yield renamed.get(name, spelled), value

    def kept(self, query: Node, queries: Queries, name: str, columns: Sequence[Node]) -> Level:
        """Keep a query that aggregates in FROM; its results are named like columns of a table."""
        label = self.label(name or "subquery")
        inner = self.query(query, queries)
        if columns and isinstance(inner, exp.Select) and not others(inner.args, *_UNNAMED):
            # nothing else names the columns
            items = zip(inner.expressions, columns, strict=False)
            named = [exp.alias_(_value(item), column.copy()) for item, column in items]
            inner.set("expressions", [*named, *inner.expressions[len(named) :]])
            columns = ()
        shown = inner
        while isinstance(shown, exp.SetOperation):
            shown = shown.this
        names = [column.name for column in columns]
        names += [item.alias_or_name for item in shown.expressions[len(names) :]]
        results = {
            folded(result): (result, base_column(result, label)) for result in names if result
        }
        alias = exp.TableAlias(this=exp.to_identifier(label, quoted=True))
        if columns:
            alias.set("columns", [column.copy() for column in columns])
        table = exp.Subquery(this=inner, alias=alias)
        return Level([table], visible=[Visible(folded(name), results, open=label)])
