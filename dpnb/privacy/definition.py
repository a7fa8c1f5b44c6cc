"""Privacy definitions: what a ledger counts, and which noise it uses.

To add one, add a member here, with the name of its amounts (:attr:`PrivacyDefinition.parameter`),
its noise, and whatever ``mypy`` then reports. Losses and their conversions are in
``privacy/loss.py``; how an owner declares a definition is in ``privacy/budget.py``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal


class PrivacyDefinition(StrEnum):
    """The quantity that a ledger counts.

    ``zcdp``: rho. ``gdp``: also rho (mu^2 = 2 rho), but for Gaussian releases only, so that
    epsilons follow from the exact curve. ``basic``: (epsilon, delta) of each Gaussian release,
    added up. ``pure``: epsilon.
    """

    ZCDP = "zcdp"
    GDP = "gdp"
    BASIC = "basic"
    PURE = "pure"

    @property
    def parameter(self) -> Literal["rho", "epsilon"]:
        """The name of the amounts that are counted."""
        match self:
            case PrivacyDefinition.ZCDP | PrivacyDefinition.GDP:
                return "rho"
            case PrivacyDefinition.BASIC | PrivacyDefinition.PURE:
                return "epsilon"

    @property
    def noise(self) -> Literal["gaussian", "laplace"]:
        """The noise family for sums and counts."""
        match self:
            case PrivacyDefinition.PURE:
                return "laplace"
            case PrivacyDefinition.ZCDP | PrivacyDefinition.GDP | PrivacyDefinition.BASIC:
                return "gaussian"

    @property
    def counts_rho(self) -> bool:
        """Whether rho is counted, rather than epsilon."""
        return self.parameter == "rho"


ZCDP: Final = PrivacyDefinition.ZCDP
GDP: Final = PrivacyDefinition.GDP
BASIC: Final = PrivacyDefinition.BASIC
PURE: Final = PrivacyDefinition.PURE
