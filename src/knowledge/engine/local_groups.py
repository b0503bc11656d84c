"""The sub-protocols of LocalEngine: accounts, corpora, sessions, OAuth, pages, maps, agents and insight."""

from __future__ import annotations

from abc import ABC, abstractmethod

from knowledge.engine.insight.local_insight import LocalAgents, LocalInsight
from knowledge.engine.local_accounts import LocalAccounts
from knowledge.engine.local_corpora import LocalCorpora
from knowledge.engine.local_mcp_sessions import LocalMcpSessions
from knowledge.engine.local_sessions import LocalSessions
from knowledge.engine.maps.local_maps import LocalMaps
from knowledge.engine.oauth.local_oauth import LocalOAuth
from knowledge.engine.pages.local_pages import LocalPages
from knowledge.engine.runtime import Runtime
from knowledge.model import CollectionRef, RemovalResult, Scope
from knowledge.store.accounts.accounts import StoredAccount


class LocalGroups(ABC):
    """Each property makes the part of the engine for the caller's scope."""

    _parts: Runtime
    _scope: Scope
    _for_operator: bool

    @abstractmethod
    async def remove_collection(self, ref: CollectionRef) -> RemovalResult: ...

    @abstractmethod
    async def _remove_account(self, account: StoredAccount) -> RemovalResult: ...

    @property
    def accounts(self) -> LocalAccounts:
        parts = self._parts
        return LocalAccounts(
            parts.threads,
            parts.accounts,
            parts.passwords,
            owner=self._scope.owner,
            for_operator=self._for_operator,
            registration=parts.options.registration,
            login_key_days=parts.options.login_key_days,
            remove_account=self._remove_account,
        )

    @property
    def corpora(self) -> LocalCorpora:
        return LocalCorpora(
            self._parts.threads, self._parts.corpora, self._scope, self.remove_collection, self._parts.broadcaster
        )

    @property
    def mcp_sessions(self) -> LocalMcpSessions:
        return LocalMcpSessions(self._parts.threads, self._parts.mcp_sessions)

    @property
    def sessions(self) -> LocalSessions:
        parts = self._parts
        return LocalSessions(parts.threads, parts.accounts, parts.passwords, owner=self._scope.owner)

    @property
    def oauth(self) -> LocalOAuth:
        return LocalOAuth(self._parts, self._scope.owner)

    @property
    def pages(self) -> LocalPages:
        parts = self._parts
        return LocalPages(parts.threads, parts.pages, parts.documents, parts.chunks, self._scope)

    @property
    def agents(self) -> LocalAgents:
        return LocalAgents(self._parts.threads, self._parts.insight, self._scope.owner)

    @property
    def insight(self) -> LocalInsight:
        return LocalInsight(self._parts.threads, self._parts.insight, self._scope)

    @property
    def maps(self) -> LocalMaps:
        return LocalMaps(self._parts.threads, self._parts.maps, self._parts.collections, self._scope)
