"""A ledger that service processes share: gone and back, never lost, never charged unseen."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any
from urllib.parse import quote

import pandas as pd
import psycopg
import pytest

import dpnb
from dpnb.errors import LedgerError
from dpnb.ledger.ledger import Ledger
from tests.kit.inside import runner
from tests.kit.postgres import OWNER, PASSWORD, Server

pytestmark = pytest.mark.postgres

Entry = dict[str, object]
COMMIT = b"COMMIT\0"
SECRETS = (PASSWORD, "s3cret", "p@ss", "w%rd", "s3cret%2Fp%40ss%3Aw%25rd")


def news(ledger: Ledger) -> list[Entry]:
    return [entry for _, entry in ledger.read_new()]


def write(ledger: Ledger, entry: Entry) -> None:
    with ledger.transaction() as append:
        news(ledger)
        append(entry)


def numbers(url: str) -> list[object]:
    with closing(Ledger(url)) as ledger:
        return [entry["n"] for entry in news(ledger)]


class Cut:
    """A way to the server that breaks when the client says a word, before or after it is heard."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.word = b""
        self.heard = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]
        self.ways: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                self.ways += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        outward = source.getsockname()[1] == self.own_port
        with suppress(OSError):
            while data := source.recv(65536):
                if outward and self.word and self.word in data:
                    self.word = b""
                    if self.heard:
                        # the server does it, and its reply gets lost
                        source.shutdown(socket.SHUT_RDWR)
                        target.sendall(data)
                        target.shutdown(socket.SHUT_WR)
                    break
                target.sendall(data)
        for end in (source,) if self.heard else (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in (self.listener, *self.ways):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def schema(postgres: Server) -> str:
    """An empty schema."""
    return postgres.schema()


@pytest.fixture
def url(postgres: Server, schema: str) -> str:
    """The address of a ledger of its own."""
    return postgres.url(schema=schema)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """A ledger of two entries."""
    ledger = Ledger(url, timeout=5)
    write(ledger, {"n": 1})
    write(ledger, {"n": 2})
    news(ledger)
    yield ledger
    ledger.close()


@pytest.fixture
def cut(postgres: Server) -> Iterator[Cut]:
    """A way to the server that can be cut."""
    cut = Cut(postgres.port)
    yield cut
    cut.close()


@pytest.fixture
def stopped(postgres: Server) -> Iterator[None]:
    """The server is down for the length of a test, unless it starts it."""
    postgres.stop()
    yield
    if not (postgres.folder / "data" / "postmaster.pid").exists():
        postgres.start()


def backend(ledger: Ledger) -> int:
    """The server's process that serves a ledger's connection."""
    return int(ledger._storage._connection.info.backend_pid)


class TestDurability:
    def test_commits_wait_for_the_disk_whatever_the_role_says(
        self, postgres: Server, url: str
    ) -> None:
        postgres.execute(f"ALTER ROLE {OWNER} SET synchronous_commit = off")
        postgres.execute(f"ALTER ROLE {OWNER} SET default_transaction_isolation = serializable")
        try:
            ledger = Ledger(url)
            with ledger.transaction():
                show = ledger._storage._connection.execute
                assert show("SHOW synchronous_commit").fetchone() == ("on",)
                assert show("SHOW transaction_isolation").fetchone() == ("read committed",)
                assert show("SHOW lock_timeout").fetchone() == ("30s",)
            ledger.close()
        finally:
            postgres.execute(f"ALTER ROLE {OWNER} RESET ALL")
        assert postgres.execute("SHOW fsync") == [("on",)]

    def test_entries_survive_a_crash_of_the_server(
        self, postgres: Server, url: str, ledger: Ledger
    ) -> None:
        postgres.stop("immediate")
        postgres.start()
        assert numbers(url) == [1, 2]

    def test_it_outlives_the_process_and_has_no_file(self, ledger: Ledger) -> None:
        assert ledger.kept
        assert ledger.path is None


class TestGoneAndBack:
    def test_the_next_request_is_refused_and_a_later_one_goes_on(
        self, postgres: Server, url: str, ledger: Ledger
    ) -> None:
        postgres.stop()
        try:
            for _ in range(2):
                with pytest.raises(LedgerError, match="cannot be reached") as refusal:
                    write(ledger, {"n": 3})
                assert refusal.value.hint == "Try again; nothing was charged."
                with pytest.raises(LedgerError, match="cannot be reached") as refusal:
                    news(ledger)
                assert refusal.value.hint == "Try again; what was paid for is free."
        finally:
            postgres.start()
        write(ledger, {"n": 4})
        assert news(ledger) == [{"n": 4}]
        assert numbers(url) == [1, 2, 4]

    @pytest.mark.parametrize("use", [news, lambda ledger: write(ledger, {"n": 3})])
    def test_a_connection_lost_while_idle_is_opened_again_unseen(
        self, postgres: Server, ledger: Ledger, use: Any
    ) -> None:
        before = backend(ledger)
        postgres.execute(f"SELECT pg_terminate_backend({before})")
        use(ledger)
        assert backend(ledger) != before
        news(ledger)

    @pytest.mark.parametrize("moment", ["before the insert", "after the insert"])
    def test_a_transaction_cut_off_by_a_restart_leaves_nothing(
        self, postgres: Server, url: str, ledger: Ledger, moment: str
    ) -> None:
        def work() -> None:
            with ledger.transaction() as append:
                if moment == "after the insert":
                    append({"n": 3})
                postgres.stop()
                postgres.start()
                append({"n": 4})

        with pytest.raises(LedgerError, match="cannot be reached") as refusal:
            work()
        assert refusal.value.hint == "Try again; nothing was charged."
        write(ledger, {"n": 5})
        assert numbers(url) == [1, 2, 5]

    def test_after_a_lost_connection_nothing_is_written_outside_a_transaction(
        self, postgres: Server, url: str, ledger: Ledger
    ) -> None:
        def work() -> None:
            with ledger.transaction() as append:
                append({"n": 3})
                postgres.execute(f"SELECT pg_terminate_backend({backend(ledger)})")
                for _ in range(3):
                    with suppress(LedgerError):
                        append({"n": 4})

        with pytest.raises(LedgerError, match=r"cannot be reached.*nothing was charged"):
            work()
        assert numbers(url) == [1, 2]

    @pytest.mark.parametrize("heard", [False, True])
    def test_a_connection_that_breaks_during_the_commit_promises_nothing(
        self, postgres: Server, schema: str, cut: Cut, heard: bool
    ) -> None:
        ledger = Ledger(postgres.url(schema=schema, port=cut.own_port), timeout=5)
        write(ledger, {"n": 1})
        cut.word, cut.heard = COMMIT, heard
        with pytest.raises(LedgerError, match="cannot be reached") as refusal:
            write(ledger, {"n": 2})
        assert "unknown" in refusal.value.hint
        assert "nothing was charged" not in refusal.value.hint
        # the next transaction waits for the end of the one before, and so knows
        with ledger.transaction() as append:
            found = [entry["n"] for entry in news(ledger)]
            append({"n": 3})
        ledger.close()
        assert found == ([2] if heard else [])
        assert numbers(postgres.url(schema=schema)) == [1, *found, 3]

    def test_a_server_that_is_down_at_the_start_is_told(
        self, postgres: Server, url: str, stopped: None
    ) -> None:
        with pytest.raises(LedgerError, match="cannot be reached") as refusal:
            Ledger(url)
        assert "Check that the server runs" in refusal.value.hint

    def test_a_ledger_is_created_whole_or_not_at_all(self, url: str, monkeypatch: Any) -> None:
        """The connection is lost after the right to write was taken."""
        execute = psycopg.Connection.execute

        def lost(connection: Any, query: Any, *rest: Any, **more: Any) -> Any:
            if isinstance(query, bytes) and b"CREATE TABLE" in query:
                connection.close()
            return execute(connection, query, *rest, **more)

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", lost)
            with pytest.raises(LedgerError, match="cannot be reached") as refusal:
                Ledger(url)
        assert refusal.value.hint == "Try again; nothing was charged."
        with closing(Ledger(url)) as ledger:
            write(ledger, {"n": 1})
        assert numbers(url) == [1]


class TestRefusals:
    def test_what_the_server_refuses_at_the_commit_is_not_charged(
        self, postgres: Server, schema: str, url: str, ledger: Ledger
    ) -> None:
        postgres.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$;"
            "CREATE CONSTRAINT TRIGGER no_room AFTER INSERT ON dpnb_entry "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no_room()",
            schema,
        )
        with pytest.raises(LedgerError, match="the disk is full") as refusal:
            write(ledger, {"n": 3})
        assert refusal.value.hint == "Make room; nothing was charged."
        postgres.execute("DROP TRIGGER no_room ON dpnb_entry", schema)
        write(ledger, {"n": 4})
        assert numbers(url) == [1, 2, 4]

    @pytest.mark.parametrize(
        ("code", "what"),
        [
            ("disk_full", "the disk is full"),
            ("serialization_failure", "in use by another kernel"),
            ("deadlock_detected", "in use by another kernel"),
            ("query_canceled", "in use by another kernel"),
            ("read_only_sql_transaction", "cannot be written"),
            ("data_corrupted", "damaged or not a ledger"),
            ("admin_shutdown", "cannot be reached"),
        ],
    )
    def test_each_refusal_of_the_server_has_its_words(
        self, postgres: Server, schema: str, ledger: Ledger, code: str, what: str
    ) -> None:
        postgres.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION 'versions %', NEW.body USING ERRCODE = '{code}'; END $$;"
            "CREATE TRIGGER fail BEFORE INSERT ON dpnb_entry FOR EACH ROW EXECUTE FUNCTION fail()",
            schema,
        )
        with pytest.raises(LedgerError, match=what) as refusal:
            write(ledger, {"n": 31415, "secret": "kept back"})
        assert refusal.value.hint
        assert "knots" not in str(refusal.value)
        assert "kept back" not in str(refusal.value)
        assert refusal.value.__context__ is None
        postgres.execute("DROP TRIGGER fail ON dpnb_entry", schema)
        write(ledger, {"n": 3})
        assert news(ledger) == [{"n": 3}]

    def test_a_failure_that_was_swallowed_is_not_committed(self, url: str, ledger: Ledger) -> None:
        def work() -> None:
            with ledger.transaction() as append:
                append({"n": 3})
                with suppress(LedgerError):
                    ledger._storage._run("SELECT nothing")

        with pytest.raises(LedgerError, match=r"cannot be written.*nothing was charged"):
            work()
        assert numbers(url) == [1, 2]

    def test_a_reader_does_not_wait_for_a_locked_table_for_ever(
        self, postgres: Server, schema: str, url: str, ledger: Ledger
    ) -> None:
        impatient = Ledger(url, timeout=0.1)
        with psycopg.connect(postgres.url(user="chief", schema=schema)) as other:
            other.execute("LOCK TABLE dpnb_entry")
            with pytest.raises(LedgerError, match="in use by another kernel"):
                news(impatient)
        assert len(news(impatient)) == 2
        impatient.close()

    def test_transactions_do_not_nest(self, url: str, ledger: Ledger) -> None:
        with ledger.transaction() as append:
            append({"n": 3})
            with pytest.raises(LedgerError, match="cannot be used"), ledger.transaction():
                raise AssertionError
        assert numbers(url) == [1, 2, 3]

    def test_another_table_is_no_ledger(self, postgres: Server, schema: str, url: str) -> None:
        postgres.execute("CREATE TABLE dpnb_entry (something text)", schema)
        postgres.execute(f"GRANT ALL ON dpnb_entry TO {OWNER}", schema)
        with closing(Ledger(url)) as ledger, pytest.raises(LedgerError, match="cannot be used"):
            news(ledger)

    def test_a_schema_that_does_not_exist_is_told(self, postgres: Server) -> None:
        with pytest.raises(LedgerError, match="cannot be created") as refusal:
            Ledger(postgres.url(schema="nowhere"))
        assert "schema" in refusal.value.hint

    def test_a_schema_of_somebody_else_is_told(self, postgres: Server) -> None:
        foreign = postgres.schema("chief")
        postgres.execute(f"GRANT USAGE ON SCHEMA {foreign} TO {OWNER}")
        with pytest.raises(LedgerError, match="cannot be created") as refusal:
            Ledger(postgres.url(schema=foreign))
        assert "may create tables" in refusal.value.hint

    def test_a_database_of_another_encoding_is_told(self, postgres: Server) -> None:
        postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        with pytest.raises(LedgerError, match="does not use UTF-8") as refusal:
            Ledger(postgres.url("latin"))
        assert "UTF8" in refusal.value.hint


class TestRights:
    @pytest.fixture
    def service(self, postgres: Server) -> Iterator[str]:
        """A user who may do nothing yet."""
        postgres.execute(f"CREATE ROLE service LOGIN PASSWORD '{PASSWORD}'")
        yield "service"
        postgres.execute("DROP OWNED BY service; DROP ROLE service")

    def test_a_reader_reads_and_writes_nothing(
        self, postgres: Server, schema: str, ledger: Ledger, service: str
    ) -> None:
        postgres.execute(f"GRANT USAGE ON SCHEMA {schema} TO {service}")
        postgres.execute(f"GRANT SELECT ON dpnb_entry TO {service}", schema)
        with closing(Ledger(postgres.url(user=service, schema=schema))) as reader:
            assert len(news(reader)) == 2
            with pytest.raises(LedgerError, match="cannot be written") as refusal:
                write(reader, {"n": 3})
            assert "SELECT and INSERT" in refusal.value.hint
            assert news(reader) == []

    def test_a_user_who_is_read_only_is_told(
        self, postgres: Server, schema: str, url: str, service: str
    ) -> None:
        postgres.execute(f"GRANT ALL ON SCHEMA {schema} TO {service}")
        postgres.execute(f"ALTER ROLE {service} SET default_transaction_read_only = on")
        address = postgres.url(user=service, schema=schema)
        with pytest.raises(LedgerError, match="the user is read-only") as refusal:
            Ledger(address)
        assert "default_transaction_read_only" in refusal.value.hint
        postgres.execute(f"ALTER ROLE {service} SET default_transaction_read_only = off")
        with closing(Ledger(address)) as ledger:
            write(ledger, {"n": 1})

    def test_select_and_insert_are_enough_and_change_nothing_written(
        self, postgres: Server, schema: str, url: str, ledger: Ledger, service: str
    ) -> None:
        postgres.execute(f"GRANT USAGE ON SCHEMA {schema} TO {service}")
        postgres.execute(f"GRANT SELECT, INSERT ON dpnb_entry TO {service}", schema)
        address = postgres.url(user=service, schema=schema)
        with closing(Ledger(address)) as writer:
            write(writer, {"n": 3})
        assert numbers(url) == [1, 2, 3]
        with (
            psycopg.connect(address) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute("UPDATE dpnb_entry SET body = '{}'")

    def test_nobody_else_was_given_anything(
        self, postgres: Server, schema: str, ledger: Ledger
    ) -> None:
        statement = "SELECT relacl FROM pg_class WHERE oid = 'dpnb_entry'::regclass"
        assert postgres.execute(statement, schema) == [(None,)]

    @pytest.mark.parametrize(
        "statement",
        ["UPDATE dpnb_entry SET body = '{}'", "DELETE FROM dpnb_entry", "TRUNCATE dpnb_entry"],
    )
    def test_not_even_the_owner_changes_a_row_by_accident(
        self, url: str, ledger: Ledger, statement: str
    ) -> None:
        with (
            psycopg.connect(url) as connection,
            pytest.raises(psycopg.errors.RaiseException, match="append-only"),
        ):
            connection.execute(statement.encode())
        assert numbers(url) == [1, 2]


class TestAddress:
    def test_several_ledgers_share_a_database_by_schema(self, postgres: Server) -> None:
        one, other = postgres.url(schema=postgres.schema()), postgres.url(schema=postgres.schema())
        with closing(Ledger(one)) as ledger:
            write(ledger, {"n": 1})
        assert numbers(other) == []

    def test_services_that_start_together_create_one_table(self, postgres: Server) -> None:
        def opened(url: str, start: threading.Barrier) -> None:
            start.wait()
            Ledger(url).close()

        for _ in range(5):
            url = postgres.url(schema=postgres.schema())
            start = threading.Barrier(6)
            with ThreadPoolExecutor(6) as pool:
                for done in [pool.submit(opened, url, start) for _ in range(6)]:
                    done.result()
            assert numbers(url) == []

    def test_postgres_is_another_word_for_postgresql(self, url: str, ledger: Ledger) -> None:
        assert numbers(url.replace("postgresql://", "postgres://")) == [1, 2]

    def test_the_password_may_come_from_the_environment(
        self, url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        head, tail = url.split("@")
        assert numbers(f"{head.rsplit(':', 1)[0]}@{tail}") == [1, 2]

    def test_the_driver_is_loaded_for_postgres_only(self) -> None:
        code = "import sys, dpnb.curator, dpnb.ledger.ledger; print('psycopg' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert done.stdout == b"False\n"

    def test_a_missing_driver_is_told(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "dpnb.ledger.postgres")
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(LedgerError, match="needs psycopg") as refusal:
            Ledger(url)
        assert "dpnb[postgres]" in refusal.value.hint


class TestOneLedger:
    """A URL means one ledger: for every user, whatever the settings, and whatever is added later."""

    OTHER = "colleague"

    @pytest.fixture
    def database(self, postgres: Server) -> Iterator[str]:
        """A database without a ledger, where two users have schemas named like them."""
        name = f"own_{postgres.schema()}"
        postgres.execute(f"CREATE DATABASE {name}")
        postgres.execute(f"CREATE ROLE {self.OTHER} LOGIN PASSWORD '{PASSWORD}'")
        self.chief(
            postgres, name,
            f"CREATE SCHEMA {OWNER} AUTHORIZATION {OWNER}",
            f"CREATE SCHEMA {self.OTHER} AUTHORIZATION {self.OTHER}",
            f"CREATE SCHEMA shared; GRANT ALL ON SCHEMA shared TO {OWNER}, {self.OTHER}",
        )  # fmt: skip
        yield name
        postgres.execute(f"DROP DATABASE {name}")
        postgres.execute(f"DROP ROLE {self.OTHER}")

    @staticmethod
    def chief(postgres: Server, database: str, *statements: str) -> None:
        with psycopg.connect(postgres.url(database, user="chief"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def old(self, postgres: Server, database: str, schema: str) -> None:
        """A ledger as it was made before URLs had to name its schema."""
        self.chief(
            postgres, database,
            f"SET search_path = {schema}; CREATE TABLE dpnb_entry (seq bigint PRIMARY KEY, "
            "body text NOT NULL, hash text NOT NULL);"
            f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC; GRANT SELECT, INSERT ON dpnb_entry TO PUBLIC",
        )  # fmt: skip

    def test_without_a_schema_none_is_created(self, postgres: Server, database: str) -> None:
        url = postgres.url(database)
        for address in (url, f"{url}?options=-csearch_path%3D%22%24user%22%2Cpublic"):
            with pytest.raises(LedgerError, match="does not name the schema") as refusal:
                Ledger(address)
            assert PASSWORD not in str(refusal.value)
            assert "database#schema" in refusal.value.hint
        with closing(Ledger(f"{url}#shared")) as ledger:
            write(ledger, {"n": 1})

    def test_all_users_find_the_one_that_is_there(self, postgres: Server, database: str) -> None:
        self.old(postgres, database, OWNER)
        urls = [postgres.url(database), postgres.url(database, user=self.OTHER)]
        urls += [f"{urls[1]}#{OWNER}", postgres.url(database, user=self.OTHER, schema=OWNER)]
        for number, url in enumerate(urls):
            with closing(Ledger(url)) as ledger:
                write(ledger, {"n": number})
                tail = f"?options=-csearch_path%3D{OWNER}" if number == 3 else f"#{OWNER}"
                assert ledger.place == f"postgresql://127.0.0.1:{postgres.port}/{database}{tail}"
        assert all(numbers(url) == [0, 1, 2, 3] for url in urls)

    def test_a_schema_that_is_added_later_changes_nothing(
        self, postgres: Server, database: str
    ) -> None:
        url = postgres.url(database, user=self.OTHER)
        self.old(postgres, database, "shared")
        with closing(Ledger(url)) as ledger:
            write(ledger, {"n": 1})
            with closing(Ledger(f"{url}#{self.OTHER}")) as other:
                write(other, {"n": 5})
            postgres.execute(f"ALTER ROLE {self.OTHER} SET search_path = {self.OTHER}")
            postgres.execute(f"SELECT pg_terminate_backend({backend(ledger)})")
            write(ledger, {"n": 2})
        with pytest.raises(LedgerError, match="several schemas") as refusal:
            Ledger(url)
        assert (
            refusal.value.hint == f"Name one of them at the end of the URL: #{self.OTHER}, #shared."
        )
        assert numbers(f"{url}#shared") == [1, 2]
        assert numbers(f"{url}#{self.OTHER}") == [5]

    def test_what_stands_first_on_the_search_path_is_not_taken(
        self, postgres: Server, database: str
    ) -> None:
        with closing(Ledger(postgres.url(database) + "#shared")) as ledger:
            write(ledger, {"n": 1})
        self.old(postgres, database, self.OTHER)
        for options in (self.OTHER, f"{self.OTHER},shared", '"$user"', "pg_temp"):
            url = f"{postgres.url(database, schema=options)}#shared"
            with closing(Ledger(url)) as ledger:
                ledger._storage._connection.execute("CREATE TEMP TABLE dpnb_entry (seq bigint)")
                assert news(ledger) == [{"n": 1}]
        with pytest.raises(LedgerError, match="several schemas"):
            Ledger(postgres.url(database, schema=f"{self.OTHER},shared"))

    @pytest.mark.parametrize("name", ["pg_temp", "pg_catalog", "nowhere"])
    def test_where_no_ledger_can_last_none_is_created(
        self, postgres: Server, database: str, name: str
    ) -> None:
        for url in (f"{postgres.url(database)}#{name}", postgres.url(database, schema=name)):
            with pytest.raises(LedgerError, match="cannot be created") as refusal:
                Ledger(url)
            assert "schema" in refusal.value.hint

    @pytest.mark.parametrize("url", ["postgresql://u@h", "postgresql://u@h/#s", "postgresql:///"])
    def test_a_database_named_like_the_user_is_not_taken(self, url: str) -> None:
        with pytest.raises(LedgerError, match="does not name the database") as refusal:
            Ledger(url)
        assert "host/database#schema" in refusal.value.hint

    @pytest.mark.parametrize("name", ['Quo"ted %s', "Shared", "a{b}#c"])
    def test_a_schema_may_have_any_name(self, postgres: Server, database: str, name: str) -> None:
        quoted = psycopg.sql.Identifier(name).as_string()
        self.chief(postgres, database, f"CREATE SCHEMA {quoted} AUTHORIZATION {OWNER}")
        url = f"{postgres.url(database)}#{quote(name, safe='')}"
        with closing(Ledger(url)) as ledger:
            write(ledger, {"n": 1})
            write(ledger, {"n": 2})
        assert numbers(url) == [1, 2] == numbers(postgres.url(database))

    def test_a_sign_of_the_password_is_not_a_schema(self, postgres: Server, database: str) -> None:
        postgres.execute(f"ALTER ROLE {self.OTHER} PASSWORD 'a#b'")
        url = f"postgresql://{self.OTHER}:a#b@127.0.0.1:{postgres.port}/{database}"
        with closing(Ledger(f"{url}#{self.OTHER}")) as ledger:
            write(ledger, {"n": 1})
        assert numbers(url) == [1]


class TestPassword:
    def test_is_in_no_repr_error_or_log(
        self, postgres: Server, url: str, ledger: Ledger, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        shown = [repr(ledger), ledger.place, repr(vars(ledger)), repr(vars(ledger._storage))]
        postgres.stop()
        try:
            for use in (news, lambda _: Ledger(url), lambda ledger: write(ledger, {"n": 3})):
                with pytest.raises(LedgerError) as refusal:
                    use(ledger)
                shown += ["".join(traceback.format_exception(refusal.value)), repr(refusal.value)]
                assert refusal.value.__context__ is None
        finally:
            postgres.start()
        write(ledger, {"n": 3})
        shown += [caplog.text, postgres.log()]
        assert not [text for text in shown for secret in SECRETS if secret in text]

    def test_a_wrong_one_is_not_shown_either(self, url: str, ledger: Ledger) -> None:
        with pytest.raises(LedgerError, match="cannot be reached") as refusal:
            Ledger(url.replace("s3cret", "wr0ng"))
        assert "wr0ng" not in repr(refusal.value)
        assert refusal.value.__context__ is None
        assert "user and password" in refusal.value.hint

    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://u:t0p/s3cret@h/db",
            "postgresql://u:t0p@s3cret@h/db",
            "postgresql://u:t0p%s3cret@h/db",
            "postgresql://u:t0p/s3cret?x@h/db",
            "postgresql://h/db?s3cret=t0p",
            "postgresql:///host=h password=s3cret",
        ],
    )
    def test_an_address_that_cannot_be_read_is_not_shown(self, address: str) -> None:
        with pytest.raises(LedgerError, match="cannot be read") as refusal:
            Ledger(address)
        assert "s3cret" not in repr(refusal.value)
        assert "t0p" not in repr(refusal.value)
        assert refusal.value.__context__ is None
        assert "%40" in refusal.value.hint


class TestRequests:
    """Whole requests: what the analyst reads, and what it cost."""

    SQL = "SELECT COUNT(*) AS n FROM t"

    @staticmethod
    def opened(url: str, **options: Any) -> dpnb.Session:
        frame = pd.DataFrame({"x": [1, 2, 3]})
        table = dpnb.Table("t", frame, dpnb.Schema({"x": dpnb.Integer(0, 9)}))
        return dpnb.Session(table, ledger=url, **options)

    def test_two_services_answer_the_same_once(self, url: str) -> None:
        with self.opened(url, budget=dpnb.Budget(rho=1)) as one, self.opened(url) as other:
            first, second = one.query(self.SQL, rho=0.1), other.query(self.SQL, rho=0.1)
            assert second.stored
            assert second.to_frame().equals(first.to_frame())
            assert one.budget.spent == other.budget.spent
            assert one.budget.kept

    @pytest.mark.parametrize("heard", [False, True])
    def test_an_answer_cut_off_during_its_commit_is_free_if_it_was_paid_for(
        self, postgres: Server, schema: str, cut: Cut, heard: bool
    ) -> None:
        address = postgres.url(schema=schema, port=cut.own_port)
        with self.opened(address, budget=dpnb.Budget(rho=1)) as session:
            cut.word, cut.heard = COMMIT, heard
            with pytest.raises(LedgerError, match="if it was, that is free"):
                session.query(self.SQL, rho=0.25)
            again = session.query(self.SQL, rho=0.25)
            assert again.stored == heard
            assert session.budget.spent.rho * 4 == 1

    def test_an_answer_whose_reading_back_fails_is_not_called_free_of_charge(
        self, postgres: Server, schema: str, cut: Cut, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = postgres.url(schema=schema, port=cut.own_port)
        with self.opened(address, budget=dpnb.Budget(rho=1)) as session:
            ledger = runner(session).store.ledger
            commit = ledger._storage.commit

            def gone() -> None:
                commit()
                cut.close()

            monkeypatch.setattr(ledger._storage, "commit", gone)
            with pytest.raises(LedgerError, match="cannot be reached") as refusal:
                session.query(self.SQL, rho=0.25)
        assert "nothing was charged" not in refusal.value.hint
        assert "what was paid for is free" in refusal.value.hint
        with self.opened(postgres.url(schema=schema)) as session:
            assert session.query(self.SQL, rho=0.25).stored

    def test_a_service_outlives_its_server(self, postgres: Server, url: str) -> None:
        with self.opened(url, budget=dpnb.Budget(rho=1)) as session:
            session.query(self.SQL, rho=0.1)
            postgres.stop()
            try:
                with pytest.raises(LedgerError, match="cannot be reached"):
                    session.query(self.SQL, rho=0.2)
            finally:
                postgres.start()
            assert session.query(self.SQL, rho=0.1).stored
            session.query(self.SQL, rho=0.3)
            assert session.budget.spent.rho * 10 == 3
