"""Every public name tells what it is, and what it says of its parameters is so."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator

import pytest

import dpnb
from dpnb.answers.listing import Price
from dpnb.decide.price import DecisionPrice
from dpnb.explain.price import ExplanationPrice

pytestmark = pytest.mark.fast

SECTION = re.compile(r"(?m)^(\w+)\n-+\n")
CLASSES = [
    *(one for name in dpnb.__all__ if inspect.isclass(one := getattr(dpnb, name))),
    Price,
    DecisionPrice,
    ExplanationPrice,
]


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


FUNCTIONS = [
    (f"{cls.__name__}.{name}", held)
    for cls in CLASSES
    for name, held in members(cls)
    if inspect.isfunction(held)
] + [
    (name, getattr(dpnb, name)) for name in dpnb.__all__ if inspect.isfunction(getattr(dpnb, name))
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


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_parameters_are_those_of_the_signature(name, function):
    found = sections(inspect.getdoc(function) or "")
    real = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
    told = named(found.get("Parameters", ""))
    assert set(told) <= set(real)
    if told:
        assert set(real) == set(told)


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


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_sections_are_known_and_in_their_order(name, function):
    order = ["", "Parameters", "Returns", "Yields", "Raises", "Notes", "Examples"]
    found = list(sections(inspect.getdoc(function) or ""))
    assert found == sorted(found, key=order.index)
