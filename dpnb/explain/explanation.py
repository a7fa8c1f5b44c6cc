"""The explanation of a difference: which parts of the data have most influence on it, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpnb.answers.question import Question
from dpnb.answers.words import cost_text, interval_sentence, ledger_note
from dpnb.explain.influence import RELATIVE_UNIT
from dpnb.explain.remaining import factor
from dpnb.explain.unbinned import unbinned_sentence
from dpnb.formats import end_text, figure, percent
from dpnb.privacy.loss import amount_text, guarantee
from dpnb.results import Bill, Billed, Result, card_of, plain
from dpnb.schema.schema import unit_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Row:
    """One predicate with its intervals.

    Attributes
    ----------
    predicate : str
    condition : plain data
        Its meaning.
    influence, influence_low, influence_high : float
        Released influence and its interval: divided by ``Explanation.scale`` when the explanation is
        relative, else in units of the influence. It is the change of the difference times a factor
        for the rows that remain, so it is not the share of the difference that goes away.
    left_low, left_high : float or None
        What follows for the difference without the rows, in units of the aggregate: its lower end, or
        its upper end; None where no end follows (``dpnb.explain.remaining``).
    rank_low, rank_high : int
        Places among all candidates, 1 being the largest influence.
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
class Explanation(Billed, Result):
    """The predicates with the largest influence on a difference. Holds released values only.

    Attributes
    ----------
    question : Question
    rows : tuple of Row
        Sorted by the upper end of the influence, largest first; then by the upper end of the rank.
    relative : bool
        Whether influences are divided by the released difference.
    reason : str
        Why they are not; empty when they are.
    scale : float
        What influences were divided by: 1 when not relative.
    candidates : int
        |P|, the number of candidate predicates.
    attributes : tuple of str
        Columns they are made of; empty when conditions were listed.
    unbinned : mapping of str to str
        Columns that are not among them because they have no bins, each with what to write.
    length : int
    connective : {'and', 'or'}
    confidence : float
    joint : bool
        Whether the confidence is for all rows together.
    mode : {'tight', 'paper'}
    sharper : mapping of str to float
        How many times narrower ``mode='tight'`` would make the intervals of influence and of rank.
    bill : Bill
        What it cost, what is left, and its stamps, as in ``Answer``; an explanation of a conditional
        question is conditional, too.
    rho : mapping of str to str
        Budget of each part: topk, influence, rank.
    half_width : float
        Of the influences' intervals, as shown.
    resolution : float
        How far influences lie apart that ranks tell apart, as shown.
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
    half_width: float
    resolution: float
    definition: Mapping[str, Any]

    # facts in words, the same in text, HTML and widgets

    def indistinct(self, row: Row) -> bool:
        """Return whether a row may be due to noise.

        Its influence may be 0, or its rank may be in either half of all candidates.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        bool
            True if noise alone may have put it there.
        """
        spans = row.rank_high - row.rank_low + 1
        return row.influence_low <= 0 <= row.influence_high or 2 * spans > self.candidates > 1

    def influence_text(self, row: Row) -> str:
        """Return the confidence interval of a row's influence as shown.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        str
            Such as '2 % to 5 %'.
        """
        return f"{self._amount(row.influence_low, -1)} to {self._amount(row.influence_high, 1)}"

    def rank_text(self, row: Row) -> str:
        """Return the confidence interval of a row's rank as shown.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        str
            Such as '1 to 3'.
        """
        if row.rank_low == row.rank_high:
            return f"{row.rank_low:,}"
        return f"{row.rank_low:,} to {row.rank_high:,}"

    def effect_text(self, row: Row) -> str:
        """Return in words what leaving out the rows of a predicate does.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        str
            Such as 'lowers the difference'.
        """
        if row.influence_low <= 0 <= row.influence_high:
            return "could be noise"
        if self.indistinct(row):
            return "rank is uncertain"
        if row.influence_high < 0:
            return f"raises the difference{self._left(row.left_low, -1)}"
        if self.reverses(row):
            return f"reverses the difference,{self._left(row.left_high, 1)}"
        return f"lowers the difference{self._left(row.left_high, 1)}"

    def reverses(self, row: Row) -> bool:
        """Return whether the difference is above 0 for certain, and below 0 without the rows.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        bool
            True if this is proven.
        """
        return self.question.joint_low > 0 and row.left_high is not None and row.left_high < 0

    def _left(self, end: float | None, side: int) -> str:
        """Return what the difference is at most (side 1) or at least without some rows, as shown."""
        if end is None:
            return ""
        question = self.question
        sharp = self.half_width * self.scale / factor(question)
        half = sharp + (question.joint_high - question.joint_low) / 2
        return f" to {end_text(end, half, side)} or {'less' if side > 0 else 'more'}"

    @property
    def reversed(self) -> bool:
        """Whether the answer surely shows the opposite of the question."""
        return self.question.high < 0

    def _amount(self, value: float, side: int = 0) -> str:
        """Return an influence as shown; an end of an interval is rounded to its side."""
        times, unit = (100, " %") if self.relative else (1, "")
        shown = times * value, times * self.half_width
        return (end_text(*shown, side) if side else figure(*shown)) + unit

    @property
    def influence_unit(self) -> str:
        """In what influences are given."""
        name, function = self.question.aggregate, self.question.function
        if self.relative:
            return RELATIVE_UNIT
        if function == "AVG":
            return f"{name} × rows left"
        return f"{'rows' if function == 'COUNT' else name} × share of rows left"

    def meaning_sentences(self) -> tuple[str, ...]:
        """Return what the columns mean, in plain words.

        Returns
        -------
        tuple of str
            At least one.
        """
        question, share = (
            self.question,
            " (as a share of the released difference)" if self.relative else "",
        )
        group = "smallest" if question.function == "AVG" else "largest"
        part = f" as a share of the {group} group,"
        if question.function == "AVG" and not self.relative:
            part = ""
        return (
            f"The difference is how far {question.left} is above {question.right} in "
            f"{question.aggregate}; a negative one means that it is below.",
            f"Influence: how much the difference falls without the rows of a predicate{share}. This is "
            f"multiplied by the rows left in the group that keeps the fewest,{part} so the difference "
            "itself can fall by far more. A negative influence means that the difference rises.",
            f"Rank: the position by influence among {self._candidates()}; rank 1 has the largest.",
        )

    def caution_sentence(self) -> str:
        """Return what may not be concluded from any row.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        sums = "Percentages do not add up. " if self.relative else f"{self.reason} "
        return f"{sums}This tells what goes together in the data, not what causes what."

    def row_sentence(self, row: Row) -> str:
        """Return what may be concluded from one row, for a reader who knows no statistics.

        Parameters
        ----------
        row : Row
            One of ``rows``.

        Returns
        -------
        str
            One sentence.
        """
        influence, ranks = self.influence_text(row), self.rank_text(row)
        if row.influence_low <= 0 <= row.influence_high:
            return (
                f"No conclusion about {row.predicate}: leaving out its rows could lower or raise "
                f"the difference (influence {influence})."
            )
        if self.indistinct(row):
            return (
                f"No conclusion about {row.predicate}: its rank is anything from {ranks} of "
                f"{self.candidates:,}, so many other predicates may matter more."
            )
        return (
            f"Leaving out the rows with {row.predicate} {self.effect_text(row)}: "
            f"influence {influence}, rank {ranks} of {self.candidates:,}."
        )

    def _candidates(self) -> str:
        if not self.attributes:
            return f"the {self.candidates:,} listed predicates"
        joined = {1: "", 2: " of two attributes", 3: " of three attributes"}[self.length]
        named = ", ".join(self.attributes)
        return f"all {self.candidates:,} predicates{joined} on {named}"

    def level_sentence(self) -> str:
        """Return what the intervals promise.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        sure = percent(self.confidence)
        if self.joint and len(self.rows) > 1:
            said = (
                f"All {len(self.rows)} confidence intervals of influence hold at once, with {sure} "
                "confidence. Separately, the same holds for those of rank."
            )
        else:
            # a row has two: of influence and of rank
            said = interval_sentence(sure, 2 * len(self.rows), each=True)
        ends = [end for row in self.rows for end in (row.left_low, row.left_high)]
        if all(end is None for end in ends):
            return said
        question = self.question
        lesser = percent(min(self.confidence, question.confidence))
        picked = question.planned or question.mode == "paper"
        before = ", if the groups were picked before seeing the answer" if picked else ""
        return (
            f"{said} Each bound on the difference without the rows holds on its own, with {lesser} "
            f"confidence{before}."
        )

    def noise_sentence(self) -> str:
        """Return which rows are too uncertain; empty when none is.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        silent = sum(map(self.indistinct, self.rows))
        if not silent:
            return ""
        if silent == len(self.rows):
            which = "All predicates are"
        else:
            which = f"{silent} of {len(self.rows)} predicates {'is' if silent == 1 else 'are'}"
        whose = "its" if silent == 1 else "their"
        return (
            f"{which} too uncertain for a conclusion: {whose} influence could be 0, or {whose} rank "
            "could be in either half of all candidates."
        )

    def advice_sentence(self) -> str:
        """Return what limits the table and what would help; empty if nothing much does.

        Rests on released and public numbers only.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        if not self.noise_sentence():
            return ""
        vague = sum(row.influence_low <= 0 <= row.influence_high for row in self.rows)
        part = "influence" if 2 * vague >= sum(map(self.indistinct, self.rows)) else "rank"
        shown = self._amount(self.half_width if part == "influence" else self.resolution)
        what = {
            "influence": f"Influences are the weakest part: their margin of error is about {shown}.",
            "rank": f"Ranks are the weakest part: they separate influences that differ by {shown}.",
        }[part]
        ways = ["four times the rho makes them twice as precise"]
        if len(self.rows) > 1:
            fewer = max(1, len(self.rows) // 2)
            gain = (len(self.rows) / fewer) ** 0.5
            ways.append(f"k={fewer} makes them {gain:.1f} times as precise at no extra cost")
        if self.sharper[part] > 1.05:
            ways.append(
                f"mode='tight' makes them {self.sharper[part]:.1f} times as precise at no extra cost"
            )
        if self.question.function != "COUNT":
            ways.append("narrower declared bounds help in proportion")
        return f"{what} What helps: {'; '.join(ways)}."

    def cost_sentence(self) -> str:
        """Return what was spent, on what, and what is left.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        parts = {"topk": "selection", "influence": "influences", "rank": "ranks"}
        split = ", ".join(f"{amount_text(Fraction(self.rho[n]))} {w}" for n, w in parts.items())
        text = cost_text(self.bill)
        return text if self.spent.rho == 0 else f"{text} Split: {split}."

    def note(self) -> str:
        """Return where the ledger lives, when that matters for what was just spent.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        return ledger_note(self.bill)

    def doubt_sentence(self) -> str:
        """Return a warning when the question itself may be due to noise; empty otherwise.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        if self.question.valid:
            return ""
        if self.reversed:
            return f"The answer shows the opposite: {self.question.left} is below, not above."
        return "The difference itself could be noise, so this explanation may be meaningless."

    def sentences(self) -> tuple[str, ...]:
        """Return what is said below the table, in order; the same in every rendering.

        Returns
        -------
        tuple of str
            At least one.
        """
        said = (
            self.doubt_sentence(),
            self.noise_sentence(),
            self.caution_sentence(),
            *self.meaning_sentences(),
            self.level_sentence(),
            unbinned_sentence(self.unbinned),
            self.advice_sentence(),
            self.cost_sentence(),
            self.note(),
        )
        return tuple(sentence for sentence in said if sentence)

    @property
    def title(self) -> str:
        """What is explained, as a caption."""
        return (
            f"Why is {self.question.left} above {self.question.right} in {self.question.aggregate}?"
        )

    # exports

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each predicate: predicate, influence_low/high, rank_low/high, left_low/high.

        Influences are as shown when ``relative`` (0.05 is 5 %); ``left`` is the difference without the
        rows in units of the aggregate, NaN for an end that does not follow.

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
        return plain(
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

    def to_markdown(self) -> str:
        """Return the rows as a Markdown table with its sentences.

        Returns
        -------
        str
            In GitHub's form.
        """
        markdown: str = card_of(self).markdown(self)
        return markdown
