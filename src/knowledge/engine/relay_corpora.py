"""The verbs about corpora, passed on."""

from __future__ import annotations

from knowledge.engine.relay_verbs import Asking
from knowledge.model import Collection, CorpusEdit, Grant, NewCorpus, Page, Permission, Removed


class CorpusRelay(Asking):
    async def corpora(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> Page[Collection]:
        return await self._ask(lambda engine: engine.corpora(category, approved_only, page, per_page))

    async def corpus(self, ref: int) -> Collection:
        return await self._ask(lambda engine: engine.corpus(ref))

    async def create_corpus(self, new: NewCorpus) -> Collection:
        return await self._ask(lambda engine: engine.create_corpus(new))

    async def edit_corpus(self, ref: int, edit: CorpusEdit) -> Collection:
        return await self._ask(lambda engine: engine.edit_corpus(ref, edit))

    async def remove_corpus(self, ref: int) -> Removed:
        return await self._ask(lambda engine: engine.remove_corpus(ref))

    async def grants(self, ref: int) -> list[Grant]:
        return await self._ask(lambda engine: engine.grants(ref))

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        return await self._ask(lambda engine: engine.grant(ref, username, permission))

    async def revoke_grant(self, ref: int, username: str) -> None:
        return await self._ask(lambda engine: engine.revoke_grant(ref, username))

    # -- approval -------------------------------------------------------------------------------

    async def pending_corpora(self) -> list[Collection]:
        return await self._ask_as_admin(lambda engine: engine.pending_corpora())

    async def approve_corpus(self, ref: int) -> Collection:
        return await self._ask_as_admin(lambda engine: engine.approve_corpus(ref))

    async def revoke_approval(self, ref: int) -> Collection:
        return await self._ask_as_admin(lambda engine: engine.revoke_approval(ref))
