"""What a job does: read, split, embed, publish. Progress and the wish to stop come in as callables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from knowledge.embed.loading import counting
from knowledge.engine.indexing.models import Models
from knowledge.engine.ingest.document_reader import (
    WARMING,
    Order,
    PageRead,
    Reading,
    document_title,
    read_document,
)
from knowledge.engine.ingest.embedding_child import Isolation
from knowledge.engine.ingest.staging import Preparation, Reader
from knowledge.errors import Cancelled, Internal, ModelUnavailable, NoText
from knowledge.extract.base import Facts, Source
from knowledge.extract.process.parsers import Parsers
from knowledge.model import Document, DocumentStatus, JobKind, Json, Kind, Method, Report
from knowledge.split import Piece
from knowledge.store.chunks import ChunkStore
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore
from knowledge.store.jobs.rows import Claim
from knowledge.store.models import ModelStore
from knowledge.store.publish import Publication, Published, Publisher

MAX_WARNINGS = 1000
"""Pages of one document whose trouble is told one by one."""

Stop = Callable[[], bool]


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
    untold: int = 0
    """How many more pages failed."""
    characters: int = 0

    def take(self, page: PageRead) -> None:
        self.characters += page.characters
        if not page.blank:
            self.methods.add(page.method)
        if page.warning and len(self.failures) < MAX_WARNINGS:
            self.failures.append(page.warning)
        elif page.warning:
            self.untold += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*self.failures, f"{self.untold} more pages failed") if self.untold else tuple(self.failures)

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
        """Have the fork server load what cuts and what tells languages, before a crowd of first notes waits for it."""
        warming = WARMING.encode()
        file = self.files.incoming(len(warming))
        try:
            file.write(warming)
            with self._read(Source(file.path, "note.txt"), None, True, lambda: False) as reading:
                for _ in reading:
                    pass
        finally:
            file.discard()

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
        source = Source(path, claim.filename, origin.force_ocr, self.ocr_languages)
        given = origin.title or origin.metadata.get("title")
        title = str(given) if given else None
        with self._read(source, title, origin.kind is Kind.NOTE, stop) as reading:
            return self._take_in(claim, origin, title, reading, report, stop)

    def _read(self, source: Source, title: str | None, note: bool, stop: Stop) -> Reading:
        """Everything that looks at the text of a document as a whole happens in a child."""
        order = Order(title, note, counting(self.models.serving.choice))
        return read_document(self.parsers, source, order, stop)

    def _take_in(
        self, claim: Claim, origin: Origin, given: str | None, reading: Reading, report: Report, stop: Stop
    ) -> Publication:
        facts, language = reading.facts, reading.language
        title = document_title(given, facts, claim.filename)
        preparation, tally = self._begin(claim, title, language, stop), Tally()
        try:
            for part in reading:
                if isinstance(part, Piece):
                    preparation.add([part])
                else:
                    report(*_progress(part, facts, tally, origin.size))
                    tally.take(part)
            preparation.finish()
            if not preparation.count:
                raise NoText("There is no text in it", hint=None, reasons=list(tally.warnings))
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


def _progress(page: PageRead, facts: Facts, tally: Tally, size: int) -> tuple[str, int, int]:
    if page.number is not None and facts.page_count:
        return f"Processing page {page.number} of {facts.page_count}", page.number - 1, facts.page_count
    return "Generating embeddings", min(tally.characters, size), size


def _tags(origin: Origin, facts: Facts) -> tuple[str, ...]:
    """What the caller said, in `tags` or in the metadata, and what the document says of itself."""
    within = origin.metadata.get("tags")
    told = [within] if isinstance(within, str) else within if isinstance(within, list) else []
    every = [*origin.tags, *(tag.strip() for tag in told if isinstance(tag, str)), *facts.tags]
    return tuple(dict.fromkeys(tag for tag in every if tag))


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
        warnings=tally.warnings,
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
