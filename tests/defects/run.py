"""Plant each defect in a copy of the checkout and run the tests that should notice.

A defect breaks one promise in a few lines. The tables beside this file list them by area. A defect is
found by a text that stands exactly once in ``dpnb/``, and its tests by their names, so both may move
between files. A text or a name that is gone stops the run.

    python tests/defects/run.py                      all of them, in about half an hour on two cores
    python tests/defects/run.py --area noise         those of one table
    python tests/defects/run.py noise-15-percent     the named ones
    python tests/defects/run.py --list               names and promises only

A test notices a defect when it passes in the copy as it is and fails with the defect planted. The exit
code is 0 when every defect was noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIED = (
    "dpnb",
    "tests",
    "docs",
    "notebooks",
    "pyproject.toml",
    "README.md",
    "SECURITY.md",
    "LICENSE",
)
SECONDS = 600
"""A run of the tests that takes longer gives no verdict."""


@dataclass(frozen=True, slots=True)
class Defect:
    """One broken promise.

    ``tests`` are names of test functions, classes or files; a function of one class is written
    ``TestClass::test_name``. ``needs`` names the programs without which no test can notice.
    """

    name: str
    area: str
    promise: str
    find: str
    replace: str
    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()

    def place(self, files: dict[str, str]) -> str:
        """Return the name of the file that holds the text, which must stand in all of them once."""
        counts = {name: text.count(self.find) for name, text in files.items() if self.find in text}
        if sum(counts.values()) != 1:
            raise LookupError(
                f"{self.name}: the text to change stands {sum(counts.values())} times in dpnb/ "
                f"({', '.join(counts) or 'nowhere'})"
            )
        (name,) = counts
        return name

    def changed(self, source: str) -> str:
        """Return a file's text with the defect planted."""
        return source.replace(self.find, self.replace)


def defects() -> list[Defect]:
    """Return all defects, in the order of their files."""
    return [
        Defect(
            name=name,
            area=path.stem,
            promise=entry["promise"],
            find=entry["find"].strip("\n"),
            replace=entry["replace"].strip("\n"),
            tests=tuple(entry["tests"]),
            needs=tuple(entry.get("needs", ())),
        )
        for path in sorted(HERE.glob("*.toml"))
        for name, entry in tomllib.loads(path.read_text("utf-8")).items()
    ]


def package(root: Path) -> dict[str, str]:
    """Return the texts of the package's files, by name."""
    return {
        str(path.relative_to(root)): path.read_text("utf-8")
        for path in sorted((root / "dpnb").rglob("*"))
        if path.suffix in (".py", ".js", ".css")
    }


_NAMED = re.compile(r"^(?:class (Test\w*)|def (test_\w*)|    def (test_\w*)|\w)", re.MULTILINE)


def test_names(root: Path) -> dict[str, list[str]]:
    """Return where each test file, class and function is: name to pytest's addresses.

    Read from the beginnings of lines: parsing all tests takes a hundred times as long.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        file = str(path.relative_to(root))
        found[path.name].append(file)
        inside = ""
        for one in _NAMED.finditer(path.read_text("utf-8")):
            named, function, method = one.groups()
            if method and inside:
                address = f"{file}::{inside}::{method}"
                found[f"{inside}::{method}"].append(address)
                found[method].append(address)
            elif not method:
                inside = named or ""
                if named or function:
                    found[named or function].append(f"{file}::{named or function}")
    return found


def addresses(defect: Defect, names: dict[str, list[str]]) -> list[str]:
    """Return the addresses of the tests that should notice a defect."""
    missing = [name for name in defect.tests if name not in names]
    if missing:
        raise LookupError(f"{defect.name}: there is no test named {', '.join(missing)}")
    return [address for name in defect.tests for address in names[name]]


@dataclass(slots=True)
class Outcome:
    """What a run of tests said."""

    seconds: float
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the checkout in which tests run on the copied package."""

    root: Path

    @classmethod
    def made(cls, folder: Path) -> Copy:
        folder.mkdir()
        for name in COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns("__pycache__", "report")
                )
            else:
                shutil.copy(source, target)
        return cls(folder)

    def run(self, tests: Iterable[str], *, needs: bool, most: int) -> Outcome:
        """Run tests, at most until ``most`` of them failed."""
        report = self.root / "report.xml"
        report.unlink(missing_ok=True)
        # an address given twice would run twice
        command = [
            sys.executable, "-m", "pytest", *dict.fromkeys(tests), "-p", "no:cacheprovider",
            "-p", "no:xdist", "-o", "addopts=--import-mode=importlib -p no:schemathesis -q",
            f"--maxfail={most}", f"--junitxml={report}", *(["--all"] if needs else []),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        start = time.perf_counter()
        with (self.root / "output.txt").open("w") as output:
            try:
                code = subprocess.run(
                    command, cwd=self.root, env=environment, stdout=output, stderr=output,
                    stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                return Outcome(SECONDS, broken=f"not finished after {SECONDS} s")
        outcome = Outcome(time.perf_counter() - start)
        if code not in (0, 1) or not report.exists():
            lines = (self.root / "output.txt").read_text("utf-8").strip().splitlines()
            outcome.broken = f"pytest ended with {code}: {lines[-1] if lines else ''}"
            return outcome
        # a report of our own run
        for case in ET.parse(report).iter("testcase"):  # noqa: S314
            if case.find("failure") is not None or case.find("error") is not None:
                outcome.failed.append(f"{case.get('classname', '')}.{case.get('name')}")
            else:
                outcome.passed += 1
        return outcome

    def with_defect(self, defect: Defect, tests: Sequence[str]) -> Outcome:
        """Run tests with a defect planted, and take it out again."""
        place = self.root / defect.place(package(self.root))
        source = place.read_text("utf-8")
        changed = defect.changed(source)
        if place.suffix == ".py":
            ast.parse(changed)
        place.write_text(changed, "utf-8")
        try:
            return self.run(tests, needs=bool(defect.needs), most=3)
        finally:
            place.write_text(source, "utf-8")


def checked(chosen: Sequence[Defect], names: dict[str, list[str]]) -> Iterator[str]:
    """Yield what is wrong with defects, from their texts alone."""
    files = package(ROOT)
    placed: dict[str, list[Defect]] = defaultdict(list)
    for defect in chosen:
        try:
            place = defect.place(files)
            addresses(defect, names)
        except LookupError as error:
            yield str(error)
            continue
        if defect.find == defect.replace:
            yield f"{defect.name}: nothing is changed"
        if place.endswith(".py"):
            placed[place].append(defect)
    for place, several in placed.items():
        yield from _broken(files[place], several)


def _broken(source: str, several: Sequence[Defect]) -> Iterator[str]:
    """Yield which defects leave no Python behind; planted together at first, since parsing takes long."""
    together, alone = source, list[Defect]()
    for defect in several:
        if defect.find in together:
            together = defect.changed(together)
        else:
            alone.append(defect)
    try:
        ast.parse(together)
    except SyntaxError:
        alone = list(several)
    for defect in alone:
        try:
            ast.parse(defect.changed(source))
        except SyntaxError as error:
            yield f"{defect.name}: the changed file does not parse: {error}"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="defects; all of them without one")
    parser.add_argument("--list", action="store_true", help="print names and promises, run nothing")
    parser.add_argument("--area", help="only the defects of one file, such as noise")
    parser.add_argument("--without-programs", action="store_true",
                        help="leave out what only Node, Chromium, PostgreSQL or Spark can notice")  # fmt: skip
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    every = defects()
    unknown = set(options.names) - {defect.name for defect in every}
    if unknown:
        parser.error(f"there is no defect named {', '.join(sorted(unknown))}; see --list")
    chosen = [
        defect
        for defect in every
        if (not options.names or defect.name in options.names)
        and (options.area is None or defect.area == options.area)
        and not (options.without_programs and defect.needs)
    ]
    if options.list:
        for defect in chosen:
            print(textwrap.fill(f"{defect.area:<12}{defect.name}: {defect.promise}", 100,
                                subsequent_indent=" " * 14))  # fmt: skip
        return 0
    names = test_names(ROOT)
    wrong = list(checked(chosen, names))
    if wrong:
        print(*wrong, sep="\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="dpnb-defects-") as folder:
        return _report(chosen, names, Path(folder), options.processes)


def _report(
    chosen: Sequence[Defect], names: dict[str, list[str]], folder: Path, processes: int
) -> int:
    copies = [Copy.made(folder / f"copy{number}") for number in range(processes)]
    waiting: queue.SimpleQueue[Defect] = queue.SimpleQueue()
    for needs in (False, True):
        alike = [defect for defect in chosen if bool(defect.needs) == needs]
        if not alike:
            continue
        tests = [address for defect in alike for address in addresses(defect, names)]
        control = copies[0].run(tests, needs=needs, most=20)
        print(f"without a defect: {control.passed} tests pass, {control.seconds:.0f} s")
        if control.failed or control.broken:
            print("these must pass before anything is planted:", control.broken, *control.failed)
            return 2
    for defect in chosen:
        waiting.put(defect)
    results: dict[str, Outcome] = {}
    printing = threading.Lock()

    def work(copy: Copy) -> None:
        while True:
            try:
                defect = waiting.get_nowait()
            except queue.Empty:
                return
            outcome = copy.with_defect(defect, addresses(defect, names))
            with printing:
                results[defect.name] = outcome
                _print(defect, outcome)

    threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    noticed = [defect for defect in chosen if results[defect.name].failed]
    python = sum(not defect.needs for defect in noticed)
    print(
        f"\n{len(noticed)} of {len(chosen)} defects noticed, {python} of them by tests that need "
        "Python only"
    )
    missed = [defect.name for defect in chosen if defect not in noticed]
    if missed:
        print("not noticed:", ", ".join(missed))
    return 1 if missed else 0


def _print(defect: Defect, outcome: Outcome) -> None:
    verdict = "noticed" if outcome.failed else outcome.broken or "NOT NOTICED"
    print(f"{verdict:<12}{outcome.seconds:6.1f} s  {defect.area:<10} {defect.name}", flush=True)
    for test in outcome.failed:
        print(f"{'':22}{test}")


if __name__ == "__main__":
    sys.exit(main())
