"""Faults that can be planted into a test, so that it can be shown to catch them; none is planted unless asked for.

``GPUENV_SMOKE_FAULT`` names one; it is meant for the tests of this program, and a result says that it was on.
"""

from __future__ import annotations

import re

FAULTS = {
    "no-order": "the consumer's stream does not wait for the producer's event",
    "no-sync": "an asynchronous copy is read without a synchronisation",
    "no-op-kernel": "every kernel of the tests' own has an empty body",
    "flip-element": "one bit of one element of each answer is changed on the GPU",
    "illegal-access": "a kernel writes to an address that is nobody's, before the test",
    "endless-kernel": "a kernel that never ends is running, before the test",
    "pool-limit": "the memory pool may hold one mebibyte",
}

# A write to address 16, which no allocation has; and a loop until somebody changes a flag, which nobody does.
KERNELS = {
    "gpuenv_illegal": r"""
extern "C" __global__ void gpuenv_illegal(unsigned long long address) {
    *(volatile int *)address = 1;
}
""",
    "gpuenv_endless": r"""
extern "C" __global__ void gpuenv_endless(volatile int *flag) {
    while (*flag == 0) { }
}
""",
}


def emptied(source: str) -> str:
    """The source with an empty body for every kernel; all else stays."""
    kept, place = [], 0
    for match in re.finditer(r"__global__[^{};]*\{", source):
        if match.end() <= place:
            continue
        kept.append(source[place : match.end()])
        place = _closing(source, match.end())
    return "".join(kept) + source[place:]


def _closing(source: str, place: int) -> int:
    """Where the brace is closed that was opened just before."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(source[place], 0)
        place += 1
    return place - 1
