"""``%%dpinfer`` as a user types it, in an in-process shell."""

from __future__ import annotations

import builtins

import pytest
from IPython.core.completer import provisionalcompleter

import dpnb
from dpnb.answers.inference import Inference
from dpnb.answers.options import OPTIONS
from dpnb.errors import DpnbError

BY_SEX = "SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex"
ALL = "SELECT COUNT(*) AS n FROM adult"


@pytest.fixture
def asked(opened):
    """A shell that knows the counts of women and men."""
    assert opened.run(f"%%dpquery --rho 0.01 -q\n{BY_SEX}").error is None
    return opened


class TestInfer:
    def test_shows_and_returns_what_past_answers_tell(self, asked):
        ran = asked.run(f"%%dpinfer\n{ALL}")
        assert isinstance(ran.result, Inference)
        assert ran.result.low < ran.result.estimate < ran.result.high
        assert "No privacy cost." in ran.stdout
        assert "Past answers used" in ran.stdout
        assert "COUNT(*) GROUP BY sex" in ran.stdout

    def test_spends_nothing_and_never_asks(self, asked, monkeypatch):
        def never(text):
            raise AssertionError(text)

        monkeypatch.setattr(builtins, "input", never)
        before = asked.run("%dpbudget").result.spent
        asked.run("%config Dpnb.ask_above = 0")
        assert asked.run(f"%%dpinfer\n{ALL}").error is None
        assert asked.run("%dpbudget").result.spent == before

    @pytest.mark.parametrize("line", ["-o known", "known <<", "known << --confidence 0.9"])
    def test_binds_and_shows(self, asked, line):
        ran = asked.run(f"%%dpinfer {line}\n{ALL}")
        assert asked.names["known"] is ran.result

    def test_quiet_binds_only(self, asked):
        ran = asked.run(f"%%dpinfer -q -o known\n{ALL}")
        assert (ran.result, ran.stdout) == (None, "")
        assert isinstance(asked.names["known"], Inference)

    def test_line_form(self, asked):
        assert asked.run(f"known = %dpinfer --error 40 {ALL}").error is None
        assert asked.names["known"].high - asked.names["known"].low == pytest.approx(80)

    def test_parameters_come_from_the_namespace(self, asked):
        asked.names["who"] = "Male"
        ran = asked.run("%%dpinfer\nSELECT COUNT(*) AS n FROM adult WHERE sex = :who")
        assert 21_000 < ran.result.estimate < 22_500

    def test_a_widget_when_asked_for(self, asked):
        ran = asked.run(f"%%dpinfer --widget\n{ALL}")
        assert ran.error is None
        assert ran.result is None
        assert len(ran.shown) == 2
        assert "application/vnd.jupyter.widget-view+json" in ran.shown[1].data
        assert asked.run(f"%%dpinfer --static\n{ALL}").result is not None

    def test_of_a_session_by_name(self, asked):
        asked.run("%dpopen adult --as other --rho 0.5")
        ran = asked.run(f"%%dpinfer --on adult\n{ALL}")
        assert ran.error is None
        assert isinstance(asked.run(f"%%dpinfer\n{ALL}").error, DpnbError)


class TestOptions:
    @pytest.fixture
    def given(self, asked, monkeypatch):
        """What the session was asked, by the options of a line."""
        real, seen = dpnb.Session.infer, []

        def infer(session, sql, **options):
            options.pop("params")
            seen.append(options)
            return real(session, sql, confidence=0.9)

        monkeypatch.setattr(dpnb.Session, "infer", infer)

        def run(line):
            assert asked.run(f"%%dpinfer {line}\n{ALL}").error is None
            return seen[-1]

        return run

    PLAIN = {option.name: option.default for option in OPTIONS}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("line", "options"),
        [
            ("", {}),
            ("--confidence 0.9", {"confidence": 0.9}),
            ("--error 20", {"error": 20.0}),
            ("--error 20 --confidence 0.8", {"error": 20.0, "confidence": 0.8}),
            ("--between 10 20.5", {"between": [10.0, 20.5]}),
            ("--between -5 -1000", {"between": [-5.0, -1000.0]}),
            ("--each", {"intervals": "each"}),
            ("--guaranteed", {"guaranteed": True}),
            ("--method mc", {"method": "mc"}),
            ("--nonnegative", {"prior": "nonnegative"}),
            ("--chosen 20", {"chosen": 20}),
            ("--chosen any", {"chosen": "any"}),
        ],
    )
    def test_are_those_of_the_session(self, given, line, options):
        assert given(line) == {**self.PLAIN, **options}

    @pytest.mark.parametrize(
        ("cell", "words"),
        [
            (f"%%dpinfer --rho 1\n{ALL}", "unrecognized arguments"),
            (f"%%dpinfer --error wide\n{ALL}", "error must be a number, got 'wide'"),
            (f"%%dpinfer --between 1\n{ALL}", "expected 2 arguments"),
            (f"%%dpinfer --between 1 much\n{ALL}", "between must be a number, got 'much'"),
            (
                f"%%dpinfer --chosen 1.5\n{ALL}",
                "chosen must be a whole number from 1 to 1,000,000, or 'any', got 1.5",
            ),
            (f"%%dpinfer --confidence 2\n{ALL}", "confidence"),
            (f"%%dpinfer --method magic\n{ALL}", "method"),
            (f"%%dpinfer --on nobody\n{ALL}", "no session 'nobody'"),
            ("%%dpinfer\nSELECT sx FROM adult", "unknown column 'sx'"),
            ("%%dpinfer\nSELECT AVG(hours_per_week) AS m FROM adult", "past answers"),
        ],
    )
    def test_mistakes_fail_with_one_line(self, asked, cell, words):
        ran = asked.run(cell)
        assert isinstance(ran.error, DpnbError)
        assert words in str(ran.error)
        assert "Traceback" not in ran.stdout + ran.stderr

    def test_are_offered_while_typing(self, asked):
        asked.ip.Completer.use_jedi = False
        with provisionalcompleter():
            found = {
                one.text.strip("-") for one in asked.ip.Completer.completions("%%dpinfer --", 12)
            }
        assert {"guaranteed", "between", "chosen"} <= found
        assert not found & {"rho", "dry-run", "yes"}
