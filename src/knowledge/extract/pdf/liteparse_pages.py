"""liteparse's reading of a PDF, in batches of pages so that memory does not grow with the document."""

from __future__ import annotations

from collections.abc import Iterator

from liteparse import LiteParse, ParseBatch, ParsedPage

from knowledge.extract.base import Source
from knowledge.extract.pdf.repairs.pages import drop_empty_fence, fill_missing_pages, ignore_parse_failure

PAGES_PER_BATCH = 20


def read_structured_pages(source: Source, count: int, forms: bool) -> Iterator[str]:
    """Yield the Markdown of each page in order; an empty text where liteparse has none."""
    return fill_missing_pages(_read_numbered_pages(source, forms), count)


def _read_numbered_pages(source: Source, forms: bool) -> Iterator[tuple[int, str]]:
    batches = ignore_parse_failure(lambda: _parse_batches(source, forms))
    while batches is not None and (batch := ignore_parse_failure(lambda: next(batches, None))) is not None:
        for page in batch.result.pages:
            yield page.page_num, drop_empty_fence(page.markdown) + _render_form_fields(page)


def _parse_batches(source: Source, forms: bool) -> Iterator[ParseBatch]:
    parser = LiteParse(
        ocr_enabled=False,
        image_mode="off",
        output_format="markdown",
        quiet=True,
        num_workers=1,
        extract_links=False,
        keep_headers_footers=True,  # RunningHeaders removes them: liteparse removes chapter headings too
        extract_form_fields=forms,
        continue_on_page_error=True,
    )
    batches: Iterator[ParseBatch] = parser.parse_batches(source.read(), batch_size=PAGES_PER_BATCH)
    return batches


def _render_form_fields(page: ParsedPage) -> str:
    """Return the filled-in form fields of a page as a list of "label: value"."""
    lines = [
        f"- {field.alternate_name or field.name}: {field.value}"
        for field in page.form_fields or []
        if field.value and field.value.strip() and (field.alternate_name or field.name) and field.value != "Off"
    ]
    return "\n\n" + "\n".join(lines) if lines else ""
