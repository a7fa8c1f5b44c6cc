"""SmartNoise SQL on DuckDB, through its reader for PostgreSQL.

Epsilon is per statistic: COUNT(age) and AVG(age) need two, since no age is missing (COUNT(*) would be
a third), with half of epsilon each, by Laplace noise, which its odometer adds up to the whole. A bound
in rows per person is its ``max_ids``.
"""

from importlib.metadata import version as installed

import duckdb
from snsql import Privacy, from_connection


class Connection:
    """DuckDB as the reader for PostgreSQL wants it; statements outside transactions commit at once."""

    def __init__(self, connection):
        self._connection = connection

    def cursor(self):
        return Cursor(self._connection.cursor())

    def commit(self):
        pass

    def rollback(self):
        pass


class Cursor:
    """A cursor that can be iterated over."""

    def __init__(self, cursor):
        self._cursor = cursor
        self.execute = cursor.execute

    @property
    def description(self):
        return self._cursor.description

    def __iter__(self):
        return iter(self._cursor.fetchall())


def version() -> str:
    return f"SmartNoise SQL {installed('smartnoise-sql')} on DuckDB {duckdb.__version__}"


def start(case):
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.execute(f"CREATE VIEW t AS SELECT * FROM '{case['path']}'")
    low, high = case["bounds"]
    table = {
        "row_privacy": not case["unit"],
        "censor_dims": False,
        "clamp_counts": False,
        "rows": case["rows"],
        "grp": {"type": "string"},
        "age": {"type": "int", "lower": low, "upper": high, "nullable": False},
    }
    if case["unit"]:
        table |= {"max_ids": case["max_rows"], case["unit"]: {"type": "int", "private_id": True}}
    reader = from_connection(
        Connection(connection),
        privacy=Privacy(epsilon=case["epsilon"] / 2, delta=0),
        metadata={"": {"": {"t": table}}},
        engine="postgres",
    )

    def ask(most):
        where = "" if most is None else f" WHERE age <= {most}"
        sql = f"SELECT grp, COUNT(age) AS n, AVG(age) AS mean FROM t{where} GROUP BY grp"
        return [list(row) for row in reader.execute(sql)[1:]]

    return ask
