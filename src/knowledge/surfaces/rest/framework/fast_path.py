"""The application, with a short way to every call whose address holds nothing to be read out of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from knowledge.surfaces.rest.framework.routes import Handler, Route


class Application(FastAPI):
    """FastAPI, but that such a call is looked up: to be searched for among all routes would cost it more than once
    what it costs to answer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._straight: dict[tuple[str, str], Handler] = {}

    def include_rooms(self, rooms: Iterable[APIRouter], prefix: str) -> None:
        """All routes of these rooms, under this prefix."""
        everything = APIRouter()
        for room in rooms:
            everything.include_router(room)
            for route in room.routes:
                if isinstance(route, Route) and route.is_plain:
                    handler = route.get_route_handler()
                    self._straight.update({(method, prefix + route.path): handler for method in route.methods or ()})
        self.include_router(everything, prefix=prefix)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._straight.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if handler is None:
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)
