"""Compares our fork server with that of multiprocessing: CPU and wall time of a child that reads one document.

    python benchmarks/fork_servers.py FILE [--children 200] [--rounds 3]

FILE is any document; a short text shows the cost of the child itself. Both servers preload the same modules and freeze
the garbage collector; both children confine themselves, read the document and send its pages over a pipe. CPU time is
that of this process, the fork server and its children, which the kernel counts in ticks of 10 ms; the start is not part
of it. Memory is what the server and its helper processes hold, without pages that they share with others.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from knowledge.extract.base import Source
from knowledge.extract.process import child_main, frames
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.process.parsers import PRELOAD_MODULES, Parsers
from knowledge.extract.process.request import TaskRequest

TASK = "knowledge.extract.process.tasks:extract_pages"
READ_BYTES = 1 << 20


class Cost(NamedTuple):
    cpu_ms: float
    wall_ms: float


def list_children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in found for child in children.read_text().split()]


def read_cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def read_private_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def measure_children(read: Callable[[], None], count: int) -> Cost:
    servers = list_children(os.getpid())
    cpu, wall = time.process_time() + sum(map(read_cpu_seconds, servers)), time.perf_counter()
    for _ in range(count):
        read()
    wall = time.perf_counter() - wall
    cpu = time.process_time() + sum(map(read_cpu_seconds, servers)) - cpu
    return Cost(cpu * 1000 / count, wall * 1000 / count)


@contextmanager
def start_ours(source: Source) -> Iterator[Callable[[], None]]:
    def read() -> None:
        with parsers.parse(source) as parsing:
            assert any(page.text for page in parsing)

    with Parsers() as parsers:
        yield read


def run_child(request: bytes, writer: Connection) -> None:
    """The task of a child of multiprocessing: confine itself, read, send."""
    child_main.redirect_stdio()
    child_main.run_task(TaskRequest.load(request), writer.fileno())


@contextmanager
def start_multiprocessing(source: Source) -> Iterator[Callable[[], None]]:
    context = multiprocessing.get_context("forkserver")
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # its fork server ignores modules that it cannot import
    context.set_forkserver_preload([*PRELOAD_MODULES, "fork_servers", "fork_servers_preload"])
    request = TaskRequest(TASK, ParserLimits(), source).dump()

    def read() -> None:
        reader, writer = context.Pipe(duplex=False)
        child = context.Process(target=run_child, args=(request, writer))
        child.start()
        writer.close()
        decoder, pages = frames.FrameDecoder(), 0
        while piece := os.read(reader.fileno(), READ_BYTES):
            pages += sum(kind is frames.FrameKind.PAGE for kind, _ in decoder.decode_frames(piece))
        child.join()
        reader.close()
        assert pages

    yield read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--children", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    source = Source(given.file.resolve(), given.file.name)
    for name, start in (("ours", start_ours), ("multiprocessing", start_multiprocessing)):
        with start(source) as read:
            read()
            costs = [measure_children(read, given.children) for _ in range(given.rounds)]
            memory = sum(map(read_private_megabytes, list_children(os.getpid())))
        cpu, wall = (sorted(one)[len(costs) // 2] for one in zip(*costs, strict=True))
        print(f"{name:<16} {cpu:6.2f} ms CPU {wall:6.2f} ms wall a child, server and helpers {memory:.0f} MB")


if __name__ == "__main__":
    main()
