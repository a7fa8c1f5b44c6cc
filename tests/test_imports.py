"""Lower floors never import higher ones; heavy packages are imported late and in few places."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import dpnb

PACKAGE = Path(dpnb.__file__).parent
FLOORS = (
    {"errors"},
    {"arguments", "codes", "interrupt", "private", "published", "spelling"},
    {"schema"},
    {"privacy"},
    {"formats"},
    {"sql"},
    {"ledger"},
    {"results"},
    {"views"},
    {"estimation"},
    {"engines"},
    {"releases"},
    {"answers"},
    {"decide", "discover", "explain", "owner", "risk"},
    {"display", "studies"},
    {"verbs"},
    {"backend"},
    {"rehearsal"},
    {"session"},
    {"server"},
    {"curator"},
    {"datasets"},
    {"magics"},
    {"lessons"},
    {"cli"},
)
"""The folders and files of ``dpnb/``, from the ground up. Rooms of one floor do not import each other."""
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
MOST_IN_A_CIRCLE = 3
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


def dotted(path: Path) -> str:
    """Return the name of a module without ``dpnb.``, and that of the package itself as it is."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "dpnb"


NAMES = {path: dotted(path) for path in modules()}
MODULES = {"dpnb", *(f"dpnb.{name}" for name in NAMES.values())}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(path: Path) -> list[tuple[str, bool, int]]:
    """Each imported module, whether it is imported in a function, and the line; not for types."""
    return [(name, inside, line) for name, inside, types, line in every_import(path) if not types]


@cache
def every_import(path: Path) -> list[tuple[str, bool, bool, int]]:
    """Each imported module, whether it is imported in a function, whether for types alone, and the line."""

    def visit(node: ast.AST, inside: bool, types: bool) -> Iterator[tuple[str, bool, bool, int]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for part in node.body:
                yield from visit(part, inside, types=True)
            for part in node.orelse:
                yield from visit(part, inside, types)
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside, types, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by dots"
            module = str(node.module)
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                yield whole if whole in MODULES else module, inside, types, node.lineno
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            # what lies in an expression imports nothing
            if not isinstance(child, (ast.expr, ast.expr_context, ast.arguments)):
                yield from visit(child, inside or function, types)

    return list(visit(tree(path), inside=False, types=False))


@cache
def within() -> dict[str, set[str]]:
    """From each module to the modules of dpnb that it imports, anywhere and for types, too."""
    return {
        module: {name.removeprefix("dpnb.") for name, *_ in every_import(path) if name in MODULES}
        - {"dpnb"}
        for path, module in NAMES.items()
        if module not in {"dpnb", "__main__"}
    }


def circles(arrows: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that reach each other, of two and more."""
    below = {module: set(names) for module, names in arrows.items()}
    while True:
        more = {m: names.union(*(below.get(n, set()) for n in names)) for m, names in below.items()}
        if more == below:
            break
        below = more
    found: list[set[str]] = []
    for module, names in below.items():
        if module in names and not any(module in circle for circle in found):
            found.append({other for other in names if module in below.get(other, set())})
    return found


def test_every_module_has_a_floor():
    known = {*FLOOR, "__init__", "__main__"}
    assert {noun(path) for path in modules()} == known


def test_lower_floors_never_import_higher_ones():
    found: dict[str, set[str]] = {}
    for module, names in within().items():
        own = module.split(".")[0]
        for name in names:
            other = name.split(".")[0]
            if own != other and FLOOR[other] >= FLOOR[own]:
                found.setdefault(module, set()).add(name)
    assert not found


def test_few_modules_import_each_other_in_a_circle():
    assert not [circle for circle in circles(within()) if len(circle) > MOST_IN_A_CIRCLE]


def test_a_circle_is_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": {"a"}, "e": {"a"}}
    assert circles(arrows) == [{"a", "b", "c", "d"}]


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
        ("sqlite3", {"ledger"}),
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
        "schema/synthetic.py",
        # resamples released values: nothing is hidden by these draws
        "answers/bootstrap.py",
        # simulate noise of released values, or its distribution alone
        "estimation/joint.py",
        "studies/bayes.py",
        # simulates the noise of published methods for public data
        "studies/study.py",
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


def test_the_page_on_the_architecture_names_the_floors_and_real_files():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    floors = page.partition("## Floors")[2].partition("\n## ")[0]
    rows = [
        re.findall(r"`(\w+)`", line.split("|")[1])
        for line in re.findall(r"^\|.*`.*$", floors, re.MULTILINE)
    ]
    places = [[FLOOR[name] for name in row] for row in rows]
    assert sorted(name for row in rows for name in row) == sorted(FLOOR)
    assert all(max(below) < min(above) for below, above in pairwise(places))
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", page):
        root = PACKAGE.parent if name.startswith("tests/") else PACKAGE
        assert (root / name).exists(), name
