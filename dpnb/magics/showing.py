"""Cells that show what is declared or what a statement costs, in the words of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpnb.errors import SqlError, nearest
from dpnb.results import InfoTable
from dpnb.session import Session


def shown(
    statement: str, session: Session, accuracy: Mapping[str, Any], params: Mapping[str, Any]
) -> Any:
    """Return what DESCRIBE, SHOW and EXPLAIN show, free; None for other statements."""
    # the parser is not needed to load the magics
    from dpnb.sql.commands import command

    asked = command(statement)
    if asked is None:
        return None
    if asked.statement:
        return session.price(asked.statement, params=params, **accuracy)
    return session.tables if asked.table is None else _columns(session.tables, asked.table)


def _columns(tables: InfoTable, name: str) -> InfoTable:
    """Return the lines of one table."""
    rows = tuple(row for row in tables.rows if row[0].casefold() == name.casefold())
    if not rows:
        names = list(dict.fromkeys(row[0] for row in tables.rows))
        raise SqlError(f"unknown table {name!r}", nearest(name, names), text=name)
    return replace(tables, caption=f"Declared columns of {rows[0][0]}", rows=rows)
