"""Records some commands in a terminal as an SVG that plays them (`make recording`).

The commands run in a pseudo-terminal with a new data folder; each line appears after the time that it really took, and
pauses longer than two seconds are shortened, as is the path of the repository. Readers who prefer no motion see the
whole text at once.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COLUMNS, ROWS = 100, 40
MAX_PAUSE_SECONDS = 2.0
TYPING_SECONDS = 0.8
COMMANDS = (
    ("add", "docs/explanation"),
    ("search", "protection against SSRF", "--limit", "1"),
    ("note", "Staging is redeployed every Tuesday at 07:00 UTC.", "--tag", "ops"),
    ("search", "when is the staging system updated", "--limit", "1"),
)


def run_in_terminal(arguments: tuple[str, ...], data: Path) -> list[tuple[float, str]]:
    """Run a command in a pseudo-terminal; return its lines, each with the seconds until it was complete."""
    own, other = pty.openpty()
    environment = {**os.environ, "KNOWLEDGE_DATA": str(data), "COLUMNS": str(COLUMNS), "LINES": str(ROWS),
                   "TERM": "xterm-256color", "COLORTERM": "truecolor"}  # fmt: skip
    began, output, lines = time.monotonic(), b"", list[tuple[float, str]]()
    with subprocess.Popen(
        [sys.executable, "-m", "knowledge", *arguments], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
        stdout=other, stderr=other,
    ) as process:  # fmt: skip
        os.close(other)
        while piece := read_piece(own):
            output += piece
            *complete, output = output.split(b"\n")
            lines += [(time.monotonic() - began, line.decode()) for line in complete]
    os.close(own)
    assert process.returncode == 0, lines
    return [(seconds, keep_last_state(line)) for seconds, line in lines]


def read_piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux reports the end of a pseudo-terminal so
        return b""


def keep_last_state(line: str) -> str:
    """Return what a line shows in the end: progress bars write over themselves."""
    last = line.rstrip("\r").split("\r")[-1]
    return re.sub(r"\x1b\[(?:\?25[lh]|\d*[ABCDGJK])", "", last)


def quote(arguments: tuple[str, ...]) -> str:
    return " ".join(f'"{each}"' if " " in each else each for each in arguments)


def record(data: Path) -> list[tuple[float, Text]]:
    """Run all commands; return the lines of the session, each with the second at which it appears."""
    shown, now = list[tuple[float, Text]](), 0.0
    for arguments in COMMANDS:
        now += TYPING_SECONDS
        shown.append((now, Text.assemble(("$ ", "bold green"), ("knowledge " + quote(arguments), "bold"))))
        started = now
        for seconds, line in run_in_terminal(arguments, data):
            now = max(now, min(started + seconds, now + MAX_PAUSE_SECONDS))
            shown.append((now, Text.from_ansi(line.replace(str(ROOT), "…"))))
        shown.append((now, Text("")))
    return shown[:-1]


def render(shown: list[tuple[float, Text]]) -> str:
    """Return the session as an SVG without anything from other servers."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        delays = list[float]()
        for seconds, line in shown:
            wrapped = line.wrap(console, COLUMNS) if line.plain else [line]
            delays += [seconds] * len(wrapped)
            for part in wrapped:
                console.print(part)
    template = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    template = template.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    svg = console.export_svg(title="knowledge", theme=SVG_EXPORT_THEME, code_format=template, unique_id="terminal")
    rules = "".join(
        f'[clip-path="url(#terminal-line-{number})"]{{animation-delay:{seconds:.1f}s}}'
        for number, seconds in enumerate(delays)
    )
    motion = (
        "@media (prefers-reduced-motion: no-preference){@keyframes appear{from{visibility:hidden}}"
        f'[clip-path^="url(#terminal-line-"]{{animation:appear 0.01s backwards}}{rules}}}'
    )
    return svg.replace("</style>", motion + "</style>", 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        svg = render(record(Path(folder)))
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")
    sys.stdout.write(f"Written to {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size >> 10} KB\n")


if __name__ == "__main__":
    main()
