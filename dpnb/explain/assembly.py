"""The plan of an explanation from its question, and the ``Explanation`` from its release."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from dpnb.answers.assembly import status
from dpnb.answers.comparison import exact
from dpnb.answers.question import Question
from dpnb.answers.recall import charge_of
from dpnb.errors import RequestError
from dpnb.explain.explanation import Explanation, Row
from dpnb.explain.options import CANDIDATES, COST
from dpnb.explain.plan import (
    Budgets,
    ExplanationPlan,
    default_rho,
    plan_explanation,
    read_design,
)
from dpnb.explain.predicates import space
from dpnb.explain.price import scale_of
from dpnb.explain.remaining import remaining
from dpnb.explain.target import Target
from dpnb.ledger.accountant import Charge
from dpnb.ledger.store import Store
from dpnb.privacy.definition import ZCDP
from dpnb.privacy.loss import PrivacyLoss
from dpnb.releases.options import read_values
from dpnb.schema.predicates import plain
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.sql.canonical import read
from dpnb.sql.formulas import Quantile, Variance
from dpnb.sql.query import Aggregate, Derived


def check_served(store: Store) -> None:
    """Refuse explanations if the ledger's policy or accountant does not support them.

    Raises
    ------
    RequestError
    """
    if store.provenance.static:
        raise RequestError(
            "the policy gives each view its own limit, so only views are answered",
            "Explanations need Policy(views='water-filling').",
        )
    if store.accountant.privacy is not ZCDP:
        raise RequestError(
            "explanations need the accountant 'zcdp', the default for a budget with a delta",
            "Start a new ledger with Budget(epsilon=3, delta=1e-6).",
        )


def plan_for(
    question: Question,
    analyst: str,
    store: Store,
    tables: Mapping[str, Table],
    options: Mapping[str, Any],
) -> ExplanationPlan:
    """Decide what the explanation of a question would measure. Uses public facts only.

    Raises
    ------
    RequestError
        If the analyst does not have the question's answer, the column is derived, or an option is
        unusable.
    """
    charge = charge_of(store, tables, analyst, question.reference)
    state = store.accountant
    target = _target(question, charge, tables[question.table].schema)
    question_columns = {key.column for key in target.keys} | target.aggregate.columns
    candidates = space(
        tables[question.table],
        question_columns,
        **read_values(CANDIDATES, options),
        groups=len(target.groups),
    )
    design = read_design(candidates.size, **options)
    scale, _ = scale_of(question)
    planner = partial(
        plan_explanation,
        target,
        candidates,
        design,
        scale=scale,
        delta=state.budget.noise_delta,
        conditional=question.conditional or charge.conditional,
    )
    cost: dict[str, Any] = {option.name: options.get(option.name) for option in COST}
    if any(value is not None for value in cost.values()):
        return planner(**cost)
    return _at_default(planner, analyst, store)


def _at_default(
    planner: Callable[..., ExplanationPlan], analyst: str, store: Store
) -> ExplanationPlan:
    """Plan at no cost if she has the explanation already, else at a share of what she has left.

    What she has left depends on a picked amount as soon as she has spent one.
    """
    charges = [
        spending for (payer, _), spending in store.accountant.charges.items() if payer == analyst
    ]
    plan = planner(rho=default_rho(status(store, analyst).remaining.rho))
    meaning = {**plan.definition(), "rho": None}
    past_budgets = [
        Budgets.from_dict(spending.query["rho"])
        for spending in charges
        if "target" in spending.query and {**spending.query, "rho": None} == meaning
    ]
    if past_budgets:
        return replace(
            plan, budgets=max(past_budgets, key=lambda spending: spending.total), unsaid=True
        )
    picked = any(spending.conditional for spending in charges)
    return replace(plan, conditional=plan.conditional or picked, unsaid=True)


def _target(question: Question, charge: Charge, schema: Schema) -> Target:
    query = read(charge.query, schema)
    aggregate = query.outputs[question.index]
    if not isinstance(aggregate, Aggregate):
        raise RequestError(
            f"{question.aggregate!r} is {_kind(aggregate)}, which cannot be explained",
            "Explain a COUNT, SUM or AVG.",
        )
    numbers = [dict(zip(map(str, key.labels), key.order, strict=True)) for key in query.keys]
    groups = [
        tuple(number[str(name)] for number, name in zip(numbers, group, strict=True))
        for group in question.groups
    ]
    weights = [exact(weight, "weight") for weight in question.weights]
    target_aggregate = replace(aggregate, alias=question.aggregate)
    return Target.of(query, target_aggregate, charge.version, groups, weights)


def _kind(output: Derived) -> str:
    """Return what a computed column is, for a message."""
    match output.formula:
        case Quantile():
            return "a quantile"
        case Variance():
            return "a variance"
        case _:
            return "a formula"


def explanation(
    plan: ExplanationPlan,
    question: Question,
    charge: Charge,
    store: Store,
    *,
    fresh: bool,
) -> Explanation:
    """Build the explanation of a committed charge; ``fresh`` if it was committed just now."""
    state, design = store.accountant, plan.design
    draws = state.releases[charge.request].drawn
    scale, reason = scale_of(question)
    divisor = 1.0 if scale is None else scale
    # from the release, because the current lattice may be another one
    numerator, denominator = Fraction(draws["noise"]["lattice_unit"]).as_integer_ratio()
    half = design.quantile * draws["noise"]["sigma"]
    # the release may have another analyst's words for the same condition
    words = {_written(plain(predicate)): text for text, predicate in plan.space.listed}
    rows = []
    for (label, condition), value, (best, worst) in zip(
        draws["predicates"], draws["influences"], draws["ranks"], strict=True
    ):
        influence = value * numerator / denominator
        low, high = influence - half, influence + half
        left_low, left_high = remaining(question, low, high)
        rows.append(
            Row(
                predicate=words.get(_written(condition), label),
                condition=condition,
                influence=influence / divisor,
                influence_low=low / divisor,
                influence_high=high / divisor,
                left_low=left_low,
                left_high=left_high,
                rank_low=best,
                rank_high=worst,
            )
        )
    rows.sort(key=lambda row: (-row.influence_high, row.rank_high))
    budget = status(store, charge.analyst)
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
        unbinned=dict(plan.space.unbinned),
        length=plan.space.length,
        connective=plan.space.connective,
        confidence=design.confidence,
        joint=design.joint,
        mode=design.mode,
        sharper={
            "influence": float(plan.unit * plan.lattice.sensitivity)
            / float(tight.unit * tight.lattice.sensitivity),
            "rank": plan.resolution / tight.resolution if tight.resolution else 1.0,
        },
        bill=budget.charged(
            charge.row if fresh else PrivacyLoss.none(),
            stored=not fresh,
            conditional=plan.conditional or charge.conditional,
        ),
        rho=plan.budgets.to_dict(),
        margin_of_error=half / divisor,
        resolution=plan.resolution / divisor,
        definition={**plan.definition(), "noise": draws["noise"]},
    )


def _written(condition: object) -> str:
    """Return a condition's plain form as text; equal conditions have equal texts."""
    return json.dumps(condition, sort_keys=True)
