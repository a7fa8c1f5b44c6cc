"""Statements that are refused: what is said, where it points, what to write instead."""

from __future__ import annotations

import logging
import sys

import duckdb
import pytest

from dpnb import Category, Date, Integer, Real, Schema, Table
from dpnb.errors import SqlError
from dpnb.sql.parser import parse
from dpnb.sql.source import split

SCHEMA = Schema(
    {
        "sex": Category(["Female", "Male"]),
        "age": Integer(17, 90, bins=[17, 30, 90]),
        "weight": Real(0, 200),
        "day": Date("2024-01-01", "2024-12-31"),
        "id": Integer(0, 1_000_000),
        "a": Integer(1, 200),
        "b": Integer(1, 200),
    }
)
TABLES = {"t": Table("t", None, SCHEMA)}
ONE = "Write one SELECT over one table."
JOIN = "Write FROM a JOIN b ON a.x = b.x."
SHAPE = "Write COUNT(*), COUNT(x), SUM(x) or AVG(x)"

BY_SEX = "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"

# text, what is said, what it points at, a part of the hint
REFUSED = [
    # a name that is no column is what is wrong, whatever stands around it
    (
        "SELECT COUNT(*) FROM t WHERE FLOOR(agee) = 3",
        "unknown column 'agee'",
        "agee",
        "Did you mean age?",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE agee * 2 > 3",
        "unknown column 'agee'",
        "agee",
        "Did you mean age?",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE sexx LIKE 'F%'",
        "unknown column 'sexx'",
        "sexx",
        "Did you mean sex?",
    ),
    ("SELECT SUM(ABS(agee)) FROM t", "unknown column 'agee'", "agee", "Did you mean age?"),
    (
        "SELECT COUNT(*) FROM t GROUP BY agee // 10",
        "unknown column 'agee'",
        "agee",
        "Did you mean age?",
    ),
    (
        'SELECT COUNT(*) FROM t WHERE LOWER(sex) = "female"',
        "unknown column 'female'",
        '"female"',
        "Texts take single quotes: 'female'.",
    ),
    # other statements
    ("ATTACH 'x.db' AS x", "only SELECT is supported", "ATTACH", "Write SELECT"),
    ("COPY t TO '/tmp/x.csv'", "only SELECT is supported", "COPY", "Write SELECT"),
    ("EXPORT DATABASE '/tmp/x'", "only SELECT is supported", "EXPORT", "Write SELECT"),
    ("PRAGMA enable_profiling", "settings cannot be shown or changed", "PRAGMA", "Write SELECT"),
    ("SET threads = 1", "settings cannot be shown or changed", "SET", "Write SELECT"),
    ("RESET threads", "settings cannot be shown or changed", "RESET", "Write SELECT"),
    ("INSTALL httpfs", "only SELECT is supported", "INSTALL", "Write SELECT"),
    ("LOAD httpfs", "only SELECT is supported", "LOAD", "Write SELECT"),
    ("CALL pragma_version()", "only SELECT is supported", "CALL", "Write SELECT"),
    (
        "EXPLAIN SELECT COUNT(*) FROM t",
        "EXPLAIN shows the price of one SELECT",
        "EXPLAIN",
        "session.price(sql",
    ),
    (
        "EXPLAIN ANALYZE SELECT COUNT(*) FROM t",
        "EXPLAIN shows the price",
        "EXPLAIN",
        "EXPLAIN SELECT",
    ),
    ("DESCRIBE t", "DESCRIBE shows declared tables", "DESCRIBE", "session.tables"),
    (
        "DESCRIBE SELECT sex FROM t",
        "DESCRIBE shows declared tables",
        "DESCRIBE",
        "Write DESCRIBE t",
    ),
    ("SHOW ALL TABLES", "SHOW shows declared tables", "SHOW", "Write DESCRIBE t, SHOW TABLES"),
    ("SUMMARIZE t", "SUMMARIZE would show exact values of the rows", "SUMMARIZE", "session.tables"),
    (
        "SUMMARIZE SELECT sex FROM t",
        "SUMMARIZE would show exact values",
        "SUMMARIZE",
        "Write SELECT",
    ),
    ("CREATE TABLE x AS SELECT 1", "only SELECT is supported", "CREATE", "Write SELECT"),
    ("DROP TABLE t", "only SELECT is supported", "DROP", "Write SELECT"),
    ("DELETE FROM t", "only SELECT is supported", "DELETE", "Write SELECT"),
    ("INSERT INTO t VALUES (1)", "only SELECT is supported", "INSERT", "Write SELECT"),
    ("UPDATE t SET age = 1", "only SELECT is supported", "UPDATE", "Write SELECT"),
    ("(SELECT COUNT(*) FROM t)", "a statement in brackets", "(", "Leave the brackets out."),
    ("VALUES (1)", "only SELECT is supported", "VALUES", "Write SELECT"),
    ("FROM t", "only SELECT is supported", "FROM", "Write SELECT"),
    ("PIVOT t ON sex USING COUNT(*)", "only SELECT is supported", "PIVOT", "Write SELECT"),
    ("PREPARE x AS SELECT 1", "only SELECT is supported", "PREPARE", "Write SELECT"),
    ("SELECT 1 UNION SELECT 2", "UNION drops equal lines", "UNION", "Write UNION ALL"),
    (
        "SELECT COUNT(*) FROM t INTERSECT SELECT COUNT(*) FROM t",
        "only UNION ALL combines statements",
        "INTERSECT",
        "Write each SELECT",
    ),
    # several statements
    ("SELECT COUNT(*) FROM t; SELECT 1", "only one statement is allowed", "1", "own cell"),
    ("SELECT COUNT(*) FROM t; DROP TABLE t", "only one statement is allowed", "t", "own cell"),
    # what stands after FROM
    ("SELECT COUNT(*) FROM nope", "unknown table 'nope'", "nope", "Declared: t"),
    ("SELECT COUNT(*) FROM '/etc/passwd'", "unknown table", "'/etc/passwd'", "Declared: t"),
    ('SELECT COUNT(*) FROM "/etc/passwd"', "unknown table", '"/etc/passwd"', "Declared: t"),
    ("SELECT COUNT(*) FROM rows", "unknown table 'rows'", "rows", "Declared: t"),
    (
        "SELECT COUNT(*) FROM main.t",
        "only a declared table",
        "main.t",
        "Write only the name of the table.",
    ),
    (
        "SELECT COUNT(*) FROM information_schema.tables",
        "only a declared",
        "tables",
        "Write only the name of the table.",
    ),
    (
        "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "table functions are not supported",
        "read_csv",
        "Name a",
    ),
    ("SELECT COUNT(*) FROM glob('*')", "table functions are not supported", "glob('*')", "Name a"),
    (
        "SELECT COUNT(*) FROM query('SELECT 1')",
        "table functions are not supported",
        "query",
        "Name a declared",
    ),
    (
        "SELECT COUNT(*) FROM duckdb_settings()",
        "table functions are not supported",
        "duckdb_settings",
        "Name a",
    ),
    (
        "SELECT SUM(age) FROM (SELECT DISTINCT age FROM t)",
        "'t' protects a row, so a query in FROM cannot group its rows",
        None,
        "Declare the people whose rows these are",
    ),
    ("SELECT COUNT(*) FROM (VALUES (1)) x", "only a declared table", "x", "Tables: t."),
    ("SELECT COUNT(*) FROM unnest([1])", "only a declared table", "1", "Tables: t."),
    (
        "SELECT COUNT(*) FROM t TABLESAMPLE 10%",
        "only a declared table",
        "TABLESAMPLE",
        "Write only the name of the table.",
    ),
    ("SELECT COUNT(*) FROM t USING SAMPLE 10", "sampling is not supported", "10", "noise"),
    (
        "SELECT COUNT(*) FROM t AS x(y)",
        "only a declared table",
        "t AS x(y)",
        "Write only the name of the table.",
    ),
    (
        "SELECT COUNT(*) FROM t PIVOT (COUNT(*) FOR sex IN ('Male'))",
        "only a declared table",
        "PIVOT",
        "Write only the name of the table.",
    ),
    ("SELECT COUNT(*) FROM t, t AS u", "a join needs a condition", "t AS u", JOIN),
    ("SELECT COUNT(*) FROM t JOIN t u ON TRUE", "ON takes one equality", "TRUE", JOIN),
    ("SELECT COUNT(*) FROM t CROSS JOIN t u", "a join needs a condition", "t u", JOIN),
    ("SELECT COUNT(*) FROM t, LATERAL (SELECT 1)", "LATERAL is not supported", "1", JOIN),
    (
        "WITH x AS (SELECT 1) SELECT COUNT(*) FROM x",
        "FROM names no table",
        None,
        "Add FROM t.",
    ),
    ("SELECT COUNT(*)", "there is no FROM", None, "Add FROM t."),
    # what is selected
    ("SELECT * FROM t", "rows cannot be listed", "*", "Count them: SELECT sex, COUNT"),
    ("SELECT t.* FROM t", "rows cannot be listed", "t.*", "Count them"),
    ("SELECT sex FROM t GROUP BY sex", "only a whole query lists groups", "sex", "Add COUNT(*)"),
    ("SELECT sex FROM t HAVING sex = 'F'", "rows cannot be listed", "sex", "Count them"),
    ("SELECT DISTINCT sex FROM t GROUP BY age", "'sex' is not in GROUP BY", "sex", "Add it to"),
    (
        "SELECT DISTINCT 1 FROM t",
        "this statement asks for no result",
        "SELECT DISTINCT 1",
        "Add COUNT(*)",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT sex FROM t GROUP BY sex)",
        "only a whole query lists groups without an aggregate",
        "SELECT sex",
        "Add COUNT(*)",
    ),
    ("SELECT sex, COUNT(*) FROM t", "'sex' is not in GROUP BY", "sex", "Add it to GROUP BY"),
    ("SELECT nope, COUNT(*) FROM t", "unknown column 'nope'", "nope", "Declared: sex"),
    ("SELECT COUNT(ages) FROM t", "unknown column 'ages'", "ages", "Did you mean age?"),
    ("SELECT SUM(c0) FROM t", "unknown column 'c0'", "c0", "Declared"),
    ("SELECT COUNT(rowid) FROM t", "unknown column 'rowid'", "rowid", "Declared"),
    ("SELECT SUM(sex) FROM t", "'sex' has texts, not numbers", "SUM(sex)", "COUNT_IF(sex = "),
    ("SELECT AVG(day) FROM t", "'day' has dates, not numbers", "AVG(day)", "AVG(day - DATE '"),
    (
        "SELECT MIN(age) FROM t",
        "MIN and MAX cannot be answered: one row decides them",
        "age",
        "QUANTILE(age, 0.01)",
    ),
    (
        "SELECT MAX(age) FROM t",
        "MIN and MAX cannot be answered: one row decides them",
        "age",
        "QUANTILE(age, 0.99)",
    ),
    (
        "SELECT SUM(DISTINCT age) FROM t",
        "single rows decide",
        "SUM(DISTINCT age)",
        "Write SUM(age).",
    ),
    (
        "SELECT BOOL_OR(age > 40) FROM t",
        "BOOL_OR cannot be answered",
        "age > 40",
        "COUNT_IF(age > 40)",
    ),
    (
        "SELECT BOOL_AND(age > 40) FROM t",
        "BOOL_AND cannot be answered",
        "age > 40",
        "COUNT_IF(NOT (age > 40))",
    ),
    (
        "SELECT COUNT(*) OVER () FROM t",
        "this statement asks for no result",
        "COUNT(*) OVER ()",
        "Add COUNT(*)",
    ),
    ("SELECT COUNT(sex, age) FROM t", "COUNT takes one column", "COUNT(sex, age)", SHAPE),
    (
        "SELECT COUNT_IF(age > 3, age > 5) FROM t",
        "COUNT_IF takes one condition",
        "COUNT_IF(age > 3, age > 5)",
        "COUNT_IF(x > 3)",
    ),
    (
        "SELECT COUNT_IF(DISTINCT age > 3) FROM t",
        "COUNT_IF takes one condition",
        "COUNT_IF",
        "COUNT_IF(x > 3)",
    ),
    ("SELECT COUNT_IF(*) FROM t", "COUNT_IF takes one condition", "COUNT_IF", "COUNT_IF(x > 3)"),
    (
        "SELECT COUNT_IF(age) FROM t",
        "'age' is neither true nor false",
        "age",
        "Compare it with one of its values: age = 17.",
    ),
    ("SELECT COUNT_IF(SUM(age) > 3) FROM t", "cannot contain aggregates", "SUM(age)", "Compare"),
    ("SELECT COUNT_IF(age > 3) OVER () FROM t", "this window function is not", "COUNT_IF", "SUM"),
    ("SELECT SUM(age) OVER () FROM t", "'age' is not in GROUP BY", "age", "or aggregate it"),
    ("SELECT SUM(COUNT(*)) OVER w FROM t", "the window 'w' is not defined", "w", "OVER ()"),
    ("SELECT LAG(COUNT(*)) OVER () FROM t", "LAG needs an order", "LAG", "OVER (ORDER BY n DESC)"),
    (
        "SELECT RANK() OVER (PARTITION BY sex) FROM t GROUP BY sex",
        "RANK needs an",
        "RANK",
        "ORDER BY n",
    ),
    ("SELECT NTILE() OVER (ORDER BY COUNT(*)) FROM t", "NTILE takes a number of", "NTILE", "(4)"),
    ("SELECT NTILE(0) OVER (ORDER BY COUNT(*)) FROM t", "NTILE takes a number of", "NTILE", "(4)"),
    ("SELECT NTILE(COUNT(*)) OVER (ORDER BY 1) FROM t", "NTILE takes a number", "NTILE", "(4)"),
    ("SELECT CUME_DIST() OVER () FROM t", "CUME_DIST needs an order", "CUME", "OVER (ORDER BY n"),
    ("SELECT SUM(DISTINCT COUNT(*)) OVER () FROM t", "SUM takes one value here", "COUNT", "SUM"),
    (
        "SELECT LAG(COUNT(*), 0.5) OVER (ORDER BY 1) FROM t",
        "whole number of lines",
        "0.5",
        "LAG(x, 1)",
    ),
    (
        "SELECT SUM(COUNT(*)) OVER (ORDER BY sex RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t GROUP BY sex",
        "frames of values are not",
        "SUM",
        "ROWS BETWEEN",
    ),
    (
        "SELECT SUM(COUNT(*)) OVER (ORDER BY sex ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM t GROUP BY sex",
        "EXCLUDE is not supported",
        "SUM",
        "Subtract it",
    ),
    (
        "SELECT COUNT(*) FROM t HAVING SUM(COUNT(*)) OVER () > 1",
        "windows are computed after",
        "SUM",
        "QUALIFY",
    ),
    ("SELECT COUNT(*) n FROM t QUALIFY n", "this must be a condition", "n", "BETWEEN"),
    (
        "SELECT COUNT(* EXCLUDE (sex)) FROM t",
        "COUNT(*) takes no EXCLUDE or REPLACE",
        "EXCLUDE",
        SHAPE,
    ),
    # arithmetic inside aggregates
    ("SELECT SUM(UPPER(sex)) FROM t", "this is a text, not a number", "sex", "Count it"),
    ("SELECT AVG(age * day) FROM t", "'day' is not a numeric column", "day", "CASE WHEN day ="),
    ("SELECT COUNT(age + sex) FROM t", "DuckDB cannot compute this", "age", "Check the types"),
    (
        "SELECT SUM(CASE WHEN age > 30 THEN sex END) FROM t",
        "'sex' is not a numeric column",
        "sex",
        "CASE WHEN",
    ),
    ("SELECT SUM(age / a) FROM t", "the divisor must be a number", "a", "SUM(a) / SUM(b)"),
    ("SELECT SUM(age / 0) FROM t", "this divides by 0", "age / 0", "Change the divisor"),
    ("SELECT SUM(age / (2 - 2)) FROM t", "this divides by 0", "2 - 2", "Change the divisor"),
    (
        "SELECT SUM(age + random()) FROM t",
        "RANDOM is not supported here",
        "random",
        "Functions of numbers: IF",
    ),
    (
        "SELECT SUM(age || 30) FROM t",
        "this is a text, not a number",
        "age || 30",
        "Count it",
    ),
    (
        "SELECT SUM(IF(age > 3, 1, sex)) FROM t",
        "'sex' is not a numeric column",
        "sex",
        "CASE",
    ),
    ("SELECT SUM(age + '1') FROM t", "this must be a number", "'1'", "without quotes"),
    ("SELECT SUM(age + (SELECT 1)) FROM t", "subqueries are not supported", "1", "values out"),
    (
        "SELECT SUM(age + COUNT(*)) FROM t",
        "this is not supported inside an aggregate",
        "COUNT(*)",
        "columns",
    ),
    ("SELECT SUM(age - nope) FROM t", "unknown column 'nope'", "nope", "Declared"),
    ("SELECT SUM(age * 1e149) FROM t", "can be too large", "age * 1e149", "1e150"),
    ("SELECT SUM(age * 1e160) FROM t", "the number is out of range", "1e160", "1e150"),
    ("SELECT SUM(age / 1e-160) FROM t", "the number is out of range", "1e-160", "1e150"),
    ("SELECT SUM(age * 0) FROM t", "this expression is 0 in every row", "age * 0", "another value"),
    ("SELECT SUM(age * 1e-100 * 1e-100) FROM t", "are too small", "1e-100", "Multiply"),
    ("SELECT AVG(1) FROM t", "the same number in every row", "1", "count rows"),
    ("SELECT AVG(weight + 1e15) FROM t", "too close together", "weight + 1e15", "Leave out"),
    ("SELECT SUM(NULL) FROM t", "this expression is NULL in every row", "NULL", "a value"),
    ("SELECT COUNT(age + NULL) FROM t", "this expression is NULL in every row", "age", "a value"),
    (
        "SELECT SUM(CASE WHEN age > 99 THEN 1 END) FROM t",
        "this expression is NULL in every row",
        "age > 99 THEN 1",
        "a value",
    ),
    ("SELECT SUM(CASE age WHEN 1 THEN 2 END) FROM t", "'age' never equals this", "1", "Change the"),
    (
        "SELECT SUM(CASE WHEN sex = 'X' THEN 1 ELSE 0 END) FROM t",
        "'X' is not a declared",
        "'X'",
        "Declared",
    ),
    # formulas
    (
        "SELECT SUM(age) + age FROM t",
        "'age' is not in GROUP BY",
        "age",
        "or aggregate it",
    ),
    ("SELECT sex * COUNT(*) FROM t GROUP BY sex", "a number, not a text", "sex", "a result"),
    ("SELECT age + COUNT(*) FROM t GROUP BY age", "a number, not a text", "age", "a result"),
    ("SELECT 1 + 1 FROM t", "this statement asks for no result", "1 + 1", "Add COUNT(*)"),
    ("SELECT COUNT(*) || 'x' FROM t", "a result cannot be part of a text", "COUNT(*)", "its own"),
    ("SELECT ROUND(COUNT(*), 0.5) FROM t", "ROUND takes a whole number of", "0.5", "ROUND(x, 1)"),
    ("SELECT LOG(1, COUNT(*)) FROM t", "the base of LOG must be above 0", "1", "LOG(2, x)"),
    ("SELECT LOG(COUNT(*), 2) FROM t", "the base of LOG must be a number", "COUNT", "LOG(2, x)"),
    ("SELECT COUNT(*)::DATE FROM t", "cannot be cast to this type", "COUNT(*)", "INTEGER, DOUBLE"),
    ("SELECT COALESCE(COUNT(*), 'x') FROM t", "a number and a text together", "COUNT", "one kind"),
    ("SELECT COUNT(*) / 0 FROM t", "this divides by 0", "COUNT(*) / 0", "divisor"),
    ("SELECT COUNT(*) + 'x' FROM t", "this must be a number", "'x'", "without quotes"),
    ("SELECT COUNT(*) * LN(0) FROM t", "LN needs a number above 0", "0", "Change"),
    (
        "SELECT CBRT(COUNT(*)) FROM t",
        "this expression is not supported",
        "COUNT(*)",
        "by + - * / and ROUND",
    ),
    ("SELECT COUNT(*) + SQRT(-2) FROM t", "SQRT needs a number of 0 or more", "2", "Change"),
    ("SELECT COUNT(*) * 1e200 FROM t", "the number is out of range", "1e200", "1e150"),
    ("SELECT string_agg(sex) FROM t", "would list the values", "sex", "GROUP BY sex"),
    ("SELECT list(age) FROM t", "would list the values", "list(age)", "GROUP BY age"),
    ("SELECT any_value(age) FROM t", "the value of one row", "any_value(age)", "GROUP BY age"),
    ("SELECT first(age) FROM t", "the value of one row", "first(age)", "GROUP BY age"),
    ("SELECT mode(age) FROM t", "MODE is not supported", "mode(age)", "DESC LIMIT 1"),
    ("SELECT skewness(age) FROM t", "this expression is not supported", "age", SHAPE),
    # variances and quantiles
    ("SELECT STDDEV(sex) FROM t", "'sex' has texts, not numbers", "sex", "Count a value"),
    ("SELECT VARIANCE(DISTINCT age) FROM t", "DISTINCT is not supported", "age", "Leave"),
    ("SELECT VAR_POP(age, 2) FROM t", "this is not valid SQL", "", "Write SELECT"),
    ('SELECT COUNT(*) FROM t WHERE day = age::"the DATE) day"" "', "this is not valid SQL", "", ""),
    (
        "SELECT VAR_POP(1) FROM t",
        "this expression is the same number in every row",
        "1",
        "Its average is that number; count rows instead.",
    ),
    (
        "SELECT VAR_POP(age * 1e80) FROM t",
        "the values of this expression can be too large",
        "age * 1e80",
        "1e150",
    ),
    (
        "SELECT VAR_POP(age * 1e-80) FROM t",
        "the values of this expression are too small",
        "age * 1e-80",
        "Multiply",
    ),
    ("SELECT MEDIAN(sex) FROM t", "'sex' is not a numeric column", "sex", "count categories"),
    ("SELECT MEDIAN(day) FROM t", "'day' is not a numeric column", "day", "Integer or Real"),
    (
        "SELECT MEDIAN(weight) FROM t",
        "'weight' has no bins among which a quantile can lie",
        "weight",
        "Declare bins",
    ),
    ("SELECT MEDIAN(age + 1) FROM t", "MEDIAN takes one column", "age + 1", "MEDIAN(x)"),
    ("SELECT MEDIAN(DISTINCT age) FROM t", "DISTINCT is not supported", "age", "Leave"),
    (
        "SELECT QUANTILE(id, 0.5) FROM t",
        "this needs 1,000,001 bins in all groups together, more than 10,000",
        "id",
        "wider bins for id",
    ),
    (
        "SELECT b, MEDIAN(a) FROM t GROUP BY b",
        "this needs 40,000 bins in all groups together, more than 10,000",
        "a",
        "fewer columns",
    ),
    (
        "SELECT age, MEDIAN(age) FROM t GROUP BY age",
        "'age' is a column of GROUP BY",
        "age",
        "another",
    ),
    (
        "SELECT QUANTILE(age) FROM t",
        "QUANTILE takes a column and a number between 0 and 1",
        "age",
        "0.9",
    ),
    (
        "SELECT QUANTILE(age, 1) FROM t",
        "a quantile must lie between 0 and 1; at the ends one row decides",
        "1",
        "0.99",
    ),
    (
        "SELECT QUANTILE(age, 0.0) FROM t",
        "a quantile must lie between 0 and 1; at the ends one row decides",
        "0.0",
        "0.99",
    ),
    (
        "SELECT QUANTILE(age, -0.5) FROM t",
        "a quantile must lie between 0 and 1; at the ends one row decides",
        "0.5",
        "0.99",
    ),
    (
        "SELECT QUANTILE(age, [0.1, 0.9]) + 1 FROM t",
        "the second argument of a quantile must be a number",
        "0.1",
        "QUANTILE(x, 0.9)",
    ),
    ("SELECT QUANTILE(age, 'x') FROM t", "this must be a number", "'x'", "without quotes"),
    (
        "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age DESC) FROM t",
        "WITHIN GROUP takes no DESC",
        "PERCENTILE_CONT",
        "1 - q",
    ),
    (
        "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age, a) FROM t",
        "this expression is not supported",
        "PERCENTILE_DISC",
        "WITHIN GROUP",
    ),
    ("SELECT random() FROM t", "this expression is not supported", "random", SHAPE),
    (
        "SELECT getvariable('x') FROM t",
        "this expression is not supported",
        "getvariable('x')",
        SHAPE,
    ),
    ("SELECT getenv('HOME'), COUNT(*) FROM t", "this expression is not supported", "getenv", SHAPE),
    ("SELECT my_udf(age) FROM t", "this expression is not supported", "my_udf(age)", SHAPE),
    ("SELECT COLUMNS('a') FROM t", "this expression is not supported", "COLUMNS('a')", SHAPE),
    (
        "SELECT COUNT(COLUMNS(*)) FROM t",
        "this is not supported inside an aggregate",
        "COLUMNS(*)",
        "Use columns",
    ),
    ("SELECT EXISTS (SELECT 1) FROM t", "subqueries are not supported", "1", "values out"),
    ("SELECT (SELECT 1) FROM t", "subqueries are not supported", "1", "values out"),
    ("SELECT COUNT(*) AS n, SUM(age) AS n FROM t", "two results are called 'n'", "SUM(age)", "AS"),
    ("SELECT COUNT(*) AS n, SUM(age) AS n_low FROM t", "two results", "SUM(age)", "AS"),
    ("SELECT COUNT(*) AS sex FROM t GROUP BY sex", "two results are called 'sex'", "COUNT", "AS"),
    ("SELECT COUNT(*) INTO x FROM t", "INTO is not supported", "x", "Leave INTO out"),
    ("SELECT TOP x COUNT(*) FROM t", "not valid SQL", None, "Write SELECT"),
    # GROUP BY
    (
        "SELECT COUNT(*) FROM t GROUP BY 1",
        "GROUP BY cannot take an aggregate",
        "1",
        "Group by columns.",
    ),
    (
        "SELECT COUNT(*) AS n FROM t GROUP BY n",
        "GROUP BY cannot take an aggregate",
        "n",
        "use HAVING",
    ),
    (
        "SELECT sex, COUNT(*) FROM t GROUP BY 3",
        "GROUP BY 3 is not a position in the SELECT list",
        "3",
        "write 1 to 2",
    ),
    (
        "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((sex), ()))",
        "GROUPING SETS is not supported in FROM",
        "GROUPING",
        "outermost SELECT",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY CUBE (sex, age, a, b, day)",
        "this makes 32 sets of keys, more than 20",
        "sex, age, a, b, day",
        "the sets that you need",
    ),
    (
        "SELECT sex, COUNT(*) FROM t GROUP BY sex WITH ROLLUP",
        "WITH ROLLUP is not supported",
        "ROLLUP",
        "GROUP BY ROLLUP (a, b)",
    ),
    (
        "SELECT sex, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) FROM t GROUP BY ROLLUP (sex)",
        "windows do not go over several sets",
        "RANK() OVER (ORDER BY COUNT(*))",
        "one statement for each set",
    ),
    (
        "SELECT sex, COUNT(*) AS n FROM t GROUP BY ROLLUP (sex) QUALIFY RANK() OVER (ORDER BY n) < 3",
        "QUALIFY does not go over several sets",
        "QUALIFY",
        "one statement for each set",
    ),
    (
        "SELECT DISTINCT sex, COUNT(*) FROM t GROUP BY ROLLUP (sex)",
        "DISTINCT drops equal lines",
        "DISTINCT",
        "Leave DISTINCT out",
    ),
    (
        "SELECT sex, GROUPING(age), COUNT(*) FROM t GROUP BY ROLLUP (sex)",
        "GROUPING takes group columns",
        "age",
        "Name a column of GROUP BY",
    ),
    (
        "SELECT sex, COUNT(*) FROM t GROUP BY ROLLUP (sex) HAVING GROUPING(sex) = 2",
        "HAVING leaves no set of keys",
        "GROUPING",
        "Leave its condition on them out",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY age / weight",
        "GROUP BY takes columns and expressions of one column",
        "age / weight",
        "Compute from one column",
    ),
    ("SELECT COUNT(*) FROM t GROUP BY weight", "no declared groups", "weight", "Declare bins"),
    ("SELECT COUNT(*) FROM t GROUP BY id", "1,000,001 groups, more than 10,000", "id", "bins"),
    ("SELECT COUNT(*) FROM t GROUP BY a, b", "40,000 groups, more than 10,000", "a, b", "fewer"),
    # WHERE
    ("SELECT COUNT(*) FROM t WHERE nope = 1", "unknown column 'nope'", "nope", "Declared"),
    (
        "SELECT COUNT(*) FROM t WHERE u.age = 1",
        "unknown table",
        "u.age",
        "Write only the name of the column.",
    ),
    ("SELECT COUNT(*) FROM t WHERE sex = 'male'", "not a declared", "'male'", "mean 'Male'?"),
    ("SELECT COUNT(*) FROM t WHERE sex IN ('Male', 'X')", "not a declared", "'X'", "Declared"),
    ('SELECT COUNT(*) FROM t WHERE sex = "Male"', "not a column", '"Male"', "quotes: 'Male'."),
    ("SELECT COUNT(*) FROM t WHERE sex = Male", "not a column", "Male", "quotes: 'Male'."),
    ("SELECT COUNT(*) FROM t WHERE sex = x-y-z", "not a column", "x-y-z", "quotes: 'x-y-z'."),
    ("SELECT COUNT(*) FROM t WHERE age = 250", "from 17 to 90", "250", "<"),
    ("SELECT COUNT(*) FROM t WHERE age IN (30, 250)", "'age' never equals this", "250", "<"),
    ("SELECT COUNT(*) FROM t WHERE age = 17.5", "from 17 to 90", "17.5", "<"),
    ("SELECT COUNT(*) FROM t WHERE day = '2023-12-31'", "from 2024-01-01 to 2024-12-31", None, "<"),
    ("SELECT COUNT(*) FROM t WHERE sex < 'Male'", "categories have no order", "'Male'", "Use ="),
    ("SELECT COUNT(*) FROM t WHERE age = '2O'", "'2O' is not a number", "'2O'", "without quotes"),
    ("SELECT COUNT(*) FROM t WHERE age = '20.5'", "is not a number", "'20.5'", "without quotes"),
    ("SELECT COUNT(*) FROM t WHERE day = '2024-02-30'", "is not a date", "'2024-02-30'", "2024-01"),
    (
        "SELECT COUNT(*) FROM t WHERE id = day",
        "two columns of so many values",
        "id = day",
        "100,000",
    ),
    ("SELECT COUNT(*) FROM t WHERE id + a > 60", "one side of a comparison", "id + a", "100,000"),
    ("SELECT COUNT(*) FROM t WHERE a + b", "this is a number, not a condition", "a + b", "value"),
    (
        "SELECT COUNT(*) FROM t WHERE age > sex",
        "cannot compute this from age and sex",
        None,
        "CAST",
    ),
    ("SELECT COUNT(*) FROM t WHERE a > random() + b", "RANDOM is not supported", "random", "ABS"),
    (
        "SELECT COUNT(*) FROM t WHERE CAST(sex AS INT) = 1",
        "DuckDB cannot compute this from sex, which has texts",
        "sex",
        "CAST(x AS VARCHAR)",
    ),
    ("SELECT COUNT(*) FROM t WHERE age // 0 = 1", "this divides by 0", "age // 0", "the divisor"),
    (
        "SELECT COUNT(*) FROM t WHERE sex SIMILAR TO '('",
        "not a valid regular expression",
        "'('",
        "brackets",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE regexp_matches(sex, '((a{1,99}){1,99}){1,99}')",
        "this is not a valid regular expression",
        "a{1,99}",
        "no part more than 1,000 times",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day + INTERVAL 9999999 YEAR > DATE '2024-01-01'",
        "this has no finite result for any value of day",
        "day + INTERVAL 9999999 YEAR",
        "smaller numbers",
    ),
    ("SELECT COUNT(*) FROM t WHERE age = random()", "RANDOM is not supported", "random", "ABS"),
    (
        "SELECT COUNT(*) FROM t WHERE age = getvariable('x')",
        "GETVARIABLE is not supported here",
        "getvariable",
        "Functions of numbers: IF",
    ),
    ("SELECT COUNT(*) FROM t WHERE age = 1 + 'a'", "this must be a number", "'a'", "quotes"),
    (
        "SELECT COUNT(*) FROM t WHERE age = 20 / (1 - 1)",
        "this divides by 0",
        "20 / (1 - 1)",
        "divisor",
    ),
    ("SELECT COUNT(*) FROM t WHERE age = 1e300 * 1e300", "out of range", "1e300 * 1e300", "Change"),
    (
        "SELECT COUNT(*) FROM t WHERE age = TRUE",
        "'age' is neither true nor false",
        None,
        "age = 17.",
    ),
    ("SELECT COUNT(*) FROM t WHERE sex IS TRUE", "neither true nor false", None, "sex = 'Female'."),
    ("SELECT COUNT(*) FROM t WHERE 'Male'", "this is not a condition", "'Male'", "a column"),
    (
        "SELECT COUNT(*) FROM t WHERE 1 = '1'",
        "cannot be compared",
        "1 = '1'",
        "two numbers or two texts",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day < CURRENT_DATE",
        "is not a constant",
        "CURRENT_DATE",
        "'2024",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day < DATE '2024-01-31' + INTERVAL '12' HOUR",
        "has a time of day",
        "'2024-01-31' + INTERVAL '12'",
        "Use a date.",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day < DATE '9999-01-31' + INTERVAL '1' YEAR",
        "the result is out of range",
        "'9999-01-31' + INTERVAL '1'",
        "Change",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day < DATE '2024-01-31' + INTERVAL '1' MOON",
        "this interval cannot be read",
        "'1'",
        "INTERVAL '90' DAY",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day < INTERVAL '1' DAY",
        "an interval",
        "'1'",
        "Add it to a date.",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day < DATE '2024-01-31' * 2",
        "cannot be combined",
        "'2024-01-31' * 2",
        "INTERVAL '90' DAY",
    ),
    (
        "SELECT COUNT(*) FROM t WHERE day < CAST('soon' AS DATE)",
        "this is not a date",
        "'soon'",
        "DATE '",
    ),
    ("SELECT COUNT(*) FROM t WHERE age = @x", "this must be a value", "x", "constant"),
    (
        "SELECT COUNT(*) FROM t WHERE age = 1e",
        "this number cannot be read",
        "1e",
        "Write it in decimal digits.",
    ),
    ("SELECT COUNT(*) FROM t WHERE age = 1e99999", "number is too long", "1e99999", "Round it"),
    ("SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1)", "subqueries are not", "1", "values out"),
    ("SELECT COUNT(*) FROM t WHERE age IN (SELECT 1)", "subqueries are not", "1", "values out"),
    ("SELECT COUNT(*) FROM t WHERE age > ALL (SELECT 1)", "subqueries are not", "age", "values"),
    (
        "SELECT COUNT(*) FROM t WHERE (age, a) = (1, 2)",
        "this is not supported here",
        "age, a",
        "Functions of numbers",
    ),
    ("SELECT COUNT(*) FROM t WHERE age BETWEEN SYMMETRIC 3 AND 2", "this condition", "SYM", "Use"),
    (
        "SELECT COUNT(*) FROM t WHERE sex COLLATE x = 'Male'",
        "this is not supported here",
        "sex",
        "Functions of texts: IF",
    ),
    # FILTER, ORDER BY, LIMIT and the rest
    (
        "SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1)) FROM t",
        "subqueries are not supported",
        "1",
        "values out",
    ),
    (
        "SELECT COUNT(*) FROM t ORDER BY 2",
        "ORDER BY 2 is not a position in the SELECT list",
        "2",
        "It has 1 column: write 1.",
    ),
    (
        "SELECT COUNT(*) FROM t ORDER BY sex",
        "'sex' is not in GROUP BY",
        "sex",
        "Add it to GROUP BY, or aggregate it: COUNT(",
    ),
    (
        "SELECT COUNT(*) FROM t ORDER BY random()",
        "this expression is not supported",
        "random",
        SHAPE,
    ),
    (
        "SELECT COUNT(*) n FROM t ORDER BY n NULLS FIRST",
        "NULLS FIRST is",
        "NULLS FIRST",
        "come last",
    ),
    ("SELECT COUNT(*) FROM t LIMIT -1", "LIMIT takes a whole number", "1", "LIMIT 10"),
    ("SELECT COUNT(*) FROM t LIMIT 1.5", "LIMIT takes a whole number", "1.5", "LIMIT 10"),
    ("SELECT COUNT(*) FROM t LIMIT 10%", "LIMIT takes a whole number", "10", "LIMIT 10"),
    ("SELECT COUNT(*) FROM t LIMIT (SELECT 1)", "LIMIT takes a whole", "1", "LIMIT 10"),
    ("SELECT COUNT(*) FROM t OFFSET 1.5", "OFFSET takes a whole number", "1.5", "OFFSET 10"),
    ("SELECT COUNT(*) FROM t ORDER BY 'x'", "ORDER BY takes names", "'x'", "not its position"),
    ("SELECT COUNT(*) FROM t ORDER BY 1 + 1", "this orders nothing", "1 + 1", "a result"),
    ("SELECT COUNT(*) FROM t FETCH FIRST 1.5 ROWS ONLY", "LIMIT takes", "1.5", "LIMIT 10"),
    (
        "SELECT COUNT(*) FROM t QUALIFY age = 1",
        "'age' is not in GROUP BY",
        "age",
        "or aggregate it",
    ),
    ("SELECT COUNT(*) FROM t CLUSTER BY sex", "CLUSTER is not supported", "sex", "Leave it"),
    ("SELECT COUNT(*) n FROM t HAVING n > 'x'", "a number and a text", "n > 'x'", "single quotes"),
    ("SELECT COUNT(*) n FROM t HAVING n", "this must be a condition", "n", "BETWEEN"),
    ("SELECT COUNT(*) n FROM t HAVING m > 1", "'m' is neither a group column", "m", "Declared: n"),
    ("SELECT COUNT(*) n FROM t HAVING age > 1", "'age' is not in GROUP BY", "age", "aggregate it"),
    # queries around results
    (
        f"SELECT MEDIAN(n) FROM ({BY_SEX})",
        "this aggregate of results is not",
        "MEDIAN(n)",
        "SUM, AVG",
    ),
    (
        f"SELECT COUNT(DISTINCT n) FROM ({BY_SEX})",
        "this aggregate of results is not",
        "n",
        "SUM, AVG",
    ),
    (f"SELECT n, COUNT(*) FROM ({BY_SEX}) GROUP BY n", "a group needs labels", "n", "CASE WHEN n"),
    (f"SELECT sex, SUM(n) FROM ({BY_SEX})", "'sex' is not in GROUP BY", "sex", "or aggregate it"),
    (f"SELECT nope FROM ({BY_SEX})", "unknown column 'nope'", "nope", "Declared: sex, n"),
    (f"SELECT age FROM ({BY_SEX})", "unknown column 'age'", "age", "Declared: sex, n"),
    (
        f"SELECT n FROM ({BY_SEX}) WHERE SUM(n) > 3",
        "an aggregate cannot stand here",
        "SUM(n)",
        "HAVING",
    ),
    (f"SELECT SUM(AVG(n)) FROM ({BY_SEX})", "an aggregate cannot stand here", "AVG(n)", "HAVING"),
    (
        f"SELECT n FROM ({BY_SEX}) HAVING RANK() OVER (ORDER BY n) < 3",
        "after HAVING",
        "RANK",
        "QUALIFY",
    ),
    (f"SELECT n AS a, n AS a FROM ({BY_SEX})", "two results are called 'a'", "a", "AS"),
    (f"SELECT * EXCLUDE (n) FROM ({BY_SEX})", "* takes no EXCLUDE", "n", "Name the columns"),
    # malformed
    ("SELECT", "there is no FROM", None, "Add FROM t."),
    ("SELECT COUNT(* FROM t", "not valid SQL", "FROM", "Close a bracket."),
    ("SELECT COUNT(*)) FROM t", "not valid SQL", None, "Remove a bracket."),
    ("SELECT COUNT(*) FROM t WHERE", "not valid SQL", "WHERE", "Write SELECT"),
    ("SELECT COUNT(*) FROM t WHERE age = 1 AND", "not valid SQL", "AND", "condition after AND"),
    ("SELECT COUNT(*) FRM t", "not valid SQL", "t", "Did you mean FROM?"),
    ("SELECT COUNT(*) FROM t WERE age > 30", "not valid SQL", "age", "Did you mean WHERE?"),
    ("SELECT COUNT(*) FROM t GRUOP BY sex", "not valid SQL", "BY", "Did you mean GROUP BY?"),
    ("SELEC COUNT(*) FROM t", "only SELECT is supported", "SELEC", "Did you mean SELECT?"),
    ("SELCT COUNT(*) FROM t", "only SELECT is supported", "SELCT", "Did you mean SELECT?"),
    ("SELECT sex COUNT(*) FROM t GROUP BY sex", "not valid SQL", "(*)", "between sex and COUNT."),
    ("SELECT COUNT(*) left FROM t", "not valid SQL", "left", "Write AS left."),
    # sqlglot reads these, DuckDB does not
    (
        "SELECT sex, COUNT(*) FROM t GROUP BY sex WHERE age > 30",
        "not valid SQL",
        "WHERE",
        "WHERE goes before GROUP BY.",
    ),
    ("SELECT COUNT(*) n FROM t LIMIT 1 ORDER BY n", "not valid SQL", "ORDER", "before LIMIT."),
    ("SELECT COUNT(*) n FROM t HAVING n > 1 WHERE a = 1", "not valid SQL", "WHERE", "before HAV"),
    # names
    (
        "SELECT sex AS s, COUNT(*) FROM t GROUP BY S, r",
        "unknown column 'r'",
        "r",
        "Declared",
    ),
    ('SELECT COUNT(*) AS "a\x00b" FROM t', "a name contains U+0000", None, "letters"),
    (
        "SELECT COUNT(*) \ud800 FROM t",
        "the statement contains an incomplete character",
        None,
        "Type it again",
    ),
    ("SELECT AS STRUCT COUNT(*) FROM t", "SELECT AS is not supported", "COUNT", "List the columns"),
    ("SELECT COUNT(*) FROM t LATERAL VIEW x", "LATERAL is not supported", None, "one SELECT"),
    ("SELECT COUNT(*) FROM t WHERE sex = 'Male", "inside a quoted text", None, "Close"),
    ("", "there is no statement", None, "Write SELECT"),
    (" \n ", "there is no statement", None, "Write SELECT"),
    ("-- nothing", "there is no statement", None, "Write SELECT"),
]


def refusal(text, params=None):
    with pytest.raises(SqlError) as caught:
        parse(text, TABLES, params)
    return caught.value


@pytest.mark.parametrize(("text", "what", "shown", "hint"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refused_with_reason_place_and_hint(text, what, shown, hint, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        error = refusal(text)
    assert what in error.what
    assert hint in error.hint
    if shown is not None:
        assert shown in error.text
        line = text.split("\n")[error.line - 1]
        assert line[error.column - 1 :].startswith(error.text.split("\n")[0].removesuffix("..."))
    assert str(error).count("\n") == 0
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("selected", "having", "what", "shown", "hint"),
    [
        ("COUNT(*) / 2 AS h", "h > 1", "'h' is not an aggregate of", "h", "COUNT(*) > 10"),
        ("STDDEV(age) AS s", "s > 3", "'s' is not an aggregate of", "s", "COUNT(*) > 10"),
        ("COUNT(*) AS n", "m > 1", "'m' is not an aggregate of", "m", "Declared: n"),
        ("COUNT(*)", "SUM(age) / COUNT(*) > 3", "one aggregate", "SUM(age)", "AVG(x) for SUM(x)"),
        ("COUNT(*)", "MEDIAN(age) > 30", "compares a COUNT, SUM or AVG", "age", "AVG(CASE WHEN"),
        ("COUNT(*) AS n", "n > 'x'", "this must be a number", "'x'", "without quotes"),
        ("COUNT(*) AS n", "n IN (1)", "this condition is not", "n IN (1)", "Compare"),
    ],
)
def test_what_a_decision_does_not_decide(selected, having, what, shown, hint):
    text = f"SELECT sex, {selected} FROM t GROUP BY sex HAVING {having}"
    with pytest.raises(SqlError) as caught:
        parse(text, TABLES, deciding=True)
    assert what in caught.value.what
    assert shown in caught.value.text
    assert hint in caught.value.hint


def test_places_count_lines_and_columns_from_one():
    error = refusal("SELECT COUNT(*)\nFROM t\nWHERE age > 20\n  AND nope = 3")
    assert (error.line, error.column, error.text) == (4, 7, "nope")
    assert "line 4, column 7: 'nope'" in str(error)


def test_long_texts_are_cut_in_the_message():
    error = refusal(f"SELECT COUNT(*) FROM t WHERE sex = '{'x' * 500}'")
    assert len(error.text) == 60
    assert error.text.endswith("...")


class TestComments:
    @pytest.mark.parametrize(
        ("text", "statements"),
        [
            ("a; b", ["a", " b"]),
            ("a;; b;", ["a", " b"]),
            ("a -- ; b", ["a -- ; b"]),
            ("a; -- b", ["a"]),
            ("a /* ; /* ; */ ; */; b", ["a /* ; /* ; */ ; */", " b"]),
            ("a = ';' -- ' ;\n; b", ["a = ';' -- ' ;\n", " b"]),
            ("a = '--;'; b", ["a = '--;'", " b"]),
            ("a = 'it''s;'; b", ["a = 'it''s;'", " b"]),
            ('"a;--b"; c', ['"a;--b"', " c"]),
            ("a = $$ ; ' $$; b", ["a = $$ ; ' $$", " b"]),
            ("a = $x$ $$ ; $x$; b", ["a = $x$ $$ ; $x$", " b"]),
            ("a = ';", ["a = ';"]),
            ("-- only a comment; ", ["-- only a comment; "]),
            ("", [""]),
        ],
    )
    def test_statements_end_where_the_parser_sees_a_semicolon(self, text, statements):
        assert split(text) == statements

    @pytest.mark.parametrize(
        ("text", "what", "shown"),
        [
            ("-- don't\nSELECT COUNT(*) FROM t WHERE sex = 'Fem", "a quoted text", "'Fem"),
            ("SELECT COUNT(*) /* 'all' */ FROM t /* \"t", "a comment", '/* "t'),
        ],
    )
    def test_what_does_not_end_is_found_behind_comments(self, text, what, shown):
        error = refusal(text)
        assert error.what == f"the statement ends inside {what}"
        assert error.text == shown

    def test_what_stands_in_them_is_not_read(self):
        text = "SELECT /* , age */ COUNT(*) -- 'x ; :y\n FROM t -- WHERE “sex” = Fem"
        assert parse(text, TABLES) == parse("SELECT COUNT(*) FROM t", TABLES)


class TestSpaces:
    """What sqlglot takes for a space and DuckDB for a letter could make another statement."""

    @pytest.mark.parametrize(
        "text",
        ["SELECT COUNT(*) FROM t x{}WHERE age > 5", "SELECT sex, COUNT(*) FROM t GROUP{}BY sex"],
    )
    @pytest.mark.parametrize("space", "\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029")
    def test_those_are_refused(self, text, space):
        error = refusal(text.format(space))
        assert error.what.startswith(f"U+{ord(space):04X} looks like a space")
        assert (error.line, error.column) == (1, text.index("{") + 1)

    def test_in_quotes_they_are_letters(self):
        refused = refusal("SELECT COUNT(*) FROM t WHERE sex = 'a\u2028b' AND \"x\u2028y\" = 1")
        assert "looks like a space" not in refused.what

    def test_no_other_space_is_read_otherwise(self):
        """Whatever sqlglot takes for a space is refused, or is one for DuckDB, too."""
        connection = duckdb.connect()
        connection.execute("CREATE TABLE t (age INTEGER)")
        for space in filter(str.isspace, map(chr, range(sys.maxunicode + 1))):
            text = f"SELECT COUNT(*) FROM t x{space}WHERE x.age > 5"
            try:
                parse(text, TABLES)
            except SqlError:
                continue
            connection.execute(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT DISTINCT sex FROM t", "sex"),
        ("SELECT COUNT(*) FROM t WHERE age = NULL", "NULL"),
        ("SELECT COUNT(*) FROM t WHERE age = ?", "?"),
        ("SELECT COUNT(*) FROM t WHERE age = :missing", "missing"),
        ("SELECT COUNT(*) FROM t WHERE sex = 'Male", "'Male"),
    ],
)
def test_every_refusal_has_a_place(text, shown):
    assert shown in refusal(text).text


class TestSize:
    def test_long_texts(self):
        assert "20,000 characters" in refusal("SELECT COUNT(*) FROM t" + " " * 20_000).what

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT COUNT(*) FROM {}",
            "SELECT COUNT(*) FROM t WHERE {} = 1",
            "SELECT COUNT(*) FROM t WHERE sex = '{}'",
            "SELECT COUNT(*) FROM t WHERE age = :{}",
            "SELECT COUNT(*) AS {0}, SUM(age) AS {0} FROM t",
        ],
    )
    def test_long_names_are_cut(self, text):
        error = refusal(text.format("x" * 6_000))
        assert "xxx..." in error.what
        assert len(str(error)) < 1_000

    def test_many_parts(self):
        text = "SELECT COUNT(*) FROM t WHERE " + " OR ".join(["age = 1"] * 600)
        assert "2,000 parts" in refusal(text).what

    def test_many_tokens(self):
        assert "2,000 parts" in refusal("SELECT " + "," * 5_000).what

    @pytest.mark.parametrize(
        "text",
        [
            "(" * 60 + "age = 1" + ")" * 60,
            "(" * 9_000 + "age = 1" + ")" * 9_000,
            "(" * 9_000,
            "NOT " * 1_900 + "age = 1",
            "NOT(" * 49 + "age = 1" + ")" * 49,
            "age = " + "- " * 1_500 + "1",
            "age = " + "+" * 1_900 + "1",
            "age = " + "~" * 1_900 + "1",
            "age = " + "[" * 1_900 + "1" + "]" * 1_900,
            "age = " + "{'a':" * 900 + "1" + "}" * 900,
            "age = " + "CASE WHEN " * 300 + "1",
            "age" + "::INT" * 600 + " = 1",
            "age" + "[1]" * 500 + " = 1",
            "age" + ".x" * 900 + " = 1",
            "age = " + "a.b(" * 400,
            "age = 1" + " COLLATE x" * 900,
            "age IN (')', ')', ')') AND " + "(" * 200 + "age = 1" + ")" * 200,
        ],
        ids=lambda text: text[:12] + f"..{len(text)}",
    )
    def test_deep_nesting(self, text):
        error = refusal("SELECT COUNT(*) FROM t WHERE " + text)
        assert error.what

    @pytest.mark.parametrize(
        "text",
        ["age" + " + 1" * 900, "-(" * 19 + "age" + ")" * 19 + " * 2" * 200, "- " * 1_500 + "age"],
        ids=lambda text: text[:12],
    )
    @pytest.mark.parametrize("shape", ["SUM({})", "COUNT({})", "SUM(age) / ({})"])
    def test_deep_arithmetic(self, text, shape):
        shown = text.replace("age", "COUNT(*)") if "/" in shape else text
        assert "nested too deeply" in refusal(f"SELECT {shape.format(shown)} AS x FROM t").what

    def test_long_numbers_in_arithmetic(self):
        digits = "0." + "123456789" * 40
        product = " * ".join([digits] * 30)
        assert "number is too long" in refusal(f"SELECT SUM(age * ({product})) FROM t").what

    def test_long_numbers(self):
        assert refusal("SELECT COUNT(*) FROM t WHERE age = " + "9" * 5_000).what
        assert refusal("SELECT COUNT(*) FROM t WHERE age = 0." + "9" * 5_000).what

    def test_a_limit_of_thousands_of_digits(self):
        assert refusal("SELECT COUNT(*) FROM t LIMIT " + "9" * 5_000).what

    @pytest.mark.parametrize("value", ["1e400", "-1e9999", "9" * 390])
    def test_numbers_beyond_the_floats_are_compared_like_others(self, value):
        operator = ">" if value[0] == "-" else "<"
        where = parse(f"SELECT COUNT(*) FROM t WHERE weight {operator} {value}", TABLES).where
        assert where == parse("SELECT COUNT(*) FROM t WHERE weight < 201", TABLES).where

    @pytest.mark.parametrize("text", [None, 5, b"SELECT 1", ["SELECT 1"]])
    def test_what_is_no_text(self, text):
        assert "the statement must be a string" in refusal(text).what


def test_nesting_within_the_declared_depth_is_read_whatever_the_caller_stands_on():
    def below(frames, text):
        return parse(text, TABLES) if frames == 0 else below(frames - 1, text)

    text = "SELECT COUNT(*) FROM t WHERE " + "(" * 15 + "age = 20" + ")" * 15
    assert below(0, text) == below(300, text)
