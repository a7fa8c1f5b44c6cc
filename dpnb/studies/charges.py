"""Charges of conditions: shares of the bound on false negatives, levels, and a meter that denies.

The shares are the published ones; the cheapest ones are in :mod:`dpnb.decide.apportion`. Once an
AND is empty, the rest of it is neither run nor charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpnb.decide.conditions import Bools, Condition, Tree
from dpnb.studies.cases import Case, Row


def level_of(share: float, sensitivity: float, u: float) -> float:
    """Return epsilon = sensitivity ln(1/(2 share)) / u (docs/methods/probe.md, theorem 4)."""
    return sensitivity * math.log(1 / (2 * share)) / u


def equal_shares(condition: Condition, bound: float) -> tuple[float, ...]:
    """Return bound / L for each condition, where L counts the leaves as written (algorithm 19)."""
    return (bound / len(condition.leaves),) * len(condition.atoms)


def written_shares(
    condition: Condition, weights: Sequence[float], bound: float
) -> tuple[float, ...]:
    """Return the published shares, bound w_i / sum o_y w_y (Eq. 21 made readable, algorithm 19).

    ``weights`` are sensitivity / u, and o_y is how often condition y occurs.
    """
    total = sum(weights[leaf] for leaf in condition.leaves)
    return tuple(bound * weight / total for weight in weights)


SPLIT = 0.5
"""Share of the bound on false negatives for phase one."""


def first_shares(
    mode: str, condition: Condition, weights: Sequence[float], bound: float
) -> tuple[float, ...]:
    """Return the first share of the bound for each condition, by a published method.

    Two-phase methods keep the rest for phase two; 'probe-ent' passes what a condition leaves to the
    conditions that follow.
    """
    match mode:
        case "naive":
            return equal_shares(condition, bound)
        case "probe-naive":
            return equal_shares(condition, SPLIT * bound)
        case "probe" | "paper":
            return written_shares(condition, weights, SPLIT * bound)
        case "probe-ent":
            return tuple(bound * weight / sum(weights) for weight in weights)
        case _:
            return written_shares(condition, weights, bound)


class DeniedError(Exception):
    """A charge would exceed what may be spent."""


class Meter:
    """Spending of a run, in total and by group; ``rows`` are its charges."""

    def __init__(self, case: Case) -> None:
        self.most = case.most
        self.spent = 0.0
        self.epsilons = np.zeros(case.groups)
        self.rows: list[Row] = []

    def charge(self, row: Row, where: Bools | None = None) -> None:
        """Charge before noise is drawn for the groups ``where``, or for all."""
        if self.spent + row.epsilon > self.most:
            raise DeniedError
        self.spent += row.epsilon
        self.epsilons += row.epsilon if where is None else row.epsilon * where
        self.rows.append(row)


def traverse(case: Case, leaf: Callable[[int], Bools], costs: Sequence[float]) -> Bools:
    """Return the groups that a condition selects; the rest of an empty AND does not run.

    Algorithm 19 of docs/methods/probe.md.
    """
    costs = costs if case.ordered else [0.0] * len(costs)
    return _selected(case.condition.tree, leaf, costs, case.groups)


def _selected(
    tree: Tree, leaf: Callable[[int], Bools], costs: Sequence[float], groups: int
) -> Bools:
    if isinstance(tree, int):
        return leaf(tree)
    parts = sorted(tree.parts, key=lambda part: _cost(part, costs))
    if tree.operator == "OR":
        selected = np.zeros(groups, dtype=bool)
        for part in parts:
            selected |= _selected(part, leaf, costs, groups)
        return selected
    selected = np.ones(groups, dtype=bool)
    for part in parts:
        selected &= _selected(part, leaf, costs, groups)
        if not selected.any():
            break
    return selected


def _cost(tree: Tree, costs: Sequence[float]) -> float:
    if isinstance(tree, int):
        return costs[tree]
    return sum(_cost(part, costs) for part in tree.parts)
