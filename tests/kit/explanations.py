"""An explanation with the numbers of DPXPlain, Fig. 1(d), made by hand.

Notebooks that tests open use it, too.
"""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

from dpnb.answers.question import Question
from dpnb.explain.explanation import Explanation, Row
from dpnb.explain.remaining import remaining
from dpnb.privacy.definition import ZCDP
from dpnb.privacy.loss import PrivacyLoss
from dpnb.sql.functions import Function
from tests.kit.bills import built, changed

ROWS = (
    ("occupation = 'Exec-managerial'", 0.0325, 0.1012, 1, 9),
    ("education = 'Bachelors'", 0.0293, 0.0980, 1, 8),
    ("age in (40, 50]", 0.0276, 0.0963, 1, 8),
    ("occupation = 'Prof-specialty'", 0.0094, 0.0781, 1, 18),
    ("relationship = 'Own-child'", -0.0049, 0.0638, 1, 96),
)
ATTRIBUTES = (
    "age", "workclass", "education", "occupation", "relationship", "race", "sex", "hours",
    "native_country",
)  # fmt: skip
HOSTILE = (
    "name = '</script><b>bold</b>'",
    "it = 'it\\'s \"quoted\" & `ticked` | piped'",
    "to = '\u202egnp.exe\u2066\x1b[31m'",
    "naïve = '日本語 – עברית $x$ <img src=x onerror=alert(1)>'",
)


def row(predicate, low, high, best, worst, scale=6455.716172168031):
    left = remaining(question(), low * scale, high * scale)
    return Row(predicate, {"predicate": predicate}, (low + high) / 2, low, high, *left, best, worst)


def question(**changes):
    """Return a question of which only what is shown is filled in with care."""
    shown = {
        "groups": (("Married-civ-spouse",), ("Never-married",)),
        "weights": (1.0, -1.0),
        "constant": 0.0,
        "left": "Married-civ-spouse",
        "right": "Never-married",
        "aggregate": "rich",
        "function": Function.AVG,
        "estimate": 0.40051,
        "low": 0.39949,
        "high": 0.40153,
        "valid": True,
        "sentence": "The difference is real (95 % confidence): Married-civ-spouse is higher than "
        "Never-married by 0.3995 to 0.4015 in rich. "
        "This holds even if you picked the groups after seeing the answer.",
        "confidence": 0.95,
        "stamp": "",
        "mode": "tight",
        "rows": 16118.7,
        "enough": True,
        "joint_low": 0.39935,
        "joint_high": 0.40167,
        "smallest_high": 16126.3,
        "largest_low": 22371.5,
        "table": "adult",
        "version": 1,
        "index": 0,
    }
    blank = {"str": "", "int": 0, "bool": False, "float": 0.0}
    values = {field.name: blank.get(str(field.type)) for field in fields(Question)}
    return replace(Question(**{**values, **shown}), **changes)


def explanation(**changes):
    """Return the explanation of Fig. 1(d): five rows in percent, the last one due to noise."""
    spent, cap = PrivacyLoss(rho=Fraction(2)), PrivacyLoss(rho=Fraction(5, 2))
    made = built(
        Explanation,
        question=question(),
        rows=tuple(row(*values) for values in ROWS),
        relative=True,
        reason="",
        scale=6455.716172168031,
        candidates=103,
        attributes=ATTRIBUTES,
        unbinned={},
        length=1,
        connective="and",
        confidence=0.95,
        joint=False,
        mode="paper",
        sharper={"influence": 8.0, "rank": 14.6},
        spent=spent,
        remaining=PrivacyLoss(rho=Fraction(1, 2)),
        cap=cap,
        privacy=ZCDP,
        delta=1e-6,
        rho={"topk": "1/20", "influence": "1/20", "rank": "19/10"},
        margin_of_error=0.03435,
        resolution=0.0532,
        stored=False,
        kept=False,
        stamp="",
        conditional=False,
        definition={"mechanism": "DPXPlain"},
    )
    return changed(made, **changes)


def absolute():
    """Return one whose influences are no shares of the difference, with rows on either side of 0."""
    rows = tuple(
        row(name, 6455.7 * low, 6455.7 * high, best, worst, scale=1.0)
        for name, low, high, best, worst in (*ROWS[:2], ("sex = 'Male'", -0.09, -0.02, 92, 103))
    )
    reason = "Not as shares of the difference: too few rows are left to tell how large it is."
    return explanation(
        rows=rows, relative=False, reason=reason, scale=1.0, margin_of_error=221.7, resolution=343.7,
        mode="tight", sharper={"influence": 1.0, "rank": 1.0},
    )  # fmt: skip


def hostile():
    """Return one with names that look like markup, of a doubtful question, made with test noise."""
    rows = tuple(row(name, *values[1:]) for name, values in zip(HOSTILE, ROWS[1:], strict=True))
    doubtful = question(
        left=HOSTILE[0], right=HOSTILE[2], aggregate="<i>n</i>", low=-1.0, high=2.0, valid=False,
        joint_low=-1.3, joint_high=2.3,
        sentence=f"The difference could be noise: {HOSTILE[0]}, {HOSTILE[2]} in <i>n</i>.", stamp="test",
    )  # fmt: skip
    return explanation(rows=rows, question=doubtful, stamp="test")
