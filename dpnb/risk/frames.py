"""What the picker of a level shows: one frame for each candidate, computed once. Exact: for the owner.

Everything a view needs is here, so that it redraws without asking: the range of the indicators, how
many rows lie beyond which limit, the bins of a histogram, medians by group, and the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnb.answers.numbers import share_text
from dpnb.privacy.loss import Currency, PrivacyLoss, amount_text
from dpnb.risk.exact import SHARE, Exact
from dpnb.risk.indicator import Values
from dpnb.risk.offers import name
from dpnb.risk.preferences import TIE, FloorMaxRatio
from dpnb.risk.words import factor

if TYPE_CHECKING:
    from dpnb.risk.profile import RiskProfile
    from dpnb.risk.rows import Rows

PRESETS = (("strict", 0.95), ("medium", 0.75), ("loose", 0.5))
"""Thresholds with a name (spec/rdr.md section 9)."""
BINS = 20
MOST_GROUPS = 40
TOP = 10
"""Largest contributions that are listed."""
ALL = "table"
"""Head of the column of cells where a statement has no groups."""
ENDS = 5
"""Lines at either end of the signed losses of an answer."""

_STEPS: dict[Currency, tuple[str, ...]] = {
    "zcdp": ("0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"),
    "pure": ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"),
}
_ROUND = (1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0)


def coarse(currency: Currency) -> tuple[Fraction, ...]:
    """Return the usual candidates in rising order: few, as finer steps invite fiddling."""
    return tuple(map(Fraction, _STEPS[currency]))


def start(profile: RiskProfile, candidates: Sequence[Fraction], tau: float) -> int:
    """Return the place of the largest candidate at which floor / max is at least ``tau``, else 0."""
    wanted = FloorMaxRatio(tau)
    kept = [i for i, c in enumerate(candidates) if wanted.met(profile._rows, float(c))]
    return max(kept, default=0)


def frames(profile: RiskProfile, candidates: Sequence[Fraction], tau: float) -> dict[str, Any]:
    """Return everything that is shown of a profile, as plain data (JSON).

    Parameters
    ----------
    profile : RiskProfile
    candidates : sequence of Fraction
        Levels in the session's currency, rising.
    tau : float
        The threshold of floor / max at first, from 0 to 1.

    Returns
    -------
    dict
        ``levels``: for each candidate its names, the least and largest indicator as multiples of the
        floor, floor / max, the rows beyond each limit, bins and a sentence. ``thresholds``: named
        values of tau with their limit on the indicator. ``first`` and ``at``: where to start.
        ``axis``: end of the common axis. ``top`` and ``groups``: tables of texts.
    """
    rows = profile._rows
    named = PRESETS if tau in [value for _, value in PRESETS] else (("yours", tau), *PRESETS)
    thresholds = [_threshold(word, value) for word, value in named]
    found = [rows.relative(float(level)) for level in candidates]
    levels = [
        _level(profile, level, values, [value for _, value in named])
        for level, values in zip(candidates, found, strict=True)
    ]
    ends = [level["high"] for level in levels] + [at["limit"] or 1.0 for at in thresholds]
    return {
        "statement": " ".join(profile.sql.split()),
        "public": profile.public,
        "rows": rows.total,
        "noun": rows.noun(),
        "levels": levels,
        "thresholds": thresholds,
        "first": [value for _, value in named].index(tau),
        "at": start(profile, candidates, tau),
        "axis": _round_up(max(ends)),
        "top": _top(profile),
        "groups": _groups(profile, rows, found) if profile.by else None,
        "notes": _notes(profile),
    }


def ends(losses: Exact) -> dict[str, Any]:
    """Return the lines of an answer's signed losses that stand out at either end."""
    count = len(losses["loss"])
    places = list(range(count))
    if count > 2 * ENDS:
        places = [*places[:ENDS], *places[-ENDS:]]
    table = _table(losses, places)
    signed = [f"{loss:+.3g}" if loss else "0" for loss in losses["loss"][places]]
    table["rows"] = [[*line[:-1], loss] for line, loss in zip(table["rows"], signed, strict=True)]
    if table["head"][0] == ALL:
        # a statement without groups has but one cell
        table = {
            "head": table["head"][1:],
            "numbers": table["numbers"][1:],
            "rows": [line[1:] for line in table["rows"]],
        }
    return {**table, "hidden": count - len(places)}


def ratio_text(ratio: float) -> str:
    """Return floor / max with three decimals, rounded down, so that 0.950 is never said of less."""
    return f"{math.floor(ratio * 1000 * (1 + TIE)) / 1000:.3f}"


def rows_text(count: int, total: int, unit: str = "") -> str:
    """Return a number of rows, or of ids, with its share of the table.

    Examples
    --------
    >>> rows_text(0, 32561), rows_text(159, 32561, "row"), rows_text(32000, 32561)
    ('none', '159 rows (0.5 %)', '32,000 (98.3 %)')
    >>> rows_text(20, 4383, "customer_id")
    '20 customer_id values (0.5 %)'
    """
    if count == 0:
        return "none"
    plural = "" if count == 1 else "s" if unit == "row" else " values"
    named = f"{count:,}{f' {unit}{plural}' if unit else ''}"
    if count == total:
        return f"all {named}" if total > 1 else f"the only {unit or 'one'}"
    return f"{named} ({share_text(count / total)})"


def _threshold(word: str, tau: float) -> dict[str, Any]:
    limit = 1 / tau if tau > 0 else None
    return {
        "name": word,
        "tau": tau,
        "text": f"{tau:g}",
        "limit": limit,
        "limit_text": "none" if limit is None else factor(limit),
    }


def _level(
    profile: RiskProfile, level: Fraction, found: Values, thresholds: Sequence[float]
) -> dict[str, Any]:
    """Return the frame of one candidate; ``found`` are the indicators as multiples of the floor."""
    rows = profile._rows
    high = float(found.max(initial=1.0))
    low = float(rows.relative(float(level), lowest=True).min()) if len(found) else 1.0
    most = int(rows.counts[found >= high * (1 - TIE)].sum())
    beyond = [int(rows.counts[found * tau > 1 + TIE].sum()) if tau > 0 else 0 for tau in thresholds]
    floor, bins = _bins(found, rows)
    loss = PrivacyLoss.of(level, profile.currency)
    shown = profile.currency == "zcdp" and profile.delta is not None
    epsilon = loss.epsilon_at(profile.delta) if shown and profile.delta is not None else None
    return {
        "name": name(level, profile.currency),
        "epsilon": "" if epsilon is None else f"epsilon {amount_text(epsilon)}",
        "delta": "" if epsilon is None else f"delta {amount_text(profile.delta or 0)}",
        "low": low,
        "high": high,
        "high_text": factor(high),
        "most": rows_text(most, rows.total, rows.noun(1)),
        "ratio": 1 / high,
        "ratio_text": ratio_text(1 / high),
        "beyond": [rows_text(count, rows.total) for count in beyond],
        "floor": floor,
        "floor_text": rows_text(floor, rows.total),
        **bins,
        "sentence": profile.sentence_at(float(level)),
    }


def _bins(found: Values, rows: Rows) -> tuple[int, dict[str, Any]]:
    """Return how many rows are at the floor, and bins of equal ratio for those above it.

    The last bin ends at the largest indicator. Where all are alike there is one bin without a width.
    """
    above = found > 1 + TIE
    floor = int(rows.counts[~above].sum())
    if not above.any():
        return floor, {"start": 1.0, "end": 1.0, "counts": []}
    values, counts = found[above], rows.counts[above]
    start, end = float(values.min()), float(values.max())
    number = BINS if end > start * (1 + 1e-9) else 1
    edges = np.geomspace(start, end, number + 1)
    # bins are right-closed, the first includes its left end
    places = np.clip(np.searchsorted(edges, values * (1 - TIE), side="left") - 1, 0, number - 1)
    filled = np.zeros(number, dtype=np.int64)
    np.add.at(filled, places, counts)
    return floor, {"start": start, "end": end, "counts": [int(count) for count in filled]}


def _top(profile: RiskProfile) -> dict[str, Any]:
    """Return the largest contributions; their share in percent."""
    found = profile.top(TOP)
    table = _table(found)
    place = table["head"].index(SHARE)
    for line, share in zip(table["rows"], found[SHARE], strict=True):
        line[place] = f"{100 * share:.3g} %"
    return table


def _groups(profile: RiskProfile, rows: Rows, found: Sequence[Values]) -> dict[str, Any]:
    """Return median and largest indicator of each group that has rows, at each candidate."""
    cells = len(profile.groups)
    sizes = rows.by_cell(np.ones(len(rows.counts)), cells)[0]
    shown = [int(cell) for cell in np.flatnonzero(sizes)]
    told = [rows.by_cell(values, cells) for values in found]
    medians, largest = [middle for _, middle, _ in told], [most for _, _, most in told]
    ratios = [
        min(middle[cell] for cell in shown) / max(middle[cell] for cell in shown) if shown else 1.0
        for middle in medians
    ]
    listed = shown[:MOST_GROUPS]
    return {
        "by": ", ".join(profile.by),
        "names": [profile.groups[cell] for cell in listed],
        "rows": [f"{int(sizes[cell]):,}" for cell in listed],
        "hidden": len(shown) - len(listed),
        "median": [[factor(float(values[cell])) for cell in listed] for values in medians],
        "largest": [[factor(float(values[cell])) for cell in listed] for values in largest],
        "ratio": [ratio_text(ratio) for ratio in ratios],
    }


def _table(exact: Exact, places: Sequence[int] | None = None) -> dict[str, Any]:
    """Return lines of a table of exact values as texts, and which columns hold numbers."""
    frame = exact.to_frame()
    chosen = frame if places is None else frame.iloc[list(places)]
    return {
        "head": [str(name) for name in frame.columns],
        "numbers": [column.dtype.kind in "if" for _, column in frame.items()],
        "rows": [[_cell(value) for value in line] for line in chosen.itertuples(index=False)],
    }


def _cell(value: object) -> str:
    if isinstance(value, (float, np.floating)):
        number = float(value)
        whole = number.is_integer() and abs(number) < 1e15
        return f"{number + 0.0:,.0f}" if whole else f"{number:,.4g}"
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    return str(value)


def _notes(profile: RiskProfile) -> list[str]:
    told = []
    if profile.cumulative:
        told.append("Earlier answers are counted in: indicators include what they tell already.")
    if profile.approximate:
        told.append(
            "There are many different contributions: they are rounded up by 1/4096 at most."
        )
    if profile.currency == "pure":
        told.append(
            "A release rounds levels down to a public grid, so it tells a little less than shown."
        )
    return told


def _round_up(value: float) -> float:
    """Return a round end of a logarithmic axis, a little beyond a value of 1 or more."""
    power = 10.0 ** math.floor(math.log10(value))
    rounds = [unit * times for times in (power, 10 * power) for unit in (1.0, *_ROUND)]
    return next(unit for unit in rounds if unit >= 1.02 * value)
