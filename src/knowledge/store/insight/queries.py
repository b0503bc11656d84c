"""The log of questions, and ratings of passages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, delete, exists, func, or_, select, update

from knowledge.errors import DocumentNotFound, InvalidKey
from knowledge.model import Scope
from knowledge.model.insight import ANSWERED_RELEVANCE, LoggedQuery, QueryCounts, RatedPassage
from knowledge.store import schema
from knowledge.store.accounts.accounts import require_owner
from knowledge.store.database import Database
from knowledge.store.insight.agents import make_identity
from knowledge.store.insight.tables import queries, ratings
from knowledge.store.library.filters import visible_to
from knowledge.store.prepared_statements import insert_if_absent
from knowledge.store.row_mapping import make_timestamp, parse_timestamp
from knowledge.store.suggestions import fold_text

Q, R, D, H = queries.c, ratings.c, schema.documents.c, schema.chunks.c

MAX_QUERY_CHARS = 500
MAX_QUERIES_PER_OWNER = 10_000
MAX_RATINGS = 2000
IS_UNANSWERED = or_(Q.best.is_(None), Q.best < ANSWERED_RELEVANCE)


@dataclass(frozen=True, slots=True)
class AskedQuery:
    owner: int
    text: str
    best: float | None


def make_query_identity(text: str) -> bytes:
    """Return the same digest for questions that differ in case and spaces only."""
    return make_identity(" ".join(fold_text(text).split()))


class QueryStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, asked: Sequence[AskedQuery]) -> None:
        now = make_timestamp()

        def work(connection: Connection) -> None:
            for each in asked:
                with suppress(InvalidKey):  # the account was deleted meanwhile, and its log with it
                    require_owner(connection, each.owner)
                    _record_query(connection, each, now)

        self._database.write(work)

    def list_page(
        self, owner: int, *, since: int, unanswered: bool, page: int, per_page: int
    ) -> tuple[list[LoggedQuery], int]:
        """Return a page of an owner's questions, the last asked first, and how many there are."""
        mine = [Q.owner_id == owner, Q.last_at >= since, *([IS_UNANSWERED] if unanswered else [])]
        wanted = select(queries).where(*mine).order_by(Q.last_at.desc(), Q.id.desc())
        with self._database.read() as connection:
            total = connection.execute(select(func.count()).select_from(queries).where(*mine)).scalar() or 0
            rows = connection.execute(wanted.limit(per_page).offset((page - 1) * per_page)).all()
        return [_make_query(row) for row in rows], total

    def count_unanswered(self, owner: int) -> int:
        wanted = select(func.count()).select_from(queries).where(Q.owner_id == owner, IS_UNANSWERED)
        with self._database.read() as connection:
            return int(connection.execute(wanted).scalar() or 0)

    def count_all(self) -> QueryCounts:
        """Return the number of questions of all owners."""
        with self._database.read() as connection:
            asked, searches = connection.execute(select(func.count(), func.sum(Q.count)).select_from(queries)).one()
            unanswered = connection.execute(select(func.count()).select_from(queries).where(IS_UNANSWERED)).scalar()
        return QueryCounts(asked, int(searches or 0), unanswered or 0)

    def forget(self, owner: int) -> int:
        """Delete the log of an owner and return how many questions it had."""
        gone = delete(queries).where(Q.owner_id == owner)
        return int(self._database.write(lambda connection: connection.execute(gone).rowcount))

    def forget_before(self, time: int) -> None:
        """Delete the questions that were last asked before a time, and those of an owner who has too many."""
        crowded = select(Q.owner_id).group_by(Q.owner_id).having(func.count() > MAX_QUERIES_PER_OWNER)

        def work(connection: Connection) -> None:
            connection.execute(delete(queries).where(Q.last_at < time))
            for owner in connection.execute(crowded).scalars().all():
                newest = select(Q.id).where(Q.owner_id == owner).order_by(Q.last_at.desc()).limit(MAX_QUERIES_PER_OWNER)
                connection.execute(delete(queries).where(Q.owner_id == owner, Q.id.not_in(newest)))

        self._database.write(work)

    # -- ratings --------------------------------------------------------------------------------

    def rate(self, scope: Scope, text: str, chunk_uid: UUID, good: bool | None) -> None:
        """Store or, with None, withdraw a rating; raises DocumentNotFound if the passage is not visible."""
        identity = make_query_identity(text)
        own = (R.owner_id == scope.owner) & (R.identity == identity) & (R.chunk_uid == chunk_uid)
        values = {"text": text[:MAX_QUERY_CHARS], "good": good, "rated_at": make_timestamp()}

        def work(connection: Connection) -> None:
            if good is None:
                connection.execute(delete(ratings).where(own))
                return
            require_owner(connection, scope.owner)
            document_id = _find_document_of(connection, chunk_uid, scope)
            if not connection.execute(update(ratings).where(own).values(**values)).rowcount:
                named = {"owner_id": scope.owner, "identity": identity, "chunk_uid": chunk_uid}
                made = insert_if_absent(ratings, connection.dialect.name)
                connection.execute(made.values(document_id=document_id, **named, **values))

        self._database.write(work)

    def list_ratings(self, scope: Scope) -> list[RatedPassage]:
        """Return the owner's ratings of passages that still exist and are visible, newest first."""
        wanted = (
            select(ratings, D.uid.label("document_uid"), D.title, H.text.label("passage"))
            .join_from(ratings, schema.chunks, H.uid == R.chunk_uid)
            .join(schema.documents, D.content_id == H.content_id)
            .where(R.owner_id == scope.owner, visible_to(scope))
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(R.rated_at.desc(), R.id.desc()).limit(MAX_RATINGS)).all()
        return [_make_rating(row) for row in rows]

    def forget_ratings_of_removed(self) -> None:
        """Delete the ratings of documents that were removed."""
        gone = delete(ratings).where(~exists().where(D.id == R.document_id))
        self._database.write(lambda connection: connection.execute(gone))


def delete_queries_of(connection: Connection, owner: int) -> None:
    """Delete the questions and ratings of an account that is deleted."""
    connection.execute(delete(queries).where(Q.owner_id == owner))
    connection.execute(delete(ratings).where(R.owner_id == owner))


def _record_query(connection: Connection, asked: AskedQuery, now: int) -> None:
    identity, text = make_query_identity(asked.text), asked.text[:MAX_QUERY_CHARS]
    counted = update(queries).where(Q.owner_id == asked.owner, Q.identity == identity)
    counted = counted.values(count=Q.count + 1, best=asked.best, last_at=now, text=text)
    if not connection.execute(counted).rowcount:
        made = insert_if_absent(queries, connection.dialect.name)
        named = {"owner_id": asked.owner, "identity": identity, "text": text}
        connection.execute(made.values(count=0, first_at=now, last_at=now, **named))
        connection.execute(counted)


def _find_document_of(connection: Connection, chunk_uid: UUID, scope: Scope) -> int:
    is_chunk: ColumnElement[bool] = H.uid == chunk_uid
    wanted = select(D.id).join_from(schema.chunks, schema.documents, D.content_id == H.content_id)
    found = connection.execute(wanted.where(is_chunk, visible_to(scope))).scalar()
    if found is None:
        raise DocumentNotFound(f"Passage {chunk_uid} not found", hint="Send the chunk_uid of a search result.")
    return int(found)


def _make_query(row: Any) -> LoggedQuery:
    return LoggedQuery(row.text, row.count, row.best, parse_timestamp(row.first_at), parse_timestamp(row.last_at))


def _make_rating(row: Any) -> RatedPassage:
    return RatedPassage(
        query=row.text,
        good=row.good,
        document_uid=row.document_uid,
        title=row.title,
        chunk_uid=row.chunk_uid,
        passage=row.passage,
        rated_at=parse_timestamp(row.rated_at),
    )
