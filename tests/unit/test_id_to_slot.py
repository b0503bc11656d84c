"""From ids to slots, whether ids follow each other closely or not."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge.index.columns_view import IdTable, SlotLookup, SortedIds, build_id_lookup


@pytest.mark.parametrize(("ids", "kind"), [([9, 7, 12, 8], IdTable), ([900, 7, 12_000, 80], SortedIds), ([], IdTable)])
def test_an_id_is_found_and_a_stranger_is_not(ids: list[int], kind: type[SortedIds | IdTable]) -> None:
    found = build_id_lookup(np.asarray(ids, np.int64), np.arange(len(ids)))
    assert isinstance(found, kind)
    assert found.slots_of(np.asarray(ids, np.int64)).tolist() == list(range(len(ids)))
    assert found.slots_of(np.asarray([-5, 0, 10, 50_000])).tolist() == [-1] * 4


def test_what_came_last_is_known_too_and_goes_before() -> None:
    lookup = SlotLookup(build_id_lookup(np.asarray([5, 6]), np.asarray([0, 1])), {6: 2, 9: 3})
    assert lookup.slots_of(np.asarray([5, 6, 7, 9])).tolist() == [0, 2, -1, 3]
