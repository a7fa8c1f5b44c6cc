"""Tumult Analytics on Spark: count and sum, half of epsilon each; mean = sum / count.

A bound in rows per person is its constraint ``MaxRowsPerID``.
"""

import os
import sys
from importlib.metadata import version as installed

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    KeySet,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)

os.environ["PYSPARK_PYTHON"] = sys.executable


def version() -> str:
    return f"Tumult Analytics {installed('tmlt.analytics')} on Spark {installed('pyspark')}"


def start(case):
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "8g")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    frame = spark.read.parquet(case["path"])
    frame = frame.select("grp", "age", *([case["unit"]] if case["unit"] else []))
    session = Session.from_dataframe(
        PureDPBudget(case["epsilon"] * (1 + case["later"])),
        "t",
        frame,
        protected_change=AddRowsWithID(case["unit"]) if case["unit"] else AddOneRow(),
    )
    keys = KeySet.from_dict({"grp": case["groups"]})
    low, high = case["bounds"]

    def ask(most):
        rows = QueryBuilder("t")
        if most is not None:
            rows = rows.filter(f"age <= {most}")
        if case["unit"]:
            rows = rows.enforce(MaxRowsPerID(case["max_rows"]))
        parts = rows.groupby(keys)
        half = PureDPBudget(case["epsilon"] / 2)
        counts = session.evaluate(parts.count("n"), half).collect()
        sums = session.evaluate(parts.sum("age", low, high, name="total"), half).collect()
        total = {row["grp"]: row["total"] for row in sums}
        return [(row["grp"], row["n"], total[row["grp"]] / max(1, row["n"])) for row in counts]

    return ask
