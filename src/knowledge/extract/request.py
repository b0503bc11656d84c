"""What a child is told: which document, under which limits, read by which function."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from knowledge.extract.base import Extracted, Source
from knowledge.extract.limits import Limits
from knowledge.extract.sandbox import Sandbox

Parser = Callable[[Source], Extracted]


@dataclass(frozen=True, slots=True)
class Request:
    source: Source
    limits: Limits
    parser: str
    """The function that reads, as `module:function`."""
    sandbox: Sandbox = Sandbox.AUTO

    def dump(self) -> bytes:
        source = {
            "path": os.fsencode(self.source.path).decode("utf-8", "surrogateescape"),
            "filename": self.source.filename,
            "force_ocr": self.source.force_ocr,
            "ocr_languages": self.source.ocr_languages,
            "max_unpacked_bytes": self.source.max_unpacked_bytes,
        }
        body = {"source": source, "limits": asdict(self.limits), "parser": self.parser, "sandbox": self.sandbox}
        return json.dumps(body).encode()

    @classmethod
    def load(cls, data: bytes) -> Request:
        body = json.loads(data)
        source = body["source"]
        return cls(
            source=Source(**{**source, "path": Path(source["path"])}),
            limits=Limits(**body["limits"]),
            parser=body["parser"],
            sandbox=Sandbox(body["sandbox"]),
        )

    def load_parser(self) -> Parser:
        module, _, name = self.parser.partition(":")
        return cast(Parser, getattr(importlib.import_module(module), name))
