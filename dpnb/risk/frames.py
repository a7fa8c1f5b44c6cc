"""What the risk picker shows: one frame for each candidate level, computed once.

These are exact facts, for the owner only. The frames hold everything that the picker draws, so it
redraws without a request: guesses right of 100, rows above each limit, the bins of a histogram,
groups, and the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnb.formats import share_text
from dpnb.privacy.definition import PURE, ZCDP, PrivacyDefinition
from dpnb.privacy.loss import PrivacyLoss, amount_text
from dpnb.risk.exact import SHARE, Exact
from dpnb.risk.guesses import COIN, about_text, at_most_text
from dpnb.risk.indicator import Values
from dpnb.risk.offers import name
from dpnb.risk.preferences import TIE
from dpnb.risk.words import factor

if TYPE_CHECKING:
    from dpnb.risk.profile import RiskProfile
    from dpnb.risk.rows import Rows

PRESETS = (50.5, 55.0, 60.0, 70.0, 80.0)
"""Limits to pick from, in guesses right of 100."""
BINS = 25
MOST_GROUPS = 40
TOP = 10
"""How many of the largest contributions are listed."""
ALL = "table"
"""Head of the group column if a statement has no groups."""
ENDS = 5
"""How many signed losses of an answer are shown at either end."""

_STEPS: dict[PrivacyDefinition, tuple[str, ...]] = {
    ZCDP: ("0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"),
    PURE: ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"),
}


def coarse(privacy: PrivacyDefinition) -> tuple[Fraction, ...]:
    """Return the usual candidates in rising order: only a few, because more invite fiddling."""
    return tuple(map(Fraction, _STEPS[privacy]))


def start(profile: RiskProfile, candidates: Sequence[Fraction], limit: float) -> int:
    """Return the index of the largest candidate at which nobody is above the limit, else 0."""
    rows = profile._rows
    indices = [
        i
        for i, candidate in enumerate(candidates)
        if within(float(rows.guesses(float(candidate)).max(initial=COIN)), limit)
    ]
    return max(indices, default=0)


def within(found: float, limit: float) -> bool:
    """Return whether guesses right of 100 are at most the limit, up to rounding of floats."""
    return found <= limit * (1 + TIE)


def limits(limit: float) -> list[dict[str, Any]]:
    """Return the limits to pick from, as plain data: the usual ones and the given one."""
    thresholds = [("", threshold) for threshold in PRESETS]
    if limit not in PRESETS:
        thresholds.insert(0, ("yours ", limit))
    return [
        {
            "guesses": threshold,
            "text": at_most_text(threshold),
            "name": f"{word}{at_most_text(threshold)}",
        }
        for word, threshold in thresholds
    ]


def frames(profile: RiskProfile, candidates: Sequence[Fraction], limit: float) -> dict[str, Any]:
    """Return everything that the picker shows of a profile, as plain data (JSON).

    Parameters
    ----------
    profile : RiskProfile
    candidates : sequence of Fraction
        Levels in the session's privacy definition, rising.
    limit : float
        The initial limit, in guesses right of 100.

    Returns
    -------
    dict
        ``levels``: for each candidate its names, the largest guesses right of 100 and how many rows
        have them, the largest indicator as a multiple of the floor, the rows above each limit, bins
        from 50 to 100 guesses, and a sentence. ``thresholds``: limits. ``first`` and ``at``:
        initial indices of the limit and the candidate. ``top`` and ``groups``: tables of texts.
    """
    rows = profile._rows
    thresholds = limits(limit)
    guess_limits = [float(threshold["guesses"]) for threshold in thresholds]
    guesses_by_level = [rows.guesses(float(level)) for level in candidates]
    return {
        "statement": " ".join(profile.sql.split()),
        "public": profile.public,
        "rows": rows.total,
        "noun": rows.noun(),
        "levels": [
            _level(profile, level, row_guesses, guess_limits)
            for level, row_guesses in zip(candidates, guesses_by_level, strict=True)
        ],
        "thresholds": thresholds,
        "first": guess_limits.index(limit),
        "at": start(profile, candidates, limit),
        "top": _top(profile),
        "groups": _groups(profile, rows, candidates, guesses_by_level, guess_limits)
        if profile.by
        else None,
        "notes": _notes(profile),
    }


def ends(losses: Exact) -> dict[str, Any]:
    """Return the largest and smallest signed losses of an answer, as a table of texts."""
    count = len(losses["loss"])
    places = list(range(count))
    if count > 2 * ENDS:
        places = [*places[:ENDS], *places[-ENDS:]]
    table = _table(losses, places)
    signed = [f"{loss:+.3g}" if loss else "0" for loss in losses["loss"][places]]
    table["rows"] = [[*line[:-1], loss] for line, loss in zip(table["rows"], signed, strict=True)]
    if table["head"][0] == ALL:
        # a statement without groups has only one, so its column says nothing
        table = {
            "head": table["head"][1:],
            "numbers": table["numbers"][1:],
            "rows": [line[1:] for line in table["rows"]],
        }
    return {**table, "hidden": count - len(places)}


def rows_text(count: int, total: int, unit: str = "") -> str:
    """Return a number of rows or ids with its share of the table, as text.

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
    count_text = f"{count:,}{f' {unit}{plural}' if unit else ''}"
    if count == total:
        return f"all {count_text}" if total > 1 else f"the only {unit or 'one'}"
    return f"{count_text} ({share_text(count / total)})"


def _level(
    profile: RiskProfile, level: Fraction, row_guesses: Values, guess_limits: Sequence[float]
) -> dict[str, Any]:
    """Return the frame of one candidate; ``row_guesses`` are guesses right of 100."""
    rows = profile._rows
    high = float(row_guesses.max(initial=COIN))
    most = int(rows.counts[row_guesses >= high * (1 - TIE)].sum())
    above = [
        int(rows.counts[row_guesses > guess_limit * (1 + TIE)].sum())
        for guess_limit in guess_limits
    ]
    floor = int(rows.counts[row_guesses <= COIN].sum())
    loss = PrivacyLoss.of(level, profile.privacy)
    has_epsilon = profile.privacy is ZCDP and profile.delta is not None
    epsilon = loss.epsilon_at(profile.delta) if has_epsilon and profile.delta is not None else None
    return {
        "name": name(level, profile.privacy),
        "epsilon": "" if epsilon is None else f"epsilon {amount_text(epsilon)}",
        "delta": "" if epsilon is None else f"delta {amount_text(profile.delta or 0)}",
        "guesses": high,
        "guesses_text": at_most_text(high) if rows.at_most else about_text(high),
        "most": rows_text(most, rows.total, rows.noun(1)),
        "indicator": factor(float(rows.relative(float(level)).max(initial=1.0))),
        "beyond": [rows_text(count, rows.total) for count in above],
        "floor": floor,
        "floor_text": rows_text(floor, rows.total),
        "counts": _bins(row_guesses, rows),
        "sentence": profile.sentence_at(float(level)),
    }


def _bins(row_guesses: Values, rows: Rows) -> list[int]:
    """Return how many rows above a coin toss lie in each of BINS equal bins from 50 to 100."""
    above = row_guesses > COIN
    places = np.ceil((row_guesses[above] - COIN) / COIN * BINS * (1 - TIE)).astype(np.int64) - 1
    bin_counts = np.zeros(BINS, dtype=np.int64)
    np.add.at(bin_counts, np.clip(places, 0, BINS - 1), rows.counts[above])
    return [int(count) for count in bin_counts]


def _top(profile: RiskProfile) -> dict[str, Any]:
    """Return the largest contributions, with their share in percent."""
    contributions = profile.top(TOP)
    table = _table(contributions)
    place = table["head"].index(SHARE)
    for line, share in zip(table["rows"], contributions[SHARE], strict=True):
        line[place] = f"{100 * share:.3g} %"
    return table


def _groups(
    profile: RiskProfile,
    rows: Rows,
    candidates: Sequence[Fraction],
    guesses_by_level: Sequence[Values],
    guess_limits: Sequence[float],
) -> dict[str, Any]:
    """Return for each group the rows above each limit, the most guesses, the largest indicator."""
    cells = len(profile.groups)
    sizes = rows.by_cell(np.ones(len(rows.counts)), cells)[0]
    nonempty_cells = [int(cell) for cell in np.flatnonzero(sizes)]
    first_cells = nonempty_cells[:MOST_GROUPS]
    most = [rows.by_cell(row_guesses, cells)[2] for row_guesses in guesses_by_level]
    ratios = [rows.by_cell(rows.relative(float(level)), cells)[2] for level in candidates]
    text = at_most_text if rows.at_most else about_text
    return {
        "by": ", ".join(profile.by),
        "names": [profile.groups[cell] for cell in first_cells],
        "rows": [f"{int(sizes[cell]):,}" for cell in first_cells],
        "hidden": len(nonempty_cells) - len(first_cells),
        "guesses": [[text(float(values[cell])) for cell in first_cells] for values in most],
        "indicator": [[factor(float(values[cell])) for cell in first_cells] for values in ratios],
        "beyond": [
            [
                [_above(rows, row_guesses, guess_limit, cell) for cell in first_cells]
                for guess_limit in guess_limits
            ]
            for row_guesses in guesses_by_level
        ],
    }


def _above(rows: Rows, row_guesses: Values, limit: float, cell: int) -> str:
    count = int(rows.counts[(rows.cells == cell) & (row_guesses > limit * (1 + TIE))].sum())
    return f"{count:,}" if count else "none"


def _table(exact: Exact, places: Sequence[int] | None = None) -> dict[str, Any]:
    """Return the lines at ``places``, or all, as texts, and which columns hold numbers."""
    frame = exact.to_frame()
    lines = frame if places is None else frame.iloc[list(places)]
    return {
        "head": [str(name) for name in frame.columns],
        "numbers": [column.dtype.kind in "if" for _, column in frame.items()],
        "rows": [[_cell(value) for value in line] for line in lines.itertuples(index=False)],
    }


def _cell(value: object) -> str:
    if isinstance(value, (float, np.floating)):
        number = float(value)
        integral = number.is_integer() and abs(number) < 1e15
        return f"{number + 0.0:,.0f}" if integral else f"{number:,.4g}"
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    return str(value)


def _notes(profile: RiskProfile) -> list[str]:
    notes = []
    if profile.cumulative:
        notes.append("Earlier answers are included, as if all had been fixed in advance.")
    if profile.approximate:
        notes.append(
            "There are many different contributions, so each is rounded up, by at most 1/4096."
        )
    if profile.privacy is PURE:
        notes.append(
            "A release rounds epsilon down to a public grid, so it reveals a little less than shown."
        )
    return notes
