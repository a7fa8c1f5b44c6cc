"""Privacy losses, and how amounts are read, shown and converted.

A loss has three components that add: ``rho`` (zero-concentrated DP), ``epsilon`` (None if it is not
finite) and ``delta``, which belongs to ``epsilon``. Amounts are exact rationals, so ten times 0.1
is 1. Conversions round to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from dpnb.codes import scalar
from dpnb.errors import RequestError, given
from dpnb.privacy.definition import BASIC, GDP, PURE, ZCDP, PrivacyDefinition

Amount: TypeAlias = int | float | Fraction | Decimal | str


def refuse_rho(privacy: PrivacyDefinition) -> None:
    """Refuse an amount of rho where losses are counted in epsilon."""
    if not privacy.counts_rho:
        why = "its budget has no delta" if privacy is PURE else "its accountant is 'basic'"
        raise RequestError(
            f"this ledger counts epsilon, because {why}", "Give epsilon=0.5, not rho."
        )


def amount_text(value: Fraction | float, digits: int = 4, *, left: bool = False) -> str:
    """Return a privacy amount with at most ``digits`` significant digits, rounded up.

    A cost is never understated. With ``left`` it is rounded down: what is left, and a limit, is
    never overstated.

    Examples
    --------
    >>> amount_text(0.63861), amount_text(1e-6), amount_text(8.8404e-9), amount_text(12345.4)
    ('0.6387', '1e-6', '8.85e-9', '12,346')
    >>> amount_text(0.63869, left=True), amount_text(Fraction(1, 10)), amount_text(0.0099996)
    ('0.6386', '0.1', '0.01')
    """
    number = float(value)
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    moderate = 1e-4 <= abs(number) < 1e6
    power = math.floor(math.log10(abs(number)))
    last = min(power - digits + 1, 0) if moderate else power - digits + 2
    # a float may lie slightly beyond the decimal number that it represents
    slack = _UP if (number < 0) != left else _DOWN
    context = _FLOOR if left else _CEILING
    exact = context.multiply(context.create_decimal_from_float(number), slack)
    decimal = context.quantize(exact, Decimal((0, (1,), last))).normalize(context)
    if moderate:
        return f"{decimal:,f}"
    power = decimal.adjusted()
    return f"{decimal.scaleb(-power, context).normalize(context):f}e{power}"


def plain_context(digits: int, rounding: str) -> Context:
    """Return settings of decimal arithmetic in which nothing of the calling thread's own counts."""
    return Context(
        prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, capitals=1, clamp=0, flags=[], traps=[]
    )  # fmt: skip


_FLOOR, _CEILING = plain_context(40, ROUND_FLOOR), plain_context(40, ROUND_CEILING)
_DOWN, _UP = Decimal("0.999999999999"), Decimal("1.000000000001")
_GOLDEN = (math.sqrt(5) - 1) / 2
_DIGITS = 12


PICKED = "epsilon was picked by looking at the data"
"""Why a guarantee is conditional: amounts must not depend on data (docs/methods/rdr.md, E1)."""


class PickedRational(Fraction):
    """An exact amount that was chosen by looking at the data; see :class:`Picked`."""

    __slots__ = ()


class Picked(float):
    """An amount that was chosen by looking at the data; a release with it is marked as such.

    Arithmetic on it gives an ordinary number without the mark.

    Examples
    --------
    >>> is_picked(Picked(0.1)), is_picked({"rank": Picked(0.1)}), is_picked(2 * Picked(0.1))
    (True, True, False)
    """

    __slots__ = ()


def is_picked(*amounts: object) -> bool:
    """Return whether an amount, or one of several, was chosen by looking at the data."""
    for value in amounts:
        parts = value.values() if isinstance(value, Mapping) else value
        if isinstance(value, (Picked, PickedRational)):
            return True
        if isinstance(parts, Iterable) and not isinstance(parts, str) and is_picked(*parts):
            return True
    return False


def guarantee(conditional: bool) -> str:
    """Return in words whether a guarantee is conditional (docs/methods/rdr.md, statement 17)."""
    return f"conditional: {PICKED}" if conditional else "unconditional"


def amount(value: object, name: str) -> Fraction:
    """Return a positive, finite amount as the exact rational of its decimal text.

    Raises
    ------
    RequestError
        When it is zero, negative, NaN, infinite or not a number.
    """
    hint = f"Give {name} as a positive number, such as 0.1."
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, str)):
        raise RequestError(f"{name} must be a number, got {given(value)}", hint)
    exponents = (value.numerator, value.denominator) if isinstance(value, (int, Fraction)) else ()
    if any(part.bit_length() > _BITS // 2 for part in exponents):
        raise RequestError(f"{name} must be between 1e-18 and 1e18", hint)
    text = str(value).strip()
    if len(text) > 60 or len(text.lower().partition("e")[2]) > 4:
        raise RequestError(f"{name} must be between 1e-18 and 1e18", hint)
    try:
        exact = value if isinstance(value, Fraction) else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise RequestError(f"{name} must be a finite number, got {given(value)}", hint) from None
    if exact <= 0:
        raise RequestError(f"{name} must be above 0, got {given(value)}", hint)
    if not Fraction(1, 10**18) <= exact <= 10**18:
        raise RequestError(f"{name} must be between 1e-18 and 1e18", hint)
    return exact


_BITS = 512
"""Sums of amounts are exact up to this many binary digits after the point, then rounded up."""


def _bounded(total: Fraction) -> Fraction:
    """Return a sum, rounded up if its denominator is huge, as denominators multiply in sums."""
    if total.denominator.bit_length() <= _BITS:
        return total
    return Fraction(math.ceil(total * 2**_BITS), 2**_BITS)


def floor_digits(value: float) -> Fraction:
    """Return ``value`` rounded down to 12 significant decimal digits, as a rational."""
    if value <= 0:
        return Fraction(0)
    unit = Fraction(10) ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return math.floor(Fraction(value) / unit) * unit


def ceiling_digits(value: float) -> Fraction:
    """Return ``value`` rounded up to 12 significant decimal digits, as a rational."""
    if value <= 0:
        return Fraction(0)
    unit = Fraction(10) ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return math.ceil(Fraction(value) / unit) * unit


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a unimodal function on ``[low, high]``, by golden-section search."""
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

    epsilon = min over alpha > 1 of
    alpha rho + (ln(1/delta) - ln alpha)/(alpha - 1) + ln(1 - 1/alpha),
    the sharp conversion (Canonne, Kamath, Steinke 2020, Proposition 12). Every alpha gives a valid
    bound, so the numeric minimum is one too.
    """
    if rho <= 0:
        return 0.0
    r, log_delta = float(rho), -math.log(delta)

    def bound(log_order: float) -> float:
        excess = math.exp(log_order)
        log_alpha = math.log1p(excess)
        # one logarithm for ln(1 - 1/alpha): the difference of two would lose digits
        return (1 + excess) * r + (log_delta - log_alpha) / excess - math.log1p(1 / excess)

    centre = 0.5 * math.log(max(log_delta, 1e-3) / r)
    return max(0.0, _minimum(bound, centre - 12, centre + 12)) * (1 + 1e-12)


def rho_of_epsilon(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """Return the largest rho whose sharp conversion at ``delta`` stays within ``epsilon``.

    rho = max over alpha > 1 of
    (epsilon - (ln(1/delta) - ln alpha)/(alpha - 1) - ln(1 - 1/alpha)) / alpha,
    rounded down to 12 digits: the inverse of :func:`epsilon_of_rho`.
    """
    e, log_delta = float(epsilon), -math.log(delta)

    def cost(log_order: float) -> float:
        excess = math.exp(log_order)
        log_alpha = math.log1p(excess)
        return -(e - (log_delta - log_alpha) / excess + math.log1p(1 / excess)) / (1 + excess)

    centre = math.log(2 * max(log_delta, 1e-3) / e)
    return floor_digits(-_minimum(cost, centre - 12, centre + 12) * (1 - 1e-12))


RESERVE = 1e-12
"""The part of a mu-GDP cap reserved for the lattice: X of docs/methods/accounting.md, bound 8."""


def rho_within(epsilon: Fraction | float, delta: Fraction, privacy: PrivacyDefinition) -> Fraction:
    """Return the largest rho that respects (epsilon, delta)-DP, rounded down.

    ``gdp``: mu^2 / 2 with the largest mu on the exact curve, for Gaussian releases alone, at
    (epsilon - 2X, delta e^-X): a draw on a lattice is within a factor e^X of noise that is mu-GDP
    (docs/methods/accounting.md, bound 8). An epsilon up to 2X leaves nothing. Other definitions use
    the sharp conversion of zCDP.
    """
    if privacy is not GDP:
        return rho_of_epsilon(epsilon, delta)
    from dpnb.privacy.gaussian import mu_from

    usable = float(epsilon) - 2 * RESERVE
    if usable <= 0:
        return Fraction(0)
    mu = mu_from(usable, float(delta) * math.exp(-RESERVE))
    return floor_digits(mu**2 / 2)


def epsilon_shown(rho: Fraction, delta: Fraction | float, privacy: PrivacyDefinition) -> float:
    """Return a rho as an epsilon at ``delta``: the inverse of :func:`rho_within`."""
    if privacy is not GDP:
        return epsilon_of_rho(rho, delta)
    from dpnb.privacy.gaussian import epsilon_from

    epsilon = epsilon_from(math.sqrt(2 * rho), float(delta) * math.exp(-RESERVE))
    return epsilon + 2 * RESERVE if rho else 0.0


def rho_meant(epsilon: object, delta: Fraction | None, privacy: PrivacyDefinition) -> Fraction:
    """Return the rho for a requested epsilon at a session's delta.

    Raises
    ------
    RequestError
        Without a delta, and for an unusable epsilon.
    """
    exact_epsilon = amount(epsilon, "epsilon")
    if delta is None:
        raise RequestError(
            "epsilon cannot be used here: the session has no delta",
            "Give rho=, or open the session with Budget(epsilon=3, delta=1e-6).",
        )
    try:
        rho = rho_within(exact_epsilon, delta, privacy)
    except ValueError:
        raise RequestError(
            "epsilon must be between 0 and 50", "Give a smaller epsilon, such as 1."
        ) from None
    if rho <= 0:
        raise RequestError("epsilon is too small to be converted to rho", "Give a larger epsilon.")
    return rho


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """A privacy loss: ``rho`` (zCDP), and ``epsilon`` (None when infinite) with ``delta``.

    Each of the two is a separate guarantee: rho-zCDP, and (epsilon, delta)-DP, which is pure DP
    when delta is 0.

    Attributes
    ----------
    rho : Fraction
        In zero-concentrated differential privacy, at least 0.
    epsilon : Fraction or None
        At least 0; None if it is infinite.
    delta : Fraction
        At least 0; it belongs to ``epsilon``.

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
        """Return the loss of releasing nothing.

        Returns
        -------
        PrivacyLoss
            0 in every component.
        """
        return cls(Fraction(0), Fraction(0), Fraction(0))

    @classmethod
    def of(cls, level: Fraction, privacy: PrivacyDefinition) -> PrivacyLoss:
        """Return the loss of a release at ``level``: rho if rho is counted, else epsilon.

        Under a basic accountant a level alone does not determine rho, which is left out.
        Pure epsilon-DP implies (epsilon^2 / 2)-zCDP (Bun and Steinke 2016, Proposition 3.3).

        Parameters
        ----------
        level : Fraction
            At least 0.
        privacy : PrivacyDefinition
            How losses are counted.

        Returns
        -------
        PrivacyLoss
            With the implied rho (docs/methods/accounting.md).
        """
        if level == 0:
            return cls.none()
        if privacy.counts_rho:
            return cls(rho=level)
        return cls(Fraction(0) if privacy is BASIC else level * level / 2, level)

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        pure = self.epsilon is not None and other.epsilon is not None
        epsilon = _bounded(self.epsilon + other.epsilon) if pure else None  # type: ignore[operator]
        return PrivacyLoss(
            _bounded(self.rho + other.rho), epsilon, _bounded(self.delta + other.delta)
        )

    def __sub__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return the difference of two losses, component by component."""
        pure = self.epsilon is not None and other.epsilon is not None
        epsilon = self.epsilon - other.epsilon if pure else None  # type: ignore[operator]
        return PrivacyLoss(self.rho - other.rho, epsilon, self.delta - other.delta)

    def level(self, privacy: PrivacyDefinition) -> Fraction:
        """Return the component that is counted.

        Parameters
        ----------
        privacy : PrivacyDefinition
            How losses are counted.

        Returns
        -------
        Fraction
            rho or epsilon, at least 0.

        Raises
        ------
        RequestError
            If epsilon is counted and infinite.
        """
        if privacy.counts_rho:
            return self.rho
        if self.epsilon is None:
            raise RequestError("this loss is not finite in pure DP", "Open a zcdp session.")
        return self.epsilon

    def exceeds(self, cap: PrivacyLoss, privacy: PrivacyDefinition) -> bool:
        """Return whether this loss exceeds a cap, in the counted component or in delta.

        Parameters
        ----------
        cap : PrivacyLoss
            The most that is allowed.
        privacy : PrivacyDefinition
            How losses are counted.

        Returns
        -------
        bool
            True if it must be refused.
        """
        return self.level(privacy) > cap.level(privacy) or self.delta > cap.delta

    def epsilon_at(self, delta: Fraction | float, privacy: PrivacyDefinition = ZCDP) -> float:
        """Return the epsilon that holds together with ``delta`` (these epsilons do not add).

        Parameters
        ----------
        delta : number
            Above 0 and below 1.
        privacy : PrivacyDefinition
            How losses are counted.

        Returns
        -------
        float
            At least 0, rounded up (docs/methods/accounting.md).
        """
        sharp = epsilon_shown(self.rho, delta, privacy)
        counted = self.epsilon is not None and self.delta <= delta
        return min(sharp, float(self.epsilon)) if counted and self.epsilon is not None else sharp

    def to_dict(self) -> dict[str, str | None]:
        """Return the exact components as text.

        Returns
        -------
        dict of str to str or None
            Fractions as texts.
        """
        epsilon = None if self.epsilon is None else str(self.epsilon)
        return {"rho": str(self.rho), "epsilon": epsilon, "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrivacyLoss:
        """Build a loss from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        PrivacyLoss
            Equal to the original.
        """
        epsilon = None if data["epsilon"] is None else Fraction(data["epsilon"])
        return cls(Fraction(data["rho"]), epsilon, Fraction(data["delta"]))

    def __repr__(self) -> str:
        parts = []
        if self.epsilon is None or self.rho != self.epsilon**2 / 2:
            parts.append(f"rho={float(self.rho):.12g}")
        if self.epsilon is not None:
            parts.append(f"epsilon={float(self.epsilon):.12g}")
        if self.delta:
            parts.append(f"delta={amount_text(self.delta)}")
        return f"PrivacyLoss({', '.join(parts)})"
