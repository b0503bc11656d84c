"""The embedded index: tantivy for BM25, FAISS for vectors, and columns that filter both.

One thread writes, any number of threads search. A new immutable snapshot is published after every change.
docs/explanation/search.md describes the files and the recovery from damage.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from knowledge import failpoints
from knowledge.index import manifest as manifests
from knowledge.index import tantivy_files
from knowledge.index.api import ChunkVector, IndexEntry, ReadEntries
from knowledge.index.append_only_files import IndexDamaged
from knowledge.index.columns import SlotWriter
from knowledge.index.fulltext import FulltextView, FulltextWriter
from knowledge.index.manifest import Manifest
from knowledge.index.snapshot import EmbeddedSnapshot
from knowledge.index.vectors import VectorWriter

log = logging.getLogger(__name__)

T = TypeVar("T")

ENTRIES_PER_BATCH = 512
COMPACT_DEAD_RATIO, COMPACT_DEAD_SLOTS = 0.25, 10_000
# Compaction starts when both the share and the number of deleted slots are reached.
FLUSH_TAIL_CHUNKS = 256
PURGE_BATCH_CHUNKS = 128
# A purge step takes at most about 0.1 s, during which changes wait.


class EmbeddedIndex:
    """The index in one folder; use `open` instead of the constructor."""

    def __init__(self, folder: Path, dimension: int, fingerprint: str, manifest: Manifest | None = None) -> None:
        self._folder, self._dimension, self._fingerprint = folder, dimension, fingerprint
        self._write_lock = threading.Lock()
        self._generation = manifest.generation if manifest else 0
        self._seq = self._flushed_seq = manifest.seq if manifest else -1
        self._fulltext = FulltextWriter(folder / "words")
        self._slots = SlotWriter(self._slots_folder())
        self._vectors = VectorWriter(self._slots_folder(), dimension)
        self._fulltext_ahead = False
        self._ids_to_check: NDArray[np.int64] | None = None
        try:
            if manifest is not None:
                self._load(manifest)
            self.snapshot = self._make_view()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path, dimension: int, fingerprint: str) -> EmbeddedIndex:
        """Open the index in this folder; a missing or damaged one is replaced by an empty one with checkpoint -1."""
        if folder.exists():
            try:
                return cls(folder, dimension, fingerprint, manifests.read_manifest(folder, dimension, fingerprint))
            except (IndexDamaged, OSError, ValueError, KeyError) as error:
                if any(folder.iterdir()):
                    log.warning("Rebuilding the index: %s", error)
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return cls(folder, dimension, fingerprint)

    def _slots_folder(self) -> Path:
        return self._folder / f"slots-{self._generation}"

    def _load(self, manifest: Manifest) -> None:
        tantivy_files.require_footers(self._folder / "words")
        if self._fulltext.opstamp < manifest.opstamp:
            raise IndexDamaged(
                f"The full-text index has opstamp {self._fulltext.opstamp}, the manifest {manifest.opstamp}"
            )
        self._fulltext_ahead = self._fulltext.opstamp > manifest.opstamp
        self._slots.load(manifest)
        self._vectors.load(manifest)
        if not self._fulltext_ahead and self._fulltext.view().chunk_count != manifest.live:
            raise IndexDamaged("The full-text index and the columns have different numbers of chunks")

    def _make_view(self, fulltext: FulltextView | None = None) -> EmbeddedSnapshot:
        """Return a snapshot; with the given full text if that has not changed."""
        vectors = self._vectors.view()
        return EmbeddedSnapshot(fulltext or self._fulltext.view(), self._slots.view(vectors.embedded), vectors)

    # -- changing -------------------------------------------------------------------------------

    def checkpoint(self) -> int:
        return self._flushed_seq

    def apply(
        self,
        seq: int,
        documents: Sequence[int],
        entries: Iterable[IndexEntry],
        vectors: Iterable[ChunkVector] = (),
    ) -> None:
        with self._write_lock:
            try:
                self._replace_documents(documents, entries)
                failpoints.trigger("index.entered")
                self._set_vectors(vectors)
            except BaseException:
                self._roll_back()
                raise
            self._seq = seq
            self._code_tail()

    def _replace_documents(self, documents: Sequence[int], entries: Iterable[IndexEntry]) -> None:
        known = self._slots.delete_documents(documents)
        if known or self._fulltext_ahead:
            self._fulltext.delete_documents(documents)
        changed = known or (self._fulltext_ahead and bool(documents))
        for batch in iter_batches(entries):
            self._fulltext.add(batch)
            self._slots.add(batch)
            self._vectors.add(batch)
            self._vectors.code_tail_if_long()
            changed = True
        if changed:
            self._fulltext.commit()
            self.snapshot = self._make_view()

    def _set_vectors(self, vectors: Iterable[ChunkVector]) -> None:
        for batch in iter_batches(vectors):
            wanted = {each.chunk_id: each.vector for each in batch}
            slots = self._slots.find_live_slots(np.fromiter(wanted, np.int64, len(wanted)))
            known = slots >= 0
            if known.any():
                self._vectors.set_vectors(slots[known], np.stack(list(wanted.values()))[known])
                self._vectors.code_tail_if_long()
                self.snapshot = self._make_view(self.snapshot.fulltext)

    def _roll_back(self) -> None:
        """Restore the state before a failed change."""
        self._fulltext_ahead = True  # the commit may have succeeded before the failure
        self._fulltext.rollback()
        slot_count = len(self.snapshot.slots.alive)
        self._slots.truncate(slot_count, self.snapshot.slots.alive)
        self._vectors.truncate(slot_count, len(self.snapshot.vectors.slot_of_row))

    def _code_tail(self, least: int = 0) -> None:
        """Quantize the tail if it is long and publish a new snapshot."""
        self._vectors.code_tail_if_long(min_count=least)
        self.snapshot = self._make_view(self.snapshot.fulltext)

    def flush(self) -> None:
        with self._write_lock:
            if self._slots.dead_count >= COMPACT_DEAD_SLOTS and self._slots.dead_count > COMPACT_DEAD_RATIO * len(
                self._slots
            ):
                self._compact()
            self._code_tail(FLUSH_TAIL_CHUNKS)
            checksums = self._slots.flush(self._seq) | self._vectors.flush()
            self._make_manifest(checksums).write(self._folder)
            self._flushed_seq = self._seq
            self._delete_old_files()

    def _delete_old_files(self) -> None:
        """Delete the files that the manifest does not name."""
        self._slots.delete_old_files(self._seq)
        self._vectors.delete_old_codes()
        for folder in self._folder.glob("slots-*"):
            if folder != self._slots_folder():
                shutil.rmtree(folder, ignore_errors=True)

    def _make_manifest(self, checksums: dict[str, int]) -> Manifest:
        slots, vectors = self._slots, self._vectors
        return Manifest(
            fingerprint=self._fingerprint,
            dimension=self._dimension,
            seq=self._seq,
            generation=self._generation,
            opstamp=self._fulltext.opstamp,
            slots=len(slots),
            live=len(slots) - slots.dead_count,
            vectors=len(vectors),
            pairs=slots.tag_pair_count,
            packed_terms=slots.packed_term_count,
            checksums=checksums,
            types=list(slots.doc_types.numbers),
            tags=list(slots.tags.numbers),
            languages=list(slots.languages.numbers),
            trained_on=vectors.trained_on,
            codes=vectors.coded_count,
            codes_name=vectors.codes_name,
            codebook=vectors.codebook_checksum,
        )

    def _compact(self) -> None:
        """Copy the live slots into a new folder; the caller flushes, which writes the manifest that names it."""
        self._generation += 1
        shutil.rmtree(self._slots_folder(), ignore_errors=True)
        slots, vectors = SlotWriter(self._slots_folder()), VectorWriter(self._slots_folder(), self._dimension)
        slots.copy_live(self._slots, self.snapshot.slots)
        vectors.copy_live(self._vectors, self.snapshot.slots.alive)
        (old_slots, self._slots), (old_vectors, self._vectors) = (self._slots, slots), (self._vectors, vectors)
        self.snapshot = self._make_view(self.snapshot.fulltext)
        old_slots.close()
        old_vectors.close()

    # -- purging --------------------------------------------------------------------------------

    def count_unpurged(self) -> int:
        dirty = [segment for segment in tantivy_files.read_segments(self._folder / "words") if segment.deleted_count]
        left = sum(segment.chunk_count - segment.deleted_count for segment in dirty)
        return left + 1 if dirty or self._slots.dead_count else 0

    def purge(self, read: ReadEntries) -> bool:
        """Rewrite the remaining chunks of segments with deletions, so that tantivy drops those segments.

        tantivy removes deleted chunks only when it merges a segment, and tantivy-py has no call to force a merge. There
        is one commit at the end, because merges after more commits would move chunks that are still to be checked.
        """
        with self._write_lock:
            if self._ids_to_check is None:
                self.snapshot = self._make_view()
                self._ids_to_check = self.snapshot.slots.columns.chunk[self.snapshot.slots.alive]
            if len(self._ids_to_check):
                batch, self._ids_to_check = (
                    self._ids_to_check[:PURGE_BATCH_CHUNKS],
                    self._ids_to_check[PURGE_BATCH_CHUNKS:],
                )
                self._rewrite_chunks(read, batch.tolist())
                return False
            self._finish_rewriting()
        self.flush()
        self._fulltext.collect_garbage()
        return True

    def _finish_rewriting(self) -> None:
        try:
            self._fulltext.commit()
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._ids_to_check = None
        self.snapshot = self._make_view()
        if self._slots.dead_count:
            self._compact()

    def _find_dirty_segments(self) -> frozenset[int]:
        """Return the numbers of the segments with deleted chunks in the current snapshot."""
        segments = tantivy_files.read_segments(self._folder / "words")
        if len(segments) != self.snapshot.fulltext.searcher.num_segments:  # a merge has finished meanwhile
            self.snapshot = self._make_view()
            segments = tantivy_files.read_segments(self._folder / "words")
        return frozenset(number for number, segment in enumerate(segments) if segment.deleted_count)

    def _rewrite_chunks(self, read: ReadEntries, ids: list[int]) -> None:
        """Rewrite those of the chunks that share a segment with deleted ones."""
        dirty = self._find_dirty_segments()
        fulltext, slots = self.snapshot.fulltext, self.snapshot.slots
        sharing = fulltext.find_in_segments(ids, dirty) if dirty else []
        places_of = slots.find_slots(np.asarray(sharing, np.int64))
        try:
            self._fulltext.rewrite_chunks(
                list(read([chunk for chunk, at in zip(sharing, places_of, strict=True) if at >= 0]))
            )
        except BaseException:
            self._roll_back()
            self._ids_to_check = None
            raise

    # -- status ---------------------------------------------------------------------------------

    def count(self) -> int:
        return self.snapshot.slots.live_count

    def count_document_chunks(self) -> dict[int, int]:
        slots = self.snapshot.slots
        document_ids, counts = np.unique(slots.columns.document[slots.alive], return_counts=True)
        return dict(zip(document_ids.tolist(), counts.tolist(), strict=True))

    def find_damaged_files(self) -> list[str]:
        with self._write_lock:
            return [
                *tantivy_files.find_damaged_files(self._folder / "words"),
                *self._slots.find_damaged_files(),
                *self._vectors.find_damaged_files(),
            ]

    def size_bytes(self) -> int:
        files = (Path(folder, name) for folder, _, names in os.walk(self._folder) for name in names)
        return sum(map(file_size, files))

    def close(self) -> None:
        with self._write_lock:
            self._fulltext.close()
            self._slots.close()
            self._vectors.close()


def file_size(path: Path) -> int:
    """Return the size of a file; 0 if a merge has deleted it meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def iter_batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, ENTRIES_PER_BATCH)):
        yield batch
