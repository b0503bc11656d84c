"""Measures how the CPU time of a regular expression grows with the length of a text made to be slow for it.

The texts come from the pattern's own parse tree: a prefix that leads to a repeat, what the repeat repeats (the pump),
and an end at which the match fails. As a program it reads one JSON probe per line and writes one JSON verdict each.
"""

from __future__ import annotations

import json
import random
import re
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from time import thread_time  # the clock of the process is coarse while a CPU limit is set
from types import FrameType
from typing import Any, TypeAlias

LENGTHS = (2_000, 8_000, 32_000, 128_000)
FLOOR_SECONDS = 0.05
"""What is faster than this at the longest text is never called slow: it may be noise."""
SUSPECT_SECONDS_PER_CHARACTER = 100e-9
"""A text of 8,000 characters that needs less for each one is not looked at further,"""
SUSPECT_RATIO = 6.0
"""nor one that needs less than this many times what 2,000 characters need."""
BOUNDED_SECONDS = 0.01
"""What a text of the greatest length may need where the code bounds it."""
LINEAR_RATIO = 8.0
"""Four times the text may cost up to eight times the time; a quadratic pattern needs sixteen times as much."""
LIMIT_SECONDS = 0.5
MAX_CANDIDATES = 500
MIN_REPEATS = 10
"""What is repeated less often is not slow by itself."""
SAMPLES_PER_REPEAT = 8
FILLERS = "a Z0_-.\t\n\r\0é中(<\"'`#|/:"

Node: TypeAlias = tuple[Any, Any]
REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
CHARACTERS = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN, _constants.ANY)


@dataclass(frozen=True, slots=True)
class Probe:
    """One pattern with the method that the code calls; `longest` where the code bounds the text."""

    place: str
    pattern: str
    flags: int
    is_bytes: bool
    method: str
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """A text for which the time grows faster than its length."""

    prefix: str
    pump: str
    end: str
    seconds: dict[int, float]

    @classmethod
    def load(cls, stored: dict[str, Any]) -> Growth:
        """From JSON, where the lengths are strings."""
        return cls(**{**stored, "seconds": {int(length): time for length, time in stored["seconds"].items()}})

    def __str__(self) -> str:
        times = ", ".join(f"{length:,} characters {time:.3f} s" for length, time in self.seconds.items())
        return f"{self.prefix!r} + {self.pump!r} * n + {self.end!r}: {times}"


class TimeLimitReached(Exception):
    pass


def find_growth(probe: Probe) -> Growth | None:
    """The first candidate text whose time grows faster than linear, or None."""
    content: str | bytes = probe.pattern.encode("latin-1") if probe.is_bytes else probe.pattern
    compiled: re.Pattern[Any] = re.compile(content, probe.flags)
    for prefix, pump, end in list_candidates(probe):
        seconds = _measure(compiled, probe, prefix, pump, end)
        if seconds is not None:
            return Growth(prefix, pump, end, seconds)
    return None


def _measure(compiled: re.Pattern[Any], probe: Probe, prefix: str, pump: str, end: str) -> dict[int, float] | None:
    seconds: dict[int, float] = {}
    before: int | None = None
    for length in LENGTHS if probe.longest is None else (probe.longest,):
        text = prefix + pump * max(1, (length - len(prefix) - len(end)) // len(pump)) + end
        content: str | bytes = text.encode("latin-1") if probe.is_bytes else text
        seconds[length] = _cpu_seconds(compiled, probe.method, content)
        if seconds[length] >= LIMIT_SECONDS or (length == probe.longest and seconds[length] > BOUNDED_SECONDS):
            return seconds
        if before is not None and seconds[length] > FLOOR_SECONDS:
            ratio = _cpu_seconds(compiled, probe.method, content) / max(seconds[before], 1e-6)
            return seconds if ratio > LINEAR_RATIO else None
        if before == LENGTHS[0] and (
            seconds[length] < length * SUSPECT_SECONDS_PER_CHARACTER
            or seconds[length] < seconds[before] * SUSPECT_RATIO
        ):
            return None
        before = length
    return None


def _cpu_seconds(compiled: re.Pattern[Any], method: str, content: str | bytes) -> float:
    start = thread_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
    try:
        if method == "finditer":
            for _ in compiled.finditer(content):
                pass
        else:
            getattr(compiled, method)(content)
    except TimeLimitReached:
        return LIMIT_SECONDS
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return thread_time() - start


# --- texts from the parse tree ---------------------------------------------------------------------------------------


def list_candidates(probe: Probe) -> list[tuple[str, str, str]]:
    """Prefix, pump and end of each text to measure: some of every kind before many of one."""
    content: str | bytes = probe.pattern.encode("latin-1") if probe.is_bytes else probe.pattern
    maker = TextMaker(_parser.parse(content, probe.flags), probe.is_bytes)
    repeats = [(prefix, pump, end) for prefix, pump in maker.repeats() for end in maker.ends(pump, 4)]
    starts = [("", pump, end) for pump in maker.starts() for end in maker.ends(pump, 2)]
    prefixes = list(dict.fromkeys(("", *(prefix for prefix, _, _ in repeats))))
    chosen = dict.fromkeys((*prefixes[:3], *prefixes[-1:]))
    letters = [(prefix, pump, end) for pump in maker.letters for prefix in chosen for end in maker.ends(pump, 3)]
    wanted: dict[tuple[str, str, str], None] = {}
    for row in zip_longest(repeats, starts, letters):
        for given in row:
            if given is not None and given[1]:
                wanted.setdefault((given[0], _shortest_period(given[1]), given[2]))
    return list(wanted)[:MAX_CANDIDATES]


def _shortest_period(text: str) -> str:
    """The shortest text that gives this one when it is repeated."""
    return text[: (text + text).find(text, 1)]


class TextMaker:
    """Examples of the parts of one pattern."""

    def __init__(self, tree: Any, is_bytes: bool) -> None:
        self.tree = tree
        self._groups: dict[int, Any] = {}
        self._atoms: list[re.Pattern[Any]] = []
        self._of_atom: dict[int, list[str]] = {}
        self._random = random.Random(7)
        self._is_bytes = is_bytes
        found: list[Node] = []
        self._collect(tree, found)
        self.letters = self._letters(found)

    def _collect(self, tree: Any, found: list[Node]) -> None:
        for node in tree:
            if node[0] in CHARACTERS:
                found.append(node)
            elif node[0] is _constants.SUBPATTERN and node[1][0] is not None:
                self._groups[node[1][0]] = node[1][3]
            for inner in _children(node):
                self._collect(inner, found)

    def _letters(self, nodes: list[Node]) -> list[str]:
        """One character for each set of parts of the pattern that accept the same characters."""
        wanted = dict.fromkeys(FILLERS)
        for code, value in nodes:
            for point in _code_points(code, value):
                for near in (point, point + 1, point - 1):
                    if 0 <= near < (256 if self._is_bytes else 0xD800):
                        wanted.setdefault(chr(near))
        usable = [letter for letter in wanted if not self._is_bytes or ord(letter) < 256]
        seen: dict[tuple[bool, ...], str] = {}
        matchers = [self._matcher(node) for node in nodes]
        signatures = {letter: tuple(bool(each.match(self._encoded(letter))) for each in matchers) for letter in usable}
        for letter, signature in signatures.items():
            seen.setdefault(signature, letter)
        letters = list(seen.values())
        for at, node in enumerate(nodes):
            self._of_atom[id(node)] = [letter for letter in letters if signatures[letter][at]] or ["a"]
        self.rarest = sorted(letters, key=lambda letter: sum(signatures[letter]))
        return letters

    def _matcher(self, node: Node) -> re.Pattern[Any]:
        compiled: re.Pattern[Any] = _compiler.compile(_parser.SubPattern(self.tree.state, [node]))
        return compiled

    def _encoded(self, text: str) -> str | bytes:
        return text.encode("latin-1") if self._is_bytes else text

    def sample(self, tree: Any, extra: int = 0, branch: int = 0, *, vary: bool = False) -> str:
        """A text that these nodes accept: each repeat as often as it must and `extra` times more."""
        return "".join(self._sample_node(node, extra, branch, vary) for node in tree)

    def _sample_node(self, node: Node, extra: int, branch: int, vary: bool) -> str:
        code, value = node
        if code in CHARACTERS:
            letters = self._of_atom[id(node)]
            return self._random.choice(letters) if vary else letters[0]
        if code in REPEATS:
            low, high, body = value
            times = min(high, max(low, 0) + (self._random.randint(0, 2) if vary else extra))
            return "".join(self.sample(body, extra, branch, vary=vary) for _ in range(min(times, 30)))
        if code is _constants.BRANCH:
            branches = value[1]
            chosen = self._random.randrange(len(branches)) if vary else min(branch, len(branches) - 1)
            return self.sample(branches[chosen], extra, branch, vary=vary)
        if code is _constants.GROUPREF:
            return self.sample(self._groups.get(value, ()), extra, branch)
        if code in (_constants.SUBPATTERN, _constants.ATOMIC_GROUP):
            return self.sample(_children(node)[0], extra, branch, vary=vary)
        return ""

    def repeats(self) -> list[tuple[str, str]]:
        """For each repeat what leads to it, and texts that it accepts again and again."""
        return list(dict.fromkeys(self._repeats(self.tree, ("",))))

    def _repeats(self, tree: Any, reached: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        nodes = list(tree)
        for at, node in enumerate(nodes):
            code, value = node
            if code in REPEATS and value[1] >= MIN_REPEATS:
                follows = self.sample(nodes[at + 1 :])
                one = self.sample(value[2])
                for pump in dict.fromkeys((*self._bodies(value[2]), one + follows, one + follows[:-1])):
                    yield from ((prefix, pump) for prefix in reached)
            for inner in _children(node):
                yield from self._repeats(inner, reached)
            reached = self._reach_after(node, reached)

    def starts(self) -> list[str]:
        """The beginnings of the pattern, up to each of its parts: many places at which a search begins."""
        return [start for start in dict.fromkeys(self._starts(self.tree, ("",))) if start]

    def _starts(self, tree: Any, reached: tuple[str, ...]) -> Iterator[str]:
        for node in tree:
            for inner in _children(node):
                yield from self._starts(inner, reached)
            reached = self._reach_after(node, reached)
            yield from reached

    def _reach_after(self, node: Node, reached: tuple[str, ...]) -> tuple[str, ...]:
        """What leads to the place behind a node: as little as possible, and some more of it."""
        least, more = self._sample_node(node, 0, 0, False), self._sample_node(node, 1, 0, False)
        return tuple(dict.fromkeys((*(prefix + least for prefix in reached[:2]), reached[0] + more)))

    def _bodies(self, body: Any) -> Iterator[str]:
        branches = max((len(value[1]) for code, value in _iterate_nodes(body) if code is _constants.BRANCH), default=1)
        for branch in range(min(branches, 6)):
            yield self.sample(body, 0, branch)
            yield self.sample(body, 1, branch)
        for _ in range(SAMPLES_PER_REPEAT):
            yield self.sample(body, vary=True)

    def ends(self, pump: str, count: int) -> list[str]:
        """Nothing, and characters at which a match that followed the pump may fail: few parts accept them."""
        others = [letter for letter in self.rarest if letter not in pump]
        newline = ["\n"] if "\n" in others else []
        return ["", *dict.fromkeys((*others[:1], *newline, *others[1:2], *others[-1:]))][:count]


def _children(node: Node) -> Sequence[Any]:
    code, value = node
    if code in REPEATS:
        return [value[2]]
    if code is _constants.SUBPATTERN:
        return [value[3]]
    if code is _constants.ATOMIC_GROUP:
        return [value]
    if code is _constants.BRANCH:
        return list(value[1])
    if code in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [value[1]]
    if code is _constants.GROUPREF_EXISTS:
        return [part for part in value[1:] if part is not None]
    return []


def _iterate_nodes(tree: Any) -> Iterator[Node]:
    for node in tree:
        yield node
        for inner in _children(node):
            yield from _iterate_nodes(inner)


def _code_points(code: Any, value: Any) -> list[int]:
    if code in (_constants.LITERAL, _constants.NOT_LITERAL):
        return [value]
    if code is _constants.IN:
        return [point for inner, given in value for point in _code_points(inner, given)]
    return list(value) if code is _constants.RANGE else []


# --- the program -----------------------------------------------------------------------------------------------------


def main(cpu_seconds: int) -> None:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeLimitReached

    signal.signal(signal.SIGVTALRM, stop)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    for line in sys.stdin:
        growth = find_growth(Probe(**json.loads(line)))
        print(json.dumps(None if growth is None else asdict(growth)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
