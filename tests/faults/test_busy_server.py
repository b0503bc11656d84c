"""/health answers while hostile documents and sites are processed."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.server_process import HealthProbe, ServerProcess, run_server_process
from tests.support.web_site import DEFAULT_TEXT, SiteReply, WebSite, serve_site

MANY_COMMENTS = b"<!---->" * 40 + b"x"
"""Triggered catastrophic backtracking in a regular expression that skipped comments."""
BLANKS_IN_A_TABLE = "a|b\n" + " " * 200_000 + "x|"
"""Triggered catastrophic backtracking in a regular expression for the line below a table header."""
CRAWL_SETTINGS = {"KNOWLEDGE_CRAWL_ALLOW": "127.0.0.1", "KNOWLEDGE_CRAWL_DELAY": "0", "KNOWLEDGE_WORKERS": "1"}
MAX_MEMORY_BYTES = 100 << 20
"""Limit for one file or page, above the memory of the idle server process."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with run_server_process(tmp_path_factory.mktemp("busy"), preexec=None, **CRAWL_SETTINGS) as started:
        yield started


@pytest.fixture
def site() -> Iterator[WebSite]:
    with serve_site() as made:
        yield made


def test_a_file_of_many_comments_does_not_stop_the_server(server: ServerProcess) -> None:
    with HealthProbe(server.url) as probe:
        job = server.wait_for_outcome(server.add_file("x.txt", MANY_COMMENTS))
    assert (probe.failures, job["status"]) == ([], "completed")
    assert probe.answers


def test_a_note_with_a_line_of_blanks_does_not_stop_the_server(server: ServerProcess) -> None:
    with HealthProbe(server.url) as probe:
        job = server.wait_for_outcome(server.http.post("/jobs", json={"note": BLANKS_IN_A_TABLE}))
    assert (probe.failures, job["status"]) == ([], "completed")
    assert probe.answers


def test_a_web_page_of_many_comments_does_not_stop_the_server(server: ServerProcess, site: WebSite) -> None:
    site.pages["/"] = SiteReply(MANY_COMMENTS, content_type="text/html")
    site.pages["/plain"] = SiteReply(MANY_COMMENTS, content_type="text/plain")
    with HealthProbe(server.url) as probe:
        for path in ("/", "/plain"):
            server.crawl(f"{site.url}{path}")
    assert probe.failures == []
    assert probe.answers


def test_a_web_page_with_a_line_of_blanks_does_not_stop_the_server(server: ServerProcess, site: WebSite) -> None:
    site.pages["/table.md"] = SiteReply(BLANKS_IN_A_TABLE, content_type="text/markdown")
    with HealthProbe(server.url) as probe:
        report = server.crawl(f"{site.url}/table.md")
    assert (probe.failures, report["pages_crawled"]) == ([], 1)


def test_a_robots_txt_of_many_rules_does_not_stop_the_server(server: ServerProcess, site: WebSite) -> None:
    rules = "".join(f"Disallow: /{number}*{'*a' * 3}$\n" for number in range(20_000))
    site.pages["/robots.txt"] = SiteReply(f"User-agent: *\n{rules}", content_type="text/plain")
    site.pages["/"] = SiteReply(f"<p>{DEFAULT_TEXT}</p>")
    with HealthProbe(server.url) as probe:
        report = server.crawl(f"{site.url}/")
    assert (probe.failures, report["pages_crawled"]) == ([], 1)


@on_linux
def test_the_directory_of_an_archive_is_counted_outside_the_server(server: ServerProcess) -> None:
    server.reset_peak()
    before = server.read_resident_bytes()
    with HealthProbe(server.url) as probe:
        refused = server.add_file("many.zip", make_archive(300_000))
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, "The archive holds more than 20000 files")
    assert probe.failures == []
    assert server.read_peak_bytes() - before < 50 << 20


@on_linux
@pytest.mark.parametrize("filename", ["columns.csv", "keys.json", "lines.txt", "blank.txt"])
def test_a_file_takes_little_memory_of_the_server(server: ServerProcess, filename: str) -> None:
    content = HOSTILE_FILES[filename](1)
    used = measure_memory(server, lambda: server.wait_for_outcome(server.add_file(filename, content)))
    assert used < MAX_MEMORY_BYTES


@on_linux
def test_a_web_page_of_very_many_links_takes_little_memory_of_the_server(server: ServerProcess, site: WebSite) -> None:
    links = "".join(f'<p><a href="/{number}">{number}</a></p>' for number in range(50_000))
    site.pages["/"] = SiteReply(f"<title>Links</title><p>{DEFAULT_TEXT}</p>{links}")
    assert measure_memory(server, lambda: server.crawl(f"{site.url}/", recursive=True, max_pages=1)) < MAX_MEMORY_BYTES


@on_linux
@pytest.mark.long
@pytest.mark.parametrize("filename", ["columns.csv", "keys.json", "lines.txt", "blank.txt", "many.zip"])
def test_a_very_large_file_takes_little_memory_of_the_server(tmp_path: Path, filename: str) -> None:
    with run_server_process(tmp_path, preexec=None, **CRAWL_SETTINGS) as server:
        warm_up(server)
        before, samples = server.read_anonymous_bytes(), [0]
        accepted = server.add_file(filename, HOSTILE_FILES[filename](50))
        with HealthProbe(server.url, lambda: samples.append(server.read_anonymous_bytes())) as probe:
            server.wait_for_outcome(accepted)
        assert probe.failures == []
        assert max(samples) - before < MAX_MEMORY_BYTES


def measure_memory(server: ServerProcess, work: Callable[[], object]) -> int:
    """Return the peak of the server's memory during the work, in bytes above its memory before; /health answers."""
    warm_up(server)
    server.reset_peak()
    before = server.read_resident_bytes()
    with HealthProbe(server.url) as probe:
        work()
    assert probe.failures == []
    return server.read_peak_bytes() - before


def warm_up(server: ServerProcess) -> None:
    """Process a first document, because it loads modules that count for no later one."""
    server.wait_for_outcome(server.http.post("/jobs", json={"note": f"a note like any other {uuid4()}"}))


def make_archive(members: int) -> bytes:
    """Return a ZIP with one small file that its directory lists many times."""
    name = b"a.txt"
    member = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0) + name
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), *[0] * 6) + name
    directory = entry * members
    count = members & 0xFFFF
    return member + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(member), 0)


def _make_columns(times: int) -> bytes:
    count = 20_000 * times
    return b"a," * count + b"\n" + b"1," * count


def _make_keys(times: int) -> bytes:
    return json.dumps({f"key {number}": number for number in range(20_000 * times)}).encode()


def _make_lines(times: int) -> bytes:
    return b"".join(b"line %d of a long text about ships\n" % number for number in range(25_000 * times))


HOSTILE_FILES: dict[str, Callable[[int], bytes]] = {
    "columns.csv": _make_columns,
    "keys.json": _make_keys,
    "lines.txt": _make_lines,
    "blank.txt": lambda times: b"\n" * (1_000_000 * times) + b"the end",
    "many.zip": lambda times: make_archive(40_000 * times),
}
"""Large files without useful text, by name and size; a size of 50 makes a million columns or 50 MB."""
