"""Pages of documents: sizes, pictures, words, and the places of chunks; blocking, for worker threads."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from knowledge.blobs.api import Blobs, IsReferenced
from knowledge.engine.ingest.originals import missing_original_error, open_original
from knowledge.engine.pages.drawing_queue import DrawingQueue
from knowledge.errors import InvalidParameter, NoPages
from knowledge.extract.base import Source
from knowledge.extract.pages.locate import LocatedChunk, cut_words, locate_chunks
from knowledge.extract.pages.packed_words import unpack_words
from knowledge.extract.pages.page_reader import DRAWABLE_TYPES, PDF_TYPE, PageReader, check_page_number
from knowledge.extract.process.parsers import Parsers
from knowledge.model import Chunk, Document, ExtractionMethod
from knowledge.model.pages import (
    DRAWING_VERSION,
    MAX_PAGES_PER_ANSWER,
    PAGE_WIDTHS,
    THUMBNAIL_WIDTH,
    DocumentPages,
    OutlineEntry,
    PageImage,
    PageWords,
    Place,
    Places,
    PlacesNote,
    WordSource,
    make_page_etag,
)
from knowledge.store.chunks import ChunkStore
from knowledge.store.pages.cache import PageCache
from knowledge.store.pages.words import PageWordStore
from knowledge.telemetry import metrics

MAX_PLACED_CHUNKS = 200
"""Chunks of one call of `find_places`."""
KEPT_PAGES = 64
"""Pages whose words are kept in memory."""
MIN_BESIDE_LETTERS, MIN_BESIDE_SHARE = 4, 0.8
"""The beginning or end of a chunk that is missing on its page is placed on the page beside if it has so many letters
and so much of it is there."""


class PageService:
    def __init__(
        self,
        parsers: Parsers,
        files: Blobs,
        cache: PageCache,
        chunks: ChunkStore,
        words: PageWordStore,
        is_referenced: IsReferenced,
    ) -> None:
        self._reader, self._files, self._cache = PageReader(parsers), files, cache
        self._chunks, self._words, self._is_referenced = chunks, words, is_referenced
        self._queue = DrawingQueue()
        self._kept = _KeptWords()

    def close(self) -> None:
        self._queue.close()

    def forget(self, sha256: str) -> None:
        """Delete what is kept of an original that was deleted."""
        self._cache.forget(sha256)
        self._kept.forget(sha256)

    # -- pages ----------------------------------------------------------------------------------

    def list_pages(self, document: Document, owner: int, first: int, last: int | None) -> Future[DocumentPages]:
        self._check_drawable(document)
        stop = first + MAX_PAGES_PER_ANSWER - 1
        stop = stop if last is None else min(last, stop)
        return self._queue.submit(
            ("sizes", document.sha256, first, stop),
            owner,
            lambda: self._list_sizes(document, first, stop),
        )

    def _list_sizes(self, document: Document, first: int, last: int) -> DocumentPages:
        with self._open_source(document) as source:
            return self._reader.list_pages(source, document.doc_type, first, last)

    def find_image(self, document: Document, page: int, width: int) -> PageImage | None:
        """Return a page from the cache."""
        if width not in (*PAGE_WIDTHS, THUMBNAIL_WIDTH):
            widths = " or ".join(map(str, PAGE_WIDTHS))
            raise InvalidParameter(f"width must be {widths}, not {width}", parameter="width", given=width)
        self._check_drawable(document)
        data = self._cache.get(document.sha256, _make_name(page, width))
        (metrics.CACHE_MISSES if data is None else metrics.CACHE_HITS)["drawn_pages"].inc()
        return None if data is None else PageImage(data, make_page_etag(document.sha256, page, width))

    def draw(self, document: Document, owner: int, page: int, width: int) -> Future[PageImage]:
        """Draw a page in a child and put it into the cache; the same page is drawn once at a time."""
        self._check_drawable(document)

        def work() -> PageImage:
            known = self.find_image(document, page, width)  # drawn between the first look and this one
            if known is not None:
                return known
            with self._open_source(document) as source:
                data = self._reader.draw_page(source, document.doc_type, page, width)
            self._cache.put(
                document.sha256, _make_name(page, width), data, lambda: self._is_referenced(document.sha256)
            )
            return PageImage(data, make_page_etag(document.sha256, page, width))

        return self._queue.submit(("image", document.sha256, page, width), owner, work)

    def _check_drawable(self, document: Document) -> None:
        """Raise NoPages for a format that cannot be drawn, and StorageFailed if the original is known to be missing."""
        if document.doc_type not in DRAWABLE_TYPES:
            raise NoPages(
                f"Document {document.id} has no pages to draw: its type is {document.doc_type}",
                document_id=document.id,
                doc_type=document.doc_type,
            )
        if self._files.is_known_missing(document.sha256):
            raise missing_original_error(f"document {document.id}", document_id=document.id)

    @contextmanager
    def _open_source(self, document: Document) -> Iterator[Source]:
        owner = f"document {document.id}"
        with open_original(self._files, document.sha256, owner, document_id=document.id) as path:
            yield Source(path, document.filename or document.title)

    # -- words ----------------------------------------------------------------------------------

    def read_words(self, document: Document, owner: int, page: int) -> Future[PageWords]:
        self._check_drawable(document)
        return self._queue.submit(
            ("words", document.id, document.updated_at, page), owner, lambda: self._find_words(document, page)
        )

    def _find_words(self, document: Document, page: int) -> PageWords:
        stored = self._find_stored(document, [page])
        if page in stored:
            return stored[page]
        with self._open_source(document) as source:
            return self._read_page(document, source, page)

    def _read_page(self, document: Document, source: Source, page: int) -> PageWords:
        if document.doc_type == PDF_TYPE:
            return self._read_text_layer(document, source, [page])[page]
        found = self._reader.list_pages(source, document.doc_type, page, page)
        check_page_number(page, found.page_count)
        return PageWords(page, found.pages[0].width, found.pages[0].height, (), WordSource.NONE)

    def _find_stored(self, document: Document, pages: Sequence[int]) -> dict[int, PageWords]:
        """Return the words that OCR found on these pages; damaged ones lack, and `verify` reports them."""
        found = {}
        for page, data in self._words.find(document.id, pages).items():
            with suppress(ValueError):
                found[page] = unpack_words(data, page)
        return found

    def _read_text_layer(self, document: Document, source: Source, pages: Iterable[int]) -> dict[int, PageWords]:
        found = {page: self._kept.get(document.sha256, page) for page in pages}
        missing = [page for page, words in found.items() if words is None]
        if missing:
            for words in self._reader.read_words(source, missing):
                self._kept.put(document.sha256, words)
                found[words.page] = words
        return {page: words for page, words in found.items() if words is not None}

    # -- places ---------------------------------------------------------------------------------

    def find_places(self, document: Document, owner: int, first: int, last: int) -> Future[Places] | Places:
        """Return the boxes of the chunks from first to last, both included."""
        if last < first:
            raise InvalidParameter(f"to must be at least from ({first}), not {last}", parameter="to", given=last)
        if last - first >= MAX_PLACED_CHUNKS:
            raise InvalidParameter(
                f"from and to select {last - first + 1} passages; at most {MAX_PLACED_CHUNKS} are placed at a time",
                parameter="to",
                given=last,
            )
        if document.doc_type not in DRAWABLE_TYPES:
            return Places((), PlacesNote.NO_PAGES)
        self._check_drawable(document)
        return self._queue.submit(
            ("places", document.id, document.updated_at, first, last),
            owner,
            lambda: self._locate(document, first, last),
        )

    def _locate(self, document: Document, first: int, last: int) -> Places:
        wanted = self._chunks.list_of_document(document.id, first, last - first + 1)
        if not wanted:
            return Places(())
        pages = sorted({get_page(chunk) for chunk in wanted})
        beside = {page + step for page in pages for step in (-1, 0, 1)}
        chunks = self._chunks.list_on_pages(document.id, beside if document.doc_type == PDF_TYPE else None)
        with self._open_source(document) as source:
            layers = _PageLayers(self, document, source)
            located = locate_on_pages(chunks, pages, {chunk.index for chunk in wanted}, layers)
        return Places(tuple(located), self._find_note(document, layers))

    def _find_note(self, document: Document, layers: _PageLayers) -> PlacesNote | None:
        recognised = document.method is not ExtractionMethod.TEXT_EXTRACTION
        if recognised and not layers.has_stored and not self._words.has_any(document.id):
            return PlacesNote.READ_BEFORE_BOXES
        return None

    def read_layers(self, document: Document, source: Source, pages: Sequence[int]) -> dict[int, PageWords]:
        """Return the words of pages: stored ones of OCR, otherwise of the text layer; pages that do not exist lack."""
        count = document.page_count or 1
        exist = [page for page in pages if 1 <= page <= count]
        found = self._find_stored(document, exist)
        left = [page for page in exist if page not in found]
        if left and document.doc_type == PDF_TYPE:
            found |= self._read_text_layer(document, source, left)
        for page in left if document.doc_type != PDF_TYPE else ():
            for size in self._reader.list_pages(source, document.doc_type, page, page).pages:
                found[page] = PageWords(page, size.width, size.height, (), WordSource.NONE)
        return found


@dataclass(slots=True)
class _PageLayers:
    """The words of the pages of one document, read when they are needed."""

    service: PageService
    document: Document
    source: Source
    has_stored: bool = False

    def read(self, pages: Sequence[int]) -> dict[int, PageWords]:
        found = self.service.read_layers(self.document, self.source, pages)
        self.has_stored |= any(words.source is WordSource.OCR for words in found.values())
        return found


def locate_on_pages(
    chunks: Sequence[Chunk], pages: Sequence[int], wanted: set[int], layers: _PageLayers
) -> list[Place]:
    """Place chunks on their pages, and what is left of them on the pages beside.

    The last heading of a page belongs to the first chunk of the next page, so that a chunk may begin a page earlier.
    """
    words = layers.read(pages)
    by_page: dict[int, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        by_page[get_page(chunk)].append(chunk)
    found: dict[int, dict[int, LocatedChunk]] = defaultdict(dict)
    for page in pages:
        _locate_page(by_page[page], words.get(page), found)
    for page in pages:
        for chunk in dict.fromkeys((*by_page[page][:1], *by_page[page][-1:])):
            if chunk.index not in wanted or page not in found[chunk.index]:
                continue
            own = found[chunk.index][page]
            for beside, missing in ((page - 1, own.before), (page + 1, own.after)):
                if MIN_BESIDE_LETTERS <= missing < own.letters:
                    words |= {} if beside in words else layers.read([beside])
                    text = cut_words(chunk.text, missing, from_end=beside > page)
                    _locate_beside(chunk, text, by_page[beside], words.get(beside), found)
    sizes = {page: (layer.width, layer.height) for page, layer in words.items()}
    return [
        Place(chunk.index, page, *sizes[page], measure_coverage(found[chunk.index]), located.boxes)
        for chunk in chunks
        if chunk.index in wanted
        for page, located in sorted(found[chunk.index].items())
        if located.boxes or page == get_page(chunk)
    ]


def _locate_page(chunks: Sequence[Chunk], words: PageWords | None, found: dict[int, dict[int, LocatedChunk]]) -> None:
    if words is None:
        return
    located = locate_chunks(words.words, words.width, words.height, [chunk.text for chunk in chunks])
    for chunk, place in zip(chunks, located, strict=True):
        found[chunk.index][words.page] = place


def _locate_beside(
    chunk: Chunk,
    text: str,
    others: Sequence[Chunk],
    words: PageWords | None,
    found: dict[int, dict[int, LocatedChunk]],
) -> None:
    """Place a part of a chunk on a page beside its own, where the chunks of that page leave it."""
    if words is None:
        return
    texts = [*(other.text for other in others), text]
    part = locate_chunks(words.words, words.width, words.height, texts)[-1]
    if part.letters and part.found >= MIN_BESIDE_SHARE * part.letters:
        found[chunk.index][words.page] = part


def measure_coverage(places: dict[int, LocatedChunk]) -> float:
    """Return the share of a chunk's letters that were found on all its pages together."""
    letters = max((place.letters for place in places.values()), default=0)
    return round(min(1.0, sum(place.found for place in places.values()) / letters), 3) if letters else 0.0


def get_page(chunk: Chunk) -> int:
    """Return the page of a chunk; formats without pages are drawn as one."""
    return chunk.page or 1


def list_outline(chunks: Iterable[Chunk]) -> list[OutlineEntry]:
    """Return the headings of a document, each with the first chunk below it."""
    entries: list[OutlineEntry] = []
    path: tuple[str, ...] = ()
    for chunk in chunks:
        shared = 0
        while shared < min(len(path), len(chunk.section)) and path[shared] == chunk.section[shared]:
            shared += 1
        entries += [
            OutlineEntry(chunk.section[level], level + 1, chunk.index, chunk.page)
            for level in range(shared, len(chunk.section))
        ]
        path = chunk.section
    return entries


def _make_name(page: int, width: int) -> str:
    return f"{page}-{width}-{DRAWING_VERSION}"


class _KeptWords:
    """The words of the pages that were read last, in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: OrderedDict[tuple[str, int], PageWords] = OrderedDict()

    def get(self, sha256: str, page: int) -> PageWords | None:
        with self._lock:
            found = self._pages.get((sha256, page))
            if found is not None:
                self._pages.move_to_end((sha256, page))
            return found

    def put(self, sha256: str, words: PageWords) -> None:
        with self._lock:
            self._pages[sha256, words.page] = words
            while len(self._pages) > KEPT_PAGES:
                self._pages.popitem(last=False)

    def forget(self, sha256: str) -> None:
        with self._lock:
            for key in [key for key in self._pages if key[0] == sha256]:
                del self._pages[key]
