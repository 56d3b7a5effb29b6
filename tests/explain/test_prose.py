"""Problems in the user's own words: each deciding fact and its opposite."""

from __future__ import annotations

import pytest

from gpuenv.explain.signatures.prose_versions import FIRST_BRANCH, FIRST_CUDA, LAST_BRANCH, OLDEST_BRANCH
from gpuenv.model.causes import Cause
from gpuenv.model.versions import ComputeCapability
from tests.explain.message_ranking import ranked
from tests.support.matrix import MATRIX

OLD = "CUDA driver version is insufficient for CUDA runtime version"
NO_GPUS = "RuntimeError: No CUDA GPUs are available"
ILLEGAL = "cudaErrorIllegalAddress: an illegal memory access was encountered"
NOT_FOUND = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
NO_CUBLAS = "CUBLAS_STATUS_ALLOC_FAILED"
REFUSED = "PermissionError: [Errno 13] Permission denied: '/srv/cache/torchinductor_a/kx.lock'"


@pytest.mark.parametrize(
    ("message", "fact", "cause", "opposite", "then"),
    [
        # Whose graphics are there.
        *(
            (message, fact, Cause.NO_NVIDIA_GPU, opposite, then)
            for message, then in ((OLD, Cause.DRIVER_TOO_OLD_FOR_CUDA), (NO_GPUS, Cause.VISIBLE_DEVICES_HIDE_GPU))
            for fact, opposite in (
                ("my laptop has Intel UHD Graphics 620", "my laptop has Intel UHD Graphics 620 and a GeForce MX450"),
                (
                    "I am using an integrated AMD GPU",
                    "the screen is on the integrated AMD GPU, I have an NVIDIA GPU too",
                ),
                ("GPU: Intel(R) Iris(R) Xe Graphics", "00:02.0 VGA compatible controller: Intel Corporation Iris Xe"),
                ("Graphics card: AMD Radeon Vega 8", "processor with AMD Radeon Vega 8 graphics"),
            )
        ),
        # With how many GPUs it comes.
        (
            ILLEGAL,
            "happens only when I use more than one GPU",
            Cause.CROSS_DEVICE_ARRAY,
            "happens on one GPU and on two GPUs",
            Cause.ILLEGAL_MEMORY_ACCESS,
        ),
        (
            f"{ILLEGAL} with 4 GPUs;",
            "a single GPU works",
            Cause.CROSS_DEVICE_ARRAY,
            "a single GPU does not work",
            Cause.ILLEGAL_MEMORY_ACCESS,
        ),
        (ILLEGAL, "on the second GPU", Cause.CROSS_DEVICE_ARRAY, "on the GPU", Cause.ILLEGAL_MEMORY_ACCESS),
        (
            ILLEGAL,
            "CUDA_VISIBLE_DEVICES=1 works, cuda:1 does not",
            Cause.CROSS_DEVICE_ARRAY,
            "CUDA_VISIBLE_DEVICES=1 fails too",
            Cause.ILLEGAL_MEMORY_ACCESS,
        ),
        (
            ILLEGAL,
            "without DataParallel it works",
            Cause.CROSS_DEVICE_ARRAY,
            "without DataParallel it is the same",
            Cause.ILLEGAL_MEMORY_ACCESS,
        ),
        # Whether the library is there at all, and which of them.
        (
            NOT_FOUND,
            "/opt/e/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
            Cause.CUDA_LIBRARY_MISSING,
            "/usr/lib/x86_64-linux-gnu/libcudnn.so.8",
            Cause.OPTIONAL_LIBRARY_MISSING,
        ),
        (
            NOT_FOUND,
            "libcudnn.so.9 (libc6,x86-64) => /opt/cudnn/lib/libcudnn.so.9",
            Cause.CUDA_LIBRARY_MISSING,
            "ls: cannot access '/opt/cudnn/lib/libcudnn.so.9': No such file or directory",
            Cause.OPTIONAL_LIBRARY_MISSING,
        ),
        (
            NOT_FOUND,
            "although it is in site-packages/nvidia/cudnn/lib",
            Cause.CUDA_LIBRARY_MISSING,
            "although it is not there",
            Cause.OPTIONAL_LIBRARY_MISSING,
        ),
        (
            "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}",
            "/opt/e/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9",
            Cause.CUDA_LIBRARY_MISSING,
            "/opt/e/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.8",
            Cause.OPTIONAL_LIBRARY_MISSING,
        ),
        # Where it is run.
        (
            "CUDA_ERROR_NO_DEVICE",
            "runs-on: ubuntu-latest",
            Cause.NO_NVIDIA_GPU,
            "runs-on: [self-hosted, ubuntu-22.04]",
            Cause.VISIBLE_DEVICES_HIDE_GPU,
        ),
        # Whether there is too little memory for the work, or none even for the handle.
        (
            NO_CUBLAS,
            "no matter how small the batch is",
            Cause.LIBRARY_NOT_INITIALIZED,
            "when the batch is large",
            Cause.OUT_OF_MEMORY,
        ),
        # Who shares the folder of compiled kernels.
        (
            REFUSED,
            "several users work on this machine",
            Cause.KERNEL_CACHE_RACE,
            "I am alone on this machine",
            Cause.KERNEL_CACHE_UNWRITABLE,
        ),
    ],
)
def test_a_fact_in_prose_decides_and_its_opposite_does_not(
    message: str, fact: str, cause: Cause, opposite: str, then: Cause
) -> None:
    assert ranked(f"{message}\n{fact}")[0].cause is cause
    assert ranked(f"{message}\n{opposite}")[0].cause is then


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("I kill -9 the process and the GPU memory is still not released", Cause.GPU_BUSY),
        ("after Ctrl+Z the GPU memory is never freed", Cause.GPU_BUSY),
        ("I killed the job, but nvidia-smi still shows 9 GB of memory", Cause.GPU_BUSY),
        ("I have to kill the process because the GPU memory is not released", Cause.MEMORY_POOL_RETENTION),
        ("the GPU memory is not released until I kill the kernel", Cause.MEMORY_POOL_RETENTION),
        ("out-of-memory errors in cupy with the larger array", Cause.OUT_OF_MEMORY),
        ("the training runs out of memory on the GPU", Cause.OUT_OF_MEMORY),
        ("it fails to load a CUDA library", Cause.CUDA_LIBRARY_MISSING),
        ("it fails to load a CUDA library; LD_LIBRARY_PATH contains /opt/cuda/lib64", Cause.LIBRARY_PATH_CONFLICT),
        ("the server cannot find libcublasLt.so.12", Cause.CUDA_LIBRARY_MISSING),
        ("the server cannot find libcudnn.so.9", Cause.OPTIONAL_LIBRARY_MISSING),
        ("My RTX 5080 does not boot with driver 565", Cause.GPU_TOO_NEW_FOR_DRIVER),
        ("nvidia-driver-515 is installed and the RTX 4090 is not detected", Cause.GPU_TOO_NEW_FOR_DRIVER),
        ("GTX 970: no devices, the driver is 590.44", Cause.GPU_REMOVED_FROM_DRIVER),
        ("RTX 5090 and CUDA 12.4: nvcc fails", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        ("CUDA 10.2 is installed, and the RTX 3080 is not supported", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        ("NVIDIA driver 470 and cupy-cuda12x: it fails at start", Cause.DRIVER_TOO_OLD_FOR_CUDA),
        ("with CUDA 13.0 and the driver 550.54.14 it does not run", Cause.DRIVER_TOO_OLD_FOR_CUDA),
        ("the CUDA block size exceeds 1024 threads", Cause.INVALID_KERNEL_LAUNCH),
        ("numba: blockdim (2048) exceeds the maximum threads per block", Cause.INVALID_KERNEL_LAUNCH),
        ("processes that were killed leave GPU memory allocated", Cause.GPU_BUSY),
        ("how can I free the GPU memory of a dead process?", Cause.GPU_BUSY),
        ("defunct processes hold GPU memory", Cause.GPU_BUSY),
        ("stopping the container does not release the GPU memory", Cause.GPU_BUSY),
        ("after closing the notebook the GPU memory stays occupied", Cause.GPU_BUSY),
        ("results are zeros on cuda:1 but right on cuda:0", Cause.CROSS_DEVICE_ARRAY),
        ("libcufile.so.0: cannot open shared object file: No such file or directory", Cause.CUDA_LIBRARY_MISSING),
        ("libnvinfer.so.8: cannot open shared object file: No such file or directory", Cause.OPTIONAL_LIBRARY_MISSING),
        ("Debian's NVIDIA driver 535 does not detect my GT 730", Cause.GPU_REMOVED_FROM_DRIVER),
    ],
)
def test_a_sentence_in_prose_is_recognized(text: str, cause: Cause) -> None:
    assert ranked(text)[0].cause is cause


@pytest.mark.parametrize(
    "text",
    [
        "My RTX 5080 does not boot with driver 575",
        "RTX 5080 with driver 565",
        "the RTX 5090 needs driver 570, with 565 it is not detected",
        "GTX 970 and driver 550: the screen freezes",
        "RTX 5090 and CUDA 12.8: the run fails on the last batch",
        "RTX 4090, CUDA 12.4: the test fails",
        "driver 535 and CUDA 12.4: the test fails",
        "keep the block size so that it never exceeds 1024 threads on the GPU",
        "stopping the cell does not release the lock of the GPU",
        "If you run out of memory on the GPU, reduce the batch size",
        "The scheduler retries a GPU job that ran out of memory",
        "RTX 4090, driver 550.54, CUDA 12.4: 0 errors",
        "V100 with driver 580: all tests pass, no failures",
        "RTX 3090: nvcc 11.0 fails unless PTX is used",
        "CUDA 12 fails on driver 470, as documented",
        "Max block dimensions exceed 1024 threads on this GPU: no",
        "the test works on a single GPU and on multiple GPUs",
        "If the library cannot be found, although it is in /opt/lib, set LD_LIBRARY_PATH",
        "GPU: Intel UHD Graphics 620 is used for the desktop",
        "kill the server; the GPU memory is released within a second",
        "GTX 1080: it fails on 27 of 565 images",
        "Out of memory: Killed process 4711 (python3), the GPU idles",
        "the GPU never runs out of memory with this setting",
        "my laptop has Intel UHD Graphics 620",
        "/opt/cudnn/lib/libcudnn.so.9",
        "no matter how small the batch is, the GPU is at 100 %",
        "killed by the user; the GPU memory was released",
    ],
)
def test_a_near_miss_is_not_recognized(text: str) -> None:
    assert ranked(text) == ()


@pytest.mark.parametrize(
    ("name", "number"), [("blackwell", (12, 0)), ("ada", (8, 9)), ("kepler", (3, 5)), ("pascal", (6, 1))]
)
def test_the_driver_branches_match_the_matrix(name: str, number: tuple[int, int]) -> None:
    rows = [row for row in MATRIX.generations if ComputeCapability(*number) in row.capabilities]
    assert [(row.first_branch, row.last_branch) for row in rows] == [(FIRST_BRANCH.get(name), LAST_BRANCH.get(name))]


@pytest.mark.parametrize(("name", "number"), [("blackwell", (12, 0)), ("ada", (8, 9)), ("ampere", (8, 6))])
def test_the_first_cuda_of_a_card_matches_the_matrix(name: str, number: tuple[int, int]) -> None:
    knowing = [row.cuda for row in MATRIX.cuda_minors if ComputeCapability(*number) in row.capabilities]
    assert min(knowing) == FIRST_CUDA[name]


def test_the_oldest_driver_branches_match_the_matrix() -> None:
    result = {str(row.major): int(str(row.linux).split(".")[0]) for row in MATRIX.cuda_majors if row.major > 10}
    assert result == OLDEST_BRANCH
