"""A client in a process of its own, driven line by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 120.0


@dataclass(slots=True)
class DriverProcess:
    process: subprocess.Popen[str]
    log: Path
    reader: ThreadPoolExecutor
    protocol: str = ""
    tools: tuple[str, ...] = ()

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool and return the text of its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
        self.process.stdin.flush()
        answer = self.read()
        assert answer.get("is_error") is False, f"{answer}\n{self.log.read_text('utf-8')}"
        return str(answer["text"])

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.reader.submit(self.process.stdout.readline).result(ANSWER_SECONDS)
        assert line, self.log.read_text("utf-8")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def run_driver(
    command: tuple[str, ...], target: dict[str, Any], mode: str | None, folder: Path
) -> Iterator[DriverProcess]:
    """Start a driver and wait until it is connected and has listed the tools."""
    log = folder / "driver.log"
    with log.open("w") as stderr, ThreadPoolExecutor(1) as reader:
        process = subprocess.Popen(
            [*command, json.dumps(target), *([mode] if mode else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder,
        )  # fmt: skip
        try:
            driver = DriverProcess(process, log, reader)
            opened = driver.read()
            driver.protocol, driver.tools = str(opened["protocol"]), tuple(opened["tools"])
            yield driver
        finally:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
            process.stdout.close()
