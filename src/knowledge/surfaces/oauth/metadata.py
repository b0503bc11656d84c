"""Metadata of the authorization server (RFC 8414) and of the protected resources (RFC 9728)."""

from __future__ import annotations

from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from knowledge.errors import NotFound
from knowledge.model.oauth import OAuthScope
from knowledge.surfaces.http.responses import json_error_response
from knowledge.surfaces.oauth.resources import METADATA_PATH, ProtectedResources

SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"
AUTHORIZE_PATH, TOKEN_PATH, REGISTER_PATH, REVOKE_PATH = "/authorize", "/token", "/register", "/revoke"
"""At the root, where clients of the specification of 2025-03-26 look without metadata."""
CACHE_HEADERS = {"Cache-Control": "public, max-age=300"}


def make_server_metadata(issuer: str) -> OAuthMetadata:
    return OAuthMetadata.model_validate(
        {
            "issuer": issuer,
            "authorization_endpoint": issuer + AUTHORIZE_PATH,
            "token_endpoint": issuer + TOKEN_PATH,
            "registration_endpoint": issuer + REGISTER_PATH,
            "revocation_endpoint": issuer + REVOKE_PATH,
            "scopes_supported": [*map(str, OAuthScope)],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }
    )


class ServerMetadata:
    def __init__(self, issuer: str) -> None:
        self._metadata = make_server_metadata(issuer)

    async def handle(self, _: Request) -> Response:
        return _respond(self._metadata)


class ResourceMetadata:
    def __init__(self, resources: ProtectedResources, issuer: str) -> None:
        self._resources, self._issuer = resources, issuer

    async def handle(self, request: Request) -> Response:
        """Describe the resource whose path follows the well-known path."""
        path = request.url.path.removeprefix(METADATA_PATH).rstrip("/")
        if path not in self._resources.paths:
            return json_error_response(NotFound(f"There is no MCP endpoint at '{path[:100]}'"))
        return _respond(
            ProtectedResourceMetadata.model_validate(
                {
                    "resource": self._resources.origin + path,
                    "authorization_servers": [self._issuer],
                    "scopes_supported": self._resources.list_scopes(path),
                    "bearer_methods_supported": ["header"],
                    "resource_name": "Knowledge Server",
                }
            )
        )


def _respond(shape: BaseModel) -> Response:
    return JSONResponse(shape.model_dump(mode="json", exclude_none=True), headers=CACHE_HEADERS)
