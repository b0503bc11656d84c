"""The metrics of this process, which `GET /metrics` shows. Nothing is recorded before `prometheus.start_recording`.

A label value is always one of a fixed set; every other value becomes `other`, so that callers cannot add time series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias, TypeVar, cast

from knowledge.error_codes import ERRORS_BY_CODE
from knowledge.errors import Internal, KnowledgeError
from knowledge.model import JobKind

OTHER = "other"
NO_ERROR = "none"
UNKNOWN_TOOL = "unknown_tool"

FAST_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Bucket limits of what answers a request."""
SLOW_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
"""Bucket limits of what jobs do."""

SURFACES = frozenset({"rest", "mcp", "manager", "page"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STATUSES = frozenset(str(status) for status in (0, *range(100, 600)))
CODES = frozenset({*ERRORS_BY_CODE, NO_ERROR, UNKNOWN_TOOL})
SEARCH_STAGES = ("embed", "words", "meaning", "fuse", "rerank", "hydrate")
INGEST_STAGES = ("extract", "split", "embed", "publish", "index")
CACHES = ("questions", "vectors", "rerank_passages", "drawn_pages")
JOB_KINDS = frozenset(kind.value for kind in JobKind)
JOB_OUTCOMES = {
    "published by words": "words_published", "published": "published", "unpacked": "unpacked", "read again": "reread",
    "crawled": "crawled", "cancelled": "cancelled", "queued again": "requeued", "duplicate": "duplicate",
    "failed": "failed",
}  # fmt: skip
"""The labels of the outcomes of jobs, by how the log names them at the beginning."""

MAX_INITIAL_SERIES = 10

LabelValues: TypeAlias = str | tuple[str, ...]
Labels: TypeAlias = Mapping[str, frozenset[str] | None]
"""The values of each label; None if the set is fixed by the registry of tools."""


class CountedEvent(Protocol):
    """One time series of a counter of prometheus-client."""

    def inc(self, amount: float = 1) -> None: ...


class TimedEvent(Protocol):
    """One time series of a histogram of prometheus-client."""

    def observe(self, amount: float) -> None: ...

    def time(self) -> AbstractContextManager[object]:
        """Measure a block, also if it raises an error."""


class UnrecordedEvent:
    """Stands for every time series of a process that records no metrics."""

    def inc(self, amount: float = 1) -> None:
        pass

    def observe(self, amount: float) -> None:
        pass

    def time(self) -> AbstractContextManager[object]:
        return nullcontext()


Event = TypeVar("Event", CountedEvent, TimedEvent)
UNRECORDED = UnrecordedEvent()


class Metric(dict[LabelValues, Event]):
    """The time series of a metric by the values of its labels: a value for one label, a tuple for several or none.

    A dictionary, because a search looks up ten of them: only the first use of a time series runs code of ours.
    """

    def __init__(self, name: str, description: str, labels: Labels) -> None:
        super().__init__()
        self.name, self.description, self.label_names = name, description, tuple(labels)
        self._values = tuple(labels.values())
        self._make: Callable[[tuple[str, ...]], Event] | None = None

    def start(self, make: Callable[[tuple[str, ...]], Event]) -> None:
        """Record from now on; time series with one short list of labels are shown from the start, with zero."""
        self.clear()
        self._make = make
        if len(self._values) == 1 and self._values[0] is not None and len(self._values[0]) <= MAX_INITIAL_SERIES:
            for value in sorted(self._values[0]):
                self[value] = make((value,))

    def __missing__(self, key: LabelValues) -> Event:
        labels = (key,) if isinstance(key, str) else key
        limited = tuple(map(_limit_value, labels, self._values))
        event = cast(Event, UNRECORDED) if self._make is None else self._make(limited)
        if limited == labels:  # an unknown value is not kept
            self[key] = event
        return event


def _limit_value(value: str, values: frozenset[str] | None) -> str:
    return value if values is None or value in values else OTHER


class Tally(Metric[CountedEvent]):
    """Counts events."""


class Timing(Metric[TimedEvent]):
    """Counts durations in the buckets of a histogram."""

    def __init__(self, name: str, description: str, labels: Labels, buckets: tuple[float, ...]) -> None:
        super().__init__(name, description, labels)
        self.buckets = buckets


HTTP_REQUESTS = Tally(
    "knowledge_http_requests_total",
    "HTTP requests by surface, method and status; status 0 means that the client was gone before the response.",
    {"surface": SURFACES, "method": METHODS, "status": STATUSES},
)
HTTP_SECONDS = Timing(
    "knowledge_http_request_seconds", "Seconds until the response begins.", {"surface": SURFACES}, FAST_SECONDS
)
HTTP_ERRORS = Tally(
    "knowledge_http_errors_total",
    "HTTP responses with an error, by surface and error code.",
    {"surface": SURFACES, "code": CODES},
)
TOOL_CALLS = Tally(
    "knowledge_tool_calls_total",
    "Calls of tools over MCP and REST, by toolset, tool and error code; code none is a success.",
    {"toolset": None, "tool": None, "code": CODES},
)
TOOL_SECONDS = Timing(
    "knowledge_tool_call_seconds", "Seconds of tool calls.", {"toolset": None, "tool": None}, FAST_SECONDS
)
SEARCHES = Tally("knowledge_searches_total", "Searches by error code; code none is a success.", {"code": CODES})
SEARCH_SECONDS = Timing("knowledge_search_seconds", "Seconds of searches in the engine.", {}, FAST_SECONDS)
SEARCH_STAGE_SECONDS = Timing(
    "knowledge_search_stage_seconds",
    "Seconds of the stages of searches.",
    {"stage": frozenset(SEARCH_STAGES)},
    FAST_SECONDS,
)
INGEST_STAGE_SECONDS = Timing(
    "knowledge_ingest_stage_seconds",
    "Seconds of the stages of adding documents: extract and split per document, the others per batch.",
    {"stage": frozenset(INGEST_STAGES)},
    SLOW_SECONDS,
)
JOBS = Tally(
    "knowledge_jobs_total",
    "Runs of jobs in this process, by kind and outcome; a job that waits for its vectors runs again.",
    {"kind": JOB_KINDS, "outcome": frozenset(JOB_OUTCOMES.values())},
)
JOB_ERRORS = Tally(
    "knowledge_job_errors_total", "Failed jobs by kind and error code.", {"kind": JOB_KINDS, "code": CODES}
)
JOB_SECONDS = Timing("knowledge_job_seconds", "Seconds of runs of jobs.", {"kind": JOB_KINDS}, SLOW_SECONDS)
CACHE_HITS = Tally("knowledge_cache_hits_total", "Values found in a cache.", {"cache": frozenset(CACHES)})
CACHE_MISSES = Tally("knowledge_cache_misses_total", "Values not found in a cache.", {"cache": frozenset(CACHES)})

TALLIES = (HTTP_REQUESTS, HTTP_ERRORS, TOOL_CALLS, SEARCHES, JOBS, JOB_ERRORS, CACHE_HITS, CACHE_MISSES)
TIMINGS = (HTTP_SECONDS, TOOL_SECONDS, SEARCH_SECONDS, SEARCH_STAGE_SECONDS, INGEST_STAGE_SECONDS, JOB_SECONDS)


def label_outcome(outcome: str) -> str:
    """Return the label of the outcome of a job."""
    return next((label for start, label in JOB_OUTCOMES.items() if outcome.startswith(start)), OTHER)


def find_code(error: BaseException) -> str:
    """Return the code of an error; one that is not ours is an internal error."""
    return error.code if isinstance(error, KnowledgeError) else Internal.code
