"""The durable record: nothing half-written, nothing changed unseen, nothing readable by others."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpnb.errors import LedgerError
from dpnb.ledger.ledger import Ledger
from dpnb.ledger.locks import hold
from tests.kit.ledgers import FileHome, PostgresHome

Home = FileHome | PostgresHome
Entry = dict[str, object]


def news(ledger: Ledger) -> list[Entry]:
    """All that was appended since the last time."""
    return [entry for _, entry in ledger.read_new()]


def write(ledger: Ledger, *entries: Mapping[str, object]) -> None:
    with ledger.transaction() as append:
        news(ledger)
        for entry in entries:
            append(entry)


def fail(ledger: Ledger, error: BaseException, *entries: Mapping[str, object]) -> None:
    """Append within a transaction that then raises."""
    with ledger.transaction() as append:
        for entry in entries:
            append(entry)
        raise error


def read(address: Path | str) -> list[Entry]:
    ledger = Ledger(address)
    try:
        return news(ledger)
    finally:
        ledger.close()


def tamper(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def fill(address: Path | str) -> None:
    """Write a ledger of three entries."""
    ledger = Ledger(address)
    write(ledger, {"n": 1, "who": "Zoë"})
    write(ledger, {"n": 2, "knots": [1, -2, 3]}, {"n": 3})
    ledger.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of three entries in a file."""
    fill(tmp_path / "three.ledger")
    return tmp_path / "three.ledger"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """A ledger of three entries in each storage."""
    if request.param == "sqlite":
        found: Home = FileHome(tmp_path / "three.ledger")
    else:
        found = PostgresHome(request.getfixturevalue("postgres"))
    fill(found.address)
    return found


class TestDurability:
    def test_commits_survive_a_crash_of_the_machine(self, path: Path) -> None:
        ledger = Ledger(path)
        settings = {
            name: ledger._storage._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "trusted_schema")
        }
        ledger.close()
        assert settings == {"journal_mode": "delete", "synchronous": 3, "trusted_schema": 0}

    def test_what_was_written_is_read_again(self, home: Home) -> None:
        assert read(home.address) == [
            {"n": 1, "who": "Zoë"},
            {"n": 2, "knots": [1, -2, 3]},
            {"n": 3},
        ]

    def test_nobody_else_may_read_the_file(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            ledger = Ledger(tmp_path / "new.ledger")
            write(ledger, {"n": 1})
            ledger.close()
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "new.ledger").stat().st_mode) == 0o600
        assert [file.name for file in tmp_path.iterdir()] == ["new.ledger"]

    def test_a_file_that_others_could_read_is_closed(self, path: Path) -> None:
        path.chmod(0o644)
        Ledger(path).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_an_empty_file_is_closed_before_it_becomes_a_ledger(self, tmp_path: Path) -> None:
        path = tmp_path / "empty"
        path.touch(0o644)
        path.chmod(0o644)
        ledger = Ledger(path)
        assert news(ledger) == []
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        write(ledger, {"n": 1})
        ledger.close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_journal_left_by_a_crash_is_as_closed_as_the_file(self, path: Path) -> None:
        before = os.umask(0)
        try:
            ledger = Ledger(path)
            with ledger.transaction() as append:
                news(ledger)
                append({"n": 4, "knots": list(range(10_000))})
                ledger._storage._connection.execute("PRAGMA cache_spill=1")
                journal = path.with_name(path.name + "-journal")
                assert stat.S_IMODE(journal.stat().st_mode) == 0o600
            ledger.close()
        finally:
            os.umask(before)

    def test_entries_without_a_path_live_in_memory(self) -> None:
        ledger = Ledger()
        write(ledger, {"n": 1})
        assert news(ledger) == [{"n": 1}]
        assert news(ledger) == []
        assert ledger.path is None
        assert not ledger.kept
        assert repr(ledger) == "Ledger(in memory, 1 entries)"
        ledger.close()


class TestTransactions:
    def test_a_failed_block_leaves_nothing(self, home: Home) -> None:
        ledger = Ledger(home.address)
        known = news(ledger)

        with pytest.raises(ZeroDivisionError):
            fail(ledger, ZeroDivisionError(), {"n": 4}, {"n": 5})
        assert news(ledger) == []
        write(ledger, {"n": "after"})
        assert news(ledger) == [{"n": "after"}]
        ledger.close()
        assert read(home.address) == [*known, {"n": "after"}]

    def test_an_interrupt_leaves_nothing(self, home: Home) -> None:
        ledger = Ledger(home.address)
        news(ledger)
        with pytest.raises(KeyboardInterrupt):
            fail(ledger, KeyboardInterrupt(), {"n": 4})
        ledger.close()
        assert len(read(home.address)) == 3

    def test_an_interrupt_gives_the_right_to_write_back(self, home: Home) -> None:
        ledger, other = Ledger(home.address), Ledger(home.address, timeout=1)
        known = news(ledger)
        with pytest.raises(KeyboardInterrupt):
            fail(ledger, KeyboardInterrupt(), {"n": 4})
        write(other, {"n": "theirs"})
        write(ledger, {"n": "after"})
        ledger.close()
        other.close()
        assert read(home.address) == [*known, {"n": "theirs"}, {"n": "after"}]

    def test_what_is_not_json_is_not_written(self, home: Home) -> None:
        ledger = Ledger(home.address)
        news(ledger)
        for entry in ({"n": float("nan")}, {"n": {1, 2}}):
            with pytest.raises(LedgerError, match="cannot be written into the ledger"):
                write(ledger, {"n": 4}, entry)
        ledger.close()
        assert len(read(home.address)) == 3

    def test_the_writer_reads_its_own_entries_back(self, home: Home) -> None:
        ledger = Ledger(home.address)
        assert len(news(ledger)) == 3
        write(ledger, {"n": 4}, {"n": 5})
        assert ledger.sequence == 3
        assert news(ledger) == [{"n": 4}, {"n": 5}]
        assert ledger.sequence == 5
        ledger.close()

    def test_two_kernels_see_each_others_entries_in_one_order(self, home: Home) -> None:
        first, second = Ledger(home.address), Ledger(home.address)
        news(first)
        news(second)
        write(first, {"n": 4})
        write(second, {"n": 5})
        assert news(second) == [{"n": 5}]
        assert news(first) == [{"n": 4}, {"n": 5}]
        write(first, {"n": 6})
        assert news(second) == news(first) == [{"n": 6}]
        first.close()
        second.close()
        assert [entry["n"] for entry in read(home.address)] == [1, 2, 3, 4, 5, 6]

    def test_one_kernel_writes_at_a_time(self, home: Home) -> None:
        first, second = Ledger(home.address), Ledger(home.address, timeout=0.05)
        with first.transaction() as append:
            news(first)
            append({"n": 4})
            with pytest.raises(LedgerError) as refusal, second.transaction():
                raise AssertionError
        assert "in use by another kernel" in refusal.value.what
        assert "nothing was charged" in refusal.value.hint
        news(second)
        write(second, {"n": 5})
        first.close()
        second.close()
        assert [entry["n"] for entry in read(home.address)] == [1, 2, 3, 4, 5]

    def test_a_ledger_locked_by_another_program_is_busy(self, path: Path) -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="in use by another kernel"):
            Ledger(path, timeout=0.05)
        other.execute("ROLLBACK")
        other.close()
        assert len(read(path)) == 3


class TestChain:
    def test_any_changed_character_of_any_entry_is_noticed(self, home: Home) -> None:
        bodies = dict(home.run("SELECT seq, body FROM entry"))
        assert len(bodies) == 3
        for sequence, body in bodies.items():
            for place, character in enumerate(body):
                changed = body[:place] + chr(ord(character) ^ 1) + body[place + 1 :]
                home.run("UPDATE entry SET body = ? WHERE seq = ?", changed, sequence)
                with pytest.raises(
                    LedgerError, match=f"entry {sequence} of the ledger was changed"
                ):
                    read(home.address)
            home.run("UPDATE entry SET body = ? WHERE seq = ?", body, sequence)
        assert len(read(home.address)) == 3

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE entry SET body = body || ' ' WHERE seq = 2",
            "UPDATE entry SET body = '{}' WHERE seq = 1",
            "UPDATE entry SET hash = upper(hash) WHERE seq = 2",
            "UPDATE entry SET hash = (SELECT hash FROM entry WHERE seq = 1) WHERE seq = 2",
            "DELETE FROM entry WHERE seq = 1",
            "DELETE FROM entry WHERE seq = 2",
            "UPDATE entry SET seq = seq + 1 WHERE seq = 3",
            "UPDATE entry SET seq = seq + 10",
            "INSERT INTO entry SELECT 4, body, hash FROM entry WHERE seq = 3",
            "UPDATE entry SET body = (SELECT e.body FROM entry e WHERE e.seq = 5 - entry.seq) "
            "WHERE seq > 1",
        ],
    )
    def test_edits_deletions_swaps_and_copies_are_noticed(self, home: Home, statement: str) -> None:
        home.run(statement)
        with pytest.raises(LedgerError) as refusal:
            read(home.address)
        assert "was changed after it was written" in refusal.value.what
        assert "Restore the newest unchanged copy" in refusal.value.hint

    def test_an_edit_behind_the_back_of_an_open_ledger_stops_it(self, home: Home) -> None:
        ledger = Ledger(home.address)
        news(ledger)
        home.run("INSERT INTO entry VALUES (4, '{\"n\": 4}', 'made up')")
        for _ in range(2):
            with pytest.raises(LedgerError, match="entry 4 of the ledger was changed"):
                news(ledger)
        ledger.close()

    def test_a_storage_replaced_behind_an_open_ledger_takes_no_entry(self, home: Home) -> None:
        ledger = Ledger(home.address)
        older = home.copy()
        news(ledger)
        write(ledger, {"n": 4})
        news(ledger)
        home.restore(older)
        with pytest.raises(LedgerError, match="the ledger's (file|database) was replaced"):
            write(ledger, {"n": 5})
        ledger.close()
        assert len(read(home.address)) == 3

    def test_only_what_continues_the_chain_is_inserted(self, home: Home) -> None:
        ahead, behind = Ledger(home.address), Ledger(home.address)
        news(ahead)
        news(behind)
        write(ahead, {"n": 4})
        with (
            pytest.raises(
                LedgerError, match="another process wrote to the ledger meanwhile"
            ) as refusal,
            behind.transaction() as append,
        ):
            append({"n": "without reading what others wrote"})
        assert "nothing was charged" in refusal.value.hint
        write(behind, {"n": 5})
        ahead.close()
        behind.close()
        assert [entry["n"] for entry in read(home.address)] == [1, 2, 3, 4, 5]


RACER = """
import os, sys
from dpnb.ledger.ledger import Ledger
ledger = Ledger(sys.argv[1])
for number in range(25):
    with ledger.transaction() as append:
        for _ in ledger.read_new():
            pass
        append({"from": os.getpid(), "n": number})
print(os.getpid())
"""
HOLDER = """
import sys
from dpnb.ledger.ledger import Ledger
ledger = Ledger(sys.argv[1])
with ledger.transaction() as append:
    for _ in ledger.read_new():
        pass
    append({"n": "never committed"})
    print("holding", flush=True)
    sys.stdin.read()
"""


class TestSeveralWriters:
    def test_who_opens_the_file_again_gives_up_nobodys_right_to_write(self, path: Path) -> None:
        """A process that closes any descriptor of a file loses all its locks on it."""
        begin = "import sqlite3, sys; sqlite3.connect(sys.argv[1], 0.1).execute('BEGIN IMMEDIATE')"
        ledger = Ledger(path)
        with ledger.transaction():
            Ledger(path).close()
            command = [sys.executable, "-c", begin, str(path)]
            tried = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "database is locked" in tried.stderr
        ledger.close()

    def test_processes_that_race_lose_no_entry(self, home: Home) -> None:
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER, str(home.address)], stdout=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        names = [int(racer.communicate(timeout=120)[0]) for racer in racers]
        assert [racer.returncode for racer in racers] == [0] * 4
        entries = read(home.address)[3:]
        assert len(entries) == 100
        for name in names:
            assert [e["n"] for e in entries if e["from"] == name] == list(range(25))

    def test_threads_of_one_process_share_a_ledger(self, home: Home) -> None:
        ledger = Ledger(home.address)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                for number in range(10):
                    write(ledger, {"n": number})
                    news(ledger)
            except BaseException as error:  # noqa: BLE001 - looked at below
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ledger.close()
        assert failures == []
        assert len(read(home.address)) == 3 + 60

    def test_a_writer_that_is_killed_leaves_nothing_and_holds_nobody_up(self, home: Home) -> None:
        ledger = Ledger(home.address, timeout=20)
        for _ in range(3):
            holder = subprocess.Popen(
                [sys.executable, "-c", HOLDER, str(home.address)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            with holder:
                assert holder.stdout.readline() == "holding\n"
                holder.kill()
            write(ledger, {"n": "after"})
        ledger.close()
        assert [entry["n"] for entry in read(home.address)] == [1, 2, 3, *["after"] * 3]

    def test_a_forked_process_has_to_open_its_own(self, home: Home) -> None:
        ledger = Ledger(home.address)
        news(ledger)
        child = os.fork()
        if child == 0:
            try:
                for use in (news, lambda ledger: write(ledger, {"n": 4})):
                    with pytest.raises(LedgerError, match="opened in another process"):
                        use(ledger)
                ledger.close()
                own = Ledger(home.address)
                write(own, {"n": "child"})
                own.close()
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        write(ledger, {"n": "parent"})
        ledger.close()
        assert [entry["n"] for entry in read(home.address)][3:] == ["child", "parent"]

    def test_so_does_what_runs_under_another_number(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger, number = Ledger(path), os.getpid()
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: number + 1)
            with pytest.raises(LedgerError, match="opened in another process") as refusal:
                news(ledger)
            assert refusal.value.hint == "Open it in this one."
            assert len(read(path)) == 3
        assert len(news(ledger)) == 3
        ledger.close()


class TestUnusableFiles:
    @pytest.mark.parametrize("linked", [False, True])
    @pytest.mark.parametrize("kind", ["text", "database"])
    def test_what_is_no_ledger_keeps_its_mode(
        self, tmp_path: Path, linked: bool, kind: str
    ) -> None:
        other, link = tmp_path / "other", tmp_path / "link"
        if kind == "text":
            other.write_text("These are not the entries you are looking for. " * 50)
        else:
            tamper(other, "CREATE TABLE notes (text)")
        other.chmod(0o644)
        link.symlink_to(other)
        before = other.stat()
        with pytest.raises(LedgerError, match="the file is damaged or not a ledger"):
            Ledger(link if linked else other)
        assert (other.stat().st_mode, other.stat().st_mtime_ns, other.stat().st_ctime_ns) == (
            before.st_mode, before.st_mtime_ns, before.st_ctime_ns,
        )  # fmt: skip
        assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "other"]

    def test_links_in_a_circle_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "one").symlink_to(tmp_path / "two")
        (tmp_path / "two").symlink_to(tmp_path / "one")
        with pytest.raises(LedgerError, match="cannot be created"):
            Ledger(tmp_path / "one")

    @pytest.mark.parametrize(
        ("lose", "said"),
        [
            (Path.unlink, "was deleted or moved away while it was in use"),
            (lambda path: path.rename(path.with_name("away")), "was deleted or moved away"),
            (lambda path: Path(shutil.copy(path, f"{path}2")).replace(path), "was replaced by"),
        ],
        ids=["deleted", "moved", "replaced"],
    )
    def test_a_file_that_was_taken_away_is_said_to_be(
        self, path: Path, lose: Callable[[Path], object], said: str
    ) -> None:
        ledger = Ledger(path)
        news(ledger)
        lose(path)
        with pytest.raises(LedgerError, match=said) as refusal:
            write(ledger, {"n": 4})
        ledger.close()
        assert "nothing was charged" in refusal.value.hint
        assert "permissions" not in str(refusal.value)

    def test_garbage_is_no_ledger(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_bytes(b"These are not the entries you are looking for. " * 50)
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="the file is damaged or not a ledger"):
            Ledger(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        "statement",
        [
            "CREATE TABLE entry (something TEXT)",
            "CREATE TABLE notes (text)",
            "PRAGMA user_version=7",
        ],
    )
    def test_another_database_is_no_ledger(self, tmp_path: Path, statement: str) -> None:
        path = tmp_path / "other.db"
        tamper(path, statement)
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="the file is damaged or not a ledger"):
            read(path)
        assert path.read_bytes() == before

    def test_a_ledger_whose_table_lost_its_name_does_not_begin_anew(self, path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"entry", b"entrz"))
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="the file is damaged or not a ledger"):
            write(Ledger(path), {"n": 1})
        assert path.read_bytes() == before

    @pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
    def test_a_truncated_file_is_refused(self, path: Path, share: float) -> None:
        os.truncate(path, int(path.stat().st_size * share))
        with pytest.raises(LedgerError):
            read(path)

    @pytest.mark.parametrize("name", ["missing/deep.ledger", "."])
    def test_a_missing_folder_or_a_folder_in_its_place_is_refused(
        self, tmp_path: Path, name: str
    ) -> None:
        with pytest.raises(LedgerError) as refusal:
            Ledger(tmp_path / name)
        assert "cannot be created" in refusal.value.what
        assert refusal.value.where == str(tmp_path / name)

    @pytest.mark.parametrize(
        "address",
        [
            "postgresql+psycopg://u:secret@h/db",
            "PostgreSQL://u:secret@h/db",
            "mysql://u:secret@h/db",
            "postgresql:/u:secret@h/db",
            Path("postgresql://u:secret@h/db"),
        ],
        ids=str,
    )
    def test_a_url_of_an_unknown_kind_is_no_file_and_is_not_shown(
        self, address: str | Path
    ) -> None:
        with pytest.raises(
            LedgerError, match="the URL of the ledger must start with postgresql://"
        ) as refusal:
            Ledger(address)
        assert "secret" not in str(refusal.value)

    def test_a_url_that_says_something_else_than_was_meant_is_not_shown(self) -> None:
        pytest.importorskip("psycopg")
        with pytest.raises(LedgerError, match="URL of the ledger cannot be read") as refusal:
            Ledger("postgresql://u:p@ss@h/db")
        assert "p@ss" not in repr(refusal.value)
        assert "%40 for @" in refusal.value.hint
        from dpnb.ledger.postgres import _parameters

        assert _parameters("postgresql://u:p%40ss@h/db").items() >= {
            ("password", "p@ss"), ("host", "h"), ("dbname", "db"),
        }  # fmt: skip

    def test_postgres_without_its_package_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        monkeypatch.delitem(sys.modules, "dpnb.ledger.postgres", raising=False)
        with pytest.raises(LedgerError, match="in PostgreSQL needs psycopg") as refusal:
            Ledger("postgresql://u:secret@h/db")
        assert refusal.value.hint == "Run pip install 'dpnb[postgres]'."
        assert "secret" not in str(refusal.value)
        Ledger(tmp_path / "file.ledger").close()

    def test_a_file_without_write_permission_is_refused(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", denied)
        with pytest.raises(LedgerError, match="cannot be written") as refusal:
            Ledger(path)
        assert "permissions" in refusal.value.hint

    def test_a_file_that_became_read_only_takes_no_entry(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        ledger._storage._connection.execute("PRAGMA query_only=ON")
        with pytest.raises(LedgerError, match="cannot be written"), ledger.transaction() as append:
            append({"n": 4})
        ledger.close()
        assert len(read(path)) == 3

    def test_a_full_disk_is_named_and_nothing_is_written(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        pages = ledger._storage._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._storage._connection.execute(f"PRAGMA max_page_count={pages}")
        with (
            pytest.raises(LedgerError, match=r"the disk is full.*nothing was charged"),
            ledger.transaction() as append,
        ):
            append({"n": 4, "knots": list(range(10_000))})
        assert len(read(path)) == 3
        ledger._storage._connection.execute("PRAGMA max_page_count=1000000")
        write(ledger, {"n": 4, "knots": list(range(10_000))})
        ledger.close()
        assert len(read(path)) == 4

    def test_no_refusal_carries_a_cause_or_an_entry(self, home: Home) -> None:
        home.run("UPDATE entry SET body = 'secret' WHERE seq = 2")
        with pytest.raises(LedgerError) as refusal:
            read(home.address)
        assert refusal.value.__cause__ is None
        assert "secret" not in str(refusal.value)


class TestAnchor:
    @staticmethod
    def opened(address: Path | str, anchor: Path | None) -> Ledger:
        # the ledgers of these tests were filled without one
        begin = anchor is not None and not anchor.exists()
        ledger = Ledger(address, anchor=anchor, new_anchor=begin)
        try:
            news(ledger)
        except LedgerError:
            ledger.close()
            raise
        return ledger

    @pytest.fixture
    def anchor(self, tmp_path: Path) -> Path:
        """An anchor's path; nothing is there yet."""
        return tmp_path / "anchor"

    def test_holds_the_last_number_and_hash(self, home: Home, anchor: Path) -> None:
        ledger = self.opened(home.address, anchor)
        assert anchor.read_text().split()[0] == "3"
        write(ledger, {"n": 4})
        number, digest = anchor.read_text().split()
        ledger.close()
        assert home.run("SELECT seq, hash FROM entry WHERE seq = 4") == [(int(number), digest)]

    def refuse_restored(self, home: Home, anchor: Path, restore: Callable[[], object]) -> None:
        ledger = self.opened(home.address, anchor)
        write(ledger, {"n": 4})
        ledger.close()
        restore()
        for _ in range(2):
            with pytest.raises(LedgerError, match="older than its anchor"):
                self.opened(home.address, anchor)
        self.opened(home.address, None).close()

    @pytest.mark.parametrize(
        "statement", ["", "DELETE FROM entry WHERE seq = 4", "DELETE FROM entry"]
    )
    def test_a_restored_older_ledger_is_refused_with_an_anchor_and_undetected_without(
        self, home: Home, anchor: Path, statement: str
    ) -> None:
        older = home.copy()
        self.refuse_restored(
            home, anchor, lambda: home.run(statement) if statement else home.restore(older)
        )

    @pytest.mark.parametrize("lose", [lambda path: os.truncate(path, 0), Path.unlink])
    def test_so_is_a_file_that_was_emptied_or_deleted(
        self, path: Path, anchor: Path, lose: Callable[[Path], object]
    ) -> None:
        self.refuse_restored(FileHome(path), anchor, lambda: lose(path))

    def test_a_ledger_that_took_another_turn_is_refused(self, home: Home, anchor: Path) -> None:
        older = home.copy()
        ledger = self.opened(home.address, anchor)
        write(ledger, {"n": 4})
        ledger.close()
        home.restore(older)
        fork = self.opened(home.address, None)
        write(fork, {"n": "other"}, {"n": 5})
        fork.close()
        with pytest.raises(LedgerError, match="older than its anchor"):
            self.opened(home.address, anchor)

    def test_an_anchor_that_is_behind_catches_up(self, home: Home, anchor: Path) -> None:
        ledger = self.opened(home.address, anchor)
        behind = anchor.read_text()
        write(ledger, {"n": 4})
        ledger.close()
        anchor.write_text(behind)
        self.opened(home.address, anchor).close()
        assert anchor.read_text().split()[0] == "4"

    def test_a_slower_kernel_does_not_set_it_back(self, home: Home, anchor: Path) -> None:
        fast, slow = self.opened(home.address, anchor), self.opened(home.address, anchor)
        write(fast, {"n": 4})
        newest = anchor.read_text()
        news(slow)
        assert anchor.read_text() == newest
        fast.close()
        slow.close()

    def test_nor_does_one_that_is_overtaken_between_commit_and_anchor(
        self, home: Home, anchor: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = self.opened(home.address, anchor), self.opened(home.address, anchor)
        replace, rivals = one._replace_anchor, []

        def overtaken(*given: Any) -> None:
            rivals.append(threading.Thread(target=write, args=(other, {"n": 5})))
            rivals[0].start()
            rivals[0].join(0.5)
            replace(*given)

        monkeypatch.setattr(one, "_replace_anchor", overtaken)
        write(one, {"n": 4})
        rivals[0].join()
        assert home.run("SELECT MAX(seq) FROM entry") == [(5,)]
        assert anchor.read_text().split()[0] == "5"
        one.close()
        other.close()

    def test_who_waits_too_long_for_it_charges_nothing(self, home: Home, anchor: Path) -> None:
        self.opened(home.address, anchor).close()
        held = hold(anchor.with_name("anchor.lock"))
        ledger = Ledger(home.address, anchor=anchor, timeout=0.05)
        with pytest.raises(LedgerError, match="in use by another kernel") as refusal:
            write(ledger, {"n": 4})
        assert refusal.value.hint == "Try again; nothing was charged."
        assert anchor.read_text().split()[0] == "3"
        os.close(held)
        write(ledger, {"n": 4})
        ledger.close()
        assert anchor.read_text().split()[0] == "4"

    def test_a_commit_that_fails_leaves_it_as_it_was(
        self, home: Home, anchor: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger = self.opened(home.address, anchor)
        before = anchor.read_text()
        with monkeypatch.context() as broken:
            broken.setattr(type(ledger._storage), "commit", lambda _: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                write(ledger, {"n": 4})
        assert anchor.read_text() == before
        write(ledger, {"n": "after"})
        ledger.close()
        assert anchor.read_text().split()[0] == "4"

    def test_what_it_does_not_know_is_not_read_in_peace(
        self, home: Home, anchor: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither by the kernel whose disk was full, nor by another one."""
        one, other = self.opened(home.address, anchor), self.opened(home.address, anchor)
        behind = anchor.read_text()
        with monkeypatch.context() as full:
            full.setattr(Ledger, "_replace_anchor", lambda *_: (_ for _ in ()).throw(OSError))
            with pytest.raises(LedgerError, match="anchor cannot be written"):
                write(one, {"n": 4})
            for ledger in (one, other, one):
                with pytest.raises(LedgerError, match="anchor cannot be written"):
                    news(ledger)
                with pytest.raises(LedgerError, match="anchor cannot be written"):
                    write(ledger)
        assert anchor.read_text() == behind
        news(other)
        assert anchor.read_text().split()[0] == "4"
        one.close()
        other.close()

    def test_a_kernel_that_dies_before_it_wrote_it_is_followed(
        self, home: Home, anchor: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = self.opened(home.address, anchor), self.opened(home.address, anchor)
        monkeypatch.setattr(one, "_write_anchor", lambda *_: None)
        write(one, {"n": 4})
        one.close()
        assert news(other) == [{"n": 4}]
        assert anchor.read_text().split()[0] == "4"
        other.close()

    @pytest.mark.parametrize("mask", [0o000, 0o022])
    def test_nobody_else_may_read_it_whatever_the_umask(
        self, path: Path, anchor: Path, mask: int
    ) -> None:
        before = os.umask(mask)
        try:
            ledger = self.opened(path, anchor)
            write(ledger, {"n": 4})
            ledger.close()
        finally:
            os.umask(before)
        assert anchor.read_text().split()[0] == "4"
        assert stat.S_IMODE(anchor.stat().st_mode) == 0o600

    def test_a_ledger_with_entries_whose_anchor_is_gone_is_refused(
        self, home: Home, anchor: Path
    ) -> None:
        ledger = self.opened(home.address, anchor)
        anchor.unlink()
        with pytest.raises(LedgerError, match="has entries, but its anchor .* is missing"):
            write(ledger, {"n": 4})
        ledger.close()
        for use in (news, lambda ledger: write(ledger, {"n": 4})):
            ledger = Ledger(home.address, anchor=anchor)
            with pytest.raises(LedgerError, match="new_anchor=True"):
                use(ledger)
            ledger.close()
        assert not anchor.exists()
        assert len(read(home.address)) == 3

    def test_the_owner_begins_an_anchor_once(self, path: Path, anchor: Path) -> None:
        ledger = Ledger(path, anchor=anchor, new_anchor=True)
        news(ledger)
        assert anchor.read_text().split()[0] == "3"
        anchor.unlink()
        with pytest.raises(LedgerError, match="is missing"):
            write(ledger, {"n": 4})
        ledger.close()

    def test_a_new_ledger_begins_its_own(self, tmp_path: Path, anchor: Path) -> None:
        for entries in (0, 1):
            ledger = Ledger(tmp_path / "new.ledger", anchor=anchor)
            assert len(news(ledger)) == entries
            write(ledger, {"n": 1})
            ledger.close()
        assert anchor.read_text().split()[0] == "2"

    @pytest.mark.parametrize("content", ["", "4", "four abc", "1 2 3", "0 notes\n", "\udcff"])
    def test_an_unreadable_anchor_is_refused(self, path: Path, anchor: Path, content: str) -> None:
        anchor.write_bytes(content.encode("utf-8", "surrogateescape"))
        with pytest.raises(LedgerError, match="anchor cannot be read"):
            self.opened(path, anchor)

    def test_an_anchor_in_a_missing_folder_is_refused_and_leaves_no_draft(
        self, path: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(LedgerError, match="anchor cannot be written"):
            self.opened(path, tmp_path / "missing" / "anchor")
        assert sorted(file.name for file in tmp_path.iterdir()) == ["three.ledger"]


class TestSecrecy:
    def test_cannot_be_pickled_or_copied(self, home: Home) -> None:
        ledger = Ledger(home.address)
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="as secret as the data"):
                copier(ledger)
        ledger.close()

    def test_shows_its_place_and_no_entry(self, home: Home) -> None:
        ledger = Ledger(home.address)
        news(ledger)
        assert repr(ledger) == f"Ledger({home.shown}, 3 entries)"
        ledger.close()

    def test_a_closed_ledger_answers_with_our_error(self, home: Home) -> None:
        ledger = Ledger(home.address)
        ledger.close()
        ledger.close()
        with pytest.raises(LedgerError):
            news(ledger)
