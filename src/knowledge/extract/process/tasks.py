"""The tasks of a child: extract the pages of a document, identify its type, unpack an archive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from knowledge import errors
from knowledge.extract import formats, zip_bundle
from knowledge.extract.clean_text import clean_facts, clean_pages
from knowledge.extract.pages.packed_words import pack_words
from knowledge.extract.process import frames
from knowledge.extract.process.frames import FrameKind
from knowledge.extract.process.request import TaskRequest


def extract_pages(request: TaskRequest) -> Iterator[bytes]:
    extracted = request.load_parser()(request.document)
    yield frames.dump_facts(clean_facts(extracted.facts))
    for page in clean_pages(extracted.pages):
        yield frames.dump_page(page)


def extract_words(request: TaskRequest) -> Iterator[bytes]:
    """Yield a frame for each page, without its text, and the words of those that OCR has read."""
    for page in clean_pages(request.load_parser()(request.document).pages):
        yield frames.dump_page(replace(page, text=""))
        if page.words is not None:
            yield frames.dump_bytes_frame(FrameKind.WORDS, {"page": page.words.page}, pack_words(page.words))


def identify(request: TaskRequest) -> Iterator[bytes]:
    yield frames.dump_frame(FrameKind.ANSWER, {"doc_type": formats.identify_source(request.document)})


def unpack(request: TaskRequest) -> Iterator[bytes]:
    """Yield the name and then the bytes of each member; a damaged one ends with a DAMAGED frame."""
    for name, pieces in zip_bundle.read_members(request.document):
        yield frames.dump_frame(FrameKind.MEMBER, {"name": name})
        try:
            for piece in pieces:
                yield frames.dump_bytes_frame(FrameKind.DATA, {}, piece)
        except errors.Damaged as error:
            yield frames.dump_frame(FrameKind.DAMAGED, {"message": str(error)})
