"""Data passed by mistake never comes back in an error.

Every public function and method, each argument in turn: a data frame, an array, a long list and a huge text take its
place. An error is dpnb's own or a TypeError, is short, and holds no cell of them. Of a plain list it may name the
first element that does not fit, as it does for a mistyped column, and of a text the beginning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpnb
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

SECRET = "zq4711zq"
MOST = 400
"""Letters of an error."""
MISPLACED = {
    "frame": pd.DataFrame({"name": [SECRET] * 3, "pay": [4711.5] * 3}),
    "texts": np.array([SECRET] * 50),
    "numbers": np.full((40, 2), 4711.5),
    "list": [-1, *[4711] * 1000],
    "text": "x" * 10_000 + SECRET,
}
COUNT = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
TOTAL = "SELECT COUNT(*) AS n FROM people"
SCHEMA = dpnb.Schema(
    {"sex": dpnb.Category(["f", "m"]), "age": dpnb.Integer(0, 99, bins=[0, 50, 99]),
     "wage": dpnb.Real(0, 100, bins=[0, 50, 100])},
    undeclared=["city"],
)  # fmt: skip
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 40, "age": range(80), "wage": 1.0, "city": "a"})
BUDGET = dpnb.Budget(epsilon=50, delta="1e-6", key_delta="1e-7")
TABLE = dpnb.Table("people", PEOPLE, SCHEMA)
ENTRIES = {
    "Session": {"tables": TABLE, "budget": BUDGET},
    "Curator": {"tables": TABLE, "budget": BUDGET, "analysts": {"a": 1}},
    "Budget": {"epsilon": 3, "delta": "1e-6"},
    "Policy": {},
    "PrivacyLoss.epsilon_at": {"delta": 1e-6},
    "Category": {"values": ["f", "m"]},
    "Integer": {"low": 0, "high": 9},
    "Real": {"low": 0, "high": 9},
    "Date": {"low": "2024-01-01", "high": "2024-12-31"},
    "Schema": {"columns": {"sex": dpnb.Category(["f", "m"])}},
    "Schema.load": {"path": "schema.toml"},
    "Schema.from_dict": {"columns": {"sex": {"type": "category", "values": ["f", "m"]}}},
    "Strategy": {"matrix": ((1,),)},
    "Table": {"name": "t", "source": PEOPLE, "schema": SCHEMA},
    "Table.load": {"path": "table.toml"},
    "Unit": {"column": "id", "max_rows": 3},
    "connect": {"url": "http://127.0.0.1:1", "token": "x"},
    "datasets.adult": {},
    "datasets.census": {},
    "draft_schema": {"source": PEOPLE},
    "options": {},
    "session.query": {"sql": TOTAL, "rho": "0.001"},
    "session.price": {"sql": TOTAL},
    "session.query_all": {"statements": [TOTAL], "rho": "0.001"},
    "session.infer": {"sql": TOTAL},
    "session.explain": {},
    "session.decide": {"sql": f"{COUNT} HAVING COUNT(*) > 20", "u": 20},
    "session.discover": {"column": "city", "rho": "0.001"},
    "session.price_discovery": {"column": "city", "rho": "0.001"},
    "session.rehearse": {},
    "curator.session": {"analyst": "a"},
    "curator.add_analyst": {"name": "new", "privilege": 1},
    "curator.add_view": {"columns": ["sex"]},
    "curator.coalition": {"analysts": "a"},
    "curator.disable": {"name": "a"},
    "curator.enable": {"name": "a"},
    "curator.grant": {"giver": "a", "receiver": "b", "rho": "0.001"},
    "curator.infer_together": {"analysts": ["a", "b"], "sql": TOTAL},
    "curator.limit": {"analyst": "a", "rho": "0.5"},
    "curator.link": {"analyst": "a", "other": "b"},
    "curator.protect": {"sql": TOTAL, "operator": ">", "value": 10},
    "curator.register": {"analysts": {"new": 1}},
    "curator.risk": {"sql": TOTAL},
    "curator.serve": {},
    "curator.set_expansion": {"expansion": 1},
    "curator.set_privilege": {"name": "a", "privilege": 1},
    "curator.set_reserve": {"reserve": 0},
    "curator.unprotect": {"name": "a"},
    "curator.withdraw_grant": {"giver": "a", "receiver": "b"},
    "answer.compare": {"left": "f", "right": "m"},
    "answer.bootstrap": {},
    "answer.estimates_of": {},
    "answer.plot": {},
    "answer.to_html": {"path": "page.html"},
    "inference.argmax": {},
    "inference.between": {"low": 0, "high": 9, "group": "f"},
    "inference.difference": {"left": "f", "right": "m"},
    "inference.plot": {},
    "inference.probability": {"operator": ">", "value": 9, "group": "f"},
    "inference.ratio": {"left": "f", "right": "m"},
    "inference.slope": {"positions": [0, 1]},
    "inference.sources_of": {"group": "f"},
    "inference.test": {"operator": ">", "value": 9, "group": "f"},
    "provenance.coalition": {"analysts": "a"},
    "profile.by_group": {"epsilon": 1},
    "profile.choose": {"epsilon": 1},
    "profile.group_ratio": {"left": "f", "right": "m", "epsilon": 1, "reveal": True},
    "profile.guesses": {"epsilon": 1},
    "profile.histogram": {},
    "profile.losses": {"epsilon": 1},
    "profile.plot": {"reveal": True},
    "profile.rdr": {"epsilon": 1},
    "profile.safe_counts": {"epsilon": 1, "at_most": 5},
    "profile.sentence": {"epsilon": 1, "reveal": True},
    "profile.share": {"epsilon": 1},
    "profile.suggest": {},
    "profile.to_html": {"path": "page.html", "reveal": True},
    "profile.top": {},
    "profile.widget": {},
}  # fmt: skip
"""Each entry with arguments that it takes."""
STANDS_FOR = {
    "session.price": "session.query",
    "session.query_all": "session.query",
    "session.price_discovery": "session.discover",
}
"""Methods whose other arguments are those of another one."""


@pytest.fixture(scope="module")
def world() -> Iterator[dict[str, Any]]:
    """One of each thing that has methods."""
    curator = dpnb.Curator(TABLE, budget=BUDGET, analysts={"a": 2, "b": 1}, noise=NoNoise())
    public = dpnb.Table("people", PEOPLE, SCHEMA, public=True)
    studied = dpnb.Curator(public, budget=BUDGET)
    session = dpnb.Session(TABLE, budget=BUDGET, noise=NoNoise())
    answer = session.query(COUNT, rho="0.5")
    yield {
        "curator": curator,
        "session": session,
        "answer": answer,
        "question": answer.compare("f", "m"),
        "inference": session.infer(COUNT),
        "provenance": curator.provenance,
        "profile": studied.risk(COUNT, by="sex"),
    }
    for one in (curator, studied, session):
        one.close()


def found(world: dict[str, Any], entry: str) -> Callable[..., Any]:
    thing, *names = entry.split(".")
    held = world.get(thing) or getattr(dpnb, thing)
    for name in names:
        held = getattr(held, name)
    return held


def parameters(entry: str) -> list[str]:
    """Return what an entry can be given, from its signature."""
    thing, *names = STANDS_FOR.get(entry, entry).split(".")
    kinds = {"profile": "RiskProfile"}
    held = getattr(
        dpnb, kinds.get(thing, thing.title() if thing.islower() and names else thing), None
    )
    held = getattr(dpnb, thing) if held is None else held
    for name in names:
        held = getattr(held, name)
    kept = [p for p in inspect.signature(held).parameters.values() if p.name != "self"]
    return [p.name for p in kept if p.kind is not p.VAR_KEYWORD]


USABLE = {
    ("Table", "source"): "a session reads it",
    ("Unit", "column"): "a table knows its columns",
    ("draft_schema", "source"): "a frame is what it takes",
    ("profile.choose", "preference"): "with private=False",
    ("profile.choose", "candidates"): "any numbers",
    ("profile.suggest", "candidates"): "any numbers",
    ("profile.widget", "candidates"): "any numbers",
}
"""Arguments that are refused later, or take some of them."""
CASES = [
    (entry, name)
    for entry, valid in ENTRIES.items()
    for name in dict.fromkeys([*valid, *parameters(entry)])
]


@pytest.mark.parametrize(("entry", "name"), CASES)
def test_an_error_holds_nothing_of_it(world, tmp_path, monkeypatch, entry, name):
    monkeypatch.chdir(tmp_path)
    for kind, value in MISPLACED.items():
        arguments = {**ENTRIES[entry], name: value}
        if entry == "session.explain":
            arguments = {"question": world["question"], **arguments}
        several = [arguments.pop("analysts")] if entry.endswith("coalition") else []
        try:
            made = found(world, entry)(*several, **arguments)
        except (dpnb.DpnbError, TypeError) as error:
            said = str(error)
            assert SECRET not in said, kind
            assert "4711" not in said, kind
            assert len(said) <= MOST, kind
        else:
            assert (entry, name) in USABLE, (kind, made)


@pytest.mark.parametrize("kind", MISPLACED)
def test_a_source_is_read_when_a_session_opens(kind):
    table = dpnb.Table("people", MISPLACED[kind], SCHEMA)
    with pytest.raises(dpnb.DpnbError) as error:
        dpnb.Session(table, budget=BUDGET)
    assert SECRET not in str(error.value)
    assert "4711" not in str(error.value)
    assert len(str(error.value)) <= MOST
