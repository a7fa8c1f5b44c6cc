"""The protocol of requests that spend budget; a runner carries them out.

A request is planned once for each state of the ledger. It reads the data once, outside any lock,
and commits one entry to the ledger.
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
        """A name that is equal for requests of equal meaning and cost on one table version."""
        ...


P = TypeVar("P", bound=Planned)
T = TypeVar("T", bound=Planned, covariant=True)


class Request(Protocol[P, R]):
    """One analyst's request for something that costs.

    ``plan`` comes first; everything else depends on its result and on the store at that moment.
    """

    verb: ClassVar[str]
    """The kind of request: query, explain, decide, discover, risk."""

    @property
    def analyst(self) -> str:
        """The account that asks."""
        ...

    @property
    def key(self) -> Hashable | None:
        """A key that is equal only for requests of equal plans; None if plans are not kept."""
        ...

    def plan(self) -> P:
        """Decide what would be measured, on the current state of the store; may refuse."""
        ...

    def words(self, plan: P) -> str:
        """Return the request in words, for the data owner: a statement, or what is done with it."""
        ...

    def table(self, plan: P) -> str:
        """Return the name of the table that the request reads."""
        ...

    def cost(self, plan: P) -> Cost:
        """Return the privacy loss that the request adds now."""
        ...

    def needed(self, plan: P, cost: Cost) -> Set[str]:
        """Return the names of what must be measured; empty if the ledger holds it all."""
        ...

    def measure(self, plan: P, needed: Set[str], engine: Engine) -> Any:
        """Read the data; the result is private, and so is the text of an error."""
        ...

    def release(self, plan: P, cost: Cost, exact: Any, noise: Noise) -> dict[str, Any]:
        """Draw the noise and return the ledger entry, without the part from :func:`header`."""
        ...

    def known(self, plan: P) -> R | None:
        """Return the result if past answers alone give it; nothing is measured, charged or kept."""
        ...

    def result(self, plan: P, charge: Charge, *, fresh: bool) -> R:
        """Build the result from the committed charge."""
        ...


@dataclass(frozen=True, slots=True)
class Ready(Generic[T]):
    """A plan on one state of the ledger, with its cost there.

    Attributes
    ----------
    plan : Planned
    stored : Charge or None
        The charge, if the plan was bought before.
    cost : Cost
        What the plan adds to the losses; nothing if it was bought before.
    """

    plan: T
    stored: Charge | None
    cost: Cost


def definitions_of(plan: Planned) -> dict[str, Mapping[str, Any]]:
    """Return the public definitions of what a plan may release, by their names in the ledger.

    These are the definitions of its views, or that of the request itself for a one-off release.
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
    """Return the part of a ledger entry that says who asked, when, and at what cost."""
    entry: dict[str, Any] = {
        "analyst": analyst, "time": time, "request": request,
        "spent": cost.table.to_dict(), "row": cost.row.to_dict(),
    }  # fmt: skip
    if granted:
        entry["granted"] = [[place, str(part)] for place, part in granted]
    return entry if identifier is None else {**entry, "identifier": identifier}
