"""JSON of documents and chunks: answers, uploads, edits and lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from knowledge.errors import Invalid, InvalidParameter
from knowledge.model import (
    DEFAULT_COLLECTION,
    Chunk,
    CollectionRef,
    Content,
    Document,
    DocumentEdit,
    DocumentFilter,
    DocumentKind,
    DocumentStatus,
    ExtractionMethod,
    Json,
    NewFile,
    NewNote,
    ResultPage,
    new_uid,
)
from knowledge.model.documents import DESCRIPTION_FIELDS
from knowledge.model.values import Access
from knowledge.wire.facets import FacetsField, dump_facets, load_facets, parse_facet_names
from knowledge.wire.requests import (
    MAX_OFFSET,
    Body,
    BodyUuid,
    Listing,
    Metadata,
    Reference,
    dump_form_tags,
    omit_defaults,
)
from knowledge.wire.values import (
    add_collection_tag,
    choose_collection,
    dump_collection,
    dump_collection_ref,
    dump_timestamp_or_none,
    load_collection_ref,
    load_date,
    remove_collection_tag,
    split_tags,
)

SECTION_SEPARATOR = " > "
LinesField: TypeAlias = Annotated[
    tuple[int, int] | None,
    Field(
        exclude_if=lambda value: value is None,
        description="First and last line in a source file, counted from 1; missing for other documents.",
    ),
]

# -- answers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DocumentFields:
    """Document fields shared by DocumentShape and HitShape; the first tag is the collection."""

    title: str
    kind: DocumentKind
    doc_type: str
    collection: str
    collection_id: int
    owner: int
    tags: tuple[str, ...]
    metadata: Json
    filename: str | None
    source_path: str | None
    url: str | None
    sha256: str
    size_bytes: int
    status: DocumentStatus
    method: ExtractionMethod
    warnings: tuple[str, ...]
    language: str | None
    page_count: int | None
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    added_by: str | None


DOCUMENT_FIELDS = tuple(each.name for each in fields(DocumentFields))
_get_document_fields = attrgetter(*DOCUMENT_FIELDS)
_TAGS = DOCUMENT_FIELDS.index("tags")


def list_document_fields(document: Document) -> list[Any]:
    """Return the values of DocumentFields in field order."""
    values = list(_get_document_fields(document))
    values[_TAGS] = add_collection_tag(document.tags, document.collection)
    return values


def load_document(facts: DocumentFields, number: int, uid: UUID) -> Document:
    values = dict(zip(DOCUMENT_FIELDS, _get_document_fields(facts), strict=True))
    return Document(number, uid, **{**values, "tags": remove_collection_tag(facts.tags, facts.collection)})


@dataclass(frozen=True)
class _DocumentId:
    """First fields of DocumentShape."""

    id: int
    uid: UUID


@dataclass(frozen=True)
class DocumentShape(DocumentFields, _DocumentId):
    """A document; its collection is also the first tag."""

    vector_count: Annotated[
        int | None,
        Field(description="Passages with a vector; if fewer than `chunk_count`, the rest is found by words only."),
    ] = None
    access: Annotated[Access | None, Field(description="own, write or read: what you may do with it.")] = None

    @classmethod
    def from_document(cls, document: Document) -> DocumentShape:
        return cls(
            document.id, document.uid, *[*list_document_fields(document), document.vector_count, document.access]
        )

    def to_document(self) -> Document:
        return replace(load_document(self, self.id, self.uid), vector_count=self.vector_count, access=self.access)


@dataclass(frozen=True)
class ChunkShape:
    """A chunk of a document."""

    id: int
    uid: UUID
    index: int
    text: str
    page: int | None
    section_header: str | None
    section: tuple[str, ...]
    lines: LinesField = None

    @classmethod
    def from_chunk(cls, chunk: Chunk) -> ChunkShape:
        placed = chunk.page, join_section(chunk), chunk.section, chunk.lines
        return cls(chunk.id, chunk.uid, chunk.index, chunk.text, *placed)

    def to_chunk(self, document_id: int) -> Chunk:
        return Chunk(self.id, self.uid, document_id, self.index, self.text, self.page, self.section, self.lines)


def join_section(chunk: Chunk) -> str | None:
    return SECTION_SEPARATOR.join(chunk.section) or None


@dataclass(frozen=True)
class DocumentWithChunksShape(DocumentShape):
    """A document with its chunks."""

    chunks: tuple[ChunkShape, ...] = ()

    @classmethod
    def from_chunks(cls, document: Document, chunks: Sequence[Chunk]) -> DocumentWithChunksShape:
        shapes = tuple(map(ChunkShape.from_chunk, chunks))
        values = [*list_document_fields(document), document.vector_count, document.access, shapes]
        return cls(document.id, document.uid, *values)

    def to_chunks(self) -> list[Chunk]:
        return [chunk.to_chunk(self.id) for chunk in self.chunks]


@dataclass(frozen=True)
class DocumentsShape:
    """A page of documents."""

    documents: tuple[DocumentShape, ...]
    total: int
    page: int
    per_page: int
    facets: FacetsField = None

    @classmethod
    def from_page(cls, page: ResultPage[Document]) -> DocumentsShape:
        items = tuple(map(DocumentShape.from_document, page.items))
        return cls(items, page.total, page.page, page.per_page, dump_facets(page.facets))

    def to_page(self) -> ResultPage[Document]:
        items = tuple(document.to_document() for document in self.documents)
        return ResultPage(items, self.total, self.page, self.per_page, load_facets(self.facets))


# -- adding ---------------------------------------------------------------------------------------


class AddBody(Body):
    note: str = Field(description="Text of the note.")
    title: str | None = Field(None, description="Derived from the text if omitted.")
    tags: list[str] = Field([], description="Free labels; `collection:NAME` selects the collection.")
    collection: Reference | None = Field(None, description="A collection by name, number or UUID.")
    metadata: Metadata = Field({}, description="Any JSON values to store with the document.")
    force_ocr: bool = Field(False, description="Run OCR even on pages that contain text.")
    source_path: str | None = Field(
        None, description="Path of origin; adding the same path again replaces the document."
    )
    url: str | None = Field(None, description="Web address of the document.")
    job_uid: BodyUuid | None = Field(None, description="Idempotency key: a repeated request starts one job.")

    def to_note(self) -> NewNote:
        return NewNote(text=self.note, **self._describe())

    def _describe(self) -> dict[str, Any]:
        """Return the arguments that NewNote and NewFile share."""
        free, tagged = split_tags(self.tags)
        named = None if self.collection is None else load_collection_ref(self.collection)
        collection = choose_collection(named, tagged)
        return {
            **{name: getattr(self, name) for name in DESCRIPTION_FIELDS},
            "tags": free,
            "collection": DEFAULT_COLLECTION if collection is None else collection,
            "job_uid": self.job_uid or new_uid(),
        }


class FileFields(AddBody):
    """Form fields sent with a file."""

    note: str = ""
    filename: str | None = Field(None, description="Overrides the file name of the upload.")
    kind: Literal["file", "page"] = Field("file", description="file, or page for a web page.")

    def for_collection(self, collection: int) -> FileFields:
        """Return the fields for the collection in the URL; rejects a form that also names one."""
        if self.collection is not None or split_tags(self.tags)[1]:
            raise InvalidParameter(
                "The form names a collection, but the URL already selects one",
                hint="Remove collection and collection:NAME tags from the form.",
                parameter="collection",
            )
        return self.model_copy(update={"collection": collection})

    def to_file(self, filename: str, content: Content) -> NewFile:
        kind = DocumentKind(self.kind)
        return NewFile(filename=filename, content=content, kind=kind, force_ocr=self.force_ocr, **self._describe())


def dump_note(new: NewNote) -> Json:
    tags, collection = dump_collection(new.tags, new.collection)
    described = new.dump_description()
    return {"note": new.text, **described, "tags": [*tags], "collection": collection, "job_uid": str(new.job_uid)}


def dump_file_fields(new: NewFile) -> dict[str, str | list[str]]:
    """Return the form fields sent with a file, without empty ones."""
    tags, collection = dump_collection(new.tags, new.collection)
    fields = {
        **new.dump_description(),
        "filename": new.filename,
        "tags": dump_form_tags(tags),
        "collection": None if collection is None else str(collection),
        "metadata": json.dumps(new.metadata, ensure_ascii=False) if new.metadata else None,
        "force_ocr": "true" if new.force_ocr else None,
        "kind": new.kind.value,
        "job_uid": str(new.job_uid),
    }
    return {name: value for name, value in fields.items() if value is not None}


class NoteBody(Body):
    text: str = Field(description="New text of the note.")


# -- changing -------------------------------------------------------------------------------------


class DocumentEditBody(Body):
    """Omitted fields are not changed."""

    title: str | None = None
    url: str | None = None
    source_path: str | None = Field(
        None, min_length=1, description="New path of the file; the content is not read again."
    )
    metadata: Metadata | None = Field(None, description="Merged with the existing metadata; null removes a key.")
    collection: Reference | None = Field(None, description="Moves the document.")
    add_tags: list[str] = Field([], description="`collection:NAME` moves the document.")
    remove_tags: list[str] = Field([])

    def to_edit(self) -> DocumentEdit:
        add, tagged = split_tags(self.add_tags)
        remove, left = split_tags(self.remove_tags)
        if left:
            raise Invalid(
                "The collection tag of a document cannot be removed",
                hint="Move the document: set collection to another.",
            )
        named = None if self.collection is None else load_collection_ref(self.collection)
        moved = {"collection": choose_collection(named, tagged), "add_tags": add, "remove_tags": remove}
        return DocumentEdit(**{**dict(self), **moved})


class TagsBody(Body):
    add: list[str] = Field([], description="`collection:NAME` moves the document.")
    remove: list[str] = Field(
        [], description="Removing its `collection:NAME` moves the document to the default collection."
    )

    def find_new_collection(self) -> CollectionRef | None:
        return choose_collection(None, split_tags(self.add)[1])

    def find_removed_collections(self) -> tuple[str, ...]:
        return split_tags(self.remove)[1]

    def to_edit(self, collection: CollectionRef | None) -> DocumentEdit:
        add, remove = split_tags(self.add)[0], split_tags(self.remove)[0]
        return DocumentEdit(add_tags=add, remove_tags=remove, collection=collection)


def dump_document_edit(edit: DocumentEdit) -> Json:
    moved: Json = {} if edit.collection is None else {"collection": dump_collection_ref(edit.collection)}
    return {**edit.changed_fields(), **moved, "add_tags": [*edit.add_tags], "remove_tags": [*edit.remove_tags]}


def dump_move(edit: DocumentEdit) -> Json | None:
    """Return the tag changes of an edit that only moves and tags a document, or None for other edits."""
    if edit.moved_from is None or not isinstance(edit.collection, str) or edit.changed_fields():
        return None
    return {
        "remove": [*add_collection_tag(edit.remove_tags, edit.moved_from)],
        "add": [*add_collection_tag(edit.add_tags, edit.collection)],
    }


# -- listing --------------------------------------------------------------------------------------


class DocumentListing(Listing):
    type: str | None = Field(None, description="Document type, for example pdf, md or note.")
    tag: str | None = Field(None, description="A tag; `collection:NAME` selects a collection.")
    collection: str | None = Field(None, description="Collection by name, number or UUID.")
    source_path: str | None = None
    finished: bool = Field(False, description="Leave out documents with status processing.")
    q: str | None = Field(None, max_length=200, description="A part of the title or the file name.")
    status: DocumentStatus | None = None
    kind: DocumentKind | None = None
    language: str | None = Field(None, max_length=12, description="Two letters (ISO 639-1).")
    added_from: str | None = Field(None, description="Added on this day or later (UTC).")
    added_to: str | None = Field(None, description="Added on this day or earlier (UTC).")
    facets: str | None = Field(
        None,
        max_length=100,
        description="Count the documents by these, separated by commas: doc_type, collection, tag, language.",
    )
    sort: Literal["created_at", "updated_at", "title", "filename", "size_bytes", "doc_type", "chunk_count"] = (
        "created_at"
    )
    order: Literal["asc", "desc"] = "desc"
    offset: int | None = Field(None, ge=0, le=MAX_OFFSET, description="Number of documents to skip; replaces page.")

    def to_filter(self) -> DocumentFilter:
        free, tagged = split_tags([] if self.tag is None else [self.tag])
        named = None if self.collection is None else load_collection_ref(self.collection)
        return DocumentFilter(
            collection=choose_collection(named, tagged),
            tag=free[0] if free else None,
            doc_type=self.type,
            source_path=self.source_path,
            finished=self.finished,
            text=self.q,
            status=self.status,
            kind=self.kind,
            language=self.language,
            added_from=None if self.added_from is None else load_date(self.added_from, "added_from"),
            added_to=None if self.added_to is None else load_date(self.added_to, "added_to", end=True),
            facets=parse_facet_names(self.facets),
            sort=self.sort,
            descending=self.order == "desc",
            page=self.page,
            per_page=self.per_page,
            offset=self.offset,
        )


class ChunkRange(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    chunk_offset: int = Field(0, ge=0, le=MAX_OFFSET, description="Index of the first passage.")
    chunk_limit: int | None = Field(None, ge=0, le=MAX_OFFSET, description="Number of passages; all if omitted.")


def dump_document_filter(wanted: DocumentFilter) -> dict[str, str]:
    collection = None if wanted.collection is None else str(dump_collection_ref(wanted.collection))
    fields = {
        "type": wanted.doc_type,
        "tag": wanted.tag,
        "collection": collection,
        "source_path": wanted.source_path,
        "finished": "true" if wanted.finished else None,
        "q": wanted.text,
        "status": wanted.status,
        "kind": wanted.kind,
        "language": wanted.language,
        "added_from": dump_timestamp_or_none(wanted.added_from),
        "added_to": dump_timestamp_or_none(wanted.added_to),
        "facets": ",".join(wanted.facets) or None,
        "sort": wanted.sort,
        "order": "desc" if wanted.descending else "asc",
        "page": str(wanted.page),
        "per_page": str(wanted.per_page),
        "offset": None if wanted.offset is None else str(wanted.offset),
    }
    return omit_defaults(fields)
