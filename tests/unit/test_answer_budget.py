"""Answers are fitted into a number of characters."""

from __future__ import annotations

import copy

import pytest

from knowledge.model import Json, JsonValue
from knowledge.toolsets.answer_budget import (
    MIN_TEXT_CHARS,
    cut_text,
    encode_answer,
    fit_answer,
    measure_text,
    share_budget,
    take_within,
)

LIMIT = 48_000


def make_hit(number: int, text: str, **more: JsonValue) -> Json:
    return {
        "chunk_id": number, "document_id": number, "score": 0.5, "matched_by": "both", "text": text, "chunk_index": 3,
        "chunk_indexes": [3, 5], "chunk_metadata": {"page": 1, "section_header": "A > B"}, "title": "A title",
        "doc_type": "pdf", "collection": "documents", "tags": ["a"], "metadata": {}, "source_path": "/home/ada/a.pdf",
        "url": None, "created_at": "2026-01-01T00:00:00Z",
        "resource": "document://00000000-0000-0000-0000-000000000000?from=1&count=8", **more,
    }  # fmt: skip


def rows_of(body: Json, key: str = "results") -> list[Json]:
    rows = body[key]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


def test_an_answer_that_fits_is_the_same_object() -> None:
    body: Json = {"results": [make_hit(1, "short")]}
    assert fit_answer(body, LIMIT) is body


@pytest.mark.parametrize("text", ["word " * 4000, '"\n\\' * 4000, "\x01" * 4000, "知識" * 4000, "x" * 20_000])
@pytest.mark.parametrize("count", [1, 10, 50, 100])
def test_no_hit_is_dropped_and_the_best_keep_most(count: int, text: str) -> None:
    body: Json = {"query": "q", "results": [make_hit(number, text) for number in range(count)]}
    before = copy.deepcopy(body)
    fitted = fit_answer(body, LIMIT)
    assert body == before, "the answer of the tool is not changed"
    assert len(encode_answer(fitted)) <= LIMIT
    hits = rows_of(fitted)
    assert [hit["chunk_id"] for hit in hits] == list(range(count))
    kept = [len(str(hit["text"])) for hit in hits]
    assert kept[0] == max(kept)
    for hit in hits:
        cut = hit["text"] != text
        assert hit.get("truncated", False) is cut
        assert not cut or str(hit["text"]).endswith("…")
        assert {"document_id", "score", "title", "tags", "metadata", "chunk_metadata", "resource"} <= set(hit)


def test_the_budget_is_used_when_texts_are_cut() -> None:
    body: Json = {"results": [make_hit(number, "word " * 2000) for number in range(10)]}
    assert len(encode_answer(fit_answer(body, LIMIT))) > 0.97 * LIMIT


def test_a_short_text_is_not_cut_for_a_long_one() -> None:
    body: Json = {"results": [make_hit(1, "w" * 100_000), make_hit(2, "a short text")]}
    first, second = rows_of(fit_answer(body, LIMIT))
    assert first["truncated"] is True
    assert second["text"] == "a short text" and "truncated" not in second


def test_large_metadata_is_cut_before_texts_are_lost() -> None:
    metadata: JsonValue = {f"key{number}": "m" * 900 for number in range(100)}
    body: Json = {"results": [make_hit(number, "word " * 100, metadata=metadata) for number in range(20)]}
    fitted = fit_answer(body, LIMIT)
    assert len(encode_answer(fitted)) <= LIMIT
    for hit in rows_of(fitted):
        assert len(str(hit["text"])) >= MIN_TEXT_CHARS
        assert hit["truncated"] is True
        assert isinstance(hit["metadata"], dict) and "key0" in hit["metadata"]


def test_rows_of_a_listing_are_left_out_from_the_end_with_the_next_offset() -> None:
    rows: list[JsonValue] = [{"id": number, "filename": "f" * 150, "metadata": {}} for number in range(1000)]
    fitted = fit_answer({"documents": rows, "total_count": 5000, "offset": 2000}, LIMIT)
    kept = rows_of(fitted, "documents")
    assert len(encode_answer(fitted)) <= LIMIT
    assert [row["id"] for row in kept] == list(range(len(kept))) and len(kept) > 200
    assert fitted["documents_left_out"] == 1000 - len(kept)
    assert fitted["next_offset"] == 2000 + len(kept)
    assert fitted["truncated"] is True and fitted["hint"]


@pytest.mark.parametrize(
    "body",
    [
        {"message": "m" * 100_000},
        {"content": "c" * 100_000, "metadata": {"files": ["f" * 300] * 1000}},
        {"document": {"metadata": {f"k{number}": number for number in range(20_000)}}},
        {"error": {"code": "x", "message": "m" * 90_000, "details": {"a": ["b"] * 30_000}}},
        {"layers": {"core": ["t" * 100] * 2000, "practices": ["t" * 100] * 2000}},
    ],
)
def test_any_shape_of_an_answer_is_fitted(body: Json) -> None:
    assert len(encode_answer(fit_answer(body, LIMIT))) <= LIMIT


def test_half_of_a_budget_is_shared_equally_and_the_rest_goes_to_the_best() -> None:
    assert share_budget([10, 20], 40) == [10, 20]
    assert share_budget([100, 100, 100, 100], 200) == [100, 50, 25, 25]
    assert share_budget([1000, 5, 1000], 600) == [495, 5, 100]
    assert share_budget([10, 10], -5) == [0, 0]
    assert share_budget([], 10) == []


def test_a_text_is_cut_at_a_word_in_characters_of_json() -> None:
    assert cut_text("one two three", 13) == "one two three"
    assert cut_text("one two three", 12) == "one two…"
    assert cut_text("\n" * 50, 21) == "…"
    assert measure_text(cut_text('"' * 50, 21)) == 21
    assert cut_text("anything", 0) == "…"


def test_items_are_taken_while_they_fit_and_at_least_one() -> None:
    assert take_within("abc", [5, 5, 5], 10) == "ab"
    assert take_within("abc", [50, 5, 5], 10) == "a"
    assert take_within("", [], 10) == ""
