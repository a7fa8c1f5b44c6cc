"""A real JupyterLab on a free loopback port, and Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.kit import notebooks

_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # nothing but this machine has an address
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
_SETTINGS = {
    # the word "false", by JupyterLab's schema
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "fetchNews": "false",
    }
}
_READY = """() => {
  const panel = window.jupyterapp?.shell.currentWidget, session = panel?.context?.sessionContext;
  return panel?.content?.widgets?.length && session?.isReady
    && session.session?.kernel?.status === 'idle';
}"""
_RAN = """() => window.jupyterapp.shell.currentWidget.content.widgets.every(c =>
  c.model.type !== 'code' || !c.model.sharedModel.source.trim()
  || (c.model.executionCount && c.model.executionState === 'idle'))"""


class Lab:
    """A running JupyterLab that serves one folder."""

    def __init__(self, base, root, env):
        self.base, self.root, self.env = base, root, env

    def write(self, name, *sources):
        kernel = {"name": "python3", "display_name": "Python 3"}
        notebook = notebooks.made(*map(str.strip, sources), kernelspec=kernel)
        (self.root / name).write_text(notebooks.text(notebook))

    def open(self, page, name):
        # a workspace of its own, or a reload would open what other tests opened
        page.goto(f"{self.base}/lab/workspaces/{name.split('.')[0]}/tree/{name}?reset")
        self.wait(page)

    def wait(self, page):
        page.wait_for_function(_READY)

    def run(self, page, command="notebook:run-all-cells"):
        # not the promise itself, on which evaluate() would wait without a time-out
        page.evaluate(f"void window.jupyterapp.commands.execute('{command}')")
        page.wait_for_function(_RAN)

    def theme(self, page, name):
        page.evaluate(
            "name => void window.jupyterapp.commands.execute("
            "'apputils:change-theme', { theme: 'JupyterLab ' + name })",
            name,
        )
        # attached: the body of JupyterLab has no box and so is never visible
        light = "true" if name == "Light" else "false"
        page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")


@contextlib.contextmanager
def serving(home: Path, root: Path) -> Iterator[Lab]:
    """Run JupyterLab for one folder, with its settings in another."""
    overrides = home / "config" / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(json.dumps(_SETTINGS))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={root}",
        "--LabApp.extension_manager=readonly",
        "--LabApp.expose_app_in_browser=True",
    ]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    log = home / "lab.log"
    with log.open("wb") as sink:
        server = subprocess.Popen(
            command, cwd=root, env=environment, stdout=sink, stderr=subprocess.STDOUT
        )
    base = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server, base, log)
        yield Lab(base, root, environment)
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(server, base, log):
    for _ in range(600):
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{base}/api/status", timeout=2).close()  # noqa: S310
            return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not answer: {log.read_text()[-2000:]}")


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    """Run Chromium."""
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, headless=True, args=_FLAGS)
        yield browser
        browser.close()
