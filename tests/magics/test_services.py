"""``%dpopen`` with a URL: the same cells over HTTP."""

from __future__ import annotations

import pandas as pd
import pytest
from IPython.core.completer import provisionalcompleter

import dpnb
from dpnb import Category, Integer, Schema, Table
from dpnb.server import tokens

pytestmark = pytest.mark.fast

SQL = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def service(tmp_path, monkeypatch):
    frame = pd.DataFrame({"sex": ["Female", "Male", "Male"] * 300, "wage": range(900)})
    schema = Schema(
        {"sex": Category(["Female", "Male"]), "wage": Integer(0, 1000, bins=[0, 500, 1000])}
    )
    monkeypatch.setenv("DPNB_TOKEN", tokens.add(tmp_path / "tokens.json", "alice", [4]))
    curator = dpnb.Curator(
        [Table("people", frame, schema)],
        budget=dpnb.Budget(epsilon=3, delta=1e-6),
        ledger=tmp_path / "ledger",
        analysts={"alice": 4},
    )
    with curator.serve(port=0, tokens=tmp_path / "tokens.json", background=True) as served:
        yield served
    curator.close()


@pytest.fixture
def opened(shell, service):
    ran = shell.run(f"%dpopen {service.url}")
    assert ran.error is None
    assert ran.stdout.startswith("Opened people: rho")
    return shell


class TestCells:
    def test_queries_prices_and_explanations_run_unchanged(self, opened):
        price = opened.run(f"%%dpquery --rho 0.05 --dry-run\n{SQL}").result
        assert "Nothing was spent" in repr(price)
        assert opened.run(f"%%dpquery --rho 0.05 --yes -o answer\n{SQL}").error is None
        assert isinstance(opened.names["answer"], dpnb.Answer)
        ran = opened.run("%%dpexplain answer --k 1 --rho 0.05 --yes -o why\n'Male' > 'Female'")
        assert ran.error is None
        assert opened.names["why"].rows
        dry = opened.run("%%dpexplain answer --k 1 --rho 0.05 --dry-run\n'Male' > 'Female'")
        assert "Price: free" in repr(dry.result)
        assert opened.run(f"%%dpquery --rho 0.05 --widget\n{SQL}").error is None

    def test_parameters_come_from_the_notebook_and_only_the_named_ones(self, opened):
        opened.names["least"], opened.names["frame"] = 300, pd.DataFrame({"a": [1]})
        ran = opened.run(
            "%%dpquery --rho 0.01 --yes\nSELECT COUNT(*) AS n FROM people WHERE wage > :least"
        )
        assert ran.error is None

    def test_status_lines(self, opened):
        opened.run(f"%%dpquery --rho 0.01 --yes\n{SQL}")
        assert "of alice" in repr(opened.run("%dpbudget").result)
        assert SQL in repr(opened.run("%dphistory").result)
        assert "Female, Male" in repr(opened.run("%dptables").result)

    def test_completion_knows_the_declared_names(self, opened):
        opened.ip.Completer.use_jedi = False
        cell = "%%dpquery\nSELECT COUNT(*) FROM people WHERE sex = 'Fem"
        with provisionalcompleter():
            found = [one.text for one in opened.ip.Completer.completions(cell, len(cell))]
        assert "Female" in found

    def test_a_name_of_ones_own(self, shell, service):
        assert shell.run(f"%dpopen {service.url} --as ours").stdout.startswith("Opened ours")
        assert isinstance(shell.names["ours"], dpnb.Session)
        assert shell.run(f"%%dpquery --rho 0.01 --yes --on ours\n{SQL}").error is None

    def test_risks_stay_with_the_owner(self, opened):
        ran = opened.run(f"%%dprisk\n{SQL}")
        assert "exact risks are shown only to the owner of the data. Open the table" in str(
            ran.error
        )


class TestRefused:
    @pytest.mark.parametrize(
        "option",
        [
            "--rho 1", "--epsilon 1", "--delta 1e-6", "--ledger x", "--anchor x", "--new-anchor",
            "--new-version",
        ],
    )  # fmt: skip
    def test_what_the_owner_says_is_no_option(self, shell, service, option):
        ran = shell.run(f"%dpopen {service.url} {option}")
        assert "is set by the owner of a service" in str(ran.error)

    @pytest.mark.parametrize(
        "line",
        [
            "https://host --token hunter2",
            "https://host --token=hunter2",
            "https://host dpnb_0123456789ab_hunter2hunter2hunter2hunter2",
            "https://alice:hunter2@host",
            "https://host/?token=hunter2",
            "https://dpnb_0123456789ab_hunter2hunter2hunter2hunter2@host",
        ],
    )
    def test_a_token_in_a_cell_is_refused_and_not_repeated(self, shell, line):
        ran = shell.run(f"%dpopen {line}")
        assert "DPNB_TOKEN" in str(ran.error)
        assert "hunter2" not in str(ran.error) + ran.stdout + ran.stderr

    def test_a_wrong_token_opens_nothing(self, shell, service, monkeypatch):
        monkeypatch.setenv("DPNB_TOKEN", "wrong")
        ran = shell.run(f"%dpopen {service.url}")
        assert "the token is not accepted" in str(ran.error)
        assert "no session is open" in str(shell.run("%dpbudget").error)
