"""Asks for two analysts in turn and acknowledges each answer, to be killed.

An order names the mechanism, the ledger, a file of acknowledgements, a seed and the number of requests.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from dpnb.privacy.definition import BASIC, GDP, ZCDP
from tests.kit import inside
from tests.kit.dying import DATA

SCHEMA = {
    "age": {"type": "integer", "low": 18, "high": 80, "bins": [18, 30, 40, 50, 80]},
    "duration_months": {"type": "integer", "low": 0, "high": 72},
}
STATEMENTS = (
    "SELECT age, COUNT(*) AS n FROM credit GROUP BY age",
    "SELECT COUNT(*) AS n FROM credit WHERE age > 40",
    "SELECT COUNT(*) AS n FROM credit WHERE duration_months > {i}",
    "SELECT SUM(duration_months) AS n FROM credit WHERE age <= {i}",
)
COUNTED = {"path": GDP, "additive": BASIC, "vanilla": ZCDP}
UNIT = {"path": "rho", "additive": "epsilon", "vanilla": "rho"}


def opened(mechanism, ledger):
    """Open the ledger, or begin it."""
    import dpnb

    budget = dpnb.Budget(epsilon=1, delta=1e-6, accountant=COUNTED[mechanism])
    table = dpnb.Table("credit", DATA, dpnb.Schema.from_dict(SCHEMA))
    return dpnb.Curator(
        table, budget=budget, ledger=ledger, analysts={"high": 4, "low": 1},
        policy=dpnb.Policy(mechanism=mechanism), views=["age"],
    )  # fmt: skip


def ask(curator, analyst, number):
    """Ask the number-th request; it comes back, at other levels, under its own identifier."""
    sql = STATEMENTS[number % 4].format(i=20 + number // 4 % 10)
    accuracy = {"epsilon": f"0.{5 + number % 13:02}"}
    return inside.ask(curator, analyst, "query", sql, accuracy, identifier=f"i{number}")


def numbers(answer):
    """The released vectors of an answer, as they are written down."""
    return json.loads(json.dumps([[e.total, e.count] for e in answer.estimates]))


def work(order):
    """Ask, and acknowledge each answer after it was returned."""
    from dpnb.errors import BudgetError

    curator, requests = opened(order["mechanism"], order["ledger"]), order["requests"]
    with Path(order["acks"]).open("a", encoding="utf-8") as file:
        for i in range(requests):
            # the two processes ask the same from both ends
            number = i if order["seed"] == 0 else requests - 1 - i
            analyst = "high" if number % 3 else "low"
            outcome = {"analyst": analyst, "number": number, "identifier": f"i{number}"}
            try:
                answer = ask(curator, analyst, number)
                outcome |= {"numbers": numbers(answer), "request": answer.request}
            except BudgetError as error:
                outcome["text"] = str(error)
            file.write(json.dumps(outcome) + "\n")
            file.flush()
            os.fsync(file.fileno())
