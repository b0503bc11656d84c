"""The sub-protocols of LocalEngine, such as accounts, sessions, OAuth, pages, maps, library and maintenance."""

from __future__ import annotations

from abc import ABC, abstractmethod

from knowledge.engine.insight.local_insight import LocalAgents, LocalInsight
from knowledge.engine.local_accounts import LocalAccounts
from knowledge.engine.local_corpora import CorpusReader, LocalCorpora
from knowledge.engine.local_library import LocalLibrary
from knowledge.engine.local_mcp_sessions import LocalMcpSessions
from knowledge.engine.local_sessions import LocalSessions
from knowledge.engine.maintenance.service import LocalMaintenance
from knowledge.engine.maps.service import LocalMaps
from knowledge.engine.oauth.local_oauth import LocalOAuth
from knowledge.engine.pages.local_pages import LocalPages
from knowledge.engine.runtime import Runtime
from knowledge.model import CollectionRef, Query, RemovalResult, Scope, SearchAnswer
from knowledge.store.accounts.accounts import StoredAccount
from knowledge.store.accounts.quotas import read_usage


class LocalGroups(ABC):
    """Each property makes the part of the engine for the caller's scope."""

    _parts: Runtime
    _scope: Scope
    _for_operator: bool

    @abstractmethod
    async def remove_collection(self, ref: CollectionRef) -> RemovalResult: ...

    @abstractmethod
    async def search(self, query: Query) -> SearchAnswer: ...

    @abstractmethod
    def _read_corpus(self, ref: int) -> CorpusReader:
        """Return the engine with a scope of one corpus and nothing else, for a review."""

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
            read_usage=lambda owner: read_usage(parts.database, parts.options.quota, owner),
        )

    @property
    def corpora(self) -> LocalCorpora:
        parts = self._parts
        return LocalCorpora(
            parts.threads, parts.corpora, self._scope, self.remove_collection, parts.broadcaster, self._read_corpus
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
    def maintenance(self) -> LocalMaintenance:
        parts, scope = self._parts, self._scope
        return LocalMaintenance(parts.threads, parts.maintenance, parts.jobs, scope, for_operator=self._for_operator)

    @property
    def agents(self) -> LocalAgents:
        return LocalAgents(self._parts.threads, self._parts.insight, self._scope.owner)

    @property
    def insight(self) -> LocalInsight:
        return LocalInsight(self._parts.threads, self._parts.insight, self._scope)

    @property
    def maps(self) -> LocalMaps:
        return LocalMaps(self._parts.threads, self._parts.maps, self._parts.collections, self._scope)

    @property
    def library(self) -> LocalLibrary:
        return LocalLibrary(self._parts, self._scope, self.search)
