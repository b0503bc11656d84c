"""Mapping of dense and sparse chunk ids to slots."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge.index.columns_view import IdTable, SlotLookup, SortedIds, build_id_lookup


@pytest.mark.parametrize(("ids", "kind"), [([9, 7, 12, 8], IdTable), ([900, 7, 12_000, 80], SortedIds), ([], IdTable)])
def test_known_ids_are_found_and_unknown_ids_are_not(ids: list[int], kind: type[SortedIds | IdTable]) -> None:
    found = build_id_lookup(np.asarray(ids, np.int64), np.arange(len(ids)))
    assert isinstance(found, kind)
    assert found.find_slots(np.asarray(ids, np.int64)).tolist() == list(range(len(ids)))
    assert found.find_slots(np.asarray([-5, 0, 10, 50_000])).tolist() == [-1] * 4


def test_recent_ids_override_settled_ids() -> None:
    lookup = SlotLookup(build_id_lookup(np.asarray([5, 6]), np.asarray([0, 1])), {6: 2, 9: 3})
    assert lookup.find_slots(np.asarray([5, 6, 7, 9])).tolist() == [0, 2, -1, 3]
