"""The decision: which groups meet a condition, what is proven of it, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from dpnb.errors import BudgetError, RequestError
from dpnb.formats import label
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.loss import PrivacyLoss, guarantee
from dpnb.results import Bill, Billed, Result, card_of, display, to_plain

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = {1: "surely yes", -1: "surely no", 0: "unknown"}
_LOSSES = ("charged", "first_cost", "worst_cost", "ceiling")
Group: TypeAlias = str | int | tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """One noisy aggregate over all groups, as released.

    Attributes
    ----------
    alias, name, text : str
        What exports and options call it, what it is called where it is shown (by the name that the
        statement gives, else in the words of SQL, cut where they are long), and what it is in full.
    about : float or None
        For AVG: the threshold; values are then sums of distances from it.
    values, low, high : tuple of float
        Newest noisy values, and the intervals of the certificate, which hold together for all groups
        and aggregates.
    level : str
        Level (rho or epsilon) of the newest values.
    distribution : NoiseDistribution
        Their noise.
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


@dataclass(frozen=True, slots=True)
class Test:
    """One condition as it was tested.

    Attributes
    ----------
    text : str
        Such as ``flights > 200``.
    reading : int
        The noisy aggregate that it reads.
    sign : {1, -1}
        1 for > and >=, -1 for < and <=.
    limits : tuple of float
        The threshold in each group, in units of the reading (0 for AVG).
    u : float
        Newest uncertain region: groups were tested against the threshold moved by it.
    rows : float
        For AVG: ``u`` is that of a group of so many rows.
    share : float
        Chance that it is rejected, in any step, in a group that lies at the threshold. In the plan of a
        published method with two phases: in the first one.
    rounding : float
        To what the values that are summed are rounded, one by one; 0 for whole numbers.
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
        What it cost.
    false, missed : float
        Certified shares of false positives and of false negatives after it.
    unknown : int
        Groups that are in doubt after it.
    """

    number: int
    spent: PrivacyLoss
    false: float
    missed: float
    unknown: int


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Billed, Result):
    """Which declared groups satisfy a condition. Holds released values only.

    Attributes
    ----------
    sql, table : str
    version : int
        Data version of the ledger.
    keys : tuple of str
    groups : tuple of tuples
        All declared groups, present in the data or not.
    condition : str
        What was decided, in words of SQL.
    mode : {'certified', 'margin', 'rr', 'hybrid'}, or one for study
    protect : {'fnr', 'fpr'}
    beta, alpha, confidence : float
    status : str
        'certified', 'not certified'; 'answered' for modes without a certificate to reach; 'partial' when
        a part was not paid for. Of a published method what it claims: 'OK', 'ALPHA_NOT_MET', 'DENIED_...'.
    reason : str
        Why it stopped short of what was asked, and what would do; '' otherwise.
    chosen : tuple of bool
        By group: whether it is in the (inclusive) answer.
    verdicts : tuple of int
        By group: 1 surely yes, -1 surely no, 0 unknown.
    fnr_bound, fpr_bound : float or None
        Bounds on false negatives and false positives; :meth:`statements` says of which kind. None where nothing is
        bounded.
    false, missed : float
        Shares of false positives and of false negatives in this very result that the certificate does not rule out.
    estimate : float or None
        An estimate of the share of false positives, not a bound.
    tests : tuple of Test
    readings : tuple of Reading
    taken : tuple of Taken
        The steps so far.
    steps : int
        How many there can be.
    responded : tuple of bool
        By group: whether randomised response answered for it.
    response : str
        What that cost, '0' for nothing.
    past : bool
        Whether values that were seen before are part of the certificate.
    bill : Bill
        What it cost, what is left, and its stamps, as in ``Answer``.
    charged : PrivacyLoss
        What the decision cost in all.
    next_cost : PrivacyLoss or None
        What one more step costs.
    first_cost, worst_cost, ceiling : PrivacyLoss
        Planned: the first step, all steps, and randomised response instead.
    epsilons : tuple of float, or None
        By group: the epsilon that this decision spent on its rows; None without a delta to convert at.
    min_entropy : float or None
        A lower bound of the least Shannon entropy, as a share of its maximum, that ``epsilons`` leave
        of which group a row is in; a figure for comparison, never a budget.
    warnings : tuple of str
    ledger, request : str
        As in ``Answer``.
    unit : str
        What is protected, in words.

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
    groups: tuple[tuple[str | int, ...], ...]
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
        return self._named([bool(one) for one in self.chosen])

    @property
    def strict(self) -> list[Group]:
        """The groups that surely satisfy the condition: few false positives, perhaps false negatives."""
        return self._named([verdict == 1 for verdict in self.verdicts])

    @property
    def unknown(self) -> list[Group]:
        """The groups that the certificate leaves in doubt."""
        return self._named([verdict == 0 for verdict in self.verdicts])

    def _named(self, which: list[bool]) -> list[Group]:
        return [
            group[0] if len(group) == 1 else group
            for group, there in zip(self.groups, which, strict=True)
            if there
        ]

    def verdict_text(self, group: int) -> str:
        """Return what is known of a group, in words.

        Parameters
        ----------
        group : int, at least 0
            The place of the group in ``groups``.

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
            The place of the group in ``groups``.

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
            When it has no more steps, when the step is refused, or when the session that decided is gone.
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
        found = self.further(len(self.taken) + 1)
        if len(found.taken) <= len(self.taken):
            raise BudgetError("the step was not taken", found.reason or "Nothing was charged.")
        return found

    def statements(self) -> tuple[tuple[str, str], ...]:
        """Return what is said of each error: a short name, and the statement.

        Returns
        -------
        tuple of pairs of str
            At least one for each of the two errors.
        """
        said: tuple[tuple[str, str], ...] = display("cards.decision_words").statements(self)
        return said

    # exports

    def to_frame(self) -> pd.DataFrame:
        """Return all groups: key columns, selected, verdict, then alias, alias_low and alias_high.

        Values are as released; of an AVG they are sums of distances from its threshold.

        Returns
        -------
        pandas.DataFrame
            One row for each declared group.
        """
        import pandas as pd

        columns: dict[str, list[Any]] = {
            key: [group[i] for group in self.groups] for i, key in enumerate(self.keys)
        }
        columns["selected"] = [bool(one) for one in self.chosen]
        columns["verdict"] = [VERDICTS[one] for one in self.verdicts]
        for name, found in zip(self.reading_names(), self.readings, strict=True):
            columns[name] = list(found.values)
            columns[f"{name}_low"] = list(found.low)
            columns[f"{name}_high"] = list(found.high)
        if self.epsilons is not None:
            columns["epsilon"] = list(self.epsilons)
        return pd.DataFrame(columns)

    def reading_names(self, *, shown: bool = False) -> list[str]:
        """Return a name for each reading: its alias, or what is shown; of an AVG also what was summed.

        Parameters
        ----------
        shown : bool
            Whether to return what is shown in place of the alias.

        Returns
        -------
        list of str
            One for each of ``readings``.
        """
        names = [one.name if shown else one.alias for one in self.readings]
        return [
            name if one.about is None else f"{name} - {one.about:g}, summed"
            for name, one in zip(names, self.readings, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain data (JSON); infinite ends are None.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(
            self,
            readings=[_plain_reading(one) for one in self.readings],
            tests=[to_plain(one) for one in self.tests],
            taken=[to_plain(one) for one in self.taken],
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Decision:
        """Build a decision from :meth:`to_dict`; it has no session to refine it.

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
        values["readings"] = tuple(_read_reading(one) for one in values["readings"])
        values["tests"] = tuple(
            Test(**{**one, "limits": tuple(one["limits"])}) for one in values["tests"]
        )
        values["taken"] = tuple(
            Taken(**{**one, "spent": PrivacyLoss.from_dict(one["spent"])})
            for one in values["taken"]
        )
        for name in ("keys", "chosen", "verdicts", "responded", "warnings"):
            values[name] = tuple(values[name])
        epsilons = values["epsilons"]
        values["epsilons"] = None if epsilons is None else tuple(epsilons)
        return cls(**values)

    def record(self) -> dict[str, Any]:
        """Return what is needed to check the decision without the data: plan, noise and costs.

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
                {"text": one.text, "u": one.u, "share": one.share} for one in self.tests
            ],
            "aggregates": [
                {"text": one.text, "level": one.level, "distribution": one.distribution.to_dict()}
                for one in self.readings
            ],
            "steps": [
                {"step": one.number, "spent": one.spent.to_dict(), "false": one.false,
                 "missed": one.missed}
                for one in self.taken
            ],
            "stamp": self.stamp,
            "guarantee": guarantee(self.conditional),
            "dpnb": dpnb.__version__,
        }  # fmt: skip

    def to_markdown(self) -> str:
        """Return the selected groups as a Markdown table with the statements.

        Returns
        -------
        str
            In GitHub's form.
        """
        markdown: str = card_of(self).markdown(self)
        return markdown


def _plain_reading(one: Reading) -> dict[str, Any]:
    data = {f.name: getattr(one, f.name) for f in fields(one)}
    ends = {
        name: [end if abs(end) < float("inf") else None for end in data[name]]
        for name in ("low", "high")
    }
    return {**data, **ends, "values": list(one.values), "distribution": one.distribution.to_dict()}


def _read_reading(data: Mapping[str, Any]) -> Reading:
    ends = {
        name: tuple(beyond if end is None else end for end in data[name])
        for name, beyond in (("low", -float("inf")), ("high", float("inf")))
    }
    distribution = NoiseDistribution.from_dict(data["distribution"])
    return Reading(
        **{**data, **ends, "values": tuple(data["values"]), "distribution": distribution}
    )
