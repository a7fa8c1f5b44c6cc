"""Prior knowledge about a number, updated with noisy answers.

The posterior is the prior times the density of est - theta, normalised (Xiao and Xiong, section 3;
docs/methods/bayes.md, definition 16). A prior must come from public knowledge: a prior built from
the data must be charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import RequestError, given
from dpnb.estimation.joint import Operator, compared
from dpnb.estimation.noise import Mixture, densities, tails

if TYPE_CHECKING:
    import numpy as np

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

LEAST = 1e-9
"""If prior and answers agree less than this, they contradict each other."""
CELLS = 200
"""Bins of the grid per standard deviation."""
MOST_CELLS = 200_000
_FAR = 1e-12
"""Probability of the noise outside the grid, at most."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Prior: uniform from ``low`` to ``high``, in units of the query."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class NonNegative:
    """Prior: not negative, and nothing else is known."""


@dataclass(frozen=True, slots=True)
class AtMost:
    """Prior: between 0 and ``total``, a public number, and nothing else is known."""

    total: float


@dataclass(frozen=True, slots=True)
class Normal:
    """Prior: normal with this mean and standard deviation, in units of the query."""

    mean: float
    sd: float


Prior: TypeAlias = (
    Uniform | NonNegative | AtMost | Normal | Mapping[float, float] | Callable[[float], float]
)
"""A mapping gives probabilities of single values; a callable gives a density, up to a factor."""


@dataclass(frozen=True, slots=True, eq=False)
class Updated:
    """The posterior under a prior, as masses on a grid.

    Attributes
    ----------
    points : float64 array, shape (n,)
        Increasing: single values, or the middles of bins.
    masses : float64 array, shape (n,)
        Probabilities, which add up to 1.
    width : float
        Width of a bin, in units of the query; 0 for single values.
    """

    points: Floats
    masses: Floats
    width: float
    _estimate: float
    _distribution: Mixture
    _bounds: tuple[float, float] | None

    @property
    def mean(self) -> float:
        """Expected value."""
        return float(self.points @ self.masses)

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return math.sqrt(float((self.points - self.mean) ** 2 @ self.masses))

    def probability(self, low: float = -math.inf, high: float = math.inf) -> float:
        """Return P(low <= theta <= high); a bin counts by the part that lies within."""
        import numpy as np

        if not self.width:
            inside = (self.points >= low) & (self.points <= high)
            return float(self.masses[inside].sum())
        left, right = self.points - self.width / 2, self.points + self.width / 2
        part = np.clip(np.minimum(right, high) - np.maximum(left, low), 0, self.width) / self.width
        return float(part @ self.masses)

    def compared(self, operator: Operator, number: float) -> float:
        """Return the probability that a comparison of theta with a number is true.

        Under :class:`NonNegative` and :class:`AtMost`: 0 or 1 if the bounds decide it, else the
        probability without the prior, which is a one-sided p-value. The truncated posterior gives
        no p-value: theta = 0 has no density, so a true "at most 0" would always be rejected.
        """
        if self._bounds is not None:
            low, high = self._bounds
            least, most = (
                (number < low, number >= high)
                if operator in (">", "<=")
                else (number <= low, number > high)
            )
            if least or most:
                return float(least == operator.startswith(">"))
            return compared(self._distribution, operator, self._estimate - number)
        if operator in (">=", "<="):
            ends = {"low": number} if operator == ">=" else {"high": number}
            return self.probability(**ends)
        return 1 - self.compared("<=" if operator == ">" else ">=", number)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return an interval of probability at least 1 - ``alpha``.

        Under a prior with more than bounds it is a credible interval: from the least to the
        greatest of the most likely points that together reach 1 - ``alpha``. It is the narrowest
        one if the posterior has one peak.

        Under :class:`NonNegative` and :class:`AtMost` it is the confidence interval without the
        prior, est -+ margin of error, cut to the bounds. The cut never lowers the coverage. The
        narrowest interval of the truncated posterior would: at nominal 95 % it covers 94.3 % at
        theta = 4 sd, and an equal-tailed one never covers theta = 0 (docs/methods/bayes.md,
        definition 16).
        """
        import numpy as np

        if self._bounds is not None:
            half = self._distribution.margin_of_error(alpha)
            low, high = self._bounds
            return (
                min(max(self._estimate - half, low), high),
                min(max(self._estimate + half, low), high),
            )
        order = np.argsort(-self.masses, kind="stable")
        cumulative = np.cumsum(self.masses[order])
        count = int(np.searchsorted(cumulative, (1 - alpha) * (1 - 1e-12))) + 1
        chosen = self.points[order[:count]]
        return float(chosen.min()) - self.width / 2, float(chosen.max()) + self.width / 2


def update(
    prior: Prior, estimate: float, distribution: Mixture, *, integer: bool = False
) -> Updated:
    """Return the posterior of theta, given a prior and an estimate = theta + noise.

    Parameters
    ----------
    prior : Uniform, NonNegative, AtMost, Normal, mapping or callable
    estimate : float
        In units of the query.
    distribution : Mixture
        Distribution of the noise, with standard deviation > 0.
    integer : bool
        Whether theta is a whole number: the grid is the integers, thinned to sd / 200 if they are
        closer than that. The grid of a mapping is always its own values.

    Raises
    ------
    RequestError
        If the prior is malformed, or contradicts the answers: the largest product of its relative
        density and P(noise at least as large as needed) is below :data:`LEAST`.

    Examples
    --------
    >>> found = update(Uniform(0, 50), 3.0, Mixture((2.0,), 0.0), integer=True)
    >>> round(found.probability(high=2), 6)
    0.320281
    """
    import numpy as np

    if not distribution.sd:
        raise RequestError(
            "a prior changes nothing here: the estimate has no noise", "Leave the prior out."
        )
    low, high = _checked(prior)
    points, width = _points(prior, low, high, estimate, distribution, integer=integer)
    weights = _weights(prior, points, width, low, high)
    offsets = estimate - points
    agreement = 0.0
    if len(points) and weights.max() > 0:
        two_sided = 2 * tails(distribution, np.abs(offsets))
        agreement = float((weights / weights.max() * np.minimum(two_sided, 1.0)).max())
    if width and not isinstance(prior, Normal):
        # integrate over each bin exactly, because the noise density may have a kink within it
        left = np.maximum(points - width / 2, low)
        right = np.minimum(points + width / 2, high)
        likelihood = np.maximum(
            tails(distribution, estimate - right) - tails(distribution, estimate - left), 0.0
        )
    else:
        likelihood = densities(distribution, offsets)
    product = weights * likelihood
    total = float(product.sum())
    if agreement < LEAST or not total > 0:
        raise RequestError(
            f"the prior contradicts the answers: under it, {estimate:.6g} with noise of standard "
            f"deviation {distribution.sd:.3g} is practically impossible",
            "Check the prior's numbers and units, or leave it out.",
        )
    bounds = (low, high) if isinstance(prior, (NonNegative, AtMost)) else None
    return Updated(points, product / total, width, estimate, distribution, bounds)


def _checked(prior: Prior) -> tuple[float, float]:
    """Check a prior; return the least and the greatest value that it allows."""
    if isinstance(prior, NonNegative):
        return 0.0, math.inf
    if isinstance(prior, AtMost):
        if not 0 < prior.total < math.inf:
            raise RequestError(
                f"a total must be above 0, got {given(prior.total)}", "Write AtMost(1000)."
            )
        return 0.0, prior.total
    if isinstance(prior, Uniform):
        if not -math.inf < prior.low < prior.high < math.inf:
            raise RequestError(
                "a uniform prior needs two finite numbers, the lower one first",
                "Write Uniform(0, 1000).",
            )
        return prior.low, prior.high
    if isinstance(prior, Normal):
        if not (math.isfinite(prior.mean) and 0 < prior.sd < math.inf):
            raise RequestError(
                "a normal prior needs a finite mean and a standard deviation above 0",
                "Write Normal(100, 20).",
            )
    elif isinstance(prior, Mapping):
        positive = [p for p in prior.values() if p > 0]
        numbers = (*prior.keys(), *prior.values())
        if (
            not positive
            or len(positive) < sum(p != 0 for p in prior.values())
            or not all(math.isfinite(number) for number in numbers)
        ):
            raise RequestError(
                "a prior as a dict needs finite values and probabilities of at least 0, not all 0",
                "Write {0: 0.5, 10: 0.5}.",
            )
    elif not callable(prior):
        raise RequestError(
            f"a prior cannot be {given(prior)}",
            "Give Uniform, NonNegative, AtMost, Normal, a dict of probabilities, or a function.",
        )
    return -math.inf, math.inf


def _points(
    prior: Prior, low: float, high: float, estimate: float, distribution: Mixture, *, integer: bool
) -> tuple[Floats, float]:
    """Return the grid and the width of its bins, 0 for single values."""
    import numpy as np

    if isinstance(prior, Mapping):
        return np.array(sorted(prior), dtype=np.float64), 0.0
    spread = distribution.sd
    reach = distribution.margin_of_error(_FAR)
    low, high = max(low, estimate - reach), min(high, estimate + reach)
    if isinstance(prior, Normal):
        spread = min(spread, prior.sd)
        low, high = max(low, prior.mean - 10 * prior.sd), min(high, prior.mean + 10 * prior.sd)
    if low >= high:
        return np.empty(0), 0.0
    step = max(min(spread, high - low) / CELLS, (high - low) / MOST_CELLS)
    if integer:
        stride = max(1, int(step))
        return np.arange(math.ceil(low), math.floor(high) + 1, stride, dtype=np.float64), 0.0
    count = max(1, math.ceil((high - low) / step))
    step = (high - low) / count
    middles: Floats = low + (np.arange(count, dtype=np.float64) + 0.5) * step
    return middles, step


def _weights(prior: Prior, points: Floats, width: float, low: float, high: float) -> Floats:
    """Return the prior at each point, up to a common factor."""
    import numpy as np

    if isinstance(prior, Mapping):
        return np.array([prior[point] for point in sorted(prior)], dtype=np.float64)
    if isinstance(prior, Normal):
        z = (points - prior.mean) / prior.sd
        return np.asarray(np.exp(-z * z / 2))
    if isinstance(prior, (Uniform, NonNegative, AtMost)):
        return np.ones_like(points)
    values = np.array([float(prior(float(point))) for point in points])
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise RequestError(
            "the prior's function returned a value that is negative or not a number",
            "It must return a finite number of at least 0 for every number.",
        )
    return values


def read_prior(data: object) -> Uniform | NonNegative | AtMost | Normal:
    """Build a prior from the data of :func:`plain_prior`.

    Raises
    ------
    RequestError
    """
    hint = "Write 'nonnegative', {'at most': 1000}, {'uniform': [0, 50]} or {'normal': [100, 20]}."
    if isinstance(data, str) and data == "nonnegative":
        return NonNegative()
    if isinstance(data, Mapping) and len(data) == 1:
        ((word, numbers),) = data.items()
        parameters = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
        kinds = {"at most": (AtMost, 1), "uniform": (Uniform, 2), "normal": (Normal, 2)}
        kind, length = kinds.get(word, (AtMost, -1)) if isinstance(word, str) else (AtMost, -1)
        valid = all(
            isinstance(n, (int, float)) and not isinstance(n, bool) and -(10**30) < n < 10**30
            for n in parameters
        )
        if len(parameters) == length and valid:
            prior: Any = kind(*map(float, parameters))
            _checked(prior)
            return prior  # type: ignore[no-any-return]
    raise RequestError("this prior is not known", hint)


def plain_prior(prior: object) -> object:
    """Return a prior as plain data (JSON); anything else stays as it is."""
    if isinstance(prior, NonNegative):
        return "nonnegative"
    if isinstance(prior, AtMost):
        return {"at most": prior.total}
    if isinstance(prior, Uniform):
        return {"uniform": [prior.low, prior.high]}
    if isinstance(prior, Normal):
        return {"normal": [prior.mean, prior.sd]}
    return prior


def prior_text(prior: object) -> str:
    """Return a prior, given as plain data, in words."""
    belief = read_prior(prior)
    if isinstance(belief, NonNegative):
        return "not negative"
    if isinstance(belief, AtMost):
        return f"between 0 and {belief.total:,g}"
    if isinstance(belief, Uniform):
        return f"anywhere between {belief.low:,g} and {belief.high:,g}"
    return f"normal with mean {belief.mean:,g} and standard deviation {belief.sd:,g}"
