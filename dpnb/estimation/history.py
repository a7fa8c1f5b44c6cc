"""The rows with noisy answers that inference may use, and joint estimates from them.

A row is an answer that a mechanism released with independent noise: raw, once, at full precision,
on one version of the table, with the distribution of its noise (docs/methods/bayes.md,
definition 5). An estimate has no such distribution, so it cannot become a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from dpnb.errors import RequestError, given
from dpnb.estimation.atoms import Support, support
from dpnb.estimation.blue import RowSpace
from dpnb.estimation.joint import Joint, noise_variance, simulated
from dpnb.privacy.calibrate import NoiseDistribution

if TYPE_CHECKING:
    from dpnb.estimation.atoms import Cells, Floats, Values
    from dpnb.estimation.blue import Solutions

ALARM = 0.999
"""Share of consistent histories that raise no alarm (docs/methods/bayes.md, definition 17)."""
WORK = 4e9
"""Most products for the simulation of the alarm threshold."""


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A linear query with its released answer, as the mechanism that drew the noise records it.

    Parameters
    ----------
    name : str
        Name of the release, unique in a history.
    index : range or ints, shape (k,)
        Bins with a value; stored as a range if consecutive, else as increasing ints.
    value : float or floats, shape (k,)
        Their values, finite, not all zero; stored as one number if all are equal.
    answer : float
        Sum of values times counts, plus noise; neither clipped nor rounded. Ignored if planned.
    distribution : NoiseDistribution
        Distribution of the noise.
    version : int
        Version of the table.
    granularity : float
        Spacing of the lattice that the answer lies on, in units of the answer; 0 for none.
    planned : bool
        True if it is not released yet: there is no answer, only the noise distribution.

    Raises
    ------
    RequestError
        If the row is empty or not finite, the answer is not finite, or the noise distribution is
        not supported.
    """

    name: str
    index: Cells
    value: Values
    answer: float
    distribution: NoiseDistribution
    version: int = 1
    granularity: float = 0.0
    planned: bool = False

    def __post_init__(self) -> None:
        sparse_row = support(1 << 62, self.index, self.value)
        if not sparse_row.count:
            raise RequestError(f"The measurement {self.name!r} has only zeros", "Leave it out.")
        if not isinstance(self.distribution, NoiseDistribution) or self.distribution.family not in (
            "gaussian",
            "laplace",
        ):
            raise RequestError(
                f"The noise distribution of {self.name!r} is not supported",
                "Only Gaussian and Laplace answers can be used.",
            )
        if not 0 < self.distribution.scale < math.inf:
            raise RequestError(
                f"The noise scale of {given(self.name)} must be positive and finite, got {given(self.distribution.scale)}",
                "Check the scale.",
            )
        if not 0 <= self.granularity < math.inf:
            raise RequestError(f"The lattice of {self.name!r} has no step", "Use 0 for none.")
        if self.planned:
            object.__setattr__(self, "answer", math.nan)
        elif not _is_number(self.answer):
            raise RequestError(
                f"The answer of {given(self.name)} must be a finite number, got {given(self.answer)}",
                "Mark rows without an answer as planned.",
            )
        object.__setattr__(self, "index", sparse_row.index)
        object.__setattr__(self, "value", sparse_row.value)

    @property
    def support(self) -> Support:
        """The row in its shortest form."""
        if isinstance(self.index, range):
            return Support(slice(self.index.start, self.index.stop), self.value)  # type: ignore[arg-type]
        return Support(self.index, self.value)  # type: ignore[arg-type]

    @property
    def sensitivity(self) -> float:
        """Largest absolute value: the most that one added or removed row of data can change.

        Definition 1 of docs/methods/bayes.md.
        """
        return self.support.largest

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        return noise_variance(self.distribution, self.granularity)


@dataclass(frozen=True, slots=True)
class Consistency:
    """Whether past answers contradict each other more than their noise explains.

    Definition 17 of docs/methods/bayes.md.

    Attributes
    ----------
    statistic : float
        Sum over rows of (answer - fitted)^2 / variance.
    expected : int
        Its mean: rows minus rank.
    threshold : float
        Value that consistent histories exceed with probability 0.001.
    """

    statistic: float
    expected: int
    threshold: float

    @property
    def alarmed(self) -> bool:
        """Whether something other than noise is likely.

        For example changed data, or an altered or repeated answer.
        """
        return self.statistic > self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain data (JSON); an infinite threshold is None."""
        return asdict(self) | {"threshold": self.threshold if self.expected else None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Consistency:
        """Build the check from :meth:`to_dict`."""
        threshold = data["threshold"]
        return cls(
            float(data["statistic"]),
            int(data["expected"]),
            math.inf if threshold is None else float(threshold),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """A row that would make a query estimable.

    Attributes
    ----------
    kind : {'query', 'part', 'complement'}
        The query itself, its part on bins that no row determines yet, or the total minus the query.
    index, value
        The row, as in :class:`Row`.
    sensitivity : float
    cells : int
        Number of bins it would charge.
    """

    kind: Literal["query", "part", "complement"]
    index: Cells
    value: Values
    sensitivity: float
    cells: int


class History:
    """The usable releases of one version of a table, in order.

    Parameters
    ----------
    cells : int
        Number of bins of the domain.
    version : int
        Version of the table; rows of other versions are refused.

    Examples
    --------
    >>> history = History.of([[1, 1, 0], [0, 1, 1]], [12.5, 17.0], NoiseDistribution("laplace", 1.0))
    >>> history.joint([history.row([1, 0, -1])]).estimates
    array([-4.5])
    """

    def __init__(self, cells: int, version: int = 1) -> None:
        self.space = RowSpace(cells)
        self.version = version
        self._rows: list[Row] = []
        self._names: set[str] = set()

    @classmethod
    def of(
        cls,
        matrix: Sequence[Sequence[float]] | Floats,
        answers: Sequence[float],
        distributions: Sequence[NoiseDistribution] | NoiseDistribution,
    ) -> History:
        """Build a history from a dense matrix.

        Parameters
        ----------
        matrix : floats, shape (m, cells)
        answers : floats, shape (m,)
        distributions : NoiseDistribution, or one for each row
        """
        import numpy as np

        dense = np.asarray(matrix, dtype=np.float64)
        history = cls(dense.shape[1])
        each = (
            [distributions] * len(dense)
            if isinstance(distributions, NoiseDistribution)
            else list(distributions)
        )
        cells = range(dense.shape[1])
        for place, (row, answer, distribution) in enumerate(zip(dense, answers, each, strict=True)):
            history.add(Row(f"row {place + 1}", cells, row, float(answer), distribution))
        return history

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def cells(self) -> int:
        """Number of bins of the domain."""
        return self.space.cells

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, in the order in which they were added."""
        return tuple(self._rows)

    def copy(self) -> History:
        """Return an independent copy, to try planned rows."""
        clone = History.__new__(History)
        clone.space, clone.version = self.space.copy(), self.version
        clone._rows, clone._names = list(self._rows), set(self._names)
        return clone

    def _admit(self, rows: Iterable[Row]) -> None:
        """Refuse rows that would make estimates wrong (docs/methods/bayes.md, definition 5)."""
        names: set[str] = set()
        for row in rows:
            if not isinstance(row, Row):
                raise RequestError(f"A history takes rows, got {type(row).__name__}", "Pass a Row.")
            if row.name in self._names or row.name in names:
                raise RequestError(
                    f"The release {row.name!r} is already in the history",
                    "Enter each release once: entered twice, it would look more certain than it is.",
                )
            if row.version != self.version:
                raise RequestError(
                    f"The release {row.name!r} is about version {row.version} of the data, "
                    f"but this history is about version {self.version}",
                    "Start a new history when the data change.",
                )
            if int(row.index[-1]) >= self.cells:
                raise RequestError(
                    f"The release {row.name!r} is about another domain",
                    "Check the number of cells.",
                )
            names.add(row.name)

    def add(self, row: Row) -> None:
        """Add one row.

        Raises
        ------
        RequestError
            If its name is taken, its version differs, or it does not fit the domain.
        """
        self._admit([row])
        self.space.add_support(row.support, row.answer, row.variance)
        self._rows.append(row)
        self._names.add(row.name)

    def extend(self, rows: Iterable[Row]) -> None:
        """Add many rows at once, all or none; this is faster than one by one."""
        batch = list(rows)
        self._admit(batch)
        self.space.extend([(row.support, row.answer, row.variance) for row in batch])
        self._rows += batch
        self._names |= {row.name for row in batch}

    def row(self, vector: Sequence[float] | Floats) -> tuple[Cells, Values]:
        """Return a dense query, shape (cells,), as the (index, value) that other methods take."""
        import numpy as np

        dense = np.asarray(vector, dtype=np.float64)
        if dense.shape != (self.cells,):
            raise RequestError("The query does not fit the domain", "Give one value for each cell.")
        sparse_row = support(self.cells, range(self.cells), dense)
        return sparse_row.index, sparse_row.value

    def estimable(self, index: Cells, value: Values) -> bool:
        """Return whether the rows determine a query (docs/methods/bayes.md, definition 3)."""
        return self.space.estimable(index, value)

    def estimate(self, index: Cells, value: Values) -> Joint:
        """Return the distribution of one query's estimate.

        Raises
        ------
        NotEstimable
        """
        return self.joint([(index, value)])

    def joint(self, queries: Sequence[tuple[Cells, Values]]) -> Joint:
        """Return the joint distribution of the estimates of queries, each as (index, value).

        Raises
        ------
        NotEstimable
            For the first query that the rows do not determine.
        """
        return self._joint(self.space.solve_many(queries))

    def _joint(self, solutions: Solutions) -> Joint:
        return Joint(
            solutions.estimates,
            solutions.weights(),
            tuple(row.distribution for row in self._rows),
            tuple(row.granularity for row in self._rows),
            tuple(row.name for row in self._rows),
        )

    def consistency(self, draws: int = 100_000, seed: int = 0) -> Consistency:
        """Check whether the answers fit together (docs/methods/bayes.md, definition 17).

        Parameters
        ----------
        draws : int
            Number of simulated histories; fewer, but at least 2,000, if there are many rows. If all
            noise is Gaussian, none are needed: the distribution is chi squared.
        seed : int
        """
        import numpy as np
        from scipy import special

        if any(row.planned for row in self._rows):
            raise RequestError("Planned rows have no answers yet", "Leave them out.")
        freedom = len(self) - self.space.rank
        if not freedom:
            return Consistency(0.0, 0, math.inf)
        statistic = self.space.misfit()
        if all(row.distribution.family == "gaussian" for row in self._rows):
            return Consistency(statistic, freedom, float(special.chdtri(freedom, 1 - ALARM)))
        distributions, steps = zip(
            *((row.distribution, row.granularity) for row in self._rows), strict=True
        )
        count = min(draws, max(2_000, int(WORK / (len(self) * freedom))))
        statistics = self.space.misfits(simulated(distributions, steps, count, seed))
        return Consistency(statistic, freedom, float(np.quantile(statistics, ALARM)))

    def cheapest_missing(self, index: Cells, value: Values) -> Missing | None:
        """Return the cheapest row whose answer would make a query estimable; None if it already is.

        Three rows would do: the query itself; its *part* on bins that no row determines yet,
        because past answers determine the rest; and the *complement*, a multiple of the total minus
        the query on these bins, if the total of all bins is estimable. The least sensitivity wins,
        because it sets the budget for a given noise; then the fewest bins, because only these are
        charged (docs/methods/bayes.md, theorem 13); then the query itself, because the other two
        inherit the noise of the past answers that complete them.

        Parameters
        ----------
        index, value
            The query, as in :class:`Row`.
        """
        import numpy as np

        query = support(self.cells, index, value)
        if self.estimable(index, value):
            return None
        space = self.space
        _, cut = space.atoms.read(query)
        # over bins, because the query may separate bins that no row separates
        open_ = (~space.determined() | cut)[space.atoms.labels]
        vector = query.dense(self.cells)
        rows: list[tuple[Literal["query", "part", "complement"], Floats]] = [
            ("query", vector),
            ("part", np.where(open_, vector, 0.0)),
        ]
        if self.estimable(range(self.cells), 1.0):
            # any multiple of the total would do; these two leave some bins without charge
            totals = vector[open_].max(), vector[open_].min()
            rows += [("complement", np.where(open_, total - vector, 0.0)) for total in totals]
        cost = [
            (float(np.abs(row).max()), np.count_nonzero(row), place)
            for place, (_, row) in enumerate(rows)
            if (row != 0).any()
        ]
        sensitivity, _, place = min(cost)
        kind, row = rows[place]
        sparse_row = support(self.cells, range(self.cells), row)
        return Missing(kind, sparse_row.index, sparse_row.value, sensitivity, sparse_row.count)
