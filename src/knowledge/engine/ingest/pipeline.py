"""The ingest pipeline of one job: read, split, embed, publish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from knowledge.embed.loading import find_tokenizer_spec
from knowledge.engine.indexing.models import EmbeddingModels
from knowledge.engine.ingest.document_reader import (
    WARM_UP_TEXT,
    DocumentReading,
    PageSummary,
    ReadOptions,
    choose_title,
    read_document,
)
from knowledge.engine.ingest.embedding_child import EmbeddingIsolation
from knowledge.engine.ingest.staging import StagedDocument, VectorModel
from knowledge.errors import Cancelled, Internal, ModelUnavailable, NoText
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
    ReportProgress,
)
from knowledge.split import SplitPassage
from knowledge.store.chunks import ChunkStore
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore
from knowledge.store.jobs.rows import JobClaim
from knowledge.store.models import ModelStore
from knowledge.store.publish import DOCUMENT_FIELDS, Publication, Publisher, PublishResult

MAX_PAGE_WARNINGS = 1000
"""Warnings kept per document; further failures are only counted."""

ShouldStop = Callable[[], bool]


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
    files: FileStore
    chunks: ChunkStore
    documents: DocumentStore
    publisher: Publisher
    stored_models: ModelStore
    parsers: Parsers
    models: EmbeddingModels
    ocr_languages: str
    isolation: EmbeddingIsolation | None = None
    """Child process that embeds while the job is quarantined."""

    def run(self, claim: JobClaim, report: ReportProgress, stop: ShouldStop) -> PublishResult:
        with self.models.track_job():
            if not claim.runs_alone:
                return self._run_kind(claim, report, stop)
            with EmbeddingIsolation(self.parsers.limits.seconds, stop) as isolation:
                return replace(self, isolation=isolation)._run_kind(claim, report, stop)

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

    def _run_kind(self, claim: JobClaim, report: ReportProgress, stop: ShouldStop) -> PublishResult:
        match claim.kind:
            case JobKind.ADD:
                return self._run_add(claim, report, stop)
            case JobKind.UPDATE:
                return self._run_update(claim, report, stop)
            case JobKind.EMBED:
                return self._run_embed(claim, report, stop)
        raise Internal(f"The ingest pipeline does not run jobs of kind {claim.kind}")

    # -- kinds of jobs --------------------------------------------------------------------------

    def _run_add(self, claim: JobClaim, report: ReportProgress, stop: ShouldStop) -> PublishResult:
        origin = DocumentOrigin.load(claim.payload)
        publication = self._prepare_publication(claim, origin, report, stop)
        return self._publish_or_drop(publication, lambda: self.publisher.add(claim, publication))

    def _run_update(self, claim: JobClaim, report: ReportProgress, stop: ShouldStop) -> PublishResult:
        document = self.documents.get(cast(int, claim.payload["document_id"]))
        origin = DocumentOrigin.load(claim.payload)
        publication = self._prepare_publication(claim, origin, report, stop)
        return self._publish_or_drop(publication, lambda: self.publisher.replace(claim, document.id, publication))

    def _run_embed(self, claim: JobClaim, report: ReportProgress, stop: ShouldStop) -> PublishResult:
        """Embed the chunks of a document again, under its new title."""
        document = self.documents.get(cast(int, claim.payload["document_id"]))
        staged = self._begin_staging(claim, document.title, document.language, stop)
        report("Generating embeddings", 0, document.chunk_count)
        for chunk in self.chunks.list_of_document(document.id):
            staged.add_pieces([SplitPassage(chunk.text, chunk.page, chunk.section)])
        staged.finish()
        publication = _make_republication(document, staged)
        return self._publish_or_drop(publication, lambda: self.publisher.replace(claim, document.id, publication))

    def _publish_or_drop(self, publication: Publication, publish: Callable[[], PublishResult]) -> PublishResult:
        try:
            return publish()
        except BaseException:
            if publication.content_id is not None:
                self.chunks.drop_content(publication.content_id)
            raise

    # -- reading --------------------------------------------------------------------------------

    def _prepare_publication(
        self, claim: JobClaim, origin: DocumentOrigin, report: ReportProgress, stop: ShouldStop
    ) -> Publication:
        assert claim.sha256 is not None
        path = self.files.get_path(claim.sha256)
        report("Reading", 0, 0)
        source = Source(path, claim.filename, origin.force_ocr, self.ocr_languages)
        given = origin.title or origin.metadata.get("title")
        title = str(given) if given else None
        with self._read_document(source, title, origin.kind is DocumentKind.NOTE, stop) as reading:
            return self._stage_reading(claim, origin, title, reading, report, stop)

    def _read_document(self, source: Source, title: str | None, note: bool, stop: ShouldStop) -> DocumentReading:
        options = ReadOptions(title, note, find_tokenizer_spec(self.models.serving.choice))
        return read_document(self.parsers, source, options, stop)

    def _stage_reading(
        self,
        claim: JobClaim,
        origin: DocumentOrigin,
        given: str | None,
        reading: DocumentReading,
        report: ReportProgress,
        stop: ShouldStop,
    ) -> Publication:
        facts, language = reading.facts, reading.language
        title = choose_title(given, facts, claim.filename)
        staged, summary = self._begin_staging(claim, title, language, stop), ReadingSummary()
        try:
            for part in reading:
                if isinstance(part, SplitPassage):
                    staged.add_pieces([part])
                else:
                    report(*_describe_progress(part, facts, summary, origin.size))
                    summary.add_page(part)
            staged.finish()
            if not staged.count:
                raise NoText("The document contains no text", hint=None, reasons=list(summary.warnings))
        except BaseException:
            staged.abandon()
            raise
        return _make_publication(claim, origin, facts, title, language, summary, staged)

    def _begin_staging(self, claim: JobClaim, title: str, language: str | None, stop: ShouldStop) -> StagedDocument:
        model = self.load_vector_model()
        if model is not None and not model.reads_language(language):
            model = None

        def check_cancelled() -> None:
            if stop():
                raise Cancelled("The job was cancelled", job_id=str(claim.uid))

        return StagedDocument(claim.id, title, self.chunks, model, check_cancelled)

    def load_vector_model(self) -> VectorModel | None:
        """Return the serving model, waiting until it is loaded; None if it is unavailable, for search by words only."""
        model = self.models.serving
        try:
            embedder = model.wait_for_embedder(60.0)
        except ModelUnavailable:
            return None
        stored = self.stored_models.register(embedder.fingerprint, embedder.name, embedder.dimension)
        return VectorModel(self.isolation.isolate_model(model, embedder) if self.isolation else embedder, stored.id)


def _describe_progress(page: PageSummary, facts: Facts, summary: ReadingSummary, size: int) -> tuple[str, int, int]:
    if page.number is not None and facts.page_count:
        return f"Processing page {page.number} of {facts.page_count}", page.number - 1, facts.page_count
    return "Generating embeddings", min(summary.characters, size), size


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
    return Publication(content_id=staged.content_id, unstaged=last, model_id=staged.model_id, **values)
