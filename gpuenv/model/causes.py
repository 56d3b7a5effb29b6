"""The closed list of root causes. Every finding carries one; the slug names the bad state."""

from __future__ import annotations

from enum import Enum


class Cause(str, Enum):
    """A root cause: its slug is the value, and ``sentence`` says what is wrong."""

    sentence: str

    def __new__(cls, slug: str, sentence: str) -> Cause:  # noqa: PYI034 - Self needs Python 3.11
        """Keeps the sentence beside the slug."""
        cause = str.__new__(cls, slug)
        cause._value_ = slug
        cause.sentence = sentence
        return cause

    def __str__(self) -> str:
        return str(self.value)

    # driver
    NO_NVIDIA_GPU = ("no-nvidia-gpu", "the machine has no NVIDIA GPU at all")
    NO_DRIVER = (
        "no-driver",
        "an NVIDIA GPU may be there, but no NVIDIA driver is installed (no kernel module, no libcuda)",
    )
    DRIVER_MODULE_NOT_LOADED = (
        "driver-module-not-loaded",
        "the driver is installed but its kernel module is not loaded",
    )
    DRIVER_INSTALL_BROKEN = ("driver-install-broken", "parts of the driver are missing or come from different packages")
    DRIVER_KERNEL_INCOMPATIBLE = (
        "driver-kernel-incompatible",
        "the driver does not build or load on the running kernel, or Secure Boot refuses it",
    )
    NOUVEAU_LOADED = ("nouveau-loaded", "the nouveau module holds the GPU")
    DRIVER_LIBRARY_VERSION_MISMATCH = (
        "driver-library-version-mismatch",
        "kernel module and user-space library are of different versions; usually a reboot is pending",
    )
    DRIVER_TOO_OLD_FOR_CUDA = (
        "driver-too-old-for-cuda",
        "the driver is older than the CUDA runtime, library or PTX in use needs",
    )
    FORWARD_COMPAT_UNSUPPORTED = (
        "forward-compat-unsupported",
        "a cuda-compat libcuda is in use on a GPU or driver that does not allow it",
    )
    SUSPEND_RESUME_LOST_GPU = (
        "suspend-resume-lost-gpu",
        "CUDA stopped working after suspend; the uvm module must be reloaded",
    )
    DRIVER_UNRESPONSIVE = ("driver-unresponsive", "a call into the driver hangs or crashes")
    CUDA_INITIALIZATION_FAILED = (
        "cuda-initialization-failed",
        "NVML answers, but CUDA cannot be initialised and no more precise cause is known",
    )
    SOURCES_DISAGREE = ("sources-disagree", "nvidia-smi, NVML, libcuda and the kernel tell different stories")
    # gpu
    GPU_REMOVED_FROM_DRIVER = (
        "gpu-removed-from-driver",
        "this driver branch no longer supports the GPU; an older branch does",
    )
    GPU_TOO_NEW_FOR_DRIVER = ("gpu-too-new-for-driver", "the driver branch is older than the GPU")
    GPU_REMOVED_FROM_TOOLKIT = (
        "gpu-removed-from-toolkit",
        "the GPU is older than this CUDA major version compiles for",
    )
    GPU_TOO_NEW_FOR_TOOLKIT = ("gpu-too-new-for-toolkit", "the GPU is newer than this CUDA toolkit (NVRTC, nvcc) knows")
    GPU_TOO_OLD_FOR_ANY_DRIVER = ("gpu-too-old-for-any-driver", "no maintained driver branch supports the GPU any more")
    CUPY_TOO_OLD_FOR_GPU = ("cupy-too-old-for-gpu", "the toolkit knows the GPU, the CuPy release does not")
    NO_KERNEL_IMAGE = ("no-kernel-image", "a binary holds no code for this GPU")
    BUILD_ARCH_LIST_UNSUPPORTED = (
        "build-arch-list-unsupported",
        "a build names an architecture that the compiler does not know",
    )
    COMPUTE_MODE_EXCLUSIVE = ("compute-mode-exclusive", "the GPU is in exclusive-process or prohibited mode and taken")
    MIG_MISCONFIGURED = ("mig-misconfigured", "MIG is on without usable instances, or the wrong instance is named")
    FABRIC_MANAGER_NOT_RUNNING = (
        "fabric-manager-not-running",
        "an NVSwitch machine without its fabric manager (system not yet initialized)",
    )
    FABRIC_MANAGER_NOT_NEEDED = (
        "fabric-manager-not-needed",
        "a failed fabric manager on a machine without NVSwitch; harmless",
    )
    GPU_THROTTLED = ("gpu-throttled", "the GPU runs well below its clock or peak for heat, power or a degraded link")
    GPU_BUSY = ("gpu-busy", "other processes hold the GPU or its memory; it is not broken")
    GPU_HARDWARE_FAULT = ("gpu-hardware-fault", "ECC errors, Xid events, remapped rows, or the GPU fell off the bus")
    GPU_TEST_FAILED = (
        "gpu-test-failed",
        "work on the GPU fails or gives wrong numbers, and no more precise cause is known",
    )
    VISIBLE_DEVICES_HIDE_GPU = (
        "visible-devices-hide-gpu",
        "CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES hides every GPU or names none that exists",
    )
    VISIBLE_DEVICES_SET_TOO_LATE = ("visible-devices-set-too-late", "the variable is set after CUDA was initialised")
    INVALID_DEVICE_ORDINAL = ("invalid-device-ordinal", "the program asks for a device number that is not there")
    JETSON_TEGRA = ("jetson-tegra", "a Tegra board needs the wheels and drivers of its own platform")
    ROCM_MISMATCH = ("rocm-mismatch", "an AMD GPU or ROCm build is involved and does not fit")
    # wheel
    CUPY_NOT_INSTALLED = ("cupy-not-installed", "CuPy is not in the target environment")
    WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR = (
        "wrong-cupy-wheel-for-cuda-major",
        "the CuPy wheel line does not fit the driver or the CUDA libraries there",
    )
    MULTIPLE_CUPY_PACKAGES = ("multiple-cupy-packages", "two CuPy distributions share one environment")
    CUPY_SDIST_BUILD_FAILURE = (
        "cupy-sdist-build-failure",
        "the source distribution was built where a wheel was wanted, and failed",
    )
    CORRUPT_INSTALLATION = ("corrupt-installation", "files of a distribution are missing or changed")
    PYTHON_UNSUPPORTED = ("python-unsupported", "the interpreter has no wheel of this line")
    PLATFORM_WHEEL_MISSING = ("platform-wheel-missing", "libc, platform or architecture has no wheel of this line")
    NUMPY_INCOMPATIBLE = ("numpy-incompatible", "the NumPy there does not fit this CuPy")
    CUPY_SHADOWED = (
        "cupy-shadowed",
        "a file or folder named cupy, or cuda, that is another module is imported in its place",
    )
    MIXED_PIP_CONDA = ("mixed-pip-conda", "pip and conda each put a part of CUDA or CuPy into one environment")
    TORCH_CUPY_CONFLICT = (
        "torch-cupy-conflict",
        "another GPU framework pins CUDA libraries that this CuPy cannot share",
    )
    UNTRUSTED_PACKAGE_NAME = ("untrusted-package-name", "a distribution that is not CuPy's own bears such a name")
    CUPY_API_VERSION_INCOMPATIBLE = ("cupy-api-version-incompatible", "a library above CuPy needs another CuPy version")
    CPU_ONLY_FRAMEWORK = ("cpu-only-framework", "the GPU framework there is a CPU-only build")
    OPTIONAL_LIBRARY_MISSING = (
        "optional-library-missing",
        "cuTENSOR, NCCL, cuSPARSELt or cuDNN is asked for and not there",
    )
    OPTIONAL_LIBRARY_PROBE_MISREAD = (
        "optional-library-probe-misread",
        "a warning about an optional library is taken for a fault",
    )
    # library
    CUDA_LIBRARY_MISSING = ("cuda-library-missing", "a CUDA library that CuPy loads at run time is not found")
    CUDA_HEADERS_MISSING = ("cuda-headers-missing", "CUDA headers that run-time compilation needs are not found")
    NVRTC_BUILTINS_MISMATCH = (
        "nvrtc-builtins-mismatch",
        "NVRTC and its builtins library come from different CUDA versions",
    )
    NVRTC_OUTPUT_INVALID = ("nvrtc-output-invalid", "NVRTC produced code that the driver's linker rejects")
    CUDA_PATH_WRONG = ("cuda-path-wrong", "CUDA_PATH or CUDA_HOME points to nothing or to another version")
    LIBRARY_PATH_CONFLICT = (
        "library-path-conflict",
        "another version of a CUDA library is found first (LD_LIBRARY_PATH, ldconfig, stubs)",
    )
    LIBSTDCXX_MISMATCH = ("libstdcxx-mismatch", "the C++ runtime found first is too old")
    WINDOWS_DLL_LOAD_FAILURE = ("windows-dll-load-failure", "a DLL on which CuPy depends is not found")
    # environment
    TARGET_ENVIRONMENT_BROKEN = (
        "target-environment-broken",
        "the target interpreter cannot start (its base is gone, it crashes, it is not a Python)",
    )
    CUPY_VARIABLE_INVALID = ("cupy-variable-invalid", "a variable of CuPy's has a value that CuPy refuses")
    # container
    CONTAINER_WITHOUT_GPU = ("container-without-gpu", "the container was started without GPU access")
    CONTAINER_TOOLKIT_BROKEN = ("container-toolkit-broken", "the NVIDIA container toolkit is missing or not configured")
    CONTAINER_DRIVER_CAPABILITIES = (
        "container-driver-capabilities",
        "the container was given the GPU without the compute or utility capability",
    )
    CONTAINER_CGROUP_LOST_GPU = ("container-cgroup-lost-gpu", "a running container lost access to its device nodes")
    DEVICE_NODE_PERMISSION = ("device-node-permission", "device nodes are there but not accessible to this user")
    DEVICE_NODE_MISSING = (
        "device-node-missing",
        "a device node that CUDA needs (nvidia0, nvidiactl, nvidia-uvm) is missing",
    )
    WSL_LIBCUDA = (
        "wsl-libcuda",
        "under WSL Windows' libcuda is shadowed by a Linux one or not found by the loader, or its driver is too old",
    )
    # cache
    KERNEL_CACHE_UNWRITABLE = ("kernel-cache-unwritable", "CuPy cannot write its kernel cache")
    KERNEL_CACHE_RACE = ("kernel-cache-race", "several processes or users share one kernel cache and collide")
    # program
    OUT_OF_MEMORY = ("out-of-memory", "an allocation is larger than what is free")
    MEMORY_POOL_RETENTION = ("memory-pool-retention", "memory is held by the pool, not leaked")
    ASYNC_ERROR_SURFACED_LATE = (
        "async-error-surfaced-late",
        "the line blamed only synchronises; an earlier kernel failed",
    )
    ILLEGAL_MEMORY_ACCESS = ("illegal-memory-access", "a kernel read or wrote outside its arrays")
    INVALID_KERNEL_LAUNCH = ("invalid-kernel-launch", "grid, block or shared memory exceed the device's limits")
    STREAM_RACE = ("stream-race", "work on two streams is not ordered by an event or a synchronisation")
    IMPLICIT_HOST_DEVICE_CONVERSION = (
        "implicit-host-device-conversion",
        "host and device arrays are mixed without an explicit transfer",
    )
    CROSS_DEVICE_ARRAY = ("cross-device-array", "an array of one GPU is used on another")
    DTYPE_MISMATCH = ("dtype-mismatch", "types do not agree or precision is lost silently")
    NUMPY_SEMANTICS_DIFFERENCE = ("numpy-semantics-difference", "NumPy does it, CuPy does not or does it differently")
    FORK_AFTER_CUDA_INIT = ("fork-after-cuda-init", "a forked child uses a CUDA context of its parent")
    LIBRARY_NOT_INITIALIZED = (
        "library-not-initialized",
        "cuBLAS, cuSOLVER or another library could not create its handle",
    )
    CUFFT_PLAN_FAILURE = ("cufft-plan-failure", "a cuFFT plan could not be made")
    CUPY_BUG = ("cupy-bug", "a defect of CuPy itself, fixed in a later release or open")
    # image
    IMAGE_REQUIRES_OTHER_DRIVER = (
        "image-requires-other-driver",
        "an image demands a driver, CUDA level, brand or architecture that this machine does not have",
    )
    DOCKERFILE_FAULT = (
        "dockerfile-fault",
        "a Dockerfile or compose file would give an image or container without a working GPU stack",
    )
    # requirement
    REQUIREMENT_NOT_MET = ("requirement-not-met", "the machine is sound but not what the caller asked for")
