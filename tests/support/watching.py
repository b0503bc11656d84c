"""Reads the events of a watch with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from knowledge.engine.api import Engine
from knowledge.model.events import Event, EventKind

WATCH_SECONDS = 30.0


class EventReader:
    """Keeps every event that was read, and waits for the next one of a kind."""

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events
        self.seen: list[Event] = []

    async def read(self) -> Event:
        event = await asyncio.wait_for(anext(self._events), WATCH_SECONDS)
        self.seen.append(event)
        return event

    async def read_until(self, is_wanted: Callable[[Event], bool]) -> Event:
        """Return the next event that is wanted; the limit is for each event on the way."""
        while not is_wanted(event := await self.read()):
            pass
        return event

    async def read_kind(self, kind: EventKind) -> Event:
        return await self.read_until(lambda event: event.kind is kind)

    async def read_to_end(self) -> None:
        """Read until the watch ends."""
        while True:
            try:
                await self.read()
            except StopAsyncIteration:
                return


@asynccontextmanager
async def watching(engine: Engine, after: int | None = None) -> AsyncIterator[EventReader]:
    async with aclosing(await engine.watch(after)) as events:
        yield EventReader(events)
