"""Browser sessions: what a cookie stands for."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime

from knowledge.model.accounts import Caller


@dataclass(frozen=True, slots=True)
class BrowserSession:
    id: int
    created_at: datetime
    last_used_at: datetime
    """Accurate to a minute."""
    expires_at: datetime
    """Moves on while the session is used."""
    stay: bool
    """Whether the session outlives the browser."""
    user_agent: str
    """The User-Agent header of the login, so that people recognize the browser."""


@dataclass(frozen=True, slots=True)
class IssuedSession:
    """A new session with its token, which is not stored."""

    session: BrowserSession
    caller: Caller
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ActiveSession:
    """A session that is neither expired nor revoked, and whom it acts for."""

    session: BrowserSession
    caller: Caller
    operator_proof: bytes | None = field(default=None, repr=False)
    """Of the operator's sessions: see `prove_operator_key`."""


def prove_operator_key(token: str, key: str) -> bytes:
    """Return what ties a session to the operator's key, so that it ends when the key is changed.

    The token is not stored, so whoever reads the database cannot use the proof to guess a short key.
    """
    return hmac.new(token.encode(), key.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
