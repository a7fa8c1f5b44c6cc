"""WHERE and FILTER: from the tree of a condition to a predicate in negation normal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from sqlglot import expressions as exp

from dpnb.codes import Interval
from dpnb.errors import SchemaError, nearest
from dpnb.schema.columns import Category, Constant, Integer, Kind, Real
from dpnb.schema.persons import kept_rows
from dpnb.schema.predicates import (
    EVERY,
    FLIPPED,
    NEGATED,
    NONE,
    And,
    Or,
    Predicate,
    Within,
    negation,
    simplify,
)
from dpnb.schema.reading import canonical
from dpnb.schema.timestamps import Date, Timestamp
from dpnb.schema.types import Boolean
from dpnb.sql.comparisons import ORDERS, Comparisons
from dpnb.sql.conjuncts import branches_of
from dpnb.sql.constants import TRUTHS, Constants, is_constant, number
from dpnb.sql.domains import Domains
from dpnb.sql.operators import depends_on
from dpnb.sql.products import MOST_CODES, Products, is_small
from dpnb.sql.quoting import as_written
from dpnb.sql.relations import Relation, Scope
from dpnb.sql.source import Node, Source, bare, others

_COMPARED = (exp.Between, exp.In, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
_FEW = f"Columns are combined if they have at most {MOST_CODES:,} combinations of values."


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
        self.constants = Constants(source, params)
        self.domains = Domains(
            source.refuse, self.column, self.constants.value, self.schema, scope.spelled
        )
        self.products = Products(self.domains)
        self.comparisons = Comparisons(self.constants, self.schema)

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
            self.check_names(node)
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
            columns = [
                name for relation in relations for name in relation.results or relation.table.schema
            ]
            hint = nearest(node.name, columns, shown=as_written)
            if node.this.quoted and node.args.get("table") is None:
                hint += f" Texts take single quotes: {exp.Literal.string(node.name)}."
            self.refuse(f"unknown column {node.name!r}", hint, node)
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

    def check_names(self, node: Node) -> None:
        """Refuse an expression that names an unknown column."""
        if isinstance(node, exp.Column):
            return
        for part in node.find_all(exp.Column):
            self.column(part)

    def names_unit(self, node: Node) -> bool:
        """Return whether a node names the id column of the privacy unit, declared or not."""
        return (
            isinstance(node, exp.Column)
            and isinstance(node.this, exp.Identifier)
            and not others(node.args, "this", "table")
            and self.scope.is_unit(node.name, _qualifier(node))
        )

    def is_expression(self, node: Node) -> bool:
        """Return whether a node has columns, and all of them are one declared column."""
        return len(self.columns(node)) == 1

    def columns(self, node: Node) -> set[str]:
        """Return the declared columns in a node; none if some are unknown, or not of one table."""
        columns = [
            {name for _, name in self.scope.find(part.name, _qualifier(part))}
            for part in node.find_all(exp.Column)
        ]
        return set[str]().union(*columns) if all(len(names) == 1 for names in columns) else set()

    def is_product(self, node: Node) -> bool:
        """Return whether a condition is about several columns together, of few combinations."""
        columns = sorted(self.columns(node))
        is_closed = node.find(exp.AggFunc, exp.Window) is None
        return len(columns) > 1 and is_closed and is_small(columns, self.schema)

    def predicate(self, node: Node) -> Predicate:
        """Read a condition as a simplified predicate."""
        found = simplify(self._condition(node, negated=False), self.schema)
        if any(self.is_product(part) for part in _atoms(node)):
            return self.products.merged(found, node)
        return found

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
        if is_constant(node):
            truth = self.constants.truth(node)
            return NONE if truth is None or truth is negated else EVERY
        if isinstance(node, exp.In) and node.args.get("query") and self.names_unit(node.this):
            self.refuse(
                "a list of ids can stand beside other conditions with AND only",
                "Make one row for each id, with COUNT_IF(...) AS n, and test n = 0 or n > 0.",
                node,
            )
        if node.find(exp.Select, exp.Subquery) is not None:
            self.refuse(
                "subqueries are not supported: no condition uses what rows of another query say",
                f"Write the values out{self._listed(node)}.",
                node,
            )
        if not _is_plain(node) and self.is_expression(node):
            return self.domains.condition(node, negated=negated)
        if isinstance(node, exp.Between) and len(self.columns(node)) > 1:
            ends = ((exp.GTE, node.args["low"]), (exp.LTE, node.args["high"]))
            tests = (kind(this=node.this.copy(), expression=end.copy()) for kind, end in ends)
            return self._condition(
                exp.And(this=next(tests), expression=next(tests)), negated=negated
            )
        found = self._of_two(node, negated)
        if found is not None:
            return found
        if next(_atoms(node)) is node and self.is_product(node):
            return self.products.condition(node, negated=negated)
        if isinstance(node, exp.Column):
            column = self.column(node)
            value = self._of_kind(self.schema[column], not negated, node, column)
            return Within(column, self.schema[column].compare("=", value))
        if isinstance(node, exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ):
            equal = self._equal(node)
            return negation(equal, self.schema) if negated else equal
        if isinstance(node, exp.EQ | exp.NEQ) and _is_test(node):
            differs = bare(node.expression).this is isinstance(node, exp.NEQ)
            return self._condition(node.this, negated=differs is not negated)
        if type(node) in ORDERS:
            return self._comparison(node, negated)
        if isinstance(node, exp.Between) and not others(node.args, "this", "low", "high"):
            column = self.column(bare(node.this))
            least = self._compare(column, ">=", node.args["low"])
            most = self._compare(column, "<=", node.args["high"])
            scale = self.schema[column].scale
            return self._within(column, scale.intersection(least, most), negated)
        if (
            isinstance(node, exp.In)
            and node.expressions
            and not others(node.args, "this", "expressions")
        ):
            column = self.column(bare(node.this))
            intervals = [
                pair for value in node.expressions for pair in self._compare(column, "=", value)
            ]
            return self._within(column, self.schema[column].scale.union(intervals), negated)
        self.check_names(node)
        self.refuse(
            "this condition is not supported",
            "Use =, <>, <, <=, >, >=, BETWEEN, IN or IS NULL on a column, with AND, OR, NOT.",
            node,
        )

    def _of_two(self, node: Node, negated: bool) -> Predicate | None:
        """Read a comparison of two columns; None for other conditions."""
        if len(self.columns(node)) != 2:
            return None
        size = bare(node.this)
        if isinstance(size, exp.Abs) and type(node) in ORDERS and is_constant(node.expression):
            return self._size(size.this, node, negated=negated)
        names = {part: self.column(part) for part in node.find_all(exp.Column)}
        return self.comparisons.condition(node, names, negated=negated)

    def _size(self, inner: Node, node: Node, *, negated: bool) -> Predicate | None:
        """Read a comparison of ABS(x) with a constant as two of x; None if these are not read."""
        kinds = {order: kind for kind, order in ORDERS.items()}
        opposite = kinds[FLIPPED[ORDERS[type(node)]]]
        limit = exp.paren(node.expression.copy())
        tests = (
            self._of_two(type(node)(this=inner.copy(), expression=limit), negated),
            self._of_two(
                opposite(this=inner.copy(), expression=exp.Neg(this=limit.copy())), negated
            ),
        )
        known = tuple(test for test in tests if test is not None)
        if len(known) < len(tests):
            return None
        is_inside = isinstance(node, exp.LT | exp.LTE | exp.NEQ)
        return And(known) if is_inside is not negated else Or(known)

    def _listed(self, node: Node) -> str:
        """Return a list of values in place of a subquery, as it is written."""
        if not isinstance(node, exp.In) or not self.is_expression(node.this):
            return ""
        column = self.column(next(node.this.find_all(exp.Column)))
        return f": {self.written(node.this)} IN ({example(self.schema[column])})"

    def _equal(self, node: Node) -> Predicate:
        """Read IS NULL, IS TRUE, IS [NOT] DISTINCT FROM, which are never NULL."""
        test, value = node.this, bare(node.expression)
        if isinstance(node, exp.NullSafeNEQ):
            equal = self._equal(exp.NullSafeEQ(this=test, expression=node.expression))
            return negation(equal, self.schema)
        if isinstance(value, exp.Null):
            return self.missing(test)
        if isinstance(value, exp.Boolean) and not isinstance(bare(test), exp.Column):
            return self._condition(test, negated=not value.this)
        both = self._of_two(exp.EQ(this=test.copy(), expression=value.copy()), False)
        if both is not None:
            return Or((both, And((self.missing(test), self.missing(value)))))
        column = self.column(bare(test))
        return Within(column, self._compare(column, "=", value))

    def missing(self, node: Node) -> Predicate:
        """Read the condition that a value is NULL: one of several columns by those of its parts."""
        node = bare(node)
        if is_constant(node):
            return NONE if node.find(exp.Null) is None else EVERY
        if isinstance(node, exp.Case | exp.If):
            return self._missing_result(node)
        parts, is_strict = depends_on(node)
        if parts:
            missing = tuple(map(self.missing, parts))
            return Or(missing) if is_strict else And(missing)
        if not isinstance(node, exp.Column) and self.is_expression(node):
            test = exp.Is(this=exp.paren(node.copy()), expression=exp.Null())
            return self.domains.condition(test, negated=False)
        return Within(self.column(node), (), null=True)

    def _missing_result(self, node: Node) -> Predicate:
        """Read the condition that a CASE has no result."""
        rest, missing = EVERY, list[Predicate]()
        branches, last = branches_of(node)
        for test, result in branches:
            condition = self.predicate(test)
            missing.append(And((rest, condition, self.missing(result))))
            rest = And((rest, negation(condition, self.schema)))
        missing.append(rest if last is None else And((rest, self.missing(last))))
        return Or(tuple(missing))

    def _within(self, column: str, intervals: Sequence[Interval], negated: bool) -> Within:
        if negated:
            return Within(column, self.schema[column].scale.complement(intervals))
        return Within(column, tuple(intervals))

    def _comparison(self, node: Node, negated: bool) -> Within:
        operator = ORDERS[type(node)]
        left, right = bare(node.this), bare(node.expression)
        for side in (left, right):
            if isinstance(side, exp.AggFunc):
                self.refuse(
                    "WHERE and FILTER cannot contain aggregates",
                    "Compare columns here, and aggregates in HAVING.",
                    side,
                )
        if not isinstance(left, exp.Column) and (
            left.find(exp.Column) is None or isinstance(right, exp.Column)
        ):
            left, right, operator = right, left, FLIPPED[operator]
        if isinstance(left, exp.Add | exp.Sub | exp.Mul | exp.Div):
            self.check_names(left)
            self.refuse(
                "one side of a comparison must be a column alone",
                f"Move the arithmetic to the other side of {operator}."
                if len(self.columns(node)) == 1
                else _FEW,
                left,
            )
        column = self.column(left)
        if isinstance(right, exp.Column) and self.scope.find(right.name, _qualifier(right)):
            self.refuse(
                "two columns of so many values cannot be compared",
                f"Compare a column with a value, or declare narrower bounds. {_FEW}",
                node,
            )
        return Within(
            column, self._compare(column, NEGATED[operator] if negated else operator, right)
        )

    def _compare(self, column: str, operator: str, node: Node) -> tuple[Interval, ...]:
        if isinstance(node, exp.Column | exp.Sub) and node.find(exp.Column) is not None:
            alone = isinstance(node, exp.Column) and not node.table
            text = exp.Literal.string(node.name if alone else self.written(node))
            self.refuse(
                "this must be a value, not a column",
                f"Texts take single quotes: {text}.",
                node,
            )
        kind = self.schema[column]
        try:
            value = self._of_kind(kind, self.constants.value(node), node, column)
            intervals = kind.compare(operator, value)
        except SchemaError as error:
            shown = self.scope.spelled(column)
            self.refuse(f"column {shown!r}: {error.what}", error.hint, node)
        most = kept_rows(self.scope.base.name)
        if not intervals and most is not None and not isinstance(kind, Category):
            self.refuse(
                f"{self.scope.spelled(column)!r} is never so: it {_range(kind)}",
                f"At most {most:,} rows of each id are kept, so this is known without asking. Change the "
                "value, or declare a larger max_rows.",
                node,
            )
        if not intervals and operator == "=" and not isinstance(kind, Category):
            self.refuse(
                f"{self.scope.spelled(column)!r} never equals this value: it {_range(kind)}",
                "Write TRUE or FALSE."
                if isinstance(kind, Boolean)
                else "Change the value, or compare with < or >.",
                node,
            )
        return intervals

    def _of_kind(self, kind: Kind, value: Constant, node: Node, column: str) -> Constant:
        """Return a constant as one of a column's kind: '8' as 8, 8 as '8', TRUE as 1 or 'true'."""
        if isinstance(kind, Category):
            if isinstance(value, bool):
                text = str(value).lower()
            elif isinstance(value, (int, Fraction)):
                text = str(value if Fraction(value).denominator == 1 else float(value))
            else:
                return value
            if canonical(text) in kind.keys:
                return text
        elif isinstance(kind, Boolean):
            return TRUTHS.get(value.strip().lower(), value) if isinstance(value, str) else value
        elif isinstance(value, bool):
            if isinstance(kind, Integer) and (kind.low, kind.high) == (0, 1):
                return int(value)
        elif kind.numeric and isinstance(value, str):
            read = number(value)
            is_whole = read is not None and read.denominator == 1
            return read if read is not None and (is_whole or kind.kind == "real") else value
        if isinstance(value, bool):
            self.refuse(
                f"{column!r} is neither true nor false",
                f"Compare it with one of its values: {as_written(column)} = {example(kind)}.",
                node,
            )
        return value


def _is_test(node: Node) -> bool:
    """Return whether a node says that a condition is true or false."""
    return (
        isinstance(node, exp.EQ | exp.NEQ | exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ)
        and isinstance(bare(node.expression), exp.Boolean)
        and not isinstance(bare(node.this), exp.Column)
    )


def _atoms(node: Node) -> Iterator[Node]:
    """Return the parts of a condition that AND, OR, NOT and tests of truth combine."""
    if isinstance(node, exp.Paren | exp.Not) or _is_test(node):
        yield from _atoms(node.this)
    elif isinstance(node, exp.And | exp.Or):
        for part in node.flatten(unnest=False):
            yield from _atoms(part)
    else:
        yield node


def _is_plain(node: Node) -> bool:
    """Return whether a condition is a column as it stands, or compares one with constants."""
    if isinstance(node, exp.Column):
        return True
    sides = [bare(part) for part in node.iter_expressions()]
    if type(node) in ORDERS and isinstance(sides[-1], exp.Column):
        sides.reverse()
    return isinstance(node, (*ORDERS, *_COMPARED)) and (
        isinstance(sides[0], exp.Column) and all(map(_is_value, sides[1:]))
    )


def _is_value(node: Node) -> bool:
    # two texts without a comma between them are one to the parser; what is said of them is said later
    alike = isinstance(node, exp.Concat) and not others(node.args, "expressions", "coalesce")
    return alike or is_constant(node)


def example(kind: Kind) -> str:
    """Return a value of a column as it is written in a statement."""
    if isinstance(kind, Category):
        return "'" + kind.values[0].replace("'", "''") + "'"
    if isinstance(kind, Boolean):
        return "TRUE"
    return str(kind.low) if kind.numeric else f"'{kind.low}'"


def _range(kind: Boolean | Integer | Real | Date | Timestamp) -> str:
    """Return which values a column has, in words."""
    return (
        "is true or false" if isinstance(kind, Boolean) else f"goes from {kind.low} to {kind.high}"
    )
