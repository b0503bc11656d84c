"""Records searches in the background: how many and how long for everybody, and the questions if they are logged."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from knowledge.errors import KnowledgeError
from knowledge.model import Query
from knowledge.store.insight.measurements import MeasurementStore, OwnerCounts, SearchTimes, current_hour
from knowledge.store.insight.queries import AskedQuery, QueryStore, make_query_identity

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
"""Searches are written together; a question that is repeated within this time counts once."""
COUNT_SECONDS = 60.0
"""Interval at which documents and unfinished jobs are counted."""
MAX_WAITING_QUESTIONS = 1000
MAX_QUESTION_HITS = 50
"""Nobody reads more; `knowledge eval` asks for 100."""
TYPED_REST_SECONDS = 5.0
"""A question that is being typed counts as asked when nothing more was typed for this time."""


@dataclass(frozen=True, slots=True)
class FinishedSearch:
    """What is recorded of a search."""

    owner: int
    query: Query
    best: float | None
    """Relevance of the best passage."""
    took_ms: float


class SearchRecorder:
    """Reads what searches leave in `finished`, in a thread of its own, so that none of them waits for the database."""

    def __init__(self, queries: QueryStore, measurements: MeasurementStore, *, logs_queries: bool) -> None:
        self._queries, self._measurements, self._logs_queries = queries, measurements, logs_queries
        self.finished: SimpleQueue[FinishedSearch | None] = SimpleQueue()
        """None wakes the thread when it must stop."""
        self._asked: dict[tuple[int, bytes], AskedQuery] = {}
        self._typed: dict[int, tuple[float, AskedQuery]] = {}
        """The question that each owner is typing, with the time of its last letter."""
        self._times: dict[int, SearchTimes] = {}
        self._stop = threading.Event()
        self._write_lock, self._count_lock = threading.Lock(), threading.Lock()
        self._counted: dict[int, OwnerCounts] = {}
        self._counted_hour = 0
        self._thread = threading.Thread(target=self._run, name="insight", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Write what was collected and stop."""
        self._stop.set()
        self.finished.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _add(self, search: FinishedSearch) -> None:
        owner, query, took_ms = search.owner, search.query, search.took_ms
        before = self._times.get(owner, SearchTimes(0, 0.0, 0.0))
        slowest = max(before.slowest_ms, took_ms)
        self._times[owner] = SearchTimes(before.searches + 1, before.total_ms + took_ms, slowest)
        if self._logs_queries and is_question(query):
            asked = AskedQuery(owner, query.text, search.best)
            if query.typing:
                self._typed[owner] = time.monotonic(), asked
            else:
                self._typed.pop(owner, None)
                self._keep(asked)

    def _keep(self, asked: AskedQuery) -> None:
        """Keep a question for the next write; of several searches for it, one per collection, the best counts."""
        key = asked.owner, make_query_identity(asked.text)
        known = self._asked.get(key)
        if known is not None and known.best is not None and known.best > (asked.best or 0.0):
            asked = known
        if known is not None or len(self._asked) < MAX_WAITING_QUESTIONS:
            self._asked[key] = asked

    def _keep_rested(self) -> None:
        oldest = time.monotonic() - TYPED_REST_SECONDS
        for owner in [owner for owner, (at, _) in self._typed.items() if at <= oldest]:
            self._keep(self._typed.pop(owner)[1])

    def flush(self) -> None:
        """Write what was collected; who reads afterwards sees it, also if another thread was writing already."""
        with self._write_lock:
            for _ in range(self.finished.qsize()):
                with suppress(Empty):
                    if (search := self.finished.get_nowait()) is not None:
                        self._add(search)
            self._keep_rested()
            asked, self._asked = [*self._asked.values()], {}
            times, self._times = self._times, {}
            if times:
                self._measurements.add_searches(times)
            if asked:
                self._queries.record(asked)

    def count(self) -> None:
        """Store the counts of the owners for whom they have changed since the last time."""
        with self._count_lock:
            counts, hour = self._measurements.count_all(), current_hour()
            known = {owner: self._counted.get(owner) for owner in self._counted | counts}
            is_new_day = (
                hour // 24 != self._counted_hour // 24
            )  # then all are written, so that old hours can be deleted
            current = {owner: counts.get(owner, OwnerCounts(0, 0)) for owner in known}
            changed = {owner: each for owner, each in current.items() if is_new_day or known[owner] != each}
            if changed:
                self._measurements.write_counts(changed)
            self._counted, self._counted_hour = counts, hour

    def _run(self) -> None:
        count_at = time.monotonic() + COUNT_SECONDS
        while not self._stop.is_set():
            wait = FLUSH_SECONDS if self._typed else count_at - time.monotonic()
            with suppress(Empty):
                self.finished.put(self.finished.get(timeout=max(0.0, wait)))  # wakes this thread; `flush` takes it
            self._stop.wait(FLUSH_SECONDS)
            self._try(self.flush)
            if time.monotonic() >= count_at and not self._stop.is_set():
                self._try(self.count)
                count_at = time.monotonic() + COUNT_SECONDS
        self._try(self.flush)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except KnowledgeError as error:
            log.warning("searches could not be recorded: %s", error)
        except Exception:
            log.exception("recording searches failed")


def is_question(query: Query) -> bool:
    """Return whether a search is a question of its own: no further page, not in one document, and no measurement."""
    return query.offset == 0 and query.limit <= MAX_QUESTION_HITS and not query.filter.documents
