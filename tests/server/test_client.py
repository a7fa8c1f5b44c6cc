"""A session over HTTP behaves like a local one: same results, same texts, same charges."""

from __future__ import annotations

import copy
import datetime
import pickle
import re
import socket
import threading
import time
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.errors import DpnbError, InterruptedRequestError, RequestError, ServiceError
from dpnb.privacy.loss import Picked
from dpnb.releases.call import Call
from dpnb.server.client import HttpBackend

SQL = "SELECT sex, COUNT(*) AS n, AVG(wage) AS m FROM people GROUP BY sex"


@pytest.fixture
def remote(house):
    return house.session("alice")


@pytest.fixture
def local(house):
    return house.curator.session("alice")


class TestResults:
    def test_an_answer_is_the_local_one(self, remote, local):
        fresh = remote.query(SQL, rho=0.01)
        stored = remote.query(SQL, rho=0.01)
        assert not fresh.stored
        assert stored == local.query(SQL, rho=0.01)
        assert stored.record() == local.query(SQL, rho=0.01).record()
        for shown in (repr, lambda a: a._repr_html_(), lambda a: a.to_markdown()):
            assert shown(stored) == shown(local.query(SQL, rho=0.01))

    def test_formulas_conditions_and_infinite_ends_come_over(self, remote, local):
        sql = (
            "SELECT wage, COUNT(*) FILTER (WHERE sex = 'Male') / COUNT(*) AS share, "
            "SUM(CASE WHEN job = 'clerk' THEN wage * 2 ELSE 1 END) AS s FROM people "
            "WHERE NOT (job = 'smith' AND (wage > 3 OR sex = 'Male')) GROUP BY wage"
        )
        fresh = remote.query(sql, rho=0.0001)
        assert fresh.estimates == local.query(sql, rho=0.0001).estimates

    def test_what_is_shown_of_results_comes_over(self, remote, local):
        sql = (
            "SELECT sex, ROUND(COUNT(*), -1) AS tens, RANK() OVER (ORDER BY COUNT(*)) AS place FROM people "
            "GROUP BY sex HAVING COUNT(*) > 2000 ORDER BY tens"
        )
        fresh, stored = remote.query(sql, rho=0.001), remote.query(sql, rho=0.001)
        assert stored == local.query(sql, rho=0.001)
        assert fresh.shown == stored.shown
        assert f"HAVING hides {stored.hidden or 'none'} of 2 groups" in repr(stored)
        assert stored.all_groups() == local.query(sql, rho=0.001).all_groups()

    def test_deep_formulas_come_over(self, remote, local):
        deep = "COUNT(*)" + " + COUNT(*)" * 30
        sql = f"SELECT {deep} AS n FROM people WHERE {'NOT (' * 20}sex = 'Male'{')' * 20}"
        assert remote.query(sql, rho=0.001).estimates == local.query(sql, rho=0.001).estimates

    @pytest.mark.parametrize(
        "options",
        [{}, {"error": 30}, {"error": 30, "confidence": 0.9}, {"between": [3900, 4100]},
         {"prior": "nonnegative"}, {"prior": {"uniform": [0, 5000]}}, {"chosen": 9}],
    )  # fmt: skip
    def test_an_inference_is_the_local_one(self, remote, local, options):
        remote.query(SQL, rho=0.01)
        sql = "SELECT COUNT(*) AS n FROM people WHERE sex IN ('Male', 'Female')"
        far, near = remote.infer(sql, **options), local.infer(sql, **options)
        assert far.to_dict() == near.to_dict()
        assert repr(far) == repr(near)
        assert far._repr_html_() == near._repr_html_()
        assert far.probability(">", 4000) == near.probability(">", 4000)
        assert float(remote.budget.spent.rho) == 0.01

    def test_an_inference_takes_only_the_named_parameters(self, remote, local):
        remote.query(SQL, rho=0.01)
        sql = "SELECT COUNT(*) AS n FROM people WHERE sex = :who"
        params = {"who": "Male", "unsent": object()}
        assert remote.infer(sql, params=params).to_dict() == (
            local.infer(sql, params={"who": "Male"}).to_dict()
        )

    def test_infinite_ends_of_an_inference_come_over(self, remote, local):
        remote.query("SELECT COUNT(*) AS n FROM people WHERE sex = 'Male'", rho=0.01)
        sql = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
        found = remote.infer(sql)
        assert found.to_dict() == local.infer(sql).to_dict()
        assert not found.told
        assert "not determined" in repr(found)

    def test_an_explanation_is_the_local_one(self, remote, local):
        answer = remote.query(SQL, rho=0.05)
        question = answer.compare("Male", "Female", "n")
        fresh = remote.explain(
            question, k=2, rho={"topk": "0.001", "influence": 0.001, "rank": 0.001}
        )
        stored = remote.explain(
            question, k=2, rho={"topk": "0.001", "influence": 0.001, "rank": 0.001}
        )
        assert float(fresh.spent.rho) == 0.003
        expected = local.explain(
            question, k=2, rho={"topk": "0.001", "influence": 0.001, "rank": 0.001}
        )
        assert stored == expected
        assert repr(stored) == repr(expected)

    def test_prices_are_the_local_ones(self, remote, local):
        assert remote.price(SQL, rho=0.01) == local.price(SQL, rho=0.01)
        batch = [SQL, SQL, "SELECT COUNT(*) / 2 AS h FROM people"]
        assert remote.price(batch, rho=0.01) == local.price(batch, rho=0.01)
        assert repr(remote.price(SQL, error=20, rows=9)) == repr(local.price(SQL, error=20, rows=9))
        question = remote.query(SQL, rho=0.01).compare("Male", "Female", "n")
        assert remote.price(question, rho=0.1) == local.price(question, rho=0.1)
        assert repr(remote.price(question, error=0.5)) == repr(local.price(question, error=0.5))

    def test_the_cost_in_a_statement_is_the_local_one(self, remote, local):
        foreign = SQL.replace(
            "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1, delta = 1e-6)"
        )
        price = remote.price(foreign)
        assert price == local.price(foreign)
        assert remote.query(foreign).spent == price.spent
        for call in (remote.query, remote.price):
            with pytest.raises(RequestError, match="has its own epsilon in OPTIONS"):
                call(foreign, rho=0.01)

    def test_budget_history_and_tables_are_the_local_ones(self, remote, local):
        remote.query(SQL, rho=0.01)
        assert remote.budget == local.budget
        assert repr(remote.budget) == repr(local.budget)
        assert remote.history == local.history
        assert remote.tables == local.tables
        assert remote.ledger == local.ledger
        assert repr(remote) == repr(local)

    def test_a_privilege_of_several(self, house):
        house.session("carol", privilege=1).query(SQL, rho=0.01)
        assert float(house.session("carol", privilege=1).budget.spent.rho) == 0.01
        assert house.session("carol").budget.spent.rho == 0
        with pytest.raises(RequestError, match="no privilege 3"):
            house.session("carol", privilege=3)


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "params"),
        [
            ({"rho": 0.01}, {"x": 40}),
            ({"rho": "0.01"}, {"x": np.int64(40)}),
            ({"rho": np.float64(0.01)}, {"x": np.float32(40.5)}),
            ({"rho": Fraction(1, 300)}, {"x": 40.25}),
            ({"epsilon": 0.3, "confidence": 0.9}, {"x": 40}),
            ({"error": {"n": 50, "m": 20}, "rows": 100, "looks": "any"}, {"x": 40}),
            ({"rho": 0.01, "intervals": "each", "split": "0.5"}, {"x": 40}),
            ({"error": 90, "rows": 100, "history": False}, {"x": 40}),
        ],
    )
    def test_mean_the_same_on_both_sides(self, remote, local, options, params):
        sql = SQL.replace("GROUP", "WHERE wage > :x GROUP")
        fresh = remote.query(sql, params={**params, "unsent": object()}, **options)
        assert not fresh.stored
        again = local.query(sql, params=params, **options)
        assert again.stored
        assert again.estimates == fresh.estimates

    @pytest.mark.parametrize(
        "day", [datetime.date(2024, 6, 1), pd.Timestamp("2024-06-01"), "2024-06-01",
                np.datetime64("2024-06-01")],
    )  # fmt: skip
    def test_dates_mean_the_same(self, remote, local, day):
        sql = "SELECT COUNT(*) AS n FROM people WHERE day > :day"
        fresh = remote.query(sql, rho=0.01, params={"day": day})
        assert local.query(sql, rho=0.01, params={"day": day}).estimates == fresh.estimates

    def test_a_picked_amount_marks_what_follows_here_too(self, remote):
        answer = remote.query(SQL, rho=Picked(0.02))
        assert answer.conditional
        assert "data-dependent" in repr(remote.history)
        question = answer.compare("Male", "Female", "n")
        assert question.conditional
        assert remote.explain(question, k=1, rho=0.01).conditional
        plain = remote.query("SELECT COUNT(*) AS n FROM people WHERE wage > 3", rho=0.01)
        assert not plain.conditional

    WRONG = (
        ({"sql": "SELECT nope FROM people"}, {"rho": 0.1}),
        ({"sql": "SELECT\n COUNT(*) FROM\n peoples"}, {"rho": 0.1}),
        ({"sql": 7}, {"rho": 0.1}),
        ({"sql": None}, {"rho": 0.1}),
        ({"sql": ""}, {"rho": 0.1}),
        ({"sql": "\ud800"}, {"rho": 0.1}),
        ({"sql": SQL}, {}),
        ({"sql": SQL}, {"rho": 0}),
        ({"sql": SQL}, {"rho": float("nan")}),
        ({"sql": SQL}, {"rho": float("inf")}),
        ({"sql": SQL}, {"rho": "much"}),
        ({"sql": SQL}, {"rho": [1]}),
        ({"sql": SQL}, {"rho": True}),
        ({"sql": SQL}, {"rho": 10**400}),
        ({"sql": SQL}, {"rho": 99}),
        ({"sql": SQL}, {"error": {"x": 1}}),
        ({"sql": SQL}, {"error": 5}),
        ({"sql": SQL}, {"rho": 0.1, "confidence": 2}),
        ({"sql": SQL}, {"rho": 0.1, "looks": 3}),
        ({"sql": SQL.replace("GROUP", "WHERE wage > :x GROUP")}, {"rho": 0.1}),
        *(
            ({"sql": SQL.replace("GROUP", "WHERE wage > :x GROUP")}, {"rho": 0.1, "params": params})
            for params in (
                {"x": [1]}, {"x": None}, {"x": object()}, {"x": float("nan")}, {"x": True},
                {"x": pd.NaT}, {"x": "text"}, {"x": b"x"}, [1], "x", 7, {},
            )
        ),
    )  # fmt: skip

    @pytest.mark.parametrize(("asked", "options"), WRONG, ids=range(len(WRONG)))
    def test_errors_are_the_local_ones(self, refusing, asked, options):
        remote, local = refusing.session(), refusing.curator.session("alice")
        said = []
        for session in (local, remote):
            with pytest.raises(DpnbError) as caught:
                session.query(**asked, **options)
            said.append((type(caught.value), caught.value.args, str(caught.value)))
            assert caught.value.__cause__ is None
        assert said[0] == said[1]
        assert remote.budget.spent.rho == 0

    def test_errors_of_inferences_are_the_local_ones(self, remote, local):
        remote.query(SQL, rho=0.05)
        for sql, options in (
            ("SELECT COUNT(*) FROM people WHERE wage > 3", {}), (SQL, {"confidence": 2}),
            (SQL, {"error": -1}), (SQL, {"between": [1]}), (SQL, {"between": "ab"}),
            (SQL, {"method": "magic"}), (SQL, {"prior": "high"}), (SQL, {"prior": {"odd": 1}}),
            (SQL, {"prior": object()}), (SQL, {"chosen": 0}), (SQL, {"intervals": "none"}),
            (SQL, {"confidence": float("nan")}), (7, {}), ("SELECT nope FROM people", {}),
        ):  # fmt: skip
            said = []
            for session in (local, remote):
                with pytest.raises(DpnbError) as caught:
                    session.infer(sql, **options)
                said.append((type(caught.value), str(caught.value)))
                assert caught.value.__cause__ is None
            assert said[0] == said[1]

    def test_errors_of_explanations_are_the_local_ones(self, remote, local):
        question = remote.query(SQL, rho=0.05).compare("Male", "Female", "n")
        for first, options in (
            (question, {"k": 0}), (question, {"rho": -1}), (question, {"attributes": ["nope"]}),
            (question, {"predicates": ["wage >"]}), (question, {"rho": 99}), (None, {}),
            ("question", {}), ({"a": 1}, {}), (7, {}),
        ):  # fmt: skip
            said = []
            for session in (local, remote):
                with pytest.raises(DpnbError) as caught:
                    session.explain(first, anyway=True, **options)
                said.append((type(caught.value), str(caught.value)))
            assert said[0] == said[1]

    def test_unknown_options_are_refused_before_anything_is_sent(self, remote, house):
        house.service.close()
        with pytest.raises(RequestError, match="unknown option"):
            remote.price(SQL, sigma=3)


def silent(replies):
    """Serve fixed replies, one connection each; returns the URL, what was received, and an end."""
    listener = socket.create_server(("127.0.0.1", 0))
    received = []

    def run():
        for reply in replies:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                data = b""
                while b"\r\n\r\n" not in data:
                    part = connection.recv(65_536)
                    if not part:
                        break
                    data += part
                received.append(data)
                if reply:
                    connection.sendall(reply)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end():
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)

    return f"http://127.0.0.1:{listener.getsockname()[1]}", received, end


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr("dpnb.server.connection._PAUSES", (0.01, 0.01, 0.01))


class Cutting:
    """Stands between a client and a service; loses the first replies to requests that spend."""

    def __init__(self, url, losing):
        host, _, port = url.removeprefix("http://").partition(":")
        self.place, self.losing, self.keys = (host, int(port)), losing, []
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
            with connection, socket.create_connection(self.place) as service:
                connection.settimeout(5)
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65_536)
                head, _, body = data.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                while length is not None and len(body) < int(length.group(1)):
                    body += connection.recv(65_536)
                data = head + b"\r\n\r\n" + body
                service.sendall(data)
                reply = b""
                while part := service.recv(65_536):
                    reply += part
                spends = [line for line in data.split(b"\r\n") if line.lower().startswith(b"idem")]
                self.keys += spends
                if spends and self.losing:
                    self.losing -= 1
                else:
                    connection.sendall(reply)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


class TestRepeating:
    def test_a_lost_reply_is_asked_for_again_under_the_same_name(self, house, fast):
        between = Cutting(house.url, losing=2)
        try:
            with dpnb.connect(between.url, token=house.tokens["alice"]) as session:
                answer = session.query(SQL, rho=0.01)
        finally:
            between.close()
        assert answer.stored
        assert len(between.keys) == 3
        assert len(set(between.keys)) == 1
        assert float(house.curator.session("alice").budget.spent.rho) == 0.01
        assert len(house.curator.session("alice").history) == 1

    def test_each_request_has_a_name_of_its_own(self, house, fast):
        between = Cutting(house.url, losing=0)
        try:
            with dpnb.connect(between.url, token=house.tokens["alice"]) as session:
                for rho in (0.01, 0.02):
                    session.query(SQL, rho=rho)
        finally:
            between.close()
        assert len(set(between.keys)) == 2

    def test_when_nothing_comes_it_says_that_asking_again_is_free(self, house, fast):
        session = house.session()
        house.service.close()
        with pytest.raises(ServiceError, match="cannot be reached") as caught:
            session.query(SQL, rho=0.01)
        assert "asking again is free" in str(caught.value)
        assert caught.value.__context__ is None
        with pytest.raises(ServiceError, match="Check the address"):
            session.budget  # noqa: B018

    @pytest.mark.parametrize(
        ("reply", "tries", "said"),
        [
            (b"HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\nbad", 4, "HTTP 502"),
            (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 4, "HTTP 503"),
            (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", 1, "there is no dpnb service"),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
                1,
                "the reply of the service cannot be read",
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
                1,
                "the reply of the service cannot be read",
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                1,
                "the reply of the service cannot be read",
            ),
            (
                b"HTTP/1.1 302 Go\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n",
                1,
                "the service redirects to another address",
            ),
            (b"nonsense\r\n\r\n", 4, "cannot be reached"),
            (b"", 4, "cannot be reached"),
        ],
    )
    def test_replies_of_something_else(self, fast, reply, tries, said):
        url, received, end = silent([reply] * 5)
        try:
            with pytest.raises(ServiceError, match=said) as caught:
                dpnb.connect(url, token="secret-token")
        finally:
            end()
        assert len(received) == tries
        assert "secret-token" not in repr(caught.value.args)
        assert caught.value.__context__ is None

    def test_it_waits_for_as_long_as_the_service_says(self, house, monkeypatch):
        body = b'{"kind":"ServiceError","what":"too many requests","hint":"Wait.","where":""}'
        busy = b"HTTP/1.1 429 X\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n%s" % (
            len(body),
            body,
        )
        url, received, end = silent([busy] * 2)
        monkeypatch.setattr("dpnb.server.connection._PAUSES", (0.01,))
        start = time.monotonic()
        try:
            with pytest.raises(ServiceError):
                dpnb.connect(url, token="x")
        finally:
            end()
        assert time.monotonic() - start >= 1
        assert len(received) == 2


class TestInterrupted:
    def ask(self, session, slow, results):
        def run():
            cancel = threading.Event()
            self.cancel, self.thread = cancel, threading.get_ident()
            try:
                results.append(session._backend.run(Call("query", SQL, {"rho": 0.01}), cancel))
            except DpnbError as error:
                results.append(error)

        worker = threading.Thread(target=run)
        worker.start()
        assert slow.started.wait(5)
        return worker

    def test_an_interrupt_ends_the_connection_and_the_scan(self, house, slow):
        session, results = house.session(), []
        worker = self.ask(session, slow, results)
        self.cancel.set()
        session._backend.interrupt(self.thread)
        worker.join(3)
        assert not worker.is_alive()
        assert isinstance(results[0], InterruptedRequestError)
        assert "If it was, asking again is free." in str(results[0])
        assert slow.stopped.wait(5)
        assert house.curator.session("alice").budget.spent.rho == 0

    def test_ctrl_c_in_a_cell_does_it(self, house, slow, monkeypatch):
        session = house.session()

        real = threading.Event.wait
        pressed = []

        def wait(event, timeout=None):
            # the main thread's next look at the clock, once the scan runs
            main = threading.current_thread() is threading.main_thread()
            if main and not pressed and slow.started.is_set():
                pressed.append(True)
                raise KeyboardInterrupt
            return real(event, timeout)

        monkeypatch.setattr("dpnb.interrupt._TICK_SECONDS", 0.05)
        monkeypatch.setattr(threading.Event, "wait", wait)
        with pytest.raises(InterruptedRequestError, match="It is unknown whether"):
            session.query(SQL, rho=0.01)
        monkeypatch.setattr(threading.Event, "wait", real)
        assert slow.stopped.wait(5)
        slow.stopped.clear()
        slow.free.set()
        assert not session.query(SQL, rho=0.01).stored


class TestHeld:
    def test_a_session_cannot_be_pickled_or_copied(self, remote):
        connection = remote._backend._connection
        for item in (remote._backend, connection, connection._token):
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    use(item)
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(remote)

    def test_no_repr_shows_the_token(self, remote, house):
        channel = remote._backend
        assert isinstance(channel, HttpBackend)
        held = (channel, channel._connection)
        shown = [repr(remote), str(channel._connection._client.headers), *map(repr, held)]
        shown += [repr(getattr(item, name)) for item in held for name in type(item).__slots__]
        assert not any(house.tokens["alice"] in text for text in shown)

    def test_closing_lets_go(self, remote):
        remote.close()
        with pytest.raises(DpnbError):
            remote.query(SQL, rho=0.01)


class TestTls:
    @pytest.fixture
    def certificate(self, tmp_path):
        import subprocess

        files = tmp_path / "c.pem", tmp_path / "k.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", files[1], "-out", files[0]],
            check=True, capture_output=True,
        )  # fmt: skip
        return files

    def test_certificates_are_verified(self, build, certificate, fast):
        house = build(certificate=certificate[0], key=certificate[1])
        assert house.url.startswith("https://")
        with pytest.raises(ServiceError, match="cannot be reached"):
            dpnb.connect(house.url, token=house.tokens["alice"])
        session = house.session(verify=certificate[0])
        assert not session.query(SQL, rho=0.01).stored

    def test_an_interrupt_ends_a_connection_with_tls(self, build, certificate, slow):
        house = build(certificate=certificate[0], key=certificate[1])
        session, results = house.session(verify=certificate[0]), []
        helper = TestInterrupted()
        worker = helper.ask(session, slow, results)
        helper.cancel.set()
        session._backend.interrupt(helper.thread)
        worker.join(3)
        assert not worker.is_alive()
        assert isinstance(results[0], InterruptedRequestError)
        assert slow.stopped.wait(5)
