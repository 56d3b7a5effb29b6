"""What GPUs do at most, by the names of the numbers that the smoke tests measure. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.matrix.records import Matrix, Peak

_TERA, _GIGA = 1e12, 1e9


def peaks_of(matrix: Matrix) -> Mapping[str, Mapping[str, float]]:
    """Product name, as the driver tells it -> name of the number -> FLOP/s or B/s."""
    return {name: _numbers(peak) for peak in matrix.peaks for name in peak.names}


def _numbers(peak: Peak) -> dict[str, float]:
    rates = {"f16": peak.f16, "f32": peak.f32, "f64": peak.f64}
    found = {f"blas.matmul_{name}": rate * _TERA for name, rate in rates.items() if rate is not None}
    return {**found, "transfer.device_copy": peak.memory * _GIGA}
