"""A query with one row for each id, taken apart: its aggregates, and what is computed from them.

``SELECT id, SUM(x) - 1 AS y FROM t GROUP BY id HAVING COUNT(*) > 3`` becomes a query that filters and
computes, ``SELECT id, sum_x - 1 AS y FROM (...) WHERE count > 3``, over one of aggregates alone,
``SELECT id, SUM(x) AS sum_x, COUNT(*) AS count FROM t GROUP BY id``.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import expressions as exp

from dpnb.sql.names import folded, text_of
from dpnb.sql.source import Node, others, placed

AGGREGATES = (exp.AggFunc, exp.Filter, exp.IgnoreNulls, exp.WithinGroup)
"""The nodes of aggregates, and of what stands around one."""


_ORDERED = ("expressions", "from_", "joins", "where", "group", "having", "order")
"""Clauses of a query whose order changes nothing: one without LIMIT."""


def split(select: Node, ids: Collection[str], taken: Collection[str] = ()) -> Node:
    """Return a query whose FROM has the aggregates, or the same query if it has nothing else.

    Parameters
    ----------
    select : sqlglot.Expression
        A query in FROM.
    ids : collection of str
        The names of id columns, as :func:`dpnb.sql.names.folded` writes them.
    taken : collection of str
        The names of columns of tables, for which GROUP BY does not mean an alias.
    """
    group = select.args.get("group") if isinstance(select, exp.Select) else None
    if group is None or not group.expressions:
        return select
    keys = [_key(key, select.expressions, taken) for key in group.expressions]
    if not any(isinstance(key, exp.Column) and folded(key.name) in ids for key in keys):
        return select
    if select.args.get("order") and not others(select.args, *_ORDERED):
        select = select.copy()
        select.set("order", None)
        return split(select, ids, taken)
    own = all(key is written for key, written in zip(keys, group.expressions, strict=True))
    texts = set(map(text_of, keys))
    plain = all(_is_plain(item, texts) for item in select.expressions)
    if own and plain and not select.args.get("having"):
        return select
    return _Lines(select, keys).outer()


def _key(key: Node, items: Collection[Node], taken: Collection[str]) -> Node:
    """Return a key of GROUP BY that is a position or an alias as the column that it stands for."""
    shown = list(items)
    if isinstance(key, exp.Literal) and not key.is_string and str(key.this).isdecimal():
        place = int(key.this)
        item = shown[place - 1] if 0 < place <= len(shown) else key
        return item.this if isinstance(item, exp.Alias) else item
    if isinstance(key, exp.Column) and not key.table:
        for item in shown:
            inner = item.this if isinstance(item, exp.Alias) else item
            if folded(item.alias_or_name) != folded(key.name):
                continue
            if isinstance(inner, exp.Column):
                return key if folded(inner.name) == folded(key.name) else inner
            if folded(key.name) not in taken and inner.find(*AGGREGATES) is None:
                return inner
    return key


def _is_plain(item: Node, keys: Collection[str]) -> bool:
    """Return whether a column of the SELECT list is an aggregate, or a key that has a name."""
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, (exp.Column, *AGGREGATES)):
        return True
    return inner is not item and text_of(inner) in keys


class _Lines:
    """The two queries of one."""

    def __init__(self, select: Node, keys: list[Node]) -> None:
        self.select, self.keys = select, keys
        self.columns: dict[str, Node] = {}
        self.names: dict[str, str] = {}
        self.made = {text_of(key): key for key in keys if not isinstance(key, exp.Column)}
        """Keys that are expressions."""
        self.aliases = {
            folded(item.alias): item.this
            for item in select.expressions
            if isinstance(item, exp.Alias)
        }

    def outer(self) -> Node:
        """Return the query that filters and computes."""
        for item in self.select.expressions:
            if isinstance(item, exp.Alias) and text_of(item.this) in self.made:
                self.named(item.this, item.alias)
        for key in self.made.values():
            self.named(key, "")
        shown = [self.shown(item) for item in self.select.expressions]
        having = self.select.args.get("having")
        condition = None if having is None else self.computed(having.this)
        outer = exp.Select(expressions=shown)
        outer.set("from_", exp.From(this=self.inner()))
        if condition is not None:
            outer.set("where", exp.Where(this=condition))
        return outer

    def inner(self) -> Node:
        """Return the query of aggregates."""
        inner = self.select.copy()
        hidden = self.hidden() if inner.args.get("distinct") is not None else set()
        items = [
            exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
            for name, value in self.columns.items()
            if text_of(value) not in hidden
        ]
        keys = [
            key.copy()
            for key in self.keys
            if isinstance(key, exp.Column) and text_of(key) not in hidden
        ]
        inner.set("expressions", [*keys, *items])
        inner.set("group", exp.Group(expressions=[key.copy() for key in self.keys]))
        inner.set("having", None)
        return exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("lines")))

    def hidden(self) -> set[str]:
        """Return the keys that are not selected, so that DISTINCT can drop rows."""
        items = (
            item.this if isinstance(item, exp.Alias) else item for item in self.select.expressions
        )
        return set(map(text_of, self.keys)).difference(map(text_of, items))

    def shown(self, item: Node) -> Node:
        """Return one column of the SELECT list, under the name that it had."""
        inner, alias = (item.this, item.alias) if isinstance(item, exp.Alias) else (item, "")
        value = self.computed(inner, alias)
        if not alias and isinstance(inner, exp.Column):
            alias = inner.name
        return (
            exp.Alias(this=value, alias=exp.to_identifier(alias, quoted=True)) if alias else value
        )

    def computed(self, node: Node, alias: str = "") -> Node:
        """Return an expression over the aggregates, which are named after ``alias`` if it is one."""

        def put(part: Node) -> Node:
            if isinstance(part, exp.Query):
                return part
            if isinstance(part, AGGREGATES) or (self.made and text_of(part) in self.made):
                return self.named(part, alias if part is written else "")
            if isinstance(part, exp.Column) and isinstance(part.this, exp.Identifier):
                value = None if part.table else self.aliases.get(folded(part.name))
                keys = {folded(key.name) for key in self.keys}
                if value is not None and value is not node and folded(part.name) not in keys:
                    return exp.Paren(this=self.computed(value, part.name))
                return placed(exp.column(exp.to_identifier(part.name, quoted=True)), part)
            return part

        written = node.copy()
        return written.transform(put, copy=False)

    def named(self, aggregate: Node, alias: str) -> Node:
        """Return the column of an aggregate."""
        text = aggregate.sql(dialect="duckdb")
        if text not in self.names:
            name = alias if alias and alias not in self.columns else self.unused(aggregate)
            self.names[text] = name
            self.columns[name] = aggregate.copy()
        return placed(exp.column(exp.to_identifier(self.names[text], quoted=True)), aggregate)

    def unused(self, aggregate: Node) -> str:
        """Return a name for an aggregate without one."""
        inner = aggregate
        while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.WithinGroup):
            inner = inner.this
        columns = dict.fromkeys(column.name for column in inner.find_all(exp.Column))
        name = "_".join([inner.key, *columns])
        taken = {folded(one) for one in (*self.columns, *self.aliases)}
        taken |= {folded(key.name) for key in self.keys}
        unique, number = name, 1
        while folded(unique) in taken:
            number += 1
            unique = f"{name}_{number}"
        return unique
