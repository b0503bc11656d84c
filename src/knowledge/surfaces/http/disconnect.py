"""A client who hangs up: whoever works for one stops then."""

from __future__ import annotations

import anyio
from starlette.types import Receive


async def until_gone(receive: Receive, work: anyio.CancelScope) -> None:
    """Cancel the work when the client has left; its body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
