"""Which account received which releases, and what they cost: a fold over the ledger's entries.

``loss`` is a pure function of the store, so the composition rules can be sharpened in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpnb.errors import BudgetError, LedgerError, RequestError
from dpnb.ledger.mechanism import (
    MECHANISMS,
    NONE,
    LevelTarget,
    Local,
    Mechanism,
    Name,
    Step,
    Synopses,
)
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import BASIC, ZCDP, PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.privacy.parallel import Place, Region, region, worst_off, worst_off_in
from dpnb.privacy.path import Version, find, insert

_MOST_REPEATED = 10_000
"""Number of client identifiers of repeated requests that are remembered."""
_STEPS = ""
"""Recorded for a client's identifier whose steps have identifiers too: "name step 1"."""
_WORTHWHILE = Fraction(1, 1000)
"""Share of a budget below which no answer is worthwhile: 30 times the error of the whole."""
_ZERO = Fraction(0)


def person(row: str) -> str:
    """Return the analyst of an account; an analyst has one account for each privilege."""
    return row.partition("#")[0]


def _name(into: dict[tuple[str, str], str], row: str, identifier: str, request: str) -> None:
    """Note the request for which a client's identifier was used."""
    prefix = identifier.partition(" ")[0]
    if prefix != identifier:
        into[person(row), prefix] = _STEPS
    into[person(row), identifier] = request


def loss(
    synopses: Synopses,
    mechanism: Mechanism,
    once: Mapping[tuple[str, str], PrivacyLoss],
    rows: Collection[str],
    counts: Callable[[str], bool] = lambda _: True,
) -> PrivacyLoss:
    """Return the joint privacy loss of some accounts.

    ``counts`` selects views and one-off releases by name; by default all count.

    The joint loss of a view is, on noise paths, the largest loss of one of the accounts. The losses
    of views add up where the views may depend on the same row of a table, and the maximum over
    regions counts (docs/methods/bayes.md, theorem 13). Every one-off release of any of the accounts
    comes on top, each distinct one once.
    """
    views = dict.fromkeys(view for row, view in synopses.cells if row in rows and counts(view))
    one_offs = {name: price for (row, name), price in once.items() if row in rows and counts(name)}
    if synopses.privacy is BASIC:
        losses = (mechanism.together(synopses, view, rows) for view in views)
        return sum([*losses, *one_offs.values()], NONE)
    learned: dict[Region, PrivacyLoss] = {}
    for view in views:
        _add(learned, synopses.regions[view], mechanism.together(synopses, view, rows))
    most = worst_off(learned)
    # the charges are a bound, too, and may be the smaller one
    for who in (None, *rows) if len(rows) == 1 else (None,):
        if who in synopses.charged:
            most = _less(most, synopses.charged[who])
    return sum(one_offs.values(), most)


def _less(one: PrivacyLoss, other: PrivacyLoss) -> PrivacyLoss:
    """Return the smaller of two losses, by component; an epsilon of None is infinite."""
    epsilons = [loss.epsilon for loss in (one, other) if loss.epsilon is not None]
    epsilon = min(epsilons, default=None)
    return PrivacyLoss(min(one.rho, other.rho), epsilon, min(one.delta, other.delta))


def _more(one: PrivacyLoss, other: PrivacyLoss) -> PrivacyLoss:
    """Return the larger of two losses, by component."""
    pure = one.epsilon is not None and other.epsilon is not None
    epsilon = max(one.epsilon, other.epsilon) if pure else None  # type: ignore[type-var]
    return PrivacyLoss(max(one.rho, other.rho), epsilon, max(one.delta, other.delta))


def _increase(new: PrivacyLoss, old: PrivacyLoss) -> PrivacyLoss:
    """Return by how much a loss has grown, at least 0: earlier overcharges are not refunded."""
    difference = new - old
    epsilon = None if difference.epsilon is None else max(difference.epsilon, _ZERO)
    increase = PrivacyLoss(max(difference.rho, _ZERO), epsilon, max(difference.delta, _ZERO))
    return increase if increase.rho or epsilon or increase.delta else NONE


def _add(learned: dict[Region, PrivacyLoss], where: Region, more: PrivacyLoss) -> None:
    learned[where] = learned[where] + more if where in learned else more


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request adds to the joint loss of all accounts (``table``) and to its own (``row``).

    Both are maxima over regions, so views on disjoint parts of a table share a charge. ``steps``
    says how each of its views changes, ``regions`` on which rows each one may depend, and
    ``bounds`` how large the loss then is at most for each changed version of a table. A one-off
    release has none.
    """

    table: PrivacyLoss
    row: PrivacyLoss
    steps: Mapping[str, Step] = field(default_factory=dict)
    regions: Mapping[str, Region] = field(default_factory=dict)
    bounds: Mapping[str | None, Mapping[Place, PrivacyLoss]] = field(default_factory=dict)

    def then(self, later: Cost) -> Cost:
        """Return the cost of this request and of a later one, whose steps start from this one's."""
        return Cost(
            self.table + later.table,
            self.row + later.row,
            {**self.steps, **later.steps},
            {**self.regions, **later.regions},
            {**self.bounds, **later.bounds},
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """One committed request: who asked what at which levels, and what it cost.

    ``spent`` is what it added to the joint loss of all, ``row`` what it added to the analyst's.
    ``levels`` are the levels of an answer's views, ``declared`` the declared view behind each of
    its aggregates, ``query`` its meaning as plain data. A one-off release has no levels.
    ``conditional`` is true if its amount, or the amount of a release it rests on, was chosen by
    looking at the data. ``past`` holds the versions of other statements' views that were merged
    into the answer, ``way`` how the answer was obtained, ``alone`` what it would have cost without
    them, and ``accuracy`` the requested accuracy of an answer.
    """

    sequence: int
    analyst: str
    request: str
    time: str
    sql: str
    levels: Mapping[str, Fraction]
    spent: PrivacyLoss
    row: PrivacyLoss
    version: int
    query: Mapping[str, Any]
    conditional: bool
    declared: tuple[str | None, ...] = ()
    past: Mapping[str, Fraction] = field(default_factory=dict)
    way: str | None = None
    alone: PrivacyLoss = NONE
    accuracy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """A one-off release: its cost, and the drawn values."""

    spent: PrivacyLoss
    drawn: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Release(spent={self.spent!r})"


@dataclass
class Accountant:
    """The state of one ledger: which account has which version of which view, and what is spent.

    ``releases`` holds the one-off releases by request name, ``once`` which account has which and at
    what price, ``known`` the loss of each account. ``conditional`` holds the names of the views and
    one-off releases that were ever released conditionally. All versions of a view are correlated,
    so its later releases are conditional, too. ``definitions`` holds the public definition of every
    view that was ever released, by its id.
    """

    budget: Budget
    mechanism_name: Name = "path"
    served: dict[tuple[str, str], list[Charge]] = field(default_factory=dict)
    charges: dict[tuple[str, str], Charge] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    once: dict[tuple[str, str], PrivacyLoss] = field(default_factory=dict)
    known: dict[str, PrivacyLoss] = field(default_factory=dict)
    conditional: set[str] = field(default_factory=set)
    spent: PrivacyLoss = field(default_factory=PrivacyLoss.none)
    identifiers: dict[tuple[str, str], str] = field(default_factory=dict)
    definitions: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.privacy: PrivacyDefinition = self.budget.privacy
        self.cap = self.budget.cap
        self.mechanism = MECHANISMS[self.mechanism_name]
        self._looks: dict[
            tuple[str, tuple[str, ...]], tuple[int, dict[tuple[Fraction, ...], int]]
        ] = {}
        # the first charges of two different statements, which tell of any third what came before
        self._statements: dict[tuple[str, str], list[Charge]] = {}
        self._repeated: dict[tuple[str, str], str] = {}
        self.synopses = Synopses(self.privacy, self.budget.release_delta)
        self._applied = 0
        self._priced: tuple[object, Cost] | None = None

    def __repr__(self) -> str:
        return f"Accountant(spent={self.spent!r}, cap={self.cap!r})"

    def __reduce__(self) -> Any:
        raise TypeError("an Accountant is as secret as the data and cannot be pickled")

    def level(self, analyst: str, view: str) -> Fraction:
        """Return the finest level of a view that was released to an analyst; 0 for none."""
        return self.synopses.level(analyst, view)

    def looks(self, analyst: str, views: Sequence[str]) -> list[tuple[Fraction, ...]]:
        """Return the distinct levels at which views were shown together, oldest first."""
        return list(self._seen(analyst, tuple(views)))

    def look(self, analyst: str, levels: Mapping[str, Fraction]) -> int:
        """Return the number of a look at views at ``levels``: an earlier one's, or the next."""
        numbers = self._seen(analyst, tuple(levels))
        return numbers.get(tuple(levels.values()), len(numbers) + 1)

    def _seen(self, analyst: str, views: tuple[str, ...]) -> dict[tuple[Fraction, ...], int]:
        """Return the number of each look; reads only charges since the last call."""
        start, numbers = self._looks.get((analyst, views), (0, {}))
        served = self.served.get((analyst, views[0]), ())
        for charge in served[start:]:
            if all(view in charge.levels for view in views):
                look = tuple(charge.levels[view] for view in views)
                numbers.setdefault(look, len(numbers) + 1)
        self._looks[analyst, views] = len(served), numbers
        return numbers

    def shown_before(self, charge: Charge) -> bool:
        """Return whether the analyst saw its declared views in answers to other statements."""
        return any(
            other.query != charge.query
            for view in set(charge.declared)
            if view is not None
            for other in self._statements.get((charge.analyst, view), ())
            if other.sequence < charge.sequence
        )

    def finest(self, view: str) -> Fraction:
        """Return the finest level of a view that was released to anybody; 0 for none."""
        return self.synopses.finest.get(view, _ZERO)

    def cost(
        self,
        analyst: str,
        targets: Mapping[str, LevelTarget],
        definitions: Mapping[str, Mapping[str, Any]],
        state: Synopses | None = None,
    ) -> Cost:
        """Return what meeting an analyst's targets would change; spends nothing.

        Parameters
        ----------
        targets, definitions : mapping
            The targets of views, and their public definitions, by the views' ids.
        state : Synopses, optional
            A copy of the state to try it on.
        """
        if state is not None:
            return self._raised(analyst, targets, definitions, state)
        # a charge is checked again when its entry is read, on the state on which it was priced
        asked = self._applied, analyst, targets, definitions
        priced = self._priced
        if priced is None or priced[0] != asked:
            priced = self._priced = (
                asked,
                self._raised(analyst, targets, definitions, self.synopses),
            )
        return priced[1]

    def _raised(
        self,
        analyst: str,
        targets: Mapping[str, LevelTarget],
        definitions: Mapping[str, Mapping[str, Any]],
        state: Synopses,
    ) -> Cost:
        steps = {
            view: self.mechanism.step(state, analyst, view, target)
            for view, target in targets.items()
        }
        return self._cost(analyst, steps, definitions, state)

    @staticmethod
    def _cost(
        analyst: str,
        steps: Mapping[str, Step],
        definitions: Mapping[str, Mapping[str, Any]],
        state: Synopses,
    ) -> Cost:
        known = state.regions
        regions = {v: known[v] if v in known else region(definitions[v]) for v in steps}
        charges = {
            who: _more_known(state, who, _changes(state, who, steps), regions)
            for who in (None, analyst)
        }
        bounds = {who: known for who, (_, known) in charges.items()}
        return Cost(charges[None][0], charges[analyst][0], steps, regions, bounds)

    def note(self, analyst: str, cost: Cost, state: Synopses | None = None) -> None:
        """Apply a cost to the state, or to a copy of it (``state``)."""
        state = self.synopses if state is None else state
        for who, loss in ((None, cost.table), (analyst, cost.row)):
            for view, more in _changes(state, who, cost.steps).items():
                where = cost.regions[view]
                _add(state.learned.setdefault((who, where.place), {}), where, more)
            state.bounds.setdefault(who, {}).update(cost.bounds.get(who, {}))
            if cost.steps and loss != NONE:
                state.charged[who] = state.charged.get(who, NONE) + loss
        state.regions.update(cost.regions)
        for view, step in cost.steps.items():
            state.note(analyst, view, step)

    def loss(
        self, rows: Collection[str], counts: Callable[[str], bool] = lambda _: True
    ) -> PrivacyLoss:
        """Return the joint privacy loss of some accounts."""
        return loss(self.synopses, self.mechanism, self.once, rows, counts)

    def changed(self, row: str | None, cost: Cost) -> list[str]:
        """Return the views whose loss would grow for an account, or for all together (None)."""
        return [*_changes(self.synopses, row, cost.steps)]

    def definition(self, made: str) -> Mapping[str, Any]:
        """Return the public definition of a view, by id, or of a one-off release, by request."""
        if made not in self.definitions:
            return next(c.query for (_, name), c in self.charges.items() if name == made)
        return self.definitions[made]

    def loss_after(
        self,
        rows: Collection[str],
        analyst: str,
        cost: Cost,
        counts: Callable[[str], bool] = lambda _: True,
    ) -> PrivacyLoss:
        """Return the joint loss of some accounts after a cost of one analyst."""
        trial = self.synopses.sketch()
        self.note(analyst, cost, trial)
        return loss(trial, self.mechanism, self.once, rows, counts)

    def remaining(self) -> PrivacyLoss:
        """Return the part of the cap that is left."""
        return left_of(self.cap, self.spent, self.privacy)

    def check(self, charge: PrivacyLoss, paid: Fraction = _ZERO) -> None:
        """Refuse a charge that would exceed the cap; depends on charges alone (privacy filter)."""
        check(charge, self.spent, self.cap, self.privacy, paid=paid)

    def holds_answers(self, row: str, definitions: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether an account holds answers from which others may follow, of the same tables.

        Counts of different ids, and one-off releases, give no other answer.
        """
        about = {_rows_of(definition) for definition in definitions}
        held = [
            view for who, view in self.synopses.cells if who == row and view in self.definitions
        ]
        return any(
            past["measure"][0] in ("count", "sum") and _rows_of(past) in about
            for past in map(self.definitions.__getitem__, held)
        )

    def paid(self, analyst: str, cost: Cost) -> Fraction:
        """Return the rho at which an analyst already has a request's answer; 0 if there is none.

        It is the sum over the request's views, if each was released at the same share of its
        target. A rho that is greater by x then costs at most x.
        """
        levels = {view: self.level(analyst, view) for view in cost.steps}
        shares = {levels[view] / step.level for view, step in cost.steps.items()}
        return sum(levels.values(), _ZERO) if self.privacy is ZCDP and len(shares) == 1 else _ZERO

    def check_identifier(self, analyst: str, identifier: str | None, request: str) -> None:
        """Refuse a client's identifier that was used for another request."""
        if identifier is None:
            return
        prefix = identifier.partition(" ")[0]
        earlier_request = self._named(analyst, identifier)
        steps = _STEPS if prefix == identifier else self._named(analyst, prefix)
        if earlier_request not in (None, request) or steps not in (None, _STEPS):
            raise RequestError(
                "this request identifier was already used for another request",
                "Send a new identifier. Nothing was charged.",
            )

    def keep_identifier(self, analyst: str, identifier: str | None, request: str) -> None:
        """Remember the request of a client's identifier, as long as there is room."""
        if identifier is None or (person(analyst), identifier) in self.identifiers:
            return
        if len(self._repeated) >= _MOST_REPEATED:
            self._repeated.clear()
        _name(self._repeated, analyst, identifier, request)

    def _named(self, analyst: str, identifier: str) -> str | None:
        """Return the request of a client's identifier; None for a new identifier."""
        name = person(analyst), identifier
        return self.identifiers.get(name, self._repeated.get(name))

    def apply_doubling(self, sequence: int) -> None:
        """Apply one entry of kind ``cap``: the next of the declared caps."""
        if not self.budget.doubling:
            raise damaged(sequence)
        self.cap = replace(self.cap + self.cap, delta=self.cap.delta)

    def apply(self, sequence: int, entry: Mapping[str, Any]) -> Charge:
        """Apply one entry of kind ``answer``; its charge must cover what its releases cost.

        The charge may be larger, because the bounds behind charges may become sharper later.
        """
        levels = {view: Fraction(level) for view, level in entry["levels"].items()}
        charge = _charge(sequence, entry, levels)
        analyst, state = charge.analyst, self.synopses
        definitions = self._definitions(sequence, entry, levels)
        if self.mechanism_name == "path":
            targets = {view: LevelTarget(level) for view, level in levels.items()}
            cost = self.cost(analyst, targets, definitions)
        else:
            cost = self._written(sequence, analyst, entry)
        wrong = any(step.level != levels[view] for view, step in cost.steps.items())
        if wrong or cost.steps.keys() != levels.keys():
            raise damaged(sequence)
        paid = ((charge.spent, cost.table), (charge.row, cost.row))
        if not all(_pays(made, owed, self.privacy) for made, owed in paid):
            raise damaged(sequence)
        cost = replace(cost, table=charge.spent, row=charge.row)
        total = self._total(charge.spent, sequence)
        drawn_versions = {
            view: [Version(Fraction(level), tuple(vector)) for level, vector in versions]
            for view, versions in entry["knots"].items()
        }
        local_versions = {
            view: Local(Fraction(level), Fraction(source), tuple(vector))
            for view, (level, source, vector) in entry.get("locals", {}).items()
        }
        for view, level in levels.items():
            if self.mechanism_name == "path":
                new = any(version.level == level for version in drawn_versions.get(view, ()))
                present = new or find(state.paths.get(view, ()), level) is not None
            else:
                new = view in local_versions and local_versions[view].level == level
                present = new or level in state.locals.get((analyst, view), {})
            if not present:
                raise damaged(sequence)
        # all checks are done: from here on nothing is refused
        for view, versions in drawn_versions.items():
            for version in versions:
                insert(state.paths.setdefault(view, []), version)
        for view, made in local_versions.items():
            state.locals.setdefault((analyst, view), {})[made.level] = made
        self.definitions.update(definitions)
        self.note(analyst, cost)
        for view in cost.steps:
            self.served.setdefault((analyst, view), []).append(charge)
            statements = self._statements.setdefault((analyst, view), [])
            if len(statements) < 2 and all(one.query != charge.query for one in statements):
                statements.append(charge)
        if charge.conditional:
            self.conditional.update(levels)
        self._keep(charge, entry, total)
        return charge

    def _definitions(
        self, sequence: int, entry: Mapping[str, Any], views: Collection[str]
    ) -> dict[str, Mapping[str, Any]]:
        """Return the definitions of an entry's views; refuse one that contradicts the ledger."""
        definitions = {view: entry["views"][view] for view in views}
        for view, definition in definitions.items():
            if self.definitions.get(view, definition) != definition:
                raise damaged(sequence)
        return definitions

    def _written(self, sequence: int, analyst: str, entry: Mapping[str, Any]) -> Cost:
        """Return the cost of an entry's steps if the mechanism would take the same steps.

        Amounts that rest on floats are taken from the entry: another machine's last digit may
        differ.
        """
        steps = {view: read_step(data) for view, data in entry["steps"].items()}
        for view, (level, epsilon) in entry["wishes"].items():
            target = LevelTarget(Fraction(level), None if epsilon is None else Fraction(epsilon))
            if not _alike(steps[view], self.mechanism.step(self.synopses, analyst, view, target)):
                raise damaged(sequence)
        if steps.keys() != entry["wishes"].keys():
            raise damaged(sequence)
        for view, step in steps.items():
            local = entry["locals"].get(view)
            refined = step.fresh and self.mechanism_name == "additive"
            drawn_levels = [Fraction(level) for level, _ in entry["knots"].get(view, ())]
            if drawn_levels != ([step.source] if refined else []):
                raise damaged(sequence)
            if local is not None and Fraction(local[1]) != step.source:
                raise damaged(sequence)
        return self._cost(analyst, steps, entry["views"], self.synopses)

    def apply_release(self, sequence: int, entry: Mapping[str, Any]) -> Charge:
        """Apply one entry of kind ``release``: a one-off draw.

        All accounts together pay for it once; each account that receives it pays in full. Its price
        is the sum of the rhos, or epsilons, that its public definition gives for its parts, and its
        delta.
        """
        charge = _charge(sequence, entry, {})
        release, draws = self.releases.get(charge.request), entry.get("drawn")
        parts = [Fraction(level) for level in charge.query[self.privacy.parameter].values()]
        price = PrivacyLoss.of(sum(parts, _ZERO), self.privacy)
        price = replace(price, delta=Fraction(charge.query.get("delta", 0)))
        owed = price if release is None else PrivacyLoss.none()
        wrong = (charge.spent, charge.row) != (owed, price)
        wrong = wrong or (release is not None and release.spent != price)
        if (
            wrong
            or (release is None) == (draws is None)
            or not parts
            or min(parts) <= 0
            or price.delta < 0
        ):
            raise damaged(sequence)
        total = self._total(charge.spent, sequence)
        if draws is not None:
            self.releases[charge.request] = Release(price, dict(draws))
        self.once[charge.analyst, charge.request] = price
        if charge.conditional:
            self.conditional.add(charge.request)
        self._keep(charge, entry, total)
        return charge

    def once_cost(self, request: str, price: PrivacyLoss) -> Cost:
        """Return what a one-off release costs; to all together nothing if it exists already."""
        return Cost(PrivacyLoss.none() if request in self.releases else price, price)

    def _keep(self, charge: Charge, entry: Mapping[str, Any], total: PrivacyLoss) -> None:
        self._applied += 1
        self.charges[charge.analyst, charge.request] = charge
        if "identifier" in entry:
            _name(self.identifiers, charge.analyst, str(entry["identifier"]), charge.request)
        if charge.row != NONE:
            self.known[charge.analyst] = self.known.get(charge.analyst, NONE) + charge.row
        self.spent = total

    def _total(self, spent: PrivacyLoss, sequence: int) -> PrivacyLoss:
        if spent == NONE:
            return self.spent
        total = self.spent + spent
        if total.exceeds(self.cap, self.privacy):
            raise damaged(sequence)
        return total

    def vector(self, analyst: str, view: str, level: Fraction) -> tuple[int, ...]:
        """Return the version of a view that an analyst received at exactly ``level``."""
        if self.mechanism_name == "path":
            return self.version(view, level).vector
        return self.synopses.locals[analyst, view][level].vector

    def version(self, view: str, level: Fraction) -> Version:
        """Return the stored version of a view at exactly ``level``."""
        version = find(self.synopses.paths[view], level)
        if version is None:
            raise KeyError(view)
        return version

    def history(self, analyst: str) -> Sequence[Charge]:
        """Return the analyst's committed requests, oldest first."""
        own_charges: Iterable[Charge] = (c for c in self.charges.values() if c.analyst == analyst)
        return sorted(own_charges, key=lambda charge: charge.sequence)


def _changes(state: Synopses, who: str | None, steps: Mapping[str, Step]) -> dict[str, PrivacyLoss]:
    """Return the increase of an account's loss (or the joint one) for each view that changes."""
    increases = {}
    for view, step in steps.items():
        if who is None:
            new, old = step.column, state.column(view)
        else:
            new, old = step.cell, state.cell(who, view)
        if new != old:
            increases[view] = new - old
    return increases


def _more_known(
    state: Synopses,
    who: str | None,
    changes: Mapping[str, PrivacyLoss],
    regions: Mapping[str, Region],
) -> tuple[PrivacyLoss, Mapping[Place, PrivacyLoss]]:
    """Return the charge for some changes, and bounds on the loss of each version of a table.

    The charge is the increase of the loss, a maximum over regions. It is never negative, so the sum
    of all charges bounds the loss.
    """
    if not changes or state.privacy is BASIC:
        return sum(changes.values(), NONE), {}
    increases: dict[Place, dict[Region, PrivacyLoss]] = {}
    for view, more in changes.items():
        _add(increases.setdefault(regions[view].place, {}), regions[view], more)
    earlier_bounds = state.bounds.get(who, {})
    bounds = {
        place: _bound(
            state.learned.get((who, place), {}), place_increases, earlier_bounds.get(place, NONE)
        )
        for place, place_increases in increases.items()
    }
    total = sum({**earlier_bounds, **bounds}.values(), NONE)
    return _increase(total, state.charged.get(who, NONE)), bounds


def _bound(
    losses: Mapping[Region, PrivacyLoss],
    increases: Mapping[Region, PrivacyLoss],
    earlier_bound: PrivacyLoss,
) -> PrivacyLoss:
    """Return a bound on the maximum over regions of the loss of one version of a table.

    Regions that do not change keep the earlier bound. Views of every row add to it anyway, and no
    region's loss grows by more than the sum of all that is new.
    """
    every = sum((more for where, more in increases.items() if where.everywhere), earlier_bound)
    parts = {where: more for where, more in increases.items() if not where.everywhere}
    together = sum(parts.values(), every)
    learned, bound = dict(losses), every
    for where, more in increases.items():
        _add(learned, where, more)
    for where in parts:
        bound = _more(bound, worst_off_in(learned, where))
    return replace(_less(bound, together), delta=together.delta)


def _pays(paid: PrivacyLoss, owed: PrivacyLoss, privacy: PrivacyDefinition) -> bool:
    """Return whether a charge covers what is owed, in each component."""
    if paid.epsilon is None or owed.epsilon is None:
        enough = paid.epsilon is None and (owed.epsilon is None or privacy.counts_rho)
    else:
        enough = paid.epsilon >= owed.epsilon
    return enough and paid.rho >= owed.rho and paid.delta >= owed.delta


def left_of(cap: PrivacyLoss, spent: PrivacyLoss, privacy: PrivacyDefinition) -> PrivacyLoss:
    """Return the part of a cap that is left, never below 0."""
    left = max(cap.level(privacy) - spent.level(privacy), _ZERO)
    delta = max(cap.delta - spent.delta, _ZERO)
    return replace(PrivacyLoss.of(left, privacy), delta=delta)


def _rows_of(definition: Mapping[str, Any]) -> tuple[object, object]:
    """Return the table of a view or a one-off release, and its version."""
    target = definition if "measure" in definition else definition["target"]
    return target["table"], target["version"]


ALLOW = "Only the owner of the data can allow more. Nothing was charged."
"""The end of the hint of every refusal by a limit."""


def check(
    charge: PrivacyLoss,
    spent: PrivacyLoss,
    cap: PrivacyLoss,
    privacy: PrivacyDefinition,
    whose: str = "",
    limit: str = "",
    paid: Fraction = _ZERO,
) -> None:
    """Refuse a charge that would exceed a cap; depends on charges alone (privacy filter).

    Parameters
    ----------
    charge, spent, cap : PrivacyLoss
    privacy : PrivacyDefinition
    whose : str
        Whose cap it is; the text follows "0.05 is left".
    limit : str
        Name of the cap, for the owner only.
    paid : Fraction
        The rho at which the answer was released before, see :meth:`Accountant.paid`.

    Raises
    ------
    BudgetError
        Gives the price, what is left, and what would pass.
    """
    if charge == NONE or not (spent + charge).exceeds(cap, privacy):
        return
    left = left_of(cap, spent, privacy)
    name: str = privacy.parameter
    cost, rest = charge.level(privacy), left.level(privacy)
    hint = ""
    if rest and rest >= cap.level(privacy) * _WORTHWHILE:
        hint = f"Ask with {name}={_asked(paid + rest)} or less, or for a larger margin of error. "
    elif rest:
        hint = "The budget is nearly used up. "
    if cost <= rest:
        name, cost, rest = "delta", charge.delta, left.delta
        hint = _less_delta(rest, privacy)
    for digits in (4, 8, 12):
        price, left_over = amount_text(cost, digits), amount_text(rest, digits, left=True)
        if price != left_over:
            break
    raise BudgetError(
        f"this costs {name} {price}, but {left_over} is left{whose}",
        f"{hint}{ALLOW}",
        limit=limit,
    )


def _asked(left: Fraction) -> str:
    """Return what is left as an amount to write in a request."""
    return amount_text(left, left=True).replace(",", "")


def _less_delta(left: Fraction, privacy: PrivacyDefinition) -> str:
    """Return a hint for too little delta; in zCDP, discoveries cost the delta of the request."""
    if privacy is not ZCDP:
        return "Each release costs the same delta, whatever its accuracy. "
    if not left:
        return "All delta for finding values is spent. "
    return f"Ask with delta={_asked(left)} or less. "


def _alike(one: Step, other: Step) -> bool:
    """Return whether two steps are equal up to the last digits of floats."""
    if one == other:
        return True

    def amounts(step: Step) -> list[Fraction]:
        losses = [
            part
            for loss in (step.cell, step.column)
            for part in (loss.rho, loss.epsilon, loss.delta)
        ]
        return [step.level, step.source, step.fresh, *(part or _ZERO for part in losses)]

    pairs = zip(amounts(one), amounts(other), strict=True)
    return all(abs(a - b) <= Fraction(1, 10**9) * max(abs(a), abs(b)) for a, b in pairs)


def read_step(data: Mapping[str, Any]) -> Step:
    """Build a step from the data of :func:`plain_step`."""
    cell, column = (PrivacyLoss.from_dict(data[name]) for name in ("cell", "column"))
    level, source, fresh = (Fraction(data[name]) for name in ("level", "source", "fresh"))
    return Step(level, source, cell, column, fresh)


def plain_step(step: Step) -> dict[str, Any]:
    """Return a step as plain data."""
    return {
        "level": str(step.level), "source": str(step.source), "fresh": str(step.fresh),
        "cell": step.cell.to_dict(), "column": step.column.to_dict(),
    }  # fmt: skip


def _charge(sequence: int, entry: Mapping[str, Any], levels: Mapping[str, Fraction]) -> Charge:
    return Charge(
        sequence=sequence,
        analyst=str(entry["analyst"]),
        request=str(entry["request"]),
        time=str(entry["time"]),
        sql=str(entry["sql"]),
        levels=levels,
        spent=PrivacyLoss.from_dict(entry["spent"]),
        row=PrivacyLoss.from_dict(entry["row"]),
        version=int(entry["version"]),
        query=dict(entry["query"]),
        conditional=bool(entry.get("conditional", False)),
        declared=tuple(entry.get("declared", ())),
        past={view: Fraction(level) for view, level in entry.get("past", {}).items()},
        way=entry.get("way"),
        alone=PrivacyLoss.from_dict(entry["alone"]) if "alone" in entry else NONE,
        accuracy=entry.get("accuracy", {}),
    )


def damaged(sequence: int) -> LedgerError:
    """Return the error for an entry whose amounts contradict the entries before it."""
    return LedgerError(
        f"entry {sequence} of the ledger does not add up", "Restore the newest unchanged copy."
    )
