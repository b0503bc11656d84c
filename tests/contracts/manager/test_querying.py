"""query_knowledge: one context from all collections that the caller may read."""

from __future__ import annotations

import asyncio
import re

import pytest

from knowledge.app import build_model_choice
from knowledge.config import Settings
from knowledge.embed.loading import ModelLoader
from knowledge.model import NewCollection, Permission
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import serve_app
from tests.contracts.manager.conftest import MakeAccount, Person, make_person, read_refusal


@pytest.mark.requirement("001.query_knowledge.answer")
async def test_a_query_returns_context_and_the_number_of_results(ada: Person) -> None:
    await ada.add_note("Python is a high-level programming language.", title="About Python")
    answer = await ada.call("query_knowledge", query="What is Python?", n_results=5)
    assert answer["context"].startswith("Python is a high-level programming language.")
    assert answer["num_results"] == 1
    assert answer["collections_searched"] == "all accessible collections"


@pytest.mark.requirement("001.query_knowledge.source")
async def test_every_passage_has_its_source(ada: Person) -> None:
    text = "# Teas\n\n## Black\n\nAssam is a black tea with a malty taste.\n\n## Green\n\nSencha is a green tea.\n"
    await ada.add_file("teas.md", text, "drinks")
    answer = await ada.call("query_knowledge", query="malty assam", n_results=1)
    passage, _, source = answer["context"].partition(f"\n\n[Source {answer['boundary']}: ")
    assert "Assam is a black tea" in passage
    assert re.fullmatch(r"Teas \(teas.md\), Teas > Black, collection drinks; relevance [01]\.\d\d\]", source)


@pytest.mark.requirement("001.query_knowledge.per_collection")
async def test_n_results_counts_for_each_collection(ada: Person) -> None:
    for collection in ("one", "two", "three"):
        for number in range(7):
            await ada.add_note(f"Tea number {number} of {collection}.", collection)
    assert (await ada.call("query_knowledge", query="tea"))["num_results"] == 15
    answer = await ada.call("query_knowledge", query="tea", collections=["one", "two"], n_results=3)
    assert answer["num_results"] == 6
    assert answer["collections_searched"] == ["one", "two"]
    assert answer["context"].count("collection one;") == answer["context"].count("collection two;") == 3
    assert (await ada.call("query_knowledge", query="tea", n_results=20))["num_results"] == 21


@pytest.mark.requirement("001.query_knowledge.order")
async def test_the_best_passages_come_first_across_collections(settings: Settings, parsers: SharedParsers) -> None:
    by_words = settings.model_copy(update={"embedding": "none"})
    engine = make_test_engine(
        by_words, parsers=parsers, open_model=lambda spec: ModelLoader(build_model_choice(by_words, spec))
    )
    engine.start()
    try:
        async with serve_app(make_http_app(engine, by_words)) as url:
            ada = await make_person(engine, url)
            await ada.add_note("Milk and sugar, and now and then tea.", "a")
            await ada.add_note("Oolong tea.", "b")
            answer = await ada.call("query_knowledge", query="oolong tea")
    finally:
        engine.close()
    assert answer["context"].index("Oolong tea.") < answer["context"].index("Milk and sugar")
    assert answer["notes"] == ["No embedding model is loaded; these are the hits by words alone."]


@pytest.mark.requirement("001.query_knowledge.collections")
async def test_a_collection_named_twice_is_searched_once(ada: Person) -> None:
    await ada.add_note("Tea is served at five.", "drinks")
    collection = await ada.engine.collection("drinks")
    names = ["drinks", str(collection.id), str(collection.uid), " drinks "]
    answer = await ada.call("query_knowledge", query="tea", collections=names)
    assert (answer["collections_searched"], answer["num_results"]) == (["drinks"], 1)
    assert (await ada.call("query_knowledge", query="tea", collections=[]))["num_results"] == 1


@pytest.mark.requirement("001.query_knowledge.nothing")
async def test_a_query_without_hits_is_no_error(ada: Person) -> None:
    assert await ada.call("query_knowledge", query="tea") == {
        "context": "", "num_results": 0, "collections_searched": "all accessible collections",
    }  # fmt: skip


@pytest.mark.requirement("001.query_knowledge.accessible")
async def test_a_query_searches_only_what_its_caller_may_read(ada: Person, bob: Person) -> None:
    await ada.add_note("Ada keeps her tea in the attic.", "attic")
    corpus = await bob.create_corpus("Cellar", "Bob keeps his tea in the cellar.")
    assert "cellar" not in (await ada.call("query_knowledge", query="tea"))["context"]
    assert "attic" not in (await bob.call("query_knowledge", query="tea"))["context"]
    await bob.engine.corpora.grant(corpus.id, ada.name, Permission.READ)
    answer = await ada.call("query_knowledge", query="tea")
    assert "attic" in answer["context"] and "cellar" in answer["context"]
    assert (await ada.call("query_knowledge", query="tea", collections=["cellar"]))["num_results"] == 1
    await bob.engine.corpora.revoke_grant(corpus.id, ada.name)
    assert "cellar" not in (await ada.call("query_knowledge", query="tea"))["context"]


@pytest.mark.requirement("001.query_knowledge.unknown_collection")
async def test_an_unknown_collection_is_named_in_the_error(ada: Person, bob: Person) -> None:
    await bob.add_note("Tea", "bobs")
    hers = await ada.call_refused("query_knowledge", query="tea", collections=["nowhere"])
    assert hers == (404, "resource.collection_not_found", "Collection 'nowhere' not found")
    his = await ada.call_refused("query_knowledge", query="tea", collections=["bobs"])
    assert his == (404, "resource.collection_not_found", "Collection 'bobs' not found")


@pytest.mark.requirement("001.query_knowledge.collection_name")
@pytest.mark.parametrize("name", ["", "  ", "../up", "a/b", "x" * 101, "two\nlines", "a,b"])
async def test_an_invalid_collection_name_is_refused(ada: Person, name: str) -> None:
    status, code, message = await ada.call_refused("query_knowledge", query="tea", collections=[name])
    assert (status, code) == (422, "validation.invalid_collection_name")
    assert "Invalid collection name" in message


@pytest.mark.requirement("001.query_knowledge.empty")
@pytest.mark.parametrize("query", ["", "   ", "\n\t", "?!"])
async def test_an_empty_query_is_refused_with_the_contracts_message(ada: Person, query: str) -> None:
    await ada.add_note("Tea is served at five.")
    for tool, more in (("query_knowledge", {}), ("query_corpus", {"corpus_id": 1 << 40})):
        if query.strip() and more:
            continue  # only the engine finds that it has no searchable term
        assert await ada.call_refused(tool, query=query, **more) == (
            422,
            "validation.empty_query",
            "Query cannot be empty",
        )


@pytest.mark.requirement("001.query_knowledge.parameters")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"query": "tea", "n_results": 0}, "n_results"),
        ({"query": "tea", "n_results": 21}, "at most 20"),
        ({"query": "tea", "n_results": -1}, "n_results"),
        ({"query": "tea", "n_results": 2.5}, "n_results"),
        ({"query": "tea", "n_results": "5"}, "n_results"),
        ({"query": "tea", "n_results": True}, "n_results"),
        ({"query": 5}, "query"),
        ({"query": ["tea"]}, "query"),
        ({"query": "x" * 10_001}, "query"),
        ({}, "query"),
        ({"query": "tea", "collections": "docs"}, "collections"),
        ({"query": "tea", "collections": [1]}, "collections"),
        ({"query": "tea", "collections": ["x"] * 101}, "collections"),
        ({"query": "tea", "limit": 5}, "Valid parameters: query, collections, n_results"),
        ({"query": "te\x00a"}, "query"),
    ],
)
async def test_an_invalid_argument_is_named_in_the_error(ada: Person, arguments: dict[str, object], said: str) -> None:
    status, code, message = read_refusal(
        await ada.post("tools/call", {"name": "query_knowledge", "arguments": arguments})
    )  # fmt: skip
    assert (status, code) == (422, "validation.invalid_parameter")
    assert said in message


@pytest.mark.requirement("001.query_knowledge.many")
async def test_one_query_searches_many_collections(new_account: MakeAccount) -> None:
    """More than one page of collections, one of which is deleted during the query."""
    ada = await new_account()
    for number in range(230):
        await ada.engine.create_collection(NewCollection(title=f"teas {number}"))
    await ada.add_note("Tea is served at five.", "teas-229")
    answers, _ = await asyncio.gather(
        ada.call("query_knowledge", query="tea"), ada.engine.remove_collection("teas-7")
    )  # fmt: skip
    assert answers["num_results"] == 1
