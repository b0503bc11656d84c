"""GET /docs: a page that reads /openapi.json and fetches nothing from anywhere else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"


@cache
def _html() -> str:
    return files("knowledge.surfaces.rest").joinpath("docs.html").read_text(encoding="utf-8")


async def page(_: Request) -> Response:
    return HTMLResponse(_html(), headers={"Content-Security-Policy": POLICY})
