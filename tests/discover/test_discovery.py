"""Values that nobody declared: whole sessions on real invoice lines."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpnb
from dpnb import Budget, Discovery, Integer, Schema, Table, Unit
from dpnb.curator import Curator
from dpnb.display.cards.discovery import detection_sentence
from dpnb.errors import BudgetError, RequestError, SchemaError, SqlError
from dpnb.privacy.loss import Picked
from tests.kit.loaded import loaded_once  # noqa: F401
from tests.kit.noise import ContinuousNoise
from tests.kit.one_database import one_database  # noqa: F401

DECLARED = {"quantity": Integer(-20, 50, bins=[-20, 0, 10, 50])}
SCHEMA = Schema(DECLARED, undeclared=["country"])
BUDGET = Budget(epsilon=3, delta=1e-6, key_delta=1e-7)
UNIT = Unit("customer_id", max_rows=20, max_groups=1)


@pytest.fixture(scope="module")
def frame():
    path = Path(__file__).parents[1] / "data" / "online_retail.parquet"
    columns = "customer_id, country, quantity"
    return duckdb.sql(f"SELECT {columns} FROM '{path}' WHERE customer_id % 4 = 0").df()


def table(frame, unit=None, schema=SCHEMA):
    return Table("sales", frame, schema, unit)


def exact(frame, unit=None, schema=SCHEMA):
    """Values with their counts, as an engine has them."""
    with_noise = Curator(table(frame, unit, schema), budget=BUDGET, noise=ContinuousNoise())
    tally = with_noise._runner.engines["sales"].tally(0, 1)
    with_noise.close()
    assert tally.total == len(tally.texts)
    return dict(zip(tally.texts, tally.counts, strict=True))


class TestWhatIsCounted:
    def test_rows(self, frame):
        assert exact(frame) == frame.groupby("country").size().to_dict()

    def test_each_customer_once(self, frame):
        found = exact(frame, Unit("customer_id", max_rows=10_000, max_groups=1))
        assert sum(found.values()) == frame["customer_id"].nunique()
        assert found.keys() <= set(frame["country"])

    def test_all_values_of_a_customer_where_they_may_count(self, frame):
        found = exact(frame, Unit("customer_id", max_rows=10_000, max_groups=10))
        assert found == frame.groupby("country")["customer_id"].nunique().to_dict()

    def test_values_by_their_text_short_ones_only(self):
        values = ["a", "a", " a", "A", None, "x" * 100, "y" * 101, "", "a'b\\"]
        rows = pd.DataFrame({"country": values, "quantity": 1})
        assert exact(rows) == {"a": 2, " a": 1, "A": 1, "x" * 100: 1, "": 1, "a'b\\": 1}

    def test_whole_numbers_by_their_text(self):
        rows = pd.DataFrame({"country": [7, 7, 12], "quantity": 1})
        assert exact(rows) == {"7": 2, "12": 1}

    def test_a_file_and_a_frame_alike(self, frame, tmp_path):
        found = exact(frame)
        frame.to_parquet(tmp_path / "sales.parquet")
        assert exact(str(tmp_path / "sales.parquet")) == found
        frame.to_csv(tmp_path / "sales.csv", index=False)
        assert exact(str(tmp_path / "sales.csv")) == found

    def test_rare_ones_are_only_numbered(self):
        rows = pd.DataFrame({"country": ["a"] * 3 + ["b"] * 2 + list("cdef"), "quantity": 1})
        curator = Curator(table(rows), budget=BUDGET, noise=ContinuousNoise())
        tally = curator._runner.engines["sales"].tally(0, 3)
        curator.close()
        assert (tally.texts, tally.counts, tally.total) == (("a",), (3,), 6)


class TestWhatIsFound:
    def test_common_values_are_found_and_the_hidden_ones_are_numbered(self, frame):
        # nothing is cut: which rows and values a ledger picks would be chance
        unit = Unit("customer_id", max_rows=10_000, max_groups=10)
        held = exact(frame, unit)
        budget = Budget(epsilon=30, delta=1e-6, key_delta=1e-7)
        with dpnb.Session(table(frame, unit), budget=budget, noise=ContinuousNoise()) as session:
            # each level is another draw
            for number in range(10):
                rho = Fraction(500 + number, 10_000)
                found = session.discover("country", rho=rho, delta="1e-8", confidence=1 - 1e-9)
                assert not found.stored
                for value, count in held.items():
                    if count >= found.detection.surely:
                        assert value in found.keys
                assert set(found.keys) <= held.keys()
                assert found.hidden_low <= len(held) - len(found.keys) <= found.hidden_high

    def test_the_most_common_one_comes_first(self, frame):
        with dpnb.Session(table(frame), budget=BUDGET) as session:
            assert session.discover("country", rho="0.05").keys[0] == "United Kingdom"

    def test_once_paid_it_is_free_also_after_reopening(self, frame, tmp_path):
        path = tmp_path / "ledger"
        with dpnb.Session(table(frame, UNIT), budget=BUDGET, ledger=path) as session:
            first = session.discover("country", rho="0.05")
            again = session.discover("COUNTRY", rho="0.05", table="sales")
            assert first.spent == dpnb.PrivacyLoss(Fraction(1, 20), delta=Fraction(1, 10**8))
            assert session.budget.spent == first.spent
        with dpnb.Session(table(frame, UNIT), ledger=path) as session:
            third = session.discover("country", rho="0.05")
            assert session.budget.spent == first.spent
            assert session.budget.remaining.delta == Fraction(9, 10**8)
        for one in (again, third):
            assert one.stored
            assert one.spent == dpnb.PrivacyLoss.none()
            assert one.keys == first.keys
            assert (one.hidden_low, one.hidden_high) == (first.hidden_low, first.hidden_high)

    def test_two_analysts_pay_each_and_all_together_once(self, frame):
        curator = Curator(table(frame), budget=BUDGET, analysts={"ann": 1, "bob": 1})
        ann, bob = curator.session("ann"), curator.session("bob")
        one, other = (who.discover("country", rho="0.02", delta=1e-9) for who in (ann, bob))
        assert one.keys == other.keys
        assert one.spent == other.spent == ann.budget.spent == bob.budget.spent
        assert curator.budget.spent == one.spent
        # what is set aside is open to both, and to both together only once
        with pytest.raises(BudgetError, match="9.9e-8 is left"):
            ann.discover("country", rho="0.01", delta="9.95e-8")
        ann.discover("country", rho="0.01", delta="9.9e-8")
        assert bob.budget.remaining.delta == Fraction(99, 10**9)
        with pytest.raises(BudgetError, match="budget exhausted"):
            bob.discover("country", rho="0.01", delta="1e-9")
        curator.close()

    def test_privileges_share_what_is_set_aside(self, frame):
        curator = Curator(table(frame), budget=BUDGET, analysts={"ann": 4, "bob": 1})
        ann, bob = curator.session("ann"), curator.session("bob")
        assert ann.budget.cap.delta == Fraction(1, 10**7)
        assert bob.budget.cap.delta == Fraction(1, 4 * 10**7)
        curator.limit("bob", rho="0.01")
        assert bob.budget.cap.delta == Fraction(1, 4 * 10**7)
        with pytest.raises(BudgetError, match="2.5e-8 is left"):
            bob.discover("country", rho="0.001", delta="3e-8")
        bob.discover("country", rho="0.001", delta="2.5e-8")
        with pytest.raises(BudgetError, match="All delta for finding values is spent"):
            bob.discover("country", rho="0.002", delta="1e-9")
        curator.close()

    def test_it_can_be_declared_and_grouped_by(self, frame, tmp_path):
        path = tmp_path / "ledger"
        with dpnb.Session(table(frame, UNIT), budget=BUDGET, ledger=path) as session:
            found = session.discover("country", rho="0.05")
        # as its card says
        assert "declare the column (.category())" in repr(found)
        assert "open the ledger with new_version=True" in repr(found)
        schema = Schema({**DECLARED, "country": found.category()})
        opened = table(frame, UNIT, schema)
        with dpnb.Session(opened, ledger=path, new_version=True) as session:
            assert session.budget.spent == found.spent
            sql = "SELECT country, COUNT(*) AS n FROM sales GROUP BY country"
            answer = session.query(sql, rho="0.02")
            assert [key for (key,) in answer.groups] == [*found.keys, "(other)"]

    def test_the_record_survives_json_and_says_what_it_rests_on(self, frame):
        with dpnb.Session(table(frame, UNIT), budget=BUDGET) as session:
            found = session.discover("country", rho="0.05")
        assert Discovery.from_dict(found.to_dict()) == found
        record = found.record()
        assert record["noise"]["threshold"] == found.detection.threshold.count
        assert record["guarantee"] == "unconditional"
        assert record["privacy_unit"].startswith("all rows of one customer_id")

    def test_a_picked_amount_marks_it(self, frame):
        with dpnb.Session(table(frame), budget=BUDGET) as session:
            found = session.discover("country", rho=Picked(0.05))
        assert found.conditional
        assert "DATA-DEPENDENT" in repr(found)

    def test_a_rehearsal_discovers_made_up_values(self, frame):
        with dpnb.Session(table(frame), budget=BUDGET) as session:
            found = session.rehearse().discover("country", rho="0.05")
            assert session.budget.spent == dpnb.PrivacyLoss.none()
        assert found.keys
        assert all(key.startswith("country ") for key in found.keys)
        assert found.stamp == "rehearsal"

    def test_the_price_is_what_is_paid(self, frame):
        with dpnb.Session(table(frame, UNIT), budget=BUDGET) as session:
            price = session.price_discovery("country", rho="0.05")
            assert session.budget.spent == dpnb.PrivacyLoss.none()
            found = session.discover("country", rho="0.05")
            assert price.spent == found.spent
            assert price.detection == found.detection
            assert session.price_discovery("country", rho="0.05").spent == dpnb.PrivacyLoss.none()
            assert not session.price_discovery("country", rho=1).affordable
            assert "Only rho" in repr(session.price_discovery("country", rho=1))
            price = session.price_discovery("country", rho="0.01", delta="9.5e-8")
            assert not price.affordable
            assert "Only delta 9e-8 is left" in repr(price)
            price = session.price_discovery("country", rho="0.001", delta="9e-8")
            assert price.share() == 1  # of what is left of delta

    def test_it_says_whose_values_it_speaks_of(self, frame):
        unit = Unit("customer_id", max_rows=20, max_groups=3)
        with dpnb.Session(table(frame, unit), budget=BUDGET) as session:
            said = detection_sentence(
                session.price_discovery("country", rho="0.05", delta="1.0549e-8").detection
            )
        assert "different customer_id is found" in said
        assert (
            "counted for a single customer_id is found with a probability of at most 1.0549e-8"
            in said
        )
        assert "Each customer_id counts for at most 3 values" in said
        assert "texts of more than 100 letters, are neither found nor included" in said

    def test_values_are_searched_with_one_for_each_person(self, frame):
        """Also where people count in all their groups: 20 values each would hide all but the commonest."""
        with dpnb.Session(table(frame, Unit("customer_id", max_rows=20)), budget=BUDGET) as session:
            detection = session.price_discovery("country", rho="0.05").detection
            assert session.discover("country", rho="0.05").detection == detection
        assert detection.groups == 1
        assert "counts for at most one value" in detection_sentence(detection)

    def test_a_rehearsal_has_what_is_left_of_delta(self, frame):
        with dpnb.Session(table(frame), budget=BUDGET) as session:
            session.discover("country", rho="0.01", delta="1e-7")
            with pytest.raises(RequestError, match="no delta was set aside"):
                session.rehearse().discover("country", rho="0.01")

    def test_epsilon_means_what_is_not_set_aside(self, frame):
        with dpnb.Session(table(frame), budget=BUDGET) as session:
            found = session.discover("country", epsilon=1)
        assert found.spent.epsilon_at(Fraction(9, 10**7)) == pytest.approx(1, rel=1e-6)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("budget", "text"),
        [
            (Budget(rho=1), "no delta was set aside"),
            (Budget(epsilon=1, delta=1e-6), "no delta was set aside"),
            (Budget(epsilon=1), "the default for a budget with a delta"),
            (
                Budget(epsilon=1, delta=1e-6, accountant="gdp"),
                "the default for a budget with a delta",
            ),
        ],
    )
    def test_without_a_delta_that_was_set_aside(self, frame, budget, text):
        with dpnb.Session(table(frame), budget=budget) as session:
            with pytest.raises(RequestError, match=text):
                session.discover("country", rho="0.01")
            # nothing about a delta where there is nothing to find
            with pytest.raises(RequestError, match="the values of 'QUANTITY' are declared"):
                session.discover("QUANTITY", rho="0.01")

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({}, RequestError, "exactly one of rho and epsilon"),
            ({"rho": 1, "epsilon": 1}, RequestError, "exactly one of rho and epsilon"),
            ({"rho": -1}, RequestError, "rho must be above 0, got -1"),
            ({"rho": 0.1, "delta": 0}, RequestError, "delta must be above 0, got 0"),
            ({"rho": 0.1, "delta": "1e-7", "table": "x"}, RequestError, "no table 'x'"),
            ({"rho": 0.1, "delta": "2e-7"}, RequestError, "2e-7, but only 1e-7 was set aside"),
            ({"rho": 0.1, "delta": 5}, RequestError, "was set aside"),
            ({"rho": 0.1, "confidence": 10**400}, RequestError, "confidence"),
            ({"rho": 9}, BudgetError, "rho 9"),
            (
                {"rho": 0.1, "confidence": 1},
                RequestError,
                "between 0 and 1, got 1",
            ),
            ({"rho": 0.1, "confidence": None}, RequestError, "must be a number"),
        ],
    )
    def test_amounts(self, frame, options, error, text):
        with dpnb.Session(table(frame), budget=BUDGET) as session:
            for ask in (session.discover, session.price_discovery):
                if error is BudgetError and ask == session.price_discovery:
                    continue
                with pytest.raises(error, match=text):
                    ask("country", **options)
            assert session.budget.spent == dpnb.PrivacyLoss.none()

    @pytest.mark.parametrize(
        ("column", "text"),
        [
            ("quantity", "are declared"),
            ("city", "no undeclared column 'city'"),
            ("customer_id", "no undeclared column"),
            (None, "must be a string"),
        ],
    )
    def test_columns(self, frame, column, text):
        with (
            dpnb.Session(table(frame), budget=BUDGET) as session,
            pytest.raises(RequestError, match=text),
        ):
            session.discover(column, rho="0.01")

    def test_statements_do_not_know_the_column(self, frame):
        with (
            dpnb.Session(table(frame), budget=BUDGET) as session,
            pytest.raises(SqlError, match="the values of 'country' are not declared"),
        ):
            session.query("SELECT country, COUNT(*) AS n FROM sales GROUP BY country", rho=0.01)

    @pytest.mark.parametrize(
        ("schema", "unit", "text"),
        [
            ({"undeclared": ["nowhere"]}, None, "no column 'nowhere'"),
            (
                {"undeclared": ["CUSTOMER_ID"]},
                UNIT,
                "the ids of the privacy unit, cannot be discovered",
            ),
            ({"undeclared": ["Quantity"]}, None, "is declared and also in undeclared"),
            ({"undeclared": "country"}, None, "list of column names"),
            (
                {"undeclared": ["a", "A"]},
                None,
                "two undeclared columns differ only in upper and lower case",
            ),
        ],
    )
    def test_declarations(self, frame, schema, unit, text):
        rows = frame.assign(price=1.5)
        with pytest.raises(SchemaError, match=text):
            dpnb.Session(table(rows, unit, Schema(DECLARED, **schema)), budget=BUDGET)

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"epsilon": 1, "key_delta": 1e-7}, "key_delta needs a zCDP budget"),
            ({"epsilon": 1, "delta": 1e-6, "key_delta": 1e-6}, "must be less than delta"),
            ({"rho": 1, "key_delta": 1}, "must be less than delta"),
            ({"rho": 1, "key_delta": 0}, "key_delta must be above 0, got 0"),
        ],
    )
    def test_budgets(self, options, text):
        with pytest.raises(RequestError, match=text):
            Budget(**options)

    def test_another_is_refused_that_has_the_name_of_a_found_one(self, frame):
        with dpnb.Session(table(frame), budget=BUDGET) as session:
            found = session.discover("country", rho="0.05")
        with pytest.raises(SchemaError, match="Choose another name"):
            found.category(other="United Kingdom")


class TestTheBudget:
    def test_what_is_set_aside_is_taken_from_delta(self):
        plain = Budget(epsilon=3, delta=Fraction(9, 10**7))
        assert BUDGET.cap.rho == plain.cap.rho
        assert BUDGET.cap.delta == Fraction(1, 10**7)
        assert Budget.from_dict(BUDGET.to_dict()) == BUDGET
        assert Budget(rho=1, key_delta="1e-8").cap == dpnb.PrivacyLoss(
            Fraction(1), delta=Fraction(1, 10**8)
        )

    def test_the_schema_is_written_and_read(self, tmp_path):
        path = tmp_path / "sales.toml"
        path.write_text(SCHEMA.to_toml())
        assert Schema.load(path) == SCHEMA


class TestHowItLooks:
    @pytest.fixture
    def found(self):
        rows = pd.DataFrame({"country": ["<b>x</b>\x1b[31m"] * 500 + ["y"] * 400, "quantity": 1})
        with dpnb.Session(table(rows), budget=BUDGET) as session:
            return session.discover("country", rho="0.1")

    def test_values_are_texts_wherever_they_are_shown(self, found, tmp_path):
        html = found._repr_html_()
        assert "&lt;b&gt;x" in html
        assert "<b>x" not in html
        assert "\x1b" not in repr(found)
        found.to_html(tmp_path / "page.html")
        assert "&lt;b&gt;x" in (tmp_path / "page.html").read_text("utf-8")

    def test_the_figure_says_from_when_a_value_is_found(self, found):
        ax = found.plot()
        assert ax.get_xlabel() == "rows of a value"
        assert any(f"{found.detection.surely:,}" in text.get_text() for text in ax.texts)

    def test_many_values_are_shown_in_part(self):
        values = [f"v{i:03}" for i in range(60) for _ in range(500)]
        rows = pd.DataFrame({"country": values, "quantity": 1})
        with dpnb.Session(table(rows), budget=BUDGET) as session:
            found = session.discover("country", rho="0.1")
        assert len(found.to_frame()) == 60
        assert "20 more values: see to_frame()" in repr(found)
