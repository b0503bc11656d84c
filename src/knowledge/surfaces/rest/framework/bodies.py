"""How a body comes in: counted while it streams, refused as soon as it is too large or not what was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from knowledge.errors import Malformed, TooLarge, UnsupportedFormat
from knowledge.surfaces.rest.framework.validation import refuse
from knowledge.wire import Body

MAX_JSON_BYTES = 16 << 20
DRAIN_SECONDS = 10.0

B = TypeVar("B", bound=Body)


async def read_json(request: Request, model: type[B]) -> B:
    """The body as the model has it, or the refusal that says what is wrong with it."""
    require_json(request)
    async with streaming(request) as stream:
        data = b"".join([piece async for piece in stream.pieces(MAX_JSON_BYTES)])
    try:
        return model.model_validate_json(data or b"{}")
    except ValidationError as error:
        raise refuse(error.errors(include_url=False), model.model_fields) from error


def require_json(request: Request) -> None:
    given = content_type(request)
    if given and given != "application/json" and not given.endswith("+json"):
        raise UnsupportedFormat(
            f"The body is {given[:80]}",
            hint="Send JSON with 'Content-Type: application/json'.",
            content_type=given[:80],
        )


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class Stream:
    """The body of one request, read once."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._more = True

    async def pieces(self, limit: int) -> AsyncGenerator[bytes]:
        """Up to a limit: what says beforehand that it is longer is not read at all."""
        announced = self._request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > limit:
            raise too_large(limit)
        seen = 0
        while self._more:
            piece = await self._next()
            seen += len(piece)
            if seen > limit:
                raise too_large(limit)
            yield piece

    async def drain(self) -> None:
        """Read what a refused client is still sending, so that it can read the answer before the connection ends."""
        with suppress(TimeoutError, Malformed):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._more:
                    await self._next()

    async def _next(self) -> bytes:
        message = await self._request.receive()
        if message["type"] != "http.request":
            raise Malformed("The connection ended before the body did")
        self._more = message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body


@asynccontextmanager
async def streaming(request: Request) -> AsyncIterator[Stream]:
    """The body as a stream; a client whose body is too large is heard to its end before it is told."""
    stream = Stream(request)
    try:
        yield stream
    except TooLarge:
        await stream.drain()
        raise


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request is larger than {limit >> 20} MB", max_size_mb=limit >> 20)
