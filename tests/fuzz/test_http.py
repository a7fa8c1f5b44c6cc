"""The service under requests that a program makes up from its own description, and under hostile ones.

Each request goes to two services that differ in their data alone, with noise that ignores what it is
given: every byte of the replies must agree, so none of them tells anything of the data beyond its
noisy release. Nothing is charged but what an acknowledged answer says.

``DPNB_LONG=1`` tries ten times as many.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
from contextlib import suppress
from itertools import product
from unittest import mock
from urllib.parse import urlsplit

import pandas as pd
import pytest
import requests
import schemathesis
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import dpnb
from dpnb import Category, Integer, Schema, Table
from dpnb.privacy.loss import PrivacyLoss
from dpnb.server import tokens
from dpnb.server.app import create_app
from dpnb.server.endpoints import ENDPOINTS
from dpnb.server.limits import Limits
from dpnb.server.tokens import TokenFile
from tests.kit.noise import BlindNoise

LONG = 10 if os.environ.get("DPNB_LONG") == "1" else 1
BODY = 50_000
SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "job": Category(["clerk", "smith", "rest"], other="rest"),
        "wage": Integer(0, 100, bins=[0, 50, 100]),
    },
    undeclared=["city"],
)
SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
HAVING = "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING COUNT(*) > 40"
STATEMENTS = (
    SQL,
    HAVING,
    "SELECT COUNT(*) AS n FROM people WHERE wage > 50",
    "SELECT job, AVG(wage) AS m, SUM(wage) AS s FROM people GROUP BY job",
    "SELECT MEDIAN(wage) AS m, VAR_POP(wage) AS v FROM people WHERE sex = 'F'",
    "SELECT COUNT(*) AS n FROM people WHERE job = :job AND wage <= :most",
    "SELECT sex, AVG(wage) AS m FROM people GROUP BY sex HAVING AVG(wage) > :quota",
)
TRACES = re.compile(
    rb"Traceback|File \\?\"|site-packages|\.py\b|0x[0-9a-f]{6}|sqlite|duckdb", re.IGNORECASE
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def people(heavy):
    """Every combination of values once or often: what there is is the same, how much of it is not."""
    each = [
        (sex, job, wage, city)
        for sex in ("F", "M")
        for job in ("clerk", "smith", "stranger")
        for wage in (10, 70)
        for city in ("Bath", "York")
    ]
    times = [7, 1, 40] if heavy else [9]
    rows = [row for i, row in enumerate(each) for _ in range(times[i % len(times)])]
    frame = pd.DataFrame(rows, columns=["sex", "job", "wage", "city"])
    if heavy:
        frame.loc[frame["wage"] == 70, "wage"] = 10**9
    return Table("people", frame, SCHEMA)


class Twins:
    """Two services over tables that differ, with the same analysts and tokens."""

    def __init__(self, home, portal):
        self.portal, self.known = portal, {}
        levels = {"alice": (4,), "poor": (1,), "gone": (4,)}
        file = home / "tokens.json"
        self.tokens = {name: tokens.add(file, name, own) for name, own in levels.items()}
        self.curators, self.apps = [], []
        for number, heavy in enumerate((False, True)):
            # a ledger's name is drawn at random, whatever the data
            with mock.patch("secrets.token_bytes", bytes):
                curator = dpnb.Curator(
                    [people(heavy)],
                    budget=dpnb.Budget(rho=10**6, delta=1e-6, key_delta=1e-7),
                    analysts=levels,
                    ledger=home / f"ledger{number}",
                    noise=BlindNoise(),
                )
            curator.limit("poor", rho="0.001")
            limits = Limits(rate=1e9, burst=10**9, body=BODY)
            self.curators.append(curator)
            self.apps.append(create_app(curator._runner, TokenFile(file), limits=limits))
        tokens.revoke(file, "gone")
        answer = self.curators[0].session("alice").query(SQL, rho=1)
        self.curators[1].session("alice").query(SQL, rho=1)
        self.question = answer.compare("F", "M").reference.to_dict()

    def close(self):
        for curator in self.curators:
            curator.close()

    def written(self, curator):
        """The number of entries, but for what the owner is to know of refusals."""
        refused = sum(map(len, curator._runner.store.provenance.refusals.values()))
        return curator._runner.store.ledger.sequence - refused

    def state(self, curator):
        """Everything that is charged and written."""
        spent = {name: curator.session(name).budget.spent for name in ("alice", "poor")}
        self.known[curator] = spent, curator.budget.spent, self.written(curator)
        return self.known[curator]

    def state_before(self, curator):
        """The state after the last request, unless something else was written since."""
        known = self.known.get(curator)
        if known is not None and known[2] == self.written(curator):
            return known
        return self.state(curator)

    def send(self, method, path, headers=(), body=b"", chunk=10_000):
        """Send a request to both; what they reply and charge must agree."""
        before = [self.state_before(curator) for curator in self.curators]
        replies = self.portal.call(exchanges, self.apps, method, path, headers, body, chunk)
        after = [self.state(curator) for curator in self.curators]
        found = [(*reply, *states) for reply, *states in zip(replies, before, after, strict=True)]
        for status, heads, content, before, after in found:
            check_reply(status, heads, content, path.encode("latin-1") + body)
            check_charges(path, status, content, before, after)
        (status, heads, content, _, charged), (*other, _, others) = found
        assert (status, heads, timeless(content)) == (other[0], other[1], timeless(other[2]))
        assert charged == others
        return status, heads, content

    def headers(self, name=None, **more):
        """Headers of a request in JSON, with the token of an analyst, a wrong one, or none."""
        token = {"wrong": self.tokens["alice"][:-1] + "?", **self.tokens}.get(name)
        made = {"Host": "x", "Content-Type": "application/json", **more}
        if token is not None:
            made["Authorization"] = f"Bearer {token}"
        return [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in made.items()]

    def post(self, path, body, name="alice", **more):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, self.headers(name, **more), content)


async def exchanges(apps, method, path, headers, body, chunk):
    """Let each app reply to the same request."""
    return [await exchange(app, method, path, list(headers), body, chunk) for app in apps]


async def exchange(app, method, path, headers, body, chunk):
    """Let an app reply to one request; ``path`` is what stands in the request's first line."""
    path, _, query = path.partition("?")
    raw = path.encode("latin-1")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": requests.utils.unquote(path), "raw_path": raw, "root_path": "",
        "query_string": query.encode("latin-1"), "headers": headers, "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }  # fmt: skip
    parts = [body[i : i + chunk] for i in range(0, len(body), chunk)] or [b""]
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False
    start, content = {}, b""

    async def receive():
        if messages:
            return messages.pop(0)
        from anyio import sleep_forever

        return await sleep_forever()

    async def send(message):
        nonlocal content
        start.update(message if message["type"] == "http.response.start" else {})
        content += message.get("body", b"")

    await app(scope, receive, send)
    return start["status"], sorted(start["headers"]), content


def timeless(content):
    return re.sub(rb'"time":"[^"]*"', b"", content)


def check_reply(status, headers, content, sent):
    assert status < 500, content
    names = dict(headers)
    assert names[b"content-type"] == b"application/json"
    assert names[b"cache-control"] == b"no-store"
    assert all(b"\r" not in value and b"\n" not in value for _, value in headers)
    data = json.loads(content)
    if status != 200:
        assert {"kind", "what", "hint", "where"} <= set(data)
        assert all(isinstance(text, str) for name, text in data.items() if name not in PLACES)
    # a mistake is quoted as it was sent, whatever it names
    own = [one for one in TRACES.findall(content) if one.lower() not in sent.lower()]
    assert "openapi" in data or not own, content


PLACES = {"line", "column"}
SPENDING = {endpoint.path for endpoint in ENDPOINTS if endpoint.spends}


def check_charges(path, status, content, before, after):
    """What a reply says that it cost is what was written down; nothing else is."""
    if status != 200 or path not in SPENDING:
        assert after == before, path
        return
    data = json.loads(content)
    told = PrivacyLoss.from_dict(data["spent"])
    (rows, spent, written), (new_rows, new_spent, new_written) = before, after
    changed = [name for name in rows if rows[name] != new_rows[name]]
    assert sum((new_rows[name].rho - rows[name].rho for name in changed), 0) == told.rho
    assert new_spent.rho - spent.rho <= told.rho
    # another request that costs nothing is written down, too
    assert new_written > written or told.rho == 0


@pytest.fixture(scope="module")
def portal():
    with start_blocking_portal() as found:
        yield found


@pytest.fixture(scope="module")
def twins(portal, tmp_path_factory):
    found = Twins(tmp_path_factory.mktemp("twins"), portal)
    yield found
    found.close()


@pytest.fixture(scope="module")
def described(twins):
    _, _, content = twins.send("GET", "/v2/openapi.json")
    # tokens are set by the tests themselves
    config = SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False}})
    return schemathesis.openapi.from_dict(json.loads(content), config=config)


def tried(count):
    """So many examples, always the same. What a request finds depends on those before it."""
    return settings(
        max_examples=count * LONG,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


AMOUNTS = st.sampled_from([0.01, "0.02", "1/7", 3, 1e-9, 1e300, "1e4000", {"$picked": "0.5"}])
PLAUSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "rho": AMOUNTS,
        "error": st.one_of(AMOUNTS, st.dictionaries(st.sampled_from("nms"), AMOUNTS, min_size=1)),
        "rows": st.sampled_from([1, 50, 10**30]),
        "confidence": st.sampled_from([0.5, 0.95, 1 - 1e-16]),
        "k": st.integers(1, 4),
        "beta": st.sampled_from([0.05, 0.4]),
        "u": st.sampled_from([5, 1e-300, {"n": 3}, None]),
        "mode": st.sampled_from(["certified", "margin", "rr", "tight", "paper"]),
        "looks": st.sampled_from([1, "any"]),
        "thresholds": st.just({"quota": [[["F"], 4], [["M"], 5]]}),
    },
)
KNOWN = {
    "/v2/query": {"rho", "error", "rows", "confidence", "looks"},
    "/v2/infer": {"error", "confidence"},
    "/v2/explain": {"rho", "error", "k", "confidence", "mode"},
    "/v2/discover": {"rho", "confidence"},
    "/v2/decide": {"beta", "u", "mode", "rows", "confidence", "thresholds"},
}
ALIKE = {
    "/v2/query/price": "/v2/query",
    "/v2/explain/price": "/v2/explain",
    "/v2/discover/price": "/v2/discover",
    "/v2/decide/price": "/v2/decide",
}


def meaningful(body, path, question, draw):
    """Put what makes sense into a body that was made up, here and there."""
    body = dict(body)
    known = KNOWN.get(ALIKE.get(path, path), ())
    fitting = {
        "sql": st.sampled_from(STATEMENTS),
        "statements": st.lists(st.sampled_from(STATEMENTS), max_size=3),
        "column": st.sampled_from(["city", "CITY", "sex"]),
        "question": st.one_of(
            st.just(question),
            st.builds(
                lambda name, value: {**question, name: value},
                st.sampled_from(sorted(question)),
                st.sampled_from(sorted(question.values(), key=repr)),
            ),
        ),
        "params": st.just({"job": "clerk", "most": 40}),
        "options": PLAUSIBLE.map(lambda o: {n: o[n] for n in o if n in known}),
    }
    for name, strategy in fitting.items():
        here = name in body or name in ("options", "params")
        belongs = name in ENTRIES[path]
        if here and belongs and draw(st.integers(0, 3)):
            body[name] = draw(strategy)
    return body


ENTRIES = {endpoint.path: endpoint.entries for endpoint in ENDPOINTS}


def prepared(case, headers):
    """The request that a case means: its path and headers as they are sent, and its body."""
    sent = case.as_transport_kwargs(base_url="http://x")
    sent["headers"].pop("Authorization", None)
    request = requests.Request(**sent).prepare()
    place = urlsplit(request.url)
    path = f"{place.path}?{place.query}" if place.query else place.path
    body = request.body or b""
    body = body.encode() if isinstance(body, str) else body
    own = [
        (
            name.lower().encode("latin-1"),
            value.encode("latin-1") if isinstance(value, str) else value,
        )
        for name, value in request.headers.items()
    ]
    return request, path, [*own, *headers], body


def replied(request, status, headers, content):
    """A reply as schemathesis checks it."""
    heads = {name.decode(): [value.decode()] for name, value in headers}
    return schemathesis.Response(status, heads, content, request, 0.0, verify=False)


OPERATIONS = [
    pytest.param(f"{one.method} {one.path}", mode, id=f"{one.name}-{mode.value}")
    for one in ENDPOINTS
    for mode in GenerationMode
    # without a body there is nothing to say wrongly
    if one.entries or mode is GenerationMode.POSITIVE
]


class TestWhatTheDescriptionAllows:
    @pytest.mark.parametrize(("operation", "mode"), OPERATIONS)
    def test_every_reply_is_as_described(self, operation, mode, twins, described):
        method, path = operation.split()
        offered = described[path][method].as_strategy(mode)

        @tried(11 if ENTRIES[path] else 5)
        @given(case=offered, name=st.sampled_from(["alice", "alice", "poor"]), data=st.data())
        def run(case, name, data):
            # where no statement is priced nothing is said about how to answer it
            idle = isinstance(case.body, dict) and case.body.get("statements") == []
            checks = CHECKS if idle else [*CHECKS, negative_data_rejection]
            if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
                case.body = meaningful(case.body, path, twins.question, data.draw)
                checks = CHECKS
            token = [(b"authorization", f"Bearer {twins.tokens[name]}".encode())]
            request, sent, headers, body = prepared(case, token)
            reply = twins.send(case.method, sent, headers, body)
            case.validate_response(replied(request, *reply), checks=checks)

        run()

    @pytest.mark.parametrize("name", ["none", "wrong", "gone"])
    def test_without_a_good_token_nothing_is_told(self, name, twins, described):
        operations = [one.ok() for one in described.get_all_operations()]
        states = [twins.state(curator) for curator in twins.curators]

        @tried(15)
        @given(
            case=st.sampled_from(operations).flatmap(
                lambda one: st.sampled_from(list(GenerationMode)).flatmap(one.as_strategy)
            )
        )
        def run(case):
            token = [head for head in twins.headers(name) if head[0] == b"authorization"]
            request, sent, headers, body = prepared(case, token)
            status, _, content = reply = twins.send(case.method, sent, headers, body)
            case.validate_response(replied(request, *reply), checks=CHECKS)
            if status == 200:
                assert sent in ("/v2/health", "/v2/ready", "/v2/openapi.json")
            else:
                assert status in (400, 401, 405, 413), content
            if status == 401:
                assert json.loads(content)["what"] == "the token is not accepted"

        run()
        assert [twins.state(curator) for curator in twins.curators] == states

    def test_requests_of_every_kind_were_answered(self, twins):
        for path, body in {
            "/v2/query": {"sql": STATEMENTS[3], "options": {"rho": 0.03}},
            "/v2/infer": {"sql": SQL},
            "/v2/explain": {"question": twins.question, "options": {"k": 2, "rho": 0.4}},
            "/v2/decide": {"sql": HAVING, "options": {"mode": "margin"}},
            "/v2/discover": {"column": "city", "options": {"rho": 0.4}},
            "/v2/query/price": {"statements": [SQL], "options": {"rho": 0.03}},
            "/v2/explain/price": {"question": twins.question, "options": {"rho": 0.4}},
            "/v2/decide/price": {"sql": HAVING},
            "/v2/discover/price": {"column": "city", "options": {"rho": 0.4}},
        }.items():
            assert twins.post(path, body)[0] == 200, path
        assert twins.post("/v2/query", {"sql": SQL, "options": {"rho": 5}}, "poor")[0] == 403


DEEP = [b"[" * 40_000, b'{"a":' * 8_000, b'{"sql":' + b"[" * 25 + b"]" * 25 + b"}"]
WRONG = [
    None, True, 0, -1, 1.5, 10**400, 1e308, "", "x" * 40_000, "\x00", "\ud800", "☃", [], [[]], {}, [None],
    {"$type": "Curator"}, {"$date": "2024-02-30"}, {"$fraction": "1/0"}, {"$number": "nan"},
    {"$number": "inf"}, {"$picked": "nan"}, {"$picked_fraction": "-1/3"}, {"$datetime": "x"},
    {"$x": "y"}, {"": {"": {"": ""}}}, {"__class__": "x"}, "-0", "1e9999999", "1/0", "١",
]  # fmt: skip


def some(values, count, generator=random.Random(3)):  # noqa: B008, S311
    """Some of the values, always the same; all of them with DPNB_LONG=1."""
    return list(values) if LONG > 1 else generator.sample(list(values), count)


class TestHostileBodies:
    @pytest.mark.parametrize("path", sorted(path for path, entries in ENTRIES.items() if entries))
    def test_what_is_no_request_is_refused(self, path, twins):
        malformed = [
            b"", b" ", b"{", b"}", b"null", b"[]", b'"x"', b"1", b"{}}", b"{} {}", b"\xef\xbb\xbf{}",
            b'{"sql": NaN}', b'{"sql": Infinity}', b'{"sql": -Infinity}', b'{"sql": 1e999}',
            b'{"sql": "a", "sql": "b"}', b'{"options": {"rho": 1, "rho": 2}}', b"\xff\xfe{\x00}\x00",
            b'{"sql": "\xff"}', b'{"sql": "\xed\xa0\x80"}', b'{"sql": "\\ud800"}', b"{'sql': 1}",
            b'{"sql": 1,}', b"// x\n{}", b'{"sql": 0x1}', b'{"sql": 01}', b'{"a" 1}', b"\x00" * 100,
            b'{"sql": ' + b"9" * 20_000 + b"}", b'{"sql": 1e' + b"9" * 20_000 + b"}", *DEEP,
        ]  # fmt: skip
        for body in malformed:
            status, _, content = twins.post(path, body)
            assert status == 400, (body[:40], content)
        for size in (BODY + 1, 4 * BODY):
            assert twins.post(path, b" " * size)[0] == 413

    @pytest.mark.parametrize("path", sorted(path for path, entries in ENTRIES.items() if entries))
    def test_values_of_wrong_types_are_refused_or_make_sense(self, path, twins):
        good = {
            "sql": HAVING if "deci" in path else SQL,
            "statements": [SQL],
            "question": twins.question,
            "column": "city",
        }
        good = {name: good[name] for name in good if name in ENTRIES[path]}
        if "options" in ENTRIES[path]:
            amount = {"beta": 0.05} if "deci" in path else {"rho": 0.4}
            good["options"] = {"confidence": 0.9} if path == "/v2/infer" else amount
        assert twins.post(path, good)[0] == 200
        # each value is tried at each entry, and in each of six forms at some
        for number, (name, value) in enumerate(product(ENTRIES[path], WRONG)):
            known = good[name] if isinstance(good.get(name), dict) else {}
            wrong = [
                value, [value], {"rho": value, "error": value, "n": value}, {"quota": value},
                {**known, "confidence": value}, {**known, "rows": value, "u": value, "k": value},
            ]  # fmt: skip
            turn = number + list(ENTRIES).index(path)
            for one in wrong if LONG > 1 else wrong[turn % len(wrong) :][:1]:
                twins.post(path, {**good, name: one})

    def test_questions_with_one_wrong_entry(self, twins):
        paths = ("/v2/explain", "/v2/explain/price")
        for name in twins.question:
            for value in [*some(WRONG, 6), 10**400]:
                question = {**twins.question, name: value}
                for path in some(paths, 1):
                    status, _, _ = twins.post(path, {"question": question, "options": {"rho": 0.4}})
                    assert status in (200, 400)
            left = {other: twins.question[other] for other in twins.question if other != name}
            for path in paths:
                assert twins.post(path, {"question": left})[0] == 400

    def test_bytes_of_a_good_request_changed(self, twins):
        generator = random.Random(5)  # noqa: S311
        body = json.dumps(
            {"sql": STATEMENTS[5], "params": {"job": "clerk", "most": 4}, "options": {"rho": 0.01}}
        ).encode()
        statuses = set()
        for _ in range(250 * LONG):
            changed = mutated(body, generator, 10, (b'"', b"{", b"]", b"\\u0000", b"'", b"9"))
            statuses.add(twins.post("/v2/query", changed)[0])
        assert {200, 400} <= statuses <= {200, 400, 403}


class TestHostileOutsides:
    def test_methods_and_paths(self, twins):
        paths = [endpoint.path for endpoint in ENDPOINTS]
        odd = [
            "", "/", "*", "/v1", "/v2/", "//v2/budget", "/v2/budget/", "/v2/./budget", "/v2/%62udget",
            "/v2/budget%00", "/v2/../v2/budget", "/V1/budget", "/v2/budget;x", "/v2/budg\xe9t",
            "/v2/budget%0d%0aX: y", "/v2/budget\r\nX: y", "/%2e%2e/etc/passwd", "/" * 9_000, "http://x/",
        ]  # fmt: skip
        known = {endpoint.path: endpoint.method for endpoint in ENDPOINTS}
        methods = [
            "GET",
            "POST",
            "PUT",
            "HEAD",
            "OPTIONS",
            "TRACE",
            "CONNECT",
            "get",
            "",
            "\r\n",
            "X" * 99,
        ]
        for path in [*paths, *odd]:
            for method in methods:
                status, _, _ = twins.send(method, path, twins.headers("alice"), b"{}")
                if known.get(path) == method:
                    assert status in (200, 400)
                else:
                    assert status == (405 if path in known else 404)
        for query in ("?", "?x", "?token=x", "?%00", "?\xff"):
            status, _, _ = twins.send("GET", f"/v2/budget{query}", twins.headers("alice"))
            assert status == (200 if query == "?" else 400)

    @pytest.mark.parametrize(
        "name", ["authorization", "content-type", "idempotency-key", "dpnb-privilege", "content-length",
                 "content-encoding", "host", "cookie", "x-forwarded-for", "transfer-encoding"],
    )  # fmt: skip
    def test_headers(self, name, twins):
        body = json.dumps({"sql": SQL, "options": {"rho": 0.01}}).encode()
        usual = [head for head in twins.headers("alice") if head[0] != name.encode()]
        values = [
            b"", b" ", b"\x00", b"\xff\xfe", b"a\r\nX-Injected: yes", b"a\nSet-Cookie: x=y", b"\t", b"4", b"04",
            b"-1", b"9" * 30, b"4,4", b"1e1", "٤".encode(), b"Bearer", b"Bearer  ", b"Basic YTpi",
            b"Bearer " + b"x" * 501, b"Bearer x y", b"identity", b"gzip", b"chunked", b"application/json",
            b"APPLICATION/JSON ; charset=UTF-8", b"application/json; charset=utf-16", b"text/html",
            b"*/*", b"a" * 64, b"a" * 65, b"a" * 17_000, b"<script>", b"${jndi:x}", b"%0d%0a",
        ]  # fmt: skip
        for number, value in enumerate(values):
            ways = [
                [*usual, (name.encode(), value)],
                [*usual, (name.encode(), value), (name.encode(), value)],
                [(name.encode(), value), *usual],
            ]
            # each value at each name, and each way for either
            turn = number + len(name)
            for heads in ways if LONG > 1 else [ways[turn % 3]]:
                status, replied_heads, content = twins.send("POST", "/v2/query", heads, body)
                assert status in (200, 400, 401, 409, 413, 415, 431), (value, content)
                assert not any(
                    b"injected" in one or one == b"set-cookie" for one, _ in replied_heads
                )
                assert value == b"" or b"njected" not in content


def mutated(content, generator, longest, inserted):
    """Change a few bytes: others, fewer, some of those given, or the same again."""
    changed = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 3, 7))):
        place = generator.randrange(len(changed))
        turn = generator.randrange(4)
        if turn == 0:
            changed[place] = generator.randrange(256)
        elif turn == 1:
            del changed[place : place + generator.randrange(1, longest)]
        elif turn == 2:
            changed[place:place] = generator.choice(inserted)
        else:
            changed[place:place] = changed[place : place + generator.randrange(1, 2 * longest)]
    return bytes(changed)


class TestHostileBytes:
    def test_a_socket_takes_whatever_comes(self, twins):
        generator = random.Random(11)  # noqa: S311
        body = json.dumps({"sql": SQL, "options": {"rho": 0.01}}).encode()
        head = b"\r\n".join(
            [b"POST /v2/query HTTP/1.1", b"Host: x", b"Content-Type: application/json",
             b"Authorization: Bearer " + twins.tokens["alice"].encode(),
             b"Content-Length: %d" % len(body), b"Connection: close", b"", b""]
        )  # fmt: skip
        curator = twins.curators[0]
        before = twins.state(curator)
        first = exchanged(self.url, head + body)
        assert first.startswith(b"HTTP/1.1 200")
        statuses = {}
        for _ in range(120 * LONG):
            inserted = (b"\r\n", b"\n", b"\x00", b" ", b":", b"\xff")
            found = exchanged(self.url, mutated(head + body, generator, 30, inserted))
            assert not TRACES.search(found), found
            for code in re.findall(rb"HTTP/1\.1 (\d{3})", found):
                statuses[int(code)] = statuses.get(int(code), 0) + 1
        assert max(statuses) < 500
        assert {200, 400} <= statuses.keys()
        assert twins.state(curator)[2] >= before[2]

    @pytest.fixture(autouse=True)
    def service(self, twins, tmp_path):
        file = tmp_path / "tokens.json"
        token = tokens.add(file, "alice", [4])
        twins.tokens["alice"], kept = token, twins.tokens["alice"]
        with twins.curators[0].serve(port=0, tokens=file, background=True) as found:
            self.url = found.url
            yield
        twins.tokens["alice"] = kept


def exchanged(url, sent):
    """Everything that comes back for some bytes."""
    place, found = urlsplit(url), b""
    with socket.create_connection((place.hostname, place.port), timeout=0.5) as connection:
        with suppress(OSError):
            # what follows ends a body that is waited for, and is no request
            connection.sendall(sent + b"\r\n\r\n!" * 50)
        with suppress(OSError):
            while part := connection.recv(65_536):
                found += part
    return found
