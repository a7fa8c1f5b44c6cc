"""Public facts about a table: its columns, their domains and bounds. Never read from the data.

Every column maps a normalised value to a **code** on an ordered scale: the index of a category, an
integer, days since 1970-01-01, or a float. Predicates and groups are closed intervals of codes, so
one arithmetic serves all kinds.
"""

from __future__ import annotations

import datetime
import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from dpnb.errors import SchemaError

Code: TypeAlias = int | float
Interval: TypeAlias = tuple[Code, Code]
"""A closed interval of codes, ``low <= high``."""
Constant: TypeAlias = str | int | float | Fraction | datetime.date

MAX_INTEGER = 2**53
"""Largest absolute bound of an ``Integer``: all codes are exact as floats."""
EPOCH = datetime.date(1970, 1, 1)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Cell:
    """One declared group of a column: its label and the codes ``low..high`` that fall into it."""

    label: str | int
    low: Code
    high: Code


def _union(intervals: Sequence[Interval], adjacent: bool) -> tuple[Interval, ...]:
    """Sorted, disjoint intervals; on integer scales neighbours such as 1..2 and 3..4 are joined."""
    merged: list[Interval] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1] + (1 if adjacent else 0):
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class Scale:
    """An ordered scale of codes with a first and a last one."""

    low: Code
    high: Code
    integral: bool

    def next(self, code: Code) -> Code:
        """Return the code right above."""
        return code + 1 if self.integral else math.nextafter(code, math.inf)

    def previous(self, code: Code) -> Code:
        """Return the code right below."""
        return code - 1 if self.integral else math.nextafter(code, -math.inf)

    def at_most(self, value: Fraction | float) -> Code:
        """Return the largest code that is not above ``value``."""
        if self.integral:
            return math.floor(value)
        code = float(value)
        return self.previous(code) if Fraction(code) > Fraction(value) else code

    def below(self, value: Fraction | float) -> Code:
        """Return the largest code that is below ``value``."""
        code = self.at_most(value)
        return self.previous(code) if Fraction(code) == Fraction(value) else code

    def compare(self, operator: str, value: Fraction | float) -> tuple[Interval, ...]:
        """Return the codes on this scale for which ``code operator value`` is true."""
        if operator == "<>":
            return self.complement(self.compare("=", value))
        least, greatest = self.low, self.high
        if operator in ("<", "<="):
            greatest = self.at_most(value) if operator == "<=" else self.below(value)
        elif operator in (">", ">="):
            least = self.next(self.at_most(value) if operator == ">" else self.below(value))
        else:
            least = self.next(self.below(value))
            greatest = self.at_most(value)
        least, greatest = max(least, self.low), min(greatest, self.high)
        return ((least, greatest),) if least <= greatest else ()

    def union(self, intervals: Sequence[Interval]) -> tuple[Interval, ...]:
        """Return sorted, disjoint intervals with the same codes."""
        return _union(intervals, self.integral)

    def complement(self, intervals: Sequence[Interval]) -> tuple[Interval, ...]:
        """Return the codes of the scale outside the intervals."""
        gaps: list[Interval] = []
        start = self.low
        for low, high in self.union(intervals):
            if start < low:
                gaps.append((start, self.previous(low)))
            start = self.next(high)
        if start <= self.high:
            gaps.append((start, self.high))
        return tuple(gaps)

    def intersection(
        self, left: Sequence[Interval], right: Sequence[Interval]
    ) -> tuple[Interval, ...]:
        """Return the codes in both."""
        both = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
        return self.union([(low, high) for low, high in both if low <= high])


@dataclass(frozen=True, slots=True)
class Category:
    """A column with a declared list of values.

    Parameters
    ----------
    values : sequence of str
        Every value that may be shown, in the order of display. At most 65,535, all different.
    other : str, optional
        The declared value (one of ``values``) that takes every value not in the list. Without it
        such a value counts as missing.

    Examples
    --------
    >>> Category(["Female", "Male"]).cells()[1].label
    'Male'
    """

    values: tuple[str, ...]
    other: str | None = None
    kind: ClassVar[str] = "category"
    numeric: ClassVar[bool] = False

    def __init__(self, values: Sequence[str], other: str | None = None) -> None:
        if isinstance(values, str) or not all(isinstance(value, str) for value in values):
            raise SchemaError(
                "a Category takes a list of texts",
                "Write Category(['a', 'b']); for whole numbers use Integer(low, high).",
            )
        if not 1 <= len(values) <= 65_535 or len(set(values)) != len(values):
            raise SchemaError("a Category needs 1 to 65,535 different values")
        if other is not None and other not in values:
            raise SchemaError(f"other={other!r} is not one of the declared values", "Add it.")
        object.__setattr__(self, "values", tuple(values))
        object.__setattr__(self, "other", other)

    @property
    def scale(self) -> Scale:
        """Codes 0..len(values)-1."""
        return Scale(0, len(self.values) - 1, integral=True)

    def cells(self) -> tuple[Cell, ...]:
        """Return one cell for each declared value."""
        return tuple(Cell(value, i, i) for i, value in enumerate(self.values))

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``; only ``=`` and ``<>``."""
        if operator not in ("=", "<>"):
            raise SchemaError("categories have no order", "Use =, <> or IN.")
        if not isinstance(value, str):
            raise SchemaError(f"{value} is not a text", "Put the category in single quotes.")
        if value not in self.values:
            raise SchemaError(
                f"{value!r} is not a declared category", nearest(value, self.values, quote=True)
            )
        return self.scale.compare(operator, self.values.index(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML."""
        other = {} if self.other is None else {"other": self.other}
        return {"type": self.kind, "values": list(self.values), **other}


def _checked_bins(bins: Sequence[Any] | None, low: Any, high: Any) -> tuple[Any, ...] | None:
    """Bin edges inside the bounds, at least two, strictly rising."""
    if bins is None:
        return None
    edges = tuple(bins)
    if len(edges) < 2 or any(a >= b for a, b in itertools.pairwise(edges)):
        raise SchemaError("bins need at least two edges in rising order")
    if edges[0] < low or edges[-1] > high:
        raise SchemaError("bins reach outside the bounds", "Keep every edge within low..high.")
    return edges


def _bin_cells(edges: Sequence[Any], codes: Sequence[Code], scale: Scale) -> tuple[Cell, ...]:
    """Right-closed bins; the first one includes its left end."""
    return tuple(
        Cell(
            f"{'[' if i == 0 else '('}{edges[i]}, {edges[i + 1]}]",
            codes[i] if i == 0 else scale.next(codes[i]),
            codes[i + 1],
        )
        for i in range(len(edges) - 1)
    )


def _number(value: Constant) -> Fraction | float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise SchemaError(f"{value!r} is not a number", "Write the number without quotes.")
    return value


@dataclass(frozen=True, slots=True)
class Integer:
    """A column of whole numbers, clamped to ``low..high``.

    Parameters
    ----------
    low, high : int
        Public bounds, ``low < high``, within +-2**53. Values outside are clamped; values that are
        no number are missing; fractions are rounded half up.
    bins : sequence of int, optional
        Edges for GROUP BY, right-closed; the first bin includes its left end. Without bins GROUP
        BY uses each whole number.

    Examples
    --------
    >>> [cell.label for cell in Integer(17, 90, bins=[17, 30, 90]).cells()]
    ['[17, 30]', '(30, 90]']
    """

    low: int
    high: int
    bins: Sequence[int] | None = None
    kind: ClassVar[str] = "integer"
    numeric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, *(self.bins or ()))
        if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise SchemaError("the bounds and bins of an Integer are whole numbers")
        if not -MAX_INTEGER <= self.low < self.high <= MAX_INTEGER:
            raise SchemaError("an Integer needs low < high, both within +-2**53")
        object.__setattr__(self, "bins", _checked_bins(self.bins, self.low, self.high))

    @property
    def scale(self) -> Scale:
        """The whole numbers low..high."""
        return Scale(self.low, self.high, integral=True)

    def cells(self) -> tuple[Cell, ...]:
        """Return the declared bins, or one cell for each whole number."""
        if self.bins is None:
            return tuple(Cell(value, value, value) for value in range(self.low, self.high + 1))
        return _bin_cells(self.bins, self.bins, self.scale)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``."""
        return self.scale.compare(operator, _number(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML."""
        bins = {} if self.bins is None else {"bins": list(self.bins)}
        return {"type": self.kind, "low": self.low, "high": self.high, **bins}


@dataclass(frozen=True, slots=True)
class Real:
    """A column of real numbers, clamped to ``low..high``.

    Parameters
    ----------
    low, high : float
        Public, finite bounds, ``low < high``. Values outside are clamped; NaN and infinities are
        missing. In sums each value is rounded to a public grid of about (high - low) / 2**23.
    bins : sequence of float, optional
        Edges for GROUP BY, right-closed; the first bin includes its left end. Needed to group.

    Examples
    --------
    >>> Real(0, 10, bins=[0, 2.5, 10]).cells()[0].label
    '[0.0, 2.5]'
    """

    low: float
    high: float
    bins: Sequence[float] | None = None
    kind: ClassVar[str] = "real"
    numeric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, *(self.bins or ()))
        if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
            raise SchemaError("the bounds and bins of a Real are numbers")
        if not all(math.isfinite(n) for n in numbers) or not self.low < self.high:
            raise SchemaError("a Real needs finite bounds with low < high")
        if not 1e-150 < max(abs(self.low), abs(self.high)) < 1e150:
            raise SchemaError("the bounds of a Real lie within 1e-150..1e150 in size")
        if (self.high - self.low) < max(abs(self.low), abs(self.high)) * 2.0**-30:
            raise SchemaError("the bounds of a Real are too close together for their size")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        bins = _checked_bins(self.bins, self.low, self.high)
        object.__setattr__(self, "bins", None if bins is None else tuple(map(float, bins)))

    @property
    def scale(self) -> Scale:
        """The floats low..high."""
        return Scale(self.low, self.high, integral=False)

    def cells(self) -> tuple[Cell, ...]:
        """Return the declared bins."""
        if self.bins is None:
            raise SchemaError("a Real has no groups of its own", "Declare bins=[...] for it.")
        return _bin_cells(self.bins, self.bins, self.scale)

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``."""
        return self.scale.compare(operator, _number(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML."""
        bins = {} if self.bins is None else {"bins": list(self.bins)}
        return {"type": self.kind, "low": self.low, "high": self.high, **bins}


def _as_date(value: Constant) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise SchemaError(f"{value!r} is not a date", "Write '2024-01-31'.") from None


def days(value: Constant) -> int:
    """Return the code of a date: days since 1970-01-01."""
    return (_as_date(value) - EPOCH).days


@dataclass(frozen=True, slots=True)
class Date:
    """A column of calendar days, clamped to ``low..high``.

    Parameters
    ----------
    low, high : datetime.date or str
        First and last day ('2024-01-31'), ``low < high``.
    bins : sequence of dates, optional
        Edges for GROUP BY, right-closed; the first bin includes its left end. Without bins GROUP
        BY uses each day.

    Examples
    --------
    >>> Date("2024-01-01", "2024-12-31", bins=["2024-01-01", "2024-06-30", "2024-12-31"]).cells()[1].label
    '(2024-06-30, 2024-12-31]'
    """

    low: datetime.date
    high: datetime.date
    bins: tuple[datetime.date, ...] | None = None
    kind: ClassVar[str] = "date"
    numeric: ClassVar[bool] = False

    def __init__(
        self, low: Constant, high: Constant, bins: Sequence[Constant] | None = None
    ) -> None:
        first, last = _as_date(low), _as_date(high)
        if not first < last:
            raise SchemaError("a Date needs low < high")
        edges = None if bins is None else [_as_date(edge) for edge in bins]
        object.__setattr__(self, "low", first)
        object.__setattr__(self, "high", last)
        object.__setattr__(self, "bins", _checked_bins(edges, first, last))

    @property
    def scale(self) -> Scale:
        """The days low..high, counted from 1970-01-01."""
        return Scale(days(self.low), days(self.high), integral=True)

    def cells(self) -> tuple[Cell, ...]:
        """Return the declared bins, or one cell for each day."""
        if self.bins is not None:
            return _bin_cells(self.bins, [days(edge) for edge in self.bins], self.scale)
        first, last = self.scale.low, self.scale.high
        return tuple(
            Cell((EPOCH + datetime.timedelta(day)).isoformat(), day, day)
            for day in range(int(first), int(last) + 1)
        )

    def compare(self, operator: str, value: Constant) -> tuple[Interval, ...]:
        """Return the codes that satisfy ``column operator value``."""
        return self.scale.compare(operator, days(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, as written in TOML."""
        bins = {} if self.bins is None else {"bins": list(self.bins)}
        return {"type": self.kind, "low": self.low, "high": self.high, **bins}


Kind: TypeAlias = Category | Integer | Real | Date
KINDS: dict[str, type[Kind]] = {k.kind: k for k in (Category, Integer, Real, Date)}


def cell_count(kind: Kind) -> int:
    """Return how many groups GROUP BY makes of a column, without listing them; 0 when undeclared."""
    if isinstance(kind, Category):
        return len(kind.values)
    if kind.bins is not None:
        return len(kind.bins) - 1
    if isinstance(kind, Real):
        return 0
    return int(kind.scale.high - kind.scale.low) + 1


def nearest(word: str, words: Sequence[str], *, quote: bool = False) -> str:
    """Return 'Did you mean ...?' for a close match, else the first few choices."""
    import difflib

    def shown(text: str) -> str:
        return repr(text) if quote else text

    close = [w for w in words if w.casefold() == word.casefold()]
    close = close or difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {shown(close[0])}?"
    few = ", ".join(shown(w) for w in list(words)[:6])
    return f"Declared: {few}{', ...' if len(words) > 6 else ''}."


class Schema(Mapping[str, Kind]):
    """The declared columns of a table, in order.

    Parameters
    ----------
    columns : mapping of str to Category, Integer, Real or Date
        Names are matched without regard to case in SQL and shown as declared.

    Raises
    ------
    SchemaError
        When two names differ by case only, a name is empty, or a kind is unknown.

    Examples
    --------
    >>> schema = Schema({"sex": Category(["Female", "Male"]), "age": Integer(17, 90)})
    >>> list(schema)
    ['sex', 'age']
    """

    __slots__ = ("_columns", "_folded")

    def __init__(self, columns: Mapping[str, Kind]) -> None:
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

    def __getitem__(self, name: str) -> Kind:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name!r}: {kind!r}" for name, kind in self._columns.items())
        return f"Schema({{{inner}}})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self._columns.items()))

    def find(self, name: str) -> str | None:
        """Return the declared spelling of a column name, or None."""
        return self._folded.get(name.casefold())

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the declarations as plain data, as written under ``[columns]`` in TOML."""
        return {name: kind.to_dict() for name, kind in self._columns.items()}

    @classmethod
    def from_dict(cls, columns: Mapping[str, Mapping[str, Any]]) -> Schema:
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
        return cls(kinds)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read the ``[columns]`` of a TOML file."""
        return cls.from_dict(read_toml(path).get("columns", {}))

    def to_toml(self) -> str:
        """Return the schema as the text of a TOML file."""
        import tomli_w

        return tomli_w.dumps({"columns": self.to_dict()})


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a table's TOML file: ``name``, ``source``, ``columns``, ``unit``, ``budget``."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError:
        raise SchemaError("the file cannot be read", "Check the path.", str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"the file is not valid TOML: {error}", "", str(path)) from None
    unknown = sorted(set(content) - {"name", "source", "columns", "unit", "budget"})
    if unknown:
        raise SchemaError(
            f"unknown entry {unknown[0]!r}",
            "A table's file has name, source, [columns], [unit] and [budget].",
            str(path),
        )
    return content
