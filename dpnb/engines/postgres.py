"""PostgreSQL: codes are copied once; requests are statements on them that no value makes fail."""

from __future__ import annotations

import contextlib
import hmac
import json
import re
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

import psycopg
from psycopg.sql import Identifier

from dpnb.engines.codes import Texts, alike_ids, code_of, no_ids, short_text
from dpnb.engines.dialect import Dialect, present
from dpnb.engines.ids import BLANKS, IdRule, Steps
from dpnb.engines.moments import wall
from dpnb.engines.rules import rule_of
from dpnb.engines.scans import Engine, changed_rows, engine_failure
from dpnb.engines.sources import find_column, misfit, text, undiscovered
from dpnb.engines.statements import StatementEngine, Work
from dpnb.errors import SchemaError
from dpnb.schema.columns import Category, Integer, Kind, Real
from dpnb.schema.joins import Join
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date, Timestamp
from dpnb.schema.types import Boolean

_WHOLE = {"int2", "int4", "int8", "bool"}
_NUMBERS = _WHOLE | {"numeric", "float4", "float8"}
_TEXTS, _DAYS = {"text", "varchar", "bpchar", "uuid", "enum"}, {"date", "timestamp", "timestamptz"}
_FITS = {
    Category: _TEXTS | _WHOLE,
    Boolean: _NUMBERS,
    Integer: _NUMBERS,
    Real: _NUMBERS,
    Date: _DAYS,
    Timestamp: _DAYS,
}
# PostgreSQL fails if a float underflows or overflows: a result that is too small becomes 0, and one
# far above all bounds, as when large numbers cancel, becomes 1e302 in size. Square roots, which
# always fit in a float, detect both
_GUARDED = """
CREATE FUNCTION pg_temp.{}(float8, float8) RETURNS float8 IMMUTABLE STRICT LANGUAGE plpgsql
AS $$ BEGIN RETURN CASE WHEN sqrt(abs($1)){} < 1e-160{} THEN 0
WHEN sqrt(abs($1)){} > 1e151{} THEN sign($1) * sign($2) * 1e302 ELSE $1 {} $2 END; END $$;
"""
_ROOT = " * sqrt(abs($2))"
_SHORT = "[-+.0-9\t\n\v\f\r ]{1,255}([eE][-+]?[0-9]{1,3})?[\t\n\v\f\r ]*"
"""Texts of numbers that fit in a NUMERIC."""
_UNKNOWN = """
SELECT oid, CASE WHEN typtype = 'e' THEN 'enum'
WHEN typcategory = 'A' THEN format_type(oid, NULL) ELSE typname END FROM pg_type WHERE oid = ANY(%s)
"""
_ALIKE = """
SELECT attname, collname FROM pg_attribute JOIN pg_collation ON pg_collation.oid = attcollation
WHERE attrelid = CAST(%s AS regclass) AND NOT collisdeterministic
"""
_READ_ONLY = "25006"
_SECRET = re.compile("\0(.*?)\0")
"""A secret in a statement, which is bound to it: texts of statements are shown by the server."""
_SETTINGS = f"""
SET search_path = pg_catalog, pg_temp; SET standard_conforming_strings = on;
SET extra_float_digits = 3; SET statement_timeout = 0; SET jit = off;
CREATE DOMAIN pg_temp.tinyint AS int2; CREATE DOMAIN pg_temp.double AS float8;
{_GUARDED.format("times", _ROOT, "", _ROOT, "", "*")}
{_GUARDED.format("over", "", _ROOT, "", _ROOT, "/")}
"""


class PostgresIdRule(IdRule):
    """The rule for ids in PostgreSQL's SQL."""

    TEXT = "TEXT"

    def matches(self, value: str, pattern: str) -> str:
        """Return the SQL that tests whether a pattern describes the whole text."""
        return f"{value} ~ {self.quoted(f'^(?:{pattern})$')}"

    def stripped(self, value: str, letters: str, ends: str = "both") -> str:
        """Return the SQL of a text without some letters at its ends."""
        function = {"both": "btrim", "left": "ltrim", "right": "rtrim"}[ends]
        return f"{function}({value}, {self.quoted(letters)})"

    def trimmed(self, text: str) -> str:
        """Return the SQL of a text without blanks at its ends."""
        return self.stripped(text, BLANKS)

    def whole(self, digits: str) -> str:
        """Return the SQL of the BIGINT that a text of a sign and at most 18 digits says."""
        return f"CAST({digits} AS BIGINT)"


class PostgresDialect(Dialect):
    """The SQL for one schema's columns, after the settings that :class:`PostgresEngine` makes."""

    IDS = PostgresIdRule()
    SERIES = "generate_series(low, high)"
    WIDE = "NUMERIC"
    SUMMED_BY_MEAN = 0

    def times(self, left: str, right: str) -> str:
        """Return the SQL of a product of floats, which is 0 on underflow."""
        return f"pg_temp.times({left}, {right})"

    def over(self, left: str, right: str) -> str:
        """Return the SQL of a float divided by a public one, which is 0 on underflow."""
        return f"pg_temp.over({left}, {right})"

    def secret(self, value: int) -> str:
        """Return the SQL of a secret number, which stays out of the statement's text."""
        return f"CAST({_hidden(str(value))} AS BIGINT)"

    def text_number(self, column: str) -> str:
        """Return the SQL of a whole number from 0 to below 2**48 that stands for a text."""
        return f"CAST(CAST('x' || substr(md5({column}), 1, 12) AS BIT(48)) AS BIGINT)"


def _hidden(secret: str) -> str:
    """Mark a secret, which :meth:`PostgresEngine._run` takes out of the statement."""
    return f"\0{secret}\0"


def _code(name: str, kind: Kind, column: str, source_type: str) -> str:
    """Return the SQL that maps a source value to its code."""
    if source_type not in _FITS[type(kind)]:
        raise misfit(name, kind, source_type)
    integral = source_type in _WHOLE and isinstance(kind, Boolean | Integer)
    number = f"CAST({column} AS INTEGER)" if source_type == "bool" else column
    value, position = f"CAST({number} AS {'BIGINT' if integral else 'DOUBLE'})", ""
    if isinstance(kind, Category):
        value = f"CAST({column} AS TEXT)"
        position = _READ.position(kind, value)
    elif isinstance(kind, Date):
        # an instant has its day in UTC, whatever the connection's time zone
        moment = f"{column} AT TIME ZONE 'UTC'" if source_type == "timestamptz" else column
        day = f"CAST({moment} AS DATE)"
        value = f"(CASE WHEN isfinite({day}) THEN {day} - DATE '1970-01-01' END)"
    elif isinstance(kind, Timestamp):
        value = _seconds(kind, column, source_type)
    elif source_type == "numeric":
        size, most = f"abs({column})", "1.7976931348623157e308"
        value = f"(CASE WHEN {size} < 2.5e-324 THEN 0 WHEN {size} <= {most} THEN {value} END)"
    return code_of(kind, value, whole=integral, found=position)


def _seconds(kind: Timestamp, column: str, source_type: str) -> str:
    """Return the SQL of the seconds that the clock of a column of times shows for a value."""
    if source_type == "date":
        # a day may be beyond the range of a timestamp
        shown = f"CAST({column} - DATE '1970-01-01' AS BIGINT) * 86400"
    else:
        shown = f"CAST(FLOOR(EXTRACT(EPOCH FROM {column})) AS BIGINT)"
    shown = f"(CASE WHEN isfinite({column}) THEN {shown} END)"
    return wall(kind, shown) if source_type == "timestamptz" else shown


def _text(name: str, column: str, source_type: str) -> str:
    if source_type not in _FITS[Category]:
        raise undiscovered(name, source_type)
    return f'({_READ.canonical(f"CAST({column} AS TEXT)")}) COLLATE "C"'


def _place(places: Mapping[str, int], value: str) -> str:
    """Return the SQL of the number that belongs to a text; NULL if there is none."""
    # look up byte by byte, whatever the collation; a PostgreSQL text cannot hold a zero byte
    held = {label: i for label, i in places.items() if "\0" not in label}
    return f"CAST(CAST({text(json.dumps(held))} AS JSONB) ->> {value} AS INTEGER)"


def _double(value: str) -> str:
    """Return the double of a text that is a number; NULL where a cast would fail."""
    short = PostgresIdRule().matches(value, _SHORT)
    plain = f"CAST(CASE WHEN {short} THEN {value} END AS NUMERIC)"
    size, most = f"abs({plain})", "1.7976931348623157e308"
    return f"(CASE WHEN {size} < 2.5e-324 THEN 0 WHEN {size} <= {most} THEN CAST({plain} AS DOUBLE) END)"


_READ = Texts(
    matches=PostgresIdRule().matches,
    place=_place,
    double=_double,
    whole=lambda real: f"CAST(CAST({real} AS BIGINT) AS TEXT)",
    written=lambda real: f"CAST({real} AS TEXT)",
)


def _id_steps(column: str, source_type: str, *, plain: bool) -> Steps:
    """Return the SQL of a row's id; ``plain`` texts are neither numbers nor UUIDs."""
    rule, as_text = PostgresIdRule(), f'CAST({column} AS TEXT) COLLATE "C"'
    if source_type in _WHOLE - {"bool"}:
        return rule.of_whole(column)
    if source_type == "uuid":
        return Steps(as_text)
    if source_type in _TEXTS:
        return rule.of_text(as_text, plain=plain)
    if source_type == "numeric":
        return rule.of_decimal(as_text)
    if source_type in _NUMBERS - {"bool"}:
        return rule.of_double(f"CAST({column} AS DOUBLE)")
    raise no_ids(source_type)


class PostgresEngine(StatementEngine):
    """The normalised rows of one table or view, in a temporary table of its own connection.

    The next request reopens a lost connection and copies the rows again. If their fingerprint under
    a secret key has changed, the engine answers nothing more.

    Secret numbers are bound to statements, so that ``pg_stat_statements`` and ``pg_stat_activity``
    do not show them; the server's log can, so it is as secret as the data. The statistics views show
    exact numbers of rows to every role of the database. A connection pooler must pool sessions.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table.schema, PostgresDialect(table.schema), "rows")
        self._asked: Work | None = None
        self._turn, self._change = threading.RLock(), threading.Lock()
        self._copy, self._seal, self._changed = "", (b"", ""), False
        self._last: Collection[str] = ()
        self._alike: dict[str, str] = {}
        self._again: Callable[[], None] | None = None
        self._connection, source = _dial(table.source)
        try:
            self._load(table, source, self._types(source))
        except BaseException:
            self.close()
            raise
        # a closure keeps the password out of attributes that a debugger or a report would print
        self._renew = lambda: self._open_again(table)

    def _types(self, source: str) -> dict[str, str]:
        """Prepare the connection, and return the types of the source's columns."""
        if self._connection.info.parameter_status("server_encoding") != "UTF8":
            raise SchemaError(
                "the database does not use UTF-8", "Use a database with ENCODING 'UTF8'."
            )
        what, hint = "the user may not make temporary tables", "Grant TEMPORARY on the database."
        try:
            self._connection.execute(_SETTINGS.encode())
            what, hint = "there is no such table that the user may read", "Check the part after #."
            return self._described(source)
        except psycopg.Error as error:
            if error.sqlstate == _READ_ONLY:
                what, hint = (
                    "the server is a standby, or the user is read-only: no temporary tables can be made",
                    "Connect to the primary server. Set default_transaction_read_only off for the user.",
                )
        raise SchemaError(what, hint)

    def _described(self, source: str) -> dict[str, str]:
        """Return the types of the source's columns, and note the collations of some."""
        columns = self._connection.execute(f"SELECT * FROM {source} LIMIT 0".encode()).description
        names = {type_info.oid: type_info.name for type_info in self._connection.adapters.types}
        codes = {column.name: column.type_code for column in columns or ()}
        unknown = [code for code in codes.values() if code not in names]
        names |= dict(self._connection.execute(_UNKNOWN.encode(), [unknown]).fetchall())
        self._alike = dict(self._connection.execute(_ALIKE.encode(), [source]).fetchall())
        return {name: names[code] for name, code in codes.items()}

    def _load(self, table: Table, source: str, types: dict[str, str]) -> None:
        def found(name: str) -> tuple[str, str]:
            column = find_column(name, list(types))
            return Identifier(column).as_string(), types[column]

        kinds = enumerate(table.schema.items())
        codes = [f"{_code(name, kind, *found(name))} AS c{i}" for i, (name, kind) in kinds]
        columns = enumerate(table.schema.undeclared)
        codes += [f"{short_text(_text(name, *found(name)))} AS t{i}" for i, name in columns]
        rows = f"SELECT {', '.join(codes)} FROM {source}"
        if table.unit is not None:
            if collation := self._alike.get(find_column(table.unit.column, list(types))):
                raise alike_ids(collation)
            steps = _id_steps(*found(table.unit.column), plain=table.unit.kind == "text")
            self._text_ids = steps.as_text
            names = [name.rpartition(" AS ")[2] for name in codes]
            rows = f"SELECT {', '.join([*codes, steps.first])} AS u FROM {source}"
            rows = f"SELECT {', '.join([*names, steps.second])} AS u FROM ({rows}) AS ids"
        rows = f"({rows}) AS codes WHERE {present(self._sql.needed(table).values())}"
        copy = f"CREATE TEMP TABLE rows AS SELECT * FROM {rows}"
        if self._copy not in ("", copy):
            self._refuse_changed()
        self._copy = copy
        self._reading = rule_of(table, {name: found(name)[1] for name in table.columns})
        self._ask([copy])
        self._check_key(table)

    def bound(self, key: bytes, last: Collection[str] = ()) -> None:
        """Keep at most ``max_rows`` rows of each id; from now on a lost connection is reopened."""
        if not self._seal[1]:
            # no ledger has asked for the fingerprint of these rows
            self.fingerprint(key)
        super().bound(key, last)
        self._last = last
        self._again = self._renew

    def _open_again(self, table: Table) -> None:
        """Reopen a lost connection and check that rows and ids are the same; close it otherwise."""
        self._connection.close()
        key, seal = self._seal
        try:
            self._connection, source = _dial(table.source)
            self._load(table, source, self._types(source))
            if self._fingerprint(key, "rows") != seal:
                self._refuse_changed()
            if table.unit is not None:
                dialect = PostgresDialect(self._schema)
                self._keep(
                    dialect.kept(table.unit.max_rows, self._key, self._last, text=self._text_ids)
                )
        except SchemaError:
            # close it for now only: the server may be restarting
            self._connection.close()
            raise engine_failure() from None
        except BaseException:
            self._connection.close()
            raise

    def _keep(self, statement: str) -> str:
        self._ask([f"CREATE TEMP TABLE kept AS {statement}", "DROP TABLE rows"])
        return "kept"

    def _refuse_changed(self) -> NoReturn:
        self._changed = True
        raise changed_rows()

    def _fetched(self, statement: str, work: Work) -> list[Any]:
        with self._turn:
            if self._changed:
                self._refuse_changed()
            try:
                return self._run(statement, work)
            except psycopg.Error as error:
                if self._again is None or not self._is_lost(error):
                    raise
            # the statement changes nothing that is kept, so it can run twice
            again, self._again = self._again, None
            try:
                again()
            finally:
                self._again = again
            if work.stopped.is_set():
                raise InterruptedError
            return self._run(statement, work)

    def _run(self, statement: str, work: Work) -> list[Any]:
        # not while another request is being cancelled: that would cancel this one
        with self._change:
            self._asked = work
        secrets = _SECRET.findall(statement)
        if secrets:
            statement = _SECRET.sub("%s", statement.replace("%", "%%"))
        cursor = self._connection.execute(statement.encode(), secrets or None)
        return cursor.fetchall() if cursor.description else []

    def _is_lost(self, error: psycopg.Error) -> bool:
        """Return whether the connection is lost, or the server is about to end it."""
        return self._connection.closed or (error.sqlstate or "").startswith(("08", "57P"))

    def check(self) -> None:
        """Raise an error if no request can run; reopen a lost connection."""
        # if a request holds the connection, it is in use and needs no check
        if self._turn.acquire(blocking=False):
            try:
                self._ask(["SELECT 1"])
            finally:
                self._turn.release()

    def _stop(self, work: Work) -> None:
        with self._change:
            if self._asked is work and not work.done.is_set():
                self._connection.cancel()

    def obstacle(self, other: Engine, join: Join) -> tuple[str, str] | None:
        """Return why the rows of another engine cannot be looked up, with a hint."""
        hint = "Join them in a view. If it repeats rows, declare the unit."
        return "tables in PostgreSQL cannot be joined yet", hint

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint of the rows in any order, from one statement.

        HMAC-SHA256 seals the sums of four parts of each row's SHA-256, which is computed after a
        secret.
        """
        seal = self._fingerprint(key, self._rows)
        self._seal = key, seal
        return seal

    def _fingerprint(self, key: bytes, rows: str) -> str:
        secret = f"CAST({_hidden(hmac.digest(key, b'rows', 'sha256').hex())} AS TEXT)"
        mix = f"encode(sha256(convert_to({secret} || CAST(codes AS TEXT), 'UTF8')), 'hex')"
        parts = (f"CAST('x' || substr(mix, {start}, 8) AS BIT(32))" for start in (1, 9, 17, 25))
        sums = ", ".join(f"SUM(CAST({part} AS BIGINT))" for part in parts)
        # without OFFSET, PostgreSQL would compute the hash again for each part
        mixes = f"(SELECT {mix} AS mix FROM {rows} AS codes OFFSET 0) AS mixes"
        return self._sealed(key, f"SELECT COUNT(*), {sums} FROM {mixes}")

    def close(self) -> None:
        """Release the rows."""
        self._connection.close()


def _dial(source: str) -> tuple[psycopg.Connection, str]:
    """Return a connection and the SQL name of the table; errors show nothing of the source."""
    url, _, name = source.rpartition("#")
    schema, _, table = name.rpartition(".")
    what, hint = (
        "the URL of the source names no table",
        "Write postgresql://user@host/database#schema.table.",
    )
    # with such signs, the # is probably part of a password
    if table and not set(name) & set("@/:"):
        what, hint = (
            "the database cannot be reached",
            "Check the server, address, user and password.",
        )
        with contextlib.suppress(psycopg.Error, UnicodeError):
            return psycopg.connect(
                url, autocommit=True, prepare_threshold=None, client_encoding="utf8",
                application_name="dpnb", connect_timeout=10, keepalives_idle=30, keepalives_count=3,
            ), Identifier(unquote(schema) or "public", unquote(table)).as_string()  # fmt: skip
    raise SchemaError(what, hint)
