"""What a release costs and what a session may spend.

A loss has three components that add: ``rho`` (zero-concentrated DP), ``epsilon`` (pure DP, None where
it is not finite) and ``delta``. Amounts are exact rationals, so ten times 0.1 is 1. Conversions round
to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpnb.errors import RequestError
from dpnb.scale import scalar

Currency: TypeAlias = Literal["zcdp", "pure"]
Amount: TypeAlias = int | float | Fraction | str


def unit(currency: Currency) -> str:
    """Return the name of the amounts that a currency counts."""
    return "rho" if currency == "zcdp" else "epsilon"


_GOLDEN = (math.sqrt(5) - 1) / 2
_DIGITS = 12


PICKED = "epsilon was picked by looking at the data"
"""Why a guarantee is conditional: differential privacy takes amounts for public (spec/rdr.md 7.1)."""


class PickedRational(Fraction):
    """An exact amount that was picked by looking at the data; see :class:`Picked`."""

    __slots__ = ()


class Picked(float):
    """An amount that was picked by looking at the data; what is released with it is marked so.

    Arithmetic on it gives an ordinary number, which marks nothing.

    Examples
    --------
    >>> is_picked(Picked(0.1)), is_picked({"rank": Picked(0.1)}), is_picked(2 * Picked(0.1))
    (True, True, False)
    """

    __slots__ = ()


def is_picked(*amounts: object) -> bool:
    """Return whether an amount, or one of several, was picked by looking at the data."""
    for value in amounts:
        parts = value.values() if isinstance(value, Mapping) else value
        if isinstance(value, (Picked, PickedRational)):
            return True
        if isinstance(parts, Iterable) and not isinstance(parts, str) and is_picked(*parts):
            return True
    return False


def guarantee(conditional: bool) -> str:
    """Return what the privacy guarantee of a release rests on, for its record (spec/rdr.md 3.9)."""
    return f"conditional: {PICKED}" if conditional else "unconditional"


def amount(value: object, name: str) -> Fraction:
    """Return a positive, finite amount as the exact rational of its decimal text.

    Raises
    ------
    RequestError
        When it is zero, negative, NaN, infinite or no number.
    """
    mend = f"Give {name} as a positive number, such as 0.1."
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, str)):
        raise RequestError(f"{name} is not a number", mend)
    text = str(value).strip()
    if len(text) > 60 or len(text.lower().partition("e")[2]) > 4:
        raise RequestError(f"{name} is out of range", mend)
    try:
        exact = value if isinstance(value, Fraction) else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise RequestError(f"{name} is {value!r}, not a finite number", mend) from None
    if exact <= 0:
        raise RequestError(f"{name} is {value!r}", mend)
    if not Fraction(1, 10**18) <= exact <= 10**18:
        raise RequestError(f"{name} is out of range", mend)
    return exact


def floor_digits(value: float) -> Fraction:
    """Return ``value`` rounded down to 12 significant decimal digits, as a rational."""
    if value <= 0:
        return Fraction(0)
    unit = Fraction(10) ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return math.floor(Fraction(value) / unit) * unit


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Smallest value met by golden-section search of a unimodal function on ``[low, high]``."""
    a, b = low, high
    c, d = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    fc, fd = function(c), function(d)
    best = min(fc, fd)
    while b - a > 1e-12 * (1 + abs(a)):
        if fc < fd:
            b, d, fd = d, c, fc
            c = b - _GOLDEN * (b - a)
            fc = function(c)
        else:
            a, c, fc = c, d, fd
            d = a + _GOLDEN * (b - a)
            fd = function(d)
        best = min(best, fc, fd)
    return best


def epsilon_of_rho(rho: Fraction | float, delta: Fraction | float) -> float:
    """Return the smallest epsilon such that rho-zCDP implies (epsilon, delta)-DP.

    epsilon = min over alpha > 1 of  alpha rho + (ln(1/delta) - ln alpha)/(alpha - 1) + ln(1 - 1/alpha),
    the sharp conversion of spec/dpxplain.md section 1 (Canonne, Kamath, Steinke 2020, Proposition
    12). Every alpha gives a valid bound, so the numeric minimum is one too.
    """
    if rho <= 0:
        return 0.0
    r, log_delta = float(rho), -math.log(delta)

    def bound(log_order: float) -> float:
        excess = math.exp(log_order)
        log_alpha = math.log1p(excess)
        # ln(1 - 1/alpha) as a whole: the difference of two logarithms would lose digits
        return (1 + excess) * r + (log_delta - log_alpha) / excess - math.log1p(1 / excess)

    centre = 0.5 * math.log(max(log_delta, 1e-3) / r)
    return max(0.0, _minimum(bound, centre - 12, centre + 12)) * (1 + 1e-12)


def rho_of_epsilon(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """Return the largest rho whose sharp conversion at ``delta`` stays within ``epsilon``.

    rho = max over alpha > 1 of (epsilon - (ln(1/delta) - ln alpha)/(alpha - 1) - ln(1 - 1/alpha)) / alpha,
    rounded down to 12 digits: the inverse of :func:`epsilon_of_rho`.
    """
    e, log_delta = float(epsilon), -math.log(delta)

    def cost(log_order: float) -> float:
        excess = math.exp(log_order)
        log_alpha = math.log1p(excess)
        return -(e - (log_delta - log_alpha) / excess + math.log1p(1 / excess)) / (1 + excess)

    centre = math.log(2 * max(log_delta, 1e-3) / e)
    return floor_digits(-_minimum(cost, centre - 12, centre + 12) * (1 - 1e-12))


def rho_meant(epsilon: object, delta: Fraction | None) -> Fraction:
    """Return the rho that an asked-for epsilon means at a session's delta.

    Raises
    ------
    RequestError
        Without a delta, and for what is no usable epsilon.
    """
    asked = amount(epsilon, "epsilon")
    if delta is None:
        raise RequestError(
            "epsilon means nothing here: the session has no delta",
            "Give rho=, or open the session with Budget(epsilon=..., delta=...).",
        )
    rho = rho_of_epsilon(asked, delta)
    if rho <= 0:
        raise RequestError("epsilon is too small", "Give a larger epsilon.")
    return rho


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """A privacy loss: ``rho`` (zCDP), ``epsilon`` (pure DP; None when infinite) and ``delta``.

    Examples
    --------
    >>> PrivacyLoss(rho=Fraction(1, 10)) + PrivacyLoss(rho=Fraction(1, 5))
    PrivacyLoss(rho=0.3)
    """

    rho: Fraction = Fraction(0)
    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)

    @classmethod
    def none(cls) -> PrivacyLoss:
        """Return the loss of releasing nothing."""
        return cls(Fraction(0), Fraction(0), Fraction(0))

    @classmethod
    def of(cls, level: Fraction, currency: Currency) -> PrivacyLoss:
        """Return the loss of a release at ``level``: rho in zCDP, epsilon in pure DP.

        Pure epsilon-DP implies (epsilon^2 / 2)-zCDP (Bun and Steinke 2016, Proposition 3.3).
        """
        if level == 0:
            return cls.none()
        if currency == "zcdp":
            return cls(rho=level)
        return cls(rho=level * level / 2, epsilon=level)

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        pure = self.epsilon is not None and other.epsilon is not None
        epsilon = self.epsilon + other.epsilon if pure else None  # type: ignore[operator]
        return PrivacyLoss(self.rho + other.rho, epsilon, self.delta + other.delta)

    def __sub__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return what remains of this loss without ``other``, component by component."""
        pure = self.epsilon is not None and other.epsilon is not None
        epsilon = self.epsilon - other.epsilon if pure else None  # type: ignore[operator]
        return PrivacyLoss(self.rho - other.rho, epsilon, self.delta - other.delta)

    def level(self, currency: Currency) -> Fraction:
        """Return the component that the currency counts."""
        if currency == "zcdp":
            return self.rho
        if self.epsilon is None:
            raise RequestError("this loss is not finite in pure DP", "Open a zcdp session.")
        return self.epsilon

    def epsilon_at(self, delta: Fraction | float) -> float:
        """Return the epsilon that holds together with ``delta`` (shown epsilons do not add)."""
        sharp = epsilon_of_rho(self.rho, delta)
        return sharp if self.epsilon is None else min(sharp, float(self.epsilon))

    def to_dict(self) -> dict[str, str | None]:
        """Return the exact components as text."""
        epsilon = None if self.epsilon is None else str(self.epsilon)
        return {"rho": str(self.rho), "epsilon": epsilon, "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrivacyLoss:
        """Build a loss from :meth:`to_dict`."""
        epsilon = None if data["epsilon"] is None else Fraction(data["epsilon"])
        return cls(Fraction(data["rho"]), epsilon, Fraction(data["delta"]))

    def __repr__(self) -> str:
        parts = []
        if self.epsilon is None or self.rho != self.epsilon**2 / 2:
            parts.append(f"rho={float(self.rho):.6g}")
        if self.epsilon is not None:
            parts.append(f"epsilon={float(self.epsilon):.6g}")
        if self.delta:
            parts.append(f"delta={float(self.delta):.3g}")
        return f"PrivacyLoss({', '.join(parts)})"


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """The most that may ever be spent on one ledger.

    Parameters
    ----------
    rho : number, optional
        A cap in zCDP.
    epsilon, delta : number, optional
        With both, a cap in (epsilon, delta)-DP, turned into the largest rho that respects it. With
        ``epsilon`` alone, a cap in pure DP. ``delta`` beside ``rho`` is used to show epsilons.
    doubling : bool
        Declares the caps B, 2B, 4B, ... from the start, for who does not know the last one yet:
        ``Curator.double_cap`` goes on to the next (spec/rdr.md 3.6). Each is a hard cap while it
        lasts. In zCDP only.

    Examples
    --------
    >>> Budget(epsilon=1).currency
    'pure'
    >>> Budget(rho="0.5").cap
    PrivacyLoss(rho=0.5)
    """

    rho: Fraction | None
    epsilon: Fraction | None
    delta: Fraction | None
    doubling: bool

    def __init__(
        self,
        *,
        rho: Amount | None = None,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        doubling: bool = False,
    ) -> None:
        if (rho is None) == (epsilon is None):
            raise RequestError(
                "a budget is either rho or epsilon",
                "Write Budget(epsilon=3, delta=1e-6), Budget(rho=0.5) or Budget(epsilon=1).",
            )
        exact_delta = None if delta is None else amount(delta, "delta")
        if exact_delta is not None and exact_delta >= 1:
            raise RequestError("delta is 1 or more", "Give a small delta, such as 1e-6.")
        object.__setattr__(self, "rho", None if rho is None else amount(rho, "rho"))
        object.__setattr__(self, "epsilon", None if epsilon is None else amount(epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact_delta)
        if not isinstance(doubling, bool):
            raise RequestError("doubling is neither True nor False", "Write doubling=True.")
        object.__setattr__(self, "doubling", doubling)
        if doubling and self.currency == "pure":
            raise RequestError(
                "caps of pure epsilon do not double: its noise is drawn up to the cap at first use",
                "Write Budget(rho=..., doubling=True), or leave doubling out.",
            )

    @property
    def currency(self) -> Currency:
        """``pure`` for epsilon without delta, else ``zcdp``."""
        return "pure" if self.rho is None and self.delta is None else "zcdp"

    @property
    def cap(self) -> PrivacyLoss:
        """The cap in the session's currency."""
        if self.rho is not None:
            return PrivacyLoss(rho=self.rho)
        if self.epsilon is None:
            raise RequestError("the budget is empty", "Give rho or epsilon.")
        if self.delta is None:
            return PrivacyLoss.of(self.epsilon, "pure")
        return PrivacyLoss(rho=rho_of_epsilon(self.epsilon, self.delta))

    def to_dict(self) -> dict[str, str | bool | None]:
        """Return the declaration as plain data."""
        amounts = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
        texts = {name: None if value is None else str(value) for name, value in amounts.items()}
        return {**texts, "doubling": self.doubling}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Budget:
        """Build a budget from :meth:`to_dict`."""
        amounts = {name: data.get(name) for name in ("rho", "epsilon", "delta")}
        return cls(**amounts, doubling=bool(data.get("doubling", False)))

    def __repr__(self) -> str:
        given = [
            f"{name}={float(value):g}"
            for name, value in (
                ("rho", self.rho),
                ("epsilon", self.epsilon),
                ("delta", self.delta),
            )
            if value is not None
        ]
        given += ["doubling=True"] if self.doubling else []
        return f"Budget({', '.join(given)})"
