"""Lower floors never import higher ones; heavy packages are imported late and in few places."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import dpnb

PACKAGE = Path(dpnb.__file__).parent
FLOORS = (
    (
        "errors",
        "stamps",
        "locks",
        "privacy",
        "scale",
        "kinds",
        "schema",
        "table",
        "joins",
        "generated",
        "waiting",
        "arguments",
        "spelling",
    ),
    ("sql", "engines"),
    ("provenance",),
    ("answers", "explain", "inference", "decide", "risk", "keys"),
    ("ownership", "opening", "draft"),
    ("curator",),
    ("channel", "rehearsal"),
    ("session",),
    ("display", "lessons", "magics", "server", "datasets"),
)
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
CALLED = {
    # result methods (plot, widget, _repr_html_) import dpnb.display when they are called
    ("answers", "display"),
    ("explain", "display"),
    ("risk", "display"),
    ("provenance", "display"),
    ("inference", "display"),
    ("decide", "display"),
    ("keys", "display"),
    # the handle on a curator is made by the curator
    ("curator", "session"),
    ("curator", "channel"),
    ("curator", "server"),
}
"""Upward imports that are allowed inside functions."""
NOTEBOOK = {"IPython", "ipywidgets", "anywidget", "matplotlib"}
SERVICE = ("starlette", "uvicorn", "httpx", "jupyterhub")
HEAVY = (
    "pandas", "duckdb", "opendp", "scipy", "matplotlib", "IPython", "ipywidgets", "anywidget",
    *SERVICE,
)  # fmt: skip


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def noun(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(path: Path) -> list[tuple[str, bool, int]]:
    """Each imported module, whether it is imported in a function, and the line; not for types."""

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool, int]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                yield from visit(other, inside)
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by dots"
            if node.module == "dpnb":
                yield from ((f"dpnb.{alias.name}", inside, node.lineno) for alias in node.names)
            else:
                yield str(node.module), inside, node.lineno
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            # what lies in an expression imports nothing
            if not isinstance(child, (ast.expr, ast.expr_context, ast.arguments)):
                yield from visit(child, inside or function)

    return list(visit(tree(path), inside=False))


def test_every_module_has_a_floor():
    known = {*FLOOR, "__init__", "__main__"}
    assert {noun(path) for path in modules()} <= known


def test_lower_floors_never_import_higher_ones():
    wrong = []
    for path in modules():
        own = noun(path)
        if own in {"__init__", "__main__"}:
            continue
        for name, inside, line in imports(path):
            parts = name.split(".")
            if parts[0] != "dpnb" or len(parts) == 1:
                continue
            other = parts[1]
            if FLOOR[other] <= FLOOR[own] or (inside and (own, other) in CALLED):
                continue
            wrong.append(f"{path.relative_to(PACKAGE)}:{line} imports {name}")
    assert not wrong


def test_the_allowed_upward_imports_are_in_use():
    found = {
        (noun(path), name.split(".")[1])
        for path in modules()
        for name, inside, _ in imports(path)
        if inside and name.startswith("dpnb.")
    }
    assert found >= CALLED


def test_only_display_and_magics_import_the_notebook():
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {name}"
        for path in modules()
        if noun(path) not in {"display", "magics"}
        for name, _, line in imports(path)
        if name.split(".")[0] in NOTEBOOK
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("package", "places"),
    [
        ("duckdb", {"engines", "sql"}),
        ("opendp", {"privacy"}),
        ("sqlglot", {"sql"}),
        ("sqlite3", {"privacy"}),
        ("pyspark", {"engines"}),
        ("starlette", {"server"}),
        ("uvicorn", {"server"}),
        ("httpx", {"server"}),
        ("anyio", {"server"}),
        ("jupyterhub", {"server"}),
    ],
)
def test_each_wrapped_package_is_imported_in_one_place(package, places):
    found = {
        noun(path)
        for path in modules()
        for name, _, _ in imports(path)
        if name.split(".")[0] == package
    }
    assert found <= places


def test_nothing_but_the_noise_module_draws_random_numbers():
    allowed = {
        "datasets",
        "privacy/noise.py",
        # makes rows up from a schema: there are no data that could be hidden
        "generated.py",
        # resamples released values: nothing is hidden by these draws
        "answers/bootstrap.py",
        # simulate noise of released values, or its law alone
        "inference/posterior.py",
        "inference/study.py",
        # simulates the noise of published methods for public data
        "decide/study.py",
    }
    wrong = []
    for path in modules():
        where = path.relative_to(PACKAGE).as_posix()
        if where in allowed or where.split("/")[0] in allowed:
            continue
        wrong += [
            f"{where}:{line} imports {name}"
            for name, _, line in imports(path)
            if name == "random" or name.startswith("numpy.random")
        ]
        wrong += [
            f"{where}:{node.lineno} uses {ast.unparse(node)}"
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute)
            and node.attr in {"random", "urandom"}
            and (
                ast.unparse(node) in {"np.random", "numpy.random", "os.urandom"}
                # the key of fingerprints and file names, never noise
                or (node.attr == "urandom" and where != "privacy/noise.py")
            )
        ]
    assert not wrong


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_import_dpnb_loads_nothing_heavy():
    code = f"import sys, dpnb; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    assert run(code).strip() == "[]"


def test_loading_the_magics_loads_nothing_heavy_either():
    notebook = {"IPython", "ipywidgets", "anywidget"}
    heavy = (*(set(HEAVY) - notebook), "numpy", "sqlglot")
    code = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\nbefore = set(sys.modules)\n"
        "import dpnb; dpnb.load_ipython_extension(shell)\n"
        f"print(sorted(set({heavy!r}) & (set(sys.modules) - before)))"
    )
    assert run(code).strip() == "[]"


def test_a_session_answers_without_the_notebook_packages():
    code = (
        "import sys, dpnb, pandas as pd\n"
        "t = dpnb.Table('t', pd.DataFrame({'n': [1]}), dpnb.Schema({'n': dpnb.Integer(0, 9)}))\n"
        "s = dpnb.Session(t, budget=dpnb.Budget(rho=1))\n"
        "repr(s.query('SELECT COUNT(*) FROM t', rho=0.1)); repr(s.budget); repr(s.history)\n"
        f"print(sorted({NOTEBOOK!r} & set(sys.modules)))\n"
    )
    assert run(code).strip() == "[]"


def test_every_public_name_is_there():
    for name in dpnb.__all__:
        assert getattr(dpnb, name) is not None
    assert set(dpnb.__all__) <= set(dir(dpnb))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        dpnb.nope  # noqa: B018
