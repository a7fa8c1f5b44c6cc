"""Is one side higher than the other, or could it be noise? Free: uses released values only."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from dpnb.answers.comparison import Group
from dpnb.errors import RequestError, given
from dpnb.estimation.intervals import Mode
from dpnb.formats import end_text, label, percent
from dpnb.private import Stamp
from dpnb.results import Result, to_plain, with_lists
from dpnb.sql.functions import Function

_ENDS = {"low": -math.inf, "high": math.inf, "joint_low": -math.inf, "joint_high": math.inf}
"""Ends of intervals, each with the infinite value that is None in plain data."""
AMONG = " for all comparisons of this kind"
"""Added to a verdict if the weights do not cancel or the column is computed: such comparisons hold
together."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The subject of a question: an answer to its analyst, and how its groups are compared.

    Everything in a question follows from its reference and from what was released.

    Attributes
    ----------
    ledger, request : str
        Public names of the ledger and of the answer's request.
    index : int
        Place of the aggregate in the statement, and ``aggregate`` its alias.
    groups, weights, constant, planned, mode
        As in ``Question``.
    """

    ledger: str
    request: str
    index: int
    aggregate: str
    groups: tuple[Group, ...]
    weights: tuple[float, ...]
    constant: float
    planned: bool
    mode: Mode

    def to_dict(self) -> dict[str, Any]:
        """Return the reference as plain data (JSON)."""
        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Any) -> Reference:
        """Build a reference from :meth:`to_dict`; the data may come from anywhere.

        Raises
        ------
        RequestError
            If the data do not have the shape of a reference.
        """
        if not isinstance(data, Mapping) or set(data) != {field.name for field in fields(cls)}:
            raise _malformed()
        groups, weights = data["groups"], data["weights"]
        if not isinstance(groups, list) or not isinstance(weights, list):
            raise _malformed()
        if not all(isinstance(group, list) for group in groups):
            raise _malformed()
        return cls(
            **{**data, "groups": tuple(map(tuple, groups)), "weights": tuple(weights)}
        ).checked()

    def checked(self) -> Reference:
        """Return the reference if it is valid; one made by hand may hold anything.

        Raises
        ------
        RequestError
        """
        texts = (self.ledger, self.request, self.aggregate)
        lists = isinstance(self.groups, tuple) and isinstance(self.weights, tuple)
        is_valid = (
            lists
            and all(isinstance(text, str) and _is_text(text) for text in texts)
            and isinstance(self.index, int)
            and not isinstance(self.index, bool)
            and all(isinstance(group, tuple) for group in self.groups)
            and all(isinstance(name, (str, int)) for group in self.groups for name in group)
            and len(self.groups) == len(self.weights) > 0
            and all(map(_is_number, (*self.weights, self.constant)))
            and 0 not in self.weights
            and isinstance(self.planned, bool)
            and isinstance(self.mode, str)
            and self.mode in ("tight", "paper")
        )
        if not is_valid:
            raise _malformed()
        return self


def _malformed() -> RequestError:
    return RequestError("this is not a question that dpnb made", "Compare the groups again.")


def _is_number(value: object) -> bool:
    # refuse whole numbers that no float can hold
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 1024
    )


def _is_text(value: str) -> bool:
    """Return whether a text can be encoded: it has no lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


@dataclass(frozen=True, slots=True, repr=False)
class Question(Result):
    """Whether a weighted sum of groups is above a constant, with its confidence interval.

    The question "is a above b?" has the weights 1 and -1, and the constant 0.

    Attributes
    ----------
    groups : tuple of tuples
        Labels of the compared groups.
    weights : tuple of float
        One for each group, none 0; the question is whether sum(weight x value) > ``constant``.
    constant : float
        In units of the aggregate.
    left, right : str
        The two sides as shown: weights above 0 left, the others and the constant right.
    aggregate : str
        Alias of the compared aggregate.
    function : Function
    estimate : float or None
        sum(weight x released value) - constant; None where an AVG has too few rows to tell.
    low, high : float
        Confidence interval of left - right, in units of the aggregate; infinite only in mode
        'paper', and for formulas whose own intervals are.
    valid : bool
        True if the whole interval is above 0: the difference is real, with the stated confidence.
    sentence : str
        The verdict in words.
    confidence : float
        Of the interval.
    planned : bool
        True if the groups were chosen before the answer was seen; otherwise the interval also holds
        for groups picked after seeing it (in mode 'tight'), among comparisons of one kind:
        those whose weights add up to 0, or the others.
    stamp, conditional
        As in an Answer.
    mode : {'tight', 'paper'}
    rows : float or None
        For AVG the smallest released count of the groups.
    enough : bool
        For AVG whether every released count lies above its own noise at this confidence
        (docs/methods/dpxplain.md, definition 2).
    joint_low, joint_high : float
        A wider interval of left - right, which holds together with the next two: all hold with the
        square root of the confidence.
    smallest_high, largest_low : float or None
        Upper bound of the smallest compared group's rows, and lower bound of the largest group's
        rows; None if rows were not counted.
    note : str
        The part of the sentence about looks.
    table, version : str, int
        Table of the answer, and its version.
    ledger, request : str
        Public names of the ledger and of the answer's request.
    index : int
        Place of the aggregate in the statement.

    Examples
    --------
    >>> question.left, question.right
    ('Male', 'Female')
    >>> question.low < question.estimate < question.high
    True
    """

    card = "question.QUESTION"

    groups: tuple[Group, ...]
    weights: tuple[float, ...]
    constant: float
    left: str
    right: str
    aggregate: str
    function: Function
    estimate: float | None
    low: float
    high: float
    valid: bool
    sentence: str
    confidence: float
    planned: bool
    stamp: Stamp
    conditional: bool
    mode: Mode
    rows: float | None
    enough: bool
    joint_low: float
    joint_high: float
    smallest_high: float | None
    largest_low: float | None
    note: str
    table: str
    version: int
    ledger: str
    request: str
    index: int

    @property
    def reference(self) -> Reference:
        """The reference from which the question follows."""
        return Reference(
            self.ledger, self.request, self.index, self.aggregate, self.groups, self.weights, self.constant,
            self.planned, self.mode,
        ).checked()  # fmt: skip

    @property
    def contradicted(self) -> bool:
        """Whether the released values show the opposite."""
        return self.estimate is not None and self.estimate < 0

    def flipped(self) -> Question:
        """Return the question the other way round. Free.

        Returns
        -------
        Question
            With left and right exchanged.
        """
        terms = sorted(zip(self.groups, self.weights, strict=True), key=lambda pair: pair[1] > 0)
        question = replace(
            self,
            groups=tuple(group for group, _ in terms),
            weights=tuple(-weight for _, weight in terms),
            constant=0.0 - self.constant,
            left=self.right,
            right=self.left,
            estimate=None if self.estimate is None else 0.0 - self.estimate,
            low=0.0 - self.high,
            high=0.0 - self.low,
            joint_low=0.0 - self.joint_high,
            joint_high=0.0 - self.joint_low,
            valid=self.high < 0,
        )
        return replace(question, sentence=sentence_of(question))

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plain data (JSON); an infinite end is None.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        ends = {name: getattr(self, name) for name in _ENDS}
        plain_ends = {name: end if math.isfinite(end) else None for name, end in ends.items()}
        return {name: with_lists(value) for name, value in (asdict(self) | plain_ends).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Question:
        """Build a question from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Question
            Equal to the original.
        """
        values = dict(data)
        values["groups"] = tuple(tuple(group) for group in values["groups"])
        values["weights"] = tuple(values["weights"])
        values["function"] = Function(values["function"])
        for name, end in _ENDS.items():
            values[name] = end if values[name] is None else values[name]
        return cls(**values)


def shown_label(group: object) -> str:
    """Return an unknown group for a message; see :func:`dpnb.errors.given`."""
    plain_types = (str, int, float, datetime.date)
    parts = group if isinstance(group, tuple) else (group,)
    return given(
        label(tuple(map(str, parts)))
        if all(isinstance(part, plain_types) for part in parts)
        else group
    )


def verdict(
    left: str,
    right: str,
    aggregate: str,
    low: float,
    high: float,
    confidence: float,
    *,
    advance: bool = False,
    kind: bool = False,
    mode: Mode = "tight",
) -> str:
    """Return the verdict in words.

    ``advance`` says that it holds only for groups fixed in advance. ``kind`` says that the weights
    do not cancel or the column is computed, so that it holds among such comparisons together.
    """
    percentage, half = percent(confidence), (high - low) / 2

    def span(start: float, end: float) -> str:
        return f"{end_text(start, half, -1)} to {end_text(end, half, 1)}"

    if low > 0:
        sentence = (
            f"The difference is real ({percentage} confidence): {left} is higher than {right} by "
            f"{span(low, high)} in {aggregate}."
        )
    elif high < 0:
        sentence = (
            f"The difference is real ({percentage} confidence), but the other way round: {left} is lower "
            f"than {right} by {span(0.0 - high, 0.0 - low)} in {aggregate}."
        )
    else:
        sentence = (
            f"The difference could be noise: {left} and {right} differ by {span(low, high)} in "
            f"{aggregate} ({percentage} confidence)."
        )
    if advance:
        subject = "The interval is the paper's. It" if mode == "paper" else "This"
        return f"{sentence} {subject} holds only if you picked the groups before seeing the answer."
    return f"{sentence} This holds{AMONG if kind else ''} even if you picked the groups after seeing the answer."


def sentence_of(question: Question) -> str:
    """Return the verdict on a question in words."""
    # intervals of formulas hold for all groups together, however the question was chosen
    advance = question.mode == "paper" or (
        question.planned and question.function is not Function.FORMULA
    )
    kind = question.function is Function.FORMULA or math.fsum(question.weights) != 0
    sentence = verdict(
        question.left, question.right, question.aggregate, question.low, question.high,
        question.confidence, advance=advance, kind=kind, mode=question.mode,
    )  # fmt: skip
    return sentence + question.note
