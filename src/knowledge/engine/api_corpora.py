"""The part of the door that is about corpora: curated collections, and whom their owners let in."""

from __future__ import annotations

from typing import Protocol

from knowledge.model import Collection, CorpusEdit, Grant, NewCorpus, Page, Permission, Removed


class CorpusVerbs(Protocol):
    async def corpora(
        self, category: str | None = None, approved_only: bool = False, page: int = 1, per_page: int = 50
    ) -> Page[Collection]:
        """The corpora that the caller may read: own, granted, and public ones that are approved."""

    async def corpus(self, ref: int) -> Collection:
        """One corpus; public and not yet approved raises CorpusNotApproved, another's private one CorpusNotFound."""

    async def create_corpus(self, new: NewCorpus) -> Collection: ...

    async def edit_corpus(self, ref: int, edit: CorpusEdit) -> Collection: ...

    async def remove_corpus(self, ref: int) -> Removed:
        """Remove a corpus with everything that stands in it."""

    # -- grants: the owner's --------------------------------------------------------------------

    async def grants(self, ref: int) -> list[Grant]: ...

    async def grant(self, ref: int, username: str, permission: Permission) -> None:
        """Let another account read a corpus, or write to it; a second grant takes the place of the first."""

    async def revoke_grant(self, ref: int, username: str) -> None: ...

    # -- approval: the local owner's and the admins' --------------------------------------------

    async def pending_corpora(self) -> list[Collection]:
        """Public corpora that wait for approval."""

    async def approve_corpus(self, ref: int) -> Collection: ...

    async def revoke_approval(self, ref: int) -> Collection: ...
