"""Round trips of the JSON format of /api/v1, and its parsers."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, get_type_hints
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge import wire
from knowledge.error_codes import ERRORS_BY_CODE
from knowledge.errors import (
    DocumentNotFound,
    Duplicate,
    Internal,
    Invalid,
    InvalidParameter,
    KnowledgeError,
    MissingParameter,
)
from knowledge.model import (
    Chunk,
    Collection,
    CollectionEdit,
    Content,
    Curation,
    Document,
    DocumentEdit,
    DocumentFilter,
    EngineStatus,
    Finding,
    Hit,
    Job,
    JobFilter,
    JobKind,
    JobStatus,
    NewCollection,
    NewFile,
    NewNote,
    Query,
    RemovalResult,
    ResultPage,
    SearchAnswer,
    SearchFilter,
    SearchMode,
)
from knowledge.wire import documents as wire_documents
from knowledge.wire.requests import parse_form_tags
from knowledge.wire.values import load_date

texts = st.text(st.characters(codec="utf-8"), max_size=30)
words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(str.strip)
numbers = st.integers(0, 2**63 - 1)
timestamps = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
metadata = st.dictionaries(words, st.none() | st.booleans() | st.integers() | texts | st.lists(texts), max_size=3)
free_tags = words.filter(lambda tag: not tag.startswith("collection:"))
tag_tuples = st.lists(free_tags, max_size=3, unique=True).map(tuple)
refs = numbers | st.uuids()
collection_refs = refs | words | st.just("2024") | st.just(str(UUID(int=7))) | st.just("collection:x")


def build_strategy(domain_type: type[Any], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for a dataclass, with `fixed` strategies for some fields."""
    hints = get_type_hints(domain_type, localns={"JsonValue": object})  # the recursive alias cannot be resolved
    free = {
        field.name: st.from_type(hints[field.name])
        for field in fields(domain_type)
        if field.init and field.name not in fixed
    }
    return st.builds(domain_type, **free, **fixed)


common: dict[str, st.SearchStrategy[Any]] = {"metadata": metadata, "created_at": timestamps, "updated_at": timestamps}
documents = build_strategy(Document, tags=tag_tuples, collection=words, title=texts, **common)
chunks = build_strategy(Chunk, text=texts, section=st.lists(texts, max_size=3).map(tuple))
collections = build_strategy(Collection, name=words, curation=st.none() | st.builds(Curation), **common)
jobs = build_strategy(
    Job,
    created_at=timestamps,
    started_at=st.none() | timestamps,
    completed_at=st.none() | timestamps,
    error=st.none(),
)
statuses = build_strategy(EngineStatus, last_change=st.none() | timestamps, uptime_seconds=st.floats(0, 1e9))


def make_add_body(**fields: object) -> wire.AddBody:
    return wire.AddBody.model_validate(fields)


def make_search_body(**fields: object) -> wire.SearchBody:
    return wire.SearchBody.model_validate(fields)


def to_json(value: object) -> Any:
    """Return the JSON of a value, parsed."""
    return json.loads(wire.dump_json(value))


@given(documents)
def test_a_document_survives_a_round_trip(document: Document) -> None:
    shape = wire.DocumentShape.from_document(document)
    assert wire.load(wire.DocumentShape, to_json(shape)).to_document() == document


@given(documents, chunks, st.floats(0, 1), st.none() | metadata)
def test_a_hit_survives_a_round_trip(document: Document, chunk: Chunk, score: float, explanation: Any) -> None:
    document = replace(document, vector_count=None, access=None)  # hits have neither
    placed = Chunk(chunk.id, chunk.uid, document.id, chunk.index, chunk.text, chunk.page, chunk.section)
    hit = Hit(placed, document, score, "both", chunk.text, (chunk.index, chunk.index), explanation)
    answer = SearchAnswer((hit,), 7, SearchMode.RERANK, ("The budget ran out.",), explanation)
    assert wire.load(wire.HitShape, to_json(wire.HitShape.from_hit(hit))).to_hit() == hit
    assert wire.load(wire.AnswerShape, to_json(wire.AnswerShape.from_answer(answer, "why"))).to_answer() == answer


@given(documents, st.lists(chunks, max_size=3))
def test_chunks_survive_a_round_trip(document: Document, found: list[Chunk]) -> None:
    placed = [Chunk(c.id, c.uid, document.id, c.index, c.text, c.page, c.section) for c in found]
    shape = wire.DocumentWithChunksShape.from_chunks(document, placed)
    assert wire.load(wire.DocumentWithChunksShape, to_json(shape)).to_chunks() == placed


@given(jobs)
def test_a_job_survives_a_round_trip(job: Job) -> None:
    page = ResultPage((job,), 9, 2, 5)
    assert wire.load(Job, to_json(job)) == job
    assert wire.load(Job, to_json(wire.AcceptedShape.from_job(job))) == job
    assert wire.load(wire.JobsShape, to_json(wire.JobsShape.from_page(page))).to_page() == page


@given(collections)
def test_a_collection_survives_a_round_trip(collection: Collection) -> None:
    assert wire.load(Collection, to_json(collection)) == collection
    page = ResultPage((collection,), 1)
    assert wire.load(wire.CollectionsShape, to_json(wire.CollectionsShape.from_page(page))).to_page() == page


@given(statuses)
def test_a_status_survives_a_round_trip(status: EngineStatus) -> None:
    assert wire.load(wire.StatusShape, to_json(wire.StatusShape.from_status(status))).to_status() == status


def test_small_answers_survive_a_round_trip() -> None:
    findings = [Finding("index", "Passage 7 is missing")]
    report = wire.load(wire.FindingsShape, to_json(wire.FindingsShape.from_findings(findings)))
    assert (list(report.findings), report.clean) == (findings, False)
    assert wire.load(RemovalResult, to_json(RemovalResult(1, 2, 3))) == RemovalResult(1, 2, 3)


def test_a_document_shape_has_every_field_of_a_document() -> None:
    names = [field.name for field in fields(Document)]
    assert [field.name for field in fields(wire.DocumentShape)] == names
    only_documents = ["vector_count", "access"]
    assert ["id", "uid", *wire_documents.DOCUMENT_FIELDS, *only_documents] == names, "all others are in hits too"


def test_a_job_is_serialized_in_field_order_with_the_progress_after_the_status() -> None:
    names = list(to_json(_job(done=1, total=4)))
    assert names[:8] == ["id", "uid", "kind", "owner", "filename", "status", "progress", "step"]
    assert to_json(_job(done=1, total=4))["progress"] == 0.25
    assert list(to_json(wire.AcceptedShape.from_job(_job())))[:2] == ["job_id", "id"]


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert json.loads(wire.dump_json(Finding("store", "half \ud800 pair")))["message"] == "half ? pair"


@given(
    st.builds(
        Query,
        text=texts,
        limit=st.integers(1, 100),
        offset=st.integers(0, 1000),
        threshold=st.floats(0, 1),
        budget_ms=st.none() | st.integers(1, 1000),
        filter=st.builds(
            SearchFilter,
            collections=st.lists(collection_refs, max_size=3).map(tuple),
            tags=tag_tuples,
            doc_types=st.lists(words, max_size=2).map(tuple),
            documents=st.lists(refs, max_size=2).map(tuple),
            date_from=st.none() | timestamps,
            date_to=st.none() | timestamps,
        ),
    )
)
def test_a_query_survives_a_round_trip(query: Query) -> None:
    assert wire.SearchBody.model_validate_json(json.dumps(wire.dump_query(query))).to_query() == query


@given(
    st.builds(
        NewNote,
        text=texts,
        title=st.none() | words,
        tags=tag_tuples,
        metadata=metadata,
        collection=collection_refs,
        source_path=st.none() | words,
        url=st.none() | words,
    )
)
def test_a_note_survives_a_round_trip(new: NewNote) -> None:
    assert wire.AddBody.model_validate_json(json.dumps(wire.dump_note(new))).to_note() == new


@given(
    st.builds(
        DocumentEdit,
        title=st.none() | texts,
        url=st.none() | texts,
        metadata=st.none() | metadata,
        collection=st.none() | collection_refs,
        add_tags=tag_tuples,
        remove_tags=tag_tuples,
    )
)
def test_an_edit_survives_a_round_trip(edit: DocumentEdit) -> None:
    body = json.dumps(wire.dump_document_edit(edit))
    assert wire.DocumentEditBody.model_validate_json(body).to_edit() == edit


def test_collection_edits_survive_a_round_trip() -> None:
    edit = CollectionEdit(title="Tea", metadata={"a": None})
    assert wire.CollectionEditBody.model_validate(wire.dump(edit, exclude_none=True)).to_edit() == edit
    new = NewCollection(title="Tea and Milk", description="hot", url="http://tea.example", metadata={"a": 1})
    assert wire.NewCollectionBody.model_validate_json(wire.dump_json(new)).to_new() == new


@given(
    st.builds(
        DocumentFilter,
        collection=st.none() | collection_refs,
        tag=st.none() | free_tags,
        doc_type=st.none() | words,
        source_path=st.none() | words,
        sort=st.just("title"),
        page=st.integers(1, 9),
        per_page=st.integers(1, 200),
        offset=st.none() | st.integers(0, 99),
    )
)
def test_a_document_filter_survives_a_round_trip(wanted: DocumentFilter) -> None:
    assert wire.DocumentListing.model_validate(wire.dump_document_filter(wanted)).to_filter() == wanted


def test_a_job_filter_survives_a_round_trip() -> None:
    wanted = JobFilter(status=JobStatus.FAILED, page=3, per_page=7)
    assert wire.JobListing.model_validate(wire.dump_job_filter(wanted)).to_filter() == wanted


@given(tag_tuples)
def test_the_form_fields_of_a_file_survive_a_round_trip(tags: tuple[str, ...]) -> None:
    new = NewFile(
        filename='a "b".txt', content=Content.from_bytes(b""), collection="2024", tags=tags, metadata={"a": [1]}
    )
    form: dict[str, Any] = wire.dump_file_fields(new)
    form["tags"] = parse_form_tags(form["tags"])
    form["metadata"] = json.loads(form["metadata"])
    again = wire.FileFields.model_validate(form, strict=False).to_file(form["filename"], new.content)
    assert again == new


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.code)
def test_an_error_is_loaded_as_the_class_that_was_raised(kind: type[KnowledgeError]) -> None:
    error = kind("It went wrong", hint="Do better.")
    error.details = {"document_id": 7, "message": "not the message", "hint": None}
    back = wire.load_error(error.status, json.loads(json.dumps(wire.dump_error(error))))
    assert back is not None
    assert type(back) is kind
    assert (str(back), back.hint, back.details) == (str(error), error.hint, error.details)


def test_an_unknown_error_code_becomes_the_class_with_the_same_status() -> None:
    body = {"error": {"code": "not_invented_yet", "message": "What?"}}
    assert type(wire.load_error(409, body)) is ERRORS_BY_CODE["conflict"]
    assert isinstance(wire.load_error(500, body), KnowledgeError)


@pytest.mark.parametrize("body", [None, [], "no", {}, {"error": "no"}, {"error": {"code": 7}}, {"detail": "no"}])
def test_a_body_in_another_format_is_not_loaded_as_an_error(body: object) -> None:
    assert wire.load_error(500, body) is None


def test_the_collection_is_the_first_tag() -> None:
    document = _document(tags=("email",), collection="memory")
    shape = to_json(wire.DocumentShape.from_document(document))
    assert shape["tags"] == ["collection:memory", "email"]
    assert shape["collection"] == "memory"


def test_timestamps_are_utc_with_z() -> None:
    assert to_json(wire.DocumentShape.from_document(_document()))["created_at"] == "2026-01-31T12:00:00Z"


def test_a_tag_selects_the_collection_of_a_note() -> None:
    note = make_add_body(note="tea", tags=["collection:memory", "hot"]).to_note()
    assert (note.collection, note.tags) == ("memory", ("hot",))


def test_the_same_collection_named_twice_is_one() -> None:
    assert make_add_body(note="tea", tags=["collection:memory"], collection="memory").to_note().collection == "memory"


@pytest.mark.parametrize(
    "body",
    [
        make_add_body(note="tea", tags=["collection:a", "collection:b"]),
        make_add_body(note="tea", tags=["collection:a"], collection="b"),
    ],
)
def test_two_collections_for_one_document_are_rejected(body: wire.AddBody) -> None:
    with pytest.raises(Invalid, match="several"):
        body.to_note()


def test_a_contradictory_search_is_rejected() -> None:
    with pytest.raises(Invalid, match="contradict"):
        make_search_body(query="tea", fts_only=True, vec_only=True).to_query()
    with pytest.raises(Invalid, match="contradict"):
        make_search_body(query="tea", fts_only=True, mode="vector").to_query()
    with pytest.raises(Invalid, match="collection"):
        make_search_body(query="tea", collection="a", collections=["b"]).to_query()


def test_keyword_and_vector_search_can_be_selected_by_mode_or_by_flag() -> None:
    assert make_search_body(query="tea", fts_only=True).to_query().mode is SearchMode.TEXT
    assert make_search_body(query="tea", vec_only=True, mode="vector").to_query().mode is SearchMode.VECTOR
    assert make_search_body(query="tea").to_query().mode is SearchMode.HYBRID


def test_an_end_date_covers_the_whole_day() -> None:
    assert load_date("2026-01-31", "date_to", end=True) == datetime(2026, 1, 31, 23, 59, 59, 999999, UTC)
    assert load_date("2026-01-31", "date_from") == datetime(2026, 1, 31, tzinfo=UTC)
    assert load_date("2026-01-31T01:00:00+02:00", "date_from") == datetime(2026, 1, 30, 23, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:00:00-14:00"])
def test_an_invalid_date_is_rejected(text: str) -> None:
    with pytest.raises(InvalidParameter, match="not a date"):
        load_date(text, "date_from")


@pytest.mark.parametrize("text", ["", "abc", "-1", "1.5", "99999999999999999999", "٣", " 1", "1\n"])
def test_an_invalid_reference_is_rejected(text: str) -> None:
    with pytest.raises(InvalidParameter, match="neither"):
        wire.load_ref(text)


def test_a_reference_is_a_number_or_a_uuid() -> None:
    assert wire.load_ref("42") == 42
    assert wire.load_ref(str(UUID(int=42))) == UUID(int=42)


def test_a_collection_without_a_name_is_rejected() -> None:
    with pytest.raises(MissingParameter):
        wire.NewCollectionBody.model_validate({}).to_new()
    with pytest.raises(InvalidParameter):
        wire.load_collection_ref("collection:")


@pytest.mark.parametrize(
    ("given", "tags"),
    [(["a, b,,"], ["a", "b"]), (["a,b", "c"], ["a,b", "c"]), (['["a,b"]'], ["a,b"]), ([""], [])],
)
def test_form_tags_are_repeated_or_comma_separated(given: list[str], tags: list[str]) -> None:
    assert parse_form_tags(given) == tags


def _document(tags: tuple[str, ...] = (), collection: str = "documents") -> Document:
    moment = "2026-01-31T12:00:00Z"
    shape: Any = dict.fromkeys(wire_documents.DOCUMENT_FIELDS) | {"title": "", "doc_type": "", "sha256": ""}
    shape |= {"id": 1, "uid": str(UUID(int=1)), "kind": "note", "collection_id": 1, "owner": 0, "metadata": {}}
    shape |= {
        "size_bytes": 1,
        "page_count": None,
        "status": "completed",
        "method": "text_extraction",
        "warnings": [],
        "chunk_count": 1,
    }
    shape |= {"created_at": moment, "updated_at": moment, "collection": collection, "tags": list(tags)}
    return wire.load(wire.DocumentShape, shape).to_document()


def _job(done: int = 0, total: int = 0) -> Job:
    facts: Any = dict.fromkeys(field.name for field in fields(Job) if field.init)
    facts |= {"id": 1, "uid": UUID(int=1), "kind": JobKind.ADD, "owner": 0, "filename": "a.txt", "step": ""}
    facts |= {
        "status": JobStatus.PROCESSING,
        "progress": done / total if total else 0.0,
        "done": done,
        "total": total,
        "warnings": (),
        "chunk_count": 0,
    }
    return Job(**{**facts, "created_at": datetime(2026, 1, 31, 12, tzinfo=UTC)})


def test_errors_keep_hint_details_and_status() -> None:
    assert wire.dump_error(Internal("x"))["error"]["hint"]
    assert wire.dump_error(Duplicate("x", document_id=3))["error"]["details"] == {"document_id": 3}
    assert DocumentNotFound("x").status == 404
