"""Routes for the tokens of OAuth: the clients that may act for an account, and calls of the operator's processes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import PlainValidator, WithJsonSchema
from starlette.responses import Response

from knowledge.model.oauth import OAuthLogin
from knowledge.surfaces.rest.admin import Username
from knowledge.surfaces.rest.framework.dependencies import CallerEngine
from knowledge.surfaces.rest.framework.openapi import NUMBER_SCHEMA, ResponseModel, errors
from knowledge.wire.accounts import load_key_id
from knowledge.wire.oauth import (
    ApprovalBody,
    CodeExchangeBody,
    ForeignSubjectBody,
    FoundClientShape,
    FoundLoginShape,
    FoundTokenShape,
    IssuedTokensShape,
    NewOAuthClientBody,
    OAuthClientIdBody,
    OAuthGrantsShape,
    OAuthLoginBody,
    OAuthSecretShape,
    OAuthTokenBody,
    RefreshExchangeBody,
    RevocationBody,
    RevokedGrantsShape,
    SubjectLinkBody,
)

router = APIRouter(tags=["accounts"], prefix="/user")
admin_router = APIRouter(tags=["admin"], prefix="/admin")

TokenId = Annotated[
    int, PlainValidator(load_key_id), WithJsonSchema(NUMBER_SCHEMA), Path(description="The id in the list of tokens.")
]


@router.get("/tokens")
async def tokens(engine: CallerEngine) -> ResponseModel[OAuthGrantsShape]:
    """List the clients of OAuth that may act for the account."""
    return OAuthGrantsShape(tuple(await engine.oauth.list_own()))


@router.delete("/tokens")
async def revoke_all_tokens(engine: CallerEngine) -> ResponseModel[RevokedGrantsShape]:
    """Revoke the tokens of all clients of OAuth; takes effect at once."""
    return RevokedGrantsShape(await engine.oauth.revoke_all())


@router.delete("/tokens/{id}", status_code=204, responses=errors(404))
async def revoke_token(id: TokenId, engine: CallerEngine) -> Response:
    """Revoke the tokens of one client of OAuth; takes effect at once."""
    await engine.oauth.revoke(id)
    return Response(status_code=204)


# -- administration ------------------------------------------------------------------------------


@admin_router.get("/users/{username}/tokens", responses=errors(404))
async def tokens_of(username: Username, engine: CallerEngine) -> ResponseModel[OAuthGrantsShape]:
    """List the clients of OAuth that may act for an account."""
    return OAuthGrantsShape(tuple(await engine.oauth.list_of(username)))


@admin_router.delete("/users/{username}/tokens", responses=errors(404))
async def revoke_all_tokens_of(username: Username, engine: CallerEngine) -> ResponseModel[RevokedGrantsShape]:
    """Revoke the tokens of all clients of OAuth of an account."""
    return RevokedGrantsShape(await engine.oauth.revoke_all_of(username))


@admin_router.delete("/users/{username}/tokens/{id}", status_code=204, responses=errors(404))
async def revoke_token_of(username: Username, id: TokenId, engine: CallerEngine) -> Response:
    """Revoke the tokens of one client of OAuth of an account."""
    await engine.oauth.revoke_of(username, id)
    return Response(status_code=204)


@admin_router.post("/users/{username}/subjects", status_code=204, responses=errors(404, 415))
async def link_subject(username: Username, body: SubjectLinkBody, engine: CallerEngine) -> Response:
    """Let tokens of another issuer's subject act for an account. Operator only."""
    await engine.oauth.link_subject(username, body.issuer, body.subject)
    return Response(status_code=204)


# -- processes of the operator that serve the authorization endpoints ----------------------------


@admin_router.post("/oauth/clients", status_code=201, responses=errors(415))
async def register_client(body: NewOAuthClientBody, engine: CallerEngine) -> ResponseModel[FoundClientShape]:
    """Register a client of OAuth. For the operator alone."""
    return FoundClientShape(await engine.oauth.register_client(body.name, tuple(body.redirect_uris)))


@admin_router.post("/oauth/clients/find", responses=errors(415))
async def find_client(body: OAuthClientIdBody, engine: CallerEngine) -> ResponseModel[FoundClientShape]:
    """Return a client of OAuth. For the operator alone."""
    return FoundClientShape(await engine.oauth.find_client(body.client_id))


@admin_router.post("/oauth/logins", status_code=201, responses=errors(415))
async def log_in(body: OAuthLoginBody, engine: CallerEngine) -> ResponseModel[OAuthLogin]:
    """Open a login of the consent page. For the operator alone."""
    if body.api_key is not None:
        return await engine.oauth.log_in_by_key(body.api_key)
    return await engine.oauth.log_in(body.username, body.password)


@admin_router.post("/oauth/logins/find", responses=errors(415))
async def find_login(body: OAuthTokenBody, engine: CallerEngine) -> ResponseModel[FoundLoginShape]:
    """Return a login of the consent page. For the operator alone."""
    return FoundLoginShape(await engine.oauth.find_login(body.token))


@admin_router.post("/oauth/codes", status_code=201, responses=errors(415))
async def approve(body: ApprovalBody, engine: CallerEngine) -> ResponseModel[OAuthSecretShape]:
    """Store what a person has allowed, and return the code. For the operator alone."""
    return OAuthSecretShape(await engine.oauth.approve(body.login, body.to_grant()))


@admin_router.post("/oauth/codes/exchange", responses=errors(415))
async def exchange_code(body: CodeExchangeBody, engine: CallerEngine) -> ResponseModel[IssuedTokensShape]:
    """Return tokens for a code. For the operator alone."""
    return IssuedTokensShape(await engine.oauth.exchange_code(body.to_exchange()))


@admin_router.post("/oauth/tokens/refresh", responses=errors(415))
async def refresh(body: RefreshExchangeBody, engine: CallerEngine) -> ResponseModel[IssuedTokensShape]:
    """Return new tokens for a refresh token. For the operator alone."""
    return IssuedTokensShape(await engine.oauth.refresh(body.to_exchange()))


@admin_router.post("/oauth/tokens/revoke", status_code=204, responses=errors(415))
async def revoke_for_client(body: RevocationBody, engine: CallerEngine) -> Response:
    """End the grant of a client's token. For the operator alone."""
    await engine.oauth.revoke_token(body.token, body.client_id)
    return Response(status_code=204)


@admin_router.post("/oauth/tokens/find", responses=errors(415))
async def find_token(body: OAuthTokenBody, engine: CallerEngine) -> ResponseModel[FoundTokenShape]:
    """Return whom an access token acts for. For the operator alone."""
    return FoundTokenShape.from_active(await engine.oauth.find_token(body.token))


@admin_router.post("/oauth/subjects", responses=errors(415))
async def admit_subject(body: ForeignSubjectBody, engine: CallerEngine) -> ResponseModel[OAuthSecretShape]:
    """Return an access token for a verified token of another issuer. For the operator alone."""
    return OAuthSecretShape(await engine.oauth.admit_subject(body.to_subject(), body.create))
