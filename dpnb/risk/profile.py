"""Whom an answer would expose: the disclosure risk of one statement, for the owner only.

RDR is computed from the same views and noise as the release. Its values are exact: they are not
private output and never leave the owner's side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnb.codes import truth
from dpnb.engines.contributions import FINE, ContributionScan
from dpnb.errors import RequestError, given, nearest
from dpnb.privacy.calibrate import distribution
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.privacy.loss import Picked, amount, is_picked, refuse_rho, rho_meant
from dpnb.private import Stamp
from dpnb.releases.plan import Plan
from dpnb.results import display
from dpnb.risk import choosing, preferences
from dpnb.risk.choice import BY_HAND, Choice, RiskHistogram
from dpnb.risk.choosing import Cost
from dpnb.risk.context import RiskContext
from dpnb.risk.exact import SHARE, Exact, Indicators
from dpnb.risk.guesses import COIN
from dpnb.risk.indicator import Form, Values, floor, relative
from dpnb.risk.preferences import Preference
from dpnb.risk.request import DEFAULT_COST, Drawn
from dpnb.risk.rows import Rows
from dpnb.risk.safe_counts import CountsTarget, SafeCounts
from dpnb.risk.selection import Mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpnb.answers.answer import Answer
    from dpnb.answers.price import Price
    from dpnb.interrupt import Progress
    from dpnb.results import BudgetStatus


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RiskProfile:
    """Contributions of single rows to one statement, and what an answer at a level reveals of them.

    If ids are the privacy unit, "row" means an id with all its kept rows.

    ``curator.risk`` makes it. Its values are exact: it hides them when displayed, unless the table
    is public, cannot be pickled, and has no ``to_dict``.

    Attributes
    ----------
    sql : str
    plan : Plan
        What would be released; public facts.
    scan : ContributionScan
        Scan for private selections.
    public : bool
        Whether the table needs no protection.
    by : tuple of str
        Columns to group rows by.
    groups : tuple of str
        Labels of their declared groups.
    form : {'bound', 'exact', 'linear'}
        Form of the indicator (docs/methods/rdr.md, definition 5).
    delta : Fraction or None
        The delta of epsilons that are given or shown.
    context : RiskContext
        The part of the curator that the profile uses.

    Examples
    --------
    >>> risk = curator.risk("SELECT SUM(wage) AS wage FROM people")
    >>> choice = risk.suggest(guesses=60)
    >>> choice.conditional
    False
    """

    sql: str
    plan: Plan
    scan: ContributionScan
    public: bool
    by: tuple[str, ...]
    groups: tuple[str, ...]
    form: Form
    delta: Fraction | None
    _rows: Rows
    context: RiskContext

    # exact values

    @property
    def privacy(self) -> PrivacyDefinition:
        """The session's privacy definition."""
        return self.plan.privacy

    @property
    def cumulative(self) -> bool:
        """Whether losses through earlier releases are included."""
        return self._rows.cumulative

    @property
    def approximate(self) -> bool:
        """Whether contributions were rounded up to multiples of 1/4096 of the largest possible."""
        return bool(self._rows.steps)

    def level(self, rho: object = None, epsilon: object = None) -> float:
        """Return the level that rho or epsilon means in this session; it may be infinite.

        Parameters
        ----------
        rho : number above 0
            One of the two.
        epsilon : number above 0
            The other one.

        Returns
        -------
        float
            rho, or epsilon in a pure session.

        Raises
        ------
        RequestError
            For a number out of range, or rho in a pure session.
        """
        parameter = rho if epsilon is None else epsilon
        unambiguous = (rho is None) != (epsilon is None)
        if unambiguous and isinstance(parameter, float) and parameter == math.inf:
            if rho is not None:
                refuse_rho(self.privacy)
            return math.inf
        return float(self._amount(rho, epsilon))

    def _noisy(self, rho: object, epsilon: object) -> float:
        """Return a finite level: without noise all ratios to the floor are infinite."""
        level = self.level(rho, epsilon)
        if math.isinf(level):
            raise RequestError(
                "groups cannot be compared without noise", "Give a finite rho or epsilon."
            )
        return level

    def _amount(self, rho: object, epsilon: object) -> Fraction:
        if (rho is None) == (epsilon is None):
            raise RequestError(
                "give exactly one of rho and epsilon", "Give epsilon=0.5, or rho=0.05."
            )
        if not self.privacy.counts_rho:
            if rho is not None:
                refuse_rho(self.privacy)
            return amount(epsilon, "epsilon")
        return rho_meant(epsilon, self.delta, self.privacy) if rho is None else amount(rho, "rho")

    def rdr(self, *, epsilon: object = None, rho: object = None) -> Indicators:
        """Return the indicators of all rows if the statement were released at a level.

        RDR, Lemmas 3.6 and 3.7 with k = 1 (docs/methods/rdr.md, definition 5). They are in units of
        the answer if the statement needs one vector, else in units of the noise (whitened). In a
        pure session a release rounds each vector's level down to a public grid, so it reveals a
        little less than the level given here; ``price`` returns its cost.

        Parameters
        ----------
        epsilon, rho : number
            One of the two; infinite means no noise.

        Returns
        -------
        Indicators
            As secret as the data.

        Raises
        ------
        RequestError
            For a level that is zero, negative or not a number.
        """
        level = self.level(rho, epsilon)
        self.context.note_look()
        rows = self._rows
        views = list(self.plan.views.values())
        single = len(views) == 1 and not rows.cumulative
        unit = views[0].sensitivity(self.privacy) if single else 1.0
        if math.isinf(level):
            return Indicators(
                rows.r * unit, rows.counts, 0.0, public=self.public,
                guesses=rows.guesses(level), noun=rows.noun(),
            )  # fmt: skip
        noise = distribution(Fraction(level), unit, self.privacy)
        if not single:
            # each vector in units of its own noise
            noise = replace(noise, scale=1.0)
        least = floor(noise, self.form)
        return Indicators(
            rows.relative(level) * least, rows.counts, least, public=self.public,
            guesses=rows.guesses(level), noun=rows.noun(),
        )  # fmt: skip

    def guesses(self, *, epsilon: object = None, rho: object = None) -> Exact:
        """Return for each row how many of 100 guesses whether it is in the table are right.

        The guesser knows every other row and starts from a coin toss, which is 50
        (docs/methods/rdr.md, definition 9). If a row adds nothing, the answer hides whether it is
        in the table, but not what it contains.

        Parameters
        ----------
        epsilon : number above 0
            One of the two; infinite means no noise.
        rho : number above 0
            The other one.

        Returns
        -------
        Exact
            As secret as the data.
        """
        level = self.level(rho, epsilon)
        self.context.note_look()
        rows = self._rows
        row_guesses = rows.guesses(level)
        order = np.argsort(row_guesses, kind="stable")
        columns = {"guesses": row_guesses[order], rows.noun(): rows.counts[order]}
        return Exact(
            f"guesses right of 100, of single {rows.noun()}", columns.items(), public=self.public
        )

    def losses(self, *, epsilon: object = None, rho: object = None) -> Exact:
        """Return each row's own loss, epsilon_i or rho_i, at a level.

        Parameters
        ----------
        epsilon : number above 0
            One of the two; infinite means no noise.
        rho : number above 0
            The other one.

        Returns
        -------
        Exact
            As secret as the data.
        """
        self.context.note_look()
        rows = self._rows
        columns = {"loss": rows.losses(self.level(rho, epsilon)), rows.noun(): rows.counts}
        return Exact(f"losses of single {rows.noun()}", columns.items(), public=self.public)

    def top(self, count: int = 10) -> Exact:
        """Return the largest contributions, with how many rows have each.

        Parameters
        ----------
        count : int, at least 0
            How many to return.

        Returns
        -------
        Exact
            As secret as the data.

        Raises
        ------
        RequestError
            For a negative number, or a closed profile.
        """
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise RequestError("count must be a whole number of at least 0", "Give count=10.")
        self.context.note_look()
        rows = self._rows
        order = np.argsort(-rows.r, kind="stable")[:count]
        columns: list[tuple[str, Any]] = []
        if not rows.steps:
            columns += [
                (name, rows.ticks[order, i] * step) for i, (name, step) in enumerate(self.columns())
            ]
        if self.by:
            labels = [self.groups[cell] if cell >= 0 else "missing" for cell in rows.cells[order]]
            columns.append((", ".join(self.by), labels))
        columns += [(SHARE, rows.r[order]), (rows.noun(), rows.counts[order])]
        return Exact("largest contributions", columns, public=self.public)

    def columns(self) -> list[tuple[str, float]]:
        """Return the name and unit of each vector of the statement.

        Returns
        -------
        list of pairs of str and float
            Units are those of the aggregates.
        """
        names = {}
        for part in self.plan.parts:
            alias = part.aggregate.alias
            if part.sum is not None and part.is_mean:
                middle = float(getattr(part.sum.measure, "shift", 0))
                names[part.sum.id] = f"{alias}: distance from {middle:g}"
            elif part.sum is not None:
                names[part.sum.id] = alias
            if part.count is not None:
                names.setdefault(part.count.id, f"{alias}: counted" if part.is_mean else alias)
        if not self._rows.ids:
            return [
                (names[name], float(view.measure.step)) for name, view in self.plan.views.items()
            ]
        # the norm over the groups, in units of 1/FINE of the largest norm
        return [
            (names[name], view.sensitivity(self.privacy) / FINE)
            for name, view in self.plan.views.items()
        ]

    def by_group(self, *, epsilon: object = None, rho: object = None) -> Exact:
        """Return the rows, median and largest indicator, and guesses right of 100 of each group.

        Indicators are multiples of the floor; guesses are about the row that is easiest to guess.

        Parameters
        ----------
        epsilon : number above 0
            One of the two; finite.
        rho : number above 0
            The other one.

        Returns
        -------
        Exact
            As secret as the data.
        """
        level = self._noisy(rho, epsilon)
        self.context.note_look()
        rows, groups = self._rows, len(self.groups)
        sizes, medians, maxima = rows.by_cell(rows.relative(level), groups)
        group_guesses = np.maximum(rows.by_cell(rows.guesses(level), groups)[2], COIN)
        columns: list[tuple[str, Any]] = [
            ("group", self.groups), ("rows", sizes), ("median", medians), ("largest", maxima),
            ("guesses", group_guesses),
        ]  # fmt: skip
        return Exact("indicators by group", columns, public=self.public)

    def group_ratio(
        self,
        left: str,
        right: str,
        *,
        epsilon: object = None,
        rho: object = None,
        reveal: bool = False,
    ) -> float:
        """Return the smaller quotient of two groups' median indicators, from 0 to 1.

        A sensitive table needs ``reveal=True``: a notebook saves what its cells show.

        Parameters
        ----------
        left : str
            One of ``groups``.
        right : str
            Another one.
        epsilon : number above 0
            One of the two; finite.
        rho : number above 0
            The other one.
        reveal : bool
            True shows exact facts about a sensitive table.

        Returns
        -------
        float
            1 if both are exposed alike.
        """
        preference = preferences.GroupRatio(0.0, self.cell(left), self.cell(right))
        level = self._noisy(rho, epsilon)
        self.check_reveal(reveal, "a cell that shows them is saved with the notebook")
        self.context.note_look()
        return preference.value(self._rows, level)

    def cell(self, label: str) -> int:
        """Return the index of a group of ``by``.

        Parameters
        ----------
        label : str
            One of ``groups``.

        Returns
        -------
        int
            At least 0.

        Raises
        ------
        RequestError
            For an unknown label, or one that two groups have.
        """
        if not self.groups:
            raise RequestError("there are no groups", "Add by='sex' to curator.risk.")
        matches = [
            i for i, group in enumerate(self.groups) if isinstance(label, str) and group == label
        ]
        if not matches:
            raise RequestError(
                f"there is no group {given(label)}", nearest(str(label), self.groups)
            )
        if len(matches) > 1:
            raise RequestError(f"two groups are called {label!r}", "Name one column in by.")
        return matches[0]

    def signed_losses(self, answer: Answer) -> Exact:
        """Return the signed log-likelihood ratio of a released answer for each row.

        ln p(o | x) / p(o | x without the row) is above 0 if the answer speaks for the row's
        presence (docs/methods/rdr.md, theorem 3). Rows are not ranked by the distance of one
        output, because that order is often wrong (E4).

        Parameters
        ----------
        answer : Answer
            Answer to this statement, from the same ledger.

        Returns
        -------
        Exact
            As secret as the data.
        """
        from dpnb.risk import plan

        self.check_open()
        self.context.note_look()
        look = partial(plan.signed_losses, self, self.context, answer)
        return self.context.look(look)

    def sentence(self, *, epsilon: object = None, rho: object = None, reveal: bool = False) -> str:
        """Return in words what a level means for the person who stands out most.

        A sensitive table needs ``reveal=True``: a notebook saves what its cells show.

        Parameters
        ----------
        epsilon : number above 0
            One of the two; infinite means no noise.
        rho : number above 0
            The other one.
        reveal : bool
            True shows exact facts about a sensitive table.

        Returns
        -------
        str
            As secret as the data.
        """
        level = self.level(rho, epsilon)
        self.check_reveal(reveal, "a cell that shows them is saved with the notebook")
        self.context.note_look()
        return self.sentence_at(level)

    def sentence_at(self, level: float) -> str:
        """Return in words what a level means, without a check of ``reveal``.

        Parameters
        ----------
        level : float
            rho, or epsilon in a pure session; above 0.

        Returns
        -------
        str
            As secret as the data.
        """
        from dpnb.risk.words import sentence

        return sentence(self._rows, level, self.delta)

    # choosing a level

    def suggest(
        self,
        tau: object = 0.95,
        *,
        guesses: object = None,
        policy: str = "cumulative",
        candidates: Sequence[object] | None = None,
    ) -> Choice:
        """Return the level of the public rule, at which nobody is easier to guess than the limit.

        The rule is free. It reads no data, only the largest contribution that the schema allows, so
        the level may be published (docs/methods/rdr.md, theorem 16). If an exact value of the
        statement was shown before, a new limit marks the choice (statement 17).

        Parameters
        ----------
        tau : number
            The limit as floor / indicator, from 0 to 1, fixed before looking at the data.
        guesses : number
            The limit in guesses right of 100, in place of ``tau``: at least 50, a coin toss, and
            below 100.
        policy : {'cumulative', 'alone', 'paper-dynamic'}
            'cumulative' counts what is already spent against the limit, 'alone' does not.
            'paper-dynamic' takes a candidate above all that was spent, as in the paper, which then
            spends twice as much each time (E16).
        candidates : sequence of numbers, optional
            Levels to round down to; by default the paper's for 'paper-dynamic', else any level.

        Returns
        -------
        Choice
            The level, and what it promises.

        Raises
        ------
        RequestError
            For a limit out of range.
        """
        return choosing.suggest(self, tau, guesses, policy, candidates)

    def choose(
        self,
        tau: object = 0.95,
        *,
        guesses: object = None,
        at_most: object = None,
        p: object = None,
        rho: object = None,
        epsilon: object = None,
        policy: str = "cumulative",
        private: bool = True,
        preference: str | Preference = "floor_max_ratio",
        candidates: Sequence[object] | None = None,
        mode: str = "tight",
        method: str | None = None,
        progress: Progress | None = None,
    ) -> Choice:
        """Choose a level by the public rule, or with the help of the data.

        Without a target this is :meth:`suggest`, which is free. A target buys safe counts, one
        noisy histogram. The choice is the largest level at which they show that the target is met,
        or else the rule's level. It never fails, and its sentence is false at most 1 time in 20
        (docs/methods/rdr.md, theorem 19 and algorithm 20).

        Parameters
        ----------
        tau, guesses : number
            The limit, as in :meth:`suggest`, fixed before looking at the data.
        at_most : int
            The target: how many people may be above the limit. 50 if only a cost is given.
        p : number
            The target as a share of the people who are not above the limit, between 0 and 1. For
            ``preference='quantile_ratio'``: the quantile.
        rho, epsilon : number
            Privacy cost of the counts. By default it follows from the target, up to a tenth of the
            remaining budget.
        policy : {'cumulative', 'alone'}
            As in :meth:`suggest`.
        private : bool
            False looks at exact values, as the paper does. On a sensitive table the choice, and
            every release made with it, is then marked as conditional (docs/methods/rdr.md, E1).
        preference : str or Preference
            For ``private=False``; see ``dpnb.risk.preferences``.
        candidates : sequence of numbers
            Levels in the session's privacy definition to round down to. With ``private=False`` and
            in paper mode the default is the paper's 37.
        mode : {'tight', 'paper'}
            'paper' for study: a private ``method`` of the paper. It is charged and promises
            nothing, because its noise has no margin.
        method : {'quantile', 'tail', 'variance'}
            With ``mode='paper'``: the ``p``-quantile meets tau (S1); at most ``at_most`` rows break
            it (S4); or ``tau`` caps the variance of the indicators (S2).
        progress : callable
            Called with the elapsed seconds, from the first second on.

        Returns
        -------
        Choice
            The level, and what it promises.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.
        """
        if not isinstance(mode, str) or mode not in ("tight", "paper"):
            raise RequestError(
                f"mode must be 'tight' or 'paper', got {given(mode)}", "Write mode='tight'."
            )
        if mode == "paper" and truth(private, "private"):
            if guesses is not None:
                raise RequestError("the paper's private choices take no guesses", "Give tau=0.95.")
            cost = self.cost(rho, epsilon)
            paper_method = "quantile" if method is None else method
            return choosing.on_paper(
                self, tau, paper_method, cost, p, at_most, candidates, progress
            )
        if method is not None:
            raise RequestError(
                "the paper's private choices promise nothing, because their noise has no margin",
                "Write at_most=50 or p=0.99 for safe counts, or mode='paper' for the paper's choices.",
            )
        if not truth(private, "private"):
            return choosing.by_preference(self, tau, guesses, preference, p, candidates)
        if at_most is None and p is None and rho is None and epsilon is None:
            return choosing.suggest(self, tau, guesses, policy, candidates)
        return choosing.privately(
            self, tau, guesses, at_most, p, (rho, epsilon), policy, candidates, progress
        )

    def safe_counts(
        self,
        tau: object = 0.95,
        *,
        guesses: object = None,
        at_most: object = None,
        p: object = None,
        rho: object = None,
        epsilon: object = None,
        policy: str = "cumulative",
        progress: Progress | None = None,
    ) -> SafeCounts:
        """Release noisy counts of the people above the limit at each level, and charge them.

        An owner who has seen no exact value may pick a level from them by eye and publish both
        (docs/methods/rdr.md, theorem 19). Arguments as in :meth:`choose`.

        Parameters
        ----------
        tau : number
            The limit as floor / indicator, from 0 to 1.
        guesses : number
            The limit in guesses right of 100, in place of ``tau``: at least 50 and below 100.
        at_most : int, at least 0
            How many people may be above the limit.
        p : float
            The share of people who must not be above the limit, between 0 and 1.
        rho : number above 0
            One of the two: the privacy cost.
        epsilon : number above 0
            The other one, at the session's delta; a pure session takes only this one.
        policy : {'cumulative', 'alone'}
            As in :meth:`suggest`.
        progress : callable
            Called with the elapsed seconds, from the first second on.

        Returns
        -------
        SafeCounts
            Noisy counts by level.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.
        """
        limit = choosing.read_limit(self, tau, guesses)
        target = choosing.read_counts_target(self, at_most, p, rho, epsilon)
        picked = is_picked(rho, epsilon, at_most, p)
        return choosing.released(self, limit, target, policy, progress, picked=picked)

    def counts_target(
        self,
        *,
        at_most: object = None,
        p: object = None,
        rho: object = None,
        epsilon: object = None,
    ) -> CountsTarget:
        """Return what safe counts for a target would cost and could show, for free.

        Parameters
        ----------
        at_most : int, at least 0
            How many people may be above the limit.
        p : float
            The share of people who must not be above the limit, between 0 and 1.
        rho : number above 0
            One of the two: the privacy cost.
        epsilon : number above 0
            The other one, at the session's delta; a pure session takes only this one.

        Returns
        -------
        CountsTarget
            Its cost and what it could show.
        """
        return choosing.read_counts_target(self, at_most, p, rho, epsilon)

    def cost(self, rho: object, epsilon: object) -> Cost:
        """Return the privacy cost of a private release, by default ``DEFAULT_COST``.

        Parameters
        ----------
        rho : number above 0
            One of the two: the privacy cost.
        epsilon : number above 0
            The other one, at the session's delta; a pure session takes only this one.

        Returns
        -------
        Cost
            The amount to charge.
        """
        if rho is None and epsilon is None:
            return DEFAULT_COST[self.privacy], False
        return self._amount(rho, epsilon), is_picked(rho, epsilon)

    def picked(self, level: Fraction) -> Choice:
        """Return the choice of a level that the owner picked by hand, after seeing the risks.

        Parameters
        ----------
        level : Fraction
            rho, or epsilon in a pure session; above 0.

        Returns
        -------
        Choice
            On a sensitive table, or if the level is marked, it marks every answer made with it.
        """
        return choosing.choice(
            self,
            level,
            "data",
            BY_HAND,
            choosing.Limit(0.0, math.inf, 100.0),
            {},
            picked=is_picked(level),
        )

    def spend(self, mechanism: Mechanism, cost: Cost, progress: Progress | None = None) -> Drawn:
        """Carry out a private selection on the contributions and charge it to the ledger.

        Parameters
        ----------
        mechanism : Mechanism
            The mechanism that draws the values.
        cost : Cost
            The amount to charge.
        progress : callable
            Called with the elapsed seconds, from the first second on.

        Returns
        -------
        Drawn
            The released values and their charge.

        Raises
        ------
        BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.
        """
        return self.context.select(mechanism, self.scan, *cost, progress)

    def search(self, preference: Preference, candidates: Sequence[Fraction]) -> Fraction | None:
        """Return the largest candidate whose exact values meet a preference.

        Parameters
        ----------
        preference : Preference
            See ``dpnb.risk.preferences``.
        candidates : sequence of Fraction
            Levels, above 0.

        Returns
        -------
        Fraction or None
            None if no candidate meets it.
        """
        self.context.note_look()
        return preferences.search(preference, self._rows, candidates, public=self.public)

    def price(self, level: Fraction) -> Price:
        """Return the current cost and accuracy of an answer at a level, for free.

        Parameters
        ----------
        level : Fraction
            rho, or epsilon in a pure session; above 0.

        Returns
        -------
        Price
            Cost and margins of error.
        """
        return self.context.price(level)

    def answer(self, level: Fraction | Choice) -> Answer:
        """Release the statement at a choice, or at a level picked by hand.

        The answer is marked if the choice is, or if the level was picked by hand on a sensitive
        table.

        Parameters
        ----------
        level : Fraction or Choice
            rho, or epsilon in a pure session; or a choice that has one.

        Returns
        -------
        Answer
            The answer, charged to the budget.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            Also for a choice without a level or a closed profile. Nothing was charged.
        """
        self.check_open()
        if isinstance(level, Choice):
            if level.level is None:
                raise RequestError("this choice found no privacy cost to use", level.sentence)
            amount_, marked = Fraction(level.level), level.conditional
        else:
            amount_, marked = level, is_picked(level) or not self.public
        return self.context.answer(Picked(amount_) if marked else amount_)

    def ratio_at(self, level: float) -> float:
        """Return floor / indicator of somebody who adds as much as the schema allows, at a level.

        Parameters
        ----------
        level : float
            rho, or epsilon in a pure session; above 0.

        Returns
        -------
        float
            From 0 to 1 (docs/methods/rdr.md).
        """
        if math.isinf(level):
            return 0.0
        return float(1 / relative(np.array([level]), self.privacy, self.form)[0])

    def check_open(self) -> None:
        """Raise an error if the profile is closed.

        Raises
        ------
        RequestError
            If the profile is closed.
        """
        if self._rows.closed:
            raise RequestError("the profile is closed", "Ask curator.risk(sql) again.")

    @property
    def budget(self) -> BudgetStatus:
        """Budget cap, spent and remaining."""
        return self.context.budget

    @property
    def ledger(self) -> str:
        """Public name of the ledger."""
        return self.context.store.name

    @property
    def stamp(self) -> Stamp:
        """Why the values are not about real people, or draws are not private; '' if neither."""
        return self.context.store.stamp

    @property
    def ids(self) -> str:
        """Column of the protected ids; '' for rows."""
        return "" if self.context.table.unit is None else self.context.table.unit.column

    # histograms

    def histogram(self, bins: int = 20) -> Exact:
        """Return the exact histogram of r, the share of the largest possible contribution.

        Parameters
        ----------
        bins : int, from 1 to 64
            Bins of equal width above 0; rows that add nothing have their own.

        Returns
        -------
        Exact
            As secret as the data.
        """
        edges, counts = binned(self._rows, _bins(bins))
        self.context.note_look()
        columns = {"r_low": np.r_[0.0, edges[:-1]], "r_high": edges, self._rows.noun(): counts}
        return Exact("histogram of contributions", columns.items(), public=self.public)

    def share(
        self,
        *,
        bins: int = 16,
        rho: object = None,
        epsilon: object = None,
        progress: Progress | None = None,
    ) -> RiskHistogram:
        """Release and charge a noisy histogram of contributions, which is safe to share.

        Parameters
        ----------
        bins : int
            Bins of equal width above 0; rows that add nothing have their own.
        rho, epsilon : number
            Its privacy cost; by default rho 0.005, or epsilon 0.1 in a pure session.
        progress : callable
            Called with the elapsed seconds, from the first second on.

        Returns
        -------
        RiskHistogram
            Noisy counts by bin.

        Raises
        ------
        RequestError, BudgetError, EngineError, InterruptedRequestError
            Nothing was charged.
        """
        return choosing.shared(self, _bins(bins), self.cost(rho, epsilon), progress)

    # display

    def widget(
        self,
        *,
        tau: object = None,
        guesses: object = None,
        candidates: Sequence[object] | None = None,
    ) -> Any:
        """Return the picker: a live widget that stores nothing. See ``%%dprisk``.

        The limit is a ``tau`` or a number of ``guesses`` right of 100, by default 55.

        Parameters
        ----------
        tau : number
            The limit as floor / indicator, from 0 to 1.
        guesses : number
            The limit in guesses right of 100, in place of ``tau``: at least 50 and below 100.
        candidates : sequence of numbers, optional
            Levels to offer.

        Returns
        -------
        RiskPicker
            The widget; as the last line of a cell it is displayed.
        """
        return display("cards.risk_widget").RiskPicker(
            self, tau=tau, guesses=guesses, candidates=candidates
        )

    def plot(self, ax: Axes | None = None, *, reveal: bool = False) -> Axes:
        """Draw the histogram of contributions; a sensitive table needs ``reveal=True``.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        reveal : bool
            True shows exact facts about a sensitive table.

        Returns
        -------
        matplotlib Axes
            As secret as the data.
        """
        self.check_reveal(reveal, "a picture in a cell is saved with the notebook")
        self.context.note_look()
        axes: Axes = display("cards.risk").plot_risk(self, ax)
        return axes

    def to_html(
        self, path: str, *, reveal: bool = False, tau: object = None, guesses: object = None
    ) -> str:
        """Write levels, histogram and largest contributions to a page and return what it reveals.

        A sensitive table needs ``reveal=True``: the page is as secret as the data.

        Parameters
        ----------
        path : str
            The file to write. An existing one is replaced.
        reveal : bool
            True shows exact facts about a sensitive table.
        tau : number
            The limit as floor / indicator, from 0 to 1.
        guesses : number
            The limit in guesses right of 100, in place of ``tau``: at least 50 and below 100.

        Returns
        -------
        str
            What the page reveals.

        Raises
        ------
        RequestError
            Unless ``reveal``, or the table is public.
        """
        self.check_reveal(reveal, "the page would be as secret as the data")
        self.context.note_look()
        limit = choosing.shown_limit(self, tau, guesses).guesses
        revealed: str = display("cards.risk").write_risks(self, path, limit)
        return revealed

    def check_reveal(self, reveal: bool, why: str) -> None:
        """Refuse to show exact values of a sensitive table without ``reveal``.

        Parameters
        ----------
        reveal : bool
            True shows exact facts about a sensitive table.
        why : str
            Why that is dangerous here, as a clause.

        Raises
        ------
        RequestError
            Unless ``reveal``, or the table is public.
        """
        if not truth(reveal, "reveal") and not self.public:
            raise RequestError(
                f"this shows exact facts about people, and {why}",
                "Use .widget(), which stores nothing, or pass reveal=True.",
            )

    def close(self) -> None:
        """Forget the exact values."""
        self._rows.close()

    def __repr__(self) -> str:
        if self._rows.closed:
            return "<RiskProfile: closed>"
        if not self.public:
            return (
                "<RiskProfile: exact, for the owner only: widget() shows it in a notebook and stores nothing; "
                "suggest(guesses=...) prints a level anywhere>"
            )
        text: str = display("cards.risk").risk_text(self)
        return text

    def _repr_html_(self) -> str:
        html: str = display("cards.risk").profile_html(self)
        return html

    @property
    def closed(self) -> bool:
        """Whether the exact values are forgotten."""
        return self._rows.closed

    def __reduce__(self) -> Any:
        raise TypeError("exact values cannot be pickled")


def binned(rows: Rows, bins: int) -> tuple[Values, Values]:
    """Return the upper edges of bins of r and the rows in each; the first bin is r = 0."""
    edges = np.arange(bins + 1) / bins
    place = np.searchsorted(edges, rows.r * (1 - 1e-12), side="left")
    bin_counts = np.bincount(place, weights=rows.counts.astype(np.float64), minlength=bins + 1)
    return edges, np.asarray(bin_counts[: bins + 1], dtype=np.float64)


def _bins(bins: object) -> int:
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= 64:
        raise RequestError(
            "bins must be a whole number from 1 to 64", "Give a whole number, such as 16."
        )
    return bins
