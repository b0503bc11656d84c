"""Disks of a process's own: small ones, and ones that cannot be written."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

READ_ONLY_MOUNT = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
SMALL_MOUNT = 'mount -t tmpfs -o size=9m tmpfs "$1" && exec "$2" "$3" "$1"'


@cache
def can_mount() -> bool:
    """Whether a process may have disks of its own here: Linux, and not forbidden."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return subprocess.run([unshare, "-Urm", "true"], capture_output=True, check=False).returncode == 0


def mount_command(mount: str, *words: str) -> list[str]:
    """The command that mounts first, and is then what the words say."""
    return ["unshare", "-Urm", "sh", "-c", mount, "sh", *words]
