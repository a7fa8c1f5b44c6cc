"""Sources of rows: files and frames, passed to DuckDB without guessing types from values."""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from dpnb.engines.decoding import exact, instants, readable
from dpnb.engines.frames import columns_of, library, names_of, plain_frame
from dpnb.engines.ids import LARGEST_FLOAT, PLAIN_DIGITS, READ, of_object
from dpnb.engines.scans import NO_MEMORY, OTHERWISE
from dpnb.errors import EngineError, SchemaError
from dpnb.interrupt import checkpoint
from dpnb.schema.columns import Kind

T = TypeVar("T")
_DELIMITERS = {
    ";": ("semicolons", "';'"),
    "\t": ("tabs", r"'\t'"),
    "|": ("vertical bars", "'|'"),
}
_OTHERS = {
    b"\xff\xfe": ("encoded in UTF-16 or UTF-32, not in UTF-8", "Save it as UTF-8."),
    b"\xfe\xff": ("encoded in UTF-16, not in UTF-8", "Save it as UTF-8."),
    b"\x1f\x8b": ("compressed", "Unpack it."),
    b"PK\x03\x04": ("a spreadsheet or an archive", "Save its table as CSV."),
    b"PAR1\x15": ("a Parquet file", "Rename it, so that it ends with .parquet."),
}
"""What a file without values between commas is, by its first bytes."""


def text(value: str) -> str:
    """Quote an SQL string."""
    return "'" + value.replace("'", "''") + "'"


def _csv_source(path: Path) -> str:
    """Return the SQL that reads every CSV value as text; the normaliser interprets it."""
    with path.open("rb") as raw:
        first = raw.read(8)
    other = next((words for mark, words in _OTHERS.items() if first.startswith(mark)), None)
    header = [] if other else _header(path)
    if any("\0" in name for name in header):
        other = _OTHERS[b"\xff\xfe"]
    if other is not None:
        what, hint = other
        raise SchemaError(f"the CSV file is {what}", hint, str(path))
    if len(header) == 1 and (delimiter := _delimiter(header[0])):
        # do not show the line: in a file without a header it holds a person's values
        words, argument = delimiter
        raise SchemaError(
            f"the first line of the CSV file has {words} between its values, not commas",
            f"Save it with commas, or read it with pandas.read_csv(..., sep={argument}) and give the frame. "
            "If its numbers are written 0,5, add decimal=','.",
            str(path),
        )
    if not header or len({name.casefold() for name in header}) != len(header):
        raise SchemaError(
            "the first line of the CSV file does not hold different column names",
            "Write the names of the columns into the first line.",
            str(path),
        )
    # a quoted empty text is a value, as pandas and R write it; without quotes it is missing
    columns = ", ".join(f"{text(name)}: 'VARCHAR'" for name in header)
    return (
        f"read_csv({text(str(path))}, header=true, auto_detect=false, delim=',', quote='\"', "
        f"escape='\"', columns={{{columns}}}, ignore_errors=true, null_padding=true, "
        "strict_mode=false, parallel=false, allow_quoted_nulls=false)"
    )


def _header(path: Path) -> list[str]:
    """Return the names of a CSV file's columns; one without a name is called as pandas calls it."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        header = next(csv.reader(file), [])
    return [name or f"Unnamed: {place}" for place, name in enumerate(header)]


def _delimiter(line: str) -> tuple[str, str] | None:
    """Return the separator of a line without commas, in words and as a pandas argument."""
    return next((words for mark, words in _DELIMITERS.items() if mark in line), None)


def is_csv(source: Any) -> bool:
    """Return whether a source is the path of a CSV file; all its values are texts."""
    return isinstance(source, (str, Path)) and Path(source).suffix.lower() == ".csv"


def check_names(found: Sequence[tuple[str, int | None]], path: Path) -> None:
    """Refuse a Parquet file with equal column names: readers treat them differently.

    Parameters
    ----------
    found : sequence of (str, int or None)
        Name and number of children of the root, then of each column, parents before their children.
    """
    names: list[str] = []
    within = 0
    for name, parts in found[1:]:
        if within:
            within -= 1
        else:
            names.append(name.casefold())
        within += parts or 0
    if len(set(names)) != len(names):
        raise SchemaError(
            "two columns of the Parquet file differ only in upper and lower case",
            "Rename all but one of them.",
            str(path),
        )


def file_path(source: str | Path) -> Path:
    """Return the path of a file; refuse a URL, and do not show it: it may hold a password."""
    if isinstance(source, str) and "://" in source:
        raise SchemaError(
            "the rows cannot be read from this URL",
            "Give the path of a .parquet or .csv file. A table in PostgreSQL is "
            "Table('people', 'postgresql://user@host/database#schema.table', schema).",
        )
    return Path(source)


def file_source(path: Path) -> str:
    """Return the SQL that reads a Parquet or CSV file."""
    if not path.is_file():
        raise SchemaError("there is no such file", "Check the path.", str(path))
    if set("*?[]{}") & set(str(path)):
        raise SchemaError(
            "the path contains one of * ? [ ] { }", "Rename the file or folder.", str(path)
        )
    if is_csv(path):
        return _csv_source(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return f"read_parquet({text(str(path))}, hive_partitioning=false)"
    raise SchemaError("the file must be a .parquet or .csv file", "Convert it.", str(path))


def footer(read: Callable[[], T], path: Path) -> T:
    """Return what a Parquet file's footer says about its columns; refuse a file without one."""
    try:
        return read()
    except EngineError as error:
        if error.what == NO_MEMORY:
            raise
    raise SchemaError(
        "the file is not a complete Parquet file: it is empty, cut off or in another format",
        "Write or copy it again.",
        str(path),
    )


def unread(error: EngineError, source: Any) -> EngineError:
    """Return the error for a table that could not be opened; it names the file."""
    if not isinstance(source, (str, Path, list, tuple)):
        return error
    if error.what == OTHERWISE:
        return EngineError("the file could not be read", "Write or copy it again.", str(source))
    return EngineError(error.what, error.hint, str(source)) if error.what == NO_MEMORY else error


# asked once for each of thousands of columns
@lru_cache(maxsize=4)
def _by_letters(names: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Return the spellings of each name, by the name without upper case."""
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(name.casefold(), []).append(name)
    return spellings


def find_column(name: str, found: Sequence[str]) -> str:
    """Return the source's spelling of a declared column."""
    spellings = _by_letters(tuple(found)).get(name.casefold(), [])
    if name in spellings:
        spellings = [spelling for spelling in spellings if spelling == name]
    if not spellings:
        raise SchemaError(
            f"the source has no column {name!r}", "Declare only columns that the source has."
        )
    if len(spellings) > 1:
        raise SchemaError(
            f"the source has several columns named {name!r}", "Rename all but one of them."
        )
    return spellings[0]


def misfit(name: str, kind: Kind, held: str) -> SchemaError:
    """Return the error for a column whose engine type does not fit its declaration."""
    return SchemaError(
        f"column {name!r} is declared as {kind.kind} but holds {held} values",
        "Change the declaration, or convert the column.",
    )


def undiscovered(name: str, held: str) -> SchemaError:
    """Return the error for a column on which key selection is impossible."""
    return SchemaError(
        f"the undeclared column {name!r} holds {held} values, which cannot be discovered",
        "Convert them to strings, declare the column, or leave it out.",
    )


def repeated(key: str) -> SchemaError:
    """Return the error for a key of a (public) dimension table that is not unique."""
    return SchemaError(
        f"the key {key!r} is not unique: several rows have the same value",
        "Keep one row for each value. Values that are not declared become OTHER or a bound.",
    )


def name_of_ids(columns: Sequence[str]) -> str:
    """Return the name of the column with the ids, beside the other columns of a frame."""
    name, others = "ids", set(map(str.casefold, columns))
    while name in others:
        name += "_"
    return name


def frame_source(
    frame: Any,
    columns: Sequence[str],
    ids: str | None = None,
    *,
    plain: bool = False,
    times: Collection[str] = (),
) -> Any:
    """Return a frame that DuckDB can register.

    ``ids`` is the column of the ids, which also gets a column of its own: see :func:`name_of_ids`.
    ``plain`` ids are texts that are neither numbers nor UUIDs. In columns of ``times``, values with a
    time zone stay instants; in others, they become what a clock in their zone shows.
    """
    frame = plain_frame(frame)
    found, related = names_of(frame), library(frame) == "duckdb"
    needed = columns if ids is None else [*columns, ids]
    frame = columns_of(frame, dict.fromkeys(find_column(name, found) for name in needed))
    if library(frame) == "pandas":
        return _pandas_source(frame, columns, ids, plain=plain, times=times)
    return _declared(_in_utc(frame) if related else frame, columns, ids, times)


def held_types(source: Any, columns: Sequence[str], types: Mapping[str, str]) -> dict[str, str]:
    """Return the name of the type that a source gives to each column, for ``dpnb.engines.rules``.

    A pandas frame gives a dtype, a CSV file texts, and every other source what ``types`` says.
    """
    if is_csv(source):
        return dict.fromkeys(columns, "csv")
    if library(source) == "pandas":
        dtypes = {str(name): f"pandas {dtype}" for name, dtype in source.dtypes.items()}
        return {name: dtypes[find_column(name, list(dtypes))] for name in columns}
    return {name: types[find_column(name, list(types))] for name in columns}


def frame_of(columns: Mapping[str, Any]) -> Any:
    """Convert masked arrays from DuckDB to a frame that keeps every whole number exact."""
    import numpy as np
    import pandas as pd

    def column(array: Any) -> Any:
        values, missing = np.ma.getdata(array), np.ma.getmaskarray(array)
        if values.dtype == object:
            values[missing] = None
            return pd.Series(values, dtype="string")
        integral = values.dtype.kind in "iu"
        return (pd.arrays.IntegerArray if integral else pd.arrays.FloatingArray)(values, missing)

    return pd.DataFrame({name: column(array) for name, array in columns.items()})


def _in_utc(table: Any) -> Any:
    """Return an arrow table whose instants are in UTC: DuckDB gives them its session's time zone."""
    import pyarrow as pa

    kinds = [
        pa.timestamp(field.type.unit, "UTC")
        if pa.types.is_timestamp(field.type) and field.type.tz is not None
        else field.type
        for field in table.schema
    ]
    fields = [field.with_type(kind) for field, kind in zip(table.schema, kinds, strict=True)]
    return table.cast(pa.schema(fields))


def _declared(table: Any, columns: Sequence[str], ids: str | None, times: Collection[str]) -> Any:
    """Select the declared columns of an arrow table; DuckDB renames others that differ by case."""
    selected = table.select([find_column(name, table.column_names) for name in columns])
    if ids is not None:
        id_column = exact(table.column(find_column(ids, table.column_names)))
        selected = selected.append_column(name_of_ids(columns), id_column)
    table = selected
    for place, column in enumerate(table.columns):
        is_time = place < len(columns) and columns[place] in times
        readable_column = instants(column) if is_time else readable(column)
        if readable_column is not column:
            table = table.set_column(
                place, table.field(place).with_type(readable_column.type), readable_column
            )
    return table


def _pandas_source(
    frame: Any,
    declared: Sequence[str],
    ids: str | None,
    *,
    plain: bool,
    times: Collection[str],
) -> Any:
    """Convert object columns to texts: DuckDB would guess their type from a sample of values."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    spellings = [str(column) for column in frame.columns]
    names = [find_column(name, spellings) for name in declared]
    columns: dict[str, Any] = {}
    for name, spelled in zip(names, declared, strict=True):
        checkpoint()
        column = frame[name]
        dtype = column.dtype
        if dtype.kind == "O" and isinstance(dtype, np.dtype):
            column = pd.Series(_held(column.tolist()))
        elif isinstance(dtype, pd.CategoricalDtype):
            column = pd.Series(
                _texts_of(dtype.categories).take(np.asarray(column.cat.codes), allow_fill=True)
            )
        elif isinstance(dtype, (pd.StringDtype, pd.ArrowDtype)):
            column = _readable_series(column, is_time=spelled in times)
        elif isinstance(dtype, pd.DatetimeTZDtype) and spelled in times:
            array = instants(pa.array(column, from_pandas=True))
            column = pd.Series(pd.arrays.ArrowExtensionArray(array))
        elif isinstance(dtype, pd.DatetimeTZDtype):
            # the day that a clock there shows, as in a text
            column = column.dt.tz_localize(None)
        elif isinstance(dtype, np.dtype):
            values = column.to_numpy()
            # DuckDB reads neither halves nor extended floats, nor a column with a negative stride
            odd = dtype.kind == "f" and dtype.itemsize not in (4, 8)
            with np.errstate(all="ignore"):
                column = pd.Series(np.ascontiguousarray(values, np.float64 if odd else None))
        columns[name] = column.reset_index(drop=True)
    if ids is not None:
        column = _pandas_ids(frame[find_column(ids, spellings)], plain=plain)
        columns[name_of_ids(declared)] = column.reset_index(drop=True)
    return pd.DataFrame(columns)


def _pandas_ids(column: Any, *, plain: bool) -> Any:
    """Return a column of ids, of a type that does not depend on values that another row changes.

    pandas gives a column of numbers another type if one of them is missing, has a fraction or is a
    word, and may round all others: beyond 2**53 in size, none of them is an id. ``plain`` texts are
    what they are.
    """
    import numpy as np
    import pandas as pd

    if column.dtype == object:
        return pd.Series([of_object(value, plain=plain) for value in column], dtype="string")
    if isinstance(column.dtype, pd.CategoricalDtype):
        held = column.dtype.categories
        plain |= not is_picked(held.dtype)
        categories = [of_object(value, plain=plain) for value in held]
        values = np.array([*categories, None], dtype=object)[np.asarray(column.cat.codes)]
        return pd.Series(values, dtype="string")
    if not isinstance(column.dtype, np.dtype):
        if not _is_text(column.dtype):
            return column
        texts = _readable_series(column)
        return _read_as_numbers(texts) if is_picked(column.dtype) and not plain else texts
    numbers = np.ascontiguousarray(column.to_numpy())
    if numbers.dtype.kind == "b":
        # as in a column of objects, which it becomes if one of them is missing
        return pd.Series(np.where(numbers, "True", "False"), dtype="string")
    if numbers.dtype.kind not in "iuf":
        return pd.Series(numbers)
    with np.errstate(all="ignore"):
        whole = (numbers > -LARGEST_FLOAT) & (numbers < LARGEST_FLOAT)
        if numbers.dtype.kind == "f":
            whole &= numbers == np.trunc(numbers)
        plain_numbers = np.where(whole, numbers, 0).astype(np.int64)
    return pd.Series(pd.arrays.IntegerArray(plain_numbers, ~whole))


def is_picked(dtype: Any) -> bool:
    """Return whether a pandas column may have this type because of the values of all its rows.

    The type that pandas picks for texts has NaN for missing ones; a type that is named has NA.
    """
    import numpy as np
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, pd.StringDtype):
        return dtype.na_value is not pd.NA
    return isinstance(dtype, np.dtype)


def _read_as_numbers(texts: Any) -> Any:
    """Return a pandas column of ids in which each text that is a number or a truth says what it is."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    array = pa.array(texts.array, pa.large_string(), from_pandas=True)
    long = pc.invert(pc.match_substring_regex(array, f"^({PLAIN_DIGITS})$"))
    if not pc.any(long).as_py():
        return texts
    numbers = pc.fill_null(pc.and_(long, pc.match_substring_regex(array, f"^({READ})$")), False)
    values = array.filter(numbers).to_pylist()
    said = pa.array(map(of_object, values), array.type)
    return pd.Series(pd.arrays.ArrowExtensionArray(pc.replace_with_mask(array, numbers, said)))


def _is_text(dtype: Any) -> bool:
    import pandas as pd

    return isinstance(dtype, (pd.StringDtype, pd.ArrowDtype))


def _readable_series(column: Any, *, is_time: bool = False) -> Any:
    """Return a pandas column without texts that are not Unicode, which DuckDB cannot read."""
    import pandas as pd

    if getattr(column.dtype, "storage", "pyarrow") == "python":
        return pd.Series(_held(column.tolist()))
    arrow_array = column.array.__arrow_array__()
    readable_array = instants(arrow_array) if is_time else readable(arrow_array)
    return (
        column
        if readable_array is arrow_array
        else pd.Series(pd.arrays.ArrowExtensionArray(readable_array))
    )


def _held(objects: Sequence[Any]) -> Any:
    """Return objects of one type as a pandas array of that type, others as texts.

    It is the same whatever the type is: each value is read by itself.
    """
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    found = set(map(type, objects)) - {type(None), type(pd.NA), type(pd.NaT)}
    # NaN is a float; any other float among truths or texts is an error here
    types = {
        pa.bool_(): {bool, np.bool_, float},
        pa.int64(): {int, np.int64},
        pa.float64(): {float, np.float64, int},
        pa.large_string(): {str, float},
    }
    for arrow_type, allowed in types.items():
        if found <= allowed:
            with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
                array = pa.array(objects, arrow_type, from_pandas=True)
                return pd.arrays.ArrowExtensionArray(array)
    return _texts_of(objects)


def _texts_of(objects: Iterable[Any]) -> Any:
    """Return the texts of objects as a pandas array."""
    import pandas as pd
    import pyarrow as pa

    return pd.arrays.ArrowExtensionArray(pa.array(map(_as_text, objects), pa.large_string()))


def _as_text(value: Any) -> str | None:
    """Return an object's text; None for missing values and objects without a valid text."""
    try:
        if value is None or value != value:
            return None
        text = str(value)
        if not isinstance(value, (str, int, float)):
            text = _written(value, text)
        str.encode(text)
    except Exception:  # noqa: BLE001 - whatever a value does, it is a fact about data
        return None
    return text


def _written(value: Any, text: str) -> str:
    """Return an object's text as DuckDB writes the same value in a column of its type."""
    import numpy as np

    if isinstance(value, (np.floating, decimal.Decimal)):
        return repr(float(value))
    if isinstance(value, np.datetime64):
        text = text.replace("T", " ")
    elif not isinstance(value, datetime.datetime) or value.tzinfo is not None:
        return text
    seconds, point, rest = text.partition(".")
    text = f"{seconds}{point}{rest.rstrip('0')}".rstrip(".")
    return text.removesuffix(" 00:00:00")
