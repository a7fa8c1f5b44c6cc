"""OpenDP with Polars, by its Context: dp.len and dp.sum, half of the budget each; mean = sum / count.

Its own dp.mean asks for group sizes that are public. Pure epsilon (Laplace) adds less noise to two
statistics than the rho of (epsilon, delta) does. A bound in rows per person is
``truncate_per_group``, before any grouping.
"""

from importlib.metadata import version as installed

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def version() -> str:
    return f"OpenDP {installed('opendp')} with Polars {pl.__version__}"


def queried(case):
    keys = pl.LazyFrame({"grp": case["groups"]})
    unit = {"contributions": 1}
    if case["unit"]:
        unit["identifier"] = case["unit"]
    queries = 1 + case["later"]
    data = pl.scan_parquet(case["path"])
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(**unit),
        privacy_loss=dp.loss_of(epsilon=case["epsilon"] * queries),
        split_evenly_over=queries,
        margins=[dp.polars.Margin(max_length=case["rows"])],
    )

    def build(most):
        query = context.query()
        if most is not None:
            query = query.filter(pl.col("age") <= most)
        if case["unit"]:
            query = query.truncate_per_group(case["max_rows"])
        total = pl.col("age").dp.sum(tuple(case["bounds"]))
        return query.group_by("grp").agg(dp.len(), total).with_keys(keys)

    return build, data


def rows(released):
    found = released.collect().select("grp", "len", pl.col("age") / pl.col("len"))
    return [list(row) for row in found.iter_rows()]


def start(case):
    build, _ = queried(case)
    return lambda most: rows(build(most).release())


def draws(case, number):
    """The query is planned once; each call of the measurement aggregates and draws anew."""
    build, data = queried(case)
    measurement = build(None).resolve()
    return [rows(measurement(data)) for _ in range(number)]
