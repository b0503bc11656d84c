"""What has to happen so that a collection holds what a folder holds: pure, from what is known to what is to be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Stamp: TypeAlias = tuple[int, int]
"""When a file was changed, in nanoseconds, and its size."""


@dataclass(frozen=True, slots=True)
class Plan:
    remove: tuple[str, ...]
    add: tuple[str, ...]
    """New or changed."""

    def __bool__(self) -> bool:
        return bool(self.remove or self.add)


def plan(handled: Mapping[str, Stamp], found: Mapping[str, Stamp], stored: Iterable[str]) -> Plan:
    """Documents whose file is gone go; files that were not handled as they are now come.

    Removals come first: a renamed file has the bytes of the one that is gone, and would be refused beside it.
    """
    gone = tuple(sorted(path for path in stored if path not in found))
    return Plan(gone, tuple(path for path, stamp in found.items() if handled.get(path) != stamp))
