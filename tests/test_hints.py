"""What a message says to do is accepted when it is done: each hint is followed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from matplotlib import pyplot as plt

import dpnb
from dpnb import (
    Budget,
    Category,
    Curator,
    Date,
    Integer,
    Policy,
    Real,
    Schema,
    Session,
    Table,
    Unit,
)
from dpnb.display.cards.decision_widget import SHOWS
from dpnb.display.widgets import is_live
from dpnb.errors import DpnbError
from dpnb.estimation.noise import Mixture
from dpnb.estimation.prior import AtMost, NonNegative, Normal, Uniform, update
from dpnb.ledger.configuration import read_analysts, read_budget, read_policy
from dpnb.privacy.definition import GDP, PURE, ZCDP
from dpnb.schema.joins import MOST_JOINS, joined
from dpnb.sql.parser import parse
from tests.kit.one_database import one_database  # noqa: F401

pytestmark = pytest.mark.fast

FRAME = pd.DataFrame(
    {
        "sex": ["F", "M"] * 50,
        "n": list(range(10)) * 10,
        "r": [0.5] * 100,
        "who": list(range(100)),
        "day": pd.to_datetime(["2024-01-31"] * 100),
        "city": ["Bern"] * 100,
    }
)
SCHEMA = Schema(
    {
        "sex": Category(["F", "M"]),
        "n": Integer(0, 9, bins=[0, 4, 9]),
        "r": Real(0, 1),
        "day": Date("2024-01-01", "2024-12-31"),
    },
    undeclared=["city"],
)
BY_SEX = "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex"
MEAN = "SELECT AVG(n) AS m FROM t"
SHARE = "SELECT SUM(n) / COUNT(*) AS q FROM t"
PART = "SELECT COUNT(*) AS k FROM t WHERE sex = 'F'"
LEAST = "SELECT COUNT(*) AS k FROM t WHERE n > :least"
SHARES = "SELECT sex, SUM(n) / COUNT(*) AS q FROM t GROUP BY sex"
OTHER = "SELECT COUNT(*) AS k FROM t WHERE n > 5"


def table(frame: Any = FRAME, schema: Schema = SCHEMA, **options: Any) -> Table:
    return Table("t", frame, schema, **options)


@pytest.fixture(scope="module")
def opened() -> Iterator[dict[str, Session]]:
    """One session for each way of counting, with more than these tests spend."""
    budgets = {
        "rho": Budget(rho=1000),
        ZCDP: Budget(epsilon=40, delta=1e-6, key_delta=1e-7),
        PURE: Budget(epsilon=1000),
        "gdp": Budget(epsilon=40, delta=1e-6, accountant="gdp"),
    }
    with contextlib.ExitStack() as stack:
        found = {
            name: stack.enter_context(Session(table(), budget=one)) for name, one in budgets.items()
        }
        for name, session in found.items():
            session.query(BY_SEX, **{"epsilon" if name == PURE else "rho": 1})
        yield found


def failing(call: Callable[[], object]) -> DpnbError:
    with pytest.raises(DpnbError) as raised:
        call()
    return raised.value


Ask = Callable[[Session], object]
ASKED: list[tuple[str, str, Ask, Ask]] = [
    ("rho", "Give rho=0.05, or error=50.", lambda s: s.query(OTHER), lambda s: s.query(OTHER, rho=0.05)),
    ("rho", "Give rho=0.05, or error=50.", lambda s: s.query(OTHER), lambda s: s.query(OTHER, error=50)),
    (PURE, "Give epsilon=0.05, or error=50.", lambda s: s.query(PART),
     lambda s: s.query(PART, epsilon=0.05)),
    (PURE, "Give epsilon=0.5, not rho.", lambda s: s.query(PART, rho=1),
     lambda s: s.query(PART, epsilon=1)),
    ("rho", "Give rho=, or open the session with Budget(epsilon=3, delta=1e-6).",
     lambda s: s.query(PART, epsilon=1), lambda s: s.query(PART, rho=1)),
    ("rho", "Give rho=, or open the session with Budget(epsilon=3, delta=1e-6).",
     lambda s: s.query(PART, epsilon=1),
     lambda _: Session(table(), budget=Budget(epsilon=3, delta=1e-6)).query(PART, epsilon=1)),
    (GDP, "Give a smaller epsilon, such as 1.", lambda s: s.query(PART, epsilon=1e6),
     lambda s: s.price(PART, epsilon=49)),
    ("rho", "Give rho as a positive number, such as 0.1.", lambda s: s.query(PART, rho=0),
     lambda s: s.query(PART, rho=0.1)),
    ("rho", "Give a number such as 0.95.",
     lambda s: s.query(PART, rho=1, confidence=95), lambda s: s.query(PART, rho=1, confidence=0.95)),
    ("rho", "Write looks=1 or looks='any'.", lambda s: s.query(PART, rho=1, looks=2),
     lambda s: s.query(PART, rho=1, looks="any")),
    ("rho", "Write intervals='simultaneous' or intervals='each'.",
     lambda s: s.query(PART, rho=1, intervals="both"),
     lambda s: s.query(PART, rho=1, intervals="each")),
    ("rho", "Write history=True or history=False.", lambda s: s.query(PART, error=9, history=0),
     lambda s: s.query(PART, error=9, history=False)),
    ("rho", "Give a share such as 0.5.", lambda s: s.query(MEAN, rho=1, split=1),
     lambda s: s.query(MEAN, rho=1, split=0.5)),
    ("rho", "Add rows=100:", lambda s: s.query(MEAN, error=1),
     lambda s: s.query(MEAN, error=1, rows=100)),
    ("rho", "Give a whole number such as 100.", lambda s: s.query(MEAN, error=1, rows=0),
     lambda s: s.query(MEAN, error=1, rows=100)),
    ("rho", "Give one number, or a dict for k.", lambda s: s.query(PART, error={"x": 1}),
     lambda s: s.query(PART, error={"k": 9})),
    ("rho", "Give rho=0.05 instead of error", lambda s: s.query(SHARE, error=1),
     lambda s: s.query(SHARE, rho=0.05)),
    (PURE, "Give epsilon=0.05 instead of error", lambda s: s.query(SHARE, error=1),
     lambda s: s.query(SHARE, epsilon=0.05)),
    ("rho", "Pass params={'least': ...}.",
     lambda s: s.query("SELECT COUNT(*) FROM t WHERE n > :least", rho=1),
     lambda s: s.query("SELECT COUNT(*) FROM t WHERE n > :least", rho=1, params={"least": 5})),
    ("rho", "Pass params={'name': value}.", lambda s: s.query(LEAST, rho=1, params=[1]),
     lambda s: s.query(LEAST, rho=1, params={"least": 5})),
    ("rho", "Name the results and the group columns alone", lambda s: s.infer(f"{BY_SEX} HAVING COUNT(*) > 5"),
     lambda s: (s.query(BY_SEX, rho=1), s.infer(BY_SEX))),
    ("rho", "Pass SQL as a string, or a list of strings.", lambda s: s.price(5, rho=1),
     lambda s: s.price([PART], rho=1)),
    ("rho", "Pass a list of SQL strings.", lambda s: s.query_all([], rho=1),
     lambda s: s.query_all([PART], rho=1)),
    ("rho", "Write one in single quotes, such as 'F'.",
     lambda s: s.query("SELECT COUNT(*) FROM t WHERE sex = 5", rho=1), lambda s: s.query(PART, rho=1)),
    ("rho", "Did you mean 'F'?", lambda s: s.query(PART.replace("'F'", "'f'"), rho=1),
     lambda s: s.query(PART, rho=1)),
    ("rho", "Write '2024-01-31'.",
     lambda s: s.query("SELECT COUNT(*) FROM t WHERE day = '31.1.2024'", rho=1),
     lambda s: s.query("SELECT COUNT(*) FROM t WHERE day = '2024-01-31'", rho=1)),
    # inference
    ("rho", "Or ask for bounds: guaranteed=True.", lambda s: s.infer("SELECT SUM(n) AS k FROM t WHERE n > 7"),
     lambda s: s.infer("SELECT SUM(n) AS k FROM t WHERE n > 7", guaranteed=True)),
    ("rho", "Give a number such as 0.95.", lambda s: s.infer(PART, confidence="high"),
     lambda s: s.infer(PART, confidence=0.95)),
    ("rho", "Give a number such as 50.", lambda s: s.infer(PART, error="x"), lambda s: s.infer(PART, error=50)),
    ("rho", "Write between=(100, 200).", lambda s: s.infer(PART, between=5),
     lambda s: s.infer(PART, between=(100, 200))),
    ("rho", "Give a number such as 100.", lambda s: s.infer(PART, between=("x", 5)),
     lambda s: s.infer(PART, between=(100, 200))),
    ("rho", "Swap the two numbers.", lambda s: s.infer(PART, between=(5, 1)),
     lambda s: s.infer(PART, between=(1, 5))),
    ("rho", "Leave error and confidence out.", lambda s: s.infer(PART, between=(1, 5), error=3),
     lambda s: s.infer(PART, between=(1, 5))),
    ("rho", "Write guaranteed=True or guaranteed=False.", lambda s: s.infer(PART, guaranteed=1),
     lambda s: s.infer(PART, guaranteed=True)),
    ("rho", "Leave method, error and between out.",
     lambda s: s.infer(PART, guaranteed=True, error=5), lambda s: s.infer(PART, guaranteed=True)),
    ("rho", "Give a whole number such as 10.",
     lambda s: s.infer(PART, chosen=0), lambda s: (s.infer(PART, chosen=10), s.infer(PART, chosen="any"))),
    ("rho", "Leave error, between, method and prior out.",
     lambda s: s.infer(PART, chosen="any", error=5), lambda s: s.infer(PART, chosen="any")),
    ("rho", "Write method='blue' or method='mc' or method='pc'.", lambda s: s.infer(PART, method="best"),
     lambda s: s.infer(PART, method="mc")),
    ("rho", "Leave method and guaranteed out.",
     lambda s: s.infer(PART, prior="nonnegative", guaranteed=True),
     lambda s: s.infer(PART, prior="nonnegative")),
    ("rho", "Use .between(low, high, group) of the inference.",
     lambda s: s.infer(BY_SEX, between=(1, 5)), lambda s: s.infer(BY_SEX).between(1, 5, "F")),
    ("rho", "Name one, as in group='Female'.", lambda s: s.infer(BY_SEX).between(1, 5),
     lambda s: s.infer(BY_SEX).between(1, 5, group="F")),
    # questions
    ("rho", "Did you mean 'F'?", lambda s: s.query(BY_SEX, rho=1).compare("f", "M"),
     lambda s: s.query(BY_SEX, rho=1).compare("F", "M")),
    ("rho", "Name a second group, or give constant=10.", lambda s: s.query(BY_SEX, rho=1).compare("F"),
     lambda s: (s.query(BY_SEX, rho=1).compare("F", "M"), s.query(BY_SEX, rho=1).compare("F", constant=10))),
    ("rho", "Ask the statement with intervals='simultaneous'.",
     lambda s: s.query(SHARES, rho=1, intervals="each").compare("F", "M"),
     lambda s: s.query(SHARES, rho=1, intervals="simultaneous").compare("F", "M")),
    # discovery
    (ZCDP, "Write session.discover('city').", lambda s: s.discover(5, rho=0.05),
     lambda s: s.discover("city", rho=0.05)),
    (ZCDP, "Give rho=0.05, or epsilon=0.5.", lambda s: s.discover("city"),
     lambda s: (s.discover("city", rho=0.05), s.discover("city", epsilon=0.5))),
    ("rho", "A ledger keeps its budget, so start a new one with Budget(epsilon=3, delta=1e-6, key_delta=1e-7).",
     lambda s: s.discover("city", rho=0.05),
     lambda _: Session(table(), budget=Budget(epsilon=3, delta=1e-6, key_delta=1e-7)).discover(
         "city", rho=0.05)),
    (PURE, "A ledger keeps its budget, so start a new one with Budget(epsilon=3, delta=1e-6, key_delta=1e-7).",
     lambda s: s.discover("city", epsilon=0.05),
     lambda _: Session(table(), budget=Budget(epsilon=3, delta=1e-6, key_delta=1e-7)).discover(
         "city", epsilon=0.05)),
    (ZCDP, "Give a smaller delta.", lambda s: s.discover("city", rho=0.05, delta=1e-6),
     lambda s: s.discover("city", rho=0.05, delta=1e-8)),
    (ZCDP, "Did you mean city?", lambda s: s.discover("ciyt", rho=0.05),
     lambda s: s.discover("city", rho=0.05)),
    (ZCDP, "Did you mean t?", lambda s: s.discover("city", table="tt", rho=0.05),
     lambda s: s.discover("city", table="t", rho=0.05)),
    (ZCDP, "Choose another name.", lambda s: s.discover("city", rho=5).category(other="Bern"),
     lambda s: s.discover("city", rho=5).category(other="elsewhere")),
    # priors
    *(("rho", "{'uniform': [0, 50]} or {'normal': [100, 20]}.",
       lambda s, wrong=wrong: s.infer(PART, prior=wrong), lambda s, right=right: s.infer(PART, prior=right))
      for wrong, right in ((5, "nonnegative"), ("positive", {"at most": 1000}), ({0: 1}, {"uniform": [0, 50]}),
                           ({"uniform": 5}, {"normal": [100, 20]}))),
    ("rho", "Write AtMost(1000).", lambda s: s.infer(PART, prior=AtMost(0)),
     lambda s: s.infer(PART, prior=AtMost(1000))),
    ("rho", "Write Uniform(0, 1000).", lambda s: s.infer(PART, prior=Uniform(5, 5)),
     lambda s: s.infer(PART, prior=Uniform(0, 1000))),
    ("rho", "Write Normal(100, 20).", lambda s: s.infer(PART, prior=Normal(100, 0)),
     lambda s: s.infer(PART, prior=Normal(100, 20))),
    ("rho", "Check the prior's numbers and units, or leave it out.",
     lambda s: s.infer(PART, prior=Normal(9000, 1)),
     lambda s: (s.infer(PART, prior=Normal(50, 1)), s.infer(PART))),
    ("rho", "Give a confidence, and use .between() of the inference.",
     lambda s: s.infer(PART, prior="nonnegative", between=(1, 5)),
     lambda s: s.infer(PART, prior="nonnegative", confidence=0.95).between(1, 5)),
    ("rho", "Give a confidence, and use .between() of the inference.",
     lambda s: s.infer(PART, method="mc", error=3),
     lambda s: s.infer(PART, method="mc", confidence=0.95).between(1, 5)),
    ("rho", "Give a number such as 0.95.", lambda s: s.infer(PART, confidence=95),
     lambda s: s.infer(PART, confidence=0.95)),
    ("rho", "Give a number such as 50.", lambda s: s.infer(PART, error=0), lambda s: s.infer(PART, error=50)),
    ("rho", "Give a number such as 50.", lambda s: s.infer(PART, error=1e40), lambda s: s.infer(PART, error=50)),
    ("rho", "Infer again without prior, guaranteed and chosen='any'.",
     lambda s: s.infer(BY_SEX, prior="nonnegative").difference("F", "M"),
     lambda s: s.infer(BY_SEX).difference("F", "M")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "hint", "wrong", "right"),
    ASKED,
    ids=[f"{number}: {hint}" for number, (_, hint, _, _) in enumerate(ASKED)],
)
def test_what_is_advised_on_a_request_is_accepted(opened, kind, hint, wrong, right):
    assert hint in failing(lambda: wrong(opened[kind])).hint
    right(opened[kind])


class TestUsedUp:
    """What a refusal says that may still be asked is answered, and is new."""

    @pytest.mark.parametrize("sql", [BY_SEX, MEAN])
    def test_a_question_that_was_asked_before_adds_what_was_paid(self, sql):
        session = Session(table(), budget=Budget(rho=1))
        session.query(sql, rho=0.7)
        hint = failing(lambda: session.query(sql, rho=2)).hint
        assert "Ask with rho=1 or less" in hint
        assert session.query(sql, rho=1).spent.rho == Fraction("0.3")

    def test_another_question_is_told_what_is_left(self):
        session = Session(table(), budget=Budget(rho=1))
        session.query(MEAN, rho=0.7)
        assert "Ask with rho=0.3 or less" in failing(lambda: session.query(BY_SEX, rho=2)).hint
        assert session.query(BY_SEX, rho=0.3).spent.rho == Fraction("0.3")

    def test_less_than_a_thousandth_is_not_offered(self):
        session = Session(table(), budget=Budget(rho=1))
        session.query(BY_SEX, rho=0.9995)
        hint = failing(lambda: session.query(MEAN, rho=0.1)).hint
        assert hint.startswith(
            "The budget is nearly used up. What follows from past answers is free"
        )
        assert len(session.infer(BY_SEX).to_frame()) == 2


LAW = Mixture((2.0,), 0.0)
PRIORS = [
    ("Write {0: 0.5, 10: 0.5}.", {0: -1.0}, {0: 0.5, 10: 0.5}),
    ("a finite number of at least 0 for every number.", lambda _: -1.0, lambda value: value**2),
    ("Give Uniform, NonNegative, AtMost, Normal, a dict of probabilities, or a function.", 5, NonNegative()),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "wrong", "right"), PRIORS)
def test_what_is_advised_on_a_prior_is_accepted(hint, wrong, right):
    assert hint in failing(lambda: update(wrong, 3.0, LAW)).hint
    update(right, 3.0, LAW)


WRONG_SQL = [
    ("SELECT sex, COUNT(*) FROM t", "Add it to GROUP BY", "SELECT sex, COUNT(*) FROM t GROUP BY sex"),
    ("SELECT COUNT(*) FROM people", "Declared: t.", "SELECT COUNT(*) FROM t"),
    ("SELECT COUNT(*) FROM t WHERE m = 1", "Declared: sex, n, r, day.", "SELECT COUNT(*) FROM t WHERE n = 1"),
    ("SELECT DISTINCT 1 FROM t", "Add COUNT(*), SUM(x) or AVG(x).", "SELECT 1, COUNT(*) FROM t"),
    ("SELECT COUNT(*) FROM t WHERE n > 'x'", "Write the number without quotes.",
     "SELECT COUNT(*) FROM t WHERE n > 3"),
    ("SELECT COUNT(*) FROM t WHERE n = NULL", "Use IS NULL or IS NOT NULL.",
     "SELECT COUNT(*) FROM t WHERE n IS NULL"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY 3", "It has 2 columns: write 1 to 2.",
     "SELECT sex, COUNT(*) FROM t GROUP BY 1"),
    ("SELECT COUNT(*) FROM t ORDER BY n", "Add it to GROUP BY, or aggregate it: COUNT(n).",
     "SELECT COUNT(*) FROM t ORDER BY COUNT(n)"),
    ("SELECT QUANTILE(n, 2) FROM t", "Write QUANTILE(x, 0.99).", "SELECT QUANTILE(n, 0.99) FROM t"),
    ("SELECT COUNT(*) FROM t WHERE sex = 1", "Write one in single quotes, such as 'F'.",
     "SELECT COUNT(*) FROM t WHERE sex = 'F'"),
    ("SELECT COUNT(*) FROM t WHERE sex IN ('F' 'M')", "Write 'a', 'b'.",
     "SELECT COUNT(*) FROM t WHERE sex IN ('F', 'M')"),
    ("SELECT COUNT(*) FROM t WHERE n IN (3 4)", "Put a comma between 3 and 4.",
     "SELECT COUNT(*) FROM t WHERE n IN (3, 4)"),
    ("SELECT sex, n, COUNT(*) FROM t GROUP BY sex n", "Put a comma between sex and n.",
     "SELECT sex, n, COUNT(*) FROM t GROUP BY sex, n"),
    ("SELECT COUNT(*) FROM t WHERE COUNT(*) > 3", "Compare columns here, and aggregates in HAVING.",
     "SELECT COUNT(*) FROM t HAVING COUNT(*) > 3"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "hint", "right"), WRONG_SQL)
def test_what_is_advised_on_a_statement_is_accepted(opened, wrong, hint, right):
    assert hint in failing(lambda: opened["rho"].query(wrong, rho=0.1)).hint
    opened["rho"].query(right, rho=0.1)


COUNT = "SELECT COUNT(*) FROM"
GOODS = Schema({"good": Integer(0, 9), "kind": Category(["a", "b"])})
SALES = Schema({"good": Integer(0, 9), "other": Integer(0, 9), "wide": Integer(0, 99)})
PERSON = {"age": Integer(0, 99)}


def declared(**changed: Table) -> dict[str, Table]:
    """Return tables that can be joined, with what a hint changed, as a session that opened them."""
    tables = {
        "sales": Table("sales", None, SALES),
        "goods": Table("goods", None, GOODS, public=True, key="good"),
        "people": Table("people", None, Schema(PERSON), Unit("id", 1)),
        "visits": Table("visits", None, Schema(PERSON), Unit("id", 4)),
        "orders": Table("orders", None, Schema(PERSON), Unit("id", 5)),
        "many": Table("many", None, Schema(PERSON), Unit("id", 2**20)),
        "patients": Table("patients", None, Schema(PERSON), Unit("patient", 1)),
        "open": Table("open", None, Schema(PERSON), Unit("id", 5), public=True),
        "list": Table("list", None, GOODS, public=True),
        "copies": Table("copies", None, GOODS),
        **changed,
    }
    return joined(tables, lambda name, join: None)


WRONG_JOINS = [
    ("sales s JOIN sales t ON s.good = t.good", "Join it with another table.",
     "sales s JOIN goods t ON s.good = t.good"),
    ("sales JOIN sales ON sales.good = sales.good", "Join it with another table.",
     "sales JOIN goods ON sales.good = goods.good"),
    ("sales s JOIN goods s ON s.good = s.good", "Name them with AS.",
     "sales AS s JOIN goods AS g ON s.good = g.good"),
    ("sales JOIN goods ON sales.good = goods.good JOIN goods ON sales.other = goods.good",
     "Name them with AS.",
     "sales JOIN goods AS a ON sales.good = a.good JOIN goods AS b ON sales.other = b.good"),
    ("sales JOIN goods a ON sales.good = a.good JOIN goods b ON sales.good = b.good", "Join it once.",
     "sales JOIN goods a ON sales.good = a.good"),
    ("sales s JOIN goods g ON s.good = g.kind", "Join on the key 'good' of 'goods'.",
     "sales s JOIN goods g ON s.good = g.good"),
    ("sales s JOIN goods g ON s.goood = g.good", "Did you mean good?",
     "sales s JOIN goods g ON s.good = g.good"),
    ("sales s JOIN goods g USING (kind)", "Join on the key 'good' of 'goods'.", "sales s JOIN goods g USING (good)"),
    ("sales s JOIN goods g USING (good, kind)", "Write USING (good).", "sales s JOIN goods g USING (good)"),
    ("sales s JOIN goods g ON good = g.good", "Write s.good.", "sales s JOIN goods g ON s.good = g.good"),
    ("sales s JOIN goods g ON x.good = g.good", "Declared: s, g.", "sales s JOIN goods g ON s.good = g.good"),
    ("sales s JOIN good g ON s.good = g.good", "Did you mean goods?",
     "sales s JOIN goods g ON s.good = g.good"),
    ("sales s RIGHT JOIN goods g ON s.good = g.good", "Write FROM s LEFT JOIN g, or JOIN.",
     "sales s LEFT JOIN goods g ON s.good = g.good"),
    ("goods g FULL JOIN sales s ON s.good = g.good", "Write FROM s LEFT JOIN g, or JOIN.",
     "goods g RIGHT JOIN sales s ON s.good = g.good"),
    ("goods g LEFT JOIN sales s ON s.good = g.good", "Write FROM s LEFT JOIN g, or JOIN.",
     "sales s LEFT JOIN goods g ON s.good = g.good"),
    ("goods g LEFT JOIN sales s ON s.good = g.good", "Write FROM s LEFT JOIN g, or JOIN.",
     "goods g JOIN sales s ON s.good = g.good"),
    *((f"sales s {word} goods g{on}", "Write FROM a JOIN b ON a.x = b.x.",
       "sales s JOIN goods g ON s.good = g.good")
      for word, on in (("JOIN", ""), ("CROSS JOIN", ""),
                       ("JOIN", " ON s.good > g.good"), ("JOIN", " ON s.good = s.other"))),
    ("sales s JOIN goods g ON s.good = g.good JOIN goods p ON p.good = g.good", "Join p with s.",
     "sales s JOIN goods g ON s.good = g.good JOIN goods p ON s.other = p.good"),
    ("visits v JOIN orders o ON v.id = o.id JOIN people p ON v.id = p.id", "Join two tables,",
     "visits v JOIN orders o ON v.id = o.id"),
    ("visits v LEFT JOIN orders o ON v.id = o.id", "Join these two tables alone with JOIN",
     "visits v JOIN orders o ON v.id = o.id"),
    ("people p JOIN visits v ON p.age = v.age", "Join on the ids 'id' of both tables.",
     "people p JOIN visits v ON p.id = v.id"),
    ("sales" + "".join(f" JOIN goods g{i} ON sales.good = g{i}.good" for i in range(MOST_JOINS + 1)), "Join fewer tables.",
     "sales JOIN goods ON sales.good = goods.good"),
    ("sales TABLESAMPLE (10 PERCENT)", "Write only the name of the table.", "sales"),
    ("range(10)", "Name a declared table.", "sales"),
]  # fmt: skip


def refused_join(written: str, tables: dict[str, Table] | None = None) -> DpnbError:
    return failing(lambda: parse(f"{COUNT} {written}", tables or declared()))


@pytest.mark.parametrize(("wrong", "hint", "right"), WRONG_JOINS)
def test_what_is_advised_on_a_join_is_accepted(wrong, hint, right):
    assert hint in refused_join(wrong).hint
    parse(f"{COUNT} {right}", declared())


DECLARATIONS = [
    # what is joined, the hint, and the declarations that it asks for
    ("sales s JOIN goods g ON s.wide = g.good", "Declare the same kind with the same values, or the same bounds",
     {"sales": Table("sales", None, Schema({"wide": Integer(0, 9)}))}),
    ("people p JOIN visits v ON p.id = v.id LEFT JOIN orders o ON v.id = o.id",
     "declare max_rows=1 for the one that is looked up.",
     {"orders": Table("orders", None, Schema(PERSON), Unit("id", 1))}),
    ("visits v LEFT JOIN orders o ON v.id = o.id", "declare max_rows=1 for the one that is looked up.",
     {"orders": Table("orders", None, Schema(PERSON), Unit("id", 1))}),
    ("many m JOIN visits v ON m.id = v.id", "Declare a smaller max_rows.",
     {"many": Table("many", None, Schema(PERSON), Unit("id", 2**18))}),
    ("open o JOIN people p ON o.id = p.id", "Declare both as public, or neither.",
     {"people": Table("people", None, Schema(PERSON), Unit("id", 1), public=True)}),
    ("open o JOIN people p ON o.id = p.id", "Declare both as public, or neither.",
     {"open": Table("open", None, Schema(PERSON), Unit("id", 5))}),
    ("sales s JOIN list l ON s.good = l.good", "Declare Table('list', ..., public=True, key='...').",
     {"list": Table("list", None, GOODS, public=True, key="good")}),
    ("sales s JOIN copies c ON s.good = c.good", "with public=True and key='...'.",
     {"copies": Table("copies", None, GOODS, public=True, key="good")}),
    ("people p JOIN patients q ON p.id = q.patient", "Then give their ids the same name.",
     {"people": Table("people", None, Schema(PERSON), Unit("patient", 1))}),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "hint", "changed"), DECLARATIONS)
def test_what_a_refused_join_asks_to_declare_makes_it_possible(asked, hint, changed):
    assert hint in refused_join(asked).hint
    if "patients" in asked:
        asked = asked.replace("p.id", "p.patient")
    parse(f"{COUNT} {asked}", declared(**changed))


def test_tables_that_are_opened_together_can_be_joined():
    asked = f"{COUNT} sales s JOIN goods g ON s.good = g.good"
    apart = {**declared(), "sales": Table("sales", None, SALES)}
    assert "Open both in one Curator." in failing(lambda: parse(asked, apart)).hint
    parse(asked, declared())


TABLES = [
    ("Use letters, digits and underscores.", lambda: Table("a-b", FRAME, SCHEMA),
     lambda: Table("a_b2", FRAME, SCHEMA)),
    ("Write public=True.", lambda: table(public=1), lambda: table(public=True)),
    ("Name a column of the schema.", lambda: table(public=True, key="nr"),
     lambda: table(public=True, key="n")),
    ("use Integer.", lambda: table(public=True, key="r"),
     lambda: table(schema=Schema({"r": Integer(0, 1)}), public=True, key="r")),
    ("Declare public=True, without a unit; or leave the key out.", lambda: table(key="n"),
     lambda: (table(public=True, key="n"), table())),
    ("Declare public=True, without a unit; or leave the key out.",
     lambda: table(public=True, key="n", unit=Unit("who", 1)),
     lambda: (table(public=True, key="n"), table(public=True, unit=Unit("who", 1)))),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "wrong", "right"), TABLES)
def test_what_is_advised_on_a_table_is_accepted(hint, wrong, right):
    assert hint in failing(wrong).hint
    right()


COLUMN = '[columns.n]\ntype = "integer"\nlow = 0\nhigh = 9\n'
FILES = [
    ("Add it.", COLUMN, 'source = "t.csv"\n' + COLUMN),
    ("Add it.", 'source = "t.csv"\n', 'source = "t.csv"\n' + COLUMN),
    ("Write public = true.", 'source = "t.csv"\npublic = "yes"\n' + COLUMN,
     'source = "t.csv"\npublic = true\n' + COLUMN),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "wrong", "right"), FILES)
def test_what_is_advised_on_a_tables_file_is_accepted(tmp_path, hint, wrong, right):
    path = tmp_path / "t.toml"
    path.write_text(wrong)
    assert hint in failing(lambda: Table.load(path)).hint
    path.write_text(right)
    Table.load(path)


OPENED = [
    ("It takes rho, epsilon, delta,", lambda: read_budget(None, None, None, None, {"rhos": 1}),
     lambda: read_budget(None, None, None, None, {"epsilon": 3, "delta": 1e-6, "key_delta": 1e-7})),
    ("It takes mechanism, rows,", lambda: read_policy({"row": "max"}), lambda: read_policy({"rows": "max"})),
    ("Write lines like alice = 4.", lambda: read_analysts(["alice"]),
     lambda: read_analysts({"alice": 4})),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "wrong", "right"), OPENED)
def test_what_is_advised_on_opening_is_accepted(hint, wrong, right):
    assert hint in failing(wrong).hint
    right()


def described(written: str) -> Callable[[], object]:
    """Return what evaluates Python as it stands in a hint."""
    names = {name: getattr(dpnb, name) for name in ("Budget", "Policy", "Unit", "Schema", *KINDS)}
    return lambda: eval(written, {**names, "dpnb": dpnb})  # noqa: S307 - a hint of our own


_WRITTEN = re.compile(
    r"(?:dpnb\.)?\b(?:Budget|Policy|Unit|Schema|Category|Integer|Real|Date)\((?:[^()]|\([^()]*\))*\)"
)
KINDS = ("Category", "Integer", "Real", "Date")
WRITTEN: list[Callable[[], object]] = [
    lambda: Budget(),
    lambda: Budget(rho=1, key_delta=1e-7, accountant="gdp", delta=1e-6),
    lambda: Budget(epsilon=3, delta=1e-6, key_delta=1e-5),
    lambda: Budget(epsilon=3, accountant="gdp"),
    lambda: Curator([table()]),
    lambda: Curator([table()], budget=1),
    lambda: Curator([table()], budget=Budget(epsilon=1), analysts={"a": 1}),
    lambda: Curator([table()], budget=Budget(rho=1), policy="max"),
    lambda: table(unit="who"),
    lambda: table(schema={"sex": ["F"]}),
    lambda: Schema(["age"]),
    lambda: Schema({}),
    lambda: Category("ab"),
    lambda: Category(5),
    lambda: Integer(0.5, 3),
    lambda: Integer(3, 0),
    lambda: Real("a", "b"),
    lambda: Real(3, 0),
    lambda: Date("2024-12-31", "2020-01-01"),
    lambda: Unit(5, max_rows=3),
]


@pytest.mark.parametrize("wrong", WRITTEN, ids=range(len(WRITTEN)))
def test_what_is_written_in_a_declarations_hint_can_be_evaluated(wrong):
    hint = failing(wrong).hint
    found = _WRITTEN.findall(hint)
    written = [one for one in found if "..." not in one]
    assert written or "..." in hint, hint
    for one in written:
        described(one)()


class TestOwner:
    """What the owner is advised."""

    @pytest.fixture
    def curator(self) -> Iterator[Curator]:
        with contextlib.closing(
            Curator([table()], budget=Budget(rho=1), analysts={"alice": 4, "bob": 1})
        ) as made:
            yield made

    @pytest.mark.parametrize(
        ("hint", "wrong", "right"),
        [
            ("Name one, as in curator.session('alice').", lambda c: c.session(),
             lambda c: c.session("alice")),
            ("Did you mean alice?", lambda c: c.limit("alcie", rho=1), lambda c: c.limit("alice", rho=1)),
            ("Raise the total budget first.", lambda c: c.limit("alice", rho=2),
             lambda c: (c.limit(rho=2), c.limit("alice", rho=2))),
            ("Give rho=0.1, or epsilon=1.", lambda c: c.limit("alice"), lambda c: c.limit("alice", rho=0.1)),
            ("Give rho=", lambda c: c.limit("alice", epsilon=1), lambda c: c.limit("alice", rho=0.1)),
            ("Write until='2027-01-31'.", lambda c: c.grant("alice", "bob", rho=0.1, until="soon"),
             lambda c: c.grant("alice", "bob", rho=0.1, until="2027-01-31")),
            ("Write add_view(['age', 'sex']).", lambda c: c.add_view([]),
             lambda c: c.add_view(["n", "sex"])),
            ("Choose another name.", lambda c: c.add_analyst("bob", 1), lambda c: c.add_analyst("carol", 1)),
            ("Give one from 1 to 4.", lambda c: c.add_analyst("carol", "x"),
             lambda c: c.add_analyst("carol", 4)),
            ("Give a lower one", lambda c: c.add_analyst("carol", 9), lambda c: c.add_analyst("carol", 4)),
            ("Choose among alice, bob.", lambda c: setattr(c.provenance.widget(), "chosen", ("alcie",)),
             lambda c: setattr(c.provenance.widget(), "chosen", ("alice", "bob"))),
            ("Set at from 0 to", lambda c: setattr(c.risk(PART).widget(), "at", 99),
             lambda c: setattr(c.risk(PART).widget(), "at", 0)),
        ],
    )  # fmt: skip
    def test_is_accepted(self, curator, hint, wrong, right):
        assert hint in failing(lambda: wrong(curator)).hint
        right(curator)

    def test_analysts_join_later_under_the_advised_policy(self):
        def opened(rows: str) -> Curator:
            return Curator(
                [table()], budget=Budget(rho=1), analysts={"a": 1}, policy=Policy(rows=rows)
            )

        with contextlib.closing(opened("sum")) as curator:
            curator.session("a").query(PART, rho=Fraction(1, 10))
            hint = failing(lambda: curator.add_analyst("b", 1)).hint
            assert "Policy(rows='max')" in hint
        with contextlib.closing(opened("max")) as curator:
            curator.session("a").query(PART, rho=Fraction(1, 10))
            curator.add_analyst("b", 1)


HAVING = "SELECT sex FROM t GROUP BY sex HAVING COUNT(*) > 5"
SHOWN: list[tuple[str, Callable[[Session], Any], str, object, object]] = [
    # the hint, what shows, its attribute, what is refused and what is advised
    ("Use indices of shown groups, such as [0, 1].", lambda s: s.query(BY_SEX, rho=1), "selected", [0, 7], [0, 1]),
    ("Set condition to 0.", lambda s: s.decide(HAVING, u=20), "condition", 3, 0),
    ("Set at to 0.", lambda s: s.decide(HAVING, u=20), "at", 99, 0),
    *(("Use one of", lambda s: s.decide(HAVING, u=20), "show", "some", show) for show in SHOWS),
    ("Set at from 0 to 1.", lambda s: s.infer(BY_SEX), "at", 2, 1),
    *(("Use >, <, >= or <=.", lambda s: s.infer(BY_SEX), "operator", "=", right)
      for right in (">", "<", ">=", "<=")),
    ("Give a finite number.", lambda s: s.infer(BY_SEX), "number", float("inf"), 5.0),
    ("or to -1 for none.", lambda s: explained(s), "selected", 999, -1),
    ("Set selected to an index from 0 to", lambda s: explained(s), "selected", 999, 0),
]  # fmt: skip


def explained(session: Session) -> Any:
    question = session.query(BY_SEX, rho=1).compare("F", "M")
    return session.explain(question, attributes=["n"], k=2, rho=1, anyway=True)


@pytest.mark.parametrize(("hint", "ask", "name", "wrong", "right"), SHOWN)
def test_what_is_advised_on_a_widget_is_accepted(opened, hint, ask, name, wrong, right):
    widget = ask(opened["rho"]).widget()
    assert hint in failing(lambda: setattr(widget, name, wrong)).hint
    setattr(widget, name, right)
    assert getattr(widget, name) == right


@pytest.mark.parametrize("mode", ["auto", "static", "widget"])
def test_a_display_mode_that_is_advised_is_accepted(mode):
    assert repr(mode) in failing(lambda: is_live("live")).hint
    is_live(mode)


def test_a_decision_that_is_advised_can_be_drawn(opened):
    def ask(mode: str) -> Any:
        return opened["rho"].decide(HAVING, u=20, mode=mode)

    hint = failing(lambda: ask("rr").plot()).hint
    assert "Decide with mode='certified'" in hint
    ask("certified").plot()
    plt.close("all")


class TestDiscovery:
    """Which columns can be searched, and where."""

    def curator(self, **options: Any) -> Curator:
        budget = Budget(epsilon=40, delta=1e-6, key_delta=1e-7)
        return Curator([table(), Table("u", FRAME, SCHEMA)], budget=budget, **options)

    def test_one_of_several_tables_is_named(self):
        with contextlib.closing(self.curator()) as curator:
            session = curator.session()
            assert failing(lambda: session.discover("city", rho=0.05)).hint == "Write table='t'."
            session.discover("city", rho=0.05, table="t")

    @pytest.mark.parametrize("undeclared", [(), ("city",)])
    def test_the_owner_declares_what_can_be_searched(self, undeclared):
        schema = Schema(dict(SCHEMA.items()), undeclared=undeclared)
        budget = Budget(epsilon=40, delta=1e-6, key_delta=1e-7)
        with Session(table(schema=schema), budget=budget) as session:
            if not undeclared:
                for wrong in ({}, {"table": "t"}):
                    found = failing(lambda wrong=wrong: session.discover("city", rho=0.05, **wrong))
                    assert "Schema(..., undeclared=['city'])" in found.hint
                with Session(table(schema=schema), budget=Budget(rho=1)) as other:
                    # two things are to do, and both are said at once
                    found = failing(lambda: other.discover("city", rho=0.05))
                    assert found.hint.startswith(
                        "List the column under undeclared, not under columns. A ledger keeps"
                    )
            else:
                session.discover("city", rho=0.05)

    def test_a_policy_that_is_advised_allows_it(self):
        def asked(views: str) -> Callable[[], object]:
            options: Any = {"analysts": {"a": 1}, "policy": Policy(views=views)}
            if views == "equal":
                options["views"] = [{"table": "t", "columns": ["n"]}]
            with contextlib.closing(self.curator(**options)) as curator:
                return curator.session("a").discover("city", rho=0.05, table="t")

        assert (
            "Finding values needs Policy(views='water-filling')."
            in failing(lambda: asked("equal")).hint
        )
        asked("water-filling")
