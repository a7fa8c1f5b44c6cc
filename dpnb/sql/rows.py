"""What is computed from the columns of one row and constants, and from nothing else."""

from __future__ import annotations

from sqlglot import expressions as exp

from dpnb.sql.names import own_nodes
from dpnb.sql.source import Node, Source

_NODES: tuple[type, ...] = (
    exp.Add, exp.Alias, exp.And, exp.Between, exp.Boolean, exp.Case, exp.Column, exp.DataType, exp.Div, exp.DPipe, exp.EQ,
    exp.GT, exp.GTE, exp.Identifier, exp.ILike, exp.In, exp.IntDiv, exp.Interval, exp.IntervalSpan, exp.Is, exp.Like,
    exp.Literal, exp.LT, exp.LTE, exp.Mod, exp.Mul, exp.Neg, exp.NEQ, exp.Not, exp.Null, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Or, exp.Paren, exp.Placeholder, exp.SimilarTo, exp.Sub, exp.Var,
)  # fmt: skip
"""Operators and constants: the same value for the same row."""
_FUNCTIONS: tuple[type, ...] = (
    exp.Abs, exp.Cast, exp.Ceil, exp.Coalesce, exp.Concat, exp.Contains, exp.DateAdd, exp.DateDiff, exp.Day, exp.DayOfWeek,
    exp.DayOfWeekIso, exp.DayOfYear, exp.EndsWith, exp.Exp, exp.Extract, exp.Floor, exp.Greatest, exp.Hour, exp.If,
    exp.Least, exp.Left, exp.Length, exp.Ln, exp.Log, exp.Lower, exp.Minute, exp.Month, exp.Nullif, exp.Pow, exp.Quarter,
    exp.RegexpLike, exp.Replace, exp.Right, exp.Round, exp.Second, exp.Sign, exp.Sqrt, exp.StartsWith, exp.StrPosition,
    exp.Substring, exp.TimestampTrunc, exp.Trim, exp.Trunc, exp.TryCast, exp.Upper, exp.Week, exp.Year,
)  # fmt: skip
"""Functions with one value for each row, which depends on nothing else."""
_NAMES = frozenset({"DATEPART", "DATE_PART", "PREFIX", "SUFFIX", "WEEKDAY"})
"""Such functions that sqlglot does not know."""


def check_row(source: Source, node: Node) -> None:
    """Refuse an expression that counts, draws, reads or sets anything, also where nobody uses it."""
    for part in own_nodes(node):
        if isinstance(part, exp.Query):
            source.refuse("subqueries are not supported here", "Write the values out.", node)
        if isinstance(part, exp.Window):
            source.refuse("window functions over rows are not supported", "Use GROUP BY.", node)
        named = isinstance(part, exp.Anonymous) and part.name.upper() in _NAMES
        if not named and not isinstance(part, _NODES + _FUNCTIONS):
            word = source.written(part).partition("(")[0].strip().upper()
            source.refuse(
                f"{word} cannot be computed in a subquery",
                "Compute one value for each row, from its columns and constants.",
                node,
            )
