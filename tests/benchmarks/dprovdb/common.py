"""What these benchmarks share: workloads, the real accounting without data, baselines, tables.

How many queries are answered depends on charges alone, so no data are needed: requests go through
``Accountant.cost``, ``ProvenanceTable.check`` and ``Synopses.note`` as in a curator, without a ledger.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

import dpnb
from dpnb.ledger.accountant import Accountant
from dpnb.ledger.accounts import ProvenanceTable
from dpnb.ledger.mechanism import LevelTarget
from dpnb.owner.report import ndcfg
from dpnb.privacy.definition import BASIC
from dpnb.privacy.gaussian import epsilon_from, sigma_from
from tests.kit.verdicts import finish as finish
from tests.kit.verdicts import must as must

DOMAINS = {
    "adult": {
        "age": (1, 140), "fnlwgt": (10_000, 1_500_000), "education_num": (0, 16),
        "capital_gain": (0, 100_000), "capital_loss": (0, 5_000), "hours_per_week": (0, 100),
    },
    "tpch": {
        "o_orderkey": (0, 6_000_000), "o_custkey": (0, 150_000), "o_totalprice": (500, 600_000),
    },
}  # fmt: skip
"""Declared domains of the attributes that range counts are about, in schema order."""
VIEWS = {"adult": 15, "tpch": 5}
BINS = 50
"""Of each of them."""
BINS_OF_ALL = {"table": "people", "version": 1, "histogram": []}
"""What the accounting needs to know of a declared view: it counts every row."""
WEIGHTS = (1, 10, 1, 1, 1, 1)
RUNS = (1, 2, 3, 4)
LIMITS = ("0.4", "0.8", "1.6", "3.2", "6.4")
TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class RangeCount:
    """One range count: its view, how many bins it touches, and its largest variance."""

    view: str
    bins: int
    variance: int


@lru_cache(maxsize=64)
def range_counts(data: str, count: int, start: int, step: int, run: int) -> tuple[RangeCount, ...]:
    """Return the randomised range queries of a run (docs/methods/dprovdb.md, reference values)."""
    r = np.random.default_rng(1025 * run)
    domains = DOMAINS[data]
    names = list(domains)
    weights = np.resize(WEIGHTS, len(names)) / np.resize(WEIGHTS, len(names)).sum()
    found = []
    for c in range(count):
        view = names[r.choice(len(names), p=weights)]
        lb, ub = domains[view]
        lo = np.clip(r.normal((ub + lb) // 3, max((ub - lb) // 15, 1e-9)), lb, ub)
        length = abs(r.normal((ub - lb) // 8, max((ub - lb) // 40, 1e-9)))
        hi = max(min(lo + length, ub), lb)
        h = (ub - lb) / BINS
        touched = max(BINS - math.floor((lo - lb) / h) - math.floor((ub - hi) / h), 1)
        found.append(RangeCount(view, touched, max(start - c * step, 1)))
    return tuple(found)


def round_robin(analysts: int, count: int, run: int) -> Iterator[tuple[int, int]]:
    """Yield (analyst, number of her query): each in turn."""
    for number in range(count):
        for analyst in range(analysts):
            yield analyst, number


def at_random(analysts: int, count: int, run: int) -> Iterator[tuple[int, int]]:
    """Yield (analyst, number of her query): any analyst who has some left, any of those."""
    r = np.random.default_rng(1025 * run + 1)
    orders = [list(r.permutation(count)) for _ in range(analysts)]
    while left := [analyst for analyst, order in enumerate(orders) if order]:
        analyst = left[r.integers(len(left))]
        yield analyst, int(orders[analyst].pop())


SCHEDULES = {"round robin": round_robin, "random": at_random}


@dataclass(frozen=True, slots=True)
class Case:
    """One run of one system: what is asked, under which rules."""

    mechanism: str
    limit: str
    run: int
    privileges: tuple[int, ...] = (1, 9)
    accountant: str = "basic"
    rows: str = "max"
    expansion: str = "1"
    views: str = "water-filling"
    data: str = "adult"
    count: int = 4000
    start: int = 3000
    step: int = 1
    delta: str = "1e-9"
    schedule: str = "round robin"

    def asked(self) -> Iterator[tuple[int, RangeCount]]:
        """Yield who asks what, in order."""
        queries = range_counts(self.data, self.count, self.start, self.step, self.run)
        order = SCHEDULES[self.schedule](len(self.privileges), self.count, self.run)
        return ((analyst, queries[number]) for analyst, number in order)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: answers of each analyst, and the largest share of a limit that was used.

    ``used`` is computed anew from what was released, not taken from the accountant. ``served`` has one
    byte for each request: one more than the number of the analyst who was answered, 0 for refusals.
    """

    served: bytes
    used: float
    privileges: tuple[int, ...]

    @property
    def answered(self) -> tuple[int, ...]:
        """Answers to each analyst."""
        return tuple(self.served.count(1 + place) for place in range(len(self.privileges)))

    @property
    def total(self) -> int:
        """Answers to all analysts."""
        return sum(self.answered)

    def first(self, requests: int) -> int:
        """Return how many of the first requests were answered."""
        return requests - self.served[:requests].count(0)

    @property
    def ndcfg(self) -> float:
        """How much of it went to the privileged; NaN without answers."""
        found = ndcfg(list(zip(self.privileges, self.answered, strict=True)))
        return math.nan if found is None else found


class Driver:
    """The bookkeeping of a curator with several analysts, without data, noise and ledger.

    Parameters
    ----------
    budget : dpnb.Budget
    policy : dpnb.Policy
    privileges : mapping of analysts to their privileges
    views : sequence of str
        Names of the declared views.
    """

    def __init__(
        self,
        budget: dpnb.Budget,
        policy: dpnb.Policy,
        privileges: Mapping[str, int],
        views: Sequence[str] = (),
    ) -> None:
        self.state = Accountant(budget, policy.mechanism)
        self.table = ProvenanceTable(self.state, policy.changed(top=max(privileges.values())))
        for name, level in privileges.items():
            self.table.apply(
                {"kind": "analyst", "name": name, "privileges": [level], "active": True}
            )
        for name in views:
            self.table.apply({"kind": "view", "name": name, "definition": {"norm": 1}})
        self.names = {name: name for name in views}
        self.fresh: list[tuple[str, Fraction]] = []

    def ask(self, analyst: str, view: str, target: LevelTarget) -> bool:
        """Serve a target as a curator commits it; False when a limit forbids it."""
        cost = self.state.cost(analyst, {view: target}, {view: BINS_OF_ALL})
        try:
            self.table.check(analyst, "", cost, self.names, "", dict)
        except dpnb.DpnbError:
            return False
        self.state.note(analyst, cost)
        self.fresh += [(name, step.fresh) for name, step in cost.steps.items() if step.fresh]
        self.state.spent += cost.table
        self.state.known[analyst] = self.state.known.get(analyst, type(cost.row).none()) + cost.row
        self.table.liable[analyst] = self.table.spent(analyst) + cost.row
        return True

    def used(self) -> float:
        """Return the largest share of a limit that is used up, from what was released.

        Of all together: the fresh looks at the data, each priced on its own under a basic accountant.
        """
        budget = self.state.budget
        if budget.privacy == BASIC:
            delta = float(budget.release_delta)
            spent = math.fsum(epsilon_from(math.sqrt(2 * f), delta) for _, f in self.fresh)
            whole = spent / float(budget.epsilon)
        else:
            whole = float(sum((f for _, f in self.fresh), Fraction(0)) / budget.cap.rho)
        rows = (
            self.state.known[row].level(budget.privacy)
            / self.table.limit(row).level(budget.privacy)
            for row in self.state.known
        )
        return max(whole, *map(float, rows), 0.0)


def play(case: Case) -> Outcome:
    """Run a workload on the real accounting."""
    most = "1e-5" if float(case.delta) < 1e-5 else "0.1"
    budget = dpnb.Budget(
        epsilon=case.limit,
        delta=most if case.accountant == "basic" else case.delta,
        accountant=case.accountant,
        release_delta=case.delta,
    )
    policy = dpnb.Policy(
        mechanism=case.mechanism, rows=case.rows, expansion=case.expansion, views=case.views
    )
    names = [f"analyst{number}" for number in range(len(case.privileges))]
    unasked = [f"view{number}" for number in range(len(DOMAINS[case.data]), VIEWS[case.data])]
    privileges = dict(zip(names, case.privileges, strict=True))
    driver = Driver(budget, policy, privileges, [*DOMAINS[case.data], *unasked])
    served = bytearray()
    for analyst, query in case.asked():
        target = LevelTarget(Fraction(query.bins, 2 * query.variance))
        served.append((1 + analyst) * driver.ask(names[analyst], query.view, target))
    return Outcome(bytes(served), driver.used(), case.privileges)


# baselines


def chorus(case: Case, sensitivity: str = "one", *, rows: bool = False) -> Outcome:
    """Price each query for itself, without views; with ``rows`` limits by sum for analysts, too.

    Parameters
    ----------
    sensitivity : {'one', 'bins'}
        1 is what a count has; the published systems took the number of bins it touches.
    rows : bool
        ChorusP instead of Chorus.
    """
    limit, delta = float(case.limit), float(case.delta)
    spent, total = [0.0] * len(case.privileges), sum(case.privileges)
    served = bytearray()
    for analyst, query in case.asked():
        reach = query.bins if sensitivity == "bins" else 1
        price = epsilon_from(reach / math.sqrt(query.variance), delta)
        own = limit * case.privileges[analyst] / total if rows else limit
        fits = sum(spent) + price <= limit and spent[analyst] + price <= own
        spent[analyst] += price if fits else 0
        served.append((1 + analyst) * fits)
    return Outcome(bytes(served), sum(spent) / limit, case.privileges)


def static(case: Case, share: int) -> Outcome:
    """Answer from one synopsis of each view, made beforehand at limit / ``share`` (sPrivateSQL)."""
    variance = sigma_from(float(case.limit) / share, float(case.delta)) ** 2
    served = bytes(
        (1 + analyst) * (query.bins * variance <= query.variance) for analyst, query in case.asked()
    )
    return Outcome(served, VIEWS[case.data] / share, case.privileges)


# many runs, and tables of them


@dataclass
class Grid:
    """Outcomes of many cases, computed by several processes.

    Examples
    --------
    ``Grid({"path": [case, ...]}).mean("path")``
    """

    work: Mapping[str, Sequence[Case]]
    how: Mapping[str, Callable[[Case], Outcome]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        jobs = [
            (self.how.get(key, play), case) for key, cases in self.work.items() for case in cases
        ]
        with ProcessPoolExecutor(processes()) as pool:
            found = iter(list(pool.map(_call, jobs, chunksize=1)))
        self.found = {key: [next(found) for _ in cases] for key, cases in self.work.items()}

    def totals(self, key: str) -> list[int]:
        """Return the numbers of answers."""
        return [outcome.total for outcome in self.found[key]]

    def mean(self, key: str) -> float:
        """Return the mean number of answers."""
        return float(np.mean(self.totals(key)))

    def fairness(self, key: str) -> float:
        """Return the mean nDCFG of the runs that answered something."""
        found = [outcome.ndcfg for outcome in self.found[key] if outcome.total]
        return float(np.mean(found)) if found else math.nan

    def used(self) -> float:
        """Return the largest share of a limit that any run used."""
        return max(outcome.used for outcomes in self.found.values() for outcome in outcomes)


def _call(job: tuple[Callable[[Case], Outcome], Case]) -> Outcome:
    return job[0](job[1])


def processes() -> int:
    """Return how many processes compute."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--processes", type=int, default=2)
    return int(parser.parse_known_args()[0].processes)


def runs(case: Case) -> list[Case]:
    """Return a case in each of the four runs."""
    return [replace(case, run=run) for run in RUNS]


def near(found: float, wanted: float, tolerance: float = TOLERANCE) -> bool:
    """Return whether a number is within a share of another one."""
    return abs(found - wanted) <= tolerance * abs(wanted)


def expect(what: str, found: Sequence[float], wanted: Sequence[float]) -> None:
    """Require that numbers are within 3 % of those of the reference, each."""
    far = max(abs(f - w) / abs(w) for f, w in zip(found, wanted, strict=True))
    must(far <= TOLERANCE, f"{what}: off by {100 * far:.1f} % at most (3 % allowed)")


def heading(text: str) -> None:
    """Print the title of a table."""
    print(f"\n{text}")


def line(name: str, cells: Iterable[object], width: int = 9) -> None:
    """Print one line of a table; numbers without needless digits."""
    shown = []
    for cell in cells:
        if isinstance(cell, float):
            cell = f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
        shown.append(f"{cell!s:>{width}}")
    print(f"{name:34}" + " ".join(shown), flush=True)
