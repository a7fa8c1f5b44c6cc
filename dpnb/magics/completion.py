"""Completion in SQL cells: options, tables, columns, functions, declared values. Public facts only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dpnb.answers.answer import Answer
from dpnb.magics.cells import Dpnb
from dpnb.magics.lines import options_of
from dpnb.schema.columns import Category
from dpnb.schema.schema import Schema
from dpnb.session import Session

_MAGIC = re.compile(r"\s*%%?(dpquery|dpinfer|dpdecide|dpexplain|dprisk|dpdiscover)\b")
_EXPLAIN = re.compile(r"\s*%%?(?:\w+\s*<<)?\s*dpexplain\s+(\w*)")
_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "IN",
    "BETWEEN", "IS NULL", "FILTER (WHERE", "COUNT(*)", "COUNT(", "COUNT_IF(", "SUM(", "AVG(", "AS", "DESC",
    "MEDIAN(", "QUANTILE(", "VARIANCE(", "STDDEV(", "CASE WHEN", "THEN", "ELSE", "END", "EXP(", "LN(",
    "SQRT(",
)  # fmt: skip
_CLAUSE = re.compile(r"\b(select|from|where|group\s+by|having|order\s+by|limit)\b", re.IGNORECASE)
_COMPUTED = ("SELECT", "WHERE", "GROUP BY")
"""Clauses that take functions of columns."""


def candidates(
    before: str, sessions: dict[str, Session], names: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the words that may follow at the end of ``before``, a cell up to the cursor.

    Inside quotes these are whole category values; elsewhere options, tables, columns, SQL words,
    and functions of the kinds of the columns. In an explanation these are the names of answers, and
    inside quotes the groups of the named answer.
    """
    schemas = {
        name: table.schema
        for session in sessions.values()
        for name, table in session._backend.tables.items()
    }
    explain = _EXPLAIN.match(before)
    if explain is not None:
        return _explain_candidates(before, explain.group(1), sessions, names or {})
    first, _, body = before.partition("\n")
    if "\n" not in before:
        if re.search(r"--on\s+\S*$", first):
            return list(sessions)
        if re.search(r"--thresholds\s+\S*$", first):
            mappings = {k: v for k, v in (names or {}).items() if isinstance(v, Mapping)}
            return [name for name in mappings if name[:1] != "_"]
        magic = _MAGIC.match(first)
        flags = options_of(getattr(Dpnb, magic[1] if magic else "dpquery"))
        if magic and magic[1] == "dpdiscover":
            column_names = (column for schema in schemas.values() for column in schema.undeclared)
            return [*dict.fromkeys(column_names), *flags]
        return flags
    place = _opened(body)
    if place >= 0 and body[place] == "'":
        return _values(body[:place], schemas.values())
    if re.search(r"\bfrom\s+\w*$", body, re.IGNORECASE):
        return list(schemas)
    columns = [column for schema in schemas.values() for column in (*schema, *schema.joined)]
    clauses = _CLAUSE.findall(body)
    offers = (
        _functions(body, schemas)
        if clauses and " ".join(clauses[-1].upper().split()) in _COMPUTED
        else []
    )
    return list(dict.fromkeys([*columns, *_WORDS, *offers]))


def _functions(body: str, schemas: Mapping[str, Schema]) -> list[str]:
    """Return the functions of the kinds of columns in the tables that are named, else in all."""
    from dpnb.sql.domains import names

    words = {word.casefold() for word in re.findall(r"\w+", body)}
    named = [schema for name, schema in schemas.items() if name.casefold() in words]
    kinds = [kind for schema in named or schemas.values() for kind in schema.values()]
    one_of_each = {kind.kind: kind for kind in kinds}
    return [f"{name}(" for kind in one_of_each.values() for name in names(kind)]


def _explain_candidates(
    before: str, name: str, sessions: dict[str, Session], names: Mapping[str, Any]
) -> list[str]:
    answers = {k: v for k, v in names.items() if isinstance(v, Answer) and k[:1] != "_"}
    if "\n" not in before:
        return (
            list(sessions)
            if re.search(r"--on\s+\S*$", before)
            else [*answers, *options_of(Dpnb.dpexplain)]
        )
    if name not in answers or before.count("'") % 2 == 0:
        return []
    return list(dict.fromkeys(str(key) for group in answers[name].groups for key in group))


def _values(before: str, schemas: Iterable[Schema]) -> list[str]:
    """Return the values of the column named last before a quote, else of all columns."""
    kinds = {
        name: kind
        for schema in schemas
        for name, kind in schema.items()
        if isinstance(kind, Category)
    }
    outside = re.sub(r"'[^']*'|--[^\n]*", " ", before)
    column_names = [word for word in re.findall(r"\w+", outside) if word in kinds]
    categories = [kinds[column_names[-1]]] if column_names else list(kinds.values())
    return list(dict.fromkeys(value for kind in categories for value in kind.values))


def completer(magics: Any) -> Callable[..., Any]:
    """Return a matcher for ``InteractiveShell.Completer.custom_matchers``."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher()
    def dpnb_matcher(context: Any) -> dict[str, Any]:
        lines = context.full_text.split("\n")
        before = "\n".join([*lines[: context.cursor_line], lines[context.cursor_line]])
        before = before[: len(before) - len(lines[context.cursor_line]) + context.cursor_position]
        if not _MAGIC.match(before):
            return {"completions": []}
        body = before.partition("\n")[2]
        place = _opened(body)
        quoted = place >= 0 and body[place] == "'"
        prefix = before[before.rfind("'") + 1 :] if quoted else context.token
        offset = len(prefix) - len(context.token)
        completions = [
            SimpleCompletion(word[offset:], type="dpnb")
            for word in candidates(before, dict(magics.sessions), magics.shell.user_ns)
            if word.casefold().startswith(prefix.casefold())
        ]
        return {"completions": completions, "suppress": bool(completions)}

    matcher: Callable[..., Any] = dpnb_matcher
    matcher.dpnb = magics  # type: ignore[attr-defined]
    return matcher


def _opened(text: str) -> int:
    """Return where the quote that is open at the end of a statement begins; -1 if none is."""
    # the parser is not needed to load the magics
    from dpnb.sql.source import opened

    return opened(text)
