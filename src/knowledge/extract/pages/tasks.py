"""The tasks of a child that draws pages and reads their words."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import cast

from PIL import Image, WebPImagePlugin  # noqa: F401  loads the encoder before the child is confined

from knowledge.extract.pages import image_pages, pdf_pages
from knowledge.extract.pages.packed_words import pack_words
from knowledge.extract.pages.page_reader import DATA_FRAME_BYTES, PDF_TYPE
from knowledge.extract.process import frames
from knowledge.extract.process.frames import FrameKind
from knowledge.extract.process.request import TaskRequest

WEBP_QUALITY, WEBP_METHOD = 80, 2


def list_pages(request: TaskRequest) -> Iterator[bytes]:
    doc_type, first, last = (request.arguments[name] for name in ("doc_type", "first", "last"))
    source = request.document
    count, pages = (
        pdf_pages.list_page_sizes(source, cast(int, first), cast(int, last))
        if doc_type == PDF_TYPE
        else image_pages.list_page_sizes(source, cast(str, doc_type), cast(int, first), cast(int, last))
    )
    yield frames.dump_frame(
        FrameKind.ANSWER,
        {"page_count": count, "pages": [[each.page, each.width, each.height] for each in pages]},
    )


def draw_page(request: TaskRequest) -> Iterator[bytes]:
    doc_type, number, width = (request.arguments[name] for name in ("doc_type", "page", "width"))
    source = request.document
    image = (
        pdf_pages.draw_page(source, cast(int, number), cast(int, width))
        if doc_type == PDF_TYPE
        else image_pages.draw_page(source, cast(str, doc_type), cast(int, number), cast(int, width))
    )
    data = encode_webp(image)
    for start in range(0, len(data), DATA_FRAME_BYTES):
        yield frames.dump_bytes_frame(FrameKind.DATA, {}, data[start : start + DATA_FRAME_BYTES])


def encode_webp(image: Image.Image) -> bytes:
    encoded = io.BytesIO()
    image.save(encoded, "WEBP", quality=WEBP_QUALITY, method=WEBP_METHOD)
    return encoded.getvalue()


def read_words(request: TaskRequest) -> Iterator[bytes]:
    for found in pdf_pages.read_text_words(request.document, cast("list[int]", request.arguments["pages"])):
        yield frames.dump_bytes_frame(FrameKind.DATA, {"page": found.page}, pack_words(found))
