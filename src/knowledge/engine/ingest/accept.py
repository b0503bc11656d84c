"""The moment of acceptance: the bytes are on disk, the job is committed, and nothing has been read yet."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from knowledge.engine.ingest.document_reader import TITLE_WITHIN, note_title
from knowledge.engine.ingest.pipeline import Origin
from knowledge.errors import InvalidFilename, InvalidParameter, NotANote
from knowledge.extract import formats
from knowledge.extract.base import Source
from knowledge.model import (
    Document,
    Job,
    JobKind,
    Kind,
    NewDocument,
    NewFile,
    NewNote,
    Scope,
    new_uid,
)
from knowledge.store import collections, publish
from knowledge.store.accounts import quotas
from knowledge.store.files import Incoming, Received
from knowledge.store.jobs import jobs
from knowledge.store.jobs.jobs import BULK, INTERACTIVE
from knowledge.store.jobs.rows import NewJob

if TYPE_CHECKING:  # the parts hold the crawler, and the crawler accepts pages
    from knowledge.engine.runtime import Parts

MOST_TAGS, LONGEST_TAG, LONGEST_FILENAME = 100, 200, 255


def check(new: NewDocument) -> None:
    """Refuse what can be refused before a byte is read."""
    match new:
        case NewFile():
            formats.check_suffix(clean_filename(new.filename))
        case NewNote():
            if not new.text.strip():
                raise InvalidParameter("A note needs a text", parameter="note")
    check_tags(new.tags)


def check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MOST_TAGS or any(not tag.strip() or len(tag) > LONGEST_TAG for tag in tags):
        raise InvalidParameter(
            f"At most {MOST_TAGS} tags, each of 1 to {LONGEST_TAG} characters", parameter="tags", given=len(tags)
        )


def incoming(parts: Parts) -> Incoming:
    """A place for bytes to come."""
    return parts.files.incoming(parts.options.max_file_bytes)


def written(parts: Parts, text: str) -> Incoming:
    """A text as bytes that have arrived."""
    file = incoming(parts)
    try:
        file.write(text.encode("utf-8"))
    except BaseException:
        file.discard()
        raise
    return file


def accept(parts: Parts, new: NewDocument, arrived: Incoming | None, scope: Scope) -> Job:
    """Queue the job for a note or for bytes that have arrived; the same again in one collection raises Duplicate."""
    if arrived is None:
        assert isinstance(new, NewNote)
        arrived = written(parts, new.text)
    with parts.files.adopt(arrived, parts.documents.names) as received:
        kind = _kind(parts, new, received)
        job = parts.database.write(lambda connection: _queue(connection, parts, new, kind, received, scope))
    parts.workers.wake()
    return job


def _kind(parts: Parts, new: NewDocument, received: Received) -> JobKind:
    """What is to be done with the bytes; a file whose content is not what its name says is refused here."""
    if isinstance(new, NewNote):
        return JobKind.ADD
    source = Source(parts.files.path(received.sha256), clean_filename(new.filename))
    doc_type = parts.parsers.identify(source)
    return JobKind.UNPACK if doc_type == "zip" else JobKind.ADD


def check_note(document: Document) -> None:
    if document.kind is not Kind.NOTE:
        raise NotANote(f"Document {document.id} is not a note: only notes can be updated", document_id=document.id)


def accept_update(parts: Parts, note: Document, text: str, scope: Scope) -> Job:
    """Queue another text for a note."""
    with parts.files.adopt(written(parts, text), parts.documents.names) as received:
        title = None if _named_after_its_text(parts, note) else note.title
        origin = Origin(Kind.NOTE, title, note.source_path, note.url, note.tags, note.metadata, received.size)
        job = NewJob(
            new_uid(),
            JobKind.UPDATE,
            scope.owner,
            note.collection_id,
            note_title(text),
            {**origin.dump(), "document_id": note.id},
            received.sha256,
            INTERACTIVE,
        )
        queued = parts.database.write(lambda connection: jobs.queue(connection, job))
    parts.workers.wake()
    return queued


def queue_embedding(parts: Parts, document: Document, scope: Scope) -> Job:
    """Queue new vectors for a document whose title has changed."""
    job = NewJob(
        new_uid(),
        JobKind.EMBED,
        scope.owner,
        document.collection_id,
        document.filename or document.title,
        {"document_id": document.id},
        None,
        BULK,
    )
    queued = parts.database.write(lambda connection: jobs.queue(connection, job))
    parts.workers.wake()
    return queued


def clean_filename(name: str) -> str:
    """The last part of a name, without what could mislead a person or a program."""
    last = PureWindowsPath(PurePosixPath(name).name).name
    printable = "".join(
        letter for letter in unicodedata.normalize("NFC", last[-4 * LONGEST_FILENAME :]) if letter.isprintable()
    ).strip()
    if not printable or printable in (".", ".."):
        raise InvalidFilename(f"'{name[:100]}' is no file name", parameter="filename")
    return printable[-LONGEST_FILENAME:]


def _queue(
    connection: Connection, parts: Parts, new: NewDocument, kind: JobKind, received: Received, scope: Scope
) -> Job:
    known = jobs.find_uid(connection, new.job_uid, scope)
    if known is not None:
        return known
    collection_id = collections.require(connection, new.collection, scope)
    old = publish.at_path(connection, collection_id, new.source_path)
    publish.refuse_duplicate(connection, collection_id, received.sha256, old)
    quotas.check(connection, parts.options.quota, collection_id, received.size, old)
    job = NewJob(
        new.job_uid,
        kind,
        scope.owner,
        collection_id,
        clean_filename(new.filename) if isinstance(new, NewFile) else note_title(new.text),
        _origin(new, received.size).dump(),
        received.sha256,
        BULK if isinstance(new, NewFile) else INTERACTIVE,
    )
    return jobs.queue(connection, job)


def _origin(new: NewDocument, size: int) -> Origin:
    match new:
        case NewFile():
            kind, force_ocr = new.kind, new.force_ocr
        case NewNote():
            kind, force_ocr = Kind.NOTE, False
    return Origin(kind, new.title, new.source_path, new.url, new.tags, new.metadata, size, force_ocr)


def _named_after_its_text(parts: Parts, note: Document) -> bool:
    path = parts.files.path(note.sha256)
    if not path.exists():
        return False
    with path.open(encoding="utf-8", newline="") as file:
        return note.title == note_title(file.read(TITLE_WITHIN))
