"""How often what private choices say is false, and versions of them that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from unittest import mock

import numpy as np

from dpnb.privacy.definition import PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.noise import Noise
from dpnb.risk import safe_counts
from dpnb.risk.preferences import CANDIDATES
from dpnb.risk.selection import STEPS, Tail
from tests.kit.noise import NoNoise

ALLOWED = safe_counts.FAILURE
SIZES = (200, 1_000, 10_000, 32_561)
EXPOSED = (0.001, 0.05, 0.5)
COSTS: dict[PrivacyDefinition, Fraction] = {ZCDP: Fraction(1, 200), PURE: Fraction(1, 10)}


@dataclass(frozen=True)
class Case:
    """People, the share of them who add all that they may, and what the counts cost."""

    rows: int
    exposed: float
    privacy: PrivacyDefinition

    @property
    def table(self) -> np.ndarray:
        """How many are at which step."""
        table = np.zeros(STEPS + 1, dtype=np.int64)
        table[STEPS] = round(self.rows * self.exposed)
        table[0] = self.rows - table[STEPS]
        return table

    def __str__(self) -> str:
        return f"{self.rows:,} people, {self.exposed:.3g} of them exposed, {self.privacy}"


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for privacy in COSTS:
        for rows in SIZES:
            for exposed in EXPOSED:
                yield Case(rows, exposed, privacy)


def draws(case: Case, runs: int, noise: Noise) -> np.ndarray:
    """Return what the mechanism releases in many runs, shape (runs, K + 1)."""
    watched, cost = NoNoise(), COSTS[case.privacy]
    exact = safe_counts.Histogram().draw(case.table, cost, case.privacy, watched)
    (drawn,) = watched.draws
    found = getattr(noise, drawn.name)(exact * runs, drawn.scale)
    return np.reshape(np.array(found, dtype=np.int64), (runs, len(exact)))


def false(case: Case, runs: int, noise: Noise) -> int:
    """Return in how many runs a sentence on counts, shares or the size of the table is false."""
    exact = safe_counts.Histogram().exact(case.table)
    above, count = np.cumsum(exact[:-1]), 0
    for released in draws(case, runs, noise):
        _, upper, least = safe_counts.bounds(released.tolist(), COSTS[case.privacy], case.privacy)
        count += least > case.rows or any(a > u for a, u in zip(above, upper, strict=True))
    return count


def _each_on_its_own() -> AbstractContextManager[object]:
    """Margins that are right for one sentence, where the best of several is picked."""

    real = safe_counts.margins.__wrapped__

    def margins(cost: Fraction, privacy: PrivacyDefinition) -> Sequence[float]:
        with mock.patch.object(safe_counts, "FAILURE", ALLOWED * (safe_counts.BINS + 1)):
            found: Sequence[float] = real(cost, privacy)
            return found

    return mock.patch.object(safe_counts, "margins", margins)


def _size_as_drawn() -> AbstractContextManager[object]:
    """A noisy number of people as their number."""
    real = safe_counts.margins
    return mock.patch.object(safe_counts, "margins", lambda *given: (*real(*given)[:-1], 0.0))


DEFECTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "margins at 5 % each, the best of three picked": _each_on_its_own,
    "the number of people without a margin": _size_as_drawn,
}
CAUGHT = Case(1_000, 0.5, ZCDP)
"""A case in which each defect shows."""


def planted(defect: str | None) -> AbstractContextManager[object]:
    """Plant a defect, or none."""
    return nullcontext() if defect is None else DEFECTS[defect]()


def tail_false(runs: int, noise: Noise, rows: int = 32_561, exposed: int = 19) -> int:
    """Return in how many runs the paper's tail says "about 0 stand out" where some do.

    A sparse vector at its defaults: its noise is 33 rows, its target is 0.
    """
    table = np.zeros(STEPS + 1, dtype=np.int64)
    table[STEPS], table[0] = exposed, rows - exposed
    tail = Tail(CANDIDATES, 0.95, 0, "bound")
    counts = tail.counts(table, ZCDP)
    count = 0
    for _ in range(runs):
        (place,) = tail.draw(table, COSTS[ZCDP], ZCDP, noise)
        count += place >= 0 and counts[place] > 0
    return count
