"""What NVML says of a GPU's state: memory errors, heat, power, clock, link. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import ComputeMode, GpuHealth, PcieLink, Virtualization
from gpuenv.model.text import LARGEST
from gpuenv.probe.raw import NvmlGpu

T = TypeVar("T")

# The order is that of nvml.h's enumerations.
_COMPUTE_MODES = (
    ComputeMode.DEFAULT,
    ComputeMode.EXCLUSIVE_THREAD,
    ComputeMode.PROHIBITED,
    ComputeMode.EXCLUSIVE_PROCESS,
)
_VIRTUALIZATIONS = tuple(Virtualization)
# Bit by bit, nvmlClocksEventReason* of nvml.h.
REASONS = (
    "gpu-idle",
    "application-clocks",
    "software-power-cap",
    "hardware-slowdown",
    "sync-boost",
    "software-thermal",
    "hardware-thermal",
    "hardware-power-brake",
    "display-clock",
    "board-limit",
    "reliability",
)
_NOW_AND_PENDING, _ROWS = 2, 4
_NO_ROWS: tuple[None, ...] = (None,) * _ROWS
_NOT_ASKED = "NVML was not asked"


def compute_mode(gpu: NvmlGpu | None) -> Reading[ComputeMode]:
    """Who may use the GPU."""
    return named(gpu, "nvmlDeviceGetComputeMode", gpu.compute_mode if gpu else None, _COMPUTE_MODES)


def virtualization(gpu: NvmlGpu | None) -> Reading[Virtualization]:
    """What stands between the GPU and this system."""
    return named(gpu, "nvmlDeviceGetVirtualizationMode", gpu.virtualization if gpu else None, _VIRTUALIZATIONS)


def persistence(gpu: NvmlGpu | None) -> Reading[bool]:
    """Whether the driver stays loaded while nobody uses the GPU."""
    return told(gpu, "nvmlDeviceGetPersistenceMode", gpu.persistence if gpu else None)


def processes(gpu: NvmlGpu | None) -> Reading[int]:
    """How many compute processes hold the GPU."""
    return told(gpu, "nvmlDeviceGetComputeRunningProcesses", gpu.processes if gpu else None)


def health(gpu: NvmlGpu | None) -> GpuHealth:
    """Memory errors, heat, power and clock."""
    if gpu is None:
        return GpuHealth()
    now, pending = gpu.ecc if gpu.ecc and len(gpu.ecc) == _NOW_AND_PENDING else (None, None)
    corrected, uncorrected, waiting, failed = gpu.rows if gpu.rows and len(gpu.rows) == _ROWS else _NO_ROWS
    reasons = None if gpu.throttle_reasons is None else _reasons(gpu.throttle_reasons)
    return GpuHealth(
        ecc=told(gpu, "nvmlDeviceGetEccMode", now),
        ecc_pending=told(gpu, "nvmlDeviceGetEccMode", pending),
        ecc_corrected=told(gpu, "nvmlDeviceGetTotalEccErrors", gpu.ecc_corrected),
        ecc_corrected_ever=told(gpu, "nvmlDeviceGetTotalEccErrors", gpu.ecc_corrected_ever),
        ecc_uncorrected=told(gpu, "nvmlDeviceGetTotalEccErrors", gpu.ecc_uncorrected),
        ecc_uncorrected_ever=told(gpu, "nvmlDeviceGetTotalEccErrors", gpu.ecc_uncorrected_ever),
        pages_retired=told(gpu, "nvmlDeviceGetRetiredPages", _retired(gpu)),
        pages_pending=told(gpu, "nvmlDeviceGetRetiredPagesPendingStatus", gpu.pages_pending),
        rows_corrected=told(gpu, "nvmlDeviceGetRemappedRows", corrected),
        rows_uncorrected=told(gpu, "nvmlDeviceGetRemappedRows", uncorrected),
        rows_pending=told(gpu, "nvmlDeviceGetRemappedRows", None if waiting is None else bool(waiting)),
        rows_failed=told(gpu, "nvmlDeviceGetRemappedRows", None if failed is None else bool(failed)),
        temperature=told(gpu, "nvmlDeviceGetTemperature", gpu.temperature),
        power=told(gpu, "nvmlDeviceGetPowerUsage", gpu.power),
        power_limit=told(gpu, "nvmlDeviceGetEnforcedPowerLimit", gpu.power_limit),
        clock=told(gpu, "nvmlDeviceGetClockInfo", gpu.clock),
        clock_most=told(gpu, "nvmlDeviceGetMaxClockInfo", gpu.clock_most),
        throttle_reasons=told(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons", reasons),
    )


def pcie(gpu: NvmlGpu | None) -> PcieLink:
    """The PCIe link now and at most."""
    if gpu is None:
        return PcieLink()
    return PcieLink(
        generation=told(gpu, "nvmlDeviceGetCurrPcieLinkGeneration", gpu.pcie_generation),
        generation_most=told(gpu, "nvmlDeviceGetMaxPcieLinkGeneration", gpu.pcie_generation_most),
        width=told(gpu, "nvmlDeviceGetCurrPcieLinkWidth", gpu.pcie_width),
        width_most=told(gpu, "nvmlDeviceGetMaxPcieLinkWidth", gpu.pcie_width_most),
    )


def _retired(gpu: NvmlGpu) -> int | None:
    """Of both causes; one that NVML does not tell is not taken for none, nor is a number that nothing counts to one."""
    if gpu.pages_single is None or gpu.pages_double is None:
        return None
    total = gpu.pages_single + gpu.pages_double
    return total if total <= LARGEST else None


def _reasons(mask: int) -> tuple[str, ...]:
    """The names of the bits that are set; one that has none yet goes by its number."""
    bits = [number for number in range(mask.bit_length()) if mask >> number & 1]
    return tuple(REASONS[number] if number < len(REASONS) else f"bit-{number}" for number in bits)


def named(gpu: NvmlGpu | None, function: str, number: int | None, names: Sequence[T]) -> Reading[T]:
    """The name of what NVML answered as a number."""
    if number is not None and not 0 <= number < len(names):
        return missing(f"{function} answered {number}, which has no name")
    return told(gpu, function, None if number is None else names[number])


def told(gpu: NvmlGpu | None, function: str, value: T | None) -> Reading[T]:
    """What NVML answered, or the reason why it did not: its return code, or what is wrong with the answer."""
    if value is not None:
        return known(value, "nvml")
    return missing(why_not(gpu, function))


def why_not(gpu: NvmlGpu | None, function: str) -> str:
    """Why a function of NVML gave no answer."""
    if gpu is None:
        return _NOT_ASKED
    if function in gpu.failures:
        return f"{function} answered with return code {gpu.failures[function]}"
    return f"{function} {gpu.remarks[function]}" if function in gpu.remarks else _NOT_ASKED
