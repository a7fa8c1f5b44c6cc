"""Ledgers as they were written, one of each accountant and mechanism: what opens them later must find all of it.

``python -m tests.ledger.kept FOLDER`` writes new ones, with the answers that they hold. Only a change of
the ledger's format, which has a new number, may replace those in ``tests/data/ledgers``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import dpnb
from dpnb.curator import Curator
from dpnb.privacy.definition import BASIC, PURE, ZCDP
from tests.kit.prose import ROOT

FOLDER = ROOT / "tests" / "data" / "ledgers"
SCHEMA = dpnb.Schema(
    {
        "sex": dpnb.Category(["F", "M"]),
        "job": dpnb.Category(["a", "b", "c"]),
        "pay": dpnb.Integer(0, 100, bins=[0, 20, 50, 100]),
    },
    undeclared=["city"],
)
BUDGETS = {
    ZCDP: dpnb.Budget(rho=5, delta="1e-6", key_delta="1e-8"),
    "gdp": dpnb.Budget(epsilon=12, delta="1e-6", accountant="gdp"),
    "basic": dpnb.Budget(epsilon=40, delta="1e-6", accountant="basic"),
    PURE: dpnb.Budget(epsilon=10),
    "vanilla": dpnb.Budget(rho=5, delta="1e-6"),
}
MECHANISMS = {BASIC: "additive", "vanilla": "vanilla"}
BY_SEX = "SELECT sex, COUNT(*) AS n, AVG(pay) AS mean FROM people GROUP BY sex"
BY_JOB = "SELECT job, SUM(pay) AS total FROM people WHERE sex = 'F' GROUP BY job"
DECIDED = "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING COUNT(*) > 100"


def table() -> dpnb.Table:
    """600 people; ``city`` is not declared."""
    rows = range(600)
    frame = pd.DataFrame(
        {
            "sex": ["FM"[i % 2] for i in rows],
            "job": ["aaabbc"[i % 6] for i in rows],
            "pay": [(7 * i) % 101 for i in rows],
            "city": ["Ulm" if i % 3 else "Bonn" for i in rows],
        }
    )
    return dpnb.Table("people", frame, SCHEMA)


def opened(kind: str, path: Path) -> Curator:
    """Open a ledger of one accountant, or make it."""
    several: dict[str, Any] = {}
    if kind != PURE:
        several["analysts"] = {"alice": 2, "bob": 1}
        several["policy"] = dpnb.Policy(mechanism=MECHANISMS.get(kind, "path"))
    return Curator([table()], budget=BUDGETS[kind], ledger=path, **several)


def requests(kind: str, curator: Curator) -> dict[str, Callable[[], Any]]:
    """Return what is asked of a ledger of one accountant, in this order."""
    names = (None, None) if kind == PURE else ("alice", "bob")
    alice, bob = map(curator.session, names)
    by_epsilon = kind in (PURE, BASIC)

    def query(session: dpnb.Session, sql: str, level: str) -> dpnb.Answer:
        if by_epsilon:
            return session.query(sql, epsilon=level)
        return session.query(sql, rho=level)

    def question() -> Any:
        return query(alice, BY_SEX, "0.5").compare("F", "M", "mean")

    found: dict[str, Callable[[], Any]] = {
        "coarse": lambda: query(alice, BY_SEX, "0.2"),
        "finer": lambda: query(alice, BY_SEX, "0.5"),
        "of another": lambda: query(bob, BY_SEX, "0.2"),
        "sum": lambda: query(bob, BY_JOB, "0.1"),
    }
    if kind in (ZCDP, PURE):
        found["decision"] = lambda: alice.decide(DECIDED, u=200, most=3, steps=1)
        found["answered"] = lambda: alice.decide(DECIDED, mode="rr")
    if kind == ZCDP:
        found["explanation"] = lambda: alice.explain(question(), k=2, rho="0.3", anyway=True)
        found["discovery"] = lambda: alice.discover("city", rho="0.5")
    return found


def numbers(result: Any) -> Any:
    """Return what a result shows of the data, without what it says of the budget."""
    plain = result.to_dict()
    names = (
        "estimates",
        "groups",
        "rows",
        "readings",
        "chosen",
        "verdicts",
        "keys",
        "hidden_low",
        "hidden_high",
    )
    return {name: plain[name] for name in names if name in plain}


def main() -> None:
    """Write a ledger of each accountant, and what it answered."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for kind in BUDGETS:
        curator = opened(kind, folder / f"{kind}.ledger")
        asked = requests(kind, curator)
        for ask in asked.values():
            ask()
        if kind == ZCDP:
            curator.limit(column="pay", rho="4")
            curator.add_analyst("carol", 1)
        # a coarse answer is the finest one by now
        shown = {name: numbers(ask()) for name, ask in asked.items()}
        shown["spent"] = curator.budget.spent.to_dict()
        curator.close()
        text = json.dumps(shown, indent=1)
        (folder / f"{kind}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
