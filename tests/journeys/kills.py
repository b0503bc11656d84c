"""Kills a process hundreds of times in five settings, and checks after each kill that nothing acknowledged is lost.

    python -m tests.journeys.kills [--kills 500] [--seed N] [--folder DIR] [--settings ingest,crawl]

DIR keeps the data folders and how far each setting has come (kills.json): the same command goes on from there. Every
round has its own seed, made of N, the setting and its number.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.config import Settings
from knowledge.model import DocumentFilter, JobFilter, JobStatus
from knowledge.testing import SharedParsers, make_test_engine
from tests.journeys.kill_driver import CANCELLED_KEY, wait_for_all_jobs
from tests.journeys.test_kill import SEED, DriverLog, Kill, check_engine, find_version, open_engine, run_until_killed
from tests.support.web_site import WebSite, serve_site

ADD_FAILPOINTS = (
    "files.placed", "store.uncommitted", "store.committed", "ingest.staged", "words.published", "words.embedded",
    "words.completed", "index.entered", "index.applied", "jobs.finished",
)  # fmt: skip
FAILPOINTS_BY_SETTING = {
    "ingest": ADD_FAILPOINTS,
    "replace": (*ADD_FAILPOINTS, "index.flushed", "add.dropped"),
    "delete": ("remove.committed", "store.uncommitted", "store.committed", "index.applied", "index.flushed"),
    "crawl": (*ADD_FAILPOINTS, "index.flushed"),
    "backup and reindex": ("backup.member", "index.built", "index.swapped", "vectors.made", "vectors.swapped"),
}
"""Where the process kills itself, by setting; in a quarter of the rounds it is killed from outside instead."""
LOADS = {"backup": "backup", "index": "reindex", "vectors": "model"}
OUTSIDE_SHARE = 0.25
MAX_HITS = 12
MAX_LINES, MAX_LINES_OF_CRAWLS = 40, 6
LAST_LINE, LAST_LINE_OF_CRAWLS = 120, 12
"""After so many lines a process is killed that has not reached its failpoint so often."""
SITE_PAGES = 8
VERSIONS_PER_RUN = 100_000
"""Keeps the versions of a round that was stopped apart from later ones."""
STATE_FILE = "kills.json"


@dataclass
class SettingState:
    """How far a setting has come, and what its last process had acknowledged."""

    done: int = 0
    log: DriverLog = field(default_factory=DriverLog)

    def to_json(self) -> dict[str, object]:
        return {"done": self.done, "acknowledged": self.log.acknowledged, "version": self.log.highest_version}

    @classmethod
    def from_json(cls, stored: dict[str, object]) -> SettingState:
        acknowledged = {int(key): int(version) for key, version in dict(stored["acknowledged"]).items()}  # type: ignore[call-overload]
        log = DriverLog(acknowledged=acknowledged, highest_version=int(str(stored["version"])))
        return cls(int(str(stored["done"])), log)


def draw_kill(setting: str, seed: int, number: int) -> Kill:
    """Return how round `number` of a setting ends; it depends on nothing but the arguments."""
    rng = random.Random(f"{seed}-{setting}-{number}")
    points = FAILPOINTS_BY_SETTING[setting]
    point = points[number % len(points)]
    load = LOADS[point.partition(".")[0]] if setting == "backup and reindex" else setting
    if rng.random() < OUTSIDE_SHARE:
        return Kill(None, 0, rng.randint(2, MAX_LINES_OF_CRAWLS if setting == "crawl" else MAX_LINES), load)
    return Kill(point, rng.randint(1, MAX_HITS), LAST_LINE_OF_CRAWLS if setting == "crawl" else LAST_LINE, load)


def fill_site(site: WebSite, version: int) -> None:
    """Give every page of the site a text that names the version."""
    pages = [f"/page{number}" for number in range(SITE_PAGES)]
    for page in pages:
        site.put_page(page, *pages, title=f"Page {page} version {version}.")


async def run_round(setting: str, state: SettingState, seed: int, folder: Path, parsers: SharedParsers) -> None:
    """Run a process until it is killed, and check what it leaves."""
    number, data = state.done, get_data_folder(folder, setting)
    kill = draw_kill(setting, seed, number)
    label = f"{setting}, round {number}, {kill}, seed {seed}"
    if setting == "crawl":
        with serve_site() as site:
            fill_site(site, number)
            await asyncio.to_thread(run_until_killed, data, state.log, kill, number, site.url + "/page0")
            await check_crawl(data, site, state.log.acknowledged.get(0, 0) > 0, parsers, label)
        state.log = DriverLog()
    else:
        await asyncio.to_thread(run_until_killed, data, state.log, kill, number)
        async with open_engine(data, parsers) as engine:
            await check_engine(engine, state.log, label)
    state.done += 1


def get_data_folder(folder: Path, setting: str) -> Path:
    return folder / setting.replace(" ", "-")


async def settle(state: SettingState, data: Path, parsers: SharedParsers) -> None:
    """End the jobs of a round in which this command itself was stopped, and take what is stored as acknowledged."""
    async with open_engine(data, parsers) as engine:
        await wait_for_all_jobs(engine)
        for key in range(CANCELLED_KEY + 1):
            state.log.acknowledged[key] = await find_version(engine, key)
    state.log.highest_version += VERSIONS_PER_RUN


async def check_crawl(data: Path, site: WebSite, accepted: bool, parsers: SharedParsers, label: str) -> None:
    """Check that an accepted crawl goes on after the kill and adds every page of the site."""
    settings = Settings(data=data, workers=2, crawl_delay=0, crawl_allow="127.0.0.1")
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    try:
        await wait_for_all_jobs(engine)
        failed = (await engine.jobs(JobFilter(status=JobStatus.FAILED))).items
        assert not failed, f"{label}: {failed}"
        assert await engine.verify() == [], label
        listed = await engine.documents(DocumentFilter(per_page=200))
        pages = {document.url for document in listed.items if (document.url or "").startswith(site.url)}
        if accepted:
            assert len(pages) == SITE_PAGES, f"{label}: {sorted(filter(None, pages))}"
        for document in listed.items:  # the next round has a site on another port
            await engine.remove(document.id)
    finally:
        await asyncio.to_thread(engine.close)


async def kill_in_settings(names: list[str], kills: int, seed: int, folder: Path) -> dict[str, int]:
    """Go on until all settings together have this many kills; return the kills of each."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STATE_FILE
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    states = {name: SettingState.from_json(stored[name]) if name in stored else SettingState() for name in names}
    parsers = SharedParsers()
    parsers.start()
    try:
        for name, state in states.items():
            if name in stored and name != "crawl":
                await settle(state, get_data_folder(folder, name), parsers)
        while sum(state.done for state in states.values()) < kills:
            name = min(names, key=lambda each: states[each].done)
            await run_round(name, states[name], seed, folder, parsers)
            path.write_text(json.dumps({**stored, **{each: state.to_json() for each, state in states.items()}}))
    finally:
        parsers.shut_down()
    return {name: state.done for name, state in states.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="of all settings together")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", type=Path, default=Path("build/kills"))
    parser.add_argument("--settings", default=",".join(FAILPOINTS_BY_SETTING))
    chosen = parser.parse_args()
    began = time.monotonic()
    done = asyncio.run(kill_in_settings(chosen.settings.split(","), chosen.kills, chosen.seed, chosen.folder))
    counts = ", ".join(f"{count} {name}" for name, count in done.items())
    print(f"{sum(done.values())} kills, nothing acknowledged lost, verify clean: {counts}; seed {chosen.seed}, "
          f"{time.monotonic() - began:.0f} s, load average {os.getloadavg()[0]:.1f}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
