"""An ``Inference`` from a statement and an analyst's releases. This module never sees data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from dpnb.answers.estimating import asked, measured
from dpnb.answers.evidence import Evidence
from dpnb.answers.inference import Inference
from dpnb.answers.inferred import Inferred, Missing, Source
from dpnb.answers.options import Options
from dpnb.answers.postprocessing import shown
from dpnb.errors import RequestError
from dpnb.estimation.intervals import shifted
from dpnb.estimation.joint import Joint
from dpnb.releases.held import Known
from dpnb.sql.formulas import linear, statistics_of
from dpnb.sql.functions import Function
from dpnb.sql.narrowing import bounds_within
from dpnb.sql.query import Aggregate, Derived, Query
from dpnb.sql.ranges import ranges_of
from dpnb.sql.values import Column
from dpnb.views.measures import Sum
from dpnb.views.text import cell_text, view_text
from dpnb.views.view import View, asked_groups, group_labels, transposition, views_of

if TYPE_CHECKING:
    from dpnb.answers.domain import Ints, Values
    from dpnb.estimation.mixed import Pair

    Rows: TypeAlias = list[tuple[Ints, Values]]

ALARM_DRAWS = 10_000
"""Simulated histories for the consistency alarm; its threshold is right to a few per cent."""
MOST_NAMED = 10
"""Largest number of values for which missing queries are named."""
MOST_GROUPS = 1_000
"""Largest number of values in one inference."""
MOST_SLOW = 20
"""The same limit with a prior, linear programs, simulation or convolution, which take time."""
SHOWN_SOURCES = 20
"""Largest number of past answers that are named for each value."""


@dataclass(frozen=True, slots=True)
class Part:
    """An output as weighted sums of views: (count), (sum) or (centred sum, count)."""

    output: Aggregate | Derived
    parts: tuple[tuple[tuple[View, float], ...], ...]
    offset: float = 0.0

    @property
    def views(self) -> list[View]:
        """The views in use."""
        return [view for weighted in self.parts for view, _ in weighted]

    @property
    def function(self) -> Function:
        """COUNT, SUM, AVG or FORMULA."""
        return Function.FORMULA if isinstance(self.output, Derived) else self.output.function


def parts_of(query: Query, version: int) -> list[Part]:
    """Return the outputs of a statement as weighted sums of views.

    Raises
    ------
    RequestError
        For a computed column that is not a weighted sum of counts and sums.
    """
    output_parts = []
    for aggregate in query.measured:
        if aggregate.function in (Function.UNITS, Function.DISTINCT):
            what = "ids" if aggregate.function is Function.UNITS else "values"
            raise RequestError(
                f"a count of different {what} cannot be inferred from other answers",
                "Ask the statement itself: what was answered before is free.",
            )
    for output in query.outputs:
        if isinstance(output, Derived):
            output_parts.append(_formula(output, query, version))
        else:
            views = views_of(output, query, version)
            parts = [((views[name], 1.0),) for name in ("sum", "count") if name in views]
            output_parts.append(Part(output, tuple(parts)))
    return output_parts


def _formula(output: Derived, query: Query, version: int) -> Part:
    weights = linear(output.formula)
    if weights is None or any(leaf.function.is_mean for leaf in output.leaves):
        raise RequestError(
            f"{output.alias!r} cannot be inferred: only counts, sums and averages can",
            "Infer a COUNT, SUM or AVG."
            if statistics_of(output.formula)
            else "Infer its counts, sums and averages, each as a column of its own.",
        )
    constant, factors = weights
    views = []
    for place, factor in factors.items():
        (view,) = views_of(output.leaves[place], query, version).values()
        if isinstance(view.measure, Sum) and view.measure.shift:
            raise AssertionError
        views.append((view, float(factor)))
    return Part(output, (tuple(views),), float(constant))


def infer(
    sql: str,
    query: Query,
    options: Options,
    known: Known,
) -> Inference:
    """Infer a statement from releases; see ``Session.infer``.

    Raises
    ------
    RequestError
        If past answers determine none of the values, unless bounds are requested.
    """
    outputs = parts_of(query, known.version)
    groups = math.prod(key.partition.size for key in query.keys)
    quick = options.method == "blue" and options.prior is None
    limit = MOST_GROUPS if quick else MOST_SLOW
    if groups * len(outputs) > limit:
        raise RequestError(
            f"this would infer more than {limit:,} values",
            "Group by fewer columns, or pick groups with WHERE.",
        )
    views = [view for part in outputs for view in part.views]
    evidence = Evidence(known.held, views, bounds=options.method == "guaranteed")
    order = transposition(query)
    rows: Rows = []
    places: list[list[tuple[int, ...]]] = []
    undetermined: Rows = []
    wanted_rows: list[list[Rows]] = []
    for part in outputs:
        part_rows = [in_order(evidence.combined(weighted), order) for weighted in part.parts]
        wanted_rows.append(part_rows)
        determined = [evidence.told(linear_rows) for linear_rows in part_rows]
        part_places: list[tuple[int, ...]] = []
        for group in range(groups):
            if not all(known[group] for known in determined):
                part_places.append(())
                undetermined += [linear_rows[group] for linear_rows in part_rows]
                continue
            part_places.append(tuple(range(len(rows), len(rows) + len(part_rows))))
            rows += [linear_rows[group] for linear_rows in part_rows]
        places.append(part_places)
    missing = _missing(evidence, undetermined)
    if not rows and options.method != "guaranteed":
        raise _undetermined(missing[0], query, known)
    joint = evidence.history.joint(rows)
    alpha = options.alpha(groups * len(outputs))
    measure = partial(measured, joint, options, evidence, alpha)
    uncut = [
        _inferred(part, part_places, part_rows, measure, ranges_of(part.output, query))
        for part, part_places, part_rows in zip(outputs, places, wanted_rows, strict=True)
    ]
    confidence, met, uncut = asked(uncut, joint, options, groups * len(outputs))
    # other intervals end where they were asked to, or at whole numbers already
    whole = quick and options.confidence is not None
    inferred = [aggregate.cut(whole=whole) for aggregate in uncut]
    # a prior or bounds use every linked release
    sources = [one for one in evidence.used if not quick or one.name in joint.used]
    group_indices = asked_groups(query)
    return Inference(
        sql=sql.strip(),
        table=query.table,
        version=known.version,
        keys=tuple(key.alias for key in query.keys),
        groups=group_labels(query),
        aggregates=tuple(inferred),
        rows=shown(query, group_indices, inferred).rows,
        asked=len(group_indices),
        confidence=confidence,
        intervals="each" if options.each else "simultaneous",
        method=options.method,
        chosen=options.chosen,
        met=met,
        prior=options.prior,
        joint=joint,
        shares=_sources(joint, evidence),
        missing=missing,
        consistency=evidence.history.consistency(ALARM_DRAWS),
        left_out=tuple(view_text(one.view) for one in evidence.left_out),
        stamp=known.stamp,
        conditional=any(one.name in known.conditional for one in evidence.used),
        ledger=known.ledger,
        look=max([1, *(known.looks[one.name] for one in sources)]),
    )


def check_shown(query: Query) -> None:
    """Refuse what an inference does not show: it has all results of all groups.

    Raises
    ------
    RequestError
    """
    if query.shown.columns is not None or query.shown.having is not None:
        raise RequestError(
            "an inference has no HAVING and computes nothing from results",
            "Name the results and the group columns alone, or use session.query.",
        )


def in_order(rows: Rows, order: Sequence[int]) -> Rows:
    """Return a view's rows in the order of a statement's groups."""
    return [rows[i] for i in order]


def _inferred(
    part: Part,
    places: Sequence[tuple[int, ...]],
    rows: Sequence[Rows],
    measure: Callable[..., tuple[float | None, Pair]],
    possible: Sequence[Pair],
) -> Inferred:
    """Return the uncut numbers of one output."""
    output, middle, reach = part.output, 0.0, 0.0
    if part.function.is_mean and not isinstance(output, Derived):
        middle, reach = centre(part, output)
    estimates = [
        measure(part, place, [linear_rows[group] for linear_rows in rows])
        for group, place in enumerate(places)
    ]
    shift = part.offset + middle
    ends = [shifted(pair, shift) for _, pair in estimates]
    column = None
    if isinstance(output, Aggregate) and isinstance(output.value, Column):
        column = output.value.name
    return Inferred(
        output.alias,
        part.function,
        column,
        tuple(None if value is None else shift + value for value, _ in estimates),
        tuple(low for low, _ in ends),
        tuple(high for _, high in ends),
        tuple(places),
        shift,
        reach,
        possible=tuple(possible),
    )


def centre(part: Part, output: Aggregate) -> tuple[float, float]:
    """Return the origin of an AVG's sums, and the largest distance of a value from it."""
    ((view, _),) = part.parts[0]
    if not isinstance(view.measure, Sum) or output.value is None:
        return 0.0, 0.0
    middle, bounds = float(view.measure.shift), bounds_within(output.value, view.schema, view.where)
    # rounding to ticks may end just inside the declared bounds
    return middle, max(view.spread, float(bounds.high) - middle, middle - float(bounds.low))


def _has_averages(query: Query, known: Known) -> bool:
    """Return whether past answers determine averages of the summed values.

    A Real is rounded differently for averages, so its sum does not follow from them.
    """
    for output in query.measured:
        if output.function is Function.SUM:
            average = replace(output, function=Function.AVG)
            views = views_of(average, query, known.version)
            evidence = Evidence(known.held, list(views.values()))
            determined = [evidence.told(evidence.wanted(view)) for view in views.values()]
            if any(all(flags) for flags in zip(*determined, strict=True)):
                return True
    return False


def _undetermined(missing: Missing, query: Query, known: Known) -> RequestError:
    """Return why past answers determine nothing, and what to do; uses no released values."""
    if not known.held:
        newer = f" on version {known.version} of its data" if known.version > 1 else ""
        return RequestError(
            f"no past answer to you is about this table{newer}",
            "Ask the statement itself: session.query(sql).",
        )
    if _has_averages(query, known):
        return RequestError(
            "past answers hold the average of these values, but not their sum",
            "Infer the AVG and the COUNT of the same column, and multiply them.",
        )
    return RequestError(
        "past answers do not determine this",
        f"{missing.statement} Or ask for bounds: guaranteed=True.",
    )


def _missing(evidence: Evidence, undetermined: Rows) -> tuple[Missing, ...]:
    """Return queries for values that past answers do not determine."""
    queries: dict[str, Missing] = {}
    for row in undetermined[:MOST_NAMED]:
        best = evidence.history.cheapest_missing(*row)
        # a COUNT has the same coefficient in all its bins
        is_count = best is not None and best.kind != "query" and isinstance(best.value, float)
        where = evidence.box(best.index) if best is not None and is_count else None
        if where is None:
            query = Missing("Ask the statement itself.")
        else:
            query = Missing(f"Enough would be: COUNT(*) WHERE {where or 'TRUE'}.")
        queries.setdefault(query.statement, query)
    return tuple(queries.values())


def _sources(joint: Joint, evidence: Evidence) -> tuple[tuple[Source, ...], ...]:
    """Return the past answers behind each linear part, the most important first."""
    answers = {row.name: row for row in evidence.history.rows}

    def source(name: str, weight: float, share: float) -> Source:
        release, number = evidence.sources[name]
        group = cell_text(release.view, number)
        if release.summed > 1:
            group = f"{group}, " if group else ""
            group += f"sum of {release.summed:,}"
        row = answers[name]
        statement = view_text(release.asked)
        return Source(statement, group, row.answer, math.sqrt(row.variance), weight, share)

    return tuple(
        tuple(
            source(*contribution) for contribution in joint.variance_shares(place)[:SHOWN_SOURCES]
        )
        for place in range(len(joint))
    )
