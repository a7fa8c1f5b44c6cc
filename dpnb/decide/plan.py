"""What a decision will measure and how finely, from public facts alone (docs/methods/probe.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpnb.decide.apportion import Bar, allowances, apportion, level_for, levels_for, shift
from dpnb.decide.certificate import Floats
from dpnb.decide.conditions import Atom, Bools, Condition, read_condition
from dpnb.decide.lines import (
    Line,
    declared_groups,
    each_number,
    floats,
    lines_of,
    measured_query,
    numbers,
)
from dpnb.decide.options import STEPS, STUDY_MODES, Options
from dpnb.decide.progressive import ladder, regions
from dpnb.decide.regions import rows_meant, uncertain, warnings_of
from dpnb.errors import RequestError, given, nearest
from dpnb.privacy import response
from dpnb.privacy.definition import GDP, PrivacyDefinition
from dpnb.privacy.path import LEAST_LEVEL
from dpnb.published import published
from dpnb.releases.plan import MOST_LEVEL
from dpnb.schema.partition import Label
from dpnb.schema.predicates import plain
from dpnb.schema.schema import Unit, groups_asked
from dpnb.sql.canonical import describe, plain_value
from dpnb.sql.query import Query
from dpnb.sql.shown import PLAIN
from dpnb.views.view import counted_note, ids_counted

LATTICE_SHARE = 0.001
"""Part of a grey width that is reserved for the lattice of the noise."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition with its numbers.

    Attributes
    ----------
    atom : Atom
    line : int
        Index of the noisy aggregate that it reads.
    u : float
        The requested uncertain region, in units of the line.
    rows : float
        For AVG: the number of rows of a group for which ``u`` holds; 1 otherwise.
    share : float
        The probability of a rejection in one step at the threshold; for a published method, its
        first share.
    allowance : float or None
        The probability of "surely true" at the threshold, if false positives are bounded
        beforehand.
    """

    atom: Atom
    line: int
    u: float
    rows: float
    share: float
    allowance: float | None


@dataclass(frozen=True, slots=True)
class DecisionPlan:
    """A statement's conditions, noisy aggregates and levels. Holds public facts only.

    Attributes
    ----------
    condition : Condition
        The condition protected from false negatives: the complement of HAVING in a decision that
        protects from false positives.
    limits : array, shape (terms, groups)
        Thresholds in units of the lines, groups in the order of the statement.
    steps : int
        0 if lines get no noise: in randomised response and in simulations.
    response : Fraction or None
        The cost of randomised response, where the mode needs it.
    cut : int
        The number of groups in which randomised response counts one id at most; 0 when no id can
        have rows in more.
    ceiling : Fraction
        The cost of answering by randomised response alone.
    name : str
        Equal for decisions with the same meaning on one version of the table.
    """

    query: Query
    options: Options
    condition: Condition
    terms: tuple[Term, ...]
    lines: tuple[Line, ...]
    limits: Floats
    groups: tuple[tuple[Label, ...], ...]
    order: tuple[int, ...]
    steps: int
    response: Fraction | None
    ceiling: Fraction
    cut: int
    privacy: PrivacyDefinition
    version: int
    name: str
    warnings: tuple[str, ...]

    @property
    def errors(self) -> tuple[float, float]:
        """The bounds on false negatives and false positives of randomised response."""
        shared = 2 if self.options.mode == "hybrid" else 1
        return self.options.beta / shared, self.options.alpha / shared

    @property
    def places(self) -> tuple[int, ...]:
        """The line of each condition."""
        return tuple(term.line for term in self.terms)

    @property
    def reaches(self) -> tuple[float, ...]:
        """The sensitivity of each line, in its units."""
        return tuple(line.view.sensitivity(self.privacy) for line in self.lines)

    def regions(self, step: int) -> tuple[float, ...]:
        """Return the uncertain region of each condition at a step, from 1."""
        levels = [line.levels[step - 1] for line in self.lines]
        shares = [term.share for term in self.terms]
        return regions(levels, shares, self.places, self.reaches, self.privacy)

    def level(self, step: int) -> Fraction:
        """Return the sum of the lines' levels at a step: the total cost if all is new."""
        if not step or not self.steps:
            return Fraction(0)
        return sum((line.levels[step - 1] for line in self.lines), Fraction(0))

    @property
    def worst(self) -> Fraction:
        """The most that the decision may cost."""
        return self.level(self.steps) + (self.response or Fraction(0))

    def meaning(self) -> dict[str, Any]:
        """Return the request as plain data, without anything that a solver computed."""
        options = self.options
        return {
            "mode": options.mode,
            "protect": options.protect,
            "beta": options.beta,
            "alpha": options.alpha,
            "confidence": options.confidence,
            "history": options.history,
            "atoms": [_plain_atom(term.atom, self.groups, options) for term in self.terms],
            "implicants": [sorted(implicant) for implicant in self.condition.implicants],
            "regions": [[term.line, term.u] for term in self.terms],
        }

    def definition(self) -> dict[str, Any]:
        """Return the meaning with levels and shares, as plain data."""
        return {
            **self.meaning(),
            "levels": [list(map(str, line.levels)) for line in self.lines],
            "shares": [[term.share, term.allowance] for term in self.terms],
        }

    def as_begun(self, definition: Mapping[str, Any]) -> DecisionPlan:
        """Return the plan with the stored levels and shares: a solver's last digits may differ."""
        lines = (
            replace(line, levels=tuple(map(Fraction, levels)))
            for line, levels in zip(self.lines, definition["levels"], strict=True)
        )
        terms = (
            replace(term, share=share, allowance=allowance)
            for term, (share, allowance) in zip(self.terms, definition["shares"], strict=True)
        )
        return replace(self, lines=tuple(lines), terms=tuple(terms))


def _plain_atom(atom: Atom, groups: Sequence[tuple[Label, ...]], options: Options) -> list[Any]:
    aggregate, limit = atom.aggregate, atom.threshold
    number: Any = str(limit)
    if isinstance(limit, str):
        number = [str(group_limit) for group_limit in each_number(limit, options, groups)]
    meaning = [aggregate.function, plain_value(aggregate.value), plain(aggregate.filter)]
    return [meaning, atom.operator, number]


def plan(query: Query, options: Options, version: int, privacy: PrivacyDefinition) -> DecisionPlan:
    """Decide what to measure and at which levels; uses public facts only and spends nothing.

    Raises
    ------
    RequestError
        For statements that are not decisions, and if an uncertain region has no known size.
    """
    check_shape(query)
    written = read_condition(query.having, query.schema)
    condition = written if options.protect == "fnr" else written.complement()
    measured = measured_query(query, condition.atoms)
    check_aliases(options, measured)
    groups, order = declared_groups(query)
    atoms = [_named(atom, measured) for atom in condition.atoms]
    lines, places = lines_of(atoms, query, version)
    limits = np.array(
        [
            floats(numbers(atom, lines[place], groups, options))
            for atom, place in zip(atoms, places, strict=True)
        ]
    )
    if options.mode == "rr":
        steps, warnings = 0, [_FAR, *warnings_of(written, limits, query.schema, exact=True)]
        terms = [
            Term(a, place, 0.0, 1.0, 0.0, None) for a, place in zip(atoms, places, strict=True)
        ]
    else:
        warnings = warnings_of(written, limits, query.schema, exact=False)
        rows = [rows_meant(written, i, options, query.schema) for i in range(len(atoms))]
        us = [
            uncertain(a, options, query.schema, size) for a, size in zip(atoms, rows, strict=True)
        ]
        bars = [
            Bar(place, lines[place].view.sensitivity(privacy), u)
            for place, u in zip(places, us, strict=True)
        ]
        steps = STEPS if options.mode == "certified" else 1
        shares, allowed = _shares(condition, bars, options, steps, privacy)
        if options.mode in STUDY_MODES:
            # a simulation has no levels in advance
            steps = 0
        else:
            first = _first_levels(bars, shares, allowed, options.mode, privacy)
            lines = [
                replace(line, levels=ladder(first[i], steps, privacy))
                for i, line in enumerate(lines)
            ]
            _check_levels(lines)
        terms = list(map(Term, atoms, places, us, rows, shares, allowed))
    touched, reachable = groups_of_one(query.schema.unit, len(groups))
    cut = 0 if touched == reachable else touched
    warnings += _counted(lines, cut, options, privacy)
    draft = DecisionPlan(
        query=measured,
        options=options,
        condition=condition,
        terms=tuple(terms),
        lines=tuple(lines),
        limits=limits,
        groups=groups,
        order=order,
        steps=steps,
        response=None,
        ceiling=touched * response.level(min(options.beta, 0.5), min(options.alpha, 0.5), privacy),
        cut=cut,
        privacy=privacy,
        version=version,
        name="",
        warnings=tuple(warnings),
    )
    if options.mode in ("rr", "hybrid"):
        draft = replace(draft, response=touched * response.level(*draft.errors, privacy))
    return _finished(draft)


def _shares(
    condition: Condition,
    bars: Sequence[Bar],
    options: Options,
    steps: int,
    privacy: PrivacyDefinition,
) -> tuple[Sequence[float], Sequence[float | None]]:
    """Return each condition's shares of the bounds: on false negatives, per step, and positives."""
    if options.mode in STUDY_MODES:
        weights = [bar.sensitivity / bar.u for bar in bars]
        first = published("charges").first_shares(options.mode, condition, weights, options.bound)
        return first, [None] * len(bars)
    halved = 2 if options.mode == "hybrid" else 1
    shares = apportion(condition, bars, options.bound / halved / steps, privacy)
    if options.mode not in ("margin", "hybrid"):
        return shares, [None] * len(bars)
    return shares, allowances(condition, bars, options.alpha / halved, privacy)


def groups_of_one(unit: Unit | None, groups: int) -> tuple[int, int]:
    """Return how many groups' responses one unit may change, and in how many it may have rows.

    Each response that it changes costs its full level, and these levels add up.
    """
    if unit is None:
        return 1, 1
    reachable = min(unit.max_rows, groups)
    return min(groups_asked(unit), reachable), reachable


def _counted(
    lines: Sequence[Line], cut: int, options: Options, privacy: PrivacyDefinition
) -> list[str]:
    """Return sentences if ids may be in more groups than they count in."""
    definitions = [line.view.definition() for line in lines]
    sentences = [] if options.mode == "rr" else [counted_note(definitions, alone=len(lines) == 1)]
    # GDP and published methods have no randomised response
    if cut and privacy is not GDP and options.mode not in STUDY_MODES:
        groups = f"{cut:,} group{'' if cut == 1 else 's'}"
        sentences.append(
            f"Randomised response counts each person in at most {groups} and leaves out their other "
            "rows, so counts are too low where people are in more."
        )
    return [sentence for sentence in sentences if sentence]


def _finished(draft: DecisionPlan) -> DecisionPlan:
    meaning = [describe(draft.query), draft.meaning(), draft.version]
    counted = ids_counted(line.view for line in draft.lines)
    meaning += [counted] if counted else []
    text = json.dumps(meaning, sort_keys=True, ensure_ascii=False)
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    if draft.privacy.noise != "laplace":
        return replace(draft, name=name)
    # Laplace noise seen before gives no bound, so each decision has noise lines of its own
    lines = (replace(line, view=replace(line.view, line=name[:16])) for line in draft.lines)
    return replace(draft, name=name, lines=tuple(lines))


def check_shape(query: Query) -> None:
    """Refuse parts of a statement that a decision does not allow.

    Raises
    ------
    RequestError
    """
    if query.derived:
        raise RequestError("a decision cannot have computed columns", "Leave computed columns out.")
    if query.shown != PLAIN:
        raise RequestError("a decision covers all declared groups", "Leave ORDER BY and LIMIT out.")


def check_aliases(options: Options, measured: Query) -> None:
    """Refuse options for aggregates that the statement does not have.

    Raises
    ------
    RequestError
    """
    names = [aggregate.alias for aggregate in measured.aggregates]
    for option in ("u", "ranges", "rows"):
        setting = getattr(options, option)
        if isinstance(setting, Mapping):
            for alias in setting:
                if alias not in names:
                    raise RequestError(
                        f"{option} is given for {given(alias)}, but the statement has no such aggregate",
                        nearest(alias, names),
                    )
        elif setting is not None and option != "rows" and len(names) > 1:
            entries = ", ".join(f"{name!r}: {setting:g}" for name in names)
            raise RequestError(
                f"{option} is one number, but there are {len(names)} aggregates",
                f"Write {option}={{{entries}}} (--{option} {','.join(f'{name}={setting:g}' for name in names)}), "
                "with a number for each.",
            )


def _named(atom: Atom, measured: Query) -> Atom:
    counterpart = next(a for a in measured.aggregates if a.means(atom.aggregate))
    return Atom(counterpart, atom.sign, atom.threshold, atom.strict)


def _first_levels(
    bars: Sequence[Bar],
    shares: Sequence[float],
    allowed: Sequence[float | None],
    mode: str,
    privacy: PrivacyDefinition,
) -> dict[int, Fraction]:
    """Return the level of each line at the first step.

    In mode 'margin' u is the full grey width d, which both shifts share: for Laplace noise
    epsilon = sensitivity (ln(1/(2 beta)) + ln(1/(2 alpha))) / d (docs/methods/probe.md, theorem
    14), for Gaussian sigma = d / (z_beta + z_alpha).
    """
    if mode != "margin":
        return levels_for(bars, shares, privacy)
    levels: dict[int, Fraction] = {}
    for bar, share, allowance in zip(bars, shares, allowed, strict=True):
        if allowance is None:
            raise ValueError("a margin needs both shifts")
        beta_shift, alpha_shift = (
            shift(part, Fraction(1), 1.0, privacy) for part in (share, allowance)
        )
        part = Bar(
            bar.line,
            bar.sensitivity,
            (1 - LATTICE_SHARE) * bar.u * beta_shift / (beta_shift + alpha_shift),
        )
        level = level_for(share, part, privacy)
        levels[bar.line] = max(level, levels.get(bar.line, level))
    return levels


def _check_levels(lines: Sequence[Line]) -> None:
    levels = [level for line in lines for level in line.levels]
    if levels and not LEAST_LEVEL <= min(levels) <= max(levels) <= MOST_LEVEL:
        raise RequestError(
            "the uncertain region is too small or too large for noise on 64-bit integers",
            "Give u closer to the size of the values.",
        )


_FAR = "Randomised response causes false positives among all groups, even far from the thresholds."


def size_of(made: DecisionPlan) -> int:
    """Return roughly how many values a decision and its steps hold."""
    return len(made.groups) * (len(made.query.keys) + len(made.terms) + 5 * len(made.lines))


def truth_of(made: DecisionPlan, exact: Mapping[str, Sequence[int]]) -> Bools:
    """Return whether each group satisfies the condition, from the views' exact vectors. Private.

    As in SQL, equality counts as written, and the AVG of no rows satisfies nothing.
    """
    truth = np.zeros((len(made.terms), len(made.groups)), dtype=bool)
    for i, term in enumerate(made.terms):
        atom, line = term.atom, made.lines[term.line]
        limits, sums = numbers(atom, line, made.groups, made.options), exact[line.view.id]
        rows = sums if line.rows is None else exact[line.rows.id]
        for place, (cell, limit) in enumerate(zip(made.order, limits, strict=True)):
            gap = atom.sign * (sums[cell] * line.view.granularity - limit)
            equal = not atom.strict and (line.rows is None or rows[cell] > 0)
            truth[i, place] = gap > 0 or (gap == 0 and equal)
    return made.condition.value(truth)
