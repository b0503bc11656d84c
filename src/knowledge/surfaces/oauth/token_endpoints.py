"""The endpoints that clients call: tokens, revocation (RFC 7009) and dynamic registration (RFC 7591)."""

from __future__ import annotations

import time

from mcp.shared.auth import OAuthToken
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from knowledge.engine.api import Engine
from knowledge.engine.oauth.client_documents import clean_name
from knowledge.engine.oauth.redirect_uris import MAX_REDIRECT_URIS, find_redirect_problem
from knowledge.errors import Invalid, KnowledgeError, RateLimited, TooLarge, UnsupportedFormat
from knowledge.model.oauth import ACCESS_SECONDS, CodeExchange, IssuedTokens, RefreshExchange, expand_scopes
from knowledge.surfaces.http.rate_limits import RateLimits, address_key_of
from knowledge.surfaces.http.responses import error_headers
from knowledge.surfaces.oauth.forms import read_body, read_form
from knowledge.surfaces.oauth.resources import ProtectedResources
from knowledge.toolsets.base import RateClass

UNCACHED = {"Cache-Control": "no-store", "Pragma": "no-cache"}
GRANT_TYPES = ["authorization_code", "refresh_token"]


class RegistrationBody(BaseModel):
    """The properties that are read; others are ignored, as RFC 7591 §2 asks for."""

    redirect_uris: list[str] = Field(min_length=1, max_length=MAX_REDIRECT_URIS)
    client_name: str = ""
    grant_types: list[str] = GRANT_TYPES
    response_types: list[str] = ["code"]
    application_type: str = "native"


class TokenEndpoints:
    def __init__(self, engine: Engine, resources: ProtectedResources, rates: RateLimits | None) -> None:
        self._oauth, self._resources, self._rates = engine.oauth, resources, rates

    # -- tokens ---------------------------------------------------------------------------------

    async def issue(self, request: Request) -> Response:
        """Answer POST /token: an authorization code or a refresh token becomes an access token."""
        try:
            form = await read_form(request)
            if "client_id" not in form:
                return oauth_error("invalid_client", "client_id is missing", 401)
            return await self._issue(form)
        except (Invalid, TooLarge, UnsupportedFormat) as error:
            return oauth_error("invalid_request", str(error), error.status if error.status == 413 else 400)

    async def _issue(self, form: dict[str, str]) -> Response:
        resource = self._resources.parse(form["resource"]) if "resource" in form else None
        if "resource" in form and resource is None:
            return oauth_error("invalid_target", "The resource is not one of this server")
        match form.get("grant_type"):
            case "authorization_code":
                return await self._exchange_code(form, resource)
            case "refresh_token":
                return await self._refresh(form, resource)
            case None:
                return oauth_error("invalid_request", "grant_type is missing")
            case _:
                return oauth_error("unsupported_grant_type", f"The grant types are {' and '.join(GRANT_TYPES)}")

    async def _exchange_code(self, form: dict[str, str], resource: str | None) -> Response:
        missing = [name for name in ("code", "redirect_uri", "code_verifier") if name not in form]
        if missing:
            return oauth_error("invalid_request", f"{missing[0]} is missing")
        given = CodeExchange(form["code"], form["client_id"], form["redirect_uri"], form["code_verifier"], resource)
        issued = await self._oauth.exchange_code(given)
        if issued is None:
            return await self._refuse_grant(
                form["client_id"],
                "The code has expired, was used, or belongs to another client, redirect_uri, resource or code_verifier",
            )
        return token_response(issued)

    async def _refresh(self, form: dict[str, str], resource: str | None) -> Response:
        if "refresh_token" not in form:
            return oauth_error("invalid_request", "refresh_token is missing")
        scopes = expand_scopes(form["scope"].split()) if "scope" in form else None
        if scopes == ():
            return oauth_error("invalid_scope", "None of the scopes is known")
        issued = await self._oauth.refresh(RefreshExchange(form["refresh_token"], form["client_id"], scopes, resource))
        if issued is None:
            return await self._refuse_grant(
                form["client_id"], "The refresh token has expired, was used, revoked, or belongs to another request"
            )
        return token_response(issued)

    async def _refuse_grant(self, client_id: str, message: str) -> Response:
        """Refuse a code or a refresh token; a client that is not known any more learns that it must register again."""
        is_document = client_id.startswith("https://")
        if not is_document and await self._oauth.find_client(client_id) is None:
            return oauth_error("invalid_client", "The client is not registered here", 401)
        return oauth_error("invalid_grant", message)

    async def revoke(self, request: Request) -> Response:
        """Answer POST /revoke: ends the grant of a token; also an unknown token is answered with 200."""
        try:
            form = await read_form(request)
        except KnowledgeError as error:
            return oauth_error("invalid_request", str(error))
        if "client_id" not in form:
            return oauth_error("invalid_client", "client_id is missing", 401)
        if "token" not in form:
            return oauth_error("invalid_request", "token is missing")
        await self._oauth.revoke_token(form["token"], form["client_id"])
        return Response(status_code=200, headers=UNCACHED)

    # -- registration ---------------------------------------------------------------------------

    async def register(self, request: Request) -> Response:
        """Answer POST /register: every client is public, so none gets a secret and each must use PKCE."""
        try:
            if self._rates is not None:
                await self._rates.acquire(self._rates.rest, address_key_of(request.scope), RateClass.AUTHENTICATION)
            body = RegistrationBody.model_validate_json(await read_body(request))
        except RateLimited as error:
            return oauth_error("temporarily_unavailable", str(error), 429, error_headers(error))
        except TooLarge as error:
            return oauth_error("invalid_client_metadata", str(error), 413)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "body"
            return oauth_error("invalid_client_metadata", f"{place}: {first['msg']}")
        for uri in body.redirect_uris:
            problem = find_redirect_problem(uri)
            if problem is not None:
                return oauth_error("invalid_redirect_uri", f"'{uri[:100]}' {problem}")
        if "authorization_code" not in body.grant_types or "code" not in body.response_types:
            return oauth_error("invalid_client_metadata", "Only the authorization code grant is supported")
        client = await self._oauth.register_client(clean_name(body.client_name), tuple(body.redirect_uris))
        registered = {
            "client_id": client.client_id,
            "client_id_issued_at": int(time.time()),
            "client_name": client.name,
            "redirect_uris": [*client.redirect_uris],
            "grant_types": GRANT_TYPES,
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": body.application_type[:20],
        }
        return JSONResponse(registered, 201, UNCACHED)


def token_response(issued: IssuedTokens) -> Response:
    body = OAuthToken(
        access_token=issued.access_token,
        expires_in=ACCESS_SECONDS,
        scope=" ".join(issued.scopes),
        refresh_token=issued.refresh_token,
    )
    return JSONResponse(body.model_dump(mode="json"), headers=UNCACHED)


def oauth_error(code: str, description: str, status: int = 400, headers: dict[str, str] | None = None) -> Response:
    """Build an error in the format of OAuth (RFC 6749 §5.2)."""
    body = {"error": code, "error_description": description}
    return JSONResponse(body, status, {**UNCACHED, **(headers or {})})
