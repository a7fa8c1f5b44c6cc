"""The planted defects can be planted, and the tests that should notice them are there."""

from __future__ import annotations

import pytest

from tests.defects import run

pytestmark = pytest.mark.fast

DEFECTS = run.defects()
NAMES = run.test_names(run.ROOT)


def planted(**changes):
    given = {"name": "n", "area": "a", "promise": "p", "find": "f", "replace": "r", "tests": ()}
    return run.Defect(**{**given, **changes})


def test_there_are_many_and_most_are_noticed_by_python_alone():
    assert len(DEFECTS) >= 80
    assert sum(not defect.needs for defect in DEFECTS) >= 65
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)


def test_each_has_its_place_in_the_package_and_its_tests():
    assert list(run.checked(DEFECTS, NAMES)) == []


def test_no_two_break_the_same_promise_in_the_same_place():
    assert len({(defect.find, defect.replace) for defect in DEFECTS}) == len(DEFECTS)
    assert len({defect.promise for defect in DEFECTS}) == len(DEFECTS)


def test_a_text_that_is_gone_or_stands_twice_is_named():
    gone, twice = planted(find="no such text"), planted(find="import", tests=("gone",))
    first, second = run.checked([gone, twice], NAMES)
    assert first == "n: the text to change stands 0 times in dpnb/ (nowhere)"
    assert "times in dpnb/ (dpnb/__init__.py" in second


def test_a_test_that_is_gone_is_named():
    found = planted(find="SecureNoise().laplace([0], 1.0)", tests=("test_gone", "TestNowhere"))
    (message,) = run.checked([found], NAMES)
    assert message == "n: there is no test named test_gone, TestNowhere"


def test_what_does_not_parse_is_no_defect():
    found = planted(find="SecureNoise().laplace([0], 1.0)", replace="SecureNoise(.laplace(")
    (message,) = run.checked([found], NAMES)
    assert message.startswith("n: the changed file does not parse")


def test_unknown_names_are_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["run.py", "no-such-defect"])
    with pytest.raises(SystemExit):
        run.main()
    assert "there is no defect named no-such-defect; see --list" in capsys.readouterr().err
