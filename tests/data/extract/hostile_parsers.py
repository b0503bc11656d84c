"""Parsers that misbehave, for the tests of the child processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from knowledge.errors import NeedsPassword
from knowledge.extract.base import Extraction, Facts, PageText, Source


def _extracted(pages: Iterator[PageText]) -> Extraction:
    return Extraction(Facts("txt", title="hostile", page_count=3), pages)


def _tell(deed: Callable[[], object]) -> str:
    try:
        return f"done: {deed()!r}"
    except OSError as error:
        return f"refused: {type(error).__name__}"


def _one(deed: Callable[[], object]) -> Extraction:
    return _extracted(iter([PageText(_tell(deed))]))


def polite(source: Source) -> Extraction:
    return _extracted(PageText(f"page {number} of {source.filename}", number) for number in (1, 2, 3))


def needs_password(source: Source) -> Extraction:
    raise NeedsPassword("It is locked", filename=source.filename)


def stumbles(source: Source) -> Extraction:
    raise KeyError("w:body")


def hangs(source: Source) -> Extraction:
    threading.Event().wait()
    raise AssertionError("never reached")


def hangs_after_two_pages(source: Source) -> Extraction:
    def pages() -> Iterator[PageText]:
        yield PageText("one", 1)
        yield PageText("two", 2)
        threading.Event().wait()

    return _extracted(pages())


def spins(source: Source) -> Extraction:
    while True:
        pass


def swells(source: Source) -> Extraction:
    kept = []
    while True:
        kept.append(bytearray(10 << 20))


def swells_in_native_code(source: Source) -> Extraction:
    """Allocate in native code and abort like C++ and Rust when an allocation fails."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    while address := libc.malloc(10 << 20):
        ctypes.memset(address, 1, 10 << 20)
    os.write(2, b"memory allocation of 10485760 bytes failed\n")
    os.abort()


def aborts(source: Source) -> Extraction:
    os.abort()


def crashes(source: Source) -> Extraction:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("never reached")


def leaves(source: Source) -> Extraction:
    os._exit(3)


def forks(source: Source) -> Extraction:
    return _one(os.fork)


def starts_a_program(source: Source) -> Extraction:
    return _one(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))


def starts_a_thread(source: Source) -> Extraction:
    said: list[str] = []
    thread = threading.Thread(target=said.append, args=("from a thread",))
    thread.start()
    thread.join()
    return _extracted(iter([PageText(said[0])]))


def writes_outside(source: Source) -> Extraction:
    return _one(lambda: Path(source.filename).write_text("I was here"))


def overwrites_the_document(source: Source) -> Extraction:
    return _one(lambda: source.path.write_text("I was here"))


def removes_the_document(source: Source) -> Extraction:
    return _one(source.path.unlink)


def kills_its_parent(source: Source) -> Extraction:
    return _one(lambda: os.kill(os.getppid(), signal.SIGKILL))


def calls_home(source: Source) -> Extraction:
    return _one(lambda: socket.create_connection(("127.0.0.1", int(source.filename)), timeout=5))


def calls_home_in_native_code(source: Source) -> Extraction:
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.socket(socket.AF_INET, 1, 0)
    return _extracted(iter([PageText(f"socket() = {answer}")]))


def reads_secrets(source: Source) -> Extraction:
    return _extracted(iter([PageText(os.environ.get("KB_API_KEY", "no key here"))]))


def prints(source: Source) -> Extraction:
    print("Content-Length: 0 from a parser")
    os.write(1, b"straight to the descriptor\n")
    os.write(2, b"noise " * 100_000 if not os.get_blocking(2) else b"noise")
    return polite(source)


def speaks_without_end(source: Source) -> Extraction:
    def pages() -> Iterator[PageText]:
        while True:
            yield PageText("word " * 50_000)

    return _extracted(pages())


def sends_rubbish(source: Source) -> Extraction:
    """Write to the pipe directly, as a compromised parser could."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"P\x7f\xff\xff\xff not a frame")
        except OSError:
            continue
    return polite(source)


def sends_crumbs(source: Source) -> Extraction:
    """Send an endless page byte by byte."""
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"P\x00\x0f\xff\xff")
            while True:
                os.write(descriptor, b" ")
                time.sleep(0.02)
    return polite(source)


def sends_odd_characters(source: Source) -> Extraction:
    return _extracted(iter([PageText("a\x00b\ud800c\r\nd\x0ce", 1)]))
