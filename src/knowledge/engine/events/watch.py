"""One watch: what a caller may see of the events, judged again before each of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from knowledge.engine.events.broadcaster import EventBroadcaster, Pending, Subscription
from knowledge.engine.threads import EngineThreads
from knowledge.model import LOCAL_OWNER, Job, JobKind, Scope
from knowledge.model.events import (
    ApprovalChange,
    CollectionChange,
    CrawlProgress,
    DocumentChange,
    Event,
    EventKind,
    Hello,
)
from knowledge.store.events import StoredEvent

JUDGE_SECONDS = 3.0
"""Longest time for which a caller keeps watching after a key, a session or a grant was revoked."""
IDLE_TURNS_PER_HEARTBEAT = 5
MAX_HELLO_JOBS = 200
EVENT_KINDS = {
    DocumentChange: EventKind.DOCUMENT,
    CollectionChange: EventKind.COLLECTION,
    ApprovalChange: EventKind.APPROVAL,
}
MAX_REPLAYED_EVENTS, MAX_REPLAYED_JOBS = 1000, 500
MAX_CLOCK_DIFFERENCE = 2_000_000
"""Microseconds by which the clocks of servers may differ; jobs that ended so long before an event are told again."""


@dataclass(frozen=True, slots=True)
class Watcher:
    """What a caller may see now."""

    scope: Scope
    is_admin: bool = False
    """Whether the caller sees which corpora wait for approval."""


Judge = Callable[[], Awaitable[Watcher]]
"""Authenticates the caller again and returns what it may see; raises if the caller may not watch any more."""


async def open_watch(
    broadcaster: EventBroadcaster, threads: EngineThreads, judge: Judge, after: int | None
) -> AsyncGenerator[Event, None]:
    """Begin to watch, after the event with this number if there is one; raises before the first event if refused."""
    watcher = await judge()
    subscription = Subscription()
    await threads.run(lambda: broadcaster.subscribe(subscription, after))
    try:
        first = await threads.run(lambda: list_first_events(broadcaster, subscription.position, watcher, after))
    except BaseException:
        broadcaster.unsubscribe(subscription)
        raise
    return _watch(broadcaster, subscription, judge, watcher, first)


async def _watch(
    broadcaster: EventBroadcaster, subscription: Subscription, judge: Judge, watcher: Watcher, first: Sequence[Event]
) -> AsyncGenerator[Event, None]:
    position, idle = subscription.position, 0
    try:
        for event in first:
            yield event
        while True:
            pending = await subscription.take(JUDGE_SECONDS)
            if pending.closed:
                return
            before, watcher = watcher, await judge()
            position = max(position, pending.position)
            events = list(list_visible_events(pending, watcher))
            if pending.overflowed or before.scope.collections != watcher.scope.collections:
                events = [Event(EventKind.RESET, seq=position)]
            idle = 0 if events else idle + 1
            if idle >= IDLE_TURNS_PER_HEARTBEAT:
                idle = 0
                events = [Event(EventKind.HEARTBEAT, seq=position)]
            for event in events:
                yield event
    finally:
        broadcaster.unsubscribe(subscription)


def list_first_events(broadcaster: EventBroadcaster, position: int, watcher: Watcher, after: int | None) -> list[Event]:
    """Return the greeting, and what was missed after the event with this number, or a reset; blocking."""
    jobs, count = broadcaster.jobs.list_unfinished(MAX_HELLO_JOBS, watcher.scope)
    hello = Hello(tuple(map(broadcaster.progress.add_progress, jobs)), count, position)
    if after is None:
        return [Event(EventKind.HELLO, hello, position)]
    missed = replay_events(broadcaster, position, watcher, after)
    if missed is None:
        return [Event(EventKind.HELLO, hello), Event(EventKind.RESET, seq=position)]
    if after == position:
        return [Event(EventKind.HELLO, hello, position), *missed]
    # Without a number: a reader that loses its connection here must get what it missed again.
    return [Event(EventKind.HELLO, hello), *missed, Event(EventKind.HEARTBEAT, seq=position)]


def replay_events(broadcaster: EventBroadcaster, position: int, watcher: Watcher, after: int) -> list[Event] | None:
    """Return what changed after an event; None if that is too much or too long ago."""
    since = broadcaster.log.find_time(after)
    if since is None or not 0 <= after <= position:
        return None
    missed = broadcaster.log.read_after(after, MAX_REPLAYED_EVENTS + 1)
    ended = broadcaster.jobs.list_ended_since(since - MAX_CLOCK_DIFFERENCE, watcher.scope, MAX_REPLAYED_JOBS + 1)
    if len(missed) > MAX_REPLAYED_EVENTS or len(ended) > MAX_REPLAYED_JOBS:
        return None
    events = [event for event in missed if event.id <= position]
    return list(list_visible_events(Pending(events, {job.id: job for job in ended}), watcher))


def list_visible_events(pending: Pending, watcher: Watcher) -> Iterator[Event]:
    """Yield the events that a caller may see, jobs last, so that a document is known before its job has ended."""
    for stored in pending.events:
        if stored.is_visible_to(watcher.scope, is_admin=watcher.is_admin):
            yield make_event(stored)
    for job in pending.jobs.values():
        if job.owner == watcher.scope.owner:
            yield from list_job_events(job)
    for owner, agent in pending.agents.values():
        if owner == watcher.scope.owner:
            yield Event(EventKind.AGENT, agent)
    if watcher.scope.owner == LOCAL_OWNER:
        for refused in pending.refusals.values():
            yield Event(EventKind.REFUSAL, refused)


def make_event(stored: StoredEvent) -> Event:
    return Event(EVENT_KINDS[type(stored.data)], stored.data, stored.id)


def list_job_events(job: Job) -> Iterator[Event]:
    yield Event(EventKind.JOB, job)
    if job.kind is JobKind.CRAWL:
        yield Event(EventKind.CRAWL, CrawlProgress(job.id, job.done, job.total, job.status))
