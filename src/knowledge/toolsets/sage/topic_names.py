"""Resolve an inexact topic name to the paths of existing pages."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from knowledge.errors import NotFound
from knowledge.model import JsonValue

CONTENT_PREFIX = "content/"
MAX_SUGGESTIONS = 5
MIN_SIMILARITY = 0.5

PathWords: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TopicName:
    """A page path split into words for comparison."""

    path: str
    words: PathWords
    """Words of each path segment, without layer and suffix."""

    @property
    def layer(self) -> str:
        return self.path.partition("/")[0]

    @property
    def all_words(self) -> tuple[str, ...]:
        return tuple(word for part in self.words for word in part)


def resolve_topic(wanted: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the one matching page or the pages of a matching folder; NotFound suggests similar names."""
    asked, names = _split_words(wanted), [TopicName(path, _split_path_words(path)) for path in paths]
    if len(asked) > 1 and (inside := [name for name in names if _split_words(name.layer) == asked[:1]]):
        asked, names = asked[1:], inside
    if asked and not _has_parent_segment(wanted):
        for matches in _make_matchers(asked):
            found = tuple(name.path for name in names if matches(name))
            if len(found) == 1:
                return found
            if found:
                break  # ambiguous: looser matchers would only find more
            if folder := tuple(name.path for name in names if _is_in_folder(name, asked)):
                return folder
    raise _topic_not_found_error(wanted, paths)


def _make_matchers(asked: PathWords) -> tuple[Callable[[TopicName], bool], ...]:
    """Return matchers from strict to loose: whole path, last segments, words, word prefixes."""
    flat = [word for part in asked for word in part]
    return (
        lambda name: name.words == asked,
        lambda name: name.words[-len(asked) :] == asked,
        lambda name: all(word in name.words[-1] for word in flat),
        lambda name: all(word in name.all_words for word in flat),
        lambda name: all(any(known.startswith(word) for known in name.all_words) for word in flat),
    )


def suggest_topics(wanted: str, paths: Sequence[str]) -> list[str]:
    """Return existing topics with similar names, most similar first."""
    flat = " ".join(word for part in _split_words(wanted) for word in part)[:200]

    def likeness(path: str) -> float:
        words = [word for part in _split_path_words(path) for word in part]
        whole = difflib.SequenceMatcher(None, flat, " ".join(words)).ratio()
        return max([whole, *(difflib.SequenceMatcher(None, flat, word).ratio() for word in words)])

    ranked = sorted(((likeness(path), path) for path in paths), key=lambda pair: (-pair[0], pair[1]))
    return [format_topic(path) for score, path in ranked[:MAX_SUGGESTIONS] if score >= MIN_SIMILARITY]


def format_topic(path: str) -> str:
    """Return a path without its suffix: `frameworks/resilience/timeout_patterns`."""
    return path.rpartition(".")[0]


def _topic_not_found_error(wanted: str, paths: Sequence[str]) -> NotFound:
    close: list[JsonValue] = [*suggest_topics(wanted, paths)]
    known: list[JsonValue] = [format_topic(path) for path in paths]
    hint = f"Did you mean {' or '.join(map(str, close))}?" if close else "Call sage_info for a list of all topics."
    return NotFound(f"Topic '{wanted[:100]}' not found", hint=hint, topic=wanted[:100], near=close or known[:20])


def _has_parent_segment(wanted: str) -> bool:
    return any(part.strip() == ".." for part in re.split(r"[/\\]", unicodedata.normalize("NFKC", wanted)))


def _is_in_folder(name: TopicName, asked: PathWords) -> bool:
    return len(name.words) > len(asked) and name.words[: len(asked)] == asked


def _split_path_words(path: str) -> PathWords:
    return _split_words(path.partition("/")[2])


def _split_words(text: str) -> PathWords:
    plain = unicodedata.normalize("NFKC", text).casefold().strip().removeprefix(CONTENT_PREFIX)
    plain = re.sub(r"\.(md|markdown)$", "", plain)
    parts = (tuple(word for word in re.split(r"[\W_]+", part) if word) for part in re.split(r"[/\\]", plain))
    return tuple(part for part in parts if part)
