"""Who people are: names and keys judged, and what each of them sees at this moment. Blocking, for worker threads."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256

from knowledge.errors import ExpiredKey, InvalidKey, InvalidParameter
from knowledge.model import Account, Caller, CallerKind, IssuedKey, Scope, now
from knowledge.model.accounts import ACCOUNT_KEY
from knowledge.store.accounts.accounts import AccountStore, StoredAccount, folded
from knowledge.store.accounts.api_keys import Bearer, KeyStore, NewKey
from knowledge.store.accounts.permissions import AccessStore
from knowledge.store.database import Database

USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,63}")
LONGEST_KEY, LONGEST_KEY_NAME = 200, 100
MAX_LOGIN_KEYS = 20
"""As many an account keeps; the oldest goes with the next login."""
SELDOM = timedelta(minutes=1)
"""How often it is written down at most that a key was used."""


class Accounts:
    def __init__(self, database: Database, admins: Iterable[str]) -> None:
        self.store, self.keys, self._access = AccountStore(database), KeyStore(database), AccessStore(database)
        self._admins = frozenset(folded(name) for name in admins)

    def shown(self, stored: StoredAccount) -> Account:
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
        """Whether ADMIN_USERS names it: then only the operator makes an account of that name."""
        return folded(username) in self._admins

    # -- keys -----------------------------------------------------------------------------------

    def issue(self, account: StoredAccount, name: str, expires_at: datetime | None = None) -> IssuedKey:
        check_key(name, expires_at)
        new, secret = _new_key(account, name.strip(), expires_at)
        return IssuedKey(self.keys.create(new), account.username, secret)

    def issue_at_login(self, account: StoredAccount, days: int) -> IssuedKey:
        """A key for whoever has just shown the password of this account; it expires."""
        new, secret = _new_key(account, "login", now() + timedelta(days=days))
        return IssuedKey(self.keys.create_at_login(account, new, MAX_LOGIN_KEYS), account.username, secret)

    def bearer(self, key: str) -> Caller | None:
        """Who bears a key. Whether nobody has it or only its secret is wrong, the same is done."""
        if len(key) > LONGEST_KEY or not key.startswith(ACCOUNT_KEY):
            return None
        found = self.keys.bearer(_prefix(key))
        right = hmac.compare_digest(digest(key), found.digest if found else bytes(32))
        if found is None or not right or found.account.is_disabled:
            return None
        if found.expires_at is not None and found.expires_at <= now():
            raise ExpiredKey("The key has expired", expired_at=found.expires_at.isoformat())
        self._note_use(found)
        return Caller(CallerKind.ACCOUNT, found.account.id, found.account.username, key, self.is_admin(found.account))

    def _note_use(self, found: Bearer) -> None:
        if found.last_used_at is None or now() - found.last_used_at > SELDOM:
            self.keys.used(found.key_id)

    # -- access ---------------------------------------------------------------------------------

    def admit(self, caller: Caller) -> tuple[Caller, Scope]:
        """Who asks, judged anew, and what they see now: so that whatever is revoked is revoked at once."""
        judged = self._judged(caller) if caller.kind is CallerKind.ACCOUNT else caller
        return judged, self._access.scope(judged.owner)

    def admit_at_once(self, caller: Caller) -> tuple[Caller, Scope] | None:
        """The same for whoever needs no judging, where nobody has to ask the database: so without blocking."""
        scope = None if caller.kind is CallerKind.ACCOUNT else self._access.known_scope(caller.owner)
        return None if scope is None else (caller, scope)

    def _judged(self, caller: Caller) -> Caller:
        if caller.key is not None:
            found = self.bearer(caller.key)
            if found is None:
                raise InvalidKey("The key is not valid")
            return found
        stored = self.store.get(caller.owner)
        if stored is None or stored.is_disabled:
            raise InvalidKey("The account is disabled or gone")
        return Caller(CallerKind.ACCOUNT, stored.id, stored.username, None, self.is_admin(stored))


def check_username(username: str) -> str:
    if not USERNAME.fullmatch(username):
        raise InvalidParameter(
            f"'{username[:64]}' cannot be a username",
            hint="Use 3 to 64 letters, digits, dots, dashes or underscores, a letter or digit first.",
            parameter="username",
        )
    return username


def check_key(name: str, expires_at: datetime | None) -> None:
    if not name.strip() or len(name) > LONGEST_KEY_NAME or not name.isprintable():
        raise InvalidParameter(f"A key's name has 1 to {LONGEST_KEY_NAME} printable characters", parameter="name")
    if expires_at is not None and expires_at <= now():
        raise InvalidParameter("A key cannot expire before it is made", parameter="expires_at")


def _new_key(account: StoredAccount, name: str, expires_at: datetime | None) -> tuple[NewKey, str]:
    """A key to be kept, and its secret."""
    prefix = ACCOUNT_KEY + secrets.token_hex(6)
    secret = f"{prefix}_{secrets.token_urlsafe(32)}"
    return NewKey(account.id, name, prefix, digest(secret), expires_at), secret


def digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def _prefix(key: str) -> str:
    """The part before the secret, which may hold the sign between them too."""
    return "_".join(key.split("_", 2)[:2])
