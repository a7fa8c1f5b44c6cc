"""How several analysts get answers from one view: noise paths, additive or independent noise.

A **level** says how fine a version is: the rho of its Gaussian noise, whatever the ledger counts.
With unit sensitivity its variance is 1 / (2 level) and a little for the lattice (``path``), and
precisions add as levels do. Each analyst's entry of the provenance table (the *cell*) and each
view's sum over all analysts (its *column*) are losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeAlias

from dpnb.privacy.definition import BASIC, GDP, PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss, ceiling_digits, epsilon_shown, rho_within
from dpnb.privacy.noise import Noise, gaussian_around
from dpnb.privacy.parallel import Place, Region
from dpnb.privacy.path import Version, find, gaussian_version, variance_of

Name: TypeAlias = Literal["path", "additive", "vanilla"]
NONE = PrivacyLoss.none()
_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class LevelTarget:
    """An analyst's target for a view: a level, and under a basic accountant perhaps an epsilon."""

    level: Fraction
    epsilon: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What meeting a target changes for a view; decided from public facts, before any draw.

    Attributes
    ----------
    level : Fraction
        The analyst's level afterwards.
    source : Fraction
        Level of the common version that the analyst's own is made from; 0 if none is made.
    cell, column : PrivacyLoss
        The analyst's loss from the view afterwards, and the joint loss of all analysts.
    fresh : Fraction
        Level of the fresh noise on the exact vector; 0 when the data are not read.
    """

    level: Fraction
    source: Fraction
    cell: PrivacyLoss
    column: PrivacyLoss
    fresh: Fraction


@dataclass(frozen=True, slots=True)
class Local:
    """One analyst's own version of a view: its level, and the level of the version behind it."""

    level: Fraction
    source: Fraction
    vector: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Local(level={self.level}, private)"

    def __reduce__(self) -> Any:
        raise TypeError("a Local is another analyst's answer and cannot be pickled")


@dataclass
class Synopses:
    """Which analyst has which version of which view. Vectors are private, the rest is bookkeeping.

    Rows are analysts (or one privilege of an analyst), columns are views. ``regions`` is public: on
    which rows of its table each view may depend. For each account, and for all together (None),
    ``learned`` has the loss from the views of each region, by version of the table; ``bounds`` an
    upper bound on the maximum over regions for each version; and ``charged`` the sum of its
    charges.
    """

    privacy: PrivacyDefinition
    release_delta: Fraction
    paths: dict[str, list[Version]] = field(default_factory=dict)
    locals: dict[tuple[str, str], dict[Fraction, Local]] = field(default_factory=dict)
    held: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    finest: dict[str, Fraction] = field(default_factory=dict)
    cells: dict[tuple[str, str], PrivacyLoss] = field(default_factory=dict)
    columns: dict[str, PrivacyLoss] = field(default_factory=dict)
    regions: dict[str, Region] = field(default_factory=dict)
    learned: dict[tuple[str | None, Place], dict[Region, PrivacyLoss]] = field(default_factory=dict)
    bounds: dict[str | None, dict[Place, PrivacyLoss]] = field(default_factory=dict)
    charged: dict[str | None, PrivacyLoss] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Synopses(private)"

    def cell(self, row: str, view: str) -> PrivacyLoss:
        """Return an analyst's loss from a view."""
        return self.cells.get((row, view), NONE)

    def column(self, view: str) -> PrivacyLoss:
        """Return the joint loss of all analysts from a view."""
        return self.columns.get(view, NONE)

    def level(self, row: str, view: str) -> Fraction:
        """Return the finest level of a view that was released to an analyst; 0 for none."""
        return self.held.get((row, view), _ZERO)

    def note(self, row: str, view: str, step: Step) -> None:
        """Apply a step; one that is only tried has no vector."""
        if step.source:
            local_versions = self.locals.setdefault((row, view), {})
            local_versions.setdefault(step.level, Local(step.level, step.source, ()))
        self.held[row, view] = max(step.level, self.level(row, view))
        self.finest[view] = max(step.level, step.source, self.finest.get(view, _ZERO))
        self.cells[row, view] = step.cell
        self.columns[view] = step.column

    def sketch(self) -> Synopses:
        """Return a copy on which steps can be tried; it shares the vectors."""
        return replace(
            self,
            locals={key: dict(local_versions) for key, local_versions in self.locals.items()},
            held=dict(self.held), finest=dict(self.finest),
            cells=dict(self.cells), columns=dict(self.columns),
            regions=dict(self.regions),
            learned={key: dict(losses) for key, losses in self.learned.items()},
            bounds={who: dict(losses) for who, losses in self.bounds.items()},
            charged=dict(self.charged),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draws of a step: new common versions, and the analyst's own version."""

    versions: Sequence[Version] = ()
    local: Local | None = None


class Mechanism(Protocol):
    """A way to answer several analysts from one view."""

    def step(self, state: Synopses, row: str, view: str, target: LevelTarget) -> Step:
        """Decide what meeting a target changes."""
        ...

    def draw(
        self,
        state: Synopses,
        view: str,
        step: Step,
        exact: Sequence[int] | None,
        sensitivity: int,
        noise: Noise,
    ) -> Drawn:
        """Draw what a step needs; ``exact`` is given if the step reads the data."""
        ...

    def together(self, state: Synopses, view: str, rows: Iterable[str]) -> PrivacyLoss:
        """Return the joint loss of some accounts from a view."""
        ...


def unchanged(state: Synopses, row: str, view: str) -> Step:
    """Return the step for a target that is already met: nothing is made and nothing is drawn."""
    cell, column = state.cell(row, view), state.column(view)
    return Step(state.level(row, view), _ZERO, cell, column, _ZERO)


class Path:
    """All versions of a view lie on one noise path, and the finest one pays for all.

    The joint loss of a coalition from a view is exactly the largest loss of a member: theorem 5 of
    docs/methods/dprovdb.md.
    """

    def step(self, state: Synopses, row: str, view: str, target: LevelTarget) -> Step:
        """Raise the account to the level, and the path too if it is coarser."""
        level = max(target.level, state.level(row, view))
        finest = state.finest.get(view, _ZERO)
        cell, column = (
            PrivacyLoss.of(new_level, state.privacy) for new_level in (level, max(level, finest))
        )
        return Step(level, _ZERO, cell, column, max(_ZERO, level - finest))

    def draw(
        self,
        state: Synopses,
        view: str,
        step: Step,
        exact: Sequence[int] | None,
        sensitivity: int,
        noise: Noise,
    ) -> Drawn:
        """Draw the version at the level, unless the path has it."""
        path = state.paths.get(view, ())
        if find(path, step.level) is not None:
            return Drawn()
        return Drawn(versions=[gaussian_version(path, step.level, exact, sensitivity, noise)])

    def together(self, state: Synopses, view: str, rows: Iterable[str]) -> PrivacyLoss:
        """Return the largest of the accounts' losses."""
        cells = (state.cell(row, view) for row in rows)
        return max(cells, key=lambda cell: cell.level(state.privacy), default=NONE)


class Vanilla:
    """Independent noise for each analyst and release (docs/methods/dprovdb.md, algorithm 6)."""

    def step(self, state: Synopses, row: str, view: str, target: LevelTarget) -> Step:
        """Pay for a separate release, unless the account's version is at least as fine."""
        if state.level(row, view) >= target.level:
            return unchanged(state, row, view)
        price = _price(state, target)
        cell, column = state.cell(row, view) + price, state.column(view) + price
        return Step(target.level, _ZERO, cell, column, target.level)

    def draw(
        self,
        state: Synopses,
        view: str,
        step: Step,
        exact: Sequence[int] | None,
        sensitivity: int,
        noise: Noise,
    ) -> Drawn:
        """Draw fresh noise on the exact vector."""
        if not step.fresh:
            return Drawn()
        version = gaussian_version((), step.level, exact, sensitivity, noise)
        return Drawn(local=Local(version.level, _ZERO, version.vector))

    def together(self, state: Synopses, view: str, rows: Iterable[str]) -> PrivacyLoss:
        """Return the sum of the accounts' losses."""
        return sum((state.cell(row, view) for row in rows), NONE)


class Additive:
    """One common synopsis, which the curator refines; adding noise to it makes local ones.

    DProvDB, Algorithm 4, corrected (docs/methods/dprovdb.md, algorithm 7): local noise rests on the
    actual variance of the synopsis, locals are made from the stored synopsis alone, and no entry
    ever decreases.
    """

    def step(self, state: Synopses, row: str, view: str, target: LevelTarget) -> Step:
        """Derive a local synopsis, after refining the common one if it is too coarse."""
        finest = state.finest.get(view, _ZERO)
        if state.level(row, view) >= target.level:
            return unchanged(state, row, view)
        if state.privacy is BASIC:
            return self._nominal(state, row, view, target)
        top = max(finest, target.level)
        cell = self._known(state, view, [row], Local(target.level, top, ()))
        return Step(
            target.level, top, PrivacyLoss.of(cell, state.privacy),
            PrivacyLoss.of(top, state.privacy), top - finest,
        )  # fmt: skip

    @staticmethod
    def _nominal(state: Synopses, row: str, view: str, target: LevelTarget) -> Step:
        """Count (epsilon, delta) as DProvDB does, for a target that is not met yet."""
        finest, delta = state.finest.get(view, _ZERO), state.release_delta
        cell, column = state.cell(row, view), state.column(view)
        spent, cell_epsilon = column.epsilon or _ZERO, cell.epsilon or _ZERO
        fresh = more = _ZERO
        if target.epsilon is None:
            level, enough = target.level, finest >= target.level
            target_epsilon = epsilon_of_level(level, delta) if enough else _ZERO
            if not enough:
                fresh = level - finest
                more = epsilon_of_level(fresh, delta)
        else:
            target_epsilon, enough = target.epsilon, target.epsilon <= spent
            level = min(target.level, finest)
            if enough and state.level(row, view) >= level:
                return unchanged(state, row, view)
            if not enough:
                more = target_epsilon - spent
                fresh = level_of_epsilon(more, delta)
        top = finest + fresh
        column = PrivacyLoss(top, spent + more, column.delta + (delta if fresh else _ZERO))
        # the account that has the synopsis refined receives it, made of all releases of the view
        column_total = spent + more, column.delta
        level = level if enough else top
        nominal, failing = (
            min((cell_epsilon + target_epsilon, cell.delta + delta), column_total)
            if enough
            else column_total
        )
        rho, failing = min(cell.rho + level, top), max(failing, cell.delta)
        return Step(level, top, PrivacyLoss(rho, nominal, failing), column, fresh)

    def draw(
        self,
        state: Synopses,
        view: str,
        step: Step,
        exact: Sequence[int] | None,
        sensitivity: int,
        noise: Noise,
    ) -> Drawn:
        """Merge fresh noise into the common synopsis, then add noise for the local one.

        A version that exists is never drawn again: a second copy at the same level would reveal
        more.
        """
        if not step.source:
            return Drawn()
        path = state.paths.get(view, [])
        versions = []
        if step.fresh:
            versions = [gaussian_version(path, step.source, exact, sensitivity, noise)]
        synopsis = (versions or path[-1:])[0]
        extra = variance_of(sensitivity, step.level) - variance_of(sensitivity, synopsis.level)
        vector = synopsis.vector
        if extra > 0:
            vector = tuple(gaussian_around(vector, 1, Fraction(extra), noise))
        return Drawn(versions, Local(step.level, synopsis.level, vector))

    def together(self, state: Synopses, view: str, rows: Iterable[str]) -> PrivacyLoss:
        """Return the exact rho of the synopses; for nominal losses the sum, at most the column."""
        rows = list(rows)
        level = self._known(state, view, rows)
        if state.privacy is not BASIC:
            return PrivacyLoss.of(level, state.privacy)
        cells, column = sum((state.cell(row, view) for row in rows), NONE), state.column(view)
        cells_total, column_total = (
            (loss.epsilon or _ZERO, loss.delta) for loss in (cells, column)
        )
        return PrivacyLoss(level, *min(cells_total, column_total))

    @staticmethod
    def _known(
        state: Synopses, view: str, rows: Iterable[str], new: Local | None = None
    ) -> Fraction:
        """Return the level of the best estimate from all synopses of some accounts."""
        synopses = [local for row in rows for local in state.locals.get((row, view), {}).values()]
        return star_level([*synopses, *([] if new is None else [new])])


def star_level(made: Iterable[Local]) -> Fraction:
    """Return the joint precision of several synopses: the level of their best estimate, rounded up.

    1' K^-1 1 / 2 for K_kl = min of the variances of the sources of k and l, K_kk = own variance
    (docs/methods/dprovdb.md, theorem 9). The sources form a random walk, so their precisions pass
    from the coarsest to the finest: precision I about a source gives I / (1 + I d) about one that
    is finer by the variance d, and each synopsis adds the inverse of its extra noise.
    """
    attached: dict[Fraction, list[Fraction]] = {}
    best = total = _ZERO
    for local in made:
        best, total = max(best, local.level), total + local.level
        source = max(local.source, local.level)
        attached.setdefault(source, []).append(1 / (2 * local.level) - 1 / (2 * source))
    precision, before = 0.0, _ZERO
    for source in sorted(attached):
        variance = 1 / (2 * source)
        precision = _passed(precision, float(before - variance))
        extras = attached[source]
        precision = (
            math.inf if min(extras) == 0 else precision + sum(1 / float(extra) for extra in extras)
        )
        before = variance
    if not attached:
        return _ZERO
    level = Fraction(_passed(precision, float(before)) / 2 * (1 + 1e-12))
    # all three bounds are proven (docs/methods/dprovdb.md, theorem 9)
    return min(max(level, best), max(attached), total)


def _passed(precision: float, variance: float) -> float:
    """Return what remains of a precision after adding noise of a variance."""
    if precision == math.inf:
        return 1 / variance
    return precision / (1 + precision * variance)


def epsilon_of_level(level: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest epsilon for which noise at a level is (epsilon, delta)-DP, rounded up."""
    return ceiling_digits(epsilon_shown(level, delta, GDP))


def level_of_epsilon(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest level that is (epsilon, delta)-DP, rounded down."""
    return rho_within(epsilon, delta, GDP)


def _price(state: Synopses, target: LevelTarget) -> PrivacyLoss:
    if state.privacy is not BASIC:
        return PrivacyLoss.of(target.level, state.privacy)
    delta = state.release_delta
    epsilon = epsilon_of_level(target.level, delta) if target.epsilon is None else target.epsilon
    return PrivacyLoss(target.level, epsilon, delta)


MECHANISMS: Mapping[Name, Mechanism] = {
    "path": Path(), "additive": Additive(), "vanilla": Vanilla(),
}  # fmt: skip
