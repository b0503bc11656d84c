"""A form with a file: its parts go to disk while they arrive, and no part may be larger than it should."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PureWindowsPath

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request

from knowledge.errors import InvalidParameter, Malformed, TooLarge, WrongMime
from knowledge.model import Content
from knowledge.surfaces.rest.framework.bodies import MAX_JSON_BYTES, content_type, streaming

MAX_FIELDS = 250
MAX_FIELD_BYTES = MAX_JSON_BYTES
PIECE = 1 << 20
SLACK = 1 << 20
"""For the boundaries and the small fields around a file."""


class _Parts(MultiPartParser):
    """Starlette's parser with a limit for each file, kept while it streams."""

    def __init__(self, headers: Headers, stream: AsyncGenerator[bytes], max_file_bytes: int) -> None:
        super().__init__(headers, stream, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        self._max_file_bytes = max_file_bytes
        self._seen = 0
        self._ended = False

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self._seen = 0

    def on_end(self) -> None:
        self._ended = True

    async def parse(self) -> FormData:
        form = await super().parse()
        if not self._ended:
            await form.close()
            raise MultiPartException("The last boundary is missing")
        return form

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._seen += end - start
        in_file = self._current_part.file is not None
        limit = self._max_file_bytes if in_file else MAX_FIELD_BYTES
        if self._seen > limit:
            what = "file" if in_file else "field"
            raise TooLarge(f"The {what} is larger than {limit >> 20} MB", max_size_mb=limit >> 20)
        super().on_part_data(data, start, end)


@asynccontextmanager
async def read_form(request: Request, max_file_bytes: int) -> AsyncIterator[FormData]:
    """The fields of a form; its files are gone when the block ends."""
    form = await _parse(request, max_file_bytes)
    try:
        yield form
    finally:
        await form.close()


async def _parse(request: Request, max_file_bytes: int) -> FormData:
    try:
        async with streaming(request) as stream:
            if content_type(request) == "multipart/form-data":
                parts = _Parts(request.headers, stream.pieces(max_file_bytes + SLACK), max_file_bytes)
                return await parts.parse()
            pieces = stream.pieces(MAX_FIELD_BYTES)
            return await FormParser(
                request.headers, pieces, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
            ).parse()
    except MultiPartException as error:
        raise Malformed(
            "The form cannot be read",
            hint=f"Send multipart/form-data with one file and at most {MAX_FIELDS} fields.",
        ) from error


def texts(form: FormData) -> dict[str, list[str]]:
    """Every field by its name; a file where text belongs is refused."""
    fields: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != "file":
                raise InvalidParameter(
                    f"'{name[:80]}' must be text", hint="Send a file as 'file'.", parameter=name[:80]
                )
        elif name == "file":
            raise InvalidParameter("'file' came without a filename", hint="With curl: -F file=@PATH.", parameter="file")
        else:
            fields.setdefault(name, []).append(value)
    return fields


def file_of(form: FormData) -> UploadFile | None:
    file = form.get("file")
    return file if isinstance(file, UploadFile) else None


def filename_of(file: UploadFile) -> str:
    """The last part of what the client called it, whichever slashes it uses."""
    printable = "".join(letter for letter in file.filename or "" if letter.isprintable())
    return PureWindowsPath(printable.replace(":", "_")).name


def check_mime(file: UploadFile) -> None:
    """Refuse a part whose type stands against its name, such as a picture that is called a text."""
    given, named = file.content_type or "", mimetypes.guess_type(filename_of(file))[0] or ""
    majors = {given.partition("/")[0], named.partition("/")[0]}
    if given in ("", "application/octet-stream") or not named or len(majors) == 1 or majors == {"text", "application"}:
        return
    raise WrongMime(
        f"The file is called '{filename_of(file)[:100]}' and sent as {given[:80]}",
        hint=f"Send it as {named}, or as application/octet-stream.",
        content_type=given[:80],
    )


def content_of(file: UploadFile) -> Content:
    async def pieces() -> AsyncIterator[bytes]:
        await file.seek(0)
        while piece := await file.read(PIECE):
            yield piece

    return Content(pieces)
