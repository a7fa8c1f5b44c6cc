"""Answers and questions rebuilt from an analyst's releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpnb.answers.answer import Answer
from dpnb.answers.assembly import answer
from dpnb.answers.compare import compare
from dpnb.answers.comparison import Comparison, exact
from dpnb.answers.query import AnswerRequest
from dpnb.answers.question import Question, Reference, sentence_of
from dpnb.answers.reuse import OnlineRequest
from dpnb.errors import RequestError
from dpnb.ledger.accountant import Accountant, Charge
from dpnb.ledger.store import Store
from dpnb.releases.accuracy import Accuracy
from dpnb.releases.catalogue import Choice
from dpnb.releases.plan import Plan, at_levels
from dpnb.releases.runner import Runner
from dpnb.schema.persons import origin
from dpnb.schema.table import Table
from dpnb.sql.canonical import read
from dpnb.views.measures import Units
from dpnb.views.view import View


def charge_of(store: Store, tables: Mapping[str, Table], row: str, reference: Reference) -> Charge:
    """Return the charge of the answer that an analyst's question is about.

    Raises
    ------
    RequestError
        In the same words if the answer never existed, is another analyst's, is of an older version
        of the table, or was free.
    """
    charge = store.accountant.charges.get((row, reference.request))
    if charge is not None and "union" in charge.query:
        raise RequestError(
            "this question is about an answer to several statements, by UNION ALL or GROUPING SETS",
            "Ask the SELECT that has these groups alone, and compare them there.",
        )
    if (
        reference.ledger != store.name
        or charge is None
        or not charge.levels
        or "decision" in charge.query
        or origin(charge.query["table"]) not in tables
        or charge.version != store.version(charge.query["table"])
    ):
        raise RequestError(
            "this question is not about an answer that you have here: it comes from another session, an older "
            "version of the table, or past answers alone",
            "Ask the query here first. If it was free, ask with history=False (--no-history).",
        )
    return charge


def recalled(runner: Runner, row: str, reference: Reference) -> Question:
    """Rebuild a question from its reference and the ledger, whatever others claim about it.

    Raises
    ------
    RequestError
        If :func:`charge_of` refuses, or the answer does not have the groups or the aggregate.
    """
    with runner.reading() as store:
        past_answer = _answer(runner, row, charge_of(store, runner.tables, row, reference))
    if not 0 <= reference.index < len(past_answer.estimates):
        raise RequestError(
            "this question names no aggregate of its query", "Compare the groups again."
        )
    terms = zip(reference.groups, reference.weights, strict=True)
    comparison = Comparison(
        tuple((group, exact(weight, "weight")) for group, weight in terms),
        exact(reference.constant, "constant"), past_answer.estimates[reference.index].alias,
    )  # fmt: skip
    draft = compare(
        past_answer,
        comparison,
        None,
        None,
        constant=0,
        planned=reference.planned,
        mode=reference.mode,
    )
    question = replace(draft, aggregate=reference.aggregate)
    return replace(question, sentence=sentence_of(question))


def _answer(runner: Runner, row: str, charge: Charge) -> Answer:
    """Return the answer of a charge, with made-up aliases."""
    store, table = runner.store, str(charge.query["table"])
    query = read(charge.query, runner.tables[table].schema)
    accuracy = replace(Accuracy.from_dict(charge.accuracy), error=None)
    choice = Choice(
        runner.declared, runner.declared.of(table, store), store.accountant, row, charge.declared,
        store.provenance.static,
    )  # fmt: skip
    plan = at_levels(
        query, accuracy, charge.version, store.accountant.privacy, charge.request,
        charge.levels, choice,
    )  # fmt: skip
    plan = _as_released(plan, store.accountant)
    if charge.way is None:
        return answer(charge.sql, plan, charge, store, fresh=False)
    answer_request = AnswerRequest(row, charge.sql, query, {}, runner)
    return OnlineRequest(answer_request).recalled(plan, charge)


def _as_released(plan: Plan, state: Accountant) -> Plan:
    """Return the plan with the views that were released: ids may have counted more or less often."""

    def released(view: View) -> View:
        if not isinstance(view.measure, Units) or view.id in plan.levels:
            return view
        wanted = {**view.definition(), "measure": None}
        for definition in map(state.definition, plan.levels):
            kind, _, *counted = definition["measure"]
            if kind == "units" and {**definition, "measure": None} == wanted:
                return replace(view, measure=Units(*counted))
        return view

    parts = tuple(
        part if part.count is None else replace(part, count=released(part.count))
        for part in plan.parts
    )
    views = {view.id: view for part in parts for view in part.views()}
    return replace(plan, parts=parts, views=views)
