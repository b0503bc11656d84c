"""An index that cannot be used, damaged or of an older version: what people see until there is another."""

from __future__ import annotations

import shutil
import threading

import pytest

from knowledge.config import Settings
from knowledge.engine.indexing import follower
from knowledge.engine.indexing.follower import Indexer
from knowledge.engine.local import NOT_ALL_YET
from knowledge.index.api import Index
from knowledge.model import Query
from knowledge.store.models import StoredModel
from knowledge.testing import SharedParsers, small_engine
from tests.support.engines import PATIENCE, add_note


async def test_an_answer_says_that_the_index_is_still_being_built(
    settings: Settings, parsers: SharedParsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = small_engine(settings, parsers=parsers)
    first.start()
    await add_note(first, "Green tea steeps for two minutes.")
    first.close()
    shutil.rmtree(settings.data / "index")
    gate, build = threading.Event(), Indexer._build

    def slowly(self: Indexer, model: StoredModel | None) -> Index:
        assert gate.wait(PATIENCE)
        return build(self, model)

    monkeypatch.setattr(follower, "SMALL", 0)
    monkeypatch.setattr(Indexer, "_build", slowly)
    second = small_engine(settings, parsers=parsers)
    second.start()
    try:
        early = await second.search(Query(text="green tea"))
        assert not early.hits and NOT_ALL_YET in early.notes
        gate.set()
        assert second._parts.indexer.follow(second._parts.changes.newest(), PATIENCE)
        late = await second.search(Query(text="green tea"))
        assert len(late.hits) == 1 and NOT_ALL_YET not in late.notes
    finally:
        gate.set()
        second.close()
