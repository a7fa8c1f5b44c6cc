"""From a question to the plan of its explanation, and from what was released to an ``Explanation``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpnb.answers.assembly import status
from dpnb.answers.comparison import exact
from dpnb.answers.listing import Listing, price_caption
from dpnb.answers.numbers import figure, percent
from dpnb.answers.question import Question, label
from dpnb.errors import RequestError
from dpnb.explain.explanation import Explanation, Row
from dpnb.explain.plan import (
    LOWER_SHARE,
    ExplanationPlan,
    Target,
    plan_explanation,
    read_design,
)
from dpnb.explain.predicates import space
from dpnb.privacy.accountant import Charge
from dpnb.privacy.loss import Currency, PrivacyLoss
from dpnb.provenance.store import Store
from dpnb.schema import Schema
from dpnb.sql.canonical import read
from dpnb.sql.query import Aggregate
from dpnb.table import Table

_SPACE = ("attributes", "exclude", "length", "connective", "ranges", "predicates")
_COST = ("rho", "epsilon", "error")


def plan_for(
    question: Question,
    analyst: str,
    store: Store,
    tables: Mapping[str, Table],
    options: Mapping[str, Any],
) -> ExplanationPlan:
    """Decide what explaining a question would measure. Public facts only.

    Raises
    ------
    RequestError
        In a pure session, for a question of another session or data version, or about a derived
        column, and for unusable options.
    """
    state = store.accountant
    if state.currency == "pure":
        raise RequestError(
            "explanations need zero-concentrated privacy", "Open a zcdp session: Budget(rho=...)."
        )
    if not isinstance(question, Question):
        raise RequestError("there is no question", "Pass answer.compare('a', 'b').")
    charge = state.charges.get((analyst, question.request))
    # a forged question may name any request and table; a one-off release has no levels
    if (
        question.ledger != store.name
        or charge is None
        or not charge.levels
        or question.table not in tables
        or question.table != charge.query["table"]
    ):
        raise RequestError(
            "this question was asked in another session", "Ask the query here first."
        )
    version = store.version(question.table)
    if charge.version != version or question.version != version:
        raise RequestError(
            "this question is about an older data version", "Ask the query again first."
        )
    target = _target(question, charge, version, tables[question.table].schema)
    taken = {*target.keys, *target.aggregate.columns}
    candidates = space(
        tables[question.table],
        taken,
        **{name: options[name] for name in _SPACE if name in options},
        groups=len(target.groups),
    )
    design = read_design(
        options.get("k", 5),
        options.get("confidence", 0.95),
        options.get("joint", False),
        options.get("lower", LOWER_SHARE),
        options.get("mode", "tight"),
        candidates.size,
    )
    scale, _ = scale_of(question)
    return plan_explanation(
        target,
        candidates,
        design,
        **{name: options.get(name) for name in _COST},
        scale=scale,
        delta=state.budget.delta,
    )


def _target(question: Question, charge: Charge, version: int, schema: Schema) -> Target:
    query = read(charge.query)
    index = question.index
    if not isinstance(index, int) or not 0 <= index < len(query.outputs):
        raise RequestError("this question names no aggregate of its query", "Ask it anew.")
    aggregate = query.outputs[index]
    if not isinstance(aggregate, Aggregate):
        raise RequestError(
            f"{question.aggregate!r} is computed from several aggregates",
            "Explain a COUNT, SUM or AVG.",
        )
    keys = tuple(key.column for key in query.keys)
    cells = [{str(cell.label): i for i, cell in enumerate(schema[key].cells())} for key in keys]
    groups = []
    for group in question.groups:
        places = [found.get(str(name)) for found, name in zip(cells, group, strict=False)]
        if len(group) != len(keys) or None in places:
            raise RequestError(f"{label(group)!r} is no group of this query", "Ask it anew.")
        groups.append(tuple(place for place in places if place is not None))
    weights = [exact(weight, "weight") for weight in question.weights]
    if not weights or len(set(groups)) < len(groups) or len(weights) != len(groups) or 0 in weights:
        raise RequestError("this question makes no sense", "Ask it anew.")
    # in declared order: two spellings of a question are one request
    ordered = sorted(zip(groups, weights, strict=True))
    return Target.of(
        query.table,
        version,
        keys,
        query.where,
        replace(aggregate, alias=question.aggregate),
        [group for group, _ in ordered],
        [weight for _, weight in ordered],
        schema,
    )


def scale_of(question: Question) -> tuple[float | None, str]:
    """Return what influences are divided by to be shares of the difference, or why they are not.

    d = |difference| for COUNT and SUM, times the smallest count for AVG (DPXPlain, Equation 7). Near
    0 it would explode or flip (spec/dpxplain.md E12). Released values only.
    """
    if question.estimate is None or not question.enough:
        return None, "Influences are absolute: a group may have too few rows to divide by."
    if question.low <= 0 <= question.high:
        return None, "Influences are absolute: the difference itself may be 0."
    scale = abs(question.estimate) * (1.0 if question.rows is None else max(1.0, question.rows))
    if not 0 < scale < math.inf:
        return None, "Influences are absolute: the difference itself may be 0."
    return scale, ""


def explanation(
    plan: ExplanationPlan,
    question: Question,
    charge: Charge,
    store: Store,
    *,
    fresh: bool,
) -> Explanation:
    """Build the explanation of a committed charge; ``fresh`` when it was committed just now."""
    state, design = store.accountant, plan.design
    drawn = state.releases[charge.request].drawn
    scale, reason = scale_of(question)
    divisor = 1.0 if scale is None else scale
    numerator, denominator = plan.unit.as_integer_ratio()
    half = plan.half_width
    rows = []
    for (shown, condition), value, (best, worst) in zip(
        drawn["predicates"], drawn["influences"], drawn["ranks"], strict=True
    ):
        influence = value * numerator / denominator
        rows.append(
            Row(
                predicate=shown,
                condition=condition,
                influence=influence / divisor,
                influence_low=(influence - half) / divisor,
                influence_high=(influence + half) / divisor,
                rank_low=best,
                rank_high=worst,
            )
        )
    rows.sort(key=lambda row: (-row.influence_high, row.rank_high))
    budget = status(store)
    tight = replace(
        plan, design=replace(design, mode="tight"), lattice=plan.target.lattice("tight")
    )
    return Explanation(
        question=question,
        rows=tuple(rows),
        relative=scale is not None,
        reason=reason,
        scale=divisor,
        candidates=plan.space.size,
        attributes=tuple(attribute.column for attribute in plan.space.attributes),
        length=plan.space.length,
        connective=plan.space.connective,
        confidence=design.confidence,
        joint=design.joint,
        mode=design.mode,
        sharper={
            "influence": plan.half_width / tight.half_width,
            "rank": plan.resolution / tight.resolution if tight.resolution else 1.0,
        },
        spent=charge.spent if fresh else PrivacyLoss.none(),
        remaining=budget.remaining,
        cap=budget.cap,
        delta=budget.delta,
        rho=plan.budgets.to_dict(),
        half_width=half / divisor,
        resolution=plan.resolution / divisor,
        stored=not fresh,
        kept=budget.kept,
        private=store.private,
        definition={**plan.definition(), "noise": plan.noise()},
    )


@dataclass(frozen=True, slots=True)
class ExplanationPrice:
    """What an explanation would cost and how sharp it would be. Nothing was spent.

    Attributes
    ----------
    spent : PrivacyLoss
        The increase it would cost now.
    remaining, cap : PrivacyLoss
    currency : 'zcdp'
    delta : float or None
    affordable : bool
    candidates : int
        |P|.
    confidence : float
    rho : mapping of str to str
        Budget of each part.
    relative : bool
        Whether the widths are shares of the difference.
    half_width : float
        Of the influences' intervals, as they would be shown.
    resolution : float
        How far influences must lie apart for ranks to tell them apart.
    """

    spent: PrivacyLoss
    remaining: PrivacyLoss
    cap: PrivacyLoss
    currency: Currency
    delta: float | None
    affordable: bool
    candidates: int
    confidence: float
    rho: Mapping[str, str]
    relative: bool
    half_width: float
    resolution: float

    def share(self) -> float:
        """Return the cost as a share of what is left; infinite when nothing is left."""
        if self.spent.rho == 0:
            return 0.0
        return float(self.spent.rho / self.remaining.rho) if self.remaining.rho else float("inf")

    def listing(self) -> Listing:
        """Return the price as a table."""

        def shown(value: float) -> str:
            if self.relative:
                return f"{figure(100 * value, 100 * value)} % of the difference"
            return figure(value, value)

        rows = (
            ("influence", f"± {shown(self.half_width)}, {percent(self.confidence)} interval"),
            ("rank", f"tells influences apart that differ by {shown(self.resolution)}"),
            ("candidates", f"{self.candidates:,} predicates"),
        )
        caption = price_caption(
            self.spent,
            self.remaining,
            self.cap,
            self.currency,
            self.delta,
            affordable=self.affordable,
        )
        return Listing(caption, ("", "to expect"), rows)

    def __repr__(self) -> str:
        return repr(self.listing())

    def _repr_html_(self) -> str:
        return self.listing()._repr_html_()


def price(
    plan: ExplanationPlan, question: Question, store: Store, cost: PrivacyLoss
) -> ExplanationPrice:
    """Return the price of a plan, of which ``cost`` is still to be paid."""
    budget = status(store)
    scale, _ = scale_of(question)
    divisor = 1.0 if scale is None else scale
    return ExplanationPrice(
        spent=cost,
        remaining=budget.remaining,
        cap=budget.cap,
        currency=budget.currency,
        delta=budget.delta,
        affordable=cost.rho <= budget.remaining.rho,
        candidates=plan.space.size,
        confidence=plan.design.confidence,
        rho=plan.budgets.to_dict(),
        relative=scale is not None,
        half_width=plan.half_width / divisor,
        resolution=plan.resolution / divisor,
    )
