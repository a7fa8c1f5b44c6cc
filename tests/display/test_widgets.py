from __future__ import annotations

import json
import subprocess
import sys
from unittest import mock

import ipywidgets
import pytest

import dpnb
from dpnb.display import widgets
from dpnb.display.cards.answer_widget import AnswerWidget
from dpnb.display.widgets import display_result
from tests.kit.html import Reading

pytestmark = pytest.mark.fast


@pytest.fixture
def widget(answer):
    return answer.widget()


class TestReadBack:
    """What was picked in the view is known in Python."""

    def test_there_is_no_question_before_two_groups_are_selected(self, widget):
        assert widget.question is None
        widget.selected = [1]
        assert widget.question is None

    def test_the_question_is_about_the_selected_groups(self, widget, answer):
        widget.selected = [0, 1]
        asked = answer.compare(answer.groups[0], answer.groups[1])
        assert widget.question == asked
        assert widget.question.sentence == asked.sentence

    def test_the_question_is_about_the_chosen_aggregate(self, widget):
        widget.selected = [0, 1]
        widget.aggregate = "rich"
        assert widget.question.aggregate == "rich"

    @pytest.mark.parametrize("selected", [[0, 0], [0, 1, 2], [99], [-1]])
    def test_what_is_not_two_shown_groups_is_refused(self, widget, selected):
        with pytest.raises(dpnb.DpnbError, match="two different shown groups"):
            widget.selected = selected
        assert widget.selected == []

    def test_an_unknown_aggregate_is_refused(self, widget):
        with pytest.raises(dpnb.DpnbError, match="no aggregate"):
            widget.aggregate = "poor"

    def test_a_message_from_the_front_end_arrives(self, widget):
        widget.set_state({"selected": [2, 3]})
        assert widget.question.left == widget._answer.group_label(2)


class TestComposition:
    """It is an ordinary widget."""

    def test_it_can_be_observed(self, widget):
        seen = []
        widget.observe(lambda change: seen.append(change.new), "selected")
        widget.selected = [3, 0]
        assert seen == [[3, 0]]

    def test_two_can_be_linked(self, answer):
        one, other = AnswerWidget(answer), AnswerWidget(answer)
        ipywidgets.link((one, "selected"), (other, "selected"))
        one.selected = [1, 2]
        assert other.selected == [1, 2]

    def test_it_can_be_boxed(self, widget):
        assert widget in ipywidgets.VBox([widget, ipywidgets.HTML("below")]).children

    def test_its_state_is_plain_data(self, widget, answer):
        state = json.dumps(widget.get_state())
        assert "total_distribution" not in state
        assert str(answer.remaining.rho) not in state

    def test_a_question_is_a_widget_too(self, answer):
        question = answer.compare("Separated", "Widowed")
        assert question.sentence in Reading(question.widget().value).text


class TestDisplay:
    """One cell shows the record, and in a front end the widget after it."""

    @pytest.fixture
    def outputs(self):
        with mock.patch.object(widgets, "display") as display:
            yield lambda: [call.args[0] for call in display.call_args_list]

    @pytest.fixture
    def kernel(self):
        shell = mock.Mock()
        with mock.patch.object(widgets, "get_ipython", return_value=shell):
            yield shell.kernel

    def test_static_is_the_record_alone(self, answer, outputs):
        display_result(answer, "static")
        [record] = outputs()
        assert record == {"text/plain": repr(answer), "text/html": answer._repr_html_()}

    def test_widget_is_two_outputs_never_one_bundle(self, answer, outputs):
        display_result(answer, "widget")
        record, live = outputs()
        assert set(record) == {"text/plain", "text/html"}
        assert set(live) == {"application/vnd.jupyter.widget-view+json", "text/plain"}
        assert live["text/plain"] == ""

    def test_auto_is_live_where_an_editor_names_the_cell(self, answer, outputs, kernel):
        kernel.get_parent.return_value = {"metadata": {"cellId": "a1"}}
        display_result(answer)
        assert len(outputs()) == 2

    def test_auto_is_static_in_a_batch_run(self, answer, outputs, kernel):
        kernel.get_parent.return_value = {"metadata": {}}
        display_result(answer)
        assert len(outputs()) == 1

    def test_auto_is_static_outside_a_kernel(self, answer, outputs):
        display_result(answer)
        assert len(outputs()) == 1

    def test_another_mode_is_refused(self, answer):
        with pytest.raises(dpnb.DpnbError, match="no display mode"):
            display_result(answer, "live")


def test_importing_dpnb_and_writing_html_loads_no_widgets():
    code = (
        "import sys, dpnb, dpnb.display.html, dpnb.display.figures;"
        "print([m for m in ('anywidget', 'ipywidgets', 'matplotlib', 'IPython') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
