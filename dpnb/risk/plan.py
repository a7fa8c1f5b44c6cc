"""From a plan to a profile: contributions of single rows to its views and to earlier releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from dpnb.answers.answer import Answer
from dpnb.codes import truth
from dpnb.engines.contributions import FINE, Contributions, ContributionScan, Part
from dpnb.engines.scans import engine_failure
from dpnb.errors import RequestError, given, nearest
from dpnb.ledger.store import Store
from dpnb.privacy.calibrate import distribution
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.published import published
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import Plan, plan, shares
from dpnb.risk.context import RiskContext
from dpnb.risk.exact import Exact
from dpnb.risk.indicator import FORMS, Form
from dpnb.risk.profile import RiskProfile
from dpnb.risk.rows import Rows
from dpnb.risk.selection import STEPS
from dpnb.schema.partition import Label, Partition, declared, labels
from dpnb.schema.persons import origin
from dpnb.schema.schema import Schema
from dpnb.schema.table import Table
from dpnb.sql.canonical import read
from dpnb.views.measures import Distinct
from dpnb.views.view import View, view_keys

MOST_LINES = 4_096
"""With more distinct contributions than this, scores are rounded up to multiples of 1/STEPS."""
MOST_GROUPS = 4_096
"""Most groups that ``by`` may make."""
MOST_JOINT_LINES = 1 << 20
"""Replaces MOST_LINES if earlier releases count too; also the most lines of signed losses."""


Mechanism: TypeAlias = Literal["laplace", "gaussian"]
MECHANISMS: tuple[Mechanism, ...] = ("laplace", "gaussian")
"""Mechanisms of the paper's algorithms (``mode='paper'``)."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a profile: columns to group rows by, earlier releases, form of the indicator."""

    by: tuple[Partition, ...]
    earlier: Earlier
    form: Form


def options(context: RiskContext, by: str | Sequence[str], cumulative: bool, form: str) -> Options:
    """Check the options of a profile on the current state of the store, from public facts only."""
    kind = next((choice for choice in FORMS if isinstance(form, str) and choice == form), None)
    if kind is None:
        raise RequestError(f"there is no form {given(form)}", f"Use {', '.join(FORMS)}.")
    truth(cumulative, "cumulative")
    columns = _columns(by, context.table.schema)
    if columns and context.table.unit is not None:
        raise RequestError(
            f"the rows of one {context.table.unit.column} may lie in several groups",
            "Leave by out: each id is taken with all its rows.",
        )
    earlier = (
        _earlier(context.plan, context.table, context.store) if cumulative else Earlier({}, {}, 0.0)
    )
    if kind == "exact" and context.plan.privacy.noise == "laplace" and earlier.constant:
        raise RequestError(
            "the exact form needs each vector's share, which earlier one-off releases hide",
            "Use form='bound'.",
        )
    return Options(columns, earlier, kind)


def profile(context: RiskContext, asked: Options) -> RiskProfile:
    """Measure a profile: one scan, then closed forms (docs/methods/rdr.md, theorem 2)."""
    plan, earlier = context.plan, asked.earlier
    pure = plan.privacy.noise == "laplace"
    weights = {
        view: float(share)
        for view, share in shares(plan.parts, plan.accuracy, plan.privacy).items()
    }
    own_parts = tuple(_part(view, weights[name], plan.privacy) for name, view in plan.views.items())
    other_views = {name: view for name, view in earlier.views.items() if name not in plan.views}
    parts = (*own_parts, *(_part(view, 0.0, plan.privacy) for view in other_views.values()))
    ids = context.table.unit is not None
    exact = ContributionScan(parts, asked.by, squared=not pure, ids=ids)
    scored = ContributionScan(own_parts, asked.by, STEPS, squared=not pure, ids=ids)
    most: int | None = MOST_JOINT_LINES if other_views else MOST_LINES
    if pure and asked.form == "exact" and (len(parts) > 1 or earlier.levels):
        # rounded scores have no exact form, and a refusal would reveal how many lines there are
        most = None
    lines, steps, constant = context.engine.contributions(exact, most), 0, earlier.constant
    if lines is None:
        lines, steps = context.engine.contributions(scored), STEPS
        constant += float(sum(earlier.levels.values()))
    if lines is None:
        raise engine_failure()
    rows = Rows(
        lines,
        [FINE if ids else part.sensitivity for part in parts],
        [part.weight for part in parts],
        [float(earlier.levels.get(name, 0)) for name in (*plan.views, *other_views)],
        constant,
        steps=steps,
        pure=pure,
        form=asked.form,
        ids="" if context.table.unit is None else context.table.unit.column,
    )
    return RiskProfile(
        sql=context.sql,
        plan=plan,
        scan=replace(scored, by=()),
        public=context.table.public,
        by=tuple(key.column for key in asked.by),
        groups=_labels([labels(key.kind) for key in asked.by]),
        form=asked.form,
        delta=context.store.accountant.budget.noise_delta,
        _rows=rows,
        context=context,
    )


def family(name: object) -> Mechanism:
    """Return the mechanism called ``name``."""
    mechanism = next(
        (choice for choice in MECHANISMS if isinstance(name, str) and choice == name), None
    )
    if mechanism is None:
        raise RequestError(f"there is no mechanism {given(name)}", "Use 'laplace' or 'gaussian'.")
    return mechanism


def paper_look(context: RiskContext, mechanism: Mechanism) -> Callable[[], Any]:
    """Return a function that runs RDR's algorithms as printed.

    They are not private (docs/methods/rdr.md, E1, E2).
    """
    query = context.plan.query
    if not context.table.public:
        raise RequestError(
            "the printed algorithms are not private",
            "They run on tables declared public=True; leave mode='paper' out.",
        )
    if context.table.unit is not None:
        raise RequestError(
            "the printed algorithms treat each row as a person",
            "They run on tables without a privacy unit; leave mode='paper' out.",
        )
    rdr = published("rdr")
    version = context.store.version(query.table)
    return lambda: rdr.measure(query, version, context.engine, mechanism)


def _part(view: View, weight: float, privacy: PrivacyDefinition) -> Part:
    sensitivity = view.lattice_sensitivity(privacy) / view.scale
    return Part(view.measure, view.where, view.keys, weight, sensitivity)


def _columns(by: object, schema: Schema) -> tuple[Partition, ...]:
    """Check the columns to group rows by, from public facts only."""
    names = [by] if isinstance(by, str) else by
    if not isinstance(names, (list, tuple)):
        raise RequestError(
            "by must be a column or a list of columns", "Write by='sex', or by=['sex', 'race']."
        )
    columns = tuple(_column(name, schema) for name in names)
    if len(set(columns)) < len(columns):
        raise RequestError("by names a column twice", "Name each column once.")
    if math.prod(key.size for key in columns) > MOST_GROUPS:
        raise RequestError(
            f"by makes more than {MOST_GROUPS:,} groups",
            "Name fewer columns, or declare wider bins.",
        )
    return columns


def _column(name: object, schema: Schema) -> Partition:
    matches = [c for c in schema if isinstance(name, str) and c.casefold() == name.casefold()]
    if not matches:
        raise RequestError(f"there is no column {given(name)}", nearest(str(name), list(schema)))
    key = declared(matches[0], schema)
    if not key.size:
        raise RequestError(f"{name!r} has no declared groups", "Declare bins for it in the schema.")
    return key


def _labels(keys: Sequence[Sequence[Label]]) -> tuple[str, ...]:
    """Return what the groups of several keys together are called, the last key fastest."""
    groups = [""] if keys else []
    for names in keys:
        groups = [
            f"{prefix}, {name}" if prefix else str(name) for prefix in groups for name in names
        ]
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class Earlier:
    """Earlier releases of a table: views to measure again, with their levels, and the rest.

    ``constant`` bounds the loss of every row through the rest: older versions of the table,
    explanations and private choices, which count in full.
    """

    views: Mapping[str, View]
    levels: Mapping[str, Fraction]
    constant: float


def _earlier(current_plan: Plan, table: Table, store: Store) -> Earlier:
    """Return the earlier releases of a table to anybody (docs/methods/rdr.md, theorem 7)."""
    state, version = store.accountant, store.version(table.name)
    views: dict[str, View] = {}
    one_off_levels: dict[str, Fraction] = {}
    closed: set[str] = set()
    for charge in state.charges.values():
        table_name = str(charge.query.get("target", charge.query).get("table"))
        if table.name not in (table_name, origin(table_name)):
            continue
        if not charge.levels:
            one_off_levels[charge.request] = state.releases[charge.request].spent.level(
                state.privacy
            )
        elif charge.version != version or table_name != table.name:
            closed |= charge.levels.keys()
        else:
            for meaning in charge.query.get("union", [charge.query]):
                query = read(meaning, table.schema)
                accuracy = read_accuracy(
                    query, current_plan.privacy, None, **{current_plan.privacy.parameter: 1}
                )
                released = plan(query, accuracy, version, current_plan.privacy).views
                views |= {
                    name: view
                    for name, view in released.items()
                    if not isinstance(view.measure, Distinct)
                }
    # answers from declared views, and numbers of different values, count in full
    closed |= {
        name
        for charge in state.charges.values()
        if charge.levels and charge.query.get("table") == table.name
        for name in charge.levels.keys() - views.keys()
    }
    constant = sum(map(state.finest, closed), sum(one_off_levels.values(), Fraction(0)))
    levels = {name: level for name in views if (level := state.finest(name)) > 0}
    return Earlier({name: views[name] for name in levels}, levels, float(constant))


def signed_losses(shown: RiskProfile, context: RiskContext, answer: Answer) -> Exact:
    """Return an answer's signed loss for each distinct row (docs/methods/rdr.md, theorem 3).

    With v the row's contribution to its group and z the noise there, the loss is
    (2 z v + v^2) / (2 sigma^2) for Gaussian noise, (|z + v| - |z|) / b for Laplace noise; summed
    over the views.
    """
    views, keys = shown.plan.views, view_keys(shown.plan.query)
    if any(view.keys != keys for view in views.values()):
        raise RequestError(
            "losses of single rows are not supported for quantiles",
            "Leave quantiles out of the statement.",
        )
    if context.table.unit is not None:
        raise RequestError(
            "losses are not supported for single ids",
            "Look at the indicators, which bound it: rdr() and losses().",
        )
    if answer.ledger != context.store.name or set(answer.levels) != set(views):
        raise RequestError(
            "the answer belongs to another statement",
            "Pass the answer to the profile's own statement.",
        )
    scan = ContributionScan(tuple(_part(view, 0.0, shown.privacy) for view in views.values()), keys)
    lines = context.engine.contributions(scan, MOST_JOINT_LINES)
    if lines is None:
        raise RequestError(
            "too many different contributions to show one by one", "Look at the histogram instead."
        )
    losses = np.zeros(len(lines.counts))
    with context.runner.lock:
        versions = {
            name: context.store.accountant.version(name, Fraction(answer.levels[name]))
            for name in views
        }
    for i, (name, view) in enumerate(views.items()):
        level = versions[name].level
        noise = distribution(level, float(view.measure.sensitivity), shown.privacy)
        released = versions[name].vector
        losses += _signed(lines, i, np.array(released) / view.scale, noise.scale, shown.privacy)
    order = np.argsort(-losses, kind="stable")
    names = {key.partition: key.names for key in shown.plan.query.keys}
    groups = _labels([names[key] for key in keys])
    line_labels = [
        "none" if keys and cell < 0 else (groups[cell] if keys else "all")
        for cell in lines.cells[order]
    ]
    columns = [
        (", ".join(key.column for key in keys) or "table", line_labels),
        *(
            (column, lines.numbers[order, i] * step)
            for i, (column, step) in enumerate(shown.columns())
        ),
        ("rows", lines.counts[order]),
        ("loss", losses[order]),
    ]
    return Exact("signed losses by a released answer", columns, public=shown.public)


def _signed(
    lines: Contributions, i: int, released: np.ndarray, scale: float, privacy: PrivacyDefinition
) -> np.ndarray:
    """Return each line's signed loss through one view; a line outside all groups adds nothing."""
    contributions = lines.numbers[:, i].astype(np.float64)
    cells = np.maximum(lines.cells, 0)
    exact = np.bincount(cells, weights=contributions * lines.counts, minlength=len(released))
    noise = (released - exact)[cells]
    match privacy.noise:
        case "laplace":
            return np.asarray((np.abs(noise + contributions) - np.abs(noise)) / scale)
        case "gaussian":
            return np.asarray((2 * noise * contributions + contributions**2) / (2 * scale**2))
