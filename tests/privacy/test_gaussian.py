"""The exact privacy of Gaussian noise, against tables computed elsewhere.

T and E numbers are those of docs/methods/dprovdb.md.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dpnb.privacy.gaussian import epsilon_from, log_delta, mu_from, sigma_from, translate

pytestmark = pytest.mark.fast

CLOSE = 1e-9
DELTAS = (1e-5, 1e-6, 1e-9, 1e-13)
T1 = {
    0.1: (30.7495661320, 36.3046904262, 50.2098182630, 64.9362595921),
    0.3: (11.2380444645, 12.9923828948, 17.4403094855, 22.2147218697),
    0.5: (7.03182667558, 8.05761848073, 10.6738968151, 13.4998847101),
    0.7: (5.16649252164, 5.88634580922, 7.72965779317, 9.72918513678),
    1.0: (3.73063163482, 4.22467888933, 5.49526615724, 6.87997640063),
    2.0: (1.99381244564, 2.23047627119, 2.84454707350, 3.52038419937),
    6.4: (0.723149264549, 0.790492932121, 0.967989747899, 1.16715325622),
}
T2 = {
    25: 1.10404026259, 50: 0.768211712796, 60: 0.698461758218, 65: 0.669891029596,
    100: 0.535148231553, 150: 0.433301043685, 500: 0.231712501479,
}  # fmt: skip


def epsilon_of(variance: float, delta: float = 1e-9, sensitivity: float = 1.0) -> float:
    """The smallest epsilon of noise with a variance."""
    return epsilon_from(sensitivity / math.sqrt(variance), delta)


class TestCalibration:
    @pytest.mark.parametrize("epsilon", T1)
    def test_sigma_is_that_of_the_analytic_mechanism(self, epsilon: float) -> None:
        """T1, at four deltas; an absolute tolerance on delta fails at 1e-13 (E14)."""
        for delta, expected in zip(DELTAS, T1[epsilon], strict=True):
            assert sigma_from(epsilon, delta) == pytest.approx(expected, rel=CLOSE)
        assert sigma_from(0.1, 1e-13) > 64.9 > 62.05

    def test_sensitivity_scales_it(self) -> None:
        """T1: the square root of two is what replace-one would need (E3)."""
        assert sigma_from(1, 1e-9, math.sqrt(2)) == pytest.approx(7.77147992842, rel=CLOSE)
        assert mu_from(1, 1e-9) == pytest.approx(0.181974807295332, rel=1e-12)

    def test_it_is_not_the_classic_formula(self) -> None:
        classic = math.sqrt(2 * math.log(1.25 / 1e-9))
        assert classic == pytest.approx(6.47246620513, rel=CLOSE)
        assert sigma_from(1, 1e-9) < 0.9 * classic

    @pytest.mark.parametrize("variance", T2)
    def test_epsilon_of_a_variance(self, variance: float) -> None:
        """T2."""
        assert epsilon_of(variance) == pytest.approx(T2[variance], rel=CLOSE)

    def test_epsilon_at_another_sensitivity_or_delta(self) -> None:
        """T2; and sensitivity 1 under replace-one claims too little (E3)."""
        assert epsilon_of(100, sensitivity=math.sqrt(2)) == pytest.approx(0.768211712796, rel=CLOSE)
        assert epsilon_of(100, 1e-5) == pytest.approx(0.340669364684, rel=CLOSE)
        for claimed, true in ((1, 1.4388), (0.5, 0.7176), (3.2, 4.6537)):
            exact = epsilon_from(math.sqrt(2) * mu_from(claimed, 1e-9), 1e-9)
            assert exact == pytest.approx(true, abs=5e-5)

    @pytest.mark.parametrize(("epsilon", "mu"), [(0.3, 0.2), (1.0, 0.5), (0.0, 0.1), (2.0, 3.0)])
    def test_delta_is_the_hockey_stick_of_two_normals(self, epsilon: float, mu: float) -> None:
        def excess(y: float) -> float:
            more = stats.norm.pdf(y, mu) - math.exp(epsilon) * stats.norm.pdf(y)
            return max(more, 0.0)

        kink = mu / 2 + epsilon / mu
        integral, _ = integrate.quad(excess, kink, kink + 12, epsabs=1e-13)
        assert math.exp(log_delta(epsilon, mu)) == pytest.approx(integral, rel=1e-6)

    @pytest.mark.parametrize(
        ("epsilon", "delta"),
        [(0, 1e-9), (-1, 1e-9), (50.1, 1e-9), (math.nan, 1e-9), (math.inf, 1e-9), (1, 0), (1, 0.2),
         (1, 1e-16), (1, math.nan)],
    )  # fmt: skip
    def test_senseless_parameters_are_refused(self, epsilon: float, delta: float) -> None:
        with pytest.raises(ValueError):
            mu_from(epsilon, delta)

    def test_no_noise_of_note_costs_no_epsilon(self) -> None:
        assert epsilon_from(0.0, 1e-9) == 0.0
        assert epsilon_from(1e-10, 1e-9) == 0.0

    @given(
        st.floats(1e-3, 50),
        st.sampled_from([1e-15, *DELTAS, 0.1]),
        st.floats(1.0001, 3),
    )
    def test_it_is_its_own_inverse_and_rises(
        self, epsilon: float, delta: float, factor: float
    ) -> None:
        """T19; results lie on the safe side, so they fail by rounding at most."""
        mu = mu_from(epsilon, delta)
        assert epsilon_from(mu, delta) == pytest.approx(epsilon, rel=CLOSE)
        assert log_delta(epsilon, mu) <= math.log(delta)
        assert epsilon_from(mu * factor, delta) > epsilon_from(mu, delta)
        assert mu_from(min(epsilon * factor, 50), delta) >= mu
        if delta < 0.03:
            assert mu_from(epsilon, delta * factor) > mu
        assert sigma_from(epsilon, delta, factor) > sigma_from(epsilon, delta)


class TestTranslate:
    def test_it_stops_at_its_precision(self) -> None:
        """T3."""
        assert translate(100, 10, 1e-9, precision=1e-3) == 0.5352783203125
        assert translate(100, 10, 1e-9, precision=1e-6) == 0.5351483821868896

    def test_what_is_out_of_reach_is_said_to_be(self) -> None:
        """T3."""
        assert sigma_from(1, 1e-9) ** 2 == pytest.approx(30.1979501389, rel=CLOSE)
        assert translate(1, 1, 1e-9) is None
        assert translate(30.197950, 1, 1e-9) is None
        assert translate(30.197951, 1, 1e-9) == pytest.approx(1, abs=1e-6)

    def test_the_first_entries_of_the_authors_ledgers(self) -> None:
        """T4: to 1e-15."""
        for most, expected in ((50, 0.016343407332897186), (40, 0.0163433700799942)):
            found = translate(24_900, most, 1e-5, precision=1e-7)
            assert found == pytest.approx(expected, abs=1e-15)
        assert epsilon_of(3_000, 1e-5, 4) == pytest.approx(0.241904, abs=5e-7)

    def test_the_deviation_is_calibrated_not_the_variance(self) -> None:
        """E2: as printed, variance 100 would be sold as epsilon 0.04887."""
        literal = epsilon_from(1 / 100, 1e-9)
        assert literal == pytest.approx(0.04887, abs=5e-6)
        right = translate(100, 10, 1e-9)
        assert right == pytest.approx(0.53515, abs=5e-6)
        assert sigma_from(right, 1e-9) ** 2 == pytest.approx(100, rel=1e-5)
        assert sigma_from(literal, 1e-9) ** 2 == pytest.approx(10_000, rel=CLOSE)

    @given(st.floats(1, 1e5), st.sampled_from([1e-5, 1e-9]), st.sampled_from([1e-2, 1e-4, 1e-6]))
    def test_it_is_accurate_and_least_within_its_precision(
        self, variance: float, delta: float, precision: float
    ) -> None:
        """Proposition 5.2: the accuracy is met, and epsilon is at most the precision too large."""
        found = translate(variance, 20, delta, precision=precision)
        assert found is not None
        assert sigma_from(found, delta) ** 2 <= variance
        least = epsilon_of(variance, delta)
        assert least * (1 - 1e-12) <= found <= least + precision
