"""Takes back what a removed document or a cancelled job has left. Blocking, for worker threads."""

from __future__ import annotations

from knowledge import failpoints
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.model import Ref, RemovalResult, Scope
from knowledge.store.documents import DocumentStore
from knowledge.store.files import FileStore
from knowledge.store.jobs.jobs import JobStore


class Removal:
    def __init__(
        self,
        documents: DocumentStore,
        files: FileStore,
        jobs: JobStore,
        progress: ProgressTracker,
        indexer: IndexFollower,
    ) -> None:
        self._documents, self._files, self._jobs = documents, files, jobs
        self._progress, self._indexer = progress, indexer

    def remove_document(self, ref: Ref, scope: Scope) -> RemovalResult:
        return self.free_files(*self._documents.remove(ref, scope))

    def free_files(self, removed: RemovalResult, candidates: list[str]) -> RemovalResult:
        """Delete the files that nothing refers to any more, and have the index follow."""
        failpoints.trigger("remove.committed")
        freed = sum(self._files.discard(sha256, self._documents.is_file_referenced) for sha256 in candidates)
        self._indexer.wake()
        return RemovalResult(removed.documents, removed.chunks, freed)

    def cancel_queued(self, job_id: int, scope: Scope) -> bool:
        """Cancel a job that has not begun, and delete its original; False if it is not queued."""
        kept = self._jobs.find_original(job_id, scope)
        cancelled = self._jobs.cancel_queued(job_id)
        if cancelled:
            self._progress.notify_watchers(job_id)
            if kept is not None:
                self._files.discard(kept, self._documents.is_file_referenced)
        return cancelled
