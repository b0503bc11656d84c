"""The command `sage`: serve the knowledge layers over MCP, or read them in the shell."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, TypeVar

import click

from knowledge.version import __version__

if TYPE_CHECKING:
    from knowledge.model import Json, JsonValue
    from knowledge.toolsets.base import ToolResult
    from knowledge.toolsets.sage.configuration import SageConfiguration

T = TypeVar("T")

LAYERS = ("core", "guidelines", "frameworks", "practices", "all")
TASKS = ("coding", "debugging", "reviewing", "planning", "documenting")
EXIT_CODES = {"INTERNAL": 1, "INVALID_INPUT": 2, "NOT_FOUND": 3, "TIMEOUT": 4}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Layered knowledge base for coding agents. SAGE_CONFIG is the path of a YAML configuration file."""


@cli.command()
@click.option("--host", metavar="ADDRESS", help="Serve HTTP on this address.  [default: mcp.host]")
@click.option("--port", type=click.IntRange(0, 65535), help="Serve HTTP on this port.  [default: mcp.port]")
@click.option("--json", "as_json", is_flag=True, help="Write each log line as JSON.")
def serve(host: str | None, port: int | None, as_json: bool) -> None:
    """Serve MCP over stdio, or over HTTP if --host or --port is given."""
    import os
    from dataclasses import replace

    from knowledge.surfaces.sage import serve_http, serve_stdio

    if as_json:
        os.environ["KNOWLEDGE_LOG_JSON"] = "1"
    configuration = _load_configuration()
    if host is None and port is None:
        _run_async(serve_stdio(configuration))
        return
    chosen = replace(
        configuration,
        host=configuration.host if host is None else host,
        port=configuration.port if port is None else port,
    )
    _run_async(serve_http(chosen))


@cli.command()
@click.argument("layer", type=click.Choice(LAYERS))
@click.argument("topic", required=False)
@click.option(
    "--timeout-ms", type=click.IntRange(1, 600_000), default=2000, show_default=True, help="Timeout in milliseconds."
)
@json_option
def get(layer: str, topic: str | None, timeout_ms: int, as_json: bool) -> None:
    """Print a LAYER, or one TOPIC of it."""
    answer = _run_tool_or_exit(
        "sage_get_knowledge", {"layer": layer, "topic": topic, "timeout_ms": timeout_ms}, as_json
    )
    click.echo(answer["content"])


@cli.command()
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="Maximum number of results.")
@click.option("--layer", type=click.Choice(LAYERS), default="all", show_default=True, help="Layer to search in.")
@json_option
def search(query: str, limit: int, layer: str, as_json: bool) -> None:
    """Search the pages for QUERY."""
    answer = _run_tool_or_exit("sage_search", {"query": query, "limit": limit, "layer": layer}, as_json)
    for result in _as_objects(answer["results"]):
        click.echo(f"{result['score']:.2f}  {result['path']}  {result['title']}\n      {result['snippet']}")
    if not answer["total"]:
        click.echo("No results.", err=True)


@cli.command()
@click.argument("task", type=click.Choice(TASKS))
@click.option("--language", default="python", show_default=True, help="Programming language.")
@click.option("--budget", type=click.IntRange(1, 100_000), default=4000, show_default=True, help="Maximum tokens.")
@json_option
def context(task: str, language: str, budget: int, as_json: bool) -> None:
    """Print the sections most relevant to a TASK within a token budget."""
    wanted: Json = {"task_type": task, "language": language, "token_budget": budget}
    answer = _run_tool_or_exit("sage_get_context", wanted, as_json)
    click.echo(answer["context"])
    click.echo(f"{answer['token_count']} tokens", err=True)


@cli.command()
@json_option
def info(as_json: bool) -> None:
    """Print status, page counts and topics."""
    answer = _run_tool_or_exit("sage_info", {}, as_json)
    base = answer["knowledge_base"]
    assert isinstance(base, dict)
    click.echo(
        f"SAGE {answer['version']}, {answer['status']}: {base['content_files']} pages, {base['total_size_kb']} kB"
    )
    for layer, topics in _as_object(base["layers"]).items():
        click.echo(f"{layer}: {', '.join(str(topic).partition('/')[2] for topic in _as_list(topics))}")
    for broken in _as_objects(base["broken_files"]):
        click.echo(f"broken: {broken['path']}: {broken['reason']}", err=True)


def _run_tool_or_exit(tool: str, arguments: Json, as_json: bool) -> Json:
    """Run a tool and return its answer; on errors print the message and exit."""
    from knowledge.toolsets.base import Refusal

    answer = _run_async(_call_tool(tool, arguments))
    refused = isinstance(answer, Refusal)
    body = answer.body if isinstance(answer, Refusal) else answer
    if as_json:
        click.echo(json.dumps(body, ensure_ascii=False, indent=2))
        sys.exit(EXIT_CODES[answer.code] if isinstance(answer, Refusal) else 0)
    if refused:
        _exit_with_error(body)
    return body


async def _call_tool(tool: str, arguments: Json) -> ToolResult:
    from knowledge.surfaces.sage import make_missing_engine, make_sage_registry, open_sage
    from knowledge.toolsets.base import ToolCall
    from knowledge.toolsets.sage.service import SageService

    configuration = _load_configuration()
    found = make_sage_registry(configuration).by_name.get(tool)
    if found is None:
        raise click.ClickException(f"{tool} is disabled by mcp.capabilities in the configuration file.")
    call = ToolCall(engine=make_missing_engine(), services={SageService: open_sage(configuration)})
    return await found.run(call, arguments)


def _exit_with_error(body: Json) -> None:
    error = _as_object(body["error"])
    details = _as_object(error["details"])
    fallback = _as_object(body.get("fallback", {}))
    if fallback.get("content"):
        click.echo(fallback["content"])
    click.echo(" ".join(str(part) for part in (f"{error['message']}.", details.get("hint", "")) if part), err=True)
    sys.exit(EXIT_CODES[str(error["code"])])


def _load_configuration() -> SageConfiguration:
    from knowledge.errors import KnowledgeError
    from knowledge.toolsets.sage.configuration import load_configuration

    try:
        return load_configuration()
    except KnowledgeError as error:
        raise click.ClickException(f"{error}. {error.hint}") from error


def _run_async(work: Coroutine[None, None, T]) -> T:
    from knowledge.errors import KnowledgeError

    try:
        return asyncio.run(work)
    except KnowledgeError as error:
        raise click.ClickException(f"{error}. {error.hint}") from error
    except KeyboardInterrupt:
        sys.exit(130)


def _as_object(value: JsonValue) -> Json:
    assert isinstance(value, dict)
    return value


def _as_list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def _as_objects(value: JsonValue) -> list[Json]:
    return [_as_object(item) for item in _as_list(value)]


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    cli(prog_name="sage")
