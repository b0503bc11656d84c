"""The part of the door that is about people: accounts, their keys, and who looks after them."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from knowledge.model import Account, ApiKey, Caller, IssuedKey, Removed


class AccountVerbs(Protocol):
    # -- coming in: no caller is needed ---------------------------------------------------------

    async def register(self, username: str, password: str) -> Account:
        """Make an account for whoever asks; Forbidden where registration is closed, and for a name in ADMIN_USERS."""

    async def login(self, username: str, password: str) -> IssuedKey:
        """A new key that expires, for a name and its password; both wrong ones raise WrongPassword in the same time."""

    async def account_of(self, key: str) -> Caller | None:
        """Who bears a key; None for one that is unknown, revoked or disabled, ExpiredKey for one that has been good."""

    # -- one's own account ----------------------------------------------------------------------

    async def account(self) -> Account:
        """Whoever asks; the local owner has no account."""

    async def api_keys(self) -> list[ApiKey]: ...

    async def create_api_key(self, name: str, expires_at: datetime | None = None) -> IssuedKey: ...

    async def revoke_api_key(self, key_id: int) -> None: ...

    async def change_password(self, old: str, new: str) -> None:
        """Change the password and revoke the keys of all logins; keys made by hand stay."""

    async def delete_account(self, password: str) -> Removed:
        """Delete the caller's account with everything that it owns."""

    # -- looking after the others: the local owner and admins -----------------------------------

    async def accounts(self) -> list[Account]: ...

    async def add_account(self, username: str, password: str | None = None) -> Account:
        """Make an account, also where registration is closed; without a password it lives by its keys alone.

        Only the operator makes one with a name in ADMIN_USERS.
        """

    async def issue_key(self, username: str, name: str, expires_at: datetime | None = None) -> IssuedKey:
        """A key for somebody else, which is for the operator alone."""

    async def disable_account(self, username: str, disabled: bool = True) -> Account:
        """Let an account in no more, or again; what it owns stays."""

    async def remove_account(self, username: str) -> Removed:
        """Remove an account with everything that it owns."""
