"""Reads the forms and queries of the authorization endpoints."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from knowledge.errors import Invalid, TooLarge, UnsupportedFormat

MAX_BODY_BYTES = 64 << 10
MAX_FIELDS = 50
FORM_TYPE = "application/x-www-form-urlencoded"


async def read_body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge(f"The request is larger than {MAX_BODY_BYTES >> 10} KB", max_bytes=MAX_BODY_BYTES)
    return bytes(body)


async def read_form(request: Request, *repeated: str) -> dict[str, str]:
    """Return the fields of a form; only those named in `repeated` may be sent several times, and are joined."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != FORM_TYPE:
        raise UnsupportedFormat(f"The content type must be {FORM_TYPE}", content_type=given[:80])
    return parse_fields((await read_body(request)).decode("utf-8", "replace"), *repeated)


def parse_fields(text: str, *repeated: str) -> dict[str, str]:
    """Parse a query or a form; parameters must not be repeated (RFC 6749 §3.1)."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise Invalid("The request has too many parameters") from error
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields and name not in repeated:
            raise Invalid(f"The parameter '{name[:40]}' is repeated")
        fields[name] = f"{fields[name]} {value}" if name in fields else value
    return {name: value for name, value in fields.items() if value}
