"""Keeps the index in step with the store: one thread that follows the change log."""

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
from knowledge.engine.indexing.purge import PurgeSchedule
from knowledge.errors import KnowledgeError
from knowledge.index.api import Entry, Index
from knowledge.split import passage_words
from knowledge.store.changes import ChangeLog
from knowledge.store.chunks import ChunkStore, Indexable
from knowledge.store.documents import DocumentStore
from knowledge.store.models import StoredModel
from knowledge.text import analyzer

log = logging.getLogger(__name__)

BATCH = 200
"""How many changes are applied at once: one commit for all of them."""
REBUILD_BATCH = 1000
DAY = 86_400_000_000
IDLE_SECONDS = 2.0
"""After so long without a change everything is made durable and the log is cut."""
SMALL = 500
"""So many documents are indexed anew before the start is over; more than that, in the background."""
RETRY_SECONDS = 2.0
"""How soon it is tried again after something went wrong."""
FULL = 4 << 20
"""With less than this a disk counts as full."""
TOGETHER = 0.1
"""For so long a change waits for others that are being made ready, in seconds; one that is alone waits for nothing."""
UNSETTLED = 2000
"""After so many changes too: they are what the next start has to see again after a crash."""

CLOSING_SECONDS, CLOSING_PASSAGES = 5.0, 5000
"""The end waits no longer for a purge, and begins none that has to write more passages anew."""

OpenIndex = Callable[[Path, StoredModel | None], Index]
Applied = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Serving:
    """An index and the model that made its vectors: swapped together, so that no search ever mixes two models."""

    index: Index
    model: StoredModel | None


class Indexer:
    """`index` is what searches use; it may be swapped for a new one at any time."""

    def __init__(
        self,
        folder: Path,
        open_index: OpenIndex,
        model: StoredModel | None,
        changes: ChangeLog,
        chunks: ChunkStore,
        documents: DocumentStore,
        applied: Applied,
        settled: Applied,
    ) -> None:
        self._folder, self._open = folder, open_index
        self._changes, self._chunks, self._documents = changes, chunks, documents
        self._applied, self._settled = applied, settled
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._turn = threading.RLock()  # one of following and rebuilding at a time
        self._progress = threading.Condition()
        self._purge = PurgeSchedule()
        self._expected = 0
        self._urgent = False
        self.rebuilding = False
        self.trouble: str | None = None
        self._damaged = False
        folder.mkdir(parents=True, exist_ok=True)
        self._clear_away()
        self.serving = Serving(open_index(self._current(), model), model)
        self.seq = self.index.checkpoint()
        self._thread = threading.Thread(target=self._follow, name="indexer", daemon=True)

    def start(self) -> None:
        """See what the last process left unseen, so that what was acknowledged is found from the start, and follow."""
        if self.seq < 0 and not self._changes.newest():
            self._attempt(self._begin)
        elif not self._must_rebuild():
            self._attempt(self.catch_up)
        elif len(self._documents.chunk_counts()) <= SMALL:
            self._attempt(lambda: self.rebuild(self.model))
        if self.trouble is not None:  # such as a file that a crash left in the way
            self._attempt(self._mend)
        self._thread.start()
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    def follow(self, seq: int, timeout: float) -> bool:
        """Wait until a change can be found; False when the time is up."""
        self.wake()
        with self._progress:
            self._urgent = True
            self._progress.notify_all()
            return self._progress.wait_for(lambda: self.seq >= seq or self._stopping.is_set(), timeout)

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Something is being made ready, and will be published in a moment."""
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
            self._attempt(self._finish)
        self._settle()
        self.index.close()

    @property
    def index(self) -> Index:
        return self.serving.index

    @property
    def model(self) -> StoredModel | None:
        """The model whose vectors the index holds."""
        return self.serving.model

    @property
    def behind(self) -> int:
        """How many changes the index has not seen."""
        return max(0, self._changes.newest() - max(self.seq, 0))

    @property
    def without_an_index(self) -> bool:
        """Whether what there was could not be used, and another is on its way."""
        return self.seq < 0 and self._changes.newest() > 0

    def rebuild(self, model: StoredModel | None) -> None:
        """Build a new index from the store beside the old one, which serves meanwhile, and swap it in."""
        with self._turn:
            self.rebuilding = True
            try:
                self._swap(self._build(model), model)
            finally:
                self.rebuilding = False
        self.wake()

    def doubt(self, index: Index, error: BaseException) -> None:
        """A search found this index damaged: build another, at once if it is small, else in the background."""
        with self._turn:
            if self.index is not index:  # somebody else saw it first
                return
            log.error("The index is damaged and is built again: %s", error)
            self.trouble, self._damaged = f"The index is damaged and is built again: {error}", True
            if len(self._documents.chunk_counts()) <= SMALL:
                self._attempt(self._mend)
            else:
                self.wake()

    # -- following ------------------------------------------------------------------------------

    def _follow(self) -> None:
        if self._must_rebuild():
            self._attempt(lambda: self.rebuild(self.model))
        while not self._stopping.is_set():
            if self.trouble is not None:
                self._wake.wait(RETRY_SECONDS)
                self._wake.clear()
                self._attempt(self._mend)
                continue
            if not self._wake.wait(IDLE_SECONDS):
                self._attempt(self._settle)
                if self.trouble is None:
                    self._attempt(self._purge_while_idle)
                if self.trouble is not None or not self._wake.wait(self._purge.wait_seconds(self.index)):
                    continue
            self._gather()
            self._wake.clear()
            self._attempt(self.catch_up)
            if self.trouble is None and self._purge.is_overdue(self.index):
                self._attempt(self._purge_step)

    def _gather(self) -> None:
        """Wait a moment for what else is on its way: to commit costs as much for one document as for twenty."""
        with self._progress:
            self._progress.wait_for(lambda: not self._expected or self._urgent or self._stopping.is_set(), TOGETHER)
        self._urgent = False

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
            if self.trouble is not None:
                log.warning("The index follows the store again")
            self.trouble = None
        except (KnowledgeError, OSError, ValueError, RuntimeError) as error:
            if self.trouble is None:
                log.exception("The index could not follow the store")
            why = "the disk of the data folder is full" if self._free() < FULL else str(error)
            self.trouble = f"The index is behind its log: {why}"

    def _mend(self) -> None:
        """Once more; and if that fails again, though there is room, anew from the store."""
        if not self._damaged and not self._must_rebuild():
            try:
                self.catch_up()
                self._settle()
                return
            except (KnowledgeError, OSError, ValueError, RuntimeError):
                if self._free() < FULL + 2 * self.index.size_bytes():
                    raise
        self.rebuild(self.model)
        self._damaged = False

    def _free(self) -> int:
        return shutil.disk_usage(self._folder).free

    def catch_up(self) -> None:
        """Apply all changes that there are."""
        with self._turn:
            while not self._stopping.is_set() and self._apply_next():
                self._gather()

    def _apply_next(self) -> bool:
        """Apply the next changes; False when there are none."""
        batch = self._changes.after(self.seq, BATCH)
        if batch is None:
            return False
        self.index.apply(batch.seq, batch.documents, self._entries(batch.documents, self.model))
        failpoints.reached("index.applied")
        self._reached(batch.seq)
        if batch.seq - self.index.checkpoint() > UNSETTLED:
            self._settle()
        return True

    def _finish(self) -> None:
        """Before the end: see the last changes and purge what they deleted, as far as that takes no longer than
        somebody who stops a server will wait. The next start goes on with the rest."""
        deadline = time.monotonic() + CLOSING_SECONDS
        with self._turn:
            while time.monotonic() < deadline and self._apply_next():
                pass
            self._settle()
            small = self.index.unpurged() <= CLOSING_PASSAGES
            while small and self.index.unpurged() and time.monotonic() < deadline:
                self.index.purge(self._entries_of_passages)

    def _purge_while_idle(self) -> None:
        """Until nothing is left to purge, or until somebody needs this thread."""
        while self._purge.is_due(self.index) and not self._wake.is_set() and not self._stopping.is_set():
            self._purge_step()
            self._wake.wait(self._purge.pause)

    def _purge_step(self) -> None:
        with self._turn, self._purge.measured() as step:
            step.is_last = self.index.purge(self._entries_of_passages)
            failpoints.reached("index.purged")

    def _begin(self) -> None:
        """Keep an empty index as such: a crash before its first flush must not look like a loss."""
        self.index.apply(0, (), ())
        self.index.flush()
        self.seq = 0

    def _reached(self, seq: int) -> None:
        self.seq = seq
        self._applied(seq)
        with self._progress:
            self._progress.notify_all()

    def _must_rebuild(self) -> bool:
        """The index lost its place, or the log no longer reaches back to it, or it holds another number of passages."""
        if self.seq < 0:
            return self._changes.newest() > 0
        oldest = self._changes.oldest()
        if oldest is not None and oldest > self.seq + 1:
            return True
        return oldest is None and self._changes.newest() > self.seq

    def _settle(self) -> None:
        with self._turn:
            self.index.flush()
            failpoints.reached("index.flushed")
            safe = self.index.checkpoint()
            self._settled(safe)
            oldest = self._changes.oldest()
            if oldest is not None and oldest < safe:
                self._changes.cut(safe)

    # -- building -------------------------------------------------------------------------------

    def _entries(self, document_ids: Sequence[int], model: StoredModel | None) -> Iterator[Entry]:
        return map(entry_of, self._chunks.indexable(document_ids, model.id if model else 0))

    def _entries_of_passages(self, chunk_ids: Sequence[int]) -> Iterator[Entry]:
        return map(entry_of, self._chunks.indexable_passages(chunk_ids, self.model.id if self.model else 0))

    def _all_entries(self, identities: Sequence[int], model: StoredModel | None) -> Iterator[Entry]:
        for first in range(0, len(identities), REBUILD_BATCH):
            yield from self._entries(identities[first : first + REBUILD_BATCH], model)

    def _build(self, model: StoredModel | None) -> Index:
        target = self._folder / f"{self._number() + 1:06d}"
        shutil.rmtree(target, ignore_errors=True)
        fresh = self._open(target, model)
        try:
            newest = self._changes.newest()
            identities = sorted(self._documents.chunk_counts())
            fresh.apply(newest, (), self._all_entries(identities, model))  # one commit, for few and large segments
            fresh.flush()
        except BaseException:
            fresh.close()
            shutil.rmtree(target, ignore_errors=True)
            raise
        return fresh

    def _swap(self, fresh: Index, model: StoredModel | None) -> None:
        old, old_folder = self.index, self._current()
        failpoints.reached("index.built")
        self._write_number(self._number() + 1)
        self.serving = Serving(fresh, model)
        self._reached(fresh.checkpoint())
        failpoints.reached("index.swapped")
        try:
            old.close()
        except (OSError, ValueError):  # it may be replaced because it is broken
            log.warning("The old index could not be closed")
        shutil.rmtree(old_folder, ignore_errors=True)

    # -- where the current index lies ------------------------------------------------------------

    def _number(self) -> int:
        try:
            return int((self._folder / "current").read_text("ascii"))
        except (OSError, ValueError):
            return 0

    def _write_number(self, number: int) -> None:
        draft = self._folder / "current.new"
        draft.write_text(str(number), "ascii")
        draft.replace(self._folder / "current")

    def _current(self) -> Path:
        return self._folder / f"{self._number():06d}"

    def _clear_away(self) -> None:
        """What an interrupted rebuild left behind."""
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder != self._current():
                shutil.rmtree(folder, ignore_errors=True)


def entry_of(row: Indexable) -> Entry:
    """A passage as the index keeps it: words of title, headings and text, and the vector."""
    words = passage_words(row.title, row.section, row.text)
    return Entry(
        chunk_id=row.chunk_id,
        document_id=row.document_id,
        collection_id=row.collection_id,
        owner=row.owner,
        doc_type=row.doc_type,
        day=row.created_at // DAY,
        tags=row.tags,
        terms=analyzer.terms(words, row.language),
        vector=None if row.vector is None else np.frombuffer(row.vector, np.float16),
        language=row.language,
    )
