"""Memory of the host that the GPU copies from and to: pinned, and beside the GPU."""

from __future__ import annotations

import os
from typing import Any, Callable, Set

from gpuenv.smoke.payload.harness import cuda_status
from gpuenv.smoke.payload.troubles import MEMORY_ALLOCATION

LEAST = 1 << 17  # elements
DEVICES = "/sys/bus/pci/devices"


def pinned(count: int, dtype: Any) -> Any:
    """An array of so many elements, or of fewer; what is in it nobody knows."""
    import cupyx

    return longest(lambda n: cupyx.empty_pinned((n,), dtype=dtype), count)


def longest(make: Callable[[int], Any], count: int) -> Any:
    """An array of so many elements, or of half as many, and so on: WSL and some containers pin little memory."""
    while True:
        try:
            return make(count)
        except RuntimeError as error:
            if cuda_status(error) != MEMORY_ALLOCATION or count <= LEAST:
                raise
            count //= 2


def stay_near(gpu: Any) -> None:
    """Runs this thread, and so the memory that it pins, beside the GPU; where that cannot be told, anywhere.

    On a host with several sockets the way from the other one may be a third as fast, and which one a program starts on
    is chance: a sound GPU's copies would look slow beside its sisters' or beside its own of yesterday.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    try:
        place = gpu.runtime.deviceGetPCIBusId(gpu.cp.cuda.Device().id).lower()
    except gpu.runtime.CUDARuntimeError:
        return
    beside = numbers(_listed("%s/%s/local_cpulist" % (DEVICES, place))) & os.sched_getaffinity(0)
    if beside:
        os.sched_setaffinity(0, beside)


def _listed(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def numbers(text: str) -> Set[int]:
    """The processors of a list as the kernel writes it, such as ``0-15,32``."""
    found: Set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found
