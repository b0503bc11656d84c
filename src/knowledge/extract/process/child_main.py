"""Entry point of a child process: confine itself, run one task, write its frames, exit."""

from __future__ import annotations

import os
import signal
import sys

from knowledge import errors
from knowledge.extract.process import frames
from knowledge.extract.process.child import clear_environment
from knowledge.extract.process.request import TaskRequest
from knowledge.extract.sandbox import confine as sandbox


def run_task(request: TaskRequest, output: int) -> None:
    """Run the task and write its frames to a file descriptor, with a final END or ERROR frame."""
    try:
        _run_confined(request, output)
        _write_all(output, frames.dump_frame(frames.FrameKind.END, {}))
    except errors.KnowledgeError as error:
        _write_all(output, frames.dump_error(error))
    except MemoryError:
        _write_all(output, frames.dump_error(errors.ParserTooBig("Processing exceeded its memory limit")))
    except BrokenPipeError:
        pass  # the parent stopped reading
    except BaseException as error:  # a panic in Rust is not an Exception
        _write_all(output, frames.dump_error(_to_damaged_error(error)))


def _run_confined(request: TaskRequest, output: int) -> None:
    task = request.load_task()
    limits, size = request.limits, request.size
    path = request.source.path if request.source else None
    missing = sandbox.confine_process(limits, size, path, request.sandbox)
    _write_all(output, frames.dump_frame(frames.FrameKind.SANDBOX, {"missing": {**missing}}))
    written = progress = 0
    for frame in task(request):
        written += len(frame)
        if written > limits.text_bytes:
            raise errors.ParserTooBig(
                f"Its text is longer than {limits.text_bytes >> 20} MB", limit_bytes=limits.text_bytes
            )
        _write_all(output, frame)
        if frames.is_progress(frame):
            progress += 1
            sandbox.limit_cpu_seconds(limits.seconds_for(size, progress))


def _to_damaged_error(error: BaseException) -> errors.KnowledgeError:
    return errors.Damaged(f"The parser failed: {type(error).__name__}: {str(error)[:200]}", reason=type(error).__name__)


def _write_all(output: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(output, view) :]


def redirect_stdio(stderr: int | None = None) -> None:
    """Redirect the standard descriptors, because those of the server may carry a protocol (MCP over stdio)."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    if stderr is not None:
        os.dup2(stderr, 2)
    os.close(nothing)


def main() -> None:
    """Run a spawned child: the request comes from standard input, frames go to standard output."""
    clear_environment()
    request = TaskRequest.load(sys.stdin.buffer.read())
    output = os.dup(1)
    redirect_stdio()
    # a service manager sends it to every process of a service; the server ends its children itself
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sandbox.die_with_parent()
    run_task(request, output)
    os._exit(0)
