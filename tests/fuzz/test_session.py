"""Whole lives of a curator with two analysts: whatever is asked in whatever order, the promises hold.

Two curators over neighbouring tables live the same life, with noise that ignores what it is given, so
everything that they say must be equal. After each step the sums are made anew from the ledger's file.
``DPNB_LONG=1`` lives ten times as many lives, and longer ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import dpnb
from dpnb import Category, DpnbError, Integer, Schema, Table, verbs
from dpnb.answers import verbs as asking
from dpnb.answers.answer import Answer
from dpnb.curator import Curator
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import BudgetError, EngineError, LedgerError, RequestError
from dpnb.ledger.accountant import Accountant
from dpnb.ledger.ledger import Ledger
from dpnb.ledger.sqlite import SQLiteStorage
from dpnb.privacy.loss import PrivacyLoss
from dpnb.releases.runner import Runner
from dpnb.results import rebilled
from tests.kit.inside import ask, priced, runner
from tests.kit.noise import BlindNoise

LONG = os.environ.get("DPNB_LONG") == "1"
SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "job": Category(["clerk", "smith", "rest"], other="rest"),
        "wage": Integer(0, 100, bins=[0, 50, 100]),
    },
    undeclared=["city"],
)
CAP, KEY_DELTA = Fraction(2), Fraction(1, 10**7)
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
STATEMENTS = (
    BY_SEX,
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, job, COUNT(*) AS n FROM people WHERE wage > 10 GROUP BY sex, job",
    "SELECT job, AVG(wage) AS n FROM people GROUP BY job",
    "SELECT SUM(wage) AS n FROM people WHERE sex = 'F'",
)
DECISIONS = (
    f"{BY_SEX} HAVING COUNT(*) > 40",
    "SELECT job, COUNT(*) AS n FROM people WHERE wage > 50 GROUP BY job HAVING COUNT(*) < 30",
)
LEVELS = ("0.001", "0.01", "0.02", "0.1", "0.7", "5")
STEPS = (
    "before the look", "before the draw", "after the draw", "before the insert", "before the commit",
    "after the commit", "before it is shown",
)  # fmt: skip
PAID = STEPS[-2:]


class CrashError(BaseException):
    """The process ends here."""


@cache
def people(neighbour):
    rows = [
        (sex, job, wage, city)
        for sex in ("F", "M")
        for job in ("clerk", "smith", "stranger")
        for wage in (10, 20, 70)
        for city in ("Bath", "York")
        for _ in range(5 if city == "Bath" else 4)
    ]
    if neighbour:
        rows.append(("F", "clerk", 10**6, "Bath"))
    return pd.DataFrame(rows, columns=["sex", "job", "wage", "city"])


@cache
def engine(neighbour):
    """The rows, which no life changes, are loaded once."""
    found = DuckDBEngine(Table("people", people(neighbour), SCHEMA))
    found.close = lambda: None
    found.fingerprint = cache(found.fingerprint)
    return found


@contextlib.contextmanager
def crashing(step):
    """Let whatever is asked end at a step of its way."""

    def crash(*_, **__):
        raise CrashError

    def after(work):
        def run(*arguments, **options):
            work(*arguments, **options)
            raise CrashError

        return run

    if step == "before the look":
        looks = ("measure", "histograms", "marginals", "tally")
        patches = [mock.patch.object(DuckDBEngine, name, crash) for name in looks]
    elif step in ("before the draw", "after the draw"):
        distributions = ("gaussian", "largest")
        wrong = {
            distribution: crash if "before" in step else after(getattr(BlindNoise, distribution))
            for distribution in distributions
        }
        patches = [
            mock.patch.object(BlindNoise, distribution, wrong[distribution])
            for distribution in distributions
        ]
    else:
        owner, name, new = {
            "before the insert": (SQLiteStorage, "insert", crash),
            "before the commit": (SQLiteStorage, "commit", crash),
            "after the commit": (Ledger, "_write_anchor", crash),
            "before it is shown": (Runner, "_commit", after(Runner._commit)),
        }[step]
        patches = [mock.patch.object(owner, name, new)]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def entries(path):
    """The entries of a ledger's file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT body FROM entry ORDER BY seq").fetchall()
    return [json.loads(body) for (body,) in found]


def sums(written):
    """What was spent by all together and by each row, added up from a ledger's entries alone."""
    total, rows, grants = Fraction(0), {"alice": Fraction(0), "bob": Fraction(0)}, []
    for entry in written:
        if entry["kind"] == "grant":
            grants.append(entry["giver"])
        if "spent" not in entry:
            continue
        total += Fraction(entry["spent"]["rho"])
        rows[entry["analyst"]] += Fraction(entry["row"]["rho"])
        for place, part in entry.get("granted", ()):
            rows[entry["analyst"]] -= Fraction(part)
            rows[grants[place]] += Fraction(part)
    return total, rows


ANALYSTS = st.sampled_from(["alice", "bob"])
BOOKS = {"cap", "remaining", "stored", "spent", "charged", "finer", "time"}


class Lives(RuleBasedStateMachine):
    """Two curators that live the same life."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="dpnb"))
        self.ledgers = [self.folder / "one", self.folder / "other"]
        self.noise = [BlindNoise(), BlindNoise()]
        self.curators = []
        self.answers = {}
        self.questions = {}
        self.step = None
        self.known = Fraction(0), {"alice": Fraction(0), "bob": Fraction(0)}
        self.written = []
        self.rehearsed = False

    def open_both(self):
        self.curators = []
        for neighbour, ledger in enumerate(self.ledgers):
            # a ledger's name is drawn at random, whatever the data
            with (
                mock.patch("secrets.token_bytes", bytes),
                mock.patch("dpnb.engines.choice.engine_of", lambda _, i=neighbour: engine(i)),
            ):
                self.curators.append(
                    Curator(
                        Table("people", people(neighbour), SCHEMA),
                        budget=dpnb.Budget(rho=CAP, delta=1e-6, key_delta=KEY_DELTA),
                        analysts={"alice": 4, "bob": 2},
                        views=["job"],
                        ledger=ledger,
                        noise=self.noise[neighbour],
                    )
                )

    @initialize()
    def begin(self):
        self.open_both()
        self.written = entries(self.ledgers[0])

    def teardown(self):
        for curator in self.curators:
            curator.close()
        shutil.rmtree(self.folder)

    def both(self, work):
        """Do the same to both; what they say, or why they refuse, is the same."""
        found = []
        for curator in self.curators:
            try:
                made = work(curator)
            except DpnbError as error:
                # damage, and an engine that fails, are no part of any life
                assert not isinstance(error, (LedgerError, EngineError)), error
                assert error.__cause__ is None
                found.append((error, (type(error), error.args)))
            except CrashError as error:
                found.append((error, "crash"))
            else:
                found.append((made, said(made)))
        (one, text), (_, other) = found
        assert text == other
        return one

    def spent(self):
        return self.both(lambda curator: curator.budget.spent.rho)

    def reopen(self):
        """Open both ledgers again; returns what they held before."""
        for curator in self.curators:
            curator.close()
        before = self.both_states
        self.open_both()
        return before

    @property
    def both_states(self):
        return [entries(ledger) for ledger in self.ledgers]

    def free(self, work):
        """Do something that spends nothing and writes nothing."""
        before = self.both_states
        found = self.both(work)
        assert self.both_states == before
        return found

    def paid(self, analyst, price, ask):
        """Price something and ask for it; returns what was shown, or None."""
        priced = self.free(price)
        before, old = self.spent(), self.free(lambda c: c.session(analyst).budget.spent.rho)
        step, self.step = self.step, None
        if step is not None and not isinstance(priced, DpnbError):
            with crashing(step):
                found = self.both(ask)
            if isinstance(found, CrashError):
                self.reopen()
                now = self.free(lambda c: c.session(analyst).budget.spent.rho)
                if step not in PAID:
                    assert self.spent() == before
                    assert now == old
                elif priced.affordable:
                    assert now - old <= priced.spent.rho
                # the same request again: free when it was paid for
                again = self.paid(analyst, price, ask)
                if step in PAID and again is not None:
                    assert again.spent.rho == 0
                return again
        else:
            found = self.both(ask)
        total = self.spent()
        if isinstance(found, DpnbError):
            assert total == before
            if isinstance(priced, DpnbError):
                assert type(found) is type(priced)
            else:
                # whoever can pay for herself may find that all together, or the giver, cannot
                assert isinstance(found, (BudgetError, RequestError)), found
            return None
        assert not isinstance(priced, DpnbError), priced
        assert priced.affordable
        assert found.spent.rho == priced.spent.rho
        assert total - before <= found.spent.rho
        return found

    # what costs

    @rule(analyst=ANALYSTS, sql=st.sampled_from(STATEMENTS), rho=st.sampled_from(LEVELS))
    def query(self, analyst, sql, rho):
        self.ask(analyst, sql, {"rho": rho})

    @rule(
        analyst=ANALYSTS, sql=st.sampled_from(STATEMENTS), error=st.sampled_from([5, 20, 90, 4000])
    )
    def query_for_an_error(self, analyst, sql, error):
        self.ask(analyst, sql, {"error": error, "rows": 20 if "AVG" in sql else None})

    def ask(self, analyst, sql, accuracy):
        found = self.paid(
            analyst,
            lambda c: priced(c, analyst, "query", [sql], accuracy)[0],
            lambda c: ask(c, analyst, "query", sql, accuracy),
        )
        if found is None:
            return
        key = analyst, sql, tuple(accuracy.items())
        numbers = said(found)
        if key in self.answers:
            assert found.spent.rho == 0
            if "rho" in accuracy:
                # an error may by now be reached by other answers
                assert numbers == self.answers[key]
        self.answers[key] = numbers
        self.check_written(analyst, found)
        if sql == BY_SEX and "rho" in accuracy:
            self.questions[analyst] = found

    def check_written(self, analyst, answer):
        """What is shown lies in the ledger beside its charge, or follows from what lies there."""
        written = entries(self.ledgers[0])
        mine = {entry.get("request") for entry in written if entry.get("analyst") == analyst}
        if answer.origin is not None and answer.origin.way == "history":
            assert answer.spent.rho == 0
            return
        assert answer.request in mine
        if answer.sql != BY_SEX or answer.origin is not None:
            return
        # in the ledger they stand in ticks, whose size is a power of 2
        shown = [list(one.total if one.count is None else one.count) for one in answer.estimates]
        vectors = [vector for entry in written for vector in drawn(entry)]
        known = [[v / 2**ticks for v in vector] for vector in vectors for ticks in range(64)]
        assert all(one in known for one in shown)

    @precondition(lambda self: self.answers)
    @rule(place=st.integers(0, 99))
    def ask_again(self, place):
        analyst, sql, accuracy = sorted(self.answers)[place % len(self.answers)]
        before = self.both_states
        self.ask(analyst, sql, dict(accuracy))
        if accuracy[0][0] == "rho":
            assert self.both_states == before

    @precondition(lambda self: self.answers)
    @rule(place=st.integers(0, 99), rho=st.sampled_from(LEVELS))
    def ask_at_another_level(self, place, rho):
        analyst, sql, _ = sorted(self.answers)[place % len(self.answers)]
        self.ask(analyst, sql, {"rho": rho})

    @precondition(lambda self: self.questions)
    @rule(analyst=ANALYSTS, rho=st.sampled_from(["0.01", "0.3"]), k=st.integers(1, 2))
    def explain(self, analyst, rho, k):
        if analyst not in self.questions:
            return
        question = self.questions[analyst].compare("F", "M")
        options = {"rho": rho, "k": k}
        self.paid(
            analyst,
            lambda c: priced(c, analyst, "explain", question, options),
            lambda c: ask(c, analyst, "explain", question, options),
        )

    @rule(analyst=ANALYSTS, sql=st.sampled_from(DECISIONS), u=st.sampled_from([15, 40, 90]))
    def decide(self, analyst, sql, u):
        options = {"mode": "margin", "u": u}
        self.paid(
            analyst,
            lambda c: priced(c, analyst, "decide", sql, options),
            lambda c: ask(c, analyst, "decide", sql, options),
        )

    @rule(analyst=ANALYSTS, rho=st.sampled_from(["0.05", "0.3"]))
    def discover(self, analyst, rho):
        options = {"rho": rho, "delta": KEY_DELTA / 10}
        self.paid(
            analyst,
            lambda c: priced(c, analyst, "discover", "city", options),
            lambda c: ask(c, analyst, "discover", "city", options),
        )

    # what is free

    @rule(
        analyst=ANALYSTS, statements=st.lists(st.sampled_from(STATEMENTS), min_size=2, max_size=4)
    )
    def price(self, analyst, statements):
        self.free(lambda c: priced(c, analyst, "query", statements, {"rho": "0.01"}))

    @rule(
        analyst=ANALYSTS,
        sql=st.sampled_from((*STATEMENTS, "SELECT COUNT(*) AS n FROM people WHERE sex = 'F'")),
    )
    def infer(self, analyst, sql):
        self.free(lambda c: ask(c, analyst, "infer", sql, {"confidence": 0.9}))

    @precondition(lambda self: self.questions)
    @rule()
    def compare(self):
        for answer in self.questions.values():
            again = Answer.from_dict(answer.to_dict())
            assert again.compare("F", "M") == answer.compare("F", "M")

    @rule(analyst=ANALYSTS)
    def look_about(self, analyst):
        self.free(lambda c: [repr(c.session(analyst)), repr(c.session(analyst).budget)])
        self.free(lambda c: [one.sql for one in verbs.history(runner(c), analyst)])
        self.free(lambda c: repr(c.provenance))

    @precondition(lambda self: not self.rehearsed)
    @rule(analyst=ANALYSTS)
    def rehearse(self, analyst):
        self.rehearsed = True

        def rehearsed(curator):
            with contextlib.closing(curator.session(analyst).rehearse(rows=20)) as session:
                return str(session.query(BY_SEX, rho="0.001").spent)

        self.free(rehearsed)

    # what the owner does

    @rule(analyst=ANALYSTS, rho=st.sampled_from(["0", "0.05", "0.4", "2"]))
    def limit(self, analyst, rho):
        self.both(lambda c: c.limit(analyst, rho=rho))

    @rule(giver=ANALYSTS, rho=st.sampled_from(["0.01", "0.2"]))
    def grant(self, giver, rho):
        receiver = "bob" if giver == "alice" else "alice"
        self.both(lambda c: c.grant(giver, receiver, rho=rho))

    @rule(analyst=ANALYSTS, active=st.booleans())
    def admit(self, analyst, active):
        self.both(lambda c: c.enable(analyst) if active else c.disable(analyst))

    # what goes wrong

    @rule(step=st.sampled_from(STEPS))
    def crash_at_the_next_request(self, step):
        self.step = step

    @rule()
    def open_again(self):
        known = self.both(lambda c: (c.budget, repr(c.provenance)))
        assert self.reopen() == self.both_states
        assert said(self.both(lambda c: (c.budget, repr(c.provenance)))) == said(known)

    # what always holds

    @precondition(lambda self: self.curators)
    @invariant()
    def the_sums_are_right(self):
        one, other = self.both_states
        assert [public(entry) for entry in one] == [public(entry) for entry in other]
        assert one[: len(self.written)] == self.written
        self.written = one
        total, rows = sums(one)
        curator = self.curators[0]
        assert self.spent() == total
        old_total, old_rows = self.known
        assert total >= old_total
        assert total == old_total or total <= curator.budget.cap.rho <= CAP
        table = curator._runner.store.provenance
        for row, liable in rows.items():
            assert table.spent(row).rho == liable
            assert liable >= old_rows[row]
            # a limit may have been set below what was spent already
            assert liable == old_rows[row] or liable <= table.limit(row).rho
        assert total <= sum(rows.values())
        self.known = total, rows


def drawn(entry):
    """The noisy vectors in an entry."""
    return [vector for versions in entry.get("knots", {}).values() for _, vector in versions]


def public(entry):
    """An entry without what differs between ledgers and moments."""
    return {name: entry[name] for name in entry if name not in ("time", "fingerprint")}


def said(made):
    """What was said, without the books, which change from moment to moment."""
    if isinstance(made, (list, tuple)):
        return [said(one) for one in made]
    if not hasattr(made, "to_dict"):
        return repr(made)
    return json.dumps({n: v for n, v in made.to_dict().items() if n not in BOOKS}, sort_keys=True)


def lives(count, steps):
    """So many lives of so many steps, always the same ones."""
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch):
    """What one of two twins does a moment later must not happen in the next minute, which is shown."""
    monkeypatch.setattr("dpnb.ledger.store.now", lambda: "2026-01-31T12:00:00+00:00")


def test_every_life_keeps_the_promises():
    run_state_machine_as_test(Lives, settings=lives(300, 60) if LONG else lives(12, 25))


def lost_on_the_way(monkeypatch):
    """An answer is shown, and its entry is gone."""
    commit = Runner._commit

    def committed(self, *arguments):
        found = commit(self, *arguments)
        path = self.store.ledger.path
        # a rehearsal has no file
        if path is not None:
            with contextlib.closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)")
        return found

    monkeypatch.setattr(Runner, "_commit", committed)


def forgotten(monkeypatch):
    """One-off releases are not added to what all together have spent."""
    apply = Accountant.apply_release

    def applied(self, *arguments):
        before = self.spent
        found = apply(self, *arguments)
        self.spent = before
        return found

    monkeypatch.setattr(Accountant, "apply_release", applied)


def unlimited(monkeypatch):
    """Nobody looks at the limits of the rows."""
    monkeypatch.setattr("dpnb.releases.runner.Runner._check", lambda *_: [])
    monkeypatch.setattr("dpnb.ledger.accounts.ProvenanceTable.apply_charge", charged_blindly)


def charged_blindly(self, sequence, entry):
    self._add(entry["analyst"], PrivacyLoss.from_dict(entry["row"]))


def telling(monkeypatch):
    """A refusal names a number of rows."""
    serve = Runner.run

    def told(self, *arguments, **named):
        try:
            return serve(self, *arguments, **named)
        except BudgetError as error:
            rows = len(self.tables["people"].source)
            raise BudgetError(f"{error.what}, for {rows} rows", error.hint) from None

    monkeypatch.setattr(Runner, "run", told)


def mispriced(monkeypatch):
    """What was asked for before, and is wanted finer, is said to cost nothing."""
    price = asking.priced

    def cheaper(runner, requests):
        found = price(runner, requests)
        held = {charge.sql for charge in runner.store.accountant.charges.values()}
        return [rebilled(p, spent=PrivacyLoss.none()) if p.sql in held else p for p in found]

    monkeypatch.setattr(asking, "priced", cheaper)


def drawn_anew(monkeypatch):
    """A repeated request is answered by another draw."""
    kept = Accountant._keep

    def keep(self, charge, entry, total):
        kept(self, charge, entry, total)
        for paths in self.synopses.paths.values():
            paths[-1:] = [type(paths[-1])(paths[-1].level, tuple(v + 1 for v in paths[-1].vector))]

    monkeypatch.setattr(Accountant, "_keep", keep)


class FoundError(BaseException):
    """Something is wrong; no ``Exception``, so that it need not happen again to be believed."""


class FirstFailure(Lives):
    """Lives that end with the first thing that is wrong."""

    def teardown(self):
        wrong = sys.exc_info()[1]
        super().teardown()
        if isinstance(wrong, AssertionError):
            raise FoundError from wrong


PLANTS = [lost_on_the_way, forgotten, unlimited, telling, mispriced, drawn_anew]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant, monkeypatch, capsys):
    plant(monkeypatch)
    with pytest.raises(FoundError):
        run_state_machine_as_test(FirstFailure, settings=lives(40, 25))
    # the life that led there is of no interest
    capsys.readouterr()
