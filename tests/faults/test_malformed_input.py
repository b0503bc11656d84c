"""Malformed files and addresses are refused in words; none is an internal error."""

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
NAME = b"mimetype"
DIRECTORY, LOCAL = b"PK\x01\x02", b"PK\x03\x04"


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


def book(packing: int = zipfile.ZIP_DEFLATED) -> bytearray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        archive.writestr("mimetype", MIMETYPE * 10)
        archive.writestr("content.xml", "<x/>")
    return bytearray(buffer.getvalue())


def set_in_headers(data: bytearray, in_directory: int, in_member: int, value: int) -> bytes:
    """Both headers of the first member with another value at these places."""
    struct.pack_into("<H", data, data.index(DIRECTORY) + in_directory, value)
    struct.pack_into("<H", data, data.index(LOCAL) + in_member, value)
    return bytes(data)


def spliced() -> bytes:
    """The name before the member is another than in the directory."""
    data = book()
    place = data.index(NAME)
    data[place : place + len(NAME)] = b"mimetypo"
    return bytes(data)


def encrypted() -> bytes:
    return set_in_headers(book(), 8, 6, 1)


def packed_oddly() -> bytes:
    return set_in_headers(book(), 10, 8, 98)


def damaged_inside() -> bytes:
    data = book()
    place = data.index(NAME) + len(NAME)
    data[place : place + 8] = b"\xff" * 8
    return bytes(data)


def without_its_end() -> bytes:
    return bytes(book()[:-30])


@pytest.mark.parametrize("make", [spliced, encrypted, packed_oddly, damaged_inside, without_its_end])
@pytest.mark.parametrize("suffix", ["odt", "epub", "zip"])
async def test_an_archive_whose_mimetype_cannot_be_read_is_refused(
    http: httpx.AsyncClient, make: Callable[[], bytes], suffix: str
) -> None:
    answer = await http.post("/jobs", files={"file": (f"a.{suffix}", make())})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "damaged")


@pytest.mark.parametrize("url", ["http://[::1", "http://[", "https://e.example]/", "http://[::1]:x/", "http://a@[::1"])
async def test_an_address_with_an_odd_bracket_is_refused(http: httpx.AsyncClient, url: str) -> None:
    answer = await http.post("/crawls", json={"url": url})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_parameter")
