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
    "opening": ("__init__.py", "magics/lines.py", "magics/showing.py", "magics/scopes.py", "magics/slips.py", "magics/__init__.py", "magics/completion.py",
                "schema/*", "codes.py", "rehearsal.py", "datasets/*", "engines/*", "session.py", "curator.py", "verbs.py",
                "private.py", "ledger/configuration.py", "ledger/locks.py", "ledger/ledger.py", "ledger/postgres.py",
                "ledger/sqlite.py", "ledger/store.py"),
    "help of magics": ("magics/cells.py", "magics/arguments.py", "releases/options.py"),
    "statements": ("sql/*",),
    "answers": ("answers/*", "estimation/*", "formats.py", "results.py", "display/html.py", "display/text.py",
                "display/elements.py", "display/page.py", "display/cards/answer*.py", "display/cards/bootstrap.py",
                "display/cards/question.py", "display/cards/words.py", "display/marks.py", "display/figures.py",
                "display/widgets.py", "releases/accuracy.py",
                "releases/plan.py", "interrupt.py", "errors.py", "arguments.py", "spelling.py"),
    "prices, budgets, histories": ("privacy/*", "ledger/accountant.py", "ledger/mechanism.py", "releases/request.py",
                                   "display/cards/bill.py", "display/cards/budget.py", "display/cards/price.py", "display/cards/info_table.py", "display/foot.py"),
    "explanations": ("explain/*", "magics/explaining.py", "display/cards/explanation*.py"),
    "decisions": ("decide/*", "privacy/response.py", "studies/*", "display/cards/decision*.py"),
    "inferences": ("answers/domain.py", "answers/evidence.py", "answers/fresh.py", "answers/infer*.py",
                   "answers/marginals.py", "answers/estimating.py", "answers/merging.py", "answers/options.py",
                   "releases/held.py", "answers/reuse.py", "estimation/history.py",
                   "estimation/prior.py", "owner/claims.py", "studies/bayes.py", "display/cards/inference*.py"),
    "risk": ("risk/*", "studies/rdr.py", "magics/risking.py", "display/cards/risk*.py"),
    "discovery": ("discover/*", "display/cards/discovery.py"),
    "provenance": ("ledger/*", "views/*", "releases/*", "owner/*", "display/cards/provenance*.py"),
    "service": ("server/*",),
    "command line": ("cli.py", "server/tokens.py", "lessons.py", "__main__.py"),
}  # fmt: skip
"""Where texts are made. The longest pattern counts."""
SILENT = {
    "backend.py", "display/__init__.py", "display/cards/__init__.py", "display/document.py", "display/latex.py",
    "display/markdown.py", "display/writing.py", "published.py",
}  # fmt: skip
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
        from dpnb.cli import _parser

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
