"""The explanation of a difference: the predicates with most influence on it, and their ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dpnb.answers.question import Question
from dpnb.explain.remaining import Effect, effect
from dpnb.privacy.loss import guarantee
from dpnb.results import Bill, Billed, Result, Written, to_plain
from dpnb.schema.schema import unit_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Row:
    """One predicate with its confidence intervals.

    Attributes
    ----------
    predicate : str
    condition : plain data
        Its meaning.
    influence, influence_low, influence_high : float
        Released influence and its confidence interval: divided by ``Explanation.scale`` if the
        explanation is relative, else in units of the influence. An influence is the change of the
        difference times a factor for the rows that remain, so it is not the share of the difference
        that goes away.
    left_low, left_high : float or None
        Bounds of the difference without the rows, in units of the aggregate: a lower or an upper
        one; None where no bound follows (``dpnb.explain.remaining``).
    rank_low, rank_high : int
        Ranks among all candidates; 1 is the largest influence.
    """

    predicate: str
    condition: Any
    influence: float
    influence_low: float
    influence_high: float
    left_low: float | None
    left_high: float | None
    rank_low: int
    rank_high: int


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Billed, Result, Written):
    """The predicates with the largest influence on a difference. Holds released values only.

    Attributes
    ----------
    question : Question
    rows : tuple of Row
        Sorted by the upper end of the influence, largest first; then by the upper end of the rank.
    relative : bool
        Whether influences are divided by the released difference.
    reason : str
        Why they are not; empty if they are.
    scale : float
        Divisor of the influences: 1 if they are not relative.
    candidates : int
        |P|, the number of candidate predicates.
    attributes : tuple of str
        Columns of the candidates; empty if conditions were listed.
    unbinned : mapping of str to str
        Columns that are left out because they have no bins, each with what to write.
    length : int
    connective : {'and', 'or'}
    confidence : float
    joint : bool
        Whether the confidence is for all rows together.
    mode : {'tight', 'paper'}
    sharper : mapping of str to float
        How many times narrower ``mode='tight'`` would make the intervals of influence and rank.
    bill : Bill
        The cost, what is left, and the stamps, as in ``Answer``; an explanation of a conditional
        question is conditional, too.
    rho : mapping of str to str
        Budget of each part: topk, influence, rank.
    margin_of_error : float
        Of the influences' confidence intervals, as shown.
    resolution : float
        How far apart influences must be for ranks to tell them apart, as shown.
    definition : mapping
        Public definition and noise, for the record.

    Examples
    --------
    >>> explanation = session.explain(question, k=2, rho=0.5, anyway=True)
    >>> len(explanation.rows)
    2
    """

    card = "explanation.EXPLANATION"

    question: Question
    rows: tuple[Row, ...]
    relative: bool
    reason: str
    scale: float
    candidates: int
    attributes: tuple[str, ...]
    unbinned: Mapping[str, str]
    length: int
    connective: str
    confidence: float
    joint: bool
    mode: str
    sharper: Mapping[str, float]
    bill: Bill
    rho: Mapping[str, str]
    margin_of_error: float
    resolution: float
    definition: Mapping[str, Any]

    def effect(self, row: Row) -> Effect:
        """Return what leaving out the rows of a predicate does to the difference.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        {'noise', 'reverses', 'lowers', 'narrows', 'widens', 'leaves'}
            'noise' if noise alone may have made the influence. A difference above 0 that 'lowers',
            or one below 0 that 'narrows', may also reverse. 'leaves' if the difference itself may
            be 0.
        """
        ends = (row.influence_low, row.influence_high, row.left_low, row.left_high)
        return effect(self.question, *ends)

    def unranked(self, row: Row) -> bool:
        """Return whether the rank of a row is uncertain.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        bool
            True if its rank interval covers more than half of all candidates.
        """
        spans = row.rank_high - row.rank_low + 1
        return 2 * spans > self.candidates > 1

    @property
    def reversed(self) -> bool:
        """Whether the confidence interval of the question shows its opposite."""
        return self.question.high < 0

    # exports

    def to_frame(self) -> pd.DataFrame:
        """Return a frame of predicate, influence_low/high, rank_low/high and left_low/high.

        Influences are as shown when ``relative`` (0.05 is 5 %); ``left`` is the difference without
        the rows in units of the aggregate, NaN where no bound follows.

        Returns
        -------
        pandas.DataFrame
            One row for each predicate.
        """
        import pandas as pd

        left = ("left_low", "left_high")
        names = ("predicate", "influence_low", "influence_high", "rank_low", "rank_high", *left)
        frame = pd.DataFrame({name: [getattr(row, name) for row in self.rows] for name in names})
        return frame.astype(dict.fromkeys(left, float))

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data (JSON).

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(
            self, question=self.question.to_dict(), rows=[asdict(row) for row in self.rows]
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """Build an explanation from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Explanation
            Equal to the original.
        """
        values = dict(data)
        values["question"] = Question.from_dict(values["question"])
        values["rows"] = tuple(Row(**row) for row in values["rows"])
        values["attributes"] = tuple(values["attributes"])
        values["bill"] = Bill.taken(values)
        return cls(**values)

    def record(self) -> dict[str, Any]:
        """Return what is needed to recompute the intervals without the data.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        import dpnb

        return {
            **self.definition,
            "privacy_unit": f"{unit_text(self.definition['target']['unit'])} (add or remove one)",
            "scale": self.scale,
            "rows": [asdict(row) for row in self.rows],
            "spent": self.spent.to_dict(),
            "stamp": self.stamp,
            "guarantee": guarantee(self.conditional),
            "dpnb": dpnb.__version__,
        }
