"""`knowledge crawl` as a person types it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from tests.support.command_line import Shell, serve_engine
from tests.support.web_site import SiteReply, WebSite


@pytest.fixture
def shell(local: LocalEngine, settings: Settings) -> Iterator[Shell]:
    with serve_engine(local, settings) as address:
        yield Shell({"KNOWLEDGE_ENGINE_URL": address})


def test_a_crawl_prints_a_table_of_its_pages(shell: Shell, site: WebSite) -> None:
    site.put_page("/", "/a", "/missing", "/photo.png", "https://example.com/")
    site.put_page("/a")
    result = shell.run("crawl", site.url + "/", "--recursive")
    assert result.exit_code == 0
    lines = [line.split()[:2] for line in result.stdout.splitlines()[1:]]
    assert lines == [["created", site.url + "/"], ["created", site.url + "/a"], ["failed", site.url + "/missing"]]
    assert "HTTP 404" in result.stdout
    assert "1 URL skipped: off-site." in result.stderr
    assert "1 URL skipped: unsupported type." in result.stderr
    assert "2 pages crawled (2 new, 0 changed, 0 unchanged), 1 failed, 2 skipped." in result.stderr


def test_every_skipped_address_is_listed_when_asked_for(shell: Shell, site: WebSite) -> None:
    site.put_page("/", "/photo.png")
    assert "/photo.png" in shell.run_ok("crawl", site.url + "/", "-r", "--all")


def test_the_same_site_again_goes_into_the_same_collection(shell: Shell, site: WebSite) -> None:
    site.put_page("/")
    first = shell.run_json("crawl", site.url + "/")
    second = shell.run_json("crawl", site.url + "/")
    assert second["source_id"] == first["source_id"]
    assert (first["documents_created"], second["documents_unchanged"]) == (1, 1)


def test_a_crawl_without_a_document_fails_with_the_reason(shell: Shell, site: WebSite) -> None:
    site.pages["/robots.txt"] = SiteReply("User-agent: *\nDisallow: /", content_type="text/plain")
    result = shell.run("crawl", site.url + "/")
    assert result.exit_code == 1
    assert "robots.txt does not allow it" in result.stderr


def test_a_forbidden_address_is_refused_at_once(shell: Shell) -> None:
    result = shell.run("crawl", "http://169.254.169.254/")
    assert result.exit_code == 5
    assert "KNOWLEDGE_CRAWL_ALLOW" in result.stderr


def test_a_crawl_can_be_started_without_waiting(shell: Shell, site: WebSite) -> None:
    site.put_page("/")
    result = shell.run("crawl", site.url + "/", "--no-wait")
    assert result.exit_code == 0
    assert "knowledge jobs show" in result.stderr
