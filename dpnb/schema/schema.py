"""Public facts about a table: its columns and their kinds. Never read from the data."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpnb.codes import listed, scalar
from dpnb.errors import SchemaError, given
from dpnb.schema import smartnoise
from dpnb.schema.columns import KINDS, Category, Integer, Kind, Real
from dpnb.schema.timestamps import Date, Timestamp
from dpnb.schema.types import Boolean

MOST_OF_ONE = 2**20
"""Largest number of rows, and of groups, for one id."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The privacy unit: all rows that share one id.

    Parameters
    ----------
    column : str
        The source's column that identifies the protected person. Rows without an id are left out.
        One id may be spelled in several ways: ``7``, ``7.0``, ``07`` and ``' 7'`` are one number.
    max_rows : int
        Rows kept for one id, from 1 to 1,048,576. They are picked once, before any WHERE, in an
        order of the id's rows that the ledger keeps secret. A larger number needs more noise.
    max_groups : int, optional
        Most groups in which one id is counted by COUNT(DISTINCT id). By default it is counted in
        each group where it has a row, as in SQL. A smaller number needs less noise, but the counts
        are too low where ids are in more groups. Discovery and randomised response count an id in
        this many groups, too, and by default in one.
    kind : None or "text"
        "text" if ``7`` and ``07`` are two people: texts are then compared letter by letter, without
        blanks at their ends. It is part of what is protected, so a ledger cannot change it.

    Raises
    ------
    SchemaError
        For an empty name, bounds that are not whole numbers in their range, or an unknown kind.

    Examples
    --------
    >>> Unit("customer_id", max_rows=20)
    Unit(column='customer_id', max_rows=20, max_groups=None)
    >>> Unit("seat", max_rows=20, kind="text").to_dict()
    {'column': 'seat', 'max_rows': 20, 'kind': 'text'}
    """

    column: str
    max_rows: int
    max_groups: int | None = None
    kind: Literal["text"] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SchemaError("the unit needs a column", "Write Unit('person_id', max_rows=3).")
        for name in ("max_rows", "max_groups"):
            maximum = scalar(getattr(self, name))
            if maximum is None and name == "max_groups":
                continue
            integral = isinstance(maximum, int) and not isinstance(maximum, bool)
            if not integral or not 1 <= maximum <= MOST_OF_ONE:
                raise SchemaError(
                    f"{name} must be a whole number from 1 to {MOST_OF_ONE:,}, got {given(maximum)}",
                    f"Write {name}=3.",
                )
            object.__setattr__(self, name, maximum)
        if self.kind is not None and not (isinstance(self.kind, str) and self.kind == "text"):
            raise SchemaError(
                f"the kind of ids must be 'text', got {given(self.kind)}",
                "Write kind='text' if 7 and 07 are different ids, or leave it out.",
            )

    def __repr__(self) -> str:
        kind = "" if self.kind is None else f", kind={self.kind!r}"
        return (
            f"Unit(column={self.column!r}, max_rows={self.max_rows}, "
            f"max_groups={self.max_groups}{kind})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as plain data, as written under ``[unit]`` in TOML.

        Returns
        -------
        dict of str to value
            ``column``, ``max_rows``, ``max_groups`` if it was given, and ``kind`` if it is "text".
        """
        entries = {
            name: getattr(self, name) for name in ("column", "max_rows", "max_groups", "kind")
        }
        return {name: entry for name, entry in entries.items() if entry is not None}

    @property
    def text(self) -> str:
        """A description of the privacy unit."""
        return unit_text([self.column, self.max_rows])

    @classmethod
    def from_dict(cls, data: object) -> Unit:
        """Build a unit from plain data; the inverse of :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            ``column``, ``max_rows``, ``max_groups`` if it was given, and ``kind`` if it is "text".

        Returns
        -------
        Unit
            Equal to the original.

        Raises
        ------
        SchemaError
            For missing or unknown entries, or invalid values as in the class.
        """
        entries = {"column", "max_rows", "max_groups", "kind"}
        if not isinstance(data, Mapping) or not {"column", "max_rows"} <= set(data) <= entries:
            raise SchemaError(
                "[unit] needs column and max_rows, and takes max_groups and kind",
                "Write column = 'person_id' and max_rows = 3.",
            )
        return cls(**data)


def groups_counted(unit: Unit, groups: int) -> int:
    """Return in how many of some groups COUNT(DISTINCT id) counts one id at most.

    Examples
    --------
    >>> groups_counted(Unit("id", 20), 31), groups_counted(Unit("id", 20, 3), 31)
    (20, 3)
    """
    return min(unit.max_rows, unit.max_groups or groups, groups)


def groups_asked(unit: Unit | None) -> int:
    """Return in how many groups discovery and randomised response count one unit at most.

    One by default: each group in which an id counts costs its full level.
    """
    return 1 if unit is None else unit.max_groups or 1


def unit_text(unit: Sequence[Any] | None) -> str:
    """Describe the privacy unit in a view's public definition.

    Examples
    --------
    >>> unit_text(["customer_id", 20])
    'all rows of one customer_id, at most 20 kept'
    >>> unit_text(["customer_id", 1, 20]) == unit_text(["customer_id", 20])
    True
    """
    if unit is None:
        return "row"
    column, *_, most = unit
    return f"all rows of one {column}, at most {most:,} kept"


def kept_note(unit: str) -> str:
    """Return a sentence on the rows that count, from the result of :func:`unit_text`; '' for rows.

    Examples
    --------
    >>> kept_note("all rows of one customer_id, at most 20 kept")
    ' This protects all rows of one customer_id, at most 20 kept; further rows do not count.'
    """
    return "" if unit == unit_text(None) else f" This protects {unit}; further rows do not count."


class Schema(Mapping[str, Kind]):
    """The declared columns of a table, in order.

    Parameters
    ----------
    columns : mapping of str to Category, Boolean, Integer, Real, Date or Timestamp
        Names are matched without regard to case in SQL and shown as declared.
    aliases : sequence of sequences of str
        Sets of columns with the same meaning (``education`` and ``education_num``). An explanation
        uses only the first of a set, and none of a set that its question is about.
    complete : sequence of str
        Columns that are never missing. A row without a value in one of them is silently left out of
        the table. So the groups of such a column add up to all rows, and earlier answers determine
        more new ones.
    undeclared : sequence of str
        Columns of texts without declared values. No statement can use them; ``Session.discover``
        lists the values that many rows have.

    Raises
    ------
    SchemaError
        If two names differ only in case, a name is empty, a kind is unknown, an alias is not a
        column or is in two sets, a complete column is not declared, or an undeclared one is.

    Examples
    --------
    >>> schema = Schema({"sex": Category(["Female", "Male"]), "age": Integer(17, 90)})
    >>> list(schema)
    ['sex', 'age']
    """

    __slots__ = ("_columns", "_folded", "aliases", "complete", "joined", "undeclared", "unit")

    def __init__(
        self,
        columns: Mapping[str, Kind],
        aliases: Sequence[Sequence[str]] = (),
        complete: Sequence[str] = (),
        undeclared: Sequence[str] = (),
    ) -> None:
        if not isinstance(columns, Mapping) or not all(isinstance(n, str) for n in columns):
            raise SchemaError("a schema maps column names to kinds", "Write Schema({'age': ...}).")
        self._columns = dict(columns)
        self._folded = {name.casefold(): name for name in self._columns}
        if not self._columns:
            raise SchemaError(
                "a schema needs at least one column", "Write Schema({'age': Integer(17, 90)})."
            )
        if len(self._folded) != len(self._columns):
            raise SchemaError(
                "two columns differ only in upper and lower case", "Rename one of them."
            )
        for name, kind in self._columns.items():
            if not name or not isinstance(
                kind, Category | Boolean | Integer | Real | Date | Timestamp
            ):
                raise SchemaError(
                    f"column {given(name)} has an unknown kind",
                    "Use Category, Boolean, Integer, Real, Date or Timestamp.",
                )
        self.aliases = _checked_aliases(aliases, self._columns)
        self.complete = _checked_complete(complete, self._columns)
        self.undeclared = _checked_undeclared(undeclared, self._folded)
        self.unit: Unit | None = None
        self.joined: Mapping[str, Kind] = {}

    def protecting(self, unit: Unit | None) -> Schema:
        """Return the schema of a table with another privacy unit.

        Parameters
        ----------
        unit : Unit or None
            None protects one row.

        Returns
        -------
        Schema
            A copy.

        Raises
        ------
        SchemaError
            If the unit's ids are an undeclared column.
        """
        if unit is not None and unit.column.casefold() in map(str.casefold, self.undeclared):
            raise SchemaError(
                f"the values of {unit.column!r}, the ids of the privacy unit, cannot be discovered",
                "Leave them out of undeclared.",
            )
        schema = Schema(self._columns, self.aliases, self.complete, self.undeclared)
        schema.unit = unit
        return schema

    def joining(self, columns: Mapping[str, Kind]) -> Schema:
        """Return the schema with columns of other tables; see ``dpnb.schema.joins``.

        They are found by name, but an iteration over the schema yields declared columns only.

        Parameters
        ----------
        columns : mapping of str to Category, Boolean, Integer, Real, Date or Timestamp
            Kinds of the looked-up columns, by name.

        Returns
        -------
        Schema
            A copy.

        Raises
        ------
        SchemaError
            If a declared column has the name of one of them.
        """
        for name in columns:
            if name in self:
                raise SchemaError(
                    f"the column name {name!r} is reserved for joins", "Rename the column."
                )
        schema = self.protecting(self.unit)
        schema.joined = {**self.joined, **columns}
        return schema

    def __getitem__(self, name: str) -> Kind:
        kind = self._columns.get(name)
        return self.joined[name] if kind is None else kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name!r}: {kind!r}" for name, kind in self._columns.items())
        aliases = f", aliases={[list(names) for names in self.aliases]!r}" if self.aliases else ""
        complete = f", complete={list(self.complete)!r}" if self.complete else ""
        undeclared = f", undeclared={list(self.undeclared)!r}" if self.undeclared else ""
        return f"Schema({{{inner}}}{aliases}{complete}{undeclared})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schema)
            and list(self.items()) == list(other.items())
            and self.aliases == other.aliases
            and self.complete == other.complete
            and self.undeclared == other.undeclared
            and self.unit == other.unit
            and self.joined == other.joined
        )

    def __hash__(self) -> int:
        return hash((tuple(self._columns.items()), self.aliases, self.complete, self.unit))

    def find(self, name: str) -> str | None:
        """Return the declared spelling of a column name, or None.

        Parameters
        ----------
        name : str
            In any mix of upper and lower case.

        Returns
        -------
        str or None
            None for an unknown column.
        """
        return self._folded.get(name.casefold())

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the declarations as plain data, as written under ``[columns]`` in TOML.

        Returns
        -------
        dict of str to dict
            One declaration for each column.
        """
        return {name: kind.to_dict() for name, kind in self._columns.items()}

    @classmethod
    def from_dict(
        cls,
        columns: Mapping[str, Mapping[str, Any]],
        aliases: Sequence[Sequence[str]] = (),
        complete: Sequence[str] = (),
        undeclared: Sequence[str] = (),
    ) -> Schema:
        """Build a schema from plain data; the inverse of :meth:`to_dict`.

        Parameters
        ----------
        columns : mapping of str to mapping
            The result of :meth:`to_dict`.
        aliases : sequence of sequences of str
            As for the class.
        complete : sequence of str
            As for the class.
        undeclared : sequence of str
            As for the class.

        Returns
        -------
        Schema
            Equal to the original.

        Raises
        ------
        SchemaError
            For an unknown type, a missing or unknown argument, or as in the class.
        """
        if not isinstance(columns, Mapping):
            raise SchemaError(
                f"columns must be a mapping of names to declarations, got {given(columns)}",
                "Write {'age': {'type': 'integer', 'low': 0, 'high': 120}}.",
            )
        kinds: dict[str, Kind] = {}
        for name, declaration in columns.items():
            options = dict(declaration) if isinstance(declaration, Mapping) else {}
            word = str(options.pop("type", ""))
            if word not in KINDS:
                raise SchemaError(
                    f"column {given(name)} has type {given(word)}",
                    f"Use one of {', '.join(KINDS)}.",
                )
            try:
                kinds[name] = KINDS[word](**options)
            except TypeError:
                raise SchemaError(
                    f"column {name!r} ({word}) has an unknown option, or one is missing",
                    "A category takes values and other, a boolean nothing; the other kinds take low, high and bins, a "
                    "timestamp also resolution and tz.",
                ) from None
            except SchemaError as error:
                raise SchemaError(error.what, error.hint, f"column {name!r}") from None
        return cls(kinds, aliases, complete, undeclared)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a TOML file: ``aliases``, ``complete``, ``undeclared``, ``[unit]``, ``[columns]``.

        A metadata file of SmartNoise (``.yaml``) is read, too.

        Parameters
        ----------
        path : str or Path
            A TOML file, or a YAML file of SmartNoise.

        Returns
        -------
        Schema
            With its privacy unit.

        Raises
        ------
        SchemaError
            For a file that cannot be read, unknown entries, or a draft.
        """
        return cls.of(read_file(path))

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Schema:
        """Build a schema from the contents of a TOML file.

        Parameters
        ----------
        content : mapping of str to value
            The result of ``tomllib``.

        Returns
        -------
        Schema
            With its privacy unit.

        Raises
        ------
        SchemaError
            As in :meth:`from_dict`.
        """
        columns, unit = content.get("columns", {}), content.get("unit")
        lists = (content.get(name, ()) for name in ("aliases", "complete", "undeclared"))
        schema = cls.from_dict(columns, *lists)
        return schema.protecting(None if unit is None else Unit.from_dict(unit))

    def to_toml(self) -> str:
        """Return the schema as the text of a TOML file.

        Returns
        -------
        str
            Text that :meth:`load` reads.
        """
        import tomli_w

        aliases = {"aliases": [list(names) for names in self.aliases]} if self.aliases else {}
        complete = {"complete": list(self.complete)} if self.complete else {}
        undeclared = {"undeclared": list(self.undeclared)} if self.undeclared else {}
        unit = {} if self.unit is None else {"unit": self.unit.to_dict()}
        return tomli_w.dumps(
            {**aliases, **complete, **undeclared, **unit, "columns": self.to_dict()}
        )


def _checked_complete(complete: Sequence[str], columns: Mapping[str, Kind]) -> tuple[str, ...]:
    """Check the complete columns, and return them in the order of their declaration."""
    hint = "Write complete=['age', 'sex']."
    names = listed(complete)
    if names is None:
        raise SchemaError(f"complete must be a list of column names, got {given(complete)}", hint)
    for name in names:
        if not isinstance(name, str) or name not in columns:
            raise SchemaError(f"complete names {given(name)}, which is not a declared column", hint)
    return tuple(name for name in columns if name in names)


def _checked_undeclared(undeclared: Sequence[str], folded: Mapping[str, str]) -> tuple[str, ...]:
    hint = "Write undeclared=['city']."
    names = listed(undeclared)
    if names is None or not all(isinstance(n, str) and n for n in names):
        raise SchemaError(
            f"undeclared must be a list of column names, got {given(undeclared)}", hint
        )
    for name in names:
        if name.casefold() in folded:
            raise SchemaError(
                f"column {name!r} is declared and also in undeclared", "Remove it from one of them."
            )
    if len({name.casefold() for name in names}) != len(names):
        raise SchemaError(
            "two undeclared columns differ only in upper and lower case", "Rename one of them."
        )
    return tuple(names)


def _checked_aliases(
    aliases: Sequence[Sequence[str]], columns: Mapping[str, Kind]
) -> tuple[tuple[str, ...], ...]:
    """Check the aliases: sets of two or more columns, with no column in two sets."""
    hint = "Write aliases=[['education', 'education_num']]."
    sets = [listed(names) or [] for names in listed(aliases) or []]
    if listed(aliases) is None or not all(len(names) > 1 for names in sets):
        raise SchemaError("aliases must be lists of two or more column names", hint)
    members = [name for names in sets for name in names]
    for name in members:
        if not isinstance(name, str) or name not in columns:
            raise SchemaError(f"aliases name {given(name)}, which is not a declared column", hint)
        if members.count(name) > 1:
            raise SchemaError(
                f"column {name!r} is twice in aliases", "Put all its aliases in one list."
            )
    return tuple(map(tuple, sets))


def _check_protection(content: Mapping[str, Any], path: str | Path) -> None:
    """Refuse a file whose question about whose rows these are has no answer, or two."""
    answer = content.get("one_row_per_person")
    if answer is None or content.get("public") is True:
        return
    if answer is not True and "unit" not in content:
        raise SchemaError(
            "the file does not say whose rows these are",
            "Write [unit] with the column that says so, or one_row_per_person = true.",
            str(path),
        )
    if answer is True and "unit" in content:
        raise SchemaError(
            "the file has [unit], and says that each person has one row",
            "Delete one_row_per_person.",
            str(path),
        )


def read_text(path: str | Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte-order mark.

    Raises
    ------
    SchemaError
        For a file that cannot be read, or is in another encoding.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError:
        raise SchemaError("the file cannot be read", "Check the path.", str(path)) from None
    encoding = ""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw:
        encoding = "UTF-16"
    else:
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            encoding = "another encoding, such as Latin-1"
    raise SchemaError(f"the file is in {encoding}, not in UTF-8", "Save it as UTF-8.", str(path))


def read_file(path: str | Path) -> dict[str, Any]:
    """Read a table's TOML file, or a metadata file of SmartNoise as if it were one.

    The rows of such a file are those beside it, in a file of the same name.
    """
    if not str(path).lower().endswith(smartnoise.ENDINGS):
        return read_toml(path)
    content = smartnoise.read(read_text(path), path)
    beside = [Path(path).with_suffix(ending) for ending in (".parquet", ".csv")]
    found = [file.name for file in beside if file.exists()]
    return {**content, "source": found[0]} if len(found) == 1 else content


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a table's TOML file.

    Its entries: ``name``, ``source``, ``public``, ``key``, ``aliases``, ``complete``,
    ``undeclared``, ``columns``, ``unit``, ``in_memory``, ``memory_mb``, ``budget``, and for several
    analysts ``analysts``, ``policy`` and ``views``.
    """
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(
            f"the file is not valid TOML: {error}", "Correct the file there.", str(path)
        ) from None
    if "draft" in content:
        raise SchemaError(
            "this is a draft made from the data",
            "Replace every bound and value by public knowledge. Then delete the line draft = true.",
            str(path),
        )
    _check_protection(content, path)
    entries = {
        "name", "source", "public", "key", "aliases", "complete", "undeclared", "columns", "unit",
        "budget", "policy", "views", "analysts", "in_memory", "memory_mb", "one_row_per_person",
    }  # fmt: skip
    unknown = sorted(set(content) - entries)
    if unknown:
        raise SchemaError(
            f"unknown entry {given(unknown[0])}",
            "A table's file has name, source, public, key, aliases, complete, undeclared, views, "
            "in_memory, memory_mb, one_row_per_person, [columns], [unit], [budget], [policy] and "
            "[analysts].",
            str(path),
        )
    return content
