"""Reads the original of a document again for the word boxes that OCR gives; text, chunks and ids stay as they are."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.blobs.api import Blobs
from knowledge.engine.ingest.document_reader import load_words
from knowledge.engine.ingest.originals import open_original
from knowledge.errors import DocumentNotFound
from knowledge.extract.base import Source
from knowledge.extract.pages.packed_words import pack_words
from knowledge.extract.pages.page_reader import DRAWABLE_TYPES
from knowledge.extract.process.frames import BrokenFrame, FrameKind
from knowledge.extract.process.parsers import Parsers, TaskCall
from knowledge.extract.process.streams import FrameStream
from knowledge.extract.text.source_code import FENCE_LANGUAGES, MAX_STRUCTURED_BYTES
from knowledge.model import ExtractionMethod, ReportProgress
from knowledge.model.pages import PageWords, WordSource
from knowledge.store.jobs.rows import JobClaim
from knowledge.store.pages.reread import RereadQueue, RereadTypes
from knowledge.store.pages.words import StagedWords

REREAD_TYPES = RereadTypes(frozenset(DRAWABLE_TYPES), frozenset(FENCE_LANGUAGES), MAX_STRUCTURED_BYTES)
TASK = TaskCall("knowledge.extract.process.tasks:extract_words", {})
NO_WORDS = StagedWords(0, pack_words(PageWords(0, 0.0, 0.0, (), WordSource.NONE)))
"""Stored under page 0, which no document has, to show that a document without words was read again."""


def reread_document(
    queue: RereadQueue,
    files: Blobs,
    parsers: Parsers,
    claim: JobClaim,
    ocr_languages: str,
    report: ReportProgress,
    stop: Callable[[], bool],
) -> None:
    """Store the words of the pages that OCR reads; raises DocumentNotFound if the document was removed."""
    found = None if claim.document_id is None else queue.find_source(claim.document_id)
    if found is None or claim.document_id is None:
        raise DocumentNotFound("The document was removed", document_id=claim.document_id)
    # every page was recognised, also those that may have a text layer: the caller asked for it
    force_ocr = found.method is ExtractionMethod.OCR
    words: list[StagedWords] = []
    pages = 0
    report("Reading", 0, 0)
    with (
        open_original(files, found.sha256, f"document {claim.document_id}", document_id=claim.document_id) as path,
        parsers.run_task(
            FrameStream, TASK, Source(path, found.filename, force_ocr, ocr_languages), cancelled=stop
        ) as stream,
    ):
        for kind, payload in stream.receive_frames():
            if kind is FrameKind.PAGE:
                pages += 1
                report(f"Processing page {pages}", pages, 0)
                continue
            try:
                if kind is not FrameKind.WORDS:
                    raise BrokenFrame(f"{kind.name} instead of the words of a page")
                words.append(load_words(payload))
            except BrokenFrame as error:
                raise stream.stop_with_error(error) from error
    queue.store(claim, claim.document_id, found.content_id, words or [NO_WORDS])
