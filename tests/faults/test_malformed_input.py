"""Malformed files and URLs are refused with a 4xx, never with an internal error."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import make_rest_app

MIMETYPE = "application/vnd.oasis.opendocument.text"
MEMBER_NAME = b"mimetype"
DIRECTORY_SIGNATURE, MEMBER_SIGNATURE = b"PK\x01\x02", b"PK\x03\x04"


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


def make_archive(compression: int = zipfile.ZIP_DEFLATED) -> bytearray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("mimetype", MIMETYPE * 10)
        archive.writestr("content.xml", "<x/>")
    return bytearray(buffer.getvalue())


def set_in_headers(data: bytearray, in_directory: int, in_member: int, value: int) -> bytes:
    """Write a value into both headers of the first member."""
    struct.pack_into("<H", data, data.index(DIRECTORY_SIGNATURE) + in_directory, value)
    struct.pack_into("<H", data, data.index(MEMBER_SIGNATURE) + in_member, value)
    return bytes(data)


def make_renamed_member() -> bytes:
    """Return an archive whose member header has another name than its directory."""
    data = make_archive()
    place = data.index(MEMBER_NAME)
    data[place : place + len(MEMBER_NAME)] = b"mimetypo"
    return bytes(data)


def make_encrypted() -> bytes:
    return set_in_headers(make_archive(), 8, 6, 1)


def make_unknown_compression() -> bytes:
    return set_in_headers(make_archive(), 10, 8, 98)


def make_damaged_member() -> bytes:
    data = make_archive()
    place = data.index(MEMBER_NAME) + len(MEMBER_NAME)
    data[place : place + 8] = b"\xff" * 8
    return bytes(data)


def make_truncated() -> bytes:
    return bytes(make_archive()[:-30])


@pytest.mark.parametrize(
    "make", [make_renamed_member, make_encrypted, make_unknown_compression, make_damaged_member, make_truncated]
)
@pytest.mark.parametrize("suffix", ["odt", "epub", "zip"])
async def test_an_archive_whose_mimetype_cannot_be_read_is_refused(
    http: httpx.AsyncClient, make: Callable[[], bytes], suffix: str
) -> None:
    answer = await http.post("/jobs", files={"file": (f"a.{suffix}", make())})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "damaged")


@pytest.mark.parametrize("url", ["http://[::1", "http://[", "https://e.example]/", "http://[::1]:x/", "http://a@[::1"])
async def test_a_url_with_an_unbalanced_bracket_is_refused(http: httpx.AsyncClient, url: str) -> None:
    answer = await http.post("/crawls", json={"url": url})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_parameter")
