"""Verbs for many documents at once, and for documents near another one, over HTTP."""

from __future__ import annotations

from knowledge.engine.remote.http import LONG_TIMEOUTS, EngineClient
from knowledge.model import DocumentEdit, Hit, Ref
from knowledge.model.library import BatchResult, DocumentSelection
from knowledge.wire.library import SimilarShape, dump_batch_edit, dump_batch_removal


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
