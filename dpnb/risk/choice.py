"""The suggested or chosen privacy cost of an answer and its origin; a noisy histogram of risk."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpnb.formats import loss_text, percent
from dpnb.privacy.loss import Picked, PickedRational, PrivacyLoss, amount_text
from dpnb.privacy.path import LEAST_LEVEL
from dpnb.results import Bill, Billed, Shown, to_plain
from dpnb.risk.guesses import COIN, OVER, at_most_text, guesses_within, level_of_guesses
from dpnb.risk.nouns import noun
from dpnb.risk.safe_counts import share_at_most

if TYPE_CHECKING:
    import pandas as pd

Source: TypeAlias = Literal["rule", "private", "data"]
BY_HAND = "by hand"
"""The method of a level that the owner picked in the picker."""


@dataclass(frozen=True, slots=True, repr=False)
class Choice(Billed, Shown):
    """A level for a statement: the privacy cost to answer it with.

    Attributes
    ----------
    sql : str
        The statement.
    level : Fraction or None
        rho, or epsilon in a pure session; None if no candidate fits.
    bill : Bill
        Cost of the choice, remaining budget and stamp, as in ``Answer``. It is conditional if the
        choice looked at sensitive data; every release at this level is then marked.
    source : {'rule', 'private', 'data'}
        A rule that needs no data, a private selection, or a look at exact values.
    method : str
        Name of the rule, selection or preference.
    tau : float
        Its threshold; 0 if the limit is a number of guesses.
    guesses : float
        The limit: how many of 100 guesses whether somebody is in the table may be right; 100 if
        unknown.
    detail : mapping
        Values released for the choice, and the options.
    affordable : bool
        Whether the remaining budget pays for an answer at the level.
    ledger : str
        Public name of the ledger.
    ids : str
        Column of the protected ids; '' if single rows are protected.

    Examples
    --------
    >>> risk = curator.risk("SELECT SUM(wage) AS wage FROM people")
    >>> risk.suggest(guesses=60).conditional
    False
    """

    card = "risk.CHOICE"

    sql: str
    level: Fraction | None
    bill: Bill
    source: Source
    method: str
    tau: float
    guesses: float
    detail: Mapping[str, Any]
    affordable: bool
    ledger: str
    ids: str = ""

    @property
    def loss(self) -> PrivacyLoss:
        """Privacy cost of an answer at the chosen level."""
        return PrivacyLoss.of(Fraction(self.level or 0), self.privacy)

    def _amount(self, value: float | None) -> float | None:
        if value is None or self.level is None:
            return None
        return Picked(value) if self.conditional else value

    @property
    def rho(self) -> float | None:
        """The level in zCDP, for ``query(rho=...)``; None if there is none."""
        return self._amount(float(self.loss.rho))

    @property
    def epsilon(self) -> float | None:
        """The level as epsilon; None without a level, or in a zCDP session without a delta."""
        if not self.privacy.counts_rho:
            return self._amount(float(self.level or 0))
        return self._amount(
            None if self.delta is None else self.loss.epsilon_at(self.delta, self.privacy)
        )

    @property
    def sentence(self) -> str:
        """The choice in words; it hides the level if the choice looked at sensitive data."""
        if self.source == "data" and self.conditional:
            return "The privacy cost was chosen by looking at exact values. It is in .level."
        if self.level is None:
            return self._nothing()
        level = loss_text(self.loss, self.privacy, self.delta)
        text = f"{level}." if self.method == BY_HAND else f"At {level}, {self._meaning()}"
        if not self.affordable:
            text += " What is left does not pay for an answer at that privacy cost."
        return text

    def _meaning(self) -> str:
        """Return what others can guess from an answer at the level."""
        limit = at_most_text(self.guesses)
        if self.method == "public" or (self.method == "safe counts" and not self.detail["k"]):
            if self.guesses > OVER:
                return (
                    "anybody's presence may be guessed right over 99 times in 100 from this answer."
                )
            return (
                f"anybody's presence can be guessed right at most {limit} times in 100 from this answer, "
                "starting from a coin toss."
            )
        if self.method == "safe counts":
            detail, sure = self.detail, percent(self.detail["confidence"])
            if detail["share"] is not None:
                people = share_at_most(detail["people_share"])
                where = "over all answers together" if self._shared else "in this answer"
                return (
                    f"at most {people} of people are above your limit {where} ({sure} confidence)."
                )
            people = f"{detail['people']:,} {'person' if detail['people'] == 1 else 'people'}"
            where = "all answers together" if self._shared else "this answer"
            return (
                f"at most {people} can be guessed right more than {limit} times in 100 from {where} "
                f"({sure} confidence)."
            )
        if self.detail.get("mode") == "paper":
            return (
                f"chosen by the paper's {self.method}, which makes no promise about who is exposed."
            )
        if self.method == "max_loss":
            return f"the privacy loss of each person is at most {self.tau or float(self.level or 0):g}."
        if self.method == "floor_max_ratio":
            return f"the floor of the indicator is at least {self.tau:g} times its maximum."
        return f"the preference {self.method} holds at {self.tau:g}."

    @property
    def _shared(self) -> bool:
        """Whether earlier answers count so much that this one alone keeps to the limit."""
        return bool(self.detail["ceiling"] <= self.guesses)

    def _nothing(self) -> str:
        """Return why there is no level, from public numbers alone."""
        detail, name = self.detail, self.privacy.parameter
        if self.source != "rule" and self.method != "safe counts":
            return "No candidate meets the condition."
        if self.guesses <= COIN:
            return "A limit of 50 allows no answer, because each one helps a guess a little."
        if detail["limit"] is None:
            return f"No candidate is above the {name} that is spent."
        allowance = amount_text(Fraction(detail["limit"]), left=True)
        spent = amount_text(Fraction(detail["total"]))
        if detail["policy"] == "paper-dynamic":
            return (
                f"No candidate is above the {name} {spent} spent and within the {allowance} that your "
                "limit allows."
            )
        left = Fraction(detail["left"])
        if left < LEAST_LEVEL:
            return (
                f"Your limit allows a total of {name} {allowance}, and {spent} is spent. Raise the limit or "
                "reuse answers."
            )
        return f"Your limit allows {name} {amount_text(left, left=True)} now, but no candidate is that small."

    def notes(self) -> list[str]:
        """Return caveats to the sentence, without any exact value.

        Returns
        -------
        list of str
            Empty if there are none.
        """
        if self.level is None or self.method not in ("public", "safe counts"):
            return []
        caveats = []
        if self.method == "safe counts":
            if self.detail["k"]:
                above = at_most_text(self.detail["ceiling"])
                above = above if above.startswith("over") else f"up to {above}"
                who = "From this answer alone, those" if self._shared else "Those"
                caveats.append(f"{who} people may be guessed right {above} times in 100.")
            elif self.detail["too_dear"] is not None:
                level = amount_text(Fraction(self.detail["too_dear"]))
                caveats.append(
                    f"The counts show that for {self.privacy.parameter} {level}, which what is left does "
                    "not pay for. So the rule is used: nobody is above your limit."
                )
            else:
                caveats.append(
                    "The counts could not show that, so the rule is used: nobody is above your limit."
                )
        if not self.ids and self.guesses <= OVER:
            caveats.append(self._several())
        return caveats

    def _several(self) -> str:
        """Return the caveat for people with several rows (docs/methods/rdr.md, statement 13)."""
        if self.detail.get("k"):
            return "This counts single rows. Someone with several may be guessed more easily."
        total = level_of_guesses(self.guesses, self.privacy)
        three = at_most_text(guesses_within(total, self.privacy, 3))
        return f"This counts single rows. Someone with 3 rows may be guessed right {three} times in 100."

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(self, level=None if self.level is None else str(self.level))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Choice:
        """Build a choice from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            Output of :meth:`to_dict`.

        Returns
        -------
        Choice
            Equal to the original.
        """
        values = dict(data)
        if values["level"] is not None:
            kind = PickedRational if data["conditional"] else Fraction
            values["level"] = kind(values["level"])
        values["bill"] = Bill.taken(values)
        return cls(**values)


@dataclass(frozen=True, slots=True, repr=False)
class RiskHistogram(Billed, Shown):
    """A noisy histogram of r, the share of the largest possible contribution: safe to share.

    Attributes
    ----------
    edges : tuple of float
        The first count is for rows that add nothing; count i is for r in (edges[i-1], edges[i]].
    counts, low, high : tuple of float
        Released counts, and the ends of their confidence intervals.
    confidence : float
        Confidence that all intervals contain their exact counts.
    bill : Bill
        Cost, remaining budget and stamp, as in ``Answer``.
    ledger, sql, ids : str
        As in ``Choice``.

    Examples
    --------
    >>> risk = curator.risk("SELECT SUM(wage) AS wage FROM people")
    >>> risk.share(rho=0.005).spent.rho
    Fraction(1, 200)
    """

    card = "risk.HISTOGRAM"

    sql: str
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    confidence: float
    bill: Bill
    ledger: str
    ids: str = ""

    def labels(self) -> list[str]:
        """Return the label of each bin.

        Returns
        -------
        list of str
            One for each count.
        """
        percentages: list[str] = []
        for digits in range(5):
            percentages = [f"{100 * edge:.{digits}f} %" for edge in self.edges]
            if len(set(percentages)) == len(percentages):
                break
        return ["0 %", *(f"{low} to {high}" for low, high in itertools.pairwise(percentages))]

    def to_frame(self) -> pd.DataFrame:
        """Return the edges of each bin, its released count and the confidence interval.

        Returns
        -------
        pandas.DataFrame
            One row for each bin.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "r_low": [0.0, *self.edges[:-1]],
                "r_high": list(self.edges),
                noun(self.ids): list(self.counts),
                f"{noun(self.ids)}_low": list(self.low),
                f"{noun(self.ids)}_high": list(self.high),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the histogram as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RiskHistogram:
        """Build a histogram from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            Output of :meth:`to_dict`.

        Returns
        -------
        RiskHistogram
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        for name in ("edges", "counts", "low", "high"):
            values[name] = tuple(values[name])
        return cls(**values)
