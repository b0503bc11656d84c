"""What is embedded for a passage: its title, the headings above it and its text, together within the window."""

from __future__ import annotations

import re
from collections.abc import Sequence

SPECIAL_TOKENS = 2
ROOM_ABOVE = 54
"""Tokens that are kept free above every passage, for title and headings."""
WINDOW = 256
BETWEEN = " > "
STOP = ". "
"""The model reads a title best as a sentence of its own: a line break alone costs it .04 of nDCG@10."""
OPENING = 1000
"""Characters of the text in which its own headings stand."""
HASHES = re.compile(r"^#{1,6}\s+|(?<!\s)\s++#++$")
WORD = re.compile(r"[A-Za-z][a-z]*|[^\sA-Za-z]|\n|\s(?=\s)")
"""And white space, as far as it is more than one space between two words."""


def passage_text(title: str, section: Sequence[str], text: str) -> str:
    """Title, headings, text. What is too long above the text is shortened there: the text is always whole."""
    names = _names(title, section, text)
    if estimate(BETWEEN.join(names)) + 1 > ROOM_ABOVE:  # seldom, and to estimate the text is what costs
        names = _shortened(names, max(ROOM_ABOVE, WINDOW - SPECIAL_TOKENS - estimate(text)))
    return f"{above(names)}{text}"


def above(names: Sequence[str]) -> str:
    """What stands above a text, if anything does."""
    return BETWEEN.join(names) + STOP if any(names) else ""


def passage_words(title: str, section: Sequence[str], text: str) -> str:
    """What the words of a passage are taken from. What stands in its title and headings too counts more; a title that
    was made from the text itself does not."""
    first = text.lstrip()[:OPENING].split("\n", 1)[0]
    made_from_text = " ".join(first.split()).startswith(" ".join(title.rstrip("…").split()))
    return "\n".join([*([] if made_from_text else [title]), *section, text])


def estimate(text: str) -> int:
    """About how many tokens, rather too many than too few: it must hold for every tokenizer."""
    return sum(_cost(word) for word in WORD.findall(text))


def _cost(word: str) -> int:
    return (len(word) + 1) // 2 if word[0].isascii() else len(word.encode("utf-8", "surrogatepass"))


def _names(title: str, section: Sequence[str], text: str) -> list[str]:
    """The title and the headings, but for those that were said already, or that open the text itself."""
    opening = {" ".join(HASHES.sub("", line).split()) for line in text[:OPENING].split("\n")}
    names: list[str] = []
    for name in (" ".join(title.split()), *section):
        if name and name not in names and name not in opening and not _cut_from(name, opening):
            names.append(name)
    return names


def _cut_from(name: str, opening: set[str]) -> bool:
    """Whether a name that ends with dots was made from one of these lines."""
    return name.endswith("…") and any(line.startswith(name[:-1]) for line in opening)


def _shortened(names: list[str], room: int) -> list[str]:
    """The title says what it is about and the last heading where we are: those between are left out first."""
    names = list(names)
    while len(names) > 2 and estimate(BETWEEN.join(names)) + 1 > room:
        del names[1]
    if names and estimate(BETWEEN.join(names)) + 1 > room:
        share = room // len(names) - 2
        names = [_cut(name, share) for name in names]
    return [name for name in names if name]


def _cut(name: str, room: int) -> str:
    used = 0
    for found in WORD.finditer(name):
        used += _cost(found[0])
        if used > room:
            kept = name[: found.start()]
            return kept.rpartition(" ")[0] or kept
    return name
