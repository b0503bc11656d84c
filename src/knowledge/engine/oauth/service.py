"""Issues and verifies codes and tokens of OAuth; blocking."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from datetime import datetime, timedelta

from knowledge.engine.accounts import LAST_USED_INTERVAL, AccountService, check_username, digest_key
from knowledge.errors import AccountTaken, InvalidParameter, SessionEnded
from knowledge.model import Caller, CallerKind, now
from knowledge.model.oauth import (
    ACCESS_SECONDS,
    ACCESS_TOKEN_PREFIX,
    CODE_PREFIX,
    CODE_SECONDS,
    LOGIN_PREFIX,
    LOGIN_SECONDS,
    REFRESH_DAYS,
    REFRESH_TOKEN_PREFIX,
    ActiveToken,
    CodeExchange,
    ForeignSubject,
    IssuedTokens,
    NewOAuthGrant,
    OAuthLogin,
    OAuthScope,
    RefreshExchange,
)
from knowledge.store.accounts.accounts import StoredAccount
from knowledge.store.accounts.oauth_clients import OAuthClientStore
from knowledge.store.accounts.oauth_grants import (
    NewStoredGrant,
    NewToken,
    OAuthGrantStore,
    StoredToken,
    TokenKind,
)
from knowledge.store.database import Database

CODE_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")
"""RFC 7636 §4.1."""
USERNAME_CHARS = re.compile(r"[^A-Za-z0-9._-]+")
MAX_SECRET_CHARS = 200


class OAuthService:
    def __init__(self, database: Database, accounts: AccountService) -> None:
        self.clients, self.grants = OAuthClientStore(database), OAuthGrantStore(database)
        self._accounts = accounts
        accounts.find_token_caller = self._find_token_caller

    # -- consent --------------------------------------------------------------------------------

    def open_login(self, account: StoredAccount) -> OAuthLogin:
        """Open a login of the consent page; whoever calls this has verified the password."""
        token, stored = _make_secret(LOGIN_PREFIX, TokenKind.LOGIN, timedelta(seconds=LOGIN_SECONDS))
        self.grants.add_login(account, stored)
        return OAuthLogin(account.username, token)

    def find_login(self, token: str) -> OAuthLogin | None:
        found = self._find(token, LOGIN_PREFIX, TokenKind.LOGIN)
        return None if found is None else OAuthLogin(found.account.username, token)

    def approve(self, login: str, new: NewOAuthGrant) -> str:
        """Store what the person who logged in has allowed, and return the code for the client."""
        found = self._find(login, LOGIN_PREFIX, TokenKind.LOGIN)
        if found is None:
            raise SessionEnded("The login of the consent page has ended", hint="Log in again.")
        details = {"redirect_uri": new.redirect_uri, "code_challenge": new.code_challenge}
        code, stored = _make_secret(CODE_PREFIX, TokenKind.CODE, timedelta(seconds=CODE_SECONDS), new.scopes, details)
        self.grants.create(
            NewStoredGrant(found.account.id, new.client_id, new.client_name, new.resource, new.scopes, _grant_end()),
            stored,
        )
        return code

    # -- tokens ---------------------------------------------------------------------------------

    def exchange_code(self, given: CodeExchange) -> IssuedTokens | None:
        """Return tokens for a code, once; None for a code that is unknown or was not issued for this request."""
        found = self._find(given.code, CODE_PREFIX, TokenKind.CODE)
        if found is None or found.client_id != given.client_id or found.grant_id is None:
            return None
        if found.is_used:  # the code was stolen, or the client sends it twice: end what was issued for it
            self.grants.delete_grant(found.grant_id)
            return None
        is_same_request = given.redirect_uri == found.details["redirect_uri"] and _is_same(given.resource, found)
        if not is_same_request or not _verify_challenge(given.code_verifier, found.details["code_challenge"]):
            return None
        return self._exchange(given.code, found.scopes)

    def refresh(self, given: RefreshExchange) -> IssuedTokens | None:
        """Return new tokens for a refresh token, once; a second use ends the whole family."""
        found = self._find(given.refresh_token, REFRESH_TOKEN_PREFIX, TokenKind.REFRESH)
        if found is None or found.client_id != given.client_id or found.grant_id is None:
            return None
        if found.is_used:
            self.grants.delete_grant(found.grant_id)
            return None
        scopes = found.grant_scopes if given.scopes is None else given.scopes
        if not _is_same(given.resource, found) or not set(scopes) <= set(found.grant_scopes):
            return None
        return self._exchange(given.refresh_token, scopes)

    def _exchange(self, secret: str, scopes: tuple[str, ...]) -> IssuedTokens | None:
        access, new_access = _make_access(timedelta(seconds=ACCESS_SECONDS), scopes)
        refresh, new_refresh = _make_secret(REFRESH_TOKEN_PREFIX, TokenKind.REFRESH, timedelta(days=REFRESH_DAYS))
        if not self.grants.exchange(digest_key(secret), _grant_end(), new_access, new_refresh):
            return None
        return IssuedTokens(access, refresh, scopes)

    def revoke_token(self, token: str, client_id: str) -> None:
        """End the grant of an access or refresh token; other tokens are ignored (RFC 7009 §2.2)."""
        for prefix, kind in ((REFRESH_TOKEN_PREFIX, TokenKind.REFRESH), (ACCESS_TOKEN_PREFIX, TokenKind.ACCESS)):
            found = self._find(token, prefix, kind)
            if found is not None and found.client_id == client_id and found.grant_id is not None:
                self.grants.delete_grant(found.grant_id)

    def authenticate_token(self, token: str) -> ActiveToken | None:
        found = self._find(token, ACCESS_TOKEN_PREFIX, TokenKind.ACCESS)
        if found is None or found.grant_id is None:
            return None
        if found.last_used_at is None or now() - found.last_used_at > LAST_USED_INTERVAL:
            self.grants.mark_used(found.grant_id)
        account = found.account
        is_admin = OAuthScope.ADMIN in found.scopes and self._accounts.is_admin(account)
        scopes = frozenset(found.scopes)
        caller = Caller(CallerKind.ACCOUNT, account.id, account.username, is_admin=is_admin, token=token, scopes=scopes)
        return ActiveToken(caller, found.resource)

    def _find_token_caller(self, token: str) -> Caller | None:
        found = self.authenticate_token(token)
        return None if found is None else found.caller

    def _find(self, secret: str, prefix: str, kind: TokenKind) -> StoredToken | None:
        if len(secret) > MAX_SECRET_CHARS or not secret.startswith(prefix):
            return None
        found = self.grants.find_token(digest_key(secret), kind)
        return None if found is None or found.account.is_disabled else found

    # -- tokens of another issuer ---------------------------------------------------------------

    def admit_subject(self, given: ForeignSubject, create: bool) -> str | None:
        """Return an access token of our own for a verified token of another issuer; None without an account."""
        account = self.grants.find_subject(given.issuer, given.subject)
        if account is None and create:
            account = self._create_account(given)
        if account is None or account.is_disabled:
            return None
        client_id = f"{given.client_id} ({given.issuer})"
        token, stored = _make_access(given.expires_at - now(), given.scopes)
        grant_id = self.grants.find_of_client(account.id, client_id, given.resource)
        if grant_id is None:
            name = given.client_id or given.issuer
            self.grants.create(
                NewStoredGrant(account.id, client_id, name, given.resource, given.scopes, _grant_end()), stored
            )
        else:
            self.grants.add_token(account.id, grant_id, stored)
        return token

    def _create_account(self, given: ForeignSubject) -> StoredAccount:
        """Create an account without a password; an existing one is never taken over by its name."""
        wanted = USERNAME_CHARS.sub("-", given.name).strip("-._")[:50] or "user"
        digest = hashlib.sha256(f"{given.issuer} {given.subject}".encode()).hexdigest()[:8]
        for username in (wanted, f"{wanted}-{digest}"):
            if self._accounts.is_reserved(username):
                continue
            try:
                account = self._accounts.store.create(check_username(username), None)
            except (AccountTaken, InvalidParameter):
                continue
            self.grants.link_subject(given.issuer, given.subject, account.id)
            return account
        raise AccountTaken(f"The username '{wanted}-{digest}' is already taken", username=wanted)


def _make_secret(
    prefix: str,
    kind: TokenKind,
    lifetime: timedelta,
    scopes: tuple[str, ...] = (),
    details: dict[str, str] | None = None,
) -> tuple[str, NewToken]:
    """Return a new secret, and what is stored of it."""
    secret = prefix + secrets.token_urlsafe(32)
    return secret, NewToken(digest_key(secret), kind, now() + lifetime, scopes, details or {})


def _make_access(lifetime: timedelta, scopes: tuple[str, ...]) -> tuple[str, NewToken]:
    return _make_secret(ACCESS_TOKEN_PREFIX, TokenKind.ACCESS, lifetime, scopes)


def _grant_end() -> datetime:
    return now() + timedelta(days=REFRESH_DAYS)


def _is_same(resource: str | None, found: StoredToken) -> bool:
    return resource is None or resource == found.resource


def _verify_challenge(verifier: str, challenge: str) -> bool:
    """Compare the verifier with the challenge of PKCE, method S256 (RFC 7636 §4.6)."""
    if not CODE_VERIFIER.fullmatch(verifier):
        return False
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(digest, challenge.encode("ascii", "replace"))
