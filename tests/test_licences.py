"""Nothing that the default installation brings along has a licence that binds those who use it."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

PERMISSIVE = re.compile(r"(?i)\b(mit|bsd|apache|isc|psf|python software foundation|hpnd|zlib|unlicense|0bsd|cc0)\b")
BINDING = re.compile(r"(?i)\b(a?gpl|lgpl|general public|mpl|mozilla|eupl|cddl|sspl|cc-by-nc|proprietary)")
MIT = "Permission is hereby granted, free of charge"
FILE_BY_FILE = {"certifi", "pathspec", "tqdm"}
"""MPL 2.0 asks of those who change these packages that they share the files, and nothing of those who use them."""


def installed(name: str, seen: dict[str, Distribution]) -> dict[str, Distribution]:
    """A package and all that it requires here, without extras."""
    try:
        found = distribution(name)
    except PackageNotFoundError:  # one for another platform
        return seen
    seen[re.sub(r"[-_.]+", "-", name).lower()] = found
    for line in found.requires or []:
        needed = Requirement(line)
        key = re.sub(r"[-_.]+", "-", needed.name).lower()
        if key not in seen and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            installed(needed.name, seen)
    return seen


def licence(package: Distribution) -> str:
    about = package.metadata
    named = [*(about.get_all("License-Expression") or []), *(text[:200] for text in about.get_all("License") or [])]
    classified = (line for line in about.get_all("Classifier") or [] if line.startswith("License ::"))
    said = " ".join([*named, *classified])
    if said:
        return said
    files = [file for file in package.files or [] if re.search(r"(?i)licen[cs]e", file.name)]
    return "MIT" if any(MIT in file.read_text() for file in files) else ""


def test_every_package_of_the_default_installation_has_a_permissive_licence() -> None:
    packages = installed("knowledge-server", {})
    assert len(packages) > 50
    found = {name: licence(package) for name, package in packages.items() if name not in FILE_BY_FILE}
    assert {name: said for name, said in found.items() if BINDING.search(said) or not PERMISSIVE.search(said)} == {}


def test_the_exceptions_are_still_needed() -> None:
    packages = installed("knowledge-server", {})
    assert {
        name for name in FILE_BY_FILE if name not in packages or not BINDING.search(licence(packages[name]))
    } == set()
