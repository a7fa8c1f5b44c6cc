"""What the service answers and refuses, request by request, over a real socket."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

import dpnb
from dpnb.answers.inference import Inference
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import ChangedDataError, InterruptedRequestError, ServiceError
from dpnb.releases.runner import Runner
from dpnb.server import tokens
from dpnb.server.endpoints import ENDPOINTS
from dpnb.server.limits import Limits
from dpnb.server.running import Run

SQL = "SELECT sex, COUNT(*) AS n, AVG(wage) AS m FROM people GROUP BY sex"
BODY = {"sql": SQL, "options": {"rho": 0.01}}


def wait_until(met, seconds=5.0):
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


class TestAnswers:
    def test_a_statement_is_answered_as_in_one_process(self, house):
        reply = house.post("/v2/query", BODY)
        assert reply.status_code == 200
        answer = dpnb.Answer.from_dict(reply.json())
        local = house.curator.session("alice").query(SQL, rho=0.01)
        assert local.stored
        assert answer.estimates == local.estimates
        assert not answer.stored

    def test_each_analyst_has_a_budget_and_a_history_of_her_own(self, house):
        house.post("/v2/query", BODY)
        assert len(house.get("/v2/history").json()["requests"]) == 1
        assert house.get("/v2/history", "bob").json()["requests"] == []
        spent = [
            house.get("/v2/budget", n).json()["budget"]["spent"]["rho"] for n in ("alice", "bob")
        ]
        assert spent == ["1/100", "0"]

    def test_a_privilege_is_named_in_a_header(self, house):
        house.post("/v2/query", BODY, "carol", **{"Dpnb-Privilege": "1"})
        status = [
            house.get("/v2/budget", "carol", **header).json()["budget"]
            for header in ({}, {"Dpnb-Privilege": "4"}, {"Dpnb-Privilege": "1"})
        ]
        assert [one["spent"]["rho"] for one in status] == ["0", "0", "1/100"]
        for wrong in ("2", "x", "-1", "1#1", ""):
            assert house.get("/v2/budget", "carol", **{"Dpnb-Privilege": wrong}).status_code == 400

    @pytest.mark.parametrize("path", ["/v1/query", "/v1/budget", "/v1/decision-price", "/v3/query"])
    def test_another_version_of_the_protocol_is_refused_in_words(self, house, path):
        reply = house.post(path, BODY)
        assert reply.status_code == 404
        assert reply.json()["what"].startswith("this service speaks version 2 of its protocol")
        assert "the same version of dpnb" in reply.json()["hint"]

    def test_prices_and_tables(self, house):
        reply = house.post("/v2/query/price", {"statements": [SQL, SQL], "options": {"rho": 0.01}})
        prices = [price["spent"]["rho"] for price in reply.json()["prices"]]
        assert prices == ["1/100", "0"]
        (table,) = house.get("/v2/tables").json()["tables"]
        assert dpnb.Schema.from_dict(table["columns"]) == house.curator.tables["people"].schema

    def test_past_answers_are_worked_out_at_no_cost(self, house):
        house.post("/v2/query", BODY)
        sql = "SELECT COUNT(*) AS n FROM people WHERE sex IN ('Male', 'Female')"
        body = {"sql": sql, "options": {"confidence": 0.9}}
        reply = house.post("/v2/infer", body)
        assert reply.status_code == 200
        found = Inference.from_dict(reply.json())
        assert found.low < found.estimate < found.high
        assert found.confidence == 0.9
        assert house.get("/v2/budget").json()["budget"]["spent"]["rho"] == "1/100"
        assert len(house.get("/v2/history").json()["requests"]) == 1

    def test_nobody_infers_from_what_another_one_asked(self, house):
        house.post("/v2/query", BODY)
        reply = house.post("/v2/infer", {"sql": "SELECT COUNT(*) AS n FROM people"}, "bob")
        assert reply.status_code == 400
        assert "no past answer to you" in reply.json()["what"]

    @pytest.mark.parametrize(
        "body",
        [{}, {"sql": SQL, "options": {}}, {"sql": SQL, "options": []},
         {"sql": SQL, "options": {"rho": 1}}, {"sql": SQL, "options": {"prior": [1]}},
         {"sql": SQL, "options": {"between": {"a": 1}}}, {"sql": [SQL]}],
    )  # fmt: skip
    def test_inferences_of_nonsense_are_refused(self, refusing, body):
        assert refusing.post("/v2/infer", body).status_code == 400

    def test_health_and_description_are_for_everybody_and_nothing_else_is(self, house):
        for endpoint in ENDPOINTS:
            reply = httpx.request(endpoint.method, house.url + endpoint.path)
            public = endpoint.name in ("health", "ready", "openapi")
            assert reply.status_code == (200 if public else 401), endpoint.path
            if not public:
                assert reply.headers["www-authenticate"] == "Bearer"
                assert reply.json()["what"] == "the token is not accepted"

    def test_the_description_is_valid(self, house):
        # takes two seconds to load
        from openapi_spec_validator import validate

        description = httpx.get(house.url + "/v2/openapi.json").json()
        validate(description)
        assert set(description["paths"]) == {endpoint.path for endpoint in ENDPOINTS}

    def test_every_reply_is_hardened(self, house):
        replies = [
            house.get("/v2/budget"), house.get("/v2/nothing"), house.get("/v2/budget?token=x"),
            httpx.get(house.url + "/v2/budget"), house.post("/v2/query", {}),
        ]  # fmt: skip
        for reply in replies:
            assert reply.headers["cache-control"] == "no-store"
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
            assert reply.headers["content-type"] == "application/json"
            assert "server" not in reply.headers
            assert not any(name.startswith("access-control") for name in reply.headers)


class TestAnalysts:
    def test_one_who_is_added_later_is_served(self, house):
        house.tokens["dave"] = tokens.add(house.file, "dave", [1])
        assert house.get("/v2/budget", "dave").status_code == 200

    def test_one_whose_token_is_revoked_is_not(self, house):
        assert house.get("/v2/budget").status_code == 200
        tokens.revoke(house.file, "alice")
        assert house.get("/v2/budget").status_code == 401
        assert house.get("/v2/budget", "bob").status_code == 200

    def test_one_who_is_disabled_is_refused(self, house):
        house.curator.disable("alice")
        for reply in (house.get("/v2/budget"), house.post("/v2/query", BODY)):
            assert reply.status_code == 400
            assert "no active analyst" in reply.json()["what"]

    def test_a_privilege_above_the_top_is_refused_without_its_reason(self, house):
        house.tokens["eve"] = tokens.add(house.file, "eve", [9])
        reply = house.get("/v2/budget", "eve")
        assert reply.status_code == 403
        assert "the owner has not allowed an analyst with your privilege" in reply.json()["what"]

    def test_one_wrong_privilege_keeps_out_one_analyst(self, house, caplog):
        for _ in range(3):
            tokens.set_privilege(house.file, "alice", [9])
            assert house.get("/v2/budget").status_code == 403
            assert house.get("/v2/budget", "bob").status_code == 200
        assert caplog.text.count("alice is kept out: a privilege must be from 1 to 4") == 1
        tokens.set_privilege(house.file, "alice", [4])
        assert house.get("/v2/budget").status_code == 200

    def test_another_privilege_counts_from_the_next_request_on(self, house):
        def cap(name="alice"):
            return Fraction(house.get("/v2/budget", name).json()["budget"]["cap"]["rho"])

        full = cap()
        for privilege in (2, 4, 1, 4):
            tokens.set_privilege(house.file, "alice", [privilege])
            assert cap() == full if privilege == 4 else cap() < full
        # what the owner decides in the ledger stays, until the file says something new
        house.curator.set_privilege("alice", 2)
        assert cap() < full
        tokens.set_privilege(house.file, "alice", [3])
        tokens.set_privilege(house.file, "carol", [3, 1])
        assert cap() == cap("carol") < full
        tokens.set_privilege(house.file, "carol", [3, 2])
        assert house.get("/v2/budget", "carol").status_code == 403

    def test_changed_data_are_told_in_words_for_analysts(self, house, monkeypatch):
        """Stored answers go on, and nothing is charged."""
        session = house.session()
        stored = session.query(SQL, rho=0.01)

        def changed(*_):
            raise ChangedDataError("the file /secret/people.parquet changed", "new_version=True")

        monkeypatch.setattr(DuckDBEngine, "measure", changed)
        reply = house.post("/v2/query", {"sql": SQL, "options": {"rho": 0.02}})
        assert reply.status_code == 503
        assert not re.search("secret|new_version|file", reply.text)
        with pytest.raises(ChangedDataError, match="Tell the owner of the data") as refusal:
            session.query(SQL, rho=0.02)
        assert "still answered, free" in refusal.value.hint
        again = session.query(SQL, rho=0.01)
        assert (again.stored, again.estimates) == (True, stored.estimates)
        assert session.budget.spent.rho == Fraction(1, 100)


KEY = {"Idempotency-Key": "one.request-1"}


class TestIdempotency:
    def test_the_same_key_gives_the_same_answer_for_one_charge(self, house):
        first, second = (house.post("/v2/query", BODY, **KEY).json() for _ in range(2))
        assert first["estimates"] == second["estimates"]
        assert (first["stored"], second["stored"]) == (False, True)
        assert house.get("/v2/budget").json()["budget"]["spent"]["rho"] == "1/100"

    def test_the_same_key_for_another_body_is_refused(self, house):
        house.post("/v2/query", BODY, **KEY)
        other = {"sql": SQL, "options": {"rho": 0.02}}
        for _ in range(2):
            reply = house.post("/v2/query", other, **KEY)
            assert (reply.status_code, reply.json()["what"]) == (
                409, "this request identifier was already used for another request",
            )  # fmt: skip
        assert house.get("/v2/budget").json()["budget"]["spent"]["rho"] == "1/100"

    def test_keys_are_each_analysts_own(self, house):
        house.post("/v2/query", BODY, **KEY)
        other = {"sql": "SELECT COUNT(*) FROM people", "options": {"rho": 0.001}}
        assert house.post("/v2/query", other, "bob", **KEY).status_code == 200

    def test_a_key_that_the_ledger_knows_survives_the_service(self, house):
        house.post("/v2/query", BODY, **KEY)
        with house.curator.serve(port=0, tokens=house.file, background=True) as second:
            house.url = second.url
            assert house.post("/v2/query", BODY, **KEY).json()["stored"]
            other = {"sql": SQL, "options": {"rho": 0.02}}
            assert house.post("/v2/query", other, **KEY).status_code in (400, 409)

    @pytest.mark.parametrize(
        "key", ["", "a" * 65, "a b", "a/b", "a;b", "é".encode().decode("latin-1")]
    )
    def test_unusable_keys_are_refused(self, house, key):
        reply = house.post("/v2/query", BODY, **{"Idempotency-Key": key.encode("latin-1")})
        assert reply.status_code == 400
        assert house.get("/v2/history").json()["requests"] == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({"sql": "SELECT nope FROM people", "options": {"rho": 0.1}}, "SqlError"),
            ({"sql": SQL, "options": {"rho": -1}}, "RequestError"),
            ({"sql": SQL}, "RequestError"),
            ({"sql": SQL, "options": {"rho": 0.1, "sigma": 1}}, "RequestError"),
            ({"sql": SQL, "options": [1]}, "RequestError"),
            ({"sql": 7, "options": {"rho": 0.1}}, "SqlError"),
            ({"sql": None}, "SqlError"),
            ({"sql": SQL, "params": [1], "options": {"rho": 0.1}}, "SqlError"),
            ({"sql": SQL, "analyst": "bob", "options": {"rho": 0.1}}, "RequestError"),
            ({"options": {"rho": 0.1}}, "RequestError"),
            ([], "RequestError"),
            ("SELECT", "RequestError"),
            (None, "RequestError"),
        ],
    )
    def test_what_makes_no_sense_is_refused_free(self, refusing, body, kind):
        reply = refusing.post("/v2/query", body)
        assert (reply.status_code, reply.json()["kind"]) == (400, kind)
        assert refusing.get("/v2/history").json()["requests"] == []

    def test_what_costs_too_much_is_refused(self, house):
        reply = house.post("/v2/query", {"sql": SQL, "options": {"rho": 5}})
        assert (reply.status_code, reply.json()["kind"]) == (403, "BudgetError")

    def test_the_owner_sees_who_was_refused_what_and_why(self, house, caplog):
        with caplog.at_level("INFO"):
            reply = house.post("/v2/query", {"sql": SQL, "options": {"rho": 5}})
        found = [one.getMessage() for one in caplog.records if one.name == "dpnb.refusals"]
        assert found == ["refused alice query: rho 5, the analyst's own limit"]
        assert "SELECT" not in caplog.text
        assert "limit" not in reply.text
        (one,) = house.curator.provenance.refusals
        assert (one.row, one.asked) == ("alice", SQL)
        for name in ("alice", "bob"):
            assert house.get("/v2/history", name).json()["requests"] == []

    @pytest.mark.parametrize(
        "body",
        [
            {"statements": "SELECT"},
            {"statements": [SQL] * 101},
            {"statements": [7], "options": {"rho": 1}},
            {"statements": [SQL], "options": {"rho": {"$type": "list"}}},
            {"statements": [SQL], "options": {"error": {"n": [1]}}},
        ],
    )
    def test_prices_of_nonsense_are_refused(self, refusing, body):
        assert refusing.post("/v2/query/price", body).status_code == 400

    @pytest.mark.parametrize(
        ("sent", "content", "status"),
        [
            ("text/plain", b"{}", 415),
            ("", b"{}", 415),
            ("application/vnd.apache.arrow.stream", b"ARROW1\x00\x00", 415),
            ("application/x-python-pickle", b"\x80\x04N.", 415),
            ("application/json; charset=utf-16", "{}".encode("utf-16"), 415),
            ("application/json; boundary=x", b"{}", 415),
            ("application/json", b"\x80\x04N.", 400),
            ("application/json", b"ARROW1\x00\x00", 400),
            ("application/json", b"{", 400),
            ("application/json", b"", 400),
            ("application/json", b'{"sql": "x", "options": {"rho": NaN}}', 400),
            ("application/json", b'{"sql": "x", "sql": "y"}', 400),
            ("application/json", b"[" * 500_000, 400),
            ("APPLICATION/JSON; charset=UTF-8", b"{}", 400),
        ],
    )
    def test_bodies_that_are_no_json_are_refused(self, refusing, sent, content, status):
        reply = httpx.post(
            refusing.url + "/v2/query",
            content=content,
            headers=refusing.headers(**{"Content-Type": sent}),
        )
        assert reply.status_code == status
        assert set(reply.json()) >= {"kind", "what", "hint", "where"}

    def test_a_compressed_body_is_refused(self, house):
        assert house.post("/v2/query", BODY, **{"Content-Encoding": "gzip"}).status_code == 415

    def test_unforeseen_failures_say_one_text_without_a_cause(self, house, monkeypatch, caplog):
        secret = "4,000 rows at /secret"

        def broken(*_, **__):
            raise RuntimeError(secret)

        monkeypatch.setattr("dpnb.verbs.run", broken)
        monkeypatch.setattr("dpnb.verbs.history", broken)
        for reply in (house.post("/v2/query", BODY), house.get("/v2/history")):
            assert reply.status_code == 500
            assert reply.json() == {
                "kind": "ServiceError", "what": "the service failed", "where": "",
                "hint": "Ask again. If this was charged, the answer is stored and asking again is free.",
            }  # fmt: skip
        assert secret not in caplog.text
        assert "Traceback" not in caplog.text


class TestSize:
    def test_a_large_body_is_refused_by_its_declared_length(self, build):
        house = build(limits=Limits(body=1000))
        head = (
            b"POST /v2/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer " + house.tokens["alice"].encode()
            + b"\r\nContent-Length: 104857600\r\n\r\n"
        )  # fmt: skip
        found = house.raw(head)
        assert found.startswith(b"HTTP/1.1 413")
        assert b"at most 1,000 bytes" in found

    def test_a_large_body_in_chunks_is_cut_off(self, build):
        house = build(limits=Limits(body=10_000))
        sent = []

        def chunks():
            for _ in range(1600):
                sent.append(1)
                yield b" " * 65_536

        headers = house.headers(**{"Content-Type": "application/json"})
        try:
            reply = httpx.post(house.url + "/v2/query", content=chunks(), headers=headers)
            assert reply.status_code == 413
        except httpx.TransportError:
            pass  # cut off while it was still sending
        assert len(sent) < 1600
        assert house.get("/v2/budget").status_code == 200

    def test_a_large_body_in_small_chunks_is_refused(self, build):
        house = build(limits=Limits(body=10_000))

        def chunks():
            for _ in range(15):
                yield b" " * 1_000
                time.sleep(0.02)  # so that they do not arrive as one

        headers = house.headers(**{"Content-Type": "application/json"})
        try:
            reply = httpx.post(house.url + "/v2/query", content=chunks(), headers=headers)
            assert reply.status_code == 413
        except httpx.TransportError:
            pass  # cut off while it was still sending

    def test_a_body_that_does_not_come_is_not_waited_for(self, build):
        house = build(limits=Limits(upload=0.2))
        head = (
            b"POST /v2/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer " + house.tokens["alice"].encode()
            + b"\r\nContent-Length: 10\r\n\r\n{"
        )  # fmt: skip
        import socket
        from urllib.parse import urlsplit

        place = urlsplit(house.url)
        with socket.create_connection((place.hostname, place.port), timeout=5) as connection:
            connection.sendall(head)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 408")

    def test_large_headers_are_refused(self, house):
        for size in (20_000, 200_000):
            found = house.raw(
                b"GET /v2/budget HTTP/1.1\r\nHost: x\r\nX: " + b"a" * size + b"\r\n\r\n"
            )
            assert found.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


class TestRates:
    def test_too_many_requests_of_one_analyst_wait(self, build):
        house = build(limits=Limits(rate=0.5, burst=3))
        found = [house.get("/v2/budget") for _ in range(5)]
        assert [reply.status_code for reply in found] == [200, 200, 200, 429, 429]
        assert found[-1].headers["retry-after"] in ("1", "2")
        assert house.get("/v2/budget", "bob").status_code == 200

    def test_too_many_at_the_same_time_wait(self, build, slow):
        house = build(limits=Limits(concurrent=1))
        with ThreadPoolExecutor() as pool:
            running = pool.submit(house.post, "/v2/query", BODY)
            assert slow.started.wait(5)
            assert house.get("/v2/budget").status_code == 429
            assert house.get("/v2/budget", "bob").status_code == 200
            slow.free.set()
            assert running.result().status_code == 200
        assert house.get("/v2/budget").status_code == 200


class TestStopping:
    def test_a_client_that_goes_away_stops_its_scan_and_pays_nothing(self, house, slow):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(house.url + "/v2/query", json=BODY, headers=house.headers(), timeout=0.5)
        assert slow.stopped.wait(5)
        assert house.get("/v2/budget").json()["budget"]["spent"]["rho"] == "0"

    def test_who_goes_away_before_it_begins_pays_nothing(self, build, slow, monkeypatch):
        """The only thread is busy, so it waits."""
        waiting, gone, over, said = *(threading.Event() for _ in range(3)), []
        init, stop, call = Run.__init__, Run.stop, Run.__call__

        def made(run, *arguments):
            init(run, *arguments)
            waiting.set()

        def stopped(run):
            stop(run)
            gone.set()

        def called(run):
            try:
                return call(run)
            except InterruptedRequestError as error:
                said.append(str(error))
                over.set()
                raise

        house = build(limits=Limits(threads=1))
        place, body = urlsplit(house.url), json.dumps(BODY)
        head = {
            "Host": place.netloc, "Content-Type": "application/json",
            "Content-Length": len(body), **house.headers("bob"),
        }  # fmt: skip
        lines = ["POST /v2/query HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        with ThreadPoolExecutor() as pool:
            running = pool.submit(house.post, "/v2/query", BODY)
            assert slow.started.wait(5)
            for name, spy in (("__init__", made), ("stop", stopped), ("__call__", called)):
                monkeypatch.setattr(Run, name, spy)
            with socket.create_connection((place.hostname, place.port)) as client:
                client.sendall("\r\n".join([*lines, "", body]).encode())
                assert waiting.wait(5)
            assert gone.wait(5)
            slow.free.set()
            assert running.result().status_code == 200
            assert over.wait(5)
        assert said == ["interrupted. Nothing was charged."]
        assert house.get("/v2/budget", "bob").json()["budget"]["spent"]["rho"] == "0"
        assert house.post("/v2/query", BODY, "bob").status_code == 200

    def test_a_request_that_takes_too_long_is_stopped(self, build, slow):
        house = build(limits=Limits(seconds=0.3))
        reply = house.post("/v2/query", BODY)
        assert reply.status_code == 503
        assert reply.json()["kind"] == "InterruptedRequestError"
        assert "Nothing was charged" in reply.json()["hint"]
        assert slow.stopped.is_set()

    def test_one_who_goes_away_after_the_commit_has_paid_and_asks_again_free(
        self, house, monkeypatch
    ):
        committed, free = threading.Event(), threading.Event()
        real = Runner._commit

        def commit(self, *arguments):
            found = real(self, *arguments)
            committed.set()
            free.wait(5)
            return found

        monkeypatch.setattr(Runner, "_commit", commit)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(house.url + "/v2/query", json=BODY, headers=house.headers(), timeout=0.5)
        assert committed.is_set()
        free.set()
        again = house.post("/v2/query", BODY).json()
        assert again["stored"]
        assert house.get("/v2/budget").json()["budget"]["spent"]["rho"] == "1/100"

    def test_others_are_served_while_one_scan_runs(self, house, slow):
        house.curator.session("bob")
        with ThreadPoolExecutor() as pool:
            running = [pool.submit(house.post, "/v2/query", BODY, n) for n in ("alice", "bob")]
            assert slow.started.wait(5)
            assert house.get("/v2/budget", "carol").status_code == 200
            assert not any(one.done() for one in running)
            slow.free.set()
            assert [one.result().status_code for one in running] == [200, 200]

    def test_closing_the_service_stops_what_runs(self, house, slow, monkeypatch):
        monkeypatch.setattr("dpnb.server.service._GRACE", 1)
        with ThreadPoolExecutor() as pool:
            running = pool.submit(house.post, "/v2/query", BODY)
            assert slow.started.wait(5)
            start = time.monotonic()
            house.service.close()
            assert slow.stopped.is_set()
            assert time.monotonic() - start < 10
            assert (
                isinstance(running.exception(), httpx.HTTPError)
                or running.result().status_code == 503
            )
        assert house.curator.session("alice").budget.spent.rho == 0


class TestTogether:
    def test_eight_at_once_pay_what_one_after_the_other_would(self, house):
        def ask(i):
            body = {"sql": SQL, "options": {"rho": 0.001 * (1 + i % 4)}}
            return house.post("/v2/query", body, ("alice", "bob")[i % 2]).status_code

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, range(32))) == {200}
        budget = house.curator.budget
        assert float(budget.spent.rho) == pytest.approx(0.004)

    def test_the_same_request_many_times_at_once_is_paid_once(self, house):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: house.post("/v2/query", BODY).json(), range(8)))
        assert len({json.dumps(one["estimates"]) for one in found}) == 1
        assert sum(not one["stored"] for one in found) == 1


class TestService:
    def test_it_does_not_listen_beyond_this_machine_without_tls(self, house):
        with pytest.raises(dpnb.DpnbError, match="no TLS"):
            house.curator.serve("0.0.0.0", 0, tokens=house.file, background=True)  # noqa: S104
        with pytest.raises(dpnb.DpnbError, match="no TLS"):
            house.curator.serve("example.org", 0, tokens=house.file, background=True)

    def test_a_taken_port_is_told(self, house):
        port = int(house.url.rpartition(":")[2])
        with pytest.raises(dpnb.DpnbError, match="cannot listen"):
            house.curator.serve(port=port, tokens=house.file, background=True)

    def test_one_that_does_not_start_lets_go_of_its_port(self, house, monkeypatch):
        taken = []
        with monkeypatch.context() as broken:
            broken.setattr(uvicorn.Server, "run", lambda _, sockets: taken.extend(sockets))
            with pytest.raises(ServiceError, match="the service did not start") as refusal:
                house.curator.serve(port=0, tokens=house.file, background=True)
        assert refusal.value.hint == "See the log."
        assert [one.fileno() for one in taken] == [-1]
        house.curator.serve(port=0, tokens=house.file, background=True).close()

    def test_what_is_not_installed_is_named(self, house, monkeypatch):
        monkeypatch.setitem(sys.modules, "uvicorn", None)
        with pytest.raises(ServiceError, match="needs starlette and uvicorn") as refusal:
            house.curator.serve(port=0, tokens=house.file, background=True)
        assert refusal.value.hint == "Run pip install 'dpnb[server]'."

    @pytest.mark.parametrize(
        "options", [{"certificate": "c.pem"}, {"certificate": "c", "key": "k"}]
    )
    def test_unusable_certificates_are_told(self, house, options):
        with pytest.raises(dpnb.DpnbError, match="certificate"):
            house.curator.serve(port=0, tokens=house.file, background=True, **options)

    def test_it_can_run_below_a_prefix(self, build):
        house = build(prefix="/services/dpnb/")
        assert house.url.endswith("/services/dpnb")
        assert house.get("/v2/budget").status_code == 200
        assert httpx.get(house.url.removesuffix("/services/dpnb") + "/v2/health").status_code == 404

    def test_it_shows_its_address_and_cannot_be_pickled(self, house):
        import pickle

        assert repr(house.service) == f"Service({house.url!r})"
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(house.service)

    def test_a_curator_of_one_analyst_cannot_be_served(self, house, tmp_path):
        single = dpnb.Curator(house.curator.tables["people"], budget=dpnb.Budget(rho=1))
        with pytest.raises(dpnb.DpnbError, match="one analyst"):
            single.serve(port=0, tokens=house.file, background=True)
        single.close()


@pytest.mark.parametrize("name", [*Limits.__slots__])
def test_limits_are_positive(name):
    for value in (0, -1, float("inf"), float("nan")):
        with pytest.raises(dpnb.DpnbError, match=name):
            Limits(**{name: value})
