"""What a crawl sees of a page: links, wishes, and whether there is anything to read."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.engine.crawl.html_scan import choose_canonical_url, scan_page
from knowledge.engine.crawl.politeness import RetryPolicy
from knowledge.engine.crawl.response_content import (
    add_charset,
    as_utf8,
    decode_page,
    filename_of,
    find_charset_override,
    format_of,
)
from knowledge.engine.crawl.sitemaps import iter_locations
from knowledge.engine.fetch.client import FetchResponse
from knowledge.retry_after import parse_retry_after

URL = "https://e.example/docs/page"


def test_links_are_found_as_a_browser_would_find_them() -> None:
    sight = scan_page(
        """<head><base href="/other/"><title><a href="/no1"></title><script>"<a href='/no2'>"</script></head>
        <!-- <a href="/no3"> --><a href=one>1</a><A class="x" HREF='two?a=1&amp;b=2'>2</A>
        <a title="a > b" href="//cdn.example/x">3</a><a name="anchor">4</a><area href="four#part">
        <iframe src="five"></iframe><a href="one">again</a><textarea><a href="/no4"></textarea>""",
        URL,
    )
    assert sight.links == (
        "https://e.example/other/one",
        "https://e.example/other/two?a=1&b=2",
        "https://cdn.example/x",
        "https://e.example/other/four",
        "https://e.example/other/five",
    )


def test_a_page_may_say_how_it_is_known_and_only_on_its_own_host() -> None:
    own = scan_page('<link rel="canonical" href="https://www.e.example/docs/page/?b=1">', URL)
    foreign = scan_page('<link rel="canonical" href="https://evil.example/">', URL)
    assert choose_canonical_url(own, URL) == "https://e.example/docs/page?b=1"
    assert choose_canonical_url(foreign, URL) == URL


@pytest.mark.parametrize(
    "wish", ['<meta name="robots" content="NOINDEX, nofollow">', "<META CONTENT=none NAME=Robots>"]
)
def test_a_page_may_ask_not_to_be_indexed_or_followed(wish: str) -> None:
    sight = scan_page(wish, URL)
    assert not sight.may_index
    assert not sight.may_follow
    assert not scan_page("<p>text", URL, robots_header="noindex").may_index
    assert scan_page('<meta name="description" content="noindex">', URL).may_index


def test_a_page_without_text_but_with_a_script_needs_a_browser() -> None:
    hint = "<noscript>Please enable JavaScript to go on, for without it there is nothing to see here</noscript>"
    shell = f'<title>An application</title><div id="root">Loading</div>{hint}<script src="/app.js"></script>'
    assert scan_page(shell, URL).needs_script
    assert not scan_page(shell + "<p>" + "words of the page itself " * 5, URL).needs_script
    assert not scan_page("<p>short</p>", URL).needs_script


@pytest.mark.parametrize("hostile", ['<a "', '<a href="', "<!--", "<script>", "<a ", "<", "<a x=y ", "<svg ", "<title"])
def test_hostile_markup_is_read_in_one_go(hostile: str) -> None:
    began = time.thread_time()
    scan_page(hostile * (1_000_000 // len(hostile)), URL)
    assert time.thread_time() - began < 10, "it would be minutes if each letter were read again and again"


@given(st.text(alphabet="<>a hrefscipt=\"'/!-&;#\n", max_size=200))
def test_no_markup_breaks_the_look(text: str) -> None:
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
def test_the_type_that_a_site_names_decides_how_a_page_is_read(kind: str, url: str, suffix: str | None) -> None:
    assert format_of(page(b"x", kind, url)) == suffix


def test_without_a_type_the_content_decides() -> None:
    assert format_of(page(b"<!DOCTYPE html><p>tea", "")) == ".html"
    assert format_of(page(b"%PDF-1.7 ...", "application/octet-stream")) == ".pdf"
    assert format_of(page(b"\x00\x01", "")) is None


def test_files_are_named_after_the_last_part_of_their_address() -> None:
    assert filename_of("https://e.example/a/My%20Paper.pdf", ".pdf") == "My-Paper.pdf"
    assert filename_of("https://e.example/", ".html") == "e.example.html"
    assert filename_of("https://e.example/a/..%2f..%2fetc", ".html") == "etc.html"


RUSSIAN = "Чай на кухне остывает, а дождь за окном всё идёт и идёт."


def test_the_encoding_beside_a_page_counts_where_the_page_has_none() -> None:
    body = f"<p>{RUSSIAN}".encode("koi8-r")
    assert find_charset_override(body, "koi8-r") == "koi8-r"
    assert add_charset(body, "koi8-r").startswith(b'<meta charset="koi8-r">')
    assert RUSSIAN in decode_page(body, "koi8-r")


def test_utf8_is_believed_whatever_the_page_or_its_server_say() -> None:
    body = f'<meta charset="iso-8859-1"><p>{RUSSIAN}'.encode()
    assert find_charset_override(body, "cp1251") == "utf-8"
    assert find_charset_override(f"<p>{RUSSIAN}".encode(), "iso8859-1") is None


def test_a_page_that_names_its_own_encoding_is_left_alone() -> None:
    body = f'<meta charset="windows-1251"><p>{RUSSIAN}'.encode("cp1251")
    assert find_charset_override(body, "iso8859-1") is None
    assert RUSSIAN in decode_page(body, "iso8859-1")


def test_sitemaps_are_read_with_and_without_markup() -> None:
    told = "<urlset xmlns='x'><url><loc> https://e.example/a?x=1&amp;y=2 </loc></url><s:loc><![CDATA[https://e.example/b]]></s:loc>"
    assert list(iter_locations(told)) == ["https://e.example/a?x=1&y=2", "https://e.example/b"]
    assert list(iter_locations("https://e.example/a\nnot one\nhttps://e.example/b\n")) == [
        "https://e.example/a",
        "https://e.example/b",
    ]


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert parse_retry_after("120") == 120
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert parse_retry_after("soon") is None
    assert parse_retry_after(None) is None


def test_waits_grow_and_end() -> None:
    patient = RetryPolicy(attempts=3, first_wait_seconds=1, max_wait_seconds=60)
    assert [patient.backoff_seconds(attempt, None) for attempt in range(4)] == [1, 2, 4, None]
    assert patient.backoff_seconds(0, 30) == 30
    assert patient.backoff_seconds(0, 3600) is None, "a site that wants an hour is not waited for"


def test_a_plain_text_in_an_encoding_that_only_its_site_knows_is_written_anew() -> None:
    assert as_utf8(RUSSIAN.encode("koi8-r"), "koi8-r").decode() == RUSSIAN
    assert as_utf8(RUSSIAN.encode(), "koi8-r").decode() == RUSSIAN
