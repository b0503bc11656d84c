"""What `doctor` looks at, one function each: a sentence when all is well, or what is wrong and what mends it."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.config import Settings
from knowledge.errors import KnowledgeError
from knowledge.surfaces.cli.errors import sentence
from knowledge.surfaces.cli.output.screen import size

DISTRIBUTION = "knowledge-server"
PYTHONS = ((3, 11), (3, 13))
LOW_DISK, SCARCE_DISK = 200 << 20, 1 << 30
SKEW_SECONDS = 120
SWITCH_ON = "Unset KNOWLEDGE_SANDBOX, unless this is for a test."
EARLIEST = 1_735_689_600
"""The first of January 2025: a clock before that is wrong."""


@dataclass(frozen=True, slots=True)
class Verdict:
    about: str
    ok: bool
    says: str
    mend: str = ""
    """What to type, or what to do."""
    warning: bool = False
    """Nothing is broken, but somebody should look at it."""


def versions() -> Iterator[Verdict]:
    """Python, and every package that we are built on."""
    running = sys.version_info[:2]
    named = f"Python {running[0]}.{running[1]}"
    if PYTHONS[0] <= running <= PYTHONS[1]:
        yield Verdict("versions", True, f"{named} is fine.")
    else:
        yield Verdict("versions", False, f"{named} is not supported.", "Use Python 3.11, 3.12 or 3.13.")
    wrong = list(wrong_packages())
    for says in wrong:
        yield Verdict("versions", False, says, f"pip install --upgrade --force-reinstall {DISTRIBUTION}")
    if not wrong:
        yield Verdict("versions", True, "All packages have the versions that they should have.")


def wrong_packages() -> Iterator[str]:
    from packaging.requirements import Requirement

    try:
        listed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # run from its sources
        return
    for needed in map(Requirement, listed):
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            found = importlib.metadata.version(needed.name)
        except importlib.metadata.PackageNotFoundError:
            yield f"The package {needed.name} is missing."
            continue
        if not needed.specifier.contains(found, prereleases=True):
            yield f"The package {needed.name} has version {found}, but {needed.specifier} is needed."


def folder(settings: Settings) -> Iterator[Verdict]:
    """The data folder can be used, and only by its owner."""
    data = settings.data
    place = existing(data)
    if data.exists() and not data.is_dir():
        yield Verdict("data folder", False, f"{data} is not a folder.", "Choose another one with --data.")
    elif not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        mend = f"chmod u+rwx '{place}', or choose another folder with --data"
        yield Verdict("data folder", False, f"You may not write in {place}.", mend)
    elif not data.exists():
        yield Verdict("data folder", True, f"{data} is not there yet; the first document makes it.")
    elif problem := unwritable(data):
        yield Verdict(
            "data folder", False, f"Nothing can be written in {data}: {problem}.", "Choose another with --data."
        )
    else:
        yield Verdict("data folder", True, f"{data} can be read and written.")


def existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def unwritable(data: Path) -> str | None:
    """Why no file can be made there; a read-only disk says so only when it is tried."""
    try:
        with tempfile.NamedTemporaryFile(dir=data, prefix="doctor-") as file:
            file.write(b"x")
    except OSError as error:
        return error.strerror or str(error)
    return None


def disk(settings: Settings) -> Iterator[Verdict]:
    free = shutil.disk_usage(existing(settings.data)).free
    says = f"{size(free)} are free on the disk of the data folder."
    mend = "Free some space, or move the data folder and name it with --data."
    yield Verdict("disk", free >= LOW_DISK, says if free >= SCARCE_DISK else f"Only {says}", mend)


def clock(settings: Settings) -> Iterator[Verdict]:
    """The clock is not long past, and agrees with the disk and with what is stored."""
    mend = "Set the clock, best by NTP; new documents would be dated wrongly."
    now = time.time()
    newest = newest_change(settings.data)
    if now < EARLIEST:
        yield Verdict("clock", False, f"The clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}.", mend)
    elif newest is not None and newest > now + SKEW_SECONDS:
        yield Verdict("clock", False, "The clock is behind the newest change in the knowledge base.", mend)
    else:
        yield Verdict("clock", True, "The clock looks right.")


def newest_change(data: Path) -> float | None:
    """When the database was last written, as the disk tells."""
    times = [path.stat().st_mtime for path in data.glob("knowledge.db*")]
    return max(times, default=None)


def database(settings: Settings) -> Iterator[Verdict]:
    """The database is whole, and of a version that this program knows."""
    from knowledge.store.migrate import SCHEMA

    path = settings.data / "knowledge.db"
    if not path.exists():
        yield Verdict("database", True, "There is no database yet; the first document makes it.")
        return
    try:
        found, whole = inspect(path)
    except sqlite3.Error as error:
        restore = "knowledge restore BACKUP --data DIR"
        yield Verdict("database", False, sentence(f"The database cannot be read: {error}"), restore)
        return
    if found is not None and found > SCHEMA:
        says = f"The database was made by a newer version (schema {found}; this one knows {SCHEMA})."
        yield Verdict("database", False, says, f"pip install --upgrade {DISTRIBUTION}")
    if whole != "ok":
        yield Verdict(
            "database", False, sentence(f"The database is damaged: {whole}"), "knowledge restore BACKUP --data DIR"
        )
    elif found is None or found <= SCHEMA:
        yield Verdict("database", True, "The database is whole.")


def inspect(path: Path) -> tuple[str | None, str]:
    """Its schema, and what SQLite says about its pages; nothing is written."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)
    try:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return (row[0] if row else None), connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    finally:
        connection.close()


def port(settings: Settings) -> Iterator[Verdict]:
    """The server's port is free, or it is ours already."""
    where = f"{settings.host}:{settings.port}"
    try:
        info = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(info[0], info[1]) as probe:
            if sys.platform != "win32":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(info[4])
    except OSError as error:
        if answers_as_ours(settings):
            yield Verdict("port", True, f"A knowledge server is running on {where}.")
            return
        says = sentence(f"The server cannot listen on {where}: {error.strerror or error}")
        yield Verdict("port", False, says, "knowledge serve --port 0, or another free port")
        return
    yield Verdict("port", True, f"The port of the server, {where}, is free.")


def answers_as_ours(settings: Settings) -> bool:
    import httpx

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        answer = httpx.get(f"http://{host}:{settings.port}/health", timeout=3, trust_env=False).json()
    except (httpx.HTTPError, ValueError):
        return False
    return isinstance(answer, dict) and answer.get("status") in ("healthy", "degraded", "starting")


def keys(settings: Settings) -> Iterator[Verdict]:
    """The keys that a server with these settings checks are long enough; with an engine elsewhere one is only sent."""
    from knowledge.surfaces.http.exposure import find_short_keys

    checked = settings.model_copy(update={"api_key": None}) if settings.engine_url else settings
    for exposure in find_short_keys(checked):
        yield Verdict("keys", True, exposure.says, exposure.mend, warning=True)


def open_sides(settings: Settings, *, accounts: bool) -> Iterator[Verdict]:
    """No side is open to every user of this machine while the other one, or an account, has a key."""
    from knowledge.surfaces.http.exposure import find_open_sides

    for exposure in find_open_sides(settings, accounts=accounts):
        yield Verdict("access", True, exposure.says, exposure.mend, warning=True)


def model(settings: Settings) -> Iterator[Verdict]:
    """The default model's bytes are the ones that this version was built for."""
    from knowledge.embed import model_file

    if settings.embedding != "default":
        yield Verdict("model", True, f"The model is {settings.embedding}, by KNOWLEDGE_EMBEDDING.")
        return
    try:
        model_file.read(model_file.pack_path())
    except KnowledgeError as error:
        yield Verdict("model", False, sentence(str(error)), error.hint)
        return
    yield Verdict("model", True, "The bytes of the embedding model are right.")


def reading(settings: Settings) -> Iterator[Verdict]:
    """A document can be read in a process of its own."""
    from knowledge.app import parsers
    from knowledge.extract.base import Source

    with tempfile.TemporaryDirectory(prefix="knowledge-doctor-") as folder:
        sample = Path(folder) / "sample.txt"
        sample.write_text("The doctor can read.", "utf-8")
        try:
            with parsers(settings) as reader, reader.parse(Source(sample, sample.name)) as parsing:
                text = "".join(page.text for page in parsing)
                missing = parsing.missing
        except KnowledgeError as error:
            yield Verdict("reading", False, sentence(f"Documents cannot be read: {error}"), error.hint)
            return
    yield Verdict("reading", "doctor can read" in text, "Documents can be read in a process of their own.")
    yield judge_sandbox(missing)


def judge_sandbox(missing: dict[str, str]) -> Verdict:
    """How far the process that has just read a document was contained."""
    reasons = "; ".join(missing.values())
    if not missing:
        return Verdict("sandbox", True, "What reads a document is contained by Landlock and a seccomp filter.")
    if "platform" in missing:
        says = f"What reads a document has limits on time and memory but is not contained: {reasons}."
        return Verdict("sandbox", True, says)
    if "sandbox" in missing:
        return Verdict("sandbox", False, sentence(f"What reads a document is not contained: {reasons}"), SWITCH_ON)
    if "seccomp" in missing:
        says = f"What reads a document is not contained: {reasons}."
        return Verdict("sandbox", False, says, "Use Linux on x86-64 or ARM64, and a container that permits seccomp.")
    says = f"What reads a document is contained by seccomp, but may read other files of this user: {reasons}."
    return Verdict("sandbox", True, says)
