"""The Parquet files of a table: one, a list, a folder, or all that a pattern matches.

Which files there are, and what their paths say, is public. A file that occurs twice would let one
row count twice, so it is refused, also behind another name or a link.
"""

from __future__ import annotations

import glob
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dpnb.errors import ChangedDataError, SchemaError

_ENDINGS = (".parquet", ".pq")
_KEY = re.compile(r"([^=]+)=(.*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_MOST = 10_000
State = tuple[int, int, int]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Files:
    """Parquet files, with the state that shows whether one has changed.

    Attributes
    ----------
    paths : tuple of str
        In the order of their names.
    names : tuple of str
        The paths below what all files have in common.
    keys : mapping of str to tuple of (str or None)
        For each key in the paths (``year=2024/``), its value in each path.
    several : bool
        Whether the source is more than the path of one file; only then are there names and keys.
    """

    paths: tuple[str, ...]
    names: tuple[str, ...]
    keys: Mapping[str, tuple[str | None, ...]]
    several: bool
    states: tuple[State, ...] = field(repr=False)

    def check(self) -> None:
        """Raise an error if a file has changed since it was opened."""
        try:
            unchanged = all(
                _state(Path(path)) == state
                for path, state in zip(self.paths, self.states, strict=True)
            )
        except OSError:
            unchanged = False
        if not unchanged:
            what = "one of the table's files has" if self.several else "the table's file has"
            raise ChangedDataError(
                f"{what} changed since it was opened",
                "Nothing was charged. Open it again, with new_version=True.",
            )

    def fingerprint(self, key: bytes, clocks: bytes = b"") -> str:
        """Return a keyed fingerprint of the bytes, of the names if there are several files, and of ``clocks``.

        Parameters
        ----------
        key : bytes
        clocks : bytes
            By what times are read: a newer database of zones may read the same bytes otherwise.
        """
        digests = []
        for path in self.paths:
            with Path(path).open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").digest())
        self.check()
        sealed = digests[0]
        if self.several:
            parts = zip(self.names, digests, strict=True)
            sealed = b"".join(
                hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest() + digest
                for name, digest in parts
            )
        return hmac.new(key, sealed + clocks, hashlib.sha256).hexdigest()

    def read(self, paths: Sequence[str] = (), more: str = "") -> str:
        """Return the SQL that reads some of the files, by default all."""
        listed = ", ".join(_text(path) for path in paths or self.paths)
        # without hive_partitioning=false a condition on a key would skip files
        return f"read_parquet([{listed}], hive_partitioning=false{more})"

    def relation(
        self, types_of: Callable[[str], Mapping[str, str]], wanted: Sequence[str], unit: str | None
    ) -> tuple[str, bool]:
        """Return the SQL of all rows, and whether it may be read again for each statement.

        Where files hold a column in different types, its values are read as texts: the rule for
        values reads a text as it reads the value.

        Parameters
        ----------
        types_of : callable
            From the SQL of a relation to its columns with their types.
        wanted : sequence of str
            The declared columns and the unit's.
        unit : str or None
            The unit's column.

        Raises
        ------
        SchemaError
            If a file lacks a column that others have, or a key stands in for one of their columns.
        """
        types = [
            {name.casefold(): (name, held) for name, held in types_of(self.read([path])).items()}
            for path in self.paths
        ]
        used = {name.casefold() for name in wanted}
        keys = {name: values for name, values in self.keys.items() if name.casefold() in used}
        for name in keys:
            if unit is not None and name.casefold() == unit.casefold():
                raise SchemaError(
                    f"the privacy unit {unit!r} is a key in the paths of the files",
                    "Paths are public. Write the ids into a column of the files.",
                )
            for names, path in zip(types, self.names, strict=True):
                if name.casefold() in names:
                    raise SchemaError(
                        f"{name!r} is both a column and a key in the path of a file",
                        "Rename the folder or the column.",
                        path,
                    )
        columns = [name for name in dict.fromkeys(types[0]) if name in used]
        for names, path in zip(types, self.names, strict=True):
            for name in used & ({*columns} | {*names}):
                if name not in names or name not in columns:
                    lacking = path if name not in names else self.names[0]
                    raise SchemaError(
                        f"one of the files has no column {name!r}",
                        "Write it into all files.",
                        lacking,
                    )
        if not keys and all(held[name] == types[0][name] for held in types[1:] for name in columns):
            return self.read(), True
        return self._loaded(types, columns, keys), False

    def _loaded(
        self,
        types: Sequence[Mapping[str, tuple[str, str]]],
        columns: Sequence[str],
        keys: Mapping[str, tuple[str | None, ...]],
    ) -> str:
        """Return the SQL of all rows, where types differ or keys stand for columns."""
        mixed = {name for name in columns if len({held[name][1] for held in types}) > 1}
        parts: list[str] = []
        # files with the same columns in the same types are read by one statement, in their order
        start = 0
        for end in range(1, len(self.paths) + 1):
            if end < len(self.paths) and types[end] == types[start]:
                continue
            paths = self.paths[start:end]
            wanted = [
                _as_text(*types[start][name]) if name in mixed else _quoted(types[start][name][0])
                for name in columns
            ]
            shown = [types[0][name][0] for name in columns]
            select = [
                f"{value} AS {_quoted(name)}" for value, name in zip(wanted, shown, strict=True)
            ]
            listed = ", ".join(map(_text, paths))
            for name, values in keys.items():
                texts = ", ".join(
                    "NULL" if value is None else _text(value) for value in values[start:end]
                )
                place = f"list_position([{listed}], filename)"
                select.append(f"CAST([{texts}][{place}] AS VARCHAR) AS {_quoted(name)}")
            relation = self.read(paths, ", filename=true" if keys else "")
            parts.append(f"SELECT {', '.join(select)} FROM {relation}")
            start = end
        return f"({' UNION ALL '.join(parts)})"


def _as_text(name: str, held: str) -> str:
    # DuckDB writes a FLOAT with as few digits as distinguish it from other FLOATs
    value = f"CAST({_quoted(name)} AS DOUBLE)" if held == "FLOAT" else _quoted(name)
    return f"CAST({value} AS VARCHAR)"


def _state(path: Path) -> State:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def is_several(source: Any) -> bool:
    """Return whether a source is a list of files, a folder, or a pattern of paths."""
    if isinstance(source, (list, tuple)):
        return True
    if not isinstance(source, (str, Path)) or "://" in str(source):
        return False
    return os.path.isdir(source) or (_is_pattern(str(source)) and not os.path.isfile(source))  # noqa: PTH112, PTH113


def _is_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?[")


def one_file(path: Path) -> Files:
    """Return the files of a table whose source is the path of one."""
    return Files((str(path),), (path.name,), {}, False, (_state(path),))


def several_files(source: str | Path | Sequence[str | Path]) -> Files:
    """Return the files of a folder, a pattern of paths, or a list of these and of paths.

    Files whose names, or whose folders' names, begin with ``_`` or ``.`` are left out of folders.

    Raises
    ------
    SchemaError
        If there is no file, one is not a Parquet file or occurs twice, or their keys differ.
    """
    parts = [source] if isinstance(source, (str, Path)) else list(source)
    found = [path for part in parts for path in _expanded(part)]
    if not found:
        raise SchemaError(
            "there is no Parquet file", "Name a folder, a pattern or a list of .parquet files.",
            str(source) if isinstance(source, (str, Path)) else "",
        )  # fmt: skip
    if len(found) > _MOST:
        raise SchemaError(
            f"the table has {len(found):,} files; at most {_MOST:,} are read",
            "Write them into fewer files.",
        )
    for path in found:
        if not path.is_file():
            raise SchemaError("there is no such file", "Check the path.", str(path))
        if set("*?[]{}") & set(str(path)):
            raise SchemaError(
                "the path contains one of * ? [ ] { }", "Rename the file or folder.", str(path)
            )
        if path.suffix.lower() not in _ENDINGS:
            raise SchemaError(
                "several files must all be .parquet files", "Convert this one.", str(path)
            )
    found.sort(key=str)
    seen: dict[tuple[int, int], Path] = {}
    for path in found:
        status = path.stat()
        twin = seen.setdefault((status.st_dev, status.st_ino), path)
        if twin is not path:
            raise SchemaError(
                f"a file occurs twice, as {str(twin)!r} and {str(path)!r}",
                "Name it once: its rows would count twice.",
            )
    keys = [_keys(path) for path in found]
    if any([*one] != [*keys[0]] for one in keys):
        raise SchemaError(
            "the paths of the files have different keys, such as year=2024",
            "Give all files the same keys in the same order.",
        )
    absolute = [Path(os.path.abspath(path)) for path in found]  # noqa: PTH100 - keeps links as they are
    common = os.path.commonpath([path.parent for path in absolute])
    return Files(
        tuple(map(str, absolute)),
        tuple(os.path.relpath(path, common) for path in absolute),
        {name: tuple(one[name] for one in keys) for name in keys[0]},
        True,
        tuple(_state(path) for path in absolute),
    )


def _expanded(part: Any) -> list[Path]:
    if not isinstance(part, (str, Path)) or "://" in str(part):
        raise SchemaError(
            "a list of files must hold paths of .parquet files", "Write ['a.parquet', 'b.parquet']."
        )
    path = Path(part)
    if path.is_dir():
        return [
            file
            for ending in _ENDINGS
            for file in path.rglob(f"*{ending}")
            if not any(name[0] in "_." for name in file.relative_to(path).parts)
        ]
    if _is_pattern(str(part)) and not path.is_file():
        return [Path(file) for file in glob.glob(str(part), recursive=True) if os.path.isfile(file)]  # noqa: PTH113, PTH207
    return [path]


def _keys(path: Path) -> dict[str, str | None]:
    """Return the keys in the folders of a path, with their values; None for a missing one."""
    keys: dict[str, str | None] = {}
    for folder in path.parent.parts:
        if match := _KEY.fullmatch(folder):
            value = unquote(match[2])
            keys[unquote(match[1])] = None if value == _NO_VALUE else value
    return keys
