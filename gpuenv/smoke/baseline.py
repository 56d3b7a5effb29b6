"""Compares measured numbers with a baseline, with other GPUs of the same model and with data sheets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gpuenv.model.smoke import Compared, SmokeResult, TestedGpu, TestResult
from gpuenv.model.strings import pattern
from gpuenv.smoke.tasks import MinimumRate

Peaks = Mapping[str, Mapping[str, float]]
"""Product name as the driver reports it -> name of a number -> its theoretical maximum, in the same unit."""

WELL_BELOW = 0.35  # of the theoretical peak: healthy GPUs reach 0.5 to 0.95 of it, depending on model and power
TOLERANCE = 0.15  # a rate lower by more is reported; clocks and other users of the bus change it by less
_TIME_TOLERANCE = 2.0  # times, such as compile times, vary more than rates
_UNCOMPARED_UNITS = {"B", "1", "C", "MHz", "W"}  # sizes, counts and momentary state
# Timings of the host, not the GPU: NumPy, the compiler, copies through a buffer, empty launches.
_HOST_TIMING = pattern(r"numpy_.*|compile_.*|.*_pageable|launch_latency")

# Short names of the rates that --min-rate accepts, in addition to GROUP.NAME.
RATES = {
    "copy": "transfer.device_copy",
    "h2d": "transfer.h2d_pinned",
    "d2h": "transfer.d2h_pinned",
    "f16": "blas.matmul_f16",
    "f32": "blas.matmul_f32",
    "f64": "blas.matmul_f64",
    "fft": "fft.fft_c64",
}
_RATE = pattern(r"(\d+(?:\.\d+)?)\s*(%|(?:([kMGT])?(?:B|FLOP)/s))")
_PREFIXES = {None: 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# A burn-in that ends below this fraction of its first rate is slow: the clock of a healthy GPU falls by less.
_FALL = 0.75
_FIRST, _LAST = "_first", "_last"

_Key = tuple[str | None, str]


def parse_minimum(text: str) -> MinimumRate:
    """Parses a minimum such as ``copy=80%`` or ``transfer.h2d_pinned=20GB/s``.

    Raises:
        ValueError: invalid text.
    """
    name, _, wanted = text.partition("=")
    found, name = _RATE.fullmatch(wanted.strip()), RATES.get(name.strip(), name.strip())
    if found is None or name not in RATES.values():
        raise ValueError(f"--min-rate {text}: expected NAME=80% or NAME=1.5TB/s, where NAME is {', '.join(RATES)}")
    number, unit, prefix = found.groups()
    if unit == "%":
        return MinimumRate(name, float(number) / 100.0, None)
    if ("FLOP" in unit) != (not name.startswith("transfer.")):
        raise ValueError(f"--min-rate {text}: {name} is not measured in {unit}")
    return MinimumRate(name, None, float(number) * _PREFIXES[prefix])


def compare(result: SmokeResult, baseline: SmokeResult) -> tuple[Compared, ...]:
    """Compares each number of a run with that of the same GPU in the baseline, else of the same product.

    Skips numbers that only one of them has. Timings of the host are never called worse: they vary with its load and say
    nothing about a GPU.
    """
    references = _references(result, baseline)
    return tuple(
        _compare_number(key, unit, value, *references[key])
        for key, (value, unit) in _numbers(result.tests).items()
        if key in references and unit not in _UNCOMPARED_UNITS
    )


def _references(result: SmokeResult, baseline: SmokeResult) -> dict[_Key, tuple[float, str]]:
    """Maps GPU and name of a number to its reference and the kind of it."""
    earlier, names = _numbers(baseline.tests), {gpu.uuid: gpu.name for gpu in baseline.gpus}
    found: dict[_Key, tuple[float, str]] = {}
    for gpu in result.gpus:
        is_same = any(uuid == gpu.uuid for uuid, _ in earlier)
        by_name: dict[str, list[float]] = {}
        for (uuid, name), (value, _) in earlier.items():
            if uuid == gpu.uuid if is_same else (gpu.name is not None and names.get(uuid) == gpu.name):
                by_name.setdefault(name, []).append(value)
        kind = "baseline" if is_same else "baseline-product"
        found |= {(gpu.uuid, name): (median(values), kind) for name, values in by_name.items() if median(values)}
    return found


def compare_with_minimums(
    minimums: Sequence[MinimumRate], result: SmokeResult, baseline: SmokeResult | None, peaks: Peaks
) -> tuple[tuple[Compared, ...], tuple[str, ...]]:
    """Compares rates with their minimums; returns also why some cannot be compared.

    A share is one of the baseline if there is one, else of the data sheet.
    """
    numbers, found, unknown = _numbers(result.tests), [], []
    references = _references(result, baseline) if baseline is not None else {}
    for wanted in minimums:
        for gpu in result.gpus:
            key, label = (gpu.uuid, wanted.name), gpu.name or gpu.uuid or "the GPU"
            peak = peaks.get(gpu.name or "", {}).get(wanted.name)
            reference = (references.get(key) or (None,))[0] if baseline is not None else peak
            minimum = wanted.rate if wanted.share is None else reference and wanted.share * reference
            if key not in numbers:
                unknown.append(f"{wanted.name} was not measured on {label}")
            elif minimum is None:
                where = "the data sheets known here have" if baseline is None else "the baseline has"
                unknown.append(f"{where} no {wanted.name} of {label}: give a rate, such as 500GB/s, or a baseline")
            else:
                value, unit = numbers[key]
                ratio = value / minimum if minimum else 1.0
                found.append(Compared(wanted.name, gpu.uuid, unit, value, minimum, ratio, value < minimum, "minimum"))
    return tuple(found), tuple(unknown)


def compare_with_start(tests: Sequence[TestResult]) -> tuple[Compared, ...]:
    """Compares the last rates of a burn-in with its first."""
    numbers = _numbers(tests)
    found = []
    for (gpu, name), (first, unit) in numbers.items():
        last = numbers.get((gpu, name[: -len(_FIRST)] + _LAST))
        if name.endswith(_FIRST) and last is not None and first:
            ratio = last[0] / first
            found.append(Compared(name[: -len(_FIRST)], gpu, unit, last[0], first, ratio, ratio < _FALL, "start"))
    return tuple(found)


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
    worse = ratio > _TIME_TOLERANCE if unit == "s" else ratio < 1.0 - TOLERANCE
    is_host_timing = _HOST_TIMING.fullmatch(key[1].partition(".")[2]) is not None
    return Compared(key[1], key[0], unit, value, reference, ratio, worse and not is_host_timing, against)
