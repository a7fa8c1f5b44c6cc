"""Statements at the edge: conditions without rows, strategies, other schemas, races, huge numbers."""

from __future__ import annotations

import functools
import json
import re
import sqlite3

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Schema, Session, Strategy, Table
from dpnb.answers.answer import Answer
from dpnb.display.cards.answer import origin_sentence
from dpnb.errors import BudgetError, DpnbError, LedgerError, RequestError
from dpnb.privacy.definition import PURE, ZCDP

SCHEMA = Schema(
    {"sex": Category(["F", "M"]), "age": Integer(17, 90), "bit": Integer(0, 1)}, complete=["bit"]
)
FRAME = pd.DataFrame(
    {"sex": ["F", "M"] * 100, "age": np.arange(200) % 60 + 20, "bit": [1, 0, 0, 1] * 50}
)
PEOPLE = Table("t", FRAME, SCHEMA)
BY_SEX = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"
ALL = "SELECT COUNT(*) AS n FROM t"


@pytest.fixture(params=[ZCDP, PURE])
def session(request, curated, drawn):
    budget = {"rho": 100} if request.param == ZCDP else {"epsilon": 100}
    made = curated(PEOPLE, drawn(1), budget=budget).session()
    made.query(BY_SEX, **({"rho": 0.01} if request.param == ZCDP else {"epsilon": 0.1}))
    return made


class TestNoRows:
    """What public facts say to be empty is known for sure."""

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE sex = 'F') AS none FROM t WHERE sex = 'M'",
            "SELECT COUNT(*) AS none FROM t WHERE sex = 'M' AND sex = 'F'",
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE age > 95) AS none FROM t",
            "SELECT COUNT(*) FILTER (WHERE age > 80) AS n, SUM(age) FILTER (WHERE age > 95) AS none FROM t",
            "SELECT COUNT(*) FILTER (WHERE age > 80) AS n, COUNT(*) FILTER (WHERE bit IS NULL) AS none FROM t",
        ],
    )
    def test_next_to_another_value(self, session, sql):
        wanted = 900 if "SUM" in sql else 5
        error = dict.fromkeys(re.findall(r"AS (\w+)", sql), wanted)
        price = session.price(sql, error=error)
        answer = session.query(sql, error=error)
        assert answer.spent == price.spent
        for alias in error:
            assert answer.estimates_of(alias).margin_of_error(0) <= wanted * (1 + 1e-6)

    def test_alone_it_is_free_and_says_why(self, session):
        answer = session.query("SELECT COUNT(*) AS n FROM t WHERE sex = 'M' AND sex = 'F'", error=5)
        assert (answer.estimates[0].estimate, answer.estimates[0].high) == ((0.0,), (0.0,))
        assert "no row can match" in origin_sentence(answer)
        assert answer.spent.level(answer.privacy) == 0


def test_a_held_strategy_leaves_sums_and_means_in_peace(curated, drawn):
    curator = curated(PEOPLE, drawn(1), budget={"rho": 100})
    curator.add_view(
        ["sex"], name="s", strategy=Strategy([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    )
    session = curator.session()
    held = session.query("SELECT COUNT(*) AS n FROM t WHERE sex = 'F'", rho=0.01)
    assert any(one.get("strategy") for one in held.definitions.values())
    total = session.query("SELECT SUM(age) AS s FROM t", error=2_000)
    assert total.estimates[0].margin_of_error(0) <= 2_000
    mean = session.query("SELECT sex, AVG(age) AS m FROM t GROUP BY sex", error=5, rows=80)
    assert max(map(mean.estimates[0].margin_of_error, range(2))) <= 5 * (1 + 1e-6)
    assert session.infer("SELECT SUM(age) AS s FROM t").low < FRAME["age"].sum()


class TestClaims:
    def test_that_ended_with_their_column_do_not_stop_anybody(self, curated, drawn, tmp_path):
        budget = {"rho": 100}
        first = curated(PEOPLE, drawn(1), budget=budget, ledger=tmp_path / "l")
        first.protect("SELECT COUNT(*) AS n FROM t WHERE age > 60", ">", 10, name="old ones")
        first.close()
        other = Table("t", FRAME[["sex"]], Schema({"sex": Category(["F", "M"])}))
        opening = {"budget": budget, "ledger": tmp_path / "l", "new_version": True}
        with pytest.raises(LedgerError, match="a protected claim would end"):
            curated(other, drawn(2), **opening)
        later = curated(other, drawn(2), **opening, lift=["age"])
        assert later.session().query(BY_SEX, rho=0.01).estimates

    def test_that_take_too_many_cells_are_refused_at_once(self, curated, drawn):
        columns = {f"x{i}": Integer(0, 999) for i in range(6)}
        wide = Table("t", pd.DataFrame({name: [1] for name in columns}), Schema(columns))
        curator = curated(wide, drawn(1), budget={"rho": 100})
        some = " AND ".join(f"{name} IN (1, 3, 5, 7, 9, 11)" for name in columns)
        with pytest.raises(RequestError, match="too many groups"):
            curator.protect(f"SELECT COUNT(*) AS n FROM t WHERE {some}", ">", 10)
        assert curator.session().query("SELECT COUNT(*) AS n FROM t", rho=0.01).estimates

    def test_can_be_withdrawn(self, curated, drawn):
        curator = curated(PEOPLE, drawn(1), budget={"rho": 100})
        curator.protect(BY_SEX.replace("sex, ", "").partition(" GROUP")[0], ">", 10, name="c")
        session = curator.session()
        session.query(ALL, rho=0.01)
        with pytest.raises(RequestError, match="withheld"):
            session.query(ALL, rho=0.02)
        curator.unprotect("c")
        assert session.query(ALL, rho=0.02).estimates
        with pytest.raises(RequestError, match="there is no claim 'c'"):
            curator.unprotect("c")


def test_a_race_never_commits_what_past_answers_tell(curated, drawn, tmp_path):
    """Another kernel buys what makes an answer free, between its plan and its commit."""
    path = tmp_path / "l"
    first = curated(PEOPLE, drawn(1), budget={"rho": 100}, ledger=path)
    first.session().query(BY_SEX, rho=0.001)
    second = curated(PEOPLE, drawn(2), budget={"rho": 100}, ledger=path)
    engine = first._runner.engines["t"]
    measure = engine.measure

    def slow(scan):
        engine.measure = measure
        second.session().query("SELECT sex, bit, COUNT(*) AS n FROM t GROUP BY sex, bit", rho=50)
        return measure(scan)

    engine.measure = slow
    answer = first.session().query(
        "SELECT bit, COUNT(*) AS n FROM t WHERE sex = 'F' GROUP BY bit", error=5
    )
    assert answer.origin.way == "history"
    kinds = [json.loads(row[0]) for row in sqlite3.connect(path).execute("SELECT body FROM entry")]
    assert sum(entry["kind"] == "answer" for entry in kinds) == 2
    assert first.provenance.to_dict()


class TestForgedPast:
    """An entry that was merged with what its analyst does not hold is no entry."""

    @pytest.mark.parametrize(
        "change",
        [
            {"past": "bob's"},
            {"way": "history"},
            {"way": "free"},
            {"alone": {"rho": "-5", "epsilon": None, "delta": "0"}},
        ],
    )
    def test_is_refused(self, curated, drawn, change):
        curator = curated(
            PEOPLE, drawn(1), budget={"epsilon": 20, "delta": 1e-6}, analysts={"alice": 1, "bob": 1}
        )
        alice, bob = curator.session("alice"), curator.session("bob")
        alice.query(BY_SEX, rho=0.001)
        bob.query(ALL, rho=0.1)
        merged = alice.query("SELECT COUNT(*) AS n FROM t WHERE sex = 'F'", error=30)
        assert merged.origin.way == "new"
        store = curator._runner.store
        entries = [dict(entry) for _, entry in _entries(store)]
        entry = entries[-1]
        if "past" in change:
            ((view, level),) = next(e for e in entries if e.get("analyst") == "bob")[
                "levels"
            ].items()
            entry["past"] = {view: level}
        else:
            entry |= change
        fresh = type(store)(None, None)
        for sequence, one in enumerate([*entries[:-1]], start=1):
            fresh._apply_whole(one, sequence)
        with pytest.raises(LedgerError):
            fresh._apply_whole(entry, len(entries))


def _entries(store):
    store.ledger.rewind()
    return list(store.ledger.read_new())


def test_several_quantities_respect_how_a_question_was_chosen(session):
    plain, picked = session.infer(BY_SEX), session.infer(BY_SEX, chosen=10)
    wide = picked.difference("F", "M")
    narrow = plain.difference("F", "M")
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)
    for options in ({"chosen": "any"}, {"prior": "nonnegative"}):
        with pytest.raises(RequestError, match="several values"):
            session.infer(BY_SEX, **options).difference("F", "M")


class TestPriors:
    def test_know_the_constant_of_a_formula(self, session):
        found = session.infer(
            "SELECT COUNT(*) - 90 AS d FROM t WHERE sex = 'F'", prior={"uniform": [0, 20]}
        )
        assert 0 <= found.low <= found.estimate <= found.high <= 20
        least = session.infer(
            "SELECT COUNT(*) - 105 AS d FROM t WHERE sex = 'F'", prior="nonnegative"
        )
        assert least.low == 0 <= least.high < 40

    @pytest.mark.parametrize("options", [{"error": 10}, {"between": (90, 110)}])
    def test_are_not_asked_for_the_confidence_of_a_width(self, session, options):
        with pytest.raises(RequestError, match="no prior"):
            session.infer(ALL, prior="nonnegative", **options)


class TestHugeNumbers:
    @pytest.mark.parametrize("number", [10**400, -(10**400), 1e308, float("nan")])
    def test_are_out_of_range(self, session, number):
        told = "SELECT COUNT(*) AS n FROM t WHERE sex = 'F'"
        found = session.infer(told)
        for attempt in (
            lambda: session.infer(told, error=number),
            lambda: session.infer(told, between=(number, number)),
            lambda: session.infer(told, confidence=number),
            lambda: session.infer(told, prior={"at most": number}),
            lambda: found.probability(">", number),
        ):
            with pytest.raises(RequestError):
                attempt()


class TestMergedAnswers:
    @pytest.fixture
    def merged(self, curated, drawn) -> Answer:
        session = curated(PEOPLE, drawn(1), budget={"rho": 100}).session()
        session.query("SELECT sex, bit, COUNT(*) AS n FROM t GROUP BY sex, bit", rho=0.02)
        session.query("SELECT sex, bit, AVG(age) AS m FROM t GROUP BY sex, bit", rho=2)
        return session.query("SELECT sex, AVG(age) AS m FROM t GROUP BY sex", error=4, rows=90)

    def test_are_not_resampled(self, merged):
        assert merged.origin is not None
        with pytest.raises(RequestError, match="combines past answers"):
            merged.bootstrap()

    def test_are_compared_by_their_intervals(self, merged):
        question = merged.compare("F", "M")
        found = merged.estimates[0]
        assert question.low == pytest.approx(found.low[0] - found.high[1])
        assert question.high == pytest.approx(found.high[0] - found.low[1])


def test_a_list_that_breaks_off_says_what_was_charged(curated, drawn, monkeypatch):
    """Somebody else may spend between two of its statements."""
    curator = curated(
        PEOPLE, drawn(1), budget={"epsilon": 1, "delta": 1e-6}, analysts={"alice": 5, "bob": 5}
    )
    spare = float(curator.budget.remaining.rho)
    alice, bob = curator.session("alice"), curator.session("bob")
    query = Session.query

    @functools.wraps(query)
    def beside_bob(session, *arguments, **options):
        answer = query(session, *arguments, **options)
        query(bob, "SELECT bit, COUNT(*) AS n FROM t GROUP BY bit", rho=0.6 * spare)
        return answer

    monkeypatch.setattr(Session, "query", beside_bob)
    with pytest.raises(BudgetError) as refused:
        alice.query_all([BY_SEX, "SELECT age, COUNT(*) AS n FROM t GROUP BY age"], rho=0.25 * spare)
    assert "statement 2 of 2 was refused" in str(refused.value)
    assert "Nothing was charged" not in str(refused.value)
    assert float(alice.budget.spent.rho) == pytest.approx(0.25 * spare)


def test_no_error_but_its_own_leaves_the_package(session):
    for sql in (
        "SELECT COUNT(*) FROM t WHERE age = 17.5",
        "SELECT AVG(bit) AS m FROM t WHERE bit > 3",
    ):
        try:
            session.infer(sql, guaranteed="AVG" not in sql)
        except DpnbError as error:
            assert error.hint
    assert dpnb.Inference is type(session.infer(BY_SEX))


class TestTogether:
    """What some analysts could infer by putting their answers together."""

    @pytest.fixture
    def curator(self, curated, drawn):
        made = curated(
            PEOPLE, drawn(1), budget={"epsilon": 20, "delta": 1e-6}, analysts={"ann": 1, "bea": 1}
        )
        made.session("ann").query(BY_SEX, rho=0.001)
        made.session("bea").query(BY_SEX, rho=0.1)
        made.session("bea").query(
            "SELECT COUNT(*) AS n FROM t WHERE sex = 'F' AND bit = 1", rho=0.05
        )
        return made

    def test_they_know_what_the_best_served_knows(self, curator):
        alone = [curator.session(name).infer(BY_SEX) for name in ("ann", "bea")]
        both = curator.infer_together(["ann", "bea"], BY_SEX)
        assert both.estimate == pytest.approx(alone[1].estimate)
        assert both.low == alone[1].low
        assert alone[0].low[0] < both.low[0]

    def test_and_what_none_of_them_could_tell_alone(self, curator):
        curator.session("ann").query("SELECT COUNT(*) AS n FROM t WHERE bit = 1", rho=0.03)
        rest = "SELECT COUNT(*) AS n FROM t WHERE bit = 1 AND (sex <> 'F' OR sex IS NULL)"
        for name in ("ann", "bea"):
            with pytest.raises(RequestError, match="do not determine"):
                curator.session(name).infer(rest)
        assert len(curator.infer_together(["ann", "bea"], rest).sources) == 2

    def test_only_registered_analysts_are_joined(self, curator):
        with pytest.raises(RequestError, match="no analyst 'eve'"):
            curator.infer_together(["ann", "eve"], BY_SEX)
