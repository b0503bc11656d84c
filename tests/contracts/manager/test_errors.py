"""The error codes of contract 001: each has a class, and tool and stream report the same code."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from knowledge import errors
from knowledge.config import Settings
from knowledge.embed.openai import EmbeddingEndpoint, OpenAIEmbedder
from knowledge.engine.local import LocalEngine
from knowledge.error_codes import walk_error_classes
from knowledge.errors import KnowledgeError
from knowledge.index.snapshot import EmbeddedSnapshot
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers, make_test_engine
from knowledge.toolsets.manager.errors import ERROR_TABLE, find_wording, refuse
from tests.contracts.app_server import serve_app
from tests.contracts.manager.conftest import Person, make_person, read_refusal
from tests.contracts.manager.test_stream import post_query, read_events
from tests.support.embedding_service import DIMENSION, EmbeddingReply, EmbeddingService, serve_embeddings

DOCUMENTED = {
    "auth.missing_api_key": (errors.MissingKey, 401),
    "auth.invalid_api_key": (errors.InvalidKey, 401),
    "auth.expired_api_key": (errors.ExpiredKey, 401),
    "auth.insufficient_permissions": (errors.InsufficientPermissions, 403),
    "auth.corpus_not_approved": (errors.CorpusNotApproved, 403),
    "auth.admin_required": (errors.AdminRequired, 403),
    "validation.invalid_collection_name": (errors.InvalidName, 422),
    "validation.invalid_filename": (errors.InvalidFilename, 422),
    "validation.empty_query": (errors.EmptyQuery, 422),
    "validation.invalid_corpus_id": (errors.InvalidCorpusId, 422),
    "validation.no_valid_files": (errors.NoValidFiles, 422),
    "file.too_large": (errors.TooLarge, 413),
    "file.unsupported_type": (errors.UnsupportedFormat, 415),
    "file.invalid_mime": (errors.WrongMime, 415),
    "rate_limit.exceeded": (errors.RateLimited, 429),
    "rate_limit.embedding_api": (errors.EmbeddingRateLimited, 429),
    "resource.collection_not_found": (errors.CollectionNotFound, 404),
    "resource.corpus_not_found": (errors.CorpusNotFound, 404),
    "resource.user_not_found": (errors.AccountNotFound, 404),
    "server.internal_error": (errors.Internal, 500),
    "server.database_error": (errors.DatabaseFailed, 503),
    "server.chromadb_error": (errors.IndexFailed, 503),
    "server.openai_api_error": (errors.EmbeddingFailed, 503),
}


@pytest.mark.requirement("001.errors.codes")
@pytest.mark.parametrize("code", DOCUMENTED)
def test_every_code_of_the_contract_belongs_to_a_class(code: str) -> None:
    kind, status = DOCUMENTED[code]
    refused = refuse(kind("It went wrong"))
    assert (refused.code, refused.status) == (code, status)


@pytest.mark.requirement("001.errors.format")
def test_every_error_class_has_a_code_in_one_of_the_six_categories() -> None:
    for kind in walk_error_classes():
        category, _, specific = find_wording(kind("It went wrong")).code.partition(".")
        assert category in ("auth", "validation", "file", "rate_limit", "resource", "server") and specific
    assert set(DOCUMENTED) <= {wording.code for wording in ERROR_TABLE.values()}


@pytest.mark.requirement("001.errors.sentences")
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errors.MissingKey("The key is missing"), "Invalid or missing API key"),
        (errors.InvalidKey("The key is wrong"), "Invalid or missing API key"),
        (errors.EmptyQuery("The query contains no word to search for"), "Query cannot be empty"),
        (errors.RateLimited("Later"), "Rate limit exceeded. Please slow down and try again."),
    ],
)
def test_the_messages_of_the_contract_are_used(error: KnowledgeError, sentence: str) -> None:
    assert refuse(error).body["message"] == sentence


# -- failures of the parts ----------------------------------------------------------------------


@asynccontextmanager
async def serve_account(engine: LocalEngine, settings: Settings) -> AsyncIterator[Person]:
    """Serve an engine and yield an account with one note."""
    async with serve_app(make_http_app(engine, settings)) as url:
        there = await make_person(engine, url)
        await there.add_note("Tea is served at five.", "docs")
        yield there


async def ask_tool_and_stream(who: Person, query: str) -> list[tuple[int, str]]:
    """Return status and code of the tool and of the stream for the same query."""
    tool = read_refusal(await who.post("tools/call", {"name": "query_knowledge", "arguments": {"query": query}}))
    streamed = await post_query(who, {"query": query})
    [event] = read_events(streamed)
    assert (event["type"], event["error_code"]) == ("error", streamed.headers["x-mcp-error-code"])
    return [tool[:2], (streamed.status_code, event["error_code"])]


@pytest.mark.requirement("001.errors.embedding")
@pytest.mark.parametrize(
    ("status", "expected"),
    [(429, (429, "rate_limit.embedding_api")), (500, (503, "server.openai_api_error"))],
)
async def test_a_failing_embedding_service_has_its_code(
    status: int, expected: tuple[int, str], settings: Settings, parsers: SharedParsers
) -> None:
    with serve_embeddings(EmbeddingService()) as service:
        model = OpenAIEmbedder(EmbeddingEndpoint(service.url, "small-model"), None, DIMENSION, wait=lambda _: None)
        engine = make_test_engine(settings, parsers=parsers, embedder=model)
        engine.start()
        try:
            async with serve_account(engine, settings) as who:
                assert (await who.call("query_knowledge", query="tea"))["num_results"] == 1
                service.default = EmbeddingReply(status)
                before = len(service.requests)
                assert await ask_tool_and_stream(who, f"tea {status}") == [expected] * 2
                assert len(service.requests) == before + 4  # both tried twice
                service.default = EmbeddingReply()
                assert (await who.call("query_knowledge", query=f"tea {status}"))["num_results"] == 1
        finally:
            engine.close()


@pytest.mark.requirement("001.errors.index")
async def test_a_failing_index_has_its_code(
    local: LocalEngine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad_disk(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    async with serve_account(local, settings) as who:
        with monkeypatch.context() as broken:
            broken.setattr(EmbeddedSnapshot, "find_candidates", bad_disk)
            assert await ask_tool_and_stream(who, "tea") == [(503, "server.chromadb_error")] * 2
        assert (await who.call("query_knowledge", query="tea"))["num_results"] == 1


@pytest.mark.requirement("001.errors.database")
async def test_a_failing_database_has_its_code(local: LocalEngine, settings: Settings) -> None:
    async with serve_account(local, settings) as who:
        rename(settings.data / "knowledge.db", "collections", "lost")
        try:
            assert await ask_tool_and_stream(who, "tea") == [(503, "server.database_error")] * 2
        finally:
            rename(settings.data / "knowledge.db", "lost", "collections")
        assert (await who.call("query_knowledge", query="tea"))["num_results"] == 1


def rename(database: Path, table: str, name: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA legacy_alter_table=ON")  # keeps the references to the old table name
        connection.execute(f"ALTER TABLE {table} RENAME TO {name}")
    connection.close()


@pytest.mark.requirement("001.errors.internal")
async def test_an_internal_error_does_not_show_its_text(
    local: LocalEngine, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret that nobody should read")

    async with serve_account(local, settings) as who:
        monkeypatch.setattr(EmbeddedSnapshot, "find_candidates", crash)
        assert await ask_tool_and_stream(who, "tea") == [(500, "server.internal_error")] * 2
        assert "secret" not in (await who.call_refused("query_knowledge", query="tea"))[2]
    assert "secret" in caplog.text
