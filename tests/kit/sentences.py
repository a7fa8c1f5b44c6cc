"""What an explanation says of leaving rows out, held against the rows themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dpnb.answers.question import Question

_SAID = re.compile(
    r"(?:(lowers|narrows) the difference(?: to (\S+) or (less|more))?, or reverses it"
    r"|(widens) the difference(?: to (\S+) or (less|more))?"
    r"|(reverses) the difference, to (\S+) or (less|more)"
    r"|(leaves) a difference of (\S+) or (less|more)"
    r"|(lets) the difference (?:fall|rise))"
)
_SILENT = "could be noise"
_BIN = re.compile(r"(\w+) in ([\[(])(\S+), (\S+)\]")
MEASURES = {"COUNT": "COUNT({})", "SUM": "COALESCE(SUM({}), 0)", "AVG": "AVG({})"}


def condition(predicate: str) -> str:
    """Return a predicate as shown in SQL."""
    found = _BIN.fullmatch(predicate)
    if not found:
        return predicate
    column, mark, low, high = found.groups()
    return f"{column} {'>=' if mark == '[' else '>'} {low} AND {column} <= {high}"


def differences(
    rows: Any, key: str, value: str, question: Question, predicates: Sequence[str]
) -> list[float | None]:
    """Return the exact difference, then that without the rows of each predicate; None without a mean.

    Parameters
    ----------
    rows : DuckDB relation
    key, value : str
        SQL of the groups' labels, and of what is aggregated.
    """
    measure = MEASURES[question.function].format(value)
    kept = (f"NOT COALESCE({condition(p)}, FALSE)" for p in predicates)
    columns = ", ".join([measure, *(f"{measure} FILTER (WHERE {rest})" for rest in kept)])
    columns = re.sub(
        r"COALESCE\((SUM\(.*?\)), 0\) FILTER (\(WHERE .*?, FALSE\)\))", r"COALESCE(\1 FILTER \2, 0)", columns
    )  # fmt: skip
    found = rows.aggregate(f"{key} AS k, {columns}", key).fetchall()
    groups = {str(label): values for label, *values in found}
    results: list[float | None] = []
    for place in range(len(predicates) + 1):
        terms = [groups[str(label)][place] for (label,) in question.groups]
        known = all(term is not None for term in terms)
        weighted = (
            (w * float(t) for w, t in zip(question.weights, terms, strict=True)) if known else ()
        )
        results.append(sum(weighted) - question.constant if known else None)
    return results


def is_true(words: str, before: float, after: float | None) -> bool:
    """Return whether words on a predicate are true of the difference before, and after its rows are left out.

    Words that are not known are not true: what is said has to be checked.
    """
    if words == _SILENT:
        return True
    said = _SAID.fullmatch(words)
    if said is None or after is None:
        return False
    verb, end, side = (*(part for part in said.groups() if part is not None), None, None)[:3]
    bound = None if end is None else float(end.replace(",", ""))
    within = bound is None or (after <= bound if side == "less" else after >= bound)
    falls = after < before
    right = {
        "lowers": falls and before > 0 and side != "more",
        "narrows": not falls and before < 0 and side != "less",
        "widens": abs(after) > abs(before) and after * before > 0,
        "reverses": after * before < 0,
        "leaves": falls == (side == "less"),
        "lets": falls == words.endswith("fall"),
    }
    return within and right[str(verb)]
