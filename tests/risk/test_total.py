"""Total leakage over many statements: hard caps, doubling caps, and the paper's own bound beside them."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest

import dpnb
from dpnb.errors import BudgetError, LedgerError, RequestError

pytestmark = pytest.mark.fast

COUNT = "SELECT COUNT(*) AS n FROM t WHERE x > 5"


def table(rows: int = 20) -> dpnb.Table:
    frame = pd.DataFrame({"x": [i % 10 for i in range(rows)]})
    return dpnb.Table("t", frame, dpnb.Schema({"x": dpnb.Integer(0, 9)}))


class TestDoublingCaps:
    def test_each_cap_is_hard_until_the_owner_goes_on(self):
        curator = dpnb.Curator([table()], budget=dpnb.Budget(rho="0.1", doubling=True))
        session = curator.session()
        session.query(COUNT, rho="0.08")
        with pytest.raises(BudgetError):
            session.query("SELECT COUNT(*) FROM t", rho="0.05")
        assert curator.double_cap().cap.rho == Fraction(2, 10)
        assert session.query("SELECT COUNT(*) FROM t", rho="0.05").spent.rho == Fraction(5, 100)
        assert curator.budget.remaining.rho == Fraction(7, 100)

    def test_a_fixed_cap_does_not_double(self):
        curator = dpnb.Curator([table()], budget=dpnb.Budget(rho="0.1"))
        with pytest.raises(RequestError, match="doubling=True"):
            curator.double_cap()
        assert curator.budget.cap.rho == Fraction(1, 10)

    def test_the_ledger_knows_how_often_it_doubled(self, tmp_path):
        path, budget = tmp_path / "t.ledger", dpnb.Budget(rho="0.1", doubling=True)
        curator = dpnb.Curator([table()], budget=budget, ledger=path)
        for _ in range(3):
            curator.double_cap()
        curator.close()
        again = dpnb.Curator([table()], budget=budget, ledger=path)
        assert again.budget.cap.rho == Fraction(8, 10)
        again.close()
        with pytest.raises(LedgerError, match="doubling"):
            dpnb.Curator([table()], budget=dpnb.Budget(rho="0.1"), ledger=path)

    def test_pure_caps_do_not_double_as_their_noise_is_drawn_up_to_the_cap(self):
        with pytest.raises(RequestError, match="doubling needs a budget in rho"):
            dpnb.Budget(epsilon=1, doubling=True)


class TestPublicRule:
    def test_what_is_spent_counts_against_the_rule(self):
        curator = dpnb.Curator([table()], budget=dpnb.Budget(rho=1))
        profile = curator.risk(COUNT)
        fresh = profile.suggest(0.9)
        assert float(fresh.level) == pytest.approx(0.1172839506, abs=1e-9)
        curator.session().query("SELECT COUNT(*) FROM t", rho="0.1")
        assert float(profile.suggest(0.9).level) == pytest.approx(0.0172839506, abs=1e-9)
        assert profile.suggest(0.9, policy="alone").level == fresh.level
        curator.session().query("SELECT SUM(x) FROM t", rho="0.1")
        assert profile.suggest(0.9).level is None

    def test_the_papers_policy_takes_a_candidate_above_all_that_was_spent(self):
        curator = dpnb.Curator([table()], budget=dpnb.Budget(rho=1))
        profile = curator.risk(COUNT)
        levels = []
        while (level := profile.suggest(0.9, policy="paper-dynamic").level) is not None:
            levels.append(level)
            sql = f"SELECT COUNT(*) FROM t WHERE x = {len(levels)}"
            curator.session().query(sql, rho=level)
        # 0.1 is the largest candidate within the rule; none above it is
        assert levels == [Fraction(1, 10)]

    def test_the_papers_policy_spends_twice_as_much_each_time_when_it_starts_small(self):
        curator = dpnb.Curator([table()], budget=dpnb.Budget(rho=100))
        profile = curator.risk(COUNT)
        spent = Fraction(0)
        for i, tau in enumerate((0.99, 0.95, 0.9, 0.75, 0.5)):
            choice = profile.suggest(tau, policy="paper-dynamic")
            assert choice.level is not None
            assert choice.level > spent
            curator.session().query(f"SELECT COUNT(*) FROM t WHERE x >= {i}", rho=choice.level)
            spent = curator.budget.spent.rho
        assert float(spent) == pytest.approx(0.01 + 0.05 + 0.1 + 0.3 + 1)
