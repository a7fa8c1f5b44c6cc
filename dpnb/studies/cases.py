"""Input and result of a study mode: conditions with the exact values of a public table.

All values become margins first, sign times (aggregate minus threshold). Every condition then reads
"margin above 0" and protects what it calls true (docs/methods/probe.md, definition 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from dpnb.decide.apportion import Bar
from dpnb.decide.certificate import Floats
from dpnb.decide.conditions import Bools, Condition

Mode: TypeAlias = Literal["naive", "probe", "probe-naive", "probe-ent", "ppwlm", "ddpwlm", "paper"]
Status: TypeAlias = Literal[
    "OK", "ALPHA_NOT_MET", "DENIED_PLAN", "DENIED_AFTER_PHASE1", "DENIED_AFTER_PHASE2"
]
MOST = 5.0
"""The largest epsilon of the published runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A condition to decide, with the exact values of a public table.

    Attributes
    ----------
    condition : Condition
        A Boolean function of n conditions.
    lines : tuple of int, shape (n,)
        The aggregate that each condition reads.
    sensitivities : tuple of float, shape (aggregates,)
        Laplace or Gaussian sensitivity of one row, in units of the aggregate.
    us : tuple of float, shape (n,)
        The first uncertain region of each condition, in units of its aggregate.
    limits : array, shape (n, groups)
        Thresholds.
    exact : array, shape (aggregates, groups)
    beta, alpha : float
        Bounds on false negatives and on false positives.
    most : float
        Most that may be spent: epsilon, or rho with Gaussian noise.
    ordered : bool
        Whether the parts of an AND or OR run in order of rising public cost, so that skipping the
        rest of an empty AND saves most; else as written.
    """

    condition: Condition
    lines: tuple[int, ...]
    sensitivities: tuple[float, ...]
    us: tuple[float, ...]
    limits: Floats
    exact: Floats
    beta: float = 0.05
    alpha: float = 0.1
    most: float = MOST
    ordered: bool = True

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The conditions to apportion."""
        return tuple(
            Bar(line, self.sensitivities[line], u)
            for line, u in zip(self.lines, self.us, strict=True)
        )

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.limits.shape[1])

    @property
    def weights(self) -> tuple[float, ...]:
        """Sensitivity / u of each condition."""
        return tuple(bar.sensitivity / bar.u for bar in self.bars)

    def margins(self) -> Floats:
        """Return sign times (aggregate minus threshold), shape (n, groups)."""
        signs = np.array([atom.sign for atom in self.condition.atoms], dtype=np.float64)
        return signs[:, None] * (self.exact[list(self.lines)] - self.limits)

    def truth(self) -> Bools:
        """Return which groups satisfy the condition, shape (groups,)."""
        strict = np.array([atom.strict for atom in self.condition.atoms])[:, None]
        margins = self.margins()
        return self.condition.value(np.where(strict, margins > 0, margins >= 0))


@dataclass(frozen=True, slots=True)
class Row:
    """One charge: condition (for ``gradual``, aggregate), epsilon, u, share, and phase or step."""

    place: int
    epsilon: float
    u: float
    share: float
    phase: int


@dataclass(frozen=True, slots=True, eq=False)
class Studied:
    """Result and spending of a run.

    Attributes
    ----------
    mode : str
    status : str
        'OK' is the method's own claim that the bound on false positives is met: an estimate for
        all modes but ``gradual`` (docs/methods/probe.md, error 1), and no claim at all for 'naive',
        'ppwlm' and 'ddpwlm'.
    chosen : bool array, shape (groups,)
        The selected groups, up to a denial; none after DENIED_PLAN.
    epsilon : float
        Spent in this run (ex post), denied or not; rho with Gaussian noise.
    epsilons : array, shape (groups,)
        The part of it that a row of each group may have lost.
    rows : tuple of Row
    f_est, r_est : tuple of float or None
        Last estimates of false positives and of negatives, by condition; nan for those not run.
    false, missed : float or None
        Certified shares of false positives and false negatives, only for ``gradual``.
    unknown : int
        Groups that the certificate leaves in doubt.
    """

    mode: str
    status: Status
    chosen: Bools
    epsilon: float
    epsilons: Floats
    rows: tuple[Row, ...]
    f_est: tuple[float, ...] | None = None
    r_est: tuple[float, ...] | None = None
    false: float | None = None
    missed: float | None = None
    unknown: int = 0


def rates(chosen: Bools, truth: Bools) -> tuple[float, float]:
    """Return the shares of false negatives and positives, |FN|/|P| and |FP|/|N|; 0 for 0/0."""
    positive, negative = int(truth.sum()), int((~truth).sum())
    missed, false = int((truth & ~chosen).sum()), int((chosen & ~truth).sum())
    return missed / max(positive, 1), false / max(negative, 1)


def denied(case: Case, mode: str) -> Studied:
    """Return the result of a plan that costs more than may be spent: nothing runs."""
    groups = case.groups
    return Studied(mode, "DENIED_PLAN", np.zeros(groups, dtype=bool), 0.0, np.zeros(groups), ())
