"""Measures the CPU time that recording the metrics of one search over REST takes, and that of reading them.

    python benchmarks/metrics.py [--searches 20000]

The same series are written as by a warm hybrid search: request, search, five stages and a cache. Without a server they
are objects that do nothing, which is what the commands and the library pay.
"""

from __future__ import annotations

import argparse
import statistics
import time

from knowledge.telemetry import metrics

ROUNDS = 7
STAGES = ("embed", "words", "meaning", "fuse", "hydrate")


def record_search() -> None:
    metrics.CACHE_HITS["questions"].inc()
    for stage in STAGES:
        metrics.SEARCH_STAGE_SECONDS[stage].observe(0.0012)
    metrics.SEARCHES[metrics.NO_ERROR].inc()
    metrics.SEARCH_SECONDS[()].observe(0.004)
    metrics.HTTP_REQUESTS["rest", "POST", "200"].inc()
    metrics.HTTP_SECONDS["rest"].observe(0.005)


def measure_microseconds(searches: int) -> float:
    """Return the median CPU time per search."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(searches):
            record_search()
        found.append((time.process_time() - began) / searches * 1_000_000)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=20_000)
    searches = parser.parse_args().searches
    unrecorded = measure_microseconds(searches)
    began = time.perf_counter()
    from knowledge.telemetry import prometheus

    prometheus.start_recording()
    start_ms = (time.perf_counter() - began) * 1000
    recorded = measure_microseconds(searches)
    began = time.perf_counter()
    size = len(prometheus.render_metrics(None))
    render_ms = (time.perf_counter() - began) * 1000
    print(f"a search that is not recorded  {unrecorded:6.1f} µs")
    print(f"a recorded search              {recorded:6.1f} µs")
    print(f"starting to record             {start_ms:6.1f} ms")
    print(f"rendering {size:6d} bytes        {render_ms:6.1f} ms")


if __name__ == "__main__":
    main()
