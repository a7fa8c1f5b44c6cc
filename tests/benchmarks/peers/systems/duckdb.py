"""Plain DuckDB, without privacy: the limit."""

import duckdb


def version() -> str:
    return f"DuckDB {duckdb.__version__}"


def start(case):
    connection = duckdb.connect()
    connection.execute("SET threads = 2")

    def ask(most):
        where = "" if most is None else f" WHERE age <= {most}"
        sql = f"SELECT grp, COUNT(*), AVG(age) FROM '{case['path']}'{where} GROUP BY grp"
        return connection.execute(sql).fetchall()

    return ask
