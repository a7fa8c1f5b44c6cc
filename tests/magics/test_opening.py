"""``%dpopen`` opens what a table's file says: views, policy and analysts."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import dpnb
from dpnb.errors import RequestError
from tests.kit.inside import owner

pytestmark = pytest.mark.fast

COLUMNS = (
    'source = "people.csv"\n{}[budget]\nrho = 1\n'
    '[columns.sex]\ntype = "category"\nvalues = ["F", "M"]\n{}'
)
ANALYSTS = '[policy]\nrows = "max"\n[analysts]\nalice = 4\nbob = 1\n'
SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("sex\nF\nM\n")

    def write(after="", before=""):
        (tmp_path / "people.toml").write_text(COLUMNS.format(before, after))

    return write


def test_each_analyst_has_her_own_limit(shell, file):
    file(ANALYSTS)
    assert (
        "Opened alice with a new ledger: rho 1 left"
        in shell.run("%dpopen people.toml --as alice --ledger l").stdout
    )
    assert shell.run(f"%%dpquery --rho 0.1\n{SQL}").error is None
    assert (
        "Opened bob: rho 0.25 left" in shell.run("%dpopen people.toml --as bob --ledger l").stdout
    )
    assert "0.25 is left to you" in str(shell.run(f"%%dpquery --rho 0.3\n{SQL}").error)
    assert shell.run(f"%%dpquery --on alice --rho 0.2 --yes\n{SQL}").error is None
    # a ledger of several analysts needs a name from every source
    ran = shell.run("%dpopen people.toml --ledger l")
    assert "--as alice" in str(ran.error)


@pytest.mark.parametrize(
    ("after", "line", "said"),
    [
        (
            ANALYSTS, "--ledger l",
            "this table has several analysts: alice, bob. Say who asks: --as alice.",
        ),
        (ANALYSTS, "--ledger l --as alcie", "there is no analyst 'alcie'. Did you mean alice?"),
        (ANALYSTS, "--as alice", "several analysts share one ledger. Add --ledger PATH."),
        (
            '[policy]\nrows = "max"\n', "--ledger l --as alice",
            "this table has no analysts yet. Add [analysts] to the table's file, with a line alice = 4.",
        ),
        ("[policy]\nrow = 1\n", "--ledger l", "[policy] has an unknown entry"),
    ],
)  # fmt: skip
def test_what_is_needed_is_said_before_anything_is_written(
    shell, file, tmp_path, after, line, said
):
    file(after)
    ran = shell.run(f"%dpopen people.toml {line}")
    assert isinstance(ran.error, RequestError)
    assert str(ran.error).startswith(said)
    assert not (tmp_path / "l").exists()


def test_one_analyst_alone_has_the_declared_views(shell, file):
    file(before='views = "attributes"\n')
    assert shell.run("%dpopen people.toml --as mine").error is None
    curator = owner(shell.names["mine"])
    assert [column.name for column in curator.provenance.columns] == ["sex"]
    assert curator.risk(SQL) is not None


def test_a_second_budget_for_the_same_table_is_named(shell, file):
    file()
    shell.run("%dpopen people.toml")
    assert "another budget" not in shell.run("%dpopen people.toml").stdout
    assert shell.run(f"%%dpquery --rho 0.2\n{SQL}").error is None
    said = shell.run("%dpopen people.toml --ledger l").stdout
    assert (
        "Opened people with a new ledger: rho 1 left. This protects single rows. This is another budget: the rho 0.2 spent on people before comes on top of it."
        in said
    )
    assert shell.run(f"%%dpquery --rho 0.2\n{SQL}").error is None
    # the same ledger knows what was spent
    assert (
        shell.run("%dpopen people.toml --ledger l").stdout.strip()
        == "Opened people: rho 0.8 left. This protects single rows. This is another budget: the rho 0.2 spent on people before comes on top of it."
    )
    assert (
        "the rho 0.2 and the rho 0.2 spent on people before come on top of it"
        in shell.run("%dpopen people.toml --ledger m").stdout
    )


def test_a_curator_of_several_analysts_is_opened_for_one(shell):
    shell.run("%load_ext dpnb")
    shell.names["owner"] = dpnb.Curator(
        dpnb.datasets.adult(), budget=dpnb.Budget(rho=1), analysts={"alice": 4, "bob": 1}
    )
    assert "Using bob: rho 0.25 left" in shell.run("%dpopen owner --as bob").stdout
    assert "alice" in str(shell.run("%dpopen owner").error)


def test_nobody_is_protected_in_public_data(shell):
    shell.run("%load_ext dpnb")
    for public, said in (
        (False, "rho 1 left. This protects single rows."),
        (True, "rho 1 left. The"),
    ):
        shell.names["table"] = dpnb.datasets.adult(public=public)
        assert f"Opened adult: {said}" in shell.run("%dpopen table --rho 1").stdout


def test_a_data_frame_is_declared_first(shell):
    shell.run("%load_ext dpnb")
    shell.names["df"] = pd.DataFrame({"age": [23]})
    said = str(shell.run("%dpopen df --rho 1").error)
    assert said == (
        "df is a DataFrame, which does not say what is public. Declare it: table = "
        "dpnb.Table('people', df, schema), and open table."
    )
    shell.names["schema"] = dpnb.Schema({"age": dpnb.Integer(0, 120)})
    assert shell.run("import dpnb; table = dpnb.Table('people', df, schema)").error is None
    assert "Opened people" in shell.run("%dpopen table --rho 1").stdout


def test_a_csv_file_is_drafted_as_the_hint_says(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"age": [23, 51], "sex": ["m", "f"]}).to_csv("people 2.csv", index=False)
    shell.run("%load_ext dpnb")
    said = str(shell.run("%dpopen 'people 2.csv'").error)
    code = re.search(r"does: (.*\)\))\. Replace", said)[1]
    assert shell.run(code).error is None
    made = tmp_path / "people 2.toml"
    text = made.read_text().replace("draft = true\n", "")
    made.write_text(text.replace('one_row_per_person = "?"', "one_row_per_person = true"))
    assert "Opened people_2: rho 1 left" in shell.run("%dpopen 'people 2.toml' --rho 1").stdout


def test_a_file_that_a_failed_opening_left_is_a_new_ledger(shell, file, tmp_path):
    file()
    (tmp_path / "l").touch()
    shell.run("%load_ext dpnb")
    ran = shell.run("%dpopen adult --ledger l")
    assert (
        str(ran.error)
        == "the ledger 'l' does not exist. Check its name, or add --epsilon 3 --delta 1e-6 to start it."
    )
    assert shell.run("%dpopen adult --ledger l --epsilon 3 --delta 1e-6").error is None


def test_a_table_of_another_session_is_pointed_to(shell, file):
    file()
    shell.run("%dpopen adult --rho 1")
    shell.run("%dpopen people.toml")
    ran = shell.run("%%dpquery --rho 0.1\nSELECT COUNT(*) FROM adult")
    assert str(ran.error).endswith("Add --on adult.")
    assert shell.run("%%dpquery --rho 0.1 --on adult\nSELECT COUNT(*) FROM adult").error is None
