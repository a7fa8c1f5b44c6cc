"""How far thresholds move at first: the uncertain regions, from options and public bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpnb.decide.certificate import Floats
from dpnb.decide.conditions import Atom, Condition
from dpnb.decide.naming import atom_sql, atom_text, name_of
from dpnb.decide.options import Options
from dpnb.errors import RequestError
from dpnb.schema.predicates import EVERY
from dpnb.schema.schema import Schema
from dpnb.sql.functions import Function
from dpnb.sql.values import bounds_of

SHARE_OF_RANGE = 0.3
"""First uncertain region as a share of the declared range, or of the threshold."""
SHARE_OF_BOUNDS = 0.05
"""The same for an AVG, as a share of the width of its bounds; times the rows of a group."""


def _option(setting: Any, alias: str) -> float | None:
    if isinstance(setting, Mapping):
        return setting.get(alias)
    return None if setting is None else float(setting)


def rows_meant(condition: Condition, place: int, options: Options, schema: Schema) -> float:
    """Return the number of rows for which an AVG's uncertain region holds; 1 for other aggregates.

    By default it is the threshold of COUNT(*) > n, which every way to satisfy HAVING through this
    AVG must contain; the smallest, if they differ.
    """
    atom = condition.atoms[place]
    if not atom.aggregate.function.is_mean:
        return 1.0
    row_count = _option(options.rows, atom.aggregate.alias)
    if row_count is not None:
        return row_count
    sizes = [
        _count_beside(condition, implicant)
        for implicant in condition.implicants
        if place in implicant
    ]
    if None in sizes:
        raise RequestError(
            "the uncertainty of an AVG depends on the number of rows in a group",
            f"Write {atom_sql(atom, schema)} AND COUNT(*) > 100, or give rows=100 (--rows 100).",
        )
    return min(size for size in sizes if size is not None)


def _count_beside(condition: Condition, implicant: frozenset[int]) -> float | None:
    sizes = [
        float(atom.threshold)
        for atom in (condition.atoms[i] for i in implicant)
        if atom.aggregate.function is Function.COUNT
        and atom.aggregate.filter == EVERY
        and atom.sign > 0
        and not isinstance(atom.threshold, str)
    ]
    return max(1.0, *sizes) if sizes else None


def uncertain(atom: Atom, options: Options, schema: Schema, rows: float) -> float:
    """Return the first uncertain region of a condition, in units of its line.

    ``u`` if given, else 30 % of the declared range, else 30 % of the threshold. For AVG, times the
    rows of a group; its default is 5 % of the width of its bounds.
    """
    alias, function = atom.aggregate.alias, atom.aggregate.function
    region, width = _option(options.u, alias), _option(options.ranges, alias)
    if region is None and width is not None:
        region = SHARE_OF_RANGE * width
    if region is None and function.is_mean and atom.aggregate.value is not None:
        bounds = bounds_of(atom.aggregate.value, schema)
        region = SHARE_OF_BOUNDS * float(bounds.high - bounds.low)
    if region is None and not isinstance(atom.threshold, str):
        region = SHARE_OF_RANGE * abs(float(atom.threshold))
    if not region:
        raise RequestError(
            f"the uncertain region of {name_of(atom.aggregate, schema)} does not follow from its threshold",
            f"Add u={{{alias!r}: 50}} (--u {alias}=50), or ranges={{{alias!r}: 500}} "
            f"(--ranges {alias}=500).",
        )
    return region * rows


def warnings_of(condition: Condition, limits: Floats, schema: Schema, *, exact: bool) -> list[str]:
    """Return what an analyst should know about the conditions before spending on them.

    ``limits``: thresholds in units of the lines, shape (conditions, groups). ``exact``: whether
    exact values are compared; the AVG of no rows then satisfies nothing.
    """
    warnings = []
    for place, atom in enumerate(condition.atoms):
        if (
            not exact
            and atom.aggregate.function.is_mean
            and any(
                place in implicant and _count_beside(condition, implicant) is None
                for implicant in condition.implicants
            )
        ):
            warnings.append(
                f"Groups without rows are exactly at the threshold of {atom_text(atom, schema)}, so nearly all "
                f"of them are selected. Write {atom_sql(atom, schema)} AND COUNT(*) > 100."
            )
    empty = [
        (not atom.aggregate.function.is_mean)
        & ((atom.sign * limit < 0) if atom.strict else (atom.sign * limit <= 0))
        for atom, limit in zip(condition.atoms, limits, strict=True)
    ]
    if condition.value(np.array(empty)).any():
        warnings.append(
            "Groups without rows satisfy this, because their counts and sums are 0. SQL would not list them."
            + _small_groups(condition, limits)
        )
    return list(dict.fromkeys(warnings))


def _small_groups(condition: Condition, limits: Floats) -> str:
    """Return a hint to leave out groups of few rows, which noise hides among empty ones."""
    most = [
        limit.min()
        for atom, limit in zip(condition.atoms, limits, strict=True)
        if atom.aggregate.function is Function.COUNT and atom.sign < 0
    ]
    few = min(100, int(min(most, default=200.0) / 2))
    if few < 1:
        return ""
    return (
        f" To leave out small groups, put the condition in brackets and add AND COUNT(*) > {few}."
    )
