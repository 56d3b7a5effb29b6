"""Errors of CUDA that a program prints as a number, with or without the string that belongs to it."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_ADDRESS: Weights = ((Cause.ILLEGAL_MEMORY_ACCESS, 0.45), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.42))
_LAUNCH: Weights = ((Cause.INVALID_KERNEL_LAUNCH, 0.7),)
_NO_DEVICE: Weights = (
    (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.32),
    (Cause.NO_NVIDIA_GPU, 0.14),
    (Cause.NO_DRIVER, 0.13),
    (Cause.WSL_LIBCUDA, 0.1),
    (Cause.CONTAINER_WITHOUT_GPU, 0.08),
)
_NO_CODE: Weights = ((Cause.NO_KERNEL_IMAGE, 0.6), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.2))
# By number: below 100 those that the runtime had before CUDA 10.1, with which it took over the driver's.
_CAUSES: Mapping[int, Weights] = {
    2: ((Cause.OUT_OF_MEMORY, 0.72), (Cause.GPU_BUSY, 0.1)),
    3: ((Cause.FORK_AFTER_CUDA_INIT, 0.5), (Cause.CUDA_INITIALIZATION_FAILED, 0.3)),
    4: _ADDRESS,
    7: _LAUNCH,
    8: _NO_CODE,
    9: _LAUNCH,
    10: ((Cause.INVALID_DEVICE_ORDINAL, 0.75),),
    30: ((Cause.SUSPEND_RESUME_LOST_GPU, 0.35), (Cause.CUDA_INITIALIZATION_FAILED, 0.25)),
    34: ((Cause.LIBRARY_PATH_CONFLICT, 0.9),),
    35: ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.6), (Cause.NO_DRIVER, 0.2)),
    38: _NO_DEVICE,
    39: ((Cause.GPU_HARDWARE_FAULT, 0.9),),
    46: ((Cause.COMPUTE_MODE_EXCLUSIVE, 0.5), (Cause.DRIVER_INSTALL_BROKEN, 0.12), (Cause.GPU_BUSY, 0.12)),
    48: _NO_CODE,
    59: _ADDRESS,
    74: _ADDRESS,
    77: _ADDRESS,
    98: _NO_CODE,
    100: _NO_DEVICE,
    101: ((Cause.INVALID_DEVICE_ORDINAL, 0.75), (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.08)),
    209: _NO_CODE,
    214: ((Cause.GPU_HARDWARE_FAULT, 0.9),),
    218: ((Cause.NVRTC_OUTPUT_INVALID, 0.5), (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.25)),
    222: ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.85),),
    304: ((Cause.CUDA_INITIALIZATION_FAILED, 0.35), (Cause.DEVICE_NODE_PERMISSION, 0.25)),
    400: ((Cause.CROSS_DEVICE_ARRAY, 0.4), (Cause.FORK_AFTER_CUDA_INIT, 0.15)),
    700: _ADDRESS,
    701: _LAUNCH,
    710: _ADDRESS,
    715: _ADDRESS,
    716: _ADDRESS,
    717: _ADDRESS,
    718: _ADDRESS,
    719: _ADDRESS,
    720: _LAUNCH,
    802: ((Cause.FABRIC_MANAGER_NOT_RUNNING, 0.7),),
    803: ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.7), (Cause.FORWARD_COMPAT_UNSUPPORTED, 0.1)),
    804: ((Cause.FORWARD_COMPAT_UNSUPPORTED, 0.9),),
    999: ((Cause.SUSPEND_RESUME_LOST_GPU, 0.35), (Cause.CUDA_INITIALIZATION_FAILED, 0.25)),
}
_NOT_INITIALIZED = 3


def _numbered_weights(values: Mapping[str, str]) -> Weights:
    number = int(next(iter(values.values())))
    if number == _NOT_INITIALIZED and values.keys() & {"caffe", "nvhpc", "ollama", "gst"}:
        return ((Cause.CUDA_INITIALIZATION_FAILED, 0.6),)  # these do not fork
    return () if number == 0 else _CAUSES.get(number, ((Cause.CUDA_INITIALIZATION_FAILED, 0.05),))


SIGNATURES = (
    Signature(
        "cuda.numbered",
        "CUDA programs that print an error's number",
        (
            *("unknown_cuda_error", "cuda error", "cuda runtime error", "cuda failure", "cuda_error", "cudaerror"),
            *("thcudacheck fail", "cudagetdevicecount", "cuinit", "cuda driver error", "cudaapierror"),
            *(
                "== cudasuccess (",
                "call to cu",
                "cuda driver library",
                "cuda failure",
                "cuda exception",
                "error code = cu",
            ),
        ),
        ((Cause.CUDA_INITIALIZATION_FAILED, 0.05),),
        "driver_types.h of CUDA 10.0 and 13.0 and cuda.h: the numbers of cudaError_t and CUresult; caffe, NVHPC, ollama; AdaptiveCpp, error_code",
        pattern=(
            r"\[(?P<bracket>\d{1,3})\] Call to cu\w+ results in UNKNOWN_CUDA_ERROR|\bCuda(?:API|Support)Error: \[(?P<numba>\d{1,3})\]\s*$"
            r"|\bCUDA (?:runtime |driver )?(?:failure|error)(?: code)?[: ]*\(?(?P<after>\d{1,3})\b(?! ?(?:MiB|GiB|ms|%))"
            r"|THCudaCheck FAIL .*\berror=(?P<check>\d{1,3})\b|\bcode=(?P<code>\d{1,3})\(cudaError"
            r"|(?:cudaGetDeviceCount|cuInit)(?:\(\w{0,12}\))?\W{1,5}(?:failed|returned|Error)? ?\(?(?:with )?(?:error )?(?:code )?(?P<call>\d{1,3})\b"
            r"|== cudaSuccess \((?P<caffe>\d{1,3}) vs\.? 0\)|\bcall to cu[A-Z]\w+ returned error (?P<nvhpc>\d{1,3})\b"
            r"|cuda driver library (?:init failure|failed init): (?P<ollama>\d{1,3})\b|\bcuInit err: (?P<init>\d{1,3})\b|\bCuda failure: status=(?P<gst>\d{1,3})\b"
            r"|\(error code = CU(?:DA)?:(?P<acpp>\d{1,3})\)"
        ),
        title="CUDA reports an error by its number",
        weights_fn=_numbered_weights,
        modifiers=(
            Modifier("wsl", Cause.WSL_LIBCUDA, 15),
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 20),
            Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 8),
            Modifier("driver-none", Cause.NO_DRIVER, 15),
            Modifier("exclusive", Cause.COMPUTE_MODE_EXCLUSIVE, 8),
        ),
        decisive_fact="the name that belongs to the number: driver_types.h, cudaError_t",
    ),
)
