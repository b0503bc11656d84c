"""Repairs of titles: metadata and bookmarks that cannot be decoded, headings merged with the following line."""

from __future__ import annotations

import re
from contextlib import suppress

import pypdfium2 as pdfium

NUMBERING = re.compile(r"[\s\d.:§)(-]++|(?:[IVXLC]+|[A-Z])[.)]\s++")
TRAILING_MARKS = re.compile(r"[\s.:]++")
"""Matched against the reversed title, because a search for the end of a text takes quadratic time."""
HEADING = re.compile(r"^#{1,6}\s+")
MAX_EXTRA_LETTERS = 80
"""Letters that a heading may have more than its bookmark."""


def read_metadata(document: pdfium.PdfDocument) -> dict[str, str]:
    """Return the document information without empty values and without values that cannot be decoded.

    Fault: pypdfium2 raises UnicodeDecodeError for a value with an unpaired UTF-16 surrogate.
    """
    found: dict[str, str] = {}
    for key in document.METADATA_KEYS:
        with suppress(UnicodeDecodeError):
            found[key] = document.get_metadata_value(key).strip()
    return {key: value for key, value in found.items() if value}


def read_bookmark_title(bookmark: pdfium.PdfBookmark) -> str:
    """Return the title of a bookmark, or an empty text where it cannot be decoded.

    Fault: pypdfium2 raises UnicodeDecodeError for a title with an unpaired UTF-16 surrogate.
    """
    try:
        return " ".join(bookmark.get_title().split())
    except UnicodeDecodeError:
        return ""


def split_merged_title(lines: list[str], title: str, titles: list[str]) -> int | None:
    """Put a title and the text after it into two lines, and return the place of the title; None if there is none.

    Fault: liteparse joins a heading with the heading or the paragraph below it.
    """
    start = re.compile(rf"(?i)[\s\d.:§)(-]*{re.escape(normalise_title(title))}[.:]?\s+(?-i:(?=[^\W\d_a-zß-ÿ]))")
    for place, line in enumerate(lines):
        words = HEADING.sub("", line).replace("*", "")
        if line.startswith("|") or not (found := start.match(words)):
            continue
        rest = words[found.end() :]
        if words == line or len(rest) > MAX_EXTRA_LETTERS or normalise_title(rest).startswith(tuple(titles)):
            lines[place : place + 1] = [found[0].strip(), "", rest]
            return place
    return None


def normalise_title(line: str) -> str:
    """Return a line without its number, emphasis and case."""
    words = line.replace("*", "")
    numbering = NUMBERING.match(words)
    words = words[numbering.end() :] if numbering else words
    trailing = TRAILING_MARKS.match(words[::-1])
    return words[: len(words) - (trailing.end() if trailing else 0)].strip().casefold()
