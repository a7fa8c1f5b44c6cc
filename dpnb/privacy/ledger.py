"""The durable, append-only record of charges and releases. The budget is what it says.

One entry is one transaction: the charge of a request and every number released for it lie in the
same row, so neither can exist without the other. Entries form a hash chain, which detects damage and
careless edits (not someone who recomputes the chain: the file is as secret as the data).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from dpnb.errors import LedgerError

FORMAT = 1
_CREATE = """
CREATE TABLE IF NOT EXISTS entry (
    seq INTEGER PRIMARY KEY CHECK (seq > 0),
    body TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT
"""
_GENESIS = hashlib.sha256(b"dpnb ledger").hexdigest()


def _digest(previous: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


class Ledger:
    """An append-only list of JSON entries in one SQLite file, or in memory.

    Rollback journal with ``synchronous=EXTRA``: a commit survives a crash of the process and of the
    machine. Not WAL: SQLite before 3.51.3 can corrupt it in a rare race, and it does not work on
    network file systems, where notebook homes often lie.

    Parameters
    ----------
    path : str or Path, optional
        The file, created with mode 0600. None keeps the ledger in memory.
    anchor : str or Path, optional
        A file outside the ledger that holds the last sequence number and hash. With it a restored
        older copy of the ledger is refused; without it that is not detected.
    timeout : float
        Seconds to wait for another kernel's transaction.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        anchor: str | Path | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.path = None if path is None else Path(path)
        self.anchor = None if anchor is None else Path(anchor)
        self._lock = threading.RLock()
        self._sequence, self._hash = 0, _GENESIS
        if self.path is not None:
            self._touch(self.path)
        with self._failures():
            self._connection = sqlite3.connect(
                ":memory:" if self.path is None else str(self.path.resolve()),
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
        self._closer = weakref.finalize(self, self._connection.close)

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
        raise LedgerError(what, mend, str(self.path or "in memory"))

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                what = "the ledger is in use by another kernel"
                mend = "Try again; nothing was charged."
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
        raise LedgerError(what, mend, str(self.path or "in memory")) from None

    @property
    def sequence(self) -> int:
        """The number of the last entry read."""
        return self._sequence

    def read_new(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield number and content of the entries appended since the last read.

        An entry counts as read when the next one is asked for, so one whose reader fails comes again.
        """
        with self._lock:
            with self._failures():
                rows = self._connection.execute(
                    "SELECT seq, body, hash FROM entry WHERE seq > ? ORDER BY seq",
                    (self._sequence,),
                ).fetchall()
            for sequence, body, stored in rows:
                digest = _digest(self._hash, body)
                if sequence != self._sequence + 1 or digest != stored:
                    self._refuse(
                        f"entry {sequence} of the ledger was changed after it was written",
                        "Restore the newest unchanged copy.",
                    )
                try:
                    entry = json.loads(body)
                except ValueError:
                    self._refuse(
                        f"entry {sequence} of the ledger cannot be read",
                        "Restore the newest unchanged copy.",
                    )
                yield sequence, entry
                self._sequence, self._hash = sequence, digest

    def rewind(self) -> None:
        """Forget what was read, so that the next read starts from the first entry."""
        self._sequence, self._hash = 0, _GENESIS

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Hold the only right to write; yields ``append``.

        The block first reads what others wrote (:meth:`read_new`), then appends. Everything is
        committed when the block ends, and nothing when it raises. What was appended is read back by
        the next :meth:`read_new`, like the entries of other kernels.
        """
        with self._lock:
            with self._failures():
                self._connection.execute("BEGIN IMMEDIATE")
            pending: list[str] = []
            self._check_place()

            def append(entry: Mapping[str, Any]) -> None:
                body = json.dumps(entry, sort_keys=True, ensure_ascii=False, allow_nan=False)
                digest = _digest(pending[-1] if pending else self._hash, body)
                pending.append(digest)
                with self._failures():
                    self._connection.execute(
                        "INSERT INTO entry VALUES (?, ?, ?)",
                        (self._sequence + len(pending), body, digest),
                    )

            try:
                yield append
                with self._failures():
                    self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            if pending:
                self._write_anchor(self._sequence + len(pending), pending[-1])

    def _check_place(self) -> None:
        """Refuse a file that is no longer the one that was read."""
        with self._failures():
            row = self._connection.execute(
                "SELECT hash FROM entry WHERE seq = ?", (self._sequence,)
            ).fetchone()
        if self._sequence and (row is None or row[0] != self._hash):
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            self._refuse("the ledger's file was replaced", "Restore it and open the session again.")

    # the anchor: a monotone counter outside the ledger

    def check_anchor(self) -> None:
        """Refuse a ledger that is older than its anchor. Call after reading all entries."""
        if self.anchor is None:
            return
        sequence, digest = self._read_anchor(self.anchor)
        with self._failures():
            row = self._connection.execute(
                "SELECT hash FROM entry WHERE seq = ?", (sequence,)
            ).fetchone()
        if sequence and (row is None or row[0] != digest):
            self._refuse(
                "the ledger is older than its anchor: spent budget is missing from it",
                "Restore the newest copy.",
            )
        self._write_anchor(self._sequence, self._hash)

    def _read_anchor(self, anchor: Path) -> tuple[int, str]:
        if not anchor.exists():
            return 0, _GENESIS
        try:
            word, digest = anchor.read_text("ascii").split()
            return int(word), digest
        except (OSError, ValueError):
            self._refuse("the anchor cannot be read", f"Check {anchor}.")

    def _write_anchor(self, sequence: int, digest: str) -> None:
        # after the commit: a crash in between leaves an anchor that is behind, never one ahead
        if self.anchor is None or self._read_anchor(self.anchor)[0] > sequence:
            return
        draft = self.anchor.with_name(f"{self.anchor.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            draft.write_text(f"{sequence} {digest}\n", "ascii")
            draft.replace(self.anchor)
        except OSError:
            self._refuse(
                "the anchor cannot be written",
                f"Check {self.anchor}. What was asked is in the ledger; asking again is free.",
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closer()

    def __repr__(self) -> str:
        place = "in memory" if self.path is None else str(self.path)
        return f"Ledger({place}, {self._sequence} entries)"

    def __reduce__(self) -> Any:
        raise TypeError("a Ledger is as secret as the data and cannot be pickled")
