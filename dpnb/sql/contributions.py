"""What one person adds, as clauses of other systems bound it: checked against what is declared.

A bound per row is a clamp of the argument. A bound on what one person adds to a group, on the
groups or on the rows of one person has no counterpart in a statement: it is accepted if no person
can exceed it, since it then changes no number, and refused otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpnb.errors import RequestError
from dpnb.privacy.loss import amount
from dpnb.schema.persons import is_persons
from dpnb.sql.foreign import CLAMPED, PER_GROUP, PER_ROW, Option
from dpnb.sql.functions import Function
from dpnb.sql.query import Promise
from dpnb.sql.quoting import as_written
from dpnb.sql.values import bounds_of

if TYPE_CHECKING:
    from dpnb.sql.expressions import Arguments
    from dpnb.sql.relations import Scope
    from dpnb.sql.source import Node, Source

_TOTALS = (exp.Count, exp.Sum, exp.Avg)
"""Aggregates that other systems clamp by person and group, not by row."""
_QUANTILES = (exp.Quantile, exp.ApproxQuantile, exp.ApproxQuantiles, exp.PercentileCont, exp.PercentileDisc, exp.Median)  # fmt: skip
_COLUMN = re.compile(r'(?:(?P<table>\w+|"[^"]+")\s*\.\s*)?(?P<name>\w+|"[^"]+"|`[^`]+`)')
_LONGEST = 300
"""Most letters of a statement in a hint."""
_MOST_DIGITS = 9
_LEAST_DELTA = Fraction(1, 10**15)


class Contributions:
    """The clause of one statement, and the tables of its FROM."""

    def __init__(self, source: Source, scope: Scope, tree: Node) -> None:
        self.source = source
        self.clause = source.clause
        self.scope = scope
        self.tree = tree
        unit = scope.base.unit
        self.most = 1 if unit is None else unit.max_rows
        self.person = "row" if unit is None else unit.column

    def _refuse(self, option: Option, what: str, hint: str) -> NoReturn:
        raise self.source.error_at(option.start, option.end, what, hint)

    def promise(self, keys: Sequence[object]) -> Promise | None:
        """Check the options of the clause, and return the privacy that it asks for.

        Raises
        ------
        SqlError
            For an option that would change a number, or the privacy unit.
        """
        for option in self.clause.options.values():
            match option.name:
                case "PRIVACY_UNIT_COLUMN":
                    self._check_unit(option)
                case "MAX_GROUPS_CONTRIBUTED" | "KAPPA":
                    if keys:
                        self._check_most(option, "count in", "groups")
                case "MAX_ROWS_CONTRIBUTED":
                    self._check_most(option, "have", "rows")
        epsilon, delta = (self.clause.options.get(name) for name in ("EPSILON", "DELTA"))
        if epsilon is None:
            if delta is not None:
                self._refuse(delta, "delta needs an epsilon beside it", "Leave delta out.")
            return None
        exact = self._amount(epsilon)
        return Promise(exact, None if delta is None else self._delta(delta))

    def _amount(self, option: Option) -> Fraction:
        try:
            return amount(option.value, option.name.lower())
        except RequestError as error:
            raise self.source.error_at(option.start, option.end, error.what, error.hint) from None

    def _delta(self, option: Option) -> Fraction:
        """Return the delta; 0 stands for pure differential privacy."""
        if re.fullmatch(r"0*\.?0*", option.value):
            return Fraction(0)
        delta = self._amount(option)
        if not _LEAST_DELTA <= delta < 1:
            self._refuse(option, "delta must be between 1e-15 and 1", "Write delta = 1e-6.")
        return delta

    def _check_unit(self, option: Option) -> None:
        """Refuse another privacy unit than the declared one."""
        unit = self.scope.base.unit
        column = _COLUMN.fullmatch(option.value)
        if column is None:
            self._refuse(option, "privacy_unit_column takes a column", "Leave it out.")
        table, name = ((column[part] or "").strip('"`') for part in ("table", "name"))
        if unit is None:
            self._refuse(
                option, f"each row of {self.scope.base.name!r} is protected, not {name!r}",
                "Leave privacy_unit_column out.",
            )  # fmt: skip
        if not self.scope.is_unit(name, None) or self._renamed(name) or not self._named(table):
            self._refuse(
                option, f"the privacy unit is {unit.column!r}: only the owner can change it",
                f"Write privacy_unit_column = {as_written(unit.column)}, or leave it out.",
            )  # fmt: skip

    def _renamed(self, name: str) -> bool:
        """Return whether a subquery gives the name to something else."""
        aliases = (node for node in self.tree.find_all(exp.Alias))
        computed = any(
            node.alias.casefold() == name.casefold()
            and not (
                isinstance(node.this, exp.Column) and node.this.name.casefold() == name.casefold()
            )
            for node in aliases
        )
        return computed or any(
            column.name.casefold() == name.casefold()
            for node in self.tree.find_all(exp.TableAlias)
            for column in node.args.get("columns") or ()
        )

    def _named(self, table: str) -> bool:
        """Return whether a table of FROM has the name, or a query in its place."""
        names = (node.name.casefold() for node in self.tree.find_all(exp.TableAlias))
        return not table or bool(self.scope.of(table)) or table.casefold() in names

    def _check_most(self, option: Option, verb: str, noun: str) -> None:
        """Refuse a limit that one person can exceed."""
        name = option.name.lower()
        if option.value.upper() == "NULL":
            return
        if (
            not option.value.isdecimal()
            or not option.value.isascii()
            or int(option.value[:_MOST_DIGITS]) < 1
        ):
            self._refuse(option, f"{name} must be a whole number, at least 1", "Leave it out.")
        if len(option.value) < _MOST_DIGITS and int(option.value) < self.most:
            self._refuse(
                option,
                f"{name} would leave out rows: here one {self.person} can {verb} {self.most:,} {noun}",
                "Leave it out. Only the owner bounds people, by Unit(..., max_rows=...).",
            )

    # bounds of an aggregate

    def settle(self, aggregate: Node, arguments: Arguments) -> None:
        """Put the clamped argument of an aggregate in place of its bounds."""
        if self.clause.aggregates and isinstance(aggregate, exp.Avg) and self.most > 1:
            self.source.refuse(
                f"this AVG is the average of each {self.person}'s average",
                self._by_person(aggregate, ())
                or "Group by the id first, and take the average of each AVG(x).",
                aggregate,
            )
        if not is_bound(aggregate.this):
            return
        name, (argument, *ends) = str(aggregate.this.this), aggregate.this.expressions
        low, high = (arguments.number(end) for end in ends)
        if low > high:
            self.source.refuse(
                f"the bounds of {name} are in the wrong order", "Write the lower one first.", aggregate
            )  # fmt: skip
        by_row = name == PER_ROW or (name == CLAMPED and not isinstance(aggregate, _TOTALS))
        if isinstance(aggregate, exp.Count):
            if by_row:
                self.source.refuse(
                    "COUNT counts each row once, without bounds", f"Leave {name} out.", aggregate
                )
            self._check_group(aggregate, name, (low, high), (Fraction(0), Fraction(self.most)))
            aggregate.set("this", argument)
            return
        value = arguments.value(Function.SUM, argument)
        bounds = bounds_of(value, arguments.schema)
        if not by_row and self.most > 1:
            zero = Fraction(0)
            least, greatest = min(bounds.low, zero) * self.most, max(bounds.high, zero) * self.most
            self._check_group(aggregate, name, (low, high), (least, greatest))
        elif bounds.low < low or high < bounds.high:
            if len(value.columns) > 1:
                self.source.refuse(
                    f"{name} clamps an expression of one column",
                    "Write SUM(CASE WHEN x > 10 THEN 10 ELSE x END).",
                    aggregate,
                )
            argument = self._clamped(aggregate, name, low > bounds.low, high < bounds.high)
        aggregate.set("this", argument)

    def _check_group(
        self, aggregate: Node, name: str, ends: tuple[Fraction, Fraction],
        reach: tuple[Fraction, Fraction],
    ) -> None:  # fmt: skip
        """Refuse bounds on what one person adds to a group, if a person can exceed them."""
        if not isinstance(aggregate, _TOTALS):
            self.source.refuse(
                f"{name} is for COUNT, SUM and AVG",
                "Write contribution_bounds_per_row instead.",
                aggregate,
            )
        if ends[0] <= reach[0] and reach[1] <= ends[1]:
            return
        span = f"{_text(reach[0])} to {_text(reach[1])}"
        self.source.refuse(
            f"{name} would change numbers: here one {self.person} adds {span} to a group",
            self._by_person(aggregate, ends)
            or (
                f"Leave {name} out."
                if isinstance(aggregate, exp.Count)
                else "Leave it out, or bound each row: contribution_bounds_per_row => (0, 10)."
            ),
            aggregate,
        )

    def _by_person(self, aggregate: Node, ends: Sequence[Fraction]) -> str:
        """Return the statement with one row for each person and group, or "" for a long one."""
        select, unit = aggregate.find_ancestor(exp.Select), self.scope.base.unit
        if unit is None or select is None or len(self.scope.relations) > 1:
            return ""
        if is_persons(self.scope.base.name):
            return ""
        group = select.args.get("group")
        keys = [] if group is None else group.expressions
        if not all(isinstance(key, exp.Column) for key in keys):
            return ""
        inner = aggregate.copy()
        if is_bound(inner.this):
            inner.set("this", inner.this.expressions[0])
        names = [as_written(key.name) for key in keys]
        by = ", ".join([as_written(unit.column), *names])
        value = "v" if not ends else f"LEAST(GREATEST(v, {_text(ends[0])}), {_text(ends[1])})"
        outer = "AVG" if isinstance(aggregate, exp.Avg) else "SUM"
        where = select.args.get("where")
        rows = as_written(self.scope.base.name)
        if where is not None:
            rows += f" WHERE {where.this.sql(dialect='duckdb')}"
        lines = f"SELECT {by}, {inner.sql(dialect='duckdb')} AS v FROM {rows} GROUP BY {by}"
        # without a value, a person adds nothing
        given = " WHERE v IS NOT NULL" if isinstance(aggregate, exp.Sum) else ""
        end = f" GROUP BY {', '.join(names)}" if names else ""
        text = f"SELECT {', '.join([*names, f'{outer}({value}) AS v'])} FROM ({lines}) AS p{given}{end}"
        return f"Without the clause, ask {text}." if len(text) <= _LONGEST else ""

    def _clamped(self, aggregate: Node, name: str, below: bool, above: bool) -> Node:
        """Return the argument with each row's value clamped; a missing value stays missing."""
        argument, low, high = aggregate.this.expressions
        if isinstance(aggregate, _QUANTILES):
            self.source.refuse(
                "a quantile is of the declared values, without bounds", f"Leave {name} out.", aggregate
            )  # fmt: skip
        branches = [(exp.LT, low)] * below + [(exp.GT, high)] * above
        ifs = [
            exp.If(this=kind(this=argument.copy(), expression=end.copy()), true=end.copy())
            for kind, end in branches
        ]
        return exp.Case(ifs=ifs, default=argument)


def is_bound(node: Node) -> bool:
    """Return whether a node is an argument with its bounds."""
    return (
        isinstance(node, exp.Anonymous)
        and node.this in (PER_ROW, PER_GROUP, CLAMPED)
        and len(node.expressions) == 3
    )


def _text(value: Fraction) -> str:
    """Return a number of finitely many decimals as it is written."""
    return str(value.numerator) if value.denominator == 1 else format(float(value), "g")
