"""Safe counts: what they say is false at most once in 20, whatever is picked; and they never fail.

Numbers of theorems, errors and oracles are those of docs/methods/rdr.md.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpnb import Category, Integer, Schema, Table
from dpnb.engines.duckdb import DuckDBEngine
from dpnb.errors import DpnbError, RequestError
from dpnb.privacy.definition import PURE, ZCDP
from dpnb.privacy.loss import Picked, PickedRational, amount_text
from dpnb.privacy.noise import SecureNoise
from dpnb.risk.safe_counts import (
    BINS,
    Histogram,
    SafeCounts,
    bounds,
    lattice,
    margins,
    price,
    share_at_most,
)
from dpnb.risk.selection import STEPS
from tests.kit import power
from tests.kit.noise import DiscreteNoise, NoNoise

SUM = "SELECT SUM(x) AS s FROM t"
COSTS = [(ZCDP, "0.005"), (ZCDP, "0.05"), (PURE, "0.1")]
EXPOSED = [0.001, 0.05, 0.5]


def tally(rows, *, exposed, step=STEPS):
    """A table of counts: so many of all rows at one step, the others at 0."""
    table = np.zeros(STEPS + 1, dtype=np.int64)
    table[step] = round(rows * exposed)
    table[0] = rows - table[step]
    return table


def draws(table, cost, privacy, runs):
    """What the mechanism releases in many runs: its exact counts and its noise, drawn at once."""
    noise = NoNoise()
    exact = Histogram().draw(table, Fraction(cost), privacy, noise)
    (drawn,) = noise.draws
    assert drawn.name == ("laplace" if privacy == PURE else "gaussian")
    return np.reshape(
        getattr(SecureNoise(), drawn.name)(exact * runs, drawn.scale), (runs, len(exact))
    )


def wrong(table, cost, privacy, released):
    """Whether a sentence on counts, shares or the size of the table is false."""
    exact = Histogram().exact(table)
    above, rows = np.cumsum(exact[:BINS]), sum(exact)
    _, upper, least = bounds(released.tolist(), Fraction(cost), privacy)
    return least > rows or any(a > u for a, u in zip(above, upper, strict=True))


class TestMargins:
    @pytest.mark.parametrize(
        ("cost", "expected"),
        [("0.0005", (70.9, 100.2, 122.8, 141.8)), ("0.005", (22.4, 31.7, 38.8, 44.8)),
         ("0.05", (7.1, 10.0, 12.3, 14.2))],
    )  # fmt: skip
    def test_gaussian(self, cost, expected):
        """The margins of bound 21 (docs/methods/rdr.md)."""
        found = margins(Fraction(cost), ZCDP)
        assert found == pytest.approx(expected, abs=0.06)

    def test_laplace(self):
        assert margins(Fraction("0.1"), PURE) == (37, 49, 59, 67)

    @pytest.mark.parametrize("epsilon", ["0.002", "0.02", "0.7"])
    def test_a_sum_of_laplace_noises_lies_further_down_as_rarely_as_is_said(self, epsilon):
        """Against the distribution of a difference of two sums of geometric variables."""
        rate = float(Fraction(epsilon))
        for k, margin in enumerate(margins(Fraction(epsilon), PURE), start=1):
            reach = np.arange(int(60 * k / rate))
            first = stats.nbinom.pmf(reach, k, -np.expm1(-rate))
            below = float(first @ stats.nbinom.sf(reach + margin, k, -np.expm1(-rate)))
            assert below <= 0.0125
            # and one person less would not do, where it is exact
            if rate >= 0.01:
                assert first @ stats.nbinom.sf(reach + margin - 1, k, -np.expm1(-rate)) > 0.0125

    def test_the_noise_lies_on_the_lattice_of_answers(self):
        """There its mu^2 is 2 rho; on whole numbers nothing of the kind is proved for small noise."""
        assert lattice(ZCDP) == 1 << 22
        assert lattice(PURE) == 1
        noise = NoNoise()
        released = Histogram().draw(tally(9, exposed=0), Fraction(1, 8), ZCDP, noise)
        assert released == [0, 0, 0, 9 << 22]
        assert noise.draws[0].scale >= 2 * 2**22

    @pytest.mark.parametrize("privacy", [ZCDP, PURE])
    def test_a_wish_sets_a_price_at_which_it_can_be_shown(self, privacy):
        for people in (10, 50, 400):
            cost = price(people, privacy)
            assert 2 * margins(cost, privacy)[0] <= people
            assert 2 * margins(cost * Fraction(9, 10), privacy)[0] > people


class TestHistogram:
    def test_bins_are_right_closed_and_a_row_is_in_one(self):
        for step, place in ((4096, 0), (2049, 0), (2048, 1), (1024, 2), (513, 2), (512, 3), (0, 3)):
            table = np.zeros(STEPS + 1, dtype=np.int64)
            table[step] = 1
            assert Histogram().exact(table) == [int(i == place) for i in range(BINS + 1)]

    def test_bounds_are_never_negative_and_rise(self):
        steps = lattice(ZCDP)
        for released in ([-90, 50, -80, 3], [9, -100, 0, 0], [-500] * 4):
            _, upper, least = bounds([v * steps for v in released], Fraction(1, 200), ZCDP)
            assert list(upper) == sorted(upper)
            assert min(*upper, least) >= 0

    def test_without_noise_the_margins_are_all_that_is_added(self):
        steps = lattice(ZCDP)
        _, upper, least = bounds([5 * steps, 0, 2 * steps, 100 * steps], Fraction(1, 200), ZCDP)
        assert upper == (5 + 22, 5 + 31, 7 + 38)
        assert least == math.ceil(107 - 44.83)


class TestConfidence:
    """Theorem 19: any sentence on counts, shares or size is false in 5 % of draws at most."""

    RUNS = power.shares(0.05, 0.099)

    @pytest.mark.parametrize("rows", [200, 1_000, 10_000, 32_561])
    @pytest.mark.parametrize(("privacy", "cost"), COSTS)
    def test_what_is_said_is_rarely_false(self, privacy, cost, rows):
        for exposed, step in [*((e, STEPS) for e in EXPOSED), (0.5, STEPS // 2)]:
            table = tally(rows, exposed=exposed, step=step)
            runs = max(400, self.RUNS // 8)
            released = draws(table, cost, privacy, runs)
            false = sum(wrong(table, cost, privacy, one) for one in released)
            assert stats.binom.sf(false - 1, runs, 0.05) > power.FALSE

    def test_the_sharpest_case_is_rarely_false(self):
        """All bins as they are, at a sample that tells margins of gamma each (9.9 %) from gamma together."""
        table = tally(1_000, exposed=0.5)
        released = draws(table, "0.005", ZCDP, self.RUNS)
        false = sum(wrong(table, "0.005", ZCDP, one) for one in released)
        assert stats.binom.sf(false - 1, self.RUNS, 0.05) > power.FALSE


@pytest.fixture(scope="module")
def patients():
    """1,000 people, 50 of them ill, who all add 1 to the count; and 20,000 of whom 5 are."""

    def made(rows, ill):
        frame = pd.DataFrame({"ill": np.arange(rows) < ill})
        frame["ill"] = frame["ill"].map({True: "yes", False: "no"})
        return Table("t", frame, Schema({"ill": Category(["yes", "no"])}))

    return {"many": made(1_000, 50), "few": made(20_000, 5)}


SQL = "SELECT COUNT(*) AS n FROM t WHERE ill = 'yes'"


def paid(curator):
    return curator.budget.spent


class TestChoose:
    def test_without_a_wish_it_is_the_rule_and_free(self, opened, patients):
        curator = opened(patients["many"], rho=1)
        choice, rule = curator.risk(SQL).choose(0.95), curator.risk(SQL).suggest(0.95)
        assert choice == rule
        assert paid(curator).rho == 0
        assert "anybody's presence can be guessed right at most 57 times in 100" in choice.sentence

    def test_few_among_many_allow_a_larger_level(self, opened, patients, budget, unit):
        noise = DiscreteNoise(3)
        profile = opened(patients["few"], noise=noise, **budget).risk(SQL)
        choice = profile.choose(guesses=60, p=0.99)
        rule = profile.suggest(guesses=60)
        assert choice.level == rule.level * (8 if unit == "epsilon" else 64)
        assert "of people are above your limit in this answer (95 % confidence)" in choice.sentence
        assert "Those people may be guessed right up to" in repr(choice)
        assert choice.source == "private"
        assert not choice.conditional

    def test_what_cannot_be_shown_falls_back_to_the_rule(self, opened, patients, budget, unit):
        """The old quantile was false in 62 of 80 such tables: 5 % stand out, not 1 %."""
        cost = "0.3" if unit == "epsilon" else "0.05"
        for i in range(5):
            profile = opened(patients["many"], noise=DiscreteNoise(i), **budget).risk(SQL)
            for target in ({"p": 0.99}, {"at_most": 49, unit: cost}):
                choice = profile.choose(guesses=70, **target)
                rule = profile.suggest(guesses=70)
                assert choice.level == rule.level
                assert "so the rule is used: nobody is above your limit." in repr(choice)

    def test_many_who_may_stand_out_are_counted(self, opened, patients):
        choice = (
            opened(patients["many"], noise=NoNoise(), rho=99)
            .risk(SQL)
            .choose(guesses=60, at_most=100, rho="0.005")
        )
        assert choice.detail["upper"] == [72, 81, 88]
        assert choice.detail["k"] == 3
        assert "at most 88 people can be guessed right more than 60 times in 100" in choice.sentence

    def test_levels_are_those_of_the_rule_less_what_the_counts_cost(self, opened, patients):
        curator = opened(patients["few"], noise=NoNoise(), rho=99)
        before = curator.risk(SQL).suggest(guesses=60).level
        choice = curator.risk(SQL).choose(guesses=60, at_most=100, rho="0.005")
        assert choice.level == pytest.approx(64 * (before - Fraction(1, 200)), rel=1e-9)
        alone = curator.risk(SQL).choose(guesses=60, at_most=100, rho="0.005", policy="alone")
        assert alone.level == choice.level

    def test_a_level_that_cannot_be_bought_is_not_taken(self, opened, patients):
        profile = opened(patients["few"], noise=NoNoise(), rho=1).risk(SQL)
        choice = profile.choose(guesses=60, at_most=100, rho="0.005")
        assert choice.detail["k"] == 1
        assert choice.affordable

    def test_candidates_round_down(self, opened, patients):
        profile = opened(patients["few"], noise=NoNoise(), rho=100).risk(SQL)
        options = {"guesses": 60, "at_most": 100, "rho": "0.005"}
        assert profile.choose(candidates=[9, 5, 1], **options).level == 5
        none = profile.choose(candidates=[90], **options)
        assert none.level is None
        assert "no candidate is that small" in none.sentence

    def test_one_histogram_serves_every_limit_and_wish_that_asks_no_more(self, opened, patients):
        curator = opened(patients["few"], rho=9)
        profile = curator.risk(SQL)
        profile.choose(guesses=60, at_most=50)
        total = paid(curator)
        for options in ({"guesses": 55, "at_most": 50}, {"tau": 0.9, "at_most": 400},
                        {"guesses": 60, "at_most": 50, "candidates": [1]}):  # fmt: skip
            again = profile.choose(**options)
            assert again.stored
        assert profile.safe_counts(guesses=70, at_most=50).stored
        assert paid(curator) == total
        profile.choose(guesses=60, at_most=20)
        assert paid(curator).rho > total.rho

    def test_the_history_of_the_owner_has_it(self, opened, patients):
        curator = opened(patients["few"], rho=9)
        choice = curator.risk(SQL).choose(guesses=60, at_most=50)
        (charge,) = curator._runner.store.accountant.history("owner")
        assert charge.sql == f"risk, safe counts: {SQL}"
        assert charge.spent == choice.spent
        assert charge.spent.rho == price(50, ZCDP)


class TestWhatIsSaid:
    """The words of a choice follow what decided it: the counts, or what is left to pay."""

    def test_a_level_that_the_counts_allow_but_nobody_can_pay(self, opened, patients):
        """Another analyst's answer came after the counts, which were bought when they could help."""
        curator = opened(patients["few"], noise=NoNoise(), rho="0.6")
        profile = curator.risk(SQL)
        profile.safe_counts(guesses=60, at_most=50, rho="0.01")
        curator.session().query("SELECT COUNT(*) AS n FROM t", rho="0.53")
        choice = profile.choose(guesses=60, at_most=50, rho="0.01", policy="alone")
        assert choice.detail["k"] == 0
        assert "could not show" not in repr(choice)
        level = amount_text(4 * choice.level)
        assert (
            f"The counts show that for rho {level}, which what is left does not pay for."
            in repr(choice)
        )

    def test_a_limit_for_all_answers_is_said_beside_the_figure_of_one(self, opened, patients):
        curator = opened(patients["few"], noise=NoNoise(), rho=99)
        curator.session().query("SELECT COUNT(*) AS n FROM t", rho="0.1219")
        choice = curator.risk(SQL).choose(guesses=60, at_most=60, rho="0.005")
        assert 50 < choice.detail["ceiling"] < 60
        assert (
            "can be guessed right more than 60 times in 100 from all answers together"
            in choice.sentence
        )
        assert "From this answer alone, those people may be guessed right up to 5" in repr(choice)
        counts = curator.risk(SQL).safe_counts(guesses=60, at_most=60, rho="0.005")
        assert counts.shared
        assert "people above 60 of 100 from all answers, at most" in repr(counts)
        assert "for all answers together, the last column for this one alone" in repr(counts)

    def test_nothing_is_said_to_be_certain(self, opened, patients):
        profile = opened(patients["few"], noise=NoNoise(), rho=99).risk(SQL)
        choice = profile.choose(guesses=70, at_most=100, rho="0.005")
        assert 99 < choice.detail["ceiling"] < 100
        assert "may be guessed right over 99 times in 100" in repr(choice)
        assert "100 times in 100" not in repr(choice)


class TestRefusals:
    """By public numbers, before any look at the data."""

    @pytest.fixture
    def profile(self, opened, patients, monkeypatch):
        curator = opened(patients["few"], rho=1)
        profile = curator.risk(SQL)
        for name in ("contributions", "measure", "marginals"):
            monkeypatch.setattr(DuckDBEngine, name, lambda *_: 1 / 0)
        yield profile
        assert paid(curator).rho == 0

    def test_a_wish_below_the_noise(self, profile):
        with pytest.raises(RequestError) as caught:
            profile.choose(guesses=60, at_most=10, rho="0.005")
        assert str(caught.value) == (
            "at this privacy cost the noise is about 22 people, too much to show that at most 10 are above the limit. That would "
            "cost rho 0.1005. Allow 45 people or more, or use the rule for free."
        )

    def test_nobody_at_all(self, profile):
        with pytest.raises(RequestError, match="the rule promises that for free"):
            profile.choose(guesses=60, at_most=0)

    def test_more_than_a_tenth_of_what_is_left(self, profile):
        with pytest.raises(RequestError, match="more than a tenth of the 1 left"):
            profile.choose(guesses=60, at_most=10)

    def test_more_than_the_limit_allows(self, profile):
        with pytest.raises(RequestError, match=r"your limit allows a total of rho 0\.0315"):
            profile.choose(guesses=55, rho="0.04", at_most=50)

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"guesses": 80}, "the next level, rho 5.6"),
            ({"guesses": 70, "policy": "alone"}, "the next level, rho 2.1"),
            ({"guesses": 60, "candidates": [0.001, 0.01, 0.1]}, "no listed level is above the rule's"),
            ({"guesses": 60, "candidates": [0.1, 3]}, "the next level, rho 3, costs more than is left"),
        ],
    )  # fmt: skip
    def test_counts_after_which_the_rule_alone_is_left(self, profile, options, why):
        """Nothing is sold where no outcome can change the choice, and the rule gives the same."""
        with pytest.raises(
            RequestError, match="could not change the choice, whatever they say"
        ) as caught:
            profile.choose(at_most=50, rho="0.01", **options)
        assert why in str(caught.value)
        if "candidates" not in options and "policy" not in options:
            with pytest.raises(RequestError, match="could not change the choice"):
                profile.safe_counts(at_most=50, rho="0.01", **options)

    def test_more_than_is_left(self, profile):
        with pytest.raises(DpnbError):
            profile.choose(0, rho=2, at_most=50)
        with pytest.raises(DpnbError):
            profile.choose(0.3, rho=2, at_most=50)

    @pytest.mark.parametrize(
        "options",
        [{"at_most": 5, "p": 0.9}, {"at_most": -1}, {"at_most": 2.5}, {"at_most": "x"}, {"p": 1},
         {"p": 0}, {"guesses": 49, "at_most": 50}, {"guesses": 60, "tau": 0.9, "at_most": 50},
         {"at_most": 50, "policy": "paper-dynamic"}, {"at_most": 50, "tau": 0},
         {"mode": "nope"}, {"method": "tail"}, {"mode": "paper", "guesses": 60}],
    )  # fmt: skip
    def test_options_that_make_no_sense(self, profile, options):
        with pytest.raises(RequestError):
            profile.choose(**options)

    @pytest.mark.parametrize(
        ("wrong", "hint", "right"),
        [
            ({"guesses": 60, "at_most": 10, "rho": "0.005"}, "Allow 45 people or more",
             {"guesses": 60, "at_most": 45, "rho": "0.005"}),
            ({"guesses": 60, "at_most": 10}, "Confirm with rho=0.1005",
             {"guesses": 60, "at_most": 10, "rho": "0.1005"}),
            ({"guesses": 60, "at_most": 10}, "allow more people", {"guesses": 60, "at_most": 50}),
            ({"guesses": 55, "at_most": 50, "rho": "0.04"}, "Raise the limit",
             {"guesses": 60, "at_most": 50, "rho": "0.04"}),
            ({"guesses": 80, "at_most": 50}, "Use the rule for free", {"guesses": 80}),
            ({"guesses": 80, "at_most": 50}, "or set a lower limit", {"guesses": 60, "at_most": 50}),
            ({"guesses": 60, "at_most": 0}, "Leave at_most out", {"guesses": 60}),
            ({"guesses": 60, "at_most": 5, "p": 0.9}, "Give a number of people, or a share of them.",
             {"guesses": 60, "p": 0.9}),
            ({"guesses": 60, "p": 1}, "Give p=0.99.", {"guesses": 60, "p": 0.99}),
            ({"guesses": 60, "at_most": -1}, "Give at_most=50.", {"guesses": 60, "at_most": 50}),
        ],
    )  # fmt: skip
    def test_what_is_advised_is_accepted(self, opened, patients, wrong, hint, right):
        profile = opened(patients["few"], rho=1).risk(SQL)
        with pytest.raises(RequestError) as caught:
            profile.choose(**wrong)
        assert hint in caught.value.hint
        if "at_most" in right or "p" in right:
            profile.choose(**right)
        else:
            profile.suggest(**right)

    @pytest.mark.parametrize(("spent", "rule"), [("0.03", True), ("0.5", False)])
    def test_the_rule_is_advised_where_it_still_allows_something(
        self, opened, patients, spent, rule
    ):
        curator = opened(patients["few"], rho=1)
        curator.session().query("SELECT COUNT(*) AS n FROM t", rho=spent)
        profile = curator.risk(SQL)
        with pytest.raises(RequestError, match="your limit allows a total") as caught:
            profile.choose(guesses=55, at_most=50)
        assert ("use the rule" in caught.value.hint) == rule
        assert (profile.suggest(guesses=55).level is not None) == rule

    def test_statements_whose_contributions_depend_on_others_rows(self, opened, patients):
        curator = opened(patients["few"], rho=1)
        with pytest.raises(RequestError, match="depends on the other rows"):
            curator.risk("SELECT COUNT(DISTINCT ill) AS n FROM t").choose(guesses=60, at_most=50)
        curator.session().query(SQL, rho="0.01")
        profile = curator.risk(SQL, cumulative=True)
        with pytest.raises(RequestError, match="cannot include earlier answers"):
            profile.choose(guesses=60, at_most=50)

    def test_a_share_says_from_how_many_people_on_it_shows_something(self, profile):
        """n is private: nothing can be refused beforehand."""
        assert profile.counts_target(p=0.99).sentences() == [
            "They cost rho 0.005.",
            "They are useful only in tables of about 4,500 people or more.",
        ]
        assert profile.counts_target(at_most=50).sentences()[0] == "They cost rho 0.00402."


class TestMarks:
    """C: what is settled after an exact figure was shown may rest on it."""

    def test_a_limit_that_is_new_after_a_look_marks_the_rule(self, opened, patients):
        profile = opened(patients["few"], rho=9).risk(SQL)
        assert not profile.suggest(guesses=60).conditional
        profile.top()
        assert not profile.suggest(guesses=60).conditional
        late = profile.suggest(guesses=55)
        assert late.conditional
        assert isinstance(late.rho, Picked)

    @pytest.mark.parametrize(
        "look",
        ["rdr", "losses", "top", "sentence", "histogram", "search", "plot"],
    )
    def test_every_exact_figure_is_a_look(self, look, opened, patients):
        curator = opened(patients["few"], rho=9)
        profile = curator.risk(SQL)
        {
            "rdr": lambda: profile.rdr(rho=1),
            "losses": lambda: profile.losses(rho=1),
            "top": profile.top,
            "sentence": lambda: profile.sentence(rho=1, reveal=True),
            "histogram": profile.histogram,
            "search": lambda: profile.choose(0.9, private=False),
            "plot": lambda: profile.plot(reveal=True),
        }[look]()
        # the same statement in other words, and a target
        other = curator.risk("select count(*) as m from T where ill = 'yes'")
        assert other.suggest(guesses=60).conditional
        # another statement
        assert not curator.risk("SELECT COUNT(*) AS n FROM t").suggest(guesses=60).conditional
        # what was bought so counts against every limit from then on
        assert other.choose(guesses=60, at_most=50).conditional
        assert curator.risk("SELECT COUNT(*) AS n FROM t").suggest(guesses=70).conditional

    def test_counts_that_were_bought_before_serve_at_the_limit_set_before(self, opened, patients):
        curator = opened(patients["few"], rho=9)
        profile = curator.risk(SQL)
        before = profile.choose(guesses=60, at_most=50)
        profile.top()
        assert not profile.choose(guesses=60, at_most=50).conditional
        late = profile.choose(guesses=70, at_most=50)
        assert late.stored
        assert late.conditional
        assert not before.conditional
        counts = profile.safe_counts(guesses=70, at_most=50)
        assert isinstance(counts.levels[1].level, PickedRational)

    def test_what_is_bought_after_a_look_is_marked_in_the_ledger(self, opened, patients):
        curator = opened(patients["few"], rho=9)
        profile = curator.risk(SQL)
        profile.top()
        profile.choose(guesses=60, at_most=50)
        (charge,) = curator._runner.store.accountant.history("owner")
        assert charge.conditional

    def test_of_public_tables_everything_may_be_seen(self, opened, single):
        profile = opened(single([1, 2, 3], public=True), rho=9).risk(SUM)
        profile.top()
        assert not profile.suggest(guesses=60).conditional


class TestPlainData:
    def test_counts_survive_json_and_are_shown(self, opened, patients, budget):
        counts = opened(patients["few"], **budget).risk(SQL).safe_counts(guesses=60, at_most=90)
        assert SafeCounts.from_dict(json.loads(json.dumps(counts.to_dict()))) == counts
        text = repr(counts)
        assert "people above 60 of 100, at most" in text
        assert "95 % confidence" in text
        assert "NOT PRIVATE" in text
        assert "Safe counts" in counts._repr_html_().replace("&nbsp;", " ")
        assert list(counts.to_frame()["people_at_most"]) == [0, *counts.upper]
        assert counts.levels[0].ceiling <= 60 + 1e-9

    def test_the_ceiling_is_that_of_somebody_who_adds_all(self, opened, patients):
        """Algorithm 20: 60: 69.4, 84.5, 97.9, where the counts cost next to nothing."""
        profile = opened(patients["few"], rho=100).risk(SQL)
        counts = profile.safe_counts(guesses=60, at_most=10**6)
        found = [one.ceiling for one in counts.levels]
        assert found == pytest.approx([60, 69.4, 84.5, 97.9], abs=0.06)

    def test_once_the_limit_is_used_up_they_say_so(self, opened, patients):
        curator = opened(patients["few"], rho=9)
        profile = curator.risk(SQL)
        profile.safe_counts(guesses=60)
        curator.session().query("SELECT COUNT(*) AS n FROM t", rho=1)
        used = profile.safe_counts(guesses=60)
        assert used.levels == ()
        assert "allows no further answer" in repr(used)
        choice = profile.choose(guesses=60, at_most=50)
        assert choice.level is None
        assert "1.005 is spent. Raise the limit or reuse answers." in choice.sentence

    def test_shares_are_rounded_up(self):
        assert share_at_most(0.0051) == "0.51 %"
        assert share_at_most(0.005101) == "0.52 %"


def test_half_a_contribution_is_counted_in_its_bin(opened):
    """SUM of 0 to 10: 9 adds .9, 5 adds a half, which is not above it."""
    frame = pd.DataFrame({"x": np.repeat([9, 5, 2, 0], [4, 30, 200, 1_000])})
    table = Table("t", frame, Schema({"x": Integer(0, 10)}))
    profile = opened(table, noise=NoNoise(), rho=100).risk(SUM)
    counts = profile.safe_counts(guesses=60, rho="0.05", at_most=50)
    assert counts.counts == (4, 30, 200, 1_000)
    assert counts.upper == (4 + 7, 34 + 10, 234 + 12)
