"""Tables of exact values, for the owner only; they hide their values when displayed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpnb.errors import RequestError, given

if TYPE_CHECKING:
    import pandas as pd

SHARE = "share of the largest possible"
"""Name of the column of normalised contributions."""
MAX_ROWS = 12
"""Most lines of a public table that a notebook cell shows."""
OWNER_ONLY = "exact, for the owner only: to_frame() shows it, and a saved notebook would keep it"


class Exact:
    """Columns of exact values.

    Values of a sensitive table appear only through :meth:`to_frame` or a column, because a notebook
    saves what a cell displays.

    Parameters
    ----------
    name : str
        Description in words.
    columns : pairs of name and array, each of shape (lines,)
        If names repeat, the last one stays as it is and the others get a number.
    public : bool
        Whether the table needs no protection.

    Examples
    --------
    >>> risk = curator.risk("SELECT SUM(wage) AS wage FROM people")
    >>> risk.guesses(rho=0.01)["guesses"].min() >= 50
    np.True_
    """

    __slots__ = ("_columns", "_public", "name")

    def __init__(
        self, name: str, columns: Iterable[tuple[str, npt.ArrayLike]], *, public: bool = False
    ) -> None:
        self.name = name
        self._columns: dict[str, npt.NDArray[Any]] = {}
        for label, column in reversed(list(columns)):
            key = next(n for n in _numbered(label) if n not in self._columns)
            self._columns[key] = np.asarray(column)
        self._columns = dict(reversed(self._columns.items()))
        self._public = public

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        """Return one column."""
        if column not in self._columns:
            raise RequestError(
                f"there is no column {given(column)}", f"Use {', '.join(self._columns)}."
            )
        return self._columns[column]

    def to_frame(self) -> pd.DataFrame:
        """Return the values as a data frame; a notebook that shows it stores them.

        Returns
        -------
        pandas.DataFrame
            As secret as the data.
        """
        import pandas as pd

        return pd.DataFrame(dict(self._columns))

    def __repr__(self) -> str:
        return repr(self.to_frame()) if self._public else f"<{self.name}: {OWNER_ONLY}>"

    def _repr_html_(self) -> str | None:
        if not self._public:
            return None
        return self.to_frame().to_html(index=False, max_rows=MAX_ROWS)

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def _numbered(name: str) -> Iterator[str]:
    """Yield a name, then the name followed by (2), (3), ..."""
    yield name
    yield from (f"{name} ({number})" for number in itertools.count(2))


class Indicators:
    """The indicators of all rows at one level.

    Attributes
    ----------
    values : float array, shape (u,)
        The distinct indicators, ascending: in units of the answer if it is one vector, else in
        units of the noise. The paper calls them RDR.
    counts : int64 array, shape (u,)
        How many rows have each.
    floor : float
        Indicator of someone whose row adds nothing, or who is not in the table.
    guesses : float array, shape (u,), or None
        How many of 100 guesses whether such a row is in the table are right; 50 is a coin toss.

    Examples
    --------
    >>> risk = curator.risk("SELECT SUM(wage) AS wage FROM people")
    >>> indicators = risk.rdr(rho=0.01)
    >>> len(indicators.values) == len(indicators.counts)
    True
    """

    __slots__ = ("_noun", "_public", "counts", "floor", "guesses", "values")

    def __init__(
        self,
        values: npt.ArrayLike,
        counts: npt.ArrayLike,
        floor: float,
        *,
        public: bool,
        guesses: npt.ArrayLike | None = None,
        noun: str = "rows",
    ) -> None:
        indicators = np.asarray(values, dtype=np.float64)
        order = np.argsort(indicators, kind="stable")
        self.values: npt.NDArray[np.float64] = indicators[order]
        self.counts: npt.NDArray[np.int64] = np.asarray(counts, dtype=np.int64)[order]
        self.guesses = None if guesses is None else np.asarray(guesses, dtype=np.float64)[order]
        self.floor = floor
        self._public, self._noun = public, noun

    @property
    def minimum(self) -> float:
        """The smallest indicator; the floor if there are no rows."""
        return float(self.values[0]) if len(self.values) else self.floor

    @property
    def maximum(self) -> float:
        """The largest indicator; the floor if there are no rows."""
        return float(self.values[-1]) if len(self.values) else self.floor

    @property
    def ratio(self) -> float:
        """Smallest over largest indicator; 1 if both are 0."""
        return 1.0 if self.maximum == 0 else self.minimum / self.maximum

    @property
    def floor_ratio(self) -> float:
        """Floor over largest indicator; 1 if both are 0."""
        return 1.0 if self.maximum == 0 else self.floor / self.maximum

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return one indicator for each row of the table, ascending."""
        return np.repeat(self.values, self.counts).astype(dtype or np.float64)

    def to_frame(self) -> pd.DataFrame:
        """Return indicators and how many rows have each; a notebook that shows them stores them.

        Returns
        -------
        pandas.DataFrame
            As secret as the data.
        """
        import pandas as pd

        beside = {} if self.guesses is None else {"guesses": self.guesses}
        return pd.DataFrame({"rdr": self.values, **beside, self._noun: self.counts})

    def __repr__(self) -> str:
        return (
            repr(self.to_frame()) if self._public else f"<disclosure-risk indicators: {OWNER_ONLY}>"
        )

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")
