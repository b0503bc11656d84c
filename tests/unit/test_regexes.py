"""Every regular expression of the package needs time in proportion to the text, whatever the text is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.unit.regex_growth import Growth, Probe
from tests.unit.regex_patterns import Collected, Pattern, collect_patterns, find_other_imports

CHILDREN = 2
CPU_SECONDS = 60
"""For each child: far more than it needs, so that an endless one ends."""

EXAMPLES: dict[tuple[str, str], dict[str, object]] = {
    ("knowledge/engine/crawl/html_scan.py", "f'</{name}'"): {"name": "script"},  # a tag's name, from a fixed list
    ("knowledge/extract/pdf/repairs/words.py", r"f'(?<!\\w){guess}(?!\\w)'"): {
        "guess": r"a\w{0,3}a\w{0,3}a\w{0,3}a\w{0,3}a"
    },
    (
        "knowledge/extract/pdf/repairs/titles.py",
        r"f'(?i)[\\s\\d.:§)(-]*{re.escape(normalise_title(title))}[.:]?\\s+(?-i:(?=[^\\W\\d_a-zß-ÿ]))'",
    ): {"title": "Annual Results"},  # a title, escaped
}
"""Patterns that are put together while the code runs, each with an example of what goes into it."""

BOUNDS: dict[str, tuple[int, str]] = {
    r"knowledge/extract/pdf/repairs/words.py \w{2,}$": (60, "searched in the 60 characters before a torn word"),
    r"knowledge/split/blocks.py !?\[([^\]]*)\]\([^)]*\)|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|\{#[^}]*\}": (
        300,
        "only headings are freed from markup, and a line of more than 300 characters is none",
    ),
}
"""Patterns (as `file pattern`) that only ever see texts of a bounded length, with the bound and the reason."""


def run(probes: Sequence[Probe]) -> list[Growth | None]:
    """The verdict for each probe, from a few child processes with a limit of CPU time."""
    program = Path(__file__).with_name("regex_growth.py")
    shares = [probes[start::CHILDREN] for start in range(CHILDREN)]
    children = [
        subprocess.Popen(
            [sys.executable, "-I", str(program), str(CPU_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in shares
    ]
    verdicts: list[list[Growth | None]] = []
    for child, share in zip(children, shares, strict=True):
        said, _ = child.communicate("".join(json.dumps(asdict(probe)) + "\n" for probe in share))
        lines = said.splitlines()
        assert child.returncode == 0, f"{share[len(lines)]} took more than {CPU_SECONDS} s of CPU time"
        verdicts.append([None if line == "null" else Growth.load(json.loads(line)) for line in lines])
    return [verdict for row in zip_longest(*verdicts) for verdict in row][: len(probes)]


def probes_of(pattern: Pattern) -> list[Probe]:
    bound = BOUNDS.get(f"{pattern.file} {pattern.text}")
    is_bytes = isinstance(pattern.pattern, bytes)
    return [
        Probe(str(pattern), pattern.text, pattern.flags, is_bytes, method, bound and bound[0])
        for method in sorted(pattern.methods)
    ]


@pytest.fixture(scope="module")
def collected() -> Collected:
    return collect_patterns(EXAMPLES)


def test_no_pattern_of_the_package_needs_more_than_linear_time(collected: Collected) -> None:
    assert len(collected.patterns) > 150
    assert not collected.unresolved, "Add an example to EXAMPLES: the pattern depends on values of a function"
    probes = [probe for pattern in collected.patterns for probe in probes_of(pattern)]
    slow = [
        f"{probe.place}\n  {probe.method}: {growth}"
        for probe, growth in zip(probes, run(probes), strict=True)
        if growth is not None
    ]
    assert not slow, "\n".join(["Slower than linear:", *slow])


def test_every_bound_and_example_belongs_to_a_pattern_that_is_there(collected: Collected) -> None:
    there = {f"{pattern.file} {pattern.text}" for pattern in collected.patterns}
    assert not BOUNDS.keys() - there
    assert collected.exemplified == EXAMPLES.keys()


def test_patterns_are_made_in_the_way_that_this_test_can_see() -> None:
    assert find_other_imports() == []


SLOW = {
    "exponential, nested repeats": (r"(?:a+)+$", "match"),
    "exponential, repeats in an alternation": (r"(?:\w|\d\d?)*!", "fullmatch"),
    "exponential, the comments of a page": (r"(?is)\s*(?:<!--.*?-->\s*)*<html\b", "match"),
    "quadratic, neighbours that accept the same": (r"[ \t]*\|?[ \t]*:?-+", "fullmatch"),
    "quadratic, neighbours behind a word": (r"name:\s*(.*?)\s*;", "match"),
    "quadratic, neighbours inside a repeat": (r"(?:<b>[^<]*[^>]*</b>)+$", "match"),
    "quadratic, a search that begins at each blank": (r"\s+$", "finditer"),
    "quadratic, a search that begins at each bracket": (r"\[[^\]]*\]\(", "finditer"),
    "quadratic, lazy from each opening": (r"<!--.*?-->", "search"),
    "quadratic, behind an alternation": (r"(?:end|stop)\s*\d*\s*\d*;", "search"),
    "cubic": (r"\s*,?\s*,?\s*;", "match"),
    "quadratic, inside a lookahead": (r"x(?=[a-z]*\d*[a-z]*!)", "match"),
}
FAST = {
    "possessive": (r"[ \t]*+\|?+[ \t]*+:?-+", "fullmatch"),
    "an atomic group": (r"(?s)(?><!--.*?-->\s*)*<html\b", "match"),
    "one class": (r"\w+", "finditer"),
    "tied to the start": (r"\s+$", "match"),
    "classes that share nothing": (r"\s*\w+\s*=\s*\d+;", "match"),
    "bounded": (r"<[^>]{0,200}charset=", "search"),
    "a repeat that begins after another character": (r"(?<!\s)\s++$", "finditer"),
    "many literals": (r"(?i)cookie|consent|gdpr", "search"),
}


@pytest.fixture(scope="module")
def known() -> dict[str, Growth | None]:
    """The verdicts on patterns of which we know the answer."""
    cases = {**SLOW, **FAST}
    probes = [Probe(name, pattern, 0, False, method) for name, (pattern, method) in cases.items()]
    return dict(zip(cases, run(probes), strict=True))


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_pattern_is_found(known: dict[str, Growth | None], name: str) -> None:
    assert known[name] is not None


@pytest.mark.parametrize("name", FAST)
def test_a_linear_pattern_is_not_accused(known: dict[str, Growth | None], name: str) -> None:
    assert known[name] is None, str(known[name])
