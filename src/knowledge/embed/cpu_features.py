"""Whether this processor multiplies eight-bit numbers exactly and fast: VNNI or AMX on x86, the dot product on ARM."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from pathlib import Path

import numpy as np

X86 = ("x86_64", "amd64", "i386", "i686", "x86")
WINDOWS_DOT_PRODUCT = 43
"""PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE."""


@functools.cache
def multiplies_int8() -> bool:
    """Without these instructions eight-bit products saturate (x86) or are slower than float32 (ARM)."""
    return _exact_products() if platform.machine().lower() in X86 else _has_dot_product()


@functools.cache
def _exact_products() -> bool:
    """Ask the arithmetic itself: x86 has no portable way to read the flags, and only VNNI and AMX do not saturate."""
    from knowledge.embed.graph import STANDARD, Graph

    depth, width = 64, 16
    graph = Graph()
    graph.input("left", np.uint8, [1, depth])
    graph.input("right", np.int8, [depth, width])
    graph.add("MatMulInteger", ["left", "right"], domain=STANDARD, output="product")
    graph.output("product", np.int32, [1, width])
    left, right = np.full((1, depth), 255, np.uint8), np.full((depth, width), 127, np.int8)
    (product,) = graph.session().run(None, {"left": left, "right": right})
    return bool((product == 255 * 127 * depth).all())


def _has_dot_product() -> bool:
    if sys.platform == "darwin":
        return True  # every Apple processor of this kind has it
    if sys.platform == "win32":
        return bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(WINDOWS_DOT_PRODUCT))
    return "asimddp" in _linux_flags()


def _linux_flags() -> frozenset[str]:
    try:
        return frozenset(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return frozenset()


def signed_products_are_exact() -> bool:
    """On x86 without those instructions the sum of two products of signed weights may not fit in its sixteen bits."""
    return platform.machine().lower() not in X86 or _exact_products()
