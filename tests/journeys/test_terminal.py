"""Runs the commands of the README on a pseudo-terminal and checks their output."""

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
WITHOUT_MODEL = {"KNOWLEDGE_EMBEDDING": "none"}
ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")


class Terminal:
    """One command on its own pseudo-terminal."""

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
    def text(self) -> str:
        """The output without escape sequences."""
        return ESCAPE_SEQUENCE.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, pattern: str) -> None:
        """Wait until the output matches a regular expression."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline and self._read(), f"never saw {pattern!r}:\n{self.text}"

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for_exit(self) -> int:
        """Wait for the end of the command and return its exit code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._read():
            assert time.monotonic() < deadline, self.text
        return self._process.wait(WAIT_SECONDS)

    def close(self) -> None:
        """Kill the command if it still runs, and close the terminal."""
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
    """Make the terminal on standard input the controlling terminal, so that Ctrl-C sends SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@dataclass
class Person:
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    terminals: list[Terminal] = field(default_factory=list)

    def start(self, command: str, **more: str) -> Terminal:
        self.terminals.append(Terminal(command, {**self.environment, **more}, self.folder))
        return self.terminals[-1]

    def run(self, command: str, **more: str) -> str:
        terminal = self.start(command, **more)
        code = terminal.wait_for_exit()
        assert code == 0, terminal.text
        return terminal.text


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    settings = {"KNOWLEDGE_DATA": str(tmp_path / "data"), "KNOWLEDGE_WORKERS": "1", "TERM": "xterm-256color"}
    (tmp_path / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    made = Person(tmp_path, {**inherited, **settings, "PYTHONUTF8": "1"})
    yield made
    for terminal in made.terminals:
        terminal.close()


def read_readme_commands() -> list[str]:
    block = re.search(r"## Put something in.*?```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    return block.group(1).splitlines()


def test_the_commands_of_the_readme_do_what_it_says(person: Person) -> None:
    """The server runs in one terminal and the commands in another."""
    note, add, search, status = read_readme_commands()
    server = person.start("knowledge serve --port 0")
    server.wait_for(r"^Open in a browser: http://127\.0\.0\.1:\d+/\n")
    server.wait_for(r"Knowledge Server listens on http://127\.0\.0\.1:\d+\n")
    server.wait_for(r"Add a document: +knowledge add FILE\n")
    server.wait_for(r"Connect an agent: +claude mcp add --transport http knowledge http://127\.0\.0\.1:\d+/mcp\n")
    assert "Saved as document 1: The office kettle is descaled" in person.run(note)
    assert re.search(r"Added 1 document \(\d+ passages\) in [\d.]+ s\.", person.run(add))

    found = person.start(search)
    assert found.wait_for_exit() == 0
    assert re.search(r" 1  The office kettle.*  (0\.9\d|1\.00)\n", found.text), found.text
    assert "\x1b[1;33mkettle\x1b[0m" in found.raw, "the matched words are marked"
    assert "Traceback" not in found.text

    printed = person.run(status)
    assert re.search(r"health +healthy", printed) and re.search(r"documents +2\b", printed)

    server.press(CTRL_C)
    assert server.wait_for_exit() == 0, server.text
    assert "Traceback" not in server.text
    assert "The office kettle" in person.run(search), "nothing is lost when the server has stopped"


def test_there_is_no_colour_with_no_color_or_in_a_pipe(person: Person) -> None:
    person.run("knowledge note 'Tea is at four.'", **WITHOUT_MODEL)
    coloured, colourless = (
        person.start("knowledge search tea", **WITHOUT_MODEL),
        person.start("knowledge search tea", NO_COLOR="1", **WITHOUT_MODEL),
    )
    assert (coloured.wait_for_exit(), colourless.wait_for_exit()) == (0, 0)
    assert re.search(r"\x1b\[[0-9;]*3\d", coloured.raw)
    assert not re.search(r"\x1b\[[0-9;]*3\d", colourless.raw)
    assert "\x1b" not in person.run("knowledge search tea | cat", **WITHOUT_MODEL)


def test_remove_asks_for_confirmation(person: Person) -> None:
    person.run("knowledge note 'Tea is at four.'", **WITHOUT_MODEL)
    no = person.start("knowledge remove 1", **WITHOUT_MODEL)
    no.wait_for(r"Remove 1 document \('Tea is at four.'\) permanently\? \[y/N\]")
    no.press("n\n")
    assert no.wait_for_exit() == 1
    yes = person.start("knowledge remove 1", **WITHOUT_MODEL)
    yes.wait_for(r"\[y/N\]")
    yes.press("y\n")
    assert yes.wait_for_exit() == 0 and "Removed 1 document" in yes.text


def test_ctrl_c_stops_cleanly_and_the_same_command_continues(person: Person) -> None:
    papers = person.folder / "papers"
    papers.mkdir()
    for number in range(200):
        (papers / f"{number:03}.txt").write_text(f"Paper number {number} is about cups of tea.")
    command = person.start("knowledge add papers", **WITHOUT_MODEL)
    command.wait_for(r"[1-9]\d*/200 ")
    command.press(CTRL_C)
    assert command.wait_for_exit() == 130, command.text
    assert re.search(r"Interrupted\. \d+ files were not started\. Run the same command again", command.text), (
        command.text
    )
    assert "Traceback" not in command.text

    again = person.run("knowledge add papers", **WITHOUT_MODEL)
    assert re.search(r"Added \d+ documents", again) and "failed" not in again
    assert re.search(r"documents +200\b", person.run("knowledge status", **WITHOUT_MODEL))
    assert "No problems found" in person.run("knowledge verify", **WITHOUT_MODEL)


def test_a_watch_follows_the_folder_until_ctrl_c(person: Person) -> None:
    notes = person.folder / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("Tea is at four.")
    command = person.start("knowledge add notes --watch", **WITHOUT_MODEL)
    command.wait_for(r"Watching .*: 1 document\. Press Ctrl-C to stop\.")
    (notes / "milk.md").write_text("Milk comes last.")
    command.wait_for(r"added +.*milk\.md")
    (notes / "tea.md").rename(notes / "chai.md")
    command.wait_for(r"renamed +.*chai\.md \(was .*tea\.md\)")
    command.press(CTRL_C)
    assert command.wait_for_exit() == 0 and "Stopped watching. 2 documents stay in the collection." in command.text


def test_a_note_is_written_at_the_terminal(person: Person) -> None:
    command = person.start("knowledge note", **WITHOUT_MODEL)
    command.wait_for("Type the note and end it with Ctrl-D.")
    command.press(f"Tea is at four.\n{CTRL_D}")
    assert command.wait_for_exit() == 0 and "Saved as document 1: Tea is at four." in command.text


def test_control_characters_in_a_document_do_not_reach_the_terminal(person: Person) -> None:
    evil = "Tea \x1b]0;owned\x07 is \x1b[2J at four. " + "Milk comes last, and that is all there is to say. " * 20
    (person.folder / "rude.txt").write_text(evil)
    person.run("knowledge add rude.txt", **WITHOUT_MODEL)
    for command in ("knowledge search tea", "knowledge read rude.txt", "knowledge extract rude.txt"):
        terminal = person.start(command, **WITHOUT_MODEL)
        assert terminal.wait_for_exit() == 0
        assert "\x1b[2J" not in terminal.raw and "\x1b]0" not in terminal.raw
