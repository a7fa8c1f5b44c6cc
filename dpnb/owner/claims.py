"""Claims that an owner protects: answers that would nearly settle one are withheld.

Xiao and Xiong, section 5 (docs/methods/bayes.md, definition 19). This is a policy tool, not a
guarantee of privacy. Refusals depend only on what the analyst has already received, so they reveal
nothing new, and the first answer that bears on a claim is never withheld.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.errors import RequestError, given
from dpnb.ledger.store import Store
from dpnb.releases.held import Held, ReleaseCache, planned
from dpnb.schema.persons import is_persons, origin
from dpnb.schema.schema import Schema
from dpnb.sql.canonical import describe, read
from dpnb.sql.query import Query
from dpnb.sql.shown import PLAIN
from dpnb.views.view import View

OPERATORS = (">", "<")


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that one count, sum or mean lies above or below a number.

    Attributes
    ----------
    name, sql : str
    query : Query
    operator : {'>', '<'}
    value : float
        In units of the aggregate.
    probability : float
        Answers that would make the claim more probable than this are withheld.
    """

    name: str
    sql: str
    query: Query
    operator: str
    value: float
    probability: float

    def entry(self) -> dict[str, Any]:
        """Return the ledger's entry."""
        return {
            "kind": "claim", "name": self.name, "sql": self.sql, "query": describe(self.query),
            "operator": self.operator, "value": self.value, "probability": self.probability,
        }  # fmt: skip

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any], schema: Schema) -> Claim:
        """Build a claim about a table from :meth:`entry`."""
        return cls(
            str(entry["name"]), str(entry["sql"]), read(entry["query"], schema), str(entry["operator"]),
            float(entry["value"]), float(entry["probability"]),
        )  # fmt: skip


def read_claim(
    sql: str, query: Query, operator: object, value: object, probability: object, name: object
) -> Claim:
    """Check a claim.

    Raises
    ------
    RequestError
        For a statement with GROUP BY or without exactly one aggregate, for another operator, and
        for unusable numbers.
    """
    if query.keys or query.derived or len(query.aggregates) != 1 or query.shown != PLAIN:
        raise RequestError(
            "a claim needs exactly one COUNT, SUM or AVG, and no GROUP BY",
            "Name the group in WHERE, and protect each group on its own.",
        )
    if is_persons(query.table):
        raise RequestError(
            "a claim cannot be about one row for each id",
            "Protect a claim about the rows of the table, without GROUP BY the id.",
        )
    if not isinstance(operator, str) or operator not in OPERATORS:
        raise RequestError(
            f"a claim compares with '>' or '<', not {given(operator)}", "Use '>' or '<'."
        )
    numbers = [value, probability]
    if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
        raise RequestError("value and probability must be numbers", "Write probability=0.9.")
    if not -(10**30) < value < 10**30:  # type: ignore[operator]
        raise RequestError(
            f"the value of the claim is out of range: {given(value)}", "Give a finite number."
        )
    if not 0 < probability < 1:  # type: ignore[operator]
        raise RequestError(
            f"probability must be between 0.5 and 1, got {given(probability)}",
            "Write probability=0.9.",
        )
    limit, chance = float(value), float(probability)  # type: ignore[arg-type]
    if not 0.5 < chance < 1:
        raise RequestError(
            f"probability must be between 0.5 and 1, got {chance:g}", "Write probability=0.9."
        )
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= 100):
        raise RequestError(
            "the name of a claim must be a text of at most 100 characters",
            "Leave it out, or shorten it.",
        )
    claim_name = name or f"{' '.join(sql.split())} {operator} {limit:g}"
    return Claim(str(claim_name), sql.strip(), query, operator, limit, chance)


def check_room(claim: Claim) -> None:
    """Refuse a claim on too many bins for its probability to be computed.

    Raises
    ------
    RequestError
    """
    from dpnb.answers.evidence import Evidence
    from dpnb.answers.infer import parts_of

    (part,) = parts_of(claim.query, 1)
    Evidence((), part.views)


def guard(
    store: Store,
    cache: ReleaseCache,
    analyst: str,
    views: Mapping[str, View],
    levels: Mapping[str, Fraction],
) -> None:
    """Refuse an analyst's views at levels that would nearly settle one of the owner's claims.

    Raises
    ------
    RequestError
    """
    schemas = {view.table: view.schema for view in views.values()}
    for table, schema in schemas.items():
        known = cache.known(store, [analyst], table)
        privacy = store.accountant.privacy
        purchases = [planned(view, levels[name], privacy) for name, view in views.items()]
        table_claims = [
            Claim.from_entry(entry, schema)
            for entry in store.provenance.claims.values()
            if entry["query"]["table"] == table
        ]
        check(table_claims, known.held, purchases, known.version)


def guard_response(store: Store, table: str) -> None:
    """Refuse randomised response about a table for which the owner protects a claim.

    A response says whether conditions hold, perhaps nearly for sure, but gives no estimate to
    weigh.

    Raises
    ------
    RequestError
    """
    if _is_claimed(store, table):
        raise RequestError(
            "randomised response is not available: the owner protects a claim about this table",
            "Decide with mode='certified'. Nothing was charged.",
        )


def guard_persons(store: Store, table: str) -> None:
    """Refuse answers about the persons of a table about which the owner protects a claim.

    What they say about the claim is not weighed.

    Raises
    ------
    RequestError
    """
    if is_persons(table) and _is_claimed(store, origin(table)):
        raise RequestError(
            "statements about one row for each id are not available: the owner protects a claim about "
            "this table",
            "Ask about its rows, without GROUP BY the id. Nothing was charged.",
        )


def _is_claimed(store: Store, table: str) -> bool:
    claim_tables = [entry["query"]["table"] for entry in store.provenance.claims.values()]
    return not {table, *table.split("*")}.isdisjoint(claim_tables)


def check(
    claims: Iterable[Claim],
    held: Sequence[Held],
    bought: Sequence[Held],
    version: int,
) -> None:
    """Refuse releases that would make a protected claim too probable.

    The claim's probability is computed at the estimate from the analyst's releases so far, with the
    noise distribution after the planned releases.

    Raises
    ------
    RequestError
    """
    for claim in claims:
        if _settles(claim, held, bought, version):
            raise RequestError(
                "this answer is withheld: it would nearly settle a claim that the owner protects",
                "What follows from past answers is free: session.infer(sql). Nothing was charged.",
            )


def _settles(
    claim: Claim, releases: Sequence[Held], purchases: Sequence[Held], version: int
) -> bool:
    from dpnb.answers.evidence import Evidence
    from dpnb.answers.infer import centre, parts_of

    try:
        (part,) = parts_of(claim.query, version)
        Evidence((), part.views)
    except (KeyError, TypeError, ValueError, RequestError):
        # the claim is about an earlier schema with other columns
        return False
    shift = centre(part, claim.query.aggregates[0])[0] if part.function.is_mean else 0.0
    weights = [1.0] if len(part.parts) == 1 else [1.0, shift - claim.value]
    number = claim.value if len(part.parts) == 1 else 0.0
    parts = [
        (view, weight * factor)
        for factor, weighted in zip(weights, part.parts, strict=True)
        for view, weight in weighted
    ]
    before = Evidence(releases, part.views)
    rows = before.combined(parts)
    if not all(before.told(rows)):
        return False
    names = {release.name for release in purchases}
    rest = [release for release in releases if release.name not in names]
    after = Evidence([*rest, *purchases], part.views)
    joint_before, joint_after = (
        before.history.joint(rows),
        after.history.joint(after.combined(parts)),
    )
    if joint_after.distribution(0).sd >= joint_before.distribution(0).sd * (1 - 1e-9):
        return False
    chance_above = joint_after.distribution(0).cdf(float(joint_before.estimates[0]) - number)
    return (chance_above if claim.operator == ">" else 1 - chance_above) > claim.probability
