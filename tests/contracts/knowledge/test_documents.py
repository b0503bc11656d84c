"""Contract 000: knowledge-remove, knowledge-show and knowledge-clear."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.contracts.knowledge.conftest import Product, data_folder_of
from tests.contracts.knowledge.samples import write_sample
from tests.contracts.transports import Body, Transport


async def add(client: Transport, path: Path, text: str) -> Body:
    path.parent.mkdir(exist_ok=True)
    answer = await client.call("knowledge-add", file_path=str(write_sample(path, text)), **{"async": False})
    assert answer["success"] is True, answer
    return answer


@pytest.mark.requirement("000.remove.answer")
async def test_a_confirmed_removal_deletes_the_document(client: Transport, files_folder: Path) -> None:
    added = await add(client, files_folder / "old-document.md", "The kettle is in the kitchen")
    answer = await client.call("knowledge-remove", document_id=added["document_id"], confirm=True)
    assert answer == {
        "success": True,
        "document_id": added["document_id"],
        "filename": "old-document.md",
        "chunks_removed": added["chunks_created"],
        "message": "Document removed successfully",
    }
    assert (await client.call("knowledge-show"))["total_count"] == 0


@pytest.mark.requirement("000.remove.confirmation")
async def test_a_removal_without_confirmation_shows_what_it_would_remove(client: Transport, files_folder: Path) -> None:
    added = await add(client, files_folder / "important.md", "The kettle is in the kitchen")
    for unconfirmed in ({}, {"confirm": False}, {"confirm": None}):
        answer = await client.call("knowledge-remove", document_id=added["document_id"], **unconfirmed)
        assert answer == {
            "success": False,
            "error": "confirmation_required",
            "message": "Set confirm=true to remove this document",
            "document": {"id": added["document_id"], "filename": "important.md", "chunks": 1},
        }
    assert (await client.call("knowledge-show"))["total_count"] == 1


@pytest.mark.requirement("000.remove.not_found")
async def test_an_unknown_document_cannot_be_removed(client: Transport) -> None:
    for unknown in (str(uuid4()), "uuid-v4-doc-id", "999999", 999999, "9" * 40):
        answer = await client.call("knowledge-remove", document_id=unknown, confirm=True)
        assert answer["success"] is False
        assert answer["error"] == "document_not_found"
        assert answer["message"] == f"Document with ID '{unknown}' not found"
        assert answer["document_id"] == str(unknown)


@pytest.mark.requirement("000.remove.parameters")
async def test_the_arguments_of_a_removal_are_checked(client: Transport) -> None:
    missing = await client.call("knowledge-remove", confirm=True)
    assert (missing["error"], missing["parameter"]) == ("missing_required_parameter", "document_id")
    for wrong, parameter in (
        ({"document_id": ["a"]}, "document_id"),
        ({"document_id": ""}, "document_id"),
        ({"document_id": "a", "confirm": "true"}, "confirm"),
    ):
        answer = await client.call("knowledge-remove", **wrong)
        assert (answer["error"], answer["parameter"]) == ("invalid_parameter", parameter)


@pytest.mark.requirement("000.show.answer")
async def test_a_list_shows_each_document(client: Transport, files_folder: Path) -> None:
    added = await add(client, files_folder / "api-documentation.md", "The kettle is in the kitchen")
    answer = await client.call("knowledge-show")
    assert answer["success"] is True
    assert (answer["total_count"], answer["limit"], answer["offset"]) == (1, 100, 0)
    [document] = answer["documents"]
    assert document["id"] == added["document_id"]
    assert document["filename"] == "api-documentation.md"
    assert document["format"] == "md"
    assert document["size_bytes"] == len("The kettle is in the kitchen")
    assert document["date_added"].endswith("Z")
    assert document["chunk_count"] == 1
    assert document["processing_status"] == "completed"
    assert document["processing_method"] == "text_extraction"


@pytest.mark.requirement("000.show.empty")
async def test_an_empty_list_has_a_message(client: Transport) -> None:
    answer = await client.call("knowledge-show")
    assert answer["success"] is True
    assert answer["documents"] == []
    assert answer["total_count"] == 0
    assert answer["message"] == "Knowledge base is empty"


@pytest.mark.requirement("000.show.sorting")
async def test_a_list_is_sorted_by_date_name_or_size_both_ways(client: Transport, files_folder: Path) -> None:
    for name, text in (("b.md", "two words"), ("a.md", "these are four words"), ("c.md", "one")):
        await add(client, files_folder / "sorted" / name, text)

    async def names(**arguments: str) -> str:
        documents = (await client.call("knowledge-show", **arguments))["documents"]
        return "".join(document["filename"][0] for document in documents)

    assert await names() == "cab"
    assert await names(sort_by="date_added", sort_order="asc") == "bac"
    assert await names(sort_by="filename", sort_order="asc") == "abc"
    assert await names(sort_by="filename") == "cba"
    assert await names(sort_by="size", sort_order="asc") == "cba"
    assert await names(sort_by="size", sort_order="desc") == "abc"


@pytest.mark.requirement("000.show.paging")
async def test_limit_and_offset_select_a_page(client: Transport, files_folder: Path) -> None:
    for name in "abcde":
        await add(client, files_folder / "paged" / f"{name}.md", f"page {name}")
    seen = []
    for offset in (0, 2, 4, 6):
        answer = await client.call(
            "knowledge-show", limit=2, offset=offset, sort_by="filename", sort_order="asc"
        )  # fmt: skip
        assert (answer["total_count"], answer["limit"], answer["offset"]) == (5, 2, offset)
        seen.append([document["filename"][0] for document in answer["documents"]])
    assert seen == [["a", "b"], ["c", "d"], ["e"], []]


@pytest.mark.requirement("000.show.parameters")
async def test_the_arguments_of_a_list_are_checked(client: Transport) -> None:
    assert (await client.call("knowledge-show", limit=1000))["success"] is True
    for wrong in ({"limit": 0}, {"limit": 1001}, {"offset": -1}, {"sort_by": "colour"}, {"sort_order": "up"}):
        answer = await client.call("knowledge-show", **wrong)
        assert (answer["error"], answer["parameter"]) == ("invalid_parameter", next(iter(wrong)))


@pytest.mark.requirement("000.clear.answer")
async def test_a_confirmed_clear_deletes_everything_and_returns_the_counts(
    client: Transport, files_folder: Path
) -> None:
    sizes = 0
    for number in range(3):
        text = f"Kettle number {number} is in the kitchen"
        await add(client, files_folder / f"cleared-{number}.md", text)
        sizes += len(text)
    answer = await client.call("knowledge-clear", confirm=True, confirmation_phrase="DELETE ALL")
    assert answer["success"] is True
    assert answer["documents_removed"] == 3
    assert answer["embeddings_removed"] == 3
    assert answer["storage_freed_mb"] == round(sizes / (1 << 20), 4)
    assert answer["message"] == "Knowledge base cleared successfully"
    assert (await client.call("knowledge-show"))["total_count"] == 0


@pytest.mark.requirement("000.clear.confirmation")
async def test_a_clear_without_the_right_phrase_counts_the_documents_it_would_delete(
    client: Transport, files_folder: Path
) -> None:
    await add(client, files_folder / "kept.md", "The kettle is in the kitchen")
    for confirm, phrase in ((False, "DELETE ALL"), (True, "delete all"), (True, ""), (False, "no")):
        answer = await client.call("knowledge-clear", confirm=confirm, confirmation_phrase=phrase)
        assert answer == {
            "success": False,
            "error": "confirmation_required",
            "message": (
                "This action will delete ALL documents. "
                "Set confirm=true and confirmation_phrase='DELETE ALL' to proceed"
            ),
            "current_document_count": 1,
        }
    assert (await client.call("knowledge-show"))["total_count"] == 1


@pytest.mark.requirement("000.clear.missing")
async def test_both_arguments_of_a_clear_are_required(client: Transport) -> None:
    for given, missing in (
        ({}, "confirm"),
        ({"confirm": True}, "confirmation_phrase"),
        ({"confirmation_phrase": "DELETE ALL"}, "confirm"),
    ):
        answer = await client.call("knowledge-clear", **given)
        assert (answer["error"], answer["parameter"]) == ("missing_required_parameter", missing)
    answer = await client.call("knowledge-clear", confirm="yes", confirmation_phrase="DELETE ALL")
    assert (answer["error"], answer["parameter"]) == ("invalid_parameter", "confirm")


@pytest.mark.requirement("000.clear.files")
async def test_a_clear_leaves_no_file_behind(client: Transport, files_folder: Path, product: Product) -> None:
    await add(client, files_folder / "gone.md", "The kettle is in the kitchen")
    files = data_folder_of(client, product) / "files"
    assert [path for path in files.rglob("*") if path.is_file()]
    await client.call("knowledge-clear", confirm=True, confirmation_phrase="DELETE ALL")
    assert [path for path in files.rglob("*") if path.is_file()] == []
    assert await product.engine.verify() == []
