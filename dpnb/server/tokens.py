"""A file of analysts with the hashes of their tokens. The file never contains a token."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from dpnb.errors import RequestError, given
from dpnb.ledger.accounts import check_name
from dpnb.ledger.locks import hold
from dpnb.server.auth import (
    Analyst,
    Headers,
    bearer,
    read_privilege,
    refused,
)

TOKEN = re.compile(r"dpnb_[0-9a-f]{12}_[A-Za-z0-9_-]{20,}")
"""Pattern of a token, to notice one in the wrong place."""
_SERVICE = re.compile(r"[0-9a-f]{12}")
_HASH = re.compile(r"[0-9a-f]{64}")
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """One analyst in a token file.

    Attributes
    ----------
    name : str
    privilege : tuple of int
    hash : str
        SHA-256 of the token. One fast hash is enough: a token has 256 random bits, so it cannot be
        guessed, unlike a password. The hash covers the service's id, which is part of the token.
    created : str
        Day on which the token was created.
    expires : str or None
        Last day on which the token is accepted, in UTC.
    revoked : bool
    """

    name: str
    privilege: tuple[int, ...]
    hash: str = field(repr=False)
    created: str
    expires: str | None
    revoked: bool

    def valid(self, today: datetime.date) -> bool:
        """Return whether the token is accepted."""
        expired = self.expires is not None and self.expires < today.isoformat()
        return not (self.revoked or expired)

    @property
    def analyst(self) -> Analyst:
        """The analyst of this entry."""
        return Analyst(self.name, read_privilege(self.privilege))


@dataclass(frozen=True, slots=True)
class _Content:
    service: str
    entries: tuple[Entry, ...]


class TokenFile:
    """A file of analysts and the hashes of their tokens, mode 0600; read again when it changes.

    If the file cannot be read, or others may read or write it, no token is accepted.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    RequestError
        If there is no usable file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._mark = self._stamp()
        self._content: _Content | None = _read(self.path)

    def known(self) -> Sequence[Analyst]:
        """Return the analysts whose tokens are accepted today."""
        content, today = self._current(), _today()
        return [] if content is None else [e.analyst for e in content.entries if e.valid(today)]

    async def identify(self, headers: Headers) -> Analyst:
        """Return the analyst who sends this token.

        Every token is treated alike: one hash, and one comparison with each entry in constant time.
        Only then is it decided whether it is unknown, foreign, expired or revoked, and the refusal
        does not say which. A token of another service is foreign, even if that service's entry was
        copied into this file.
        """
        token = bearer(headers)
        digest, content, today = _hash(token), self._current(), _today()
        own = content is not None and token.startswith(_prefix(content.service))
        sender: Analyst | None = None
        for entry in () if content is None else content.entries:
            same = hmac.compare_digest(digest, entry.hash)
            if entry.valid(today) & own & same:
                sender = entry.analyst
        if sender is None:
            raise refused()
        return sender

    def _current(self) -> _Content | None:
        """Return the current content of the file; None if it is broken."""
        mark = self._stamp()
        if mark != self._mark:
            self._mark = mark
            try:
                self._content = _read(self.path)
            except RequestError:
                self._content = None
        return self._content

    def _stamp(self) -> tuple[int, ...]:
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode

    def __repr__(self) -> str:
        return f"TokenFile({str(self.path)!r})"


def add(
    path: Path, name: str, privilege: Sequence[int], expires: str | None = None
) -> str:  # fmt: skip
    """Add an analyst, and return the token, which is stored nowhere.

    Raises
    ------
    RequestError
        If the analyst already has an entry, and for an unusable name, privilege or day.
    """
    with _changing(path) as file:
        content = _read(file) if file.exists() else _Content(secrets.token_hex(6), ())
        if any(entry.name == name for entry in content.entries):
            raise RequestError(
                f"{given(name)} has a token already",
                f"Run dpnb analyst renew {name} for a new one.",
            )
        read_privilege(privilege)
        token = _token(content.service)
        entry = Entry(
            check_name(name), tuple(privilege), _hash(token), _today().isoformat(), _day(expires),
            False,
        )  # fmt: skip
        _write(file, replace(content, entries=(*content.entries, entry)))
    return token


def renew(path: Path, name: str, expires: str | None = None) -> str:
    """Return a new token for an analyst; the old one is no longer accepted."""
    with _changing(path) as file:
        content = _read(file)
        token = _token(content.service)
        new_entry = replace(
            _find(content, name), hash=_hash(token), created=_today().isoformat(),
            expires=_day(expires), revoked=False,
        )  # fmt: skip
        _write(file, _with(content, new_entry))
    return token


def revoke(path: Path, name: str) -> None:
    """Revoke an analyst's token."""
    with _changing(path) as file:
        content = _read(file)
        _write(file, _with(content, replace(_find(content, name), revoked=True)))


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[Path]:
    """Lock a token file, so that no change is lost; yield its real path."""
    file = path.resolve()
    try:
        descriptor = hold(file.with_name(f".{file.name}.lock"))
    except OSError:
        raise RequestError("the token file cannot be written", "Check its folder.") from None
    try:
        yield file
    finally:
        os.close(descriptor)


def entries(path: Path) -> tuple[Entry, ...]:
    """Return the analysts of a token file."""
    return _read(path).entries


def _prefix(service: str) -> str:
    return f"dpnb_{service}_"


def _token(service: str) -> str:
    return _prefix(service) + secrets.token_urlsafe(_BYTES)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _day(text: str | None) -> str | None:
    """Check and return the last day of a token."""
    if text is None:
        return None
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise RequestError(f"{given(text)} is not a day", "Write --expires 2027-01-31.") from None


def _find(content: _Content, name: str) -> Entry:
    for entry in content.entries:
        if entry.name == name:
            return entry
    raise RequestError(f"there is no analyst {given(name)}", "See dpnb analyst list.")


def _with(content: _Content, new_entry: Entry) -> _Content:
    new_entries = (
        new_entry if entry.name == new_entry.name else entry for entry in content.entries
    )
    return replace(content, entries=tuple(new_entries))


def _refuse(path: Path, what: str, hint: str) -> NoReturn:
    raise RequestError(f"the token file {what}", hint) from None


def _read(path: Path) -> _Content:
    """Return the content of a token file.

    Raises
    ------
    RequestError
        If the file is missing, unreadable, damaged, or open to other users.
    """
    try:
        mode = path.stat().st_mode
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        _refuse(path, f"{path} does not exist", "Run dpnb analyst add NAME --privilege 4.")
    except (OSError, ValueError, RecursionError):
        _refuse(path, f"{path} cannot be read", "Restore it, or start a new one.")
    if os.name == "posix" and mode & 0o077:
        _refuse(path, f"{path} can be read by other users", f"Run chmod 600 {path}.")
    try:
        service, records = data["service"], data["analysts"]
        all_entries = tuple(_entry(record) for record in records)
        intact = _SERVICE.fullmatch(service) is not None and len(
            {e.name for e in all_entries}
        ) == len(all_entries)
    except (LookupError, TypeError, ValueError, RequestError):
        intact = False
    if not intact:
        _refuse(path, f"{path} is damaged", "Restore it, or start a new one.")
    return _Content(service, all_entries)


def _entry(data: dict[str, Any]) -> Entry:
    entry = Entry(**{**data, "privilege": tuple(data["privilege"])})
    check_name(entry.name)
    read_privilege(entry.privilege)
    if not _HASH.fullmatch(entry.hash) or not isinstance(entry.revoked, bool):
        raise ValueError
    for day in (entry.created, entry.expires):
        if day is not None and datetime.date.fromisoformat(day).isoformat() != day:
            raise ValueError
    return entry


def _write(path: Path, content: _Content) -> None:
    """Replace a token file as a whole."""
    data = {"service": content.service, "analysts": [asdict(entry) for entry in content.entries]}
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # created with its final mode, so that nobody can read it in between
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(data, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        _refuse(path, f"{path} cannot be written", "Check its folder.")
