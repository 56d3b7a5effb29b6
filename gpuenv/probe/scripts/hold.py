"""Keeps GPUs initialised: opens each through NVML and waits for a signal.

``hold.py UUID...``. Without persistence mode, the driver shuts a GPU down when its last client exits, and the next
client waits 1 to 3 seconds until it is up again (NVIDIA, Driver Persistence, Overview: Linux). Prints nothing; a GPU
that cannot be opened is skipped.
"""

from __future__ import annotations

import ctypes
import signal
import sys


def main() -> None:
    """Opens the GPUs and waits."""
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
