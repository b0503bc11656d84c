"""How a body comes in: counted while it streams, refused as soon as it is too large or not what was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from knowledge.errors import Malformed, TooLarge, UnsupportedFormat
from knowledge.surfaces.rest.validation import refuse
from knowledge.wire import Body

MAX_JSON_BYTES = 16 << 20
DRAIN_SECONDS = 10.0

B = TypeVar("B", bound=Body)


async def read_json(request: Request, model: type[B]) -> B:
    """The body as the model has it, or the refusal that says what is wrong with it."""
    require_json(request)
    data = b"".join([piece async for piece in limited(request, MAX_JSON_BYTES)])
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


async def limited(request: Request, limit: int) -> AsyncGenerator[bytes]:
    """The pieces of a body, up to a limit: what says beforehand that it is longer is not read at all."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise too_large(limit)
    seen = 0
    try:
        async for piece in request.stream():
            seen += len(piece)
            if seen > limit:
                raise too_large(limit)
            yield piece
    except ClientDisconnect as error:
        raise Malformed("The connection ended before the body did") from error


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request is larger than {limit >> 20} MB", limit_bytes=limit)


async def drain(request: Request) -> None:
    """Read what a refused client is still sending, so that it can read the answer before the connection ends."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            more = True
            while more:
                message = await request.receive()
                more = message["type"] == "http.request" and message.get("more_body", False)
    except TimeoutError:
        pass
