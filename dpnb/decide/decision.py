"""The decision: which groups meet a condition, what is proven about it, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import BudgetError, RequestError
from dpnb.estimation.estimates import Intervals, cut
from dpnb.formats import label
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.loss import PrivacyLoss, guarantee
from dpnb.results import Bill, Billed, Result, Written, display, to_plain
from dpnb.schema.partition import Label
from dpnb.sql.functions import Function

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = {1: "surely yes", -1: "surely no", 0: "unknown"}
_LOSSES = ("charged", "first_cost", "worst_cost", "ceiling")
Group: TypeAlias = Label | tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """One noisy aggregate over all groups, as released.

    Attributes
    ----------
    alias, name, text : str
        The name in exports and options; the name on display (the statement's alias, or else SQL,
        shortened if long); and the full SQL.
    about : float or None
        For AVG: the threshold; values are then sums of distances from it.
    values, low, high : tuple of float
        Newest noisy values, and the certificate's confidence intervals, which hold together for all
        groups and aggregates.
    level : str
        Privacy cost (rho or epsilon) of the newest values.
    distribution : NoiseDistribution
        The noise of the newest values.
    possible : tuple of (low, high)
        The public range of each group's value, or one for all groups.
    """

    alias: str
    name: str
    text: str
    about: float | None
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: str
    distribution: NoiseDistribution
    possible: tuple[tuple[float, float], ...] = ((-float("inf"), float("inf")),)

    def shown(self, name: str) -> Intervals:
        """Return the values and intervals as they are shown: without what is impossible."""
        numbers = self.values, self.low, self.high
        return Intervals(name, Function.SUM, None, *numbers, possible=self.possible).cut()

    def ends(self, group: int) -> tuple[float, float, float]:
        """Return the lower end, the value and the upper end of one group, as they are shown."""
        possible = self.possible[group if len(self.possible) > 1 else 0]
        low, high = cut((self.low[group], self.high[group]), possible)
        return low, min(max(self.values[group], low), high), high


@dataclass(frozen=True, slots=True)
class Test:
    """One condition as it was tested.

    Attributes
    ----------
    text : str
        Such as ``flights > 200``.
    reading : int
        Index of the noisy aggregate that it reads.
    sign : {1, -1}
        1 for > and >=, -1 for < and <=.
    limits : tuple of float
        The threshold in each group, in units of the reading (0 for AVG).
    u : float
        Newest uncertain region: the threshold was moved by it before the comparison.
    rows : float
        For AVG: the number of rows of a group for which ``u`` holds.
    share : float
        Probability that the condition is rejected, in any step, for a group at the threshold. In
        the plan of a published method with two phases: in the first phase.
    rounding : float
        The increment to which each summed value is rounded; 0 for whole numbers.
    """

    text: str
    reading: int
    sign: int
    limits: tuple[float, ...]
    u: float
    rows: float
    share: float
    rounding: float


@dataclass(frozen=True, slots=True)
class Taken:
    """One step that was taken.

    Attributes
    ----------
    number : int
    spent : PrivacyLoss
        Its privacy cost.
    false, missed : float
        Certified bounds on the rates of false positives and false negatives after it.
    wrong : float
        Certified bound on the share of the selected groups that are false positives.
    unknown : int
        Number of groups still in doubt after it.
    """

    number: int
    spent: PrivacyLoss
    false: float
    missed: float
    wrong: float
    unknown: int


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Billed, Result, Written):
    """Which declared groups satisfy a condition. Holds released values only.

    Attributes
    ----------
    sql, table : str
    version : int
        Version of the table.
    keys : tuple of str
    groups : tuple of tuples
        All declared groups, present in the data or not.
    condition : str
        The condition that was decided, in SQL.
    mode : {'certified', 'margin', 'rr', 'hybrid'}, or a published method
    protect : {'fnr', 'fpr'}
    beta, alpha, confidence : float
    status : str
        'certified' if, with ``confidence``, at most a share ``alpha`` of the list is wrong (with
        protect='fpr' also: at most ``beta`` of the groups that satisfy the condition are missing);
        else 'not certified'. 'answered' for modes without a certificate to reach; 'partial' when a
        part was not paid for. For a published method, its own claim: 'OK',
        'ALPHA_NOT_MET', 'DENIED_...'.
    reason : str
        Why it stopped early, and what would help; '' otherwise.
    chosen : tuple of bool
        By group: whether it is on the (inclusive) list.
    verdicts : tuple of int
        By group: 1 surely yes, -1 surely no, 0 unknown.
    fnr_bound, fpr_bound : float or None
        Bounds on false negatives and false positives; :meth:`statements` says of which kind. None
        where there is no bound.
    false, missed : float
        Bounds on the rates of false positives and of false negatives in this very result: shares of
        the groups that do not satisfy the condition, and of those that do.
    estimate : float or None
        An estimate of the share of false positives, not a bound.
    tests : tuple of Test
    readings : tuple of Reading
    taken : tuple of Taken
        The steps so far.
    steps : int
        The largest possible number of steps.
    responded : tuple of bool
        By group: whether randomised response answered for it.
    response : str
        What randomised response cost, '0' for nothing.
    past : bool
        Whether the certificate uses values that were seen before.
    bill : Bill
        What it cost, what is left, and its stamps, as in ``Answer``.
    charged : PrivacyLoss
        The total cost of the decision.
    next_cost : PrivacyLoss or None
        The cost of one more step.
    first_cost, worst_cost, ceiling : PrivacyLoss
        Planned costs: of the first step, of all steps, and of randomised response instead.
    epsilons : tuple of float, or None
        By group: the epsilon that this decision spent on its rows; None without a delta for
        conversion.
    min_entropy : float or None
        A lower bound on the Shannon entropy of which group a row is in, given ``epsilons``, as a
        share of its maximum. It is for comparison only, never a budget.
    warnings : tuple of str
    ledger, request : str
        As in ``Answer``.
    unit : str
        The privacy unit, in words.

    Examples
    --------
    >>> sql = "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING COUNT(*) > 100"
    >>> decision = session.decide(sql, most=1)
    >>> len(decision.chosen), decision.keys
    (3, ('job',))
    """

    card = "decision.DECISION"

    sql: str
    table: str
    version: int
    keys: tuple[str, ...]
    groups: tuple[tuple[Label, ...], ...]
    condition: str
    mode: str
    protect: str
    beta: float
    alpha: float
    confidence: float
    status: str
    reason: str
    chosen: tuple[bool, ...]
    verdicts: tuple[int, ...]
    fnr_bound: float | None
    fpr_bound: float | None
    false: float
    missed: float
    estimate: float | None
    tests: tuple[Test, ...]
    readings: tuple[Reading, ...]
    taken: tuple[Taken, ...]
    steps: int
    responded: tuple[bool, ...]
    response: str
    past: bool
    bill: Bill
    charged: PrivacyLoss
    next_cost: PrivacyLoss | None
    first_cost: PrivacyLoss
    worst_cost: PrivacyLoss
    ceiling: PrivacyLoss
    epsilons: tuple[float, ...] | None
    min_entropy: float | None
    warnings: tuple[str, ...]
    ledger: str
    request: str
    unit: str = "row"
    further: Callable[[int], Decision] | None = field(default=None, repr=False, compare=False)

    @property
    def selected(self) -> list[Group]:
        """The groups of the inclusive list: few false negatives, perhaps false positives."""
        return self._named([bool(flag) for flag in self.chosen])

    @property
    def strict(self) -> list[Group]:
        """The groups that surely satisfy it: few false positives, perhaps false negatives."""
        return self._named([verdict == 1 for verdict in self.verdicts])

    @property
    def unknown(self) -> list[Group]:
        """The groups that the certificate leaves in doubt."""
        return self._named([verdict == 0 for verdict in self.verdicts])

    @property
    def wrong_at_most(self) -> int:
        """How many groups of the inclusive list may be wrong, by the certificate."""
        return sum(
            flag and verdict != 1 for flag, verdict in zip(self.chosen, self.verdicts, strict=True)
        )

    def _named(self, which: list[bool]) -> list[Group]:
        return [
            group[0] if len(group) == 1 else group
            for group, there in zip(self.groups, which, strict=True)
            if there
        ]

    def verdict_text(self, group: int) -> str:
        """Return the verdict on a group, in words.

        Parameters
        ----------
        group : int, at least 0
            Index of the group in ``groups``.

        Returns
        -------
        str
            Such as 'surely yes', with the confidence of the certificate.
        """
        return VERDICTS[self.verdicts[group]]

    def group_label(self, index: int) -> str:
        """Return a group's name as shown.

        Parameters
        ----------
        index : int, at least 0
            Index of the group in ``groups``.

        Returns
        -------
        str
            The keys, joined by commas.
        """
        return label(self.groups[index]) if self.keys else "all rows"

    def refine(self) -> Decision:
        """Take one more step; costs :attr:`next_cost`.

        Returns
        -------
        Decision
            With one more step.

        Raises
        ------
        RequestError, BudgetError
            When there are no more steps, when the step is refused, or when the session is gone.
        """
        if self.next_cost is None:
            hint = "Decide with a smaller u (--u)."
            if self.mode != "certified":
                hint = "Only mode='certified' (--mode certified) takes steps: decide with it."
            raise RequestError("this decision has no more steps", f"{hint} Nothing was charged.")
        if self.further is None:
            raise RequestError(
                "this decision is not connected to a session",
                f"Ask session.decide again, with the same options and steps={len(self.taken) + 1}.",
            )
        next_decision = self.further(len(self.taken) + 1)
        if len(next_decision.taken) <= len(self.taken):
            raise BudgetError(
                "the step was not taken", next_decision.reason or "Nothing was charged."
            )
        return next_decision

    def statements(self) -> tuple[tuple[str, str], ...]:
        """Return the statements about each error, each with a short name.

        Returns
        -------
        tuple of pairs of str
            At least one for each of the two errors.
        """
        pairs: tuple[tuple[str, str], ...] = display("cards.decision_words").statements(self)
        return pairs

    # exports

    def to_frame(self) -> pd.DataFrame:
        """Return all groups: key columns, selected, verdict, then alias, alias_low and alias_high.

        Values are shown without what is publicly impossible, such as a count below 0; for an AVG
        they are sums of distances from its threshold.

        Returns
        -------
        pandas.DataFrame
            One row for each declared group.
        """
        import pandas as pd

        columns: dict[str, list[Any]] = {
            key: [group[i] for group in self.groups] for i, key in enumerate(self.keys)
        }
        columns["selected"] = [bool(mark) for mark in self.chosen]
        columns["verdict"] = [VERDICTS[mark] for mark in self.verdicts]
        for name, reading in zip(self.reading_names(), self.readings, strict=True):
            shown = reading.shown(name)
            columns[name] = list(shown.estimate)
            columns[f"{name}_low"] = list(shown.low)
            columns[f"{name}_high"] = list(shown.high)
        if self.epsilons is not None:
            columns["epsilon"] = list(self.epsilons)
        return pd.DataFrame(columns)

    def reading_names(self, *, shown: bool = False) -> list[str]:
        """Return a name for each reading, alias or display name; for an AVG also what was summed.

        Parameters
        ----------
        shown : bool
            Whether to return display names instead of aliases.

        Returns
        -------
        list of str
            One for each of ``readings``.
        """
        names = [reading.name if shown else reading.alias for reading in self.readings]
        return [
            name if reading.about is None else f"{name} - {reading.about:g}, summed"
            for name, reading in zip(names, self.readings, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain data (JSON); infinite ends become None.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(
            self,
            readings=[_plain_reading(part) for part in self.readings],
            tests=[to_plain(part) for part in self.tests],
            taken=[to_plain(part) for part in self.taken],
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Decision:
        """Build a decision from :meth:`to_dict`; no session can refine it.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Decision
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        for name in _LOSSES:
            values[name] = PrivacyLoss.from_dict(values[name])
        cost = values["next_cost"]
        values["next_cost"] = None if cost is None else PrivacyLoss.from_dict(cost)
        values["groups"] = tuple(tuple(group) for group in values["groups"])
        values["readings"] = tuple(_read_reading(entry) for entry in values["readings"])
        values["tests"] = tuple(
            Test(**{**entry, "limits": tuple(entry["limits"])}) for entry in values["tests"]
        )
        values["taken"] = tuple(
            Taken(**{**entry, "spent": PrivacyLoss.from_dict(entry["spent"])})
            for entry in values["taken"]
        )
        for name in ("keys", "chosen", "verdicts", "responded", "warnings"):
            values[name] = tuple(values[name])
        epsilons = values["epsilons"]
        values["epsilons"] = None if epsilons is None else tuple(epsilons)
        return cls(**values)

    def record(self) -> dict[str, Any]:
        """Return all that a check of the decision needs without the data: plan, noise and costs.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        import dpnb

        return {
            "sql": self.sql,
            "table": self.table,
            "data_version": self.version,
            "privacy_unit": f"{self.unit} (add or remove one)",
            "mode": self.mode,
            "protect": self.protect,
            "beta": self.beta,
            "alpha": self.alpha,
            "confidence": self.confidence,
            "privacy": self.privacy,
            "charged": self.charged.to_dict(),
            "conditions": [
                {"text": part.text, "u": part.u, "share": part.share} for part in self.tests
            ],
            "aggregates": [
                {"text": part.text, "level": part.level, "distribution": part.distribution.to_dict()}
                for part in self.readings
            ],
            "steps": [
                {"step": part.number, "spent": part.spent.to_dict(), "false": part.false,
                 "missed": part.missed}
                for part in self.taken
            ],
            "stamp": self.stamp,
            "guarantee": guarantee(self.conditional),
            "dpnb": dpnb.__version__,
        }  # fmt: skip


def _plain_reading(reading: Reading) -> dict[str, Any]:
    data = {f.name: getattr(reading, f.name) for f in fields(reading)}
    ends = {name: _plain_ends(data[name]) for name in ("low", "high")}
    return {
        **data,
        **ends,
        "possible": list(map(_plain_ends, reading.possible)),
        "values": list(reading.values),
        "distribution": reading.distribution.to_dict(),
    }


def _plain_ends(ends: Iterable[float]) -> list[float | None]:
    return [end if abs(end) < float("inf") else None for end in ends]


def _read_reading(data: Mapping[str, Any]) -> Reading:
    ends = {
        name: tuple(beyond if end is None else end for end in data[name])
        for name, beyond in (("low", -float("inf")), ("high", float("inf")))
    }
    distribution = NoiseDistribution.from_dict(data["distribution"])
    possible = tuple(
        (-float("inf") if low is None else low, float("inf") if high is None else high)
        for low, high in data["possible"]
    )
    values = {"values": tuple(data["values"]), "distribution": distribution, "possible": possible}
    return Reading(**{**data, **ends, **values})
