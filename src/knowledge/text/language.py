"""Language detection for documents."""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from knowledge.text.analyzer import DEFAULT_LANGUAGE
from knowledge.text.stop_words import STOP_WORDS

if TYPE_CHECKING:
    import gcld3

_WORD = re.compile(r"[^\W\d_]+")
_MIN_PROBABILITY = 0.95
_MIN_LATIN_LETTERS, _MIN_TURKISH_LETTERS, _MIN_LETTERS = 60, 24, 12
"""Minimum letters for a detection; Latin letters are shared by many languages and need more."""
_TURKISH_LETTERS = frozenset("ığşİĞŞ")
"""Latin letters that hardly any other language has; English stems would not join the forms of a short Turkish note."""
_LANGUAGE_ALIASES = {"iw": "he", "fil": "tl", "nb": "no", "nn": "no"}
_DETECTOR_LOCK = threading.Lock()


def detect_language(text: str) -> str | None:
    """Return the language of a text (ISO 639-1), or None if it is short, mixed or code."""
    sample = text[:4000]
    letters = "".join(filter(str.isalpha, sample))
    latin = len(letters) if letters.isascii() else sum(letter < "\u0370" for letter in letters)
    is_latin = 2 * latin >= len(letters)
    if is_latin and len(letters) < _MIN_LATIN_LETTERS:
        return _detect_short_turkish(sample, len(letters))
    readable = len(letters) + sum(map(str.isspace, sample))
    if len(letters) < _MIN_LETTERS or readable < 0.85 * len(sample):
        return None
    middle = len(sample) // 2
    whole, *halves = (_detect_if_sure(part) for part in (sample, sample[:middle], sample[middle:]))
    if whole is None or any(half not in (whole, None) for half in halves):
        return None
    return whole if whole == DEFAULT_LANGUAGE or not _reads_like_english(sample, whole) else None


def _detect_short_turkish(text: str, letters: int) -> str | None:
    """Return Turkish for a sentence in it, which its letters show; other short texts in Latin letters are unknown."""
    if letters < _MIN_TURKISH_LETTERS or _TURKISH_LETTERS.isdisjoint(text) or _detect_if_sure(text) != "tr":
        return None
    return None if _reads_like_english(text, "tr") else "tr"


def _reads_like_english(sample: str, detected: str) -> bool:
    """Return whether English stop words prevail, because code with English comments is detected as other languages."""
    words = [word.casefold() for word in _WORD.findall(sample)]
    english = sum(word in STOP_WORDS[DEFAULT_LANGUAGE] for word in words)
    own = sum(word in STOP_WORDS.get(detected, frozenset()) for word in words)
    return english >= max(own, 1)


def _detect_if_sure(text: str) -> str | None:
    with _DETECTOR_LOCK:
        found = _load_detector().FindLanguage(text=text)
    code = _LANGUAGE_ALIASES.get(found.language, found.language)
    return code if found.probability >= _MIN_PROBABILITY and len(code) == 2 else None


@lru_cache(maxsize=1)
def _load_detector() -> gcld3.NNetLanguageIdentifier:
    import gcld3  # imported here because only ingestion needs it

    return gcld3.NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=16000)
