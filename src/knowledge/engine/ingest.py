"""What a job does: read, split, embed, publish. Progress and the wish to stop come in as callables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from knowledge import analyse
from knowledge.embed.loading import Choice
from knowledge.engine.embedding_child import Isolation
from knowledge.engine.models import Models
from knowledge.engine.passages import Preparation, Reader
from knowledge.errors import Cancelled, Internal, ModelUnavailable, NoText
from knowledge.extract.base import Facts, PageText, Source
from knowledge.extract.worker import Parsers
from knowledge.model import Document, DocumentStatus, JobKind, Json, Kind, Method, Report
from knowledge.split import Piece, Splitter
from knowledge.store.chunks import ChunkStore
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore
from knowledge.store.job_rows import Claim
from knowledge.store.models import ModelStore
from knowledge.store.publish import Publication, Published, Publisher

LONGEST_TITLE = 200
NOTE_TITLE = 80
SAMPLE = 5000
LANGUAGE = re.compile("([a-z]{2})(?:[-_]|$)")
"""How many characters of a document its language is told from."""

WARMING = "This sentence is for nobody; it only goes the way that others will go. " * 60
"""Longer than one passage, so that every part of the way is gone."""

Stop = Callable[[], bool]
MakeSplitter = Callable[[Choice, str], Splitter]
"""A splitter that counts as the chosen model does, for a document of this title."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the caller said about a document, as it lies in its job."""

    kind: Kind
    title: str | None
    source_path: str | None
    url: str | None
    tags: tuple[str, ...]
    metadata: Json
    size: int
    force_ocr: bool = False

    def dump(self) -> Json:
        return {
            "kind": self.kind.value,
            "title": self.title,
            "source_path": self.source_path,
            "url": self.url,
            "tags": list(self.tags),
            "metadata": self.metadata,
            "size": self.size,
            "force_ocr": self.force_ocr,
        }

    @classmethod
    def load(cls, payload: Json) -> Origin:
        return cls(
            kind=Kind(cast(str, payload["kind"])),
            title=cast("str | None", payload["title"]),
            source_path=cast("str | None", payload["source_path"]),
            url=cast("str | None", payload["url"]),
            tags=tuple(cast("list[str]", payload["tags"])),
            metadata=cast(Json, payload["metadata"]),
            size=cast(int, payload["size"]),
            force_ocr=bool(payload["force_ocr"]),
        )


@dataclass(slots=True)
class Tally:
    """What is learnt while the pages go by."""

    methods: set[Method] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    characters: int = 0

    def take(self, page: PageText) -> None:
        self.characters += len(page.text)
        if page.text.strip():
            self.methods.add(page.method)
        if page.warning:
            self.failures.append(page.warning)

    @property
    def method(self) -> Method:
        return next(iter(self.methods)) if len(self.methods) == 1 else Method.MIXED

    @property
    def status(self) -> DocumentStatus:
        return DocumentStatus.PARTIAL if self.failures else DocumentStatus.COMPLETED


@dataclass(frozen=True, slots=True)
class Ingest:
    """The parts that a job needs; `run` does one."""

    database: Database
    files: FileStore
    chunks: ChunkStore
    documents: DocumentStore
    publisher: Publisher
    stored_models: ModelStore
    parsers: Parsers
    models: Models
    make_splitter: MakeSplitter
    ocr_languages: str
    isolation: Isolation | None = None
    """Where passages are embedded while a job runs alone."""

    def run(self, claim: Claim, report: Report, stop: Stop) -> Published:
        with self.models.at_work():
            if not claim.runs_alone:
                return self._run(claim, report, stop)
            with Isolation(self.parsers.limits.seconds, stop) as isolation:
                return replace(self, isolation=isolation)._run(claim, report, stop)

    def warm_up(self) -> None:
        """Have read what cuts and what tells languages, before a crowd of first notes has to wait for it."""
        splitter = self.make_splitter(self.models.serving.choice, "")
        for _ in (*splitter.feed(PageText(WARMING)), *splitter.finish()):
            pass
        analyse.language(WARMING)

    def _run(self, claim: Claim, report: Report, stop: Stop) -> Published:
        match claim.kind:
            case JobKind.ADD:
                return self._add(claim, report, stop)
            case JobKind.UPDATE:
                return self._update(claim, report, stop)
            case JobKind.EMBED:
                return self._embed_again(claim, report, stop)
        raise Internal(f"There is no such kind of job: {claim.kind}")

    # -- the three kinds ------------------------------------------------------------------------

    def _add(self, claim: Claim, report: Report, stop: Stop) -> Published:
        origin = Origin.load(claim.payload)
        publication = self._prepare(claim, origin, report, stop)
        return self._publish(publication, lambda: self.publisher.add(claim, publication))

    def _update(self, claim: Claim, report: Report, stop: Stop) -> Published:
        document = self.documents.get(cast(int, claim.payload["document_id"]))
        origin = Origin.load(claim.payload)
        publication = self._prepare(claim, origin, report, stop)
        return self._publish(publication, lambda: self.publisher.replace(claim, document.id, publication))

    def _embed_again(self, claim: Claim, report: Report, stop: Stop) -> Published:
        """The same passages under the document's present title."""
        document = self.documents.get(cast(int, claim.payload["document_id"]))
        preparation = self._begin(claim, document.title, document.language, stop)
        report("Generating embeddings", 0, document.chunk_count)
        for chunk in self.chunks.of_document(document.id):
            preparation.add([Piece(chunk.text, chunk.page, chunk.section)])
        preparation.finish()
        publication = _as_it_is(document, preparation)
        return self._publish(publication, lambda: self.publisher.replace(claim, document.id, publication))

    def _publish(self, publication: Publication, publish: Callable[[], Published]) -> Published:
        try:
            return publish()
        except BaseException:
            if publication.content_id is not None:
                self.chunks.drop(publication.content_id)
            raise

    # -- reading --------------------------------------------------------------------------------

    def _prepare(self, claim: Claim, origin: Origin, report: Report, stop: Stop) -> Publication:
        assert claim.sha256 is not None
        path = self.files.path(claim.sha256)
        report("Reading", 0, 0)
        if origin.kind is Kind.NOTE:
            text = path.read_text("utf-8")
            return self._take_in(claim, origin, Facts("note", title=note_title(text)), [PageText(text)], report, stop)
        source = Source(path, claim.filename, origin.force_ocr, self.ocr_languages)
        with self.parsers.parse(source, cancelled=stop) as parsing:
            return self._take_in(claim, origin, parsing.facts, parsing, report, stop)

    def _take_in(
        self, claim: Claim, origin: Origin, facts: Facts, pages: Iterable[PageText], report: Report, stop: Stop
    ) -> Publication:
        title = _title(origin, facts, claim.filename)
        flow = _Flow(pages)
        language = analyse.language(flow.sample(SAMPLE)) or _declared(facts)
        preparation = self._begin(claim, title, language, stop)
        tally, splitter = Tally(), self.make_splitter(self.models.serving.choice, title)
        try:
            for page in flow:
                report(*_progress(page, facts, tally, origin.size))
                tally.take(page)
                preparation.add(splitter.feed(page))
            preparation.add(splitter.finish())
            preparation.finish()
            if not preparation.count:
                raise NoText("There is no text in it", hint=None, reasons=list(tally.failures))
        except BaseException:
            preparation.abandon()
            raise
        return _publication(claim, origin, facts, title, language, tally, preparation)

    def _begin(self, claim: Claim, title: str, language: str | None, stop: Stop) -> Preparation:
        reader = self.reader()
        if reader is not None and not reader.reads(language):
            reader = None

        def step() -> None:
            if stop():
                raise Cancelled("The job was cancelled", job_id=str(claim.uid))

        return Preparation(claim.id, title, self.chunks, reader, step)

    def reader(self) -> Reader | None:
        """The loaded model; None when there is none, and then words have to do."""
        model = self.models.serving
        try:
            embedder = model.wait(60.0)
        except ModelUnavailable:
            return None
        stored = self.stored_models.register(embedder.fingerprint, embedder.name, embedder.dimension)
        return Reader(self.isolation.isolate(model, embedder) if self.isolation else embedder, stored.id)


class _Flow:
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


def note_title(text: str) -> str:
    """The first line that says something."""
    lines = (line.strip().lstrip("#").strip() for line in text.splitlines())
    first = next((line for line in lines if line), "Note")
    return first if len(first) <= NOTE_TITLE else first[: NOTE_TITLE - 1].rstrip() + "…"


def _title(origin: Origin, facts: Facts, filename: str) -> str:
    named = origin.title or origin.metadata.get("title") or facts.title or Path(filename).stem or filename
    return " ".join(str(named).split())[:LONGEST_TITLE] or filename


def _progress(page: PageText, facts: Facts, tally: Tally, size: int) -> tuple[str, int, int]:
    if page.number is not None and facts.page_count:
        return f"Processing page {page.number} of {facts.page_count}", page.number - 1, facts.page_count
    return "Generating embeddings", min(tally.characters, size), size


def _tags(origin: Origin, facts: Facts) -> tuple[str, ...]:
    """What the caller said, in `tags` or in the metadata, and what the document says of itself."""
    within = origin.metadata.get("tags")
    told = [within] if isinstance(within, str) else within if isinstance(within, list) else []
    every = [*origin.tags, *(tag.strip() for tag in told if isinstance(tag, str)), *facts.tags]
    return tuple(dict.fromkeys(tag for tag in every if tag))


def _declared(facts: Facts) -> str | None:
    """What a document says of its language, without the country; its text is asked first, since many say it wrongly."""
    found = LANGUAGE.match(facts.language.lower()) if facts.language else None
    return found[1] if found else None


def _metadata(origin: Origin, facts: Facts) -> Json:
    found: Json = {**facts.metadata}
    known = {"author": facts.author, "language": facts.language}
    found |= {key: value for key, value in known.items() if value}
    given = {key: value for key, value in origin.metadata.items() if key not in ("title", "tags")}
    return {**found, **given}


def _publication(
    claim: Claim,
    origin: Origin,
    facts: Facts,
    title: str,
    language: str | None,
    tally: Tally,
    preparation: Preparation,
) -> Publication:
    assert claim.sha256 is not None
    return Publication(
        content_id=preparation.content_id,
        last=tuple(preparation.last),
        model_id=preparation.model_id,
        title=title,
        kind=origin.kind,
        doc_type=facts.doc_type,
        filename=claim.filename,
        source_path=origin.source_path,
        url=origin.url,
        sha256=claim.sha256,
        size_bytes=origin.size,
        status=tally.status,
        method=tally.method,
        warnings=tuple(tally.failures),
        tags=_tags(origin, facts),
        metadata=_metadata(origin, facts),
        language=language,
        page_count=facts.page_count,
        chunk_count=preparation.count,
    )


def _as_it_is(document: Document, preparation: Preparation) -> Publication:
    """A document with other vectors and nothing else changed."""
    return Publication(
        content_id=preparation.content_id,
        last=tuple(preparation.last),
        model_id=preparation.model_id,
        title=document.title,
        kind=document.kind,
        doc_type=document.doc_type,
        filename=document.filename,
        source_path=document.source_path,
        url=document.url,
        sha256=document.sha256,
        size_bytes=document.size_bytes,
        status=DocumentStatus.PARTIAL if document.warnings else DocumentStatus.COMPLETED,
        method=document.method,
        warnings=document.warnings,
        tags=document.tags,
        metadata=document.metadata,
        language=document.language,
        page_count=document.page_count,
        chunk_count=preparation.count,
    )
