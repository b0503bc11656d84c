"""The index in this process: tantivy for words, FAISS for meaning, and columns of numbers that filter both.

One thread writes, any number search. What they search is a snapshot: published whole after every change and never
changed again. docs/explanation/search.md says how it is kept on disk and what happens when it is found damaged.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.index import manifest as manifests
from knowledge.index import tantivy_files
from knowledge.index.api import IndexEntry, ReadEntries
from knowledge.index.append_only_files import IndexDamaged
from knowledge.index.columns import SlotWriter
from knowledge.index.fulltext import FulltextWriter
from knowledge.index.manifest import Manifest
from knowledge.index.snapshot import EmbeddedSnapshot
from knowledge.index.vectors import VectorWriter

log = logging.getLogger(__name__)

ENTRIES_PER_BATCH = 512
COMPACT_DEAD_RATIO, COMPACT_DEAD_SLOTS = 0.25, 10_000
"""Slots are written anew when so large a part of them, and so many, are struck out."""
FLUSH_TAIL_PASSAGES = 256
PURGE_BATCH_PASSAGES = 128
"""So many passages are looked at in one step of a purge: at most about 0.1 s, during which changes wait."""


class EmbeddedIndex:
    """Use `open`."""

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
        """The index in this folder, or an empty one with checkpoint -1 when there is none that can be trusted."""
        if folder.exists():
            try:
                return cls(folder, dimension, fingerprint, manifests.read_manifest(folder, dimension, fingerprint))
            except (IndexDamaged, OSError, ValueError, KeyError) as error:
                if any(folder.iterdir()):
                    log.warning("The index is built again: %s", error)
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return cls(folder, dimension, fingerprint)

    def _slots_folder(self) -> Path:
        return self._folder / f"slots-{self._generation}"

    def _load(self, manifest: Manifest) -> None:
        tantivy_files.require_footers(self._folder / "words")
        if self._fulltext.opstamp < manifest.opstamp:
            raise IndexDamaged("The words are older than the manifest")
        self._fulltext_ahead = self._fulltext.opstamp > manifest.opstamp
        self._slots.load(manifest)
        self._vectors.load(manifest)
        if not self._fulltext_ahead and self._fulltext.view().passage_count != manifest.live:
            raise IndexDamaged("Words and slots hold different numbers of passages")

    def _make_view(self) -> EmbeddedSnapshot:
        return EmbeddedSnapshot(self._fulltext.view(), self._slots.view(), self._vectors.view())

    # -- changing -------------------------------------------------------------------------------

    def checkpoint(self) -> int:
        return self._flushed_seq

    def apply(self, seq: int, documents: Sequence[int], entries: Iterable[IndexEntry]) -> None:
        with self._write_lock:
            try:
                self._replace_documents(documents, entries)
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

    def _roll_back(self) -> None:
        """A change that failed halfway leaves what was there before it."""
        self._fulltext_ahead = True  # a commit may have gone through before it failed
        self._fulltext.rollback()
        self._slots.truncate(len(self.snapshot.slots.alive), self.snapshot.slots.alive)
        self._vectors.truncate(len(self.snapshot.slots.alive))

    def _code_tail(self, least: int = 0) -> None:
        """Code the tail if it is long; searches go on over what they have."""
        self._vectors.code_tail_if_long(min_count=least)
        self.snapshot = EmbeddedSnapshot(self.snapshot.words, self._slots.view(), self._vectors.view())

    def flush(self) -> None:
        with self._write_lock:
            if self._slots.dead_count >= COMPACT_DEAD_SLOTS and self._slots.dead_count > COMPACT_DEAD_RATIO * len(
                self._slots
            ):
                self._compact()
            self._code_tail(FLUSH_TAIL_PASSAGES)
            checksums = self._slots.flush(self._seq) | self._vectors.flush()
            self._make_manifest(checksums).write(self._folder)
            self._flushed_seq = self._seq
            self._delete_old_files()

    def _delete_old_files(self) -> None:
        """What the manifest no longer names."""
        self._slots.delete_old_files(self._seq)
        self._vectors.delete_old_codes()
        for folder in self._folder.glob("slots-*"):
            if folder != self._slots_folder():
                shutil.rmtree(folder, ignore_errors=True)

    def _make_manifest(self, checksums: dict[str, int]) -> Manifest:
        slots, search_vectors = self._slots, self._vectors
        return Manifest(
            fingerprint=self._fingerprint,
            dimension=self._dimension,
            seq=self._seq,
            generation=self._generation,
            opstamp=self._fulltext.opstamp,
            slots=len(slots),
            live=len(slots) - slots.dead_count,
            pairs=slots.tag_pair_count,
            packed_terms=slots.packed_term_count,
            checksums=checksums,
            types=list(slots.doc_types.numbers),
            tags=list(slots.tags.numbers),
            languages=list(slots.languages.numbers),
            trained_on=search_vectors.trained_on,
            codes=search_vectors.coded_count,
            codes_name=search_vectors.codes_name,
            codebook=search_vectors.codebook_checksum,
        )

    def _compact(self) -> None:
        """Write the live slots into a new folder; the flush that follows writes the manifest that names it."""
        self._generation += 1
        shutil.rmtree(self._slots_folder(), ignore_errors=True)
        slots, meaning = SlotWriter(self._slots_folder()), VectorWriter(self._slots_folder(), self._dimension)
        slots.copy_live(self._slots)
        meaning.copy_live(self._vectors, self.snapshot.slots.alive)
        (old_slots, self._slots), (old_meaning, self._vectors) = (self._slots, slots), (self._vectors, meaning)
        self.snapshot = EmbeddedSnapshot(self.snapshot.words, slots.view(), meaning.view())
        old_slots.close()
        old_meaning.close()

    # -- purging --------------------------------------------------------------------------------

    def count_unpurged(self) -> int:
        dirty = [segment for segment in tantivy_files.read_segments(self._folder / "words") if segment.deleted_count]
        left = sum(segment.passage_count - segment.deleted_count for segment in dirty)
        return left + 1 if dirty or self._slots.dead_count else 0

    def purge(self, read: ReadEntries) -> bool:
        """tantivy drops deleted passages when it merges a segment, which may be never, and its Python package cannot
        ask for it. So the passages that are left in such a segment are written once more: then it is empty and goes.

        There is one commit at the end, or that of a change that comes in between: with more of them, merges would move
        the passages while they are being written.
        """
        with self._write_lock:
            if self._ids_to_check is None:
                self.snapshot = self._make_view()
                self._ids_to_check = self.snapshot.slots.columns.chunk[self.snapshot.slots.alive]
            if len(self._ids_to_check):
                batch, self._ids_to_check = (
                    self._ids_to_check[:PURGE_BATCH_PASSAGES],
                    self._ids_to_check[PURGE_BATCH_PASSAGES:],
                )
                self._rewrite_passages(read, batch.tolist())
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
        """Those with deleted passages, by their numbers in the view."""
        segments = tantivy_files.read_segments(self._folder / "words")
        if len(segments) != self.snapshot.words.searcher.num_segments:  # a merge has ended since
            self.snapshot = self._make_view()
            segments = tantivy_files.read_segments(self._folder / "words")
        return frozenset(number for number, segment in enumerate(segments) if segment.deleted_count)

    def _rewrite_passages(self, read: ReadEntries, ids: list[int]) -> None:
        """Those of the passages that share a segment with deleted ones."""
        dirty = self._find_dirty_segments()
        search_words, slots = self.snapshot.words, self.snapshot.slots
        sharing = search_words.find_in_segments(ids, dirty) if dirty else []
        places_of = slots.slots_of(np.asarray(sharing, np.int64))
        try:
            self._fulltext.rewrite_passages(
                list(read([chunk for chunk, at in zip(sharing, places_of, strict=True) if at >= 0]))
            )
        except BaseException:
            self._roll_back()
            self._ids_to_check = None
            raise

    # -- itself ---------------------------------------------------------------------------------

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
    """The bytes of a file; 0 for one that a merge took away meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def iter_batches(entries: Iterable[IndexEntry]) -> Iterator[list[IndexEntry]]:
    rest = iter(entries)
    while batch := list(islice(rest, ENTRIES_PER_BATCH)):
        yield batch
