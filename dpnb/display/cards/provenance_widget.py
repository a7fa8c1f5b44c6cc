"""The live view of the provenance table: it computes what was released to any analysts together.

A view asks for its contents by message. Messages are stored nowhere, while some front ends and
batch runs store a widget's traits with the notebook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from dpnb.display.cards import provenance_tables as tables
from dpnb.display.cards.provenance import provenance_body, provenance_css
from dpnb.display.cards.provenance_words import coalition_text, share
from dpnb.display.elements import STATIC, module
from dpnb.errors import DpnbError, RequestError, given

if TYPE_CHECKING:
    from dpnb.owner.report import Provenance
    from dpnb.privacy.loss import PrivacyLoss

_STILL = "This table cannot be refreshed. Run the cell again for the newest one."
_RENEWED = "Up to date, with {} charges."


class ProvenanceWidget(anywidget.AnyWidget):
    """The provenance table with check boxes for analysts who might pool their answers.

    Parameters
    ----------
    provenance : Provenance

    Attributes
    ----------
    provenance : Provenance
        The table as shown; ``refresh`` replaces it.
    chosen : tuple of str
        The ticked analysts; settable from both sides, and not part of the widget's stored state.
    """

    _esm = module("provenance.js")
    _css = (STATIC / "answer.css").read_text(encoding="utf-8") + provenance_css()

    chosen = traitlets.Tuple()

    def __init__(self, provenance: Provenance) -> None:
        self.provenance = provenance
        self._hearing = self._open = False
        super().__init__()
        self._open = True
        self.on_msg(self._hear)

    @property
    def analysts(self) -> tuple[str, ...]:
        """The analysts that can be ticked."""
        return tuple(dict.fromkeys(row.analyst for row in self.provenance.rows))

    @property
    def loss(self) -> PrivacyLoss:
        """Privacy loss of everything released to the ticked analysts together."""
        return self.provenance.coalition(*self.chosen)

    def refresh(self) -> None:
        """Show the table as it is now.

        Raises
        ------
        RequestError
            If the table has no source to refresh from.
        """
        if self.provenance.renew is None:
            raise RequestError("this table cannot be refreshed", "Run the cell again.")
        self.provenance = self.provenance.renew()
        self._show(_RENEWED.format(f"{len(self.provenance.timeline):,}"))

    @traitlets.validate("chosen")
    def _known_analysts(self, proposal: Any) -> tuple[str, ...]:
        names: tuple[str, ...] = proposal.value
        unknown = [name for name in names if name not in self.analysts]
        if unknown:
            raise RequestError(
                f"there is no analyst {given(unknown[0])}",
                f"Choose among {', '.join(self.analysts)}.",
            )
        return tuple(name for name in self.analysts if name in names)

    @traitlets.observe("chosen")
    def _ticked(self, change: Any) -> None:
        if self._open and not self._hearing:
            self.send({"chosen": self._places()})
            self._tell(self.chosen)

    # messages from views

    def _hear(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Answer a view's message; ignore any other."""
        if not isinstance(content, Mapping) or not self._open:
            return
        try:
            if content.get("ask") == "table":
                self._show("")
            elif content.get("ask") == "refresh":
                self._renew()
            elif self._are_places(content.get("together")):
                self._reckon([self.analysts[place] for place in content["together"]])
        except DpnbError as error:
            self.send({"failed": f"{str(error)[:1].upper()}{str(error)[1:]}"})

    def _are_places(self, places: object) -> bool:
        return isinstance(places, Sequence) and all(
            isinstance(place, int)
            and not isinstance(place, bool)
            and 0 <= place < len(self.analysts)
            for place in places
        )

    def _places(self) -> list[int]:
        return [self.analysts.index(name) for name in self.chosen]

    def _renew(self) -> None:
        if self.provenance.renew is None:
            self.send({"failed": _STILL})
        else:
            self.refresh()

    def _reckon(self, names: Sequence[str]) -> None:
        """Take over the analysts that a view ticked, and send what was released to them."""
        # not sent back to the view: boxes would jump
        self._hearing = True
        try:
            self.chosen = tuple(names)
        finally:
            self._hearing = False
        self._tell(self.chosen)

    def _tell(self, names: Sequence[str]) -> None:
        report = self.provenance
        places = [self.analysts.index(name) for name in names]
        text, part = "", 0.0
        if names:
            text = coalition_text(report, names)
            part = min(1.0, share(report, report.coalition(*names), report.cap))
        self.send({"together": places, "text": text, "share": part})

    def _show(self, notice: str) -> None:
        """Send everything a view shows."""
        units = tables.units(self.provenance)
        self.send(
            {
                "body": provenance_body(self.provenance),
                "heat": {
                    unit.name: [
                        tables.heat_map(self.provenance, unit),
                        tables.heat_note(self.provenance, unit),
                    ]
                    for unit in units
                },
                "analysts": list(self.analysts),
                "chosen": self._places(),
                "renewed": notice,
            }
        )

    def close(self) -> None:
        """Remove the view from the screen."""
        self._open = False
        super().close()

    def __repr__(self) -> str:
        return "<ProvenanceWidget: for the owner only: shown live, kept nowhere>"

    def __reduce__(self) -> Any:
        raise TypeError("a live view cannot be pickled")
