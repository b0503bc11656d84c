"""Contract 000, knowledge-search."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.contracts.knowledge.samples import write_sample
from tests.contracts.transports import Body, Transport


async def add(client: Transport, files_folder: Path, text: str, suffix: str = ".md") -> Body:
    path = write_sample(files_folder / f"{uuid4().hex}{suffix}", text)
    answer = await client.call("knowledge-add", file_path=str(path), **{"async": False})
    assert answer["success"] is True, answer
    return answer


@pytest.mark.requirement("000.search.answer")
async def test_a_search_returns_passages_with_their_sources(client: Transport, files_folder: Path) -> None:
    added = await add(client, files_folder, "# Setup\n\nTo configure authentication, first set up the OAuth2 provider.")
    answer = await client.call("knowledge-search", query="How to configure authentication?")
    assert answer["success"] is True
    assert answer["query"] == "How to configure authentication?"
    assert answer["total_results"] == len(answer["results"]) == 1
    assert answer["search_time_ms"] >= 0
    [hit] = answer["results"]
    assert hit["document_id"] == added["document_id"]
    assert UUID(hit["chunk_id"]).version == 4
    assert hit["filename"] == added["filename"]
    assert "OAuth2 provider" in hit["chunk_text"]
    assert 0 <= hit["relevance_score"] <= 1
    assert hit["metadata"]["format"] == "md"
    assert hit["metadata"]["page_num"] is None
    assert hit["metadata"]["date_added"].endswith("Z")
    assert hit["metadata"]["section"] == ["Setup"]


@pytest.mark.requirement("000.search.page")
async def test_a_hit_in_a_document_with_pages_has_its_page_number(client: Transport, files_folder: Path) -> None:
    await add(client, files_folder, "The kettle is in the kitchen", ".pdf")
    [hit] = (await client.call("knowledge-search", query="where is the kettle"))["results"]
    assert hit["metadata"]["format"] == "pdf"
    assert hit["metadata"]["page_num"] == 1


@pytest.mark.requirement("000.search.query")
@pytest.mark.parametrize("query", ["", "   ", "x" * 501, 7, ["kettle"]])
async def test_a_query_is_a_text_of_1_to_500_characters(client: Transport, query: object) -> None:
    answer = await client.call("knowledge-search", query=query)
    assert answer["success"] is False
    assert answer["error"] == "invalid_parameter"
    assert answer["parameter"] == "query"


@pytest.mark.requirement("000.search.missing")
async def test_a_search_without_a_query_is_refused(client: Transport) -> None:
    answer = await client.call("knowledge-search", top_k=3)
    assert answer["error"] == "missing_required_parameter"
    assert answer["parameter"] == "query"


@pytest.mark.requirement("000.search.longest_query")
async def test_a_query_of_500_characters_is_answered(client: Transport, files_folder: Path) -> None:
    await add(client, files_folder, "The kettle is in the kitchen")
    answer = await client.call("knowledge-search", query=("kettle " * 100)[:500])
    assert answer["success"] is True


@pytest.mark.requirement("000.search.top_k")
async def test_top_k_is_10_unless_given_and_at_most_50(client: Transport, files_folder: Path) -> None:
    between = "# Boat\n\nA boat with two oars lies on the lake."  # neighbours that match are one passage
    text = "\n\n".join(f"# Kettle {number}\n\nKettle number {number}.\n\n{between}" for number in range(60))
    await add(client, files_folder, text)
    assert len((await client.call("knowledge-search", query="kettle"))["results"]) == 10
    assert len((await client.call("knowledge-search", query="kettle", top_k=1))["results"]) == 1
    assert 10 < len((await client.call("knowledge-search", query="kettle", top_k=50))["results"]) <= 50
    for wrong in (0, -1, 51, "five", 2.5, True):
        answer = await client.call("knowledge-search", query="kettle", top_k=wrong)
        assert answer["error"] == "invalid_parameter"
        assert answer["parameter"] == "top_k"


@pytest.mark.requirement("000.search.min_relevance")
async def test_min_relevance_drops_lower_scores(client: Transport, files_folder: Path) -> None:
    await add(client, files_folder, "The kettle is in the kitchen")
    await add(client, files_folder, "A lamp stands beside the window of the library, where nobody reads any more")
    everything = (await client.call("knowledge-search", query="the kettle is in the kitchen"))["results"]
    best, worst = everything[0]["relevance_score"], everything[-1]["relevance_score"]
    assert best > worst
    between = (best + worst) / 2
    answer = await client.call("knowledge-search", query="the kettle is in the kitchen", min_relevance=between)
    assert [hit["relevance_score"] for hit in answer["results"]] == [
        hit["relevance_score"] for hit in everything if hit["relevance_score"] >= between
    ]
    for wrong in (-0.1, 1.1, "high"):
        refused = await client.call("knowledge-search", query="kettle", min_relevance=wrong)
        assert refused["error"] == "invalid_parameter"
        assert refused["parameter"] == "min_relevance"


@pytest.mark.requirement("000.search.filter_format")
async def test_a_format_filter_keeps_only_that_format(client: Transport, files_folder: Path) -> None:
    await add(client, files_folder, "The kettle is in the kitchen")
    page = await add(client, files_folder, "The kettle is in the garden", ".html")
    for name in ("html", "HTML", ".htm"):
        answer = await client.call("knowledge-search", query="kettle", filters={"format": name})
        assert [hit["document_id"] for hit in answer["results"]] == [page["document_id"]]
    answer = await client.call("knowledge-search", query="kettle", filters={"format": "xlsx"})
    assert answer["success"] is True
    assert answer["results"] == []


@pytest.mark.requirement("000.search.filter_dates")
async def test_a_date_range_is_utc_and_inclusive(client: Transport, files_folder: Path) -> None:
    await add(client, files_folder, "The kettle is in the kitchen")
    today = datetime.now(UTC).date()
    day = timedelta(days=1)

    async def count(start: object, end: object) -> int:
        days = {key: str(value) for key, value in (("start", start), ("end", end)) if value is not None}
        answer = await client.call("knowledge-search", query="kettle", filters={"date_range": days})
        return int(answer["total_results"])

    assert await count(today - day, today + day) == 1
    assert await count(today - day, None) == 1
    assert await count(None, today + day) == 1
    assert await count(today + 2 * day, None) == 0
    assert await count(None, today - 2 * day) == 0


@pytest.mark.requirement("000.search.invalid_filters")
@pytest.mark.parametrize(
    ("filters", "parameter"),
    [
        ("pdf", "filters"),
        ({"format": "exe"}, "filters.format"),
        ({"format": 3}, "filters.format"),
        ({"colour": "red"}, "filters.colour"),
        ({"date_range": "2025"}, "filters.date_range"),
        ({"date_range": {"start": "yesterday"}}, "filters.date_range.start"),
        ({"date_range": {"end": "2025-02-30"}}, "filters.date_range.end"),
        ({"date_range": {"start": "2025-12-31", "end": "2025-01-01"}}, "filters.date_range"),
        ({"date_range": {"from": "2025-12-31"}}, "filters.date_range.from"),
    ],
)
async def test_an_invalid_filter_is_named_in_the_error(client: Transport, filters: object, parameter: str) -> None:
    answer = await client.call("knowledge-search", query="kettle", filters=filters)
    assert answer["success"] is False
    assert answer["error"] == "invalid_parameter"
    assert answer["parameter"] == parameter


@pytest.mark.requirement("000.search.no_results")
async def test_a_search_without_hits_has_a_message(client: Transport, files_folder: Path) -> None:
    await add(client, files_folder, "The kettle is in the kitchen")
    answer = await client.call("knowledge-search", query="kettle", filters={"format": "pptx"})
    assert answer["success"] is True
    assert answer["query"] == "kettle"
    assert answer["results"] == []
    assert answer["total_results"] == 0
    assert answer["message"] == "No documents found matching your query"
    assert "search_time_ms" in answer


@pytest.mark.requirement("000.search.empty_knowledge_base")
async def test_an_empty_knowledge_base_is_an_error(client: Transport) -> None:
    answer = await client.call("knowledge-search", query="anything")
    assert answer["success"] is False
    assert answer["error"] == "empty_knowledge_base"
    assert answer["message"] == "Knowledge base is empty. Add documents with knowledge-add first"
    assert answer["document_count"] == 0
