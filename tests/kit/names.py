"""Names in code and in pages, and where they are defined; found in the text of files, without running them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(
    r"^[ \t]*from[ ]+((?:dpnb|tests)[\w.]*)[ ]+import[ ]+(?:\(([^)]*)\)|([^\n#(]+))|^[ \t]*import[ ]+((?:dpnb|tests)[\w.]*)",
    re.MULTILINE,
)
_BOUND = re.compile(
    r"^(?:async +def|def|class) +(\w+)|^(\w+(?:, *\w+)*)(?: *:[^=\n]+)? *=(?!=)", re.MULTILINE
)
_ANY = re.compile(
    r"\b(?:async +def|def|class) +(\w+)|^ *(?:self\.)?(\w+)(?: *:[^=\n]+)?(?: *=|$)", re.MULTILINE
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"`((?:dpnb|tests|docs|notebooks)/[\w./]*)`")
_IN = re.compile(r"((?:`[\w.]+`(?:,\s| and |, and )?)+)\s?in\s`((?:dpnb|tests)/[\w/]+\.py)`")
_TESTS = re.compile(r"`(tests/[\w/]+\.py)` \(([^)]*)\)")
_NAME = re.compile(r"`([A-Za-z_][\w.]*)`")
_CODE = re.compile(r"(?=.*_|.*[a-z][A-Z]|.*\.|.*\(\))[A-Za-z_][\w.]*(?:\(\))?")
_FILE = re.compile(r"\.(md|py|toml|ipynb|parquet|csv|json|js|ledger|html)$")
ELSEWHERE = {
    "DP_INTERVAL_LOW",
    "DP_INTERVAL_HIGH",
    "DATE_TRUNC",
    "auto_explain",
    "log_statement",
    "log_min_duration_statement",
}
"""Names of other systems and of SQL; so are those of PostgreSQL's own tables, which begin with pg_."""


@cache
def text(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text("utf-8")


def module(name: str) -> Path | None:
    """Return the file of a module of the package or of its tests; None if there is none."""
    path = ROOT.joinpath(*name.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.exists()), path if path.is_dir() else None)


@cache
def bound(path: Path) -> frozenset[str]:
    """Return the names that a module binds: by definition, assignment or import."""
    if path.is_dir():
        return frozenset()
    source = text(path)
    names = {name for a, b in _BOUND.findall(source) for name in _parts(a or b)}
    for found in re.finditer(
        r"^[ \t]*(?:from[ ]+[\w.]+[ ]+)?import[ ]+(?:\(([^)]*)\)|([^\n#(]+))", source, re.MULTILINE
    ):
        names |= {_as(part) for part in _parts(found[1] or found[2])}
    return frozenset(names)


def _parts(listed: str) -> list[str]:
    lines = (line.partition("#")[0] for line in listed.splitlines())
    return [part.strip() for part in ",".join(lines).split(",") if part.strip()]


def _as(part: str) -> str:
    return part.split()[-1].partition(".")[0]


def missing_imports(path: Path) -> Iterator[str]:
    """Yield what a file imports from the package or its tests and does not exist."""
    for found in _IMPORT.finditer(text(path)):
        name = found[1] or found[4]
        file = module(name)
        if file is None:
            yield name
            continue
        for part in _parts(found[2] or found[3] or ""):
            wanted = part.split()[0]
            lazy = not file.is_dir() and "__getattr__" in bound(file)
            if wanted not in bound(file) and module(f"{name}.{wanted}") is None and not lazy:
                yield f"{name}.{wanted}"


@cache
def defined(path: Path) -> frozenset[str]:
    """Return all names that a file defines, at any depth: functions, classes, fields, variables."""
    return frozenset(a or b for a, b in _ANY.findall(text(path))) | bound(path)


@cache
def words() -> frozenset[str]:
    """Return every word of the code of the package and its tests."""
    files = [*ROOT.glob("dpnb/**/*.py"), *ROOT.glob("dpnb/**/*.js"), *ROOT.glob("tests/**/*.py")]
    return frozenset(word for file in files for word in _WORD.findall(text(file)))


def missing_names(page: Path) -> Iterator[str]:
    """Yield the paths and the names of code in a page that do not exist.

    Names are in backticks: ``a``, ``B.c`` in ``dpnb/x.py``; tests in brackets behind their file; and
    wherever they look like code, with an underscore, a capital inside, a point or brackets.
    """
    prose = _BLOCK.sub("", text(page))
    for path in _PATH.findall(prose):
        if not (ROOT / path).exists():
            yield path
    for quoted, path in [*_IN.findall(prose), *((q, p) for p, q in _TESTS.findall(prose))]:
        file = ROOT / path
        for name in _NAME.findall(quoted) if file.exists() else ():
            if not {*name.split(".")} <= defined(file):
                yield f"{name} in {path}"
    for name in _QUOTED.findall(prose):
        if (
            _CODE.fullmatch(name)
            and not _FILE.search(name)
            and name not in ELSEWHERE
            and not name.startswith("pg_")
        ):
            parts = {*name.removesuffix("()").split(".")}
            if not parts <= words():
                yield name
