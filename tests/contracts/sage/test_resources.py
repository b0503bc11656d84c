"""Contract 003: resources and the prompt."""

from __future__ import annotations

import pytest
from mcp import MCPError

from tests.contracts.sage.conftest import Tools

LAYERS = ["core", "guidelines", "frameworks", "practices"]


async def read(tools: Tools, uri: str) -> str:
    [content] = (await tools.client.read_resource(uri)).model_dump(by_alias=True, mode="json")["contents"]
    assert content["uri"] == uri
    assert content["mimeType"] == "text/markdown"
    return str(content["text"])


@pytest.mark.requirement("003.resources.list")
async def test_layers_and_pages_are_listed_with_templates(tools: Tools) -> None:
    listed = [str(found.uri) for found in (await tools.client.list_resources()).resources]
    assert listed[:4] == [f"knowledge://{layer}" for layer in LAYERS]
    assert "knowledge://frameworks/resilience/timeout_patterns" in listed
    templates = [found.uri_template for found in (await tools.client.list_resource_templates()).resource_templates]
    assert templates == [
        "knowledge://core/{topic}",
        "knowledge://guidelines/{category}",
        "knowledge://frameworks/{framework}",
        "knowledge://practices/{category}",
    ]
    for uri in listed:
        assert (await read(tools, uri)).startswith("# ")


@pytest.mark.requirement("003.resources.read")
@pytest.mark.parametrize(
    ("uri", "title"),
    [
        ("knowledge://core", "# Core Principles"),
        ("knowledge://core/principles", "# Core Principles"),
        ("knowledge://core/defaults", "# Default Values"),
        ("knowledge://guidelines", "# "),
        ("knowledge://guidelines/python", "# Python Guidelines"),
        ("knowledge://guidelines/ai_collaboration", "# Working with AI"),
        ("knowledge://frameworks", "# "),
        ("knowledge://frameworks/autonomy", "# Autonomy Levels"),
        ("knowledge://frameworks/timeout", "# Timeout Patterns"),
        ("knowledge://practices", "# "),
        ("knowledge://practices/engineering", "# Engineering Practices"),
        ("knowledge://practices/documentation", "# Documentation Practices"),
        ("knowledge://guidelines/ai%20collaboration", "# Working with AI"),
    ],
)
async def test_the_uris_of_the_contract_can_be_read(tools: Tools, uri: str, title: str) -> None:
    assert (await read(tools, uri)).startswith(title)


@pytest.mark.requirement("003.resources.not_found")
@pytest.mark.parametrize(
    "uri",
    [
        "knowledge://core/nonsense", "knowledge://secret", "knowledge://core/../../etc/passwd", "file:///etc/passwd",
        "knowledge://core/%2e%2e/%2e%2e/pyproject", "knowledge://../core",
    ],
)  # fmt: skip
async def test_other_uris_are_rejected(tools: Tools, uri: str) -> None:
    with pytest.raises(MCPError):
        await tools.client.read_resource(uri)


@pytest.mark.requirement("003.prompt.answer")
@pytest.mark.parametrize("task", ["coding", "debugging", "reviewing", "planning", "documenting"])
async def test_the_prompt_names_the_task_its_guidelines_and_the_layers(tools: Tools, task: str) -> None:
    [prompt] = (await tools.client.list_prompts()).prompts
    assert prompt.name == "sage_task_prompt"
    assert [(item.name, item.required) for item in prompt.arguments or []] == [("task_type", True), ("context", False)]
    answer = await tools.client.get_prompt("sage_task_prompt", {"task_type": task, "context": "A parser in Go"})
    text = answer.messages[0].model_dump()["content"]["text"]
    assert text.startswith("You are an AI assistant with access to the SAGE Knowledge Base.\n\n")
    assert f"Current task: {task}\nRelevant guidelines:\n- " in text
    assert "A parser in Go" in text
    assert "Available knowledge layers:\n- core: Core principles\n- guidelines: Coding standards" in text


async def test_a_prompt_for_an_unknown_task_is_rejected(tools: Tools) -> None:
    with pytest.raises(MCPError, match="task_type"):
        await tools.client.get_prompt("sage_task_prompt", {"task_type": "sleeping"})
