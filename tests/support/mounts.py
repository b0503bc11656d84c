"""Small and read-only file systems that only one process sees."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

READ_ONLY_MOUNT = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
SMALL_MOUNT = 'mount -t tmpfs -o size=9m tmpfs "$1" && exec "$2" "$3" "$1"'


@cache
def can_mount() -> bool:
    """Whether a process can mount file systems in its own namespace."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return subprocess.run([unshare, "-Urm", "true"], capture_output=True, check=False).returncode == 0


def make_mount_command(mount: str, *words: str) -> list[str]:
    """Return a command that mounts a file system and then runs the words."""
    return ["unshare", "-Urm", "sh", "-c", mount, "sh", *words]
