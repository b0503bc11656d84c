"""A passage: the text that is embedded for it, and how neighbouring passages are joined again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge.split.blocks import FENCE, LIST_ITEM, TABLE_DELIMITER, find_closing_fence

SPECIAL_TOKENS = 2
RESERVED_HEADING_TOKENS = 54
"""Tokens that are kept free above every passage, for title and headings."""
WINDOW_TOKENS = 256
HEADING_SEPARATOR = " > "
HEADINGS_END = ". "
"""The model reads a title best as a sentence of its own: a line break alone costs it .04 of nDCG@10."""
OPENING_CHARS = 1000
"""Characters of the text in which its own headings stand."""
HEADING_HASHES = re.compile(r"^#{1,6}\s+|(?<!\s)\s++#++$")
WORD = re.compile(r"[A-Za-z][a-z]*|[^\sA-Za-z]|\n|\s(?=\s)")
"""And white space, as far as it is more than one space between two words."""

CONTINUATION = re.compile(r"[a-z0-9(,;]")
SENTENCE_END = re.compile(r"[.!?…:;。！？][\"')\]*_`]*$|[|>`]$")


def build_embedding_text(title: str, section: Sequence[str], text: str) -> str:
    """Title, headings, text. What is too long above the text is shortened there: the text is always whole."""
    names = _select_headings(title, section, text)
    if (
        estimate_tokens(HEADING_SEPARATOR.join(names)) + 1 > RESERVED_HEADING_TOKENS
    ):  # seldom, and to estimate the text is what costs
        names = _shorten_headings(
            names, max(RESERVED_HEADING_TOKENS, WINDOW_TOKENS - SPECIAL_TOKENS - estimate_tokens(text))
        )
    return f"{render_headings(names)}{text}"


def render_headings(names: Sequence[str]) -> str:
    """What stands above a text, if anything does."""
    return HEADING_SEPARATOR.join(names) + HEADINGS_END if any(names) else ""


def build_indexed_text(title: str, section: Sequence[str], text: str) -> str:
    """What the words of a passage are taken from. What stands in its title and headings too counts more; a title that
    was made from the text itself does not."""
    first = text.lstrip()[:OPENING_CHARS].split("\n", 1)[0]
    made_from_text = " ".join(first.split()).startswith(" ".join(title.rstrip("…").split()))
    return "\n".join([*([] if made_from_text else [title]), *section, text])


def estimate_tokens(text: str) -> int:
    """About how many tokens, rather too many than too few: it must hold for every tokenizer."""
    return sum(_estimate_word_tokens(word) for word in WORD.findall(text))


def _estimate_word_tokens(word: str) -> int:
    return (len(word) + 1) // 2 if word[0].isascii() else len(word.encode("utf-8", "surrogatepass"))


def _select_headings(title: str, section: Sequence[str], text: str) -> list[str]:
    """The title and the headings, but for those that were said already, or that open the text itself."""
    opening = {" ".join(HEADING_HASHES.sub("", line).split()) for line in text[:OPENING_CHARS].split("\n")}
    names: list[str] = []
    for name in (" ".join(title.split()), *section):
        if name and name not in names and name not in opening and not _is_cut_from(name, opening):
            names.append(name)
    return names


def _is_cut_from(name: str, opening: set[str]) -> bool:
    """Whether a name that ends with dots was made from one of these lines."""
    return name.endswith("…") and any(line.startswith(name[:-1]) for line in opening)


def _shorten_headings(names: list[str], room: int) -> list[str]:
    """The title says what it is about and the last heading where we are: those between are left out first."""
    names = list(names)
    while len(names) > 2 and estimate_tokens(HEADING_SEPARATOR.join(names)) + 1 > room:
        del names[1]
    if names and estimate_tokens(HEADING_SEPARATOR.join(names)) + 1 > room:
        share = room // len(names) - 2
        names = [_shorten_heading(name, share) for name in names]
    return [name for name in names if name]


def _shorten_heading(name: str, room: int) -> str:
    used = 0
    for found in WORD.finditer(name):
        used += _estimate_word_tokens(found[0])
        if used > room:
            kept = name[: found.start()]
            return kept.rpartition(" ")[0] or kept
    return name


def join_passages(texts: Sequence[str]) -> str:
    """A table has its header once, code one fence, and a sentence that was cut is whole."""
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
    """The rows of a table that goes on under the header that stands above already."""
    header, _, rest = after.partition("\n")
    delimiter, _, rows = rest.partition("\n")
    if "|" not in header or not TABLE_DELIMITER.fullmatch(delimiter) or not before.endswith("|"):
        return None
    table = before.rpartition("\n\n")[2]
    return rows if table.startswith(f"{header}\n{delimiter}\n") else None


def _join_code(before: str, after: str) -> str | None:
    """Code that was closed only to be opened again."""
    opening, _, rest = after.partition("\n")
    fence = FENCE.fullmatch(opening)
    if fence is None or not before.endswith("\n" + find_closing_fence(opening)):
        return None
    head = before[: -len(find_closing_fence(opening)) - 1]
    return f"{head}\n{rest}" if f"\n{opening}\n" in f"\n{head}" else None
