"""The engine of a data folder that several processes share: every verb goes to the leader, and again to the next one.

Every write may be repeated: it carries a uid, or saying it twice has the effect of saying it once.
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
class Scoped(Protocol):
    """An engine that can look through another scope."""

    def scoped(self, scope: Scope) -> Engine: ...


def make_shared_engine(election: LeaderElection) -> Engine:
    """The engine of a shared data folder, for its owner."""
    return cast(Engine, SharedEngine(election, Caller()))


class SharedEngine(Proxy):
    def __init__(self, election: LeaderElection, view: Caller | Scope) -> None:
        self._election, self._view = election, view

    def as_caller(self, caller: Caller) -> Engine:
        """The leader judges the caller: the one here by itself, the one elsewhere by the caller's key."""
        return cast(Engine, self if caller == self._view else SharedEngine(self._election, caller))

    def scoped(self, scope: Scope) -> Engine:
        """Another view of the same engine; only the process that is the leader can give it."""
        return cast(Engine, SharedEngine(self._election, scope))

    async def _ask(self, verb: str, call: Callable[[Engine], Awaitable[T]]) -> T:
        """Ask the leader; when it goes away meanwhile, ask the next one."""
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
        if not isinstance(engine, Scoped):
            raise Unavailable("Another process is the engine of this data folder, and shows only its owner's documents")
        return engine.scoped(self._view)

    # -- what needs more than to be sent again --------------------------------------------------

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
    """A removal that may be sent again: what is missing the second time was removed the first time."""
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
