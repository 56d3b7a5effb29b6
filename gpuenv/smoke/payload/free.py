"""How much of the GPU's memory is free."""

from __future__ import annotations

from typing import Any, Tuple

INTEGRATED = 18  # cudaDevAttrIntegrated (driver_types.h)
MEMINFO = "/proc/meminfo"


def free_and_total(cp: Any) -> Tuple[int, int]:
    """Bytes, of the current device.

    What CUDA calls free on a GPU that shares the machine's memory is the kernel's MemFree: it counts files that merely
    lie in memory as taken, though the kernel gives their room away when it is asked for.
    """
    free, total = (int(number) for number in cp.cuda.runtime.memGetInfo())
    if cp.cuda.runtime.deviceGetAttribute(INTEGRATED, cp.cuda.Device().id):
        free = max(free, min(available(MEMINFO), total))
    return free, total


def available(path: str) -> int:
    """Bytes that the kernel can give to programs without swapping; 0 where it does not tell."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = [line.split() for line in file if line.startswith("MemAvailable:")]
    except OSError:
        return 0
    return int(lines[0][1]) * 1024 if lines else 0
