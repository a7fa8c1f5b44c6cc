"""Where a test's ledger lies: a file, or a schema of a PostgreSQL server."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from tests.kit.postgres import Server

Row = tuple[int, str, str]


class FileHome:
    """A ledger file."""

    def __init__(self, path: Path) -> None:
        self.address = path
        self.shown = str(path)

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Do something to the table ``entry`` behind the ledger's back."""
        connection = sqlite3.connect(self.address)
        with connection:
            found = connection.execute(statement, values).fetchall()
        connection.close()
        return found

    def copy(self) -> Path:
        """A copy, to be restored later."""
        return Path(shutil.copy(self.address, self.address.with_name("older")))

    def restore(self, older: Path) -> None:
        shutil.copy(older, self.address)


class PostgresHome:
    """A schema of its own."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.schema = server.schema()
        self.address = server.url(schema=self.schema)
        place = f"postgresql://127.0.0.1:{server.port}/postgres"
        self.shown = f"{place}?options=-csearch_path%3D{self.schema}"

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Do something to the table behind the ledger's back, past the trigger."""
        statement = re.sub(r"\bentry\b", "dpnb_entry", statement)
        return self.server.execute(
            statement.replace("?", "%s"), self.schema, values=values, triggers=False
        )

    def copy(self) -> list[Row]:
        """A copy, to be restored later."""
        return self.run("SELECT seq, body, hash FROM entry")

    def restore(self, older: list[Row]) -> None:
        self.run("DELETE FROM entry")
        for row in older:
            self.run("INSERT INTO entry VALUES (?, ?, ?)", *row)
