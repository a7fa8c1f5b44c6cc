"""The curator and the picker of ``%%dprisk``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpnb.backend import LocalBackend
from dpnb.curator import Curator, owner_of
from dpnb.errors import RequestError
from dpnb.magics.lines import Progress, find_session, listed, read_number
from dpnb.session import Session

if TYPE_CHECKING:
    from dpnb.display.cards.risk_widget import RiskPicker


def find_curator(
    name: str | None, opened: Mapping[str, Session], namespace: Mapping[str, Any]
) -> Curator:
    """Return the curator that ``--on`` names, or the curator of a session of the data's owner."""
    candidate = None if name is None or name in opened else namespace.get(name)
    if isinstance(candidate, Curator):
        return candidate
    session = find_session(name, opened, namespace)
    curator = owner_of(session)
    if curator is None:
        raise RequestError(
            "exact risks are shown only to the owner of the data", _hint(session, namespace)
        )
    return curator


def _hint(session: Session, namespace: Mapping[str, Any]) -> str:
    """Return what the owner can do if the session is not the owner's."""
    if not isinstance(session._backend, LocalBackend):
        return "Open the table in this notebook: %dpopen people.toml."
    curators = [k for k, v in namespace.items() if isinstance(v, Curator) and k[:1] != "_"]
    if curators:
        return f"As the owner, add --on {curators[0]}."
    return "As the owner, make curator = dpnb.Curator(table, ledger='people.ledger'), and add --on curator."


def open_picker(curator: Curator, statement: str, options: Any, params: Any) -> RiskPicker:
    """Return a picker for the risk of a statement."""
    tau = None if options.tau is None else read_number(options.tau, "--tau", params)
    guesses = None if options.guesses is None else read_number(options.guesses, "--guesses", params)
    candidates = None if options.candidates is None else listed(options.candidates)
    progress = Progress()
    try:
        profile: Any = curator.risk(
            statement,
            params=params,
            by=listed(options.by),
            cumulative=options.cumulative,
            form=options.form,
            progress=progress,
        )
    finally:
        progress.clear()
    picker: RiskPicker = profile.widget(tau=tau, guesses=guesses, candidates=candidates)
    return picker
