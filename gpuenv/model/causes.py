"""The closed list of root causes, one row each. Every finding carries one; the slug names the bad state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Fix(NamedTuple):
    """A cure: in words, as an argv list where one exists, and whether gpuenv may run it inside the target."""

    text: str
    command: tuple[str, ...] | None = None
    safe: bool = False


_REMOVE = Fix(
    "Remove every CuPy from the environment, then install the one line that fits: gpuenv resolve names it.",
    ("python", "-m", "pip", "uninstall", "cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
)
_RESOLVE = Fix("Let gpuenv name the wheel that fits the driver, the GPU and the Python.", ("gpuenv", "resolve"))
RUN_DOCTOR = Fix("Let gpuenv look at the machine itself.", ("gpuenv", "doctor"))
_BLOCKING = Fix(
    "Run once more so that each launch is waited for: the traceback then ends at the kernel that fails.",
    ("env", "CUDA_LAUNCH_BLOCKING=1", "python", "PROGRAM"),
)
_SANITIZER = Fix("Run it under the memory checker of the CUDA toolkit.", ("compute-sanitizer", "python", "PROGRAM"))
_REBOOT = Fix("Restart the machine.", ("sudo", "reboot"))
# No line is named: that of another CUDA would be a second CuPy in the environment. The extra came with CuPy 14.
_CTK = Fix(
    "Install CUDA's libraries beside CuPy: the extra [ctk] of the line and release that is there, from CuPy 14 on.",
    ("gpuenv", "resolve"),
)
_DRIVER = Fix("Install a newer driver with the system's package manager, then restart.")
_SMI = Fix("See who holds the GPU and how much memory is free.", ("nvidia-smi",))
_GPUS_ALL = Fix("Start the container with access to the GPUs.", ("docker", "run", "--gpus", "all", "IMAGE"))


@dataclass(frozen=True, slots=True)
class _Row:
    slug: str
    sentence: str
    fix: tuple[Fix | str, ...]  # a text is a fix without a command
    other_host: str | None = None
    transient: bool = False
    explains: tuple[str, ...] = ()  # names of members


class Cause(str, Enum):
    """A root cause; its slug is the value.

    Attributes:
        sentence: what is wrong.
        fix: what to do about it, where no machine is at hand that would tell it more exactly.
        other_host: why the same job may succeed on another host; None where the cause goes with the job, its image or
            its environment, and would be met on every host.
        transient: whether it may pass by itself, once others have left the GPU.
    """

    sentence: str
    fix: tuple[Fix, ...]
    other_host: str | None
    transient: bool
    _explains: tuple[str, ...]

    def __new__(cls, row: _Row) -> Cause:  # noqa: PYI034 - Self needs Python 3.11
        """Keeps the row's other columns beside the slug."""
        cause = str.__new__(cls, row.slug)
        cause._value_ = row.slug
        cause.sentence = row.sentence
        cause.fix = tuple(Fix(entry) if isinstance(entry, str) else entry for entry in row.fix)
        cause.other_host = row.other_host
        cause.transient = row.transient
        cause._explains = row.explains  # noqa: SLF001 - a member being made
        return cause

    def __str__(self) -> str:
        return str(self.value)

    @property
    def explains(self) -> tuple[Cause, ...]:
        """What this cause brings about: the messages of these are its consequences, where both are in one text."""
        return tuple(Cause[name] for name in self._explains)

    # driver
    NO_NVIDIA_GPU = _Row(
        "no-nvidia-gpu",
        "the machine has no NVIDIA GPU at all",
        fix=("Use a machine, an instance type or a job that has an NVIDIA GPU.",),
        other_host="another host may have a GPU",
    )
    NO_DRIVER = _Row(
        "no-driver",
        "an NVIDIA GPU may be there, but no NVIDIA driver is installed (no kernel module, no libcuda)",
        fix=(
            "Install NVIDIA's driver with the system's package manager, then restart. No CUDA package contains it.",
            RUN_DOCTOR,
        ),
        other_host="another host may have a driver",
        explains=("CPU_ONLY_FRAMEWORK", "CUDA_INITIALIZATION_FAILED", "CONTAINER_TOOLKIT_BROKEN"),
    )
    DRIVER_MODULE_NOT_LOADED = _Row(
        "driver-module-not-loaded",
        "the driver is installed but its kernel module is not loaded",
        fix=(
            Fix("Load the module and read what the kernel says if it refuses.", ("sudo", "modprobe", "nvidia")),
            Fix("After a kernel update, build the module for this kernel.", ("sudo", "dkms", "autoinstall")),
        ),
        other_host="the host's administrator must load the module",
    )
    DRIVER_INSTALL_BROKEN = _Row(
        "driver-install-broken",
        "parts of the driver are missing or come from different packages",
        fix=("Remove every package of the driver, install one release of it whole, from one source, and restart.",),
        other_host="the host's driver must be installed again",
    )
    DRIVER_KERNEL_INCOMPATIBLE = _Row(
        "driver-kernel-incompatible",
        "the driver does not build or load on the running kernel, or Secure Boot refuses it",
        fix=(
            Fix(
                "Install the headers of the running kernel and build the module again.", ("sudo", "dkms", "autoinstall")
            ),
            "Under Secure Boot, enroll the key that signs the module (mokutil --import), or switch Secure Boot off.",
            "If the kernel is newer than the driver allows, start the former kernel or take a newer driver.",
        ),
        other_host="the host's kernel and driver must be made to fit",
        explains=("DRIVER_MODULE_NOT_LOADED", "DRIVER_INSTALL_BROKEN", "NO_DRIVER", "NOUVEAU_LOADED"),
    )
    NOUVEAU_LOADED = _Row(
        "nouveau-loaded",
        "the nouveau module holds the GPU",
        fix=("Install NVIDIA's driver, whose package blocks nouveau, and restart. With Secure Boot, enroll its key.",),
        other_host="the host must be set up for NVIDIA's driver",
        explains=("DRIVER_MODULE_NOT_LOADED", "NO_DRIVER", "DRIVER_INSTALL_BROKEN", "NO_NVIDIA_GPU"),
    )
    DRIVER_LIBRARY_VERSION_MISMATCH = _Row(
        "driver-library-version-mismatch",
        "kernel module and user-space library are of different versions; usually a reboot is pending",
        fix=(
            _REBOOT,
            "If it stays after a restart, two drivers are installed: remove the older one. Make containers anew.",
        ),
        other_host="the host waits for a restart",
        explains=(
            "CONTAINER_TOOLKIT_BROKEN",
            "DRIVER_INSTALL_BROKEN",
            "NO_DRIVER",
            "NO_NVIDIA_GPU",
            "VISIBLE_DEVICES_HIDE_GPU",
            "CUDA_INITIALIZATION_FAILED",
        ),
    )
    DRIVER_TOO_OLD_FOR_CUDA = _Row(
        "driver-too-old-for-cuda",
        "the driver is older than the CUDA runtime, library or PTX in use needs",
        fix=(_DRIVER, "Or take the CUDA and the wheel that this driver runs.", _RESOLVE),
        explains=("NVRTC_OUTPUT_INVALID", "NO_KERNEL_IMAGE"),
    )
    FORWARD_COMPAT_UNSUPPORTED = _Row(
        "forward-compat-unsupported",
        "a cuda-compat libcuda is in use on a GPU or driver that does not allow it",
        fix=(
            "Take the compat folder out of LD_LIBRARY_PATH or out of the image: this GPU does not allow it.",
            _DRIVER,
        ),
    )
    SUSPEND_RESUME_LOST_GPU = _Row(
        "suspend-resume-lost-gpu",
        "CUDA stopped working after suspend; the uvm module must be reloaded",
        fix=(
            Fix(
                "End the programs that use the GPU and load nvidia-uvm anew.", ("sudo", "modprobe", "-r", "nvidia_uvm")
            ),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia_uvm")),
            "To keep it from happening, set NVreg_PreserveVideoMemoryAllocations=1 and enable nvidia-suspend.service.",
        ),
        other_host="the host must load a module again",
        explains=("CUDA_INITIALIZATION_FAILED", "CPU_ONLY_FRAMEWORK"),
    )
    DRIVER_UNRESPONSIVE = _Row(
        "driver-unresponsive",
        "a call into the driver hangs or crashes",
        fix=("Read the kernel's log for NVRM and Xid lines, then restart.", _REBOOT),
        other_host="the host's driver hangs or crashes",
    )
    CUDA_INITIALIZATION_FAILED = _Row(
        "cuda-initialization-failed",
        "NVML answers, but CUDA cannot be initialised and no more precise cause is known",
        fix=(RUN_DOCTOR,),
        other_host="the host's driver does not start",
    )
    SOURCES_DISAGREE = _Row(
        "sources-disagree", "nvidia-smi, NVML, libcuda and the kernel tell different stories", fix=(RUN_DOCTOR,)
    )
    # gpu
    GPU_REMOVED_FROM_DRIVER = _Row(
        "gpu-removed-from-driver",
        "this driver branch no longer supports the GPU; an older branch does",
        fix=("Install the last driver branch that supports this GPU; on GPUs before Turing, not the open modules.",),
        other_host="the host's driver does not support the host's GPU",
        explains=("NO_NVIDIA_GPU", "GPU_TOO_NEW_FOR_DRIVER"),
    )
    GPU_TOO_NEW_FOR_DRIVER = _Row(
        "gpu-too-new-for-driver",
        "the driver branch is older than the GPU",
        fix=(
            _DRIVER,
            "Blackwell and later need the open kernel modules of the driver.",
        ),
        other_host="the host's driver does not support the host's GPU",
        explains=("NO_NVIDIA_GPU",),
    )
    GPU_REMOVED_FROM_TOOLKIT = _Row(
        "gpu-removed-from-toolkit",
        "the GPU is older than this CUDA major version compiles for",
        fix=(
            "Take the wheel of an older CUDA major, which still compiles for this GPU.",
            _RESOLVE,
        ),
    )
    GPU_TOO_NEW_FOR_TOOLKIT = _Row(
        "gpu-too-new-for-toolkit",
        "the GPU is newer than this CUDA toolkit (NVRTC, nvcc) knows",
        fix=("Take a wheel or a toolkit of a newer CUDA, which knows this GPU.", _RESOLVE),
    )
    GPU_TOO_OLD_FOR_ANY_DRIVER = _Row(
        "gpu-too-old-for-any-driver",
        "no maintained driver branch supports the GPU any more",
        fix=("No maintained driver supports this GPU: use another one.",),
        other_host="the host's GPU is out of support",
    )
    CUPY_TOO_OLD_FOR_GPU = _Row(
        "cupy-too-old-for-gpu",
        "the toolkit knows the GPU, the CuPy release does not",
        fix=("Install a newer CuPy, which knows this GPU.", _RESOLVE),
    )
    NO_KERNEL_IMAGE = _Row(
        "no-kernel-image",
        "a binary holds no code for this GPU",
        fix=("Install a build of that library for this GPU's compute capability, or build it with that architecture.",),
    )
    BUILD_ARCH_LIST_UNSUPPORTED = _Row(
        "build-arch-list-unsupported",
        "a build names an architecture that the compiler does not know",
        fix=(
            "Take the architecture out of the build's list (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES).",
            "Or build with a CUDA that knows it.",
        ),
    )
    COMPUTE_MODE_EXCLUSIVE = _Row(
        "compute-mode-exclusive",
        "the GPU is in exclusive-process or prohibited mode and taken",
        fix=(
            "End the program that holds the GPU, or take another GPU.",
            Fix("Or let several programs share it.", ("sudo", "nvidia-smi", "-c", "DEFAULT")),
        ),
        other_host="the host's GPU is taken",
        transient=True,
    )
    MIG_MISCONFIGURED = _Row(
        "mig-misconfigured",
        "MIG is on without usable instances, or the wrong instance is named",
        fix=(
            Fix("List the instances; name one of them in CUDA_VISIBLE_DEVICES.", ("nvidia-smi", "-L")),
            "If there is none, create one, or switch MIG off.",
        ),
        other_host="the host's GPU is partitioned without usable instances",
    )
    FABRIC_MANAGER_NOT_RUNNING = _Row(
        "fabric-manager-not-running",
        "an NVSwitch machine without its fabric manager (system not yet initialized)",
        fix=(
            Fix(
                "Start the fabric manager of the driver's version.",
                ("sudo", "systemctl", "start", "nvidia-fabricmanager"),
            ),
        ),
        other_host="the host's fabric manager must be started",
        explains=("FABRIC_MANAGER_NOT_NEEDED", "CUDA_INITIALIZATION_FAILED"),
    )
    FABRIC_MANAGER_NOT_NEEDED = _Row(
        "fabric-manager-not-needed",
        "a failed fabric manager on a machine without NVSwitch; harmless",
        fix=(
            Fix(
                "Nothing is wrong with the GPUs. The service may be switched off.",
                ("sudo", "systemctl", "disable", "--now", "nvidia-fabricmanager"),
            ),
        ),
        explains=("FABRIC_MANAGER_NOT_RUNNING",),
    )
    GPU_THROTTLED = _Row(
        "gpu-throttled",
        "the GPU runs well below its clock or peak for heat, power or a degraded link",
        fix=(Fix("See why the clock is held down.", ("nvidia-smi", "-q", "-d", "PERFORMANCE")),),
        other_host="the host's GPU is slowed down by heat, power or its link",
    )
    GPU_BUSY = _Row(
        "gpu-busy",
        "other processes hold the GPU or its memory; it is not broken",
        fix=(_SMI,),
        other_host="others use the host's GPU",
        transient=True,
    )
    GPU_HARDWARE_FAULT = _Row(
        "gpu-hardware-fault",
        "ECC errors, Xid events, remapped rows, or the GPU fell off the bus",
        fix=(
            "Read the Xid events in the kernel's log; restart, and test the GPU alone. If it comes back, replace it.",
        ),
        other_host="the host's GPU is broken",
        explains=(
            "ILLEGAL_MEMORY_ACCESS",
            "ASYNC_ERROR_SURFACED_LATE",
            "CUDA_INITIALIZATION_FAILED",
            "VISIBLE_DEVICES_HIDE_GPU",
            "SUSPEND_RESUME_LOST_GPU",
        ),
    )
    GPU_TEST_FAILED = _Row(
        "gpu-test-failed",
        "work on the GPU fails or gives wrong numbers, and no more precise cause is known",
        fix=(
            Fix("Repeat the test alone and read all that it says.", ("gpuenv", "smoke", "--only", "TEST", "-v")),
            RUN_DOCTOR,
            "Where other hosts pass with the same environment, restart this one and have its GPU looked at.",
        ),
    )
    VISIBLE_DEVICES_HIDE_GPU = _Row(
        "visible-devices-hide-gpu",
        "CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES hides every GPU or names none that exists",
        fix=(
            Fix("Unset the variable for this command.", ("env", "-u", "CUDA_VISIBLE_DEVICES", "python", "PROGRAM")),
            "Look where the shell, the job script or the program itself sets it. No driver has to be installed.",
        ),
        explains=("CPU_ONLY_FRAMEWORK", "NO_NVIDIA_GPU"),
    )
    VISIBLE_DEVICES_SET_TOO_LATE = _Row(
        "visible-devices-set-too-late",
        "the variable is set after CUDA was initialised",
        fix=("Set CUDA_VISIBLE_DEVICES in the shell, or before the first import of a GPU library.",),
        explains=("INVALID_DEVICE_ORDINAL",),
    )
    INVALID_DEVICE_ORDINAL = _Row(
        "invalid-device-ordinal",
        "the program asks for a device number that is not there",
        fix=("Use a device number below what the process sees; CUDA_VISIBLE_DEVICES numbers them anew from 0.",),
    )
    JETSON_TEGRA = _Row(
        "jetson-tegra",
        "a Tegra board needs the wheels and drivers of its own platform",
        fix=("Install what is built for this JetPack: its own wheels, or the l4t images.",),
    )
    ROCM_MISMATCH = _Row(
        "rocm-mismatch",
        "an AMD GPU or ROCm build is involved and does not fit",
        fix=("Install the build that is made for the ROCm release and the GPU that are there.",),
        explains=("NO_KERNEL_IMAGE", "CUDA_LIBRARY_MISSING", "NVRTC_OUTPUT_INVALID"),
    )
    # wheel
    CUPY_NOT_INSTALLED = _Row(
        "cupy-not-installed",
        "CuPy is not in the target environment",
        fix=("Install the wheel line that fits, into the environment that runs.", _RESOLVE),
    )
    WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR = _Row(
        "wrong-cupy-wheel-for-cuda-major",
        "the CuPy wheel line does not fit the driver or the CUDA libraries there",
        fix=(_REMOVE, _RESOLVE),
    )
    MULTIPLE_CUPY_PACKAGES = _Row(
        "multiple-cupy-packages", "two CuPy distributions share one environment", fix=(_REMOVE,)
    )
    CUPY_SDIST_BUILD_FAILURE = _Row(
        "cupy-sdist-build-failure",
        "the source distribution was built where a wheel was wanted, and failed",
        fix=(
            "Install a wheel instead of the plain name cupy, which is built from source.",
            _RESOLVE,
        ),
        explains=("CUDA_HEADERS_MISSING", "CUDA_PATH_WRONG"),
    )
    CORRUPT_INSTALLATION = _Row(
        "corrupt-installation",
        "files of a distribution are missing or changed",
        fix=(_REMOVE, "If it stays, make the environment anew."),
    )
    PYTHON_UNSUPPORTED = _Row(
        "python-unsupported",
        "the interpreter has no wheel of this line",
        fix=("Use a Python for which the line has wheels.", _RESOLVE),
    )
    PLATFORM_WHEEL_MISSING = _Row(
        "platform-wheel-missing",
        "libc, platform or architecture has no wheel of this line",
        fix=(
            "Use a platform that has wheels: Linux with a recent glibc, or Windows; there are none for macOS and musl.",
            _RESOLVE,
        ),
    )
    NUMPY_INCOMPATIBLE = _Row(
        "numpy-incompatible",
        "the NumPy there does not fit this CuPy",
        fix=(
            "Install a NumPy of the range that this CuPy asks for, or a newer CuPy.",
            RUN_DOCTOR,
        ),
    )
    CUPY_SHADOWED = _Row(
        "cupy-shadowed",
        "a file or folder named cupy, or cuda, that is another module is imported in its place",
        fix=(
            "Rename the file or folder named cupy that Python finds first, and remove its __pycache__.",
            RUN_DOCTOR,
        ),
    )
    MIXED_PIP_CONDA = _Row(
        "mixed-pip-conda",
        "pip and conda each put a part of CUDA or CuPy into one environment",
        fix=("Take CuPy and CUDA from one of the two, pip or conda, in a fresh environment.",),
    )
    TORCH_CUPY_CONFLICT = _Row(
        "torch-cupy-conflict",
        "another GPU framework pins CUDA libraries that this CuPy cannot share",
        fix=(
            "Take the CuPy line of the CUDA major that the other framework brings: cupy-cuda13x beside CUDA 13 wheels.",
            RUN_DOCTOR,
        ),
    )
    UNTRUSTED_PACKAGE_NAME = _Row(
        "untrusted-package-name",
        "a distribution that is not CuPy's own bears such a name",
        fix=("Remove it; CuPy's own wheels are cupy-cuda12x and cupy-cuda13x.", _RESOLVE),
    )
    CUPY_API_VERSION_INCOMPATIBLE = _Row(
        "cupy-api-version-incompatible",
        "a library above CuPy needs another CuPy version",
        fix=("Install the CuPy release that the library above it was written for.",),
        explains=("CUPY_NOT_INSTALLED", "CUPY_SDIST_BUILD_FAILURE"),
    )
    CPU_ONLY_FRAMEWORK = _Row(
        "cpu-only-framework",
        "the GPU framework there is a CPU-only build",
        fix=("Install the build of the framework that has CUDA, for the driver's CUDA level.",),
        explains=("NO_DRIVER",),
    )
    OPTIONAL_LIBRARY_MISSING = _Row(
        "optional-library-missing",
        "cuTENSOR, NCCL, cuSPARSELt or cuDNN is asked for and not there",
        fix=("Install the library for CuPy's CUDA major, with pip (nvidia-nccl-cu12, cutensor-cu12) or conda.",),
    )
    OPTIONAL_LIBRARY_PROBE_MISREAD = _Row(
        "optional-library-probe-misread",
        "a warning about an optional library is taken for a fault",
        fix=("Nothing has to be done unless the program uses that library.",),
    )
    # library
    CUDA_LIBRARY_MISSING = _Row(
        "cuda-library-missing",
        "a CUDA library that CuPy loads at run time is not found",
        fix=(_CTK, "Or install a CUDA toolkit of the wheel's major and name it in CUDA_PATH."),
    )
    CUDA_HEADERS_MISSING = _Row(
        "cuda-headers-missing",
        "CUDA headers that run-time compilation needs are not found",
        fix=(
            _CTK,
            "Or install the headers of NVRTC's minor: nvidia-cuda-runtime, conda's cuda-cudart-dev, or a devel image.",
        ),
    )
    NVRTC_BUILTINS_MISMATCH = _Row(
        "nvrtc-builtins-mismatch",
        "NVRTC and its builtins library come from different CUDA versions",
        fix=(
            "Keep one CUDA: NVRTC and its builtins from one folder. Unset LD_LIBRARY_PATH, or remove one of the two.",
            RUN_DOCTOR,
        ),
        explains=("CUPY_BUG", "LIBRARY_PATH_CONFLICT", "CUDA_LIBRARY_MISSING"),
    )
    NVRTC_OUTPUT_INVALID = _Row(
        "nvrtc-output-invalid",
        "NVRTC produced code that the driver's linker rejects",
        fix=("Bring NVRTC, nvJitLink and the driver to versions that fit.", RUN_DOCTOR),
    )
    CUDA_PATH_WRONG = _Row(
        "cuda-path-wrong",
        "CUDA_PATH or CUDA_HOME points to nothing or to another version",
        fix=(
            Fix(
                "Let CUDA_PATH name the root of the toolkit in use.",
                ("env", "CUDA_PATH=/usr/local/cuda", "python", "PROGRAM"),
            ),
        ),
    )
    LIBRARY_PATH_CONFLICT = _Row(
        "library-path-conflict",
        "another version of a CUDA library is found first (LD_LIBRARY_PATH, ldconfig, stubs)",
        fix=(
            Fix("Try it without the variable.", ("env", "-u", "LD_LIBRARY_PATH", "python", "PROGRAM")),
            RUN_DOCTOR,
        ),
        explains=("CUDA_LIBRARY_MISSING",),
    )
    LIBSTDCXX_MISMATCH = _Row(
        "libstdcxx-mismatch",
        "the C++ runtime found first is too old",
        fix=("Let the environment's libstdc++ be found first, or install a newer one (conda: libstdcxx-ng).",),
    )
    WINDOWS_DLL_LOAD_FAILURE = _Row(
        "windows-dll-load-failure",
        "a DLL on which CuPy depends is not found",
        fix=("Install the CUDA toolkit of the wheel's major, or the wheel's [ctk] extra, and set CUDA_PATH.",),
    )
    # environment
    TARGET_ENVIRONMENT_BROKEN = _Row(
        "target-environment-broken",
        "the target interpreter cannot start (its base is gone, it crashes, it is not a Python)",
        fix=("Make the environment anew with an interpreter that is there.",),
    )
    CUPY_VARIABLE_INVALID = _Row(
        "cupy-variable-invalid",
        "a variable of CuPy's has a value that CuPy refuses",
        fix=(
            "Look at the variables whose names begin with CUPY_, and unset or correct the one that is refused.",
            RUN_DOCTOR,
        ),
    )
    # container
    CONTAINER_WITHOUT_GPU = _Row(
        "container-without-gpu",
        "the container was started without GPU access",
        fix=(
            _GPUS_ALL,
            "Podman: --device nvidia.com/gpu=all; Kubernetes: a limit of nvidia.com/gpu; Apptainer: --nv.",
        ),
        explains=("NO_DRIVER", "CPU_ONLY_FRAMEWORK", "CUDA_INITIALIZATION_FAILED"),
    )
    CONTAINER_TOOLKIT_BROKEN = _Row(
        "container-toolkit-broken",
        "the NVIDIA container toolkit is missing or not configured",
        fix=(
            "Install the NVIDIA container toolkit on the host with the system's package manager.",
            Fix("Configure the engine.", ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker")),
            Fix("Restart it.", ("sudo", "systemctl", "restart", "docker")),
        ),
        other_host="the host's container toolkit is missing or not configured",
    )
    CONTAINER_DRIVER_CAPABILITIES = _Row(
        "container-driver-capabilities",
        "the container was given the GPU without the compute or utility capability",
        fix=(
            Fix(
                "Start the container with the compute capability.",
                ("docker", "run", "--gpus", "all", "-e", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "IMAGE"),
            ),
        ),
    )
    CONTAINER_CGROUP_LOST_GPU = _Row(
        "container-cgroup-lost-gpu",
        "a running container lost access to its device nodes",
        fix=("Start the container again; use CDI, or name the device nodes, to keep it from happening.",),
        other_host="the container has lost its GPU on this host",
    )
    DEVICE_NODE_PERMISSION = _Row(
        "device-node-permission",
        "device nodes are there but not accessible to this user",
        fix=("Add the user to the group that owns /dev/nvidia* (often video), and log in again.",),
        other_host="the host's device nodes are closed to this user",
        explains=("DEVICE_NODE_MISSING", "VISIBLE_DEVICES_HIDE_GPU"),
    )
    DEVICE_NODE_MISSING = _Row(
        "device-node-missing",
        "a device node that CUDA needs (nvidia0, nvidiactl, nvidia-uvm) is missing",
        fix=(Fix("Make the nodes.", ("sudo", "nvidia-modprobe", "-c", "0", "-u")),),
        other_host="the host lacks device nodes of its driver",
    )
    WSL_LIBCUDA = _Row(
        "wsl-libcuda",
        "under WSL Windows' libcuda is shadowed by a Linux one or not found by the loader, or its driver is too old",
        fix=(
            "Remove every NVIDIA driver package inside WSL: the driver belongs to Windows.",
            Fix("Let the loader find it.", ("env", "LD_LIBRARY_PATH=/usr/lib/wsl/lib", "python", "PROGRAM")),
            "If the driver of Windows is old, update it there, and restart WSL: wsl --shutdown.",
        ),
    )
    # cache
    KERNEL_CACHE_UNWRITABLE = _Row(
        "kernel-cache-unwritable",
        "CuPy cannot write its kernel cache",
        fix=(
            Fix(
                "Name a folder that this user may write.",
                ("env", "CUPY_CACHE_DIR=/tmp/cupy-cache-of-this-user", "python", "PROGRAM"),
            ),
        ),
    )
    KERNEL_CACHE_RACE = _Row(
        "kernel-cache-race",
        "several processes or users share one kernel cache and collide",
        fix=("Give each user or process a cache of its own with CUPY_CACHE_DIR, or set CUPY_CACHE_IN_MEMORY=1.",),
    )
    # program
    OUT_OF_MEMORY = _Row(
        "out-of-memory",
        "an allocation is larger than what is free",
        fix=(_SMI, "Work in smaller pieces, or free the pool: mempool.free_all_blocks()."),
        explains=(
            "LIBRARY_NOT_INITIALIZED",
            "CUFFT_PLAN_FAILURE",
            "MEMORY_POOL_RETENTION",
            "ASYNC_ERROR_SURFACED_LATE",
        ),
    )
    MEMORY_POOL_RETENTION = _Row(
        "memory-pool-retention",
        "memory is held by the pool, not leaked",
        fix=("Free what the pool holds before the large allocation: mempool.free_all_blocks(); raise its limit.",),
    )
    ASYNC_ERROR_SURFACED_LATE = _Row(
        "async-error-surfaced-late",
        "the line blamed only synchronises; an earlier kernel failed",
        fix=(_BLOCKING, _SANITIZER),
    )
    ILLEGAL_MEMORY_ACCESS = _Row(
        "illegal-memory-access",
        "a kernel read or wrote outside its arrays",
        fix=(_SANITIZER, _BLOCKING),
        explains=("LIBRARY_NOT_INITIALIZED", "CUFFT_PLAN_FAILURE"),
    )
    INVALID_KERNEL_LAUNCH = _Row(
        "invalid-kernel-launch",
        "grid, block or shared memory exceed the device's limits",
        fix=("Launch with at most 1024 threads a block, and less shared memory; above 48 KiB ask for it explicitly.",),
    )
    STREAM_RACE = _Row(
        "stream-race",
        "work on two streams is not ordered by an event or a synchronisation",
        fix=("Order the streams with an event: stream.wait_event(event), or synchronize.",),
    )
    IMPLICIT_HOST_DEVICE_CONVERSION = _Row(
        "implicit-host-device-conversion",
        "host and device arrays are mixed without an explicit transfer",
        fix=("Convert explicitly: cupy.asarray(x) to the GPU, cupy.asnumpy(x) or x.get() to the host.",),
    )
    CROSS_DEVICE_ARRAY = _Row(
        "cross-device-array",
        "an array of one GPU is used on another",
        fix=("Work inside 'with cupy.cuda.Device(n)' of the array's device, or copy it there with cupy.asarray.",),
    )
    DTYPE_MISMATCH = _Row(
        "dtype-mismatch",
        "types do not agree or precision is lost silently",
        fix=("Convert to one dtype with astype; hand scalars to kernels as numpy.float32(x).",),
    )
    NUMPY_SEMANTICS_DIFFERENCE = _Row(
        "numpy-semantics-difference",
        "NumPy does it, CuPy does not or does it differently",
        fix=("Read 'Differences between CuPy and NumPy' and the comparison table in CuPy's documentation.",),
    )
    FORK_AFTER_CUDA_INIT = _Row(
        "fork-after-cuda-init",
        "a forked child uses a CUDA context of its parent",
        fix=("Start the workers with the method spawn: multiprocessing.set_start_method('spawn').",),
        explains=("CUDA_INITIALIZATION_FAILED",),
    )
    LIBRARY_NOT_INITIALIZED = _Row(
        "library-not-initialized",
        "cuBLAS, cuSOLVER or another library could not create its handle",
        fix=(
            _SMI,
            "Look whether the GPU's memory is full, and which library is loaded.",
            RUN_DOCTOR,
        ),
    )
    CUFFT_PLAN_FAILURE = _Row(
        "cufft-plan-failure",
        "a cuFFT plan could not be made",
        fix=("Take a smaller batch or a size with small prime factors; free memory; empty the plan cache.",),
    )
    CUPY_BUG = _Row(
        "cupy-bug",
        "a defect of CuPy itself, fixed in a later release or open",
        fix=("Upgrade to the newest release of the line; if it stays, report it to CuPy.",),
    )
    # image
    IMAGE_REQUIRES_OTHER_DRIVER = _Row(
        "image-requires-other-driver",
        "an image demands a driver, CUDA level, brand or architecture that this machine does not have",
        fix=(_DRIVER, "Or use an image of an older CUDA, which this driver serves."),
        explains=("CONTAINER_TOOLKIT_BROKEN", "DRIVER_TOO_OLD_FOR_CUDA"),
    )
    DOCKERFILE_FAULT = _Row(
        "dockerfile-fault",
        "a Dockerfile or compose file would give an image or container without a working GPU stack",
        fix=("Mend the file: an image tag that exists, the present signing key, devices with capabilities: [gpu].",),
    )
    # requirement
    REQUIREMENT_NOT_MET = _Row(
        "requirement-not-met",
        "the machine is sound but not what the caller asked for",
        fix=("Use a machine that meets the requirement.",),
    )
