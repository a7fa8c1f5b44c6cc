"""What was released to whom, and what it cost: a fold over the ledger's entries.

``loss`` is a pure function of the store, so the rules of composition can be sharpened in one place.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpnb.errors import BudgetError, LedgerError, RequestError
from dpnb.privacy.loss import Budget, Currency, PrivacyLoss, unit
from dpnb.privacy.path import Knot


def loss(
    held: Mapping[tuple[str, str], Fraction],
    currency: Currency,
    once: Iterable[PrivacyLoss] = (),
) -> PrivacyLoss:
    """Return the loss of everybody together: over views, the finest level that anyone holds, summed.

    A path's finest version determines the coarser ones up to noise without data, so one view costs
    its maximum (spec/dprovdb.md 3.7); different views compose by addition, and so do one-off
    releases, each distinct one counted ``once``.
    """
    finest: dict[str, Fraction] = {}
    for (_, view), level in held.items():
        finest[view] = max(level, finest.get(view, level))
    total = PrivacyLoss.none()
    for level in finest.values():
        total += PrivacyLoss.of(level, currency)
    return sum(once, total)


@dataclass(frozen=True, slots=True)
class Charge:
    """One committed request: who asked what at which levels, and what it cost.

    ``levels`` are those of the views of an answer; ``query`` its plain meaning. A one-off release
    has no levels. ``conditional`` when its amount, or that of a release it rests on, was picked by
    looking at the data.
    """

    sequence: int
    analyst: str
    request: str
    time: str
    sql: str
    levels: Mapping[str, Fraction]
    spent: PrivacyLoss
    version: int
    query: Mapping[str, Any]
    conditional: bool


@dataclass(frozen=True, slots=True)
class Release:
    """A one-off release: what it cost, and what was drawn."""

    spent: PrivacyLoss
    drawn: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Release(spent={self.spent!r})"


@dataclass
class Accountant:
    """The state of one ledger: noise paths, who holds which level, what is spent.

    ``releases`` holds the one-off releases by the name of their request; ``conditional`` the names of
    the views and one-off releases that were ever released conditionally. All versions of a view are
    correlated, so whatever is released of it from then on is conditional, too.
    """

    budget: Budget
    paths: dict[str, list[Knot]] = field(default_factory=dict)
    held: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    served: dict[tuple[str, str], list[Charge]] = field(default_factory=dict)
    charges: dict[tuple[str, str], Charge] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    conditional: set[str] = field(default_factory=set)
    spent: PrivacyLoss = field(default_factory=PrivacyLoss.none)
    identifiers: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.currency: Currency = self.budget.currency
        self.cap = self.budget.cap

    def __repr__(self) -> str:
        return f"Accountant(spent={self.spent!r}, cap={self.cap!r})"

    def __reduce__(self) -> Any:
        raise TypeError("an Accountant is as secret as the data and cannot be pickled")

    def level(self, analyst: str, view: str) -> Fraction:
        """Return the finest level of a view that an analyst holds; 0 for none."""
        return self.held.get((analyst, view), Fraction(0))

    def looks(self, analyst: str, views: Sequence[str]) -> list[tuple[Fraction, ...]]:
        """Return the different levels at which views were shown together, in order of first sight."""
        seen = (
            tuple(charge.levels[view] for view in views)
            for charge in self.served.get((analyst, views[0]), ())
            if all(view in charge.levels for view in views)
        )
        return list(dict.fromkeys(seen))

    def look(self, analyst: str, levels: Mapping[str, Fraction]) -> int:
        """Return the number of a look at views at ``levels``: an old one, or the next."""
        seen = self.looks(analyst, list(levels))
        shown = tuple(levels.values())
        return seen.index(shown) + 1 if shown in seen else len(seen) + 1

    def finest(self, view: str) -> Fraction:
        """Return the finest level of a view that anybody holds; 0 for none."""
        held = (level for (_, other), level in self.held.items() if other == view)
        return max(held, default=Fraction(0))

    def increase(self, analyst: str, levels: Mapping[str, Fraction]) -> PrivacyLoss:
        """Return what bringing the analyst's views up to ``levels`` adds to the loss."""
        total = PrivacyLoss.none()
        for view, level in levels.items():
            before = self.finest(view)
            if level > before:
                new = PrivacyLoss.of(level, self.currency)
                old = PrivacyLoss.of(before, self.currency)
                total += new - old
        return total

    def remaining(self) -> PrivacyLoss:
        """Return the part of the cap that is left."""
        left = self.cap.level(self.currency) - self.spent.level(self.currency)
        return PrivacyLoss.of(max(left, Fraction(0)), self.currency)

    def check(self, charge: PrivacyLoss) -> None:
        """Refuse a charge that would pass the cap; depends on charges alone (privacy filter)."""
        cost = charge.level(self.currency)
        left = self.remaining().level(self.currency)
        if cost > left:
            name = unit(self.currency)
            raise BudgetError(
                f"this costs {name} {float(cost):.6g}, but {float(left):.6g} is left",
                f"Ask with less {name}, or for a larger error. Nothing was charged.",
            )

    def check_identifier(self, analyst: str, identifier: str | None, request: str) -> None:
        """Refuse a client's name for a request that was used for another one."""
        known = None if identifier is None else self.identifiers.get((analyst, identifier))
        if known is not None and known != request:
            raise RequestError(
                "this request identifier was used for another request",
                "Send a new identifier. Nothing was charged.",
            )

    def apply_doubling(self, sequence: int) -> None:
        """Add one entry of kind ``cap``: the next of the declared caps."""
        if not self.budget.doubling:
            raise _damaged(sequence)
        self.cap += self.cap

    def apply(self, sequence: int, entry: Mapping[str, Any]) -> None:
        """Add one entry of kind ``answer``; checks that its charge is what its releases cost."""
        levels = {view: Fraction(level) for view, level in entry["levels"].items()}
        charge = _charge(sequence, entry, levels)
        analyst, spent = charge.analyst, charge.spent
        if spent != self.increase(analyst, levels):
            raise _damaged(sequence)
        total = self._total(spent, sequence)
        drawn = {
            view: [Knot(Fraction(level), tuple(vector)) for level, vector in knots]
            for view, knots in entry["knots"].items()
        }
        for view, level in levels.items():
            known = (*self.paths.get(view, ()), *drawn.get(view, ()))
            if all(knot.level != level for knot in known):
                raise _damaged(sequence)
        # everything was checked: from here on nothing is refused
        for view, knots in drawn.items():
            for knot in knots:
                insort(self.paths.setdefault(view, []), knot, key=_by_level)
        for view, level in levels.items():
            key = analyst, view
            self.held[key] = max(level, self.held.get(key, level))
            self.served.setdefault(key, []).append(charge)
        if charge.conditional:
            self.conditional.update(levels)
        self._keep(charge, entry, total)

    def apply_release(self, sequence: int, entry: Mapping[str, Any]) -> None:
        """Add one entry of kind ``release``: a one-off draw, paid for by its first analyst.

        Its price is the sum of the rhos, or epsilons, that its public definition names for its parts.
        """
        charge = _charge(sequence, entry, {})
        known, drawn = self.releases.get(charge.request), entry.get("drawn")
        parts = [Fraction(level) for level in charge.query[unit(self.currency)].values()]
        price = PrivacyLoss.of(sum(parts, Fraction(0)), self.currency)
        owed = price if known is None else PrivacyLoss.none()
        wrong = charge.spent != owed or (known is not None and known.spent != price)
        if wrong or (known is None) == (drawn is None) or not parts or min(parts) <= 0:
            raise _damaged(sequence)
        total = self._total(charge.spent, sequence)
        if drawn is not None:
            self.releases[charge.request] = Release(price, dict(drawn))
        if charge.conditional:
            self.conditional.add(charge.request)
        self._keep(charge, entry, total)

    def _keep(self, charge: Charge, entry: Mapping[str, Any], total: PrivacyLoss) -> None:
        self.charges[charge.analyst, charge.request] = charge
        if "identifier" in entry:
            self.identifiers[charge.analyst, str(entry["identifier"])] = charge.request
        self.spent = total

    def _total(self, spent: PrivacyLoss, sequence: int) -> PrivacyLoss:
        total = self.spent + spent
        if total.level(self.currency) > self.cap.level(self.currency):
            raise _damaged(sequence)
        return total

    def knot(self, view: str, level: Fraction) -> Knot:
        """Return the stored version of a view at exactly ``level``."""
        return next(knot for knot in self.paths[view] if knot.level == level)

    def history(self, analyst: str) -> Sequence[Charge]:
        """Return the analyst's committed requests, oldest first."""
        mine: Iterable[Charge] = (c for c in self.charges.values() if c.analyst == analyst)
        return sorted(mine, key=lambda charge: charge.sequence)


def _charge(sequence: int, entry: Mapping[str, Any], levels: Mapping[str, Fraction]) -> Charge:
    return Charge(
        sequence=sequence,
        analyst=str(entry["analyst"]),
        request=str(entry["request"]),
        time=str(entry["time"]),
        sql=str(entry["sql"]),
        levels=levels,
        spent=PrivacyLoss.from_dict(entry["spent"]),
        version=int(entry["version"]),
        query=dict(entry["query"]),
        conditional=bool(entry.get("conditional", False)),
    )


def _by_level(knot: Knot) -> Fraction:
    return knot.level


def _damaged(sequence: int) -> LedgerError:
    return LedgerError(
        f"entry {sequence} of the ledger does not add up", "Restore the newest unchanged copy."
    )
