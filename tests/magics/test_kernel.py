"""The magics in a real kernel, as a notebook front end talks to it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

SQL = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"


class Kernel:
    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, cell: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the reply and everything published while the cell ran."""
        published: list[dict[str, Any]] = []
        reply = self.client.execute_interactive(
            cell, output_hook=published.append, timeout=60, allow_stdin=False
        )
        return reply["content"], published

    def complete(self, text: str) -> list[str]:
        identity = self.client.complete(text, len(text))
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=30)
            except queue.Empty:
                pytest.fail("no completions")
            if reply["parent_header"].get("msg_id") == identity:
                return list(reply["content"]["matches"])


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        started = Kernel(client)
        for line in ("%load_ext dpnb", "%dpopen adult --epsilon 3 --delta 1e-6"):
            reply, _ = started.run(line)
            assert reply["status"] == "ok"
        yield started
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_an_answer_is_one_result_with_text_and_html(kernel):
    reply, published = kernel.run(f"%%dpquery --rho 0.01\n{SQL}")
    assert reply["status"] == "ok"
    results = [m for m in published if m["msg_type"] in ("execute_result", "display_data")]
    assert [m["msg_type"] for m in results] == ["execute_result"]
    assert set(results[0]["content"]["data"]) == {"text/plain", "text/html"}


def test_a_mistake_is_an_error_output_of_one_line(kernel):
    reply, published = kernel.run(
        "%%dpquery --rho 0.01\nSELECT sx, COUNT(*) FROM adult GROUP BY sx"
    )
    assert reply["status"] == "error"
    assert reply["ename"] == "SqlError"
    (error,) = [m["content"] for m in published if m["msg_type"] == "error"]
    assert len(error["traceback"]) == 1
    assert "Did you mean sex?" in error["traceback"][0]


def test_a_mistyped_option_fails_the_run_too(kernel):
    reply, _ = kernel.run(f"%%dpquery --rhoo 1\n{SQL}")
    assert reply["status"] == "error"


def test_spending_much_without_a_keyboard_is_refused(kernel):
    reply, _ = kernel.run(f"%%dpquery --rho 0.15\n{SQL}")
    assert "Add --yes" in reply["evalue"]


def test_completion_offers_declared_values(kernel):
    found = kernel.complete("%%dpquery --rho 1\nSELECT COUNT(*) FROM adult WHERE race = 'Amer")
    assert any("Amer-Indian-Eskimo".endswith(text) for text in found)


def test_help_shows_options_and_an_example(kernel):
    reply, _ = kernel.run("%%dpquery?")
    text = reply["payload"][0]["data"]["text/plain"]
    assert "--dry-run" in text
    assert "Example" in text


def test_a_function_asks_with_its_own_variables_also_after_a_reload(kernel):
    cell = """%reload_ext dpnb
sex = "nobody"
def price(sex, level):
    found = %dpquery --rho :level --dry-run SELECT COUNT(*) AS n FROM adult WHERE sex = :sex
    return found
def asked(sex):
    def inner():
        found = %dpquery --dry-run -q --rho 0.001 SELECT COUNT(*) AS n FROM adult WHERE sex = :sex
        return found
    return inner
print(float(price("Male", 0.002).spent.rho), float(asked("Female")().spent.rho))"""
    reply, published = kernel.run(cell)
    assert reply["status"] == "ok", reply
    assert [m["content"]["text"] for m in published if m["msg_type"] == "stream"] == [
        "0.002 0.001\n"
    ]
