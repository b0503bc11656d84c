"""No more requests at once than the operator allows; the others are told to come back."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.errors import Unavailable
from knowledge.surfaces.mcp.endpoint import turn_away

NOT_COUNTED = ("GET", "HEAD")
"""Health checks, and the streams on which clients of the older era listen for as long as they live."""


class AtMost:
    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope.get("method") in NOT_COUNTED:
            await self._app(scope, receive, send)
            return
        if self._under_way >= self._most:
            await self._refuse(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1013, "reason": "too many connections"})
            return
        error = Unavailable(f"{self._most} requests are under way, and no more are allowed", max_connections=self._most)
        await turn_away(error, receive, send)
