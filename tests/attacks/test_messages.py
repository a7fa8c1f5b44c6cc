"""Everything a session says depends on public facts only.

The same long script of requests, good and bad, runs against neighbouring and extreme tables. The
noise is replaced by a fixed pattern that ignores what it is given, so that *everything* must be equal:
texts, errors, warnings, prices, charges, shapes, ledger entries and even the numbers.
"""

from __future__ import annotations

import json
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.privacy.definition import PURE, ZCDP
from tests.kit.noise import NoNoise
from tests.kit.streams import LONG, WatchedNoise, compared, entries, outcome, refusals, silence

SCHEMA = Schema(
    {
        "sex": Category(["Female", "Male", "?"]),
        "job": Category(["a", "b", "rest"], other="rest"),
        "age": Integer(17, 90, bins=[17, 30, 60, 90]),
        "code": Integer(-5, 5),
        "wage": Real(0, 200, bins=[0, 10, 50, 200]),
        "day": Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]),
    }
)


def people(rows, seed=1):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": generator.choice(["Female", "Male", "?", "stranger"], rows),
            "job": generator.choice(["a", "b", "c"], rows),
            "age": generator.normal(40, 20, rows).round(),
            "code": generator.integers(-9, 9, rows),
            "wage": generator.lognormal(3, 1, rows),
            "day": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(generator.integers(-9, 400, rows), unit="D"),
        }
    ).astype({"sex": "string", "job": "string", "code": "Int64", "day": "datetime64[us]"})


def changed(**values):
    frame = people(150)
    for name, value in values.items():
        frame[name] = pd.Series([value] * 150, dtype=frame[name].dtype)
    return frame


BASE = people(150)
ONE = pd.concat([BASE, BASE.iloc[[3]]], ignore_index=True)
TABLES = {
    "one row more": ONE,
    "one row less": BASE.iloc[1:],
    "a heavy row more": pd.concat(
        [BASE, BASE.iloc[[0]].assign(age=1e308, wage=1e308, code=2**62)], ignore_index=True
    ),
    "other order": BASE.sample(frac=1, random_state=3),
    "ten times": pd.concat([BASE] * 10, ignore_index=True),
    "empty": BASE.iloc[:0],
    "one row": BASE.iloc[:1],
    "all missing": changed(sex=None, job=None, age=np.nan, code=None, wage=np.nan, day=pd.NaT),
    "all outside": changed(sex="x", job="x", age=-1e9, code=10**9, wage=-5.0,
                           day=pd.Timestamp("1990-01-01")),
    "infinities": changed(age=np.inf, wage=-np.inf),
    "all alike": changed(sex="Male", job="a", age=40.0, code=1, wage=1.5),
    # of all kinds at once: in any order, of any length, outside and missing
    "extremes": pd.concat(
        [BASE.sample(frac=1, random_state=3)] * 9
        + [BASE.assign(**{name: pd.Series([value] * 150, dtype=BASE[name].dtype)})
           for name, value in {"sex": None, "job": "<script>'\"; DROP TABLE rows; --" * 99, "age": np.inf,
                               "wage": -np.inf, "code": 2**62, "day": pd.Timestamp("1990-01-01")}.items()],
        ignore_index=True,
    ),
    "long texts": changed(sex="x" * 10_000, job="<script>'\"; DROP TABLE rows; --"),
}  # fmt: skip

GOOD = [
    "SELECT COUNT(*) AS n FROM t",
    "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY n DESC LIMIT 2",
    "SELECT sex, age, AVG(wage) AS m, SUM(wage) AS s, COUNT(wage) FROM t GROUP BY sex, age ORDER BY m",
    "SELECT job, AVG(code) AS m FROM t WHERE sex = 'Male' AND wage > 10.5 GROUP BY job ORDER BY m DESC",
    "SELECT day, wage, COUNT(age) FILTER (WHERE code > 0) AS n FROM t GROUP BY wage, day",
    "SELECT AVG(age) AS m, SUM(age) AS s FROM t WHERE wage > 199.99 AND wage < 199.995",
    "SELECT code, SUM(age) FROM t WHERE age IS NULL OR NOT (wage <= 5 OR sex = '?') GROUP BY code",
    "SELECT COUNT(*) AS n FROM t WHERE age < 17",
    "SELECT sex, VAR_POP(wage) AS v, STDDEV(age) / AVG(age) AS c, MEDIAN(code) AS m FROM t GROUP BY sex",
    "SELECT QUANTILE(wage, 0.9) - MEDIAN(wage) AS r, VARIANCE(code * wage) FROM t WHERE day IS NOT NULL",
    "SELECT sex, ROUND(AVG(wage), 1) AS m, LN(COUNT(*)) AS l FROM t GROUP BY sex HAVING COUNT(*) > 5 ORDER BY m / l",
    "SELECT job, COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM t GROUP BY job QUALIFY RANK() OVER (ORDER BY SUM(wage)) < 3",
    "SELECT MAX(n) AS most, COUNT(*) AS k FROM (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING AVG(age) > 40) AS g",
]
BAD = [
    "SELECT",
    "SELECT * FROM t",
    "SELECT COUNT(*) FROM u",
    "SELECT MIN(age) FROM t",
    "SELECT COUNT(*) FROM t WHERE sex = 'stranger'",
    "SELECT COUNT(*) FROM t WHERE sex = 'x'",
    "SELECT COUNT(*) FROM t WHERE CAST(sex AS INT) = 1",
    "SELECT COUNT(*) FROM t WHERE 1 / code > 0",
    "SELECT COUNT(*) FROM t WHERE ln(wage) > 0",
    "SELECT sex, COUNT(*) n FROM t GROUP BY sex HAVING n > 5",
    "SELECT COUNT(*) FROM t; SELECT 1",
    "SELECT COUNT(*) FROM t JOIN t u ON 1 = 1",
    "SELECT COUNT(DISTINCT sex) FROM t",
    "SELECT MEDIAN(sex) FROM t",
    "SELECT age, QUANTILE(age, 0.9) FROM t GROUP BY age",
]


DECISIONS = [
    "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING COUNT(*) > 20",
    "SELECT sex, age FROM t GROUP BY age, sex HAVING (COUNT(*) > 5 AND AVG(wage) > 20) OR SUM(code) < 9",
    "SELECT job FROM t GROUP BY job HAVING NOT (COUNT(DISTINCT code) BETWEEN 3 AND 6)",
    "SELECT sex FROM t GROUP BY sex HAVING COUNT(*) = 5",
    "SELECT sex FROM t GROUP BY sex HAVING AVG(wage) > 20",
    "SELECT sex FROM t GROUP BY sex HAVING COUNT(*) > 5 AND COUNT(*) < 3",
]


def script(session, privacy):
    """Yield what each step returns or raises, as text."""
    name = "rho" if privacy == ZCDP else "epsilon"

    def answer(sql, **options):
        found = session.query(sql, **options)
        return (
            repr(found),
            found.to_markdown(),
            json.dumps(found.to_dict(), sort_keys=True),
            json.dumps(found.record(), sort_keys=True),
            found.to_frame().to_csv(),
        )

    def decided(sql, **options):
        found = session.decide(sql, **options)
        return (
            repr(found),
            found._repr_html_(),
            json.dumps(found.to_dict(), sort_keys=True),
            found.to_frame().to_csv(),
            found.next_cost and repr(found.refine()),
        )

    def refined(sql, **options):
        """Step by step, until one cannot be paid for."""
        found = outcome(lambda: session.decide(sql, **options))
        yield repr(found)
        while not isinstance(found, tuple) and found.next_cost:
            found = outcome(found.refine)
            yield repr(found)

    yield repr(session), repr(session.budget), repr(session.tables)
    for i, sql in enumerate(DECISIONS):
        for mode in ("certified", "margin", "hybrid", "rr", "probe"):
            yield outcome(lambda q=sql, m=mode: repr(session.price(q, beta=0.05, mode=m)))
        ways = [
            {}, {"mode": "margin", "u": 900}, {"mode": "hybrid", "beta": 0.4, "alpha": 0.4},
            {"mode": "rr", "beta": 0.4, "alpha": 0.4}, {"alpha": 0.3, "protect": "fpr", "steps": 2},
            {"mode": "paper"},
        ]  # fmt: skip
        # every way for the condition of all kinds, two of them for every other one
        for options in ways if LONG or i == 1 else (ways[i], ways[(i + 2) % 6]):
            yield outcome(lambda q=sql, o=options: decided(q, **o))
    yield list(refined(DECISIONS[0], steps=1))
    for i, sql in enumerate([*GOOD, *BAD]):
        # bought, refined, stored, asked again, refined, too dear, meaningless
        levels = (0.01, 0.05, 0.02, 0.05, 0.3, 100, -1)
        # a text that cannot be read is refused before anybody looks at its price
        for level in levels if LONG or i in (0, 8) else levels[1:2] if sql in BAD else levels[:3]:
            yield outcome(lambda q=sql, x=level: repr(session.price(q, **{name: x})))
            yield outcome(lambda q=sql, x=level: answer(q, **{name: x}))
        if LONG or i % 3 == 0:
            yield outcome(lambda q=sql: answer(q, error=50, rows=200, confidence=0.9))
            yield outcome(lambda q=sql: answer(q, error=1e-6, rows=200))
        if LONG or i % 3 == 1:
            yield outcome(lambda q=sql: answer(q, **{name: 0.01}, looks="any", intervals="each"))
    yield outcome(lambda: [repr(price) for price in session.price(GOOD * 2, **{name: 0.2})])
    # until nothing is left
    for sql in GOOD:
        yield outcome(lambda q=sql: answer(q, **{name: 0.4}))

    def compare(sql, left, right, aggregate=None):
        found = session.query(sql, **{name: 0.01})
        question = found.compare(left, right, aggregate)
        return question.sentence, question.to_dict()

    yield outcome(lambda: compare(GOOD[1], "Female", "Male"))
    yield outcome(lambda: compare(GOOD[2], ("Male", "[17, 30]"), ("Male", "(60, 90]"), "m"))
    yield outcome(lambda: compare(GOOD[1], "Female", "stranger"))
    yield [row[2:] for row in session.history], len(session.history), repr(session.budget)


def stream(frame, privacy, path, caplog, capfd):
    noise = WatchedNoise()
    budget = dpnb.Budget(rho="2.5", delta=1e-6) if privacy == ZCDP else dpnb.Budget(epsilon=6)
    with silence(caplog, capfd):
        table = Table("t", frame, SCHEMA)
        # the ledger's name is drawn at random, whatever the data
        with (
            mock.patch("secrets.token_bytes", bytes),
            dpnb.Session(table, budget=budget, ledger=path, noise=noise) as session,
        ):
            said = list(script(session, privacy))
    assert noise.whole
    return said, noise.asked, entries(path)


BASES = {ZCDP: BASE, PURE: TABLES["one row less"]}
"""What all others are compared with."""


@pytest.fixture(scope="module")
def known():
    """What is said about the base table, by privacy definition; filled by the first test that needs it."""
    return {}


def base_stream(known, privacy, folder, caplog, capfd):
    if privacy not in known:
        known[privacy] = stream(BASES[privacy], privacy, folder / "base", caplog, capfd)
    return known[privacy]


@pytest.mark.parametrize(
    ("privacy", "name"),
    compared(
        TABLES,
        zcdp=("one row more", "extremes"),
        pure=("empty",),
    ),
)
def test_the_stream_of_messages_is_identical(name, privacy, known, tmp_path, caplog, capfd):
    said, asked, written = stream(TABLES[name], privacy, tmp_path / "other", caplog, capfd)
    base_said, base_asked, base_written = base_stream(known, privacy, tmp_path, caplog, capfd)
    for mine, theirs in zip(said, base_said, strict=True):
        assert mine == theirs
    assert asked == base_asked
    assert written == base_written


def test_the_script_meets_answers_and_every_kind_of_refusal(known, tmp_path, caplog, capfd):
    said, asked, written = base_stream(known, ZCDP, tmp_path, caplog, capfd)
    assert set(refusals(said)) == {"SqlError", "RequestError", "BudgetError"}
    text = repr(said)
    for kind in (
        "is left", "with which the first step would pass", "the step was not taken", "Look 4 of this answer",
        "out of range for noise", "this answer has no group", "cannot be fixed in advance",
    ):  # fmt: skip
        assert kind in text
    assert len(asked) > 20
    assert sum(entry["kind"] == "answer" for entry in written) > 20
    spent = sum(Fraction(entry["spent"]["rho"]) for entry in written if entry["kind"] == "answer")
    assert 0 < spent <= Fraction("2.5")


def test_the_comparison_would_notice_a_leak(tmp_path, caplog, capfd):
    streams = []
    for number, frame in enumerate((BASE, ONE)):
        table = Table("t", frame, SCHEMA)
        ledger = tmp_path / f"{number}"
        with dpnb.Session(table, budget=dpnb.Budget(rho=1), ledger=ledger, noise=NoNoise()) as s:
            streams.append(repr(s.query(GOOD[0], rho=0.1)))
    assert streams[0] != streams[1]


@pytest.mark.parametrize("rows", [["1,Male"], ["1,Male"] * 2, [], [","] * 3])
def test_csv_files_say_nothing_either(rows, tmp_path, caplog, capfd):
    streams = []
    for number, lines in enumerate((["5,Female"] * 9, rows)):
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(["code,sex", *lines]) + "\n")
        schema = Schema({"code": SCHEMA["code"], "sex": SCHEMA["sex"]})
        noise = WatchedNoise()
        with dpnb.Session(Table("t", path, schema), budget=dpnb.Budget(rho=1), noise=noise) as s:
            streams.append([repr(s.query(sql, rho=0.01)) for sql in GOOD[:2]])
    assert streams[0] == streams[1]
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
