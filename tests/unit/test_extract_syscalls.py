"""The system call numbers of the seccomp filter equal those of the kernel headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge.extract.sandbox import seccomp
from knowledge.extract.sandbox.seccomp import AARCH64_NUMBERS, ARCHITECTURES, X86_64_NUMBERS

INTEL = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
GENERIC = ("/usr/include/asm-generic/unistd.h",)
OTHER_NAMES = {"fstatat": "newfstatat"}
"""Names in the generic header of calls that also exist for 32 bit."""


@pytest.mark.parametrize(("headers", "numbers"), [(INTEL, X86_64_NUMBERS), (GENERIC, AARCH64_NUMBERS)])
def test_the_numbers_are_those_of_the_headers(headers: tuple[str, ...], numbers: dict[str, int]) -> None:
    header = next((path for path in map(Path, headers) if path.exists()), None)
    if header is None:
        pytest.skip("the headers of the kernel are not installed")
    listed = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", header.read_text())
    known = {OTHER_NAMES.get(name, name): int(number) for name, number in listed}
    assert {name: number for name, number in numbers.items() if known.get(name, number) != number} == {}
    assert set(numbers) - set(known) <= {"newfstatat"}


def test_every_name_of_the_filter_has_a_number() -> None:
    named = {
        *seccomp.ALLOWED_SYSCALLS,
        *seccomp.ENOSYS_SYSCALLS,
        *seccomp.EINVAL_SYSCALLS,
        "openat",
        "clone",
        "kill",
        "tgkill",
        "tkill",
    }
    assert named <= set(X86_64_NUMBERS)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_a_filter_is_short_enough_for_the_kernel(machine: str) -> None:
    program = seccomp.build_filter(ARCHITECTURES[machine], pid=4711)
    assert len(program) % 8 == 0 and len(program) // 8 <= 4096
