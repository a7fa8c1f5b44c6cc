"""Whole sessions over joined tables: what they say depends on public facts, and all of it is paid for."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb import Category, DpnbError, Integer, Real, Schema, Table, Unit
from dpnb.errors import LedgerError, RequestError
from tests.kit.noise import BlindNoise, NoNoise
from tests.kit.streams import LONG

PRODUCTS = Schema(
    {
        "product_id": Integer(0, 20),
        "category": Category(["a", "b", "c"]),
        "price": Real(0, 64, bins=[0, 16, 64]),
    }
)
ORDERS = Schema(
    {
        "product_id": Integer(0, 20),
        "amount": Integer(0, 20, bins=[0, 10, 20]),
        "shop": Category(["x", "y"]),
    }
)
PEOPLE = Schema({"age": Integer(0, 99, bins=[0, 40, 99]), "sex": Category(["f", "m"])})
VISITS = Schema({"day": Integer(1, 7)})


def products(extra=0):
    generator = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "product_id": range(18),
            "category": generator.choice(["a", "b", "c"], 18),
            "price": generator.integers(0, 64, 18) + extra,
        }
    )


def orders(seed=2):
    generator = np.random.default_rng(seed)
    ids = [*[1] * 20, *generator.integers(1, 60, 400)]
    product = generator.integers(0, 21, len(ids))
    return pd.DataFrame(
        {
            "customer_id": ids,
            "product_id": product,
            "amount": (product + generator.integers(0, 6, len(ids))) % 21,
            "shop": generator.choice(["x", "y"], len(ids)),
        }
    )


def people():
    generator = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "customer_id": range(1, 51),
            "age": generator.integers(10, 90, 50),
            "sex": generator.choice(["f", "m"], 50),
        }
    )


def visits():
    generator = np.random.default_rng(4)
    return pd.DataFrame(
        {"customer_id": generator.integers(1, 60, 150), "day": generator.integers(1, 8, 150)}
    )


def tables(**changed):
    frames = {"orders": orders(), "people": people(), "products": products(), "visits": visits()}
    frames |= changed
    return [
        Table("orders", frames["orders"], ORDERS, Unit("customer_id", 8, 2)),
        Table("people", frames["people"], PEOPLE, Unit("customer_id", 1)),
        Table("products", frames["products"], PRODUCTS, public=True, key="product_id"),
        Table("visits", frames["visits"], VISITS, Unit("customer_id", 2)),
    ]


def opened(*, ledger=None, noise=None, **changed):
    new_version = changed.pop("new_version", False)
    rows = changed.pop("rows", None)
    return dpnb.Session(
        rows or tables(**changed),
        budget=dpnb.Budget(rho=5000, delta=1e-6),
        ledger=ledger,
        noise=noise or NoNoise(),
        new_version=new_version,
    )


BY_CATEGORY = (
    "SELECT p.category, COUNT(*) AS n, AVG(o.amount) AS mean FROM orders o "
    "JOIN products p ON o.product_id = p.product_id GROUP BY p.category"
)
BY_SEX = (
    "SELECT sex, COUNT(*) AS n, COUNT(DISTINCT customer_id) AS people, SUM(amount) AS total "
    "FROM orders JOIN people USING (customer_id) GROUP BY sex"
)
BY_DAY = "SELECT day, COUNT(*) AS n FROM orders JOIN visits USING (customer_id) GROUP BY day"
ALL = [
    BY_CATEGORY,
    BY_SEX,
    BY_DAY,
    "SELECT price, sex, COUNT(*) AS n FROM orders o LEFT JOIN products p ON o.product_id = p.product_id "
    "LEFT JOIN people q ON o.customer_id = q.customer_id GROUP BY price, sex",
    "SELECT COUNT(*) AS n FROM orders LEFT JOIN people USING (customer_id) WHERE age IS NULL",
    "SELECT MEDIAN(age) AS m, VARIANCE(amount) AS v FROM people JOIN orders USING (customer_id)",
    "SELECT age, COUNT(DISTINCT o.customer_id) AS n FROM orders o JOIN people p "
    "ON p.customer_id = o.customer_id GROUP BY age",
]


class TestSession:
    def test_an_answer_its_question_and_its_explanation(self):
        session = opened()
        answer = session.query(BY_CATEGORY, rho=100)
        assert list(answer.to_frame())[:2] == ["category", "n"]
        question = answer.compare("a", "b", "n")
        assert "products[" not in question.sentence
        explanation = session.explain(question, k=2, rho=100, anyway=True)
        named = " ".join(explanation.to_frame()["predicate"])
        assert any(column in named for column in ORDERS)
        assert "products[" not in named
        assert len(session.history) == 2

    def test_a_price_is_what_is_then_paid(self):
        session = opened()
        for sql in ALL:
            price = session.price(sql, rho=3)
            assert session.query(sql, rho=3).spent == price.spent

    def test_an_answer_is_repeated_and_refined_for_what_is_new(self):
        session = opened()
        assert session.query(BY_SEX, rho=3).spent.rho == 3
        again = BY_SEX.replace("orders JOIN people", "people JOIN orders")
        assert session.query(again, rho=3).spent.rho == 0
        assert session.query(again, rho=5).spent.rho == 2

    def test_a_decision_about_joined_groups(self):
        session = opened()
        sql = BY_CATEGORY.replace(", AVG(o.amount) AS mean", "") + " HAVING COUNT(*) > 60"
        decision = session.decide(sql, beta=0.05, u=40)
        counts = session.query(BY_CATEGORY, rho=100).to_frame().set_index("category")["n"]
        selected = decision.to_frame().set_index("category")["selected"]
        for group, count in counts.items():
            if count > 60:
                assert selected[group]

    def test_an_inference_from_joined_answers(self):
        session = opened()
        counts = session.query(BY_CATEGORY, rho=100).to_frame().set_index("category")["n"]
        found = session.infer(
            "SELECT COUNT(*) AS n FROM orders JOIN products USING (product_id) "
            "WHERE category <> 'c'"
        )
        assert found.estimate == pytest.approx(counts["a"] + counts["b"], abs=0.01)
        assert "products[product_id].category" in found.sources[0].statement

    def test_left_joins_keep_what_inner_joins_leave_out(self):
        session = opened()
        texts = [
            "SELECT COUNT(*) AS n FROM orders",
            "SELECT COUNT(*) AS n FROM orders LEFT JOIN products USING (product_id)",
            "SELECT COUNT(*) AS n FROM orders JOIN products USING (product_id)",
            "SELECT COUNT(*) AS n FROM orders LEFT JOIN products USING (product_id) "
            "WHERE category IS NULL",
        ]
        every, left, inner, missing = (
            session.query(text, rho=50).to_frame()["n"][0] for text in texts
        )
        assert every == left == inner + missing
        assert missing > 0

    def test_two_analysts_share_a_view_of_joined_rows(self):
        curator = dpnb.Curator(
            tables(), budget=dpnb.Budget(rho=50), analysts={"alice": 4, "bob": 2}, noise=NoNoise()
        )
        first = curator.session("alice").query(BY_SEX, rho=2)
        second = curator.session("bob").query(BY_SEX, rho=2)
        assert first.to_frame().equals(second.to_frame())
        assert curator.budget.spent.rho == 2

    def test_a_rehearsal_joins_generated_tables(self):
        session = opened().rehearse(rows=500)
        for sql in ALL:
            frame = session.query(sql, rho=500).to_frame()
            assert len(frame)
        assert session.query(BY_CATEGORY, rho=900).to_frame()["n"].sum() > 50

    def test_the_owner_sees_the_risk_of_joined_rows(self):
        curator = dpnb.Curator(tables(), budget=dpnb.Budget(rho=50), noise=NoNoise())
        alone = curator.risk("SELECT COUNT(*) AS n FROM orders")
        joined = curator.risk(
            "SELECT category, COUNT(*) AS n FROM orders JOIN products USING (product_id) GROUP BY category"
        )
        assert repr(joined).splitlines()[0] == repr(alone).splitlines()[0]

    def test_declared_views_are_of_declared_columns(self):
        curator = dpnb.Curator(
            tables(),
            budget=dpnb.Budget(rho=50),
            analysts={"alice": 4},
            views="attributes",
            noise=NoNoise(),
        )
        shown = repr(curator.provenance)
        assert "products[" not in shown
        assert "*" not in "".join(curator.tables)


class TestLosses:
    def test_people_pay_for_all_their_rows(self):
        session = opened()
        session.query("SELECT COUNT(*) AS n FROM people", rho=1)
        session.query("SELECT COUNT(*) AS n FROM orders JOIN people USING (customer_id)", rho=2)
        session.query("SELECT COUNT(*) AS n FROM orders JOIN visits USING (customer_id)", rho=3)
        # a person has rows in each of these tables: what is asked of them adds up
        assert session.budget.spent.rho == 6

    def test_joined_groups_are_apart_and_share(self):
        session = opened()
        for sex in "fm":
            session.query(
                f"SELECT COUNT(*) AS n FROM orders JOIN people USING (customer_id) WHERE sex = '{sex}'",
                rho=2,
            )
        assert session.budget.spent.rho == 2

    def test_noise_is_that_of_the_measured_table(self):
        session = opened()
        distributions = {}
        for name, text in {
            "orders": "SELECT COUNT(*) AS n FROM orders",
            "joined": "SELECT COUNT(*) AS n FROM orders JOIN people USING (customer_id)",
            "pairs": "SELECT COUNT(*) AS n FROM orders JOIN visits USING (customer_id)",
        }.items():
            (distribution,) = session.query(text, rho="0.5").record()["noise"]
            distributions[name] = distribution["count"]["scale"]
        assert distributions == {"orders": 8, "joined": 8, "pairs": 16}

    def test_studies_of_a_public_table_do_not_look_up_sensitive_rows(self):
        listed = tables()
        listed[0] = Table("orders", orders(), ORDERS, Unit("customer_id", 8), public=True)
        with opened(rows=listed) as session, pytest.raises(DpnbError, match="public"):
            session.query(BY_SEX, rho=1)

    def test_studies_of_pairs_need_both_tables_to_be_public(self):
        listed = tables()
        listed[0] = Table("orders", orders(), ORDERS, Unit("customer_id", 8), public=True)
        with opened(rows=listed) as session, pytest.raises(RequestError, match="public"):
            session.decide(BY_DAY + " HAVING COUNT(*) > 3", beta=0.05, u=10, mode="paper")


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A ledger with an answer about the tables as they are."""
    path = tmp_path_factory.mktemp("versions") / "l"
    with opened(ledger=path) as session:
        session.query(BY_SEX, rho=2)
    return path


class TestVersions:
    def test_the_same_tables_are_the_same_version(self, tmp_path):
        with opened(ledger=tmp_path / "l") as session:
            first = [session.query(sql, rho=2).to_frame().to_csv() for sql in ALL]
            spent = session.budget.spent
        with opened(ledger=tmp_path / "l") as session:
            again = [session.query(sql, rho=2).to_frame().to_csv() for sql in ALL]
            assert session.budget.spent == spent
        assert again == first

    @pytest.mark.parametrize(
        "changed",
        [
            {"products": products(extra=1)},
            {"products": products().iloc[1:]},
            {"people": people().iloc[1:]},
            {"visits": visits().iloc[1:]},
        ],
        ids=["a price", "a product less", "a person less", "a visit less"],
    )
    def test_another_table_that_is_looked_up_is_refused(self, changed, asked, tmp_path):
        shutil.copy(asked, tmp_path / "l")
        with pytest.raises(LedgerError, match="other data"):
            opened(ledger=tmp_path / "l", **changed)
        with opened(ledger=tmp_path / "l", new_version=True, **changed) as session:
            assert session.budget.spent.rho == 2
            if "visits" not in changed:
                # nothing of the old version is served again
                assert session.query(BY_SEX, rho=2).spent.rho == 2

    def test_another_schema_of_a_table_that_is_looked_up_is_refused(self, tmp_path):
        opened(ledger=tmp_path / "l").close()
        listed = tables()
        schema = Schema({**PRODUCTS, "price": Real(0, 32, bins=[0, 16, 32])})
        listed[2] = Table("products", products(), schema, public=True, key="product_id")
        with pytest.raises(LedgerError, match="another schema"):
            opened(rows=listed, ledger=tmp_path / "l")

    def test_bounds_of_both_tables_belong_to_the_version_of_their_pairs(self, tmp_path):
        opened(ledger=tmp_path / "l").close()
        listed = tables()
        listed[0] = Table("orders", orders(), ORDERS, Unit("customer_id", 4, 2))
        listed[3] = Table("visits", visits(), VISITS, Unit("customer_id", 4))
        with pytest.raises(LedgerError, match="another schema"):
            opened(rows=listed, ledger=tmp_path / "l")

    def test_a_table_alone_is_defined_as_before(self):
        (alone,) = dpnb.Curator(tables()[0], budget=dpnb.Budget(rho=1)).tables.values()
        assert "joins" not in alone.definition()
        assert "key" not in alone.definition()


def said(noise, **changed):
    """All that a session says, as texts."""
    found = []
    with opened(noise=noise, **changed) as session:
        found.append(repr(session.tables))
        for sql in [*ALL, "SELECT COUNT(*) FROM orders JOIN nope USING (customer_id)"]:
            for level in (0.5, 2, 100_000) if sql in ALL[:3] else (2, 100_000):
                for work in (session.price, session.query):
                    try:
                        found.append(repr(work(sql, rho=level)))
                    except DpnbError as error:
                        found.append(repr((error.args, error.__cause__, error.__context__)))
        answer = session.query(BY_CATEGORY, rho=1)
        question = answer.compare("a", "b", "n")
        found.append(repr(session.explain(question, k=2, rho=10, anyway=True).to_frame().columns))
        found.append(json.dumps(answer.record(), sort_keys=True))
        decided = session.decide(BY_DAY + " HAVING COUNT(*) > 30", beta=0.05, u=200)
        found.append(repr(decided))
        found.append(repr(session.budget))
    return found


ONE = 1
NEIGHBOURS = {
    "nobody's orders": {"orders": orders().iloc[:0]},
    "a person without orders": {"orders": orders()[lambda f: f.customer_id != ONE]},
    "a person nowhere": {
        "orders": orders()[lambda f: f.customer_id != ONE],
        "people": people()[lambda f: f.customer_id != ONE],
        "visits": visits()[lambda f: f.customer_id != ONE],
    },
    "nobody to look up": {"people": people().iloc[:0]},
    "people twice, and one who visits all the time": {
        "people": pd.concat([people(), people().assign(age=1)], ignore_index=True),
        "visits": pd.DataFrame({"customer_id": [ONE] * 500, "day": [1] * 500}),
    },
    "ids that are nobody's": {
        "people": people().assign(customer_id=lambda f: f.customer_id + 10_000)
    },
}


@pytest.fixture(scope="module")
def reference():
    return said(BlindNoise())


@pytest.mark.parametrize(
    "name",
    NEIGHBOURS
    if LONG
    else (
        "nobody's orders",
        "a person nowhere",
        "people twice, and one who visits all the time",
    ),
)
def test_the_stream_of_messages_is_identical(name, reference):
    assert said(BlindNoise(), **NEIGHBOURS[name]) == reference


def test_the_comparison_would_notice_a_leak():
    assert said(NoNoise(), **NEIGHBOURS["nobody to look up"]) != said(NoNoise())


def test_what_was_opened_shows_no_rows():
    curator = dpnb.Curator(tables(), budget=dpnb.Budget(rho=1))
    assert repr(curator) == "Curator(orders, people, products, visits)"
    for table in curator.tables.values():
        assert "DataFrame" not in repr(table)
        assert "DataFrame" not in str(table.definition())


def test_a_wider_table_costs_more_noise_only():
    session = opened()
    prices = [session.price(sql, rho=1).spent.rho for sql in (BY_DAY, BY_SEX, BY_CATEGORY)]
    assert prices == [Fraction(1)] * 3
