"""Study modes: the published methods as simulations, for data that are declared public.

ProBE (Lahjouji, Ghayyur, He, Mehrotra, arXiv:2406.15655) and the methods it is compared with;
algorithms are numbered as in docs/methods/probe.md. Noise is continuous and drawn by a numpy
Generator, so nothing here protects anybody: decisions about private data use
:mod:`dpnb.decide.progressive`.

Inputs and results are in :mod:`dpnb.studies.cases`.

- 'naive', 'probe', 'probe-naive' and 'paper' run in one or two phases: :mod:`dpnb.studies.probe`.
- 'ppwlm', 'ddpwlm' and 'probe-ent' go level by level: :mod:`dpnb.studies.stepwise`.

The certified method is not a study mode; :mod:`dpnb.studies.gradual` simulates it for comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnb.studies.cases import Case, Mode, Studied
from dpnb.studies.probe import naive, two_phases
from dpnb.studies.stepwise import entropic, stepwise

if TYPE_CHECKING:
    from numpy.random import Generator


def generator(seed: int | None = None) -> Generator:
    """Return a source of simulated noise."""
    from numpy.random import default_rng

    return default_rng(seed)


def run(mode: Mode, case: Case, rng: Generator) -> Studied:
    """Decide by a published method.

    Parameters
    ----------
    mode : {'naive', 'probe', 'probe-naive', 'probe-ent', 'ppwlm', 'ddpwlm', 'paper'}
    case : Case
    rng : numpy.random.Generator
    """
    match mode:
        case "naive":
            return naive(case, rng)
        case "probe" | "probe-naive" | "paper":
            return two_phases(case, rng, mode)
        case "ppwlm" | "ddpwlm":
            return stepwise(case, rng, mode)
        case "probe-ent":
            return entropic(case, rng)
