"""The authorization endpoint: login, consent, and the code for the client."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from knowledge.engine.api import Engine
from knowledge.engine.oauth.client_documents import is_document_url
from knowledge.errors import Forbidden, KnowledgeError, RateLimited, SessionEnded, WrongPassword
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX
from knowledge.model.oauth import LOGIN_SECONDS, NewOAuthGrant, OAuthLogin, expand_scopes
from knowledge.surfaces.http.rate_limits import RateLimits, address_key_of, address_of
from knowledge.surfaces.oauth.authorization_request import (
    AuthorizationRequest,
    RequestRefused,
    make_answer_url,
    parse_request,
)
from knowledge.surfaces.oauth.consent_pages import answer_page, consent_page, error_page, login_page
from knowledge.surfaces.oauth.forms import parse_fields, read_form
from knowledge.surfaces.oauth.metadata import AUTHORIZE_PATH
from knowledge.surfaces.oauth.resources import ProtectedResources
from knowledge.surfaces.rest.framework.middleware import charge_username
from knowledge.toolsets.base import RateClass

HTTPS_COOKIE, HTTP_COOKIE = "__Host-knowledge-login", "knowledge_login"
"""Not the cookie of the page: it is SameSite=Strict, so browsers do not send it when a client opens /authorize."""


class AuthorizationEndpoint:
    def __init__(self, engine: Engine, resources: ProtectedResources, rates: RateLimits | None) -> None:
        self._engine, self._resources, self._rates = engine, resources, rates
        self._issuer = resources.origin
        self._is_https = urlsplit(resources.origin).scheme == "https"

    @property
    def _cookie(self) -> str:
        return HTTPS_COOKIE if self._is_https else HTTP_COOKIE

    async def show(self, http: Request) -> Response:
        """Answer GET /authorize with the login page, or with the consent page for whom has logged in."""
        try:
            request = await self._parse(http, http.url.query)
            login = await self._find_login(http)
        except RequestRefused as refused:
            return self._refuse(refused)
        except KnowledgeError as error:
            return error_page(str(error), status=error.status)
        if login is None:
            return login_page(request)
        return consent_page(request, login.username, make_csrf_token(login, request))

    async def submit(self, http: Request) -> Response:
        """Answer POST /authorize: a login, the choice on the consent page, or a logout."""
        try:
            check_same_origin(http, self._issuer)
            form = await read_form(http, "scope")
            request = await self._parse(http, form.get("request", ""))
            match form.get("action"):
                case "login":
                    return await self._log_in(http, request, form)
                case "allow":
                    return await self._allow(http, request, form)
                case "deny":
                    return self._answer(request, "Access denied", error="access_denied")
                case _:
                    response = self._back_to(request)
                    response.delete_cookie(self._cookie, self._cookie_path, secure=self._is_https, httponly=True)
                    return response
        except RequestRefused as refused:
            return self._refuse(refused)
        except KnowledgeError as error:
            return error_page(f"{error}. {error.hint}", status=error.status)

    async def _parse(self, http: Request, query: str) -> AuthorizationRequest:
        fields = parse_fields(query)
        if self._rates is not None and is_document_url(fields.get("client_id", "")):  # it may be fetched
            await self._rates.acquire(self._rates.rest, f"document:{address_of(http.scope)}", RateClass.LIST)
        return await parse_request(fields, self._engine, self._resources)

    # -- login ----------------------------------------------------------------------------------

    async def _log_in(self, http: Request, request: AuthorizationRequest, form: dict[str, str]) -> Response:
        username, secret = form.get("username", ""), form.get("password", "")
        try:
            login = await self._verify_login(http, username, secret)
        except (WrongPassword, RateLimited) as error:
            return login_page(request, f"{error}. {error.hint}")
        response = self._back_to(request)
        response.set_cookie(
            self._cookie,
            login.token,
            max_age=LOGIN_SECONDS,
            path=self._cookie_path,
            secure=self._is_https,
            httponly=True,
            samesite="lax",
        )
        return response

    async def _verify_login(self, http: Request, username: str, secret: str) -> OAuthLogin:
        if self._rates is not None:
            await self._rates.acquire(self._rates.rest, address_key_of(http.scope), RateClass.AUTHENTICATION)
        await charge_username(self._rates, http.scope, username)
        if secret.startswith(ACCOUNT_KEY_PREFIX):
            login = await self._engine.oauth.log_in_by_key(secret)
            if login.username.casefold() == username.casefold():
                return login
            raise WrongPassword("The API key belongs to another account", hint="Enter the account's own username.")
        return await self._engine.oauth.log_in(username, secret)

    async def _find_login(self, http: Request) -> OAuthLogin | None:
        token = http.cookies.get(self._cookie)
        return await self._engine.oauth.find_login(token) if token else None

    @property
    def _cookie_path(self) -> str:
        return "/" if self._is_https else AUTHORIZE_PATH  # the prefix __Host- needs the path /

    # -- consent --------------------------------------------------------------------------------

    async def _allow(self, http: Request, request: AuthorizationRequest, form: dict[str, str]) -> Response:
        login = await self._find_login(http)
        if login is None:
            return login_page(request, "The login has ended. Log in again.")
        if not hmac.compare_digest(make_csrf_token(login, request).encode(), form.get("csrf", "").encode()):
            raise Forbidden("The form was not made for this request", hint="Start the connection again in the app.")
        chosen = set(form.get("scope", "").split())
        scopes = expand_scopes(scope for scope in request.scopes if scope in chosen)
        new = NewOAuthGrant(
            client_id=request.client.client_id,
            client_name=request.client.name,
            resource=request.resource,
            scopes=scopes or expand_scopes(["read"]),
            redirect_uri=request.redirect_uri,
            code_challenge=request.code_challenge,
        )
        try:
            code = await self._engine.oauth.approve(login.token, new)
        except SessionEnded as error:
            return login_page(request, f"{error}. {error.hint}")
        return self._answer(request, "Access allowed", code=code)

    def _answer(self, request: AuthorizationRequest, title: str, **answer: str) -> Response:
        url = make_answer_url(request.redirect_uri, self._issuer, request.state, **answer)
        return answer_page(url, request.client.name, title)

    def _back_to(self, request: AuthorizationRequest) -> RedirectResponse:
        return RedirectResponse(f"{AUTHORIZE_PATH}?{request.query}", 303, {"Cache-Control": "no-store"})

    def _refuse(self, refused: RequestRefused) -> Response:
        url = ""
        if refused.redirect_uri:
            url = make_answer_url(refused.redirect_uri, self._issuer, refused.state, error=refused.code)
        return error_page(str(refused), url)


def make_csrf_token(login: OAuthLogin, request: AuthorizationRequest) -> str:
    """Bind the form to the login and to the request, so that it cannot be forged or reused for another client."""
    return hmac.new(login.token.encode(), request.query.encode(), hashlib.sha256).hexdigest()


def check_same_origin(http: Request, origin: str) -> None:
    """Protects the forms against cross-site request forgery (CSRF): only this server's own pages may send them."""
    sites, origins = http.headers.getlist("sec-fetch-site"), http.headers.getlist("origin")
    own = {origin, f"{http.url.scheme}://{http.url.netloc}"}
    if any(site != "same-origin" for site in sites) or not set(origins) <= own or not (sites or origins):
        raise Forbidden(
            "The form was not sent by this server's own page", hint="Start the connection again in the app."
        )
