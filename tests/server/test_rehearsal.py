"""A rehearsal of a session over HTTP: in the client, from what is public, and the service hears nothing."""

from __future__ import annotations

import pandas as pd
import pytest

import dpnb
from dpnb import Curator, Integer, Schema, Table, Unit
from dpnb.errors import ServiceError
from dpnb.private import STAMPS
from dpnb.server import tokens
from tests.kit.inside import runner

pytestmark = pytest.mark.fast

SQL = "SELECT sex, COUNT(*) AS n, AVG(wage) AS m FROM people GROUP BY sex"


@pytest.fixture
def people(house) -> Table:
    return house.curator.tables["people"]


class TestRehearsal:
    def test_is_that_of_a_session_in_the_process_of_the_data(self, house, people):
        remote, local = house.session(), house.curator.session("alice")
        remote.query(SQL, rho="0.01")
        one, other = (session.rehearse(500, seed=2) for session in (remote, local))
        assert one.budget == other.budget
        assert one.budget.cap == remote.budget.remaining
        tables = [runner(session).own["people"] for session in (one, other)]
        assert tables[0].definition() == tables[1].definition() == people.definition()
        pd.testing.assert_frame_equal(tables[0].source, tables[1].source)

    def test_asks_the_service_for_public_facts_only(self, house):
        session = house.session("bob")
        asked = []
        ask = session._backend._connection.ask

        class Listening:
            def __getattr__(self, name):
                return getattr(connection, name)

            def ask(self, method, path, *rest, **more):
                asked.append((method, path))
                return ask(method, path, *rest, **more)

        connection, session._backend._connection = session._backend._connection, Listening()
        before = house.curator.budget
        rehearsal = session.rehearse(300)
        answer = rehearsal.query(SQL, rho="0.01")
        rehearsal.explain(answer.compare("Male", "Female", "n"), rho="0.01", anyway=True)
        assert set(asked) == {("GET", "/v2/tables"), ("GET", "/v2/budget")}
        assert answer.stamp == "rehearsal"
        rehearsal.close()
        assert house.curator.budget == before
        assert len(session.history) == 0

    def test_of_one_of_several_privileges(self, house):
        session = house.session("carol", privilege=1)
        assert session.rehearse(50).budget.cap == session.budget.remaining


class TestDiscoveries:
    def test_values_are_discovered_as_in_the_process_of_the_data(self, tmp_path):
        rows = pd.DataFrame({"city": ["Ulm"] * 900 + ["Bonn"] * 600 + ["Rome"], "n": 1})
        schema = Schema({"n": Integer(0, 9)}, undeclared=["city"])
        curator = Curator(
            Table("sales", rows, schema), budget=dpnb.Budget(rho=1, key_delta="1e-7"),
            analysts={"alice": 1},
        )  # fmt: skip
        token = tokens.add(tmp_path / "own.json", "alice", (1,))
        service = curator.serve(port=0, tokens=tmp_path / "own.json", background=True)
        session, local = dpnb.connect(service.url, token=token), curator.session("alice")
        price = session.price_discovery("city", rho="0.05")
        assert price == local.price_discovery("city", rho="0.05")
        found = session.discover("city", rho="0.05")
        assert found.keys == ("Ulm", "Bonn")
        assert found.spent == price.spent
        again = local.discover("city", rho="0.05")
        assert again.stored
        assert (again.keys, again.hidden_high) == (found.keys, found.hidden_high)
        for options in ({"rho": 5}, {"rho": "0.1", "delta": 1}, {"epsilon": 1}, {}):
            errors = []
            for one in (session, local):
                with pytest.raises(dpnb.DpnbError) as caught:
                    one.discover("city", **options)
                errors.append(str(caught.value))
            assert errors[0] == errors[1]
        assert session.rehearse(2_000).discover("city", rho="0.1").keys[0].startswith("city ")
        session.close()
        service.close()
        curator.close()


class TestTables:
    def test_tell_all_that_is_public_and_nothing_else(self, house, people):
        (table,) = house.get("/v2/tables").json()["tables"]
        assert set(table) == {"name", "columns", "aliases", "complete", "unit", "public"}
        assert Schema.of(table) == people.schema
        assert (table["unit"], table["public"]) == (None, False)

    def test_a_privacy_unit_and_a_public_table_arrive(self, people, tmp_path):
        made = Table(
            "people", people.source, people.schema, Unit("wage", max_rows=9, max_groups=2),
            public=True,
        )  # fmt: skip
        curator = Curator([made], budget=dpnb.Budget(rho=1), analysts={"alice": 1})
        token = tokens.add(tmp_path / "own.json", "alice", (1,))
        service = curator.serve(port=0, tokens=tmp_path / "own.json", background=True)
        session = dpnb.connect(service.url, token=token)
        (found,) = runner(session.rehearse(100)).own.values()
        assert found.definition() == made.definition()
        session.close()
        service.close()
        curator.close()

    def test_a_service_that_tells_too_little_is_of_another_version(self, house, monkeypatch):
        session = house.session()
        (table,) = house.get("/v2/tables").json()["tables"]
        del table["public"]
        real = type(session._backend._connection).ask

        def ask(connection, method, path, *rest):
            if path == "/v2/tables":
                return {"tables": [table]}
            return real(connection, method, path, *rest)

        monkeypatch.setattr(type(session._backend._connection), "ask", ask)
        with pytest.raises(ServiceError, match="the reply of the service cannot be read"):
            session.rehearse(10)


def test_a_service_on_generated_data_stamps_everything(people, tmp_path):
    curator = Curator(
        [people], budget=dpnb.Budget(rho=1), analysts={"alice": 1}, rehearsal=True
    )  # fmt: skip
    token = tokens.add(tmp_path / "own.json", "alice", (1,))
    service = curator.serve(port=0, tokens=tmp_path / "own.json", background=True)
    session = dpnb.connect(service.url, token=token)
    answer = session.query(SQL, rho="0.1")
    explanation = session.explain(answer.compare("Male", "Female", "n"), rho="0.1")
    shown = (
        answer,
        explanation,
        session.budget,
        session.history,
        session,
        session.price(SQL, rho=1),
    )
    for one in shown:
        assert repr(one).startswith(STAMPS["rehearsal"])
    session.close()
    service.close()
    curator.close()


@pytest.mark.parametrize("stamp", ["real", None, 3, [], "NOT PRIVATE"])
def test_a_forged_stamp_is_no_question(house, stamp):
    question = (
        house.session().query(SQL, rho="0.01").compare("Male", "Female", "n").reference.to_dict()
    )
    reply = house.post("/v2/explain", {"question": {**question, "stamp": stamp}})
    assert reply.status_code == 400
    assert "this is not a question that dpnb made" in reply.text
