"""Highlighting of query terms and excerpts of passages."""

from __future__ import annotations

from knowledge.surfaces.cli.add.outcomes import format_duration
from knowledge.surfaces.cli.output.hits import find_marks, find_question_terms, make_excerpt
from knowledge.surfaces.cli.output.terminal import format_size, sanitize_text


def highlight(text: str, question: str, language: str | None = "en") -> list[str]:
    return [text[start:end] for start, end in find_marks(text, find_question_terms(question, language), language)]


def test_words_are_highlighted_in_all_forms_and_stop_words_are_not() -> None:
    assert highlight("The kettles were descaled; the kettle is new.", "when is the kettle descaled") == [
        "kettles",
        "descaled",
        "kettle",
    ]


def test_a_compound_name_is_highlighted_as_a_whole() -> None:
    assert highlight("call parseHTTPHeader(line) here", "http header") == ["parseHTTPHeader"]


def test_terms_are_highlighted_in_scripts_without_spaces() -> None:
    assert highlight("本日は東京都に行きます", "東京", "ja") == ["東京"]


def test_accents_are_ignored() -> None:
    assert highlight("Le Café est fermé.", "cafe") == ["Café"]


def test_an_excerpt_contains_most_matching_words() -> None:
    text = "tea " + "filler " * 200 + "the kettle is descaled on Monday " + "filler " * 200
    spans = find_marks(text, find_question_terms("kettle descaled Monday", "en"), "en")
    shown = make_excerpt(text, spans, 120)
    assert "kettle is descaled on Monday" in shown.text
    assert shown.text.startswith("… ") and shown.text.endswith(" …") and len(shown.text) <= 124
    assert [shown.text[start:end] for start, end in shown.marks] == ["kettle", "descaled", "Monday"]


def test_a_short_passage_is_shown_whole() -> None:
    assert make_excerpt("short", [(0, 5)]).text == "short"


def test_terminal_escapes_in_text_are_replaced() -> None:
    assert sanitize_text("a\x1b[2Jb\r\nc\td") == "a\ufffd[2Jb\ufffd\nc\td"


def test_sizes_and_counts_have_units() -> None:
    assert [format_size(number) for number in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KB", "5.0 GB"]
    assert [format_duration(seconds) for seconds in (0.52, 61, 3700)] == ["0.5 s", "1 min 1 s", "1 h 1 min"]
