"""The collections table: named sets of documents, each with one owner."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, bindparam, delete, exists, func, insert, or_, select, update

from knowledge.errors import CollectionNotFound, InsufficientPermissions, InvalidName, NameTaken
from knowledge.model import (
    DEFAULT_COLLECTION,
    Collection,
    CollectionEdit,
    CollectionRef,
    Curation,
    DocumentStatus,
    NewCollection,
    ResultPage,
    Scope,
)
from knowledge.model.events import ChangeKind
from knowledge.store import events, schema
from knowledge.store.accounts.accounts import require_owner
from knowledge.store.database import Database, get_inserted_id
from knowledge.store.postgres import locks
from knowledge.store.prepared_statements import PreparedStatement
from knowledge.store.row_mapping import make_timestamp, parse_timestamp

A, C, D, U = schema.accounts.c, schema.collections.c, schema.documents.c, schema.curations.c

_COUNTS = (
    select(
        D.collection_id.label("id"),
        func.count().label("documents"),
        func.sum(D.chunk_count).label("chunks"),
    )
    .where(D.status != DocumentStatus.PROCESSING)
    .group_by(D.collection_id)
    .subquery()
)
SELECT_COLLECTIONS = (
    select(
        schema.collections,
        func.coalesce(_COUNTS.c.documents, 0).label("document_count"),
        func.coalesce(_COUNTS.c.chunks, 0).label("chunk_count"),
        U.category,
        U.version,
        U.is_public,
        U.is_approved,
        U.declined,
        A.username.label("owner_name"),
    )
    .join_from(schema.collections, _COUNTS, C.id == _COUNTS.c.id, isouter=True)
    .join(schema.curations, C.id == U.collection_id, isouter=True)
    .join(schema.accounts, C.owner_id == A.id, isouter=True)
)
_SELECT_OWN = PreparedStatement(select(C.id).where(C.owner_id == bindparam("owner"), C.name == bindparam("named")))

MAX_NAME_CHARS = 100


class CollectionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, ref: CollectionRef, scope: Scope) -> Collection:
        with self._database.read() as connection:
            row = connection.execute(
                SELECT_COLLECTIONS.where(_matches_ref(ref, scope)).order_by(*_order_own_first(scope)).limit(1)
            ).first()
        if row is None:
            raise not_found_error(ref)
        return make_collection(row, scope)

    def page(self, scope: Scope, page: int, per_page: int) -> ResultPage[Collection]:
        seen = visible_to(scope)
        with self._database.snapshot() as connection:
            total = connection.execute(select(func.count()).select_from(schema.collections).where(seen)).scalar_one()
            wanted = SELECT_COLLECTIONS.where(seen).order_by(C.name, C.id).limit(per_page).offset((page - 1) * per_page)
            rows = connection.execute(wanted).all()
        return ResultPage(tuple(make_collection(row, scope) for row in rows), total, page, per_page)

    def count(self, scope: Scope) -> int:
        with self._database.read() as connection:
            counted = select(func.count()).select_from(schema.collections).where(visible_to(scope))
            return int(connection.execute(counted).scalar_one())

    def find_ids(self, refs: Sequence[CollectionRef], scope: Scope) -> tuple[int, ...]:
        """Return the ids of collections; raises CollectionNotFound for an unknown one."""
        with self._database.read() as connection:
            return tuple(require_existing(connection, ref, scope) for ref in refs)

    def find_trusted_ids(self, scope: Scope) -> tuple[int, ...]:
        """Return the trusted collections of a scope: the caller's own, and approved corpora of others.

        Others may share a collection with the caller unasked, so their word alone does not make it trusted.
        """
        vouched = or_(C.owner_id == scope.owner, U.is_approved)
        trusted = select(C.id).join_from(schema.collections, schema.curations, C.id == U.collection_id, isouter=True)
        with self._database.read() as connection:
            found = connection.execute(trusted.where(visible_to(scope), C.trusted, vouched).order_by(C.id))
            return tuple(found.scalars())

    def create(self, new: NewCollection, scope: Scope) -> Collection:
        identity = self._database.write(
            lambda connection: create_collection(connection, new, scope.owner), is_idempotent=True
        )
        return self.find(identity, scope)

    def edit(self, ref: CollectionRef, edit: CollectionEdit, scope: Scope) -> Collection:
        def work(connection: Connection) -> int:
            identity = lock_own(connection, ref, scope)
            update_collection(connection, identity, edit)
            return identity

        return self.find(self._database.write(work), scope)


def visible_to(scope: Scope) -> Any:
    """Return the SQL condition for collections visible in a scope."""
    if not scope.collections:
        return C.owner_id == scope.owner
    return or_(C.owner_id == scope.owner, C.id.in_(sorted(scope.collections)))


def require_target(connection: Connection, ref: CollectionRef, scope: Scope) -> int:
    """Return the id of the collection for new documents, creating an own collection by name if needed."""
    # A name never selects a shared collection: its owner could choose a name that others use, and receive
    # their documents. Shared ones are addressed by number or UUID: docs/decisions/0007-who-may-read-and-write.md
    if not isinstance(ref, str):
        return require_writable(connection, ref, scope)
    named = {"owner": scope.owner, "named": ref.strip()}
    own = _SELECT_OWN.fetch_scalar(connection, named)
    if own is None:
        try:
            own = create_collection(connection, NewCollection(title=ref, name=ref), scope.owner)
        except NameTaken:  # another server has created it since we looked
            own = _SELECT_OWN.fetch_scalar(connection, named)
            if own is None:
                raise
    return int(own)


def require_writable(connection: Connection, ref: CollectionRef, scope: Scope) -> int:
    """Return the id of an existing collection with write permission."""
    identity, owner = _find_id_and_owner(connection, ref, scope)
    if not scope.may_write(owner, identity):
        raise read_only_error(ref)
    return identity


def delete_collection(connection: Connection, identity: int) -> None:
    """Delete an empty collection with its curation and grants."""
    record_change(connection, ChangeKind.REMOVED, identity)
    connection.execute(delete(schema.maps).where(schema.maps.c.collection_id == identity))
    connection.execute(delete(schema.curations).where(U.collection_id == identity))
    connection.execute(delete(schema.grants).where(schema.grants.c.collection_id == identity))
    connection.execute(delete(schema.collections).where(C.id == identity))


def not_found_error(ref: CollectionRef) -> CollectionNotFound:
    return CollectionNotFound(f"Collection '{ref}' not found", collection=str(ref))


def read_only_error(ref: CollectionRef) -> InsufficientPermissions:
    return InsufficientPermissions(f"No write permission for collection '{ref}'", collection=str(ref))


def make_slug(title: str) -> str:
    """Derive a name from a title: letters and digits of any script, joined by dashes."""
    folded = unicodedata.normalize("NFKC", title[: 4 * MAX_NAME_CHARS]).casefold()
    return re.sub(r"[^\w.]+", "-", folded).strip("-.")[:MAX_NAME_CHARS].strip("-.") or DEFAULT_COLLECTION


def check_name(name: str) -> str:
    """Validate a name: short, printable, and not a number, UUID or path."""
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable() or set(name) & set("/\\,:"):
        raise InvalidName(
            f"Invalid collection name '{name[:MAX_NAME_CHARS]}'",
            hint=f"Use 1 to {MAX_NAME_CHARS} printable characters without / \\ , and colon.",
            parameter="collection",
        )
    if name.isdecimal() or _is_uuid(name):
        raise InvalidName(
            f"Invalid collection name '{name}': looks like an id", hint="Add a letter.", parameter="collection"
        )
    return name


def _is_uuid(name: str) -> bool:
    try:
        UUID(name)
    except ValueError:
        return False
    return True


def _matches_ref(ref: CollectionRef, scope: Scope) -> Any:
    match ref:
        case int():
            return visible_to(scope) & (C.id == ref)
        case UUID():
            return visible_to(scope) & (C.uid == ref)
        case _:
            return visible_to(scope) & (C.name == ref.strip())


def _order_own_first(scope: Scope) -> tuple[Any, Any]:
    """Return the order that prefers own collections over shared ones of the same name."""
    return (C.owner_id != scope.owner, C.id)


def require_existing(connection: Connection, ref: CollectionRef, scope: Scope) -> int:
    return _find_id_and_owner(connection, ref, scope)[0]


def require_own(connection: Connection, ref: CollectionRef, scope: Scope) -> int:
    """Return the id of an own collection; only owners may edit or delete a collection."""
    identity, owner = _find_id_and_owner(connection, ref, scope)
    if owner != scope.owner:
        raise read_only_error(ref)
    return identity


def lock_own(connection: Connection, ref: CollectionRef, scope: Scope) -> int:
    """Lock an own collection and return its id."""
    identity = require_own(connection, ref, scope)
    return require_own(connection, identity, scope) if locks.lock_collections(connection, identity) else identity


def _find_id_and_owner(connection: Connection, ref: CollectionRef, scope: Scope) -> tuple[int, int]:
    wanted = select(C.id, C.owner_id).where(_matches_ref(ref, scope)).order_by(*_order_own_first(scope)).limit(1)
    row = connection.execute(wanted).first()
    if row is None:
        raise not_found_error(ref)
    return int(row.id), int(row.owner_id)


_NAME_EXISTS: Select[tuple[bool]] = select(
    exists().where(C.owner_id == bindparam("owner"), C.name == bindparam("name"))
)


def _is_taken(connection: Connection, owner: int, name: str) -> bool:
    return bool(connection.execute(_NAME_EXISTS, {"owner": owner, "name": name}).scalar())


def _find_free_name(connection: Connection, owner: int, title: str) -> str:
    base, name, number = make_slug(title), make_slug(title), 1
    if base.isdecimal() or _is_uuid(base):
        base = name = f"collection-{base}"
    while _is_taken(connection, owner, name):
        number += 1
        name = f"{base}-{number}"
    return name


def _find_by_uid(connection: Connection, uid: UUID, owner: int) -> int | None:
    """Return the own collection with this idempotency key; raises NameTaken if it is another owner's."""
    known = connection.execute(select(C.id, C.owner_id).where(C.uid == uid)).first()
    if known is None:
        return None
    if known.owner_id != owner:
        raise NameTaken(f"The uid {uid} is already in use", hint="Omit it, or send a new one.", uid=str(uid))
    return int(known.id)


def create_collection(connection: Connection, new: NewCollection, owner: int) -> int:
    """Insert a collection, or return the existing one with the same uid; derives a missing name from the title."""
    require_owner(connection, owner)
    known = _find_by_uid(connection, new.uid, owner)
    if known is not None:
        return known
    name = check_name(new.name) if new.name is not None else _find_free_name(connection, owner, new.title)
    if new.name is not None and _is_taken(connection, owner, name):
        known = _find_by_uid(connection, new.uid, owner)  # another server may have created it since the first look
        if known is not None:
            return known
        raise NameTaken(f"Collection '{name}' already exists", name=name)
    created_at = make_timestamp()
    result = connection.execute(
        insert(schema.collections).values(
            uid=new.uid,
            owner_id=owner,
            name=name,
            title=new.title.strip() or name,
            description=new.description,
            source_type=new.source_type,
            url=new.url,
            metadata=new.metadata,
            created_at=created_at,
            updated_at=created_at,
        )
    )
    identity = get_inserted_id(result)
    events.record_collection(connection, ChangeKind.ADDED, identity, new.uid, owner)
    return identity


def update_collection(connection: Connection, identity: int, edit: CollectionEdit) -> None:
    values = _changed_values(connection, identity, edit)
    connection.execute(update(schema.collections).where(C.id == identity).values(**values))
    record_change(connection, ChangeKind.CHANGED, identity)


def record_change(connection: Connection, change: ChangeKind, identity: int) -> None:
    """Record an event of a collection that exists."""
    row = connection.execute(select(C.uid, C.owner_id).where(C.id == identity)).first()
    if row is not None:
        events.record_collection(connection, change, identity, row.uid, row.owner_id)


def _changed_values(connection: Connection, identity: int, edit: CollectionEdit) -> dict[str, Any]:
    fields = ("title", "description", "url", "source_type", "trusted")
    values: dict[str, Any] = {name: value for name in fields if (value := getattr(edit, name)) is not None}
    if edit.metadata is not None:
        before = connection.execute(select(C.metadata).where(C.id == identity)).scalar_one()
        values["metadata"] = merge_metadata(before, edit.metadata)
    return {**values, "updated_at": make_timestamp()}


def merge_metadata(before: dict[str, Any], edit: dict[str, Any]) -> dict[str, Any]:
    """Merge an edit into metadata; null removes a key."""
    return {key: value for key, value in {**before, **edit}.items() if value is not None}


def make_collection(row: Any, scope: Scope | None = None) -> Collection:
    """Make a collection, with the caller's access to it if a scope is given."""
    return Collection(
        access=None if scope is None else scope.find_access(row.owner_id, row.id),
        id=row.id,
        uid=row.uid,
        name=row.name,
        title=row.title,
        owner=row.owner_id,
        description=row.description,
        source_type=row.source_type,
        url=row.url,
        metadata=row.metadata,
        document_count=row.document_count,
        chunk_count=row.chunk_count,
        created_at=parse_timestamp(row.created_at),
        updated_at=parse_timestamp(row.updated_at),
        curation=_make_curation(row),
        trusted=row.trusted,
    )


def _make_curation(row: Any) -> Curation | None:
    if row.category is None:
        return None
    return Curation(row.category, row.version, row.is_public, row.is_approved, row.owner_name or "", row.declined)
