"""Builds a ``Decision`` from its steps in the ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpnb.answers.assembly import status
from dpnb.decide.certificate import (
    chances,
    shares,
)
from dpnb.decide.conditions import Bools, Node, Tree
from dpnb.decide.decision import Decision, Reading, Taken, Test
from dpnb.decide.entropy import min_entropy
from dpnb.decide.findings import Found, held_before, possible_of
from dpnb.decide.naming import aggregate_text, atom_text, name_of
from dpnb.decide.plan import DecisionPlan, Term
from dpnb.decide.responses import Responded
from dpnb.decide.stage import Stage
from dpnb.ledger.accountant import Charge
from dpnb.ledger.store import Store
from dpnb.privacy.definition import PURE
from dpnb.privacy.loss import PrivacyLoss, amount_text, epsilon_shown
from dpnb.published import published
from dpnb.schema.schema import unit_text
from dpnb.views.measures import Sum
from dpnb.views.view import View


def decision(
    sql: str,
    stage: Stage,
    taken: Sequence[tuple[Taken, Charge]],
    found: Found | None,
    store: Store,
    analyst: str,
    responded: Responded | None = None,
    asked: Sequence[int] = (),
) -> Decision:
    """Build the decision after the steps taken; ``found`` is None where lines get no noise."""
    plan, options = stage.plan, stage.plan.options
    budget = status(store, analyst)
    step = len(taken)
    chosen, verdict = np.zeros(len(plan.groups), bool), np.zeros(len(plan.groups), np.int8)
    readings: tuple[Reading, ...] = ()
    estimate: float | None = None
    if found is not None:
        verdict = found.verdict
        chosen = plan.condition.value(found.kept) if step else verdict >= 0
        readings = tuple(_reading(stage, i, step, found) for i in range(len(plan.lines)))
        estimate = _estimate(plan, chosen, found)
    flags = np.zeros(len(plan.groups), bool)
    if responded is not None:
        flags[list(asked)] = True
        chosen = chosen.copy()
        chosen[list(asked)] = responded.values
    false, missed = shares(chosen, verdict)
    turned = options.protect == "fpr"
    if turned:
        chosen, verdict, false, missed = ~chosen, -verdict, missed, false
    epsilons = _epsilons(plan, step, responded, flags, budget.delta)
    beforehand = bool(step) or responded is not None
    # one error is bounded beforehand; the other is certified, or bounded beforehand as well
    fnr: float | None = options.beta if beforehand else None
    fpr: float | None = options.alpha if options.mode in ("rr", "hybrid") else false
    if turned:
        fnr, fpr = missed, options.alpha if beforehand else None
    charges = [charge for _, charge in taken] + ([responded.charge] if responded else [])
    none = PrivacyLoss.none()
    return Decision(
        sql=sql.strip(),
        table=plan.query.table,
        version=plan.version,
        keys=tuple(key.alias for key in plan.query.keys),
        groups=plan.groups,
        condition=condition_text(plan),
        mode=options.mode,
        protect=options.protect,
        beta=options.beta,
        alpha=options.alpha,
        confidence=options.confidence,
        status="answered",
        reason="",
        chosen=tuple(chosen.tolist()),
        verdicts=tuple(verdict.tolist()),
        fnr_bound=fnr,
        fpr_bound=fpr,
        false=false,
        missed=missed,
        estimate=estimate,
        tests=tests(plan, max(step, 1)),
        readings=readings,
        taken=tuple(record for record, _ in taken),
        steps=plan.steps,
        responded=tuple(flags.tolist()),
        response="0" if responded is None else str(plan.response),
        past=bool(stage.seen),
        bill=budget.charged(none, conditional=any(charge.conditional for charge in charges)),
        charged=sum((charge.row for charge in charges), none),
        next_cost=None,
        first_cost=PrivacyLoss.of(plan.level(1), plan.privacy) if plan.steps else none,
        worst_cost=PrivacyLoss.of(plan.worst, plan.privacy),
        ceiling=PrivacyLoss.of(plan.ceiling, plan.privacy),
        epsilons=epsilons,
        min_entropy=None if epsilons is None else min_entropy(epsilons),
        warnings=plan.warnings,
        ledger=store.name,
        unit=unit_text(plan.lines[0].view.definition()["unit"]),
        request=plan.name,
    )


def studied(
    sql: str,
    plan: DecisionPlan,
    exact: Mapping[str, Sequence[int]],
    store: Store,
    analyst: str,
) -> Decision:
    """Return the result of a published method, simulated on public data; stamped not private."""
    cases, study = published("cases"), published("study")
    options = plan.options
    most = cases.MOST if options.most is None else float(options.most)
    values = [line.view.values(exact[line.view.id]) for line in plan.lines]
    case = cases.Case(
        plan.condition, plan.places, plan.reaches, tuple(term.u for term in plan.terms),
        plan.limits, np.asarray(values)[:, list(plan.order)], options.beta, options.alpha, most,
    )  # fmt: skip
    outcome = study.run(options.mode, case, study.generator())
    stage = Stage(plan, 1, (Fraction(0),) * len(plan.lines), ())
    bare = decision(sql, stage, (), None, store, analyst)
    epsilons = tuple(outcome.epsilons.tolist())
    rates = np.array(outcome.f_est or ()) / np.maximum(np.array(outcome.r_est or ()), 1e-300)
    finite_rates = rates[np.isfinite(rates)]
    # a simulation certifies nothing
    false, missed = shares(outcome.chosen, np.zeros(len(plan.groups), np.int8))
    explanation = f"The published method {options.mode!r} says {outcome.status}"
    if outcome.status == "DENIED_PLAN":
        explanation += (
            f": it would spend more than epsilon {amount_text(most)}, so nothing was run."
        )
    else:
        explanation += f", and would spend epsilon {amount_text(outcome.epsilon)} in this run."
    return replace(
        bare, chosen=tuple(outcome.chosen.tolist()), false=false, missed=missed,
        fnr_bound=None if outcome.status == "DENIED_PLAN" else options.beta, fpr_bound=None,
        epsilons=epsilons, min_entropy=min_entropy(epsilons),
        estimate=float(min(finite_rates.max(), 1.0)) if len(finite_rates) else None,
        tests=tuple(_as_run(i, test, outcome) for i, test in enumerate(bare.tests)),
        reason=explanation, status=outcome.status,
    )  # fmt: skip


def _as_run(place: int, test: Test, outcome: Any) -> Test:
    """Return a condition with its newest region in the simulation; share 0 if it was not tested."""
    rows = [row for row in outcome.rows if row.place == place]
    return replace(
        test, u=rows[-1].u if rows else test.u, share=math.fsum(row.share for row in rows)
    )


def _estimate(plan: DecisionPlan, chosen: Bools, findings: Found) -> float | None:
    """Return the expected share of false positives if released values stood for the true ones."""
    if not np.all(np.isfinite(findings.scales)):
        return None
    probabilities = chances(
        plan.condition, plan.places, plan.limits, findings.newest, findings.scales, plan.privacy
    )
    # treats the noises of different conditions as independent
    likely = plan.condition.chance(probabilities)
    if plan.options.protect == "fpr":
        chosen, likely = ~chosen, 1 - likely
    wrong = 1 - likely
    return float(wrong[chosen].sum() / max(wrong.sum(), 1e-300))


def _epsilons(
    plan: DecisionPlan,
    step: int,
    responded: Responded | None,
    flags: Bools,
    delta: float | None,
) -> tuple[float, ...] | None:
    """Return by group the epsilon its rows spent on the decision (predicate-wise privacy)."""
    step_level = plan.level(step)
    total_level = (
        step_level + (plan.response or Fraction(0)) if responded is not None else step_level
    )

    def epsilon(level: Fraction) -> float | None:
        if plan.privacy is PURE or not level:
            return float(level)
        return None if delta is None else epsilon_shown(level, delta, plan.privacy)

    less, most = epsilon(step_level), epsilon(total_level)
    if less is None or most is None:
        return None
    return tuple(most if flag else less for flag in flags.tolist())


def _reading(stage: Stage, place: int, step: int, findings: Found) -> Reading:
    line = stage.plan.lines[place]
    level = stage.targets(step)[place] if step else held_before(stage)[place]
    low, high = findings.low[place], findings.high[place]
    low, high = np.minimum(low, high), np.maximum(low, high)
    noise_law = line.view.distribution(level, stage.plan.privacy) if level else None
    schema, possible = stage.plan.query.schema, possible_of(stage.plan, place)
    return Reading(
        line.aggregate.alias, name_of(line.aggregate, schema), aggregate_text(line.aggregate, schema),
        None if line.about is None else float(line.about),
        tuple(findings.newest[place].tolist()), tuple(low.tolist()), tuple(high.tolist()), str(level),
        noise_law or line.view.distribution(Fraction(1), stage.plan.privacy),
        tuple(possible[:1] if len(set(possible)) == 1 else possible),
    )  # fmt: skip


def tests(plan: DecisionPlan, step: int) -> tuple[Test, ...]:
    """Return the conditions as a step tests them."""
    us = plan.regions(step) if plan.steps else tuple(term.u for term in plan.terms)
    return tuple(
        Test(
            term_text(plan, term), term.line, term.atom.sign, tuple(plan.limits[i].tolist()), u,
            term.rows, term.share * max(plan.steps, 1), _rounding(plan.lines[term.line].view),
        )
        for i, (term, u) in enumerate(zip(plan.terms, us, strict=True))
    )  # fmt: skip


def _rounding(view: View) -> float:
    measure = view.measure
    return float(measure.step) if isinstance(measure, Sum) and measure.rounded else 0.0


def term_text(plan: DecisionPlan, term: Term) -> str:
    """Return a condition as written, also where the decision tests its complement."""
    atom = term.atom if plan.options.protect == "fnr" else term.atom.complement()
    return atom_text(atom, plan.query.schema)


def condition_text(plan: DecisionPlan) -> str:
    """Return the condition as written in SQL, also where the decision tests its complement."""
    original = plan.condition if plan.options.protect == "fnr" else plan.condition.complement()

    def text(tree: Tree, *, inner: bool) -> str:
        if isinstance(tree, Node):
            formula = f" {tree.operator} ".join(text(part, inner=True) for part in tree.parts)
            return f"({formula})" if inner else formula
        return term_text(plan, plan.terms[tree])

    return text(original.tree, inner=False)
