"""One further fact decides what an ambiguous message means; its contrary, or advice to look for it, does not."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from tests.explain.ranking import ranked

SURE = 0.8
OUT = "torch.cuda.OutOfMemoryError: CUDA out of memory."
HANDLE = "RuntimeError: CUBLAS_STATUS_NOT_INITIALIZED"
UNSEEN = "RuntimeError: no CUDA-capable device is detected"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NVRTC = "RuntimeError: CuPy failed to load libnvrtc.so.12"
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
ASSERT = "RuntimeError: CUDA error: device-side assert triggered"
IMAGE = "CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid (cupy)"
CUDNN = "libcudnn.so.9: cannot open shared object file"
NO_CUPY = "ModuleNotFoundError: No module named 'cupy'"
BLAS = "ImportError: libcublas.so.12: cannot open shared object file"
HEADER = 'cannot open source file "cuda_fp16.h"'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # Which library is found first.
        (HANDLE, Cause.LIBRARY_NOT_INITIALIZED),
        (f"{HANDLE}\nwith unset LD_LIBRARY_PATH it works", Cause.LIBRARY_PATH_CONFLICT),
        (f"{HANDLE}\nunset LD_LIBRARY_PATH and try again", Cause.LIBRARY_NOT_INITIALIZED),
        (f"{MISMATCH}\nemptying LD_LIBRARY_PATH cures it", Cause.LIBRARY_PATH_CONFLICT),
        (f"{UNSEEN}\nLD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs", Cause.LIBRARY_PATH_CONFLICT),
        (f"{UNSEEN}\nLD_LIBRARY_PATH=/usr/local/cuda/lib64", Cause.VISIBLE_DEVICES_HIDE_GPU),
        # Whose packages.
        (f"{HANDLE}\nwithout import tensorflow it works", Cause.TORCH_CUPY_CONFLICT),
        (f"{HANDLE}\nimport tensorflow comes first", Cause.LIBRARY_NOT_INITIALIZED),
        (f"{HANDLE}\nconda list: cudatoolkit 11.8; nvidia-cublas-cu12 12.1 (pypi)", Cause.MIXED_PIP_CONDA),
        (f"{NVRTC}\ncupy-cuda11x and cupy-cuda12x", Cause.MULTIPLE_CUPY_PACKAGES),
        (f"{NO_CUPY}\npip list: cupy-gpu 0.1", Cause.UNTRUSTED_PACKAGE_NAME),
        (f"{NO_CUPY}\npip install cupy-cuda12x", Cause.CUPY_NOT_INSTALLED),
        (f"{HANDLE}\nthe md5sums of libcublasLt.so.12 differ", Cause.CORRUPT_INSTALLATION),
        (f"{HANDLE}\nthe md5sums are the same", Cause.LIBRARY_NOT_INITIALIZED),
        # Which CUDA is there, and which was meant.
        (f"{NVRTC}\npip: cupy-cuda12x\n/usr/local/cuda-11.4", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
        (f"{NVRTC}\npip: cupy-cuda12x\n/usr/local/cuda-12.4", Cause.CUDA_LIBRARY_MISSING),
        (f"{NVRTC}\npip: cupy-cuda12x\nnvidia-smi says CUDA 13.0", Cause.CUDA_LIBRARY_MISSING),
        (HEADER, Cause.CUDA_HEADERS_MISSING),
        (f"{HEADER}\nCUDA_PATH=/opt/cuda-12.0 was deleted", Cause.CUDA_PATH_WRONG),
        # What an image was made with.
        (f"{MISMATCH}\nthe image has apt-get install nvidia-utils-535 in it", Cause.DOCKERFILE_FAULT),
        (f"{MISMATCH}\napt-get install nvidia-utils-535", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (f"{UNSEEN} at docker build", Cause.DOCKERFILE_FAULT),
        (f"{BLAS}\nthe Dockerfile copies only /app to the second stage", Cause.DOCKERFILE_FAULT),
        ("cudaErrorInsufficientDriver\nan older image works", Cause.IMAGE_REQUIRES_OTHER_DRIVER),
        ("cudaErrorInsufficientDriver\nan older driver was there", Cause.DRIVER_TOO_OLD_FOR_CUDA),
        # Whose memory.
        (f"{OUT}\nfree_all_blocks() helps", Cause.MEMORY_POOL_RETENTION),
        (f"{OUT}\nfree_all_blocks() changes nothing", Cause.OUT_OF_MEMORY),
        (f"{OUT}\nmemory_allocated() 20 MB, memory_reserved() 19.5 GB", Cause.MEMORY_POOL_RETENTION),
        (f"{OUT} If reserved memory is >> allocated memory try setting max_split_size_mb", Cause.OUT_OF_MEMORY),
        # Who forked, which device, who launched.
        (f"{HANDLE}\ngunicorn --preload", Cause.FORK_AFTER_CUDA_INIT),
        (f"{HANDLE}\ngunicorn -w 4", Cause.LIBRARY_NOT_INITIALIZED),
        (f"{ILLEGAL}\nthe layers are on separate GPUs", Cause.CROSS_DEVICE_ARRAY),
        (f"{ASSERT}\n----> 3 x.cpu()", Cause.ASYNC_ERROR_SURFACED_LATE),
        (f"{ASSERT}\n----> 3 loss(x, y)", Cause.ILLEGAL_MEMORY_ACCESS),
        ("cudaErrorInvalidValue: invalid argument\nin pointerGetAttributes", Cause.CROSS_DEVICE_ARRAY),
        # One alone, or many.
        (IMAGE, Cause.CUPY_TOO_OLD_FOR_GPU),
        (f"{IMAGE}\na re-run works", Cause.KERNEL_CACHE_RACE),
        (f"{IMAGE}\noptions=('-dlto',)", Cause.NVRTC_OUTPUT_INVALID),
        # It only looks like a fault.
        (CUDNN, Cause.OPTIONAL_LIBRARY_MISSING),
        (f"{CUDNN}\nTask exited with return code 0", Cause.OPTIONAL_LIBRARY_PROBE_MISREAD),
        (f"{CUDNN}\nTask exited with return code 1", Cause.OPTIONAL_LIBRARY_MISSING),
        # A build of CuPy, and any other.
        ("nvcc fatal   : Unsupported gpu architecture 'compute_100'", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        (
            "pip install cupy failed\nnvcc fatal   : Unsupported gpu architecture 'compute_100'",
            Cause.CUPY_SDIST_BUILD_FAILURE,
        ),
    ],
)
def test_a_fact_decides(text: str, cause: Cause) -> None:
    assert ranked(text)[0].cause is cause


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (f"{HANDLE}\nwith unset LD_LIBRARY_PATH it works", Cause.LIBRARY_NOT_INITIALIZED),
        (f"{OUT}\nfree_all_blocks() helps", Cause.OUT_OF_MEMORY),
        (f"{MISMATCH}\nthe image has apt-get install nvidia-utils-535 in it", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (f"{CUDNN}\nTask exited with return code 0", Cause.OPTIONAL_LIBRARY_MISSING),
        (f"{NVRTC}\npip: cupy-cuda12x\n/usr/local/cuda-11.4", Cause.CUDA_LIBRARY_MISSING),
        ("ValueError: Pointer argument (at 0) cannot be accessed from Triton", Cause.CROSS_DEVICE_ARRAY),
        ("AttributeError: module 'cupy.linalg' has no attribute 'nosuch'", Cause.CUPY_API_VERSION_INCOMPATIBLE),
        ("unsupported CUDA version: driver 7.5 < image 8.0", Cause.IMAGE_REQUIRES_OTHER_DRIVER),
    ],
)
def test_what_is_decided_by_words_is_not_sure_and_leaves_the_other(text: str, other: Cause) -> None:
    said = ranked(text)
    assert said[0].confidence < SURE
    assert other in [entry.cause for entry in said[:3]]


@pytest.mark.parametrize(
    "text",
    [
        # Healthy, or another program's.
        "[CpuDevice(id=0)]",
        "exec format error",
        "TypeError: f() got an unexpected keyword argument 'axis'",
        "AttributeError: 'numpy.ndarray' object has no attribute 'get'",
        "OverflowError: Python integer -1 out of bounds for uint8",
        "trying to overwrite '/usr/bin/a', which is also in package b",
        "bash: ./run.sh: No such file or directory",
        "warning: The file `a/__init__.py` is provided by more than one package",
        "Cannot install on any Python version",
        "BLAS = 1 | AVX = 1",
        "['CUDAExecutionProvider', 'CPUExecutionProvider']",
        "free_all_blocks() helps",
    ],
)
def test_what_comes_near_is_not_claimed(text: str) -> None:
    assert ranked(text) == ()
