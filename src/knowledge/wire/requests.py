"""What a list is narrowed by: the query strings of the lists, and the same from their filters."""

from __future__ import annotations

import json
from typing import (
    Annotated,
    Literal,
)
from uuid import (
    UUID,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
)

from knowledge.errors import (
    Invalid,
    InvalidParameter,
    MissingParameter,
)
from knowledge.model import (
    DEFAULT_COLLECTION,
    CollectionEdit,
    CollectionRef,
    Content,
    DocumentEdit,
    DocumentFilter,
    JobFilter,
    JobKind,
    JobStatus,
    Json,
    Kind,
    NewCollection,
    NewFile,
    NewNote,
    new_uid,
)
from knowledge.wire.search import (
    Body,
    Reference,
)
from knowledge.wire.values import (
    carried,
    dump_collection_ref,
    load_collection_ref,
    one_collection,
    part_tags,
    with_collection,
)


def writable(value: object) -> object:
    """Metadata that can be written down as JSON again; a number without end or half a surrogate pair cannot."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("holds a value that JSON cannot carry") from error
    return value


Metadata = Annotated[dict[str, JsonValue], BeforeValidator(writable)]


class AddBody(Body):
    note: str = Field(description="The text of the note.")
    title: str | None = Field(None, description="Made from the text when it is not given.")
    tags: list[str] = Field([], description="Free labels; `collection:NAME` names the collection.")
    collection: Reference | None = Field(None, description="A collection by name, number or UUID.")
    metadata: Metadata = Field({}, description="Whatever should be kept beside the document.")
    force_ocr: bool = Field(False, description="Read the pages as pictures even where they hold text.")
    source_path: str | None = Field(None, description="Where it came from; the same path again replaces it.")
    url: str | None = Field(None, description="Its address on the web.")
    job_uid: UUID | None = Field(None, description="Makes it safe to send the same request twice.")

    def to_note(self) -> NewNote:
        tags, tagged = part_tags(self.tags)
        named = None if self.collection is None else load_collection_ref(self.collection)
        collection = one_collection(named, tagged)
        return NewNote(
            text=self.note,
            title=self.title,
            collection=DEFAULT_COLLECTION if collection is None else collection,
            tags=tags,
            metadata=self.metadata,
            source_path=self.source_path,
            url=self.url,
            job_uid=self.job_uid or new_uid(),
        )


class FileFields(AddBody):
    """What a form says beside its file."""

    note: str = ""
    filename: str | None = Field(None, description="Instead of the name that the file was sent with.")
    kind: Literal["file", "page"] = Field("file", description="file, or page for one that came from the web.")

    def going_into(self, collection: int) -> FileFields:
        """The same for one collection; a form that names another contradicts itself."""
        if self.collection is not None or part_tags(self.tags)[1]:
            raise InvalidParameter("The address names the collection", parameter="collection")
        return self.model_copy(update={"collection": collection})

    def to_file(self, filename: str, content: Content) -> NewFile:
        shared = self.to_note()
        return NewFile(
            filename=filename,
            content=content,
            title=shared.title,
            collection=shared.collection,
            tags=shared.tags,
            metadata=shared.metadata,
            source_path=shared.source_path,
            url=shared.url,
            kind=Kind(self.kind),
            force_ocr=self.force_ocr,
            job_uid=shared.job_uid,
        )


def dump_note(new: NewNote) -> Json:
    tags, collection = carried(new.tags, new.collection)
    return {
        "note": new.text,
        "title": new.title,
        "tags": [*tags],
        "collection": collection,
        "metadata": new.metadata,
        "source_path": new.source_path,
        "url": new.url,
        "job_uid": str(new.job_uid),
    }


def dump_file_fields(new: NewFile) -> dict[str, str | list[str]]:
    """The form beside the file; what is not given is left out."""
    tags, collection = carried(new.tags, new.collection)
    fields = {
        "filename": new.filename,
        "title": new.title,
        "tags": _dump_form_tags(tags),
        "collection": None if collection is None else str(collection),
        "metadata": json.dumps(new.metadata, ensure_ascii=False) if new.metadata else None,
        "force_ocr": "true" if new.force_ocr else None,
        "source_path": new.source_path,
        "url": new.url,
        "kind": new.kind.value,
        "job_uid": str(new.job_uid),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _dump_form_tags(tags: list[str]) -> list[str] | None:
    """Repeated, or as one JSON list where a comma or a blank would be read as something else."""
    if not tags:
        return None
    return tags if form_tags(tags) == tags else [json.dumps(tags, ensure_ascii=False)]


def form_tags(values: list[str]) -> list[str]:
    """Tags of a form: repeated, one field with commas, or a JSON list."""
    if len(values) == 1 and values[0].lstrip().startswith("["):
        return _json_list(values[0])
    parts = values[0].split(",") if len(values) == 1 else values
    return [part.strip() for part in parts if part.strip()]


def form_metadata(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(
            "'metadata' is not JSON", hint='Send an object, such as {"author": "Ada"}.', parameter="metadata"
        ) from error
    return value


def _json_list(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise InvalidParameter("'tags' is not a list of words", hint='Send a,b or ["a", "b"].', parameter="tags")
    return value


class NoteBody(Body):
    text: str = Field(description="The note's new text.")


class DocumentEditBody(Body):
    """What is not given stays as it is."""

    title: str | None = None
    url: str | None = None
    source_path: str | None = Field(None, min_length=1, description="Where its file lies now; nothing is read again.")
    metadata: Metadata | None = Field(None, description="Merged; a null takes a key out.")
    collection: Reference | None = Field(None, description="Moves the document.")
    add_tags: list[str] = Field([], description="`collection:NAME` moves the document.")
    remove_tags: list[str] = Field([])

    def to_edit(self) -> DocumentEdit:
        add, tagged = part_tags(self.add_tags)
        remove, left = part_tags(self.remove_tags)
        if left:
            raise Invalid("A document cannot be without a collection", hint="Name the new one as collection.")
        named = None if self.collection is None else load_collection_ref(self.collection)
        return DocumentEdit(
            title=self.title,
            url=self.url,
            source_path=self.source_path,
            metadata=self.metadata,
            collection=one_collection(named, tagged),
            add_tags=add,
            remove_tags=remove,
        )


class TagsBody(Body):
    add: list[str] = Field([], description="`collection:NAME` moves the document.")
    remove: list[str] = Field([], description="Its own `collection:NAME` moves it to the default collection.")

    def moves_to(self) -> CollectionRef | None:
        return one_collection(None, part_tags(self.add)[1])

    def leaves(self) -> tuple[str, ...]:
        return part_tags(self.remove)[1]

    def to_edit(self, collection: CollectionRef | None) -> DocumentEdit:
        add, remove = part_tags(self.add)[0], part_tags(self.remove)[0]
        return DocumentEdit(add_tags=add, remove_tags=remove, collection=collection)


class NewCollectionBody(Body):
    title: str | None = Field(None, description="Free text; the name is made from it when that is not given.")
    name: str | None = None
    description: str = ""
    source_type: str = "upload"
    url: str | None = None
    metadata: Metadata = Field({})
    uid: UUID | None = Field(None, description="Made by the caller, so that to ask twice makes one collection.")

    def to_new(self) -> NewCollection:
        title = self.name if self.title is None else self.title
        if title is None:
            raise MissingParameter("A collection needs a title", parameter="title")
        return NewCollection(
            title=title,
            name=self.name,
            description=self.description,
            source_type=self.source_type,
            url=self.url,
            metadata=self.metadata,
            uid=self.uid or new_uid(),
        )


class CollectionEditBody(Body):
    """What is not given stays as it is."""

    title: str | None = None
    description: str | None = None
    url: str | None = None
    source_type: str | None = None
    metadata: Metadata | None = Field(None, description="Merged; a null takes a key out.")

    def to_edit(self) -> CollectionEdit:
        return CollectionEdit(
            title=self.title,
            description=self.description,
            url=self.url,
            source_type=self.source_type,
            metadata=self.metadata,
        )


def dump_document_edit(edit: DocumentEdit) -> Json:
    fields: dict[str, JsonValue] = {
        "title": edit.title,
        "url": edit.url,
        "source_path": edit.source_path,
        "metadata": edit.metadata,
        "collection": None if edit.collection is None else dump_collection_ref(edit.collection),
        "add_tags": list(edit.add_tags),
        "remove_tags": list(edit.remove_tags),
    }
    return _given(fields)


def dump_move(edit: DocumentEdit) -> Json | None:
    """The tags of an edit that only moves and tags, the old collection's out and the new one's in; None for others."""
    if edit.leaving is None or not isinstance(edit.collection, str):
        return None
    if any(value is not None for value in (edit.title, edit.url, edit.source_path, edit.metadata)):
        return None
    return {
        "remove": [*with_collection(edit.remove_tags, edit.leaving)],
        "add": [*with_collection(edit.add_tags, edit.collection)],
    }


def dump_new_collection(new: NewCollection) -> Json:
    return {
        "title": new.title,
        "name": new.name,
        "description": new.description,
        "source_type": new.source_type,
        "url": new.url,
        "metadata": new.metadata,
        "uid": str(new.uid),
    }


def dump_collection_edit(edit: CollectionEdit) -> Json:
    return _given(
        {
            "title": edit.title,
            "description": edit.description,
            "url": edit.url,
            "source_type": edit.source_type,
            "metadata": edit.metadata,
        }
    )


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


FURTHEST = 10**9
"""Pages beyond this are nobody's; it keeps page times per_page far inside 64 bit."""


class Listing(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    page: int = Field(1, ge=1, le=FURTHEST)
    per_page: int = Field(50, ge=1, le=200)


class DocumentListing(Listing):
    type: str | None = Field(None, description="pdf, md, note and so on.")
    tag: str | None = Field(None, description="`collection:NAME` narrows to a collection.")
    collection: str | None = Field(None, description="By name, number or UUID.")
    source_path: str | None = None
    sort: Literal["created_at", "updated_at", "title", "filename", "size_bytes"] = "created_at"
    order: Literal["asc", "desc"] = "desc"
    offset: int | None = Field(None, ge=0, le=FURTHEST, description="Instead of a page.")

    def to_filter(self) -> DocumentFilter:
        free, tagged = part_tags([] if self.tag is None else [self.tag])
        named = None if self.collection is None else load_collection_ref(self.collection)
        return DocumentFilter(
            collection=one_collection(named, tagged),
            tag=free[0] if free else None,
            doc_type=self.type,
            source_path=self.source_path,
            sort=self.sort,
            descending=self.order == "desc",
            page=self.page,
            per_page=self.per_page,
            offset=self.offset,
        )


class JobListing(Listing):
    status: JobStatus | None = None
    kind: JobKind | None = None

    def to_filter(self) -> JobFilter:
        return JobFilter(status=self.status, kind=self.kind, page=self.page, per_page=self.per_page)


class ChunkRange(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    chunk_offset: int = Field(0, ge=0, le=FURTHEST, description="The first passage to show.")
    chunk_limit: int | None = Field(None, ge=0, le=FURTHEST, description="How many; all when it is not given.")


def _unusual(given: dict[str, str | None], usual: dict[str, str]) -> dict[str, str]:
    """What says more than a plain list would."""
    return {name: value for name, value in given.items() if value is not None and usual.get(name) != value}


USUAL = {"page": "1", "per_page": "50", "sort": "created_at", "order": "desc"}


def dump_document_filter(wanted: DocumentFilter) -> dict[str, str]:
    collection = None if wanted.collection is None else str(dump_collection_ref(wanted.collection))
    fields = {
        "type": wanted.doc_type,
        "tag": wanted.tag,
        "collection": collection,
        "source_path": wanted.source_path,
        "sort": wanted.sort,
        "order": "desc" if wanted.descending else "asc",
        "page": str(wanted.page),
        "per_page": str(wanted.per_page),
        "offset": None if wanted.offset is None else str(wanted.offset),
    }
    return _unusual(fields, USUAL)


def dump_job_filter(wanted: JobFilter) -> dict[str, str]:
    fields = {
        "status": wanted.status,
        "kind": wanted.kind,
        "page": str(wanted.page),
        "per_page": str(wanted.per_page),
    }
    return _unusual(fields, USUAL)
