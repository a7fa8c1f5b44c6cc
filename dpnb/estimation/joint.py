"""Inference about exact values from the joint noise distribution of several estimates.

An estimate is the exact value plus X = A N, a known combination of independent noise, so the exact
value is est - X (docs/methods/bayes.md, theorems 4 and 9). Claims about one combination come from
the distribution of X, claims about the largest group from joint draws of X. Only for Gaussian noise
is this also the exact posterior under a flat prior (docs/methods/bayes.md, error 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpnb.errors import RequestError, given
from dpnb.estimation.noise import Mixture, mixture
from dpnb.privacy.calibrate import NoiseDistribution

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float64]

Pair: TypeAlias = tuple[float, float]
Combination: TypeAlias = "int | Mapping[int, float] | Sequence[float] | Floats"
Operator: TypeAlias = Literal[">", ">=", "<", "<="]

DRAWS = 20_000
"""Joint draws for the largest group (docs/methods/bayes.md, theorem 10)."""
CHUNK = 1 << 22
"""How many numbers are drawn at once."""
_NO_SHARE = 1e-24
"""A weight with less than this share of the variance is a rounding error."""


def noise_variance(distribution: NoiseDistribution, granularity: float = 0.0) -> float:
    """Return the variance of a noise distribution.

    2 b^2 for Laplace, sigma^2 for Gaussian noise; Laplace noise on a lattice with spacing g has
    2 g^2 p / (1 - p)^2 with p = exp(-g/b) (docs/methods/bayes.md, definition 2).

    Examples
    --------
    >>> noise_variance(NoiseDistribution("laplace", 10.0))
    200.0
    """
    if distribution.family == "gaussian":
        return distribution.scale**2
    half = granularity / (2 * distribution.scale)
    if half > 300:
        raise RequestError(
            "The noise is much smaller than the step of its lattice", "Use a finer lattice."
        )
    return 2 * (distribution.scale * (half / math.sinh(half) if half > 0 else 1.0)) ** 2


def simulated(
    distributions: Sequence[NoiseDistribution],
    granularities: Sequence[float],
    draws: int,
    seed: int,
) -> Iterator[Floats]:
    """Yield draws of independent noise in arrays of shape (some, m), ``draws`` rows in total.

    They serve only to find distributions of statistics, never to release a value. Laplace noise on
    a lattice with spacing g is g times the difference of two geometric numbers
    (docs/methods/bayes.md, definition 2).
    """
    import numpy as np

    random = np.random.default_rng(seed)
    scale = np.array([distribution.scale for distribution in distributions], dtype=np.float64)
    step = np.array(granularities, dtype=np.float64)
    smooth = np.array(
        [distribution.family == "gaussian" for distribution in distributions], dtype=bool
    )
    plain, lattice = ~smooth & (step == 0), ~smooth & (step > 0)
    success = -np.expm1(-step[lattice] / scale[lattice])
    remaining = draws
    while remaining > 0:
        rows = min(remaining, max(CHUNK // max(len(distributions), 1), 1))
        noise = np.empty((rows, len(distributions)))
        noise[:, smooth] = random.standard_normal((rows, smooth.sum())) * scale[smooth]
        noise[:, plain] = random.laplace(size=(rows, plain.sum())) * scale[plain]
        if lattice.any():
            ups, downs = random.geometric(success, (2, rows, len(success)))
            noise[:, lattice] = (ups - downs) * step[lattice]
        yield noise
        remaining -= rows


def snapped(low: float, high: float) -> Pair:
    """Return the ends of an interval for a whole number, moved inward to whole numbers.

    Theorem 9 of docs/methods/bayes.md.

    The coverage stays the same, because both intervals contain the same whole numbers. If there are
    none, both ends are the whole number next to the middle.

    Examples
    --------
    >>> snapped(13.07, 70.96)
    (14.0, 70.0)
    """
    slack = 1e-9 * max(1.0, abs(low), abs(high)) if math.isfinite(high - low) else 0.0
    first = math.ceil(low - slack) if math.isfinite(low) else low
    last = math.floor(high + slack) if math.isfinite(high) else high
    if first > last:
        first = last = round((low + high) / 2)
    return float(first), float(last)


def compared(distribution: Mixture, operator: Operator, above: float) -> float:
    """Return the probability that a comparison of an exact value is true, under a flat prior.

    The exact value is est - X for a symmetric X. Without noise it equals est, so > and >= differ.

    Parameters
    ----------
    distribution : Mixture
        Distribution of X.
    operator : {'>', '>=', '<', '<='}
    above : float
        The estimate minus the number.

    Examples
    --------
    >>> compared(Mixture((), 0.0), ">", 0.0), compared(Mixture((), 0.0), ">=", 0.0)
    (0.0, 1.0)
    """
    if operator == ">":
        return distribution.tail(-above)
    if operator == ">=":
        return distribution.cdf(above)
    return distribution.tail(above) if operator == "<" else distribution.cdf(-above)


def _level(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise RequestError(
            f"alpha must be between 0 and 1, got {given(alpha)}", "Use 0.05 for 95 %."
        )


@dataclass(frozen=True, slots=True)
class Quantity:
    """An estimate of a number computed from several exact values, with its confidence interval.

    Attributes
    ----------
    value : float
        NaN if it is not defined, such as a ratio to 0.
    low, high : float
        Equal-tailed ends; infinite if there is no bound.
    confidence : float

    Examples
    --------
    >>> answer = session.query("SELECT job, COUNT(*) AS n FROM people GROUP BY job", rho=0.1)
    >>> inference = session.infer("SELECT job, COUNT(*) AS n FROM people GROUP BY job")
    >>> ratio = inference.ratio("cook", "nurse")
    >>> ratio.low < ratio.value < ratio.high
    True
    """

    value: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint distribution of several estimates from the same noisy answers.

    Attributes
    ----------
    estimates : float array, shape (g,)
        NaN if answers are only planned.
    weights : float array, shape (g, m)
        A: the estimates are A y, their errors A N.
    distributions : tuple of NoiseDistribution, length m
    granularities : tuple of float, length m
        Spacings of the lattices of the answers, 0 for none.
    names : tuple of str, length m
        Names of the rows.
    """

    estimates: Floats
    weights: Floats
    distributions: tuple[NoiseDistribution, ...]
    granularities: tuple[float, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.estimates)

    @cached_property
    def gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        return all(distribution.family == "gaussian" for distribution in self.distributions)

    @cached_property
    def used(self) -> frozenset[str]:
        """Names of the releases that have a weight in an estimate."""
        import numpy as np

        parts = self.weights**2 * self.variances
        weighted = np.any(parts > _NO_SHARE * parts.sum(axis=1, keepdims=True), axis=0)
        pairs = zip(self.names, weighted, strict=True)
        return frozenset(name.rpartition("/")[0] for name, weight in pairs if weight)

    @cached_property
    def variances(self) -> Floats:
        """Noise variances of the answers, shape (m,)."""
        import numpy as np

        pairs = zip(self.distributions, self.granularities, strict=True)
        return np.array([noise_variance(*pair) for pair in pairs])

    @cached_property
    def _steps(self) -> Floats:
        import numpy as np

        return np.array(self.granularities)

    def distribution(self, combination: Combination | None = None) -> Mixture:
        """Return the distribution of the error of an estimate, or of a combination of them.

        Parameters
        ----------
        combination : int, mapping of int to float, or floats, shape (g,)
            Which estimate, or the coefficients of some or all; optional if there is only one.
        """
        return self._distribution(self._combined(combination))

    def _combined(self, combination: Combination | None) -> Floats:
        """Return coefficients of the estimates, shape (g,)."""
        import numpy as np

        if combination is None:
            if len(self) != 1:
                raise RequestError(
                    f"There are {len(self)} estimates", "Name one, or give coefficients."
                )
            combination = 0
        if isinstance(combination, (int, np.integer)):
            combination = {int(combination): 1.0}
        if isinstance(combination, Mapping):
            vector = np.zeros(len(self))
            for place, coefficient in combination.items():
                if not -len(self) <= place < len(self):
                    raise RequestError(
                        f"There is no estimate {place}", f"There are {len(self)}, counted from 0."
                    )
                vector[place] += coefficient
            return vector
        coefficients = np.asarray(combination, dtype=np.float64)
        if coefficients.shape != (len(self),) or not np.isfinite(coefficients).all():
            raise RequestError(
                f"There must be {len(self)} finite coefficients",
                "Give one number for each estimate.",
            )
        return coefficients

    def _distribution(self, coefficients: Floats) -> Mixture:
        import numpy as np

        weights = coefficients @ self.weights
        if self.gaussian:
            # a sum of Gaussian terms is one Gaussian term
            variance = float(weights**2 @ self.variances)
            widest = float(np.max(np.abs(weights) * self._steps, initial=0.0))
            if variance == 0:
                return mixture([], [], [])
            spread = math.sqrt(variance)
            return mixture([1.0], [NoiseDistribution("gaussian", spread)], [widest])
        places = np.flatnonzero(weights)
        return mixture(
            [float(weights[i]) for i in places],
            [self.distributions[i] for i in places],
            [self.granularities[i] for i in places],
        )

    def estimate(self, combination: Combination | None = None) -> float:
        """Return an estimate, or a combination of them."""
        return float(self._combined(combination) @ self.estimates)

    def covariance(self) -> Floats:
        """Return the covariance of the errors, shape (g, g)."""
        product = self.weights * self.variances @ self.weights.T
        symmetric: Floats = (product + product.T) / 2
        return symmetric

    def margin_of_error(self, i: int, alpha: float) -> float:
        """Return h with P(|error of estimate i| > h) <= ``alpha``: the ends are estimate -+ h."""
        _level(alpha)
        return self.distribution(i).margin_of_error(alpha)

    def interval(self, i: int, alpha: float) -> Pair:
        """Return the narrowest confidence interval of exact value i, pointwise at ``alpha``."""
        half = self.margin_of_error(i, alpha)
        return float(self.estimates[i]) - half, float(self.estimates[i]) + half

    def confidence(self, i: int, half: float) -> float:
        """Return P(|error of estimate i| <= ``half``) for a margin of error of at least 0."""
        if not half >= 0:
            raise RequestError(
                f"A margin of error must not be negative, got {given(half)}",
                "Use a positive number.",
            )
        return self.distribution(i).confidence(half)

    def probability(self, i: int, operator: Operator, value: float) -> float:
        """Return the probability that a comparison of exact value i is true, under a flat prior.

        It is also 1 minus the p-value of the opposite claim (docs/methods/bayes.md, theorem 9).

        Parameters
        ----------
        i : int
        operator : {'>', '>=', '<', '<='}
        value : float
        """
        if operator not in (">", ">=", "<", "<="):
            raise RequestError(f"There is no comparison {given(operator)}", "Use >, >=, < or <=.")
        return compared(self.distribution(i), operator, float(self.estimates[i]) - value)

    def between(self, i: int, low: float, high: float) -> float:
        """Return the probability that exact value i lies in [low, high], under a flat prior."""
        if not low <= high:
            raise RequestError(
                f"The lower end {given(low)} is above the upper end {given(high)}", "Swap them."
            )
        distribution, estimate = self.distribution(i), float(self.estimates[i])
        return max(
            compared(distribution, ">=", estimate - low)
            - compared(distribution, ">", estimate - high),
            0.0,
        )

    def bonferroni(self, i: int, alpha: float, looks: int) -> float:
        """Return the margin of error of estimate i, one of ``looks`` displayed estimates."""
        if looks < 1:
            raise RequestError(
                f"looks must be at least 1, got {given(looks)}", "Count the displayed estimates."
            )
        _level(alpha)
        return self.margin_of_error(i, alpha / looks)

    def variance_shares(self, i: int) -> list[tuple[str, float, float]]:
        """Return the contribution of each answer to estimate i: (name, weight, share of variance).

        Shares are A_i^2 v_i / variance, largest first (docs/methods/bayes.md, theorem 7); answers
        without weight are left out.
        """
        weights = self.weights[i]
        parts = weights**2 * self.variances
        total = float(parts.sum())
        shares = [
            (name, float(weight), float(part) / total)
            for name, weight, part in zip(self.names, weights, parts, strict=True)
            if part > _NO_SHARE * total
        ]
        return sorted(shares, key=lambda share: -share[2])

    # joint draws

    def draws(self, n: int = DRAWS, seed: int = 0) -> Floats:
        """Return joint draws of the exact values under a flat prior, shape (n, g).

        All Gaussian noise enters as one joint normal, Laplace noise answer by answer.
        """
        import numpy as np

        laplace = np.array(
            [distribution.family == "laplace" for distribution in self.distributions], dtype=bool
        )
        laplace &= (self.weights != 0).any(axis=0)
        smooth = np.array(
            [distribution.family == "gaussian" for distribution in self.distributions], dtype=bool
        )
        samples = np.broadcast_to(self.estimates, (n, len(self))).copy()
        if smooth.any():
            part = self.weights[:, smooth]
            values, vectors = np.linalg.eigh(part * self.variances[smooth] @ part.T)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            unit = [NoiseDistribution("gaussian", 1.0)] * len(self)
            noise = np.concatenate(list(simulated(unit, [0.0] * len(self), n, seed)))
            samples -= noise @ root.T
        if laplace.any():
            places = np.flatnonzero(laplace)
            start = 0
            for noise in simulated(
                [self.distributions[i] for i in places],
                [self.granularities[i] for i in places],
                n,
                seed + 1,
            ):
                samples[start : start + len(noise)] -= noise @ self.weights[:, places].T
                start += len(noise)
        return samples

    def quantiles(
        self, function: Callable[[Floats], Floats], alpha: float, n: int = DRAWS, seed: int = 0
    ) -> Pair:
        """Return the equal-tailed interval of a function of the exact values, by joint draws.

        Parameters
        ----------
        function : callable
            From draws, shape (n, g), to numbers, shape (n,).
        alpha : float
        n, seed : int
            As in :meth:`draws`.
        """
        import numpy as np

        _level(alpha)
        low, high = np.quantile(function(self.draws(n, seed)), [alpha / 2, 1 - alpha / 2])
        return float(low), float(high)

    def difference(self, i: int, j: int, alpha: float = 0.05) -> Quantity:
        """Return value i minus value j, from the exact distribution of its error."""
        return self._linear({i: 1.0, j: -1.0} if i != j else {i: 0.0}, alpha)

    def _linear(self, combination: Combination, alpha: float) -> Quantity:
        _level(alpha)
        value, half = (
            self.estimate(combination),
            self.distribution(combination).margin_of_error(alpha),
        )
        return Quantity(value, value - half, value + half, 1 - alpha)

    def slope(
        self, xs: Sequence[float], places: Sequence[int] | None = None, alpha: float = 0.05
    ) -> Quantity:
        """Return the slope of the least-squares line through values over ``xs``.

        It comes from the exact distribution of its error.

        Parameters
        ----------
        xs : floats, shape (k,)
            Not all equal.
        places : ints, shape (k,)
            Which estimates; all by default.
        alpha : float
        """
        import numpy as np

        x = np.asarray(xs, dtype=np.float64)
        chosen = range(len(self)) if places is None else places
        if x.shape != (len(chosen),) or not np.isfinite(x).all() or x.min() == x.max():
            raise RequestError(
                "A slope needs at least two different x values", "Give one for each estimate."
            )
        centred = x - x.mean()
        line = centred / (centred @ centred)
        return self._linear(dict(zip(chosen, line.tolist(), strict=True)), alpha)

    def argmax(
        self, places: Sequence[int] | None = None, n: int = DRAWS, seed: int = 0
    ) -> list[float]:
        """Return the probability that each exact value is the largest, by joint draws.

        Parameters
        ----------
        places : ints, shape (k,)
            Which estimates; all by default.
        n, seed : int
            As in :meth:`draws`.
        """
        import numpy as np

        chosen = range(len(self)) if places is None else places
        first = np.argmax(self.draws(n, seed)[:, list(chosen)], axis=1)
        return [float(share) for share in np.bincount(first, minlength=len(chosen)) / n]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (JSON); planned estimates are None, weights [place, weight] pairs."""
        import numpy as np

        sparse = [
            [[int(place), float(row[place])] for place in np.flatnonzero(row)]
            for row in self.weights
        ]
        return {
            "estimates": [None if math.isnan(x) else x for x in self.estimates.tolist()],
            "weights": sparse,
            "distributions": [distribution.to_dict() for distribution in self.distributions],
            "granularities": list(self.granularities),
            "names": list(self.names),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Joint:
        """Build a joint distribution from :meth:`to_dict`."""
        import numpy as np

        estimates = [math.nan if x is None else float(x) for x in data["estimates"]]
        distributions = tuple(
            NoiseDistribution.from_dict(distribution) for distribution in data["distributions"]
        )
        weights = np.zeros((len(estimates), len(distributions)))
        for row, pairs in zip(weights, data["weights"], strict=True):
            for place, weight in pairs:
                row[place] = weight
        return cls(
            np.array(estimates),
            weights,
            distributions,
            tuple(map(float, data["granularities"])),
            tuple(data["names"]),
        )
