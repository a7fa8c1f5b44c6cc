"""A message names options in a cell, and Python's arguments in Python."""

from __future__ import annotations

import pytest

import dpnb
from dpnb.cli import main
from dpnb.errors import DpnbError
from dpnb.spelling import with_options

pytestmark = pytest.mark.fast

COUNT = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"
MEAN = "SELECT AVG(age) AS mean FROM adult"
OWNER = "Only the owner of the data can allow more. Nothing was charged."
SAID = [
    (
        "%%dpquery\n" + COUNT,
        "a request needs a privacy cost or a margin of error. Give --rho 0.05, or --error 50.",
        lambda s: s.query(COUNT),
        "a request needs a privacy cost or a margin of error. Give rho=0.05, or error=50.",
    ),
    (
        "%%dpquery --rho 3 --yes\n" + COUNT,
        "this costs rho 3, but 0.5 is left. Ask with --rho 0.5 or less, or for a larger margin of error. "
        + OWNER,
        lambda s: s.query(COUNT, rho=3),
        "this costs rho 3, but 0.5 is left. Ask with rho=0.5 or less, or for a larger margin of error. "
        + OWNER,
    ),
    (
        "%%dpquery --epsilon 1\n" + COUNT,
        "epsilon cannot be used here: the session has no delta. Give --rho, or open the session with "
        "--epsilon 3 --delta 1e-6.",
        lambda s: s.query(COUNT, epsilon=1),
        "epsilon cannot be used here: the session has no delta. Give rho=, or open the session with "
        "Budget(epsilon=3, delta=1e-6).",
    ),
    (
        "%%dpquery --error 1\n" + MEAN,
        "the error of an AVG depends on the size of the group. Add --rows 100: the error then holds "
        "for groups of at least 100 rows.",
        lambda s: s.query(MEAN, error=1),
        "the error of an AVG depends on the size of the group. Add rows=100: the error then holds "
        "for groups of at least 100 rows.",
    ),
    (
        "%%dpinfer\n" + COUNT,
        "no past answer to you is about this table. Ask the statement itself: %%dpquery.",
        lambda s: s.infer(COUNT),
        "no past answer to you is about this table. Ask the statement itself: session.query(sql).",
    ),
    (
        "%%dpquery --rho 0.1\nSELECT COUNT(*) AS n FROM adult WHERE age > :least",
        "the parameter :least has no value (line 1, column 46: 'least'). Define least in the notebook.",
        lambda s: s.query("SELECT COUNT(*) AS n FROM adult WHERE age > :least", rho=0.1),
        "the parameter :least has no value (line 1, column 46: 'least'). Pass params={'least': ...}.",
    ),
    (
        f"%%dpinfer\n{COUNT} HAVING COUNT(*) > 5",
        "an inference has no HAVING and computes nothing from results. Name the results and the group "
        "columns alone, or use %%dpquery.",
        lambda s: s.infer(f"{COUNT} HAVING COUNT(*) > 5"),
        "an inference has no HAVING and computes nothing from results. Name the results and the group "
        "columns alone, or use session.query.",
    ),
]


@pytest.mark.parametrize(("cell", "there", "call", "here"), SAID, ids=[one[0] for one in SAID])
def test_one_message_has_two_spellings(cell, there, call, here, shell):
    shell.run("%dpopen adult --rho 0.5 --as people")
    assert str(shell.run(cell).error) == there
    with pytest.raises(DpnbError) as refused:
        call(shell.names["people"])
    assert str(refused.value) == here


def test_the_command_line_names_its_options(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("sex\nMale\n")
    (tmp_path / "t.toml").write_text(
        'source = "t.csv"\n[columns.sex]\ntype = "category"\nvalues = ["Female", "Male"]\n'
    )
    assert main(["analyst", "add", "alice", "--privilege", "1"]) == 0
    capsys.readouterr()
    assert main(["serve", "t.toml"]) == 1
    assert capsys.readouterr().err == (
        "dpnb: a new ledger needs a budget. Pass --epsilon 3 --delta 1e-6.\n"
    )


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("Give chosen=10, or chosen='any'.", "Give --chosen 10, or --chosen any."),
        ("Write between=(100, 200).", "Write --between 100 200."),
        ("Give u={'n': 50, 'm': 2.5}.", "Give --u n=50,m=2.5."),
        ("with intervals='simultaneous'.", "with no --each."),
        ("or use mode='rr' (--mode rr).", "or use --mode rr."),
        ("Decide with a smaller u (--u).", "Decide with a smaller --u."),
        # what has no option stays as it is
        ("Use Policy(rows='max') to let others join.", None),
        ("Write Budget(rho=..., doubling=True).", None),
        ("Write level=0.05.", None),
    ],
)
def test_arguments_become_options(python, options):
    assert with_options(python) == (options or python)


def test_an_error_in_python_beside_magics_keeps_its_arguments(shell):
    shell.run("%dpopen adult --rho 0.5 --as people")
    ran = shell.run(f"people.query({COUNT!r})")
    assert isinstance(ran.error, dpnb.DpnbError)
    assert "Give rho=0.05" in str(ran.error)
