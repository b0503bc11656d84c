"""Accounts, API keys and browser sessions: issues and authenticates them, and finds each caller's scope; blocking."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

from knowledge.errors import ExpiredKey, InvalidKey, InvalidParameter, SessionEnded
from knowledge.model import Account, Caller, CallerKind, IssuedKey, Scope, now
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX
from knowledge.model.sessions import ActiveSession, IssuedSession, prove_operator_key
from knowledge.store.accounts.accounts import AccountStore, StoredAccount, fold_username
from knowledge.store.accounts.api_keys import KeyStore, KeyWithAccount, NewKey
from knowledge.store.accounts.scopes import ScopeStore
from knowledge.store.accounts.sessions import NewSession, SessionStore
from knowledge.store.database import Database

USERNAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,63}")
MAX_KEY_CHARS, MAX_KEY_NAME_CHARS = 200, 100
MAX_USER_AGENT_CHARS = 300
MAX_TOKEN_CHARS = 100
SESSION_HOURS, STAY_DAYS = 12, 30
"""A browser session ends this long after its last use; with `stay` after days."""
MAX_SESSIONS = 50
"""Per account, and of the operator; the next login ends the oldest."""
MAX_LOGIN_KEYS = 20
"""Per account; the next login revokes the oldest."""
LAST_USED_INTERVAL = timedelta(minutes=1)
"""Minimum interval between updates of `last_used_at`, to avoid a write per request."""


class AccountService:
    def __init__(self, database: Database, scopes: ScopeStore, admins: Iterable[str]) -> None:
        self.store, self.keys, self._scopes = AccountStore(database), KeyStore(database), scopes
        self.sessions = SessionStore(database)
        self._admins = frozenset(fold_username(name) for name in admins)
        self.find_token_caller: Callable[[str], Caller | None] = lambda token: None  # noqa: ARG005
        """Returns the caller of an access token of OAuth; set by OAuthService."""

    def to_account(self, stored: StoredAccount) -> Account:
        return Account(
            id=stored.id,
            uid=stored.uid,
            username=stored.username,
            is_admin=self.is_admin(stored),
            is_disabled=stored.is_disabled,
            created_at=stored.created_at,
        )

    def is_admin(self, stored: StoredAccount) -> bool:
        return self.is_reserved(stored.username)

    def is_reserved(self, username: str) -> bool:
        """Return whether ADMIN_USERS lists the name, which only the operator may create an account for."""
        return fold_username(username) in self._admins

    # -- keys -----------------------------------------------------------------------------------

    def issue_key(self, account: StoredAccount, name: str, expires_at: datetime | None = None) -> IssuedKey:
        check_new_key(name, expires_at)
        new, secret = _make_key(account, name.strip(), expires_at)
        return IssuedKey(self.keys.create(new), account.username, secret)

    def rotate_key(self, account: StoredAccount, key_id: int) -> IssuedKey:
        """Replace the secret of a key; sessions that were opened with it stay, so that nobody is locked out."""
        new, secret = _make_key(account, "", None)
        return IssuedKey(self.keys.rotate(account.id, key_id, new), account.username, secret)

    def issue_login_key(self, account: StoredAccount, days: int) -> IssuedKey:
        """Issue a key that expires, for a caller who has given the password of this account."""
        new, secret = _make_key(account, "login", now() + timedelta(days=days))
        return IssuedKey(self.keys.create_at_login(account, new, MAX_LOGIN_KEYS), account.username, secret)

    def authenticate_key(self, key: str) -> Caller | None:
        found = self.find_key(key)
        if found is None:
            return None
        self._record_use(found)
        return Caller(CallerKind.ACCOUNT, found.account.id, found.account.username, key, self.is_admin(found.account))

    def find_key(self, key: str) -> KeyWithAccount | None:
        """Return a valid API key with its account; `compare_digest` and a dummy digest prevent timing attacks."""
        if len(key) > MAX_KEY_CHARS or not key.startswith(ACCOUNT_KEY_PREFIX):
            return None
        found = self.keys.find_by_prefix(_key_prefix(key))
        matches = hmac.compare_digest(digest_key(key), found.digest if found else bytes(32))
        if found is None or not matches or found.account.is_disabled:
            return None
        if found.expires_at is not None and found.expires_at <= now():
            raise ExpiredKey("The key has expired", expired_at=found.expires_at.isoformat())
        return found

    def _record_use(self, found: KeyWithAccount) -> None:
        if found.last_used_at is None or now() - found.last_used_at > LAST_USED_INTERVAL:
            self.keys.mark_used(found.key_id)

    # -- browser sessions -----------------------------------------------------------------------

    def open_session(
        self, account: StoredAccount | None, *, stay: bool, user_agent: str, key: KeyWithAccount | None = None,
        operator_key: str | None = None,
    ) -> IssuedSession:  # fmt: skip
        """Open a session of an account, or of the operator; whoever calls this has verified the login."""
        token = secrets.token_urlsafe(32)
        new = NewSession(
            digest=digest_key(token),
            expires_at=_compute_session_end(stay),
            stay=stay,
            user_agent=clean_user_agent(user_agent),
            account=account,
            api_key_id=None if key is None else key.key_id,
            operator_proof=None if operator_key is None else prove_operator_key(token, operator_key),
        )
        session = self.sessions.create(new, MAX_SESSIONS)
        return IssuedSession(session, self._make_session_caller(account, token), token)

    def authenticate_session(self, token: str, *, is_use: bool = True) -> ActiveSession | None:
        """Return the session of a token; a use moves its end on if the last one was more than a minute ago."""
        found = self.sessions.find(digest_key(token)) if len(token) <= MAX_TOKEN_CHARS else None
        if found is None or (found.account is not None and found.account.is_disabled):
            return None
        time = now()
        if found.key_expires_at is not None and found.key_expires_at <= time:
            return None
        session = found.session
        if is_use and time - session.last_used_at > LAST_USED_INTERVAL:
            session = replace(session, last_used_at=time, expires_at=_compute_session_end(session.stay))
            self.sessions.extend(session.id, session.last_used_at, session.expires_at)
        return ActiveSession(session, self._make_session_caller(found.account, token), found.operator_proof)

    def _make_session_caller(self, account: StoredAccount | None, token: str) -> Caller:
        if account is None:
            return Caller(CallerKind.KEY, session=token)
        is_admin = self.is_admin(account)
        return Caller(CallerKind.ACCOUNT, account.id, account.username, is_admin=is_admin, session=token)

    # -- access ---------------------------------------------------------------------------------

    def admit_caller(self, caller: Caller, is_use: bool = True) -> tuple[Caller, Scope]:
        """Authenticate the caller again and return its current scope, so that revocations apply at once.

        A stream that only goes on is no use: it must not keep a browser session alive that no person uses.
        """
        current = caller
        if caller.kind is CallerKind.ACCOUNT or caller.session is not None:
            current = self._reauthenticate(caller, is_use)
        return current, self._scopes.get_scope(current.owner)

    def _reauthenticate(self, caller: Caller, is_use: bool) -> Caller:
        if caller.session is not None:
            active = self.authenticate_session(caller.session, is_use=is_use)
            if active is None:
                raise session_ended_error()
            return active.caller
        if caller.token is not None:
            holder = self.find_token_caller(caller.token)
            if holder is None:
                raise InvalidKey(
                    "The access token is not valid", hint="Refresh the token, or authorize the client again."
                )
            return holder
        if caller.key is not None:
            found = self.authenticate_key(caller.key)
            if found is None:
                raise InvalidKey("The key is not valid")
            return found
        stored = self.store.get(caller.owner)
        if stored is None or stored.is_disabled:
            raise InvalidKey("The account is disabled or deleted")
        return Caller(CallerKind.ACCOUNT, stored.id, stored.username, None, self.is_admin(stored))


def session_ended_error() -> SessionEnded:
    return SessionEnded("The session has ended")


def clean_user_agent(text: str) -> str:
    """Return a User-Agent header as one printable line of limited length."""
    return "".join(letter for letter in text[:MAX_USER_AGENT_CHARS] if letter.isprintable())


def _compute_session_end(stay: bool) -> datetime:
    return now() + (timedelta(days=STAY_DAYS) if stay else timedelta(hours=SESSION_HOURS))


def check_username(username: str) -> str:
    if not USERNAME_PATTERN.fullmatch(username):
        raise InvalidParameter(
            f"'{username[:64]}' is not a valid username",
            hint="Use 3 to 64 letters, digits, dots, dashes or underscores, starting with a letter or digit.",
            parameter="username",
        )
    return username


def check_new_key(name: str, expires_at: datetime | None) -> None:
    if not name.strip() or len(name) > MAX_KEY_NAME_CHARS or not name.isprintable():
        raise InvalidParameter(
            f"The name of a key must have 1 to {MAX_KEY_NAME_CHARS} printable characters", parameter="name"
        )
    if expires_at is not None and expires_at <= now():
        raise InvalidParameter("expires_at must be in the future", parameter="expires_at")


def _make_key(account: StoredAccount, name: str, expires_at: datetime | None) -> tuple[NewKey, str]:
    """Return a new key as it is stored, and its secret."""
    prefix = ACCOUNT_KEY_PREFIX + secrets.token_hex(6)
    secret = f"{prefix}_{secrets.token_urlsafe(32)}"
    return NewKey(account.id, name, prefix, digest_key(secret), expires_at), secret


def digest_key(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def _key_prefix(key: str) -> str:
    return "_".join(key.split("_", 2)[:2])  # the secret after it may contain underscores too
