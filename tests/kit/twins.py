"""Answers with almost no noise beside DuckDB's own answers to the same statements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import duckdb
import pandas as pd

from dpnb import Budget, Session, Table

RHO = 1e9


class Twins:
    """A session and a DuckDB connection over the same tables, which are already normalised."""

    def __init__(self, tables: Mapping[str, tuple[Table, pd.DataFrame]]) -> None:
        self.session = Session([table for table, _ in tables.values()], budget=Budget(rho=1e15))
        self.connection = duckdb.connect()
        for name, (_, frame) in tables.items():
            self.connection.register("frame", frame)
            self.connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM frame')
            self.connection.unregister("frame")

    def close(self) -> None:
        self.session.close()
        self.connection.close()

    def difference(self, sql: str, exactly: str = "") -> str:
        """Return in what an answer differs from DuckDB's to the same statement, or to another; "".

        Rows are compared in their order where the statement has ORDER BY. A group without rows is
        in no table of DuckDB, and one without a key in no answer: tests leave both out.
        """
        answer = self.session.query(sql, rho=RHO)
        frame = answer.to_frame()
        shown = [name for name in frame.columns if not name.endswith(("_low", "_high"))]
        told = [tuple(map(plain, row)) for row in frame[shown].itertuples(index=False)]
        true = [
            tuple(map(plain, row)) for row in self.connection.execute(exactly or sql).fetchall()
        ]
        if "ORDER BY" not in sql.upper():
            told, true = (sorted(rows, key=str) for rows in (told, true))
        alike = len(told) == len(true) and all(map(_near, told, true))
        return "" if alike else f"{told} is not {true}"


def plain(value: Any) -> Any:
    """Return a value as text or number; None where it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()[:10]
    return value if isinstance(value, str) else float(value)


def _near(told: tuple[Any, ...], true: tuple[Any, ...]) -> bool:
    return len(told) == len(true) and all(
        one == other
        or (
            isinstance(one, float)
            and isinstance(other, float)
            and abs(one - other) <= 1e-3 * max(1.0, abs(other))
        )
        for one, other in zip(told, true, strict=True)
    )
