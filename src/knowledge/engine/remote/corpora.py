"""The CorporaApi over HTTP."""

from __future__ import annotations

from knowledge import wire
from knowledge.engine.remote.http import LONG_TIMEOUTS, EngineClient
from knowledge.model import (
    Collection,
    CorpusEdit,
    Document,
    Grant,
    Json,
    NewCorpus,
    Permission,
    Ref,
    RemovalResult,
    ResultPage,
)
from knowledge.model.documents import ReviewedPart
from knowledge.wire.collections import CorpusesShape, CorpusShape, PermissionsShape, dump_corpus_edit, dump_new_corpus


class RemoteCorpora:
    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def list_page(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> ResultPage[Collection]:
        params = {"page": str(page), "per_page": str(per_page), "approved_only": str(approved_only).lower()}
        params |= {} if category is None else {"category": category}
        found = await self._client.call(CorpusesShape, "GET", "/corpuses", params=params, idempotent=True)
        return found.to_page()

    async def get(self, ref: int) -> Collection:
        found = await self._client.call(CorpusShape, "GET", f"/corpuses/{ref}", idempotent=True)
        return found.to_collection()

    async def create(self, new: NewCorpus) -> Collection:
        body = dump_new_corpus(new)
        found = await self._client.call(CorpusShape, "POST", "/corpuses", json=body, idempotent=True)
        return found.to_collection()

    async def edit(self, ref: int, edit: CorpusEdit) -> Collection:
        found = await self._client.call(CorpusShape, "PATCH", f"/corpuses/{ref}", json=dump_corpus_edit(edit))
        return found.to_collection()

    async def remove(self, ref: int) -> RemovalResult:
        return await self._client.call(RemovalResult, "DELETE", f"/corpuses/{ref}", timeout=LONG_TIMEOUTS)

    # -- grants ---------------------------------------------------------------------------------

    async def list_grants(self, ref: int) -> list[Grant]:
        found = await self._client.call(PermissionsShape, "GET", f"/corpuses/{ref}/permissions", idempotent=True)
        return list(found.permissions)

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        body: Json = {"username": username, "permission": permission.value}
        await self._client.call(PermissionsShape, "POST", f"/corpuses/{ref}/permissions", json=body, idempotent=True)

    async def revoke_grant(self, ref: int, username: str) -> None:
        body: Json = {"username": username}
        await self._client.call(PermissionsShape, "DELETE", f"/corpuses/{ref}/permissions", json=body, idempotent=True)

    # -- approval -------------------------------------------------------------------------------

    async def list_pending(self) -> list[Collection]:
        found = await self._client.call(CorpusesShape, "GET", "/admin/corpuses/pending", idempotent=True)
        return list(found.to_page().items)

    async def approve(self, ref: int) -> Collection:
        found = await self._client.call(CorpusShape, "POST", f"/admin/corpuses/{ref}/approve", idempotent=True)
        return found.to_collection()

    async def revoke_approval(self, ref: int) -> Collection:
        found = await self._client.call(CorpusShape, "POST", f"/admin/corpuses/{ref}/revoke", idempotent=True)
        return found.to_collection()

    async def decline(self, ref: int, reason: str = "") -> Collection:
        body: Json = {"reason": reason}
        found = await self._client.call(CorpusShape, "POST", f"/admin/corpuses/{ref}/decline", json=body)
        return found.to_collection()

    async def review(self, ref: int, page: int = 1, per_page: int = 50) -> ResultPage[Document]:
        params = {"page": str(page), "per_page": str(per_page)}
        path = f"/admin/corpuses/{ref}/documents"
        found = await self._client.call(wire.DocumentsShape, "GET", path, params=params, idempotent=True)
        return found.to_page()

    async def review_chunks(self, ref: int, document: Ref, offset: int = 0, limit: int | None = None) -> ReviewedPart:
        given = {"chunk_offset": offset or None, "chunk_limit": limit}
        params = {name: str(value) for name, value in given.items() if value is not None}
        path = f"/admin/corpuses/{ref}/documents/{document}"
        found = await self._client.call(wire.DocumentWithChunksShape, "GET", path, params=params, idempotent=True)
        return ReviewedPart(found.to_document(), tuple(found.to_chunks()))
