"""What the loader does with libnvidia-ml, and how much memory the process may take for it.

Imported by ``nvml.py``, which runs as a program.
"""

from __future__ import annotations

import ctypes

MOST_MEMORY_OF_THIS_PROCESS = 2 << 30  # nvidia-ml-py makes an array of as many entries as the library says


def load_error() -> str | None:
    """What the loader says of libnvidia-ml; None where it loads. NVML's own code only says that it did not."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return str(error)
    return None


def bound_memory() -> None:
    """A library that counts to 2**32 must not take the machine's memory; a refused allocation is no answer."""
    try:
        import resource  # noqa: PLC0415 - not there on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or hard > MOST_MEMORY_OF_THIS_PROCESS:
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_OF_THIS_PROCESS, hard))
    except (ImportError, OSError, ValueError):
        return
