"""Facts that NVML tells, through nvidia-ml-py.

Run as a program by gpuenv's own interpreter. Prints one fact a line, see ``protocol.py``: what was told before a hang
or a crash is kept.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import pynvml  # type: ignore[import-untyped]


def tell(key: str, value: object) -> None:
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    sys.stdout.write(f"gpuenv:{json.dumps({key: value})}\n")
    sys.stdout.flush()


def ask(function: str, call: Callable[[], Any], failures: dict[str, int]) -> Any:  # noqa: ANN401 - what NVML answers
    """One call: its answer, or None with its return code noted under the function's name."""
    try:
        return call()
    except pynvml.NVMLError as error:
        failures[function] = int(error.value)
    except (UnicodeDecodeError, AttributeError) as error:
        # Bytes that are no text, or a library older than the function.
        failures[function] = -1
        sys.stderr.write(f"{function}: {error}\n")
    return None


def text(value: object) -> object:
    """Old releases of nvidia-ml-py answer bytes where the new ones answer text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def loaded_library() -> str | None:
    """The file behind libnvidia-ml in this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = [line.split(None, 5)[-1].strip() for line in file if "libnvidia-ml" in line]
    except OSError:
        return None
    return paths[0] if paths else None


def load_error() -> str | None:
    """What the loader says of libnvidia-ml; None where it loads. NVML's own code only says that it did not."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return str(error)
    return None


def gpu(index: int) -> dict[str, object]:
    """Everything about one GPU; a call that fails leaves the others standing."""
    failures: dict[str, int] = {}
    handle = ask("nvmlDeviceGetHandleByIndex", lambda: pynvml.nvmlDeviceGetHandleByIndex(index), failures)
    if handle is None:
        return {"index": index, "failures": failures}
    pci = ask("nvmlDeviceGetPciInfo", lambda: pynvml.nvmlDeviceGetPciInfo(handle), failures)
    capability = ask(
        "nvmlDeviceGetCudaComputeCapability", lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle), failures
    )
    memory = ask("nvmlDeviceGetMemoryInfo", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle), failures)
    mig = ask("nvmlDeviceGetMigMode", lambda: pynvml.nvmlDeviceGetMigMode(handle), failures)
    enabled = bool(mig and mig[0])
    return {
        "index": index,
        "uuid": text(ask("nvmlDeviceGetUUID", lambda: pynvml.nvmlDeviceGetUUID(handle), failures)),
        "name": text(ask("nvmlDeviceGetName", lambda: pynvml.nvmlDeviceGetName(handle), failures)),
        "pci": text(pci.busId) if pci else None,
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "memory_total": int(memory.total) if memory else None,
        "memory_free": int(memory.free) if memory else None,
        "mig": enabled if mig else None,
        "mig_instances": mig_instances(handle) if enabled else [],
        "failures": failures,
    }


def mig_instances(handle: Any) -> list[dict[str, object]]:  # noqa: ANN401 - an NVML handle
    """The MIG instances of a GPU."""
    failures: dict[str, int] = {}
    most = ask("nvmlDeviceGetMaxMigDeviceCount", lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), failures) or 0
    found = []
    for number in range(min(most, 64)):
        instance = ask(
            "nvmlDeviceGetMigDeviceHandleByIndex",
            lambda number=number: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number),  # type: ignore[misc]
            failures,
        )
        if instance is None:
            continue
        uuid = text(ask("nvmlDeviceGetUUID", lambda i=instance: pynvml.nvmlDeviceGetUUID(i), failures))  # type: ignore[misc]
        name = text(ask("nvmlDeviceGetName", lambda i=instance: pynvml.nvmlDeviceGetName(i), failures))  # type: ignore[misc]
        memory = ask("nvmlDeviceGetMemoryInfo", lambda i=instance: pynvml.nvmlDeviceGetMemoryInfo(i), failures)  # type: ignore[misc]
        if uuid:
            found.append({"uuid": uuid, "name": name, "memory_total": int(memory.total) if memory else None})
    return found


def main() -> None:
    """Initialises NVML and tells what it knows; a return code is a fact like any other."""
    tell("started", True)
    failures: dict[str, int] = {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        tell("init", int(error.value))
        tell("message", load_error() or str(error))
        tell("library", loaded_library())
        return
    tell("init", 0)
    tell("library", loaded_library())
    tell("driver_version", text(ask("nvmlSystemGetDriverVersion", pynvml.nvmlSystemGetDriverVersion, failures)))
    tell("cuda", ask("nvmlSystemGetCudaDriverVersion", pynvml.nvmlSystemGetCudaDriverVersion, failures))
    count = ask("nvmlDeviceGetCount", pynvml.nvmlDeviceGetCount, failures)
    tell("count", count)
    for index in range(min(count or 0, 1024)):
        tell(f"gpu.{index}", gpu(index))
    tell("failures", failures)
    tell("done", True)


if __name__ == "__main__":
    main()
