"""Joined statements measure what DuckDB's own SQL finds in normalised rows, and no more of one person."""

from __future__ import annotations

import itertools
import pickle
from decimal import Decimal
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.engines.contributions import ContributionScan, Part
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.engines.marginals import MarginalScan
from dpnb.errors import SchemaError, SqlError
from dpnb.privacy.definition import ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.schema.joins import joined
from dpnb.schema.partition import labels
from dpnb.sql.parser import parse
from dpnb.sql.values import Column
from dpnb.views.histogram import axis
from dpnb.views.measures import Count, sum_of
from tests.kit.groups import own

KINDS = ["a", "b", "c", "rest"]
PRODUCTS = Schema(
    {
        "product_id": Integer(0, 30, bins=[0, 10, 30]),
        "category": Category(KINDS, other="rest"),
        "price": Real(0, 64, bins=[0, 8, 16, 64]),
        "weight": Integer(0, 500),
        "since": Date("2020-01-01", "2024-12-31"),
    }
)
SHOPS = Schema({"shop": Category(["x", "y", "z"]), "city": Category(["Ulm", "Bonn"])})
CITIES = Schema(
    {
        "city": Category(["Ulm", "Bonn"]),
        "land": Category(["south", "north"]),
        "people": Integer(0, 99),
    }
)
SALES = Schema(
    {
        "product_id": Integer(0, 30),
        "other_id": Integer(0, 30, bins=[0, 5, 30]),
        "shop": Category(["x", "y", "z"]),
        "amount": Integer(0, 20),
        "paid": Real(0, 100),
    }
)
PEOPLE = Schema({"age": Integer(0, 99, bins=[0, 40, 99]), "sex": Category(["f", "m"])})
ORDERS = Schema({"product_id": Integer(0, 30), "amount": Integer(0, 20)})
VISITS = Schema({"day": Integer(1, 7), "cost": Real(0, 64)})


def products():
    generator = np.random.default_rng(1)
    keys = [*range(26), None, None]
    return pd.DataFrame(
        {
            "product_id": pd.array(keys, dtype="Int64"),
            "category": generator.choice(["a", "b", "c", "strange", None], len(keys)),
            "price": generator.integers(-20, 300, len(keys)) / 4,
            "weight": pd.array(generator.integers(0, 900, len(keys)), dtype="Int64"),
            "since": pd.Timestamp("2019-06-01")
            + pd.to_timedelta(generator.integers(0, 2500, len(keys)), unit="D"),
        }
    )


def sales(rows=900, seed=2):
    generator = np.random.default_rng(seed)

    def ids():
        found = pd.array(generator.integers(-3, 40, rows), dtype="Int64")
        found[generator.random(rows) < 0.05] = pd.NA
        return found

    return pd.DataFrame(
        {
            "product_id": ids(),
            "other_id": ids(),
            "shop": generator.choice(["x", "y", "z", "closed", None], rows),
            "amount": generator.integers(0, 25, rows),
            "paid": generator.integers(0, 300, rows) / 4,
        }
    )


CITY_ROWS = pd.DataFrame(
    {"city": ["Ulm", "Rome", None], "land": ["south", "east", "north"], "people": [7, 80, 900]}
)
SHOP_ROWS = pd.DataFrame({"shop": ["x", "y", "gone"], "city": ["Ulm", "Bonn", "Ulm"]})


def tables(**sources):
    found = {"products": products(), "shops": SHOP_ROWS, "sales": sales(), **sources}
    return {
        "sales": Table("sales", found["sales"], SALES),
        "products": Table("products", found["products"], PRODUCTS, public=True, key="product_id"),
        "shops": Table("shops", found["shops"], SHOPS, public=True, key="shop"),
        "cities": Table("cities", CITY_ROWS, CITIES, public=True, key="city"),
    }


def private(orders, people, visits=None, rows=3, kinds=(None, None, None)):
    units = [
        Unit("customer_id", most, kind=kind) for most, kind in zip((rows, 1, 2), kinds, strict=True)
    ]
    found = {
        "orders": Table("orders", orders, ORDERS, units[0]),
        "people": Table("people", people, PEOPLE, units[1]),
        "products": Table("products", products(), PRODUCTS, public=True, key="product_id"),
    }
    if visits is not None:
        found["visits"] = Table("visits", visits, VISITS, units[2])
    return found


class Opened:
    """Tables in their engines, joined as a curator joins them."""

    def __init__(self, tables):
        self.measured = {}
        self.engines = {name: DuckDBEngine(table) for name, table in tables.items()}
        self.tables = joined(
            tables, lambda name, join: self.engines[name].obstacle(self.engines[join.table], join)
        )
        for name, engine in self.engines.items():
            engine.bound(name.encode())
        own = dict(self.tables)
        for table in own.values():
            for join in table.joins.values():
                self.engines[table.name].join(self.engines[join.table], join)
            for pair in table.pairs.values():
                if isinstance(pair, Table) and pair.name not in self.tables:
                    one, other = pair.name.split("*")
                    self.engines[pair.name] = self.engines[one].paired(self.engines[other], pair)
                    self.tables[pair.name] = pair

    def planned(self, sql):
        query = parse(sql, self.tables)
        made = plan(query, read_accuracy(query, ZCDP, None, rho=1), 1, ZCDP)
        return query, made, self.engines[query.table]

    def vectors(self, sql):
        """The exact vectors of a statement's views, with what one unit may change at most."""
        if sql not in self.measured:
            _, made, engine = self.planned(sql)
            exact = engine.measure(made.scan(made.views))
            self.measured[sql] = [
                (view, np.array(exact.reveal(i))) for i, view in enumerate(made.views.values())
            ]
        return self.measured[sql]

    def answer(self, sql):
        """The exact values of each view in each declared group; those of a sum about its origin."""
        query, made, engine = self.planned(sql)
        exact = engine.measure(made.scan(made.views))
        views = list(made.views.values())
        places = [views[0].keys.index(key.partition) for key in query.keys]
        cells = [labels(key.kind) for key in views[0].keys]
        found = {}
        for number, group in enumerate(itertools.product(*cells)):
            values = (view.measure.step * exact.reveal(i)[number] for i, view in enumerate(views))
            found[tuple(group[place] for place in places)] = tuple(map(float, values))
        return found


def normal(frame, schema):
    """Rows as the normaliser sees them, by pandas alone."""
    found = {}
    for name, kind in schema.items():
        column = frame[name]
        if isinstance(kind, Category):
            known = column.where(column.isin(kind.values), kind.other)
            found[name] = known.where(column.notna(), None).astype("string")
        elif isinstance(kind, Date):
            found[name] = column.clip(pd.Timestamp(kind.low), pd.Timestamp(kind.high))
        else:
            found[name] = column.clip(kind.low, kind.high)
    return pd.DataFrame(found)


STATEMENTS = [
    "SELECT COUNT(*) FROM sales s JOIN products p ON s.product_id = p.product_id",
    "SELECT COUNT(*) FROM sales s LEFT JOIN products p ON s.product_id = p.product_id",
    "SELECT category, COUNT(*) FROM sales s JOIN products p ON p.product_id = s.product_id "
    "GROUP BY category",
    "SELECT category, COUNT(*) FROM sales s LEFT JOIN products p USING (product_id) GROUP BY category",
    "SELECT category, COUNT(*) FROM products p JOIN sales USING (product_id) GROUP BY category",
    "SELECT COUNT(*) FROM sales s LEFT JOIN products p USING (product_id) WHERE category IS NULL",
    "SELECT COUNT(*) FROM sales s LEFT JOIN products p USING (product_id) "
    "WHERE NOT (category = 'a' OR price > 10)",
    "SELECT COUNT(*) FROM sales s JOIN products p USING (product_id) "
    "WHERE since >= '2022-01-01' AND amount > 5 AND category IN ('a', 'rest')",
    "SELECT s.shop, SUM(weight), COUNT(weight) FROM sales s JOIN products p USING (product_id) "
    "GROUP BY s.shop",
    "SELECT category, SUM(amount * weight) FROM sales JOIN products USING (product_id) "
    "GROUP BY category",
    "SELECT s.product_id, COUNT(*) FILTER (WHERE price <= 8 OR amount < 3) FROM sales s "
    "LEFT JOIN products p ON s.product_id = p.product_id WHERE s.product_id > 20 GROUP BY s.product_id",
    "SELECT category, SUM(CASE WHEN weight > 100 THEN amount ELSE weight END) FROM sales s "
    "LEFT JOIN products p ON s.product_id = p.product_id GROUP BY category",
    "SELECT city, category, COUNT(*) FROM sales s JOIN products p ON s.product_id = p.product_id "
    "LEFT JOIN shops h ON s.shop = h.shop GROUP BY city, category",
    "SELECT one.category AS first, two.category AS second, COUNT(*) FROM sales s "
    "JOIN products one ON s.product_id = one.product_id "
    "JOIN products two ON s.other_id = two.product_id GROUP BY one.category, two.category",
    "SELECT city, COUNT(*) FROM sales s LEFT JOIN shops USING (shop) WHERE shop <> 'y' GROUP BY city",
    "SELECT h.shop, COUNT(*) FROM sales s JOIN shops h ON s.shop = h.shop GROUP BY h.shop",
    # by a column that is looked up itself
    "SELECT land, COUNT(*), SUM(people) FROM sales s JOIN shops h ON s.shop = h.shop "
    "JOIN cities c ON h.city = c.city GROUP BY land",
    "SELECT COUNT(*), COUNT(people) FROM sales LEFT JOIN shops USING (shop) LEFT JOIN cities USING (city)",
    "SELECT COUNT(*) FROM sales s LEFT JOIN shops h ON s.shop = h.shop JOIN cities c ON h.city = c.city",
    "SELECT c.city, land, SUM(amount) FROM cities c, shops h, sales s "
    "WHERE s.shop = h.shop AND c.city = h.city AND people < 50 AND amount > 3 GROUP BY c.city, land",
    "WITH places AS (SELECT shop, land FROM shops JOIN cities USING (city)) "
    "SELECT land, SUM(weight) FROM sales JOIN places USING (shop) JOIN products USING (product_id) GROUP BY land",
]
"""Grouped by columns whose cells are single values; aggregates of whole numbers and counts."""


@pytest.fixture(scope="module")
def shop():
    return Opened(tables())


def as_duckdb(connection, sql, keys):
    """What DuckDB finds in groups that are declared, missing sums as 0."""
    rows = connection.execute(sql).fetchall()
    return {
        tuple(row[:keys]): tuple(float(value or 0) for value in row[keys:])
        for row in rows
        if None not in row[:keys]
    }


@pytest.fixture(scope="module")
def frames():
    connection = duckdb.connect()
    connection.register("sales", normal(sales(), SALES))
    connection.register("products", normal(products(), PRODUCTS).dropna(subset=["product_id"]))
    connection.register("shops", normal(SHOP_ROWS, SHOPS).dropna(subset=["shop"]))
    connection.register("cities", normal(CITY_ROWS, CITIES).dropna(subset=["city"]))
    return connection


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_joined_statement_is_that_of_duckdb(shop, frames, sql):
    expected = as_duckdb(frames, sql, len(parse(sql, shop.tables).keys))
    found = {
        label: values
        for label, values in shop.answer(sql).items()
        if any(values) or label in expected
    }
    assert found == expected
    assert any(map(any, expected.values()))


def test_groups_are_the_bins_of_the_column_that_was_named(shop):
    own = "SELECT s.other_id, COUNT(*) FROM sales s JOIN products p ON s.other_id = p.product_id GROUP BY s.other_id"
    other = own.replace("SELECT s.other_id", "SELECT p.product_id").replace(
        "BY s.other_id", "BY p.product_id"
    )
    assert list(shop.answer(own)) == [("[0, 5]",), ("(5, 30]",)]
    assert list(shop.answer(other)) == [("[0, 10]",), ("(10, 30]",)]


def test_averages_and_sums_of_real_numbers(shop, frames):
    sql = (
        "SELECT category, SUM(price), AVG(price), COUNT(price) FROM sales "
        "JOIN products USING (product_id) GROUP BY category"
    )
    expected = as_duckdb(frames, sql, 1)
    for label, (total, _, count) in shop.answer(sql).items():
        assert total == pytest.approx(expected[label][0], abs=1e-3)
        assert count == expected[label][2]


def joined_frame(kind):
    looked_up = normal(products(), PRODUCTS).dropna(subset=["product_id"])
    own = normal(sales(), SALES)
    return own.merge(looked_up, on="product_id", how=kind)


def test_an_explanation_counts_joined_groups_and_values(shop):
    engine = shop.engines["sales"]
    schema = shop.tables["sales"].schema
    name = "products[product_id]"
    sql = "SELECT COUNT(*) FROM sales JOIN products USING (product_id)"
    scan = MarginalScan(
        keys=own(schema, f"{name}.category"),
        groups=((0,), (1,)),
        where=parse(sql, shop.tables).where,
        value=Column(f"{name}.weight"),
        measure=sum_of(Column(f"{name}.weight"), schema, centred=False),
        sets=(own(schema, "shop"), own(schema, f"{name}.price", "shop")),
    )
    found = engine.marginals(scan)
    both = joined_frame("inner")
    both = both[both.weight.notna()]
    shops = both["shop"].map({"x": 0, "y": 1, "z": 2}).fillna(3).astype(int)
    for group, category in enumerate("ab"):
        rows_of = both[both.category == category]
        for place, count, total in zip(
            found.marginal(0).index, found.marginal(0).count, found.marginal(0).total, strict=True
        ):
            rows = rows_of[shops[rows_of.index] == place]
            assert (count[group], total[group]) == (len(rows), rows.weight.sum())
    assert found.marginal(1).count.sum() == both.category.isin(["a", "b"]).sum()


def test_a_histogram_of_a_joined_column_has_a_bin_for_what_was_not_found(shop):
    schema, name = shop.tables["sales"].schema, "products[product_id].category"
    category = axis(name, schema[name], [(0, 0), (1, 3)])
    shops = axis("shop", schema["shop"], [(0, 2)])
    exact = shop.engines["sales"].histograms([[category], [shops, category]])
    found = joined_frame("left").category
    expected = [(found == "a").sum(), found.isin(["b", "c", "rest"]).sum(), found.isna().sum()]
    assert list(exact.reveal(0)) == expected
    assert np.array(exact.reveal(1)).reshape(2, 3).sum(axis=0).tolist() == expected


def test_what_single_rows_add_is_told_by_joined_columns(shop):
    schema, name = shop.tables["sales"].schema, "products[product_id].category"
    where = parse("SELECT COUNT(*) FROM sales WHERE amount > 3", shop.tables).where
    scan = ContributionScan((Part(Count(None), where, own(schema, name)),), by=own(schema, name))
    found = shop.engines["sales"].contributions(scan)
    both = joined_frame("left")
    codes = both.category.map({kind: i for i, kind in enumerate(KINDS)}).fillna(-1).astype(int)
    expected = {}
    for code, amount in zip(codes, both.amount, strict=True):
        line = int(code), int(code >= 0 and amount > 3)
        expected[line] = expected.get(line, 0) + 1
    lines = zip(found.cells, found.numbers[:, 0], found.counts, strict=True)
    assert {(cell, added): count for cell, added, count in lines} == expected


@cache
def without_row(place):
    return Opened(tables(sales=sales().drop(index=place)))


class TestOneRow:
    """A row that comes or goes changes a vector as much as without a join."""

    @pytest.mark.parametrize("sql", STATEMENTS)
    def test_changes_a_vector_within_its_sensitivity(self, shop, sql):
        for place in (0, 3, 57):
            less = without_row(place)
            for (view, one), (_, other) in zip(shop.vectors(sql), less.vectors(sql), strict=True):
                assert np.abs(one - other).sum() <= view.norm == view.measure.sensitivity


def people(count=40):
    generator = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "customer_id": range(1, count + 1),
            "age": generator.integers(0, 120, count),
            "sex": generator.choice(["f", "m", None], count),
        }
    )


def orders():
    """Person 1 has many rows, those above 40 are nobody's, and 30 to 40 have none."""
    generator = np.random.default_rng(6)
    ids = [*[1] * 25, *generator.integers(2, 30, 90), *range(41, 50), None]
    return pd.DataFrame(
        {
            "customer_id": pd.array(ids, dtype="Int64"),
            "product_id": generator.integers(0, 30, len(ids)),
            "amount": generator.integers(0, 20, len(ids)),
        }
    )


def visits():
    generator = np.random.default_rng(7)
    ids = [*[1] * 9, *generator.integers(2, 60, 80)]
    return pd.DataFrame(
        {
            "customer_id": ids,
            "day": generator.integers(1, 8, len(ids)),
            "cost": generator.integers(0, 64, len(ids)) / 4,
        }
    )


OF_PEOPLE = [
    "SELECT sex, COUNT(*) FROM orders o JOIN people p ON o.customer_id = p.customer_id GROUP BY sex",
    "SELECT sex, SUM(amount) FROM people p JOIN orders o ON o.customer_id = p.customer_id GROUP BY sex",
    "SELECT COUNT(*) FROM orders LEFT JOIN people USING (customer_id) WHERE age IS NULL",
    "SELECT SUM(age) FROM orders LEFT JOIN people USING (customer_id) WHERE amount > 3",
    "SELECT sex, category, COUNT(*) FROM orders JOIN people USING (customer_id) "
    "JOIN products USING (product_id) GROUP BY sex, category",
]
OF_PAIRS = [
    "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer_id = v.customer_id",
    "SELECT day, SUM(amount) FROM visits v JOIN orders o USING (customer_id) WHERE cost > 2 GROUP BY day",
    "SELECT day, amount, COUNT(*) FROM visits v JOIN orders o USING (customer_id) GROUP BY day, amount",
]
DISTINCT = [
    "SELECT sex, COUNT(DISTINCT customer_id) FROM orders JOIN people USING (customer_id) GROUP BY sex",
    "SELECT day, COUNT(DISTINCT o.customer_id) FROM orders o JOIN visits v "
    "ON v.customer_id = o.customer_id GROUP BY day",
    "SELECT category, COUNT(DISTINCT customer_id) FROM orders JOIN products USING (product_id) "
    "GROUP BY category",
]


ALL = orders(), people(), visits()


@cache
def without(person):
    """The same tables, in which a person is nowhere."""
    return Opened(private(*(frame[~(frame.customer_id == person).fillna(False)] for frame in ALL)))


@pytest.fixture(scope="module")
def opened():
    return Opened(private(*ALL))


@pytest.fixture(scope="module")
def kept(opened):
    """The rows that were kept of each person, with labels in place of codes."""
    connection = duckdb.connect()
    for name in ("orders", "people", "visits"):
        engine, schema = opened.engines[name], opened.tables[name].schema
        found = engine._connection.execute("SELECT * FROM rows").df()
        frame = pd.DataFrame({"customer_id": found["u"]})
        for i, (column, kind) in enumerate(schema.items()):
            codes = found[f"c{i}"]
            if isinstance(kind, Category):
                codes = codes.map(dict(enumerate(kind.values))).astype("string")
            frame[column] = codes
        connection.register(name, frame)
    connection.register("products", normal(products(), PRODUCTS).dropna(subset=["product_id"]))
    return connection


class TestPeople:
    @pytest.mark.parametrize("sql", [*OF_PEOPLE, *OF_PAIRS])
    def test_a_join_by_ids_is_that_of_duckdb_over_the_rows_that_are_kept(self, opened, kept, sql):
        expected = as_duckdb(kept, sql, len(parse(sql, opened.tables).keys))
        found = {
            label: values
            for label, values in opened.answer(sql).items()
            if any(values) or label in expected
        }
        assert found == expected
        assert any(map(any, expected.values()))

    @pytest.mark.parametrize("sql", [*OF_PEOPLE, *OF_PAIRS, *DISTINCT])
    @pytest.mark.parametrize("person", [1, 2, 17, 35, 45])
    def test_a_person_changes_a_vector_within_its_sensitivity(self, opened, sql, person):
        less = without(person)
        for (view, one), (_, other) in zip(opened.vectors(sql), less.vectors(sql), strict=True):
            assert np.abs(one - other).sum() <= view.norm

    def test_the_sensitivity_of_pairs_is_the_product_of_both_bounds(self, opened):
        ((view, _),) = opened.vectors(OF_PAIRS[0])
        assert (view.table, view.norm, view.unit) == ("orders*visits", 6, Unit("customer_id", 6))

    def test_a_looked_up_table_does_not_add_to_the_sensitivity(self, opened):
        ((view, _),) = opened.vectors(OF_PEOPLE[0])
        assert (view.table, view.norm) == ("orders", 3)

    def test_a_person_with_rows_in_both_tables_reaches_the_bound(self, opened):
        less = without(1)
        (_, one), (_, other) = opened.vectors(OF_PAIRS[0])[0], less.vectors(OF_PAIRS[0])[0]
        assert abs(one - other).sum() == 6

    def test_only_one_row_of_a_person_is_looked_up(self):
        twice = pd.concat([people(), people().assign(age=1)], ignore_index=True)
        opened = Opened(private(orders(), twice))
        ((_, joined_),) = opened.vectors(
            "SELECT COUNT(*) FROM orders LEFT JOIN people USING (customer_id)"
        )
        ((_, alone),) = opened.vectors("SELECT COUNT(*) FROM orders")
        assert joined_.tolist() == alone.tolist()


@pytest.fixture(scope="module")
def plainly():
    """The answers where all ids are of one type."""
    plain = Opened(private(*ALL))
    return {sql: plain.answer(sql) for sql in (*OF_PEOPLE, *OF_PAIRS)}


class TestOpening:
    def test_a_key_that_is_not_unique_is_refused(self):
        twice = pd.concat([products(), products()], ignore_index=True)
        with pytest.raises(SchemaError, match="'product_id' is not unique"):
            DuckDBEngine(tables(products=twice)["products"])

    def test_values_that_become_other_are_one_value(self):
        schema = Schema({"kind": Category(KINDS, other="rest")})
        frame = pd.DataFrame({"kind": ["a", "x", "y"]})
        with pytest.raises(SchemaError, match="OTHER"):
            DuckDBEngine(Table("t", frame, schema, public=True, key="kind"))

    def test_rows_without_a_key_are_left_out(self, shop):
        (count,) = (
            shop.engines["products"]._connection.execute("SELECT COUNT(*) FROM rows").fetchone()
        )
        assert count == 26

    def test_files_are_joined_like_frames(self, shop, tmp_path):
        sales().to_parquet(tmp_path / "sales.parquet")
        products().to_parquet(tmp_path / "products.parquet")
        SHOP_ROWS.to_csv(tmp_path / "shops.csv", index=False)
        paths = {name: tmp_path / f"{name}.parquet" for name in ("sales", "products")}
        filed = Opened(tables(**paths, shops=tmp_path / "shops.csv"))
        for sql in STATEMENTS:
            assert filed.answer(sql) == shop.answer(sql)

    @pytest.mark.parametrize("other", range(3))
    @pytest.mark.parametrize("written", ["string", "float64", "object", "decimal", "spelled"])
    def test_ids_of_other_types_are_the_same_people(self, other, written, plainly):
        def spelled(frame):
            ids = frame["customer_id"]
            if written == "decimal":
                return frame.assign(
                    customer_id=[None if pd.isna(one) else Decimal(f"{one}.00") for one in ids]
                )
            if written == "spelled":
                ways = "{}", "0{}", " {}.0", "+{}\n", "{}e0"
                return frame.assign(
                    customer_id=[
                        None if pd.isna(one) else ways[i % 5].format(one)
                        for i, one in enumerate(ids)
                    ]
                )
            return frame.astype({"customer_id": written})

        frames = [spelled(f) if i == other else f for i, f in enumerate(ALL)]
        opened = Opened(private(*frames))
        assert {sql: opened.answer(sql) for sql in plainly} == plainly

    def test_ids_beyond_64_bits_match_nobody_of_a_table_without_them(self):
        ids = people()["customer_id"].astype(str) + "0" * 20
        found = Opened(private(orders(), people().assign(customer_id=ids)))
        plain = Opened(private(orders(), people().iloc[:0]))
        assert found.answer(OF_PEOPLE[0]) == plain.answer(OF_PEOPLE[0])

    def test_ids_of_another_kind_are_refused(self):
        mixed = private(*ALL, kinds=(None, "text", None))
        what = "the ids of 'people' have kind='text', and those of 'orders' do not"
        with pytest.raises(SqlError, match=what) as refusal:
            Opened(mixed).vectors(OF_PEOPLE[0])
        assert refusal.value.hint == "Declare the same kind of ids for both units."
        texts = private(*ALL, kinds=("text", "text", "text"))
        opened, plain = Opened(texts), Opened(private(*ALL))
        for sql in (OF_PEOPLE[0], OF_PAIRS[0]):
            assert opened.answer(sql) == plain.answer(sql)
        with pytest.raises(SqlError, match="the ids of 'visits' have kind='text'"):
            Opened(private(*ALL, kinds=(None, None, "text"))).vectors(OF_PAIRS[0])

    def test_tables_of_another_engine_are_refused(self):
        given = tables()
        engine, another = DuckDBEngine(given["sales"]), object()
        apart = joined(given, lambda _, join: engine.obstacle(another, join))
        sql = "SELECT COUNT(*) AS n FROM sales s JOIN shops h ON s.shop = h.shop"
        with pytest.raises(SqlError, match="different engines cannot be joined yet") as refusal:
            parse(sql, apart)
        assert "read both from files or data frames" in refusal.value.hint
        assert Opened(given).vectors(sql)

    def test_texts_are_ids_too(
        self,
    ):
        as_text = [f.astype({"customer_id": "string"}) for f in ALL]
        opened = Opened(private(*as_text))
        plain = Opened(private(*ALL))
        sql = "SELECT COUNT(DISTINCT o.customer_id) FROM orders o JOIN people p ON o.customer_id = p.customer_id"
        assert opened.answer(sql) == plain.answer(sql)

    def test_what_was_looked_up_shows_nothing(self, shop):
        assert repr(shop.engines["sales"]) == "DuckDBEngine(private)"
        with pytest.raises(TypeError):
            pickle.dumps(shop.engines["sales"])
