"""What a child is told: which task, on which document, under which limits."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

from knowledge.extract.base import Extraction, Source
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.sandbox.confine import SandboxMode
from knowledge.model import Json

DEFAULT_PARSER = "knowledge.extract.formats:extract"
PREPARE_ARGUMENT = "prepared"
"""The argument that tells the preparation what to load."""
Parser = Callable[[Source], Extraction]


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Written by the server alone: the functions that it names are imported and called."""

    task: str
    """The function that answers, as `module:function`; it yields frames."""
    limits: ParserLimits
    source: Source | None = None
    arguments: Json = field(default_factory=dict)
    parser: str = DEFAULT_PARSER
    """The function that reads a document, for the tasks that do."""
    prepare: str | None = None
    """A function that loads what the task needs besides its document, told by one of the arguments. The fork server
    calls it before it forks, and keeps what it loads; any other child calls it before it locks itself in."""
    sandbox: SandboxMode = SandboxMode.AUTO

    @property
    def size(self) -> int:
        return self.source.size if self.source else 0

    def dump(self) -> bytes:
        source = self.source and {
            "path": os.fsencode(self.source.path).decode("utf-8", "surrogateescape"),
            "filename": self.source.filename,
            "force_ocr": self.source.force_ocr,
            "ocr_languages": self.source.ocr_languages,
            "max_unpacked_bytes": self.source.max_unpacked_bytes,
        }
        body = {
            "task": self.task,
            "limits": asdict(self.limits),
            "source": source,
            "arguments": self.arguments,
            "parser": self.parser,
            "prepare": self.prepare,
            "sandbox": self.sandbox,
        }
        return json.dumps(body).encode()

    @classmethod
    def load(cls, data: bytes) -> TaskRequest:
        body = json.loads(data)
        source = body["source"]
        return cls(
            task=body["task"],
            limits=ParserLimits(**body["limits"]),
            source=Source(**{**source, "path": Path(source["path"])}) if source else None,
            arguments=body["arguments"],
            parser=body["parser"],
            prepare=body["prepare"],
            sandbox=SandboxMode(body["sandbox"]),
        )

    @property
    def preload_key(self) -> tuple[str, str]:
        """Requests that are equal in this need the same things loaded."""
        return self.task, json.dumps([self.prepare, self.arguments.get(PREPARE_ARGUMENT)])

    @property
    def document(self) -> Source:
        """The document of a task that has one."""
        if self.source is None:
            raise RuntimeError(f"{self.task} needs a document")
        return self.source

    def load_parser(self) -> Parser:
        return cast(Parser, _import_function(self.parser))

    def load_task(self) -> Task:
        """The task, with everything loaded that it needs besides its document."""
        task = cast(Task, _import_function(self.task))
        _import_function(self.parser)  # locked in, a child can import only from where the libraries are
        if self.prepare is not None:
            _import_function(self.prepare)(cast(Json, self.arguments[PREPARE_ARGUMENT]))
        return task


Task: TypeAlias = Callable[[TaskRequest], Iterator[bytes]]


def _import_function(name: str) -> Callable[..., object]:
    module, _, function = name.partition(":")
    return cast("Callable[..., object]", getattr(importlib.import_module(module), function))
