"""For the local owner and admins: which corpora everybody may read, and the accounts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from knowledge.model import Page
from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import read_json
from knowledge.surfaces.rest.framework.context import engine_of
from knowledge.surfaces.rest.framework.manager_errors import WordedRoute
from knowledge.surfaces.rest.framework.openapi import Number, answers, takes
from knowledge.wire import dump_removed
from knowledge.wire.accounts import (
    AccountEditBody,
    NewAccountBody,
    NewKeyBody,
    dump_account,
    dump_accounts,
    dump_issued_key,
)
from knowledge.wire.corpora import dump_corpora, dump_corpus, load_corpus_id
from knowledge.wire.shapes import AccountShape, AccountsShape, CorpusesShape, CorpusShape, IssuedKeyShape, RemovedShape

router = APIRouter(route_class=WordedRoute, tags=["admin"], prefix="/admin")

Username = Annotated[str, Path(description="Its username; case does not matter.")]


@router.get("/corpuses/pending", responses=answers(CorpusesShape))
async def pending(request: Request) -> Response:
    """List the public corpora that wait for approval."""
    found = await engine_of(request).pending_corpora()
    return answer(dump_corpora(Page(tuple(found), len(found), 1, max(1, len(found)))))


@router.post("/corpuses/{id}/approve", responses=answers(CorpusShape, 404))
async def approve(request: Request, id: Number) -> Response:
    """Let everybody read a public corpus."""
    return answer(dump_corpus(await engine_of(request).approve_corpus(load_corpus_id(id))))


@router.post("/corpuses/{id}/revoke", responses=answers(CorpusShape, 404))
async def revoke(request: Request, id: Number) -> Response:
    """Take the approval back, from this moment on."""
    return answer(dump_corpus(await engine_of(request).revoke_approval(load_corpus_id(id))))


@router.get("/users", responses=answers(AccountsShape))
async def accounts(request: Request) -> Response:
    """List the accounts."""
    return answer(dump_accounts(await engine_of(request).accounts()))


@router.post(
    "/users",
    status_code=201,
    openapi_extra=takes(NewAccountBody),
    responses=answers(AccountShape, 409, 415, status=201),
)
async def add(request: Request) -> Response:
    """Make an account, also where registration is closed; only the operator makes one with the name of an admin."""
    body = await read_json(request, NewAccountBody)
    return answer(dump_account(await engine_of(request).add_account(body.username, body.password)), 201)


@router.patch("/users/{username}", openapi_extra=takes(AccountEditBody), responses=answers(AccountShape, 404, 415))
async def disable(request: Request, username: Username) -> Response:
    """Let an account in no more, or again; what it owns stays."""
    body = await read_json(request, AccountEditBody)
    return answer(dump_account(await engine_of(request).disable_account(username, body.is_disabled)))


@router.delete("/users/{username}", responses=answers(RemovedShape, 404))
async def remove(request: Request, username: Username) -> Response:
    """Remove an account with everything that it owns."""
    return answer(dump_removed(await engine_of(request).remove_account(username)))


@router.post(
    "/users/{username}/api-keys",
    status_code=201,
    openapi_extra=takes(NewKeyBody),
    responses=answers(IssuedKeyShape, 404, 415, status=201),
)
async def issue_key(request: Request, username: Username) -> Response:
    """Make a key for an account; it is shown this once. For the operator alone."""
    body = await read_json(request, NewKeyBody)
    return answer(dump_issued_key(await engine_of(request).issue_key(username, body.name, body.expires())), 201)
