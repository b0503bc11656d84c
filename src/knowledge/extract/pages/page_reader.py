"""Asks a child process for the pages of a document and their words, and validates what it sends."""

from __future__ import annotations

from dataclasses import replace

from knowledge.errors import PageNotFound
from knowledge.extract.base import Source
from knowledge.extract.pages.packed_words import unpack_words
from knowledge.extract.process import frames
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.process.frames import BrokenFrame, FrameKind, Payload
from knowledge.extract.process.parsers import Parsers, TaskCall
from knowledge.extract.process.streams import FrameStream
from knowledge.model import Json
from knowledge.model.pages import DocumentPages, PageSize, PageWords

TASKS_MODULE = "knowledge.extract.pages.tasks"
PDF_TYPE = "pdf"
IMAGE_TYPES = frozenset({"svg", "png", "jpg", "tiff", "webp", "gif", "bmp"})
DRAWABLE_TYPES = IMAGE_TYPES | {PDF_TYPE}
MAX_DRAW_SECONDS = 20.0
MAX_DRAW_MEMORY_BYTES = 1000 << 20
MAX_IMAGE_BYTES = 32 << 20
DATA_FRAME_BYTES = 1 << 20
WEBP_HEAD = b"RIFF"


def check_page_number(number: int, count: int) -> None:
    if not 1 <= number <= count:
        raise PageNotFound(
            f"The document has no page {number}: it has {count} page{'s' if count != 1 else ''}",
            page=number,
            page_count=count,
        )


class PageReader:
    """Asks children for the pages of documents; blocking and thread-safe."""

    def __init__(self, parsers: Parsers) -> None:
        self._parsers = parsers

    @property
    def _limits(self) -> ParserLimits:
        limits = self._parsers.limits
        return replace(
            limits,
            seconds=min(limits.seconds, MAX_DRAW_SECONDS),
            seconds_per_megabyte=0.0,
            memory_bytes=min(limits.memory_bytes, MAX_DRAW_MEMORY_BYTES),
            text_bytes=MAX_IMAGE_BYTES,
        )

    def list_pages(self, source: Source, doc_type: str, first: int, last: int) -> DocumentPages:
        """Return the number of pages of a document, and the sizes of those from first to last."""
        with self._run("list_pages", source, {"doc_type": doc_type, "first": first, "last": last}) as stream:
            kind, payload = stream.receive_frame()
            try:
                if kind is not FrameKind.ANSWER:
                    raise BrokenFrame(f"{kind.name} instead of the pages")
                return _load_pages(payload, first, last)
            except BrokenFrame as error:
                raise stream.stop_with_error(error) from error

    def draw_page(self, source: Source, doc_type: str, page: int, width: int) -> bytes:
        """Return a page as WebP, this wide or narrower; raises PageNotFound."""
        data = bytearray()
        with self._run("draw_page", source, {"doc_type": doc_type, "page": page, "width": width}) as stream:
            for kind, payload in stream.receive_frames():
                data += payload.data
                if kind is not FrameKind.DATA or len(data) > MAX_IMAGE_BYTES:
                    raise stream.stop_with_error(BrokenFrame("not the bytes of a picture, or too many"))
            if not data.startswith(WEBP_HEAD):
                raise stream.stop_with_error(BrokenFrame("not a picture"))
        return bytes(data)

    def read_words(self, source: Source, pages: list[int]) -> list[PageWords]:
        """Return the words of the text layer of pages of a PDF; raises PageNotFound."""
        found = []
        with self._run("read_words", source, {"pages": [*pages]}) as stream:
            for page in pages:
                kind, payload = stream.receive_frame()
                try:
                    if kind is not FrameKind.DATA:
                        raise BrokenFrame(f"{kind.name} instead of words")
                    found.append(unpack_words(payload.data, page))
                except (BrokenFrame, ValueError) as error:
                    raise stream.stop_with_error(BrokenFrame(str(error))) from error
        return found

    def _run(self, task: str, source: Source, arguments: Json) -> FrameStream:
        return self._parsers.run_task(
            FrameStream, TaskCall(f"{TASKS_MODULE}:{task}", arguments), source, limits=self._limits
        )


def _load_pages(payload: Payload, first: int, last: int) -> DocumentPages:
    count, listed = frames.read_number_field(payload.head, "page_count"), payload.head.get("pages")
    if count is None or count < 0 or not isinstance(listed, list) or len(listed) > last - first + 1:
        raise BrokenFrame("the pages are not a list, or too many")
    return DocumentPages(count, tuple(map(_load_size, listed)))


def _load_size(listed: object) -> PageSize:
    match listed:
        case [int(page), int() | float() as width, int() | float() as height] if width >= 0 and height >= 0:
            return PageSize(page, float(width), float(height))
    raise BrokenFrame("a page has no number or size")
