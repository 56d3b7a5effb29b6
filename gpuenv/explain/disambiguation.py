"""Messages that several causes have: what else a text shows tells which of them it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpuenv.explain.reassignments import OF_EVERY, WHERE_OPEN, Shift
from gpuenv.model.causes import Cause

# What is said of an NVIDIA GPU or its driver where only a card of AMD's is named: neither is there.
_OF_NVIDIA = frozenset(
    (
        *(Cause.NO_DRIVER, Cause.DRIVER_MODULE_NOT_LOADED, Cause.DRIVER_KERNEL_INCOMPATIBLE, Cause.NOUVEAU_LOADED),
        *(Cause.DRIVER_TOO_OLD_FOR_CUDA, Cause.DRIVER_INSTALL_BROKEN, Cause.CUDA_INITIALIZATION_FAILED),
        *(Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.CONTAINER_WITHOUT_GPU, Cause.CONTAINER_DRIVER_CAPABILITIES),
        *(Cause.DEVICE_NODE_MISSING, Cause.WSL_LIBCUDA),
    )
)
_OF_OWN_GRAPHICS = 0.62  # less: who has only told of it may have another card too
_OF_NO_CARD = _OF_NVIDIA | {Cause.CPU_ONLY_FRAMEWORK}
_NVIDIA_NAMED = frozenset(("nvidia-card", "smi-table", "module-loaded", "gpu-known"))
_MAJORS = (10, 11, 12, 13)
_NOT_FOUND = (Cause.CUDA_LIBRARY_MISSING, Cause.WINDOWS_DLL_LOAD_FAILURE, Cause.CUDA_HEADERS_MISSING)
_OF_LINE = 0.7
_OF_AMD = 0.8  # how much of such a cause is then another's


def told_apart(weights: Mapping[Cause, float], marks: Collection[str], *, is_open: bool) -> dict[Cause, float]:
    """What a message says, moved to the causes that the rest of the text means.

    Args:
        weights: what it says, by itself and by its company.
        marks: what the text and the machine show.
        is_open: whether it is not sure of its cause by itself.
    """
    told = _shifted(dict(weights), marks, OF_EVERY)
    told = _of_the_card(_of_the_line(told, marks), marks)
    return _shifted(_of_own_graphics(told, marks), marks, WHERE_OPEN) if is_open else told


def _shifted(told: dict[Cause, float], marks: Collection[str], shifts: Iterable[Shift]) -> dict[Cause, float]:
    for shift in shifts:
        if shift.mark in marks:
            there = [cause for cause in shift.causes if cause in told and cause is not shift.meant]
            _move(told, {cause: told[cause] * shift.share for cause in there}, shift.meant)
    return told


def _of_the_line(told: dict[Cause, float], marks: Collection[str]) -> dict[Cause, float]:
    """A library that is not found, where the one line of wheels that is named is not of the CUDA that is there."""
    lines = {major for major in _MAJORS if f"line-{major}" in marks}
    there = {major for major in _MAJORS if f"toolkit-{major}" in marks}
    if len(lines) == 1 and there and not lines & there:
        moved = {cause: told[cause] * _OF_LINE for cause in _NOT_FOUND if cause in told}
        _move(told, moved, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR)
    return told


def _of_the_card(told: dict[Cause, float], marks: Collection[str]) -> dict[Cause, float]:
    """A message of CUDA's where the card is AMD's: there is no NVIDIA GPU, or a build for ROCm does not fit."""
    if "amd-card" in marks and not _NVIDIA_NAMED.intersection(marks):
        moved = {cause: weight * _OF_AMD for cause, weight in told.items() if cause in _OF_NVIDIA}
        _move(told, moved, Cause.ROCM_MISMATCH if "rocm-build" in marks else Cause.NO_NVIDIA_GPU)
    return told


def _of_own_graphics(told: dict[Cause, float], marks: Collection[str]) -> dict[Cause, float]:
    """A message of CUDA's that leaves its cause open, where somebody says that his GPU is a processor's own."""
    if "own-graphics" in marks and not {*_NVIDIA_NAMED, "nvidia-owned"}.intersection(marks):
        moved = {cause: weight * _OF_OWN_GRAPHICS for cause, weight in told.items() if cause in _OF_NO_CARD}
        _move(told, moved, Cause.NO_NVIDIA_GPU)
    return told


def _move(told: dict[Cause, float], moved: Mapping[Cause, float], meant: Cause) -> None:
    """Takes these shares from their causes and gives them to the one that is meant."""
    for cause, weight in moved.items():
        told[cause] -= weight
    if moved:
        told[meant] = told.get(meant, 0.0) + sum(moved.values())
