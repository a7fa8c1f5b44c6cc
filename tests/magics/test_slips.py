"""A mistyped name or option is answered with what was meant, and an empty cell with what goes there."""

from __future__ import annotations

import pytest

from dpnb.errors import RequestError

pytestmark = pytest.mark.fast

STATEMENT = "Write SELECT ... FROM a table on the next line."
SLIPS = {
    "%%dpquery --rho 0.1": f"the cell is empty below %%dpquery. {STATEMENT}",
    "%%dpinfer\n\n": f"the cell is empty below %%dpinfer. {STATEMENT}",
    "%%dpexplain income": "the cell is empty below %%dpexplain. Write 'a' > 'b' on the next line, or name "
    "a question: %dpexplain NAME.",
    "%%dpqeury --rho 0.1\nSELECT COUNT(*) FROM adult": "there is no magic %%dpqeury. Did you mean "
    "%%dpquery?",
    "%dpopne adult --rho 1": "there is no magic %dpopne. Did you mean %dpopen?",
    "left = %dpbugdet": "there is no magic %dpbugdet. Did you mean %dpbudget?",
    "if True:\n    %dpopne adult --rho 1": "there is no magic %dpopne. Did you mean %dpopen?",
    "%%dpopen adult\n--rho 1": "there is no magic %%dpopen. Did you mean %dpopen?",
    "# women only\n%%dpquery --rho 0.1\nSELECT COUNT(*) FROM adult": "%%dpquery is not the first line of "
    "its cell. Move %%dpquery to the first line.",
    "%%dpdecide --rho 0.1\nSELECT sex FROM adult GROUP BY sex HAVING COUNT(*) > 9": "%dpdecide: unrecognized "
    "arguments: --rho 0.1. Write --most 0.05: the highest total privacy cost.",
    "%%dpquery --ouput n --rho 0.1\nSELECT COUNT(*) FROM adult": "%dpquery: unrecognized arguments: "
    "--ouput n. Did you mean --out?",
    "%%dpquery --rho 0.1 --cofidence 0.9\nSELECT COUNT(*) FROM adult": "%dpquery: unrecognized arguments: "
    "--cofidence 0.9. Did you mean --confidence?",
    "%%dpexplain\n'a' > 'b'": "%dpexplain: the following arguments are required: answer. Name the answer: "
    "%%dpexplain income, after %%dpquery -o income.",
    "%dpopen": "%dpopen: the following arguments are required: source. Name what to open: %dpopen adult "
    "--epsilon 3 --delta 1e-6.",
    "%dpdiscover --rho 0.1": "%dpdiscover: the following arguments are required: column. Name the column: "
    "%dpdiscover city.",
    "%dpopen people.csv": "'people.csv' does not say what is public. Draft a file that does: "
    "import dpnb, pathlib; pathlib.Path('people.toml').write_text(dpnb.draft_schema('people.csv')). Replace what it guesses by "
    "public knowledge, answer its question, and open people.toml.",
    "%%dpquery rho=0.1\nSELECT COUNT(*) FROM adult": "%dpquery: options begin with two hyphens. Write --rho "
    "0.1.",
    "%%dpquery --rho 0.1 --nonsense\nSELECT COUNT(*) FROM adult": "%dpquery: unrecognized arguments: "
    "--nonsense. See %dpquery? for its options.",
}


@pytest.mark.parametrize("cell", SLIPS)
def test_a_slip_is_one_line_with_what_was_meant(cell, shell):
    ran = shell.run(cell)
    assert isinstance(ran.error, RequestError)
    assert str(ran.error) == SLIPS[cell]
    assert SLIPS[cell] in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "cell",
    [
        "%timeit?",
        "text = '''\n%%dpqeury\n%dpopne\n'''",
        "%%capture\n1 + 1",
        "text = '''\nkept = %%dpquery --rho 1\n'''",
        "print('get_ipython')",
        "%%dpquery?",
    ],
)
def test_other_cells_run_as_ever(cell, shell):
    assert shell.run(cell).error is None


def test_a_magic_of_somebody_else_is_left_alone(shell):
    shell.ip.register_magic_function(lambda line: line, "line", "dpopne")
    assert shell.run("%dpopne adult").result == "adult"


def test_what_is_like_nothing_is_left_to_ipython(shell):
    ran = shell.run("%dpsomething")
    assert "not found" in ran.stderr
