"""Errors of the CUDA runtime and of the driver API: by enumerator and by the string that the library gives.

The strings are those of libcudart 12.9 and 13 (cudaGetErrorString) and of libcuda (cuGetErrorString); the enumerators
those of driver_types.h and cuda.h of CUDA 13.0. Older numbers are of the runtime before CUDA 10.1.
"""

from __future__ import annotations

from gpuenv.explain.records import Signature, Sway
from gpuenv.model.causes import Cause

_RUNTIME = "CUDA runtime and driver API"
_SOURCE = "libcudart, cudaGetErrorString; driver_types.h and cuda.h of CUDA 13.0"

_NO_DEVICE_SWAYS = (
    Sway("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 40),
    Sway("wsl", Cause.WSL_LIBCUDA, 25),
    Sway("!wsl", Cause.WSL_LIBCUDA, 0.5),
    Sway("container", Cause.CONTAINER_WITHOUT_GPU, 9),
    Sway("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
    Sway("driver-none", Cause.NO_DRIVER, 15),
    Sway("gpu-none", Cause.NO_NVIDIA_GPU, 15),
    Sway("gpu-none", Cause.NO_DRIVER, 3),
    Sway("nouveau", Cause.NOUVEAU_LOADED, 30),
    Sway("jetson", Cause.DEVICE_NODE_PERMISSION, 5),
    Sway("driver-not-running", Cause.DRIVER_MODULE_NOT_LOADED, 5),
    Sway("compat", Cause.FORWARD_COMPAT_UNSUPPORTED, 20),
    Sway("mig", Cause.MIG_MISCONFIGURED, 15),
    Sway("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 10),
)

SIGNATURES = (
    Signature(
        "cuda.no-device",
        _RUNTIME,
        ("no cuda-capable device", "cudaerrornodevice", "cuda_error_no_device", "cudagetdevicecount returned"),
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
        _SOURCE,
        pattern=(
            r"(?<!error: )cudaErrorNoDevice|CUDA_ERROR_NO_DEVICE|(?<!cuda error: )no CUDA-capable device is detected"
            r"|cudaGetDeviceCount returned (?:38|100)\b"
        ),
        title="CUDA sees no GPU",
        sways=_NO_DEVICE_SWAYS,
        decides="what nvidia-smi -L lists in the same shell, and the value of CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "cuda.insufficient-driver",
        _RUNTIME,
        ("driver version is insufficient", "cudaerrorinsufficientdriver", "cudagetdevicecount returned 35"),
        (
            (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.62),
            (Cause.NO_DRIVER, 0.22),
            (Cause.CONTAINER_WITHOUT_GPU, 0.06),
            (Cause.LIBRARY_PATH_CONFLICT, 0.03),
        ),
        f"{_SOURCE}; a cudart 12 answers the same where there is no driver at all",
        pattern=r"driver version is insufficient for CUDA runtime|cudaErrorInsufficientDriver|cudaGetDeviceCount returned 35",
        title="The CUDA runtime found no driver that is new enough",
        sways=(
            Sway("driver-older", Cause.DRIVER_TOO_OLD_FOR_CUDA, 15),
            Sway("driver-newer", Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.2),
            Sway("driver-newer", Cause.LIBRARY_PATH_CONFLICT, 6),
            Sway("driver-none", Cause.NO_DRIVER, 25),
            Sway("gpu-none", Cause.NO_DRIVER, 5),
            Sway("container", Cause.CONTAINER_WITHOUT_GPU, 3),
            Sway("host", Cause.CONTAINER_WITHOUT_GPU, 0.1),
            Sway("wsl", Cause.WSL_LIBCUDA, 5),
        ),
        decides="the driver's version: --assume driver=VERSION, or driver=none",
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
        "cuda.unsupported-ptx",
        _RUNTIME,
        ("compiled with an unsupported toolchain", "unsupported_ptx_version", "unsupportedptxversion"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.9), (Cause.LIBRARY_PATH_CONFLICT, 0.04)),
        _SOURCE,
        title="The PTX is of a newer CUDA than this driver reads",
    ),
    Signature(
        "cuda.ptx-version",
        "ptxas in the driver",
        ("unsupported .version",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.95),),
        "libnvidia-ptxjitcompiler and ptxas, the strings of the binaries",
        pattern=r"Unsupported \.version (?P<ptx>[\d.]+)(?:; current version is '(?P<known>[\d.]+)')?",
        title="The PTX is of version {ptx}, newer than this driver reads",
    ),
    Signature(
        "cuda.system-not-ready",
        _RUNTIME,
        ("system not yet initialized", "systemnotready", "system_not_ready", "error 802", "returned 802"),
        ((Cause.FABRIC_MANAGER_NOT_RUNNING, 0.88), (Cause.DRIVER_KERNEL_INCOMPATIBLE, 0.06)),
        _SOURCE,
        pattern=r"system not yet initialized|SYSTEM_?NOT_?READY|(?:error|returned) \(?802\b",
        title="CUDA waits for the NVSwitch fabric to be set up",
        mark="system-not-ready",
        sways=(Sway("container", Cause.FABRIC_MANAGER_NOT_RUNNING, 1.2),),
        decides="whether the GPU is on an NVSwitch board, and the state of nvidia-fabricmanager on the host",
    ),
    Signature(
        "cuda.system-driver-mismatch",
        _RUNTIME,
        ("unsupported display driver", "systemdrivermismatch", "system_driver_mismatch", "error 803", "returned 803"),
        ((Cause.DRIVER_LIBRARY_VERSION_MISMATCH, 0.78), (Cause.FORWARD_COMPAT_UNSUPPORTED, 0.1)),
        _SOURCE,
        pattern=r"unsupported display driver|SYSTEM_?DRIVER_?MISMATCH|(?:error|returned) \(?803\b",
        title="libcuda does not belong to the loaded kernel module",
        sways=(
            Sway("compat", Cause.FORWARD_COMPAT_UNSUPPORTED, 15),
            Sway("container", Cause.FORWARD_COMPAT_UNSUPPORTED, 2),
        ),
        decides="whether a libcuda of cuda-compat is loaded: LD_LIBRARY_PATH, /usr/local/cuda/compat",
    ),
    Signature(
        "cuda.compat-not-supported",
        _RUNTIME,
        ("forward compatibility was attempted", "compatnotsupportedondevice", "compat_not_supported_on", "error 804"),
        ((Cause.FORWARD_COMPAT_UNSUPPORTED, 0.95),),
        _SOURCE,
        pattern=r"forward compatibility was attempted|COMPAT_?NOT_?SUPPORTED_?ON_?DEVICE|error \(?804\b",
        title="A libcuda of cuda-compat is in use on a GPU that does not allow it",
    ),
    Signature(
        "cuda.devices-unavailable",
        _RUNTIME,
        (
            "devices are busy or unavailable",
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
        pattern=r"cuda(?:-capable)? device(?:s|\(s\))? (?:is/)?are busy or unavailable|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE",
        title="The GPU is there, but takes no further program",
        sways=(
            Sway("windows", Cause.COMPUTE_MODE_EXCLUSIVE, 0.12),  # WDDM knows the default mode only
            Sway("windows", Cause.DRIVER_INSTALL_BROKEN, 6),
            Sway("exclusive", Cause.COMPUTE_MODE_EXCLUSIVE, 10),
            Sway("mig", Cause.MIG_MISCONFIGURED, 10),
            Sway("wsl", Cause.DRIVER_INSTALL_BROKEN, 3),
        ),
        decides="the compute mode (nvidia-smi -q -d COMPUTE) and the processes that hold the GPU",
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
        mark="exclusive",
    ),
    Signature(
        "cuda.unknown",
        _RUNTIME,
        (
            "cuda_error_unknown",
            "cudaerrorunknown",
            "unknown_error(99",
            "cuda unknown error",
            "error 999",
            "returned 999",
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
            r"CUDA_ERROR_UNKNOWN|cudaErrorUnknown|UNKNOWN_ERROR\(99|CUDA unknown error|(?:CUDA|cuda\w*|cu[A-Z]\w+).{0,60}(?:error|returned):? \(?999\b"
            r"|cuda runtime error \(30\)|cudaGetDeviceCount returned (?:30|999)\b"
        ),
        title="CUDA could not be initialised, and does not say why",
        sways=(
            Sway("suspend", Cause.SUSPEND_RESUME_LOST_GPU, 12),
            Sway("gpu-none", Cause.NO_DRIVER, 25),
            Sway("driver-none", Cause.NO_DRIVER, 40),
            Sway("container", Cause.DEVICE_NODE_MISSING, 3),
            Sway("container", Cause.CONTAINER_CGROUP_LOST_GPU, 5),
            Sway("container", Cause.SUSPEND_RESUME_LOST_GPU, 0.4),
            Sway("server-gpu", Cause.SUSPEND_RESUME_LOST_GPU, 0.15),
            Sway("server-gpu", Cause.CUDA_INITIALIZATION_FAILED, 2),
            Sway("windows", Cause.SUSPEND_RESUME_LOST_GPU, 0.3),
            Sway("cupy-device-init", Cause.NO_DRIVER, 6),
            Sway("cupy-device-init", Cause.SUSPEND_RESUME_LOST_GPU, 0.6),
        ),
        decides="whether the machine has slept since it was started, and whether /dev/nvidia-uvm is there",
    ),
    Signature(
        "cuda.initialization",
        _RUNTIME,
        ("initialization error", "cudaerrorinitializationerror", "cuda_error_not_initialized"),
        ((Cause.FORK_AFTER_CUDA_INIT, 0.58), (Cause.CUDA_INITIALIZATION_FAILED, 0.25)),
        _SOURCE,
        pattern=(
            r"cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED"
            r"|(?<!cli: )(?<!-container-cli: )(?:\.\.\. |cuda\w*|CuPy|cuInit|cu[A-Z]\w+)\W*.{0,80}\binitialization error\b(?!:)"
        ),
        title="CUDA cannot be initialised in this process",
        sways=(
            Sway("multiprocessing", Cause.FORK_AFTER_CUDA_INIT, 8),
            Sway("windows", Cause.FORK_AFTER_CUDA_INIT, 0.1),  # there is no fork
            Sway("windows", Cause.CUDA_INITIALIZATION_FAILED, 3),
        ),
        decides="whether the process was forked by one that had used CUDA",
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
        "cuda.out-of-memory",
        _RUNTIME,
        ("out of memory", "out_of_memory", "outofmemory", "cudaerrormemoryallocation", "failed to allocate"),
        ((Cause.OUT_OF_MEMORY, 0.9), (Cause.GPU_BUSY, 0.06)),
        f"{_SOURCE}; cupy.cuda.memory.OutOfMemoryError; torch, c10/cuda/CUDACachingAllocator.cpp; XLA, bfc_allocator.cc",
        pattern=(
            r"cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory|CUDA error: out of memory|cuda(?!\.memory\.OutOf).{0,80}out[ _]of[ _]memory(?! allocating)"
            r"|(?:cupy\S*|cuda\S*)\.OutOfMemoryError(?!: Out of memory allocating)|^OutOfMemoryError: out of memory|OutOfMemoryError: CUDA"
            r"|RESOURCE_EXHAUSTED: Out of memory|failed to allocate \S+ (?:\S+ )?\(\d+ bytes\) from device|out of memory to allocate"
            r"|(?:insufficient|not enough|out of) (?:GPU|VRAM|device|video) memory|GPU (?:is )?out of memory"
        ),
        title="An allocation on the GPU is larger than what is free",
        decides="how much is free and who holds the rest: nvidia-smi",
    ),
    Signature(
        "cuda.illegal-address",
        _RUNTIME,
        ("illegal memory access", "cudaerrorillegaladdress", "cuda_error_illegal_address"),
        ((Cause.ILLEGAL_MEMORY_ACCESS, 0.48), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.46)),
        f"{_SOURCE}; CUDA C++ Programming Guide, Asynchronous Concurrent Execution, Error Checking",
        title="A kernel read or wrote outside its arrays, before the line that reports it",
        late=True,
        sways=(
            # CuPy launches kernels through the driver API: its runtime exceptions come from calls that only wait or copy.
            Sway("cupy-runtime-error", Cause.ASYNC_ERROR_SURFACED_LATE, 1.4),
            Sway("explicit-synchronize", Cause.ILLEGAL_MEMORY_ACCESS, 2.5),
            Sway("cupy-driver-error", Cause.ILLEGAL_MEMORY_ACCESS, 2),
            Sway("copy-frame", Cause.ASYNC_ERROR_SURFACED_LATE, 2.5),
            Sway("sanitizer", Cause.ILLEGAL_MEMORY_ACCESS, 10),
        ),
        decides="which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer",
    ),
    Signature(
        "cuda.launch-failure",
        _RUNTIME,
        ("unspecified launch failure", "cudaerrorlaunchfailure", "cuda_error_launch_failed"),
        ((Cause.ASYNC_ERROR_SURFACED_LATE, 0.5), (Cause.ILLEGAL_MEMORY_ACCESS, 0.38)),
        _SOURCE,
        title="A kernel that was launched earlier died",
        late=True,
        sways=(Sway("sanitizer", Cause.ILLEGAL_MEMORY_ACCESS, 10),),
        decides="which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1",
    ),
    Signature(
        "cuda.bad-code",
        _RUNTIME,
        (
            *("misaligned address", "misaligned_address", "misalignedaddress", "illegal instruction was"),
            *("illegal_instruction", "illegalinstruction", "invalid program counter", "device-side assert"),
            *("hardware stack error", "cuda_error_assert", "cudaerrorassert"),
        ),
        ((Cause.ILLEGAL_MEMORY_ACCESS, 0.6), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.28)),
        _SOURCE,
        pattern=(
            r"misaligned address|(?:CUDA_ERROR_|cudaError)(?:MISALIGNED_ADDRESS|MisalignedAddress|ILLEGAL_INSTRUCTION|IllegalInstruction|ASSERT\b|Assert\b)"
            r"|an illegal instruction was encountered|invalid program counter|device-side assert triggered|hardware stack error"
        ),
        title="A kernel used an index or address that is not allowed",
        late=True,
        decides="which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1",
    ),
    Signature(
        "cuda.invalid-configuration",
        _RUNTIME,
        (
            *("invalid configuration argument", "cudaerrorinvalidconfiguration", "too many resources requested"),
            *("launchoutofresources", "launch_out_of_resources", "too many blocks in cooperative"),
            *("cooperativelaunchtoolarge", "cooperative_launch_too_large", "uses too much shared data"),
        ),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.88), (Cause.CUPY_BUG, 0.05)),
        f"{_SOURCE}; ptxas, the strings of the binary",
        title="The launch asks for more threads, registers or shared memory than the GPU gives",
        sways=(
            Sway("cupy-own-kernel", Cause.CUPY_BUG, 20),
            Sway("cupy-own-kernel", Cause.INVALID_KERNEL_LAUNCH, 0.15),
        ),
        decides="the block size, the grid and the shared memory of the launch that fails",
    ),
    Signature(
        "cuda.invalid-value",
        _RUNTIME,
        ("cuda_error_invalid_value", "cudaerrorinvalidvalue", "cuda error: invalid argument"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.42), (Cause.CROSS_DEVICE_ARRAY, 0.08), (Cause.ILLEGAL_MEMORY_ACCESS, 0.06)),
        _SOURCE,
        title="A call was refused for one of its arguments",
        sways=(
            Sway("launch-frame", Cause.INVALID_KERNEL_LAUNCH, 6),
            Sway("copy-frame", Cause.INVALID_KERNEL_LAUNCH, 0.3),
            Sway("copy-frame", Cause.CROSS_DEVICE_ARRAY, 3),
        ),
        decides="which call it is: the last frames of the traceback",
    ),
    Signature(
        "cuda.no-kernel-image",
        _RUNTIME,
        ("no kernel image is available", "nokernelimagefordevice", "no_binary_for_gpu", "invalid device function"),
        (
            (Cause.NO_KERNEL_IMAGE, 0.6),
            (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.22),
            (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.08),
            (Cause.CUPY_TOO_OLD_FOR_GPU, 0.05),
        ),
        _SOURCE,
        pattern=(
            r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU"
            r"|cudaErrorInvalidDeviceFunction|CUDA error: invalid device function|cuda.*invalid device function"
        ),
        title="A binary holds no code for this GPU",
        sways=(
            Sway("cupy-driver-error", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 5),
            Sway("cupy-driver-error", Cause.NO_KERNEL_IMAGE, 0.4),
            Sway("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 25),
            Sway("gpu-older", Cause.GPU_REMOVED_FROM_TOOLKIT, 40),
            Sway("torch-error", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.6),
        ),
        decides="the GPU and the CUDA of the binary: --assume gpu=NAME, --assume toolkit=VERSION",
    ),
    Signature(
        "cuda.invalid-image",
        _RUNTIME,
        (
            "device kernel image is invalid",
            "cuda_error_invalid_source",
            "cuda_error_invalid_image",
            "invalidkernelimage",
        ),
        (
            (Cause.CUPY_TOO_OLD_FOR_GPU, 0.4),
            (Cause.NVRTC_OUTPUT_INVALID, 0.28),
            (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.2),
        ),
        _SOURCE,
        title="The driver refuses the code that was made for this GPU",
        sways=(Sway("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 6),),
        decides="the GPU, the CuPy release and its NVRTC: --assume gpu=NAME, --assume cupy=NAME==VERSION",
    ),
    Signature(
        "cuda.invalid-ptx",
        _RUNTIME,
        ("a ptx jit compilation failed", "cuda_error_invalid_ptx", "cudaerrorinvalidptx"),
        (
            (Cause.NVRTC_OUTPUT_INVALID, 0.55),
            (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.22),
            (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.06),
        ),
        _SOURCE,
        title="The driver could not compile the PTX",
        sways=(Sway("driver-older", Cause.DRIVER_TOO_OLD_FOR_CUDA, 6),),
        decides="what ptxas says of it, and whether the driver is older than the CUDA that wrote it",
    ),
    Signature(
        "cuda.invalid-device",
        _RUNTIME,
        ("invalid device ordinal", "cudaerrorinvaliddevice:", "cuda_error_invalid_device", "invalid device id"),
        ((Cause.INVALID_DEVICE_ORDINAL, 0.84), (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.06)),
        f"{_SOURCE}; torch/cuda/__init__.py",
        pattern=r"invalid device ordinal|cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE\b|AssertionError: Invalid device id",
        title="The program asks for a device number that is not there",
        decides="how many GPUs the process sees, and CUDA_VISIBLE_DEVICES, which numbers them anew from 0",
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
        "cuda.stub",
        _RUNTIME,
        ("driver is a stub library", "cudaerrorstublibrary", "cuda_error_stub_library", "returned 34"),
        ((Cause.LIBRARY_PATH_CONFLICT, 0.93),),
        _SOURCE,
        pattern=r"is a stub library|cudaErrorStubLibrary|CUDA_ERROR_STUB_LIBRARY|(?:cuInit|cudaGetDeviceCount) returned 34\b",
        title="The toolkit's stub of libcuda was loaded in place of the driver's",
    ),
    Signature(
        "cuda.invalid-handle",
        _RUNTIME,
        ("invalid resource handle", "invalidresourcehandle", "cuda_error_invalid_handle", "cuda_error_invalid_context"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.45), (Cause.FORK_AFTER_CUDA_INIT, 0.15), (Cause.TORCH_CUPY_CONFLICT, 0.08)),
        f"{_SOURCE}; a stream or event used on another device than the one it was made on",
        pattern=r"invalid resource handle|cudaErrorInvalidResourceHandle|CUDA_ERROR_INVALID_(?:HANDLE|CONTEXT)\b|cudaErrorDeviceUninitialized",
        title="A stream, event or module is used on another device or in another context than its own",
        sways=(Sway("multiprocessing", Cause.FORK_AFTER_CUDA_INIT, 6),),
        decides="which device is current there, and which one the stream or array was made on",
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
        "cuda.timeout",
        _RUNTIME,
        ("launch timed out and was terminated", "cudaerrorlaunchtimeout", "cuda_error_launch_timeout"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.4), (Cause.GPU_BUSY, 0.15), (Cause.ASYNC_ERROR_SURFACED_LATE, 0.15)),
        f"{_SOURCE}; cudaDevAttrKernelExecTimeout: a GPU that drives a screen has a run-time limit on kernels",
        title="A kernel ran longer than a GPU with a screen allows",
        late=True,
        decides="whether the GPU drives a screen",
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
        sways=(Sway("wsl", Cause.WSL_LIBCUDA, 12), Sway("container", Cause.CONTAINER_CGROUP_LOST_GPU, 4)),
        decides="whether the same works as root, and outside of the container",
    ),
    Signature(
        "cuda.mps",
        _RUNTIME,
        ("mps control daemon", "mps server", "mps client", "mps_connection_failed", "mpsconnectionfailed"),
        ((Cause.CUDA_INITIALIZATION_FAILED, 0.6), (Cause.GPU_BUSY, 0.12)),
        f"{_SOURCE}; NVIDIA Multi-Process Service, document",
        pattern=r"MPS (?:client|server).*(?:failed|not ready|exhausted|terminated|failure)|MPS_?CONNECTION_?FAILED|MPS control daemon",
        title="The program could not reach the Multi-Process Service",
        decides="whether nvidia-cuda-mps-control runs, as the same user and with the same CUDA_MPS_PIPE_DIRECTORY",
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
            r"(?:cuInit|cuda driver initiali[sz]ation) (?:failed|returned \d)|(?:failed|unable|cannot|could not) to initiali[sz]e (?:the )?cuda"
            r"|CUDA initiali[sz]ation (?:failed|failure|error)|unable to (?:start|create) (?:a )?CUDA context"
        ),
        sways=(Sway("mig", Cause.MIG_MISCONFIGURED, 20), Sway("gpu-none", Cause.NO_DRIVER, 6)),
        decides="the code that cuInit returns: gpuenv doctor",
    ),
    Signature(
        "cuda.set-too-late",
        "torch, TensorFlow and CUDA programs",
        ("after being initialized", "active in this process", "cuda_visible_devices", "visible devices"),
        ((Cause.VISIBLE_DEVICES_SET_TOO_LATE, 0.82),),
        "tensorflow/python/eager/context.py; cudaErrorSetOnActiveProcess; program logs",
        pattern=(
            r"(?:visible|physical|virtual) devices cannot be modified after being initialized|cannot set while device is active"
            r"|CUDA_VISIBLE_DEVICES.{0,80}(?:too late|no effect|already (?:been )?initiali[sz]ed|after (?:CUDA|torch|cupy)|ignored)"
        ),
        title="The devices were chosen after CUDA had been initialised",
    ),
)
