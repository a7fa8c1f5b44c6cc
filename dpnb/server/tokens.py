"""A file of analysts with the hashes of their tokens. The file never contains a token."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
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
    highest,
    read_privilege,
    refused,
)

TOKEN = re.compile(r"dpnb_[0-9a-f]{12}_[A-Za-z0-9_-]{20,}")
"""Pattern of a token, to notice one in the wrong place."""
_SERVICE = re.compile(r"[0-9a-f]{12}")
_HASH = re.compile(r"[0-9a-f]{64}")
_BYTES = 32
log = logging.getLogger("dpnb.server")


@dataclass(frozen=True, slots=True)
class Entry:
    """One analyst in a token file.

    Attributes
    ----------
    name : str
    privilege : tuple
        As it stands in the file. An analyst whose privilege is not usable is kept out.
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
    privilege: tuple[Any, ...]
    hash: str = field(repr=False)
    created: str
    expires: str | None
    revoked: bool

    def valid(self, today: datetime.date) -> bool:
        """Return whether the token is accepted, if it is not revoked."""
        expired = self.expires is not None and self.expires < today.isoformat()
        return not (expired or self.obstacle)

    @property
    def obstacle(self) -> str:
        """Why the analyst is kept out, whatever the token; '' if the privilege is usable."""
        try:
            read_privilege(self.privilege)
        except RequestError as error:
            return str(error)
        return ""

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

    If the file is missing, or others may read or write it, no token is accepted. If it is damaged,
    the tokens that it held, and those that can still be read in it, stay in force until it is
    restored; what can be read of it still revokes. A token that this object once saw revoked,
    renewed or removed is never accepted again, whatever copy of the file is put back.

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
        self._service = ""
        self._entries: tuple[Entry, ...] = ()
        self._withdrawn: set[str] = set()
        self._failure: RequestError | None = None
        self._take(_read(self.path))

    @property
    def top(self) -> int:
        """The highest privilege of any analyst whose token is accepted today; 0 if there is none."""
        return max((highest(analyst.privilege) for analyst in self.known()), default=0)

    def known(self) -> Sequence[Analyst]:
        """Return the analysts whose tokens are accepted today."""
        today = _today()
        return [entry.analyst for entry in self._current() if self._accepts(entry, today)]

    async def identify(self, headers: Headers) -> Analyst:
        """Return the analyst who sends this token.

        Every token is treated alike: one hash, and one comparison with each entry in constant time.
        Only then is it decided whether it is unknown, foreign, expired or revoked, and the refusal
        does not say which. A token of another service is foreign, even if that service's entry was
        copied into this file.
        """
        token = bearer(headers)
        digest, entries, today = _hash(token), self._current(), _today()
        own = token.startswith(_prefix(self._service))
        sender: Analyst | None = None
        for entry in entries:
            same = hmac.compare_digest(digest, entry.hash)
            if self._accepts(entry, today) & own & same:
                sender = entry.analyst
        if sender is None:
            raise refused()
        return sender

    def ready(self) -> bool:
        """Return whether the file can be used as it is now; if not, the log says why."""
        self._current()
        return self._failure is None

    def _accepts(self, entry: Entry, today: datetime.date) -> bool:
        return entry.valid(today) and entry.hash not in self._withdrawn

    def _current(self) -> tuple[Entry, ...]:
        """Return the entries that are in force; note once what is wrong with the file."""
        mark = self._stamp()
        if mark == self._mark:
            return self._entries
        self._mark, before = mark, self._failure
        try:
            self._take(_read(self.path))
            self._failure = None
        except _DamagedError as error:
            self._failure = error
            read = {entry.name: entry for entry in error.entries}
            held = {entry.name: entry for entry in self._entries}
            self._replace(tuple((held | read).values()))
            note = "The tokens that it held stay in force."
        except RequestError as error:
            self._failure = error
            self._entries = ()
            note = "No token is accepted."
        if self._failure is None:
            if before is not None:
                log.info("the token file %s can be used again", self.path)
        elif before is None or str(before) != str(self._failure):
            log.error("%s %s", self._failure, note)
        return self._entries

    def _take(self, content: _Content) -> None:
        self._service = content.service
        for entry in content.entries:
            if entry.obstacle:
                log.error("%s is kept out: %s", entry.name, entry.obstacle)
        self._replace(content.entries)

    def _replace(self, entries: tuple[Entry, ...]) -> None:
        """Put entries in force; tokens that they no longer have, or revoke, are withdrawn."""
        revoked = {entry.hash for entry in entries if entry.revoked}
        kept = {entry.hash for entry in entries} - revoked
        self._withdrawn |= revoked | ({entry.hash for entry in self._entries} - kept)
        self._entries = entries

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


def set_privilege(path: Path, name: str, privilege: Sequence[int]) -> None:
    """Give an analyst other privileges; the token stays."""
    read_privilege(privilege)
    with _changing(path) as file:
        content = _read(file)
        _write(file, _with(content, replace(_find(content, name), privilege=tuple(privilege))))


def remove(path: Path, name: str) -> None:
    """Remove an analyst and the token; what the ledger says of the analyst stays."""
    with _changing(path) as file:
        content = _read(file)
        gone = _find(content, name)
        left = tuple(entry for entry in content.entries if entry is not gone)
        _write(file, replace(content, entries=left))


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


class _DamagedError(RequestError):
    """A token file whose content is damaged, with the entries that can be read all the same."""

    def __init__(self, path: Path, what: str, entries: Sequence[Entry] = ()) -> None:
        super().__init__(f"the token file {path} {what}", "Restore it, or start a new one.")
        self.entries = entries


def _refuse(path: Path, what: str, hint: str) -> NoReturn:
    raise RequestError(f"the token file {path} {what}", hint) from None


def _read(path: Path) -> _Content:
    """Return the content of a token file.

    Raises
    ------
    RequestError
        If the file is missing, unreadable, damaged, or open to other users.
    """
    data: Any = None
    try:
        mode = path.stat().st_mode
        text = path.read_bytes()
    except FileNotFoundError:
        _refuse(path, "does not exist", "Run dpnb analyst add NAME --privilege 4.")
    except OSError:
        raise _DamagedError(path, "cannot be read") from None
    if os.name == "posix" and mode & 0o077:
        _refuse(path, "can be read by other users", f"Run chmod 600 {path}.")
    with contextlib.suppress(ValueError, RecursionError):
        data = json.loads(text.decode("utf-8"))
    if not isinstance(data, Mapping):
        raise _DamagedError(path, "cannot be read")
    service, records = data.get("service"), data.get("analysts")
    read = [_entry(record) for record in records] if isinstance(records, list) else [None]
    entries = tuple(entry for entry in read if entry is not None)
    if (
        not isinstance(service, str)
        or not _SERVICE.fullmatch(service)
        or len({entry.name for entry in entries}) != len(read)
    ):
        # of two entries with one name, the one that revokes counts
        raise _DamagedError(path, "is damaged", sorted(entries, key=lambda entry: entry.revoked))
    return _Content(service, entries)


def _entry(data: Any) -> Entry | None:
    """Return an entry of the file; None if it is damaged."""
    try:
        levels = data["privilege"]
        listed = tuple(levels) if isinstance(levels, list) else (levels,)
        entry = Entry(**{**data, "privilege": listed})
        check_name(entry.name)
        if not _HASH.fullmatch(entry.hash) or not isinstance(entry.revoked, bool):
            return None
        for day in (entry.created, entry.expires):
            if day is not None and datetime.date.fromisoformat(day).isoformat() != day:
                return None
    except (LookupError, TypeError, ValueError, RequestError):
        return None
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
        _refuse(path, "cannot be written", "Check its folder.")
