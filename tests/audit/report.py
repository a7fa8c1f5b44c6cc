"""Writes the audit report: what each mechanism loses at least, what whole sessions lose exactly, and how often
intervals, decisions, private choices and the sentences of explanations are right; beside each claim, planted
defects that must be caught.

    python -m tests.audit.report [--runs 1000000] [--sessions 2000] [--output audit.md]

Draws from the operating system. Takes an hour or two on one core; leaves with 1 when a claim is broken or a
defect is not caught.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.noise import SecureNoise
from tests.audit import choices as private
from tests.audit.bounds import delta_bound
from tests.audit.cases import CASES, HIDDEN, lone_values
from tests.audit.coverage import CLAIMS, EQUAL, EQUALITIES, covered, decided, equal, may_be
from tests.audit.losses import ERROR, audit
from tests.audit.sentences import AGGREGATES, AS_IT_IS, CAUGHT, told
from tests.audit.whole import (
    DEFECTS,
    EXPLANATIONS,
    ON_IDS,
    ON_ROWS,
    PLAIN,
    ROWS,
    UNIT,
    id_tables,
    row_tables,
    worst,
)

NARROWED = 0.2
"""The share of their width of the intervals that give a wrong decision's verdicts."""
CLOSE = 1e-9
"""The rounding of exact losses, as a share."""


_AS_IT_IS = "as it is"


def _planted(defect: str) -> str:
    return f"*defect:* {defect}"


@dataclass
class Report:
    """Markdown, and whether all is as it must be."""

    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def say(self, *lines: str) -> None:
        self.lines += [*lines, ""]

    def table(self, head: Sequence[str], rows: Iterable[tuple[bool, Sequence[str]]]) -> None:
        """Add a table; each row with whether it is as it must be."""
        self.lines += ["| " + " | ".join([*head, ""]) + " |", "|" + " --- |" * (len(head) + 1)]
        for right, cells in rows:
            self.lines.append(
                "| " + " | ".join([*cells, "as it must be" if right else "**WRONG**"]) + " |"
            )
            print(self.lines[-1], file=sys.stderr, flush=True)
            if not right:
                self.wrong.append(cells[0])
        self.lines.append("")


def mechanisms(runs: int) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the rows of section 1."""
    noise = SecureNoise()
    for case in CASES:
        for one in audit(case, runs, noise):
            kind = _planted(one.defect) if one.defect else _AS_IT_IS
            yield (
                one.right,
                [
                    one.case,
                    kind,
                    f"{one.unit} = {one.claim:.4g}",
                    f"{one.found:.4g}",
                    f"{one.runs:,}",
                ],
            )
    never = lone_values(10**9, runs, noise)
    for threshold, kind in ((HIDDEN.count, ""), (HIDDEN.count - 2, "a threshold lower by 2")):
        found = delta_bound(lone_values(threshold, runs, noise), never, ERROR)
        yield (
            (found > float(HIDDEN.delta)) == bool(kind),
            [
                "Discovery: a value of one row is shown",
                _planted(kind) if kind else _AS_IT_IS,
                f"delta = {float(HIDDEN.delta):.4g}",
                f"{found:.4g}",
                f"{runs:,}",
            ],
        )


def sessions() -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the rows of section 2."""
    parts = (
        ("rows", ZCDP, lambda: row_tables(ROWS, 3), ON_ROWS),
        ("rows", ZCDP, lambda: row_tables(PLAIN, 5), EXPLANATIONS),
        ("ids", ZCDP, lambda: id_tables(2, UNIT), ON_IDS),
        ("rows", PURE, lambda: row_tables(ROWS, 3), ON_ROWS),
        ("ids", PURE, lambda: id_tables(2, UNIT), ON_IDS),
    )
    for unit, privacy, tables, scripts in parts:
        for name, (script, least) in scripts.items():
            if scripts is EXPLANATIONS:
                name = f"an explanation {name}"
            found, charged = worst(tables(), script, privacy)
            yield (
                least * charged * (1 - 1e-6) <= found <= charged * (1 + CLOSE),
                [unit, name, privacy, _AS_IT_IS, f"{charged:.6g}", f"{found:.6g}"],
            )
    for defect in DEFECTS:
        for privacy in defect.definitions:
            for name in defect.scripts:
                found, charged = defect.worst(name, privacy)
                cells = [defect.unit, name, privacy, _planted(defect.name)]
                yield found > charged * (1 + CLOSE), [*cells, f"{charged:.6g}", f"{found:.6g}"]


def intervals(runs: int) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the rows of section 3."""
    for privacy in (ZCDP, PURE):
        for name, claim in CLAIMS.items():
            widths = (1.0, claim.narrowed)
            for width, hits in zip(widths, covered(claim, privacy, runs, *widths), strict=True):
                kept = may_be(hits, runs, claim.confidence, ERROR)
                yield (
                    kept == (width == 1),
                    [
                        name,
                        privacy,
                        _AS_IT_IS if width == 1 else _planted(f"{width:.0%} of the width"),
                        f"{claim.confidence:.0%}",
                        f"{hits / runs:.2%}",
                    ],
                )


def decisions(runs: int) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the rows of section 4."""
    for privacy in (ZCDP, PURE):
        for beta in (0.05, 0.2):
            errors, planted = decided(privacy, beta, runs, NARROWED)
            for what, version, count, limit in (
                ("a satisfying group is left out", "", errors.missed, beta),
                ("a satisfying group is left out", "no uncertain region", planted.missed, beta),
                ("a certificate is wrong", "", errors.uncertain, 0.05),
                (
                    "a certificate is wrong",
                    f"{NARROWED:.0%} of the intervals' width",
                    planted.uncertain,
                    0.05,
                ),
            ):
                yield (
                    may_be(runs - count, runs, 1 - limit, ERROR) != bool(version),
                    [
                        what,
                        f"{privacy}, beta = {beta}",
                        _planted(version) if version else _AS_IT_IS,
                        f"at most {limit:.0%}",
                        f"{count / runs:.2%}",
                    ],
                )


def equalities(runs: int) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the rows of section 5."""
    beta, groups = 0.05, runs * EQUAL
    for privacy in (ZCDP, PURE):
        for mode in ("certified", "margin", "rr", "hybrid"):
            for having in EQUALITIES:
                pairs = [equal(having, mode, privacy, beta) for _ in range(runs)]
                defect = "equality is false" if mode in ("rr", "hybrid") else "no uncertain region"
                for version, missed in zip(
                    ("", defect), map(sum, zip(*pairs, strict=True)), strict=True
                ):
                    yield (
                        may_be(groups - missed, groups, 1 - beta, ERROR) != bool(version),
                        [
                            f"`{having}`",
                            f"{privacy}, {mode}",
                            _planted(version) if version else _AS_IT_IS,
                            f"at most {beta:.0%}",
                            f"{missed / groups:.2%}",
                        ],
                    )


def sentences(runs: int) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the rows of section 6."""
    for name in AGGREGATES:
        for defect, counts in told(name, runs, AS_IT_IS, *CAUGHT[name]).items():
            kept = all(may_be(true, said, 0.95, ERROR) for true, said in counts)
            least = min(true / said for true, said in counts)
            yield (
                kept == (defect == AS_IT_IS),
                [
                    f"a difference of {name}",
                    _planted(defect) if defect else _AS_IT_IS,
                    "95%",
                    f"{least:.2%}",
                ],
            )


def choices(runs: int) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the rows of section 7."""
    noise, allowed = SecureNoise(), f"at most {private.ALLOWED:.0%}"
    for case in private.cases():
        count = private.false(case, runs, noise)
        kept = may_be(runs - count, runs, 1 - private.ALLOWED, ERROR)
        yield kept, [str(case), _AS_IT_IS, allowed, f"{count / runs:.2%}"]
    for name in private.DEFECTS:
        with private.planted(name):
            count = private.false(private.CAUGHT, runs, noise)
        kept = may_be(runs - count, runs, 1 - private.ALLOWED, ERROR)
        yield not kept, [str(private.CAUGHT), _planted(name), allowed, f"{count / runs:.2%}"]
    count = private.tail_false(runs, noise)
    kept = may_be(runs - count, runs, 1 - private.ALLOWED, ERROR)
    where = "32,561 people, 19 of them exposed, zcdp"
    defect = "the paper's tail, which has no margin"
    yield not kept, [where, _planted(defect), allowed, f"{count / runs:.2%}"]


def commit() -> str:
    """Return which code this is, or nothing where git does not tell."""
    asked = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
    ]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at commit {found.stdout.strip()}"


def written(runs: int, number: int) -> Report:
    """Return the report."""
    report, today = Report(), datetime.datetime.now(datetime.UTC).date()
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("opendp", "duckdb", "numpy")
    )
    package = f"dpnb {importlib.metadata.version('dpnb')}{commit()}"
    report.say(
        "# Audit of dpnb",
        f"{today}: {package}. Python {platform.python_version()}, {platform.system()}, {versions}.",
        "Made by `python -m tests.audit.report`. Everything below was drawn with the noise that is in use.",
        "Every part also audits versions that are wrong on purpose: an audit that does not notice them would be worth "
        "nothing. *As it must be* says of what is in use that its claim was not refuted, and of a defect that it "
        f"was. A claim that is true is refuted by chance in at most one of {1 / ERROR:,.0f} reports, in each line.",
        "## 1. What mechanisms lose at least",
        "Each mechanism runs on two neighbouring inputs. From what it shows, a classifier learns which input it was; "
        "on the other half of the runs, what the classifier says gives a lower bound on the privacy loss, without "
        "any assumption on the noise (`tests/audit/bounds.py` has the inequalities). A bound above the claim is a proof "
        "that the claim is false. A bound below it is no proof that it is true: for that, read the proofs in the "
        "docstrings, and section 2.",
    )
    report.table(["mechanism", "version", "claim", "lower bound", "runs"], mechanisms(runs))
    report.say(
        "## 2. What whole sessions lose exactly",
        "Statements go the whole way, from text to charge, on every table of up to three rows (explanations: five; "
        "ids: two, with up to four rows each) with values at the bounds, beyond them, missing and undeclared. The "
        "noise is replaced by one that notes what it is to hide. The loss between two tables that differ by one row, or "
        "by all rows of one id, is then a sum over the draws, and exact: rho in zCDP sessions, epsilon in pure ones. It "
        "must not exceed the charge; in most it reaches it, so that nothing is charged that is not needed. Where it "
        "stays below, larger tables would be needed to lose more, or a search ended before its last draw.",
    )
    report.table(
        ["unit", "statements", "privacy", "version", "charged", "largest loss"], sessions()
    )
    report.say(
        "## 3. How often intervals hold",
        f"Sessions on a table of 600 rows, {number:,} of each kind. All intervals of an answer must hold together. A "
        "measured share may lie a little below the claim by chance: a claim counts as refuted when so few hits, or "
        f"fewer, would come of a true one with a chance of at most {ERROR:g}. Shares, medians and differences hold more "
        "often than claimed, because their bounds are not tight; so they must be drawn in more until it is noticed.",
    )
    report.table(["intervals", "privacy", "version", "claim", "measured"], intervals(number))
    report.say(
        "## 4. How often decisions err",
        f"{number:,} decisions of each kind, with two conditions. One group satisfies both by a single row, or unit of "
        "the sum, which is where errors are likeliest. It may be left out with a chance of beta; a *surely yes* or "
        "*surely no* may be wrong, of any group, with a chance of 5 %.",
    )
    report.table(["error", "session", "version", "claim", "measured"], decisions(number))
    alike = max(1, number // EQUAL)
    report.say(
        "## 5. How often a group exactly at its threshold is left out",
        f"{alike * EQUAL:,} groups of each kind, every one exactly at the threshold of a condition that equality "
        "satisfies. That is where groups are left out most often; it must be no more often than beta.",
    )
    report.table(["condition", "session", "version", "claim", "measured"], equalities(alike))
    report.say(
        "## 6. How often what an explanation says is true",
        f"{number:,} explanations of each kind, of a table of 2,000 rows. What is said of leaving out the rows of a "
        "predicate (that the difference is lower, higher or reversed, and at most or at least how large) is held "
        "against the table without these rows; the predicate of which it is true least often counts.",
    )
    report.table(["sentences on", "version", "claim", "measured"], sentences(number))
    report.say(
        "## 7. How often private choices say something false",
        "Safe counts say how many people at most, and which share of all, are above a limit at each of several levels; "
        "whatever limit or level is picked from them, all sentences must hold together in 95 of 100 releases. "
        f"{number:,} releases each, of tables from small to large in which few or many are exposed. That the table "
        "has at least so many people counts as a sentence, too.",
    )
    report.table(["table", "version", "claim", "measured"], choices(number))
    verdict = "Every claim held and every planted defect was caught."
    report.say(
        "## Result",
        verdict if not report.wrong else "**Not as it must be:** " + ", ".join(report.wrong),
    )
    return report


def main() -> int:
    """Write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000_000, help="of each mechanism")
    parser.add_argument("--sessions", type=int, default=2_000, help="of each kind of interval")
    parser.add_argument("--output", type=Path, default=Path("audit.md"))
    options = parser.parse_args()
    report = written(options.runs, options.sessions)
    options.output.write_text("\n".join(report.lines))
    print(report.lines[-2])
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
