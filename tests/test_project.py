"""What the project says of itself in several files agrees."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

import dpnb
from tests.kit import prose, strings

pytestmark = pytest.mark.fast

ROOT = prose.ROOT


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load(read("CITATION.cff"))


class TestCitation:
    def test_it_is_of_this_version_under_its_licence(self, citation):
        project = tomllib.loads(read("pyproject.toml"))["project"]
        assert citation["cff-version"] == "1.2.0"
        assert str(citation["version"]) == dpnb.__version__
        assert citation["license"] == project["license"]
        assert citation["abstract"] == project["description"]
        assert citation["authors"] == project["authors"]
        # the one place of the project's addresses is [project.urls]
        assert citation.get("repository-code") == project.get("urls", {}).get("Source")

    def test_it_names_the_papers_that_the_documentation_names(self, citation):
        papers = {paper["title"]: paper for paper in citation["references"]}
        page = read("docs/references.md")
        rows = [row for row in page.splitlines() if "(methods/" in row and row.startswith("|")]
        assert len(rows) == len(papers) == 5
        for row in rows:
            paper = papers[re.search(r"\*(.+?)\*", row)[1]]
            assert all(one["family-names"] in row for one in paper["authors"])
            assert str(paper["year"]) in row


def test_the_changelog_has_this_version_and_the_usual_headings():
    text = read("CHANGELOG.md")
    assert re.search(rf"(?m)^## \[{re.escape(dpnb.__version__)}\] - ", text)
    headings = re.findall(r"(?m)^### (.+)$", text)
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.stem)
def test_issue_forms_ask_something(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    if path.stem == "config":
        assert form == {"blank_issues_enabled": False}
        return
    assert {"name", "description", "body"} <= set(form)
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert asked
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)


def test_every_module_is_on_one_surface():
    """``python -m tests.kit.strings`` prints the texts of each."""
    for module, texts in strings.modules().items():
        if module in strings.SILENT:
            assert texts == [], module
        else:
            assert len(strings.surfaces(module)) == 1, module
