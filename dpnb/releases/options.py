"""The options of requests, declared once: cells, completion and the service read the same lines.

The methods of ``Session`` are written by hand, for editors and type checkers; a test compares them
with these lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpnb.releases.kinds import Kind, Truth, or_null


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a request.

    Attributes
    ----------
    name : str
        Its name in Python and on the wire.
    kind : Kind
        What values it takes; also None if that is the default.
    default : object
        The value if the option is not given.
    help : str
        The text of a cell's help; '' if cells do not offer the option.
    flag : str
        Its name in a cell, without hyphens; by default ``name``.
    metavar : str
        The help's name for a value; by default ``name``.
    means : object
        The value that the flag stands for, if it takes none; True where there is only one other.
    """

    name: str
    kind: Kind
    default: Any
    help: str = ""
    flag: str = ""
    metavar: str | tuple[str, str] = ""
    means: Any = None

    @property
    def spelled(self) -> str:
        """The option as a cell writes it."""
        return f"--{self.flag or self.name}"

    @property
    def alone(self) -> bool:
        """Whether its flag takes no value in a cell."""
        return self.means is not None or isinstance(self.kind, Truth)

    @property
    def schema(self) -> dict[str, Any]:
        """Its values as JSON schema."""
        return self.kind.schema if self.default is not None else or_null(self.kind.schema)

    def read(self, value: object) -> Any:
        """Return a value as its kind reads it.

        Raises
        ------
        RequestError
        """
        unset = value is None and self.default is None
        return None if unset else self.kind.read(value, self.name)


Options: TypeAlias = Sequence[Option]


def read_values(options: Options, values: Mapping[str, object]) -> dict[str, Any]:
    """Return the value of each option, by name.

    Raises
    ------
    RequestError
        For a value of another kind.
    """
    return {option.name: option.read(values.get(option.name, option.default)) for option in options}


def names(options: Options) -> tuple[str, ...]:
    """Return the names of options."""
    return tuple(option.name for option in options)


def schema_of(options: Options) -> dict[str, Any]:
    """Return the JSON schema of an object that may have these options, and nothing else."""
    properties = {option.name: option.schema for option in options}
    return {"type": "object", "properties": properties, "additionalProperties": False}
