"""Ways by which exact values could get out, tried one by one."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import sqlite3
import stat
import subprocess
import sys
import traceback
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, DpnbError, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import LedgerError, RequestError
from dpnb.privacy.noise import SecureNoise
from tests.kit.inside import owner, runner

ROWS = 48_611
SCHEMA = Schema(
    {"sex": Category(["F", "M"]), "n": Integer(0, 9), "wage": Real(0, 100, bins=[0, 50, 100])}
)
SQL = "SELECT sex, COUNT(*) AS k, AVG(wage) AS m FROM t GROUP BY sex"


def table(rows=ROWS):
    frame = pd.DataFrame(
        {"sex": np.where(np.arange(rows) % 3 == 0, "F", "M"), "n": 7, "wage": 31.25}
    )
    return Table("t", frame, SCHEMA)


EXACT = {str(ROWS), str((ROWS + 2) // 3), str(ROWS - (ROWS + 2) // 3), f"{ROWS:,}"}


def tells(text):
    """Return the exact values that stand in a text as whole numbers, not as digits of another one."""
    return {value for value in EXACT if re.search(rf"(?<![\w.]){value}(\.0+)?(?![\w.])", text)}


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """What lies behind a session is searched as it is in use."""


@pytest.fixture
def session(tmp_path):
    with dpnb.Session(table(), budget=dpnb.Budget(rho=1), ledger=tmp_path / "ledger") as found:
        yield found


def reachable(root, depth=6):
    """Objects that an attribute walk from ``root`` meets, as a debugger or formatter would."""
    seen, layer = {}, [root]
    for _ in range(depth):
        following = []
        for item in layer:
            if id(item) in seen or isinstance(item, (str, bytes, int, float, type)):
                continue
            seen[id(item)] = item
            if isinstance(item, dict):
                following += list(item.values())
            if not type(item).__module__.startswith("dpnb"):
                continue
            following += list(getattr(item, "__dict__", {}).values())
            following += [
                getattr(item, name)
                for kind in type(item).__mro__
                for name in getattr(kind, "__slots__", ())
                if hasattr(item, name)
            ]
        layer = following
    return [item for item in seen.values() if type(item).__module__.startswith("dpnb")]


class TestShown:
    def test_no_repr_of_anything_behind_a_session_holds_an_exact_value(self, session):
        session.query(SQL, rho=0.001)
        things = reachable(session)
        names = {type(item).__name__ for item in things}
        assert {"Session", "Runner", "DuckDBEngine", "Store", "Ledger", "Accountant"} <= names
        for item in things:
            assert not tells(repr(item)), type(item)
            assert not tells(str(item)), type(item)

    def test_nor_the_size_of_a_file(self, tmp_path):
        path = tmp_path / "t.parquet"
        table().source.to_parquet(path)
        state = path.stat()
        with dpnb.Session(Table("t", path, SCHEMA), budget=dpnb.Budget(rho=1)) as session:
            shown = "".join(map(repr, reachable(session)))
        assert "Files(" in shown
        assert not re.search(rf"\b({state.st_size}|{state.st_mtime_ns})\b", shown)

    def test_what_leads_to_data_cannot_be_pickled_or_copied(self, session):
        curator = owner(session)
        for item in (session, curator, curator._runner.store, curator._runner.store.ledger,
                     curator._runner.engines["t"], curator.tables["t"]):  # fmt: skip
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    use(item)

    def test_the_accountant_cannot_be_pickled(self, session):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(runner(session).store.accountant)

    def test_versions_that_were_not_shown_are_not_printed(self):
        with dpnb.Session(table(), budget=dpnb.Budget(epsilon=60)) as session:
            session.query("SELECT COUNT(*) FROM t", epsilon=0.01)
            for path in runner(session).store.accountant.synopses.paths.values():
                assert str(path[-1].vector[0]) not in repr(path)

    def test_answers_hold_released_numbers_only(self, session):
        answer = session.query(SQL, rho=0.0001)
        texts = [
            repr(answer),
            answer.to_markdown(),
            json.dumps(answer.to_dict()),
            json.dumps(answer.record()),
            answer.to_frame().to_csv(),
            repr(session.history),
            repr(session.price(SQL, rho=0.5)),
            repr(session.budget),
            repr(session.tables),
        ]
        assert not set().union(*map(tells, texts))
        assert pickle.loads(pickle.dumps(answer)) == answer  # noqa: S301

    def test_answers_do_not_lead_to_the_curator(self, session):
        answer = session.query(SQL, rho=0.1)
        names = {type(item).__name__ for item in reachable(answer)}
        assert names <= {
            "Answer",
            "Bill",
            "Estimates",
            "NoiseDistribution",
            "PrivacyLoss",
            "Fraction",
            "Budget",
        }


class TestErrors:
    STATEMENTS = ("SELECT nope FROM t", "SELECT COUNT(*) FROM t WHERE sex = 'x'", SQL)

    def test_no_refusal_carries_an_exact_value_in_its_chain_or_text(self, session):
        for sql, level in ((self.STATEMENTS[0], 0.1), (self.STATEMENTS[1], 0.1), (SQL, 99)):
            with pytest.raises(DpnbError) as caught:
                session.query(sql, rho=level)
            assert not tells("".join(traceback.format_exception(caught.value)))

    def test_a_failing_sampler_says_the_fixed_text_too(self, session, monkeypatch):
        def broken(self, exact, sigma):
            raise RuntimeError(f"cannot draw around {list(exact)}; {ROWS} rows")

        monkeypatch.setattr(SecureNoise, "gaussian", broken)
        with pytest.raises(DpnbError) as caught:
            session.query("SELECT COUNT(*) FROM t", rho=0.1)
        assert not tells("".join(traceback.format_exception(caught.value)))

    def test_a_failing_sampler_charges_nothing(self, session, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(SecureNoise, "gaussian", lambda *_: 1 / 0)
            with pytest.raises(Exception):  # noqa: B017
                session.query("SELECT COUNT(*) FROM t", rho=0.1)
        assert session.budget.spent.rho == 0
        assert len(session.history) == 0
        assert session.query("SELECT COUNT(*) FROM t", rho=0.1).spent.rho > 0


class TestCharging:
    def test_nothing_is_shown_when_the_commit_fails(self, session, monkeypatch):
        real = runner(session).store.ledger._storage._connection

        class Refusing:
            def execute(self, statement, *values):
                if statement == "COMMIT":
                    raise sqlite3.OperationalError("disk I/O error")
                return real.execute(statement, *values)

        shown = None
        with monkeypatch.context() as patch:
            patch.setattr(runner(session).store.ledger._storage, "_connection", Refusing())
            with pytest.raises(LedgerError):
                shown = session.query(SQL, rho=0.1)
        assert shown is None
        assert session.budget.spent.rho == 0
        fresh = session.query(SQL, rho=0.1)
        assert float(fresh.spent.rho) == 0.1

    def test_a_refused_request_leaves_no_trace_in_the_ledger(self, session, tmp_path):
        session.query(SQL, rho=0.9)
        before = (tmp_path / "ledger").read_bytes()
        for options in ({"rho": 0.95}, {"rho": 5}, {"error": 1e-3, "rows": 5}):
            with pytest.raises(DpnbError):
                session.query("SELECT COUNT(*) FROM t WHERE n = 7", **options)
        session.price(SQL, rho=0.95)
        assert (tmp_path / "ledger").read_bytes() == before

    def test_whether_a_request_is_refused_is_known_before_the_data_is_read(
        self, session, monkeypatch
    ):
        reads = []
        monkeypatch.setattr(DuckDBEngine, "measure", lambda *_: reads.append(1))
        for sql, options in (
            (SQL, {"rho": 5}),
            (SQL, {"rho": -1}),
            (SQL, {"error": 1e-6, "rows": 9}),
            ("SELECT MIN(n) FROM t", {"rho": 0.1}),
        ):
            with pytest.raises(DpnbError):
                session.query(sql, **options)
        session.price(SQL, rho=0.1)
        assert reads == []

    def test_a_stored_answer_is_given_without_reading_the_data(self, session, monkeypatch):
        first = session.query(SQL, rho=0.1)
        monkeypatch.setattr(DuckDBEngine, "measure", lambda *_: 1 / 0)
        again = session.query(SQL, rho=0.1)
        assert again.to_frame().equals(first.to_frame())


class TestLedgerFile:
    def test_only_the_owner_can_read_it(self, session, tmp_path):
        session.query(SQL, rho=0.1)
        assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o600

    def test_nor_its_journal(self, session, tmp_path, monkeypatch):
        modes = []
        ledger = runner(session).store.ledger
        real = ledger._storage._connection

        class Watching:
            def execute(self, statement, *values):
                done = real.execute(statement, *values)
                modes.extend(
                    stat.S_IMODE(path.stat().st_mode)
                    for path in tmp_path.iterdir()
                    if path.name != "ledger"
                )
                return done

        monkeypatch.setattr(ledger._storage, "_connection", Watching())
        session.query(SQL, rho=0.1)
        assert modes
        assert set(modes) == {0o600}

    def test_a_file_that_others_can_read_is_closed_or_refused(self, tmp_path):
        path = tmp_path / "open"
        path.touch()
        path.chmod(0o644)
        try:
            dpnb.Session(table(9), budget=dpnb.Budget(rho=1), ledger=path).close()
        except LedgerError:
            return
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_it_holds_no_exact_value_and_no_source_value(self, session, tmp_path):
        session.query(SQL, rho=0.0001)
        session.query("SELECT COUNT(*) FROM t", rho=0.0001)
        assert not tells((tmp_path / "ledger").read_bytes().decode("latin-1"))

    def test_test_noise_cannot_enter_a_private_ledger_nor_hide(self, session, tmp_path):
        class Silent:
            def gaussian(self, exact, sigma):
                return list(exact)

        session.query("SELECT COUNT(*) FROM t", rho=0.1)
        with pytest.raises(LedgerError, match="test noise cannot enter a private ledger"):
            dpnb.Session(table(), ledger=tmp_path / "ledger", noise=Silent())
        with dpnb.Session(
            table(), budget=dpnb.Budget(rho=1), ledger=tmp_path / "test", noise=Silent()
        ) as marked:
            assert marked.query(SQL, rho=0.1).stamp == "test"
        with dpnb.Session(table(), ledger=tmp_path / "test") as reopened:
            answer = reopened.query(SQL, rho=0.1)
            assert answer.stamp == "test"
            assert "NOT PRIVATE" in repr(answer)

    def test_no_source_of_noise_can_claim_that_it_protects(self, tmp_path):
        class Exact:
            private = True

            def gaussian(self, exact, sigma):
                return list(exact)

            laplace = gaussian

        class Heir(SecureNoise):
            private = True
            gaussian = Exact.gaussian

        class Wrapper:
            def __init__(self):
                self.source = SecureNoise()

            def __getattr__(self, name):
                return getattr(self.source, name)

        renamed = Exact()
        renamed.__class__ = type("SecureNoise", (Exact,), {"__module__": SecureNoise.__module__})
        changed = SecureNoise()
        changed.gaussian = lambda exact, sigma: list(exact)
        sources = [Exact(), Heir(), Wrapper(), renamed, changed, SecureNoise()]
        for number, source in enumerate(sources):
            path, budget = tmp_path / f"ledger{number}", dpnb.Budget(rho=1)
            with dpnb.Session(table(), budget=budget, ledger=path, noise=source) as marked:
                answer = marked.query("SELECT COUNT(*) FROM t", rho=0.1)
                shown = answer, marked.budget, marked.price(SQL, rho=0.1)
                assert all(repr(one).startswith("NOT PRIVATE") for one in shown)
            with dpnb.Session(table(), ledger=path) as reopened:
                assert reopened.query(SQL, rho=0.1).stamp == "test"
        with pytest.raises(RequestError, match="must be a source of noise"):
            dpnb.Session(table(), budget=dpnb.Budget(rho=1), noise="none")

    def test_generated_data_do_not_hide_test_noise(self, tmp_path):
        budget, path = dpnb.Budget(rho=1), tmp_path / "ledger"
        curator = dpnb.curator.Curator(table(), budget=budget, noise=SecureNoise(), rehearsal=True)
        assert curator.session().query(SQL, rho=0.1).stamp == "test"
        dpnb.curator.Curator(table(), budget=budget, ledger=path, rehearsal=True).close()
        with pytest.raises(LedgerError, match="test noise cannot enter a ledger of generated data"):
            dpnb.Session(table(), ledger=path, noise=SecureNoise())


def test_noise_differs_between_processes_and_seeds_change_nothing():
    code = (
        "import random, numpy as np, pandas as pd, dpnb\n"
        "random.seed(1); np.random.seed(1)\n"
        "t = dpnb.Table('t', pd.DataFrame({'n': [1] * 9}), dpnb.Schema({'n': dpnb.Integer(0, 9)}))\n"
        "with dpnb.Session(t, budget=dpnb.Budget(rho=1)) as s:\n"
        "    print(s.query('SELECT COUNT(*) FROM t', rho=0.1).estimates[0].count[0])\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 2


class TestOpeningAndGrouping:
    @pytest.mark.parametrize("value", [-100, 0, 100])
    def test_a_group_number_never_overflows(self, value):
        schema = dpnb.Schema({"x": dpnb.Integer(-100, 100)})
        table = Table("t", pd.DataFrame({"x": [value]}), schema)
        with dpnb.Session(table, budget=dpnb.Budget(rho=10)) as session:
            answer = session.query("SELECT x, COUNT(*) AS n FROM t GROUP BY x", rho=1)
        assert len(answer.groups) == 201

    def test_a_quoted_line_break_in_a_csv_opens_like_any_other(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text('a,c\n1,x\n2,y\n3,"x\ny"\n')
        table = Table("t", path, dpnb.Schema({"a": dpnb.Integer(0, 9)}))
        with dpnb.Session(table, budget=dpnb.Budget(rho=10**6)) as session:
            answer = session.query("SELECT SUM(a) AS s FROM t", rho=10**5)
        assert answer.estimates[0].estimate[0] == pytest.approx(6, abs=0.5)

    def test_the_column_of_the_declared_spelling_is_read(self):
        frame = pd.DataFrame({"Age": [1, 1], "age": [9, 9]})
        table = Table("t", frame, dpnb.Schema({"age": dpnb.Integer(0, 10)}))
        with dpnb.Session(table, budget=dpnb.Budget(rho=10**6)) as session:
            answer = session.query("SELECT SUM(age) AS s FROM t", rho=10**5)
        assert answer.estimates[0].estimate[0] == pytest.approx(18, abs=0.5)


def test_errors_by_alias_belong_to_their_aggregates(session):
    first = session.price("SELECT COUNT(*) AS a, SUM(n) AS b FROM t", error={"a": 900, "b": 9000})
    session.query("SELECT COUNT(*) AS a, SUM(n) AS b FROM t", error={"a": 900, "b": 9000})
    swapped = session.query("SELECT COUNT(*) AS b, SUM(n) AS a FROM t", error={"b": 900, "a": 9000})
    assert swapped.stored
    assert first.spent.rho > 0
    other = session.price("SELECT COUNT(*) AS b, SUM(n) AS a FROM t", error={"a": 900, "b": 9000})
    assert [width for *_, width in other.widths][1] <= 900


def test_an_in_memory_name_is_a_file_like_any_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = Table("t", pd.DataFrame({"n": [1]}), dpnb.Schema({"n": dpnb.Integer(0, 9)}))
    with dpnb.Session(table, budget=dpnb.Budget(rho=1), ledger=":memory:") as session:
        session.query("SELECT COUNT(*) FROM t", rho=0.5)
    with dpnb.Session(table, ledger=":memory:") as session:
        assert session.budget.spent.rho == Fraction(1, 2)


def test_a_stored_request_is_priced_at_nothing(session):
    asked = {"error": 900, "looks": "any"}
    session.query("SELECT COUNT(*) FROM t", **asked)
    assert session.price("SELECT COUNT(*) FROM t", **asked).spent.rho == 0


def test_the_search_for_exact_values_would_find_one():
    for text in ("48611", "n: 48,611 rows", '{"k": 16204.0}', "32407,1", "(32407)"):
        assert tells(text), text
    for text in ("0.148611", "1.16204e-05", "a16204b", "132407", "16204.37"):
        assert not tells(text), text
