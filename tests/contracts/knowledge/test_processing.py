"""Contract 000 while documents are processed: found by words, and in no count and no list until they are complete."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.testing import SharedParsers
from tests.contracts.app_server import make_app, serve_app_in_thread
from tests.contracts.knowledge.samples import write_sample
from tests.contracts.knowledge.test_add import wait_for_task
from tests.contracts.transports import Transport, open_transport
from tests.support.gated_models import Engines, wait_until_found

pytestmark = pytest.mark.requirement("000.status.answer")


@dataclass
class GatedProduct:
    client: Transport
    engines: Engines
    folder: Path

    async def add(self, name: str, text: str) -> str:
        """Add a file, wait until it is found by words, and return its task."""
        path = write_sample(self.folder / name, text)
        added = await self.client.call("knowledge-add", file_path=str(path))
        await wait_until_found(self.engines.opened, text.split()[0])
        return str(added["task_id"])

    async def count(self) -> tuple[int, int, int, int, int]:
        """Return the documents, chunks and bytes of the status, and the totals of list and search."""
        base = (await self.client.call("knowledge-status"))["knowledge_base"]
        shown = await self.client.call("knowledge-show")
        found = await self.client.call("knowledge-search", query="tea")
        assert len(shown["documents"]) == shown["total_count"]
        counted = base["document_count"], base["total_chunks"], base["total_size_bytes"]
        return (*counted, shown["total_count"], found.get("total_results", 0))


@pytest.fixture
async def gated(tmp_path: Path, parsers: SharedParsers) -> AsyncIterator[GatedProduct]:
    settings, folder = Settings(data=tmp_path / "data", workers=2), tmp_path / "files"
    folder.mkdir()
    engines = Engines(settings, parsers)
    engine = engines.open()
    with serve_app_in_thread(make_app(engine, settings, folder)) as url:
        async with open_transport("plain", url, None) as client:
            yield GatedProduct(client, engines, folder)
        engines.close()


async def test_counts_and_lists_leave_out_what_is_processing(gated: GatedProduct) -> None:
    task = await gated.add("tea.md", "Assam tea")
    assert await gated.count() == (0, 0, 0, 0, 1)
    status = await gated.client.call("knowledge-task-status", task_id=task)
    assert status["status"] == "running" and "result" not in status
    gated.engines.model.gate.open()
    assert (await wait_for_task(gated.client, task))["status"] == "completed"
    assert await gated.count() == (1, 1, 9, 1, 1)


async def test_the_counts_of_complete_documents_do_not_change_while_others_are_processed(gated: GatedProduct) -> None:
    gated.engines.model.gate.open()
    await wait_for_task(gated.client, await gated.add("tea.md", "Assam tea"))
    gated.engines.model.gate.close()
    tasks = [await gated.add(f"{name}.md", f"{name} tea") for name in ("Darjeeling", "Ceylon")]
    assert await gated.count() == (1, 1, 9, 1, 3)
    gated.engines.model.gate.open()
    for task in tasks:
        await wait_for_task(gated.client, task)
    assert await gated.count() == (3, 3, 9 + 14 + 10, 3, 3)


async def test_clearing_removes_what_is_processing(gated: GatedProduct) -> None:
    task = await gated.add("tea.md", "Assam tea")
    cleared = await gated.client.call("knowledge-clear", confirm=True, confirmation_phrase="DELETE ALL")
    assert cleared["success"] is True
    assert await gated.count() == (0, 0, 0, 0, 0)
    gated.engines.model.gate.open()
    assert (await wait_for_task(gated.client, task))["status"] in ("cancelled", "failed")
    assert await gated.count() == (0, 0, 0, 0, 0)
