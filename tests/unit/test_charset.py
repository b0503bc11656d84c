"""Detection of legacy encodings, measured on natural paragraphs.

A sample counts only if it has a non-ASCII byte, and is right only if the original text is restored exactly. The
paragraphs were written for this test; no letter frequencies come from them.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import pytest

from charset import CODE_PAGES, OTHER_CODE_PAGES, PARAGRAPHS, is_decoded_right, make_samples, replace_missing_chars
from knowledge.extract.base import Source
from knowledge.extract.charset import decode_text, guess_encoding
from knowledge.extract.formats import extract

PAGES = [(language, page) for language, pages in CODE_PAGES.items() for page in pages]
OTHER_PAGES = [(language, page) for language, pages in OTHER_CODE_PAGES.items() for page in pages]
RATES = {2000: 1.0, 200: 0.98, 50: 0.9}
LATE = PARAGRAPHS.parent / "late"
OTHERS = PARAGRAPHS.parent / "others"
guess_once = cache(guess_encoding)
"""Cached, because the code pages of a language share most samples."""


def rate(text: str, page: str, size: int) -> float:
    results = [is_decoded_right(guess_once, data, piece) for data, piece in make_samples(text, page, size)]
    assert results
    return sum(results) / len(results)


def paragraphs(language: str, folder: Path = PARAGRAPHS) -> str:
    return (folder / f"{language}.txt").read_text("utf-8")


def read(tmp_path: Path, filename: str, content: bytes) -> str:
    path = tmp_path / filename
    path.write_bytes(content)
    return "\n".join(page.text for page in extract(Source(path, filename)).pages)


@pytest.mark.parametrize(("language", "page"), PAGES)
def test_natural_paragraphs_are_decoded_in_the_code_pages_of_their_language(language: str, page: str) -> None:
    rates = {size: rate(paragraphs(language), page, size) for size in RATES}
    assert {size: found for size, found in rates.items() if found < RATES[size]} == {}


@pytest.mark.parametrize(("language", "page"), PAGES)
def test_paragraphs_that_were_written_after_all_tuning_are_decoded_as_well(language: str, page: str) -> None:
    text = paragraphs(language, LATE)
    assert (rate(text, page, 200) >= RATES[200], rate(text, page, 50) >= 0.8) == (True, True)


def test_nearly_every_short_sample_of_all_languages_together_is_right() -> None:
    results = [
        is_decoded_right(guess_once, data, piece)
        for language, page in PAGES
        for data, piece in make_samples(paragraphs(language), page, 50)
    ]
    assert len(results) > 2000
    assert sum(results) > 0.98 * len(results)


@pytest.mark.parametrize(("language", "page"), [pair for pair in OTHER_PAGES if pair[0] != "vi"])
def test_a_paragraph_in_another_language_is_decoded_too(language: str, page: str) -> None:
    text = replace_missing_chars(paragraphs(language, OTHERS), page)
    assert decode_text(text.encode(page)) == text


@pytest.mark.parametrize(("language", "page"), [pair for pair in PAGES if pair[0] not in ("he", "ar")])
def test_headings_in_capitals_are_decoded(language: str, page: str) -> None:
    text = replace_missing_chars(paragraphs(language).upper(), page)[:600]
    assert decode_text(text.encode(page)) == text


@pytest.mark.parametrize(("language", "page"), PAGES)
def test_a_list_of_words_and_numbers_is_decoded(language: str, page: str) -> None:
    words = [word.strip('.,;:«»„“”"()') for word in replace_missing_chars(paragraphs(language), page).split()]
    text = "".join(f"{number};{word};{number * 7 % 13},50\n" for number, word in enumerate(words[:120]))
    assert decode_text(text.encode(page)) == text


@pytest.mark.parametrize("name", ["carta.txt", "carta.md", "carta.html"])
def test_a_spanish_file_of_windows_keeps_its_letters(tmp_path: Path, name: str) -> None:
    lines = paragraphs("es").replace("«", "").replace("»", "").splitlines()
    text = read(tmp_path, name, f"{lines[1]}\n{lines[4]}".encode("cp1252"))
    assert "un pimentón dulce, medio kilo de garbanzos y una pizca de azafrán" in text
    assert "Los vecinos del barrio habían pedido desde hacía años un espacio así" in text


def test_a_table_in_a_code_page_keeps_its_letters(tmp_path: Path) -> None:
    rows = "Nombre;Ciudad\nMuñoz;Córdoba\nIbáñez;Cádiz\nPeña;León\n"
    assert "| Ibáñez | Cádiz |" in read(tmp_path, "clientes.csv", rows.encode("cp1252"))


def test_a_declared_encoding_takes_precedence_over_detection(tmp_path: Path) -> None:
    page = '<html><meta charset="windows-1251"><body><p>ïðèâåò</p></body></html>'
    assert "привет" in read(tmp_path, "a.html", page.encode("cp1252"))


def test_one_sign_early_in_a_long_file_does_not_hide_the_letters_that_come_later(tmp_path: Path) -> None:
    plain = "The manual of the pump, in several languages.\n" * 20_000
    text = f"© 1998 Pump Works\n{plain}{paragraphs('pl')}"
    assert "Będziemy na miejscu" in read(tmp_path, "manual.txt", text.encode("cp1250"))


@pytest.mark.parametrize(
    "pattern", [b"\xe9", b"a\xe9", b"\xe9 ", b"\x83\x65 ", b"'\xe9'", bytes(range(128, 256)), b"\xe9\n"]
)
def test_the_time_for_a_long_hostile_text_stays_in_proportion(tmp_path: Path, pattern: bytes) -> None:
    def seconds(size: int) -> float:
        data = (pattern * (size // len(pattern) + 1))[:size]
        started = time.process_time()
        decode_text(data)
        return time.process_time() - started

    seconds(100_000)
    assert seconds(4_000_000) < 1.5 + 8 * seconds(1_000_000)
