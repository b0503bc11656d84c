"""search and fetch, as ChatGPT connectors and deep research call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.errors import NotFound
from knowledge.model import CollectionEdit, NewNote
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.mcp.toolset_selection import ToolsetSelection
from knowledge.testing import SharedParsers, make_test_engine
from knowledge.toolsets import make_registry
from knowledge.toolsets.base import ToolsetView
from knowledge.toolsets.values import ServerLinks
from tests.contracts.app_server import make_app, serve_app, serve_app_in_thread
from tests.contracts.transports import (
    WAIT_SECONDS,
    PlainTransport,
    StdioTransport,
    Transport,
    hold_open,
    open_sdk_transport,
)

PATH = "/mcp/connector"
LIMIT = 6000
GUIDE = "# Tea guide\n\n## Kettles\n\nA kettle boils the water.\n\n## Cups\n\nA cup holds the tea.\n"
LONG = "\n\n".join(
    f"Paragraph {number} is about sailing. " + f'Knot {number} is "tied"\twith care. ' * 12 for number in range(60)
)


@pytest.fixture(scope="module")
def engine(parsers: SharedParsers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    made = make_test_engine(Settings(data=tmp_path_factory.mktemp("data"), workers=1), parsers=parsers)
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def url(engine: LocalEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("files")
    with serve_app_in_thread(make_app(engine, Settings(data=folder, answer_chars=LIMIT), folder)) as address:
        yield address


NOTES = {
    "guide": NewNote(text=GUIDE, title="Tea guide", source_path="/notes/tea.md"),
    "page": NewNote(text="Coffee is roasted.", title="Coffee", url="https://example.org/coffee"),
    "script": NewNote(text="Cocoa is sweet.\u202e", title="Cocoa\u200b", url="javascript:alert(1)"),
    "long": NewNote(text=LONG, title="Sailing"),
}


@pytest.fixture(scope="module")
def documents(engine: LocalEngine) -> dict[str, UUID]:
    """The ids of the documents that all tests read, by name."""

    async def add(note: NewNote) -> UUID:
        ended = await engine.wait((await engine.add(note)).id, WAIT_SECONDS)
        assert ended.document_id is not None, ended
        return (await engine.document(ended.document_id)).uid

    async def add_all() -> dict[str, UUID]:
        return {name: await add(note) for name, note in NOTES.items()}

    return asyncio.run(add_all())


@pytest.fixture(params=["plain", "modern", "legacy"])
async def client(request: pytest.FixtureRequest, url: str, documents: dict[str, UUID]) -> AsyncIterator[Transport]:
    if request.param == "plain":
        async with httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as http:
            yield PlainTransport(http, PATH)
        return
    async with hold_open(open_sdk_transport(url + PATH, request.param)) as there:
        yield there


@pytest.fixture
async def tools(url: str, documents: dict[str, UUID]) -> AsyncIterator[PlainTransport]:
    """The tools over plain HTTP, for behaviour that is the same on every transport."""
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as http:
        yield PlainTransport(http, PATH)


@pytest.mark.requirement("connector.search.answer", "connector.search.title", "connector.url.page")
async def test_a_search_answers_ids_titles_and_addresses(
    client: Transport, url: str, documents: dict[str, UUID]
) -> None:
    answer = await client.call("search", query="Which kettle boils the water?")
    assert set(answer) == {"results"} and 1 <= len(answer["results"]) <= 10
    assert all(set(result) <= {"id", "title", "url", "removed_characters"} for result in answer["results"])
    first = answer["results"][0]
    uid, _, chunk = first["id"].partition(":")
    assert UUID(uid) == documents["guide"]
    assert first == {"id": f"{uid}:{chunk}", "title": "Tea guide > Kettles", "url": f"{url}/d/{uid}?at={chunk}"}


@pytest.mark.requirement("connector.fetch.answer", "connector.fetch.start")
async def test_a_result_is_fetched_by_its_id(client: Transport, url: str, documents: dict[str, UUID]) -> None:
    found = (await client.call("search", query="cup that holds the tea"))["results"][0]
    answer = await client.call("fetch", id=found["id"])
    assert set(answer) == {"id", "title", "text", "url", "metadata"}
    assert (answer["id"], answer["title"], answer["url"]) == (found["id"], "Tea guide", found["url"])
    assert "A cup holds the tea." in answer["text"]
    facts = answer["metadata"]
    assert (facts["source"], facts["collection"], facts["format"]) == ("/notes/tea.md", "documents", "note")
    assert "next_id" not in facts
    whole = await client.call("fetch", id=str(documents["guide"]))
    assert whole["id"] == facts["first_id"] == f"{documents['guide']}:0"
    assert "A kettle boils" in whole["text"] and "A cup holds the tea." in whole["text"]


@pytest.mark.requirement("connector.fetch.parts")
async def test_a_long_document_is_read_in_parts_that_hold_every_passage(
    tools: PlainTransport, engine: LocalEngine, documents: dict[str, UUID]
) -> None:
    wanted, texts = f"{documents['long']}:0", list[str]()
    while wanted:
        result = (await tools.rpc("tools/call", {"name": "fetch", "arguments": {"id": wanted}}))["result"]
        assert len(result["content"][0]["text"]) <= LIMIT
        part = result["structuredContent"]
        assert part["id"] == wanted and "truncated" not in part
        texts.append(part["text"])
        wanted = part["metadata"].get("next_id")
    assert len(texts) > 3
    assert "\n\n".join(texts) == "\n\n".join(chunk.text for chunk in await engine.chunks(documents["long"]))


@pytest.mark.requirement("connector.url.own")
async def test_a_page_of_the_web_has_its_own_address(tools: PlainTransport) -> None:
    result = (await tools.call("search", query="roasted coffee"))["results"][0]
    assert result["url"] == (await tools.call("fetch", id=result["id"]))["url"] == "https://example.org/coffee"


@pytest.mark.requirement("connector.url.own", "answers.hostile.hidden")
async def test_no_other_scheme_and_no_hidden_character_reaches_a_client(
    tools: PlainTransport, url: str, documents: dict[str, UUID]
) -> None:
    result = (await tools.call("search", query="sweet cocoa"))["results"][0]
    assert result == {
        "id": f"{documents['script']}:0", "title": "Cocoa", "url": f"{url}/d/{documents['script']}?at=0",
        "removed_characters": {"U+200B": 1},
    }  # fmt: skip
    answer = await tools.call("fetch", id=result["id"])
    assert answer["text"].rstrip() == "Cocoa is sweet."
    assert answer["removed_characters"]["U+202E"] >= 1


@pytest.mark.requirement("connector.fetch.refusals")
@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ("{guide}:99", "not_found"),
        ("0b0c1d2e-1111-4222-8333-444455556666:0", "not_found"),
        ("tea", "invalid_parameter"),
        ("{guide}:-1", "invalid_parameter"),
        ("{guide}:1:2", "invalid_parameter"),
        ("{guide}:" + "9" * 30, "invalid_parameter"),
        ("{guide}:\u0663", "invalid_parameter"),
        ("", "invalid_parameter"),
    ],
)
async def test_a_wrong_id_is_refused_with_what_to_do(
    tools: PlainTransport, documents: dict[str, UUID], wanted: str, error: str
) -> None:
    answer = await tools.call("fetch", id=wanted.format(guide=documents["guide"]))
    assert answer["error"] == error
    if wanted:
        assert "Call search" in answer["hint"]


@pytest.mark.requirement("connector.search.empty")
async def test_a_search_without_a_match_answers_no_results(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url, httpx.AsyncClient(base_url=url) as http:
        assert await PlainTransport(http, PATH).call("search", query="tea") == {"results": []}
        assert (await PlainTransport(http, PATH).call("search", query="  "))["error"] == "invalid_parameter"


@pytest.mark.requirement("connector.search.trusted", "connector.url.page", "connector.url.off")
async def test_the_settings_of_the_server_hold(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    for collection in ("vault", "street"):
        await local.wait((await local.add(NewNote(text=f"Tea of the {collection}.", collection=collection))).id, 30)
    await local.edit_collection("vault", CollectionEdit(trusted=True))
    chosen = {"trusted_only": True, "public_url": "https://kb.example.org/base/"}
    for page, address in ((True, "https://kb.example.org/base/d/"), (False, "https://kb.example.org/base/api/v1/doc")):
        served = make_app(local, settings.model_copy(update={**chosen, "page": page}), tmp_path)
        async with serve_app(served) as url, httpx.AsyncClient(base_url=url) as http:
            [result] = (await PlainTransport(http, PATH).call("search", query="tea"))["results"]
            assert result["title"] == "Tea of the vault." and result["url"].startswith(address)


@pytest.mark.requirement("connector.fetch.refusals")
async def test_an_account_reads_its_own_documents_alone(local: LocalEngine, settings: Settings) -> None:
    uids: dict[str, UUID] = {}
    keys: dict[str, str] = {}
    for name in ("ada", "bob"):
        await local.accounts.add(name)
        keys[name] = (await local.accounts.issue_key(name, "test")).secret
        caller = await local.accounts.find_by_key(keys[name])
        assert caller is not None
        own = local.as_caller(caller)
        ended = await own.wait((await own.add(NewNote(text=f"Tea of {name}."))).id, WAIT_SECONDS)
        assert ended.document_id is not None
        uids[name] = (await own.document(ended.document_id)).uid
    async with (
        serve_app(make_http_app(local, settings)) as url,
        httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {keys['ada']}"}) as http,
    ):
        tools = PlainTransport(http, PATH)
        [result] = (await tools.call("search", query="tea"))["results"]
        assert result["id"] == f"{uids['ada']}:0"
        assert (await tools.call("fetch", id=result["id"]))["text"] == "Tea of ada."
        assert (await tools.call("fetch", id=f"{uids['bob']}:0"))["error"] == "not_found"
        assert (await http.get(result["url"])).status_code == 200


@pytest.mark.requirement("connector.tools.list")
async def test_the_tools_are_read_only_and_take_one_string(client: Transport) -> None:
    listed = {tool["name"]: tool for tool in (await client.rpc("tools/list"))["result"]["tools"]}
    assert {name: list(tool["inputSchema"]["properties"]) for name, tool in listed.items()} == {
        "search": ["query"], "fetch": ["id"],
    }  # fmt: skip
    assert all(tool["annotations"]["readOnlyHint"] for tool in listed.values())


@pytest.mark.requirement("connector.tools.standalone")
async def test_the_tools_are_at_their_own_address_alone(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as http:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        for headers in ({}, {"X-MCP-Toolsets": "all"}, {"X-MCP-Toolsets": "connector,kb"}):
            tools = (await http.post("/mcp", json=message, headers=headers)).json()["result"]["tools"]
            assert tools and not {"search", "fetch"} & {tool["name"] for tool in tools}
        for path in (PATH, f"{PATH}/readonly", "/connector/mcp"):
            tools = (await http.post(path, json=message)).json()["result"]["tools"]
            assert [tool["name"] for tool in tools] == ["search", "fetch"]


@pytest.mark.requirement("connector.tools.standalone")
@pytest.mark.parametrize(
    ("setting", "allowed", "default", "over_stdio"),
    [
        ("", True, ("knowledge",), ("knowledge",)),
        ("all", True, ("knowledge", "manager", "rag", "sage", "kb"), ("knowledge", "manager", "rag", "sage", "kb")),
        ("kb,connector", True, ("kb",), ("kb", "connector")),
        ("connector", True, (), ("connector",)),
        ("kb", False, ("kb",), ("kb",)),
    ],
)
def test_the_toolset_must_be_named_to_be_shown(
    setting: str, allowed: bool, default: tuple[str, ...], over_stdio: tuple[str, ...]
) -> None:
    registry = make_registry()
    selection = ToolsetSelection.from_setting(setting, registry.names, registry.standalone_names)
    assert ("connector" in selection.allowed) is allowed
    assert (selection.default, selection.over_stdio) == (default, over_stdio)
    if allowed:
        assert selection.select("connector", False, {}) == ToolsetView(("connector",))
    if not default:
        with pytest.raises(NotFound) as caught:
            selection.select(None, False, {})
        assert "/mcp/connector" in caught.value.hint


@pytest.mark.requirement("connector.url.off")
def test_a_passage_without_a_web_address_has_the_uri_of_its_resource() -> None:
    uid = uuid4()
    assert ServerLinks().link_passage(uid, 3) == f"document://{uid}?from=3&count=8"


@pytest.mark.requirement("connector.tools.standalone")
def test_a_stdio_server_has_the_tools_if_they_are_named(tmp_path: Path) -> None:
    process = StdioTransport(tmp_path, KNOWLEDGE_TOOLSETS="kb,connector", KNOWLEDGE_EMBEDDING="none")
    try:
        names = [tool["name"] for tool in process.request("tools/list")["result"]["tools"]]
        assert names[-2:] == ["search", "fetch"] and "kb_search" in names
        missing = process.request("tools/call", {"name": "fetch", "arguments": {"id": f"{uuid4()}:0"}})
        assert missing["result"]["structuredContent"]["error"] == "not_found"
    finally:
        process.close()
