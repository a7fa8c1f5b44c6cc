"""Results find their cards by name, and hold their numbers where there is nothing to draw them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module

import pandas as pd
import pytest

import dpnb
from dpnb import results
from dpnb.display.cards import Card
from dpnb.results import Documented, Result, Shown, Written
from tests.kit import source

pytestmark = pytest.mark.fast

SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def session() -> dpnb.Session:
    schema = dpnb.Schema({"sex": dpnb.Category(["Female", "Male"])})
    frame = pd.DataFrame({"sex": ["Female"] * 300 + ["Male"] * 500})
    return dpnb.Session(dpnb.Table("people", frame, schema), budget=dpnb.Budget(rho=1))


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of ``dpnb.display`` be imported."""
    for name in [one for one in sys.modules if one.startswith("dpnb.display")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dpnb.display", None)


def kinds() -> Iterator[type[Shown]]:
    """Return every kind of result: the classes that name these bases."""
    for path, tree in source.modules().items():
        for node in tree.body:
            bases = {getattr(base, "id", "") for base in getattr(node, "bases", ())}
            if isinstance(node, ast.ClassDef) and bases & {
                "Shown",
                "Written",
                "Documented",
                "Result",
            }:
                module = import_module(f"dpnb.{path.removesuffix('.py').replace('/', '.')}")
                yield getattr(module, node.name)


def test_every_kind_of_result_has_a_card() -> None:
    # found here: while tests are collected, every process would read the whole package for it
    found = list(kinds())
    assert len(found) >= 19
    for kind in found:
        if kind in (Result, Documented, Written):
            assert not hasattr(kind, "card")
            continue
        card = results.card_of(kind.__new__(kind))
        assert isinstance(card, Card), kind
        assert (card.plot is not None) == issubclass(kind, Result), kind
        assert (card.markdown is not None) == hasattr(kind, "to_markdown"), kind
        assert (card.latex is not None) == hasattr(kind, "to_latex"), kind


class TestWithoutDisplay:
    pytestmark = pytest.mark.usefixtures("no_display")

    def test_numbers_are_there(self, session: dpnb.Session) -> None:
        answer = session.query(SQL, rho=0.5)
        assert list(answer.to_frame()["sex"]) == ["Female", "Male"]
        assert dpnb.Answer.from_dict(answer.to_dict()) == answer
        assert answer.compare("Male", "Female").valid

    def test_a_result_prints_its_values_by_name(self, session: dpnb.Session) -> None:
        answer = session.query(SQL, rho=0.5)
        assert repr(answer).startswith(f"Answer(sql={SQL!r}, ")
        assert repr(session.budget).startswith("BudgetStatus(bill=Bill(spent=")
        assert repr(session.price(SQL, rho=0.1)).startswith("Price(sql=")

    def test_drawing_names_what_is_missing(self, session: dpnb.Session) -> None:
        with pytest.raises(ModuleNotFoundError, match=r"dpnb\.display"):
            session.query(SQL, rho=0.5).plot()

    def test_another_missing_module_is_not_hidden(
        self, session: dpnb.Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing(name: str) -> None:
            raise ModuleNotFoundError(name="numpy")

        monkeypatch.setattr(results, "import_module", missing)
        with pytest.raises(ModuleNotFoundError):
            repr(session.budget)
