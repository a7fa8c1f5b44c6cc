"""What can be seen without reading an answer: how much work was done, and how many bytes came back.

Promised: the statements that the engine runs, their texts, their order and their number, the noise drawn, and
every byte of a reply but for the noise in it depend on public facts only; a refusal of either kind is as long
on one table as on another. Not promised: how long a scan or a selection among candidates takes and how much
memory it needs, and that a reply with other noise has as many digits.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from unittest import mock

import httpx
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Real, Schema, Table, Unit
from dpnb.engines import arrays, stored
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.server import tokens
from tests.kit.noise import BlindNoise
from tests.kit.streams import LONG, WatchedNoise

SCHEMA = Schema(
    {
        "sex": Category(["F", "M", "?"]),
        "age": Integer(17, 90, bins=[17, 40, 60, 90]),
        "wage": Real(0, 100, bins=[0, 50, 100]),
        "job": Category(["a", "b", *(f"unheard {i}" for i in range(6))]),
    }
)


def people(rows=200, seed=1):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": generator.integers(0, 60, rows),
            "sex": generator.choice(["F", "M", "stranger"], rows),
            "age": generator.integers(10, 99, rows),
            "wage": generator.uniform(-5, 120, rows),
            "job": generator.choice(["a", "b"], rows),
        }
    )


BASE = people()
TABLES = {
    "a row less": BASE.iloc[1:],
    "a row more": pd.concat([BASE, BASE.iloc[[3]]]),
    "nobody": BASE.iloc[:0],
    "thirty times": pd.concat([BASE] * 30),
    "all alike": BASE.assign(sex="F", age=50, wage=7.0),
    "nothing known": BASE.assign(sex="else", job="else", age=-1, wage=np.nan),
}


class Watched:
    """A connection to the engine that notes what is run, fetched and registered; cursors included."""

    def __init__(self, connection, seen):
        self._connection, self._seen = connection, seen

    def __getattr__(self, name):
        found = getattr(self._connection, name)
        if not callable(found):
            return found

        def call(*arguments, **options):
            texts = [one for one in arguments if isinstance(one, str)]
            self._seen.append((name, *texts))
            made = found(*arguments, **options)
            return Watched(made, self._seen) if type(made) is type(self._connection) else made

        return call


class Noted:
    """A module that notes which of its functions are called, and on what shapes and types."""

    def __init__(self, module, seen, *, shapes=True):
        self._module, self._seen, self._shapes = module, seen, shapes

    def __getattr__(self, name):
        found = getattr(self._module, name)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*arguments, **options):
            given = [*arguments, *options.values()]
            held = [one for one in given if self._shapes and isinstance(one, np.ndarray)]
            self._seen.append((name, *((one.shape, one.dtype.name) for one in held)))
            return found(*arguments, **options)

        return call


BY_SEX = "SELECT sex, COUNT(*) AS n, AVG(wage) AS m FROM t GROUP BY sex"


def work(session):
    """Requests of every kind, and refusals."""
    answer = session.query(BY_SEX, rho="0.1")
    yield session.query("SELECT SUM(wage) AS s, MEDIAN(age) AS q FROM t WHERE age > 30", rho="0.2")
    yield session.query("SELECT COUNT(*) AS n FROM t WHERE age > 30", error=9)
    yield session.query(BY_SEX, rho="0.1")
    yield session.query(BY_SEX, rho="0.4")
    question = answer.compare("F", "M", "n")
    yield session.explain(question, k=1, rho="0.5", anyway=True)
    yield session.explain(question, k=2, length=2, rho="0.5", anyway=True)
    for options in ({"u": 40}, {"mode": "rr", "alpha": 0.4}):
        sql = "SELECT sex FROM t WHERE age > 30 GROUP BY sex HAVING COUNT(*) > 20"
        yield session.decide(sql, beta=0.4, **options)
    yield session.infer("SELECT COUNT(*) AS n FROM t WHERE sex = 'F'")
    for sql, rho in ((BY_SEX, 99), ("SELECT MAX(age) FROM t", 1), ("SELECT COUNT(*) FROM u", 1)):
        with pytest.raises(dpnb.DpnbError):
            session.query(sql, rho=rho)
    yield session.price(BY_SEX, rho=3)


def done(frame, unit, in_memory=()):
    """What the engine was told and what was drawn, from the opening to the last answer."""
    seen, noise = [], WatchedNoise(last=True)
    original = DuckDBEngine.__init__

    def init(self, *arguments, **options):
        original(self, *arguments, **options)
        self._connection = Watched(self._connection, seen)

    with (
        mock.patch.object(DuckDBEngine, "__init__", init),
        mock.patch("secrets.token_bytes", bytes),
        mock.patch.object(arrays, "np", Noted(np, seen, shapes=False)),
        mock.patch.object(stored, "np", Noted(np, seen, shapes=False)),
    ):
        table = Table("t", frame, SCHEMA, unit, in_memory=in_memory)
        with dpnb.Session(table, budget=dpnb.Budget(rho=9), noise=noise) as session:
            assert len(list(work(session))) > 8
    # candidates that no row satisfies are drawn as one, so their number shows in the time it takes
    drawn = [
        (name, None if name == "largest" else count, scale) for name, count, scale in noise.asked
    ]
    return seen, drawn


COMPARED = {
    "rows": (None, (), ("a row less", "thirty times")),
    "ids": (Unit("id", max_rows=2), (), ("a row more", "nobody")),
    "columns in memory": (None, ("sex", "wage"), ("a row less", "nobody")),
}


@pytest.mark.parametrize("kind", COMPARED)
def test_the_same_work_is_done_on_every_table(kind):
    unit, in_memory, names = COMPARED[kind]
    seen, drawn = done(BASE, unit, in_memory)
    for name, least in (("execute", 3), ("bincount", 7)):
        assert [first for first, *_ in seen].count(name) > least
    assert len(drawn) > 8
    for name in TABLES if LONG else names:
        other_seen, other_drawn = done(TABLES[name], unit, in_memory)
        assert other_seen == seen, name
        assert other_drawn == drawn, name


def test_columns_in_memory_are_counted_alike_whatever_they_hold(monkeypatch):
    columns = [*SCHEMA]
    statements = [
        BY_SEX,
        "SELECT age, COUNT(*) AS n, SUM(age) AS s FROM t WHERE wage BETWEEN 3 AND 50 GROUP BY age",
        "SELECT AVG(age) FILTER (WHERE sex = 'F') AS m, MEDIAN(age) AS q FROM t WHERE wage IS NULL",
        "SELECT COUNT(*) AS n FROM t WHERE age IN (18, 20, 22, 24, 26, 28)",
    ]

    def noted(frame):
        seen = []
        for module in (arrays, stored):
            monkeypatch.setattr(module, "np", Noted(np, seen))
        table = Table("t", frame, SCHEMA, in_memory=columns)
        with dpnb.Session(table, budget=dpnb.Budget(rho=9)) as session:
            for sql in statements:
                session.query(sql, rho=1)
        return seen

    wanted = noted(BASE)
    assert [name for name, *_ in wanted].count("bincount") == 7
    for name in ("all alike", "nothing known"):
        assert noted(TABLES[name]) == wanted, name


class House:
    """A service on one table, and one analyst of it."""

    def __init__(self, frame, home, stack):
        home.mkdir()
        file = home / "tokens.json"
        self.token = tokens.add(file, "alice", [1])
        # public names are drawn at random, whatever the data
        with mock.patch("secrets.token_bytes", bytes):
            curator = dpnb.Curator(
                Table("t", frame, SCHEMA), budget=dpnb.Budget(rho=2, delta=1e-6), noise=BlindNoise(last=True),
                analysts={"alice": 1}, ledger=home / "ledger",
            )  # fmt: skip
        stack.callback(curator.close)
        service = curator.serve(port=0, tokens=file, background=True)
        stack.callback(service.close)
        self.client = stack.enter_context(httpx.Client(base_url=service.url, timeout=60))

    def ask(self, method, path, body=None, token=None):
        sent = {
            "Content-Type": "application/json", "Authorization": f"Bearer {token or self.token}",
        }  # fmt: skip
        content = None if body is None else json.dumps(body).encode()
        reply = self.client.request(method, path, content=content, headers=sent)
        headers = sorted((k, v) for k, v in reply.headers.items() if k != "date")
        return reply.status_code, headers, reply.text


def requests(house):
    def query(sql, rho, **more):
        return house.ask("POST", "/v2/query", {"sql": sql, "options": {"rho": rho}, **more})

    yield house.ask("GET", "/v2/tables")
    for sql in (
        BY_SEX,
        "SELECT COUNT(*) AS n FROM t",
        "SELECT AVG(wage) AS m FROM t WHERE age < 20",
    ):
        for rho in (0.01, 0.1, 0.1, 50):
            yield query(sql, rho)
            body = {"statements": [sql], "options": {"rho": rho}}
            yield house.ask("POST", "/v2/query/price", body)
    for sql in (
        "SELECT age FROM t",
        "SELECT COUNT(*) FROM t WHERE sex = 'stranger'",
        "",
        "SELECT 1;",
    ):
        yield query(sql, 0.1)
    answer = json.loads(query(BY_SEX, 0.1)[2])
    question = dpnb.answers.answer.Answer.from_dict(answer).compare("F", "M", "n").to_dict()
    options = {"rho": 0.1, "k": 1}
    yield house.ask("POST", "/v2/explain", {"question": question, "options": options})
    yield house.ask("POST", "/v2/explain", {"question": question, "options": {"rho": 60, "k": 1}})
    decided = {"sql": "SELECT sex FROM t GROUP BY sex HAVING COUNT(*) > 20", "options": {"u": 60}}
    yield house.ask("POST", "/v2/decide", decided)
    yield house.ask("POST", "/v2/infer", {"sql": "SELECT COUNT(*) AS n FROM t WHERE sex = 'F'"})
    with mock.patch.object(DuckDBEngine, "measure", side_effect=ValueError):
        yield query("SELECT COUNT(*) AS n FROM t WHERE age > 77", 0.01)
    yield house.ask("GET", "/v2/budget")
    yield house.ask("GET", "/v2/budget", token="nobody's")
    # until nothing is left
    for age in range(20, 80, 7):
        yield query(f"SELECT COUNT(*) AS n FROM t WHERE age <> {age}", 0.3)


def test_replies_have_the_same_bytes_on_every_table(tmp_path):
    compared = {name: TABLES[name] for name in (TABLES if LONG else ("a row less", "nobody"))}
    with ExitStack() as stack:
        told = {
            name: list(requests(House(frame, tmp_path / name, stack)))
            for name, frame in {"base": BASE, **compared}.items()
        }
    statuses = [status for status, _, _ in told["base"]]
    assert {200, 400, 401, 403, 500} <= set(statuses)
    for name in compared:
        for mine, theirs in zip(told[name], told["base"], strict=True):
            assert mine == theirs, name
    # what is compared has lengths, which are those of the bodies
    for _, headers, text in told["base"]:
        assert int(dict(headers)["content-length"]) == len(text.encode())


def test_the_comparison_would_notice_a_leak(tmp_path):
    with ExitStack() as stack:
        stack.enter_context(
            mock.patch.object(BlindNoise, "gaussian", lambda self, exact, scale: list(exact))
        )
        told = []
        for name in ("a row more", "a row less"):
            replies = requests(House(TABLES[name], tmp_path / name, stack))
            told.append([next(replies) for _ in range(6)])
    assert told[0] != told[1]


def test_a_refusal_for_an_unknown_value_is_as_long_as_for_one_that_some_row_has(tmp_path):
    """Undeclared values are unknown alike, whether rows hold them or not."""
    replies = set()
    with ExitStack() as stack:
        house = House(BASE, tmp_path / "home", stack)
        for value in ("stranger", "nowhere!"):
            sql = f"SELECT COUNT(*) FROM t WHERE sex = '{value}'"
            status, _, text = house.ask("POST", "/v2/query", {"sql": sql, "options": {"rho": 0.1}})
            replies.add((status, len(text), re.sub(value, "value", text)))
    assert len(replies) == 1
