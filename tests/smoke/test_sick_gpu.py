"""A GPU that computes products or transforms wrong does not pass, at any level: on the stand-in for CuPy."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.smoke.payload.cupy_device import CupyDevice
from gpuenv.smoke.payload.expected import find_wrong, repeated
from gpuenv.smoke.payload.tests import blas
from gpuenv.smoke.tasks import all_tests
from tests.smoke.payload import LEVELS, gpu_test
from tests.smoke.standin import SICKNESSES, errors, make

if TYPE_CHECKING:
    from pathlib import Path

PRODUCTS = (
    *("blas.matmul_f16", "blas.matmul_f32", "blas.matmul_f64", "blas.matmul_c64", "blas.matmul_tf32"),
    *("blas.matmul_int8", "blas.batched", "blas.vectors"),
)
TRANSFORMS = ("fft.complex", "fft.real", "fft.dimensions")
BURN_IN = {"n": 128, "seconds": 0.3, "mib": 2}


def sizes() -> list[Any]:
    """Each of these tests at each of its levels; the deep sizes take a processor minutes."""
    return [
        pytest.param(which, level, id=f"{which}-{level}", marks=[pytest.mark.slow] if level == "deep" else [])
        for which in (*PRODUCTS, *TRANSFORMS)
        for level in gpu_test(which).LEVELS
    ]


@pytest.mark.parametrize(("which", "level"), sizes())
def test_a_sick_gpu_passes_at_no_level(which: str, level: str) -> None:
    size = gpu_test(which).LEVELS[level]
    assert errors(which, size)[0] == [], "a healthy one passes"
    for sickness in SICKNESSES:
        assert errors(which, size, sickness)[0], sickness


@pytest.mark.parametrize(
    ("which", "size", "counts"),
    [
        # All rows, and a sample of them.
        ("blas.rates", {"n": 100, "host": 64}, {"f16_whole_wrong", "f32_whole_wrong", "f64_whole_wrong"}),
        ("blas.rates", {"n": 300, "host": 64}, {"f16_whole_wrong", "f32_whole_wrong", "f64_whole_wrong"}),
        ("fft.rates", {"batch": 40, "n": 512}, {"wrong"}),
    ],
)
def test_every_element_of_a_measured_result_is_compared(which: str, size: dict[str, int], counts: set[str]) -> None:
    assert errors(which, size)[0] == [], "a healthy one passes"
    for sickness in SICKNESSES:
        assert counts <= {text.partition(":")[0] for text in errors(which, size, sickness)[0]}, sickness


def test_blocks_of_a_measured_product_that_change_places_are_noticed() -> None:
    numbers = repeated(4096, blas.Rates.DISTINCT)
    assert np.bincount(numbers).tolist() == [64] * 64
    for step in (8, 16, 32, 64, 128, 256, 512, 1024, 2048):
        assert not np.array_equal(numbers, np.roll(numbers, step)), step


@pytest.mark.parametrize(
    "level", ["quick", pytest.param("normal", marks=pytest.mark.long), pytest.param("deep", marks=pytest.mark.slow)]
)
def test_tf32_in_place_of_single_precision_fails_at_every_level(level: str) -> None:
    found, _ = errors("blas.matmul_f32", gpu_test("blas.matmul_f32").LEVELS[level], "TF32")
    assert any(text.startswith("whole: ") for text in found)


@pytest.mark.parametrize(("sickness", "chosen"), [(None, 0.0), ("TF32", 1.0)])
def test_whether_tf32_was_chosen_is_measured_and_does_not_fail(sickness: str | None, chosen: float) -> None:
    found, device = errors("blas.matmul_tf32", {"n": 256}, sickness)
    assert found == []
    assert device.measured["tf32_chosen"] == (chosen, "1")


def test_a_spectrum_that_is_two_percent_too_large_fails_at_the_largest_length() -> None:
    test = gpu_test("fft.complex")
    x = {"65536": test.inputs(np.random.default_rng(7), {"lengths": [65536]})["65536"]}
    expected = test.expect(x)
    scaled = {name: (answer.value * 1.02).astype(answer.dtype) for name, answer in expected.items()}
    assert len(find_wrong(expected, scaled)) == 2
    # Errors that are small each and too large together.
    bound = {name: answer.value + answer.bound * 0.9 for name, answer in expected.items()}
    wrong = find_wrong(expected, {name: value.astype(expected[name].dtype) for name, value in bound.items()})
    assert all("in the 2-norm" in text for text in wrong)
    assert len(wrong) == 2


@pytest.mark.parametrize("test", all_tests(), ids=lambda test: test.name)
def test_a_level_runs_the_sizes_of_the_levels_below_it(test: Any) -> None:  # noqa: ANN401 - a test of the payload
    """What a lower level rejects, a higher one rejects too."""
    previous: tuple[Any, ...] = ()
    for level in SmokeLevel:
        assert test.sizes_up_to(level)[: len(previous)] == previous
        previous = test.sizes_up_to(level)
    assert len(previous) == len([level for level in LEVELS if level in test.sizes])


@pytest.mark.parametrize("which", ["kernels.transcendental", "kernels.indexing"])
def test_what_programs_use_most_is_computed_as_numpy_does(which: str) -> None:
    assert errors(which, {"n": 3001})[0] == []


# Shared memory.

# Makes CUDA C of one block a C function of one thread; an element of ``block`` changes between writing and reading.
AS_C = """
int block[1 << 16], changed;
struct { int x; } threadIdx = {0}, blockDim = {1};
#define __global__
#define __shared__
#define __syncthreads() (block[changed] ^= 1 << 20)
"""


class OneBlock(CupyDevice):
    """The stand-in with a kernel that the host's C compiler compiles."""

    def __init__(self, folder: Path, shared_bytes: int) -> None:
        super().__init__(make(), "normal", None, 1 << 30, 2 << 30)
        self.folder = folder
        self.shared_bytes = shared_bytes
        self.changed = 0

    def attribute(self, number: int) -> int:
        return self.shared_bytes if number == gpu_test("kernels.shared_memory").OPT_IN else 0

    def compile(self, source: str, name: str) -> Any:  # noqa: ANN401 - a function of grid, block and arguments
        library = self.folder / f"{name}.so"
        if not library.exists():
            compiler = shutil.which("cc") or pytest.skip("no C compiler")
            command = [compiler, "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
            code = AS_C + source.replace('extern "C"', "")
            subprocess.run(command, input=code, text=True, check=True, timeout=60)
        loaded = ctypes.CDLL(str(library))
        ctypes.c_int.in_dll(loaded, "changed").value = self.changed

        def launch(_grid: Any, _block: Any, arguments: Any, shared_mem: int) -> None:  # noqa: ANN401
            assert shared_mem == self.shared_bytes
            x, y, words, n = arguments
            getattr(loaded, name)(
                x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), int(words), int(n)
            )

        return launch


@pytest.mark.parametrize("shared_bytes", [48 << 10, 99 << 10, 227 << 10])
def test_a_wrong_word_anywhere_in_shared_memory_is_noticed(tmp_path: Path, shared_bytes: int) -> None:
    test, gpu, words = gpu_test("kernels.shared_memory"), OneBlock(tmp_path, shared_bytes), shared_bytes // 4
    inputs = test.inputs(np.random.default_rng(7), test.LEVELS["normal"])
    expected = test.expect(inputs)

    def is_right(changed: int) -> bool:
        gpu.changed = changed
        return not find_wrong(expected, test.run(gpu, inputs))

    assert is_right(words), "a change beyond the block does not matter"
    assert [changed for changed in (*range(0, words, 509), words - 1) if is_right(changed)] == []


# Several GPUs.


@pytest.mark.parametrize("devices", [2, 17])
def test_a_wrong_answer_of_any_of_several_gpus_is_noticed(devices: int) -> None:
    assert errors("multi.each", {"n": 11}, devices=devices)[0] == []
    assert errors("multi.each", {"n": 11}, devices=devices, wrong_device=1)[0]


def test_a_gpu_that_repeats_the_work_of_another_is_compared_with_it() -> None:
    for wrong in (0, 16):
        with pytest.raises(ValueError, match="of devices 0 and 16 differ"):
            errors("multi.each", {"n": 11}, devices=17, wrong_device=wrong)


# The burn-in.


def test_a_burn_in_of_a_healthy_gpu_passes_and_compares_every_product() -> None:
    found, device = errors("health.sustained", BURN_IN)
    assert found == []
    assert device.measured["products_compared"][0] >= 4
    assert device.measured["memory_tested"] == (2.0 * (1 << 20), "B")


@pytest.mark.parametrize("sickness", [entry for entry in SICKNESSES if entry != "transposed"])
def test_any_product_of_a_burn_in_that_differs_fails(sickness: str) -> None:
    """The first products are right: the GPU gets sick when it is warm."""
    found, _ = errors("health.sustained", BURN_IN, sickness, after=40)
    assert any(text.startswith("differing_f") for text in found), found


def test_a_wrong_word_of_memory_fails_the_burn_in() -> None:
    found, _ = errors("health.sustained", BURN_IN, wrong_words=1)
    assert [text.partition(":")[0] for text in found] == ["wrong_words"]


def test_a_falling_rate_of_the_burn_in_is_measured() -> None:
    _, device = errors("health.sustained", {**BURN_IN, "seconds": 2}, slowdown=1.05)
    for kind in ("f32", "f16"):
        first, last = (device.measured[f"sustained_{kind}_{when}"][0] for when in ("first", "last"))
        assert last < 0.8 * first
