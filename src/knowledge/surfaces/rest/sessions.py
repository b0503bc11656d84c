"""Routes for browser sessions: login and logout with a cookie, the list of sessions, and revocation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import PlainValidator, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from knowledge.engine.api import Engine, list_formats
from knowledge.errors import NotNow
from knowledge.model import Caller, CallerKind
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX
from knowledge.model.sessions import IssuedSession
from knowledge.surfaces.http.browser_sessions import Visitor, clear_cookie, set_cookie, visitor_of
from knowledge.surfaces.http.rate_limits import address_of, rate_of_search
from knowledge.surfaces.rest.admin import Username
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine, Context, OperatorEngine
from knowledge.surfaces.rest.framework.middleware import charge_username
from knowledge.surfaces.rest.framework.openapi import NUMBER_SCHEMA, ResponseModel, errors
from knowledge.toolsets.base import RateClass
from knowledge.version import __version__
from knowledge.wire.accounts import load_key_id
from knowledge.wire.sessions import (
    CALLER_NAMES,
    FormatShape,
    FoundSessionShape,
    IssuedSessionShape,
    LoginBody,
    NewSessionBody,
    RevokedSessionsShape,
    SessionCheckBody,
    SessionLimitsShape,
    SessionOwnerShape,
    SessionShape,
    SessionsShape,
    SessionTokenBody,
)

router = APIRouter(tags=["sessions"])
admin_router = APIRouter(tags=["admin"], prefix="/admin")

SessionId = Annotated[
    int, PlainValidator(load_key_id), WithJsonSchema(NUMBER_SCHEMA), Path(description="The id of the session.")
]


@router.get("/session")
async def session(
    request: Request, response: Response, context: AppContext, operator: OperatorEngine
) -> ResponseModel[SessionShape]:
    """Say who is calling, and whether a login is needed; needs no key."""
    visitor = visitor_of(request.scope)
    if visitor.session is not None and visitor.session.stay and visitor.caller is not None and visitor.caller.session:
        set_cookie(response, visitor.caller.session, is_https=visitor.is_https, stay=True)
    return await describe_visitor(context, operator, visitor)


@router.post("/session", responses=errors(409, 415))
async def log_in(
    request: Request, response: Response, body: LoginBody, context: AppContext, operator: OperatorEngine
) -> ResponseModel[SessionShape]:
    """Log in a browser with username and password, or with an API key; the answer sets a cookie. Needs no key."""
    body.check_login()
    visitor = visitor_of(request.scope)
    if not visitor.login_required:
        raise NotNow("This server needs no login", hint="Without a key every local caller is its owner.")
    issued = await open_session(request, body, context, operator)
    await _end_session(operator, visitor)
    set_cookie(response, issued.token, is_https=visitor.is_https, stay=body.stay)
    return await describe_visitor(context, operator, Visitor(issued.caller, True, visitor.is_https, issued.session))


@router.delete("/session", status_code=204)
async def log_out(request: Request, operator: OperatorEngine) -> Response:
    """End the session of the cookie; also without one."""
    visitor, response = visitor_of(request.scope), Response(status_code=204)
    await _end_session(operator, visitor)
    clear_cookie(response, is_https=visitor.is_https)
    return response


async def _end_session(operator: Engine, visitor: Visitor) -> None:
    if visitor.caller is not None and visitor.caller.session is not None:
        await operator.sessions.end(visitor.caller.session)


async def open_session(request: Request, body: LoginBody, context: Context, operator: Engine) -> IssuedSession:
    """Verify a login; guesses of the operator's key are counted by address, those of a password by name too."""
    sessions, agent = operator.sessions, request.headers.get("user-agent", "")
    if body.api_key is None:
        username, password = body.username or "", body.password or ""
        await charge_username(context.rates, request.scope, username)
        return await sessions.open_by_password(username, password, body.stay, agent)
    if not body.api_key.startswith(ACCOUNT_KEY_PREFIX):
        wrong_keys = None if context.rates is None else context.rates.wrong_keys
        if wrong_keys is not None:
            wrong_keys.check(address_of(request.scope))
        if context.is_operator_key(body.api_key):
            return await sessions.open_for_operator(body.api_key, body.stay, agent)
        if wrong_keys is not None:
            wrong_keys.add(address_of(request.scope), body.api_key)
    return await sessions.open_by_key(body.api_key, body.stay, agent)


async def describe_visitor(context: Context, operator: Engine, visitor: Visitor) -> SessionShape:
    caller = visitor.caller
    is_account = caller is not None and caller.kind is CallerKind.ACCOUNT
    if is_account and caller is not None and not caller.name:  # a remote engine knows the account of a key
        account = await context.engine_for(caller).accounts.me()
        username, is_admin = account.username, account.is_admin
    else:
        username, is_admin = (caller.name, caller.may_administer) if caller is not None else ("", False)
    return SessionShape(
        caller=None if caller is None else CALLER_NAMES[caller.kind],
        username=username or None,
        is_admin=is_admin,
        login_required=visitor.login_required,
        registration_open=await operator.accounts.is_registration_open(),
        expires_at=None if visitor.session is None else visitor.session.expires_at,
        limits=_describe_limits(context, caller),
        max_file_bytes=context.max_file_bytes,
        formats=tuple(FormatShape(doc_type, suffixes) for doc_type, suffixes in list_formats()),
        version=__version__,
    )


def _describe_limits(context: Context, caller: Caller | None) -> SessionLimitsShape:
    rates = context.rates
    if rates is None or caller is None or caller.kind is not CallerKind.ACCOUNT:
        return SessionLimitsShape(None, None)
    classes = rate_of_search(caller, typing=True), RateClass.UPLOAD
    return SessionLimitsShape(*(rates.count_per_minute(rates.table_of(caller), rate) for rate in classes))


# -- the caller's own sessions ------------------------------------------------------------------


@router.get("/sessions")
async def sessions(request: Request, engine: CallerEngine) -> ResponseModel[SessionsShape]:
    """List the caller's browser sessions; with the operator's key those of the operator."""
    current = visitor_of(request.scope).session
    return SessionsShape.from_sessions(await engine.sessions.list_own(), None if current is None else current.id)


@router.delete("/sessions")
async def revoke_all(engine: CallerEngine) -> ResponseModel[RevokedSessionsShape]:
    """End all of the caller's browser sessions, also this one."""
    return RevokedSessionsShape(await engine.sessions.revoke_all())


@router.delete("/sessions/{id}", status_code=204, responses=errors(404))
async def revoke(id: SessionId, engine: CallerEngine) -> Response:
    """End one of the caller's browser sessions; takes effect at once."""
    await engine.sessions.revoke(id)
    return Response(status_code=204)


# -- administration, and processes of the operator ----------------------------------------------


@admin_router.get("/users/{username}/sessions", responses=errors(404))
async def sessions_of(username: Username, engine: CallerEngine) -> ResponseModel[SessionsShape]:
    """List the browser sessions of an account."""
    return SessionsShape.from_sessions(await engine.sessions.list_of(username))


@admin_router.delete("/users/{username}/sessions", responses=errors(404))
async def revoke_all_of(username: Username, engine: CallerEngine) -> ResponseModel[RevokedSessionsShape]:
    """End all browser sessions of an account."""
    return RevokedSessionsShape(await engine.sessions.revoke_all_of(username))


@admin_router.delete("/users/{username}/sessions/{id}", status_code=204, responses=errors(404))
async def revoke_of(username: Username, id: SessionId, engine: CallerEngine) -> Response:
    """End a browser session of an account; takes effect at once."""
    await engine.sessions.revoke_of(username, id)
    return Response(status_code=204)


@admin_router.post("/sessions", status_code=201, responses=errors(415))
async def open_for_browser(body: NewSessionBody, engine: CallerEngine) -> ResponseModel[IssuedSessionShape]:
    """Open a browser session. For the operator alone: a process that serves REST for this engine calls it."""
    body.check_login()
    if body.api_key is None:
        opened = engine.sessions.open_by_password(body.username or "", body.password or "", body.stay, body.user_agent)
    elif body.is_operator:
        opened = engine.sessions.open_for_operator(body.api_key, body.stay, body.user_agent)
    else:
        opened = engine.sessions.open_by_key(body.api_key, body.stay, body.user_agent)
    return IssuedSessionShape.from_issued(await opened)


@admin_router.post("/sessions/check", responses=errors(415))
async def find_session(body: SessionCheckBody, engine: CallerEngine) -> ResponseModel[FoundSessionShape]:
    """Return the session of a token and whom it acts for. For the operator alone."""
    found = await engine.sessions.find(body.token, body.is_use)
    return FoundSessionShape(None if found is None else SessionOwnerShape.from_active(found))


@admin_router.post("/sessions/end", status_code=204, responses=errors(415))
async def end_session(body: SessionTokenBody, engine: CallerEngine) -> Response:
    """End the session of a token. For the operator alone."""
    await engine.sessions.end(body.token)
    return Response(status_code=204)
