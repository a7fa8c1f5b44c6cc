"""Run cases and say what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpnb.privacy.definition import ZCDP
from dpnb.privacy.noise import Noise
from tests.audit.bounds import epsilon_bound, rho_bound
from tests.audit.cases import Case, Draw, Features

ERROR = 1e-9
"""Chance that a bound is wrong, at most."""


@dataclass(frozen=True)
class Finding:
    """A lower bound on the loss, beside the claim."""

    case: str
    defect: str
    claim: float
    unit: str
    found: float
    runs: int

    @property
    def right(self) -> bool:
        """Whether a sound mechanism kept its claim, or a defect was caught."""
        return (self.found > self.claim) == bool(self.defect)


def _scores(first: Features, second: Features) -> list[Features]:
    """Return the log-likelihood ratio that logistic regression learns on half of the runs, for the rest."""
    half = len(first) // 2
    seen = np.concatenate([first[:half], second[:half]])
    centre, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-12
    known = np.column_stack([np.ones(len(seen)), (seen - centre) / spread])
    truth = np.repeat([1.0, 0.0], half)
    weights = np.zeros(known.shape[1])
    for _ in range(40):
        chance = 1 / (1 + np.exp(-np.clip(known @ weights, -30, 30)))
        slope = known.T @ (truth - chance) - 1e-3 * weights
        curve = (known * (chance * (1 - chance))[:, None]).T @ known
        curve += 1e-3 * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return [
        np.column_stack([np.ones(len(side) - half), (side[half:] - centre) / spread]) @ weights
        for side in (first, second)
    ]


def bound(case: Case, draw: Draw, runs: int, noise: Noise) -> float:
    """Return a lower bound on what ``draw`` loses, in the unit of the case."""
    first, second = _scores(draw(0, runs, noise), draw(1, runs, noise))
    bound_of = rho_bound if case.privacy == ZCDP else epsilon_bound
    return bound_of(first, second, ERROR)


def audit(case: Case, runs: int, noise: Noise) -> Iterator[Finding]:
    """Yield what is found of a case and of its defects."""
    count = round(runs * case.share)
    unit = "rho" if case.privacy == ZCDP else "epsilon"
    for defect, draw in [("", case.draw), *case.defects.items()]:
        yield Finding(case.name, defect, case.claim, unit, bound(case, draw, count, noise), count)
