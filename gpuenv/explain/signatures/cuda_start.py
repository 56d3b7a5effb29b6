"""Errors of the CUDA runtime and of the driver API when they start: no device, no driver, one that does not fit."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

_RUNTIME = "CUDA runtime and driver API"
_SOURCE = "libcudart, cudaGetErrorString; driver_types.h and cuda.h of CUDA 13.0"
# What CUDA's own text names has a signature of its own.
_NAMED = (
    r"\W{1,4}(?:no CUDA-capable|CUDA driver version|system (?:not yet|has unsupp)|unknown error|out of memory|forward compat"
    r"|initialization error|unsupported display)"
)
NO_DEVICE_SWAYS = (
    Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 40),
    Modifier("wsl", Cause.WSL_LIBCUDA, 25),
    Modifier("!wsl", Cause.WSL_LIBCUDA, 0.5),
    Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 9),
    Modifier("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 6),
    Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
    Modifier("driver-none", Cause.NO_DRIVER, 15),
    Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 15),
    Modifier("gpu-none", Cause.NO_DRIVER, 3),
    Modifier("nouveau", Cause.NOUVEAU_LOADED, 30),
    Modifier("jetson", Cause.DEVICE_NODE_PERMISSION, 5),
    Modifier("driver-not-running", Cause.DRIVER_MODULE_NOT_LOADED, 5),
    Modifier("reported-not-loaded", Cause.DRIVER_MODULE_NOT_LOADED, 30),
    Modifier("compat", Cause.FORWARD_COMPAT_UNSUPPORTED, 20),
    Modifier("mig", Cause.MIG_MISCONFIGURED, 15),
    Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 10),
    Modifier("root-may", Cause.DEVICE_NODE_PERMISSION, 40),
)

SIGNATURES = (
    Signature(
        "cuda.no-device",
        _RUNTIME,
        (
            *("no cuda-capable device", "cudaerrornodevice", "cuda_error_no_device", "cudagetdevicecount returned"),
            *("supporting cuda", "support cuda", "supports cuda"),
        ),
        (
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.32),
            (Cause.NO_NVIDIA_GPU, 0.14),
            (Cause.NO_DRIVER, 0.13),
            (Cause.WSL_LIBCUDA, 0.12),
            (Cause.DRIVER_MODULE_NOT_LOADED, 0.08),
            (Cause.CONTAINER_WITHOUT_GPU, 0.08),
            (Cause.DEVICE_NODE_PERMISSION, 0.06),
            (Cause.DRIVER_INSTALL_BROKEN, 0.05),
            (Cause.MIG_MISCONFIGURED, 0.02),
            (Cause.NOUVEAU_LOADED, 0.02),
            (Cause.FORWARD_COMPAT_UNSUPPORTED, 0.01),
            (Cause.SUSPEND_RESUME_LOST_GPU, 0.02),
        ),
        f"{_SOURCE}; deviceQuery of cuda-samples, before and since CUDA 5",
        pattern=(
            r"(?<!error: )cudaErrorNoDevice|CUDA_ERROR_NO_DEVICE|(?<!initialization error: cuda error: )no CUDA-capable device is detected"
            r"|cudaGetDeviceCount returned (?:38|100)\b|there (?:is|are) no (?:available )?(?:device(?:s|\(s\))?|GPUs?|(?:graphics |video )?cards?) (?:that |which )?support(?:ing|s)? CUDA"
        ),
        title="CUDA sees no GPU",
        modifiers=NO_DEVICE_SWAYS,
        decisive_fact="what nvidia-smi -L lists in the same shell, and the value of CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "cuda.insufficient-driver",
        _RUNTIME,
        (
            *("driver version is insufficient", "cudaerrorinsufficientdriver", "cudagetdevicecount returned 35"),
            *("insufficient driver", "insufficient nvidia driver", "insufficient cuda driver"),
        ),
        (
            (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.62),
            (Cause.NO_DRIVER, 0.22),
            (Cause.CONTAINER_WITHOUT_GPU, 0.06),
            (Cause.LIBRARY_PATH_CONFLICT, 0.03),
        ),
        f"{_SOURCE}; a cudart 12 answers the same where there is no driver at all",
        pattern=r"driver version is insufficient for CUDA runtime|cudaErrorInsufficientDriver|cudaGetDeviceCount returned 35|(?:NVIDIA|CUDA)[: ]{1,2}insufficient (?:\w+ )?driver|insufficient (?:NVIDIA|CUDA) driver\b",
        title="The CUDA runtime found no driver that is new enough",
        modifiers=(
            Modifier("driver-older", Cause.DRIVER_TOO_OLD_FOR_CUDA, 15),
            Modifier("driver-newer", Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.2),
            Modifier("driver-newer", Cause.LIBRARY_PATH_CONFLICT, 6),
            Modifier("driver-none", Cause.NO_DRIVER, 25),
            Modifier("gpu-none", Cause.NO_DRIVER, 5),
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 3),
            Modifier("started-without-gpu", Cause.CONTAINER_WITHOUT_GPU, 12),
            Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.1),
            # Under WSL the driver is the one of Windows, or a Linux libcuda shadows it: both are this cause.
            Modifier("wsl", Cause.WSL_LIBCUDA, 80),
            Modifier("wsl", Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.3),
        ),
        decisive_fact="the driver's version: --assume driver=VERSION, or driver=none",
    ),
    Signature(
        "cuda.not-by-driver",
        "CUDA bindings of other languages",
        ("not supported by", "only supports nvidia drivers", "driver only supports", "driver supports"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.85),),
        "CUDA.jl and CUDAapi.jl: what they say where cuDriverGetVersion is below the toolkit",
        pattern=(
            r"(?:CUDA|toolkit) (?:toolkit |version )?v?\d[\d.]* (?:toolkit )?(?:is )?not supported by (?:your|the|this) (?:\w+ )?driver"
            r"|only supports NVIDIA drivers for CUDA \d\S* or (?:higher|newer)|driver (?:only supports|supports only)(?: up to)? CUDA \d[\d.]*,? (?:but|while)"
        ),
        title="The driver is older than the CUDA that the program brings",
    ),
    Signature(
        "cuda.newer-driver-call",
        _RUNTIME,
        ("api call is not supported in the installed", "callrequiresnewerdriver", "call_requires_newer_driver"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.9),),
        _SOURCE,
        title="A library calls what this driver does not have yet",
    ),
    Signature(
        "cuda.system-not-ready",
        _RUNTIME,
        ("system not yet initialized", "systemnotready", "system_not_ready", "error 802", "returned 802"),
        ((Cause.FABRIC_MANAGER_NOT_RUNNING, 0.76), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.06)),
        _SOURCE,
        pattern=r"system not yet initialized|SYSTEM_?NOT_?READY|(?:error|returned) \(?802\b",
        title="CUDA waits for the NVSwitch fabric to be set up",
        evidence="system-not-ready",
        modifiers=(Modifier("nvswitch-gpu", Cause.FABRIC_MANAGER_NOT_RUNNING, 5),),
        decisive_fact="whether the GPU is on an NVSwitch board, and the state of nvidia-fabricmanager on the host",
    ),
    Signature(
        "cuda.system-driver-mismatch",
        _RUNTIME,
        ("unsupported display driver", "systemdrivermismatch", "system_driver_mismatch", "error 803", "returned 803"),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.78), (Cause.FORWARD_COMPAT_UNSUPPORTED, 0.1)),
        _SOURCE,
        pattern=r"unsupported display driver|SYSTEM_?DRIVER_?MISMATCH|(?:error|returned) \(?803\b",
        title="libcuda does not belong to the loaded kernel module",
        modifiers=(
            Modifier("compat", Cause.FORWARD_COMPAT_UNSUPPORTED, 40),
            Modifier("compat", Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.4),
            Modifier("container", Cause.FORWARD_COMPAT_UNSUPPORTED, 2),
        ),
        decisive_fact="whether a libcuda of cuda-compat is loaded: LD_LIBRARY_PATH, /usr/local/cuda/compat",
    ),
    Signature(
        "cuda.compat-not-supported",
        _RUNTIME,
        ("forward compatibility", "compatnotsupportedondevice", "compat_not_supported_on", "error 804"),
        ((Cause.FORWARD_COMPAT_UNSUPPORTED, 0.95),),
        _SOURCE,
        pattern=r"forward compatibility (?:(?:was|is) attempted|on (?:non-?|un) ?supported (?:HW|hardware|GPU|device))|COMPAT_?NOT_?SUPPORTED_?ON_?DEVICE|error \(?804\b",
        title="A libcuda of cuda-compat is in use on a GPU that does not allow it",
    ),
    Signature(
        "cuda.unknown",
        _RUNTIME,
        (
            "cuda_error_unknown",
            "failed: unknown error",
            "cudaerrorunknown",
            "unknown_error(99",
            "cuda unknown error",
            "cuda error: unknown error",
            "returned 30",
            "error (30)",
            "999",
        ),
        (
            (Cause.SUSPEND_RESUME_LOST_GPU, 0.4),
            (Cause.CUDA_INITIALIZATION_FAILED, 0.2),
            (Cause.NO_DRIVER, 0.08),
            (Cause.DEVICE_NODE_MISSING, 0.1),
            (Cause.CONTAINER_CGROUP_LOST_GPU, 0.04),
            (Cause.DEVICE_NODE_PERMISSION, 0.03),
            (Cause.DRIVER_INSTALL_BROKEN, 0.03),
        ),
        _SOURCE,
        pattern=(
            r"CUDA_ERROR_UNKNOWN|cudaErrorUnknown|cuInit failed: unknown error|UNKNOWN_ERROR\(99|CUDA unknown error|CUDA error: unknown error|\b(?:CUDA|cuda\w*|cu(?-i:[A-Z])\w+)\b.{0,80}(?:err|error|failure|returned|status|code):? ?\(?999\b"
            r"|cuda runtime error \(30\)|cudaGetDeviceCount returned (?:30|999)\b"
        ),
        title="CUDA could not be initialised, and does not say why",
        modifiers=(
            Modifier("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 12),
            Modifier("gpu-none", Cause.NO_DRIVER, 25),
            Modifier("driver-none", Cause.NO_DRIVER, 40),
            Modifier("container", Cause.DEVICE_NODE_MISSING, 3),
            Modifier("container", Cause.CONTAINER_CGROUP_LOST_GPU, 5),
            Modifier("container", Cause.SUSPEND_RESUME_LOST_GPU, 0.4),
            Modifier("server-gpu", Cause.SUSPEND_RESUME_LOST_GPU, 0.15),
            Modifier("server-gpu", Cause.CUDA_INITIALIZATION_FAILED, 2),
            Modifier("windows", Cause.SUSPEND_RESUME_LOST_GPU, 0.3),
            Modifier("cupy-device-init", Cause.NO_DRIVER, 6),
            Modifier("cupy-device-init", Cause.SUSPEND_RESUME_LOST_GPU, 0.6),
        ),
        decisive_fact="whether the machine has slept since it was started, and whether /dev/nvidia-uvm is there",
    ),
    Signature(
        "cuda.initialization",
        _RUNTIME,
        ("initialization error", "cudaerrorinitializationerror", "cuda_error_not_initialized"),
        ((Cause.FORK_AFTER_CUDA_INIT, 0.58), (Cause.CUDA_INITIALIZATION_FAILED, 0.25)),
        _SOURCE,
        pattern=(
            r"cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED"
            r"|(?<!cli: )(?<!-container-cli: )(?:\.\.\. |cuda|CuPy|cuInit|\bcu(?-i:[A-Z])\w).{0,120}\binitialization error\b(?!:)"
        ),
        title="CUDA cannot be initialised in this process",
        modifiers=(
            Modifier("multiprocessing", Cause.FORK_AFTER_CUDA_INIT, 8),
            Modifier("windows", Cause.FORK_AFTER_CUDA_INIT, 0.1),  # there is no fork
            Modifier("windows", Cause.CUDA_INITIALIZATION_FAILED, 3),
        ),
        decisive_fact="whether the process was forked by one that had used CUDA",
    ),
    Signature(
        "cuda.forked",
        "torch, numba and JAX",
        ("forked subprocess", "before forking", "os.fork()"),
        ((Cause.FORK_AFTER_CUDA_INIT, 0.95),),
        "torch/cuda/__init__.py; numba/cuda/cudadrv/driver.py; jax/_src/xla_bridge.py",
        pattern=r"re-initialize CUDA in forked|CUDA (?:was )?initialized before forking",
        title="A forked child uses the CUDA context of its parent",
    ),
    Signature(
        "cuda.stub",
        _RUNTIME,
        ("driver is a stub library", "cudaerrorstublibrary", "cuda_error_stub_library"),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.93),),
        _SOURCE,
        pattern=r"is a stub library|cudaErrorStubLibrary|CUDA_ERROR_STUB_LIBRARY",
        title="The toolkit's stub of libcuda was loaded in place of the driver's",
    ),
    Signature(
        "cuda.stub-of-library",
        "CUDA's libraries and NVML",
        ("using the stub version of", "in gdk package is a stub library", "library at wrong path"),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.86),),
        "cupy/cupy#1034, NVRTC's stub; openucx/ucx#9232, NVML's stub: what they print when they are called",
        pattern=(
            r"You are running using the stub version of (?P<library>(?-i:[a-z]+))|libnvidia-ml\.so in GDK package is a stub library"
            r"|Linked to libnvidia-ml library at wrong path"
        ),
        title="A library that is there to link against was loaded in place of the real one",
    ),
    Signature(
        "cuda.os-call",
        _RUNTIME,
        ("os call failed or operation not supported", "cudaerroroperatingsystem", "cuda_error_operating_system"),
        (
            (Cause.CUDA_INITIALIZATION_FAILED, 0.35),
            (Cause.DEVICE_NODE_PERMISSION, 0.25),
            (Cause.CONTAINER_CGROUP_LOST_GPU, 0.1),
            (Cause.WSL_LIBCUDA, 0.08),
        ),
        _SOURCE,
        modifiers=(Modifier("wsl", Cause.WSL_LIBCUDA, 12), Modifier("container", Cause.CONTAINER_CGROUP_LOST_GPU, 4)),
        decisive_fact="whether the same works as root, and outside of the container",
    ),
    Signature(
        "cuda.mps",
        _RUNTIME,
        (
            "mps control daemon",
            "mps server",
            "mps client",
            "mps_connection_failed",
            "mps_server",
            "mps_rpc",
            "mps_client",
            "mpsconnectionfailed",
        ),
        ((Cause.CUDA_INITIALIZATION_FAILED, 0.6), (Cause.GPU_BUSY, 0.12)),
        f"{_SOURCE}; NVIDIA Multi-Process Service, document",
        pattern=r"MPS (?:client|server).*(?:failed|not ready|exhausted|terminated|failure)|MPS_?CONNECTION_?FAILED|CUDA_ERROR_MPS_(?:SERVER|RPC|CLIENT)\w+|MPS control daemon",
        title="The program could not reach the Multi-Process Service",
        decisive_fact="whether nvidia-cuda-mps-control runs, as the same user and with the same CUDA_MPS_PIPE_DIRECTORY",
    ),
    Signature(
        "cuda.init-failed",
        "CUDA programs",
        (
            "cuinit",
            "initialize cuda",
            "cuda initialization",
            "initialise cuda",
            "cuda driver initialization",
            "cuda context",
        ),
        ((Cause.CUDA_INITIALIZATION_FAILED, 0.4), (Cause.NO_DRIVER, 0.1), (Cause.MIG_MISCONFIGURED, 0.05)),
        "CUDA programs that hide the code: cuInit, cudaGetDeviceCount",
        pattern=(
            rf"(?:cuInit|cuda driver initiali[sz]ation) (?:failed|returned \d)(?!{_NAMED})|(?:failed|unable|cannot|could not) to initiali[sz]e (?:the )?cuda(?!{_NAMED})"
            r"|CUDA initiali[sz]ation (?:failed|failure|error)|unable to (?:start|create) (?:a )?CUDA context"
        ),
        modifiers=(Modifier("mig", Cause.MIG_MISCONFIGURED, 20), Modifier("gpu-none", Cause.NO_DRIVER, 6)),
        decisive_fact="the code that cuInit returns: gpuenv doctor",
    ),
)
