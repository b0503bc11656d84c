"""No package of the default installation has a copyleft licence that affects its users."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

PERMISSIVE = re.compile(r"(?i)\b(mit|bsd|apache|isc|psf|python software foundation|hpnd|zlib|unlicense|0bsd|cc0)\b")
COPYLEFT = re.compile(r"(?i)\b(a?gpl|lgpl|general public|mpl|mozilla|eupl|cddl|sspl|cc-by-nc|proprietary)")
MIT_SENTENCE = "Permission is hereby granted, free of charge"
FILE_LEVEL_COPYLEFT = {"certifi", "pathspec", "tqdm"}
"""MPL 2.0: changes of these packages have to be shared, and use of them has no conditions."""


def find_distributions(name: str, seen: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return a package and its dependencies on this platform, without extras."""
    try:
        found = distribution(name)
    except PackageNotFoundError:  # for another platform
        return seen
    seen[re.sub(r"[-_.]+", "-", name).lower()] = found
    for line in found.requires or []:
        needed = Requirement(line)
        key = re.sub(r"[-_.]+", "-", needed.name).lower()
        if key not in seen and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            find_distributions(needed.name, seen)
    return seen


def read_licence(package: Distribution) -> str:
    metadata = package.metadata
    named = [
        *(metadata.get_all("License-Expression") or []),
        *(text[:200] for text in metadata.get_all("License") or []),
    ]
    classified = (line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::"))
    if text := " ".join([*named, *classified]):
        return text
    files = [file for file in package.files or [] if re.search(r"(?i)licen[cs]e", file.name)]
    return "MIT" if any(MIT_SENTENCE in file.read_text() for file in files) else ""


def test_every_package_of_the_default_installation_has_a_permissive_licence() -> None:
    packages = find_distributions("knowledge-server", {})
    assert len(packages) > 50
    found = {name: read_licence(package) for name, package in packages.items() if name not in FILE_LEVEL_COPYLEFT}
    assert {name: text for name, text in found.items() if COPYLEFT.search(text) or not PERMISSIVE.search(text)} == {}


def test_the_exceptions_are_still_needed() -> None:
    packages = find_distributions("knowledge-server", {})
    assert {
        name
        for name in FILE_LEVEL_COPYLEFT
        if name not in packages or not COPYLEFT.search(read_licence(packages[name]))
    } == set()
