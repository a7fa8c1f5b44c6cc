"""Where no user can answer, a cell says how to confirm: each such hint is followed."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import pandas as pd
import pytest

from dpnb import Category, Integer, Schema, Table

pytestmark = pytest.mark.fast

COUNT = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
HAVING = "SELECT sex FROM people GROUP BY sex HAVING COUNT(*) > 900"


@pytest.fixture
def unattended(shell, monkeypatch) -> Iterator:
    """A shell without a keyboard, in which an answer was released."""
    frame = pd.DataFrame({"sex": ["F", "M", "M"] * 900, "n": 1, "city": "Ulm"})
    schema = Schema(
        {"sex": Category(["F", "M"]), "n": Integer(0, 9, bins=[0, 4, 9])}, undeclared=["city"]
    )
    shell.names["people"] = Table("people", frame, schema)
    opened = shell.run("%dpopen people --rho 2 --delta 1e-6 --key-delta 1e-7")
    assert opened.error is None
    assert shell.run(f"%%dpquery --rho 0.1 -q -o counts\n{COUNT}").error is None

    def closed(text: str) -> str:
        raise EOFError

    monkeypatch.setattr(builtins, "input", closed)
    return shell


def spent(shell) -> float:
    return float(shell.run("%dpbudget").result.spent.rho)


@pytest.mark.parametrize(
    ("cell", "hint", "option"),
    [
        (f"%%dpquery --rho 1.9\n{COUNT}", "Add --yes to the cell.", "--yes"),
        ("%%dpexplain counts --rho 1 --attributes n --k 2\n'M' > 'F'", "Add --yes to the cell.", "--yes"),
        ("%dpdiscover city --rho 1", "Add --yes to the cell.", "--yes"),
        (f"%%dpdecide --u 3\n{HAVING}", "Add --yes, or --most with a smaller amount.", "--yes"),
        (f"%%dpdecide --u 3\n{HAVING}", "Add --yes, or --most with a smaller amount.", "--most 0.4"),
        (f"%%dpdecide --u 3 --most 1\n{HAVING}", "Add --yes, or --most with a smaller amount.", "--most 0.4"),
        (f"%%dpdecide --u 5\n{HAVING}", "Add --yes, or --most with a smaller amount.", "--most 0.4"),
    ],
)  # fmt: skip
def test_what_is_advised_is_accepted(unattended, cell, hint, option):
    before = spent(unattended)
    said = str(unattended.run(cell).error)
    assert f"{hint} Nothing was charged." in said
    assert spent(unattended) == before
    first, *rest = cell.split("\n")
    ran = unattended.run("\n".join([f"{first} {option}", *rest]))
    assert ran.error is None
    assert spent(unattended) > before


@pytest.mark.parametrize(
    ("cell", "advised"),
    [
        ("'F' > 'M'", "Swap the groups, or add --anyway"),
        ("'M' > 'F'", None),
    ],
)
def test_a_difference_that_points_the_other_way_is_explained_as_advised(unattended, cell, advised):
    line = "%%dpexplain counts --rho 0.1 --attributes n --k 2 --yes"
    ran = unattended.run(f"{line}\n{cell}")
    assert ran.error is None
    assert (advised is None) == ("Nothing was spent." not in ran.stdout)
    if advised is not None:
        assert advised in ran.stdout
        ran = unattended.run(f"{line} --anyway\n{cell}")
        assert ran.error is None
        assert "Nothing was spent." not in ran.stdout
