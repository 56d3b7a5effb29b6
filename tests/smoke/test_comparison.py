"""Measurements compared with a baseline, the data sheet and other GPUs of the same model."""

from __future__ import annotations

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.products import peaks_of
from gpuenv.model.smoke import (
    TestedGpu,
)
from gpuenv.smoke.baseline import compare, compare_with_peaks, compare_with_same_model
from gpuenv.smoke.tasks import PAYLOAD
from tests.smoke.devices import A, B, result, test


def test_a_lower_rate_and_a_longer_time_are_worse() -> None:
    before = result(test("transfer.rates", A, h2d=100.0, d2h=100.0, time=1.0, share=0.9, old=5.0))
    after = result(test("transfer.rates", A, h2d=84.0, d2h=86.0, time=2.1, share=0.1, new=7.0))
    compared = {entry.name: entry for entry in compare(after, before)}
    assert set(compared) == {"transfer.h2d", "transfer.d2h", "transfer.time"}
    assert {name for name, entry in compared.items() if entry.worse} == {"transfer.h2d", "transfer.time"}
    assert compared["transfer.h2d"].ratio == pytest.approx(0.84)
    assert compare(before, before)[0].worse is False


def test_rates_of_the_host_are_never_worse() -> None:
    """NumPy's rate and the compiler's time are reported, but are not a finding about the GPU."""
    fast = {"numpy_fft": 9.0, "h2d_pageable": 9.0, "h2d_pinned": 9.0}
    slow = test("transfer.rates", A, **dict.fromkeys(fast, 5.0))
    compared = compare(result(slow), result(test("transfer.rates", A, **fast)))
    assert {entry.name: entry.worse for entry in compared} == {
        "transfer.numpy_fft": False, "transfer.h2d_pageable": False, "transfer.h2d_pinned": True,
    }  # fmt: skip
    gpus = [TestedGpu(A, "H100"), TestedGpu(B, "H100")]
    (worse,) = compare_with_same_model([slow, test("transfer.rates", B, **fast)], gpus)
    assert (worse.gpu, worse.name) == (A, "transfer.h2d_pinned")


def test_a_t4_at_its_power_limit_is_not_slow() -> None:
    """An owner measured 24 of 65 TFLOP/s in half precision, less when warm; NVIDIA calls it expected."""
    peaks = peaks_of(load(data_path("matrix.yaml")))
    rates = [test("blas.rates", A, matmul_f16=21e12, matmul_f32=4.4e12)]
    compared = compare_with_peaks(rates, [TestedGpu(A, "Tesla T4")], peaks)
    assert [(entry.name, entry.worse) for entry in compared] == [("blas.matmul_f32", False)]


def test_repeated_measurements_count_by_their_median() -> None:
    tests = [test("a.b", A, rate=value) for value in (10.0, 100.0, 101.0)]
    (median,) = compare(result(*tests), result(test("a.b", A, rate=100.0)))
    assert median.ratio == 1.0


def test_a_gpu_is_compared_with_its_data_sheet() -> None:
    peaks = {"NVIDIA H200": {"blas.rate": 100.0, "blas.other": 5.0}}
    tests = [test("blas.rates", A, rate=80.0), test("blas.rates", B, rate=30.0)]
    compared = compare_with_peaks(tests, [TestedGpu(A, "NVIDIA H200"), TestedGpu(B, "NVIDIA H200")], peaks)
    assert [(entry.gpu, entry.against, entry.ratio, entry.worse) for entry in compared] == [
        (A, "data-sheet", 0.8, False),
        (B, "data-sheet", 0.3, True),
    ]
    assert compare_with_peaks(tests, [TestedGpu(A, "NVIDIA H200 MIG 1g.18gb"), TestedGpu(B, None)], peaks) == ()


def test_every_peak_of_the_matrix_is_measured() -> None:
    peaks = peaks_of(load(data_path("matrix.yaml")))
    assert len(peaks) > 10
    peak_names = {name for numbers in peaks.values() for name in numbers}
    assert peak_names == {"blas.matmul_f16", "blas.matmul_f32", "blas.matmul_f64", "transfer.device_copy"}
    files = (PAYLOAD / "tests/blas.py", PAYLOAD / "tests/transfer.py")
    sources = "".join(path.read_text(encoding="utf-8") for path in files)
    assert 'gpu.measure("matmul_" + name' in sources
    assert 'gpu.measure_rate("device_copy"' in sources
    assert all(1e11 < value < 1e16 for numbers in peaks.values() for value in numbers.values())


def test_a_gpu_is_compared_with_others_of_its_model() -> None:
    tests = [test("a.b", A, rate=50.0), test("a.b", B, rate=100.0), test("a.b", "GPU-c", rate=98.0)]
    gpus = [TestedGpu(uuid, "H100") for uuid in (A, B, "GPU-c")]
    (slow,) = compare_with_same_model(tests, gpus)
    assert (slow.gpu, slow.against, slow.baseline) == (A, "sisters", 99.0)
    assert compare_with_same_model(tests, [TestedGpu(A, "A100"), *gpus[1:]]) == ()
