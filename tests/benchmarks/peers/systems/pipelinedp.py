"""PipelineDP in its local mode: COUNT and MEAN together, Laplace noise, naive accounting.

A bound in rows per person is ``max_contributions``. It reads Python tuples, which pyarrow makes.
"""

from importlib.metadata import version as installed

import pipeline_dp as dp
import pyarrow.parquet


def version() -> str:
    return f"PipelineDP {installed('pipeline-dp')}, local"


def start(case):
    low, high = case["bounds"]
    columns = ["grp", "age", *([case["unit"]] if case["unit"] else [])]
    table = pyarrow.parquet.read_table(case["path"], columns=columns)
    rows = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    bounds = {"max_partitions_contributed": 1, "max_contributions_per_partition": 1}
    if case["unit"]:
        bounds = {"max_contributions": case["max_rows"]}
    parameters = dp.AggregateParams(
        metrics=[dp.Metrics.COUNT, dp.Metrics.MEAN],
        noise_kind=dp.NoiseKind.LAPLACE,
        min_value=low,
        max_value=high,
        contribution_bounds_already_enforced=not case["unit"],
        **bounds,
    )
    extractors = dp.DataExtractors(
        privacy_id_extractor=(lambda row: row[2]) if case["unit"] else None,
        partition_extractor=lambda row: row[0],
        value_extractor=lambda row: row[1],
    )

    def ask(most):
        accountant = dp.NaiveBudgetAccountant(case["epsilon"], case["delta"])
        engine = dp.DPEngine(accountant, dp.LocalBackend())
        data = rows if most is None else [row for row in rows if row[1] <= most]
        released = engine.aggregate(data, parameters, extractors, public_partitions=case["groups"])
        accountant.compute_budgets()
        return [(group, found.count, found.mean) for group, found in released]

    return ask
