"""JSON of changes to many documents, and of documents near another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from knowledge.errors import Invalid, InvalidParameter, MissingParameter
from knowledge.model import DocumentEdit, Hit, Json
from knowledge.model.library import DocumentSelection
from knowledge.wire.documents import DocumentListing, dump_document_filter
from knowledge.wire.requests import Body, Reference
from knowledge.wire.search import HitShape
from knowledge.wire.values import choose_collection, dump_collection_ref, load_collection_ref, load_ref, split_tags

MAX_IDS = 1000


class BatchFilter(DocumentListing):
    """The documents of a list, by the parameters of `GET /documents`; order and page are ignored."""


class BatchBody(Body):
    ids: list[Reference] | None = Field(None, max_length=MAX_IDS, description="Documents by id or UUID.")
    filter: BatchFilter | None = Field(
        None, description="All documents that match, of those that you may change; `{}` selects all."
    )
    add_tags: list[str] = Field([], description="`collection:NAME` moves the documents.")
    remove_tags: list[str] = Field([])
    collection: Reference | None = Field(None, description="Moves the documents.")
    remove: bool = Field(False, description="Delete the documents; needs `confirm`.")
    confirm: int | None = Field(None, ge=0, description="How many documents are deleted.")

    def to_selection(self) -> DocumentSelection:
        if (self.ids is None) == (self.filter is None):
            raise MissingParameter("Either 'ids' or 'filter' is required", parameter="ids")
        if self.filter is not None:
            return DocumentSelection(filter=self.filter.to_filter())
        return DocumentSelection(ids=tuple(load_ref(str(each)) for each in self.ids or ()))

    def to_edit(self) -> DocumentEdit:
        add, tagged = split_tags(self.add_tags)
        remove, left = split_tags(self.remove_tags)
        if left:
            raise Invalid(
                "The collection tag of a document cannot be removed",
                hint="Move the documents: set collection to another.",
            )
        named = None if self.collection is None else load_collection_ref(self.collection)
        return DocumentEdit(collection=choose_collection(named, tagged), add_tags=add, remove_tags=remove)

    def check_removal(self) -> None:
        """Raise InvalidParameter if the body also changes the documents that it deletes."""
        if self.add_tags or self.remove_tags or self.collection is not None:
            raise InvalidParameter("'remove' cannot be combined with other changes", parameter="remove")


def dump_batch_edit(selection: DocumentSelection, edit: DocumentEdit) -> Json:
    moved: Json = {} if edit.collection is None else {"collection": dump_collection_ref(edit.collection)}
    return {**_dump_selection(selection), **moved, "add_tags": [*edit.add_tags], "remove_tags": [*edit.remove_tags]}


def dump_batch_removal(selection: DocumentSelection, confirm: int | None) -> Json:
    return {**_dump_selection(selection), "remove": True, "confirm": confirm}


def _dump_selection(selection: DocumentSelection) -> Json:
    if selection.filter is None:
        return {"ids": [each if isinstance(each, int) else str(each) for each in selection.ids]}
    fields: dict[str, Any] = dump_document_filter(selection.filter)
    return {"filter": {name: value for name, value in fields.items() if name not in ("page", "per_page", "offset")}}


class SimilarListing(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    top: int = Field(5, ge=1, le=20, description="Maximum number of documents.")


@dataclass(frozen=True)
class SimilarShape:
    """The nearest passage of each of the documents that are most like one."""

    results: tuple[HitShape, ...]

    @classmethod
    def from_hits(cls, hits: list[Hit]) -> SimilarShape:
        return cls(tuple(map(HitShape.from_hit, hits)))
