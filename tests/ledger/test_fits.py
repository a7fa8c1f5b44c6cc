"""A price and what it is the price of never disagree about what fits, whatever limit decides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest

from dpnb.curator import Curator
from dpnb.decide.decision import Decision
from dpnb.errors import BudgetError, DpnbError, RequestError
from dpnb.ledger.policy import Policy
from dpnb.privacy.budget import Budget
from dpnb.schema.columns import Category, Integer
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.session import Session
from tests.kit.noise import ContinuousNoise

Opened = Callable[..., Curator]
STATEMENTS = (
    "SELECT sex, COUNT(*) AS k FROM t GROUP BY sex",
    "SELECT sex, COUNT(*) AS k, SUM(n) AS s FROM t GROUP BY sex",
    "SELECT job, AVG(n) AS m FROM t GROUP BY job",
    "SELECT COUNT(*) AS k FROM t WHERE n >= 4",
    "SELECT job, sex, COUNT(*) AS k FROM t GROUP BY job, sex",
)
DECISION = "SELECT job FROM t GROUP BY job HAVING COUNT(*) > 30"
AMOUNTS = ("0.003", "0.02", "0.1", "0.25", "0.4", "0.7")


@pytest.fixture(scope="module")
def table() -> Table:
    """120 people, with a town that is not declared."""
    rows = range(120)
    frame = pd.DataFrame(
        {
            "sex": ["FM"[i % 2] for i in rows],
            "n": [i % 10 for i in rows],
            "job": ["abc"[i % 3] for i in rows],
            "town": ["here" if i % 5 else "there" for i in rows],
        }
    )
    kinds = {"sex": Category(["F", "M"]), "n": Integer(0, 9), "job": Category(["a", "b", "c"])}
    return Table("t", frame, Schema(kinds, undeclared=["town"]))


def world(opened: Opened, table: Table, draw: random.Random) -> tuple[Curator, list[Session]]:
    """A curator with limits of every kind, at random, and its analysts' sessions."""
    budget = Budget(rho=1, delta=1e-6, key_delta=1e-7)
    noise = ContinuousNoise(draw.randrange(100))
    if draw.random() < 0.2:
        curator = opened(table, analysts=None, budget=budget, views=[["sex"]], noise=noise)
        sessions = [curator.session()]
    else:
        policy: dict[str, Any] = {"top": draw.choice([1, 4])}
        if draw.random() < 0.5:
            policy |= {"collusion": [("a", "b")], "together": draw.choice([0.7, 2])}
        if draw.random() < 0.4:
            policy["reserve"] = draw.choice(["0.1", "0.3"])
        analysts = {"a": 1, "b": 1, "c": 1}
        curator = opened(
            table, analysts=analysts, budget=budget, policy=Policy(**policy), views=[["sex"]],
            noise=noise,
        )  # fmt: skip
        sessions = [curator.session(name) for name in analysts]
        if draw.random() < 0.4:
            curator.limit("a", rho=draw.choice(AMOUNTS))
        if draw.random() < 0.3:
            curator.limit("b", column="n", rho=draw.choice(AMOUNTS))
        if draw.random() < 0.3:
            curator.grant("b", "a", rho=draw.choice(AMOUNTS))
    if draw.random() < 0.4:
        curator.limit(view="sex", rho=draw.choice(AMOUNTS))
    if draw.random() < 0.4:
        curator.limit(column="n", rho=draw.choice(AMOUNTS))
    if draw.random() < 0.3:
        curator.protect("SELECT COUNT(*) AS k FROM t WHERE n >= 4", ">", 70)
    return curator, sessions


def requests(draw: random.Random, session: Session) -> Iterator[tuple[str, Any, Any]]:
    """Each verb with a price: its name, the price, and what it is the price of."""
    sql, cost = draw.choice(STATEMENTS), {"rho": draw.choice(AMOUNTS)}
    wanted = draw.choice([cost, {"error": draw.choice([2, 10, 40])}])
    yield "query", lambda: session.price(sql, **wanted), lambda: session.query(sql, **wanted)
    mode: dict[str, Any] = {"u": draw.choice([8, 15]), "mode": draw.choice(["certified", "margin", "rr", "hybrid"])}  # fmt: skip
    mode |= draw.choice([{}, {"most": draw.choice(AMOUNTS)}])
    if mode["mode"] == "rr":
        mode.pop("u")
    yield (
        "decide",
        lambda: session.price(DECISION, **mode),
        lambda: session.decide(DECISION, **mode),
    )
    some = {**cost, "delta": draw.choice(["1e-8", "6e-8"])}
    yield (
        "discover",
        lambda: session.price_discovery("town", table="t", **some),
        lambda: session.discover("town", table="t", **some),
    )


def fits(act: Callable[[], Any]) -> bool:
    """Carry a request out; return whether a limit or a protected claim did not refuse it."""
    try:
        result = act()
    except BudgetError:
        return False
    except RequestError as error:
        if "withheld" not in str(error) and "protects a claim" not in str(error):
            raise
        return False
    if isinstance(result, Decision):
        # one that was paid for in part is shown, whether or not it could go on
        return not result.reason.startswith("Stopped") or result.spent.rho > 0
    return True


def test_it_is_refused_exactly_if_its_price_says_so(opened: Opened, table: Table) -> None:
    said: Counter[tuple[str, bool]] = Counter()
    for seed in range(8):
        draw = random.Random(seed)  # noqa: S311
        _, sessions = world(opened, table, draw)
        for _ in range(5):
            for verb, priced, act in requests(draw, draw.choice(sessions)):
                try:
                    price = priced()
                except DpnbError as error:
                    # what is wrong with a request itself is the same of both
                    with pytest.raises(type(error)):
                        act()
                    continue
                assert price.affordable == (not price.refusal)
                assert fits(act) == price.affordable, (seed, verb, price, price.refusal)
                assert price.affordable or "This would leave" not in repr(price)
                said[verb, price.affordable] += 1
    assert all(said[verb, fit] for verb in ("query", "decide", "discover") for fit in (True, False))


@pytest.mark.parametrize("seed", range(6))
def test_so_is_an_explanation(seed: int, opened: Opened, table: Table) -> None:
    draw = random.Random(seed)  # noqa: S311
    _, sessions = world(opened, table, draw)
    for _ in range(6):
        session = draw.choice(sessions)
        try:
            question = session.query(STATEMENTS[2], rho=draw.choice(AMOUNTS)).compare("a", "b")
        except DpnbError:
            continue
        options = {"rho": draw.choice(AMOUNTS), "k": 2}
        price = session.price(question, **options)
        assert fits(lambda q=question, o=options, s=session: s.explain(q, anyway=True, **o)) == price.affordable  # type: ignore[misc]  # fmt: skip


@pytest.mark.fast
class TestOthers:
    def test_a_decision_that_follows_from_past_answers_costs_nothing_of_most(
        self, opened: Opened
    ) -> None:
        session = opened(analysts=None, budget=Budget(rho=90)).session()
        session.query("SELECT job, COUNT(*) AS k FROM t GROUP BY job", rho=30)
        sql = "SELECT job FROM t GROUP BY job HAVING COUNT(*) > 20"
        assert session.price(sql, u=10, most="0.001").free
        assert session.decide(sql, u=10, most="0.001").spent.rho == 0

    def test_a_price_says_that_anothers_spending_refuses_it(self, opened: Opened) -> None:
        curator = opened(analysts={"a": 1, "b": 1}, policy=Policy(top=1))
        curator.session("b").query(STATEMENTS[2], rho="0.8")
        session = curator.session("a")
        price = session.price(STATEMENTS[0], rho="0.5")
        assert (price.affordable, price.spent.rho, price.remaining.rho) == (False, 0.5, 1)
        assert "refused now: budget exhausted: a limit that is not your own" in repr(price)
        assert session.price(STATEMENTS[0], rho="0.1").affordable

    def test_a_list_is_priced_as_it_would_be_asked(self, opened: Opened) -> None:
        """Each fits what is left of the common budget, both together do not, and none is charged."""
        curator = opened(analysts={"a": 1, "b": 1}, policy=Policy(top=1))
        curator.session("b").query(STATEMENTS[2], rho="0.5")
        session = curator.session("a")
        lines = [STATEMENTS[0], STATEMENTS[3]]
        assert [price.affordable for price in session.price(lines, rho="0.4")] == [True, False]
        with pytest.raises(BudgetError, match="together these statements would be refused"):
            session.query_all(lines, rho="0.4")
        assert session.budget.spent.rho == 0
        assert len(session.query_all(lines, rho="0.2")) == 2


@pytest.mark.fast
class TestWhoseLimit:
    def test_a_limit_for_ones_own_columns_is_called_ones_own(self, opened: Opened) -> None:
        curator = opened(analysts={"a": 1, "b": 1}, policy=Policy(top=1))
        curator.limit("a", column="n", rho="0.1")
        curator.limit(column="job", rho="0.1")
        session = curator.session("a")
        with pytest.raises(BudgetError) as own:
            session.query(STATEMENTS[3], rho="0.2")
        assert str(own.value) == (
            "your limit for t.n is reached. A less accurate answer may pass. "
            "Only the owner of the data can allow more. Nothing was charged."
        )
        session.query(STATEMENTS[3], rho="0.1")
        with pytest.raises(BudgetError, match="not your own"):
            session.query("SELECT job, COUNT(*) AS k FROM t GROUP BY job", rho="0.2")

    @pytest.mark.parametrize("free", ["nothing", "another", "discovery", "counts"])
    def test_past_answers_are_named_only_where_something_follows(
        self, free: str, opened: Opened, table: Table
    ) -> None:
        curator = opened(table, budget=Budget(rho=1, delta=1e-6, key_delta=1e-7))
        session = curator.session("b")
        if free == "counts":
            session.query(STATEMENTS[0], rho="0.01")
        elif free == "discovery":
            session.discover("town", table="t", rho="0.01", delta="1e-8")
        elif free == "another":
            # another analyst's answers are not hers
            curator.session("a").query(STATEMENTS[0], rho="0.01")
        with pytest.raises(BudgetError) as refused:
            session.query(STATEMENTS[1], rho=90)
        assert ("session.infer" in str(refused.value)) == (free == "counts")
        if free == "counts":
            session.infer(STATEMENTS[0])
        else:
            with pytest.raises(RequestError):
                session.infer(STATEMENTS[0])


@pytest.mark.fast
class TestFormulas:
    """What cannot be inferred is sent to what can: the hint works when it is followed."""

    @pytest.mark.parametrize(
        ("formula", "hint", "instead"),
        [
            ("SUM(n) / COUNT(*)", "each as a column of its own", "SUM(n), COUNT(*)"),
            ("LN(SUM(n))", "each as a column of its own", "SUM(n)"),
            ("VARIANCE(n)", "Infer a COUNT, SUM or AVG.", "SUM(n)"),
        ],
    )
    def test_of_an_inference(self, formula: str, hint: str, instead: str, opened: Opened) -> None:
        session = opened(analysts=None).session()
        session.query("SELECT COUNT(*) AS k, SUM(n) AS s FROM t", rho="0.1")
        with pytest.raises(RequestError) as refused:
            session.infer(f"SELECT {formula} AS f FROM t")
        assert hint in refused.value.hint
        assert "ratio" not in refused.value.hint
        assert session.infer(f"SELECT {instead} FROM t").estimate
