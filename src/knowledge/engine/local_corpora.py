"""The verbs about corpora, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from knowledge.model import (
    Collection,
    CollectionRef,
    CorpusEdit,
    Grant,
    NewCorpus,
    Page,
    Permission,
    Removed,
    Scope,
)

if TYPE_CHECKING:
    from knowledge.engine.runtime import Parts

T = TypeVar("T")


class LocalCorpora:
    _parts: Parts
    _scope: Scope

    async def _run(self, work: Callable[[], T]) -> T:
        raise NotImplementedError

    async def remove_collection(self, ref: CollectionRef) -> Removed:
        raise NotImplementedError

    async def corpora(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> Page[Collection]:
        return await self._run(lambda: self._parts.corpora.page(self._scope, category, approved_only, page, per_page))

    async def corpus(self, ref: int) -> Collection:
        return await self._run(lambda: self._parts.corpora.find(ref, self._scope))

    async def create_corpus(self, new: NewCorpus) -> Collection:
        return await self._run(lambda: self._parts.corpora.create(new, self._scope))

    async def edit_corpus(self, ref: int, edit: CorpusEdit) -> Collection:
        return await self._run(lambda: self._parts.corpora.edit(ref, edit, self._scope))

    async def remove_corpus(self, ref: int) -> Removed:
        return await self.remove_collection((await self.corpus(ref)).id)

    async def grants(self, ref: int) -> list[Grant]:
        return await self._run(lambda: self._parts.corpora.grants(ref, self._scope))

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        await self._run(lambda: self._parts.corpora.grant(ref, username, permission, self._scope))

    async def revoke_grant(self, ref: int, username: str) -> None:
        await self._run(lambda: self._parts.corpora.revoke(ref, username, self._scope))

    # -- approval -------------------------------------------------------------------------------

    async def pending_corpora(self) -> list[Collection]:
        return await self._run(lambda: self._parts.corpora.pending())

    async def approve_corpus(self, ref: int) -> Collection:
        return await self._run(lambda: self._parts.corpora.approve(ref, approved=True))

    async def revoke_approval(self, ref: int) -> Collection:
        return await self._run(lambda: self._parts.corpora.approve(ref, approved=False))
