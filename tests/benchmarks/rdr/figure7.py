"""RDR's figure 7: the epsilon that Find-epsilon-from-RDR takes, for five thresholds and queries.

    python -m tests.benchmarks.rdr.figure7

Adult, both mechanisms, the published algorithm (``dpnb.studies.rdr``). The paper names 48,842 rows; with
the 32,561 of the training part, which the authors' file has, all values come out.
"""

from __future__ import annotations

import dpnb
from tests.benchmarks.rdr.common import (
    FIGURE_7,
    MECHANISMS,
    QUERIES,
    finish,
    must,
    opened,
    profiles,
)


def main() -> None:
    table, total = dpnb.datasets.adult(), 0
    with opened(table) as engine:
        for mechanism in MECHANISMS:
            found = profiles(table, engine, mechanism)
            print(f"\n{mechanism}, epsilon found (printed where it differs)")
            print("  tau_p" + "".join(f"{name:>12}" for name in QUERIES))
            for tau, printed in FIGURE_7[mechanism].items():
                epsilons = [profile.find(tau) for profile in found.values()]
                same = [a == b for a, b in zip(epsilons, printed, strict=True)]
                total += sum(same)
                cells = (
                    f"{epsilon:>12g}" if equal else f"{f'{epsilon:g} ({value:g})':>12}"
                    for epsilon, value, equal in zip(epsilons, printed, same, strict=True)
                )
                print(f"  {tau:<5}" + "".join(cells))
    must(total == 50, f"{total} of 50 printed epsilons")
    finish()


if __name__ == "__main__":
    main()
