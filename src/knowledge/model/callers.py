"""Who is asking, and whose shelves they see."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from knowledge.model.values import LOCAL_OWNER


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose shelves an engine looks at: one owner's, and single collections of others."""

    owner: int = LOCAL_OWNER
    collections: frozenset[int] = frozenset()
    """Readable, though another's."""
    writable: frozenset[int] = frozenset()
    """Those among them whose documents may be added, changed and removed."""

    def may_write(self, owner: int, collection: int) -> bool:
        return owner == self.owner or collection in self.writable


class CallerKind(StrEnum):
    LOCAL = "local"
    """Reached us without a key: over loopback, stdio or the command line."""
    KEY = "key"
    """Bears the operator's own key."""
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking."""

    kind: CallerKind = CallerKind.LOCAL
    owner: int = LOCAL_OWNER
    name: str = ""
    key: str | None = field(default=None, repr=False)
    """An account's own key, to be judged again by every verb, here or by a remote engine; never shown."""
    is_admin: bool = False

    @property
    def may_administer(self) -> bool:
        """The local owner's server is the local owner's; among accounts, the admins look after it."""
        return self.is_admin or self.kind is not CallerKind.ACCOUNT
