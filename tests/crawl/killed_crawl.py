"""A process that crawls until it is killed; its arguments are the data folder and the URL."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from knowledge.config import Settings
from knowledge.model.crawls import NewCrawl
from knowledge.testing import make_test_engine


async def main(folder: str, url: str) -> None:
    settings = Settings(data=Path(folder), workers=2, crawl_delay=0, crawl_allow="127.0.0.1")
    engine = make_test_engine(settings)
    engine.start()
    job = await engine.crawl(NewCrawl(url=url, recursive=True, max_pages=20))
    await engine.wait(job.id, 60)


asyncio.run(main(*sys.argv[1:]))
