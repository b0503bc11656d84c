"""Runs many clients, imports, crawls, deletions and restarts on one server, and prints latencies, memory and losses.

    python -m tests.soak [--minutes 30] [--clients 100] [--searches 15] [--seed N] [--folder DIR]

The exit code is 1 if an acknowledged document was lost, a search failed while the server ran, memory or descriptors
grew, or `knowledge verify` found a problem. KNOWLEDGE_TEST_BROWSER names the Chromium; without one there is none.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.soak.run import SoakPlan, run_soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=SoakPlan.minutes)
    parser.add_argument("--clients", type=int, default=SoakPlan.clients)
    parser.add_argument("--searches", type=float, default=SoakPlan.searches_per_second, help="a second")
    parser.add_argument("--seed", type=int, default=SoakPlan.seed)
    parser.add_argument("--folder", type=Path, help="keep data and log there")
    chosen = parser.parse_args()
    plan = SoakPlan(chosen.minutes, chosen.seed, chosen.clients, chosen.searches)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = asyncio.run(run_soak(plan, folder))
    print("\n".join([*report.lines, *report.problems[:20]]))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
