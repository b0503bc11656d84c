"""liteparse's reading of a PDF, in batches of pages so that a long document never stands in memory as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from liteparse import LiteParse, ParseBatch, ParsedPage

from knowledge.extract.base import Source
from knowledge.extract.text.markdown import find_links

T = TypeVar("T")
PAGES_PER_BATCH = 20
EMPTY_FENCE = re.compile(r"^```\w*\s*```$")


def read_structured_pages(source: Source, count: int, forms: bool) -> Iterator[str]:
    """The Markdown of each page, in order; an empty one where liteparse has nothing to say."""
    expected = 1
    for number, markdown in _read_numbered_pages(source, forms):
        while expected < number:
            yield ""
            expected += 1
        if expected == number <= count:
            yield markdown
            expected += 1
    for _ in range(expected, count + 1):
        yield ""


def _read_numbered_pages(source: Source, forms: bool) -> Iterator[tuple[int, str]]:
    batches = _try_or_none(lambda: _batches(source, forms))
    while batches is not None and (batch := _try_or_none(lambda: next(batches, None))) is not None:
        for page in batch.result.pages:
            yield page.page_num, _tidy_markdown(page.markdown) + _render_form_fields(page)


def _try_or_none(step: Callable[[], T | None]) -> T | None:
    """Whatever liteparse stumbles over, pdfium still has the text. A panic in Rust is not an Exception."""
    try:
        return step()
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None


def _batches(source: Source, forms: bool) -> Iterator[ParseBatch]:
    parser = LiteParse(
        ocr_enabled=False,
        image_mode="off",
        output_format="markdown",
        quiet=True,
        num_workers=1,
        extract_links=False,
        keep_headers_footers=True,  # what it takes for such are chapter headings too often
        extract_form_fields=forms,
        continue_on_page_error=True,
    )
    batches: Iterator[ParseBatch] = parser.parse_batches(source.read(), batch_size=PAGES_PER_BATCH)
    return batches


def _tidy_markdown(markdown: str) -> str:
    return EMPTY_FENCE.sub("", _drop_images(markdown).strip())


def _drop_images(markdown: str) -> str:
    """Each goes with the end of its line."""
    pieces, done = [], 0
    for image in find_links(markdown, "!["):
        pieces.append(markdown[done : image.start])
        done = image.end + markdown.startswith("\n", image.end)
    return "".join(pieces) + markdown[done:]


def _render_form_fields(page: ParsedPage) -> str:
    """What somebody entered into the form on this page; the field's own words say what it means."""
    lines = [
        f"- {field.alternate_name or field.name}: {field.value}"
        for field in page.form_fields or []
        if field.value and field.value.strip() and (field.alternate_name or field.name) and field.value != "Off"
    ]
    return "\n\n" + "\n".join(lines) if lines else ""
