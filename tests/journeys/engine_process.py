"""Runs a process that shares a data folder with others, like a command or a stdio server.

Arguments: the data folder, then `hold`, `note`, or `write` with a prefix for the words.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from knowledge import app
from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.model import NewNote, Query, SearchMode
from knowledge.surfaces.http import open_engine
from knowledge.testing import make_test_engine


async def main() -> None:
    data, task = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "hold"
    app.open_engine = make_test_engine  # the real engine with a model that needs no weights
    open_engine.SHARE_DELAY_SECONDS = 0.0
    async with open_engine.open_engine(Settings(data=data, workers=1)) as engine:
        if task == "hold":
            await hold_folder(data)
        elif task == "note":
            await add_note(engine, f"A note of process {id(engine)}.")
            print("added", flush=True)
        else:
            for number in range(8):
                word = f"{sys.argv[3]}n{number}q".translate(str.maketrans("0123456789", "abcdfghjkl"))
                await add_note(engine, f"{word} is in this note")
                print("added", word, flush=True)
                answer = await engine.search(Query(text=word, mode=SearchMode.TEXT))
                assert any(word in hit.chunk.text for hit in answer.hits), word


async def hold_folder(data: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    while not (data / "engine.json").exists():
        await asyncio.sleep(0.01)
    print("holding", flush=True)
    await stop.wait()


async def add_note(engine: Engine, text: str) -> None:
    job = await engine.wait((await engine.add(NewNote(text=text))).uid, 60)
    assert job.status.value == "completed", job


if __name__ == "__main__":
    asyncio.run(main())
