"""``GROUP BY id`` in a query of FROM: one row for each id, as a table of its own.

Such a query has the id of the privacy unit among its keys, and each of its other columns is an
aggregate of one id's rows. What else it may have, such as arithmetic on aggregates and HAVING, is a
function of a row of that table, and ``lines`` has taken it apart before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpnb.codes import Interval
from dpnb.schema.columns import Category, Real
from dpnb.schema.persons import MAX_LEVELS, shown_name
from dpnb.schema.predicates import EVERY, And, Predicate, simplify
from dpnb.schema.table import Table
from dpnb.sql.computed import ComputedKey
from dpnb.sql.conditions import Conditions
from dpnb.sql.expressions import Arguments
from dpnb.sql.features import Feature, Order, Per, Persons
from dpnb.sql.functions import Function
from dpnb.sql.names import text_of
from dpnb.sql.narrowing import codes_of
from dpnb.sql.quoting import as_written
from dpnb.sql.relations import Relation, read_from
from dpnb.sql.source import Node, Source, bare, others
from dpnb.sql.spellings import unaliased
from dpnb.sql.values import Case, Column, Number, Value

_PER: dict[type, Per] = {
    exp.Count: Per.COUNT, exp.Sum: Per.SUM, exp.Avg: Per.AVG, exp.Min: Per.MIN, exp.Max: Per.MAX,
    exp.Median: Per.MEDIAN, exp.Mode: Per.MODE,
}  # fmt: skip
_PICKED = (exp.AnyValue, exp.First, exp.FirstValue, exp.Last, exp.LastValue, exp.ArgMax, exp.ArgMin)
_NUMERIC = (Per.SUM, Per.AVG, Per.MEDIAN)
_SHAPE = (
    "Write COUNT(*), COUNT(x), COUNT(DISTINCT x), SUM(x), AVG(x), MIN(x), MAX(x), MEDIAN(x), MODE(x), ANY_VALUE(x), "
    "FIRST(x ORDER BY y), ARG_MAX(x, y), BOOL_OR(x > 3), with FILTER (WHERE ...) if needed."
)


class PersonsReader:
    """Reads queries of FROM as tables of persons.

    Parameters
    ----------
    source : Source
        For positions in error messages.
    tables : mapping of str to Table
        The catalogue; only declarations are used.
    params : mapping
        Values of the bound parameters ``:name``.
    """

    def __init__(
        self, source: Source, tables: Mapping[str, Table], params: Mapping[str, object]
    ) -> None:
        self.source, self.tables, self.params = source, tables, params
        self.refuse = source.refuse
        self.level = 0

    def relation(self, node: Node) -> Relation | None:
        """Return the table of a query in FROM, or None if it has no groups.

        Raises
        ------
        SqlError
            If it does not group by the id of a privacy unit.
        """
        select = node.this
        while isinstance(select, exp.Subquery):
            select = select.this
        if not isinstance(select, exp.Select) or not (
            select.args.get("group") or select.args.get("distinct")
        ):
            return None
        self.check(node, select)
        self.level += 1
        if self.level > MAX_LEVELS:
            self.refuse(
                f"more than {MAX_LEVELS} queries are nested", "Group by the id fewer times.", node
            )
        scope = read_from(self.source, self.tables, select, self.relation)
        conditions = Conditions(self.source, scope, self.params)
        unit = scope.base.unit
        nodes = self.grouped(select)
        ids = [key for key in nodes if conditions.names_unit(key)]
        if unit is None or not ids:
            self.refuse_groups(scope.base, node)
        self.check_distinct(select, nodes)
        where = scope.condition
        written = EVERY if where is None else conditions.predicate(where)
        condition = simplify(And((*scope.present, written)), scope.base.schema)
        keys = {
            text_of(bare(key)): self.key(key, conditions, condition)
            for key in nodes
            if key not in ids
        }
        features: dict[str, Feature] = {}
        names, known = set[str](), dict[str, str]()
        for item in select.expressions:
            inner = item.this if isinstance(item, exp.Alias) else item
            name = item.alias_or_name.casefold()
            if conditions.names_unit(inner):
                names.add(name)
                continue
            key = keys.get(text_of(bare(inner)))
            if isinstance(inner, exp.Column):
                column = conditions.column(inner)
                if column not in keys.values():
                    self.refuse(
                        f"{inner.name!r} is not in GROUP BY", "Aggregate it, as in MAX(x).", inner
                    )
                key = column
            if key is not None:
                if name:
                    known.setdefault(name, key if isinstance(key, str) else key.name)
                continue
            feature = self.feature(inner, conditions)
            if feature.kind(scope.base.schema, unit.max_rows, condition) is None:
                self.refuse(
                    "the values of this expression can be too large",
                    "Declare narrower bounds, or a smaller max_rows.",
                    inner,
                )
            features[feature.name] = feature
            if name:
                known.setdefault(name, feature.name)
        persons = Persons.of(scope.base, condition, keys.values(), features.values())
        label = node.alias or "subquery"
        self.level -= 1
        return Relation(
            persons.table(), frozenset((label.casefold(),)), label,
            results=known, ids=frozenset(names), persons=persons,
        )  # fmt: skip

    def check(self, node: Node, select: Node) -> None:
        """Refuse a query with other clauses."""
        known = ("expressions", "from_", "joins", "where", "group", "distinct")
        for name in others(select.args, *known):
            word = name.strip("_").upper()
            self.refuse(
                f"{word} is not supported in a query with one row for each id",
                "Leave it out.",
                node,
            )

    def check_distinct(self, select: Node, keys: Collection[Node]) -> None:
        """Refuse DISTINCT where it drops rows of a query."""
        distinct = select.args.get("distinct")
        if distinct is None:
            return
        if others(distinct.args):
            self.refuse(
                "DISTINCT ON keeps any of several rows",
                "Group by the id, and write FIRST(x ORDER BY y).",
                distinct,
                "DISTINCT",
            )
        shown = [unaliased(item) for item in select.expressions]
        if any(key not in shown for key in keys):
            self.refuse(
                "DISTINCT would drop equal rows of one id",
                "Select all columns of GROUP BY, or leave DISTINCT out.",
                distinct,
                "DISTINCT",
            )

    def grouped(self, select: Node) -> list[Node]:
        """Return the keys of a query; those of SELECT DISTINCT are its columns."""
        group = select.args.get("group")
        if group is None:
            return [
                node.this if isinstance(node, exp.Alias) else node for node in select.expressions
            ]
        if others(group.args, "expressions") or not group.expressions:
            self.refuse("GROUP BY takes column names", "Write GROUP BY a, b.", group, "ALL")
        return list(group.expressions)

    def refuse_groups(self, base: Table, node: Node) -> NoReturn:
        """Refuse a query that has groups of people instead of one row for each."""
        unit = base.unit
        if unit is None:
            self.refuse(
                f"{shown_name(base.name)!r} protects a row, so a query in FROM cannot group its rows",
                "Declare the people whose rows these are: Table(..., unit=dpnb.Unit('person_id', max_rows=3)).",
                node,
            )
        self.refuse(
            "a query in FROM can group only by the id of the privacy unit",
            f"Write GROUP BY {as_written(unit.column)}, or ask for its groups in a statement of their own.",
            node,
        )

    def key(self, node: Node, conditions: Conditions, where: Predicate) -> str | ComputedKey:
        """Return a key of GROUP BY besides the id."""
        if not isinstance(bare(node), exp.Column) and conditions.is_expression(node):
            return self.computed(node, conditions, where)
        column = conditions.column(node)
        kind = conditions.schema[column]
        if isinstance(kind, Real) or (not isinstance(kind, Category) and kind.bins is not None):
            self.refuse(
                f"{column!r} has bins, by which a query in FROM cannot group",
                "Group by the id alone, or declare a column without bins.",
                node,
            )
        return column

    def computed(self, node: Node, conditions: Conditions, where: Predicate) -> ComputedKey:
        """Return a key that is an expression of one column."""

        def codes(column: str) -> Sequence[Interval]:
            return codes_of(where, column, conditions.schema[column])

        column, outputs, _ = conditions.domains.outputs(node, codes)
        key = ComputedKey.of(column, outputs)
        if key is None:
            self.refuse(
                "the values of this expression cannot be those of a column",
                "Write another one: whole numbers, texts or dates.",
                node,
            )
        return key

    def feature(self, node: Node, conditions: Conditions) -> Feature:
        """Read an aggregate of one id's rows."""
        condition: Predicate = EVERY
        while isinstance(node, exp.Paren | exp.IgnoreNulls | exp.Filter):
            if isinstance(node, exp.Filter):
                if not isinstance(node.expression, exp.Where):
                    self.refuse("FILTER needs a condition", "Write FILTER (WHERE ...).", node)
                condition = conditions.predicate(node.expression.this)
            node = node.this
        if isinstance(node, exp.CountIf | exp.LogicalAnd | exp.LogicalOr) and not others(
            node.args, "this"
        ):
            return self.tested(node, condition, conditions)
        if isinstance(node, _PICKED):
            return self.picked(node, condition, conditions)
        node = _mode(node)
        per = _PER.get(type(node))
        if isinstance(node, exp.Window):
            self.refuse("window functions over rows are not supported", "Use GROUP BY.", node)
        argument = None if per is None else node.this
        if per is None or argument is None or others(node.args, "this", "big_int"):
            self.refuse("this is not a value of one id's rows", _SHAPE, node)
        if isinstance(argument, exp.Distinct):
            return self.distinct(node, per, condition, conditions)
        if per is Per.COUNT and (isinstance(argument, exp.Star) or conditions.names_unit(argument)):
            return Feature(per, None, condition)
        value = self.argument(argument, per, conditions)
        if per is Per.COUNT and isinstance(value, Number):
            return Feature(per, None, condition)
        return Feature(per, value, condition)

    def argument(self, node: Node, per: Per, conditions: Conditions) -> Value:
        """Read the argument of an aggregate."""
        # the least and the largest of a column may be a date or a truth, of an expression a number
        counts = per is Per.COUNT or (per not in _NUMERIC and isinstance(bare(node), exp.Column))
        value = Arguments(conditions).value(Function.COUNT if counts else Function.SUM, node)
        named = conditions.schema[value.name] if isinstance(value, Column) else None
        if per in (Per.MIN, Per.MAX) and isinstance(named, Category):
            self.refuse("categories have no order", "Use ANY_VALUE, or BOOL_OR(x = 'a').", node)
        return value

    def distinct(
        self, node: Node, per: Per, condition: Predicate, conditions: Conditions
    ) -> Feature:
        """Read COUNT(DISTINCT x)."""
        columns = node.this.expressions
        if per is not Per.COUNT or len(columns) != 1:
            self.refuse("COUNT(DISTINCT) takes one column", "Write COUNT(DISTINCT x).", node)
        return Feature(Per.DISTINCT, Column(conditions.column(columns[0])), condition)

    def tested(self, node: Node, condition: Predicate, conditions: Conditions) -> Feature:
        """Read COUNT_IF, BOOL_AND and BOOL_OR."""
        holds = conditions.predicate(node.this)
        if isinstance(node, exp.CountIf):
            both = simplify(And((condition, holds)), conditions.schema)
            return Feature(Per.COUNT, None, both)
        fails = conditions.predicate(exp.Not(this=exp.Paren(this=node.this.copy())))
        branches = (holds, Number(Fraction(1))), (fails, Number(Fraction(0)))
        per = Per.EVERY if isinstance(node, exp.LogicalAnd) else Per.SOME
        return Feature(per, Case(branches, None), condition)

    def picked(self, node: Node, condition: Predicate, conditions: Conditions) -> Feature:
        """Read the value of one of an id's rows: the first in an order, or any that is there."""
        inner = node.this
        order: tuple[Order, ...] = ()
        if isinstance(inner, exp.Order):
            inner, terms = inner.this, inner.expressions
            order = tuple(
                (conditions.column(term.this), bool(term.args.get("desc")), False) for term in terms
            )
        column = conditions.column(inner)
        per = Per.FIRST
        if isinstance(node, exp.ArgMax | exp.ArgMin):
            if others(node.args, "this", "expression"):
                self.refuse("this takes two columns", "Write ARG_MAX(x, y).", node)
            by = conditions.column(node.expression)
            per, order = Per.ANY, ((by, isinstance(node, exp.ArgMax), False),)
        elif isinstance(node, exp.AnyValue):
            per = Per.ANY
            if order:
                self.refuse(
                    "ANY_VALUE has no order here",
                    "Write FIRST(x ORDER BY y) FILTER (WHERE x IS NOT NULL).",
                    node,
                )
        elif not order:
            self.refuse(
                "rows have no order of their own",
                "Write FIRST(x ORDER BY y), or ANY_VALUE(x).",
                node,
            )
        if isinstance(node, exp.Last | exp.LastValue):
            order = tuple((name, not down, True) for name, down, _ in order)
        for name, *_ in order:
            if isinstance(conditions.schema[name], Category):
                self.refuse("categories have no order", "Order by a number or a date.", node)
        return Feature(per, Column(column), condition, order)


def _mode(node: Node) -> Node:
    """Return MODE() WITHIN GROUP (ORDER BY x) as MODE(x); any other node as it is."""
    if not isinstance(node, exp.WithinGroup) or not isinstance(node.this, exp.Mode):
        return node
    terms = node.expression.expressions
    ascending = len(terms) == 1 and not terms[0].args.get("desc") and node.this.this is None
    return exp.Mode(this=terms[0].this) if ascending else node


def name_results(select: Node, relations: Sequence[Relation]) -> None:
    """Call the results of a statement as the columns of the queries in its FROM are called there."""
    known = _results(relations)
    select.set("expressions", [_named(item, known) for item in select.expressions])


def name_keys(select: Node, relations: Sequence[Relation]) -> None:
    """Do so with the keys that are not in the SELECT list, which are shown, too.

    Positions and aliases in GROUP BY stand for entries of the list, so they are replaced before.
    """
    known, group = _results(relations), select.args.get("group")
    if not known or group is None:
        return
    shown = {unaliased(item).sql(dialect="duckdb").casefold() for item in select.expressions}
    hidden = [key for key in group.expressions if key.sql(dialect="duckdb").casefold() not in shown]
    select.set("expressions", [*select.expressions, *(_named(key, known) for key in hidden)])


def _results(relations: Sequence[Relation]) -> set[str]:
    return set[str]().union(*(relation.results or () for relation in relations))


def _named(item: Node, known: set[str]) -> Node:
    measured = isinstance(item, exp.Sum | exp.Avg | exp.Count)
    names = {column.name for column in item.find_all(exp.Column)}
    if not (measured or isinstance(item, exp.Column)) or not known & set(map(str.casefold, names)):
        return item
    alias = "_".join([*([item.key] if measured else []), *sorted(names)])
    return exp.Alias(this=item, alias=exp.to_identifier(alias, quoted=True))
