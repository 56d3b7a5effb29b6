"""Bounds of matrix products, which accept every correct algorithm and no wrong answer, and sizes of rates."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.smoke.payload.cupy_device import MIN_BYTES, CupyDevice, parse_cpu_list, round_count
from gpuenv.smoke.payload.expected import find_wrong
from tests.smoke.payload import gpu_test

Array = Any  # an array of NumPy
blas_matmul_f16, blas_matmul_bf16 = gpu_test("blas.matmul_f16"), gpu_test("blas.matmul_bf16")
blas_rates = gpu_test("blas.rates")


def bfloat16(x: Array) -> Array:
    """Rounded to the nearest number of eight significant bits."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(fraction * 256) / 256, exponent)


def half(x: Array) -> Array:
    """Rounded to half precision."""
    return np.asarray(x).astype("e").astype("d")


def product_in_parts(a: Array, b: Array, parts: int, rounded: Any) -> Array:  # noqa: ANN401 - a function of arrays
    """A @ B with sums split into parts that are stored and added in the type of the result.

    cuBLAS does so by default if few blocks would leave most of a GPU idle.
    """
    a, b = a.astype("d"), b.astype("d")
    bounds = np.linspace(0, a.shape[1], parts + 1).astype(int)
    total = np.zeros((a.shape[0], b.shape[1]))
    for first, last in pairwise(bounds):
        total = rounded(total + rounded(a[:, first:last] @ b[first:last]))
    return total


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_half_precision_product_may_be_summed_in_parts(parts: int, seed: int) -> None:
    inputs = blas_matmul_f16.inputs(np.random.default_rng(seed), {"n": 512})
    c = product_in_parts(inputs["a"], inputs["b"], parts, half)
    whole = product_in_parts(inputs["whole_a"], inputs["whole_b"], parts, half)
    answers = {"c": c.astype("e"), "whole": whole.astype("e")}
    assert find_wrong(blas_matmul_f16.expect(inputs), answers) == []


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
def test_a_bfloat16_product_may_be_summed_in_parts(parts: int) -> None:
    inputs = blas_matmul_bf16.inputs(np.random.default_rng(1), {"n": 512})
    answers = {
        "c": product_in_parts(inputs["a"], inputs["b"], parts, bfloat16).astype("f"),
        "whole": product_in_parts(inputs["whole_a"], inputs["whole_b"], parts, bfloat16).astype("f"),
    }
    assert find_wrong(blas_matmul_bf16.expect(inputs), answers) == []


@pytest.mark.parametrize(
    ("which", "largest"),
    [
        ("blas.matmul_f16", 2**11),
        ("blas.matmul_bf16", 2**8),
        ("blas.matmul_f32", 2**24),
        ("blas.matmul_tf32", 2**24),
        ("blas.matmul_f64", 2**53),
    ],
)
@pytest.mark.parametrize("n", [16, 512, pytest.param(2048, marks=pytest.mark.long)])
def test_no_order_of_the_sums_rounds_whole_numbers(which: str, largest: int, n: int) -> None:
    inputs = gpu_test(which).inputs(np.random.default_rng(3), {"n": n})
    magnitudes = np.abs(inputs["whole_a"].astype("d")) @ np.abs(inputs["whole_b"].astype("d"))
    assert largest / 2000 < magnitudes.max() <= largest


@pytest.mark.parametrize("test", [blas_matmul_f16, blas_matmul_bf16])
def test_a_product_without_one_term_is_caught(test: Any) -> None:  # noqa: ANN401 - a module
    inputs = test.inputs(np.random.default_rng(1), {"n": 128})
    included = np.arange(136) != 7
    short = {name: x * included if name.endswith("a") else x for name, x in inputs.items()}
    expected = test.expect(inputs)
    answers = {name: answer.value.astype(expected[name].dtype) for name, answer in test.expect(short).items()}
    assert len(find_wrong(expected, answers)) == len(expected)


def test_a_slow_product_is_reduced_to_sample_rows() -> None:
    assert blas_rates.rows_of(8192, 0.001) == 8192
    assert blas_rates.rows_of(8192, 0.17) == blas_rates.SAMPLE_ROWS, "as in double precision on a consumer GPU"
    assert blas_rates.rows_of(64, 0.001) == 64


def test_the_number_of_rounds_depends_on_the_time_of_one() -> None:
    assert round_count(0.0) == round_count(1e-9) == round_count(0.0002) == 200
    assert round_count(0.03) == 13
    assert round_count(0.5) == round_count(60.0) == 2, "a single round cannot be separated from the warm-up"


def test_a_round_of_each_rate_takes_longer_than_its_launch() -> None:
    """A launch takes the host tens of microseconds: a shorter round would measure the host."""
    fastest = max(peak.memory for peak in load(data_path("matrix.yaml")).peaks) * 1e9
    for size in gpu_test("fft.rates").LEVELS.values():
        assert 2 * 8 * size["batch"] * size["n"] / fastest > 100e-6
    for size in gpu_test("transfer.rates").LEVELS.values():
        assert 2 * (size["mib"] << 20) / fastest > 100e-6


def test_the_rate_of_a_size_halved_too_often_is_omitted() -> None:
    """It measures the host or a cache: a healthy GPU seemed slower than others, or faster than possible."""
    gpu, mib = CupyDevice(None, "normal", None, 0, 0), 1 << 20
    gpu.measure_rate("full size", 512.0 * mib, 256 * mib, 0.0001, "B/s")
    gpu.measure_rate("halved, of a slow GPU", 8.0 * mib, 4 * mib, 0.002, "B/s")
    gpu.measure_rate("halved, of a fast one", 128.0 * mib, 64 * mib, 0.00006, "B/s")
    assert list(gpu.measured) == ["full size", "halved, of a slow GPU"]
    assert gpu.measured["full size"] == (5120000.0 * mib, "B/s")


@pytest.mark.parametrize("which", ["fft.rates", "transfer.rates"])
def test_every_rate_of_a_gpu_has_a_minimum_size(which: str) -> None:
    test = gpu_test(which)
    source = inspect.getsource(type(test))
    direct = set(re.findall(r'gpu\.measure\("(\w+)"', source))
    assert direct <= {"numpy_fft", "h2d_pageable", "d2h_pageable"}, "which measure the host"
    for size in test.LEVELS.values():
        size_in_bytes = size["mib"] << 20 if "mib" in size else size["batch"] * size["n"] * 8
        assert size_in_bytes >= MIN_BYTES


def test_the_local_processors_are_read_from_a_kernel_list() -> None:
    assert parse_cpu_list("0-2,8,64-65\n") == {0, 1, 2, 8, 64, 65}
    assert parse_cpu_list("") == parse_cpu_list("\n") == parse_cpu_list("none") == set()
