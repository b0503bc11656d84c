"""Detects CPU instructions for exact int8 products: VNNI or AMX on x86, the dot product extension on ARM."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from pathlib import Path

import numpy as np

X86_MACHINES = ("x86_64", "amd64", "i386", "i686", "x86")
WINDOWS_DOT_PRODUCT = 43
# PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE


@functools.cache
def has_fast_int8() -> bool:
    """Return whether int8 is exact and faster than float32; otherwise it saturates (x86) or is slower (ARM)."""
    return _has_exact_products() if platform.machine().lower() in X86_MACHINES else _has_dot_product()


@functools.cache
def _has_exact_products() -> bool:
    """Run a product that saturates without VNNI or AMX, because x86 has no portable way to read the CPU flags."""
    from knowledge.embed.onnx_graph import STANDARD_DOMAIN, OnnxGraph

    depth, width = 64, 16
    graph = OnnxGraph()
    graph.add_input("left", np.uint8, [1, depth])
    graph.add_input("right", np.int8, [depth, width])
    graph.add_node("MatMulInteger", ["left", "right"], domain=STANDARD_DOMAIN, output="product")
    graph.add_output("product", np.int32, [1, width])
    left, right = np.full((1, depth), 255, np.uint8), np.full((depth, width), 127, np.int8)
    (product,) = graph.create_session().run(None, {"left": left, "right": right})
    return bool((product == 255 * 127 * depth).all())


def _has_dot_product() -> bool:
    if sys.platform == "darwin":
        return True  # all Apple ARM CPUs have it
    if sys.platform == "win32":
        return bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(WINDOWS_DOT_PRODUCT))
    return "asimddp" in _read_linux_flags()


def _read_linux_flags() -> frozenset[str]:
    try:
        return frozenset(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return frozenset()


def has_exact_signed_products() -> bool:
    """Return whether signed weights are exact; on x86 without VNNI the sum of two products may overflow 16 bits."""
    return platform.machine().lower() not in X86_MACHINES or _has_exact_products()
