"""RDR's user study: what people chose, the tests, and what they were shown.

    python -m tests.benchmarks.rdr.survey

Counts of choices are read off the published plots; the table that people saw is made anew from Adult.
"""

from __future__ import annotations

import numpy as np

from tests.benchmarks.rdr.common import (
    CHOICES,
    SLIDER,
    chosen,
    displayed,
    finish,
    mann_whitney,
    must,
    surveyed,
)

SPREAD = {  # sample variance, median
    ("Q1", "control"): (1.0807, 2.5),
    ("Q1", "range"): (0.3939, 2),
    ("Q1", "histogram"): (0.7658, 2),
    ("Q2", "control"): (1.3467, 3.5),
    ("Q2", "range"): (0.4772, 2),
    ("Q2", "histogram"): (0.7178, 2.5),
}
TESTS = {  # U where given, p where given, digits after the point, what was said
    ("Q1", "control", "range"): (567.0, 0.00324, 5, "p < .005"),
    ("Q2", "control", "range"): (622.5, 0.000124, 6, "p < .005"),
    ("Q1", "histogram", "range"): (None, 0.514, 3, "no difference"),
    ("Q2", "histogram", "range"): (None, 0.0034, 4, "histograms: larger"),
    ("Q1", "control", "histogram"): (None, 0.046, 3, "not said"),
    ("Q2", "control", "histogram"): (None, 0.083, 3, "not said"),
}
SHOWN = [(1, 16), (5, 12), (6, 11), *[(7, 10)] * 4, *[(8, 9)] * 3]
"""Ranges of outputs in Q1."""


def choices() -> None:
    print("People by the epsilon they chose")
    print(f"  {'':16}" + "".join(f"{e:>5g}" for e in SLIDER) + "   variance  median")
    for question, groups in CHOICES.items():
        for group, counts in groups.items():
            found = chosen(question, group)
            figures = round(found.var(ddof=1), 4), float(np.median(found))
            print(
                f"  {question} {group:13}"
                + "".join(f"{count:>5}" for count in counts)
                + f"{figures[0]:>11.4f}{figures[1]:>8g}"
            )
            must(figures == SPREAD[question, group], f"{question} {group}: variance and median")


def tests() -> None:
    print("\nMann-Whitney, two-sided")
    for (question, one, other), (u, p, digits, said) in TESTS.items():
        found = mann_whitney(question, one, other)
        print(f"  {question} {one} against {other:12} U={found[0]:g}  p={found[1]:.6f}  ({said})")
        same = round(found[1], digits) == p and u in (None, found[0])
        must(same, f"{question} {one} against {other}: p = {found[1]:.{digits}f}")
    for question in CHOICES:
        middle = np.isin(chosen(question, "range"), (1.5, 2)).sum()
        must(middle == 19, f"{question}: {middle} of 27 who saw ranges chose 1.5 or 2")


def shown() -> None:
    people = surveyed()
    rich, young = people.income == ">50K", people.age < 40
    raw = int((rich & young).sum())
    degree = people[~rich & (people.education_num >= 14)].race.value_counts()
    races = people.race.value_counts()
    print("\nRanges of outputs that were shown, by epsilon")
    print(f"  {'':28}" + "".join(f"{e:>6g}" for e in SLIDER))
    lines = {"Q1": displayed(raw)}
    for race, size in races.items():
        lines[f"Q2 {race} (of {size})"] = displayed(int(degree.get(race, 0)), int(size))
    for name, ranges in lines.items():
        print(f"  {name:28}" + "".join(f"{f'{low}-{high}':>6}" for low, high in ranges))
    # Lemma 3.6 with distances 0 and 1: a box of width 1 at every epsilon (docs/methods/rdr.md, E5)
    print("and of indicators, by the paper's formula")
    for end, name in ((0, "Q1, smallest"), (1, "Q1, largest")):
        print(f"  {name:28}" + "".join(f"{end + 1 / e:>6.2f}" for e in SLIDER))
    must(raw == 9, f"Q1 counts {raw} persons")
    must(degree.to_dict() == {"White": 2, "Asian-Pac-Islander": 1}, "Q2 counts 2 White, 1 Asian")
    must(sorted(races, reverse=True) == [87, 7, 5, 1], "races: 87, 7, 5, 1")
    must(lines["Q1"] == SHOWN, "ranges of outputs in Q1")


def main() -> None:
    choices()
    tests()
    shown()
    finish()


if __name__ == "__main__":
    main()
