"""What the ledger calls requests and views, which must not change: statements, and how they were written.

``python -m tests.ledger.written`` writes the file anew. Only a change of the ledger's format, which has a new
number, may change what is there; a line for a new statement may be added.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pandas as pd

import dpnb
from dpnb.curator import Curator
from dpnb.privacy.parallel import region
from tests.kit.prose import ROOT

FILE = ROOT / "tests" / "data" / "ledgers" / "names.json"
RHO = "0.001"
KINDS: dict[str, Any] = {
    "sex": dpnb.Category(["F", "M"]),
    "job": dpnb.Category(["a", "b", "c", "other"], other="other"),
    "age": dpnb.Integer(17, 90, bins=[17, 30, 50, 90]),
    "part": dpnb.Integer(0, 100, bins=[10, 20, 40]),
    "size": dpnb.Integer(-3, 8),
    "pay": dpnb.Real(0, 250.5, bins=[0, 10, 99.5, 250.5]),
    "born": dpnb.Date("2020-01-01", "2021-12-31", bins=["2020-01-01", "2020-06-30", "2021-12-31"]),
    "day": dpnb.Date("2024-01-01", "2024-03-31"),
    "shop": dpnb.Integer(1, 5),
}
SCHEMA = dpnb.Schema(KINDS, complete=["sex", "size"])
SHOPS = dpnb.Schema(
    {
        "shop": KINDS["shop"],
        "town": dpnb.Category(["x", "y"]),
        "area": dpnb.Integer(0, 90, bins=[0, 30, 90]),
    }
)
STATEMENTS = (
    "SELECT COUNT(*) FROM t",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT job, sex, COUNT(*), SUM(size), AVG(pay) FROM t GROUP BY sex, job",
    "SELECT age, COUNT(*) FROM t GROUP BY age",
    "SELECT part, COUNT(*) FROM t GROUP BY part",
    "SELECT part, COUNT(*) FROM t WHERE part > 15 GROUP BY part",
    "SELECT size, COUNT(pay) FROM t GROUP BY size",
    "SELECT pay, COUNT(*) FROM t WHERE age BETWEEN 20 AND 40 OR job = 'a' GROUP BY pay",
    "SELECT born, sex, AVG(size) FROM t WHERE pay > 12.25 GROUP BY born, sex",
    "SELECT day, COUNT(*) FROM t WHERE day < '2024-02-01' GROUP BY day",
    "SELECT day, age, pay, SUM(age) FROM t GROUP BY day, age, pay",
    "SELECT town, COUNT(*) FROM t JOIN shops ON t.shop = shops.shop GROUP BY town",
    "SELECT area, sex, SUM(pay) FROM t JOIN shops ON t.shop = shops.shop GROUP BY area, sex",
    "SELECT MEDIAN(age), QUANTILE_CONT(pay, 0.25) FROM t",
    "SELECT sex, MEDIAN(size), STDDEV(size) FROM t GROUP BY sex",
    "SELECT age, SUM(CASE WHEN sex = 'F' THEN size ELSE 1 END) FROM t GROUP BY age",
    "SELECT SUM(size * 2 + age) / COUNT(*) AS r, COUNT(*) FILTER (WHERE born IS NULL) FROM t",
)
PERSONS = (
    "SELECT COUNT(DISTINCT id) FROM visits",
    "SELECT kind, COUNT(DISTINCT id), COUNT(*) FROM visits GROUP BY kind",
    "SELECT hour, COUNT(DISTINCT id) FROM visits WHERE hour < 5 GROUP BY hour",
    "SELECT hour, kind, SUM(hour) FROM visits GROUP BY hour, kind",
)
DECLARED = (
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT age, COUNT(*) FROM t WHERE day >= '2024-02-01' GROUP BY age",
    "SELECT pay, COUNT(*) FROM t GROUP BY pay",
)


def tables() -> list[dpnb.Table]:
    """Three tables of a few rows: what requests are called does not depend on them."""
    rows = pd.DataFrame(
        {
            "sex": ["F", "M"] * 40, "job": ["a", "b"] * 40, "age": [20, 60] * 40,
            "part": [15, 30] * 40, "size": [1, 2] * 40, "pay": [1.5, 120.0] * 40,
            "born": ["2020-02-01", "2021-02-01"] * 40, "day": ["2024-01-05", "2024-02-05"] * 40,
            "shop": [1, 2] * 40,
        }
    )  # fmt: skip
    shops = pd.DataFrame({"shop": [1, 2], "town": ["x", "y"], "area": [10, 60]})
    visits = pd.DataFrame({"id": [1, 1, 2], "kind": ["p", "q", "p"], "hour": [1, 2, 9]})
    kinds: dict[str, Any] = {"kind": dpnb.Category(["p", "q"]), "hour": dpnb.Integer(0, 23)}
    unit = dpnb.Unit("id", max_rows=3, max_groups=2)
    return [
        dpnb.Table("t", rows, SCHEMA),
        dpnb.Table("shops", shops, SHOPS, public=True, key="shop"),
        dpnb.Table("visits", visits, dpnb.Schema(kinds), unit),
    ]


def requests() -> dict[str, Callable[[dpnb.Session], Any]]:
    """Return what is asked, each of a ledger of its own, by a name."""

    def by_age(session: dpnb.Session) -> Any:
        return session.query(STATEMENTS[3], rho="0.5").compare("[17, 30]", "(50, 90]")

    def by_pay(session: dpnb.Session) -> Any:
        sql = "SELECT pay, sex, AVG(size) AS m FROM t GROUP BY pay, sex"
        answer = session.query(sql, rho="0.5")
        return answer.compare(("[0.0, 10.0]", "F"), ("(10.0, 99.5]", "F"))

    def explain(question: Any, **options: Any) -> Callable[[dpnb.Session], Any]:
        return lambda session: session.explain(
            question(session), k=2, rho=RHO, anyway=True, **options
        )

    def decide(sql: str, **options: Any) -> Callable[[dpnb.Session], Any]:
        return lambda session: session.decide(sql, most=3, steps=1, **options)

    asked = {sql: asked_of(sql) for sql in (*STATEMENTS, *PERSONS)}
    asked["explain age"] = explain(by_age)
    asked["explain age by ranges"] = explain(by_age, ranges=True, exclude=["shop"])
    asked["explain age by conditions"] = explain(by_age, predicates=["pay < 50", "job = 'a'"])
    asked["explain pay by two"] = explain(by_pay, length=2, attributes=["job", "born", "part"])
    asked["decide day"] = decide("SELECT day FROM t GROUP BY day HAVING COUNT(*) > 10", u=50)
    asked["decide pay"] = decide(
        "SELECT pay, sex, AVG(age) AS m FROM t GROUP BY pay, sex HAVING AVG(age) > 40",
        u={"m": 10},
        rows=5,
    )
    return asked


def declare(curator: Curator) -> None:
    """Declare views of every kind of column."""
    curator.add_view(["sex", "age", "day"], table="t")
    curator.add_view(["pay", "part"], table="t", bins={"part": [0, 50, 100]})
    curator.add_view(["sex", "size", "job"], table="t", bins={"size": None}, name="small")


def written(ask: Callable[[dpnb.Session], Any], *, declared: bool = False) -> list[Any]:
    """Return what one request wrote: names, definitions with their regions, and its meaning."""
    budget = dpnb.Budget(rho=50, delta="1e-6")
    with closing(Curator(tables(), budget=budget)) as curator:
        if declared:
            declare(curator)
        ask(curator.session())
        state = curator._runner.store.accountant
        charges = [
            {"request": charge.request, "query": charge.query, "levels": sorted(charge.levels)}
            for charge in state.charges.values()
        ]
        views = {
            name: {
                **definition,
                "region": region(definition).boxes if "measure" in definition else None,
            }
            for name, definition in state.definitions.items()
        }
    plain: list[Any] = json.loads(json.dumps([charges, views]))
    return plain


def everything() -> dict[str, list[Any]]:
    """Return what every request wrote, by its name."""
    found = {name: written(ask) for name, ask in requests().items()}
    for sql in DECLARED:
        found[f"declared: {sql}"] = written(asked_of(sql), declared=True)
    return found


def asked_of(sql: str) -> Callable[[dpnb.Session], Any]:
    """Return a request for an answer."""
    return lambda session: session.query(sql, rho=RHO)


def main() -> None:
    """Write the file."""
    lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in everything().items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
