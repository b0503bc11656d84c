"""Accounts and their keys; the secret of a key travels once, with its making."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from knowledge.errors import InvalidParameter
from knowledge.model import Account, ApiKey, IssuedKey, Json
from knowledge.wire.search import Body
from knowledge.wire.shapes import AccountShape, AccountsShape, ApiKeyShape, ApiKeysShape, IssuedKeyShape
from knowledge.wire.values import (
    dump_moment,
    dump_moment_or_none,
    load_bound,
    load_moment,
    load_moment_or_none,
    load_ref,
)


class CredentialsBody(Body):
    username: str = Field(description="3 to 64 letters, digits, dots, dashes or underscores; case does not matter.")
    password: str = Field(description="8 to 1024 characters.")


class NewAccountBody(Body):
    username: str = Field(description="3 to 64 letters, digits, dots, dashes or underscores; case does not matter.")
    password: str | None = Field(None, description="Without one the account lives by its keys alone.")


class AccountEditBody(Body):
    is_disabled: bool


class NewKeyBody(Body):
    name: str = Field("key", description="What it is for.")
    expires_at: str | None = Field(None, description="A day or a moment (UTC); without one it does not expire.")

    def expires(self) -> datetime | None:
        return None if self.expires_at is None else load_bound(self.expires_at, "expires_at", end=True)


class PasswordBody(Body):
    old_password: str
    new_password: str = Field(description="8 to 1024 characters.")


class LeavingBody(Body):
    password: str


def load_key_id(text: str) -> int:
    ref = load_ref(text)
    if not isinstance(ref, int):
        raise InvalidParameter("'id' is not the number of a key", parameter="id")
    return ref


def dump_account(account: Account) -> AccountShape:
    return {
        "id": account.id,
        "uid": str(account.uid),
        "username": account.username,
        "is_admin": account.is_admin,
        "is_disabled": account.is_disabled,
        "created_at": dump_moment(account.created_at),
    }


def load_account(data: AccountShape) -> Account:
    return Account(
        id=data["id"],
        uid=UUID(data["uid"]),
        username=data["username"],
        is_admin=data["is_admin"],
        is_disabled=data["is_disabled"],
        created_at=load_moment(data["created_at"]),
    )


def dump_accounts(accounts: list[Account]) -> AccountsShape:
    return {"accounts": [dump_account(account) for account in accounts]}


def load_accounts(data: AccountsShape) -> list[Account]:
    return [load_account(account) for account in data["accounts"]]


def dump_api_key(key: ApiKey) -> ApiKeyShape:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "created_at": dump_moment(key.created_at),
        "expires_at": dump_moment_or_none(key.expires_at),
        "last_used_at": dump_moment_or_none(key.last_used_at),
    }


def load_api_key(data: ApiKeyShape) -> ApiKey:
    return ApiKey(
        id=data["id"],
        name=data["name"],
        prefix=data["prefix"],
        created_at=load_moment(data["created_at"]),
        expires_at=load_moment_or_none(data["expires_at"]),
        last_used_at=load_moment_or_none(data["last_used_at"]),
    )


def dump_api_keys(keys: list[ApiKey]) -> ApiKeysShape:
    return {"api_keys": [dump_api_key(key) for key in keys]}


def load_api_keys(data: ApiKeysShape) -> list[ApiKey]:
    return [load_api_key(key) for key in data["api_keys"]]


def dump_issued_key(issued: IssuedKey) -> IssuedKeyShape:
    return {**dump_api_key(issued.key), "username": issued.username, "api_key": issued.secret}


def load_issued_key(data: IssuedKeyShape) -> IssuedKey:
    return IssuedKey(load_api_key(data), data["username"], data["api_key"])


def dump_new_key(name: str, expires_at: datetime | None) -> Json:
    return {"name": name, "expires_at": dump_moment_or_none(expires_at)}
