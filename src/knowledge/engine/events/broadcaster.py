"""The broadcaster: reads what changed from the database and passes it to everybody who watches.

`notify` only says that something changed; the rows are read here. With several servers over one database, a signal of
another server ends in the same call.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from weakref import WeakSet

from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.errors import KnowledgeError
from knowledge.model import Job
from knowledge.model.agents import Agent, RefusedAttempt
from knowledge.store.events import EventLog, StoredEvent
from knowledge.store.insight.agents import AgentStore
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.row_mapping import make_timestamp

log = logging.getLogger(__name__)

MIN_INTERVAL_SECONDS = 0.25
"""A job is sent at most four times a second; what it reports between is left out, but never its last state."""
POLL_SECONDS = 5.0
"""Interval at which the database is read without a notification, because one from another server can be lost."""
EVENTS_PER_READ, JOBS_PER_READ, POLLED_BACK_JOBS = 500, 500, 100
AGENTS_PER_READ, AGENTS_BACK_MICROSECONDS = 100, 30_000_000
"""Agents are read if they were seen in the last 30 seconds, which is more than clocks of servers differ."""
MAX_TOLD_JOBS = 2000
MAX_PENDING = 2000
"""Events and jobs that wait for one reader; one that is slower has to read everything anew."""


class Signal(StrEnum):
    """What `notify` says: the row or the progress of a job changed, or documents or collections did, or agents."""

    JOB = "job"
    CHANGES = "changes"
    AGENTS = "agents"


@dataclass(slots=True)
class Pending:
    """What waits for one reader; a job is kept in its newest state only."""

    events: list[StoredEvent] = field(default_factory=list)
    jobs: dict[int, Job] = field(default_factory=dict)
    agents: dict[int, tuple[int, Agent]] = field(default_factory=dict)
    """Agents by id, each with its owner."""
    refusals: dict[int, RefusedAttempt] = field(default_factory=dict)
    position: int = 0
    """Number of the last event that was passed on, visible or not."""
    overflowed: bool = False
    closed: bool = False


class Subscription:
    """The queue of one reader, which runs in an event loop."""

    def __init__(self) -> None:
        self.position = 0
        """Number of the last event before the subscription."""
        self._loop, self._arrived = asyncio.get_running_loop(), asyncio.Event()
        self._lock, self._pending = threading.Lock(), Pending()

    def offer_agents(self, agents: Sequence[tuple[int, Agent]], refusals: Sequence[RefusedAttempt]) -> None:
        """Offer agents and refusals, of which there are never many."""
        with self._lock:
            self._pending.agents |= {agent.id: (owner, agent) for owner, agent in agents}
            self._pending.refusals |= {refused.id: refused for refused in refusals}
        self._wake()

    def offer(self, events: Sequence[StoredEvent], jobs: Sequence[Job], *, closed: bool = False) -> None:
        with self._lock:
            pending = self._pending
            pending.closed |= closed
            pending.position = events[-1].id if events else pending.position
            if not pending.overflowed:
                pending.events += (event for event in events if event.id > self.position)
                pending.jobs |= {job.id: job for job in jobs}
            if len(pending.events) + len(pending.jobs) > MAX_PENDING:
                self._pending = Pending(position=pending.position, overflowed=True, closed=pending.closed)
        self._wake()

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def take(self, timeout: float) -> Pending:
        """Return what arrived, at the latest after the timeout."""
        try:
            await asyncio.wait_for(self._arrived.wait(), timeout)
        except TimeoutError:
            return Pending()
        self._arrived.clear()
        with self._lock:
            taken, self._pending = self._pending, Pending()
        return taken


class EventBroadcaster:
    def __init__(
        self,
        log_of_events: EventLog,
        jobs: JobStore,
        progress: ProgressTracker,
        agents: AgentStore,
        find_indexed: Callable[[], int | None],
    ) -> None:
        """`find_indexed` returns the last change that searches find here; None if events do not wait for the index."""
        self.log, self.jobs, self.progress, self.agents = log_of_events, jobs, progress, agents
        self._find_indexed = find_indexed
        self._changed = threading.Condition()
        self._changed_jobs: set[int] = set()
        self._is_changed = self._must_poll = self._must_read_agents = self._closing = False
        self._subscriptions: WeakSet[Subscription] = WeakSet()  # a watch that was never begun is not closed either
        self._position = self._newest_job = self._first_job = 0
        self._polled_at = 0.0
        self._told: dict[int, Job] = {}
        """The states of jobs that were passed on last, the latest at the end."""
        self._told_agents: dict[int, Agent] = {}
        self._told_refusals: dict[int, RefusedAttempt] = {}
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            subscriptions = [*self._subscriptions]
        for subscription in subscriptions:
            subscription.offer((), (), closed=True)
        if self._thread.is_alive():
            self._thread.join()

    def notify(self, signal: Signal, identity: int = 0) -> None:
        """Say that a job, any job (0) or the log of changes has changed; cheap, and nothing if nobody watches."""
        if not self._subscriptions:
            return
        with self._changed:
            if signal is Signal.JOB and identity:
                self._changed_jobs.add(identity)
            self._must_poll |= signal is Signal.JOB and not identity
            self._must_read_agents |= signal is Signal.AGENTS
            self._is_changed = True
            self._changed.notify_all()

    def subscribe(self, subscription: Subscription, after: int | None = None) -> None:
        """Subscribe from now on, or from a later event that another server has told already; blocking."""
        newest = self.log.newest() if after is not None else 0
        with self._changed:
            if not self._subscriptions:
                self._position, self._newest_job = self._find_position(), self.jobs.newest_id()
                self._first_job, self._told, self._polled_at = self._newest_job, {}, time.monotonic()
                self._read_agents()  # what was before is not told
            subscription.position = self._position
            if after is not None and self._position < after <= newest:
                subscription.position = after
            self._subscriptions.add(subscription)
            self._is_changed = True
            self._changed.notify_all()

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._changed:
            self._subscriptions.discard(subscription)
            self._changed.notify_all()

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                timeout = POLL_SECONDS if self._subscriptions else None
                self._changed.wait_for(lambda: self._is_changed or self._closing, timeout)
                if self._closing:
                    return
                changed_jobs, self._changed_jobs = self._changed_jobs, set()
                # By the clock: with several servers, signals that say nothing of a lost one come every second.
                poll = self._must_poll or time.monotonic() >= self._polled_at + POLL_SECONDS
                if poll:
                    self._polled_at = time.monotonic()
                read_agents = poll or self._must_read_agents
                self._is_changed = self._must_poll = self._must_read_agents = False
            try:
                self._pass_on(changed_jobs, poll=poll)
                if read_agents:
                    self._pass_on_agents()
            except KnowledgeError:
                log.exception("reading events failed")
            with self._changed:
                self._changed.wait_for(lambda: self._closing, MIN_INTERVAL_SECONDS)

    def _pass_on(self, changed_jobs: set[int], *, poll: bool) -> None:
        events, more = self._read_events()
        jobs = self._read_jobs(changed_jobs, poll=poll)
        with self._changed:
            if events:
                self._position = events[-1].id
            self._is_changed |= more
            subscriptions = [*self._subscriptions]
        for subscription in subscriptions if events or jobs else ():
            subscription.offer(events, jobs)

    def _pass_on_agents(self) -> None:
        agents, refusals = self._read_agents()
        with self._changed:
            subscriptions = [*self._subscriptions]
        for subscription in subscriptions if agents or refusals else ():
            subscription.offer_agents(agents, refusals)

    def _read_agents(self) -> tuple[list[tuple[int, Agent]], list[RefusedAttempt]]:
        """Return the agents and refused attempts of the last seconds that differ from what was passed on."""
        since = make_timestamp() - AGENTS_BACK_MICROSECONDS
        seen, refused = self.agents.list_seen_since(since, AGENTS_PER_READ), self.agents.list_refused_since(since)
        new = [(owner, agent) for owner, agent in seen if self._told_agents.get(agent.id) != agent]
        newly_refused = [each for each in refused if self._told_refusals.get(each.id) != each]
        self._told_agents = {agent.id: agent for _, agent in seen}
        self._told_refusals = {each.id: each for each in refused}
        return new, newly_refused

    def _read_events(self) -> tuple[list[StoredEvent], bool]:
        """Return the next events that searches find already, and whether there are more."""
        found = self.log.read_after(self._position, EVENTS_PER_READ)
        return self._keep_indexed(found), len(found) == EVENTS_PER_READ

    def _keep_indexed(self, found: list[StoredEvent]) -> list[StoredEvent]:
        indexed = self._find_indexed()
        for at, event in enumerate(found):
            if indexed is not None and event.change_seq is not None and event.change_seq > indexed:
                return found[:at]
        return found

    def _find_position(self) -> int:
        """Return the last event that can be passed on, of those that exist."""
        newest = self.log.newest()
        last = self.log.read_after(max(newest - EVENTS_PER_READ, 0), EVENTS_PER_READ)
        kept = self._keep_indexed(last)
        return newest if len(kept) == len(last) else kept[-1].id if kept else last[0].id - 1

    def _read_jobs(self, changed: set[int], *, poll: bool) -> list[Job]:
        """Return new jobs, and those of the changed ones that differ from what was passed on."""
        # Numbers of jobs are not in the order of commits, so a poll looks back.
        after = max(self._first_job, self._newest_job - POLLED_BACK_JOBS) if poll else self._newest_job
        found = self.jobs.list_after(after, JOBS_PER_READ)
        if found:
            self._newest_job = max(self._newest_job, found[-1].id)
            self._is_changed |= len(found) == JOBS_PER_READ
        if poll:
            unfinished, _ = self.jobs.list_unfinished(JOBS_PER_READ)
            running = (job.id for job in self._told.values() if not job.status.has_ended)
            changed = {*changed, *running, *(job.id for job in unfinished)}
        wanted = sorted(changed.difference(job.id for job in found))
        for first in range(0, len(wanted), JOBS_PER_READ):
            found += self.jobs.list_by_ids(wanted[first : first + JOBS_PER_READ])
        jobs = [job for job in map(self.progress.add_progress, found) if self._told.get(job.id) != job]
        for job in jobs:
            self._told.pop(job.id, None)
            self._told[job.id] = job
        while len(self._told) > MAX_TOLD_JOBS:
            del self._told[next(iter(self._told))]
        return jobs
