"""As a service of a JupyterHub.

A real Hub needs its proxy from npm. Here a small server on loopback speaks the one part of the Hub's
API that is used, ``GET /hub/api/user`` with the user's own token, and the real ``HubAuth`` asks it.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
from fractions import Fraction

import httpx
import pytest

import dpnb
from dpnb.errors import RequestError
from dpnb.server.hub import HubAuthenticator, is_service

SCOPE = "access:services!service=dpnb"
USERS = {
    "alice-token": {"kind": "user", "name": "alice", "groups": ["analysts", "others"],
                    "scopes": [SCOPE, "self"]},
    "student-token": {"kind": "user", "name": "stu@example.org", "groups": ["students"],
                      "scopes": ["access:services", "self"]},
    "both-token": {"kind": "user", "name": "both", "groups": ["students", "analysts"],
                   "scopes": [SCOPE]},
    "nobody-token": {"kind": "user", "name": "nobody", "groups": [], "scopes": [SCOPE]},
    "stranger-token": {"kind": "user", "name": "stranger", "groups": ["analysts"],
                       "scopes": ["access:services!service=other"]},
    "service-token": {"kind": "service", "name": "robot", "groups": ["analysts"],
                      "scopes": [SCOPE]},
    "owner-token": {"kind": "user", "name": "owner", "groups": ["analysts"], "scopes": [SCOPE]},
    "odd-token": {"kind": "user", "name": "a#4", "groups": ["analysts"], "scopes": [SCOPE]},
}  # fmt: skip


class FakeHub(http.server.BaseHTTPRequestHandler):
    """Answers as the Hub does: 200 with the user's model, or 403."""

    asked: list[str]
    broken = False

    def do_GET(self):
        token = self.headers["Authorization"].removeprefix("token ")
        type(self).asked.append(token)
        user = USERS.get(token) if self.path == "/hub/api/user" else None
        status = 500 if self.broken else 403 if user is None else 200
        body = json.dumps(user or {"status": status, "message": "no"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    from jupyterhub.services.auth import HubAuth

    handler = type("Hub", (FakeHub,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    for name, value in {
        "JUPYTERHUB_API_TOKEN": "the-service-itself",
        "JUPYTERHUB_API_URL": f"http://127.0.0.1:{server.server_port}/hub/api",
        "JUPYTERHUB_SERVICE_NAME": "dpnb",
        "JUPYTERHUB_SERVICE_PREFIX": "/services/dpnb/",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    yield handler
    server.shutdown()
    server.server_close()
    thread.join(5)
    HubAuth.clear_instance()


@pytest.fixture
def served(build, hub):
    groups = HubAuthenticator({"analysts": 4, "students": 1})
    house = build(authenticator=groups, prefix="/services/dpnb")
    house.hub = groups
    return house


def get(house, token, path="/v2/budget"):
    return httpx.get(house.url + path, headers={"Authorization": f"Bearer {token}"})


class TestUsers:
    def test_users_in_a_group_are_analysts_with_its_privilege(self, served):
        assert get(served, "alice-token").status_code == 200
        assert get(served, "student-token").status_code == 200
        caps = [
            float(get(served, token).json()["budget"]["cap"]["rho"].split("/")[0])
            / float(get(served, token).json()["budget"]["cap"]["rho"].split("/")[1])
            for token in ("both-token", "student-token")
        ]
        assert caps[0] > caps[1]
        assert served.curator.session("stu@example.org").budget.analyst == "stu@example.org"

    @pytest.mark.parametrize(
        "token", ["nobody-token", "stranger-token", "service-token", "owner-token", "odd-token"]
    )
    def test_others_may_not_ask(self, served, token):
        assert get(served, token).status_code == 403

    def test_the_refusal_tells_a_missing_scope_from_a_missing_group(self, served):
        scope, group = (
            get(served, token).json()["hint"] for token in ("stranger-token", "nobody-token")
        )
        assert SCOPE in scope
        assert "roles user and server" in scope
        assert "into analysts or students" in group

    def test_who_changes_group_has_the_new_privilege(self, served, hub, monkeypatch):
        def cap():
            served.hub._hub.cache.clear()
            return Fraction(get(served, "alice-token").json()["budget"]["cap"]["rho"])

        found = []
        for groups in (["analysts"], ["students"], ["analysts"], ["students"]):
            monkeypatch.setitem(USERS["alice-token"], "groups", groups)
            found.append(cap())
        assert found[0] == found[2] > found[1] == found[3]

    @pytest.mark.parametrize("token", ["unknown", "the-service-itself"])
    def test_tokens_that_the_hub_does_not_know_are_refused(self, served, token):
        reply = get(served, token)
        assert (reply.status_code, reply.json()["what"]) == (401, "the token is not accepted")

    def test_the_hubs_word_is_kept_for_a_short_time(self, served, hub):
        for _ in range(5):
            assert get(served, "alice-token").status_code == 200
        assert hub.asked.count("alice-token") == 1

    def test_a_hub_that_cannot_be_asked_lets_nobody_in(self, served, hub):
        hub.broken = True
        reply = get(served, "alice-token")
        assert reply.status_code == 503
        assert reply.headers["retry-after"]

    def test_no_token_is_logged(self, served, caplog):
        caplog.set_level("DEBUG")
        for token in USERS:
            get(served, token)
        assert not any(token in caplog.text for token in USERS)

    def test_a_notebook_of_the_hub_has_its_token_already(self, served, monkeypatch):
        monkeypatch.delenv("DPNB_TOKEN", raising=False)
        monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "alice-token")
        monkeypatch.setenv("JUPYTERHUB_HOST", served.url)
        with dpnb.connect(served.url) as session:
            assert session.query("SELECT COUNT(*) AS n FROM people", rho=0.01).spent.rho > 0


class TestStart:
    def test_it_needs_a_hub(self, monkeypatch):
        monkeypatch.delenv("JUPYTERHUB_SERVICE_NAME", raising=False)
        with pytest.raises(RequestError, match="this process was not started by a JupyterHub"):
            HubAuthenticator({"analysts": 4})

    def test_it_needs_groups(self, hub):
        with pytest.raises(RequestError, match="no group"):
            HubAuthenticator({})

    def test_it_names_the_extra(self, hub, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "jupyterhub.services.auth", None)
        with pytest.raises(RequestError, match=r"dpnb\[server,hub\]"):
            HubAuthenticator({"analysts": 4})

    def test_it_needs_a_scope(self, hub, monkeypatch):
        """One of its own name, unless another one is given."""
        monkeypatch.setenv("JUPYTERHUB_OAUTH_ACCESS_SCOPES", "[]")
        with pytest.raises(RequestError, match="gives this service no access scope") as refusal:
            HubAuthenticator({"analysts": 4})
        name = re.search("JUPYTERHUB_[A-Z_]+", refusal.value.hint)[0]
        monkeypatch.delenv(name)
        assert HubAuthenticator({"analysts": 4}).top == 4

    def test_a_users_own_server_is_no_service(self):
        assert is_service({"JUPYTERHUB_SERVICE_NAME": "dpnb"})
        assert not is_service({"JUPYTERHUB_SERVICE_NAME": "dpnb", "JUPYTERHUB_USER": "alice"})
        assert not is_service({"JUPYTERHUB_SERVICE_NAME": ""})
        assert not is_service({})
