"""Parses a document, detects its language and splits it, in a child process.

The first half of this module runs in the child; the second half runs in the server and validates what it receives.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from knowledge.embed.loading import TokenizerSpec
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.clean_text import clean_facts, clean_pages
from knowledge.extract.pages.packed_words import pack_words, unpack_words
from knowledge.extract.pages.page_reader import DRAWABLE_TYPES, PDF_TYPE
from knowledge.extract.pdf.document_title import find_pdf_title
from knowledge.extract.process import frames
from knowledge.extract.process.frames import BrokenFrame, FrameKind, Payload
from knowledge.extract.process.parsers import Parsers, TaskCall
from knowledge.extract.process.request import PREPARE_ARGUMENT, TaskRequest
from knowledge.extract.process.streams import FrameStream
from knowledge.model import ExtractionMethod, Json, JsonValue
from knowledge.split import SplitPassage, Splitter
from knowledge.store.pages.words import StagedWords
from knowledge.telemetry import metrics
from knowledge.text.language import detect_language

T = TypeVar("T")

MAX_TITLE_CHARS = 200
MAX_NOTE_TITLE_CHARS = 80
NOTE_TITLE_SCAN_CHARS = 10_000
"""Characters at the beginning of a note that are searched for its title."""
LANGUAGE_SAMPLE_CHARS = 5000
WARM_UP_TEXT = (
    "This is a short text about many small things that people write down for each other every day, with the words that "
    "most of their notes and pages have in common. Here are some lists and numbers (1, 2, 10), a name or two, and "
    "what else would have to be looked up first by everybody who comes after. "
) * 8
"""Longer than one chunk, so that warming up runs all of the splitter."""
LANGUAGE_TAG = re.compile("([a-z]{2})(?:[-_]|$)")
LANGUAGE_CODE = re.compile("[a-z]{2}")
MAX_PIECE_CHARS = 1 << 16
"""Far above 256 tokens, but a tokenizer may count a very long word as one token."""
MAX_HEADINGS, MAX_HEADING_CHARS = 12, 2000
MAX_STAGE_SECONDS = 86_400.0
"""Longest time of a stage that a child is believed."""
MAX_LINE_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The arguments of `split_document`."""

    title: str | None
    """The caller's title; None uses the title in the document, of a PDF its first heading, or the file name."""
    is_note: bool
    tokenizer: TokenizerSpec

    def dump(self) -> Json:
        return {"title": self.title, "note": self.is_note, PREPARE_ARGUMENT: asdict(self.tokenizer)}

    @classmethod
    def load(cls, arguments: Json) -> ReadOptions:
        title = cast("str | None", arguments["title"])
        return cls(title, bool(arguments["note"]), load_tokenizer_spec(cast(Json, arguments[PREPARE_ARGUMENT])))


def load_tokenizer_spec(prepared: Json) -> TokenizerSpec:
    return TokenizerSpec(cast("str | None", prepared["folder"]), cast(int, prepared["window"]))


def choose_title(requested: str | None, facts: Facts, filename: str) -> str:
    title = requested or facts.title or Path(filename).stem or filename
    return " ".join(title.split())[:MAX_TITLE_CHARS] or filename


def make_note_title(text: str) -> str:
    """Return the first non-empty line of the first NOTE_TITLE_SCAN_CHARS characters, without its heading marks."""
    lines = (line.strip().lstrip("#").strip() for line in text[:NOTE_TITLE_SCAN_CHARS].splitlines())
    first = next((line for line in lines if line), "Note")
    return first if len(first) <= MAX_NOTE_TITLE_CHARS else first[: MAX_NOTE_TITLE_CHARS - 1].rstrip() + "…"


# -- in the child -------------------------------------------------------------------------------


def prepare(prepared: Json) -> None:
    """Load and use the tokenizer and the language detector in the fork server, whose children inherit them."""
    _warm_up(load_tokenizer_spec(prepared))


@lru_cache(maxsize=2)
def _warm_up(tokenizer: TokenizerSpec) -> None:
    splitter = Splitter(tokenizer.load_tokenizer())
    for _ in (*splitter.feed(PageText(WARM_UP_TEXT)), *splitter.finish()):
        pass
    detect_language(WARM_UP_TEXT)


def split_document(request: TaskRequest) -> Iterator[bytes]:
    """Send the facts and language of a document, then for each page its summary and its complete chunks."""
    began, splitting = time.perf_counter(), _Stopwatch()
    options, source = ReadOptions.load(request.arguments), request.document
    extracted = _read_note(source) if options.is_note else _clean_extracted(request.load_parser()(source))
    extracting = _Stopwatch(time.perf_counter() - began)
    facts, pages = extracted.facts, _PageBuffer(extracting.measure(extracted.pages))
    language = detect_language(pages.read_sample(LANGUAGE_SAMPLE_CHARS)) or _find_declared_language(facts)
    if facts.doc_type == PDF_TYPE:
        facts = replace(facts, title=find_pdf_title(facts.title, source.filename, pages.ahead))
    yield frames.dump_facts(facts)
    yield frames.dump_frame(FrameKind.ANSWER, {"language": language})
    title = choose_title(options.title, facts, source.filename)
    splitter = Splitter(options.tokenizer.load_tokenizer(), title, options.tokenizer.window)
    for page in pages:
        summary = {"characters": len(page.text), "blank": not page.text.strip()}
        yield frames.dump_frame(FrameKind.PAGE, frames.build_page_head(page) | summary)
        if page.words is not None and facts.doc_type in DRAWABLE_TYPES:
            yield frames.dump_bytes_frame(FrameKind.WORDS, {"page": page.words.page}, pack_words(page.words))
        yield from _dump_pieces(splitting.measure(splitter.feed(page)))
    yield from _dump_pieces(splitting.measure(splitter.finish()))
    times: Json = {"extract_us": extracting.microseconds, "split_us": splitting.microseconds}
    yield frames.dump_frame(FrameKind.ANSWER, times)


def _read_note(source: Source) -> Extraction:
    text = source.path.read_text("utf-8")
    return Extraction(Facts("note", title=make_note_title(text)), iter([PageText(text)]))


def _clean_extracted(extracted: Extraction) -> Extraction:
    return Extraction(clean_facts(extracted.facts), clean_pages(extracted.pages))


def _find_declared_language(facts: Facts) -> str | None:
    """Return the declared language without its region; a fallback, because many documents declare a wrong one."""
    found = LANGUAGE_TAG.match(facts.language.lower()) if facts.language else None
    return found[1] if found else None


def _dump_pieces(pieces: Iterable[SplitPassage]) -> Iterator[bytes]:
    for piece in pieces:
        head: Json = {"page": piece.page, "section": [name[:MAX_HEADING_CHARS] for name in piece.section]}
        if piece.lines is not None:
            head["lines"] = list(piece.lines)
        for start in range(0, max(len(piece.text), 1), MAX_PIECE_CHARS):
            yield frames.dump_frame(FrameKind.PIECE, head, piece.text[start : start + MAX_PIECE_CHARS])


class _Stopwatch:
    """Adds up the time in which iterators make their items, and not the time in which others use them."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    @property
    def microseconds(self) -> int:
        return round(self._seconds * 1_000_000)

    def measure(self, items: Iterable[T]) -> Iterator[T]:
        source, began = iter(items), time.perf_counter()
        for item in source:
            self._seconds += time.perf_counter() - began
            yield item
            began = time.perf_counter()
        self._seconds += time.perf_counter() - began


class _PageBuffer:
    """An iterator over pages with a look-ahead."""

    def __init__(self, pages: Iterable[PageText]) -> None:
        self._pages = iter(pages)
        self._ahead: list[PageText] = []

    def read_sample(self, size: int) -> str:
        text = ""
        while len(text) < size and (page := next(self._pages, None)) is not None:
            self._ahead.append(page)
            text += page.text[:size] + "\n"
        return text

    @property
    def ahead(self) -> Iterator[str]:
        """The texts of the pages that were read for the sample."""
        return (page.text for page in self._ahead)

    def __iter__(self) -> Iterator[PageText]:
        yield from self._ahead
        self._ahead = []
        yield from self._pages


# -- in the server ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageSummary:
    """A page that the child has parsed; its complete chunks follow it."""

    number: int | None
    method: ExtractionMethod
    warning: str | None
    characters: int
    is_blank: bool


ReadingPart: TypeAlias = PageSummary | SplitPassage | StagedWords


class DocumentReading(FrameStream):
    """The stream of a child's results, validated: facts and language on entry, then pages and chunks by iteration."""

    facts: Facts
    language: str | None

    def read_start(self) -> None:
        first, facts = self.receive_frame()
        second, answer = self.receive_frame()
        try:
            if (first, second) != (FrameKind.FACTS, FrameKind.ANSWER):
                raise BrokenFrame(f"expected FACTS and ANSWER frames, got {first.name} and {second.name}")
            self.facts, self.language = frames.load_facts(facts), _load_language(answer)
        except BrokenFrame as error:
            raise self.stop_with_error(error) from error

    def __iter__(self) -> Iterator[ReadingPart]:
        for kind, payload in self.receive_frames():
            try:
                part = None if kind is FrameKind.ANSWER else _load_part(kind, payload)
                if part is None:
                    _record_times(payload)
            except BrokenFrame as error:
                raise self.stop_with_error(error) from error
            if part is not None:
                yield part


def read_document(
    parsers: Parsers, source: Source, options: ReadOptions, cancelled: Callable[[], bool]
) -> DocumentReading:
    call = TaskCall(f"{__name__}:split_document", options.dump(), f"{__name__}:prepare")
    return parsers.run_task(DocumentReading, call, source, cancelled=cancelled)


def _load_language(payload: Payload) -> str | None:
    code = frames.read_text_field(payload.head, "language", 2)
    if code is not None and not LANGUAGE_CODE.fullmatch(code):
        raise BrokenFrame("invalid language code")
    return code


def _record_times(payload: Payload) -> None:
    """Record how long the child took; the times are not trusted, and a wrong one is only a wrong metric."""
    for stage in ("extract", "split"):
        microseconds = frames.read_number_field(payload.head, f"{stage}_us") or 0
        metrics.INGEST_STAGE_SECONDS[stage].observe(min(max(microseconds / 1_000_000, 0.0), MAX_STAGE_SECONDS))


def _load_part(kind: FrameKind, payload: Payload) -> ReadingPart:
    if kind is FrameKind.PIECE:
        return _load_piece(payload)
    if kind is FrameKind.WORDS:
        return load_words(payload)
    if kind is not FrameKind.PAGE:
        raise BrokenFrame(f"expected a PAGE or PIECE frame, got {kind.name}")
    page, head = frames.load_page(payload), payload.head
    characters = frames.read_number_field(head, "characters") or 0
    return PageSummary(page.number, page.method, page.warning, characters, frames.read_flag_field(head, "blank"))


def load_words(payload: Payload) -> StagedWords:
    page = frames.read_number_field(payload.head, "page")
    if page is None or page < 1:
        raise BrokenFrame("the words of a page have no page number")
    try:
        unpack_words(payload.data, page)
    except ValueError as error:
        raise BrokenFrame(str(error)) from error
    return StagedWords(page, payload.data)


def _load_piece(payload: Payload) -> SplitPassage:
    text, section = payload.text, payload.head.get("section")
    if len(text) > MAX_PIECE_CHARS:
        raise BrokenFrame(f"a chunk has {len(text)} characters, the limit is {MAX_PIECE_CHARS}")
    if not isinstance(section, list) or len(section) > MAX_HEADINGS:
        raise BrokenFrame("the headings of a chunk are not a list, or too many")
    if not all(isinstance(name, str) and len(name) <= MAX_HEADING_CHARS for name in section):
        raise BrokenFrame("a heading is not a string, or too long")
    page, lines = frames.read_number_field(payload.head, "page"), _load_lines(payload.head.get("lines"))
    return SplitPassage(text, page, tuple(cast("list[str]", section)), lines)


def _load_lines(value: JsonValue) -> tuple[int, int] | None:
    match value:
        case None:
            return None
        case [int(first), int(last)] if 1 <= first <= last <= MAX_LINE_NUMBER:
            return first, last
    raise BrokenFrame("the lines of a chunk are not two line numbers")
