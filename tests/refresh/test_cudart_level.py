"""The lowest driver level that a cudart accepts, measured with the stub libcuda."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.model.versions import CudaVersion
from gpuenv.refresh.minors import compile_stub, threshold
from tests.refresh.local_index import library

_LEVELS = (CudaVersion(10, 2), CudaVersion(11, 0), CudaVersion(11, 8), CudaVersion(12, 0))
_WHEELS = {
    "11.7.99": "cc768314ae58d2641f07eac350f40f99dcb35719c4faff4bc458a7cd2b119e31",
    "11.8.89": "92d04069a987e1fbc9213f8376d265df0f7bb42617d44f5eda1f496acea7f2d1",
}
# A cudart of CUDA 11 passes four arguments; the register of the fifth holds whatever was there before, here 5.
_CUDART_11 = """
#include <dlfcn.h>
typedef int (*Get)(const char *, void **, int, unsigned long long, void *);
int cudaGetDeviceCount(int *count) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found = 0;
    int level = 0;
    Get get = (Get)dlsym(driver, "cuGetProcAddress");
    get("cuGetProcAddress", &found, 11030, 0, (void *)5);
    get = (Get)found;
    get("cuDriverGetVersion", &found, 2020, 0, (void *)5);
    ((int (*)(int *))found)(&level);
    return level < 11000 ? 35 : 100;
}
"""


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """Returns the folder of a compiled stub libcuda."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    assert compile_stub(tmp_path, os.environ)
    return tmp_path


def test_a_cudart_that_calls_the_functions_of_cuda_11_does_not_crash(stub: Path, tmp_path: Path) -> None:
    library(tmp_path, "libcudart.so.11.0", _CUDART_11, "-ldl")
    assert threshold(tmp_path / "libcudart.so.11.0", stub, _LEVELS, os.environ) == CudaVersion(11, 0)


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("version", _WHEELS)
def test_the_cudarts_of_cuda_11_accept_drivers_from_11_0_on(version: str, stub: Path, tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"nvidia-cuda-runtime-cu11=={version} --hash=sha256:{_WHEELS[version]}\n", encoding="utf-8")
    platform = ("--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:", "--no-deps")
    words = ("pip", "install", "--quiet", "--require-hashes", *platform, "--target", tmp_path / "wheel")
    command = [sys.executable, "-m", "uv", *map(str, words), "--requirements", str(requirements)]
    subprocess.run(command, check=True, timeout=600)
    (runtime,) = (tmp_path / "wheel").rglob("libcudart.so.*")
    assert threshold(runtime, stub, _LEVELS, os.environ) == CudaVersion(11, 0)
