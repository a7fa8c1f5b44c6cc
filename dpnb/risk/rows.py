"""Contributions of the distinct rows of a table to one release, and their losses. Exact values."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpnb.engines.contributions import Contributions, Vector
from dpnb.errors import EngineError, RequestError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.risk import guesses
from dpnb.risk.indicator import Form, Values, relative
from dpnb.risk.nouns import noun

MOST_MIXED = 4_096
"""With more lines than this and more than two Laplace vectors, only the sums of sizes are used."""


class Rows:
    """The distinct contributions, each with the number of rows that have it. Private.

    If ids are protected with all their rows, "row" means id here.

    Parameters
    ----------
    contributions : Contributions
        Ticks by view, or with ``steps`` scores.
    sensitivities : sequence of float
        Largest size of a row's ticks, by view.
    shares : sequence of float
        Each view's share of the level of the release; they add up to 1.
    held : sequence of float
        Level at which each view is already released; 0 if it is not.
    constant : float
        Loss of every row through other releases.
    steps : int
        If not 0, scores were rounded up to multiples of 1/steps.
    pure : bool
        True for Laplace noise, False for Gaussian.
    form : {'bound', 'exact', 'linear'}
    ids : str
        Column of the protected ids; '' for rows.

    Attributes
    ----------
    sizes : float array, shape (u, V)
        |contribution| / sensitivity, from 0 to 1.
    counts, cells : int64 arrays, shape (u,)
        Number of rows, and index of their group of the ``by`` columns; -1 outside all groups.
    r : float array, shape (u,)
        Normalised contribution: a row's loss by a first release at level L is L r, or L r^2 for
        rho.
    constant : float

    Raises
    ------
    EngineError
        If a row adds more than its sensitivity.
    """

    __slots__ = (
        "_held", "_shares", "_single", "cells", "constant", "counts", "form", "ids", "pure", "r",
        "r_low", "sizes", "steps", "ticks",
    )  # fmt: skip

    def __init__(
        self,
        contributions: Contributions,
        sensitivities: Sequence[float],
        shares: Sequence[float],
        held: Sequence[float],
        constant: float,
        *,
        steps: int,
        pure: bool,
        form: Form,
        ids: str = "",
    ) -> None:
        self.pure, self.form, self.steps, self.ids = pure, form, steps, ids
        self._single = len(sensitivities) == 1
        self.ticks = contributions.numbers
        self.counts, self.cells = contributions.counts, contributions.cells
        if steps:
            # scores merge the views, so the caller counts earlier releases of them in full
            bounds, shares, held = np.array([float(steps)]), [1.0], [0.0]
        else:
            bounds = np.array(sensitivities, dtype=np.float64)
        self.sizes: Values = np.abs(self.ticks) / bounds
        if np.any(self.sizes > 1 + 1e-9):
            raise EngineError(
                f"{self.one} adds more than its sensitivity",
                "The noise would be too small. Nothing was charged; this is an error of dpnb.",
            )
        self._shares, self._held = np.array(shares), np.array(held)
        self.constant = constant
        self.r = self._norm(self.sizes)
        # a score of k means that r lies in ((k - 1)/steps, k/steps]
        self.r_low = self.r if not steps else np.maximum(self.ticks[:, 0] - 1, 0) / steps

    def _norm(self, sizes: Values) -> Values:
        norms: Values = sizes @ self._shares if self.pure else np.sqrt(sizes**2 @ self._shares)
        return norms

    @property
    def one(self) -> str:
        """One protected row or id, in words."""
        return f"one {self.ids}" if self.ids else "one row"

    def noun(self, count: int = 2) -> str:
        """Return the word for ``count`` protected rows or ids."""
        return noun(self.ids, count)

    @property
    def total(self) -> int:
        """Number of rows of the table."""
        return int(self.counts.sum())

    @property
    def cumulative(self) -> bool:
        """Whether losses through earlier releases are included."""
        return bool(self.constant or self._held.any())

    @property
    def several_exact(self) -> bool:
        """Whether the form is exact with Laplace noise on several vectors, so r is not enough."""
        return self.pure and self.form == "exact" and not self._single

    def losses(self, level: float, *, lowest: bool = False) -> Values:
        """Return each row's loss, epsilon_i or rho_i, after a release at ``level``.

        The loss is the sum over views of level |x| for Laplace noise and level x^2 for Gaussian
        (docs/methods/rdr.md, theorem 7). With rounded scores or other releases it is an upper
        bound; ``lowest`` gives the lower bound.
        """
        r = self.r_low if lowest else self.r
        earlier_loss = 0.0 if lowest else self.constant
        if level == np.inf:
            # infinity times 0 would be nan
            return np.where(r > 0, np.inf, self.losses(0.0, lowest=lowest))
        if self.steps or not self.cumulative:
            increases: Values = level * (r if self.pure else r * r)
            return earlier_loss + increases
        totals: Values = self._by_view(level).sum(axis=1)
        return earlier_loss + totals

    def most(self, level: float) -> float:
        """Return the largest loss that any row of any table could have at ``level``."""
        return self.constant + float(np.maximum(level * self._shares, self._held).sum())

    def _by_view(self, level: float) -> Values:
        levels = np.maximum(level * self._shares, self._held)
        view_losses: Values = (self.sizes if self.pure else self.sizes**2) * levels
        return view_losses

    def relative(self, level: float, *, lowest: bool = False) -> Values:
        """Return each row's indicator as a multiple of the floor."""
        if self.pure and self.form == "exact":
            return relative(self._by_view(level), PURE, "exact")
        losses = self.losses(level, lowest=lowest)
        return relative(losses, PURE if self.pure else ZCDP, self.form)

    def guesses(self, level: float) -> Values:
        """Return for each row how many of 100 guesses whether it is in the table are right.

        This assumes that all counted releases were fixed in advance (docs/methods/rdr.md, theorems
        10 to 12). It is an upper bound if :attr:`at_most`: for rounded scores, for one-off
        releases, and if it is unknown how an id's contribution is spread over the groups.
        """
        if not self.pure:
            losses = self.losses(level)
            return guesses.guesses(
                guesses.zcdp(losses) if self.constant else guesses.gaussian(2 * losses)
            )
        if self._by_sums or level == np.inf:
            distance = guesses.laplace_at_most(self.losses(level) - self.constant)
        else:
            distance = guesses.laplace(self._by_view(level))
        if self.constant:
            distance = guesses.several([distance, guesses.response(self.constant)])
        return guesses.guesses(distance)

    @property
    def at_most(self) -> bool:
        """Whether guesses are upper bounds."""
        return bool(self.steps or self.constant) or (self.pure and self._by_sums)

    @property
    def _by_sums(self) -> bool:
        """Whether only sums of Laplace sizes are used: parts are unknown, or there are too many."""
        lines, views = self.sizes.shape
        return bool(self.steps or self.ids) or (views > 2 and lines > MOST_MIXED)

    def quantile(self, values: Values, p: float, empty: float, cell: int | None = None) -> float:
        """Return the smallest value with at least a share ``p`` of the rows at or below it.

        With ``cell``, only the rows of that group count. Without rows, return ``empty``.
        """
        mask = np.ones(len(values), dtype=bool) if cell is None else self.cells == cell
        if not mask.any():
            return empty
        order = np.argsort(values[mask], kind="stable")
        running_counts = np.cumsum(self.counts[mask][order])
        place = int(np.searchsorted(running_counts, p * running_counts[-1] * (1 - 1e-12)))
        return float(values[mask][order][min(place, len(running_counts) - 1)])

    def by_cell(self, found: Values, cells: int) -> tuple[Vector, Values, Values]:
        """Return the number of rows, the median and the largest value of each group.

        The median is that of :meth:`quantile`. Both values are 1 in empty groups.
        """
        in_group = self.cells >= 0
        sizes = np.zeros(cells, dtype=np.int64)
        np.add.at(sizes, self.cells[in_group], self.counts[in_group])
        medians, maxima = np.ones(cells), np.ones(cells)
        np.maximum.at(maxima, self.cells[in_group], found[in_group])
        order = np.lexsort((found, self.cells))
        order = order[in_group[order]]
        if len(order):
            running_counts = np.cumsum(self.counts[order])
            halves = np.cumsum(sizes) - sizes + 0.5 * sizes * (1 - 1e-12)
            filled = sizes > 0
            medians[filled] = found[order][np.searchsorted(running_counts, halves[filled])]
        return sizes, medians, maxima

    def variance(self, values: Values | None = None) -> float:
        """Return the population variance of ``values`` over all rows.

        The default values are r, or r^2 for Gaussian noise (docs/methods/rdr.md, theorem 8).
        """
        if values is None:
            values = self.r if self.pure else self.r**2
        if not len(values):
            return 0.0
        mean = np.average(values, weights=self.counts)
        return float(np.average((values - mean) ** 2, weights=self.counts))

    def close(self) -> None:
        """Forget the values."""
        for name in self.__slots__:
            with contextlib.suppress(AttributeError):
                delattr(self, name)

    @property
    def closed(self) -> bool:
        """Whether the values were forgotten."""
        try:
            object.__getattribute__(self, "counts")
        except AttributeError:
            return True
        return False

    def __getattr__(self, name: str) -> Any:
        if name not in self.__slots__:
            raise AttributeError(name)
        raise RequestError("the profile is closed", "Ask curator.risk(sql) again.")

    def __repr__(self) -> str:
        return "Rows(private)"

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")
