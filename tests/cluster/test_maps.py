"""The map on two servers: one makes it, and the other has it."""

from __future__ import annotations

from knowledge.model import Caller
from knowledge.model.maps import MapState
from tests.cluster.conftest import OpenMember
from tests.engine.test_maps import add_subjects, read_map


async def test_a_map_that_one_server_made_is_read_by_the_other(open_member: OpenMember) -> None:
    first, second = [open_member(name).as_caller(Caller()) for name in ("one", "two")]
    await add_subjects(first)
    made = await read_map(first)
    found = await second.maps.read()
    assert found.state is MapState.READY and found == made


async def test_both_servers_may_ask_at_the_same_time(open_member: OpenMember) -> None:
    first, second = [open_member(name).as_caller(Caller()) for name in ("one", "two")]
    await add_subjects(first)
    assert {(await engine.maps.read()).state for engine in (first, second)} <= {MapState.MAKING, MapState.READY}
    assert await read_map(first) == await read_map(second)
