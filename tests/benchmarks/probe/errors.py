"""What decisions promise, measured where it is hardest: misses, certificates, randomised response.

    python -m tests.benchmarks.probe.errors          # 2 s
    python -m tests.benchmarks.probe.errors --long   # ten times as many draws

Misses: for each of some trees and every truth vector that makes it true, true conditions lie just
above their thresholds and false ones far below. A rate fails only when chance alone would make it so large
less often than once in 1e9.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from scipy import stats

from dpnb.decide.conditions import Node, Tree
from dpnb.privacy import response
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.noise import SecureNoise
from dpnb.studies import cases, study
from dpnb.studies.cases import Case
from dpnb.studies.gradual import gradual, plan_gradual
from tests.benchmarks.probe.trials import condition, every, finish, must, some

CHANCE = 1e-9
UNITS = (1.0, 1.0, 1.0), (100.0, 50.0, 25.0)
INTRO = (1.0, 65.0, 1.0, 105.0), (200.0, 3000.0, 200.0, 4000.0)
TREES: dict[str, tuple[Tree, tuple[tuple[float, ...], tuple[float, ...]], float]] = {
    "a or b or c": (some(3), UNITS, 0.05),
    "a and b and c": (every(3), UNITS, 0.05),
    "a or (b and c)": (Node("OR", (0, Node("AND", (1, 2)))), UNITS, 0.05),
    "a and (b or c)": (Node("AND", (0, Node("OR", (1, 2)))), UNITS, 0.05),
    "(a or b) and (a or c)": (
        Node("AND", (Node("OR", (0, 1)), Node("OR", (0, 2)))), UNITS, 0.05,
    ),
    "two of three": (
        Node("OR", (Node("AND", (0, 1)), Node("AND", (0, 2)), Node("AND", (1, 2)))), UNITS, 0.06,
    ),
    "(a and b) or (c and d)": (Node("OR", (every(2), Node("AND", (2, 3)))), INTRO, 0.05),
}  # fmt: skip
TINY, FAR = 1e-9, 1e9
RESPONSES = {
    # docs/methods/probe.md, theorem 15: (alpha, beta): epsilon
    (0.1, 0.05): 2.8903717578961645,
    (0.05, 0.05): 2.9444389791664403,
    (0.1, 0.025): 3.58351893845611,
    (0.15, 0.15): 1.7346010553881064,
}


def unlikely(count: int, of: int, chance: float) -> bool:
    """Whether so many events, or more, are out of the question at that chance."""
    return stats.binom.sf(count - 1, of, chance) < CHANCE


def worst(name: str, privacy: str, steps: int, groups: int, *, shared: bool) -> tuple[float, bool]:
    """Return the largest share of misses over truth vectors, and whether it is beyond the bound."""
    tree, (sensitivities, us), beta = TREES[name]
    count = len(us)
    lines = (0, 1, 0, 2) if shared else tuple(range(count))
    reaches = tuple(sensitivities[lines.index(line)] for line in range(max(lines) + 1))
    made = condition(tree, count)
    rates, broken = [], False
    for truth in np.flatnonzero(made.table):
        true = (int(truth) >> np.arange(count) & 1).astype(bool)
        limits = np.where(true, -TINY, FAR)[:, None] * np.ones(groups)
        case = Case(
            made, lines, reaches, us, limits, np.zeros((len(reaches), groups)), beta, most=FAR
        )
        plan = plan_gradual(case, privacy, steps=steps)
        # a goal that no result reaches: all steps are taken
        rng = study.generator(int(truth))
        found = gradual(replace(case, alpha=-1.0), plan, rng, give_up=False)
        missed = int((~found.chosen).sum())
        rates.append(missed / groups)
        broken |= unlikely(missed, groups, beta)
    return max(rates), broken


def misses(groups: int) -> None:
    print(f"largest share of misses over truth vectors, {groups:,} draws of each")
    print(f"{'':34}{'beta':>6}" + "".join(f"{one:>18}" for one in ("Laplace", "Gaussian")))
    for name, (_, (_, us), beta) in TREES.items():
        for shared in (False, True) if len(us) == 4 else (False,):
            for steps in (1, 6):
                cells = []
                what = f"{name}{', shared' if shared else ''}, {steps} step{'s' * (steps > 1)}"
                for privacy in (PURE, ZCDP):
                    rate, broken = worst(name, privacy, steps, groups, shared=shared)
                    cells.append(rate)
                    noise = "Laplace" if privacy == PURE else "Gaussian"
                    must(not broken, f"{what}, {noise}: misses {rate:.4f} <= {beta}")
                    if steps == 1 and not shared:
                        must(rate >= 0.95 * beta - 0.001, f"{what}, {noise}: the bound is tight")
                print(f"{what:34}{beta:>6}" + "".join(f"{cell:>18.4f}" for cell in cells))


def crowd(just_below: int, alpha: float) -> Case:
    """Return groups just below the threshold, 10 far above it, and others far below (error 1)."""
    values = np.full((1, 476), -1000.0)
    values[0, :just_below], values[0, just_below : just_below + 10] = -0.001, 5000.0
    return Case(
        condition(0, 1), (0,), (1.0,), (100.0,), np.zeros(values.shape), values, alpha=alpha
    )


def certificates(runs: int) -> None:
    print(f"\ncertificates that do not hold, of {runs:,}; results that claim what is not so")
    for just_below, alpha in ((30, 0.05), (60, 0.1), (5, 0.05)):
        case = crowd(just_below, alpha)
        for privacy in (PURE, ZCDP):
            for failure in (0.05, 0.5):
                made = plan_gradual(case, privacy, failure=failure)
                rng, truth, wrong, claimed = study.generator(3), case.truth(), 0, 0
                for _ in range(runs):
                    found = gradual(case, made, rng)
                    missed, false = cases.rates(found.chosen, truth)
                    broken = false > found.false or missed > found.missed
                    wrong += broken
                    claimed += found.status == "OK" and false > alpha
                noise = "Laplace" if privacy == PURE else "Gaussian"
                what = f"{just_below} just below, {noise}, may fail {failure:g}"
                print(f"  {what:44}{wrong:>6}{claimed:>6}")
                must(not unlikely(wrong, runs, failure), f"{what}: {wrong} of {runs} do not hold")
                must(not unlikely(claimed, runs, failure), f"{what}: {claimed} false claims")
    printed = 0
    for seed in range(200):
        case = crowd(30, 0.05)
        found = study.run("paper", case, study.generator(seed))
        printed += found.status == "OK" and cases.rates(found.chosen, case.truth())[1] > case.alpha
    print(f"  as printed: {printed} of 200 results claim an FPR of .05 that they do not have")
    must(printed > 180, f"the printed claim fails in {printed} of 200 runs")


def responses(groups: int) -> None:
    print("\nrandomised response: misses and false alarms measured, epsilon and its oracle")
    noise = SecureNoise()
    for (alpha, beta), wanted in RESPONSES.items():
        yes = response.respond(np.ones(groups, dtype=bool), beta, alpha, noise)
        no = response.respond(np.zeros(groups, dtype=bool), beta, alpha, noise)
        missed, false = groups - sum(yes), sum(no)
        found = response.epsilon(beta, alpha)
        print(
            f"  beta {beta:<6g}alpha {alpha:<6g}{missed / groups:>9.4f}{false / groups:>9.4f}"
            f"{found:>12.6f}{wanted:>12.6f}"
        )
        exact = (
            stats.binomtest(missed, groups, beta).pvalue >= CHANCE
            and stats.binomtest(false, groups, alpha).pvalue >= CHANCE
        )
        must(exact, f"response ({beta:g}, {alpha:g}): both errors are as asked")
        must(abs(found / wanted - 1) < 1e-9, f"response ({beta:g}, {alpha:g}): epsilon {found:.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="ten times as many draws")
    scale = 10 if parser.parse_args().long else 1
    certificates(500 * scale)
    misses(40_000 * scale)
    responses(20_000 * scale)
    finish()


if __name__ == "__main__":
    main()
