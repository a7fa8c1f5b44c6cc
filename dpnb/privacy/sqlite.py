"""The entries of a ledger in one SQLite file, or in memory."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from dpnb.errors import LedgerError

_CREATE = """
CREATE TABLE IF NOT EXISTS entry (
    seq INTEGER PRIMARY KEY CHECK (seq > 0),
    body TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT
"""
_INSERT = """
INSERT INTO entry SELECT ?, ?, ? WHERE coalesce(
    (SELECT seq = ? AND hash = ? FROM entry ORDER BY seq DESC LIMIT 1), ? = 0
)
"""


class SQLiteStorage:
    """A file of mode 0600 that several kernels of one machine may share; see ``Storage``.

    Rollback journal with ``synchronous=EXTRA``: a commit survives a crash of the process and of the
    machine. Not WAL: SQLite before 3.51.3 can corrupt it in a rare race, and it does not work on
    network file systems, where notebook homes often lie.
    """

    noun = "file"

    def __init__(self, path: Path | None, timeout: float) -> None:
        self.place = "in memory" if path is None else str(path)
        self.kept = path is not None
        self._writing = False
        if path is not None:
            self._touch(path)
        with self._failures():
            self._connection = sqlite3.connect(
                ":memory:" if path is None else str(path.resolve()),
                isolation_level=None,
                timeout=timeout,
                check_same_thread=False,
            )
            try:
                self._connection.execute("PRAGMA journal_mode=DELETE")
                self._connection.execute("PRAGMA synchronous=EXTRA")
                self._connection.execute("PRAGMA trusted_schema=OFF")
                self._connection.execute(_CREATE)
            except BaseException:
                self._connection.close()
                raise

    def _touch(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
            finally:
                os.close(descriptor)
        except PermissionError:
            self._refuse("the ledger cannot be written", "Check the file's permissions.")
        except OSError:
            self._refuse("the ledger cannot be created", "Check that the folder exists.")

    def _refuse(self, what: str, mend: str) -> NoReturn:
        raise LedgerError(what, mend, self.place) from None

    @contextlib.contextmanager
    def _failures(self, again: str = "Try again; nothing was charged.") -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                what, mend = "the ledger is in use by another kernel", again
            elif "readonly" in text:
                what, mend = "the ledger cannot be written", "Check the file's permissions."
            elif "full" in text:
                what, mend = "the disk is full", "Make room; nothing was charged."
            else:
                what, mend = "the ledger cannot be used", "Check that it is a dpnb ledger."
        except sqlite3.ProgrammingError:
            what, mend = "the session is closed", "Open it again."
        except sqlite3.DatabaseError:
            what, mend = "the ledger is damaged or no ledger", "Restore the newest copy of it."
        else:
            return
        self._refuse(what, mend)

    def read(self, sequence: int) -> list[tuple[int, str, str]]:
        """Return the rows after this number, oldest first."""
        # the read after a commit must not say that nothing was charged
        again = () if self._writing else ("Try again; what was paid for is free.",)
        with self._failures(*again):
            return self._connection.execute(
                "SELECT seq, body, hash FROM entry WHERE seq > ? ORDER BY seq", (sequence,)
            ).fetchall()

    def hash(self, sequence: int) -> str | None:
        """Return the hash of one row, None when there is no such row."""
        with self._failures():
            row = self._connection.execute(
                "SELECT hash FROM entry WHERE seq = ?", (sequence,)
            ).fetchone()
        return None if row is None else str(row[0])

    def begin(self) -> None:
        """Take the only right to write."""
        with self._failures():
            self._connection.execute("BEGIN IMMEDIATE")
        self._writing = True

    def insert(self, sequence: int, body: str, digest: str, previous: str) -> bool:
        """Add a row; False when the last one is not the one before with this hash."""
        values = sequence, body, digest, sequence - 1, previous, sequence - 1
        with self._failures():
            return self._connection.execute(_INSERT, values).rowcount == 1

    def commit(self) -> None:
        """Make what was inserted durable."""
        with self._failures():
            self._connection.execute("COMMIT")
        self._writing = False

    def rollback(self) -> None:
        """Undo what was inserted and give the right back; never fails."""
        self._writing = False
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
