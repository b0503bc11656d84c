"""Highlights: the words of a passage that matched a question."""

from __future__ import annotations

import random
import time
import unicodedata
from itertools import pairwise

import pytest

from knowledge.engine.search.highlight import find_highlights
from knowledge.index.api import QueryTerms
from knowledge.text import analyzer
from knowledge.text.locations import locate_tokens


def mark(text: str, question: str, language: str | None = None, languages: tuple[str, ...] = ("en",)) -> list[str]:
    """Return the highlighted parts of a text, cut out by UTF-16 offsets as JavaScript does."""
    encoded = text.encode("utf-16-le")
    spans = find_highlights(text, language, analyzer.analyse_question(question, languages))
    assert all(first < last for first, last in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    return [encoded[2 * first : 2 * last].decode("utf-16-le") for first, last in spans]


@pytest.mark.parametrize(
    ("question", "text", "marked"),
    [
        ("boiling kettles", "The kettle boils. Kettles boiled.", ["kettle", "boils", "Kettles", "boiled"]),
        ("header", "see parseHTTPHeader here", ["Header"]),
        ("parseHTTPHeader", "see parseHTTPHeader here", ["parseHTTPHeader"]),
        ("config", "call parse_config(path)", ["config"]),
        ("parse_config", "call parse_config(path)", ["parse_config"]),
        ("next", "the end.Next sentence", ["Next"]),
        ("3.11", "since 3.11.7 it works", ["3.11.7"]),
        ("dont", "I don't know", ["don't"]),
        ("homme", "l'homme est la", ["homme"]),
        ("東京", "我々は東京タワーに行った", ["東京"]),
        ("猫", "三匹の猫がいる", ["猫"]),
        ("naive", "a naïve approach", ["naïve"]),
        ("naive", "a nai\u0308ve approach", ["nai\u0308ve"]),
        ("office", "the o\ufb03ce is open", ["o\ufb03ce"]),
        ("full", "ｆｕｌｌ width", ["ｆｕｌｌ"]),
        ("한국", "나는 한국어 책을", ["한국"]),
        ("kettle", "🎉🎉 a kettle 🎉 kettle", ["kettle", "kettle"]),
        ("of the", "of the kettle", ["of", "the"]),
        ("C++", "in C++ and C", ["C++"]),
        ("absent", "nothing here", []),
    ],
)
def test_the_matching_words_are_marked(question: str, text: str, marked: list[str]) -> None:
    assert mark(text, question) == marked


def test_words_are_marked_by_the_stemmer_of_the_document() -> None:
    assert mark("Die Häuser am See", "Haus Häuser", "de", ("de", "en")) == ["Häuser"]


def test_a_quoted_phrase_is_one_mark_and_its_words_elsewhere_are_not_marked() -> None:
    text = "The red house. A house that is red. The Red\nHouses."
    assert mark(text, '"red house"') == ["red house", "Red\nHouses"]
    assert mark(text, '"red house" that') == ["red house", "Red\nHouses"], "a stop word is not marked"
    assert mark(text, '"green house"') == ["house", "house", "Houses"], "without the phrase its words are marked"


def test_a_spelling_correction_is_marked() -> None:
    words = QueryTerms(terms=(("kettel",),), instead=((("kettel",), ("kettl",)),))
    assert find_highlights("a kettle", None, words) == ((2, 8),)


def test_composed_starters_do_not_move_later_marks() -> None:
    jamo = unicodedata.normalize("NFD", "한국어") + " ́x " + "kettle"
    assert mark(jamo, "kettle") == ["kettle"]


def test_located_terms_are_those_of_the_index() -> None:
    alphabet = "aé́ﬃ한ᄀ ᅡ一二🎉.-_'Zz9,ａ ﷺ\n"
    generator = random.Random(7)
    for _ in range(300):
        text = "".join(generator.choice(alphabet) for _ in range(generator.randint(0, 1400)))
        located = list(locate_tokens(text, "en"))
        terms = [term for token in located for term in token.terms] + [
            one for token in located for one in token.singles
        ]
        assert terms == analyzer.extract_terms(text, "en")
        assert all(0 <= token.start < token.end <= len(text) for token in located)


@pytest.mark.parametrize("unit", ["a ", "aB", "a\u0301", "é.", "一二", "\u0301", "ﷺ ", "🎉a "])
def test_marking_takes_time_in_proportion_to_the_text(unit: str) -> None:
    def spend(size: int) -> float:
        text = unit * size
        question = analyzer.analyse_question('"a a a a b" a b 一', ("en",))
        started = time.process_time()
        find_highlights(text, None, question)
        return time.process_time() - started

    spend(1000)
    small, large = min(spend(5_000) for _ in range(3)), min(spend(40_000) for _ in range(2))
    assert large < 40 * max(small, 0.002), "eight times the text takes far less than 64 times as long"
