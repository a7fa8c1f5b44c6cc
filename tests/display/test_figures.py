from __future__ import annotations

import math
from dataclasses import replace

import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from dpnb.display.text import CONDITIONAL, NOT_PRIVATE
from dpnb.results import rebilled

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def names(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


def test_an_answer_draws_one_interval_for_each_group_in_order(answer):
    ax = answer.plot()
    assert isinstance(ax, Axes)
    assert names(ax) == [answer.group_label(row) for row in answer.rows]
    found = answer.estimates_of()
    first = ax.lines[0].get_xdata()
    assert list(first) == [found.low[answer.rows[0]], found.high[answer.rows[0]]]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_the_axes_given_are_used_and_no_figure_is_opened(answer):
    _, ax = plt.subplots()
    before = plt.get_fignums()
    assert answer.plot(ax=ax) is ax
    assert plt.get_fignums() == before


def test_too_few_rows_are_said_beside_the_name(nasty):
    swapped = type(nasty)(
        **{
            **{name: getattr(nasty, name) for name in nasty.__slots__},
            "estimates": nasty.estimates[::-1],
        }
    )
    assert [name.endswith("(too few rows to tell)") for name in names(swapped.plot())] == [
        False, False, True, True,
    ]  # fmt: skip


def test_test_noise_is_stamped(not_private, answer):
    assert not_private.plot().get_title(loc="left").startswith("NOT PRIVATE")
    assert answer.plot().get_title(loc="left") == ""


def test_a_picked_level_is_stamped(answer):
    marked = rebilled(answer, conditional=True)
    for shown in (marked, marked.compare("Separated", "Widowed")):
        assert shown.plot().get_title(loc="left").replace("\n", " ") == CONDITIONAL
    both = rebilled(marked, stamp="test").plot().get_title(loc="left")
    assert both.replace("\n", " ") == f"{NOT_PRIVATE} {CONDITIONAL}"


def test_a_stamp_fits_beside_long_names(answer):
    marked = rebilled(answer, stamp="test", conditional=True)
    figure = marked.plot().figure
    figure.canvas.draw()
    stamp = figure.axes[0]._left_title.get_window_extent()
    assert 0 <= stamp.x0 < stamp.x1 <= figure.bbox.x1
    assert stamp.y1 <= figure.bbox.y1


def test_dollars_are_no_formula(small):
    answer = small.query("SELECT name, COUNT(*) AS n FROM small GROUP BY name", rho=0.01)
    ax = answer.plot()
    assert r"\$x\$" in names(ax)[3]


def test_a_question_marks_zero(answer):
    question = answer.compare("Separated", "Widowed")
    ax = question.plot()
    assert isinstance(ax, Axes)
    assert [list(line.get_xdata()) for line in ax.lines] == [[question.low, question.high], [0, 0]]


def test_a_question_of_any_form_names_both_sides(answer):
    question = answer.compare({"Separated": 0.5, "Divorced": 0.5}, "Widowed", constant=100)
    words = "0.5 Separated + 0.5 Divorced minus (Widowed + 100) in n, 95 % confidence interval"
    assert question.plot().get_xlabel().replace("\n", " ") == words
    many = answer.compare(dict.fromkeys(answer.groups, 0.5), constant=100).plot().get_xlabel()
    assert many.startswith("0.5 Divorced + 0.5 Married-AF-spouse")
    assert many.endswith(" ... in n, 95 % confidence interval")
    assert many.count("\n") == 1


@pytest.mark.parametrize(
    ("low", "high", "shown", "arrows"),
    [
        (-math.inf, math.inf, [-1, 1], "<>"),
        (4.0, math.inf, [4, 6], ">"),
        (-math.inf, -2.0, [-3, -2], "<"),
    ],
)
def test_infinite_ends_are_arrows(answer, low, high, shown, arrows):
    question = replace(answer.compare("Separated", "Widowed"), low=low, high=high)
    ax = question.plot()
    ax.figure.canvas.draw()
    assert list(ax.lines[0].get_xdata()) == shown
    assert "".join(line.get_marker() for line in ax.lines[1:-1]) == arrows
    assert list(ax.lines[-1].get_xdata()) == [0, 0]
