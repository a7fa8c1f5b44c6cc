"""What FROM and JOIN mean, and which joins are refused."""

from __future__ import annotations

import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table, Unit
from dpnb.errors import SchemaError, SqlError
from dpnb.ledger.columns import resolved
from dpnb.schema.joins import MOST_CHAINS, joined, own_name
from dpnb.schema.predicates import And, Within
from dpnb.sql.canonical import describe, read
from dpnb.sql.parser import parse
from dpnb.sql.values import Column

pytestmark = pytest.mark.fast

PRODUCTS = Schema(
    {
        "product_id": Integer(0, 9, bins=[0, 5, 9]),
        "category": Category(["a", "b"]),
        "price": Real(0, 100),
        "since": Date("2020-01-01", "2024-12-31"),
    }
)
SALES = Schema(
    {
        "product_id": Integer(0, 9),
        "wide_id": Integer(0, 10),
        "weight": Real(0, 100),
        "other_id": Integer(0, 9),
        "city": Category(["x", "y"]),
        "town": Category(["y", "x"]),
        "amount": Integer(0, 20),
    }
)
CITIES = Schema({"city": Category(["x", "y"]), "country": Category(["p", "q"])})
CUSTOMER = {"age": Integer(0, 99), "segment": Category(["a", "b"])}


def opened(tables, obstacle=lambda name, join: None):
    found = joined({table.name: table for table in tables}, obstacle)
    pairs = [pair for table in found.values() for pair in table.pairs.values()]
    return found | {pair.name: pair for pair in pairs if isinstance(pair, Table)}


def unit(name="customer_id", rows=1):
    return Unit(name, rows, min(rows, 2))


TABLES = opened(
    [
        Table("sales", None, SALES),
        Table("products", None, PRODUCTS, public=True, key="product_id"),
        Table("cities", None, CITIES, public=True, key="CITY"),
        Table("plain", None, PRODUCTS, public=True),
        Table("secret", None, PRODUCTS),
        Table("customers", None, Schema(CUSTOMER), unit()),
        Table("orders", None, Schema(SALES), unit(rows=5)),
        Table("visits", None, Schema({"day": Integer(1, 7)}), unit(rows=4)),
        Table("huge", None, Schema({"day": Integer(1, 7)}), unit(rows=2**20)),
        Table("patients", None, Schema(CUSTOMER), unit("patient_id")),
        Table("open_orders", None, Schema(SALES), unit(rows=5), public=True),
    ]
)
SALE = "SELECT COUNT(*) FROM sales s "
ORDER = "SELECT COUNT(*) FROM orders o "
MATCH = "ON s.product_id = p.product_id"
IDS = "ON o.customer_id = c.customer_id"
PRESENT = Within("products[product_id]", ((0, 0),))


CHAINS = opened(
    [
        Table("lines", None, Schema({"sup": Integer(1, 9)}), unit("id", 5)),
        Table("sups", None, Schema({"sup": Integer(1, 9), "nation": Integer(0, 5)}), public=True, key="sup"),
        Table("nations", None, Schema({"nation": Integer(0, 5), "region": Integer(0, 3), "size": Integer(0, 7)}),
              public=True, key="nation"),
        Table("regions", None, Schema({"region": Integer(0, 3), "name": Category(["a", "b"])}), public=True, key="region"),
        Table("buyers", None, Schema({"nation": Integer(0, 5)}), unit("id")),
        Table("homes", None, Schema({"rooms": Integer(0, 99)}), unit("id")),
    ]
)  # fmt: skip


def refusal(text):
    with pytest.raises(SqlError) as caught:
        parse(text, TABLES)
    return caught.value


class TestMeaning:
    def test_a_joined_column_is_one_of_the_measured_table(self):
        query = parse(
            f"SELECT p.category, AVG(p.price) FROM sales AS s JOIN products AS p {MATCH} "
            "WHERE p.since > '2021-01-01' GROUP BY p.category",
            TABLES,
        )
        assert query.table == "sales"
        assert [(key.partition.column, key.alias) for key in query.keys] == [
            ("products[product_id].category", "category")
        ]
        (mean,) = query.aggregates
        assert (mean.value, mean.alias) == (Column("products[product_id].price"), "avg_price")
        assert query.where == And(
            (PRESENT, Within("products[product_id].since", ((18629, 20088),)))
        )

    @pytest.mark.parametrize(
        "text",
        [
            f"SELECT p.category, COUNT(*) FROM sales s INNER JOIN products p {MATCH} GROUP BY p.category",
            "SELECT category, COUNT(*) FROM sales JOIN products USING (product_id) GROUP BY category",
            "SELECT category, COUNT(*) FROM Sales s JOIN Products p ON (P.Product_ID = S.product_id) "
            "GROUP BY Category",
            "SELECT products.category, COUNT(*) FROM products JOIN sales USING (product_id) "
            "GROUP BY products.category",
            f"SELECT category AS c, COUNT(*) AS n FROM products p JOIN sales s {MATCH} GROUP BY p.category "
            "ORDER BY c, p.category DESC, n",
        ],
    )
    def test_all_ways_to_write_a_join_mean_the_same(self, text):
        plain = parse(
            "SELECT category, COUNT(*) FROM sales s JOIN products p "
            "ON s.product_id = p.product_id GROUP BY category",
            TABLES,
        )
        assert describe(parse(text, TABLES)) == describe(plain)

    @pytest.mark.parametrize(
        "text",
        [
            f"SELECT AVG(price) FROM sales s, products p WHERE {MATCH[3:]} AND city = 'x'",
            f"SELECT AVG(price) FROM products p, sales s WHERE city = 'x' AND {MATCH[3:]}",
            f"SELECT AVG(price) FROM products p CROSS JOIN sales s WHERE city = 'x' AND {MATCH[3:]}",
            f"SELECT AVG(price) FROM sales s JOIN products p {MATCH} AND city = 'x'",
            f"SELECT AVG(price) FROM sales s JOIN products p ON city = 'x' WHERE {MATCH[3:]}",
            f"SELECT AVG(price) FROM sales s, products p WHERE ({MATCH[3:]} AND city = 'x' AND wide_id = 1) "
            f"OR (wide_id <> 1 AND {MATCH[3:]} AND city = 'x')",
        ],
    )
    def test_the_equality_of_a_join_may_stand_anywhere(self, text):
        where = "city = 'x'" + (" AND wide_id IS NOT NULL" if "wide_id" in text else "")
        plain = f"SELECT AVG(price) FROM sales s JOIN products p {MATCH} WHERE {where}"
        assert describe(parse(text, TABLES)) == describe(parse(plain, TABLES))

    def test_a_second_equality_with_the_same_table_is_a_condition(self):
        text = f"SELECT COUNT(*) FROM sales s, products p WHERE {MATCH[3:]} AND s.other_id = p.product_id"
        assert "other_id" in parse(text, TABLES).where.columns

    def test_a_shared_condition_is_one_of_every_part(self):
        match = MATCH[3:]
        with pytest.raises(SqlError, match="a join needs a condition"):
            parse(f"{SALE}, products p WHERE {match} AND city = 'x' OR city = 'y'", TABLES)
        text = f"{SALE}, products p WHERE ({match} AND city = 'x') OR {match} OR ({match} AND city = 'x')"
        assert parse(text, TABLES).where == PRESENT

    def test_a_key_may_be_looked_up(self):
        query = parse(
            "SELECT r.name, SUM(n.size) AS s FROM lines l JOIN sups ON l.sup = sups.sup "
            "JOIN nations n ON sups.nation = n.nation LEFT JOIN regions r ON n.region = r.region "
            "GROUP BY r.name",
            CHAINS,
        )
        nation = "nations[sups[sup].nation]"
        assert query.keys[0].partition.column == f"regions[{nation}.region].name"
        assert query.aggregates[0].value == Column(f"{nation}.size")
        assert query.where.columns == {"sups[sup]", nation}
        assert resolved("lines", [query.keys[0].partition.column]) == {
            ("lines", "sup"), ("sups", "nation"), ("nations", "region"), ("regions", "name"),
        }  # fmt: skip

    def test_a_key_may_be_looked_up_by_ids(self):
        query = parse(
            "SELECT n.size, COUNT(*) FROM lines l JOIN buyers b ON l.id = b.id "
            "JOIN nations n ON b.nation = n.nation GROUP BY n.size",
            CHAINS,
        )
        assert query.keys[0].partition.column == "nations[buyers[id].nation].size"

    def test_ids_of_a_table_that_is_looked_up_are_those_of_the_first(self):
        texts = [
            f"SELECT COUNT(*) FROM lines l JOIN buyers b ON l.id = b.id JOIN homes h ON {one}.id = h.id"
            for one in ("l", "b")
        ]
        one, other = (parse(text, CHAINS) for text in texts)
        assert one == other
        with pytest.raises(SqlError, match="'b' has no id where no row is found.*Join h with l"):
            parse(texts[1].replace("JOIN buyers", "LEFT JOIN buyers"), CHAINS)

    def test_at_most_four_tables_are_looked_up_one_by_the_other(self):
        places = [f"p{i}" for i in range(6)]
        kinds = {f"k{i}": Integer(i, 99) for i in range(7)}
        found = [Table("base", None, Schema({"k0": kinds["k0"]}))]
        found += [
            Table(name, None, Schema({f"k{i}": kinds[f"k{i}"], f"k{i + 1}": kinds[f"k{i + 1}"]}), public=True, key=f"k{i}")
            for i, name in enumerate(places)
        ]  # fmt: skip
        tables = opened(found)
        texts = [
            "SELECT COUNT(*) FROM base " + " ".join(f"JOIN {name} USING (k{i})" for i, name in enumerate(places[:count]))
            for count in (4, 5)
        ]  # fmt: skip
        assert len(parse(texts[0], tables).where.columns) == 4
        with pytest.raises(SqlError, match="more than 4 tables.*'p3' says of 'p4'"):
            parse(texts[1], tables)

    def test_the_number_of_ways_is_limited(self):
        same = Schema({name: Integer(0, 9) for name in ("a", "b", "c")})
        found = [Table("base", None, same)]
        found += [Table(f"p{i}", None, same, public=True, key="a") for i in range(9)]
        assert len(opened(found)["base"].joins) == 27 + MOST_CHAINS

    def test_definitions_and_rows_of_old_ledgers_stay_the_same(self):
        """Tables that are looked up through others are in no definition."""
        found = CHAINS["lines"].definition()["joins"]
        assert set(found) == {"sups", "buyers", "homes"}

    def test_tables_may_be_named_in_any_order(self):
        text = (
            "SELECT country, AVG(price) FROM cities c, products p, sales s "
            "WHERE c.city = s.city AND p.product_id = s.product_id GROUP BY country"
        )
        query = parse(text, TABLES)
        assert query.table == "sales"
        assert query.keys[0].partition.column == "cities[city].country"
        assert query.where.columns == {"products[product_id]", "cities[city]"}

    @pytest.mark.parametrize("word", ["LEFT", "LEFT OUTER"])
    def test_a_left_join_asks_for_nothing(self, word):
        query = parse(f"{SALE} {word} JOIN products p {MATCH}", TABLES)
        assert describe(query) == describe(parse(SALE, TABLES))

    def test_a_table_is_looked_up_by_two_columns(self):
        query = parse(
            "SELECT a.category AS one, b.category AS two, COUNT(*) FROM sales s "
            "JOIN products a ON s.product_id = a.product_id "
            "LEFT JOIN products b ON b.product_id = s.other_id GROUP BY a.category, b.category",
            TABLES,
        )
        names = [key.partition.column for key in query.keys]
        assert names == ["products[product_id].category", "products[other_id].category"]
        assert query.where == PRESENT

    def test_bins_may_differ(self):
        query = parse(
            f"SELECT p.product_id, COUNT(*) FROM sales s JOIN products p {MATCH} "
            "GROUP BY p.product_id",
            TABLES,
        )
        assert query.keys[0].partition.column == "products[product_id].product_id"

    def test_using_names_the_column_of_the_measured_table(self):
        query = parse(
            "SELECT city, COUNT(*) FROM cities JOIN sales USING (city) GROUP BY city", TABLES
        )
        assert (query.table, query.keys[0].partition.column) == ("sales", "city")

    def test_ids_are_looked_up_from_the_side_of_many_rows(self):
        one, other = (
            parse(f"SELECT AVG(age) FROM {tables} {IDS}", TABLES)
            for tables in ("orders o JOIN customers c", "customers c JOIN orders o")
        )
        assert one == other
        assert one.table == "orders"
        assert one.aggregates[0].value == Column("customers[customer_id].age")

    def test_different_ids_are_counted_by_either_name(self):
        texts = [
            f"SELECT COUNT(DISTINCT {name}) FROM orders o JOIN customers c {IDS}"
            for name in ("customer_id", "o.customer_id", "c.customer_id")
        ]
        assert len({str(describe(parse(text, TABLES))) for text in texts}) == 1

    def test_pairs_of_rows_are_a_table_of_their_own(self):
        one, other = (
            parse(
                f"SELECT v.day, SUM(amount) FROM {tables} USING (customer_id) GROUP BY v.day",
                TABLES,
            )
            for tables in ("orders o JOIN visits v", "visits v JOIN orders o")
        )
        assert one == other
        assert one.table == "orders*visits"
        assert [(key.partition.column, key.alias) for key in one.keys] == [("visits[].day", "day")]
        assert TABLES["orders*visits"].unit == Unit("customer_id", 20, 2)

    def test_pairs_of_a_public_and_a_sensitive_table_are_sensitive(self):
        assert not TABLES["open_orders*visits"].public
        assert not TABLES["orders*visits"].public

    @pytest.mark.parametrize(
        "text",
        [
            f"SELECT category, SUM(price), COUNT(*) FROM sales s JOIN products p {MATCH} GROUP BY category",
            f"SELECT AVG(CASE WHEN category = 'a' THEN price ELSE amount END) FROM sales s "
            f"LEFT JOIN products p {MATCH} WHERE p.since IS NULL",
            "SELECT v.day, SUM(o.amount) FROM orders o JOIN visits v USING (customer_id) GROUP BY v.day",
        ],
    )
    def test_a_description_is_read_back(self, text):
        query = parse(text, TABLES)
        described = describe(query)
        assert describe(read(described, query.schema)) == described


JOIN = "Write FROM a JOIN b ON a.x = b.x."
REFUSED = [
    # kinds of joins
    (f"{SALE} RIGHT JOIN products p {MATCH}", "keeps rows without a match", "products p", "Write FROM s LEFT JOIN p"),
    (f"{SALE} FULL JOIN products p {MATCH}", "keeps rows without a match", "products p", "Write FROM s LEFT JOIN p"),
    (f"{SALE} FULL OUTER JOIN products p {MATCH}", "keeps rows without a match", "products p", "Write FROM s LEFT JOIN p"),
    (f"{SALE} CROSS JOIN products p", "a join needs a condition", "products p", JOIN),
    (f"{SALE} NATURAL JOIN products p", "NATURAL JOIN is not supported", "products p", JOIN),
    (f"{SALE} SEMI JOIN products p {MATCH}", "SEMI JOIN is not supported", "products p", JOIN),
    (f"{SALE} ANTI JOIN products p {MATCH}", "ANTI JOIN is not supported", "products p", JOIN),
    (f"{SALE} ASOF JOIN products p {MATCH}", "ASOF JOIN is not supported", "products p", JOIN),
    (f"{SALE} POSITIONAL JOIN products p", "POSITIONAL JOIN is not", "products p", JOIN),
    (f"{SALE}, products p", "a join needs a condition", "products p", JOIN),
    (f"{SALE} JOIN products p", "a join needs a condition", "products p", JOIN),
    (f"{SALE} JOIN LATERAL (SELECT 1) p ON TRUE", "LATERAL is not supported", None, JOIN),
    # conditions
    (f"{SALE} JOIN products p ON TRUE", "one equality of two columns", "TRUE", JOIN),
    (f"{SALE} LEFT JOIN products p {MATCH} AND p.price > 3", "one equality", None, JOIN),
    (f"{SALE}, products p WHERE s.product_id = 3", "a join needs a condition", "products p", JOIN),
    (f"{SALE} JOIN products p ON s.product_id < p.product_id", "one equality", None, JOIN),
    (f"{SALE} JOIN products p ON s.product_id = 3", "one equality of two columns", "3", JOIN),
    (f"{SALE} JOIN products p ON s.product_id + 1 = p.product_id", "one equality", None, JOIN),
    (f"{SALE} JOIN products p ON s.product_id = s.other_id", "a column of 'p'", None, JOIN),
    (f"{SALE} JOIN products p ON p.product_id = p.product_id", "a column of 'p'", None, JOIN),
    (f"{SALE} JOIN products p ON product_id = p.product_id", "several tables have a column 'product_id'", "product_id", "s."),
    (f"{SALE} JOIN products p ON s.product_id = q.product_id", "'q' is not a table of FROM", None, "s, p"),
    (f"{SALE} JOIN products p ON nope = p.product_id", "unknown column 'nope'", "nope", "Declared"),
    (f"{SALE} JOIN products p USING (product_id, city)", "USING takes one column", None, "Write USING (product_id)."),
    # keys
    (f"{SALE} JOIN plain p {MATCH}", "'plain' has no key: no column is declared unique", "plain p",
     "Declare Table('plain', ..., public=True, key='...')."),
    ("SELECT COUNT(*) FROM plain p JOIN sales s USING (product_id)", "'plain' has no key: no column is declared unique",
     "sales s", "public=True"),
    (f"{SALE} JOIN products p ON s.amount = p.price", "unique in 'product_id', not in 'price'",
     "products p", "Join on the key 'product_id' of 'products'."),
    (f"{SALE} JOIN products p ON s.nope = p.product_id", "'nope' is not a declared column of 'sales'",
     "products p", "Declared"),
    (f"{SALE} JOIN products p ON s.wide_id = p.product_id", "are declared differently", "products p",
     "the same bounds"),
    (f"{SALE} JOIN products p ON s.weight = p.product_id", "are declared differently", "products p",
     "same kind"),
    (f"{SALE} JOIN products p ON s.city = p.product_id", "are declared differently", "products p",
     "same kind"),
    (f"{SALE} JOIN cities c ON s.town = c.city", "are declared differently", "cities c", "same values"),
    # tables
    (f"{SALE} JOIN sales t ON s.product_id = t.product_id", "cannot be joined with itself", "sales t", ""),
    (f"{SALE} JOIN nope p {MATCH}", "unknown table 'nope'", "nope p", "Declared"),
    (f"{SALE} JOIN products s {MATCH}", "two tables are called 's'", "products s", "AS"),
    (f"{SALE} JOIN products p {MATCH} JOIN products q ON s.product_id = q.product_id",
     "'products' is joined twice on 'product_id'", "products q", "once"),
    (f"{SALE} JOIN products p {MATCH} JOIN cities c ON p.category = c.city", "are declared differently",
     "cities c", "same values"),
    (f"{SALE} JOIN products p {MATCH} JOIN products q ON p.product_id = q.product_id", "'products' is looked up by a column of its own",
     "products q", "Join q with s."),
    (f"{SALE} JOIN (SELECT 1) p {MATCH}", "unknown column 'product_id'", "p.product_id", "Declared"),
    (f"{SALE} JOIN (products p JOIN cities c ON p.x = c.city) {MATCH}", "unknown column 'x'", "p.x", "Declared"),
    (f"{SALE} JOIN main.products p {MATCH}", "only a declared table can follow JOIN", None, "Write only the name of the table."),
    (f"{SALE} JOIN products p(a, b) {MATCH}", "only a declared table can follow JOIN", None, "Write only the name of the table."),
    (f"{SALE} JOIN read_csv('/etc/passwd') p {MATCH}", "table functions are not supported", None, "declared"),
    (f"{SALE} JOIN products p TABLESAMPLE 10% {MATCH}", "only a declared table", None, "Write only the name of the table."),
    (SALE + "".join(f" JOIN products p{i} ON s.product_id = p{i}.product_id" for i in range(9)),
     "there are 9 joins, more than 8", "products p8", "fewer"),
    # columns
    (f"SELECT product_id, COUNT(*) FROM sales s JOIN products p {MATCH} GROUP BY product_id",
     "several tables have a column 'product_id'", "product_id", "Write s.product_id or p.product_id."),
    (f"SELECT q.category, COUNT(*) FROM sales s JOIN products p {MATCH} GROUP BY q.category",
     "unknown table", "q.category", "Tables of FROM: s, p."),
    (f"SELECT SUM(products.price) FROM sales s JOIN products p {MATCH}", "unknown table", None, "s, p"),
    (f"SELECT p.amount, COUNT(*) FROM sales s JOIN products p {MATCH} GROUP BY p.amount",
     "unknown column 'amount'", "p.amount", "Declared"),
    ('SELECT SUM("products[product_id].price") FROM sales', "unknown column", None, "Declared"),
    ('SELECT COUNT(*) FROM "orders*visits"', "unknown table", None, "visits"),
    ("SELECT a.city, b.city, COUNT(*) FROM sales s JOIN cities a ON s.city = a.city GROUP BY a.city, s.city",
     "unknown table", None, "s, a"),
    ("SELECT a.city, s.city, COUNT(*) FROM sales s JOIN cities a ON s.city = a.city GROUP BY a.city, s.city",
     "two results are called 'city'", "s.city", "AS"),
    ("SELECT COUNT(*) FROM sales s JOIN cities a ON s.city = a.city GROUP BY a.city, s.city",
     "two results are called 'city'", None, "AS"),
    # sensitive tables
    ("SELECT COUNT(*) FROM sales s JOIN secret p USING (product_id)",
     "'sales' protects a row, and 'secret' a row", "secret p", "Sensitive tables can be joined on the ids of a privacy unit that both"),
    (f"{SALE} JOIN customers c ON s.product_id = c.age", "'sales' protects a row, and 'customers' a customer_id",
     "customers c", "Sensitive tables can be joined on the ids of a privacy unit that both"),
    (f"{ORDER} JOIN patients c ON o.customer_id = c.patient_id",
     "'orders' protects a customer_id, and 'patients' a patient_id", "patients c", "Tables can be joined if they are about the same people. Then give"),
    (f"{ORDER} JOIN customers c ON o.amount = c.age", "tables that protect the same ids can be joined only on these ids", "customers c",
     "Join on the ids 'customer_id' of both tables."),
    (f"SELECT COUNT(*) FROM customers c LEFT JOIN orders o {IDS}", "keeps the rows of 'c'", "orders o",
     "Write FROM o LEFT JOIN c, or JOIN."),
    (f"SELECT COUNT(*) FROM open_orders o JOIN customers c {IDS}",
     "'open_orders' is declared public, and 'customers' is not", "customers c", "Declare both as public, or neither."),
    (f"{ORDER} LEFT JOIN visits c {IDS}", "both tables may hold several rows of one customer_id",
     "visits c", "max_rows=1"),
    (f"{ORDER} JOIN huge c {IDS}", "may have 5,242,880 rows in this join", "huge c", "smaller max_rows"),
    (f"{ORDER} JOIN visits c {IDS} JOIN customers d ON o.customer_id = d.customer_id",
     "this join makes pairs of rows, and no third table can be joined", "customers d", "two tables"),
    (f"{ORDER} JOIN products p USING (product_id) JOIN visits c {IDS}", "both tables may hold several",
     "visits c", "Join these two tables alone with JOIN, or declare max_rows=1 for the"),
    (f"SELECT c.customer_id, COUNT(*) FROM orders o JOIN customers c {IDS} GROUP BY c.customer_id",
     "'customer_id' is the column of the privacy unit", "c.customer_id", "Use COUNT(*) for rows, or COUNT(DIST"),
    (f"SELECT COUNT(DISTINCT c.customer_id) FROM orders o LEFT JOIN customers c {IDS}",
     "'customer_id' is the column of the privacy unit", None, "COUNT(DISTINCT customer_id)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "shown", "hint"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refused_with_reason_place_and_hint(text, what, shown, hint):
    error = refusal(text)
    assert what in error.what
    assert hint in error.hint
    assert error.line == 1
    assert shown is None or error.text == shown


def test_what_an_engine_cannot_join_is_refused_with_its_reason():
    listed = [TABLES[name] for name in ("sales", "products", "orders", "customers", "visits")]
    tables = opened(listed, lambda name, join: ("tables on the moon are not joined", "Fetch them."))
    for text in (
        f"{SALE} JOIN products p {MATCH}",
        f"{ORDER} JOIN customers c {IDS}",
        f"{ORDER} JOIN visits c {IDS}",
    ):
        with pytest.raises(SqlError, match=r"on the moon.*Fetch them"):
            parse(text, tables)


def test_tables_that_were_not_opened_together_are_not_joined():
    apart = {
        name: Table(name, None, TABLES[name].schema, public=name == "products", key=key)
        for name, key in (("sales", None), ("products", "product_id"))
    }
    with pytest.raises(SqlError, match="not opened together"):
        parse(f"{SALE} JOIN products p {MATCH}", apart)


class TestDeclarations:
    @pytest.mark.parametrize(
        ("options", "what"),
        [
            (
                {"key": "nope"},
                "the key 'nope' is not a declared column. Name a column of the schema.",
            ),
            ({"key": 3}, "the key 3 is not a declared column. Name a column of the schema."),
            ({"key": "price"}, "the key 'price' is a Real"),
            (
                {"key": "product_id", "public": False},
                "a table with a key must be public: other tables look up its rows",
            ),
            (
                {"key": "product_id", "unit": unit()},
                "a table with a key must be public: other tables look up its rows",
            ),
        ],
    )
    def test_a_key_is_a_declared_column_of_a_public_table(self, options, what):
        with pytest.raises(SchemaError) as caught:
            Table("products", None, PRODUCTS, **{"public": True, **options})
        assert what in str(caught.value)

    def test_a_key_stands_in_toml(self, tmp_path):
        path = tmp_path / "products.toml"
        path.write_text(
            'source = "p.csv"\npublic = true\nkey = "product_id"\n' + PRODUCTS.to_toml()
        )
        assert Table.load(path).key == "product_id"
        path.write_text('source = "p.csv"\nkey = "product_id"\n' + PRODUCTS.to_toml())
        with pytest.raises(
            SchemaError, match="a table with a key must be public: other tables look up its rows"
        ):
            Table.load(path)

    def test_joined_columns_are_found_and_not_listed(self):
        schema = TABLES["sales"].schema
        name = "products[product_id].price"
        assert schema[name] == Real(0, 100)
        assert name in schema
        assert list(schema) == list(SALES)
        assert schema.find(name) is None
        assert name not in schema.to_toml()
        assert schema != SALES
        assert schema.protecting(None) == SALES

    def test_a_declared_column_may_not_have_the_name_of_a_joined_one(self):
        taken = Schema({**SALES, "products[product_id].price": Integer(0, 1)})
        with pytest.raises(
            SchemaError,
            match="the column name 'products\\[product_id\\]\\.price' is reserved for joins",
        ):
            opened([Table("sales", None, taken), TABLES["products"]])

    def test_a_definition_names_the_tables_that_can_be_looked_up(self):
        assert "joins" not in Table("sales", None, SALES).definition()
        assert (
            opened([Table("sales", None, SALES)])["sales"].definition()
            == Table("sales", None, SALES).definition()
        )
        found = TABLES["sales"].definition()["joins"]
        assert set(found) == {"products", "cities"}
        assert found["products"]["key"] == "product_id"
        pair = TABLES["orders*visits"].definition()
        assert pair["joins"]["visits"]["unit"]["max_rows"] == 4

    def test_a_name_of_its_own_is_what_stands_behind_the_dot(self):
        assert own_name("products[product_id].price") == "price"
        assert own_name("visits[].day") == "day"
        assert [own_name(name) for name in ("a.b", "a[1]", "x")] == ["a.b", "a[1]", "x"]
