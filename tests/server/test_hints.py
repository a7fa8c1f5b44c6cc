"""What the service, its client and its command line advise is accepted when it is done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import dpnb
from dpnb.cli import _authenticator, main
from dpnb.errors import DpnbError, RequestError
from dpnb.server import tokens
from dpnb.server.access import find_token, read_address
from dpnb.server.limits import Limits
from dpnb.server.thresholds import read_thresholds
from tests.server.conftest import House

SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


def failing(call: Callable[[], object]) -> DpnbError:
    with pytest.raises(DpnbError) as raised:
        call()
    return raised.value


LOCAL = read_address("http://127.0.0.1:8899")
ADVISED: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
    *(("Write https://host:port, or http://127.0.0.1:8899", lambda wrong=wrong: read_address(wrong),
       lambda right=right: read_address(right))
      for wrong, right in (("ftp://host:1", "https://host:8899"), (5, "http://127.0.0.1:8899"),
                           ("https://host/a/../b", "https://host:8899"))),
    ("Leave out user, password and query. Put the token in DPNB_TOKEN.",
     lambda: read_address("https://me:secret@host:8899/?token=x"),
     lambda: find_token(None, read_address("https://host:8899/"), {"DPNB_TOKEN": "x"})),
    ("Use https, or insecure=True", lambda: read_address("http://host:8899"),
     lambda: (read_address("https://host:8899"), read_address("http://host:8899", insecure=True))),
    ("Put it in DPNB_TOKEN.", lambda: find_token("a b", LOCAL, {}),
     lambda: find_token(None, LOCAL, {"DPNB_TOKEN": "ab"})),
    ("Give a positive number.", lambda: Limits(rate=0), lambda: Limits(rate=1)),
    ("Send {name: [[[label, ...], number], ...]}, each group once.",
     lambda: read_thresholds({"n": [[["F"], 1], [["F"], 2]]}),
     lambda: read_thresholds({"n": [[["F"], 1], [["M"], 2]]})),
    ("Write --group analysts=4.", lambda: options(group=["analysts"]),
     lambda: options(group=["analysts=4"])),
    ("Give one of them.", lambda: options(group=["analysts=4"], tokens="a.json"),
     lambda: options(group=["analysts=4"])),
]  # fmt: skip


def options(**given: Any) -> object:
    """Return who tells who asks, for options of the command line, in a JupyterHub."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_NAME"):
            patch.setenv(name, "x")
        patch.setenv("JUPYTERHUB_OAUTH_SCOPES", '["access:services!service=dpnb"]')
        return _authenticator(SimpleNamespace(**{"group": [], "tokens": None, **given}))


@pytest.mark.parametrize(("hint", "wrong", "right"), ADVISED)
def test_is_accepted(hint, wrong, right):
    assert hint in failing(wrong).hint
    right()


class TestRequests:
    """What a refused request is told to send instead is taken."""

    GOOD = json.dumps({"statements": [SQL], "options": {"rho": 0.01}}).encode()

    @pytest.mark.parametrize(
        ("hint", "path", "body", "more", "right"),
        [
            ("Send the token in the header Authorization: Bearer", "/v2/query/price?token=x", {}, {}, {}),
            ("See /v2/openapi.json.", "/v2/query/prices", {}, {}, {}),
            ("See /v2/openapi.json.", "/v2/budget", {}, {}, {}),
            ("Send Content-Type: application/json.", "/v2/query/price", {}, {"Content-Type": "text/plain"},
             {"Content-Type": "application/json"}),
            ("Send it uncompressed.", "/v2/query/price", {}, {"Content-Encoding": "gzip"}, {}),
            ("Send 1 to 64 letters, digits or . _ -.", "/v2/query", {}, {"Idempotency-Key": "a b"},
             {"Idempotency-Key": "a.b_c-1"}),
            ("Send a JSON object as /v2/openapi.json describes it.", "/v2/query/price", [], {}, {}),
            ("Send ['SELECT ...'].", "/v2/query/price", {"statements": SQL}, {}, {}),
            ("Did you mean rho?", "/v2/query/price", {"statements": [SQL], "options": {"rhoo": 0.01}}, {}, {}),
            ("Send one of your privileges.", "/v2/query/price", {"statements": [SQL]}, {"Dpnb-Privilege": "x"},
             {"Dpnb-Privilege": "4"}),
            ("Put it in DPNB_TOKEN.", "/v2/query/price", {}, {"Authorization": "Bearer x"}, {}),
        ],
    )  # fmt: skip
    def test_is_taken(self, refusing: House, hint, path, body, more, right):
        reply = refusing.post(path, body, **more)
        assert reply.status_code >= 400
        assert hint in reply.text.encode().decode("unicode_escape")
        reply = refusing.post("/v2/query/price", None, content=self.GOOD, **right)
        assert reply.status_code == 200

    def test_the_paths_that_are_advised_are_described(self, refusing: House):
        assert {"/v2/query/price", "/v2/query"} <= set(
            refusing.get("/v2/openapi.json").json()["paths"]
        )

    def test_a_question_that_was_changed_on_the_way_is_asked_again(self, build):
        house = build()
        session = house.session()
        question = session.query(SQL, rho=0.01).compare("Male", "Female")
        reply = house.post(
            "/v2/explain", {"question": {**question.reference.to_dict(), "index": "x"}}
        )
        assert "Compare the groups again." in reply.text
        session.price(session.query(SQL, rho=0.01).compare("Male", "Female"), rho=0.01)

    def test_a_client_is_opened_as_advised(self, refusing: House):
        given = {"token": refusing.tokens["carol"]}
        for hint, wrong, right in (
            ("Leave it out, or give one of yours.", {"privilege": "4"}, {"privilege": 1}),
            ("Leave it out, or give one of yours.", {"privilege": "4"}, {}),
            ("Write timeout=330.", {"timeout": 0}, {"timeout": 330}),
        ):
            error = failing(lambda wrong=wrong: dpnb.connect(refusing.url, **given, **wrong))
            assert hint in error.hint
            dpnb.connect(refusing.url, **given, **right).close()


class TestServing:
    """What ``serve`` advises."""

    @pytest.mark.parametrize(
        ("hint", "wrong", "right"),
        [
            ("Write port=8899.", {"port": "x"}, {"port": 8899}),
            ("Write prefix='/services/dpnb/'.", {"prefix": "services"}, {"prefix": "/services/dpnb/"}),
            ("Write dpnb.server.limits.Limits(rate=10).", {"limits": 10}, {"limits": Limits(rate=10)}),
            ("Write tokens='analysts.tokens'.", {"tokens": 5}, {"tokens": "analysts.tokens"}),
            ("Give certificate and key.", {"certificate": "a.pem"}, {"certificate": "c.pem", "key": "k.pem"}),
            ("or insecure=True (--insecure)", {"host": "data.example.org"}, {"host": "data.example.org", "insecure": True}),
        ],
    )  # fmt: skip
    def test_is_taken(self, refusing: House, hint, wrong, right, monkeypatch):
        """As far as the first thing that needs the network: the listening itself is cut off."""
        reached = []
        monkeypatch.setattr(
            "dpnb.server.service._check_certificate", lambda *paths: reached.append(paths)
        )
        monkeypatch.setattr(
            "dpnb.server.service._server_class",
            lambda: (_ for _ in ()).throw(RequestError("listening", "")),
        )
        assert hint in failing(lambda: refusing.curator.serve(**wrong)).hint
        assert failing(lambda: refusing.curator.serve(**right)).what == "listening"
        assert reached == ([("c.pem", "k.pem")] if "key" in right else [])


TOML = """
source = "people.csv"
[columns.sex]
type = "category"
values = ["Female", "Male"]
[budget]
rho = 0.5
"""
COMMAND = re.compile(r"Run dpnb ([^.]*?)(?: for a new one)?\.")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"sex": ["Female", "Male"]}).to_csv("people.csv", index=False)
    (tmp_path / "people.toml").write_text(TOML)
    return tmp_path


class TestCommands:
    """The commands that a hint names can be run as they stand."""

    def advised(self, error: str) -> list[str]:
        (command,) = COMMAND.findall(error)
        return str(command).replace("NAME", "alice").split()

    def test_of_tokens(self, home, capsys):
        file = home / "tokens.json"
        first = str(failing(lambda: tokens.entries(file)))
        assert main(self.advised(first)) == 0
        again = str(failing(lambda: tokens.add(file, "alice", [4])))
        assert main(self.advised(again)) == 0
        assert "See dpnb analyst list." in failing(lambda: tokens.revoke(file, "alcie")).hint
        assert main(["analyst", "list"]) == 0
        assert "alice" in capsys.readouterr().out
        tokens.revoke(file, "alice")
        assert (
            "Write --expires 2027-01-31."
            in failing(lambda: tokens.renew(file, "alice", "31.1.2027")).hint
        )
        assert main(["analyst", "renew", "alice", "--expires", "2027-01-31"]) == 0
        file.chmod(0o644)
        assert f"Run chmod 600 {file}." in failing(lambda: tokens.entries(file)).hint
        file.chmod(0o600)
        assert len(tokens.entries(file)) == 1
        file.write_text("{}")
        assert "start a new one" in failing(lambda: tokens.entries(file)).hint
        file.unlink()
        tokens.add(file, "alice", [4])

    def test_of_a_service_without_analysts(self, home, capsys, monkeypatch):
        monkeypatch.setattr("dpnb.curator.Curator.serve", lambda *_, **__: None)
        (home / "tokens.json").write_text('{"service": "%s", "analysts": []}' % ("0" * 12))
        (home / "tokens.json").chmod(0o600)
        assert main(["serve", "people.toml"]) != 0
        assert main(self.advised(capsys.readouterr().err)) == 0
        assert main(["serve", "people.toml"]) == 0

    def test_of_a_ledger_that_a_notebook_began(self, home, capsys, monkeypatch):
        monkeypatch.setattr("dpnb.curator.Curator.serve", lambda *_, **__: None)
        tokens.add(home / "tokens.json", "alice", [4])
        with dpnb.Session(
            dpnb.Table.load("people.toml"), budget=dpnb.Budget(rho=1), ledger="people.ledger"
        ):
            pass
        assert main(["serve", "people.toml"]) != 0
        assert "Name another ledger with --ledger PLACE." in capsys.readouterr().err
        assert main(["serve", "people.toml", "--ledger", "other.ledger"]) == 0

    def test_of_tables_that_declare_different_budgets(self, home, capsys, monkeypatch):
        monkeypatch.setattr("dpnb.curator.Curator.serve", lambda *_, **__: None)
        tokens.add(home / "tokens.json", "alice", [4])
        (home / "other.toml").write_text(TOML.replace("0.5", "0.6"))
        assert main(["serve", "people.toml", "other.toml"]) != 0
        assert "The tables share one ledger: write it in one file." in capsys.readouterr().err
        (home / "other.toml").write_text(TOML.partition("[budget]")[0])
        assert main(["serve", "people.toml", "other.toml"]) == 0
