"""The noisy aggregates of a decision, its groups, and the thresholds in their units."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpnb.codes import scalar
from dpnb.decide.conditions import Atom
from dpnb.decide.options import Options
from dpnb.errors import RequestError, given
from dpnb.schema.partition import Label
from dpnb.sql.canonical import unused
from dpnb.sql.query import Aggregate, Query
from dpnb.views.measures import Sum, sum_about
from dpnb.views.view import View, asked_groups, group_labels, transposition, views_of

RESERVED = {"selected", "verdict", "epsilon"}
"""Column names that a decision's data frame uses itself."""


@dataclass(frozen=True, slots=True)
class Line:
    """One noisy aggregate over all groups.

    Attributes
    ----------
    aggregate : Aggregate
        Its alias is its name in options and results.
    view : View
        The measured view; for AVG, the sum of distances from the threshold.
    about : Fraction or None
        For AVG: the threshold.
    levels : tuple of Fraction
        Levels of the noise that this decision adds, by step.
    rows : View or None
        For AVG: the number of averaged values, which the noisy sum does not show. Never released.
    """

    aggregate: Aggregate
    view: View
    about: Fraction | None
    levels: tuple[Fraction, ...]
    rows: View | None = None


def measured_query(query: Query, atoms: Sequence[Atom]) -> Query:
    """Return the statement with exactly the aggregates of its conditions, each under its own name.

    Raises
    ------
    RequestError
        For aggregates that no condition uses, and for names that are reserved for results.
    """
    measurements: list[Aggregate] = []
    for candidate in query.aggregates:
        if not any(candidate.means(atom.aggregate) for atom in atoms):
            raise RequestError(
                f"{candidate.alias!r} is not used in HAVING",
                "Leave it out, and ask for it with query.",
            )
        if not any(candidate.means(other) for other in measurements):
            measurements.append(candidate)
    names = {key.alias.casefold() for key in query.keys}
    names |= {f"{a.alias}{end}".casefold() for a in measurements for end in ("", "_low", "_high")}
    for name in sorted(names & RESERVED):
        raise RequestError(
            f"the name {name!r} is reserved for a column of the result", "Choose another with AS."
        )
    for atom in atoms:
        if not any(atom.aggregate.means(other) for other in measurements):
            candidate = atom.aggregate
            alias = unused(candidate.alias, names)
            measurements.append(
                Aggregate(candidate.function, candidate.value, candidate.filter, alias)
            )
    return Query(query.table, query.keys, tuple(measurements), query.where, schema=query.schema)


def declared_groups(query: Query) -> tuple[tuple[tuple[Label, ...], ...], tuple[int, ...]]:
    """Return the groups that WHERE does not exclude, and the position of each one in a view.

    Raises
    ------
    RequestError
        When WHERE excludes every group.
    """
    order, labels, positions = transposition(query), group_labels(query), asked_groups(query)
    if not positions:
        raise RequestError(
            "WHERE excludes every group", "Leave room for at least one of the declared values."
        )
    return tuple(labels[row] for row in positions), tuple(order[row] for row in positions)


def lines_of(atoms: Sequence[Atom], query: Query, version: int) -> tuple[list[Line], list[int]]:
    """Return the distinct noisy aggregates of conditions, and which one each condition reads."""
    lines: list[Line] = []
    places: list[int] = []
    for atom in atoms:
        operand, about, rows = atom.aggregate, None, None
        if not operand.function.is_mean:
            (view,) = views_of(operand, query, version).values()
        elif isinstance(atom.threshold, str):
            raise RequestError(
                "an AVG can only be compared with the same number for all groups",
                "Write the number, or compare a SUM or COUNT with a number for each group.",
            )
        else:
            about = atom.threshold
            view, rows = _centred(operand, about, query, version)
        for place, line in enumerate(lines):
            if line.view == view:
                places.append(place)
                break
        else:
            places.append(len(lines))
            lines.append(Line(operand, view, about, (), rows))
    return lines, places


def _centred(
    aggregate: Aggregate, about: Fraction, query: Query, version: int
) -> tuple[View, View]:
    """Return the views of an AVG compared with a number: the sum of distances, and the rows."""
    views = views_of(aggregate, query, version)
    view = views["sum"]
    if isinstance(view.measure, Sum):
        about_it = sum_about(view.measure.value, query.schema, about, view.where)
        return replace(view, measure=about_it), views["count"]
    raise ValueError("an AVG is a sum over a count")


def numbers(
    atom: Atom, line: Line, groups: Sequence[tuple[Label, ...]], options: Options
) -> list[Fraction]:
    """Return the thresholds of all groups, in units of the line."""
    if line.about is not None:
        return [Fraction(0)] * len(groups)
    if isinstance(atom.threshold, str):
        return each_number(atom.threshold, options, groups)
    return [atom.threshold] * len(groups)


def floats(limits: Sequence[Fraction]) -> list[float]:
    """Return thresholds as floats; fast when all are the same number."""
    if all(limit is limits[0] for limit in limits):
        return [float(limits[0])] * len(limits)
    return [float(limit) for limit in limits]


def each_number(name: str, options: Options, groups: Sequence[tuple[Label, ...]]) -> list[Fraction]:
    """Return the thresholds of all groups from the mapping of that name."""
    numbers: dict[tuple[Any, ...], Fraction] = {}
    shown = {label for group in groups for label in group}
    for group, threshold in options.thresholds[name].items():
        labels = group if isinstance(group, tuple) else (group,)
        group_key = tuple(_label(value, shown) for value in labels)
        if group_key in numbers:
            raise RequestError(
                f"the thresholds {given(name)} name {given(group)} twice", "Remove one of them."
            )
        numbers[group_key] = threshold
    missing = [group for group in groups if group not in numbers]
    if missing:
        example = missing[0][0] if len(missing[0]) == 1 else missing[0]
        raise RequestError(
            f"{len(missing)} of {len(groups)} groups have no threshold {given(name)}, such as {given(example)}",
            "Give a threshold for every declared group.",
        )
    unknown = numbers.keys() - set(groups)
    if unknown:
        raise RequestError(
            f"the thresholds {given(name)} hold {given(min(unknown, key=str))}, which is not a declared group",
            "Use the declared groups, as shown.",
        )
    return [numbers[group] for group in groups]


def _label(value: Any, shown: Collection[Label]) -> Any:
    """Return a label in the form that groups use: days and times as text, numbers as Python's."""
    if isinstance(value, datetime.datetime) and (text := value.isoformat(" ")) in shown:
        return text
    if isinstance(value, datetime.date):
        return value.isoformat()[:10]
    return scalar(value)
