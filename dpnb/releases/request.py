"""What every request that spends has in common; a runner carries one out.

It is planned once on each state of the ledger; the data are looked at once, outside any lock. What it commits is
one entry of the ledger.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from dpnb.engines.scans import Engine
from dpnb.ledger.accountant import Charge, Cost
from dpnb.privacy.noise import Noise

R = TypeVar("R", covariant=True)


class Planned(Protocol):
    """A plan: public facts only."""

    @property
    def request(self) -> str:
        """A name that is equal for requests of equal meaning and cost on one data version."""
        ...


P = TypeVar("P", bound=Planned)
T = TypeVar("T", bound=Planned, covariant=True)


class Request(Protocol[P, R]):
    """One analyst's request for something that costs.

    ``plan`` comes first; everything else rests on its result and on the state of the store at that moment.
    """

    verb: ClassVar[str]
    """What is asked for: query, explain, decide, discover, risk."""

    @property
    def analyst(self) -> str:
        """Who asks."""
        ...

    @property
    def key(self) -> Hashable | None:
        """What is equal only for requests of equal plans; None where these are not kept."""
        ...

    def plan(self) -> P:
        """Decide what would be measured, on the current state of the store; may refuse."""
        ...

    def words(self, plan: P) -> str:
        """Return what is asked, for the owner of the data: a statement, or what is done with it."""
        ...

    def table(self, plan: P) -> str:
        """Return the name of the table that is looked at."""
        ...

    def cost(self, plan: P) -> Cost:
        """Return what the request adds to the losses now."""
        ...

    def needed(self, plan: P, cost: Cost) -> Set[str]:
        """Return the names of what takes a look at the data; empty when the ledger holds it all."""
        ...

    def measure(self, plan: P, needed: Set[str], engine: Engine) -> Any:
        """Look at the data; the result is private, and so is the text of a failure."""
        ...

    def release(self, plan: P, cost: Cost, exact: Any, noise: Noise) -> dict[str, Any]:
        """Draw, and return the ledger's entry but for what :func:`header` adds."""
        ...

    def known(self, plan: P) -> R | None:
        """Return the result where past answers alone give it: nothing is looked at, charged or kept."""
        ...

    def result(self, plan: P, charge: Charge, *, fresh: bool) -> R:
        """Build what is shown from what was committed."""
        ...


@dataclass(frozen=True, slots=True)
class Ready(Generic[T]):
    """A plan on one state of the ledger, and what it comes to there.

    Attributes
    ----------
    plan : Planned
    stored : Charge or None
        What was paid, where it was bought before.
    cost : Cost
        What it adds to the losses; nothing where it was bought before.
    """

    plan: T
    stored: Charge | None
    cost: Cost


def definitions_of(plan: Planned) -> dict[str, Mapping[str, Any]]:
    """Return the public definitions of what a plan may release, by the names under which it is kept.

    Those of its views, or of the request itself where it is a one-off release.
    """
    views = getattr(plan, "views", None)
    if views is not None:
        return {name: view.definition() for name, view in views.items()}
    return {plan.request: plan.definition()}  # type: ignore[attr-defined]


def header(
    analyst: str,
    request: str,
    cost: Cost,
    time: str,
    granted: Sequence[tuple[int, Fraction]],
    identifier: str | None,
) -> dict[str, Any]:
    """Return the part of a ledger entry that says who asked when, and what it cost whom."""
    made: dict[str, Any] = {
        "analyst": analyst, "time": time, "request": request,
        "spent": cost.table.to_dict(), "row": cost.row.to_dict(),
    }  # fmt: skip
    if granted:
        made["granted"] = [[place, str(part)] for place, part in granted]
    return made if identifier is None else {**made, "identifier": identifier}
