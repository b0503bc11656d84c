"""Read and write permissions of accounts on collections."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, literal, select, union_all

from knowledge.errors import InsufficientPermissions
from knowledge.model import Permission, Scope
from knowledge.store import collections, schema
from knowledge.store.database import Database
from knowledge.store.prepared_statements import PreparedStatement

C, R, U = schema.collections.c, schema.grants.c, schema.curations.c

_SELECT_SHARED = union_all(
    select(R.collection_id, R.permission).where(R.account_id == bindparam("owner")),
    select(U.collection_id, literal(Permission.READ.value)).where(U.is_public, U.is_approved),
)
_SELECT_WRITER = PreparedStatement(
    select(C.owner_id, R.permission)
    .join_from(
        schema.collections,
        schema.grants,
        (R.collection_id == C.id) & (R.account_id == bindparam("starter")),
        isouter=True,
    )
    .where(C.id == bindparam("collection"))
)

MAX_CACHED_SCOPES = 1000


class ScopeStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._table_version = database.watch_tables(schema.grants, schema.curations)
        self._cached: tuple[int, dict[int, Scope]] = (0, {})

    def get_scope(self, owner: int) -> Scope:
        """Return the collections an owner may use: own, granted, and public and approved ones."""
        return self.get_cached_scope(owner) or self._load_scope(owner)

    def get_cached_scope(self, owner: int) -> Scope | None:
        """Return the scope without a query if grants and curations are unchanged since it was loaded."""
        version, scopes = self._cached
        return scopes.get(owner) if version == self._table_version.version else None

    def _load_scope(self, owner: int) -> Scope:
        version = self._table_version.version  # before the query, so that a concurrent change invalidates the result
        scope = self._query_scope(owner)
        known, scopes = self._cached
        if known == version and len(scopes) < MAX_CACHED_SCOPES:
            scopes[owner] = scope
        else:
            self._cached = (version, {owner: scope})
        return scope

    def _query_scope(self, owner: int) -> Scope:
        with self._database.read() as connection:
            rows = connection.execute(_SELECT_SHARED, {"owner": owner}).all()
        readable = frozenset(row.collection_id for row in rows)
        writable = frozenset(row.collection_id for row in rows if row.permission == Permission.WRITE)
        return Scope(owner, readable, writable)


def find_owner_for_writer(connection: Connection, collection_id: int, starter: int) -> int:
    """Return the owner of a new document in a collection, or reject a writer whose grant was revoked."""
    row = _SELECT_WRITER.fetch_first(connection, {"collection": collection_id, "starter": starter})
    if row is None:
        raise collections.not_found_error(collection_id)
    if row.owner_id != starter and row.permission != Permission.WRITE:
        raise InsufficientPermissions(
            f"No write permission for collection {collection_id}", collection_id=collection_id
        )
    return int(row.owner_id)
