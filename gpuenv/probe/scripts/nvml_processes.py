"""The processes that NVML names: which ones they are."""

from __future__ import annotations

import os
from typing import Any

from nvml_values import MOST_BYTES, MOST_TEXT

FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/linux/proc_ns.h


def user(entry: Any) -> dict[str, object]:  # noqa: ANN401 - an NVML structure
    """A compute process: its number, its name where that can be told, and its memory."""
    used = entry.usedGpuMemory
    fits = isinstance(used, int) and 0 <= used <= MOST_BYTES
    return {"pid": int(entry.pid), "name": process_name(int(entry.pid)), "memory": used if fits else None}


def process_name(pid: int) -> str | None:
    """The kernel's short name of a process that NVML names.

    Whether NVML counts as this process does depends on the driver. In the first namespace of processes there is only
    one way to count; in another one, the process of that number must have the driver's device open to be the one meant.
    """
    try:
        if os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE and not has_device_open(pid):
            return None
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(MOST_TEXT).strip() or None
    except OSError:
        return None


def has_device_open(pid: int) -> bool:
    """Whether a process has a device of the driver open, as far as this user may see."""
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(f"{folder}/{entry}").startswith("/dev/nvidia") for entry in os.listdir(folder))
