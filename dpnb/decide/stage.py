"""The state of a decision: one of its steps, its starting levels, and what was seen before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpnb.decide.plan import DecisionPlan
from dpnb.errors import RequestError
from dpnb.ledger.accountant import Accountant, Charge
from dpnb.ledger.mechanism import LevelTarget
from dpnb.ledger.store import Store
from dpnb.privacy.definition import GDP
from dpnb.views.view import View


@dataclass(frozen=True, slots=True)
class Seen:
    """A version of a line's view that the analyst had seen before the decision.

    Attributes
    ----------
    line : int
    view : str
        Its id in the ledger: on a noise path the line's own, on a Laplace chain another one.
    first, held : Fraction
        The first level seen, and the finest one.
    refinements : int
        Levels of a Laplace chain from ``first`` to ``held``.
    rank : int
        Its position, from 1, among all views that the analyst had seen, in the order of their first
        releases: what those showed may have influenced the choice of the decision's views.
    """

    line: int
    view: str
    first: Fraction
    held: Fraction
    refinements: int
    rank: int

    def plain(self) -> list[Any]:
        """Return it as plain data."""
        first, held = str(self.first), str(self.held)
        return [self.line, self.view, first, held, self.refinements, self.rank]

    @classmethod
    def read(cls, data: Sequence[Any]) -> Seen:
        """Build it from :meth:`plain`."""
        line, view, first, held, refinements, rank = data
        levels = Fraction(first), Fraction(held)
        return cls(int(line), str(view), *levels, int(refinements), int(rank))


@dataclass(frozen=True)
class Stage:
    """One step of a decision on one state of the ledger. Public facts only.

    Attributes
    ----------
    step : int
        From 1.
    starts : tuple of Fraction
        By line, the analyst's level when the decision began.
    seen : tuple of Seen
        What the analyst had seen by then.
    """

    plan: DecisionPlan
    step: int
    starts: tuple[Fraction, ...]
    seen: tuple[Seen, ...]

    @property
    def request(self) -> str:
        """A name, equal for requests with the same meaning and cost on one version of the table."""
        return step_name(self.plan, self.step)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The ids of the lines' views."""
        return tuple(line.view.id for line in self.plan.lines)

    @property
    def views(self) -> Mapping[str, View]:
        """The lines' views by their ids."""
        return {name: line.view for name, line in zip(self.names, self.plan.lines, strict=True)}

    def targets(self, step: int | None = None) -> tuple[Fraction, ...]:
        """Return, by line, the level that the path reaches at a step (default: this one)."""
        number = self.step if step is None else step
        return tuple(
            start + line.levels[number - 1]
            for start, line in zip(self.starts, self.plan.lines, strict=True)
        )

    def level_targets(self) -> dict[str, LevelTarget]:
        """Return the target of each view."""
        return {
            name: LevelTarget(target)
            for name, target in zip(self.names, self.targets(), strict=True)
        }

    def definitions(self) -> dict[str, dict[str, Any]]:
        """Return the public definitions of the views."""
        return {name: view.definition() for name, view in self.views.items()}


def step_name(plan: DecisionPlan, step: int) -> str:
    """Return the name of a step's request."""
    return f"{plan.name}-{step}"


def check_served(state: Accountant, *, static: bool, responds: bool) -> None:
    """Refuse decisions that the ledger cannot account for.

    Raises
    ------
    RequestError
    """
    if static:
        raise RequestError(
            "the policy gives each view its own limit, so only views are answered",
            "Decisions need Policy(views='water-filling').",
        )
    if state.mechanism_name != "path":
        raise RequestError(
            "decisions need noise paths", "Open a ledger with Policy(mechanism='path')."
        )
    if responds and state.privacy is GDP:
        raise RequestError(
            "this ledger counts Gaussian noise only, and randomised response is not Gaussian",
            "Use mode='certified' (--mode certified), or open a ledger with accountant='zcdp'.",
        )


def stage(draft: DecisionPlan, step: int, analyst: str, store: Store) -> Stage:
    """Return a step of a decision for the current state of the ledger."""
    state = store.accountant
    check_served(state, static=store.provenance.static, responds=draft.response is not None)
    # refuses if another kernel has opened a newer version
    store.version(draft.query.table)
    first_charge = state.charges.get((analyst, step_name(draft, 1)))
    if first_charge is not None:
        starts = tuple(Fraction(start) for start in first_charge.query["starts"])
        stored_views = tuple(Seen.read(entry) for entry in first_charge.query["seen"])
        return Stage(draft.as_begun(first_charge.query["decision"]), step, starts, stored_views)
    rows = store.provenance.rows_with(analyst)
    starts = tuple(_held(state, rows, line.view.id) for line in draft.lines)
    past = _seen(draft, rows, state) if draft.options.history else ()
    return Stage(draft, step, starts, tuple(past))


def _held(state: Accountant, rows: Collection[str], name: str) -> Fraction:
    return max(state.level(row, name) for row in rows)


def _seen(draft: DecisionPlan, rows: Collection[str], state: Accountant) -> list[Seen]:
    """Return which of the lines' views a person has seen, in the order of the lines."""
    first: dict[str, Charge] = {}
    for (row, name), charges in state.served.items():
        if row in rows and (name not in first or charges[0].sequence < first[name].sequence):
            first[name] = charges[0]
    ranking = sorted(first, key=lambda name: first[name].sequence)
    past_views = []
    for place, line in enumerate(draft.lines):
        names = _alike(line.view, state) if draft.privacy.noise == "laplace" else [line.view.id]
        for name in names:
            if name in first:
                level, current_level = first[name].levels[name], _held(state, rows, name)
                count = _between(state, name, level, current_level)
                past_views.append(
                    Seen(place, name, level, current_level, count, ranking.index(name) + 1)
                )
    return past_views


def _alike(view: View, state: Accountant) -> list[str]:
    """Return the released views that differ from this one in nothing but the line of noise."""
    signature = {**view.definition(), "line": ""}
    return [name for name, other in state.definitions.items() if {**other, "line": ""} == signature]


def _between(state: Accountant, name: str, first: Fraction, current_level: Fraction) -> int:
    return sum(first < version.level <= current_level for version in state.synopses.paths[name])
