"""What an explanation says of leaving rows out, held against the rows themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dpnb.answers.question import Question

_SAID = re.compile(r"(lowers|raises|reverses) the difference,? to (\S+) or (less|more)")
_SILENT = re.compile(r"could be noise|rank is uncertain")
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
    if _SILENT.fullmatch(words):
        return True
    said = _SAID.fullmatch(words)
    if said is None or after is None:
        return False
    verb, end, side = said.groups()
    bound = float(end.replace(",", ""))
    within = after <= bound if side == "less" else after >= bound
    right = {
        "lowers": after < before and side == "less",
        "raises": after > before and side == "more",
        "reverses": after < 0 < before and side == "less",
    }
    return within and right[verb]
