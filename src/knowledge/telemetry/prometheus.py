"""Metrics in Prometheus text, by prometheus-client, which is imported by servers only: it takes 30 ms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from knowledge.model import EngineStatus
from knowledge.telemetry.metrics import JOB_KINDS, TALLIES, TIMINGS
from knowledge.version import __version__

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
REGISTRY = CollectorRegistry()
Series = TypeVar("Series", Counter, Histogram)


@cache
def start_recording() -> None:
    """Record the metrics of this process from now on; a second call changes nothing."""
    # The time at which each series began would double the number of series.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=REGISTRY)
    for tally in TALLIES:
        counter = Counter(tally.name, tally.description, tally.label_names, registry=REGISTRY)
        tally.start(partial(_find_series, counter))
    for timing in TIMINGS:
        histogram = Histogram(
            timing.name, timing.description, timing.label_names, registry=REGISTRY, buckets=timing.buckets
        )
        timing.start(partial(_find_series, histogram))


def _find_series(metric: Series, labels: tuple[str, ...]) -> Series:
    return metric.labels(*labels) if labels else metric


class EngineCollector:
    """Shows the status of the engine that was read for this scrape."""

    def __init__(self, status: EngineStatus | None) -> None:
        """`status` is None if the engine could not be asked."""
        self._status = status

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield make_gauge("knowledge_build_info", "Version of this server.", ["version"], [((__version__,), 1)])
        yield make_gauge(
            "knowledge_engine_up", "Whether the engine could be asked.", [], [((), self._status is not None)]
        )
        if self._status is not None:
            yield from describe_status(self._status)


def describe_status(status: EngineStatus) -> Iterator[GaugeMetricFamily]:
    """Yield queue, index, sizes and child processes as gauges."""
    load = status.load
    queue = {(kind, state): (0, 0) for kind in sorted(JOB_KINDS) for state in ("queued", "processing")}
    queue |= {(each.kind, each.status): (each.jobs, each.oldest_seconds) for each in load.queue}
    yield make_gauge(
        "knowledge_queue_jobs",
        "Jobs in the queue of all servers, by kind and status.",
        ["kind", "status"],
        [(labels, jobs) for labels, (jobs, _) in queue.items()],
    )
    yield make_gauge(
        "knowledge_queue_oldest_seconds",
        "Age of the oldest job that waits for a worker, by kind; 0 if none waits.",
        ["kind"],
        [((kind,), age) for (kind, state), (_, age) in queue.items() if state == "queued"],
    )
    ready = status.model.loaded and status.model.error is None
    for name, description, value in (
        ("knowledge_index_lag_changes", "Changes that the index of this server has not applied.", load.index_lag),
        ("knowledge_index_ok", "Whether the index is available.", status.index_ok),
        ("knowledge_storage_ok", "Whether the folder of the originals can be read and written.", status.storage_ok),
        ("knowledge_model_ready", "Whether the embedding model is loaded and works.", ready),
        ("knowledge_issues", "Problems that the status lists.", len(status.issues)),
        ("knowledge_documents", "Documents of all accounts.", load.documents),
        ("knowledge_chunks", "Passages of all accounts.", load.chunks),
        ("knowledge_database_bytes", "Size of the database.", status.database_bytes),
        ("knowledge_files_bytes", "Size of the originals.", status.files_bytes),
        ("knowledge_index_bytes", "Size of the index.", status.index_bytes),
        ("knowledge_disk_free_bytes", "Free space on the disk of the data folder.", status.free_bytes),
        ("knowledge_children", "Child processes that read documents.", status.processes.children),
        ("knowledge_children_bytes", "Memory of these child processes.", status.processes.children_bytes),
        ("knowledge_backup_failed", "Whether the last backup by schedule failed.", bool(status.backup.error)),
        ("knowledge_backup_overdue", "Whether the newest one is older than two intervals.", status.backup.overdue),
        (
            "knowledge_backup_success_timestamp_seconds",
            "Time of the newest backup by schedule; 0 for none.",
            status.backup.succeeded_at.timestamp() if status.backup.succeeded_at else 0,
        ),
        ("knowledge_servers", "Servers that use this database, if several can.", len(status.servers)),
        ("knowledge_servers_live", "Servers that were seen lately.", sum(each.live for each in status.servers)),
    ):
        yield make_gauge(name, description, [], [((), value)])


def make_gauge(
    name: str, description: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, description, labels=labels)
    for label_values, value in values:
        gauge.add_metric(label_values, float(value))
    return gauge


def render_metrics(status: EngineStatus | None) -> bytes:
    """Return the metrics of this process and the status of its engine."""
    gauges = CollectorRegistry(auto_describe=False)
    gauges.register(EngineCollector(status))
    return generate_latest(REGISTRY) + generate_latest(gauges)
