"""Classification of exceptions in GPU tests: status, trouble and message."""

from __future__ import annotations

from typing import Any

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.smoke import TestStatus, Trouble
from gpuenv.smoke.payload.expected import find_wrong
from gpuenv.smoke.payload.failures import (
    CONTEXT_LOST,
    GIB,
    LIBRARY_ERRORS,
    RESERVE,
    classify,
    cuda_status,
    explain_lack_of_memory,
    first_line,
    is_memory_error,
    requested_bytes,
    verdict_on_setup_error,
)
from tests.smoke.payload import CUDARuntimeError, example, gpu_test


@pytest.mark.parametrize("status", sorted(CONTEXT_LOST))
def test_a_sticky_error_is_a_lost_context(status: int) -> None:
    trouble = classify("CUDARuntimeError", status, "cudaErrorX: words")
    assert (trouble.status, trouble.trouble) == ("crashed", "context-lost")


@pytest.mark.parametrize(
    ("codes", "passes"),
    [
        ([0, 700, 700], True),
        ([0, 719, 719], True),  # the driver of Jetson for an illegal address
        ([700, 700, 700], False),  # the launch waited for its kernel
        ([0, 0, 0], False),  # the kernel did nothing
        ([0, 700, 0], False),  # the error did not stay
        ([0, 1, 1], False),  # cudaErrorInvalidValue
        ([0, 2, 2], False),  # no memory
    ],
)
def test_an_illegal_access_has_either_of_two_codes(codes: list[int], passes: bool) -> None:  # noqa: FBT001
    expected = {"codes": example("streams.async_error").expected["codes"]}
    assert (find_wrong(expected, {"codes": gpu_test("streams.async_error").unified(codes)}) == []) is passes


@pytest.mark.parametrize(
    ("kind", "status", "text", "expected"),
    [
        ("CUDARuntimeError", 46, "all CUDA-capable devices are busy", ("busy", "device-unavailable")),
        ("CUDARuntimeError", 35, "insufficient driver", ("skipped", "no-device")),
        ("CUDARuntimeError", 100, "no device", ("skipped", "no-device")),
        ("ImportError", None, "libcuda.so.1: cannot open shared object file: No", ("skipped", "no-device")),
        ("ImportError", None, "libcublas.so.12: cannot open shared object file", ("failed", "error")),
        ("CUDADriverError", 209, "no kernel image", ("failed", "error")),
        ("ValueError", None, "whatever", ("failed", "error")),
        ("TypeError", 35.5, "a status that is not an integer", ("failed", "error")),
    ],
)
def test_an_exception_has_a_status_and_a_trouble(kind: str, status: Any, text: str, expected: tuple[str, str]) -> None:  # noqa: ANN401
    trouble = classify(kind, status, text)
    assert (trouble.status, trouble.trouble) == expected
    assert text in trouble.detail


def test_every_trouble_is_a_value_of_the_result() -> None:
    troubles = [classify("X", status, "t") for status in (46, 35, 700, 214, 209, None)]
    troubles += [explain_lack_of_memory(1, 0, 0, 80 * GIB, 0), explain_lack_of_memory(1, 0, 79 * GIB, 80 * GIB, 0)]
    for trouble in troubles:
        TestStatus(trouble.status)
        Trouble(trouble.trouble)
        assert trouble.cause is None or trouble.cause in {cause.value for cause in Cause}


@pytest.mark.parametrize(
    ("requested", "allocated", "free", "limit", "expected"),
    [
        (2 * GIB, 0, 0.5 * GIB, 0, "memory-held-by-others"),  # other processes hold 78 GiB
        (100 * GIB, 0, 79 * GIB, 0, "out-of-memory"),  # more than the GPU has
        (40 * GIB, 41 * GIB, 38 * GIB, 0, "out-of-memory"),  # too much together
        (2 * GIB, 0.5 * GIB, 79 * GIB, 1 * GIB, "out-of-memory"),  # the pool's limit
        (0, 1 * GIB, 0.1 * GIB, 0, "memory-held-by-others"),  # the requested size is unknown
    ],
)
def test_a_lack_of_memory_has_a_cause(
    requested: float, allocated: float, free: float, limit: float, expected: str
) -> None:
    trouble = explain_lack_of_memory(requested, allocated, free, 80 * GIB, limit)
    assert trouble.trouble == expected
    assert trouble.status == ("busy" if expected == "memory-held-by-others" else "failed")


# Class names of CuPy 12 to 14.
ALLOCATION_ERRORS = {
    "CUBLASError": "CUBLAS_STATUS_ALLOC_FAILED",
    "CUSOLVERError": "CUSOLVER_STATUS_ALLOC_FAILED",
    "CuSparseError": "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES: insufficient resources",
    "CuFFTError": "CUFFT_ALLOC_FAILED",
    "CURANDError": "CURAND_STATUS_ALLOCATION_FAILED",
}


@pytest.mark.parametrize("kind", ALLOCATION_ERRORS)
def test_an_allocation_error_of_a_library_is_a_memory_error(kind: str) -> None:
    assert kind in LIBRARY_ERRORS
    assert is_memory_error(kind, ALLOCATION_ERRORS[kind])
    assert not is_memory_error(kind, "CUBLAS_STATUS_EXECUTION_FAILED")
    assert not is_memory_error("ValueError", ALLOCATION_ERRORS[kind])


@pytest.mark.parametrize(
    ("kind", "text"),
    [("CUBLASError", "CUBLAS_STATUS_NOT_INITIALIZED"), ("CUSOLVERError", "CUSOLVER_STATUS_INTERNAL_ERROR")],
)
def test_a_handle_error_with_little_free_memory_is_a_memory_error(kind: str, text: str) -> None:
    assert is_memory_error(kind, text, RESERVE - 1)
    assert not is_memory_error(kind, text, RESERVE)
    assert not is_memory_error(kind, text)
    assert not is_memory_error("ValueError", text, 0)


# torch's class; messages of numba and jax from their sources and from reports of users.
OTHER_LIBRARIES = [
    ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB"),
    ("CudaAPIError", "[CUresult.CUDA_ERROR_OUT_OF_MEMORY] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
    ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes."),
    ("XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes."),
]


@pytest.mark.parametrize(("kind", "text"), OTHER_LIBRARIES)
def test_a_memory_error_of_another_library_is_recognised(kind: str, text: str) -> None:
    """It is not a MemoryError, so a healthy GPU filled by other processes would have failed."""
    assert is_memory_error(kind, text)
    assert not is_memory_error("RuntimeError", "CUDA error: an illegal memory access was encountered")


class CUBLASError(CUDARuntimeError):
    """The class of a library with its own error numbers."""


def test_an_error_number_of_a_library_is_not_a_cuda_status() -> None:
    assert cuda_status(CUDARuntimeError(700)) == 700
    assert cuda_status(CUBLASError(700)) is None
    assert cuda_status(ValueError()) is None


def test_a_lack_of_memory_for_the_context_is_a_busy_gpu() -> None:
    assert verdict_on_setup_error(CUDARuntimeError(2)).status == "busy"
    assert verdict_on_setup_error(CUDARuntimeError(35)).status == "skipped"
    assert verdict_on_setup_error(CUBLASError(2)).status == "failed"


def test_the_requested_size_is_read_from_cupys_message() -> None:
    message = "Out of memory allocating 2,129,920 bytes (allocated so far: 512 bytes, limit set to: 1,048,576 bytes)."
    assert requested_bytes(MemoryError(message)) == 2129920
    assert requested_bytes(MemoryError("Out of memory")) == 0
    assert requested_bytes(MemoryError("allocating")) == 0


def test_the_original_error_of_a_failed_import_is_reported() -> None:
    frame = "=" * 60
    message = (
        f"\n{frame}\nFailed to import CuPy.\n\nadvice\n\nOriginal error:\n  ImportError: libx.so: not there\n{frame}\n"
    )
    assert first_line(ImportError(message)) == "ImportError: libx.so: not there"
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
