"""The first tutorial, run from top to bottom in a real JupyterLab by a person's front end."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

TUTORIAL = Path(__file__).parents[2] / "notebooks" / "01_first_private_query.ipynb"

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def page(lab, new_page):
    notebook = nbformat.read(TUTORIAL, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, lab.root / "tutorial.ipynb")
    opened = new_page(viewport={"width": 1100, "height": 3000})
    lab.open(opened, "tutorial.ipynb")
    lab.run(opened)
    yield opened
    opened.close()


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
    cell = page.locator(".jp-Cell", has_text="-o people").first
    cell.scroll_into_view_if_needed()
    expect(cell.locator(".jp-OutputArea-child .dpnb-table:visible")).to_have_count(1)
    expect(cell.get_by_text("Record of this result")).to_be_visible()


def test_a_refusal_is_one_line(page):
    cell = page.locator(".jp-Cell", has_text="MAX(age)").last
    cell.scroll_into_view_if_needed()
    error = cell.locator(".jp-RenderedText[data-mime-type*='stderr'], .jp-OutputArea-output pre")
    text = error.last.inner_text().strip()
    assert "MIN and MAX cannot be answered" in text
    assert "\n" not in text
