"""The title of a PDF: from its metadata unless a program wrote it there, otherwise its first heading."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

PLACEHOLDER_VALUE = re.compile(
    r"(?i)^(\(?(?:untitled|anonymous|unspecified|unknown)\)?|microsoft word - .*|"
    r".*\.(docx?|indd|pptx?|xlsx?|pdf|dvi|tex|qxd|rtf))$"
)
"""Metadata that programs write where the author wrote none."""
PLACEHOLDER_TITLE = re.compile(
    r"(?i)(microsoft (powerpoint|excel|publisher|office \w+) - .*|(powerpoint|slide) presentation"
    r"|(new |scanned )?(document|presentation|image|scan|page|slide|layout|file|book|workbook|untitled)[ _-]?\d*"
    r"|(no )?title|print|printing|(scan|doc|img|image)[ _-]?\d[\d _-]*"
    r"|.*\.(odt|odp|ods|txt|html?|ps|eps|ai|cdr|tmp|jpe?g|png|tiff?)"
    r"|(file|https?):.*|[a-z]:\\.*|/[^/]*/.*|[^\s_]*_\S*|[\W\d_]*)"
)
"""Titles that programs write, names of files, and numbers."""
HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)
MIN_TITLE_LETTERS, MAX_HEADING_CHARS = 3, 200


def find_pdf_title(in_metadata: str | None, filename: str, texts: Iterable[str]) -> str | None:
    """Return the title of a PDF, given the Markdown of its first pages; None if only its file name is left."""
    if in_metadata and not is_placeholder_title(in_metadata, filename):
        return in_metadata
    return next(filter(None, map(find_first_heading, texts)), None)


def is_placeholder_title(title: str, filename: str) -> bool:
    line = " ".join(title.split())
    names = {_fold_name(filename), _fold_name(PurePath(filename).stem)}
    return PLACEHOLDER_TITLE.fullmatch(line) is not None or _fold_name(line) in names


def _fold_name(name: str) -> str:
    return re.sub(r"[\W_]+", " ", name.casefold()).strip()


def find_first_heading(text: str) -> str | None:
    """Return the first heading of a Markdown text that can be a title, without emphasis."""
    for found in HEADING.finditer(text):
        words = " ".join(found[1].replace("*", "").replace("`", "").strip("# \t").split())
        if sum(map(str.isalpha, words)) >= MIN_TITLE_LETTERS and len(words) <= MAX_HEADING_CHARS:
            return words
    return None
