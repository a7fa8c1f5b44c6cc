"""Choice of the engine for a table, by the type of its source."""

from __future__ import annotations

from dpnb.engines.scans import Engine
from dpnb.errors import SchemaError
from dpnb.schema.table import NoData, Table, is_postgres, is_spark


def engine_of(table: Table) -> Engine:
    """Return an engine that holds the rows of a table.

    Raises
    ------
    SchemaError
        If a package is missing, or the source does not fit the schema.
    """
    if is_postgres(table.source):
        try:
            from dpnb.engines.postgres import PostgresEngine
        except ImportError:
            raise SchemaError(
                "a table in PostgreSQL needs psycopg", "Run pip install 'dpnb[postgres]'."
            ) from None
        return PostgresEngine(table)
    if isinstance(table.source, NoData):
        from dpnb.engines.absent import AbsentEngine

        return AbsentEngine(table.source)
    if is_spark(table.source):
        from dpnb.engines.spark import SparkEngine

        return SparkEngine(table)
    from dpnb.engines.duckdb import DuckDBEngine

    return DuckDBEngine(table)
