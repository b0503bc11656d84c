"""Unpacks an archive and queues a job for each document in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace

from knowledge.blobs.api import Blobs
from knowledge.blobs.incoming import IncomingFile
from knowledge.engine.ingest.originals import open_original
from knowledge.engine.ingest.pipeline import DocumentOrigin
from knowledge.errors import Damaged, Duplicate, QuotaExceeded
from knowledge.extract.base import Source
from knowledge.extract.process.parsers import Parsers
from knowledge.model import JobKind
from knowledge.store.accounts.quotas import Quota
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.claim_queues import PRIORITY_BULK
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.rows import JobClaim, NewJob

MAX_UNPACKED_BYTES = 200 << 20
"""Limit against zip bombs, for each member and for all members of an archive together."""


def unpack_archive(
    queue: DocumentQueue,
    files: Blobs,
    documents: DocumentStore,
    parsers: Parsers,
    claim: JobClaim,
    quota: Quota,
    stop: Callable[[], bool],
) -> list[str]:
    """Queue the members of an archive and return the warnings of the job.

    Idempotent: the job ids derive from the archive's job and the member name.
    """
    assert claim.sha256 is not None
    origin = DocumentOrigin.load(claim.payload)
    queued = 0
    warnings: list[str] = []
    with (
        open_original(files, claim.sha256) as path,
        parsers.unpack(
            Source(path, claim.filename, max_unpacked_bytes=MAX_UNPACKED_BYTES), cancelled=stop
        ) as unpacking,
    ):
        for name, pieces in unpacking:
            incoming = files.open_incoming(MAX_UNPACKED_BYTES)
            try:
                _write_pieces(incoming, pieces)
                _queue_member(queue, files, documents, claim, quota, origin, name, incoming)
                queued += 1
            except Duplicate:
                warnings.append(f"{name} is already in the collection")
            except QuotaExceeded as error:
                warnings.append(f"{name} was skipped: {error}")
            except Damaged as error:
                warnings.append(str(error))
    return [f"{queued} documents of the archive were queued", *warnings]


def _write_pieces(incoming: IncomingFile, pieces: Iterable[bytes]) -> None:
    try:
        for piece in pieces:
            incoming.write(piece)
    except BaseException:
        incoming.discard()
        raise


def _queue_member(
    queue: DocumentQueue,
    files: Blobs,
    documents: DocumentStore,
    claim: JobClaim,
    quota: Quota,
    origin: DocumentOrigin,
    name: str,
    incoming: IncomingFile,
) -> None:
    assert claim.collection_id is not None
    path = f"{origin.source_path or claim.filename}!/{name}"
    with files.adopt_incoming(incoming, documents.is_file_referenced) as received:
        member_origin = replace(origin, title=None, source_path=path, size=received.size)
        job = NewJob(
            uuid.uuid5(claim.uid, name),
            JobKind.ADD,
            claim.owner,
            claim.collection_id,
            name.rpartition("/")[2],
            member_origin.dump(),
            received.sha256,
            PRIORITY_BULK,
        )
        queue.add_member(claim, job, path, received.size, quota)
