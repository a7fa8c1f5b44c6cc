"""Subqueries over public tables alone: constants, in place of which the values stand.

Such a subquery has one result as long as the tables are open: it draws, counts and reads nothing
besides. The reader is handed a callable that evaluates it; the result is part of the request.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from sqlglot import expressions as exp

from dpnb.errors import DpnbError
from dpnb.schema.table import Table
from dpnb.sql.constants import Constants
from dpnb.sql.grammar import is_written
from dpnb.sql.names import LARGE, Names, Result, folded
from dpnb.sql.quoting import as_written
from dpnb.sql.source import MAX_NODES, Node, Source, others

Evaluate: TypeAlias = Callable[[str, Collection[str]], list[tuple[Any, ...]]]
"""Returns the rows of a SELECT over the public tables with some names."""

_CLAUSES: dict[type, tuple[str, ...]] = {
    exp.Select: ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct", "operation_modifiers"),
    exp.Union: ("this", "expression", "distinct", "by_name"), exp.Except: ("this", "expression", "distinct"),
    exp.Intersect: ("this", "expression", "distinct"),
    exp.From: ("this",), exp.Join: ("this", "on", "using", "side", "kind"), exp.Table: ("this", "alias"),
    exp.TableAlias: ("this", "columns"), exp.Subquery: ("this", "alias"), exp.Where: ("this",), exp.Group: ("expressions",),
    exp.Having: ("this",), exp.Order: ("expressions",), exp.Ordered: ("this", "desc", "nulls_first"), exp.Limit: ("expression",),
    exp.Distinct: ("expressions",), exp.In: ("this", "expressions", "query"), exp.Exists: ("this",), exp.Star: (),
    exp.Filter: ("this", "expression"), exp.Column: ("this", "table"), exp.Identifier: ("this", "quoted"), exp.Alias: ("this", "alias"),
    exp.Count: ("this", "big_int"), exp.Sum: ("this",), exp.Avg: ("this",), exp.Min: ("this",), exp.Max: ("this",),
    exp.CountIf: ("this",), exp.Median: ("this",), exp.Stddev: ("this",), exp.StddevSamp: ("this",), exp.StddevPop: ("this",),
    exp.Variance: ("this",), exp.VariancePop: ("this",),
}  # fmt: skip
"""What may be written besides expressions of a row, with its arguments."""


_JOINS = ("", "INNER", "CROSS", "OUTER")
_SAME = "Write a SELECT over public tables whose result is the same every time."


class PublicSubqueries:
    """Puts the values of public subqueries in place of them.

    Parameters
    ----------
    source : Source
        For positions in error messages.
    tables : mapping of str to Table
        The catalogue; only declarations are used.
    evaluate : callable or None
        Without it, subqueries stay where they are.
    constants : Constants
        For the values of parameters.
    """

    def __init__(
        self,
        source: Source,
        tables: Mapping[str, Table],
        names: Names,
        evaluate: Evaluate | None,
        constants: Constants,
    ) -> None:
        self.refuse = source.refuse
        self.source = source
        self.tables = {name.casefold(): table for name, table in tables.items()}
        self.names = names
        self.evaluate = evaluate
        self.constants = constants

    def within(self, select: Node, queries: Mapping[str, Any]) -> Node:
        """Return a SELECT whose expressions have no public subquery; itself if there is none."""
        if self.evaluate is None or not isinstance(select, exp.Select):
            return select
        places = [select, *(select.args.get("joins") or ())]
        if not any(value.find(exp.Query) for place in places for _, value in _clauses(place)):
            return select
        result = select.copy()
        for place in [result, *(result.args.get("joins") or ())]:
            for name in dict.fromkeys(name for name, _ in _clauses(place)):
                value = place.args[name]
                parts = value if isinstance(value, list) else [value]
                put = [self.replaced(part, queries) for part in parts]
                place.set(name, put if isinstance(value, list) else put[0])
        return result

    def replaced(self, node: Node, queries: Mapping[str, Any]) -> Node:
        """Return a condition or expression without public subqueries."""

        def put(part: Node) -> Node:
            if isinstance(part, exp.In) and part.args.get("query") is not None:
                values = self.column(part.args["query"].this, queries)
                return part if values is None else self.member(part, values, queries)
            if isinstance(part, exp.EQ) and isinstance(part.expression, exp.Any):
                # the same as IN
                values = self.column(part.expression.this, queries)
                return part.copy() if values is None else self.member(part, values, queries)
            if isinstance(part, exp.Exists):
                rows = self.rows(part.this, queries)
                return (
                    part if rows is None else self.names.placed(exp.Boolean(this=bool(rows)), part)
                )
            if isinstance(part, exp.Subquery):
                values = self.column(part.this, queries)
                if values is None:
                    return part.copy()
                if len(values) > 1:
                    self.refuse("this subquery has several rows", "Select one: MAX(x).", part)
                return self.names.placed(constant(values[0] if values else None), part)
            return part.copy() if isinstance(part, exp.Query) else part

        return node.transform(put)

    def member(self, node: Node, values: list[Any], queries: Mapping[str, Any]) -> Node:
        """Return IN with a list, in one order."""
        subject = self.replaced(node.this, queries)
        found = [constant(value) for value in sorted({*values} - {None})]
        test: Node = exp.In(this=subject, expressions=found) if found else exp.Boolean(this=False)
        if None in values:
            # a value that is not in the list may equal the missing one: this is never false
            place = _polarity(node)
            if place < 0:
                test = exp.Boolean(this=True)
            elif not place:
                self.refuse(
                    "this subquery has missing values", "Add WHERE x IS NOT NULL to it.", node
                )
        return self.names.placed(test, node)

    def column(self, query: Node, queries: Mapping[str, Any]) -> list[Any] | None:
        """Return the values of a subquery with one column, or None if it is not public."""
        rows = self.rows(query, queries)
        if rows and len(rows[0]) != 1:
            self.refuse("this subquery has several columns", "Select one.", query)
        return None if rows is None else [value for (value,) in rows]

    def rows(
        self, query: Node, queries: Mapping[str, Any], names: Sequence[str] = ()
    ) -> list[tuple[Any, ...]] | None:
        """Return the rows of a subquery, or its named columns, or None if it is not public."""
        while isinstance(query, exp.Subquery) and not query.args.get("alias"):
            query = query.this
        whole = self.inlined(query, queries)
        tables = self.tables_of(whole)
        if self.evaluate is None or not tables:
            return None
        whole = whole.transform(self.bound)
        self.check(whole, query)
        if names:
            listed = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
            named = exp.TableAlias(this=exp.to_identifier("named"))
            whole = exp.select(*listed).from_(exp.Subquery(this=whole, alias=named))
        failure: DpnbError | None = None
        rows: list[tuple[Any, ...]] = []
        try:
            rows = self.evaluate(whole.sql(dialect="duckdb"), tables)
        except DpnbError as error:
            failure = error
        if failure is not None:
            self.refuse(failure.what, failure.hint, query)
        if any(
            isinstance(value, float) and not math.isfinite(value) for row in rows for value in row
        ):
            self.refuse("this subquery has a value that is not finite", "Leave it out.", query)
        return rows

    def bound(self, node: Node) -> Node:
        """Return the value of a parameter in place of it."""
        if not isinstance(node, exp.Placeholder):
            return node
        value = self.constants.value(node)
        if isinstance(value, Fraction):
            return constant(float(value) if value.denominator > 1 else value.numerator)
        return constant(value)

    def reads(self, query: Node, queries: Mapping[str, Any]) -> bool:
        """Return whether a query reads public tables alone, which can be evaluated."""
        return self.evaluate is not None and bool(self.tables_of(self.inlined(query, queries)))

    def tables_of(self, whole: Node) -> list[str]:
        """Return the tables of a query, or nothing if one of them is not public."""
        names = {node.name.casefold() for node in whole.find_all(exp.Table)}
        tables = [self.tables.get(name) for name in names]
        if not all(table is not None and table.public for table in tables):
            return []
        return sorted(table.name for table in tables if table is not None)

    def inlined(self, query: Node, queries: Mapping[str, Any]) -> Node:
        """Return a query in which subqueries stand in place of the names of CTEs."""
        result = query.copy()
        clause = result.args.get("with_")
        if clause is not None:
            if clause.args.get("recursive"):
                self.refuse(
                    "recursive CTEs are not supported",
                    "Write a query that does not read itself.",
                    query,
                    "RECURSIVE",
                )
            own = dict(queries)
            for cte in clause.expressions:
                own[folded(cte.alias)] = (cte.args["alias"].columns, self.inlined(cte.this, own))
            queries = own
            result.set("with_", None)

        def put(part: Node) -> Node:
            if part is not result and isinstance(part, exp.Select | exp.SetOperation):
                return self.inlined(part, queries)
            found = queries.get(folded(part.name)) if isinstance(part, exp.Table) else None
            if found is None:
                return part
            columns, inner = (
                found
                if isinstance(found, tuple)
                else (found.node.args["alias"].columns, self.inlined(found.node.this, found.others))
            )
            alias = part.args.get("alias")
            self.names.spend(inner)
            named = exp.TableAlias(this=exp.to_identifier(part.alias or part.name, quoted=True))
            listed = (alias.columns if alias is not None else None) or columns
            if listed:
                named.set("columns", [column.copy() for column in listed])
            return exp.Subquery(this=inner.copy(), alias=named)

        return result.transform(put, copy=False)

    def check(self, whole: Node, written: Node) -> None:
        """Refuse what is not the same every time: draws, windows, files, settings, a LIMIT of some rows."""
        if sum(1 for _ in whole.walk()) > MAX_NODES:
            self.refuse(*LARGE, written)
        for part in [*whole.walk()]:
            if isinstance(part, exp.IgnoreNulls) and isinstance(part.this, exp.AnyValue):
                # the least of them
                part.replace(exp.Min(this=part.this.this))
        for part in whole.walk():
            known = _CLAUSES.get(type(part))
            if known is None and is_written(part):
                continue
            if isinstance(part, exp.Column) and folded(part.name) == "rowid":
                self.refuse("ROWID is not supported in a subquery", _SAME, written)
            unknown = [] if known is None else others(part.args, *known)
            kind = str(part.args.get("kind") or "").upper() if isinstance(part, exp.Join) else ""
            if known is None or unknown or kind not in _JOINS:
                word = self.source.written(part).partition("(")[0].strip().upper()
                if isinstance(part, exp.Distinct):
                    word = "DISTINCT ON"
                elif unknown or kind:
                    word = unknown[0].strip("_").upper() if unknown else f"{kind} JOIN"
                word = word or "GROUPING SETS"
                self.refuse(f"{word} is not supported in a subquery", _SAME, written)
            if isinstance(part, exp.Select) and part.args.get("limit") is not None:
                self.check_limit(part, written)

    def check_limit(self, select: Node, written: Node) -> None:
        """Refuse LIMIT where rows with other values can take each other's place."""
        order = select.args.get("order")
        terms = (
            set()
            if order is None
            else {term.this.sql(dialect="duckdb") for term in order.expressions}
        )
        shown = {item.sql(dialect="duckdb") for item in select.expressions}
        if not shown <= terms or any(item.find(exp.Star) for item in select.expressions):
            self.refuse(
                "this LIMIT keeps any of several rows",
                "Write ORDER BY with all selected columns before it.",
                written,
            )


class PublicResults:
    """Puts expressions in place of the columns of public queries that are joined.

    Parameters
    ----------
    source : Source
        For positions in error messages.
    """

    def __init__(self, source: Source, names: Names) -> None:
        self.refuse = source.refuse
        self.names = names

    def settle(
        self, results: Mapping[str, Result], tests: Sequence[Node], *, inner: bool
    ) -> list[Node]:
        """Find what the rows are looked up by, and return the conditions that are left."""
        left = list(tests)
        for label, result in results.items():
            for test in left if not result.found else ():
                sides = [test.this, test.expression] if isinstance(test, exp.EQ) else []
                keys = [
                    side for side in sides if isinstance(side, exp.Column) and side.table == label
                ]
                by = [
                    side
                    for side in sides
                    if not _tables(side) & {*results} and side.find(exp.Column)
                ]
                if len(keys) == len(by) == 1:
                    listed = self.look_up(result, keys[0], by[0], test)
                    left = [other for other in left if other is not test] + (
                        [listed] if inner else []
                    )
                    break
        return left

    def look_up(self, result: Result, key: Node, by: Node, test: Node) -> Node:
        """Make each column an expression of what is looked up, and return the test that it is found."""
        place = [folded(name) for name in result.names].index(folded(key.name))
        rows = {row[place]: row for row in result.rows if row[place] is not None}
        if len(rows) < sum(row[place] is not None for row in result.rows):
            self.refuse(
                f"this subquery has several rows with one {key.name}",
                f"Write GROUP BY {as_written(key.name)} in it.",
                test,
            )
        ordered = [rows[value] for value in sorted(rows)]
        for i, name in enumerate(result.names):
            cases = [
                exp.If(
                    this=exp.EQ(this=by.copy(), expression=constant(row[place])),
                    true=constant(row[i]),
                )
                for row in ordered
            ]
            result.found[folded(name)] = exp.Case(ifs=cases) if cases else exp.Null()
        if not ordered:
            return self.names.placed(exp.Boolean(this=False), test)
        keys = [constant(row[place]) for row in ordered]
        return self.names.placed(exp.In(this=by.copy(), expressions=keys), test)

    def fill(self, select: Node, results: Mapping[str, Result]) -> None:
        """Put the expressions in place of the columns."""
        for result in results.values():
            if not result.found and len(result.rows) == 1:
                values = map(constant, result.rows[0])
                result.found |= dict(zip(map(folded, result.names), values, strict=True))
            if not result.found:
                self.refuse(
                    "this subquery over public tables is joined by no equality",
                    f"Write JOIN (...) AS p ON p.{as_written(result.names[0])} = a column.",
                    select,
                )

        def put(part: Node) -> Node:
            if not isinstance(part, exp.Column) or part.table not in results:
                return part
            value = results[part.table].found[folded(part.name)].copy()
            return self.names.placed(
                exp.Paren(this=value) if isinstance(value, exp.Neg) else value, part
            )

        select.transform(put, copy=False)


def _tables(node: Node) -> set[str]:
    return {column.table for column in node.find_all(exp.Column)}


def _clauses(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the conditions and expressions of a SELECT or a join."""
    for name in ("expressions", "where", "group", "having", "qualify", "order", "on"):
        value = node.args.get(name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expression):
                yield name, part


def _polarity(node: Node) -> int:
    """Return 1 for a condition that must be true, -1 for one that must be false, 0 if values matter."""
    sign, below, above = 1, node, node.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren | exp.Not):
        sign = -sign if isinstance(above, exp.Not) else sign
        below, above = above, above.parent
    tested = isinstance(above, exp.If) and above.this is below
    return sign if tested or isinstance(above, exp.Where | exp.CountIf) else 0


def constant(value: Any) -> exp.Expression:
    """Return the literal of a value."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, datetime.date):
        kind = (
            exp.DataType.Type.TIMESTAMP
            if isinstance(value, datetime.datetime)
            else exp.DataType.Type.DATE
        )
        return exp.cast(exp.Literal.string(str(value)), kind)
    # all digits of a float, so that it equals itself
    digits = f"{Decimal(value):f}"
    number = exp.Literal.number(digits.removeprefix("-"))
    return exp.Neg(this=number) if digits.startswith("-") else number
