"""Approximate confidence intervals of means and formulas, by resampling released values.

Algorithm 15 of docs/methods/estimation.md.

The random generator is numpy's. It draws on released values, so it hides nothing and its quality
does not affect privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.codes import scalar
from dpnb.errors import RequestError, given
from dpnb.estimation.estimates import cut
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.private import Stamp
from dpnb.results import Documented
from dpnb.schema.partition import Label
from dpnb.sql.formulas import Applied, Combined, Constant, Formula, Leaf, statistics_of
from dpnb.sql.functions import Function

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from dpnb.answers.answer import Answer
    from dpnb.estimation.estimates import Estimates

    Draws: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

MAX_DRAWS = 100_000
_NORMAL = NormalDist()
_CELLS = 2**18
"""Largest number of resampled values in memory, for each released vector."""


@dataclass(frozen=True, slots=True, repr=False)
class Bootstrap(Documented):
    """Approximate confidence intervals of one result, by shown group. Never used for verdicts.

    Attributes
    ----------
    alias : str
    keys : tuple of str
        Names of the group columns.
    groups : tuple of tuples
    estimate, low, high : tuple of float or None
        None where there are too few rows to tell.
    confidence : float
        Nominal; for each interval on its own.
    draws : int
    stamp, conditional
        As in an Answer.

    Examples
    --------
    >>> answer = session.query("SELECT AVG(wage) AS wage FROM people", rho=0.1)
    >>> list(answer.bootstrap().to_frame())
    ['wage', 'wage_low', 'wage_high']
    """

    card = "bootstrap.BOOTSTRAP"

    alias: str
    keys: tuple[str, ...]
    groups: tuple[tuple[Label, ...], ...]
    estimate: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    confidence: float
    draws: int
    stamp: Stamp
    conditional: bool

    def to_frame(self) -> pd.DataFrame:
        """Return key columns, then alias, alias_low and alias_high; NaN for missing values.

        Returns
        -------
        pandas.DataFrame
            One row for each shown group.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            key: [group[i] for group in self.groups] for i, key in enumerate(self.keys)
        }
        names = (self.alias, f"{self.alias}_low", f"{self.alias}_high")
        for name, values in zip(names, (self.estimate, self.low, self.high), strict=True):
            columns[name] = [float("nan") if value is None else value for value in values]
        return pd.DataFrame(columns)


def bootstrap(answer: Answer, alias: str | None, draws: object, seed: object) -> Bootstrap:
    """Resample the released values behind one result; see :meth:`Answer.bootstrap`.

    DPXPlain, appendix C.5, Algorithm 7, with the indices of its lines 9 and 10 corrected
    (docs/methods/estimation.md, algorithm 15): bias-corrected percentiles. With theta*_b =
    f(released + fresh noise), z0 = Phi^-1(share of theta*_b below f(released)); the ends are the
    quantiles of theta* at Phi(2 z0 + Phi^-1((1 -+ confidence) / 2)).
    """
    from numpy.random import default_rng

    if answer.branches:
        raise RequestError(
            "an answer to several statements cannot be resampled",
            "Resample one of answer.branches.",
        )
    estimates = _resampled(answer, alias)
    if estimates.plain and estimates.function is not Function.FORMULA:
        raise RequestError(
            f"{estimates.alias!r} combines past answers with different noise, so it cannot be resampled",
            "Use its confidence interval, or ask with history=False.",
        )
    count = _whole(draws, "draws", 100, MAX_DRAWS)
    generator = default_rng(_whole(seed, "seed", 0, 2**63))
    values = estimates.uncut.estimate
    rows = [row for row in answer.rows if values[row] is not None]
    ends: dict[int, tuple[float, float]] = {}
    step = max(1, _CELLS // count)
    for start in range(0, len(rows), step):
        chunk = rows[start : start + step]
        thetas = _thetas(estimates, chunk, count, generator)
        for place, row in enumerate(chunk):
            pair = _percentiles(thetas[:, place], values[row] or 0.0, answer.confidence)
            if pair is not None:
                ends[row] = cut(pair, estimates.possible_of(row))
    return Bootstrap(
        alias=estimates.alias,
        keys=answer.grouped,
        groups=tuple(answer.groups[row] for row in answer.rows),
        estimate=tuple(
            _inside(values[row], estimates.possible_of(row)) if row in ends else None
            for row in answer.rows
        ),
        low=tuple(ends[row][0] if row in ends else None for row in answer.rows),
        high=tuple(ends[row][1] if row in ends else None for row in answer.rows),
        confidence=answer.confidence,
        draws=count,
        stamp=answer.stamp,
        conditional=answer.conditional,
    )


def _inside(value: float | None, possible: tuple[float, float]) -> float | None:
    return None if value is None else min(max(value, possible[0]), possible[1])


def _resampled(answer: Answer, alias: str | None) -> Estimates:
    """Return the result to resample: the named one, else the first formula or AVG."""
    candidates = [
        output
        for output in answer.estimates
        if output.function in (Function.FORMULA, Function.AVG) and not _has_statistics(output)
    ]
    if alias is not None or not candidates:
        choice = answer.estimates_of(alias)
        if choice.function not in (Function.FORMULA, Function.AVG):
            raise RequestError(
                f"the confidence interval of {choice.alias!r} is already exact",
                "Resample an AVG or a formula.",
            )
        if _has_statistics(choice):
            raise RequestError(
                f"{choice.alias!r} has a variance or a quantile, which cannot be resampled",
                "Use its confidence interval.",
            )
        return choice
    return candidates[0]


def _has_statistics(estimates: Estimates) -> bool:
    return estimates.formula is not None and bool(statistics_of(estimates.formula))


def _whole(value: object, name: str, least: int, most: int) -> int:
    number = scalar(value)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise RequestError(
            f"{name} must be a whole number from {least:,} to {most:,}, got {given(value)}",
            f"Write {name}={max(least, 1_000)}.",
        )
    return number


def _thetas(
    estimates: Estimates, rows: Sequence[int], count: int, generator: np.random.Generator
) -> Draws:
    """Return the result of ``count`` resamples, of shape (count, rows)."""
    import numpy as np

    leaves = estimates.leaves or (estimates,)
    formula: Formula = Leaf(0) if estimates.formula is None else estimates.formula
    resamples: dict[tuple[tuple[float, ...], NoiseDistribution], Draws] = {}

    def noisy(
        values: tuple[float, ...] | None, distribution: NoiseDistribution | None
    ) -> Draws | None:
        if values is None or distribution is None:
            return None
        # one released vector may serve two leaves; its noise is the same in both
        if (values, distribution) not in resamples:
            sample = generator.normal if distribution.family == "gaussian" else generator.laplace
            centre = np.array([values[row] for row in rows])
            resamples[values, distribution] = centre + sample(
                0.0, distribution.scale, (count, len(centre))
            )
        return resamples[values, distribution]

    with np.errstate(all="ignore"):
        samples = [
            _leaf(
                leaf,
                noisy(leaf.total, leaf.total_distribution),
                noisy(leaf.count, leaf.count_distribution),
            )
            for leaf in leaves
        ]
        return _applied(formula, samples)


def _leaf(leaf: Estimates, total: Draws | None, count: Draws | None) -> Draws:
    """Return an aggregate of resampled vectors as in :func:`dpnb.estimation.estimates.estimate`."""
    import numpy as np

    if total is not None and count is not None:
        return np.where(count > 0, leaf.middle + total / count, np.nan)
    draws = count if total is None else total
    if draws is None:
        raise TypeError("an aggregate has a released vector")
    return draws


def _applied(formula: Formula, leaves: Sequence[Draws]) -> Draws:
    import numpy as np

    if isinstance(formula, Leaf):
        return leaves[formula.place]
    if isinstance(formula, Constant):
        return np.full_like(leaves[0], float(formula.value))
    if isinstance(formula, Applied):
        inner = _applied(formula.argument, leaves)
        work: Any = {"EXP": np.exp, "LN": np.log, "SQRT": np.sqrt}[formula.function]
        result: Draws = work(inner)
        return result
    if not isinstance(formula, Combined):
        raise TypeError("statistics are not resampled")
    left, right = _applied(formula.left, leaves), _applied(formula.right, leaves)
    operation = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[formula.operator]
    combined: Draws = operation(left, right)
    return combined


def _percentiles(thetas: Draws, value: float, confidence: float) -> tuple[float, float] | None:
    """Return the bias-corrected percentiles; None if the formula is often undefined."""
    import numpy as np

    finite_thetas = thetas[np.isfinite(thetas)]
    if len(finite_thetas) < 0.95 * len(thetas):
        return None
    share_below = (np.sum(finite_thetas < value) + np.sum(finite_thetas == value) / 2) / len(
        finite_thetas
    )
    least = 0.5 / len(finite_thetas)
    shift = 2 * _NORMAL.inv_cdf(min(max(float(share_below), least), 1 - least))
    levels = [_NORMAL.cdf(shift + _NORMAL.inv_cdf((1 + sign * confidence) / 2)) for sign in (-1, 1)]
    low, high = np.quantile(finite_thetas, levels)
    return float(low), float(high)
