"""Rows made up from a schema alone, for rehearsals: no look at any data, and nothing is hidden by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.codes import natural
from dpnb.schema.columns import EPOCH, Category, Date, Integer, Kind, Real
from dpnb.schema.schema import Schema, Unit
from dpnb.schema.table import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Codes: TypeAlias = npt.NDArray[np.int64]
    Shares: TypeAlias = npt.NDArray[np.float64]

MOST_ROWS = 10_000_000
COMMON = 0.5
"""How often a value follows what the row's columns have in common, so that groups differ."""
UNDECLARED = 50
"""Different values of a column whose values are not declared."""
MISSING = 0.03
"""Share of missing values in a column that may have some."""


def generated(
    name: str,
    schema: Schema,
    rows: int,
    seed: int = 0,
    *,
    public: bool = False,
    key: str | None = None,
    ids: Kind | None = None,
) -> Table:
    """Return a table of generated rows that fit a schema.

    Parameters
    ----------
    name : str
    schema : Schema
        All that the rows depend on, with its privacy unit.
    rows : int
        From 0 to 10,000,000.
    seed : int
        0 or more; the same seed gives the same rows.
    public : bool
    key : str, optional
        As in ``Table``; there are no more rows then than the key has values.
    ids : Kind, optional
        What another table declares the ids of the privacy unit to be, where this one does not.

    Raises
    ------
    RequestError
        For rows or a seed that are no whole numbers in their range.

    Examples
    --------
    >>> table = generated("t", Schema({"sex": Category(["Female", "Male"])}), rows=100)
    >>> len(table.source)
    100
    """
    import numpy as np
    import pandas as pd

    natural(rows, "rows", MOST_ROWS)
    natural(seed, "seed")
    # two tables of one rehearsal have nothing in common
    generator = np.random.default_rng([seed, *name.encode()])
    first = 0 if key is None else int(schema[key].scale.low)
    if key is not None:
        rows = min(rows, int(schema[key].scale.high) - first + 1)
    common = generator.random(rows)
    columns: dict[str, Any] = {}
    for column, kind in schema.items():
        own = generator.random(rows)
        shares = np.where(generator.random(rows) < COMMON, common, own)
        values = spread(kind, shares)
        if column not in schema.complete:
            values = values.mask(generator.random(rows) < MISSING)
        columns[column] = values
    for column in schema.undeclared:
        made = Category([f"{column} {number}" for number in range(1, UNDECLARED + 1)])
        columns[column] = spread(made, generator.random(rows))
    if key is not None:
        # the lowest values are the most common ones of other tables
        kind = schema[key]
        if not isinstance(kind, Real):
            columns[key] = _valued(kind, first + np.arange(rows))
    if schema.unit is not None:
        declared = schema.find(schema.unit.column)
        column = schema.unit.column if declared is None else declared
        kind_of_ids = ids if declared is None else schema[declared]
        columns[column] = _written(_ids(schema.unit, rows, generator), kind_of_ids)
    return Table(name, pd.DataFrame(columns), schema, public=public, key=key)


def spread(kind: Kind, shares: Shares) -> pd.Series[Any]:
    """Return one value of a column for each share: low shares are low values, which are the most.

    Parameters
    ----------
    kind : Category, Integer, Real or Date
    shares : float64 array, shape (rows,)
        From 0 to below 1, uniform.
    """
    import numpy as np
    import pandas as pd

    if isinstance(kind, Category):
        # each value a little rarer than the one before
        weights = np.cumsum(1.0 / np.sqrt(np.arange(1, len(kind.values) + 1)))
        codes = np.searchsorted(weights / weights[-1], shares, side="right")
        return _valued(kind, np.minimum(codes, len(kind.values) - 1))
    places = shares**1.5
    if isinstance(kind, Real):
        # not low + places * (high - low), which may be infinite
        values = kind.low * (1 - places) + kind.high * places
        return pd.Series(np.clip(values, kind.low, kind.high))
    low, high = int(kind.scale.low), int(kind.scale.high)
    steps = np.floor(places * (float(high) - low + 1)).astype(np.int64)
    return _valued(kind, np.minimum(low + steps, high))


def _valued(kind: Category | Integer | Date, codes: Codes) -> pd.Series[Any]:
    """Return the values of a column that have the given codes."""
    import numpy as np
    import pandas as pd

    if isinstance(kind, Category):
        return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(list(kind.values))))
    if isinstance(kind, Date):
        return pd.Series((np.datetime64(EPOCH, "D") + codes).astype("datetime64[s]"))
    return pd.Series(pd.array(codes, dtype="Int64"))


def _ids(unit: Unit, rows: int, generator: np.random.Generator) -> Codes:
    """Return an id for each row: an id has one row at least, and about ``max_rows``."""
    import numpy as np

    # some have more rows than are kept
    sizes = 1 + generator.poisson(unit.max_rows - 0.5, rows // unit.max_rows + 1)
    ids = np.repeat(np.arange(1, len(sizes) + 1), sizes)[:rows]
    rest = np.arange(len(sizes) + 1, len(sizes) + 1 + rows - len(ids))
    return generator.permutation(np.concatenate([ids, rest]))


def _written(ids: Codes, kind: Kind | None) -> pd.Series[Any]:
    """Return ids as values of their column; a declared column has values of its kind only."""
    import numpy as np
    import pandas as pd

    if kind is None:
        return pd.Series(ids)
    if isinstance(kind, Real):
        return pd.Series(np.clip(ids.astype(np.float64), kind.low, kind.high))
    low, high = int(kind.scale.low), int(kind.scale.high)
    return _valued(kind, low + ids % (high - low + 1))
