"""Five minutes of the soak; `python -m tests.soak` runs half an hour of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.soak.run import SoakPlan, find_growth, run_soak
from tests.soak.server import Growth, Sample


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory and descriptors are read from /proc")
async def test_a_busy_server_that_is_restarted_loses_nothing_and_does_not_grow(tmp_path: Path) -> None:
    report = await run_soak(SoakPlan(minutes=5.0), tmp_path)
    print("\n".join(report.lines))
    assert report.problems == []


def test_a_server_that_grows_after_the_warm_up_is_reported() -> None:
    samples = [Sample(float(number), 300.0 + 2 * number, 100 + number, 60) for number in range(100)]
    grown = find_growth(Growth.measure(samples, warm_up_share=0.4, window=10))
    assert grown == ["MB of memory grew from 389 to 489", "descriptors grew from 144 to 194"]
    assert find_growth(Growth.measure(samples[:50], warm_up_share=0.4, window=10)) == [
        "descriptors grew from 124 to 144"
    ]
    flat = [Sample(float(number), 300.0, 100, 60) for number in range(100)]
    assert find_growth(Growth.measure(flat, warm_up_share=0.4, window=10)) == []
