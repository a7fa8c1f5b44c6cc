"""Asks and acknowledges, to be killed.

Each order opens its own session. An answer is acknowledged (one line, synced to disk) only after ``query`` has returned it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from tests.kit.dying import DATA

SCHEMA = {
    "purpose": {"type": "category", "values": ["A40", "A41", "A42", "A43", "A46", "A49"]},
    "age": {"type": "integer", "low": 18, "high": 80, "bins": [18, 30, 40, 50, 80]},
    "credit_amount": {"type": "integer", "low": 0, "high": 20_000},
    "duration_months": {"type": "integer", "low": 0, "high": 72},
}
STATEMENTS = (
    "SELECT COUNT(*) AS n FROM credit WHERE age > {i}",
    "SELECT purpose, COUNT(*) AS n, AVG(credit_amount) AS m FROM credit GROUP BY purpose",
    "SELECT age, SUM(duration_months) AS s FROM credit WHERE age <> {i} GROUP BY age",
    "SELECT COUNT(*) AS n FROM credit",
)
STEPS = (
    "before the check",
    "before the scan",
    "after the scan",
    "before the draw",
    "after the draw",
    "before the insert",
    "after the insert",
    "before the commit",
    "after the commit",
    "before the answer",
    "after the answer",
)


def session(ledger, cap):
    """Open the ledger; a new one gets the cap."""
    import dpnb

    table = dpnb.Table("credit", DATA, dpnb.Schema.from_dict(SCHEMA))
    budget = dpnb.Budget(rho=cap) if cap is not None else None
    return dpnb.Session(table, budget=budget, ledger=ledger)


def request(number):
    """The number-th statement and its level; statements come back at finer levels."""
    sql = STATEMENTS[number % len(STATEMENTS)].format(i=20 + number // len(STATEMENTS) % 5)
    return sql, f"0.00{1 + number % 7}"


def numbers(answer):
    """The released vectors of an answer."""
    return [[e.total, e.count] for e in answer.estimates]


def die_at(step):
    """Kill this process, without any clean-up, when it first comes to a step of a request."""
    from dpnb.answers import assembly
    from dpnb.answers.query import AnswerRequest
    from dpnb.engines.duckdb import DuckDBEngine
    from dpnb.ledger.ledger import Ledger
    from dpnb.privacy.noise import SecureNoise

    def before(owner, name):
        setattr(owner, name, lambda *a, **k: os._exit(9))

    def after(owner, name):
        original = getattr(owner, name)

        def run(*arguments, **options):
            original(*arguments, **options)
            os._exit(9)

        setattr(owner, name, run)

    def around_commit():
        original = Ledger.transaction

        @contextlib.contextmanager
        def transaction(self):
            with original(self) as append:

                def inserting(entry):
                    if step == "before the insert":
                        os._exit(9)
                    append(entry)
                    if step == "after the insert":
                        os._exit(9)

                yield inserting
                if step == "before the commit":
                    os._exit(9)

        Ledger.transaction = transaction

    owners = {
        "before the check": lambda: before(AnswerRequest, "plan"),
        "before the scan": lambda: before(DuckDBEngine, "measure"),
        "after the scan": lambda: after(DuckDBEngine, "measure"),
        "before the draw": lambda: before(SecureNoise, "gaussian"),
        "after the draw": lambda: after(SecureNoise, "gaussian"),
        "before the insert": around_commit,
        "after the insert": around_commit,
        "before the commit": around_commit,
        "after the commit": lambda: before(Ledger, "_write_anchor"),
        "before the answer": lambda: before(assembly, "answer"),
        "after the answer": lambda: after(assembly, "answer"),
    }
    owners[step]()


def work(order):
    """Ask until told or killed; acknowledge each answer."""
    own = Path(f"{order['acks']}.{os.getpid()}")
    with (
        own.open("a", encoding="utf-8") as acks,
        session(order["ledger"], order.get("cap")) as opened,
    ):
        time.sleep(max(0.0, order.get("start", 0) - time.time()))
        if order.get("step"):
            die_at(order["step"])
        for number in range(order["first"], order["first"] + order["requests"]):
            sql, rho = order["request"] if "request" in order else request(number)
            outcome = {"sql": sql, "rho": rho}
            try:
                answer = opened.query(sql, rho=rho)
                outcome |= {"numbers": numbers(answer), "spent": str(answer.spent.rho)}
            except Exception as error:  # noqa: BLE001 - reported to the test
                outcome |= {"refused": type(error).__name__, "text": str(error)}
            acks.write(json.dumps(outcome | {"at": time.time()}) + "\n")
            acks.flush()
            os.fsync(acks.fileno())
