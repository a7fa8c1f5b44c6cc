"""A service that lies to an honest client, and clients that all want the last of a budget at once.

Promised: what a service replies is data. Its texts are shown as texts, by the same rules as anybody's; what is no
reply of dpnb is refused in our words, and neither code, pickles, files nor addresses in it are followed. The token
goes to the address that was given and nowhere else. Of many requests at once no more are answered than the
budget has room for. Not promised: that the numbers are private or true. Who runs the service knows the data,
can answer whatever he likes, and can keep a client waiting or fill its memory.
"""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import pickle
import socket
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import dpnb
from dpnb import Category, Integer, Schema, Table
from dpnb.errors import BudgetError, DpnbError
from dpnb.server import tokens
from tests.kit.html import Reading, packed

TOKEN = "a-token-that-nobody-else-may-see"
FRAME = pd.DataFrame({"s": ["a", "b"] * 200, "x": range(400)})
TABLE = Table(
    "t",
    FRAME,
    Schema({"s": Category(["a", "b"]), "x": Integer(0, 400, bins=[0, 200, 400])}),
)
SQL = "SELECT s, COUNT(*) AS n, AVG(x) AS m, SUM(x) / COUNT(*) AS r FROM t GROUP BY s"
DECIDED = "SELECT s FROM t GROUP BY s HAVING COUNT(*) > 100"


class Liar:
    """Replies what it is told to, by path; notes what it was sent."""

    def __init__(self, replies):
        self.replies, self.received = replies, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(5)
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65_536)
                self.received.append(data)
                path = data.split(b" ", 2)[1].decode()
                connection.sendall(self.reply(self.replies.get(path, (404, {}))))

    @staticmethod
    def reply(told):
        status, body, *headers = told
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", *headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content

    def close(self):
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


@pytest.fixture(scope="module")
def honest():
    """What an honest service replies, by path, and the results in it."""
    with dpnb.Session(TABLE, budget=dpnb.Budget(rho=1_000, delta=1e-6)) as session:
        answer = session.query(SQL, rho=1)
        session.query("SELECT s, x, COUNT(*) AS n FROM t GROUP BY s, x", rho=1)
        question = answer.compare("a", "b", "n")
        results = {
            "/v2/query": answer,
            "/v2/explain": session.explain(question, k=2, rho=1, anyway=True),
            "/v2/decide": session.decide(DECIDED, beta=0.05, u=20),
            "/v2/infer": session.infer("SELECT s, COUNT(*) AS n FROM t GROUP BY s"),
        }
        budget = {"ledger": session.ledger, "budget": session.budget.to_dict()}
        prices = {"prices": [session.price(SQL, rho=2).to_dict()]}
        schema = TABLE.definition()
    replies = {path: (200, json.loads(json.dumps(one.to_dict()))) for path, one in results.items()}
    replies |= {"/v2/budget": (200, budget), "/v2/query/price": (200, prices)}
    replies["/v2/tables"] = (200, {"tables": [schema]})
    return replies, question


@pytest.fixture
def served(honest):
    """Make sessions on a service whose replies differ from the honest ones."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpnb.server.connection._PAUSES", (0.01,))

        def make(**changed):
            service = Liar({**honest[0], **{f"/v2/{name}": one for name, one in changed.items()}})
            stack.callback(service.close)
            session = dpnb.connect(service.url, token=TOKEN)
            stack.callback(session.close)
            return session, service

        yield make


HTML = '"><img src=x onerror=alert(1)></script><script>alert(1)</script>\x1b[31m\x1b]52;c;eA==\x07\u202e'


def ask(session, path, question):
    asked = {
        "/v2/query": lambda: session.query(SQL, rho=1),
        "/v2/explain": lambda: session.explain(question, k=2, rho=1, anyway=True),
        "/v2/decide": lambda: session.decide(DECIDED, beta=0.05, u=20),
        "/v2/infer": lambda: session.infer(SQL),
    }
    return asked[path]()


ASKED = ["/v2/query", "/v2/explain", "/v2/decide", "/v2/infer"]


def places(value, way=()):
    """Every leaf of plain data, and every list and object in it."""
    if way:
        yield way
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*way, key))


def changed(value, way, other):
    value = copy.deepcopy(value)
    place = value
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = other
    return value


def renderings(found):
    """All that shows a result; a lie that makes no sense may fail in any ordinary way."""
    for form in (
        repr, lambda one: one._repr_html_(), lambda one: one.to_markdown(), lambda one: one.widget(),
    ):  # fmt: skip
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield form(found)


def check(shown):
    if not isinstance(shown, str):
        state = shown.get_state()
        shown.close()
        shown = state.get("value") or state["data"]["body"]
    assert not {c for c in shown if not c.isprintable() and c != "\n"}
    if "<div" in shown:
        tags = Reading(shown).tags
        assert not [tag for tag, _ in tags if tag in ("img", "iframe", "object", "a")]
        assert not [name for _, attributes in tags for name in attributes if name[:2] == "on"]
        assert shown.count("</script>") <= 1
        if "<script>" in shown:
            assert isinstance(packed(shown), dict)


class TestReplies:
    @pytest.mark.parametrize("path", ASKED)
    def test_an_honest_one_is_understood(self, path, honest, served):
        session, _ = served()
        assert [*renderings(ask(session, path, honest[1]))]

    @pytest.mark.parametrize("path", ASKED)
    def test_texts_in_any_place_stay_texts(self, path, honest):
        """What the client builds of a reply, for a lie at each of its places."""
        from dpnb.answers.inference import Inference
        from dpnb.decide.decision import Decision
        from dpnb.explain.explanation import Explanation
        from dpnb.server.client import HttpBackend

        kind = dict(
            zip(ASKED, (dpnb.answers.answer.Answer, Explanation, Decision, Inference), strict=True)
        )
        _, reply = honest[0][path]
        taken = 0
        for way, lie in zip(places(reply), itertools.cycle((HTML, HTML, [HTML], {HTML: HTML}))):
            try:
                found = HttpBackend._read(kind[path].from_dict, changed(reply, way, lie))
            except DpnbError as error:
                assert (
                    "the reply of the service cannot be read. Use the same version of dpnb"
                    in str(error)
                )
                continue
            taken += 1
            for shown in renderings(found):
                check(shown)
        assert taken > 10

    def test_names_of_columns_and_ledgers(self, honest, served):
        """Also where nothing was asked for: what there is, what is left, what was asked."""
        tables = copy.deepcopy(honest[0]["/v2/tables"][1])
        tables["tables"][0]["columns"][HTML] = tables["tables"][0]["columns"].pop("s")
        asked = {
            "requests": [{"time": HTML, "sql": HTML, "spent": {"rho": "1"}, "conditional": False}]
        }
        session, _ = served(tables=(200, tables), history=(200, asked))
        for listing in (session.tables, session.budget):
            check(repr(listing))
            check(listing._repr_html_())
        with suppress(DpnbError):
            check(repr(session.history))
            check(session.history._repr_html_())
        check(repr(session))

    @pytest.mark.parametrize("status", [400, 403, 500, 503])
    @pytest.mark.parametrize("kind", ["SqlError", "RequestError", "ServiceError", "BudgetError"])
    def test_errors_are_shown_as_text(self, kind, status, served):
        error = {"kind": kind, "what": HTML, "hint": HTML, "where": HTML, "line": 1, "column": 1, "text": HTML}  # fmt: skip
        session, _ = served(query=(status, error))
        with pytest.raises(DpnbError) as caught:
            session.query(SQL, rho=1)
        check(str(caught.value))
        check("".join(caught.value._render_traceback_()))
        assert caught.value.__cause__ is caught.value.__context__ is None

    def test_only_our_own_errors_are_raised(self, served):
        for kind in ("SystemExit", "KeyboardInterrupt", "OSError", "_KINDS", "object", HTML, None):
            error = {"kind": kind, "what": "x", "hint": "", "where": ""}
            session, _ = served(query=(400, error))
            with pytest.raises(DpnbError) as caught:
                session.query(SQL, rho=1)
            assert type(caught.value).__name__ == "ServiceError"


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


class TestFollowed:
    """Nothing in a reply is executed, opened, loaded or visited."""

    def test_no_pickle_and_no_type(self, served, tmp_path):
        mark = tmp_path / "owned"
        bodies = [
            pickle.dumps(Touch(mark)),
            {"$type": "dpnb.curator.Curator"},
            {"$type": "os.system", "$args": [f"touch {mark}"]},
            {"$picked": f"__import__('os').system('touch {mark}')"},
            {"py/object": "subprocess.Popen", "args": ["touch", str(mark)]},
            f"<script>alert(1)</script>{mark}".encode(),
        ]
        for body in bodies:
            session, _ = served(query=(200, body, "Content-Type: application/x-python-pickle"))
            with pytest.raises(DpnbError) as caught:
                session.query(SQL, rho=1)
            assert str(mark) not in str(caught.value)
        assert not mark.exists()

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_no_other_address(self, status, served):
        other = Liar({})
        try:
            session, _ = served(query=(status, {}, f"Location: {other.url}/v2/query"))
            with pytest.raises(DpnbError, match="redirects to another address"):
                session.query(SQL, rho=1)
            assert other.received == []
        finally:
            other.close()

    def test_no_proxy_that_the_environment_names(self, served, monkeypatch):
        other = Liar({})
        try:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                monkeypatch.setenv(name, other.url)
                monkeypatch.setenv(name.lower(), other.url)
            for name in ("NO_PROXY", "no_proxy"):
                monkeypatch.delenv(name, raising=False)
            session, _ = served()
            assert session.budget.cap.rho == 1_000
            assert other.received == []
        finally:
            other.close()

    def test_no_wish_for_another_password(self, served):
        session, service = served(query=(401, {}, "WWW-Authenticate: Basic realm=x"))
        for _ in range(2):
            with pytest.raises(DpnbError):
                session.query(SQL, rho=1)
        assert len(service.received) >= 3
        for data in service.received:
            assert data.count(TOKEN.encode()) == 1
            assert b"basic" not in data.lower()

    def test_a_source_in_a_table_is_not_opened(self, honest, served, tmp_path):
        secret = tmp_path / "secret.csv"
        secret.write_text("s\na\n")
        tables = copy.deepcopy(honest[0]["/v2/tables"][1])
        tables["tables"][0] |= {"source": str(secret), "path": str(secret)}
        session, _ = served(tables=(200, tables))
        assert "secret" not in repr(session.tables)
        assert all(table.source is None for table in session._backend.tables.values())

    def test_the_token_is_sent_in_one_header_and_shown_nowhere(self, honest, served):
        echo = {"kind": "RequestError", "what": f"you sent {TOKEN[:6]}", "hint": "", "where": ""}
        session, service = served(explain=(400, echo))
        for path in ASKED:
            with suppress(DpnbError):
                ask(session, path, honest[1])
        assert service.received
        for data in service.received:
            head, _, body = data.partition(b"\r\n\r\n")
            assert [line for line in head.split(b"\r\n") if TOKEN.encode() in line] == [
                b"Authorization: Bearer " + TOKEN.encode()
            ]
            assert TOKEN.encode() not in body


class TestNonsense:
    @pytest.mark.parametrize(
        "body",
        [
            b"[" * 100_000, b'{"a":' * 50_000, b'{"sql": NaN}', b"9" * 5_000, b"\xff\xfe", b"",
            b'{"sql": "a", "sql": "b"}', b'{"estimates": {"$fraction": "1/0"}}',
            b'{"spent": {"rho": "1e999999999"}}', b'"' + b"x" * 10**6 + b'"',
        ],
        ids=range(10),
    )  # fmt: skip
    def test_what_is_no_reply_is_refused_in_our_words(self, body, served):
        session, _ = served(query=(200, body))
        with pytest.raises(DpnbError) as caught:
            session.query(SQL, rho=1)
        assert len(str(caught.value)) < 300
        assert caught.value.__cause__ is caught.value.__context__ is None

    def test_what_is_compressed_wrongly_is_refused_too(self, served):
        for body in (gzip.compress(b"{" * 10**6), b"no gzip"):
            session, _ = served(query=(200, body, "Content-Encoding: gzip"))
            with pytest.raises(DpnbError):
                session.query(SQL, rho=1)

    def test_a_service_of_another_version_is_named(self, served):
        gone = {"kind": "RequestError", "what": "there is no such path", "hint": "", "where": ""}
        session, _ = served(query=(404, gone))
        with pytest.raises(DpnbError, match="speaks another version of the protocol. Use the same"):
            session.query(SQL, rho=1)

    def test_a_lie_about_waiting_is_believed_for_seconds_only(self, served, monkeypatch):
        waited = []
        monkeypatch.setattr(
            threading.Event, "wait", lambda event, seconds=None: waited.append(seconds or 0)
        )
        monkeypatch.setattr("dpnb.session.wait", lambda work, *_, **__: work(threading.Event()))
        error = {"kind": "ServiceError", "what": "busy", "hint": "", "where": ""}
        session, _ = served(**{"query/price": (429, error, f"Retry-After: {'9' * 400}")})
        with pytest.raises(DpnbError, match="busy"):
            session.price(SQL, rho=1)
        assert waited
        assert max(waited) <= 5


class TestTheLastOfABudget:
    """Many requests at once, over as many connections, of several analysts."""

    @pytest.fixture
    def house(self, tmp_path):
        file = tmp_path / "tokens.json"
        names = ("ann", "ben")
        keys = {name: tokens.add(file, name, [1]) for name in names}
        curator = dpnb.Curator(
            TABLE,
            budget=dpnb.Budget(rho=1),
            ledger=tmp_path / "l",
            analysts=dict.fromkeys(names, 1),
        )
        service = curator.serve(port=0, tokens=file, background=True)
        yield curator, {name: dpnb.connect(service.url, token=keys[name]) for name in names}
        service.close()
        curator.close()

    def race(self, asked):
        start = threading.Barrier(len(asked))

        def run(work):
            start.wait(30)
            try:
                return work()
            except BudgetError:
                return None

        with ThreadPoolExecutor(len(asked)) as threads:
            return [one for one in threads.map(run, asked) if one is not None]

    def test_different_statements_never_pass_the_cap(self, house):
        curator, sessions = house
        asked = [
            lambda session=session, age=age: session.query(
                f"SELECT COUNT(*) AS n FROM t WHERE x <> {age}", rho="0.3"
            )
            for age in (1, 2, 3, 4)
            for session in sessions.values()
        ]
        answers = self.race(asked)
        paid = {answer.sql for answer in answers}
        assert len(paid) == 3
        assert curator.budget.spent.rho == Fraction(9, 10)
        for session in sessions.values():
            assert session.budget.spent.rho <= 1
            session.close()

    def test_the_same_refinement_is_paid_once_by_each(self, house):
        curator, sessions = house
        asked = [
            lambda session=session, rho=rho: session.query(SQL, rho=rho)
            for rho in ("0.2", "0.4", "0.6")
            for session in sessions.values()
        ]
        answers = self.race(asked)
        assert len(answers) == 6
        assert curator.budget.spent.rho == Fraction(3, 5)
        for name, session in sessions.items():
            assert curator.session(name).budget.spent.rho == Fraction(3, 5)
            session.close()
