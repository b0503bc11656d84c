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

from knowledge.embed.loading import Counting
from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.clean_text import clean_facts, clean_pages
from knowledge.extract.process import frames
from knowledge.extract.process.exchange import Exchange
from knowledge.extract.process.frames import BrokenFrame, Mark, Payload
from knowledge.extract.process.parsers import Call, Parsers
from knowledge.extract.process.request import PREPARED, Request
from knowledge.model import Json, Method
from knowledge.split import Piece, Splitter
from knowledge.text import analyzer

LONGEST_TITLE = 200
NOTE_TITLE = 80
TITLE_WITHIN = 10_000
"""Characters at the beginning of a note among which its title is looked for."""
SAMPLE = 5000
"""How many characters of a document its language is told from."""
WARMING = (
    "This is a short text about many small things that people write down for each other every day, with the words that "
    "most of their notes and pages have in common. Here are some lists and numbers (1, 2, 10), a name or two, and "
    "what else would have to be looked up first by everybody who comes after. "
) * 8
"""Longer than one passage, so that every part of the way is gone."""
LANGUAGE = re.compile("([a-z]{2})(?:[-_]|$)")
LANGUAGE_CODE = re.compile("[a-z]{2}")
MAX_PIECE_CHARS = 1 << 16
"""Far more than a passage of 256 tokens has; a tokenizer that takes a very long word for one token could give more."""
MAX_HEADINGS, MAX_HEADING_CHARS = 12, 2000


@dataclass(frozen=True, slots=True)
class Order:
    """How a document is to be read."""

    title: str | None
    """What the caller calls it; without, it is called what it calls itself, or by its file name."""
    note: bool
    counting: Counting

    def dump(self) -> Json:
        return {"title": self.title, "note": self.note, PREPARED: asdict(self.counting)}

    @classmethod
    def load(cls, arguments: Json) -> Order:
        title, counting = cast("str | None", arguments["title"]), load_counting(cast(Json, arguments[PREPARED]))
        return cls(title, bool(arguments["note"]), counting)


def load_counting(prepared: Json) -> Counting:
    return Counting(cast("str | None", prepared["folder"]), cast(int, prepared["window"]))


def document_title(given: str | None, facts: Facts, filename: str) -> str:
    named = given or facts.title or Path(filename).stem or filename
    return " ".join(named.split())[:LONGEST_TITLE] or filename


def note_title(text: str) -> str:
    """The first line that says something. It looks at the beginning only: a note may be long, and is titled in the
    server."""
    lines = (line.strip().lstrip("#").strip() for line in text[:TITLE_WITHIN].splitlines())
    first = next((line for line in lines if line), "Note")
    return first if len(first) <= NOTE_TITLE else first[: NOTE_TITLE - 1].rstrip() + "…"


# -- in the child -------------------------------------------------------------------------------


def prepare(prepared: Json) -> None:
    """Load the tokenizer and what tells languages, and use both once; the fork server keeps them, with the words that
    the tokenizer remembers, for all its children."""
    _warm_up(load_counting(prepared))


@lru_cache(maxsize=2)
def _warm_up(counting: Counting) -> None:
    splitter = Splitter(counting.tokenizer())
    for _ in (*splitter.feed(PageText(WARMING)), *splitter.finish()):
        pass
    analyzer.language(WARMING)


def split_document(request: Request) -> Iterator[bytes]:
    """First what is known of the document, then for each page what became of it and the passages that are complete."""
    order, source = Order.load(request.arguments), request.document
    extracted = _note(source) if order.note else _clean(request.load_parser()(source))
    facts, pages = extracted.facts, _Pages(extracted.pages)
    language = analyzer.language(pages.sample(SAMPLE)) or _declared(facts)
    yield frames.dump_facts(facts)
    yield frames.dump(Mark.ANSWER, {"language": language})
    title = document_title(order.title, facts, source.filename)
    splitter = Splitter(order.counting.tokenizer(), title, order.counting.window)
    for page in pages:
        said = {"characters": len(page.text), "blank": not page.text.strip()}
        yield frames.dump(Mark.PAGE, frames.page_head(page) | said)
        yield from _dump(splitter.feed(page))
    yield from _dump(splitter.finish())


def _note(source: Source) -> Extracted:
    text = source.path.read_text("utf-8")
    return Extracted(Facts("note", title=note_title(text)), iter([PageText(text)]))


def _clean(extracted: Extracted) -> Extracted:
    return Extracted(clean_facts(extracted.facts), clean_pages(extracted.pages))


def _declared(facts: Facts) -> str | None:
    """What a document says of its language, without the country; its text is asked first, since many say it wrongly."""
    found = LANGUAGE.match(facts.language.lower()) if facts.language else None
    return found[1] if found else None


def _dump(pieces: Iterable[Piece]) -> Iterator[bytes]:
    for piece in pieces:
        head: Json = {"page": piece.page, "section": [name[:MAX_HEADING_CHARS] for name in piece.section]}
        for start in range(0, max(len(piece.text), 1), MAX_PIECE_CHARS):
            yield frames.dump(Mark.PIECE, head, piece.text[start : start + MAX_PIECE_CHARS])


class _Pages:
    """Pages with a look ahead."""

    def __init__(self, pages: Iterable[PageText]) -> None:
        self._pages = iter(pages)
        self._ahead: list[PageText] = []

    def sample(self, size: int) -> str:
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
class PageRead:
    """A page that the child has read; its passages follow, as far as they are complete."""

    number: int | None
    method: Method
    warning: str | None
    characters: int
    blank: bool


Part: TypeAlias = PageRead | Piece


class Reading(Exchange):
    """A context manager: inside it facts and language are known, and iterating yields pages and passages as they come.
    Nothing that the child sends is believed unchecked."""

    facts: Facts
    language: str | None

    def begin(self) -> None:
        first, facts = self.next()
        second, answer = self.next()
        try:
            if (first, second) != (Mark.FACTS, Mark.ANSWER):
                raise BrokenFrame("pages came before facts")
            self.facts, self.language = frames.load_facts(facts), _load_language(answer)
        except BrokenFrame as error:
            raise self.broken(error) from error

    def __iter__(self) -> Iterator[Part]:
        for mark, payload in self.receive():
            try:
                part = _load_part(mark, payload)
            except BrokenFrame as error:
                raise self.broken(error) from error
            yield part


def read_document(parsers: Parsers, source: Source, order: Order, cancelled: Callable[[], bool]) -> Reading:
    call = Call(f"{__name__}:split_document", order.dump(), f"{__name__}:prepare")
    return parsers.run(Reading, call, source, cancelled=cancelled)


def _load_language(payload: Payload) -> str | None:
    code = frames.text_of(payload.head, "language", 2)
    if code is not None and not LANGUAGE_CODE.fullmatch(code):
        raise BrokenFrame("it named no language")
    return code


def _load_part(mark: Mark, payload: Payload) -> Part:
    if mark is Mark.PIECE:
        return _load_piece(payload)
    if mark is not Mark.PAGE:
        raise BrokenFrame(f"{mark.name} where a page or a passage was due")
    page, head = frames.load_page(payload), payload.head
    characters = frames.number_of(head, "characters") or 0
    return PageRead(page.number, page.method, page.warning, characters, frames.flag_of(head, "blank"))


def _load_piece(payload: Payload) -> Piece:
    text, section = payload.text, payload.head.get("section")
    if len(text) > MAX_PIECE_CHARS:
        raise BrokenFrame("a passage is too long")
    if not isinstance(section, list) or len(section) > MAX_HEADINGS:
        raise BrokenFrame("a passage has no headings that could be its own")
    if not all(isinstance(name, str) and len(name) <= MAX_HEADING_CHARS for name in section):
        raise BrokenFrame("a heading is not a text")
    return Piece(text, frames.number_of(payload.head, "page"), tuple(cast("list[str]", section)))
