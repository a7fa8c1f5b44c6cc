"""A ledger that is put back as it was, copied, or put beside other data.

Promised: with an anchor kept elsewhere a copy that lacks a charge is refused, when it is opened and before
anything is charged to it. An open session goes on counting what it has seen, whatever is done to the file. A
ledger opens on the data that it knows, and its charges stay when the owner declares new ones.

Not promised, without an anchor: that a copy is noticed. Its budget looks unspent, and what is asked anew is drawn
anew, so each time that it is put back costs one more cap, and no more than that. Only what was drawn before
the copy was made stays the same; in pure DP that is every level of a view that was asked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Integer, Schema, Table, Unit
from dpnb.errors import BudgetError, LedgerError
from dpnb.ledger.ledger import Ledger
from dpnb.ledger.sqlite import SQLiteStorage
from tests.kit.guessing import with_gaussians
from tests.kit.inside import runner

GROUPS = 1_500
SCHEMA = Schema({"g": Integer(0, GROUPS - 1)})
THERE = np.random.default_rng(3).random(GROUPS) < 0.5
FRAME = pd.DataFrame({"g": np.flatnonzero(THERE)})
TABLE = Table("t", FRAME, SCHEMA)
COUNT = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
FIRST = "SELECT COUNT(*) AS n FROM t"
RHO = Fraction(1, 2)


@pytest.fixture
def stack():
    with ExitStack() as found:
        yield found


@pytest.fixture
def opened(stack, tmp_path):
    """Open sessions on files of one folder; the first one of a file gets the cap."""

    def make(name="l", table=TABLE, **options):
        path = tmp_path / name
        if not path.exists():
            options = {"budget": dpnb.Budget(rho=RHO), **options}
        return stack.enter_context(dpnb.Session(table, ledger=path, **options))

    return make


def numbers(answer):
    return np.array(answer.estimates[0].count)


class TestPutBack:
    def attack(self, opened, path, times):
        """Spend everything, put back the ledger as it was before, and so on; what was told each time."""
        opened().close()
        shutil.copy(path, path.with_suffix(".old"))
        told = []
        for _ in range(times):
            with opened() as session:
                assert session.budget.spent.rho == 0
                told.append(numbers(session.query(COUNT, rho=RHO)))
                with pytest.raises(BudgetError):
                    session.query(FIRST, rho="0.01")
            shutil.copy(path.with_suffix(".old"), path)
        return told

    def test_each_time_costs_one_more_cap_and_no_more(self, opened, tmp_path, reaches, equals):
        told = self.attack(opened, tmp_path / "l", 4)
        assert len({one.tobytes() for one in told}) == 4
        hits = (np.mean(told, axis=0) > 0.5) == THERE
        assert equals(hits, with_gaussians(4 * RHO))
        assert not reaches(~hits, 1 - with_gaussians(RHO))

    def test_an_anchor_refuses_it(self, opened, tmp_path):
        anchor = tmp_path / "elsewhere"
        opened(anchor=anchor).close()
        shutil.copy(tmp_path / "l", tmp_path / "old")
        with opened(anchor=anchor) as session:
            session.query(COUNT, rho=RHO)
        shutil.copy(tmp_path / "old", tmp_path / "l")
        for _ in range(2):
            with pytest.raises(LedgerError, match="older than its anchor") as caught:
                opened(anchor=anchor)
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize("again", ["query", "infer"])
    def test_nothing_is_shown_that_the_anchor_does_not_know(
        self, again, opened, tmp_path, monkeypatch
    ):
        """Else a copy from before could be put back, and deny what was shown."""
        anchor = tmp_path / "elsewhere"
        session = opened(anchor=anchor)
        with monkeypatch.context() as full:
            full.setattr(Ledger, "_replace_anchor", lambda *_: (_ for _ in ()).throw(OSError))
            asked = [lambda: session.query(FIRST, rho=RHO)]
            asked += [asked[0] if again == "query" else lambda: session.infer(FIRST)] * 2
            for ask in asked:
                with pytest.raises(LedgerError, match="anchor cannot be written"):
                    ask()
        assert session.query(FIRST, rho=RHO).stored
        number = anchor.read_text().split()[0]
        assert int(number) == runner(session).store.ledger.sequence

    def test_what_was_drawn_before_is_the_same_and_what_comes_after_is_not(self, opened, tmp_path):
        with opened() as session:
            first = numbers(session.query(COUNT, rho="0.1"))
        shutil.copy(tmp_path / "l", tmp_path / "old")
        later = []
        for _ in range(2):
            shutil.copy(tmp_path / "old", tmp_path / "l")
            with opened() as session:
                again = session.query(COUNT, rho="0.1")
                assert again.stored
                assert np.array_equal(numbers(again), first)
                later.append(numbers(session.query(COUNT, rho="0.3")))
        assert not np.array_equal(*later)

    def test_in_pure_dp_a_finer_level_of_what_was_asked_before_is_the_same_too(
        self, opened, tmp_path
    ):
        with opened(budget=dpnb.Budget(epsilon=2)) as session:
            session.query(COUNT, epsilon="0.1")
        shutil.copy(tmp_path / "l", tmp_path / "old")
        finer, other = [], []
        for _ in range(2):
            shutil.copy(tmp_path / "old", tmp_path / "l")
            with opened() as session:
                finer.append(numbers(session.query(COUNT, epsilon=1)))
                other.append(numbers(session.query(FIRST, epsilon="0.5")))
        assert np.array_equal(*finer)
        assert not np.array_equal(*other)

    def test_whose_rows_are_kept_stays_as_it_is(self, opened, tmp_path):
        """The secret that picks them is in the ledger: putting it back does not show others."""
        frame = pd.DataFrame({"id": 1, "g": range(200)})
        table = Table("t", frame, SCHEMA, Unit("id", max_rows=3))
        kept = []
        for _ in range(3):
            with opened(table=table) as session:
                engine = runner(session).engines["t"]
                kept.append(
                    engine._connection.execute("SELECT * FROM rows ORDER BY ALL").fetchall()
                )
            shutil.copy(tmp_path / "l", tmp_path / "old")
            shutil.copy(tmp_path / "old", tmp_path / "l")
        assert kept[0] == kept[1] == kept[2]
        assert len(kept[0]) == 3


class TestUnderAnOpenSession:
    @pytest.mark.parametrize("put", [shutil.copy, os.replace], ids=["written over", "renamed"])
    @pytest.mark.parametrize("anchored", [True, False])
    def test_a_charge_is_not_forgotten(self, put, anchored, opened, tmp_path):
        anchor = tmp_path / "elsewhere" if anchored else None
        session = opened(anchor=anchor)
        shutil.copy(tmp_path / "l", tmp_path / "old")
        session.query(COUNT, rho="0.3")
        put(tmp_path / "old", tmp_path / "l")
        # this session goes on counting what it has seen, or stops
        with pytest.raises((BudgetError, LedgerError)):
            session.query(FIRST, rho="0.3")
        session.close()
        if anchored:
            with pytest.raises(LedgerError, match="older than its anchor"):
                opened(anchor=anchor)
        else:
            # but then nothing is left that could tell
            assert opened().budget.spent.rho == 0


CHARGING = """
import sys
import pandas as pd, dpnb
frame = pd.DataFrame({"g": range(3)})
table = dpnb.Table("t", frame, dpnb.Schema({"g": dpnb.Integer(0, 2)}))
anchored, bare, anchor = sys.argv[1:]
sessions = [
    dpnb.Session(table, ledger=anchored, anchor=anchor), dpnb.Session(table, ledger=bare)
]
print("open", flush=True)
for session in sessions:
    sys.stdin.readline()
    try:
        print(session.query("SELECT COUNT(*) AS n FROM t", rho="0.4").spent.rho, flush=True)
    except dpnb.DpnbError as error:
        print(error, flush=True)
"""


class TestCopies:
    def test_two_processes_have_the_cap_once_with_an_anchor_and_twice_without(
        self, opened, tmp_path
    ):
        """Both open their copy before either charges anything."""
        small = Table("t", pd.DataFrame({"g": range(3)}), Schema({"g": Integer(0, 2)}))
        anchor = tmp_path / "elsewhere"
        opened("one", small, anchor=anchor).close()
        opened("bare", small).close()
        files = [("one", "bare"), ("one.copy", "bare.copy")]
        for name, copy in zip(*files, strict=True):
            shutil.copy(tmp_path / name, tmp_path / copy)
        own = [opened(files[0][0], small, anchor=anchor), opened(files[0][1], small)]
        command = [sys.executable, "-c", CHARGING, *files[1], str(anchor)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=tmp_path, **pipes) as other:
            assert other.stdout.readline() == "open\n"
            assert [one.query(FIRST, rho="0.4").spent.rho for one in own] == [Fraction(2, 5)] * 2
            said = other.communicate("\n\n", timeout=60)[0].splitlines()
        assert said[0].startswith("the ledger is older than its anchor")
        assert said[1] == "2/5"

    def test_nor_do_they_have_it_twice_at_the_same_moment(self, opened, tmp_path, monkeypatch):
        """The second copy asks while the first one writes."""
        anchor = tmp_path / "elsewhere"
        opened("one", anchor=anchor).close()
        shutil.copy(tmp_path / "one", tmp_path / "two")
        one, two = opened("one", anchor=anchor), opened("two", anchor=anchor)
        told = []

        def ask():
            try:
                told.append(two.query(FIRST, rho=RHO))
            except LedgerError as error:
                told.append(str(error))

        rival = threading.Thread(target=ask)
        insert = SQLiteStorage.insert

        def meanwhile(storage, *row):
            monkeypatch.undo()
            rival.start()
            rival.join(0.5)
            return insert(storage, *row)

        monkeypatch.setattr(SQLiteStorage, "insert", meanwhile)
        assert one.query(COUNT, rho=RHO).spent.rho == RHO
        rival.join()
        assert told[0].startswith("the ledger is older than its anchor")

    def test_the_second_one_draws_noise_of_its_own(self, opened, tmp_path):
        """So who has both answers has paid twice: they are two looks at the data."""
        opened().close()
        shutil.copy(tmp_path / "l", tmp_path / "m")
        told = [numbers(opened(name).query(COUNT, rho=RHO)) for name in "lm"]
        errors = np.array(told) - THERE
        assert abs(np.corrcoef(errors)[0, 1]) < 0.2
        assert np.var(errors.mean(axis=0)) == pytest.approx(1 / (4 * RHO), rel=0.2)


class TestBesideOtherData:
    @pytest.mark.parametrize(
        "frame",
        [FRAME.iloc[1:], FRAME.iloc[:0], pd.concat([FRAME, FRAME.iloc[[0]]])],
        ids=["a row less", "nobody", "a row twice"],
    )
    def test_it_is_refused_until_the_owner_declares_them(self, frame, opened):
        with opened() as session:
            old = numbers(session.query(COUNT, rho="0.2"))
        table = Table("t", frame, SCHEMA)
        with pytest.raises(LedgerError, match="other data"):
            opened(table=table)
        with opened(table=table, new_version=True) as session:
            # what was spent is spent, and nothing old is served for new data
            assert session.budget.spent.rho == Fraction(1, 5)
            found = session.query(COUNT, rho="0.2")
            assert not found.stored
            assert not np.array_equal(numbers(found), old)
            assert session.budget.spent.rho == Fraction(2, 5)
            with pytest.raises(BudgetError):
                session.query(FIRST, rho="0.2")

    def test_going_back_to_the_old_data_gives_no_budget_back(self, opened):
        with opened() as session:
            session.query(COUNT, rho="0.2")
        other = Table("t", FRAME.iloc[1:], SCHEMA)
        with opened(table=other, new_version=True) as session:
            session.query(COUNT, rho="0.2")
        with opened(new_version=True) as session:
            assert session.budget.spent.rho == Fraction(2, 5)
            with pytest.raises(BudgetError):
                session.query(COUNT, rho="0.3")

    def test_rows_in_another_order_are_the_same_data(self, opened):
        with opened() as session:
            told = numbers(session.query(COUNT, rho="0.2"))
        with opened(table=Table("t", FRAME.iloc[::-1], SCHEMA)) as session:
            assert np.array_equal(numbers(session.query(COUNT, rho="0.2")), told)

    def test_the_name_of_another_table_does_not_hide_the_charges(self, opened):
        """The same rows under another name are another table: the cap of all together still holds."""
        with opened() as session:
            session.query(COUNT, rho="0.3")
        table = Table("u", FRAME, SCHEMA)
        with pytest.raises(LedgerError, match="belongs to 't', not to 'u'"):
            opened(table=table)
        with opened(table=table, new_version=True) as session:
            assert session.budget.spent.rho == Fraction(3, 10)
            with pytest.raises(BudgetError):
                session.query(COUNT.replace(" t ", " u "), rho="0.3")
