"""Joins of results over the same rows: one query with FILTERs."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.errors import SqlError
from dpnb.schema.table import Table
from dpnb.sql.parser import answered
from dpnb.sql.source import split
from tests.kit.noise import ContinuousNoise

pytestmark = pytest.mark.fast

SCHEMA = dpnb.Schema(
    {
        "region": dpnb.Category(["east", "north"]),
        "kind": dpnb.Category(["new", "old"]),
        "score": dpnb.Integer(0, 10),
    }
)
PUBLIC = dpnb.Schema({"region": dpnb.Category(["east", "north"]), "size": dpnb.Integer(0, 9)})
TABLES = {
    "t": Table("t", None, SCHEMA),
    "u": Table("u", None, SCHEMA),
    "v": Table("v", None, SCHEMA, dpnb.Unit("id", max_rows=3)),
    "places": Table("places", None, PUBLIC, public=True, key="region"),
}
OLD = "SELECT region, COUNT(*) AS n FROM t WHERE kind = 'old' GROUP BY region"
ALL = "SELECT region, COUNT(*) AS m FROM t GROUP BY region"
FLAT = (
    "SELECT region, COUNT(*) FILTER (WHERE kind = 'old') AS n, COUNT(*) AS m FROM t GROUP BY region"
)
SAME = [
    # a CTE that has the name of its table
    (f"WITH t AS (SELECT * FROM t WHERE score > 5) SELECT region, n, m FROM ({OLD}) a JOIN ({ALL}) b USING (region)",
     FLAT.replace("GROUP", "WHERE score > 5 GROUP")),
    (f"SELECT a.region, n, b.m FROM ({OLD}) a JOIN ({ALL}) b ON a.region = b.region", FLAT),
    (f"SELECT region, n, m FROM ({OLD}) a FULL JOIN ({ALL}) AS b USING (region)", FLAT),
    (f"SELECT * FROM ({OLD}) a LEFT JOIN ({ALL}) b ON b.region = a.region ORDER BY a.n + m", f"{FLAT} ORDER BY n + m"),
    (f"WITH a AS ({OLD}), b AS ({ALL}) SELECT a.*, m FROM a, b WHERE a.region = b.region AND n > 3", f"{FLAT} HAVING n > 3"),
    (f"WITH a AS ({OLD}), b AS ({ALL}) SELECT a.region, a.n * 1.0 / b.m AS s FROM a JOIN b USING (region)",
     "SELECT region, COUNT(*) FILTER (WHERE kind = 'old') * 1.0 / COUNT(*) AS s FROM t GROUP BY region"),
    ("SELECT x.n / y.n AS s FROM (SELECT COUNT(*) AS n FROM t WHERE score > 3) x, (SELECT COUNT(*) AS n FROM t) y",
     "SELECT COUNT(*) FILTER (WHERE score > 3) / COUNT(*) AS s FROM t"),
    ("SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM t) AS s FROM t WHERE score > 3",
     "SELECT COUNT(*) FILTER (WHERE score > 3) * 1.0 / COUNT(*) AS s FROM t"),
    ("SELECT (SELECT AVG(p.score) FROM t p WHERE p.kind = 'old') AS a, (SELECT SUM(score) FROM t) AS s",
     "SELECT AVG(score) FILTER (WHERE kind = 'old') AS a, SUM(score) AS s FROM t"),
    # what both ask for is WHERE
    (f"SELECT a.region, n, m FROM ({OLD.replace('GROUP', 'AND score > 5 GROUP')} HAVING n > 9) a "
     f"JOIN ({ALL.replace('GROUP', 'WHERE score > 5 GROUP')}) b USING (region)",
     f"{FLAT.replace('FROM t', 'FROM t WHERE score > 5')} HAVING COUNT(*) FILTER (WHERE kind = 'old') > 9"),
    ("SELECT a.k, a.n, b.n AS m FROM (SELECT h.score // 5 AS k, COUNT_IF(kind = 'old') AS n FROM t h GROUP BY k) a "
     "JOIN (SELECT score // 5 AS k, COUNT(*) AS n FROM t GROUP BY 1) b ON a.k = b.k",
     "SELECT score // 5 AS k, COUNT_IF(kind = 'old') AS n, COUNT(*) AS m FROM t GROUP BY 1"),
    (f"SELECT region, n, m FROM ({OLD}) a JOIN ({ALL}) b USING (region)".replace("FROM t", "FROM v"), FLAT.replace("FROM t", "FROM v")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "flat"), SAME)
def test_it_is_one_query_with_filters(text, flat):
    assert answered(text, TABLES) == answered(flat, TABLES)


JOIN = f"FROM ({OLD}) a JOIN ({{}}) b ON a.region = b.region"
REFUSED = [
    (JOIN.format(ALL.replace("FROM t", "FROM u")), "different tables", f"Ask {OLD} in one cell, and {ALL.replace('FROM t', 'FROM u')} in another"),
    (f"FROM ({OLD}) a, (SELECT COUNT(*) AS m FROM t) b", "different groups", f"Ask SELECT COUNT(*) AS m FROM t in a cell of its own. Then ask {OLD}, and write :number"),
    (JOIN.format("SELECT kind AS region, COUNT(*) AS m FROM t GROUP BY kind"), "where the same groups are equal", "all columns of GROUP BY"),
    (f"{JOIN.format(ALL)} AND a.n > b.m", "where the same groups are equal", "in WHERE"),
    (f"FROM ({OLD}) a, ({ALL}) b", "does not compare 'region'", "USING"),
    (JOIN.format(ALL.replace("GROUP", "WHERE region <> 'east' GROUP")), "leaves groups out of one", "in each of them"),
    (JOIN.format(f"{ALL} HAVING m > 3").replace("JOIN", "LEFT JOIN"), "keeps groups that HAVING leaves out", "Write JOIN"),
    (f"FROM ({OLD}) a JOIN ({ALL}) b USING (region, m)", "where the same groups are equal", "all columns of GROUP BY"),
    (f", c.* {JOIN.format(ALL)}", "unknown table 'c'", "one of the queries"),
    (JOIN.format(f"{ALL} LIMIT 3"), "LIMIT in a query that is joined", "after the join"),
    (JOIN.format(ALL.replace("AS m", "AS n")), "several queries have a column 'n'", "a.n"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "what", "hint"), REFUSED)
def test_refused_with_what_to_write(clause, what, hint):
    with pytest.raises(SqlError) as caught:
        answered(f"SELECT a.region, n {clause}", TABLES)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_results_do_not_flow_back_into_rows():
    """Neither inside an aggregate nor in WHERE, where each row would read all others."""
    for text in (
        "SELECT SUM(score - (SELECT AVG(score) FROM t)) AS n FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE score > (SELECT AVG(score) FROM t)",
        f"SELECT COUNT(*) AS n FROM t JOIN ({ALL}) b USING (region)",
        f"SELECT n ({OLD}) a JOIN ({ALL}) b USING (region)",
        f"SELECT COUNT(*) AS n FROM v JOIN ({ALL.replace('FROM t', 'FROM v')}) b USING (region)",
    ):
        with pytest.raises(SqlError):
            answered(text, TABLES)


def statement(rng: random.Random) -> str:
    """Return a join of two or three results."""
    keys = rng.choice([["region"], ["kind", "region"], ["kind"], []])
    names = [key.split()[-1] for key in keys]
    group = f" GROUP BY {', '.join(names)}" if keys else ""
    where = ["score < 9", "score > 2 AND score < 9", "score <> 4 OR score = 1", "score IN (1, 2, 3, 8)"]  # fmt: skip
    results = ["COUNT(*)", "SUM(score)", "AVG(score)", "COUNT(*) FILTER (WHERE score > 4)", "SUM(score) * 2 + COUNT(*)"]  # fmt: skip
    sides = []
    for letter in "abc"[: rng.choice([2, 2, 3])]:
        own = rng.choice(["", f" WHERE {rng.choice(where)}"])
        sides.append(f"(SELECT {', '.join([*keys, f'{rng.choice(results)} AS {letter}1'])} FROM t{own}{group}) {letter}")  # fmt: skip
    join = rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"]) if keys else "CROSS JOIN"
    using = f" USING ({', '.join(names)})" if keys else ""
    text = sides[0] + "".join(f" {join} {side}{using}" for side in sides[1:])
    shown = rng.choice(["a1, b1", "a1 - b1 AS d, b1", "ROUND(b1 / NULLIF(a1, 0), 2) AS q, a1"])
    end = rng.choice(["", " WHERE a1 > 30", " WHERE b1 < 400 AND a1 > 1"])
    tail = f"SELECT {', '.join([*names, shown])} FROM {text}{end}"
    if keys and rng.random() < 0.3:
        return f"SELECT SUM(a1) AS s, MAX(b1) AS m FROM {text}{end}"
    return f"{tail} ORDER BY {', '.join([*names, 'b1', 'a1'])}"


def test_lines_are_those_of_duckdb():
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "region": draw.choice(["east", "north"], 400),
            "kind": draw.choice(["new", "old"], 400),
            "score": draw.integers(0, 11, 400),
        }
    )
    connection = duckdb.connect()
    connection.register("t", frame)
    table = dpnb.Table("t", frame, SCHEMA)
    budget = dpnb.Budget(rho=10**9, delta=1e-6)
    rng = random.Random(9)  # noqa: S311
    with dpnb.Session(table, budget=budget, noise=ContinuousNoise(1, 0.0)) as session:
        for _ in range(8):
            sql = statement(rng)
            wanted = connection.execute(sql).df()
            found = session.query(sql, rho=10**6).to_frame(cut=False)[[*wanted]]
            pd.testing.assert_frame_equal(found, wanted, check_dtype=False, check_exact=False, atol=2e-3, obj=sql)  # fmt: skip


def test_statements_over_several_tables_are_written_out():
    """As they are asked one after the other in a cell."""
    other = ALL.replace("FROM t", "FROM u")
    with pytest.raises(SqlError, match="UNION ALL combines statements over one table") as caught:
        answered(f"{OLD} UNION ALL {other} ORDER BY n", TABLES)
    assert f"as a statement of its own: {OLD}; {other}." in caught.value.hint
    for text in split(caught.value.hint.partition(": ")[2].removesuffix(".")):
        answered(text, TABLES)
