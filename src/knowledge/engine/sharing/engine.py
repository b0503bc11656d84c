"""One data folder, many processes: every verb goes to whoever is the engine now, and again when that one ends."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, runtime_checkable

from knowledge.engine.api import Engine
from knowledge.engine.proxy import Relay
from knowledge.engine.sharing.leader import PATIENCE, Seat
from knowledge.errors import CollectionNotFound, DocumentNotFound, EngineUnreachable, Unavailable
from knowledge.model import Caller, CollectionRef, Job, Ref, Removed, Report, Scope

T = TypeVar("T")


@runtime_checkable
class Scoped(Protocol):
    """An engine that can look through another scope."""

    def scoped(self, scope: Scope) -> Engine: ...


class SharedEngine(Relay):
    """An engine that is always there. Every write may be repeated: it carries a uid, or says the same thing twice."""

    def __init__(self, seat: Seat, view: Caller | Scope | None = None) -> None:
        self._seat, self._view = seat, view or Caller()

    def as_caller(self, caller: Caller) -> SharedEngine:
        """Whoever is the engine judges the caller: the one here by itself, the one elsewhere by the caller's key."""
        return SharedEngine(self._seat, caller)

    def scoped(self, scope: Scope) -> SharedEngine:
        """Another view of the same engine; only the process that is the engine can give it."""
        return SharedEngine(self._seat, scope)

    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """Ask the engine; when it ends under our hands, ask the next one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            engine = await self._seat.engine()
            try:
                return await verb(self._seen(engine))
            except EngineUnreachable:
                if self._seat.ours or time.monotonic() > deadline:
                    raise
            await self._seat.lost(engine)

    def _seen(self, engine: Engine) -> Engine:
        if isinstance(self._view, Caller):
            return engine.as_caller(self._view)
        if not isinstance(engine, Scoped):
            raise Unavailable("Another process is the engine of this data folder, and shows only its owner's documents")
        return engine.scoped(self._view)

    # -- what may be sent again -----------------------------------------------------------------

    async def wait(self, ref: Ref, timeout: float, report: Report | None = None) -> Job:
        deadline = time.monotonic() + timeout
        return await self._ask(lambda engine: engine.wait(ref, max(0.0, deadline - time.monotonic()), report))

    async def remove(self, ref: Ref) -> Removed:
        document = await self.document(ref)
        gone = Removed(1, document.chunk_count, document.size_bytes)
        return await self._ask(_twice(lambda engine: engine.remove(document.id), gone))

    async def remove_collection(self, ref: CollectionRef) -> Removed:
        collection = await self.collection(ref)
        gone = Removed(collection.document_count, collection.chunk_count, 0)
        return await self._ask(_twice(lambda engine: engine.remove_collection(collection.id), gone))


def _twice(verb: Callable[[Engine], Awaitable[Removed]], gone: Removed) -> Callable[[Engine], Awaitable[Removed]]:
    """A removal that may be sent again: what is missing the second time went the first time."""
    attempts = 0

    async def attempt(engine: Engine) -> Removed:
        nonlocal attempts
        attempts += 1
        try:
            return await verb(engine)
        except (DocumentNotFound, CollectionNotFound):
            if attempts == 1:
                raise
            return gone

    return attempt
