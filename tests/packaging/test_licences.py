"""Everything that an installation brings has a licence that lets anybody use and pass it on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "HPND", "ISC", "MIT", "MIT-0",
    "MIT-CMU", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib",
}  # fmt: skip
USED_UNCHANGED = {
    # for these the licence asks something only of who changes them
    "certifi": "MPL-2.0",
    "fqdn": "MPL-2.0",
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
}
"""What extras bring beside permissive packages."""


@pytest.fixture(scope="module")
def licences():
    from tests.packaging import licences

    return licences


def parts(licence: str) -> set[str]:
    return set(re.split(r" (?:AND|OR) ", licence.replace("(", "").replace(")", "")))


def test_what_is_always_there_is_permissive(licences):
    found = licences.components()
    assert {one.name: one.licence for one in found if not parts(one.licence) <= PERMISSIVE} == {}


@pytest.mark.parametrize("extra", ["hub", "postgres", "server"])
def test_an_extra_is_permissive_or_used_unchanged(licences, extra):
    others = {
        one.name: one.licence
        for one in licences.components([extra])
        if not parts(one.licence) <= PERMISSIVE
    }
    if extra == "postgres" and "psycopg" not in others:
        pytest.fail("psycopg is not looked at")
    assert others.items() <= USED_UNCHANGED.items()


def test_the_list_is_complete(licences):
    found = {one.name: one for one in licences.components()}
    assert {canonicalize_name(Requirement(one).name) for one in PROJECT["dependencies"]} <= set(
        found["dpnb"].needs
    )
    for one in found.values():
        assert set(one.needs) <= set(found)
        assert one.version == distribution(one.name).version
        assert one.licence != licences.UNKNOWN
    # what needs of needs bring is there, and what only extras bring is not
    assert {"traitlets", "pygments", "pillow"} <= set(found)
    assert not {"starlette", "psycopg", "pytest"} & set(found)
    assert "starlette" in {one.name for one in licences.components(["server"])}


def test_one_command_prints_it():
    def shown(*options: str) -> str:
        command = [sys.executable, HERE / "licences.py", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    bill = json.loads(shown("server"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "dpnb"
    listed = {one["bom-ref"] for one in bill["components"]}
    for one in bill["dependencies"]:
        assert set(one["dependsOn"]) <= listed
    numpy = next(one for one in bill["components"] if one["name"] == "numpy")
    assert numpy["purl"] == f"pkg:pypi/numpy@{distribution('numpy').version}"
    assert f"| dpnb | {distribution('dpnb').version} | Apache-2.0 |" in shown("--table")
