"""Removes documents and cancels queued jobs, with their files and index entries; blocking, for worker threads."""

from __future__ import annotations

from knowledge import failpoints
from knowledge.blobs.api import Blobs
from knowledge.engine.cluster.signals import ClusterSignals, SignalKind
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.model import Ref, RemovalResult, Scope
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.job_leases import JobLeases
from knowledge.store.jobs.jobs import JobStore


class Removal:
    def __init__(
        self,
        documents: DocumentStore,
        files: Blobs,
        jobs: JobStore,
        progress: ProgressTracker,
        indexer: IndexFollower,
        leases: JobLeases | None = None,
        signals: ClusterSignals | None = None,
    ) -> None:
        """`leases` and `signals` are set if other servers use the database."""
        self._leases, self._signals = leases, signals
        self._documents, self._files, self._jobs = documents, files, jobs
        self._progress, self._indexer = progress, indexer

    def remove_document(self, ref: Ref, scope: Scope) -> RemovalResult:
        return self.free_files(*self._documents.remove(ref, scope))

    def free_files(self, removed: RemovalResult, candidates: list[str]) -> RemovalResult:
        """Delete the candidates that no document refers to any more, and wake the index follower."""
        failpoints.trigger("remove.committed")
        freed = sum(self._files.discard(sha256, self._documents.is_file_referenced) for sha256 in candidates)
        self._indexer.wake()
        self._progress.notify_all_watchers()  # the jobs of processing documents were cancelled
        return RemovalResult(removed.documents, removed.chunks, freed)

    def cancel_job(self, job_id: int, scope: Scope, *, even_if_running: bool = False) -> bool:
        """Cancel a job and delete its original and document; return False if it has ended or a worker runs it."""
        original = self._jobs.find_original(job_id, scope)
        cancelled = self._jobs.cancel(job_id, even_if_running=even_if_running)
        if cancelled:
            failpoints.trigger("add.dropped")
            self._indexer.wake()
            self._progress.notify_watchers(job_id)
            self._progress.announce(job_id)
            if original is not None:
                self._files.discard(original, self._documents.is_file_referenced)
        return cancelled

    def cancel_running(self, job_id: int) -> None:
        """Cancel a job that runs here or on another server."""
        if not self._progress.cancel(job_id):
            self.request_cancel(job_id)

    def request_cancel(self, job_id: int) -> bool:
        """Ask the server that runs a job to cancel it; return False if there is only this one, or none runs it."""
        if self._leases is None or self._signals is None or not self._leases.request_cancel(job_id):
            return False
        self._signals.send(SignalKind.CANCEL, job_id)
        return True
