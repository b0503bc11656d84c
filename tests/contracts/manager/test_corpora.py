"""query_corpus, list_corpuses and the resources corpus://N, with their permissions."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from knowledge.model import CATEGORIES, CorpusEdit, Permission
from knowledge.toolsets.manager.tools import list_corpuses
from tests.contracts.manager.conftest import Person, Product, open_sdk_transport, read_refusal

LAW = "# Breach\n\nThe penalties for breach of contract are damages.\n"


@pytest.mark.requirement("001.query_corpus.answer")
async def test_a_corpus_is_queried_by_its_id(ada: Person) -> None:
    corpus = await ada.create_corpus("US Contract Law Reference", LAW, category="legal")
    await ada.add_note("The penalties for breach of silence are stern looks.", "house-rules")
    answer = await ada.call(
        "query_corpus", corpus_id=corpus.id, query="What are the penalties for breach of contract?", n_results=5
    )
    assert "The penalties for breach of contract are damages." in answer["context"]
    assert (answer["num_results"], answer["corpus_id"]) == (1, corpus.id)
    assert "silence" not in answer["context"]


@pytest.mark.requirement("001.query_corpus.limits")
async def test_five_results_by_default_and_twenty_at_most(ada: Person) -> None:
    corpus = await ada.create_corpus("Teas")
    for number in range(22):
        await ada.add_file(f"{number}.md", f"Tea number {number} is served at five.", corpus.id)
    assert (await ada.call("query_corpus", corpus_id=corpus.id, query="tea"))["num_results"] == 5
    assert (await ada.call("query_corpus", corpus_id=corpus.id, query="tea", n_results=20))["num_results"] == 20
    for wrong in (0, 21):
        status, code, _ = await ada.call_refused("query_corpus", corpus_id=corpus.id, query="tea", n_results=wrong)
        assert (status, code) == (422, "validation.invalid_parameter")


@pytest.mark.requirement("001.query_corpus.not_found")
async def test_a_private_corpus_of_another_looks_as_if_it_did_not_exist(ada: Person, bob: Person) -> None:
    corpus = await bob.create_corpus("Diary", "Dear diary, tea again.")
    await bob.add_note("A note of no corpus, with tea.", "unshared")
    unshared = await bob.engine.collection("unshared")
    messages = set()
    for number in (corpus.id, unshared.id, corpus.id + 1_000_000):
        status, code, message = await ada.call_refused("query_corpus", corpus_id=number, query="tea")
        assert (status, code) == (404, "resource.corpus_not_found")
        messages.add(message.replace(str(number), "N"))
    assert len(messages) == 1, "the message must not reveal that a corpus of another account exists"
    assert (await bob.call_refused("query_corpus", corpus_id=unshared.id, query="tea"))[0] == 404


@pytest.mark.requirement("001.query_corpus.not_approved")
async def test_a_public_corpus_waits_for_its_approval(ada: Person, bob: Person, product: Product) -> None:
    corpus = await bob.create_corpus("Open Law", LAW, category="legal", is_public=True)
    query = {"corpus_id": corpus.id, "query": "breach"}
    assert (await ada.call_refused("query_corpus", **query))[:2] == (403, "auth.corpus_not_approved")
    assert (await bob.call("query_corpus", **query))["num_results"] == 1
    await product.engine.corpora.approve(corpus.id)
    assert (await ada.call("query_corpus", **query))["num_results"] == 1
    assert "breach of contract" in (await ada.call("query_knowledge", query="breach"))["context"]
    await product.engine.corpora.revoke_approval(corpus.id)
    assert (await ada.call_refused("query_corpus", **query))[:2] == (403, "auth.corpus_not_approved")
    await bob.engine.corpora.edit(corpus.id, CorpusEdit(is_public=False))
    assert (await ada.call_refused("query_corpus", **query))[:2] == (404, "resource.corpus_not_found")


@pytest.mark.requirement("001.query_corpus.granted")
async def test_a_grant_makes_a_private_corpus_readable(ada: Person, bob: Person) -> None:
    corpus = await bob.create_corpus("Diary", "Dear diary, tea again.")
    await bob.engine.corpora.grant(corpus.id, ada.name, Permission.READ)
    assert (await ada.call("query_corpus", corpus_id=corpus.id, query="tea"))["num_results"] == 1


@pytest.mark.requirement("001.query_corpus.invalid_id")
@pytest.mark.parametrize("wrong", ["42", "abc", 0, -1, 1.5, True, [42], {"id": 42}, 2**63, "1; DROP TABLE corpora"])
async def test_an_invalid_corpus_id_is_refused(ada: Person, wrong: object) -> None:
    status, code, message = await ada.call_refused("query_corpus", corpus_id=wrong, query="tea")
    assert (status, code) == (422, "validation.invalid_corpus_id")
    assert message.startswith("Invalid corpus ID: ")


@pytest.mark.requirement("001.query_corpus.parameters")
async def test_both_arguments_are_required(ada: Person) -> None:
    for given, missing in (({"query": "tea"}, "corpus_id"), ({"corpus_id": 1}, "query")):
        status, code, message = await ada.call_refused("query_corpus", **given)
        assert (status, code, missing in message) == (422, "validation.invalid_parameter", True)


# -- listing ------------------------------------------------------------------------------------


@pytest.mark.requirement("001.list_corpuses.answer")
async def test_corpuses_are_listed_with_their_metadata(ada: Person, product: Product) -> None:
    corpus = await ada.create_corpus(
        "US Contract Law Reference", LAW, name="us_contract_law", category="legal", description="All of it",
        is_public=True,
    )  # fmt: skip
    await product.engine.corpora.approve(corpus.id)
    answer = await ada.call("list_corpuses", category="legal", approved_only=True)
    [shown] = [one for one in answer["corpuses"] if one["id"] == corpus.id]
    assert shown == {
        "id": corpus.id, "name": "us_contract_law", "display_name": "US Contract Law Reference", "category": "legal",
        "is_approved": True, "chunk_count": 1, "description": "All of it",
    }  # fmt: skip
    assert answer["count"] == len(answer["corpuses"])
    assert answer["filters"] == {"category": "legal", "approved_only": True}
    await product.engine.corpora.revoke_approval(corpus.id)  # other tests of this server do not see it


@pytest.mark.requirement("001.list_corpuses.approved_only")
async def test_only_approved_corpuses_are_listed_by_default(ada: Person, bob: Person) -> None:
    corpus = await ada.create_corpus("Draft", "Not yet.")
    assert corpus.id not in ids(await ada.call("list_corpuses"))
    everything = await ada.call("list_corpuses", approved_only=False)
    assert corpus.id in ids(everything)
    assert everything["filters"] == {"category": None, "approved_only": False}
    assert corpus.id not in ids(await bob.call("list_corpuses", approved_only=False))


@pytest.mark.requirement("001.list_corpuses.category")
async def test_corpuses_are_filtered_by_category(ada: Person) -> None:
    made = {category: (await ada.create_corpus(f"About {category}", category=category)).id for category in CATEGORIES}
    for category, number in made.items():
        found = ids(await ada.call("list_corpuses", category=category, approved_only=False))
        assert number in found and not found & (set(made.values()) - {number})
    status, code, message = await ada.call_refused("list_corpuses", category="gardening")
    assert (status, code) == (422, "validation.invalid_parameter")
    assert all(category in message for category in CATEGORIES)


@pytest.mark.requirement("001.list_corpuses.parameters")
async def test_filters_of_a_wrong_type_are_refused(ada: Person) -> None:
    for wrong in ({"approved_only": "yes"}, {"category": 5}, {"page": 2}):
        status, code, _ = await ada.call_refused("list_corpuses", **wrong)
        assert (status, code) == (422, "validation.invalid_parameter")


def test_the_tool_has_the_categories_of_the_engine() -> None:
    hint = get_type_hints(list_corpuses, localns={"Json": dict})["category"]
    assert get_args(get_args(hint)[0]) == CATEGORIES


def ids(answer: dict[str, list[dict[str, int]]]) -> set[int]:
    return {corpus["id"] for corpus in answer["corpuses"]}


# -- resources ----------------------------------------------------------------------------------


@pytest.mark.requirement("001.resources.list")
async def test_corpuses_are_resources(ada: Person, bob: Person) -> None:
    corpus = await ada.create_corpus("US Contract Law Reference", LAW, description="Comprehensive reference")
    await bob.create_corpus("Diary", "Tea")
    answer = await ada.post("resources/list", {})
    assert answer.status_code == 200
    listed = {one["uri"]: one for one in answer.json()["result"]["resources"]}
    assert listed[f"corpus://{corpus.id}"] == {
        "uri": f"corpus://{corpus.id}", "name": "Corpus: US Contract Law Reference",
        "description": "Comprehensive reference", "mimeType": "application/json",
    }  # fmt: skip
    assert "Corpus: Diary" not in {one["name"] for one in listed.values()}


@pytest.mark.requirement("001.resources.read")
async def test_a_corpus_has_a_page_in_markdown(ada: Person) -> None:
    corpus = await ada.create_corpus(
        "US Contract Law Reference", LAW, name="law", category="legal", description="All of it", version="2.1"
    )
    uri = f"corpus://{corpus.id}"
    [content] = (await ada.post("resources/read", {"uri": uri})).json()["result"]["contents"]
    assert (content["uri"], content["mimeType"]) == (uri, "text/markdown")
    text = content["text"]
    assert text.startswith(f"# US Contract Law Reference\n\n## Corpus Information\n- **ID**: {corpus.id}\n")
    for line in (
        "- **Name**: law", "- **Category**: legal", "- **Version**: 2.1", "- **Status**: not approved, private",
        f"- **Owner**: {ada.name}", "- **Documents**: 1", "- **Chunks**: 1", "- law.md (1 chunks)", "All of it",
    ):  # fmt: skip
        assert line in text.splitlines(), text
    for mode in ("modern", "legacy"):
        async with open_sdk_transport(f"{ada.url}/api/v1/mcp/", ada.key, mode) as transport:
            assert uri in [str(one.uri) for one in (await transport.client.list_resources()).resources]
            [page] = (await transport.client.read_resource(uri)).contents
            assert page.model_dump()["text"] == text
            templates = (await transport.client.list_resource_templates()).resource_templates
            assert [template.uri_template for template in templates] == [
                "corpus://{corpus_id}",
                "document://{uid}{?from,count}",
            ]


@pytest.mark.requirement("001.resources.refused")
async def test_a_forbidden_resource_is_refused_like_a_query(ada: Person, bob: Person) -> None:
    private = await bob.create_corpus("Diary", "Tea")
    public = await bob.create_corpus("Open", "Tea", is_public=True)
    for uri, expected in (
        (f"corpus://{private.id}", (404, "resource.corpus_not_found")),
        ("corpus://999999999", (404, "resource.corpus_not_found")),
        (f"corpus://{public.id}", (403, "auth.corpus_not_approved")),
        ("corpus://abc", (422, "validation.invalid_corpus_id")),
        ("corpus://0", (422, "validation.invalid_corpus_id")),
        ("corpus://", (422, "validation.invalid_corpus_id")),
        ("corpus://99999999999999999999", (422, "validation.invalid_corpus_id")),
    ):
        assert read_refusal(await ada.post("resources/read", {"uri": uri}))[:2] == expected, uri
    other = await ada.post("resources/read", {"uri": "knowledge://core"})
    assert other.json()["error"]["data"]["error_type"] == "resource_not_found"
