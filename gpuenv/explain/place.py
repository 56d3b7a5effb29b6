"""Factors of causes by the system that a program ran on: WSL, a container, a Tegra board, Windows."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.model.causes import Cause
from gpuenv.model.snapshot import Container, Snapshot

_CONTAINER = (
    *(Cause.CONTAINER_WITHOUT_GPU, Cause.CONTAINER_DRIVER_CAPABILITIES, Cause.CONTAINER_CGROUP_LOST_GPU),
    *(Cause.CONTAINER_TOOLKIT_BROKEN, Cause.IMAGE_REQUIRES_OTHER_DRIVER),
)
_LINUX_ONLY = (
    *(Cause.FORK_AFTER_CUDA_INIT, Cause.NOUVEAU_LOADED, Cause.DEVICE_NODE_MISSING, Cause.DEVICE_NODE_PERMISSION),
    *(Cause.DRIVER_KERNEL_INCOMPATIBLE, Cause.DRIVER_MODULE_NOT_LOADED, Cause.LIBSTDCXX_MISMATCH),
)
_LIKELIER, _UNLIKELY = 6.0, 0.15


def place_factors(snapshot: Snapshot) -> Mapping[Cause, float]:
    """Factors of the causes that the system makes likelier or less likely; empty if it is unknown."""
    host = snapshot.host
    factors: dict[Cause, float] = {}
    if host.os.value == "windows":
        factors |= dict.fromkeys(_LINUX_ONLY, _UNLIKELY) | {Cause.WINDOWS_DLL_LOAD_FAILURE: _LIKELIER}
    if host.wsl.known:
        factors[Cause.WSL_LIBCUDA] = _LIKELIER if host.wsl.value else _UNLIKELY
    if host.wsl.value:  # the driver is that of Windows
        factors |= dict.fromkeys((Cause.DRIVER_MODULE_NOT_LOADED, Cause.NOUVEAU_LOADED), _UNLIKELY)
    if host.container.known:
        factors |= dict.fromkeys(_CONTAINER, _UNLIKELY if host.container.value is Container.NONE else _LIKELIER)
    if host.tegra.known:
        factors[Cause.JETSON_TEGRA] = _LIKELIER if host.tegra.value else _UNLIKELY
    if snapshot.amd_gpus:
        factors[Cause.ROCM_MISMATCH] = _LIKELIER
    return factors
