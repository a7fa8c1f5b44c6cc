"""What is installed is what was written: wheel and sdist, a bare environment, the oldest packages.

Each environment is new, holds the wheel, and is used from a folder without the checkout. Nothing else
is installed until the main job has run there. The newest packages are those of the other tests.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
import venv
import zipfile
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from shutil import copy, copytree

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dpnb
from dpnb.lessons import FIRST, lesson_files
from tests.kit import prose

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DECLARED = [Requirement(text) for text in PROJECT["dependencies"]]
ABSENT = {
    "django", "fastapi", "flask", "httpx", "jupyter-client", "jupyter-server", "jupyterhub",
    "jupyterlab", "notebook", "polars", "psycopg", "pyspark", "pytest", "requests",
    "starlette", "tornado", "uvicorn",
}  # fmt: skip
"""What a bare installation must not bring: the web stack, Spark, and notebook servers."""
CHOSEN = (
    "tests/sql/test_accepted.py",
    "tests/engines/test_decoding.py::TestParquet",
    "tests/engines/test_joins.py::TestOpening::test_texts_are_ids_too",
    "tests/privacy/test_noise.py",
    "tests/privacy/test_one_off.py",
    "tests/estimation/test_blue.py",
    "tests/display/test_figures.py",
    "tests/display/test_widgets.py",
    "tests/schema/test_schema.py",
    "tests/schema/test_table.py",
)
"""Fast tests that together call every dependency."""
TOOLS = ("hypothesis", "pytest")
OLD_ONES_WARN = "ignore"
"""Old versions call what newer companions of theirs will give up."""


def run(*command: str | Path, cwd: Path, good: bool = True, **variables: str) -> str:
    """Run a program without the checkout or anything of this environment on its path."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**inherited, "MPLBACKEND": "agg", "IPYTHONDIR": str(cwd / "ipython"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is good, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Environment:
    """A new environment, and a folder to work in beside it."""

    folder: Path
    work: Path

    @classmethod
    def new(cls, place: Path) -> Environment:
        venv.create(place / "environment", symlinks=True)
        (place / "work").mkdir()
        return cls(place / "environment", place / "work")

    def install(self, *what: str | Path) -> None:
        pip = (sys.executable, "-m", "pip", "--python", self.folder / "bin" / "python")
        # what is never imported needs no compiling
        options = ("install", "--quiet", "--no-compile", "--disable-pip-version-check")
        run(*pip, *options, *what, cwd=self.work)

    def python(self, *arguments: str | Path, good: bool = True, **variables: str) -> str:
        python = self.folder / "bin" / "python"
        return run(python, *arguments, cwd=self.work, good=good, **variables)

    def versions(self) -> dict[str, str]:
        (site,) = (self.folder / "lib").glob("python*/site-packages")
        found: list[Distribution] = list(distributions(path=[str(site)]))
        return {canonicalize_name(one.name): one.version for one in found}

    def main_job(self, warnings: str = "error::UserWarning") -> str:
        """Do the main job; returns what was printed."""
        copy(HERE / "main_job.py", self.work)
        shown = self.python("-W", warnings, "main_job.py")
        assert f"{self.folder}/lib" in shown
        return shown

    def test(self, *options: str) -> None:
        """Run the chosen tests with ``TOOLS``, from a copy that has no package beside it."""
        copytree(ROOT / "tests", self.work / "tests", ignore=lambda *_: ["__pycache__"])
        copy(ROOT / "pyproject.toml", self.work)
        (self.work / "where.py").write_text(
            "import dpnb\ndef pytest_unconfigure():\n    print('imported', dpnb.__file__)\n"
        )
        shown = self.python(
            "-m", "pytest", "-p", "where", "-p", "no:cacheprovider",
            "--override-ini=addopts=--strict-markers --import-mode=importlib -q",
            *options, *CHOSEN,
        )  # fmt: skip
        assert " passed" in shown
        assert f"imported {self.folder}/lib" in shown


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The sdist, the wheel made from it, and ``direct/`` with the wheel made from the checkout."""
    place = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "build", "--quiet", ROOT)
    run(*build, "--outdir", place, cwd=place)
    run(*build, "--wheel", "--outdir", place / "direct", cwd=place)
    return place


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Environment:
    """The wheel and what it brings, in the newest versions."""
    made = Environment.new(tmp_path_factory.mktemp("bare"))
    made.install(wheel)
    return made


@pytest.fixture(scope="module")
def brought(bare) -> dict[str, str]:
    return bare.versions()


def names_in(path: Path) -> set[str]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist())
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def package_files() -> set[str]:
    """Every file of the package, as git would keep it."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dpnb").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


LESSONS = {path.name for path in lesson_files()}


class TestArchives:
    def test_the_wheel_holds_the_package_with_the_lessons_and_nothing_else(self, wheel):
        found = names_in(wheel)
        information = {name for name in found if ".dist-info/" in name}
        lessons = {f"dpnb/notebooks/{name}" for name in LESSONS}
        assert found - information == package_files() | lessons
        assert {name.partition("/")[2] for name in information} == {
            "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE",
        }  # fmt: skip

    def test_assets_and_marks_are_in_it(self, wheel):
        found = names_in(wheel)
        assert "dpnb/py.typed" in found
        data = ("adult.parquet", "adult.toml", "flights.parquet", "flights.toml")
        assert {f"dpnb/datasets/{name}" for name in data} <= found
        assert {"dpnb/display/static/answer.js", "dpnb/display/static/answer.css"} <= found
        kinds = {Path(name).suffix for name in found if name.startswith("dpnb/")}
        assert kinds == {".py", ".typed", ".js", ".css", ".parquet", ".toml", ".ipynb", ".md"}

    def test_the_sdist_holds_what_the_wheel_is_made_of(self, built):
        (sdist,) = built.glob("*.tar.gz")
        others = {name for name in names_in(sdist) if not name.startswith("dpnb/")}
        assert others == {
            ".gitignore", "CHANGELOG.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md",
            "LICENSE", "PKG-INFO", "README.md", "SECURITY.md", "pyproject.toml", "tests/data/online_retail.parquet",
            *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
            *(f"notebooks/{name}" for name in LESSONS),
        }  # fmt: skip
        assert {name for name in names_in(sdist) if name.startswith("dpnb/")} == package_files()

    def test_sdist_and_checkout_make_the_same_wheel(self, built, wheel):
        (direct,) = (built / "direct").glob("*.whl")
        assert direct.name == wheel.name
        with zipfile.ZipFile(direct) as one, zipfile.ZipFile(wheel) as other:
            assert {i.filename: i.CRC for i in one.infolist()} == {
                i.filename: i.CRC for i in other.infolist()
            }


@pytest.fixture(scope="module")
def metadata(wheel) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return email.message_from_bytes(archive.read(name))


class TestMetadata:
    """What a package index shows."""

    def test_the_page_is_readme_without_dead_links(self, metadata):
        page = metadata.get_payload(decode=True).decode()
        assert metadata["Description-Content-Type"] == "text/markdown"
        assert page.startswith("# dpnb\n")
        assert set(re.findall(r"(?m)^## .+", page)) == set(
            re.findall(r"(?m)^## .+", (ROOT / "README.md").read_text("utf-8"))
        )
        # what it names in the source distribution is there
        assert all((ROOT / path).is_file() for path in re.findall(r"`(docs/\S+)`", page))
        assert [link for link in prose.links(page) if not link.startswith("https://")] == []
        assert "](" not in re.sub(r"]\(https://", "", page)

    def test_version_licence_and_classifiers_are_stated_once(self, metadata):
        assert metadata["Version"] == dpnb.__version__
        assert metadata["License-Expression"] == "Apache-2.0"
        kinds = metadata.get_all("Classifier")
        assert not [kind for kind in kinds if kind.startswith("License")]
        assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} <= set(kinds)

    def test_addresses_are_declared_or_absent(self, metadata):
        assert [url.partition(", ")[2] for url in metadata.get_all("Project-URL", [])] == [
            *PROJECT.get("urls", {}).values()
        ]


class TestBare:
    def test_it_brings_no_web_stack_no_server_and_no_spark(self, brought):
        assert {canonicalize_name(one.name) for one in DECLARED} <= set(brought)
        assert not ABSENT & set(brought)

    def test_the_main_job_is_done_and_loads_nothing_of_the_web(self, bare):
        loaded = set(bare.main_job().partition("loaded:")[2].split())
        assert not loaded & {"http.server", "starlette", "httpx", "uvicorn", "pyspark", "tornado"}

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("dpnb.connect('http://127.0.0.1:9', token='t')", "pip install 'dpnb[server]'"),
            (
                "dpnb.Curator(dpnb.datasets.adult(), budget=dpnb.Budget(rho=1)).serve()",
                "pip install 'dpnb[server]'",
            ),
            (
                "dpnb.Session(dpnb.Table('t', 'postgresql://h/d#s.t', schema), budget=budget)",
                "pip install 'dpnb[postgres]'",
            ),
            (
                "dpnb.Session(dpnb.datasets.adult(), budget=budget, ledger='postgresql://h/d')",
                "pip install 'dpnb[postgres]'",
            ),
            (
                "import pathlib; pathlib.Path('t.yaml').write_text('a: 1'); dpnb.Schema.load('t.yaml')",
                "pip install 'dpnb[yaml]'",
            ),
        ],
        ids=["connect", "serve", "postgres", "ledger", "yaml"],
    )
    def test_what_an_extra_brings_is_named_with_its_command(self, bare, code, words):
        names = "schema = dpnb.Schema({'n': dpnb.Integer(0, 9)})\nbudget = dpnb.Budget(rho=1)\n"
        shown = bare.python("-c", f"import dpnb\n{names}{code}", good=False)
        assert "dpnb.errors." in shown
        assert words in shown

    def test_the_command_line_says_what_is_missing(self, bare):
        command = bare.folder / "bin" / "dpnb"
        table = Path("people.toml")
        (bare.work / "people.csv").write_text("n\n1\n")
        (bare.work / table).write_text(
            'source = "people.csv"\n[budget]\nrho = 1\n'
            '[columns.n]\ntype = "integer"\nlow = 0\nhigh = 9\n'
        )
        run(command, "analyst", "add", "alice", "--privilege", "4", cwd=bare.work)
        shown = run(command, "serve", table, cwd=bare.work, good=False)
        assert shown.strip().endswith("Run pip install 'dpnb[server]'.")
        assert "Traceback" not in shown

    def test_the_lessons_say_what_they_need(self, bare):
        command = bare.folder / "bin" / "dpnb"
        shown = run(command, "lessons", cwd=bare.work, good=False)
        assert shown == "dpnb: JupyterLab is not installed. Run pip install 'dpnb[lessons]'.\n"

    def test_a_data_frame_of_spark_brings_its_own_spark(self):
        # nothing to refuse: such a frame exists only where pyspark is installed
        assert "import pyspark" not in (ROOT / "dpnb/engines/choice.py").read_text("utf-8")


def test_the_lessons_run_from_the_wheel_alone(wheel, bare):
    """Without a terminal and without a browser, as in a container."""
    # after the tests of the bare environment, which is not bare any more
    bare.install(f"dpnb[lessons] @ {wheel.as_uri()}")
    command, folder = bare.folder / "bin" / "dpnb", bare.work / "lessons"
    shown = run(command, "lessons", "--run", cwd=bare.work)
    assert f"Copied to {folder}: {len(LESSONS)} files." in shown
    assert re.search(r"Never-married +10,\d{3} +10,\d{3} to 10,\d{3}\n", shown)
    assert "Privacy cost: rho 0.02 (epsilon 0.9 at delta 1e-6)" in shown
    assert "dpnb-table" in (folder / "01_first_private_query.html").read_text("utf-8")
    with subprocess.Popen(
        [command, "lessons"], cwd=bare.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": ""},
    ) as started:  # fmt: skip
        try:
            said = iter(started.stdout)
            link = next(line for line in said if "http" in line).split()[-1]
            # not the page: another JupyterLab may get the port afterwards, but refuses this token
            status = link.replace(f"lab/tree/{FIRST}", "api/status")
            with urllib.request.urlopen(status) as reply:  # noqa: S310
                assert reply.status == 200
        finally:
            # its end ends JupyterLab
            started.terminate()
        assert started.wait(60) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(status)  # noqa: S310


def lowest(requirement: Requirement) -> str:
    (version,) = (one.version for one in requirement.specifier if one.operator == ">=")
    return f"{requirement.name}=={version}"


def test_the_oldest_versions_that_are_declared_pass(wheel, tmp_path):
    oldest = Environment.new(tmp_path)
    oldest.install(wheel, *TOOLS, *map(lowest, DECLARED))
    print("oldest:", oldest.versions())
    oldest.main_job(OLD_ONES_WARN)
    oldest.test("-W", OLD_ONES_WARN)
