"""The configuration for a JupyterHub works as docs/service.md has it, in a real Hub."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pandas as pd
import pytest

import dpnb

pytestmark = pytest.mark.hub

ROOT = Path(__file__).parents[2]
OURS = """
c.JupyterHub.bind_url = "http://127.0.0.1:{proxy}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = {home!r}
c.Spawner.cmd = [{python!r}, {server!r}]
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 0}}
c.JupyterHub.services.append({{"name": "test", "api_token": "a-token-of-the-test"}})
c.JupyterHub.load_roles.append({{
    "name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers", "tokens"],
}})
"""
SERVER = """
import os, pathlib, time
pathlib.Path({path!r}).write_text(os.environ["JUPYTERHUB_API_TOKEN"])
time.sleep(60)
"""
TOML = """
source = "people.csv"
[columns.sex]
type = "category"
values = ["Female", "Male"]
[budget]
rho = 0.5
delta = 1e-6
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(met, what):
    end = time.monotonic() + 60
    while not (found := met()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found


@pytest.fixture
def hub(tmp_path):
    """Start the documented configuration; only its port is another one."""
    pd.DataFrame({"sex": ["Female", "Male"] * 50}).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(TOML)
    (tmp_path / "server.py").write_text(SERVER.format(path=str(tmp_path / "token")))
    text = (ROOT / "docs" / "service.md").read_text()
    (documented,) = re.findall(r"```\n(c\.JupyterHub\.services.*?)```", text, re.DOTALL)
    own, proxy, api, port = free_ports(4)
    ours = OURS.format(
        proxy=proxy, hub=port, api=api, python=sys.executable, home=str(tmp_path / "homes"),
        server=str(tmp_path / "server.py"),
    )  # fmt: skip
    config = documented.replace(":8899", f":{own}") + ours
    (tmp_path / "jupyterhub_config.py").write_text(config)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub"], cwd=tmp_path, stdout=log, stderr=log,
            env={**os.environ, "PATH": path}, start_new_session=True,
        )  # fmt: skip
    try:
        yield tmp_path, f"http://127.0.0.1:{proxy}"
    finally:
        process.terminate()
        process.wait(30)
        # what the Hub left running
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def admin(hub):
    _, url = hub
    headers = {"Authorization": "token a-token-of-the-test"}
    with httpx.Client(base_url=f"{url}/hub/api", headers=headers, timeout=30) as client:
        yield client


def test_the_documented_configuration_works(hub, admin):
    home, url = hub
    service = f"{url}/services/dpnb"

    def ready():
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{service}/v2/ready").status_code == 200

    wait_for(ready, "the service did not start")
    admin.post("/users/eve").raise_for_status()
    caps = {}
    for name in ("ann", "bob", "eve"):
        token = admin.post(f"/users/{name}/tokens", json={}).json()["token"]
        if name == "eve":
            with pytest.raises(dpnb.DpnbError, match="in no group"):
                dpnb.connect(service, token=token)
        else:
            with dpnb.connect(service, token=token) as session:
                caps[name] = session.budget.cap.rho
    assert caps["ann"] < caps["bob"]
    # the token that a notebook has
    admin.post("/users/ann/server").raise_for_status()
    token = wait_for(
        lambda: (home / "token").exists() and (home / "token").read_text(), "no server"
    )
    with dpnb.connect(service, token=token) as session:
        answer = session.query("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", rho=0.01)
        assert answer.spent.rho > 0
