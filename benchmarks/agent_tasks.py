"""Scores 30 multi-step tasks of an agent on each toolset: answered or not, calls, and characters received.

    python benchmarks/agent_tasks.py [--toolsets knowledge kb] [--tasks 1 9 26] [--embedding none] [--markdown FILE]

The agents are scripts without a language model (`agent_policies.py`): they ask, look for the answer in the hits that
name the subject, and read on from the first three of these if it is not there. They use the MCP Python client and a
real server process with the documents of `agent_documents.py`. Characters are those of the texts that a model would
read.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mcp import Client

from agent_documents import Lookup, Task, TaskKind, make_documents, make_tasks
from agent_policies import AGENTS, Agent
from results import Result, add_json_option, write_results
from server import BenchmarkServer, run_server

MAX_OPENED = 3
"""Hits of one search that an agent reads on from."""
SAGE_LAYER = "practices"
PREPARE_SECONDS = 600
UNLIMITED = {
    f"KNOWLEDGE_{name}_RATE_LIMIT": "1000000/minute"
    for name in ("QUERY", "MCP_QUERY", "MCP_LIST", "MCP_RESOURCE", "UPLOAD", "MANAGEMENT")
}
NO_TOOL = "no tool"


@dataclass(frozen=True, slots=True)
class Outcome:
    toolset: str
    kind: TaskKind
    answered: bool
    calls: int = 0
    characters: int = 0


# -- one task -------------------------------------------------------------------------------------


async def run_task(agent: Agent, task: Task) -> Outcome:
    agent.calls = agent.characters = 0
    if task.note:
        if not agent.can_add:
            return Outcome(agent.toolset, task.kind, False)
        number = make_tasks().index(task)
        await agent.add(task.note.format(agent.toolset), f"{agent.toolset}-note-{number}")
    found: str | None = agent.toolset
    for lookup in task.lookups:
        found = await find_answer(agent, fill_in(lookup, str(found)))
        if found is None:
            break
    return Outcome(agent.toolset, task.kind, found == task.expected, agent.calls, agent.characters)


def fill_in(lookup: Lookup, answer: str) -> Lookup:
    return replace(lookup, question=lookup.question.format(answer), subject=lookup.subject.format(answer))


async def find_answer(agent: Agent, lookup: Lookup) -> str | None:
    """Search, and read on from the first hits that name the subject; None if the answer is not found."""
    passages = await agent.search(lookup.question)
    about = [passage for passage in passages if lookup.subject in passage.text]
    for passage in about:
        if (answer := lookup.find_answer(passage.text)) is not None:
            return answer
    for passage in (about or (passages if agent.has_snippets else []))[:MAX_OPENED]:
        read = ""
        async for part in agent.read_on(passage):
            read += part
            if (answer := lookup.find_answer(read)) is not None:
                return answer
    return None


# -- the server -----------------------------------------------------------------------------------


@contextmanager
def run_prepared_server(embedding: str | None) -> Iterator[tuple[BenchmarkServer, Path]]:
    """Run a server that has the documents, and yield it with a folder whose files it may open."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        notes, pages = folder / "notes", folder / "pages" / SAGE_LAYER
        notes.mkdir()
        pages.mkdir(parents=True)
        (folder / "sage.yaml").write_text("sage:\n  content: pages\n", "utf-8")
        documents = make_documents()
        for filename, text in documents.items():
            (pages / filename).write_text(text, "utf-8")
        settings = {"KNOWLEDGE_FILES": str(notes), "SAGE_CONFIG": str(folder / "sage.yaml"), **UNLIMITED}
        if embedding is not None:
            settings["KNOWLEDGE_EMBEDDING"] = embedding
        with run_server(None, **settings) as server:
            add_documents(server, documents)
            yield server, notes


def add_documents(server: BenchmarkServer, documents: dict[str, str]) -> None:
    jobs = []
    for filename, text in documents.items():
        answer = server.http.post("/api/v1/jobs", files={"file": (filename, text.encode())})
        answer.raise_for_status()
        jobs.append(answer.json()["job_id"])
    end = time.monotonic() + PREPARE_SECONDS
    for job in jobs:
        while (status := server.http.get(f"/api/v1/jobs/{job}").json()["status"]) in ("queued", "processing"):
            if time.monotonic() > end:
                raise SystemExit(f"The documents were not added within {PREPARE_SECONDS} seconds")
            time.sleep(0.05)
        if status != "completed":
            raise SystemExit(f"Job {job} ended as {status}")


async def run_agent(kind: type[Agent], url: str, notes: Path, tasks: Sequence[Task]) -> list[Outcome]:
    async with Client(f"{url}/mcp/{kind.toolset}") as client:
        listed = (await client.list_tools()).tools
        tools = {tool.name: set(tool.input_schema.get("properties", {})) for tool in listed}
        agent = kind(client, tools, notes)
        async with asyncio.timeout(PREPARE_SECONDS):
            await agent.wait_until_ready()
        return [await run_task(agent, task) for task in tasks]


# -- the report -----------------------------------------------------------------------------------


def render_report(outcomes: Sequence[Outcome]) -> str:
    """Return three Markdown tables: answered, calls for each task, and characters for each task."""
    toolsets = list(dict.fromkeys(outcome.toolset for outcome in outcomes))
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    columns: list[TaskKind | None] = [*kinds, None]
    parts = []
    for title, cell in (("answered", _count_answered), ("calls", _average_calls), ("characters", _average_characters)):
        head = [title, *(column or "all" for column in columns)]
        rows = [
            [toolset, *(cell(_select(outcomes, toolset, column)) for column in columns)]
            for toolset in toolsets
        ]  # fmt: skip
        lines = [head, ["---"] * len(head), *rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def _select(outcomes: Sequence[Outcome], toolset: str, kind: TaskKind | None) -> list[Outcome]:
    return [found for found in outcomes if found.toolset == toolset and kind in (None, found.kind)]


def _count_answered(outcomes: Sequence[Outcome]) -> str:
    if not any(outcome.calls for outcome in outcomes):
        return NO_TOOL
    return f"{sum(outcome.answered for outcome in outcomes)} of {len(outcomes)}"


def _average_calls(outcomes: Sequence[Outcome]) -> str:
    done = [outcome.calls for outcome in outcomes if outcome.calls]
    return f"{statistics.mean(done):.1f}" if done else ""


def _average_characters(outcomes: Sequence[Outcome]) -> str:
    done = [outcome.characters for outcome in outcomes if outcome.calls]
    return f"{statistics.mean(done):,.0f}" if done else ""


def to_results(outcomes: Sequence[Outcome]) -> list[Result]:
    return [
        Result(f"agent tasks answered, {toolset}", sum(found.answered for found in own), f"of {len(own)}")
        for toolset in dict.fromkeys(outcome.toolset for outcome in outcomes)
        if (own := _select(outcomes, toolset, None))
    ]


def run_all_agents(toolsets: Sequence[str], tasks: Sequence[Task], embedding: str | None) -> list[Outcome]:
    with run_prepared_server(embedding) as (server, notes):
        return [
            outcome
            for kind in AGENTS
            if kind.toolset in toolsets
            for outcome in asyncio.run(run_agent(kind, server.url, notes, tasks))
        ]


def main() -> None:
    names = [kind.toolset for kind in AGENTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--toolsets", nargs="+", choices=names, default=names)
    parser.add_argument("--tasks", type=int, nargs="+", metavar="NUMBER", help="only these tasks, counted from 1")
    parser.add_argument("--embedding", help="value of KNOWLEDGE_EMBEDDING; `none` searches by words alone")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to this file")
    add_json_option(parser)
    given = parser.parse_args()
    tasks = make_tasks()
    chosen = [tasks[number - 1] for number in given.tasks] if given.tasks else tasks
    outcomes = run_all_agents(given.toolsets, chosen, given.embedding)
    report = render_report(outcomes)
    print(report)
    if given.markdown:
        given.markdown.write_text(report + "\n", "utf-8")
    write_results(given.json, to_results(outcomes))


if __name__ == "__main__":
    main()
