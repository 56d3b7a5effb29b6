"""Errors of the CUDA runtime and of the driver API about devices: taken, missing, of another context, broken."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_RUNTIME = "CUDA runtime and driver API"
_SOURCE = "libcudart, cudaGetErrorString; driver_types.h and cuda.h of CUDA 13.0"

SIGNATURES = (
    Signature(
        "cuda.devices-unavailable",
        _RUNTIME,
        (
            "busy or unavailable",
            "unavailable or busy",
            "devicesunavailable",
            "cuda_error_device_unavailable",
            "devices unavailable",
        ),
        (
            (Cause.COMPUTE_MODE_EXCLUSIVE, 0.56),
            (Cause.DRIVER_INSTALL_BROKEN, 0.12),
            (Cause.GPU_BUSY, 0.1),
            (Cause.GPU_HARDWARE_FAULT, 0.06),
            (Cause.MIG_MISCONFIGURED, 0.04),
        ),
        _SOURCE,
        pattern=r"cuda(?:-capable)? device(?:s|\(s\)|) (?:(?:is/)?are |is )?(?:busy or unavailable|unavailable or busy)|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|(?:\bGPU|\bCUDA).{0,60}\bbusy or unavailable\b",
        title="The GPU is there, but takes no further program",
        modifiers=(
            Modifier("windows", Cause.COMPUTE_MODE_EXCLUSIVE, 0.12),  # WDDM knows the default mode only
            Modifier("windows", Cause.DRIVER_INSTALL_BROKEN, 6),
            Modifier("exclusive", Cause.COMPUTE_MODE_EXCLUSIVE, 10),
            Modifier("mig", Cause.MIG_MISCONFIGURED, 10),
            Modifier("wsl", Cause.DRIVER_INSTALL_BROKEN, 3),
        ),
        decisive_fact="the compute mode (nvidia-smi -q -d COMPUTE) and the processes that hold the GPU",
    ),
    Signature(
        "cuda.exclusive-thread",
        _RUNTIME,
        ("exclusive-thread device already in use", "cudaerrordevicealreadyinuse", "context_already_in_use"),
        ((Cause.COMPUTE_MODE_EXCLUSIVE, 0.92),),
        _SOURCE,
    ),
    Signature(
        "cuda.prohibited",
        "CUDA programs",
        ("prohibited", "exclusive_process", "exclusive process", "exclusive mode", "exclusive compute"),
        ((Cause.COMPUTE_MODE_EXCLUSIVE, 0.78),),
        "deviceQuery of cuda-samples; cudaComputeModeProhibited, driver_types.h",
        pattern=(
            r"(?:compute mode|cudaComputeMode|GPU|device).{0,60}(?:prohibited|exclusive[ _]process|exclusive mode)"
            r".{0,80}(?:error|fail|cannot|can't|unable|no threads can use|in use|busy)|compute mode prohibited.*no threads can use"
        ),
        evidence="exclusive",
    ),
    Signature(
        "cuda.invalid-device",
        _RUNTIME,
        ("invalid device ordinal", "cudaerrorinvaliddevice:", "cuda_error_invalid_device", "invalid device id"),
        ((Cause.INVALID_DEVICE_ORDINAL, 0.84), (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.06)),
        f"{_SOURCE}; torch/cuda/__init__.py; MIG User Guide, Device Enumeration: a process sees one instance",
        pattern=r"invalid device ordinal|cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE\b|AssertionError: Invalid device id",
        title="The program asks for a device number that is not there",
        modifiers=(Modifier("mig", Cause.MIG_MISCONFIGURED, 60),),
        decisive_fact="how many GPUs the process sees, and CUDA_VISIBLE_DEVICES, which numbers them anew from 0",
    ),
    Signature(
        "cuda.ecc",
        _RUNTIME,
        (
            "ecc error",
            "ecc_uncorrectable",
            "eccuncorrectable",
            "nvlink error",
            "nvlink_uncorrectable",
            "cuda_error_contained",
            "cudaerrorcontained",
            "ecc",
        ),
        ((Cause.GPU_HARDWARE_FAULT, 0.95),),
        f"{_SOURCE}; nvidia-smi, sections ECC and Remapped Rows",
        pattern=(
            r"uncorrectable (?:ECC|NVLink) error|(?:ECC_?|NVLINK_?)UNCORRECTABLE|cudaErrorContained|CUDA_ERROR_CONTAINED"
            r"|double[- ]bit ECC error|DBE .*ECC"
        ),
        title="The GPU's memory or link has an error that cannot be corrected",
    ),
    Signature(
        "smi.rows",
        "nvidia-smi",
        ("row remap", "remapping failure", "pending page", "retired pages", "remapped rows", "gpu requires reset"),
        ((Cause.GPU_HARDWARE_FAULT, 0.85),),
        "nvidia-smi -q, sections Remapped Rows and Retired Pages; nvml.h, NVML_ERROR_RESET_REQUIRED",
        pattern=(
            r"remapping failure(?: occurred)?\s*:\s*yes|pending page blacklist\s*:\s*yes|row remap(?:per|ping).*(?:fail|error)"
            r"|GPU requires reset|pending (?:row )?remapp?ing?\s*:\s*yes"
        ),
    ),
    Signature(
        "smi.rows-pending",
        "nvidia-smi",
        ("pending",),
        ((Cause.GPU_HARDWARE_FAULT, 0.85),),
        "nvidia-smi -q, section Remapped Rows; NVIDIA GPU Memory Error Management, Row Remapping",
        pattern=r"^\W*Pending\s*:\s*Yes\b",
        title="A row of the GPU's memory has failed and waits for a reset to be replaced",
        requires=("remapped-rows",),
    ),
    Signature(
        "tf.driver-matches",
        "TensorFlow",
        ("kernel version seems to match dso", "kernel reported version is"),
        ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.4), (Cause.CUDA_INITIALIZATION_FAILED, 0.15)),
        "tensorflow/stream_executor/cuda/cuda_diagnostics.cc: what is logged where cuInit has failed",
        pattern=r"kernel version seems to match DSO: \d",
        level=Level.WARNING,
        title="CUDA could not be initialised, though libcuda and the kernel module are of one version",
        modifiers=(
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 20),
            Modifier("visible-set", Cause.VISIBLE_DEVICES_HIDE_GPU, 3),
            Modifier("visible-in-code", Cause.VISIBLE_DEVICES_HIDE_GPU, 3),
        ),
        decisive_fact="what CUDA_VISIBLE_DEVICES is there, and the code that cuInit returned",
    ),
    Signature(
        "cuda.invalid-handle",
        _RUNTIME,
        (
            "invalid resource handle",
            "invalidresourcehandle",
            "deviceuninitialized",
            "cuda_error_invalid_handle",
            "cuda_error_invalid_context",
        ),
        ((Cause.CROSS_DEVICE_ARRAY, 0.45), (Cause.FORK_AFTER_CUDA_INIT, 0.15), (Cause.TORCH_CUPY_CONFLICT, 0.08)),
        f"{_SOURCE}; a stream or event used on another device than the one it was made on",
        pattern=r"invalid resource handle|cudaErrorInvalidResourceHandle|CUDA_ERROR_INVALID_(?:HANDLE|CONTEXT)\b|cudaErrorDeviceUninitialized",
        title="A stream, event or module is used on another device or in another context than its own",
        modifiers=(Modifier("multiprocessing", Cause.FORK_AFTER_CUDA_INIT, 6),),
        decisive_fact="which device is current there, and which one the stream or array was made on",
    ),
    Signature(
        "cuda.peer",
        _RUNTIME,
        ("peer access is not supported", "peeraccessunsupported", "peer_access_unsupported", "invalid peer device"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.7),),
        _SOURCE,
        title="An array of one GPU is used on another that cannot reach it",
    ),
    Signature(
        "cuda.set-too-late",
        "torch, TensorFlow and CUDA programs",
        ("after being initialized", "active in this process", "cuda_visible_devices", "visible devices"),
        ((Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.82),),
        "tensorflow/python/eager/context.py; cudaErrorSetOnActiveProcess; program logs",
        pattern=(
            r"(?:visible|physical|virtual) devices cannot be modified after being initialized|cannot set while device is active"
            r"|CUDA_VISIBLE_DEVICES.{0,80}(?:too late|no effect|already (?:been )?initiali[sz]ed|after (?:import(?:ing)? )?(?:CUDA|torch|cupy|tensorflow)|ignored|(?:is|has) (?:still )?no influence)"
        ),
        title="The devices were chosen after CUDA had been initialised",
        unless=r"CPU-only|no effect on nvidia-smi|\b(?:must|should) be set\b",
    ),
    Signature(
        "cuda.first-still-used",
        "reports",
        ("cuda_visible_devices",),
        ((Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.6),),
        "CUDA C++ Programming Guide, CUDA Environment Variables: the visible devices are numbered anew, from 0",
        pattern=r"CUDA_VISIBLE_DEVICES.{0,80}still (?:uses?|runs? on|takes?) (?:GPU|device|cuda:?) ?0",
        title="The first GPU is used although others were chosen, perhaps after CUDA had been initialised",
        decisive_fact="whether nvidia-smi shows that GPU in use: a program numbers the visible ones from 0 itself",
    ),
)
