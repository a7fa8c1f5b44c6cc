"""diffprivlib on pandas: histogram and a sum for each group, half of epsilon each; mean = sum / count.

Groups are disjoint, so each may spend all of epsilon. Its own count and mean take the size of what
they are given for public. Its neighbours have one row replaced, so a sum changes by at most 73, where
others count on 90; persons of several rows are unknown to it.
"""

import diffprivlib as dp
import pandas as pd


def version() -> str:
    return f"diffprivlib {dp.__version__} on pandas {pd.__version__}"


def start(case):
    if case["unit"]:
        raise NotImplementedError("it protects rows only")
    groups, half = case["groups"], case["epsilon"] / 2
    frame = pd.read_parquet(case["path"], columns=["grp", "age"])
    codes = pd.Categorical(frame["grp"], categories=groups).codes
    ages = frame["age"].to_numpy()

    def ask(most):
        within, years = (codes, ages) if most is None else (codes[ages <= most], ages[ages <= most])
        sides = {"bins": len(groups), "range": (-0.5, len(groups) - 0.5)}
        counts, _ = dp.tools.histogram(within, epsilon=half, **sides)
        bounds = tuple(case["bounds"])
        sums = [
            dp.tools.sum(years[within == i], epsilon=half, bounds=bounds)
            for i in range(len(groups))
        ]
        return [
            (group, int(count), float(total) / max(1, int(count)))
            for group, count, total in zip(groups, counts, sums, strict=True)
        ]

    return ask
