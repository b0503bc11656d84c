"""Accounts for those who have them: register, log in, keys, password, and leaving."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.requests import Request

from knowledge.model import Account, RemovalResult
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine
from knowledge.surfaces.rest.framework.middleware import charge_username
from knowledge.surfaces.rest.framework.openapi import KeyId, ResponseModel, errors
from knowledge.wire import ApiKeysShape, DoneShape, IssuedKeyShape
from knowledge.wire.accounts import CredentialsBody, DeleteAccountBody, NewKeyBody, PasswordBody

router = APIRouter(tags=["accounts"], prefix="/user")


@router.post("/register", status_code=201, responses=errors(409, 415))
async def register(body: CredentialsBody, engine: CallerEngine) -> ResponseModel[Account]:
    """Make an account; not with the name of an admin. Needs no key."""
    return await engine.accounts.register(body.username, body.password)


@router.post("/login", responses=errors(415))
async def login(
    request: Request, body: CredentialsBody, context: AppContext, engine: CallerEngine
) -> ResponseModel[IssuedKeyShape]:
    """Get a new key for a name and its password, which expires. Needs no key."""
    await charge_username(context.rates, request.scope, body.username)
    return IssuedKeyShape.from_issued(await engine.accounts.login(body.username, body.password))


@router.get("", responses=errors(404))
async def account(engine: CallerEngine) -> ResponseModel[Account]:
    """Show whose key this is."""
    return await engine.accounts.me()


@router.delete("", responses=errors(404, 415))
async def leave(body: DeleteAccountBody, engine: CallerEngine) -> ResponseModel[RemovalResult]:
    """Delete the account with everything that it owns; the password says that this is meant."""
    return await engine.accounts.delete_me(body.password)


@router.put("/password", responses=errors(404, 415))
async def password(body: PasswordBody, engine: CallerEngine) -> ResponseModel[DoneShape]:
    """Change the password; the keys of all logins are revoked, and those made under /user/api-keys stay."""
    await engine.accounts.change_password(body.old_password, body.new_password)
    return {"status": "done"}


@router.get("/api-keys", responses=errors(404))
async def api_keys(engine: CallerEngine) -> ResponseModel[ApiKeysShape]:
    """List the account's keys, without their secrets."""
    return ApiKeysShape(tuple(await engine.accounts.list_keys()))


@router.post("/api-keys", status_code=201, responses=errors(404, 415))
async def create_key(
    engine: CallerEngine, body: Annotated[NewKeyBody, Body(default_factory=NewKeyBody)]
) -> ResponseModel[IssuedKeyShape]:
    """Make another key; it is shown this once."""
    return IssuedKeyShape.from_issued(await engine.accounts.create_key(body.name, body.parse_expiry()))


@router.delete("/api-keys/{id}", responses=errors(404))
async def revoke_key(id: KeyId, engine: CallerEngine) -> ResponseModel[DoneShape]:
    """Revoke a key, from this moment on."""
    await engine.accounts.revoke_key(id)
    return {"status": "done"}
