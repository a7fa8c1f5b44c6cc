"""An inference from past answers: estimates, confidence intervals and their sources. Free."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from dpnb.answers.frames import framed
from dpnb.answers.inferred import Inferred, Missing, Source, Test
from dpnb.answers.question import shown_label
from dpnb.errors import RequestError, given, nearest
from dpnb.estimation.estimates import cut
from dpnb.estimation.history import Consistency
from dpnb.estimation.joint import Joint, Operator, Quantity, compared
from dpnb.estimation.mixed import ratio
from dpnb.formats import label, label_text
from dpnb.private import Stamp
from dpnb.results import Result, to_plain
from dpnb.schema.partition import Label

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False)
class Inference(Result):
    """The answer to one statement from earlier answers. Holds released values only; costs nothing.

    Attributes
    ----------
    sql, table : str
    version : int
        Version of the table in the ledger.
    keys : tuple of str
    groups : tuple of tuples
    aggregates : tuple of Inferred
    rows : tuple of int
        Indices of the groups to show, after WHERE, ORDER BY and LIMIT.
    asked : int
        Number of groups that WHERE does not rule out.
    confidence : float
        Of the intervals; if a margin of error or an interval is given, the confidence that it has.
    intervals : {'simultaneous', 'each'}
    method : {'blue', 'mc', 'pc', 'guaranteed'}
    chosen : int or 'any'
        How many questions this one may have been picked from after seeing their answers; 1 if it
        was not picked.
    met : bool or None
        Whether the requested margin of error is reached; None if there was none.
    prior : optional
        Plain data of ``dpnb.estimation.prior``; None for a flat one.
    joint : Joint
        The joint distribution of all linear parts.
    shares : tuple of tuples of Source
        The past answers behind each linear part, the most important first.
    missing : tuple of Missing
        Queries for the groups that are not estimable.
    consistency : Consistency
        Whether past answers agree with each other.
    left_out : tuple of str
        Past answers that there was no room for.
    stamp, conditional
        As in an Answer.
    ledger : str
    look : int
        The largest number of versions that were released of a past answer in use.

    Examples
    --------
    >>> answer = session.query("SELECT job, COUNT(*) AS n FROM people GROUP BY job", rho=0.1)
    >>> inference = session.infer("SELECT COUNT(*) AS n FROM people")
    >>> inference.probability(">", inference.estimate)
    0.5
    """

    card = "inference.INFERENCE"

    sql: str
    table: str
    version: int
    keys: tuple[str, ...]
    groups: tuple[tuple[Label, ...], ...]
    aggregates: tuple[Inferred, ...]
    rows: tuple[int, ...]
    asked: int
    confidence: float
    intervals: str
    method: str
    chosen: int | str
    met: bool | None
    prior: Any
    joint: Joint
    shares: tuple[tuple[Source, ...], ...]
    missing: tuple[Missing, ...]
    consistency: Consistency
    left_out: tuple[str, ...]
    stamp: Stamp
    conditional: bool
    ledger: str
    look: int

    # estimates

    @property
    def estimate(self) -> Any:
        """The estimate of the first aggregate: a float, with GROUP BY a tuple of floats or None."""
        return self._first("estimate")

    @property
    def low(self) -> Any:
        """The lower end of the first aggregate's confidence interval; with GROUP BY a tuple."""
        return self._first("low")

    @property
    def high(self) -> Any:
        """The upper end of the first aggregate's confidence interval; with GROUP BY a tuple."""
        return self._first("high")

    def _first(self, name: str) -> Any:
        numbers = getattr(self.aggregates[0], name)
        return numbers if self.keys else numbers[0]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The past answers behind the inference, the most important first.

        For a single value, with their weights. For several, each past answer once, where its share
        is largest.
        """
        if len(self.shares) == 1:
            return self.shares[0]
        best: dict[tuple[str, str], Source] = {}
        for part in self.shares:
            for source in part:
                name = source.statement, source.group
                if name not in best or source.share > best[name].share:
                    best[name] = source
        return tuple(sorted(best.values(), key=lambda source: -source.share))

    def sources_of(self, group: object = None, alias: str | None = None) -> tuple[Source, ...]:
        """Return the past answers behind one group's value, the most important first.

        Parameters
        ----------
        group : group as shown
            Needed with GROUP BY; a tuple for several group columns.
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        tuple of Source
            Each with its weight.
        """
        parts = self._of(alias).places[self._index(group)]
        sources = [source for place in parts for source in self.shares[place]]
        return tuple(sorted(sources, key=lambda source: -source.share))

    def probability(
        self, operator: str, value: float, group: object = None, alias: str | None = None
    ) -> float:
        """Return the probability that a true value is above (>, >=) or below (<, <=) a number.

        With a flat prior (or no prior at all) it is the one-sided p-value of the opposite claim
        (docs/methods/bayes.md, theorem 9). That also holds if only bounds are known, and the
        probability never contradicts them.

        Parameters
        ----------
        operator : {'>', '>=', '<', '<='}
            Which claim about the value.
        value : float
            In units of the aggregate.
        group : group as shown
            Needed with GROUP BY; a tuple for several group columns.
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        float
            From 0 to 1.

        Raises
        ------
        RequestError
            Also if past answers do not determine the value.
        """
        relation = _comparison(operator)
        estimate, distribution = self._against(value, group, alias)
        if self.prior is not None:
            from dpnb.estimation.prior import read_prior, update

            number, is_whole = _number(value), self._of(alias).function.is_count
            posterior = update(
                read_prior(self.prior), estimate + number, distribution, integer=is_whole
            )
            chance: float = posterior.compared(relation, number)
            return chance
        return compared(distribution, relation, estimate)

    def between(
        self, low: float, high: float, group: object = None, alias: str | None = None
    ) -> float:
        """Return the probability that a true value lies between two numbers.

        Parameters
        ----------
        low : float
            In units of the aggregate.
        high : float
            In the same units, at least ``low``.
        group : group as shown
            Needed with GROUP BY; a tuple for several group columns.
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        float
            From 0 to 1 (docs/methods/bayes.md).

        Raises
        ------
        RequestError
            If ``low`` is above ``high``, and as in :meth:`probability`.
        """
        ends = _number(low), _number(high)
        if ends[0] > ends[1]:
            raise RequestError(
                f"low must not be above high, got {ends[0]:g} and {ends[1]:g}",
                "Write between(10, 20).",
            )
        return max(
            0.0,
            self.probability(">=", ends[0], group, alias)
            - self.probability(">", ends[1], group, alias),
        )

    def test(
        self,
        operator: str,
        value: float,
        group: object = None,
        alias: str | None = None,
        *,
        level: float = 0.05,
    ) -> Test:
        """Test the claim that a true value is above (>) or below (<) a number.

        The claim is rejected if its probability is at most ``level``, shared among the ``chosen``
        questions. A claim that a value is exactly a number has no probability under a flat prior
        and is not tested; check whether the confidence interval contains the number.

        Parameters
        ----------
        operator : {'>', '<'}
            Which claim about the value.
        value : float
            In units of the aggregate.
        group : group as shown
            Needed with GROUP BY; a tuple for several group columns.
        alias : str, optional
            The first aggregate by default.
        level : float
            Between 0 and 1: the largest probability to reject a claim that is true.

        Returns
        -------
        Test
            Whether the claim is rejected, and its probability (docs/methods/bayes.md).

        Raises
        ------
        RequestError
            Also if ``chosen`` is 'any'; check whether the confidence interval contains the number.
        """
        if not 0 < _number(level) < 1:
            raise RequestError(
                f"level must be between 0 and 1, got {given(level)}", "Write level=0.05."
            )
        if self.chosen == "any":
            raise RequestError(
                "a test needs a number of questions, and this inference has chosen='any'",
                "Check whether the interval contains the number, or infer with chosen=10.",
            )
        chance = self.probability(operator, value, group, alias)
        name, share = self._of(alias).alias, float(level) / int(self.chosen)
        name += "" if group is None else f" of {group!r}"
        return Test(f"{name} {operator} {value:g}", chance, share, chance <= share)

    # several values together

    def difference(self, left: object, right: object, alias: str | None = None) -> Quantity:
        """Return one group's value minus another's, with a confidence interval of its own.

        Parameters
        ----------
        left : group as shown
            A tuple for several group columns.
        right : group as shown
            Another one.
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        Quantity
            Estimate and confidence interval.
        """
        return self.joint.difference(*self._pair(left, right, alias), self._alpha())

    def ratio(self, left: object, right: object, alias: str | None = None) -> Quantity:
        """Return one group's value divided by another's, with a confidence interval of its own.

        If the second value is not clearly away from 0, the interval is everything that is possible.

        Parameters
        ----------
        left : group as shown
            A tuple for several group columns.
        right : group as shown
            Another one.
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        Quantity
            Estimate and confidence interval (docs/methods/bayes.md).
        """
        quotient = ratio(self.joint, *self._pair(left, right, alias), self._alpha())
        ranges = [self._of(alias).possible_of(self._index(group)) for group in (left, right)]
        if not all(low >= 0 for low, _ in ranges) and not all(high <= 0 for _, high in ranges):
            return quotient
        # of two values with the same sign
        low, high = cut((quotient.low, quotient.high), (0.0, math.inf))
        return replace(quotient, value=max(quotient.value, 0.0), low=low, high=high)

    def slope(self, positions: Sequence[float], alias: str | None = None) -> Quantity:
        """Return the slope of the least-squares line through the groups' values at some positions.

        Parameters
        ----------
        positions : sequence of float
            One for each group; at least two are different.
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        Quantity
            Estimate and confidence interval, in units of the aggregate per unit of position.
        """
        places, xs = self._linear(alias), [_number(x) for x in positions]
        return self.joint.slope(xs, places, self._alpha())

    def argmax(self, alias: str | None = None) -> dict[tuple[Label, ...], float]:
        """Return for each group the probability that its value is the largest.

        Parameters
        ----------
        alias : str, optional
            The first aggregate by default.

        Returns
        -------
        dict of group to float
            Probabilities under a flat prior (docs/methods/bayes.md); they add up to 1.
        """
        return dict(zip(self.groups, self.joint.argmax(self._linear(alias)), strict=True))

    def _alpha(self) -> float:
        """Return the failure probability of one quantity that is computed from several values."""
        if self.chosen == "any" or self.prior is not None or self.method == "guaranteed":
            raise RequestError(
                "a prior, guaranteed bounds and chosen='any' do not work for several values together",
                "Infer again without prior, guaranteed and chosen='any'.",
            )
        return (1 - self.confidence) / int(self.chosen)

    def _pair(self, left: object, right: object, alias: str | None) -> tuple[int, int]:
        places = self._places(alias)
        pair = []
        for group in (left, right):
            place = places[self._index(group)]
            if len(place) != 1:
                raise RequestError(
                    "past answers do not determine this group's value, or it is an AVG",
                    "Compare counts or sums that past answers determine.",
                )
            pair.append(place[0])
        return pair[0], pair[1]

    def _linear(self, alias: str | None) -> list[int]:
        places = self._places(alias)
        if any(len(place) != 1 for place in places):
            raise RequestError(
                "past answers do not determine every group's value, or this is an AVG",
                "Use counts or sums that past answers determine.",
            )
        return [place[0] for place in places]

    def _places(self, alias: str | None) -> tuple[tuple[int, ...], ...]:
        return self._of(alias).places

    def _against(self, value: object, group: object, alias: str | None) -> tuple[float, Any]:
        """Return the estimate of a true value minus a number, and the distribution of its noise.

        For AVG: of the sum minus the number times the count, which has the same sign.
        """
        aggregate, number = self._of(alias), _number(value)
        place = aggregate.places[self._index(group)]
        if not place:
            raise RequestError(
                "past answers do not determine this value", "Ask for it: session.query(sql)."
            )
        shift, weights = number - aggregate.middle, {place[0]: 1.0}
        if len(place) == 2:
            shift, weights = 0.0, {place[0]: 1.0, place[1]: aggregate.middle - number}
        return self.joint.estimate(weights) - shift, self.joint.distribution(weights)

    def _of(self, alias: str | None) -> Inferred:
        if alias is None:
            return self.aggregates[0]
        for aggregate in self.aggregates:
            if isinstance(alias, str) and aggregate.alias == alias:
                return aggregate
        names = [aggregate.alias for aggregate in self.aggregates]
        raise RequestError(
            f"this inference has no aggregate {given(alias)}", nearest(str(alias), names)
        )

    def _index(self, group: object) -> int:
        if group is None:
            if len(self.groups) == 1:
                return 0
            raise RequestError(
                f"there are {len(self.groups):,} groups", "Name one, as in group='Female'."
            )
        target = tuple(map(str, group)) if isinstance(group, tuple) else (str(group),)
        for i, labels in enumerate(self.groups):
            if target in (tuple(map(str, labels)), tuple(map(label_text, labels))):
                return i
        raise RequestError(
            f"there is no group {shown_label(group)} here",
            nearest(label(target), [label(labels) for labels in self.groups]),
        )

    @property
    def told(self) -> bool:
        """Whether earlier answers determine every value."""
        return all(place for aggregate in self.aggregates for place in aggregate.places)

    @property
    def informed(self) -> bool:
        """Whether the prior goes beyond the bounds of every value."""
        if self.prior is None:
            return False
        from dpnb.estimation.prior import AtMost, NonNegative, read_prior

        return not isinstance(read_prior(self.prior), NonNegative | AtMost)

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

        NaN where past answers do not determine a value.

        Parameters
        ----------
        cut : bool
            True for the numbers as they are shown, without what is publicly impossible. False for
            the numbers before this cut, for further computation, as in an Answer.

        Returns
        -------
        pandas.DataFrame
            One row for each group that is shown.
        """
        return framed(self.keys, self.groups, self.rows, self.aggregates, cut=cut)

    def to_dict(self) -> dict[str, Any]:
        """Return the inference as plain data (JSON); infinite ends are None.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return to_plain(
            self,
            aggregates=[aggregate.to_dict() for aggregate in self.aggregates],
            shares=[[asdict(record) for record in part] for part in self.shares],
            missing=[asdict(record) for record in self.missing],
            joint=self.joint.to_dict(),
            consistency=self.consistency.to_dict(),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Inference:
        """Build an inference from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Inference
            Equal to the original.
        """
        values = dict(data)
        for name in ("keys", "rows", "left_out"):
            values[name] = tuple(values[name])
        values["groups"] = tuple(map(tuple, values["groups"]))
        values["aggregates"] = tuple(map(Inferred.from_dict, values["aggregates"]))
        values["shares"] = tuple(
            tuple(Source(**source) for source in part) for part in values["shares"]
        )
        values["missing"] = tuple(Missing(**query) for query in values["missing"])
        values["joint"] = Joint.from_dict(values["joint"])
        values["consistency"] = Consistency.from_dict(values["consistency"])
        return cls(**values)


def _comparison(operator: object) -> Operator:
    relation: Operator
    for relation in get_args(Operator):
        if isinstance(operator, str) and operator == relation:
            return relation
    raise RequestError(f"there is no comparison {given(operator)}", "Use >, >=, < or <=.")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RequestError(f"a number is expected, got {given(value)}", "Give a finite number.")
    if not -(10**30) < value < 10**30:
        raise RequestError("the number is out of range", "Give a finite number.")
    return float(value)
