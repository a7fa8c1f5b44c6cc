"""A loss by other rules of composition: for reports, never for limits.

Statement 16 of docs/methods/accounting.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpnb.privacy.definition import BASIC, GDP, PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss, epsilon_of_rho, epsilon_shown


def kov(k: int, epsilon: float, delta: float) -> list[tuple[float, float]]:
    """Return the joint guarantees of k releases of equal (epsilon, delta), fixed beforehand.

    Optimal composition (Kairouz, Oh, Viswanath 2015; DProvDB, Theorem A.1): the pairs
    ((k - 2i) epsilon, 1 - (1 - delta)^k (1 - delta_i)) for i = 0..k/2. Not valid if later releases
    are chosen after seeing earlier ones.
    """
    pairs = []
    norm = k * math.log1p(math.exp(epsilon))
    for i in range(k // 2 + 1):
        excess = sum(
            math.comb(k, term)
            * (
                math.exp((k - term) * epsilon - norm)
                - math.exp((k - 2 * i + term) * epsilon - norm)
            )
            for term in range(i)
        )
        failing = -math.expm1(k * math.log1p(-delta) + math.log1p(-excess))
        pairs.append(((k - 2 * i) * epsilon, failing))
    return pairs


def rdp_epsilon(rho: Fraction | float, delta: Fraction | float) -> float:
    """Return the epsilon by Renyi DP: min over alpha > 1 of alpha rho + ln(1/delta) / (alpha - 1).

    In closed form: rho + 2 sqrt(rho ln(1/delta)) (DProvDB, Theorems A.3 and A.4).
    """
    return float(rho) + 2 * math.sqrt(float(rho) * -math.log(delta))


def epsilons(
    loss: PrivacyLoss, delta: Fraction | float, privacy: PrivacyDefinition
) -> dict[str, float]:
    """Return a loss as epsilons at ``delta``, by the name of the composition rule.

    ``gdp`` only if all releases are Gaussian; ``basic`` only if it is what the ledger counts.
    """
    rule_epsilons = {"rdp": rdp_epsilon(loss.rho, delta), "zcdp": epsilon_of_rho(loss.rho, delta)}
    if privacy in (GDP, BASIC):
        rule_epsilons["gdp"] = epsilon_shown(loss.rho, delta, GDP)
    if privacy is BASIC and loss.epsilon is not None and loss.delta <= delta:
        rule_epsilons["basic"] = float(loss.epsilon)
    return rule_epsilons
