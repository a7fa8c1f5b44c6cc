"""The examples of all docstrings run, with the names that a reader of the reference has at hand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest

import dpnb
from tests.kit.loaded import loaded_once  # noqa: F401

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COUNTS = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
FROM_STATEMENTS = {
    "question": lambda one: one["answer"].compare("Male", "Female"),
    "answer": lambda one: one["session"].query(COUNTS, rho=0.1),
    "session": lambda one: dpnb.Session(one["table"], budget=one["budget"]),
    "curator": lambda one: dpnb.Curator(
        one["table"], budget=one["budget"], analysts={"alice": 4, "bob": 1}
    ),
}
NEEDS = {"question": "answer", "answer": "session"}


@pytest.fixture(scope="module")
def table() -> dpnb.Table:
    """600 people: what dpnb/__init__.py says of the examples."""
    draw, size = np.random.default_rng(0), 600
    sex = draw.choice(["Female", "Male"], size)
    people = pd.DataFrame(
        {
            "sex": sex,
            "age": draw.integers(17, 91, size),
            "job": draw.choice(["clerk", "cook", "nurse"], size),
            "wage": draw.gamma(9, 3, size) + 10 * (sex == "Male"),
            "city": draw.choice(["Paris", "Lyon", "Nice"], size, p=[0.6, 0.3, 0.1]),
        }
    )
    schema = dpnb.Schema(
        {
            "sex": dpnb.Category(["Female", "Male"]),
            "age": dpnb.Integer(17, 90, bins=[17, 30, 45, 60, 90]),
            "job": dpnb.Category(["clerk", "cook", "nurse"]),
            "wage": dpnb.Real(0, 200, bins=[0, 20, 40, 200]),
        },
        complete=["sex", "age", "job", "wage"],
        undeclared=["city"],
    )
    return dpnb.Table("people", people, schema)


def examples() -> Iterator[doctest.DocTest]:
    """Return the docstrings with examples of all modules, each once."""
    finder = doctest.DocTestFinder()
    for module in pkgutil.walk_packages(dpnb.__path__, "dpnb."):
        if not module.name.endswith("__main__"):
            found = finder.find(importlib.import_module(module.name))
            yield from (test for test in found if test.examples)


def at_hand(test: doctest.DocTest, table: dpnb.Table, opened: ExitStack) -> None:
    """Give an example the names that it uses and does not make."""
    source = "".join(example.source for example in test.examples)
    budget = dpnb.Budget(rho=10, delta="1e-6", key_delta="1e-7")
    names = {"table": table, "budget": budget}

    def add(name: str) -> None:
        if name in NEEDS and NEEDS[name] not in names:
            add(NEEDS[name])
        names[name] = FROM_STATEMENTS[name](names)

    for name in FROM_STATEMENTS:
        first = re.search(rf"\b{name}\b", source)
        if first and name not in names and not re.match(rf"{name} =", source[first.start() :]):
            add(name)
    for held in names.values():
        if isinstance(held, (dpnb.Session, dpnb.Curator)):
            opened.callback(held.close)
    test.globs = {**names, **test.globs}


def test_all_examples_do_what_they_show(table):
    runner, said = doctest.DocTestRunner(optionflags=FLAGS), []
    for test in examples():
        with ExitStack() as opened:
            at_hand(test, table, opened)
            runner.run(test, out=said.append)
    assert not said, "".join(said)
    assert runner.tries > 150
