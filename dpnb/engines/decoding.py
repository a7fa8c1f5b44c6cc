"""Treat values that DuckDB cannot decode as missing: one of them would fail a scan of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_TIMES = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}
_FALLIBLE = {"VARCHAR", *_TIMES}
"""DuckDB types for which a Parquet file can hold invalid values: bytes, or milliseconds."""
_PIECE = 65_536
_MICROSECONDS = {"s": 10**6, "ms": 1000, "us": 1}


def undecodable(connection: Any, relation: str, types: Mapping[str, str]) -> list[str]:
    """Return the columns of a Parquet file with values that DuckDB cannot decode, by SQL name."""
    # hash forces decoding: a file's statistics give the maximum and a text's length without it
    probes = {
        name: f"MAX(hash({name}))"
        for name, source_type in types.items()
        if source_type in _FALLIBLE
    }
    if not probes or _runs(connection, f"SELECT {', '.join(probes.values())} FROM {relation}"):
        return []
    return [
        name
        for name, probe in probes.items()
        if not _runs(connection, f"SELECT {probe} FROM {relation}")
    ]


def _runs(connection: Any, statement: str) -> bool:
    """Return whether a statement runs on all values of a file; raise failures of other kinds."""
    import duckdb

    with connection.cursor() as cursor:
        try:
            cursor.execute(statement).fetchall()
        except (duckdb.ConversionException, duckdb.InvalidInputException):
            return False
    return True


def decoded(paths: Sequence[str], types: Mapping[str, str]) -> Any:
    """Read columns of Parquet files as an arrow table; what DuckDB cannot decode is missing.

    Every other value is the one that DuckDB reads, whatever type arrow gives the column.

    Parameters
    ----------
    paths : sequence of str
        The files, whose rows follow one another.
    types : mapping
        DuckDB type of each column, by name.
    """
    import pyarrow as pa

    return pa.concat_tables([_decoded(Path(path), types) for path in paths])


def _decoded(path: Path, types: Mapping[str, str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names = {name.casefold(): name for name in file.schema_arrow.names}
        columns = {name: names[name.casefold()] for name in types}
        table = file.read(columns=list(columns.values()))
    return pa.table(
        {
            name: _in_range(table.column(columns[name]))
            if source_type in _TIMES
            else _as_texts(table.column(columns[name]))
            for name, source_type in types.items()
        }
    )


def _as_texts(column: Any) -> Any:
    """Return texts; values of other types, which only one of several files has, as DuckDB's texts."""
    import pyarrow as pa

    types = pa.types
    if types.is_float32(column.type):
        column = column.cast(pa.float64())
    elif types.is_timestamp(column.type):
        column = _in_range(column)
    is_number = types.is_integer(column.type) or types.is_floating(column.type)
    if is_number or types.is_temporal(column.type) or types.is_boolean(column.type):
        return column.cast(pa.large_string())
    return _texts(column)


def _in_range(column: Any) -> Any:
    """Return times in microseconds, as DuckDB does; those that do not fit are missing.

    Times with a zone stay instants.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    factor = _MICROSECONDS[column.type.unit]
    numbers, latest = column.cast(pa.int64()), (2**63 - 1) // factor
    representable = pc.and_(pc.less_equal(numbers, latest), pc.greater_equal(numbers, -latest))
    times = pc.if_else(representable, numbers, pa.scalar(None, pa.int64()))
    return pc.multiply(times, factor).cast(
        pa.timestamp("us", None if column.type.tz is None else "UTC")
    )


def readable(column: Any) -> Any:
    """Convert an arrow column for DuckDB; texts that are not UTF-8 become missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type) and _is_unknown(column.type.value_type):
        column = column.cast(column.type.value_type)
    if _is_unknown(column.type):
        # arrow's own cast of a decimal is off by one in the last bit
        written = pa.types.is_decimal(column.type)
        return (column.cast(pa.string()) if written else column).cast(pa.float64())
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        # the day that a clock there shows, as in a text
        return pc.local_timestamp(column)
    if not _holds_texts(column.type):
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        return readable(column.cast(column.type.storage_type))
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    return column if _is_valid(column) else _texts(column)


def instants(column: Any) -> Any:
    """Convert an arrow column of times for DuckDB; those with a zone stay instants."""
    import pyarrow as pa

    is_aware = pa.types.is_timestamp(column.type) and column.type.tz is not None
    if not is_aware:
        return readable(column)
    return column if column.type.unit == "ns" else _in_range(column)


def exact(column: Any) -> Any:
    """Return a column of ids, with long decimal numbers as texts: :func:`readable` rounds them."""
    import pyarrow as pa

    is_long = pa.types.is_decimal(column.type) and _is_unknown(column.type)
    return column.cast(pa.string()) if is_long else column


def _is_unknown(arrow_type: Any) -> bool:
    """Return whether a type of numbers is one that DuckDB does not know."""
    import pyarrow as pa

    if pa.types.is_decimal(arrow_type):
        return bool(pa.types.is_decimal256(arrow_type) or arrow_type.scale < 0)
    return bool(pa.types.is_float16(arrow_type))


def _texts(column: Any) -> Any:
    """Return texts, given as texts or bytes; those that are not UTF-8 become missing."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        return _texts(column.cast(column.type.storage_type))
    return pa.chunked_array(_pieces(column.cast(pa.large_binary())), pa.large_string())


def _holds_texts(arrow_type: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _holds_texts(arrow_type.storage_type)
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return _holds_texts(arrow_type.value_type)
    return str(arrow_type) in ("string", "large_string", "string_view")


def _is_valid(column: Any) -> bool:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _pieces(column: Any) -> Iterator[Any]:
    """Yield a column of bytes as texts, in pieces: few of them hold invalid values."""
    import pyarrow as pa

    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            piece = chunk.slice(start, _PIECE)
            try:
                yield piece.cast(pa.large_string())
            except pa.ArrowInvalid:
                yield pa.array(map(_text, piece.to_pylist()), pa.large_string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
