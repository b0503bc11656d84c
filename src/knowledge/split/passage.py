"""The text that is embedded and indexed for a chunk, and the joining of consecutive chunks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.split.blocks import FENCE, LIST_ITEM, TABLE_DELIMITER, find_closing_fence

SPECIAL_TOKENS = 2
RESERVED_HEADING_TOKENS = 54
"""Part of the window that is kept for title and headings."""
WINDOW_TOKENS = 256
HEADING_SEPARATOR = " > "
HEADINGS_END = ". "  # because a line break instead costs 0.04 of nDCG@10
OPENING_CHARS = 1000
"""Beginning of the text that is searched for its own headings."""
HEADING_HASHES = re.compile(r"^#{1,6}\s+|(?<!\s)\s++#++$")
WORD = re.compile(r"[A-Za-z][a-z]*|[^\sA-Za-z]|\n|\s(?=\s)")
"""Words, symbols, and white space other than single spaces."""

CONTINUATION = re.compile(r"[a-z0-9(,;]")
SENTENCE_END = re.compile(r"[.!?…:;。！？][\"')\]*_`]*$|[|>`]$")


@dataclass(frozen=True, slots=True)
class SplitPassage:
    text: str
    page: int | None
    section: tuple[str, ...]
    """Headings above the text, outermost first."""
    lines: tuple[int, int] | None = None
    """First and last line in a source file, counted from 1."""


def build_embedding_text(title: str, section: Sequence[str], text: str) -> str:
    """Return title, headings and text; if that is too long, the headings are shortened and never the text."""
    names = _select_headings(title, section, text)
    # the headings first, because estimating the text is slow and seldom needed
    if estimate_tokens(HEADING_SEPARATOR.join(names)) + 1 > RESERVED_HEADING_TOKENS:
        names = _shorten_headings(
            names, max(RESERVED_HEADING_TOKENS, WINDOW_TOKENS - SPECIAL_TOKENS - estimate_tokens(text))
        )
    return f"{render_headings(names)}{text}"


def render_headings(names: Sequence[str]) -> str:
    return HEADING_SEPARATOR.join(names) + HEADINGS_END if any(names) else ""


def build_indexed_text(title: str, section: Sequence[str], text: str) -> str:
    """Return the text for keyword search: headings are repeated to weigh more, except a title taken from the text."""
    first = text.lstrip()[:OPENING_CHARS].split("\n", 1)[0]
    made_from_text = " ".join(first.split()).startswith(" ".join(title.rstrip("…").split()))
    return "\n".join([*([] if made_from_text else [title]), *section, text])


def estimate_tokens(text: str) -> int:
    """Return an upper estimate of the number of tokens, for any tokenizer."""
    return sum(_estimate_word_tokens(word) for word in WORD.findall(text))


def _estimate_word_tokens(word: str) -> int:
    return (len(word) + 1) // 2 if word[0].isascii() else len(word.encode("utf-8", "surrogatepass"))


def _select_headings(title: str, section: Sequence[str], text: str) -> list[str]:
    """Return title and headings without duplicates and without those at the beginning of the text."""
    opening = {" ".join(HEADING_HASHES.sub("", line).split()) for line in text[:OPENING_CHARS].split("\n")}
    names: list[str] = []
    for name in (" ".join(title.split()), *section):
        if name and name not in names and name not in opening and not _is_cut_from(name, opening):
            names.append(name)
    return names


def _is_cut_from(name: str, opening: set[str]) -> bool:
    """Whether a name that ends with an ellipsis is the beginning of one of these lines."""
    return name.endswith("…") and any(line.startswith(name[:-1]) for line in opening)


def _shorten_headings(names: list[str], max_tokens: int) -> list[str]:
    # title and last heading say most, so those between them are dropped first
    names = list(names)
    while len(names) > 2 and estimate_tokens(HEADING_SEPARATOR.join(names)) + 1 > max_tokens:
        del names[1]
    if names and estimate_tokens(HEADING_SEPARATOR.join(names)) + 1 > max_tokens:
        share = max_tokens // len(names) - 2
        names = [_shorten_heading(name, share) for name in names]
    return [name for name in names if name]


def _shorten_heading(name: str, max_tokens: int) -> str:
    used = 0
    for found in WORD.finditer(name):
        used += _estimate_word_tokens(found[0])
        if used > max_tokens:
            kept = name[: found.start()]
            return kept.rpartition(" ")[0] or kept
    return name


def join_passages(texts: Sequence[str]) -> str:
    """Join consecutive chunks without repeated table headers and fences, and without breaks in sentences."""
    whole = texts[0]
    for text in texts[1:]:
        whole = _join_pair(whole, text)
    return whole


def _join_pair(before: str, after: str) -> str:
    if (rows := _find_continued_rows(before, after)) is not None:
        return f"{before}\n{rows}"
    if (code := _join_code(before, after)) is not None:
        return code
    last, first = before.rpartition("\n")[2], after.partition("\n")[0]
    if LIST_ITEM.match(last) and LIST_ITEM.match(first):
        return f"{before}\n{after}"
    cut = CONTINUATION.match(first) and not SENTENCE_END.search(last) and not LIST_ITEM.match(first)
    return f"{before} {after}" if cut else f"{before}\n\n{after}"


def _find_continued_rows(before: str, after: str) -> str | None:
    """Return the rows of a table that continues a table with the same header; None if it does not."""
    header, _, rest = after.partition("\n")
    delimiter, _, rows = rest.partition("\n")
    if "|" not in header or not TABLE_DELIMITER.fullmatch(delimiter) or not before.endswith("|"):
        return None
    table = before.rpartition("\n\n")[2]
    return rows if table.startswith(f"{header}\n{delimiter}\n") else None


def _join_code(before: str, after: str) -> str | None:
    """Join code whose fence was closed and opened again; None if there is none."""
    opening, _, rest = after.partition("\n")
    fence = FENCE.fullmatch(opening)
    if fence is None or not before.endswith("\n" + find_closing_fence(opening)):
        return None
    head = before[: -len(find_closing_fence(opening)) - 1]
    return f"{head}\n{rest}" if f"\n{opening}\n" in f"\n{head}" else None
