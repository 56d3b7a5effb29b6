"""NVML's errors by their strings."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

_NVML = "NVML"
_STRINGS = "nvmlErrorString, libnvidia-ml; nvml.h, nvmlReturn_t"

SIGNATURES = (
    Signature(
        "nvml.version-mismatch",
        _NVML,
        ("library version mismatch", "lib_rm_version_mismatch"),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.95),),
        _STRINGS,
        pattern=r"driver ?/ ?library version mismatch|LIB_RM_VERSION_MISMATCH",
        title="The loaded kernel module and the driver's libraries are of different versions",
    ),
    Signature(
        "nvml.not-found",
        _NVML,
        (
            "nvml shared library not found",
            "nvmlerror_library",
            "nvml_error_library_not_found",
            "nvml library not found",
            "nvml: error_library_not_found",
        ),
        (
            (Cause.NO_DRIVER, 0.5),
            (Cause.CONTAINER_WITHOUT_GPU, 0.2),
            (Cause.DRIVER_INSTALL_BROKEN, 0.1),
            (Cause.CONTAINER_DRIVER_CAPABILITIES, 0.06),
        ),
        f"{_STRINGS}; nvidia-ml-py, NVMLError_LibraryNotFound",
        pattern=r"NVML Shared Library Not Found|NVML_ERROR_LIBRARY_NOT_FOUND|NVML: ERROR_LIBRARY_NOT_FOUND|NVMLError_Library|(?<!load )NVML library not found",
        title="The loader does not find libnvidia-ml, a part of the driver",
        modifiers=(
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 4),
            Modifier("kubernetes", Cause.CONTAINER_TOOLKIT_BROKEN, 6),
            Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
            Modifier("wsl", Cause.WSL_LIBCUDA, 8),
            Modifier("caps-without-utility", Cause.CONTAINER_DRIVER_CAPABILITIES, 30),
        ),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
    Signature(
        "nvml.unknown-error",
        _NVML,
        ("nvml",),
        (
            (Cause.CONTAINER_CGROUP_LOST_GPU, 0.75),
            (Cause.GPU_HARDWARE_FAULT, 0.06),
            (Cause.DEVICE_NODE_PERMISSION, 0.05),
        ),
        f"{_STRINGS}: NVML_ERROR_UNKNOWN",
        pattern=r"(?<!container-cli: detection error: )(?<!container-cli: initialization error: )(?:initiali[sz]e )?NVML(?:Error)?:? (?:ERROR: )?Unknown Error",
        title="NVML does not answer: a container's access to its device nodes was taken away",
        modifiers=(
            Modifier("container", Cause.CONTAINER_CGROUP_LOST_GPU, 3),
            Modifier("host", Cause.CONTAINER_CGROUP_LOST_GPU, 0.05),
            Modifier("host", Cause.GPU_HARDWARE_FAULT, 4),
            Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 8),
            # The hook is configured to leave the cgroup alone, as only rootless engines need it.
            Modifier("no-cgroups", Cause.CONTAINER_TOOLKIT_BROKEN, 100),
            Modifier("no-cgroups", Cause.CONTAINER_CGROUP_LOST_GPU, 0.2),
        ),
        decisive_fact="whether nvidia-smi works on the host at the same time",
    ),
    Signature(
        "nvml.not-loaded",
        _NVML,
        ("driver not loaded", "error_driver_not_loaded", "driver is not loaded"),
        ((Cause.DRIVER_MODULE_NOT_LOADED, 0.75), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.1), (Cause.NO_DRIVER, 0.08)),
        f"{_STRINGS}: NVML_ERROR_DRIVER_NOT_LOADED",
        pattern=r"(?:NVML|nvidia)\S*:? .*driver (?:is )?not loaded|(?:NVML\S*|NVML: )ERROR_DRIVER_NOT_LOADED|nvml error: driver not loaded",
        modifiers=(
            Modifier("nouveau", Cause.NOUVEAU_LOADED, 20),
            Modifier("secure-boot", Cause.DRIVER_KERNEL_INCOMPATIBLE, 8),
            Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 8),
            Modifier("wsl", Cause.WSL_LIBCUDA, 8),
        ),
        decisive_fact="what sudo modprobe nvidia answers",
    ),
    Signature(
        "nvml.no-permission",
        _NVML,
        ("insufficient permissions", "error_no_permission"),
        ((Cause.DEVICE_NODE_PERMISSION, 0.85),),
        f"{_STRINGS}: NVML_ERROR_NO_PERMISSION",
        pattern=r"NVML.*insufficient permissions|NVML\w*ERROR_NO_PERMISSION|nvidia-smi.*insufficient permissions",
        title="This user may not open the driver's device nodes",
    ),
    Signature(
        "nvml.function-not-found",
        _NVML,
        ("function not found",),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.45), (Cause.DRIVER_INSTALL_BROKEN, 0.4)),
        f"{_STRINGS}: NVML_ERROR_FUNCTION_NOT_FOUND",
        pattern=r"NVML\S*:? .*function not found",
        title="The libnvidia-ml that is found is of another driver than the program expects",
        decisive_fact="the versions in /proc/driver/nvidia/version and in the name of libnvidia-ml.so.*",
    ),
    Signature(
        "nvml.blocked",
        _NVML,
        ("blocked by the operating system",),
        ((Cause.WSL_LIBCUDA, 0.75), (Cause.CONTAINER_CGROUP_LOST_GPU, 0.06)),
        f"{_STRINGS}: NVML_ERROR_OPERATING_SYSTEM",
        pattern="GPU access blocked by the operating system",
        title="The system, WSL in most cases, does not give access to the GPU",
    ),
    Signature(
        "nvml.gpu-lost",
        _NVML,
        ("gpu is lost", "error_gpu_is_lost", "gpu_is_lost"),
        ((Cause.GPU_HARDWARE_FAULT, 0.92),),
        f"{_STRINGS}: NVML_ERROR_GPU_IS_LOST",
        pattern=r"GPU is lost|GPU_IS_LOST",
        title="The GPU fell off the bus",
    ),
    Signature(
        "nvml.rm-mismatch",
        _NVML,
        ("nvml/rm version mismatch",),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.95),),
        "nvidia-ml-py, the words of its exceptions: NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        title="The loaded kernel module and the driver's libraries are of different versions",
    ),
    Signature(
        "nvml.hardware",
        _NVML,
        ("insufficient external power", "interrupt request issue", "inforom", "gpu requires restart"),
        ((Cause.GPU_HARDWARE_FAULT, 0.78),),
        "nvidia-ml-py, the words of its exceptions; nvidia-smi, return value 14",
        pattern=(
            r"insufficient external power|interrupt request issue|infoROM is corrupted|corrupted infoROM|GPU requires restart"
        ),
        title="NVML reports a fault of the GPU or of its power supply",
    ),
    Signature(
        "nvml.timeout",
        _NVML,
        ("nvml",),
        ((Cause.DRIVER_UNRESPONSIVE, 0.7),),
        "nvidia-ml-py, the words of its exceptions: NVML_ERROR_TIMEOUT",
        pattern=r"NVML(?:Error)?\w*: Timeout\b",
        title="A call into the driver does not come back",
    ),
    Signature(
        "nvml.os-blocked",
        _NVML,
        ("operating system has blocked the request", "nvml: n/a"),
        ((Cause.WSL_LIBCUDA, 0.45), (Cause.CONTAINER_CGROUP_LOST_GPU, 0.35)),
        "nvidia-ml-py, the words of its exceptions: NVML_ERROR_OPERATING_SYSTEM; nvidia-smi in WSL",
        modifiers=(Modifier("wsl", Cause.WSL_LIBCUDA, 8), Modifier("container", Cause.CONTAINER_CGROUP_LOST_GPU, 3)),
        decisive_fact="whether this is WSL or a container",
    ),
)
