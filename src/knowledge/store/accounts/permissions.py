"""Who may see what, and write where: the one rule, as queries."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, literal, select, union_all

from knowledge.errors import InsufficientPermissions
from knowledge.model import Permission, Scope
from knowledge.store import collections, schema
from knowledge.store.database import Database
from knowledge.store.statements import Prepared
from knowledge.store.table_version import Watch

C, R, U = schema.collections.c, schema.grants.c, schema.curations.c

_SHARED = union_all(
    select(R.collection_id, R.permission).where(R.account_id == bindparam("owner")),
    select(U.collection_id, literal(Permission.READ.value)).where(U.is_public, U.is_approved),
)
_WRITER = Prepared(
    select(C.owner_id, R.permission)
    .join_from(
        schema.collections,
        schema.grants,
        (R.collection_id == C.id) & (R.account_id == bindparam("starter")),
        isouter=True,
    )
    .where(C.id == bindparam("collection"))
)

MOST_KNOWN = 1000


class AccessStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._watch = Watch(database, schema.grants, schema.curations)
        self._known: tuple[int, dict[int, Scope]] = (0, {})

    def scope(self, owner: int) -> Scope:
        """What an owner sees at this moment: what is theirs, was granted to them, or is public and approved."""
        return self.known_scope(owner) or self._read(owner)

    def known_scope(self, owner: int) -> Scope | None:
        """The same where it was read before and nothing has changed since: so without the database."""
        version, scopes = self._known
        return scopes.get(owner) if version == self._watch.version else None

    def _read(self, owner: int) -> Scope:
        version = self._watch.version  # before reading, so that a change meanwhile makes this old
        scope = self._ask(owner)
        known, scopes = self._known
        if known == version and len(scopes) < MOST_KNOWN:
            scopes[owner] = scope
        else:
            self._known = (version, {owner: scope})
        return scope

    def _ask(self, owner: int) -> Scope:
        with self._database.read() as connection:
            rows = connection.execute(_SHARED, {"owner": owner}).all()
        readable = frozenset(row.collection_id for row in rows)
        writable = frozenset(row.collection_id for row in rows if row.permission == Permission.WRITE)
        return Scope(owner, readable, writable)


def owner_for_writer(connection: Connection, collection_id: int, starter: int) -> int:
    """Who will own what somebody puts into a collection; whoever may not any more is refused, however late."""
    row = _WRITER.first(connection, {"collection": collection_id, "starter": starter})
    if row is None:
        raise collections.missing(collection_id)
    if row.owner_id != starter and row.permission != Permission.WRITE:
        raise InsufficientPermissions("The collection may not be written to any more", collection_id=collection_id)
    return int(row.owner_id)
