"""The query of ProBE's introduction, decided many times with real noise where that is hardest.

    python -m tests.benchmarks.probe.intro               # 2,000 runs in each privacy definition, 6 minutes
    python -m tests.benchmarks.probe.intro --runs 200

Which diseases strike the elderly or children: (count > c1 and avg(age) > 65) or (count > c2 and avg(age) < 5).
Patients are made up so that some diseases meet each threshold by one patient or by one year in all, and
others miss it by nothing at all. Three statements are held against the truth:

- misses: whatever happens, a disease that satisfies the condition is left out with a chance of at most beta.
  A fifth as many runs take all six steps, where the bound is nearly used up.
- the certificate: shares of false alarms and of misses in a result pass the certified ones in at most
  1 - confidence of the runs, and 'certified' is never said of a list with more than alpha in doubt.
- the estimate promises nothing, so it is only printed.

A figure fails only when chance alone would make it so large less often than once in 1e9.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

import dpnb
from dpnb.decide.decision import Decision
from dpnb.display.cards import decision_words
from dpnb.privacy.definition import PURE, ZCDP
from tests.kit.verdicts import finish, must

CHANCE = 1e-9
BETA, ALPHA, CONFIDENCE = 0.05, 0.25, 0.95
ELDERLY, CHILDREN = 400, 200
"""The least counts, c1 and c2."""
SQL = f"""
SELECT disease, COUNT(*) AS patients, AVG(age) AS age
FROM patients
WHERE disease_type = 'viral'
GROUP BY disease
HAVING (COUNT(*) > {ELDERLY} AND AVG(age) > 65) OR (COUNT(*) > {CHILDREN} AND AVG(age) < 5)
"""
BUDGETS = {PURE: dpnb.Budget(epsilon=200), ZCDP: dpnb.Budget(rho=2_000)}
FULL = 6
"""Steps of the runs that take all of them."""


def ages(count: int, about: int, spread: int, beyond: int) -> list[int]:
    """Return ages whose distances from ``about`` sum up to ``beyond``."""
    made = [about - spread, about + spread] * (count // 2) + [about] * (count % 2)
    step, left = (1 if beyond > 0 else -1), abs(beyond)
    each, rest = divmod(left, max(count, 1))
    return [age + step * (each + (i < rest)) for i, age in enumerate(made)]


@dataclass(frozen=True, slots=True)
class Disease:
    """How many patients, about which age, and by how many years in all beyond it."""

    count: int
    about: int
    beyond: int
    hard: bool = True

    @property
    def satisfies(self) -> bool:
        """Whether the condition is true, from its definition."""
        if self.about == 65:
            return self.count > ELDERLY and self.beyond > 0
        return self.about == 5 and self.count > CHILDREN and self.beyond < 0

    @property
    def ages(self) -> list[int]:
        """One for each patient."""
        return ages(self.count, self.about, {65: 20, 5: 3, 35: 25}[self.about], self.beyond)


@cache
def diseases() -> dict[str, Disease]:
    """Return all declared ones; of one there is no patient."""
    made = {}
    for who, about, least, sign in (("old", 65, ELDERLY, 1), ("young", 5, CHILDREN, -1)):
        far = least * (12 if about == 65 else 2)
        made |= {
            # true, by next to nothing
            f"{who}: both just met": Disease(least + 1, about, sign),
            f"{who}: age just met": Disease(3 * least, about, sign),
            f"{who}: count just met": Disease(least + 1, about, sign * far),
            # false, by nothing
            f"{who}: both just missed": Disease(least, about, 0),
            f"{who}: age just missed": Disease(3 * least, about, 0),
            f"{who}: count just missed": Disease(least, about, sign * far),
            # easy
            f"{who}: met": Disease(6 * least, about, 3 * sign * far, hard=False),
        }
    made |= {f"middle, {i}": Disease(1_200, 35, 0, hard=False) for i in range(6)}
    made |= {f"rare, {i}": Disease(10, 35, 0, hard=False) for i in range(46)}
    return made | {"none": Disease(0, 35, 0, hard=False)}


@cache
def truth() -> np.ndarray:
    """Return which diseases satisfy the condition."""
    return np.array([one.satisfies for one in diseases().values()])


@cache
def patients() -> pd.DataFrame:
    """Return the rows: patients with viral diseases, and others who only stand by."""
    found = diseases()
    frame = pd.DataFrame(
        {
            "disease": np.repeat(list(found), [one.count for one in found.values()]),
            "age": np.concatenate([one.ages for one in found.values()]).astype(int),
            "disease_type": "viral",
        }
    )
    others = frame.sample(2_000, random_state=1).assign(disease_type="bacterial")
    return pd.concat([frame, others], ignore_index=True)


@cache
def table() -> dpnb.Table:
    """Return the patients with what is public: diseases, ages and types."""
    schema = dpnb.Schema(
        {
            "disease": dpnb.Category(list(diseases())),
            "age": dpnb.Integer(0, 110),
            "disease_type": dpnb.Category(["viral", "bacterial"]),
        }
    )
    return dpnb.Table("patients", patients(), schema)


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """What many runs found.

    Attributes
    ----------
    missed : bool array, shape (runs, diseases that satisfy the condition)
    violated : bool array, shape (runs,)
        Whether a measured share passes the certified one.
    reached : bool array, shape (runs,)
        Whether the steps reached their goal.
    certified : bool array, shape (runs,)
        Whether the status says so.
    beyond : int
        Certified runs with more than alpha of the list in doubt.
    false : array, shape (runs,)
        Measured shares of the diseases that do not satisfy it, and are on the list.
    listed : array, shape (runs,)
        Measured shares of the list that do not satisfy it.
    estimates : array, shape (runs,)
        Estimated ones.
    steps, spent : array, shape (runs,)
    """

    missed: np.ndarray
    violated: np.ndarray
    reached: np.ndarray
    certified: np.ndarray
    beyond: int
    false: np.ndarray
    listed: np.ndarray
    estimates: np.ndarray
    steps: np.ndarray
    spent: np.ndarray

    @property
    def worst(self) -> float:
        """The share of runs in which the worst disease was left out."""
        return float(self.missed.mean(axis=0).max())


def decide(privacy: str, steps: int | None = None) -> Decision:
    """Decide in a session of its own."""
    with dpnb.Session(table(), budget=BUDGETS[privacy]) as session:
        return session.decide(SQL, beta=BETA, alpha=ALPHA, confidence=CONFIDENCE, steps=steps)


def run(privacy: str, count: int, steps: int | None = None) -> Runs:
    """Decide ``count`` times."""
    right = truth()
    made = [decide(privacy, steps) for _ in range(count)]
    chosen = np.array([one.chosen for one in made])
    missed = (right & ~chosen).sum(axis=1) / right.sum()
    wrong = (~right & chosen).sum(axis=1)
    false = wrong / (~right).sum()
    doubtful = np.array([one.wrong_at_most for one in made])
    passed = (missed > [one.missed for one in made]) | (false > [one.false for one in made])
    certified = np.array([one.status == "certified" for one in made])
    return Runs(
        missed=~chosen[:, right],
        violated=passed | (wrong > doubtful),
        reached=np.array([one.false <= ALPHA for one in made]) | certified,
        certified=certified,
        beyond=int((certified & (doubtful > ALPHA * chosen.sum(axis=1))).sum()),
        false=false,
        listed=wrong / np.maximum(chosen.sum(axis=1), 1),
        estimates=np.array([np.nan if one.estimate is None else one.estimate for one in made]),
        steps=np.array([len(one.taken) for one in made]),
        spent=np.array([float(one.charged.level(one.privacy)) for one in made]),
    )


def unlikely(hits: np.ndarray, chance: float) -> bool:
    """Whether so many events, or more, are out of the question at that chance."""
    return bool(stats.binom.sf(int(hits.sum()) - 1, hits.size, chance) < CHANCE)


def wrong(found: Runs) -> list[str]:
    """Return which statements the runs disprove.

    Whether *any* of the six steps would reject a disease is independent of the others and bounds the
    misses, so that all diseases and runs together are as good as independent draws.
    """
    said = {
        "misses of the worst disease": any(unlikely(one, BETA) for one in found.missed.T),
        "misses of all diseases": unlikely(found.missed, BETA),
        "certified shares": unlikely(found.violated, 1 - CONFIDENCE),
        "status 'certified'": found.beyond > 0
        or unlikely((found.listed > ALPHA) & found.certified, 1 - CONFIDENCE),
    }
    return [name for name, broken in said.items() if broken]


def show(privacy: str, count: int, steps: int | None) -> None:
    """Print figures with their bounds beside them."""
    found = run(privacy, count, steps)
    broken = wrong(found)
    told = "as many steps as it takes" if steps is None else f"all {steps} steps"
    print(f"\n{privacy}, {told}, {count:,} runs: {found.steps.mean():.2f} steps, "
          f"{'epsilon' if privacy == 'pure' else 'rho'} {found.spent.mean():.4g} on average")  # fmt: skip
    rows = (
        ("left out, worst disease", found.worst, BETA),
        ("left out, all that satisfy it", found.missed.mean(), BETA),
        ("certificate violated", found.violated.mean(), 1 - CONFIDENCE),
        ("certified, yet more wrong", ((found.listed > ALPHA) & found.certified).mean(), 1 - CONFIDENCE),
    )  # fmt: skip
    for name, figure, bound in rows:
        print(f"  {name:32} {figure:8.4f}   at most {bound:.4f}")
    print(f"  {'status certified':32} {found.certified.mean():8.4f}")
    print(f"  {'false alarms: measured, estimated':32} {found.false.mean():8.4f}   "
          f"{found.estimates.mean():.4f} (no bound)")  # fmt: skip
    must(not broken, f"{privacy}, {told}: {', '.join(broken) or 'all statements hold'}")


def statements() -> None:
    """Print what one decision says."""
    made = decide(ZCDP)
    for kind, (name, text) in zip(
        decision_words.kinds(made), decision_words.statements(made), strict=True
    ):
        print(f"[{kind}] {name}: {text}")


def main() -> None:
    """Run all and exit 1 when a statement is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=2_000)
    count = parser.parse_args().runs
    hard = sum(one.hard for one in diseases().values())
    print(
        f"{len(truth())} diseases, {truth().sum()} satisfy the condition, {hard} lie at a threshold"
    )
    statements()
    for privacy in BUDGETS:
        for steps in (None, FULL):
            show(privacy, count if steps is None else max(count // 5, 1), steps)
    finish()


if __name__ == "__main__":
    main()
