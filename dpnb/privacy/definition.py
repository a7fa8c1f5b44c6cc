"""Privacy definitions: what a ledger counts and which noise it pays for.

A further one is a member here: what is counted (:attr:`PrivacyDefinition.parameter`), its noise, and what
``mypy`` then asks for. Losses and their conversions stand in ``privacy/loss.py``, how an owner declares
it in ``privacy/budget.py``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal


class PrivacyDefinition(StrEnum):
    """What a ledger counts.

    ``zcdp``: rho. ``gdp``: rho, too (mu^2 = 2 rho), of Gaussian releases only, so that epsilons follow
    from the exact curve. ``basic``: (epsilon, delta) of each Gaussian release, added up. ``pure``: epsilon.
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
        """The family of the noise of sums and counts."""
        match self:
            case PrivacyDefinition.PURE:
                return "laplace"
            case PrivacyDefinition.ZCDP | PrivacyDefinition.GDP | PrivacyDefinition.BASIC:
                return "gaussian"

    @property
    def counts_rho(self) -> bool:
        """Whether rho is counted; the others count epsilon."""
        return self.parameter == "rho"


ZCDP: Final = PrivacyDefinition.ZCDP
GDP: Final = PrivacyDefinition.GDP
BASIC: Final = PrivacyDefinition.BASIC
PURE: Final = PrivacyDefinition.PURE
