"""Scanning a page: links, robots directives, charset, format and visible text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.engine.crawl.html_scan import choose_canonical_url, scan_page
from knowledge.engine.crawl.politeness import RetryPolicy
from knowledge.engine.crawl.response_content import (
    add_charset_meta,
    decode_page,
    filename_of,
    find_charset_override,
    format_of,
    transcode_to_utf8,
)
from knowledge.engine.crawl.sitemaps import iter_locations
from knowledge.engine.fetch.client import FetchResponse
from knowledge.retry_after import parse_retry_after

URL = "https://e.example/docs/page"


def test_links_are_found_as_a_browser_would_find_them() -> None:
    scan = scan_page(
        """<head><base href="/other/"><title><a href="/no1"></title><script>"<a href='/no2'>"</script></head>
        <!-- <a href="/no3"> --><a href=one>1</a><A class="x" HREF='two?a=1&amp;b=2'>2</A>
        <a title="a > b" href="//cdn.example/x">3</a><a name="anchor">4</a><area href="four#part">
        <iframe src="five"></iframe><a href="one">again</a><textarea><a href="/no4"></textarea>""",
        URL,
    )
    assert scan.links == (
        "https://e.example/other/one",
        "https://e.example/other/two?a=1&b=2",
        "https://cdn.example/x",
        "https://e.example/other/four",
        "https://e.example/other/five",
    )


def test_a_canonical_url_counts_only_on_the_same_host() -> None:
    own = scan_page('<link rel="canonical" href="https://www.e.example/docs/page/?b=1">', URL)
    foreign = scan_page('<link rel="canonical" href="https://evil.example/">', URL)
    assert choose_canonical_url(own, URL) == "https://e.example/docs/page?b=1"
    assert choose_canonical_url(foreign, URL) == URL


@pytest.mark.parametrize(
    "meta", ['<meta name="robots" content="NOINDEX, nofollow">', "<META CONTENT=none NAME=Robots>"]
)
def test_noindex_and_nofollow_directives_are_found(meta: str) -> None:
    scan = scan_page(meta, URL)
    assert not scan.may_index
    assert not scan.may_follow
    assert not scan_page("<p>text", URL, robots_header="noindex").may_index
    assert scan_page('<meta name="description" content="noindex">', URL).may_index


def test_a_page_without_text_but_with_a_script_needs_a_browser() -> None:
    hint = "<noscript>Please enable JavaScript to go on, for without it there is nothing to see here</noscript>"
    shell = f'<title>An application</title><div id="root">Loading</div>{hint}<script src="/app.js"></script>'
    assert scan_page(shell, URL).needs_script
    assert not scan_page(shell + "<p>" + "words of the page itself " * 5, URL).needs_script
    assert not scan_page("<p>short</p>", URL).needs_script


@pytest.mark.parametrize("hostile", ['<a "', '<a href="', "<!--", "<script>", "<a ", "<", "<a x=y ", "<svg ", "<title"])
def test_hostile_markup_is_scanned_in_linear_time(hostile: str) -> None:
    started = time.thread_time()
    scan_page(hostile * (1_000_000 // len(hostile)), URL)
    assert time.thread_time() - started < 10, "a quadratic scan would take minutes"


@given(st.text(alphabet="<>a hrefscipt=\"'/!-&;#\n", max_size=200))
def test_no_markup_breaks_the_scan(text: str) -> None:
    scan_page(text, URL)


def page(body: bytes, kind: str = "text/html", url: str = URL) -> FetchResponse:
    return FetchResponse(url, 200, {"content-type": kind}, body)


@pytest.mark.parametrize(
    ("kind", "url", "suffix"),
    [
        ("text/html; charset=utf-8", URL, ".html"),
        ("application/pdf", URL, ".pdf"),
        ("text/markdown", URL, ".md"),
        ("text/plain", "https://e.example/readme.md", ".md"),
        ("text/plain", "https://e.example/notes", ".txt"),
        ("application/octet-stream", "https://e.example/paper.pdf", ".pdf"),
        ("image/png", "https://e.example/x.html", None),
        ("application/javascript", "https://e.example/x.js", None),
        ("application/zip", URL, None),
        ("video/mp4", URL, None),
    ],
)
def test_the_content_type_decides_the_format(kind: str, url: str, suffix: str | None) -> None:
    assert format_of(page(b"x", kind, url)) == suffix


def test_without_a_content_type_the_content_decides() -> None:
    assert format_of(page(b"<!DOCTYPE html><p>tea", "")) == ".html"
    assert format_of(page(b"%PDF-1.7 ...", "application/octet-stream")) == ".pdf"
    assert format_of(page(b"\x00\x01", "")) is None


def test_files_are_named_after_the_last_segment_of_their_url() -> None:
    assert filename_of("https://e.example/a/My%20Paper.pdf", ".pdf") == "My-Paper.pdf"
    assert filename_of("https://e.example/", ".html") == "e.example.html"
    assert filename_of("https://e.example/a/..%2f..%2fetc", ".html") == "etc.html"


RUSSIAN = "Чай на кухне остывает, а дождь за окном всё идёт и идёт."


def test_the_http_charset_counts_where_the_page_declares_none() -> None:
    body = f"<p>{RUSSIAN}".encode("koi8-r")
    assert find_charset_override(body, "koi8-r") == "koi8-r"
    assert add_charset_meta(body, "koi8-r").startswith(b'<meta charset="koi8-r">')
    assert RUSSIAN in decode_page(body, "koi8-r")


def test_valid_utf8_overrides_the_declared_charset() -> None:
    body = f'<meta charset="iso-8859-1"><p>{RUSSIAN}'.encode()
    assert find_charset_override(body, "cp1251") == "utf-8"
    assert find_charset_override(f"<p>{RUSSIAN}".encode(), "iso8859-1") is None


def test_a_correctly_declared_charset_is_kept() -> None:
    body = f'<meta charset="windows-1251"><p>{RUSSIAN}'.encode("cp1251")
    assert find_charset_override(body, "iso8859-1") is None
    assert RUSSIAN in decode_page(body, "iso8859-1")


def test_sitemaps_are_read_with_and_without_markup() -> None:
    sitemap = "<urlset xmlns='x'><url><loc> https://e.example/a?x=1&amp;y=2 </loc></url><s:loc><![CDATA[https://e.example/b]]></s:loc>"
    assert list(iter_locations(sitemap)) == ["https://e.example/a?x=1&y=2", "https://e.example/b"]
    assert list(iter_locations("https://e.example/a\nnot one\nhttps://e.example/b\n")) == [
        "https://e.example/a",
        "https://e.example/b",
    ]


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert parse_retry_after("120") == 120
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert parse_retry_after("soon") is None
    assert parse_retry_after(None) is None


def test_backoff_doubles_and_ends() -> None:
    policy = RetryPolicy(attempts=3, first_wait_seconds=1, max_wait_seconds=60)
    assert [policy.backoff_seconds(attempt, None) for attempt in range(4)] == [1, 2, 4, None]
    assert policy.backoff_seconds(0, 30) == 30
    assert policy.backoff_seconds(0, 3600) is None, "a Retry-After of an hour is not waited for"


def test_a_plain_text_is_transcoded_from_its_http_charset() -> None:
    assert transcode_to_utf8(RUSSIAN.encode("koi8-r"), "koi8-r") == RUSSIAN.encode()
    assert transcode_to_utf8(RUSSIAN.encode(), "koi8-r") is None
