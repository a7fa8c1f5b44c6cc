"""An ``Answer`` from a plan and its released versions, and a ``Price`` from a plan alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpnb.answers.answer import Answer
from dpnb.answers.postprocessing import shown
from dpnb.answers.price import Origin, Price, Width
from dpnb.estimation.estimates import Estimates, counted, derived, estimate
from dpnb.estimation.intervals import Told
from dpnb.estimation.quantile import quantiles
from dpnb.estimation.variance import variances
from dpnb.ledger.accountant import Accountant, Charge
from dpnb.ledger.store import Store
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import PURE
from dpnb.privacy.loss import PrivacyLoss
from dpnb.releases.plan import Part, Plan, margin_of_error
from dpnb.results import Bill, BudgetStatus
from dpnb.schema.columns import Integer, Real
from dpnb.schema.predicates import EVERY
from dpnb.schema.schema import Schema
from dpnb.sql.formulas import Quantile, Statistic
from dpnb.sql.functions import Function
from dpnb.sql.narrowing import bounds_within
from dpnb.sql.query import Aggregate, Derived
from dpnb.sql.ranges import ranges_of
from dpnb.sql.values import Column
from dpnb.views.measures import Sum
from dpnb.views.view import (
    View,
    asked_groups,
    counted_note,
    group_labels,
    transposition,
)

PRICED_ROWS = (100, 1_000)
"""Group sizes for which the price shows the margin of error of an AVG if none is named."""


def status(store: Store, row: str | None = None) -> BudgetStatus:
    """Return cap, spent and remaining budget of one account, or of all accounts together."""
    state, table = store.accountant, store.provenance
    known = row is not None and row in table.rows
    if row is not None and known:
        now = store.now()
        cap, spent, balance = table.limit(row), table.spent(row), table.remaining(row, now)
        if grant_level := table.granted(row, now):
            cap = replace(cap + PrivacyLoss.of(grant_level, state.privacy), delta=cap.delta)
    else:
        cap, spent, balance = state.cap, state.spent, state.remaining()
    delta = state.budget.noise_delta
    bill = Bill(
        spent, balance, cap, state.privacy, None if delta is None else float(delta), kept=store.kept,
        stamp=store.stamp,
    )  # fmt: skip
    return BudgetStatus(bill, row if known else None)


def answer(
    sql: str,
    wanted: Plan,
    charge: Charge,
    store: Store,
    *,
    fresh: bool,
    worked_out: Sequence[Estimates] | None = None,
) -> Answer:
    """Build the answer of a committed charge; ``fresh`` if it was committed just now.

    ``worked_out`` holds the estimates of all outputs if other releases contribute to them.
    """
    state, query = store.accountant, wanted.query

    def look(parts: Sequence[Part]) -> int:
        views = {view.id: charge.levels[view.id] for part in parts for view in part.views()}
        return state.look(charge.analyst, views)

    def estimates(part: Part, leaves: int = 1) -> Estimates:
        bounds = _bounds(part, query.schema)
        order = transposition(query.finer(part.aggregate))
        return _estimates(part, wanted, charge, state, order, bounds, leaves).cut()

    all_estimates = tuple(worked_out or ()) or tuple(
        _derived(output, wanted, estimates, look)
        if isinstance(output, Derived)
        else estimates(_part(output, wanted))
        for output in query.outputs
    )
    base = _without_cost(sql, wanted, charge.analyst, store, charge.version, all_estimates)
    return replace(
        base,
        bill=replace(
            base.bill,
            spent=charge.row if fresh else PrivacyLoss.none(),
            stored=not fresh,
            conditional=charge.conditional,
        ),
        finer=any(
            state.level(charge.analyst, view) > level for view, level in charge.levels.items()
        ),
        levels={view: str(level) for view, level in {**charge.past, **charge.levels}.items()},
        definitions={
            **{name: dict(state.definitions[name]) for name in charge.past},
            **{name: view.definition() for name, view in wanted.views.items()},
        },
        request=charge.request,
        shared=state.shown_before(charge),
        bought=bought(wanted, charge.levels),
    )


def listed(sql: str, wanted: Plan, analyst: str, store: Store) -> Answer:
    """Return the declared groups of a statement without results. There are no data in it."""
    return _without_cost(sql, wanted, analyst, store, store.version(wanted.query.table), ())


def _without_cost(
    sql: str,
    wanted: Plan,
    analyst: str,
    store: Store,
    version: int,
    estimates: tuple[Estimates, ...],
) -> Answer:
    """Return what is shown of estimates, in an answer that costs nothing and uses no views."""
    query = wanted.query
    group_indices = asked_groups(query)
    outcome = shown(query, group_indices, estimates)
    grouped = tuple(key.alias for key in query.keys)
    return Answer(
        sql=sql.strip(),
        table=query.table,
        version=version,
        keys=grouped if outcome.table is None else outcome.table.keys,
        groups=group_labels(query),
        estimates=estimates,
        rows=outcome.rows,
        asked=len(group_indices),
        grouped=grouped,
        rest=outcome.rest,
        hidden=outcome.hidden,
        hidden_by=outcome.hidden_by,
        undeclared=query.undeclared,
        shown=outcome.table,
        bill=status(store, analyst).charged(PrivacyLoss.none()),
        confidence=wanted.accuracy.confidence,
        intervals=wanted.accuracy.intervals,
        looks=wanted.accuracy.looks,
        finer=False,
        levels={},
        definitions={},
        ledger=store.name,
        request=wanted.request,
    )


def bought(plan: Plan, levels: Mapping[str, Fraction]) -> str | None:
    """Return the epsilon of a pure session's levels if it is less than requested."""
    target_level = plan.accuracy.level
    if target_level is None or plan.privacy is not PURE or not plan.views:
        return None
    epsilon = sum((levels[view] for view in plan.views), Fraction(0))
    return str(epsilon) if epsilon < target_level else None


def _part(aggregate: Aggregate, plan: Plan) -> Part:
    """Return the part that measures an aggregate: its own, else one of equal meaning."""
    own_parts = (part for part in plan.parts if part.aggregate == aggregate)
    equal_parts = (part for part in plan.parts if part.aggregate.means(aggregate))
    return next(itertools.chain(own_parts, equal_parts))


def _derived(
    column: Derived,
    plan: Plan,
    estimates: Callable[[Part, int], Estimates],
    look: Callable[[Sequence[Part]], int],
) -> Estimates:
    # simultaneous intervals hold together already; with 'each', those of one formula share alpha
    shares = column.claims if plan.accuracy.intervals == "each" else 1
    parts = [_part(leaf, plan) for leaf in column.leaves]
    leaves = [estimates(part, shares) for part in parts]

    def statistic(quantity: Statistic) -> Told:
        if isinstance(quantity, Quantile):
            (name,) = column.leaves[quantity.cells].columns
            kind = plan.query.schema[name]
            if not isinstance(kind, Integer | Real):
                raise TypeError("a quantile needs a column of numbers")
            alpha = plan.alpha(look([parts[quantity.cells]])) / shares
            return quantiles(quantity, leaves[quantity.cells], kind, alpha)
        alpha = plan.alpha(look([parts[quantity.mean], parts[quantity.square]])) / shares
        return variances(quantity, leaves[quantity.mean], leaves[quantity.square], alpha)

    possible = ranges_of(column, plan.query)
    return derived(column.alias, column.formula, leaves, statistic, possible).cut()


def _estimates(
    part: Part,
    plan: Plan,
    charge: Charge,
    state: Accountant,
    order: Sequence[int],
    bounds: tuple[float, float],
    leaves: int,
) -> Estimates:
    """Return one aggregate's estimates; ``leaves`` such intervals share one failure probability."""
    look = state.look(charge.analyst, {v.id: charge.levels[v.id] for v in part.views()})

    def released(view: View | None, centred: bool | None) -> list[float] | None:
        if view is None:
            return None
        values = view.values(state.vector(charge.analyst, view.id, charge.levels[view.id]))
        if part.alignment is not None:
            return part.alignment.apply(values, centred)
        return [values[cell] for cell in order]

    def noise_distribution(view: View | None, centred: bool | None) -> NoiseDistribution | None:
        return (
            None if view is None else part.distribution(plan, view, charge.levels[view.id], centred)
        )

    middle = reach = 0.0
    if part.alignment is not None and part.is_mean:
        middle, reach = part.alignment.middle, part.alignment.reach
    elif part.is_mean and part.sum is not None and isinstance(part.sum.measure, Sum):
        middle, (low, high) = float(part.sum.measure.shift), bounds
        # rounding to ticks may end just inside the declared bounds
        reach = max(part.sum.spread, high - middle, middle - low)
    value = part.aggregate.value
    if part.aggregate.function is Function.CELLS:
        return counted(
            part.aggregate.alias, value.name if isinstance(value, Column) else None,
            released(part.count, None) or [], noise_distribution(part.count, None), look,
            plan.accuracy.alpha(1, look),
        )  # fmt: skip
    return estimate(
        part.aggregate.alias,
        # a count of distinct ids is a count like any other
        Function.COUNT if part.aggregate.function is Function.UNITS else part.aggregate.function,
        value.name if isinstance(value, Column) else None,
        total=released(part.sum, part.is_mean),
        total_distribution=noise_distribution(part.sum, part.is_mean),
        count=released(part.count, None),
        count_distribution=noise_distribution(part.count, None),
        middle=middle,
        reach=reach,
        look=look,
        alpha=plan.accuracy.alpha(1, look),
        each=plan.alpha(look) / leaves,
        possible=ranges_of(part.aggregate, plan.query),
    )


def _bounds(part: Part, schema: Schema) -> tuple[float, float]:
    if not part.is_mean or part.aggregate.value is None:
        return 0.0, 0.0
    rows = EVERY if part.sum is None else part.sum.where
    bounds = bounds_within(part.aggregate.value, schema, rows)
    return float(bounds.low), float(bounds.high)


def widths(
    wanted: Plan, analyst: str, levels: Mapping[str, Fraction], store: Store
) -> tuple[Width, ...]:
    """Return the expected margin of error of each output of a plan at ``levels``."""
    if wanted.branches:
        return tuple(
            (f"{i}: {alias}", size, width)
            for i, branch in enumerate(wanted.branches, start=1)
            for alias, size, width in widths(branch, analyst, levels, store)
        )
    rows = PRICED_ROWS if wanted.accuracy.rows is None else (wanted.accuracy.rows,)

    def half(aggregate: Aggregate, size: int | None, sharers: int) -> float:
        part = _part(aggregate, wanted)
        look = store.accountant.look(analyst, {v.id: levels[v.id] for v in part.views()})
        return margin_of_error(part, wanted, levels, look, size or 1, sharers)

    margins: list[Width] = []
    for output in wanted.query.outputs:
        weights = ((output, 1),) if isinstance(output, Aggregate) else output.weights()
        if not weights:
            margins.append((output.alias, None, None))
            continue
        separate = wanted.accuracy.intervals == "each"
        sharers = output.claims if isinstance(output, Derived) and separate else 1
        mean = any(_part(aggregate, wanted).is_mean for aggregate, _ in weights)
        for size in rows if mean else (None,):
            reach = sum(abs(float(w)) * half(term, size, sharers) for term, w in weights)
            margins.append((output.alias, size, reach))
    return tuple(margins)


def price(
    sql: str,
    wanted: Plan,
    analyst: str,
    cost: PrivacyLoss,
    left: PrivacyLoss,
    store: Store,
    levels: Mapping[str, Fraction],
    expected: tuple[Width, ...],
    origin: Origin | None = None,
    refusal: str = "",
) -> Price:
    """Return the price of a plan: ``cost`` out of ``left``, and the expected margins of error.

    ``refusal`` says why the statement would be refused now.
    """
    epsilon = bought(wanted, levels)
    budget = status(store, analyst)
    return Price(
        sql=sql.strip(),
        bill=replace(budget.charged(cost), remaining=left),
        confidence=wanted.accuracy.confidence,
        affordable=not refusal,
        refusal=refusal,
        widths=expected,
        origin=origin,
        bought=() if epsilon is None else (epsilon,),
        counted=counted_note(
            (view.definition() for view in wanted.views.values()),
            alone=all(
                isinstance(output, Aggregate) and output.function is Function.UNITS
                for output in wanted.query.outputs
            ),
        ),
    )
