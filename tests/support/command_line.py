"""Runs the command line in this process, against an engine on a loopback port."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner, Result

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.surfaces.cli import cli
from knowledge.surfaces.http.server import make_server, open_sockets, wrap_in_guard_and_log
from knowledge.surfaces.rest import make_rest_app

JOIN_SECONDS = 30.0


@dataclass(frozen=True)
class Shell:
    """Runs commands with an environment."""

    environment: dict[str, str | None]

    def run(self, *arguments: object, input: str | bytes | None = None) -> Result:
        runner = CliRunner(env={"KNOWLEDGE_DATA": None, **self.environment})
        return runner.invoke(cli, [str(argument) for argument in arguments], input=input, prog_name="knowledge")

    def run_ok(self, *arguments: object, input: str | bytes | None = None) -> str:
        """Run a command that must succeed and return its output."""
        result = self.run(*arguments, input=input)
        assert result.exit_code == 0, result.output
        return result.stdout

    def run_json(self, *arguments: object, input: str | bytes | None = None) -> Any:
        return json.loads(self.run_ok(*arguments, "--json", input=input))


@contextmanager
def serve_engine(engine: Engine, settings: Settings) -> Iterator[str]:
    """Serve the engine's REST API on a free port in a thread."""
    sockets = open_sockets("127.0.0.1", 0)
    server = make_server(wrap_in_guard_and_log(make_rest_app(engine), settings))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)))
    thread.start()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(JOIN_SECONDS)
        for socket in sockets:
            socket.close()
