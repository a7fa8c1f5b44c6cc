"""Every public name says what it is, takes, returns and raises, and what it says of that is so."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpnb
from dpnb import datasets
from dpnb.answers import inferred
from dpnb.answers.bootstrap import Bootstrap
from dpnb.answers.price import Price
from dpnb.decide.price import DecisionPrice
from dpnb.discover.discovery import DiscoveryPrice
from dpnb.estimation.joint import Quantity
from dpnb.explain.price import ExplanationPrice
from dpnb.results import BudgetStatus, InfoTable
from dpnb.risk.choice import Choice, RiskHistogram
from dpnb.risk.exact import Exact, Indicators
from dpnb.risk.safe_counts import SafeCounts

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"(?m)^(\w+)\n-+\n")
CLASSES = [
    *(one for name in dpnb.__all__ if inspect.isclass(one := getattr(dpnb, name))),
    Bootstrap, BudgetStatus, Choice, DecisionPrice, DiscoveryPrice, Exact, ExplanationPrice,
    Indicators, InfoTable, Price, Quantity, RiskHistogram, SafeCounts, inferred.Test,
]  # fmt: skip
"""The public classes, and those that their methods return."""


def sections(docstring: str) -> dict[str, str]:
    """Return the sections of a NumPy docstring; what stands above them is under ''."""
    parts = SECTION.split(docstring)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def named(section: str) -> list[str]:
    """Return the parameters that a section names."""
    names = re.findall(r"(?m)^(\S[^:\n]*?)(?: : .*)?$", section)
    return [name.strip(" *") for line in names for name in line.split(",")]


def members(cls: type) -> Iterator[tuple[str, object]]:
    """Return the public methods and properties that a class defines, or inherits from one of ours."""
    for name, held in inspect.getmembers_static(cls):
        owner = next((c for c in cls.__mro__ if name in vars(c)), object)
        if name.startswith("_") or not owner.__module__.startswith("dpnb"):
            continue
        if isinstance(held, (staticmethod, classmethod)):
            held = held.__func__
        if inspect.isfunction(held) or isinstance(held, property):
            yield name, held


ORDER = ["", "Parameters", "Returns", "Yields", "Raises", "Notes", "Examples"]
"""Of the sections of a docstring."""
FUNCTIONS = [
    *(
        (f"{cls.__name__}.{name}", held)
        for cls in CLASSES
        for name, held in members(cls)
        if inspect.isfunction(held)
    ),
    *((name, one) for name in dpnb.__all__ if inspect.isfunction(one := getattr(dpnb, name))),
    *((one.__name__, one) for one in (datasets.adult, datasets.census, datasets.flights)),
]


def test_every_public_name_says_what_it_is():
    silent = [name for name in dpnb.__all__ if not inspect.getdoc(getattr(dpnb, name))]
    # dataclasses that say nothing get their signature for a docstring
    silent += [
        cls.__name__ for cls in CLASSES if (cls.__doc__ or "").startswith(f"{cls.__name__}(")
    ]
    assert silent == []


def test_every_public_method_and_property_says_what_it_is():
    silent = [
        f"{cls.__name__}.{name}"
        for cls in CLASSES
        for name, held in members(cls)
        if not inspect.getdoc(held)
    ]
    assert silent == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_parameters_of_a_class_are_those_it_is_made_of(cls):
    found = sections(inspect.getdoc(cls) or "")
    told = named(found.get("Parameters", ""))
    real = [one for one in inspect.signature(cls).parameters if one != "self"]
    attributes = (
        {field.name for field in dataclasses.fields(cls)}
        if (dataclasses.is_dataclass(cls))
        else set()
    )
    attributes |= {name for name, _ in inspect.getmembers_static(cls)}
    assert set(told) <= set(real)
    assert set(named(found.get("Attributes", ""))) <= attributes


def entries(section: str) -> dict[str, tuple[str, str]]:
    """Return type and description of what a section lists."""
    found = re.split(r"(?m)^(?=\S)", section)[1:]
    heads = (entry.partition("\n") for entry in found)
    return {head.partition(" : ")[0]: (head.partition(" : ")[2], rest) for head, _, rest in heads}


def raised(function: object) -> set[str]:
    """Return the names of the errors that a function raises itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    errors = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    called = (one.func for one in errors if isinstance(one, ast.Call))
    return {one.id for one in called if isinstance(one, ast.Name)}


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_a_function_says_what_it_takes_returns_and_raises(name, function):
    found = sections(inspect.getdoc(function))
    assert list(found) == [one for one in ORDER if one in found]
    signature = inspect.signature(function)
    real = set(signature.parameters) - {"self", "cls"}
    assert ("Parameters" in found) == bool(real)
    assert set(named(found.get("Parameters", ""))) == real
    for parameter, (kind, description) in entries(found.get("Parameters", "")).items():
        # keyword arguments of another function are named without a type
        variable = signature.parameters.get(parameter)
        several = variable is not None and variable.kind is inspect.Parameter.VAR_KEYWORD
        assert kind or several, parameter
        assert description.strip(), parameter
    assert ("Returns" in found) == (signature.return_annotation != "None")
    for kind, (_, description) in entries(found.get("Returns", "")).items():
        assert description.strip(), kind
    named_errors = set(re.findall(r"\b\w+Error\b", found.get("Raises", "")))
    assert raised(function) <= named_errors


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_class_describes_its_arguments_or_attributes_and_has_an_example(cls):
    found = sections(inspect.getdoc(cls))
    assert {"Parameters", "Attributes"} & set(found)
    assert ">>>" in found["Examples"]
    for kind, (_, description) in entries(found.get("Raises", "")).items():
        assert description.strip(), kind


def test_every_method_of_sessions_and_curators_has_an_example():
    silent = [
        name
        for name, function in FUNCTIONS
        if name.startswith(("Session.", "Curator."))
        and ">>>" not in sections(inspect.getdoc(function)).get("Examples", "")
    ]
    assert silent == []


SUMMARIES = [
    *((cls.__name__, cls) for cls in CLASSES),
    *((f"{cls.__name__}.{name}", held) for cls in CLASSES for name, held in members(cls)),
    *((name, function) for name, function in FUNCTIONS if "." not in name),
]


def test_a_summary_is_one_sentence():
    """A second one of a word or two may say what it costs."""
    long = {}
    for name, held in SUMMARIES:
        summary = sections(inspect.getdoc(held))[""].split("\n\n")[0]
        _, *more = re.split(r"(?<=[.!?]) (?=[A-Z])", summary.replace("\n", " "))
        if not summary.endswith((".", ":")) or [one for one in more if len(one.split()) > 6]:
            long[name] = summary
    assert long == {}


FORMULAS = (
    "Answer.bootstrap", "Answer.compare", "Budget.within", "Curator.coalition", "Curator.limit",
    "Curator.protect", "Curator.risk", "Inference.argmax", "Inference.between",
    "Inference.probability", "Inference.ratio", "Inference.test", "Policy.shares",
    "Policy.view_shares", "PrivacyLoss.epsilon_at", "PrivacyLoss.of", "Question",
    "RiskProfile.choose", "RiskProfile.guesses", "RiskProfile.ratio_at", "RiskProfile.rdr",
    "RiskProfile.safe_counts", "RiskProfile.signed_losses", "RiskProfile.suggest",
    "Session.decide", "Session.discover", "Session.explain", "Session.infer", "Session.query",
    "Strategy",
)  # fmt: skip
"""What is worked out by a formula."""


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_has_a_source(name):
    text = inspect.getdoc(dict(SUMMARIES)[name])
    pages = re.findall(r"docs/methods/\w+\.md", text)
    assert pages
    assert all((ROOT / page).is_file() for page in pages)
