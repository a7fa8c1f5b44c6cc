"""Slips in a cell that no magic gets to see: a mistyped name, an empty body."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from dpnb.errors import RequestError, closest

_CALL = re.compile(
    r"\s*(?:[^=()]+=\s*)?get_ipython\(\)\.run_(line|cell)_magic\('([^']+)', (.*)\)\s*"
)
"""The call that IPython makes of a magic: its kind, name, line and body."""
_ASSIGNED = re.compile(r"\s*([\w., \[\]]+?)\s*=\s*(%%(\w+))")
"""A cell magic that is assigned, which IPython leaves as it is."""
_EMPTY = re.compile(r".*, '(?:\\n)*'")
"""A line, and a body without text."""
_STATEMENT = "Write SELECT ... FROM a table on the next line."
_BODIES = {
    "dpexplain": "Write 'a' > 'b' on the next line, or name a question: %dpexplain NAME.",
}


def slips(magics: Any) -> Callable[[list[str]], list[str]]:
    """Return a transformer for ``InteractiveShell.input_transformers_post`` that refuses slips.

    A cell without a slip is not changed.
    """

    def refuse_slips(lines: list[str]) -> list[str]:
        for line in lines:
            match = _CALL.fullmatch(line)
            if match is not None:
                _check(magics, *match.groups())
            assigned = _ASSIGNED.match(line)
            if assigned and assigned[3] in magics.magics["cell"] and not _is_python(lines):
                name = assigned[1] if assigned[1].isidentifier() else "NAME"
                raise RequestError(
                    f"the value of {assigned[2]} cannot be assigned",
                    f"Write {assigned[2]} -o {name} as the first line of its cell.",
                )
        return lines

    refuse_slips.dpnb = magics  # type: ignore[attr-defined]
    return refuse_slips


def _is_python(lines: list[str]) -> bool:
    try:
        ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return False
    return True


def _check(magics: Any, kind: str, name: str, arguments: str) -> None:
    same_kind = magics.magics[kind]
    if name in same_kind:
        if kind == "cell" and _EMPTY.fullmatch(arguments):
            raise RequestError(f"the cell is empty below %%{name}", _BODIES.get(name, _STATEMENT))
        return
    if name[:1] == "%" and name[1:] in magics.magics["cell"]:
        raise RequestError(
            f"%{name} is not the first line of its cell", f"Move %{name} to the first line."
        )
    if magics.shell.find_magic(name, kind) is None:
        other_kind = magics.magics["line" if kind == "cell" else "cell"]
        close = closest(name, [*same_kind, *other_kind], alike=0.75)
        if close:
            mark = "%%" if kind == "cell" and close in same_kind else "%"
            raise RequestError(
                f"there is no magic {'%%' if kind == 'cell' else '%'}{name}",
                f"Did you mean {mark}{close}?",
            )
