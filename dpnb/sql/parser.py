"""From the text of a statement to a ``Query``.

sqlglot parses the text, and an allow-list of shapes decides what is accepted. Anything else is
refused with its position and a hint. Refusals depend on public facts only and come before any
access to data. The text itself is never run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.errors import SqlError, given, nearest
from dpnb.schema.columns import cell_count
from dpnb.schema.joins import own_name
from dpnb.schema.predicates import EVERY, And, Predicate, simplify
from dpnb.schema.table import Table
from dpnb.sql.aggregates import Aggregates, is_formula, same
from dpnb.sql.conditions import COMPARISONS, FLIPPED, Conditions, bare
from dpnb.sql.constants import is_constant
from dpnb.sql.contributions import Contributions
from dpnb.sql.query import (
    MAX_CELLS,
    Aggregate,
    Compare,
    Derived,
    Having,
    Junction,
    Key,
    Order,
    Query,
)
from dpnb.sql.quoting import as_written, meant, names_of
from dpnb.sql.relations import read_from
from dpnb.sql.source import Node, Source, others
from dpnb.sql.statistics import is_statistic
from dpnb.sql.substitution import substituted

_HINTS = {
    "laterals": ("LATERAL is not supported", "Write one SELECT over one table."),
    "distinct": ("DISTINCT is not supported", "GROUP BY the columns and use COUNT(*)."),
    "windows": ("window functions are not supported", "Use GROUP BY."),
    "qualify": ("window functions are not supported", "Use GROUP BY."),
    "offset": ("OFFSET is not supported", "Use ORDER BY and LIMIT, or slice the result."),
    "into": ("INTO is not supported", "Leave INTO out."),
    "sample": ("sampling is not supported", "Leave it out; noise is added for you."),
    "hint": ("hints are not supported", "Leave the hint out."),
}
_RANGES = "Name columns only. For ranges of a number, declare its bins in the schema."


def parse(
    text: str,
    tables: Mapping[str, Table],
    params: Mapping[str, object] | None = None,
    *,
    deciding: bool = False,
    thresholds: Collection[str] = (),
    promises: bool = False,
) -> Query:
    """Read one statement.

    Parameters
    ----------
    text : str
        At most 20,000 characters; one SELECT over one table and the tables looked up from its rows.
        A closing ``;`` is allowed.
    tables : mapping of str to Table
        The catalogue; only declarations are used.
    params : mapping, optional
        Values of the bound parameters ``:name`` (str, int, float or date).
    deciding : bool
        Whether the statement is for a decision, which allows COUNT(DISTINCT column).
    thresholds : collection of str
        Parameters of HAVING that stand for another number in each group.
    promises : bool
        Whether the statement may say in OPTIONS which epsilon it asks for.

    Returns
    -------
    Query

    Raises
    ------
    SqlError
        With line, column, the offending text and what to write instead.
    """
    if params is not None and not isinstance(params, Mapping):
        raise SqlError(
            f"params must be a dict, got {given(params)}", "Pass params={'name': value}."
        )
    Source(text)

    def read(spelled: str) -> Query:
        source = Source(spelled)
        try:
            statement = _Statement(source, tables, params or {}, thresholds, deciding)
            written = source.tree()
            query = statement.query(substituted(source, tables, written), written)
        except RecursionError:
            raise SqlError("the statement is nested too deeply", "Flatten it.") from None
        if query.promise is not None and not promises:
            raise SqlError(
                "only a query takes its privacy cost from OPTIONS",
                "Leave epsilon and delta out of OPTIONS.",
            )
        source.check()
        return query

    try:
        return read(text)
    except SqlError as error:
        failure = meant(error, text, names_of(tables), read)
    raise failure


class _Statement:
    """Reader of one SELECT."""

    conditions: Conditions
    aggregates: Aggregates

    def __init__(
        self,
        source: Source,
        tables: Mapping[str, Table],
        params: Mapping[str, object],
        thresholds: Collection[str],
        deciding: bool,
    ) -> None:
        self.refuse = source.refuse
        self.source = source
        self.tables = tables
        self.params = params
        self.thresholds = thresholds
        self.deciding = deciding

    def query(self, select: exp.Select, written: exp.Select) -> Query:
        clauses = (
            "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "kind",
        )  # fmt: skip
        for name in others(select.args, *clauses):
            what, hint = _HINTS.get(
                name, (f"{name.strip('_').upper()} is not supported", "Leave it out.")
            )
            value = select.args[name]
            node = value[0] if isinstance(value, list) else value
            self.refuse(what, hint, node, name.strip("_") if name == "distinct" else "")
        if select.args.get("kind"):
            self.refuse("SELECT AS is not supported", "List the columns.", select)
        scope = read_from(self.source, self.tables, select)
        self.schema = scope.base.schema
        self.conditions = Conditions(self.source, scope, self.params)
        contributions = Contributions(self.source, scope, written)
        self.aggregates = Aggregates(self.conditions, contributions, distinct=self.deciding)
        grouped = self.grouping(select.args.get("group"), select.expressions)
        self.aggregates.statistics.grouped = tuple(grouped)
        keys, aggregates, derived = self.outputs(select, grouped)
        having = select.args.get("having")
        return Query(
            table=scope.base.name,
            keys=keys,
            aggregates=aggregates,
            where=self.where(scope.condition, scope.present),
            having=None if having is None else self.having(having.this, aggregates),
            order=self.ordering(select.args.get("order"), keys, (*aggregates, *derived)),
            limit=self.limit(select.args.get("limit")),
            derived=derived,
            promise=contributions.promise(keys),
            schema=self.schema,
        )

    def where(self, node: Node | None, present: Sequence[Predicate]) -> Predicate:
        """Combine the condition of WHERE with those of the joins that drop rows without a match."""
        written = EVERY if node is None else self.conditions.predicate(node)
        return simplify(And((*present, written)), self.schema) if present else written

    # SELECT and GROUP BY

    def grouping(self, group: Node | None, shown: Sequence[Node]) -> list[str]:
        if group is None:
            return []
        if others(group.args, "expressions") or not group.expressions:
            self.refuse("GROUP BY takes column names", "Write GROUP BY a, b.", group, "ALL")
        for node in group.expressions:
            if isinstance(node, exp.Literal):
                self.refuse(
                    "GROUP BY takes column names", "Write the name, not its position.", node
                )
            self.check_column(node, shown)
        columns = [self.conditions.column(node) for node in group.expressions]
        cells = 1
        for name, node in zip(columns, group.expressions, strict=True):
            if columns.count(name) > 1:
                self.refuse(f"{name!r} is in GROUP BY twice", "Write it once.", node)
            size = cell_count(self.schema[name])
            if size == 0:
                self.refuse(
                    f"{name!r} has no declared groups", "Declare bins for it in the schema.", node
                )
            cells *= size
        if cells > MAX_CELLS:
            self.refuse(
                f"this makes {cells:,} groups, more than {MAX_CELLS:,}",
                "Group by fewer columns, or declare wider bins.",
                group,
            )
        return columns

    def check_column(self, node: Node, shown: Sequence[Node]) -> None:
        """Refuse to group by an expression or by an alias of the SELECT list."""
        if not isinstance(node, exp.Column):
            self.refuse("GROUP BY takes columns, not expressions", _RANGES, node)
        if self.conditions.scope.find(node.name, None):
            return
        for entry in shown:
            if isinstance(entry, exp.Alias) and entry.alias.casefold() == node.name.casefold():
                if not isinstance(entry.this, exp.Column):
                    self.refuse(
                        f"GROUP BY takes columns, and {node.name!r} is an expression", _RANGES, node
                    )
                self.refuse(
                    f"GROUP BY takes the column, not its alias {node.name!r}",
                    f"Write GROUP BY {as_written(entry.this.name)}.",
                    node,
                )

    def outputs(
        self, select: exp.Select, grouped: Sequence[str]
    ) -> tuple[tuple[Key, ...], tuple[Aggregate, ...], tuple[Derived, ...]]:
        aliases: dict[str, str] = {}
        results: list[Aggregate | Derived] = []
        names: dict[str, Node] = {}
        for node in select.expressions:
            inner, alias = node, ""
            if isinstance(node, exp.Alias):
                inner, alias = node.this, node.alias
                if "\0" in alias:
                    self.refuse("a name contains U+0000", "Name it with letters and digits.", node)
            if isinstance(inner, exp.Star) or (
                isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
            ):
                self.refuse("rows cannot be listed", "Name group columns and aggregates.", node)
            if isinstance(inner, exp.Column):
                column = self.conditions.column(inner)
                if column not in grouped:
                    self.refuse(
                        f"{column!r} is not in GROUP BY",
                        "Add it to GROUP BY, or aggregate it.",
                        node,
                    )
                if column in aliases:
                    self.refuse(f"{column!r} is in the SELECT list twice", "Write it once.", node)
                aliases[column] = alias or own_name(column)
                outputs = [aliases[column]]
            else:
                result = self.aggregates.output(inner, alias, len(results))
                if isinstance(result, Aggregate):
                    result = replace(result, named=bool(alias))
                results.append(result)
                outputs = [result.alias, f"{result.alias}_low", f"{result.alias}_high"]
            for output in outputs:
                if output.casefold() in names:
                    self.refuse(f"two results are called {output!r}", "Name them with AS.", node)
                names[output.casefold()] = node
        if not results and not select.args.get("having") and not self.deciding:
            self.refuse("there is no aggregate", "Add COUNT(*), SUM(x) or AVG(x).", select)
        for column in grouped:
            if column in aliases:
                continue
            name = aliases[column] = own_name(column)
            node = names.setdefault(name.casefold(), select.args["group"])
            if node is not select.args["group"] or list(aliases.values()).count(name) > 1:
                self.refuse(f"two results are called {name!r}", "Name them with AS.", node)
        keys = tuple(Key(column, aliases[column]) for column in grouped)
        aggregates = tuple(result for result in results if isinstance(result, Aggregate))
        return keys, aggregates, tuple(r for r in results if isinstance(r, Derived))

    # HAVING, ORDER BY, LIMIT

    def having(self, node: Node, aggregates: Sequence[Aggregate]) -> Having:
        if isinstance(node, exp.Paren):
            return self.having(node.this, aggregates)
        if isinstance(node, exp.Not):
            return Junction("NOT", (self.having(node.this, aggregates),))
        if isinstance(node, exp.And | exp.Or):
            parts = node.flatten(unnest=False)
            return Junction(
                "AND" if isinstance(node, exp.And) else "OR",
                tuple(self.having(part, aggregates) for part in parts),
            )
        if isinstance(node, exp.Between) and not others(node.args, "this", "low", "high"):
            aggregate = self.measured(node.this, aggregates)
            low, high = (self.threshold(node.args[name]) for name in ("low", "high"))
            ends = Compare(aggregate, ">=", low), Compare(aggregate, "<=", high)
            return Junction("AND", ends)
        if type(node) not in COMPARISONS:
            self.refuse(
                "this condition is not supported",
                "Compare aggregates with constants, with AND, OR, NOT, BETWEEN.",
                node,
            )
        operator, left, right = COMPARISONS[type(node)], bare(node.this), bare(node.expression)
        if is_constant(left):
            left, right, operator = right, left, FLIPPED[operator]
        return Compare(self.measured(left, aggregates), operator, self.threshold(right))

    def threshold(self, node: Node) -> Fraction | str:
        if isinstance(node, exp.Placeholder) and str(node.this) in self.thresholds:
            return str(node.this)
        value = self.conditions.constants.value(node)
        if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
            self.refuse("this must be a number", "Write the number without quotes.", node)
        return self.aggregates.arguments.moderate(Fraction(value), node)

    def measured(self, node: Node, aggregates: Sequence[Aggregate]) -> Aggregate:
        """Return the aggregate that a node of HAVING names or contains."""
        if isinstance(node, exp.Column):
            for aggregate in aggregates:
                if aggregate.alias.casefold() == node.name.casefold():
                    return aggregate
            self.refuse(
                f"{node.name!r} is not an aggregate of this statement",
                nearest(node.name, [a.alias for a in aggregates])
                if aggregates
                else "Write COUNT(*) > 10.",
                node,
            )
        if is_statistic(bare(node)):
            self.refuse(
                "HAVING compares a COUNT, SUM or AVG with a number",
                "Compare a share: AVG(CASE WHEN x > 40 THEN 1 ELSE 0 END) > 0.5 for MEDIAN(x) > 40."
                if self.deciding
                else "Show it in the SELECT list instead.",
                node,
            )
        if is_formula(node):
            self.refuse(
                "HAVING compares one aggregate with a number",
                "Write one aggregate: AVG(x) for SUM(x) / COUNT(x), and for a share "
                "AVG(CASE WHEN ... THEN 1 ELSE 0 END).",
                node,
            )
        operand = self.aggregates.aggregate(bare(node), "")
        return next((aggregate for aggregate in aggregates if aggregate.means(operand)), operand)

    def ordering(
        self, order: Node | None, keys: Sequence[Key], results: Sequence[Aggregate | Derived]
    ) -> tuple[Order, ...]:
        if order is None:
            return ()
        columns = {key.column: key.alias for key in keys}
        names = {key.column.casefold(): key.alias for key in keys}
        names |= {key.alias.casefold(): key.alias for key in keys}
        names |= {result.alias.casefold(): result.alias for result in results}
        terms: list[Order] = []
        for node in order.expressions:
            inner = node.this if isinstance(node, exp.Ordered) else node
            if isinstance(inner, exp.Literal):
                self.refuse("ORDER BY takes names", "Write the name, not its position.", node)
            if isinstance(inner, exp.Column):
                alias = names.get(inner.name.casefold())
                if inner.table and len(self.conditions.scope.relations) > 1:
                    alias = columns.get(self.conditions.column(inner))
            else:
                sort_column = self.aggregates.output(inner, "", 0)
                alias = next(
                    (result.alias for result in results if same(result, sort_column)), None
                )
            if alias is None:
                self.refuse(
                    "this is not in the SELECT list",
                    "Order by a column or alias of the SELECT list.",
                    node,
                )
            terms.append(Order(alias, bool(node.args.get("desc"))))
        return tuple(terms)

    def limit(self, node: Node | None) -> int | None:
        if node is None:
            return None
        value = node.args.get("expression")
        known = isinstance(node, exp.Limit) and not others(node.args, "expression")
        count = self.conditions.constants.value(value) if known and is_constant(value) else None
        if isinstance(count, Fraction) and count.denominator == 1 and 0 <= count < 10**18:
            return int(count)
        self.refuse("LIMIT takes a whole number", "Write LIMIT 10.", node)
