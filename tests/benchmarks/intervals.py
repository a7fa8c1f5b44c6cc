"""Width of AVG intervals against DPXPlain's published method at equal privacy, on Adult.

    python -m tests.benchmarks.intervals [--repeats 20]

Both spend the same rho, the one of (epsilon, delta), on one AVG by group and state the same
confidence for every group on its own. Published: half of rho each for the sum of values in [0, M]
or [-M, M] and for the count, a box of two intervals. Ours: centred sum, uneven split, exact set,
cut to the bounds. Adult plays a public table here; widths are means over repeats, then over groups.
"""

from __future__ import annotations

import argparse
import math
import statistics

import duckdb
import numpy as np

import dpnb
from dpnb.estimation.intervals import mean_in_box
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.loss import rho_of_epsilon
from dpnb.schema.partition import labels

QUERIES = (
    ("high_income", "marital_status"),
    ("hours_per_week", "education"),
    ("age", "occupation"),
    ("capital_gain", "sex"),
    ("education_num", "race"),
)


def published(column: str, group: str, rho: float, confidence: float, repeats: int) -> list[float]:
    table = dpnb.datasets.adult()
    kind = table.schema[column]
    cells = labels(table.schema[group])
    rows = {
        name: (total, count)
        for name, total, count in duckdb.execute(
            f"SELECT {group}, SUM({column})::DOUBLE, COUNT({column}) FROM '{table.source}' GROUP BY 1"
        ).fetchall()
    }
    generator = np.random.default_rng(1)
    largest = max(abs(kind.low), abs(kind.high))
    total_distribution = NoiseDistribution("gaussian", largest / math.sqrt(rho))
    count_distribution = NoiseDistribution("gaussian", 1 / math.sqrt(rho))
    widths = []
    for cell in cells:
        total, count = rows.get(cell, (0.0, 0))
        intervals = [
            mean_in_box(
                total + generator.normal(0, total_distribution.scale),
                count + generator.normal(0, count_distribution.scale),
                total_distribution,
                count_distribution,
                1 - confidence,
            )
            for _ in range(repeats)
        ]
        # cut to the bounds, which the published method would allow too
        cut = [(max(low, kind.low), min(high, kind.high)) for low, high in intervals]
        widths.append(statistics.fmean(max(0.0, high - low) for low, high in cut))
    return widths


def ours(column: str, group: str, epsilon: float, confidence: float, repeats: int) -> list[float]:
    budget = dpnb.Budget(epsilon=epsilon, delta=1e-6)
    widths = []
    for _ in range(repeats):
        with dpnb.Session(dpnb.datasets.adult(), budget=budget) as session:
            answer = session.query(
                f"SELECT {group}, AVG({column}) AS mean FROM adult GROUP BY {group}",
                epsilon=epsilon,
                confidence=confidence,
                intervals="each",
            )
        (found,) = answer.estimates
        widths.append([2 * found.margin_of_error(i) for i in range(len(answer.groups))])
    return [statistics.fmean(column) for column in zip(*widths, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    rho = float(rho_of_epsilon(options.epsilon, 1e-6))
    print(f"(epsilon, delta) = ({options.epsilon:g}, 1e-06), rho = {rho:.5f}, 95 % each")
    for column, group in QUERIES:
        a = ours(column, group, options.epsilon, 0.95, options.repeats)
        b = published(column, group, rho, 0.95, options.repeats)
        ratios = [x / y for x, y in zip(a, b, strict=True) if y > 0]
        print(
            f"AVG({column}) by {group}: ours / published, mean {statistics.fmean(ratios):.3f}, "
            f"widest group {max(ratios):.3f}, narrowest {min(ratios):.3f}; "
            f"{100 * (1 - statistics.fmean(ratios)):.0f} % narrower"
        )


if __name__ == "__main__":
    main()
