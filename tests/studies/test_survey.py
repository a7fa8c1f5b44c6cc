"""RDR's user study: its statistics and what people saw come out of the counts and of Adult."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.rdr import common as survey

pytestmark = pytest.mark.fast

PEOPLE = {"control": 29, "range": 27, "histogram": 20}


class TestChoices:
    @pytest.mark.parametrize(
        ("question", "group", "variance", "median"),
        [
            ("Q1", "control", 1.0807, 2.5),
            ("Q1", "range", 0.3939, 2),
            ("Q1", "histogram", 0.7658, 2),
            ("Q2", "control", 1.3467, 3.5),
            ("Q2", "range", 0.4772, 2),
            ("Q2", "histogram", 0.7178, 2.5),
        ],
    )
    def test_moments(self, question, group, variance, median):
        found = survey.chosen(question, group)
        assert len(found) == PEOPLE[group]
        assert found.var(ddof=1) == pytest.approx(variance, abs=5e-5)
        assert np.median(found) == median

    @pytest.mark.parametrize(
        ("question", "group", "other", "u", "p"),
        [
            ("Q1", "control", "range", 567, 0.003242),
            ("Q2", "control", "range", 622.5, 0.000124),
            ("Q1", "histogram", "range", 299.5, 0.514410),
            ("Q2", "histogram", "range", 402, 0.003426),
            ("Q1", "control", "histogram", 386.5, 0.045915),
            ("Q2", "control", "histogram", 374.5, 0.083446),
        ],
    )
    def test_groups_compared(self, question, group, other, u, p):
        found = survey.mann_whitney(question, group, other)
        assert found == (u, pytest.approx(p, abs=1e-6))

    @pytest.mark.parametrize("question", ["Q1", "Q2"])
    def test_most_who_saw_ranges_chose_one_and_a_half_or_two(self, question):
        assert np.isin(survey.chosen(question, "range"), (1.5, 2)).sum() == 19


class TestShown:
    def test_the_sample_of_adult(self):
        people = survey.surveyed()
        assert len(people) == 100
        assert sorted(people.race.value_counts()) == [1, 5, 7, 87]
        rich = people.income == ">50K"
        assert (rich & (people.age < 40)).sum() == 9
        degrees = people[~rich & (people.education_num >= 14)].race.value_counts()
        assert degrees.to_dict() == {"White": 2, "Asian-Pac-Islander": 1}

    def test_ranges_of_outputs(self):
        wanted = [(1, 16), (5, 12), (6, 11), *[(7, 10)] * 4, *[(8, 9)] * 3]
        assert survey.displayed(9) == wanted

    def test_ranges_of_groups_stay_between_0_and_their_size(self):
        assert survey.displayed(1, 5)[0] == (0, 5)
        assert survey.displayed(0, 7) == [
            (0, 7), (0, 3), (0, 2), *[(0, 1)] * 4, *[(0, 0)] * 3,
        ]  # fmt: skip
