"""Filters, facets and vector counts of documents, suggestions, and retrying many jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import InvalidParameter
from knowledge.extract.process.parsers import Parsers
from knowledge.model import (
    Caller,
    DocumentEdit,
    DocumentFilter,
    DocumentKind,
    DocumentStatus,
    FacetName,
    FacetValue,
    JobStatus,
    NewCollection,
    now,
)
from knowledge.model.suggestions import SuggestionKind
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import WAIT_SECONDS, add_file, add_note, make_file


async def list_titles(engine: Engine, **wanted: object) -> list[str]:
    found = await engine.documents(DocumentFilter(sort="title", descending=False, **wanted))  # type: ignore[arg-type]
    return [document.title for document in found.items]


async def test_documents_are_filtered_by_title_name_kind_status_and_date(engine: Engine) -> None:
    await add_note(engine, "the kettle boils", title="Kettle")
    await add_file(engine, "boats_50%.txt", "a boat on the lake", title="Lake")
    assert await list_titles(engine, text="KETT") == ["Kettle"]
    assert await list_titles(engine, text="boats") == ["Lake"]
    assert await list_titles(engine, text="_50%") == ["Lake"] and await list_titles(engine, text="%t") == []
    assert await list_titles(engine, kind=DocumentKind.NOTE) == ["Kettle"]
    assert await list_titles(engine, status=DocumentStatus.COMPLETED) == ["Kettle", "Lake"]
    assert await list_titles(engine, status=DocumentStatus.PARTIAL) == []
    assert await list_titles(engine, language="de") == []
    assert await list_titles(engine, added_from=now() - timedelta(days=1)) == ["Kettle", "Lake"]
    assert await list_titles(engine, added_to=now() - timedelta(days=1)) == []


async def test_names_are_found_in_any_script_whatever_their_case_and_follow_edits(engine: Engine) -> None:
    note = await add_note(engine, "a river", title="ÄPFEL und Σίσυφος")
    await add_file(engine, "МОСКВА.txt", "a city", title="Straße")
    for wanted in ("äpfel", "ÄPFEL", "ΣΊΣΥΦΟΣ", "σίσυφος"):
        assert await list_titles(engine, text=wanted) == ["ÄPFEL und Σίσυφος"]
    for wanted in ("москва", "STRASSE", "straße", "ＴＸＴ"):
        assert await list_titles(engine, text=wanted) == ["Straße"]
    assert await list_titles(engine, text="straße москва") == [], "each name is searched for itself"
    await engine.edit(note.id, DocumentEdit(title="Überfahrt", source_path="ÖL/ÜBUNG.md"))
    assert await list_titles(engine, text="äpfel") == []
    assert await list_titles(engine, text="überfahrt") == await list_titles(engine, text="übung") == ["Überfahrt"]


async def test_facets_count_all_documents_of_a_list(engine: Engine) -> None:
    await engine.create_collection(NewCollection(name="brewing", title="Brewing at home"))
    await add_note(engine, "one", tags=("tea", "noon"), title="One")
    await add_note(engine, "two", tags=("tea",), title="Two")
    await add_file(engine, "beer.txt", "three", collection="brewing", title="Three")
    found = await engine.documents(DocumentFilter(per_page=1, facets=(*FacetName,)))
    assert found.total == 3 and found.facets == {
        FacetName.DOC_TYPE: (FacetValue("note", 2), FacetValue("txt", 1)),
        FacetName.COLLECTION: (FacetValue("documents", 2, "documents"), FacetValue("brewing", 1, "Brewing at home")),
        FacetName.TAG: (FacetValue("tea", 2), FacetValue("noon", 1)),
        FacetName.LANGUAGE: (),
    }
    narrowed = await engine.documents(DocumentFilter(doc_type="txt", facets=(FacetName.COLLECTION,)))
    assert narrowed.facets == {FacetName.COLLECTION: (FacetValue("brewing", 1, "Brewing at home"),)}
    assert (await engine.documents(DocumentFilter())).facets is None


async def test_a_document_says_how_many_of_its_passages_have_a_vector(engine: Engine) -> None:
    document = await add_note(engine, "the kettle boils")
    assert document.vector_count == document.chunk_count == 1
    assert (await engine.status()).chunks_without_vectors == 0
    changed = await engine.update_note(document.id, "another kettle")
    assert changed.vector_count == 1


async def test_passages_are_without_vectors_if_there_is_no_model(settings: Settings, parsers: SharedParsers) -> None:
    engine = make_test_engine(settings.model_copy(update={"embedding": "none"}), parsers=parsers)
    engine.start()
    try:
        document = await add_note(engine, "the kettle boils")
        assert (document.chunk_count, document.vector_count) == (1, 0)
        assert (await engine.status()).chunks_without_vectors == 1
    finally:
        engine.close()


async def test_failed_jobs_whose_originals_were_not_kept_are_refused_and_named(engine: Engine) -> None:
    refused = [await engine.add(make_file(f"empty{number}.txt", "  ")) for number in range(2)]
    for job in refused:
        ended = await engine.wait(job.id, 30)
        assert (ended.status, ended.retryable) == (JobStatus.FAILED, False)
    result = await engine.retry_all()
    assert result.retried == 0 and [each.id for each in result.refused] == [job.id for job in refused]
    assert all(each.code and "kept" in each.message for each in result.refused)
    with pytest.raises(InvalidParameter):
        await engine.retry_all(JobStatus.COMPLETED)


async def test_failed_jobs_are_retried_together(settings: Settings, parsers: SharedParsers) -> None:
    broken = make_test_engine(settings, parsers=Parsers(parser="tests.data.extract.hostile_parsers:crashes"))
    broken.start()
    try:
        jobs = [await broken.add(make_file(f"tea{number}.md", f"# Tea {number}")) for number in range(2)]
        for job in jobs:
            assert (await broken.wait(job.id, WAIT_SECONDS)).status is JobStatus.FAILED
    finally:
        broken.close()
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    try:
        refused = await engine.wait((await engine.add(make_file("empty.txt", "  "))).id, WAIT_SECONDS)
        result = await engine.retry_all()
        assert result.retried == 2 and [each.id for each in result.refused] == [refused.id]
        for job in jobs:
            assert (await engine.wait(job.id, WAIT_SECONDS)).status is JobStatus.COMPLETED
        assert (await engine.retry_all()).retried == 0
    finally:
        engine.close()


# -- suggestions ----------------------------------------------------------------------------------


async def suggest(engine: Engine, text: str) -> list[tuple[str, str]]:
    return [(each.kind.value, each.text) for each in await engine.suggest(text)]


async def test_titles_headings_collections_and_tags_are_suggested_by_their_beginning(engine: Engine) -> None:
    await engine.create_collection(NewCollection(name="kettles", title="Kettles and pots"))
    text = "# Water\n\nIt boils.\n\n## Ketchup\n\nIt is red.\n"
    document = await add_file(engine, "k.md", text, title="Kettle Guide", tags=("ketone", "tea"))
    assert await suggest(engine, "ke") == [
        ("document", "Kettle Guide"),
        ("collection", "kettles"),
        ("tag", "ketone"),
        ("section", "Ketchup"),
    ]
    [section] = [each for each in await engine.suggest("KETCH") if each.kind is SuggestionKind.SECTION]
    chunks = await engine.chunks(document.id)
    assert section.document_uid == document.uid and section.chunk_index is not None
    assert "Ketchup" in chunks[section.chunk_index].section
    assert (
        await suggest(engine, "guide") == [] and await suggest(engine, "  ") == [] and await suggest(engine, "%") == []
    )


async def test_suggestions_follow_edits_and_removals(engine: Engine) -> None:
    document = await add_note(engine, "the kettle boils", title="Kettle")
    await engine.edit(document.id, DocumentEdit(title="Samovar"))
    assert await suggest(engine, "kett") == [] and await suggest(engine, "samo") == [("document", "Samovar")]
    await engine.remove(document.id)
    assert await suggest(engine, "samo") == []


async def test_at_most_eight_are_suggested(engine: Engine) -> None:
    for number in range(10):
        await add_note(engine, f"note {number}", title=f"Kettle {number}")
    assert len(await engine.suggest("kettle")) == 8


async def test_nothing_of_others_is_suggested(local: LocalEngine) -> None:
    await local.accounts.add("ada", "a long and unusual password")
    issued = await local.accounts.issue_key("ada", "laptop")
    caller = await local.accounts.find_by_key(issued.secret)
    assert caller is not None
    await add_note(local.as_caller(caller), "secret", title="Kettle of Ada", tags=("kettledrum",))
    assert await suggest(local.as_caller(Caller()), "kettle") == []
    assert len(await suggest(local.as_caller(caller), "kettle")) == 2
