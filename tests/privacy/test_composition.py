"""Other rules of composition, for reports (docs/methods/accounting.md, statement 16).

T and E numbers are those of docs/methods/dprovdb.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpnb.errors import RequestError
from dpnb.ledger.mechanism import epsilon_of_level, level_of_epsilon
from dpnb.privacy.budget import Budget
from dpnb.privacy.composition import epsilons, kov, rdp_epsilon
from dpnb.privacy.definition import BASIC, GDP, ZCDP
from dpnb.privacy.gaussian import epsilon_from, log_delta, mu_from
from dpnb.privacy.loss import RESERVE, PrivacyLoss, epsilon_shown, rho_within

pytestmark = pytest.mark.fast

CLOSE = 1e-9
DELTA = 1e-9


class TestGdp:
    @pytest.mark.parametrize("accountant", ["gdp", "basic"])
    @pytest.mark.parametrize("epsilon", ["1e-13", 2e-12])
    def test_an_epsilon_of_which_the_reserve_leaves_nothing_is_refused(self, accountant, epsilon):
        with pytest.raises(RequestError, match="epsilon must be above 2e-12"):
            Budget(epsilon=epsilon, delta=1e-6, accountant=accountant)
        assert rho_within(Fraction(epsilon), Fraction("1e-6"), GDP) == 0

    def test_how_much_a_budget_holds(self) -> None:
        """T14."""
        assert mu_from(1, DELTA) ** 2 == pytest.approx(0.0331148304902, rel=CLOSE)
        assert mu_from(0.1, DELTA) ** 2 == pytest.approx(0.000396663921553, rel=CLOSE)

    def test_how_many_releases_at_epsilon_a_tenth_fit_into_one(self) -> None:
        """T14: 83 on the exact curve, 10 by adding up; the caps are those of sessions."""
        cap = Budget(epsilon=1, delta=DELTA, accountant="gdp").cap.rho
        each = level_of_epsilon(Fraction(1, 10), Fraction(DELTA))
        assert cap / each == pytest.approx(83.4833, rel=1e-3)
        assert cap // each == 83
        basic = Budget(epsilon=1, delta="1e-8", accountant="basic").cap
        assert basic.epsilon // Fraction(1, 10) == basic.delta // Fraction(1, 10**9) == 10

    @pytest.mark.parametrize(
        ("count", "epsilon", "together"), [(2, 0.5, 0.717636288515), (4, 0.5, 1.0310953480)]
    )
    def test_independent_releases_together(
        self, count: int, epsilon: float, together: float
    ) -> None:
        """T14 and E1: far below the sum."""
        mu = math.sqrt(count) * mu_from(epsilon, DELTA)
        assert epsilon_from(mu, DELTA) == pytest.approx(together, rel=CLOSE)

    def test_friction_is_an_artefact_of_adding_up(self) -> None:
        """E7: ten steps of 0.1 are 0.3308, a hundred of 0.01 are 0.1099; .5 and .2 are .5430."""
        for steps, epsilon, exact in ((10, 0.1, 0.3308), (100, 0.01, 0.1099)):
            mu = math.sqrt(steps) * mu_from(epsilon, DELTA)
            assert epsilon_from(mu, DELTA) == pytest.approx(exact, abs=5e-5)
        mu = math.hypot(mu_from(0.5, DELTA), mu_from(0.2, DELTA))
        assert epsilon_from(mu, DELTA) == pytest.approx(0.543005252121, rel=CLOSE)

    def test_levels_and_epsilons_are_inverse_on_the_safe_side(self) -> None:
        for epsilon in (Fraction(1, 100), Fraction(1, 2), Fraction(3)):
            level = level_of_epsilon(epsilon, Fraction(DELTA))
            assert epsilon_of_level(level, Fraction(DELTA)) == pytest.approx(float(epsilon))
            assert epsilon_from(math.sqrt(2 * level), DELTA) <= epsilon
            assert epsilon_of_level(level, Fraction(DELTA)) >= epsilon_from(
                math.sqrt(2 * level), DELTA
            )

    @pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (3, 1e-6), (0.1, 1e-9), (5, 1e-15)])
    def test_the_reserve_for_the_lattice_is_kept_back_at_any_budget(
        self, epsilon: float, delta: float
    ) -> None:
        """Bound 8 of docs/methods/accounting.md: noise within e^X of mu-GDP."""
        rho = rho_within(Fraction(epsilon), Fraction(delta), GDP)
        # an absolute slack of delta is worth less in epsilon, the larger the slope of the curve
        worst = log_delta(epsilon - 2 * RESERVE, math.sqrt(2 * rho)) + RESERVE
        assert worst <= math.log(delta) + 1e-14
        assert rho >= rho_within(Fraction(epsilon) * (1 - Fraction(1, 10**9)), Fraction(delta), GDP)
        assert rho <= Fraction(mu_from(epsilon, delta)) ** 2 / 2
        assert epsilon * (1 - 1e-10) <= epsilon_shown(rho, delta, GDP) <= epsilon


class TestRules:
    def test_twenty_releases_of_sigma_10(self) -> None:
        """T14."""
        rho, delta = Fraction(20, 200), 1e-6
        loss = PrivacyLoss(rho=rho)
        found = epsilons(loss, delta, GDP)
        assert epsilon_from(math.sqrt(2 * rho), delta) == pytest.approx(1.99452690070, rel=CLOSE)
        # what is kept back for the lattice
        assert found[GDP] == pytest.approx(1.99452690070, rel=1e-10)
        assert found[GDP] >= epsilon_from(math.sqrt(2 * rho), delta) + 2 * RESERVE
        assert found["rdp"] == rdp_epsilon(rho, delta) == pytest.approx(2.45078800048, rel=CLOSE)
        # the least over all orders, met at 12.754
        orders = [1 + i / 1000 for i in range(1, 40_000)]
        bounds = {a: a * 0.1 + math.log(1 / delta) / (a - 1) for a in orders}
        best = min(bounds, key=bounds.__getitem__)
        assert best == pytest.approx(12.754, abs=2e-3)
        assert bounds[best] == pytest.approx(found["rdp"], rel=1e-7)
        assert found[GDP] < found[ZCDP] < found["rdp"]
        assert 20 * epsilon_from(0.1, delta / 20) == pytest.approx(9.22546, abs=5e-6)

    def test_only_what_the_ledger_counts_is_told(self) -> None:
        loss = PrivacyLoss(Fraction(1, 10), Fraction(2), Fraction(1, 10**9))
        assert set(epsilons(PrivacyLoss(rho=Fraction(1, 10)), 1e-6, ZCDP)) == {"rdp", ZCDP}
        assert set(epsilons(PrivacyLoss(rho=Fraction(1, 10)), 1e-6, GDP)) == {
            "rdp", ZCDP, GDP,
        }  # fmt: skip
        assert epsilons(loss, 1e-6, BASIC)[BASIC] == 2
        # at a smaller delta the sum is no guarantee
        assert BASIC not in epsilons(loss, 1e-10, BASIC)


class TestKov:
    def test_twenty_releases(self) -> None:
        """T15."""
        pairs = kov(20, 0.1, DELTA)
        assert len(pairs) == 11
        for i, epsilon, delta in (
            (0, 2.0, 1.99999998e-8), (1, 1.8, 4.78316875e-7), (2, 1.6, 9.14760018e-6),
            (10, 0.0, 0.174740067),
        ):  # fmt: skip
            assert pairs[i][0] == pytest.approx(epsilon, abs=1e-12)
            assert pairs[i][1] == pytest.approx(delta, rel=5e-9)

    def test_five_releases(self) -> None:
        """T15."""
        assert kov(5, 0.1, DELTA)[1] == pytest.approx((0.3, 0.00722827822), rel=CLOSE)

    def test_one_release_is_itself(self) -> None:
        assert kov(1, 0.4, 1e-6) == [pytest.approx((0.4, 1e-6), rel=1e-12)]

    def test_small_deltas_keep_their_digits(self) -> None:
        exact = 1 - (1 - Fraction(1, 10**13)) ** 3
        assert kov(3, 0.1, 1e-13)[0][1] == pytest.approx(float(exact), rel=1e-12)

    def test_two_pure_releases_by_hand(self) -> None:
        """k = 2, i = 1: epsilon 0 at (e^2e - 1) / (1 + e^e)^2 = tanh(e/2) for randomised response."""
        epsilon = 0.7
        # the total variation of two randomised responses, by enumerating their four outcomes
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        outcomes = [(p * p, (1 - p) ** 2), (2 * p * (1 - p), 2 * p * (1 - p))]
        total = sum(max(a - b, 0) for a, b in outcomes)
        assert kov(2, epsilon, 0.0)[1] == pytest.approx((0.0, total), rel=1e-12)
