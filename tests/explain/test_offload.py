"""Messages of the runtimes of other compilers, and near misses."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from tests.explain.message_ranking import ranked

SYCL = "Native API failed. Native API returns: 1 ({})"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "requested shared memory size of 147456 bytes larger than allowed size of 101376",
            Cause.INVALID_KERNEL_LAUNCH,
        ),
        (
            "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 9, available: 8",
            Cause.INVALID_KERNEL_LAUNCH,
        ),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Allocation of 9 bytes failed", Cause.OUT_OF_MEMORY),
        (SYCL.format("UR_RESULT_ERROR_OUT_OF_RESOURCES"), Cause.OUT_OF_MEMORY),
        (SYCL.format("UR_RESULT_ERROR_INVALID_WORK_GROUP_SIZE"), Cause.INVALID_KERNEL_LAUNCH),
        (SYCL.format("PI_ERROR_INVALID_BINARY"), Cause.NO_KERNEL_IMAGE),
        ("cuda_queue: (error code = CUDA:700)", Cause.ILLEGAL_MEMORY_ACCESS),
        ("cuda_module_cache: could not obtain number of devices (error code = CU:2)", Cause.OUT_OF_MEMORY),
        (
            "File was compiled without -gpu\nRebuild this file with -gpu=cc80 to use NVIDIA Tesla GPU 0",
            Cause.NO_KERNEL_IMAGE,
        ),
        ("libcuda.so lib not found\nArch=[<Arch.cuda: 3>] is not supported, falling back to CPU", Cause.NO_DRIVER),
        ("nvidia: * Device #1: Not enough allocatable device memory for this attack.", Cause.OUT_OF_MEMORY),
        ("Specified kernel cache directory is not writable!", Cause.KERNEL_CACHE_UNWRITABLE),
    ],
)
def test_a_message_of_a_runtime_is_recognized(text: str, cause: Cause) -> None:
    assert ranked(text)[0].cause is cause


@pytest.mark.parametrize(
    "text",
    [
        'not enough shared memory for data structure "lock hash" (8192 bytes requested)',
        "Can't shmget, probably not enough shared memory space free: Invalid argument",
        "File size larger than allowed size of 10MB",
        "requested shared memory size: 48 KiB",
        "* Device #1: Not enough allocatable device memory for this attack.",
        "guards against outdated or broken NVIDIA drivers",
        "UR_RESULT_SUCCESS",
        "WebGPU is not supported, falling back to CPU",
        "Arch=[<Arch.vulkan: 8>] is not supported, falling back to CPU",
        "Offer has insufficient resources to launch a task",
        "zeDeviceGet: Could not obtain number of devices (error code = ze:0)",
        "Kokkos::Cuda::initialize WARNING: the device is used by several ranks",
        "the engine plan file was generated on this device",
    ],
)
def test_a_near_miss_is_not_recognized(text: str) -> None:
    assert ranked(text) == ()
