"""The life of a child: shut yourself in, read one document, hand over its pages, end."""

from __future__ import annotations

import os
import signal
import sys

from knowledge import errors
from knowledge.extract import frames, sandbox
from knowledge.extract.base import Extracted
from knowledge.extract.pieces import clean_facts, clean_pages
from knowledge.extract.request import Request


def run(request: Request, output: int) -> None:
    """Read the document and write its frames to a file descriptor. The parent sees the end of the pipe as our end."""
    try:
        _read(request, output)
        _write(output, frames.dump(frames.Mark.END, {}))
    except errors.KnowledgeError as error:
        _write(output, frames.dump_error(error))
    except MemoryError:
        _write(output, frames.dump_error(errors.ParserTooBig("Reading it takes more memory than is allowed")))
    except BrokenPipeError:
        pass  # the parent has lost interest
    except BaseException as error:  # a panic in Rust is not an Exception
        _write(output, frames.dump_error(_unforeseen(error)))


def _read(request: Request, output: int) -> None:
    parser = request.load_parser()
    size = request.source.size
    sandbox.confine(request.limits, size)
    extracted: Extracted = parser(request.source)
    _write(output, frames.dump_facts(clean_facts(extracted.facts)))
    written = 0
    for count, page in enumerate(clean_pages(extracted.pages), start=1):
        frame = frames.dump_page(page)
        written += len(frame)
        if written > request.limits.text_bytes:
            raise errors.ParserTooBig("Its text is longer than is allowed", limit_bytes=request.limits.text_bytes)
        _write(output, frame)
        sandbox.allow_seconds(request.limits.seconds_for(size, count))


def _unforeseen(error: BaseException) -> errors.KnowledgeError:
    """A parser stumbled over this document in a way that nobody thought of; it costs this document only."""
    return errors.Damaged(
        f"It could not be read: {type(error).__name__}: {str(error)[:200]}", reason=type(error).__name__
    )


def _write(output: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(output, view) :]


def quiet(last_words: int | None = None) -> None:
    """Nothing that a parser reads or prints may reach the descriptors that belong to the server."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    if last_words is not None:
        os.dup2(last_words, 2)
    os.close(nothing)


def main() -> None:
    """A child that was started as a program of its own: the request on standard input, frames on standard output."""
    request = Request.load(sys.stdin.buffer.read())
    output = os.dup(1)
    quiet()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of a service is for the server, which then ends us
    sandbox.die_with_parent()
    run(request, output)
    os._exit(0)
