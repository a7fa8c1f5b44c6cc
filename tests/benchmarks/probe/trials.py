"""What these benchmarks share: conditions without a statement, and means over many runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy import stats

from dpnb.decide.apportion import apportion
from dpnb.decide.conditions import Atom, Condition, Node, Tree, condition_of
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import epsilon_of_rho, rho_of_epsilon
from dpnb.schema.predicates import Within
from dpnb.sql.functions import Function
from dpnb.sql.query import Aggregate
from dpnb.studies import study
from dpnb.studies.cases import Case, Mode, Studied, rates
from dpnb.studies.gradual import gradual, plan_gradual
from dpnb.studies.probe import one_phase
from tests.kit.verdicts import finish as finish
from tests.kit.verdicts import must as must

DATA = Path(__file__).parents[2] / "data"
DELTA = 1e-9


def condition(
    tree: Tree, count: int, signs: Sequence[int] = (), *, strict: bool = True
) -> Condition:
    """Return a function of ``count`` conditions on different counts."""
    atoms = [
        Atom(
            Aggregate(Function.COUNT, None, Within("n", ((i, i),)), f"n{i}"),
            -1 if i < len(signs) and signs[i] < 0 else 1,
            Fraction(0),
            strict,
        )
        for i in range(count)
    ]
    return condition_of(atoms, tree)


def every(count: int) -> Tree:
    """Return 0 AND 1 AND ..."""
    return 0 if count == 1 else Node("AND", tuple(range(count)))


def some(count: int) -> Tree:
    """Return 0 OR 1 OR ..."""
    return 0 if count == 1 else Node("OR", tuple(range(count)))


def mix(count: int) -> Tree:
    """Return (all but the last) OR the last."""
    return Node("OR", (every(count - 1), count - 1))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means over runs: epsilon spent, measured rates, evenness; how many runs were denied, claimed to meet
    alpha, and had a certificate that does not hold; ``positives`` groups satisfy the condition."""

    epsilon: float
    missed: float
    false: float
    denied: int
    met: int
    violated: int
    evenness: float
    runs: int
    positives: int

    @property
    def keeps(self) -> bool:
        """Whether chance explains the misses at .05 (unless once in 1e9), and every certificate holds."""
        groups = self.positives * self.runs
        count = round(self.missed * groups)
        return not self.violated and stats.binom.sf(count - 1, groups, 0.05) >= 1e-9


Run = Callable[[np.random.Generator], Studied]


def repeat(run: Run, truth: np.ndarray, runs: int, seed: Sequence[int], *, even=False) -> Outcome:
    """Run many times; denied runs count with what they found."""
    from dpnb.decide.entropy import min_entropy

    generator = np.random.default_rng(seed)
    spent, missed, false, evenness = (np.zeros(runs) for _ in range(4))
    denied = met = violated = 0
    for i in range(runs):
        found = run(generator)
        spent[i] = found.epsilon
        missed[i], false[i] = rates(found.chosen, truth)
        denied += found.status.startswith("DENIED")
        met += found.status == "OK"
        if found.false is not None and found.missed is not None:
            violated += false[i] > found.false or missed[i] > found.missed
        evenness[i] = min_entropy(found.epsilons) if even else np.nan
    means = [float(each.mean()) for each in (spent, missed, false)]
    return Outcome(*means, denied, met, violated, float(evenness.mean()), runs, int(truth.sum()))


def published(case: Case, mode: Mode, runs: int, *, even: bool = False) -> Outcome:
    """Repeat a published method."""
    return repeat(lambda rng: study.run(mode, case, rng), case.truth(), runs, (1, 5), even=even)


def certified(case: Case, privacy: str, runs: int, *, even: bool = False) -> Outcome:
    """Repeat the certified method, with Laplace or Gaussian noise at the same cap on (epsilon, 1e-9).

    Gaussian costs are turned into epsilon run by run.
    """
    if privacy == PURE:
        made = plan_gradual(case)
        return repeat(lambda rng: gradual(case, made, rng), case.truth(), runs, (2, 5), even=even)
    case = replace(case, most=float(rho_of_epsilon(case.most, DELTA)))
    made = plan_gradual(case, ZCDP)

    def run(generator: np.random.Generator) -> Studied:
        found = gradual(case, made, generator)
        return replace(found, epsilon=epsilon_of_rho(found.epsilon, DELTA))

    return repeat(run, case.truth(), runs, (3, 5))


def shifted_once(case: Case, runs: int) -> Outcome:
    """Repeat one phase with the shares that cost least."""
    betas = apportion(case.condition, case.bars, case.beta, PURE)
    return repeat(lambda rng: one_phase(case, betas, rng), case.truth(), runs, (4, 5))
