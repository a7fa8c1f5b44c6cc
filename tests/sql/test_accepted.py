"""Statements that are answered, and what they mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.schema.predicates import EVERY, NONE, And, Or, Within
from dpnb.sql.canonical import describe
from dpnb.sql.functions import Function
from dpnb.sql.parser import parse
from dpnb.sql.query import Aggregate, Compare, Junction, Key
from dpnb.sql.shown import PLAIN, Field, Kind, Term
from dpnb.sql.values import Column

pytestmark = pytest.mark.fast

SCHEMA = Schema(
    {
        "sex": Category(["Female", "Male", "(", ")", "it's", "nulls", "<b>"]),
        "Age": Integer(17, 90, bins=[17, 30, 90]),
        "wage": Real(0, 100, bins=[0, 50, 100]),
        "day": Date("2024-01-01", "2024-12-31"),
        'odd "name"': Integer(0, 9),
        "größe": Integer(0, 9),
    }
)
TABLES = {"people": Table("people", None, SCHEMA), "Other": Table("Other", None, SCHEMA)}
COUNT = Aggregate(Function.COUNT, None, EVERY, "count")


def where(condition):
    return parse(f"SELECT COUNT(*) FROM people WHERE {condition}", TABLES).where


def age(*intervals, null=False):
    return Within("Age", tuple(intervals), null)


class TestShapes:
    def test_count_of_a_table(self):
        query = parse("SELECT COUNT(*) FROM people", TABLES)
        assert query.table == "people"
        assert query.keys == ()
        assert query.aggregates == (COUNT,)
        assert query.where == EVERY
        assert (query.having, query.shown) == (None, PLAIN)

    def test_all_aggregates_with_aliases_and_filters(self):
        query = parse(
            "SELECT sex AS s, COUNT(*), COUNT(wage) AS n, SUM(Age), AVG(wage) FILTER (WHERE Age > 30)"
            " FROM people GROUP BY sex",
            TABLES,
        )
        assert query.keys == (Key.of("sex", "s", query.schema),)
        assert query.aggregates == (
            COUNT,
            Aggregate(Function.COUNT, Column("wage"), EVERY, "n"),
            Aggregate(Function.SUM, Column("Age"), EVERY, "sum_Age"),
            Aggregate(Function.AVG, Column("wage"), age((31, 90)), "avg_wage"),
        )

    @pytest.mark.parametrize(
        ("short", "long"),
        [
            ("COUNT_IF(Age > 30)", "COUNT(*) FILTER (WHERE Age > 30)"),
            ("count_if(Age > 30 OR wage IS NULL)", "COUNT(*) FILTER (WHERE Age > 30 OR wage IS NULL)"),
            ("COUNTIF(NOT sex = 'Male')", "COUNT(*) FILTER (WHERE sex <> 'Male')"),
            (
                "COUNT_IF(Age > 30) FILTER (WHERE sex = 'Male')",
                "COUNT(*) FILTER (WHERE sex = 'Male' AND Age > 30)",
            ),
            ("COUNT_IF(Age > 30) FILTER (WHERE Age < 20)", "COUNT(*) FILTER (WHERE Age > 95)"),
        ],
    )  # fmt: skip
    def test_count_if_is_a_count_with_one_more_condition(self, short, long):
        (one,), (other,) = (
            parse(f"SELECT {text} FROM people", TABLES).aggregates for text in (short, long)
        )
        assert one.means(other)
        assert one.alias == "count_if"
        assert other.alias == "count"

    def test_count_if_in_formulas_and_in_having(self):
        (share,) = parse("SELECT COUNT_IF(Age > 30) / COUNT(*) AS q FROM people", TABLES).derived
        assert [leaf.filter for leaf in share.leaves] == [age((31, 90)), EVERY]
        having = parse(
            "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING COUNT_IF(Age > 30) > 5",
            TABLES, deciding=True,
        ).having  # fmt: skip
        assert having.aggregate.filter == age((31, 90))

    def test_a_group_column_need_not_be_shown(self):
        query = parse("SELECT COUNT(*) FROM people GROUP BY sex", TABLES)
        assert query.keys == (Key.of("sex", "sex", query.schema),)

    def test_order_and_limit_act_on_results(self):
        query = parse(
            "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n DESC, sex LIMIT 3",
            TABLES,
        )
        n, sex = (Field(1, Kind.NUMBER, released=True), Field(0, Kind.TEXT, released=False))
        assert query.shown.order == (Term(n, descending=True), Term(sex, descending=False))
        assert (query.shown.limit, query.shown.columns) == (3, None)
        ordered = parse("SELECT COUNT(*) AS n FROM people ORDER BY COUNT(*) LIMIT 0", TABLES)
        assert ordered.shown.order == (Term(replace(n, place=0), descending=False),)

    def test_having_becomes_meaning(self):
        query = parse(
            "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex "
            "HAVING n > 10 AND NOT (AVG(wage) BETWEEN 1 AND 2.5 OR 5 < COUNT(*))",
            TABLES,
            deciding=True,
        )
        n = query.aggregates[0]
        mean = Aggregate(Function.AVG, Column("wage"), EVERY, "avg_wage")
        assert query.having == Junction(
            "AND",
            (
                Compare(n, ">", 10),
                Junction(
                    "NOT",
                    (
                        Junction(
                            "OR",
                            (
                                Junction("AND", (Compare(mean, ">=", 1), Compare(mean, "<=", 2.5))),
                                Compare(n, ">", 5),
                            ),
                        ),
                    ),
                ),
            ),
        )

    @pytest.mark.parametrize(
        "text",
        [
            "select count(*) from PEOPLE;",
            "SELECT COUNT(*) FROM people ;\n ;",
            'SELECT COUNT(*) FROM "People"',
            "SELECT\n\tCOUNT ( * )\nFROM\n\tpeople",
            "SELECT COUNT(*) FROM people AS p",
        ],
    )
    def test_spelling_does_not_matter(self, text):
        assert parse(text, TABLES) == parse("SELECT COUNT(*) FROM people", TABLES)

    def test_columns_may_be_qualified_by_table_or_alias(self):
        assert where("people.age = 20") == age((20, 20))
        query = parse("SELECT COUNT(*) FROM people AS p WHERE p.AGE = 20", TABLES)
        assert query.where == age((20, 20))

    def test_odd_names_are_quoted(self):
        query = parse(
            'SELECT SUM("odd ""name""") AS "<i>&", größe FROM people GROUP BY größe', TABLES
        )
        assert query.aggregates[0].value == Column('odd "name"')
        assert query.aggregates[0].alias == "<i>&"
        assert query.keys[0].partition.column == "größe"

    def test_the_largest_statement_is_read(self):
        parse(f"SELECT COUNT(*) FROM people{' ' * (20_000 - 27)}", TABLES)


COMMENTED = [
    "SELECT COUNT(*) FROM people WHERE age > 30 -- all :of them, it's said",
    "/* all */ SELECT COUNT(*)/**/FROM people -- 'x\n WHERE age /* :y */ > 30",
    "-- first\nSELECT COUNT(*) FROM people WHERE age > 30; -- last",
    "SELECT /*+ BROADCAST(t) */ COUNT(*) FROM people WHERE age > 30",
    "SELECT COUNT(*) FROM people WHERE age > :least /* as bound */",
]


@pytest.mark.parametrize("text", COMMENTED)
def test_comments_mean_nothing(text):
    plain = parse("SELECT COUNT(*) FROM people WHERE age > 30", TABLES)
    assert parse(text, TABLES, {"least": 30}) == plain


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "meaning"),
        [
            ("age = 20", age((20, 20))),
            ("20 = age", age((20, 20))),
            ("age <> 20", age((17, 19), (21, 90))),
            ("age != 20", age((17, 19), (21, 90))),
            ("age < 20.5", age((17, 20))),
            ("20.5 > age", age((17, 20))),
            ("age <= -5", NONE),
            ("age > 1e3", NONE),
            ("age >= 17", age((17, 90))),
            ("age BETWEEN 20 AND 30", age((20, 30))),
            ("age BETWEEN 30 AND 20", NONE),
            ("age NOT BETWEEN 20 AND 30", age((17, 19), (31, 90))),
            ("age IN (20, 21, 25)", age((20, 21), (25, 25))),
            ("age NOT IN (20)", age((17, 19), (21, 90))),
            ("age IS NULL", age(null=True)),
            ("age IS NOT NULL", age((17, 90))),
            ("NOT age IS NULL", age((17, 90))),
            ("NOT (age < 20 OR age > 30)", age((20, 30))),
            ("NOT NOT age = 20", age((20, 20))),
            ("age < 20 OR age IS NULL", age((17, 19), null=True)),
            ("age IS NULL OR age IS NOT NULL", EVERY),
            ("age = 20 AND age = 21", NONE),
            ("sex = 'it''s'", Within("sex", ((4, 4),))),
            ("sex IN ('Male', 'Female')", Within("sex", ((0, 1),))),
            ("wage > 1e2", NONE),
            ("wage >= 1e-3 AND wage < .5", Within("wage", ((0.001, 0.49999999999999994),))),
            ("day = '2024-01-02'", Within("day", ((19724, 19724),))),
            ("day < DATE '2024-01-02'", Within("day", ((19723, 19723),))),
            ("day < CAST('2024-01-02' AS DATE)", Within("day", ((19723, 19723),))),
        ],
    )
    def test_meaning(self, condition, meaning):
        assert where(condition) == meaning

    @pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
    def test_sides_of_a_comparison_may_be_exchanged(self, operator):
        turned = operator.translate(str.maketrans("<>", "><")) if operator != "<>" else operator
        assert where(f"20 {turned} age") == where(f"age {operator} 20")

    def test_not_never_keeps_missing_values(self):
        assert where("NOT (age = 20)") == age((17, 19), (21, 90))
        assert where("NOT (age = 20 AND sex = 'Male')") == Or(
            tuple(
                sorted(
                    (age((17, 19), (21, 90)), Within("sex", ((0, 0), (2, 6)))),
                    key=str,
                )
            )
        )

    def test_texts_that_look_like_syntax_are_texts(self):
        assert where("sex = '<b>'") == Within("sex", ((6, 6),))

    def test_brackets_and_the_word_nulls_inside_quotes_are_texts(self):
        brackets = ", ".join(["'('"] * 60)
        assert where(f"sex IN ({brackets})") == Within("sex", ((2, 2),))
        assert where("sex = 'nulls'") == Within("sex", ((5, 5),))


class TestOneSpellingForEachMeaning:
    @pytest.mark.parametrize(
        ("left", "right"),
        [
            ("age > 20 AND sex = 'Male'", "sex = 'Male' AND NOT age <= 20"),
            ("age IN (20, 21)", "age = 21 OR age = 20 OR age = 20"),
            ("NOT (sex = 'Male' OR age < 20)", "age >= 20 AND sex <> 'Male'"),
            ("age BETWEEN 17 AND 90", "age IS NOT NULL"),
            ("age = 20", "(((age = ((20)))))"),
        ],
    )
    def test_equal_meanings_have_equal_descriptions(self, left, right):
        texts = [f"SELECT COUNT(*) FROM people WHERE {part}" for part in (left, right)]
        first, second = (describe(parse(text, TABLES)) for text in texts)
        assert first == second

    def test_and_parts_are_flat_and_sorted(self):
        meaning = where("(sex = 'Male' AND (age = 20 AND (wage = 1)))")
        assert isinstance(meaning, And)
        assert all(isinstance(part, Within) for part in meaning.parts)
        assert list(meaning.parts) == sorted(meaning.parts, key=str)
