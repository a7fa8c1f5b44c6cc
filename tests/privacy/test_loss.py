"""Budgets, losses and the conversions between rho and (epsilon, delta)."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from dpnb.errors import RequestError
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import GDP, PURE, ZCDP
from dpnb.privacy.loss import (
    Picked,
    PrivacyLoss,
    amount,
    epsilon_of_rho,
    floor_digits,
    guarantee,
    is_picked,
    refuse_rho,
    rho_meant,
    rho_of_epsilon,
)


def powers_of_ten(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda x: 10**x)


epsilons = powers_of_ten(1e-3, 50)
rhos = powers_of_ten(1e-8, 50)
deltas = powers_of_ten(1e-15, 0.1)


def gaussian_epsilon(rho: float, delta: float) -> float:
    """The exact epsilon of the Gaussian mechanism (Balle and Wang 2018, Theorem 8)."""
    sigma = 1 / math.sqrt(2 * rho)

    def excess(epsilon: float) -> float:
        inside = stats.norm.logsf(epsilon * sigma - 1 / (2 * sigma))
        outside = epsilon + stats.norm.logsf(epsilon * sigma + 1 / (2 * sigma))
        if outside >= inside:
            return -math.inf
        return inside + math.log1p(-math.exp(outside - inside)) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    high = rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-9
    return float(optimize.brentq(lambda e: max(excess(e), -1e3), 0.0, high, xtol=1e-14))


def sharp_epsilon(rho: Fraction, delta: float, digits: int = 40) -> Decimal:
    """The sharp conversion, minimised in decimal arithmetic of 40 digits."""
    with localcontext() as context:
        context.prec = digits
        r = Decimal(rho.numerator) / Decimal(rho.denominator)
        log_delta = -Decimal(delta).ln()

        def bound(log_excess: Decimal) -> Decimal:
            x = log_excess.exp()
            log_alpha = (1 + x).ln()
            return (1 + x) * r + (log_delta - log_alpha) / x + log_excess - log_alpha

        grid = [Decimal(k) / 4 for k in range(-80, 121)]
        best = min(grid, key=bound)
        low, high = best - 1, best + 1
        for _ in range(70):
            third = (high - low) / 3
            if bound(low + third) < bound(high - third):
                high -= third
            else:
                low += third
        return max(Decimal(0), bound((low + high) / 2))


class TestAmount:
    @pytest.mark.parametrize(
        "value",
        [
            0,
            0.0,
            -0.1,
            math.nan,
            math.inf,
            -math.inf,
            True,
            False,
            None,
            [0.1],
            "much",
            "",
            b"1",
            Fraction(0),
            Fraction(-1, 3),
            "nan",
            "inf",
            "1/0",
            1j,
            1e-19,
            1e19,
            np.bool_(True),
        ],
    )
    def test_what_is_no_positive_finite_number_is_refused(self, value: object) -> None:
        with pytest.raises(RequestError) as refusal:
            amount(value, "rho")
        assert "rho" in refusal.value.what
        assert "0.1" in refusal.value.hint

    def test_a_float_means_the_decimal_it_shows(self) -> None:
        assert amount(0.1, "rho") == Fraction(1, 10)
        assert amount("0.1", "rho") == amount(0.1, "rho") == amount(np.float64(0.1), "rho")
        assert amount(Fraction(1, 3), "rho") == amount("1/3", "rho") == Fraction(1, 3)
        assert amount(np.int64(2), "rho") == amount(2, "rho") == 2
        assert amount(1e-6, "delta") == Fraction(1, 10**6)

    @given(st.decimals("1e-9", "1e9", places=9).filter(lambda d: d > 0))
    def test_decimal_text_is_kept_exactly(self, value: Decimal) -> None:
        assert amount(str(value), "rho") == Fraction(value)


class TestPrivacyLoss:
    def test_ten_times_a_tenth_is_one(self) -> None:
        for privacy in (ZCDP, PURE):
            total = PrivacyLoss.none()
            for _ in range(10):
                total += PrivacyLoss.of(amount(0.1, "rho"), privacy)
            assert total.level(privacy) == 1

    def test_the_order_of_addition_is_irrelevant(self) -> None:
        parts = [PrivacyLoss.of(amount(x, "rho"), ZCDP) for x in (0.1, 0.2, 0.3, 1e-9, 7)]
        forward = sum(parts, PrivacyLoss.none())
        assert forward == sum(reversed(parts), PrivacyLoss.none())
        assert forward.rho == Fraction(76 * 10**8 + 1, 10**9)

    def test_every_component_adds(self) -> None:
        a = PrivacyLoss(Fraction(1, 2), Fraction(1), Fraction(1, 10**6))
        b = PrivacyLoss(Fraction(1, 8), Fraction(1, 2), Fraction(1, 10**7))
        assert a + b == PrivacyLoss(Fraction(5, 8), Fraction(3, 2), Fraction(11, 10**7))

    def test_a_gaussian_beside_a_laplace_has_no_pure_loss(self) -> None:
        gaussian = PrivacyLoss.of(Fraction(1, 10), ZCDP)
        laplace = PrivacyLoss.of(Fraction(1, 2), PURE)
        both = gaussian + laplace
        assert both.epsilon is None
        assert both.rho == Fraction(1, 10) + Fraction(1, 8)
        with pytest.raises(RequestError, match="not finite in pure DP"):
            both.level(PURE)

    def test_pure_epsilon_costs_half_its_square_in_zcdp(self) -> None:
        assert PrivacyLoss.of(Fraction(3), PURE).rho == Fraction(9, 2)

    def test_releasing_nothing_costs_nothing(self) -> None:
        for privacy in (ZCDP, PURE):
            assert PrivacyLoss.of(Fraction(0), privacy) == PrivacyLoss.none()
        loss = PrivacyLoss.of(Fraction(1, 3), PURE)
        assert loss + PrivacyLoss.none() == loss
        assert PrivacyLoss.none().epsilon_at(1e-6) == 0

    def test_the_shown_epsilon_is_the_smaller_of_both_bounds(self) -> None:
        pure = PrivacyLoss.of(Fraction(1, 10), PURE)
        assert pure.epsilon_at(1e-12) == 0.1
        assert pure.epsilon_at(0.05) < 0.1
        zcdp = PrivacyLoss.of(Fraction(1, 10), ZCDP)
        assert zcdp.epsilon_at(1e-6) == epsilon_of_rho(Fraction(1, 10), 1e-6)

    @pytest.mark.parametrize(
        "loss",
        [
            PrivacyLoss.none(),
            PrivacyLoss.of(Fraction(1, 3), ZCDP),
            PrivacyLoss.of(Fraction(2, 7), PURE),
            PrivacyLoss(Fraction(1, 2), None, Fraction(1, 10**9)),
        ],
    )
    def test_plain_data_keeps_every_digit(self, loss: PrivacyLoss) -> None:
        assert PrivacyLoss.from_dict(loss.to_dict()) == loss


class TestBudget:
    def test_the_currency_follows_from_what_is_given(self) -> None:
        assert Budget(rho=0.5).privacy == ZCDP
        assert Budget(rho=0.5, delta=1e-6).privacy == ZCDP
        assert Budget(epsilon=3, delta=1e-6).privacy == ZCDP
        assert Budget(epsilon=1).privacy == PURE

    def test_a_cap_in_rho_is_exact(self) -> None:
        assert Budget(rho=0.3).cap == PrivacyLoss(rho=Fraction(3, 10))
        assert Budget(epsilon=0.3).cap.epsilon == Fraction(3, 10)

    def test_a_cap_in_epsilon_and_delta_keeps_its_promise(self) -> None:
        cap = Budget(epsilon=3, delta=1e-6).cap
        assert sharp_epsilon(cap.rho, 1e-6) <= 3
        assert sharp_epsilon(cap.rho * Fraction(10**10 + 1, 10**10), 1e-6) > 3
        assert cap.epsilon is None

    @pytest.mark.parametrize(
        "given_",
        [
            {},
            {"rho": 1, "epsilon": 1},
            {"delta": 1e-6},
            {"rho": 0},
            {"epsilon": -1},
            {"epsilon": math.nan},
            {"rho": math.inf},
            {"rho": True},
            {"epsilon": "all"},
            {"epsilon": 1, "delta": 0},
            {"epsilon": 1, "delta": 1},
            {"epsilon": 1, "delta": 2},
            {"rho": 1, "delta": math.nan},
        ],
    )
    def test_contradictory_or_senseless_budgets_are_refused(self, given_: dict) -> None:
        with pytest.raises(RequestError):
            Budget(**given_)

    @pytest.mark.parametrize(
        "budget", [Budget(rho="0.1"), Budget(epsilon=3, delta=1e-6), Budget(epsilon=1)]
    )
    def test_plain_data_round_trip(self, budget: Budget) -> None:
        assert Budget.from_dict(budget.to_dict()) == budget

    def test_gaussian_accounting_ends_at_epsilon_50(self) -> None:
        budget = Budget(epsilon=3, delta=1e-6, accountant="gdp")
        with pytest.raises(RequestError, match="epsilon must be between 0 and 50") as refusal:
            budget.within(Fraction(51))
        assert refusal.value.hint == "Give a smaller epsilon, such as 1."
        assert 0 < budget.within(Fraction(1)).rho < budget.cap.rho

    def test_a_budget_cannot_be_raised_afterwards(self) -> None:
        with pytest.raises(AttributeError):
            Budget(rho=1).rho = Fraction(2)  # type: ignore[misc]


class TestConversions:
    @pytest.mark.parametrize(
        ("rho", "simple", "sharp"),
        [
            ("2.1", 12.872663955, 12.0362),
            ("0.3", 4.371684254649, 3.9201),
            ("0.1", 2.450788000477, 2.1419),
        ],
    )
    def test_published_values_at_delta_1e_6(self, rho: str, simple: float, sharp: float) -> None:
        r = Fraction(rho)
        assert float(r) + 2 * math.sqrt(r * math.log(1e6)) == pytest.approx(simple, rel=1e-9)
        assert epsilon_of_rho(r, 1e-6) == pytest.approx(sharp, abs=1e-3)
        assert float(rho_of_epsilon(sharp, 1e-6)) == pytest.approx(float(r), rel=1e-3)

    @given(rhos, deltas)
    def test_valid_for_the_gaussian_mechanism_and_better_than_the_simple_bound(
        self, rho: float, delta: float
    ) -> None:
        epsilon = epsilon_of_rho(rho, delta)
        assert epsilon >= gaussian_epsilon(rho, delta) * (1 - 1e-9)
        assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))

    @settings(max_examples=25)
    @given(rhos, deltas)
    def test_the_minimum_over_all_orders_is_found(self, rho: float, delta: float) -> None:
        exact = float(sharp_epsilon(Fraction(rho), delta))
        epsilon = epsilon_of_rho(rho, delta)
        assert exact <= epsilon + 1e-14
        assert epsilon <= exact * (1 + 1e-9) + 1e-10

    @pytest.mark.parametrize(("rho", "delta"), [(0.01, 1e-6), (0.1, 1e-9), (1.0, 1e-6)])
    def test_agrees_with_independent_accountants(self, rho: float, delta: float) -> None:
        from dp_accounting import GaussianDpEvent
        from dp_accounting.pld import PLDAccountant
        from dp_accounting.rdp import RdpAccountant

        event = GaussianDpEvent(1 / math.sqrt(2 * rho))
        renyi = RdpAccountant().compose(event).get_epsilon(delta)
        exact = PLDAccountant(value_discretization_interval=1e-3).compose(event).get_epsilon(delta)
        epsilon = epsilon_of_rho(rho, delta)
        assert exact <= epsilon + 1e-3
        assert epsilon <= renyi * (1 + 1e-9)
        assert epsilon <= 1.25 * exact

    @settings(max_examples=20)
    @given(epsilons, deltas)
    def test_a_cap_in_epsilon_is_never_exceeded_and_never_wasted(
        self, epsilon: float, delta: float
    ) -> None:
        rho = rho_of_epsilon(epsilon, delta)
        assert rho > 0
        # floats: to one part in 10^11
        assert sharp_epsilon(rho, delta) <= Decimal(epsilon)
        assert sharp_epsilon(rho * Fraction(10**8 + 1, 10**8), delta) > Decimal(epsilon)

    @given(epsilons, deltas)
    def test_rho_to_epsilon_and_back(self, epsilon: float, delta: float) -> None:
        rho = rho_of_epsilon(epsilon, delta)
        assert epsilon_of_rho(rho, delta) == pytest.approx(epsilon, rel=1e-8)

    @given(rhos, deltas, st.floats(1.001, 100))
    def test_more_rho_means_more_epsilon_and_more_delta_less(
        self, rho: float, delta: float, factor: float
    ) -> None:
        epsilon = epsilon_of_rho(rho, delta)
        assert epsilon_of_rho(rho * factor, delta) >= epsilon
        assert epsilon_of_rho(rho, min(0.5, delta * factor)) <= epsilon

    @given(epsilons, deltas, st.floats(1.001, 100))
    def test_more_epsilon_and_more_delta_buy_more_rho(
        self, epsilon: float, delta: float, factor: float
    ) -> None:
        rho = rho_of_epsilon(epsilon, delta)
        assert rho_of_epsilon(epsilon * factor, delta) > rho
        assert rho_of_epsilon(epsilon, min(0.5, delta * factor)) >= rho

    @given(powers_of_ten(1e-30, 1e30))
    def test_rounding_down_keeps_twelve_digits(self, value: float) -> None:
        rounded = floor_digits(value)
        assert rounded <= Fraction(value) < rounded * (1 + Fraction(1, 10**11))


class TestAskedFor:
    """What a request's rho or epsilon means in a ledger."""

    DELTA = Fraction(1, 10**6)

    def test_too_large_an_epsilon(self) -> None:
        with pytest.raises(RequestError, match="epsilon must be between 0 and 50") as refusal:
            rho_meant(51, self.DELTA, GDP)
        assert refusal.value.hint == "Give a smaller epsilon, such as 1."
        assert rho_meant(1, self.DELTA, GDP) > 0

    @pytest.mark.parametrize("small", ["1e-18", "2e-12"])
    def test_an_epsilon_that_the_lattice_uses_up(self, small: str) -> None:
        with pytest.raises(RequestError, match="epsilon is too small") as refusal:
            rho_meant(small, self.DELTA, GDP)
        assert refusal.value.hint == "Give a larger epsilon."
        assert rho_meant("1e-9", self.DELTA, GDP) > 0

    @pytest.mark.parametrize(
        ("budget", "why"),
        [
            (Budget(epsilon=1), "its budget has no delta"),
            (Budget(epsilon=1, delta=1e-6, accountant="basic"), "its accountant is 'basic'"),
        ],
    )
    def test_rho_where_epsilon_is_counted(self, budget: Budget, why: str) -> None:
        with pytest.raises(RequestError, match=f"counts epsilon, because {why}") as refusal:
            refuse_rho(budget.privacy)
        assert refusal.value.hint == "Give epsilon=0.5, not rho."
        assert budget.within(Fraction(1, 2)).level(budget.privacy) == Fraction(1, 2)

    @pytest.mark.parametrize("accountant", ["zcdp", "gdp"])
    def test_rho_where_it_is_counted(self, accountant: str) -> None:
        refuse_rho(Budget(rho=1, delta=1e-6, accountant=accountant).privacy)


class TestPicked:
    def test_it_is_the_amount_that_it_shows(self) -> None:
        assert amount(Picked(0.1), "rho") == Fraction(1, 10)
        assert Picked(0.1) == 0.1
        assert pickle.loads(pickle.dumps(Picked(0.1))) == 0.1  # noqa: S301
        assert is_picked(pickle.loads(pickle.dumps(Picked(0.1))))  # noqa: S301

    @pytest.mark.parametrize(
        "amounts", [[Picked(1)], [None, Picked(1)], [{"a": "0.1", "b": Picked(1)}]]
    )
    def test_one_among_several_is_enough(self, amounts: list[object]) -> None:
        assert is_picked(*amounts)

    @pytest.mark.parametrize("plain", [None, 0.1, "0.1", np.float64(0.1), {}, {"a": 0.1}])
    def test_ordinary_amounts_are_not(self, plain: object) -> None:
        assert not is_picked(plain)

    @pytest.mark.parametrize(
        "made",
        [Picked(0.1) * 2, Picked(0.1) + Picked(0.1), -Picked(0.1), float(Picked(0.1)),
         round(Picked(0.123), 2), Fraction(Picked(0.1)), str(Picked(0.1))],
    )  # fmt: skip
    def test_arithmetic_gives_an_ordinary_number(self, made: object) -> None:
        assert not is_picked(made)

    def test_the_guarantee_in_words(self) -> None:
        assert guarantee(False) == "unconditional"
        assert guarantee(True) == "conditional: epsilon was picked by looking at the data"
