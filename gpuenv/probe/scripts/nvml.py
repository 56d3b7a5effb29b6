"""Facts that NVML tells, through nvidia-ml-py.

Run as a program by gpuenv's own interpreter: ``nvml.py FOLDER``, where nvidia-ml-py lies. Prints one fact a line, see
``protocol.py``: what was told before a hang or a crash is kept.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

sys.path += sys.argv[1:2]  # the folder of nvidia-ml-py

import pynvml  # type: ignore[import-untyped]

UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
VOLATILE, AGGREGATE = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC


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
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        # A library older than the function, or an answer that makes no sense.
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


def same(value: Any) -> Any:  # noqa: ANN401 - what NVML answers
    """A plain number, as it is."""
    return value


# Every quantity of a GPU: its key, the function (pynvml has NVML's names), further arguments, and what makes it plain.
QUANTITIES: tuple[tuple[str, str, tuple[int, ...], Callable[[Any], Any]], ...] = (
    ("uuid", "nvmlDeviceGetUUID", (), text),
    ("name", "nvmlDeviceGetName", (), text),
    ("pci", "nvmlDeviceGetPciInfo", (), lambda pci: text(pci.busId)),
    ("compute_capability", "nvmlDeviceGetCudaComputeCapability", (), lambda pair: f"{pair[0]}.{pair[1]}"),
    ("memory", "nvmlDeviceGetMemoryInfo", (), lambda memory: [int(memory.total), int(memory.free)]),
    ("mig", "nvmlDeviceGetMigMode", (), lambda modes: bool(modes[0])),
    ("compute_mode", "nvmlDeviceGetComputeMode", (), same),
    ("persistence", "nvmlDeviceGetPersistenceMode", (), bool),
    ("ecc", "nvmlDeviceGetEccMode", (), lambda modes: bool(modes[0])),
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (UNCORRECTED, VOLATILE), same),
    ("ecc_uncorrected_ever", "nvmlDeviceGetTotalEccErrors", (UNCORRECTED, AGGREGATE), same),
    ("pages_pending", "nvmlDeviceGetRetiredPagesPendingStatus", (), bool),
    ("rows", "nvmlDeviceGetRemappedRows", (), lambda rows: [int(value) for value in rows]),
    ("temperature", "nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), same),
    ("power", "nvmlDeviceGetPowerUsage", (), lambda milliwatts: milliwatts / 1000),
    ("power_limit", "nvmlDeviceGetEnforcedPowerLimit", (), lambda milliwatts: milliwatts / 1000),
    ("clock", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), same),
    ("clock_most", "nvmlDeviceGetMaxClockInfo", (pynvml.NVML_CLOCK_SM,), same),
    ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), same),
    ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), same),
    ("pcie_generation_most", "nvmlDeviceGetMaxPcieLinkGeneration", (), same),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), same),
    ("pcie_width_most", "nvmlDeviceGetMaxPcieLinkWidth", (), same),
    ("processes", "nvmlDeviceGetComputeRunningProcesses", (), len),
    ("virtualization", "nvmlDeviceGetVirtualizationMode", (), same),
)
LAST_ESSENTIAL = "mig"  # what a decision needs comes first


def quantity(
    handle: Any,  # noqa: ANN401 - an NVML handle
    function: str,
    arguments: tuple[int, ...],
    plain: Callable[[Any], Any],
) -> Any:  # noqa: ANN401 - what NVML answers
    """One quantity of a GPU or of a MIG instance, as a plain value."""
    return plain(getattr(pynvml, function)(handle, *arguments))


def gpu(index: int) -> dict[str, object]:
    """Everything about one GPU; a call that fails leaves the others standing."""
    failures: dict[str, int] = {}
    handle = ask("nvmlDeviceGetHandleByIndex", lambda: pynvml.nvmlDeviceGetHandleByIndex(index), failures)
    facts: dict[str, object] = {"index": index, "failures": failures}
    if handle is None:
        return facts
    for key, function, arguments, plain in QUANTITIES:
        facts[key] = ask(function, partial(quantity, handle, function, arguments, plain), failures)
        if key == LAST_ESSENTIAL:
            tell(f"gpu.{index}", facts)  # kept, should one of the rest hang
    facts["mig_instances"] = mig_instances(handle) if facts["mig"] else []
    return facts


def mig_instances(handle: Any) -> list[dict[str, object]]:  # noqa: ANN401 - an NVML handle
    """The MIG instances of a GPU."""
    failures: dict[str, int] = {}
    most = ask("nvmlDeviceGetMaxMigDeviceCount", lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), failures) or 0
    found = []
    for number in range(min(most, 64)):
        function = "nvmlDeviceGetMigDeviceHandleByIndex"
        instance = ask(function, partial(quantity, handle, function, (number,), same), failures)
        if instance is None:
            continue
        facts = {
            key: ask(function, partial(quantity, instance, function, arguments, plain), failures)
            for key, function, arguments, plain in QUANTITIES
            if key in ("uuid", "name", "memory")
        }
        if facts["uuid"]:
            memory = facts["memory"]
            found.append({"uuid": facts["uuid"], "name": facts["name"], "memory_total": memory[0] if memory else None})
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
