"""Public facts about a table: its columns and their kinds. Never read from the data."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpnb.errors import SchemaError
from dpnb.kinds import KINDS, Category, Date, Integer, Kind, Real


class Schema(Mapping[str, Kind]):
    """The declared columns of a table, in order.

    Parameters
    ----------
    columns : mapping of str to Category, Integer, Real or Date
        Names are matched without regard to case in SQL and shown as declared.
    aliases : sequence of sequences of str
        Sets of columns that say the same in other words (``education`` and ``education_num``). An
        explanation uses the first of a set only, and none of a set that its question is about.
    complete : sequence of str
        Columns that are never missing. A row that lacks a value in one of them is left out of the
        table, silently: so the groups of such a column add up to all rows, and past answers tell more
        about new questions.

    Raises
    ------
    SchemaError
        When two names differ by case only, a name is empty, a kind is unknown, an alias is no column
        or stands in two sets, or a complete column is none.

    Examples
    --------
    >>> schema = Schema({"sex": Category(["Female", "Male"]), "age": Integer(17, 90)})
    >>> list(schema)
    ['sex', 'age']
    """

    __slots__ = ("_columns", "_folded", "aliases", "complete")

    def __init__(
        self,
        columns: Mapping[str, Kind],
        aliases: Sequence[Sequence[str]] = (),
        complete: Sequence[str] = (),
    ) -> None:
        if not isinstance(columns, Mapping) or not all(isinstance(n, str) for n in columns):
            raise SchemaError("a schema maps column names to kinds", "Write Schema({'age': ...}).")
        self._columns = dict(columns)
        self._folded = {name.casefold(): name for name in self._columns}
        if not self._columns:
            raise SchemaError("a schema needs at least one column")
        if len(self._folded) != len(self._columns):
            raise SchemaError("two columns differ by case only", "Rename one of them.")
        for name, kind in self._columns.items():
            if not name or not isinstance(kind, Category | Integer | Real | Date):
                raise SchemaError(
                    f"column {name!r} has no known kind",
                    "Use Category, Integer, Real or Date.",
                )
        self.aliases = _checked_aliases(aliases, self._columns)
        self.complete = _checked_complete(complete, self._columns)

    def __getitem__(self, name: str) -> Kind:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name!r}: {kind!r}" for name, kind in self._columns.items())
        aliases = f", aliases={[list(names) for names in self.aliases]!r}" if self.aliases else ""
        complete = f", complete={list(self.complete)!r}" if self.complete else ""
        return f"Schema({{{inner}}}{aliases}{complete})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schema)
            and list(self.items()) == list(other.items())
            and self.aliases == other.aliases
            and self.complete == other.complete
        )

    def __hash__(self) -> int:
        return hash((tuple(self._columns.items()), self.aliases, self.complete))

    def find(self, name: str) -> str | None:
        """Return the declared spelling of a column name, or None."""
        return self._folded.get(name.casefold())

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the declarations as plain data, as written under ``[columns]`` in TOML."""
        return {name: kind.to_dict() for name, kind in self._columns.items()}

    @classmethod
    def from_dict(
        cls,
        columns: Mapping[str, Mapping[str, Any]],
        aliases: Sequence[Sequence[str]] = (),
        complete: Sequence[str] = (),
    ) -> Schema:
        """Build a schema from plain data; the inverse of :meth:`to_dict`."""
        kinds: dict[str, Kind] = {}
        for name, declaration in columns.items():
            options = dict(declaration) if isinstance(declaration, Mapping) else {}
            word = str(options.pop("type", ""))
            if word not in KINDS:
                raise SchemaError(
                    f"column {name!r} has type {word!r}", f"Use one of {', '.join(KINDS)}."
                )
            try:
                kinds[name] = KINDS[word](**options)
            except TypeError:
                raise SchemaError(
                    f"column {name!r} has an option that a {word} does not know, or lacks one",
                    "A category has values and other; the others have low, high and bins.",
                ) from None
            except SchemaError as error:
                raise SchemaError(error.what, error.mend, f"column {name!r}") from None
        return cls(kinds, aliases, complete)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read ``aliases``, ``complete`` and the ``[columns]`` of a TOML file."""
        return cls.of(read_toml(path))

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Schema:
        """Build a schema from what a TOML file holds."""
        columns = content.get("columns", {})
        return cls.from_dict(columns, content.get("aliases", ()), content.get("complete", ()))

    def to_toml(self) -> str:
        """Return the schema as the text of a TOML file."""
        import tomli_w

        aliases = {"aliases": [list(names) for names in self.aliases]} if self.aliases else {}
        complete = {"complete": list(self.complete)} if self.complete else {}
        return tomli_w.dumps({**aliases, **complete, "columns": self.to_dict()})


def _checked_complete(complete: Sequence[str], columns: Mapping[str, Kind]) -> tuple[str, ...]:
    """Return the columns that are never missing, in the order of their declaration."""
    mend = "Write complete=['age', 'sex']."
    if not isinstance(complete, (list, tuple)):
        raise SchemaError("complete is a list of column names", mend)
    for name in complete:
        if not isinstance(name, str) or name not in columns:
            raise SchemaError(f"the complete column {name!r} is no column", mend)
    return tuple(name for name in columns if name in complete)


def _checked_aliases(
    aliases: Sequence[Sequence[str]], columns: Mapping[str, Kind]
) -> tuple[tuple[str, ...], ...]:
    """Return sets of two or more columns; no column is in two of them."""
    mend = "Write aliases=[['education', 'education_num']]."
    if not isinstance(aliases, (list, tuple)) or not all(
        isinstance(names, (list, tuple)) and len(names) > 1 for names in aliases
    ):
        raise SchemaError("aliases are lists of two or more column names", mend)
    listed = [name for names in aliases for name in names]
    for name in listed:
        if not isinstance(name, str) or name not in columns:
            raise SchemaError(f"the alias {name!r} is no column", mend)
        if listed.count(name) > 1:
            raise SchemaError(f"the alias {name!r} is named twice", "Put its set in one list.")
    return tuple(tuple(names) for names in aliases)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a table's TOML file.

    Its entries: ``name``, ``source``, ``public``, ``aliases``, ``complete``, ``columns``, ``unit``,
    ``budget``, and for several analysts ``policy`` and ``views``.
    """
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError:
        raise SchemaError("the file cannot be read", "Check the path.", str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"the file is not valid TOML: {error}", "", str(path)) from None
    known = {
        "name", "source", "public", "aliases", "complete", "columns", "unit", "budget", "policy",
        "views",
    }  # fmt: skip
    unknown = sorted(set(content) - known)
    if unknown:
        raise SchemaError(
            f"unknown entry {unknown[0]!r}",
            "A table's file has name, source, public, aliases, complete, views, [columns], [unit], "
            "[budget] and [policy].",
            str(path),
        )
    return content
