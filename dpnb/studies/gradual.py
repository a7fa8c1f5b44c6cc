"""The certified method on public data: steps that are fixed in advance, and a stop by certificate.

Algorithm 8 of docs/methods/probe.md with simulated noise, for comparison with the published
methods. It takes its steps and its rule for giving up from :mod:`dpnb.decide.progressive`, which
serves private data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpnb.decide.apportion import apportion, levels_for
from dpnb.decide.certificate import Floats, margin_of_error, shares, verdicts
from dpnb.decide.options import STEPS
from dpnb.decide.progressive import hopeless, ladder, passes, regions
from dpnb.privacy.calibrate import distribution
from dpnb.privacy.definition import PURE, PrivacyDefinition
from dpnb.studies.cases import Case, Row, Status, Studied, denied
from dpnb.studies.refinement import finer, merged

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """The steps of a certified decision, fixed in advance.

    Attributes
    ----------
    privacy : {'pure', 'zcdp'}
        Laplace or Gaussian noise.
    betas : tuple of float, shape (n,)
        Share of the bound on false negatives for one step, by condition.
    levels : array, shape (steps, aggregates)
        Epsilons or rhos.
    us : array, shape (steps, n)
    reach : array, shape (steps, aggregates)
        Margins of error of the certificate's confidence intervals.
    """

    privacy: PrivacyDefinition
    betas: tuple[float, ...]
    levels: Floats
    us: Floats
    reach: Floats


def plan_gradual(
    case: Case, privacy: PrivacyDefinition = PURE, *, steps: int = STEPS, failure: float = 0.05
) -> Ladder:
    """Return the steps of :func:`gradual`; the certificate fails with probability ``failure``."""
    betas = apportion(case.condition, case.bars, case.beta / steps, privacy)
    first = levels_for(case.bars, betas, privacy)
    lines = range(len(case.sensitivities))
    levels = list(zip(*(ladder(first[line], steps, privacy) for line in lines), strict=True))
    alpha = failure / (len(case.sensitivities) * case.groups * steps)
    return Ladder(
        privacy,
        betas,
        np.array([[float(level) for level in step] for step in levels]),
        np.array(
            [regions(step, betas, case.lines, case.sensitivities, privacy) for step in levels]
        ),
        np.array([[_reach(case, line, step[line], privacy, alpha) for line in lines] for step in levels]),
    )  # fmt: skip


def _reach(
    case: Case, line: int, level: Fraction, privacy: PrivacyDefinition, alpha: float
) -> float:
    return margin_of_error(level, case.sensitivities[line], privacy, alpha)


def gradual(case: Case, made: Ladder, rng: Generator, *, give_up: bool = True) -> Studied:
    """Decide step by step until the certificate reaches alpha.

    Laplace noise is a path of gradual release, which costs its last level. Gaussian increments of
    rho are merged, which costs their sum, the level reached. Status 'OK' is certified;
    'ALPHA_NOT_MET' means the answer of the last affordable step, or of the step after which more
    seemed hopeless.

    Parameters
    ----------
    give_up : bool
        Whether to stop if even the last step is not expected to certify alpha.
    """
    condition, lines = case.condition, case.lines
    refinement = finer if made.privacy.noise == "laplace" else merged
    noise = np.zeros(case.exact.shape)
    low, high = np.full(noise.shape, -np.inf), np.full(noise.shape, np.inf)
    passing = np.ones(case.limits.shape, dtype=bool)
    last_levels = np.zeros(len(noise))
    rows: list[Row] = []
    status: Status = "ALPHA_NOT_MET"
    chosen = np.ones(case.groups, dtype=bool)
    false, missed, unknown = 1.0, 0.0, case.groups
    for step, levels in enumerate(made.levels):
        if levels.sum() > case.most:
            if step == 0:
                return denied(case, "gradual")
            break
        noise = np.array(
            [
                refinement(
                    noise[i], float(last_levels[i]), float(level), case.sensitivities[i], rng
                )
                for i, level in enumerate(levels)
            ]
        )
        rows += [
            Row(i, float(level - last_levels[i]), float(made.us[step][lines.index(i)]),
                made.betas[lines.index(i)], step + 1)
            for i, level in enumerate(levels)
        ]  # fmt: skip
        last_levels, values = levels, case.exact + noise
        reach = made.reach[step][:, None]
        low, high = np.maximum(low, values - reach), np.minimum(high, values + reach)
        for i, atom in enumerate(condition.atoms):
            passing[i] &= passes(atom.sign, values[lines[i]], case.limits[i], made.us[step][i])
        chosen = condition.value(passing)
        verdict = verdicts(condition, lines, case.limits, low, high)
        false, missed = shares(chosen, verdict)
        unknown = int((verdict == 0).sum())
        if false <= case.alpha:
            status = "OK"
            break
        scales = [
            distribution(Fraction(float(level)), sensitivity, made.privacy).scale
            for level, sensitivity in zip(levels, case.sensitivities, strict=True)
        ]
        if give_up and step + 1 < len(made.levels) and hopeless(
            condition, lines, case.limits, passing, values, scales,
            list(made.reach[-1]), list(made.us[-1]), case.alpha, made.privacy,
        ):  # fmt: skip
            break
    spent = float(last_levels.sum())
    return Studied(
        "gradual", status, chosen, spent, np.full(case.groups, spent), tuple(rows),
        false=false, missed=missed, unknown=unknown,
    )  # fmt: skip
