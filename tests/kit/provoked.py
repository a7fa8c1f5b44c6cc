"""Which refusals the tests provoke: ``pytest --refusals=FILE``.

Runs add up in FILE. At the end the listed refusals that no run has provoked are printed, and the run fails if there
are any. A refusal is provoked when its place, or a function that it hands its message to, made an error with it. What a function returns as a message and a hint is provoked when
any error was made of both.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dpnb import errors
from tests.kit import prose
from tests.kit.refusals import RETURNED, Reader, Refusal

_ROOT = str(prose.ROOT / "dpnb") + "/"
_KEY = pytest.StashKey["Provoked"]()


class Provoked:
    """Notes where errors are made, one line for each place and message."""

    def __init__(self) -> None:
        reader = Reader()
        self.refusals = list(dict.fromkeys(reader.found))
        spans = [one for helpers in reader.helpers.values() for one in helpers]
        self._helpers = {
            (one.file, line) for one in spans for line in range(one.first, one.last + 1)
        }
        self._at: dict[tuple[str, int], list[Refusal]] = {}
        for one in self.refusals:
            for line in range(one.first, one.last + 1):
                self._at.setdefault((one.file, line), []).append(one)
        self._returned = [
            one for one in self.refusals if one.function.rpartition(".")[2] in RETURNED
        ]
        self.seen: set[str] = set()
        made = errors.DpnbError.__init__

        def init(error: errors.DpnbError, what: str, hint: str = "", where: str = "") -> None:
            made(error, what, hint, where)
            self._note(what, hint)

        errors.DpnbError.__init__ = init  # type: ignore[method-assign]

    def _note(self, what: str, hint: str) -> None:
        self.seen |= {key(one) for one in self._returned if one.matches(what) and one.hint == hint}
        frame: Any = sys._getframe(2)
        while frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            if file.startswith(_ROOT) and not file.endswith("/errors.py"):
                place = file.removeprefix(_ROOT), line
                self.seen |= {key(one) for one in self._at.get(place, ()) if one.matches(what)}
                if place not in self._helpers:
                    return
            frame = frame.f_back

    def missing(self) -> list[Refusal]:
        """Return the refusals that were not provoked, each message of a function once."""
        return list({key(one): one for one in self.refusals if key(one) not in self.seen}.values())


def key(one: Refusal) -> str:
    """Return what a refusal is known by, wherever its lines move."""
    return json.dumps([one.file, one.function, one.what])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dpnb").addoption(
        "--refusals",
        metavar="FILE",
        help="add the refusals that are provoked to FILE, and fail unless all are",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--refusals"):
        config.stash[_KEY] = Provoked()
        # now, or what is no such file would be noticed at the end of a long run
        file = Path(config.getoption("--refusals"))
        if file.exists():
            config.stash[_KEY].seen |= set(json.loads(file.read_text("utf-8")))


def pytest_sessionfinish(session: pytest.Session) -> None:
    provoked = session.config.stash.get(_KEY, None)
    if provoked is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["refusals"] = sorted(provoked.seen)
        return
    file = Path(session.config.getoption("--refusals"))
    file.write_text(json.dumps(sorted(provoked.seen), indent=0), "utf-8")
    if provoked.missing() and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of pytest-xdist has seen."""
    provoked = node.config.stash.get(_KEY, None)
    if provoked is not None:
        provoked.seen |= set(getattr(node, "workeroutput", {}).get("refusals", ()))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    provoked = config.stash.get(_KEY, None)
    if provoked is None:
        return
    missing = provoked.missing()
    terminalreporter.section(
        f"{len(missing)} of {len(provoked.refusals)} refusals were not provoked"
    )
    for one in missing:
        terminalreporter.line(
            f"{one.file} {one.function}: {one.what}".replace("\x02", "*").replace("\x03", "*")
        )
