"""A second value or line decides between similar messages, each with its opposite."""

from __future__ import annotations

import pytest

from gpuenv.explain.signatures import all_signatures
from gpuenv.model.causes import Cause
from tests.explain.message_ranking import ranked

REPORTED = (
    "E cuda_driver.cc:406] failed call to cuInit: CUDA_ERROR_NO_DEVICE\n"
    "I cuda_diagnostics.cc:189] libcuda reported version is: 384.111.0\n"
    "I cuda_diagnostics.cc:193] kernel reported version is: {}.0"
)
NOT_FOUND = "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.13.0-1025-gcp"
SYNTAX = (
    '  File "/usr/lib/python{}/dist-packages/cupyx/_ufunc_config.py", line 17\n'
    "    def errstate(*, divide=None):\nSyntaxError: invalid syntax"
)
CONFIG = "CUDA Driver Version          : {}\nCUDA Runtime Version         : {}\nthe tests end with an error"
NCCL = "AttributeError: module 'cupy.cuda.{}' has no attribute '{}'"
WHEEL = "{}: onnxruntime_gpu-1.17.1-cp310-cp310-win_amd64.whl is not a supported wheel on this platform"
LEGACY = "NVRM: The NVIDIA Tesla K80 GPU installed in this system"
NO_ARCHITECTURE = "nvrtc: error: invalid value for --gpu-architecture (-arch)"
NO_CUFFT = "cupy/core/: ImportError: libcufft.so.10: cannot open shared object file: No such file or directory"
NO_NAME = "ImportError: cannot import name 'ndarray' from 'cupy.core'"
CUPY_START = 'File "/x/cupy/core/__init__.py", line 1, in <module>\n    from cupy.core import ndarray'
CUDF_START = 'File "/x/cudf/core/a.py", line 1, in <module>\n    from cupy.core import ndarray'
APART = "works on cuda:0, but raises CUDA_ERROR_ILLEGAL_ADDRESS error in cuda:1"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (REPORTED.format("384.90"), Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (REPORTED.format("384.111"), Cause.VISIBLE_DEVICES_HIDE_GPU),
        (f"{NOT_FOUND}\ninsmod /lib/modules/5.13.0-1024-gcp/kernel/nvidia.ko", Cause.DRIVER_KERNEL_INCOMPATIBLE),
        (f"{NOT_FOUND}\nls /lib/modules/5.13.0-1025-gcp/kernel/", Cause.DRIVER_MODULE_NOT_LOADED),
        (SYNTAX.format("2.7"), Cause.PYTHON_UNSUPPORTED),
        (SYNTAX.format("3.6"), Cause.PYTHON_UNSUPPORTED),
        (SYNTAX.format("3.12"), None),
        (CONFIG.format(11020, 12040), Cause.DRIVER_TOO_OLD_FOR_CUDA),
        (CONFIG.format(11020, 11030), Cause.DRIVER_TOO_OLD_FOR_CUDA),
        (CONFIG.format(12040, 12040), None),
        (CONFIG.format(13000, 12040), None),
        (CONFIG.format(11020, 11030).rpartition("\n")[0], None),
        (NCCL.format("nccl", "get_unique_id"), Cause.OPTIONAL_LIBRARY_MISSING),
        (NCCL.format("memory", "nothing"), Cause.CUPY_API_VERSION_INCOMPATIBLE),
        (WHEEL.format("Python 3.11 on Windows"), Cause.PYTHON_UNSUPPORTED),
        (APART, Cause.CROSS_DEVICE_ARRAY),
        ("works on the CPU, but raises CUDA_ERROR_ILLEGAL_ADDRESS on the GPU", Cause.ILLEGAL_MEMORY_ACCESS),
        ("hipErrorInvalidValue: invalid argument", Cause.INVALID_KERNEL_LAUNCH),
        ("RuntimeError: HIP error: out of memory", Cause.OUT_OF_MEMORY),
        ("hipErrorNoDevice: no ROCm-capable device is detected", Cause.ROCM_MISMATCH),
        ("cupy: hipcc: command not found", Cause.ROCM_MISMATCH),
        ("cupy\n  nvcc command       : (not found)\n  hipcc command      : (not found)", None),
        ("Could not load library libcudnn_ops.so.8. Error: no such file", Cause.OPTIONAL_LIBRARY_MISSING),
        ("this program needs at least compute capability 7.0", Cause.REQUIREMENT_NOT_MET),
        ("no device with minimum required compute capability 3.5, CUDA", Cause.REQUIREMENT_NOT_MET),
        ("CUDA: requires compute capability >= 7.0, your GPU has 8.6: OK", None),
        (
            "Your Tesla V100 GPU (compute capability 7.0) is not supported on CUDA 13+.",
            Cause.GPU_REMOVED_FROM_TOOLKIT,
        ),
        ("docker build -t a .\nNo CUDA runtime is found", Cause.DOCKERFILE_FAULT),
        ("docker run -it a\nNo CUDA runtime is found", Cause.CONTAINER_WITHOUT_GPU),
        ("slurmd: fatal: MIG mode is enabled, but no MIG devices were found.", Cause.MIG_MISCONFIGURED),
        ("Detected that PyTorch and torchvision were compiled with different CUDA versions.", Cause.MIXED_PIP_CONDA),
        (f"{LEGACY} is\nNVRM:  supported through the NVIDIA 470.xx Legacy drivers.", Cause.GPU_REMOVED_FROM_DRIVER),
        (f"NVIDIA-SMI has failed\n{LEGACY} is", Cause.GPU_REMOVED_FROM_DRIVER),
        (f"{LEGACY} is working, the driver says", None),
        ("I use an AMD GPU\nFound no NVIDIA driver on your system.", Cause.NO_NVIDIA_GPU),
        ("I use a GPU\nFound no NVIDIA driver on your system.", Cause.NO_DRIVER),
        ("Error: No CUDA driver found", Cause.NO_DRIVER),
        ("no CUDA driver is needed for this page", None),
        ('No Python at "C:\\Users\\me\\python.exe"', Cause.TARGET_ENVIRONMENT_BROKEN),
        ("There is no Python at school", None),
        ("all subsequent NVML calls hang in D state", Cause.DRIVER_UNRESPONSIVE),
        (f"nvcc: release 7.5, CUDA 7.5, TITAN X (Pascal)\n{NO_ARCHITECTURE}", Cause.GPU_TOO_NEW_FOR_TOOLKIT),
        (f"CUDA 12.0, TITAN X (Pascal)\n{NO_ARCHITECTURE}", Cause.GPU_REMOVED_FROM_TOOLKIT),
        (
            f"FROM_IMAGE=nvidia/cudagl:10.1-base-ubuntu18.04\npip install cupy-cuda101\n{NO_CUFFT}",
            Cause.CUDA_LIBRARY_MISSING,
        ),
        (f"pip install cupy-cuda101\n{NO_CUFFT}", Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR),
        (f"{CUPY_START}\n{NO_NAME}", Cause.CORRUPT_INSTALLATION),
        (f"{CUDF_START}\n{NO_NAME}", Cause.CUPY_API_VERSION_INCOMPATIBLE),
        ("You are running using the stub version of nvrtc", Cause.LIBRARY_PATH_CONFLICT),
        ("libnvidia-ml.so in GDK package is a stub library that is attached only for", Cause.LIBRARY_PATH_CONFLICT),
        ("`ollama` fails to work with `CUDA` after `Linux` suspend/resume", Cause.SUSPEND_RESUME_LOST_GPU),
    ],
)
def test_a_second_value_or_line_decides(text: str, cause: Cause | None) -> None:
    result = ranked(text)
    assert (result[0].cause if result else None) is cause, result


def test_a_failed_dll_is_not_certainly_missing() -> None:
    result = ranked("Could not load library cudnn_cnn_infer64_8.dll. Error code 126")
    assert {entry.cause for entry in result[:2]} == {Cause.OPTIONAL_LIBRARY_MISSING, Cause.WINDOWS_DLL_LOAD_FAILURE}
    assert result[0].confidence < 0.8


def test_every_modifier_changes_a_weight() -> None:
    idle = [
        signature.name
        for signature in all_signatures()
        if any(modifier.factor == 1 for modifier in signature.modifiers)
    ]
    assert idle == []
