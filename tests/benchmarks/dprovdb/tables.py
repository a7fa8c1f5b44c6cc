"""Adult and TPC-H's orders as DProvDB declares them: 50 equal bins, domains from its code."""

from __future__ import annotations

import math
import subprocess
import sysconfig
from fractions import Fraction
from pathlib import Path

import dpnb
from tests.benchmarks.dprovdb.common import DOMAINS
from tests.benchmarks.dprovdb.trees import BINS


def edges(low: int, high: int, *, whole: bool) -> list[float]:
    """Return the ends of equal bins; whole numbers for a column of integers."""
    ends = [low + Fraction(high - low, BINS) * i for i in range(BINS + 1)]
    return [math.floor(end) if whole else float(end) for end in ends]


EDGES = {
    "adult": edges(*DOMAINS["adult"]["age"], whole=True),
    "tpch": edges(*DOMAINS["tpch"]["o_totalprice"], whole=False),
}
"""Of the attributes that are searched."""


def adult() -> dpnb.Table:
    """Return Adult with its 15 attributes."""
    plain = dpnb.datasets.adult()
    kinds = {
        name: kind for name, kind in plain.schema.items() if isinstance(kind, dpnb.Category)
    }  # fmt: skip
    for name, domain in DOMAINS["adult"].items():
        # 17 values need no 50 bins
        bins = None if name == "education_num" else edges(*domain, whole=True)
        kinds[name] = dpnb.Integer(*domain, bins=bins)
    return dpnb.Table("adult", plain.source, dpnb.Schema(kinds), public=True)


def make_orders(folder: Path) -> Path:
    """Write TPC-H's orders at scale factor 1 with tpchgen-cli."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    if not program.exists():
        raise SystemExit("this needs TPC-H's generator: pip install tpchgen-cli")
    arguments = ["parquet", "-s", "1", "--tables", "orders", "--output-dir", folder]
    subprocess.run([program, *arguments], check=True)
    return folder / "orders.parquet"


def orders(path: Path) -> dpnb.Table:
    """Return TPC-H's orders with five attributes."""
    keys, customers, prices = DOMAINS["tpch"].values()
    kinds = {
        "o_orderkey": dpnb.Integer(*keys, bins=edges(*keys, whole=True)),
        "o_custkey": dpnb.Integer(*customers, bins=edges(*customers, whole=True)),
        "o_totalprice": dpnb.Real(*prices, bins=edges(*prices, whole=False)),
        "o_orderstatus": dpnb.Category(["F", "O", "P"]),
        "o_orderpriority": dpnb.Category(
            ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
        ),
    }
    return dpnb.Table("orders", path, dpnb.Schema(kinds), public=True)
