"""URL normalization, canonical URLs and crawler traps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.engine.crawl.urls import (
    canonicalize_url,
    find_excluding_pattern,
    is_crawler_trap,
    is_same_site,
    list_html_twins,
    resolve_link,
)

BASE = "https://docs.example.com/guide/start"


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("next", "https://docs.example.com/guide/next"),
        ("../up/./down/", "https://docs.example.com/up/down/"),
        ("https://docs.example.com/a/../../../b", "https://docs.example.com/b"),
        ("/a/%2e%2e/b", "https://docs.example.com/b"),
        ("#part", "https://docs.example.com/guide/start"),
        ("?page=2#x", "https://docs.example.com/guide/start?page=2"),
        ("//other.example/x", "https://other.example/x"),
        ("HTTPS://Docs.Example.com:443/X", "https://docs.example.com/X"),
        ("http://docs.example.com:8080/x", "http://docs.example.com:8080/x"),
        ("/ä b?q=ü", "https://docs.example.com/%C3%A4%20b?q=%C3%BC"),
        ("/%7euser/%c3%a4", "https://docs.example.com/~user/%C3%A4"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("/x;jsessionid=123?y=1", "https://docs.example.com/x?y=1"),
        (" \n/with\tspace ", "https://docs.example.com/withspace"),
        ("mailto:someone@example.com", None),
        ("javascript:void(0)", None),
        ("file:///etc/passwd", None),
        ("data:text/html,hello", None),
        ("http://user:word@docs.example.com/", None),
        ("http://docs.example.com:port/", None),
        ("/" + "long" * 1000, None),
    ],
)
def test_a_link_is_resolved_to_a_normalized_url_or_to_none(link: str, url: str | None) -> None:
    assert resolve_link(BASE, link) == url


@pytest.mark.parametrize(
    "other",
    [
        "https://www.docs.example.com/a?x=1&y=2",
        "https://docs.example.com/a/?y=2&x=1",
        "https://docs.example.com/a?y=2&x=1&utm_source=mail&fbclid=7",
        "https://docs.example.com/a/index.html?x=1&y=2",
    ],
)
def test_all_urls_of_a_page_have_one_canonical_url(other: str) -> None:
    assert canonicalize_url(other) == canonicalize_url("https://docs.example.com/a?x=1&y=2")


def test_pages_that_differ_in_a_parameter_have_different_canonical_urls() -> None:
    assert canonicalize_url("https://e.example/a?id=1") != canonicalize_url("https://e.example/a?id=2")


@given(st.text(max_size=60))
def test_normalization_never_fails_and_is_idempotent(link: str) -> None:
    url = resolve_link(BASE, link)
    if url is not None:
        assert url.isascii()
        assert resolve_link(url, url) == url
        assert canonicalize_url(canonicalize_url(url)) == canonicalize_url(url)


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [("/archive/", True), ("*/archive/*", True), ("/archive/20??/*", True), ("*.pdf", False), ("/Archive/", False)],
)
def test_exclude_patterns_are_substrings_or_globs(pattern: str, hit: bool) -> None:
    assert (find_excluding_pattern("https://e.example/archive/2024/old", (pattern,)) == pattern) is hit


def test_a_path_that_repeats_itself_is_a_crawler_trap() -> None:
    assert is_crawler_trap("https://e.example/a/b/a/b/a/b/a/b")
    assert not is_crawler_trap("https://e.example/2024/01/01/a")


def test_www_is_the_same_site_and_another_port_is_not() -> None:
    assert is_same_site("example.com", "https://www.example.com/x")
    assert not is_same_site("example.com", "https://docs.example.com/x")
    assert not is_same_site("example.com", "https://example.com:8443/x")


def test_a_markdown_file_has_html_twins() -> None:
    assert "https://e.example/guide.html" in list_html_twins("https://e.example/guide.html.md")
    assert "https://e.example/guide" in list_html_twins("https://e.example/guide.md")
    assert list_html_twins("https://e.example/guide.html") == ()
