"""The verbs about corpora, over /api/v1."""

from __future__ import annotations

from knowledge.engine.remote.http import LONG, Line
from knowledge.model import Collection, CorpusEdit, Grant, Json, NewCorpus, Page, Permission, Removed
from knowledge.wire import corpora as wire
from knowledge.wire import load_removed


class RemoteCorpora:
    _line: Line

    async def corpora(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> Page[Collection]:
        params = {"page": str(page), "per_page": str(per_page), "approved_only": str(approved_only).lower()}
        params |= {} if category is None else {"category": category}
        return await self._line.ask(wire.load_corpora, "GET", "/corpuses", params=params, again=True)

    async def corpus(self, ref: int) -> Collection:
        return await self._line.ask(wire.load_corpus, "GET", f"/corpuses/{ref}", again=True)

    async def create_corpus(self, new: NewCorpus) -> Collection:
        body = wire.dump_new_corpus(new)
        return await self._line.ask(wire.load_corpus, "POST", "/corpuses", json=body, again=True)

    async def edit_corpus(self, ref: int, edit: CorpusEdit) -> Collection:
        return await self._line.ask(wire.load_corpus, "PATCH", f"/corpuses/{ref}", json=wire.dump_corpus_edit(edit))

    async def remove_corpus(self, ref: int) -> Removed:
        return await self._line.ask(load_removed, "DELETE", f"/corpuses/{ref}", timeout=LONG)

    # -- grants ---------------------------------------------------------------------------------

    async def grants(self, ref: int) -> list[Grant]:
        return await self._line.ask(wire.load_grants, "GET", f"/corpuses/{ref}/permissions", again=True)

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        body: Json = {"username": username, "permission": permission.value}
        await self._line.ask(wire.load_grants, "POST", f"/corpuses/{ref}/permissions", json=body, again=True)

    async def revoke_grant(self, ref: int, username: str) -> None:
        body: Json = {"username": username}
        await self._line.ask(wire.load_grants, "DELETE", f"/corpuses/{ref}/permissions", json=body, again=True)

    # -- approval -------------------------------------------------------------------------------

    async def pending_corpora(self) -> list[Collection]:
        found = await self._line.ask(wire.load_corpora, "GET", "/admin/corpuses/pending", again=True)
        return list(found.items)

    async def approve_corpus(self, ref: int) -> Collection:
        return await self._line.ask(wire.load_corpus, "POST", f"/admin/corpuses/{ref}/approve", again=True)

    async def revoke_approval(self, ref: int) -> Collection:
        return await self._line.ask(wire.load_corpus, "POST", f"/admin/corpuses/{ref}/revoke", again=True)
