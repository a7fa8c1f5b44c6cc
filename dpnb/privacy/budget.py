"""The most that one ledger may ever spend, and how losses count against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from dpnb.arguments import checked
from dpnb.codes import truth
from dpnb.errors import RequestError, given
from dpnb.privacy.definition import BASIC, PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.loss import RESERVE, Amount, PrivacyLoss, amount, rho_within


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """The most that all answers from one ledger together may cost.

    Parameters
    ----------
    rho : number, optional
        A cap in zCDP, as rho.
    epsilon, delta : number, optional
        With both, a cap in (epsilon, delta)-DP, turned into the largest rho that respects it. With
        ``epsilon`` alone, a cap in pure DP. ``delta`` beside ``rho`` is used to show epsilons.
    key_delta : number, optional
        The part of ``delta``, or a delta beside ``rho``, that is reserved for undeclared values
        (``Session.discover``). In zCDP only.
    accountant : {'zcdp', 'gdp', 'basic'}
        How losses add up under a cap with delta. ``gdp`` counts Gaussian answers exactly and allows
        nothing else; ``basic`` adds the (epsilon, release_delta) of each release, as DProvDB does.
    release_delta : number
        Delta of one release under ``basic``.
    doubling : bool
        Declares the caps B, 2B, 4B, ... from the start, if you do not know the last one yet.
        ``Curator.double_cap`` moves to the next (docs/methods/accounting.md, statement 14). Each is
        a hard cap while it lasts. In zCDP only.

    Examples
    --------
    >>> Budget(epsilon=1).privacy.parameter
    'epsilon'
    >>> Budget(rho="0.5").cap
    PrivacyLoss(rho=0.5)
    """

    rho: Fraction | None
    epsilon: Fraction | None
    delta: Fraction | None
    accountant: Literal["zcdp", "gdp", "basic"]
    release_delta: Fraction
    doubling: bool
    key_delta: Fraction

    @checked
    def __init__(
        self,
        *,
        rho: Amount | None = None,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        accountant: str = "zcdp",
        release_delta: Amount = "1e-9",
        doubling: bool = False,
        key_delta: Amount | None = None,
    ) -> None:
        if (rho is None) == (epsilon is None):
            raise RequestError(
                "a budget needs either rho or epsilon",
                "Write Budget(epsilon=3, delta=1e-6), Budget(rho=0.5) or Budget(epsilon=1).",
            )
        exact_delta = None if delta is None else amount(delta, "delta")
        if exact_delta is not None and exact_delta >= 1:
            raise RequestError("delta must be below 1", "Give a small delta, such as 1e-6.")
        object.__setattr__(self, "rho", None if rho is None else amount(rho, "rho"))
        object.__setattr__(self, "epsilon", None if epsilon is None else amount(epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact_delta)
        self._set_accountant(accountant, amount(release_delta, "release_delta"))
        truth(doubling, "doubling")
        object.__setattr__(self, "doubling", doubling)
        if doubling and not self.privacy.counts_rho:
            raise RequestError(
                "doubling needs a budget in rho: a pure session draws its noise up to the limit at first use",
                "Write Budget(rho=..., doubling=True), or leave doubling out.",
            )
        self._set_key_delta(key_delta)

    def _set_key_delta(self, key_delta: Amount | None) -> None:
        set_aside = Fraction(0) if key_delta is None else amount(key_delta, "key_delta")
        if set_aside and self.privacy is not ZCDP:
            raise RequestError(
                "key_delta needs a zCDP budget",
                "Write Budget(epsilon=3, delta=1e-6, key_delta=1e-7), or leave key_delta out.",
            )
        if set_aside >= (1 if self.delta is None else self.delta):
            raise RequestError(
                "key_delta must be less than delta, because it is a part of delta",
                "Set a part of delta aside: Budget(epsilon=3, delta=1e-6, key_delta=1e-7).",
            )
        object.__setattr__(self, "key_delta", set_aside)

    def _set_accountant(self, accountant: str, release_delta: Fraction) -> None:
        if not isinstance(accountant, str) or accountant not in ("zcdp", "gdp", "basic"):
            raise RequestError(
                f"accountant must be 'zcdp', 'gdp' or 'basic', got {given(accountant)}",
                "Write accountant='zcdp'.",
            )
        gaussian = accountant != "zcdp"
        if gaussian and self.delta is None:
            raise RequestError(
                f"the accountant {accountant!r} needs a delta",
                f"Write Budget(epsilon=3, delta=1e-6, accountant={accountant!r}).",
            )
        if accountant == "basic" and self.epsilon is None:
            raise RequestError("the accountant 'basic' needs epsilon", "Give epsilon and delta.")
        deltas = [value for value in (self.delta, release_delta) if value is not None]
        if gaussian and not all(
            Fraction(1, 10**15) <= value <= Fraction(1, 10) for value in deltas
        ):
            raise RequestError(
                "delta must be between 1e-15 and 0.1", "Give a small delta, such as 1e-9."
            )
        if gaussian and self.epsilon is not None and float(self.epsilon) <= 2 * RESERVE:
            raise RequestError("epsilon must be above 2e-12", "Give a larger epsilon, such as 1.")
        if gaussian and self.epsilon is not None and self.epsilon > 50:
            raise RequestError("epsilon must be at most 50", "A larger one protects no one.")
        if accountant == "gdp" and self.rho is not None and self.rho > 1000:
            raise RequestError("rho must be at most 1,000", "A larger one protects no one.")
        object.__setattr__(self, "accountant", accountant)
        object.__setattr__(self, "release_delta", release_delta)

    @property
    def privacy(self) -> PrivacyDefinition:
        """``pure`` for epsilon without delta, else the accountant."""
        return (
            PURE if self.rho is None and self.delta is None else PrivacyDefinition(self.accountant)
        )

    @property
    def noise_delta(self) -> Fraction | None:
        """The delta for converting rho and epsilon: the part not reserved for undeclared values."""
        return None if self.delta is None else self.delta - self.key_delta

    @property
    def cap(self) -> PrivacyLoss:
        """The cap: rho, or epsilon in a pure session."""
        if self.rho is not None:
            return PrivacyLoss(rho=self.rho, delta=self.key_delta)
        assert self.epsilon is not None  # noqa: S101 - exactly one of both is given
        if self.delta is None:
            return PrivacyLoss.of(self.epsilon, PURE)
        return self.within(self.epsilon)

    def within(self, epsilon: Fraction) -> PrivacyLoss:
        """Return the cap for an epsilon, at the budget's delta and for its accountant.

        Parameters
        ----------
        epsilon : Fraction
            Above 0 and at most 50.

        Returns
        -------
        PrivacyLoss
            The largest cap that respects it (docs/methods/accounting.md).

        Raises
        ------
        RequestError
            For an epsilon out of range.
        """
        delta = self.noise_delta
        if delta is None or self.privacy is BASIC:
            loss = PrivacyLoss.of(epsilon, self.privacy)
            return loss if delta is None else replace(loss, delta=delta)
        try:
            return PrivacyLoss(rho_within(epsilon, delta, self.privacy), delta=self.key_delta)
        except ValueError:
            raise RequestError(
                "epsilon must be between 0 and 50", "Give a smaller epsilon, such as 1."
            ) from None

    def to_dict(self) -> dict[str, str | bool | None]:
        """Return the declaration as plain data.

        Returns
        -------
        dict of str to str, bool or None
            Fractions as texts.
        """
        amounts = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
        texts = {name: None if value is None else str(value) for name, value in amounts.items()}
        settings = {"accountant": self.accountant, "release_delta": str(self.release_delta)}
        aside = {"key_delta": str(self.key_delta)} if self.key_delta else {}
        return {**texts, **settings, "doubling": self.doubling, **aside}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Budget:
        """Build a budget from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Budget
            Equal to the original.
        """
        return cls(**data)

    def __repr__(self) -> str:
        arguments = [
            f"{name}={float(value):.12g}"
            for name, value in (
                ("rho", self.rho),
                ("epsilon", self.epsilon),
                ("delta", self.delta),
                ("key_delta", self.key_delta or None),
            )
            if value is not None
        ]
        arguments += [f"accountant={self.accountant!r}"] if self.accountant != "zcdp" else []
        arguments += ["doubling=True"] if self.doubling else []
        return f"Budget({', '.join(arguments)})"
