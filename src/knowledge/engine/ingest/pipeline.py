"""The ingest pipeline of one job: read, split, publish by words, embed, complete.

A new document is published twice: without vectors when it is split, and with them when it is embedded, possibly by
another worker. A new version of a document is published once, when it is embedded: docs/decisions/0023-words-first.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, cast

from knowledge import failpoints
from knowledge.blobs.api import Blobs
from knowledge.embed.embedder import reads_language
from knowledge.embed.loading import find_tokenizer_spec
from knowledge.engine.indexing.models import NO_MODEL, EmbeddingModels
from knowledge.engine.ingest.document_reader import (
    WARM_UP_TEXT,
    DocumentReading,
    PageSummary,
    ReadOptions,
    choose_title,
    read_document,
)
from knowledge.engine.ingest.embedding_child import EmbeddingIsolation
from knowledge.engine.ingest.originals import open_original
from knowledge.engine.ingest.staging import CHUNKS_PER_BATCH, StagedDocument, VectorModel, embed_stored
from knowledge.engine.jobs.progress import ReportStep
from knowledge.errors import Cancelled, DocumentNotFound, Internal, ModelUnavailable, NoText
from knowledge.extract.base import Facts, Source
from knowledge.extract.process.parsers import Parsers
from knowledge.model import (
    Description,
    Document,
    DocumentKind,
    DocumentStatus,
    ExtractionMethod,
    JobKind,
    Json,
)
from knowledge.model.jobs import JobPhase
from knowledge.split import SplitPassage
from knowledge.store.chunks import ChunkStore, EmbeddedChunk
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.claim_queues import find_vector_priority
from knowledge.store.jobs.rows import JobClaim
from knowledge.store.models import ModelStore
from knowledge.store.pages.words import StagedWords
from knowledge.store.publish import DOCUMENT_FIELDS, Publication, Publisher, PublishResult
from knowledge.telemetry import metrics

T = TypeVar("T")

MAX_PAGE_WARNINGS = 1000
"""Warnings kept per document; further failures are only counted."""

MODEL_SECONDS, MODEL_POLL_SECONDS = 60.0, 0.05
"""Longest time for which a job waits for its model to be loaded."""

ShouldStop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Handover:
    """The calls with which a worker leaves the embedding of a document to the next free worker."""

    release: Callable[[int, bool], bool] = lambda *_: False
    """Return whether to leave an embedding of this priority, which may be running, to another worker."""
    resume: Callable[[], None] = lambda: None
    """Continue after all, because the document was not published by words."""
    on_words: Callable[[], None] = lambda: None
    """Called when a document is published by words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOrigin(Description):
    """The caller's description of a document, as stored in the payload of its job."""

    kind: DocumentKind
    size: int
    force_ocr: bool = False

    def dump(self) -> Json:
        return {name: getattr(self, name) for name in _ORIGIN_FIELDS}

    @classmethod
    def load(cls, payload: Json) -> DocumentOrigin:
        values: dict[str, Any] = {name: payload[name] for name in _ORIGIN_FIELDS if name in payload}
        return cls(**{**values, "kind": DocumentKind(values["kind"]), "tags": tuple(values["tags"])})


_ORIGIN_FIELDS = tuple(each.name for each in fields(DocumentOrigin))


@dataclass(slots=True)
class ReadingSummary:
    """Extraction methods, failures and size of a document, collected page by page."""

    methods: set[ExtractionMethod] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    unlisted_failures: int = 0
    """Failures beyond MAX_PAGE_WARNINGS."""
    characters: int = 0

    def add_page(self, page: PageSummary) -> None:
        self.characters += page.characters
        if not page.is_blank:
            self.methods.add(page.method)
        if page.warning and len(self.failures) < MAX_PAGE_WARNINGS:
            self.failures.append(page.warning)
        elif page.warning:
            self.unlisted_failures += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        return (
            (*self.failures, f"{self.unlisted_failures} more pages failed")
            if self.unlisted_failures
            else tuple(self.failures)
        )

    @property
    def method(self) -> ExtractionMethod:
        return next(iter(self.methods)) if len(self.methods) == 1 else ExtractionMethod.MIXED

    @property
    def status(self) -> DocumentStatus:
        return DocumentStatus.PARTIAL if self.failures else DocumentStatus.COMPLETED


@dataclass(frozen=True, slots=True)
class IngestPipeline:
    files: Blobs
    chunks: ChunkStore
    documents: DocumentStore
    publisher: Publisher
    stored_models: ModelStore
    parsers: Parsers
    models: EmbeddingModels
    ocr_languages: str
    isolation: EmbeddingIsolation | None = None
    """Child process that embeds while the job is quarantined."""

    def run(
        self,
        claim: JobClaim,
        report: ReportStep,
        stop: ShouldStop,
        handover: Handover = Handover(),
    ) -> PublishResult | None:
        """Run a job; return None if its document is published by words and left to the next free worker."""
        with self.models.track_job():
            if not claim.runs_alone:
                return self._run_kind(claim, report, stop, handover)
            with EmbeddingIsolation(self.parsers.limits.seconds, stop) as isolation:
                keep_claim = Handover(on_words=handover.on_words)
                return replace(self, isolation=isolation)._run_kind(claim, report, stop, keep_claim)

    def warm_up(self) -> None:
        """Make the fork server load the tokenizer and the language detector before the first document arrives."""
        text = WARM_UP_TEXT.encode()
        file = self.files.open_incoming(len(text))
        try:
            file.write(text)
            with self._read_document(Source(file.path, "note.txt"), None, True, lambda: False) as reading:
                for _ in reading:
                    pass
        finally:
            file.discard()

    def _run_kind(
        self, claim: JobClaim, report: ReportStep, stop: ShouldStop, handover: Handover
    ) -> PublishResult | None:
        match claim.kind:
            case JobKind.ADD if claim.document_id is not None:
                return self._complete_document(claim, claim.document_id, claim.priority, report, stop, handover)
            case JobKind.ADD:
                return self._run_add(claim, report, stop, handover)
            case JobKind.UPDATE:
                return self._run_update(claim, report, stop)
            case JobKind.EMBED:
                return self._run_embed(claim, report, stop)
            case JobKind.REREAD:
                return self._run_reread(claim, report, stop)
        raise Internal(f"The ingest pipeline does not run jobs of kind {claim.kind}")

    # -- kinds of jobs --------------------------------------------------------------------------

    def _run_add(
        self, claim: JobClaim, report: ReportStep, stop: ShouldStop, handover: Handover
    ) -> PublishResult | None:
        origin = DocumentOrigin.load(claim.payload)
        assert claim.collection_id is not None
        is_new = not self.documents.has_path(claim.collection_id, origin.source_path)
        publication = self._prepare_publication(claim, origin, report, stop, embed=not is_new)
        if not (is_new and self._has_vectors_to_come(publication.language)):
            return self._publish_or_drop(publication, lambda: self.publisher.add(claim, publication))
        priority = find_vector_priority(claim.priority, publication.chunk_count)
        try:
            released = handover.release(priority, False)
        except BaseException:
            self._drop_content(publication)
            raise
        published = self._publish_or_drop(
            publication,
            lambda: self.publisher.add_by_words(claim, publication, priority=priority, keep_claim=not released),
        )
        if published is None:  # another job has added a document with this path meanwhile: this is a new version of it
            self._drop_content(publication)
            handover.resume()
            return self._run_add(claim, report, stop, handover)
        failpoints.trigger("words.published")
        handover.on_words()
        if released:
            return None
        return self._complete_document(claim, published.document_id, priority, report, stop, handover)

    def _has_vectors_to_come(self, language: str | None) -> bool:
        model = self.models.serving
        if model.choice.kind == NO_MODEL:
            return False
        return model.embedder is None or reads_language(model.embedder, language)

    def _complete_document(
        self,
        claim: JobClaim,
        document_id: int,
        priority: int,
        report: ReportStep,
        stop: ShouldStop,
        handover: Handover,
    ) -> PublishResult | None:
        """Embed the chunks of a document that is published by words, and end its processing.

        Between two batches a more urgent job goes first; None is returned then.
        """
        try:
            document = self.documents.get(document_id)
        except DocumentNotFound as error:
            raise Cancelled("The document was removed", job_id=str(claim.uid)) from error
        model = self._choose_vector_model(document.language, stop)
        last: list[EmbeddedChunk] = []
        done = after = 0
        while model is not None:
            report("Generating embeddings", done, document.chunk_count, JobPhase.EMBED, "chunks")
            batch = self.chunks.list_unembedded_of(document_id, model.model_id, after, CHUNKS_PER_BATCH)
            if stop():
                raise Cancelled("The job was cancelled", job_id=str(claim.uid))
            if not batch:
                break
            if last:  # the last batch is stored by the transaction that completes the document
                released = handover.release(priority, True)
                self.publisher.add_vectors(claim, model.model_id, last, keep_claim=not released)
                failpoints.trigger("words.embedded")
                if released:
                    return None
            last = embed_stored(batch, document.title, model, self.chunks)
            done, after = done + len(batch), batch[-1].chunk_id
        with metrics.INGEST_STAGE_SECONDS["publish"].time():
            completed = self.publisher.complete(claim, document_id, model.model_id if model else None, last)
        failpoints.trigger("words.completed")
        return completed

    def _run_update(self, claim: JobClaim, report: ReportStep, stop: ShouldStop) -> PublishResult:
        document = self.documents.get(cast(int, claim.payload["document_id"]))
        origin = DocumentOrigin.load(claim.payload)
        expected = cast("str | None", claim.payload.get("expected"))
        publication = self._prepare_publication(claim, origin, report, stop)
        return self._publish_or_drop(
            publication, lambda: self.publisher.replace(claim, document.id, publication, expected)
        )

    def _run_embed(self, claim: JobClaim, report: ReportStep, stop: ShouldStop) -> PublishResult:
        """Embed the chunks of a document again, under its new title."""
        document = self.documents.get(cast(int, claim.payload["document_id"]))
        staged = self._begin_staging(claim, document.title, self._choose_vector_model(document.language, stop), stop)
        for chunk in self.chunks.list_of_document(document.id):
            report("Generating embeddings", staged.count, document.chunk_count, JobPhase.WHOLE, "chunks")
            staged.add_pieces([SplitPassage(chunk.text, chunk.page, chunk.section, chunk.lines)])
        staged.finish()
        publication = _make_republication(document, staged)
        return self._publish_or_drop(publication, lambda: self.publisher.replace(claim, document.id, publication))

    def _run_reread(self, claim: JobClaim, report: ReportStep, stop: ShouldStop) -> PublishResult:
        """Read the original of a document again and replace its chunks; everything else stays."""
        try:
            document = self.documents.get(cast(int, claim.document_id))
        except DocumentNotFound as error:
            raise Cancelled("The document was removed", job_id=str(claim.uid)) from error
        staged = self._begin_staging(claim, document.title, self._choose_vector_model(document.language, stop), stop)
        try:
            with (
                open_original(self.files, document.sha256, f"document {document.id}", document_id=document.id) as path,
                self._read_document(
                    Source(path, document.filename or document.title), document.title, False, stop
                ) as reading,
            ):
                for part in reading:
                    report("Generating embeddings", staged.count, document.chunk_count, JobPhase.WHOLE, "chunks")
                    staged.add_pieces([part] if isinstance(part, SplitPassage) else [])
            staged.finish()
        except BaseException:
            staged.abandon()
            raise
        publication = _make_republication(document, staged)
        return self._publish_or_drop(publication, lambda: self.publisher.replace(claim, document.id, publication))

    def _publish_or_drop(self, publication: Publication, publish: Callable[[], T]) -> T:
        try:
            with metrics.INGEST_STAGE_SECONDS["publish"].time():
                return publish()
        except BaseException:
            self._drop_content(publication)
            raise

    def _drop_content(self, publication: Publication) -> None:
        if publication.content_id is not None:
            self.chunks.drop_content(publication.content_id)

    # -- reading --------------------------------------------------------------------------------

    def _prepare_publication(
        self, claim: JobClaim, origin: DocumentOrigin, report: ReportStep, stop: ShouldStop, *, embed: bool = True
    ) -> Publication:
        """Read and split a document, and stage its chunks, with their vectors if `embed` is set."""
        assert claim.sha256 is not None
        report("Reading", 0, 0, JobPhase.READ)
        given = origin.title or origin.metadata.get("title")
        title = str(given) if given else None
        with (
            open_original(self.files, claim.sha256) as path,
            self._read_document(
                Source(path, claim.filename, origin.force_ocr, self.ocr_languages),
                title,
                origin.kind is DocumentKind.NOTE,
                stop,
            ) as reading,
        ):
            return self._stage_reading(claim, origin, title, reading, report, stop, embed=embed)

    def _read_document(self, source: Source, title: str | None, note: bool, stop: ShouldStop) -> DocumentReading:
        options = ReadOptions(title, note, find_tokenizer_spec(self.models.serving.choice))
        return read_document(self.parsers, source, options, stop)

    def _stage_reading(
        self,
        claim: JobClaim,
        origin: DocumentOrigin,
        given: str | None,
        reading: DocumentReading,
        report: ReportStep,
        stop: ShouldStop,
        *,
        embed: bool,
    ) -> Publication:
        facts, language = reading.facts, reading.language
        title = choose_title(given, facts, claim.filename)
        model = self._choose_vector_model(language, stop) if embed else None
        staged, summary = self._begin_staging(claim, title, model, stop), ReadingSummary()
        try:
            for part in reading:
                if isinstance(part, SplitPassage):
                    staged.add_pieces([part])
                elif isinstance(part, StagedWords):
                    staged.words.append(part)
                else:
                    phase = JobPhase.WHOLE if embed else JobPhase.READ
                    step, done, total, unit = _describe_progress(part, facts, summary, origin.size)
                    report(step, done, total, phase, unit)
                    summary.add_page(part)
            staged.finish()
            if not staged.count:
                raise NoText("The document contains no text", hint=None, reasons=list(summary.warnings))
        except BaseException:
            staged.abandon()
            raise
        return _make_publication(claim, origin, facts, title, language, summary, staged)

    def _begin_staging(
        self, claim: JobClaim, title: str, model: VectorModel | None, stop: ShouldStop
    ) -> StagedDocument:
        def check_cancelled() -> None:
            if stop():
                raise Cancelled("The job was cancelled", job_id=str(claim.uid))

        return StagedDocument(lambda: self.publisher.begin_content(claim), title, self.chunks, model, check_cancelled)

    def _choose_vector_model(self, language: str | None, stop: ShouldStop) -> VectorModel | None:
        """Return the serving model if it is available and reads this language."""
        model = self.load_vector_model(stop)
        return model if model is not None and reads_language(model.embedder, language) else None

    def load_vector_model(self, stop: ShouldStop = lambda: False) -> VectorModel | None:
        """Return the serving model, waiting until it is loaded; None if it is unavailable, for search by words only."""
        model, deadline = self.models.serving, time.monotonic() + MODEL_SECONDS
        while not model.wait_until_settled(MODEL_POLL_SECONDS) and time.monotonic() < deadline:
            if stop():
                raise Cancelled("The job was cancelled while the model was loading")
        try:
            embedder = model.wait_for_embedder(0.0)
        except ModelUnavailable:
            return None
        stored = self.stored_models.register(embedder.fingerprint, embedder.name, embedder.dimension)
        return VectorModel(self.isolation.isolate_model(model, embedder) if self.isolation else embedder, stored.id)


def _describe_progress(
    page: PageSummary, facts: Facts, summary: ReadingSummary, size: int
) -> tuple[str, int, int, str]:
    if page.number is not None and facts.page_count:
        return f"Processing page {page.number} of {facts.page_count}", page.number - 1, facts.page_count, "pages"
    return "Generating embeddings", min(summary.characters, size), size, "characters"


def _merge_tags(origin: DocumentOrigin, facts: Facts) -> tuple[str, ...]:
    """Join the caller's tags, the tags in the caller's metadata and the tags found in the document."""
    value = origin.metadata.get("tags")
    in_metadata = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    tags = [*origin.tags, *(tag.strip() for tag in in_metadata if isinstance(tag, str)), *facts.tags]
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def _merge_metadata(origin: DocumentOrigin, facts: Facts) -> Json:
    found: Json = {**facts.metadata}
    known = {"author": facts.author, "language": facts.language}
    found |= {key: value for key, value in known.items() if value}
    given = {key: value for key, value in origin.metadata.items() if key not in ("title", "tags")}
    return {**found, **given}


def _make_publication(
    claim: JobClaim,
    origin: DocumentOrigin,
    facts: Facts,
    title: str,
    language: str | None,
    summary: ReadingSummary,
    staged: StagedDocument,
) -> Publication:
    assert claim.sha256 is not None
    described = {**origin.dump_description(), "title": title, "tags": _merge_tags(origin, facts)}
    return Publication(
        **{**described, "metadata": _merge_metadata(origin, facts)},
        content_id=staged.content_id,
        unstaged=tuple(staged.last_batch),
        words=tuple(staged.words),
        model_id=staged.model_id,
        kind=origin.kind,
        doc_type=facts.doc_type,
        filename=claim.filename,
        sha256=claim.sha256,
        size_bytes=origin.size,
        status=summary.status,
        method=summary.method,
        warnings=summary.warnings,
        language=language,
        page_count=facts.page_count,
        chunk_count=staged.count,
    )


def _make_republication(document: Document, staged: StagedDocument) -> Publication:
    """Make the publication of a document with new vectors and otherwise unchanged fields."""
    values = {name: getattr(document, name) for name in DOCUMENT_FIELDS}
    values["status"] = DocumentStatus.PARTIAL if document.warnings else DocumentStatus.COMPLETED
    values["chunk_count"] = staged.count
    last = tuple(staged.last_batch)
    return Publication(content_id=staged.content_id, unstaged=last, model_id=staged.model_id, keep_words=True, **values)
