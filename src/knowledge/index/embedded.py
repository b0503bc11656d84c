"""The index in this process: tantivy for words, FAISS for meaning, and columns of numbers that filter both.

One thread writes, any number search. What they search is a View: published whole after every change, never touched
again. docs/explanation/search.md says how it is kept on disk and what happens when it is found damaged.
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

from knowledge.index import bm25 as bm25_scores
from knowledge.index import manifest as manifests
from knowledge.index import near_duplicates, tantivy_checksums
from knowledge.index.api import Entry, Places, ReadEntries, Scored, Within, Words
from knowledge.index.columns import SlotWriter
from knowledge.index.files import Damaged
from knowledge.index.fulltext import WordWriter
from knowledge.index.manifest import Manifest
from knowledge.index.snapshot import View
from knowledge.index.vectors import MeaningWriter

log = logging.getLogger(__name__)

BATCH = 512
MUCH_DEAD, MANY_DEAD = 0.25, 10_000
"""Slots are written anew when so large a part of them, and so many, are struck out."""
SETTLED_TAIL = 256
PURGE_BATCH = 128
"""So many passages are looked at in one step of a purge: at most about 0.1 s, during which changes wait."""


class EmbeddedIndex:
    """Use `open`."""

    def __init__(self, folder: Path, dimension: int, fingerprint: str, manifest: Manifest | None = None) -> None:
        self._folder, self._dimension, self._fingerprint = folder, dimension, fingerprint
        self._turn = threading.Lock()
        self._generation = manifest.generation if manifest else 0
        self._seq = self._kept = manifest.seq if manifest else -1
        self._words = WordWriter(folder / "words")
        self._slots = SlotWriter(self._slots_folder())
        self._meaning = MeaningWriter(self._slots_folder(), dimension)
        self._words_ahead = False
        self._to_look_at: NDArray[np.int64] | None = None
        try:
            if manifest is not None:
                self._load(manifest)
            self._view = self._published()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path, dimension: int, fingerprint: str) -> EmbeddedIndex:
        """The index in this folder, or an empty one with checkpoint -1 when there is none that can be trusted."""
        if folder.exists():
            try:
                return cls(folder, dimension, fingerprint, manifests.read(folder, dimension, fingerprint))
            except (Damaged, OSError, ValueError, KeyError) as error:
                if any(folder.iterdir()):
                    log.warning("The index is built again: %s", error)
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return cls(folder, dimension, fingerprint)

    def _slots_folder(self) -> Path:
        return self._folder / f"slots-{self._generation}"

    def _load(self, manifest: Manifest) -> None:
        tantivy_checksums.require(self._folder / "words")
        if self._words.opstamp < manifest.opstamp:
            raise Damaged("The words are older than the manifest")
        self._words_ahead = self._words.opstamp > manifest.opstamp
        self._slots.load(manifest)
        self._meaning.load(manifest)
        if not self._words_ahead and self._words.view().passages != manifest.live:
            raise Damaged("Words and slots hold different numbers of passages")

    def _published(self) -> View:
        return View(self._words.view(), self._slots.view(), self._meaning.view())

    # -- changing -------------------------------------------------------------------------------

    def checkpoint(self) -> int:
        return self._kept

    def apply(self, seq: int, documents: Sequence[int], entries: Iterable[Entry]) -> None:
        with self._turn:
            try:
                self._replace(documents, entries)
            except BaseException:
                self._take_back()
                raise
            self._seq = seq
            self._settle()

    def _replace(self, documents: Sequence[int], entries: Iterable[Entry]) -> None:
        known = self._slots.strike(documents)
        if known or self._words_ahead:
            self._words.strike(documents)
        changed = known or (self._words_ahead and bool(documents))
        for batch in batches(entries):
            self._words.add(batch)
            self._slots.add(batch)
            self._meaning.add(batch)
            self._meaning.settle()
            changed = True
        if changed:
            self._words.commit()
            self._view = self._published()

    def _take_back(self) -> None:
        """A change that failed halfway leaves what was there before it."""
        self._words_ahead = True  # a commit may have gone through before it failed
        self._words.rollback()
        self._slots.cut(len(self._view.slots.alive), self._view.slots.alive)
        self._meaning.cut(len(self._view.slots.alive))

    def _settle(self, least: int = 0) -> None:
        """Code the tail if it is long; searches go on over what they have."""
        self._meaning.settle(least=least)
        self._view = View(self._view.words, self._slots.view(), self._meaning.view())

    def flush(self) -> None:
        with self._turn:
            if self._slots.dead >= MANY_DEAD and self._slots.dead > MUCH_DEAD * len(self._slots):
                self._compact()
            self._settle(SETTLED_TAIL)
            checksums = self._slots.flush(self._seq) | self._meaning.flush()
            self._manifest(checksums).write(self._folder)
            self._kept = self._seq
            self._sweep()

    def _sweep(self) -> None:
        """What the manifest no longer names."""
        self._slots.sweep(self._seq)
        self._meaning.sweep()
        for folder in self._folder.glob("slots-*"):
            if folder != self._slots_folder():
                shutil.rmtree(folder, ignore_errors=True)

    def _manifest(self, checksums: dict[str, int]) -> Manifest:
        slots, meaning = self._slots, self._meaning
        return Manifest(
            fingerprint=self._fingerprint,
            dimension=self._dimension,
            seq=self._seq,
            generation=self._generation,
            opstamp=self._words.opstamp,
            slots=len(slots),
            live=len(slots) - slots.dead,
            pairs=slots.pairs,
            packed_terms=slots.packed_terms,
            checksums=checksums,
            types=list(slots.types.numbers),
            tags=list(slots.tags.numbers),
            languages=list(slots.languages.numbers),
            trained_on=meaning.trained_on,
            codes=meaning.codes,
            codes_name=meaning.codes_name,
            codebook=meaning.codebook,
        )

    def _compact(self) -> None:
        """Write the live slots into a new folder; the flush that follows writes the manifest that names it."""
        self._generation += 1
        shutil.rmtree(self._slots_folder(), ignore_errors=True)
        slots, meaning = SlotWriter(self._slots_folder()), MeaningWriter(self._slots_folder(), self._dimension)
        slots.add_live(self._slots)
        meaning.add_live(self._meaning, self._view.slots.alive)
        (old_slots, self._slots), (old_meaning, self._meaning) = (self._slots, slots), (self._meaning, meaning)
        self._view = View(self._view.words, slots.view(), meaning.view())
        old_slots.close()
        old_meaning.close()

    # -- purging --------------------------------------------------------------------------------

    def unpurged(self) -> int:
        dirty = [segment for segment in tantivy_checksums.segments(self._folder / "words") if segment.deleted]
        left = sum(segment.passages - segment.deleted for segment in dirty)
        return left + 1 if dirty or self._slots.dead else 0

    def purge(self, read: ReadEntries) -> bool:
        """tantivy drops deleted passages when it merges a segment, which may be never, and its Python package cannot
        ask for it. So the passages that are left in such a segment are written once more: then it is empty and goes.

        There is one commit at the end, or that of a change that comes in between: with more of them, merges would move
        the passages while they are being written.
        """
        with self._turn:
            if self._to_look_at is None:
                self._view = self._published()
                self._to_look_at = self._view.slots.columns.chunk[self._view.slots.alive]
            if len(self._to_look_at):
                batch, self._to_look_at = self._to_look_at[:PURGE_BATCH], self._to_look_at[PURGE_BATCH:]
                self._rewrite(read, batch.tolist())
                return False
            self._end_of_rewriting()
        self.flush()
        self._words.collect()
        return True

    def _end_of_rewriting(self) -> None:
        try:
            self._words.commit()
        except BaseException:
            self._take_back()
            raise
        finally:
            self._to_look_at = None
        self._view = self._published()
        if self._slots.dead:
            self._compact()

    def _dirty_segments(self) -> frozenset[int]:
        """Those with deleted passages, by their numbers in the view."""
        segments = tantivy_checksums.segments(self._folder / "words")
        if len(segments) != self._view.words.searcher.num_segments:  # a merge has ended since
            self._view = self._published()
            segments = tantivy_checksums.segments(self._folder / "words")
        return frozenset(number for number, segment in enumerate(segments) if segment.deleted)

    def _rewrite(self, read: ReadEntries, ids: list[int]) -> None:
        """Those of the passages that share a segment with deleted ones."""
        dirty = self._dirty_segments()
        words, slots = self._view.words, self._view.slots
        sharing = words.within_segments(ids, dirty) if dirty else []
        places = slots.slots_of(np.asarray(sharing, np.int64))
        try:
            self._words.rewrite(list(read([chunk for chunk, at in zip(sharing, places, strict=True) if at >= 0])))
        except BaseException:
            self._take_back()
            self._to_look_at = None
            raise

    # -- searching ------------------------------------------------------------------------------

    def still(self) -> EmbeddedIndex:
        still = EmbeddedIndex.__new__(EmbeddedIndex)
        still.__dict__.update(self.__dict__)  # a view is never touched again, so to hold on to it is all it takes
        return still

    def words(self, words: Words, within: Within, limit: int) -> Scored:
        view, statistics = self._view, self._view.statistics(within)
        selection = view.slots.select(within)
        if not selection.count or not words.terms:
            return Scored(np.empty(0, np.int64), np.empty(0, np.float32))
        found = view.best(words, within, limit, selection, statistics)
        if statistics.whole or not len(found.places):
            return found
        # tantivy knows the lengths of the whole index only.
        scores = bm25_scores.bm25(view.slots, statistics.question(words), found.places)
        order = np.argsort(-scores, kind="stable")
        return Scored(found.places[order], scores[order])

    def meaning(self, vector: NDArray[np.float32], within: Within, limit: int) -> Scored:
        view = self._view
        return Scored(*view.meaning.search(vector, view.slots.select(within), limit))

    def cosines(self, vector: NDArray[np.float32], places: Places) -> NDArray[np.float32]:
        view = self._view
        embedded = view.slots.columns.embedded.take(places)
        if embedded.all():
            return view.meaning.cosines(vector, places)
        scores = np.full(len(places), np.nan, np.float32)
        scores[embedded] = view.meaning.cosines(vector, places[embedded])
        return scores

    def bm25(self, words: Words, places: Places, within: Within | None = None) -> NDArray[np.float32]:
        view = self._view
        if not len(places) or not words.terms:
            return np.zeros(len(places), np.float32)
        scores = bm25_scores.bm25(view.slots, view.statistics(within).question(words), places)
        if words.phrases and scores.any():
            ids = self.ids(places).tolist()
            held = view.words.holds_phrases(words, ids)
            scores *= np.asarray([chunk in held for chunk in ids], np.float32)
        return scores

    def holding(self, term: str, within: Within) -> int:
        return self._view.statistics(within).holding(term)

    def ceiling(self, words: Words, within: Within | None = None) -> float:
        return self._view.statistics(within).question(words).ceiling

    # Places are slots: the passages of a document are added together, in reading order.

    def ids(self, places: Places) -> NDArray[np.int64]:
        return self._view.slots.columns.chunk.take(places)

    def documents(self, places: Places) -> NDArray[np.int64]:
        return self._view.slots.columns.document.take(places)

    def places(self, ids: NDArray[np.int64]) -> Places:
        return self._view.slots.slots_of(ids)

    def copies(self, places: Places) -> NDArray[np.bool_]:
        return near_duplicates.copies(self._view.slots, places)

    # -- itself ---------------------------------------------------------------------------------

    def languages(self) -> tuple[str, ...]:
        return self._view.slots.languages

    def count(self) -> int:
        return self._view.slots.live

    def document_chunks(self) -> dict[int, int]:
        slots = self._view.slots
        documents, counts = np.unique(slots.columns.document[slots.alive], return_counts=True)
        return dict(zip(documents.tolist(), counts.tolist(), strict=True))

    def damage(self) -> list[str]:
        with self._turn:
            return [
                *tantivy_checksums.damaged(self._folder / "words"),
                *self._slots.damaged(),
                *self._meaning.damaged(),
            ]

    def size_bytes(self) -> int:
        files = (Path(folder, name) for folder, _, names in os.walk(self._folder) for name in names)
        return sum(map(size_of, files))

    def close(self) -> None:
        with self._turn:
            self._words.close()
            self._slots.close()
            self._meaning.close()


def size_of(path: Path) -> int:
    """The bytes of a file; 0 for one that a merge took away meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    rest = iter(entries)
    while batch := list(islice(rest, BATCH)):
        yield batch
