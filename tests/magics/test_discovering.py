"""``%dpdiscover``: the values of a column that nobody declared."""

from __future__ import annotations

import pandas as pd
import pytest

import dpnb
from dpnb import Integer, Schema, Table
from dpnb.errors import BudgetError, RequestError
from dpnb.magics.completion import candidates

pytestmark = pytest.mark.fast


@pytest.fixture
def sales(shell):
    frame = pd.DataFrame({"city": ["Ulm"] * 900 + ["Bonn"] * 600 + ["Rome"], "n": 1})
    schema = Schema({"n": Integer(0, 9)}, undeclared=["city"])
    shell.names["sales"] = Table("sales", frame, schema)
    shell.run("%dpopen sales --epsilon 2 --delta 1e-6 --key-delta 1e-7")
    return shell


class TestDiscovering:
    def test_shows_and_binds_what_was_found(self, sales):
        ran = sales.run("%dpdiscover city --rho 0.02 -o cities")
        found = sales.names["cities"]
        assert found.keys == ("Ulm", "Bonn")
        assert ran.result is found
        assert "2 values of city found in sales" in repr(found)
        assert sales.run("%dpdiscover again << CITY --rho 0.02 -q").result is None
        assert sales.names["again"].stored
        assert "discover: city in sales" in repr(sales.run("%dphistory").result)

    def test_an_amount_can_be_a_variable(self, sales):
        sales.names["level"] = 0.03
        sales.run("%dpdiscover city --rho :level --yes -q -o cities")
        assert float(sales.names["cities"].spent.rho) == 0.03

    def test_a_dry_run_says_the_price_and_spends_nothing(self, sales):
        price = sales.run("%dpdiscover city --epsilon 0.5 --dry-run").result
        assert "Nothing was spent." in repr(price)
        assert "is found with a probability of at least 95 %" in repr(price)
        assert sales.run("%dpbudget").result.spent == dpnb.PrivacyLoss.none()

    def test_columns_and_options_are_completed(self, sales):
        session = dpnb.Session(sales.names["sales"], budget=dpnb.Budget(rho=1, key_delta=1e-7))
        found = candidates("%dpdiscover ", {"sales": session})
        assert found[0] == "city"
        assert "--rho" in found
        assert "--error" not in found
        assert "city" not in candidates("%%dpquery\nSELECT ", {"sales": session})

    def test_a_name_may_have_spaces(self, shell):
        frame = pd.DataFrame({"the city": ["Ulm"] * 900, "n": 1})
        schema = Schema({"n": Integer(0, 9)}, undeclared=["the city"])
        shell.names["sales"] = Table("sales", frame, schema)
        shell.run("%dpopen sales --rho 1 --key-delta 1e-7")
        assert shell.run('%dpdiscover "the city" --rho 0.02').result.keys == ("Ulm",)

    def test_asks_before_it_spends_much(self, sales):
        ran = sales.run("%dpdiscover city --epsilon 1.9")
        assert "of what is left" in str(ran.error)
        assert sales.run("%dpdiscover city --epsilon 1.9 --yes").error is None

    @pytest.mark.parametrize(
        ("line", "error", "words"),
        [
            ("%dpdiscover town --rho 0.1", RequestError, "no undeclared column 'town'"),
            ("%dpdiscover n --rho 0.1", RequestError, "are declared"),
            ("%dpdiscover city", RequestError, "exactly one of rho and epsilon"),
            ("%dpdiscover", RequestError, "%dpdiscover city"),
            ("%dpdiscover city --rho 0.01 --delta 1e-6", RequestError, "delta is 1e-6"),
            ("%dpdiscover city --rho 1 --yes", BudgetError, "rho 1"),
            (
                "%dpdiscover city --rho 0.01 --confidence x",
                RequestError,
                "confidence must be a number, got 'x'",
            ),
        ],
    )
    def test_refusals_say_why_and_how_to_go_on(self, sales, line, error, words):
        ran = sales.run(line)
        assert isinstance(ran.error, error)
        assert words in str(ran.error)
        assert sales.run("%dpbudget").result.spent == dpnb.PrivacyLoss.none()

    def test_a_service_says_its_own_budget(self, shell):
        ran = shell.run("%dpopen http://127.0.0.1:1 --key-delta 1e-7")
        assert "--key-delta is set by the owner of a service. Leave it out." in str(ran.error)
