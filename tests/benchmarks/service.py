"""How many stored answers the service gives: 8 analysts at once, over HTTP, on this machine.

Starts ``dpnb serve`` on Adult, lets 8 analysts ask for what each of them holds, and prints requests
per second and latencies. Clients and service share the machine's cores.

    python -m tests.benchmarks.service [--seconds 15]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import dpnb
from tests.kit.verdicts import at_least, at_most, finish

ANALYSTS = 8
STATEMENTS = [
    f"SELECT {key}, COUNT(*) AS n FROM adult GROUP BY {key}"
    for key in ("sex", "race", "education", "workclass", "marital_status")
]


def command(folder: Path, *arguments: str) -> str:
    """Run the command line; returns what it printed."""
    ran = subprocess.run(
        [sys.executable, "-m", "dpnb", *arguments],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout.strip()


def ask(connection: http.client.HTTPConnection, token: str, sql: str) -> float:
    """Ask a statement; returns the seconds until the whole answer was there."""
    body = json.dumps({"sql": sql, "options": {"rho": "0.01"}})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    start = time.perf_counter()
    connection.request("POST", "/v2/query", body, headers)
    reply = connection.getresponse()
    text = reply.read()
    took = time.perf_counter() - start
    if reply.status != 200:
        raise RuntimeError(f"{reply.status}: {text[:300]!r}")
    return took


def client(port: int, token: str, until: float, times: list[float]) -> None:
    """Ask again and again."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    turn = 0
    while time.perf_counter() < until:
        times.append(ask(connection, token, STATEMENTS[turn % len(STATEMENTS)]))
        turn += 1


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = Path(dpnb.datasets.__file__).parent / "adult.parquet"
        text = (source.parent / "adult.toml").read_text("utf-8")
        text = text.replace("adult.parquet", str(source)) + "\n[budget]\nrho = 100\n"
        (folder / "adult.toml").write_text(text, "utf-8")
        tokens = [
            command(folder, "analyst", "add", f"analyst{i}", "--privilege", "1")
            for i in range(ANALYSTS)
        ]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        log = (folder / "log").open("wb")
        service = subprocess.Popen(
            [sys.executable, "-m", "dpnb", "serve", "adult.toml", "--port", str(port)],
            cwd=folder, stdout=log, stderr=log, env=dict(os.environ),
        )  # fmt: skip
        try:
            measure(port, tokens, options.seconds)
        finally:
            service.terminate()
            service.wait(30)
    finish()


def measure(port: int, tokens: list[str], seconds: float) -> None:
    """Fill the ledger, then ask for what is stored."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health", timeout=2).close()
            break
        except OSError:
            time.sleep(0.1)
    for token in tokens:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        new = [ask(connection, token, sql) for sql in STATEMENTS]
    print(f"new answers of the last analyst: {1e3 * min(new):.1f}-{1e3 * max(new):.1f} ms")
    times: list[list[float]] = [[] for _ in tokens]
    until = time.perf_counter() + seconds
    clients = [
        threading.Thread(target=client, args=(port, token, until, own))
        for token, own in zip(tokens, times, strict=True)
    ]
    start = time.perf_counter()
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    took = time.perf_counter() - start
    together = sorted(one for own in times for one in own)
    rate = len(together) / took
    p50, p99 = (together[int(share * len(together))] for share in (0.5, 0.99))
    print(f"{len(together):,} stored answers to {ANALYSTS} analysts in {took:.1f} s")
    print(f"{rate:.0f} per second; p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms")
    at_least(rate, 450, f"stored answers to {ANALYSTS} clients over HTTP", "a second")
    at_most(1e3 * p99, 100, "slowest of a hundred stored answers over HTTP", "ms")


if __name__ == "__main__":
    main()
