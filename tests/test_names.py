"""What scripts import and pages name exists, so that a name that goes takes its mentions along."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import names
from tests.kit.names import ROOT

pytestmark = pytest.mark.fast

PAGES = sorted({*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")} - {ROOT / "CHANGELOG.md"})


def test_every_script_imports_what_there_is():
    """Also those that no test runs: benchmarks, figures, the audit."""
    missing = {
        path.relative_to(ROOT).as_posix(): found
        for path in sorted(ROOT.glob("tests/**/*.py"))
        if (found := [*names.missing_imports(path)])
    }
    assert missing == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_names_of_code_in_a_page_exist(page: Path):
    assert [*names.missing_names(page)] == []


def test_what_is_gone_is_found(tmp_path: Path):
    script, page = tmp_path / "script.py", tmp_path / "page.md"
    script.write_text(
        "from dpnb.studies.rdr import GONE, measure\nfrom dpnb.gone import x\n"
        "from tests.kit.names import (\n    ROOT,\n    lost,  # a remark\n)\nimport dpnb.lost\n"
    )
    assert [*names.missing_imports(script)] == [
        "dpnb.studies.rdr.GONE", "dpnb.gone", "tests.kit.names.lost", "dpnb.lost",
    ]  # fmt: skip
    page.write_text(
        "`measure`, `PaperProfile.gone` in `dpnb/studies/rdr.py`, `dpnb/gone.py`, `gone_function()`, and `rho`. "
        "*Check.* `tests/test_names.py` (`TestGone`, `test_what_is_gone_is_found`)."
    )
    assert [*names.missing_names(page)] == [
        "dpnb/gone.py", "PaperProfile.gone in dpnb/studies/rdr.py", "TestGone in tests/test_names.py",
    ]  # fmt: skip
