"""Accepts documents: validates them, stores the original, and queues the job; parsing happens later."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import PurePosixPath, PureWindowsPath

from knowledge.blobs.api import Blobs
from knowledge.blobs.incoming import IncomingFile, ReceivedFile
from knowledge.engine.ingest.document_reader import NOTE_TITLE_SCAN_CHARS, make_note_title
from knowledge.engine.ingest.pipeline import DocumentOrigin
from knowledge.errors import InvalidFilename, InvalidParameter, NotANote
from knowledge.extract import formats
from knowledge.extract.base import Source
from knowledge.extract.process.parsers import Parsers
from knowledge.model import Document, DocumentKind, Job, JobKind, NewDocument, NewFile, NewNote, Scope, new_uid
from knowledge.model.documents import DESCRIPTION_FIELDS
from knowledge.store.accounts.quotas import Quota
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.claim_queues import PRIORITY_BULK, PRIORITY_INTERACTIVE
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.rows import NewJob

MAX_TAGS, MAX_TAG_CHARS, MAX_FILENAME_CHARS = 100, 200, 255


def check_document(new: NewDocument) -> None:
    """Validate file name, text and tags before the content is received."""
    match new:
        case NewFile():
            formats.check_suffix(clean_filename(new.filename))
        case NewNote():
            if not new.text.strip():
                raise InvalidParameter("The note has no text", parameter="note")
    check_tags(new.tags)


def check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MAX_TAGS or any(not tag.strip() or len(tag) > MAX_TAG_CHARS for tag in tags):
        raise InvalidParameter(
            f"tags must have at most {MAX_TAGS} entries of 1 to {MAX_TAG_CHARS} characters",
            parameter="tags",
            given=len(tags),
        )


class Acceptor:
    """Queues documents whose content has been received; blocking, for worker threads."""

    def __init__(
        self,
        files: Blobs,
        documents: DocumentStore,
        queue: DocumentQueue,
        parsers: Parsers,
        quota: Quota,
        max_file_bytes: int,
        wake_workers: Callable[[], None],
    ) -> None:
        self._files, self._documents, self._queue, self._parsers = files, documents, queue, parsers
        self.quota, self._max_file_bytes, self._wake_workers = quota, max_file_bytes, wake_workers

    def open_incoming(self) -> IncomingFile:
        return self._files.open_incoming(self._max_file_bytes)

    def write_incoming(self, data: bytes) -> IncomingFile:
        """Write bytes from memory to an incoming file."""
        file = self.open_incoming()
        try:
            file.write(data)
        except BaseException:
            file.discard()
            raise
        return file

    def accept(self, new: NewDocument, arrived: IncomingFile | None, scope: Scope) -> Job:
        """Queue the job for a note or a received file; raises Duplicate if the collection has the same content."""
        if arrived is None:
            assert isinstance(new, NewNote)
            arrived = self.write_incoming(new.text.encode("utf-8"))
        with self._files.adopt_incoming(arrived, self._documents.is_file_referenced) as received:
            job = NewJob(
                new.job_uid,
                self._find_kind(new, received),
                scope.owner,
                None,
                clean_filename(new.filename) if isinstance(new, NewFile) else make_note_title(new.text),
                _make_origin(new, received.size).dump(),
                received.sha256,
                PRIORITY_BULK if isinstance(new, NewFile) else PRIORITY_INTERACTIVE,
            )
            queued = self._queue.add_new(job, new.collection, new.source_path, received.size, self.quota, scope)
        self._wake_workers()
        return queued

    def accept_update(self, note: Document, text: str, scope: Scope, expected: str | None = None) -> Job:
        """Queue a new text for a note; it is published if the note still has the expected revision then."""
        arrived = self.write_incoming(text.encode("utf-8"))
        with self._files.adopt_incoming(arrived, self._documents.is_file_referenced) as received:
            described = {name: getattr(note, name) for name in DESCRIPTION_FIELDS}
            if self._is_titled_after_text(note):
                described["title"] = None
            origin = DocumentOrigin(kind=DocumentKind.NOTE, size=received.size, **described)
            job = NewJob(
                new_uid(),
                JobKind.UPDATE,
                scope.owner,
                note.collection_id,
                make_note_title(text),
                {**origin.dump(), "document_id": note.id, "expected": expected},
                received.sha256,
                PRIORITY_INTERACTIVE,
            )
            queued = self._queue.add(job)
        self._wake_workers()
        return queued

    def queue_embedding(self, document: Document, scope: Scope) -> Job:
        """Queue new vectors for a document whose title has changed."""
        job = NewJob(
            new_uid(),
            JobKind.EMBED,
            scope.owner,
            document.collection_id,
            document.filename or document.title,
            {"document_id": document.id},
            None,
            PRIORITY_BULK,
        )
        queued = self._queue.add(job)
        self._wake_workers()
        return queued

    def _find_kind(self, new: NewDocument, received: ReceivedFile) -> JobKind:
        """Return UNPACK for an archive, otherwise ADD; raises if the content does not match the file name."""
        if isinstance(new, NewNote):
            return JobKind.ADD
        with self._files.open_local(received.sha256) as path:
            source = Source(path, clean_filename(new.filename))
            return JobKind.UNPACK if self._parsers.identify(source) == "zip" else JobKind.ADD

    def _is_titled_after_text(self, note: Document) -> bool:
        try:
            with (
                self._files.open_local(note.sha256) as path,
                path.open(encoding="utf-8", newline="") as file,
            ):
                return note.title == make_note_title(file.read(NOTE_TITLE_SCAN_CHARS))
        except FileNotFoundError:
            return False


def check_note(document: Document) -> None:
    if document.kind is not DocumentKind.NOTE:
        raise NotANote(f"Document {document.id} is not a note: only notes can be updated", document_id=document.id)


def clean_filename(name: str) -> str:
    """Return the last path component without control characters, against path traversal and spoofed names."""
    last = PureWindowsPath(PurePosixPath(name).name).name
    printable = "".join(
        letter for letter in unicodedata.normalize("NFC", last[-4 * MAX_FILENAME_CHARS :]) if letter.isprintable()
    ).strip()
    if not printable or printable in (".", ".."):
        raise InvalidFilename(f"'{name[:100]}' is not a valid file name", parameter="filename")
    return printable[-MAX_FILENAME_CHARS:]


def _make_origin(new: NewDocument, size: int) -> DocumentOrigin:
    match new:
        case NewFile():
            kind, force_ocr = new.kind, new.force_ocr
        case NewNote():
            kind, force_ocr = DocumentKind.NOTE, False
    return DocumentOrigin(kind=kind, size=size, force_ocr=force_ocr, **new.dump_description())
