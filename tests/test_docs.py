"""The pages of docs: their code runs, their links lead somewhere, their sentences are short."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnb
from dpnb.server.limits import Limits
from dpnb.server.openapi import describe
from tests.kit import prose

ROOT = prose.ROOT
PAGES = sorted((ROOT / "docs").rglob("*.md"))
LONGEST_MEAN = 18
"""Words of a sentence, on average."""
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STATEMENT = re.compile(r"`((?:SELECT|WITH)\b[^`]*)`")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, *languages: str) -> Iterator[tuple[str, str, int]]:
    """Yield language, code and line of the blocks of a page."""
    text = path.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        if found[1] in languages:
            yield found[1], found[2], text.count("\n", 0, found.start(2))


def write_tables(folder: Path) -> None:
    """Write the files that the pages read."""
    draw = np.random.default_rng(0)
    size, ids = 2_000, np.arange(2_000) // 4
    sex, job = draw.choice(["Female", "Male"], size), draw.choice(["clerk", "cook", "nurse"], size)
    wage = np.round(draw.gamma(9, 3, size) + 30 * (sex == "Male"), 2)
    age = draw.integers(17, 91, size)
    people = pd.DataFrame({"sex": sex, "age": age, "job": job, "wage": wage})
    people.to_parquet(folder / "people.parquet")
    visits = pd.DataFrame({"person_id": ids, "sex": sex[ids], "age": age[ids]})
    visits["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(draw.integers(0, 365, size), "D")
    visits["cost"], visits["city"] = wage, draw.choice(["Lyon", "Paris", "Nice"], 500)[ids]
    visits.to_csv(folder / "visits.csv", index=False)


@pytest.mark.parametrize("page", [p for p in PAGES if [*blocks(p, "python")]], ids=name)
def test_code_runs_as_it_stands(page, tmp_path, monkeypatch):
    """Page by page, in a folder with the files that it names; ``# NAME.toml`` heads a file to write."""
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    with contextlib.ExitStack() as opened:
        opened.callback(lambda: close(names))
        for language, code, line in blocks(page, "python", "toml"):
            if language == "toml":
                Path(code.partition("\n")[0].removeprefix("# ")).write_text(code, "utf-8")
            else:
                exec(compile("\n" * line + code, str(page), "exec"), names)  # noqa: S102


def close(names: dict[str, object]) -> None:
    for held in names.values():
        if isinstance(held, (dpnb.Session, dpnb.Curator)):
            held.close()


@pytest.fixture(scope="module")
def session():
    with dpnb.Session(dpnb.datasets.adult(), budget=dpnb.Budget(rho=1)) as session:
        yield session


class TestSql:
    PAGE = ROOT / "docs" / "sql.md"

    def test_what_is_shown_is_answered(self, session):
        statements = [code for _, code, _ in blocks(self.PAGE, "sql")]
        assert len(statements) > 4
        session.price(statements, rho=0.001)

    def test_what_is_said_to_be_refused_is_refused_and_what_is_written_instead_is_not(
        self, session
    ):
        rows = re.findall(
            r"^\| (`(?:SELECT|WITH).*) \| (.*) \|$", self.PAGE.read_text(), re.MULTILINE
        )
        assert len(rows) > 10
        for refused, instead in rows:
            (wrong,) = _STATEMENT.findall(refused)
            with pytest.raises(dpnb.DpnbError):
                session.price(wrong, rho=0.001)
            for right in _STATEMENT.findall(instead):
                session.price(right, rho=0.001)

    def test_what_other_systems_write_is_one_release_with_what_is_written_here(self):
        rows = re.findall(
            r"^\| [^`|]+ \| `(SELECT.*)` \| `(SELECT.*?)`(?: with `epsilon=(.*)`)? \|$",
            self.PAGE.read_text(), re.MULTILINE,
        )  # fmt: skip
        assert len(rows) > 4
        with dpnb.Session(
            dpnb.datasets.adult(), budget=dpnb.Budget(epsilon=3, delta=1e-6)
        ) as opened:
            for theirs, ours, epsilon in rows:
                opened.query(theirs, **({} if epsilon else {"epsilon": 0.1}))
                assert opened.query(ours, epsilon=epsilon or 0.1).spent.rho == 0


def anchors(path: Path) -> set[str]:
    """Return what links can name within a file: headings, and the cells of a notebook."""
    text = re.sub(r"^(```|~~~).*?^\1", "", prose.markdown_of(path), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    if path.suffix != ".ipynb":
        return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
    cells = {f"cell-id={cell['id']}" for cell in json.loads(path.read_text("utf-8"))["cells"]}
    return cells | {one.replace(" ", "-") for one in headings}


@pytest.mark.fast
@pytest.mark.parametrize("path", prose.files(), ids=name)
def test_relative_links_lead_to_a_file_and_a_heading(path):
    for link in prose.links(prose.markdown_of(path)):
        if re.match(r"\w+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


@pytest.mark.fast
def test_the_page_that_lessons_carry_along_has_no_relative_links():
    assert not prose.links((ROOT / "SECURITY.md").read_text("utf-8"))


@pytest.mark.fast
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_sentences_are_short(page):
    assert prose.mean_length(page.read_text("utf-8")) <= LONGEST_MEAN


def test_paths_of_the_service_exist():
    described = describe("", Limits())["paths"]
    known = {*described, "/v2/openapi.json"}
    said = {
        (name(page), path)
        for page in (*PAGES, *ROOT.glob("*.md"))
        for path in re.findall(r"/v\d+/[a-z.]+", page.read_text("utf-8"))
    }
    assert said
    assert {path for _, path in said} <= known, said
