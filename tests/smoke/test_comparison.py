"""Measurements compared with a baseline, the data sheet and other GPUs of the same model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.products import peaks_of
from gpuenv.model.smoke import (
    TestedGpu,
)
from gpuenv.smoke.baseline import (
    RATES,
    compare,
    compare_with_minimums,
    compare_with_peaks,
    compare_with_same_model,
    compare_with_start,
    parse_minimum,
)
from gpuenv.smoke.tasks import PAYLOAD, SmokeOptions, all_tests, select_tests
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


def test_another_gpu_of_the_same_product_is_compared_with_the_baseline() -> None:
    """A CI job rarely gets the same card."""
    golden = result(test("transfer.rates", A, h2d=100.0), test("transfer.rates", "GPU-c", h2d=110.0))
    (entry,) = compare(result(test("transfer.rates", B, h2d=80.0)), golden)
    assert (entry.gpu, entry.baseline, entry.against, entry.worse) == (B, 105.0, "baseline-product", True)
    (entry,) = compare(result(test("transfer.rates", A, h2d=95.0)), golden)
    assert (entry.baseline, entry.against) == (100.0, "baseline"), "its own numbers come first"
    other = golden._replace(gpus=tuple(replace(gpu, name="Tesla T4") for gpu in golden.gpus))
    assert compare(result(test("transfer.rates", B, h2d=80.0)), other) == ()


HINT = "give a rate, such as 500GB/s, or a baseline"
PEAKS = {"NVIDIA H100": {"transfer.device_copy": 1000.0}}


@pytest.mark.parametrize(
    ("text", "measured", "minimum"), [("copy=80%", 790.0, 800.0), ("transfer.device_copy=0.5kB/s", 499.0, 500.0)]
)
def test_a_rate_below_its_minimum_is_worse(text: str, measured: float, minimum: float) -> None:
    wanted = parse_minimum(text)
    assert wanted.test == "transfer.rates"
    ((entry,), unknown) = compare_with_minimums(
        [wanted], result(test("transfer.rates", A, device_copy=measured)), None, PEAKS
    )
    assert (entry.against, entry.worse, unknown) == ("minimum", True, ())
    assert entry.baseline == pytest.approx(minimum)
    ((entry,), _) = compare_with_minimums([wanted], result(test("transfer.rates", A, device_copy=minimum)), None, PEAKS)
    assert not entry.worse


def test_a_minimum_without_a_reference_or_a_measurement_is_not_met() -> None:
    copy, fast = [parse_minimum("copy=80%")], result(test("transfer.rates", A, device_copy=900.0))
    assert compare_with_minimums(copy, fast, None, {}) == (
        (),
        ("the data sheets known here have no transfer.device_copy of NVIDIA H100: " + HINT,),
    )
    slow = result(test("transfer.rates", A, h2d=1.0))
    assert compare_with_minimums(copy, slow, None, PEAKS)[1] == (
        "transfer.device_copy was not measured on NVIDIA H100",
    )
    ((entry,), unknown) = compare_with_minimums(copy, fast, result(test("a.b", A, x=1.0), *fast.tests), {})
    assert (entry.baseline, unknown) == (720.0, ()), "a share of the baseline"


@pytest.mark.parametrize("text", ["copy", "copy=80", "paste=80%", "copy=2TFLOP/s", "f16=2GB/s", "copy=-5%"])
def test_an_unclear_minimum_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--min-rate"):
        parse_minimum(text)


def test_the_test_that_measures_a_minimum_runs_at_any_level() -> None:
    options = SmokeOptions(groups=("fft",), minimums=(parse_minimum("copy=80%"),))
    assert {entry.name for entry in select_tests(options)} == {"fft.complex", "transfer.rates"}
    names = {entry.name for entry in all_tests()}
    assert {parse_minimum(f"{name}=1%").test for name in RATES} <= names


@pytest.mark.parametrize(("last", "worse"), [(70.0, True), (80.0, False)])
def test_a_rate_that_falls_during_the_burn_in_is_worse(last: float, *, worse: bool) -> None:
    (entry,) = compare_with_start([test("health.sustained", A, f32_first=100.0, f32_last=last)])
    assert (entry.name, entry.against, entry.ratio, entry.worse) == ("health.f32", "start", last / 100, worse)


def test_every_peak_of_the_matrix_is_measured() -> None:
    peaks = peaks_of(load(data_path("matrix.yaml")))
    assert len(load(data_path("matrix.yaml")).peaks) >= 30
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
