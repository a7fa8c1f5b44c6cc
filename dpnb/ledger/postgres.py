"""The entries of a ledger in PostgreSQL, shared by processes on one machine or several."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn
from urllib.parse import quote, unquote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from dpnb.errors import LedgerError

_LOCK = 0x64706E62
"""First half of our advisory locks' keys: the letters dpnb. The second half is the table's oid."""
# every statement names the schema of the ledger: users with other settings must not find another
_SETTINGS = """
SET search_path = pg_catalog;
SET synchronous_commit = on;
SET lock_timeout = {timeout};
SET idle_in_transaction_session_timeout = '5min'
"""
# query the catalog: to_regclass may remember from before the lock that there is no table; what is in
# temporary schemas ends with its session
_HOLDERS = """
SELECT schemaname FROM pg_tables WHERE tablename = 'dpnb_entry' AND schemaname !~ '^pg_'
"""
# read committed: reads after taking the lock see all that was committed before
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({lock}, {which})"
_CREATE = """
CREATE TABLE {table} (
    seq bigint PRIMARY KEY CHECK (seq > 0),
    body text NOT NULL,
    hash text NOT NULL
);
CREATE FUNCTION {trigger}() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$;
CREATE TRIGGER dpnb_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {trigger}()
"""
_INSERT = """
INSERT INTO {table} SELECT %s, %s, %s WHERE coalesce(
    (SELECT seq = %s AND hash = %s FROM {table} ORDER BY seq DESC LIMIT 1), %s = 0
)
"""
_READ = "SELECT seq, body, hash FROM {table} WHERE seq > %s ORDER BY seq"
_HASH = "SELECT hash FROM {table} WHERE seq = %s"
_PATIENCE = {
    # notice a server that vanished silently after a minute, not after hours
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}

_AGAIN = "Try again; nothing was charged."
_FREE = "Try again; what was paid for is free."
_UNKNOWN = "It is unknown whether this was stored. Ask again: if it was, that is free."
_UNREACHABLE = "the ledger cannot be reached"
_WRITE = (
    "the ledger cannot be written",
    "The user needs USAGE on its schema, and SELECT and INSERT on dpnb_entry.",
)
_MAKE = ("the ledger cannot be created", "Name a schema where the user may create tables.")


class PostgresStorage:
    """A table ``dpnb_entry`` in one schema of a PostgreSQL database; see ``Storage``.

    One schema holds one ledger. ``#adult`` at the end of the URL names the schema ``adult``, which
    must exist; ``?options=-csearch_path%3Dadult`` says the same. A URL without a schema opens the
    only ledger of the database and creates none, so that it means the same ledger for every user
    and at any time. The table is created at first use; a trigger refuses to change or remove its
    rows.

    A commit is acknowledged after it was flushed (``synchronous_commit=on``), which needs a server
    with ``fsync=on``. A standby that takes over must be a synchronous one, or entries are lost
    (``anchor`` detects this). A pooler in between must pool sessions, not transactions.

    The ledger is as secret as the data, and nothing is revoked here: superusers, the table's owner,
    members of ``pg_read_all_data`` and whoever reads the backups can read it. Let an owner open it
    once, and grant the services' user no more than ``SELECT, INSERT ON dpnb_entry``. Over a network
    add ``sslmode=verify-full``; the password may be left to ``PGPASSWORD`` or ``~/.pgpass``.

    The next request reopens a lost connection. What the server cannot have committed is reported as
    not charged. If the connection breaks during the commit, nobody knows, and the error says so.
    """

    noun = "database"
    kept = True

    def __init__(self, url: str, timeout: float) -> None:
        url, schema = _without_schema(url)
        parameters = _parameters(url)
        schema = schema or _searched(parameters)
        self.place = _place(parameters, schema)
        milliseconds = sql.Literal(max(1, math.ceil(1000 * timeout)))
        settings = sql.SQL(_SETTINGS).format(timeout=milliseconds)

        # a closure: no attribute that a debugger or a report would print holds the password
        def dial() -> psycopg.Connection:
            connection = psycopg.connect(autocommit=True, prepare_threshold=None, **parameters)
            try:
                connection.execute(settings)
            except BaseException:
                connection.close()
                raise
            return connection

        self._dial = dial
        self._connection: psycopg.Connection | None = None
        self._writing = self._closed = False
        self._connect("Check that the server runs, and the URL's address, user and password.")
        try:
            self._find(schema)
        except BaseException:
            self.close()
            raise

    def _find(self, schema: str | None) -> None:
        """Find the ledger in the schema, or in the only schema that has one; create it if need be."""
        if self._run("SHOW server_encoding").fetchall() != [("UTF8",)]:
            self._refuse("the database does not use UTF-8", "Create it with ENCODING 'UTF8'.")
        holders = self._holders()
        if schema is None:
            if not holders:
                self._refuse(
                    "the URL does not name the schema for the new ledger",
                    "Write postgresql://user@host/database#schema, with a schema that exists.",
                )
            if len(holders) > 1:
                names = ", ".join(f"#{quote(name)}" for name in holders)
                self._refuse(
                    "several schemas of the database hold a ledger",
                    f"Name one of them at the end of the URL: {names}.",
                )
            (schema,) = holders
            self.place += f"#{quote(schema)}"
        self._names = {
            "table": sql.Identifier(schema, "dpnb_entry").as_string(),
            "trigger": sql.Identifier(schema, "dpnb_append_only").as_string(),
        }
        if schema in holders:
            return
        if schema.startswith("pg_"):
            # a temporary schema would take the ledger with it
            self._refuse(*_MAKE)
        self._begin(sql.Literal(0))
        try:
            if schema not in self._holders():
                self._run(_CREATE.format(**self._names), denied=_MAKE)
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def _holders(self) -> list[str]:
        """Return the schemas that hold a ledger, whoever may read it."""
        return sorted(name for (name,) in self._run(_HOLDERS).fetchall())

    def _on_table(self, template: str) -> str:
        """Return a statement with parameters, about the ledger's table."""
        return template.format(table=self._names["table"].replace("%", "%%"))

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise LedgerError(what, hint, self.place) from None

    # the connection, which comes and goes

    def _connect(self, hint: str) -> bool:
        """Ensure a connection outside any transaction; return whether it is a new one."""
        if self._closed:
            self._refuse("the session is closed", "Open it again.")
        connection = self._connection
        if connection is not None:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                return False
            self._drop()
        try:
            self._connection = self._dial()
        except psycopg.Error:
            self._connection = None
        if self._connection is None:
            self._refuse(_UNREACHABLE, hint)
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(
        self,
        statement: sql.Composed | str,
        *values: object,
        again: str = _AGAIN,
        denied: tuple[str, str] = _WRITE,
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement on the open connection; turn PostgreSQL's errors into ours."""
        if self._connection is None:
            self._refuse(_UNREACHABLE, again)
        query = statement.encode() if isinstance(statement, str) else statement
        try:
            return self._connection.execute(query, values or None)
        except psycopg.Error as error:
            code = self._code(error)
        # outside the handler: PostgreSQL's error may quote an entry
        if code is None:
            self._drop()
            self._refuse(_UNREACHABLE, again)
        self._refuse(*_words(code, again, denied))

    def _code(self, error: psycopg.Error) -> str | None:
        """Return the server's error code, or None if the connection is lost."""
        code = error.sqlstate
        gone = self._connection is None or self._connection.closed
        return None if gone or code is None or code.startswith(("08", "57P")) else code

    def _run_first(
        self, statement: sql.Composed | str, *values: object, again: str
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run the first statement of a piece of work; reopen a lost connection."""
        new = self._connect(again)
        try:
            return self._run(statement, *values, again=again)
        except LedgerError:
            if new or self._connection is not None:
                raise
        self._connect(again)
        return self._run(statement, *values, again=again)

    def _select(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        if self._writing:
            return self._run(statement, *values).fetchall()
        # the read after a commit must not say that nothing was charged
        return self._run_first(statement, *values, again=_FREE).fetchall()

    # the storage

    def read(self, sequence: int) -> list[tuple[int, str, str]]:
        """Return the rows after this number, oldest first."""
        rows = self._select(self._on_table(_READ), sequence)
        return [(int(number), str(body), str(digest)) for number, body, digest in rows]

    def hash(self, sequence: int) -> str | None:
        """Return the hash of an entry, or None if the ledger does not have it."""
        rows = self._select(self._on_table(_HASH), sequence)
        return str(rows[0][0]) if rows else None

    def begin(self) -> None:
        """Take the exclusive right to write."""
        self._begin(sql.SQL("{}::regclass::int").format(sql.Literal(self._names["table"])))

    def _begin(self, which: sql.Composable) -> None:
        if self._writing:
            self._refuse("the ledger cannot be used", "A transaction is already open.")
        statement = sql.SQL(_BEGIN).format(lock=sql.Literal(_LOCK), which=which)
        try:
            self._run_first(statement, again=_AGAIN)
        except BaseException:
            self.rollback()
            raise
        self._writing = True

    def insert(self, sequence: int, body: str, digest: str, previous: str) -> bool:
        """Add a row; return False if the last row is not the one before with hash ``previous``."""
        values = sequence, body, digest, sequence - 1, previous, sequence - 1
        return self._run(self._on_table(_INSERT), *values).rowcount == 1

    def commit(self) -> None:
        """Make the inserted rows durable."""
        if self._connection is None:
            self._refuse(_UNREACHABLE, _AGAIN)
        try:
            # after an earlier failure the server answers ROLLBACK, without an error
            committed = self._connection.execute("COMMIT").statusmessage == "COMMIT"
            code: str | None = ""
        except psycopg.Error as error:
            committed, code = False, self._code(error)
        if code is None:
            self._drop()
            self._refuse(_UNREACHABLE, _UNKNOWN)
        if code:
            self._refuse(*_words(code, _AGAIN, _WRITE))
        if not committed:
            self._refuse("the ledger cannot be written", _AGAIN)
        self._writing = False

    def rollback(self) -> None:
        """Undo the inserts and release the right to write; never fails."""
        self._writing = False
        if self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except psycopg.Error:
                self._drop()

    def check(self) -> None:
        """Do nothing: the server is asked for the last entry anyway."""

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._drop()


def _parameters(url: str) -> dict[str, Any]:
    """Return the URL's parameters; refuse a URL that libpq reads differently than meant."""
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        parameters = {"host": "@"}
    address = "".join(str(parameters.get(name) or "") for name in ("host", "port", "dbname"))
    if "@" in address or "=" in address:
        # it may be a part of the password
        raise LedgerError(
            "the URL of the ledger cannot be read",
            "Write special characters of the password as %40 for @, %2F for /, %25 for %.",
        )
    if not parameters.get("dbname"):
        # PostgreSQL would take a database named like the user
        raise LedgerError(
            "the URL of the ledger does not name the database",
            "Write postgresql://user@host/database#schema.",
        )
    return {
        "application_name": "dpnb",
        **_PATIENCE,
        **parameters,
        "client_encoding": "utf8",
    }


def _without_schema(url: str) -> tuple[str, str | None]:
    """Return the URL up to its last #, and the schema after it or None."""
    start, mark, name = url.rpartition("#")
    # with such signs, the # is probably part of a password
    return (start, unquote(name) or None) if mark and not set(name) & set("@/:?") else (url, None)


def _searched(parameters: dict[str, Any]) -> str | None:
    """Return the schema if the options set the search path to exactly one, else None."""
    paths = re.findall(r"(?:-c *|--)search_path=(\S*)", str(parameters.get("options") or ""))
    # PostgreSQL reads a name without quotes as lower case
    return (
        paths[-1].lower() if paths and re.fullmatch(r"[A-Za-z_]\w*", paths[-1], re.ASCII) else None
    )


def _place(parameters: dict[str, Any], schema: str | None) -> str:
    """Return the URL without user, password and other options; with the schema if it names one."""
    host = quote(str(parameters.get("host") or ""), safe=",:[]")
    port = f":{parameters['port']}" if parameters.get("port") else ""
    tail = ""
    if schema is not None:
        named = schema != _searched(parameters)
        tail = f"#{quote(schema)}" if named else f"?options=-csearch_path%3D{schema}"
    return f"postgresql://{host}{port}/{quote(str(parameters.get('dbname') or ''))}{tail}"


def _words(code: str, again: str, denied: tuple[str, str]) -> tuple[str, str]:
    """Return what happened and the hint for an SQLSTATE; nothing was committed in these cases."""
    match code:
        case "55P03" | "57014" | "40001" | "40P01":
            # waited too long, was cancelled, lost a race
            return "the ledger is in use by another kernel", again
        case "53100":
            return "the disk is full", "Make room; nothing was charged."
        case "25006":
            return (
                "the ledger cannot be written: the server is a standby, or the user is read-only",
                "Connect to the primary server. Set default_transaction_read_only off for the user.",
            )
        case "42501" | "3F000":
            return denied
        case "XX000" | "XX001" | "XX002":
            return "the ledger is damaged or not a ledger", "Restore the newest copy of it."
        case _:
            return "the ledger cannot be used", "Check that it is a dpnb ledger."
