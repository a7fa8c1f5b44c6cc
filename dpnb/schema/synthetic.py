"""Rows generated from a schema alone, for rehearsals: no data are read, and nothing is secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.codes import natural
from dpnb.schema.columns import Category, Integer, Kind, Real
from dpnb.schema.schema import Schema, Unit
from dpnb.schema.table import Table
from dpnb.schema.timestamps import Date, Timestamp, seconds
from dpnb.schema.types import Boolean

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Codes: TypeAlias = npt.NDArray[np.int64]
    Shares: TypeAlias = npt.NDArray[np.float64]

MOST_ROWS = 10_000_000
COMMON = 0.5
"""Probability that a value follows the factor that a row's columns share, so that groups differ."""
UNDECLARED = 50
"""Number of different values in an undeclared column."""
MISSING = 0.03
"""Share of missing values in a column that is not complete."""


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
    """Generate a table whose rows fit a schema.

    Parameters
    ----------
    name : str
    schema : Schema
        Schema with privacy unit; the rows depend on nothing else.
    rows : int
        From 0 to 10,000,000.
    seed : int
        0 or more; the same seed gives the same rows.
    public : bool
    key : str, optional
        As in ``Table``; there are at most as many rows as the key has values.
    ids : Kind, optional
        Another table's kind for the ids of the privacy unit, if this table does not declare one.

    Raises
    ------
    RequestError
        If rows or seed is not a whole number in its range.

    Examples
    --------
    >>> table = generated("t", Schema({"sex": Category(["Female", "Male"])}), rows=100)
    >>> len(table.source)
    100
    """
    import numpy as np
    import pandas as pd

    rows = natural(rows, "rows", MOST_ROWS)
    seed = natural(seed, "seed")
    # the tables of one rehearsal are independent
    generator = np.random.default_rng([seed, *name.encode()])
    first = 0 if key is None else int(schema[key].scale.low)
    if key is not None:
        rows = min(rows, int(schema[key].scale.high) - first + 1)
    common = generator.random(rows)
    columns: dict[str, Any] = {}
    for column, kind in schema.items():
        own_shares = generator.random(rows)
        shares = np.where(generator.random(rows) < COMMON, common, own_shares)
        values = spread(kind, shares)
        if column not in schema.complete:
            values = values.mask(generator.random(rows) < MISSING)
        columns[column] = values
    for column in schema.undeclared:
        category = Category([f"{column} {number}" for number in range(1, UNDECLARED + 1)])
        columns[column] = spread(category, generator.random(rows))
    if key is not None:
        # the lowest values are the most common ones in other tables
        kind = schema[key]
        if not isinstance(kind, Real):
            columns[key] = _valued(kind, first + np.arange(rows))
    if schema.unit is not None:
        declared_name = schema.find(schema.unit.column)
        column = schema.unit.column if declared_name is None else declared_name
        kind_of_ids = ids if declared_name is None else schema[declared_name]
        columns[column] = _written(_ids(schema.unit, rows, generator), kind_of_ids)
    return Table(name, pd.DataFrame(columns), schema, public=public, key=key)


def spread(kind: Kind, shares: Shares) -> pd.Series[Any]:
    """Return one value of a column for each share; low shares give low values, which are common.

    Parameters
    ----------
    kind : Category, Boolean, Integer, Real, Date or Timestamp
    shares : float64 array, shape (rows,)
        Uniform between 0 and 1, without 1.
    """
    import numpy as np
    import pandas as pd

    if isinstance(kind, Category | Boolean):
        # each value a little rarer than the one before
        weights = np.cumsum(1.0 / np.sqrt(np.arange(1, len(kind.values) + 1)))
        codes = np.searchsorted(weights / weights[-1], shares, side="right")
        return _valued(kind, np.minimum(codes, len(kind.values) - 1))
    places = shares**1.5
    if isinstance(kind, Real):
        # not low + places * (high - low): the difference may be infinite
        values = kind.low * (1 - places) + kind.high * places
        return pd.Series(np.clip(values, kind.low, kind.high))
    low, high = int(kind.scale.low), int(kind.scale.high)
    steps = np.floor(places * (float(high) - low + 1)).astype(np.int64)
    return _valued(kind, np.minimum(low + steps, high))


def _valued(kind: Category | Boolean | Integer | Date | Timestamp, codes: Codes) -> pd.Series[Any]:
    """Return the values of a column for the given codes."""
    import pandas as pd

    if isinstance(kind, Category):
        return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(list(kind.values))))
    if isinstance(kind, Date | Timestamp):
        return pd.Series((codes * seconds(kind)).astype("datetime64[s]"))
    if isinstance(kind, Boolean):
        return pd.Series(pd.array(codes == 1, dtype="boolean"))
    return pd.Series(pd.array(codes, dtype="Int64"))


def _ids(unit: Unit, rows: int, generator: np.random.Generator) -> Codes:
    """Return an id for each row: each id has at least one row, and about ``max_rows``."""
    import numpy as np

    # some ids have more rows than are kept
    sizes = 1 + generator.poisson(unit.max_rows - 0.5, rows // unit.max_rows + 1)
    ids = np.repeat(np.arange(1, len(sizes) + 1), sizes)[:rows]
    extra_ids = np.arange(len(sizes) + 1, len(sizes) + 1 + rows - len(ids))
    return generator.permutation(np.concatenate([ids, extra_ids]))


def _written(ids: Codes, kind: Kind | None) -> pd.Series[Any]:
    """Return ids as values of their column's kind, if it is declared."""
    import numpy as np
    import pandas as pd

    if kind is None:
        return pd.Series(ids)
    if isinstance(kind, Real):
        return pd.Series(np.clip(ids.astype(np.float64), kind.low, kind.high))
    low, high = int(kind.scale.low), int(kind.scale.high)
    return _valued(kind, low + ids % (high - low + 1))
