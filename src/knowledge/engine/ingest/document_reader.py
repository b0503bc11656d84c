"""Reading a document as far as its passages, in a child process: parsed, its language told, and split.

The first half of this module runs in the child and the second in the server, which only embeds and stores what comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias, cast

from knowledge.embed.loading import TokenizerSpec
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.clean_text import clean_facts, clean_pages
from knowledge.extract.process import frames
from knowledge.extract.process.frames import BrokenFrame, FrameKind, Payload
from knowledge.extract.process.parsers import Parsers, TaskCall
from knowledge.extract.process.request import PREPARE_ARGUMENT, TaskRequest
from knowledge.extract.process.streams import FrameStream
from knowledge.model import ExtractionMethod, Json
from knowledge.split import SplitPassage, Splitter
from knowledge.text import analyzer

MAX_TITLE_CHARS = 200
MAX_NOTE_TITLE_CHARS = 80
NOTE_TITLE_SCAN_CHARS = 10_000
"""Characters at the beginning of a note among which its title is looked for."""
LANGUAGE_SAMPLE_CHARS = 5000
"""How many characters of a document its language is told from."""
WARM_UP_TEXT = (
    "This is a short text about many small things that people write down for each other every day, with the words that "
    "most of their notes and pages have in common. Here are some lists and numbers (1, 2, 10), a name or two, and "
    "what else would have to be looked up first by everybody who comes after. "
) * 8
"""Longer than one passage, so that every part of the way is gone."""
LANGUAGE_TAG = re.compile("([a-z]{2})(?:[-_]|$)")
LANGUAGE_CODE = re.compile("[a-z]{2}")
MAX_PIECE_CHARS = 1 << 16
"""Far more than a passage of 256 tokens has; a tokenizer that takes a very long word for one token could give more."""
MAX_HEADINGS, MAX_HEADING_CHARS = 12, 2000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a document is to be read."""

    title: str | None
    """What the caller calls it; without, it is called what it calls itself, or by its file name."""
    is_note: bool
    counting: TokenizerSpec

    def dump(self) -> Json:
        return {"title": self.title, "note": self.is_note, PREPARE_ARGUMENT: asdict(self.counting)}

    @classmethod
    def load(cls, arguments: Json) -> ReadOptions:
        title, counting = cast("str | None", arguments["title"]), load_counting(cast(Json, arguments[PREPARE_ARGUMENT]))
        return cls(title, bool(arguments["note"]), counting)


def load_counting(prepared: Json) -> TokenizerSpec:
    return TokenizerSpec(cast("str | None", prepared["folder"]), cast(int, prepared["window"]))


def choose_title(requested: str | None, facts: Facts, filename: str) -> str:
    named = requested or facts.title or Path(filename).stem or filename
    return " ".join(named.split())[:MAX_TITLE_CHARS] or filename


def make_note_title(text: str) -> str:
    """The first line that says something. It looks at the beginning only: a note may be long, and is titled in the
    server."""
    lines = (line.strip().lstrip("#").strip() for line in text[:NOTE_TITLE_SCAN_CHARS].splitlines())
    first = next((line for line in lines if line), "Note")
    return first if len(first) <= MAX_NOTE_TITLE_CHARS else first[: MAX_NOTE_TITLE_CHARS - 1].rstrip() + "…"


# -- in the child -------------------------------------------------------------------------------


def prepare(prepared: Json) -> None:
    """Load the tokenizer and what tells languages, and use both once; the fork server keeps them, with the words that
    the tokenizer remembers, for all its children."""
    _warm_up(load_counting(prepared))


@lru_cache(maxsize=2)
def _warm_up(counting: TokenizerSpec) -> None:
    splitter = Splitter(counting.load_tokenizer())
    for _ in (*splitter.feed(PageText(WARM_UP_TEXT)), *splitter.finish()):
        pass
    analyzer.detect_language(WARM_UP_TEXT)


def split_document(request: TaskRequest) -> Iterator[bytes]:
    """First what is known of the document, then for each page what became of it and the passages that are complete."""
    order, source = ReadOptions.load(request.arguments), request.document
    extracted = _read_note(source) if order.is_note else _clean_extracted(request.load_parser()(source))
    facts, pages = extracted.facts, _PageBuffer(extracted.pages)
    language = analyzer.detect_language(pages.read_sample(LANGUAGE_SAMPLE_CHARS)) or _find_declared_language(facts)
    yield frames.dump_facts(facts)
    yield frames.dump_frame(FrameKind.ANSWER, {"language": language})
    title = choose_title(order.title, facts, source.filename)
    splitter = Splitter(order.counting.load_tokenizer(), title, order.counting.window)
    for page in pages:
        said = {"characters": len(page.text), "blank": not page.text.strip()}
        yield frames.dump_frame(FrameKind.PAGE, frames.build_page_head(page) | said)
        yield from _dump_pieces(splitter.feed(page))
    yield from _dump_pieces(splitter.finish())


def _read_note(source: Source) -> Extraction:
    text = source.path.read_text("utf-8")
    return Extraction(Facts("note", title=make_note_title(text)), iter([PageText(text)]))


def _clean_extracted(extracted: Extraction) -> Extraction:
    return Extraction(clean_facts(extracted.facts), clean_pages(extracted.pages))


def _find_declared_language(facts: Facts) -> str | None:
    """What a document says of its language, without the country; its text is asked first, since many say it wrongly."""
    found = LANGUAGE_TAG.match(facts.language.lower()) if facts.language else None
    return found[1] if found else None


def _dump_pieces(pieces: Iterable[SplitPassage]) -> Iterator[bytes]:
    for piece in pieces:
        head: Json = {"page": piece.page, "section": [name[:MAX_HEADING_CHARS] for name in piece.section]}
        for start in range(0, max(len(piece.text), 1), MAX_PIECE_CHARS):
            yield frames.dump_frame(FrameKind.PIECE, head, piece.text[start : start + MAX_PIECE_CHARS])


class _PageBuffer:
    """Pages with a look ahead."""

    def __init__(self, pages: Iterable[PageText]) -> None:
        self._pages = iter(pages)
        self._ahead: list[PageText] = []

    def read_sample(self, size: int) -> str:
        text = ""
        while len(text) < size and (page := next(self._pages, None)) is not None:
            self._ahead.append(page)
            text += page.text[:size] + "\n"
        return text

    def __iter__(self) -> Iterator[PageText]:
        yield from self._ahead
        self._ahead = []
        yield from self._pages


# -- in the server ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageSummary:
    """A page that the child has read; its passages follow, as far as they are complete."""

    number: int | None
    method: ExtractionMethod
    warning: str | None
    characters: int
    is_blank: bool


ReadingPart: TypeAlias = PageSummary | SplitPassage


class DocumentReading(FrameStream):
    """A context manager: inside it facts and language are known, and iterating yields pages and passages as they come.
    Nothing that the child sends is believed unchecked."""

    facts: Facts
    language: str | None

    def read_start(self) -> None:
        first, facts = self.receive_frame()
        second, answer = self.receive_frame()
        try:
            if (first, second) != (FrameKind.FACTS, FrameKind.ANSWER):
                raise BrokenFrame("pages came before facts")
            self.facts, self.language = frames.load_facts(facts), _load_language(answer)
        except BrokenFrame as error:
            raise self.stop_with_error(error) from error

    def __iter__(self) -> Iterator[ReadingPart]:
        for mark, payload in self.receive_frames():
            try:
                part = _load_part(mark, payload)
            except BrokenFrame as error:
                raise self.stop_with_error(error) from error
            yield part


def read_document(
    parsers: Parsers, source: Source, options: ReadOptions, cancelled: Callable[[], bool]
) -> DocumentReading:
    call = TaskCall(f"{__name__}:split_document", options.dump(), f"{__name__}:prepare")
    return parsers.run_task(DocumentReading, call, source, cancelled=cancelled)


def _load_language(payload: Payload) -> str | None:
    code = frames.read_text_field(payload.head, "language", 2)
    if code is not None and not LANGUAGE_CODE.fullmatch(code):
        raise BrokenFrame("it named no language")
    return code


def _load_part(mark: FrameKind, payload: Payload) -> ReadingPart:
    if mark is FrameKind.PIECE:
        return _load_piece(payload)
    if mark is not FrameKind.PAGE:
        raise BrokenFrame(f"{mark.name} where a page or a passage was due")
    page, head = frames.load_page(payload), payload.head
    characters = frames.read_number_field(head, "characters") or 0
    return PageSummary(page.number, page.method, page.warning, characters, frames.read_flag_field(head, "blank"))


def _load_piece(payload: Payload) -> SplitPassage:
    text, section = payload.text, payload.head.get("section")
    if len(text) > MAX_PIECE_CHARS:
        raise BrokenFrame("a passage is too long")
    if not isinstance(section, list) or len(section) > MAX_HEADINGS:
        raise BrokenFrame("a passage has no headings that could be its own")
    if not all(isinstance(name, str) and len(name) <= MAX_HEADING_CHARS for name in section):
        raise BrokenFrame("a heading is not a text")
    return SplitPassage(text, frames.read_number_field(payload.head, "page"), tuple(cast("list[str]", section)))
