"""Rarer errors of the CUDA runtime and of the driver API, by enumerator and by the string that the library gives."""

from __future__ import annotations

import re

from gpuenv.explain.explanation_types import Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_SOURCE = "libcudart 12.9, cudaGetErrorName and cudaGetErrorString of every number; cuda.h of CUDA 13.0"
_LAUNCH: Weights = ((Cause.INVALID_KERNEL_LAUNCH, 0.78),)
_ADDRESS: Weights = ((Cause.ILLEGAL_MEMORY_ACCESS, 0.55), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.25))
_PEER: Weights = ((Cause.CROSS_DEVICE_ARRAY, 0.62),)
_DRIVER: Weights = ((Cause.DRIVER_INSTALL_BROKEN, 0.45), (Cause.LIBRARY_PATH_CONFLICT, 0.25))
_CONTEXT: Weights = ((Cause.FORK_AFTER_CUDA_INIT, 0.36), (Cause.CROSS_DEVICE_ARRAY, 0.25))

# Name, the runtime's enumerator, the driver's, the string, and the causes.
_ERRORS: tuple[tuple[str, str, str, str, Weights], ...] = (
    ("not-configured", "MissingConfiguration", "", "__global__ function call is not configured", _LAUNCH),
    ("nested-depth", "LaunchMaxDepthExceeded", "", "launch would exceed maximum depth of nested launches", _LAUNCH),
    (
        "sync-depth",
        "SyncDepthExceeded",
        "",
        "caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth",
        _LAUNCH,
    ),
    (
        "pending-count",
        "LaunchPendingCountExceeded",
        "",
        "launch would exceed cudaLimitDevRuntimePendingLaunchCount",
        _LAUNCH,
    ),
    (
        "cluster-size",
        "InvalidClusterSize",
        "INVALID_CLUSTER_SIZE",
        "kernel launch error has occurred due to cluster misconfiguration",
        _LAUNCH,
    ),
    ("device-pointer", "InvalidDevicePointer", "", "invalid device pointer", _ADDRESS),
    (
        "address-space",
        "InvalidAddressSpace",
        "INVALID_ADDRESS_SPACE",
        "operation not supported on global/shared address space",
        _ADDRESS,
    ),
    ("program-counter", "InvalidPc", "INVALID_PC", "invalid program counter", _ADDRESS),
    ("stack", "HardwareStackError", "HARDWARE_STACK_ERROR", "hardware stack error", _ADDRESS),
    (
        "peer-enabled",
        "PeerAccessAlreadyEnabled",
        "PEER_ACCESS_ALREADY_ENABLED",
        "peer access is already enabled",
        _PEER,
    ),
    ("peer-not-enabled", "PeerAccessNotEnabled", "PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled", _PEER),
    ("peers", "TooManyPeers", "TOO_MANY_PEERS", "peer mapping resources exhausted", _PEER),
    (
        "shared-object-symbol",
        "SharedObjectSymbolNotFound",
        "SHARED_OBJECT_SYMBOL_NOT_FOUND",
        "shared object symbol not found",
        _DRIVER,
    ),
    (
        "shared-object-init",
        "SharedObjectInitFailed",
        "SHARED_OBJECT_INIT_FAILED",
        "shared object initialization failed",
        _DRIVER,
    ),
    ("integrity", "SoftwareValidityNotEstablished", "", "cuda error: integrity checks failed", _DRIVER),
    ("context-destroyed", "ContextIsDestroyed", "CONTEXT_IS_DESTROYED", "context is destroyed", _CONTEXT),
    ("device-context", "DeviceUninitialized", "", "invalid device context", _CONTEXT),
    (
        "startup",
        "StartupFailure",
        "",
        "startup failure in cuda runtime",
        ((Cause.CUDA_INITIALIZATION_FAILED, 0.65),),
    ),
    (
        "jit-disabled",
        "JitCompilationDisabled",
        "JIT_COMPILATION_DISABLED",
        "PTX JIT compilation was disabled",
        ((Cause.NO_KERNEL_IMAGE, 0.7),),
    ),
    (
        "contained",
        "Contained",
        "CONTAINED",
        "invalid access of peer GPU memory over nvlink or a hardware error",
        ((Cause.GPU_HARDWARE_FAULT, 0.75), (Cause.ILLEGAL_MEMORY_ACCESS, 0.1)),
    ),
    (
        "not-permitted",
        "NotPermitted",
        "NOT_PERMITTED",
        "cuda error: operation not permitted(?! (?:on|when))",
        ((Cause.DEVICE_NODE_PERMISSION, 0.35), (Cause.CUDA_INITIALIZATION_FAILED, 0.3)),
    ),
    (
        "connections",
        "MpsMaxConnectionsReached",
        "MPS_MAX_CONNECTIONS_REACHED",
        "resources required to support device connections have been exhausted",
        ((Cause.GPU_BUSY, 0.4), (Cause.CUDA_INITIALIZATION_FAILED, 0.3)),
    ),
    ("wait", "Timeout", "TIMEOUT", "wait operation timed out", ((Cause.DRIVER_UNRESPONSIVE, 0.55),)),
)


def _signature(name: str, runtime: str, driver: str, text: str, causes: Weights) -> Signature:
    spoken = re.split(r"\(\?", text)[0].lower()
    literals = [f"cudaerror{runtime}".lower(), spoken, *([f"cuda_error_{driver}".lower()] if driver else [])]
    forms = [rf"cudaError{runtime}\b", text, *([rf"CUDA_ERROR_{driver}\b"] if driver else [])]
    return Signature(
        f"cuda.rare-{name}",
        "CUDA runtime and driver API",
        tuple(literals),
        causes,
        _SOURCE,
        pattern="|".join(forms),
        asynchronous=causes is _ADDRESS,
        decisive_fact="the call that fails, by the last frames of the traceback, with CUDA_LAUNCH_BLOCKING=1",
    )


SIGNATURES = (
    *(_signature(*row) for row in _ERRORS),
    Signature(
        "cudart.dimensions",
        "CUDA runtime",
        ("values that exceed the device limit",),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.93),),
        "libcudart 13, the strings of the binary: the sentences behind an error",
        title="The grid or the block of a launch is larger than the GPU allows",
    ),
    Signature(
        "cudart.device-number",
        "CUDA runtime",
        ("invalid device number",),
        ((Cause.INVALID_DEVICE_ORDINAL, 0.92),),
        "libcudart 13, the strings of the binary: the sentences behind an error",
        pattern=r"Invalid device number \d+ provided",
        title="The program asks for a device number that is not there",
    ),
    Signature(
        "cudart.driver-level",
        "CUDA runtime",
        ("insufficient driver: ",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.95),),
        "libcudart 13, the strings of the binary: the sentences behind an error",
        pattern=r"Insufficient driver: (?P<found>\d+) < (?P<needed>\d+)",
        title="The driver is of level {found}, the CUDA runtime wants {needed}",
    ),
    Signature(
        "cudart.no-driver",
        "CUDA runtime",
        ("failed to load cuda driver!",),
        ((Cause.NO_DRIVER, 0.62), (Cause.CONTAINER_WITHOUT_GPU, 0.12), (Cause.WSL_LIBCUDA, 0.05)),
        "libcudart 13, the strings of the binary: the sentences behind an error",
        title="The CUDA runtime found no libcuda, which only the driver brings",
        modifiers=(Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8), Modifier("wsl", Cause.WSL_LIBCUDA, 40)),
        decisive_fact="whether nvidia-smi works there, and whether this is a container or WSL",
    ),
    Signature(
        "cuda.symbol-not-found",
        "the CUDA runtime and its callers",
        ("named symbol not found", "cudaerrorsymbolnotfound"),
        ((Cause.NO_KERNEL_IMAGE, 0.5),),
        "libcudart 12.9, cudaGetErrorString of number 500",
        modifiers=(
            Modifier("jetson", Cause.JETSON_TEGRA, 60),
            Modifier("wsl", Cause.WSL_LIBCUDA, 60),
            Modifier("cupy-driver-error", Cause.NO_KERNEL_IMAGE, 0.2),  # a kernel of that name is not in the module
        ),
        decisive_fact="whether the binary was built for this GPU, and whether the kernel's name is what the module has",
    ),
    Signature(
        "cuda.file-not-found",
        "the CUDA driver and its callers",
        ("cuda_error_file_not_found",),
        ((Cause.KERNEL_CACHE_RACE, 0.4), (Cause.CORRUPT_INSTALLATION, 0.15), (Cause.KERNEL_CACHE_UNWRITABLE, 0.1)),
        "cuda.h, CUDA_ERROR_FILE_NOT_FOUND: a file of code that cuModuleLoad was to load is not there",
        title="A file of compiled kernels is gone, or was never written",
        decisive_fact="where the file lies, and whether several processes write that folder",
    ),
)
