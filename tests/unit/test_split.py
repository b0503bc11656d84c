from __future__ import annotations

import re
import textwrap
import time
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.embed.granite import load_tokenizer
from knowledge.extract.base import PageText
from knowledge.split import SplitPassage, Splitter, build_embedding_text
from knowledge.split.cutter import JOINT_TOKENS
from knowledge.split.passage import SPECIAL_TOKENS

TOKENIZER = load_tokenizer()
WINDOW = 256
FITS = WINDOW - SPECIAL_TOKENS


def split_pages(*pages: str | PageText, title: str = "", window: int = WINDOW) -> list[SplitPassage]:
    splitter = Splitter(TOKENIZER, title, window)
    return list(feed(splitter, pages))


def feed(splitter: Splitter, pages: Iterable[str | PageText]) -> Iterator[SplitPassage]:
    for page in pages:
        yield from splitter.feed(page if isinstance(page, PageText) else PageText(page))
    yield from splitter.finish()


def tokens(text: str) -> int:
    return len(TOKENIZER.encode(text, add_special_tokens=False))


def letters(text: str) -> str:
    return "".join(text.split())


SENTENCE = "The keeper of the lighthouse wrote the weather into his log and went to bed before the storm came. "

# -- structure ------------------------------------------------------------------------------------


def test_each_section_is_a_chunk_with_its_headings() -> None:
    pieces = split_pages("# Guide\n\nWelcome.\n\n## Install\n\nRun pip.\n\n## Use\n\nAsk.\n\n# Index\n\nWords.")
    assert [(piece.section, piece.text) for piece in pieces] == [
        (("Guide",), "# Guide\n\nWelcome."),
        (("Guide", "Install"), "## Install\n\nRun pip."),
        (("Guide", "Use"), "## Use\n\nAsk."),
        (("Index",), "# Index\n\nWords."),
    ]


def test_a_heading_is_never_a_chunk_by_itself() -> None:
    pieces = split_pages("# Guide\n\n## Install\n\nRun pip.\n\n## See also")
    assert [piece.text for piece in pieces] == ["# Guide\n\n## Install\n\nRun pip.\n\n## See also"]
    assert pieces[0].section == ("Guide", "Install")


def test_a_heading_is_followed_by_the_part_of_a_long_text_that_fits() -> None:
    for body in (SENTENCE * 20, "```python\n" + "value = compute(value)\n\n" * 200 + "```"):
        pieces = split_pages(f"# A chapter about lighthouses\n\n{body}")
        assert pieces[0].text.startswith("# A chapter about lighthouses\n\n") and tokens(pieces[0].text) > FITS // 2
        assert all(piece.section == ("A chapter about lighthouses",) for piece in pieces)


def test_underlined_headings_and_markup_in_headings_are_recognised() -> None:
    pieces = split_pages("Guide\n=====\n\nHello.\n\nThe **first** [part](x.md)\n---\n\nText.\n\n### `deep` #\n\nMore.")
    assert [piece.section for piece in pieces] == [
        ("Guide",),
        ("Guide", "The first part"),
        ("Guide", "The first part", "deep"),
    ]


def test_headings_apply_across_pages_and_a_chunk_is_on_one_page() -> None:
    pages = [PageText("# One\n\nFirst.", 1), PageText("Second.\n\n# Two", 2), PageText("Third.", 3)]
    assert [(piece.page, piece.section, piece.text) for piece in split_pages(*pages)] == [
        (1, ("One",), "# One\n\nFirst."),
        (2, ("One",), "Second."),
        (3, ("Two",), "# Two\n\nThird."),
    ]


def test_texts_without_page_numbers_continue_each_other() -> None:
    pieces = split_pages("# One\n\nFirst.", "Second.", "```\nopen", "still = code\n```\n\nafter")
    assert [piece.text for piece in pieces] == ["# One\n\nFirst.\n\nSecond.\n\n```\nopen\nstill = code\n```\n\nafter"]


def test_a_hash_in_code_is_no_heading() -> None:
    pieces = split_pages("# Guide\n\n```sh\n# install\npip install it\n```\n\nDone.")
    assert [piece.section for piece in pieces] == [("Guide",)]
    assert "```sh\n# install\npip install it\n```" in pieces[0].text


# -- cutting --------------------------------------------------------------------------------------


def test_long_prose_is_cut_between_sentences_into_chunks_of_similar_length() -> None:
    pieces = split_pages(SENTENCE * 40)
    assert all(piece.text.startswith("The keeper") and piece.text.endswith("came.") for piece in pieces)
    lengths = [tokens(piece.text) for piece in pieces]
    assert max(lengths) <= FITS and min(lengths) * 2 > max(lengths)


def test_a_section_that_fits_below_its_title_is_one_chunk() -> None:
    body = (SENTENCE * 11).strip()
    assert tokens(body) in range(FITS - 40, FITS)
    assert [piece.text for piece in split_pages(body, title="Log")] == [body]
    assert [piece.text for piece in split_pages(f"# Log\n\n{body}\n\n# Map\n\nHere.")] == [
        f"# Log\n\n{body}",
        "# Map\n\nHere.",
    ]
    assert (
        len(split_pages(body, title="The log of the lighthouse at the end of the world, kept by its last keeper " * 2))
        == 2
    )


def test_paragraphs_are_distributed_evenly() -> None:
    paragraph = (SENTENCE * 2).strip()
    pieces = split_pages("\n\n".join([paragraph] * 7))
    assert [piece.text.count(paragraph) for piece in pieces] == [4, 3]


def test_a_rule_after_a_full_chunk_belongs_to_the_next() -> None:
    body = (SENTENCE * 12).strip() + " It rained for days. So it was. Good night."
    assert tokens(body) in range(FITS - JOINT_TOKENS, FITS + 1)
    pieces = split_pages(f"{body}\n\n---\n\n# Next\n\nMore.")
    assert [piece.text for piece in pieces] == [body, "---\n\n# Next\n\nMore."]


def test_list_items_are_kept_whole() -> None:
    items = [f"- item {number} says something that is worth knowing about number {number}" for number in range(60)]
    lines = "\n".join(piece.text for piece in split_pages("\n".join(items))).splitlines()
    assert lines == items


def test_every_part_of_a_table_repeats_its_header() -> None:
    rows = [f"| {number} | town number {number} | {number * 1000} |" for number in range(100)]
    pieces = split_pages("Towns:\n\n| Id | Town | Inhabitants |\n|:--|:-:|--:|\n" + "\n".join(rows) + "\n\nEnd.")
    tables = [piece.text for piece in pieces if "town number" in piece.text]
    assert len(tables) > 4 and all("| Id | Town | Inhabitants |\n|---|---|---|\n| " in table for table in tables)
    assert [line for table in tables for line in table.splitlines() if "town number" in line] == rows


def test_a_row_wider_than_the_window_is_cut_between_cells_that_name_their_columns() -> None:
    names, values = [f"column{number}" for number in range(300)], [f"value{number}" for number in range(300)]
    pieces = split_pages(f"| {' | '.join(names)} |\n|{'---|' * 300}\n| {' | '.join(values)} |")
    text = "\n".join(piece.text for piece in pieces)
    assert all(f"column{number}: value{number}" in text for number in range(300))
    assert "column1: value1; column2: value2;" in text


def test_long_code_is_cut_before_definitions_and_every_part_is_fenced() -> None:
    function = "def function_{0}(value):\n    total = value + {0}\n\n    return total * {0}\n"
    code = "\n".join(function.format(number) for number in range(60))
    pieces = split_pages(f"```python\n{code}\n```")
    assert len(pieces) > 5
    for piece in pieces:
        assert piece.text.startswith("```python\ndef function_") and piece.text.endswith("\n```")
        assert piece.text.count("def ") == piece.text.count("return ")


def test_indentation_survives_in_code() -> None:
    assert split_pages("```\nif x:\n    y()\n```")[0].text == "```\nif x:\n    y()\n```"


# -- nothing is lost, nothing is too long ---------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
KINDS = ["# ", "## ", "#### ", "- ", "  * ", "1. ", "", "", "", "> ", "\n", "    ", "---\n", "```\n", "~~~\n", "===\n"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.lists(WORDS, max_size=60)), max_size=30), st.integers(70, 300))
def test_every_letter_is_kept_in_order_and_no_chunk_is_too_long(
    parts: list[tuple[str, list[str]]], window: int
) -> None:
    text = "\n".join(kind + " ".join(words).replace("|", "") for kind, words in parts)
    pieces = split_pages(text, window=window)
    assert all(tokens(piece.text) <= min(window, WINDOW) - SPECIAL_TOKENS for piece in pieces)
    without_fences = re.compile(r"^ {0,3}(?:```|~~~).*$", re.MULTILINE)
    found = letters("\n".join(without_fences.sub("", piece.text) for piece in pieces))
    assert found == letters(without_fences.sub("", text))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["heading", "text", "item", "code", "table", "rule"]), max_size=25), st.data())
def test_every_word_of_tables_and_code_is_kept_in_order(kinds: list[str], data: st.DataObject) -> None:
    number = iter(range(1_000_000))

    def some(most: int) -> str:
        return " ".join(f"w{next(number)}" for _ in range(data.draw(st.integers(1, most))))

    def block(kind: str) -> str:
        match kind:
            case "table":
                # rows that fit: wider ones become `column: value` pairs in another order
                columns, rows = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 30))
                lines = [f"| {' | '.join(some(4) for _ in range(columns))} |" for _ in range(rows + 1)]
                return "\n".join([lines[0], "|" + "---|" * columns, *lines[1:]])
            case "code":
                return "```python\n" + "\n".join(some(8) for _ in range(data.draw(st.integers(1, 40)))) + "\n```"
            case "rule":
                return "---"
        return {"heading": "## ", "item": "- "}.get(kind, "") + some(20 if kind == "heading" else 300)

    pieces = split_pages("\n\n".join(block(kind) for kind in kinds))
    assert all(tokens(piece.text) <= FITS for piece in pieces)
    first_seen = dict.fromkeys(re.findall(r"w\d+", "\n".join(piece.text for piece in pieces)))
    assert list(first_seen) == [f"w{count}" for count in range(next(number))]


@pytest.mark.parametrize("text", [
    "a" * 200_000,
    "abcdefgh" * 25_000,
    "\n" * 200_000,
    " " * 200_000,
    "🚀" * 20_000,
    "東京は日本の首都です。" * 4_000,
    "#" * 200_000,
    "`" * 100_000,
    "|" * 100_000,
    "- " * 10_000 + "deep",
    "\n".join("  " * level + "- level" for level in range(1_000)),
    "```\nnever closed\n" + "line of code\n" * 5_000,
    "| a | b |\n|---|---|\n| " + "word " * 20_000 + " | y |",
    f"# {'long ' * 10_000}\n\ntext",
    "# h\n" * 5_000,
    "\r\n".join(["# Windows", "", "line", "", "line"]),
    "\x00\x0b\x0c\u2028 odd separators",
], ids=lambda text: repr(text[:20]))  # fmt: skip
def test_unusual_text_is_cut_within_the_limit(text: str) -> None:
    pieces = split_pages(text)
    assert all(tokens(piece.text) <= FITS and piece.text.strip() for piece in pieces)
    if "|" not in text and "```" not in text:
        assert letters("".join(piece.text for piece in pieces)) == letters(text)


def test_memory_does_not_grow_with_the_document() -> None:
    page = PageText((SENTENCE * 10 + "\n\n") * 40)
    splitter = Splitter(TOKENIZER)
    list(splitter.feed(page))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(10):
        for _piece in splitter.feed(page):
            pass
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 200_000


@pytest.mark.parametrize(
    "text", ["# a\n\n", "a\n=\n\n", "---\n\n# a\n\n## b\n\n"], ids=["marked", "underlined", "ruled"]
)
def test_a_document_of_headings_takes_linear_time(text: str) -> None:
    start = time.process_time()
    split_pages(text * 10_000 + "and words")
    assert time.process_time() - start < 6  # quadratic code took a minute


def test_a_smaller_window_gives_smaller_chunks() -> None:
    pieces = split_pages(f"# A heading\n\n{SENTENCE * 30}", title="A title", window=128)
    lengths = [tokens(build_embedding_text("A title", piece.section, piece.text)) for piece in pieces]
    assert 100 < max(lengths) <= 128 - SPECIAL_TOKENS


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["title", "of", "Knowledge", "v1.2.3", "東京"]), max_size=40), st.integers(1, 60))
def test_a_chunk_with_title_and_headings_fits_into_the_window(words: list[str], sentences: int) -> None:
    title = " ".join(words)
    for piece in split_pages(f"# {title}!\n\n## Part\n\n{SENTENCE * sentences}", title=title):
        assert tokens(build_embedding_text(title, piece.section, piece.text)) <= FITS


# -- embedding text -------------------------------------------------------------------------------


def test_title_and_headings_precede_the_text() -> None:
    assert build_embedding_text("Handbook", ("Guide", "Install"), "Run pip.") == "Handbook > Guide > Install. Run pip."


def test_headings_in_the_text_are_not_repeated() -> None:
    assert build_embedding_text("Guide", ("Guide", "Install"), "# Guide\n\n## Install\n\nRun pip.") == (
        "# Guide\n\n## Install\n\nRun pip."
    )
    assert build_embedding_text("Guide", ("Guide", "Use"), "Ask.") == "Guide > Use. Ask."
    assert build_embedding_text("", (), "Ask.") == "Ask."


def test_a_long_heading_path_loses_its_middle_first() -> None:
    path = tuple(f"A rather long heading of level {level} with many words" for level in range(8))
    above, _, text = build_embedding_text("Handbook", path, SENTENCE * 8).partition(". ")
    assert above.startswith("Handbook > ") and above.endswith(path[-1]) and text == SENTENCE * 8


NAMES = [
    "the",
    "installation",
    "of",
    "Knowledge",
    "servers",
    "README.md",
    "v1.2.3",
    "TLS",
    "東京",
    "überzählig",
    "0815",
]
TITLES = st.one_of(
    st.lists(st.sampled_from(NAMES)).map(" ".join), st.text(max_size=300), st.text("0123456789abcdef-", max_size=300)
)


@settings(max_examples=200, deadline=None)
@given(TITLES, st.lists(TITLES.map(lambda text: " ".join(text.split())), max_size=6), st.integers(1, 200))
def test_the_text_always_fits_into_the_window_whole(title: str, section: list[str], length: int) -> None:
    text = TOKENIZER.decode(TOKENIZER.encode(SENTENCE * 10, add_special_tokens=False).ids[:length])
    passage = build_embedding_text(title, section, text)
    assert passage.endswith(text)
    assert tokens(passage) + SPECIAL_TOKENS <= WINDOW


# -- wrapped lines --------------------------------------------------------------------------------


def test_wrapped_prose_is_cut_between_sentences_not_between_lines() -> None:
    wrapped = textwrap.fill(SENTENCE * 40, 72)
    for piece in split_pages(f"# Log\n\n{wrapped}"):
        assert piece.text.removeprefix("# Log\n\n").startswith("The keeper"), piece.text[:80]
        assert piece.text.endswith("came."), piece.text[-80:]


@pytest.mark.parametrize("line", ["tea: two litres and a half", "- a kettle that boils"])
def test_lines_that_are_not_wrapped_stay_whole(line: str) -> None:
    text = "\n".join(f"{line} {number}" for number in range(200))
    assert all(piece.text.split("\n")[-1].split()[-1].isdigit() for piece in split_pages(text))
