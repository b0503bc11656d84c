"""Accounts for those who have them: register, log in, keys, password, and leaving."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.manager_errors import WordedRoute
from knowledge.surfaces.rest.framework.openapi import Number, answers, takes
from knowledge.surfaces.rest.framework.rate_classes import draw_for_name
from knowledge.wire import dump_removed
from knowledge.wire.accounts import (
    CredentialsBody,
    LeavingBody,
    NewKeyBody,
    PasswordBody,
    dump_account,
    dump_api_keys,
    dump_issued_key,
    load_key_id,
)
from knowledge.wire.shapes import AccountShape, ApiKeysShape, DoneShape, IssuedKeyShape, RemovedShape

router = APIRouter(route_class=WordedRoute, tags=["accounts"], prefix="/user")

DONE: DoneShape = {"status": "done"}


@router.post(
    "/register",
    status_code=201,
    openapi_extra=takes(CredentialsBody),
    responses=answers(AccountShape, 409, 415, status=201),
)
async def register(request: Request) -> Response:
    """Make an account; not with the name of an admin. Needs no key."""
    body = await read_json(request, CredentialsBody)
    return answer(dump_account(await engine_of(request).register(body.username, body.password)), 201)


@router.post("/login", openapi_extra=takes(CredentialsBody), responses=answers(IssuedKeyShape, 415))
async def login(request: Request) -> Response:
    """Get a new key for a name and its password, which expires. Needs no key."""
    body = await read_json(request, CredentialsBody)
    await draw_for_name(request, body.username)
    return answer(dump_issued_key(await engine_of(request).login(body.username, body.password)))


@router.get("", responses=answers(AccountShape, 404))
async def account(request: Request) -> Response:
    """Show whose key this is."""
    return answer(dump_account(await engine_of(request).account()))


@router.delete("", openapi_extra=takes(LeavingBody), responses=answers(RemovedShape, 404, 415))
async def leave(request: Request) -> Response:
    """Delete the account with everything that it owns; the password says that this is meant."""
    body = await read_json(request, LeavingBody)
    return answer(dump_removed(await engine_of(request).delete_account(body.password)))


@router.put("/password", openapi_extra=takes(PasswordBody), responses=answers(DoneShape, 404, 415))
async def password(request: Request) -> Response:
    """Change the password; the keys of all logins are revoked, and those made under /user/api-keys stay."""
    body = await read_json(request, PasswordBody)
    await engine_of(request).change_password(body.old_password, body.new_password)
    return answer(DONE)


@router.get("/api-keys", responses=answers(ApiKeysShape, 404))
async def api_keys(request: Request) -> Response:
    """List the account's keys, without their secrets."""
    return answer(dump_api_keys(await engine_of(request).api_keys()))


@router.post(
    "/api-keys",
    status_code=201,
    openapi_extra=takes(NewKeyBody),
    responses=answers(IssuedKeyShape, 404, 415, status=201),
)
async def create_key(request: Request) -> Response:
    """Make another key; it is shown this once."""
    body = await read_json(request, NewKeyBody)
    return answer(dump_issued_key(await engine_of(request).create_api_key(body.name, body.expires())), 201)


@router.delete("/api-keys/{id}", responses=answers(DoneShape, 404))
async def revoke_key(request: Request, id: Number) -> Response:
    """Revoke a key, from this moment on."""
    await engine_of(request).revoke_api_key(load_key_id(id))
    return answer(DONE)
