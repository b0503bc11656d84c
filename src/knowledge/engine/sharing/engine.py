"""The engine of a data folder that several processes share: sends every verb to the leader.

When the leader ends, a verb is sent again to the next one. Writes are idempotent: by a uid, or by their nature.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast, runtime_checkable

from knowledge.engine.api import Engine
from knowledge.engine.proxy import EngineHost, Proxy
from knowledge.engine.sharing.leader import FIND_ENGINE_SECONDS, LeaderElection
from knowledge.errors import CollectionNotFound, DocumentNotFound, EngineUnreachable, Unavailable
from knowledge.model import Caller, CollectionRef, Job, Ref, RemovalResult, ReportProgress, Scope

T = TypeVar("T")


@runtime_checkable
class ScopableEngine(Protocol):
    """An engine that can be restricted to a scope."""

    def with_scope(self, scope: Scope) -> Engine: ...


def make_shared_engine(election: LeaderElection) -> Engine:
    """Make the engine of a shared data folder, with the local owner as caller."""
    return cast(Engine, SharedEngine(election, Caller()))


class SharedEngine(Proxy):
    def __init__(self, election: LeaderElection, view: Caller | Scope) -> None:
        self._election, self._view = election, view

    def as_caller(self, caller: Caller) -> Engine:
        """Return the engine for another caller; the leader authenticates it, over HTTP by its API key."""
        return cast(Engine, self if caller == self._view else SharedEngine(self._election, caller))

    def with_scope(self, scope: Scope) -> Engine:
        """Return the engine for a scope; works only in the leader process."""
        return cast(Engine, SharedEngine(self._election, scope))

    async def _ask(self, verb: str, call: Callable[[Engine], Awaitable[T]]) -> T:
        """Send a verb to the leader, and again to the next leader if it ends meanwhile."""
        deadline = time.monotonic() + FIND_ENGINE_SECONDS
        while True:
            engine = self._election.current or await self._election.get_engine()
            try:
                return await call(await self._admit(engine, verb))
            except EngineUnreachable:
                if self._election.is_leader or time.monotonic() > deadline:
                    raise
            await self._election.report_lost(engine)

    async def _admit(self, engine: EngineHost, verb: str) -> Engine:
        if isinstance(self._view, Caller):
            return await engine.admit(self._view, verb)
        if not isinstance(engine, ScopableEngine):
            raise Unavailable("Scopes are not available: another process is the leader of this data folder")
        return engine.with_scope(self._view)

    # -- verbs that need more than to be repeated -----------------------------------------------

    async def wait(self, ref: Ref, timeout: float, report: ReportProgress | None = None) -> Job:
        deadline = time.monotonic() + timeout
        return await self._ask("wait", lambda engine: engine.wait(ref, max(0.0, deadline - time.monotonic()), report))

    async def remove(self, ref: Ref) -> RemovalResult:
        document = await self._ask("document", lambda engine: engine.document(ref))
        gone = RemovalResult(1, document.chunk_count, document.size_bytes)
        return await self._ask("remove", _repeatable(lambda engine: engine.remove(document.id), gone))

    async def remove_collection(self, ref: CollectionRef) -> RemovalResult:
        collection = await self._ask("collection", lambda engine: engine.collection(ref))
        gone = RemovalResult(collection.document_count, collection.chunk_count, 0)
        removal = _repeatable(lambda engine: engine.remove_collection(collection.id), gone)
        return await self._ask("remove_collection", removal)


def _repeatable(
    call: Callable[[Engine], Awaitable[RemovalResult]], gone: RemovalResult
) -> Callable[[Engine], Awaitable[RemovalResult]]:
    """Make a removal idempotent: if it is repeated and the target is missing, the first attempt removed it."""
    attempts = 0

    async def attempt(engine: Engine) -> RemovalResult:
        nonlocal attempts
        attempts += 1
        try:
            return await call(engine)
        except (DocumentNotFound, CollectionNotFound):
            if attempts == 1:
                raise
            return gone

    return attempt
