"""A light stemmer for Hebrew, for which Snowball has none."""

from __future__ import annotations

import re

MIN_STEM_LETTERS = 3
"""Most roots have three letters, so shorter stems would join unrelated words."""
_POINTS = re.compile("[\u0591-\u05c7]+")
_DOUBLED = re.compile("(וו|יי)")
_FINAL_LETTERS = str.maketrans("ךםןףץ", "כמנפצ")
_SUFFIXES = ("ימ", "ות", "ה", "ת", "י", "ו")
"""Plural and feminine endings, longest first; final letters are written as the others."""
_PREFIXES = frozenset("והבכלמש")
"""And, the, in, as, to, from, that: written together with the word, also several of them."""


def stem_hebrew(word: str) -> str:
    """Return the word without vowel points, its ending, and the prepositions and articles before it."""
    word = _POINTS.sub("", word).translate(_FINAL_LETTERS)
    word = _DOUBLED.sub(lambda pair: pair[0][0], word)
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= MIN_STEM_LETTERS:
            word = word.removesuffix(suffix)
            break
    start = 0
    while len(word) - start > MIN_STEM_LETTERS and word[start] in _PREFIXES:
        start += 1
    return word[start:]
