"""One spelling for each statement, before it is read: public algebra of its text.

Positions and aliases stand for what they name, other systems' names of functions for ours, a
condition on group columns in HAVING for one in WHERE. What is put in place of a node bears the
place of what was written, so that errors point there.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import expressions as exp

from dpnb.schema.columns import Integer
from dpnb.schema.partition import declared, labels
from dpnb.schema.predicates import EVERY, And, Compared, Or, Predicate, simplify
from dpnb.schema.table import Table
from dpnb.sql.conditions import Conditions
from dpnb.sql.conjuncts import alternative, conjunction, conjuncts
from dpnb.sql.constants import is_constant
from dpnb.sql.quoting import as_written
from dpnb.sql.source import Node, Source, bare, others
from dpnb.sql.spellings import count_of_rows, is_key, marked, positioned, unaliased


def turned(source: Source, tables: Mapping[str, Table], tree: Node) -> Node:
    """Write ``public RIGHT JOIN private`` as ``private LEFT JOIN public``; changes the tree.

    Any other RIGHT JOIN, and a FULL JOIN, keeps rows of the looked-up table without a match. One
    private row takes such a row away and adds its own: two counts change by 1. So it is refused.
    """
    queries = {query.alias.casefold() for query in tree.find_all(exp.CTE)}
    private = {name.casefold() for name, table in tables.items() if not table.public} - queries
    for join in [*tree.find_all(exp.Join)]:
        side = str(join.args.get("side") or "").upper()
        if side not in ("RIGHT", "FULL") or join.args.get("method"):
            continue
        right: Node = join.this
        select: Node = join.parent
        start = select.args.get("from_") if isinstance(select, exp.Select) else None
        if start is None:
            continue
        is_private = isinstance(right, exp.Table) and right.name.casefold() in private
        if side == "RIGHT" and is_private and select.args["joins"][0] is join:
            join.set("this", start.this)
            join.set("side", "LEFT")
            start.set("this", right)
            continue
        first, other = (as_written(table.alias_or_name) for table in (start.this, right))
        if is_private:
            first, other = other, first
        source.refuse(
            f"this {side} JOIN keeps rows without a match, and one row can change two of them",
            f"Write FROM {first} LEFT JOIN {other}, or JOIN.",
            right,
        )
    return tree


def counted(source: Source, tables: Mapping[str, Table], select: exp.Select) -> exp.Select:
    """Write ``COUNT(x) FROM (SELECT DISTINCT x FROM t)`` as ``COUNT(DISTINCT x) FROM t``.

    COUNT(*) there counts missing values as one more value, unless there are none. Changes the tree.
    """
    start: Node = select.args.get("from_")
    inner: Node = (
        start.this.this if start is not None and isinstance(start.this, exp.Subquery) else None
    )
    items = select.expressions
    if (
        not isinstance(inner, exp.Select)
        or inner.args.get("distinct") is None
        or others(inner.args, "expressions", "distinct", "from_", "joins", "where", "order")
        or others(inner.args["distinct"].args)
        or len(inner.expressions) != 1
        or len(items) != 1
        or others(select.args, "expressions", "from_")
    ):
        return select
    count, value = unaliased(items[0]), unaliased(inner.expressions[0])
    named = inner.expressions[0].alias_or_name
    if not isinstance(count, exp.Count) or not isinstance(value, exp.Column):
        return select
    argument, first = bare(count.this), inner.args["from_"].this
    table = tables.get(first.name) if isinstance(first, exp.Table) else None
    if table is not None and table.unit is not None and table.unit.column == value.name:
        # one row for each id: a table of persons
        return select
    if isinstance(argument, exp.Star):
        complete = () if table is None else table.schema.complete
        if value.name not in complete or inner.args.get("joins"):
            source.refuse(
                "COUNT(*) would count missing values as one more value",
                f"Write COUNT(DISTINCT {as_written(value.name)}), without a subquery.",
                start.this,
            )
    elif not isinstance(argument, exp.Column) or argument.name.casefold() != named.casefold():
        return select
    distinct = exp.Count(this=exp.Distinct(expressions=[value]), big_int=True)
    count.replace(marked(distinct, source.span(count)))
    for clause in ("from_", "joins", "where"):
        select.set(clause, inner.args.get(clause))
    return select


def filtered(tables: Mapping[str, Table], tree: Node) -> Node:
    """Write ``LEFT JOIN public AS p ON a.x = p.x AND p.y > 3`` with a subquery that filters.

    Changes the tree. A row whose match does not satisfy the condition has none.
    """
    queries = {query.alias.casefold() for query in tree.find_all(exp.CTE)}
    public = {name.casefold() for name, table in tables.items() if table.public} - queries
    for join in [*tree.find_all(exp.Join)]:
        test, table = join.args.get("on"), join.this
        is_left = str(join.args.get("side") or "").upper() == "LEFT" and isinstance(test, exp.And)
        if not is_left or not isinstance(table, exp.Table) or table.name.casefold() not in public:
            continue
        tests = conjuncts(test)
        own = [one for one in tests if _names_only(one, table.alias_or_name)]
        if not own or len(own) == len(tests):
            continue
        join.set("on", conjunction([one for one in tests if one not in own]))
        inner = exp.select("*").from_(table.copy()).where(conjunction(own), copy=False)
        alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
        join.set("this", exp.Subquery(this=inner, alias=alias))
    return tree


def chosen(source: Source, tree: Node) -> Node:
    """Write ``COUNT(DISTINCT CASE WHEN y > 3 THEN x END)`` with FILTER; changes the tree."""
    for count in [*tree.find_all(exp.Count)]:
        values = count.this.expressions if isinstance(count.this, exp.Distinct) else []
        found = alternative(values[0]) if len(values) == 1 else None
        if found is not None and isinstance(found[1], exp.Column):
            test, value = found
            _only(source, count, exp.Count(this=exp.Distinct(expressions=[value])), test)
    return tree


def _only(source: Source, aggregate: Node, new: Node, test: Node) -> None:
    """Write another aggregate of the rows that satisfy a condition in place of one."""
    place, parent = source.span(aggregate), aggregate.parent
    if isinstance(parent, exp.Filter) and isinstance(parent.expression, exp.Where):
        parent.expression.set("this", conjunction([parent.expression.this, test]))
        aggregate.replace(marked(new, place))
        return
    where = exp.Where(this=test)
    aggregate.replace(marked(exp.Filter(this=marked(new, place), expression=where), place))


def _names_only(node: Node, table: str) -> bool:
    """Return whether a condition names columns of one table alone, each with its table."""
    columns = [*node.find_all(exp.Column)]
    return bool(columns) and all(one.table.casefold() == table.casefold() for one in columns)


def rewritten(source: Source, select: exp.Select, conditions: Conditions) -> Predicate:
    """Resolve positions and aliases, and take conditions on group columns out of HAVING.

    Changes the tree. Returns what HAVING asked of group columns, which is a part of WHERE.
    """
    return _Rewriting(source, select, conditions).rewrite()


class _Rewriting:
    """Rewrites one SELECT over the tables of its FROM."""

    def __init__(self, source: Source, select: exp.Select, conditions: Conditions) -> None:
        self.tree = select
        self.source = source
        self.conditions = conditions
        self.refuse = source.refuse
        self.scope = conditions.scope

    def rewrite(self) -> Predicate:
        for node in [*self.tree.find_all(exp.Count)]:
            if self._is_id(bare(node.this)):
                node.replace(marked(count_of_rows(), self.source.span(node)))
            found = alternative(node.this)
            if found is not None and self._is_id(bare(found[1])):
                _only(self.source, node, count_of_rows(), found[0])
        self._group()
        self._distinct()
        self._order()
        self._limit()
        return self._having()

    def _is_id(self, node: Node) -> bool:
        """Return whether a node is the undeclared id of the rows; those without one do not count."""
        return self.conditions.names_unit(node) and not self._columns(node)

    # positions and aliases

    def _item(self, node: Node, clause: str) -> Node | None:
        return positioned(self.source, self.tree.expressions, node, clause)

    def _alias(self, node: Node) -> Node | None:
        """Return the entry of the SELECT list with the alias that a node names, or None."""
        if not isinstance(node, exp.Column) or node.table or not node.name:
            return None
        name = node.name.casefold()
        return next(
            (
                item
                for item in self.tree.expressions
                if isinstance(item, exp.Alias) and item.alias.casefold() == name
            ),
            None,
        )

    def _is_column(self, node: Node) -> bool:
        """Return whether a name is that of a column of FROM, declared or not."""
        return isinstance(node, exp.Column) and any(
            node.name.casefold() in map(str.casefold, relation.table.columns)
            for relation in self.scope.relations
        )

    def _group(self) -> None:
        group = self.tree.args.get("group")
        if group is None or others(group.args, "expressions"):
            return
        written = (
            bare(node).expressions if isinstance(bare(node), exp.Tuple) else [node]
            for node in group.expressions
        )
        keys = [key for nodes in written for node in nodes if (key := self._key(node)) is not None]
        self.tree.set("group", exp.Group(expressions=keys) if keys else None)

    def _key(self, node: Node) -> Node | None:
        """Return what a key stands for; None for a constant of the SELECT list, which has one group."""
        item = self._item(node, "GROUP BY")
        if item is None and not self._is_column(bare(node)):
            item = self._alias(bare(node))
        if item is None:
            return bare(node)
        value = unaliased(item)
        if value.find(exp.AggFunc, exp.Window) is not None:
            self.refuse(
                "GROUP BY cannot take an aggregate",
                "Group by columns. To select groups by their results, use HAVING.",
                node,
            )
        return None if is_constant(value) else value.copy()

    def _instead(self, value: Node, node: Node) -> Node:
        """Return a copy of a node that stands where another one is written."""
        copy, span = value.copy(), self.source.span(node)
        for part in copy.walk() if span is not None else ():
            part.meta.pop("start", None)
        return marked(copy, span)

    def _distinct(self) -> None:
        """Drop DISTINCT where no two rows of the result can be equal; else list groups."""
        distinct = self.tree.args.get("distinct")
        if distinct is None or others(distinct.args):
            return
        items, group = self.tree.expressions, self.tree.args.get("group")
        shown = [unaliased(item) for item in items if is_key(item)]
        having = self.tree.args.get("having")
        rest = [unaliased(item) for item in items if not is_key(item)]
        if shown and group is None and having is None and all(map(is_constant, rest)):
            self.tree.set("group", exp.Group(expressions=[key.copy() for key in shown]))
        elif any(key not in shown for key in (group.expressions if group else ())):
            return
        self.tree.set("distinct", None)

    def _order(self) -> None:
        order = self.tree.args.get("order")
        if order is None:
            return
        terms: list[Node] = []
        for node in order.expressions:
            inner = node.this if isinstance(node, exp.Ordered) else node
            if isinstance(inner, exp.Var) and inner.name.upper() == "ALL":
                items = self.tree.expressions
            else:
                item = self._item(inner, "ORDER BY")
                items = [] if item is None else [item]
            for item in items:
                term = node.copy()
                term.set("this", self._instead(_named(item), inner))
                terms.append(term)
            if not items:
                terms.append(node)
        order.set("expressions", terms)

    def _limit(self) -> None:
        """Write FETCH FIRST n ROWS ONLY as LIMIT n, and leave LIMIT ALL out."""
        limit = self.tree.args.get("limit")
        if isinstance(limit, exp.Fetch):
            options = limit.args.get("limit_options")
            if options is None or not (
                options.args.get("percent") or options.args.get("with_ties")
            ):
                count = limit.args.get("count") or exp.Literal.number(1)
                self.tree.set("limit", exp.Limit(expression=count))
        elif isinstance(limit, exp.Limit) and not others(limit.args, "expression"):
            value = limit.expression
            if isinstance(value, exp.Null) or (
                isinstance(value, exp.Var) and value.name.upper() == "ALL"
            ):
                self.tree.set("limit", None)

    # HAVING

    def _having(self) -> Predicate:
        """Return what HAVING asks of group columns alone, and leave it out there."""
        having, group = self.tree.args.get("having"), self.tree.args.get("group")
        if having is None or group is None:
            return EVERY
        kept: list[Node] = []
        moved: list[Predicate] = []
        for part in conjuncts(having.this):
            test = self._on_keys(part, group.expressions)
            if test is None:
                kept.append(self._flags(part))
                continue
            moved.append(self.conditions.predicate(test))
            self._check_cuts(moved[-1], part)
        if moved:
            self.tree.set("having", exp.Having(this=conjunction(kept)) if kept else None)
        return simplify(And(tuple(moved)), self.conditions.schema)

    def _on_keys(self, part: Node, keys: list[Node]) -> Node | None:
        """Return a condition of HAVING in terms of columns; None if it is not on keys alone."""
        if part.find(exp.AggFunc, exp.Window, exp.Query) is not None or is_constant(part):
            return None
        grouped = {
            column for key in keys if isinstance(key, exp.Column) for column in self._columns(key)
        }
        test = exp.Paren(this=part.copy())
        for node in [*test.find_all(exp.Column)]:
            if self._columns(node) & grouped:
                continue
            item = self._alias(node)
            value = None if item is None else unaliased(item)
            if not isinstance(value, exp.Column) or not self._columns(value) & grouped:
                return None
            node.replace(self._instead(value, node))
        return test

    def _flags(self, part: Node) -> Node:
        """Write columns of 0 and 1 that are conditions by themselves as comparisons."""
        part = exp.Paren(this=part)
        for node in [*part.find_all(exp.Column)]:
            around = node.parent
            while isinstance(around, exp.Paren) and around is not part:
                around = around.parent
            found = self._columns(node)
            kind = self.conditions.schema[next(iter(found))] if len(found) == 1 else None
            if (
                isinstance(around, exp.And | exp.Or | exp.Not)
                and isinstance(kind, Integer)
                and (kind.low, kind.high) == (0, 1)
            ):
                one = exp.EQ(this=node.copy(), expression=exp.Literal.number(1))
                node.replace(marked(one, self.source.span(node)))
        return part.this

    def _columns(self, node: Node) -> set[str]:
        """Return the columns that a name can mean."""
        qualifier = None if node.args.get("table") is None else str(node.table)
        return {column for _, column in self.scope.find(node.name, qualifier)}

    def _check_cuts(self, predicate: Predicate, node: Node) -> None:
        """Refuse a condition that holds for some rows of a declared group and not for others."""
        if isinstance(predicate, And | Or):
            for part in predicate.parts:
                self._check_cuts(part, node)
            return
        for column in sorted(predicate.columns):
            kind = self.conditions.schema[column]
            if getattr(kind, "bins", None) is None:
                continue
            groups = declared(column, self.conditions.schema).groups
            for label, whole in zip(labels(kind), groups, strict=True):
                if isinstance(predicate, Compared) or (
                    kind.scale.intersection(whole, predicate.codes(kind)) not in ((), whole)
                ):
                    self.refuse(
                        f"this condition cuts {label}, a group of {column!r}",
                        f"Compare {as_written(column)} with the upper end of a group by <= "
                        "or >, or write the condition in WHERE.",
                        node,
                    )


def _named(item: Node) -> Node:
    """Return how ORDER BY names an entry of the SELECT list: by its alias, or as it is written."""
    if isinstance(item, exp.Alias):
        return exp.column(exp.to_identifier(item.alias, quoted=True))
    return unaliased(item)
