"""The log of questions, ratings of passages and history, in process and over HTTP, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.insight import recorder
from knowledge.engine.local import LocalEngine
from knowledge.errors import AdminRequired, DocumentNotFound, Invalid
from knowledge.model import Query, SearchFilter, SearchMode, now
from knowledge.model.insight import ANSWERED_RELEVANCE
from knowledge.store.insight.tables import measurements
from knowledge.store.insight.tables import queries as query_table
from knowledge.testing import SharedParsers, make_test_engine
from tests.engine.test_sessions import open_store
from tests.support.accounts import ADMIN, PASSWORD, register
from tests.support.engines import add_note


@pytest.fixture
def local(settings: Settings, parsers: SharedParsers) -> Iterator[LocalEngine]:
    """The engine with the log of questions switched on."""
    made = make_test_engine(settings.model_copy(update={"query_log": True, "query_log_days": 10}), parsers=parsers)
    made.start()
    yield made
    made.close()


async def test_questions_are_logged_with_how_often_and_how_well_they_were_answered(engine: Engine) -> None:
    await add_note(engine, "the kettle is descaled with vinegar in spring")
    best = (await engine.search(Query(text="kettle descaled vinegar"))).hits[0].score
    await engine.insight.queries()  # writes the first one
    await engine.search(Query(text="  Kettle descaled   VINEGAR"))
    await engine.search(Query(text="zebra crossings", mode=SearchMode.TEXT))
    log = await engine.insight.queries()
    assert log.enabled and log.kept_days == 10 and log.total == 2
    assert [(each.query.strip(), each.count) for each in log.queries] == [
        ("zebra crossings", 1),
        ("Kettle descaled   VINEGAR", 2),
    ]
    assert log.queries[1].best == pytest.approx(best) and log.queries[1].first_at < log.queries[1].last_at
    unanswered = await engine.insight.queries(unanswered=True)
    assert unanswered.total == log.unanswered == sum((each.best or 0) < ANSWERED_RELEVANCE for each in log.queries)
    assert "zebra crossings" in [each.query for each in unanswered.queries]
    assert (await engine.insight.queries(since=now() + timedelta(minutes=1))).queries == []
    assert await engine.insight.forget_queries() == 2
    assert (await engine.insight.queries()).total == 0


async def test_what_is_no_question_of_its_own_is_not_logged(local: LocalEngine) -> None:
    note = await add_note(local, "the kettle boils")
    await local.search(Query(text="kett", typing=True))
    await local.search(Query(text="kettle", offset=10))
    await local.search(Query(text="kettle", filter=SearchFilter(documents=(note.id,))))
    assert (await local.insight.queries()).total == 0


async def test_a_typed_question_is_logged_when_the_typing_rests(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for typed in ("k", "kett", "kettle cold"):
        await local.search(Query(text=typed, typing=True))
    assert (await local.insight.queries()).total == 0
    monkeypatch.setattr(recorder, "TYPED_REST_SECONDS", 0.0)
    assert [each.query for each in (await local.insight.queries()).queries] == ["kettle cold"]


async def test_nothing_is_logged_unless_the_operator_wants_it(settings: Settings, parsers: SharedParsers) -> None:
    quiet = make_test_engine(settings, parsers=parsers)
    quiet.start()
    try:
        await quiet.search(Query(text="what is secret"))
        log = await quiet.insight.queries()
        assert (log.enabled, log.queries) == (False, [])
    finally:
        quiet.close()


async def test_accounts_see_their_own_questions_and_admins_only_counts(engine: Engine) -> None:
    ada, bob, root = (
        await register(engine, "ada"),
        await register(engine, "bob"),
        await register(engine, ADMIN),
    )
    await ada.search(Query(text="who paints the boat"))
    await bob.search(Query(text="who sails the boat"))
    assert [each.query for each in (await ada.insight.queries()).queries] == ["who paints the boat"]
    assert [each.query for each in (await bob.insight.queries()).queries] == ["who sails the boat"]
    assert (await root.insight.queries()).total == (await engine.insight.queries()).total == 0
    counts = await root.insight.count_queries()
    assert (counts.questions, counts.searches, counts.unanswered) == (2, 2, 2)
    for refused in (ada.insight.count_queries(), ada.insight.server_history()):
        with pytest.raises(AdminRequired):
            await refused
    await ada.accounts.delete_me(PASSWORD)
    assert (await root.insight.count_queries()).questions == 1


async def test_what_a_deleted_account_asked_last_is_not_written_afterwards(
    local: LocalEngine, settings: Settings
) -> None:
    ada = await register(local, "ada")
    await ada.search(Query(text="who paints the boat"))
    await ada.accounts.delete_me(PASSWORD)
    local._parts.recorder.flush()
    local._parts.recorder.count()
    assert (await local.insight.count_queries()).questions == 0
    with open_store(settings) as database, database.read() as connection:
        assert [row.owner_id for row in connection.execute(select(measurements)) if row.owner_id] == []


async def test_old_questions_are_swept(local: LocalEngine, settings: Settings) -> None:
    await local.search(Query(text="long ago"))
    assert (await local.insight.queries()).total == 1
    with open_store(settings) as database:
        database.write(lambda connection: connection.execute(update(query_table).values(last_at=1)))
    local._parts.insight.sweep()
    assert (await local.insight.queries()).total == 0


async def test_passages_are_marked_as_right_or_wrong_and_the_mark_is_withdrawn(engine: Engine) -> None:
    note = await add_note(engine, "the kettle is descaled with vinegar")
    hit = (await engine.search(Query(text="descale the kettle"))).hits[0]
    await engine.insight.rate("descale the kettle", hit.chunk.uid, False)
    await engine.insight.rate("Descale the  kettle", hit.chunk.uid, True)
    (rated,) = await engine.insight.ratings()
    assert (rated.query, rated.good, rated.document_uid) == ("Descale the  kettle", True, note.uid)
    assert rated.passage == hit.chunk.text and rated.title == note.title
    await engine.insight.rate("descale the kettle", hit.chunk.uid, None)
    assert await engine.insight.ratings() == []
    with pytest.raises(Invalid):
        await engine.insight.rate("  ", hit.chunk.uid, True)


async def test_ratings_are_for_visible_passages_and_go_with_their_document(local: LocalEngine) -> None:
    ada, bob = await register(local, "ada"), await register(local, "bob")
    note = await add_note(ada, "the kettle is descaled with vinegar")
    hit = (await ada.search(Query(text="kettle"))).hits[0]
    await ada.insight.rate("kettle", hit.chunk.uid, True)
    for foreign in (hit.chunk.uid, uuid4()):
        with pytest.raises(DocumentNotFound):
            await bob.insight.rate("kettle", foreign, True)
    assert await bob.insight.ratings() == []
    await ada.remove(note.id)
    assert await ada.insight.ratings() == []
    local._parts.insight.sweep()
    assert local._parts.insight.queries.list_ratings(local._scope) == []


async def test_the_history_counts_documents_jobs_and_searches_of_the_caller(engine: Engine) -> None:
    ada, root = await register(engine, "ada"), await register(engine, ADMIN)
    await add_note(ada, "one")
    await add_note(ada, "two")
    await ada.search(Query(text="one"))
    await ada.search(Query(text="two"))
    points = await ada.insight.history(24)
    assert len(points) == 24 and (points[-1].documents, points[-1].queued, points[-1].searches) == (2, 0, 2)
    assert points[-1].mean_ms is not None and points[-1].slowest_ms is not None
    assert 0 < points[-1].mean_ms <= points[-1].slowest_ms
    assert points[1].at - points[0].at == timedelta(hours=1) and points[-1].at <= now()
    assert (points[0].searches, points[0].mean_ms) == (0, None)
    assert (await engine.insight.history(24))[-1].searches == 0
    await engine.search(Query(text="three"))
    assert (await root.insight.server_history(24))[-1].searches == 3
    assert (await root.insight.server_history(744))[-1].documents == 2
    for hours in (0, 745):
        with pytest.raises(Invalid):
            await ada.insight.history(hours)
