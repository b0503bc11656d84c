"""No input keeps the server process busy: /health answers while hostile documents and sites are read beside it."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.server_process import Pulse, ServerProcess, server_process
from tests.support.web_site import DEFAULT_TEXT, SiteReply, WebSite, serve_site

MANY_COMMENTS = b"<!---->" * 40 + b"x"
"""A pattern that skipped comments tried every way to divide them."""
BLANKS_IN_A_TABLE = "a|b\n" + " " * 200_000 + "x|"
"""A pattern that looked for the line below a header tried every way to divide the blanks."""
CRAWLING = {"KNOWLEDGE_CRAWL_ALLOW": "127.0.0.1", "KNOWLEDGE_CRAWL_DELAY": "0", "KNOWLEDGE_WORKERS": "1"}
MAX_MEMORY_BYTES = 100 << 20
"""What one file or page may cost the server process."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("busy"), preexec=None, **CRAWLING) as started:
        yield started


@pytest.fixture
def site() -> Iterator[WebSite]:
    with serve_site() as made:
        yield made


def test_a_file_of_many_comments_does_not_stop_the_server(server: ServerProcess) -> None:
    with Pulse(server.url) as pulse:
        ended = server.outcome(server.add("x.txt", MANY_COMMENTS))
    assert (pulse.failures, ended["status"]) == ([], "completed")
    assert pulse.answers


def test_a_note_with_a_line_of_blanks_does_not_stop_the_server(server: ServerProcess) -> None:
    with Pulse(server.url) as pulse:
        ended = server.outcome(server.http.post("/jobs", json={"note": BLANKS_IN_A_TABLE}))
    assert (pulse.failures, ended["status"]) == ([], "completed")
    assert pulse.answers


def test_a_web_page_of_many_comments_does_not_stop_the_server(server: ServerProcess, site: WebSite) -> None:
    site.pages["/"] = SiteReply(MANY_COMMENTS, content_type="text/html")
    site.pages["/plain"] = SiteReply(MANY_COMMENTS, content_type="text/plain")
    with Pulse(server.url) as pulse:
        for path in ("/", "/plain"):
            server.crawl(f"{site.url}{path}")
    assert pulse.failures == []
    assert pulse.answers


def test_a_web_page_with_a_line_of_blanks_does_not_stop_the_server(server: ServerProcess, site: WebSite) -> None:
    site.pages["/table.md"] = SiteReply(BLANKS_IN_A_TABLE, content_type="text/markdown")
    with Pulse(server.url) as pulse:
        report = server.crawl(f"{site.url}/table.md")
    assert (pulse.failures, report["pages_crawled"]) == ([], 1)


def test_a_robots_txt_of_many_rules_does_not_stop_the_server(server: ServerProcess, site: WebSite) -> None:
    rules = "".join(f"Disallow: /{number}*{'*a' * 3}$\n" for number in range(20_000))
    site.pages["/robots.txt"] = SiteReply(f"User-agent: *\n{rules}", content_type="text/plain")
    site.pages["/"] = SiteReply(f"<p>{DEFAULT_TEXT}</p>")
    with Pulse(server.url) as pulse:
        report = server.crawl(f"{site.url}/")
    assert (pulse.failures, report["pages_crawled"]) == ([], 1)


@on_linux
def test_the_directory_of_an_archive_is_counted_outside_the_server(server: ServerProcess) -> None:
    server.forget_peak()
    before = server.resident()
    with Pulse(server.url) as pulse:
        refused = server.add("many.zip", an_archive(300_000))
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, "The archive holds more than 20000 files")
    assert pulse.failures == []
    assert server.peak() - before < 50 << 20


@on_linux
@pytest.mark.parametrize("filename", ["columns.csv", "keys.json", "lines.txt", "blank.txt"])
def test_a_file_takes_little_memory_of_the_server(server: ServerProcess, filename: str) -> None:
    assert memory_of(server, lambda: server.outcome(server.add(filename, NASTY[filename](1)))) < MAX_MEMORY_BYTES


@on_linux
def test_a_web_page_of_very_many_links_takes_little_memory_of_the_server(server: ServerProcess, site: WebSite) -> None:
    links = "".join(f'<p><a href="/{number}">{number}</a></p>' for number in range(50_000))
    site.pages["/"] = SiteReply(f"<title>Links</title><p>{DEFAULT_TEXT}</p>{links}")
    assert memory_of(server, lambda: server.crawl(f"{site.url}/", recursive=True, max_pages=1)) < MAX_MEMORY_BYTES


@on_linux
@pytest.mark.long
@pytest.mark.parametrize("filename", ["columns.csv", "keys.json", "lines.txt", "blank.txt", "many.zip"])
def test_a_very_large_file_takes_little_memory_of_the_server(tmp_path: Path, filename: str) -> None:
    with server_process(tmp_path, preexec=None, **CRAWLING) as server:
        warm_up(server)
        before, seen = server.anonymous(), [0]
        accepted = server.add(filename, NASTY[filename](50))
        with Pulse(server.url, lambda: seen.append(server.anonymous())) as pulse:
            server.outcome(accepted)
        assert pulse.failures == []
        assert max(seen) - before < MAX_MEMORY_BYTES


def memory_of(server: ServerProcess, work: Callable[[], object]) -> int:
    """The most memory that the server took above what it had, in bytes; meanwhile it answers."""
    warm_up(server)
    server.forget_peak()
    before = server.resident()
    with Pulse(server.url) as pulse:
        work()
    assert pulse.failures == []
    return server.peak() - before


def warm_up(server: ServerProcess) -> None:
    """What the first document loads is no cost of the others."""
    server.outcome(server.http.post("/jobs", json={"note": f"a note like any other {uuid4()}"}))


def an_archive(members: int) -> bytes:
    """One small file that the directory names very often."""
    name = b"a.txt"
    member = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0) + name
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), *[0] * 6) + name
    directory = entry * members
    count = members & 0xFFFF
    return member + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(member), 0)


def _columns(times: int) -> bytes:
    count = 20_000 * times
    return b"a," * count + b"\n" + b"1," * count


def _keys(times: int) -> bytes:
    return json.dumps({f"key {number}": number for number in range(20_000 * times)}).encode()


def _lines(times: int) -> bytes:
    return b"".join(b"line %d of a long text about ships\n" % number for number in range(25_000 * times))


NASTY: dict[str, Callable[[int], bytes]] = {
    "columns.csv": _columns,
    "keys.json": _keys,
    "lines.txt": _lines,
    "blank.txt": lambda times: b"\n" * (1_000_000 * times) + b"the end",
    "many.zip": lambda times: an_archive(40_000 * times),
}
"""Files that are as large as they are useless, by their names; fifty times as large is a million columns or 50 MB."""
