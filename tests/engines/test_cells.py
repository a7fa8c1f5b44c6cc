"""Look-ups of real numbers in memory: the same as a search among the ends, whatever their distances."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpnb.engines.stored import _by_cell

pytestmark = pytest.mark.fast

ENDS = {
    "tens": np.arange(0.0, 200, 20),
    "halves": np.arange(0.5, 199),
    "tenths": np.arange(1, 1_999) / 10,
    "apart": np.array([0.0, 10, 20, 40, 80]),
    "nearly": np.nextafter(np.arange(20.0, 200, 20), 300),
    "any": np.sort(np.random.default_rng(2).uniform(0, 200, 40)),
    "two": np.array([3.0, 198.5]),
}


@pytest.mark.parametrize("low", [0.0, -1e-300, -33.3])
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_a_cell_finds_what_a_search_finds(ends, low):
    images = np.arange(len(ends) + 2, dtype=np.uint32) + 7
    find = _by_cell(ends, images, low, 200.0)
    values = np.concatenate(
        [
            *(np.nextafter(ends, way) for way in (-math.inf, math.inf)),
            ends,
            np.random.default_rng(3).uniform(low, 200, 2_000),
            [low, 200.0],
        ]
    )
    values = np.append(values.clip(low, 200), math.nan)
    assert find is not None
    found = images[np.searchsorted([*ends, math.inf], values, side="right")]
    assert (find(values) == found).all()


def test_ends_that_are_too_close_are_searched():
    images = np.arange(5, dtype=np.uint32)
    for ends in ([0.0, 1e-9, 100.0], [5.0], [0.0, math.nextafter(0, 1), 1.0]):
        assert _by_cell(np.array(ends), images, 0.0, 200.0) is None
