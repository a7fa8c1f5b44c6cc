"""Inferences with known numbers, made by hand.

Notebooks that tests open use it, too.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpnb.answers.inference import Inference
from dpnb.answers.inferred import Inferred, Missing, Source
from dpnb.estimation.history import Consistency
from dpnb.estimation.joint import Joint
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.sql.functions import Function

HOSTILE = (
    "</script><b>bold</b>",
    'it\'s "quoted" & `ticked` | piped',
    "\u202egnp.exe\u2066\x1b[31m",
    "naïve – 日本語 $x$ <img src=x onerror=alert(1)>",
)
BY_SEX = "COUNT(*) GROUP BY sex"
BY_STATUS = "COUNT(*) WHERE age >= 25 GROUP BY marital_status"
COUNTS = ((0.0, math.inf),)
"""What is possible of a count."""
CONSISTENT = Consistency(1.2, 2, 13.8)


def joint(estimates, weights, sd=10.0, family="gaussian"):
    distributions = tuple(NoiseDistribution(family, sd) for _ in weights[0])
    names = tuple(f"r{i}/0" for i in range(len(distributions)))
    return Joint(
        np.array(estimates, dtype=float), np.array(weights, dtype=float), distributions,
        (0.0,) * len(distributions), names,
    )  # fmt: skip


def inference(**changes):
    """Return a single count, the sum of two past ones with noise of 10 each."""
    half = 1.959963984540054 * math.sqrt(200)
    made = Inference(
        sql="SELECT COUNT(*) AS n FROM adult",
        table="adult",
        version=1,
        keys=(),
        groups=((),),
        aggregates=(
            Inferred(
                "n",
                Function.COUNT,
                None,
                (48841.6,),
                (48814.0,),
                (48841.6 + half,),
                ((0,),),
                possible=COUNTS,
            ),
        ),
        rows=(0,),
        asked=1,
        confidence=0.95,
        intervals="simultaneous",
        method="blue",
        chosen=1,
        met=None,
        prior=None,
        joint=joint([48841.6], [[1.0, 1.0]]),
        shares=(
            (
                Source(BY_SEX, "Male", 32649.1, 10.0, 1.0, 0.5),
                Source(BY_SEX, "Female", 16192.5, 10.0, 1.0, 0.5),
            ),
        ),
        missing=(),
        consistency=CONSISTENT,
        left_out=(),
        stamp="",
        conditional=False,
        ledger="ab12",
        look=1,
    )
    return replace(made, **{"asked": len(changes.get("groups", made.groups)), **changes})


def groups(names=("Divorced", "Married", "Never-married", "Widowed"), **changes):
    """Return counts and means of four groups: one not told, one with too few rows to tell."""
    counts = Inferred(
        "n", Function.COUNT, None, (6633.2, 22379.9, None, 14.0),
        (6605.0, 22352.0, -math.inf, 0.0), (6661.0, 22408.0, math.inf, 42.0),
        ((0,), (1,), (), (2,)), possible=COUNTS,
    )  # fmt: skip
    means = Inferred(
        "rich", Function.AVG, "high_income", (0.1012, 0.4461, None, None),
        (0.0991, 0.4452, 0.0, 0.0), (0.1033, 0.4470, 1.0, 1.0),
        ((3, 0), (4, 1), (), (5, 2)), 0.5, 0.5, possible=((0.0, 1.0),),
    )  # fmt: skip
    parts = [
        (Source(BY_STATUS, name, value, 10.0, 1.0, 0.8), Source(BY_SEX, "Male", 9.0, 25.0, -0.25, 0.2))
        for name, value in ((names[0], 6633.2), (names[1], 22379.9), (names[3], 14.0))
    ]  # fmt: skip
    weights = np.eye(6) * 1.1
    weights[:3, 5] = -0.25
    made = inference(
        sql="SELECT marital_status, COUNT(*) AS n, AVG(high_income) AS rich FROM adult GROUP BY 1",
        keys=("marital_status",),
        groups=tuple((name,) for name in names),
        aggregates=(counts, means),
        rows=(1, 0, 3, 2),
        joint=joint([6633.2, 22379.9, 14.0, -2645.3, -1206.3, 2.0], weights.tolist()),
        shares=tuple(parts * 2),
        missing=(Missing("Enough would be: COUNT(*) WHERE marital_status = 'Never-married'."),),
    )
    return replace(made, **changes)


def guaranteed():
    """Return bounds where past answers do not determine the values; one has none above."""
    bounds = Inferred(
        "n", Function.COUNT, None, (None, None, 12.5), (120.0, 0.0, 0.0), (480.0, math.inf, 40.0),
        ((), (), (0,)), possible=COUNTS,
    )  # fmt: skip
    return inference(
        keys=("sex",), groups=(("Female",), ("Male",), ("Other",)), aggregates=(bounds,),
        rows=(0, 1, 2), method="guaranteed", joint=joint([12.5], [[1.0]]), shares=((),),
    )  # fmt: skip


def hostile():
    """Return one with names that look like markup, stamped, with an alarm."""
    made = groups(
        HOSTILE, stamp="test", conditional=True, consistency=Consistency(99.0, 2, 13.8),
        left_out=(HOSTILE[0],), prior="nonnegative", met=False,
    )  # fmt: skip
    first, second = made.aggregates
    nasty = replace(first, alias="<i>n</i>")
    source = Source(HOSTILE[0], HOSTILE[2], 1.5, 0.2, -1e-9, 1.0)
    return replace(made, aggregates=(nasty, second), shares=((source,), *made.shares[1:]))
