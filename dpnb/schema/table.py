"""A sensitive table: its name, the source of its rows, its public facts, and its privacy unit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnb.arguments import checked
from dpnb.codes import listed, number
from dpnb.errors import SchemaError, given
from dpnb.schema.columns import Real
from dpnb.schema.schema import Schema, Unit, read_file
from dpnb.schema.smartnoise import ENDINGS

if TYPE_CHECKING:
    from dpnb.schema.joins import Join


def is_postgres(source: object) -> bool:
    """Return whether a table's source is the URL of a table in PostgreSQL."""
    return isinstance(source, str) and source.startswith(("postgresql://", "postgres://"))


def is_spark(source: object) -> bool:
    """Return whether a table's source is a Spark data frame."""
    module = type(source).__module__
    return module.startswith("pyspark.sql.") and type(source).__name__ == "DataFrame"


@dataclass(frozen=True, slots=True)
class NoData:
    """The source of a table of which only the ledger's record is there; see ``Curator.administer``.

    ``joined`` has the tables whose rows are looked up from it.
    """

    joined: frozenset[str]


def check_name(name: object) -> None:
    """Refuse an invalid name of a table.

    Raises
    ------
    SchemaError
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise SchemaError(
            f"{given(name)} is not a table name", "Use letters, digits and underscores."
        )


def protection(tables: Mapping[str, Table]) -> str:
    """Describe whom the answers of some tables protect; '' if all tables are public.

    Examples
    --------
    >>> protection({table.name: table})
    'This protects single rows.'
    """
    protections = [
        (name, "single rows" if table.unit is None else table.unit.text)
        for name, table in tables.items()
        if not table.public
    ]
    if len(protections) == 1:
        return f"This protects {protections[0][1]}."
    return (
        f"{'; '.join(f'{name} protects {rows}' for name, rows in protections)}."
        if protections
        else ""
    )


def _checked_size(megabytes: object) -> float:
    size = number(megabytes)
    if size is None or not size > 0:
        raise SchemaError(
            f"memory_mb must be a number above 0, got {given(megabytes)}",
            "Write memory_mb=500, or leave it out.",
        )
    # more than any machine has
    return float(min(size, 10**12))


class Table:
    """One sensitive table.

    Parameters
    ----------
    name : str
        The name used in FROM: letters, digits and underscores.
    source : data frame, path, list of paths or DuckDB relation
        pandas, polars or pyarrow table, DuckDB relation, or the path of a Parquet or CSV file, of a
        folder of Parquet files, a pattern such as ``visits/*.parquet``, or a list of these. It is
        read once, when a session opens; later changes have no effect. A Parquet file is read in
        place and must not change. The declared columns of a Spark data frame (classic or Connect)
        are computed once and stay on the executors.
        ``postgresql://user@host/database#schema.table`` is a table or view in PostgreSQL, spelled
        as in its catalog; without ``schema`` it is in ``public``. The password can be in
        ``PGPASSWORD`` or ``~/.pgpass``; over a network add ``?sslmode=verify-full`` before the
        ``#``.
    schema : Schema
        The public facts. Columns that are not declared do not exist for queries.
    unit : Unit, optional
        What to protect: all rows of a person. None protects one row.
    public : bool
        True for data that needs no protection (study and teaching).
    key : str, optional
        Makes a public table a dimension table that other tables can be joined with: a declared
        column with a different value in each row. Rows without a value in it are left out.
    in_memory : sequence of str, optional
        Declared columns whose codes are kept in memory: statements that use only these are answered
        several times faster. For each row a column needs 1 byte if it has up to 255 values, 2 if up
        to 65,535, 4 if up to 4,294,967,295, else 8. By default all columns, if they fit. For a
        Spark data frame only ``[]`` is possible: it leaves the frame where it is, which takes two
        passes over it for each request, and refuses everything once the rows have changed.
    memory_mb : float, optional
        At most so many megabytes (10**6 bytes) for them. Named columns are taken in the given order
        as long as they fit, by default all of them; the others stay where they are. If none are
        named, all columns must fit; by default into 8 megabytes. The first explanation loads all
        columns, whatever this says.

    Raises
    ------
    SchemaError
        For an invalid name, schema, unit or key, and for columns that cannot be kept in memory.

    Examples
    --------
    >>> import dpnb
    >>> schema = dpnb.Schema({"sex": dpnb.Category(["Female", "Male"])})
    >>> dpnb.Table("people", "people.csv", schema)
    Table('people', 1 declared columns, unit=row)
    """

    __slots__ = (
        "_definitions", "in_memory", "joins", "key", "memory_mb", "name", "obstacles", "pairs",
        "public", "schema", "source",
    )  # fmt: skip

    @checked
    def __init__(
        self,
        name: str,
        source: Any,
        schema: Schema,
        unit: Unit | None = None,
        *,
        public: bool = False,
        key: str | None = None,
        in_memory: Sequence[str] | None = None,
        memory_mb: float | None = None,
    ) -> None:
        check_name(name)
        if not isinstance(schema, Schema):
            raise SchemaError(
                f"the schema must be a dpnb.Schema, got {given(schema)}",
                "Write dpnb.Schema({...}).",
            )
        if not isinstance(public, bool):
            raise SchemaError(
                f"public must be True or False, got {given(public)}", "Write public=True."
            )
        if unit is not None and not isinstance(unit, Unit):
            raise SchemaError(
                f"the unit must be a dpnb.Unit, got {given(unit)}",
                "Write unit=dpnb.Unit('person_id', max_rows=3).",
            )
        self.name = name
        self.source = source
        self.schema = schema.protecting(schema.unit if unit is None else unit)
        self.public = public
        self.key = None if key is None else self._checked_key(key)
        self.in_memory = None if in_memory is None else self._checked_columns(in_memory)
        self.memory_mb = None if memory_mb is None else _checked_size(memory_mb)
        wanted = self.in_memory or memory_mb is not None
        if wanted and (is_postgres(source) or is_spark(source)):
            raise SchemaError(
                "columns of a table in PostgreSQL or Spark cannot be kept in memory",
                "Leave in_memory and memory_mb out.",
            )
        self.joins: Mapping[str, Join] = {}
        self.obstacles: Mapping[str, tuple[str, str]] = {}
        self.pairs: Mapping[str, Table | SchemaError] = {}
        self._definitions: Mapping[str, Any] = {}

    def _checked_key(self, key: object) -> str:
        declared_name = self.schema.find(key) if isinstance(key, str) else None
        if declared_name is None:
            raise SchemaError(
                f"the key {given(key)} is not a declared column", "Name a column of the schema."
            )
        if isinstance(self.schema[declared_name], Real):
            raise SchemaError(
                f"the key {declared_name!r} is a Real column",
                "Rounded numbers do not match; use Integer.",
            )
        if not self.public or self.unit is not None:
            raise SchemaError(
                "a table with a key must be public: other tables look up its rows without noise",
                "Declare public=True, without a unit; or leave the key out.",
            )
        return declared_name

    def _checked_columns(self, columns: object) -> tuple[str, ...]:
        names = listed(columns)
        if names is None:
            raise SchemaError(
                f"in_memory must be a list of columns, got {given(columns)}",
                "Write in_memory=['sex', 'age'].",
            )
        declared_names = []
        for name in names:
            declared_name = self.schema.find(name) if isinstance(name, str) else None
            if declared_name is None:
                raise SchemaError(
                    f"in_memory has {given(name)}, which is not a declared column",
                    "Name columns of the schema.",
                )
            declared_names.append(declared_name)
        return tuple(dict.fromkeys(declared_names))

    def joining(
        self,
        joins: Mapping[str, Join],
        obstacles: Mapping[str, tuple[str, str]],
        definitions: Mapping[str, Any],
    ) -> Table:
        """Return a copy that knows which tables can be looked up; see ``dpnb.schema.joins``.

        Parameters
        ----------
        joins : mapping of str to Join
            By the join's name, such as ``products[product_id]``.
        obstacles : mapping of str to pair of str
            Why a join is impossible and what to do, by the join's name.
        definitions : mapping of str to value
            Definitions of the other tables, by name.

        Returns
        -------
        Table
            A copy.
        """
        copy = object.__new__(Table)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        for join in joins.values():
            copy.schema = copy.schema.joining(join.columns)
        copy.joins, copy.obstacles, copy._definitions = joins, obstacles, definitions
        return copy

    @classmethod
    def load(cls, path: str | Path) -> Table:
        """Read a table from a TOML file with ``name``, ``source``, ``[columns]`` and ``[unit]``.

        ``source`` is a URL, or a path relative to the file. ``public = true`` declares that the
        data need no protection, and ``key`` makes it a dimension table. A metadata file of
        SmartNoise (``.yaml``) has no source: its rows are in the CSV or Parquet file of the same
        name beside it.

        Parameters
        ----------
        path : str or Path
            A TOML file, or a YAML file of SmartNoise.

        Returns
        -------
        Table
            Its rows are not read yet.

        Raises
        ------
        SchemaError
            For a file that cannot be read, a missing or unknown entry, or a draft.
        """
        content = read_file(path)
        for entry in ("source", "columns"):
            if entry not in content:
                hint = "Add it."
                if str(path).lower().endswith(ENDINGS):
                    stem = Path(path).stem
                    hint = (
                        f"Put the rows beside it, in {stem}.csv or {stem}.parquet, or write "
                        f"dpnb.Table({content['name']!r}, source, dpnb.Schema.load({Path(path).name!r}))."
                    )
                raise SchemaError(f"the file has no {entry!r}", hint, str(path))
        places = content["source"]
        folder = Path(path).parent
        source: Any = (
            [folder / str(place) for place in places]
            if isinstance(places, list)
            else places
            if "://" in str(places)
            else folder / str(places)
        )
        name = str(content.get("name", Path(path).stem))
        schema = Schema.of(content)
        public = content.get("public", False)
        if not isinstance(public, bool):
            raise SchemaError(
                f"public must be true or false, got {given(public)}",
                "Write public = true.",
                str(path),
            )
        try:
            return cls(
                name,
                source,
                schema,
                public=public,
                key=content.get("key"),
                in_memory=content.get("in_memory"),
                memory_mb=content.get("memory_mb"),
            )
        except SchemaError as error:
            raise SchemaError(error.what, error.hint, str(path)) from None

    @classmethod
    def recorded(cls, definition: Mapping[str, Any], joined: Collection[str]) -> Table:
        """Return a table without data, from its definition in a ledger.

        Parameters
        ----------
        definition : mapping of str to value
            As :meth:`definition` returned it, as JSON.
        joined : collection of str
            Names of tables that are looked up from it.

        Returns
        -------
        Table
            All requests that need its rows are refused.
        """
        return cls(
            str(definition["name"]),
            NoData(frozenset(joined)),
            Schema.of(definition),
            public=bool(definition["public"]),
            key=definition.get("key"),
        )

    @property
    def unit(self) -> Unit | None:
        """The privacy unit; None for one row."""
        return self.schema.unit

    @property
    def declared(self) -> tuple[str, ...]:
        """The columns that the schema names, with and without declared values."""
        return (*self.schema, *self.schema.undeclared)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read from the source: declared, undeclared, and the id column."""
        unit, names = self.unit, self.declared
        if unit is None or unit.column.casefold() in map(str.casefold, names):
            return names
        return (*names, unit.column)

    @property
    def needed(self) -> tuple[str, ...]:
        """The complete columns and the key: a row without a value in one of them is left out."""
        needed = {*self.schema.complete, self.key}
        return tuple(name for name in self.schema if name in needed)

    def definition(self) -> dict[str, Any]:
        """Return everything public about the table as plain data.

        Returns
        -------
        dict of str to value
            Name, columns, privacy unit and joins.
        """
        aliases = [list(names) for names in self.schema.aliases]
        columns = self.schema.to_dict()
        key = {} if self.key is None else {"key": self.key}
        joins = {} if not self._definitions else {"joins": dict(self._definitions)}
        undeclared = list(self.schema.undeclared)
        return {
            **key,
            **joins,
            "name": self.name,
            "columns": columns,
            "aliases": aliases,
            "complete": list(self.schema.complete),
            **({"undeclared": undeclared} if undeclared else {}),
            "unit": None if self.unit is None else self.unit.to_dict(),
            "public": self.public,
        }

    def __repr__(self) -> str:
        public = ", public" if self.public else ""
        public += "" if self.key is None else f", key={self.key!r}"
        unit = "row" if self.unit is None else self.unit.column
        return f"Table({self.name!r}, {len(self.schema)} declared columns, unit={unit}{public})"

    def __reduce__(self) -> Any:
        raise TypeError("a Table holds sensitive data and cannot be pickled")
