"""The analyzer: terms of documents and queries, phrases, languages, and misspelt words."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.text import analyzer
from knowledge.text.language import detect_language


def matches(question: str, text: str, language: str | None = None, languages: tuple[str, ...] = ()) -> bool:
    """Return whether every query term matches a term of the text."""
    held = set(analyzer.extract_terms(text, language))
    asked = analyzer.analyse_question(question, languages or (language or "en",)).terms
    return bool(asked) and all(any(form in held for form in forms) for forms in asked)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("PARSE", "to parse a header"),
        ("naive cafe", "a naïve café"),
        ("naïve café", "a naive cafe"),
        ("running", "he runs"),
        ("parsehttpheader", "calls parseHTTPHeader(x)"),
        ("http header", "calls parseHTTPHeader(x)"),
        ("parse_http_header", "calls parseHTTPHeader(x)"),
        ("path join", "use os.path.join here"),
        ("os.path.join", "use os.path.join here"),
        ("b", "the module a.b.c"),
        ("node.js", "written in NodeJS"),
        ("sha256", "a SHA256 digest"),
        ("sha", "a sha256 digest"),
        ("pdf", "all PDFs"),
        ("c++", "written in C++, not C"),
        ("C#", "written in C#."),
        ("1.2.3", "since version 1.2.3."),
        ("1.2.3", "since v1.2.3"),
        ("3.11", "needs Python 3.11.7"),
        ("2024-05-01", "at 2024-05-01T10:00:00Z"),
        ("2024", "on 2024-05-01"),
        ("1995", "from 1990-1995"),
        ("1000000", "about 1,000,000 people"),
        ("email", "an e-mail"),
        ("covid19", "COVID-19"),
        ("dont", "don't"),
        ("cat", "the cat's tail"),
        ("homme", "l'homme"),
        ("strasse", "Straße"),
        ("ﬁne", "fine"),
        ("init", "def __init__(self)"),
        ("東京", "東京都は日本の首都です"),
        ("首都", "東京都は日本の首都です"),
        ("都", "東京都は日本の首都です"),
        ("ไทย", "ภาษาไทย"),
        ("한국", "한국어는 재미있다"),
        ("x", "solve for x"),
        ("7", "chapter 7"),
    ],
)
def test_a_query_matches_word_variants(question: str, text: str) -> None:
    assert matches(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [("1.2.3", "version 1.2.4"), ("c++", "the letter C"), ("2024-05-01", "2024-05-02"), ("京東", "東京都")],
)
def test_a_query_does_not_match_similar_words(question: str, text: str) -> None:
    assert not matches(question, text)


def test_an_identifier_is_kept_whole_and_in_parts() -> None:
    assert analyzer.extract_terms("fetchHTTPData", None) == ["fetchhttpdata", "fetch", "http", "data"]
    assert analyzer.extract_terms("tea_pot_lid", None) == ["teapotlid", "tea", "pot", "lid"]
    assert analyzer.extract_terms("a.b.c", None) == ["abc", "a", "b", "c"]


@pytest.mark.parametrize(
    ("language", "question", "text"),
    [
        ("de", "Haus", "viele Häuser"),
        ("de", "hauser", "viele Häuser"),
        ("fr", "generales", "le secrétaire général"),
        ("es", "cancion", "las canciones"),
        ("ru", "книга", "много книг"),
    ],
)
def test_words_are_stemmed_by_the_language_of_the_document(language: str, question: str, text: str) -> None:
    assert matches(question, text, language)


def test_a_query_matches_documents_of_every_indexed_language() -> None:
    both = ("en", "de")
    assert matches("running", "he runs every day", "en", both)
    assert matches("Häuser", "ein Haus", "de", both)


def test_words_in_another_script_are_stemmed_by_that_script() -> None:
    assert matches("книга running", "много книг and runs", None)
    assert matches("running книги", "runs книга", "ru")


def test_repeated_query_words_are_kept() -> None:
    assert analyzer.analyse_question("tea tea pot", ("en",)).terms == (("tea",), ("tea",), ("pot",))


def test_stop_words_are_dropped_only_if_other_words_remain() -> None:
    assert analyzer.analyse_question("what is the tea", ("en",)).terms == (("tea",),)
    assert analyzer.analyse_question("to be or not to be", ("en",)).terms == (
        ("to",),
        ("be",),
        ("or",),
        ("not",),
        ("to",),
        ("be",),
    )


def test_stop_words_are_those_of_the_query_language() -> None:
    assert ("die",) in analyzer.analyse_question("how did he die", ("de", "en")).terms
    assert analyzer.analyse_question("was ist die Temperatur", ("de", "en")).terms == (("temperatur",),)


@pytest.mark.parametrize("text", ['about "green tea" leaves', "about “green tea” leaves", "about «green tea» leaves"])
def test_quoted_words_are_a_phrase(text: str) -> None:
    words = analyzer.analyse_question(text, ("en",))
    assert words.phrases == ((("green", "tea"),),)
    assert ("green",) in words.terms


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ('"green tea"', True),
        ('"green tea" and the “black tea”', True),
        ('"green tea" leaves', False),
        ("green tea", False),
    ],
)
def test_a_query_of_only_quotations_is_exact(text: str, exact: bool) -> None:
    assert analyzer.analyse_question(text, ("en",)).exact is exact


def test_an_unmatched_quotation_mark_is_not_a_phrase() -> None:
    assert analyzer.analyse_question('a 19" screen', ("en",)).phrases == ()


def test_a_phrase_has_the_same_terms_as_in_the_text() -> None:
    text, asked = "see the parse_http_header function of 東京都庁", '"the parse_http_header function"'
    terms = analyzer.extract_terms(text, None)
    ((phrase,),) = analyzer.analyse_question(asked, ("en",)).phrases
    assert any(tuple(terms[at : at + len(phrase)]) == phrase for at in range(len(terms)))
    ((phrase,),) = analyzer.analyse_question('"京都庁"', ("en",)).phrases
    assert any(tuple(terms[at : at + len(phrase)]) == phrase for at in range(len(terms)))


@pytest.mark.parametrize("text", ["", "   ", "?!…", "😀 🎉"])
def test_a_query_without_words_has_no_terms(text: str) -> None:
    assert analyzer.analyse_question(text, ("en",)).terms == ()


def test_a_very_long_query_is_truncated() -> None:
    asked = analyzer.analyse_question(" ".join(f"word{number}" for number in range(5000)), ("en",))
    assert len(set(asked.terms)) == analyzer.MAX_QUESTION_TERMS


@given(st.text(max_size=200))
def test_any_text_gives_terms_without_spaces(text: str) -> None:
    assert all(term and not any(map(str.isspace, term)) for term in analyzer.extract_terms(text, None))


@given(st.text(max_size=100))
def test_a_text_matches_itself(text: str) -> None:
    held = set(analyzer.extract_terms(text, "de"))
    assert all(any(form in held for form in forms) for forms in analyzer.analyse_question(text, ("de", "en")).terms)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The quick brown fox jumps over the lazy dog and then runs away into the forest.", "en"),
        ("Der schnelle braune Fuchs springt über den faulen Hund und läuft in den Wald.", "de"),
        ("Le renard brun saute par-dessus le chien paresseux et s'enfuit dans la forêt.", "fr"),
        ("東京都は日本の首都です。人口は約千四百万人です。", "ja"),
        ("Москва является столицей России.", "ru"),
        ("Çoban koyunlarını mayıs başında kırkıyor.", "tr"),
    ],
)
def test_the_language_of_a_text_is_detected(text: str, code: str) -> None:
    assert detect_language(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "buy milk",
        "Call Ayşe Yılmaz about the invoice tomorrow",
        "Acest oraş este foarte frumos şi vechi",
        "for (i = 0; i < n; i++) { a[i] = b[i] * c[i]; if (a[i] > 7) { return -1; } }  // x[0] = {1, 2, 3};",
        "The fox jumps over the dog and runs into the wood. Der braune Fuchs springt über den Hund in den Wald hinein.",
    ],
)
def test_short_mixed_texts_and_code_have_no_language(text: str) -> None:
    assert detect_language(text) is None


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("דבורה", "הדבורים מייצרות דבש"),
        ("מהברד", "נזקים של ברד"),
        ("מדפסות", "המדפסת נעצרת"),
        ("שָׁלוֹם", "שלום"),
        ("וטרינר", "הווטרינר מחסן כלבים"),
        ("servers", "השרת server"),
    ],
)
def test_hebrew_words_match_without_prefixes_and_endings(question: str, text: str) -> None:
    assert matches(question, text, "he")


def test_short_hebrew_words_are_not_shortened() -> None:
    assert not matches("רד", "ברד", "he")
    assert analyzer.extract_terms("שלג בית ה", "he") == ["שלג", "בית", "ה"]


# -- misspelt words -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant", "language"),
    [
        ("retreival", "retrieval", "en"),
        ("Häusr", "häuser", "de"),
        ("карабль", "корабль", "ru"),
    ],
)
def test_words_at_edit_distance_one_are_found(typed: str, meant: str, language: str) -> None:
    (term,) = analyzer.extract_terms(meant, language)
    assert analyzer.find_nearby_terms(typed, (language,))[term] == meant


def test_only_plain_words_are_corrected() -> None:
    text = 'the Retreival-augmented "quoted words" of parseHTTP v1.2 sha257 NASAA 東京タワー tea'
    assert list(analyzer.find_possible_misspellings(text, ["en"])) == ["Retreival", "augmented"]


def test_a_token_of_many_numbers_has_terms() -> None:
    assert "3.11" in analyzer.extract_terms("3.11'2.0", "en") and "2.0" in analyzer.extract_terms("3.11'2.0", "en")
    assert analyzer.extract_terms("1.1'" * 4_000, "en")  # once exceeded the recursion limit


@pytest.mark.parametrize("text", ["1.1." * 15_000, "1-1" * 20_000, "a" + "\u0301\u0323" * 30_000], ids=ascii)
def test_a_very_long_word_takes_linear_time(text: str) -> None:
    start = time.process_time()
    assert analyzer.extract_terms(text, "en")
    # Each took at least 10 s of CPU time before prefixes and combining marks were limited.
    assert time.process_time() - start < 2


def test_long_texts_are_normalized_like_short_ones() -> None:
    text = "Cafe\u0301 und Mu\u0308hle, ﬁne Kra\u0308fte; \u304b\u3099 " * 200
    assert analyzer.normalise_nfkc(text) == unicodedata.normalize("NFKC", text)
