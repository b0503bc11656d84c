"""The library, the map of passages and maintenance over HTTP."""

from __future__ import annotations

from knowledge.engine.remote.http import LONG_TIMEOUTS, EngineClient
from knowledge.model import CollectionRef, DocumentEdit, Hit, Job, Original, Ref
from knowledge.model.library import BatchResult, DocumentSelection
from knowledge.model.maps import MAX_MAP_POINTS, PassageMap
from knowledge.wire.library import SimilarShape, dump_batch_edit, dump_batch_removal
from knowledge.wire.values import dump_collection_ref


class RemoteLibrary:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def edit_many(self, selection: DocumentSelection, edit: DocumentEdit) -> BatchResult:
        body = dump_batch_edit(selection, edit)
        return await self._client.call(BatchResult, "POST", "/documents/batch", json=body, timeout=LONG_TIMEOUTS)

    async def remove_many(self, selection: DocumentSelection, confirm: int | None) -> BatchResult:
        body = dump_batch_removal(selection, confirm)
        return await self._client.call(BatchResult, "POST", "/documents/batch", json=body, timeout=LONG_TIMEOUTS)

    async def similar(self, ref: Ref, top: int = 5) -> list[Hit]:
        path, params = f"/documents/{ref}/similar", {"top": str(top)}
        found = await self._client.call(SimilarShape, "GET", path, params=params, idempotent=True)
        return [hit.to_hit() for hit in found.results]


class RemoteMaps:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def read(self, collection: CollectionRef | None = None, limit: int = MAX_MAP_POINTS) -> PassageMap:
        params = {"limit": str(limit)} | (
            {} if collection is None else {"collection": str(dump_collection_ref(collection))}
        )
        return await self._client.call(PassageMap, "GET", "/map", params=params, idempotent=True)


class RemoteMaintenance:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def verify(self) -> Job:
        return await self._client.call(Job, "POST", "/maintenance/verify")

    async def reindex(self) -> Job:
        return await self._client.call(Job, "POST", "/maintenance/reindex")

    async def backup(self) -> Job:
        return await self._client.call(Job, "POST", "/maintenance/backup")

    async def archive(self, ref: Ref) -> Original:
        return Original(*await self._client.download_file(f"/maintenance/backup/{ref}", timeout=LONG_TIMEOUTS))
