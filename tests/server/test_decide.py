"""Decisions over HTTP: the local ones, paid for once, and refused in the same words."""

from __future__ import annotations

import json
import threading
from fractions import Fraction

import httpx
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.decide.decision import Decision
from dpnb.decide.options import OPTIONS
from dpnb.decide.price import DecisionPrice
from dpnb.errors import DpnbError, InterruptedRequestError, RequestError
from dpnb.privacy.loss import Picked
from dpnb.releases.call import Call
from dpnb.releases.options import names
from dpnb.server import wire
from dpnb.server.thresholds import read_thresholds, send_thresholds

SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING COUNT(*) > 2000"
BOTH = (
    "SELECT job, sex, COUNT(*) AS n, AVG(wage) AS m FROM people GROUP BY job, sex "
    "HAVING COUNT(*) > 500 AND AVG(wage) > 40"
)
QUOTA = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING COUNT(*) > :quota"
QUOTAS = {"quota": {"Female": 2000, "Male": 1000}}
BODY = {"sql": SQL, "options": {"u": 300}}
KEY = {"Idempotency-Key": "one-decision"}


@pytest.fixture
def remote(house):
    return house.session("alice")


@pytest.fixture
def local(house):
    return house.curator.session("alice")


def plain(decision):
    """What a decision says, but for what it cost this time."""
    data = decision.to_dict()
    return {name: data[name] for name in data if name not in ("spent", "remaining", "stored")}


def spent(house, name="alice"):
    return house.curator.session(name).budget.spent.rho


class TestDecided:
    def test_a_decision_is_made_as_in_one_process(self, house, local):
        reply = house.post("/v2/decide", BODY)
        assert reply.status_code == 200
        decision = Decision.from_dict(reply.json())
        assert not decision.stored
        assert decision.selected == ["Male"]
        assert decision.spent.rho == spent(house) > 0
        again = local.decide(SQL, u=300)
        assert again.stored
        assert plain(decision) == plain(again)
        assert spent(house) == decision.spent.rho

    @pytest.mark.parametrize(
        ("sql", "options"),
        [
            (SQL, {}), (SQL, {"u": 400, "steps": 1}), (SQL, {"ranges": {"n": (0, 2000)}}),
            (SQL, {"u": {"n": np.float64(400)}, "beta": 0.02, "alpha": 0.2, "confidence": 0.9}),
            (SQL, {"mode": "margin", "u": 500}), (SQL, {"protect": "fpr", "history": False}),
            (SQL, {"u": 400, "most": Fraction(1, 100)}), (SQL, {"u": 400, "most": "0.01"}),
            (BOTH, {"rows": 500, "steps": 1}), (QUOTA, {"u": 500, "thresholds": QUOTAS}),
        ],
        ids=range(10),
    )  # fmt: skip
    def test_it_is_the_local_one(self, remote, local, sql, options):
        fresh = remote.decide(sql, **options)
        assert not fresh.stored
        far, near = remote.decide(sql, **options), local.decide(sql, **options)
        assert far.to_dict() == near.to_dict()
        assert plain(fresh) == plain(near)
        for shown in (repr, lambda made: made._repr_html_(), lambda made: made.to_markdown()):
            assert shown(far) == shown(near)

    @pytest.mark.parametrize(
        "options", [{"mode": "rr"}, {"mode": "hybrid", "u": 900}, {"mode": "margin", "u": 400}]
    )
    def test_every_mode_is_the_local_one(self, build, options):
        house = build(budget=dpnb.Budget(rho=20))
        sql = SQL.replace("2000", "1300")
        far = house.session().decide(sql, **options)
        near = house.curator.session("alice").decide(sql, **options)
        assert plain(far) == plain(near)
        assert near.stored
        assert far.charged == house.curator.session("alice").budget.spent
        assert far.mode == options["mode"]

    def test_one_more_step_is_taken_over_http(self, house, remote, local):
        first = remote.decide(SQL, u=300, steps=1)
        second = first.refine()
        assert len(second.taken) == 2
        assert second.spent.rho == first.next_cost.rho
        assert spent(house) == first.spent.rho + second.spent.rho
        assert plain(local.decide(SQL, u=300, steps=2)) == plain(second)
        assert spent(house) == second.charged.rho

    def test_the_price_is_the_local_one_and_costs_nothing(self, house, remote, local):
        for options in ({}, {"u": 300, "most": "0.01"}, {"mode": "rr"}):
            far, near = (one.price(SQL, beta=0.04, **options) for one in (remote, local))
            assert isinstance(far, DecisionPrice)
            assert far == near
            assert far.to_dict() == near.to_dict()
            assert repr(far) == repr(near)
        reply = house.post("/v2/decide/price", BODY)
        assert reply.json() == local.price(SQL, beta=0.05, u=300).to_dict()
        assert spent(house) == 0
        first = local.price(SQL, u=300, beta=0.05).costs[0]
        assert remote.decide(SQL, u=300, steps=1).spent == first

    def test_each_analyst_pays_and_has_a_history_of_her_own(self, house):
        house.post("/v2/decide", {"sql": SQL, "options": {"u": 300, "steps": 1}})
        assert len(house.get("/v2/history").json()["requests"]) == 1
        assert house.get("/v2/history", "bob").json()["requests"] == []
        assert spent(house, "bob") == 0

    def test_a_picked_amount_marks_it(self, remote):
        assert remote.decide(SQL, u=300, most=Picked(0.02)).conditional
        # of other rows, so that what was bought cannot help
        other = SQL.replace("GROUP", "WHERE wage > 3 GROUP")
        assert not remote.decide(other, u=310).conditional

    def test_only_the_named_parameters_are_sent(self, remote, local):
        sql = SQL.replace("GROUP", "WHERE wage > :least GROUP")
        made = remote.decide(sql, u=300, params={"least": 3, "unsent": object()})
        assert plain(made) == plain(local.decide(sql, u=300, params={"least": 3}))


class TestThresholds:
    LISTED = {"quota": [[["Female"], 2000], [["Male"], 1000]]}  # noqa: RUF012

    @pytest.mark.parametrize(
        "given",
        [QUOTAS, {"quota": {("Female",): 2000, ("Male",): 1000}},
         {"quota": pd.Series({"Female": 2000, "Male": 1000})},
         {"quota": pd.Series({"Female": np.int64(2000), "Male": np.int64(1000)})}],
        ids=range(4),
    )  # fmt: skip
    def test_travel_as_lists_of_groups_and_numbers(self, given):
        sent = json.loads(wire.dumps(send_thresholds(given)))
        assert sent == self.LISTED
        assert read_thresholds(wire.decode(sent)) == QUOTAS

    def test_of_several_keys_and_fractions(self):
        given = {"quota": {("a", 1): Fraction(1, 3), ("a", 2): 0.1}, "other": {}}
        sent = wire.loads(wire.dumps(send_thresholds(given)))
        assert read_thresholds(wire.decode(sent)) == given

    def test_decide_over_plain_http(self, house, local):
        body = {"sql": QUOTA, "options": {"u": 500, "thresholds": self.LISTED}}
        reply = house.post("/v2/decide", body)
        assert reply.status_code == 200
        near = local.decide(QUOTA, u=500, thresholds=QUOTAS)
        assert plain(Decision.from_dict(reply.json())) == plain(near)
        assert near.stored

    @pytest.mark.parametrize(
        "wrong",
        [
            {"quota": {"Female": 1}}, {"quota": [["Female", 1]]}, {"quota": [[["Female"]]]},
            {"quota": [[["Female"], 1, 2]]}, {"quota": [[[["Female"]], 1]]}, {"quota": [1]},
            {"quota": [[["Female"], 1], [["Female"], 2]]}, {"quota": [[[{"a": 1}], 1]]},
            {"quota": {}}, {"quota": [None]},
        ],
        ids=range(10),
    )  # fmt: skip
    def test_of_another_shape_are_refused_in_fixed_words(self, refusing, wrong):
        for path in ("/v2/decide", "/v2/decide/price"):
            reply = refusing.post(path, {"sql": QUOTA, "options": {"thresholds": wrong}})
            assert reply.status_code == 400
            assert reply.json()["what"] == (
                "the thresholds 'quota' must be a list of groups and numbers"
            )
        assert spent(refusing) == 0


class TestRefused:
    @pytest.mark.parametrize(
        "body",
        [
            {}, {"sql": SQL, "accuracy": {}}, {"sql": SQL, "options": []}, {"options": {}},
            {"sql": SQL, "options": {"rho": 1}}, {"sql": SQL, "options": {"beta": None}},
            {"sql": SQL, "options": {"beta": "0.05"}}, {"sql": SQL, "options": {"u": [300]}},
            {"sql": SQL, "options": {"u": {"m": 1}}}, {"sql": SQL, "options": {"ranges": [1]}},
            {"sql": SQL, "options": {"thresholds": [1]}}, {"sql": SQL, "options": {"steps": True}},
            {"sql": SQL, "options": {"thresholds": {"quota": 5}}}, {"sql": [SQL]},
            {"sql": SQL, "options": {"history": 1}}, {"sql": SQL, "options": {"mode": {"a": 1}}},
            {"sql": SQL, "options": {"mode": "paper"}}, {"sql": SQL, "options": {"params": {}}},
            {"sql": SQL, "options": {"progress": 1}}, {"sql": SQL, "identifier": "x"},
            {"sql": SQL, "options": {"u": {"$type": "Curator"}}}, {"sql": SQL, "params": [1]},
            {"sql": SQL.partition(" HAVING")[0], "options": {}},
        ],
        ids=range(23),
    )  # fmt: skip
    def test_nonsense_costs_nothing(self, refusing, body):
        for path in ("/v2/decide", "/v2/decide/price"):
            assert refusing.post(path, body).status_code == 400, body
        assert spent(refusing) == 0
        assert refusing.get("/v2/history").json()["requests"] == []

    WRONG = (
        ({"sql": 7}, {}), ({"sql": ""}, {}), ({"sql": "SELECT nope FROM people"}, {}),
        ({"sql": SQL.replace("2000", ":x")}, {}), ({"sql": SQL.replace("2000", "wage")}, {}),
        ({"sql": SQL.partition(" HAVING")[0]}, {}), ({"sql": SQL + " LIMIT 1"}, {}),
        ({"sql": SQL}, {"beta": 0}), ({"sql": SQL}, {"beta": float("nan")}),
        ({"sql": SQL}, {"beta": [1]}), ({"sql": SQL}, {"alpha": 1}), ({"sql": SQL}, {"alpha": True}),
        ({"sql": SQL}, {"confidence": 1}), ({"sql": SQL}, {"confidence": 10**400}),
        ({"sql": SQL}, {"mode": "loose"}), ({"sql": SQL}, {"mode": 3}), ({"sql": SQL}, {"mode": "naive"}),
        ({"sql": SQL}, {"protect": "both"}), ({"sql": SQL}, {"protect": "fpr", "mode": "rr"}),
        ({"sql": SQL}, {"u": -1}), ({"sql": SQL}, {"u": "50"}), ({"sql": SQL}, {"u": {"nn": 5}}),
        ({"sql": SQL}, {"u": float("inf")}), ({"sql": SQL}, {"ranges": {"n": (1, 2, 3)}}),
        ({"sql": SQL}, {"ranges": (5, 1)}), ({"sql": SQL}, {"rows": object()}),
        ({"sql": SQL}, {"steps": 0}), ({"sql": SQL}, {"steps": 1.5}), ({"sql": SQL}, {"steps": 99}),
        ({"sql": SQL}, {"most": 0}), ({"sql": SQL}, {"most": "much"}), ({"sql": SQL}, {"history": "no"}),
        ({"sql": SQL}, {"thresholds": 7}), ({"sql": SQL}, {"thresholds": [QUOTAS]}),
        ({"sql": QUOTA}, {"thresholds": {"quota": [1, 2]}}), ({"sql": QUOTA}, {"thresholds": {"quota": 5}}),
        ({"sql": QUOTA}, {"thresholds": {"quota": {}}}), ({"sql": QUOTA}, {"thresholds": {}}),
        ({"sql": QUOTA}, {"thresholds": {"quota": {"Female": 1}}}),
        ({"sql": QUOTA}, {"thresholds": {"quota": {**QUOTAS["quota"], "Other": 1}}}),
        ({"sql": QUOTA}, {"thresholds": {"quota": {"Female": "1", "Male": 2}}}),
        ({"sql": QUOTA}, {"thresholds": {"quota": {"Female": None, "Male": 2}}}),
        ({"sql": QUOTA}, {"thresholds": {"quota": {"Female": float("nan"), "Male": 2}}}),
        ({"sql": QUOTA}, {"thresholds": {"quotas": QUOTAS["quota"]}}),
    )  # fmt: skip

    @pytest.mark.parametrize(("asked", "options"), WRONG, ids=range(len(WRONG)))
    def test_errors_are_the_local_ones(self, refusing, asked, options):
        remote, local = refusing.session(), refusing.curator.session("alice")
        said = []
        for session in (local, remote):
            with pytest.raises(DpnbError) as caught:
                session.decide(**asked, **options)
            said.append((type(caught.value), caught.value.args, str(caught.value)))
            assert caught.value.__cause__ is None
        assert said[0] == said[1]
        assert remote.budget.spent.rho == 0

    def test_what_cannot_be_paid_is_refused(self, house, remote):
        with pytest.raises(DpnbError):
            remote.decide(SQL, u=0.5)
        assert spent(house) == 0

    def test_unknown_options_are_refused_before_anything_is_sent(self, remote, house):
        house.service.close()
        with pytest.raises(RequestError, match="unknown option"):
            remote.price(SQL, beta=0.1, sigma=3)


class TestPaidOnce:
    def test_a_repeated_key_is_paid_for_once(self, house):
        first, second = (house.post("/v2/decide", BODY, **KEY).json() for _ in range(2))
        assert (first["stored"], second["stored"]) == (False, True)
        assert first["chosen"] == second["chosen"]
        assert str(spent(house)) == first["charged"]["rho"]

    def test_a_key_stands_for_one_request(self, house):
        house.post("/v2/decide", BODY, **KEY)
        before = spent(house)
        for path, body in (
            ("/v2/decide", {"sql": SQL, "options": {"u": 200}}),
            ("/v2/query", BODY),
        ):
            assert house.post(path, body, **KEY).status_code == 409
        assert spent(house) == before

    def test_a_price_takes_no_key(self, house):
        for options in ({"u": 300}, {"u": 200}):
            reply = house.post("/v2/decide/price", {"sql": SQL, "options": options}, **KEY)
            assert reply.status_code == 200

    def test_many_at_once_pay_once(self, house):
        found = []

        def ask():
            found.append(house.post("/v2/decide", BODY).json())

        workers = [threading.Thread(target=ask) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
        assert {json.dumps(one["chosen"]) for one in found} == {json.dumps(found[0]["chosen"])}
        assert str(spent(house)) == found[0]["charged"]["rho"]


class TestInterrupted:
    def test_an_interrupt_ends_the_connection_and_the_scan(self, house, slow):
        session, results, held = house.session(), [], {}

        def run():
            held["cancel"], held["thread"] = threading.Event(), threading.get_ident()
            try:
                results.append(
                    session._backend.run(Call("decide", SQL, {"u": 300}), held["cancel"])
                )
            except DpnbError as error:
                results.append(error)

        worker = threading.Thread(target=run)
        worker.start()
        assert slow.started.wait(5)
        held["cancel"].set()
        session._backend.interrupt(held["thread"])
        worker.join(3)
        assert not worker.is_alive()
        assert isinstance(results[0], InterruptedRequestError)
        assert "If it was, asking again is free." in str(results[0])
        assert slow.stopped.wait(5)
        assert spent(house) == 0

    def test_a_client_that_goes_away_stops_the_scan(self, house, slow):
        with pytest.raises(httpx.TimeoutException):
            httpx.post(house.url + "/v2/decide", json=BODY, headers=house.headers(), timeout=0.5)
        assert slow.stopped.wait(5)
        assert spent(house) == 0


class TestDescription:
    def test_what_is_described_is_what_is_said(self, house):
        # takes two seconds to load
        from jsonschema import Draft202012Validator

        described = httpx.get(house.url + "/v2/openapi.json").json()
        schemas = described["components"]["schemas"]
        for path, name in (("/v2/decide", "Decision"), ("/v2/decide/price", "DecisionPrice")):
            reply = house.post(path, BODY).json()
            assert set(schemas[name]["required"]) <= set(reply)
            operation = described["paths"][path]["post"]
            entries = operation["requestBody"]["content"]["application/json"]["schema"]
            options = entries["properties"]["options"]["$ref"].rpartition("/")[2]
            assert set(schemas[options]["properties"]) == set(names(OPTIONS))
            body = {**described, **entries}
            for options in (
                {}, {"u": 50, "ranges": [0, 9], "most": "0.1", "steps": 6},
                {"u": {"n": 50}, "ranges": {"n": [0, 9]}, "thresholds": TestThresholds.LISTED},
            ):  # fmt: skip
                Draft202012Validator(body).validate({"sql": QUOTA, "options": options})
            for options in ({"beta": 2}, {"u": "50"}, {"thresholds": QUOTAS}, {"rho": 1}):
                assert not Draft202012Validator(body).is_valid({"sql": QUOTA, "options": options})
            Draft202012Validator({**described, **schemas[name]}).validate(reply)
        assert "409" in described["paths"]["/v2/decide"]["post"]["responses"]
        assert "409" not in described["paths"]["/v2/decide/price"]["post"]["responses"]
