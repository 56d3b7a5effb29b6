"""Keeps GPUs awake: opens each by NVML and waits to be ended.

``hold.py UUID...``. Where no persistence is set, the driver takes a GPU down when the last program has left it, and the
next one waits 1 to 3 seconds until it is up again (NVIDIA, Driver Persistence, Overview: Linux). Says nothing: a GPU
that cannot be opened is no less awake than without this.
"""

from __future__ import annotations

import ctypes
import signal
import sys


def main() -> None:
    """Until a signal ends it."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() != 0:
            return
        for uuid in sys.argv[1:]:
            library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(ctypes.c_void_p()))
    except (OSError, AttributeError):
        return
    signal.pause()


if __name__ == "__main__":
    main()
