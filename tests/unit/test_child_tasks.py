"""Child process tasks: split, identify, unpack; and the validation of their results in the server."""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge import errors
from knowledge.embed import granite
from knowledge.embed.loading import TokenizerSpec
from knowledge.engine.crawl.urls import is_normalized_url, resolve_link
from knowledge.engine.ingest.document_reader import (
    DocumentReading,
    PageSummary,
    ReadOptions,
    make_note_title,
    read_document,
)
from knowledge.extract import formats
from knowledge.extract.base import PageText, Source
from knowledge.extract.process import frames
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.process.frames import FrameKind
from knowledge.extract.process.parsers import Parsers
from knowledge.extract.zip_archive import MAX_MEMBERS, refuse_many_members
from knowledge.split import SplitPassage, Splitter

NOTE = ReadOptions(None, True, TokenizerSpec(None, 256))
DOCUMENT = ReadOptions("A title", False, TokenizerSpec(None, 256))
HOSTILE = "tests.data.extract.hostile_parsers"
TEXT = "# Tea\n\n" + "The kettle whistles in the kitchen while the tea is steeping.\n\n" * 60


@pytest.fixture(scope="module", params=["forked", "spawned"])
def parsers(request: pytest.FixtureRequest) -> Iterator[Parsers]:
    with Parsers(fork=request.param == "forked") as started:
        yield started


def write_source(tmp_path: Path, content: bytes, filename: str = "a.txt") -> Source:
    path = tmp_path / "document"
    path.write_bytes(content)
    return Source(path, filename)


def never() -> bool:
    return False


def test_a_child_splits_a_note_as_the_splitter_does(parsers: Parsers, tmp_path: Path) -> None:
    splitter = Splitter(granite.load_tokenizer(), "Tea")
    expected = [*splitter.feed(PageText(TEXT)), *splitter.finish()]
    with read_document(parsers, write_source(tmp_path, TEXT.encode()), NOTE, never) as reading:
        assert (reading.facts.title, reading.facts.doc_type, reading.language) == ("Tea", "note", "en")
        page, *pieces = reading
    assert page == PageSummary(None, PageText("").method, None, len(TEXT), is_blank=False)
    assert len(expected) > 1 and pieces == expected


def test_a_child_unpacks_an_archive_and_says_which_member_is_damaged(parsers: Parsers, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("a.txt", "b.txt", "c.txt"):
            archive.writestr(name, f"words of {name}")
    source = write_source(tmp_path, buffer.getvalue().replace(b"words of b", b"worms of b"), "a.zip")
    seen: dict[str, bytes | str] = {}
    with parsers.unpack(source) as unpacking:
        for name, pieces in unpacking:
            try:
                seen[name] = b"".join(pieces)
            except errors.Damaged as error:
                seen[name] = str(error)
    assert (seen["a.txt"], seen["c.txt"]) == (b"words of a.txt", b"words of c.txt")
    assert str(seen["b.txt"]).startswith("b.txt is damaged")


def test_a_container_is_identified_by_a_child(parsers: Parsers, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    source = write_source(tmp_path, buffer.getvalue(), "a.zip")
    assert formats.identify_by_first_bytes(source) is None
    assert parsers.identify(source) == "docx"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("spins", errors.ParserTooSlow), ("sends_rubbish", errors.ParserDied), ("crashes", errors.ParserDied)],
)
def test_a_parser_that_hangs_or_crashes_fails_only_its_document(
    tmp_path: Path, name: str, expected: type[errors.KnowledgeError]
) -> None:
    limits = ParserLimits(seconds=2 if name == "spins" else 60, seconds_per_page=0)
    with Parsers(limits, parser=f"{HOSTILE}:{name}") as parsers, pytest.raises(expected):
        list(read_document(parsers, write_source(tmp_path, b"x"), DOCUMENT, never).__enter__())


def test_a_cancelled_job_ends_its_splitting_child(tmp_path: Path) -> None:
    looks = iter([False, True])
    with Parsers(parser=f"{HOSTILE}:hangs") as parsers, pytest.raises(errors.Cancelled):
        read_document(parsers, write_source(tmp_path, b"x"), DOCUMENT, lambda: next(looks)).__enter__()


@pytest.mark.skipif(sys.platform != "linux", reason="the fork server is for Linux")
def test_the_fork_server_has_one_thread_with_everything_loaded(tmp_path: Path) -> None:
    with Parsers(fork=True) as parsers:
        with read_document(parsers, write_source(tmp_path, TEXT.encode()), NOTE, never) as reading:
            list(reading)
        children = Path("/proc/self/task").glob("*/children")
        pids = [pid for task in children for pid in task.read_text().split()]
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}
        servers = [pid for pid, command in commands.items() if b"fork_server" in command]
        assert servers and all(len(list(Path(f"/proc/{pid}/task").iterdir())) == 1 for pid in servers)


class EndedChild:
    """A child process that has sent these frames and ended."""

    pid = None

    def __init__(self, *sent: bytes) -> None:
        self._pieces = [*sent, b""]

    def read(self, timeout: float) -> bytes:
        return self._pieces.pop(0)

    def kill(self) -> None:
        pass

    def wait_for_exit(self) -> object:
        raise AssertionError("the exit status must not be read")


FACTS = frames.dump_frame(FrameKind.FACTS, {"doc_type": "txt"})
ANSWER = frames.dump_frame(FrameKind.ANSWER, {"language": "en"})


@pytest.mark.parametrize(
    "sent",
    [
        [ANSWER, FACTS],
        [FACTS, frames.dump_frame(FrameKind.ANSWER, {"language": "../x"})],
        [FACTS, frames.dump_frame(FrameKind.ANSWER, {"language": 7})],
        [FACTS, ANSWER, frames.dump_frame(FrameKind.DATA, {}, "words")],
        [FACTS, ANSWER, frames.dump_frame(FrameKind.PIECE, {"page": None, "section": []}, "x" * 70_000)],
        [FACTS, ANSWER, frames.dump_frame(FrameKind.PIECE, {"page": None, "section": ["x" * 5000]}, "x")],
        [FACTS, ANSWER, frames.dump_frame(FrameKind.PIECE, {"page": None, "section": ["x"] * 50}, "x")],
        [FACTS, ANSWER, frames.dump_frame(FrameKind.PIECE, {"page": "1", "section": []}, "x")],
        [FACTS, ANSWER, frames.dump_bytes_frame(FrameKind.PIECE, {"page": None, "section": []}, b"\xff")],
        [FACTS, ANSWER, frames.dump_frame(FrameKind.PAGE, {"method": "text_extraction", "blank": "yes"})],
        [
            FACTS,
            ANSWER,
            frames.dump_frame(FrameKind.PAGE, {"method": "text_extraction", "blank": True, "number": 10**30}),
        ],
        [FACTS, ANSWER, frames.dump_frame(FrameKind.PAGE, {"x": ["y" * 1000] * 2000})],
        [FACTS, ANSWER, frames.HEADER.pack(b"P", 6 << 20)],
        [FACTS, ANSWER, frames.HEADER.pack(b"P", 100_001) + b'{"x":' + b"[" * 99_995 + b"\n"],
    ],
)
def test_invalid_frames_of_a_compromised_child_are_refused(sent: list[bytes]) -> None:
    child = EndedChild(*sent)
    child.wait_for_exit = lambda: None  # type: ignore[method-assign]
    reading = DocumentReading(lambda: child, 0, ParserLimits(), never, watch_memory=False)  # type: ignore[arg-type, return-value]
    with pytest.raises(errors.ParserDied, match="invalid data"), reading:
        list(reading)


def test_facts_over_the_size_limit_lose_their_metadata() -> None:
    from knowledge.extract.base import Facts

    frame = frames.dump_facts(Facts("txt", title="Tea", metadata={str(number): "x" * 2000 for number in range(1000)}))
    [(_, payload)] = frames.FrameDecoder().decode_frames(frame)
    assert frames.load_facts(payload) == Facts("txt", title="Tea")


@pytest.mark.parametrize("members", [MAX_MEMBERS, MAX_MEMBERS + 1, 70_000])
@pytest.mark.parametrize("before", [b"", b"#!/bin/sh\n"])
def test_the_members_of_an_archive_are_counted_before_it_is_opened(members: int, before: bytes) -> None:
    """More than 65,535 members need the ZIP64 end record."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = b"a comment"
        for number in range(members):
            archive.writestr(zipfile.ZipInfo(str(number)), b"")
    data = io.BytesIO(before + buffer.getvalue())
    if members <= MAX_MEMBERS:
        refuse_many_members(data)
        return
    with pytest.raises(errors.ParserTooBig, match="more than 20000 files"):
        refuse_many_members(data)


@pytest.mark.parametrize(
    "head", [b"<!---->" * 600, b"<!--" * 1000, b"<?xml" * 800, b" " * 4096, b"<!-- -->" * 500 + b"<html", b"<" * 4096]
)
def test_hostile_first_bytes_are_identified_in_linear_time(tmp_path: Path, head: bytes) -> None:
    source = write_source(tmp_path, head + b"x")
    began = time.process_time()
    formats.identify_by_first_bytes(source)
    assert time.process_time() - began < 0.5


def test_an_html_page_behind_comments_is_identified(tmp_path: Path) -> None:
    page = b"\xef\xbb\xbf <?xml version='1.0'?> <!-- a --><!-- b -->\n<!DOCTYPE html><p>x"
    assert formats.identify_by_first_bytes(write_source(tmp_path, page, "a.xls")) == "html"


def test_the_title_of_a_note_is_searched_only_at_its_beginning() -> None:
    assert make_note_title("\n\n# Tea \nwater") == "Tea"
    assert make_note_title("\n" * 5_000_000 + "late") == "Note"


@pytest.mark.parametrize("link", ["/a?b=c#d", "http://[::1]:80/x", "//other.example/ü", "https://e.example:8443/%zz"])
def test_every_url_that_a_child_resolves_passes_validation(link: str) -> None:
    found = resolve_link("https://e.example/", link)
    assert found is not None and is_normalized_url(found)


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "http://[", "http://a b/", "http://a@b/", "https://ü/", "http://" + "a" * 3000]
)
def test_an_invalid_url_from_a_child_is_refused(url: str) -> None:
    assert not is_normalized_url(url)


def test_a_table_below_a_line_of_blanks_is_split_in_linear_time() -> None:
    splitter = Splitter(granite.load_tokenizer(), "")
    began = time.process_time()
    pieces: list[SplitPassage] = [*splitter.feed(PageText("a|b\n" + " " * 200_000 + "x|")), *splitter.finish()]
    assert json.dumps([piece.text for piece in pieces])
    assert time.process_time() - began < 10
