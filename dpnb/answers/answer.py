"""The answer to one statement: released values, their intervals, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from dpnb.answers.estimates import Estimates
from dpnb.answers.numbers import amount_text, loss_text, percent
from dpnb.answers.question import Question, compare, label
from dpnb.errors import RequestError
from dpnb.kinds import nearest
from dpnb.privacy.loss import Currency, PrivacyLoss

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one statement. Holds released values only.

    Attributes
    ----------
    sql : str
        The statement as asked.
    table : str
    version : int
        Data version of the ledger.
    keys : tuple of str
        Names of the group columns.
    groups : tuple of tuples
        All declared groups, present in the data or not.
    estimates : tuple of Estimates
        One for each aggregate.
    rows : tuple of int
        Indices of the groups to show, after ORDER BY and LIMIT.
    spent, remaining : PrivacyLoss
        What this request cost now, and what is left after it.
    cap : PrivacyLoss
    delta : float or None
        The session's delta, at which epsilons are shown.
    currency : {'zcdp', 'pure'}
    confidence : float
    intervals : {'simultaneous', 'each'}
    looks : 1 or 'any'
    stored, finer, kept : bool
        Answered from the ledger; a finer answer is held; the ledger outlives the kernel.
    private : bool
        False when the noise was not meant for release.
    levels : mapping
        Level (rho or epsilon) of each view in use, by its id.
    definitions : mapping
        Public definition of each view, by its id.
    """

    sql: str
    table: str
    version: int
    keys: tuple[str, ...]
    groups: tuple[tuple[str | int, ...], ...]
    estimates: tuple[Estimates, ...]
    rows: tuple[int, ...]
    spent: PrivacyLoss
    remaining: PrivacyLoss
    cap: PrivacyLoss
    delta: float | None
    currency: Currency
    confidence: float
    intervals: str
    looks: int | str
    stored: bool
    finer: bool
    kept: bool
    private: bool
    levels: Mapping[str, str]
    definitions: Mapping[str, Any]

    def estimates_of(self, alias: str | None = None) -> Estimates:
        """Return one aggregate by its alias; the first one without an alias."""
        if alias is None:
            return self.estimates[0]
        for found in self.estimates:
            if found.alias == alias:
                return found
        names = [found.alias for found in self.estimates]
        raise RequestError(f"{alias!r} is no aggregate of this answer", nearest(str(alias), names))

    def compare(
        self, left: object, right: object, aggregate: str | None = None, *, planned: bool = False
    ) -> Question:
        """Ask whether one group is above another. Free.

        Parameters
        ----------
        left, right : str, int or tuple
            Groups as shown; a tuple for several group columns.
        aggregate : str, optional
            Alias of the aggregate to compare; the first one by default.
        planned : bool
            True when the pair was fixed before the answer was seen: the interval is narrower, and
            wrong for a pair picked because of what was seen.

        Returns
        -------
        Question

        Raises
        ------
        RequestError
            For an unknown group or aggregate, or one group twice.
        """
        return compare(self, left, right, aggregate, planned=planned)

    @property
    def look(self) -> int:
        """How many versions of these numbers were seen, this one included."""
        return max(found.look for found in self.estimates)

    def look_note(self, found: Estimates) -> str:
        """Return what a question must say about looks: intervals of one look do not hold at all."""
        if self.looks == "any" or found.look == 1:
            return ""
        return f" This is look {found.look}: it holds for a precision chosen before looking."

    # facts in words, the same in text, HTML and widgets

    def interval_sentence(self) -> str:
        """Return what the intervals promise."""
        number = len(self.groups) * len(self.estimates)
        sure = percent(self.confidence)
        if self.intervals == "each":
            meaning = (
                f"With {sure} confidence, each on its own, an interval contains its exact value."
            )
        elif number == 1:
            meaning = f"With {sure} confidence the interval contains the exact value."
        else:
            meaning = f"With {sure} confidence all {number} intervals contain their exact values."
        if self.looks == "any":
            return f"{meaning} This is look {self.look}; it holds at every look."
        if self.look > 1:
            return (
                f"{meaning} This is look {self.look}: it holds for a precision chosen before "
                "looking. Ask with looks='any' for intervals that hold at every look."
            )
        return meaning

    def cost_sentence(self) -> str:
        """Return what was spent and what is left."""
        free = self.spent.level(self.currency) == 0
        if free and self.stored:
            cost = "Answered from the ledger at no cost"
        elif free:
            cost = "No cost: these numbers were bought before"
        else:
            cost = f"Cost {loss_text(self.spent, self.currency, self.delta)}"
        left = loss_text(self.remaining, self.currency, None)
        text = f"{cost}; left {left} of {amount_text(self.cap.level(self.currency))}."
        return f"{text} A finer answer is held: ask with more." if self.finer else text

    def note(self) -> str:
        """Return where the ledger lives, when that matters for what was just spent."""
        if self.kept or self.spent.level(self.currency) == 0:
            return ""
        return "Kept in this kernel only; running again after a restart spends again."

    def group_label(self, index: int) -> str:
        """Return a group's name as shown."""
        return label(self.groups[index])

    # exports

    def to_frame(self) -> pd.DataFrame:
        """Return the shown rows: key columns, then alias, alias_low and alias_high.

        Estimates are as released (a noisy count may be negative); NaN marks too few rows to tell.
        """
        import pandas as pd

        columns: dict[str, list[Any]] = {
            key: [self.groups[row][i] for row in self.rows] for i, key in enumerate(self.keys)
        }
        for found in self.estimates:
            values = [found.estimate[row] for row in self.rows]
            columns[found.alias] = [float("nan") if v is None else v for v in values]
            columns[f"{found.alias}_low"] = [found.low[row] for row in self.rows]
            columns[f"{found.alias}_high"] = [found.high[row] for row in self.rows]
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data (JSON)."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("spent", "remaining", "cap"):
            data[name] = data[name].to_dict()
        data["estimates"] = [asdict(found) for found in self.estimates]
        return {name: _listed(value) for name, value in data.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """Build an answer from :meth:`to_dict`."""
        values = dict(data)
        for name in ("spent", "remaining", "cap"):
            values[name] = PrivacyLoss.from_dict(values[name])
        values["keys"] = tuple(values["keys"])
        values["groups"] = tuple(tuple(group) for group in values["groups"])
        values["rows"] = tuple(values["rows"])
        values["estimates"] = tuple(Estimates.from_dict(found) for found in values["estimates"])
        return cls(**values)

    def record(self) -> dict[str, Any]:
        """Return what is needed to recompute the intervals without the data.

        Query, noise law and level of each vector, rounding, privacy unit, data and library version.
        """
        import dpnb

        return {
            "sql": self.sql,
            "table": self.table,
            "data_version": self.version,
            "privacy_unit": "row (add or remove one)",
            "currency": self.currency,
            "spent": self.spent.to_dict(),
            "confidence": self.confidence,
            "intervals": self.intervals,
            "looks": self.looks,
            "look": self.look,
            "views": [
                {**self.definitions[view], "level": level} for view, level in self.levels.items()
            ],
            "laws": [
                {
                    "alias": found.alias,
                    "sum": None if found.total_law is None else found.total_law.to_dict(),
                    "count": None if found.count_law is None else found.count_law.to_dict(),
                }
                for found in self.estimates
            ],
            "private": self.private,
            "dpnb": dpnb.__version__,
        }

    def to_markdown(self) -> str:
        """Return the shown rows as a Markdown table with its sentences."""
        from dpnb.display.text import answer_markdown

        return answer_markdown(self)

    def __repr__(self) -> str:
        from dpnb.display.text import answer_text

        return answer_text(self)

    def _repr_html_(self) -> str:
        from dpnb.display.html import answer_html

        return answer_html(self)

    def to_html(self, path: str) -> None:
        """Write the answer as a page that needs nothing else."""
        from dpnb.display.html import write_page

        write_page(path, self._repr_html_())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the intervals of the first aggregate; returns the matplotlib Axes."""
        from dpnb.display.figures import plot_answer

        return plot_answer(self, ax)

    def widget(self) -> Any:
        """Return the answer as a Jupyter widget; two groups can be picked in it."""
        from dpnb.display.widgets import AnswerWidget

        return AnswerWidget(self)


def _listed(value: Any) -> Any:
    """Tuples become lists, all the way down."""
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_listed(item) for item in value]
    return value
