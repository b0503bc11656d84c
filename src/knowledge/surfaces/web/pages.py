"""The addresses of the page: each answers index.html, and the router in the browser draws the rest."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from knowledge.surfaces.web.assets import STATIC_PATH, Asset, Assets

PAGE_PATHS = (
    "/",
    "/d/{uid:uuid}",
    "/d/{uid:uuid}/edit",
    "/library",
    "/map",
    "/add",
    "/activity",
    "/activity/crawls/{uid:uuid}",
    "/agents",
    "/insight",
    "/people",
    "/settings",
    "/login",
)
"""`static/router.js` has the same list; tests/web/test_addresses.py compares them."""
FIRST_MODULE = "app.js"
REVALIDATE = "no-cache"


def make_page_routes(assets: Assets | None = None) -> list[BaseRoute]:
    """Build the routes of the page and of its static files."""
    assets = assets or Assets.read_package()
    index = make_index(assets)

    async def show_page(request: Request) -> Response:
        return index.respond(request.headers, REVALIDATE)

    async def show_icon(_: Request) -> Response:
        return RedirectResponse(assets.path_of("icon.svg"), 302, headers={"Cache-Control": REVALIDATE})

    return [
        *(Route(path, show_page, methods=["GET"]) for path in PAGE_PATHS),
        Route("/favicon.ico", show_icon, methods=["GET"]),
        Route(f"{STATIC_PATH}/{{version}}/{{name:path}}", assets.serve, methods=["GET"]),
    ]


def make_index(assets: Assets) -> Asset:
    """Fill the addresses of the static files into index.html, with a preload for each module of the first page."""
    preloads = "\n".join(
        f'  <link rel="modulepreload" href="{assets.path_of(name)}">' for name in assets.list_modules(FIRST_MODULE)
    )
    html = assets.by_name["index.html"].plain.decode()
    html = html.replace("  <!-- modules -->", preloads).replace("{static}", f"{STATIC_PATH}/{assets.version}")
    return Asset.from_bytes("index.html", html.encode())
