"""What the server has acknowledged, and how long it took to answer."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import quantiles

DIGITS_TO_LETTERS = str.maketrans("0123456789", "abcdfghjkl")
SUBJECTS = ("harbour", "orchard", "lighthouse", "bakery", "observatory", "railway", "monastery", "quarry")
THINGS = ("lanterns", "barrels", "letters", "engines", "telescopes", "loaves", "bridges", "ledgers")


def make_word(number: int) -> str:
    """Return a word that no other text contains."""
    return f"zx{number}qv".translate(DIGITS_TO_LETTERS)


def make_question(rng: random.Random) -> str:
    return f"which {rng.choice(SUBJECTS)} keeps the {rng.choice(THINGS)} number {rng.randint(1, 400)}"


def make_text(word: str, rng: random.Random) -> str:
    """Return a document of some paragraphs with a unique word in the first one."""
    paragraphs = [
        f"The {rng.choice(SUBJECTS)} keeps {rng.randint(1, 400)} {rng.choice(THINGS)} beside the "
        f"{rng.choice(SUBJECTS)}, and the {rng.choice(THINGS)} are counted every evening."
        for _ in range(rng.randint(2, 12))
    ]
    return "\n\n".join([f"The register of {word} begins here.", *paragraphs])


@dataclass
class Acknowledged:
    """The word of each stored document, by source path, and the words that were replaced or deleted."""

    stored: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    changing: set[str] = field(default_factory=set)
    """Paths with a change in progress: either version may be found."""
    changes: Counter[str] = field(default_factory=Counter)

    def begin(self, path: str) -> None:
        self.changing.add(path)

    def finish(self, path: str, word: str | None, change: str) -> None:
        """Record an acknowledged change; no word is a deleted document."""
        before = self.stored.pop(path, None)
        if before is not None:
            self.removed.append(before)
        if word is not None:
            self.stored[path] = word
        self.changing.discard(path)
        self.changes[change] += 1

    def choose_word(self, rng: random.Random) -> tuple[str, str] | None:
        """Return the path and the word of a document that is not being changed."""
        resting = sorted(self.stored.keys() - self.changing)
        path = rng.choice(resting) if resting else None
        return None if path is None else (path, self.stored[path])


@dataclass
class Latencies:
    """Seconds from the scheduled time of a search to its answer, by surface."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    interrupted: int = 0
    """Searches during which the server was stopped; they are repeated and not timed."""
    failures: list[str] = field(default_factory=list)

    def count(self) -> int:
        return sum(map(len, self.seconds.values()))

    def describe(self) -> list[str]:
        rows = {**self.seconds, "all": [value for values in self.seconds.values() for value in values]}
        return [f"{name:8} {len(values):7d} searches  {format_percentiles(values)}" for name, values in rows.items()]


def format_percentiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "too few"
    cuts = quantiles(seconds, n=100)
    return f"p50 {cuts[49] * 1000:6.0f} ms  p95 {cuts[94] * 1000:6.0f} ms  max {max(seconds) * 1000:6.0f} ms"
