"""The answer to one statement: released values, their confidence intervals, and their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpnb.answers.bootstrap import Bootstrap, bootstrap
from dpnb.answers.compare import compare
from dpnb.answers.frames import framed
from dpnb.answers.postprocessing import ShownTable
from dpnb.answers.price import Origin
from dpnb.answers.question import Question
from dpnb.errors import RequestError, given, nearest
from dpnb.estimation.estimates import Estimates, Intervals
from dpnb.estimation.formula import text
from dpnb.estimation.intervals import Mode
from dpnb.formats import label
from dpnb.privacy.loss import guarantee
from dpnb.results import Bill, Billed, Result, Written, to_plain
from dpnb.schema.partition import Label
from dpnb.schema.schema import unit_text
from dpnb.sql.functions import Function
from dpnb.views.view import counted_note

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Billed, Result, Written):
    """The answer to one statement. Holds released values only.

    Attributes
    ----------
    sql : str
        The statement as asked.
    table : str
    version : int
        Version of the table in the ledger.
    keys : tuple of str
        Names of the columns of labels that are shown: the group columns, and labels made of them.
    groups : tuple of tuples
        All declared groups, present in the data or not.
    estimates : tuple of Estimates
        One for each aggregate or formula of the SELECT list; none if it lists groups alone.
    rows : tuple of int
        Indices of the groups to show, after WHERE, HAVING, ORDER BY and LIMIT.
    asked : int
        Number of groups that WHERE does not rule out.
    bill : Bill
        The cost, what is left, and the stamps. ``answer.spent`` is ``answer.bill.spent``.
    confidence : float
    intervals : {'simultaneous', 'each'}
    looks : 1 or 'any'
    finer : bool
        Whether a more accurate answer was released before.
    levels : mapping
        Level (rho or epsilon) of each view in use, by its id.
    definitions : mapping
        Public definition of each view, by its id.
    ledger, request : str
        Public names of the ledger and of the request in it.
    origin : Origin or None
        How earlier answers to other statements helped to reach the requested margin of error.
    shared : bool
        Whether earlier answers to other statements showed the same noise.
    bought : str or None
        The epsilon of its views, if it is less than requested: levels of a pure session lie on a
        grid. None otherwise.
    grouped : tuple of str
        Names of the group columns, whose labels ``groups`` has.
    rest : tuple of int
        Indices of the other groups that WHERE does not rule out; see :meth:`all_groups`.
    hidden : int or None
        How many of them HAVING and QUALIFY hide; None without them.
    hidden_by : tuple of str
        Which of the two there are.
    undeclared : tuple of pairs of str
        Columns whose undeclared values count for the letters of their label, with the label.
    shown : ShownTable or None
        What is shown of ``rows`` if the statement computes from its results; else None.
    branches : tuple of Answer
        For UNION ALL and GROUPING SETS the answers to their parts, whose lines are ``groups``; none for one statement.

    Examples
    --------
    >>> answer.keys, answer.groups
    (('sex',), (('Female',), ('Male',)))
    >>> answer.spent
    PrivacyLoss(rho=0.1)
    """

    card = "answer.ANSWER"

    sql: str
    table: str
    version: int
    keys: tuple[str, ...]
    groups: tuple[tuple[Label, ...], ...]
    estimates: tuple[Estimates, ...]
    rows: tuple[int, ...]
    asked: int
    bill: Bill
    confidence: float
    intervals: str
    looks: int | str
    finer: bool
    levels: Mapping[str, str]
    definitions: Mapping[str, Any]
    ledger: str
    request: str
    origin: Origin | None = None
    shared: bool = False
    bought: str | None = None
    grouped: tuple[str, ...] = ()
    rest: tuple[int, ...] = ()
    hidden: int | None = None
    hidden_by: tuple[str, ...] = ()
    undeclared: tuple[tuple[str, str], ...] = ()
    shown: ShownTable | None = None
    branches: tuple[Answer, ...] = ()

    @property
    def columns(self) -> Sequence[Intervals]:
        """The columns of numbers that are shown."""
        return self.estimates if self.shown is None else self.shown.columns

    def all_groups(self) -> Answer:
        """Return the released results of all groups, also of those that are hidden.

        HAVING, LIMIT and arithmetic on results change what is shown, not what is released. Free.

        Returns
        -------
        Answer
            With a row for each declared group that WHERE does not rule out, in declared order.

        Examples
        --------
        >>> few = session.query("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING n > 9000", rho=0.1)
        >>> few.rows, few.all_groups().rows
        ((), (0, 1))
        """
        rows = tuple(sorted({*self.rows, *self.rest}))
        return replace(
            self, keys=self.grouped, rows=rows, rest=(), hidden=None, hidden_by=(), shown=None
        )

    def estimates_of(self, alias: str | None = None) -> Estimates:
        """Return one aggregate by its alias; the first one without an alias.

        Parameters
        ----------
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        Estimates
            Released values and confidence intervals of all groups.

        Raises
        ------
        RequestError
            For an unknown alias.
        """
        if not self.estimates:
            raise RequestError(
                "this answer lists declared groups, without any numbers",
                "Add COUNT(*) to the statement.",
            )
        if alias is None:
            return self.estimates[0]
        for output in self.estimates:
            if isinstance(alias, str) and output.alias == alias:
                return output
        names = [output.alias for output in self.estimates]
        raise RequestError(
            f"this answer has no aggregate {given(alias)}", nearest(str(alias), names)
        )

    def compare(
        self,
        left: object,
        right: object = None,
        aggregate: str | None = None,
        *,
        constant: object = 0,
        planned: bool = False,
        mode: Mode = "tight",
    ) -> Question:
        """Ask whether one group, or a weighted sum of groups, is above another. Free.

        Parameters
        ----------
        left, right : group, or mapping from groups to weights
            Groups as shown; a tuple for several group columns. Weights are numbers or decimal
            texts. ``right`` may be left out if ``left`` has several groups, if a constant is given,
            or if ``left`` is a whole comparison as text: ``"0.5*'a' + 0.5*'b' > 'c'"``.
        aggregate : str, optional
            Alias of the aggregate to compare; the first one by default.
        constant : number
            By how much left must be above right, in units of the aggregate.
        planned : bool
            True if you chose the groups before you saw the answer: the confidence interval is
            narrower, and wrong for groups picked after seeing it.
        mode : {'tight', 'paper'}
            'paper' gives the intervals of DPXPlain, which hold for groups fixed in advance.

        Returns
        -------
        Question
            The verdict, with the confidence interval of the difference.

        Raises
        ------
        RequestError
            For an unknown group or aggregate, a group named twice, one group alone, weights that
            are not numbers or are all 0, and more than 100 groups.

        Notes
        -----
        docs/methods/dpxplain.md derives the confidence interval of a difference.

        Examples
        --------
        >>> question = answer.compare("Male", "Female")
        >>> question.low < question.estimate < question.high
        True
        """
        return compare(self, left, right, aggregate, constant=constant, planned=planned, mode=mode)

    def bootstrap(
        self, alias: str | None = None, *, draws: int = 1_000, seed: int = 0
    ) -> Bootstrap:
        """Return approximate confidence intervals of an AVG or a formula, often narrower. Free.

        Released values are resampled with fresh noise of the same distribution (DPXPlain, appendix
        C.5; docs/methods/estimation.md, algorithm 15). The confidence is not guaranteed, and it is
        for each interval on its own; questions never use these intervals.

        Parameters
        ----------
        alias : str, optional
            The first formula or AVG by default.
        draws : int
            100 to 100,000.
        seed : int
            0 or more; the same seed gives the same intervals.

        Returns
        -------
        Bootstrap
            Approximate confidence intervals, with a :meth:`to_frame` of their own.

        Raises
        ------
        RequestError
            For a COUNT or SUM, whose own confidence interval is exact.
        """
        return bootstrap(self, alias, draws, seed)

    @property
    def unit(self) -> str:
        """The privacy unit in words."""
        return unit_text(
            next((definition["unit"] for definition in self.definitions.values()), None)
        )

    @property
    def counted(self) -> str:
        """A sentence if ids may be in more groups than they count in; '' otherwise."""
        measures = {definition["measure"][0] for definition in self.definitions.values()}
        formulas = any(output.function is Function.FORMULA for output in self.estimates)
        return counted_note(self.definitions.values(), alone=measures == {"units"} and not formulas)

    @property
    def look(self) -> int:
        """How many versions of these numbers were released, including this one."""
        return max((output.look for output in self.estimates), default=1)

    def look_note(self, found: Estimates) -> str:
        """Return the note for a question: when its interval holds, and how ids are counted.

        Parameters
        ----------
        found : Estimates
            From :meth:`estimates_of`.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        if self.looks == "any" or found.look == 1:
            return self.past_note() + self._counted()
        condition = "the interval holds only if you planned this look beforehand."
        look = f" Look {found.look} of this answer: {condition}"
        return look + self.past_note() + self._counted()

    def _counted(self) -> str:
        return f" {self.counted}" if self.counted else ""

    def past_note(self) -> str:
        """Return the condition of the intervals if the numbers contain noise of past answers.

        Returns
        -------
        str
            Empty if there is nothing to say.
        """
        if self.origin is None and not self.shared:
            return ""
        return " This assumes that you did not choose the question by looking at past answers."

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
        return label(self.groups[index])

    # exports

    def to_frame(self, *, cut: bool = True) -> pd.DataFrame:
        """Return the shown rows: key columns, then alias, alias_low and alias_high.

        NaN marks too few rows to tell. Ends may be infinite.

        Parameters
        ----------
        cut : bool
            True for the numbers as they are shown, without what is publicly impossible, such as a
            count below 0. False for the numbers as released: add up, average and compare these,
            because the sum of cut numbers is too high (docs/methods/estimation.md, theorem 16).

        Returns
        -------
        pandas.DataFrame
            One row for each group that is shown.
        """
        table = self.shown or self
        return framed(table.keys, table.groups, table.rows, self.columns, cut=cut)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data (JSON): its numbers as shown, and before the cut.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(
            self,
            estimates=[output.to_dict() for output in self.estimates],
            origin=None if self.origin is None else self.origin.to_dict(),
            shown=None if self.shown is None else self.shown.to_dict(),
            branches=[branch.to_dict() for branch in self.branches],
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """Build an answer from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Answer
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        values["keys"], values["grouped"] = tuple(values["keys"]), tuple(values["grouped"])
        values["groups"] = tuple(tuple(group) for group in values["groups"])
        values["undeclared"] = tuple((column, other) for column, other in values["undeclared"])
        values["rows"], values["rest"] = tuple(values["rows"]), tuple(values["rest"])
        values["hidden_by"], table = tuple(values["hidden_by"]), values["shown"]
        values["shown"] = None if table is None else ShownTable.from_dict(table)
        values["estimates"] = tuple(Estimates.from_dict(output) for output in values["estimates"])
        values["branches"] = tuple(cls.from_dict(branch) for branch in values["branches"])
        origin = values["origin"]
        values["origin"] = None if origin is None else Origin.from_dict(origin)
        return cls(**values)

    def record(self) -> dict[str, Any]:
        """Return what is needed to recompute the intervals without the data.

        Query, noise distribution and level of each vector, rounding, privacy unit, and versions of
        data and library.

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
            "privacy_unit": f"{self.unit} (add or remove one)" if self.definitions else None,
            "privacy": self.privacy,
            "spent": self.spent.to_dict(),
            "confidence": self.confidence,
            "intervals": self.intervals,
            "looks": self.looks,
            "look": self.look,
            "views": [
                {**self.definitions[view], "level": level} for view, level in self.levels.items()
            ],
            "noise": [_distributions(output) for output in self.estimates],
            "possible": [
                {"alias": output.alias, "ranges": output.to_dict()["possible"]}
                for output in self.estimates
            ],
            "stamp": self.stamp,
            "guarantee": guarantee(self.conditional),
            "dpnb": dpnb.__version__,
            **({"parts": [one.record() for one in self.branches]} if self.branches else {}),
        }


def _distributions(output: Estimates) -> dict[str, Any]:
    """Return the noise distributions of one result; for a formula, those of its aggregates."""
    if output.formula is not None:
        names = [leaf.alias for leaf in output.leaves]
        return {
            "alias": output.alias,
            "formula": text(output.formula, names),
            "leaves": [_distributions(leaf) for leaf in output.leaves],
        }
    return {
        "alias": output.alias,
        "sum": None if output.total_distribution is None else output.total_distribution.to_dict(),
        "count": None if output.count_distribution is None else output.count_distribution.to_dict(),
    }
