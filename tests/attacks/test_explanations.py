"""Explanations say nothing but what is released: same words, same draws, same charges on every table."""

from __future__ import annotations

import json
import pickle
import traceback
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, DpnbError, Integer, Real, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.explain import request as request_module
from tests.kit.inside import runner
from tests.kit.noise import BlindNoise, ContinuousNoise, DiscreteNoise
from tests.kit.streams import LONG, WatchedNoise, compared, entries, outcome, silence

# the last jobs and trades occur in no table, so that a selection can fall on them in all
JOBS = [*"abc", *(f"unheard {i}" for i in range(9))]
SCHEMA = Schema(
    {
        "sex": Category(["F", "M", "?"]),
        "age": Integer(17, 90, bins=[17, 30, 60, 90]),
        "code": Integer(-5, 5),
        "wage": Real(0, 200, bins=[0, 10, 50, 200]),
        "day": Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]),
        "job": Category(JOBS),
        "trade": Category(JOBS),
    }
)


class IdleNoise(WatchedNoise):
    """Selects the last candidates; how many of them select a row is private, and may differ."""

    def __init__(self):
        super().__init__(last=True)

    @property
    def asked(self):
        return [
            (name, None if name == "largest" else count, scale)
            for name, count, scale in super().asked
        ]


def people(rows, seed=1):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": generator.choice(["F", "M", "stranger"], rows),
            "age": generator.normal(40, 20, rows).round(),
            "code": generator.integers(-9, 9, rows),
            "wage": generator.lognormal(3, 1, rows),
            "day": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(generator.integers(-9, 400, rows), unit="D"),
            "job": generator.choice(["a", "b", "z"], rows),
            "trade": generator.choice(["a", "b", "c", "z"], rows),
        }
    ).astype(
        {
            "sex": "string",
            "job": "string",
            "trade": "string",
            "code": "Int64",
            "day": "datetime64[us]",
        }
    )


def changed(**values):
    frame = people(120)
    for name, value in values.items():
        frame[name] = pd.Series([value] * 120, dtype=frame[name].dtype)
    return frame


BASE = people(120)
TABLES = {
    "one row more": pd.concat([BASE, BASE.iloc[[3]]], ignore_index=True),
    "one row less": BASE.iloc[1:],
    "a heavy row more": pd.concat(
        [BASE, BASE.iloc[[0]].assign(age=1e308, wage=1e308, code=2**62)], ignore_index=True
    ),
    "other order": BASE.sample(frac=1, random_state=3),
    "fifty times": pd.concat([BASE] * 50, ignore_index=True),
    "empty": BASE.iloc[:0],
    "one row": BASE.iloc[:1],
    "all missing": changed(sex=None, job=None, age=np.nan, code=None, wage=np.nan, day=pd.NaT),
    "all alike": changed(sex="M", job="a", age=40.0, code=1, wage=1.5),
    "infinities": changed(age=np.inf, wage=-np.inf),
    # of all kinds at once
    "extremes": pd.concat(
        [BASE.sample(frac=1, random_state=3)] * 25
        + [
            changed(job="<script>'\"; DROP TABLE rows; --" * 100),
            changed(age=np.inf, wage=-np.inf),
            changed(sex=None, job=None, age=np.nan, code=None, wage=np.nan, day=pd.NaT),
            changed(age=1e308, wage=1e308, code=2**62),
        ],
        ignore_index=True,
    ),
    "long texts": changed(job="<script>'\"; DROP TABLE rows; --" * 100),
}

SQL = (
    "SELECT sex, COUNT(*) AS n, SUM(code) AS s, AVG(wage) AS m, COUNT(code) AS c, "
    "AVG(CASE WHEN age > 40 THEN code END) AS w FROM t WHERE day > '2024-01-10' GROUP BY sex"
)
ONE = "SELECT AVG(wage) AS m FROM t"
OPTIONS = [
    {}, {"k": 1, "ranges": True}, {"k": 3, "length": 2}, {"length": 3, "rho": 1},
    {"length": 2, "connective": "or"}, {"mode": "paper"}, {"joint": True, "confidence": 0.8},
    {"rho": {"topk": "0.1", "influence": "0.2", "rank": "0.3"}},
    {"epsilon": 1}, {"error": 5}, {"attributes": ["job"], "k": 9},
]  # fmt: skip
LISTED = [f"job = 'unheard {i}'" for i in range(6)]
BAD = [
    {"rho": 0}, {"rho": 10_000}, {"k": 0}, {"k": 1_000}, {"attributes": ["sex"]}, {"length": 9},
    {"exclude": ["nope"]}, {"predicates": ["job = 'z'"]}, {"predicates": []}, {"error": 1e-12},
    {"confidence": 3}, {"rho": 0.1, "error": 2}, {"rho": {"topk": 1}}, {"mode": "x"},
]  # fmt: skip


def script(session):
    """Yield what each step returns or raises, as text."""

    def explained(question, options):
        found = session.explain(question, anyway=True, **options)
        return (
            repr(found), found.to_markdown(), json.dumps(found.to_dict(), sort_keys=True),
            json.dumps(found.record(), sort_keys=True), found.to_frame().to_csv(), found._repr_html_(),
        )  # fmt: skip

    answer = session.query(SQL, rho=0.1)
    questions = [
        answer.compare("F", "M", alias) for alias in ("n", "s", "w")
    ] + [
        answer.compare({"F": 1, "M": 1, "?": -2}, aggregate="m", constant=3),
        session.query(ONE, rho=0.1).compare({(): 1}, constant=20),
    ]  # fmt: skip
    for i, question in enumerate(questions):
        yield question.to_dict()
        # the first question with all options, the others with a third of them each
        some = OPTIONS if LONG or i == 0 else OPTIONS[i % 3 :: 3]
        for options in (*some, *(BAD if LONG or i in (0, 3) else BAD[i::7])):
            yield outcome(lambda q=question, o=options: repr(session.price(q, **o)))
            yield outcome(lambda q=question, o=options: explained(q, o))
        yield outcome(lambda q=question: session.explain(q))
        yield outcome(
            lambda q=question: session.explain(replace(q, weights=(np.nan, 1.0)), anyway=True)
        )
    yield repr(session.budget), [row[2:] for row in session.history]
    # until the budget is used up: refused at the same place everywhere
    yield [
        outcome(lambda r=r: explained(questions[0], {"rho": r})[0]) for r in (300, 301, 302, 303)
    ]


def stream(frame, path, caplog, capfd):
    noise = IdleNoise()
    with silence(caplog, capfd):
        budget = dpnb.Budget(rho=1_000, delta=1e-6)
        with dpnb.Session(Table("t", frame, SCHEMA), budget=budget, ledger=path, noise=noise) as s:
            # names in results come from the ledger's secret
            name = s.ledger
            said = json.loads(json.dumps(list(script(s)), default=str).replace(name, "ledger"))
    written = [json.loads(json.dumps(entry).replace(name, "ledger")) for entry in entries(path)]
    assert noise.whole
    return said, noise.asked, written


@pytest.fixture(scope="module")
def known():
    """What is said about the base table; filled by the first test that needs it."""
    return []


def base_stream(known, folder, caplog, capfd):
    if not known:
        known.append(stream(BASE, folder / "base", caplog, capfd))
    return known[0]


@pytest.mark.parametrize(
    "name",
    [name for _, name in compared(TABLES, zcdp=("one row less", "extremes", "empty"))],
)
def test_the_stream_of_messages_is_identical(name, known, tmp_path, caplog, capfd):
    said, asked, written = stream(TABLES[name], tmp_path / "other", caplog, capfd)
    base_said, base_asked, base_written = base_stream(known, tmp_path, caplog, capfd)
    for mine, theirs in zip(said, base_said, strict=True):
        assert mine == theirs
    assert asked == base_asked
    assert written == base_written


def test_the_script_meets_explanations_and_every_kind_of_refusal(known, tmp_path, caplog, capfd):
    said, asked, written = base_stream(known, tmp_path, caplog, capfd)
    text = json.dumps(said)
    for kind in ("RequestError", "BudgetError", "unheard", "could be noise"):
        assert kind in text
    assert sum(entry["kind"] == "release" for entry in written) > 20
    assert sum(name == "largest" for name, *_ in asked) > 50


def test_the_comparison_would_notice_a_leak(tmp_path):
    class Honest(BlindNoise):
        def _pattern(self, name, exact, scale):
            return self._note(name, exact, scale)

    found = []
    for number, frame in enumerate((BASE, TABLES["one row less"])):
        ledger = tmp_path / f"{number}"
        with dpnb.Session(Table("t", frame, SCHEMA), budget=dpnb.Budget(rho=9), ledger=ledger,
                          noise=Honest(last=True)) as session:  # fmt: skip
            question = session.query(SQL, rho=0.1).compare("F", "M", "n")
            session.explain(question, anyway=True, predicates=["job = 'a'", "wage > 10"], k=2)
        found.append(entries(ledger)[-1]["drawn"])
    assert found[0] != found[1]


class TestSecrets:
    """What an exact value could slip through."""

    ROWS = 48_611

    @pytest.fixture
    def session(self):
        frame = people(10).iloc[[0] * self.ROWS].assign(sex="F", job="a", wage=50.0)
        # always the same noise: other noise may happen to release the exact number
        noise = DiscreteNoise(1)
        table = Table("t", frame, SCHEMA)
        with dpnb.Session(table, budget=dpnb.Budget(rho=10), noise=noise) as found:
            yield found

    def tells(self, text):
        return {s for s in (str(self.ROWS), f"{self.ROWS:,}", str(self.ROWS + 1)) if s in text}

    def test_no_intermediate_shows_itself(self, session, monkeypatch, caplog):
        seen = []

        def watched(name):
            inner = getattr(request_module, name)

            def run(*arguments, **options):
                found = inner(*arguments, **options)
                seen.extend([*arguments, found])
                return found

            monkeypatch.setattr(request_module, name, run)

        watched("measure")
        watched("release")
        marginals = DuckDBEngine.marginals

        def looked(self, scan):
            found = marginals(self, scan)
            seen.extend([found, found.marginal(0)])
            return found

        monkeypatch.setattr(DuckDBEngine, "marginals", looked)
        question = session.query(SQL, rho="0.001").compare("F", "M", "n")
        found = session.explain(question, anyway=True, rho="0.001")
        names = {type(item).__name__ for item in seen}
        assert {"Influences", "Marginals", "Marginal"} <= names
        for item in seen:
            if type(item).__name__ in ("Influences", "Marginals", "Marginal", "DuckDBEngine"):
                assert not self.tells(repr(item) + str(item) + f"{item}" + repr([item]))
                with pytest.raises(TypeError):
                    pickle.dumps(item)
        assert not self.tells(repr(found) + json.dumps(found.to_dict()))
        assert not self.tells(repr(runner(session).store.accountant.releases))
        assert caplog.records == []

    @pytest.mark.parametrize(
        "place", ["marginals", "measure", "influences", "top_k", "rank_intervals"]
    )
    def test_every_failure_becomes_one_text_without_a_cause(self, place, session, monkeypatch):
        from dpnb.explain import mechanism

        question = session.query(SQL, rho="0.001").compare("F", "M", "n")
        spent = session.budget.spent

        def fail(*_, **__):
            raise ArithmeticError(f"{self.ROWS} rows")

        options = {}
        if place in ("marginals", "measure"):
            monkeypatch.setattr(DuckDBEngine, place, fail)
            options = {"predicates": LISTED} if place == "measure" else {}
        else:
            monkeypatch.setattr(mechanism, place, fail)
        with pytest.raises(DpnbError, match="the engine could not carry out") as caught:
            session.explain(question, anyway=True, **options)
        text = "".join(traceback.format_exception(caught.value))
        assert not self.tells(text)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert session.budget.spent == spent

    def test_a_search_that_went_wrong_says_nothing_either(self, session, monkeypatch):
        from dpnb.explain.plan import ExplanationPlan
        from dpnb.explain.ranks import Search

        question = session.query(SQL, rho="0.001").compare("F", "M", "n")
        short = Search(1e3, 1e3, 1)
        monkeypatch.setattr(ExplanationPlan, "search", lambda self, above: short)
        with pytest.raises(DpnbError, match="the engine could not carry out"):
            session.explain(question, anyway=True)
        assert len(session.history) == 1


class Guided(ContinuousNoise):
    """Random noise; selections fall on the last candidates, which no row satisfies."""

    def largest(self, scores, scale):
        super().largest(scores, scale)
        return len(scores) - 1

    def below(self, count):
        return count - 1


class TestDraws:
    @pytest.mark.parametrize("mode", ["tight", "paper"])
    @pytest.mark.parametrize("frame", ["one row less", "empty", "all alike", "fifty times"])
    def test_no_table_makes_more_draws_than_are_paid_for(self, mode, frame):
        for seed in range(2):
            noise = Guided(seed)
            table = Table("t", TABLES[frame], SCHEMA)
            with dpnb.Session(table, budget=dpnb.Budget(rho=10), noise=noise) as session:
                question = session.query(SQL, rho=1).compare("F", "M", "n")
                start = len(noise.draws)
                found = session.explain(question, anyway=True, k=4, mode=mode)
            drawn = noise.draws[start:]
            selections = [d for d in drawn if d.name == "largest"]
            influences, *tests = [len(d.exact) for d in drawn if d.name == "gaussian"]
            paid = found.record()["noise"]["ranks"]
            assert len(selections) == influences == 4
            assert sum(tests) <= 4 * (paid["lower"]["draws"] + paid["upper"]["draws"])


class TestManyCandidates:
    """4.4: which of the candidates select a row is private."""

    def large(self, active):
        values = [f"v{i}" for i in range(2_000)]
        schema = Schema({name: Category(values) for name in "xyz"} | {"g": Category(["A", "B"])})
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({name: rng.choice(values[:active], 300) for name in "xyz"})
        return Table("t", frame.assign(g="A"), schema)

    def test_results_do_not_tell_how_many_select_a_row(self):
        found = []
        for active in (1, 2, 50):
            noise = IdleNoise()
            with dpnb.Session(
                self.large(active), budget=dpnb.Budget(rho=10), noise=noise
            ) as session:
                name = session.ledger
                question = session.query(
                    "SELECT g, COUNT(*) AS n FROM t GROUP BY g", rho=1
                ).compare("A", "B")
                explained = session.explain(question, length=3, k=3, anyway=True)
                priced = session.price(question, length=3, k=4)
                found.append([text.replace(name, "ledger") for text in (
                    repr(explained), json.dumps(explained.to_dict(), sort_keys=True), repr(priced),
                    *(repr(row[2:]) for row in session.history), repr(noise.asked),
                )])  # fmt: skip
            assert explained.candidates == 2_000**3 > 2**31
        assert found[0] == found[1] == found[2]

    def test_idle_candidates_are_chosen_by_real_noise(self):
        with dpnb.Session(self.large(3), budget=dpnb.Budget(rho=10)) as session:
            question = session.query("SELECT g, COUNT(*) AS n FROM t GROUP BY g", rho=1).compare(
                "A", "B"
            )
            found = session.explain(question, length=3, k=10, rho="0.01", anyway=True)
        assert len({row.predicate for row in found.rows}) == 10
        assert all(1 <= row.rank_low <= row.rank_high <= 2_000**3 for row in found.rows)
