"""A parser that was taken over by its document gets nowhere: every attempt is refused by the kernel.

The control runs the same attempts without the sandbox, where they succeed: so it is the sandbox that refuses them.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("only Linux has seccomp and Landlock", allow_module_level=True)

from knowledge.extract import landlock
from knowledge.extract.base import Source
from knowledge.extract.sandbox import Sandbox
from knowledge.extract.syscalls import find_architecture
from knowledge.extract.worker import Parsers
from tests.data.extract.escapes import ATTEMPTS, Needs, Targets

pytestmark = pytest.mark.skipif(
    landlock.find_version() == 0 or find_architecture() is None, reason="this kernel has no Landlock or no filter"
)

VICTIM = """
import ctypes, sys
secret = ctypes.create_string_buffer(b"secret", 6)
print(ctypes.addressof(secret), flush=True)
sys.stdin.read()
"""
REFUSED = {"EPERM", "EACCES", "ENOSYS"}
REFUSED_LINKS = {"see where a link leads", "see where the server works"}
"""Answered as for a file that is no link."""


@dataclass(frozen=True, slots=True)
class Run:
    targets: Targets
    outcome: dict[str, str]
    state: dict[str, object]
    before: dict[str, object]
    after: dict[str, object]


def run(folder: Path, sandbox: Sandbox, fork: bool) -> Run:
    """Make the targets, let the parser try everything, and look at the targets again."""
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
            subprocess.Popen([sys.executable, "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
        before = look_at(targets)
        parsers = Parsers(parser="tests.data.extract.escapes:extract", fork=fork, sandbox=sandbox)
        with parsers, parsers.parse(Source(document, "document.txt")) as parsing:
            outcome, state = (json.loads(page.text) for page in parsing)
        assert victim.poll() is None
        return Run(targets, outcome, state, before, look_at(targets))


def look_at(targets: Targets) -> dict[str, object]:
    """Everything about the targets that an attempt could change."""
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
def contained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("contained") / request.param
    return run(folder, Sandbox.REQUIRE, fork=request.param == "forked")


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    done = run(tmp_path_factory.mktemp("control") / "folder", Sandbox.OFF, fork=True)
    yield done
    for kind, option in (("shm", "-M"), ("msg", "-Q"), ("sem", "-S")):
        if done.after[kind]:
            subprocess.run(["ipcrm", option, str(done.targets.key)], check=True)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_parser_that_was_taken_over_cannot(contained: Run, name: str) -> None:
    assert contained.outcome[name] in REFUSED | ({"EINVAL"} if name in REFUSED_LINKS else set())


def test_what_the_attempts_were_after_is_unchanged(contained: Run) -> None:
    assert contained.after == contained.before


def test_the_environment_of_a_parser_is_empty(contained: Run) -> None:
    assert contained.state["environment"] == {}


def test_a_parser_holds_its_pipe_and_the_three_standard_descriptors_only(contained: Run) -> None:
    assert contained.state["descriptors"] == 4


def test_without_the_sandbox_the_same_attempts_succeed(control: Run) -> None:
    expected = {Needs.NOTHING, Needs.ROOT} if os.geteuid() == 0 else {Needs.NOTHING}
    failed = {
        name: control.outcome[name]
        for name, (_, needs) in ATTEMPTS.items()
        if needs in expected and control.outcome[name] != "succeeded"
    }
    assert failed == {}
    assert list(control.outcome.values()).count("succeeded") >= 60
    assert control.after != control.before
