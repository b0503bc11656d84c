"""Connections that lead where they were checked to lead: a name is resolved once, judged, and that address is used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpcore

from knowledge.engine.fetch_addresses import Allowed, resolve


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """What httpcore connects through; there is no second look-up in which a name could mean something else."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await resolve(host, port, self._allowed):
            try:
                return await self._plain.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._plain.sleep(seconds)
