"""Values and intervals by group as a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpnb.codes import truth
from dpnb.schema.partition import Label

if TYPE_CHECKING:
    import pandas as pd

    from dpnb.estimation.estimates import Intervals


def framed(
    keys: Sequence[str],
    groups: Sequence[Sequence[Label | None]],
    rows: Sequence[int],
    columns: Sequence[Intervals],
    *,
    cut: object,
) -> pd.DataFrame:
    """Return the groups in ``rows``: key columns, then the numbers of each output.

    ``cut`` says whether the numbers are those that are shown, or those before the cut.
    """
    import pandas as pd

    as_shown = truth(cut, "cut")
    data: dict[str, list[Any]] = {
        key: [groups[row][i] for row in rows] for i, key in enumerate(keys)
    }
    for output in columns:
        numbers = output if as_shown else output.uncut
        values = [numbers.estimate[row] for row in rows]
        data[output.alias] = [float("nan") if value is None else value for value in values]
        data[f"{output.alias}_low"] = [numbers.low[row] for row in rows]
        data[f"{output.alias}_high"] = [numbers.high[row] for row in rows]
    return pd.DataFrame(data)
