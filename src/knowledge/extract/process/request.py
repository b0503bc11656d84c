"""The request to a child: task, document, limits, sandbox mode."""

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
"""The argument that is passed to the `prepare` function."""
Parser = Callable[[Source], Extraction]


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Trusted, because only the server writes it: the functions that it names are imported and called."""

    task: str
    """`module:function` of a function that yields frames."""
    limits: ParserLimits
    source: Source | None = None
    arguments: Json = field(default_factory=dict)
    parser: str = DEFAULT_PARSER
    """`module:function` of the function that parses a document."""
    prepare: str | None = None
    """`module:function` that loads what the task needs besides its document. The fork server calls it once before it
    forks; a spawned child calls it before it confines itself."""
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
        """Equal for requests that need the same modules and data loaded."""
        return self.task, json.dumps([self.prepare, self.arguments.get(PREPARE_ARGUMENT)])

    @property
    def document(self) -> Source:
        if self.source is None:
            raise RuntimeError(f"{self.task} needs a document")
        return self.source

    def load_parser(self) -> Parser:
        return cast(Parser, _import_function(self.parser))

    def load_task(self) -> Task:
        """Import the task and load everything that it needs besides its document."""
        task = cast(Task, _import_function(self.task))
        _import_function(self.parser)  # a confined child can import only from library folders
        if self.prepare is not None:
            _import_function(self.prepare)(cast(Json, self.arguments[PREPARE_ARGUMENT]))
        return task


Task: TypeAlias = Callable[[TaskRequest], Iterator[bytes]]


def _import_function(name: str) -> Callable[..., object]:
    module, _, function = name.partition(":")
    return cast("Callable[..., object]", getattr(importlib.import_module(module), function))
