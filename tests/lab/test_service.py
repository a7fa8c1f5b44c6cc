"""Two notebooks in JupyterLab, two analysts, one service that holds the data."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

import dpnb
from tests.kit.pages import ask_kernel, assert_accessible, outputs

pytestmark = pytest.mark.lab

ROWS = {"north": 61_234, "south": 23_457}
"""Distinctive numbers, which no notebook may hold."""
TOML = """
name = "people"
source = "people.parquet"

[columns.region]
type = "category"
values = ["north", "south"]

[columns.age]
type = "integer"
low = 18
high = 80

[budget]
epsilon = 3
delta = 1e-6
"""
ASK = "%%dpquery --on people --error {error} -o answer\nSELECT region, COUNT(*) AS n FROM people GROUP BY region"


def dpnb_command(folder, *arguments):
    command = [sys.executable, "-m", "dpnb", *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


class Service:
    """A running ``dpnb serve`` and the tokens of its analysts."""

    def __init__(self, folder):
        self.folder = folder
        regions = np.repeat(list(ROWS), list(ROWS.values()))
        ages = 18 + np.arange(len(regions)) % 60
        pd.DataFrame({"region": regions, "age": ages}).to_parquet(folder / "people.parquet")
        (folder / "people.toml").write_text(TOML)
        self.tokens = {
            name: dpnb_command(folder, "analyst", "add", name, "--privilege", privilege)
            for name, privilege in (("alice", "4"), ("bob", "1"))
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "service.log"
        command = [sys.executable, "-m", "dpnb", "serve", "people.toml", "--port", str(port)]
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                command, cwd=folder, stdout=sink, stderr=subprocess.STDOUT, env=dict(os.environ)
            )

    def wait(self):
        for _ in range(300):
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"{self.url}/v2/health", timeout=2).close()  # noqa: S310
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError(f"the service did not answer: {self.log.read_text()[-2000:]}")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("service"))
    try:
        running.wait()
        yield running
    finally:
        running.stop()


def open_as(lab, new_page, service, name, error):
    """Run a notebook that opens the service; the token is typed at the hidden prompt."""
    cells = (
        f"%load_ext dpnb\n%dpopen {service.url} --as people",
        ASK.format(error=error),
        "%dpbudget",
    )
    lab.write(f"{name}.ipynb", *cells)
    page = new_page()
    lab.open(page, f"{name}.ipynb")
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    prompt = page.locator(".jp-Stdin-input")
    prompt.wait_for()
    assert prompt.get_attribute("type") == "password"
    prompt.fill(service.tokens[name])
    prompt.press("Enter")
    lab.wait(page)
    page.locator("[data-dpnb-live]").first.wait_for()
    expect(outputs(page, 2)).to_contain_text(f"Privacy budget of {name}")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    return page


@pytest.fixture(scope="module")
def notebooks(lab, new_page, service):
    """Alice's notebook, and then Bob's, who asks for less."""
    return {
        "alice": open_as(lab, new_page, service, "alice", 200),
        "bob": open_as(lab, new_page, service, "bob", 400),
    }


def test_both_are_answered_as_in_one_process(notebooks):
    for page in notebooks.values():
        low, high = (
            [float(value) for value in ask_kernel(page, f"list(answer.to_frame()[{end!r}])").strip("[]").split(",")]
            for end in ("n_low", "n_high")
        )  # fmt: skip
        assert all(a < b for a, b in zip(low, high, strict=True))
        assert ask_kernel(page, "type(answer).__name__") == "Answer"
        assert_accessible(page)


def test_the_second_one_costs_the_common_budget_nothing(notebooks, service):
    """Bob asks for a coarser version of what Alice has: he pays, all together do not."""
    with dpnb_curator(service) as curator:
        alice, bob = curator.coalition("alice"), curator.coalition("bob")
        assert bob.rho > 0
        assert curator.coalition("alice", "bob") == curator.budget.spent == alice


def test_no_token_and_no_exact_number_is_in_a_notebook(notebooks, lab, service):
    exact = {*map(str, ROWS.values()), *(f"{rows:,}" for rows in ROWS.values())}
    for name, page in notebooks.items():
        text = (lab.root / f"{name}.ipynb").read_text()
        assert f"Privacy budget of {name}" in text
        # noise can hit an exact number
        released = ask_kernel(
            page,
            "[f'{int(v) + i:{c}}' for e in answer.estimates for v in (*e.estimate, *e.low, *e.high)"
            " for i in (-1, 0, 1) for c in (',', '')]",
        )
        for secret in (
            *service.tokens.values(),
            *(one for one in exact if f"'{one}'" not in released),
        ):
            assert secret not in text


def test_the_kernels_hold_no_data(notebooks):
    """What a kernel can list of itself holds no table, no curator, and no ledger."""
    for page in notebooks.values():
        held = ask_kernel(
            page,
            "sorted({type(o).__name__ for o in __import__('gc').get_objects() "
            "if str(type(o).__module__).startswith('dpnb.') and getattr(o, 'source', 0) is not None} "
            "& {'Curator', 'DuckDBEngine', 'Store', 'Ledger', 'Accountant', 'Version', 'Table'})",
        )
        assert held == "[]"


def test_the_log_names_requests_only(notebooks, service):
    text = service.log.read_text()
    assert re.search(r"alice.*\b200\b", text)
    for secret in (*service.tokens.values(), "SELECT", "region"):
        assert secret not in text


class dpnb_curator:  # noqa: N801 - reads as a function
    """The service's ledger, opened beside it by the owner."""

    def __init__(self, service):
        table = dpnb.Table.load(service.folder / "people.toml")
        self.curator = dpnb.Curator([table], ledger=service.folder / "people.ledger")

    def __enter__(self):
        return self.curator

    def __exit__(self, *exception):
        self.curator.close()
