"""Expressions of one column, evaluated on the column's public domain.

After normalisation a column has a public set of codes, so an expression of it alone is a step
function of the code (docs/methods/expressions.md, theorem 16). DuckDB evaluates it here, when the
statement is read, in a connection without data. The engines only test in which interval a code
lies: they need no translation of functions, and no value in the data can raise an error.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

from sqlglot import expressions as exp

from dpnb.codes import Code, Interval, StepFunction, Steps, remainders, repeated
from dpnb.formats import label_text
from dpnb.schema.columns import Category, Constant, Kind
from dpnb.schema.predicates import Within
from dpnb.schema.timestamps import ZONELESS, Date, Timestamp, has_zone, text_of
from dpnb.schema.types import Boolean
from dpnb.sql.breaks import MOST_CODES, RangeError, is_searched, searched
from dpnb.sql.constants import is_constant
from dpnb.sql.dataless import EvaluationError, TimeLimitError, evaluate, time_limit
from dpnb.sql.functions import WRITTEN, Subject, written
from dpnb.sql.grains import Cells, cells_of, period_of
from dpnb.sql.grammar import NUMBER, is_written, longest
from dpnb.sql.outputs import (
    MOST_PIECES,
    MOST_WRITTEN,
    TYPES,
    Evaluated,
    Holds,
    PiecesLimitError,
    Plain,
    in_days,
    null_output,
    outputs,
    type_of,
    typed,
)
from dpnb.sql.source import Node

MOST_LETTERS = 4_096
"""Longest text that an expression may make of any value."""
_AT_ONCE, _SEARCHED = 2**26, 2**17
"""So many letters are made, or searched for a pattern, between two looks at the clock."""
_NARROW, _DIGITS = 20, 15
"""Bounds so close make tens no groups; larger powers of ten are written with an exponent."""
_PATTERNS = (
    exp.RegexpLike, exp.RegexpFullMatch, exp.RegexpExtract, exp.RegexpReplace, exp.SimilarTo,
)  # fmt: skip


# evaluation


class NoResultError(EvaluationError):
    """An expression has no finite result for any value of its column."""


def _enumerated(
    text: str, kind: Kind, type_name: str, at_once: int, cells: Cells | None
) -> Evaluated:
    """Evaluate an expression for the first code of each cell, or of each in one repetition."""
    import numpy as np

    low, high = _evaluated_codes(kind, cells)
    pieces: list[tuple[Code, Code, Plain | None]] = []
    fault: Code | None = None
    in_time = time_limit()
    firsts = range(low, high + 1) if cells is None else cells.starts(low, high)
    for start in range(0, len(firsts), at_once):
        in_time()
        within, after = firsts[start : start + at_once], firsts[start + 1 : start + at_once + 1]
        values, missing, first = outputs(text, kind, within, type_name)
        fault = first if fault is None else fault
        changed = (missing[1:] != missing[:-1]) | (
            (values[1:] != values[:-1]) & ~missing[1:]
        ).astype(bool)
        starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
        if len(starts) + len(pieces) > MOST_PIECES:
            raise PiecesLimitError
        ends = np.append(starts[1:], len(within)) - 1
        known = ~missing[starts]
        results = iter(typed(values[starts[known]], type_name))
        pieces += [
            (
                within[place],
                after[end] - 1 if end < len(after) else high,
                next(results) if has else None,
            )
            for place, end, has in zip(starts.tolist(), ends.tolist(), known.tolist(), strict=True)
        ]
    if fault is not None and all(output is None for *_, output in pieces):
        raise NoResultError
    null = null_output(text, kind, type_name)
    function: Steps[Plain] = StepFunction(pieces, null)
    if cells is not None and cells.period is not None:
        rest: StepFunction[Plain] = StepFunction(
            ((a - low, b - low, y) for a, b, y in pieces), null
        )
        function = repeated(cells.period, rest, kind.scale, MOST_WRITTEN)
    return Evaluated(in_days(function, type_name), TYPES[type_name], fault)


def _evaluated_codes(kind: Kind, cells: Cells | None) -> tuple[int, int]:
    """Return the first and last code for which an expression is evaluated."""
    low, high = int(kind.scale.low), int(kind.scale.high)
    if cells is None or cells.period is None:
        return low, high
    start = -(-low // cells.period) * cells.period
    return start, start + cells.period - 1


@lru_cache(maxsize=64)
def _evaluated(text: str, kind: Kind, at_once: int, cells: Cells | None) -> Evaluated:
    if is_searched(kind) and cells is None:
        return searched(text, kind)
    type_name = type_of(text, kind)
    if type_name not in TYPES:
        raise EvaluationError
    return _enumerated(text, kind, type_name, at_once, cells)


# reading


_WHOLE_TEXTS = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Placeholder, exp.Paren, exp.Not, exp.And,
    exp.Or, exp.EQ, exp.NEQ, exp.In, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Case, exp.If, exp.Coalesce, exp.Nullif,
)  # fmt: skip
"""Nodes that compare and choose values, whatever their letters are."""


class Domains:
    """Reader of the expressions of one column in a statement.

    Parameters
    ----------
    refuse : callable
        Raises an error that points at a node.
    column : callable
        Returns the declared name of the column that a node names.
    constant : callable
        Returns the value of a parameter.
    kinds : mapping of str to Kind
        The kinds of the columns.
    shown : callable
        Returns the name that the statement gives to a column.
    """

    def __init__(
        self,
        refuse: Callable[..., NoReturn],
        column: Callable[[Node], str],
        constant: Callable[[Node], Constant],
        kinds: Mapping[str, Kind],
        shown: Callable[[str], str],
    ) -> None:
        self.refuse = refuse
        self.shown = shown
        self.column = column
        self.constant = constant
        self.kinds = kinds
        self.undeclared: dict[str, str] = {}
        """Columns whose undeclared values count for what their common label looks like."""

    def columns(self, node: Node) -> list[str]:
        """Return the different columns in an expression, in the order in which they occur."""
        return list(dict.fromkeys(self.column(part) for part in node.find_all(exp.Column)))

    def condition(self, node: Node, *, negated: bool) -> Within:
        """Read a condition on one column: the codes for which it, or its negation, is true."""
        (column,) = self.columns(node)
        found = self._evaluated(node, column)
        if found.holds not in ("condition", "nothing"):
            self.refuse(
                f"this is a {found.holds}, not a condition", "Compare it with a value.", node
            )
        function = found.function
        self.note(node, column, lambda code: function(code) is (not negated))
        null = function.null is (not negated)
        return Within(column, function.steps.where(not negated), null, function.period)

    def outputs(
        self, node: Node, rows: Callable[[str], Sequence[Interval]] | None = None
    ) -> tuple[str, Steps[Plain], Holds]:
        """Read an expression of one column: the column, the output of each code, and what it is.

        Codes without a result are refused, unless they are outside the codes that ``rows`` returns
        for the column: those of the rows that count.
        """
        (column,) = self.columns(node)
        kind, found = self.kinds[column], self._evaluated(node, column)
        fault = found.fault
        if fault is not None and rows is not None:
            try:
                fault = self._fault(node, kind, found.function, rows(column))
            except TimeLimitError:
                self.refuse_slow(node)
        if fault is not None:
            self.refuse(
                f"this has no finite result for {self.shown(column)} = {self._value(kind, fault)}",
                _without_zero(node),
                node,
            )
        self.note(node, column, lambda code: found.function(code) is not None)
        return column, found.function, found.holds

    def note(self, node: Node, column: str, counts: Callable[[Code], bool]) -> None:
        """Note a column whose label of undeclared values counts for the letters that it has."""
        kind = self.kinds[column]
        if not isinstance(kind, Category) or kind.other is None:
            return
        lettered = any(not isinstance(part, _WHOLE_TEXTS) for part in node.walk())
        if lettered and counts(kind.values.index(kind.other)):
            self.undeclared[column] = kind.other

    def _evaluated(self, node: Node, column: str) -> Evaluated:
        kind = self.kinds[column]
        self.check(node, kind)
        cells, at_once = self._cells(node, kind), self.at_once(node, kind)
        text = self.text(node)
        try:
            return _evaluated(text, kind, at_once, cells)
        except EvaluationError as error:
            self._refuse_cause(node, self.shown(column), error)
            self.refuse(
                f"DuckDB cannot compute this from {self.shown(column)}, which has {_SUBJECTS[kind.kind]}",
                "Check the types: CAST(x AS VARCHAR) makes a text, CAST(x AS DOUBLE) a number.",
                node,
            )
        except PiecesLimitError:
            spelled = str(node.find(exp.Column).sql(dialect="duckdb"))
            self.refuse(
                f"this changes more than {MOST_PIECES:,} times over the values of {self.shown(column)}",
                f"Declare bins for it, or make it coarser: {coarser(kind, spelled)} for {spelled}.",
                node,
            )
        except RangeError as error:
            spelled = str(node.find(exp.Column).sql(dialect="duckdb"))
            self.refuse(
                "a part of this has no finite result for "
                f"{self.shown(column)} = {self._value(kind, error.code)}, "
                "but has one for other values",
                f"Bring {spelled} into range first: LEAST(GREATEST({spelled}, 0), 100).",
                node,
            )
        except TimeLimitError:
            self.refuse_slow(node)

    def refuse_slow(self, node: Node) -> NoReturn:
        """Refuse an expression that takes more than the time of one evaluation."""
        self.refuse("this takes too long to evaluate", "Make it simpler.", node)

    def _refuse_cause(self, node: Node, column: str, error: EvaluationError) -> None:
        """Refuse patterns that cannot be read, division by 0 and what is too large, for what they are."""
        for part in node.find_all(*_PATTERNS):
            pattern = part.expression
            if isinstance(pattern, exp.Literal) and not _is_pattern(str(pattern.this)):
                self.refuse(
                    "this is not a valid regular expression",
                    "Close its brackets, and repeat no part more than 1,000 times.",
                    pattern,
                )
        for part in node.find_all(exp.Div, exp.IntDiv, exp.Mod):
            if is_constant(part.expression) and self.constant(part.expression) == 0:
                self.refuse("this divides by 0", "Change the divisor.", part)
        has_cast = any(part.find(exp.Column) for part in node.find_all(exp.Cast))
        if isinstance(error, NoResultError) and not has_cast:
            self.refuse(
                f"this has no finite result for any value of {column}",
                "Use smaller numbers in it.",
                node,
            )

    def _fault(
        self, node: Node, kind: Kind, function: Steps[Plain], codes: Sequence[Interval]
    ) -> Code | None:
        """Return the first of some codes for which an expression has no result."""
        cells = self._cells(node, kind)
        if is_searched(kind) and cells is None:
            support = function.over(kind.scale).support
            missing = kind.scale.intersection(codes, kind.scale.complement(support))
            return missing[0][0] if missing else None
        text, at_once, in_time = self.text(node), self.at_once(node, kind), time_limit()
        type_name = type_of(text, kind)
        if cells is not None and cells.period is not None:
            first, _ = _evaluated_codes(kind, cells)
            codes = [(first + a, first + b) for a, b in remainders(codes, cells.period)]
        for low, high in codes:
            every = range(int(low), int(high) + 1)
            firsts = every if cells is None else cells.starts(int(low), int(high))
            for start in range(0, len(firsts), at_once):
                in_time()
                fault = outputs(text, kind, firsts[start : start + at_once], type_name)[2]
                if fault is not None:
                    return fault
        return None

    def at_once(self, node: Node, kind: Kind) -> int:
        """Return on how many codes an expression is evaluated at once."""
        letters = max(map(len, kind.values)) if isinstance(kind, Category) else NUMBER
        letters = longest(node, letters)
        if letters > MOST_LETTERS:
            self.refuse(
                f"this can make texts of more than {MOST_LETTERS:,} letters", "Shorten it.", node
            )
        return (_AT_ONCE if node.find(*_PATTERNS) is None else _SEARCHED) // letters

    def check(self, node: Node, kind: Kind) -> None:
        """Refuse what expressions cannot contain."""
        if node.find(exp.Select, exp.Subquery) is not None:
            self.refuse("subqueries are not supported", "Write the values out.", node)
        for part in node.walk():
            # where a column comes from is not written here
            if isinstance(part, exp.Column | exp.Identifier) or is_written(part):
                continue
            if isinstance(part, exp.AggFunc | exp.Window):
                self.refuse(
                    "WHERE and FILTER cannot contain aggregates",
                    "Compare columns here, and aggregates in HAVING.",
                    part,
                )
            if isinstance(part, exp.CurrentDate | exp.CurrentTimestamp | exp.CurrentTime):
                self.constant(part)
            call = part.sql(dialect="duckdb").partition("(")[0]
            name = call if isinstance(part, exp.Func) and call.isidentifier() else "this"
            self.refuse(f"{name} is not supported here", _offers(kind), part)
        if isinstance(kind, Timestamp):
            self._check_zones(node)

    def _check_zones(self, node: Node) -> None:
        for part in node.find_all(exp.Literal, exp.Placeholder):
            value = str(part.this) if isinstance(part, exp.Literal) else self.constant(part)
            if has_zone(value):
                self.refuse("this time has a zone", ZONELESS, part)

    def _cells(self, node: Node, kind: Kind) -> Cells | None:
        """Return cells of codes within which an expression of times does not change, if few."""
        if not isinstance(kind, Date | Timestamp):
            return None
        low, high = int(kind.scale.low), int(kind.scale.high)
        cells = cells_of(node, kind, self.text) if isinstance(kind, Timestamp) else Cells()
        period = period_of(node, kind)
        if period is not None and 2 * period <= high - low:
            repeating = replace(cells, period=period)
            if repeating.most(0, period - 1) <= MOST_CODES:
                return repeating
        few = isinstance(kind, Timestamp) and cells.most(low, high) <= MOST_CODES
        return cells if few else None

    def text(self, node: Node, names: Mapping[str, str] | None = None) -> str:
        """Return an expression as DuckDB reads it, with v for the column, or names for several."""

        def replaced(part: Node) -> Node:
            if isinstance(part, exp.Column):
                return exp.column("v" if names is None else names[self.column(part)])
            if isinstance(part, exp.Placeholder):
                return self._literal(self.constant(part))
            return part

        return str(node.copy().transform(replaced).sql(dialect="duckdb"))

    @staticmethod
    def _literal(value: Constant) -> Node:
        if isinstance(value, str):
            return exp.Literal.string(value)
        if isinstance(value, bool):
            return exp.Boolean(this=value)
        if isinstance(value, datetime.date):
            has_time = isinstance(value, datetime.datetime)
            kind = exp.DataType.Type.TIMESTAMPNTZ if has_time else exp.DataType.Type.DATE
            return exp.cast(exp.Literal.string(value.isoformat()), kind)
        number = Fraction(value)
        if number.denominator == 1:
            return exp.Literal.number(number.numerator)
        return exp.cast(exp.Literal.string(repr(float(number))), exp.DataType.Type.DOUBLE)

    @staticmethod
    def _value(kind: Kind, code: Code) -> str:
        """Return the value of a code, as a message shows it."""
        if isinstance(kind, Category):
            return repr(kind.values[int(code)])
        if isinstance(kind, Boolean):
            return label_text(bool(code))
        return text_of(kind, code) if isinstance(kind, Date | Timestamp) else str(code)


def _is_pattern(text: str) -> bool:
    """Return whether a text is a regular expression that DuckDB can read."""
    try:
        evaluate("SELECT regexp_matches('', $1) AS y", [text])
    except EvaluationError:
        return False
    return True


def _without_zero(node: Node) -> str:
    """Return how to leave out values for which an expression has no result."""
    divisions = (exp.Div, exp.IntDiv, exp.Mod)
    result = node.copy()
    parts = [part for part in result.find_all(*divisions) if part.expression.find(exp.Column)]
    for part in parts:
        part.set("expression", exp.Nullif(this=part.expression, expression=exp.Literal.number(0)))
    if not parts and node.find(exp.StrToTime) is not None:
        return "Write TRY_STRPTIME in place of STRPTIME: what it cannot read is NULL."
    if not parts:
        return "Leave such values out with WHERE, NULLIF or CASE WHEN."
    return f"Write {result.sql(dialect='duckdb')}."


def coarser(kind: Kind, column: str) -> str:
    """Return an expression of a column that takes at most some thousands of values.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer, Real
    >>> coarser(Real(0, 200), "wage"), coarser(Integer(0, 10**9), "n"), coarser(Real(0, 1), "x")
    ('FLOOR(wage / 10)', 'FLOOR(n / 1000000)', 'FLOOR(x * 1000)')
    """
    if isinstance(kind, Category):
        return f"LEFT({column}, 1)"
    if isinstance(kind, Date):
        return f"DATE_TRUNC('year', {column})"
    if isinstance(kind, Timestamp):
        unit = "day" if (kind.high - kind.low).days < MOST_PIECES else "year"
        return f"DATE_TRUNC('{unit}', {column})"
    width = float(kind.scale.high) - float(kind.scale.low)
    digits = math.ceil(math.log10(width)) - 3
    digits = max(1, digits) if width > _NARROW else digits
    power = f"1e{abs(digits)}" if abs(digits) > _DIGITS else str(10 ** abs(digits))
    return f"FLOOR({column} {'/' if digits > 0 else '*'} {power})"


_SUBJECTS: dict[str, Subject] = {
    "category": "texts", "boolean": "booleans", "integer": "numbers", "real": "numbers", "date": "dates",
    "timestamp": "times",
}  # fmt: skip


def names(kind: Kind) -> list[str]:
    """Return the functions that may be applied to a column, as they are called.

    Examples
    --------
    >>> from dpnb.schema.columns import Integer
    >>> names(Integer(0, 9))[:3]
    ['IF', 'COALESCE', 'IFNULL']
    """
    examples = (*WRITTEN["any column"], *written(_SUBJECTS[kind.kind]))
    calls = (example.partition("(")[0] for example in examples if "(" in example)
    return list(dict.fromkeys(call for call in calls if call.isidentifier()))


def _offers(kind: Kind) -> str:
    subject = _SUBJECTS[kind.kind]
    return f"Functions of {subject}: {', '.join(names(kind))}."
