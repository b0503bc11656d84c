"""Searches while a lost index is being rebuilt."""

from __future__ import annotations

import shutil
import threading

import pytest

from knowledge.config import Settings
from knowledge.engine.indexing import follower
from knowledge.engine.indexing.follower import IndexFollower
from knowledge.engine.local import INDEX_INCOMPLETE_NOTE
from knowledge.index.api import Index
from knowledge.model import Query
from knowledge.store.models import StoredModel
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import WAIT_SECONDS, add_note


async def test_an_answer_notes_that_the_index_is_being_rebuilt(
    settings: Settings, parsers: SharedParsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_test_engine(settings, parsers=parsers)
    first.start()
    await add_note(first, "Green tea steeps for two minutes.")
    first.close()
    shutil.rmtree(settings.data / "index")
    gate, build = threading.Event(), IndexFollower._build_index

    def slowly(self: IndexFollower, model: StoredModel | None) -> Index:
        assert gate.wait(WAIT_SECONDS)
        return build(self, model)

    monkeypatch.setattr(follower, "SMALL_INDEX_DOCUMENTS", 0)
    monkeypatch.setattr(IndexFollower, "_build_index", slowly)
    second = make_test_engine(settings, parsers=parsers)
    second.start()
    try:
        early = await second.search(Query(text="green tea"))
        assert not early.hits and INDEX_INCOMPLETE_NOTE in early.notes
        gate.set()
        assert second._parts.indexer.wait_for_change(second._parts.changes.newest_seq(), WAIT_SECONDS)
        late = await second.search(Query(text="green tea"))
        assert len(late.hits) == 1 and INDEX_INCOMPLETE_NOTE not in late.notes
    finally:
        gate.set()
        second.close()
