"""Several analysts of one curator: none sees the data, nor what another one asked or was told."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import unicodedata
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Policy, Schema, Table
from dpnb.answers.question import Question
from dpnb.curator import owner_of
from dpnb.errors import BudgetError, RequestError
from dpnb.privacy.definition import GDP, ZCDP
from tests.kit.noise import BlindNoise
from tests.kit.streams import LONG, compared, entries, outcome, refusals

SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "age": Integer(17, 90, bins=[17, 40, 60, 90]),
        "n": Integer(0, 9),
        "job": Category(["a", "nobody's"]),
    }
)
BY_SEX = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"
MEAN = "SELECT sex, AVG(n) AS m, SUM(n) AS s FROM t GROUP BY sex"
OWN = "SELECT COUNT(*) AS k FROM t WHERE n > 3 AND age > 40"
STATEMENTS = (BY_SEX, MEAN, OWN, "SELECT age, COUNT(*) AS k FROM t GROUP BY age", "SELECT 1")


def people(rows=300, seed=3):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": generator.choice(["F", "M"], rows),
            "age": generator.integers(10, 99, rows),
            "n": generator.integers(0, 10, rows),
            "job": "a",
        }
    )


BASE = people()
TABLES = {
    "one row more": pd.concat([BASE, BASE.iloc[[5]]], ignore_index=True),
    "one row less": BASE.iloc[1:],
    "empty": BASE.iloc[:0],
    "all alike": BASE.assign(sex="M", age=50, n=9),
    "all missing": BASE.assign(sex=pd.Series([None] * 300, dtype="string")),
}


class Silent(BlindNoise):
    """No noise: every version of a view is the exact one, whoever had it drawn first.

    Like the blind one it selects the last of the candidates, which no row satisfies.
    """

    def __init__(self):
        super().__init__(last=True)

    def _pattern(self, name, exact, scale):
        return self._note(name, exact, scale)


def told(work):
    """All that a piece of work returns or raises, as text."""
    found = outcome(work)
    if isinstance(found, tuple):
        return found
    texts = [repr(found), type(found).__name__]
    texts += [
        json.dumps(getattr(found, name)(), sort_keys=True)
        for name in ("to_dict", "record")
        if hasattr(found, name)
    ]
    texts += [
        getattr(found, name)() for name in ("to_markdown", "to_latex") if hasattr(found, name)
    ]
    if hasattr(found, "to_frame"):
        texts.append(found.to_frame().to_csv())
    return texts


def script(session, unit, others):
    """What one analyst does, step by step, and is told; before each step others may act."""

    def step(work):
        others()
        return told(work)

    yield step(lambda: session)
    for sql in STATEMENTS:
        # bought, refined, stored, asked again, refined, too dear, meaningless
        levels = ("0.01", "0.05", "0.02", "0.05", "0.2", "3", "-1")
        for level in levels if LONG or sql == BY_SEX else levels[:3]:
            yield step(lambda q=sql, x=level: session.price(q, **{unit: x}))
            yield step(lambda q=sql, x=level: session.query(q, **{unit: x}))
            yield step(lambda: session.budget)
        yield step(lambda q=sql: session.query(q, error=40, rows=50))
        yield step(lambda q=sql: session.query(q, error="1e-9", rows=50))
        yield step(lambda q=sql: session.query(q, **{unit: "0.01"}, looks="any"))
    yield step(lambda: session.price([*STATEMENTS[:3]] * 2, **{unit: "0.3"}))
    yield step(lambda: session.tables)

    def explained():
        question = session.query(BY_SEX, **{unit: "0.05"}).compare("F", "M")
        return session.explain(question, k=1, rho="0.1", anyway=True)

    yield step(explained)
    yield step(explained)
    # until nothing is left: refused at the same place, with the same words
    for i in range(10):
        sql = f"SELECT COUNT(*) AS k FROM t WHERE n = {i}"
        yield step(lambda q=sql: session.price(q, **{unit: "0.15"}))
        yield step(lambda q=sql: session.query(q, **{unit: "0.15"}))
    others()
    yield [row[2:] for row in session.history], repr(session.budget)


def opened(frame=BASE, accountant="zcdp", noise=None, **options):
    budget = dpnb.Budget(epsilon=20, delta=1e-6, accountant=accountant)
    options = {"analysts": {"a": 1, "b": 1}, "policy": Policy(top=2), **options}
    # the ledger's name is drawn at random, whatever the data
    with mock.patch("secrets.token_bytes", bytes):
        return dpnb.Curator(
            Table("t", frame, SCHEMA), budget=budget, noise=noise or Silent(),
            views=["sex", ["sex", "n"], ["sex", "age"]], **options,
        )  # fmt: skip


def idle(curator):
    return lambda: None


def at_once(act):
    """Act before the first step; doing it again later would change nothing."""
    steps = iter([act])
    return lambda: next(steps, bool)()


def finer(curator):
    """bob buys everything first, more finely than alice will."""
    session = curator.session("b")

    def act():
        for sql in STATEMENTS[:4]:
            told(lambda q=sql: session.query(q, rho="0.25"))
        for i in range(4):
            told(lambda i=i: session.query(f"SELECT COUNT(*) AS k FROM t WHERE n = {i}", rho="0.3"))

    return at_once(act)


def between(curator, pace=1):
    """bob asks again and again, a little more finely each time, and is refused at last."""
    session, levels = curator.session("b"), iter(range(1, 10**6))

    def act():
        i = next(levels)
        if i % pace:
            return
        told(lambda: session.query(STATEMENTS[i % 4], rho=f"{0.004 * i:.4f}"))

    return act


def explaining(curator):
    """bob draws the one-off releases that alice will ask for."""
    session = curator.session("b")

    def act():
        question = session.query(BY_SEX, rho="0.05").compare("F", "M")
        told(lambda: session.explain(question, k=1, rho="0.1", anyway=True))

    return at_once(act)


def exhausted(curator):
    """bob has used up his limit on other views."""
    session = curator.session("b")

    def act():
        left = session.budget.remaining.rho
        if left:
            session.query("SELECT COUNT(*) AS k FROM t WHERE age > 60 AND n = 0", rho=str(left))

    return act


OTHERS = {f.__name__: f for f in (finer, between, explaining, exhausted)}


@pytest.fixture(scope="module", params=[ZCDP, GDP])
def alone(request):
    """What alice is told where nobody else asks."""
    curator = opened(accountant=request.param)
    said = list(script(curator.session("a"), "rho", idle(curator)))
    curator.close()
    return request.param, said


@pytest.fixture(scope="module")
def known():
    """Streams on the base table; filled by the first test that needs one."""
    return {}


class TestOthers:
    """On noise paths an analyst is told the same, byte by byte, whatever others did (E21)."""

    # each of the others once, and those who act on what she will buy under both accountants
    @pytest.mark.parametrize(
        ("alone", "name"),
        [(accountant, name) for accountant in ("zcdp", "gdp") for name in OTHERS]
        if LONG
        else [
            (ZCDP, "finer"),
            (ZCDP, "between"),
            (ZCDP, "explaining"),
            (GDP, "finer"),
            (GDP, "exhausted"),
        ],
        indirect=["alone"],
    )
    def test_an_analyst_is_told_the_same(self, name, alone):
        accountant, expected = alone
        curator = opened(accountant=accountant)
        said = list(script(curator.session("a"), "rho", OTHERS[name](curator)))
        assert curator.provenance.rows[1].known.rho > 0 or accountant == "gdp"
        curator.close()
        assert len(said) == len(expected)
        for mine, theirs in zip(said, expected, strict=True):
            assert mine == theirs

    def test_the_script_meets_answers_and_every_kind_of_refusal(self, alone):
        accountant, said = alone
        kinds = set(refusals(said))
        assert kinds == {"SqlError", "RequestError", "BudgetError"}
        texts = " ".join(str(step) for step in said)
        assert "is left" in texts
        assert "budget exhausted" not in texts
        assert ("Explanation" in texts) == (accountant == "zcdp")

    @pytest.mark.parametrize("mechanism", ["additive", "vanilla"])
    def test_the_comparison_would_notice_a_dependence(self, mechanism):
        """With one synopsis of all, prices depend on others, as the paper has it."""
        prices = []
        for act in (False, True):
            curator = opened(
                accountant="basic", policy=Policy(mechanism=mechanism, top=2),
            )  # fmt: skip
            if act:
                curator.session("b").query(BY_SEX, epsilon=2)
            session = curator.session("a")
            session.query(BY_SEX, epsilon=1)
            prices.append(told(lambda s=session: s.price(BY_SEX, epsilon=2)))
            curator.close()
        assert (prices[0] == prices[1]) == (mechanism == "vanilla")

    def test_only_one_text_tells_that_all_together_are_at_the_end(self):
        """The shared cap is what is left to show; neither numbers nor the limit's name do."""
        texts = set()
        for view, rho in (("n = 1", "0.3"), ("n = 2", "0.1")):
            curator = opened(policy=Policy(top=1))
            curator.session("b").query(OWN, rho=str(curator.session("b").budget.remaining.rho))
            session = curator.session("a")
            before = repr(session.budget)
            with pytest.raises(BudgetError) as refusal:
                session.query(f"SELECT COUNT(*) AS k FROM t WHERE {view}", rho=rho)
            assert refusal.value.__cause__ is None
            assert refusal.value.__suppress_context__
            texts.add(str(refusal.value))
            assert repr(session.budget) == before
            assert session.price(OWN, rho="0.01").affordable
            curator.close()
        assert texts == {
            "budget exhausted: a limit that is not your own refuses this. A less accurate answer may "
            "pass. Only the owner of the data can allow more. Nothing was charged."
        }


class TestData:
    """The stream of messages and the ledger are the same on every table."""

    def stream(self, frame, accountant, path, caplog, capfd):
        with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            caplog.clear()
            curator = opened(frame, accountant, BlindNoise(last=True), ledger=path)
            others = between(curator, pace=3)
            said = list(script(curator.session("a"), "rho", others))
            said.append(repr(curator.budget))
            curator.close()
        assert not warned
        assert {record.name for record in caplog.records} <= {"dpnb.refusals"}
        # what the owner is told of refusals is compared, too
        said += [record.getMessage() for record in caplog.records]
        assert capfd.readouterr() == ("", "")
        return said, entries(path)

    @pytest.mark.parametrize(
        ("accountant", "name"),
        compared(TABLES, zcdp=("one row more", "all missing"), gdp=("empty",)),
    )
    def test_it_is_the_same_on_neighbours(self, name, accountant, known, tmp_path, caplog, capfd):
        if accountant not in known:
            known[accountant] = self.stream(BASE, accountant, tmp_path / "base", caplog, capfd)
        said, written = self.stream(TABLES[name], accountant, tmp_path / "other", caplog, capfd)
        expected, base_written = known[accountant]
        assert len(said) == len(expected)
        for mine, theirs in zip(said, expected, strict=True):
            assert mine == theirs
        assert written == base_written

    def test_the_comparison_would_notice_a_leak(self):
        shown = []
        for frame in (BASE, TABLES["one row more"]):
            curator = opened(frame)
            shown.append(told(lambda c=curator: c.session("a").query(BY_SEX, rho="0.1")))
            curator.close()
        assert shown[0] != shown[1]


@pytest.fixture(scope="module")
def idle_curator():
    """A curator with two analysts who never ask."""
    made = opened()
    yield made
    made.close()


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "owner", "analyst", "alice#4", "#", "a#1", "", " ", " a", "a ", "a\n", "a\t", "-a", ".a",
            "a/b", "a\\b", "a'b", 'a"b', "a;b", "a,b", "a\0", "a" * 65,
            # what looks like a: Cyrillic, full width, accents, zero width, direction marks
            "\u0430", "\uff41", "\u00e1", "a\u0301", "a\u200b", "\u200ba", "a\u202e", "\u00aa", "\u2070wner",
            "\u043ewner", "own\u0435r", "\u212bnalyst", None, 5, b"a", ("a",), ["a"],
        ],
    )  # fmt: skip
    def test_names_that_mean_something_else_are_refused(self, name, idle_curator):
        before = [row.name for row in idle_curator.provenance.rows]
        with pytest.raises(RequestError) as refusal:
            idle_curator.add_analyst(name, 1)
        assert refusal.value.hint
        assert [row.name for row in idle_curator.provenance.rows] == before
        if isinstance(name, (str, bytes, int, tuple)) or name is None:
            with pytest.raises(RequestError):
                opened(analysts={name: 1}).close()

    @pytest.mark.parametrize("name", ["alice", "alice@example.org", "a.b_c+d-e", "0", "A" * 64])
    def test_ordinary_names_are_taken(self, name):
        curator = opened()
        curator.add_analyst(name, 1)
        assert unicodedata.normalize("NFKC", name) == name
        assert curator.session(name).budget.spent == dpnb.PrivacyLoss.none()
        curator.close()

    def test_upper_and_lower_case_are_two_analysts(self):
        curator = opened()
        curator.add_analyst("A", 1)
        curator.session("a").query(OWN, rho="0.1")
        assert len(curator.session("A").history) == 0
        assert curator.coalition("A") == dpnb.PrivacyLoss.none()
        curator.close()


class TestReach:
    SECRET = "SELECT COUNT(*) AS bobs FROM t WHERE n = 7 AND age > 60"

    @pytest.fixture
    def curator(self):
        made = opened(noise=BlindNoise(last=True))
        made.session("b").query(self.SECRET, rho="0.123")
        yield made
        made.close()

    def test_no_documented_method_leads_to_anothers_answers(self, curator):
        session = curator.session("a")
        session.query(BY_SEX, rho="0.1")
        other = curator.session("b").query(self.SECRET, rho="0.123")
        public = [name for name in dir(session) if not name.startswith("_")]
        assert {"query", "explain", "price", "budget", "history", "tables", "ledger"} <= set(public)
        for name in public:
            found = getattr(session, name)
            shown = repr(found) + (repr(list(found)) if name in ("history", "tables") else "")
            for trace in ("bobs", "0.123", other.request, *other.levels):
                assert trace not in shown
        assert "bob" not in repr(session)

    def test_the_same_question_is_paid_for_by_each(self, curator):
        """A stored answer of another is no stored answer of hers."""
        session = curator.session("a")
        found = session.query(self.SECRET, rho="0.123")
        assert (found.stored, float(found.spent.rho)) == (False, 0.123)

    def test_a_question_of_another_cannot_be_explained(self, curator):
        question = curator.session("b").query(BY_SEX, rho="0.1").compare("F", "M")
        session = curator.session("a")
        for forged in (question, Question.from_dict(question.to_dict())):
            with pytest.raises(RequestError, match="another session"):
                session.explain(forged, k=1, rho="0.1", anyway=True)
            with pytest.raises(RequestError, match="another session"):
                session.price(forged)
        assert session.budget.spent == dpnb.PrivacyLoss.none()

    def test_an_analysts_session_is_not_the_owners(self, curator):
        session = curator.session("a")
        assert owner_of(session) is None
        session.close()
        # the curator goes on
        assert curator.session("b").budget.spent.rho > 0
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            for item in (session, curator):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    use(item)

    def test_nothing_behind_a_session_shows_a_version(self, curator):
        numbers = curator.session("b").query(self.SECRET, rho="0.123").estimates[0].count
        state = curator._runner.store.accountant
        for item in (
            state,
            state.synopses,
            curator._runner.store.provenance,
            curator._runner.declared,
            curator,
        ):
            assert repr(numbers[0]) not in repr(item)
            assert "Version(" not in repr(item)

    def test_provenance_shows_charges_and_no_answers(self, curator):
        answer = curator.session("b").query(self.SECRET, rho="0.123")
        table = curator.provenance
        for text in (repr(table), table.to_frame().to_csv()):
            assert repr(answer.estimates[0].count[0]) not in text


class TestPrivileges:
    """Several rows of one analyst are one person: her best limit bounds what she learns in all."""

    @pytest.fixture
    def rows(self):
        """Both rows of an analyst with privileges 3 and 2 of 4, and her curator."""
        made = opened(analysts={"a": (3, 2), "b": 4}, policy=Policy(top=4))
        yield made, [made.session("a"), made.session("a", 2)]
        made.close()

    @staticmethod
    def exhaust(sessions, places=range(10)):
        """Ask for ever other views with what each row says that it has left, then for less."""
        for i in places:
            for at, session in enumerate(sessions):
                sql = f"SELECT COUNT(*) AS k FROM t WHERE age > {20 + 2 * i + at}"
                left = session.budget.remaining.rho
                for rho in (left, left / 2, 0.02):
                    if rho:
                        told(lambda s=session, q=sql, r=rho: s.query(q, rho=str(r)))

    @pytest.mark.parametrize("first", [0, 1])
    def test_all_her_rows_tell_her_no_more_than_her_best_limit(self, rows, first):
        curator, sessions = rows
        best = curator.provenance.rows[0].limit
        sql = "SELECT COUNT(*) AS k FROM t WHERE age > 80"
        sessions[first].query(sql, rho=str(sessions[first].budget.remaining.rho / 2))
        self.exhaust(sessions)
        assert curator.coalition("a").rho == best.rho
        assert all(session.budget.remaining.rho == 0 for session in sessions)

    def test_what_others_grant_comes_on_top_and_no_more(self, rows):
        curator, sessions = rows
        best = curator.provenance.rows[0].limit
        curator.grant("b", "a#2", rho="0.01")
        with pytest.raises(RequestError, match="a grant needs two different"):
            curator.grant("a", "a#2", rho="0.05")
        self.exhaust(sessions)
        assert curator.coalition("a").rho == best.rho + dpnb.Budget(rho="0.01").cap.rho

    def test_what_she_grants_counts_for_all_her_rows(self, rows):
        curator, sessions = rows
        best = curator.provenance.rows[0].limit
        curator.limit("b", rho=0)
        for row in ("a", "a#2"):
            curator.grant(row, "b", rho=str(best.rho))
        self.exhaust([curator.session("b")], range(3))
        self.exhaust(sessions, range(3, 6))
        assert curator.coalition("b").rho == best.rho
        assert curator.coalition("a") == dpnb.PrivacyLoss.none()
