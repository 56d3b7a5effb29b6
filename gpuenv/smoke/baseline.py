"""Measured numbers beside those of an earlier run, and beside those of other GPUs of the same kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gpuenv.model.smoke import Compared, SmokeResult, TestedGpu, TestResult
from gpuenv.model.strings import pattern

Peaks = Mapping[str, Mapping[str, float]]
"""Product name, as the driver tells it -> the name of a number -> the most that it can be, in the same unit."""

WELL_BELOW = 0.35  # of a peak that nobody reaches: sound GPUs reach 0.5 to 0.95 of it, by type and power
TOLERANCE = 0.15  # a rate that is lower by more is worth a word; clocks and other users of the bus move it by less
SMALLER_IS_BETTER = {"s"}
_TIME_TOLERANCE = 2.0  # a time, such as that of a compile, wavers more than a rate
_UNCOMPARED_UNITS = {"B", "1", "C", "MHz", "W"}  # sizes, counts, and the state of the moment
# What the host is timed by and not the GPU: NumPy, the compiler, copies by way of a buffer, the launch of nothing.
_HOST_TIMING = pattern(r"numpy_.*|compile_.*|.*_pageable|launch_latency")

_Key = tuple[str | None, str]


def compare(result: SmokeResult, baseline: SmokeResult) -> tuple[Compared, ...]:
    """Each number of a run beside the same GPU's in the baseline; numbers that only one of them has are left out.

    Of those that time the host no one is called worse: they waver with all else that it does, and tell of no GPU.
    """
    before = _numbers(baseline.tests)
    return tuple(
        _compare_number(key, unit, value, before[key][0], "baseline")
        for key, (value, unit) in _numbers(result.tests).items()
        if key in before and before[key][0] and unit not in _UNCOMPARED_UNITS
    )


def compare_with_same_model(tests: Sequence[TestResult], gpus: Sequence[TestedGpu]) -> tuple[Compared, ...]:
    """Each number of a GPU that is worse than the median of those GPUs of the run that bear the same name."""
    names: Mapping[str | None, str | None] = {gpu.uuid: gpu.name for gpu in gpus}
    numbers = _numbers(tests)
    found = []
    for (gpu, name), (value, unit) in numbers.items():
        sisters = [
            other
            for (uuid, same), (other, _) in numbers.items()
            if same == name and uuid != gpu and names.get(uuid) == names.get(gpu) and names.get(gpu) is not None
        ]
        if sisters and unit not in _UNCOMPARED_UNITS and median(sisters):
            found.append(_compare_number((gpu, name), unit, value, median(sisters), "sisters"))
    return tuple(entry for entry in found if entry.worse)


def compare_with_peaks(tests: Sequence[TestResult], gpus: Sequence[TestedGpu], peaks: Peaks) -> tuple[Compared, ...]:
    """Each number beside what the data sheet of that product says, where one is known."""
    names: Mapping[str | None, str | None] = {gpu.uuid: gpu.name for gpu in gpus}
    found = []
    for (gpu, name), (value, unit) in _numbers(tests).items():
        peak = peaks.get(names.get(gpu) or "", {}).get(name)
        if peak:
            found.append(Compared(name, gpu, unit, value, peak, value / peak, value / peak < WELL_BELOW, "data-sheet"))
    return tuple(found)


def _numbers(tests: Sequence[TestResult]) -> dict[_Key, tuple[float, str]]:
    """GPU and name -> the median over all repetitions, and its unit."""
    gathered: dict[_Key, list[tuple[float, str]]] = {}
    for test in tests:
        for name, quantity in test.measured.items():
            gathered.setdefault((test.gpu, f"{test.group}.{name}"), []).append((quantity.value, quantity.unit))
    return {key: (median(value for value, _ in entries), entries[0][1]) for key, entries in gathered.items()}


def _compare_number(key: _Key, unit: str, value: float, before: float, against: str) -> Compared:
    ratio = value / before
    worse = ratio > _TIME_TOLERANCE if unit in SMALLER_IS_BETTER else ratio < 1.0 - TOLERANCE
    of_the_host = _HOST_TIMING.fullmatch(key[1].partition(".")[2]) is not None
    return Compared(key[1], key[0], unit, value, before, ratio, worse and not of_the_host, against)
