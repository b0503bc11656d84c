"""Corpora: curated collections with category, approval and grants."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from knowledge.errors import CorpusNotApproved, CorpusNotFound, InvalidParameter
from knowledge.model import (
    CATEGORIES,
    Collection,
    CollectionEdit,
    CorpusEdit,
    Grant,
    NewCollection,
    NewCorpus,
    Permission,
    ResultPage,
    Scope,
)
from knowledge.store import collections, events, schema
from knowledge.store.accounts import accounts
from knowledge.store.collections import SELECT_COLLECTIONS, make_collection, visible_to
from knowledge.store.database import Database
from knowledge.store.postgres import locks

A, C, R, U = schema.accounts.c, schema.collections.c, schema.grants.c, schema.curations.c
_SELECT_CORPORA = SELECT_COLLECTIONS.where(U.category.is_not(None))
MAX_VERSION_CHARS = 100


class CorpusStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- queries --------------------------------------------------------------------------------

    def page(
        self, scope: Scope, category: str | None, approved_only: bool, page: int, per_page: int
    ) -> ResultPage[Collection]:
        conditions = [visible_to(scope), *([] if category is None else [U.category == check_category(category)])]
        conditions += [U.is_approved] if approved_only else []
        joined = select(func.count()).join_from(schema.collections, schema.curations, C.id == U.collection_id)
        with self._database.snapshot() as connection:
            total = connection.execute(joined.where(*conditions)).scalar_one()
            wanted = _SELECT_CORPORA.where(*conditions).order_by(C.id).limit(per_page).offset((page - 1) * per_page)
            rows = connection.execute(wanted).all()
        return ResultPage(tuple(map(make_collection, rows)), total, page, per_page)

    def find(self, ref: int, scope: Scope) -> Collection:
        with self._database.read() as connection:
            return make_collection(_require_visible(connection, ref, scope))

    def list_pending(self) -> list[Collection]:
        waiting = _SELECT_CORPORA.where(U.is_public, ~U.is_approved).order_by(C.id)
        with self._database.read() as connection:
            return [make_collection(row) for row in connection.execute(waiting)]

    # -- edits ----------------------------------------------------------------------------------

    def create(self, new: NewCorpus, scope: Scope) -> Collection:
        check_category(new.category)
        check_version(new.version)

        def work(connection: Connection) -> int:
            collection = NewCollection(title=new.title, name=new.name, description=new.description, uid=new.uid)
            identity = collections.create_collection(connection, collection, scope.owner)
            if connection.execute(select(U.category).where(U.collection_id == identity)).first() is None:
                values = {"category": new.category, "version": new.version, "is_public": new.is_public}
                connection.execute(insert(schema.curations).values(collection_id=identity, **values, is_approved=False))
                if new.is_public:
                    _record_approval(connection, identity)
            return identity

        return self.find(self._database.write(work), scope)

    def edit(self, ref: int, edit: CorpusEdit, scope: Scope) -> Collection:
        def work(connection: Connection) -> None:
            _lock_own(connection, ref, scope)
            collections.update_collection(
                connection, ref, CollectionEdit(title=edit.title, description=edit.description)
            )
            values = _changed_values(edit)
            if values:
                connection.execute(update(schema.curations).where(U.collection_id == ref).values(**values))
            if edit.is_public is not None:
                _record_approval(connection, ref)

        self._database.write(work)
        return self.find(ref, scope)

    def set_approved(self, ref: int, approved: bool) -> Collection:
        """Approve a public corpus or withdraw its approval; private corpora are reported as not found."""
        visible = U.is_public if approved else U.is_public | U.is_approved
        return self._judge(ref, visible, is_approved=approved)

    def decline(self, ref: int, reason: str) -> Collection:
        """Make a public corpus that waits for approval private again, with a reason for its owner."""
        return self._judge(ref, U.is_public & ~U.is_approved, is_public=False, declined=reason)

    def require_public(self, ref: int) -> None:
        """Raise CorpusNotFound unless the owner of a corpus has made it public, approved or not."""
        with self._database.read() as connection:
            if connection.execute(_SELECT_CORPORA.where(C.id == ref, U.is_public)).first() is None:
                raise not_found_error(ref)

    def _judge(self, ref: int, condition: ColumnElement[bool], **values: Any) -> Collection:
        def work(connection: Connection) -> Collection:
            locks.lock_collections(connection, ref)
            if connection.execute(_SELECT_CORPORA.where(C.id == ref, condition)).first() is None:
                raise not_found_error(ref)
            connection.execute(update(schema.curations).where(U.collection_id == ref).values(**values))
            _record_approval(connection, ref)
            return make_collection(connection.execute(_SELECT_CORPORA.where(C.id == ref)).one())

        return self._database.write(work)

    # -- grants ---------------------------------------------------------------------------------

    def list_grants(self, ref: int, scope: Scope) -> list[Grant]:
        given = select(A.username, R.permission).join_from(schema.grants, schema.accounts, R.account_id == A.id)
        with self._database.read() as connection:
            _require_own(connection, ref, scope)
            rows = connection.execute(given.where(R.collection_id == ref).order_by(A.folded))
            return [Grant(row.username, Permission(row.permission)) for row in rows]

    def grant(self, ref: int, username: str, permission: Permission, scope: Scope) -> None:
        def work(connection: Connection) -> None:
            _lock_own(connection, ref, scope)
            account_id = _find_account_id(connection, username)
            _delete_grant(connection, ref, account_id)
            values = {"collection_id": ref, "account_id": account_id, "permission": permission.value}
            connection.execute(insert(schema.grants).values(**values))

        self._database.write(work)

    def revoke(self, ref: int, username: str, scope: Scope) -> None:
        def work(connection: Connection) -> None:
            _lock_own(connection, ref, scope)
            _delete_grant(connection, ref, _find_account_id(connection, username))

        self._database.write(work)


def not_found_error(ref: int) -> CorpusNotFound:
    return CorpusNotFound(f"Corpus {ref} not found", corpus_id=ref)


def check_category(category: str) -> str:
    if category not in CATEGORIES:
        raise InvalidParameter(
            f"Unknown category '{category[:40]}'",
            hint=f"Use one of {', '.join(CATEGORIES)}.",
            parameter="category",
            valid=list(CATEGORIES),
        )
    return category


def check_version(version: str) -> str:
    if len(version) > MAX_VERSION_CHARS or not (version == "" or version.isprintable()):
        raise InvalidParameter(
            f"'version' must have at most {MAX_VERSION_CHARS} printable characters", parameter="version"
        )
    return version


def _require_visible(connection: Connection, ref: int, scope: Scope) -> Row[Any]:
    """Return a visible corpus; raises CorpusNotApproved for a pending one and CorpusNotFound for a private one."""
    row = connection.execute(_SELECT_CORPORA.where(C.id == ref)).first()
    if row is None or not (row.owner_id == scope.owner or ref in scope.collections or row.is_public):
        raise not_found_error(ref)
    if row.owner_id != scope.owner and ref not in scope.collections:
        raise CorpusNotApproved(f"Corpus {ref} is not approved yet", corpus_id=ref)
    return row


def _require_own(connection: Connection, ref: int, scope: Scope) -> None:
    if _require_visible(connection, ref, scope).owner_id != scope.owner:
        raise collections.read_only_error(ref)


def _lock_own(connection: Connection, ref: int, scope: Scope) -> None:
    locks.lock_collections(connection, ref)
    _require_own(connection, ref, scope)


def _record_approval(connection: Connection, ref: int) -> None:
    """Tell the owner and the admins that a corpus waits, or that it was judged."""
    row = connection.execute(select(C.uid, C.owner_id).where(C.id == ref)).one()
    events.record_approval(connection, ref, row.uid, row.owner_id)


def _find_account_id(connection: Connection, username: str) -> int:
    """Return the id of an account, which nobody can delete until the transaction ends."""
    wanted = select(A.id).where(A.folded == accounts.fold_username(username))
    identity = connection.execute(wanted.with_for_update(read=True, key_share=True)).scalar()
    if identity is None:
        raise accounts.not_found_error(username)
    return int(identity)


def _delete_grant(connection: Connection, ref: int, account_id: int) -> None:
    connection.execute(delete(schema.grants).where(R.collection_id == ref, R.account_id == account_id))


def _changed_values(edit: CorpusEdit) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if edit.category is not None:
        values["category"] = check_category(edit.category)
    if edit.version is not None:
        values["version"] = check_version(edit.version)
    if edit.is_public is not None:
        values |= {"is_public": edit.is_public} | ({"declined": None} if edit.is_public else {})
    return values
