"""Why a GPU is slow: who else uses it, what holds its clock down, what its memory and its link are like. Pure."""

from __future__ import annotations

from gpuenv.doctor.evidence import fact
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence
from gpuenv.model.gpu import GRAVE_REASONS, Gpu

# To be at the power limit is usual under load, and explains where a GPU is slow.
_TELLING = GRAVE_REASONS | {"software-power-cap"}


def blame(place: int, gpu: Gpu | None) -> tuple[Cause, tuple[Evidence, ...]]:
    """The cause and the facts behind it: others first, then faults of the hardware; else it is held down."""
    if gpu is None:
        return Cause.GPU_THROTTLED, ()
    if gpu.processes.value:
        return Cause.GPU_BUSY, fact(f"gpus[{place}].processes", gpu.processes)
    path, health = f"gpus[{place}].health", gpu.health
    if health.rows_failed.value:
        return Cause.GPU_HARDWARE_FAULT, fact(f"{path}.rows_failed", health.rows_failed)
    if health.ecc_uncorrected.value:
        return Cause.GPU_HARDWARE_FAULT, fact(f"{path}.ecc_uncorrected", health.ecc_uncorrected)
    why: tuple[Evidence, ...] = ()
    if not _TELLING.isdisjoint(health.throttle_reasons.value or ()):
        why += fact(f"{path}.throttle_reasons", health.throttle_reasons)
    return Cause.GPU_THROTTLED, why + _link(place, gpu)


def _link(place: int, gpu: Gpu) -> tuple[Evidence, ...]:
    """A link that is narrower than it could be; its generation falls by itself while a GPU is idle."""
    link = gpu.pcie
    if link.width.value and link.width_most.value and link.width.value < link.width_most.value:
        return fact(f"gpus[{place}].pcie.width", link.width) + fact(f"gpus[{place}].pcie.width_most", link.width_most)
    return ()
