"""From the text of a statement to a ``Query``.

sqlglot reads the text; an allow-list of shapes decides. Whatever is not on the list is refused with
its place and a mend, on public facts only, before any data is touched. The text itself is never run.
"""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias

from dpnb.errors import SchemaError, SqlError
from dpnb.kinds import Constant, cell_count, nearest
from dpnb.scale import Interval
from dpnb.schema import Schema
from dpnb.sql.canonical import simplify
from dpnb.sql.query import (
    EVERY,
    Aggregate,
    And,
    Compare,
    Function,
    Having,
    Junction,
    Key,
    Or,
    Order,
    Predicate,
    Query,
    Within,
)
from dpnb.table import Table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import sqlglot
    from sqlglot import expressions as exp

Node: TypeAlias = Any
"""A node of sqlglot's tree; its classes are told apart at run time."""

MAX_TEXT = 20_000
MAX_NODES = 2_000
MAX_DEPTH = 50
MAX_CELLS = 10_000
"""Groups that one statement may make."""

_MENDS = {
    "with_": ("WITH is not supported", "Write one SELECT over one table."),
    "joins": ("joins are not supported", "Write one SELECT over one table."),
    "laterals": ("joins are not supported", "Write one SELECT over one table."),
    "distinct": ("DISTINCT is not supported", "GROUP BY the columns and use COUNT(*)."),
    "windows": ("windows are not supported", "Use GROUP BY."),
    "qualify": ("windows are not supported", "Use GROUP BY."),
    "offset": ("OFFSET is not supported", "Use ORDER BY and LIMIT, or slice the result."),
    "into": ("a query cannot write", "Leave INTO out."),
    "sample": ("sampling is not supported", "Leave it out; noise is added for you."),
    "hint": ("hints are not supported", "Leave the hint out."),
}
_COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FUNCTIONS: dict[type, Function] = {exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG"}
_SHAPE = "Write COUNT(*), COUNT(x), SUM(x) or AVG(x), with FILTER (WHERE ...) if needed."


def parse(
    text: str, tables: Mapping[str, Table], params: Mapping[str, object] | None = None
) -> Query:
    """Read one statement.

    Parameters
    ----------
    text : str
        At most 20,000 characters; one SELECT over one table. A closing ``;`` is fine.
    tables : mapping of str to Table
        The catalogue; only the schemas are looked at.
    params : mapping, optional
        Values of the bound parameters ``:name`` (str, int, float or date).

    Returns
    -------
    Query

    Raises
    ------
    SqlError
        With line, column, the offending text and what to write instead.
    """
    reader = _Reader(text, tables, params or {})
    try:
        return reader.query(reader.tree())
    except RecursionError:
        raise SqlError("the statement is nested too deeply", "Flatten it.") from None


def _missing(arguments: Mapping[str, Any], *known: str) -> list[str]:
    """Names of the arguments of a node that are set although the shape does not know them."""
    return [name for name, value in arguments.items() if value and name not in known]


class _Reader:
    """The reading of one text. Holds the text only to name places in errors."""

    def __init__(
        self, text: str, tables: Mapping[str, Table], params: Mapping[str, object]
    ) -> None:
        if not isinstance(text, str):
            raise SqlError("the statement is not a text", "Pass SQL as a string.")
        self.text = text
        self.tables = tables
        self.params = params
        self.table_names: tuple[str, ...] = ()
        self.schema: Schema

    # places and refusals

    def refuse(self, what: str, mend: str, node: Node | None = None) -> NoReturn:
        """Raise a SqlError that points at ``node``."""
        spans = [n.meta for n in node.walk() if "start" in n.meta] if node is not None else []
        if not spans:
            raise SqlError(what, mend)
        start = min(span["start"] for span in spans)
        end = max(span["end"] for span in spans)
        raise self.error_at(start, end, what, mend)

    def error_at(self, start: int, end: int, what: str, mend: str) -> SqlError:
        before = self.text[:start]
        shown = self.text[start : end + 1]
        while shown.count("(") > shown.count(")") and end + 1 < len(self.text):
            end += 1
            shown += self.text[end]
        return SqlError(
            what,
            mend,
            line=before.count("\n") + 1,
            column=start - (before.rfind("\n") + 1) + 1,
            text=shown if len(shown) <= 60 else shown[:57] + "...",
        )

    # the tree

    def tree(self) -> exp.Select:
        if len(self.text) > MAX_TEXT:
            raise SqlError(
                f"the statement has more than {MAX_TEXT:,} characters", "Make it shorter."
            )
        try:
            tokens = sqlglot.tokenize(self.text, read="duckdb")
        except sqlglot.errors.TokenError:
            raise SqlError(
                "the statement ends inside a quoted text", "Close every quote."
            ) from None
        depth = 0
        for token in tokens:
            if token.comments or token.token_type == sqlglot.TokenType.HINT:
                raise self.error_at(
                    token.start, token.end, "comments are not allowed in a cell", "Take it out."
                )
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth > MAX_DEPTH:
                raise self.error_at(
                    token.start, token.end, "the statement is nested too deeply", "Flatten it."
                )
            if token.text.upper() == "NULLS":
                raise self.error_at(
                    token.start, token.end, "NULLS FIRST and NULLS LAST are not supported",
                    "Leave them out: unknown values come last.",
                )  # fmt: skip
        if len(tokens) > 2 * MAX_NODES:
            raise SqlError(f"the statement has more than {MAX_NODES:,} parts", "Make it shorter.")
        if not tokens:
            raise SqlError("there is no statement", "Write SELECT ... FROM a table.")
        if tokens[0].text.upper() not in ("SELECT", "WITH"):
            raise self.error_at(
                tokens[0].start, tokens[0].end, "only SELECT is supported",
                "Write SELECT ... FROM a table.",
            )  # fmt: skip
        try:
            statements = sqlglot.parse(self.text, read="duckdb")
        except sqlglot.errors.ParseError as error:
            raise self.malformed(error) from None
        statements = [s for s in statements if s is not None]
        if len(statements) > 1:
            self.refuse("only one statement is allowed", "Put each in its own cell.", statements[1])
        tree = statements[0]
        if not isinstance(tree, exp.Select):
            self.refuse("only SELECT is supported", "Write SELECT ... FROM a table.", tree)
        if sum(1 for _ in tree.walk()) > MAX_NODES:
            raise SqlError(f"the statement has more than {MAX_NODES:,} parts", "Make it shorter.")
        return tree

    def malformed(self, error: Any) -> SqlError:
        details = (error.errors or [{}])[0]
        line, end = int(details.get("line") or 0), int(details.get("col") or 0)
        shown = str(details.get("highlight") or "")[:60]
        return SqlError(
            "this is not valid SQL",
            "Write SELECT columns, aggregates FROM table WHERE ... GROUP BY columns.",
            line=line,
            column=max(1, end - len(shown) + 1),
            text=shown,
        )

    # the statement

    def query(self, select: exp.Select) -> Query:
        known = ("expressions", "from_", "where", "group", "having", "order", "limit", "kind")
        for name in _missing(select.args, *known):
            what, mend = _MENDS.get(
                name, (f"{name.strip('_').upper()} is not supported", "Leave it out.")
            )
            value = select.args[name]
            self.refuse(what, mend, value[0] if isinstance(value, list) else value)
        if select.args.get("kind"):
            self.refuse("SELECT AS is not supported", "List the columns.", select)
        table = self.table(select)
        grouped = self.grouping(select.args.get("group"))
        keys, aggregates = self.outputs(select, grouped)
        where = select.args.get("where")
        having = select.args.get("having")
        return Query(
            table=table,
            keys=keys,
            aggregates=aggregates,
            where=EVERY if where is None else self.predicate(where.this),
            having=None if having is None else self.having(having.this, aggregates),
            order=self.ordering(select.args.get("order"), keys, aggregates),
            limit=self.limit(select.args.get("limit")),
        )

    def table(self, select: exp.Select) -> str:
        source = select.args.get("from_")
        node = source.this if source is not None else None
        if not isinstance(node, exp.Table):
            what = "there is no FROM" if node is None else "only a declared table can follow FROM"
            self.refuse(what, f"Tables: {', '.join(self.tables)}.", node)
        if not isinstance(node.this, exp.Identifier):
            self.refuse("functions cannot be read from", "Name a declared table.", node)
        if _missing(node.args, "this", "alias"):
            self.refuse("only a declared table can follow FROM", "Write its bare name.", node)
        alias = node.args.get("alias")
        if alias is not None and (
            _missing(alias.args, "this") or not isinstance(alias.this, exp.Identifier)
        ):
            self.refuse("only a declared table can follow FROM", "Write its bare name.", node)
        names = {name.casefold(): name for name in self.tables}
        name = names.get(node.name.casefold())
        if name is None:
            self.refuse(f"unknown table {node.name!r}", nearest(node.name, list(self.tables)), node)
        self.schema = self.tables[name].schema
        self.table_names = (name.casefold(), node.alias.casefold() if alias is not None else name)
        return name

    def column(self, node: Node) -> str:
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            self.refuse(
                "only a column can stand here", "Arithmetic and functions are not supported.", node
            )
        if _missing(node.args, "this", "table") or (
            node.args.get("table") is not None and node.table.casefold() not in self.table_names
        ):
            self.refuse("unknown table", "Write the bare column name.", node)
        name = self.schema.find(node.name)
        if name is None:
            self.refuse(
                f"unknown column {node.name!r}", nearest(node.name, list(self.schema)), node
            )
        return name

    # SELECT and GROUP BY

    def grouping(self, group: Node | None) -> list[str]:
        if group is None:
            return []
        if _missing(group.args, "expressions") or not group.expressions:
            self.refuse("GROUP BY takes column names", "Write GROUP BY a, b.", group)
        for node in group.expressions:
            if isinstance(node, exp.Literal):
                self.refuse("GROUP BY takes column names", "Write the name, not its place.", node)
        columns = [self.column(node) for node in group.expressions]
        cells = 1
        for name, node in zip(columns, group.expressions, strict=True):
            if columns.count(name) > 1:
                self.refuse(f"{name!r} is grouped twice", "Name it once.", node)
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

    def outputs(
        self, select: exp.Select, grouped: Sequence[str]
    ) -> tuple[tuple[Key, ...], tuple[Aggregate, ...]]:
        shown: dict[str, str] = {}
        aggregates: list[Aggregate] = []
        names: dict[str, Node] = {}
        for node in select.expressions:
            inner, alias = node, ""
            if isinstance(node, exp.Alias):
                inner, alias = node.this, node.alias
            if isinstance(inner, exp.Star) or (
                isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
            ):
                self.refuse("rows cannot be listed", "Name group columns and aggregates.", node)
            if isinstance(inner, exp.Column):
                column = self.column(inner)
                if column not in grouped:
                    self.refuse(
                        f"{column!r} is not grouped", "Add it to GROUP BY, or aggregate it.", node
                    )
                shown[column] = alias or column
                outputs = [shown[column]]
            else:
                aggregate = self.aggregate(inner, alias)
                aggregates.append(aggregate)
                outputs = [aggregate.alias, f"{aggregate.alias}_low", f"{aggregate.alias}_high"]
            for output in outputs:
                if output.casefold() in names:
                    self.refuse(f"two results are called {output!r}", "Name them with AS.", node)
                names[output.casefold()] = node
        if not aggregates:
            self.refuse("there is no aggregate", "Add COUNT(*), SUM(x) or AVG(x).", select)
        for column in grouped:
            if column not in shown and column.casefold() in names:
                self.refuse(
                    f"two results are called {column!r}", "Name them with AS.",
                    names[column.casefold()],
                )  # fmt: skip
        keys = tuple(Key(column, shown.get(column, column)) for column in grouped)
        return keys, tuple(aggregates)

    def aggregate(self, node: Node, alias: str) -> Aggregate:
        inner: Node = node
        condition: Predicate = EVERY
        if isinstance(node, exp.Filter):
            if not isinstance(node.expression, exp.Where):
                self.refuse("FILTER needs a condition", "Write FILTER (WHERE ...).", node)
            inner, condition = node.this, self.predicate(node.expression.this)
        function = _FUNCTIONS.get(type(inner))
        if isinstance(inner, exp.Window):
            self.refuse("windows are not supported", "Use GROUP BY.", node)
        if isinstance(inner, (exp.Subquery, exp.Select)):
            self.refuse("subqueries are not supported", "Write one SELECT over one table.", node)
        if isinstance(inner, (exp.Min, exp.Max)):
            self.refuse(
                "MIN and MAX cannot be answered: one row decides them",
                "Use counts over declared bins.",
                node,
            )
        if function is None:
            self.refuse("this cannot be answered", _SHAPE, node)
        argument = inner.this
        if isinstance(argument, exp.Distinct):
            self.refuse("DISTINCT is not supported", "Count rows with COUNT(*).", node)
        if _missing(inner.args, "this", "big_int") or argument is None:
            self.refuse(f"{function} takes one column", _SHAPE, node)
        if function == "COUNT" and isinstance(argument, exp.Star):
            if _missing(argument.args):
                self.refuse("COUNT(*) stands alone", _SHAPE, node)
            return Aggregate("COUNT", None, condition, alias or "count")
        column = self.column(argument)
        if function != "COUNT" and not self.schema[column].numeric:
            self.refuse(
                f"{column!r} has no declared bounds",
                "SUM and AVG need an Integer or Real column; count categories instead.",
                node,
            )
        return Aggregate(function, column, condition, alias or f"{function.lower()}_{column}")

    # WHERE

    def predicate(self, node: Node) -> Predicate:
        return simplify(self.condition(node, negated=False), self.schema)

    def condition(self, node: Node, *, negated: bool) -> Predicate:
        if isinstance(node, exp.Paren):
            return self.condition(node.this, negated=negated)
        if isinstance(node, exp.Not):
            return self.condition(node.this, negated=not negated)
        if isinstance(node, exp.And | exp.Or):
            parts = tuple(
                self.condition(part, negated=negated) for part in node.flatten(unnest=False)
            )
            return And(parts) if isinstance(node, exp.And) != negated else Or(parts)
        if type(node) in _COMPARISONS:
            return self.comparison(node, negated)
        if isinstance(node, exp.Between) and not _missing(node.args, "this", "low", "high"):
            column = self.column(node.this)
            least = self.compare(column, ">=", node.args["low"])
            most = self.compare(column, "<=", node.args["high"])
            scale = self.schema[column].scale
            return self.within(column, scale.intersection(least, most), negated)
        if isinstance(node, exp.In) and not _missing(node.args, "this", "expressions"):
            column = self.column(node.this)
            listed = [
                pair for value in node.expressions for pair in self.compare(column, "=", value)
            ]
            return self.within(column, self.schema[column].scale.union(listed), negated)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            column = self.column(node.this)
            scale = self.schema[column].scale
            if negated:
                return Within(column, ((scale.low, scale.high),))
            return Within(column, (), null=True)
        if node.find(exp.Select, exp.Subquery) is not None:
            self.refuse("subqueries are not supported", "Write the values out.", node)
        self.refuse(
            "this condition is not supported",
            "Use =, <>, <, <=, >, >=, BETWEEN, IN or IS NULL on a column, with AND, OR, NOT.",
            node,
        )

    def within(self, column: str, intervals: Sequence[Interval], negated: bool) -> Within:
        if negated:
            return Within(column, self.schema[column].scale.complement(intervals))
        return Within(column, tuple(intervals))

    def comparison(self, node: Node, negated: bool) -> Within:
        operator = _COMPARISONS[type(node)]
        left, right = node.this, node.expression
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, _FLIPPED[operator]
        if isinstance(right, exp.Column):
            self.refuse("two columns cannot be compared", "Compare a column with a value.", node)
        column = self.column(left)
        return Within(
            column, self.compare(column, _NEGATED[operator] if negated else operator, right)
        )

    def compare(self, column: str, operator: str, node: Node) -> tuple[Interval, ...]:
        try:
            return self.schema[column].compare(operator, self.constant(node))
        except SchemaError as error:
            self.refuse(f"in {column!r}, {error.what}", error.mend, node)

    def constant(self, node: Node) -> Constant:
        """Return the value of a literal or bound parameter."""
        if isinstance(node, exp.Paren):
            return self.constant(node.this)
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else self.number(str(node.this), node)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            if not node.this.is_string:
                return -self.number(str(node.this.this), node)
        elif isinstance(node, exp.Placeholder):
            return self.parameter(node)
        elif isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE:
            if isinstance(node.this, exp.Literal) and node.this.is_string:
                return str(node.this.this)
        elif isinstance(node, exp.Null):
            self.refuse("nothing equals NULL", "Use IS NULL or IS NOT NULL.", node)
        elif isinstance(node, exp.Column):
            self.refuse(
                "a value is expected here, not a column", "Put texts in single quotes.", node
            )
        self.refuse("a value is expected here", "Write a constant or :name.", node)

    def number(self, text: str, node: Node) -> Fraction:
        mantissa, _, exponent = text.lower().partition("e")
        if len(mantissa) > 400 or len(exponent) > 4:
            self.refuse("the number is too long", "Round it.", node)
        try:
            return Fraction(text)
        except ValueError:
            self.refuse("this is not a plain number", "Write digits.", node)

    def parameter(self, node: Node) -> Constant:
        name = str(node.this or "")
        if not name.isidentifier():
            self.refuse("parameters have names", "Write :name.", node)
        if name not in self.params:
            raise SqlError(
                f"the parameter :{name} has no value",
                f"Define {name} in the notebook, or pass params={{'{name}': ...}}.",
            )
        value = self.params[name]
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, bool) or not isinstance(value, (str, int, float, datetime.date)):
            raise SqlError(
                f"the parameter :{name} is of type {type(value).__name__}",
                "Use a text, a number or a date.",
            )
        if isinstance(value, float):
            if not math.isfinite(value):
                raise SqlError(f"the parameter :{name} is not a finite number", "Change it.")
            return Fraction(value)
        return value

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
        if isinstance(node, exp.Between) and not _missing(node.args, "this", "low", "high"):
            aggregate = self.measured(node.this, aggregates)
            low, high = (self.threshold(node.args[name]) for name in ("low", "high"))
            ends = Compare(aggregate, ">=", low), Compare(aggregate, "<=", high)
            return Junction("AND", ends)
        if type(node) not in _COMPARISONS:
            self.refuse(
                "this condition is not supported",
                "Compare aggregates with constants, with AND, OR, NOT, BETWEEN.",
                node,
            )
        operator, left, right = _COMPARISONS[type(node)], node.this, node.expression
        if isinstance(left, (exp.Literal, exp.Neg, exp.Placeholder)):
            left, right, operator = right, left, _FLIPPED[operator]
        return Compare(self.measured(left, aggregates), operator, self.threshold(right))

    def threshold(self, node: Node) -> int | float:
        value = self.constant(node)
        if not isinstance(value, (int, float, Fraction)):
            self.refuse("a number is expected here", "Write the number without quotes.", node)
        return int(value) if value == int(value) else float(value)

    def measured(self, node: Node, aggregates: Sequence[Aggregate]) -> Aggregate:
        """Return the aggregate that a node of HAVING or ORDER BY stands for."""
        if isinstance(node, exp.Column):
            for aggregate in aggregates:
                if aggregate.alias.casefold() == node.name.casefold():
                    return aggregate
            self.refuse(
                f"{node.name!r} is no aggregate of this statement",
                nearest(node.name, [aggregate.alias for aggregate in aggregates]),
                node,
            )
        found = self.aggregate(node, "")
        for aggregate in aggregates:
            if (aggregate.function, aggregate.column, aggregate.filter) == (
                found.function,
                found.column,
                found.filter,
            ):
                return aggregate
        return found

    def ordering(
        self, order: Node | None, keys: Sequence[Key], aggregates: Sequence[Aggregate]
    ) -> tuple[Order, ...]:
        if order is None:
            return ()
        names = {key.column.casefold(): key.alias for key in keys}
        names |= {key.alias.casefold(): key.alias for key in keys}
        names |= {aggregate.alias.casefold(): aggregate.alias for aggregate in aggregates}
        terms: list[Order] = []
        for node in order.expressions:
            inner = node.this if isinstance(node, exp.Ordered) else node
            if isinstance(inner, exp.Literal):
                self.refuse("ORDER BY takes names", "Write the name, not its place.", node)
            if isinstance(inner, exp.Column):
                alias = names.get(inner.name.casefold())
            else:
                found = self.measured(inner, aggregates)
                alias = next((a.alias for a in aggregates if a is found), None)
            if alias is None:
                self.refuse(
                    "this is not in the SELECT list", "Order by a shown column or alias.", node
                )
            terms.append(Order(alias, bool(node.args.get("desc"))))
        return tuple(terms)

    def limit(self, node: Node | None) -> int | None:
        if node is None:
            return None
        value = node.args.get("expression")
        if (
            not isinstance(node, exp.Limit)
            or _missing(node.args, "expression")
            or not isinstance(value, exp.Literal)
            or not str(value.this).isdigit()
        ):
            self.refuse("LIMIT takes a whole number", "Write LIMIT 10.", node)
        return int(value.this)
