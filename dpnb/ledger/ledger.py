"""The durable, append-only record of charges and releases: the authority on the budget.

One entry is one transaction: the charge of a request and every number released for it are in the
same row, so neither can exist without the other. Entries form a hash chain, which detects damage
and careless edits (not someone who recomputes the chain: the ledger is as secret as the data).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol

from dpnb.errors import LedgerError, given
from dpnb.ledger.locks import hold
from dpnb.ledger.sqlite import SQLiteStorage

FORMAT = 5
_GENESIS = hashlib.sha256(b"dpnb ledger").hexdigest()
_ANCHOR = re.compile(r"([0-9]{1,18}) ([0-9a-f]{64})\n")


def _digest(previous: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


class Storage(Protocol):
    """A place for entries: rows of a number, a body and a hash.

    Every failure is a ``LedgerError`` without a cause, and says "nothing was charged" only if that
    is certain.
    """

    @property
    def place(self) -> str:
        """The name in errors, without a password."""

    @property
    def noun(self) -> str:
        """The kind of storage: a file, a database."""

    @property
    def kept(self) -> bool:
        """Whether it outlives the process."""

    def read(self, sequence: int) -> list[tuple[int, str, str]]:
        """Return the rows after this number, oldest first."""

    def hash(self, sequence: int) -> str | None:
        """Return the hash of an entry, or None if the ledger does not have it."""

    def begin(self) -> None:
        """Take the exclusive right to write; later reads see all that was committed before."""

    def insert(self, sequence: int, body: str, digest: str, previous: str) -> bool:
        """Add a row; return False if the last row is not the one before with hash ``previous``."""

    def commit(self) -> None:
        """Make the inserted rows durable and release the right to write."""

    def rollback(self) -> None:
        """Undo the inserts and release the right to write; never fails."""

    def check(self) -> None:
        """Refuse a storage that is gone, is another one by now, or has no room left."""

    def close(self) -> None:
        """Release all resources."""


def _storage(place: str | Path | None, timeout: float) -> Storage:
    """Return the storage for a ledger's place."""
    scheme = re.match(r"(\w[\w+.-]+):/", str(place))
    if scheme is None:
        return SQLiteStorage(None if place is None else Path(place), timeout)
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        try:
            from dpnb.ledger.postgres import PostgresStorage
        except ImportError:
            raise LedgerError(
                "a ledger in PostgreSQL needs psycopg", "Run pip install 'dpnb[postgres]'."
            ) from None
        return PostgresStorage(place, timeout)
    # not shown: it may hold a password
    raise LedgerError(
        "the URL of the ledger must start with postgresql://",
        "Write the name of a file, or 'postgresql://user@host/database#schema'.",
    )


def _close(storage: Storage, process: int) -> None:
    # a fork shares the connection: closing it here would also close it for the parent process
    if os.getpid() == process:
        storage.close()


class Ledger:
    """An append-only list of JSON entries in one SQLite file, in PostgreSQL, or in memory.

    Parameters
    ----------
    path : str or Path, optional
        The file, created with mode 0600; or, as a str, the URL of a PostgreSQL database
        (``postgresql://user:password@host/database#schema``) that several service processes share, see
        ``dpnb.ledger.postgres``. None keeps the ledger in memory.
    anchor : str or Path, optional
        A file outside the ledger, with mode 0600, that holds the last sequence number and hash.
        With it, the ledger refuses a restored older copy of itself, and a second copy once the
        first one was charged; without it neither is detected.
    new_anchor : bool
        Begin the anchor of a ledger that already has entries. Otherwise a missing anchor is an
        error for such a ledger, because nothing would show that it is the newest copy.
    timeout : float
        Seconds to wait for another kernel's transaction.

    Attributes
    ----------
    path : Path or None
        The file, if it is one.
    place : str
        The ledger's name in errors, without a password.
    kept : bool
        Whether it outlives the process.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        anchor: str | Path | None = None,
        new_anchor: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self._storage = _storage(path, timeout)
        self._process, self._timeout = os.getpid(), timeout
        self._closer = weakref.finalize(self, _close, self._storage, self._process)
        self.place, self.kept = self._storage.place, self._storage.kept
        file = self._storage.noun == "file"
        self.path = Path(path) if file and path is not None else None
        self.anchor = None if anchor is None else Path(anchor)
        self._lock = threading.RLock()
        self._sequence, self._hash = 0, _GENESIS
        self._anchored, self._writing = -1, False
        self._new_anchor = new_anchor

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise LedgerError(what, hint, self.place) from None

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            self._refuse("the ledger was opened in another process", "Open it in this one.")

    @property
    def sequence(self) -> int:
        """The number of the last entry read."""
        return self._sequence

    def read_new(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield number and content of the entries appended since the last read.

        An entry counts as read when the next one is requested, so if its reader fails it comes
        again. Outside of transactions this ends with an error if the anchor cannot be brought up to
        the last entry read: otherwise a copy of the ledger could later deny what was shown.
        """
        self._check_process()
        with self._lock:
            for sequence, body, stored in self._storage.read(self._sequence):
                digest = _digest(self._hash, body)
                if sequence != self._sequence + 1 or digest != stored:
                    self._refuse(
                        f"entry {sequence} of the ledger was changed after it was written",
                        "Restore the newest unchanged copy.",
                    )
                try:
                    entry = json.loads(body)
                except (ValueError, RecursionError):
                    self._refuse(
                        f"entry {sequence} of the ledger cannot be read",
                        "Restore the newest unchanged copy.",
                    )
                yield sequence, entry
                self._sequence, self._hash = sequence, digest
            if not self._writing:
                self._follow_anchor()

    def rewind(self) -> None:
        """Forget all entries, so that the next read starts from the first one."""
        self._sequence, self._hash = 0, _GENESIS

    def _written(self, entry: Mapping[str, Any]) -> str:
        """Return an entry as text; refuse one that cannot be written, without showing it."""
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            return json.dumps(entry, sort_keys=True, allow_nan=False)
        self._refuse("this entry cannot be written into the ledger", "Nothing was charged.")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Hold the exclusive right to write; yields ``append``.

        The block first reads what others wrote (:meth:`read_new`), then appends. Everything is
        committed when the block ends, and nothing when it raises. The next :meth:`read_new` reads
        back the appended entries, like those of other kernels.
        """
        self._check_process()
        with self._lock, self._anchoring():
            self._storage.begin()
            pending: list[str] = []

            def append(entry: Mapping[str, Any]) -> None:
                body = self._written(entry)
                previous = pending[-1] if pending else self._hash
                pending.append(_digest(previous, body))
                sequence = self._sequence + len(pending)
                if not self._storage.insert(sequence, body, pending[-1], previous):
                    self._refuse(
                        "another process wrote to the ledger meanwhile",
                        "Try again; nothing was charged.",
                    )

            try:
                self._check_place()
                self._writing = True
                yield append
                self._storage.commit()
            except BaseException:
                self._storage.rollback()
                raise
            finally:
                self._writing = False
            last = pending[-1] if pending else self._hash
            self._write_anchor(self._sequence + len(pending), last)

    def _check_place(self) -> None:
        """Refuse a storage that is not the one read before."""
        if self._sequence and self._storage.hash(self._sequence) != self._hash:
            self._refuse(
                f"the ledger's {self._storage.noun} was replaced",
                "Restore it and open the session again.",
            )
        self._refuse_older()

    def check(self) -> None:
        """Raise the error with which the next entry would be refused, as far as that can be known."""
        self._check_process()
        with self._lock:
            self._storage.check()
            self._check_place()

    # the anchor: a monotone counter outside the ledger

    def _follow_anchor(self) -> None:
        """Refuse a ledger that is older than its anchor; update an anchor that is older."""
        if self.anchor is None or self._anchored >= self._sequence:
            return
        self._refuse_older()
        if self._anchored < self._sequence:
            with self._anchoring():
                self._refuse_older()
                self._write_anchor(self._sequence, self._hash)

    @contextlib.contextmanager
    def _anchoring(self) -> Iterator[None]:
        """Hold the lock of all copies of the ledger, from reading the anchor to replacing it."""
        if self.anchor is None:
            yield
            return
        try:
            descriptor = hold(self.anchor.with_name(f"{self.anchor.name}.lock"), self._timeout)
        except TimeoutError:
            self._refuse(
                "the ledger is in use by another kernel", "Try again; nothing was charged."
            )
        except OSError:
            self._refuse("the anchor cannot be written", f"Check {self.anchor}.")
        try:
            yield
        finally:
            os.close(descriptor)

    def _refuse_older(self) -> None:
        if self.anchor is None:
            return
        sequence, digest = self._read_anchor(self.anchor)
        # an anchor is written after its entry is committed, so the entry it names is in the storage
        if sequence and self._storage.hash(sequence) != digest:
            self._refuse(
                "the ledger is older than its anchor: it lacks some spent budget",
                "Restore the newest copy.",
            )
        if sequence:
            self._anchored = sequence

    def _read_anchor(self, anchor: Path) -> tuple[int, str]:
        try:
            match = _ANCHOR.fullmatch(anchor.read_text("ascii"))
        except FileNotFoundError:
            self._refuse_unanchored(anchor)
            return 0, _GENESIS
        except (OSError, ValueError):
            match = None
        if match is None:
            self._refuse("the anchor cannot be read", f"Check {given(str(anchor))}.")
        return int(match[1]), match[2]

    def _refuse_unanchored(self, anchor: Path) -> None:
        """Refuse a ledger with entries but no anchor file, unless the anchor begins now."""
        if not self._new_anchor and self._storage.hash(1) is not None:
            self._refuse(
                f"the ledger has entries, but its anchor {anchor} is missing",
                "Check its path, or restore it. To start a new anchor for this ledger, pass "
                "new_anchor=True.",
            )

    def _write_anchor(self, sequence: int, digest: str) -> None:
        # after the commit: a crash in between leaves an anchor that is behind, never one ahead
        if self.anchor is None or self._anchored >= sequence:
            return
        written = False
        with contextlib.suppress(OSError, LedgerError):
            if self._read_anchor(self.anchor)[0] <= sequence:
                self._replace_anchor(self.anchor, f"{sequence} {digest}\n")
            self._anchored, self._new_anchor = sequence, False
            written = True
        if not written:
            self._refuse(
                "the anchor cannot be written",
                f"Check {self.anchor}. The request is in the ledger; asking again is free.",
            )

    def _replace_anchor(self, anchor: Path, text: str) -> None:
        draft = anchor.with_name(f"{anchor.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123
                # whatever the umask
                os.fchmod(descriptor, 0o600)
                file.write(text)
            draft.replace(anchor)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Close the file or the connection."""
        with self._lock:
            self._closer()

    def __repr__(self) -> str:
        return f"Ledger({self.place}, {self._sequence} entries)"

    def __reduce__(self) -> Any:
        raise TypeError("a Ledger is as secret as the data and cannot be pickled")
