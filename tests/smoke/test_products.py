"""Products as sound libraries really compute them: within the bounds; and what is wrong in them is not."""

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


def in_parts(a: Array, b: Array, parts: int, rounded: Any) -> Array:  # noqa: ANN401 - a function of arrays
    """A @ B, the sums split into parts that are kept, and added, in the type of the result.

    So cuBLAS may do it unless it is asked not to, and does where few blocks would leave most of a GPU idle.
    """
    a, b = a.astype("d"), b.astype("d")
    place = np.linspace(0, a.shape[1], parts + 1).astype(int)
    total = np.zeros((a.shape[0], b.shape[1]))
    for first, last in pairwise(place):
        total = rounded(total + rounded(a[:, first:last] @ b[first:last]))
    return total


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("seed", [1, 2])
def test_half_precision_may_be_summed_in_parts(parts: int, seed: int) -> None:
    given = blas_matmul_f16.inputs(np.random.default_rng(seed), {"n": 512})
    c = in_parts(given["a"], given["b"], parts, half)
    assert find_wrong(blas_matmul_f16.expect(given), {"c": c.astype("e")}) == []


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
def test_bfloat16_may_be_summed_in_parts(parts: int) -> None:
    given = blas_matmul_bf16.inputs(np.random.default_rng(1), {"n": 512})
    got = {
        "c": in_parts(given["a"], given["b"], parts, bfloat16).astype("f"),
        "whole": in_parts(given["whole_a"], given["whole_b"], parts, bfloat16).astype("f"),
    }
    assert find_wrong(blas_matmul_bf16.expect(given), got) == []


@pytest.mark.parametrize("n", [16, 512, 2048])
def test_the_whole_numbers_of_bfloat16_stay_within_what_it_holds(n: int) -> None:
    given = blas_matmul_bf16.inputs(np.random.default_rng(3), {"n": n})
    most = np.abs(given["whole_a"]) @ np.abs(given["whole_b"])
    assert 10 < most.max() <= 256


@pytest.mark.parametrize("test", [blas_matmul_f16, blas_matmul_bf16])
def test_a_term_that_is_left_out_is_still_seen(test: Any) -> None:  # noqa: ANN401 - a module
    given = test.inputs(np.random.default_rng(1), {"n": 128})
    there = np.arange(136) != 7
    short = {name: x * there if name.endswith("a") else x for name, x in given.items()}
    expected = test.expect(given)
    got = {name: answer.value.astype(expected[name].dtype) for name, answer in test.expect(short).items()}
    assert len(find_wrong(expected, got)) == len(expected)


def test_a_product_that_would_take_seconds_is_cut_down() -> None:
    assert blas_rates.rows_of(8192, 0.001) == 8192
    assert blas_rates.rows_of(8192, 0.17) == blas_rates.SAMPLE_ROWS, "as in double precision on what is made for games"
    assert blas_rates.rows_of(64, 0.001) == 64


def test_a_measurement_is_long_enough_for_the_clocks_to_rise_and_short_enough_to_be_waited_for() -> None:
    assert round_count(0.0) == round_count(1e-9) == round_count(0.0002) == 200
    assert round_count(0.03) == 13
    assert round_count(0.5) == round_count(60.0) == 2, "one alone is not told from what goes before it"


def test_a_round_of_each_rate_takes_the_gpu_longer_than_the_host() -> None:
    """Which needs tens of microseconds to ask for a transform: else the rate would be the host's."""
    fastest = max(peak.memory for peak in load(data_path("matrix.yaml")).peaks) * 1e9
    for size in gpu_test("fft.rates").LEVELS.values():
        assert 2 * 8 * size["batch"] * size["n"] / fastest > 100e-6
    for size in gpu_test("transfer.rates").LEVELS.values():
        assert 2 * (size["mib"] << 20) / fastest > 100e-6


def test_the_rate_of_a_size_that_was_halved_too_often_is_not_told() -> None:
    """It is that of the host that asks, or of a cache: a sound GPU was slower than its sisters, or than it can be."""
    gpu, mib = CupyDevice(None, "normal", None, 0, 0), 1 << 20
    gpu.measure_rate("whole", 512.0 * mib, 256 * mib, 0.0001, "B/s")
    gpu.measure_rate("halved, of a slow GPU", 8.0 * mib, 4 * mib, 0.002, "B/s")
    gpu.measure_rate("halved, of a fast one", 128.0 * mib, 64 * mib, 0.00006, "B/s")
    assert list(gpu.measured) == ["whole", "halved, of a slow GPU"]
    assert gpu.measured["whole"] == (5120000.0 * mib, "B/s")


@pytest.mark.parametrize("which", ["fft.rates", "transfer.rates"])
def test_each_rate_of_the_gpu_is_told_so_and_at_all_where_there_is_room(which: str) -> None:
    test = gpu_test(which)
    source = inspect.getsource(type(test))
    direct = set(re.findall(r'gpu\.measure\("(\w+)"', source))
    assert direct <= {"numpy_fft", "h2d_pageable", "d2h_pageable"}, "which time the host"
    for size in test.LEVELS.values():
        given = size["mib"] << 20 if "mib" in size else size["batch"] * size["n"] * 8
        assert given >= MIN_BYTES


def test_the_processors_beside_a_gpu_are_read_as_the_kernel_lists_them() -> None:
    assert parse_cpu_list("0-2,8,64-65\n") == {0, 1, 2, 8, 64, 65}
    assert parse_cpu_list("") == parse_cpu_list("\n") == parse_cpu_list("none") == set()
