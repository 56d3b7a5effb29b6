"""Facts that decide where a message tells no more than that there is no CUDA. Pure.

"No CUDA-capable device is detected" has two dozen causes, and so have an unknown error of ``cuInit``, a libcuda that is
not found and a driver that NVML cannot reach. What else the text shows mostly tells which: the mode of a device node,
how the container was started, which driver holds the card. One such fact has the same meaning beside each of these
messages; a message that is sure of its cause by itself is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuenv.explain.apart import SHIFTS, Shift, move
from gpuenv.model.causes import Cause

# What such messages name: causes among which only another fact decides.
_OPEN = (
    *(Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED, Cause.DRIVER_INSTALL_BROKEN),
    *(Cause.DRIVER_KERNEL_INCOMPATIBLE, Cause.NOUVEAU_LOADED, Cause.SUSPEND_RESUME_LOST_GPU),
    *(Cause.CUDA_INITIALIZATION_FAILED, Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.CPU_ONLY_FRAMEWORK),
    *(Cause.CONTAINER_WITHOUT_GPU, Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CONTAINER_DRIVER_CAPABILITIES),
    *(Cause.CONTAINER_CGROUP_LOST_GPU, Cause.DEVICE_NODE_MISSING, Cause.DEVICE_NODE_PERMISSION, Cause.WSL_LIBCUDA),
)
_UNSEEN = tuple(cause for cause in _OPEN if cause is not Cause.CONTAINER_TOOLKIT_BROKEN)
_DEVICES = (*_OPEN, Cause.GPU_HARDWARE_FAULT, Cause.GPU_TOO_NEW_FOR_DRIVER, Cause.GPU_REMOVED_FROM_DRIVER)
# Of these alone a program is told that it sees no device, and not of what the driver lacks.
_NO_DEVICE = (
    *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.NO_NVIDIA_GPU, Cause.NO_DRIVER, Cause.CUDA_INITIALIZATION_FAILED),
    *(Cause.CPU_ONLY_FRAMEWORK, Cause.CONTAINER_WITHOUT_GPU),
)
_NO_GPU_OR_MODULE = (Cause.NO_NVIDIA_GPU, Cause.DRIVER_MODULE_NOT_LOADED)
_START = (*_OPEN, Cause.FORK_AFTER_CUDA_INIT)
_RUN = (*_START, Cause.ILLEGAL_MEMORY_ACCESS, Cause.ASYNC_ERROR_SURFACED_LATE)

# The later one says more, where a text shows two.
FACTS = (
    Shift("new-kernel", _OPEN, Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.4),
    Shift("not-suspended", (Cause.SUSPEND_RESUME_LOST_GPU,), Cause.CUDA_INITIALIZATION_FAILED, 0.8),
    Shift("does-not-fork", (Cause.FORK_AFTER_CUDA_INIT,), Cause.CUDA_INITIALIZATION_FAILED, 0.8),
    Shift(
        "smi-said-to-work",
        (Cause.SUSPEND_RESUME_LOST_GPU, Cause.FORK_AFTER_CUDA_INIT),
        Cause.CUDA_INITIALIZATION_FAILED,
        0.35,
    ),
    Shift(
        "smi-said-to-work", (Cause.NO_NVIDIA_GPU, Cause.DRIVER_MODULE_NOT_LOADED), Cause.CUDA_INITIALIZATION_FAILED, 0.6
    ),
    Shift("jetson", _UNSEEN, Cause.JETSON_TEGRA, 0.4),
    Shift("wsl", _OPEN, Cause.WSL_LIBCUDA, 0.35),
    Shift("said-not-loaded", _START, Cause.DRIVER_MODULE_NOT_LOADED, 0.6),
    Shift("driver-half-there", _OPEN, Cause.DRIVER_INSTALL_BROKEN, 0.6),
    Shift("pci-without-nvidia", (*_DEVICES, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.NO_NVIDIA_GPU, 0.65),
    Shift("nouveau-holds", _DEVICES, Cause.NOUVEAU_LOADED, 0.7),
    Shift("legacy-named", _DEVICES, Cause.GPU_REMOVED_FROM_DRIVER, 0.55),
    Shift("suspend", _RUN, Cause.SUSPEND_RESUME_LOST_GPU, 0.55),
    Shift("exclusive", _OPEN, Cause.COMPUTE_MODE_EXCLUSIVE, 0.6),
    Shift("nodes-closed", _DEVICES, Cause.DEVICE_NODE_PERMISSION, 0.7),
    Shift("root-may", _DEVICES, Cause.DEVICE_NODE_PERMISSION, 0.7),
    Shift("uvm-absent", _START, Cause.DEVICE_NODE_MISSING, 0.6),
    Shift("started-without-gpu", (*_OPEN, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.CONTAINER_WITHOUT_GPU, 0.6),
    Shift(
        "capabilities-lack-compute", (*_OPEN, Cause.DRIVER_TOO_OLD_FOR_CUDA), Cause.CONTAINER_DRIVER_CAPABILITIES, 0.65
    ),
    Shift("restart-brings-back", _OPEN, Cause.CONTAINER_CGROUP_LOST_GPU, 0.65),
    Shift("compat", _OPEN, Cause.FORWARD_COMPAT_UNSUPPORTED, 0.5),
    Shift("mig", _NO_DEVICE, Cause.MIG_MISCONFIGURED, 0.5),
    Shift("hidden", _OPEN, Cause.VISIBLE_DEVICES_HIDE_GPU, 0.65),
    Shift("tested-faulty", _RUN, Cause.GPU_HARDWARE_FAULT, 0.65),
)
# What has been moved so by ``told_apart`` is not moved again: a fact counts once.
_MOVED = {(shift.mark, cause, shift.meant) for shift in SHIFTS for cause in shift.causes}


def decided(weights: Mapping[Cause, float], marks: Collection[str]) -> dict[Cause, float]:
    """What a message that leaves its cause open says, moved to the cause that the text's facts mean."""
    told = dict(weights)
    for fact in FACTS:
        if fact.mark in marks:
            wanted = [cause for cause in fact.causes if cause in told and cause is not fact.meant]
            wanted = [cause for cause in wanted if (fact.mark, cause, fact.meant) not in _MOVED]
            move(told, {cause: told[cause] * fact.share for cause in wanted}, fact.meant)
    return told
