"""DESCRIBE, SHOW and EXPLAIN in a cell: what is declared, and what a statement costs, for nothing."""

from __future__ import annotations

import pytest

from dpnb.answers.price import Price
from dpnb.errors import DpnbError
from dpnb.sql.commands import command

SQL = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"


@pytest.mark.parametrize(
    "statement", ["SHOW TABLES", "show tables;", "-- all\nSHOW /* the */ TABLES ;"]
)
def test_show_tables_shows_what_dptables_shows(opened, statement):
    assert opened.run(f"%%dpquery\n{statement}").result == opened.run("%dptables").result


@pytest.mark.parametrize(
    "statement",
    [
        "DESCRIBE adult",
        "desc ADULT;",
        'DESCRIBE "adult"',
        "SHOW COLUMNS FROM adult",
        "SHOW COLUMNS IN Adult",
    ],
)
def test_describe_shows_the_columns_of_one_table(opened, statement):
    result = opened.run(f"%%dpquery --rho 0.1\n{statement}").result
    assert result.caption == "Declared columns of adult"
    assert result.rows == opened.run("%dptables").result.rows


def test_an_unknown_table_is_named_with_its_neighbour(opened):
    error = opened.run("%%dpquery\nDESCRIBE adults").error
    assert (error.what, error.hint) == ("unknown table 'adults'", "Did you mean adult?")


@pytest.mark.parametrize(
    "cell", [f"%%dpquery --rho 0.01\nEXPLAIN {SQL}", f"%dpquery --rho 0.01 explain {SQL}"]
)
def test_explain_shows_the_price_and_spends_nothing(opened, cell):
    price = opened.run(cell).result
    assert isinstance(price, Price)
    assert price.spent == opened.run(f"%%dpquery --rho 0.01 --dry-run\n{SQL}").result.spent
    assert opened.run("%dpbudget").result.spent.rho == 0
    assert len(opened.run("%dphistory").result) == 0


def test_explain_takes_the_cost_of_a_clause_and_asks_for_one_otherwise(opened):
    clause = SQL.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1)")
    assert opened.run(f"%%dpquery\nEXPLAIN {clause}").result.spent.rho > 0
    assert "needs a privacy cost" in str(opened.run(f"%%dpquery\nEXPLAIN {SQL}").error)


def test_errors_of_an_explained_statement_point_into_the_cell(opened):
    error = opened.run("%%dpquery --rho 0.01\nEXPLAIN SELECT COUNT(*)\nFROM adults").error
    assert (error.line, error.column, error.text) == (2, 6, "adults")


@pytest.mark.parametrize(
    "statement",
    [
        f"EXPLAIN ANALYZE {SQL}", f"EXPLAIN (FORMAT json) {SQL}", f"EXPLAIN EXPLAIN {SQL}", "EXPLAIN ATTACH 'x.db'",
        f"EXPLAIN {SQL}; {SQL}", f"DESCRIBE {SQL}", "DESCRIBE adult; SHOW TABLES", "DESCRIBE 'adult.csv'",
        "DESCRIBE TABLE adult", "SHOW ALL", "SHOW ALL TABLES", "SHOW adult", "SHOW VARIABLES", "SUMMARIZE adult",
        "PRAGMA show_tables", "PRAGMA table_info('adult')", "SET threads = 1", "ATTACH 'x.db'", "COPY adult TO 'x.csv'",
        "CALL pragma_version()", "FROM duckdb_settings()", "IMPORT DATABASE 'x'", "SELECT 1; PRAGMA show_tables",
        "SELECT * FROM (DESCRIBE adult)", "SELECT * FROM (SHOW TABLES)", "SELECT * FROM (SUMMARIZE adult)",
    ],
)  # fmt: skip
def test_other_statements_in_such_words_are_refused(opened, statement):
    error = opened.run(f"%%dpquery --rho 0.01 --yes\n{statement}").error
    assert isinstance(error, DpnbError)
    assert error.hint
    assert opened.run("%dpbudget").result.spent.rho == 0


def test_a_command_is_read_from_its_words_alone():
    assert command(f"EXPLAIN ANALYZE {SQL}") is command(f"EXPLAIN COPY ({SQL}) TO 'x'") is None


def test_a_column_or_table_named_like_a_command_is_no_command():
    for text in (
        "SELECT show FROM t",
        "SELECT COUNT(*) FROM describe",
        "'SHOW TABLES'",
        '"SHOW" TABLES',
        "SHOW 'TABLES'",
        "",
    ):
        assert command(text) is None
