"""The README's commands, typed at a terminal: what a person types, and what a person sees."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("Windows has no pseudo-terminals of this kind", allow_module_level=True)

import fcntl
import pty
import struct
import termios

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 120.0
CTRL_C, CTRL_D = "\x03", "\x04"
ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")


class Typed:
    """One command at a terminal of its own."""

    def __init__(self, command: str, environment: dict[str, str], folder: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        self._process = subprocess.Popen(
            command.replace("knowledge ", f"exec {sys.executable} -m knowledge ", 1),
            shell=True,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self.raw = ""

    @property
    def seen(self) -> str:
        """What stands on the screen, without its colours."""
        return ESCAPE.sub("", self.raw).replace("\r\n", "\n")

    def see(self, pattern: str) -> None:
        """Wait until the screen shows this."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not re.search(pattern, self.seen):
            assert time.monotonic() < deadline and self._read(), f"never saw {pattern!r}:\n{self.seen}"

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """Wait for the command's end, and answer its exit code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._read():
            assert time.monotonic() < deadline, self.seen
        return self._process.wait(WAIT_SECONDS)

    def leave(self) -> None:
        """Close the terminal, whatever still runs in it: what a failed test began must not trouble the next one."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(WAIT_SECONDS)
        os.close(self._master)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], WAIT_SECONDS)[0]:
            return False
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # the other side has closed
            return False
        self.raw += piece.decode("utf-8", "replace")
        return bool(piece)


def _take_terminal() -> None:
    """Make the terminal on standard input ours, so that Ctrl-C reaches us in the background too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@dataclass
class Person:
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    terminals: list[Typed] = field(default_factory=list)

    def type(self, command: str, **more: str) -> Typed:
        self.terminals.append(Typed(command, {**self.environment, **more}, self.folder))
        return self.terminals[-1]

    def sees(self, command: str, **more: str) -> str:
        typed = self.type(command, **more)
        code = typed.end()
        assert code == 0, typed.seen
        return typed.seen


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    settings = {"KNOWLEDGE_DATA": str(tmp_path / "data"), "KNOWLEDGE_WORKERS": "1", "TERM": "xterm-256color"}
    (tmp_path / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    someone = Person(tmp_path, {**keep, **settings, "PYTHONUTF8": "1"})
    yield someone
    for typed in someone.terminals:
        typed.leave()


def readme_commands() -> list[str]:
    block = re.search(r"## Put something in.*?```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    return block.group(1).splitlines()


def test_the_commands_of_the_readme_do_what_it_says(person: Person) -> None:
    """The server in one terminal, the commands in another."""
    note, add, search, status = readme_commands()
    server = person.type("knowledge serve --port 0")
    server.see(r"Knowledge Server listens on http://127\.0\.0\.1:\d+\n")
    server.see(r"Add a document: +knowledge add FILE\n")
    server.see(r"Connect an agent: +claude mcp add --transport http knowledge http://127\.0\.0\.1:\d+/mcp\n")
    assert "Saved as document 1: The office kettle is descaled" in person.sees(note)
    assert re.search(r"Added 1 document \(\d+ passages\) in [\d.]+ s\.", person.sees(add))

    found = person.type(search)
    assert found.end() == 0
    assert re.search(r" 1  The office kettle.*  (0\.9\d|1\.00)\n", found.seen), found.seen
    assert "\x1b[1;33mkettle\x1b[0m" in found.raw, "the matched words are marked"
    assert "Traceback" not in found.seen

    told = person.sees(status)
    assert re.search(r"health +healthy", told) and re.search(r"documents +2\b", told)

    server.press(CTRL_C)
    assert server.end() == 0, server.seen
    assert "Traceback" not in server.seen
    assert "The office kettle" in person.sees(search), "nothing is lost when the server has gone"


def test_no_colour_where_it_is_not_wanted(person: Person) -> None:
    plain = {"KNOWLEDGE_EMBEDDING": "none"}
    person.sees("knowledge note 'Tea is at four.'", **plain)
    coloured, without = (
        person.type("knowledge search tea", **plain),
        person.type("knowledge search tea", NO_COLOR="1", **plain),
    )
    assert (coloured.end(), without.end()) == (0, 0)
    assert re.search(r"\x1b\[[0-9;]*3\d", coloured.raw)
    assert not re.search(r"\x1b\[[0-9;]*3\d", without.raw)
    assert "\x1b" not in person.sees("knowledge search tea | cat", **plain)


def test_a_person_is_asked_before_something_is_gone(person: Person) -> None:
    plain = {"KNOWLEDGE_EMBEDDING": "none"}
    person.sees("knowledge note 'Tea is at four.'", **plain)
    no = person.type("knowledge remove 1", **plain)
    no.see(r"Remove 1 document \('Tea is at four.'\) permanently\? \[y/N\]")
    no.press("n\n")
    assert no.end() == 1
    yes = person.type("knowledge remove 1", **plain)
    yes.see(r"\[y/N\]")
    yes.press("y\n")
    assert yes.end() == 0 and "Removed 1 document" in yes.seen


def test_ctrl_c_stops_cleanly_and_says_what_was_kept(person: Person) -> None:
    plain = {"KNOWLEDGE_EMBEDDING": "none"}
    papers = person.folder / "papers"
    papers.mkdir()
    for number in range(200):
        (papers / f"{number:03}.txt").write_text(f"Paper number {number} is about cups of tea.")
    adding = person.type("knowledge add papers", **plain)
    adding.see(r"[1-9]\d*/200 ")
    adding.press(CTRL_C)
    assert adding.end() == 130, adding.seen
    assert re.search(r"Interrupted\. \d+ files were not started\. Run the same command again", adding.seen), adding.seen
    assert "Traceback" not in adding.seen

    again = person.sees("knowledge add papers", **plain)
    assert re.search(r"Added \d+ documents", again) and "failed" not in again
    assert re.search(r"documents +200\b", person.sees("knowledge status", **plain))
    assert "No problems found" in person.sees("knowledge verify", **plain)


def test_a_watch_follows_the_folder_until_ctrl_c(person: Person) -> None:
    plain = {"KNOWLEDGE_EMBEDDING": "none"}
    notes = person.folder / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("Tea is at four.")
    watching = person.type("knowledge add notes --watch", **plain)
    watching.see(r"Watching .*: 1 document\. Press Ctrl-C to stop\.")
    (notes / "milk.md").write_text("Milk comes last.")
    watching.see(r"added +.*milk\.md")
    (notes / "tea.md").rename(notes / "chai.md")
    watching.see(r"renamed +.*chai\.md \(was .*tea\.md\)")
    watching.press(CTRL_C)
    assert watching.end() == 0 and "Stopped watching. 2 documents stay in the collection." in watching.seen


def test_a_note_is_written_at_the_terminal(person: Person) -> None:
    typing = person.type("knowledge note", KNOWLEDGE_EMBEDDING="none")
    typing.see("Type the note and end it with Ctrl-D.")
    typing.press(f"Tea is at four.\n{CTRL_D}")
    assert typing.end() == 0 and "Saved as document 1: Tea is at four." in typing.seen


def test_control_characters_in_a_document_do_not_reach_the_terminal(person: Person) -> None:
    plain = {"KNOWLEDGE_EMBEDDING": "none"}
    evil = "Tea \x1b]0;owned\x07 is \x1b[2J at four. " + "Milk comes last, and that is all there is to say. " * 20
    (person.folder / "rude.txt").write_text(evil)
    person.sees("knowledge add rude.txt", **plain)
    for command in ("knowledge search tea", "knowledge read rude.txt", "knowledge extract rude.txt"):
        typed = person.type(command, **plain)
        assert typed.end() == 0
        assert "\x1b[2J" not in typed.raw and "\x1b]0" not in typed.raw
