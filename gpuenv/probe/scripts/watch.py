"""Samples a GPU through NVML while it works, until a file appears.

``watch.py FILE SECONDS UUID``: one sample every so many seconds. Prints one fact per sample, see ``protocol.py``; a
quantity that the GPU does not have is missing. Names of functions and numbers of enumerations are those of nvml.h.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time

# Key, function, arguments after the handle, and type of the answer.
QUANTITIES = (
    ("clock", "nvmlDeviceGetClockInfo", (1,), ctypes.c_uint),  # NVML_CLOCK_SM
    ("temperature", "nvmlDeviceGetTemperature", (0,), ctypes.c_uint),  # NVML_TEMPERATURE_GPU
    ("power", "nvmlDeviceGetPowerUsage", (), ctypes.c_uint),
    ("reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), ctypes.c_ulonglong),
    # The type of errors, then NVML_VOLATILE_ECC.
    ("ecc_corrected", "nvmlDeviceGetTotalEccErrors", (0, 0), ctypes.c_ulonglong),
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (1, 0), ctypes.c_ulonglong),
    ("pcie_replays", "nvmlDeviceGetPcieReplayCounter", (), ctypes.c_uint),
)


def main() -> None:
    """Opens the GPU and samples it."""
    stop, seconds, uuid = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    handle = ctypes.c_void_p()
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() != 0 or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != 0:
            return
    except (OSError, AttributeError):
        return
    number = 0
    while not os.path.exists(stop):
        sample = {}
        for key, function, arguments, kind in QUANTITIES:
            answer, call = kind(), getattr(library, function, None)
            if call is not None and call(handle, *arguments, ctypes.byref(answer)) == 0:
                sample[key] = answer.value
        sys.stdout.write("gpuenv:" + json.dumps({f"sample.{number}": sample}) + "\n")
        sys.stdout.flush()
        number += 1
        time.sleep(seconds)


if __name__ == "__main__":
    main()
