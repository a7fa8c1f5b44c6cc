"""A sensitive table: its name, where its rows are, what is public about it, whom it protects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpnb.errors import SchemaError
from dpnb.schema import Schema, read_toml


@dataclass(frozen=True, slots=True)
class Unit:
    """The privacy unit: all rows that share one id.

    Parameters
    ----------
    column : str
        The column that identifies the protected person.
    max_rows : int
        Rows kept for one id.
    max_groups : int
        Groups that one id may touch in one statement.
    """

    column: str
    max_rows: int
    max_groups: int = 1


class Table:
    """One sensitive table.

    Parameters
    ----------
    name : str
        The name used in FROM: letters, digits and underscores.
    source : data frame, path or DuckDB relation
        pandas, polars or pyarrow table, DuckDB relation, or the path of a Parquet or CSV file. It
        is read once, when a session opens; later changes to it are not seen.
    schema : Schema
        The public facts. Columns that are not declared do not exist for queries.
    unit : Unit, optional
        Whom to protect. None protects one row.
    public : bool
        True for data that needs no protection (study and teaching).

    Raises
    ------
    SchemaError
        For an unusable name or schema, or a unit other than None (not yet supported).
    """

    __slots__ = ("name", "public", "schema", "source", "unit")

    def __init__(
        self,
        name: str,
        source: Any,
        schema: Schema,
        unit: Unit | None = None,
        *,
        public: bool = False,
    ) -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
            raise SchemaError(f"{name!r} is no table name", "Use letters, digits and underscores.")
        if not isinstance(schema, Schema):
            raise SchemaError("the schema is not a dpnb.Schema", "Write dpnb.Schema({...}).")
        if unit is not None:
            raise SchemaError(
                "privacy units other than the row are not supported yet",
                "Leave unit out: each row is then protected on its own.",
            )
        self.name = name
        self.source = source
        self.schema = schema
        self.unit = unit
        self.public = bool(public)

    @classmethod
    def load(cls, path: str | Path) -> Table:
        """Read a table's TOML file: ``name``, ``source`` (relative to the file), ``[columns]``.

        ``public = true`` declares that the data need no protection.
        """
        content = read_toml(path)
        for entry in ("source", "columns"):
            if entry not in content:
                raise SchemaError(f"the file has no {entry!r}", "Add it.", str(path))
        if content.get("unit") is not None:
            raise SchemaError(
                "privacy units other than the row are not supported yet", "", str(path)
            )
        source = Path(path).parent / str(content["source"])
        name = str(content.get("name", Path(path).stem))
        schema = Schema.of(content)
        public = content.get("public", False)
        if not isinstance(public, bool):
            raise SchemaError("public is neither true nor false", "Write public = true.", str(path))
        return cls(name, source, schema, public=public)

    def definition(self) -> dict[str, Any]:
        """Return everything public about the table as plain data."""
        aliases = [list(names) for names in self.schema.aliases]
        columns = self.schema.to_dict()
        return {
            "name": self.name,
            "columns": columns,
            "aliases": aliases,
            "complete": list(self.schema.complete),
            "unit": None,
            "public": self.public,
        }

    def __repr__(self) -> str:
        public = ", public" if self.public else ""
        return f"Table({self.name!r}, {len(self.schema)} declared columns, unit=row{public})"

    def __reduce__(self) -> Any:
        raise TypeError("a Table holds sensitive data and cannot be pickled")
