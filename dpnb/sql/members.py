"""Lists of ids: ``id IN (SELECT id ...)``, ``NOT IN`` and ``EXISTS`` as joins with one row for each id.

``EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND ...)`` asks whether ``a.id`` is in a list. A list of
the ids of a table that has one row for each is a join with that table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import expressions as exp

from dpnb.schema.table import Table
from dpnb.sql.conjuncts import conjunction, conjuncts
from dpnb.sql.lines import AGGREGATES
from dpnb.sql.names import folded
from dpnb.sql.source import Node, bare, others, placed


def ids_of(tables: Mapping[str, Table]) -> set[str]:
    """Return the names of id columns, as :func:`dpnb.sql.names.folded` writes them."""
    return {folded(table.unit.column) for table in tables.values() if table.unit is not None}


def members(select: Node, ids: Collection[str], single: Collection[str] = ()) -> Node:
    """Return a query whose WHERE has lists of ids as one with joins.

    Parameters
    ----------
    select : sqlglot.Expression
    ids : collection of str
        The names of id columns, from :func:`ids_of`.
    single : collection of str
        The names of tables with at most one row of each id.
    """
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    if where is None:
        return select
    tests = conjuncts(where.this)
    lists = [test for test in tests if _lists_ids(_inside(test), ids)]
    if not lists:
        return select
    result = select.copy()
    rest = [test.copy() for test in tests if not any(test is one for one in lists)]
    joins = list(result.args.get("joins") or [])
    tables = [result.args["from_"].this, *(join.this for join in joins)]
    single = {*single} - {folded(table.name) for table in tables if isinstance(table, exp.Table)}
    for number, test in enumerate(lists, 1):
        listed, negated = _inside(test), test is not _inside(test)
        query = listed.args["query"].this.copy()
        (item,) = query.expressions
        key = item.this if isinstance(item, exp.Alias) else item
        label, name = (exp.to_identifier(f"{one} {number}", quoted=True) for one in ("ids", "id"))
        shown = [exp.Alias(this=key.copy(), alias=name)]
        if negated:
            values, absent = _absent(query, label, test)
            shown += values
            rest.append(absent)
        query.set("expressions", shown)
        distinct = query.args.get("distinct")
        if distinct is not None and not others(distinct.args):
            query.set("distinct", None)
        alone = not negated and not others(query.args, "expressions", "from_", "where")
        if not (alone and folded(query.args["from_"].this.name) in single):
            query.set("group", exp.Group(expressions=[key.copy()]))
        column = placed(exp.column(name.copy(), label.copy()), test)
        joins.append(
            exp.Join(
                this=exp.Subquery(this=query, alias=exp.TableAlias(this=label)),
                on=exp.EQ(this=listed.this.copy(), expression=column),
                side="LEFT" if negated else None,
            )
        )
    condition = conjunction(rest)
    result.set("where", None if condition is None else exp.Where(this=condition))
    result.set("joins", joins)
    return result


def _absent(query: Node, label: Node, place: Node) -> tuple[list[Node], Node]:
    """Return columns that tell which ids are in a list, without its HAVING, and that one is not."""
    values: dict[str, Node] = {"rows": exp.Count(this=exp.Star())}

    def column(name: str) -> Node:
        return placed(exp.column(exp.to_identifier(name, quoted=True), label.copy()), place)

    def put(part: Node) -> Node:
        if not isinstance(part, AGGREGATES):
            return part
        name = f"value {len(values)}"
        values[name] = part.copy()
        return column(name)

    absent: Node = exp.Is(this=column("rows"), expression=exp.Null())
    having = query.args.get("having")
    if having is not None:
        query.set("having", None)
        test = exp.Paren(this=having.this.copy().transform(put, copy=False))
        fails = exp.Not(this=exp.Is(this=test, expression=exp.Boolean(this=True)))
        absent = exp.Paren(this=exp.Or(this=absent, expression=fails))
    shown = [
        exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
        for name, value in values.items()
    ]
    return shown, absent


def listed(tables: Mapping[str, Table], select: Node) -> Node:
    """Return a statement with IN for each EXISTS that looks for the rows of one id."""
    ids = ids_of(tables)
    if not ids or select.find(exp.Exists) is None:
        return select
    result = select.copy()
    for node in list(result.find_all(exp.Exists)):
        found = _as_list(node, ids)
        if found is not None:
            node.replace(found)
    return result


def _as_list(node: Node, ids: Collection[str]) -> Node | None:
    """Return ``a.id IN (SELECT b.id ...)`` for an EXISTS, or None."""
    query = node.this
    if not isinstance(query, exp.Select) or query.args.get("where") is None:
        return None
    if others(query.args, "expressions", "from_", "joins", "where"):
        return None
    own = {folded(table.alias_or_name) for table in query.find_all(exp.Table, exp.Subquery)}
    tests = conjuncts(query.args["where"].this)
    links = [test for test in tests if _outer(test, own)]
    if len(links) != 1 or not isinstance(links[0], exp.EQ):
        return None
    sides = [links[0].this, links[0].expression]
    if not all(isinstance(side, exp.Column) and folded(side.name) in ids for side in sides):
        return None
    outer = [side for side in sides if _outer(side, own)]
    (inner,) = [side for side in sides if side not in outer] or (None,)
    if inner is None:
        return None
    flat = query.copy()
    flat.set("expressions", [inner.copy()])
    rest = conjunction([test.copy() for test in tests if test is not links[0]])
    flat.set("where", None if rest is None else exp.Where(this=rest))
    return placed(exp.In(this=outer[0].copy(), query=exp.Subquery(this=flat)), node)


def _outer(node: Node, own: Collection[str]) -> Sequence[Node]:
    """Return the columns of a node that are of the query around it."""
    columns = node.find_all(exp.Column)
    return [column for column in columns if column.table and folded(column.table) not in own]


def _inside(test: Node) -> Node:
    """Return what NOT is about, or the condition itself."""
    inner = bare(test)
    return bare(inner.this) if isinstance(inner, exp.Not) else test


def _lists_ids(test: Node, ids: Collection[str]) -> bool:
    """Return whether a condition is that an id is among those of a query."""
    query = test.args.get("query") if isinstance(test, exp.In) else None
    query = query.this if isinstance(query, exp.Subquery) else None
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return False
    (item,) = query.expressions
    sides = test.this, item.this if isinstance(item, exp.Alias) else item
    named = all(isinstance(side, exp.Column) and folded(side.name) in ids for side in sides)
    group = query.args.get("group")
    return named and (group is None or len(group.expressions) == 1)
