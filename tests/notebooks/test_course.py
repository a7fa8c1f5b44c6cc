"""The lessons and the glossary hang together: links, order, exercises, words."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests.kit.prose import minutes

pytestmark = pytest.mark.fast

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(FOLDER.glob("0*.ipynb"))
GLOSSARY = FOLDER / "glossary.ipynb"
LINK = re.compile(r"\]\(([^)\s]+)\)")
LONGEST = 20
"""Minutes of a lesson."""
FIRST_ANSWER = 540
"""Words before the first private answer: three minutes."""


def cells(path: Path) -> list[tuple[str, str, dict]]:
    """Return the kinds, sources and metadata of a notebook's cells."""
    stored = json.loads(path.read_text())["cells"]
    return [(cell["cell_type"], "".join(cell["source"]), cell["metadata"]) for cell in stored]


def prose(path: Path) -> list[str]:
    """Return the Markdown cells of a notebook."""
    return [source for kind, source, _ in cells(path) if kind == "markdown"]


def headings(path: Path) -> list[str]:
    """Return a notebook's headings, without those in code."""
    text = re.sub(r"```.*?```", "", "\n".join(prose(path)), flags=re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def links(path: Path) -> list[tuple[Path, str]]:
    """Return where a notebook's relative links lead: files, and anchors in them."""
    found = [link for text in prose(path) for link in LINK.findall(text)]
    parts = [link.partition("#") for link in found if "://" not in link]
    return [(path.parent / name if name else path, at) for name, _, at in parts]


def identifiers(path: Path) -> list[str]:
    return [cell["id"] for cell in json.loads(path.read_text())["cells"]]


def terms() -> list[str]:
    return [text.removeprefix("## ").partition("\n")[0] for text in prose(GLOSSARY)[1:]]


@pytest.mark.parametrize("path", [*LESSONS, GLOSSARY], ids=lambda path: path.stem)
def test_relative_links_resolve(path):
    for target, at in links(path):
        assert target.exists(), target
        if target == path:
            # as JupyterLab names them
            assert at in [heading.replace(" ", "-") for heading in headings(path)], at
        elif at:
            # by its heading JupyterLab finds no place in a notebook that it has just opened
            cell = at.removeprefix("cell-id=")
            assert cell != at
            assert cell in identifiers(target), (target, at)


@pytest.mark.parametrize("path", [*LESSONS, GLOSSARY], ids=lambda path: path.stem)
def test_relative_links_stay_among_the_lessons(path):
    """JupyterLab serves their folder, and `dpnb lessons` copies it: what lies above is not found."""
    assert {link for text in prose(path) for link in LINK.findall(text) if ".." in link} == set()


@pytest.mark.parametrize("place", range(len(LESSONS)), ids=lambda place: LESSONS[place].stem)
def test_lessons_are_a_chain(place):
    last = LINK.findall(prose(LESSONS[place])[-1])
    if place > 0:
        assert LESSONS[place - 1].name in {target.name for target, _ in links(LESSONS[place])}
    if place + 1 < len(LESSONS):
        assert LESSONS[place + 1].name in last
    else:
        assert "SECURITY.md" in last


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_an_opening_exercises_and_a_summary(path):
    opening, *_ = texts = prose(path)
    assert re.search(r"\d+ minutes", opening)
    assert "You can now" in texts[-1]
    _, sources, metadata = zip(*cells(path), strict=True)
    tags = [held.get("tags", [""])[0] for held in metadata]
    exercises = [place for place, tag in enumerate(tags) if tag == "exercise"]
    assert 3 <= len(exercises) <= 5
    assert tags.count("check") == len(exercises)
    for number, place in enumerate(exercises, 1):
        question, answer, _, solution = sources[place - 1 : place + 3]
        assert question.startswith(f"**Exercise {number}.** ")
        assert "..." in answer
        assert "check" in metadata[place + 1]["tags"]
        assert metadata[place + 1]["jupyter"]["source_hidden"]
        assert solution.startswith("<details>\n<summary>Solution</summary>\n\n```python\n")
        assert solution.endswith("\n\n</details>")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_takes_as_long_as_it_says(path):
    stated = int(re.search(r"(\d+) minutes", prose(path)[0])[1])
    assert stated == 5 * math.ceil(minutes(path) / 5)
    assert stated <= LONGEST


def test_the_first_private_answer_comes_within_three_minutes():
    before = []
    for _, source, _ in cells(LESSONS[0]):
        before.append(source)
        if source.startswith("%%dpquery"):
            break
    text = LINK.sub("]", "\n".join(before))
    assert len(text.split()) <= FIRST_ANSWER
    # whose data are protected is said before anything is spent
    assert "one row" in text.lower()
    assert "one person" in text.lower()


def test_the_glossary_is_sorted_words_only():
    assert {kind for kind, _, _ in cells(GLOSSARY)} == {"markdown"}
    assert [text.count("## ") for text in prose(GLOSSARY)[1:]] == [1] * len(terms())
    assert terms() == sorted(terms())
    assert len(terms()) == len(set(terms()))


def test_every_word_leads_to_the_lesson_that_first_links_it():
    first: dict[str, Path] = {}
    for path in LESSONS:
        for target, at in links(path):
            if target == GLOSSARY:
                first.setdefault(at.removeprefix("cell-id="), path)
    entries = zip(terms(), identifiers(GLOSSARY)[1:], prose(GLOSSARY)[1:], strict=True)
    for term, identifier, text in entries:
        assert identifier in first, f"no lesson links {term}"
        assert first[identifier] in {FOLDER / link for link in LINK.findall(text)}, term


@pytest.mark.parametrize("path", [*LESSONS, GLOSSARY], ids=lambda path: path.stem)
def test_nothing_of_one_machine_is_stored(path):
    # pictures are text of 64 letters, in which anything may occur
    text = re.sub(r"[\w+/=\\]{200,}", "", path.read_text())
    found = re.findall(r"/home/|/root/|/tmp/|/Users/|127\.0\.0\.1:\d+|\w:\\\\", text)
    assert not found
