"""Carries out a decision, one transaction per step, until it is certified or has to stop."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from dpnb.answers.assembly import status
from dpnb.decide.assembly import (
    condition_text,
    decision,
    studied,
    tests,
)
from dpnb.decide.certificate import shares, wrong_share
from dpnb.decide.decision import Decision, Taken
from dpnb.decide.findings import (
    Found,
    found_at,
    is_enough,
    is_hopeless,
    three_way,
)
from dpnb.decide.naming import aggregate_text
from dpnb.decide.options import STUDY_MODES
from dpnb.decide.plan import DecisionPlan, size_of
from dpnb.decide.price import DecisionPrice
from dpnb.decide.progressive import growth
from dpnb.decide.responses import Responded, ResponseRequest
from dpnb.decide.stage import Stage, stage, step_name
from dpnb.decide.steps import StepRequest, measured
from dpnb.engines.scans import Engine, Vectors
from dpnb.errors import (
    BudgetError,
    DpnbError,
    InterruptedRequestError,
)
from dpnb.formats import loss_text, percent, rounded_up
from dpnb.ledger.accountant import Charge
from dpnb.ledger.store import Store
from dpnb.privacy.definition import GDP
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.releases.request import P, R, Request
from dpnb.releases.runner import Runner
from dpnb.results import rebilled


def _either(ways: Sequence[str]) -> str:
    """Return alternatives that would each work, and that nothing was charged."""
    advice = ", or ".join(ways)
    return (
        f"{advice[:1].upper()}{advice[1:]}. Nothing was charged."
        if ways
        else "Nothing was charged."
    )


@dataclass(frozen=True, slots=True, eq=False)
class Decider:
    """One analyst's decision; its requests share the client's identifier, if there is one."""

    analyst: str
    sql: str
    plan: DecisionPlan
    runner: Runner
    key: Hashable | None = None
    cancel: threading.Event | None = None
    identifier: str | None = None

    @property
    def store(self) -> Store:
        """The store that the decision is charged to."""
        return self.runner.store

    def _run(self, request: Request[P, R], name: str) -> R:
        """Carry out one request of the decision; ``name`` distinguishes it from the others."""
        request_id = None if self.identifier is None else f"{self.identifier} {name}"
        return self.runner.run(request, self.cancel, request_id)

    @property
    def studies(self) -> bool:
        """Whether the mode is a published method, which simulates on public data."""
        return self.plan.options.mode in STUDY_MODES

    def look(self, engine: Engine) -> Vectors:
        """Return the exact vectors of all lines: one scan."""
        return measured(self.plan, None, engine)

    def studied(self, exact: Mapping[str, Sequence[int]]) -> Decision:
        """Return the result of a published method in a simulation; nothing is charged."""
        with self.runner.lock:
            return studied(self.sql, self.plan, exact, self.store, self.analyst)

    def decide(self) -> Decision:
        """Take steps until the goal is certified, cannot be reached, or cannot be paid.

        The result shows whatever was paid for. Only a decision that is refused or interrupted
        before its first step raises.

        Raises
        ------
        BudgetError, RequestError, EngineError, InterruptedRequestError
            Nothing was charged.
        """
        if not self.plan.steps:
            with self.runner.lock:
                is_paid = not self._to_pay()[1]
            try:
                if not is_paid:
                    self._check_most(self.plan.worst)
                return self._responded()
            except BudgetError as error:
                raise self._dearer_response(error) from None
        try:
            self._check_step(1)
            latest = self._run(self._step(1), "step 1")
        except BudgetError as error:
            raise self._dearer(error) from None
        if self.plan.options.mode == "hybrid":
            return self._hybrid(latest)
        # without a step, past answers already certify the decision
        reason = self._done(latest) if latest.taken else ""
        while reason is None:
            step = len(latest.taken) + 1
            try:
                self._check_step(step)
                if self.cancel is not None and self.cancel.is_set():
                    raise InterruptedRequestError("interrupted", "Nothing was charged.")
                next_decision = self._run(self._step(step), f"step {step}")
            except DpnbError as error:
                reason = self._stopped(error)
                break
            latest = rebilled(
                next_decision,
                spent=latest.spent + next_decision.spent,
                stored=latest.stored and next_decision.stored,
            )
            reason = self._done(latest)
        return self._named(latest, reason)

    def price(self) -> DecisionPrice:
        """Return the plan and its current price; spends nothing."""
        plan, privacy = self.plan, self.plan.privacy
        with self.runner.reading():
            first, most, free = self._to_pay()
            done = free or self.studies or self._settled()
            refusal = "" if done else self._refusal()
            budget = status(self.store, self.analyst)
        options = plan.options
        return DecisionPrice(
            sql=self.sql.strip(),
            condition=condition_text(plan),
            mode=options.mode,
            protect=options.protect,
            beta=options.beta,
            alpha=options.alpha,
            confidence=options.confidence,
            groups=len(plan.groups),
            tests=tests(plan, 1),
            implicants=tuple(tuple(sorted(implicant)) for implicant in plan.condition.implicants),
            readings=tuple(
                (line.aggregate.alias, aggregate_text(line.aggregate, plan.query.schema))
                for line in plan.lines
            ),
            costs=tuple(
                PrivacyLoss.of(plan.level(number), privacy)
                for number in range(1, 1 if self.studies else plan.steps + 1)
            ),
            bill=budget.charged(PrivacyLoss.of(most, privacy) if most else PrivacyLoss.none()),
            first=first,
            response=None if plan.response is None else PrivacyLoss.of(plan.response, privacy),
            ceiling=PrivacyLoss.of(plan.ceiling, privacy),
            free=free,
            affordable=not refusal,
            refusal=refusal,
            warnings=plan.warnings,
        )

    def _settled(self) -> bool:
        """Return whether no further part is needed, after what was paid for."""
        taken, options = self._taken(), self.plan.options
        if not self.plan.steps or not taken:
            return False
        if options.mode == "hybrid":
            return not self._in_doubt()
        current_stage = stage(self.plan, len(taken), self.analyst, self.store)
        return self._done(self._built(current_stage, len(taken))) is not None

    def _refusal(self) -> str:
        """Return why the next part would be refused now; '' if it would be answered."""
        request: Request[Any, Any]
        steps = len(self._taken())
        try:
            if not self.plan.steps or (steps and self.plan.options.mode == "hybrid"):
                positions = self._in_doubt() if self.plan.steps else None
                request = self._response(positions)
                if self._response_to_pay(positions)[1]:
                    self._check_most(self.plan.worst)
            else:
                request = self._step(steps + 1)
                self._check_step(steps + 1)
        except BudgetError as error:
            return error.what
        return self.runner.refusal(request, self.runner.ready(request))

    def _to_pay(self) -> tuple[PrivacyLoss, Fraction, bool]:
        """Return the next part's cost, the most all may cost, and whether past answers suffice."""
        plan, none = self.plan, PrivacyLoss.none()
        charges = self._taken()
        if self.studies:
            return none, Fraction(0), False
        if not plan.steps:
            return self._response_to_pay(None)
        if charges and plan.options.mode == "hybrid":
            return self._response_to_pay(self._in_doubt())
        if charges:
            latest = self._built(stage(plan, len(charges), self.analyst, self.store), len(charges))
            if self._done(latest) is not None:
                return none, Fraction(0), False
        elif self._from_past() is not None:
            return none, Fraction(0), True
        last = plan.options.steps or plan.steps
        before = plan.level(len(charges))
        most = plan.level(last) - before + (plan.response or Fraction(0))
        if plan.options.most is not None:
            most = min(most, max(plan.options.most - before, Fraction(0)))
        return self._next_cost(len(charges)), most, False

    def _response_to_pay(
        self, positions: Sequence[int] | None
    ) -> tuple[PrivacyLoss, Fraction, bool]:
        request = self._response(positions)
        ready = self.runner.ready(request)
        if ready.stored is not None or not request.asked:
            return PrivacyLoss.none(), Fraction(0), False
        return ready.cost.row, ready.plan.level, False

    def _in_doubt(self) -> list[int]:
        """Return the groups that one pass leaves in doubt."""
        current_stage = stage(self.plan, 1, self.analyst, self.store)
        verdicts = three_way(current_stage, self._found(current_stage, 1))
        return [place for place, verdict in enumerate(verdicts.tolist()) if verdict == 0]

    # steps

    def _step(self, step: int) -> StepRequest:
        def show(current_stage: Stage, charge: Charge, fresh: bool) -> Decision:
            built = self._built(current_stage, current_stage.step)
            return rebilled(
                built, spent=charge.row if fresh else PrivacyLoss.none(), stored=not fresh
            )

        return StepRequest(
            self.analyst, self.sql, self.plan, step, self.plan.options.conditional, self.store,
            show, self._past, self.key and (self.key, step),
        )  # fmt: skip

    def _taken(self) -> list[Charge]:
        charges = self.store.accountant.charges
        step_charges = []
        for step in range(1, self.plan.steps + 1):
            charge = charges.get((self.analyst, step_name(self.plan, step)))
            if charge is None:
                break
            step_charges.append(charge)
        return step_charges

    def _built(self, current_stage: Stage, step: int) -> Decision:
        """Return the decision after its first ``step`` stored steps."""
        records = []
        for number, charge in enumerate(self._taken()[:step], start=1):
            findings = self._found(current_stage, number)
            chosen, verdict = self.plan.condition.value(findings.kept), findings.verdict
            if self.plan.options.protect == "fpr":
                chosen, verdict = ~chosen, -verdict
            false, missed = shares(chosen, verdict)
            wrong, unknown = wrong_share(chosen, verdict), int((verdict == 0).sum())
            records.append((Taken(number, charge.row, false, missed, wrong, unknown), charge))
        built = decision(
            self.sql,
            current_stage,
            records,
            self._found(current_stage, step),
            self.store,
            self.analyst,
        )
        further = None
        if self.plan.options.mode == "certified" and step < self.plan.steps:
            further = self._next_cost(step)
        return replace(built, next_cost=further)

    def _found(self, current_stage: Stage, step: int) -> Found:
        """Return the findings after a step; those of a charged step never change."""
        make = partial(found_at, current_stage, step, self.store.accountant)
        if not step or self.key is None:
            return make()
        charge = self.store.accountant.charges[self.analyst, step_name(self.plan, step)]
        key = "found", self.analyst, self.key, step
        return self.runner.memo.at(key, charge.sequence, make, lambda _: size_of(self.plan))

    def _next_cost(self, step: int) -> PrivacyLoss:
        return self.runner.ready(self._step(step + 1)).cost.row

    def _from_past(self) -> Decision | None:
        return self._past(stage(self.plan, 1, self.analyst, self.store))

    def _past(self, current_stage: Stage) -> Decision | None:
        """Return the decision from earlier answers alone, if they reach its goal."""
        options = self.plan.options
        eligible = options.mode == "certified" and options.steps is None and current_stage.step == 1
        if not eligible or not current_stage.seen:
            return None
        findings = self._found(current_stage, 0)
        if shares(findings.verdict >= 0, findings.verdict)[0] > options.goal:
            return None
        built = decision(self.sql, current_stage, (), findings, self.store, self.analyst)
        return replace(
            rebilled(built, stored=True),
            next_cost=self.store.accountant.cost(
                self.analyst, current_stage.level_targets(), current_stage.definitions()
            ).row,
        )  # fmt: skip

    # when to stop

    def _done(self, latest: Decision) -> str | None:
        """Return why no further step is taken, or None to take one."""
        options, step = self.plan.options, len(latest.taken)
        if options.mode != "certified":
            return ""
        if options.steps is not None:
            return "" if step >= options.steps else None
        with self.runner.lock:
            current_stage = stage(self.plan, step, self.analyst, self.store)
            findings = self._found(current_stage, step)
        if is_enough(self.plan, findings):
            return ""
        if step >= self.plan.steps:
            return (
                "All steps were taken, but too many groups are too close to the thresholds. Decide with a "
                "smaller u, or allow more errors."
            )
        if is_hopeless(current_stage, findings):
            return (
                "More steps are not expected to certify it, so none was taken: too many groups are too "
                "close to the thresholds for this u."
            )
        return None

    def _named(self, latest: Decision, reason: str) -> Decision:
        """Return the decision with its status and reason."""
        options = self.plan.options
        if options.mode != "certified":
            return latest
        listed = latest.wrong_at_most / max(sum(latest.chosen), 1) <= options.alpha
        fnr = options.protect == "fnr"
        if listed and (fnr or latest.missed <= options.beta):
            return replace(latest, status="certified", reason=reason)
        if not reason and options.steps is not None:
            reason = "It stopped after the number of steps that you gave."
        if not reason:
            which = (
                "do not satisfy the condition are selected" if fnr else "satisfy it are left out"
            )
            reason = (
                f"No further step was taken, because at most {percent(options.goal)} of the groups that "
                f"{which}. A larger share of the list may be wrong."
            )
        return replace(latest, status="not certified", reason=reason)

    def _stopped(self, error: DpnbError) -> str:
        """Return why a further part was not answered, and what would help."""
        if isinstance(error, InterruptedRequestError):
            return "Interrupted. What was paid for is shown."
        # a budget hint names another rho, but the levels of a decision are fixed
        hint = "" if isinstance(error, BudgetError) else error.hint
        hint = hint.replace("Nothing was charged.", "").strip()
        return f"Stopped: {error.what}. {hint} What was paid for is shown.".replace("  ", " ")

    def _check_step(self, step: int) -> None:
        """Refuse a step that is not paid for yet and would exceed ``most``.

        A decision that follows from past answers needs no step.
        """
        if self.plan.options.most is None:
            return
        with self.runner.reading() as store:
            is_paid = (self.analyst, step_name(self.plan, step)) in store.accountant.charges
            if not is_paid and (step > 1 or self._from_past() is None):
                self._check_most(self.plan.level(step))

    def _check_most(self, after: Fraction) -> None:
        """Refuse to continue if the decision would then have cost more than ``most``."""
        most = self.plan.options.most
        if most is not None and after > most:
            name = self.plan.privacy.parameter
            raise BudgetError(
                f"this would bring the total to {name} {amount_text(after)}, above the {amount_text(most, left=True)} "
                "that you allowed (most)",
                "Nothing was charged.",
            )

    def _dearer(self, error: BudgetError) -> BudgetError:
        """Return the refusal of a first step with what would pass; uses public facts only."""
        plan, privacy = self.plan, self.plan.privacy
        left = self._left()
        cost, ceiling = plan.level(1), plan.ceiling
        ways = []
        if 0 < left < cost:
            u = self._passing(float(cost / left) ** (1 / (growth(privacy) // 2)))
            entries = ", ".join(f"{alias!r}: {number:g}" for alias, number in u.items())
            option = ",".join(f"{alias}={number:g}" for alias, number in u.items())
            ways.append(
                f"give u={{{entries}}} (--u {option}), with which the first step would pass"
            )
        if plan.options.most is not None:
            ways.append("raise most (--most)")
        if ceiling <= left and privacy is not GDP:
            price = loss_text(PrivacyLoss.of(ceiling, privacy), privacy, None)
            ways.append(f"use mode='rr' (--mode rr), randomised response, for {price}")
        return BudgetError(error.what, _either(ways))

    def _dearer_response(self, error: BudgetError) -> BudgetError:
        """Return the refusal of randomised response with alternatives that would pass."""
        ways = ["accept larger errors (beta, alpha)"] if self._left() else []
        if self.plan.options.most is not None:
            ways.append("raise most (--most)")
        return BudgetError(error.what, _either(ways))

    def _left(self) -> Fraction:
        """Return how much the decision may still spend."""
        left = status(self.store, self.analyst).remaining.level(self.plan.privacy)
        most = self.plan.options.most
        return left if most is None else min(left, most)

    def _passing(self, factor: float) -> dict[str, float]:
        """Return ``factor`` times the uncertain regions, rounded up, for the option ``u``."""
        regions: dict[str, float] = {}
        for term in self.plan.terms:
            alias, u = term.atom.aggregate.alias, term.u / term.rows
            regions[alias] = max(u, regions.get(alias, u))
        # one per cent more, because new regions give slightly different shares of the bound
        return {alias: rounded_up(1.01 * factor * u, 3) for alias, u in regions.items()}

    # randomised response

    def _response(self, positions: Sequence[int] | None) -> ResponseRequest:
        chosen = range(len(self.plan.groups)) if positions is None else positions
        return ResponseRequest(
            self.analyst, self.sql, self.plan, tuple(chosen), self.plan.options.conditional,
            self.store, self.key and (self.key, tuple(chosen)),
        )  # fmt: skip

    def _responded(self) -> Decision:
        request = self._response(None)
        responses: Responded = self._run(request, "response")
        with self.runner.lock:
            current_stage = Stage(self.plan, 1, (Fraction(0),) * len(self.plan.lines), ())
            latest = decision(
                self.sql,
                current_stage,
                (),
                None,
                self.store,
                self.analyst,
                responses,
                request.asked,
            )
        spent = responses.charge.row if responses.fresh else PrivacyLoss.none()
        return rebilled(latest, spent=spent, stored=not responses.fresh)

    def _hybrid(self, latest: Decision) -> Decision:
        """Answer the groups that one pass leaves in doubt by randomised response."""
        with self.runner.lock:
            current_stage, positions = (
                stage(self.plan, 1, self.analyst, self.store),
                self._in_doubt(),
            )
        if not positions:
            return replace(latest, fpr_bound=self.plan.options.alpha)
        try:
            if self._response_to_pay(positions)[1]:
                self._check_most(self.plan.worst)
            responses: Responded = self._run(self._response(positions), "response")
        except DpnbError as error:
            return replace(
                latest, status="partial", reason=self._stopped(error), fpr_bound=None,
                fnr_bound=self.plan.options.beta / 2,
            )  # fmt: skip
        with self.runner.lock:
            charge = self._taken()[0]
            full_decision = decision(
                self.sql, current_stage, [(latest.taken[0], charge)], self._found(current_stage, 1), self.store, self.analyst, responses, positions,
            )  # fmt: skip
        more = responses.charge.row if responses.fresh else PrivacyLoss.none()
        return rebilled(
            full_decision, spent=latest.spent + more, stored=latest.stored and not responses.fresh
        )
