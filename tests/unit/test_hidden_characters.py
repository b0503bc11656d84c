"""Characters that a reader does not see are removed, and those that scripts and emoji need stay."""

from __future__ import annotations

from collections import Counter

import pytest

from knowledge.model import Json
from knowledge.toolsets.hidden_characters import HIDDEN, SUSPECT, strip_answer, strip_hidden

ZWNJ, ZWJ = "\u200c", "\u200d"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("pass\u200bword", "password"),
        ("in\u00advis\u00adible", "invisible"),
        ("\ufeffmark", "mark"),
        ("a\u2060b\u2061c\u2062d\u2063e\u2064f", "abcdef"),
        ("\u202eevil\u202c", "evil"),
        ("\u2066a\u2067b\u2068c\u2069", "abc"),
        ("a\u200eb\u200fc\u061cd", "abcd"),
        ("hello" + "".join(chr(0xE0000 + ord(letter)) for letter in "obey me"), "hello"),
        ("latin" + ZWJ + "letters" + ZWNJ, "latinletters"),
        ("x\ufe01\ufe02\ufe03\U000e0101\U000e0102", "x\ufe01"),
        ("\u180e\u206a\u206f\ufff9\ufffa\ufffb", ""),
    ],
)
def test_hidden_characters_are_removed_and_counted(text: str, shown: str) -> None:
    removed: Counter[str] = Counter()
    assert strip_hidden(text, removed) == shown
    assert removed.total() == len(text) - len(shown)


@pytest.mark.parametrize(
    "text",
    [
        "می" + ZWNJ + "خواهم",  # Persian
        "क्" + ZWJ + "ष",  # Devanagari
        "ക്" + ZWJ,  # Malayalam at the end of a word
        "ශ්" + ZWJ + "රී",  # Sinhala
        "👩" + ZWJ + "💻",
        "👩🏽" + ZWJ + "🚀",
        "❤\ufe0f" + ZWJ + "🔥",
        "🏳\ufe0f" + ZWJ + "🌈",
        "exam\u00ad\nple",
        "葛\U000e0100城",
        "שלום عالم straße 知識",
    ],
)
def test_what_scripts_and_emoji_need_stays(text: str) -> None:
    assert strip_hidden(text) == text


def test_joiners_after_joiners_are_removed() -> None:
    assert strip_hidden("می" + ZWNJ * 5 + "خواهم") == "می" + ZWNJ + "خواهم"


def test_an_answer_without_hidden_characters_is_the_same_object() -> None:
    body: Json = {"results": [{"text": "Grüner Tee 🍵", "tags": ["a"], "score": 0.5, "page": None}], "query": "tea"}
    assert strip_answer(body) is body


def test_removed_characters_are_counted_for_each_row() -> None:
    body: Json = {
        "query": "t\u200bea",
        "results": [
            {
                "text": "\u202ea\u202e",
                "title": "b\u200b",
                "tags": ["c\ufeff"],
                "metadata": {"k\u200b": {"x": "y\u200b"}},
            },
            {"text": "clean"},
        ],
    }
    assert strip_answer(body) == {
        "query": "tea",
        "results": [
            {
                "text": "a", "title": "b", "tags": ["c"], "metadata": {"k": {"x": "y"}},
                "removed_characters": {"U+202E": 2, "U+200B": 3, "U+FEFF": 1},
            },
            {"text": "clean"},
        ],
        "removed_characters": {"U+200B": 1},
    }  # fmt: skip


def test_every_hidden_character_is_found_by_the_first_check() -> None:
    everything = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
    hidden = [character for character in everything if HIDDEN.search(f"\ufe00{character}")]
    assert len(hidden) > 400
    assert all(SUSPECT.fullmatch(character) for character in hidden)
