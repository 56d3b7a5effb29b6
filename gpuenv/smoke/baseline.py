"""Compares measured numbers with a baseline, with other GPUs of the same model and with data sheets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gpuenv.model.smoke import Compared, SmokeResult, TestedGpu, TestResult
from gpuenv.model.strings import pattern

Peaks = Mapping[str, Mapping[str, float]]
"""Product name as the driver reports it -> name of a number -> its theoretical maximum, in the same unit."""

WELL_BELOW = 0.35  # of the theoretical peak: healthy GPUs reach 0.5 to 0.95 of it, depending on model and power
TOLERANCE = 0.15  # a rate lower by more is reported; clocks and other users of the bus change it by less
SMALLER_IS_BETTER = {"s"}
_TIME_TOLERANCE = 2.0  # times, such as compile times, vary more than rates
_UNCOMPARED_UNITS = {"B", "1", "C", "MHz", "W"}  # sizes, counts and momentary state
# Timings of the host, not the GPU: NumPy, the compiler, copies through a buffer, empty launches.
_HOST_TIMING = pattern(r"numpy_.*|compile_.*|.*_pageable|launch_latency")

_Key = tuple[str | None, str]


def compare(result: SmokeResult, baseline: SmokeResult) -> tuple[Compared, ...]:
    """Compares each number of a run with the same GPU's in the baseline; skips numbers that only one of them has.

    Timings of the host are never called worse: they vary with its load and say nothing about a GPU.
    """
    earlier = _numbers(baseline.tests)
    return tuple(
        _compare_number(key, unit, value, earlier[key][0], "baseline")
        for key, (value, unit) in _numbers(result.tests).items()
        if key in earlier and earlier[key][0] and unit not in _UNCOMPARED_UNITS
    )


def compare_with_same_model(tests: Sequence[TestResult], gpus: Sequence[TestedGpu]) -> tuple[Compared, ...]:
    """Returns each number that is worse than the median of the other GPUs of the same model in the run."""
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
    """Compares each number with the data sheet of the product, if the matrix has one."""
    names: Mapping[str | None, str | None] = {gpu.uuid: gpu.name for gpu in gpus}
    found = []
    for (gpu, name), (value, unit) in _numbers(tests).items():
        peak = peaks.get(names.get(gpu) or "", {}).get(name)
        if peak:
            found.append(Compared(name, gpu, unit, value, peak, value / peak, value / peak < WELL_BELOW, "data-sheet"))
    return tuple(found)


def _numbers(tests: Sequence[TestResult]) -> dict[_Key, tuple[float, str]]:
    """Maps GPU and name to the median over all repetitions and its unit."""
    gathered: dict[_Key, list[tuple[float, str]]] = {}
    for test in tests:
        for name, quantity in test.measured.items():
            gathered.setdefault((test.gpu, f"{test.group}.{name}"), []).append((quantity.value, quantity.unit))
    return {key: (median(value for value, _ in entries), entries[0][1]) for key, entries in gathered.items()}


def _compare_number(key: _Key, unit: str, value: float, reference: float, against: str) -> Compared:
    ratio = value / reference
    worse = ratio > _TIME_TOLERANCE if unit in SMALLER_IS_BETTER else ratio < 1.0 - TOLERANCE
    is_host_timing = _HOST_TIMING.fullmatch(key[1].partition(".")[2]) is not None
    return Compared(key[1], key[0], unit, value, reference, ratio, worse and not is_host_timing, against)
