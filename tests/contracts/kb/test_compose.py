"""Checks Dockerfile and compose.yaml, and starts their processes without containers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from knowledge.engine.remote.engine import connect
from tests.contracts.kb.conftest import Agent, wait_for_engine
from tests.contracts.kb.processes import ENGINE_KEY, MCP_KEY, WAIT_SECONDS, WITHOUT_MODEL, RestartableServer, run_server

ROOT = Path(__file__).parents[3]
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")


def read_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")
    ]


def last_instruction(word: str) -> str:
    return [rest for found, rest in read_instructions() if found == word][-1]


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for word, rest in read_instructions() if word == "ENV" for pair in shlex.split(rest))


def substitute(value: str, environment: dict[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        given = environment.get(found["name"], "")
        if found["kind"] == "?" and not given:
            raise KeyError(found["name"])
        return given or ((found["rest"] or "") if found["kind"] == "-" else "")

    return VARIABLE.sub(one, value)


def substitute_all(node: Any, environment: dict[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: substitute_all(value, environment) for key, value in node.items()}
    if isinstance(node, list):
        return [substitute_all(item, environment) for item in node]
    return substitute(node, environment) if isinstance(node, str) else node


def load_compose(**environment: str) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return {key: substitute_all(value, environment) for key, value in parsed.items()}


KEYS = {"KB_API_KEY": ENGINE_KEY, "KB_MCP_API_KEY": MCP_KEY}


def test_the_image_is_small_and_does_not_run_as_root() -> None:
    stages = [rest for word, rest in read_instructions() if word == "FROM"]
    assert len(stages) == 2 and all(stage.split()[0].endswith("-slim") for stage in stages)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last_instruction("USER"))
    assert "/health" in last_instruction("HEALTHCHECK")
    assert json.loads(last_instruction("ENTRYPOINT")) == ["knowledge"]
    assert last_instruction("VOLUME") == image_environment()["KNOWLEDGE_DATA"]


def test_everything_that_the_image_copies_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    for word, rest in read_instructions():
        if word == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            for source in sources:
                assert (ROOT / source).exists()
                assert any(fnmatch(source, pattern) for pattern in kept)


def test_both_roles_are_one_image_and_only_the_agents_side_is_published() -> None:
    services = load_compose(**KEYS)["services"]
    assert set(services) == {"engine", "mcp"}
    assert services["engine"]["image"] == services["mcp"]["image"]
    assert "ports" not in services["engine"]
    assert services["mcp"]["ports"] == ["127.0.0.1:8001:8000"]
    assert services["mcp"]["environment"]["KB_ENGINE_URL"] == f"http://engine:{image_environment()['KNOWLEDGE_PORT']}"
    volumes = [volume for service in services.values() for volume in service["volumes"]]
    assert {volume.partition(":")[0] for volume in volumes} == set(load_compose(**KEYS)["volumes"])
    assert {volume.partition(":")[2] for volume in volumes} == {image_environment()["KNOWLEDGE_DATA"]}


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_compose_does_not_start_without_a_key(missing: str) -> None:
    with pytest.raises(KeyError, match=missing):
        load_compose(**{name: value for name, value in KEYS.items() if name != missing})


def make_environment(service: dict[str, Any], data: Path, **others: str) -> dict[str, str]:
    """Return the environment of a service, with loopback for its network and a folder for its volume."""
    environment = {**image_environment(), **service["environment"], **WITHOUT_MODEL, **others}
    del environment["PATH"]
    return {**environment, "KNOWLEDGE_HOST": "127.0.0.1", "KNOWLEDGE_DATA": str(data)}


def is_healthy(process: RestartableServer) -> bool:
    """Run the HEALTHCHECK of the image."""
    _, _, written = last_instruction("HEALTHCHECK").partition("CMD ")
    program, *arguments = json.loads(written)
    assert program == "python"
    environment = {"KNOWLEDGE_PORT": str(process.port)}
    command = [sys.executable, *arguments]
    return (
        subprocess.run(command, env=environment, capture_output=True, timeout=WAIT_SECONDS, check=False).returncode == 0
    )


@pytest.mark.requirement("004.serve.compose")
async def test_the_two_processes_work_together_as_compose_starts_them(tmp_path: Path) -> None:
    services = load_compose(**KEYS)["services"]
    with run_server(
        *services["engine"]["command"], **make_environment(services["engine"], tmp_path / "engine")
    ) as engine:
        named = services["mcp"]["environment"]["KB_ENGINE_URL"]
        reached = {"KB_ENGINE_URL": named.replace("http://engine:8000", engine.url)}
        with run_server(
            *services["mcp"]["command"], **make_environment(services["mcp"], tmp_path / "mcp", **reached)
        ) as mcp:
            beside = connect(engine.url, ENGINE_KEY)
            await wait_for_engine(beside)
            assert is_healthy(engine) and is_healthy(mcp)
            headers = {"Authorization": f"Bearer {MCP_KEY}"}
            async with httpx.AsyncClient(base_url=mcp.url, headers=headers, timeout=WAIT_SECONDS) as http:
                agent = Agent(http, beside)
                await agent.add_and_wait("kb_addnote", text="Kept by two containers", collection="memory")
                [hit] = (await agent.call("kb_search", query="containers", collection="memory"))["results"]
                assert hit["collection"] == "memory"
            await beside.close()
        assert not is_healthy(mcp)


def test_the_image_listens_on_all_interfaces_with_both_keys() -> None:
    services = load_compose(**KEYS)["services"]
    assert image_environment()["KNOWLEDGE_HOST"] == "0.0.0.0"
    for service in services.values():
        assert {"KB_API_KEY", "KB_MCP_API_KEY"} <= set(service["environment"])
