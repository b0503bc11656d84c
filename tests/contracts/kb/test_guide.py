"""Runs the commands of `docs/how-to/run-engine-and-mcp-apart.md`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from knowledge.engine.remote.engine import connect
from knowledge.model import DocumentFilter, DocumentStatus
from tests.contracts.kb.conftest import wait_for_engine
from tests.contracts.kb.processes import WAIT_SECONDS, WITHOUT_MODEL, run_server

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-engine-and-mcp-apart.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVE = re.compile(r"^(?P<environment>(?:\w+=\S+ )*)knowledge (?P<arguments>serve .*)$")


def read_blocks() -> Iterator[tuple[str, str]]:
    """Yield language and text of the code blocks before the section about containers."""
    page, _, _ = PAGE.read_text("utf-8").partition("## With containers")
    yield from BLOCK.findall(page)


class GuideRunner:
    """Executes the code blocks of the page, with free ports instead of those of the page."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.keys: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self.seen: list[str] = []

    def replace_addresses(self, text: str) -> str:
        for written, real in self._addresses.items():
            text = text.replace(written, real)
        return text

    def run_block(self, language: str, text: str) -> None:
        if language == "python":
            (self.folder / "send.py").write_text(self.replace_addresses(text))
        elif text.startswith("export "):
            self.keys.update(line.removeprefix("export ").split("=", 1) for line in text.splitlines())  # type: ignore[misc]
        elif found := SERVE.match(text.strip()):
            self._start(found["environment"], found["arguments"].split())
        else:
            self._run(text)

    def _start(self, environment: str, arguments: list[str]) -> None:
        given = dict(pair.split("=", 1) for pair in self.replace_addresses(environment).split())
        place = arguments.index("--port")
        written = f"http://127.0.0.1:{arguments[place + 1]}"
        arguments[arguments.index("--data") + 1] = str(self.folder / arguments[arguments.index("--data") + 1])
        del arguments[place : place + 2]
        process = self._stack.enter_context(run_server(*arguments, **self.keys, **WITHOUT_MODEL, **given))
        self._addresses[written] = process.url

    def _run(self, text: str) -> None:
        search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.replace_addresses(text)], cwd=self.folder, capture_output=True,
            text=True, env={**os.environ, **self.keys, "PATH": search}, timeout=WAIT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.seen.append(done.stdout)

    @property
    def engine_url(self) -> str:
        return self._addresses["http://127.0.0.1:8000"]


@pytest.mark.requirement("004.serve.guide")
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="the page is written for bash and curl")
async def test_the_page_can_be_followed_line_by_line(tmp_path: Path) -> None:
    with ExitStack() as stack:
        guide = GuideRunner(tmp_path, stack)
        for language, text in read_blocks():
            await asyncio.to_thread(guide.run_block, language, text)
            if "--toolsets" in text:  # a person types more slowly than the engine starts
                engine = connect(guide.engine_url, guide.keys["KB_API_KEY"])
                await wait_for_engine(engine)
        status, notes, sent = guide.seen
        assert json.loads(status)["result"]["structuredContent"]["version"]
        added, found = (json.loads(line) for line in re.sub(r"\}\s*\{", "}\n{", notes).splitlines())
        assert isinstance(added["result"]["structuredContent"]["job_id"], int)
        assert found["result"]["isError"] is False
        assert "'job_id': 2" in sent
        await engine.wait(2, WAIT_SECONDS)
        kept = await engine.documents(DocumentFilter(sort="created_at", descending=False))
        assert [(document.collection, document.status) for document in kept.items] == [
            ("memory", DocumentStatus.COMPLETED),
            ("documents", DocumentStatus.COMPLETED),
        ]
        await engine.close()
