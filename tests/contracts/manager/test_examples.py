"""Runs the examples of contract 001 and the example clients in examples/mcp."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from knowledge.config import Settings
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.manager.conftest import Person, Product, make_person
from tests.contracts.transports import WAIT_SECONDS, Body

EXAMPLES = Path(__file__).parents[3] / "examples" / "mcp"
ADDRESS = "http://localhost:8000"

REGISTER = """
curl -X POST http://localhost:8000/api/v1/user/register \\
  -H "Content-Type: application/json" \\
  -d '{
    "username": "your_username",
    "password": "your_secure_password"
  }'
"""
LOGIN = """
curl -X POST http://localhost:8000/api/v1/user/login \\
  -H "Content-Type: application/json" \\
  -d '{
    "username": "your_username",
    "password": "your_secure_password"
  }'
"""
LIST_TOOLS = """
curl -X POST http://localhost:8000/api/v1/mcp/ \\
  -H "Content-Type: application/json" \\
  -H "X-API-Key: your-api-key" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "tools/list",
    "params": {},
    "id": 1
  }'
"""
QUERY = """
curl -X POST http://localhost:8000/api/v1/mcp/ \\
  -H "Content-Type: application/json" \\
  -H "X-API-Key: your-api-key" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "tools/call",
    "params": {
      "name": "query_knowledge",
      "arguments": {
        "query": "What is Python?",
        "n_results": 5
      }
    },
    "id": 2
  }'
"""
STREAMING = """
curl -X POST http://localhost:8000/api/v1/mcp/query/stream \\
  -H "Content-Type: application/json" \\
  -H "X-API-Key: your-api-key" \\
  -H "Accept: text/event-stream" \\
  -d '{
    "query": "What is Python?",
    "n_results": 5
  }'
"""


def shell(line: str, url: str, key: str = "") -> str:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl is not installed")
    line = line.replace(ADDRESS, url).replace("your-api-key", key).replace("curl ", "curl -sS ", 1)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    return done.stdout


@pytest.mark.requirement("001.start.curl")
@pytest.mark.requirement("001.start.register")
@pytest.mark.requirement("001.start.login")
async def test_the_quick_start_of_the_contract_runs(product: Product) -> None:
    made = json.loads(shell(REGISTER, product.url))
    assert made["username"] == "your_username"
    key: str = json.loads(shell(LOGIN, product.url))["api_key"]
    caller = await product.engine.accounts.find_by_key(key)
    assert caller is not None
    await Person("your_username", key, product.engine.as_caller(caller), product.url).add_note(
        "Python is a high-level programming language.", "docs"
    )
    listed = json.loads(shell(LIST_TOOLS, product.url, key))
    assert (listed["id"], len(listed["result"]["tools"])) == (1, 4)
    answer = json.loads(shell(QUERY, product.url, key))
    assert answer["id"] == 2
    assert answer["result"]["context"].startswith("Python is a high-level programming language.")
    assert answer["result"]["num_results"] == 1
    assert answer["result"]["collections_searched"] == "all accessible collections"
    lines = [line for line in shell(STREAMING, product.url, key).splitlines() if line]
    assert lines[0] == 'data: {"type": "metadata", "query": "What is Python?", "collections": ["docs"]}'
    assert lines[-1] == 'data: {"type": "done", "total_results": 1}'


MESSAGES: list[Body] = [
    {"name": "query_knowledge", "arguments": {
        "query": "How do I use async/await in Python?", "collections": ["python_docs", "tutorials"], "n_results": 3,
    }},
    {"name": "query_corpus", "arguments": {
        "corpus_id": 42, "query": "What are the penalties for breach of contract?", "n_results": 5,
    }},
    {"name": "list_collections"},
    {"name": "list_corpuses", "arguments": {"category": "legal", "approved_only": True}},
]  # fmt: skip


@pytest.mark.requirement("001.examples.messages")
async def test_each_message_of_the_contract_is_accepted(ada: Person) -> None:
    for collection in ("python_docs", "tutorials"):
        for number in range(4):
            await ada.add_note(f"How to await in Python, part {number} of {collection}.", collection)
    corpus = await ada.create_corpus("US Contract Law Reference", "Penalties for breach.", category="legal")
    answers = []
    for params in MESSAGES:
        meant = json.loads(json.dumps(params).replace('"corpus_id": 42', f'"corpus_id": {corpus.id}'))
        answers.append((await ada.post("tools/call", meant)).json()["result"])
    knowledge, of_corpus, collections, corpuses = answers
    assert (knowledge["num_results"], knowledge["collections_searched"]) == (6, ["python_docs", "tutorials"])
    assert (of_corpus["num_results"], of_corpus["corpus_id"]) == (1, corpus.id)
    assert collections["count"] == 3
    assert corpuses["filters"] == {"category": "legal", "approved_only": True}


# -- the example clients ------------------------------------------------------------------------

USE_THE_CLIENT = """
from python_client import KnowledgeManagerMCPClient

client = KnowledgeManagerMCPClient(
    base_url="http://localhost:8000",
    api_key="your-api-key",
)

# Query knowledge
result = client.query_knowledge("What is Python?", n_results=5)
print(result["context"])

# List collections
collections = client.list_collections()
print(f"Found {collections['count']} collections")
"""
USE_THE_STREAM = """
import asyncio
from streaming_client import stream_query

async def main():
    async for event in stream_query(
        base_url="http://localhost:8000",
        api_key="your-api-key",
        query="What is Python?",
    ):
        if event["type"] == "result":
            print(f"Result: {event['text'][:100]}...")

asyncio.run(main())
"""


def python(script: str, who: Person, *arguments: str) -> str:
    environment = {
        **os.environ, "PYTHONPATH": str(EXAMPLES), "KNOWLEDGE_MANAGER_URL": who.url,
        "KNOWLEDGE_MANAGER_API_KEY": who.key,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "error", *([script] if script.endswith(".py") else ["-c", script]), *arguments],
        capture_output=True, text=True, timeout=WAIT_SECONDS, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("001.examples.python_client")
async def test_the_python_client_is_used_as_the_contract_shows(ada: Person) -> None:
    await ada.add_note("Python is a language.", "docs")
    said = python(USE_THE_CLIENT.replace(ADDRESS, ada.url).replace("your-api-key", ada.key), ada)
    assert said.startswith("Python is a language.") and "Found 1 collections" in said
    assert "Python is a language." in python(str(EXAMPLES / "python_client.py"), ada, "What is Python?")


@pytest.mark.requirement("001.examples.python_client_verbs")
async def test_the_python_client_supports_every_tool_and_resource(ada: Person) -> None:
    corpus = await ada.create_corpus("Law", "Penalties for breach.", category="legal")
    script = f"""
from python_client import KnowledgeManagerError, KnowledgeManagerMCPClient

with KnowledgeManagerMCPClient(base_url="{ada.url}", api_key="{ada.key}") as client:
    print([tool["name"] for tool in client.list_tools()])
    print(client.query_corpus({corpus.id}, "breach")["num_results"])
    print(client.list_corpuses("legal", approved_only=False)["count"])
    print(client.list_resources()[0]["uri"])
    print(client.read_resource("corpus://{corpus.id}").splitlines()[0])
    try:
        client.query_knowledge("")
    except KnowledgeManagerError as error:
        print(error.status, error.error_code, error)
with KnowledgeManagerMCPClient(base_url="{ada.url}", api_key="wrong") as client:
    try:
        client.list_collections()
    except KnowledgeManagerError as error:
        print(error.status, error.error_code, error)
"""
    assert python(script, ada).splitlines() == [
        "['query_knowledge', 'query_corpus', 'list_collections', 'list_corpuses']", "1", "1", f"corpus://{corpus.id}",
        "# Law", "422 validation.empty_query Query cannot be empty",
        "401 auth.invalid_api_key Invalid or missing API key",
    ]  # fmt: skip


@pytest.mark.requirement("001.examples.retry")
async def test_the_python_client_retries_temporary_errors(ada: Person) -> None:
    script = """
from python_client import get_backoff_delay, should_retry

for code in ("server.internal_error", "rate_limit.exceeded", "auth.invalid_api_key", "validation.empty_query",
             "resource.corpus_not_found", "file.too_large", ""):
    print(code, should_retry(code), [get_backoff_delay(code, attempt) for attempt in (0, 1, 2, 3, 9)])
"""
    said = python(script, ada).splitlines()
    assert said[:2] == [f"{code} True [1, 2, 4, 8, 30]" for code in ("server.internal_error", "rate_limit.exceeded")]
    assert all(line.endswith("False [0, 0, 0, 0, 0]") for line in said[2:])


@pytest.mark.requirement("001.examples.streaming_client")
async def test_the_streaming_client_is_used_as_the_contract_shows(ada: Person) -> None:
    await ada.add_note("Python is a language.", "docs")
    said = python(USE_THE_STREAM.replace(ADDRESS, ada.url).replace("your-api-key", ada.key), ada)
    assert said == "Result: Python is a language....\n"
    shown = python(str(EXAMPLES / "streaming_client.py"), ada, "What is Python?").splitlines()
    assert shown[0] == "Searching docs" and shown[-1] == "1 results in all"
    stranger = replace(ada, key="wrong")
    refused = python(str(EXAMPLES / "streaming_client.py"), stranger, "What is Python?")
    assert refused == "auth.invalid_api_key: Invalid API key\n"


@pytest.mark.requirement("001.examples.claude_desktop")
async def test_claude_desktops_configuration_starts_the_tools_for_one_account(
    tmp_path: Path, parsers: SharedParsers
) -> None:
    folder = tmp_path / "data"
    engine = make_test_engine(Settings(data=folder, workers=1, embedding="none"), parsers=parsers)
    engine.start()
    ada, bob = await make_person(engine, ""), await make_person(engine, "")
    await ada.add_note("Ada's tea is in the attic.", "attic")
    await bob.add_note("Bob's tea is in the cellar.", "cellar")
    engine.close()
    written: Any = json.loads((EXAMPLES / "claude_desktop_config.json").read_text("utf-8"))
    [entry] = written["mcpServers"].values()
    assert entry["env"] == {"KNOWLEDGE_MANAGER_API_KEY": "your-api-key"}
    command = shutil.which(entry["command"], path=str(Path(sys.executable).parent)) or entry["command"]
    environment = {
        **os.environ, "KNOWLEDGE_DATA": str(folder), "KNOWLEDGE_EMBEDDING": "none",
        "KNOWLEDGE_MANAGER_API_KEY": ada.key,
    }  # fmt: skip
    started = StdioServerParameters(command=command, args=entry["args"], env=environment)
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(started, errlog=log)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                "query_knowledge", "query_corpus", "list_collections", "list_corpuses",
            ]  # fmt: skip
            answer: Any = (await client.call_tool("query_knowledge", {"query": "tea"})).structured_content
            assert "attic" in answer["context"] and "cellar" not in answer["context"]


@pytest.mark.requirement("001.start.docs")
async def test_the_openapi_page_describes_the_stream(product: Product) -> None:
    async with httpx.AsyncClient(base_url=product.url) as http:
        assert (await http.get("/docs")).status_code == 200
        described = (await http.get("/openapi.json")).json()["paths"]
    assert "/api/v1/mcp/query/stream" in described and "/api/v1/user/register" in described
