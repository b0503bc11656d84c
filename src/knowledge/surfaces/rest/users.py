"""Routes for the caller's own account: registration, login, API keys, password, deletion."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Body
from starlette.requests import Request

from knowledge.model import Account, RemovalResult
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine
from knowledge.surfaces.rest.framework.middleware import charge_username
from knowledge.surfaces.rest.framework.openapi import KeyId, ResponseModel, errors
from knowledge.wire import ApiKeysShape, DoneShape, IssuedKeyShape
from knowledge.wire.accounts import (
    CredentialsBody,
    DeleteAccountBody,
    NewKeyBody,
    PasswordBody,
    RateLimitShape,
    UsageShape,
)

router = APIRouter(tags=["accounts"], prefix="/user")


@router.post("/register", status_code=201, responses=errors(409, 415))
async def register(body: CredentialsBody, engine: CallerEngine) -> ResponseModel[Account]:
    """Register an account; the names of admins are reserved. Needs no key."""
    return await engine.accounts.register(body.username, body.password)


@router.post("/login", responses=errors(415))
async def login(
    request: Request, body: CredentialsBody, context: AppContext, engine: CallerEngine
) -> ResponseModel[IssuedKeyShape]:
    """Log in with username and password; the response has a new API key, which expires. Needs no key."""
    await charge_username(context.rates, request.scope, body.username)
    return IssuedKeyShape.from_issued(await engine.accounts.login(body.username, body.password))


@router.get("", responses=errors(404))
async def account(engine: CallerEngine) -> ResponseModel[Account]:
    """Get the account of the caller's key."""
    return await engine.accounts.me()


@router.delete("", responses=errors(404, 415))
async def leave(body: DeleteAccountBody, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Delete the account with its documents, collections and keys; needs the password."""
    return await engine.accounts.delete_me(body.password)


@router.put("/password", responses=errors(404, 415))
async def password(body: PasswordBody, engine: CallerEngine) -> ResponseModel[DoneShape]:
    """Change the password; revokes the keys of logins and keeps those created under /user/api-keys."""
    await engine.accounts.change_password(body.old_password, body.new_password)
    return {"status": "done"}


@router.get("/api-keys", responses=errors(404))
async def api_keys(engine: CallerEngine) -> ResponseModel[ApiKeysShape]:
    """List the account's API keys, without their secrets."""
    return ApiKeysShape(tuple(await engine.accounts.list_keys()))


@router.post("/api-keys", status_code=201, responses=errors(404, 415))
async def create_key(
    engine: CallerEngine, body: Annotated[NewKeyBody, Body(default_factory=NewKeyBody)]
) -> ResponseModel[IssuedKeyShape]:
    """Create an API key; the key is shown only once."""
    return IssuedKeyShape.from_issued(await engine.accounts.create_key(body.name, body.parse_expiry()))


@router.post("/api-keys/{id}/rotate", responses=errors(404))
async def rotate_key(id: KeyId, engine: CallerEngine) -> ResponseModel[IssuedKeyShape]:
    """Give an API key a new secret, which is shown only once; the old one is refused at once."""
    return IssuedKeyShape.from_issued(await engine.accounts.rotate_key(id))


@router.get("/usage", responses=errors(404))
async def usage(request: Request, context: AppContext, engine: CallerEngine) -> ResponseModel[UsageShape]:
    """Get what the account stores, its quota, and how much of its rate limits is used."""
    found = await engine.accounts.usage()
    limits = () if context.rates is None else await context.rates.list_usage(caller_of(request.scope))
    shown = tuple(
        RateLimitShape(each.name, each.limit, each.seconds, each.used, datetime.fromtimestamp(each.reset, UTC))
        for each in limits
    )
    return UsageShape(found.documents, found.bytes, found.max_documents, found.max_bytes, shown)


@router.delete("/api-keys/{id}", responses=errors(404))
async def revoke_key(id: KeyId, engine: CallerEngine) -> ResponseModel[DoneShape]:
    """Revoke an API key; takes effect at once."""
    await engine.accounts.revoke_key(id)
    return {"status": "done"}
