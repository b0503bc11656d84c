"""The sandbox refuses every attempt of a compromised parser to escape.

A control runs the same attempts without the sandbox, where they succeed.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import pytest

if sys.platform != "linux":
    pytest.skip("only Linux has seccomp and Landlock", allow_module_level=True)

from knowledge.errors import SandboxUnavailable
from knowledge.extract.base import Source
from knowledge.extract.process.parsers import Parsers
from knowledge.extract.sandbox import landlock
from knowledge.extract.sandbox.confine import SandboxMode
from knowledge.extract.sandbox.seccomp import find_architecture
from tests.data.extract import missing_syscall, no_capabilities
from tests.data.extract.escapes import ATTEMPTS, Needs, Targets

pytestmark = pytest.mark.skipif(
    landlock.find_abi_version() == 0 or find_architecture() is None, reason="this kernel has no Landlock or no filter"
)

VICTIM_PROGRAM = """
import ctypes, sys
secret = ctypes.create_string_buffer(b"secret", 6)
print(ctypes.addressof(secret), flush=True)
sys.stdin.read()
"""
TIMEOUT_SECONDS = 60.0
REFUSED_ERRORS = {"EPERM", "EACCES", "ENOSYS"}
REFUSED_LINKS = {"see where a link leads", "see where the server works"}
"""Attempts that fail with EINVAL, like readlink of a file that is no link."""


@dataclass(frozen=True, slots=True)
class AttemptRun:
    targets: Targets
    outcome: dict[str, str]
    state: dict[str, object]
    before: dict[str, object]
    after: dict[str, object]


def run_attempts(folder: Path, sandbox: SandboxMode, fork: bool) -> AttemptRun:
    """Make the targets, run all attempts, and compare the targets before and after."""
    folder.mkdir()
    (folder / "secret.txt").write_text("another document")
    (folder / "link").symlink_to("secret.txt")
    (folder / "doomed").write_text("to be cut and removed")
    (folder / "empty").mkdir()
    with ExitStack() as stack:
        stream = stack.enter_context(socket.socket(socket.AF_UNIX))
        stream.bind(str(folder / "stream"))
        stream.listen()
        datagram = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagram.bind(str(folder / "datagram"))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        victim = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", VICTIM_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        assert victim.stdout is not None
        document = folder / "document"
        targets = Targets(
            folder=str(folder),
            document=str(document),
            victim=victim.pid,
            address=int(victim.stdout.readline()),
            port=server.getsockname()[1],
            key=random.randrange(1 << 20, 1 << 30),
        )
        document.write_text(json.dumps(asdict(targets)))
        before = read_state(targets)
        parsers = Parsers(parser="tests.data.extract.escapes:extract", fork=fork, sandbox=sandbox)
        with parsers, parsers.parse(Source(document, "document.txt")) as parsing:
            outcome, state = (json.loads(page.text) for page in parsing)
        assert victim.poll() is None
        return AttemptRun(targets, outcome, state, before, read_state(targets))


def read_state(targets: Targets) -> dict[str, object]:
    """Return everything about the targets that an attempt could change."""
    folder = Path(targets.folder)
    facts: dict[str, object] = {"names": sorted(path.name for path in folder.iterdir())}
    for name in ("secret.txt", "document", "doomed"):
        if (path := folder / name).exists():
            status = path.stat()
            facts[name] = (path.read_bytes(), status.st_mode, status.st_uid, status.st_mtime_ns, os.listxattr(path))
    facts["priority"] = os.getpriority(os.PRIO_PROCESS, targets.victim)
    for kind in ("shm", "msg", "sem"):
        listed = Path("/proc/sysvipc", kind)
        facts[kind] = listed.exists() and str(targets.key) in listed.read_text().split()
    return facts


@pytest.fixture(scope="module", params=["forked", "spawned"])
def contained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AttemptRun:
    folder = tmp_path_factory.mktemp("contained") / request.param
    return run_attempts(folder, SandboxMode.REQUIRE, fork=request.param == "forked")


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttemptRun]:
    done = run_attempts(tmp_path_factory.mktemp("control") / "folder", SandboxMode.OFF, fork=True)
    yield done
    for kind, option in (("shm", "-M"), ("msg", "-Q"), ("sem", "-S")):
        if done.after[kind]:
            subprocess.run(["ipcrm", option, str(done.targets.key)], check=True)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_compromised_parser_cannot(contained: AttemptRun, name: str) -> None:
    assert contained.outcome[name] in REFUSED_ERRORS | ({"EINVAL"} if name in REFUSED_LINKS else set())


def test_the_targets_of_the_attempts_are_unchanged(contained: AttemptRun) -> None:
    assert contained.after == contained.before


def test_the_environment_of_a_parser_is_empty(contained: AttemptRun) -> None:
    assert contained.state["environment"] == {}


def test_a_parser_has_only_its_pipe_and_the_standard_descriptors(contained: AttemptRun) -> None:
    assert contained.state["descriptors"] == 4


def test_without_the_sandbox_the_same_attempts_succeed(control: AttemptRun) -> None:
    expected = {Needs.NOTHING, Needs.ROOT} if os.geteuid() == 0 else {Needs.NOTHING}
    failed = {
        name: control.outcome[name]
        for name, (_, needs) in ATTEMPTS.items()
        if needs in expected and control.outcome[name] != "succeeded"
    }
    assert failed == {}
    assert list(control.outcome.values()).count("succeeded") >= 60
    assert control.after != control.before


def test_the_initial_environment_is_wiped_from_memory(control: AttemptRun) -> None:
    assert control.state["started with"] == ""


def test_no_descriptor_is_inherited_however_high_its_number(tmp_path: Path) -> None:
    document = tmp_path / "document"
    document.write_text("text")
    parsers = Parsers(parser="tests.data.extract.holds_descriptors:extract")
    with parsers, parsers.parse(Source(document, "document.txt")) as parsing:
        assert [page.text for page in parsing] == ["EBADF"]


def test_a_library_folder_that_contains_the_document_is_not_readable(tmp_path: Path) -> None:
    """The data folder may be inside site-packages."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    document = packages / "document"
    document.write_text("text")
    (packages / "other").write_text("another document")
    assert str(packages) in evaluate_in_process(packages, "list_library_paths()")
    assert str(packages) not in evaluate_in_process(packages, f"list_readable_paths(Path({str(document)!r}))")


def evaluate_in_process(packages: Path, expression: str) -> list[str]:
    code = f"""
import json, sys
from pathlib import Path
from knowledge.extract.sandbox.landlock import list_library_paths, list_readable_paths
sys.path.append({str(packages)!r})
print(json.dumps({expression}))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    answer: list[str] = json.loads(ended.stdout)
    return answer


DOCTOR_PROGRAM = """
import json
from dataclasses import astuple
from knowledge.config import Settings
from knowledge.surfaces.cli.commands import doctor
modes = ("auto", "require")
results = {mode: [astuple(result) for result in doctor.check_parsing(Settings(sandbox=mode))] for mode in modes}
print(json.dumps(results))
"""
SYSCALL_NUMBERS = {"landlock": landlock.CREATE_RULESET, "seccomp": 317 if os.uname().machine == "x86_64" else 277}


def run_doctor(missing: str) -> dict[str, dict[str, tuple[bool, str, str]]]:
    """Return the results of `knowledge doctor` on a kernel that lacks a system call, by mode and subject."""
    command = [
        sys.executable,
        missing_syscall.__file__,
        str(SYSCALL_NUMBERS[missing]),
        sys.executable,
        "-c",
        DOCTOR_PROGRAM,
    ]
    results = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        mode: {about: (ok, message, hint) for about, ok, message, hint, _ in verdicts}
        for mode, verdicts in results.items()
    }


def test_without_seccomp_doctor_reports_it_and_require_refuses_to_parse() -> None:
    results = run_doctor("seccomp")
    assert results["auto"]["reading"][0]
    ok, message, hint = results["auto"]["sandbox"]
    assert not ok and hint
    assert message.startswith("Documents are read without a sandbox: the seccomp filter could not be installed")
    assert_refused(results["require"], "the seccomp filter could not be installed")


def test_without_landlock_doctor_reports_it_and_require_refuses_to_parse() -> None:
    results = run_doctor("landlock")
    assert results["auto"]["reading"][0]
    ok, message, _ = results["auto"]["sandbox"]
    assert ok and "may read other files of this user: this kernel has no Landlock" in message
    assert_refused(results["require"], "this kernel has no Landlock")


def assert_refused(results: dict[str, tuple[bool, str, str]], reason: str) -> None:
    ok, message, hint = results["reading"]
    assert not ok and hint == SandboxUnavailable.default_hint
    assert "Parsers cannot be contained on this machine" in message and reason in message


def test_no_process_of_the_same_user_can_take_descriptors_of_the_server(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*WITHOUT_CAPABILITIES, sys.executable, "-c", VICTIM_PROGRAM], stdin=-1, stdout=-1
    ) as ordinary:
        assert ordinary.stdout is not None and ordinary.stdout.readline()
        if steal_descriptor(ordinary.pid) != "taken":
            pytest.skip("this kernel lets no process take descriptors of another")
        ordinary.kill()
    command = [sys.executable, "-m", "knowledge", "--data", str(tmp_path / "data"), "serve", "--port", "0"]
    environment = {**os.environ, "KNOWLEDGE_EMBEDDING": "none"}
    with subprocess.Popen(
        [*WITHOUT_CAPABILITIES, *command], env=environment, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+:\d+", line)))
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while httpx.get(f"{address}/health").status_code != 200:
                assert time.monotonic() < deadline
            assert steal_descriptor(server.pid) == "Operation not permitted"
        finally:
            server.kill()


WITHOUT_CAPABILITIES = (sys.executable, no_capabilities.__file__)
"""Without capabilities, because root may do everything."""
STEAL_PROGRAM = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
taken = libc.syscall(438, libc.syscall(434, int(sys.argv[1]), 0), 0, 0)  # pidfd_getfd(pidfd_open(PID))
sys.stdout.write("taken" if taken >= 0 else os.strerror(ctypes.get_errno()))
"""


def steal_descriptor(pid: int) -> str:
    command = [*WITHOUT_CAPABILITIES, sys.executable, "-c", STEAL_PROGRAM, str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
