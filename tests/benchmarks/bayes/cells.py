"""Cost per cell against adding up: a drill-down over Adult, and the time that reckoning takes.

    python -m tests.benchmarks.bayes.cells

The session asks for the number of people of each native country, then in the six largest for sex by
education and for the mean age of either sex, each at rho 0.01. The time is that of ``Accountant.cost``,
without data: views of a drill-down (disjoint), and ranges of two columns (most of them meet). "refined"
is a finer level of a view among others that are known; "new" one view more, whose place among the others
has to be found.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import dpnb
from dpnb.ledger.accountant import Accountant
from dpnb.ledger.mechanism import LevelTarget
from tests.kit.verdicts import finish, must

LEVEL = Fraction(1, 100)
LARGEST = ("United-States", "Mexico", "Philippines", "Germany", "Canada", "Puerto-Rico")


def drill_down() -> tuple[float, float, int]:
    """Return what the session costs, what its views add up to, and the number of statements."""
    curator = dpnb.Curator(dpnb.datasets.adult(), budget=dpnb.Budget(rho=100))
    session = curator.session()
    base = "FROM adult WHERE native_country = :country"
    countries = curator.tables["adult"].schema["native_country"].values
    asked = [(f"SELECT COUNT(*) AS n {base}", country) for country in countries]
    for country in LARGEST:
        asked.append(
            (f"SELECT sex, education, COUNT(*) AS n {base} GROUP BY sex, education", country)
        )
        asked += [
            (f"SELECT AVG(age) AS a {base} AND sex = '{sex}'", country)
            for sex in ("Female", "Male")
        ]
    for sql, country in asked:
        session.query(sql, params={"country": country}, rho=LEVEL)
    apart = sum(column.known.rho for column in curator.provenance.columns)
    spent = curator.budget.spent.rho
    curator.close()
    return float(spent), float(apart), len(asked)


def view(where: Any) -> dict[str, Any]:
    """Return the definition of a count."""
    return {
        "table": "t", "version": 1, "unit": None, "keys": [], "where": where,
        "measure": ["count", None],
    }  # fmt: skip


def disjoint(number: int, _: random.Random) -> dict[str, Any]:
    """Return the view of one country, or of one sex and education in it."""
    country = ["country", [[number % 41, number % 41]], False]
    if number < 41:
        return view(country)
    sex, education = number % 2, number // 41
    return view(
        {"and": [country, ["education", [[education] * 2], False], ["sex", [[sex] * 2], False]]}
    )


def meeting(_: int, draw: random.Random) -> dict[str, Any]:
    """Return the view of a range of ages and a range of educations."""
    ends = [sorted(draw.sample(range(size), 2)) for size in (74, 16)]
    return view(
        {
            "and": [
                [name, [pair], False] for name, pair in zip(("age", "education"), ends, strict=True)
            ]
        }
    )


def microseconds(
    make: Callable[[int, random.Random], dict[str, Any]], size: int
) -> tuple[float, float]:
    """Return the median times of pricing a finer level of a known view, and a new view."""
    accountant, draw = Accountant(dpnb.Budget(rho=1000)), random.Random(1)  # noqa: S311
    definitions = {f"v{number}": make(number, draw) for number in range(size + 20)}
    names = list(definitions)
    for name in names[:size]:
        accountant.note("a", accountant.cost("a", {name: LevelTarget(LEVEL)}, definitions))

    def timed(name: str, level: Fraction) -> float:
        begun = time.perf_counter()
        accountant.cost("a", {name: LevelTarget(level)}, definitions)
        return 1e6 * (time.perf_counter() - begun)

    refined = [timed(names[i % size], LEVEL * (i + 2)) for i in range(100)]
    return statistics.median(refined), statistics.median(timed(n, LEVEL) for n in names[size:])


def main() -> None:
    """Print the figures and what they must show."""
    spent, apart, statements = drill_down()
    print(f"{statements} statements: rho {spent:.4g} per cell, {apart:.4g} added up")
    print(f"\n{'views':>10}{'refined':>12}{'new':>12}   microseconds")
    times = {}
    for name, make in (("disjoint", disjoint), ("meeting", meeting)):
        for size in (10, 50, 500):
            times[name, size] = refined, new = microseconds(make, size)
            print(f"{size:>10}{refined:>12.0f}{new:>12.0f}   {name}")
    must(apart >= 3 * spent, f"adding up costs {apart / spent:.1f} times as much (3 or more)")
    worst = max(refined for (_, size), (refined, _) in times.items() if size <= 50)
    must(worst <= 500, f"refining one of 50 views is priced in {worst:.0f} us (500 or less)")
    finish()


if __name__ == "__main__":
    main()
