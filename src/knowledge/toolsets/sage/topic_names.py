"""Loose names: what somebody calls a topic, and the page that is meant. Only names that exist are ever answered."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from knowledge.errors import NotFound
from knowledge.model import JsonValue

ROOT = "content/"
NEAR = 5
CLOSE = 0.5

Parts: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A path cut into what can be compared."""

    path: str
    words: Parts
    """The words of each part of the path, without layer and suffix."""

    @property
    def layer(self) -> str:
        return self.path.partition("/")[0]

    @property
    def all_words(self) -> tuple[str, ...]:
        return tuple(word for part in self.words for word in part)


def resolve(wanted: str, paths: Sequence[str]) -> tuple[str, ...]:
    """The one page that is meant, or the pages of the folder that is; otherwise NotFound, which names near ones."""
    asked, names = _parts(wanted), [Name(path, _words_of(path)) for path in paths]
    if len(asked) > 1 and (inside := [name for name in names if _parts(name.layer) == asked[:1]]):
        asked, names = asked[1:], inside
    if asked and not _climbs(wanted):
        for rung in _ladder(asked):
            found = tuple(name.path for name in names if rung(name))
            if len(found) == 1:
                return found
            if found:
                break  # more than one could be meant, and a looser look would only find more
            if folder := tuple(name.path for name in names if _begins_with(name, asked)):
                return folder
    raise _not_found(wanted, paths)


def _ladder(asked: Parts) -> tuple[Callable[[Name], bool], ...]:
    """From strict to loose: the whole path, its end, its words, the beginnings of its words."""
    flat = [word for part in asked for word in part]
    return (
        lambda name: name.words == asked,
        lambda name: name.words[-len(asked) :] == asked,
        lambda name: all(word in name.words[-1] for word in flat),
        lambda name: all(word in name.all_words for word in flat),
        lambda name: all(any(known.startswith(word) for known in name.all_words) for word in flat),
    )


def near(wanted: str, paths: Sequence[str]) -> list[str]:
    """The names that come closest, for whoever has mistyped one."""
    flat = " ".join(word for part in _parts(wanted) for word in part)[:200]

    def likeness(path: str) -> float:
        words = [word for part in _words_of(path) for word in part]
        whole = difflib.SequenceMatcher(None, flat, " ".join(words)).ratio()
        return max([whole, *(difflib.SequenceMatcher(None, flat, word).ratio() for word in words)])

    ranked = sorted(((likeness(path), path) for path in paths), key=lambda pair: (-pair[0], pair[1]))
    return [topic_of(path) for score, path in ranked[:NEAR] if score >= CLOSE]


def topic_of(path: str) -> str:
    """`frameworks/resilience/timeout_patterns`: a path as it can be asked for."""
    return path.rpartition(".")[0]


def _not_found(wanted: str, paths: Sequence[str]) -> NotFound:
    close: list[JsonValue] = [*near(wanted, paths)]
    known: list[JsonValue] = [topic_of(path) for path in paths]
    hint = f"Did you mean {' or '.join(map(str, close))}?" if close else "sage_info lists the topics that there are."
    return NotFound(f"There is no topic '{wanted[:100]}'", hint=hint, topic=wanted[:100], near=close or known[:20])


def _climbs(wanted: str) -> bool:
    return any(part.strip() == ".." for part in re.split(r"[/\\]", unicodedata.normalize("NFKC", wanted)))


def _begins_with(name: Name, asked: Parts) -> bool:
    return len(name.words) > len(asked) and name.words[: len(asked)] == asked


def _words_of(path: str) -> Parts:
    return _parts(path.partition("/")[2])


def _parts(text: str) -> Parts:
    plain = unicodedata.normalize("NFKC", text).casefold().strip().removeprefix(ROOT)
    plain = re.sub(r"\.(md|markdown)$", "", plain)
    parts = (tuple(word for word in re.split(r"[\W_]+", part) if word) for part in re.split(r"[/\\]", plain))
    return tuple(part for part in parts if part)
