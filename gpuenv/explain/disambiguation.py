"""Decides between the causes of an ambiguous message by the evidence in the rest of the text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpuenv.explain.reassignments import ALWAYS, IF_UNDECIDED, Reassignment
from gpuenv.model.causes import Cause

# Causes about an NVIDIA GPU or its driver: where only a card of AMD's is named, neither is there.
_OF_NVIDIA = frozenset(
    (
        *(Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED, Cause.DRIVER_KERNEL_INCOMPATIBLE, Cause.NOUVEAU_LOADED),
        *(Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.DRIVER_INSTALL_BROKEN, Cause.CUDA_INITIALIZATION_FAILED),
        *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.CONTAINER_WITHOUT_GPU, Cause.CONTAINER_DRIVER_CAPABILITIES),
        *(Cause.DEVICE_NODE_MISSING, Cause.WSL_LIBCUDA),
    )
)
_OF_OWN_GRAPHICS = 0.62  # less: there may be another card that the text does not mention
_OF_NO_CARD = _OF_NVIDIA | {Cause.CPU_ONLY_FRAMEWORK}
_NVIDIA_NAMED = frozenset(("nvidia-card", "smi-table", "module-loaded", "gpu-known"))
_MAJORS = (10, 11, 12, 13)
_NOT_FOUND = (Cause.CUDA_LIBRARY_MISSING, Cause.WINDOWS_DLL_LOAD_FAILURE, Cause.CUDA_HEADERS_MISSING)
_OF_LINE = 0.7
_OF_AMD = 0.8  # how much of such a cause is then another's


def disambiguate(weights: Mapping[Cause, float], evidence: Collection[str], *, is_open: bool) -> dict[Cause, float]:
    """Moves the weights of a message to the causes that the rest of the text means.

    Args:
        weights: of the message, by itself and by its modifiers.
        evidence: what the text and the machine show.
        is_open: whether the message alone leaves its cause open.
    """
    moved = _reassigned(dict(weights), evidence, ALWAYS)
    moved = _by_amd_card(_by_wheel_line(moved, evidence), evidence)
    return _reassigned(_by_integrated_graphics(moved, evidence), evidence, IF_UNDECIDED) if is_open else moved


def _reassigned(
    weights: dict[Cause, float], evidence: Collection[str], reassignments: Iterable[Reassignment]
) -> dict[Cause, float]:
    for entry in reassignments:
        if entry.evidence in evidence:
            there = [cause for cause in entry.causes if cause in weights and cause is not entry.target]
            _move(weights, {cause: weights[cause] * entry.share for cause in there}, entry.target)
    return weights


def _by_wheel_line(weights: dict[Cause, float], evidence: Collection[str]) -> dict[Cause, float]:
    """A missing library, where the text names one wheel line and it is not for the installed CUDA."""
    lines = {major for major in _MAJORS if f"line-{major}" in evidence}
    there = {major for major in _MAJORS if f"toolkit-{major}" in evidence}
    if len(lines) == 1 and there and not lines & there:
        moved = {cause: weights[cause] * _OF_LINE for cause in _NOT_FOUND if cause in weights}
        _move(weights, moved, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR)
    return weights


def _by_amd_card(weights: dict[Cause, float], evidence: Collection[str]) -> dict[Cause, float]:
    """A CUDA message on a machine with an AMD card: there is no NVIDIA GPU, or a ROCm build does not fit."""
    if "amd-card" in evidence and not _NVIDIA_NAMED.intersection(evidence):
        moved = {cause: weight * _OF_AMD for cause, weight in weights.items() if cause in _OF_NVIDIA}
        _move(weights, moved, Cause.ROCM_MISMATCH if "rocm-build" in evidence else Cause.NO_NVIDIA_GPU)
    return weights


def _by_integrated_graphics(weights: dict[Cause, float], evidence: Collection[str]) -> dict[Cause, float]:
    """An ambiguous CUDA message where the user's GPU is integrated into the processor."""
    if "own-graphics" in evidence and not {*_NVIDIA_NAMED, "nvidia-owned"}.intersection(evidence):
        moved = {cause: weight * _OF_OWN_GRAPHICS for cause, weight in weights.items() if cause in _OF_NO_CARD}
        _move(weights, moved, Cause.NO_NVIDIA_GPU)
    return weights


def _move(weights: dict[Cause, float], moved: Mapping[Cause, float], target: Cause) -> None:
    """Moves these shares from their causes to the target."""
    for cause, weight in moved.items():
        weights[cause] -= weight
    if moved:
        weights[target] = weights.get(target, 0.0) + sum(moved.values())
