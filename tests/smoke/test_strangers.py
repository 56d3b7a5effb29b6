"""Other libraries beside CuPy: whose fault it is when the two fail together."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.smoke.payload.cupy_device import Skip
from gpuenv.smoke.payload.tests.interop import error_without_cupy, run_with_library
from tests.smoke.payload import NAMES, gpu_test

if TYPE_CHECKING:
    from collections.abc import Callable

INTEROP = [which for which in NAMES if hasattr(gpu_test(which), "STANDALONE")]
# As numba-cuda 0.30.4 fails with NumPy 2.5, whatever the GPU (its issue 907): nothing of CuPy's is in it.
BROKEN = "raise AttributeError(\"module 'numpy' has no attribute 'row_stack'\")"
SOUND = "print('fine')"


def shared() -> bool:
    return True


def taken() -> bool:
    return False


def raising(error: Exception) -> Callable[[], Any]:
    def work() -> None:
        raise error

    return work


def test_what_works_together_is_not_asked_again() -> None:
    assert run_with_library("numba", BROKEN, shared, lambda: 7) == 7


def test_a_library_that_fails_by_itself_too_says_nothing_of_cupy() -> None:
    with pytest.raises(Skip) as skip:
        run_with_library("numba", BROKEN, shared, raising(AttributeError("row_stack")))
    said = "numba does not work here even without CuPy: AttributeError: module 'numpy' has no attribute 'row_stack'"
    assert str(skip.value) == said


def test_a_library_that_works_by_itself_and_not_with_cupy_is_a_failure() -> None:
    with pytest.raises(ValueError, match="together"):
        run_with_library("torch", SOUND, shared, raising(ValueError("together")))


def test_where_no_second_process_gets_in_the_library_is_not_blamed() -> None:
    with pytest.raises(ValueError, match="together"):
        run_with_library("torch", BROKEN, taken, raising(ValueError("together")))


def test_a_test_that_does_not_apply_is_not_asked_about() -> None:
    with pytest.raises(Skip, match="CPU-only"):
        run_with_library("torch", BROKEN, shared, raising(Skip("CPU-only")))


def test_a_lack_of_memory_is_told_as_such() -> None:
    """As CuPy's OutOfMemoryError, which is a MemoryError."""
    with pytest.raises(MemoryError):
        run_with_library("torch", BROKEN, shared, raising(MemoryError("Out of memory allocating 512 bytes")))


class OutOfMemoryError(RuntimeError):
    """As torch's, which is no MemoryError."""


def test_nor_is_another_library_blamed_for_its_own_lack_of_memory() -> None:
    """By itself it would find none either, and the test would be skipped where the GPU is busy."""
    with pytest.raises(OutOfMemoryError):
        run_with_library(
            "torch", BROKEN, shared, raising(OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"))
        )


def test_a_complaint_is_the_line_with_the_exception() -> None:
    assert error_without_cupy(SOUND) is None
    assert error_without_cupy("raise ValueError('one\\ntwo')") == "ValueError: one"
    assert error_without_cupy("try: 1 / 0\nexcept ZeroDivisionError: raise KeyError('k')") == "KeyError: 'k'"
    assert error_without_cupy("import os; os._exit(3)") == "it ended with exit code 3"
    assert error_without_cupy("import time; time.sleep(60)", seconds=0.5) is None


def test_a_warning_is_no_complaint() -> None:
    """Whatever the caller's own settings make of one."""
    assert error_without_cupy("import warnings; raise SystemExit(warnings.filters[0][0] != 'ignore')") is None


def test_files_of_the_working_folder_take_no_part() -> None:
    assert error_without_cupy("import sys; raise SystemExit('' in sys.path)") is None


def test_each_library_has_a_program_that_leaves_cupy_out() -> None:
    assert INTEROP == ["interop.jax", "interop.numba", "interop.torch"]
    for which in INTEROP:
        program = ast.parse(gpu_test(which).STANDALONE)
        imports = [node for node in ast.walk(program) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not any("cupy" in ast.unparse(node) for node in imports)
        assert any(which.partition(".")[2] in ast.unparse(node) for node in imports)
