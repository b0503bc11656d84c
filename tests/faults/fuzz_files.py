"""Mutates small documents of every format, sends them to a real server, and reports the outcome of each.

`FUZZ_SEED=7 python tests/faults/fuzz_files.py COUNT` runs it; without FUZZ_SEED the seed is random.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.data.extract import documents, samples  # noqa: E402

SEED_VARIABLE = "FUZZ_SEED"
CONCURRENT_FILES = 6
START_TIMEOUT_SECONDS = 60.0
HEALTH_TIMEOUT_SECONDS = 10.0
"""Limit for /health while files are processed on a busy machine."""
JOB_TIMEOUT_SECONDS = 120.0
"""Limit for a file from its acceptance to the end of its job."""
SETTINGS = {
    "KNOWLEDGE_EMBEDDING": "none",
    "KNOWLEDGE_WORKERS": "2",
    "KNOWLEDGE_LOG_LEVEL": "warning",
    "KNOWLEDGE_PARSE_SECONDS": "5",
    "KNOWLEDGE_PARSE_MEMORY_MB": "600",
    "UPLOAD_RATE_LIMIT": "100000/second",
    "QUERY_RATE_LIMIT": "100000/second",
    "MANAGEMENT_RATE_LIMIT": "100000/second",
}
EXTREME_NUMBERS = (
    "0", "-1", "1", "255", "256", "65535", "65536", "2147483647", "2147483648", "4294967295", "-2147483648",
    "9223372036854775807", "18446744073709551616", "9" * 40, "1e308", "-1e308", "1e-308", "NaN", "0.0000001", "",
)  # fmt: skip
EXTREME_LENGTHS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
OPENINGS_BY_MARK = {
    b"<": (b"<div>", b"<g>", b"<text:p>", b"<w:p>", b"<table><tr><td>"),
    b"{": (b"{\\b ", b"{", b'{"a":', b"["),
    b"[": (b"[", b'[{"a":'),
    b"%": (b"[", b"<<", b"q ", b"("),
}


# --- documents -------------------------------------------------------------------------------------------------------


@cache
def make_originals() -> dict[str, bytes]:
    """Return one valid document of each format; images are small because OCR is slow."""
    small = documents.draw_picture("Tea costs twelve", size=(420, 120))
    kinds = {"png": "PNG", "jpg": "JPEG", "tiff": "TIFF", "webp": "WEBP", "gif": "GIF", "bmp": "BMP"}
    originals = {kind: make() for kind, make in samples.SAMPLES.items() if kind not in kinds}
    pictures = {kind: documents.encode_image(small, name) for kind, name in kinds.items()}
    texts = {"xml": b"<list><ware price='12'>Tea</ware></list>", "py": b"def price():\n    return 12\n"}
    toml = b"+++\ntitle = 'Prices'\n+++\n\n# Tea\n\n| Ware | Price |\n|---|---|\n| Tea | 12 |\n"
    archive = documents.make_zip({"a.txt": "Tea", "b/c.html": samples.HTML, "d.odt": samples.odt()})
    return {**originals, **pictures, **texts, "markdown": toml, "zip": archive}


# --- mutations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mutant:
    number: int
    filename: str
    content: bytes
    recipe: str
    """The mutations, for the report."""


def make_mutants(seed: int, count: int) -> Iterator[Mutant]:
    """Yield mutated documents, the same ones for the same seed."""
    originals = make_originals()
    kinds = sorted(originals)
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        kind = kinds[number % len(kinds)]
        content, recipe = originals[kind], [kind]
        for _ in range(rng.choice((1, 1, 2, 3))):
            mutate = rng.choice(MUTATIONS)
            content = mutate(content, rng)
            recipe.append(mutate.__name__)
        suffix = kind
        if rng.random() < 0.08:
            suffix = rng.choice(kinds)
            recipe.append(f"named {suffix}")
        # The number in the name distinguishes equal documents in the report.
        yield Mutant(number, f"fuzz-{seed}-{number}.{suffix}", content, " ".join(recipe))


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 4, 32))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(content: bytes, rng: random.Random) -> bytes:
    end = rng.randrange(len(content) + 1)
    return content[:end] if rng.random() < 0.7 else content[end:]


def splice(content: bytes, rng: random.Random) -> bytes:
    """Join the beginning of one document and the end of another."""
    other = rng.choice(list(make_originals().values()))
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other)) :]


def insert_document(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(list(make_originals().values())) + content[place:]


def duplicate_block(content: bytes, rng: random.Random) -> bytes:
    start, end = _choose_block(content, rng)
    return content[:end] + content[start:end] * rng.choice((1, 2, 50)) + content[end:]


def remove_block(content: bytes, rng: random.Random) -> bytes:
    start, end = _choose_block(content, rng)
    return content[:start] + content[end:]


def swap_blocks(content: bytes, rng: random.Random) -> bytes:
    start, end = _choose_block(content, rng)
    place = rng.randrange(len(content) + 1)
    rest = content[:start] + content[end:]
    return rest[:place] + content[start:end] + rest[place:]


def overwrite_block(content: bytes, rng: random.Random) -> bytes:
    start, end = _choose_block(content, rng)
    filling = rng.choice((bytes(end - start), b"\xff" * (end - start), rng.randbytes(end - start)))
    return content[:start] + filling + content[end:]


def change_length(content: bytes, rng: random.Random) -> bytes:
    """Replace two or four bytes by an extreme number, like a length field of a binary format."""
    shape = rng.choice(("<I", ">I", "<H", ">H"))
    number = rng.choice(EXTREME_LENGTHS) & (0xFFFFFFFF if shape[1] == "I" else 0xFFFF)
    packed = struct.pack(shape, number)
    place = rng.randrange(max(1, len(content) - len(packed)))
    return content[:place] + packed + content[place + len(packed) :]


def change_numbers(content: bytes, rng: random.Random) -> bytes:
    """Replace some numbers in XML, JSON, RTF or PDF, or in a member of an archive, by extreme ones."""
    share = rng.choice((0.02, 0.2))

    def replace_number(number: re.Match[bytes]) -> bytes:
        return rng.choice(EXTREME_NUMBERS).encode() if rng.random() < share else number[0]

    def change(text: bytes) -> bytes:
        return re.sub(rb"-?\d+(?:\.\d+)?", replace_number, text)

    return _change_member(content, change, rng) or change(content)


def change_text(content: bytes, rng: random.Random) -> bytes:
    """Mutate one member of an archive, or the document itself if it is no archive."""
    mutate = rng.choice((flip_bits, truncate, duplicate_block, remove_block, splice, nest))
    return _change_member(content, lambda member: mutate(member, rng), rng) or mutate(content, rng)


def nest(content: bytes, rng: random.Random) -> bytes:
    """Insert 100 or 3,000 opening marks that are never closed."""
    openings = next((found for mark, found in OPENINGS_BY_MARK.items() if mark in content[:200]), (b"> ", b"(", b"- "))
    place = content.find(b">") + 1 or rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(openings) * rng.choice((100, 3_000)) + content[place:]


def repeat_spaces(content: bytes, rng: random.Random) -> bytes:
    """Insert a long run of one mark, to find regular expressions that need quadratic time."""
    place = rng.randrange(len(content) + 1)
    return (
        content[:place] + rng.choice((b" ", b"\t", b"\n", b"#", b"|", b"[", b"<!--", b"*")) * 20_000 + content[place:]
    )


def edit_archive(content: bytes, rng: random.Random) -> bytes:
    """Rename, repeat, remove or swap members of an archive, or change their headers."""
    members = _read_members(content)
    if not members:
        return flip_bits(content, rng)
    names = list(members)
    first, second = rng.choice(names), rng.choice(names)
    match rng.randrange(7):
        case 0:
            odd = ("../../out.txt", "/etc/passwd", "a" * 5_000, "\x00", "", "con", first.upper(), "é" * 200, "x/" * 500)
            members = {rng.choice(odd) if name == first else name: data for name, data in members.items()}
        case 1:
            del members[first]
        case 2:
            members[first], members[second] = members[second], members[first]
        case 3:
            members[first] = members[first] * 300
        case 4:
            members[f"{first}/{second}"] = members[first]
        case 5:
            return _write_zip(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
        case _:
            return _change_records(content, rng)
    return _write_zip(members, zipfile.ZIP_DEFLATED)


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bits, truncate, splice, insert_document, duplicate_block, remove_block, swap_blocks, overwrite_block,
    change_length, change_numbers, change_numbers, change_text, change_text, nest, repeat_spaces, edit_archive,
)  # fmt: skip


def _choose_block(content: bytes, rng: random.Random) -> tuple[int, int]:
    size = min(len(content), rng.choice((1, 16, 256, 4096)))
    start = rng.randrange(len(content) - size + 1)
    return start, start + size


def _read_members(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive; none if it is damaged or no archive."""
    if not content.startswith(b"PK"):
        return {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: archive.read(name)[:1_000_000] for name in archive.namelist()[:200]}
    except Exception:  # zipfile raises many kinds of errors
        return {}


def _write_zip(members: dict[str, bytes], compression: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return packed.getvalue()


def _change_member(content: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes | None:
    members = _read_members(content)
    if not members:
        return None
    name = rng.choice(list(members))
    return _write_zip({**members, name: change(members[name])}, zipfile.ZIP_DEFLATED)


def _change_records(content: bytes, rng: random.Random) -> bytes:
    """Change a byte of a header or of the directory of an archive."""
    mark = rng.choice((b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"))
    places = [found.start() for found in re.finditer(re.escape(mark), content)]
    if not places:
        return flip_bits(content, rng)
    place = rng.choice(places) + rng.randrange(4, 30)
    return content[:place] + rng.choice((b"\0", b"\1", b"\xff", b"\xff\xff", b"\x09\0")) + content[place + 1 :]


# --- the server and the run ------------------------------------------------------------------------------------------


@dataclass
class Report:
    """The outcomes of the files, and the problems and memory of the server."""

    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    slowest_health: float = 0.0
    memory: list[int] = field(default_factory=list)
    """Resident memory of the server process in MB, after each tenth of the files."""
    permanent_processes: dict[int, str] = field(default_factory=dict)
    """Child processes that run as long as the server, by pid with their commands."""

    def __str__(self) -> str:
        lines = [f"{count:6} {outcome}" for outcome, count in self.outcomes.most_common()]
        lines += [f"memory in MB: {self.memory}, slowest /health: {self.slowest_health:.2f} s", *self.problems]
        return "\n".join([f"seed {self.seed} ({SEED_VARIABLE}={self.seed})", *lines])


class FuzzedServer:
    """`knowledge serve` in a process with its own folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.data, self.temporary = folder / "data", folder / "tmp"
        self.temporary.mkdir(parents=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
        environment = {**inherited, **SETTINGS, "TMPDIR": str(self.temporary)}
        command = [sys.executable, "-m", "knowledge", "--data", str(self.data), "serve", "--port", "0"]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log: list[str] = []
        self._address = threading.Event()
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._address.wait(START_TIMEOUT_SECONDS), "".join(self.log)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if not self.url and (found := re.search(r"http://\S+:\d+", line)):
                self.url = found[0]
                self._address.set()
        self._address.set()

    def read_memory_mb(self) -> int:
        """Return the resident memory of the server without its children; 0 if there is no /proc."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    def find_descendants(self) -> dict[int, str]:
        """Return all descendants of the server by pid, with their commands."""
        below: dict[int, str] = {}
        waiting = [self.process.pid]
        while waiting:
            process = waiting.pop()
            for task in Path(f"/proc/{process}/task").glob("*/children"):
                try:
                    children = [int(child) for child in task.read_text().split()]
                    below |= {
                        child: Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ") for child in children
                    }
                except OSError:
                    continue  # the process has ended
                waiting += children
        return below

    def list_temporary_files(self) -> list[str]:
        incoming = self.data / "files" / "incoming"
        return [str(path) for folder in (self.temporary, incoming) for path in folder.rglob("*") if path.is_file()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(JOB_TIMEOUT_SECONDS)
        finally:
            self.process.kill()
            self._reader.join(JOB_TIMEOUT_SECONDS)
            assert self.process.stderr is not None
            self.process.stderr.close()


async def fuzz_server(server: FuzzedServer, seed: int, count: int, *, verbose: bool = False) -> Report:
    """Send mutated files, several at a time, and wait for the outcome of each."""
    report = Report(seed)
    limits = httpx.Limits(max_connections=CONCURRENT_FILES + 2, keepalive_expiry=1.0)  # before the server closes them
    async with httpx.AsyncClient(base_url=server.url, timeout=JOB_TIMEOUT_SECONDS, limits=limits) as http:
        await _add_first_document(http)
        report.permanent_processes = server.find_descendants()
        watch = asyncio.create_task(_watch_health(server.url, report))
        waiting = make_mutants(seed, count)
        step = max(1, count // 10)

        async def send_some() -> None:
            for mutant in waiting:
                try:
                    outcome = await _send_and_wait(http, mutant, report)
                except httpx.HTTPError as error:
                    outcome = "no answer"
                    report.problems.append(f"{mutant.filename} ({mutant.recipe}): {error!r}")
                report.outcomes[outcome] += 1
                if verbose:
                    print(mutant.filename, mutant.recipe, outcome, flush=True)
                if mutant.number % step == step - 1:
                    report.memory.append(server.read_memory_mb())

        await asyncio.gather(*(send_some() for _ in range(CONCURRENT_FILES)))
        await _wait_until_quiet(http, server, report)
        watch.cancel()
    report.problems += [line.rstrip() for line in server.log if "Traceback" in line or "failed with" in line]
    return report


async def _add_first_document(http: httpx.AsyncClient) -> None:
    """Wait until the server is healthy, and add a document so that it starts its permanent processes."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while (await http.get("/health")).status_code != 200:
        assert time.monotonic() < deadline, "the server does not start"
        await asyncio.sleep(0.05)
    reply = await http.post("/api/v1/jobs", files={"file": ("first.html", b"<p>The first document</p>")})
    assert (await _wait_for_job(http, reply.json()["job_id"]))["status"] == "completed"


async def _send_and_wait(http: httpx.AsyncClient, mutant: Mutant, report: Report) -> str:
    """Send a file and return its error code or the status of its job; report anything else as a problem."""
    reply = await http.post("/api/v1/jobs", files={"file": (mutant.filename, mutant.content)})
    body: dict[str, Any] = reply.json()
    label = f"{mutant.filename} ({mutant.recipe})"
    if 400 <= reply.status_code < 500 and body.get("error", {}).get("code"):
        return f"{reply.status_code} {body['error']['code']}"
    if reply.status_code != 202:
        report.problems.append(f"{label}: {reply.status_code} {reply.text[:200]}")
        return str(reply.status_code)
    job = await _wait_for_job(http, body["job_id"])
    if job["status"] == "failed":
        error = job.get("error") or {}
        if not error.get("message") or error.get("code") in (None, "internal"):
            report.problems.append(f"{label}: failed without a reason: {error}")
        return f"failed {error.get('code')}"
    if job["status"] not in ("completed", "partial"):
        report.problems.append(f"{label}: {job['status']} after {JOB_TIMEOUT_SECONDS} s")
    return str(job["status"])


async def _wait_for_job(http: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    deadline, pause = time.monotonic() + JOB_TIMEOUT_SECONDS, 0.05
    while True:
        job: dict[str, Any] = (await http.get(f"/api/v1/jobs/{job_id}")).json()
        if job["status"] in ("completed", "partial", "failed", "cancelled") or time.monotonic() > deadline:
            return job
        await asyncio.sleep(pause)
        pause = min(0.5, pause * 1.5)


async def _watch_health(url: str, report: Report) -> None:
    async with httpx.AsyncClient(timeout=HEALTH_TIMEOUT_SECONDS) as http:
        while True:
            start = time.monotonic()
            try:
                status = (await http.get(f"{url}/health")).status_code
            except httpx.HTTPError as error:
                report.problems.append(f"/health does not answer: {error!r}")
                await asyncio.sleep(1)
                continue
            report.slowest_health = max(report.slowest_health, time.monotonic() - start)
            if status != 200:
                report.problems.append(f"/health answers {status}")
            await asyncio.sleep(0.25)


async def _wait_until_quiet(http: httpx.AsyncClient, server: FuzzedServer, report: Report) -> None:
    """Wait until there are no jobs, no parser processes and no temporary files."""
    deadline = time.monotonic() + JOB_TIMEOUT_SECONDS
    while True:
        jobs = [
            job
            for status in ("queued", "processing")
            for job in (await http.get("/api/v1/jobs", params={"status": status})).json()["jobs"]
        ]
        left = {pid: name for pid, name in server.find_descendants().items() if pid not in report.permanent_processes}
        files = server.list_temporary_files()
        if not (jobs or left or files):
            return
        if time.monotonic() > deadline:
            report.problems += [f"left behind: jobs {jobs}, processes {left}, files {files}"]
            return
        await asyncio.sleep(0.2)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(os.environ.get(SEED_VARIABLE, random.randrange(1 << 30)))
    with tempfile.TemporaryDirectory() as folder:
        server = FuzzedServer(Path(folder))
        try:
            report = asyncio.run(fuzz_server(server, seed, count, verbose="-v" in sys.argv))
        finally:
            code = server.stop()
        print(report, f"exit code {code}", *(server.log if report.problems else ()), sep="\n")


if __name__ == "__main__":
    main()
