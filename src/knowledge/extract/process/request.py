"""What a child is told: which task, on which document, under which limits."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

from knowledge.extract.base import Extracted, Source
from knowledge.extract.process.protocol import Limits
from knowledge.extract.sandbox.confine import Sandbox
from knowledge.model import Json

PARSER = "knowledge.extract.formats:extract"
PREPARED = "prepared"
"""The argument that tells the preparation what to load."""
Parser = Callable[[Source], Extracted]


@dataclass(frozen=True, slots=True)
class Request:
    """Written by the server alone: the functions that it names are imported and called."""

    task: str
    """The function that answers, as `module:function`; it yields frames."""
    limits: Limits
    source: Source | None = None
    arguments: Json = field(default_factory=dict)
    parser: str = PARSER
    """The function that reads a document, for the tasks that do."""
    prepare: str | None = None
    """A function that loads what the task needs besides its document, told by one of the arguments. The fork server
    calls it before it forks, and keeps what it loads; any other child calls it before it locks itself in."""
    sandbox: Sandbox = Sandbox.AUTO

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
    def load(cls, data: bytes) -> Request:
        body = json.loads(data)
        source = body["source"]
        return cls(
            task=body["task"],
            limits=Limits(**body["limits"]),
            source=Source(**{**source, "path": Path(source["path"])}) if source else None,
            arguments=body["arguments"],
            parser=body["parser"],
            prepare=body["prepare"],
            sandbox=Sandbox(body["sandbox"]),
        )

    @property
    def needs(self) -> tuple[str, str]:
        """Requests that are equal in this need the same things loaded."""
        return self.task, json.dumps([self.prepare, self.arguments.get(PREPARED)])

    @property
    def document(self) -> Source:
        """The document of a task that has one."""
        if self.source is None:
            raise RuntimeError(f"{self.task} needs a document")
        return self.source

    def load_parser(self) -> Parser:
        return cast(Parser, _load(self.parser))

    def load_task(self) -> Task:
        """The task, with everything loaded that it needs besides its document."""
        task = cast(Task, _load(self.task))
        _load(self.parser)  # locked in, a child can import only from where the libraries are
        if self.prepare is not None:
            _load(self.prepare)(cast(Json, self.arguments[PREPARED]))
        return task


Task: TypeAlias = Callable[[Request], Iterator[bytes]]


def _load(name: str) -> Callable[..., object]:
    module, _, function = name.partition(":")
    return cast("Callable[..., object]", getattr(importlib.import_module(module), function))
