"""What the OpenAPI document says beyond what FastAPI sees by itself: bodies that we read ourselves, and refusals."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from knowledge import __version__
from knowledge.wire import (
    AddBody,
    Body,
    CollectionEditBody,
    CrawlBody,
    DocumentEditBody,
    FileFields,
    NewCollectionBody,
    NoteBody,
    ReindexBody,
    SearchBody,
    TagsBody,
    accounts,
    corpora,
    shapes,
)

OpenApi = dict[str, Any]
"""A piece of the document, as FastAPI takes it."""

UUID_PATTERN = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
Id = Annotated[
    str,
    Path(description="Its number or its UUID.", json_schema_extra={"pattern": f"^([0-9]{{1,18}}|{UUID_PATTERN})$"}),
]
Number = Annotated[str, Path(description="Its number.", json_schema_extra={"pattern": "^[0-9]{1,18}$"})]
CollectionName = Annotated[
    str, Path(description="Its name, number or UUID.", json_schema_extra={"pattern": "^[^/\\\\]+$"})
]

BODIES: tuple[type[Body], ...] = (
    AddBody,
    CollectionEditBody,
    CrawlBody,
    DocumentEditBody,
    NewCollectionBody,
    NoteBody,
    ReindexBody,
    SearchBody,
    TagsBody,
    accounts.AccountEditBody,
    accounts.CredentialsBody,
    accounts.LeavingBody,
    accounts.NewAccountBody,
    accounts.NewKeyBody,
    accounts.PasswordBody,
    corpora.CorpusEditBody,
    corpora.GrantBody,
    corpora.NewCorpusBody,
)
SHAPES: tuple[type, ...] = (
    shapes.AcceptedShape,
    shapes.AccountShape,
    shapes.AccountsShape,
    shapes.ApiKeysShape,
    shapes.CorpusShape,
    shapes.CorpusesShape,
    shapes.DoneShape,
    shapes.IssuedKeyShape,
    shapes.PermissionsShape,
    shapes.AnswerShape,
    shapes.CollectionShape,
    shapes.CollectionsShape,
    shapes.CrawlShape,
    shapes.CrawlsShape,
    shapes.DocumentShape,
    shapes.DocumentWithChunksShape,
    shapes.DocumentsShape,
    shapes.ErrorShape,
    shapes.FindingsShape,
    shapes.HealthShape,
    shapes.JobShape,
    shapes.JobsShape,
    shapes.RemovedShape,
    shapes.StatusShape,
)
REFERENCE = "#/components/schemas/{model}"
MEANINGS = {
    400: "The request cannot be read.",
    401: "The key is missing or wrong.",
    403: "This is not allowed.",
    404: "There is no such thing.",
    409: "It stands against what is there.",
    413: "The body is too large.",
    415: "The content type or file format is not supported.",
    422: "The request does not fit.",
    429: "The allowance is used up; Retry-After says how long.",
    500: "A fault of ours.",
    503: "Not able to answer at the moment.",
    504: "It took too long.",
}
ALWAYS = (400, 401, 403, 413, 422, 429, 500, 503, 504)
BYTES: OpenApi = {"description": "The bytes.", "content": {"application/octet-stream": {"schema": {"type": "string"}}}}


def takes(model: type[Body], required: bool = True) -> OpenApi:
    """The request body of a route that reads it by itself."""
    schema = {"$ref": REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def answers(shape: type, *refused: int, status: int = 200) -> dict[int | str, OpenApi]:
    """What a route answers, and how it may refuse. FastAPI is not told the types: it would check every answer again,
    and to build what it needs for that takes longer than all the rest of the start."""
    return {status: _content(shape.__name__, "Done."), **_refusals(refused)}


def streams(*refused: int) -> dict[int | str, OpenApi]:
    """For a route that answers a file."""
    return {200: BYTES, **_refusals(refused)}


def _refusals(refused: tuple[int, ...]) -> dict[int | str, OpenApi]:
    return {each: _content("ErrorShape", MEANINGS[each]) for each in sorted({*ALWAYS, *refused})}


def _content(name: str, description: str) -> OpenApi:
    schema = {"$ref": REFERENCE.format(model=name)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _form() -> OpenApi:
    schema = FileFields.model_json_schema(ref_template=REFERENCE)
    properties = {name: _as_field(name, field) for name, field in schema["properties"].items()}
    properties["file"] = {"type": "string", "format": "binary", "description": "The file; or else a note."}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _as_field(name: str, field: OpenApi) -> OpenApi:
    """A form holds text: metadata is JSON in it."""
    if name == "metadata":
        return {"type": "string", "description": "A JSON object, as text."}
    return {key: value for key, value in field.items() if key != "default"}


UPLOADING: OpenApi = {
    "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _form()}}},
}
ADDING: OpenApi = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": REFERENCE.format(model="AddBody")}},
            "multipart/form-data": {"schema": _form()},
        },
    }
}


def describe(app: FastAPI) -> OpenApi:
    """The whole document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title="Knowledge Server", version=__version__, routes=app.routes)
        schemas: OpenApi = document.get("components", {}).get("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for model in (*BODIES, *SHAPES):
            schema = TypeAdapter[object](model).json_schema(ref_template=REFERENCE)
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        security = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["components"] = {"schemas": dict(sorted(schemas.items())), "securitySchemes": security}
        app.openapi_schema = document
    return app.openapi_schema
