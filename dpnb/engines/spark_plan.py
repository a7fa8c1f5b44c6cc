"""Whether a Spark frame holds the same rows each time it is read, as far as its plan says.

Everything is asked in SQL about a view of the frame, which works on classic and Connect sessions
alike and runs no job.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from dpnb.errors import SchemaError

_ANALYZED = re.compile(
    r"^== Analyzed Logical Plan ==$(.*?)^== Optimized Logical Plan ==$", re.MULTILINE | re.DOTALL
)
_CURRENT = re.compile(
    r"\b(?:current_(?:date|time|timestamp|timezone|user|catalog|schema|database)|curdate|now"
    r"|localtimestamp|session_user|user)\("
)
"""Functions as an analyzed plan writes them; ``unix_timestamp()`` and such are made of these."""
_SPOKEN = re.compile(
    r"\b(?:(?:try_)?cast|(?:try_)?to_(?:date|timestamp\w*)|date|timestamp\w*)"
    r"\(\s*(?:now|today|tomorrow|yesterday)\b(?!#)",
    re.IGNORECASE,
)
"""Constant texts that Spark reads as a date or time from the clock."""
_FIELDS = "spark.sql.debug.maxToStringFields"
_HINT = "Write its rows to a file or a table once, and read them from there."


def check_plan(spark: Any, view: str) -> None:
    """Refuse a view whose rows would differ each time they are read.

    Raises
    ------
    SchemaError
        If its plan is not deterministic, or names the current date, time or user.
    """
    if not _is_deterministic(spark, view):
        raise SchemaError(
            "the data frame's plan is not deterministic: it holds other rows each time it is read",
            _HINT,
        )
    text = _analyzed(spark, view)
    if _SPOKEN.search(text) or any(
        not _is_name(text, call.end() - 1) for call in _CURRENT.finditer(text)
    ):
        raise SchemaError(
            "the data frame's plan names the current date, time or user: its rows change by themselves",
            _HINT,
        )


def _is_deterministic(spark: Any, view: str) -> bool:
    from pyspark.errors import PySparkException

    # Spark refuses a join on what is not deterministic, and takes a subquery for as deterministic as
    # its whole plan is
    probe = f"SELECT 1 FROM range(1) AS a JOIN range(1) AS b ON (SELECT COUNT(*) FROM {view}) > 0"
    try:
        # a Connect session analyses no statement before its schema is asked for
        _ = spark.sql(probe).schema
    except PySparkException as error:
        if "NON_DETERMINISTIC" not in str(error.getCondition()):
            raise
        return False
    return True


def _analyzed(spark: Any, view: str) -> str:
    """Return the analyzed plan of a view as Spark writes it."""
    with _whole_plans(spark):
        ((plan,),) = spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {view}").collect()
    found = _ANALYZED.search(plan)
    if found is None:
        raise ValueError
    return found[1]


@contextlib.contextmanager
def _whole_plans(spark: Any) -> Iterator[None]:
    """Let Spark write every field of a plan, not only the first 25."""
    before = spark.conf.get(_FIELDS)
    spark.conf.set(_FIELDS, str(2**31 - 1))
    try:
        yield
    finally:
        spark.conf.set(_FIELDS, before)


def _is_name(text: str, start: int) -> bool:
    """Whether a call, whose parenthesis opens at ``start``, stands in the name of a column.

    A plan writes names with a number, as in ``datediff(current_date(), joined)#5``.
    """
    depth = least = 1
    for place in range(start + 1, len(text)):
        if text[place] == "\n":
            return False
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth < least:
            least = depth
            if re.match(r"#\d", text[place + 1 : place + 3]):
                return True
    return False
