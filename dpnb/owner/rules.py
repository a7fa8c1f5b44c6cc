"""The owner's decisions that are in force, in words and with dates. For the owner alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dpnb.ledger.accounts import Grant, ProvenanceTable
from dpnb.ledger.columns import Named
from dpnb.ledger.policy import Policy
from dpnb.ledger.store import Version
from dpnb.privacy.loss import PrivacyLoss, amount_text


@dataclass(frozen=True, slots=True)
class Rule:
    """One decision of the owner that is in force, or a grant, current or not.

    Attributes
    ----------
    time : str
        The time of the decision, in UTC.
    kind : {'policy', 'privilege', 'limit', 'grant', 'claim'}
    amount : PrivacyLoss or None
        The amount of a limit or grant.
    text : str
        One sentence; for a limit of columns also what depends on them all the same.
    """

    time: str
    kind: Literal["policy", "privilege", "limit", "grant", "claim"]
    amount: PrivacyLoss | None
    text: str


def rules(table: ProvenanceTable, versions: Mapping[str, Version], now: str) -> tuple[Rule, ...]:
    """Return the decisions of a ledger's owner, oldest first; ``versions`` are the tables'."""
    decisions = [*_limits(table, versions), *_grants(table, now), *_claims(table)]
    if table.policy is not None:
        decisions = [*_policy(table, table.policy), *_privileges(table), *decisions]
    return tuple(sorted(decisions, key=lambda rule: rule.time))


def _policy(table: ProvenanceTable, policy: Policy) -> Iterator[Rule]:
    sentences = {
        "opened": f"Limits are in proportion to privileges: privilege {policy.top} gives the whole budget."
    }
    if policy.rows == "sum":
        sentences["opened"] = (
            "Limits are in proportion to privileges, as shares that add up to the total budget."
        )
    if policy.expansion != 1 or ("policy", "expansion") in table.since:
        sentences["expansion"] = (
            f"Limits are {amount_text(policy.expansion)} times as large as the privileges say, at "
            "most the total budget."
        )
    if table.static:
        division = (
            "equal shares" if policy.views == "equal" else "shares in proportion to sensitivities"
        )
        sentences["views"] = (
            f"Each declared view has its own limit: {division} of the total budget."
        )
    if policy.reserve:
        sentences["reserve"] = (
            f"{amount_text(policy.reserve * 100)} % of the limit of each analyst who is not disabled are "
            "reserved."
        )
    if policy.most_colluders is not None:
        sentences["most_colluders"] = (
            f"A coalition may have at most {policy.most_colluders} analysts."
        )
    opened = table.since["policy", "opened"]
    for name, text in sentences.items():
        yield Rule(table.since.get(("policy", name), opened), "policy", None, text)
    together = table.together_limit()
    if together is not None:
        text = f"At most {_amount(table, together)} may be released to a coalition or a single analyst."
        yield Rule(opened, "policy", together, text)
    for analyst, other in policy.collusion:
        time = table.since.get(("link", analyst, other), opened)
        yield Rule(time, "policy", None, f"{analyst} and {other} may share their answers.")


def _privileges(table: ProvenanceTable) -> Iterator[Rule]:
    for name, analyst in table.analysts.items():
        time = table.since.get(("privilege", name))
        if time is not None:
            text = (
                f"{name} has privilege {analyst.privileges[0]}; at first it was "
                f"{table.registered[name][0]}."
            )
            yield Rule(time, "privilege", None, text)


def _limits(table: ProvenanceTable, versions: Mapping[str, Version]) -> Iterator[Rule]:
    time = table.since.get(("limit", "table"))
    if time is not None:
        cap = table.state.cap
        yield Rule(time, "limit", cap, f"The total budget is {_amount(table, cap)}.")
    for (scope, name), limit in table.limits.items():
        subject = f"The limit of {name}" if scope == "row" else f"The limit of the view {name}"
        text = f"{subject} was set to {_amount(table, limit)}."
        yield Rule(table.since["limit", scope, name], "limit", limit, text)
    for (analyst, columns), limit in table.columns.items():
        receiver = "all analysts together" if analyst is None else analyst
        column_names = ", ".join(sorted(f"{table_name}.{column}" for table_name, column in columns))
        text = f"At most {_amount(table, limit)} of {column_names} may be released to {receiver}."
        text = " ".join([text, *_left_open(columns, versions)])
        yield Rule(table.since["limit", analyst, columns], "limit", limit, text)


def _left_open(columns: Collection[Named], versions: Mapping[str, Version]) -> Iterator[str]:
    """Say what a limit of columns does not cover: which rows count may depend on them all the same."""
    for name in sorted({owner for owner, _ in columns} & versions.keys()):
        definition, last = versions[name].definition, versions[name].rule(name)["last"]
        limited = {column for owner, column in columns if owner == name}
        needed = limited & {*definition["complete"], definition.get("key")}
        if needed:
            yield (
                f"Rows without a value in {_listed(needed)} are left out of {name}, so every number "
                "depends on that."
            )
        if definition["unit"] is None:
            continue
        early = limited - set(last)
        if early:
            yield (
                f"Which rows of one {definition['unit']['column']} are kept depends on {_listed(early)} until "
                f"{name} is opened with new_version=True."
            )
        others = set(last) - limited
        if others and not early:
            yield (
                f"Numbers that use {_listed(others, 'or')}, which has a limit of its own, may depend on "
                f"{_listed(limited)} by which rows are kept."
            )


def _listed(names: Collection[str], word: str = "and") -> str:
    *first, end = sorted(names)
    return f"{', '.join(first)} {word} {end}" if first else end


def _grants(table: ProvenanceTable, now: str) -> Iterator[Rule]:
    for grant in table.grants:
        amount = PrivacyLoss.of(grant.level, table.privacy)
        until = "" if grant.until is None else f" until {_minute(grant.until)}"
        usage = _amount(table, PrivacyLoss.of(grant.used, table.privacy)) if grant.used else "none"
        text = (
            f"{grant.giver} grants {grant.receiver} {_amount(table, amount)}{until}. Used so far: "
            f"{usage}{_ended(grant, now)}."
        )
        yield Rule(grant.time, "grant", amount, text)


def _ended(grant: Grant, now: str) -> str:
    if grant.withdrawn is not None:
        return f"; withdrawn {_minute(grant.withdrawn)}"
    return "; it has ended" if grant.until is not None and now >= grant.until else ""


def _claims(table: ProvenanceTable) -> Iterator[Rule]:
    for name, claim in table.claims.items():
        sql, operator, value = " ".join(claim["sql"].split()), claim["operator"], claim["value"]
        suffix = "" if name == f"{sql} {operator} {value:g}" else f" ({name})"
        text = (
            f"Answers are withheld if they would make it more than {100 * claim['probability']:g} % likely "
            f"that {sql} is {'above' if operator == '>' else 'below'} {value:g}{suffix}."
        )
        yield Rule(str(claim["time"]), "claim", None, text)


def _amount(table: ProvenanceTable, loss: PrivacyLoss) -> str:
    """Return an amount, with its epsilon if there is a delta."""
    text = f"{table.privacy.parameter} {amount_text(loss.level(table.privacy))}"
    delta = table.budget.noise_delta
    if not table.privacy.counts_rho or delta is None or not loss.rho:
        return text
    return f"{text} (epsilon {amount_text(loss.epsilon_at(delta, table.privacy))})"


def _minute(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC"
