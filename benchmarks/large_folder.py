"""Writes a data folder with many generated chunks and vectors, for benchmarks of a large collection.

    python benchmarks/large_folder.py FOLDER [--chunks 100000]
    python benchmarks/ingest.py --only-import --data FOLDER

The documents are stored as complete ones, with vectors under the name of the default model; the first start builds the
index.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from knowledge.app import open_engine
from knowledge.config import Settings
from knowledge.embed.granite import GraniteEmbedder
from knowledge.engine.local import LocalEngine
from knowledge.model import DocumentKind, DocumentStatus, ExtractionMethod, NewNote
from knowledge.store.chunks import StagedChunk
from knowledge.store.publish import Publication
from search_data import Recipe

CHUNKS_PER_DOCUMENT = 100


def make_chunks(count: int) -> Iterator[StagedChunk]:
    recipe = Recipe(count)
    for words, vector in zip(recipe.texts(), chain.from_iterable(recipe.vectors()), strict=True):
        text = " ".join(words)
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        yield StagedChunk(text, None, (), digest, vector.astype(np.float16).tobytes())


async def add_document(engine: LocalEngine, number: int, chunks: tuple[StagedChunk, ...], model_id: int) -> None:
    parts, note = engine._parts, f"generated document {number}"
    await engine.add(NewNote(text=note))
    claim = parts.jobs.claim(most_urgent_only=False)
    assert claim is not None and claim.sha256 is not None
    parts.publisher.add(
        claim,
        Publication(
            content_id=None,
            unstaged=chunks,
            model_id=model_id,
            title=note,
            kind=DocumentKind.NOTE,
            doc_type="note",
            filename=None,
            sha256=claim.sha256,
            size_bytes=len(note),
            status=DocumentStatus.COMPLETED,
            method=ExtractionMethod.TEXT_EXTRACTION,
            warnings=(),
            language="en",
            page_count=None,
            chunk_count=len(chunks),
        ),
    )


async def fill_folder(data: Path, count: int) -> None:
    model = GraniteEmbedder("auto", 1)
    engine = open_engine(Settings(data=data, embedding="default"))  # not started: nothing is indexed here
    try:
        stored = engine._parts.stored_models.register(model.fingerprint, model.name, model.dimension)
        engine._parts.stored_models.activate(stored, "default")
        made = make_chunks(count)
        for number in range(-(-count // CHUNKS_PER_DOCUMENT)):
            await add_document(engine, number, tuple(islice(made, CHUNKS_PER_DOCUMENT)), stored.id)
    finally:
        engine.close()
        model.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    asked = parser.parse_args()
    asyncio.run(fill_folder(asked.folder, asked.chunks))


if __name__ == "__main__":
    main()
