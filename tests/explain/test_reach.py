"""No influence is larger than the rows of the smallest group allow, and what cannot show is not sold."""

from __future__ import annotations

import pandas as pd
import pytest

from dpnb import Budget, Category, Integer, Schema, Session, Table
from dpnb.errors import RequestError
from dpnb.explain.reach import largest_influence

pytestmark = pytest.mark.fast

FEW, MANY = 20, 3_000
KINDS = {
    "g": Category(["few", "many"]),
    "x": Category(["u", "w"]),
    "v": Integer(2, 6),
    "z": Integer(0, 6),
}


def frame(few=FEW, many=MANY):
    rows = [(group, "uw"[i % 2], 2 if group == "few" else 2 + i % 5) for group, size in (("few", few), ("many", many)) for i in range(size)]  # fmt: skip
    return pd.DataFrame(rows, columns=["g", "x", "v"]).assign(z=lambda made: made["v"])


@pytest.fixture
def session(fast):
    table = Table("t", frame(), Schema(KINDS, complete=["v", "x", "z"]))
    with Session(table, budget=Budget(rho=10**4, delta=1e-6), noise=fast(1)) as opened:
        yield opened


def asked(session, aggregate, alias="m", rho=1):
    return session.query(f"SELECT g, {aggregate} FROM t GROUP BY g", rho=rho).compare(
        "many", "few", alias
    )


class TestBound:
    @pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(v)", "AVG(v)"])
    @pytest.mark.parametrize("weights", [{"a": 1, "b": -1}, {"a": 2, "b": 1, "c": -4}, {"c": 1}])
    def test_no_predicate_passes_it(self, aggregate, weights, mixed, mixed_engine, planned, exact):
        argument = aggregate.replace("v", "n")
        plan = planned(mixed, f"SELECT g, {argument} AS m FROM t GROUP BY g", weights)
        rows = mixed.source.groupby("g").size()[list(weights)].min()
        bound = largest_influence(plan.target, float(rows))
        assert max(abs(score) for score in exact(plan, mixed, mixed_engine).values()) <= bound

    def test_a_large_predicate_of_the_larger_group_nearly_reaches_it(self, planned, exact):
        made = frame(few=30, many=3_000).assign(x=["u"] * 30 + ["w"] * 2_970 + ["u"] * 30)
        table = Table("t", made, Schema(KINDS))
        sql = "SELECT g, COUNT(*) AS m FROM t GROUP BY g"
        plan = planned(table, sql, {"many": 1, "few": -1}, attributes=["x"])
        bound = largest_influence(plan.target, 30.0)
        assert 0.98 * bound <= max(exact(plan, table).values()) <= bound


class TestRefusal:
    @pytest.mark.parametrize(
        "aggregates",
        ["COUNT(*) AS m", "AVG(z) AS m", "SUM(v) AS m", "SUM(z) AS m, COUNT(*) AS n",
         "SUM(z) AS m, AVG(z) AS n"],
    )  # fmt: skip
    def test_where_nothing_can_come_out_nothing_is_spent(self, session, aggregates):
        """Counted in the answer, or known from a sum of values that are 2 or more."""
        question = asked(session, aggregates)
        price = session.price(question, rho="0.01")
        assert price.hopeless
        assert "no influence can be larger than its margin of error" in repr(price)
        for cost in ({"rho": "0.01"}, {"error": price.margin_of_error}):
            with pytest.raises(RequestError, match="the smallest group has too few rows"):
                session.explain(question, **cost)
        assert session.budget.spent.rho == 1
        assert session.explain(question, rho="0.01", anyway=True).rows

    def test_counts_may_come_from_another_answer(self, session):
        question = asked(session, "SUM(z) AS m")
        assert session.price(question, rho="0.01").largest is None
        session.query("SELECT x, g, COUNT(*) AS n FROM t GROUP BY x, g", rho=1)
        assert session.price(question, rho="0.01").hopeless

    def test_more_rho_is_sold_and_a_stored_explanation_is_shown_again(self, session):
        question = asked(session, "COUNT(*) AS m")
        assert not session.price(question, rho=10).hopeless
        session.explain(question, rho="0.01", anyway=True)
        assert session.explain(question, rho="0.01").stored

    def test_it_depends_on_released_numbers_alone(self, fast):
        """The same released numbers about another table: the same refusal at the same rho."""

        class Same(fast):
            def gaussian(self, exact, sigma):
                return super().gaussian([0 for _ in exact], sigma)

        said = []
        for few in (5, 4_000):
            table = Table("t", frame(few=few), Schema(KINDS))
            with Session(table, budget=Budget(rho=100), noise=Same(3)) as session:
                question = asked(session, "COUNT(*) AS m")
                with pytest.raises(RequestError) as caught:
                    session.explain(question if question.valid else question.flipped(), rho=1)
                said.append(str(caught.value))
        assert said[0] == said[1]
