"""Every text that a user sees, in the order of a first session: ``python -m tests.kit.strings [SURFACE ...]``.

Texts are read from the source of dpnb: what is no docstring and has more than two words, f-strings with what they put
in. Help is printed as a user sees it. Read them aloud.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch

from tests.kit import source
from tests.kit.source import PACKAGE

SURFACES = {
    "opening": ("__init__.py", "magics/lines.py", "magics/slips.py", "magics/__init__.py", "magics/completion.py", "opening.py",
                "table.py", "schema.py", "kinds.py", "scale.py", "joins.py", "draft.py", "generated.py", "rehearsal.py",
                "datasets/*", "engines/*", "session.py", "curator.py", "stamps.py", "locks.py", "privacy/ledger.py",
                "privacy/postgres.py", "privacy/sqlite.py", "provenance/store.py"),
    "help of magics": ("magics/cells.py",),
    "statements": ("sql/*",),
    "answers": ("answers/*", "display/html.py", "display/text.py", "display/parts.py", "display/marks.py",
                "display/figures.py", "display/widgets.py", "provenance/accuracy.py", "provenance/plan.py",
                "waiting.py", "errors.py", "arguments.py", "spelling.py"),
    "prices, budgets, histories": ("privacy/*", "provenance/requests.py"),
    "explanations": ("explain/*", "magics/explaining.py", "display/explanation.py"),
    "decisions": ("decide/*", "magics/deciding.py", "display/decision*.py"),
    "inferences": ("inference/*", "magics/inferring.py", "display/inference*.py"),
    "risk": ("risk/*", "magics/risking.py", "display/risk*.py", "display/picker.py"),
    "discovery": ("keys/*", "display/discovery.py"),
    "provenance": ("provenance/*", "ownership.py", "display/provenance*.py"),
    "service": ("server/*", "channel.py"),
    "command line": ("server/main.py", "server/tokens.py", "lessons.py", "__main__.py"),
}  # fmt: skip
"""Where texts are made. The longest pattern counts."""
SILENT = {"display/__init__.py"}
"""Modules without texts."""
_WORD = re.compile(r"[^\W\d]{2,}")
_SQL = re.compile(
    r"CAST\(|IS NOT NULL|COALESCE|^f?.(SET|CREATE|DROP|DESCRIBE|\(?SELECT [{*C]|CASE W| LEFT J|WITH c)"
)
_NO_WORDS = re.compile(r"\{.*?\}|<[^<>]*>")


def modules() -> dict[str, list[str]]:
    """Return the texts of each module of dpnb."""
    return {module: texts(source.nodes_of(module)) for module in source.modules()}


def surfaces(module: str) -> list[str]:
    """Return where a module's texts are seen: one surface, or none."""
    fits = [
        (len(pattern.rstrip("*")), surface)
        for surface, patterns in SURFACES.items()
        for pattern in patterns
        if fnmatch(module, pattern)
    ]
    most = max(fits, default=(0, ""))[0]
    return [surface for length, surface in fits if length == most]


def texts(nodes: list[ast.AST]) -> list[str]:
    """Return the texts of a module from top to bottom."""
    parts = {id(one) for node in nodes if isinstance(node, ast.JoinedStr) for one in node.values}
    parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = []
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in parts:
            text = ast.unparse(node).replace("\\n", " ")
            words = _WORD.findall(_NO_WORDS.sub(" ", text))
            if len(words) > 2 and " " in text and text[0] in "f'\"" and not _SQL.search(text):
                found.append((node.lineno, node.col_offset, text))
    return list(dict.fromkeys(text for *_, text in sorted(found)))


def help_texts(surface: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the help of each magic, or of each command."""
    if surface == "help of magics":
        from dpnb.magics.cells import Dpnb

        yield from (
            (name, [magic.__doc__]) for name, magic in vars(Dpnb).items() if name[:2] == "dp"
        )
    if surface == "command line":
        from dpnb.server.main import _parser

        left = [_parser()]
        for parser in left:
            yield parser.prog, [parser.format_help()]
            choices = (one.choices for one in parser._actions if isinstance(one.choices, dict))
            left += [command for several in choices for command in several.values()]
    for path in sorted(PACKAGE.glob("display/static/*.js")) if surface == "scripts" else ():
        code = re.sub(r"(?s)/\*.*?\*/|(?m:^\s*//[^\n]*)", "", path.read_text("utf-8"))
        quoted = re.findall(r'"(?:[^"\\\n]|\\.)*"|`[^`]*`', code)
        yield path.name, [one for one in quoted if re.search(r"[a-z]+ [a-z]+", one)]


def main(wanted: list[str]) -> None:
    """Print the surfaces whose names begin as wanted; all by default."""
    for surface in [*SURFACES, "scripts"]:
        if wanted and not surface.startswith(tuple(wanted)):
            continue
        print(f"\n===== {surface} =====")
        sources = [
            (module, said) for module, said in modules().items() if surface in surfaces(module)
        ]
        for name, said in [*sources, *help_texts(surface)]:
            if said:
                print(f"\n--- {name}", *said, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
