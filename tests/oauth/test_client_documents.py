"""Client ID metadata documents: fetched with SSRF protection, checked, and cached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.oauth.client_documents import is_document_url, parse_document
from knowledge.errors import AddressForbidden, FetchFailed, Invalid, TooLarge
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.tls import TlsSite, serve_tls_site

DOCUMENT = {
    "client_name": "Agent",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "token_endpoint_auth_method": "none",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TlsSite]:
    with serve_tls_site(tmp_path) as running:
        monkeypatch.setenv("SSL_CERT_FILE", str(running.certificate))
        yield running


def put_document(site: TlsSite, path: str = "/client.json", **changed: object) -> str:
    url = site.url + path
    site.put(path, json.dumps({"client_id": url, **DOCUMENT, **changed}).encode(), Cache_Control="max-age=600")
    return url


async def test_a_document_is_fetched_once_and_cached(site: TlsSite, settings: Settings, parsers: SharedParsers) -> None:
    engine = make_test_engine(settings.model_copy(update={"crawl_allow": "localhost"}), parsers=parsers)
    try:
        url = put_document(site)
        for _ in range(2):
            client = await engine.oauth.find_client(url)
            assert client is not None and client.is_document
            assert (client.name, client.redirect_uris) == ("Agent", ("http://127.0.0.1/callback",))
        assert site.requests == ["/client.json"]
        site.put("/large.json", b" " * 6000)
        with pytest.raises(TooLarge):
            await engine.oauth.find_client(f"{site.url}/large.json")
        site.put("/moved.json", b"", 302, Location=url)
        with pytest.raises(FetchFailed):
            await engine.oauth.find_client(f"{site.url}/moved.json")
        site.put("/page.json", b"<html>", Content_Type="text/html")
        with pytest.raises(FetchFailed):
            await engine.oauth.find_client(f"{site.url}/page.json")
    finally:
        engine.close()


async def test_a_document_on_a_private_address_is_not_fetched(
    site: TlsSite, settings: Settings, parsers: SharedParsers
) -> None:
    engine = make_test_engine(settings, parsers=parsers)
    try:
        with pytest.raises(AddressForbidden):
            await engine.oauth.find_client(put_document(site))
        assert site.requests == []
    finally:
        engine.close()


URL = "https://app.example/client.json"


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "https://app.example/other.json"},
        {"client_id": "https://app.example/client.json/"},
        {"client_id": None},
        {"client_name": ""},
        {"redirect_uris": []},
        {"redirect_uris": ["http://app.example/callback"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": "https://app.example/callback"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"client_secret": "x"},
    ],
)
def test_a_document_that_does_not_fit_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        parse_document(URL, json.dumps({"client_id": URL, **DOCUMENT, **changed}).encode())
    assert parse_document(URL, json.dumps({"client_id": URL, **DOCUMENT}).encode()).name == "Agent"


@pytest.mark.parametrize(
    ("client_id", "is_url"),
    [
        (URL, True),
        ("https://app.example/a?b=c", True),
        ("http://app.example/client.json", False),
        ("https://app.example", False),
        ("https://app.example/", False),
        ("https://app.example/a#b", False),
        ("https://user@app.example/a", False),
        ("https://app.example/a/../b", False),
        ("client", False),
    ],
)
def test_only_https_urls_with_a_path_are_documents(client_id: str, is_url: bool) -> None:
    assert is_document_url(client_id) is is_url
