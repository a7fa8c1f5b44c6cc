"""What everybody knows about each row by now: losses of all releases together.

Theorem 7 of docs/methods/rdr.md.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpnb import Category, Integer, Schema, Table
from dpnb.errors import RequestError
from dpnb.privacy.definition import ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.risk import plan as exposure
from dpnb.risk.preferences import FloorMaxRatio, search
from dpnb.sql.parser import parse
from tests.kit.noise import DiscreteNoise, NoNoise

SUM = "SELECT SUM(x) AS s FROM t"
COUNT = "SELECT COUNT(*) AS n FROM t WHERE x > 3"


def losses(profile, unit, level):
    found = profile.losses(**{unit: level}).to_frame()
    return np.sort(np.repeat(found["loss"], found["rows"]))


def planned(table, sql):
    query = parse(sql, {"t": table})
    return plan(query, read_accuracy(query, ZCDP, None, rho=1), 1, ZCDP)


@pytest.fixture
def true_losses(mixed, left_out, unit):
    """Each row's loss by statements with a level for each vector, leaving rows out one by one."""

    def sum_(asked):
        total = None
        for sql, levels in asked.items():
            wanted = planned(mixed, sql)
            base, others = left_out(wanted)
            sensitivities = [view.measure.sensitivity for view in wanted.views.values()]
            losses = []
            for vectors, count in others:
                sizes = [
                    np.abs(a - b).max() / most
                    for a, b, most in zip(base, vectors, sensitivities, strict=True)
                ]
                power = 1 if unit == "epsilon" else 2
                loss = sum(
                    float(level) * size**power for level, size in zip(levels, sizes, strict=True)
                )
                losses += [loss] * count
            total = np.array(losses) if total is None else total + losses
        return np.sort(total)

    return sum_


class TestComposition:
    def test_two_releases_add(self, opened):
        """Oracle 7: d = (1, 3) under sigma (2, 5)."""
        frame = pd.DataFrame({"a": [1], "b": [3]})
        table = Table("t", frame, Schema({"a": Integer(0, 1), "b": Integer(0, 3)}))
        curator = opened(table, rho=9)
        curator.session().query("SELECT SUM(a) AS s FROM t", rho=Fraction(1, 8))
        profile = curator.risk("SELECT SUM(b) AS s FROM t", cumulative=True)
        level = 9 / 50
        assert losses(profile, "rho", level) == pytest.approx([0.305])
        # with k = 1; the published value has k = 2
        (found,) = np.asarray(profile.rdr(rho=level))
        assert math.sqrt(found**2 + 1) == pytest.approx(1.6155494421, abs=1e-9)

    def test_they_are_those_of_leaving_rows_out(self, opened, mixed, budget, unit, true_losses):
        curator = opened(mixed, **budget)
        session, asked = curator.session(), {}
        for sql, level in (
            ("SELECT COUNT(*) AS k FROM t WHERE n > 5", 0.5),
            ("SELECT SUM(m) AS s FROM t WHERE h = 1", 0.25),
            ("SELECT AVG(n) AS m FROM t", 2),
        ):
            answer = session.query(sql, **{unit: level})
            names = planned(mixed, sql).views
            asked[sql] = [Fraction(answer.levels[name]) for name in names]
        for own in (
            "SELECT g, SUM(n) AS s FROM t GROUP BY g",
            "SELECT h, COUNT(*) AS k FROM t GROUP BY h",
        ):
            profile = curator.risk(own, cumulative=True)
            assert profile.cumulative
            levels = {**asked, own: [Fraction(1, 3)]}
            assert losses(profile, unit, Fraction(1, 3)) == pytest.approx(true_losses(levels))

    def test_every_analyst_counts_and_each_release_once(self, opened, four):
        curator = opened(four, rho=9)
        for _ in range(3):
            curator.session().query(COUNT, rho=0.5)
        profile = curator.risk(SUM, cumulative=True)
        assert losses(profile, "rho", 1) == pytest.approx([0, 0.04, 0.25 + 0.5, 1 + 0.5])


class TestSameVectors:
    """A statement refined costs its finest level, not the sum of all."""

    def test_what_is_held_already_is_not_added(self, opened, four):
        curator = opened(four, rho=9)
        curator.session().query(SUM, rho=0.5)
        profile = curator.risk(SUM, cumulative=True)
        assert losses(profile, "rho", 2) == pytest.approx([0, 0.08, 0.5, 2])
        # asking for less tells no more
        assert losses(profile, "rho", 0.1) == pytest.approx([0, 0.02, 0.125, 0.5])

    def test_nor_is_what_an_average_shares_with_a_count(self, opened, single):
        curator = opened(single([5, 10]), rho=9)
        curator.session().query("SELECT COUNT(x) AS n FROM t", rho=1)
        profile = curator.risk("SELECT AVG(x) AS m FROM t", split=0.5, cumulative=True)
        # the count at level 1, the sum at 0.2 of r = 0 and 1
        assert losses(profile, "rho", 0.4) == pytest.approx([1, 1.2])

    def test_levels_in_between_are_those_of_the_finest(self, opened, four):
        curator = opened(four, rho=9)
        for rho in ("0.1", "0.7", "0.3"):
            curator.session().query(COUNT, rho=rho)
        profile = curator.risk(SUM, cumulative=True)
        assert losses(profile, "rho", 1e-12) == pytest.approx([0, 0, 0.7, 0.7])


def test_without_noise_what_was_told_before_still_counts(opened, four, budget, unit):
    """Rows that add nothing now keep the losses they have."""
    curator = opened(four, **budget)
    answer = curator.session().query(COUNT, **{unit: 0.5})
    held = float(Fraction(next(iter(answer.levels.values()))))
    profile = curator.risk("SELECT COUNT(*) AS n FROM t WHERE x = 0", cumulative=True)
    assert losses(profile, unit, math.inf) == pytest.approx([0, held, held, math.inf])


class TestOneOffReleases:
    """Explanations, private choices and shared histograms count in full for everybody."""

    def test_private_choices(self, opened, four, budget, unit):
        curator = opened(four, **budget)
        profile = curator.risk(SUM)
        profile.choose(0.9, **{unit: "0.25"}, mode="paper")
        profile.share(**{unit: "0.5"})
        found = curator.risk(COUNT, cumulative=True)
        assert losses(found, unit, 1) == pytest.approx([0.75, 0.75, 1.75, 1.75])

    def test_explanations(self, opened):
        frame = pd.DataFrame({"g": ["a"] * 30 + ["b"] * 5, "x": [1, 2, 3, 4, 5] * 7, "h": "u"})
        kinds = {"g": Category(["a", "b"]), "x": Integer(1, 5), "h": Category(["u", "v"])}
        schema = Schema(kinds)
        curator = opened(Table("t", frame, schema), noise=NoNoise(), rho=9)
        sql = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
        session = curator.session()
        session.explain(session.query(sql, rho=1).compare("a", "b"), rho="0.3", k=1, anyway=True)
        found = curator.risk("SELECT SUM(x) AS s FROM t", cumulative=True)
        r = np.sort(frame["x"] / 5)
        assert losses(found, "rho", 0.5) == pytest.approx(0.3 + 1 + 0.5 * r**2)

    def test_stored_ones_count_once(self, opened, four):
        curator = opened(four, rho=9)
        for tau in (0.9, 0.5, 0.9):
            curator.risk(SUM).choose(tau, rho=0.25, mode="paper")
        assert losses(curator.risk(COUNT, cumulative=True), "rho", 1)[0] == pytest.approx(0.25)


class TestOtherTables:
    def test_releases_of_another_table_tell_nothing_about_these_rows(self, opened, four):
        other = Table("u", pd.DataFrame({"y": [1, 2]}), Schema({"y": Integer(0, 5)}))
        curator = opened([four, other], rho=9)
        curator.session().query("SELECT SUM(y) AS s FROM u", rho=1)
        curator.risk("SELECT SUM(y) AS s FROM u").choose(0.9, mode="paper")
        profile = curator.risk(SUM, cumulative=True)
        assert not profile.cumulative
        assert losses(profile, "rho", 1) == pytest.approx([0, 0.04, 0.25, 1])

    def test_releases_of_older_data_count_in_full(self, opened, single, tmp_path):
        from dpnb.curator import Curator

        path = tmp_path / "ledger"
        old = opened(single([7, 7]), ledger=path, rho=9)
        old.session().query(COUNT, rho=0.5)
        old.risk(SUM).choose(0.9, rho=0.25, mode="paper")
        old.close()
        with_new = Curator([single([0, 10])], ledger=path, new_version=True, noise=DiscreteNoise(1))
        profile = with_new.risk(SUM, cumulative=True)
        assert losses(profile, "rho", 1) == pytest.approx([0.75, 1.75])
        with_new.session().query(COUNT, rho=0.25)
        profile = with_new.risk(SUM, cumulative=True)
        assert losses(profile, "rho", 1) == pytest.approx([0.75, 0.75 + 0.25 + 1])
        with_new.close()


class TestRounded:
    """With too many different contributions what is held counts in full for everybody."""

    @pytest.fixture
    def pair(self, opened, many, budget, unit, monkeypatch):
        def open_(most):
            monkeypatch.setattr(exposure, "MOST_JOINT_LINES", most)
            curator = opened(many, **budget)
            curator.session().query("SELECT COUNT(*) AS n FROM t WHERE sex = 'F'", **{unit: 0.5})
            return curator.risk("SELECT SUM(wage) AS s FROM t", cumulative=True)

        return open_(4_096), open_(1 << 20)

    def test_losses_err_upward(self, pair, unit):
        rounded, exact = pair
        assert (rounded.approximate, exact.approximate) == (True, False)
        one, other = (losses(p, unit, 2) for p in pair)
        assert np.all(one >= other - 1e-12)
        assert one.max() == pytest.approx(2.5, abs=1e-3)
        assert rounded.rdr(**{unit: 2}).floor_ratio <= exact.rdr(**{unit: 2}).floor_ratio

    def test_the_ratio_of_smallest_to_largest_errs_downward(self, pair, unit):
        """Who adds nothing to any release is at the floor, also where that cannot be told apart."""
        one, other = (p.choose(0.5, private=False, preference="min_max_ratio").level for p in pair)
        assert one is None or one <= other
        low = pair[0]._rows.losses(2.0, lowest=True)
        true = losses(pair[1], unit, 2)
        assert low.min() <= true.min() + 1e-12


class TestChoices:
    def test_levels_by_exact_values_leave_room_for_what_is_known(self, opened, four, unit, budget):
        curator = opened(four, **budget)
        fine = [f"{x:.4f}" for x in np.arange(0.3, 0.0, -0.0005)]
        curator.session().query(COUNT, **{unit: 0.05})
        alone, all_ = curator.risk(SUM), curator.risk(SUM, cumulative=True)
        for tau in (0.8, 0.9):
            first, later = (
                p.choose(tau, private=False, candidates=fine).level for p in (alone, all_)
            )
            held = losses(all_, unit, 1e-12).max()
            assert 0.04 < held < 0.051
            assert float(first) - float(later) == pytest.approx(held, abs=0.0011)
            assert search(FloorMaxRatio(tau), all_._rows, [Fraction(x) for x in fine]) == later

    def test_none_will_do_once_too_much_is_known(self, opened, four):
        curator = opened(four, rho=9)
        curator.session().query(COUNT, rho=1)
        choice = curator.risk(SUM, cumulative=True).choose(0.95, private=False)
        assert choice.level is None

    def test_the_public_rule_is_the_same_with_and_without_it(self, opened, four):
        curator = opened(four, rho=9)
        curator.session().query(COUNT, rho=0.01)
        one, other = (curator.risk(SUM, cumulative=c).suggest(0.9).level for c in (True, False))
        assert one == other

    @pytest.mark.parametrize("method", ["quantile", "tail", "variance"])
    def test_private_choices_look_at_one_statement_alone(self, method, opened, four):
        curator = opened(four, rho=9)
        curator.session().query(COUNT, rho=0.01)
        profile = curator.risk(SUM, cumulative=True)
        with pytest.raises(RequestError, match="cannot include earlier answers"):
            profile.choose(0.9, method=method, mode="paper")
        assert curator.budget.spent.rho == Fraction(1, 100)

    def test_before_any_release_it_changes_nothing(self, opened, four, budget, unit):
        curator = opened(four, **budget)
        found = [
            np.asarray(curator.risk(SUM, cumulative=c).rdr(**{unit: 1})).tolist()
            for c in (True, False)
        ]
        assert found[0] == found[1]


class TestUnits:
    def test_indicators_of_several_releases_are_in_units_of_the_noise(self, opened, four):
        curator = opened(four, rho=9)
        curator.session().query(COUNT, rho=0.5)
        found = curator.risk(SUM, cumulative=True).rdr(rho=1)
        assert found.floor == 1
        expected = np.sqrt(1 + 2 * np.array([0, 0.04, 0.75, 1.5]))
        assert np.asarray(found) == pytest.approx(expected)

    def test_the_exact_form_under_laplace_noise_adds_divergences(self, opened, four):
        curator = opened(four, epsilon=9)
        answer = curator.session().query(COUNT, epsilon=1)
        level = float(Fraction(next(iter(answer.levels.values()))))
        found = curator.risk(SUM, form="exact", cumulative=True).rdr(epsilon=2)
        kl = [t + math.exp(-t) - 1 for t in (0, 0.4, 1, 2)]
        earlier = level + math.exp(-level) - 1
        assert np.asarray(found) == pytest.approx(
            1 + np.array(kl) + np.array([0, 0, earlier, earlier])
        )

    def test_it_is_refused_after_one_off_releases_whatever_the_data(self, opened, single):
        for values in ([], [5]):
            curator = opened(single(values), epsilon=9)
            curator.risk(SUM).choose(0.9, epsilon="0.1", mode="paper")
            with pytest.raises(RequestError, match="one-off releases hide"):
                curator.risk(SUM, form="exact", cumulative=True)

    def test_it_is_the_same_of_one_vector_however_many_lines_there_are(
        self, opened, single, monkeypatch
    ):
        monkeypatch.setattr(exposure, "MOST_LINES", 2)
        curator = opened(single([1, 4, 9]), epsilon=9)
        curator.session().query(SUM, epsilon=1)
        found = curator.risk(SUM, form="exact", cumulative=True).rdr(epsilon=2)
        kl = [t + math.exp(-t) - 1 for t in (0.2, 0.8, 1.8)]
        assert np.asarray(found) == pytest.approx(1 + np.array(kl))

    def test_lines_are_told_apart_by_all_releases(self, opened, single):
        """Two rows that add the same now may have told different things before."""
        frame = pd.DataFrame({"x": [5, 5, 5], "y": [0, 1, 1]})
        table = Table("t", frame, Schema({"x": Integer(0, 10), "y": Integer(0, 1)}))
        curator = opened(table, rho=9)
        curator.session().query("SELECT SUM(y) AS s FROM t", rho=1)
        found = curator.risk(SUM, cumulative=True).losses(rho=1).to_frame()
        assert Counter(dict(zip(found["loss"].round(9), found["rows"], strict=True))) == {
            0.25: 1, 1.25: 2,
        }  # fmt: skip
