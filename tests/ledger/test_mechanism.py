"""Three ways to serve several analysts from one view, and what each of them knows.

T, E and S numbers are those of docs/methods/dprovdb.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpnb.ledger.mechanism import (
    MECHANISMS,
    NONE,
    Drawn,
    LevelTarget,
    Local,
    Name,
    Step,
    Synopses,
    level_of_epsilon,
    star_level,
)
from dpnb.privacy.definition import BASIC, GDP, ZCDP, PrivacyDefinition
from dpnb.privacy.gaussian import epsilon_from, log_delta, sigma_from
from dpnb.privacy.loss import PrivacyLoss
from dpnb.privacy.noise import Noise, SecureNoise
from dpnb.privacy.path import Version, gaussian_version, insert
from tests.kit.noise import NoNoise

LONG = os.environ.get("DPNB_LONG") == "1"
DELTA = Fraction(1, 10**9)
UNIT = 2**21
"""Sensitivity in lattice units."""
FLOOR = 1e-9
CLOSE = 1e-9
E1 = 0.535148231553
"""The epsilon of variance 100 (T2)."""


def level_of(variance: float) -> Fraction:
    """The level at which a view of sensitivity 1 has this noise variance."""
    return 1 / (2 * Fraction(variance))


def variance_of(level: Fraction) -> float:
    return float(1 / (2 * level))


def budget(epsilon: str) -> LevelTarget:
    """What an analyst targets who names an epsilon."""
    exact = Fraction(epsilon)
    return LevelTarget(level_of_epsilon(exact, DELTA), exact)


def accuracy(variance: float) -> LevelTarget:
    """What an analyst targets who names a variance."""
    return LevelTarget(level_of(variance))


class Desk:
    """Serves targets from one view or several, as an accountant does."""

    def __init__(
        self, mechanism: Name, privacy: PrivacyDefinition, noise: Noise | None = None
    ) -> None:
        self.mechanism = MECHANISMS[mechanism]
        self.state = Synopses(privacy, DELTA)
        self.noise = noise
        self.exact: Sequence[int] = ()

    def ask(self, row: str, target: LevelTarget, view: str = "v") -> Step:
        """Serve a target; draws when there is noise to draw."""
        step = self.mechanism.step(self.state, row, view, target)
        if self.noise is not None:
            exact = self.exact if step.fresh else None
            drawn = self.mechanism.draw(self.state, view, step, exact, UNIT, self.noise)
            self.keep(row, view, drawn)
        self.state.note(row, view, step)
        return step

    def keep(self, row: str, view: str, drawn: Drawn) -> None:
        for version in drawn.versions:
            insert(self.state.paths.setdefault(view, []), version)
        if drawn.local is not None:
            made = self.state.locals.setdefault((row, view), {})
            assert drawn.local.level not in made
            made[drawn.local.level] = drawn.local

    def vector(self, row: str, view: str = "v") -> np.ndarray:
        """The errors of the finest version that a row holds, in counts."""
        level = self.state.level(row, view)
        if (row, view) in self.state.locals and self.state.locals[row, view][level].vector:
            found = self.state.locals[row, view][level].vector
        else:
            found = next(k.vector for k in self.state.paths[view] if k.level == level)
        return (np.array(found) - np.array(self.exact)) / UNIT

    def epsilon(self, *rows: str, views: Iterable[str] = ("v",)) -> float:
        """The exact epsilon of what some rows know."""
        rho = sum(self.mechanism.together(self.state, view, rows).rho for view in views)
        return epsilon_from(math.sqrt(2 * rho), float(DELTA))

    def cells(self) -> dict[str, float]:
        """What each row nominally knows."""
        return {row: float(cell.epsilon) for (row, _), cell in self.state.cells.items()}


def nominal(loss: PrivacyLoss) -> float:
    assert loss.epsilon is not None
    return float(loss.epsilon)


class TestTraces:
    def test_epsilons_are_asked_for(self) -> None:
        """T7: by adding up; the table costs what the finest costs."""
        desk = Desk("additive", BASIC)
        trace = [
            ("alice", "0.5", {"alice": 0.5}, 0.5),
            ("bob", "0.3", {"alice": 0.5, "bob": 0.3}, 0.5),
            ("bob", "0.7", {"alice": 0.5, "bob": 0.7}, 0.7),
            ("alice", "0.6", {"alice": 0.7, "bob": 0.7}, 0.7),
        ]
        for row, epsilon, cells, column in trace:
            desk.ask(row, budget(epsilon))
            assert desk.cells() == pytest.approx(cells, rel=CLOSE)
            assert nominal(desk.state.column("v")) == pytest.approx(column, rel=CLOSE)
        # the exact losses after it
        for rows in (("alice",), ("bob",), ("alice", "bob")):
            assert desk.epsilon(*rows) == pytest.approx(0.543005252121, rel=CLOSE)

    TRACE = (("A1", 100), ("A2", 150), ("A2", 50), ("A1", 60), ("A1", 65))

    def test_accuracies_are_asked_for(self) -> None:
        """T8: additive, by adding up."""
        desk = Desk("additive", BASIC)
        steps = [desk.ask(row, accuracy(variance)) for row, variance in self.TRACE]
        assert [nominal(step.column) for step in steps] == pytest.approx(
            [E1, E1, 2 * E1, 2 * E1, 2 * E1], rel=CLOSE
        )
        assert [nominal(step.cell) for step in steps] == pytest.approx(
            [E1, 0.433301043685, 1.07029646311, 1.07029646311, 1.07029646311], rel=CLOSE
        )
        # the fresh part of the third has variance 100, and brings the view to 50
        assert [variance_of(step.fresh) if step.fresh else None for step in steps] == (
            [pytest.approx(100), None, pytest.approx(100), None, None]
        )
        assert variance_of(desk.state.finest["v"]) == pytest.approx(50)
        assert [variance_of(step.level) for step in steps] == pytest.approx([100, 150, 50, 60, 60])
        # 65 is free: 60 is held
        assert steps[-1].cell == steps[-2].cell

    def test_a_synopsis_that_others_refined_has_all_their_deltas(self) -> None:
        """With one delta for all, epsilon 0.53 was charged where 0.67 is true."""
        desk = Desk("additive", BASIC)
        desk.state.release_delta = delta = Fraction(1, 100)
        for refined in range(1, 21):
            level = refined * Fraction("4e-4")
            step = desk.ask("bob" if refined == 20 else "alice", LevelTarget(level))
            assert step.cell == step.column
            assert step.cell.delta == refined * delta
            assert log_delta(nominal(step.cell), math.sqrt(2 * level)) <= math.log(step.cell.delta)

    def test_a_hair_more_than_others_spent_draws_nothing(self) -> None:
        """Its epsilon is less than what is kept back for the lattice."""
        desk = Desk("additive", BASIC)
        desk.ask("alice", budget("0.5"))
        step = desk.ask("bob", budget("0.5000000000001"))
        assert step.fresh == 0
        assert step.cell.epsilon == Fraction("0.5000000000001")
        assert step.cell.delta == desk.state.release_delta

    def test_accuracies_from_independent_noise(self) -> None:
        """T8: vanilla."""
        desk = Desk("vanilla", BASIC)
        for row, variance in self.TRACE:
            desk.ask(row, accuracy(variance))
        assert desk.cells() == pytest.approx({"A1": 1.23360998977, "A2": 1.20151275648}, rel=CLOSE)
        assert nominal(desk.state.column("v")) == pytest.approx(2.43512274625, rel=CLOSE)

    @pytest.mark.parametrize("privacy", [GDP, ZCDP])
    @pytest.mark.parametrize(
        ("mechanism", "first"), [("additive", 0.708806705197), ("path", 0.698461758218)]
    )
    def test_accuracies_with_exact_losses(
        self, mechanism: Name, first: float, privacy: PrivacyDefinition
    ) -> None:
        """T8: star counted exactly, and paths."""
        desk = Desk(mechanism, privacy)
        for row, variance in self.TRACE:
            desk.ask(row, accuracy(variance))
        rows = ("A1", "A2")
        assert desk.epsilon("A1") == pytest.approx(first, rel=CLOSE)
        assert desk.epsilon("A2") == pytest.approx(0.768211712796, rel=CLOSE)
        assert desk.epsilon(*rows) == pytest.approx(0.768211712796, rel=CLOSE)
        assert desk.mechanism.together(desk.state, "v", rows) == desk.state.column("v")


class TestCombination:
    @pytest.mark.parametrize(
        ("delta", "old", "fresh", "share", "merged"),
        [
            (1e-9, 113.932073219, 663.762900461, 0.146499690849, 97.2410597146),
            (1e-5, 49.4465863954, 265.824766606, 0.156838183757, 41.6914735922),
        ],
    )
    def test_variances_after_a_half_and_a_fifth(
        self, delta: float, old: float, fresh: float, share: float, merged: float
    ) -> None:
        """T5, E13: what is kept of the view is the new total, not the fresh part."""
        desk = Desk("additive", BASIC)
        desk.state.release_delta = exact = Fraction(str(delta))
        for epsilon in ("0.5", "0.7"):
            wanted = Fraction(epsilon)
            step = desk.ask("a", LevelTarget(level_of_epsilon(wanted, exact), wanted))
        assert variance_of(step.source - step.fresh) == pytest.approx(old, rel=CLOSE)
        assert variance_of(step.fresh) == pytest.approx(fresh, rel=CLOSE)
        assert float(step.fresh / step.source) == pytest.approx(share, rel=CLOSE)
        assert variance_of(step.source) == pytest.approx(merged, rel=CLOSE)
        assert nominal(step.column) == pytest.approx(0.7, rel=CLOSE)
        assert step.column.delta == 2 * exact

    def test_vectors_of_figure_2(self) -> None:
        """T5: to 1e-8 in counts, the lattice being finer."""
        old = [3.5, 4.3, 2.8, 9.6, 5.1, 0.4]
        fresh = [3.1, 3.9, 2.9, 9.2, 5.1, 0.9]
        scale = 10**10

        first = level_of(113.932073219)
        second = first + level_of(663.762900461)
        path = [Version(first, tuple(round(value * scale) for value in old))]
        given = [round(value * scale) for value in fresh]
        version = gaussian_version(path, second, given, scale, NoNoise())
        assert [value / scale for value in version.vector] == pytest.approx(
            [3.44140012, 4.24140012, 2.81464997, 9.54140012, 5.1, 0.47324985], abs=1e-8
        )

    @pytest.mark.parametrize("mechanism", ["additive", "path"])
    @pytest.mark.parametrize(
        ("target", "held", "fresh"),
        [(80, 100, 400), (50, 100, 100), (99, 100, 9900), (10, 100, 11.1111111111)],
    )
    def test_what_a_refinement_needs(
        self, mechanism: Name, target: float, held: float, fresh: float
    ) -> None:
        """T6: f = t v / (v - t), and the old one keeps the weight t / v."""
        desk = Desk(mechanism, GDP)
        desk.ask("a", accuracy(held))
        step = desk.ask("b", accuracy(target))
        assert variance_of(step.fresh) == pytest.approx(fresh, rel=CLOSE)
        finest = desk.state.finest["v"]
        assert float(1 - step.fresh / finest) == pytest.approx(target / held, rel=CLOSE)

    def test_a_refinement_of_a_refinement(self) -> None:
        """T6: 60 after .5 and .2."""
        desk = Desk("additive", BASIC)
        for epsilon in ("0.5", "0.7"):
            desk.ask("a", budget(epsilon))
        step = desk.ask("b", accuracy(60))
        assert variance_of(step.fresh) == pytest.approx(156.667496242, rel=CLOSE)
        assert nominal(step.column) == pytest.approx(1.1236048863, rel=CLOSE)

    @pytest.mark.parametrize("mechanism", ["additive", "path"])
    @pytest.mark.parametrize("target", [100, 120, 1e6])
    def test_what_is_fine_enough_is_not_refined(self, mechanism: Name, target: float) -> None:
        """E12: a case of its own; the printed objective has no maximum there."""
        desk = Desk(mechanism, GDP)
        first = desk.ask("a", accuracy(100))
        step = desk.ask("b", accuracy(target))
        assert step.fresh == 0
        assert step.column == first.column

    def test_two_locals_of_one_analyst_together(self) -> None:
        """T17: variance 54.23, from 130 beside 60."""
        made = [
            Local(level_of(130), level_of(100), ()), Local(level_of(60), 3 * level_of(100), ()),
        ]  # fmt: skip
        assert variance_of(star_level(made)) == pytest.approx(54.2342342342, rel=CLOSE)

    def test_a_bridge_between_two_versions(self) -> None:
        """T16: mean 11.33 and variance 16.67 at 50, between 10 at 25 and 14 at 100."""
        asked = []

        class Noted:
            def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
                asked.append((exact[0] / UNIT, (sigma / UNIT) ** 2))
                return list(exact)

        desk = Desk("path", GDP, Noted())
        desk.state.paths["v"] = [
            Version(level_of(100), (14 * UNIT,)), Version(level_of(25), (10 * UNIT,)),
        ]  # fmt: skip
        desk.state.finest["v"] = level_of(25)
        step = desk.ask("a", accuracy(50))
        assert asked == [(pytest.approx(11.3333333333, rel=1e-6), pytest.approx(16.6666666667))]
        assert step.fresh == 0
        # the same again: the identical vector, and no charge
        held = desk.vector("a") if desk.exact else desk.state.paths["v"][1]
        again = desk.ask("a", accuracy(50))
        assert len(asked) == 1
        assert again.cell == step.cell
        assert desk.state.paths["v"][1] == held


class TestCoalitions:
    LEVELS = tuple(level_of_epsilon(Fraction(e), DELTA) for e in ("1", "0.5", "0.3"))

    def served(self, mechanism: Name) -> Desk:
        desk = Desk(mechanism, GDP)
        for row, level in zip("123", self.LEVELS, strict=True):
            desk.ask(row, LevelTarget(level))
        return desk

    def test_variances_are_those_of_the_epsilons(self) -> None:
        """T9."""
        assert [variance_of(level) for level in self.LEVELS] == pytest.approx(
            [30.1979501389, 113.932073219, 304.164394948], rel=CLOSE
        )

    def test_a_coalition_of_the_coarse_knows_more_than_its_best_in_a_star(self) -> None:
        """T9 and E1."""
        desk = self.served("additive")
        known = desk.mechanism.together(desk.state, "v", "23")
        assert float(2 * known.rho) == pytest.approx(0.0106009966848, rel=CLOSE)
        assert desk.epsilon("2", "3") == pytest.approx(0.551670210384, rel=CLOSE)
        assert desk.epsilon("1", "2", "3") == pytest.approx(1, rel=CLOSE)
        assert desk.epsilon("2") == pytest.approx(0.5, rel=CLOSE)

    def test_on_a_path_it_knows_what_its_best_knows(self) -> None:
        """T9: exactly."""
        desk = self.served("path")
        for rows, expected in (("23", 1), ("13", 0), ("123", 0), ("3", 2), ("12", 0)):
            found = desk.mechanism.together(desk.state, "v", rows)
            assert found == PrivacyLoss(rho=self.LEVELS[expected])
        assert desk.epsilon("2", "3") == pytest.approx(0.5, rel=CLOSE)

    def test_of_independent_noise_it_knows_the_sum(self) -> None:
        """E1: independent noise gives 1.2499 exactly, where epsilons add up to 2."""
        desk = Desk("vanilla", BASIC)
        for row, epsilon in zip("123", ("1", "0.5", "0.5"), strict=True):
            desk.ask(row, budget(epsilon))
        assert desk.epsilon("1", "2", "3") == pytest.approx(1.2499, abs=5e-5)
        assert nominal(desk.mechanism.together(desk.state, "v", "123")) == 2

    @pytest.mark.parametrize(
        ("epsilons", "coalition", "star"),
        [("1 .5 .5", "23", 0.6348), ("1 .5 .3", "23", 0.5517), ("2 .5 .5 .5 .5", "2345", 0.9319)],
    )
    def test_examples_of_subsets(self, epsilons: str, coalition: str, star: float) -> None:
        """E1: on a path each is the largest of them."""
        for mechanism, expected in (("additive", star), ("path", 0.5)):
            desk = Desk(mechanism, GDP)
            for row, epsilon in enumerate(epsilons.split(), start=1):
                desk.ask(str(row), budget(epsilon))
            assert desk.epsilon(*coalition) == pytest.approx(expected, abs=5e-5)
            everybody = [str(row) for row in range(1, len(epsilons.split()) + 1)]
            assert desk.epsilon(*everybody) == pytest.approx(float(epsilons.split()[0]), rel=1e-6)


def dense_level(made: Sequence[Local]) -> float:
    """1' K^-1 1 / 2 by solving, as theorem 9 of docs/methods/dprovdb.md writes it."""
    distinct = list(dict.fromkeys((m.level, m.source) for m in made))
    own = [variance_of(level) for level, _ in distinct]
    source = [variance_of(source) for _, source in distinct]
    k = np.minimum.outer(source, source)
    np.fill_diagonal(k, own)
    return float(np.linalg.solve(k, np.ones(len(own))).sum() / 2)


class TestStarLevel:
    def test_against_a_dense_solution_and_both_bounds(self) -> None:
        """E9: I = 1' K^-1 1, at most 1/v, and at most the sum of the precisions."""
        generator = np.random.default_rng(9)
        loose = 0.0
        for _ in range(20_000 if LONG else 500):
            steps = generator.uniform(0.1, 10, generator.integers(1, 5))
            sources = list(np.cumsum(steps))  # precisions of the synopsis of all, as it is refined
            made = []
            for _ in range(generator.integers(1, 7)):
                source = generator.choice(sources)
                level = source * (1 if generator.random() < 0.2 else generator.uniform(0.02, 0.98))
                made.append(Local(Fraction(level) / 2, Fraction(source) / 2, ()))
            # identical vectors are one
            whole = {m.source: m for m in made if m.level == m.source}
            made = [m for m in made if m.level != m.source] + list(whole.values())
            found, exact = float(star_level(made)), dense_level(made)
            assert exact <= found * (1 + 1e-9)
            assert found <= exact * (1 + 1e-9)
            levels, tops = [m.level for m in made], [m.source for m in made]
            assert max(levels) <= star_level(made) <= min(sum(levels), max(tops))
            loose = max(loose, min(float(sum(levels)), float(max(tops))) / exact)
        assert loose > 1.5

    def test_one_synopsis_is_its_own_level(self) -> None:
        assert star_level([Local(Fraction(1, 3), Fraction(2, 3), ())]) == Fraction(1, 3)
        assert star_level([]) == 0

    def test_who_holds_the_synopsis_itself_learns_nothing_from_noisier_ones(self) -> None:
        made = [
            Local(Fraction(1, 2), Fraction(1, 2), ()),
            Local(Fraction(1, 3), Fraction(1, 2), ()),
        ]
        assert star_level(made) == Fraction(1, 2)

    @settings(max_examples=40)
    @given(
        st.lists(
            st.tuples(st.fractions(Fraction(1, 100), 1), st.fractions(0, 1)), min_size=1, max_size=6
        ),
        st.fractions(Fraction(1, 100), 1),
    )
    def test_more_synopses_never_tell_less(
        self, given_: list[tuple[Fraction, Fraction]], extra: Fraction
    ) -> None:
        made = [Local(level, min(level + more, Fraction(2)), ()) for level, more in given_]
        assert star_level([*made, Local(extra, Fraction(2), ())]) >= star_level(made) * (
            1 - Fraction(1, 10**9)
        )


class TestAdditive:
    def test_local_noise_rests_on_the_actual_variance(self) -> None:
        """E6: alice asks .6 of what is called .7, and gets it at variance 97, not 118."""
        desk = Desk("additive", BASIC)
        desk.ask("alice", budget("0.5"))
        desk.ask("bob", budget("0.7"))
        step = desk.ask("alice", budget("0.6"))
        assert variance_of(step.level) == pytest.approx(97.2410597146, rel=CLOSE)
        assert variance_of(step.level) < sigma_from(0.5, 1e-9) ** 2
        assert nominal(step.cell) == pytest.approx(0.7, rel=CLOSE)

    def test_who_cannot_be_served_better_pays_nothing(self) -> None:
        """E6: the synopsis is worse than its name, and she holds it already."""
        desk = Desk("additive", BASIC)
        for epsilon in ("0.1", "0.2", "0.3"):
            desk.ask("alice", budget(epsilon))
        before = desk.state.cell("alice", "v")
        assert desk.state.level("alice", "v") < level_of_epsilon(Fraction(3, 10), DELTA)
        step = desk.ask("alice", budget("0.29"))
        assert (step.cell, step.fresh, step.source) == (before, 0, 0)

    @pytest.mark.parametrize("mechanism", ["path", "additive", "vanilla"])
    def test_what_is_held_is_compared_by_variance(self, mechanism: Name) -> None:
        """E8: not by the epsilons that were added up."""
        desk = Desk(mechanism, GDP if mechanism == "path" else BASIC)
        for variance in (400, 300, 200):
            desk.ask("a", accuracy(variance))
        known = desk.state.cell("a", "v")
        assert desk.ask("a", accuracy(250)).cell == known
        finer = desk.ask("a", accuracy(150))
        assert finer.cell != known
        assert variance_of(finer.level) == pytest.approx(150)

    @pytest.mark.parametrize("privacy", [GDP, ZCDP, BASIC])
    def test_what_is_held_is_never_drawn_again(self, privacy: PrivacyDefinition) -> None:
        """E10: another copy of equal level would tell more, and cost nothing."""
        desk = Desk("additive", privacy, SecureNoise())
        desk.exact = [0] * 50
        desk.ask("bob", accuracy(1))
        desk.ask("alice", accuracy(100))
        held = desk.vector("alice")
        for variance in (100, 150, 1000):
            step = desk.ask("alice", accuracy(variance))
            assert step.source == step.fresh == 0
            assert np.array_equal(desk.vector("alice"), held)
        assert len(desk.state.locals["alice", "v"]) == 1

    @pytest.mark.parametrize("count", [10, 50])
    def test_locals_are_made_from_the_stored_synopsis(self, count: int) -> None:
        """E10: ten locals at .5 know .5 together; drawn from the data they would know 1.669."""
        desk = Desk("additive", GDP, SecureNoise())
        desk.exact = [0] * 4
        for row in range(count):
            step = desk.ask(str(row), budget("0.5"))
            assert bool(step.fresh) == (row == 0)
        everybody = [str(row) for row in range(count)]
        assert desk.epsilon(*everybody) == pytest.approx(0.5, rel=CLOSE)
        drawn_anew = epsilon_from(
            math.sqrt(2 * count * level_of_epsilon(Fraction(1, 2), DELTA)), 1e-9
        )
        assert drawn_anew == pytest.approx({10: 1.669, 50: 3.938}[count], abs=5e-4)
        assert len({tuple(desk.vector(row)) for row in everybody}) == 1

    def test_a_local_is_never_made_from_the_exact_vector(self) -> None:
        """E11: .69 from .7 would have been the exact counts plus a variance of 1.67: 4.66."""
        asked: list[tuple[tuple[int, ...], float]] = []

        class Noted:
            def gaussian(self, exact: Sequence[int], sigma: float) -> list[int]:
                asked.append((tuple(exact), sigma))
                return [value + UNIT * 5 for value in exact]

        desk = Desk("additive", BASIC, Noted())
        desk.exact = [1000 * UNIT]
        desk.ask("a", budget("0.7"))
        desk.ask("b", budget("0.69"))
        (data, first), (base, extra) = asked
        assert data == (1000 * UNIT,)
        assert base == (1005 * UNIT,)
        assert (extra / UNIT) ** 2 == pytest.approx(1.67, abs=5e-3)
        assert first / UNIT == pytest.approx(sigma_from(0.7, 1e-9), rel=CLOSE)
        assert epsilon_from(UNIT / extra, 1e-9) == pytest.approx(4.66, abs=5e-3)
        assert desk.epsilon("b") == pytest.approx(0.69, rel=CLOSE)
        assert desk.cells()["b"] == pytest.approx(0.69, rel=CLOSE)

    def test_a_local_needs_no_data_and_a_refinement_does(self) -> None:
        desk = Desk("additive", GDP, SecureNoise())
        desk.exact = [0, 0]
        desk.ask("a", accuracy(100))
        step = desk.mechanism.step(desk.state, "b", "v", accuracy(50))
        with pytest.raises(ValueError, match="exact"):
            desk.mechanism.draw(desk.state, "v", step, None, UNIT, SecureNoise())
        coarse = desk.mechanism.step(desk.state, "b", "v", accuracy(200))
        drawn = desk.mechanism.draw(desk.state, "v", coarse, None, UNIT, SecureNoise())
        assert drawn.local is not None
        assert not drawn.versions

    def test_a_tried_step_counts_for_the_next_one(self) -> None:
        """As a list of statements is priced: what the first would draw is known to the second."""
        desk = Desk("additive", GDP)
        desk.ask("bob", accuracy(1))
        tried, mechanism = desk.state.sketch(), desk.mechanism
        first = mechanism.step(tried, "alice", "v", accuracy(100))
        tried.note("alice", "v", first)
        second = mechanism.step(tried, "alice", "v", accuracy(50))
        assert second.cell.rho > level_of(50)
        assert desk.state.level("alice", "v") == 0
        assert ("alice", "v") not in desk.state.locals
        desk.ask("alice", accuracy(100))
        assert desk.mechanism.step(desk.state, "alice", "v", accuracy(50)) == second

    def test_it_shows_no_vector(self) -> None:
        local = Local(Fraction(1, 2), Fraction(1), (48_611,))
        assert "48611" not in repr(local)
        with pytest.raises(TypeError, match="cannot be pickled"):
            local.__reduce__()
        assert "48611" not in repr(Synopses(GDP, DELTA, locals={("a", "v"): {local.level: local}}))


targets = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from("vw"),
        st.fractions(Fraction(1, 1000), Fraction(2), max_denominator=1000),
        st.booleans(),
    ),
    min_size=1,
    max_size=15,
)
PAIRS: tuple[tuple[Name, PrivacyDefinition], ...] = (
    ("path", ZCDP), ("path", GDP), ("additive", ZCDP), ("additive", GDP),
    ("additive", BASIC), ("vanilla", ZCDP), ("vanilla", GDP), ("vanilla", BASIC),
)  # fmt: skip


def wanted(amount: Fraction, named: bool, privacy: PrivacyDefinition) -> LevelTarget:
    """A level, or where epsilons are counted an epsilon."""
    if privacy == BASIC and named:
        return LevelTarget(level_of_epsilon(amount, DELTA), amount)
    return LevelTarget(amount / 100)


class TestAnySequence:
    @settings(max_examples=50)
    @given(targets, st.sampled_from(PAIRS))
    def test_invariants(
        self, asked: list[tuple[str, str, Fraction, bool]], pair: tuple[Name, PrivacyDefinition]
    ) -> None:
        """T19: nothing decreases, nobody knows more than all, and every target for a variance is met."""
        mechanism, privacy = pair
        desk = Desk(mechanism, privacy)
        slack = Fraction(1, 10**9)
        for row, view, amount, named in asked:
            target = wanted(amount, named, privacy)
            cell, column = desk.state.cell(row, view), desk.state.column(view)
            step = desk.ask(row, target, view)
            for before, after in ((cell, step.cell), (column, step.column)):
                assert after.level(privacy) >= before.level(privacy)
                assert after.rho >= before.rho
                assert after.delta >= before.delta
            assert step.cell.level(privacy) <= step.column.level(privacy) * (1 + slack)
            # who named an epsilon gets the level that the synopsis has at that epsilon
            if privacy != BASIC or not named or mechanism == "vanilla":
                assert desk.state.level(row, view) >= target.level
            # what is known in truth is at most what is counted
            for rows in ("a", "b", "ab", "abc"):
                known = desk.mechanism.together(desk.state, view, rows)
                cells = [desk.state.cell(one, view) for one in rows]
                sums = sum(one.level(privacy) for one in cells)
                assert known.level(privacy) <= sums * (1 + slack)
                assert known.level(privacy) <= step.column.level(privacy) * (1 + slack)
        if mechanism != "vanilla":
            for view in desk.state.columns:
                whole = desk.mechanism.together(desk.state, view, "abc")
                best = max(desk.state.cell(row, view).level(privacy) for row in "abc")
                # someone always holds the finest
                assert best >= desk.state.column(view).level(privacy) * (1 - slack)
                assert whole.rho >= desk.state.finest[view] * (1 - slack)

    @settings(max_examples=40)
    @given(targets, st.sampled_from(PAIRS))
    def test_views_do_not_depend_on_each_other(
        self, asked: list[tuple[str, str, Fraction, bool]], pair: tuple[Name, PrivacyDefinition]
    ) -> None:
        """T19: permuting independent views changes no cost."""
        mechanism, privacy = pair
        one, other = Desk(mechanism, privacy), Desk(mechanism, privacy)
        for row, view, amount, named in asked:
            one.ask(row, wanted(amount, named, privacy), view)
        for row, view, amount, named in sorted(asked, key=lambda target: target[1]):
            other.ask(row, wanted(amount, named, privacy), view)
        assert one.state.cells == other.state.cells
        assert one.state.columns == other.state.columns

    @settings(max_examples=25)
    @given(targets, st.sampled_from(PAIRS))
    def test_trying_changes_nothing(
        self, asked: list[tuple[str, str, Fraction, bool]], pair: tuple[Name, PrivacyDefinition]
    ) -> None:
        mechanism, privacy = pair
        desk = Desk(mechanism, privacy)
        for row, view, amount, named in asked[:-1]:
            desk.ask(row, wanted(amount, named, privacy), view)
        before = desk.state.sketch()
        row, view, amount, named = asked[-1]
        tried = desk.state.sketch()
        tried.note(row, view, desk.mechanism.step(tried, row, view, wanted(amount, named, privacy)))
        assert desk.state == before


def spread(sample: np.ndarray, variance: float) -> bool:
    """Whether centred normal numbers may well have this variance."""
    total = float((sample**2).sum()) / variance
    tail = min(stats.chi2.cdf(total, sample.size), stats.chi2.sf(total, sample.size))
    return bool(2 * tail > FLOOR)


def covary(a: np.ndarray, b: np.ndarray, covariance: float) -> bool:
    """Whether two centred normal samples may well have this covariance."""
    deviation = math.sqrt((a.var() * b.var() + covariance**2) / a.size)
    z = ((a * b).mean() - covariance) / deviation
    return bool(2 * stats.norm.sf(abs(z)) > FLOOR)


def draw(
    mechanism: Name, size: int, targets: Iterable[tuple[str, LevelTarget]]
) -> tuple[Desk, dict[str, np.ndarray]]:
    """Serve targets with real noise; each row's errors."""
    desk = Desk(mechanism, GDP, SecureNoise())
    desk.exact = [7 * UNIT] * size
    errors: dict[str, np.ndarray] = {}
    for row, target in targets:
        desk.ask(row, target)
        errors[row] = desk.vector(row)
    return desk, errors


def three() -> list[tuple[str, LevelTarget]]:
    """S1: analysts at epsilon 1, .5 and .3."""
    return [(row, budget(e)) for row, e in zip("123", ("1", "0.5", "0.3"), strict=True)]


@pytest.fixture(scope="module")
def star(size: Callable[[int], int]) -> dict[str, np.ndarray]:
    """S1: three analysts of one synopsis."""
    return draw("additive", size(20_000), three())[1]


@pytest.fixture(scope="module")
def chain(size: Callable[[int], int]) -> dict[str, np.ndarray]:
    """S1: three analysts of one path."""
    return draw("path", size(20_000), three())[1]


class TestLaw:
    """The real noise: one draw of a vector is one sample for each of its bins."""

    VARIANCES = (30.1979501389, 113.932073219, 304.164394948)

    def test_each_has_the_variance_that_was_paid_for(
        self, star: dict[str, np.ndarray], chain: dict[str, np.ndarray]
    ) -> None:
        """S1."""
        for made in (star, chain):
            for row, variance in zip("123", self.VARIANCES, strict=True):
                assert spread(made[row], variance)
                assert not spread(made[row], variance * 1.15)
                assert not spread(made[row], variance / 1.15)

    def test_locals_of_a_star_share_the_noise_of_their_source(
        self, star: dict[str, np.ndarray]
    ) -> None:
        """S1: covariance 30.2; a local drawn from the exact vector would have 0."""
        top, coarse, _ = self.VARIANCES
        for a, b in ("12", "13", "23"):
            assert covary(star[a], star[b], top)
            assert not covary(star[a], star[b], 0)
        assert not covary(star["2"], star["3"], coarse)
        fresh = np.array(SecureNoise().gaussian([0] * star["2"].size, math.sqrt(coarse) * UNIT))
        assert not covary(fresh / UNIT, star["3"], top)

    def test_versions_of_a_path_share_the_noise_of_the_finer_one(
        self, chain: dict[str, np.ndarray]
    ) -> None:
        """S1: covariance of the second and third is 113.9."""
        for a, b in ("12", "13", "23"):
            smaller = self.VARIANCES[int(a) - 1]
            assert covary(chain[a], chain[b], smaller)
            assert not covary(chain[a], chain[b], 0)
        assert not covary(chain["2"], chain["3"], self.VARIANCES[0])

    def test_a_refined_synopsis(self, size: Callable[[int], int]) -> None:
        """S2: .5 and then .2: variance 97.24, which is also the covariance with the old one."""
        desk = Desk("additive", BASIC, SecureNoise())
        desk.exact = [7 * UNIT] * size(20_000)
        errors = []
        for row, epsilon in (("a", "0.5"), ("b", "0.7")):
            desk.ask(row, budget(epsilon))
            errors.append(desk.vector(row))
        merged = 97.2410597146
        assert spread(errors[1], merged)
        assert not spread(errors[1], 59.748)  # what .7 would be at once
        assert not spread(errors[1], 113.93)
        assert covary(errors[0], errors[1], merged)
        assert not covary(errors[0], errors[1], 113.93)

    def test_a_path_in_any_order(self, size: Callable[[int], int]) -> None:
        """S3: 100, 40, 70, 160, 25, 30; every covariance is the smaller variance."""
        order = (100, 40, 70, 160, 25, 30)
        targets = [(str(variance), accuracy(variance)) for variance in order]
        _, errors = draw("path", size(20_000), targets)
        for one in order:
            for other in order:
                smaller = min(one, other)
                assert covary(errors[str(one)], errors[str(other)], smaller)
                assert not covary(errors[str(one)], errors[str(other)], smaller * 1.25)
                assert not covary(errors[str(one)], errors[str(other)], smaller / 1.25)

    def test_a_bridge_that_is_drawn_twice_is_told_apart(self, size: Callable[[int], int]) -> None:
        """S3: the second draw between the same neighbours is independent of the first: a leak."""
        desk, errors = draw(
            "path", size(20_000), [("a", accuracy(100)), ("b", accuracy(25)), ("c", accuracy(50))]
        )
        (middle,) = (k for k in desk.state.paths["v"] if k.level == level_of(50))
        desk.state.paths["v"].remove(middle)
        again = gaussian_version(desk.state.paths["v"], level_of(50), None, UNIT, SecureNoise())
        second = (np.array(again.vector) - np.array(desk.exact)) / UNIT
        assert spread(second, 50)
        assert not covary(errors["c"], second, 50)

    def test_a_count_over_three_bins_meets_its_error(self, size: Callable[[int], int]) -> None:
        """S4: mean squared error 300, and no bias."""
        count = size(20_000)
        _, errors = draw("path", 3 * count, [("a", accuracy(300 / 3))])
        answers = errors["a"].reshape(count, 3).sum(axis=1)
        assert spread(answers, 300)
        assert not spread(answers, 330)
        z = answers.mean() / math.sqrt(300 / count)
        assert 2 * stats.norm.sf(abs(z)) > FLOOR

    def blue(self, made: dict[str, np.ndarray], shared: float) -> np.ndarray:
        """The best estimate of the second and third, whose noises share a variance."""
        _, second, third = self.VARIANCES
        k = np.array([[second, shared], [shared, third]])
        weights = np.linalg.solve(k, np.ones(2))
        weights /= weights.sum()
        return weights[0] * made["2"] + weights[1] * made["3"]

    def test_what_a_coalition_of_the_coarse_can_know(
        self, star: dict[str, np.ndarray], chain: dict[str, np.ndarray]
    ) -> None:
        """S5, T9: the best estimate has variance 94.33 in a star, and 113.93 on a path."""
        known = 1 / 0.0106009966848
        assert spread(self.blue(star, self.VARIANCES[0]), known)
        assert not spread(self.blue(star, self.VARIANCES[0]), self.VARIANCES[1])
        assert spread(self.blue(chain, self.VARIANCES[1]), self.VARIANCES[1])
        assert not spread(self.blue(chain, self.VARIANCES[1]), known)
        # no other weights do better
        for weight in np.linspace(0, 1, 21):
            mixed = weight * star["2"] + (1 - weight) * star["3"]
            assert mixed.var() > known * 0.93

    @pytest.mark.parametrize(
        ("rows", "epsilon", "theory"),
        [("123", 0.3, 0.00436458), ("123", 0.1, 0.0349222), ("23 star", 0.1, 0.0095150),
         ("23 chain", 0.1, 0.0072005)],
    )  # fmt: skip
    def test_an_audit(
        self,
        rows: str,
        epsilon: float,
        theory: float,
        star: dict[str, np.ndarray],
        chain: dict[str, np.ndarray],
    ) -> None:
        """S5: how often z > e on neighbours; with few samples only what is certain is refused."""
        if LONG:
            mechanism: Name = "path" if "chain" in rows else "additive"
            parts = [draw(mechanism, 500_000, three())[1] for _ in range(8)]
            made = {row: np.concatenate([part[row] for part in parts]) for row in "123"}
        else:
            made = chain if "chain" in rows else star
        if rows == "123":
            estimate, variance = made["1"], self.VARIANCES[0]
        else:
            shared = self.VARIANCES["chain" in rows]
            estimate = self.blue(made, shared)
            variance = self.VARIANCES[1] if "chain" in rows else 1 / 0.0106009966848
        # of x against x - 1: z = (y + 1/2) / variance for errors y; the other table has y - 1
        mu = 1 / math.sqrt(variance)
        hits = np.array([(estimate + shift > epsilon * variance - 0.5).mean() for shift in (0, -1)])
        found = hits[0] - math.exp(epsilon) * hits[1]
        exact = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
            -mu / 2 - epsilon / mu
        )
        assert exact == pytest.approx(theory, rel=2e-4)
        # both shares come from one sample, so their errors are correlated: a bound by their sum
        count = estimate.size
        error = sum(
            weight * math.sqrt(hit * (1 - hit) / count)
            for weight, hit in zip((1, math.exp(epsilon)), hits, strict=True)
        )
        assert abs(found - theory) < 6.1 * error
        if LONG and rows != "123":
            other = 0.0072005 if "star" in rows else 0.0095150
            assert abs(found - other) > abs(found - theory)

    def test_released_numbers_lie_on_the_lattice_whatever_the_data(self) -> None:
        """S6, E15: '|y| < 1/4 and no multiple of the lattice' happens to 0 and to 1 alike: never."""
        step = 2.0**-21
        for exact in (0, 1):
            noisy = SecureNoise().gaussian([exact * UNIT] * 20_000, sigma_from(1, 1e-9) * UNIT)
            shown = np.array([value * step for value in noisy])
            near = np.abs(shown) < 0.25
            assert near.sum() > 100
            assert np.count_nonzero(np.mod(shown[near], step)) == 0
        # floats added to floats tell the two apart
        generator = np.random.default_rng(1)
        events = [
            np.count_nonzero((np.abs(y) < 0.25) & (np.mod(y, 2.0**-53) != 0))
            for y in (x + generator.normal(0, 5.495, 20_000) for x in (0.0, 1.0))
        ]
        assert events[0] > 100
        assert events[1] == 0


def test_every_step_of_a_path_is_nested() -> None:
    """The columns of a path rise only where the finest does, by exactly the increase."""
    desk = Desk("path", GDP)
    variances = (100, 40, 70, 160, 25, 30)
    steps = [desk.ask(str(v), accuracy(v)) for v in variances]
    tops = [step.column.rho for step in steps]
    assert tops == [level_of(min(variances[: i + 1])) for i in range(6)]
    for (before, after), step in zip(pairwise([Fraction(0), *tops]), steps, strict=False):
        assert step.fresh == after - before
    assert desk.state.cell("nobody", "v") == NONE
