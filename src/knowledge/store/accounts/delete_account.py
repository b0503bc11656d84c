"""Delete an account and everything it owns in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from knowledge.model import Document, RemovalResult
from knowledge.store import documents, events, schema
from knowledge.store.accounts.accounts import delete_sessions_of
from knowledge.store.database import Database, LookAgain
from knowledge.store.insight.agents import delete_agents_of
from knowledge.store.insight.measurements import delete_measurements_of
from knowledge.store.insight.queries import delete_queries_of
from knowledge.store.postgres import locks

A, C, J, R, X = (
    schema.accounts.c,
    schema.collections.c,
    schema.jobs.c,
    schema.grants.c,
    schema.api_keys.c,
)


def delete_account_data(database: Database, account_id: int) -> tuple[RemovalResult, list[str]]:
    """Delete an account; return the counts and the originals that may be unreferenced now."""

    def work(connection: Connection) -> tuple[RemovalResult, list[str]]:
        owned = _lock_account(connection, account_id)
        files, dropped = _delete_jobs(connection, account_id)  # a worker stops when its job row is missing
        gone = [documents.remove_collection(connection, collection) for collection in owned]
        connection.execute(delete(schema.grants).where(R.account_id == account_id))
        connection.execute(delete(schema.api_keys).where(X.account_id == account_id))
        delete_sessions_of(connection, account_id)
        connection.execute(delete(schema.oauth_subjects).where(schema.oauth_subjects.c.account_id == account_id))
        for delete_more in (delete_agents_of, delete_queries_of, delete_measurements_of):
            delete_more(connection, account_id)
        connection.execute(delete(schema.maps).where(schema.maps.c.owner_id == account_id))
        connection.execute(delete(schema.accounts).where(A.id == account_id))
        events.record_removed(connection, [*dropped, *(document for _, found in gone for document in found)])
        removed = [each for (each, _), _ in gone]
        counts = RemovalResult(sum(each.documents for each in removed), sum(each.chunks for each in removed), 0)
        return counts, sorted(files.union(*(names for (_, names), _ in gone)))

    return database.write(work)


def _lock_account(connection: Connection, account_id: int) -> Sequence[int]:
    """Lock an account and its collections, to which nobody can add another then, and return the collections."""
    owned = select(C.id).where(C.owner_id == account_id).order_by(C.id)
    found = connection.execute(owned).scalars().all()
    if locks.lock_collections(connection, *found):
        connection.execute(select(A.id).where(A.id == account_id).with_for_update())
        if connection.execute(owned).scalars().all() != found:
            raise LookAgain("the account has got or lost a collection meanwhile")
    return found


def _delete_jobs(connection: Connection, account_id: int) -> tuple[set[str], list[Document]]:
    """Delete the jobs started by the account or for its collections; return their originals and their documents."""
    owned = select(C.id).where(C.owner_id == account_id)
    theirs = (J.owner_id == account_id) | J.collection_id.in_(owned)
    held = set(connection.execute(select(J.sha256).where(theirs, J.sha256.is_not(None))).scalars())
    adding = select(J.document_id).where(theirs, documents.IS_ADDING, J.document_id.is_not(None))
    dropped = [
        document
        for document_id in connection.execute(adding).scalars().all()
        for document in documents.drop_processing(connection, document_id)
    ]
    mine = select(J.id).where(theirs)
    for table in (schema.crawls, schema.crawl_pages):
        connection.execute(delete(table).where(table.c.job_id.in_(mine)))
    connection.execute(delete(schema.jobs).where(theirs))
    return {sha256 for sha256 in held if sha256 is not None}, dropped
