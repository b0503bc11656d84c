"""Reads multipart forms with a file, with limits on the size of every part.

FastAPI's own form parameters are parsed before any dependency runs and without a size limit for files, so the routes
that take a file depend on these functions instead.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import PureWindowsPath

from pydantic import JsonValue, ValidationError
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from knowledge.errors import (
    Invalid,
    InvalidParameter,
    Malformed,
    MissingParameter,
    NoValidFiles,
    TooLarge,
    UnsupportedFormat,
    WrongMime,
)
from knowledge.model import Content, NewFile, NewNote
from knowledge.surfaces.rest.framework.dependencies import (
    MAX_ECHO_CHARS,
    AppContext,
    CallerEngine,
    content_type,
    is_json,
)
from knowledge.surfaces.rest.framework.errors import BodyTooLarge
from knowledge.surfaces.rest.framework.middleware import DRAIN_SECONDS, MAX_JSON_BYTES
from knowledge.surfaces.rest.framework.openapi import CorpusId
from knowledge.surfaces.rest.framework.validation import validation_error
from knowledge.wire import AddBody, FileFields
from knowledge.wire.requests import parse_form_metadata, parse_form_tags

FORM_TYPES = ("multipart/form-data", "application/x-www-form-urlencoded")
MAX_FIELDS = 250
MAX_FIELD_BYTES = MAX_JSON_BYTES
PIECE_BYTES = 1 << 20
FILENAME = re.compile(rb";\s*filename\*?=", re.IGNORECASE)
"""Marks a file part in its Content-Disposition header."""


async def read_note_or_file(request: Request, context: AppContext) -> AsyncIterator[NewNote | NewFile]:
    """Read a note as JSON, or a form with a note or a file; the file is deleted after the route has answered."""
    given = content_type(request)
    if given in FORM_TYPES:
        async with read_form(request, context.max_file_bytes) as form:
            yield read_new(form)
    elif not given or is_json(given):
        yield (await read_note(request)).to_note()
    else:
        raise UnsupportedFormat(
            f"The content type {given[:MAX_ECHO_CHARS]} is not supported here",
            hint="Send multipart/form-data or application/json.",
            content_type=given[:MAX_ECHO_CHARS],
        )


async def read_corpus_file(
    request: Request, id: CorpusId, context: AppContext, engine: CallerEngine
) -> AsyncIterator[NewNote | NewFile]:
    """Read a form with a file for a corpus; checks that the caller can read the corpus before the body is read."""
    await engine.corpora.get(id)
    if content_type(request) != "multipart/form-data":
        raise NoValidFiles("No file was sent")
    async with read_form(request, context.max_file_bytes) as form:
        file = file_of(form)
        if file is None or not file.filename:
            raise NoValidFiles("No file was sent")
        check_mime(file)
        yield read_new(form, into=id)


async def read_note(request: Request) -> AddBody:
    try:
        return AddBody.model_validate_json(await request.body() or b"{}")
    except ClientDisconnect as error:
        raise connection_closed_error() from error
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False), AddBody.model_fields) from error


def read_new(form: FormData, into: int | None = None) -> NewNote | NewFile:
    """Return the note or file in a form, for the collection of the path or else of the form."""
    fields, file = _fields(form), file_of(form)
    if into is not None:
        fields = fields.for_collection(into)
    has_note = bool(text_fields(form).get("note"))
    if file is None:
        if not has_note:
            raise MissingParameter("'file' or 'note' is missing", hint="Send one of them.", parameter="file")
        return fields.to_note()
    if has_note:
        raise Invalid("The form has both a file and a note", hint="Send only one of them.")
    filename = filename_of(file) if fields.filename is None else fields.filename
    if not filename:
        raise InvalidParameter("'file' has no filename", hint="With curl: -F file=@PATH.", parameter="file")
    return fields.to_file(filename, content_of(file))


def _fields(form: FormData) -> FileFields:
    values: dict[str, JsonValue] = {}
    for name, given in text_fields(form).items():
        if name == "tags":
            values[name] = [*parse_form_tags(given)]
        elif len(given) > 1:
            name = name[:MAX_ECHO_CHARS]
            raise InvalidParameter(f"'{name}' is given more than once", parameter=name)
        elif given[0] or name == "note":
            values[name] = parse_form_metadata(given[0]) if name == "metadata" else given[0]
        elif name not in FileFields.model_fields:
            values[name] = ""
    try:
        return FileFields.model_validate(values, strict=False)
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False), {*FileFields.model_fields, "file"}) from error


class LimitedParts(MultiPartParser):
    """Starlette's multipart parser with a size limit for each part."""

    def __init__(self, headers: Headers, stream: AsyncGenerator[bytes], max_file_bytes: int) -> None:
        super().__init__(headers, stream, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        self._max_file_bytes = max_file_bytes
        self._part_bytes = 0
        self._part_headers = b""
        self._has_ended = False

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self._part_bytes = 0
        self._part_headers = b""

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        super().on_header_value(data, start, end)
        self._part_headers += data[start:end]

    def on_end(self) -> None:
        self._has_ended = True

    async def parse(self) -> FormData:
        form = await super().parse()
        if not self._has_ended:
            await form.close()
            raise MultiPartException("The last boundary is missing")
        return form

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._part_bytes += end - start
        if self._part_bytes > min(self._max_file_bytes, MAX_FIELD_BYTES):
            is_file = FILENAME.search(self._part_headers) is not None
            max_bytes = self._max_file_bytes if is_file else MAX_FIELD_BYTES
            if self._part_bytes > max_bytes:
                what, size_mb = "file" if is_file else "field", max_bytes >> 20
                raise TooLarge(f"The {what} is larger than {size_mb} MB", max_size_mb=size_mb)
        super().on_part_data(data, start, end)


@asynccontextmanager
async def read_form(request: Request, max_file_bytes: int) -> AsyncIterator[FormData]:
    """Parse a form; its temporary files are deleted when the block ends."""
    form = await _parse(request, max_file_bytes)
    try:
        yield form
    finally:
        await form.close()


async def _parse(request: Request, max_file_bytes: int) -> FormData:
    stream = request.stream()
    try:
        if content_type(request) == "multipart/form-data":
            return await LimitedParts(request.headers, stream, max_file_bytes).parse()
        return await FormParser(request.headers, stream, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES).parse()
    except MultiPartException as error:
        raise Malformed(
            "The form cannot be parsed",
            hint=f"Send multipart/form-data with one file and at most {MAX_FIELDS} fields.",
        ) from error
    except ClientDisconnect as error:
        raise connection_closed_error() from error
    except TooLarge:  # read the rest of the body, because many clients read the response only after sending
        with suppress(BodyTooLarge, ClientDisconnect, TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in stream:
                    pass
        raise


def connection_closed_error() -> Malformed:
    return Malformed("The connection was closed before the body was complete")


def text_fields(form: FormData) -> dict[str, list[str]]:
    """Return the text fields by name; reject files under other names than 'file'."""
    fields: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != "file":
                raise InvalidParameter(
                    f"'{name[:80]}' must be text", hint="Send a file as 'file'.", parameter=name[:80]
                )
        elif name == "file":
            raise InvalidParameter("'file' has no filename", hint="With curl: -F file=@PATH.", parameter="file")
        else:
            fields.setdefault(name, []).append(value)
    return fields


def file_of(form: FormData) -> UploadFile | None:
    file = form.get("file")
    return file if isinstance(file, UploadFile) else None


def filename_of(file: UploadFile) -> str:
    """Return the client's filename without folders, for slashes and backslashes."""
    printable = "".join(letter for letter in file.filename or "" if letter.isprintable())
    return PureWindowsPath(printable.replace(":", "_")).name


def check_mime(file: UploadFile) -> None:
    """Reject a file whose content type contradicts its name, such as an image named .txt."""
    given, named = file.content_type or "", mimetypes.guess_type(filename_of(file))[0] or ""
    majors = {given.partition("/")[0], named.partition("/")[0]}
    if given in ("", "application/octet-stream") or not named or len(majors) == 1 or majors == {"text", "application"}:
        return
    raise WrongMime(
        f"The content type {given[:80]} does not match the filename '{filename_of(file)[:100]}'",
        hint=f"Send it as {named}, or as application/octet-stream.",
        content_type=given[:80],
    )


def content_of(file: UploadFile) -> Content:
    async def pieces() -> AsyncIterator[bytes]:
        await file.seek(0)
        while piece := await file.read(PIECE_BYTES):
            yield piece

    return Content(pieces)
