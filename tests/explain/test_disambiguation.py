"""Evidence in the text decides between the causes of one message; its opposite, or advice to look for it, does not."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from tests.explain.ambiguous_messages import DECIDED_MESSAGES, HANDLE, MISMATCH, NO_CUDNN, NVRTC, OUT
from tests.explain.message_ranking import ranked

SURE = 0.8


@pytest.mark.parametrize(("text", "cause"), DECIDED_MESSAGES)
def test_evidence_in_the_text_decides_between_causes(text: str, cause: Cause) -> None:
    assert ranked(text)[0].cause is cause


@pytest.mark.parametrize(
    "text",
    [
        'docker: Error response from daemon: could not select device driver "". (Jetson AGX)',
        "#9 CUDA_HOME environment variable is not set",
        "conda install cudatoolkit, pip install tensorflow\nCould not load library libcudnn_ops.so.8: no such file",
        "libnvidia-ptxjitcompiler.so.1: cannot open shared object file, inside a docker container",
        "OSError: [Errno 116] Stale file handle: '/home/a/.cupy/kernel_cache/b.cubin'",
        "cupy 13.1.0 py312 conda-forge\ncupy-cuda12x 13.1.0 pypi_0 pypi",
    ],
)
def test_no_cause_is_certain_where_two_remain(text: str) -> None:
    result = ranked(text)
    assert len(result) > 1
    assert result[0].confidence < SURE


@pytest.mark.parametrize(
    "text",
    [
        "modinfo -F version nvidia: 550.90.07\n/sys/module/nvidia/version: 550.90.07",
        "nvidia/550.54.14, 6.8.0-40-generic, x86_64: installed\nuname -r: 6.8.0-40-generic",
        "driver version 570.86 is there, at least 525.60 is needed",
        "the hub dropped off the bus",
    ],
)
def test_matching_versions_are_not_an_error(text: str) -> None:
    assert not ranked(text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (f"{HANDLE}\nwith unset LD_LIBRARY_PATH it works", Cause.LIBRARY_NOT_INITIALIZED),
        (f"{OUT}\nfree_all_blocks() helps", Cause.OUT_OF_MEMORY),
        (f"{MISMATCH}\nthe image has apt-get install nvidia-utils-535 in it", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (f"{NO_CUDNN}\nTask exited with return code 0", Cause.OPTIONAL_LIBRARY_MISSING),
        (f"{NVRTC}\npip: cupy-cuda12x\n/usr/local/cuda-11.4", Cause.CUDA_LIBRARY_MISSING),
        ("ValueError: Pointer argument (at 0) cannot be accessed from Triton", Cause.CROSS_DEVICE_ARRAY),
        ("AttributeError: module 'cupy.linalg' has no attribute 'nosuch'", Cause.CUPY_API_VERSION_INCOMPATIBLE),
        ("unsupported CUDA version: driver 7.5 < image 8.0", Cause.IMAGE_REQUIRES_OTHER_DRIVER),
    ],
)
def test_evidence_in_prose_leaves_the_other_cause_possible(text: str, other: Cause) -> None:
    result = ranked(text)
    assert result[0].confidence < SURE
    assert other in [entry.cause for entry in result[:3]]


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
def test_a_near_miss_is_not_recognized(text: str) -> None:
    assert ranked(text) == ()
