"""Each document is parsed in a child process: a parser that misbehaves costs only its own document."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from knowledge import errors
from knowledge.extract.base import PageText, Source
from knowledge.extract.process import frames
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.process.parsers import Parsers, TaskCall
from knowledge.extract.process.streams import FrameStream

LIMITS = ParserLimits(seconds=20, memory_bytes=200 << 20)
SHORT = ParserLimits(seconds=2, seconds_per_page=0, memory_bytes=200 << 20)

Make = Callable[..., Parsers]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel offers no such filter")


@pytest.fixture(params=["forked", "spawned"])
def make(request: pytest.FixtureRequest, source: Source) -> Iterator[Make]:
    """Start parsers with one misbehaving function, in a forked and in a spawned child, and wait for the fork server."""
    made: list[Parsers] = []

    def parsers(name: str, limits: ParserLimits = LIMITS) -> Parsers:
        made.append(
            Parsers(limits, parser=f"tests.data.extract.hostile_parsers:{name}", fork=request.param == "forked")
        )
        made[-1].start()
        with made[-1].run_task(
            FrameStream, TaskCall("knowledge.extract.process.tasks:identify", {}), source, limits=LIMITS
        ) as stream:
            stream.receive_frame()
        return made[-1]

    yield parsers
    for one in made:
        one.close()


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "document"
    path.write_bytes(b"the document")
    return Source(path, "report.txt")


def read(parsers: Parsers, source: Source) -> list[PageText]:
    with parsers.parse(source) as parsing:
        return list(parsing)


def test_a_document_gives_its_facts_first_and_then_its_pages(make: Make, source: Source) -> None:
    with make("polite").parse(source) as parsing:
        assert (parsing.facts.title, parsing.facts.page_count) == ("hostile", 3)
        assert [(page.number, page.text) for page in parsing] == [
            (number, f"page {number} of report.txt") for number in (1, 2, 3)
        ]


def test_an_error_of_the_parser_keeps_its_type_and_details(make: Make, source: Source) -> None:
    with pytest.raises(errors.NeedsPassword, match="It is locked") as caught:
        read(make("needs_password"), source)
    assert caught.value.details == {"filename": "report.txt"}


def test_an_exception_of_the_parser_means_a_damaged_document(make: Make, source: Source) -> None:
    with pytest.raises(errors.Damaged, match="KeyError"):
        read(make("stumbles"), source)


def test_a_parser_that_hangs_is_stopped(make: Make, source: Source) -> None:
    with pytest.raises(errors.ParserTooSlow):
        read(make("hangs", SHORT), source)


def test_pages_before_a_hang_are_returned(make: Make, source: Source) -> None:
    seen: list[str] = []
    with pytest.raises(errors.ParserTooSlow), make("hangs_after_two_pages", SHORT).parse(source) as parsing:
        seen.extend(page.text for page in parsing)
    assert seen == ["one", "two"]


def test_a_parser_in_an_endless_loop_is_stopped(make: Make, source: Source) -> None:
    with pytest.raises(errors.ParserTooSlow):
        read(make("spins", SHORT), source)


def test_a_parser_that_sends_a_page_byte_by_byte_is_stopped(make: Make, source: Source) -> None:
    with pytest.raises(errors.ParserTooSlow):
        read(make("sends_crumbs", SHORT), source)


@pytest.mark.parametrize("name", ["swells", "swells_in_native_code"])
def test_a_parser_that_exceeds_its_memory_is_stopped(make: Make, source: Source, name: str) -> None:
    with pytest.raises(errors.ParserTooBig, match="memory"):
        read(make(name), source)


@pytest.mark.parametrize(("name", "number"), [("aborts", "SIGABRT"), ("crashes", "SIGSEGV")])
def test_a_crash_names_its_signal(make: Make, source: Source, name: str, number: str) -> None:
    with pytest.raises(errors.ParserDied, match=number) as caught:
        read(make(name), source)
    assert caught.value.details["signal"] == number


def test_a_parser_that_exits_early_is_reported_with_its_code(make: Make, source: Source) -> None:
    with pytest.raises(errors.ParserDied, match="code 3"):
        read(make("leaves"), source)


@on_linux
@pytest.mark.parametrize(
    "name",
    [
        "forks",
        "starts_a_program",
        "writes_outside",
        "overwrites_the_document",
        "removes_the_document",
        "kills_its_parent",
    ],
)
def test_a_parser_cannot_change_files_or_processes(make: Make, source: Source, tmp_path: Path, name: str) -> None:
    target = tmp_path / "outside"
    pages = read(make(name), Source(source.path, str(target)))
    assert [page.text for page in pages] == ["refused: PermissionError"]
    assert source.path.read_bytes() == b"the document"
    assert not target.exists()


def test_a_parser_may_use_threads(make: Make, source: Source) -> None:
    assert read(make("starts_a_thread"), source)[0].text == "from a thread"


def test_a_parser_cannot_reach_the_network(make: Make, source: Source) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pages = read(make("calls_home"), Source(source.path, str(server.getsockname()[1])))
    assert pages[0].text == "refused: PermissionError"


@on_linux
def test_native_code_cannot_reach_the_network_either(make: Make, source: Source) -> None:
    assert read(make("calls_home_in_native_code"), source)[0].text == "socket() = -1"


def test_a_parser_does_not_see_api_keys(make: Make, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_API_KEY", "secret")
    assert read(make("reads_secrets"), source)[0].text == "no key here"


def test_output_of_a_parser_is_discarded(make: Make, source: Source, capfd: pytest.CaptureFixture[str]) -> None:
    assert len(read(make("prints"), source)) == 3
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_text_over_the_size_limit_is_refused(make: Make, source: Source) -> None:
    with pytest.raises(errors.ParserTooBig, match="longer"):
        read(make("speaks_without_end", ParserLimits(seconds=20, text_bytes=5 << 20)), source)


def test_a_child_is_slowed_down_by_a_slow_reader(make: Make, source: Source) -> None:
    with make("speaks_without_end").parse(source) as parsing:
        pages = iter(parsing)
        assert all(next(pages).text.startswith("word") for _ in range(20))


def test_invalid_data_on_the_pipe_is_refused(make: Make, source: Source) -> None:
    with pytest.raises(errors.ParserDied, match="invalid data"):
        read(make("sends_rubbish"), source)


@pytest.mark.parametrize("payload", [b"no line end", b"[]\n", b'{"method": 1}\nwords', b"{}\n\xff"])
def test_a_malformed_frame_is_refused(payload: bytes) -> None:
    frame = frames.HEADER.pack(b"P", len(payload)) + payload
    with pytest.raises(frames.BrokenFrame):
        [frames.load_page(body) for _, body in frames.FrameDecoder().decode_frames(frame)]


def test_control_characters_and_surrogates_are_cleaned(make: Make, source: Source) -> None:
    assert read(make("sends_odd_characters"), source)[0].text == "ab\ufffdc\nd\ne"


def test_a_cancelled_job_kills_its_child(make: Make, source: Source) -> None:
    answers = iter([False, True])
    with pytest.raises(errors.Cancelled):
        make("hangs").parse(source, cancelled=lambda: next(answers)).__enter__()


@on_linux
def test_a_signal_to_every_process_of_the_service_does_not_end_a_parser_before_the_server(
    make: Make, source: Source
) -> None:
    """A service manager sends SIGTERM to all processes of a service; that must not count as a crash of the parser."""
    with make("speaks_without_end").parse(source) as parsing:
        for child in descendants(os.getpid()):
            with suppress(ProcessLookupError):  # a child of an earlier test that has just ended
                os.kill(child, signal.SIGTERM)
        pages = iter(parsing)
        assert all(next(pages).text.startswith("word") for _ in range(40))


def descendants(pid: int) -> list[int]:
    """List the fork server and its children."""
    children = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if parent_of(path) == pid]
    return children + [below for child in children for below in descendants(child)]


def parent_of(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # the process has ended
        return None


def test_leaving_the_with_block_ends_the_child(make: Make, source: Source) -> None:
    parsers = make("speaks_without_end")
    with parsers.parse(source) as parsing:
        next(iter(parsing))
    with pytest.raises(RuntimeError):
        next(iter(parsing))


def test_many_threads_parse_at_once(make: Make, source: Source) -> None:
    parsers = make("polite")
    results: list[int] = []

    def work() -> None:
        results.extend(len(read(parsers, source)) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert results == [3] * 12


@on_linux
def test_no_descriptor_and_no_process_is_left_behind(make: Make, source: Source) -> None:
    parsers = make("polite")
    read(parsers, source)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        read(parsers, source)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_fork_server_that_was_closed_is_started_again(make: Make, source: Source) -> None:
    parsers = make("polite")
    assert len(read(parsers, source)) == 3
    parsers.close()
    assert len(read(parsers, source)) == 3


def test_the_memory_of_children_is_measured_while_they_run(make: Make, source: Source) -> None:
    parsers = make("hangs_after_two_pages")
    idle, _ = parsers.measure_memory()
    with parsers.parse(source):
        count, used = parsers.measure_memory()
        assert count == idle + 1 and used > 1 << 20
