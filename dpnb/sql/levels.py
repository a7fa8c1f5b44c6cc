"""Queries around an aggregate: ``SELECT AVG(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)``.

They are arithmetic on released lines, and no part of what is released.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from sqlglot import expressions as exp

from dpnb.errors import nearest
from dpnb.sql.conditions import Conditions
from dpnb.sql.expressions import Arguments
from dpnb.sql.listing import Listing
from dpnb.sql.quoting import as_written
from dpnb.sql.scalars import Scalars, counted
from dpnb.sql.shown import (
    Choice,
    Column,
    Expression,
    Field,
    Kind,
    Literal,
    OuterPart,
    Total,
    is_label,
    kind_of,
    operands,
    parts,
)
from dpnb.sql.source import Node, Source, others
from dpnb.sql.windows import TOTALS, read_window

_CLAUSES = (
    "expressions", "from_", "where", "group", "having", "qualify", "windows", "distinct", "order",
    "limit", "offset",
)  # fmt: skip

_NUMBERS = {exp.Avg: "mean", exp.Sum: "total"}
"""How a result is called where the statement has no name for it."""


def aggregated(select: exp.Select, ids: Collection[str]) -> exp.Select | None:
    """Return the query in FROM whose lines are released results; None for tables and persons.

    ``ids`` are the columns of privacy units, in small letters: a query that groups by one makes a
    table of persons.
    """
    source = select.args.get("from_")
    node = None if source is None or select.args.get("joins") else source.this
    while isinstance(node, exp.Subquery):
        node = node.this
    if not isinstance(node, exp.Select) or node is select:
        return None
    group = node.args.get("group")
    keys = [] if group is None else [key.name.casefold() for key in group.expressions]
    if any(key in ids for key in keys):
        return None
    counted = any(item.find(exp.AggFunc) is not None for item in node.expressions)
    return node if group is not None or counted or aggregated(node, ids) is not None else None


class LevelReader:
    """Reader of one query over the lines of another, whose ``columns`` it can name."""

    def __init__(
        self, conditions: Conditions, arguments: Arguments, columns: Sequence[Column]
    ) -> None:
        self.refuse = conditions.refuse
        self.columns = tuple(columns)
        self.scalars = Scalars(conditions, arguments, self._leaf)
        self.listing = Listing(self.scalars)
        self.clause = "SELECT"
        self.inside = False

    def read(self, select: exp.Select) -> OuterPart:
        """Read a SELECT whose FROM is read."""
        for name in others(select.args, *_CLAUSES):
            node = select.args[name]
            self.refuse(
                f"{name.strip('_').upper()} is not supported around a query with results",
                "Leave it out.",
                node[0] if isinstance(node, list) else node,
            )
        self.listing.define(select)
        for node in select.expressions:
            self._entry(node)
        self.clause = "WHERE"
        where = self.listing.condition(select.args.get("where"))
        groups = self._groups(select.args.get("group"), select.expressions)
        self.clause = "HAVING"
        having = self.listing.condition(select.args.get("having"))
        self.clause = "QUALIFY"
        qualify = self.listing.condition(select.args.get("qualify"))
        self.clause = "ORDER BY"
        order = tuple(self.listing.terms(select.args.get("order")))
        shown = OuterPart(
            where=where,
            columns=tuple(self.listing.columns.values()),
            having=having,
            qualify=qualify,
            distinct=self.listing.distinct(select.args.get("distinct")),
            order=order,
            limit=self.listing.whole(select.args.get("limit"), "LIMIT"),
            offset=self.listing.whole(select.args.get("offset"), "OFFSET") or 0,
        )
        totals = any(isinstance(p, Total) for one in shown.computed() for p in parts(one))
        if groups is None and (totals or having is not None):
            groups = ()
        if groups is None:
            return shown
        for expression in shown.computed():
            self._check_grouped(expression, groups, select)
        return replace(shown, groups=groups)

    def _entry(self, node: Node) -> None:
        inner, alias = self.listing.entry(node)
        star = isinstance(inner, exp.Star) or (
            isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
        )
        if star:
            if others(inner.args, "this", "table"):
                self.refuse("* takes no EXCLUDE or REPLACE", "Name the columns.", node)
            for place, column in enumerate(self.columns):
                self.listing.show(column.alias, self._field(place), node)
            return
        expression = self.scalars.read(inner)
        self.listing.show(alias or self._name_of(inner), expression, node)

    @staticmethod
    def _name_of(node: Node) -> str:
        """Return the name of a column without AS."""
        if isinstance(node, exp.Column):
            return str(node.name)
        function = TOTALS.get(type(node))
        if function is None:
            return "formula"
        named = isinstance(node.this, exp.Column)
        return f"{function.lower()}_{node.this.name}" if named else function.lower()

    def _groups(self, group: Node | None, items: Sequence[Node]) -> tuple[Expression, ...] | None:
        if group is None:
            return None
        if others(group.args, "expressions") or not group.expressions:
            self.refuse("GROUP BY takes column names", "Write GROUP BY a, b.", group, "ALL")
        self.clause = "GROUP BY"
        keys = tuple(self.scalars.read(self._item(node, items)) for node in group.expressions)
        for key, node in zip(keys, group.expressions, strict=True):
            if not is_label(key):
                self.refuse(
                    "noise tells apart what is equal: a group needs labels",
                    "Group by a CASE WHEN n > 100 THEN 'many' ELSE 'few' END.",
                    node,
                )
        return keys

    def _item(self, node: Node, items: Sequence[Node]) -> Node:
        """Return the entry of the SELECT list whose position a key is, or the key."""
        if not isinstance(node, exp.Literal) or node.is_string:
            return node
        text = str(node.this)
        if not text.isdecimal() or not 1 <= int(text) <= len(items):
            self.refuse(
                f"GROUP BY {text} is not a position in the SELECT list",
                "Name a column of labels.",
                node,
            )
        return items[int(text) - 1].unalias()

    def _check_grouped(
        self, expression: Expression, groups: Sequence[Expression], select: Node
    ) -> None:
        """Refuse a column that is neither in GROUP BY nor inside an aggregate."""
        if expression in groups or isinstance(expression, Total):
            return
        if isinstance(expression, Field):
            name = self.columns[expression.place].alias
            self.refuse(
                f"{name!r} is not in GROUP BY", "Add it to GROUP BY, or aggregate it.", select, name
            )
        if isinstance(expression, Literal):
            return
        for part in operands(expression):
            self._check_grouped(part, groups, select)

    # leaves

    def _field(self, place: int) -> Field:
        expression = self.columns[place].expression
        kind = kind_of(expression) or Kind.TEXT
        return Field(place, kind, released=not is_label(expression))

    def _leaf(self, node: Node) -> Expression | None:
        if isinstance(node, exp.Column):
            return self._name(node)
        if isinstance(node, exp.Window):
            if self.clause in ("WHERE", "HAVING", "GROUP BY"):
                self.refuse(
                    f"windows are computed after {self.clause}", "Write QUALIFY instead.", node
                )
            return read_window(self.scalars, node, self.listing.windows)
        if isinstance(node, exp.AggFunc | exp.Filter):
            return self._total(node)
        return None

    def _total(self, node: Node) -> Total:
        """Read an aggregate over released lines."""
        if self.inside or self.clause in ("WHERE", "GROUP BY"):
            self.refuse(
                "an aggregate cannot stand here", "Use HAVING for conditions on them.", node
            )
        inner, condition = node, None
        if isinstance(node, exp.Filter):
            inner, condition = node.this, node.expression.this
        if isinstance(inner, exp.CountIf):
            inner, condition = exp.Count(this=exp.Star()), inner.this
        function = TOTALS.get(type(inner))
        wide = isinstance(inner.this, exp.Distinct) or others(inner.args, "this", "big_int")
        if function is None or wide or inner.this is None:
            self.refuse(
                "this aggregate of results is not supported",
                "Write COUNT, SUM, AVG, MIN or MAX of a column.",
                node,
            )
        self.inside = True
        star = isinstance(inner.this, exp.Star)
        read = self.scalars.number if function in ("SUM", "AVG") else self.scalars.read
        argument = Literal(True) if star else read(inner.this)
        test = None if condition is None else self.scalars.truth(condition)
        if function == "COUNT":
            argument = counted(argument, test)
        elif test is not None:
            kind = kind_of(argument) or Kind.NUMBER
            argument = Choice(((test, argument),), Literal(None), kind)
        self.inside = False
        own = kind_of(argument) if function in ("MIN", "MAX") else None
        alone = star and condition is None
        return Total(function, () if alone else (argument,), own or Kind.NUMBER)

    def _name(self, node: Node) -> Expression:
        """Return the column of the inner query, or of the SELECT list, that a name means."""
        name = node.name.casefold()
        listed = None if node.table or self.inside else self.listing.columns.get(name)
        if listed is not None and self.clause in ("QUALIFY", "ORDER BY"):
            return listed.expression
        names = [column.alias.casefold() for column in self.columns]
        if name in names:
            return self._field(names.index(name))
        if listed is not None and self.clause != "WHERE":
            return listed.expression
        self.refuse(
            f"unknown column {node.name!r}",
            nearest(node.name, [column.alias for column in self.columns], shown=as_written),
            node,
        )


def check_rows(source: Source, select: exp.Select) -> None:
    """Refuse results that flow back into rows: in a condition, a computation, or a join.

    Raises
    ------
    SqlError
        With the two statements to write.
    """
    joined = [join.this for join in select.args.get("joins") or []]
    for node in select.find_all(exp.Subquery):
        inner = node.unnest()
        in_from = isinstance(node.parent, exp.From | exp.Subquery | exp.SetOperation)
        if in_from or not isinstance(inner, exp.Select) or inner.args.get("group") is not None:
            continue
        results = [item for item in inner.expressions if item.find(exp.AggFunc) is not None]
        if not results:
            continue
        name = results[0].alias or _NUMBERS.get(type(results[0]), "number")
        place = f"{node.alias}.{name}" if any(node is one for one in joined) else "the brackets"
        source.refuse(
            "released results do not flow back into rows: each row would read all others",
            f"Ask {source.written(inner)} in a cell of its own. Then write :{name} for {place}, with the number that you saw.",
            node,
        )
