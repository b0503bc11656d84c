"""The map of passages over HTTP."""

from __future__ import annotations

from knowledge.engine.remote.http import EngineClient
from knowledge.model import CollectionRef
from knowledge.model.maps import MAX_MAP_POINTS, PassageMap
from knowledge.wire.values import dump_collection_ref


class RemoteMaps:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def read(self, collection: CollectionRef | None = None, limit: int = MAX_MAP_POINTS) -> PassageMap:
        params = {"limit": str(limit)} | (
            {} if collection is None else {"collection": str(dump_collection_ref(collection))}
        )
        return await self._client.call(PassageMap, "GET", "/map", params=params, idempotent=True)
