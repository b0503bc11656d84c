"""Contract 003: the four tools as clients see them."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge.toolsets.sage.token_budget import CountTokens
from knowledge.toolsets.sage.tools import tools as toolset
from tests.contracts.sage.conftest import Tools

LAYERS = ["core", "guidelines", "frameworks", "practices", "all"]
TASKS = ["coding", "debugging", "reviewing", "planning", "documenting"]

SCHEMAS: dict[str, tuple[dict[str, dict[str, Any]], list[str]]] = {
    "sage_get_knowledge": (
        {
            "layer": {"type": "string", "enum": LAYERS, "description": "Knowledge layer to retrieve"},
            "topic": {"type": "string", "description": "Specific topic within the layer"},
            "timeout_ms": {"type": "integer", "default": 2000, "description": "Timeout in milliseconds"},
        },
        ["layer"],
    ),
    "sage_search": (
        {
            "query": {"type": "string", "description": "Search query"},
            "limit": {"type": "integer", "default": 10, "description": "Maximum number of results"},
            "layer": {"type": "string", "enum": LAYERS, "default": "all", "description": "Layer to search in"},
        },
        ["query"],
    ),
    "sage_get_context": (
        {
            "task_type": {"type": "string", "enum": TASKS, "description": "Type of task"},
            "language": {"type": "string", "default": "python", "description": "Programming language context"},
            "token_budget": {"type": "integer", "default": 4000, "description": "Maximum tokens for response"},
        },
        ["task_type"],
    ),
    "sage_info": ({}, []),
}


@pytest.mark.requirement("003.tools.schemas")
def test_the_schemas_match_the_contract() -> None:
    assert [tool.name for tool in toolset.tools] == list(SCHEMAS)
    for tool in toolset.tools:
        properties, required = SCHEMAS[tool.name]
        schema: Any = tool.schema
        assert schema.get("required", []) == required
        assert set(schema["properties"]) == set(properties)
        for name, expected in properties.items():
            assert expected.items() <= schema["properties"][name].items(), (tool.name, name)
        assert tool.annotations["readOnlyHint"] is True


@pytest.mark.requirement("003.get.layer")
async def test_a_layer_is_returned_as_one_text(tools: Tools) -> None:
    answer = await tools.call("sage_get_knowledge", layer="core", timeout_ms=2000)
    assert answer["content"].startswith("# Core Principles")
    assert "# Default Values" in answer["content"]
    metadata = answer["metadata"]
    assert metadata["layer"] == "core"
    assert metadata["files_loaded"] == len(metadata["files"]) == 4
    assert metadata["load_time_ms"] >= 0
    assert isinstance(metadata["from_cache"], bool)
    again = await tools.call("sage_get_knowledge", layer="core")
    assert again["metadata"]["from_cache"] is True


@pytest.mark.requirement("003.get.all")
async def test_all_returns_every_layer(tools: Tools) -> None:
    answer = await tools.call("sage_get_knowledge", layer="all")
    info = await tools.call("sage_info")
    assert answer["metadata"]["files_loaded"] == info["knowledge_base"]["content_files"]


@pytest.mark.requirement("003.get.topic")
async def test_a_topic_returns_one_page(tools: Tools) -> None:
    answer = await tools.call("sage_get_knowledge", layer="frameworks", topic="timeout")
    assert answer["metadata"]["files"] == ["content/frameworks/resilience/timeout_patterns.md"]
    assert answer["content"].startswith("# Timeout Patterns")


@pytest.mark.requirement("003.errors.not_found")
async def test_an_unknown_topic_suggests_similar_ones(tools: Tools) -> None:
    error = (await tools.call("sage_get_knowledge", layer="core", topic="princples"))["error"]
    assert error["code"] == "NOT_FOUND"
    assert error["details"]["near"] == ["core/principles"]


@pytest.mark.requirement("003.errors.invalid_input")
@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("sage_get_knowledge", {}, "layer"),
        ("sage_get_knowledge", {"layer": "secret"}, "layer"),
        ("sage_get_knowledge", {"layer": "core", "topic": " "}, "topic"),
        ("sage_get_knowledge", {"layer": "core", "timeout_ms": 0}, "timeout_ms"),
        ("sage_get_knowledge", {"layer": "core", "deep": True}, "deep"),
        ("sage_search", {"query": "  "}, "query"),
        ("sage_search", {"query": "a", "limit": 0}, "limit"),
        ("sage_search", {"query": "?!"}, "query"),
        ("sage_get_context", {"task_type": "sleeping"}, "task_type"),
        ("sage_get_context", {"task_type": "coding", "token_budget": 0}, "token_budget"),
        ("sage_get_context", {"task_type": "coding", "token_budget": 100_001}, "token_budget"),
        ("sage_get_context", {"task_type": "coding", "token_budget": "many"}, "token_budget"),
    ],
)
async def test_invalid_arguments_are_rejected_with_the_contracts_code(
    tools: Tools, tool: str, arguments: dict[str, Any], named: str
) -> None:
    error = (await tools.call(tool, **arguments))["error"]
    assert error["code"] == "INVALID_INPUT"
    assert error["details"]["parameter"] == named
    assert error["message"]


@pytest.mark.requirement("003.search.answer")
async def test_search_returns_pages_best_first(tools: Tools) -> None:
    answer = await tools.call("sage_search", query="timeout", limit=5)
    assert 0 < len(answer["results"]) <= 5
    assert answer["total"] >= len(answer["results"])
    assert answer["query_time_ms"] >= 0
    paths = [result["path"] for result in answer["results"]]
    assert "content/frameworks/resilience/timeout_patterns.md" in paths
    assert len(paths) == len(set(paths))
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert all(result["title"] and result["snippet"] for result in answer["results"])


@pytest.mark.requirement("003.search.layer")
async def test_search_can_be_limited_to_a_layer(tools: Tools) -> None:
    answer = await tools.call("sage_search", query="timeout", layer="core")
    assert {result["path"].split("/")[1] for result in answer["results"]} == {"core"}
    nothing = await tools.call("sage_search", query="xylophone zeppelin")
    assert (nothing["results"], nothing["total"]) == ([], 0)


@pytest.mark.requirement("003.context.answer")
@pytest.mark.parametrize(
    ("task", "first"),
    [
        ("coding", "guidelines/python"), ("debugging", "frameworks/hypothesis_debugging"),
        ("reviewing", "practices/code_review"), ("planning", "practices/planning_work"),
        ("documenting", "practices/documentation"),
    ],
)  # fmt: skip
async def test_each_task_type_gets_the_pages_written_for_it(
    tools: Tools, count: CountTokens, task: str, first: str
) -> None:
    answer = await tools.call("sage_get_context", task_type=task)
    assert answer["sections"][0] == first
    assert 2000 < answer["token_count"] <= 4000
    assert answer["token_count"] == count(answer["context"])
    assert answer["load_time_ms"] >= 0


@pytest.mark.requirement("003.context.budget")
@pytest.mark.parametrize("budget", [1, 2, 15, 16, 40, 100, 333, 1000, 5000, 20_000, 100_000])
async def test_a_context_respects_its_budget_and_its_token_count_is_exact(
    tools: Tools, count: CountTokens, budget: int
) -> None:
    answer = await tools.call("sage_get_context", task_type="coding", token_budget=budget)
    assert answer["token_count"] == count(answer["context"]) <= budget
    assert bool(answer["sections"]) is bool(answer["context"])
    if budget >= 40:
        assert answer["context"]
    if budget == 100_000:
        assert answer["sections_left_out"] == 0


@pytest.mark.requirement("003.context.language")
async def test_a_context_contains_the_requested_language(tools: Tools) -> None:
    by_language = {
        language: (await tools.call("sage_get_context", task_type="coding", language=language))["sections"]
        for language in ("python", "TypeScript", "js", "rust")
    }
    assert "guidelines/python" in by_language["python"]
    assert "guidelines/typescript" in by_language["TypeScript"]
    assert "guidelines/typescript" in by_language["js"]
    assert not any(name.startswith("guidelines/python") for name in by_language["rust"])


@pytest.mark.requirement("003.info.answer")
async def test_info_reports_version_status_and_counts(tools: Tools) -> None:
    info = await tools.call("sage_info")
    assert info["status"] == "healthy"
    assert info["version"].count(".") == 2
    assert info["knowledge_base"]["content_files"] >= 30
    assert info["knowledge_base"]["total_size_kb"] > 30
    assert info["cache"]["enabled"] is True
    assert 0 <= info["cache"]["hit_rate"] <= 1
    assert info["uptime_seconds"] >= 0
