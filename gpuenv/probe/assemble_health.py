"""What NVML says of a GPU's state: memory errors, heat, power, clock, link. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import ComputeMode, GpuHealth, PcieLink, Virtualization
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
_REASONS = (
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
_ROWS_PENDING, _ROWS_FAILED = 2, 3
_NOT_ASKED = "NVML was not asked"


def compute_mode(gpu: NvmlGpu | None) -> Reading[ComputeMode]:
    """Who may use the GPU."""
    return _named(gpu, "nvmlDeviceGetComputeMode", gpu.compute_mode if gpu else None, _COMPUTE_MODES)


def virtualization(gpu: NvmlGpu | None) -> Reading[Virtualization]:
    """What stands between the GPU and this system."""
    return _named(gpu, "nvmlDeviceGetVirtualizationMode", gpu.virtualization if gpu else None, _VIRTUALIZATIONS)


def persistence(gpu: NvmlGpu | None) -> Reading[bool]:
    """Whether the driver stays loaded while nobody uses the GPU."""
    return _told(gpu, "nvmlDeviceGetPersistenceMode", gpu.persistence if gpu else None)


def processes(gpu: NvmlGpu | None) -> Reading[int]:
    """How many compute processes hold the GPU."""
    return _told(gpu, "nvmlDeviceGetComputeRunningProcesses", gpu.processes if gpu else None)


def health(gpu: NvmlGpu | None) -> GpuHealth:
    """Memory errors, heat, power and clock."""
    if gpu is None:
        return GpuHealth()
    rows = gpu.rows if gpu.rows is not None and len(gpu.rows) > _ROWS_FAILED else None
    reasons = None if gpu.throttle_reasons is None else _reasons(gpu.throttle_reasons)
    return GpuHealth(
        ecc=_told(gpu, "nvmlDeviceGetEccMode", gpu.ecc),
        ecc_uncorrected=_told(gpu, "nvmlDeviceGetTotalEccErrors", gpu.ecc_uncorrected),
        ecc_uncorrected_ever=_told(gpu, "nvmlDeviceGetTotalEccErrors", gpu.ecc_uncorrected_ever),
        pages_pending=_told(gpu, "nvmlDeviceGetRetiredPagesPendingStatus", gpu.pages_pending),
        rows_pending=_told(gpu, "nvmlDeviceGetRemappedRows", bool(rows[_ROWS_PENDING]) if rows else None),
        rows_failed=_told(gpu, "nvmlDeviceGetRemappedRows", bool(rows[_ROWS_FAILED]) if rows else None),
        temperature=_told(gpu, "nvmlDeviceGetTemperature", gpu.temperature),
        power=_told(gpu, "nvmlDeviceGetPowerUsage", gpu.power),
        power_limit=_told(gpu, "nvmlDeviceGetEnforcedPowerLimit", gpu.power_limit),
        clock=_told(gpu, "nvmlDeviceGetClockInfo", gpu.clock),
        clock_most=_told(gpu, "nvmlDeviceGetMaxClockInfo", gpu.clock_most),
        throttle_reasons=_told(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons", reasons),
    )


def pcie(gpu: NvmlGpu | None) -> PcieLink:
    """The PCIe link now and at most."""
    if gpu is None:
        return PcieLink()
    return PcieLink(
        generation=_told(gpu, "nvmlDeviceGetCurrPcieLinkGeneration", gpu.pcie_generation),
        generation_most=_told(gpu, "nvmlDeviceGetMaxPcieLinkGeneration", gpu.pcie_generation_most),
        width=_told(gpu, "nvmlDeviceGetCurrPcieLinkWidth", gpu.pcie_width),
        width_most=_told(gpu, "nvmlDeviceGetMaxPcieLinkWidth", gpu.pcie_width_most),
    )


def _reasons(mask: int) -> tuple[str, ...]:
    """The names of the bits that are set; one that has none yet goes by its number."""
    bits = [number for number in range(mask.bit_length()) if mask >> number & 1]
    return tuple(_REASONS[number] if number < len(_REASONS) else f"bit-{number}" for number in bits)


def _named(gpu: NvmlGpu | None, function: str, number: int | None, names: Sequence[T]) -> Reading[T]:
    if number is not None and not 0 <= number < len(names):
        return missing(f"{function} answered {number}, which has no name")
    return _told(gpu, function, None if number is None else names[number])


def _told(gpu: NvmlGpu | None, function: str, value: T | None) -> Reading[T]:
    """What NVML answered, or the return code with which it did not."""
    if value is not None:
        return known(value, "nvml")
    if gpu is None:
        return missing(_NOT_ASKED)
    code = gpu.failures.get(function)
    return missing(f"{function} answered with return code {code}" if code is not None else _NOT_ASKED)
