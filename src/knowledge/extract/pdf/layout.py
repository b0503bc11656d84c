"""liteparse's reading of a PDF, in batches of pages so that a long document never stands in memory as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from liteparse import LiteParse

from knowledge.extract.base import Source
from knowledge.extract.links import find_links

T = TypeVar("T")
BATCH = 20
EMPTY_FENCE = re.compile(r"^```\w*\s*```$")


class _Field(Protocol):
    name: str | None
    alternate_name: str | None
    value: str | None
    field_type: str
    checked: bool | None


class _Page(Protocol):
    page_num: int
    markdown: str
    form_fields: list[_Field] | None


def pages(source: Source, count: int, forms: bool) -> Iterator[str]:
    """The Markdown of each page, in order; an empty one where liteparse has nothing to say."""
    expected = 1
    for number, markdown in _numbered(source, forms):
        while expected < number:
            yield ""
            expected += 1
        if expected == number <= count:
            yield markdown
            expected += 1
    for _ in range(expected, count + 1):
        yield ""


def _numbered(source: Source, forms: bool) -> Iterator[tuple[int, str]]:
    session = _attempt(lambda: _session(source, forms))
    # The native pages are read directly: liteparse's own wrapper would copy every glyph into Python first.
    while session is not None and (batch := _attempt(session.next_batch)) is not None:
        for page in batch.result.pages:
            yield page.page_num, _tidy(page.markdown) + _filled(page)


def _attempt(step: Callable[[], T | None]) -> T | None:
    """Whatever liteparse stumbles over, pdfium still has the text. A panic in Rust is not an Exception."""
    try:
        return step()
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None


def _session(source: Source, forms: bool) -> _Session:
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
    session: _Session = parser._native.open_batch_session_bytes(source.read(), BATCH)
    return session


class _Result(Protocol):
    pages: list[_Page]


class _Batch(Protocol):
    result: _Result


class _Session(Protocol):
    def next_batch(self) -> _Batch | None: ...


def _tidy(markdown: str) -> str:
    return EMPTY_FENCE.sub("", _without_images(markdown).strip())


def _without_images(markdown: str) -> str:
    """Each goes with the end of its line."""
    pieces, done = [], 0
    for image in find_links(markdown, "!["):
        pieces.append(markdown[done : image.start])
        done = image.end + markdown.startswith("\n", image.end)
    return "".join(pieces) + markdown[done:]


def _filled(page: _Page) -> str:
    """What somebody entered into the form on this page; the field's own words say what it means."""
    lines = [
        f"- {field.alternate_name or field.name}: {field.value}"
        for field in page.form_fields or []
        if field.value and field.value.strip() and (field.alternate_name or field.name) and field.value != "Off"
    ]
    return "\n\n" + "\n".join(lines) if lines else ""
