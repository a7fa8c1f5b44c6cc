"""``%%dprisk`` as the owner types it, in an in-process shell."""

from __future__ import annotations

import re

import pytest

import dpnb
from dpnb.display.cards.risk import NOTICE
from dpnb.display.cards.risk_widget import RiskPicker
from dpnb.errors import DpnbError
from dpnb.magics.completion import candidates
from dpnb.privacy.loss import Picked

pytestmark = pytest.mark.fast

SUM = "SELECT SUM(capital_gain) AS gain FROM adult"
SECRETS = ("99,999", "99999", "159", "29,849", "32,561", "1.04")
"""What a profile of this statement tells: bounds reached, multiplicities, indicators."""


@pytest.fixture
def owner(shell):
    assert shell.run("%dpopen adult --as adult --rho 1 --delta 1e-6").error is None
    return shell


class TestRisk:
    def test_shows_a_notice_and_spends_nothing(self, owner):
        ran = owner.run(f"%%dprisk\n{SUM}")
        assert ran.error is None
        assert ran.result is None
        (shown,) = ran.shown
        assert NOTICE in shown.data["text/html"]
        assert owner.names["adult"].budget.spent.rho == 0
        kept = f"{ran.stdout} {ran.stderr} {shown.data['text/plain']}"
        kept += shown.data["text/html"].partition("</style>")[2]
        assert not [secret for secret in SECRETS if secret in kept]

    @pytest.mark.parametrize("line", ["-o picker", "picker <<"])
    def test_binds_the_picker(self, owner, line):
        assert owner.run(f"%%dprisk {line}\n{SUM}").error is None
        picker = owner.names["picker"]
        assert isinstance(picker, RiskPicker)
        assert not picker.profile.public
        # the rule at the limit, before any look: nothing to mark
        assert picker.guesses == 55
        assert picker.rho == pytest.approx(0.031582, abs=1e-6)
        assert not isinstance(picker.rho, Picked)

    def test_the_picked_level_is_passed_on_with_its_mark(self, owner):
        owner.run(f"%%dprisk -q -o picker\n{SUM}")
        owner.run("picker.at = 5; rho = picker.rho")
        answer = owner.run(f"%%dpquery --rho :rho\n{SUM}").result
        assert answer.conditional
        assert answer.spent.rho == answer.spent.rho.from_float(0.05).limit_denominator(100)

    def test_quiet_shows_nothing(self, owner):
        ran = owner.run(f"%%dprisk -q -o picker\n{SUM}")
        assert not ran.shown
        assert ran.stdout == ""

    def test_options_reach_the_profile(self, owner):
        line = "-q -o picker --tau 0.5 --by sex,race --candidates 0.02,1 --form linear --cumulative"
        assert owner.run(f"%%dprisk {line}\n{SUM}").error is None
        picker = owner.names["picker"]
        assert picker.tau == 0.5
        assert picker.profile.by == ("sex", "race")
        assert picker.profile.form == "linear"
        assert [float(level) for level in picker.candidates] == [0.02, 1]

    def test_parameters_are_bound(self, owner):
        owner.run("age = 40")
        ran = owner.run("%%dprisk -q -o picker\nSELECT COUNT(*) AS n FROM adult WHERE age > :age")
        assert ran.error is None
        # and what was bound stays bound
        owner.run("age = 80")
        picker = owner.names["picker"]
        assert "40" in str(picker.profile.plan.query.where) or "41" in str(
            picker.profile.plan.query.where
        )

    def test_a_line_will_do(self, owner):
        assert owner.run(f"%dprisk -o picker {SUM}").error is None
        assert isinstance(owner.names["picker"], RiskPicker)

    def test_a_public_table_is_shown(self, shell):
        shell.names["adult"] = dpnb.datasets.adult(public=True)
        shell.run("%dpopen adult --rho 1 --delta 1e-6")
        (shown,) = shell.run(f"%%dprisk\n{SUM}").shown
        assert "159 of 32,561 rows stand out most" in shown.data["text/html"]

    def test_the_plain_text_keeps_to_the_options(self, shell):
        """On a public table: the limit and the levels that were asked for, as the record does."""
        shell.names["adult"] = dpnb.datasets.adult(public=True)
        shell.run("%dpopen adult --rho 1 --delta 1e-6")
        line = "--tau 0.9 --candidates 0.03,0.07,0.2 --static"
        (shown,) = shell.run(f"%%dprisk {line}\n{SUM}").shown
        text = shown.data["text/plain"]
        levels = re.findall(r"^rho ([\d.]+)", text, re.MULTILINE)
        assert levels == ["0.03", "0.07", "0.2"]
        # tau 0.9 of Gaussian noise is 59.6 guesses
        assert "limit 60" in text
        assert re.findall("within|above", text.split("floor")[1]) == [
            "within", "within", "above",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("line", "sql", "said"),
        [
            ("--tau 2", SUM, "tau must be between 0 and 1"),
            ("--guesses 40", SUM, "guesses must be at least 50"),
            ("--guesses x", SUM, "--guesses 'x' is not a number"),
            ("--guesses 60 --tau 0.9", SUM, "not both"),
            ("--tau x", SUM, "--tau 'x' is not a number"),
            ("--by nope", SUM, "there is no column 'nope'"),
            ("--candidates 0", SUM, "a candidate must be above 0, got '0'"),
            ("--candidates ,", SUM, "candidates must be a list of numbers"),
            ("--form round", SUM, "there is no form 'round'"),
            ("--on nobody", SUM, "there is no session 'nobody'"),
            ("-o 1st", SUM, "'1st' is not a variable name. use letters, digits and underscores."),
            ("--nope", SUM, "%dprisk"),
            ("", "SELECT MAX(age) FROM adult", "MIN and MAX"),
            ("", "SELECT DISTINCT sex FROM adult", "sex"),
            ("", "SELECT COUNT(*) FROM adult JOIN adult b ON true", "ON takes one equality"),
            ("", f"{SUM} HAVING nothing > 5", "nothing"),
        ],
    )
    def test_mistakes_are_named_and_cost_nothing(self, owner, line, sql, said):
        ran = owner.run(f"%%dprisk {line}\n{sql}")
        assert isinstance(ran.error, DpnbError)
        assert said.casefold() in str(ran.error).casefold()
        assert owner.names["adult"].budget.spent.rho == 0

    def test_only_where_the_data_are(self, owner):
        """A session that does not hold the data cannot show risks."""
        owner.names["far"] = dpnb.Session._of(owner.names["adult"]._backend)
        ran = owner.run(f"%%dprisk --on far\n{SUM}")
        assert isinstance(ran.error, DpnbError)
        assert "exact risks are shown only to the owner of the data. As the owner," in str(
            ran.error
        )

    @pytest.mark.parametrize("named", [True, False])
    def test_an_analysts_session_leads_the_owner_to_the_curator(self, shell, tmp_path, named):
        ledger = tmp_path / "adult.ledger"
        held = dpnb.Curator(
            dpnb.datasets.adult(),
            budget=dpnb.Budget(rho=1, delta=1e-6),
            ledger=ledger,
            analysts={"alice": 4, "bob": 1},
        )
        shell.names["alice"] = held.session("alice")
        if named:
            shell.names["ours"] = held
        ran = shell.run(f"%%dprisk --on alice\n{SUM}")
        written = "As the owner, add --on ours." if named else (
            "As the owner, make curator = dpnb.Curator(table, ledger='people.ledger'), and add "
            "--on curator."
        )  # fmt: skip
        assert str(ran.error) == f"exact risks are shown only to the owner of the data. {written}"
        if not named:
            shell.names["table"], shell.names["dpnb"] = dpnb.datasets.adult(), dpnb
            made = shell.run(f"curator = dpnb.Curator(table, ledger={str(ledger)!r})")
            assert made.error is None
        ran = shell.run(f"%%dprisk -q -o picker --on {'ours' if named else 'curator'}\n{SUM}")
        assert ran.error is None
        assert isinstance(shell.names["picker"], RiskPicker)
        assert held.budget.spent.rho == 0

    def test_without_a_session_it_says_how_to_open_one(self, shell):
        assert "%dpopen" in str(shell.run(f"%%dprisk\n{SUM}").error)


class TestCompletion:
    def test_options_columns_and_values(self, owner):
        sessions = {"adult": owner.names["adult"]}
        assert "--guesses" in candidates("%%dprisk --", sessions)
        assert "--tau" in candidates("%%dprisk --", sessions)
        assert "--error" not in candidates("%%dprisk --", sessions)
        assert "capital_gain" in candidates("%%dprisk\nSELECT SUM(", sessions)
