"""Break points: expressions of a column whose values are too many to go through one by one.

Between the break points that an expression names (comparisons, the sign inside ABS) it is constant or
monotone. A monotone expression with equal outputs at both ends of an interval is constant on it, so
its jumps are found by halving intervals, with DuckDB as the oracle: they are exact in its own
arithmetic (docs/methods/expressions.md, theorem 16). Real numbers are halved by their places in the
order of all floats.

Monotone are: the column, ``+ - * /`` and ``//`` of a monotone expression and a constant, rounding,
casts between numbers, LEAST, GREATEST and parts of dates that only grow. The column occurs once in
such an expression: ``x * 1.1 - x`` is not monotone in floats. Whatever is computed from constant
parts is constant between the break points of all parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import sqlglot
from sqlglot import expressions as exp

from dpnb.codes import Code, StepFunction
from dpnb.schema.columns import Kind
from dpnb.sql.conjuncts import branches_of
from dpnb.sql.dataless import EvaluationError, evaluate, time_limit
from dpnb.sql.outputs import (
    MOST_PIECES,
    TYPES,
    Evaluated,
    PiecesLimitError,
    in_days,
    null_output,
    outputs,
    type_of,
    typed,
)
from dpnb.sql.source import Node

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpnb.sql.outputs import Values

    Mask: TypeAlias = npt.NDArray[np.bool_]
    Places: TypeAlias = npt.NDArray[np.int64]
    """Codes by their places in the order of all codes of a kind, ascending."""

MOST_CODES = 2**20
"""Largest domain on which expressions are evaluated code by code."""
_POINTS = 4_096
"""About so many codes are evaluated at a time."""
_LARGEST = 1e290
"""Doubles up to this size neither overflow in one more operation, nor become NaN."""
_SPAN = 1e20
"""No number that is made of a date is larger."""
_ORDERS = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In)
_ROUNDED = (exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.Sign, exp.Sqrt)
_GROWING = frozenset(
    {"MILLENNIUM", "CENTURY", "DECADE", "YEAR", "ISOYEAR", "YEARWEEK", "EPOCH", "JULIAN", "YEARS"}
)
"""Parts of a date that only grow with it."""
_DATES = (exp.TimestampTrunc, exp.DateTrunc, exp.Year, exp.LastDay, exp.DateAdd, exp.DateSub)


class RangeError(Exception):
    """A part of an expression has no result at both ends of an interval, the first one at ``code``."""

    def __init__(self, code: Code) -> None:
        super().__init__()
        self.code = code


@dataclass(frozen=True, slots=True)
class _Form:
    """What an expression is between the break points of some rounds: constant, or monotone.

    No number that it is computed from is larger than ``size``.
    """

    rounds: int
    constant: bool
    size: float = 1.0


class _Forms:
    """Reader of an expression of a column v; ``rounds`` has what to halve for, in order."""

    def __init__(self, kind: Kind) -> None:
        scale = kind.scale
        self._column = _Form(0, False, max(abs(scale.low), abs(scale.high), _SPAN))
        self.rounds: list[list[str]] = []

    def constant(self, node: Node) -> int:
        """Return after how many rounds an expression is constant between break points."""
        form = self._form(node)
        return form.rounds if form.constant else self._split(form.rounds, node)

    def _split(self, rounds: int, *nodes: Node) -> int:
        """Have the break points of monotone expressions found after some rounds."""
        while len(self.rounds) <= rounds:
            self.rounds.append([])
        for node in nodes:
            text = str(node.sql(dialect="duckdb"))
            if text not in self.rounds[rounds]:
                self.rounds[rounds].append(text)
        return rounds + 1

    def _form(self, node: Node) -> _Form:
        if isinstance(node, exp.Column):
            return self._column
        if _is_constant(node):
            return _Form(0, True)
        if isinstance(node, exp.Paren | exp.Neg):
            return self._form(node.this)
        if isinstance(node, exp.Case | exp.If):
            found = self._case(node)
        elif isinstance(node, _EQUALITIES) or _is_truth(node):
            found = self._equality(node)
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            # monotone expressions are nowhere missing, or everywhere between their break points
            found = _Form(self._form(node.this).rounds, True)
        else:
            found = self._monotone(node)
        if found is None or found.size > _LARGEST:
            parts = [part for part in node.iter_expressions() if not _is_constant(part)]
            return _Form(max(map(self.constant, parts)), True)
        return found

    def _monotone(self, node: Node) -> _Form | None:
        """Return the form of a monotone function of one part; None for other nodes."""
        parts = [part for part in node.iter_expressions() if not _is_constant(part)]
        if len(parts) != 1:
            return None
        (part,) = parts
        others = [other for other in node.iter_expressions() if other is not part]
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Least | exp.Greatest | exp.Coalesce):
            form = self._form(part)
            sizes = [form.size, *map(_size, others)]
            size = sizes[0] * sizes[1] if isinstance(node, exp.Mul) else sum(sizes)
            is_known = not isinstance(node, exp.Coalesce) or part is node.this
            return _Form(form.rounds, form.constant, size) if is_known else None
        if isinstance(node, exp.Div | exp.IntDiv):
            divisor = _size(node.expression) if part is node.this else 0.0
            form = self._form(part)
            return _Form(form.rounds, form.constant, form.size / divisor) if divisor else None
        if isinstance(node, exp.Abs | exp.Nullif):
            form = self._form(part)
            if form.constant or part is not node.this:
                return form if form.constant else None
            zero = exp.Literal.number(0) if isinstance(node, exp.Abs) else node.expression
            rounds = self._split(form.rounds, *_around(part, zero))
            return _Form(rounds, False, form.size)
        either = isinstance(node, (*_ORDERS, exp.DateDiff)) or _is_growing(node)
        if either or (isinstance(node, (*_ROUNDED, *_DATES)) and part is node.this):
            return self._form(part)
        return None

    def _equality(self, node: Node) -> _Form | None:
        """Return the form of a test of one part for constants: constant once these are break points."""
        compared = [part for part in node.iter_expressions() if not isinstance(part, exp.DataType)]
        parts = [part for part in compared if not _is_constant(part)]
        if len(parts) != 1:
            return None
        form = self._form(parts[0])
        if form.constant:
            return _Form(form.rounds, True)
        values = [part for part in compared if part is not parts[0]] or [exp.Literal.number(0)]
        return _Form(
            self._split(
                form.rounds, *(test for value in values for test in _around(parts[0], value))
            ),
            True,
        )

    def _case(self, node: Node) -> _Form | None:
        """Return the form of CASE or IF, whose conditions are constant between break points."""
        branches, default = branches_of(node)
        rounds = max(self.constant(test) for test, _ in branches)
        results = [self._form(result) for _, result in branches]
        results += [] if default is None else [self._form(default)]
        return _Form(
            max([rounds, *(form.rounds for form in results)]),
            all(form.constant for form in results),
            max(form.size for form in results),
        )


def _is_constant(node: Node) -> bool:
    return node.find(exp.Column) is None


def _around(part: Node, value: Node) -> list[Node]:
    """Return the two tests between which a monotone expression equals a value."""
    return [
        order(this=exp.paren(part.copy()), expression=exp.paren(value.copy()))
        for order in (exp.LT, exp.LTE)
    ]


def _is_number(node: Node) -> bool:
    """Return whether a cast makes a number or a time."""
    return bool(node.to.is_type(*exp.DataType.NUMERIC_TYPES, *exp.DataType.TEMPORAL_TYPES))


def _is_truth(node: Node) -> bool:
    """Return whether a node tests whether a number is not 0."""
    is_cast = isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast)
    return is_cast and node.to.is_type(exp.DataType.Type.BOOLEAN)


def _is_growing(node: Node) -> bool:
    """Return whether a node is a cast between numbers or times, or a part of a date that only grows."""
    if isinstance(node, exp.Cast):
        return not isinstance(node, exp.TryCast) and _is_number(node)
    if isinstance(node, exp.Extract):
        return node.name.upper() in _GROWING
    is_part = isinstance(node, exp.Anonymous) and node.name.upper() == "DATE_PART"
    return is_part and node.expressions[0].name.upper() in _GROWING


def _size(node: Node) -> float:
    """Return the size of a constant number; 0 for others."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return abs(float(node.name))
    text = f"SELECT abs(TRY_CAST(({node.sql(dialect='duckdb')}) AS DOUBLE)) AS y"
    try:
        (found,) = evaluate(text)["y"].tolist()
    except EvaluationError:
        return 0.0
    return 0.0 if found is None else float(found)


# places


def _placed(codes: Sequence[Code], *, integral: bool) -> Places:
    import numpy as np

    if integral:
        return np.array(codes, np.int64)
    bits = np.array(codes, np.float64).view(np.int64)
    # negative floats are ordered the other way round; -0.0 is 0.0
    return np.where(bits < 0, -(bits & np.iinfo(np.int64).max), bits)


def _codes(places: Places, *, integral: bool) -> list[Code]:
    import numpy as np

    if integral:
        return list(places.tolist())
    return list(
        np.where(places < 0, -places | np.iinfo(np.int64).min, places).view(np.float64).tolist()
    )


# halving


class _Oracle:
    """What DuckDB says of expressions of a column, until the time is over."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.integral = kind, kind.scale.integral
        self._types: dict[str, str] = {}
        self._in_time = time_limit()

    def outputs(self, text: str, places: Places) -> tuple[Values, Mask, Code | None]:
        """Return outputs, which are missing, and the first fault; shapes (places,)."""
        self._in_time()
        if text not in self._types:
            self._types[text] = type_of(text, self.kind)
        codes = _codes(places, integral=self.integral)
        return outputs(text, self.kind, codes, self._types[text])

    def changes(self, texts: Sequence[str], points: Places) -> Mask:
        """Return whether an output changes from each point to the next, shape (lines, points - 1)."""
        import numpy as np

        changed = np.zeros((len(points), points.shape[1] - 1), np.bool_)
        for text in texts:
            values, missing, fault = self.outputs(text, points.ravel())
            values, missing = values.reshape(points.shape), missing.reshape(points.shape)
            if fault is not None and (missing[:, 0] & missing[:, -1]).any():
                raise RangeError(fault)
            changed |= _differ(values[:, :-1], missing[:, :-1], values[:, 1:], missing[:, 1:])
        return changed

    def breaks(self, texts: Sequence[str], starts: Places, last: int) -> Places:
        """Return where intervals start on which all of some expressions are constant.

        They are monotone from each start to the next.
        """
        import numpy as np

        lows, highs = starts, np.append(starts[1:] - 1, last)
        while len(lows):
            points = _between(lows, highs, max(4, _POINTS // len(lows)))
            line, number = np.nonzero(self.changes(texts, points))
            lows, highs = points[line, number], points[line, number + 1]
            if len(starts) + len(lows) > MOST_PIECES:
                raise PiecesLimitError
            found = highs - lows == 1
            starts = np.union1d(starts, highs[found])
            lows, highs = lows[~found], highs[~found]
        return starts


def _between(lows: Places, highs: Places, parts: int) -> Places:
    """Return places from each low to each high in about equal steps, shape (lows, parts + 1)."""
    import numpy as np

    # two floats can be more than 2**63 apart
    first = lows.view(np.uint64)[:, None]
    width = highs.view(np.uint64)[:, None] - first
    step = (width + np.uint64(parts - 1)) // np.uint64(parts)
    steps = np.arange(parts + 1, dtype=np.uint64) * step
    places: Places = (first + np.minimum(steps, width)).view(np.int64)
    return places


def _differ(left: Values, no_left: Mask, right: Values, no_right: Mask) -> Mask:
    """Return whether outputs differ; a text tells -0.0 from 0.0."""
    import numpy as np

    different: Mask = (left != right).astype(bool)
    if left.dtype.kind == "f":
        different |= np.signbit(left) != np.signbit(right)
    different &= ~no_left & ~no_right
    different |= no_left != no_right
    return different


def is_searched(kind: Kind) -> bool:
    """Return whether a column has too many codes to evaluate expressions for each."""
    return not kind.scale.integral or kind.scale.high - kind.scale.low >= MOST_CODES


def searched(text: str, kind: Kind) -> Evaluated:
    """Evaluate an expression of v between its break points.

    Raises
    ------
    EvaluationError
        If DuckDB cannot compute it.
    RangeError
        If a part of it is out of range on both sides of values for which it is not.
    PiecesLimitError
    TimeLimitError

    Examples
    --------
    >>> from dpnb.schema.columns import Real
    >>> searched("FLOOR(v / 10)", Real(0, 25)).function.pieces
    ((0.0, 9.999999999999998, 0.0), (10.0, 19.999999999999996, 1.0), (20.0, 25.0, 2.0))
    """
    import numpy as np

    type_name, scale = type_of(text, kind), kind.scale
    if type_name not in TYPES:
        raise EvaluationError
    forms = _Forms(kind)
    forms.constant(sqlglot.parse_one(f"SELECT {text}", read="duckdb").expressions[0])
    oracle = _Oracle(kind)
    first, last = _placed([scale.low, scale.high], integral=scale.integral)
    starts = np.array([first])
    for texts in forms.rounds:
        starts = oracle.breaks(texts, starts, last)
    ends = np.append(starts[1:] - 1, last)
    values, missing, fault = oracle.outputs(text, starts)
    if _differ(values, missing, *oracle.outputs(text, ends)[:2]).any():
        raise AssertionError("an expression changes between its break points")
    if fault is not None and missing.all():
        raise EvaluationError
    outputs_of = iter(typed(values[~missing], type_name))
    lows, highs = (_codes(places, integral=scale.integral) for places in (starts, ends))
    pieces = [
        (low, high, None if lacks else next(outputs_of))
        for low, high, lacks in zip(lows, highs, missing.tolist(), strict=True)
    ]
    function = in_days(StepFunction(pieces, null_output(text, kind, type_name)), type_name)
    return Evaluated(function, TYPES[type_name], fault)
