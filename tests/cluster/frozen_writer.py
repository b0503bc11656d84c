"""A process that takes the lock of the change log and freezes; run with the URL of the database."""

from __future__ import annotations

import os
import signal
import sys

from sqlalchemy import Connection

from knowledge.store.postgres import locks
from knowledge.store.postgres.postgres import PostgresDatabase


def freeze(connection: Connection) -> None:
    locks.lock_change_log(connection)
    print("frozen", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    PostgresDatabase(sys.argv[1]).write(freeze)
