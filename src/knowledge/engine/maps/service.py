"""Maps of passages: read what is stored as far as the caller may see it, and make it anew in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from knowledge.engine.maps.child import MapProcess
from knowledge.engine.maps.telling_words import MappedPassage
from knowledge.engine.threads import EngineThreads
from knowledge.errors import Internal, InvalidParameter
from knowledge.model import CollectionRef, Scope, now
from knowledge.model.maps import (
    MAX_MAP_POINTS,
    MIN_MAP_PASSAGES,
    GapReason,
    MapCluster,
    MapCollection,
    MapDocument,
    MapPoint,
    MapState,
    PassageMap,
    VectorGap,
)
from knowledge.store.cluster.leases import LeaseStore
from knowledge.store.collections import CollectionStore
from knowledge.store.maps.passage_maps import (
    EVERYTHING,
    MapCounts,
    MapStore,
    MapSubject,
    PlacedChunk,
    SampledChunk,
    StoredMap,
    VisibleDocument,
)
from knowledge.store.models import StoredModel
from knowledge.text.analyzer import normalise_nfkc

log = logging.getLogger(__name__)

CHANGED_SHARE = 0.05
"""Share of passages that may have changed before a map is made anew."""
RETRY_SECONDS = 60.0
MAP_LEASE, LEASE_SECONDS = "map", 1000.0
"""One server at a time makes a map; the lease outlasts the longest attempt."""
MAX_WAITING = 100

FindLanguages = Callable[[], frozenset[str] | None]


class MapService:
    def __init__(
        self,
        store: MapStore,
        find_model: Callable[[], StoredModel | None],
        find_languages: FindLanguages,
        leases: LeaseStore | None = None,
    ) -> None:
        """`find_languages` returns those that the model reads, None if it reads all; `leases` if servers share maps."""
        self._store, self._find_model, self._find_languages, self._leases = store, find_model, find_languages, leases
        self._process = MapProcess()
        self._changed = threading.Condition()
        self._waiting: OrderedDict[MapSubject, Scope] = OrderedDict()
        self._failed: dict[MapSubject, float] = {}
        self._thread: threading.Thread | None = None
        self._closing = False

    def read(self, subject: MapSubject, scope: Scope, limit: int = MAX_MAP_POINTS) -> PassageMap:
        """Return a map as far as it is visible in a scope, and start making it if it is missing or outdated."""
        counts, stored, model = self._store.count(subject, scope), self._store.find(subject), self._find_model()
        gaps = tuple(self._explain_gaps(counts))
        if counts.passages < MIN_MAP_PASSAGES or model is None:
            return PassageMap(MapState.TOO_FEW, counts.passages, gaps)
        if stored is None or stored.model_id != model.id:
            return PassageMap(self._request(subject, scope, MapState.MAKING), counts.passages, gaps)
        documents = self._store.find_documents(list({point.document_id for point in stored.points}), subject, scope)
        visible = [number for number, point in enumerate(stored.points) if is_visible(point, documents)]
        state = MapState.READY
        if self._is_outdated(subject, scope, counts, stored, len(visible)):
            state = self._request(subject, scope, MapState.OUTDATED)
        drawn = draw_points(stored, visible[:limit], documents)
        clusters = self._name_clusters(stored, visible, drawn.points)
        return PassageMap(
            state, counts.passages, gaps, stored.made_at, drawn.points, drawn.documents, drawn.collections, clusters
        )

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._process.close()
        if self._thread is not None:
            self._thread.join()

    def _explain_gaps(self, counts: MapCounts) -> Iterator[VectorGap]:
        languages, pending = self._find_languages(), 0
        for each in counts.unembedded:
            if each.is_finished and each.language and languages is not None and each.language not in languages:
                yield VectorGap(GapReason.LANGUAGE, each.chunks, each.language)
            else:
                pending += each.chunks
        if pending:
            yield VectorGap(GapReason.PENDING, pending)

    def _is_outdated(
        self, subject: MapSubject, scope: Scope, counts: MapCounts, stored: StoredMap, visible: int
    ) -> bool:
        if len(stored.points) - visible > CHANGED_SHARE * len(stored.points):
            return True
        kept = self._store.count_until(subject, scope, stored.newest_content)
        added, removed = counts.passages - kept, abs(stored.passages - kept)
        return added + removed > CHANGED_SHARE * stored.passages

    def _name_clusters(
        self, stored: StoredMap, visible: Sequence[int], points: Sequence[MapPoint]
    ) -> tuple[MapCluster, ...]:
        """Return the clusters with words from passages that are visible."""
        seen = set(visible)
        places = [
            [next((place for place in word if place[0] in seen), None) for word in words] for words in stored.words
        ]
        wanted = {stored.points[place[0]].chunk_id for words in places for place in words if place is not None}
        texts = self._store.read_texts(sorted(wanted))
        members: list[list[MapPoint]] = [[] for _ in stored.words]
        for point in points:
            members[point.cluster].append(point)
        return tuple(
            _make_cluster(
                [
                    normalise_nfkc(texts[chunk_id])[place[1] : place[2]]
                    for place in words
                    if place is not None and (chunk_id := stored.points[place[0]].chunk_id) in texts
                ],
                inside,
            )
            for words, inside in zip(places, members, strict=True)
        )

    # -- making ---------------------------------------------------------------------------------

    def _request(self, subject: MapSubject, scope: Scope, state: MapState) -> MapState:
        """Queue a map; return the state, which is FAILED for a minute after an attempt."""
        with self._changed:
            if time.monotonic() < self._failed.get(subject, 0.0):
                return MapState.FAILED if state is MapState.MAKING else MapState.READY
            self._failed.pop(subject, None)
            if not self._closing and (subject in self._waiting or len(self._waiting) < MAX_WAITING):
                self._waiting[subject] = scope
                self._changed.notify_all()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="maps", daemon=True)
                    self._thread.start()
        return state

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                subject, scope = next(iter(self._waiting.items()))
            try:
                self._make_alone(subject, scope)
            except Exception as error:
                if not self._closing:
                    log.warning("a map of the passages could not be made: %s", error)
                self._failed[subject] = time.monotonic() + RETRY_SECONDS
            finally:
                with self._changed:
                    self._waiting.pop(subject, None)

    def _make_alone(self, subject: MapSubject, scope: Scope) -> None:
        """Make a map unless another server makes one; the next request tries again."""
        token = self._leases.acquire(MAP_LEASE, LEASE_SECONDS) if self._leases is not None else None
        if self._leases is not None and token is None:
            return
        try:
            self._make(subject, scope)
        finally:
            if self._leases is not None and token is not None:
                self._leases.release(MAP_LEASE, token)

    def _make(self, subject: MapSubject, scope: Scope) -> None:
        model = self._find_model()
        counts = self._store.count(subject, scope)
        if model is None or counts.passages < MIN_MAP_PASSAGES or self._is_made(subject, scope, counts, model):
            return
        chunks = self._store.sample(subject, scope, model.id, MAX_MAP_POINTS)
        if not chunks:
            raise Internal("No passage has a vector of the active model")
        vectors = np.stack([np.frombuffer(chunk.vector, np.float16) for chunk in chunks]).astype(np.float32)
        passages = [MappedPassage(chunk.document_id, chunk.text, chunk.language) for chunk in chunks]
        layout = self._process.make(vectors, passages)
        points = tuple(
            place_chunk(chunk, place, cluster)
            for chunk, place, cluster in zip(chunks, layout.places, layout.clusters, strict=True)
        )
        words = tuple(tuple(tuple(word) for word in found) for found in layout.words)
        self._store.save(subject, StoredMap(model.id, counts.newest_content, counts.passages, now(), points, words))

    def _is_made(self, subject: MapSubject, scope: Scope, counts: MapCounts, model: StoredModel) -> bool:
        """Return whether another server has made the map meanwhile."""
        stored = self._store.find(subject)
        if stored is None or stored.model_id != model.id:
            return False
        documents = self._store.find_documents(list({point.document_id for point in stored.points}), subject, scope)
        visible = sum(is_visible(point, documents) for point in stored.points)
        return not self._is_outdated(subject, scope, counts, stored, visible)


def is_visible(point: PlacedChunk, documents: dict[int, VisibleDocument]) -> bool:
    """Return whether the document of a point is visible and has not been replaced."""
    document = documents.get(point.document_id)
    return document is not None and document.content_id == point.content_id


def place_chunk(chunk: SampledChunk, place: tuple[float, float], cluster: int) -> PlacedChunk:
    return PlacedChunk(chunk.chunk_id, chunk.document_id, chunk.content_id, chunk.position, *place, cluster)


def draw_points(stored: StoredMap, numbers: Sequence[int], documents: dict[int, VisibleDocument]) -> PassageMap:
    """Return the points with their documents and collections, each listed once."""
    shown = [stored.points[number] for number in numbers]
    counts = Counter(documents[point.document_id].collection_uid for point in shown)
    named = {document.collection_uid: document for document in documents.values()}
    places = {uid: place for place, (uid, _) in enumerate(counts.most_common())}
    listed = {identity: place for place, identity in enumerate(dict.fromkeys(point.document_id for point in shown))}
    return PassageMap(
        MapState.READY,
        stored.passages,
        points=tuple(
            MapPoint(listed[point.document_id], point.position, point.x, point.y, point.cluster) for point in shown
        ),
        documents=tuple(
            MapDocument(documents[each].uid, documents[each].title, places[documents[each].collection_uid])
            for each in listed
        ),
        collections=tuple(
            MapCollection(uid, named[uid].collection, named[uid].collection_title, counts[uid]) for uid in places
        ),
    )


def _make_cluster(terms: Sequence[str], points: Sequence[MapPoint]) -> MapCluster:
    if not points:
        return MapCluster((), 0.5, 0.5, 0)
    x, y = np.median([(point.x, point.y) for point in points], axis=0)
    return MapCluster(tuple(terms), round(float(x), 4), round(float(y), 4), len(points))


class LocalMaps:
    def __init__(self, threads: EngineThreads, service: MapService, collections: CollectionStore, scope: Scope) -> None:
        self._run_in_thread, self._service = threads.run, service
        self._collections, self._scope = collections, scope

    async def read(self, collection: CollectionRef | None = None, limit: int = MAX_MAP_POINTS) -> PassageMap:
        if not 1 <= limit <= MAX_MAP_POINTS:
            raise InvalidParameter(f"limit must be between 1 and {MAX_MAP_POINTS}, not {limit}", parameter="limit")
        return await self._run_in_thread(lambda: self._read(collection, limit))

    def _read(self, collection: CollectionRef | None, limit: int) -> PassageMap:
        chosen = EVERYTHING if collection is None else self._collections.find_ids([collection], self._scope)[0]
        return self._service.read(MapSubject(self._scope.owner, chosen), self._scope, limit)
