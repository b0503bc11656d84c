"""An archive of documents: each one in it is queued as a job of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlalchemy import Connection

from knowledge.engine.ingest.pipeline import Origin
from knowledge.errors import Damaged, Duplicate, QuotaExceeded
from knowledge.extract.base import Source
from knowledge.extract.process.parsers import Parsers
from knowledge.model import JobKind, Scope
from knowledge.store import publish
from knowledge.store.accounts import quotas
from knowledge.store.accounts.quotas import Quota
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore, Incoming
from knowledge.store.jobs import jobs
from knowledge.store.jobs.jobs import BULK
from knowledge.store.jobs.rows import Claim, NewJob

LARGEST = 200 << 20
"""What all documents of one archive may take when they are unpacked."""


def unpack(
    database: Database,
    files: FileStore,
    documents: DocumentStore,
    parsers: Parsers,
    claim: Claim,
    quota: Quota,
    stop: Callable[[], bool],
) -> list[str]:
    """Queue what an archive holds, as a child unpacks it; answers what its owner should know. To do it twice queues
    nothing twice."""
    assert claim.sha256 is not None
    origin = Origin.load(claim.payload)
    queued = 0
    told: list[str] = []
    source = Source(files.path(claim.sha256), claim.filename, max_unpacked_bytes=LARGEST)
    with parsers.unpack(source, cancelled=stop) as unpacking:
        for name, pieces in unpacking:
            incoming = files.incoming(LARGEST)
            try:
                _fill(incoming, pieces)
                _queue(database, files, documents, claim, quota, origin, name, incoming)
                queued += 1
            except Duplicate:
                told.append(f"{name} is already there")
            except QuotaExceeded as error:
                told.append(f"{name} was left out: {error}")
            except Damaged as error:
                told.append(str(error))
    return [f"{queued} documents of the archive were queued", *told]


def _fill(incoming: Incoming, pieces: Iterable[bytes]) -> None:
    try:
        for piece in pieces:
            incoming.write(piece)
    except BaseException:
        incoming.discard()
        raise


def _queue(
    database: Database,
    files: FileStore,
    documents: DocumentStore,
    claim: Claim,
    quota: Quota,
    origin: Origin,
    name: str,
    incoming: Incoming,
) -> None:
    assert claim.collection_id is not None
    collection_id = claim.collection_id
    path = f"{origin.source_path or claim.filename}!/{name}"
    with files.adopt(incoming, documents.names) as received:
        own = replace(origin, title=None, source_path=path, size=received.size)
        job = NewJob(
            uuid.uuid5(claim.uid, name),
            JobKind.ADD,
            claim.owner,
            collection_id,
            name.rpartition("/")[2],
            own.dump(),
            received.sha256,
            BULK,
        )

        def work(connection: Connection) -> None:
            jobs.hold(connection, claim)
            old = publish.at_path(connection, collection_id, path)
            publish.refuse_duplicate(connection, collection_id, received.sha256, old)
            if jobs.find_uid(connection, job.uid, Scope(claim.owner)) is None:
                quotas.check(connection, quota, collection_id, received.size, old)
                jobs.queue(connection, job)

        database.write(work)
