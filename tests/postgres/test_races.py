"""Checks and the writes that rely on them are one step, also when two servers write at the same time."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import Table, event, func, select

from knowledge.errors import (
    AccountTaken,
    Cancelled,
    CollectionNotFound,
    Duplicate,
    InvalidKey,
    NameTaken,
    QuotaExceeded,
    WrongPassword,
)
from knowledge.model import (
    CollectionEdit,
    DocumentEdit,
    DocumentKind,
    DocumentStatus,
    ExtractionMethod,
    Job,
    JobKind,
    JobStatus,
    NewCollection,
    NewCorpus,
    Permission,
    Scope,
    new_uid,
    now,
)
from knowledge.store import schema
from knowledge.store.accounts.accounts import AccountStore
from knowledge.store.accounts.api_keys import KeyStore, NewKey
from knowledge.store.accounts.delete_account import delete_account_data
from knowledge.store.accounts.quotas import Quota
from knowledge.store.accounts.sessions import NewSession, SessionStore
from knowledge.store.chunks import StagedChunk
from knowledge.store.collections import CollectionStore
from knowledge.store.corpora import CorpusStore
from knowledge.store.crawls.site_pages import SitePage, SitePageStore, remember_page
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.jobs.rows import JobClaim, NewJob
from knowledge.store.mcp_sessions import McpSessionStore
from knowledge.store.models import ModelStore
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.store.publish import Publication, Publisher, PublishResult
from tests.support.races import run_race

NO_QUOTA = Quota()


def make_job(owner: int = 0, *, uid: UUID | None = None, sha256: str = "a" * 64) -> NewJob:
    return NewJob(uid or new_uid(), JobKind.ADD, owner, None, "tea.txt", {"size": 3}, sha256, 10)


def queue(database: Database, job: NewJob, scope: Scope, *, collection: str = "tea", quota: Quota = NO_QUOTA) -> Job:
    return DocumentQueue(database).add_new(job, collection, None, 3, quota, scope)


def claim(database: Database, *, owner: int = 0, sha256: str = "a" * 64) -> JobClaim:
    queue(database, make_job(owner, sha256=sha256), Scope(owner))
    claimed = JobStore(database).claim(most_urgent_only=False)
    assert claimed is not None
    return claimed


def publish(
    database: Database, claimed: JobClaim, *, sha256: str = "a" * 64, source_path: str | None = None
) -> PublishResult:
    publication = Publication(
        content_id=None,
        unstaged=(StagedChunk("tea", None, (), b"d" * 16, None),),
        model_id=None,
        title="Tea",
        tags=(),
        metadata={},
        source_path=source_path,
        url=None,
        kind=DocumentKind.FILE,
        doc_type="txt",
        filename="tea.txt",
        sha256=sha256,
        size_bytes=3,
        status=DocumentStatus.COMPLETED,
        method=ExtractionMethod.TEXT_EXTRACTION,
        warnings=(),
        language=None,
        page_count=None,
        chunk_count=1,
    )
    return Publisher(database).add(claimed, publication)


def count(database: Database, table: Table) -> int:
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def test_of_two_collections_with_one_name_the_second_is_refused(database_url: str, database: PostgresDatabase) -> None:
    def create(where: Database) -> object:
        return CollectionStore(where).create(NewCollection(title="Tea", name="tea"), Scope())

    race = run_race(database_url, create, create)
    assert race.first.name == "tea" and isinstance(race.second, NameTaken)
    assert count(database, schema.collections) == 1


def test_two_collections_with_one_title_get_different_names(database_url: str) -> None:
    def create(where: Database) -> object:
        return CollectionStore(where).create(NewCollection(title="Tea"), Scope())

    race = run_race(database_url, create, create)
    assert (race.first.name, race.second.name) == ("tea", "tea-2")


def test_a_collection_created_twice_with_one_uid_is_one_collection(database_url: str) -> None:
    new = NewCollection(title="Tea", uid=new_uid())
    race = run_race(
        database_url,
        lambda where: CollectionStore(where).create(new, Scope()),
        lambda where: CollectionStore(where).create(new, Scope()),
    )
    assert race.first.id == race.second.id


def test_a_collection_created_between_two_looks_of_its_repetition_is_the_same(
    database: PostgresDatabase, other: PostgresDatabase
) -> None:
    new = NewCollection(title="Tea", name="tea", uid=new_uid())
    made: list[int] = []

    def create_meanwhile(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if not made and "collections.uid" in statement:
            made.append(0)
            made[0] = CollectionStore(other).create(new, Scope()).id

    event.listen(database._writers, "after_cursor_execute", create_meanwhile)
    assert CollectionStore(database).create(new, Scope()).id == made[0]


def test_two_documents_for_a_new_collection_create_it_once(database_url: str, database: PostgresDatabase) -> None:
    race = run_race(
        database_url,
        lambda where: queue(where, make_job(sha256="a" * 64), Scope()),
        lambda where: queue(where, make_job(sha256="b" * 64), Scope()),
    )
    assert {race.first.status, race.second.status} == {JobStatus.QUEUED}
    assert count(database, schema.collections) == 1 and count(database, schema.jobs) == 2


def test_accepting_documents_waits_for_no_other(database_url: str, database: PostgresDatabase) -> None:
    CollectionStore(database).create(NewCollection(title="tea", name="tea"), Scope())
    race = run_race(
        database_url,
        lambda where: queue(where, make_job(sha256="a" * 64), Scope()),
        lambda where: queue(where, make_job(sha256="b" * 64), Scope()),
    )
    assert not race.waited and count(database, schema.jobs) == 2


def test_two_edits_of_one_collection_keep_the_metadata_of_both(database_url: str, database: PostgresDatabase) -> None:
    tea = CollectionStore(database).create(NewCollection(title="Tea"), Scope())
    run_race(
        database_url,
        lambda where: CollectionStore(where).edit(tea.id, CollectionEdit(metadata={"green": 1}), Scope()),
        lambda where: CollectionStore(where).edit(tea.id, CollectionEdit(metadata={"black": 2}), Scope()),
    )
    assert CollectionStore(database).find(tea.id, Scope()).metadata == {"green": 1, "black": 2}


def test_of_two_accounts_with_one_name_the_second_is_refused(database_url: str, database: PostgresDatabase) -> None:
    race = run_race(
        database_url,
        lambda where: AccountStore(where).create("ada", None),
        lambda where: AccountStore(where).create("Ada", None),
    )
    assert race.first.username == "ada" and isinstance(race.second, AccountTaken)
    assert count(database, schema.accounts) == 1


@pytest.mark.parametrize("ending", ["password", "disabled"])
def test_a_session_that_is_being_opened_ends_when_the_password_changes_or_the_account_is_disabled(
    database_url: str, database: PostgresDatabase, ending: str
) -> None:
    ada = AccountStore(database).create("ada", "old hash")

    def end(where: PostgresDatabase) -> object:
        if ending == "disabled":
            return AccountStore(where).set_disabled(ada.id, True)
        KeyStore(where).change_password(ada.id, "new hash")
        return None

    def open_session(where: PostgresDatabase) -> object:
        new = NewSession(b"digest", now() + timedelta(hours=1), False, "Browser", ada)
        return SessionStore(where).create(new, 10)

    race = run_race(database_url, open_session, end)
    assert race.waited and count(database, schema.browser_sessions) == 0
    race = run_race(database_url, end, open_session)
    assert isinstance(race.second, WrongPassword) and count(database, schema.browser_sessions) == 0


def test_a_model_registered_twice_is_one_model(database_url: str, database: PostgresDatabase) -> None:
    race = run_race(
        database_url,
        lambda where: ModelStore(where).register("granite/1", "granite", 384),
        lambda where: ModelStore(where).register("granite/1", "granite", 384),
    )
    assert race.first == race.second and count(database, schema.models) == 1


def test_of_two_models_activated_at_once_one_is_active(database_url: str, database: PostgresDatabase) -> None:
    store = ModelStore(database)
    one, two = store.register("one", "one", 4), store.register("two", "two", 4)
    run_race(
        database_url,
        lambda where: ModelStore(where).activate(one, "one"),
        lambda where: ModelStore(where).activate(two, "two"),
    )
    with database.read() as connection:
        active = connection.execute(select(schema.models.c.name).where(schema.models.c.active)).scalars().all()
    assert active == ["two"]


def test_two_servers_make_one_signing_key(database_url: str) -> None:
    race = run_race(
        database_url,
        lambda where: McpSessionStore(where).get_signing_key(),
        lambda where: McpSessionStore(where).get_signing_key(),
    )
    assert race.first == race.second


def test_of_two_grants_to_one_account_the_second_counts(database_url: str, database: PostgresDatabase) -> None:
    AccountStore(database).create("ada", None)
    corpus = CorpusStore(database).create(NewCorpus(title="Tea"), Scope())
    run_race(
        database_url,
        lambda where: CorpusStore(where).grant(corpus.id, "ada", Permission.READ, Scope()),
        lambda where: CorpusStore(where).grant(corpus.id, "ada", Permission.WRITE, Scope()),
    )
    (grant,) = CorpusStore(database).list_grants(corpus.id, Scope())
    assert grant.permission is Permission.WRITE


def test_a_grant_on_a_corpus_that_is_being_removed_is_refused(database_url: str, database: PostgresDatabase) -> None:
    AccountStore(database).create("ada", None)
    corpus = CorpusStore(database).create(NewCorpus(title="Tea"), Scope())
    race = run_race(
        database_url,
        lambda where: DocumentStore(where).remove_collection(corpus.id, Scope()),
        lambda where: CorpusStore(where).grant(corpus.id, "ada", Permission.READ, Scope()),
    )
    assert isinstance(race.second, CollectionNotFound) and count(database, schema.grants) == 0


def test_a_grant_to_an_account_that_is_being_deleted_leaves_nothing(
    database_url: str, database: PostgresDatabase
) -> None:
    ada = AccountStore(database).create("ada", None)
    corpus = CorpusStore(database).create(NewCorpus(title="Tea"), Scope())
    run_race(
        database_url,
        lambda where: CorpusStore(where).grant(corpus.id, "ada", Permission.READ, Scope()),
        lambda where: delete_account_data(where, ada.id),
    )
    assert count(database, schema.grants) == count(database, schema.accounts) == 0


def test_of_two_documents_with_the_same_bytes_the_second_is_a_duplicate(
    database_url: str, database: PostgresDatabase
) -> None:
    one, two = claim(database), claim(database)
    race = run_race(database_url, lambda where: publish(where, one), lambda where: publish(where, two))
    assert isinstance(race.first, PublishResult) and isinstance(race.second, Duplicate)
    assert count(database, schema.documents) == 1


def test_of_two_documents_at_one_path_the_second_replaces_the_first(
    database_url: str, database: PostgresDatabase
) -> None:
    one, two = claim(database), claim(database, sha256="b" * 64)
    race = run_race(
        database_url,
        lambda where: publish(where, one, source_path="tea.txt"),
        lambda where: publish(where, two, sha256="b" * 64, source_path="tea.txt"),
    )
    assert race.first.document_id == race.second.document_id
    assert count(database, schema.documents) == 1


def test_two_documents_cannot_be_moved_to_one_path(database_url: str, database: PostgresDatabase) -> None:
    one = publish(database, claim(database), source_path="one.txt")
    two = publish(database, claim(database, sha256="b" * 64), sha256="b" * 64, source_path="two.txt")

    def move(where: Database, published: PublishResult) -> object:
        return DocumentStore(where).edit(published.document_id, DocumentEdit(source_path="tea.txt"), Scope(), NO_QUOTA)

    race = run_race(database_url, lambda where: move(where, one), lambda where: move(where, two))
    assert race.first.source_path == "tea.txt" and isinstance(race.second, NameTaken)


def test_two_edits_of_one_document_keep_the_tags_of_both(database_url: str, database: PostgresDatabase) -> None:
    tea = publish(database, claim(database))
    run_race(
        database_url,
        lambda where: DocumentStore(where).edit(tea.document_id, DocumentEdit(add_tags=("green",)), Scope(), NO_QUOTA),
        lambda where: DocumentStore(where).edit(tea.document_id, DocumentEdit(add_tags=("black",)), Scope(), NO_QUOTA),
    )
    assert DocumentStore(database).find(tea.document_id, Scope()).tags == ("green", "black")


def test_documents_that_arrive_together_do_not_exceed_the_quota(database_url: str, database: PostgresDatabase) -> None:
    ada = AccountStore(database).create("ada", None)
    CollectionStore(database).create(NewCollection(title="tea", name="tea"), Scope(ada.id))
    race = run_race(
        database_url,
        lambda where: queue(where, make_job(ada.id, sha256="a" * 64), Scope(ada.id), quota=Quota(documents=1)),
        lambda where: queue(where, make_job(ada.id, sha256="b" * 64), Scope(ada.id), quota=Quota(documents=1)),
    )
    assert race.first.status is JobStatus.QUEUED and isinstance(race.second, QuotaExceeded)
    assert count(database, schema.jobs) == 1


def test_a_job_that_is_queued_twice_with_one_uid_is_one_job(database_url: str, database: PostgresDatabase) -> None:
    CollectionStore(database).create(NewCollection(title="tea", name="tea"), Scope())
    job = make_job()
    race = run_race(database_url, lambda where: queue(where, job, Scope()), lambda where: queue(where, job, Scope()))
    assert race.first.id == race.second.id and count(database, schema.jobs) == 1


def test_two_workers_never_claim_the_same_job(database_url: str, database: PostgresDatabase) -> None:
    queue(database, make_job(), Scope())
    queue(database, make_job(sha256="b" * 64), Scope())
    race = run_race(
        database_url,
        lambda where: JobStore(where).claim(most_urgent_only=False),
        lambda where: JobStore(where).claim(most_urgent_only=False),
    )
    assert {race.first.id, race.second.id} == {1, 2} and not race.waited


def test_a_document_is_not_published_into_a_collection_that_is_being_removed(
    database_url: str, database: PostgresDatabase
) -> None:
    claimed = claim(database)
    assert claimed.collection_id is not None
    tea = claimed.collection_id
    race = run_race(
        database_url,
        lambda where: DocumentStore(where).remove_collection(tea, Scope()),
        lambda where: publish(where, claimed),
    )
    assert isinstance(race.second, CollectionNotFound)
    assert count(database, schema.documents) == count(database, schema.chunks) == 0


def test_a_collection_is_removed_with_a_document_that_is_being_published(
    database_url: str, database: PostgresDatabase
) -> None:
    claimed = claim(database)
    assert claimed.collection_id is not None
    tea = claimed.collection_id
    race = run_race(
        database_url,
        lambda where: publish(where, claimed),
        lambda where: DocumentStore(where).remove_collection(tea, Scope()),
    )
    assert race.second[0].documents == 1
    assert count(database, schema.documents) == count(database, schema.chunks) == 0


def test_a_cancelled_job_publishes_nothing(database_url: str, database: PostgresDatabase) -> None:
    claimed = claim(database)
    race = run_race(
        database_url,
        lambda where: JobStore(where).mark_cancelled(claimed),
        lambda where: publish(where, claimed),
    )
    assert isinstance(race.second, Cancelled) and count(database, schema.documents) == 0


def test_a_collection_made_while_its_account_is_deleted_is_refused(
    database_url: str, database: PostgresDatabase
) -> None:
    ada = AccountStore(database).create("ada", None)
    race = run_race(
        database_url,
        lambda where: delete_account_data(where, ada.id),
        lambda where: CollectionStore(where).create(NewCollection(title="Tea"), Scope(ada.id)),
    )
    assert isinstance(race.second, InvalidKey) and count(database, schema.collections) == 0


def test_a_collection_that_is_being_made_is_deleted_with_its_account(
    database_url: str, database: PostgresDatabase
) -> None:
    ada = AccountStore(database).create("ada", None)
    run_race(
        database_url,
        lambda where: CollectionStore(where).create(NewCollection(title="Tea"), Scope(ada.id)),
        lambda where: delete_account_data(where, ada.id),
    )
    assert count(database, schema.collections) == count(database, schema.accounts) == 0


def test_no_login_key_survives_a_change_of_the_password(database_url: str, database: PostgresDatabase) -> None:
    ada = AccountStore(database).create("ada", "old hash")

    def log_in(where: Database) -> object:
        new = NewKey(ada.id, "login", f"kn_{new_uid().hex[:12]}", b"d" * 32, None)
        return KeyStore(where).create_at_login(ada, new, 20)

    def change(where: Database) -> None:
        KeyStore(where).change_password(ada.id, "new hash")

    run_race(database_url, log_in, change)
    assert count(database, schema.api_keys) == 0
    with pytest.raises(WrongPassword):
        log_in(database)


def test_two_crawls_count_a_missing_page_twice(database_url: str, database: PostgresDatabase) -> None:
    page = SitePage("example.org/", "https://example.org/", None, None, ())
    database.write(lambda connection: remember_page(connection, 1, page))
    race = run_race(
        database_url,
        lambda where: SitePageStore(where).mark_missing(1, page.name),
        lambda where: SitePageStore(where).mark_missing(1, page.name),
    )
    assert (race.first, race.second) == (1, 2)
