"""The lessons, run from top to bottom in a real JupyterLab by a person's front end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.kit import notebooks

FOLDER = Path(__file__).parents[2] / "notebooks"

pytestmark = pytest.mark.lab


def opened(name, lab, new_page):
    notebook = notebooks.read(FOLDER / name)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    (lab.root / name).write_text(notebooks.text(notebook))
    shutil.copy(FOLDER / "exercises.py", lab.root)
    page = new_page(viewport={"width": 1100, "height": 3000})
    lab.open(page, name)
    lab.run(page)
    return page


@pytest.fixture(scope="module")
def page(lab, new_page):
    first = opened("01_first_private_query.ipynb", lab, new_page)
    yield first
    first.close()


@pytest.fixture(scope="module")
def second(lab, new_page):
    page = opened("02_explain_an_answer.ipynb", lab, new_page)
    yield page
    page.close()


@pytest.fixture(scope="module")
def third(lab, new_page):
    page = opened("06_choose_epsilon.ipynb", lab, new_page)
    yield page
    page.close()


def outputs(page):
    """Return, for each code cell, the kinds of its outputs."""
    return page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets
             .filter(c => c.model.type === 'code')
             .map(c => [c.model.getMetadata('tags') || [],
                        Array.from({ length: c.model.outputs.length },
                                   (_, i) => c.model.outputs.get(i).type)])"""
    )


def test_every_cell_ran_and_failed_only_where_it_shall(page):
    found = outputs(page)
    assert len(found) > 15
    for tags, kinds in found:
        assert ("error" in kinds) == ("raises-exception" in tags)


def test_a_query_cell_shows_one_look_live(page):
    cell = page.locator(".jp-CodeCell", has_text="-o people").first
    cell.scroll_into_view_if_needed()
    expect(cell.locator(".jp-OutputArea-child .dpnb-table:visible")).to_have_count(1)
    expect(cell.get_by_text("Saved copy of this result")).to_be_visible()


def test_a_refusal_is_one_line(page):
    cell = page.locator(".jp-Cell", has_text="MAX(age)").last
    cell.scroll_into_view_if_needed()
    error = cell.locator(".jp-RenderedText[data-mime-type*='stderr'], .jp-OutputArea-output pre")
    # the front end draws what comes into view
    expect(error.last).to_contain_text("MIN and MAX cannot be answered")
    assert "\n" not in error.last.inner_text().strip()


def test_an_exercise_tells_whether_an_answer_is_right_and_hides_its_solution(page):
    solution = page.locator("details", has_text="Solution").first
    solution.scroll_into_view_if_needed()
    expect(solution.locator("pre")).to_be_hidden()
    answer = page.locator(".jp-CodeCell", has_text="meaning = ...")
    expect(answer.locator(".jp-InputArea-editor")).to_have_count(1)
    check = page.locator(".jp-CodeCell", has_text="Not answered yet").first
    expect(check.locator(".jp-InputArea-editor")).to_have_count(0)
    page.evaluate(
        """() => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          const place = notebook.widgets.findIndex(
            c => (c.model.getMetadata('tags') || []).includes('exercise'));
          notebook.widgets[place].model.sharedModel.setSource('meaning = "b"');
          notebook.activeCellIndex = place;
        }"""
    )
    for _ in range(2):
        page.evaluate(
            "void window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
        )
    expect(page.locator(".jp-CodeCell", has_text="Right. The interval is about")).to_have_count(1)
    solution.locator("summary").click()
    expect(solution.locator("pre")).to_have_text('meaning = "b"')


def test_the_second_lesson_ran_without_an_error(second):
    found = outputs(second)
    assert len(found) > 15
    assert not [kinds for _, kinds in found if "error" in kinds]


def test_an_explanation_cell_shows_one_look_live(second):
    cell = second.locator(".jp-Cell", has_text="-o why").first
    cell.scroll_into_view_if_needed()
    expect(cell.locator(".jp-OutputArea-child .dpnb-table:visible")).to_have_count(1)
    expect(cell.get_by_text("Saved copy of this result")).to_be_visible()
    cell.get_by_role("button", name="Pick").first.click()
    expect(cell.locator("output:visible").first).to_contain_text("rows with")


def test_a_doubtful_question_is_shown_and_not_explained(second):
    cell = second.locator(".jp-Cell", has_text="'Married-AF-spouse' >").first
    cell.scroll_into_view_if_needed()
    # that noise may explain it, or rarely, that the answer shows the opposite
    expect(cell.get_by_text("Nothing was spent.")).to_be_visible()


def test_the_third_lesson_failed_only_where_it_shall(third):
    found = outputs(third)
    assert len(found) > 15
    for tags, kinds in found:
        assert ("error" in kinds) == ("raises-exception" in tags)


def test_a_risk_cell_shows_the_picker_live(third):
    cell = third.locator(".jp-Cell", has_text="-o picker").first
    cell.scroll_into_view_if_needed()
    slider = cell.get_by_role("slider")
    expect(slider).to_be_visible()
    before = cell.locator("output:visible").first.inner_text()
    slider.focus()
    third.keyboard.press("ArrowRight")
    expect(cell.locator("output:visible").first).not_to_have_text(before)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The link that `dpnb lessons` prints at a terminal, and what stops it."""
    place = tmp_path_factory.mktemp("reader")
    kept = {
        k: v for k, v in os.environ.items() if k not in {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}
    }
    environment = kept | {"HOME": str(place), "JUPYTER_CONFIG_DIR": str(place / "config")}
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dpnb", "lessons", "my lessons"],
        cwd=place, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    ) as started:  # fmt: skip
        os.close(theirs)
        with open(ours, encoding="utf-8", errors="replace") as terminal:  # noqa: PTH123
            said = iter(terminal.readline, "")
            yield next(line for line in said if "http" in line).split()[-1]
            started.terminate()
            started.wait(30)


def test_a_link_from_the_terminal_opens_the_first_lesson_and_its_links_lead_on(command, new_page):
    page = new_page()
    page.goto(command)
    lesson = page.get_by_role("tab", name="01_first_private_query")
    word = page.locator(".jp-Notebook:visible a", has_text=re.compile("^noise$")).first
    heading = page.locator(".jp-Notebook:visible h2", has_text=re.compile("^noise.?$"))

    def follow():
        word.scroll_into_view_if_needed()
        word.click()
        expect(page.get_by_role("tab", name="glossary.ipynb")).to_have_attribute(
            "aria-selected", "true"
        )

    follow()
    try:
        expect(heading).to_be_in_viewport()
    except AssertionError:
        # a busy JupyterLab forgets the heading of a notebook that it still opens
        lesson.click()
        follow()
        expect(heading).to_be_in_viewport()
    lesson.click()
    promises = page.locator(".jp-Notebook:visible a", has_text="SECURITY.md").first
    promises.scroll_into_view_if_needed()
    promises.click()
    expect(page.get_by_role("tab", name="SECURITY.md")).to_be_visible()
    expect(
        page.locator(".jp-FileEditor:visible, .jp-MarkdownViewer:visible").first
    ).to_contain_text("Reporting a weakness")
    expect(page.locator(".jp-Dialog")).to_have_count(0)
