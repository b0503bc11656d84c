"""The index follower: a thread that applies the change log to the index and stores a checkpoint."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from knowledge import failpoints
from knowledge.engine.indexing.purge_schedule import PurgeSchedule
from knowledge.errors import KnowledgeError
from knowledge.index.api import ChunkVector, Index, IndexEntry
from knowledge.split import build_indexed_text
from knowledge.store.changes import ChangeLog
from knowledge.store.chunks import ChunkStore, IndexableChunk
from knowledge.store.documents import DocumentStore
from knowledge.store.models import StoredModel
from knowledge.telemetry import metrics
from knowledge.text import analyzer

log = logging.getLogger(__name__)

CHANGES_PER_BATCH = 200
"""Changes applied to the index with one commit."""
DOCUMENTS_PER_REBUILD_BATCH = 1000
MICROSECONDS_PER_DAY = 86_400_000_000
FLUSH_IDLE_SECONDS = 2.0
"""Time without a change after which the index is flushed and the change log trimmed."""
SMALL_INDEX_DOCUMENTS = 500
"""Up to this size the index is rebuilt during the start, above in the background."""
RETRY_SECONDS = 2.0
"""Pause after a failure."""
FULL_DISK_BYTES = 4 << 20
"""Free space below which the disk counts as full."""
GATHER_SECONDS = 0.1
"""Longest time for which a change waits for jobs that are about to publish, to share a commit with them."""
MAX_UNFLUSHED_CHANGES = 2000
"""Limit of the changes that are applied again after a crash."""

# Limits for closing: a stop must not take long, and the next start continues an unfinished purge.
CLOSING_SECONDS, CLOSING_PURGE_CHUNKS = 5.0, 5000

OpenIndex = Callable[[Path, StoredModel | None], Index]
SequenceCallback = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ServingIndex:
    """An index and the model of its vectors, swapped together so that no search mixes two models."""

    index: Index
    model: StoredModel | None


class IndexFollower:
    def __init__(
        self,
        folder: Path,
        open_index: OpenIndex,
        model: StoredModel | None,
        changes: ChangeLog,
        chunks: ChunkStore,
        documents: DocumentStore,
        on_applied: SequenceCallback,
        on_flushed: SequenceCallback,
        find_safe_seq: Callable[[int], int] | None = None,
    ) -> None:
        """`find_safe_seq` returns up to which change all servers have made the log durable, if there are several."""
        self._folder, self._open_index = folder, open_index
        self._changes, self._chunks, self._documents = changes, chunks, documents
        self._on_applied, self._on_flushed, self._find_safe_seq = on_applied, on_flushed, find_safe_seq
        self._built: ServingIndex | None = None
        self.on_own_change: Callable[[], None] | None = None
        """Called for changes of this server, to tell others."""
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._write_lock = threading.RLock()  # serializes applying changes, rebuilding and purging
        self._progress = threading.Condition()
        self._purge = PurgeSchedule()
        self._expected = 0
        self._urgent = False
        self.rebuilding = False
        self.failure: str | None = None
        self._damaged = self.was_started = False
        folder.mkdir(parents=True, exist_ok=True)
        self._delete_old_folders()
        self.serving = ServingIndex(open_index(self._current_folder(), model), model)
        self.seq = self.index.checkpoint()
        self._thread = threading.Thread(target=self._run_loop, name="indexer", daemon=True)

    def start(self) -> None:
        """Apply the changes that the last process has not applied, or rebuild, and start the thread."""
        self.was_started = True
        if self.seq < 0 and not self._changes.newest_seq():
            self._run_step(self._begin_empty)
        elif not self._must_rebuild():
            self._run_step(self.catch_up)
        elif len(self._documents.list_chunk_counts()) <= SMALL_INDEX_DOCUMENTS:
            self._run_step(lambda: self.rebuild(self.model))
        if self.failure is not None:  # for example because of a file that a crash left behind
            self._run_step(self._repair)
        self._thread.start()
        self.wake()

    def wake(self, *, is_remote: bool = False) -> None:
        """Look for changes, which this server has made unless they are `is_remote`."""
        self._wake.set()
        if not is_remote and self.on_own_change is not None:
            self.on_own_change()

    def wait_for_change(self, seq: int, timeout: float) -> bool:
        """Wait until the index has applied a change; return False after the timeout."""
        self.wake()
        with self._progress:
            self._urgent = True
            self._progress.notify_all()
            return self._progress.wait_for(lambda: self.seq >= seq or self._stopping.is_set(), timeout)

    @contextmanager
    def expect_change(self) -> Iterator[None]:
        """Announce that a change will be published soon, so that the follower can wait and batch it."""
        with self._progress:
            self._expected += 1
        try:
            yield
        finally:
            with self._progress:
                self._expected -= 1
                self._progress.notify_all()

    def close(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
            self._run_step(self._finish_before_close)
        self._drop_built()
        if self.was_started:
            self._flush_and_trim_log()
        self.index.close()

    @property
    def index(self) -> Index:
        return self.serving.index

    @property
    def model(self) -> StoredModel | None:
        """The model of the vectors in the index."""
        return self.serving.model

    @property
    def built_model(self) -> StoredModel | None:
        """The model of an index that is built and waits to be used."""
        return self._built.model if self._built else None

    @property
    def needed_seq(self) -> int:
        """The last change that this server does not need in the log any more."""
        checkpoint, built = self.index.checkpoint(), self._built
        return checkpoint if built is None else min(checkpoint, built.index.checkpoint())

    @property
    def changes_behind(self) -> int:
        """Number of changes that the index has not applied."""
        return max(0, self._changes.newest_seq() - max(self.seq, 0))

    def rebuild(self, model: StoredModel | None) -> None:
        """Build a new index from the store while the old one serves searches, and swap it in."""
        with self._write_lock:
            self._drop_built()
            self.rebuilding = True
            try:
                self._swap_index(self._build_index(model), model)
            finally:
                self.rebuilding = False
        self.wake()

    def build_ahead(self, model: StoredModel) -> None:
        """Build an index with the vectors of another model, which `use_built` swaps in."""
        with self._write_lock:
            if self.built_model != model:
                self._drop_built()
                self._built = ServingIndex(self._build_index(model), model)

    def use_built(self) -> None:
        """Apply the latest changes to the index that was built ahead, and swap it in."""
        with self._write_lock:
            built = self._built
            if built is None:
                return
            seq = built.index.checkpoint()
            while (batch := self._changes.read_after(seq, CHANGES_PER_BATCH)) is not None:
                entries = self._read_entries(batch.documents, built.model)
                built.index.apply(batch.seq, batch.documents, entries, self._read_vectors(batch.embedded, built.model))
                seq = batch.seq
            built.index.flush()
            self._built = None
            self._swap_index(built.index, built.model)
        self.wake()

    def _drop_built(self) -> None:
        built, self._built = self._built, None
        if built is not None:
            built.index.close()
            shutil.rmtree(self._next_folder(), ignore_errors=True)

    def report_damage(self, index: Index, error: BaseException) -> None:
        """Rebuild an index that failed during a search, at once if it is small, otherwise in the background."""
        with self._write_lock:
            if self.index is not index:  # already replaced after another search
                return
            log.error("the index is damaged and is being rebuilt: %s", error)
            self.failure, self._damaged = f"The index is damaged and is being rebuilt: {error}", True
            if len(self._documents.list_chunk_counts()) <= SMALL_INDEX_DOCUMENTS:
                self._run_step(self._repair)
            else:
                self.wake()

    # -- following ------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        if self._must_rebuild():
            self._run_step(lambda: self.rebuild(self.model))
        while not self._stopping.is_set():
            if self.failure is not None:
                self._wake.wait(RETRY_SECONDS)
                self._wake.clear()
                self._run_step(self._repair)
                continue
            if not self._wake.wait(FLUSH_IDLE_SECONDS):
                self._run_step(self._flush_and_trim_log)
                if self.failure is None:
                    self._run_step(self._purge_while_idle)
                if self.failure is not None or not self._wake.wait(self._purge.wait_seconds(self.index)):
                    continue
            self._wait_for_more_changes()
            self._wake.clear()
            self._run_step(self.catch_up)
            if self.failure is None and self._purge.is_overdue(self.index):
                self._run_step(self._purge_step)

    def _wait_for_more_changes(self) -> None:
        with self._progress:  # a commit costs as much for one document as for twenty
            self._progress.wait_for(
                lambda: not self._expected or self._urgent or self._stopping.is_set(), GATHER_SECONDS
            )
        self._urgent = False

    def _run_step(self, step: Callable[[], None]) -> None:
        try:
            step()
            if self.failure is not None:
                log.warning("the index is in step with the store again")
            self.failure = None
        except (KnowledgeError, OSError, ValueError, RuntimeError) as error:
            if self.failure is None:
                log.exception("applying changes to the index failed")
            why = "the disk of the data folder is full" if self._free_bytes() < FULL_DISK_BYTES else str(error)
            self.failure = f"The index is behind the change log: {why}"

    def _repair(self) -> None:
        """Retry, and rebuild the index from the store if that fails although the disk has space."""
        if not self._damaged and not self._must_rebuild():
            try:
                self.catch_up()
                self._flush_and_trim_log()
                return
            except (KnowledgeError, OSError, ValueError, RuntimeError):
                if self._free_bytes() < FULL_DISK_BYTES + 2 * self.index.size_bytes():
                    raise
        self.rebuild(self.model)
        self._damaged = False

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self._folder).free

    def catch_up(self) -> None:
        """Apply all outstanding changes."""
        with self._write_lock:
            while not self._stopping.is_set() and self._apply_next():
                self._wait_for_more_changes()

    def _apply_next(self) -> bool:
        """Apply the next batch of changes; return False if there are none."""
        batch = self._changes.read_after(self.seq, CHANGES_PER_BATCH)
        if batch is None:
            return False
        # After the batch is read: other servers may have trimmed the log while this one was stopped.
        if self._find_safe_seq is not None and not self._changes.is_complete_after(self.seq):
            log.warning("the change log no longer reaches back to change %d; rebuilding the index", self.seq)
            self.rebuild(self.model)
            return True
        with metrics.INGEST_STAGE_SECONDS["index"].time():
            entries = self._read_entries(batch.documents, self.model)
            self.index.apply(batch.seq, batch.documents, entries, self._read_vectors(batch.embedded, self.model))
        failpoints.trigger("index.applied")
        self._set_seq(batch.seq)
        if batch.seq - self.index.checkpoint() > MAX_UNFLUSHED_CHANGES:
            self._flush_and_trim_log()
        return True

    def _finish_before_close(self) -> None:
        """Apply the last changes and purge deleted chunks, within CLOSING_SECONDS."""
        deadline = time.monotonic() + CLOSING_SECONDS
        with self._write_lock:
            while time.monotonic() < deadline and self._apply_next():
                pass
            self._flush_and_trim_log()
            small = self.index.count_unpurged() <= CLOSING_PURGE_CHUNKS
            while small and self.index.count_unpurged() and time.monotonic() < deadline:
                self.index.purge(self._read_passage_entries)

    def _purge_while_idle(self) -> None:
        """Purge until nothing is left, a change arrives, or the thread stops."""
        while self._purge.is_due(self.index) and not self._wake.is_set() and not self._stopping.is_set():
            self._purge_step()
            self._wake.wait(self._purge.pause_seconds)

    def _purge_step(self) -> None:
        with self._write_lock, self._purge.measure_step() as step:
            step.is_last = self.index.purge(self._read_passage_entries)
            failpoints.trigger("index.purged")

    def _begin_empty(self) -> None:
        """Flush the empty index, so that a crash before the first flush does not look like a lost index."""
        self.index.apply(0, (), ())
        self.index.flush()
        self.seq = 0

    def _set_seq(self, seq: int) -> None:
        self.seq = seq
        self._on_applied(seq)
        with self._progress:
            self._progress.notify_all()

    def _must_rebuild(self) -> bool:
        """Return whether the index has no checkpoint, or the change log no longer reaches back to it."""
        if self.seq < 0:
            return self._changes.newest_seq() > 0
        return not self._changes.is_complete_after(self.seq)

    def _flush_and_trim_log(self) -> None:
        with self._write_lock:
            self.index.flush()
            failpoints.trigger("index.flushed")
            safe = self.needed_seq
            if self._find_safe_seq is not None:
                safe = self._find_safe_seq(safe)
            self._on_flushed(safe)
            oldest = self._changes.oldest_seq()
            if oldest is not None and oldest < safe:
                self._changes.trim(safe)

    # -- building -------------------------------------------------------------------------------

    def _read_entries(self, document_ids: Sequence[int], model: StoredModel | None) -> Iterator[IndexEntry]:
        return map(entry_of, self._chunks.read_indexable(document_ids, model.id if model else 0))

    def _read_vectors(self, document_ids: Sequence[int], model: StoredModel | None) -> Iterator[ChunkVector]:
        if model is None or not document_ids:
            return
        for chunk_id, data in self._chunks.read_vectors(document_ids, model.id):
            yield ChunkVector(chunk_id, np.frombuffer(data, np.float16))

    def _read_passage_entries(self, chunk_ids: Sequence[int]) -> Iterator[IndexEntry]:
        return map(entry_of, self._chunks.read_indexable_chunks(chunk_ids, self.model.id if self.model else 0))

    def _read_all_entries(self, identities: Sequence[int], model: StoredModel | None) -> Iterator[IndexEntry]:
        for first in range(0, len(identities), DOCUMENTS_PER_REBUILD_BATCH):
            yield from self._read_entries(identities[first : first + DOCUMENTS_PER_REBUILD_BATCH], model)

    def _build_index(self, model: StoredModel | None) -> Index:
        target = self._next_folder()
        shutil.rmtree(target, ignore_errors=True)
        fresh = self._open_index(target, model)
        try:
            newest = self._changes.newest_seq()
            identities = sorted(self._documents.list_chunk_counts())
            fresh.apply(newest, (), self._read_all_entries(identities, model))  # one commit, for few and large segments
            fresh.flush()
        except BaseException:
            fresh.close()
            shutil.rmtree(target, ignore_errors=True)
            raise
        return fresh

    def _swap_index(self, fresh: Index, model: StoredModel | None) -> None:
        old, old_folder = self.index, self._current_folder()
        failpoints.trigger("index.built")
        self._write_generation(self._read_generation() + 1)
        self.serving = ServingIndex(fresh, model)
        self._set_seq(fresh.checkpoint())
        failpoints.trigger("index.swapped")
        try:
            old.close()
        except (OSError, ValueError):  # expected if it is replaced because it is damaged
            log.warning("closing the replaced index failed")
        shutil.rmtree(old_folder, ignore_errors=True)

    # -- folder of the current index --------------------------------------------------------------

    def _read_generation(self) -> int:
        try:
            return int((self._folder / "current").read_text("ascii"))
        except (OSError, ValueError):
            return 0

    def _write_generation(self, number: int) -> None:
        draft = self._folder / "current.new"
        draft.write_text(str(number), "ascii")
        draft.replace(self._folder / "current")

    def _next_folder(self) -> Path:
        return self._folder / f"{self._read_generation() + 1:06d}"

    def _current_folder(self) -> Path:
        return self._folder / f"{self._read_generation():06d}"

    def _delete_old_folders(self) -> None:
        """Delete the folders that interrupted rebuilds left behind."""
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder != self._current_folder():
                shutil.rmtree(folder, ignore_errors=True)


def entry_of(row: IndexableChunk) -> IndexEntry:
    """Make the index entry of a chunk: the terms of title, headings and text, and the vector."""
    words = build_indexed_text(row.title, row.section, row.text)
    return IndexEntry(
        chunk_id=row.chunk_id,
        document_id=row.document_id,
        position=row.position,
        collection_id=row.collection_id,
        owner=row.owner,
        doc_type=row.doc_type,
        day=row.created_at // MICROSECONDS_PER_DAY,
        tags=row.tags,
        terms=analyzer.extract_terms(words, row.language),
        vector=None if row.vector is None else np.frombuffer(row.vector, np.float16),
        language=row.language,
    )
