"""Queue ingest jobs; duplicate and quota checks run in the same transaction."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from knowledge.model import CollectionRef, Job, Scope
from knowledge.store import collections, publish
from knowledge.store.accounts import quotas
from knowledge.store.accounts.quotas import Quota
from knowledge.store.database import Database
from knowledge.store.jobs import claims, jobs
from knowledge.store.jobs.rows import JobClaim, NewJob


class DocumentQueue:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewJob) -> Job:
        """Queue a job for an existing document, or return the job with this uid."""

        def work(connection: Connection) -> Job:
            known = jobs.find_by_uid(connection, new.uid, Scope(new.owner))
            return known if known is not None else jobs.queue_job(connection, new)

        return self._database.write(work, is_idempotent=True)

    def add_new(
        self,
        new: NewJob,
        collection: CollectionRef,
        source_path: str | None,
        size: int,
        quota: Quota,
        scope: Scope,
    ) -> Job:
        """Queue the job of a new document, or return the job with this uid; raises Duplicate for known content."""

        def work(connection: Connection) -> Job:
            known = jobs.find_by_uid(connection, new.uid, scope)
            if known is not None:
                return known
            collection_id = collections.require_target(connection, collection, scope)
            old = publish.find_at_path(connection, collection_id, source_path)
            publish.reject_duplicate(connection, collection_id, str(new.sha256), old)
            quotas.check_quota(connection, quota, collection_id, size, old)
            return jobs.queue_job(connection, replace(new, collection_id=collection_id))

        return self._database.write(work, is_idempotent=True)

    def add_member(self, archive: JobClaim, new: NewJob, source_path: str, size: int, quota: Quota) -> None:
        """Queue the job of an archive member once, if the archive's job is still claimed."""
        collection_id = archive.collection_id
        assert collection_id is not None

        def work(connection: Connection) -> None:
            claims.require_claim(connection, archive)
            old = publish.find_at_path(connection, collection_id, source_path)
            publish.reject_duplicate(connection, collection_id, str(new.sha256), old)
            if jobs.find_by_uid(connection, new.uid, Scope(archive.owner)) is None:
                quotas.check_quota(connection, quota, collection_id, size, old)
                jobs.queue_job(connection, new)

        self._database.write(work, is_idempotent=True)
