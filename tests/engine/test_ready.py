"""An engine says whether its index has caught up, so that a load balancer can choose a server."""

from __future__ import annotations

import asyncio

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import Starting
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import WAIT_SECONDS, add_note


async def test_an_engine_with_an_index_that_has_caught_up_is_ready(engine: Engine) -> None:
    await add_note(engine, "tea in the kitchen")
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                await engine.check_ready()
                return
            except Starting:
                await asyncio.sleep(0.05)


async def test_an_engine_whose_index_fails_is_not_ready(local: LocalEngine) -> None:
    local._parts.indexer.failure = "The index is behind the change log: the disk of the data folder is full"
    if local._parts.member is not None:
        local._parts.member.is_ready = False
    with pytest.raises(Starting, match="has not caught up"):
        await local.check_ready()


@pytest.mark.only_sqlite
async def test_one_server_alone_lists_no_servers(settings: Settings, parsers: SharedParsers) -> None:
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    try:
        assert (await engine.status()).servers == ()
    finally:
        engine.close()
