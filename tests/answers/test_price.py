"""Prices, budgets and other small tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction

import pytest

import dpnb
from dpnb.answers.price import Price
from dpnb.errors import BudgetError
from dpnb.results import InfoTable

pytestmark = pytest.mark.fast

Open = Callable[..., dpnb.Session]
COUNT = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
MEAN = "SELECT region, AVG(score) AS mean FROM people GROUP BY region"


class TestListing:
    def test_rows_header_and_frame_agree(self) -> None:
        listing = InfoTable("Things.", ("name", "size"), (("a", "1"), ("b", "2")))
        assert len(listing) == 2
        assert list(listing) == [("a", "1"), ("b", "2")]
        found = listing.to_frame()
        assert list(found.columns) == ["name", "size"]
        assert found.to_numpy().tolist() == [["a", "1"], ["b", "2"]]
        assert "Things." in repr(listing)

    def test_a_long_statement_leaves_room_for_the_other_columns(self) -> None:
        long = f"SELECT COUNT(*) AS n FROM t WHERE {' OR '.join(f'age = {i}' for i in range(99))}"
        listing = InfoTable("", ("time", "statement", "cost"), (("10:00", long, "0.05"),) * 2)
        lines = repr(listing).splitlines()[2:]
        assert max(map(len, lines)) == 160
        assert lines[0].endswith("cost")
        for line in lines[1:]:
            assert line.startswith("10:00  SELECT COUNT(*)")
            assert line.endswith("...  0.05")

    def test_an_empty_listing_keeps_its_columns(self) -> None:
        assert list(InfoTable("None.", ("name",), ()).to_frame().columns) == ["name"]


class TestPrice:
    def test_the_price_is_what_is_then_paid_and_the_width_what_is_then_shown(
        self, opened: Open
    ) -> None:
        for budget, wanted in (({"rho": 2}, {"rho": 0.5}), ({"epsilon": 2}, {"epsilon": 0.5})):
            session = opened(**budget)
            for target in (wanted, {k: 1.5 * v for k, v in wanted.items()}):
                price = session.price(COUNT, **target)
                answer = session.query(COUNT, **target)
                assert price.affordable
                assert price.spent.level(price.privacy) == answer.spent.level(price.privacy)
                ((alias, rows, width),) = price.widths
                assert (alias, rows) == ("n", None)
                half = (answer.estimates[0].high[0] - answer.estimates[0].low[0]) / 2
                assert width == pytest.approx(half, rel=1e-9)

    def test_asking_the_price_spends_nothing(self, opened: Open) -> None:
        session = opened(rho=1)
        for _ in range(20):
            session.price([COUNT, MEAN], rho=0.9)
        assert session.budget.spent.rho == 0
        assert len(session.history) == 0

    def test_a_list_is_priced_one_after_the_other(self, opened: Open) -> None:
        session = opened(rho=1)
        first, same, dear = session.price([COUNT, COUNT, MEAN], rho=0.6)
        assert (first.spent.rho, same.spent.rho) == (Fraction("0.6"), 0)
        assert first.affordable
        assert same.affordable
        assert not dear.affordable
        assert dear.remaining.rho == Fraction("0.4")
        with pytest.raises(BudgetError):
            [session.query(sql, rho=0.6) for sql in (COUNT, COUNT, MEAN)]

    def test_what_was_bought_before_is_free(self, opened: Open) -> None:
        session = opened(rho=1)
        session.query(COUNT, rho=0.5)
        price = session.price(COUNT, rho=0.5)
        assert price.spent.rho == 0
        assert price.share() == 0
        assert "Price: free" in repr(price).splitlines()

    def test_what_would_be_bought_where_that_is_less_than_is_asked_for(self, opened: Open) -> None:
        session = opened(epsilon=4)
        less, more = session.price([COUNT, COUNT], epsilon="0.9999")
        said = "In a pure session, epsilon is rounded down to a fixed grid, here to 0.8409."
        assert said in repr(less)
        assert Price.from_dict(json.loads(json.dumps(less.to_dict()))) == less
        assert "here to 0.8409 and 0.8409." in repr(Price.together([less, more]))
        assert "fixed grid" not in repr(session.price(COUNT, epsilon=1))
        assert "fixed grid" not in repr(session.price(COUNT, error=50))

    def test_too_dear_is_said_in_words(self, opened: Open) -> None:
        price = opened(rho=1).price(COUNT, rho=3)
        assert "Only rho 1 is left." in repr(price)
        assert "100 % left, which is too little" in repr(price)
        assert price.share() == 3

    def test_an_average_is_priced_for_two_sizes_or_the_one_named(self, opened: Open) -> None:
        session = opened(rho=1)
        assert [size for _, size, _ in session.price(MEAN, rho=0.1).widths] == [100, 1_000]
        ((_, rows, width),) = session.price(MEAN, error=0.5, rows=80).widths
        assert rows == 80
        assert width <= 0.5


class TestBudgetStatus:
    def test_cap_spent_and_remaining_add_up(self, opened: Open) -> None:
        session = opened(rho=1, delta=1e-6)
        session.query(COUNT, rho=0.25)
        status = session.budget
        assert status.spent.rho + status.remaining.rho == status.cap.rho == 1
        lines = repr(status).splitlines()
        assert "75 % of the budget is left" in lines
        facts = ["spent   rho 0.25", "left    rho 0.75", "in all  rho 1"]
        assert [
            line for line in lines if "  rho " in line or line.startswith(("spent", "left"))
        ] == facts
        assert (
            "At delta 1e-6, rho 0.25 amounts to epsilon 3.543, and rho 1 to epsilon 7.767." in lines
        )
        assert "in this kernel only" in lines[-1]


def test_a_condition_in_a_case_narrows_bounds(opened: Open) -> None:
    """docs/sql.md says so: the margin of error is that of the values that are left."""
    statements = ("SUM(score)", "SUM(CASE WHEN score < 3 THEN score END)")
    prices = opened(rho=9).price(
        [f"SELECT {one} AS s FROM people" for one in statements], rho="0.1"
    )
    (_, _, wide), (_, _, narrow) = (price.widths[0] for price in prices)
    assert narrow == pytest.approx(wide * 0.2)
