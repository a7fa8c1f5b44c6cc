"""Results of key selection: the values, how many may be hidden, and the privacy cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpnb.errors import SchemaError, given
from dpnb.privacy.loss import guarantee
from dpnb.privacy.threshold import Threshold
from dpnb.results import Bill, Billed, Documented, Result, to_plain
from dpnb.schema.columns import Category
from dpnb.schema.schema import unit_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Detection:
    """How likely a value is to be shown. This is public.

    Attributes
    ----------
    rho, delta : str
        Exact privacy loss of the threshold.
    groups : int
        Number of values for which one row, or id, counts.
    ids : str
        Column of the privacy unit's ids; '' if rows are protected.
    confidence : float
    """

    rho: str
    delta: str
    groups: int
    ids: str
    confidence: float

    @property
    def threshold(self) -> Threshold:
        """The threshold with its noise."""
        return Threshold(Fraction(self.rho), Fraction(self.delta), self.groups)

    @property
    def surely(self) -> int:
        """Rows, or ids, that a value needs to be shown with probability ``confidence``."""
        return self.threshold.surely(self.confidence)


@dataclass(frozen=True, slots=True, repr=False)
class Discovery(Billed, Result, Documented):
    """Values of an undeclared column that many rows, or ids, have.

    Attributes
    ----------
    table, column : str
    keys : tuple of str
        The values, in descending order of their noisy counts.
    hidden_low, hidden_high : int
        Ends of a confidence interval for the number of hidden values, at ``confidence``.
    detection : Detection
        How likely a value is to be shown.
    bill : Bill
        Cost (rho and a part of ``key_delta``), what is left, and its stamp, as in ``Answer``.
    ledger : str
        As in ``Answer``.
    definition : dict
        Public definition of the release, as in the ledger.

    Examples
    --------
    >>> discovery = session.discover("city", rho=0.5)
    >>> discovery.hidden_low >= 0
    True
    """

    card = "discovery.DISCOVERY"

    table: str
    column: str
    keys: tuple[str, ...]
    hidden_low: int
    hidden_high: int
    detection: Detection
    bill: Bill
    ledger: str
    definition: Mapping[str, Any]

    @property
    def confidence(self) -> float:
        """Confidence of the interval for the number of hidden values."""
        return self.detection.confidence

    def category(self, other: str = "(other)") -> Category:
        """Return a declaration of the values, to write into the schema.

        Parameters
        ----------
        other : str
            The value that replaces all hidden values.

        Returns
        -------
        Category
            The values, and ``other``.

        Raises
        ------
        SchemaError
            If ``other`` is one of the values.
        """
        if other in self.keys:
            raise SchemaError(f"{given(other)} is one of the values found", "Choose another name.")
        return Category([*self.keys, other], other=other)

    def to_frame(self) -> pd.DataFrame:
        """Return the values as a data frame with one column.

        Returns
        -------
        pandas.DataFrame
            One row for each value.
        """
        import pandas as pd

        return pd.DataFrame({self.column: list(self.keys)})

    def to_dict(self) -> dict[str, Any]:
        """Return the discovery as plain data (JSON).

        Returns
        -------
        dict of str to value
            Strings, numbers, lists and dicts.
        """
        return to_plain(self, detection=asdict(self.detection))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Discovery:
        """Build the discovery from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            The result of :meth:`to_dict`.

        Returns
        -------
        Discovery
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        return cls(
            **{
                **values,
                "keys": tuple(values["keys"]),
                "detection": Detection(**values["detection"]),
            }
        )

    def record(self) -> dict[str, Any]:
        """Return a record of the release with its noise distribution, without the data.

        Returns
        -------
        dict of str to value
            Strings, numbers, lists and dicts.
        """
        import dpnb

        return {
            **self.definition,
            "privacy_unit": f"{unit_text(self.definition['target']['unit'])} (add or remove one)",
            "keys": list(self.keys),
            "hidden": [self.hidden_low, self.hidden_high],
            "confidence": self.confidence,
            "spent": self.spent.to_dict(),
            "stamp": self.stamp,
            "guarantee": guarantee(self.conditional),
            "dpnb": dpnb.__version__,
        }


@dataclass(frozen=True, slots=True, repr=False)
class DiscoveryPrice(Billed, Documented):
    """What a discovery would cost, and which values it would show. Nothing was spent.

    Attributes
    ----------
    detection : Detection
    hidden : int
        Margin of error of the number of hidden values.
    bill : Bill
        Current cost, and what is left before it.
    affordable : bool
    refusal : str
        As in ``Price``.

    Examples
    --------
    >>> session.price_discovery("city", rho=0.5).affordable
    True
    """

    card = "discovery.PRICE"

    detection: Detection
    hidden: int
    bill: Bill
    affordable: bool
    refusal: str

    def share(self) -> float:
        """Return the cost as a share of what is left, of rho or of delta; infinite if nothing is.

        Returns
        -------
        float
            At least 0.
        """
        share = self.bill.share()
        if self.spent.delta == 0:
            return share
        left = self.remaining.delta
        return max(share, float(self.spent.delta / left) if left else float("inf"))

    def to_dict(self) -> dict[str, Any]:
        """Return the price as plain data (JSON).

        Returns
        -------
        dict of str to value
            Strings, numbers, lists and dicts.
        """
        return to_plain(self, detection=asdict(self.detection))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DiscoveryPrice:
        """Build the price from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            The result of :meth:`to_dict`.

        Returns
        -------
        DiscoveryPrice
            Equal to the original.
        """
        values = dict(data)
        values["bill"] = Bill.taken(values)
        return cls(**{**values, "detection": Detection(**values["detection"])})
