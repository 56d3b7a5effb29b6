"""Interoperation with other libraries: which side is at fault when the two fail together."""

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
# As numba-cuda 0.30.4 fails with NumPy 2.5, whatever the GPU (its issue 907), without any part of CuPy.
FAILING = "raise AttributeError(\"module 'numpy' has no attribute 'row_stack'\")"
WORKING = "print('fine')"


def gpu_is_shared() -> bool:
    return True


def gpu_is_exclusive() -> bool:
    return False


def raising(error: Exception) -> Callable[[], Any]:
    def work() -> None:
        raise error

    return work


def test_a_library_that_works_with_cupy_is_not_run_alone() -> None:
    assert run_with_library("numba", FAILING, gpu_is_shared, lambda: 7) == 7


def test_a_library_that_also_fails_without_cupy_is_skipped() -> None:
    with pytest.raises(Skip) as skip:
        run_with_library("numba", FAILING, gpu_is_shared, raising(AttributeError("row_stack")))
    message = "numba does not work here even without CuPy: AttributeError: module 'numpy' has no attribute 'row_stack'"
    assert str(skip.value) == message


def test_a_library_that_fails_only_with_cupy_is_a_failure() -> None:
    with pytest.raises(ValueError, match="together"):
        run_with_library("torch", WORKING, gpu_is_shared, raising(ValueError("together")))


def test_a_gpu_without_room_for_a_second_process_fails_the_test() -> None:
    with pytest.raises(ValueError, match="together"):
        run_with_library("torch", FAILING, gpu_is_exclusive, raising(ValueError("together")))


def test_an_inapplicable_test_stays_skipped() -> None:
    with pytest.raises(Skip, match="CPU-only"):
        run_with_library("torch", FAILING, gpu_is_shared, raising(Skip("CPU-only")))


def test_a_memory_error_is_raised_unchanged() -> None:
    """CuPy's OutOfMemoryError derives from MemoryError."""
    with pytest.raises(MemoryError):
        run_with_library("torch", FAILING, gpu_is_shared, raising(MemoryError("Out of memory allocating 512 bytes")))


class OutOfMemoryError(RuntimeError):
    """Like torch's class, which does not derive from MemoryError."""


def test_an_out_of_memory_error_of_a_library_is_raised_unchanged() -> None:
    """Alone it would also find no memory, and the test would be skipped on a busy GPU."""
    with pytest.raises(OutOfMemoryError):
        run_with_library(
            "torch",
            FAILING,
            gpu_is_shared,
            raising(OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")),
        )


def test_the_error_is_the_line_with_the_exception() -> None:
    assert error_without_cupy(WORKING) is None
    assert error_without_cupy("raise ValueError('one\\ntwo')") == "ValueError: one"
    assert error_without_cupy("try: 1 / 0\nexcept ZeroDivisionError: raise KeyError('k')") == "KeyError: 'k'"
    assert error_without_cupy("import os; os._exit(3)") == "it ended with exit code 3"
    assert error_without_cupy("import time; time.sleep(60)", seconds=0.5) is None


def test_a_warning_is_not_an_error() -> None:
    """Whatever filters the caller has set."""
    assert error_without_cupy("import warnings; raise SystemExit(warnings.filters[0][0] != 'ignore')") is None


def test_files_of_the_working_folder_are_not_imported() -> None:
    assert error_without_cupy("import sys; raise SystemExit('' in sys.path)") is None


def test_each_library_has_a_program_without_cupy() -> None:
    assert INTEROP == ["interop.jax", "interop.numba", "interop.torch"]
    for which in INTEROP:
        program = ast.parse(gpu_test(which).STANDALONE)
        imports = [node for node in ast.walk(program) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not any("cupy" in ast.unparse(node) for node in imports)
        assert any(which.partition(".")[2] in ast.unparse(node) for node in imports)


@pytest.mark.parametrize("which", ["interop.numba", "interop.torch"])
def test_a_library_gets_an_array_of_numpy_without_cupy_too(which: str) -> None:
    """torch before 2.3 refuses the arrays of NumPy 2: "Numpy is not available"."""
    program = gpu_test(which).STANDALONE
    assert "(numpy.arange(" in program
    message = error_without_cupy("import sys\nsys.modules['numpy'] = None\n" + program)
    assert message == "ModuleNotFoundError: import of numpy halted; None in sys.modules"
