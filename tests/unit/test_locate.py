"""Boxes of chunks among the words of a page, without a document."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from knowledge.extract.pages import locate
from knowledge.extract.pages.locate import join_lines, locate_chunks, normalise_letters
from knowledge.model.pages import PageWord

WIDTH, HEIGHT = 600.0, 800.0


def lay_out(*lines: str, left: float = 0.1, top: float = 0.1) -> list[PageWord]:
    """Return words in lines of a fixed pitch, one line every 0.02 of the page."""
    words = []
    for row, line in enumerate(lines):
        x = left
        for word in line.split():
            width = 0.01 * len(word)
            words.append(PageWord(word, (x, top + 0.02 * row, x + width, top + 0.02 * row + 0.012)))
            x += width + 0.008
    return words


def test_each_line_of_a_chunk_gets_one_box() -> None:
    words = lay_out("The kettle whistles in the", "kitchen while the tea steeps.", "Another paragraph follows here.")
    (found,) = locate_chunks(words, WIDTH, HEIGHT, ["The kettle whistles in the kitchen while the tea steeps."])
    assert [round(box[1], 3) for box in found.boxes] == [0.1, 0.12]
    assert found.found == found.letters


def test_markdown_hyphens_and_ligatures_do_not_matter() -> None:
    words = lay_out("O\ufb03ce knowl-", "edge of the", "harbour-master")
    chunk = "## **Office** knowledge\n\n| of | the |\n| --- | --- |\n\n`harbour\u00admaster`"
    (found,) = locate_chunks(words, WIDTH, HEIGHT, [chunk])
    assert len(found.boxes) == 3
    assert found.found == found.letters


def test_equal_sentences_of_two_chunks_get_a_box_each() -> None:
    sentence = "The same sentence is written twice on this page."
    words = lay_out(sentence, "Something else stands in between.", sentence)
    first, second = locate_chunks(words, WIDTH, HEIGHT, [sentence, f"Something else stands in between. {sentence}"])
    assert [round(box[1], 3) for box in first.boxes] == [0.1]
    assert [round(box[1], 3) for box in second.boxes] == [0.12, 0.14]


def test_a_chunk_that_is_not_on_the_page_has_no_boxes() -> None:
    words = lay_out("The kettle whistles in the kitchen.")
    (found,) = locate_chunks(words, WIDTH, HEIGHT, ["Telescopes are polished by astronomers at midnight."])
    assert (found.boxes, found.found) == ((), 0)


def test_words_in_another_order_are_found() -> None:
    words = lay_out("Apples Pears Plums", "January February March", "118 27 340")
    chunk = "| Apples | January | 118 |\n| Pears | February | 27 |\n| Plums | March | 340 |"
    (found,) = locate_chunks(words, WIDTH, HEIGHT, [chunk])
    assert found.found == found.letters


def test_lines_that_run_down_the_page_are_joined() -> None:
    turned = [(0.5, 0.1, 0.512, 0.2), (0.5, 0.208, 0.512, 0.3), (0.48, 0.1, 0.492, 0.2)]
    assert len(join_lines(turned, WIDTH, HEIGHT)) == 2


def test_an_empty_page_and_an_empty_chunk_are_no_error() -> None:
    assert locate_chunks([], WIDTH, HEIGHT, ["Some text"])[0].boxes == ()
    assert locate_chunks(lay_out("Some text"), WIDTH, HEIGHT, ["", "***"])[0].letters == 0
    assert locate_chunks(lay_out("Some text"), 0.0, 0.0, ["Some text"])[0].found == 8


def test_letters_are_compared_without_case_and_form() -> None:
    assert normalise_letters("Straße Ⅳ ﬁn-de-siècle") == normalise_letters("STRASSE iv FINDESIÈCLE")


class CountedText(str):
    """A text that counts how often it is cut."""

    cuts = 0

    def __getitem__(self, key: object) -> str:
        CountedText.cuts += 1
        return super().__getitem__(key)  # type: ignore[index]


def count_cuts(words: list[PageWord], chunk: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many parts of the texts are compared."""
    read = locate._read_letters

    def read_counted(given: list[str]) -> locate._Letters:
        letters = read(given)
        letters.text = CountedText(letters.text)
        return letters

    CountedText.cuts = 0
    with monkeypatch.context() as patched:
        patched.setattr(locate, "_read_letters", read_counted)
        locate_chunks(words, WIDTH, HEIGHT, [chunk])
    return CountedText.cuts


def make_periodic(size: int) -> tuple[list[PageWord], str]:
    return lay_out(*(["aaaa aaaa aaaa aaaa"] * size)), "aaaa " * (4 * size)


def make_shuffled(size: int) -> tuple[list[PageWord], str]:
    rows = [f"word{number} {number * 7919 % 10007}" for number in range(size)]
    shuffled = [word for row in rows for word in row.split()]
    random.Random(7).shuffle(shuffled)
    return lay_out(*rows), " ".join(shuffled)


@pytest.mark.parametrize("make", [make_periodic, make_shuffled])
def test_the_work_grows_no_faster_than_the_page(
    make: Callable[[int], tuple[list[PageWord], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = (count_cuts(*make(size), monkeypatch) for size in (200, 1600))
    assert 0 < large < 12 * small
