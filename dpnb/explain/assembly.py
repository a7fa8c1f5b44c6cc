"""From a question to the plan of its explanation, and from what was released to an ``Explanation``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from dpnb.answers.assembly import status
from dpnb.answers.question import Question
from dpnb.errors import RequestError, given
from dpnb.explain.explanation import Explanation, Row
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
from dpnb.formats import label
from dpnb.ledger.accountant import Charge
from dpnb.ledger.store import Store
from dpnb.privacy.loss import PrivacyLoss
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.sql.canonical import plain, read
from dpnb.sql.query import Aggregate

_SPACE = ("attributes", "exclude", "length", "connective", "ranges", "predicates")
_DESIGN = ("k", "confidence", "joint", "lower", "mode")
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
        In a session that does not count zCDP, for a question of another session or data version, or about a derived
        column, and for unusable options.
    """
    state = store.accountant
    if state.currency != "zcdp":
        raise RequestError(
            "explanations need the accountant 'zcdp', the default for a budget with a delta",
            "Start a new ledger with Budget(epsilon=3, delta=1e-6).",
        )
    if not isinstance(question, Question):
        raise RequestError("an explanation needs a question", "Pass answer.compare('a', 'b').")
    _check_shape(question)
    charge = state.charges.get((analyst, question.request))
    # a forged question may name any request and table; a one-off release has no levels
    if (
        question.ledger != store.name
        or charge is None
        or not charge.levels
        or "decision" in charge.query
        or question.table not in tables
        or question.table != charge.query["table"]
    ):
        raise RequestError(
            "this question comes from another session, or from an answer that used past answers",
            "Ask the query here first. If it was free, ask with history=False (--no-history).",
        )
    version = store.version(question.table)
    if charge.version != version or question.version != version:
        raise RequestError(
            "this question is about an older version of the table", "Ask the query again first."
        )
    target = _target(question, charge, version, tables[question.table].schema)
    taken = {*target.keys, *target.aggregate.columns}
    candidates = space(
        tables[question.table],
        taken,
        **_given(options, _SPACE),
        groups=len(target.groups),
    )
    design = read_design(candidates.size, **_given(options, _DESIGN))
    scale, _ = scale_of(question)
    planned = partial(
        plan_explanation,
        target,
        candidates,
        design,
        scale=scale,
        delta=state.budget.noise_delta,
        conditional=question.conditional or charge.conditional,
    )
    cost = _given(options, _COST)
    if any(value is not None for value in cost.values()):
        return planned(**cost)
    return _at_default(planned, analyst, store)


def _at_default(
    planned: Callable[..., ExplanationPlan], analyst: str, store: Store
) -> ExplanationPlan:
    """Plan what costs nothing, for she has it; else at a share of what is left to her.

    What is left rests on a picked amount as soon as she has spent one.
    """
    charges = [one for (who, _), one in store.accountant.charges.items() if who == analyst]
    plan = planned(rho=default_rho(status(store, analyst).remaining.rho))
    asked = {**plan.definition(), "rho": None}
    held = [
        Budgets.from_dict(one.query["rho"])
        for one in charges
        if "target" in one.query and {**one.query, "rho": None} == asked
    ]
    if held:
        return replace(plan, budgets=max(held, key=lambda one: one.total), unsaid=True)
    picked = any(one.conditional for one in charges)
    return replace(plan, conditional=plan.conditional or picked, unsaid=True)


def _given(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _check_shape(question: Question) -> None:
    """Refuse what no answer makes: a question can be built by hand, or come over a wire."""
    texts = (
        question.table, question.ledger, question.request, question.left, question.right,
        question.aggregate,
    )  # fmt: skip
    numbers = (
        question.low, question.high, question.estimate, question.rows, question.joint_low,
        question.joint_high, question.smallest_high, question.largest_low,
    )  # fmt: skip
    lists = (question.groups, question.weights)
    right = (
        all(isinstance(value, str) and _is_text(value) for value in texts)
        and isinstance(question.conditional, bool)
        and all(value is None or _is_number(value) for value in numbers)
        and (question.largest_low is None or question.largest_low < math.inf)
        and all(isinstance(value, tuple) for value in lists)
        and all(isinstance(group, tuple) for group in question.groups)
    )
    if not right:
        raise RequestError("this question is malformed", "Compare the groups again.")


def _weight(value: object) -> Fraction:
    """Return the decimal that a weight shows."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= 1e9:
        raise RequestError(
            f"a weight must be a number up to 1e9, got {given(value)}", "Compare the groups again."
        )
    return Fraction(str(value))


def _is_number(value: object) -> bool:
    # whole numbers that no float can hold
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 1024)


def _is_text(value: str) -> bool:
    """Return whether a text can be written down: no halves of characters."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _target(question: Question, charge: Charge, version: int, schema: Schema) -> Target:
    query = read(charge.query)
    index = question.index
    if not isinstance(index, int) or not 0 <= index < len(query.outputs):
        raise RequestError(
            "this question names no aggregate of its query", "Compare the groups again."
        )
    aggregate = query.outputs[index]
    if not isinstance(aggregate, Aggregate):
        raise RequestError(
            f"{question.aggregate!r} combines several aggregates",
            "Explain a COUNT, SUM or AVG.",
        )
    keys = tuple(key.column for key in query.keys)
    cells = [{str(cell.label): i for i, cell in enumerate(schema[key].cells())} for key in keys]
    groups = []
    for group in question.groups:
        places = [found.get(str(name)) for found, name in zip(cells, group, strict=False)]
        if len(group) != len(keys) or None in places:
            raise RequestError(
                f"there is no group {given(label(group))} in this query",
                "Compare the groups again.",
            )
        groups.append(tuple(place for place in places if place is not None))
    weights = [_weight(weight) for weight in question.weights]
    if not weights or len(set(groups)) < len(groups) or len(weights) != len(groups) or 0 in weights:
        raise RequestError("this question is malformed", "Compare the groups again.")
    return Target.of(
        query.table,
        version,
        keys,
        query.where,
        replace(aggregate, alias=question.aggregate),
        groups,
        weights,
        schema,
    )


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
    # as it was drawn: today's lattice may be another one
    numerator, denominator = Fraction(drawn["noise"]["lattice_unit"]).as_integer_ratio()
    half = design.quantile * drawn["noise"]["sigma"]
    # of equal conditions everybody sees their own words
    words = {_written(plain(predicate)): text for text, predicate in plan.space.listed}
    rows = []
    for (shown, condition), value, (best, worst) in zip(
        drawn["predicates"], drawn["influences"], drawn["ranks"], strict=True
    ):
        influence = value * numerator / denominator
        low, high = influence - half, influence + half
        left_low, left_high = remaining(question, low, high)
        rows.append(
            Row(
                predicate=words.get(_written(condition), shown),
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
        half_width=half / divisor,
        resolution=plan.resolution / divisor,
        definition={**plan.definition(), "noise": drawn["noise"]},
    )


def _written(condition: object) -> str:
    """Return a condition's plain form as text, the same for all that are equal."""
    return json.dumps(condition, sort_keys=True)
