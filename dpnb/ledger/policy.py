"""How limits follow from privileges, and what the owner promises beyond them.

Definitions 17 to 20 of docs/methods/dprovdb.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dpnb.codes import number, scalar
from dpnb.errors import RequestError, given
from dpnb.ledger.mechanism import MECHANISMS, Name
from dpnb.privacy.budget import Budget
from dpnb.privacy.definition import BASIC, PURE
from dpnb.privacy.loss import Amount, amount

MOST_PRIVILEGE = 10
"""Highest privilege there can be."""


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """The rules of a curator with several analysts, from the opening of its ledger on.

    The owner can change some of them later, with ``Curator.set_expansion``,
    ``Curator.set_reserve`` and ``Curator.link``.

    Parameters
    ----------
    mechanism : {'path', 'additive', 'vanilla'}
        How several analysts get answers from one view. ``path`` answered most statements in every
        case that was run; the others are DProvDB's, corrected.
    rows : {'max', 'sum'}
        Limit of an analyst with privilege l: the cap times l / top, or times l / sum of all
        privileges. With ``sum`` all analysts must be registered before the first charge.
    expansion : number
        At least 1: each account's limit is this many times larger, at most the cap. The limits then
        add up to more than the cap, and privileged analysts get a smaller part of it.
    views : {'water-filling', 'equal', 'proportional'}
        Limit of each declared view: the cap itself, or a share of it. With the latter two, all
        views are declared when the ledger is opened, and nothing else is answered.
    top : int, optional
        Highest privilege that may ever be registered, 1 to 10; by default the highest at set-up.
    reserve : number
        Between 0 and 1: a charge is admitted only if what is left afterwards still covers this
        share of the limit of every other analyst who is not disabled.
    collusion : sequence of pairs of names
        Who may share answers. All analysts who are joined by such pairs form one coalition.
    together : number, optional
        Limit of one coalition: an epsilon if the budget has a delta, else a rho. Only the cap,
        which the owner chooses, bounds all coalitions together.
    most_colluders : int, optional
        Largest coalition that is accepted.

    Raises
    ------
    RequestError
        For a value out of range.

    Examples
    --------
    >>> import dpnb
    >>> dpnb.Policy(reserve=0.1).shares({"alice": 4, "bob": 1})
    {'alice': Fraction(1, 1), 'bob': Fraction(1, 4)}
    """

    mechanism: Name
    rows: Literal["max", "sum"]
    expansion: Fraction
    views: Literal["water-filling", "equal", "proportional"]
    top: int | None
    reserve: Fraction
    collusion: tuple[tuple[str, str], ...]
    together: Fraction | None
    most_colluders: int | None

    def __init__(
        self,
        *,
        mechanism: str = "path",
        rows: str = "max",
        expansion: Amount = 1,
        views: str = "water-filling",
        top: int | None = None,
        reserve: Amount = 0,
        collusion: Sequence[tuple[str, str]] = (),
        together: Amount | None = None,
        most_colluders: int | None = None,
    ) -> None:
        _one_of("mechanism", mechanism, MECHANISMS)
        _one_of("rows", rows, ("max", "sum"))
        _one_of("views", views, ("water-filling", "equal", "proportional"))
        factor = amount(expansion, "expansion")
        if factor < 1:
            raise RequestError("expansion must be at least 1", "Give expansion=1 or more.")
        reserve_share = Fraction(0) if number(reserve) == 0 else amount(reserve, "reserve")
        if reserve_share > 1:
            raise RequestError("reserve must be at most 1", "Give a share between 0 and 1.")
        if top is not None:
            check_privilege(top, MOST_PRIVILEGE)
        if not isinstance(collusion, (list, tuple)) or not all(map(_is_pair, collusion)):
            raise RequestError(
                "collusion must be a list of pairs of names", "Write collusion=[('alice', 'bob')]."
            )
        pairs = tuple((first, second) for first, second in collusion)
        if most_colluders is not None and not _is_count(most_colluders):
            raise RequestError(
                "most_colluders must be a whole number of at least 1", "Give most_colluders=3."
            )
        if together is not None and mechanism != "path":
            raise RequestError(
                "together needs noise paths: only they bound a coalition by its best-informed member",
                "Use mechanism='path', or leave together out.",
            )
        for name, value in (
            ("mechanism", mechanism), ("rows", rows), ("expansion", factor), ("views", views),
            ("top", top), ("reserve", reserve_share), ("collusion", pairs),
            ("together", None if together is None else amount(together, "together")),
            ("most_colluders", most_colluders),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def shares(self, privileges: Mapping[str, int]) -> dict[str, Fraction]:
        """Return accounts' shares of the cap, at most 1 (Definitions 5.12, 5.13 and section 6.2.2).

        Parameters
        ----------
        privileges : mapping of str to int
            The privilege of each account, from 1 to 10.

        Returns
        -------
        dict of str to Fraction
            Above 0 and at most 1 (docs/methods/dprovdb.md).
        """
        divisor = self.top if self.rows == "max" else sum(privileges.values())
        most = max(privileges.values(), default=1)
        return {
            row: min(self.expansion * Fraction(privilege, divisor or most), Fraction(1))
            for row, privilege in privileges.items()
        }

    def view_shares(self, sensitivities: Mapping[str, int]) -> dict[str, Fraction]:
        """Return each declared view's share of the cap (docs/methods/dprovdb.md, definition 18).

        Parameters
        ----------
        sensitivities : mapping of str to int
            The sensitivity of each declared view, above 0.

        Returns
        -------
        dict of str to Fraction
            Above 0 and at most 1.
        """
        if self.views == "water-filling":
            return dict.fromkeys(sensitivities, Fraction(1))
        if self.views == "equal":
            return {view: Fraction(1, len(sensitivities)) for view in sensitivities}
        total = sum(sensitivities.values())
        return {view: Fraction(sensitivity, total) for view, sensitivity in sensitivities.items()}

    def coalition(self, analyst: str, analysts: Collection[str]) -> frozenset[str]:
        """Return all analysts who may share answers with an analyst, that analyst included.

        Parameters
        ----------
        analyst : str
            A name.
        analysts : collection of str
            The registered analysts.

        Returns
        -------
        frozenset of str
            At least ``analyst``.
        """
        members, edge = {analyst}, {analyst}
        while edge:
            near = {b if a in edge else a for a, b in self.collusion if a in edge or b in edge}
            edge = near - members
            members |= edge
        # an analyst who links two others may not be registered yet
        return frozenset(members & {analyst, *analysts})

    def changed(self, **values: Any) -> Policy:
        """Return a copy of the policy with some values changed.

        Parameters
        ----------
        values : keyword arguments
            As for the class.

        Returns
        -------
        Policy
            A copy.

        Raises
        ------
        RequestError
        """
        return Policy(**{**{name: getattr(self, name) for name in self.__slots__}, **values})

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain data.

        Returns
        -------
        dict of str to value
            Texts, numbers, lists and dicts.
        """
        return {
            "mechanism": self.mechanism, "rows": self.rows, "expansion": str(self.expansion),
            "views": self.views, "top": self.top, "reserve": str(self.reserve),
            "collusion": [list(pair) for pair in self.collusion],
            "together": None if self.together is None else str(self.together),
            "most_colluders": self.most_colluders,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Policy:
        """Build a policy from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            What :meth:`to_dict` returned.

        Returns
        -------
        Policy
            Equal to the original.
        """
        values = dict(data)
        values["expansion"], values["reserve"] = (
            Fraction(values["expansion"]), Fraction(values["reserve"]),
        )  # fmt: skip
        return cls(**values)


def _is_pair(pair: object) -> bool:
    return (
        isinstance(pair, (list, tuple))
        and len(pair) == 2
        and all(isinstance(name, str) for name in pair)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _one_of(name: str, value: object, words: Collection[str]) -> None:
    if not isinstance(value, str) or value not in words:
        raise RequestError(f"{name} cannot be {given(value)}", f"Use one of {', '.join(words)}.")


def check_privilege(privilege: object, most: int) -> int:
    """Return a privilege, a whole number from 1 to ``most``.

    Raises
    ------
    RequestError
    """
    privilege = scalar(privilege)
    if isinstance(privilege, bool) or not isinstance(privilege, int):
        raise RequestError(
            f"a privilege must be a whole number, got {given(privilege)}",
            f"Give one from 1 to {most}.",
        )
    if not 1 <= privilege <= most:
        raise RequestError(
            f"a privilege must be from 1 to {most}, got {given(privilege)}",
            "A higher one would shrink everybody's limit. Give a lower one."
            if privilege > most
            else "Give a positive one.",
        )
    return privilege


def policy_of(
    budget: Budget | None, analysts: Mapping[str, Any] | None, policy: Policy | None
) -> Policy | None:
    """Return the policy of a curator with several analysts, with its highest privilege filled in.

    None if there is only one analyst.

    Raises
    ------
    RequestError
        For rules that do not fit the budget.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise RequestError("policy must be a dpnb.Policy", "Write dpnb.Policy(rows='max').")
    if analysts is not None and not isinstance(analysts, Mapping):
        raise RequestError(
            "analysts must be a dict with privileges", "Write analysts={'alice': 4, 'bob': 1}."
        )
    alone = analysts is None and policy is None
    rules = Policy() if policy is None else policy
    privacy = None if budget is None else budget.privacy
    if privacy is PURE and not alone:
        raise RequestError(
            "several analysts need Gaussian noise, and the budget has no delta",
            "Open the session with Budget(epsilon=3, delta=1e-6).",
        )
    if privacy is BASIC and rules.mechanism == "path":
        raise RequestError(
            "basic composition cannot count noise paths",
            "Use accountant='zcdp' or 'gdp', or mechanism='additive'.",
        )
    if alone:
        return None
    most = rules.top or MOST_PRIVILEGE
    privileges = [
        privilege
        for setting in (analysts or {}).values()
        for privilege in privileges_of(setting, most)
    ]
    if rules.top is None:
        rules = rules.changed(top=max(privileges, default=MOST_PRIVILEGE))
    if budget is not None and budget.delta is not None and rules.together is not None:
        budget.within(rules.together)
    return rules


def privileges_of(given: object, most: int = MOST_PRIVILEGE) -> tuple[int, ...]:
    """Return one or several privileges as whole numbers, without repeats.

    Raises
    ------
    RequestError
    """
    several = given if isinstance(given, (list, tuple)) else [given]
    privileges = tuple(check_privilege(privilege, most) for privilege in several)
    if not privileges or len(set(privileges)) != len(privileges):
        raise RequestError(
            "an analyst needs one or several different privileges", "Give one, such as 4."
        )
    return privileges
