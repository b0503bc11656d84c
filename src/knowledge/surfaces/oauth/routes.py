"""The routes of the authorization endpoints, which exist only with KNOWLEDGE_OAUTH."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, request_response
from starlette.types import ASGIApp

from knowledge.engine.api import Engine
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.oauth.authorize import AuthorizationEndpoint
from knowledge.surfaces.oauth.consent_pages import STYLE_PATH, style_response
from knowledge.surfaces.oauth.metadata import (
    AUTHORIZE_PATH,
    REGISTER_PATH,
    REVOKE_PATH,
    SERVER_METADATA_PATH,
    TOKEN_PATH,
    ResourceMetadata,
    ServerMetadata,
)
from knowledge.surfaces.oauth.resources import METADATA_PATH, ProtectedResources
from knowledge.surfaces.oauth.token_endpoints import TokenEndpoints


def make_oauth_routes(
    engine: Engine, resources: ProtectedResources, rates: RateLimits | None, issuer: str = ""
) -> list[BaseRoute]:
    """Build the routes; with an issuer elsewhere only the metadata of the resources."""
    described = ResourceMetadata(resources, issuer or resources.origin)
    routes: list[BaseRoute] = [
        _route(METADATA_PATH, described.handle, "GET"),
        _route(METADATA_PATH + "/{path:path}", described.handle, "GET"),
    ]
    if issuer:
        return routes
    server, endpoints = ServerMetadata(resources.origin), TokenEndpoints(engine, resources, rates)
    pages = AuthorizationEndpoint(engine, resources, rates)

    async def show_style(_: Request) -> Response:
        return style_response()

    return [
        *routes,
        _route(SERVER_METADATA_PATH, server.handle, "GET"),
        _route(TOKEN_PATH, endpoints.issue, "POST"),
        _route(REGISTER_PATH, endpoints.register, "POST"),
        _route(REVOKE_PATH, endpoints.revoke, "POST"),
        Route(AUTHORIZE_PATH, pages.show, methods=["GET"]),
        Route(AUTHORIZE_PATH, pages.submit, methods=["POST"]),
        Route(STYLE_PATH, show_style, methods=["GET"]),
    ]


def _route(path: str, handler: Callable[[Request], Awaitable[Response]], method: str) -> Route:
    """Build a route that clients may also call from web pages of any origin, as MCP clients in browsers do."""
    app: ASGIApp = CORSMiddleware(
        request_response(handler), allow_origins=["*"], allow_methods=[method], allow_headers=["*"]
    )
    return Route(path, endpoint=app, methods=[method, "OPTIONS"])
