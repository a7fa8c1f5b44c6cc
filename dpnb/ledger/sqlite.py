"""The entries of a ledger in one SQLite file, or in memory."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from dpnb.errors import LedgerError

_TABLE = """CREATE TABLE entry (
    seq INTEGER PRIMARY KEY CHECK (seq > 0),
    body TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT"""
_INSERT = """
INSERT INTO entry SELECT ?, ?, ? WHERE coalesce(
    (SELECT seq = ? AND hash = ? FROM entry ORDER BY seq DESC LIMIT 1), ? = 0
)
"""

_PUT_BACK = "Put it back and open the session again; nothing was charged."
_ROOM = 2**20
"""Bytes that must be free on the disk: a few entries, with the journal that they need."""


def _identity(file: Path) -> tuple[int, int] | None:
    """Return what distinguishes a file from another one of the same name; None if it is gone."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
        self._file = None if path is None else self._found(path)
        with self._failures():
            self._connection = sqlite3.connect(
                ":memory:" if self._file is None else str(self._file),
                isolation_level=None,
                timeout=timeout,
                check_same_thread=False,
            )
            self._opened = None if self._file is None else _identity(self._file)
            try:
                self._connection.execute("PRAGMA synchronous=EXTRA")
                self._connection.execute("PRAGMA trusted_schema=OFF")
                self._filled = self._is_filled()
                if self._filled:
                    self._close_to_others()
            except BaseException:
                self._connection.close()
                raise

    def _found(self, path: Path) -> Path:
        """Return the real path of the file; create a missing one, but never open an existing one.

        Closing any descriptor of a file gives up all the locks that the process holds on it,
        including those of another connection that is just writing.
        """
        try:
            file = path.resolve()
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
                try:
                    # whatever the umask
                    os.fchmod(descriptor, 0o600)
                finally:
                    os.close(descriptor)
            if not file.is_file():
                raise OSError
            if not os.access(file, os.R_OK | os.W_OK):
                raise PermissionError
        except PermissionError:
            self._refuse("the ledger cannot be written", "Check the file's permissions.")
        except (OSError, RuntimeError):
            # resolve() raises RuntimeError for circular links
            self._refuse(
                "the ledger cannot be created", "Check that the folder exists, and name a file."
            )
        return file

    def _close_to_others(self) -> None:
        """Let nobody but the owner read the file; only for a file that is known to be a ledger."""
        if self._file is None:
            return
        try:
            self._file.chmod(0o600)
        except OSError:
            self._refuse("the ledger cannot be written", "Check the file's permissions and owner.")

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise LedgerError(what, hint, self.place) from None

    @contextlib.contextmanager
    def _failures(self, again: str = "Try again; nothing was charged.") -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                what, hint = "the ledger is in use by another kernel", again
            elif getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_DBMOVED":
                what = self._moved()
                hint = _PUT_BACK
            elif "readonly" in text:
                what, hint = "the ledger cannot be written", "Check the file's permissions."
            elif "full" in text:
                what, hint = "the disk is full", "Make room; nothing was charged."
            else:
                what, hint = "the ledger cannot be used", "Check that it is a dpnb ledger."
        except sqlite3.ProgrammingError:
            what, hint = "the session is closed", "Open it again."
        except sqlite3.DatabaseError:
            what, hint = "the file is damaged or not a ledger", "Restore the newest copy of it."
        else:
            return
        self._refuse(what, hint)

    def _moved(self) -> str:
        """Return what happened to the file since it was opened."""
        present = self._file is not None and self._file.exists()
        what = "was replaced by another one" if present else "was deleted or moved away"
        return f"the ledger's file {what} while it was in use"

    def _is_filled(self) -> bool:
        """Return whether there is a table of entries; refuse a file that holds anything else.

        This writes nothing: if the table had lost its name, a new one would begin with nothing
        spent.
        """
        # in this order, as another kernel may create the table in between
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        schema = self._connection.execute("SELECT sql FROM sqlite_master").fetchall()
        # a kernel that is writing to an empty file already sees its first page
        if schema != [(_TABLE,)] and (schema or pages > self._writing):
            self._refuse("the file is damaged or not a ledger", "Restore the newest copy of it.")
        return bool(schema)

    def _rows(self, statement: str, sequence: int) -> list[Any]:
        self._filled = self._filled or self._is_filled()
        return self._connection.execute(statement, (sequence,)).fetchall() if self._filled else []

    def read(self, sequence: int) -> list[tuple[int, str, str]]:
        """Return the rows after this number, oldest first."""
        # the read after a commit must not say that nothing was charged
        again = () if self._writing else ("Try again; what was paid for is free.",)
        with self._failures(*again):
            return self._rows(
                "SELECT seq, body, hash FROM entry WHERE seq > ? ORDER BY seq", sequence
            )

    def hash(self, sequence: int) -> str | None:
        """Return the hash of an entry, or None if the ledger does not have it."""
        with self._failures():
            rows = self._rows("SELECT hash FROM entry WHERE seq = ?", sequence)
        return str(rows[0][0]) if rows else None

    def begin(self) -> None:
        """Take the exclusive right to write; the first call creates the table."""
        with self._failures():
            self._connection.execute("PRAGMA journal_mode=DELETE")
            self._connection.execute("BEGIN IMMEDIATE")
            self._writing = True
            try:
                if not self._is_filled():
                    # an empty file becomes a ledger here
                    self._close_to_others()
                    self._connection.execute(_TABLE)
            except BaseException:
                self.rollback()
                raise

    def insert(self, sequence: int, body: str, digest: str, previous: str) -> bool:
        """Add a row; return False if the last row is not the one before with hash ``previous``."""
        values = sequence, body, digest, sequence - 1, previous, sequence - 1
        with self._failures():
            return self._connection.execute(_INSERT, values).rowcount == 1

    def commit(self) -> None:
        """Make the inserted rows durable."""
        with self._failures():
            self._connection.execute("COMMIT")
        self._writing = False

    def rollback(self) -> None:
        """Undo the inserts and release the right to write; never fails."""
        # this also undoes a table that was just created
        self._writing = self._filled = False
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def check(self) -> None:
        """Refuse a file that was moved or replaced since it was opened, and a disk without room."""
        if self._file is None:
            return
        if _identity(self._file) != self._opened:
            self._refuse(self._moved(), _PUT_BACK)
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._file.parent)
            if disk.f_bavail * disk.f_frsize < _ROOM:
                self._refuse("the disk is full", "Make room; nothing was charged.")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
