"""The release cache: versions of views that an analyst has, with their noise distributions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnb.ledger.accountant import Accountant
from dpnb.ledger.store import Store
from dpnb.privacy.calibrate import NoiseDistribution
from dpnb.privacy.definition import PrivacyDefinition
from dpnb.private import Stamp
from dpnb.releases.memo import Memo
from dpnb.schema.schema import Schema
from dpnb.views.definitions import read_view
from dpnb.views.view import View

_NOTHING = Fraction(0), ""


@dataclass(frozen=True, slots=True)
class Held:
    """A version of a view that an analyst has, or plans to buy (then without values).

    If columns were summed out, ``whole`` is the view as released, and ``summed`` is how many of its
    answers add up to one of these.
    """

    view: View
    name: str
    level: Fraction
    distribution: NoiseDistribution
    values: tuple[float, ...] | None
    whole: View | None = None
    summed: int = 1

    @property
    def asked(self) -> View:
        """The view as released."""
        return self.whole or self.view

    @property
    def planned(self) -> bool:
        """Whether this version is not bought yet."""
        return self.values is None


@dataclass(frozen=True, slots=True)
class Known:
    """The releases that some accounts have for one version of a table, with related public facts.

    Attributes
    ----------
    held : tuple of Held
    version : int
    ledger : str
    stamp : str
    conditional : frozenset of str
        Names of the views that were ever released at a data-dependent privacy cost.
    looks : mapping
        How many different versions of each view one account received at most, by view name.
    """

    held: tuple[Held, ...]
    version: int
    ledger: str
    stamp: Stamp
    conditional: frozenset[str]
    looks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReleaseCache:
    """Reads analysts' releases from an accountant; about the tables it has only public facts."""

    memo: Memo
    schema_of: Callable[[str], Schema]

    def known(self, store: Store, rows: Collection[str], table: str) -> Known:
        """Return the releases that some accounts have for the current version of a table."""
        state, version = store.accountant, store.version(table)
        releases = self.held(state, rows, table, version)
        looks = {
            release.name: max(len(state.looks(row, [release.name])) for row in rows)
            for release in releases
        }
        return Known(
            tuple(releases), version, store.name, store.stamp, frozenset(state.conditional), looks
        )

    def held(
        self,
        state: Accountant,
        rows: Collection[str],
        table: str,
        version: int,
        levels: Mapping[str, Fraction] | None = None,
    ) -> list[Held]:
        """Return, for each view of a table version, the finest version that some accounts have.

        On a noise path the finest version is a sufficient statistic of all coarser ones, which are
        the finest one plus independent noise (docs/methods/bayes.md, definition 5; noise.md,
        definition 4). With independent or additive noise, the coarser versions are left out.
        ``levels`` gives the versions that one account had at some moment, to use instead.
        """
        if isinstance(rows, str):
            raise TypeError("rows are several names")
        best: dict[str, tuple[Fraction, str]] = {}
        if levels is None:
            for (row, name), level in state.synopses.held.items():
                if row in rows and level > best.get(name, _NOTHING)[0]:
                    best[name] = level, row
        else:
            (account,) = rows
            best = {name: (level, account) for name, level in levels.items()}
        releases = []
        for name, (level, row) in best.items():
            definition = state.definitions.get(name)
            if definition is None or (definition["table"], definition["version"]) != (
                table,
                version,
            ):
                continue
            if (release := self._read(state, row, name, level, definition)) is not None:
                releases.append(release)
        return releases

    def _read(
        self,
        state: Accountant,
        row: str,
        name: str,
        level: Fraction,
        definition: Mapping[str, Any],
    ) -> Held | None:
        """Return one version; None if its view makes no sense under the current schema."""

        def make() -> Held | None:
            view = self._view(name, definition)
            if view is None:
                return None
            values = tuple(view.values(state.vector(row, name, level)))
            return Held(view, name, level, view.distribution(level, state.privacy), values)

        return self.memo.at(("held", row, name), level, make, _values)

    def _view(self, name: str, definition: Mapping[str, Any]) -> View | None:
        def make() -> View | None:
            try:
                return read_view(definition, self.schema_of(definition["table"]))
            except (KeyError, ValueError):
                return None

        return self.memo.at(("view", name), None, make)


def _values(release: Held | None) -> int:
    return 0 if release is None or release.values is None else len(release.values)


def planned(view: View, level: Fraction, privacy: PrivacyDefinition) -> Held:
    """Return a version that is not bought yet: it has a noise distribution and no values."""
    return Held(view, view.id, level, view.distribution(level, privacy), None)
