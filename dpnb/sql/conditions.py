"""WHERE and FILTER: from the tree of a condition to a predicate in negation normal form."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.codes import Interval, scalar
from dpnb.errors import SchemaError, SqlError, nearest
from dpnb.schema.columns import Category, Constant
from dpnb.schema.predicates import And, Or, Predicate, Within, simplify
from dpnb.sql.quoting import as_written
from dpnb.sql.relations import Relation, Scope
from dpnb.sql.source import Node, Source, others

COMPARISONS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _qualifier(node: Node) -> str | None:
    return None if node.args.get("table") is None else str(node.table)


class Conditions:
    """Reader of conditions on the columns of one table.

    Parameters
    ----------
    source : Source
        For positions in error messages.
    scope : Scope
        The table, and the tables that are looked up from its rows.
    params : mapping
        Values of the bound parameters ``:name``.
    """

    def __init__(self, source: Source, scope: Scope, params: Mapping[str, object]) -> None:
        self.refuse = source.refuse
        self.written = source.written
        self.scope = scope
        self.schema = scope.base.schema
        self.params = params

    def _refuse_undeclared(self, node: Node, relations: Sequence[Relation]) -> None:
        for relation in relations:
            for name in relation.table.schema.undeclared:
                if name.casefold() == node.name.casefold():
                    self.refuse(
                        f"the values of {name!r} are not declared",
                        f"Find them with session.discover({name!r}), and declare them.",
                        node,
                    )

    def _refuse_unit(self, node: Node, relations: Sequence[Relation]) -> None:
        for relation in relations:
            unit = relation.table.unit
            if unit is not None and relation.identifies(node.name):
                self.refuse(
                    f"{unit.column!r} is the column of the privacy unit, whose ids are protected",
                    f"Use COUNT(*) for rows, or COUNT(DISTINCT {as_written(unit.column)}) for ids.",
                    node,
                )

    def column(self, node: Node) -> str:
        """Return the declared spelling of the column that a node names."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            self.refuse(
                "this must be a column",
                "Arithmetic and functions are not supported here.",
                node,
            )
        relations = self.scope.of(_qualifier(node))
        if others(node.args, "this", "table") or not relations:
            joined = len(self.scope.relations) > 1
            table_names = ", ".join(relation.shown for relation in self.scope.relations)
            hint = (
                f"Tables of FROM: {table_names}."
                if joined
                else "Write only the name of the column."
            )
            self.refuse(f"unknown table {_qualifier(node)!r}", hint, node)
        matches = self.scope.find(node.name, _qualifier(node))
        if not matches:
            self._refuse_undeclared(node, relations)
            self._refuse_unit(node, relations)
            columns = [name for relation in relations for name in relation.table.schema]
            self.refuse(
                f"unknown column {node.name!r}", nearest(node.name, columns, shown=as_written), node
            )
        if len(matches) > 1:
            self.refuse(
                f"several tables have a column {node.name!r}",
                " or ".join(
                    f"{as_written(relation.shown)}.{as_written(node.name)}"
                    for relation, _ in matches
                ).join(("Write ", ".")),
                node,
            )
        return matches[0][1]

    def names_unit(self, node: Node) -> bool:
        """Return whether a node names the id column of the privacy unit, declared or not."""
        return (
            isinstance(node, exp.Column)
            and isinstance(node.this, exp.Identifier)
            and not others(node.args, "this", "table")
            and self.scope.is_unit(node.name, _qualifier(node))
        )

    def predicate(self, node: Node) -> Predicate:
        """Read a condition as a simplified predicate."""
        return simplify(self._condition(node, negated=False), self.schema)

    def _condition(self, node: Node, *, negated: bool) -> Predicate:
        if isinstance(node, exp.Paren):
            return self._condition(node.this, negated=negated)
        if isinstance(node, exp.Not):
            return self._condition(node.this, negated=not negated)
        if isinstance(node, exp.And | exp.Or):
            parts = tuple(
                self._condition(part, negated=negated) for part in node.flatten(unnest=False)
            )
            return And(parts) if isinstance(node, exp.And) != negated else Or(parts)
        if type(node) in COMPARISONS:
            return self._comparison(node, negated)
        if isinstance(node, exp.Between) and not others(node.args, "this", "low", "high"):
            column = self.column(node.this)
            least = self._compare(column, ">=", node.args["low"])
            most = self._compare(column, "<=", node.args["high"])
            scale = self.schema[column].scale
            return self._within(column, scale.intersection(least, most), negated)
        if (
            isinstance(node, exp.In)
            and node.expressions
            and not others(node.args, "this", "expressions")
        ):
            column = self.column(node.this)
            intervals = [
                pair for value in node.expressions for pair in self._compare(column, "=", value)
            ]
            return self._within(column, self.schema[column].scale.union(intervals), negated)
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

    def _within(self, column: str, intervals: Sequence[Interval], negated: bool) -> Within:
        if negated:
            return Within(column, self.schema[column].scale.complement(intervals))
        return Within(column, tuple(intervals))

    def _comparison(self, node: Node, negated: bool) -> Within:
        operator = COMPARISONS[type(node)]
        left, right = node.this, node.expression
        for side in (left, right):
            if isinstance(side, exp.AggFunc):
                self.refuse(
                    "WHERE and FILTER cannot contain aggregates",
                    "Compare columns here. Conditions on aggregates are answered by session.decide.",
                    side,
                )
        if not isinstance(left, exp.Column) and (
            left.find(exp.Column) is None or isinstance(right, exp.Column)
        ):
            left, right, operator = right, left, FLIPPED[operator]
        if isinstance(left, exp.Add | exp.Sub | exp.Mul | exp.Div):
            self.refuse(
                "one side of a comparison must be a column alone",
                f"Move the arithmetic to the other side of {operator}.",
                left,
            )
        column = self.column(left)
        if isinstance(right, exp.Column) and self.scope.find(right.name, _qualifier(right)):
            self.refuse("two columns cannot be compared", "Compare a column with a value.", node)
        return Within(
            column, self._compare(column, _NEGATED[operator] if negated else operator, right)
        )

    def _compare(self, column: str, operator: str, node: Node) -> tuple[Interval, ...]:
        if isinstance(node, exp.Column | exp.Sub) and node.find(exp.Column) is not None:
            text = self.written(node)
            self.refuse(
                "this must be a value, not a column",
                f"Texts take single quotes: '{text}'.",
                node,
            )
        kind = self.schema[column]
        try:
            intervals = kind.compare(operator, self.constant(node))
        except SchemaError as error:
            self.refuse(f"column {column!r}: {error.what}", error.hint, node)
        if not intervals and operator == "=" and not isinstance(kind, Category):
            self.refuse(
                f"{column!r} never equals this value: it goes from {kind.low} to {kind.high}",
                "Change the value, or compare with < or >.",
                node,
            )
        return intervals

    def constant(self, node: Node) -> Constant:
        """Return the value of a literal or bound parameter."""
        if isinstance(node, exp.Paren):
            return self.constant(node.this)
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else self._number(str(node.this), node)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            if not node.this.is_string:
                return -self._number(str(node.this.this), node)
        elif isinstance(node, exp.Placeholder):
            return self._parameter(node)
        elif isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE:
            if isinstance(node.this, exp.Literal) and node.this.is_string:
                return str(node.this.this)
        elif isinstance(node, exp.Null):
            self.refuse("nothing equals NULL", "Use IS NULL or IS NOT NULL.", node)
        elif isinstance(node, exp.Column):
            self.refuse("this must be a value, not a column", "Put texts in single quotes.", node)
        elif isinstance(node, exp.Concat):
            self.refuse("a comma is missing between two texts", "Write 'a', 'b'.", node)
        self.refuse("this must be a value", "Write a constant or :name.", node)

    def _number(self, text: str, node: Node) -> Fraction:
        mantissa, _, exponent = text.lower().partition("e")
        if len(mantissa) > 400 or len(exponent) > 4:
            self.refuse("the number is too long", "Round it.", node)
        try:
            return Fraction(text)
        except ValueError:
            self.refuse("this number cannot be read", "Write it in decimal digits.", node)

    def _parameter(self, node: Node) -> Constant:
        name = str(node.this or "")
        if not name.isidentifier():
            self.refuse("a parameter needs a name", "Write :name.", node)
        if name not in self.params:
            self.refuse(
                f"the parameter :{name} has no value",
                f"Pass params={{'{name}': ...}}.",
                node,
            )
        value = scalar(self.params[name])
        if (
            isinstance(value, bool)
            or not isinstance(value, (str, int, float, Fraction, datetime.date))
            or type(value).__name__ == "NaTType"
        ):
            raise SqlError(
                f"the parameter :{name} is of type {type(value).__name__}",
                "Use a string, a number or a date.",
            )
        if isinstance(value, float):
            if not math.isfinite(value):
                raise SqlError(
                    f"the parameter :{name} is not a finite number", "Give a finite number."
                )
            return Fraction(value)
        return value
