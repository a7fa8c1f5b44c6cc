"""What ``%%dprisk`` reads and opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpnb.errors import RequestError
from dpnb.magics.lines import Progress, listed, read_number
from dpnb.session import Session

if TYPE_CHECKING:
    from dpnb.display.picker import RiskPicker


def open_picker(session: Session, statement: str, options: Any, params: Any) -> RiskPicker:
    """Look at whom an answer would expose; only where the data are in this kernel."""
    curator = session._curator
    if curator is None:
        raise RequestError(
            "exact risks are shown only to the owner of the data",
            "Open the table in this notebook: %dpopen people.toml.",
        )
    tau = None if options.tau is None else read_number(options.tau, "--tau")
    guesses = None if options.guesses is None else read_number(options.guesses, "--guesses")
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
