"""JSON of browser sessions; the token of a session is sent in a cookie, and between processes of the operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import Field

from knowledge.errors import Invalid
from knowledge.model import Caller, CallerKind, Json
from knowledge.model.sessions import ActiveSession, BrowserSession, IssuedSession
from knowledge.wire.requests import Body

SESSION_HEADER = "X-Knowledge-Session"
"""Names the browser session, or the access token, that a process of the operator makes a call for."""

CallerName: TypeAlias = Literal["local", "operator", "account"]
CALLER_NAMES: dict[CallerKind, CallerName] = {
    CallerKind.LOCAL: "local",
    CallerKind.KEY: "operator",
    CallerKind.ACCOUNT: "account",
}
MAX_LOGIN_CHARS = 2000
STAY_DESCRIPTION = "Whether the session lasts 30 days after its last use, instead of 12 hours."


class LoginBody(Body):
    username: str | None = Field(None, max_length=MAX_LOGIN_CHARS, description="With `password`.")
    password: str | None = Field(None, max_length=MAX_LOGIN_CHARS, description="The password of the account.")
    api_key: str | None = Field(
        None, max_length=MAX_LOGIN_CHARS, description="Instead: an API key of an account, or the operator's key."
    )
    stay: bool = Field(False, description=STAY_DESCRIPTION)

    def check_login(self) -> None:
        """Refuse a body that has not exactly one way to log in."""
        by_password = self.username is not None and self.password is not None and self.api_key is None
        by_key = self.api_key is not None and self.username is None and self.password is None
        if not (by_password or by_key):
            raise Invalid("Send either 'username' and 'password', or 'api_key'")


class NewSessionBody(LoginBody):
    is_operator: bool = Field(False, description="Whether `api_key` is the operator's key, which was verified before.")
    user_agent: str = Field("", max_length=MAX_LOGIN_CHARS, description="The User-Agent header of the browser.")


class SessionTokenBody(Body):
    token: str = Field(max_length=200)


class SessionCheckBody(SessionTokenBody):
    is_use: bool = Field(True, description="Whether the session ends later because of this; false for streams.")


def dump_new_session(stay: bool, user_agent: str, **login: str | bool) -> Json:
    return {**login, "stay": stay, "user_agent": user_agent[:MAX_LOGIN_CHARS]}


@dataclass(frozen=True)
class SessionLimitsShape:
    """Rate limits of the caller; null is no limit."""

    typing_per_minute: int | None
    uploads_per_minute: int | None


@dataclass(frozen=True)
class FormatShape:
    """A format that can be added."""

    doc_type: str
    suffixes: tuple[str, ...]


@dataclass(frozen=True)
class SessionShape:
    """Who is calling, and what a page needs to know before its first call."""

    caller: CallerName | None
    """Null if nobody is logged in and a login is needed."""
    username: str | None
    is_admin: bool
    login_required: bool
    registration_open: bool
    expires_at: datetime | None
    limits: SessionLimitsShape
    max_file_bytes: int
    formats: tuple[FormatShape, ...]
    version: str


@dataclass(frozen=True)
class RegistrationShape:
    """Part of SessionShape, for the remote engine."""

    registration_open: bool


@dataclass(frozen=True)
class ListedSessionShape:
    id: int
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
    stay: bool
    user_agent: str
    current: bool
    """Whether the request was made in this session."""

    @classmethod
    def from_session(cls, session: BrowserSession, current: int | None) -> ListedSessionShape:
        return cls(
            session.id,
            session.created_at,
            session.last_used_at,
            session.expires_at,
            session.stay,
            session.user_agent,
            session.id == current,
        )

    def to_session(self) -> BrowserSession:
        return BrowserSession(self.id, self.created_at, self.last_used_at, self.expires_at, self.stay, self.user_agent)


@dataclass(frozen=True)
class SessionsShape:
    """Browser sessions, newest first."""

    sessions: tuple[ListedSessionShape, ...]

    @classmethod
    def from_sessions(cls, sessions: list[BrowserSession], current: int | None = None) -> SessionsShape:
        return cls(tuple(ListedSessionShape.from_session(session, current) for session in sessions))

    def to_sessions(self) -> list[BrowserSession]:
        return [session.to_session() for session in self.sessions]


@dataclass(frozen=True)
class RevokedSessionsShape:
    revoked: int


@dataclass(frozen=True)
class SessionOwnerShape:
    """A session and the account that it acts for; owner 0 is the operator."""

    session: BrowserSession
    owner: int
    username: str
    is_admin: bool
    operator_proof: str | None

    @classmethod
    def from_active(cls, active: ActiveSession) -> SessionOwnerShape:
        caller, proof = active.caller, active.operator_proof
        return cls(active.session, caller.owner, caller.name, caller.is_admin, None if proof is None else proof.hex())

    def to_active(self, token: str) -> ActiveSession:
        proof = None if self.operator_proof is None else bytes.fromhex(self.operator_proof)
        kind = CallerKind.KEY if self.owner == 0 else CallerKind.ACCOUNT
        caller = Caller(kind, self.owner, self.username, is_admin=self.is_admin, session=token)
        return ActiveSession(self.session, caller, proof)


@dataclass(frozen=True)
class IssuedSessionShape:
    """A new session; `token` is the secret and is not shown again."""

    token: str
    active: SessionOwnerShape

    @classmethod
    def from_issued(cls, issued: IssuedSession) -> IssuedSessionShape:
        return cls(issued.token, SessionOwnerShape.from_active(ActiveSession(issued.session, issued.caller)))

    def to_issued(self) -> IssuedSession:
        active = self.active.to_active(self.token)
        return IssuedSession(active.session, active.caller, self.token)


@dataclass(frozen=True)
class FoundSessionShape:
    """The session of a token; null if it has expired, was revoked or never existed."""

    active: SessionOwnerShape | None
