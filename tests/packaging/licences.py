"""Print what an installed dpnb rests on, with versions and licences, as a CycloneDX bill of materials.

    python -m tests.packaging.licences                   what is always there
    python -m tests.packaging.licences server postgres   with these extras
    python -m tests.packaging.licences --table           for people

It reads the metadata of the packages that are installed beside it.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_SPELLED = {
    # licences as their packages spell them, and the names of SPDX
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "bsd": "BSD-3-Clause",
    "gnu lesser general public license v3 (lgplv3)": "LGPL-3.0-only",
    "historical permission notice and disclaimer (hpnd)": "HPND",
    "isc license (iscl)": "ISC",
    "isc license": "ISC",
    "mit license": "MIT",
    "mit-cmu": "MIT-CMU",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "psf": "PSF-2.0",
    "psfl": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Component:
    """One installed package; ``needs`` are the names of those that it asks for."""

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def licence(found: Distribution) -> str:
    """Return the SPDX expression of a package: its own, or that of its classifier or its words."""
    metadata = found.metadata
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    stated = (metadata["License"] or "").strip()
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in metadata.get_all("Classifier") or []
        if text.startswith("License :: ") and text != "License :: OSI Approved"
    ]
    for text in (stated, *classifiers):
        if text not in ("", "UNKNOWN") and "\n" not in text and len(text) < 60:
            return _SPELLED.get(text.casefold(), text)
    # some put the whole text there
    title = re.search(r"(MIT|Apache|BSD|Python Software Foundation|matplotlib)", stated)
    named = {"MIT": "MIT", "Apache": "Apache-2.0", "BSD": "BSD-3-Clause"}
    return named.get(title[1], "PSF-2.0") if title else UNKNOWN


def asked(found: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """Return what a package with these extras asks for on this machine."""
    for text in found.requires or ():
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield one


def components(extras: Iterable[str] = (), root: str = "dpnb") -> list[Component]:
    """Return the packages that an installation with these extras consists of, dpnb first.

    Raises
    ------
    PackageNotFoundError
        When one of them is not installed here.
    """
    waiting = [(canonicalize_name(root), frozenset(extras))]
    known: dict[str, set[str]] = {}
    needs: dict[str, set[str]] = {}
    while waiting:
        name, wanted = waiting.pop(0)
        if name in known and wanted <= known[name]:
            continue
        known.setdefault(name, set()).update(wanted)
        for one in asked(distribution(name), wanted):
            other = canonicalize_name(one.name)
            if other != name:
                needs.setdefault(name, set()).add(other)
            waiting.append((other, frozenset(one.extras)))
    made = []
    for name in known:
        found = distribution(name)
        made.append(
            Component(name, found.version, licence(found), tuple(sorted(needs.get(name, ()))))
        )
    return [made[0], *sorted(made[1:], key=lambda one: one.name)]


def bill(found: list[Component]) -> dict[str, object]:
    """Return a bill of materials: CycloneDX 1.6, without a date, so that equal ones are equal."""

    def entry(one: Component) -> dict[str, object]:
        return {
            "type": "application" if one is found[0] else "library",
            "bom-ref": one.purl,
            "name": one.name,
            "version": one.version,
            "licenses": [_licence_entry(one.licence)],
            "purl": one.purl,
        }

    reference = {one.name: one.purl for one in found}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": entry(found[0])},
        "components": [entry(one) for one in found[1:]],
        "dependencies": [
            {"ref": one.purl, "dependsOn": [reference[name] for name in one.needs]} for one in found
        ],
    }


def _licence_entry(text: str) -> dict[str, object]:
    """Return an SPDX expression as such, and other words as a name."""
    if re.fullmatch(r"[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*", text):
        return {"expression": text}
    return {"license": {"name": text}}


def table(found: list[Component]) -> str:
    """Return a table in Markdown."""
    rows = [f"| {one.name} | {one.version} | {one.licence} |" for one in found]
    return "\n".join(["| package | version | licence |", "| --- | --- | --- |", *rows])


def main() -> None:
    """Print the list that the command line asks for."""
    parser = argparse.ArgumentParser(description="What dpnb rests on, with versions and licences.")
    parser.add_argument("extras", nargs="*", help="extras of dpnb that are installed")
    parser.add_argument("--table", action="store_true", help="a table instead of CycloneDX")
    options = parser.parse_args()
    try:
        found = components(options.extras)
    except PackageNotFoundError as error:
        parser.exit(1, f"{error.name} is not installed: pip install it with the extra.\n")
    print(table(found) if options.table else json.dumps(bill(found), indent=2))


if __name__ == "__main__":
    main()
