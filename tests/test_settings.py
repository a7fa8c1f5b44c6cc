"""What a caller has set for Python and NumPy changes nothing, and dpnb sets nothing for the caller."""

from __future__ import annotations

import decimal
import locale
import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pytest

from dpnb import Budget, Category, Integer, Schema, Session, Table
from dpnb.privacy.loss import amount_text
from tests.kit.noise import NoNoise

pytestmark = pytest.mark.fast

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
"""When a request was answered."""
TRAPS = (decimal.Inexact, decimal.Rounded, decimal.Subnormal, decimal.FloatOperation)


@pytest.fixture(scope="module")
def table() -> Table:
    import pandas as pd

    frame = pd.DataFrame({"g": ["a", "b"] * 50, "x": [1, 2] * 50, "word": ["w"] * 100})
    schema = Schema(
        {"g": Category(["a", "b"]), "x": Integer(0, 3)}, complete=["g"], undeclared=["word"]
    )
    return Table("t", frame, schema)


def everything(table: Table) -> list[str]:
    """Open a session, spend in all ways, and show what came of it."""
    budget = Budget(epsilon="30", delta="1e-6", key_delta="1e-7")
    with Session(table, budget=budget, noise=NoNoise()) as session:
        sql = "SELECT g, AVG(x) AS m, COUNT(*) AS n FROM t GROUP BY g"
        answer = session.query(sql, rho=decimal.Decimal("0.5"))
        shown = [
            session.price(sql, rho=0.7),
            answer,
            session.infer("SELECT COUNT(*) AS n FROM t"),
            session.explain(answer.compare("b", "a"), rho=0.1, predicates=["x > 1"], anyway=True),
            session.decide("SELECT g FROM t GROUP BY g HAVING COUNT(*) > 10", most=0.5),
            session.discover("word", rho=0.1),
            session.budget,
            session.history,
        ]
        texts = [text for card in shown for text in (str(card), card._repr_html_())]
        return [_TIME.sub("", text) for text in texts]


@contextmanager
def as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def plain(table: Table) -> list[str]:
    return everything(table)


@pytest.mark.parametrize(
    "settings",
    [
        decimal.localcontext(decimal.Context(prec=2)),
        decimal.localcontext(decimal.Context(prec=1, rounding=decimal.ROUND_UP, capitals=0)),
        decimal.localcontext(decimal.Context(Emax=5, Emin=-5)),
        *(decimal.localcontext(decimal.Context(traps=[trap])) for trap in TRAPS),
        np.errstate(all="raise"),
        np.printoptions(precision=1),
        as_errors(),
    ],
)
def test_settings_of_a_caller_change_nothing(settings: AbstractContextManager, table, plain):
    with settings:
        assert everything(table) == plain


def test_what_a_caller_has_set_stays(table):
    def state():
        return (
            repr(decimal.getcontext()),
            list(warnings.filters),
            np.geterr(),
            np.get_printoptions(),
            locale.setlocale(locale.LC_ALL),
        )

    with decimal.localcontext(decimal.Context(prec=7)), np.errstate(over="raise"):
        before = state()
        everything(table)
        assert state() == before


@pytest.mark.parametrize("trap", TRAPS)
def test_amounts_are_rounded_in_a_context_of_their_own(trap):
    numbers = (0.63861, 1e-6, 8.8404e-9, 12345.4, -0.1, 5e-324, 1.7e308)
    plain = [amount_text(number, left=left) for number in numbers for left in (True, False)]
    with decimal.localcontext(decimal.Context(prec=1, Emax=1, Emin=0, traps=[trap])):
        assert plain == [
            amount_text(number, left=left) for number in numbers for left in (True, False)
        ]
