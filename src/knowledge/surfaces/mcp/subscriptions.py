"""Notifies MCP clients when a document changes: `resources/subscribe`, and `subscriptions/listen` since 2026-07-28.

A document is compared once a second, and only while somebody watches it, because an engine may run in another process.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from knowledge.engine.api import Engine
from knowledge.errors import Forbidden, InvalidParameter, KnowledgeError, NotFound, RateLimited, Unauthenticated
from knowledge.model import Caller, Document
from knowledge.surfaces.http.auth import format_caller_id
from knowledge.toolsets.document_resources import parse_link

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MAX_PER_SESSION = 50
MAX_PER_CALLER, MAX_WATCHED = 500, 5000
RETRY_SECONDS = 60

OnChange: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class SessionSubscriptions:
    """The documents that one session of the older era watches, by URI."""

    watches: dict[str, anyio.CancelScope] = field(default_factory=dict)
    is_open: Callable[[], bool] = lambda: True
    """Whether the session can still receive notifications; clients often leave without ending theirs."""

    def end(self, uri: str) -> None:
        if (watch := self.watches.pop(uri, None)) is not None:
            watch.cancel()

    def end_all(self) -> None:
        for uri in list(self.watches):
            self.end(uri)


class DocumentWatches:
    """Watches documents for all clients of a server, limited in total and per caller."""

    def __init__(self) -> None:
        self._by_caller: Counter[str] = Counter()
        self._handlers: set[ListenHandler] = set()

    @property
    def count(self) -> int:
        return self._by_caller.total()

    async def find(self, engine: Engine, uri: str) -> Document:
        """Return the document of a URI; raise NotFound if there is none that the caller may read."""
        parsed = parse_link(uri)
        if parsed is None:
            raise InvalidParameter(
                f"Cannot subscribe to {uri[:200]}",
                hint="Only document:// resources send change notices.",
                uri=uri[:200],
            )
        return await engine.document(parsed[0])

    async def subscribe(
        self, subscriptions: SessionSubscriptions, caller: Caller, engine: Engine, uri: str, on_change: OnChange
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        """Add a document to a session; return the work that watches it, to be run in the background."""
        document = await self.find(engine, uri)
        if len(subscriptions.watches) >= MAX_PER_SESSION and uri not in subscriptions.watches:
            raise _limit_error(f"This session watches {MAX_PER_SESSION} documents", MAX_PER_SESSION)
        self._check_limit(caller, 1)
        subscriptions.end(uri)
        scope = subscriptions.watches[uri] = anyio.CancelScope()

        async def watch() -> None:
            try:
                with scope, self._count(caller, 1):
                    await watch_document(engine, document, on_change, subscriptions.is_open)
            except RateLimited as error:
                log.info("%s is not watched: %s", uri, error)
            except Exception:  # an exception would end the background tasks of all other sessions
                log.exception("watching %s failed", uri)
            finally:
                if subscriptions.watches.get(uri) is scope:
                    del subscriptions.watches[uri]

        return watch

    async def listen(
        self,
        context: ServerRequestContext,
        params: types.SubscriptionsListenRequestParams,
        caller: Caller,
        engine: Engine,
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of change notices; documents that the caller may not read are left out of its filter."""
        asked = params.notifications
        found: dict[str, Document] = {}
        for uri in dict.fromkeys(asked.resource_subscriptions or ()):
            if len(found) == MAX_PER_SESSION:
                break
            try:
                found[uri] = await self.find(engine, uri)
            except (NotFound, InvalidParameter):
                continue
        honored = asked.model_copy(update={"resource_subscriptions": list(found) or None})
        bus = InMemorySubscriptionBus()
        async with self._open_handler(bus) as handler, anyio.create_task_group() as group:
            with self._count(caller, max(len(found), 1)):
                for uri, document in found.items():
                    changed = partial(bus.publish, ResourceUpdated(uri))
                    group.start_soon(watch_document, engine, document, changed)
                result = await handler(context, params.model_copy(update={"notifications": honored}))
            group.cancel_scope.cancel()
        return result

    def close(self) -> None:
        """End all streams with a result, as the specification asks of a server that stops."""
        for handler in self._handlers:
            handler.close()

    @asynccontextmanager
    async def _open_handler(self, bus: InMemorySubscriptionBus) -> AsyncIterator[ListenHandler]:
        # One handler and bus for each stream: on a shared bus a caller would learn of changes of another's document.
        handler = ListenHandler(bus)
        self._handlers.add(handler)
        try:
            yield handler
        finally:
            self._handlers.discard(handler)

    @contextmanager
    def _count(self, caller: Caller, watches: int) -> Iterator[None]:
        """Count watches of a caller; raise RateLimited at the limit."""
        self._check_limit(caller, watches)
        key = format_caller_id(caller)
        self._by_caller[key] += watches
        try:
            yield
        finally:
            self._by_caller[key] -= watches
            if not self._by_caller[key]:
                del self._by_caller[key]

    def _check_limit(self, caller: Caller, watches: int) -> None:
        if self._by_caller[format_caller_id(caller)] + watches > MAX_PER_CALLER:
            raise _limit_error(f"You watch {MAX_PER_CALLER} documents", MAX_PER_CALLER)
        if self._by_caller.total() + watches > MAX_WATCHED:
            raise _limit_error(f"This server watches {MAX_WATCHED} documents", MAX_WATCHED)


def _limit_error(message: str, limit: int) -> RateLimited:
    return RateLimited(message, hint="Unsubscribe from others first.", retry_after=RETRY_SECONDS, limit=limit)


async def watch_document(
    engine: Engine, known: Document, on_change: OnChange, is_open: Callable[[], bool] = lambda: True
) -> None:
    """Call `on_change` whenever a document is replaced or edited, and when it is removed, which ends the watch."""
    while is_open():
        await anyio.sleep(POLL_SECONDS)
        try:
            now = await engine.document(known.uid)
        except (NotFound, Forbidden):
            await on_change()
            return
        except Unauthenticated:  # the key was revoked
            return
        except KnowledgeError as error:  # the engine is unreachable for now
            log.debug("document %s could not be compared: %s", known.uid, error)
            continue
        if now != known:
            known = now
            await on_change()
