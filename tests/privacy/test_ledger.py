"""The durable record: nothing half-written, nothing changed unseen, nothing readable by others."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import sqlite3
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dpnb.errors import LedgerError
from dpnb.privacy.ledger import Ledger

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


def read(path: Path) -> list[Entry]:
    ledger = Ledger(path)
    try:
        return news(ledger)
    finally:
        ledger.close()


def tamper(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of three entries."""
    path = tmp_path / "three.ledger"
    ledger = Ledger(path)
    write(ledger, {"n": 1, "who": "Zoë"})
    write(ledger, {"n": 2, "knots": [1, -2, 3]}, {"n": 3})
    ledger.close()
    return path


class TestDurability:
    def test_commits_survive_a_crash_of_the_machine(self, path: Path) -> None:
        ledger = Ledger(path)
        settings = {
            name: ledger._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "trusted_schema")
        }
        ledger.close()
        assert settings == {"journal_mode": "delete", "synchronous": 3, "trusted_schema": 0}

    def test_what_was_written_is_read_again(self, path: Path) -> None:
        assert read(path) == [{"n": 1, "who": "Zoë"}, {"n": 2, "knots": [1, -2, 3]}, {"n": 3}]

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

    def test_a_journal_left_by_a_crash_is_as_closed_as_the_file(self, path: Path) -> None:
        before = os.umask(0)
        try:
            ledger = Ledger(path)
            with ledger.transaction() as append:
                news(ledger)
                append({"n": 4, "knots": list(range(10_000))})
                ledger._connection.execute("PRAGMA cache_spill=1")
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
        assert repr(ledger) == "Ledger(in memory, 1 entries)"
        ledger.close()


class TestTransactions:
    def test_a_failed_block_leaves_nothing(self, path: Path) -> None:
        ledger = Ledger(path)
        known = news(ledger)

        with pytest.raises(ZeroDivisionError):
            fail(ledger, ZeroDivisionError(), {"n": 4}, {"n": 5})
        assert news(ledger) == []
        write(ledger, {"n": "after"})
        assert news(ledger) == [{"n": "after"}]
        ledger.close()
        assert read(path) == [*known, {"n": "after"}]

    def test_an_interrupt_leaves_nothing(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        with pytest.raises(KeyboardInterrupt):
            fail(ledger, KeyboardInterrupt(), {"n": 4})
        ledger.close()
        assert len(read(path)) == 3

    def test_what_is_not_json_is_not_written(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        for entry in ({"n": float("nan")}, {"n": {1, 2}}):
            with pytest.raises((ValueError, TypeError)):
                write(ledger, {"n": 4}, entry)
        ledger.close()
        assert len(read(path)) == 3

    def test_the_writer_reads_its_own_entries_back(self, path: Path) -> None:
        ledger = Ledger(path)
        assert len(news(ledger)) == 3
        write(ledger, {"n": 4}, {"n": 5})
        assert ledger.sequence == 3
        assert news(ledger) == [{"n": 4}, {"n": 5}]
        assert ledger.sequence == 5
        ledger.close()

    def test_two_kernels_see_each_others_entries_in_one_order(self, path: Path) -> None:
        first, second = Ledger(path), Ledger(path)
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
        assert [entry["n"] for entry in read(path)] == [1, 2, 3, 4, 5, 6]

    def test_one_kernel_writes_at_a_time(self, path: Path) -> None:
        first, second = Ledger(path), Ledger(path, timeout=0.05)
        with first.transaction() as append:
            news(first)
            append({"n": 4})
            with pytest.raises(LedgerError) as refusal, second.transaction():
                raise AssertionError
        assert "in use by another kernel" in refusal.value.what
        assert "nothing was charged" in refusal.value.mend
        news(second)
        write(second, {"n": 5})
        first.close()
        second.close()
        assert [entry["n"] for entry in read(path)] == [1, 2, 3, 4, 5]

    def test_a_ledger_locked_by_another_program_is_busy(self, path: Path) -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="in use by another kernel"):
            Ledger(path, timeout=0.05)
        other.execute("ROLLBACK")
        other.close()
        assert len(read(path)) == 3


class TestChain:
    def test_any_changed_character_of_any_entry_is_noticed(self, path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        bodies = dict(connection.execute("SELECT seq, body FROM entry").fetchall())
        assert len(bodies) == 3
        for sequence, body in bodies.items():
            for place, character in enumerate(body):
                changed = body[:place] + chr(ord(character) ^ 1) + body[place + 1 :]
                connection.execute("UPDATE entry SET body = ? WHERE seq = ?", (changed, sequence))
                with pytest.raises(
                    LedgerError, match=f"entry {sequence} of the ledger was changed"
                ):
                    read(path)
            connection.execute("UPDATE entry SET body = ? WHERE seq = ?", (body, sequence))
        connection.close()
        assert len(read(path)) == 3

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
    def test_edits_deletions_swaps_and_copies_are_noticed(self, path: Path, statement: str) -> None:
        tamper(path, statement)
        with pytest.raises(LedgerError) as refusal:
            read(path)
        assert "was changed after it was written" in refusal.value.what
        assert "Restore the newest unchanged copy" in refusal.value.mend

    def test_an_edit_behind_the_back_of_an_open_ledger_stops_it(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        tamper(path, "INSERT INTO entry VALUES (4, '{\"n\": 4}', 'made up')")
        for _ in range(2):
            with pytest.raises(LedgerError, match="entry 4 of the ledger was changed"):
                news(ledger)
        ledger.close()


class TestUnusableFiles:
    def test_garbage_is_no_ledger(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_bytes(b"These are not the entries you are looking for. " * 50)
        before = path.read_bytes()
        with pytest.raises(LedgerError, match="damaged or no ledger"):
            Ledger(path)
        assert path.read_bytes() == before

    def test_another_database_is_no_ledger(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        tamper(path, "CREATE TABLE entry (something TEXT)")
        with pytest.raises(LedgerError, match="cannot be used"):
            read(path)

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

    def test_a_file_without_write_permission_is_refused(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", denied)
        with pytest.raises(LedgerError, match="cannot be written") as refusal:
            Ledger(path)
        assert "permissions" in refusal.value.mend

    def test_a_file_that_became_read_only_takes_no_entry(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        ledger._connection.execute("PRAGMA query_only=ON")
        with pytest.raises(LedgerError, match="cannot be written"), ledger.transaction() as append:
            append({"n": 4})
        ledger.close()
        assert len(read(path)) == 3

    def test_a_full_disk_is_named_and_nothing_is_written(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(LedgerError, match="the disk is full"), ledger.transaction() as append:
            append({"n": 4, "knots": list(range(10_000))})
        ledger.close()
        assert len(read(path)) == 3

    def test_no_refusal_carries_a_cause_or_an_entry(self, path: Path) -> None:
        tamper(path, "UPDATE entry SET body = 'secret' WHERE seq = 2")
        with pytest.raises(LedgerError) as refusal:
            read(path)
        assert refusal.value.__cause__ is None
        assert "secret" not in str(refusal.value)


class TestAnchor:
    @staticmethod
    def opened(path: Path, anchor: Path | None) -> Ledger:
        ledger = Ledger(path, anchor=anchor)
        try:
            news(ledger)
            ledger.check_anchor()
        except LedgerError:
            ledger.close()
            raise
        return ledger

    @pytest.fixture
    def anchor(self, tmp_path: Path) -> Path:
        """An anchor's path; nothing is there yet."""
        return tmp_path / "anchor"

    def test_holds_the_last_number_and_hash(self, path: Path, anchor: Path) -> None:
        ledger = self.opened(path, anchor)
        assert anchor.read_text().split()[0] == "3"
        write(ledger, {"n": 4})
        number, digest = anchor.read_text().split()
        ledger.close()
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT seq, hash FROM entry WHERE seq = 4").fetchone() == (
            int(number),
            digest,
        )
        connection.close()

    @pytest.mark.parametrize(
        "restore",
        [
            lambda path, copy_: shutil.copy(copy_, path),
            lambda path, _: tamper(path, "DELETE FROM entry WHERE seq = 4"),
            lambda path, _: os.truncate(path, 0),
            lambda path, _: path.unlink(),
        ],
        ids=["older copy", "last entry gone", "emptied", "deleted"],
    )
    def test_a_restored_older_ledger_is_refused_with_an_anchor_and_undetected_without(
        self, path: Path, anchor: Path, restore: Callable[[Path, Path], object]
    ) -> None:
        older = path.with_name("older")
        shutil.copy(path, older)
        ledger = self.opened(path, anchor)
        write(ledger, {"n": 4})
        ledger.close()
        restore(path, older)
        for _ in range(2):
            with pytest.raises(LedgerError, match="older than its anchor"):
                self.opened(path, anchor)
        self.opened(path, None).close()

    def test_a_ledger_that_took_another_turn_is_refused(self, path: Path, anchor: Path) -> None:
        older = path.with_name("older")
        shutil.copy(path, older)
        ledger = self.opened(path, anchor)
        write(ledger, {"n": 4})
        ledger.close()
        fork = self.opened(older, None)
        write(fork, {"n": "other"}, {"n": 5})
        fork.close()
        with pytest.raises(LedgerError, match="older than its anchor"):
            self.opened(older, anchor)

    def test_an_anchor_that_is_behind_catches_up(self, path: Path, anchor: Path) -> None:
        ledger = self.opened(path, anchor)
        behind = anchor.read_text()
        write(ledger, {"n": 4})
        ledger.close()
        anchor.write_text(behind)
        self.opened(path, anchor).close()
        assert anchor.read_text().split()[0] == "4"

    def test_a_slower_kernel_does_not_set_it_back(self, path: Path, anchor: Path) -> None:
        fast, slow = self.opened(path, anchor), self.opened(path, anchor)
        write(fast, {"n": 4})
        newest = anchor.read_text()
        slow.check_anchor()
        assert anchor.read_text() == newest
        fast.close()
        slow.close()

    @pytest.mark.parametrize("content", ["", "4", "four abc", "1 2 3", "\udcff"])
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
    def test_cannot_be_pickled_or_copied(self, path: Path) -> None:
        ledger = Ledger(path)
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="as secret as the data"):
                copier(ledger)
        ledger.close()

    def test_shows_its_place_and_no_entry(self, path: Path) -> None:
        ledger = Ledger(path)
        news(ledger)
        assert repr(ledger) == f"Ledger({path}, 3 entries)"
        ledger.close()

    def test_a_closed_ledger_answers_with_our_error(self, path: Path) -> None:
        ledger = Ledger(path)
        ledger.close()
        ledger.close()
        with pytest.raises(LedgerError):
            news(ledger)
