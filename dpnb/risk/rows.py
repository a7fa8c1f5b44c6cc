"""What the different rows of a table add to one release, and the losses that follow. Exact values."""

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
"""Of more lines with several Laplace vectors only the sums of sizes are used."""


class Rows:
    """The different contributions that occur, each with how many of the table have it. Private.

    Of whom they are, rows or ids, is the same here: what is said of rows holds of ids that are protected
    with all their rows.

    Parameters
    ----------
    contributions : Contributions
        Ticks by view, or with ``steps`` scores.
    sensitivities : sequence of float
        Largest size of a row's ticks, by view.
    shares : sequence of float
        Each view's share of the level of the release; they add up to 1.
    held : sequence of float
        Level at which somebody holds each view already; 0 for none.
    constant : float
        Loss that every row has already by other releases.
    steps : int
        0, or the number of steps to which scores were rounded upward.
    pure : bool
        Laplace noise, else Gaussian.
    form : {'bound', 'exact', 'linear'}
    ids : str
        Column of the ids whose contributions these are; '' for rows.

    Attributes
    ----------
    sizes : float array, shape (u, V)
        |contribution| / sensitivity, from 0 to 1.
    counts, cells : int64 arrays, shape (u,)
        Multiplicity, and number of the cell of the columns by which rows are told apart.
    r : float array, shape (u,)
        Normalised contribution: a row's loss at level L of a first release is L r, or L r^2 for rho.
    constant : float

    Raises
    ------
    EngineError
        When a row adds more than the noise was made for.
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
            # views are no longer told apart: what is held counts in full
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
        # a score of k steps says that r lies in (k - 1, k] steps
        self.r_low = self.r if not steps else np.maximum(self.ticks[:, 0] - 1, 0) / steps

    def _norm(self, sizes: Values) -> Values:
        norms: Values = sizes @ self._shares if self.pure else np.sqrt(sizes**2 @ self._shares)
        return norms

    @property
    def one(self) -> str:
        """Whom a contribution is of, in words."""
        return f"one {self.ids}" if self.ids else "one row"

    def noun(self, count: int = 2) -> str:
        """Return the word for so many of those whom contributions are of."""
        return noun(self.ids, count)

    @property
    def total(self) -> int:
        """Rows of the table."""
        return int(self.counts.sum())

    @property
    def cumulative(self) -> bool:
        """Whether losses by earlier releases are included."""
        return bool(self.constant or self._held.any())

    @property
    def several_exact(self) -> bool:
        """Whether the form is one of Laplace noise on several vectors that r does not determine."""
        return self.pure and self.form == "exact" and not self._single

    def losses(self, level: float, *, lowest: bool = False) -> Values:
        """Return each row's loss, epsilon_i or rho_i, once the release is made at ``level``.

        sum over views of level |x| for Laplace noise, level x^2 for Gaussian (docs/methods/rdr.md,
        theorem 7). Where scores were rounded, and of other releases, this is an upper bound;
        ``lowest`` gives the lower.
        """
        r = self.r_low if lowest else self.r
        before = 0.0 if lowest else self.constant
        if level == np.inf:
            # not infinity times 0
            return np.where(r > 0, np.inf, self.losses(0.0, lowest=lowest))
        if self.steps or not self.cumulative:
            added: Values = level * (r if self.pure else r * r)
            return before + added
        summed: Values = self._by_view(level).sum(axis=1)
        return before + summed

    def most(self, level: float) -> float:
        """Return the largest loss that any row of any table could have at ``level``."""
        return self.constant + float(np.maximum(level * self._shares, self._held).sum())

    def _by_view(self, level: float) -> Values:
        levels = np.maximum(level * self._shares, self._held)
        found: Values = (self.sizes if self.pure else self.sizes**2) * levels
        return found

    def relative(self, level: float, *, lowest: bool = False) -> Values:
        """Return each row's indicator as a multiple of the floor."""
        if self.pure and self.form == "exact":
            return relative(self._by_view(level), PURE, "exact")
        losses = self.losses(level, lowest=lowest)
        return relative(losses, PURE if self.pure else ZCDP, self.form)

    def guesses(self, level: float) -> Values:
        """Return how often, of 100, a guess whether each row is in the table is right.

        Had all that is counted been fixed beforehand (docs/methods/rdr.md, theorems 10 to 12). An
        upper bound where :attr:`at_most`: of rounded scores, of one-off releases, and where it is
        not known how what an id adds lies on the groups.
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
        """Whether of Laplace sizes only sums are used: parts are not known, or there are too many."""
        lines, views = self.sizes.shape
        return bool(self.steps or self.ids) or (views > 2 and lines > MOST_MIXED)

    def quantile(self, values: Values, p: float, empty: float, cell: int | None = None) -> float:
        """Return the smallest value with at least a share ``p`` of the rows at or below it.

        Of the rows of one ``cell`` only, when it is named; ``empty`` where there is none.
        """
        chosen = np.ones(len(values), dtype=bool) if cell is None else self.cells == cell
        if not chosen.any():
            return empty
        order = np.argsort(values[chosen], kind="stable")
        reached = np.cumsum(self.counts[chosen][order])
        place = int(np.searchsorted(reached, p * reached[-1] * (1 - 1e-12)))
        return float(values[chosen][order][min(place, len(reached) - 1)])

    def by_cell(self, found: Values, cells: int) -> tuple[Vector, Values, Values]:
        """Return rows, median and largest of values in each cell; 1 in empty ones.

        The median is that of :meth:`quantile`.
        """
        named = self.cells >= 0
        sizes = np.zeros(cells, dtype=np.int64)
        np.add.at(sizes, self.cells[named], self.counts[named])
        medians, maxima = np.ones(cells), np.ones(cells)
        np.maximum.at(maxima, self.cells[named], found[named])
        order = np.lexsort((found, self.cells))
        order = order[named[order]]
        if len(order):
            reached = np.cumsum(self.counts[order])
            halves = np.cumsum(sizes) - sizes + 0.5 * sizes * (1 - 1e-12)
            filled = sizes > 0
            medians[filled] = found[order][np.searchsorted(reached, halves[filled])]
        return sizes, medians, maxima

    def variance(self, values: Values | None = None) -> float:
        """Return the population variance of values of all rows.

        By default of r, or for Gaussian noise of r^2 (docs/methods/rdr.md, theorem 8).
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
