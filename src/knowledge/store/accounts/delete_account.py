"""Delete an account and everything it owns in one transaction."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from knowledge.model import RemovalResult
from knowledge.store import documents, schema
from knowledge.store.database import Database

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
        files = _delete_jobs(connection, account_id)  # a worker stops when its job row is missing
        owned = connection.execute(select(C.id).where(C.owner_id == account_id)).scalars().all()
        gone = [documents.remove_collection(connection, collection) for collection in owned]
        connection.execute(delete(schema.grants).where(R.account_id == account_id))
        connection.execute(delete(schema.api_keys).where(X.account_id == account_id))
        connection.execute(delete(schema.accounts).where(A.id == account_id))
        removed = [each for each, _ in gone]
        counts = RemovalResult(sum(each.documents for each in removed), sum(each.chunks for each in removed), 0)
        return counts, sorted(files.union(*(names for _, names in gone)))

    return database.write(work)


def _delete_jobs(connection: Connection, account_id: int) -> set[str]:
    """Delete the jobs started by the account or for its collections; return their originals."""
    owned = select(C.id).where(C.owner_id == account_id)
    theirs = (J.owner_id == account_id) | J.collection_id.in_(owned)
    held = set(connection.execute(select(J.sha256).where(theirs, J.sha256.is_not(None))).scalars())
    adding = select(J.document_id).where(theirs, documents.IS_ADDING, J.document_id.is_not(None))
    for document_id in connection.execute(adding).scalars().all():
        documents.drop_processing(connection, document_id)
    mine = select(J.id).where(theirs)
    for table in (schema.crawls, schema.crawl_pages):
        connection.execute(delete(table).where(table.c.job_id.in_(mine)))
    connection.execute(delete(schema.jobs).where(theirs))
    return {sha256 for sha256 in held if sha256 is not None}
