"""document:// resources: reading on from a hit, and notices of changes, through the official client in both eras."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import DocumentEdit, NewNote
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.mcp import subscriptions
from tests.contracts.app_server import make_app, serve_app
from tests.contracts.test_answer_budget import add_note, write_paragraphs
from tests.contracts.transports import (
    WAIT_SECONDS,
    PlainTransport,
    SdkTransport,
    WebSocketTransport,
    open_sdk_transport,
)

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
OLDER_ERA = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
LINK = re.compile(r"document://[0-9a-f-]{36}\?from=\d+&count=\d+")


async def read_text(client: SdkTransport, uri: str) -> str:
    [content] = (await client.client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    return content.text


def quoted_in(text: str) -> str:
    """Return the text between the boundaries that the first lines name."""
    found = re.search(r"^The text between the lines BEGIN (\w{16}) and END \1 is quoted", text, re.MULTILINE)
    assert found is not None
    begin, end = f"\nBEGIN {found[1]}\n", f"\nEND {found[1]}\n"
    assert text.count(begin) == text.count(end) == 1
    return text[text.index(begin) + len(begin) : text.index(end)]


@ERAS
@pytest.mark.requirement("answers.documents.link")
@pytest.mark.parametrize(
    ("toolset", "tool", "arguments"),
    [
        ("knowledge", "knowledge-search", {"query": "kettles step 17", "top_k": 1}),
        ("rag", "search_knowledge_base", {"query": "kettles step 17", "match_count": 1}),
        ("kb", "kb_search", {"query": "kettles step 17", "top": 1}),
        ("manager", "query_knowledge", {"query": "kettles step 17", "n_results": 1}),
    ],
)
async def test_the_link_of_a_hit_leads_to_the_passages_around_it(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str, toolset: str, tool: str, arguments: dict[str, Any]
) -> None:
    note = await add_note(local, write_paragraphs("tea", 30))
    chunks = [chunk.text for chunk in await local.chunks(note)]
    async with (
        serve_app(make_app(local, settings, tmp_path)) as url,
        open_sdk_transport(f"{url}/mcp/{toolset}", era) as client,
    ):
        [hit] = (answer := await client.call(tool, **arguments)).get("results") or answer["sources"]
        assert LINK.fullmatch(hit["resource"])
        text = await read_text(client, hit["resource"])
    first, last = (int(number) for number in re.findall(r"\d+", text)[:2])
    assert quoted_in(text) == "\n\n".join(chunks[first : last + 1])
    passage = str(hit.get("chunk_text") or hit.get("text") or answer["context"]).strip().removesuffix("...")
    assert passage[:100] in quoted_in(text)


@ERAS
@pytest.mark.requirement("answers.documents.read")
@pytest.mark.parametrize("toolset", ["knowledge", "manager", "rag", "sage", "kb", "connector"])
async def test_a_document_is_read_in_parts_in_every_view(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str, toolset: str
) -> None:
    note = await add_note(local, write_paragraphs("tea", 40), title="About tea")
    document = await local.document(note)
    whole = "\n\n".join(chunk.text for chunk in await local.chunks(note))
    limited = settings.model_copy(update={"answer_chars": 8000})
    parts: list[str] = []
    uri = f"document://{document.uid}"
    async with (
        serve_app(make_app(local, limited, tmp_path)) as url,
        open_sdk_transport(f"{url}/mcp/{toolset}", era) as client,
    ):
        templates = (await client.client.list_resource_templates()).resource_templates
        assert "document://{uid}{?from,count}" in [template.uri_template for template in templates]
        while uri:
            text = await read_text(client, uri)
            assert len(text) <= 8000
            assert str(document.uid) in text and '"title": "About tea"' in text
            parts.append(quoted_in(text))
            following = re.search(rf"\nNext part: ({LINK.pattern})\Z", text)
            uri = following[1] if following else ""
        assert text.endswith("\nThis is the end of the document.")
        assert "none from index 9999" in await read_text(client, f"document://{document.uid}?from=9999")
    assert "\n\n".join(parts) == whole and len(parts) >= 3


@ERAS
@pytest.mark.requirement("answers.documents.not_found")
async def test_what_does_not_exist_or_is_anothers_is_not_found(
    local: LocalEngine, settings: Settings, era: str
) -> None:
    note = await add_note(local, "The owner's secret.")
    owned = (await local.document(note)).uid
    await local.accounts.add("ada")
    key = (await local.accounts.issue_key("ada", "test")).secret
    async with (
        serve_app(make_http_app(local, settings)) as url,
        httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=WAIT_SECONDS) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http), mode="legacy" if era == "legacy" else "auto"
        ) as client,
    ):
        refusals = []
        for uri in (f"document://{owned}", "document://00000000-0000-0000-0000-000000000000", "document://x/y"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            refusals.append((refused.value.code, refused.value.data["error_type"]))
        assert set(refusals) == {(-32002 if era == "legacy" else -32602, "resource_not_found")}
        with pytest.raises(MCPError, match="'from': must be a number"):
            await client.read_resource(f"document://{owned}?from=-1")


@pytest.mark.requirement("answers.documents.get")
async def test_the_document_of_contract_002_says_how_to_read_its_text(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    uid = str((await local.document(await add_note(local, "Tea."))).uid)
    async with (
        serve_app(make_app(local, settings, tmp_path)) as url,
        open_sdk_transport(f"{url}/mcp/rag", "modern") as client,
    ):
        answer = await client.call("manage_document", action="get", document_id=uid)
        assert answer["resource"] == f"document://{uid}" and answer["resource"] in answer["hint"]
        assert quoted_in(await read_text(client, answer["resource"])) == "Tea."


# -- notices of changes ---------------------------------------------------------------------------


class Notices:
    """Collects the notifications of a client of the older era."""

    def __init__(self) -> None:
        self.uris: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.uris.put_nowait(str(message.params.uri))

    async def next(self) -> str:
        return await asyncio.wait_for(self.uris.get(), WAIT_SECONDS)


@asynccontextmanager
async def open_legacy_client(url: str, notices: Notices) -> AsyncIterator[Client]:
    async with Client(streamable_http_client(f"{url}/mcp"), mode="legacy", message_handler=notices) as client:
        yield client


@OLDER_ERA
@pytest.mark.requirement("answers.documents.subscribe")
async def test_a_session_hears_when_a_document_is_edited_replaced_or_removed(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    note = await add_note(local, "Tea.", source_path="tea.md")
    other = await add_note(local, "Coffee.")
    uri = f"document://{(await local.document(note)).uid}"
    notices = Notices()
    async with serve_app(make_app(local, settings, tmp_path)) as url, open_legacy_client(url, notices) as client:
        resources = client.server_capabilities.resources
        assert resources is not None and resources.subscribe
        await client.subscribe_resource(uri)
        await local.edit(other, DocumentEdit(title="Not watched"))
        await local.edit(note, DocumentEdit(metadata={"rating": 5}))
        assert await notices.next() == uri
        replaced = await local.wait((await local.add(NewNote(text="Green tea.", source_path="tea.md"))).id, 30)
        assert replaced.document_id == note
        assert await notices.next() == uri
        while not notices.uris.empty():
            notices.uris.get_nowait()
        await client.unsubscribe_resource(uri)
        await local.edit(note, DocumentEdit(metadata={"rating": 1}))
        await client.subscribe_resource(uri)
        await local.remove(note)
        assert await notices.next() == uri
        with pytest.raises(MCPError, match="not found"):
            await client.subscribe_resource(uri)
        with pytest.raises(MCPError, match="Cannot subscribe"):
            await client.subscribe_resource("corpus://1")


@OLDER_ERA
@pytest.mark.requirement("answers.documents.bounded")
async def test_subscriptions_are_bounded_and_end_with_their_session(
    local: LocalEngine, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MAX_PER_SESSION", 2)
    uris = [f"document://{(await local.document(await add_note(local, f'Tea {n}.'))).uid}" for n in range(3)]
    servers: list[Any] = []
    app = make_app(local, settings, tmp_path, extend=servers.append)
    async with serve_app(app) as url:
        async with open_legacy_client(url, Notices()) as client:
            for uri in (*uris[:2], uris[0]):
                await client.subscribe_resource(uri)
            with pytest.raises(MCPError, match="watches 2 documents"):
                await client.subscribe_resource(uris[2])
            await client.unsubscribe_resource(uris[0])
            await client.subscribe_resource(uris[2])
            assert servers[0].watches.count == 2
        await wait_until(lambda: servers[0].watches.count == 0)


async def test_a_session_that_is_gone_and_a_revoked_key_are_not_watched_any_longer(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "POLL_SECONDS", 0.01)
    await local.accounts.add("ada")
    issued = await local.accounts.issue_key("ada", "test")
    caller = await local.accounts.find_by_key(issued.secret)
    assert caller is not None
    ada, changes = local.as_caller(caller), list[str]()
    note = (await ada.wait((await ada.add(NewNote(text="Tea."))).id, WAIT_SECONDS)).document_id
    assert note is not None
    uri = f"document://{(await ada.document(note)).uid}"
    watches = subscriptions.DocumentWatches()

    async def record() -> None:
        changes.append(uri)

    gone = subscriptions.SessionSubscriptions(is_open=lambda: False)
    for session in (gone, subscriptions.SessionSubscriptions()):
        work = await watches.subscribe(session, caller, ada, uri, record)
        if session is not gone:
            await ada.accounts.revoke_key(issued.key.id)
        async with asyncio.timeout(WAIT_SECONDS):
            await work()
        assert (session.watches, watches.count, changes) == ({}, 0, [])


async def wait_until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.requirement("answers.documents.listen")
async def test_a_stream_of_the_stateless_era_brings_changes_of_readable_documents_only(
    local: LocalEngine, settings: Settings
) -> None:
    secret = await add_note(local, "Hidden.")
    hidden = f"document://{(await local.document(secret)).uid}"
    await local.accounts.add("ada")
    key = (await local.accounts.issue_key("ada", "test")).secret
    caller = await local.accounts.find_by_key(key)
    assert caller is not None
    ada = local.as_caller(caller)
    note = (await ada.wait((await ada.add(NewNote(text="Tea."))).id, WAIT_SECONDS)).document_id
    assert note is not None
    uri = f"document://{(await ada.document(note)).uid}"
    async with (
        serve_app(make_http_app(local, settings)) as url,
        httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=WAIT_SECONDS) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        resources = client.server_capabilities.resources
        assert resources is not None and resources.subscribe
        async with client.listen(resource_subscriptions=[uri, hidden, "corpus://1"]) as stream:
            assert stream.honored.resource_subscriptions == [uri]
            await local.edit(secret, DocumentEdit(metadata={"rating": 1}))
            await ada.edit(note, DocumentEdit(metadata={"rating": 5}))
            event = await asyncio.wait_for(anext(aiter(stream)), WAIT_SECONDS)
            assert event == ResourceUpdated(uri)


@pytest.mark.requirement("answers.documents.subscribe")
async def test_a_websocket_hears_of_changes_and_a_single_request_is_told_that_it_needs_a_session(
    local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    import websockets

    note = await add_note(local, "Tea.")
    uri = f"document://{(await local.document(note)).uid}"
    async with serve_app(make_app(local, settings, tmp_path)) as url:
        async with websockets.connect(f"{url.replace('http', 'ws', 1)}/mcp") as socket:
            transport = WebSocketTransport(socket)
            assert "result" in await transport.rpc("resources/subscribe", {"uri": uri})
            await local.edit(note, DocumentEdit(metadata={"rating": 5}))
            notice = await transport.receive()
            assert (notice["method"], notice["params"]["uri"]) == ("notifications/resources/updated", uri)
        async with httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as http:
            plain = PlainTransport(http)
            refused = await plain.rpc("resources/subscribe", {"uri": uri})
            assert "needs a session" in refused["error"]["message"]
            listening = {"notifications": {"resourceSubscriptions": [uri]}}
            assert "error" in await plain.rpc("subscriptions/listen", listening)
