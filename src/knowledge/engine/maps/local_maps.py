"""Verbs for maps in this process."""

from __future__ import annotations

from knowledge.engine.maps.service import MapService
from knowledge.engine.threads import EngineThreads
from knowledge.errors import InvalidParameter
from knowledge.model import CollectionRef, Scope
from knowledge.model.maps import MAX_MAP_POINTS, PassageMap
from knowledge.store.collections import CollectionStore
from knowledge.store.maps.passage_maps import EVERYTHING, MapSubject


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
